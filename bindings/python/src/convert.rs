//! Responses and requests written in another protocol; requests for models without tools of their own.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use callweave::arguments::ArgumentStage;
use callweave::dialect::DialectRegistry;
use callweave::encode::{EncodeMode, EncodeOptions};
use callweave::event::Event;
use callweave::framing::Framing;
use callweave::request::{self, RequestMode, RequestOptions, WrittenRequest};
use callweave::teach::{self as teaching, PromptOptions};
use callweave::{Accumulator, Encoder, Error, ErrorKind, Message, Protocol, pipeline};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes_like::{BytesLike, BytesOrText, LARGE};
use crate::decoder::Reading;
use crate::error::raise;
use crate::exchange::Loss;
use crate::json::{self, JsonLike};
use crate::protocols;
use crate::tools::ToolsLike;

/// Events of one protocol in, bytes of another out.
struct Conversion {
    to: &'static Protocol,
    options: EncodeOptions,
    is_normalized: bool,
    stage: ArgumentStage,
    /// The stages, once the protocol is known: calls are repaired for clients of another.
    stages: Option<(ArgumentStage, Encoder)>,
    /// Events that came before that.
    waiting: Vec<Event<'static>>,
}

impl Conversion {
    fn is_normalized(&self, from: Option<&'static Protocol>) -> bool {
        self.is_normalized || from != Some(self.to)
    }

    fn options(&self, from: Option<&'static Protocol>) -> EncodeOptions {
        let mut options = self.options.clone();
        if !self.is_normalized(from) {
            options.mode = EncodeMode::Lossless;
            return options;
        }
        options.mode = EncodeMode::Normalized;
        options.id.get_or_insert_with(|| made_id(self.to));
        options.created.get_or_insert_with(now);
        options.reporting_truncation()
    }

    /// Writes the events so far as a stream.
    fn stream(&mut self, from: Option<&'static Protocol>, out: &mut Vec<u8>) {
        let (mut stage, mut encoder) = self.ready(from);
        let mut finished: Vec<Event<'static>> = Vec::new();
        self.waiting.drain(..).for_each(|event| stage.push(event, &mut finished));
        finished.iter().for_each(|event| encoder.encode(event, out));
        self.stages = Some((stage, encoder));
    }

    fn ready(&mut self, from: Option<&'static Protocol>) -> (ArgumentStage, Encoder) {
        self.stages.take().unwrap_or_else(|| {
            let stage =
                if self.is_normalized(from) { self.stage.clone().repair() } else { self.stage.clone() };
            (stage, self.to.encoder(&self.options(from)).expect("the protocol is written"))
        })
    }

    /// Writes the rest of a stream.
    fn end(&mut self, from: Option<&'static Protocol>, out: &mut Vec<u8>) {
        self.stream(from, out);
        let (mut stage, mut encoder) = self.ready(from);
        let mut finished: Vec<Event<'static>> = Vec::new();
        stage.finish(&mut finished);
        finished.iter().for_each(|event| encoder.encode(event, out));
    }

    /// Writes all events as complete bodies.
    fn bodies(&mut self, from: Option<&'static Protocol>, out: &mut Vec<u8>) {
        let (mut stage, _) = self.ready(from);
        let mut responses = Accumulator::new();
        self.waiting.drain(..).for_each(|event| stage.push(event, &mut responses));
        stage.finish(&mut responses);
        for message in responses.take_all().iter().filter(|message| **message != Message::default()) {
            if !out.is_empty() {
                out.push(b'\n');
            }
            self.to.encode_body(message, &self.options(from), out);
        }
    }
}

