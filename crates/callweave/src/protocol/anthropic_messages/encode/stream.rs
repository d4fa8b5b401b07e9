//! The events of a stream.
//!
//! Clients get one block at a time ([`WireEncoder`](crate::encode::WireEncoder)), numbered from 0; the same protocol gets its own numbers
//! back. Fields of the response beside its content wait for the `message_delta` that ends it, or come in a separate one
//! if more content follows.

use super::super::{
    CITATIONS_DELTA, COMPACTION, COMPACTION_DELTA, DATA, FALLBACK, INPUT_DELTA, MESSAGE, PING,
    REDACTED_THINKING, SIGNATURE, SIGNATURE_DELTA, TEXT, TEXT_DELTA, THINKING, THINKING_DELTA, USAGE,
};
use super::{
    CAPABILITIES, NO_USAGE, call_type, calls_itself, is_expressed, stop_reason, write_block, write_call,
    write_error, write_usage, writes_attachment, writes_field,
};
use crate::encode::{
    ArgumentPieces, AttachmentEvent, BlockStart, ClientReading, EncoderCore, Wire, WireCapabilities,
    WrittenDelta, put_event, put_named_event as put,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, Event, EventKind, EventScope, FinishReason,
    JsonText, ReasoningForm,
};
use crate::json::{JsonWriter, MemberPaths, each_member};
use crate::upstream::UpstreamError;

/// Members of the response that are beside the `delta` of a `message_delta`, not in it.
const BESIDE: &[&str] = &["context_management"];

/// The state of the response. The fields that wait are for a `message_delta`.
#[derive(Default)]
pub(super) struct AnthropicStream {
    core: EncoderCore<OpenAnthropicBlock>,
    /// A `message_start` that waits for its usage.
    start: Option<MessageStart>,
    /// Token counts that wait for a `message_delta`, and the last emitted ones; empty if there are none.
    usage: String,
    emitted_usage: String,
    next_index: i64,
}

struct MessageStart {
    extra: MemberPaths,
    /// Whether the response was started before, and continues with another id or model.
    is_again: bool,
    is_named: bool,
}

/// An open block.
pub(super) struct OpenAnthropicBlock {
    index: i64,
    form: AnthropicBlockForm,
    /// The fields of its start, and then the fields that wait for its next delta.
    extra: MemberPaths,
    is_emitted: bool,
}

enum AnthropicBlockForm {
    Text,
    Thinking {
        is_signed: bool,
    },
    Redacted,
    Call {
        wire_type: String,
        id: Option<String>,
        name: String,
        arguments: ArgumentPieces,
    },
    /// Complete, in the wire's own form.
    Fixed(String),
}

impl AnthropicBlockForm {
    /// The delta in which such a block grows, and the member that holds the text.
    fn delta(&self) -> (&'static str, &'static str) {
        match self {
            Self::Text | Self::Fixed(_) => TEXT_DELTA,
            Self::Thinking { .. } | Self::Redacted => THINKING_DELTA,
            Self::Call { .. } => INPUT_DELTA,
        }
    }
}

impl Wire for AnthropicStream {
    const CAPABILITIES: WireCapabilities = CAPABILITIES;
    const READING: ClientReading = ClientReading::Block;
    const ENDS_AT_ERROR: bool = true;
    type Block = OpenAnthropicBlock;

    fn core(&mut self) -> &mut EncoderCore<OpenAnthropicBlock> {
        &mut self.core
    }

    /// Writes a `message_start` that has waited for this event.
    fn settle(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        let Some(start) = &self.start else { return false };
        match &event.body {
            EventKind::Usage { .. } | EventKind::Notice(_) => {}
            EventKind::Extra { scope: EventScope::Response, .. }
            | EventKind::Identity { scope: EventScope::Response, .. } => {}
            // The block itself names the model that continues.
            EventKind::BlockStart { kind: BlockKind::Opaque { .. }, wire_type, .. }
                if start.is_again && wire_type == FALLBACK =>
            {
                self.start = None;
            }
            _ => self.write_start(None, out),
        }
        false
    }

