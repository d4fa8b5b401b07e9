//! The messages of an AWS event stream.
//!
//! Clients get one block at a time ([`SerializingEncoder`]), numbered from 0; the same protocol gets its own numbers
//! back. Fields of the response beside its content wait for the end: `messageStop` has the stop reason, and `metadata`
//! after it all the rest.

use super::super::{EVENTS, OUTPUT, REASONING, REDACTED, SIGNATURE, TEXT, TOOL_RESULT, TOOL_USE, USAGE};
use super::{
    NO_METRICS, NO_USAGE, exception_name, is_apt, is_read, set_call, stop_reason, write_error, write_usage,
};
use crate::encode::{
    ArgumentPieces, ClientReading, DeltaTemplates, EncodeContext, EncodeOptions, SerializingEncoder,
    StreamEncoder, UniqueCallIds, WrittenDelta, count,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText, ReasoningForm, TokenCounts,
};
use crate::framing::{CHECKSUM, seal, write_event, write_exception};
use crate::json::{JsonWriter, MemberPaths, each_member, write_members};
use crate::message::Usage;
use crate::protocol::error::IN_AMAZON_STREAMS;
use crate::upstream::UpstreamError;

/// Members of the response that come with the stop reason, and members that come after it.
const WITH_STOP: &[&str] = &["additionalModelResponseFields"];
const WITH_METADATA: &[&str] = &["metrics", "trace", "performanceConfig", "serviceTier"];

pub(super) fn encoder(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    SerializingEncoder::boxed(
        options,
        ClientReading::Block,
        ConverseStream { manner: EncodeContext::new(options), ..ConverseStream::default() },
    )
}

/// The state of the response.
#[derive(Default)]
struct ConverseStream {
    manner: EncodeContext,
    /// The fields that wait for `messageStop`, and for `metadata`.
    stop: MemberPaths,
    metadata: MemberPaths,
    counts: Option<Usage>,
    blocks: Vec<OpenConverseBlock>,
    /// Numbers of truncated calls; if the end of the input truncated them, the wire had no end for them.
    cut: Vec<i64>,
    next_index: i64,
    ids: UniqueCallIds,
    has_failed: bool,
    stamps: DeltaTemplates,
    payload: String,
    text: String,
}

/// An open block.
struct OpenConverseBlock {
    block: BlockId,
    index: i64,
    form: ConverseBlockForm,
    /// Whether it has been written.
    is_told: bool,
}

enum ConverseBlockForm {
    Text,
    Reasoning(ReasoningForm),
    Call(ArgumentPieces),
    /// Written complete.
    Fixed,
}

impl StreamEncoder for ConverseStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        if self.stamps.repeat(event, out) {
            return seal(start, out);
        }
        let body = &event.body;
        if self.has_failed && self.manner.is_normalized() && !matches!(body, EventKind::Start { .. }) {
            // Clients stop reading at an exception.
            return;
        }
        if !self.cut.is_empty() && !matches!(body, EventKind::Notice(_)) {
            let cut = std::mem::take(&mut self.cut);
            if !matches!(body, EventKind::Finish { raw: None, .. }) {
                cut.into_iter().for_each(|index| self.put_stop(index, out));
            }
        }
        match body {
            EventKind::Start { wire_type, extra: members, .. } => {
                let (payload, text) = (std::mem::take(&mut self.payload), std::mem::take(&mut self.text));
                let manner = self.manner.of_next(wire_type == OUTPUT);
                *self = Self { manner, payload, text, ..Self::default() };
                self.start(wire_type, members.as_ref(), out);
            }
            EventKind::BlockStart { .. } => self.start_block(body, out),
            EventKind::Delta { block, text, .. } => self.grow(*block, text, out),
            EventKind::Attachment { scope, kind, wire_type, value } => self.attach(*scope, *kind, wire_type, value, out),
            EventKind::BlockEnd { block, completion } => self.end_block(*block, *completion, out),
            EventKind::Usage { wire_type, counters, raw } => self.usage(wire_type, counters, raw),
            EventKind::Extra { scope, path, value } if self.manner.keeps() && !(self.manner.is_normalized() && is_read(path)) => self.extra(*scope, path, value, out),
            EventKind::Error(error) => self.fail(error, out),
            EventKind::Finish { reason, raw } => self.finish(*reason, raw.as_deref(), out),
            EventKind::Notice(notice) => self.manner.notice(notice),
            EventKind::End => self.end(out),
            EventKind::ChoiceStart
            | EventKind::Extra { .. }
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            // The wire has no form for these.
            | EventKind::Identity { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. }
            | EventKind::Correction { .. } => {}
        }
    }
}

