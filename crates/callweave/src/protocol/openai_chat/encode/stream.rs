//! The chunks of a stream.
//!
//! Fields beside content are emitted before it, so they wait for the chunk of the content that follows, or for the end.
//! Fields that every chunk repeats (`id`, `created`, …) are rendered once and again when they change.

use std::borrow::Cow;
use std::mem::take;

use super::{
    CAPABILITIES, CHAT, CHAT_CHUNK, CREATED, DETAILS, MADE_ID, REASONING_CONTENT, TEXT_COMPLETION,
    add_logprobs, finish_reason, is_time, reasoning_member, usage, words, write_detail, write_error,
    write_function_call, write_index, write_part, write_seal, write_tool_call,
};
use crate::encode::objects::{self, INVALID_JSON};
use crate::encode::{
    AttachmentEvent, BlockStart, ClientReading, EncoderCore, UniqueCallIds, Wire, WireCapabilities,
    WrittenDelta, put_event,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, EventScope, FinishReason, JsonText,
};
use crate::json::{JsonWriter, MemberPaths, each_member, split_below, write_members};
use crate::request::is_marked;
use crate::upstream::UpstreamError;

/// Members of the response that every chunk repeats.
const STICKY: &[&str] = &["object", "created", "system_fingerprint", "service_tier", "provider"];

/// The encoder of chunks. The fields that wait are for the next chunk.
#[derive(Default)]
pub(super) struct ChatStream {
    core: EncoderCore<OpenChatBlock>,
    wire_type: String,
    sticky: MemberPaths,
    /// The beginning of every chunk, rendered from the fields above.
    envelope: String,
    /// Token counts that wait for the next chunk.
    usage: MemberPaths,
    /// Whether repeated fields changed and no chunk has been written since.
    has_news: bool,
    choices: Vec<OpenChatChoice>,
}

/// A choice that is being written.
#[derive(Default)]
struct OpenChatChoice {
    number: u32,
    has_role: bool,
    /// The fields that wait for the next chunk of this choice; fields of its message begin with `message.`.
    waiting: MemberPaths,
    calls: u32,
    ids: UniqueCallIds,
}

/// A block that is being written.
pub(super) struct OpenChatBlock {
    choice: u32,
    wire_type: String,
    index: Option<i64>,
    /// The fields that wait for the next chunk of this block.
    extra: MemberPaths,
    call: Option<OpenChatCall>,
}

/// A call that is being written.
struct OpenChatCall {
    id: Option<String>,
    name: String,
    kind: CallKind,
    /// Whether its id and name have been written.
    is_named: bool,
    has_arguments: bool,
    /// The arguments, where the wire wants them complete.
    complete: String,
}

impl OpenChatBlock {
    /// Whether its next chunk holds nothing but text.
    fn is_plain(&self) -> bool {
        let is_named = self.call.as_ref().is_none_or(|call| call.is_named);
        is_named && self.extra.is_empty() && self.wire_type != words::EXECUTED_TOOLS
    }
}

impl OpenChatCall {
    /// Returns the text that clients must get of a call that has ended without arguments.
    fn rest(&self, completion: BlockCompletion) -> Cow<'static, str> {
        match (completion, self.kind) {
            _ if self.has_arguments => "".into(),
            (_, CallKind::Custom) => "".into(),
            (BlockCompletion::Complete, CallKind::Function | CallKind::Builtin) => "{}".into(),
            // A call that was truncated before its arguments must not pass for one without arguments.
            (_, CallKind::Function | CallKind::Builtin) => objects::under(INVALID_JSON, ""),
        }
    }
}

impl Wire for ChatStream {
    const CAPABILITIES: WireCapabilities = CAPABILITIES;
    const READING: ClientReading = ClientReading::TextOfEach;
    type Block = OpenChatBlock;

    fn core(&mut self) -> &mut EncoderCore<OpenChatBlock> {
        &mut self.core
    }

    fn start(&mut self, wire_type: &str, extra: Option<&JsonText<'_>>, _: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        self.wire_type = if is_normalized { CHAT } else { wire_type }.to_owned();
        if is_normalized {
            if self.core.id.is_empty() {
                self.core.id = MADE_ID.to_owned();
            }
            let mut created = self.core.context.options.created.unwrap_or(0).to_string();
            each_member(extra, |path, value| {
                if is_time(path, value) {
                    value.clone_into(&mut created);
                }
            });
            self.sticky.set(CREATED, &created);
        } else {
            each_member(extra, |path, value| self.set(EventScope::Response, path, value));
        }
        self.render();
    }

