//! Writing Cohere's chat: named events, and the complete body.
//!
//! Everything is written as it comes: contents and calls are numbered independently, and no block waits for another.
//! Fields beside content wait for the next event, fields of the end for the last one.
//!
//! In normalized mode, a response of another protocol has texts, reasoning, the calls of the client's tools, usage and
//! the finish reason, of its first choice, one content after the other. Left out are the provider's own tools and their
//! results, images, signatures, annotations and log probabilities. A refusal is a text. Arguments are text here and are
//! written as the model wrote them; a truncated call has no end, and neither has a truncated response.

use std::mem::{replace, take};

use super::{CHAT, FINISH, words};
use crate::encode::objects::{self, INPUT, INVALID_JSON};
use crate::encode::{
    ClientReading, DeltaTemplates, EncodeContext, EncodeMode, EncodeOptions, ProtocolEncoding,
    SerializingEncoder, StreamEncoder, UniqueCallIds, WireCapabilities, WireFeature, WrittenDelta, count,
    put_event,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText, NoticeCode, TokenCounts,
};
use crate::json::{JsonKind, JsonWriter, MemberPaths, Tape, each_member, escape_into, write_members};
use crate::message::{Block, BlockContent, Choice, Message, ToolCall, Usage};
use crate::protocol::finish_word;
use crate::upstream::{ErrorClass, UpstreamError};

pub(in crate::protocol) const ENCODING: ProtocolEncoding =
    ProtocolEncoding { stream, complete, capabilities: |_, _, _| CAPABILITIES, id_prefix: "" };

const CAPABILITIES: WireCapabilities = WireCapabilities {
    own: &[CHAT],
    unsupported: &[
        WireFeature::Model,
        WireFeature::OtherChoices,
        WireFeature::Refusal,
        WireFeature::Summary,
        WireFeature::Custom,
        WireFeature::Cut,
        WireFeature::Total,
        WireFeature::CacheWrite,
        WireFeature::NamesOfFailure,
        WireFeature::CountsWithoutEnd,
    ],
    ..WireCapabilities::BASE
};

/// The path of a role other than the usual one.
const ROLE: &str = "message.role";

fn stream(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    SerializingEncoder::boxed(
        options,
        ClientReading::Block,
        CohereStream { manner: EncodeContext::new(options), ..CohereStream::default() },
    )
}

/// The encoder of events.
#[derive(Default)]
struct CohereStream {
    manner: EncodeContext,
    id: String,
    has_begun: bool,
    /// The fields that wait for the next event: beside its delta, in it, and in its message.
    beside: MemberPaths,
    delta: MemberPaths,
    message: MemberPaths,
    logprobs: Vec<JsonText<'static>>,
    running: Vec<OpenCohereBlock>,
    contents: i64,
    calls: i64,
    citations: i64,
    usage: Option<Usage>,
    /// The finish reason for the last event.
    finish: Option<(FinishReason, Option<String>)>,
    error: Option<UpstreamError<'static>>,
    ids: UniqueCallIds,
    stamps: DeltaTemplates,
    scratch: String,
    frame: String,
}

/// A block that is being written.
struct OpenCohereBlock {
    block: BlockId,
    index: i64,
    form: CohereBlockForm,
    /// Whether any of its text was written.
    has_text: bool,
}

/// The form in which a block is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CohereBlockForm {
    /// As content of that type.
    Content(&'static str),
    /// As the plan, which has neither number nor end.
    Plan,
    /// As a call with JSON text as arguments.
    Call,
    /// As a call with free text as the one string of an object.
    FreeText,
}

