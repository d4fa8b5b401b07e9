//! Events → chunks.

use std::mem::take;

use super::part::{set_logprobs, write_block, write_call_names, write_leaves, write_part, write_text};
use super::{block_reason, emit_usage, word_for, write_candidate, write_error, write_names};
use crate::encode::{
    BufferedBlocks, ClientReading, DeltaTemplates, EncodeContext, EncodeMode, EncodeOptions,
    SerializingEncoder, StreamEncoder, UniqueCallIds, WrittenDelta, count,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText,
};
use crate::framing::Framing;
use crate::json::{JsonWriter, MemberPaths, each_member};
use crate::message::{BlockContent, ExtraFields, Usage};
use crate::protocol::gemini_generate_content::{RESPONSE, words};
use crate::request::is_marked;
use crate::upstream::UpstreamError;

/// The encoder of chunks.
#[derive(Default)]
pub(super) struct GeminiStream {
    manner: EncodeContext,
    id: String,
    model: String,
    /// The fields and the usage that wait for the next chunk; usage is empty if there is none.
    answer: MemberPaths,
    usage: String,
    /// All token counts so far.
    total: Option<Usage>,
    choices: Vec<OpenCandidate>,
    /// A call that has begun without any output.
    unannounced: Option<(u32, BlockId)>,
    /// Whether the id or model changed and no chunk has been written since.
    has_news: bool,
    /// The reason why the prompt was blocked.
    blocked: Option<String>,
    has_failed: bool,
    /// The error to report after all content.
    error: Option<UpstreamError<'static>>,
    ids: UniqueCallIds,
    /// The number of chunks of this response.
    chunks: usize,
    stamps: DeltaTemplates,
    frame: String,
}

/// A candidate that is being written.
#[derive(Default)]
struct OpenCandidate {
    number: u32,
    /// The fields that wait for its next chunk; fields of its content begin with `content.`.
    pending: MemberPaths,
    logprobs: Vec<JsonText<'static>>,
    texts: Vec<OpenText>,
    held: BufferedBlocks,
    is_told: bool,
}

/// A text that is being written.
struct OpenText {
    block: BlockId,
    is_reasoning: bool,
    /// The fields that wait for its next part.
    members: MemberPaths,
}

impl GeminiStream {
    /// Returns the encoder, which gets the parts of a candidate one after the other.
    pub(super) fn boxed(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
        let own = Self { manner: EncodeContext::new(options), ..Self::default() };
        SerializingEncoder::boxed(options, ClientReading::BlockOfEach, own)
    }
}

impl StreamEncoder for GeminiStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.stamps.repeat(event, out) {
            return;
        }
        let number = event.choice;
        if self.announce_before(event, out) {
            return;
        }
        match &event.body {
            EventKind::Start { id, model, wire_type, extra: members } => {
                let manner = self.manner.of_next(wire_type == RESPONSE);
                *self = Self { manner, frame: take(&mut self.frame), ..Self::default() };
                self.id = id.as_deref().or(self.manner.options.id.as_deref()).unwrap_or_default().to_owned();
                self.model =
                    model.as_deref().or(self.manner.options.model.as_deref()).unwrap_or_default().to_owned();
                self.has_news = true;
                if self.manner.keeps() {
                    each_member(members.as_ref(), |path, value| self.set(path, value));
                }
            }
            EventKind::ChoiceStart => self.choices.push(OpenCandidate { number, ..OpenCandidate::default() }),
            EventKind::BlockStart { block, kind, wire_type, extra: members, .. } => {
                self.block_start(*block, kind, wire_type, members.as_ref(), event);
            }
            EventKind::Delta { block, text, .. } => self.delta(number, *block, text, event, out),
            EventKind::BlockEnd { block, .. } => self.block_end(number, *block, event, out),
            EventKind::Identity { scope: EventScope::Response, id, model } => {
                let is_normalized = self.manner.is_normalized();
                if self.has_news && !is_normalized {
                    self.flush(out);
                }
                for (own, given) in [(&mut self.id, id), (&mut self.model, model)] {
                    if let Some(given) = given.as_deref().filter(|_| own.is_empty() || !is_normalized) {
                        *own = given.to_owned();
                    }
                }
                self.has_news = true;
            }
            EventKind::Identity { .. } | EventKind::Correction { .. } => self.hold(event),
            EventKind::Attachment { scope, kind, wire_type, value } => {
                self.attach(number, *scope, *kind, wire_type, value, event, out);
            }
            EventKind::Usage { counters, raw, .. } => {
                // The next chunk holds them.
                self.stamps.forget();
                if !self.usage.is_empty() && !self.manner.is_normalized() {
                    self.flush(out);
                }
                count(&mut self.total, counters, raw);
                self.tell_counts();
            }
            EventKind::Finish { reason, raw } => self.finish(number, *reason, raw.as_deref(), out),
            // Held content comes before it.
            EventKind::Error(error) if self.manner.is_normalized() => {
                self.has_failed = true;
                self.error.get_or_insert_with(|| error.clone().into_owned());
            }
            EventKind::Error(error) => {
                self.flush_choices(out);
                self.has_failed = true;
                self.write_error(error, out);
            }
            EventKind::Notice(notice) => self.manner.notice(notice),
            EventKind::Extra { scope, path, value } if self.manner.keeps() => {
                self.extra(number, *scope, path, value.as_str(), event, out);
            }
            EventKind::End => self.end(out),
            EventKind::Extra { .. }
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. } => {}
        }
    }
}

