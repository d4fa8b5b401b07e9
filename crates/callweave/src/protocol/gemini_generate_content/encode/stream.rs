//! Events → chunks.

use super::part::{set_logprobs, write_block, write_call_names, write_leaves, write_part, write_text};
use super::{
    CAPABILITIES, block_reason, emit_usage, finish_reason, write_candidate, write_error, write_names,
};
use crate::encode::{
    AttachmentEvent, BlockStart, ClientReading, EncoderCore, Wire, WireCapabilities, WrittenDelta,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText,
};
use crate::framing::Framing;
use crate::json::{JsonWriter, MemberPaths, each_member};
use crate::message::{BlockContent, ExtraFields};
use crate::protocol::gemini_generate_content::words;
use crate::request::is_marked;
use crate::upstream::UpstreamError;

/// The encoder of chunks. The fields that wait are for the next chunk.
#[derive(Default)]
pub(super) struct GeminiStream {
    core: EncoderCore<OpenText>,
    /// The usage that waits for the next chunk; empty if there is none.
    usage: String,
    choices: Vec<OpenCandidate>,
    /// A call that has begun without any output, and its choice.
    unannounced: Option<(u32, BlockId)>,
    /// Whether the id or model changed and no chunk has been written since.
    has_news: bool,
    /// The reason why the prompt was blocked.
    blocked: Option<String>,
    /// The number of chunks of this response.
    chunks: usize,
}

/// A candidate that is being written.
#[derive(Default)]
struct OpenCandidate {
    number: u32,
    /// The fields that wait for its next chunk; fields of its content begin with `content.`.
    waiting: MemberPaths,
    logprobs: Vec<JsonText<'static>>,
    is_emitted: bool,
}

/// A text that is being written.
pub(super) struct OpenText {
    is_reasoning: bool,
    /// The fields that wait for its next part.
    extra: MemberPaths,
}

impl Wire for GeminiStream {
    const CAPABILITIES: WireCapabilities = CAPABILITIES;
    const READING: ClientReading = ClientReading::BlockOfEach;
    type Block = OpenText;

    fn core(&mut self) -> &mut EncoderCore<OpenText> {
        &mut self.core
    }

    /// Writes the announcement of a call with arguments that come leaf by leaf, before anything else is written. Its
    /// signature is in the same part.
    fn settle(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let Some((choice, block)) = self.unannounced.take() else { return false };
        let is_signed =
            matches!(event.body, EventKind::Attachment { scope: EventScope::Block(own), .. } if own == block);
        if is_signed {
            self.core.buffered.take(event);
        }
        self.write(choice, None, out, |core, writer| {
            let Some(block) = core.buffered.get_mut(block) else { return };
            let BlockContent::ToolCall(call) = &block.content else { return };
            write_part(block, words::FUNCTION_CALL, writer, |writer| {
                writer.in_object(|writer| {
                    write_call_names(call, "name", false, writer);
                    writer.raw_member("willContinue", "true");
                });
            });
            block.attachments.clear();
            block.extra = ExtraFields::default();
        });
        is_signed
    }

    fn start(&mut self, _: &str, extra: Option<&JsonText<'_>>, _: &mut Vec<u8>) {
        self.has_news = true;
        each_member(self.core.own(extra), |path, value| self.set(path, value));
    }

    fn start_choice(&mut self, _: &mut Vec<u8>) {
        self.choices.push(OpenCandidate { number: self.core.choice, ..OpenCandidate::default() });
    }

