//! The neutral request: what a client asks of a model, whatever protocol it speaks.
//!
//! [`Protocol::read_request`] takes a body apart into a [`Request`], [`Protocol::write_request`] puts one together for
//! the provider that is to answer. A protocol knows only itself and the neutral request, so any client can be served
//! by any provider.
//!
//! Both ways are a taking: reading takes what is known out of the body, and what is left stays beside the thing it
//! stood on, in [`Kept`], and comes back where the same protocol is written. Writing takes what the wire has a place
//! for out of the request, and what is left is a [`Loss`]. So neither can forget anything in silence.
//!
//! A request is written *faithfully* for the protocol it was read from: as it was, unknown members and spellings
//! included. For every other protocol it is first made to fit: roles, ids, names, schemas and the order of calls and
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

pub(crate) mod effort;
mod fit;
mod kept;
mod limits;
mod loss;
mod media;
mod members;
mod schema;
mod undo;

pub use kept::Kept;
pub use loss::Loss;
pub use undo::Undo;

pub use crate::event::CallKind;

pub(crate) use fit::fit;
pub(crate) use limits::Limits;
pub(crate) use loss::Losses;
pub(crate) use media::{data_url, ending_of_type, kind_of, parse_data_url, type_of_name};
pub(crate) use members::{Members, put};

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Number, Object, Value};
use crate::protocol::Protocol;

/// The word for a [builtin](ToolKind::Builtin) tool that searches the web: several providers have one.
pub(crate) const WEB_SEARCH: &str = "web_search";

/// What a client asks of a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The name of the protocol that the request was read in, if it was read.
    pub protocol: Option<&'static str>,
    /// The model that is to answer. Some wires name it outside the body.
    pub model: Option<String>,
    /// What stands above the conversation.
    pub instructions: Content,
    /// The conversation, in order.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// Whether it must.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may call several tools at once.
    pub parallel_calls: Option<bool>,
    /// How many calls of provider-run tools there may be.
    pub max_tool_calls: Option<Number>,
    /// How long the answer may be, in tokens.
    pub max_tokens: Option<Number>,
    /// What ends the answer.
    pub stop: Vec<String>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What form the answer must have.
    pub format: Option<Format>,
    /// How much the model is to think.
    pub reasoning: Reasoning,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
    /// Whether a stream tells its usage.
    pub stream_usage: Option<bool>,
    /// Whether the provider keeps the answer.
    pub store: Option<bool>,
    /// The kept answer that this request goes on from.
    pub previous: Option<String>,
    /// What the client wants to find again.
    pub metadata: Option<Object>,
    /// The end user, for the provider's own watch.
    pub user: Option<String>,
    /// How fast, and at what price.
    pub service_tier: Option<String>,
    /// What groups requests that share a prefix.
    pub cache_key: Option<String>,
    /// When the provider is to sum up what was said so far.
    pub compaction: Option<Compaction>,
    /// How many words the answer should have: `low`, `medium`, `high`.
    pub verbosity: Option<String>,
    /// What only the protocol knows.
    pub kept: Kept,
}

/// How tokens are chosen, and how many answers there are.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// How freely.
    pub temperature: Option<Number>,
    /// From the likeliest that make up this much.
    pub top_p: Option<Number>,
    /// From this many.
    pub top_k: Option<Number>,
    /// From those at least this likely, next to the likeliest.
    pub min_p: Option<Number>,
    /// Against what was said often.
    pub frequency_penalty: Option<Number>,
    /// Against what was said at all.
    pub presence_penalty: Option<Number>,
    /// Against what was said, by a factor.
    pub repetition_penalty: Option<Number>,
    /// The same again for the same seed.
    pub seed: Option<Number>,
    /// How many answers.
    pub choices: Option<Number>,
    /// Tokens that are made likelier or less so.
    pub logit_bias: Option<Object>,
    /// Whether the answer tells how likely its tokens were.
    pub logprobs: Option<bool>,
    /// And how many others.
    pub top_logprobs: Option<Number>,
}

/// How much the model is to think before it speaks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reasoning {
    /// Whether it thinks.
    pub mode: Option<Thinking>,
    /// How hard: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    pub effort: Option<String>,
    /// How long, in tokens.
    pub budget: Option<Number>,
    /// Whether and how its thoughts are told: `auto`, `concise`, `detailed`; `none`.
    pub summary: Option<String>,
}

