//! The neutral request: a client's request to a model, in any protocol.
//!
//! [`Protocol::read_request`] takes a body apart into a [`Request`], [`Protocol::write_request`] puts one together for
//! the provider that is to answer. A protocol knows only itself and the neutral request, so any client can be served by
//! any provider.
//!
//! Both ways take members out: reading takes the known members out of the body, and the rest stays beside its owner, in
//! [`RetainedFields`], and comes back where the same protocol is written. Writing takes everything that the wire has a
//! place for out of the request, and the rest is a [`Loss`]. Neither can therefore forget anything in silence.
//!
//! A request is written *losslessly* for the protocol it was read from: as it was, unknown members and spellings
//! included. For every other protocol it is first normalized: roles, ids, names, schemas and the order of calls and
//! results follow the row of [`limits`](RequestOptions::provider) of the provider.
//!
//! ```
//! use callweave::protocol::Protocol;
//! use callweave::request::RequestOptions;
//! use callweave::Value;
//!
//! let body: Value = r#"{"model": "small", "seed": 7, "messages": [{"role": "system", "content": "Be brief."},
//!     {"role": "user", "content": "Hi"}]}"#.parse()?;
//! let chat = Protocol::named("openai-chat").expect("a protocol of that name");
//! let request = chat.read_request(body.clone())?;
//! assert_eq!(request.messages.len(), 2);
//!
//! let again = chat.write_request(&request, &RequestOptions::default())?;
//! assert_eq!(again.body, body);
//!
//! let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
//! let written = anthropic.write_request(&request, &RequestOptions::default())?;
//! assert_eq!(written.body["system"], Value::from_iter([Value::object([("type", "text".into()), ("text", "Be brief.".into())])]));
//! assert_eq!(written.losses[0].what, "seed");
//! # Ok::<(), callweave::Error>(())
//! ```

mod conversation;
pub(crate) mod effort;
mod fit;
mod limits;
mod loss;
mod media;
mod members;
mod outline;
mod plain_tool;
mod retained;
mod reverse_mapping;
mod schema;
mod seals;
mod settings;
pub(crate) mod thinking;
mod typed;

pub use conversation::{
    CacheMark, CallArguments, CallResult, ContentForm, ContentPart, Media, MediaKind, MediaSource,
    MessageContent, PartKind, ProviderSeal, RequestCall, RequestMessage, RequestReasoning, Role,
};
pub use loss::Loss;
#[cfg(feature = "exchange")]
pub(crate) use outline::{ChoiceForm, call_ids_of};
pub use outline::{RequestOutline, RequestSize, renamed};
pub use retained::RetainedFields;
pub use reverse_mapping::ReverseMappingStage;
pub use seals::{SealHarvest, SealKeeper, SealScope, TurnCache, TurnKey, TurnStore};
pub use settings::{
    CompactionSettings, OutputFormat, ReasoningMode, ReasoningSettings, RequestTool, SamplingSettings,
    TextGrammar, ToolChoice, ToolKind,
};

pub use crate::event::CallKind;

pub(crate) use fit::{ReverseMapping, emit_value, fit, plain_tools};
pub(crate) use limits::{FullSchemas, ProviderLimits};
pub(crate) use loss::LossList;
pub(crate) use media::{data_url, ending_of_type, kind_of, parse_data_url, type_of_data, type_of_name};
pub(crate) use members::{RequestMembers, put, take_word};
pub(crate) use plain_tool::{read_plain_tools, write_plain_tool};
pub(crate) use schema::in_open_api;
pub(crate) use seals::is_marked;
pub(crate) use typed::TypedForm;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Number, Object, Value};
use crate::protocol::{Protocol, TABLE};
use crate::provider::{self, Provider};

/// The name of a [builtin](ToolKind::Builtin) tool that searches the web: several providers have one.
pub(crate) const WEB_SEARCH: &str = "web_search";

