//! The vocabulary that every protocol and dialect is translated to and from.
//!
//! An answer is a sequence of [`Event`]s. Content comes in *blocks* (text, reasoning, refusal, tool
//! call): a block starts, grows by deltas, and ends. These laws hold for every sequence the library
//! emits, and a validator runs over everything in tests:
//!
//! - block starts and ends balance, and a block's number is used once;
//! - a delta, correction or end belongs to an open block of the same choice, an identity to a call that has
//!   begun;
//! - blocks may interleave (parallel calls);
//! - at most one finish per choice, and nothing but usage, foreign, notices and errors after it;
//! - an end of the answer when all blocks have ended; what follows is another answer, whose choices and ids
//!   are its own (numbers of blocks go on).
//!
//! Events borrow: the text of a delta is a slice of the input or of the emitting stage's scratch
//! buffer. [`Event::into_owned`] detaches one.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::json::{AsValue, Value, escape_into};
use crate::upstream::UpstreamError;

/// Where the items of a stage go. Sinks are infallible.
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

/// One thing that happened in an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event<'a> {
    /// The choice (candidate answer) it belongs to; 0 where the protocol knows only one.
    pub choice: u32,
    /// The bytes of the text stream this event was made from, where a dialect extractor made it;
    /// else empty. Counted over the choice's visible text, or over its reasoning text.
    #[serde(skip_serializing_if = "Span::is_empty")]
    pub source: Span,
    /// What happened.
    #[serde(flatten)]
    pub body: Body<'a>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body<'a> {
    /// The answer began. May come again when the provider names itself later.
    Start {
        /// The provider's id of the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// The model that answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
    },
    /// A block opened.
    BlockStart {
        /// Its number, unique in the answer.
        block: BlockId,
        /// What it will hold.
        #[serde(flatten)]
        kind: BlockKind<'a>,
    },
    /// A block grew: text to append (for a tool call: argument text).
    Delta {
        /// The block.
        block: BlockId,
        /// The text to append; never empty.
        text: Cow<'a, str>,
    },
    /// The id of a call that came after its block had started.
    Identity {
        /// The block.
        block: BlockId,
        /// The provider's id of the call.
        id: Cow<'a, str>,
    },
    /// The provider's closing restatement differs from what it streamed: this is the whole text.
    Correction {
        /// The block.
        block: BlockId,
        /// The whole text of the block.
        text: Cow<'a, str>,
    },
    /// A block ended.
    BlockEnd {
        /// The block.
        block: BlockId,
        /// Whether it ended as it should.
        completion: Completion,
    },
    /// Something about a reasoning block besides its visible text.
    ReasoningDetail {
        /// The reasoning block it belongs to, where one is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        block: Option<BlockId>,
        /// The detail.
        #[serde(flatten)]
        detail: Detail<'a>,
    },
    /// A citation or other annotation of the text, as the provider wrote it.
    Annotation {
        /// The block it annotates, where one is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        block: Option<BlockId>,
        /// The annotation.
        value: Json<'a>,
    },
    /// Log probabilities, as the provider wrote them: one entry or a list of entries.
    Logprobs {
        /// The entries.
        value: Json<'a>,
    },
    /// What a builtin (provider-executed) tool answered.
    ToolResult {
        /// The block of the call it answers, where one is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        block: Option<BlockId>,
        /// The id of the call it answers, as the provider wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<Cow<'a, str>>,
        /// The result, as the provider wrote it.
        value: Json<'a>,
    },
    /// Token counts so far. See [`Usage`](crate::message::Usage) for how later ones go with earlier ones.
    Usage {
        /// The normalised counters.
        #[serde(flatten)]
        counters: Counters,
        /// The provider's own object.
        raw: Json<'a>,
    },
    /// The choice is finished.
    Finish {
        /// The reason in our words, derived from content where the provider's is wrong.
        reason: FinishReason,
        /// The provider's last non-null word for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Cow<'a, str>>,
    },
    /// The answer is over. What follows is the next answer of the same input.
    End,
    /// Dialect syntax that is neither text nor argument; `source` says where it stood.
    Markup {
        /// The syntax.
        text: Cow<'a, str>,
    },
    /// An oddity that was recovered from.
    Notice(Notice<'a>),
    /// The upstream reported an error.
    Error(UpstreamError<'a>),
    /// What only this protocol knows.
    Foreign {
        /// The block it belongs to, where one is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        block: Option<BlockId>,
        /// Where it stood, in the wire's own words.
        path: Cow<'a, str>,
        /// What stood there.
        value: Json<'a>,
    },
}

/// The number of a block, unique in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BlockId(pub u32);

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BlockKind<'a> {
    /// Visible text.
    Text,
    /// The model's thoughts.
    Reasoning,
    /// The model's refusal to answer.
    Refusal,
    /// A tool call; its deltas are argument text.
    ToolCall {
        /// The provider's id, where it gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// The tool's name; empty where the provider never gave one.
        name: Cow<'a, str>,
        /// The wire's own number for the call, where it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<i64>,
        /// Who runs it and what its arguments are.
        call: CallKind,
    },
}

/// Who runs a call and what its arguments are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// The client runs it; arguments are JSON text.
    #[default]
    Function,
    /// The client runs it; arguments are free text.
    Custom,
    /// The provider runs it itself; shown, never to be run again.
    Builtin,
}

