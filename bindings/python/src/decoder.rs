//! Responses read: from text, from complete bytes, from pieces.

use callweave::pipeline::{self, DecoderBuilder};
use pyo3::prelude::*;

use crate::bytes_like::{BytesOrText, LARGE};
use crate::error::raise;
use crate::message::Message;
use crate::{protocols, tools};

/// The options for reading responses, as keyword arguments have them.
pub(crate) struct Reading<'py> {
    pub(crate) protocol: Option<String>,
    pub(crate) dialect: Option<String>,
    pub(crate) tools: Option<Bound<'py, PyAny>>,
    pub(crate) repair: bool,
    pub(crate) coerce: bool,
    pub(crate) validate: bool,
}

impl Reading<'_> {
    pub(crate) fn builder(&self, py: Python<'_>) -> PyResult<DecoderBuilder> {
        let mut builder = pipeline::Decoder::builder();
        if let Some(name) = self.protocol.as_deref().filter(|name| *name != "auto") {
            builder = builder.protocol(protocols::named(py, name)?);
        }
        if let Some(name) = self.dialect.as_deref().filter(|name| *name != "none") {
            // An unknown name is an error here, not at the first bytes.
            let options = callweave::dialect::ExtractOptions::new(name).map_err(|error| raise(py, &error))?;
            builder = builder.dialect(options);
        }
        builder = builder.tools(tools::tools(self.tools.as_ref())?);
        builder = if self.repair { builder.repair() } else { builder };
        builder = if self.coerce { builder.coerce() } else { builder };
        Ok(if self.validate { builder.validate() } else { builder })
    }
}

/// Finds the calls and the reasoning that a model wrote into its text.
///
/// The arguments of the calls are repaired, coerced to the schemas of the tools and checked against them: the
/// ``invalid`` of a call says whether it can be run. Without tools only markup that leaves no doubt is a call.
///
/// >>> tools = [{"name": "look", "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}}]
/// >>> message = extract("<think>Up.</think>Sure. [look(at='sky', times='2')]", tools=tools)
/// >>> message.text, message.reasoning
/// ('Sure. ', 'Up.')
/// >>> [call] = message.tool_calls
/// >>> call.name, call.object()
/// ('look', {'at': 'sky', 'times': 2})
#[pyfunction]
#[pyo3(signature = (text, tools=None, *, dialect="auto", repair=true, coerce=true, validate=true))]
pub(crate) fn extract(
    py: Python<'_>,
    text: &str,
    tools: Option<Bound<'_, PyAny>>,
    dialect: &str,
    repair: bool,
    coerce: bool,
    validate: bool,
) -> PyResult<Message> {
    let dialect = Some(dialect.to_owned());
    let builder = Reading { protocol: None, dialect, tools, repair, coerce, validate }.builder(py)?;
    let read = || builder.extract(text);
    let message = if text.len() < LARGE { read() } else { py.detach(read) };
    message.map(|message| Message::new(message, None)).map_err(|error| raise(py, &error))
}

/// Decodes a complete response, streamed or not, of any protocol.
///
/// Calls that the model wrote into its text are found with ``dialect="auto"`` or the name of a dialect.
///
/// >>> body = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
/// >>> decode(body).text
/// 'Hello'
#[pyfunction]
#[pyo3(signature = (data, *, protocol=None, dialect=None, tools=None, repair=false, coerce=false, validate=false))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn decode(
    py: Python<'_>,
    data: BytesOrText<'_>,
    protocol: Option<String>,
    dialect: Option<String>,
    tools: Option<Bound<'_, PyAny>>,
    repair: bool,
    coerce: bool,
    validate: bool,
) -> PyResult<Message> {
    let builder = Reading { protocol, dialect, tools, repair, coerce, validate }.builder(py)?;
    let bytes = data.as_slice();
    let read = || {
        let mut decoder = builder.build();
        let mut message = callweave::Accumulator::new();
        decoder.push(bytes, &mut message).and_then(|()| decoder.finish(&mut message))?;
        Ok((message.take(), decoder.protocol()))
    };
    let message = if bytes.len() < LARGE { read() } else { py.detach(read) };
    message.map(|(message, protocol)| Message::new(message, protocol)).map_err(|error| raise(py, &error))
}
