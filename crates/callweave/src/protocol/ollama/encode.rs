//! Writing Ollama: one line per piece, the last with `done`, and the complete body.
//!
//! Text is written line by line; calls and images are written complete when their block ends. Fields beside content
//! wait for the next line, and counts of the response for the last.
//!
//! In normalized mode, a response of another protocol has texts, reasoning, the calls of the client's tools, input and
//! output tokens and the finish reason, of its first choice. Left out are the provider's own tools and their results,
//! images, signatures, annotations, log probabilities and the finer counts. A refusal is a text. A truncated call is
//! visible by its arguments, and a truncated response has no last line; an error is reported after all content.

use std::fmt::Write;
use std::mem::take;

use super::{CHAT, FINISH, GENERATE};
use crate::encode::objects::{self, is_object};
use crate::encode::{
    BufferedBlocks, ClientReading, DeltaTemplates, EncodeContext, EncodeMode, EncodeOptions,
    ProtocolEncoding, SerializingEncoder, StreamEncoder, UniqueCallIds, WireCapabilities, WireFeature,
    WrittenDelta, count,
};
use crate::event::{
    AttachmentKind, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, FinishReason, JsonText,
    NoticeCode, TokenCounts,
};
use crate::json::{JsonWriter, MemberPaths, each_member, write_members};
use crate::message::{Block, BlockContent, Choice, Message, ToolCall, Usage};
use crate::protocol::error::is_told_by_status;
use crate::protocol::finish_word;
use crate::upstream::UpstreamError;

pub(in crate::protocol) const ENCODING: ProtocolEncoding =
    ProtocolEncoding { stream, complete, capabilities: |_, _, _| CAPABILITIES, id_prefix: "" };

const CAPABILITIES: WireCapabilities = WireCapabilities {
    own: &[CHAT, GENERATE],
    unsupported: &[
        WireFeature::Id,
        WireFeature::OtherChoices,
        WireFeature::Refusal,
        WireFeature::Summary,
        WireFeature::Custom,
        WireFeature::Cut,
        WireFeature::Total,
        WireFeature::Cached,
        WireFeature::CacheWrite,
        WireFeature::ReasoningTokens,
        WireFeature::NamesOfFailure,
    ],
    indistinct_finish: &[],
    ..WireCapabilities::BASE
};

/// The path of a role other than the usual one.
const ROLE: &str = "message.role";

fn stream(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    // Blocks are written one after the other.
    SerializingEncoder::boxed(
        options,
        ClientReading::Block,
        OllamaStream { manner: EncodeContext::new(options), ..OllamaStream::default() },
    )
}

/// The encoder of lines.
#[derive(Default)]
struct OllamaStream {
    manner: EncodeContext,
    is_generate: bool,
    /// The beginning of every line: the model and the time.
    envelope: String,
    /// The fields that wait for the next line: of the response, and of its message.
    answer: MemberPaths,
    message: MemberPaths,
    total: Option<Usage>,
    /// The counters that wait for the last line, where clients look for them.
    counted: MemberPaths,
    /// Texts that are being written, and whether each is reasoning.
    texts: Vec<(BlockId, bool)>,
    held: BufferedBlocks,
    /// The number of calls so far.
    calls: usize,
    error: Option<UpstreamError<'static>>,
    has_failed: bool,
    has_written: bool,
    ids: UniqueCallIds,
    stamps: DeltaTemplates,
    frame: String,
}

