//! The finished message: the accumulated response.
//!
//! A [`Message`] is the ordered list of the response's blocks, per choice, with their attachments. It is built by the
//! [`Accumulator`](crate::accumulator::Accumulator) and can be looked at while it grows; [`Message::text`],
//! [`Message::reasoning`] and [`Message::tool_calls`] are views of the list. It serialises to the JSON object that the
//! program prints, and is read back from it.

mod flat;

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, ByteSpan, CallKind, FinishReason, ItemId, JsonText, Notice,
    NoticeCode, ReasoningForm, TokenCounts,
};
use crate::json::{JsonKind, JsonWriter, Object, Tape, TapeNode, each_member};
use crate::table::OrderedTable;
use crate::upstream::{ErrorClass, UpstreamError};
use crate::{Error, ErrorKind, Result};

/// A response, finished or growing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// The provider's id of the response.
    pub id: Option<String>,
    /// The model that generated it.
    pub model: Option<String>,
    /// The wire's own type of such a response.
    pub wire_type: String,
    /// The candidate responses, in the order in which they first appeared. Usually one.
    pub choices: Vec<Choice>,
    /// Token counts, if any were reported.
    pub usage: Option<Usage>,
    /// Oddities that were recovered from.
    pub notices: Vec<Notice<'static>>,
    /// Errors that the upstream reported.
    pub errors: Vec<UpstreamError<'static>>,
    /// Attachments to the response as a whole.
    pub attachments: Vec<Attachment>,
    /// Extra fields of the response as a whole.
    pub extra: ExtraFields,
}

/// One candidate response.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// Its number.
    pub number: u32,
    /// The wire's groups of blocks, in the order in which the items began.
    pub items: Vec<OutputItem>,
    /// Its content, in the order in which the blocks began.
    pub blocks: Vec<Block>,
    /// Attachments to the choice as a whole, such as log probabilities.
    pub attachments: Vec<Attachment>,
    /// The reason why it finished; none while it has not.
    pub finish: Option<Finish>,
    /// Extra fields of this choice.
    pub extra: ExtraFields,
}

/// A group of blocks on the wire.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputItem {
    /// Its number in the stream of events.
    pub number: ItemId,
    /// The provider's id of it.
    pub id: Option<String>,
    /// The wire's own type of the item.
    pub wire_type: String,
    /// Its attachments.
    pub attachments: Vec<Attachment>,
    /// Its extra fields.
    pub extra: ExtraFields,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Block {
    /// Its number in the stream of events.
    pub id: BlockId,
    /// The item it belongs to.
    pub item: Option<ItemId>,
    /// The wire's own type of the block.
    pub wire_type: String,
    /// The wire's own number for it, where it has one. Not its position.
    pub index: Option<i64>,
    /// Its content.
    pub content: BlockContent,
    /// Whether it has ended.
    pub is_ended: bool,
    /// Its position in the text stream, if a dialect extractor found it there.
    pub source: ByteSpan,
    /// Its attachments.
    pub attachments: Vec<Attachment>,
    /// Its extra fields.
    pub extra: ExtraFields,
}

/// The content of a [`Block`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BlockContent {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Reasoning {
        /// The form in which it is shown.
        form: ReasoningForm,
        /// The text that is shown.
        text: String,
    },
    /// A refusal.
    Refusal(String),
    /// A tool call.
    ToolCall(ToolCall),
    /// The result of a tool that the provider ran.
    ToolResult(ToolResult),
    /// Content that only the protocol has, as the provider wrote it.
    Opaque(JsonText<'static>),
}

/// An attachment to a block, an item, a choice or the response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attachment {
    /// The kind of attachment.
    pub kind: AttachmentKind,
    /// The wire's own type of the attachment; for log probabilities their channel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wire_type: String,
    /// The attachment, as the provider wrote it.
    pub value: JsonText<'static>,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The provider's id, or a made one.
    pub id: String,
    /// Whether the id was made here (`tool_<choice>_<ordinal>`), because the provider gave none.
    pub has_made_id: bool,
    /// The tool's name; empty if the provider never gave one.
    pub name: String,
    /// The argument text, byte for byte; empty if there was none. See [`ToolCall::arguments`].
    pub raw_arguments: String,
    /// The party that runs the call, and the form of its arguments.
    pub kind: CallKind,
    /// Whether the call is complete.
    pub completion: BlockCompletion,
    /// The finding of a check against the declared tools: no such tool, or arguments that violate its schema.
    pub violation: Option<Box<InvalidCall>>,
}