/// Whether a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// It does not.
    Off,
    /// It does.
    On,
    /// It decides by itself.
    Adaptive,
}

/// When a conversation is summed up.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Compaction {
    /// From how many tokens on; when the provider likes, if none.
    pub threshold: Option<Number>,
}

/// Parts in order, and how the wire wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The parts.
    pub parts: Vec<Part>,
    /// How they were written.
    pub form: Form,
}

/// How a wire wrote content that could be written in two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// However the protocol likes.
    #[default]
    Any,
    /// As one text.
    Text,
    /// As a list of parts, be it of a single text.
    List,
}

/// Something that somebody said.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: Content,
    /// Who exactly, where there are several of a role.
    pub name: Option<String>,
    /// What only the protocol knows.
    pub kept: Kept,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The operator.
    System,
    /// The developer: where the wire has no such role, the operator.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The tools.
    Tool,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Part {
    /// What it holds.
    pub body: Body,
    /// That everything up to here is worth caching.
    pub cache: Option<CacheMark>,
    /// The provider's signature, to be given back unaltered.
    pub signature: Option<Seal>,
    /// What only the protocol knows.
    pub kept: Kept,
}

/// What a [`Part`] holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// Text.
    Text(String),
    /// A refusal.
    Refusal(String),
    /// An image, a sound, a video, a file.
    Media(Media),
    /// What the model thought.
    Thought(Thought),
    /// What the model called.
    Call(Call),
    /// What came of a call.
    Result(CallResult),
    /// Tools that are declared in mid-conversation.
    Tools(Vec<Tool>),
    /// What only one protocol knows; the wire's word for it. All of it is in [`Part::kept`].
    Opaque(String),
}

/// An image, a sound, a video, a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Media {
    /// Which of these.
    pub kind: MediaKind,
    /// Where it is.
    pub source: Source,
    /// Its media type, such as `image/png`, where one is known.
    pub media_type: Option<String>,
    /// Its file name or title.
    pub name: Option<String>,
    /// How closely it is looked at.
    pub detail: Option<String>,
}

/// Kinds of [`Media`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaKind {
    /// An image.
    Image,
    /// A sound.
    Audio,
    /// A video.
    Video,
    /// A document.
    File,
}

/// Where something is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// Here, in base64.
    Data(String),
    /// Here, as text.
    Text(String),
    /// Somewhere else. It is never fetched.
    Url(String),
    /// With the provider, under this id.
    Id(String),
}

/// What the model thought.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Thought {
    /// Its own words.
    pub text: Option<String>,
    /// Its thoughts in short.
    pub summary: Option<Vec<String>>,
    /// Thoughts that only the provider can read.
    pub encrypted: Option<Seal>,
}

/// Data that only whoever issued it can check: it goes back there, unaltered, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Whose it is: a provider's name, shared by the protocols that the same models speak; empty if nobody said.
    pub issuer: Cow<'static, str>,
    /// The data.
    pub data: String,
}

/// What the model called.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// Its id, where the wire gives one.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The group that the tool stands in.
    pub namespace: Option<String>,
    /// The arguments.
    pub arguments: Arguments,
    /// What kind of tool it is.
    pub kind: CallKind,
}

/// What a tool is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// As text: JSON as the model wrote it, or free text for a [custom](CallKind::Custom) tool.
    Text(String),
    /// As a value.
    Json(Value),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallResult {
    /// The id of the call.
    pub id: Option<String>,
    /// The tool's name, where the wire gives one.
    pub name: Option<String>,
    /// What the tool said.
    pub content: Content,
    /// What the tool said, where the wire has an object for it.
    pub value: Option<Value>,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
    /// What kind of tool it is.
    pub kind: CallKind,
}

/// What the model may call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// What kind it is.
    pub kind: ToolKind,
    /// Whether the arguments must fit the schema.
    pub strict: Option<bool>,
    /// That everything up to here is worth caching.
    pub cache: Option<CacheMark>,
    /// What only the protocol knows.
    pub kept: Kept,
}

/// Kinds of [`Tool`]s.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolKind {
    /// The client runs it; its arguments are JSON, described by a schema.
    Function {
        /// The schema of the arguments.
        schema: Option<Value>,
    },
    /// The client runs it; its argument is free text.
    Custom {
        /// The grammar of the text.
        grammar: Option<Grammar>,
    },
    /// The provider runs it; the wire's word for it. All about it is in [`Tool::kept`].
    Builtin(String),
    /// A group of tools under one name.
    Group(Vec<Tool>),
}