    fn start_choice(&mut self, out: &mut Vec<u8>) {
        let number = self.core.choice;
        self.choices.push(OpenChatChoice { number, ..OpenChatChoice::default() });
        // A response that failed before it began has no choice.
        if !self.is_completion() && !self.core.has_failed {
            self.write_delta(number, out, |_| {});
        }
    }

    fn start_block(&mut self, start: &BlockStart<'_>, out: &mut Vec<u8>) {
        let (number, is_normalized) = (self.core.choice, self.core.is_normalized());
        if matches!(start.kind, BlockKind::ToolCall { .. }) {
            self.name_calls(number, None, out);
        }
        let is_older = is_normalized && self.core.context.options.older_form;
        let Some(choice) = self.choices.iter_mut().find(|choice| choice.number == number) else { return };
        let mut index = start.index;
        let call = match start.kind {
            // Clients of other protocols would not understand a call that the provider ran itself, nor its result.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if is_normalized => return,
            // The older form has one call.
            BlockKind::ToolCall { .. } if is_older && choice.calls > 0 => return,
            BlockKind::ToolCall { id, is_made, name, call } => {
                index = index.or(is_normalized.then_some(i64::from(choice.calls)));
                choice.calls += 1;
                let id = id.as_deref().unwrap_or_default();
                Some(OpenChatCall {
                    id: choice.ids.written(&self.core.context, id, *is_made),
                    name: name.to_string(),
                    kind: *call,
                    is_named: false,
                    has_arguments: false,
                    complete: String::new(),
                })
            }
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } if is_normalized => return,
            BlockKind::ToolResult { value, .. } | BlockKind::Opaque { value } => {
                return self.write_delta(number, out, |writer| {
                    write_opaque(start.wire_type, value.as_str(), writer)
                });
            }
            BlockKind::Text | BlockKind::Reasoning(_) | BlockKind::Refusal => None,
        };
        let wire_type = match start.kind {
            _ if !is_normalized => start.wire_type,
            BlockKind::Text => words::CONTENT,
            BlockKind::Refusal => words::REFUSAL,
            BlockKind::Reasoning(_) => REASONING_CONTENT,
            _ if is_older => words::FUNCTION_CALL,
            _ => words::TOOL_CALLS,
        };
        let (wire_type, extra) = (wire_type.to_owned(), MemberPaths::of(start.extra));
        let is_announced = is_normalized && call.is_some();
        self.core.blocks.insert(start.block, OpenChatBlock { choice: number, wire_type, index, extra, call });
        // Clients get the name of a call before its arguments come.
        if is_announced {
            self.write_piece(start.block, "", out);
        }
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(open) = self.core.blocks.get_mut(block) else { return };
        // These are written complete.
        if let OpenChatBlock { wire_type, call: Some(call), .. } = open
            && wire_type == words::EXECUTED_TOOLS
        {
            call.complete.push_str(text);
        }
        // The call before must have been named before this one continues.
        self.name_calls(self.core.choice, Some(block), out);
        self.write_piece(block, text, out);
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        let Some(open) = self.core.blocks.get_mut(block) else { return };
        let is_due = match &open.call {
            Some(call) => !call.is_named || is_normalized && !call.has_arguments,
            None => false,
        };
        if is_due || !open.extra.is_empty() {
            let rest = open.call.as_ref().filter(|_| is_normalized).map(|call| call.rest(completion));
            self.write_piece(block, rest.as_deref().unwrap_or_default(), out);
        }
        self.core.blocks.remove(block);
    }

    fn identify(&mut self, block: BlockId, id: &str, out: &mut Vec<u8>) {
        // Clients would append the second id to the first.
        if self.core.is_normalized() {
            return;
        }
        if let Some(call) = self.core.blocks.get_mut(block).and_then(|open| open.call.as_mut()) {
            call.id = Some(id.to_owned());
            call.is_named = false;
            self.write_piece(block, "", out);
        }
    }

    fn rename(&mut self, id: Option<&str>, model: Option<&str>, out: &mut Vec<u8>) {
        if !self.core.is_normalized() {
            self.flush_news(out);
            self.core.rename(id, model);
            self.render();
        }
    }

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>) {
        let AttachmentEvent { scope, kind, wire_type, value } = *attachment;
        let number = self.core.choice;
        if self.core.is_normalized() {
            return self.attach_for_client(attachment, out);
        }
        match (scope, kind) {
            (EventScope::Response, _) => self.core.waiting.extend(wire_type, value.as_str()),
            (EventScope::Block(block), _) => {
                let Some(open) = self.core.blocks.get_mut(block) else { return };
                if open.wire_type.starts_with("reasoning.") {
                    open.extra.set(wire_type, value.as_str());
                    self.write_piece(block, "", out);
                } else {
                    self.set(EventScope::Choice, &format!("message.{wire_type}"), value.as_str());
                    self.write_delta(number, out, |_| {});
                }
            }
            (_, AttachmentKind::Logprobs) => {
                if let Some(choice) = self.choice(number) {
                    add_logprobs(wire_type, value, false, &mut choice.waiting);
                }
            }
            _ if wire_type == words::CONTENT_REFERENCE => self.write_delta(number, out, |writer| {
                writer.list_member("content", |writer| writer.raw(value.as_str()));
            }),
            _ => {
                if let Some(choice) = self.choice(number) {
                    choice.waiting.extend(&format!("message.{wire_type}"), value.as_str());
                }
            }
        }
    }

    fn usage(&mut self, wire_type: &str, raw: &JsonText<'_>, out: &mut Vec<u8>) {
        if self.core.is_normalized() {
            return;
        }
        if self.usage.get(wire_type).is_some() {
            self.flush_news(out);
        }
        // The next chunk holds them.
        self.core.templates.forget();
        match wire_type {
            words::CHOICE_USAGE => self.set(EventScope::Choice, words::USAGE, raw.as_str()),
            _ => self.usage.set(wire_type, raw.as_str()),
        }
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        self.flush_before(scope, path, out);
        self.set(scope, path, value.as_str());
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let is_failure = self.core.is_normalized() && self.core.has_failed;
        if let (false, Some(wire_type)) = (is_failure, finish_reason(reason, raw, &self.core.context)) {
            self.write(self.core.choice, None, Some(wire_type), out, |_| {});
        }
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        self.flush_choices(out);
        self.take_usage();
        self.put(out, |own, writer| write_error(error, own.core.is_normalized(), writer));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.flush_choices(out);
        // Clients look for the counts in the last chunk, without any choice.
        let is_counted = self.core.is_normalized() && !self.core.context.options.leaves_out_usage;
        if let Some(counts) = self.core.counts.take().filter(|_| is_counted) {
            self.usage.set(words::USAGE, &usage(&counts.counters()));
        }
        if !self.core.has_failed || !self.usage.is_empty() || !self.core.waiting.is_empty() {
            self.flush_news(out);
        }
        if !self.core.context.is_truncated {
            put_event(None, "[DONE]", out);
        }
    }
}

