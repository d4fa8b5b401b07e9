//! The messages of an AWS event stream.
//!
//! Clients get one block at a time ([`WireEncoder`](crate::encode::WireEncoder)), numbered from 0; the same protocol gets its own numbers
//! back. Fields of the response beside its content wait for the end: `messageStop` has the stop reason, and `metadata`
//! after it all the rest.

use super::super::{EVENTS, OUTPUT, REASONING, REDACTED, SIGNATURE, TEXT, TOOL_RESULT, TOOL_USE, USAGE};
use super::{
    CAPABILITIES, NO_METRICS, NO_USAGE, exception_name, is_expressed, is_read, set_call, stop_reason,
    write_error, write_usage, writes_attachment,
};
use crate::encode::{
    ArgumentPieces, AttachmentEvent, BlockStart, ClientReading, EncoderCore, Wire, WireCapabilities,
    WrittenDelta,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, EventScope, FinishReason, JsonText, ReasoningForm,
};
use crate::framing::{CHECKSUM, seal, write_event, write_exception};
use crate::json::{JsonWriter, MemberPaths, each_member, write_members};
use crate::protocol::error::IN_AMAZON_STREAMS;
use crate::upstream::UpstreamError;

/// Members of the response that come with the stop reason, and members that come after it.
const WITH_STOP: &[&str] = &["additionalModelResponseFields"];
const WITH_METADATA: &[&str] = &["metrics", "trace", "performanceConfig", "serviceTier"];

/// The state of the response. The fields that wait are for `metadata`.
#[derive(Default)]
pub(super) struct ConverseStream {
    core: EncoderCore<OpenConverseBlock>,
    /// The fields that wait for `messageStop`.
    stop: MemberPaths,
    next_index: i64,
}

/// An open block.
pub(super) struct OpenConverseBlock {
    index: i64,
    form: ConverseBlockForm,
    is_emitted: bool,
}

enum ConverseBlockForm {
    Text,
    Reasoning(ReasoningForm),
    Call(ArgumentPieces),
    /// Written complete.
    Fixed,
}

impl Wire for ConverseStream {
    const CAPABILITIES: WireCapabilities = CAPABILITIES;
    const READING: ClientReading = ClientReading::Block;
    const ENDS_AT_ERROR: bool = true;
    type Block = OpenConverseBlock;

    fn core(&mut self) -> &mut EncoderCore<OpenConverseBlock> {
        &mut self.core
    }

    fn start(&mut self, wire_type: &str, extra: Option<&JsonText<'_>>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        let mut beside = MemberPaths::default();
        each_member(self.core.own(extra), |path, value| {
            // A complete response has all of it at once.
            match path {
                _ if WITH_STOP.contains(&path) => self.stop.set(path, value),
                _ if WITH_METADATA.contains(&path) => self.core.waiting.set(path, value),
                "role" if is_normalized => {}
                _ => beside.set(path, value),
            }
        });
        if wire_type == OUTPUT || is_normalized {
            self.put("messageStart", out, |writer| {
                if beside.get("role").is_none() {
                    writer.text_member("role", "assistant");
                }
                beside.write(writer);
            });
        } else {
            self.core.waiting.set_all(beside.iter());
        }
    }