/// An id for a response that has none: no other response has it.
fn made_id(protocol: &Protocol) -> String {
    let [one, two] = [0, 1].map(|half| RandomState::new().hash_one(half));
    format!("{}{one:016x}{two:016x}", protocol.response_id_prefix())
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Whether the input comes in pieces, as far as is known.
fn is_streamed(decoder: &pipeline::Decoder) -> bool {
    match decoder.framing() {
        Some(Framing::Sse | Framing::AwsEventStream) => true,
        // A body may stand in one line.
        Some(Framing::JsonLines) => decoder.frames() > 1,
        _ => false,
    }
}

/// Bytes of a streamed response, split anywhere, in; bytes of a stream in another protocol out.
///
/// >>> converter = Converter("anthropic-messages", id="msg_1")
/// >>> out = converter.push(b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n')
/// >>> out += converter.push(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
/// >>> out += converter.finish()
/// >>> out.startswith(b'event: message_start\n'), decode(out).text
/// (True, 'Hello')
#[pyclass(module = "callweave")]
pub(crate) struct Converter {
    decoder: pipeline::Decoder,
    conversion: Conversion,
}

impl Converter {
    fn take(
        &mut self,
        work: impl FnOnce(&mut pipeline::Decoder, &mut Vec<Event<'static>>) -> Result<(), Error>,
        end: impl FnOnce(&mut Conversion, Option<&'static Protocol>, &mut Vec<u8>),
    ) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let mut events = std::mem::take(&mut self.conversion.waiting);
        let done = work(&mut self.decoder, &mut events);
        self.conversion.waiting = events;
        end(&mut self.conversion, self.decoder.protocol(), &mut out);
        done.map(|()| out)
    }
}

#[pymethods]
impl Converter {
    #[new]
    #[pyo3(signature = (
        to,
        *,
        protocol=None,
        dialect=None,
        tools=None,
        coerce=false,
        validate=false,
        normalize=false,
        id=None,
        created=None,
        model=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        to: &str,
        protocol: Option<String>,
        dialect: Option<String>,
        tools: Option<ToolsLike>,
        coerce: bool,
        validate: bool,
        normalize: bool,
        id: Option<String>,
        created: Option<u64>,
        model: Option<String>,
    ) -> PyResult<Self> {
        let to = protocols::written(py, to)?;
        let mut stage = ArgumentStage::new().tools(ToolsLike::ready(tools));
        stage = if coerce { stage.coerce() } else { stage };
        stage = if validate { stage.validate() } else { stage };
        let reading = Reading { protocol, dialect, ..Reading::default() };
        let mut builder = reading.builder(py)?;
        if !stage.declared().is_empty() {
            builder = builder.tools(stage.declared().clone());
        }
        let mut options = EncodeOptions::normalized();
        (options.id, options.created, options.model) = (id, created, model);
        let (stages, waiting) = (None, Vec::new());
        let conversion = Conversion { to, options, is_normalized: normalize, stage, stages, waiting };
        Ok(Self { decoder: builder.build(), conversion })
    }

    /// Takes the next bytes, and returns those that can be sent on.
    fn push<'py>(&mut self, py: Python<'py>, data: BytesLike<'_>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = data.as_slice();
        let push =
            |decoder: &mut pipeline::Decoder, events: &mut Vec<Event<'static>>| decoder.push(bytes, events);
        let end = |conversion: &mut Conversion, from: Option<&'static Protocol>, out: &mut Vec<u8>| {
            if from.is_some() {
                conversion.stream(from, out);
            }
        };
        let out = if bytes.len() < LARGE { self.take(push, end) } else { py.detach(|| self.take(push, end)) };
        out.map(|out| PyBytes::new(py, &out)).map_err(|error| raise(py, &error))
    }

    /// Says that no bytes will come any more, and returns the last.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let out = self.take(|decoder, events| decoder.finish(events), Conversion::end);
        out.map(|out| PyBytes::new(py, &out)).map_err(|error| raise(py, &error))
    }
}

