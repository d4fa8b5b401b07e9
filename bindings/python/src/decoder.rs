//! Responses read: from text, from complete bytes, from pieces.

use std::collections::HashMap;

use callweave::dialect::{self, ExtractOptions, TextStart};
use callweave::event::{Event, EventKind, EventSink, Sink};
use callweave::framing::StreamLimits;
use callweave::json::partial::PartialValue;
use callweave::message::BlockContent;
use callweave::pipeline::{self, DecoderBuilder};
use callweave::{Accumulator, Error};
use pyo3::intern;
use pyo3::prelude::*;

use crate::bytes_like::{BytesLike, BytesOrText, LARGE};
use crate::error::raise;
use crate::event::to_python;
use crate::message::Message;
use crate::tools::ToolsLike;
use crate::typed::AnyEvent;
use crate::{json, protocols};

/// The options for reading responses, as keyword arguments have them.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) protocol: Option<String>,
    pub(crate) dialect: Option<String>,
    pub(crate) tools: Option<ToolsLike>,
    pub(crate) repair: bool,
    pub(crate) coerce: bool,
    pub(crate) validate: bool,
}

impl Reading {
    pub(crate) fn builder(self, py: Python<'_>) -> PyResult<DecoderBuilder> {
        let mut builder = pipeline::Decoder::builder();
        if let Some(name) = self.protocol.as_deref().filter(|name| *name != "auto") {
            builder = builder.protocol(protocols::named(py, name)?);
        }
        if let Some(name) = self.dialect.as_deref().filter(|name| *name != "none") {
            // An unknown name is an error here, not at the first bytes.
            builder = builder.dialect(ExtractOptions::new(name).map_err(|error| raise(py, &error))?);
        }
        builder = builder.tools(ToolsLike::ready(self.tools));
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
/// >>> properties = {"at": {"type": "string"}, "times": {"type": "integer"}}
/// >>> tools = [{"name": "look", "parameters": {"type": "object", "properties": properties}}]
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
    tools: Option<ToolsLike>,
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

/// Decodes a complete response, streamed or not, of any protocol. Of several responses it is the first, with a notice.
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
    tools: Option<ToolsLike>,
    repair: bool,
    coerce: bool,
    validate: bool,
) -> PyResult<Message> {
    let reading = Reading { protocol, dialect, tools, repair, coerce, validate };
    let (mut responses, protocol) = read(py, data.as_slice(), reading)?;
    Ok(Message::new(responses.take(), protocol))
}

/// Decodes all responses of an input: several bodies or streams, one after the other.
///
/// >>> body = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
/// >>> [message.text for message in decode_all(body)]
/// ['Hello']
#[pyfunction]
#[pyo3(signature = (data, *, protocol=None, dialect=None, tools=None, repair=false, coerce=false, validate=false))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn decode_all(
    py: Python<'_>,
    data: BytesOrText<'_>,
    protocol: Option<String>,
    dialect: Option<String>,
    tools: Option<ToolsLike>,
    repair: bool,
    coerce: bool,
    validate: bool,
) -> PyResult<Vec<Message>> {
    let reading = Reading { protocol, dialect, tools, repair, coerce, validate };
    let (mut responses, protocol) = read(py, data.as_slice(), reading)?;
    Ok(responses.take_all().into_iter().map(|message| Message::new(message, protocol)).collect())
}

