//! The objects of the wire: response, item, part, error.

use super::plan::{OutputPlan, PlannedForm, PlannedItem, is_empty, is_own};
use crate::encode::EncodeOptions;
use crate::event::{AttachmentKind, FinishReason, JsonText, NoticeCode, ReasoningForm, TokenCounts};
use crate::json::{JsonKind, JsonWriter, Tape, TapeNode as Value, compact_into, repair, write_members};
use crate::message::{Attachment, Block, BlockContent, Choice, ExtraFields, Message, ToolCall};
use crate::protocol::error_word;
use crate::protocol::openai_responses::{ERRORS, arguments_word, has_status, is_named, words};
use crate::request::is_marked;
use crate::upstream::UpstreamError;

/// The member of the response in which mistral.rs has the reasoning.
pub(super) const REASONING: &str = "reasoning";

/// The phase of an object when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritingPhase {
    Begin,
    End,
}

/// The status of the response, in the wire's form.
#[derive(Clone, Debug)]
pub(super) struct ResponseClosing<'m> {
    pub(super) status: &'m str,
    /// The reason why it is incomplete.
    reason: Option<&'m str>,
    error: Option<ResponseFailure<'m>>,
}

#[derive(Clone, Copy, Debug)]
enum ResponseFailure<'m> {
    /// The error as the provider wrote it.
    Reported(&'m UpstreamError<'static>),
    /// An error message made here.
    Made(&'m str),
}

/// The statuses of a response. Any other finish reason is the reason why it is incomplete.
const STATUSES: &[&str] =
    &["completed", "complete", "failed", "incomplete", "cancelled", "queued", "in_progress"];

impl<'m> ResponseClosing<'m> {
    /// The state of the response before its end.
    pub(super) fn step(status: &'m str) -> Self {
        Self { status, reason: None, error: None }
    }

    pub(super) fn of(message: &'m Message, is_normalized: bool) -> Self {
        let finish = message.first().and_then(|choice| choice.finish.as_ref());
        let error = message.errors.last().map(ResponseFailure::Reported);
        if !is_normalized {
            return match finish.and_then(|finish| finish.raw.as_deref()) {
                Some(raw) if STATUSES.contains(&raw) => Self { status: raw, reason: None, error },
                Some(raw) => Self { status: "incomplete", reason: Some(raw), error },
                None if error.is_some() => Self { status: "failed", reason: None, error },
                None => Self { status: "incomplete", reason: None, error },
            };
        }
        let truncated = message.notices.iter().find(|notice| notice.code == NoticeCode::Truncated);
        let truncated = truncated.map(|notice| ResponseFailure::Made(&notice.detail));
        let failed = |error| Self { status: "failed", reason: None, error: Some(error) };
        if let Some(failure) = error.or(truncated) {
            return failed(failure);
        }
        let reason = finish.map_or(FinishReason::Other, |finish| finish.reason);
        let incomplete = |reason| Self { status: "incomplete", reason, error: None };
        match reason {
            FinishReason::Stop | FinishReason::ToolCalls => Self::step("completed"),
            FinishReason::Error => failed(ResponseFailure::Made("the upstream failed")),
            FinishReason::ContentFilter => incomplete(Some("content_filter")),
            // Clients take a response that is incomplete without a reason for complete.
            FinishReason::Length | FinishReason::Other => incomplete(Some("max_output_tokens")),
        }
    }

    pub(super) fn is_completed(&self) -> bool {
        matches!(self.status, "completed" | "complete")
    }

    /// The event for this status.
    pub(super) fn event(&self) -> &'static str {
        match self.status {
            "completed" | "complete" => "response.completed",
            "failed" => "response.failed",
            "cancelled" => "response.cancelled",
            "queued" => "response.queued",
            "in_progress" => "response.in_progress",
            _ => "response.incomplete",
        }
    }
}

/// A response object to write.
pub(super) struct ResponseObject<'m> {
    message: &'m Message,
    choice: Option<&'m Choice>,
    options: &'m EncodeOptions,
    id: Option<&'m str>,
    model: Option<&'m str>,
    /// Whether extra fields are those of this protocol.
    is_own: bool,
}

