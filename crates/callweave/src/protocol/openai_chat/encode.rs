//! Writing Chat: chunks as server-sent events, and the complete body.
//!
//! Fields beside content are emitted before it, so they wait for the chunk of the content that follows, or for the end.
//! Fields that every chunk repeats (`id`, `created`, …) are rendered once and again when they change.

use std::borrow::Cow;
use std::mem::take;

use super::{CHAT, CHAT_CHUNK, ERRORS, REASONING, ReasoningMember, TEXT_COMPLETION, words};
use crate::encode::objects::{self, INVALID_JSON};
use crate::encode::{
    ClientReading, DeltaTemplates, EncodeContext, EncodeOptions, ProtocolEncoding, SerializingEncoder,
    StreamEncoder, UniqueCallIds, WireCapabilities, WireFeature, WrittenDelta, count, put_event,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText, TokenCounts,
};
use crate::json::{JsonKind, JsonWriter, MemberPaths, Tape, TapeNode, each_member};
use crate::message::{Block, BlockContent, Choice, ExtraFields, Message, Usage};
use crate::protocol::error::write_typed;
use crate::request::is_marked;
use crate::upstream::UpstreamError;

pub(super) const ENCODING: ProtocolEncoding =
    ProtocolEncoding { stream, complete, capabilities: |_, _, _| CAPABILITIES, id_prefix: "chatcmpl-" };

const CAPABILITIES: WireCapabilities = WireCapabilities {
    unsupported: &[WireFeature::Summary, WireFeature::Cut, WireFeature::CacheWrite],
    logprobs: is_logprob,
    indistinct_finish: &[FinishReason::Error, FinishReason::Other],
    errors: ERRORS,
    ..WireCapabilities::BASE
};

fn stream(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    SerializingEncoder::boxed(
        options,
        ClientReading::TextOfEach,
        ChatStream { manner: EncodeContext::new(options), ..ChatStream::default() },
    )
}

/// The id of a response to clients that want one, where neither the response nor the caller has any.
const MADE_ID: &str = "chatcmpl";
/// Members of the response that every chunk repeats.
const STICKY: &[&str] = &["object", "created", "system_fingerprint", "service_tier", "provider"];

/// The encoder of chunks.
#[derive(Default)]
struct ChatStream {
    manner: EncodeContext,
    id: String,
    model: String,
    wire_type: String,
    sticky: MemberPaths,
    /// The beginning of every chunk, rendered from the fields above.
    envelope: String,
    /// The fields that wait for the next chunk: of the response, and beside usage.
    answer: MemberPaths,
    usage: MemberPaths,
    /// Whether repeated fields changed and no chunk has been written since.
    has_news: bool,
    choices: Vec<OpenChatChoice>,
    /// All token counts so far.
    counts: Option<Usage>,
    has_failed: bool,
    stamps: DeltaTemplates,
    frame: String,
}

/// A choice that is being written.
#[derive(Default)]
struct OpenChatChoice {
    number: u32,
    has_role: bool,
    is_finished: bool,
    /// The fields that wait for the next chunk of this choice; fields of its message begin with `message.`.
    pending: MemberPaths,
    blocks: Vec<RunningBlock>,
    calls: u32,
    ids: UniqueCallIds,
}

/// A block that is being written.
struct RunningBlock {
    block: BlockId,
    wire_type: String,
    index: Option<i64>,
    /// The fields that wait for the next chunk of this block.
    extra: MemberPaths,
    call: Option<OpenChatCall>,
}

/// A call that is being written.
struct OpenChatCall {
    id: String,
    name: String,
    kind: CallKind,
    /// Its number among the calls of the choice.
    ordinal: u32,
    /// Whether its id and name have been written.
    is_named: bool,
    has_arguments: bool,
    /// The arguments, where the wire wants them complete.
    whole: String,
}

impl RunningBlock {
    /// Whether its next chunk holds nothing but text.
    fn is_plain(&self) -> bool {
        let is_told = self.call.as_ref().is_none_or(|call| call.is_named);
        is_told && self.extra.is_empty() && self.wire_type != words::EXECUTED_TOOLS
    }
}

impl OpenChatCall {
    /// Returns the text that clients must get of a call that has ended without arguments.
    fn rest(&self, completion: BlockCompletion) -> Cow<'static, str> {
        match (completion, self.kind) {
            _ if self.has_arguments => "".into(),
            // A call that was truncated before its arguments must not pass for one without arguments.
            (_, CallKind::Custom) => "".into(),
            (
                BlockCompletion::Truncated | BlockCompletion::AfterDamage,
                CallKind::Function | CallKind::Builtin,
            ) => objects::under(INVALID_JSON, ""),
            (BlockCompletion::Complete, CallKind::Function | CallKind::Builtin) => "{}".into(),
        }
    }
}