    fn start(&mut self, wire_type: &str, extra: Option<&JsonText<'_>>, _: &mut Vec<u8>) {
        let is_named = !wire_type.is_empty() || self.core.is_normalized();
        self.start =
            Some(MessageStart { extra: self.members(self.core.own(extra)), is_again: false, is_named });
    }

    fn rename(&mut self, id: Option<&str>, model: Option<&str>, _: &mut Vec<u8>) {
        if self.core.is_normalized() {
            return;
        }
        self.core.rename(id, model);
        if self.start.is_none() {
            let extra = std::mem::take(&mut self.core.waiting);
            self.start = Some(MessageStart { extra, is_again: true, is_named: true });
        }
    }

    fn usage(&mut self, wire_type: &str, raw: &JsonText<'_>, out: &mut Vec<u8>) {
        let keeps = self.core.keeps() && wire_type == USAGE;
        if self.start.is_none() && !self.usage.is_empty() && keeps {
            self.flush_waiting(out);
        }
        let is_start = self.start.is_some();
        let mut usage = std::mem::take(if is_start { &mut self.emitted_usage } else { &mut self.usage });
        usage.clear();
        match &self.core.counts {
            Some(counts) if self.core.is_normalized() => {
                write_usage(&counts.counters, Some(raw).filter(|_| keeps), &mut JsonWriter(&mut usage));
            }
            _ => JsonWriter(&mut usage).raw(raw.as_str()),
        }
        if is_start {
            self.write_start(Some(&usage), out);
            self.emitted_usage = usage;
        } else {
            self.usage = usage;
        }
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        if !writes_field(path, is_normalized) {
            return;
        }
        match scope {
            EventScope::Response if calls_itself(path, value) => {
                self.flush_waiting(out);
                self.core.frame.clear();
                JsonWriter(&mut self.core.frame).raw(value.as_str());
                put_event(Some(path), &self.core.frame, out);
            }
            EventScope::Response => {
                if self.core.waiting.get(path).is_some() {
                    self.flush_waiting(out);
                }
                self.core.waiting.set(path, value.as_str());
            }
            EventScope::Block(block) => {
                self.emit_block(block, None, out);
                let Some(open) = self.core.blocks.get_mut(block) else { return };
                if calls_itself(path, value) {
                    // Clients would not know such a delta.
                    let index = Some(open.index).filter(|_| !is_normalized);
                    return index.into_iter().for_each(|index| self.put_complete_delta(index, value, out));
                }
                if open.extra.get(path).is_some() {
                    self.write_members(block, out);
                }
                if let Some(open) = self.core.blocks.get_mut(block) {
                    open.extra.set(path, value.as_str());
                }
            }
            // It belongs to an ended block, or to none: clients would look for an open one.
            EventScope::Choice | EventScope::Item(_) if is_normalized => {}
            EventScope::Choice | EventScope::Item(_) => {
                let index = self.next_index - 1;
                if calls_itself(path, value) {
                    return self.put_complete_delta(index, value, out);
                }
                put_delta(&mut self.core.frame, index, "", out, |writer| {
                    crate::json::write_members(&[(path, value.as_str())], writer);
                });
            }
        }
    }