impl<'m> ResponseObject<'m> {
    pub(super) fn new(
        message: &'m Message,
        names: [&'m Option<String>; 2],
        options: &'m EncodeOptions,
    ) -> Self {
        let [id, model] = names.map(Option::as_deref);
        let made = options.is_normalized().then_some("resp_0");
        Self {
            message,
            choice: message.first(),
            options,
            id: id.or(options.id.as_deref()).or(made),
            model: model.or(options.model.as_deref()).or(made.map(|_| "")),
            is_own: is_own(message) || !options.is_normalized(),
        }
    }

    fn is_normalized(&self) -> bool {
        self.options.is_normalized()
    }

    /// The base of the ids of made items.
    pub(super) fn made_id(&self) -> String {
        let id = self.id.unwrap_or_default();
        id.strip_prefix("resp_").unwrap_or(id).to_owned()
    }

    /// Writes the response, with the output of a plan or without any.
    pub(super) fn write(
        &self,
        closing: &ResponseClosing<'_>,
        plan: Option<&OutputPlan>,
        writer: &mut JsonWriter<'_>,
    ) {
        let message = self.message;
        let extra = self.extra(&message.extra);
        let has = |key: &str| extra.iter().any(|(path, _)| *path == key);
        writer.object();
        writer.optional_text_member("id", self.id);
        if !has("object") {
            writer.text_member("object", "response");
        }
        if self.is_normalized() && !has("created_at") {
            writer.number_member("created_at", self.options.created.unwrap_or(0));
        }
        writer.text_member("status", closing.status);
        writer.key("error");
        match closing.error {
            Some(failure) => failure.write(self.is_normalized(), writer),
            None => writer.raw("null"),
        }
        let reason = closing.reason.map(JsonText::from_text);
        let mut members = extra.clone();
        match &reason {
            Some(reason) => members.push(("incomplete_details.reason", reason.as_str())),
            None if extra.iter().any(|(path, _)| path.starts_with("incomplete_details.")) => {}
            None => members.push(("incomplete_details", "null")),
        }
        writer.optional_text_member("model", self.model);
        writer.list_member("output", |writer| {
            let entries = plan.into_iter().flat_map(|plan| &plan.entries);
            let mut emitted: Vec<_> = entries.filter(|entry| entry.is_emitted).collect();
            emitted.sort_by_key(|entry| entry.output_index);
            emitted.iter().for_each(|entry| self.item(entry, WritingPhase::End, writer));
        });
        let reasoning = self.choice.and_then(|choice| {
            let is_beside = |block: &&Block| {
                block.item.is_none() && block.wire_type == REASONING && !self.is_normalized()
            };
            choice.blocks.iter().find(is_beside)
        });
        if let Some(Block { content: BlockContent::Reasoning { text, .. }, .. }) = reasoning {
            writer.text_member(REASONING, text);
        }
        writer.key("usage");
        match &message.usage {
            Some(usage) if self.is_normalized() => counts(&usage.counters(), writer),
            Some(usage) => writer.raw(usage.raw.as_str()),
            None => writer.raw("null"),
        }
        if self.is_normalized() {
            for (key, value) in DEFAULTS {
                if !has(key) {
                    writer.raw_member(key, value);
                }
            }
            if let Some(previous) = self.options.previous.as_deref().filter(|_| !has(PREVIOUS)) {
                writer.text_member(PREVIOUS, previous);
            }
        }
        write_members(&members, writer);
        writer.end_object();
    }

    /// The extra fields of this protocol itself.
    fn extra<'f>(&self, extra: &'f ExtraFields) -> Vec<(&'f str, &'f str)> {
        if !self.is_own {
            return Vec::new();
        }
        extra.iter().map(|(path, value)| (path, value.as_str())).collect()
    }

