//! The vocabulary that every protocol and dialect is translated to and from.
//!
//! A response is a sequence of [`Event`]s, from its start to its end. Content comes in *blocks* (text, reasoning,
//! refusal, tool call, tool result, opaque content): a block starts, grows by deltas, and ends; where the wire groups
//! blocks, they belong to *items*. The same events are read and written: each carries the wire's own type and the extra
//! fields that the wire sent with it, so an encoder need not guess. These laws hold for every sequence the library
//! emits, and a validator runs over everything in tests:
//!
//! - a response begins with its start and ends with its end; a choice begins before its first block;
//! - block and item starts and ends balance, and a number is used once in a response;
//! - a delta, correction or end belongs to an open block of the same choice, and a delta has the kind of its block;
//! - blocks and items may interleave (parallel calls);
//! - one finish per choice, and nothing of its blocks after it;
//! - events beside content are emitted before it: usage, extra fields and attachments, then the delta.
//!
//! Events borrow: the text of a delta is a slice of the input or of the emitting stage's scratch
//! buffer. [`Event::into_owned`] detaches one.

mod flat;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::{AsValue, JsonKind, Tape, Value, escape_into};
use crate::upstream::UpstreamError;

/// The version of the JSON that events and messages are written as: `schemas/` has its JSON Schemas.
pub const SCHEMA_VERSION: u32 = 2;

/// The receiver of a stage's items. Sinks are infallible.
///
/// Closures are sinks, and so are `Vec<Event<'static>>`, the accumulator and every later stage.
pub trait Sink<T> {
    /// Takes one item.
    fn put(&mut self, item: T);
}

impl<T, F: FnMut(T)> Sink<T> for F {
    fn put(&mut self, item: T) {
        self(item);
    }
}

impl<'e> Sink<Event<'e>> for Vec<Event<'static>> {
    fn put(&mut self, event: Event<'e>) {
        self.push(event.into_owned());
    }
}

/// Anything that takes events, whatever they borrow from.
pub type EventSink<'s> = dyn for<'e> Sink<Event<'e>> + 's;

/// One event of a response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The choice (candidate response) it belongs to; 0 where the protocol has only one, and for events about the
    /// response as a whole.
    pub choice: u32,
    /// The bytes of the text stream this event was made from, where a dialect extractor made it;
    /// else empty. Counted over the choice's visible text, or over its reasoning text.
    pub source: ByteSpan,
    /// The kind of the event, with its content.
    pub body: EventKind<'a>,
}