/// The reason why a call cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InvalidCall {
    /// The reason.
    pub reason: InvalidReason,
    /// A description of the reason.
    pub detail: String,
}

/// The reasons of [`InvalidCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InvalidReason {
    /// The call was truncated: more was to come, even where its text happens to be complete.
    Incomplete,
    /// The call stands in text behind a damaged one whose end is in doubt, and may be a part of the damaged call's
    /// content.
    AfterDamage,
    /// The text is not JSON.
    NotJson,
    /// The text is JSON, but not an object.
    NotAnObject,
    /// The call has no name.
    NoName,
    /// The tool was not declared.
    UnknownTool,
    /// The arguments violate the schema of the tool.
    SchemaMismatch,
}

/// The reason as the JSON output spells it, such as `unknown_tool`.
impl fmt::Display for InvalidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The reason in words.
impl fmt::Display for InvalidCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl InvalidCall {
    /// The violation of the declared tools that a notice reports.
    pub(crate) fn reported(notice: &Notice<'_>) -> Option<Self> {
        let reason = match notice.code {
            NoticeCode::UnknownTool => InvalidReason::UnknownTool,
            NoticeCode::SchemaMismatch => InvalidReason::SchemaMismatch,
            _ => return None,
        };
        Some(Self { reason, detail: notice.detail.clone().into_owned() })
    }
}

/// The result of a tool that the provider ran.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The call's id.
    pub call: Option<String>,
    /// The result, as the provider wrote it.
    pub value: JsonText<'static>,
}

/// The reason why a choice finished.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finish {
    /// The normalized reason.
    pub reason: FinishReason,
    /// The provider's own name of the reason.
    pub raw: Option<String>,
}

/// Token counts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// The normalized counts.
    pub counters: TokenCounts,
    /// The provider's last object, as it was written, with the fields that only earlier objects had.
    pub raw: JsonText<'static>,
}

/// Extra fields: values that only the protocol has, by path, in the order in which they were first emitted, the newest
/// value of each.
#[derive(Clone, Default)]
pub struct ExtraFields {
    /// The members of a start, in one object, and the values that were emitted later; of several of one path the last
    /// counts.
    extra: Option<JsonText<'static>>,
    /// All values, once one was asked for: usually none is, and every block has room for them.
    values: OnceLock<Box<OrderedTable<String, JsonText<'static>>>>,
}

/// The maximum length of members that are kept unread: values that are emitted again and again would pile up.
const LONGEST_UNREAD: usize = 1024;

impl ExtraFields {
    /// The members of a start, which stand by path in one object.
    pub(crate) fn of(members: Option<JsonText<'_>>) -> Self {
        Self { extra: members.map(JsonText::into_owned), values: OnceLock::new() }
    }

    /// Puts a value behind the members, if they were not read and there is room.
    fn append(&mut self, path: &str, value: &JsonText<'_>) -> bool {
        let Some(members) = self.extra.as_mut().filter(|_| self.values.get().is_none()) else {
            return false;
        };
        members.as_str().len() + path.len() + value.as_str().len() < LONGEST_UNREAD
            && members.append_member(path, value)
    }

    fn values(&self) -> &OrderedTable<String, JsonText<'static>> {
        self.values.get_or_init(|| {
            let mut values = Box::<OrderedTable<_, _>>::default();
            each_member(self.extra.as_ref(), |path, value| {
                values.insert(path.to_owned(), JsonText::trusted(value.to_owned()));
            });
            values
        })
    }

    /// The value at that path.
    pub fn get(&self, path: &str) -> Option<&JsonText<'static>> {
        self.values().get(path)
    }

    /// Sets the value at that path.
    pub fn set(&mut self, path: impl Into<String>, value: JsonText<'static>) {
        let path = path.into();
        if self.append(&path, &value) {
            return;
        }
        self.values();
        self.extra = None;
        self.values.get_mut().expect("they were just read").insert(path, value);
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &JsonText<'static>)> {
        self.values().all().iter().map(|(path, value)| (path.as_str(), value))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values().len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values().is_empty()
    }
}

impl fmt::Debug for ExtraFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtraFields").field(self.values()).finish()
    }
}