impl StreamEncoder for OllamaStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.stamps.repeat(event, out) {
            return;
        }
        match &event.body {
            EventKind::Start { model, wire_type, extra: members, .. } => {
                let manner = self.manner.of_next(is_own(wire_type));
                *self = Self { manner, frame: take(&mut self.frame), ..Self::default() };
                self.is_generate = is_generate(wire_type, &self.manner.options);
                self.render(model.as_deref());
                if self.manner.keeps() {
                    each_member(members.as_ref(), |path, value| self.answer.set(path, value));
                }
            }
            EventKind::BlockStart { block, kind, .. } => self.block_start(*block, kind, event),
            EventKind::Delta { block, text, .. } => match self.thought(*block) {
                Some(is_reasoning) => {
                    let is_plain = self.answer.is_empty() && self.message.is_empty();
                    let mut piece = WrittenDelta::new(text);
                    self.write(out, |is_generate, writer| {
                        write_text(&mut piece, is_reasoning, is_generate, writer);
                    });
                    if is_plain {
                        self.stamps.keep(*block, self.frame.as_bytes(), &piece);
                    }
                }
                None => self.held.take(event),
            },
            EventKind::BlockEnd { block, .. } => self.block_end(*block, event, out),
            EventKind::Identity { scope: EventScope::Response, model: Some(model), .. } => {
                self.flush(out);
                self.render(Some(model));
            }
            EventKind::Identity { .. } | EventKind::Correction { .. } => self.held.take(event),
            EventKind::Attachment { kind: AttachmentKind::Logprobs, value, .. } if self.manner.keeps() => {
                self.answer.extend("logprobs", value.as_str());
            }
            EventKind::Usage { counters, raw, .. } => {
                // The next line, or the last one, has them.
                self.stamps.forget();
                count(&mut self.total, counters, raw);
                if !self.manner.is_normalized() && self.answer.get("eval_count").is_some() {
                    self.flush(out);
                }
                let own = if self.manner.is_normalized() { &mut self.counted } else { &mut self.answer };
                match &self.total {
                    Some(total) if !self.manner.keeps() => set_usage(&total.counters(), own),
                    _ => each_member(Some(raw), |path, value| own.set(path, value)),
                }
            }
            EventKind::Extra { scope, path, value } if self.manner.keeps() => {
                self.extra(*scope, path, value.as_str(), event, out);
            }
            EventKind::Finish { reason, raw } => self.finish(*reason, raw.as_deref(), out),
            EventKind::Error(error) => {
                self.has_failed = true;
                self.error.get_or_insert_with(|| error.clone().into_owned());
                if !self.manner.is_normalized() {
                    self.write_error(out);
                }
            }
            EventKind::Notice(notice) => self.manner.notice(notice),
            EventKind::End => {
                // Held content comes before it.
                self.write_error(out);
                self.take_counters();
                if !self.has_written || !self.answer.is_empty() || !self.message.is_empty() {
                    self.flush(out);
                }
                self.manner.is_truncated = false;
            }
            EventKind::Attachment { .. }
            | EventKind::Extra { .. }
            | EventKind::ChoiceStart
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. } => {}
        }
    }
}

impl OllamaStream {
    /// Renders the beginning of every line.
    fn render(&mut self, model: Option<&str>) {
        self.envelope.clear();
        let mut writer = JsonWriter(&mut self.envelope);
        writer.object();
        write_names(model, &self.manner.options, &mut writer);
    }

    /// Whether the text that is being written is reasoning; none for other blocks.
    fn thought(&self, block: BlockId) -> Option<bool> {
        self.texts.iter().rev().find(|(own, _)| *own == block).map(|(_, is_reasoning)| *is_reasoning)
    }