impl StreamEncoder for CohereStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.stamps.repeat(event, out) {
            return;
        }
        match &event.body {
            EventKind::Start { id, wire_type, extra: members, .. } => {
                let manner = self.manner.of_next(wire_type == CHAT);
                *self = Self { manner, frame: take(&mut self.frame), ..Self::default() };
                self.id = id.as_deref().or(self.manner.options.id.as_deref()).unwrap_or_default().to_owned();
                if self.manner.keeps() {
                    each_member(members.as_ref(), |path, value| self.set(path, value));
                }
            }
            EventKind::ChoiceStart if self.manner.is_normalized() => self.begin(out),
            EventKind::BlockStart { .. } => {
                self.begin(out);
                self.block_start(&event.body, out);
            }
            EventKind::Delta { block, text, .. } => self.delta(*block, text, out),
            EventKind::BlockEnd { block, completion } => self.block_end(*block, *completion, out),
            EventKind::Identity { scope: EventScope::Response, id: Some(id), .. } => {
                if !self.manner.is_normalized() {
                    self.begin(out);
                    self.beside.set("id", JsonText::from_text(id).as_str());
                }
            }
            EventKind::Attachment { kind, value, .. } if self.manner.keeps() => {
                self.begin(out);
                self.attach(*kind, value, out);
            }
            EventKind::Usage { counters, raw, .. } => count(&mut self.usage, counters, raw),
            EventKind::Extra { scope, path, value } if self.manner.keeps() => {
                self.extra(*scope, path, value.as_str(), out);
            }
            EventKind::Finish { reason, raw } => {
                self.finish = Some((*reason, raw.as_deref().map(str::to_owned)));
            }
            EventKind::Error(error) => {
                self.error.get_or_insert_with(|| error.clone().into_owned());
            }
            EventKind::Notice(notice) => self.manner.notice(notice),
            EventKind::End => {
                self.end(out);
                self.manner.is_truncated = false;
            }
            // The wire has no form for it.
            EventKind::Correction { .. }
            | EventKind::Identity { .. }
            | EventKind::Attachment { .. }
            | EventKind::Extra { .. }
            | EventKind::ChoiceStart
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. } => {}
        }
    }
}