/// The kinds of [`Event`], with their content.
///
/// `wire_type` is always the wire's own name of the thing, so that an encoder of the same protocol can write it back;
/// it is empty where the wire has none. `extra` is a JSON object of the other fields that the wire sent with a start.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The response begins: the first event of every response.
    Start {
        /// The provider's id of the response.
        id: Option<Cow<'a, str>>,
        /// The model that generates it.
        model: Option<Cow<'a, str>>,
        /// The wire's own type of such a response (`chat.completion`, `text_completion`, `message`, …).
        wire_type: Cow<'a, str>,
        /// Extra fields of the start.
        extra: Option<JsonText<'a>>,
    },
    /// A choice begins, before or without any block.
    ChoiceStart,
    /// An item begins: a group of blocks on the wire, such as an output item of OpenAI Responses.
    ItemStart {
        /// Its number, unique in the response.
        item: ItemId,
        /// The provider's id of it.
        id: Option<Cow<'a, str>>,
        /// The wire's own type of the item.
        wire_type: Cow<'a, str>,
        /// Extra fields of its start.
        extra: Option<JsonText<'a>>,
    },
    /// An item is over. Later events about it may still come, with its number.
    ItemEnd {
        /// The item.
        item: ItemId,
    },
    /// A block opened.
    BlockStart {
        /// Its number, unique in the response.
        block: BlockId,
        /// The item it belongs to.
        item: Option<ItemId>,
        /// The kind of its content.
        kind: BlockKind<'a>,
        /// The wire's own type of the block.
        wire_type: Cow<'a, str>,
        /// The wire's own number for it, where it has one. Not its position.
        index: Option<i64>,
        /// Extra fields of its start.
        extra: Option<JsonText<'a>>,
    },
    /// A block grew.
    Delta {
        /// The block.
        block: BlockId,
        /// The kind of the block's content.
        kind: DeltaKind,
        /// The text to append; never empty.
        text: Cow<'a, str>,
    },
    /// An id or a model name that came late, or changed.
    Identity {
        /// The thing that it names.
        scope: EventScope,
        /// The provider's id.
        id: Option<Cow<'a, str>>,
        /// The model (of a response).
        model: Option<Cow<'a, str>>,
    },
    /// The provider's closing restatement differs from the text it streamed: this is the complete text.
    Correction {
        /// The block.
        block: BlockId,
        /// The complete text of the block.
        text: Cow<'a, str>,
    },
    /// A block ended.
    BlockEnd {
        /// The block.
        block: BlockId,
        /// Whether the block is complete.
        completion: BlockCompletion,
    },
    /// An attachment to a block, an item, a choice or the response.
    Attachment {
        /// The thing that it is attached to.
        scope: EventScope,
        /// The kind of attachment.
        kind: AttachmentKind,
        /// The wire's own type of the attachment; for log probabilities their channel.
        wire_type: Cow<'a, str>,
        /// The attachment, as the provider wrote it.
        value: JsonText<'a>,
    },
    /// The progress of an item or of the response; not part of the message.
    Progress {
        /// The thing that progresses.
        scope: EventScope,
        /// The wire's own type of this step.
        wire_type: Cow<'a, str>,
        /// The value of the step, if it has one.
        value: Option<JsonText<'a>>,
    },
    /// Token counts so far. See [`Usage`](crate::message::Usage) for how later ones go with earlier ones.
    Usage {
        /// The place of the counts on the wire.
        wire_type: Cow<'a, str>,
        /// The normalised counters.
        counters: TokenCounts,
        /// The provider's own object.
        raw: JsonText<'a>,
    },
    /// The choice is finished.
    Finish {
        /// The normalized reason, derived from content where the provider's is wrong.
        reason: FinishReason,
        /// The provider's last non-null name of the reason.
        raw: Option<Cow<'a, str>>,
    },
    /// Dialect syntax that is neither text nor argument; `source` says where it stood.
    Markup {
        /// The syntax.
        text: Cow<'a, str>,
    },
    /// An oddity that was recovered from.
    Notice(Notice<'a>),
    /// The upstream reported an error.
    Error(UpstreamError<'a>),
    /// An extra field: one that only this protocol has. It is emitted when it is new or has changed.
    Extra {
        /// The thing that has the field.
        scope: EventScope,
        /// The path of the field, from the thing that has it downwards, in the wire's own spelling: keys joined by
        /// dots, a dot inside a key written as `\\.`.
        path: Cow<'a, str>,
        /// The value of the field.
        value: JsonText<'a>,
    },
    /// The response is over: the last event of every response. Another response may follow in the same input.
    End,
}

impl<'a> EventKind<'a> {
    /// The start of a block without an item, a wire type or extra fields.
    pub fn block_start(block: BlockId, kind: BlockKind<'a>) -> Self {
        Self::BlockStart { block, item: None, kind, wire_type: Cow::Borrowed(""), index: None, extra: None }
    }

    /// The block that the event is about.
    pub(crate) fn block(&self) -> Option<BlockId> {
        match self {
            Self::BlockStart { block, .. }
            | Self::Delta { block, .. }
            | Self::Correction { block, .. }
            | Self::BlockEnd { block, .. }
            | Self::Extra { scope: EventScope::Block(block), .. }
            | Self::Identity { scope: EventScope::Block(block), .. }
            | Self::Attachment { scope: EventScope::Block(block), .. }
            | Self::Progress { scope: EventScope::Block(block), .. } => Some(*block),
            _ => None,
        }
    }
}

/// The thing that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventScope {
    /// The response as a whole.
    Response,
    /// The event's choice.
    Choice,
    /// An item.
    Item(ItemId),
    /// A block.
    Block(BlockId),
}

/// The kind of text that a delta appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeltaKind {
    /// Visible text.
    Text,
    /// Reasoning.
    Reasoning,
    /// A refusal.
    Refusal,
    /// The argument text of a tool call.
    Arguments,
}

/// The kinds of attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttachmentKind {
    /// A signature to send back with what it signs. A later one replaces an earlier one.
    Signature,
    /// Encrypted data to send back. A later one replaces an earlier one.
    Encrypted,
    /// A citation or other annotation.
    Annotation,
    /// Log probabilities: one entry or a list of entries.
    Logprobs,
}

/// The number of an item, unique in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub u32);

