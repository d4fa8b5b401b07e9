//! Writing Cohere's chat: named events, and the complete body.
//!
//! Everything is written as it comes: contents and calls are numbered independently, and no block waits for another.
//! Fields beside content wait for the next event, fields of the end for the last one.
//!
//! In normalized mode, a response of another protocol has texts, reasoning, the calls of the client's tools, usage and
//! the finish reason, of its first choice, one content after the other. Left out are the provider's own tools and their
//! results, images, signatures, annotations and log probabilities. A refusal is a text. Arguments are text here and are
//! written as the model wrote them; a truncated call has no end, and neither has a truncated response.

use super::{CHAT, FINISH, words};
use crate::encode::objects::{self, INPUT, INVALID_JSON};
use crate::encode::{
    AttachmentEvent, BlockStart, ClientReading, EncodeContext, EncoderCore, ProtocolEncoding, UniqueCallIds,
    Wire, WireCapabilities, WireEncoder, WireFeature, WrittenDelta, put_event, put_named_event,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, EventScope, FinishReason, JsonText,
    TokenCounts,
};
use crate::json::{JsonKind, JsonWriter, MemberPaths, Tape, compact_into, each_member, escape_into};
use crate::json::{split_below, write_members};
use crate::message::{BlockContent, Choice, Message, ToolCall};
use crate::protocol::finish_word;
use crate::upstream::{ErrorClass, UpstreamError};

pub(in crate::protocol) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: WireEncoder::<CohereStream>::boxed,
    complete,
    capabilities: |_, _, _| CAPABILITIES,
    id_prefix: "",
};

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

/// The encoder of events. The fields that wait are beside the delta of the next event.
#[derive(Default)]
struct CohereStream {
    core: EncoderCore<OpenCohereBlock>,
    has_begun: bool,
    /// The fields that wait for the next event in its delta, and in the message of it.
    delta: MemberPaths,
    message: MemberPaths,
    logprobs: Vec<JsonText<'static>>,
    contents: i64,
    calls: i64,
    citations: i64,
    /// The finish reason for the last event.
    finish: Option<(FinishReason, Option<String>)>,
}

/// A block that is being written.
#[derive(Clone, Copy)]
struct OpenCohereBlock {
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

impl Wire for CohereStream {
    const CAPABILITIES: WireCapabilities = CAPABILITIES;
    const READING: ClientReading = ClientReading::Block;
    type Block = OpenCohereBlock;

    fn core(&mut self) -> &mut EncoderCore<OpenCohereBlock> {
        &mut self.core
    }

    fn start(&mut self, _: &str, extra: Option<&JsonText<'_>>, _: &mut Vec<u8>) {
        each_member(self.core.own(extra), |path, value| self.set(path, value));
    }

    fn start_choice(&mut self, out: &mut Vec<u8>) {
        if self.core.is_normalized() {
            self.begin(out);
        }
    }