impl PartialEq for ExtraFields {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

impl Message {
    /// The choice of that number.
    pub fn choice(&self, number: u32) -> Option<&Choice> {
        match self.choices.get(number as usize) {
            Some(choice) if choice.number == number => Some(choice),
            _ => self.choices.iter().find(|choice| choice.number == number),
        }
    }

    /// The first choice: the one with the smallest number.
    pub fn first(&self) -> Option<&Choice> {
        self.choices.iter().min_by_key(|choice| choice.number)
    }

    /// The visible text of the first choice.
    pub fn text(&self) -> Cow<'_, str> {
        self.first().map(Choice::text).unwrap_or_default()
    }

    /// The reasoning of the first choice.
    pub fn reasoning(&self) -> Cow<'_, str> {
        self.first().map(Choice::reasoning).unwrap_or_default()
    }

    /// The tool calls of the first choice, in the order in which they began.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.first().into_iter().flat_map(Choice::tool_calls)
    }

    /// The reason why the first choice finished.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.first()?.finish.as_ref().map(|finish| finish.reason)
    }

    /// The first error that the upstream reported, if the response failed.
    pub fn error(&self) -> Option<&UpstreamError<'static>> {
        self.errors.first()
    }

    /// Whether the end is missing: the input ended before the provider's end marker, or a limit on the length truncated
    /// the first choice. The part that came is as good as it was before the truncation.
    pub fn is_truncated(&self) -> bool {
        self.finish_reason() == Some(FinishReason::Length)
            || self.notices.iter().any(|notice| notice.code == NoticeCode::Truncated)
    }

    /// The message, if it is a response; the error of kind [`ErrorKind::Upstream`] that [contains](Error::upstream) the
    /// upstream's report, if it failed. A response of which only the provider's finish reason says that it failed has
    /// failed, too, in class [`ErrorClass::Other`].
    ///
    /// A truncated response is a response: see [`Message::is_truncated`]. A response with oddities is one, too, and a
    /// refusal as well. The content of a failed response is lost here; look at the message first if you want it.
    ///
    /// ```
    /// use callweave::pipeline::decode;
    /// use callweave::upstream::ErrorClass;
    ///
    /// let refused = br#"{"error": {"message": "Slow down", "type": "tokens", "code": "rate_limit_exceeded"}}"#;
    /// let error = decode(refused)?.into_result().unwrap_err();
    /// assert_eq!(error.upstream().map(|reported| reported.class), Some(ErrorClass::RateLimit));
    /// assert!(error.is_retryable());
    ///
    /// let lost = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    /// let message = decode(lost)?.into_result()?;
    /// assert_eq!((&*message.text(), message.is_truncated()), ("Hel", true));
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn into_result(mut self) -> Result<Self> {
        if !self.errors.is_empty() {
            return Err(self.errors.swap_remove(0).into());
        }
        match self.first().and_then(|choice| choice.finish.as_ref()) {
            Some(Finish { reason: FinishReason::Error, raw }) => {
                let wire_type = raw.as_deref().unwrap_or("error");
                let message = format!("the answer failed: it finished with {wire_type:?}");
                let code = raw.clone().map(Cow::Owned);
                Err(UpstreamError { code, ..UpstreamError::new(ErrorClass::Other, message) }.into())
            }
            _ => Ok(self),
        }
    }
}

impl Choice {
    /// All visible text, joined.
    pub fn text(&self) -> Cow<'_, str> {
        self.joined(|content| match content {
            BlockContent::Text(text) => Some(text),
            _ => None,
        })
    }

    /// All reasoning, joined.
    pub fn reasoning(&self) -> Cow<'_, str> {
        self.joined(|content| match content {
            BlockContent::Reasoning { text, .. } => Some(text),
            _ => None,
        })
    }

    /// All refusal text, joined.
    pub fn refusal(&self) -> Cow<'_, str> {
        self.joined(|content| match content {
            BlockContent::Refusal(text) => Some(text),
            _ => None,
        })
    }

    /// The tool calls, in the order in which they began.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match &block.content {
            BlockContent::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The results of tools that the provider ran, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(|block| match &block.content {
            BlockContent::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// All attachments of that kind to the choice, its items and its blocks.
    pub fn attachments(&self, kind: AttachmentKind) -> impl Iterator<Item = &Attachment> {
        let blocks = self.blocks.iter().flat_map(|block| &block.attachments);
        let items = self.items.iter().flat_map(|item| &item.attachments);
        blocks.chain(items).chain(&self.attachments).filter(move |attachment| attachment.kind == kind)
    }

    fn joined<'a>(&'a self, pick: impl Fn(&'a BlockContent) -> Option<&'a String>) -> Cow<'a, str> {
        let mut picked = self.blocks.iter().filter_map(|block| pick(&block.content));
        match (picked.next(), picked.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let mut all = format!("{first}{second}");
                picked.for_each(|text| all.push_str(text));
                Cow::Owned(all)
            }
        }
    }
}

