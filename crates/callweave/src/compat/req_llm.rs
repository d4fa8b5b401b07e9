//! The chunk accumulator of ReqLLM: content, thinking, tool call and meta chunks in, everything about the response out,
//! at any moment.
//!
//! ```
//! use callweave::compat::req_llm::ChunkAccumulator;
//! use serde_json::json;
//!
//! let mut accumulator = ChunkAccumulator::new();
//! accumulator.reduce(&[
//!     json!({"type": "content", "text": "Looking."}),
//!     json!({"type": "tool_call", "name": "look", "arguments": {}, "metadata": {"id": "c", "index": 0}}),
//!     json!({"type": "meta", "metadata": {"tool_call_args": {"index": 0, "fragment": "{\"at\":\"sky\"}"}}}),
//!     json!({"type": "meta", "metadata": {"finish_reason": "tool_use"}}),
//! ]);
//! assert_eq!(accumulator.finalize_text(), "Looking.");
//! assert_eq!(accumulator.finalize_finish_reason().as_deref(), Some("tool_use"));
//! let calls = accumulator.finalize_tool_calls_for_response();
//! assert_eq!(json!(calls), json!([{"id": "c", "name": "look", "arguments": {"at": "sky"}}]));
//! ```

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::loose::LooseDecoder;
use super::loose::chunk::{REASONING_DETAILS, is_control};
use crate::accumulator::Accumulator;
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, CallKind, Event, EventKind, JsonText, Sink, TokenCounts,
};
use crate::json::{AsValue, Object, Value};
use crate::message::{Attachment, Block, BlockContent, Choice, Message, ToolCall};

/// Chunks → their sum. Taking one costs O(1) amortised.
#[derive(Clone, Default)]
pub struct ChunkAccumulator {
    loose: LooseDecoder,
    answer: Accumulator,
    /// The usage objects, merged.
    usage: Option<(TokenCounts, Value)>,
}

/// A call as a response is built from it. Serialises as ReqLLM has it: `id`, `name`, the decoded `arguments` (JSON of
/// any kind), `builtin?` and `metadata`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResponseCall {
    /// The call, with the fragments as its arguments if they are JSON, else with the arguments of the chunk that
    /// announced it.
    pub call: ToolCall,
    /// Further data of the announcement; with `error` if the arguments were lost.
    pub metadata: Object,
    /// Why the arguments were lost, if they were.
    pub lost: Option<LostReason>,
    arguments: Value,
}

/// Why the arguments of a call were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// Fragments were announced and none came.
    MissingFragments,
    /// The fragments, or without any the text of the announcement, are not JSON.
    JsonDecodeError,
}

/// The reason as ReqLLM spells it, such as `missing_fragments`.
impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A report of lost arguments, without the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentsLost {
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_call_id: String,
    /// Why.
    pub reason: LostReason,
}

/// The assistant's message, for capture: without reasoning.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// Always `assistant`.
    pub role: &'static str,
    /// The text, if there is any, as one part.
    pub content: Vec<ReqLlmContentPart>,
    /// The calls; none if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<MessageCall>>,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", content = "text", rename_all = "snake_case")]
pub enum ReqLlmContentPart {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Thinking(String),
}

/// A call in an [`AssistantMessage`]. Serialises as ReqLLM has it: `id`, `type`, and `function` with `name`,
/// `arguments` as JSON text, `builtin?` and `metadata`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MessageCall {
    /// The call.
    pub call: ToolCall,
    /// Further data of the announcement.
    pub metadata: Object,
}

/// Whether reasoning is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningListing {
    /// It is.
    Shown,
    /// It is left out.
    Withheld,
}