impl GeminiStream {
    fn choice(&mut self, number: u32) -> Option<&mut OpenCandidate> {
        self.choices.iter_mut().find(|choice| choice.number == number)
    }

    fn hold(&mut self, event: &Event<'_>) {
        if let Some(choice) = self.choice(event.choice) {
            choice.held.take(event);
        }
    }

    fn block_start(
        &mut self,
        block: BlockId,
        kind: &BlockKind<'_>,
        wire_type: &str,
        members: Option<&JsonText<'_>>,
        event: &Event<'_>,
    ) {
        let keeps = self.manner.keeps();
        let is_normalized = self.manner.is_normalized();
        let is_streamed = wire_type == words::PARTIAL_ARGS && !is_normalized;
        let Some(choice) = self.choice(event.choice) else { return };
        let is_reasoning = match kind {
            BlockKind::Text | BlockKind::Refusal => false,
            BlockKind::Reasoning(_) => true,
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if !keeps => return,
            BlockKind::ToolCall { .. } => {
                choice.held.begin(event);
                self.unannounced = is_streamed.then_some((event.choice, block));
                return;
            }
            // No client can read such a part.
            BlockKind::Opaque { .. } if is_normalized && wire_type == words::PARTS => return,
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => {
                if keeps {
                    choice.held.begin(event);
                }
                return;
            }
        };
        let mut own = MemberPaths::default();
        if keeps {
            each_member(members, |path, value| own.set(path, value));
        }
        choice.texts.push(OpenText { block, is_reasoning, members: own });
    }

    fn delta(&mut self, number: u32, block: BlockId, text: &str, event: &Event<'_>, out: &mut Vec<u8>) {
        let Some(choice) = self.choice(number) else { return };
        match choice.texts.iter().rposition(|text| text.block == block) {
            Some(at) => self.write_text(number, at, text, out),
            None => choice.held.take(event),
        }
    }

    fn block_end(&mut self, number: u32, block: BlockId, event: &Event<'_>, out: &mut Vec<u8>) {
        let is_normalized = self.manner.is_normalized();
        let Some(choice) = self.choice(number) else { return };
        if let Some(at) = choice.texts.iter().rposition(|text| text.block == block) {
            // A signature may belong to a part without any text.
            if !choice.texts[at].members.is_empty() {
                self.write_text(number, at, "", out);
            }
            if let Some(choice) = self.choice(number) {
                choice.texts.remove(at);
            }
            return;
        }
        choice.held.take(event);
        let Some(mut block) = choice.held.remove(block) else { return };
        match &mut block.content {
            BlockContent::ToolCall(call) if is_normalized => call.id = self.ids.claim(&call.id),
            BlockContent::ToolCall(call) if block.wire_type == words::PARTIAL_ARGS => {
                // Without any arguments, the announcement alone says that it continues and never does.
                if call.completion == BlockCompletion::Complete || !call.raw_arguments.is_empty() {
                    self.write(number, None, out, &mut |_, writer| write_leaves(&block, writer));
                }
                return;
            }
            _ => {}
        }
        let (mode, keeps) = (self.manner.mode(), self.manner.keeps());
        self.write(number, None, out, &mut |_, writer| write_block(&block, mode, keeps, writer));
    }

    /// Writes the announcement of a call with arguments that come leaf by leaf, before anything else is written. Its
    /// signature is in the same part; returns true if the event was that.
    fn announce_before(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let Some((number, block)) = self.unannounced else { return false };
        let is_signed =
            matches!(event.body, EventKind::Attachment { scope: EventScope::Block(own), .. } if own == block);
        if is_signed {
            self.hold(event);
        }
        self.unannounced = None;
        self.write(number, None, out, &mut |choice, writer| {
            let Some(block) = choice.held.get_mut(block) else { return };
            let BlockContent::ToolCall(call) = &block.content else { return };
            write_part(block, words::FUNCTION_CALL, writer, |writer| {
                writer.object();
                write_call_names(call, "name", EncodeMode::Lossless, writer);
                writer.raw_member("willContinue", "true");
                writer.end_object();
            });
            block.attachments.clear();
            block.extra = ExtraFields::default();
        });
        is_signed
    }