impl StreamEncoder for ChatStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.stamps.repeat(event, out) {
            return;
        }
        let number = event.choice;
        match &event.body {
            EventKind::Start { id, model, wire_type, extra: members } => {
                // No extra fields are passed on to clients.
                let manner = self.manner.of_next(false);
                *self = Self { manner, frame: take(&mut self.frame), ..Self::default() };
                self.start(id.as_deref(), model.as_deref(), wire_type, members.as_ref());
            }
            EventKind::ChoiceStart => {
                self.choices.push(OpenChatChoice { number, ..OpenChatChoice::default() });
                // A response that failed before it began has no choice.
                if !self.is_completion() && !self.has_failed {
                    self.write_delta(number, out, |_| {});
                }
            }
            EventKind::BlockStart { .. } => self.block_start(number, &event.body, out),
            EventKind::Delta { block, text, .. } => self.delta(number, *block, text, out),
            EventKind::BlockEnd { block, completion } => self.block_end(number, *block, *completion, out),
            EventKind::Attachment { scope, kind, wire_type, value } => {
                self.attach(number, *scope, *kind, wire_type, value, out);
            }
            EventKind::Identity { scope: EventScope::Response, .. } if self.manner.is_normalized() => {}
            EventKind::Identity { scope: EventScope::Response, id, model } => {
                self.flush_news(out);
                if let Some(id) = id {
                    self.id = id.to_string();
                }
                if let Some(model) = model {
                    self.model = model.to_string();
                }
                self.render();
            }
            // Clients would append the second id to the first.
            EventKind::Identity { scope: EventScope::Block(_), .. } if self.manner.is_normalized() => {}
            EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
                if let Some(call) = self.running(number, *block).and_then(|running| running.call.as_mut()) {
                    call.id = id.to_string();
                    call.is_named = false;
                    self.flush_block(number, *block, out);
                }
            }
            EventKind::Usage { wire_type, counters, raw } => {
                if self.usage.get(wire_type).is_some() && !self.manner.is_normalized() {
                    self.flush_news(out);
                }
                if self.manner.is_normalized() {
                    return count(&mut self.counts, counters, raw);
                }
                // The next chunk holds them.
                self.stamps.forget();
                if wire_type == words::CHOICE_USAGE {
                    self.set_pending(number, words::USAGE, raw);
                } else {
                    self.usage.set(wire_type, raw.as_str());
                }
            }
            EventKind::Finish { reason, raw } => self.finish(number, *reason, raw.as_deref(), out),
            EventKind::Error(error) => self.error(error, out),
            EventKind::Notice(notice) => self.manner.notice(notice),
            EventKind::Extra { scope, path, value } => {
                if !self.manner.is_normalized() {
                    self.flush_before(number, *scope, path, out);
                    self.extra(number, *scope, path, value.as_str());
                }
            }
            EventKind::End => self.end(out),
            EventKind::Identity { .. }
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. }
            // The wire has no form for it.
            | EventKind::Correction { .. } => {}
        }
    }
}

impl ChatStream {
    fn is_completion(&self) -> bool {
        self.wire_type == TEXT_COMPLETION
    }

    fn start(
        &mut self,
        id: Option<&str>,
        model: Option<&str>,
        wire_type: &str,
        members: Option<&JsonText<'_>>,
    ) {
        let is_normalized = self.manner.is_normalized();
        let made = if is_normalized { MADE_ID } else { "" };
        self.id = id.or(self.manner.options.id.as_deref()).unwrap_or(made).to_owned();
        self.model = model.or(self.manner.options.model.as_deref()).unwrap_or_default().to_owned();
        self.wire_type = if is_normalized { CHAT } else { wire_type }.to_owned();
        if is_normalized {
            let mut created = self.manner.options.created.unwrap_or(0).to_string();
            each_member(members, |path, value| {
                if is_time(path, value) {
                    value.clone_into(&mut created);
                }
            });
            self.sticky.set(CREATED, &created);
        } else {
            each_member(members, |path, value| self.extra(0, EventScope::Response, path, value));
        }
        self.render();
    }

    /// Renders the beginning of every chunk.
    fn render(&mut self) {
        self.has_news = true;
        self.envelope.clear();
        let mut writer = JsonWriter(&mut self.envelope);
        writer.object();
        if !self.id.is_empty() {
            writer.text_member("id", &self.id);
        }
        if self.sticky.get("object").is_none() && !self.wire_type.is_empty() {
            writer.text_member("object", if self.wire_type == CHAT { CHAT_CHUNK } else { &self.wire_type });
        }
        if !self.model.is_empty() || self.manner.is_normalized() {
            writer.text_member("model", &self.model);
        }
        self.sticky.write(&mut writer);
    }

    fn choice(&mut self, number: u32) -> Option<&mut OpenChatChoice> {
        self.choices.iter_mut().find(|choice| choice.number == number)
    }

    fn running(&mut self, number: u32, block: BlockId) -> Option<&mut RunningBlock> {
        self.choice(number)?.blocks.iter_mut().rev().find(|running| running.block == block)
    }

    /// Writes a chunk without choices, if there are waiting fields.
    fn flush_news(&mut self, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.answer.is_empty() || self.has_news {
            let mut frame = self.begin_frame();
            let mut writer = JsonWriter(&mut frame);
            writer.key("choices");
            writer.list();
            writer.end_list();
            self.end_frame(frame, out);
        }
    }

    /// Writes the waiting fields where a value is about to be replaced before it was written.
    fn flush_before(&mut self, number: u32, scope: EventScope, path: &str, out: &mut Vec<u8>) {
        match scope {
            EventScope::Response
                if self.answer.get(path).is_some() || self.has_news && STICKY.contains(&path) =>
            {
                self.flush_news(out);
            }
            EventScope::Choice | EventScope::Item(_)
                if self.choice(number).is_some_and(|choice| choice.pending.get(path).is_some()) =>
            {
                self.write_delta(number, out, |_| {});
            }
            EventScope::Block(block)
                if self.running(number, block).is_some_and(|running| running.extra.get(path).is_some()) =>
            {
                self.flush_block(number, block, out);
            }
            _ => {}
        }
    }

    fn extra(&mut self, number: u32, scope: EventScope, path: &str, value: &str) {
        match scope {
            EventScope::Response if STICKY.contains(&path) => {
                self.sticky.set(path, value);
                self.render();
            }
            EventScope::Response => self.answer.set(path, value),
            EventScope::Choice | EventScope::Item(_) => {
                if let Some(choice) = self.choice(number) {
                    choice.pending.set(path, value);
                }
            }
            EventScope::Block(block) => {
                if let Some(running) = self.running(number, block) {
                    running.extra.set(path, value);
                }
            }
        }
    }