/// The number of a block, unique in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockId(pub u32);

/// The kind of a block's content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind<'a> {
    /// Visible text.
    Text,
    /// The model's reasoning.
    Reasoning(ReasoningForm),
    /// The model's refusal to answer.
    Refusal,
    /// A tool call; its deltas are argument text.
    ToolCall {
        /// The provider's id, or a made one; none before the last stage has made it.
        id: Option<Cow<'a, str>>,
        /// Whether the id was made because the provider gave none.
        is_made: bool,
        /// The tool's name; empty where the provider never gave one.
        name: Cow<'a, str>,
        /// The party that runs the call, and the form of its arguments.
        call: CallKind,
    },
    /// The result of a tool that the provider ran; complete, without deltas.
    ToolResult {
        /// The id of the call it belongs to, where one is known.
        call: Option<Cow<'a, str>>,
        /// The result, as the provider wrote it.
        value: JsonText<'a>,
    },
    /// Content that only the protocol has (images, audio, uploads, …); complete, without deltas.
    Opaque {
        /// The content, as the provider wrote it.
        value: JsonText<'a>,
    },
}

/// The form in which a model shows its reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningForm {
    /// The reasoning itself.
    #[default]
    Raw,
    /// A summary of it.
    Summary,
    /// Nothing: the reasoning is encrypted or withheld.
    Redacted,
}

/// The party that runs a call, and the form of its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallKind {
    /// The client runs it; arguments are JSON text.
    #[default]
    Function,
    /// The client runs it; arguments are free text.
    Custom,
    /// The provider runs it itself; shown, never to be run again.
    Builtin,
}

/// The kind as the JSON output spells it, such as `function`.
impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The completion as the JSON output spells it, such as `truncated`.
impl fmt::Display for BlockCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Whether a block is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockCompletion {
    /// It is complete.
    #[default]
    Complete,
    /// It was truncated: more was to come. Its argument text may happen to be a complete value.
    Truncated,
    /// It is a complete call, written in text behind a damaged one whose end is in doubt: it may be a part of the
    /// damaged call's content, so it must not be run.
    AfterDamage,
}

/// The normalized reason why a response finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model was done, or met a stop sequence.
    Stop,
    /// A token limit or the context window truncated it.
    Length,
    /// It waits for the results of tool calls.
    ToolCalls,
    /// A filter truncated or withheld it.
    ContentFilter,
    /// It failed.
    Error,
    /// The provider gave another reason, or none.
    Other,
}

/// The reason as the JSON output spells it, such as `tool_calls`.
impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Normalized token counts. A missing counter was not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenCounts {
    /// All input tokens, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// All output tokens, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The provider's own total, else input + output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Input tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Output tokens spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl TokenCounts {
    /// The same for wires that count cached tokens beside the input, not in it. Some providers count more of them
    /// than there were.
    pub(crate) fn with_cache_beside(&self) -> Self {
        let most = self.input_tokens.unwrap_or(u64::MAX);
        let cache_write_tokens = self.cache_write_tokens.map(|count| count.min(most));
        let written = cache_write_tokens.unwrap_or(0);
        let cached_tokens = self.cached_tokens.map(|count| count.min(most - written));
        let cache = written.saturating_add(cached_tokens.unwrap_or(0));
        let input_tokens = self.input_tokens.map(|count| count.saturating_sub(cache));
        Self { input_tokens, cached_tokens, cache_write_tokens, ..*self }
    }

    /// Takes counts that were reported later.
    #[cfg(feature = "exchange")]
    pub(crate) fn update(&mut self, newer: &Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cached_tokens = newer.cached_tokens.or(self.cached_tokens);
        self.cache_write_tokens = newer.cache_write_tokens.or(self.cache_write_tokens);
        self.reasoning_tokens = newer.reasoning_tokens.or(self.reasoning_tokens);
        self.total_tokens = newer.total_tokens;
    }

    /// The sums; a count that neither reported is none.
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
        };
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            total_tokens: sum(self.total_tokens, other.total_tokens),
            cached_tokens: sum(self.cached_tokens, other.cached_tokens),
            cache_write_tokens: sum(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
        }
    }
}

/// An oddity that was recovered from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notice<'a> {
    /// The kind of oddity.
    pub code: NoticeCode,
    /// The position in the input, in bytes.
    pub offset: u64,
    /// The block that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockId>,
    /// A description that names the thing.
    pub detail: Cow<'a, str>,
    /// Text that has no other place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
}