    #[expect(clippy::too_many_arguments, reason = "the members of one event, taken apart once")]
    fn attach(
        &mut self,
        number: u32,
        scope: EventScope,
        kind: AttachmentKind,
        wire_type: &str,
        value: &JsonText<'_>,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) {
        // A signature is of value only to its issuer, unless a mark names the issuer.
        if !self.manner.keeps() && !is_marked(value) {
            return;
        }
        let is_own = self.manner.keeps();
        let Some(choice) = self.choice(number) else { return };
        if !is_own {
            if let EventScope::Block(block) = scope
                && let Some(text) = choice.texts.iter_mut().rev().find(|text| text.block == block)
            {
                text.members.set(words::SIGNATURE, value.as_str());
            }
            return;
        }
        match (scope, kind) {
            (EventScope::Block(block), _) => {
                match choice.texts.iter_mut().rev().find(|text| text.block == block) {
                    Some(text) => text.members.set(wire_type, value.as_str()),
                    None => self.hold(event),
                }
            }
            (_, AttachmentKind::Logprobs) => choice.logprobs.extend(value.clone().entries()),
            _ if words::CITATIONS.contains(&wire_type) => {
                choice.pending.extend(&format!("{}.{wire_type}", words::CITATION_METADATA), value.as_str());
            }
            _ => self.extra(number, EventScope::Choice, wire_type, value.as_str(), event, out),
        }
    }

    fn extra(
        &mut self,
        number: u32,
        scope: EventScope,
        path: &str,
        value: &str,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) {
        match scope {
            EventScope::Response => {
                if self.answer.get(path).is_some() {
                    self.flush(out);
                }
                self.set(path, value);
            }
            // The client knows no other role.
            EventScope::Choice if path == "content.role" && self.manner.is_normalized() => {}
            EventScope::Choice | EventScope::Item(_) => {
                if self.choice(number).is_some_and(|choice| choice.pending.get(path).is_some()) {
                    self.write_candidate(number, None, out);
                }
                if let Some(choice) = self.choice(number) {
                    choice.pending.set(path, value);
                }
            }
            EventScope::Block(block) => {
                let Some(choice) = self.choice(number) else { return };
                match choice.texts.iter_mut().rev().find(|text| text.block == block) {
                    Some(text) => text.members.set(path, value),
                    None => self.hold(event),
                }
            }
        }
    }

    /// Puts the token counts so far into the next chunk.
    fn tell_counts(&mut self) {
        if let Some(total) = &self.total {
            emit_usage(total, self.manner.keeps(), self.manner.mode(), &mut self.usage);
        }
    }

    /// Keeps a member of the response for the next chunk.
    fn set(&mut self, path: &str, value: &str) {
        self.blocked = block_reason(path, value).or(self.blocked.take());
        self.answer.set(path, value);
    }

    fn finish(&mut self, number: u32, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let is_normalized = self.manner.is_normalized();
        let wire_type = match raw {
            _ if is_normalized && self.has_failed => None,
            _ if is_normalized && self.manner.is_truncated && reason == FinishReason::Other => None,
            raw if is_normalized => Some(word_for(reason, raw)),
            raw => raw,
        };
        // A blocked prompt has no candidate: its feedback has the reason.
        let is_blocked = raw.is_some() && self.blocked.as_deref() == raw;
        if is_normalized {
            // Clients look for the counts in the last chunk.
            self.tell_counts();
        }
        let Some(choice) = self.choice(number) else { return };
        let is_silent = wire_type.is_none() && choice.pending.is_empty() && (choice.is_told || number == 0);
        if !is_silent && (choice.is_told || !is_blocked) {
            self.write_candidate(number, wire_type, out);
        }
    }