type Responses = (Accumulator, Option<&'static callweave::Protocol>);

fn read(py: Python<'_>, bytes: &[u8], reading: Reading) -> PyResult<Responses> {
    let builder = reading.builder(py)?;
    let read = || {
        let mut decoder = builder.build();
        let mut responses = Accumulator::new();
        decoder.push(bytes, &mut responses)?;
        decoder.finish(&mut responses)?;
        Ok((responses, decoder.protocol()))
    };
    let read = if bytes.len() < LARGE { read() } else { py.detach(read) };
    read.map_err(|error| raise(py, &error))
}

/// Bytes of a response, split anywhere, in; typed events, and one message, out.
///
/// >>> decoder = Decoder()
/// >>> for piece in [b'data: {"choices":[{"delta":{"content":"Hel', b'lo"}}]}\n\ndata: [DONE]\n\n']:
/// ...     for event in decoder.push(piece):
/// ...         match event:
/// ...             case DeltaEvent("text", text):
/// ...                 print(text)
/// Hello
/// >>> _ = decoder.finish()
/// >>> decoder.message.text
/// 'Hello'
#[pyclass(module = "callweave")]
pub(crate) struct Decoder {
    inner: pipeline::Decoder,
    responses: Accumulator,
    /// The values of growing arguments, by block, and how much of their text they have taken.
    growing: HashMap<u32, (PartialValue, usize)>,
    /// The message, if it was asked for since the last bytes.
    message: Option<Py<Message>>,
}

/// Takes events apart: to Python, and into the message.
struct EventFork<'py, 'd> {
    py: Python<'py>,
    events: Vec<AnyEvent<'py>>,
    problem: Option<PyErr>,
    responses: &'d mut Accumulator,
    growing: &'d mut HashMap<u32, (PartialValue, usize)>,
}

impl<'e> Sink<Event<'e>> for EventFork<'_, '_> {
    fn put(&mut self, event: Event<'e>) {
        match to_python(self.py, &event) {
            Ok(event) => self.events.push(event),
            Err(problem) => self.problem = Some(problem),
        }
        forget(self.growing, &event);
        self.responses.put(event);
    }
}

/// Forgets the value of arguments that are replaced, or over.
fn forget(growing: &mut HashMap<u32, (PartialValue, usize)>, event: &Event<'_>) {
    match &event.body {
        EventKind::Correction { block, .. } => {
            growing.remove(&block.0);
        }
        EventKind::Start { .. } => growing.clear(),
        _ => {}
    }
}

/// The events before an error, which are valid, stay with it.
fn failed<'py>(py: Python<'py>, error: &Error, events: Vec<AnyEvent<'py>>) -> PyErr {
    let exception = raise(py, error);
    match exception.value(py).setattr(intern!(py, "events"), events) {
        Ok(()) => exception,
        Err(problem) => problem,
    }
}

impl Decoder {
    /// Lets the decoder work, and collects its events.
    fn collect<'py>(
        &mut self,
        py: Python<'py>,
        is_large: bool,
        work: impl FnOnce(&mut pipeline::Decoder, &mut EventSink<'_>) -> Result<(), Error> + Send,
    ) -> PyResult<Vec<AnyEvent<'py>>> {
        self.message = None;
        let Self { inner, responses, growing, .. } = self;
        let mut fork = EventFork { py, events: Vec::new(), problem: None, responses, growing };
        let done = if is_large {
            let (done, events) = py.detach(|| {
                let mut events: Vec<Event<'static>> = Vec::new();
                (work(inner, &mut events), events)
            });
            events.into_iter().for_each(|event| fork.put(event));
            done
        } else {
            work(inner, &mut fork)
        };
        let EventFork { events, problem, .. } = fork;
        match (done, problem) {
            (Ok(()), None) => Ok(events),
            (Ok(()), Some(problem)) => Err(problem),
            (Err(error), _) => Err(failed(py, &error, events)),
        }
    }
}

