//! The conversation: messages, their parts, and their roles.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::seals::{self, unmarked};
use super::{CallKind, RequestTool, RetainedFields, parse_data_url};
use crate::json::{Object, Value};
use crate::message::ToolCall;

/// Parts in order, and the form in which the wire wrote them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageContent {
    /// The parts.
    pub parts: Vec<ContentPart>,
    /// The form in which they were written.
    pub form: ContentForm,
}

/// The form of content that a wire can write in two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentForm {
    /// The form that the protocol prefers.
    #[default]
    Any,
    /// As one text.
    Text,
    /// As a list of parts, be it of a single text.
    List,
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestMessage {
    /// The role of its author.
    pub role: Role,
    /// Its content.
    pub content: MessageContent,
    /// The name of its author, where there are several of a role.
    pub name: Option<String>,
    /// Extra fields of the protocol.
    #[serde(default)]
    pub retained: RetainedFields,
}

/// The role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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

impl Role {
    /// The name of the speaker on wires where results are the user's.
    pub(crate) fn speaker(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::System | Self::Developer => "system",
            Self::User | Self::Tool => "user",
        }
    }
}

/// A piece of content.
///
/// A request may have hundreds of thousands of these, so all that most of them do not have is boxed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContentPart {
    /// Its content.
    pub body: PartKind,
    /// The mark that everything up to here is worth caching.
    pub cache: Option<Box<CacheMark>>,
    /// The provider's signature, to be sent back unaltered.
    pub signature: Option<Box<ProviderSeal>>,
    /// Extra fields of the protocol.
    #[serde(default)]
    pub retained: RetainedFields,
}

/// The content of a [`ContentPart`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartKind {
    /// Text.
    Text(String),
    /// A refusal.
    Refusal(String),
    /// An image, a sound, a video, a file.
    Media(Box<Media>),
    /// Reasoning of the model.
    Reasoning(Box<RequestReasoning>),
    /// A call by the model.
    Call(Box<RequestCall>),
    /// The result of a call.
    Result(Box<CallResult>),
    /// Tools that are declared in mid-conversation.
    Tools(Vec<RequestTool>),
    /// Content of one protocol alone; the wire's own type of it. All of it is in [`ContentPart::retained`].
    Opaque(String),
}

/// An image, a sound, a video, a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Media {
    /// The kind of media.
    pub kind: MediaKind,
    /// The location of the data.
    pub source: MediaSource,
    /// Its media type, such as `image/png`, where one is known.
    pub media_type: Option<String>,
    /// Its file name or title.
    pub name: Option<String>,
    /// The level of detail at which it is looked at.
    pub detail: Option<String>,
}

/// Kinds of [`Media`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// The location of media data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaSource {
    /// Here, in base64.
    Data(String),
    /// Here, as text.
    Text(String),
    /// Somewhere else. It is never fetched.
    Url(String),
    /// At the provider, under this id.
    Id(String),
}

/// Reasoning of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RequestReasoning {
    /// The text of the reasoning.
    pub text: Option<String>,
    /// A summary of the reasoning.
    pub summary: Option<Vec<String>>,
    /// Reasoning that only the provider can read.
    pub encrypted: Option<Box<ProviderSeal>>,
}

/// Data that only its issuer can check: it goes back there, unaltered, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSeal {
    /// The issuer: a provider's name, shared by the protocols that the same models speak; empty if it is unknown.
    pub issuer: Cow<'static, str>,
    /// The data.
    pub data: String,
}

/// A call by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestCall {
    /// Its id, where the wire gives one.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The group of the tool.
    pub namespace: Option<String>,
    /// The arguments.
    pub arguments: CallArguments,
    /// The kind of the tool.
    pub kind: CallKind,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallArguments {
    /// As text: JSON as the model wrote it, or free text for a [custom](CallKind::Custom) tool.
    Text(String),
    /// As a value.
    Json(Value),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallResult {
    /// The id of the call.
    pub id: Option<String>,
    /// The tool's name, where the wire gives one.
    pub name: Option<String>,
    /// The content of the result.
    pub content: MessageContent,
    /// The result, where the wire has an object for it.
    pub value: Option<Value>,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
    /// The kind of the tool.
    pub kind: CallKind,
}

/// The mark that everything up to here is worth caching.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheMark {
    /// The lifetime of the cache entry: `5m`, `1h`.
    pub ttl: Option<String>,
}