    fn attach(
        &mut self,
        number: u32,
        scope: EventScope,
        kind: AttachmentKind,
        wire_type: &str,
        value: &JsonText<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.manner.is_normalized() {
            if kind == AttachmentKind::Logprobs && is_logprob(value) {
                self.extend_pending(number, &format!("logprobs.{}", logprobs_word(wire_type)), value);
            }
            let is_reasoning = match scope {
                EventScope::Block(block) => {
                    self.running(number, block).is_some_and(|own| own.wire_type == REASONING_CONTENT)
                }
                EventScope::Item(_) => kind == AttachmentKind::Encrypted,
                EventScope::Response | EventScope::Choice => false,
            };
            if is_reasoning && is_marked(value) {
                self.write_delta(number, out, |writer| {
                    writer.key(DETAILS);
                    writer.list();
                    write_seal(kind, value, writer);
                    writer.end_list();
                });
            }
            return;
        }
        match (scope, kind) {
            (EventScope::Response, _) => self.answer.extend(wire_type, value.as_str()),
            (EventScope::Block(block), _) => {
                let Some(running) = self.running(number, block) else { return };
                if running.wire_type.starts_with("reasoning.") {
                    running.extra.set(wire_type, value.as_str());
                    self.flush_block(number, block, out);
                } else {
                    self.set_pending(number, &format!("message.{wire_type}"), value);
                    self.write_delta(number, out, |_| {});
                }
            }
            (_, AttachmentKind::Logprobs) => {
                let path = if wire_type.is_empty() {
                    "logprobs".to_owned()
                } else {
                    format!("logprobs.{wire_type}")
                };
                match wire_type {
                    "" => self.set_pending(number, &path, value),
                    _ => self.extend_pending(number, &path, value),
                }
            }
            _ if wire_type == words::CONTENT_REFERENCE => self.write_delta(number, out, |writer| {
                writer.key("content");
                writer.list();
                writer.raw(value.as_str());
                writer.end_list();
            }),
            _ => self.extend_pending(number, &format!("message.{wire_type}"), value),
        }
    }

    fn set_pending(&mut self, number: u32, path: &str, value: &JsonText<'_>) {
        if let Some(choice) = self.choice(number) {
            choice.pending.set(path, value.as_str());
        }
    }

    fn extend_pending(&mut self, number: u32, path: &str, value: &JsonText<'_>) {
        if let Some(choice) = self.choice(number) {
            choice.pending.extend(path, value.as_str());
        }
    }