/// Writes a complete response, streamed or not, in another protocol.
///
/// ``stream`` says whether a stream is written; by default one is if one came. In the protocol in which it came, a
/// response is written as it was, unless ``normalize`` is set; in another, as its clients expect it.
///
/// >>> import json
/// >>> body = b'{"id": "c", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
/// >>> json.loads(convert(body, "anthropic-messages"))["content"]
/// [{'type': 'text', 'text': 'Hello'}]
#[pyfunction]
#[pyo3(signature = (
    data,
    to,
    *,
    stream=None,
    protocol=None,
    dialect=None,
    tools=None,
    coerce=false,
    validate=false,
    normalize=false,
    id=None,
    created=None,
    model=None,
))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    data: BytesOrText<'_>,
    to: &str,
    stream: Option<bool>,
    protocol: Option<String>,
    dialect: Option<String>,
    tools: Option<ToolsLike>,
    coerce: bool,
    validate: bool,
    normalize: bool,
    id: Option<String>,
    created: Option<u64>,
    model: Option<String>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut converter =
        Converter::new(py, to, protocol, dialect, tools, coerce, validate, normalize, id, created, model)?;
    let bytes = data.as_slice();
    let written = py.detach(|| {
        let Converter { decoder, conversion } = &mut converter;
        decoder.push(bytes, &mut conversion.waiting)?;
        decoder.finish(&mut conversion.waiting)?;
        let (mut out, from) = (Vec::new(), decoder.protocol());
        match stream.unwrap_or_else(|| is_streamed(decoder)) {
            true => conversion.end(from, &mut out),
            false => conversion.bodies(from, &mut out),
        }
        Ok(out)
    });
    written.map(|out: Vec<u8>| PyBytes::new(py, &out)).map_err(|error: Error| raise(py, &error))
}

/// A request as it is sent, and the parts of it that could not be carried.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct ConvertedRequest {
    written: WrittenRequest,
    dialect: Option<String>,
}

#[pymethods]
impl ConvertedRequest {
    /// The body, as dictionaries and lists.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.written.body)
    }

    /// The JSON text of the body.
    fn to_json(&self) -> String {
        self.written.body.to_string()
    }

    /// The parts that could not be carried.
    #[getter]
    fn losses(&self) -> Vec<Loss> {
        self.written.losses.iter().cloned().map(Loss).collect()
    }

    /// Names of tools that the provider would have refused: as they are sent, and as they were.
    #[getter]
    fn names(&self) -> Vec<(String, String)> {
        self.written.names.clone()
    }

    /// Tools of groups that are sent on their own: their names as they are sent, and the names of their groups.
    #[getter]
    fn namespaces(&self) -> Vec<(String, String)> {
        self.written.namespaces.clone()
    }

    /// Tools with free text that are sent as functions with one string, by their names as they are sent.
    #[getter]
    fn wrapped(&self) -> Vec<String> {
        self.written.wrapped.clone()
    }

    /// The dialect in which the tools are taught, if they are: responses are to be read with it.
    #[getter]
    fn dialect(&self) -> Option<&str> {
        self.dialect.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("ConvertedRequest(losses={})", self.written.losses.len())
    }
}

/// Writes the body of a request in another protocol, by the rules of a provider where many speak it.
///
/// With ``dialect`` (``auto``: that of the model) the tools are taught in the prompt.
///
/// >>> body = {"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
/// >>> request = convert_request(body, "gemini-generatecontent", protocol="anthropic-messages")
/// >>> request.body["generationConfig"], request.losses
/// ({'maxOutputTokens': 9}, [])
#[pyfunction]
#[pyo3(signature = (body, to, *, protocol, provider=None, model=None, dialect=None, normalize=false))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub(crate) fn convert_request(
    py: Python<'_>,
    body: JsonLike,
    to: &str,
    protocol: &str,
    provider: Option<String>,
    model: Option<String>,
    dialect: Option<&str>,
    normalize: bool,
) -> PyResult<ConvertedRequest> {
    let (from, to) = (protocols::named(py, protocol)?, protocols::named(py, to)?);
    let mut options = RequestOptions::default();
    options.provider = provider;
    options.model = model;
    options.mode = if normalize { RequestMode::Normalized } else { RequestMode::Lossless };
    let request = from.read_request(body.0).map_err(|error| raise(py, &error))?;
    let converted = match dialect {
        None => to
            .write_last_request(request, &options)
            .map(|written| ConvertedRequest { written, dialect: None }),
        Some(name) => taught(request, to, name, false, &options),
    };
    converted.map_err(|error| raise(py, &error))
}