    /// The wire type of the item.
    pub(super) fn item_type(&self, entry: &PlannedItem) -> &'m str {
        let item = entry.item.and_then(|at| self.choice?.items.get(at));
        item.map_or(entry.form.wire_type(), |item| &item.wire_type)
    }

    /// The id of the item: the newest, or for clients the one it was first written with.
    pub(super) fn item_id<'e>(&self, entry: &'e PlannedItem) -> Option<&'e str>
    where
        'm: 'e,
    {
        if self.is_normalized() {
            return Some(&entry.id);
        }
        entry.item.and_then(|at| self.choice?.items.get(at)?.id.as_deref())
    }

    pub(super) fn item(&self, entry: &PlannedItem, phase: WritingPhase, writer: &mut JsonWriter<'_>) {
        let Some(choice) = self.choice else { return };
        let item = entry.item.and_then(|at| choice.items.get(at));
        let wire_type = self.item_type(entry);
        let extra = item.map(|item| self.extra(&item.extra)).unwrap_or_default();
        let has = |key: &str| extra.iter().any(|(path, _)| *path == key);
        writer.object();
        writer.optional_text_member("id", self.item_id(entry));
        writer.text_member("type", wire_type);
        if has_status(wire_type) && !has("status") {
            let status = match phase {
                WritingPhase::Begin => "in_progress",
                WritingPhase::End if entry.is_incomplete && self.is_normalized() => "incomplete",
                WritingPhase::End => "completed",
            };
            writer.text_member("status", status);
        }
        match entry.form {
            // A message of another role consists of its members alone.
            PlannedForm::Message if has("role") => {}
            PlannedForm::Message => {
                writer.text_member("role", "assistant");
                self.parts("content", entry, phase, |_| true, writer);
            }
            PlannedForm::Reasoning => {
                let is_summary = |block: &Block| self.is_summary(block);
                self.parts("summary", entry, phase, is_summary, writer);
                let has_reasoning = entry.blocks(choice).any(|block| !is_summary(block));
                if has_reasoning && phase == WritingPhase::End {
                    self.parts("content", entry, phase, |block| !is_summary(block), writer);
                }
                let encrypted = item.and_then(|item| newest(&item.attachments, AttachmentKind::Encrypted));
                // Reasoning of another protocol has its seal on the block.
                let marked = || {
                    let own = entry.blocks(choice).flat_map(|block| &block.attachments);
                    own.filter(|own| is_marked(&own.value)).last()
                };
                if let Some(encrypted) = encrypted.or_else(marked) {
                    writer.raw_member(words::ENCRYPTED, encrypted.value.as_str());
                }
            }
            PlannedForm::Function | PlannedForm::Custom | PlannedForm::Hosted => {
                self.call(entry, wire_type, phase, writer)
            }
            PlannedForm::Output | PlannedForm::Other => {}
        }
        if phase == WritingPhase::End {
            results(entry, choice, writer);
        }
        write_members(&extra, writer);
        writer.end_object();
    }

    /// Writes the list of the selected parts of an item.
    fn parts(
        &self,
        key: &str,
        entry: &PlannedItem,
        phase: WritingPhase,
        is_listed: impl Fn(&Block) -> bool,
        writer: &mut JsonWriter<'_>,
    ) {
        let Some(choice) = self.choice else { return };
        writer.key(key);
        writer.list();
        if phase == WritingPhase::End {
            let is_written = |block: &&Block| {
                let is_part =
                    !matches!(block.content, BlockContent::ToolCall(_) | BlockContent::ToolResult(_));
                is_part && is_listed(block) && !(self.is_normalized() && is_empty(block))
            };
            let last = entry.blocks(choice).filter(is_written).map(|block| block.id).last();
            for block in entry.blocks(choice).filter(is_written) {
                let late = Some(block.id).filter(|id| Some(*id) == last);
                self.part_with(block, phase, late.and_then(|_| self.late_annotations(entry)), writer);
            }
        }
        writer.end_list();
    }

    /// Annotations that came after the parts of the item had ended.
    fn late_annotations(&self, entry: &PlannedItem) -> Option<&'m [Attachment]> {
        let item = entry.item.and_then(|at| self.choice?.items.get(at))?;
        Some(&item.attachments)
    }

    /// Writes a part.
    pub(super) fn part(&self, block: &Block, phase: WritingPhase, writer: &mut JsonWriter<'_>) {
        self.part_with(block, phase, None, writer);
    }

    fn part_with(
        &self,
        block: &Block,
        phase: WritingPhase,
        late: Option<&[Attachment]>,
        writer: &mut JsonWriter<'_>,
    ) {
        let (key, text) = match &block.content {
            BlockContent::Refusal(text) => ("refusal", text),
            BlockContent::Text(text) | BlockContent::Reasoning { text, .. } => ("text", text),
            BlockContent::Opaque(value) => return writer.raw(value.as_str()),
            BlockContent::ToolCall(_) | BlockContent::ToolResult(_) => return,
        };
        writer.object();
        writer.text_member("type", self.part_word(block));
        writer.text_member(key, if phase == WritingPhase::End { text } else { "" });
        if let BlockContent::Text(_) = &block.content {
            let own = if self.is_own && phase == WritingPhase::End { &block.attachments[..] } else { &[] };
            let annotations = own.iter().chain(late.unwrap_or_default());
            writer.raw_member(words::ANNOTATIONS, &listed(annotations, AttachmentKind::Annotation));
            writer.raw_member(words::LOGPROBS, &listed(own, AttachmentKind::Logprobs));
        }
        write_members(&self.extra(&block.extra), writer);
        writer.end_object();
    }

    /// The wire type of such a part.
    pub(super) fn part_word(&self, block: &'m Block) -> &'m str {
        match &block.content {
            _ if self.is_own && !self.is_normalized() => &block.wire_type,
            BlockContent::Refusal(_) => words::REFUSAL,
            BlockContent::Reasoning { .. } if self.is_summary(block) => words::SUMMARY_TEXT,
            BlockContent::Reasoning { .. } => words::REASONING_TEXT,
            _ => words::OUTPUT_TEXT,
        }
    }

    /// Whether the reasoning is in a summary. Reasoning of other protocols is, unless it follows one: the AI SDK, the
    /// Agents SDK and Codex look for it only there.
    fn is_summary(&self, block: &Block) -> bool {
        let is_raw = matches!(block.content, BlockContent::Reasoning { form: ReasoningForm::Raw, .. });
        let before = || self.choice.into_iter().flat_map(|choice| &choice.blocks);
        let mut before = before().take_while(|own| !std::ptr::eq(*own, block));
        is_summary(block) || is_raw && !self.is_own && !before.any(is_summary)
    }

    fn call(&self, entry: &PlannedItem, wire_type: &str, phase: WritingPhase, writer: &mut JsonWriter<'_>) {
        let block = self.choice.and_then(|choice| entry.call(choice));
        let Some(Block { wire_type: member, content: BlockContent::ToolCall(call), .. }) = block else {
            return;
        };
        writer.optional_text_member("call_id", self.call_id(entry, call));
        if is_named(wire_type) {
            writer.text_member("name", &call.name);
        }
        // An item of this protocol has it among its own members; a call of another protocol may have been given the
        // client's.
        if let Some(namespace) = block.and_then(|block| block.extra.get("namespace"))
            && entry.item.is_none()
        {
            writer.raw_member("namespace", namespace.as_str());
        }
        let usual = arguments_word(wire_type);
        let member = if entry.item.is_some() && !member.is_empty() { member } else { usual };
        let is_text = is_text(wire_type, member);
        match phase {
            _ if member.is_empty() => {}
            WritingPhase::Begin if is_text => writer.text_member(member, ""),
            // The start announces an unusual member.
            WritingPhase::Begin if member != usual => writer.raw_member(member, "[]"),
            WritingPhase::Begin => {}
            WritingPhase::End if is_text => writer.text_member(member, self.arguments(call)),
            WritingPhase::End if call.raw_arguments.is_empty() => {}
            WritingPhase::End => {
                // The arguments may be truncated, or no JSON at all; the written value must be JSON.
                let closed =
                    repair::RepairOptions::new().prefix().close_truncated().repair(&call.raw_arguments);
                match closed.text.is_empty() {
                    true => writer.text_member(member, &call.raw_arguments),
                    false => writer.raw_member(member, &closed.text),
                }
            }
        }
    }

    /// The argument text in the form of this mode.
    pub(super) fn arguments<'c>(&self, call: &'c ToolCall) -> &'c str {
        if self.is_normalized() { call.arguments() } else { &call.raw_arguments }
    }

    /// The id of the call, where it differs from the id of its item.
    fn call_id<'c>(&self, entry: &'c PlannedItem, call: &'c ToolCall) -> Option<&'c str> {
        let item = entry.item.and_then(|at| self.choice?.items.get(at));
        let id = if self.is_normalized() { &entry.call_id } else { &call.id };
        let is_items = item.and_then(|item| item.id.as_deref()) == Some(id);
        match entry.form {
            PlannedForm::Function | PlannedForm::Custom => {
                (self.is_normalized() || !call.has_made_id).then_some(id)
            }
            _ => (!is_items && !call.has_made_id).then_some(id),
        }
    }
}