    fn block_start(&mut self, number: u32, start: &EventKind<'_>, out: &mut Vec<u8>) {
        let EventKind::BlockStart { block, kind, wire_type, index, extra: members, .. } = start else {
            return;
        };
        let is_normalized = self.manner.is_normalized();
        let mut paths = MemberPaths::default();
        if !is_normalized {
            each_member(members.as_ref(), |path, value| paths.set(path, value));
        }
        if matches!(kind, BlockKind::ToolCall { .. }) {
            self.name_calls(number, None, out);
        }
        let is_older = is_normalized && self.manner.options.older_form;
        let Some(choice) = self.choice(number) else { return };
        let call = match kind {
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if is_normalized => return,
            // The older form has one call.
            BlockKind::ToolCall { .. } if is_older && choice.calls > 0 => return,
            BlockKind::ToolCall { id, is_made, name, call } => {
                let ordinal = choice.calls;
                choice.calls += 1;
                let id = id.as_deref().filter(|_| is_normalized || !is_made).unwrap_or_default();
                Some(OpenChatCall {
                    id: if is_normalized { choice.ids.claim(id) } else { id.to_owned() },
                    name: name.to_string(),
                    kind: *call,
                    ordinal,
                    is_named: false,
                    has_arguments: false,
                    whole: String::new(),
                })
            }
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } if is_normalized => return,
            BlockKind::ToolResult { value, .. } => {
                return self.write_delta(number, out, |writer| write_list(wire_type, value.as_str(), writer));
            }
            BlockKind::Opaque { value } => {
                return self
                    .write_delta(number, out, |writer| write_opaque(wire_type, value.as_str(), writer));
            }
            BlockKind::Text | BlockKind::Reasoning(_) | BlockKind::Refusal => None,
        };
        let wire_type = match kind {
            _ if !is_normalized => wire_type.as_ref(),
            BlockKind::Text => words::CONTENT,
            BlockKind::Refusal => words::REFUSAL,
            BlockKind::Reasoning(_) => REASONING_CONTENT,
            _ if is_older => words::FUNCTION_CALL,
            _ => words::TOOL_CALLS,
        };
        let index = if is_normalized { call.as_ref().map(|call| i64::from(call.ordinal)) } else { *index };
        let is_announced = is_normalized && call.is_some();
        choice.blocks.push(RunningBlock {
            block: *block,
            wire_type: wire_type.to_owned(),
            index,
            extra: paths,
            call,
        });
        // Clients get the name of a call before its arguments come.
        if is_announced {
            self.write(number, Some((*block, "")), out, |_| {});
        }
    }

    fn delta(&mut self, number: u32, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(choice) = self.choices.iter_mut().find(|choice| choice.number == number) else { return };
        let Some(at) = choice.blocks.iter().rposition(|running| running.block == block) else { return };
        // These are written complete.
        if let RunningBlock { wire_type, call: Some(call), .. } = &mut choice.blocks[at]
            && wire_type == words::EXECUTED_TOOLS
        {
            call.whole.push_str(text);
        }
        // The call before must have been named before this one continues.
        self.name_calls(number, Some(block), out);
        self.write(number, Some((block, text)), out, |_| {});
    }

    /// Names the calls that have begun without output, except the one that is about to be written.
    fn name_calls(&mut self, number: u32, except: Option<BlockId>, out: &mut Vec<u8>) {
        loop {
            let Some(choice) = self.choice(number) else { return };
            let is_unnamed = |running: &&RunningBlock| {
                Some(running.block) != except && running.call.as_ref().is_some_and(|call| !call.is_named)
            };
            let Some(block) = choice.blocks.iter().find(is_unnamed).map(|running| running.block) else {
                return;
            };
            self.write(number, Some((block, "")), out, |_| {});
        }
    }

    /// Writes the waiting fields of a block.
    fn flush_block(&mut self, number: u32, block: BlockId, out: &mut Vec<u8>) {
        self.write(number, Some((block, "")), out, |_| {});
    }

    fn block_end(&mut self, number: u32, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let is_normalized = self.manner.is_normalized();
        let Some(running) = self.running(number, block) else { return };
        let is_due = match &running.call {
            Some(call) => !call.is_named || !running.extra.is_empty() || is_normalized && !call.has_arguments,
            None => !running.extra.is_empty(),
        };
        if is_due {
            let rest = running.call.as_ref().filter(|_| is_normalized).map(|call| call.rest(completion));
            self.write(number, Some((block, rest.as_deref().unwrap_or_default())), out, |_| {});
        }
        if let Some(choice) = self.choice(number) {
            choice.blocks.retain(|running| running.block != block);
        }
    }

    /// Writes a chunk with the delta that `content` writes.
    fn write_delta(&mut self, number: u32, out: &mut Vec<u8>, content: impl FnOnce(&mut JsonWriter<'_>)) {
        self.write(number, None, out, content);
    }

    /// Writes a chunk of one choice: its waiting fields, a piece of a block, and the additions of `content` to the
    /// delta.
    fn write(
        &mut self,
        number: u32,
        piece: Option<(BlockId, &str)>,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut JsonWriter<'_>),
    ) {
        let is_completion = self.is_completion();
        let mut is_plain = self.answer.is_empty() && self.usage.is_empty();
        let mut frame = self.begin_frame();
        let mut writer = JsonWriter(&mut frame);
        let mut piece = piece.map(|(block, text)| (block, WrittenDelta::new(text)));
        writer.key("choices");
        writer.list();
        writer.object();
        writer.key("index");
        writer.number(number);
        if let Some(choice) = self.choices.iter_mut().find(|choice| choice.number == number) {
            is_plain &= choice.pending.is_empty();
            let (of_message, of_choice): (Vec<_>, Vec<_>) =
                choice.pending.iter().partition(|(path, _)| path.starts_with("message."));
            let of_message: Vec<_> =
                of_message.iter().map(|(path, value)| (&path["message.".len()..], *value)).collect();
            let block = piece.as_mut().and_then(|(block, piece)| {
                let running = choice.blocks.iter_mut().rev().find(|running| running.block == *block)?;
                is_plain &= running.is_plain();
                Some((running, piece))
            });
            match block {
                Some((running, piece)) if running.wire_type == words::TEXT => {
                    piece.write("text", &mut writer);
                    running.extra.write(&mut writer);
                }
                block if !is_completion || block.is_some() => {
                    writer.key("delta");
                    writer.object();
                    is_plain &= choice.has_role;
                    if !take(&mut choice.has_role) {
                        writer.text_member("role", "assistant");
                    }
                    choice.has_role = true;
                    crate::json::write_members(&of_message, &mut writer);
                    if let Some((running, piece)) = block {
                        write_block(running, piece, &mut writer);
                    }
                    content(&mut writer);
                    writer.end_object();
                }
                _ => {}
            }
            crate::json::write_members(&of_choice, &mut writer);
            choice.pending.clear();
        }
        writer.raw_member("finish_reason", "null");
        writer.end_object();
        writer.end_list();
        self.end_frame(frame, out);
        if let Some((block, piece)) = piece.filter(|_| is_plain) {
            self.stamps.keep(block, self.frame.as_bytes(), &piece);
        }
    }

    /// Begins a frame with the repeated fields and the fields that wait for the next chunk.
    fn begin_frame(&mut self) -> String {
        let mut frame = take(&mut self.frame);
        frame.clear();
        frame.push_str("data: ");
        // The start of the response may be missing.
        frame.push_str(if self.envelope.is_empty() { "{" } else { &self.envelope });
        self.has_news = false;
        let mut writer = JsonWriter(&mut frame);
        if !self.usage.is_empty() {
            // Usage may be beside other members of the same object.
            for (path, value) in self.usage.iter() {
                self.answer.set(path, value);
            }
            self.usage.clear();
        }
        self.answer.write(&mut writer);
        self.answer.clear();
        frame
    }

    fn end_frame(&mut self, mut frame: String, out: &mut Vec<u8>) {
        frame.push_str("}\n\n");
        out.extend_from_slice(frame.as_bytes());
        self.frame = frame;
    }

    fn finish(&mut self, number: u32, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let wire_type = match raw {
            _ if self.manner.is_normalized() => word_for(reason, &self.manner.options),
            Some(raw) => raw,
            None => return,
        };
        if self.manner.is_normalized() && self.has_failed {
            return;
        }
        let usage = take(&mut self.usage);
        let is_completion = self.is_completion();
        let mut frame = self.begin_frame();
        self.usage = usage;
        let mut writer = JsonWriter(&mut frame);
        writer.key("choices");
        writer.list();
        writer.object();
        writer.key("index");
        writer.number(number);
        if let Some(choice) = self.choices.iter_mut().find(|choice| choice.number == number) {
            choice.is_finished = true;
            let (of_message, of_choice): (Vec<_>, Vec<_>) =
                choice.pending.iter().partition(|(path, _)| path.starts_with("message."));
            let of_message: Vec<_> =
                of_message.iter().map(|(path, value)| (&path["message.".len()..], *value)).collect();
            if !is_completion {
                writer.key("delta");
                writer.object();
                crate::json::write_members(&of_message, &mut writer);
                writer.end_object();
            }
            crate::json::write_members(&of_choice, &mut writer);
            choice.pending.clear();
        }
        writer.text_member("finish_reason", wire_type);
        writer.end_object();
        writer.end_list();
        self.end_frame(frame, out);
    }

    fn error(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        self.flush_choices(out);
        self.has_failed = true;
        let mut frame = self.begin_frame();
        write_error(error, self.manner.is_normalized(), &mut JsonWriter(&mut frame));
        self.end_frame(frame, out);
    }

    /// Writes the waiting fields of choices.
    fn flush_choices(&mut self, out: &mut Vec<u8>) {
        let waiting: Vec<u32> = self
            .choices
            .iter()
            .filter(|choice| !choice.pending.is_empty())
            .map(|choice| choice.number)
            .collect();
        for number in waiting {
            self.write_delta(number, out, |_| {});
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.flush_choices(out);
        // Clients look for the counts in the last chunk, without any choice.
        let counts = self.counts.take().filter(|_| !self.manner.options.leaves_out_usage);
        if let Some(counts) = counts {
            self.usage.set(words::USAGE, &usage(&counts.counters()));
        }
        if !self.has_failed || !self.usage.is_empty() || !self.answer.is_empty() {
            self.flush_news(out);
        }
        if !std::mem::take(&mut self.manner.is_truncated) {
            put_event(None, "[DONE]", out);
        }
    }
}

/// The wire's finish reason for clients. They must not take a truncated response for complete.
fn word_for(reason: FinishReason, options: &EncodeOptions) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls if options.older_form => "function_call",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Length | FinishReason::Error | FinishReason::Other => "length",
    }
}