    fn start_block(&mut self, start: &BlockStart<'_>, out: &mut Vec<u8>) {
        if !is_expressed(start.kind, start.wire_type, &self.core.context) {
            return;
        }
        let index = start.index.unwrap_or(self.next_index);
        let mut members = MemberPaths::of(start.extra);
        let mut delta = None;
        let form = match start.kind {
            BlockKind::Text | BlockKind::Refusal => ConverseBlockForm::Text,
            BlockKind::Reasoning(form) => ConverseBlockForm::Reasoning(*form),
            BlockKind::ToolCall { id, is_made, name, call } => {
                let id = self.core.call_id(id.as_deref(), *is_made);
                set_call(id.as_deref(), name, *call, &mut members);
                ConverseBlockForm::Call(ArgumentPieces::new(*call, self.core.context.mode()))
            }
            BlockKind::ToolResult { call, value } => {
                if let Some(call) = call {
                    members.set("toolResult.toolUseId", JsonText::from_text(call).as_str());
                }
                match value.as_str().trim_ascii_start().starts_with('[') {
                    true => delta = Some((TOOL_RESULT, value.as_str())),
                    false => members.set("toolResult.content", value.as_str()),
                }
                ConverseBlockForm::Fixed
            }
            BlockKind::Opaque { value } => {
                members.set(start.wire_type, value.as_str());
                ConverseBlockForm::Fixed
            }
        };
        // Text and reasoning begin with their first delta.
        let is_emitted =
            matches!(form, ConverseBlockForm::Call(_) | ConverseBlockForm::Fixed) || !members.is_empty();
        if is_emitted {
            self.next_index = index.saturating_add(1);
        }
        if !members.is_empty() {
            self.put("contentBlockStart", out, |writer| {
                writer.object_member("start", |writer| members.write(writer));
                write_index(index, writer);
            });
        }
        if let Some((wire_type, value)) = delta {
            self.put_delta(index, out, |writer| writer.raw_member(wire_type, value));
        }
        self.core.blocks.insert(start.block, OpenConverseBlock { index, form, is_emitted });
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(index) = self.emitted_index(block) else { return };
        let EncoderCore { blocks, templates, frame, scratch, .. } = &mut self.core;
        let Some(open) = blocks.get_mut(block) else { return };
        let (text, is_plain) = match &mut open.form {
            ConverseBlockForm::Call(arguments) => (arguments.next(text, scratch), arguments.is_plain()),
            _ => (Some(text), true),
        };
        let Some(text) = text else { return };
        let (start, mut piece) = (out.len(), WrittenDelta::new(text));
        put_delta(frame, index, out, |writer| match &open.form {
            ConverseBlockForm::Text | ConverseBlockForm::Fixed => piece.write(TEXT, writer),
            ConverseBlockForm::Reasoning(_) => {
                writer.object_member(REASONING, |writer| piece.write(TEXT, writer));
            }
            ConverseBlockForm::Call(_) => write_input(&mut piece, writer),
        });
        if is_plain {
            let message = &out[start..out.len() - CHECKSUM];
            piece.stands_behind(message.len() - frame.len());
            templates.keep(block, message, &piece);
        }
    }

    fn seal(start: usize, out: &mut Vec<u8>) {
        seal(start, out);
    }

    fn attach(&mut self, attachment: &AttachmentEvent<'_>, out: &mut Vec<u8>) {
        let AttachmentEvent { scope, kind, wire_type, value } = *attachment;
        let keeps = self.core.keeps();
        let mut index = self.next_index - 1;
        if let EventScope::Block(block) = scope {
            let Some(open) = self.core.blocks.get_mut(block) else { return };
            let is_apt = match open.form {
                ConverseBlockForm::Reasoning(form) => writes_attachment(form, kind, value),
                _ => false,
            };
            if !keeps && !is_apt {
                return;
            }
            index = self.emitted_index(block).unwrap_or(index);
        } else if !keeps {
            return;
        }
        self.put_delta(index, out, |writer| match kind {
            AttachmentKind::Annotation => writer.raw_member("citation", value.as_str()),
            AttachmentKind::Signature | AttachmentKind::Encrypted => {
                let key = if kind == AttachmentKind::Signature { SIGNATURE } else { REDACTED };
                writer.object_member(REASONING, |writer| writer.raw_member(key, value.as_str()));
            }
            AttachmentKind::Logprobs => writer.raw_member(wire_type, value.as_str()),
        });
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let Some(OpenConverseBlock { index, form, is_emitted }) = self.core.blocks.remove(block) else {
            return;
        };
        let is_normalized = self.core.is_normalized();
        // A block that ends after the last event of the response had no end on the wire.
        let is_unsaid = !is_normalized && self.core.waiting.get(USAGE).is_some();
        let is_truncated = completion != BlockCompletion::Complete && !is_normalized;
        if !is_emitted || is_unsaid {
            return;
        }
        if let ConverseBlockForm::Call(arguments) = form
            && let Some(rest) = arguments.rest().filter(|rest| !is_truncated && !rest.is_empty())
        {
            self.put_delta(index, out, |writer| write_input(&mut WrittenDelta::new(rest), writer));
        }
        match is_truncated {
            true => self.core.unended.push(index),
            false => self.stop(index, out),
        }
    }

    fn stop(&mut self, index: i64, out: &mut Vec<u8>) {
        self.put("contentBlockStop", out, |writer| write_index(index, writer));
    }