#[pymethods]
impl Decoder {
    /// A decoder. The protocol is detected unless it is given. ``dialect`` finds calls in text, ``repair``, ``coerce`` and
    /// ``validate`` make the arguments of calls fit for use.
    #[new]
    #[pyo3(signature = (
        *,
        protocol=None,
        dialect=None,
        tools=None,
        repair=false,
        coerce=false,
        validate=false,
        id_seed=None,
        max_frame_bytes=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        protocol: Option<String>,
        dialect: Option<String>,
        tools: Option<ToolsLike>,
        repair: bool,
        coerce: bool,
        validate: bool,
        id_seed: Option<String>,
        max_frame_bytes: Option<usize>,
    ) -> PyResult<Self> {
        let mut builder = Reading { protocol, dialect, tools, repair, coerce, validate }.builder(py)?;
        builder = id_seed.into_iter().fold(builder, DecoderBuilder::id_seed);
        if let Some(bytes) = max_frame_bytes {
            builder = builder.limits(StreamLimits { line: bytes, frame: bytes, ..StreamLimits::default() });
        }
        let (responses, growing) = (Accumulator::new(), HashMap::new());
        Ok(Self { inner: builder.build(), responses, growing, message: None })
    }

    /// Takes the next bytes, and returns the events that they make.
    fn push<'py>(&mut self, py: Python<'py>, data: BytesLike<'py>) -> PyResult<Vec<AnyEvent<'py>>> {
        let bytes = data.as_slice();
        self.collect(py, bytes.len() >= LARGE, |decoder, sink| decoder.push(bytes, sink))
    }

    /// Takes the next bytes for the message alone: cheaper where nobody looks at the events.
    fn feed(&mut self, py: Python<'_>, data: BytesLike<'_>) -> PyResult<()> {
        self.message = None;
        let (bytes, Self { inner, responses, .. }) = (data.as_slice(), self);
        let fed = if bytes.len() < LARGE {
            inner.push(bytes, responses)
        } else {
            py.detach(|| inner.push(bytes, responses))
        };
        fed.map_err(|error| raise(py, &error))
    }

    /// Says that no bytes will come any more, and returns the last events.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<AnyEvent<'py>>> {
        self.collect(py, false, pipeline::Decoder::finish)
    }

    /// The message so far; where the input has several responses, that of the last.
    #[getter]
    fn message<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, Message>> {
        let known = self.message.take().map(|message| message.into_bound(py));
        let message = match known {
            Some(message) => message,
            None => Bound::new(py, Message::new(self.responses.message().clone(), self.inner.protocol()))?,
        };
        self.message = Some(message.clone().unbind());
        Ok(message)
    }

    /// Takes the messages of the responses before the last. They are kept until they are taken.
    fn take_earlier(&mut self) -> Vec<Message> {
        let protocol = self.inner.protocol();
        self.responses.take_earlier().into_iter().map(|message| Message::new(message, protocol)).collect()
    }

    /// The value of a call's arguments as far as they have come, by the number of the call's block; ``None`` before there
    /// is something to show.
    ///
    /// >>> decoder = Decoder()
    /// >>> start = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":'
    /// >>> events = decoder.push(start + b'{"name":"look","arguments":"{\\"at\\": \\"the sk"}}]}}]}\n\n')
    /// >>> decoder.partial_arguments(events[-1].block)
    /// {'at': 'the sk'}
    fn partial_arguments<'py>(&mut self, py: Python<'py>, block: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let blocks = self.responses.message().choices.iter().flat_map(|choice| &choice.blocks);
        let call = blocks.filter(|own| own.id.0 == block).find_map(|own| match &own.content {
            BlockContent::ToolCall(call) => Some(call),
            _ => None,
        });
        let Some(call) = call else { return Ok(None) };
        let (value, taken) = self.growing.entry(block).or_default();
        value.push(call.raw_arguments.get(*taken..).unwrap_or_default());
        *taken = call.raw_arguments.len();
        value.value().map(|value| json::loads(py, &value.to_string())).transpose()
    }

    /// The name of the protocol, once it is known.
    #[getter]
    fn protocol(&self) -> Option<&'static str> {
        self.inner.protocol().map(|protocol| protocol.name)
    }

    /// The dialect in which something was found.
    #[getter]
    fn dialect(&self) -> Option<&str> {
        self.inner.dialect()
    }
}

/// Text of a model, split anywhere, in; typed events out: for text without a protocol around it, as local models write it.
///
/// >>> extractor = Extractor("hermes")
/// >>> events = extractor.push('<tool_call>{"name": "look", "arg')
/// >>> events += extractor.push('uments": {"at": "sky"}}</tool_call>') + extractor.finish()
/// >>> [event.name for event in events if isinstance(event, BlockStartEvent)]
/// ['look']
#[pyclass(module = "callweave")]
pub(crate) struct Extractor(dialect::Extractor);

#[pymethods]
impl Extractor {
    /// An extractor of a dialect. ``starts_in_reasoning`` says whether the prompt has opened the model's reasoning; by
    /// default the dialect knows.
    #[new]
    #[pyo3(signature = (dialect="auto", *, tools=None, starts_in_reasoning=None))]
    fn new(
        py: Python<'_>,
        dialect: &str,
        tools: Option<ToolsLike>,
        starts_in_reasoning: Option<bool>,
    ) -> PyResult<Self> {
        let mut options = ExtractOptions::new(dialect).map_err(|error| raise(py, &error))?;
        options = options.tools(ToolsLike::ready(tools));
        if let Some(is_reasoning) = starts_in_reasoning {
            options = options.starting_in(if is_reasoning { TextStart::Reasoning } else { TextStart::Text });
        }
        Ok(Self(dialect::Extractor::new(&options)))
    }

    /// Takes the next text, and returns the events whose meaning is certain.
    fn push<'py>(&mut self, py: Python<'py>, text: &str) -> PyResult<Vec<AnyEvent<'py>>> {
        collected(py, |sink| self.0.push(text, sink))
    }

    /// Says that the model has ended its response, and returns the last events.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<AnyEvent<'py>>> {
        collected(py, |sink| self.0.finish(sink))
    }

    /// The dialect being read; with several, the one that the text has settled on.
    #[getter]
    fn dialect(&self) -> Option<&str> {
        self.0.dialect()
    }
}

fn collected<'py>(py: Python<'py>, work: impl FnOnce(&mut EventSink<'_>)) -> PyResult<Vec<AnyEvent<'py>>> {
    let mut events = Vec::new();
    work(&mut |event: Event<'_>| events.push(to_python(py, &event)));
    events.into_iter().collect()
}