/// The list in which clients look for the log probabilities of such a channel.
fn logprobs_word(channel: &str) -> &'static str {
    if channel == words::REFUSAL { words::REFUSAL } else { words::CONTENT }
}

/// Whether all entries have the form that clients read; other protocols have other forms.
fn is_logprob(entries: &JsonText<'_>) -> bool {
    entries.clone().entries().iter().all(|entry| {
        let mut tape = Tape::new();
        let entry = tape.parse(entry.as_str()).ok();
        let has =
            |key, kind| entry.and_then(|entry| entry.get(key)).is_some_and(|value| value.kind() == kind);
        has("token", JsonKind::String)
            && has("logprob", JsonKind::Number)
            && has("top_logprobs", JsonKind::Array)
    })
}

/// Writes a list of one value under the first key of the wire type.
fn write_list(wire_type: &str, value: &str, writer: &mut JsonWriter<'_>) {
    writer.key(wire_type.split('[').next().unwrap_or(wire_type));
    writer.list();
    writer.raw(value);
    writer.end_list();
}

/// Writes content that only chat knows.
fn write_opaque(wire_type: &str, value: &str, writer: &mut JsonWriter<'_>) {
    match wire_type {
        "audio" => writer.raw_member(wire_type, value),
        words::CONTENT_THINKING_LIST => {
            writer.key("content");
            writer.list();
            writer.object();
            writer.text_member("type", "thinking");
            write_list("thinking", value, writer);
            writer.end_object();
            writer.end_list();
        }
        _ => write_list(wire_type, value, writer),
    }
}

/// Writes a piece of a block, as a member of a delta.
fn write_block(running: &mut RunningBlock, piece: &mut WrittenDelta<'_>, writer: &mut JsonWriter<'_>) {
    let RunningBlock { wire_type, index, extra: members, call, .. } = running;
    match call {
        Some(call) => write_call(wire_type, *index, members, call, piece, writer),
        None => write_text(wire_type, *index, members, piece, writer),
    }
    members.clear();
}

fn write_call(
    wire_type: &str,
    index: Option<i64>,
    extra: &MemberPaths,
    call: &mut OpenChatCall,
    piece: &mut WrittenDelta<'_>,
    writer: &mut JsonWriter<'_>,
) {
    call.has_arguments |= !piece.text.is_empty();
    match wire_type {
        words::FUNCTION_CALL => {
            writer.key("function_call");
            writer.object();
            if !call.is_named {
                writer.text_member("name", &call.name);
            }
            piece.write("arguments", writer);
            extra.write(writer);
            writer.end_object();
        }
        words::EXECUTED_TOOLS => {
            writer.key("executed_tools");
            writer.list();
            writer.object();
            if let Some(index) = index {
                writer.key("index");
                writer.number(index);
            }
            writer.text_member("type", &call.name);
            writer.text_member("arguments", &call.whole);
            extra.write(writer);
            writer.end_object();
            writer.end_list();
        }
        _ => {
            writer.key("tool_calls");
            writer.list();
            writer.object();
            if let Some(index) = index {
                writer.key("index");
                writer.number(index);
            }
            let (kind, member) = call_words(call.kind);
            if !call.is_named {
                if !call.id.is_empty() {
                    writer.text_member("id", &call.id);
                }
                writer.text_member("type", kind);
            }
            write_function(kind, member, (!call.is_named).then_some(&call.name), piece, extra.iter(), writer);
            writer.end_object();
            writer.end_list();
        }
    }
    call.is_named = true;
}

/// The type of a call, and the member that holds its arguments.
fn call_words(kind: CallKind) -> (&'static str, &'static str) {
    match kind {
        CallKind::Function | CallKind::Builtin => ("function", "arguments"),
        CallKind::Custom => ("custom", "input"),
    }
}

/// Writes the object under a call's type, and the members beside it.
fn write_function<'p>(
    kind: &str,
    member: &str,
    name: Option<&String>,
    piece: &mut WrittenDelta<'_>,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    let (inside, beside): (Vec<_>, Vec<_>) = extra.partition(|(path, _)| path.starts_with("function."));
    let inside: Vec<_> = inside.iter().map(|(path, value)| (&path["function.".len()..], *value)).collect();
    writer.key(kind);
    writer.object();
    if let Some(name) = name {
        writer.text_member("name", name);
    }
    piece.write(member, writer);
    crate::json::write_members(&inside, writer);
    writer.end_object();
    crate::json::write_members(&beside, writer);
}