impl ChunkAccumulator {
    /// An empty accumulator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a chunk; one of no known shape is ignored.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "content", "text": "He"})).push(&json!({"type": "content", "text": "llo"}));
    /// assert_eq!(accumulator.finalize_text(), "Hello");
    /// ```
    pub fn push(&mut self, chunk: &impl AsValue) -> &mut Self {
        let Self { loose, answer, usage } = self;
        loose.push(chunk, &mut |event: Event<'_>| {
            if let EventKind::Usage { counters, raw, .. } = &event.body {
                merge(usage.get_or_insert_default(), counters, raw.to_value());
            }
            answer.put(event);
        });
        self
    }

    /// Takes many chunks.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.reduce(&[json!({"type": "content", "text": "a"}), json!({"type": "content", "text": "b"})]);
    /// assert_eq!(accumulator.finalize_text(), "ab");
    /// ```
    pub fn reduce<'c, V: AsValue + 'c>(&mut self, chunks: impl IntoIterator<Item = &'c V>) -> &mut Self {
        for chunk in chunks {
            self.push(chunk);
        }
        self
    }

    /// The text.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// assert_eq!(ChunkAccumulator::new().finalize_text(), "");
    /// ```
    pub fn finalize_text(&self) -> Cow<'_, str> {
        self.answer.message().text()
    }

    /// The reasoning.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "thinking", "text": "hm"}));
    /// assert_eq!(accumulator.finalize_thinking(), "hm");
    /// ```
    pub fn finalize_thinking(&self) -> Cow<'_, str> {
        self.answer.message().reasoning()
    }

    /// The reasoning details, as they came.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "meta", "metadata": {"reasoning_details": [{"text": "one"}]}}));
    /// assert_eq!(accumulator.finalize_reasoning_details(), [json!({"text": "one"})]);
    /// ```
    pub fn finalize_reasoning_details(&self) -> Vec<Value> {
        let blocks = self.choice().into_iter().flat_map(|choice| &choice.blocks);
        let details = blocks.filter(|block| block.wire_type == REASONING_DETAILS);
        details
            .filter_map(|block| match &block.content {
                BlockContent::Opaque(value) => Some(value.to_value()),
                _ => None,
            })
            .collect()
    }

    /// The log probabilities, one entry per token, as they came.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "meta", "metadata": {"logprobs": [{"token": "a"}, {"token": "b"}]}}));
    /// assert_eq!(accumulator.finalize_logprobs().len(), 2);
    /// ```
    pub fn finalize_logprobs(&self) -> Vec<Value> {
        self.attachments(AttachmentKind::Logprobs).map(|entry| entry.value.to_value()).collect()
    }

    /// Annotations, as they came; repeated ones are listed once.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// let chunk = json!({"type": "meta", "metadata": {"annotations": [{"url": "a"}]}});
    /// accumulator.push(&chunk).push(&chunk);
    /// assert_eq!(accumulator.finalize_annotations().count(), 1);
    /// ```
    pub fn finalize_annotations(&self) -> impl Iterator<Item = Value> {
        self.attachments(AttachmentKind::Annotation).map(|annotation| annotation.value.to_value())
    }

    fn attachments(&self, kind: AttachmentKind) -> impl Iterator<Item = &Attachment> {
        self.choice().into_iter().flat_map(move |choice| choice.attachments(kind))
    }

    /// The provider's last finish reason, as it came.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// assert_eq!(accumulator.finalize_finish_reason(), None);
    /// accumulator.push(&json!({"type": "meta", "metadata": {"finish_reason": "stop"}}));
    /// assert_eq!(accumulator.finalize_finish_reason().as_deref(), Some("stop"));
    /// ```
    pub fn finalize_finish_reason(&self) -> Option<String> {
        self.loose.raw_finish_reason().map(Into::into)
    }

    /// Token counts: the provider's own object, counters merged by maximum and other fields by the
    /// newest, with `total_tokens` if the provider gave none of these counters and with the aliases `input` and
    /// `output`.
    /// None if no usage was seen.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// assert_eq!(accumulator.finalize_usage(), None);
    /// accumulator.push(&json!({"type": "meta", "metadata": {"usage": {"input_tokens": 5, "output_tokens": 1}}}));
    /// accumulator.push(&json!({"type": "meta", "metadata": {"usage": {"input_tokens": 3, "output_tokens": 9}}}));
    /// let usage = accumulator.finalize_usage().expect("usage was seen");
    /// assert!(usage["input"] == 5 && usage["output"] == 9 && usage["total_tokens"] == 14);
    /// ```
    pub fn finalize_usage(&self) -> Option<Object> {
        let (counters, merged) = self.usage.as_ref()?;
        let (input, output) = (counters.input_tokens.unwrap_or(0), counters.output_tokens.unwrap_or(0));
        let mut all = merged.as_object().cloned().unwrap_or_default();
        for (alias, key, counted) in [("input", "input_tokens", input), ("output", "output_tokens", output)] {
            let value = all.get(key).cloned().unwrap_or_else(|| counted.into());
            all.insert(alias, value);
        }
        all.get_or_insert_with(TOTAL, || input.saturating_add(output).into());
        Some(all)
    }

    /// The calls, as they were announced. Fragments that came count if they are JSON of any kind; else
    /// the arguments of the announcement stand, and a loss is marked in `metadata.error`.
    ///
    /// ```
    /// # use callweave::compat::req_llm::{ChunkAccumulator, LostReason};
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator
    ///     .push(&json!({"type": "tool_call", "name": "f", "arguments": {"day": 1}, "metadata": {"id": "c", "index": 0}}))
    ///     .push(&json!({"type": "meta", "metadata": {"tool_call_args": {"index": 0, "fragment": "{day: tomorrow"}}}));
    /// let call = &accumulator.finalize_tool_calls_for_response()[0];
    /// assert_eq!(call.arguments(), &json!({"day": 1}));
    /// assert_eq!(call.lost, Some(LostReason::JsonDecodeError));
    /// assert_eq!(call.metadata["error"], json!(["args_lost", "json_decode_error"]));
    /// ```
    pub fn finalize_tool_calls_for_response(&self) -> Vec<ResponseCall> {
        let mut calls = self.calls();
        for call in &mut calls {
            if let Some(reason) = call.lost {
                call.metadata.insert("error", vec!["args_lost".to_owned(), reason.to_string()]);
            }
        }
        calls
    }

    /// The calls whose arguments were lost, for reports to a monitor.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "tool_call", "name": "f", "metadata": {"id": "c", "start": true}}));
    /// let lost = json!([{"tool_name": "f", "tool_call_id": "c", "reason": "missing_fragments"}]);
    /// assert_eq!(json!(accumulator.arguments_lost()), lost);
    /// ```
    pub fn arguments_lost(&self) -> Vec<ArgumentsLost> {
        let lost = self.calls().into_iter().filter_map(|call| {
            let ResponseCall { call: ToolCall { name, id, .. }, lost, .. } = call;
            lost.map(|reason| ArgumentsLost { tool_name: name, tool_call_id: id, reason })
        });
        lost.collect()
    }

    /// The assistant's message; none while there is neither text nor a call. Reasoning is withheld.
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "thinking", "text": "hm"}));
    /// assert_eq!(accumulator.finalize_message(), None);
    /// accumulator.push(&json!({"type": "content", "text": "Hello"}));
    /// let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Hello"}]});
    /// assert_eq!(json!(accumulator.finalize_message()), message);
    /// ```
    pub fn finalize_message(&self) -> Option<AssistantMessage> {
        let text = self.finalize_text();
        let calls: Vec<_> = self.calls().into_iter().map(MessageCall::from).collect();
        if text.is_empty() && calls.is_empty() {
            return None;
        }
        let content = (!text.is_empty()).then(|| ReqLlmContentPart::Text(text.into_owned()));
        Some(AssistantMessage {
            role: "assistant",
            content: content.into_iter().collect(),
            tool_calls: (!calls.is_empty()).then_some(calls),
        })
    }

    /// Text and reasoning in the order in which they came, neighbours of a kind joined.
    ///
    /// ```
    /// # use callweave::compat::req_llm::{ChunkAccumulator, ReqLlmContentPart, ReasoningListing};
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// for (kind, text) in [("content", "a"), ("thinking", "b"), ("content", "c")] {
    ///     accumulator.push(&json!({"type": kind, "text": text}));
    /// }
    /// assert_eq!(accumulator.finalize_ordered_content(ReasoningListing::Shown).len(), 3);
    /// let text = [ReqLlmContentPart::Text("ac".to_owned())];
    /// assert_eq!(accumulator.finalize_ordered_content(ReasoningListing::Withheld), text);
    /// ```
    pub fn finalize_ordered_content(&self, thinking: ReasoningListing) -> Vec<ReqLlmContentPart> {
        let mut parts: Vec<ReqLlmContentPart> = Vec::new();
        for block in self.choice().into_iter().flat_map(|choice| &choice.blocks) {
            match (&block.content, parts.last_mut()) {
                (BlockContent::Text(text), Some(ReqLlmContentPart::Text(last))) => last.push_str(text),
                (BlockContent::Text(text), _) => parts.push(ReqLlmContentPart::Text(text.clone())),
                (BlockContent::Reasoning { .. }, _) if thinking == ReasoningListing::Withheld => {}
                (BlockContent::Reasoning { text, .. }, Some(ReqLlmContentPart::Thinking(last))) => {
                    last.push_str(text)
                }
                (BlockContent::Reasoning { text, .. }, _) => {
                    parts.push(ReqLlmContentPart::Thinking(text.clone()))
                }
                (
                    BlockContent::Refusal(_)
                    | BlockContent::ToolCall(_)
                    | BlockContent::ToolResult(_)
                    | BlockContent::Opaque(_),
                    _,
                ) => {}
            }
        }
        parts
    }

    /// Everything, as the library's own [`Message`].
    ///
    /// ```
    /// # use callweave::compat::req_llm::ChunkAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ChunkAccumulator::new();
    /// accumulator.push(&json!({"type": "content", "text": "Hello"}));
    /// assert_eq!(accumulator.into_message().text(), "Hello");
    /// ```
    pub fn into_message(self) -> Message {
        let Self { mut loose, mut answer, .. } = self;
        loose.finish(&mut answer);
        answer.take()
    }

    fn choice(&self) -> Option<&Choice> {
        self.answer.message().first()
    }

    fn calls(&self) -> Vec<ResponseCall> {
        let ends = self.ends();
        let blocks = self.choice().into_iter().flat_map(|choice| &choice.blocks);
        blocks.filter_map(|block| project(block, &ends)).collect()
    }

    /// How the response would end if it ended now. The text is not copied for that.
    fn ends(&self) -> StreamEnds {
        let mut ends = StreamEnds::default();
        self.loose.clone().finish(&mut |event: Event<'_>| match event.body {
            EventKind::BlockEnd {
                block,
                completion: BlockCompletion::Truncated | BlockCompletion::AfterDamage,
            } => {
                ends.cut.insert(block);
            }
            EventKind::Delta { block, .. } => {
                ends.announced.insert(block);
            }
            _ => {}
        });
        ends
    }
}