    fn start_block(&mut self, start: &BlockStart<'_>, out: &mut Vec<u8>) {
        let (is_normalized, keeps) = (self.core.is_normalized(), self.core.keeps());
        if !is_expressed(start.kind, start.wire_type, &self.core.context) {
            return;
        }
        let form = match start.kind {
            BlockKind::Text | BlockKind::Refusal => AnthropicBlockForm::Text,
            BlockKind::Reasoning(ReasoningForm::Redacted) => AnthropicBlockForm::Redacted,
            BlockKind::Reasoning(ReasoningForm::Raw | ReasoningForm::Summary) => {
                AnthropicBlockForm::Thinking { is_signed: false }
            }
            BlockKind::ToolCall { id, is_made, name, call } => AnthropicBlockForm::Call {
                wire_type: call_type(start.wire_type, keeps).to_owned(),
                id: self.core.call_id(id.as_deref(), *is_made),
                name: name.to_string(),
                arguments: ArgumentPieces::new(*call, self.core.context.mode()),
            },
            BlockKind::ToolResult { value, .. } | BlockKind::Opaque { value } => {
                AnthropicBlockForm::Fixed(value.as_str().to_owned())
            }
        };
        if keeps {
            self.flush_waiting(out);
        }
        let index = start.index.unwrap_or(self.next_index);
        // An empty text or empty reasoning need not be written.
        let waits = match form {
            AnthropicBlockForm::Text | AnthropicBlockForm::Thinking { .. } => is_normalized,
            AnthropicBlockForm::Redacted => true,
            AnthropicBlockForm::Call { .. } | AnthropicBlockForm::Fixed(_) => false,
        };
        let extra = self.members(start.extra);
        self.core.blocks.insert(start.block, OpenAnthropicBlock { index, form, extra, is_emitted: false });
        if !waits {
            self.emit_block(start.block, None, out);
        }
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        self.emit_block(block, None, out);
        let EncoderCore { blocks, templates, frame, scratch, .. } = &mut self.core;
        let Some(open) = blocks.get_mut(block) else { return };
        let (text, is_plain) = match &mut open.form {
            AnthropicBlockForm::Call { arguments, .. } => {
                (arguments.next(text, scratch), arguments.is_plain())
            }
            _ => (Some(text), true),
        };
        let Some(text) = text else { return };
        let (index, (kind, key)) = (open.index, open.form.delta());
        let mut piece = WrittenDelta::new(text);
        put_delta(frame, index, kind, out, |writer| {
            if open.extra.get(key).is_none() {
                piece.write(key, writer);
            }
            open.extra.write(writer);
        });
        if is_plain && open.extra.is_empty() {
            templates.keep(block, frame.as_bytes(), &piece);
        }
        open.extra.clear();
    }

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>) {
        let AttachmentEvent { scope, kind, wire_type, value } = *attachment;
        let keeps = self.core.keeps();
        let mut index = self.next_index - 1;
        if let EventScope::Block(block) = scope {
            let Some(open) = self.core.blocks.get_mut(block) else { return };
            let is_apt = match &open.form {
                AnthropicBlockForm::Thinking { .. } => writes_attachment(ReasoningForm::Raw, kind, value),
                // Encrypted data is part of the block's start.
                AnthropicBlockForm::Redacted => {
                    let is_late = kind == AttachmentKind::Encrypted && open.is_emitted;
                    writes_attachment(ReasoningForm::Redacted, kind, value) && !is_late
                }
                AnthropicBlockForm::Text | AnthropicBlockForm::Call { .. } | AnthropicBlockForm::Fixed(_) => {
                    false
                }
            };
            if !keeps && !is_apt {
                return;
            }
            if let (AttachmentKind::Encrypted, true) = (kind, is_apt) {
                return self.emit_block(block, Some(value.as_str()), out);
            }
            self.emit_block(block, None, out);
            if let Some(open) = self.core.blocks.get_mut(block) {
                index = open.index;
                if let (AnthropicBlockForm::Thinking { is_signed }, AttachmentKind::Signature) =
                    (&mut open.form, kind)
                {
                    *is_signed = true;
                }
            }
        } else if !keeps {
            return;
        }
        let (name, key) = match kind {
            AttachmentKind::Signature => (SIGNATURE_DELTA, SIGNATURE),
            AttachmentKind::Annotation => (CITATIONS_DELTA, "citation"),
            AttachmentKind::Encrypted | AttachmentKind::Logprobs => ("", wire_type),
        };
        put_delta(&mut self.core.frame, index, name, out, |writer| writer.raw_member(key, value.as_str()));
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        if !is_normalized {
            self.emit_block(block, None, out);
        }
        self.write_members(block, out);
        let Some(OpenAnthropicBlock { index, form, is_emitted, .. }) = self.core.blocks.remove(block) else {
            return;
        };
        let is_truncated = completion != BlockCompletion::Complete && !is_normalized;
        let rest = match &form {
            AnthropicBlockForm::Call { arguments, .. } if !is_truncated => arguments.rest(),
            _ => None,
        };
        if let Some(rest) = rest {
            let (kind, key) = form.delta();
            put_delta(&mut self.core.frame, index, kind, out, |writer| writer.text_member(key, rest));
        }
        if !is_emitted {
            return;
        }
        if let AnthropicBlockForm::Thinking { is_signed: false } = form
            && !self.core.keeps()
        {
            // Clients send reasoning back only if it has a signature, even an empty one.
            put_delta(&mut self.core.frame, index, SIGNATURE_DELTA, out, |writer| {
                writer.text_member(SIGNATURE, "")
            });
        }
        match is_truncated {
            true => self.core.unended.push(index),
            false => self.stop(index, out),
        }
    }

    fn stop(&mut self, index: i64, out: &mut Vec<u8>) {
        self.put("content_block_stop", out, |writer| writer.number_member("index", index));
    }

    fn progress(&mut self, wire_type: &str, out: &mut Vec<u8>) {
        if wire_type == PING {
            self.put(PING, out, |_| {});
        }
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        if self.core.is_normalized() {
            self.write_end(Some(stop_reason(reason, raw)), out);
        } else if raw.is_some() {
            self.write_end(raw, out);
        }
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        if !self.usage.is_empty() && !is_normalized {
            self.flush_waiting(out);
        }
        let EncoderCore { frame, waiting, .. } = &mut self.core;
        put(frame, "error", out, |writer| {
            write_error(error, is_normalized, writer);
            waiting.write_out(writer);
        });
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.flush_waiting(out);
        if !self.core.context.is_truncated && !self.core.has_failed {
            self.put("message_stop", out, |_| {});
        }
    }
}