/// The member with the id of the response that this one continues.
const PREVIOUS: &str = "previous_response_id";

/// The members of a response where no value is known.
const DEFAULTS: &[(&str, &str)] = &[
    ("instructions", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("temperature", "null"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_p", "null"),
];

/// The text of a block that grows.
pub(super) fn text(block: &Block) -> Option<&str> {
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) | BlockContent::Reasoning { text, .. } => {
            Some(text)
        }
        BlockContent::ToolCall(call) => Some(&call.raw_arguments),
        BlockContent::ToolResult(_) | BlockContent::Opaque(_) => None,
    }
}

pub(super) fn is_summary(block: &Block) -> bool {
    matches!(block.content, BlockContent::Reasoning { form: ReasoningForm::Summary, .. })
}

/// Whether the arguments of such a call are a text on the wire; else they are a JSON value.
fn is_text(wire_type: &str, member: &str) -> bool {
    matches!(member, "arguments" | "input" | "code") && wire_type != "tool_search_call"
}

/// Writes the results of the hosted tool; the newest of each wire type.
fn results(entry: &PlannedItem, choice: &Choice, writer: &mut JsonWriter<'_>) {
    let mut newest: Vec<(&str, &str)> = Vec::new();
    for block in entry.blocks(choice) {
        let BlockContent::ToolResult(result) = &block.content else { continue };
        let own = (block.wire_type.as_str(), result.value.as_str());
        // There are few wire types.
        match newest.iter_mut().find(|(wire_type, _)| *wire_type == own.0) {
            Some(known) => *known = own,
            None => newest.push(own),
        }
    }
    newest.iter().for_each(|(wire_type, value)| writer.raw_member(wire_type, value));
}