impl MessageContent {
    /// One text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ContentPart::text(text)], form: ContentForm::Text }
    }

    /// A list of parts.
    pub fn list(parts: Vec<ContentPart>) -> Self {
        Self { parts, form: ContentForm::List }
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The texts, joined.
    pub fn joined(&self, separator: &str) -> String {
        let mut texts = self.parts.iter().filter_map(ContentPart::as_text);
        let mut joined = texts.next().unwrap_or_default().to_owned();
        for text in texts {
            joined.push_str(separator);
            joined.push_str(text);
        }
        joined
    }

    /// Takes the parts; none stay.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl RequestMessage {
    /// A message of that role.
    pub fn new(role: Role, content: MessageContent) -> Self {
        Self { role, content, name: None, retained: RetainedFields::default() }
    }

    /// A message of one part.
    pub(crate) fn of(role: Role, part: ContentPart) -> Self {
        Self::new(role, MessageContent { parts: vec![part], form: ContentForm::Any })
    }
}

impl PartKind {
    /// A document that is text, as a text; anything else as it is.
    pub(crate) fn document_as_text(self) -> Self {
        match self {
            Self::Media(mut media) => match &mut media.source {
                MediaSource::Text(text) => Self::Text(std::mem::take(text)),
                MediaSource::Data(_) | MediaSource::Url(_) | MediaSource::Id(_) => Self::Media(media),
            },
            body => body,
        }
    }
}

impl From<Media> for PartKind {
    fn from(media: Media) -> Self {
        Self::Media(Box::new(media))
    }
}

impl From<RequestReasoning> for PartKind {
    fn from(reasoning: RequestReasoning) -> Self {
        Self::Reasoning(Box::new(reasoning))
    }
}

/// The call as it goes back to its model in the history of the next request.
impl From<&ToolCall> for RequestCall {
    fn from(call: &ToolCall) -> Self {
        Self {
            id: Some(call.id.clone()).filter(|id| !id.is_empty()),
            name: call.name.clone(),
            namespace: None,
            arguments: CallArguments::Text(call.arguments().to_owned()),
            kind: call.kind,
        }
    }
}

/// The call with its arguments as text, to be parsed or checked.
impl From<RequestCall> for ToolCall {
    fn from(call: RequestCall) -> Self {
        let RequestCall { id, name, arguments, kind, .. } = call;
        Self { kind, ..Self::new(id.unwrap_or_default(), name, arguments.into_text()) }
    }
}

impl CallResult {
    /// The result of a call, to be sent to the model that made it.
    ///
    /// ```
    /// use callweave::protocol::OPENAI_CHAT;
    /// use callweave::request::{CallResult, ContentPart, MessageContent, Request, RequestCall, RequestMessage, Role};
    /// use callweave::{ToolCall, Value};
    ///
    /// let call = ToolCall::new("call_1", "look", r#"{"at": "sky"}"#);
    /// let part = ContentPart::new(RequestCall::from(&call));
    /// let result = ContentPart::new(CallResult::new(&call, "blue"));
    /// let mut request = Request::default();
    /// request.messages.push(RequestMessage::new(Role::Assistant, MessageContent::list(vec![part])));
    /// request.messages.push(RequestMessage::new(Role::Tool, MessageContent::list(vec![result])));
    /// let body = OPENAI_CHAT.write_request(&request, &Default::default())?.body;
    /// let expected: Value = r#"{"role": "tool", "tool_call_id": "call_1", "content": "blue"}"#.parse()?;
    /// assert_eq!(body["messages"][1], expected);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            id: Some(call.id.clone()).filter(|id| !id.is_empty()),
            name: Some(call.name.clone()).filter(|name| !name.is_empty()),
            content: MessageContent::text(text),
            value: None,
            is_error: None,
            kind: call.kind,
        }
    }
}