impl ToolCall {
    /// A complete call of a function.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), raw_arguments: arguments.into(), ..Self::default() }
    }

    /// The arguments as JSON text (for a custom tool: free text). A complete call without any argument text has `{}`;
    /// the text of an invalid call is as the model wrote it.
    pub fn arguments(&self) -> &str {
        let is_empty = self.raw_arguments.bytes().all(|byte| byte.is_ascii_whitespace());
        match (self.kind, self.completion) {
            (CallKind::Function | CallKind::Builtin, BlockCompletion::Complete) if is_empty => "{}",
            _ => &self.raw_arguments,
        }
    }

    /// The reason why the call cannot be run, if it cannot: it is not complete, its arguments are no JSON object, or a
    /// check found that it does not fit the declared tools. That check is made where tools are given to a
    /// [decoder](crate::pipeline::DecoderBuilder::tools) or to [`extract`](crate::extract); schemas are checked with
    /// the feature `schema`.
    pub fn invalid(&self) -> Option<InvalidCall> {
        self.unreadable().or_else(|| self.violation.as_deref().cloned())
    }

    /// The reason why its arguments cannot be read, if they cannot.
    fn unreadable(&self) -> Option<InvalidCall> {
        let invalid = |reason, detail: String| Some(InvalidCall { reason, detail });
        if self.name.is_empty() {
            return invalid(InvalidReason::NoName, "the call has no name".to_owned());
        }
        if self.completion == BlockCompletion::Truncated {
            let detail =
                format!("the call of {} was cut off after {} bytes", self.name, self.raw_arguments.len());
            return invalid(InvalidReason::Incomplete, detail);
        }
        if self.completion == BlockCompletion::AfterDamage {
            let detail =
                format!("the call of {} stands behind a damaged one, and may be a part of it", self.name);
            return invalid(InvalidReason::AfterDamage, detail);
        }
        if self.kind != CallKind::Function {
            return None;
        }
        match serde_json::from_str::<&serde_json::value::RawValue>(self.arguments()) {
            Ok(_) if self.arguments().trim_ascii_start().starts_with('{') => None,
            Ok(_) => invalid(
                InvalidReason::NotAnObject,
                format!("the arguments of {} are not a JSON object", self.name),
            ),
            Err(error) => invalid(
                InvalidReason::NotJson,
                format!("the arguments of {} are not JSON: {error}", self.name),
            ),
        }
    }

    /// The arguments as a JSON object.
    pub fn object(&self) -> Result<Object> {
        if let Some(invalid) = self.unreadable() {
            return Err(Error::new(ErrorKind::Invalid, invalid.detail));
        }
        self.parse()
    }

    /// The arguments as a value of your own type. A call that was truncated has none, even where its text happens to be
    /// complete.
    ///
    /// ```
    /// # use callweave::message::ToolCall;
    /// # let call = ToolCall::new("call_1", "weather", r#"{"city": "Oslo"}"#);
    /// #[derive(serde::Deserialize)]
    /// struct Weather { city: String }
    /// let Weather { city } = call.parse()?;
    /// assert_eq!(city, "Oslo");
    ///
    /// let error = ToolCall::new("call_2", "weather", r#"{"town": "Oslo"}"#).parse::<Weather>().err();
    /// let expected = "the arguments of weather cannot be read: missing field `city` at line 1 column 16";
    /// assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(expected));
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        if self.completion != BlockCompletion::Complete
            && let Some(invalid) = self.unreadable()
        {
            return Err(Error::new(ErrorKind::Invalid, invalid.detail));
        }
        serde_json::from_str(self.arguments()).map_err(|error| {
            let detail = format!("the arguments of {} cannot be read: {error}", self.name);
            Error::new(ErrorKind::Invalid, detail)
        })
    }

    /// A ready-made result for the model that made an invalid call; none for a valid one.
    pub fn error_result(&self) -> Option<String> {
        let invalid = self.invalid()?;
        let advice = match invalid.reason {
            InvalidReason::UnknownTool => "call one of the declared tools",
            InvalidReason::SchemaMismatch => "send the call again with arguments that fit",
            _ => "send the call again with one complete JSON object",
        };
        Some(format!("error: {}; {advice}", invalid.detail))
    }
}