fn newest(attachments: &[Attachment], kind: AttachmentKind) -> Option<&Attachment> {
    attachments.iter().rev().find(|attachment| attachment.kind == kind)
}

/// The values of that kind, as a list.
pub(super) fn listed<'a>(
    attachments: impl IntoIterator<Item = &'a Attachment>,
    kind: AttachmentKind,
) -> String {
    let mut list = String::new();
    JsonWriter(&mut list).in_list(|writer| {
        for attachment in attachments.into_iter().filter(|attachment| attachment.kind == kind) {
            writer.raw(attachment.value.as_str());
        }
    });
    list
}

fn counts(counters: &TokenCounts, writer: &mut JsonWriter<'_>) {
    let count = |count: Option<u64>| count.unwrap_or(0);
    writer.in_object(|writer| {
        writer.number_member("input_tokens", count(counters.input_tokens));
        writer.object_member("input_tokens_details", |writer| {
            writer.number_member("cached_tokens", count(counters.cached_tokens));
            writer.number_member("cache_write_tokens", count(counters.cache_write_tokens));
        });
        writer.number_member("output_tokens", count(counters.output_tokens));
        writer.object_member("output_tokens_details", |writer| {
            writer.number_member("reasoning_tokens", count(counters.reasoning_tokens));
        });
        writer.number_member("total_tokens", count(counters.total_tokens));
    });
}

impl ResponseFailure<'_> {
    fn write(self, is_normalized: bool, writer: &mut JsonWriter<'_>) {
        match self {
            // An error that came as an event of its own has only its code and message here.
            Self::Reported(error) if is_normalized || is_event(error) => {
                made_error(error_code(error, is_normalized), &error.message, writer);
            }
            Self::Reported(error) => writer.raw(error.raw.as_str()),
            Self::Made(message) => made_error(UNKNOWN, message, writer),
        }
    }
}

/// The code of unknown errors.
const UNKNOWN: &str = "server_error";

/// The wire's code of the error: the canonical one of its class, or the provider's own.
pub(super) fn error_code<'e>(error: &'e UpstreamError<'_>, is_normalized: bool) -> &'e str {
    let said = error.code.as_deref().filter(|_| !is_normalized);
    said.or_else(|| error_word(error, ERRORS)).unwrap_or(UNKNOWN)
}

fn made_error(code: &str, message: &str, writer: &mut JsonWriter<'_>) {
    writer.in_object(|writer| {
        writer.text_member("code", code);
        writer.text_member("message", message);
    });
}