impl ChatStream {
    fn is_completion(&self) -> bool {
        self.wire_type == TEXT_COMPLETION
    }

    fn choice(&mut self, number: u32) -> Option<&mut OpenChatChoice> {
        self.choices.iter_mut().find(|choice| choice.number == number)
    }

    /// Renders the beginning of every chunk.
    fn render(&mut self) {
        self.has_news = true;
        self.envelope.clear();
        let mut writer = JsonWriter(&mut self.envelope);
        writer.object();
        if !self.core.id.is_empty() {
            writer.text_member("id", &self.core.id);
        }
        if self.sticky.get("object").is_none() && !self.wire_type.is_empty() {
            writer.text_member("object", if self.wire_type == CHAT { CHAT_CHUNK } else { &self.wire_type });
        }
        if !self.core.model.is_empty() || self.core.is_normalized() {
            writer.text_member("model", &self.core.model);
        }
        self.sticky.write(&mut writer);
    }

    /// Writes a chunk without choices, if there are waiting fields.
    fn flush_news(&mut self, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.core.waiting.is_empty() || self.has_news {
            self.take_usage();
            self.put(out, |_, writer| writer.list_member("choices", |_| {}));
        }
    }

    /// Writes the waiting fields where a value is about to be replaced before it was written.
    fn flush_before(&mut self, scope: EventScope, path: &str, out: &mut Vec<u8>) {
        let number = self.core.choice;
        let has = |fields: &MemberPaths| fields.get(path).is_some();
        match scope {
            EventScope::Response if has(&self.core.waiting) || self.has_news && STICKY.contains(&path) => {
                self.flush_news(out);
            }
            EventScope::Choice | EventScope::Item(_)
                if self.choice(number).is_some_and(|choice| has(&choice.waiting)) =>
            {
                self.write_delta(number, out, |_| {});
            }
            EventScope::Block(block)
                if self.core.blocks.get_mut(block).is_some_and(|open| has(&open.extra)) =>
            {
                self.write_piece(block, "", out);
            }
            _ => {}
        }
    }