    fn usage(&mut self, wire_type: &str, raw: &JsonText<'_>, _: &mut Vec<u8>) {
        let keeps = self.core.keeps() && wire_type == USAGE;
        let mut usage = String::new();
        let mut writer = JsonWriter(&mut usage);
        match &self.core.counts {
            Some(counts) if self.core.is_normalized() => {
                write_usage(&counts.counters, Some(raw).filter(|_| keeps), &mut writer);
            }
            _ => writer.raw(raw.as_str()),
        }
        self.core.waiting.set(USAGE, &usage);
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        match scope {
            _ if is_normalized && is_read(path) => {}
            EventScope::Response if WITH_STOP.contains(&path) => self.stop.set(path, value.as_str()),
            EventScope::Response if is_normalized && !WITH_METADATA.contains(&path) => {}
            // An unknown event.
            EventScope::Response if !WITH_METADATA.contains(&path) && is_event(path, value) => {
                self.core.frame.clear();
                JsonWriter(&mut self.core.frame).raw(value.as_str());
                write_event(path, &self.core.frame, out);
            }
            EventScope::Response => self.core.waiting.set(path, value.as_str()),
            EventScope::Block(block) => {
                let Some(index) = self.emitted_index(block) else { return };
                self.put_extra(index, path, value, out);
            }
            EventScope::Choice | EventScope::Item(_) => {
                if !is_normalized {
                    self.put_extra(self.next_index - 1, path, value, out);
                }
            }
        }
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let wire_type = match self.core.is_normalized() {
            true => Some(stop_reason(reason, raw)),
            false => raw,
        };
        let mut stop = std::mem::take(&mut self.stop);
        if wire_type.is_none() && stop.is_empty() {
            return;
        }
        self.put("messageStop", out, |writer| {
            writer.optional_text_member("stopReason", wire_type);
            stop.write_out(writer);
        });
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        let is_normalized = self.core.is_normalized();
        let payload = &mut self.core.frame;
        payload.clear();
        write_error(error, is_normalized, &mut JsonWriter(payload));
        write_exception(exception_name(error, is_normalized, IN_AMAZON_STREAMS), payload, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let is_missing = self.core.context.is_truncated || self.core.has_failed;
        let mut metadata = std::mem::take(&mut self.core.waiting);
        if self.core.is_normalized() {
            if is_missing {
                return;
            }
            for (key, none) in [(USAGE, NO_USAGE), ("metrics", NO_METRICS)] {
                if metadata.get(key).is_none() {
                    metadata.set(key, none);
                }
            }
        }
        if !metadata.is_empty() {
            self.put("metadata", out, |writer| metadata.write(writer));
        }
    }
}

impl ConverseStream {
    /// Returns the number of a block and marks it as written.
    fn emitted_index(&mut self, block: BlockId) -> Option<i64> {
        let open = self.core.blocks.get_mut(block)?;
        if !std::mem::replace(&mut open.is_emitted, true) {
            self.next_index = open.index.saturating_add(1);
        }
        Some(open.index)
    }

    /// Writes an extra field of a block. An object in a delta would be content.
    fn put_extra(&mut self, index: i64, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let is_inside = path.contains('.') || !value.as_str().trim_ascii_start().starts_with('{');
        let members = |writer: &mut JsonWriter<'_>| write_members(&[(path, value.as_str())], writer);
        if is_inside {
            return self.put_delta(index, out, members);
        }
        self.put("contentBlockDelta", out, |writer| {
            members(writer);
            write_index(index, writer);
        });
    }

    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        put(&mut self.core.frame, name, out, members);
    }

    fn put_delta(&mut self, index: i64, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        put_delta(&mut self.core.frame, index, out, members);
    }
}

/// Writes one event; `members` fills its object.
fn put(payload: &mut String, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
    payload.clear();
    JsonWriter(payload).in_object(members);
    write_event(name, payload, out);
}

fn put_delta(payload: &mut String, index: i64, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
    put(payload, "contentBlockDelta", out, |writer| {
        writer.object_member("delta", members);
        write_index(index, writer);
    });
}

fn write_index(index: i64, writer: &mut JsonWriter<'_>) {
    writer.number_member("contentBlockIndex", index);
}

fn write_input(piece: &mut WrittenDelta<'_>, writer: &mut JsonWriter<'_>) {
    writer.object_member(TOOL_USE, |writer| piece.write("input", writer));
}

/// Whether a field of the response is an event of its own.
fn is_event(name: &str, value: &JsonText<'_>) -> bool {
    let is_object = value.as_str().trim_ascii_start().starts_with('{');
    is_object && !name.contains('.') && name.len() < usize::from(u8::MAX) && !EVENTS.contains(&name)
}