/// Merges later reports, as this library does: numbers by maximum, other fields by the newest. A total stands only with
/// the counters that it came with.
fn merge((own, known): &mut (TokenCounts, Value), newer: &TokenCounts, raw: Value) {
    own.input_tokens = own.input_tokens.max(newer.input_tokens);
    own.output_tokens = own.output_tokens.max(newer.output_tokens);
    let is_sum = (own.input_tokens, own.output_tokens) == (newer.input_tokens, newer.output_tokens);
    own.total_tokens = newer.total_tokens.filter(|_| is_sum);
    merge_value(known, raw, LEVELS);
    if let Value::Object(known) = known {
        known.remove(TOTAL);
        known.extend(own.total_tokens.map(|total| (TOTAL, total)));
    }
}

const TOTAL: &str = "total_tokens";

/// The maximum depth of merging: usage objects are flat or nearly so; anything nested more deeply is replaced.
const LEVELS: u8 = 8;

fn merge_value(known: &mut Value, newer: Value, levels: u8) {
    match (known, newer) {
        (_, Value::Null) => {}
        (Value::Object(known), Value::Object(newer)) if levels > 0 => {
            for (key, value) in newer {
                match known.get_mut(&key) {
                    Some(known) => merge_value(known, value, levels - 1),
                    None => {
                        known.insert(key, value);
                    }
                }
            }
        }
        (Value::Number(known), Value::Number(newer)) => {
            if newer.as_f64() >= known.as_f64() {
                *known = newer;
            }
        }
        (known, newer) => *known = newer,
    }
}