impl AnthropicStream {
    /// The members of a start that are written.
    fn members(&self, extra: Option<&JsonText<'_>>) -> MemberPaths {
        let mut paths = MemberPaths::default();
        each_member(extra, |path, value| {
            if writes_field(path, self.core.is_normalized()) {
                paths.set(path, value);
            }
        });
        paths
    }

    fn write_start(&mut self, usage: Option<&str>, out: &mut Vec<u8>) {
        let Some(MessageStart { extra, is_named, .. }) = self.start.take() else { return };
        let is_normalized = self.core.is_normalized();
        if !is_named && usage.is_none() {
            // The input has no start of a message: an error, or the middle of a stream.
            let later = std::mem::replace(&mut self.core.waiting, extra);
            return self.core.waiting.set_all(later.iter());
        }
        let usage = usage.or(is_normalized.then_some(NO_USAGE));
        let EncoderCore { frame, id, model, .. } = &mut self.core;
        put(frame, "message_start", out, |writer| {
            writer.object_member("message", |writer| {
                let is_written = |name: &&str| is_normalized || !name.is_empty();
                writer.optional_text_member("id", Some(id.as_str()).filter(is_written));
                writer.text_member("type", MESSAGE);
                writer.optional_text_member("model", Some(model.as_str()).filter(is_written));
                let usual = [("role", "\"assistant\""), ("content", "[]"), ("stop_reason", "null")];
                for (key, value) in usual.into_iter().chain([("stop_sequence", "null")]) {
                    if extra.get(key).is_none() {
                        writer.raw_member(key, value);
                    }
                }
                if let Some(usage) = usage {
                    writer.raw_member(USAGE, usage);
                }
                extra.write(writer);
            });
        });
    }

