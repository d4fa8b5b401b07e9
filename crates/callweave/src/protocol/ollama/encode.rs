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

use super::{CHAT, FINISH, GENERATE};
use crate::encode::objects::{self, is_object};
use crate::encode::{
    AttachmentEvent, BlockStart, ClientReading, EncodeContext, EncodeOptions, EncoderCore, ProtocolEncoding,
    UniqueCallIds, Wire, WireCapabilities, WireEncoder, WireFeature, WrittenDelta,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, EventScope, FinishReason, JsonText,
    TokenCounts,
};
use crate::json::{JsonWriter, MemberPaths, each_member, split_below, write_members};
use crate::message::{Block, BlockContent, Choice, Message, ToolCall};
use crate::protocol::error::is_told_by_status;
use crate::protocol::finish_word;
use crate::upstream::UpstreamError;

pub(in crate::protocol) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: WireEncoder::<OllamaStream>::boxed,
    complete,
    capabilities: |_, _, _| CAPABILITIES,
    id_prefix: "",
};

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

/// The encoder of lines. The fields that wait are for the next line.
#[derive(Default)]
struct OllamaStream {
    core: EncoderCore<OpenText>,
    is_generate: bool,
    /// The beginning of every line: the model and the time.
    envelope: String,
    /// The fields that wait for the message of the next line.
    message: MemberPaths,
    /// The counters that wait for the last line, where clients look for them.
    counted: MemberPaths,
    /// The number of calls so far.
    calls: usize,
    has_written: bool,
}

/// A text that is being written.
struct OpenText {
    is_reasoning: bool,
}

impl Wire for OllamaStream {
    const CAPABILITIES: WireCapabilities = CAPABILITIES;
    const READING: ClientReading = ClientReading::Block;
    type Block = OpenText;

    fn core(&mut self) -> &mut EncoderCore<OpenText> {
        &mut self.core
    }

    fn start(&mut self, wire_type: &str, extra: Option<&JsonText<'_>>, _: &mut Vec<u8>) {
        self.is_generate = is_generate(wire_type, &self.core.context.options);
        self.render();
        self.core.waiting = MemberPaths::of(self.core.own(extra));
    }