impl CohereStream {
    /// Keeps a member of the response for the next event.
    fn set(&mut self, path: &str, value: &str) {
        match path.strip_prefix("delta.") {
            Some(path) => self.delta.set(path, value),
            None => self.beside.set(path, value),
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if replace(&mut self.has_begun, true) {
            return;
        }
        if !self.id.is_empty() {
            self.beside.set("id", JsonText::from_text(&self.id).as_str());
        }
        self.put("message-start", None, out, |writer| {
            writer.text_member("role", "assistant");
            for (key, empty) in
                [("content", "[]"), ("tool_plan", "\"\""), ("tool_calls", "[]"), ("citations", "[]")]
            {
                writer.raw_member(key, empty);
            }
        });
    }

    fn block_start(&mut self, start: &EventKind<'_>, out: &mut Vec<u8>) {
        let EventKind::BlockStart { block, kind, wire_type, index, extra: members, .. } = start else {
            return;
        };
        let (is_normalized, keeps) = (self.manner.is_normalized(), self.manner.keeps());
        let index = index.filter(|_| !is_normalized);
        let form = match kind {
            BlockKind::Text | BlockKind::Refusal => CohereBlockForm::Content(words::TEXT),
            BlockKind::Reasoning(_) if keeps && wire_type == words::PLAN => CohereBlockForm::Plan,
            BlockKind::Reasoning(_) => CohereBlockForm::Content(words::THINKING),
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if is_normalized => return,
            BlockKind::ToolCall { call: CallKind::Custom, .. } if is_normalized => CohereBlockForm::FreeText,
            BlockKind::ToolCall { .. } => CohereBlockForm::Call,
            BlockKind::ToolResult { value, .. } | BlockKind::Opaque { value } => {
                if keeps {
                    let index = next(&mut self.contents, index);
                    self.put("content-start", Some(index), out, |writer| {
                        writer.raw_member("content", value.as_str());
                    });
                    self.put_end("content-end", index, out);
                }
                return;
            }
        };
        let index = match (form, kind) {
            (CohereBlockForm::Content(wire_type), _) => {
                let index = next(&mut self.contents, index);
                let mut own = MemberPaths::default();
                each_member(members.as_ref().filter(|_| keeps), |path, value| own.set(path, value));
                self.put("content-start", Some(index), out, |writer| {
                    writer.key("content");
                    writer.object();
                    writer.text_member("type", wire_type);
                    writer.text_member(wire_type, "");
                    own.write(writer);
                    writer.end_object();
                });
                index
            }
            (
                CohereBlockForm::Call | CohereBlockForm::FreeText,
                BlockKind::ToolCall { id, is_made, name, .. },
            ) => {
                let index = next(&mut self.calls, index);
                let mut own = MemberPaths::default();
                each_member(members.as_ref().filter(|_| keeps), |path, value| {
                    // The client knows no other type.
                    if path != "type" || !is_normalized {
                        own.set(path, value);
                    }
                });
                let id = id.as_deref().filter(|_| is_normalized || !is_made).unwrap_or_default();
                let id = if is_normalized { self.ids.claim(id) } else { id.to_owned() };
                self.put("tool-call-start", Some(index), out, |writer| {
                    writer.key("tool_calls");
                    write_call(&id, name, "", own.iter(), writer);
                });
                index
            }
            _ => 0,
        };
        self.running.push(OpenCohereBlock { block: *block, index, form, has_text: false });
    }

    fn delta(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(running) = self.running.iter_mut().rev().find(|running| running.block == block) else {
            return;
        };
        let (form, index, is_first) = (running.form, running.index, !running.has_text);
        running.has_text = true;
        let is_plain = self.message.is_empty() && self.delta.is_empty() && self.beside.is_empty();
        let is_plain = is_plain && self.logprobs.is_empty() && form != CohereBlockForm::FreeText;
        let mut piece = WrittenDelta::new(text);
        match form {
            CohereBlockForm::Content(wire_type) => self.put("content-delta", Some(index), out, |writer| {
                writer.key("content");
                writer.object();
                piece.write(wire_type, writer);
                writer.end_object();
            }),
            CohereBlockForm::Plan => {
                self.put("tool-plan-delta", None, out, |writer| piece.write(words::PLAN, writer))
            }
            CohereBlockForm::Call => self.put_arguments(index, &mut piece, out),
            CohereBlockForm::FreeText => {
                let mut scratch = take(&mut self.scratch);
                scratch.clear();
                if is_first {
                    open_free_text(&mut scratch);
                }
                escape_into(text, &mut scratch);
                self.put_arguments(index, &mut WrittenDelta::new(&scratch), out);
                self.scratch = scratch;
            }
        }
        if is_plain {
            self.stamps.keep(block, self.frame.as_bytes(), &piece);
        }
    }

    fn put_arguments(&mut self, index: i64, piece: &mut WrittenDelta<'_>, out: &mut Vec<u8>) {
        self.put("tool-call-delta", Some(index), out, |writer| {
            for key in ["tool_calls", "function"] {
                writer.key(key);
                writer.object();
            }
            piece.write("arguments", writer);
            writer.end_object();
            writer.end_object();
        });
    }

    fn block_end(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let Some(at) = self.running.iter().rposition(|running| running.block == block) else { return };
        let OpenCohereBlock { index, form, has_text, .. } = self.running.remove(at);
        let is_normalized = self.manner.is_normalized();
        // A block that is still open at the last event ends with it.
        if !is_normalized && (self.usage.is_some() || self.error.is_some()) {
            return;
        }
        match form {
            CohereBlockForm::Plan => {}
            CohereBlockForm::Content(_) => self.put_end("content-end", index, out),
            CohereBlockForm::Call | CohereBlockForm::FreeText if completion != BlockCompletion::Complete => {
                // A truncated call has no end. Truncated before its arguments, it must not pass for one without
                // arguments.
                if is_normalized && !has_text {
                    self.put_arguments(index, &mut WrittenDelta::new(&objects::under(INVALID_JSON, "")), out);
                }
            }
            CohereBlockForm::Call => {
                if !has_text && is_normalized {
                    self.put_arguments(index, &mut WrittenDelta::new("{}"), out);
                }
                self.put_end("tool-call-end", index, out);
            }
            CohereBlockForm::FreeText => {
                let mut rest = String::new();
                if !has_text {
                    open_free_text(&mut rest);
                }
                rest.push_str("\"}");
                self.put_arguments(index, &mut WrittenDelta::new(&rest), out);
                self.put_end("tool-call-end", index, out);
            }
        }
    }

    fn attach(&mut self, kind: AttachmentKind, value: &JsonText<'_>, out: &mut Vec<u8>) {
        match kind {
            AttachmentKind::Logprobs => self.logprobs.extend(value.clone().entries()),
            AttachmentKind::Annotation => {
                let index = next(&mut self.citations, None);
                self.put("citation-start", Some(index), out, |writer| {
                    writer.raw_member(words::CITATIONS, value.as_str());
                });
                self.put_end("citation-end", index, out);
            }
            AttachmentKind::Signature | AttachmentKind::Encrypted => {}
        }
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &str, out: &mut Vec<u8>) {
        match scope {
            EventScope::Response if is_event(path, value) => {
                self.begin(out);
                put_event(Some(path), &compact(value), out);
            }
            EventScope::Response => self.set(path, value),
            // The client knows no other role.
            _ if path == ROLE && self.manner.is_normalized() => {}
            _ => self.message.set(path.strip_prefix("message.").unwrap_or(path), value),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let mode = self.manner.mode();
        // The body of a failed request: there was no response.
        if let Some(error) = self.error.take_if(|error| mode == EncodeMode::Lossless && is_body(error)) {
            return put_event(None, &compact(error.raw.as_str()), out);
        }
        self.begin(out);
        let (reason, raw) = self.finish.take().unwrap_or((FinishReason::Other, None));
        let is_unsaid = mode == EncodeMode::Normalized || raw.is_none();
        if self.manner.is_truncated && reason == FinishReason::Other && is_unsaid && self.error.is_none() {
            return;
        }
        let mut last = take(&mut self.delta);
        let wire_type = match mode {
            EncodeMode::Lossless => raw.as_deref(),
            EncodeMode::Normalized => Some(word_for(reason, raw.as_deref())),
        };
        if let Some(wire_type) = wire_type {
            last.set("finish_reason", JsonText::from_text(wire_type).as_str());
        }
        if let Some(own) = &self.usage {
            let made = if self.manner.keeps() { own.raw.as_str().to_owned() } else { usage(&own.counters()) };
            last.set("usage", &made);
        }
        if let Some(error) = self.error.take() {
            last.set("error", &error_text(&error, mode));
            if mode == EncodeMode::Normalized && error.class != ErrorClass::Other {
                last.set("error_type", JsonText::from_text(error.class.name()).as_str());
            }
        }
        self.delta = last;
        self.put_event("message-end", None, out, None);
        put_event(None, "[DONE]", out);
    }

    /// Writes an event with the message that `message` writes.
    fn put(
        &mut self,
        name: &str,
        index: Option<i64>,
        out: &mut Vec<u8>,
        mut message: impl FnMut(&mut JsonWriter<'_>),
    ) {
        self.put_event(name, index, out, Some(&mut message));
    }

    /// Writes the end of a block.
    fn put_end(&mut self, name: &str, index: i64, out: &mut Vec<u8>) {
        let mut frame = begin_frame(take(&mut self.frame), name, Some(index));
        end_frame(&mut frame, out);
        self.frame = frame;
    }

    fn put_event(
        &mut self,
        name: &str,
        index: Option<i64>,
        out: &mut Vec<u8>,
        message: Option<&mut dyn FnMut(&mut JsonWriter<'_>)>,
    ) {
        let mut frame = begin_frame(take(&mut self.frame), name, index);
        let mut writer = JsonWriter(&mut frame);
        writer.key("delta");
        writer.object();
        if message.is_some() || !self.message.is_empty() {
            writer.key("message");
            writer.object();
            if let Some(message) = message {
                message(&mut writer);
            }
            self.message.write(&mut writer);
            self.message.clear();
            writer.end_object();
        }
        self.delta.write(&mut writer);
        self.delta.clear();
        writer.end_object();
        let logprobs = take(&mut self.logprobs);
        if !logprobs.is_empty() {
            writer.key("logprobs");
            write_logprobs(&logprobs, &mut writer);
        }
        self.beside.write(&mut writer);
        self.beside.clear();
        end_frame(&mut frame, out);
        self.frame = frame;
    }
}

fn begin_frame(mut frame: String, name: &str, index: Option<i64>) -> String {
    frame.clear();
    for piece in ["event: ", name, "\ndata: "] {
        frame.push_str(piece);
    }
    let mut writer = JsonWriter(&mut frame);
    writer.object();
    writer.text_member("type", name);
    if let Some(index) = index {
        writer.key("index");
        writer.number(index);
    }
    frame
}

fn end_frame(frame: &mut String, out: &mut Vec<u8>) {
    frame.push_str("}\n\n");
    out.extend_from_slice(frame.as_bytes());
}

/// The wire's own number, or else the next one.
fn next(counter: &mut i64, given: Option<i64>) -> i64 {
    let number = given.unwrap_or(*counter);
    *counter = number.saturating_add(1);
    number
}

fn open_free_text(out: &mut String) {
    out.push_str("{\"");
    out.push_str(INPUT);
    out.push_str("\":\"");
}

/// The wire's finish reason for clients. They must not take a truncated response for complete.
fn word_for(reason: FinishReason, said: Option<&str>) -> &str {
    let reason = if reason == FinishReason::Other { FinishReason::Length } else { reason };
    finish_word(reason, said, FINISH).unwrap_or(FINISH[0].0)
}

/// Whether the value is a complete event of that name.
fn is_event(name: &str, value: &str) -> bool {
    let mut tape = Tape::new();
    tape.parse(value)
        .is_ok_and(|value| value.get("type").and_then(|kind| kind.str()).is_some_and(|kind| kind.is(name)))
}

/// Whether the error is the body of a failed request.
fn is_body(error: &UpstreamError<'_>) -> bool {
    Tape::new().parse(error.raw.as_str()).is_ok_and(|value| value.kind() == JsonKind::Object)
}

fn compact(json: &str) -> String {
    let mut text = String::new();
    crate::json::compact_into(json, &mut text);
    text
}

/// Returns the message of an error: errors have no other form here.
fn error_text(error: &UpstreamError<'_>, mode: EncodeMode) -> String {
    match mode {
        EncodeMode::Lossless => error.raw.as_str().to_owned(),
        EncodeMode::Normalized => JsonText::from_text(&error.message).as_str().to_owned(),
    }
}

/// Writes one entry, or a list of them.
fn write_logprobs(entries: &[JsonText<'_>], writer: &mut JsonWriter<'_>) {
    if let [only] = entries {
        return writer.raw(only.as_str());
    }
    writer.list();
    entries.iter().for_each(|entry| writer.raw(entry.as_str()));
    writer.end_list();
}

fn write_call<'p>(
    id: &str,
    name: &str,
    arguments: &str,
    members: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    let (inside, beside): (Vec<_>, Vec<_>) = members.partition(|(path, _)| path.starts_with("function."));
    let inside: Vec<_> = inside.iter().map(|(path, value)| (&path["function.".len()..], *value)).collect();
    writer.object();
    if !id.is_empty() {
        writer.text_member("id", id);
    }
    if !beside.iter().any(|(path, _)| *path == "type") {
        writer.text_member("type", "function");
    }
    writer.key("function");
    writer.object();
    writer.text_member("name", name);
    writer.text_member("arguments", arguments);
    write_members(&inside, writer);
    writer.end_object();
    write_members(&beside, writer);
    writer.end_object();
}

/// Returns token counts in this wire's form.
fn usage(counters: &TokenCounts) -> String {
    let mut text = String::new();
    let mut writer = JsonWriter(&mut text);
    let [input, output, thoughts] = [
        ("input_tokens", counters.input_tokens),
        ("output_tokens", counters.output_tokens),
        ("reasoning_tokens", counters.reasoning_tokens),
    ];
    writer.object();
    for (group, counts) in [("billed_units", &[input, output][..]), ("tokens", &[input, output, thoughts])] {
        writer.key(group);
        writer.object();
        for (key, count) in counts {
            if let Some(count) = count {
                writer.key(key);
                writer.number(count);
            }
        }
        writer.end_object();
    }
    if let Some(count) = counters.cached_tokens {
        writer.key("cached_tokens");
        writer.number(count);
    }
    writer.end_object();
    text
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let options = &context.options;
    let mode = options.mode;
    let keeps = message.wire_type == CHAT || mode == EncodeMode::Lossless;
    let choice = message.first();
    let is_bare = choice.is_none_or(|choice| choice.blocks.is_empty() && choice.extra.is_empty());
    let error = message.errors.first();
    if let Some(error) = error.filter(|error| mode == EncodeMode::Lossless && is_bare && is_body(error)) {
        return writer.0.push_str(error.raw.as_str());
    }
    writer.object();
    if let Some(id) = message.id.as_ref().or(options.id.as_ref()) {
        writer.text_member("id", id);
    }
    if let Some(error) = error.filter(|_| mode == EncodeMode::Normalized && is_bare) {
        writer.text_member("message", &error.message);
        if error.class != ErrorClass::Other {
            writer.text_member("error_type", error.class.name());
        }
        writer.end_object();
        return;
    }
    if let Some(model) = message.model.as_ref().filter(|_| keeps) {
        writer.text_member("model", model);
    }
    let is_truncated = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
    if let Some(finish) = choice.and_then(|choice| choice.finish.as_ref()) {
        let raw = finish.raw.as_deref();
        let is_unsaid = mode == EncodeMode::Normalized || raw.is_none();
        let is_open = is_truncated && finish.reason == FinishReason::Other && is_unsaid && error.is_none();
        let wire_type = match mode {
            _ if is_open => None,
            EncodeMode::Lossless => raw,
            EncodeMode::Normalized => Some(word_for(finish.reason, raw)),
        };
        if let Some(wire_type) = wire_type {
            writer.text_member("finish_reason", wire_type);
        }
    }
    if let Some(choice) = choice {
        writer.key("message");
        complete_message(choice, keeps, mode, writer);
    }
    if let Some(error) = error {
        writer.raw_member("error", &error_text(error, mode));
        if mode == EncodeMode::Normalized && !keeps && error.class != ErrorClass::Other {
            writer.text_member("error_type", error.class.name());
        }
    }
    if let Some(own) = &message.usage {
        let made = if keeps { own.raw.as_str().to_owned() } else { usage(&own.counters()) };
        writer.raw_member("usage", &made);
    }
    let mut beside = MemberPaths::default();
    if keeps {
        message.extra.iter().for_each(|(path, value)| beside.set(path, value.as_str()));
        for entry in choice.into_iter().flat_map(|choice| choice.attachments(AttachmentKind::Logprobs)) {
            beside.extend("logprobs", entry.value.as_str());
        }
    }
    beside.write(writer);
    writer.end_object();
}

fn complete_message(choice: &Choice, keeps: bool, mode: EncodeMode, writer: &mut JsonWriter<'_>) {
    let is_normalized = mode == EncodeMode::Normalized;
    let (mut contents, mut calls, mut plan) = (String::from("["), String::from("["), String::new());
    let (mut members, mut ids) = (MemberPaths::default(), UniqueCallIds::default());
    for block in &choice.blocks {
        match &block.content {
            BlockContent::Text(text) | BlockContent::Refusal(text) => {
                complete_text(words::TEXT, text, block, keeps, &mut JsonWriter(&mut contents));
            }
            BlockContent::Reasoning { text, .. } if keeps && block.wire_type == words::PLAN => {
                plan.push_str(text)
            }
            BlockContent::Reasoning { text, .. } => {
                complete_text(words::THINKING, text, block, keeps, &mut JsonWriter(&mut contents));
            }
            BlockContent::ToolCall(call) if is_normalized && call.kind == CallKind::Builtin => {}
            BlockContent::ToolCall(call) => {
                let id = match is_normalized {
                    true => ids.claim(&call.id),
                    false if call.has_made_id => String::new(),
                    false => call.id.clone(),
                };
                let members = block.extra.iter().map(|(path, value)| (path, value.as_str()));
                let members = members.filter(|(path, _)| keeps && (*path != "type" || !is_normalized));
                write_call(&id, &call.name, &argument_text(call, mode), members, &mut JsonWriter(&mut calls));
            }
            BlockContent::Opaque(value) if keeps => JsonWriter(&mut contents).raw(value.as_str()),
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
        }
    }
    if keeps {
        for (path, value) in choice.extra.iter().filter(|(path, _)| *path != ROLE || !is_normalized) {
            members.set(path.strip_prefix("message.").unwrap_or(path), value.as_str());
        }
        for citation in choice.attachments(AttachmentKind::Annotation) {
            members.extend(words::CITATIONS, citation.value.as_str());
        }
    }
    writer.object();
    if members.get("role").is_none() {
        writer.text_member("role", "assistant");
    }
    for (key, list) in [("content", &mut contents), ("tool_calls", &mut calls)] {
        if list.len() > 1 {
            list.push(']');
            writer.raw_member(key, list);
        }
    }
    if !plan.is_empty() {
        writer.text_member(words::PLAN, &plan);
    }
    members.write(writer);
    writer.end_object();
}

fn complete_text(wire_type: &str, text: &str, block: &Block, keeps: bool, writer: &mut JsonWriter<'_>) {
    let members: Vec<_> = block.extra.iter().map(|(path, value)| (path, value.as_str())).collect();
    writer.object();
    writer.text_member("type", wire_type);
    writer.text_member(wire_type, text);
    if keeps {
        write_members(&members, writer);
    }
    writer.end_object();
}

/// The argument text of a call.
fn argument_text(call: &ToolCall, mode: EncodeMode) -> String {
    match (mode, call.kind) {
        (EncodeMode::Normalized, CallKind::Custom)
            if call.completion == BlockCompletion::Complete || !call.raw_arguments.is_empty() =>
        {
            let mut text = String::new();
            open_free_text(&mut text);
            escape_into(&call.raw_arguments, &mut text);
            if call.completion == BlockCompletion::Complete {
                text.push_str("\"}");
            }
            text
        }
        (EncodeMode::Normalized, _) => objects::text(call).into_owned(),
        (EncodeMode::Lossless, _) => call.raw_arguments.clone(),
    }
}