fn write_text(
    wire_type: &str,
    index: Option<i64>,
    extra: &MemberPaths,
    piece: &mut WrittenDelta<'_>,
    writer: &mut JsonWriter<'_>,
) {
    let part = |kind: &str, writer: &mut JsonWriter<'_>, write: &mut dyn FnMut(&mut JsonWriter<'_>)| {
        writer.key("content");
        writer.list();
        writer.object();
        writer.text_member("type", kind);
        write(writer);
        extra.write(writer);
        writer.end_object();
        writer.end_list();
    };
    match wire_type {
        words::CONTENT_TEXT => part("text", writer, &mut |writer| piece.write("text", writer)),
        words::CONTENT_REFUSAL => part("refusal", writer, &mut |writer| piece.write("refusal", writer)),
        words::CONTENT_THINKING => part("thinking", writer, &mut |writer| piece.write("thinking", writer)),
        words::CONTENT_THINKING_LIST => part("thinking", writer, &mut |writer| {
            writer.key("thinking");
            writer.list();
            write_typed_text(piece, writer);
            writer.end_list();
        }),
        _ => match REASONING.iter().find(|row| row.wire_type == wire_type) {
            Some(row) => write_reasoning(row, index, extra, piece, writer),
            None if wire_type.starts_with("reasoning.") => {
                write_detail(wire_type, index, extra, piece, writer);
            }
            None => piece.write(wire_type, writer),
        },
    }
}

fn write_typed_text(piece: &mut WrittenDelta<'_>, writer: &mut JsonWriter<'_>) {
    writer.object();
    writer.text_member("type", "text");
    piece.write("text", writer);
    writer.end_object();
}

fn write_reasoning(
    row: &ReasoningMember,
    index: Option<i64>,
    extra: &MemberPaths,
    piece: &mut WrittenDelta<'_>,
    writer: &mut JsonWriter<'_>,
) {
    if !piece.text.is_empty() {
        if row.has_reasoning_content {
            piece.write("reasoning_content", writer);
        }
        if row.has_reasoning {
            piece.write("reasoning", writer);
        }
    }
    if !row.detail.is_empty() {
        write_detail(row.detail, index, extra, piece, writer);
    }
}

/// Writes an entry of `reasoning_details`.
fn write_detail(
    kind: &str,
    index: Option<i64>,
    extra: &MemberPaths,
    piece: &mut WrittenDelta<'_>,
    writer: &mut JsonWriter<'_>,
) {
    writer.key("reasoning_details");
    writer.list();
    write_detail_entry(kind, index, extra.iter(), piece, writer);
    writer.end_list();
}

fn write_detail_entry<'p>(
    kind: &str,
    index: Option<i64>,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    piece: &mut WrittenDelta<'_>,
    writer: &mut JsonWriter<'_>,
) {
    writer.object();
    writer.text_member("type", kind);
    if let Some(index) = index {
        writer.key("index");
        writer.number(index);
    }
    if !piece.text.is_empty() {
        piece.write(if kind == words::DETAIL_SUMMARY { "summary" } else { "text" }, writer);
    }
    crate::json::write_members(&extra.collect::<Vec<_>>(), writer);
    writer.end_object();
}

/// Returns token counts in chat's form.
fn usage(counters: &TokenCounts) -> String {
    let mut text = String::new();
    let mut writer = JsonWriter(&mut text);
    let input = counters.input_tokens.unwrap_or(0);
    let output = counters.output_tokens.unwrap_or(0);
    writer.object();
    for (key, count) in [
        ("prompt_tokens", input),
        ("completion_tokens", output),
        ("total_tokens", counters.total_tokens.unwrap_or(input.saturating_add(output))),
    ] {
        writer.key(key);
        writer.number(count);
    }
    for (group, key, count) in [
        ("prompt_tokens_details", "cached_tokens", counters.cached_tokens),
        ("completion_tokens_details", "reasoning_tokens", counters.reasoning_tokens),
    ] {
        if let Some(count) = count {
            writer.key(group);
            writer.object();
            writer.key(key);
            writer.number(count);
            writer.end_object();
        }
    }
    writer.end_object();
    text
}

/// The member with the time of the response.
const CREATED: &str = "created";

/// Whether a member of a response is its time, in seconds.
fn is_time(path: &str, value: &str) -> bool {
    path == CREATED && value.parse::<u64>().is_ok()
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let options = &context.options;
    let is_normalized = options.is_normalized();
    writer.object();
    let made = |made| is_normalized.then_some(made);
    if let Some(id) = message.id.as_deref().or(options.id.as_deref()).or(made(MADE_ID)) {
        writer.text_member("id", id);
    }
    let is_response = !(message.choices.is_empty() || message.errors.len() == 1 && is_bare(message));
    if is_response && (is_normalized || message.extra.get("object").is_none()) {
        writer.text_member(
            "object",
            if is_normalized || message.wire_type.is_empty() { CHAT } else { &message.wire_type },
        );
    }
    if let Some(model) = message.model.as_deref().or(options.model.as_deref()).or(made("")) {
        writer.text_member("model", model);
    }
    if is_normalized {
        let own = message.extra.get(CREATED).filter(|value| is_time(CREATED, value.as_str()));
        writer.key(CREATED);
        match own {
            Some(own) => writer.raw(own.as_str()),
            None => writer.number(options.created.unwrap_or(0)),
        }
    }
    let mut answer = MemberPaths::default();
    if !is_normalized {
        message.extra.iter().for_each(|(path, value)| answer.set(path, value.as_str()));
        for note in &message.attachments {
            answer.extend(&note.wire_type, note.value.as_str());
        }
    }
    if let Some(usage) = &message.usage {
        if is_normalized {
            answer.set(words::USAGE, &self::usage(&usage.counters()));
        } else {
            answer.set(words::USAGE, usage.raw.as_str());
        }
    }
    answer.write(writer);
    if is_response {
        writer.key("choices");
        writer.list();
        for choice in &message.choices {
            complete_choice(choice, message, options, writer);
        }
        writer.end_list();
    }
    if let Some(error) = message.errors.first() {
        write_error(error, is_normalized, writer);
    }
    writer.end_object();
}