/// The code as the JSON output spells it, such as `malformed_call`.
impl fmt::Display for NoticeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The kinds of oddity that a [`Notice`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoticeCode {
    /// A frame is not JSON; its text is kept in the notice.
    MalformedFrame,
    /// Bytes that are not UTF-8 were replaced.
    InvalidUtf8,
    /// The stream ended without the provider's end.
    Truncated,
    /// The response has no content, or no calls where it says that there are some.
    Empty,
    /// A fragment came for a call that had already ended; its text is kept in the notice.
    LateFragment,
    /// The provider resends the complete argument text instead of increments.
    Cumulative,
    /// The provider sent the same piece of argument text twice; it is emitted once.
    Repeated,
    /// A tool call never got a name.
    MissingName,
    /// A tool call was truncated: more was to come.
    IncompleteArguments,
    /// A tool call was damaged: its arguments are not JSON, or (in text) only the part before the damage is kept.
    MalformedCall,
    /// A tool call stands in text behind a damaged one whose end is in doubt, so it may be a part of the damaged call's
    /// content.
    AfterDamage,
    /// A tool call names a tool that was not declared.
    UnknownTool,
    /// A tool call's arguments do not fit the schema of its tool.
    SchemaMismatch,
    /// A tool call's arguments were passed on without a check against the schema of its tool: the schema is too large,
    /// or the check takes more steps than a call may take.
    Unchecked,
    /// A markup marker without its partner, or syntax out of place.
    StrayMarkup,
    /// Text that looks like a call was judged to be text; or it was judged to be a call although it stands where calls
    /// are shown. The detail says why.
    Judged,
    /// A registered matcher failed or returned nonsense; it was left out.
    Matcher,
    /// A value was altered to fit its schema, or repaired.
    Repaired,
    /// Any other oddity, described by the detail.
    Other,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByteSpan {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl ByteSpan {
    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}

/// A valid JSON text, passed on as it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText<'a>(Cow<'a, str>);

impl<'a> JsonText<'a> {
    /// Wraps a text that is known to be valid JSON.
    pub(crate) fn trusted(text: impl Into<Cow<'a, str>>) -> Self {
        Self(text.into())
    }

    /// A text as a JSON string.
    pub fn from_text(text: &str) -> JsonText<'static> {
        let mut json = String::from("\"");
        escape_into(text, &mut json);
        json.push('"');
        JsonText(Cow::Owned(json))
    }

    /// Serialises a value.
    pub fn from_value(value: &impl AsValue) -> JsonText<'static> {
        JsonText(Cow::Owned(value.as_value().to_string()))
    }

    /// Takes the text of another, in the memory of its own.
    pub(crate) fn set(&mut self, other: &JsonText<'_>) {
        other.as_str().clone_into(self.0.to_mut());
    }

    /// Puts a member behind the others of a non-empty object; returns false if it is none.
    pub(crate) fn append_member(&mut self, key: &str, value: &JsonText<'_>) -> bool {
        let is_such = self.0.starts_with("{\"") && self.0.ends_with('}');
        if is_such {
            let text = self.0.to_mut();
            text.pop();
            text.push_str(",\"");
            escape_into(key, text);
            text.push_str("\":");
            text.push_str(value.as_str());
            text.push('}');
        }
        is_such
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed value. Half a surrogate pair becomes U+FFFD, and a part that is nested too deeply for programs that
    /// recurse is a string of its JSON text; [`JsonText::as_str`] has both as they were written.
    pub fn to_value(&self) -> Value {
        Value::of_text(&self.0)
    }

    /// The text, if it is a string.
    pub fn to_text(&self) -> Option<Cow<'_, str>> {
        let inner = self.0.trim_ascii().strip_prefix('"')?.strip_suffix('"')?;
        Some(crate::json::Str::Escaped(inner).to_cow())
    }

    /// The elements, if it is a list; else itself alone.
    pub fn entries(self) -> Vec<JsonText<'static>> {
        match Tape::new().parse(&self.0) {
            Ok(list) if list.kind() == JsonKind::Array => {
                list.elements().map(|entry| JsonText(Cow::Owned(entry.raw().to_owned()))).collect()
            }
            _ => vec![self.clone().into_owned()],
        }
    }

    /// Detaches it from what it borrows.
    pub fn into_owned(self) -> JsonText<'static> {
        JsonText(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Debug for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Raw text for the complete value would be something else in a format that is not JSON.
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Ours keeps the order of keys, and numbers as they were written.
        Ok(JsonText::from_value(&Value::deserialize(deserializer)?))
    }
}