/// Whether a block ended as it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// It is whole.
    #[default]
    Whole,
    /// It was cut off: more was to come. Its argument text may happen to be a complete value.
    Cut,
}

/// Something about a reasoning block besides its visible text.
///
/// Details of the same `index` and `kind` belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detail<'a> {
    /// What it is.
    #[serde(rename = "detail")]
    pub kind: DetailKind,
    /// The provider's number for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<i64>,
    /// The signature, the encrypted data or the summary text.
    pub data: Cow<'a, str>,
    /// The provider's remaining fields (id, format, …).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json<'a>>,
}

/// The kinds of [`Detail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DetailKind {
    /// Thought text that the provider files under details; it is also the block's text, never doubled.
    Text,
    /// A summary of the thoughts.
    Summary,
    /// A signature to send back with the thoughts. A later one replaces an earlier one.
    Signature,
    /// Encrypted thoughts to send back. A later one replaces an earlier one.
    Encrypted,
    /// Redacted thoughts to send back.
    Redacted,
}

/// Why an answer finished, in our words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done, or met a stop sequence.
    Stop,
    /// A token limit or the context window cut it.
    Length,
    /// It waits for the results of tool calls.
    ToolCalls,
    /// A filter cut or withheld it.
    ContentFilter,
    /// It failed.
    Error,
    /// The provider gave another reason, or none.
    Other,
}

/// Token counts in our words. A missing counter was not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
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

impl Counters {
    /// The sums; what neither reported was not reported.
    pub(crate) fn plus(&self, other: &Self) -> Self {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice<'a> {
    /// Which oddity.
    pub code: NoticeCode,
    /// Where in the input, in bytes.
    pub offset: u64,
    /// In words; names the thing.
    pub detail: Cow<'a, str>,
    /// Text that found no other place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
}

/// Which oddity a [`Notice`] tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoticeCode {
    /// A frame is not JSON; its text is kept in the notice.
    MalformedFrame,
    /// Bytes that are not UTF-8 were replaced.
    InvalidUtf8,
    /// The stream ended without the provider's end.
    Truncated,
    /// The answer has no content, or no calls where it says that there are some.
    Empty,
    /// A fragment came for a call that had already ended; its text is kept in the notice.
    LateFragment,
    /// The provider resends the whole argument text instead of increments.
    Cumulative,
    /// The provider sent the same piece of argument text twice; it is told once.
    Repeated,
    /// A tool call never got a name.
    MissingName,
    /// A tool call was cut: more was to come.
    IncompleteArguments,
    /// A tool call was damaged: its arguments are not JSON, or (in text) only what came before the damage is
    /// kept.
    MalformedCall,
    /// A tool call names a tool that was not declared.
    UnknownTool,
    /// A tool call's arguments do not fit the schema of its tool.
    SchemaMismatch,
    /// A markup marker without its partner, or syntax out of place.
    StrayMarkup,
    /// A registered matcher failed or answered nonsense; it was left out.
    Matcher,
    /// A value was altered to fit its schema, or repaired.
    Repaired,
    /// Anything else, told by the detail.
    Other,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl Span {
    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}

/// A valid JSON text, passed on as it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct Json<'a>(Cow<'a, str>);

impl<'a> Json<'a> {
    /// Wraps a text that is known to be valid JSON.
    pub(crate) fn trusted(text: impl Into<Cow<'a, str>>) -> Self {
        Self(text.into())
    }