/// Whether the error is an event of the stream with all its members.
pub(super) fn is_event(error: &UpstreamError<'_>) -> bool {
    let mut tape = Tape::new();
    let Ok(object) = tape.parse(error.raw.as_str()) else { return false };
    object.get("type").and_then(Value::str).is_some_and(|wire_type| wire_type.is("error"))
        && object.get("error").is_none()
}

/// Whether the error has the form of a failed response's: a code and a message.
pub(super) fn is_response_error(error: &UpstreamError<'_>) -> bool {
    let mut tape = Tape::new();
    let object = tape.parse(error.raw.as_str()).ok().filter(|value| value.kind() == JsonKind::Object);
    object.is_some_and(|object| object.members().all(|(key, _)| matches!(key, "code" | "message")))
}

/// Writes the body of a failed request.
pub(super) fn failure(error: &UpstreamError<'_>, extra: &ExtraFields, writer: &mut JsonWriter<'_>) {
    let mut tape = Tape::new();
    // An object without the members of an error is a complete body itself.
    let is_body = |object: &Value<'_>| {
        object.kind() == JsonKind::Object
            && !object.members().any(|(key, _)| matches!(key, "message" | "code" | "type"))
    };
    if extra.is_empty() && tape.parse(error.raw.as_str()).is_ok_and(|object| is_body(&object)) {
        return writer.raw(error.raw.as_str());
    }
    writer.in_object(|writer| {
        writer.raw_member("error", error.raw.as_str());
        extra.write(writer);
    });
}

pub(super) struct GrowingItem {
    pub(super) delta: &'static str,
    pub(super) done: &'static str,
    pub(super) complete: &'static str,
    pub(super) index: Option<&'static str>,
}

macro_rules! grown {
    ($kind:literal, $complete:literal, $index:expr) => {
        GrowingItem {
            delta: concat!("response.", $kind, ".delta"),
            done: concat!("response.", $kind, ".done"),
            complete: $complete,
            index: $index,
        }
    };
}

/// The delta and end events of a block, the member that holds its complete text, and the member that numbers it.
pub(super) fn growing(wire_type: &str, block: &Block) -> Option<GrowingItem> {
    Some(match &block.content {
        BlockContent::Text(_) => grown!("output_text", "text", Some("content_index")),
        BlockContent::Refusal(_) => grown!("refusal", "refusal", Some("content_index")),
        BlockContent::Reasoning { .. } if is_summary(block) => {
            grown!("reasoning_summary_text", "text", Some("summary_index"))
        }
        BlockContent::Reasoning { .. } => grown!("reasoning_text", "text", Some("content_index")),
        BlockContent::ToolCall(_) => match wire_type {
            "function_call" => grown!("function_call_arguments", "arguments", None),
            "custom_tool_call" => grown!("custom_tool_call_input", "input", None),
            "mcp_call" => grown!("mcp_call_arguments", "arguments", None),
            "code_interpreter_call" => grown!("code_interpreter_call_code", "code", None),
            _ => return None,
        },
        BlockContent::ToolResult(_) | BlockContent::Opaque(_) => return None,
    })
}

/// The events at the beginning and the end of a part, and the member that numbers it.
pub(super) fn part_names(block: &Block) -> (&'static str, &'static str, &'static str) {
    if is_summary(block) {
        ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done", "summary_index")
    } else {
        ("response.content_part.added", "response.content_part.done", "content_index")
    }
}

/// Writes the item's coordinates, and the number of the part in it.
pub(super) fn coordinates(
    response: &ResponseObject<'_>,
    entry: &PlannedItem,
    part: Option<(&str, i64)>,
    writer: &mut JsonWriter<'_>,
) {
    writer.optional_text_member("item_id", response.item_id(entry));
    writer.number_member("output_index", entry.output_index);
    if let Some((key, number)) = part {
        writer.number_member(key, number);
    }
}

/// Writes the members of an object as members of the open one.
pub(super) fn splice(value: Option<&JsonText<'_>>, writer: &mut JsonWriter<'_>) {
    let object = value.map(|value| value.as_str().trim_ascii());
    let inner = object.and_then(|object| object.strip_prefix('{')?.strip_suffix('}')).unwrap_or_default();
    if !inner.trim_ascii().is_empty() {
        writer.0.push(',');
        compact_into(inner, writer.0);
    }
}