impl<'a> Event<'a> {
    /// An event of `choice` that was not made from text.
    pub fn new(choice: u32, body: EventKind<'a>) -> Self {
        Self { choice, source: ByteSpan::default(), body }
    }

    /// The same event, made from these bytes of the text stream.
    #[must_use]
    pub fn with_source(self, source: ByteSpan) -> Self {
        Self { source, ..self }
    }

    /// Detaches the event from what it borrows.
    pub fn into_owned(self) -> Event<'static> {
        Event { choice: self.choice, source: self.source, body: self.body.into_owned() }
    }
}

fn own(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

fn own_json(value: JsonText<'_>) -> JsonText<'static> {
    value.into_owned()
}

impl EventKind<'_> {
    /// Detaches the body from what it borrows.
    pub fn into_owned(self) -> EventKind<'static> {
        match self {
            Self::Start { id, model, wire_type, extra } => EventKind::Start {
                id: id.map(own),
                model: model.map(own),
                wire_type: own(wire_type),
                extra: extra.map(own_json),
            },
            Self::ChoiceStart => EventKind::ChoiceStart,
            Self::ItemStart { item, id, wire_type, extra } => EventKind::ItemStart {
                item,
                id: id.map(own),
                wire_type: own(wire_type),
                extra: extra.map(own_json),
            },
            Self::ItemEnd { item } => EventKind::ItemEnd { item },
            Self::BlockStart { block, item, kind, wire_type, index, extra } => EventKind::BlockStart {
                block,
                item,
                kind: kind.into_owned(),
                wire_type: own(wire_type),
                index,
                extra: extra.map(own_json),
            },
            Self::Delta { block, kind, text } => EventKind::Delta { block, kind, text: own(text) },
            Self::Identity { scope, id, model } => {
                EventKind::Identity { scope, id: id.map(own), model: model.map(own) }
            }
            Self::Correction { block, text } => EventKind::Correction { block, text: own(text) },
            Self::BlockEnd { block, completion } => EventKind::BlockEnd { block, completion },
            Self::Attachment { scope, kind, wire_type, value } => {
                EventKind::Attachment { scope, kind, wire_type: own(wire_type), value: value.into_owned() }
            }
            Self::Progress { scope, wire_type, value } => {
                EventKind::Progress { scope, wire_type: own(wire_type), value: value.map(own_json) }
            }
            Self::Usage { wire_type, counters, raw } => {
                EventKind::Usage { wire_type: own(wire_type), counters, raw: raw.into_owned() }
            }
            Self::Finish { reason, raw } => EventKind::Finish { reason, raw: raw.map(own) },
            Self::End => EventKind::End,
            Self::Markup { text } => EventKind::Markup { text: own(text) },
            Self::Notice(notice) => EventKind::Notice(notice.into_owned()),
            Self::Error(error) => EventKind::Error(error.into_owned()),
            Self::Extra { scope, path, value } => {
                EventKind::Extra { scope, path: own(path), value: value.into_owned() }
            }
        }
    }
}

impl BlockKind<'_> {
    /// Detaches the kind from what it borrows.
    pub fn into_owned(self) -> BlockKind<'static> {
        match self {
            Self::Text => BlockKind::Text,
            Self::Reasoning(form) => BlockKind::Reasoning(form),
            Self::Refusal => BlockKind::Refusal,
            Self::ToolCall { id, is_made, name, call } => {
                BlockKind::ToolCall { id: id.map(own), is_made, name: own(name), call }
            }
            Self::ToolResult { call, value } => {
                BlockKind::ToolResult { call: call.map(own), value: value.into_owned() }
            }
            Self::Opaque { value } => BlockKind::Opaque { value: value.into_owned() },
        }
    }
}

impl<'a> Notice<'a> {
    /// A notice without kept text.
    pub fn new(code: NoticeCode, offset: u64, detail: impl Into<Cow<'a, str>>) -> Self {
        Self { code, offset, block: None, detail: detail.into(), text: None }
    }

    /// Detaches the notice from what it borrows.
    pub fn into_owned(self) -> Notice<'static> {
        Notice { detail: own(self.detail), text: self.text.map(own), ..self }
    }
}