    fn block_start(&mut self, block: BlockId, kind: &BlockKind<'_>, event: &Event<'_>) {
        match kind {
            BlockKind::Text | BlockKind::Refusal => self.texts.push((block, false)),
            BlockKind::Reasoning(_) => self.texts.push((block, true)),
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } => {}
            BlockKind::ToolCall { .. } => self.held.begin(event),
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } if !self.manner.keeps() => {}
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => self.held.begin(event),
        }
    }

    fn block_end(&mut self, block: BlockId, event: &Event<'_>, out: &mut Vec<u8>) {
        self.texts.retain(|(own, _)| *own != block);
        self.held.take(event);
        let Some(block) = self.held.remove(block) else { return };
        match &block.content {
            BlockContent::ToolCall(call) => {
                let call = written(call, self.manner.mode(), &mut self.ids);
                let (mode, keeps, ordinal) = (self.manner.mode(), self.manner.keeps(), self.calls);
                self.calls += 1;
                self.write(out, |is_generate, writer| {
                    write_content("", is_generate, writer);
                    writer.key("tool_calls");
                    writer.list();
                    write_call(&call, keeps.then_some(&block), ordinal, mode, writer);
                    writer.end_list();
                });
            }
            BlockContent::Opaque(value) => self.write(out, |is_generate, writer| {
                write_content("", is_generate, writer);
                writer.key(&block.wire_type);
                writer.list();
                writer.raw(value.as_str());
                writer.end_list();
            }),
            _ => {}
        }
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &str, event: &Event<'_>, out: &mut Vec<u8>) {
        match scope {
            EventScope::Response => {
                if self.answer.get(path).is_some() {
                    self.flush(out);
                }
                self.answer.set(path, value);
            }
            // The client knows no other role.
            EventScope::Choice if path == ROLE && self.manner.is_normalized() => {}
            EventScope::Choice | EventScope::Item(_) => {
                let path = path.strip_prefix("message.").unwrap_or(path);
                if self.message.get(path).is_some() {
                    self.flush(out);
                }
                self.message.set(path, value);
            }
            EventScope::Block(_) => self.held.take(event),
        }
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let is_normalized = self.manner.is_normalized();
        let is_open =
            self.manner.is_truncated && reason == FinishReason::Other && (is_normalized || raw.is_none());
        if is_open || self.has_failed && (is_normalized || raw.is_none()) {
            return;
        }
        let wire_type = if is_normalized { Some(word_for(reason, raw)) } else { raw };
        self.take_counters();
        let mut frame = self.begin_frame();
        let mut writer = JsonWriter(&mut frame);
        write_message(self.is_generate, &self.message, &mut writer, |is_generate, writer| {
            write_content("", is_generate, writer);
        });
        write_done(wire_type, &mut writer);
        self.end_frame(frame, out);
    }

    /// Moves the counters into the next line.
    fn take_counters(&mut self) {
        for (path, value) in take(&mut self.counted).iter() {
            self.answer.set(path, value);
        }
    }

    /// Writes a line without content, for fields that must be written before they are replaced.
    fn flush(&mut self, out: &mut Vec<u8>) {
        self.write(out, |is_generate, writer| write_content("", is_generate, writer));
    }

    /// Writes a line with the message that `content` writes.
    fn write(&mut self, out: &mut Vec<u8>, content: impl FnOnce(bool, &mut JsonWriter<'_>)) {
        let mut frame = self.begin_frame();
        let mut writer = JsonWriter(&mut frame);
        write_message(self.is_generate, &self.message, &mut writer, content);
        writer.raw_member("done", "false");
        self.end_frame(frame, out);
    }

    fn write_error(&mut self, out: &mut Vec<u8>) {
        let Some(error) = self.error.take() else { return };
        self.take_counters();
        let mut frame = take(&mut self.frame);
        frame.clear();
        let mut writer = JsonWriter(&mut frame);
        writer.object();
        write_error(&error, self.manner.mode(), &mut self.answer, &mut writer);
        self.answer.write(&mut writer);
        self.answer.clear();
        self.put(frame, out);
    }

    fn begin_frame(&mut self) -> String {
        let mut frame = take(&mut self.frame);
        frame.clear();
        frame.push_str(&self.envelope);
        frame
    }

    fn end_frame(&mut self, mut frame: String, out: &mut Vec<u8>) {
        self.answer.write(&mut JsonWriter(&mut frame));
        self.answer.clear();
        self.message.clear();
        self.put(frame, out);
    }

    fn put(&mut self, mut frame: String, out: &mut Vec<u8>) {
        self.has_written = true;
        frame.push_str("}\n");
        out.extend_from_slice(frame.as_bytes());
        self.frame = frame;
    }
}

fn is_own(wire_type: &str) -> bool {
    matches!(wire_type, CHAT | GENERATE)
}

/// Whether the response is one to `/api/generate`.
fn is_generate(wire_type: &str, options: &EncodeOptions) -> bool {
    wire_type == GENERATE || options.is_normalized() && options.older_form
}

/// Returns the call in its written form.
fn written(call: &ToolCall, mode: EncodeMode, ids: &mut UniqueCallIds) -> ToolCall {
    match mode {
        EncodeMode::Lossless => call.clone(),
        EncodeMode::Normalized => ToolCall { id: ids.claim(&call.id), ..call.clone() },
    }
}