    /// Keeps a field for the next chunk.
    fn set(&mut self, scope: EventScope, path: &str, value: &str) {
        let fields = match scope {
            EventScope::Response if STICKY.contains(&path) => {
                self.sticky.set(path, value);
                return self.render();
            }
            EventScope::Response => Some(&mut self.core.waiting),
            EventScope::Choice | EventScope::Item(_) => {
                self.choice(self.core.choice).map(|choice| &mut choice.waiting)
            }
            EventScope::Block(block) => self.core.blocks.get_mut(block).map(|open| &mut open.extra),
        };
        if let Some(fields) = fields {
            fields.set(path, value);
        }
    }

    /// Writes an attachment that clients of any protocol can read.
    fn attach_for_client(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>) {
        let AttachmentEvent { scope, kind, wire_type, value } = *attachment;
        let number = self.core.choice;
        if let (AttachmentKind::Logprobs, Some(choice)) = (kind, self.choice(number)) {
            add_logprobs(wire_type, value, true, &mut choice.waiting);
        }
        let is_reasoning = match scope {
            EventScope::Block(block) => {
                self.core.blocks.get_mut(block).is_some_and(|own| own.wire_type == REASONING_CONTENT)
            }
            EventScope::Item(_) => kind == AttachmentKind::Encrypted,
            EventScope::Response | EventScope::Choice => false,
        };
        if is_reasoning && is_marked(value) {
            self.write_delta(number, out, |writer| {
                writer.list_member(DETAILS, |writer| write_seal(kind, value, writer));
            });
        }
    }

    /// Names the calls that have begun without output, except the one that is about to be written.
    fn name_calls(&mut self, number: u32, except: Option<BlockId>, out: &mut Vec<u8>) {
        let is_unnamed = |block, open: &OpenChatBlock| {
            let is_other = open.choice == number && Some(block) != except;
            is_other && open.call.as_ref().is_some_and(|call| !call.is_named)
        };
        while let Some(block) = self.core.blocks.find(is_unnamed) {
            self.write_piece(block, "", out);
        }
    }

    /// Writes the waiting fields of choices.
    fn flush_choices(&mut self, out: &mut Vec<u8>) {
        for at in 0..self.choices.len() {
            if !self.choices[at].waiting.is_empty() {
                self.write_delta(self.choices[at].number, out, |_| {});
            }
        }
    }

    /// Writes a chunk with a piece of a block, and its waiting fields.
    fn write_piece(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        self.write(self.core.choice, Some((block, text)), None, out, |_| {});
    }

    /// Writes a chunk with the delta that `content` writes.
    fn write_delta(&mut self, number: u32, out: &mut Vec<u8>, content: impl FnOnce(&mut JsonWriter<'_>)) {
        self.write(number, None, None, out, content);
    }

    /// Writes a chunk of one choice: its waiting fields, a piece of a block, and the additions of `content` to the
    /// delta; or its end.
    fn write(
        &mut self,
        number: u32,
        piece: Option<(BlockId, &str)>,
        finish: Option<&str>,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut JsonWriter<'_>),
    ) {
        if finish.is_none() {
            self.take_usage();
        }
        let is_completion = self.is_completion();
        let mut is_plain = self.core.waiting.is_empty();
        let mut piece = piece.map(|(block, text)| (block, WrittenDelta::new(text)));
        self.put(out, |Self { choices, core, .. }, writer| {
            let object = |writer: &mut JsonWriter<'_>| {
                writer.number_member("index", number);
                if let Some(choice) = choices.iter_mut().find(|choice| choice.number == number) {
                    is_plain &= choice.waiting.is_empty();
                    let (of_message, of_choice) = split_below(choice.waiting.iter(), "message.");
                    let open = piece.as_mut().and_then(|(block, piece)| {
                        let open = core.blocks.get_mut(*block)?;
                        is_plain &= open.is_plain();
                        Some((open, piece))
                    });
                    match open {
                        Some((open, piece)) if open.wire_type == words::TEXT => {
                            piece.write("text", writer);
                            open.extra.write(writer);
                        }
                        open if !is_completion || open.is_some() => writer.object_member("delta", |writer| {
                            is_plain &= choice.has_role;
                            if finish.is_none() && !choice.has_role {
                                writer.text_member("role", "assistant");
                                choice.has_role = true;
                            }
                            write_members(&of_message, writer);
                            if let Some((open, piece)) = open {
                                write_block(open, piece, writer);
                            }
                            content(writer);
                        }),
                        _ => {}
                    }
                    write_members(&of_choice, writer);
                    choice.waiting.clear();
                }
                match finish {
                    Some(wire_type) => writer.text_member("finish_reason", wire_type),
                    None => writer.raw_member("finish_reason", "null"),
                }
            };
            writer.list_member("choices", |writer| writer.in_object(object));
        });
        if let Some((block, piece)) = piece.filter(|_| is_plain) {
            self.core.templates.keep(block, self.core.frame.as_bytes(), &piece);
        }
    }