/// What a free text must look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grammar {
    /// Its language: `lark`, `regex`; `text` for any text.
    pub syntax: String,
    /// The grammar.
    pub definition: String,
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// It may.
    Auto,
    /// It must not.
    None,
    /// It must.
    Required,
    /// It must call this one.
    Tool {
        /// The tool's name.
        name: String,
        /// What kind of tool it is.
        kind: CallKind,
    },
    /// It may call only these.
    Allowed {
        /// The tools' names.
        names: Vec<String>,
        /// Whether it must call one of them.
        is_required: bool,
    },
}

/// What form an answer must have.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// Text.
    Text,
    /// Some JSON object.
    Json,
    /// JSON that fits a schema.
    Schema {
        /// What it is called.
        name: Option<String>,
        /// What it is for.
        description: Option<String>,
        /// The schema.
        schema: Value,
        /// Whether the answer must fit.
        strict: Option<bool>,
    },
}

/// That everything up to here is worth caching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheMark {
    /// For how long: `5m`, `1h`.
    pub ttl: Option<String>,
}

/// What the caller decides of a request that is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOptions {
    /// The model that is to answer, in place of the one that the request names.
    pub model: Option<String>,
    /// Whose rules the request must keep, where a protocol is spoken by many: `mistral` for example. Otherwise what the
    /// model's name tells, or else the protocol's own provider.
    pub provider: Option<String>,
    /// Whether a request is made to fit even where it was read in the same protocol.
    pub mode: Mode,
}

/// How a request is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As it was, where it was read in the same protocol; else made to fit.
    #[default]
    Faithful,
    /// Made to fit what the provider demands.
    Mended,
}

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// The body.
    pub body: Value,
    /// What could not be carried.
    pub losses: Vec<Loss>,
    /// Names that the provider would have refused: as they are sent, and as the client knows them. They are to be
    /// mapped back in the answer: see [`Undo`].
    pub names: Vec<(String, String)>,
    /// Tools with free text that are sent as functions with one string, by their names as they are sent. Calls of
    /// them are to be unwrapped in the answer: see [`Undo`].
    pub wrapped: Vec<String>,
}

/// How a protocol's requests are read and written.
#[derive(Clone, Copy)]
pub(crate) struct RequestCoding {
    /// Takes a body apart.
    pub(crate) read: fn(Object) -> Result<Request>,
    /// Puts a body together; what cannot be carried stays in the request or is named.
    pub(crate) write: fn(&mut Request, &mut Writing<'_>) -> Object,
    /// What the protocol's own provider demands.
    pub(crate) limits: &'static Limits,
}

/// What a protocol must know and tell while it writes a request.
pub(crate) struct Writing<'l> {
    /// Whether every thing is written as it was.
    pub(crate) is_faithful: bool,
    /// What the provider demands.
    pub(crate) limits: &'static Limits,
    /// What could not be carried.
    pub(crate) losses: &'l mut Losses,
}

impl Protocol {
    /// Whether requests of this protocol can be read and written.
    pub fn has_requests(&self) -> bool {
        self.request.is_some()
    }

    /// Takes the body of a request apart. It is handed over, so that long texts need not be copied.
    ///
    /// Only what is no object at all, or a protocol that has no requests, is an error: what is malformed inside is
    /// kept as it is.
    pub fn read_request(&self, body: Value) -> Result<Request> {
        let coding = self.request_coding()?;
        match body {
            Value::Object(members) => (coding.read)(members),
            _ => Err(Error::new(ErrorKind::Invalid, "the body of a request is not an object")),
        }
    }

    /// Puts the body of a request together, and tells what could not be carried.
    pub fn write_request(&self, request: &Request, options: &RequestOptions) -> Result<Written> {
        self.write_whole(request.clone(), options)
    }

    /// Reads the body of a request in this protocol and writes it in another, without a copy of long texts in between.
    pub fn translate_request(
        &self,
        body: Value,
        target: &Protocol,
        options: &RequestOptions,
    ) -> Result<Written> {
        target.write_whole(self.read_request(body)?, options)
    }