/// Rewrites a request for a model that has no tools of its own, but knows a dialect: tools, past calls and their results
/// are put into words. Responses are to be read with the same dialect.
///
/// >>> tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
/// >>> body = {"model": "qwen2.5:7b", "tools": [tool], "messages": [{"role": "user", "content": "The sky?"}]}
/// >>> taught = teach(body)
/// >>> taught.dialect, "tools" in taught.body, "<tool_call>" in taught.body["messages"][0]["content"]
/// ('hermes', False, True)
#[pyfunction]
#[pyo3(signature = (body, dialect="auto", *, protocol="openai-chat", compact=false))]
pub(crate) fn teach(
    py: Python<'_>,
    body: JsonLike,
    dialect: &str,
    protocol: &str,
    compact: bool,
) -> PyResult<ConvertedRequest> {
    let protocol = protocols::named(py, protocol)?;
    let request = protocol.read_request(body.0).map_err(|error| raise(py, &error))?;
    taught(request, protocol, dialect, compact, &RequestOptions::default()).map_err(|error| raise(py, &error))
}

fn taught(
    request: request::Request,
    to: &'static Protocol,
    dialect: &str,
    is_compact: bool,
    options: &RequestOptions,
) -> Result<ConvertedRequest, Error> {
    let registry = DialectRegistry::builtin();
    let dialect = match (dialect, request.model.as_deref()) {
        ("auto", model) => {
            let unknown =
                || format!("no dialect is known for the model {:?}; name one", model.unwrap_or_default());
            let found = model.and_then(|model| registry.for_model(model));
            found.ok_or_else(|| Error::new(ErrorKind::Unknown, unknown()))?
        }
        (name, _) => {
            let unknown = || Error::new(ErrorKind::Unknown, format!("no dialect is called {name:?}"));
            registry.find(name).ok_or_else(unknown)?
        }
    };
    let prompt = PromptOptions::of(dialect)?;
    let taught = teaching::teach(request, &if is_compact { prompt.compact() } else { prompt });
    let mut written = to.write_last_request(taught.request, options)?;
    written.losses.splice(0..0, taught.losses);
    written.names.extend(taught.names);
    written.wrapped.extend(taught.wrapped);
    Ok(ConvertedRequest { written, dialect: Some(dialect.name.clone()) })
}

/// Appends to a system prompt how calls are written in a dialect, and which tools there are.
///
/// >>> prompt = augment_system_prompt("Be brief.", [{"name": "look", "parameters": {"type": "object"}}], "hermes")
/// >>> prompt.startswith("Be brief.\n\n"), "<tool_call>" in prompt
/// (True, True)
#[pyfunction]
#[pyo3(signature = (prompt, tools, dialect="fence", *, compact=false))]
pub(crate) fn augment_system_prompt(
    py: Python<'_>,
    prompt: Option<&str>,
    tools: ToolsLike,
    dialect: &str,
    compact: bool,
) -> PyResult<String> {
    let options = PromptOptions::new(dialect).map_err(|error| raise(py, &error))?;
    let options = if compact { options.compact() } else { options };
    let tools = json::parse(py, &tools.json)?;
    Ok(teaching::augment_system_prompt(prompt, &tools, &options))
}

/// The dialect of a model, by its name; ``None`` if none is known.
///
/// >>> dialect_of("Qwen2.5-7B-Instruct")
/// 'hermes'
#[pyfunction]
pub(crate) fn dialect_of(model: &str) -> Option<&'static str> {
    DialectRegistry::builtin().for_model(model).map(|dialect| dialect.name.as_str())
}