#[derive(Default)]
struct StreamEnds {
    cut: HashSet<BlockId>,
    /// The blocks that got text only then: the arguments of their announcement.
    announced: HashSet<BlockId>,
}

fn project(block: &Block, ends: &StreamEnds) -> Option<ResponseCall> {
    let BlockContent::ToolCall(call) = &block.content else { return None };
    let announced =
        || block.extra.get("arguments").map(JsonText::to_value).unwrap_or_else(|| Object::new().into());
    let (arguments, lost) = match call.raw_arguments.as_str() {
        "" if ends.cut.contains(&block.id) => match ends.announced.contains(&block.id) {
            true => (announced(), Some(LostReason::JsonDecodeError)),
            false => (announced(), Some(LostReason::MissingFragments)),
        },
        "" => (announced(), None),
        text => match text.parse() {
            Ok(value) => (value, None),
            Err(_) => (announced(), Some(LostReason::JsonDecodeError)),
        },
    };
    let metadata = block.extra.iter().filter_map(|(path, value)| {
        let key = path.strip_prefix("metadata.").filter(|key| !is_control(key))?;
        Some((key.to_owned(), value.to_value()))
    });
    let mut call = call.clone();
    // A text is passed on as it is.
    call.raw_arguments = match &arguments {
        Value::String(text) => text.to_string(),
        value => value.to_string(),
    };
    if !ends.cut.contains(&block.id) {
        call.completion = BlockCompletion::Complete;
    }
    Some(ResponseCall { call, metadata: metadata.collect(), lost, arguments })
}

