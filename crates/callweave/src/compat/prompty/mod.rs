//! The final result of a response: text, tool calls, a structured value, vectors or images.
//!
//! [`process`] takes the complete response of a provider and returns the result that a caller wants of it;
//! [`process_stream`] does the same while the response comes. The provider and the shape of the response decide how it
//! is read; every chat goes through the one engine of this library, so streamed and complete responses of all providers
//! follow the same rules.
//!
//! - Tool calls beat text: where there are any that the caller is to run, they are the result.
//! - Argument text is passed on unchanged; arguments that are an object on the wire are written compactly.
//! - No text is `""`. A refusal is the text where there is no other.
//! - Where outputs are declared, text that is JSON is parsed; text that is not stays text.
//! - Only the first choice counts.
//!
//! ```
//! use callweave::compat::prompty::{PromptAgent, Processed, process};
//! use serde_json::json;
//!
//! let response = json!({"choices": [{"message": {"content": null, "tool_calls": [
//!     {"id": "call_1", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]}}]});
//! let Processed::ToolCalls(calls) = process(&PromptAgent::new("openai"), &response)? else { panic!() };
//! assert_eq!(calls[0].arguments(), r#"{"city": "Oslo"}"#);
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! # Traces
//!
//! With the feature `tracing` (on by default) every [`process`] writes a span `process`, and every stream that
//! came to its end, or broke off, a span `PromptyStream`; a stream that nobody reads to its end writes none.
//! Results are the same with and without. The spans go to whatever subscriber of `tracing` the program has; the
//! example `trace_process` sends them through an OpenTelemetry SDK. A subscriber that panics changes nothing.
//!
//! The attributes are those of OpenTelemetry's conventions for generative AI:
//!
//! | Attribute | |
//! |---|---|
//! | `gen_ai.provider.name` | the conventions' name of the provider, such as `azure.ai.openai` |
//! | `gen_ai.operation.name` | `chat`, `generate_content` (Gemini, images) or `embeddings` |
//! | `gen_ai.request.model`, `gen_ai.agent.name` | as the agent has them |
//! | `gen_ai.request.stream` | `true` for a stream |
//! | `gen_ai.output.type` | `json` where outputs are declared, `image` for images |
//! | `gen_ai.response.id`, `gen_ai.response.model` | as the response has them |
//! | `gen_ai.response.finish_reasons` | the provider's words, one per choice; JSON |
//! | `gen_ai.usage.input_tokens`, `gen_ai.usage.output_tokens` | and `….cache_read.input_tokens`, `….cache_creation.input_tokens`, `….reasoning.output_tokens` |
//! | `gen_ai.tool.call.id`, `gen_ai.tool.name` | of all calls, in order; JSON |
//! | `error.type` | the [`ErrorKind`] in lower case; the span's status is then an error |
//! | `signature`, `result_count` | `<agent>.<span>`, and how many chunks a stream had |
//!
//! Lists are JSON text, since `tracing` has none. Only with [`PromptAgent::capturing_content`] there are also
//! `gen_ai.output.messages`, `inputs`, `result`, and the words of an error.

mod provider;
#[cfg(feature = "tracing")]
mod redact;
mod stream;
#[cfg(feature = "tracing")]
mod trace;
#[cfg(not(feature = "tracing"))]
#[path = "untraced.rs"]
mod trace;
mod value;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use self::provider::AgentProvider;
use crate::accumulator::Accumulator;
use crate::event::{BlockCompletion, CallKind, JsonText};
use crate::json::{AsValue, Value};
use crate::message::{Message, ToolCall};
use crate::pipeline::{Decoder, FrameDecoder};
use crate::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use crate::{Error, ErrorKind, Result};

pub use self::stream::{
    ProcessStream, StreamFailure, StreamItem, StreamSource, process_bytes, process_stream,
};
#[cfg(feature = "async")]
pub use self::stream::{process_bytes_async, process_stream_async};