/// A client's request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Request {
    /// The name of the protocol that the request was read in, if it was read.
    #[serde(deserialize_with = "known_name_or_none")]
    pub protocol: Option<ProtocolName>,
    /// The model that is to answer. Some wires name it outside the body.
    pub model: Option<String>,
    /// Instructions above the conversation.
    pub instructions: MessageContent,
    /// The conversation, in order.
    pub messages: Vec<RequestMessage>,
    /// The tools that the model may call.
    pub tools: Vec<RequestTool>,
    /// Whether the model must call a tool.
    pub tool_choice: Option<ToolChoice>,
    /// Whether the model may call several tools at once.
    pub parallel_calls: Option<bool>,
    /// The maximum number of calls of provider-run tools.
    pub max_tool_calls: Option<Number>,
    /// The maximum length of the response, in tokens.
    pub max_tokens: Option<Number>,
    /// Texts that end the response.
    pub stop: Vec<String>,
    /// The sampling of tokens.
    pub sampling: SamplingSettings,
    /// The form that the response must have.
    pub format: Option<OutputFormat>,
    /// The settings of the model's reasoning.
    pub reasoning: ReasoningSettings,
    /// Whether the response is streamed.
    pub stream: Option<bool>,
    /// Whether a stream reports its usage.
    pub stream_usage: Option<bool>,
    /// Whether the provider keeps the response.
    pub store: Option<bool>,
    /// The id of the kept response that this request continues.
    pub previous: Option<String>,
    /// Data that the client wants to find again.
    pub metadata: Option<Object>,
    /// The end user, for the provider's own monitoring.
    pub user: Option<String>,
    /// The speed and price: `auto`, `default`, `flex`, `priority`, or another name that several providers know.
    pub service_tier: Option<String>,
    /// The forms in which the model responds: `text`, `image`, `audio`; as it likes, if none.
    pub modalities: Vec<String>,
    /// A key that groups requests with a common prefix.
    pub cache_key: Option<String>,
    /// The point at which the provider is to sum up the conversation so far.
    pub compaction: Option<CompactionSettings>,
    /// The verbosity of the response: `low`, `medium`, `high`.
    pub verbosity: Option<String>,
    /// Extra fields of the protocol.
    pub kept: RetainedFields,
}

/// The caller's options for writing a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOptions {
    /// The model that is to answer, in place of the one that the request names.
    pub model: Option<String>,
    /// The provider whose rules the request must keep, where a protocol is spoken by many: `mistral` for example.
    /// Otherwise the model's name decides, or else the protocol's own provider is meant.
    pub provider: Option<String>,
    /// Whether a request is normalized even where it was read in the same protocol.
    pub mode: RequestMode,
}

/// The way in which a request is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestMode {
    /// As it was, where it was read in the same protocol; else normalized.
    #[default]
    Lossless,
    /// As it was, where it was read in the same protocol, except for fields that not every server of the protocol
    /// takes: several system messages, developers, tools that are no functions, newer names. Else normalized.
    Compatible,
    /// Normalized to the provider's rules.
    Normalized,
}

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WrittenRequest {
    /// The body.
    pub body: Value,
    /// The parts that could not be carried.
    pub losses: Vec<Loss>,
    /// Names that the provider would have refused: as they are sent, and as the client knows them. They are to be
    /// mapped back in the response: see [`ReverseMappingStage`].
    pub names: Vec<(String, String)>,
    /// Tools of groups that are sent on their own: their names as they are sent, and the names of their groups.
    pub namespaces: Vec<(String, String)>,
    /// Tools with free text that are sent as functions with one string, by their names as they are sent. Calls of them
    /// are to be unwrapped in the response: see [`ReverseMappingStage`].
    pub wrapped: Vec<String>,
    /// The issuer of signatures and encrypted reasoning in the response: see [`ReverseMappingStage::carrying_seals`].
    pub issuer: Option<&'static str>,
    /// Whether the issuer signs calls, and not the reasoning before them.
    signs_calls: bool,
}

/// The providers whose rules are known, by the names that [`RequestOptions::provider`] takes; it takes their
/// [aliases](crate::provider::Provider::aliases), too.
pub fn providers() -> impl Iterator<Item = &'static str> {
    provider::TABLE.iter().filter(|provider| !provider.protocols.is_empty()).map(|provider| provider.name)
}

/// The functions that read and write a protocol's requests.
#[derive(Clone, Copy)]
pub(crate) struct RequestCoding {
    /// Takes a body apart.
    pub(crate) read: fn(Object) -> Result<Request>,
    /// Puts a body together; parts that cannot be carried stay in the request or are named.
    pub(crate) write: fn(&mut Request, &mut RequestWriting<'_>) -> Object,
    /// The member that names the model, where the body does.
    pub(crate) model: &'static str,
    /// The rules of the protocol's own provider.
    pub(crate) limits: &'static ProviderLimits,
}

/// The context of a protocol while it writes a request.
pub(crate) struct RequestWriting<'l> {
    /// Whether everything is written as it was.
    pub(crate) is_lossless: bool,
    /// Whether members in an older form of the protocol stay in that form.
    pub(crate) keeps_older_form: bool,
    /// The rules of the provider.
    pub(crate) limits: &'static ProviderLimits,
    /// The parts that could not be carried.
    pub(crate) losses: &'l mut LossList,
}