    fn start_block(&mut self, start: &BlockStart<'_>, out: &mut Vec<u8>) {
        self.begin(out);
        let (is_normalized, keeps) = (self.core.is_normalized(), self.core.keeps());
        let form = match start.kind {
            BlockKind::Text | BlockKind::Refusal => CohereBlockForm::Content(words::TEXT),
            BlockKind::Reasoning(_) if keeps && start.wire_type == words::PLAN => CohereBlockForm::Plan,
            BlockKind::Reasoning(_) => CohereBlockForm::Content(words::THINKING),
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if is_normalized => return,
            BlockKind::ToolCall { call: CallKind::Custom, .. } if is_normalized => CohereBlockForm::FreeText,
            BlockKind::ToolCall { .. } => CohereBlockForm::Call,
            BlockKind::ToolResult { value, .. } | BlockKind::Opaque { value } => {
                if keeps {
                    let index = next(&mut self.contents, start.index);
                    self.put("content-start", Some(index), out, |writer| {
                        writer.raw_member("content", value.as_str());
                    });
                    self.put_end("content-end", index, out);
                }
                return;
            }
        };
        let mut own = MemberPaths::of(start.extra);
        let index = match (form, start.kind) {
            (CohereBlockForm::Content(wire_type), _) => {
                let index = next(&mut self.contents, start.index);
                self.put("content-start", Some(index), out, |writer| {
                    writer.object_member("content", |writer| write_text(wire_type, "", own.iter(), writer));
                });
                index
            }
            (_, BlockKind::ToolCall { id, is_made, name, .. }) => {
                let index = next(&mut self.calls, start.index);
                if is_normalized {
                    // The client knows no other type.
                    own.remove("type");
                }
                let id = self.core.call_id(id.as_deref(), *is_made);
                self.put("tool-call-start", Some(index), out, |writer| {
                    writer.key("tool_calls");
                    write_call(id.as_deref(), name, "", own.iter(), writer);
                });
                index
            }
            _ => 0,
        };
        self.core.blocks.insert(start.block, OpenCohereBlock { index, form, has_text: false });
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(open) = self.core.blocks.get_mut(block) else { return };
        let OpenCohereBlock { index, form, has_text } = *open;
        open.has_text = true;
        let is_plain = self.message.is_empty() && self.delta.is_empty() && self.core.waiting.is_empty();
        let is_plain = is_plain && self.logprobs.is_empty() && form != CohereBlockForm::FreeText;
        let mut piece = WrittenDelta::new(text);
        match form {
            CohereBlockForm::Content(wire_type) => self.put("content-delta", Some(index), out, |writer| {
                writer.object_member("content", |writer| piece.write(wire_type, writer));
            }),
            CohereBlockForm::Plan => {
                self.put("tool-plan-delta", None, out, |writer| piece.write(words::PLAN, writer))
            }
            CohereBlockForm::Call => self.put_arguments(index, &mut piece, out),
            CohereBlockForm::FreeText => {
                let mut scratch = std::mem::take(&mut self.core.scratch);
                scratch.clear();
                if !has_text {
                    open_free_text(&mut scratch);
                }
                escape_into(text, &mut scratch);
                self.put_arguments(index, &mut WrittenDelta::new(&scratch), out);
                self.core.scratch = scratch;
            }
        }
        if is_plain {
            self.core.templates.keep(block, self.core.frame.as_bytes(), &piece);
        }
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let Some(OpenCohereBlock { index, form, has_text }) = self.core.blocks.remove(block) else { return };
        let is_normalized = self.core.is_normalized();
        // A block that is still open at the last event ends with it.
        if !is_normalized && (self.core.counts.is_some() || self.core.error.is_some()) {
            return;
        }
        let mut rest = String::new();
        match form {
            CohereBlockForm::Plan => return,
            CohereBlockForm::Content(_) => return self.put_end("content-end", index, out),
            // A truncated call has no end. Truncated before its arguments, it must not pass for one without arguments.
            CohereBlockForm::Call | CohereBlockForm::FreeText if completion != BlockCompletion::Complete => {
                if is_normalized && !has_text {
                    rest.push_str(&objects::under(INVALID_JSON, ""));
                }
            }
            CohereBlockForm::Call if is_normalized && !has_text => rest.push_str("{}"),
            CohereBlockForm::Call => {}
            CohereBlockForm::FreeText => {
                if !has_text {
                    open_free_text(&mut rest);
                }
                rest.push_str("\"}");
            }
        }
        if !rest.is_empty() {
            self.put_arguments(index, &mut WrittenDelta::new(&rest), out);
        }
        if completion == BlockCompletion::Complete {
            self.put_end("tool-call-end", index, out);
        }
    }

    fn rename(&mut self, id: Option<&str>, _: Option<&str>, out: &mut Vec<u8>) {
        if let Some(id) = id.filter(|_| !self.core.is_normalized()) {
            self.begin(out);
            self.core.waiting.set("id", JsonText::from_text(id).as_str());
        }
    }

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>) {
        if !self.core.keeps() {
            return;
        }
        self.begin(out);
        match attachment.kind {
            AttachmentKind::Logprobs => self.logprobs.extend(attachment.value.clone().entries()),
            AttachmentKind::Annotation => {
                let index = next(&mut self.citations, None);
                self.put("citation-start", Some(index), out, |writer| {
                    writer.raw_member(words::CITATIONS, attachment.value.as_str());
                });
                self.put_end("citation-end", index, out);
            }
            AttachmentKind::Signature | AttachmentKind::Encrypted => {}
        }
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let value = value.as_str();
        match scope {
            EventScope::Response if is_event(path, value) => {
                self.begin(out);
                put_event(Some(path), &compact(value), out);
            }
            EventScope::Response => self.set(path, value),
            // The client knows no other role.
            _ if path == ROLE && self.core.is_normalized() => {}
            _ => self.message.set(path.strip_prefix("message.").unwrap_or(path), value),
        }
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, _: &mut Vec<u8>) {
        self.finish = Some((reason, raw.map(str::to_owned)));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let context = &self.core.context;
        let is_normalized = context.is_normalized();
        // The body of a failed request: there was no response.
        if let Some(error) = self.core.error.take_if(|error| !is_normalized && is_body(error)) {
            return put_event(None, &compact(error.raw.as_str()), out);
        }
        self.begin(out);
        let (reason, raw) = self.finish.take().unwrap_or((FinishReason::Other, None));
        let EncoderCore { context, counts, error, .. } = &mut self.core;
        if context.lacks_end(reason, raw.as_deref()) && error.is_none() {
            return;
        }
        if let Some(wire_type) = finish_reason(reason, raw.as_deref(), context) {
            self.delta.set("finish_reason", JsonText::from_text(wire_type).as_str());
        }
        if let Some(own) = counts {
            let made = if context.keeps() { own.raw.as_str().to_owned() } else { usage(&own.counters()) };
            self.delta.set("usage", &made);
        }
        if let Some(error) = error.take() {
            self.delta.set("error", &error_text(&error, is_normalized));
            if is_normalized && error.class != ErrorClass::Other {
                self.delta.set("error_type", JsonText::from_text(error.class.name()).as_str());
            }
        }
        self.put_event("message-end", None, out, None);
        put_event(None, "[DONE]", out);
    }
}