/// The agent: the provider that was asked, and the request to it.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, ApiType};
///
/// let agent = PromptAgent::new("openai").named("classifier").model("gpt-5").api(ApiType::Chat).with_outputs();
/// assert_eq!(agent.provider(), "openai");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptAgent {
    provider: String,
    model: Option<String>,
    name: Option<String>,
    api: Option<ApiType>,
    has_outputs: bool,
    captures_content: bool,
}

/// The API that was asked. The shape of a response usually says it; an empty list does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiType {
    /// Chat completions, messages and their like.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Embeddings.
    Embeddings,
    /// Images.
    Images,
}

/// The result of a response. Serialises to the bare result: a text, a list of calls, a value, a list of numbers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Processed {
    /// Text; `""` where there is none.
    Text(String),
    /// The calls that the caller is to run; never empty.
    ToolCalls(Vec<ToolCall>),
    /// The value of a text that is JSON, where outputs were declared.
    Structured(StructuredOutput),
    /// One embedding.
    Vector(Vec<f64>),
    /// Several embeddings.
    Vectors(Vec<Vec<f64>>),
    /// One image: its address, or its data in base64.
    Image(String),
    /// Several images.
    Images(Vec<String>),
}

/// A text that is JSON, and its value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StructuredOutput {
    /// The value.
    pub value: Value,
    /// The text, as the model wrote it.
    pub raw: String,
}

/// Returns the result of a provider's complete response.
///
/// Errors have names: `unknown provider`, `Unexpected response format`, `Empty embedding response`,
/// `Empty image response`, or the message of the upstream's own error ([`ErrorKind::Upstream`]).
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, Processed, process};
/// use serde_json::json;
///
/// let message = json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]});
/// assert_eq!(process(&PromptAgent::new("anthropic"), &message)?, Processed::Text("Hello".into()));
///
/// let failed = json!({"object": "response", "error": {"code": "server_error", "message": "overloaded"}});
/// let error = process(&PromptAgent::new("openai"), &failed).unwrap_err();
/// assert_eq!(error.detail(), "overloaded");
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn process(agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    let response = &*response.as_value();
    let span = trace::ProcessSpan::begin(agent);
    let outcome = ProcessOutcome::of(agent, response);
    span.end(agent, response, &outcome.result, &outcome.learned());
    outcome.result
}

/// Does what [`process`] does, for callers that wait. It never waits itself.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, Processed, process_async};
/// use serde_json::json;
///
/// let response = json!({"data": [{"url": "https://example.com/1.png", "b64_json": "AAA="}]});
/// let image = futures::executor::block_on(process_async(&PromptAgent::new("openai"), &response))?;
/// assert_eq!(image, Processed::Image("https://example.com/1.png".into()));
/// # Ok::<(), callweave::Error>(())
/// ```
pub async fn process_async(agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    process(agent, response)
}

/// The result of a chat completion (§8.1), whatever the agent's provider.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, Processed, process_chat};
/// use serde_json::json;
///
/// let response = json!({"choices": [{"message": {"content": "Hello"}}]});
/// assert_eq!(process_chat(&PromptAgent::new("acme"), &response)?, Processed::Text("Hello".into()));
/// assert!(process_chat(&PromptAgent::new("acme"), &json!({"type": "message", "content": []})).is_err());
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn process_chat(agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    ProcessOutcome::of_protocols(agent, &[&OPENAI_CHAT], &response.as_value()).result
}

/// The result of a response of OpenAI's Responses API (§8.4), whatever the agent's provider.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, Processed, process_responses};
/// use serde_json::json;
///
/// let response = json!({"object": "response", "output": [], "output_text": "Hello"});
/// assert_eq!(process_responses(&PromptAgent::new("acme"), &response)?, Processed::Text("Hello".into()));
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn process_responses(agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    ProcessOutcome::of_protocols(agent, &[&OPENAI_RESPONSES], &response.as_value()).result
}