/// The newer object with the members other than counts that only the older one has, before its own; none if there are
/// none.
fn merged(older: &JsonText<'_>, newer: &JsonText<'_>) -> Option<JsonText<'static>> {
    let (old, new) = (older.as_str().as_bytes(), newer.as_str().as_bytes());
    // Most providers that send counts in every frame write the same members.
    let is_alike = |(one, other): (&u8, &u8)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
    if old.len() == new.len() && old.iter().zip(new).all(is_alike) {
        return None;
    }
    let (mut before, mut after) = (Tape::new(), Tape::new());
    let (before, after) = (before.parse(older.as_str()).ok()?, after.parse(newer.as_str()).ok()?);
    if before.kind() != JsonKind::Object || after.kind() != JsonKind::Object {
        return None;
    }
    // Counts are merged apart: an old one must not outlive the content that it counts.
    let is_word =
        |(_, value): &(&str, TapeNode<'_>)| !matches!(value.kind(), JsonKind::Number | JsonKind::Null);
    let kept: Vec<_> = before.members().filter(|(key, _)| after.get(key).is_none()).filter(is_word).collect();
    if kept.is_empty() {
        return None;
    }
    let mut text = String::new();
    let mut writer = JsonWriter(&mut text);
    writer.object();
    for (key, value) in kept.into_iter().chain(after.members()) {
        writer.raw_member(key, value.raw());
    }
    writer.end_object();
    Some(JsonText::trusted(text))
}

impl Usage {
    /// Takes counts that the provider reported later. The counters of the input come together from the newest object
    /// that counts any, and the counters of the output likewise: a mixture would count cached input twice.
    pub(crate) fn merge(&mut self, newer: &TokenCounts, raw: &JsonText<'_>) {
        let own = &mut self.counters;
        let counts =
            |counters: &[Option<u64>]| counters.iter().any(|count| count.is_some_and(|count| count > 0));
        let input = |of: &TokenCounts| [of.input_tokens, of.cached_tokens, of.cache_write_tokens];
        let output = |of: &TokenCounts| [of.output_tokens, of.reasoning_tokens];
        // The same count with less detail adds nothing.
        let is_told = |all: [Option<u64>; 2], parts: &[Option<u64>]| {
            all[0] == all[1] && all[0].is_some() && parts.iter().all(Option::is_none)
        };
        let is_input_told =
            is_told([own.input_tokens, newer.input_tokens], &[newer.cached_tokens, newer.cache_write_tokens]);
        let is_output_told = is_told([own.output_tokens, newer.output_tokens], &[newer.reasoning_tokens]);
        // Parts alone are parts of what was counted before.
        if newer.input_tokens.is_none() && own.input_tokens.is_some() {
            own.cached_tokens = newer.cached_tokens.or(own.cached_tokens);
            own.cache_write_tokens = newer.cache_write_tokens.or(own.cache_write_tokens);
        } else if is_input_told {
        } else if counts(&input(newer)) || !counts(&input(own)) && input(newer).iter().any(Option::is_some) {
            [own.input_tokens, own.cached_tokens, own.cache_write_tokens] = input(newer);
        }
        if newer.output_tokens.is_none() && own.output_tokens.is_some() {
            own.reasoning_tokens = newer.reasoning_tokens.or(own.reasoning_tokens);
        } else if is_output_told {
        } else if counts(&output(newer)) || !counts(&output(own)) && output(newer).iter().any(Option::is_some)
        {
            [own.output_tokens, own.reasoning_tokens] = output(newer);
        }
        // A total is one of both: it must not outlive either.
        let gave_both = newer.input_tokens.is_some() && newer.output_tokens.is_some();
        let is_used = own.input_tokens == newer.input_tokens && own.output_tokens == newer.output_tokens;
        own.total_tokens = newer.total_tokens.filter(|_| gave_both && is_used);
        match merged(&self.raw, raw) {
            Some(both) => self.raw = both,
            None => self.raw.set(raw),
        }
    }