impl ResponseCall {
    /// The decoded fragments, JSON of any kind; else the arguments of the chunk that announced the call.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn is_builtin(&self) -> bool {
        self.call.kind == CallKind::Builtin
    }
}

impl Serialize for ResponseCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.call.id)?;
        map.serialize_entry("name", &self.call.name)?;
        map.serialize_entry("arguments", &self.arguments)?;
        if self.is_builtin() {
            map.serialize_entry("builtin?", &true)?;
        }
        if !self.metadata.is_empty() {
            map.serialize_entry("metadata", &self.metadata)?;
        }
        map.end()
    }
}

impl Serialize for MessageCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'f> {
            name: &'f str,
            arguments: &'f str,
            #[serde(rename = "builtin?", skip_serializing_if = "std::ops::Not::not")]
            is_builtin: bool,
            #[serde(skip_serializing_if = "Object::is_empty")]
            metadata: &'f Object,
        }
        let Self { call: ToolCall { id, name, raw_arguments, kind, .. }, metadata } = self;
        let is_builtin = *kind == CallKind::Builtin;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function { name, arguments: raw_arguments, is_builtin, metadata })?;
        map.end()
    }
}

impl From<ResponseCall> for MessageCall {
    fn from(ResponseCall { call, metadata, .. }: ResponseCall) -> Self {
        Self { call, metadata }
    }
}