/// The result of a message of Anthropic's (§8.5), whatever the agent's provider.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, process_anthropic};
/// use serde_json::json;
///
/// let response = json!({"content": [{"type": "tool_use", "id": "t", "name": "look", "input": {"at": "sky"}}]});
/// let processed = process_anthropic(&PromptAgent::new("acme"), &response)?;
/// assert_eq!(processed.tool_calls()[0].arguments(), r#"{"at":"sky"}"#);
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn process_anthropic(agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    ProcessOutcome::of_protocols(agent, &[&ANTHROPIC_MESSAGES], &response.as_value()).result
}

/// The vector, or vectors, of an embedding response (§8.2).
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, Processed, process_embedding};
/// use serde_json::json;
///
/// let agent = PromptAgent::new("openai");
/// let response = json!({"data": [{"embedding": [0.5, 1.0]}]});
/// assert_eq!(process_embedding(&agent, &response)?, Processed::Vector(vec![0.5, 1.0]));
/// let error = process_embedding(&agent, &json!({"data": []})).unwrap_err();
/// assert_eq!(error.detail(), "Empty embedding response");
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn process_embedding(_agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    value::embeddings(&response.as_value())
}

/// The image, or images, of an image response (§8.3): its address, else its data in base64.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, Processed, process_image};
/// use serde_json::json;
///
/// let response = json!({"data": [{"b64_json": "AAA="}, {"url": "https://example.com/1.png", "b64_json": "BBB="}]});
/// let images = Processed::Images(vec!["AAA=".into(), "https://example.com/1.png".into()]);
/// assert_eq!(process_image(&PromptAgent::new("openai"), &response)?, images);
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn process_image(_agent: &PromptAgent, response: &impl AsValue) -> Result<Processed> {
    value::images(&response.as_value())
}

/// The result of a response, and the facts learned on the way.
struct ProcessOutcome {
    result: Result<Processed>,
    message: Message,
    protocol: Option<&'static Protocol>,
    value: Option<ApiType>,
}

/// The facts that a response states about itself, for spans.
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans tell it"))]
struct ResponseFacts<'a> {
    message: &'a Message,
    protocol: Option<&'static Protocol>,
    /// The kind of value it is, if it is a value and no chat.
    value: Option<ApiType>,
}

impl ProcessOutcome {
    fn of(agent: &PromptAgent, response: &Value) -> Self {
        let provider = match AgentProvider::named(&agent.provider) {
            Ok(provider) => provider,
            Err(error) => return Self::failed(error),
        };
        if let Some(api) = value::recognise(agent.api, response).filter(|_| provider.has_values()) {
            let result = match api {
                ApiType::Embeddings => value::embeddings(response),
                ApiType::Images | ApiType::Chat | ApiType::Responses => value::images(response),
            };
            return Self { result, message: value::envelope(response), protocol: None, value: Some(api) };
        }
        Self::of_protocols(agent, &provider.protocols(), response)
    }

    /// The outcome of a chat in one of these protocols.
    fn of_protocols(agent: &PromptAgent, protocols: &[&'static Protocol], response: &Value) -> Self {
        match decode(protocols, response) {
            Some((protocol, message)) => {
                Self { result: conclude(agent, protocol, &message), message, protocol, value: None }
            }
            None => Self::failed(unexpected()),
        }
    }

    fn failed(error: Error) -> Self {
        Self { result: Err(error), message: Message::default(), protocol: None, value: None }
    }

    fn learned(&self) -> ResponseFacts<'_> {
        ResponseFacts { message: &self.message, protocol: self.protocol, value: self.value }
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Unknown, "Unexpected response format")
}