/// The wire's finish reason for clients. Ollama stops after calls as after text.
fn word_for(reason: FinishReason, said: Option<&str>) -> &str {
    let reason = if reason == FinishReason::ToolCalls { FinishReason::Stop } else { reason };
    // An empty reason is accepted on reading, but says nothing.
    finish_word(reason, said.filter(|said| !said.is_empty()), FINISH).unwrap_or("unknown")
}

fn write_names(model: Option<&str>, options: &EncodeOptions, writer: &mut JsonWriter<'_>) {
    if let Some(model) = model.or(options.model.as_deref()) {
        writer.text_member("model", model);
    }
    let mut time = String::new();
    write_time(options.created.unwrap_or(0), &mut time);
    writer.text_member("created_at", &time);
}

/// Writes a time in seconds since 1970 in the form of RFC 3339.
fn write_time(seconds: u64, out: &mut String) {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, which makes the leap day the last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
}

/// Writes the message, or its equivalent in a response to `/api/generate`.
fn write_message(
    is_generate: bool,
    members: &MemberPaths,
    writer: &mut JsonWriter<'_>,
    content: impl FnOnce(bool, &mut JsonWriter<'_>),
) {
    if is_generate {
        return content(is_generate, writer);
    }
    writer.key("message");
    writer.object();
    if members.get("role").is_none() {
        writer.text_member("role", "assistant");
    }
    content(is_generate, writer);
    members.write(writer);
    writer.end_object();
}

/// The member that holds the text.
fn content_type(is_generate: bool) -> &'static str {
    if is_generate { "response" } else { "content" }
}

fn write_content(text: &str, is_generate: bool, writer: &mut JsonWriter<'_>) {
    writer.text_member(content_type(is_generate), text);
}

fn write_text(
    piece: &mut WrittenDelta<'_>,
    is_reasoning: bool,
    is_generate: bool,
    writer: &mut JsonWriter<'_>,
) {
    match is_reasoning {
        true => {
            write_content("", is_generate, writer);
            piece.write("thinking", writer);
        }
        false => piece.write(content_type(is_generate), writer),
    }
}

fn write_call(
    call: &ToolCall,
    block: Option<&Block>,
    ordinal: usize,
    mode: EncodeMode,
    writer: &mut JsonWriter<'_>,
) {
    let members: Vec<_> = block
        .into_iter()
        .flat_map(|block| block.extra.iter())
        .map(|(path, value)| (path, value.as_str()))
        .collect();
    let (inside, beside): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(path, _)| path.starts_with("function."));
    let inside: Vec<_> = inside.iter().map(|(path, value)| (&path["function.".len()..], *value)).collect();
    writer.object();
    if mode == EncodeMode::Normalized || !call.has_made_id {
        writer.text_member("id", &call.id);
    }
    writer.key("function");
    writer.object();
    writer.key("index");
    writer.number(ordinal);
    writer.text_member("name", &call.name);
    writer.key("arguments");
    match mode {
        EncodeMode::Normalized => writer.raw(&objects::arguments(call)),
        EncodeMode::Lossless if is_object(call.arguments()) => writer.raw(call.arguments()),
        // Arguments that are no object were a text.
        EncodeMode::Lossless => writer.string(call.arguments()),
    }
    write_members(&inside, writer);
    writer.end_object();
    write_members(&beside, writer);
    writer.end_object();
}

fn write_done(wire_type: Option<&str>, writer: &mut JsonWriter<'_>) {
    writer.raw_member("done", "true");
    if let Some(wire_type) = wire_type {
        writer.text_member("done_reason", wire_type);
    }
}

/// Writes an error: errors are plain messages here.
fn write_error(
    error: &UpstreamError<'_>,
    mode: EncodeMode,
    beside: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    match mode {
        EncodeMode::Lossless => writer.raw_member("error", error.raw.as_str()),
        EncodeMode::Normalized => {
            writer.text_member("error", &error.message);
            if let Some(status) = error.status {
                beside.set("status", &status.to_string());
            }
            if !is_told_by_status(error) {
                beside.set("code", JsonText::from_text(error.class.name()).as_str());
            }
        }
    }
}