impl RequestWriting<'_> {
    /// Writes all messages, and sets the place of losses for each.
    pub(crate) fn each_message(
        &mut self,
        request: &mut Request,
        mut write: impl FnMut(RequestMessage, &mut RequestWriting<'_>),
    ) {
        for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
            self.losses.at(format_args!("messages[{number}]"));
            write(message, self);
        }
    }

    /// Writes all messages into one list, the instructions first.
    pub(crate) fn put_messages(
        &mut self,
        request: &mut Request,
        body: &mut Object,
        write: fn(RequestMessage, &mut Vec<Value>, &mut RequestWriting<'_>),
    ) {
        let mut messages = Vec::new();
        if !request.instructions.is_empty() {
            write(RequestMessage::new(Role::System, request.instructions.take()), &mut messages, self);
        }
        self.each_message(request, |message, writing| write(message, &mut messages, writing));
        if !messages.is_empty() || !self.is_lossless {
            body.insert("messages", messages);
        }
    }

    /// Writes tools and which of them are to be called, as OpenAI does. Returns whether there are tools.
    pub(crate) fn put_tools(
        &mut self,
        request: &mut Request,
        body: &mut Object,
        protocol: &str,
        write: fn(RequestTool, &mut RequestWriting<'_>) -> Option<Value>,
        form: TypedForm,
    ) -> bool {
        let tools = self.each_tool(request, write);
        let has_tools = !tools.is_empty();
        if has_tools {
            body.insert("tools", tools);
        }
        let own = request.kept.members(protocol);
        if self.is_lossless && own.is_some_and(|own| own.contains_key("tool_choice")) {
            // It has a form of its own, which stays.
            request.tool_choice = None;
        }
        if has_tools || self.is_lossless {
            put(body, "tool_choice", request.tool_choice.take().map(|choice| form.write_choice(&choice)));
            put(body, "parallel_tool_calls", request.parallel_calls.take());
        }
        has_tools
    }

    /// Writes all tools that the wire can express, and sets the place of losses for each.
    pub(crate) fn each_tool(
        &mut self,
        request: &mut Request,
        mut write: impl FnMut(RequestTool, &mut RequestWriting<'_>) -> Option<Value>,
    ) -> Vec<Value> {
        let mut tools = Vec::with_capacity(request.tools.len());
        for (number, tool) in std::mem::take(&mut request.tools).into_iter().enumerate() {
            self.losses.at(format_args!("tools[{number}]"));
            tools.extend(write(tool, self));
        }
        tools
    }

    /// A value of this protocol alone, as it was; a value of another protocol is a loss.
    pub(crate) fn opaque(&mut self, word: &str, kept: RetainedFields, protocol: &str) -> Option<Value> {
        if kept.protocol() != Some(protocol) {
            self.losses.put(format!("{word} of {}", kept.protocol().unwrap_or("nobody")));
        }
        kept.into_complete(protocol)
    }

    /// Writes the results of a message, each as a message of its own with that role; `write` adds the result.
    pub(crate) fn put_results(
        &mut self,
        mut message: RequestMessage,
        role: &str,
        protocol: &str,
        out: &mut Vec<Value>,
        mut write: impl FnMut(&mut CallResult, &mut Option<Box<CacheMark>>, &mut Object, &mut Self),
    ) {
        for mut part in std::mem::take(&mut message.content.parts) {
            let ContentPart { body: PartKind::Result(result), cache, .. } = &mut part else {
                message.content.parts.push(part);
                continue;
            };
            let mut object = Object::from_iter([("role", role)]);
            write(result, cache, &mut object, self);
            if result.is_error == Some(true) {
                self.losses.put("error mark of a result");
            }
            message.retained.restore(protocol, &mut object);
            self.losses.part(protocol, &part);
            out.push(object.into());
        }
        self.losses.message(protocol, &message);
    }

    /// Arguments where the wire has a value for them.
    pub(crate) fn value_of(&mut self, arguments: CallArguments) -> Value {
        match arguments {
            CallArguments::Json(value) if self.is_lossless => value,
            arguments => self.object_of(arguments).into(),
        }
    }

    /// Arguments where the wire has an object for them; a value that is no object is its only member.
    pub(crate) fn object_of(&mut self, arguments: CallArguments) -> Object {
        arguments.into_object().unwrap_or_else(|text| {
            self.losses.refuse("arguments that are not an object");
            Object::from_iter([("arguments", text)])
        })
    }
}

impl Protocol {
    /// Whether requests of this protocol can be read and written.
    pub fn has_requests(&self) -> bool {
        self.request.is_some()
    }

    /// Takes the body of a request apart. It is moved, so long texts need not be copied.
    ///
    /// Only a body that is no object, or a protocol that has no requests, is an error: malformed members are kept as
    /// they are.
    pub fn read_request(&self, body: Value) -> Result<Request> {
        let coding = self.request_coding()?;
        match body {
            Value::Object(members) => (coding.read)(members),
            _ => Err(Error::new(ErrorKind::Invalid, "the body of a request is not an object")),
        }
    }

    /// Puts the body of a request together, and reports the parts that could not be carried.
    pub fn write_request(&self, request: &Request, options: &RequestOptions) -> Result<WrittenRequest> {
        self.write_complete(request.clone(), options)
    }

    /// The same of a request that is not needed any more: nothing of it is copied.
    pub fn write_last_request(&self, request: Request, options: &RequestOptions) -> Result<WrittenRequest> {
        self.write_complete(request, options)
    }

    /// Reads the body of a request in this protocol and writes it in another, without a copy of long texts in between.
    ///
    /// ```
    /// use callweave::protocol::Protocol;
    /// use callweave::request::RequestOptions;
    ///
    /// let body = r#"{"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}"#.parse()?;
    /// let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
    /// let gemini = Protocol::named("gemini-generatecontent").expect("a protocol of that name");
    /// let written = anthropic.translate_request(body, gemini, &RequestOptions::default())?;
    /// assert_eq!(
    ///     written.body.to_string(),
    ///     r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":9}}"#
    /// );
    /// assert!(written.losses.is_empty());
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn translate_request(
        &self,
        body: Value,
        target: &Protocol,
        options: &RequestOptions,
    ) -> Result<WrittenRequest> {
        target.write_complete(self.read_request(body)?, options)
    }

    fn write_complete(&self, mut request: Request, options: &RequestOptions) -> Result<WrittenRequest> {
        let coding = self.request_coding()?;
        if let Some(model) = &options.model {
            request.model = Some(model.clone());
        }
        let limits = self.limits_of(request.model.as_deref(), options)?;
        let is_own = request.protocol == Some(self.name);
        let is_lossless = options.mode != RequestMode::Normalized && is_own;
        let mut losses = LossList::default();
        let mut changes = ReverseMapping::default();
        seals::unload(&mut request, self.name, limits, &mut losses);
        match options.mode {
            RequestMode::Lossless if is_own => {}
            RequestMode::Compatible if is_own => {
                fit::fit_compatible(&mut request, self.name, limits, &mut losses, &mut changes);
            }
            _ => fit(&mut request, self.name, limits, &mut losses, &mut changes),
        }
        let keeps_older_form =
            is_lossless && (options.mode == RequestMode::Lossless || limits.takes_uncommon());
        let mut writing = RequestWriting { is_lossless, keeps_older_form, limits, losses: &mut losses };
        let mut body = (coding.write)(&mut request, &mut writing);
        if !is_lossless || options.mode == RequestMode::Compatible && !limits.takes_uncommon() {
            limits.respell(&mut body, is_own, &mut losses);
        }
        losses.leftovers(self.name, &request);
        let ReverseMapping { names, namespaces, wrapped } = changes;
        let (body, losses, issuer) = (Value::Object(body), losses.into_all(), limits.issuer());
        let signs_calls = limits.signs_calls.is_some();
        Ok(WrittenRequest { body, losses, names, namespaces, wrapped, issuer, signs_calls })
    }

    /// The rules of the provider that is to answer.
    fn limits_of(&self, model: Option<&str>, options: &RequestOptions) -> Result<&'static ProviderLimits> {
        let own = self.request_coding()?.limits;
        let limits = match &options.provider {
            Some(name) => Provider::with_rules(name)?.limits(self).unwrap_or(own),
            None => own,
        };
        Ok(limits.of_model(model.unwrap_or_default()))
    }

    /// A provider's rules for requests for a model.
    #[cfg(feature = "exchange")]
    pub(crate) fn limits_for(
        &self,
        provider: Option<&'static Provider>,
        model: &str,
    ) -> Option<&'static ProviderLimits> {
        let own = self.request_coding().ok()?.limits;
        let limits = provider.and_then(|provider| provider.limits(self)).unwrap_or(own);
        Some(limits.of_model(model))
    }

    fn request_coding(&self) -> Result<&RequestCoding> {
        self.request.as_ref().ok_or_else(|| {
            let known = TABLE.iter().filter(|protocol| protocol.has_requests()).map(|protocol| protocol.name);
            let known = known.collect::<Vec<_>>().join(", ");
            let detail = format!("requests of {} are not read or written, only those of {known}", self.name);
            Error::new(ErrorKind::Unknown, detail)
        })
    }
}

/// The name of a protocol of the table. Under its own name serde does not take it for something to borrow.
type ProtocolName = &'static str;

/// Reads the name of a protocol of the table.
fn known_name<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<&'static str, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = Protocol::named(&name).map(|protocol| protocol.name);
    known.ok_or_else(|| D::Error::custom(format!("no protocol is called {name:?}")))
}

fn known_name_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<&'static str>, D::Error> {
    #[derive(Deserialize)]
    struct KnownFields(#[serde(deserialize_with = "known_name")] ProtocolName);
    Ok(Option::<KnownFields>::deserialize(deserializer)?.map(|KnownFields(name)| name))
}