/// Decodes a complete response by the protocol that claims it; else by the first that finds content in it.
fn decode(protocols: &[&'static Protocol], response: &Value) -> Option<(Option<&'static Protocol>, Message)> {
    let collect = |mut decoder: FrameDecoder| {
        let mut accumulator = Accumulator::new();
        decoder.push_value(response, &mut accumulator);
        decoder.finish(&mut accumulator).ok()?;
        Some((decoder.protocol(), accumulator.take()))
    };
    let has_content = |message: &Message| message.choices.iter().any(|choice| !choice.blocks.is_empty());
    let labelled = collect(Decoder::builder().among(protocols.to_vec()).build_for_frames());
    let bare = || protocols.iter().copied().map(FrameDecoder::new).filter_map(collect);
    let empty = || with_label(protocols, response).and_then(|labelled| decode(protocols, &labelled));
    labelled.or_else(|| bare().find(|(_, message)| has_content(message))).or_else(empty)
}

/// The marks by which a body without content shows its protocol: the members that hold its content, and the member and
/// wire type that label it, which callers leave out.
const LABELS: &[(&str, &[&str], &str, &str)] = &[
    ("openai-responses", &["output", "output_text"], "object", "response"),
    ("anthropic-messages", &["content"], "type", "message"),
];

/// The body with the label that it lacks, if a provider that speaks that protocol may have sent it.
fn with_label(protocols: &[&'static Protocol], response: &Value) -> Option<Value> {
    let body = response.as_object()?;
    let is_held = |key: &&str| body.get(key).is_some_and(|value| value.is_array() || *key == "output_text");
    let (.., label, wire_type) = LABELS.iter().find(|(name, members, label, _)| {
        protocols.iter().any(|protocol| protocol.name == *name)
            && body.get(label).is_none()
            && members.iter().any(is_held)
    })?;
    let mut labelled = body.clone();
    labelled.insert(*label, *wire_type);
    Some(labelled.into())
}

/// The result of a chat.
fn conclude(agent: &PromptAgent, protocol: Option<&Protocol>, message: &Message) -> Result<Processed> {
    if let Some(error) = message.error() {
        return Err(error.clone().into());
    }
    let calls: Vec<_> = message.tool_calls().filter_map(|call| call_of(protocol, call)).collect();
    if !calls.is_empty() {
        return Ok(Processed::ToolCalls(calls));
    }
    let text = text(message);
    // No text is no JSON either.
    if agent.has_outputs
        && let Ok(value) = text.parse()
    {
        return Ok(Processed::Structured(StructuredOutput { value, raw: text }));
    }
    Ok(Processed::Text(text))
}

fn text(message: &Message) -> String {
    let text = message.text().into_owned();
    if !text.is_empty() {
        return text;
    }
    // SDKs put the joined text beside the items; some callers pass on nothing else.
    match message.extra.get("output_text").and_then(JsonText::to_text) {
        Some(text) => text.into_owned(),
        None => message.first().map(|choice| choice.refusal().into_owned()).unwrap_or_default(),
    }
}

/// A call in the document's form: `id`, `name`, and `arguments` as JSON text; the free text of a custom tool is a JSON
/// string. With `incomplete` where more was to come; that there is no text at all shows by itself.
struct DocumentedCall<'c>(&'c ToolCall);

impl Serialize for DocumentedCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_members(self.0, &mut map)?;
        map.end()
    }
}

fn serialize_members<M: SerializeMap>(call: &ToolCall, map: &mut M) -> std::result::Result<(), M::Error> {
    map.serialize_entry("id", &call.id)?;
    map.serialize_entry("name", &call.name)?;
    match call.kind {
        CallKind::Custom => {
            map.serialize_entry("arguments", JsonText::from_text(&call.raw_arguments).as_str())?
        }
        CallKind::Function | CallKind::Builtin => map.serialize_entry("arguments", &call.raw_arguments)?,
    }
    if call.completion != BlockCompletion::Complete && !call.raw_arguments.is_empty() {
        map.serialize_entry("incomplete", &true)?;
    }
    Ok(())
}

/// The call as a caller sees it; none if it is not the caller's to run, or has no name.
fn call_of(protocol: Option<&Protocol>, call: &ToolCall) -> Option<ToolCall> {
    if call.name.is_empty() || call.kind == CallKind::Builtin {
        return None;
    }
    let mut call = call.clone();
    if !protocol.is_some_and(|protocol| UNCHANGED.contains(&protocol.name)) {
        call.raw_arguments = call.arguments().to_owned();
    }
    Some(call)
}