    /// Moves token counts into the next chunk. Usage may be beside other members of the same object.
    fn take_usage(&mut self) {
        self.core.waiting.set_all(self.usage.iter());
        self.usage.clear();
    }

    /// Writes a chunk: the repeated fields, the fields that wait, and the members that `members` writes.
    fn put(&mut self, out: &mut Vec<u8>, members: impl FnOnce(&mut Self, &mut JsonWriter<'_>)) {
        let mut frame = take(&mut self.core.frame);
        frame.clear();
        frame.push_str("data: ");
        // The start of the response may be missing.
        frame.push_str(if self.envelope.is_empty() { "{" } else { &self.envelope });
        self.has_news = false;
        let mut writer = JsonWriter(&mut frame);
        self.core.waiting.write_out(&mut writer);
        members(self, &mut writer);
        frame.push_str("}\n\n");
        out.extend_from_slice(frame.as_bytes());
        self.core.frame = frame;
    }
}

/// Writes content that only chat knows, as a list of one value under the first key of the wire type.
fn write_opaque(wire_type: &str, value: &str, writer: &mut JsonWriter<'_>) {
    match wire_type {
        "audio" => writer.raw_member(wire_type, value),
        words::CONTENT_THINKING_LIST => writer.list_member("content", |writer| {
            writer.in_object(|writer| {
                writer.text_member("type", "thinking");
                writer.list_member("thinking", |writer| writer.raw(value));
            });
        }),
        _ => {
            let key = wire_type.split('[').next().unwrap_or(wire_type);
            writer.list_member(key, |writer| writer.raw(value));
        }
    }
}

/// Writes a piece of a block, as a member of a delta.
fn write_block(open: &mut OpenChatBlock, piece: &mut WrittenDelta<'_>, writer: &mut JsonWriter<'_>) {
    match &mut open.call {
        Some(call) => {
            call.has_arguments |= !piece.text.is_empty();
            let name = Some(call.name.as_str()).filter(|_| !call.is_named);
            match open.wire_type.as_str() {
                words::FUNCTION_CALL => write_function_call(name, piece, open.extra.iter(), writer),
                words::EXECUTED_TOOLS => writer.list_member("executed_tools", |writer| {
                    writer.in_object(|writer| {
                        write_index(open.index, writer);
                        writer.text_member("type", &call.name);
                        writer.text_member("arguments", &call.complete);
                        open.extra.write(writer);
                    });
                }),
                _ => writer.list_member("tool_calls", |writer| {
                    let id = call.id.as_deref().filter(|_| !call.is_named);
                    write_tool_call(call.kind, open.index, [id, name], piece, open.extra.iter(), writer);
                }),
            }
            call.is_named = true;
        }
        None => write_text(open, piece, writer),
    }
    open.extra.clear();
}

fn write_text(open: &OpenChatBlock, piece: &mut WrittenDelta<'_>, writer: &mut JsonWriter<'_>) {
    let OpenChatBlock { wire_type, index, extra, .. } = open;
    let kind = match wire_type.as_str() {
        words::CONTENT_TEXT => "text",
        words::CONTENT_REFUSAL => "refusal",
        words::CONTENT_THINKING | words::CONTENT_THINKING_LIST => "thinking",
        _ => {
            let row = reasoning_member(wire_type);
            for (key, has_key) in [
                (REASONING_CONTENT, row.is_some_and(|row| row.has_reasoning_content)),
                ("reasoning", row.is_some_and(|row| row.has_reasoning)),
            ] {
                if has_key && !piece.text.is_empty() {
                    piece.write(key, writer);
                }
            }
            return match row.map_or(wire_type.as_str(), |row| row.detail) {
                "" => {}
                detail if detail.starts_with("reasoning.") => {
                    writer.list_member(DETAILS, |writer| {
                        write_detail(detail, *index, piece, extra.iter(), writer);
                    });
                }
                _ => piece.write(wire_type, writer),
            };
        }
    };
    writer.list_member("content", |writer| write_part(wire_type, kind, piece, extra.iter(), writer));
}