    /// A text as a JSON string.
    pub fn from_text(text: &str) -> Json<'static> {
        let mut json = String::from("\"");
        escape_into(text, &mut json);
        json.push('"');
        Json(Cow::Owned(json))
    }

    /// Serialises a value.
    pub fn from_value(value: &impl AsValue) -> Json<'static> {
        Json(Cow::Owned(value.as_value().to_string()))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value it stands for. Half a surrogate pair becomes U+FFFD, and what is nested too deeply for
    /// programs that recurse is a string of its JSON text; [`Json::as_str`] has both as they were written.
    pub fn to_value(&self) -> Value {
        Value::of_text(&self.0)
    }

    /// Detaches it from what it borrows.
    pub fn into_owned(self) -> Json<'static> {
        Json(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The whole as raw text would be something else in a format that is not JSON.
        self.to_value().serialize(serializer)
    }
}

impl<'a> Event<'a> {
    /// An event of `choice` that was not made from text.
    pub fn new(choice: u32, body: Body<'a>) -> Self {
        Self { choice, source: Span::default(), body }
    }

    /// Detaches the event from what it borrows.
    pub fn into_owned(self) -> Event<'static> {
        Event { choice: self.choice, source: self.source, body: self.body.into_owned() }
    }
}

fn own(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

impl Body<'_> {
    /// Detaches the body from what it borrows.
    pub fn into_owned(self) -> Body<'static> {
        match self {
            Self::Start { id, model } => Body::Start { id: id.map(own), model: model.map(own) },
            Self::BlockStart { block, kind } => Body::BlockStart { block, kind: kind.into_owned() },
            Self::Delta { block, text } => Body::Delta { block, text: own(text) },
            Self::Identity { block, id } => Body::Identity { block, id: own(id) },
            Self::Correction { block, text } => Body::Correction { block, text: own(text) },
            Self::BlockEnd { block, completion } => Body::BlockEnd { block, completion },
            Self::ReasoningDetail { block, detail } => {
                Body::ReasoningDetail { block, detail: detail.into_owned() }
            }
            Self::Annotation { block, value } => Body::Annotation { block, value: value.into_owned() },
            Self::Logprobs { value } => Body::Logprobs { value: value.into_owned() },
            Self::ToolResult { block, call, value } => {
                Body::ToolResult { block, call: call.map(own), value: value.into_owned() }
            }
            Self::Usage { counters, raw } => Body::Usage { counters, raw: raw.into_owned() },
            Self::Finish { reason, raw } => Body::Finish { reason, raw: raw.map(own) },
            Self::End => Body::End,
            Self::Markup { text } => Body::Markup { text: own(text) },
            Self::Notice(notice) => Body::Notice(notice.into_owned()),
            Self::Error(error) => Body::Error(error.into_owned()),
            Self::Foreign { block, path, value } => {
                Body::Foreign { block, path: own(path), value: value.into_owned() }
            }
        }
    }
}

impl BlockKind<'_> {
    /// Detaches the kind from what it borrows.
    pub fn into_owned(self) -> BlockKind<'static> {
        match self {
            Self::Text => BlockKind::Text,
            Self::Reasoning => BlockKind::Reasoning,
            Self::Refusal => BlockKind::Refusal,
            Self::ToolCall { id, name, index, call } => {
                BlockKind::ToolCall { id: id.map(own), name: own(name), index, call }
            }
        }
    }
}

impl Detail<'_> {
    /// Detaches the detail from what it borrows.
    pub fn into_owned(self) -> Detail<'static> {
        Detail {
            kind: self.kind,
            index: self.index,
            data: own(self.data),
            extra: self.extra.map(Json::into_owned),
        }
    }
}

impl<'a> Notice<'a> {
    /// A notice without kept text.
    pub fn new(code: NoticeCode, offset: u64, detail: impl Into<Cow<'a, str>>) -> Self {
        Self { code, offset, detail: detail.into(), text: None }
    }

    /// Detaches the notice from what it borrows.
    pub fn into_owned(self) -> Notice<'static> {
        Notice { code: self.code, offset: self.offset, detail: own(self.detail), text: self.text.map(own) }
    }
}