/// Protocols whose calls may have no argument text at all; the others' calls then have `{}`, which is what
/// their wire means by leaving the object out.
const UNCHANGED: [&str; 2] = ["openai-chat", "openai-responses"];

impl StructuredOutput {
    /// The text as a value of your own type, read straight from the raw text.
    ///
    /// ```
    /// use callweave::compat::prompty::{PromptAgent, Processed, process};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct City { name: String }
    /// let response = serde_json::json!({"choices": [{"message": {"content": "{\"name\": \"Oslo\"}"}}]});
    /// let Processed::Structured(found) = process(&PromptAgent::new("openai").with_outputs(), &response)? else { panic!() };
    /// assert_eq!(found.cast::<City>()?.name, "Oslo");
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn cast<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.raw).map_err(|error| {
            let kind = if error.is_data() { ErrorKind::Invalid } else { ErrorKind::Json };
            Error::new(kind, format!("the structured output cannot be read: {error}"))
        })
    }
}

impl Processed {
    /// The text, or the raw text of a structured output.
    ///
    /// ```
    /// use callweave::compat::prompty::Processed;
    ///
    /// assert_eq!(Processed::Text("Hello".into()).text(), Some("Hello"));
    /// assert_eq!(Processed::Vector(vec![0.5]).text(), None);
    /// ```
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Structured(structured) => Some(&structured.raw),
            Self::ToolCalls(_) | Self::Vector(_) | Self::Vectors(_) | Self::Image(_) | Self::Images(_) => {
                None
            }
        }
    }

    /// The tool calls; none where the result is something else.
    ///
    /// ```
    /// use callweave::compat::prompty::Processed;
    ///
    /// assert!(Processed::Text("Hello".into()).tool_calls().is_empty());
    /// ```
    pub fn tool_calls(&self) -> &[ToolCall] {
        match self {
            Self::ToolCalls(calls) => calls,
            _ => &[],
        }
    }
}

impl Serialize for Processed {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) | Self::Image(text) => text.serialize(serializer),
            Self::ToolCalls(calls) => serializer.collect_seq(calls.iter().map(DocumentedCall)),
            Self::Structured(structured) => structured.value.serialize(serializer),
            Self::Vector(vector) => vector.serialize(serializer),
            Self::Vectors(vectors) => vectors.serialize(serializer),
            Self::Images(images) => images.serialize(serializer),
        }
    }
}

impl PromptAgent {
    /// An agent that asks `provider`: `openai`, `azure`, `foundry`, `anthropic`, `gemini`, `vertex`, `ollama`,
    /// `cohere`, `bedrock`, `mistral`, …
    pub fn new(provider: impl Into<String>) -> Self {
        Self { provider: provider.into(), ..Self::default() }
    }

    /// The model it asks for. Only recorded in spans.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Its own name. Only recorded in spans.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The API that it asks, where the shape of a response may leave that open.
    #[must_use]
    pub fn api(self, api: ApiType) -> Self {
        Self { api: Some(api), ..self }
    }

    /// Declares outputs: text that is JSON will be parsed.
    #[must_use]
    pub fn with_outputs(self) -> Self {
        Self { has_outputs: true, ..self }
    }

    /// Lets spans carry content: the response and the result, with secrets redacted by key. Off by default.
    ///
    /// A value under a key that contains `secret`, `password`, `api_key`, `apikey`, `token`, `auth`, `credential` or
    /// `cookie` is replaced, at any depth and also inside texts that are JSON themselves. Counts of tokens stay. The
    /// chunks of a stream are recorded as they came, so a secret that the model writes piece by piece is not recognised
    /// there.
    #[must_use]
    pub fn capturing_content(self) -> Self {
        Self { captures_content: true, ..self }
    }

    /// The provider that it asks.
    pub fn provider(&self) -> &str {
        &self.provider
    }
}