    /// Writes an error, which is alone in its chunk.
    fn write_error(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.answer.is_empty() {
            self.flush_news(out);
        }
        let mut frame = self.begin_frame();
        let mut writer = JsonWriter(&mut frame);
        writer.object();
        write_error(error, self.manner.mode(), &mut writer);
        self.end_frame(frame, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.flush_choices(out);
        if let Some(error) = self.error.take() {
            self.write_error(&error, out);
        }
        if !self.has_failed || !self.usage.is_empty() || !self.answer.is_empty() {
            self.flush_news(out);
        }
        if self.is_array() && !self.manner.is_truncated {
            out.extend_from_slice(if self.chunks == 0 { b"[]" } else { b"\n]" });
        }
        self.manner.is_truncated = false;
    }

    fn is_array(&self) -> bool {
        self.manner.options.framing == Some(Framing::JsonValues)
    }

    /// Writes the waiting fields of candidates.
    fn flush_choices(&mut self, out: &mut Vec<u8>) {
        let waiting: Vec<u32> = self
            .choices
            .iter()
            .filter(|choice| !choice.pending.is_empty() || !choice.logprobs.is_empty())
            .map(|choice| choice.number)
            .collect();
        for number in waiting {
            self.write_candidate(number, None, out);
        }
    }

    /// Writes fields that are about to be replaced before they were written, with any candidate that has begun
    /// meanwhile.
    fn flush(&mut self, out: &mut Vec<u8>) {
        match self.choices.iter().find(|choice| !choice.is_told).map(|choice| choice.number) {
            Some(number) => self.write_candidate(number, None, out),
            None => self.flush_news(out),
        }
    }

    /// Writes a chunk without candidates, if there are waiting fields.
    fn flush_news(&mut self, out: &mut Vec<u8>) {
        if self.usage.is_empty() && self.answer.is_empty() && !self.has_news {
            return;
        }
        let mut frame = self.begin_frame();
        let mut writer = JsonWriter(&mut frame);
        writer.object();
        self.write_news(&mut writer);
        self.end_frame(frame, out);
    }

    /// Writes a part of a text.
    fn write_text(&mut self, number: u32, at: usize, text: &str, out: &mut Vec<u8>) {
        // The first chunk of a list begins it.
        let is_plain = self.usage.is_empty() && self.answer.is_empty() && self.chunks > 0;
        let plain = self
            .choice(number)
            .filter(|choice| is_plain && choice.pending.is_empty() && choice.logprobs.is_empty());
        let plain = plain.and_then(|choice| choice.texts.get(at)).filter(|own| own.members.is_empty());
        let plain = plain.map(|own| own.block);
        let mut piece = WrittenDelta::new(text);
        self.write(number, None, out, &mut |choice, writer| {
            let Some(own) = choice.texts.get_mut(at) else { return };
            write_text(&mut piece, own.is_reasoning, writer, |writer| own.members.write(writer));
            own.members.clear();
        });
        if let Some(block) = plain {
            self.stamps.keep(block, self.frame.as_bytes(), &piece);
        }
    }

    /// Writes a chunk of a candidate without parts.
    fn write_candidate(&mut self, number: u32, finish: Option<&str>, out: &mut Vec<u8>) {
        self.write(number, finish, out, &mut |_, _| {});
    }

    /// Writes a chunk of one candidate: its waiting fields, and the parts that `parts` writes.
    fn write(
        &mut self,
        number: u32,
        finish: Option<&str>,
        out: &mut Vec<u8>,
        parts: &mut dyn FnMut(&mut OpenCandidate, &mut JsonWriter<'_>),
    ) {
        let mut frame = self.begin_frame();
        let mut writer = JsonWriter(&mut frame);
        writer.object();
        if let Some(choice) = self.choices.iter_mut().find(|choice| choice.number == number) {
            choice.is_told = true;
            let (mut pending, logprobs) = (take(&mut choice.pending), take(&mut choice.logprobs));
            set_logprobs(logprobs.iter(), &mut pending);
            if finish.is_some() && self.manner.is_normalized() {
                // Clients iterate over the parts of every chunk, including the last.
                pending.set("content.role", "\"model\"");
            }
            writer.key("candidates");
            writer.list();
            write_candidate(number, &pending, finish, &mut writer, |writer| parts(choice, writer));
            writer.end_list();
        }
        self.write_news(&mut writer);
        self.end_frame(frame, out);
    }

    /// Writes the fields that wait for any chunk, and the id and model that every chunk repeats.
    fn write_news(&mut self, writer: &mut JsonWriter<'_>) {
        self.answer.write(writer);
        self.answer.clear();
        if !self.usage.is_empty() {
            writer.raw_member(words::USAGE, &self.usage);
            self.usage.clear();
        }
        write_names([&self.model, &self.id].map(String::as_str), writer);
        self.has_news = false;
    }

    fn begin_frame(&mut self) -> String {
        let mut frame = take(&mut self.frame);
        frame.clear();
        frame.push_str(match (self.is_array(), self.chunks) {
            (false, _) => "data: ",
            (true, 0) => "[",
            (true, _) => ",\r\n",
        });
        frame
    }

    fn end_frame(&mut self, mut frame: String, out: &mut Vec<u8>) {
        frame.push_str(if self.is_array() { "}" } else { "}\n\n" });
        out.extend_from_slice(frame.as_bytes());
        self.chunks += 1;
        self.frame = frame;
    }
}