    fn start_block(&mut self, start: &BlockStart<'_>, _: &mut Vec<u8>) {
        let keeps = self.core.keeps();
        match start.kind {
            BlockKind::Text | BlockKind::Refusal => {
                self.core.blocks.insert(start.block, OpenText { is_reasoning: false });
            }
            BlockKind::Reasoning(_) => self.core.blocks.insert(start.block, OpenText { is_reasoning: true }),
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } => {}
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } if !keeps => {}
            BlockKind::ToolCall { .. } | BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => {
                self.core.buffered.begin(start.event);
            }
        }
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(OpenText { is_reasoning }) = self.core.blocks.get_mut(block) else { return };
        let is_reasoning = *is_reasoning;
        let is_plain = self.core.waiting.is_empty() && self.message.is_empty();
        let mut piece = WrittenDelta::new(text);
        self.write(out, |is_generate, writer| match is_reasoning {
            true => {
                write_content("", is_generate, writer);
                piece.write("thinking", writer);
            }
            false => piece.write(content_type(is_generate), writer),
        });
        if is_plain {
            self.core.templates.keep(block, self.core.frame.as_bytes(), &piece);
        }
    }

    fn end_block(&mut self, block: BlockId, _: BlockCompletion, out: &mut Vec<u8>) {
        self.core.blocks.remove(block);
        let Some(block) = self.core.buffered.remove(block) else { return };
        let EncoderCore { context, ids, .. } = &mut self.core;
        let mut own = String::new();
        let key = match &block.content {
            BlockContent::ToolCall(call) => {
                write_call(call, &block, self.calls, context, ids, &mut JsonWriter(&mut own));
                self.calls += 1;
                "tool_calls"
            }
            BlockContent::Opaque(value) => {
                own.push_str(value.as_str());
                &block.wire_type
            }
            _ => return,
        };
        self.write(out, |is_generate, writer| {
            write_content("", is_generate, writer);
            writer.list_member(key, |writer| writer.raw(&own));
        });
    }

    fn rename(&mut self, _: Option<&str>, model: Option<&str>, out: &mut Vec<u8>) {
        if model.is_some() {
            self.flush(out);
            self.core.rename(None, model);
            self.render();
        }
    }

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, _: &mut Vec<u8>) {
        if attachment.kind == AttachmentKind::Logprobs && self.core.keeps() {
            self.core.waiting.extend("logprobs", attachment.value.as_str());
        }
    }

    fn usage(&mut self, _: &str, raw: &JsonText<'_>, out: &mut Vec<u8>) {
        // The next line, or the last one, has them.
        self.core.templates.forget();
        let is_normalized = self.core.is_normalized();
        if !is_normalized && self.core.waiting.get("eval_count").is_some() {
            self.flush(out);
        }
        let EncoderCore { context, counts, waiting, .. } = &mut self.core;
        let own = if is_normalized { &mut self.counted } else { waiting };
        match counts {
            Some(counts) if !context.keeps() => set_usage(&counts.counters(), own),
            _ => each_member(Some(raw), |path, value| own.set(path, value)),
        }
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let is_response = match scope {
            EventScope::Response => true,
            // The client knows no other role.
            EventScope::Choice if path == ROLE && self.core.is_normalized() => return,
            EventScope::Choice | EventScope::Item(_) => false,
            EventScope::Block(_) => return,
        };
        let path = if is_response { path } else { path.strip_prefix("message.").unwrap_or(path) };
        let fields = if is_response { &self.core.waiting } else { &self.message };
        if fields.get(path).is_some() {
            self.flush(out);
        }
        let fields = if is_response { &mut self.core.waiting } else { &mut self.message };
        fields.set(path, value.as_str());
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let context = &self.core.context;
        let is_unsaid = context.is_normalized() || raw.is_none();
        if context.lacks_end(reason, raw) || self.core.has_failed && is_unsaid {
            return;
        }
        let wire_type = if context.is_normalized() { Some(word_for(reason, raw)) } else { raw };
        self.take_counters();
        self.write_line(
            out,
            |is_generate, writer| write_content("", is_generate, writer),
            |writer| {
                write_done(wire_type, writer);
            },
        );
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        self.core.error.get_or_insert_with(|| error.clone().into_owned());
        if !self.core.is_normalized() {
            self.write_error(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // Buffered content comes before it.
        self.write_error(out);
        self.take_counters();
        if !self.has_written || !self.core.waiting.is_empty() || !self.message.is_empty() {
            self.flush(out);
        }
    }
}

impl OllamaStream {
    /// Renders the beginning of every line.
    fn render(&mut self) {
        self.envelope.clear();
        let mut writer = JsonWriter(&mut self.envelope);
        writer.object();
        let model = Some(self.core.model.as_str()).filter(|model| !model.is_empty());
        write_names(model, &self.core.context.options, &mut writer);
    }

    /// Moves the counters into the next line.
    fn take_counters(&mut self) {
        self.core.waiting.set_all(std::mem::take(&mut self.counted).iter());
    }

    /// Writes a line without content, for fields that must be written before they are replaced.
    fn flush(&mut self, out: &mut Vec<u8>) {
        self.write(out, |is_generate, writer| write_content("", is_generate, writer));
    }

    /// Writes a line with the message that `content` writes.
    fn write(&mut self, out: &mut Vec<u8>, content: impl FnOnce(bool, &mut JsonWriter<'_>)) {
        self.write_line(out, content, |writer| writer.raw_member("done", "false"));
    }

    fn write_line(
        &mut self,
        out: &mut Vec<u8>,
        content: impl FnOnce(bool, &mut JsonWriter<'_>),
        done: impl FnOnce(&mut JsonWriter<'_>),
    ) {
        let frame = &mut self.core.frame;
        frame.clear();
        frame.push_str(&self.envelope);
        let mut writer = JsonWriter(frame);
        write_message(self.is_generate, &self.message, &mut writer, content);
        self.message.clear();
        done(&mut writer);
        self.end_line(out);
    }

    fn write_error(&mut self, out: &mut Vec<u8>) {
        let Some(error) = self.core.error.take() else { return };
        self.take_counters();
        let EncoderCore { context, waiting, frame, .. } = &mut self.core;
        frame.clear();
        let mut writer = JsonWriter(frame);
        writer.object();
        write_error(&error, context.is_normalized(), waiting, &mut writer);
        self.end_line(out);
    }

    /// Ends a line with the fields that wait.
    fn end_line(&mut self, out: &mut Vec<u8>) {
        self.has_written = true;
        let EncoderCore { frame, waiting, .. } = &mut self.core;
        waiting.write_out(&mut JsonWriter(frame));
        frame.push_str("}\n");
        out.extend_from_slice(frame.as_bytes());
    }
}

/// Whether the response is one to `/api/generate`.
fn is_generate(wire_type: &str, options: &EncodeOptions) -> bool {
    wire_type == GENERATE || options.is_normalized() && options.older_form
}

/// The wire's finish reason for clients. Ollama stops after calls as after text.
fn word_for(reason: FinishReason, said: Option<&str>) -> &str {
    let reason = if reason == FinishReason::ToolCalls { FinishReason::Stop } else { reason };
    // An empty reason is accepted on reading, but says nothing.
    finish_word(reason, said.filter(|said| !said.is_empty()), FINISH).unwrap_or("unknown")
}

fn write_names(model: Option<&str>, options: &EncodeOptions, writer: &mut JsonWriter<'_>) {
    writer.optional_text_member("model", model);
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
    fields: &MemberPaths,
    writer: &mut JsonWriter<'_>,
    content: impl FnOnce(bool, &mut JsonWriter<'_>),
) {
    if is_generate {
        return content(is_generate, writer);
    }
    writer.object_member("message", |writer| {
        if fields.get("role").is_none() {
            writer.text_member("role", "assistant");
        }
        content(is_generate, writer);
        fields.write(writer);
    });
}

/// The member that holds the text.
fn content_type(is_generate: bool) -> &'static str {
    if is_generate { "response" } else { "content" }
}

fn write_content(text: &str, is_generate: bool, writer: &mut JsonWriter<'_>) {
    writer.text_member(content_type(is_generate), text);
}

fn write_call(
    call: &ToolCall,
    block: &Block,
    ordinal: usize,
    context: &EncodeContext,
    ids: &mut UniqueCallIds,
    writer: &mut JsonWriter<'_>,
) {
    let (inside, beside) = split_below(block.extra.paths().filter(|_| context.keeps()), "function.");
    writer.in_object(|writer| {
        writer.optional_text_member("id", ids.written(context, &call.id, call.has_made_id).as_deref());
        writer.object_member("function", |writer| {
            writer.number_member("index", ordinal);
            writer.text_member("name", &call.name);
            writer.key("arguments");
            match call.arguments() {
                _ if context.is_normalized() => writer.raw(&objects::arguments(call)),
                text if is_object(text) => writer.raw(text),
                // Arguments that are no object were a text.
                text => writer.string(text),
            }
            write_members(&inside, writer);
        });
        write_members(&beside, writer);
    });
}

fn write_done(wire_type: Option<&str>, writer: &mut JsonWriter<'_>) {
    writer.raw_member("done", "true");
    writer.optional_text_member("done_reason", wire_type);
}

/// Writes an error: errors are plain messages here.
fn write_error(
    error: &UpstreamError<'_>,
    is_normalized: bool,
    beside: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    if !is_normalized {
        return writer.raw_member("error", error.raw.as_str());
    }
    writer.text_member("error", &error.message);
    if let Some(status) = error.status {
        beside.set("status", &status.to_string());
    }
    if !is_told_by_status(error) {
        beside.set("code", JsonText::from_text(error.class.name()).as_str());
    }
}

/// Sets token counts in this wire's form.
fn set_usage(counters: &TokenCounts, fields: &mut MemberPaths) {
    for (key, count) in [("prompt_eval_count", counters.input_tokens), ("eval_count", counters.output_tokens)]
    {
        if let Some(count) = count {
            fields.set_number(key, count);
        }
    }
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let mut extra = MemberPaths::default();
    if keeps {
        extra.set_all(message.extra.paths());
    }
    let choice = message.first();
    let is_bare = choice.is_none_or(|choice| choice.blocks.is_empty() && choice.extra.is_empty());
    writer.in_object(|writer| {
        if let Some(error) = message.errors.first() {
            write_error(error, is_normalized, &mut extra, writer);
        }
        if message.errors.is_empty() || !is_bare {
            write_names(context.model_of(message), &context.options, writer);
            if let Some(choice) = choice {
                complete_message(choice, is_generate(&message.wire_type, &context.options), context, writer);
            }
        }
        if keeps {
            for entry in choice.into_iter().flat_map(|choice| choice.attachments(AttachmentKind::Logprobs)) {
                extra.extend("logprobs", entry.value.as_str());
            }
        }
        if let Some(own) = &message.usage {
            match keeps {
                true => each_member(Some(&own.raw), |path, value| extra.set(path, value)),
                false => set_usage(&own.counters(), &mut extra),
            }
        }
        if let Some(finish) = choice.and_then(|choice| choice.finish.as_ref()) {
            let raw = finish.raw.as_deref();
            match is_normalized {
                _ if context.lacks_end(finish.reason, raw) => writer.raw_member("done", "false"),
                _ if !message.errors.is_empty() && (is_normalized || raw.is_none()) => {}
                true => write_done(Some(word_for(finish.reason, raw)), writer),
                false => write_done(raw, writer),
            }
        }
        extra.write(writer);
    });
}

fn complete_message(
    choice: &Choice,
    is_generate: bool,
    context: &EncodeContext,
    writer: &mut JsonWriter<'_>,
) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let (mut text, mut thinking) = (String::new(), String::new());
    let (mut fields, mut calls, mut ids) = (MemberPaths::default(), String::new(), UniqueCallIds::default());
    if keeps {
        for (path, value) in choice.extra.paths().filter(|(path, _)| *path != ROLE || !is_normalized) {
            fields.set(path.strip_prefix("message.").unwrap_or(path), value);
        }
    }
    let mut ordinal = 0;
    JsonWriter(&mut calls).in_list(|list| {
        for block in &choice.blocks {
            match &block.content {
                BlockContent::Text(own) | BlockContent::Refusal(own) => text.push_str(own),
                BlockContent::Reasoning { text: own, .. } => thinking.push_str(own),
                BlockContent::ToolCall(call) if call.kind != CallKind::Builtin => {
                    write_call(call, block, ordinal, context, &mut ids, list);
                    ordinal += 1;
                }
                BlockContent::Opaque(value) if keeps => fields.extend(&block.wire_type, value.as_str()),
                BlockContent::ToolCall(_) | BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
            }
        }
    });
    write_message(is_generate, &fields, writer, |is_generate, writer| {
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