impl CohereStream {
    /// Keeps a member of the response for the next event.
    fn set(&mut self, path: &str, value: &str) {
        match path.strip_prefix("delta.") {
            Some(path) => self.delta.set(path, value),
            None => self.core.waiting.set(path, value),
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if !self.core.id.is_empty() {
            self.core.waiting.set("id", JsonText::from_text(&self.core.id).as_str());
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

    fn put_arguments(&mut self, index: i64, piece: &mut WrittenDelta<'_>, out: &mut Vec<u8>) {
        self.put("tool-call-delta", Some(index), out, |writer| {
            writer.object_member("tool_calls", |writer| {
                writer.object_member("function", |writer| piece.write("arguments", writer));
            });
        });
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
        put_named_event(&mut self.core.frame, name, out, |writer| writer.number_member("index", index));
    }

    fn put_event(
        &mut self,
        name: &str,
        index: Option<i64>,
        out: &mut Vec<u8>,
        message: Option<&mut dyn FnMut(&mut JsonWriter<'_>)>,
    ) {
        let Self { core: EncoderCore { frame, waiting, .. }, delta, message: fields, logprobs, .. } = self;
        put_named_event(frame, name, out, |writer| {
            if let Some(index) = index {
                writer.number_member("index", index);
            }
            writer.object_member("delta", |writer| {
                if message.is_some() || !fields.is_empty() {
                    writer.object_member("message", |writer| {
                        if let Some(message) = message {
                            message(writer);
                        }
                        fields.write_out(writer);
                    });
                }
                delta.write_out(writer);
            });
            if !logprobs.is_empty() {
                writer.key("logprobs");
                write_logprobs(logprobs, writer);
                logprobs.clear();
            }
            waiting.write_out(writer);
        });
    }
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

/// The finish reason on the wire. Clients must not take a truncated response for complete.
fn finish_reason<'r>(reason: FinishReason, raw: Option<&'r str>, context: &EncodeContext) -> Option<&'r str> {
    if !context.is_normalized() {
        return raw;
    }
    let reason = if reason == FinishReason::Other { FinishReason::Length } else { reason };
    Some(finish_word(reason, raw, FINISH).unwrap_or(FINISH[0].0))
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
    compact_into(json, &mut text);
    text
}

/// Returns the message of an error: errors have no other form here.
fn error_text(error: &UpstreamError<'_>, is_normalized: bool) -> String {
    match is_normalized {
        true => JsonText::from_text(&error.message).as_str().to_owned(),
        false => error.raw.as_str().to_owned(),
    }
}

/// Writes one entry, or a list of them.
fn write_logprobs(entries: &[JsonText<'_>], writer: &mut JsonWriter<'_>) {
    match entries {
        [only] => writer.raw(only.as_str()),
        _ => writer.in_list(|writer| entries.iter().for_each(|entry| writer.raw(entry.as_str()))),
    }
}

fn write_call<'p>(
    id: Option<&str>,
    name: &str,
    arguments: &str,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    let (inside, beside) = split_below(extra, "function.");
    writer.in_object(|writer| {
        writer.optional_text_member("id", id);
        if !beside.iter().any(|(path, _)| *path == "type") {
            writer.text_member("type", "function");
        }
        writer.object_member("function", |writer| {
            writer.text_member("name", name);
            writer.text_member("arguments", arguments);
            write_members(&inside, writer);
        });
        write_members(&beside, writer);
    });
}

/// Writes the members of a text.
fn write_text<'p>(
    wire_type: &str,
    text: &str,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    writer.text_member("type", wire_type);
    writer.text_member(wire_type, text);
    write_members(&extra.collect::<Vec<_>>(), writer);
}

/// Returns token counts in this wire's form.
fn usage(counters: &TokenCounts) -> String {
    let mut text = String::new();
    let counts = [
        ("input_tokens", counters.input_tokens),
        ("output_tokens", counters.output_tokens),
        ("reasoning_tokens", counters.reasoning_tokens),
    ];
    JsonWriter(&mut text).in_object(|writer| {
        writer.object_member("billed_units", |writer| writer.number_members(counts.into_iter().take(2)));
        writer.object_member("tokens", |writer| writer.number_members(counts));
        writer.number_members([("cached_tokens", counters.cached_tokens)]);
    });
    text
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let choice = message.first();
    let is_bare = choice.is_none_or(|choice| choice.blocks.is_empty() && choice.extra.is_empty());
    let error = message.errors.first();
    if let Some(error) = error.filter(|error| !is_normalized && is_bare && is_body(error)) {
        return writer.0.push_str(error.raw.as_str());
    }
    writer.in_object(|writer| {
        writer.optional_text_member("id", context.id_of(message));
        let class = error.filter(|error| is_normalized && error.class != ErrorClass::Other);
        let class = class.map(|error| error.class.name());
        if let Some(error) = error.filter(|_| is_normalized && is_bare) {
            writer.text_member("message", &error.message);
            return writer.optional_text_member("error_type", class);
        }
        writer.optional_text_member("model", message.model.as_deref().filter(|_| keeps));
        if let Some(choice) = choice {
            let finish = choice.finish.as_ref().map(|finish| (finish.reason, finish.raw.as_deref()));
            let finish = finish.filter(|(reason, raw)| error.is_some() || !context.lacks_end(*reason, *raw));
            let wire_type = finish.and_then(|(reason, raw)| finish_reason(reason, raw, context));
            writer.optional_text_member("finish_reason", wire_type);
            writer.key("message");
            complete_message(choice, context, writer);
        }
        if let Some(error) = error {
            writer.raw_member("error", &error_text(error, is_normalized));
            writer.optional_text_member("error_type", class.filter(|_| !keeps));
        }
        if let Some(own) = &message.usage {
            let made = if keeps { own.raw.as_str().to_owned() } else { usage(&own.counters()) };
            writer.raw_member("usage", &made);
        }
        if keeps {
            let mut beside = MemberPaths::default();
            beside.set_all(message.extra.paths());
            for entry in choice.into_iter().flat_map(|choice| choice.attachments(AttachmentKind::Logprobs)) {
                beside.extend("logprobs", entry.value.as_str());
            }
            beside.write(writer);
        }
    });
}

fn complete_message(choice: &Choice, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let (mut contents, mut calls, mut plan) = (String::from("["), String::from("["), String::new());
    let (mut members, mut ids) = (MemberPaths::default(), UniqueCallIds::default());
    for block in &choice.blocks {
        let extra = || block.extra.paths().filter(|_| keeps);
        let mut text = |wire_type: &str, text: &str| {
            let mut writer = JsonWriter(&mut contents);
            writer.in_object(|writer| write_text(wire_type, text, extra(), writer));
        };
        match &block.content {
            BlockContent::Text(own) | BlockContent::Refusal(own) => text(words::TEXT, own),
            BlockContent::Reasoning { text, .. } if keeps && block.wire_type == words::PLAN => {
                plan.push_str(text)
            }
            BlockContent::Reasoning { text: own, .. } => text(words::THINKING, own),
            BlockContent::ToolCall(call) if is_normalized && call.kind == CallKind::Builtin => {}
            BlockContent::ToolCall(call) => {
                let id = ids.written(context, &call.id, call.has_made_id);
                let own = extra().filter(|(path, _)| *path != "type" || !is_normalized);
                let arguments = argument_text(call, is_normalized);
                write_call(id.as_deref(), &call.name, &arguments, own, &mut JsonWriter(&mut calls));
            }
            BlockContent::Opaque(value) if keeps => JsonWriter(&mut contents).raw(value.as_str()),
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
        }
    }
    if keeps {
        for (path, value) in choice.extra.paths().filter(|(path, _)| *path != ROLE || !is_normalized) {
            members.set(path.strip_prefix("message.").unwrap_or(path), value);
        }
        for citation in choice.attachments(AttachmentKind::Annotation) {
            members.extend(words::CITATIONS, citation.value.as_str());
        }
    }
    writer.in_object(|writer| {
        if members.get("role").is_none() {
            writer.text_member("role", "assistant");
        }
        for (key, mut list) in [("content", contents), ("tool_calls", calls)] {
            if list.len() > 1 {
                list.push(']');
                writer.raw_member(key, &list);
            }
        }
        writer.optional_text_member(words::PLAN, Some(plan.as_str()).filter(|plan| !plan.is_empty()));
        members.write(writer);
    });
}

/// The argument text of a call.
fn argument_text(call: &ToolCall, is_normalized: bool) -> String {
    let is_complete = call.completion == BlockCompletion::Complete;
    match call.kind {
        _ if !is_normalized => call.raw_arguments.clone(),
        CallKind::Custom if is_complete || !call.raw_arguments.is_empty() => {
            let mut text = String::new();
            open_free_text(&mut text);
            escape_into(&call.raw_arguments, &mut text);
            text.push_str(if is_complete { "\"}" } else { "" });
            text
        }
        _ => objects::text(call).into_owned(),
    }
}