    /// The counters with the total filled in where the provider gave none.
    pub fn counters(&self) -> TokenCounts {
        let TokenCounts { input_tokens, output_tokens, .. } = self.counters;
        let sum = match (input_tokens, output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        };
        TokenCounts { total_tokens: self.counters.total_tokens.or(sum), ..self.counters }
    }
}

impl fmt::Display for BlockContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Reasoning { text, .. } | Self::Refusal(text) => f.write_str(text),
            Self::ToolCall(call) => write!(f, "{}({})", call.name, call.arguments()),
            Self::ToolResult(ToolResult { value, .. }) | Self::Opaque(value) => f.write_str(value.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::decode;

    fn answer(body: &str) -> Message {
        decode(body.as_bytes()).expect("it is an answer")
    }

    #[test]
    fn foreign_values_are_the_same_read_early_or_late() {
        let json = |text: &str| JsonText::trusted(text.to_owned());
        let members = || Some(json(r#"{"a":1,"b\\.c":[2]}"#));
        let news = [("a", "3"), ("d\"e", "\"x\""), ("a", "4")];
        for (members, first) in [(None, None), (members(), Some("a")), (Some(json("{}")), None)] {
            let (mut unread, mut read) = (ExtraFields::of(members.clone()), ExtraFields::of(members));
            assert_eq!(read.iter().next().map(|(path, _)| path), first);
            for (path, value) in news {
                unread.set(path, json(value));
                read.set(path, json(value));
            }
            assert_eq!(unread, read);
            assert_eq!(unread.get("a").map(JsonText::as_str), Some("4"));
            assert_eq!(unread.get("d\"e").map(JsonText::as_str), Some("\"x\""));
            assert_eq!((unread.len(), unread.is_empty()), (if first.is_some() { 3 } else { 2 }, false));
        }
        // Values that are emitted again and again do not pile up.
        let mut extra = ExtraFields::of(members());
        for number in 0..10_000 {
            extra.set("a", json(&number.to_string()));
        }
        assert!(extra.extra.is_none_or(|members| members.as_str().len() <= LONGEST_UNREAD));
        assert_eq!(extra.values.get().map(|values| values.len()), Some(2));
    }

    #[test]
    fn values_are_read_back_as_they_were_written() {
        let body = r#"{"choices":[{"index":0,"message":{"content":"Hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":4,"z":1e400,"a":[]}}"#;
        let message = answer(body);
        let json = serde_json::to_string(&message).expect("it is JSON");
        assert!(
            json.contains(r#""raw":{"prompt_tokens":3,"completion_tokens":4,"z":1e400,"a":[]}"#),
            "{json}"
        );
        let read: Message = serde_json::from_str(&json).expect("a message");
        assert_eq!(serde_json::to_string(&read).expect("it is JSON"), json);
    }

    #[test]
    fn a_failed_answer_is_an_error_with_what_the_upstream_said() {
        let body = r#"{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED",
            "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}"#;
        let message = answer(body);
        assert_eq!(message.error().map(|error| error.class), Some(ErrorClass::RateLimit));
        let error = message.into_result().expect_err("it failed");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Upstream, "Quota.".to_owned()));
        let reported = error.upstream().expect("the upstream reported it");
        assert_eq!((reported.status, reported.code.as_deref()), (Some(429), Some("RESOURCE_EXHAUSTED")));
        assert_eq!(reported.retry_after.map(|wait| wait.as_secs()), Some(17));
        assert!(error.is_retryable() && reported.raw.to_value()["details"].is_array());
    }

    #[test]
    fn an_answer_that_only_finished_badly_has_failed() {
        let body = r#"{"choices":[{"index":0,"finish_reason":"error","message":{"content":"Hal"}}]}"#;
        let error = answer(body).into_result().expect_err("it failed");
        let reported = error.upstream().expect("the upstream reported it");
        assert_eq!((reported.class, reported.code.as_deref()), (ErrorClass::Other, Some("error")));
        assert!(!error.is_retryable());
    }

    #[test]
    fn what_is_cut_is_an_answer_that_is_truncated() {
        let whole = r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"Hi"}}]}"#;
        let limited = whole.replace("stop", "length");
        let lost = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
        for (body, is_truncated) in [(whole, false), (&limited, true), (lost, true)] {
            let message = answer(body).into_result().expect("it is an answer");
            assert_eq!((message.is_truncated(), message.text().as_ref()), (is_truncated, "Hi"), "{body}");
            assert_eq!(message.error(), None);
        }
    }
}