/// Sets token counts in this wire's form.
fn set_usage(counters: &TokenCounts, answer: &mut MemberPaths) {
    for (key, count) in [("prompt_eval_count", counters.input_tokens), ("eval_count", counters.output_tokens)]
    {
        if let Some(count) = count {
            answer.set_number(key, count);
        }
    }
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let options = &context.options;
    let mode = options.mode;
    let keeps = is_own(&message.wire_type) || mode == EncodeMode::Lossless;
    let mut answer = MemberPaths::default();
    if keeps {
        message.extra.iter().for_each(|(path, value)| answer.set(path, value.as_str()));
    }
    writer.object();
    if let Some(error) = message.errors.first() {
        write_error(error, mode, &mut answer, writer);
    }
    let choice = message.first();
    let is_bare = choice.is_none_or(|choice| choice.blocks.is_empty() && choice.extra.is_empty());
    if message.errors.is_empty() || !is_bare {
        write_names(message.model.as_deref(), options, writer);
        if let Some(choice) = choice {
            let is_generate = is_generate(&message.wire_type, options);
            complete_message(choice, is_generate, keeps, mode, writer);
        }
    }
    if keeps {
        for entry in choice.into_iter().flat_map(|choice| choice.attachments(AttachmentKind::Logprobs)) {
            answer.extend("logprobs", entry.value.as_str());
        }
    }
    if let Some(own) = &message.usage {
        match keeps {
            true => each_member(Some(&own.raw), |path, value| answer.set(path, value)),
            false => set_usage(&own.counters(), &mut answer),
        }
    }
    let is_truncated = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
    if let Some(finish) = choice.and_then(|choice| choice.finish.as_ref()) {
        let is_unsaid = mode == EncodeMode::Normalized || finish.raw.is_none();
        let is_open = is_truncated && finish.reason == FinishReason::Other && is_unsaid;
        match mode {
            _ if is_open => writer.raw_member("done", "false"),
            _ if !message.errors.is_empty() && (mode == EncodeMode::Normalized || finish.raw.is_none()) => {}
            EncodeMode::Normalized => {
                write_done(Some(word_for(finish.reason, finish.raw.as_deref())), writer)
            }
            EncodeMode::Lossless => write_done(finish.raw.as_deref(), writer),
        }
    }
    answer.write(writer);
    writer.end_object();
}

fn complete_message(
    choice: &Choice,
    is_generate: bool,
    keeps: bool,
    mode: EncodeMode,
    writer: &mut JsonWriter<'_>,
) {
    let (mut text, mut thinking) = (String::new(), String::new());
    let (mut members, mut calls, mut ids) = (MemberPaths::default(), String::new(), UniqueCallIds::default());
    if keeps {
        for (path, value) in
            choice.extra.iter().filter(|(path, _)| *path != ROLE || mode == EncodeMode::Lossless)
        {
            members.set(path.strip_prefix("message.").unwrap_or(path), value.as_str());
        }
    }
    let mut list = JsonWriter(&mut calls);
    list.list();
    let mut ordinal = 0;
    for block in &choice.blocks {
        match &block.content {
            BlockContent::Text(own) | BlockContent::Refusal(own) => text.push_str(own),
            BlockContent::Reasoning { text: own, .. } => thinking.push_str(own),
            BlockContent::ToolCall(call) if call.kind != CallKind::Builtin => {
                write_call(&written(call, mode, &mut ids), keeps.then_some(block), ordinal, mode, &mut list);
                ordinal += 1;
            }
            BlockContent::Opaque(value) if keeps => members.extend(&block.wire_type, value.as_str()),
            BlockContent::ToolCall(_) | BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
        }
    }
    list.end_list();
    write_message(is_generate, &members, writer, |is_generate, writer| {
        write_content(&text, is_generate, writer);
        if !thinking.is_empty() {
            writer.text_member("thinking", &thinking);
        }
        if ordinal > 0 {
            writer.raw_member("tool_calls", &calls);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            let mut time = String::new();
            write_time(seconds, &mut time);
            assert_eq!(time, expected);
        }
    }
}