impl From<RequestCall> for PartKind {
    fn from(call: RequestCall) -> Self {
        Self::Call(Box::new(call))
    }
}

impl From<CallResult> for PartKind {
    fn from(result: CallResult) -> Self {
        Self::Result(Box::new(result))
    }
}

impl ContentPart {
    /// A part.
    pub fn new(body: impl Into<PartKind>) -> Self {
        Self { body: body.into(), cache: None, signature: None, retained: RetainedFields::default() }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(PartKind::Text(text.into()))
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            PartKind::Text(text) | PartKind::Refusal(text) => Some(text),
            _ => None,
        }
    }

    /// Content of `protocol` alone, with the wire's own type of it.
    pub(crate) fn opaque(protocol: &'static str, word: &str, value: Value) -> Self {
        Self {
            retained: RetainedFields::whole(protocol, value),
            ..Self::new(PartKind::Opaque(word.to_owned()))
        }
    }

    /// Whether it has nothing but its content.
    pub(crate) fn is_plain(&self) -> bool {
        self.cache.is_none() && self.signature.is_none() && self.retained.is_empty()
    }
}

impl Media {
    /// Media of that kind at a URL, which may be a `data:` URL.
    pub(crate) fn at(kind: MediaKind, url: String) -> Self {
        match parse_data_url(&url) {
            Some((media_type, data)) => {
                let media_type = Some(media_type.to_owned());
                Self { media_type, ..Self::new(kind, MediaSource::Data(data.to_owned())) }
            }
            None => Self::new(kind, MediaSource::Url(url)),
        }
    }

    /// Media of that kind.
    pub fn new(kind: MediaKind, source: MediaSource) -> Self {
        Self { kind, source, media_type: None, name: None, detail: None }
    }
}

impl RequestReasoning {
    /// The text of the reasoning, or else its summary.
    pub(crate) fn into_text(self) -> Option<String> {
        self.text.or_else(|| Some(self.summary?.join("\n\n")))
    }
}

impl CallArguments {
    /// The arguments as text: the model's own where it wrote text.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Json(value) => value.to_string(),
        }
    }

    /// The arguments as an object; an empty text is no arguments, and a value that is no object comes back as it is.
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

impl ProviderSeal {
    /// Data of that issuer, boxed, as its owners hold it. A mark on the data names another issuer.
    pub fn new(issuer: &'static str, data: impl Into<String>) -> Box<Self> {
        let data = data.into();
        Box::new(unmarked(&data).unwrap_or_else(|| Self { issuer: issuer.into(), data }))
    }

    /// Data of an unnamed issuer. The form of real seals shows it; long seals whose form does not are sent back to
    /// nobody.
    pub(crate) fn found(data: impl Into<String>) -> Box<Self> {
        let data = data.into();
        Self::new(seals::issuer_of(&data), data)
    }

    /// Whether it goes back to that issuer. Where a gateway did not name the issuer, the data must have the issuer's
    /// form.
    pub fn is_of(&self, issuer: &str) -> bool {
        self.issuer == issuer || self.issuer.is_empty() && self.may_be_of(issuer)
    }

    /// Whether the data has the form of that issuer's seals. Gateways put seals where Anthropic's stand.
    fn may_be_of(&self, issuer: &str) -> bool {
        match issuer {
            // Bytes in Base64. The first field of Anthropic's has another number.
            "google" => !self.data.starts_with('E') && STANDARD.decode(&self.data).is_ok(),
            "openai" => self.data.starts_with("gAAAA"),
            _ => true,
        }
    }

    /// The data, if it goes back to that issuer.
    pub fn of(seal: &mut Option<Box<Self>>, issuer: &str) -> Option<String> {
        seal.take_if(|seal| seal.is_of(issuer)).map(|seal| seal.data)
    }
}