    fn start_block(&mut self, start: &BlockStart<'_>, _: &mut Vec<u8>) {
        let (is_normalized, keeps) = (self.core.is_normalized(), self.core.keeps());
        let is_reasoning = match start.kind {
            BlockKind::Text | BlockKind::Refusal => false,
            BlockKind::Reasoning(_) => true,
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if !keeps => return,
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } if !keeps => return,
            // No client can read such a part.
            BlockKind::Opaque { .. } if is_normalized && start.wire_type == words::PARTS => return,
            BlockKind::ToolCall { .. } | BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => {
                let is_call = matches!(start.kind, BlockKind::ToolCall { .. });
                if is_call && start.wire_type == words::PARTIAL_ARGS && !is_normalized {
                    self.unannounced = Some((self.core.choice, start.block));
                }
                return self.core.buffered.begin(start.event);
            }
        };
        self.core.blocks.insert(start.block, OpenText { is_reasoning, extra: MemberPaths::of(start.extra) });
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(open) = self.core.blocks.get_mut(block) else { return };
        let has_extra = !open.extra.is_empty();
        // The first chunk of a list begins it.
        let is_plain = !has_extra && self.usage.is_empty() && self.core.waiting.is_empty() && self.chunks > 0;
        let number = self.core.choice;
        let is_plain = is_plain
            && self
                .choice(number)
                .is_some_and(|choice| choice.waiting.is_empty() && choice.logprobs.is_empty());
        let mut piece = WrittenDelta::new(text);
        self.write(number, None, out, |core, writer| {
            let Some(open) = core.blocks.get_mut(block) else { return };
            write_text(&mut piece, open.is_reasoning, writer, |writer| open.extra.write_out(writer));
        });
        if is_plain {
            self.core.templates.keep(block, self.core.frame.as_bytes(), &piece);
        }
    }

    fn end_block(&mut self, block: BlockId, _: BlockCompletion, out: &mut Vec<u8>) {
        if let Some(open) = self.core.blocks.get_mut(block) {
            // A signature may belong to a part without any text.
            if !open.extra.is_empty() {
                self.grow(block, "", out);
            }
            self.core.blocks.remove(block);
            return;
        }
        let Some(mut block) = self.core.buffered.remove(block) else { return };
        let is_normalized = self.core.is_normalized();
        if let BlockContent::ToolCall(call) = &mut block.content {
            if is_normalized {
                call.id = self.core.ids.claim(&call.id);
            } else if block.wire_type == words::PARTIAL_ARGS {
                // Without any arguments, the announcement alone says that it continues and never does.
                if call.completion == BlockCompletion::Complete || !call.raw_arguments.is_empty() {
                    self.write(self.core.choice, None, out, |_, writer| write_leaves(&block, writer));
                }
                return;
            }
        }
        self.write(self.core.choice, None, out, |core, writer| write_block(&block, &core.context, writer));
    }

    fn rename(&mut self, id: Option<&str>, model: Option<&str>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        if self.has_news && !is_normalized {
            self.flush(out);
        }
        let is_new = |own: &str| own.is_empty() || !is_normalized;
        let (id, model) = (id.filter(|_| is_new(&self.core.id)), model.filter(|_| is_new(&self.core.model)));
        self.core.rename(id, model);
        self.has_news = true;
    }

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>) {
        let AttachmentEvent { scope, kind, wire_type, value } = *attachment;
        let keeps = self.core.keeps();
        match (scope, kind) {
            // A signature is of value only to its issuer, unless a mark names the issuer.
            _ if !keeps && !is_marked(value) => {}
            (EventScope::Block(block), _) => {
                if let Some(open) = self.core.blocks.get_mut(block) {
                    open.extra.set(if keeps { wire_type } else { words::SIGNATURE }, value.as_str());
                }
            }
            _ if !keeps => {}
            (_, AttachmentKind::Logprobs) => {
                if let Some(choice) = self.choice(self.core.choice) {
                    choice.logprobs.extend(value.clone().entries());
                }
            }
            _ if words::CITATIONS.contains(&wire_type) => {
                if let Some(choice) = self.choice(self.core.choice) {
                    let path = format!("{}.{wire_type}", words::CITATION_METADATA);
                    choice.waiting.extend(&path, value.as_str());
                }
            }
            _ => self.extra(EventScope::Choice, wire_type, value, out),
        }
    }

    fn usage(&mut self, _: &str, _: &JsonText<'_>, out: &mut Vec<u8>) {
        // The next chunk holds them.
        self.core.templates.forget();
        if !self.usage.is_empty() && !self.core.is_normalized() {
            self.flush(out);
        }
        self.emit_counts();
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let number = self.core.choice;
        match scope {
            EventScope::Response => {
                if self.core.waiting.get(path).is_some() {
                    self.flush(out);
                }
                self.set(path, value.as_str());
            }
            // The client knows no other role.
            EventScope::Choice if path == "content.role" && self.core.is_normalized() => {}
            EventScope::Choice | EventScope::Item(_) => {
                if self.choice(number).is_some_and(|choice| choice.waiting.get(path).is_some()) {
                    self.write_candidate(number, None, out);
                }
                if let Some(choice) = self.choice(number) {
                    choice.waiting.set(path, value.as_str());
                }
            }
            EventScope::Block(block) => {
                if let Some(open) = self.core.blocks.get_mut(block) {
                    open.extra.set(path, value.as_str());
                }
            }
        }
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let wire_type = finish_reason(reason, raw, self.core.has_failed, &self.core.context);
        // A blocked prompt has no candidate: its feedback has the reason.
        let is_blocked = raw.is_some() && self.blocked.as_deref() == raw;
        if self.core.is_normalized() {
            // Clients look for the counts in the last chunk.
            self.emit_counts();
        }
        let number = self.core.choice;
        let Some(choice) = self.choice(number) else { return };
        let is_silent =
            wire_type.is_none() && choice.waiting.is_empty() && (choice.is_emitted || number == 0);
        if !is_silent && (choice.is_emitted || !is_blocked) {
            self.write_candidate(number, wire_type, out);
        }
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        // Buffered content comes before it.
        if self.core.is_normalized() {
            self.core.error.get_or_insert_with(|| error.clone().into_owned());
        } else {
            self.flush_choices(out);
            self.write_error(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.flush_choices(out);
        if let Some(error) = self.core.error.take() {
            self.write_error(&error, out);
        }
        if !self.core.has_failed || !self.usage.is_empty() || !self.core.waiting.is_empty() {
            self.flush_news(out);
        }
        if self.is_array() && !self.core.context.is_truncated {
            out.extend_from_slice(if self.chunks == 0 { b"[]" } else { b"\n]" });
        }
    }
}

impl GeminiStream {
    fn choice(&mut self, number: u32) -> Option<&mut OpenCandidate> {
        self.choices.iter_mut().find(|choice| choice.number == number)
    }

    /// Puts the token counts so far into the next chunk.
    fn emit_counts(&mut self) {
        if let Some(counts) = &self.core.counts {
            emit_usage(counts, &self.core.context, &mut self.usage);
        }
    }

    /// Keeps a member of the response for the next chunk.
    fn set(&mut self, path: &str, value: &str) {
        self.blocked = block_reason(path, value).or(self.blocked.take());
        self.core.waiting.set(path, value);
    }

    fn is_array(&self) -> bool {
        self.core.context.options.framing == Some(Framing::JsonValues)
    }

    /// Writes an error, which is alone in its chunk.
    fn write_error(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.core.waiting.is_empty() {
            self.flush_news(out);
        }
        self.put(out, |own, writer| write_error(error, own.core.is_normalized(), writer));
    }

    /// Writes the waiting fields of candidates.
    fn flush_choices(&mut self, out: &mut Vec<u8>) {
        for at in 0..self.choices.len() {
            let OpenCandidate { number, waiting, logprobs, .. } = &self.choices[at];
            if !waiting.is_empty() || !logprobs.is_empty() {
                self.write_candidate(*number, None, out);
            }
        }
    }

    /// Writes fields that are about to be replaced before they were written, with any candidate that has begun
    /// meanwhile.
    fn flush(&mut self, out: &mut Vec<u8>) {
        match self.choices.iter().find(|choice| !choice.is_emitted).map(|choice| choice.number) {
            Some(number) => self.write_candidate(number, None, out),
            None => self.flush_news(out),
        }
    }

    /// Writes a chunk without candidates, if there are waiting fields.
    fn flush_news(&mut self, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.core.waiting.is_empty() || self.has_news {
            self.put(out, Self::write_news);
        }
    }

    /// Writes a chunk of a candidate without parts.
    fn write_candidate(&mut self, number: u32, finish: Option<&str>, out: &mut Vec<u8>) {
        self.write(number, finish, out, |_, _| {});
    }

    /// Writes a chunk of one candidate: its waiting fields, and the parts that `parts` writes.
    fn write(
        &mut self,
        number: u32,
        finish: Option<&str>,
        out: &mut Vec<u8>,
        parts: impl FnOnce(&mut EncoderCore<OpenText>, &mut JsonWriter<'_>),
    ) {
        self.put(out, |own, writer| {
            let Self { choices, core, .. } = own;
            if let Some(choice) = choices.iter_mut().find(|choice| choice.number == number) {
                choice.is_emitted = true;
                set_logprobs(choice.logprobs.drain(..), &mut choice.waiting);
                if finish.is_some() && core.is_normalized() {
                    // Clients iterate over the parts of every chunk, including the last.
                    choice.waiting.set("content.role", "\"model\"");
                }
                writer.list_member("candidates", |writer| {
                    write_candidate(number, &choice.waiting, finish, writer, |writer| parts(core, writer));
                });
                choice.waiting.clear();
            }
            own.write_news(writer);
        });
    }

    /// Writes the fields that wait for any chunk, and the id and model that every chunk repeats.
    fn write_news(&mut self, writer: &mut JsonWriter<'_>) {
        self.core.waiting.write_out(writer);
        if !self.usage.is_empty() {
            writer.raw_member(words::USAGE, &self.usage);
            self.usage.clear();
        }
        write_names([&self.core.model, &self.core.id].map(String::as_str), writer);
        self.has_news = false;
    }

    /// Writes a chunk with the object that `members` fills.
    fn put(&mut self, out: &mut Vec<u8>, members: impl FnOnce(&mut Self, &mut JsonWriter<'_>)) {
        let mut frame = std::mem::take(&mut self.core.frame);
        frame.clear();
        frame.push_str(match (self.is_array(), self.chunks) {
            (false, _) => "data: ",
            (true, 0) => "[",
            (true, _) => ",\r\n",
        });
        JsonWriter(&mut frame).in_object(|writer| members(self, writer));
        frame.push_str(if self.is_array() { "" } else { "\n\n" });
        out.extend_from_slice(frame.as_bytes());
        self.chunks += 1;
        self.core.frame = frame;
    }
}