    fn write_whole(&self, mut request: Request, options: &RequestOptions) -> Result<Written> {
        let coding = self.request_coding()?;
        if let Some(model) = &options.model {
            request.model = Some(model.clone());
        }
        let limits = match &options.provider {
            Some(name) => Limits::named(name).ok_or_else(|| {
                Error::new(ErrorKind::Unknown, format!("no provider with limits is called {name:?}"))
            })?,
            None => coding.limits.of_model(request.model.as_deref().unwrap_or_default()),
        };
        let is_faithful = options.mode == Mode::Faithful && request.protocol == Some(self.name);
        let mut losses = Losses::default();
        let mut names = Vec::new();
        let mut wrapped = Vec::new();
        if !is_faithful {
            fit(&mut request, self.name, limits, &mut losses, &mut names, &mut wrapped);
        }
        let mut writing = Writing { is_faithful, limits, losses: &mut losses };
        let mut body = (coding.write)(&mut request, &mut writing);
        if !is_faithful {
            limits.respell(&mut body, &mut losses);
        }
        losses.leftovers(self.name, &request);
        Ok(Written { body: Value::Object(body), losses: losses.all, names, wrapped })
    }

    fn request_coding(&self) -> Result<&RequestCoding> {
        self.request.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unknown, format!("requests of {} are not read or written", self.name))
        })
    }
}

impl Content {
    /// One text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], form: Form::Text }
    }

    /// A list of parts.
    pub fn list(parts: Vec<Part>) -> Self {
        Self { parts, form: Form::List }
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The texts, joined.
    pub fn joined(&self, separator: &str) -> String {
        let mut texts = self.parts.iter().filter_map(Part::as_text);
        let mut joined = texts.next().unwrap_or_default().to_owned();
        for text in texts {
            joined.push_str(separator);
            joined.push_str(text);
        }
        joined
    }

    /// The parts; none stay.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Message {
    /// What somebody said.
    pub fn new(role: Role, content: Content) -> Self {
        Self { role, content, name: None, kept: Kept::default() }
    }

    /// A part that stands alone.
    pub(crate) fn of(role: Role, part: Part) -> Self {
        Self::new(role, Content { parts: vec![part], form: Form::Any })
    }
}

impl Part {
    /// A part.
    pub fn new(body: Body) -> Self {
        Self { body, cache: None, signature: None, kept: Kept::default() }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Body::Text(text.into()))
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) | Body::Refusal(text) => Some(text),
            _ => None,
        }
    }

    /// What only `protocol` knows, with the wire's word for it.
    pub(crate) fn opaque(protocol: &'static str, word: &str, value: Value) -> Self {
        Self { kept: Kept::whole(protocol, value), ..Self::new(Body::Opaque(word.to_owned())) }
    }

    /// Whether nothing but its body is known of it.
    pub(crate) fn is_plain(&self) -> bool {
        self.cache.is_none() && self.signature.is_none() && self.kept.is_empty()
    }
}

impl Tool {
    /// A tool.
    pub fn new(name: impl Into<String>, kind: ToolKind) -> Self {
        Self { name: name.into(), description: None, kind, strict: None, cache: None, kept: Kept::default() }
    }
}

impl Media {
    /// Something of that kind.
    pub fn new(kind: MediaKind, source: Source) -> Self {
        Self { kind, source, media_type: None, name: None, detail: None }
    }
}

impl Arguments {
    /// The arguments as text: the model's own where it wrote text.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Json(value) => value.to_string(),
        }
    }

    /// The arguments as an object; no text is no arguments, and what is no object comes back as it is.
    pub fn into_object(self) -> std::result::Result<Object, String> {
        match self {
            Self::Json(Value::Object(members)) => Ok(members),
            Self::Json(Value::Null) => Ok(Object::new()),
            Self::Json(value) => Err(value.to_string()),
            Self::Text(text) if text.trim().is_empty() => Ok(Object::new()),
            Self::Text(text) => text.parse().map_err(|_| text),
        }
    }
}

impl Seal {
    /// Data of that issuer.
    pub fn new(issuer: &'static str, data: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), data: data.into() }
    }

    /// Whether it goes back to that issuer. Where a gateway did not say whose it is, it goes to whoever is asked.
    pub fn is_of(&self, issuer: &str) -> bool {
        self.issuer == issuer || self.issuer.is_empty()
    }

    /// The data, if it goes back to that issuer.
    pub fn of(seal: &mut Option<Self>, issuer: &str) -> Option<String> {
        seal.take_if(|seal| seal.is_of(issuer)).map(|seal| seal.data)
    }
}