    /// Writes the start of a block, if it has not been written; `data` is the encrypted reasoning.
    fn emit_block(&mut self, block: BlockId, data: Option<&str>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        let EncoderCore { blocks, frame, .. } = &mut self.core;
        let Some(OpenAnthropicBlock { index, form, extra, is_emitted }) = blocks.get_mut(block) else {
            return;
        };
        if std::mem::replace(is_emitted, true) {
            return;
        }
        if let (AnthropicBlockForm::Redacted, None, true) = (&form, data, is_normalized) {
            // Visible text makes it plain reasoning.
            *form = AnthropicBlockForm::Thinking { is_signed: false };
        }
        let (index, form, extra) = (*index, &*form, std::mem::take(extra));
        self.next_index = index.saturating_add(1);
        let mut grown = None;
        put(frame, "content_block_start", out, |writer| {
            writer.number_member("index", index);
            writer.key("content_block");
            match form {
                AnthropicBlockForm::Fixed(value)
                    if calls_itself(COMPACTION, &JsonText::trusted(value.as_str())) =>
                {
                    writer.raw("{\"type\":\"compaction\",\"content\":null}");
                    grown = Some(JsonText::trusted(value.as_str()));
                }
                AnthropicBlockForm::Fixed(value) => writer.raw(value),
                AnthropicBlockForm::Text => write_block(TEXT, &[(TEXT, "\"\"")], &extra, writer),
                AnthropicBlockForm::Thinking { .. } => {
                    write_block(THINKING, &[(THINKING, "\"\""), (SIGNATURE, "\"\"")], &extra, writer);
                }
                AnthropicBlockForm::Redacted => {
                    let usual = data.map(|data| (DATA, data));
                    write_block(REDACTED_THINKING, usual.as_slice(), &extra, writer);
                }
                AnthropicBlockForm::Call { wire_type, id, name, .. } => {
                    write_call(wire_type, id.as_deref(), name, &extra, writer, |writer| writer.raw("{}"));
                }
            }
        });
        if let Some(value) = grown {
            put_delta(frame, index, COMPACTION_DELTA, out, |writer| {
                each_member(Some(&value), |key, value| {
                    if key != "type" {
                        writer.raw_member(key, value);
                    }
                });
            });
        }
    }

    /// Writes the waiting fields of a block, in a delta that adds nothing else.
    fn write_members(&mut self, block: BlockId, out: &mut Vec<u8>) {
        let open = self.core.blocks.get_mut(block);
        if open.is_some_and(|open| open.is_emitted && !open.extra.is_empty()) {
            self.grow(block, "", out);
        }
    }

    /// Writes the fields that wait for a `message_delta`, if there are any.
    fn flush_waiting(&mut self, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.core.waiting.is_empty() {
            self.write_end(None, out);
        }
    }

    fn write_end(&mut self, stop_reason: Option<&str>, out: &mut Vec<u8>) {
        let waiting = std::mem::take(&mut self.core.waiting);
        // Clients look for counts in every `message_delta`; unchanged ones are repeated.
        if !self.usage.is_empty() {
            std::mem::swap(&mut self.emitted_usage, &mut self.usage);
            self.usage.clear();
        }
        let is_normalized = self.core.is_normalized();
        put(&mut self.core.frame, "message_delta", out, |writer| {
            let (beside, inside): (Vec<_>, Vec<_>) =
                waiting.iter().partition(|(path, _)| BESIDE.contains(path));
            writer.object_member("delta", |writer| {
                if waiting.get("stop_reason").is_none() {
                    match stop_reason {
                        Some(wire_type) => writer.text_member("stop_reason", wire_type),
                        None => writer.raw_member("stop_reason", "null"),
                    }
                }
                if waiting.get("stop_sequence").is_none() {
                    writer.raw_member("stop_sequence", "null");
                }
                crate::json::write_members(&inside, writer);
            });
            crate::json::write_members(&beside, writer);
            if !self.emitted_usage.is_empty() {
                writer.raw_member(USAGE, &self.emitted_usage);
            } else if is_normalized {
                writer.raw_member(USAGE, NO_USAGE);
            }
        });
    }

    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        put(&mut self.core.frame, name, out, members);
    }

    /// Writes a complete delta.
    fn put_complete_delta(&mut self, index: i64, value: &JsonText<'_>, out: &mut Vec<u8>) {
        self.put("content_block_delta", out, |writer| {
            writer.number_member("index", index);
            writer.raw_member("delta", value.as_str());
        });
    }
}

/// Writes a delta of the block with that number.
fn put_delta(
    frame: &mut String,
    index: i64,
    kind: &str,
    out: &mut Vec<u8>,
    members: impl FnOnce(&mut JsonWriter<'_>),
) {
    put(frame, "content_block_delta", out, |writer| {
        writer.number_member("index", index);
        writer.object_member("delta", |writer| {
            if !kind.is_empty() {
                writer.text_member("type", kind);
            }
            members(writer);
        });
    });
}