/// Writes an error as it came, or else in the form clients know.
fn write_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    let is_own = |raw: TapeNode<'_>| {
        let has = |key| raw.get(key).is_some();
        raw.get("message").is_some_and(|it| it.str().is_some())
            && has("type")
            && (has("code") || has("param"))
    };
    if !is_normalized || Tape::new().parse(error.raw.as_str()).is_ok_and(is_own) {
        return writer.raw_member("error", error.raw.as_str());
    }
    writer.key("error");
    write_typed(error, ERRORS, None, writer);
}

/// Whether the response holds nothing but its error.
fn is_bare(message: &Message) -> bool {
    message.choices.iter().all(|choice| choice.blocks.is_empty() && choice.extra.is_empty())
}

fn complete_choice(choice: &Choice, message: &Message, options: &EncodeOptions, writer: &mut JsonWriter<'_>) {
    let is_normalized = options.is_normalized();
    writer.object();
    writer.key("index");
    writer.number(choice.number);
    let mut paths = MemberPaths::default();
    let mut inside = MemberPaths::default();
    if !is_normalized {
        for (path, value) in choice.extra.iter() {
            match path.strip_prefix("message.") {
                Some(path) => inside.set(path, value.as_str()),
                None => paths.set(path, value.as_str()),
            }
        }
    }
    for entry in choice.attachments(AttachmentKind::Logprobs) {
        match entry.wire_type.as_str() {
            _ if is_normalized && !is_logprob(&entry.value) => {}
            wire_type if is_normalized => {
                paths.extend(&format!("logprobs.{}", logprobs_word(wire_type)), entry.value.as_str());
            }
            "" => paths.set("logprobs", entry.value.as_str()),
            wire_type => paths.extend(&format!("logprobs.{wire_type}"), entry.value.as_str()),
        }
    }
    if !is_normalized {
        for note in &choice.attachments {
            if note.kind == AttachmentKind::Annotation && note.wire_type != words::CONTENT_REFERENCE {
                inside.extend(&note.wire_type, note.value.as_str());
            }
        }
    }
    if message.wire_type == TEXT_COMPLETION && !is_normalized {
        writer.text_member("text", &choice.text());
    } else {
        writer.key("message");
        writer.object();
        writer.text_member("role", "assistant");
        complete_message(choice, options, &mut inside, writer);
        inside.write(writer);
        writer.end_object();
    }
    paths.write(writer);
    if let Some(finish) = &choice.finish {
        match (&finish.raw, is_normalized) {
            (_, true) => writer.text_member("finish_reason", word_for(finish.reason, options)),
            (Some(raw), false) => writer.text_member("finish_reason", raw),
            (None, false) => writer.raw_member("finish_reason", "null"),
        }
    }
    writer.end_object();
}