impl ConverseStream {
    fn start(&mut self, wire_type: &str, members: Option<&JsonText<'_>>, out: &mut Vec<u8>) {
        let mut beside = MemberPaths::default();
        each_member(members.filter(|_| self.manner.keeps()), |path, value| {
            // A complete response has all of it at once.
            match path {
                _ if WITH_STOP.contains(&path) => self.stop.set(path, value),
                _ if WITH_METADATA.contains(&path) => self.metadata.set(path, value),
                "role" if self.manner.is_normalized() => {}
                _ => beside.set(path, value),
            }
        });
        if wire_type == OUTPUT || self.manner.is_normalized() {
            self.put("messageStart", out, |writer| {
                if beside.get("role").is_none() {
                    writer.text_member("role", "assistant");
                }
                beside.write(writer);
            });
        } else {
            beside.iter().for_each(|(path, value)| self.metadata.set(path, value));
        }
    }

    fn start_block(&mut self, start: &EventKind<'_>, out: &mut Vec<u8>) {
        let EventKind::BlockStart { block, kind, wire_type, index, extra: members, .. } = start else {
            return;
        };
        let (is_normalized, keeps) = (self.manner.is_normalized(), self.manner.keeps());
        let index = index.filter(|_| !is_normalized).unwrap_or(self.next_index);
        let mut start = MemberPaths::default();
        each_member(members.as_ref().filter(|_| keeps), |path, value| start.set(path, value));
        let mut delta = None;
        let form = match kind {
            BlockKind::Text | BlockKind::Refusal => ConverseBlockForm::Text,
            BlockKind::Reasoning(form) => ConverseBlockForm::Reasoning(*form),
            // A client would run a call that another provider has already run.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if !keeps => return,
            BlockKind::ToolCall { id, is_made, name, call } => {
                let id = match is_normalized {
                    true => Some(self.ids.claim(id.as_deref().unwrap_or_default())),
                    false => id.as_deref().filter(|_| !is_made).map(str::to_owned),
                };
                set_call(id.as_deref(), name, *call, &mut start);
                ConverseBlockForm::Call(ArgumentPieces::new(*call, self.manner.mode()))
            }
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. }
                if !keeps || is_normalized && wire_type.is_empty() =>
            {
                return;
            }
            // A truncated result may lack the id of its call.
            BlockKind::ToolResult { call: None, .. } if is_normalized => return,
            BlockKind::ToolResult { call, value } => {
                if let Some(call) = call {
                    start.set("toolResult.toolUseId", JsonText::from_text(call).as_str());
                }
                match value.as_str().trim_ascii_start().starts_with('[') {
                    true => delta = Some((TOOL_RESULT, value.as_str())),
                    false => start.set("toolResult.content", value.as_str()),
                }
                ConverseBlockForm::Fixed
            }
            BlockKind::Opaque { value } => {
                start.set(wire_type, value.as_str());
                ConverseBlockForm::Fixed
            }
        };
        // Text and reasoning begin with their first delta.
        let is_told =
            matches!(form, ConverseBlockForm::Call(_) | ConverseBlockForm::Fixed) || !start.is_empty();
        if is_told {
            self.next_index = index.saturating_add(1);
        }
        if !start.is_empty() {
            self.put("contentBlockStart", out, |writer| {
                writer.key("start");
                writer.object();
                start.write(writer);
                writer.end_object();
                write_index(index, writer);
            });
        }
        if let Some((wire_type, value)) = delta {
            self.put_delta(index, out, |writer| writer.raw_member(wire_type, value));
        }
        self.blocks.push(OpenConverseBlock { block: *block, index, form, is_told });
    }

    fn open(&mut self, block: BlockId) -> Option<&mut OpenConverseBlock> {
        self.blocks.iter_mut().rev().find(|open| open.block == block)
    }

    /// Returns the number of a block and marks it as written.
    fn told_index(&mut self, block: BlockId) -> Option<i64> {
        let open = self.open(block)?;
        let (index, is_told) = (open.index, std::mem::replace(&mut open.is_told, true));
        if !is_told {
            self.next_index = index.saturating_add(1);
        }
        Some(index)
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        let Some(index) = self.told_index(block) else { return };
        let Self { blocks, stamps, payload, text: scratch, .. } = self;
        let Some(open) = blocks.iter_mut().rev().find(|open| open.block == block) else { return };
        let (text, is_plain) = match &mut open.form {
            ConverseBlockForm::Call(arguments) => (arguments.next(text, scratch), arguments.is_plain()),
            _ => (Some(text), true),
        };
        let Some(text) = text else { return };
        let (start, mut piece) = (out.len(), WrittenDelta::new(text));
        put(payload, "contentBlockDelta", out, |writer| {
            writer.key("delta");
            writer.object();
            match &open.form {
                ConverseBlockForm::Text | ConverseBlockForm::Fixed => piece.write(TEXT, writer),
                ConverseBlockForm::Reasoning(_) => {
                    writer.key(REASONING);
                    writer.object();
                    piece.write(TEXT, writer);
                    writer.end_object();
                }
                ConverseBlockForm::Call(_) => write_input(&mut piece, writer),
            }
            writer.end_object();
            write_index(index, writer);
        });
        if is_plain {
            let message = &out[start..out.len() - CHECKSUM];
            piece.stands_behind(message.len() - payload.len());
            stamps.keep(block, message, &piece);
        }
    }

    fn attach(
        &mut self,
        scope: EventScope,
        kind: AttachmentKind,
        wire_type: &str,
        value: &JsonText<'_>,
        out: &mut Vec<u8>,
    ) {
        let keeps = self.manner.keeps();
        let mut index = self.next_index - 1;
        if let EventScope::Block(block) = scope {
            let Some(open) = self.open(block) else { return };
            let is_apt = match open.form {
                ConverseBlockForm::Reasoning(form) => is_apt(form, kind, value),
                _ => false,
            };
            if !keeps && !is_apt {
                return;
            }
            index = self.told_index(block).unwrap_or(index);
        } else if !keeps {
            return;
        }
        self.put_delta(index, out, |writer| match kind {
            AttachmentKind::Annotation => writer.raw_member("citation", value.as_str()),
            AttachmentKind::Signature | AttachmentKind::Encrypted => {
                let key = if kind == AttachmentKind::Signature { SIGNATURE } else { REDACTED };
                write_members(&[(&format!("{REASONING}.{key}"), value.as_str())], writer);
            }
            AttachmentKind::Logprobs => writer.raw_member(wire_type, value.as_str()),
        });
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let Some(at) = self.blocks.iter().rposition(|open| open.block == block) else { return };
        let OpenConverseBlock { index, form, is_told, .. } = self.blocks.remove(at);
        let is_normalized = self.manner.is_normalized();
        // A block that ends after the last event of the response had no end on the wire.
        let is_unsaid = !is_normalized && self.metadata.get(USAGE).is_some();
        let is_truncated = completion != BlockCompletion::Complete && !is_normalized;
        if !is_told || is_unsaid {
            return;
        }
        if let ConverseBlockForm::Call(arguments) = form
            && let Some(rest) = arguments.rest().filter(|rest| !is_truncated && !rest.is_empty())
        {
            self.put_delta(index, out, |writer| write_input(&mut WrittenDelta::new(rest), writer));
        }
        match is_truncated {
            true => self.cut.push(index),
            false => self.put_stop(index, out),
        }
    }

    fn usage(&mut self, wire_type: &str, counters: &TokenCounts, raw: &JsonText<'_>) {
        count(&mut self.counts, counters, raw);
        let keeps = self.manner.keeps() && wire_type == USAGE;
        self.text.clear();
        let mut writer = JsonWriter(&mut self.text);
        match &self.counts {
            Some(counts) if self.manner.is_normalized() => {
                write_usage(&counts.counters, Some(raw).filter(|_| keeps), &mut writer);
            }
            _ => writer.raw(raw.as_str()),
        }
        self.metadata.set(USAGE, &self.text);
    }

    fn extra(&mut self, scope: EventScope, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        match scope {
            EventScope::Response if WITH_STOP.contains(&path) => self.stop.set(path, value.as_str()),
            EventScope::Response if self.manner.is_normalized() && !WITH_METADATA.contains(&path) => {}
            // An unknown event.
            EventScope::Response if !WITH_METADATA.contains(&path) && is_event(path, value) => {
                self.payload.clear();
                JsonWriter(&mut self.payload).raw(value.as_str());
                write_event(path, &self.payload, out);
            }
            EventScope::Response => self.metadata.set(path, value.as_str()),
            EventScope::Block(block) => {
                let Some(index) = self.told_index(block) else { return };
                self.put_extra(index, path, value, out);
            }
            EventScope::Choice | EventScope::Item(_) => {
                if !self.manner.is_normalized() {
                    self.put_extra(self.next_index - 1, path, value, out);
                }
            }
        }
    }

    /// Writes an extra field of a block. An object in a delta would be content.
    fn put_extra(&mut self, index: i64, path: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let is_inside = path.contains('.') || !value.as_str().trim_ascii_start().starts_with('{');
        self.put("contentBlockDelta", out, |writer| {
            if is_inside {
                writer.key("delta");
                writer.object();
            }
            write_members(&[(path, value.as_str())], writer);
            if is_inside {
                writer.end_object();
            }
            write_index(index, writer);
        });
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        self.has_failed = true;
        let is_normalized = self.manner.is_normalized();
        self.payload.clear();
        write_error(error, is_normalized, &mut JsonWriter(&mut self.payload));
        write_exception(exception_name(error, is_normalized, IN_AMAZON_STREAMS), &self.payload, out);
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        let wire_type = match self.manner.is_normalized() {
            true => Some(stop_reason(reason, raw)),
            false => raw,
        };
        let stop = std::mem::take(&mut self.stop);
        if wire_type.is_none() && stop.is_empty() {
            return;
        }
        self.put("messageStop", out, |writer| {
            if let Some(wire_type) = wire_type {
                writer.text_member("stopReason", wire_type);
            }
            stop.write(writer);
        });
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let is_missing = std::mem::take(&mut self.manner.is_truncated) || self.has_failed;
        let mut metadata = std::mem::take(&mut self.metadata);
        if self.manner.is_normalized() {
            if is_missing {
                return;
            }
            if metadata.get(USAGE).is_none() {
                metadata.set(USAGE, NO_USAGE);
            }
            if metadata.get("metrics").is_none() {
                metadata.set("metrics", NO_METRICS);
            }
        }
        if !metadata.is_empty() {
            self.put("metadata", out, |writer| metadata.write(writer));
        }
    }

    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        put(&mut self.payload, name, out, members);
    }

    fn put_delta(&mut self, index: i64, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        self.put("contentBlockDelta", out, |writer| {
            writer.key("delta");
            writer.object();
            members(writer);
            writer.end_object();
            write_index(index, writer);
        });
    }

    fn put_stop(&mut self, index: i64, out: &mut Vec<u8>) {
        self.put("contentBlockStop", out, |writer| write_index(index, writer));
    }
}

/// Writes one event; `members` fills its object.
fn put(payload: &mut String, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
    payload.clear();
    let mut writer = JsonWriter(payload);
    writer.object();
    members(&mut writer);
    writer.end_object();
    write_event(name, payload, out);
}

fn write_index(index: i64, writer: &mut JsonWriter<'_>) {
    writer.key("contentBlockIndex");
    writer.number(index);
}

fn write_input(piece: &mut WrittenDelta<'_>, writer: &mut JsonWriter<'_>) {
    writer.key(TOOL_USE);
    writer.object();
    piece.write("input", writer);
    writer.end_object();
}

/// Whether a field of the response is an event of its own.
fn is_event(name: &str, value: &JsonText<'_>) -> bool {
    let is_object = value.as_str().trim_ascii_start().starts_with('{');
    is_object && !name.contains('.') && name.len() < usize::from(u8::MAX) && !EVENTS.contains(&name)
}