/// Writes the members of a message, each from the blocks with its wire type.
fn complete_message(
    choice: &Choice,
    options: &EncodeOptions,
    inside: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    let is_normalized = options.is_normalized();
    let is_list = |block: &&Block| block.wire_type.starts_with(words::CONTENT_PART);
    let references = choice.attachments.iter().any(|note| note.wire_type == words::CONTENT_REFERENCE);
    if !is_normalized && (choice.blocks.iter().any(|block| is_list(&block)) || references) {
        complete_parts(choice, writer);
    } else {
        match choice.text() {
            text if text.is_empty() => writer.raw_member("content", "null"),
            text => writer.text_member("content", &text),
        }
    }
    let refusals = choice.blocks.iter().filter(|block| is_normalized || block.wire_type == words::REFUSAL);
    let refusal: String = refusals
        .filter_map(|block| match &block.content {
            BlockContent::Refusal(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !refusal.is_empty() {
        writer.text_member("refusal", &refusal);
    }
    complete_reasoning(choice, is_normalized, inside, writer);
    match is_normalized && options.older_form {
        true => older_call(choice, writer),
        false => complete_calls(choice, is_normalized, writer),
    }
    if !is_normalized {
        for block in &choice.blocks {
            match &block.content {
                BlockContent::Opaque(value) if block.wire_type == "audio" => {
                    inside.set("audio", value.as_str())
                }
                BlockContent::Opaque(value) if !is_list(&block) => {
                    inside.extend(&block.wire_type, value.as_str())
                }
                BlockContent::ToolResult(result) => inside.extend(&block.wire_type, result.value.as_str()),
                _ => {}
            }
        }
    }
}

/// Writes content as a list of parts.
fn complete_parts(choice: &Choice, writer: &mut JsonWriter<'_>) {
    writer.key("content");
    writer.list();
    for block in &choice.blocks {
        let members: Vec<_> = members(&block.extra).collect();
        let (kind, text) = match &block.content {
            BlockContent::Text(text) => ("text", text),
            BlockContent::Refusal(text) if block.wire_type == words::CONTENT_REFUSAL => ("refusal", text),
            BlockContent::Reasoning { text, .. } if block.wire_type.starts_with(words::CONTENT_PART) => {
                ("thinking", text)
            }
            BlockContent::Opaque(value) if block.wire_type == words::CONTENT_PART => {
                writer.raw(value.as_str());
                continue;
            }
            _ => continue,
        };
        writer.object();
        writer.text_member("type", kind);
        if block.wire_type == words::CONTENT_THINKING_LIST {
            writer.key("thinking");
            writer.list();
            write_typed_text(&mut WrittenDelta::new(text), writer);
            writer.end_list();
        } else {
            writer.text_member(kind, text);
        }
        crate::json::write_members(&members, writer);
        writer.end_object();
    }
    for note in choice.attachments.iter().filter(|note| note.wire_type == words::CONTENT_REFERENCE) {
        writer.raw(note.value.as_str());
    }
    writer.end_list();
}

fn members(extra: &ExtraFields) -> impl Iterator<Item = (&str, &str)> {
    extra.iter().map(|(path, value)| (path, value.as_str()))
}

/// The member in which clients of gateways keep seals, and send them back.
const DETAILS: &str = "reasoning_details";

/// The member in which clients find reasoning.
const REASONING_CONTENT: &str = "reasoning_content";

/// Writes a seal of another provider. The text that it seals is elsewhere, once.
fn write_seal(kind: AttachmentKind, value: &JsonText<'_>, writer: &mut JsonWriter<'_>) {
    let (wire_type, key) = match kind {
        AttachmentKind::Signature => ("reasoning.text", "signature"),
        _ => ("reasoning.encrypted", "data"),
    };
    writer.object();
    writer.text_member("type", wire_type);
    writer.raw_member(key, value.as_str());
    writer.text_member("format", "unknown");
    writer.end_object();
}

fn complete_reasoning(
    choice: &Choice,
    is_normalized: bool,
    inside: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    let (mut content, mut plain, mut details) = (String::new(), String::new(), String::new());
    let mut entries = JsonWriter(&mut details);
    entries.list();
    for block in &choice.blocks {
        let BlockContent::Reasoning { text, .. } = &block.content else { continue };
        if is_normalized {
            content.push_str(text);
            for own in block.attachments.iter().filter(|own| is_marked(&own.value)) {
                write_seal(own.kind, &own.value, &mut entries);
            }
            continue;
        }
        let row = REASONING.iter().find(|row| row.wire_type == block.wire_type);
        if row.is_some_and(|row| row.has_reasoning_content) {
            content.push_str(text);
        }
        if row.is_some_and(|row| row.has_reasoning) {
            plain.push_str(text);
        }
        let detail = row.map_or(block.wire_type.as_str(), |row| row.detail);
        if detail.starts_with("reasoning.") {
            let hung = block.attachments.iter().map(|hung| (hung.wire_type.as_str(), hung.value.as_str()));
            let members = members(&block.extra).chain(hung);
            write_detail_entry(detail, block.index, members, &mut WrittenDelta::new(text), &mut entries);
        } else {
            for hung in &block.attachments {
                inside.set(&hung.wire_type, hung.value.as_str());
            }
        }
    }
    for own in choice.items.iter().filter(|_| is_normalized).flat_map(|item| &item.attachments) {
        if own.kind == AttachmentKind::Encrypted && is_marked(&own.value) {
            write_seal(own.kind, &own.value, &mut entries);
        }
    }
    entries.end_list();
    if !content.is_empty() {
        writer.text_member("reasoning_content", &content);
    }
    if !plain.is_empty() {
        writer.text_member("reasoning", &plain);
    }
    if details.len() > 2 {
        writer.raw_member("reasoning_details", &details);
    }
}

/// Writes the first call of the client's tools, in the form that has only one.
fn older_call(choice: &Choice, writer: &mut JsonWriter<'_>) {
    let call = choice.blocks.iter().find_map(|block| match &block.content {
        BlockContent::ToolCall(call) if call.kind != CallKind::Builtin => Some(call),
        _ => None,
    });
    if let Some(call) = call {
        writer.key("function_call");
        writer.object();
        writer.text_member("name", &call.name);
        writer.text_member("arguments", &objects::text(call));
        writer.end_object();
    }
}

fn complete_calls(choice: &Choice, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    let calls = |wire_type: &'static str| {
        choice.blocks.iter().filter_map(move |block| match &block.content {
            BlockContent::ToolCall(call) if is_normalized && call.kind == CallKind::Builtin => None,
            BlockContent::ToolCall(call) if is_normalized || block.wire_type == wire_type => {
                Some((block, call))
            }
            _ => None,
        })
    };
    let mut ids = UniqueCallIds::default();
    if calls(words::TOOL_CALLS).next().is_some() {
        writer.key("tool_calls");
        writer.list();
        for (block, call) in calls(words::TOOL_CALLS) {
            let (kind, member) = call_words(call.kind);
            let arguments = match (is_normalized, call.kind) {
                (true, CallKind::Function | CallKind::Builtin) => objects::text(call),
                (true, CallKind::Custom) => call.arguments().into(),
                (false, _) => call.raw_arguments.as_str().into(),
            };
            writer.object();
            if is_normalized {
                writer.text_member("id", &ids.claim(&call.id));
            } else if !call.has_made_id {
                writer.text_member("id", &call.id);
            }
            writer.text_member("type", kind);
            let beside = members(&block.extra).filter(|_| !is_normalized);
            write_function(
                kind,
                member,
                Some(&call.name),
                &mut WrittenDelta::new(&arguments),
                beside,
                writer,
            );
            writer.end_object();
        }
        writer.end_list();
    }
    if is_normalized {
        return;
    }
    for (block, call) in calls(words::FUNCTION_CALL) {
        writer.key("function_call");
        writer.object();
        writer.text_member("name", &call.name);
        writer.text_member("arguments", &call.raw_arguments);
        crate::json::write_members(&members(&block.extra).collect::<Vec<_>>(), writer);
        writer.end_object();
    }
}
