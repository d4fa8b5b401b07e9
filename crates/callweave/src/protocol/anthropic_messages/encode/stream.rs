//! The events of a stream.
//!
//! Clients get one block at a time ([`SerializingEncoder`]), numbered from 0; the same protocol gets its own numbers
//! back. Fields of the response beside its content wait for the `message_delta` that ends it, or come in a separate one
//! if more content follows.

use super::super::{
    CITATIONS_DELTA, COMPACTION, COMPACTION_DELTA, DATA, FALLBACK, INPUT_DELTA, MESSAGE, PING,
    REDACTED_THINKING, SIGNATURE, SIGNATURE_DELTA, TEXT, TEXT_DELTA, THINKING, THINKING_DELTA, TOOL_USE,
    USAGE,
};
use super::{
    NO_USAGE, READ, answers, calls_itself, stop_reason, write_block, write_error, write_usage,
    writes_attachment,
};
use crate::encode::{
    ArgumentPieces, ClientReading, DeltaTemplates, EncodeContext, EncodeOptions, SerializingEncoder,
    StreamEncoder, UniqueCallIds, WrittenDelta, count,
};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope,
    FinishReason, JsonText, ReasoningForm, TokenCounts,
};
use crate::json::{JsonWriter, MemberPaths, each_member};
use crate::message::Usage;
use crate::upstream::UpstreamError;

/// Members of the response that are beside the `delta` of a `message_delta`, not in it.
const BESIDE: &[&str] = &["context_management"];

pub(super) fn encoder(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    SerializingEncoder::boxed(
        options,
        ClientReading::Block,
        AnthropicStream { manner: EncodeContext::new(options), ..AnthropicStream::default() },
    )
}

/// The state of the response.
#[derive(Default)]
struct AnthropicStream {
    manner: EncodeContext,
    id: String,
    model: String,
    /// A `message_start` that waits for its usage.
    start: Option<MessageStart>,
    /// Token counts that wait for a `message_delta`, and the last emitted ones; empty if there are none.
    usage: String,
    emitted_usage: String,
    /// All token counts so far.
    counts: Option<Usage>,
    /// The other fields that wait for a `message_delta`.
    answer: MemberPaths,
    blocks: Vec<OpenAnthropicBlock>,
    /// Numbers of truncated calls; if the end of the input truncated them, the wire had no end for them.
    cut: Vec<i64>,
    next_index: i64,
    ids: UniqueCallIds,
    has_failed: bool,
    stamps: DeltaTemplates,
    frame: String,
    text: String,
}

struct MessageStart {
    extra: MemberPaths,
    /// Whether the response was started before, and continues with another id or model.
    is_again: bool,
    is_named: bool,
}

/// An open block.
struct OpenAnthropicBlock {
    block: BlockId,
    index: i64,
    form: AnthropicBlockForm,
    /// The fields of its start, and then the fields that wait for its next delta.
    extra: MemberPaths,
    is_told: bool,
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

impl StreamEncoder for AnthropicStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.stamps.repeat(event, out) {
            return;
        }
        let body = &event.body;
        if self.has_failed && self.manner.is_normalized() && !matches!(body, EventKind::Start { .. }) {
            // Clients stop reading at an error.
            return;
        }
        self.settle(body, out);
        match body {
            EventKind::Start { id, model, wire_type, extra: members } => {
                let (frame, text) = (std::mem::take(&mut self.frame), std::mem::take(&mut self.text));
                let manner = self.manner.of_next(wire_type == MESSAGE);
                *self = Self { manner, frame, text, ..Self::default() };
                self.start(id.as_deref(), model.as_deref(), wire_type, members.as_ref());
            }
            EventKind::Usage { wire_type, counters, raw } => self.usage(wire_type, counters, raw, out),
            EventKind::Identity { scope: EventScope::Response, id, model } if !self.manner.is_normalized() => {
                self.rename(id.as_deref(), model.as_deref());
            }
            EventKind::Extra { scope, path, value } if self.writes(path) => self.extra(*scope, path, value, out),
            EventKind::BlockStart { .. } => self.start_block(body, out),
            EventKind::Delta { block, text, .. } => self.grow(*block, text, out),
            EventKind::Attachment { scope, kind, wire_type, value } => self.attach(*scope, *kind, wire_type, value, out),
            EventKind::BlockEnd { block, completion } => self.end_block(*block, *completion, out),
            EventKind::Progress { scope: EventScope::Response, wire_type, .. } if wire_type == PING => {
                self.put(PING, out, |_| {});
            }
            EventKind::Error(error) => self.fail(error, out),
            EventKind::Finish { reason, raw } => self.finish(*reason, raw.as_deref(), out),
            EventKind::Notice(notice) => self.manner.notice(notice),
            EventKind::End => {
                self.flush_news(out);
                if !std::mem::take(&mut self.manner.is_truncated) && !self.has_failed {
                    self.put("message_stop", out, |_| {});
                }
            }
            EventKind::ChoiceStart
            | EventKind::Extra { .. }
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            | EventKind::Identity { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. }
            // The wire has no form for it.
            | EventKind::Correction { .. } => {}
        }
    }
}

impl AnthropicStream {
    /// Writes the output that has waited for this event.
    fn settle(&mut self, body: &EventKind<'_>, out: &mut Vec<u8>) {
        if !self.cut.is_empty() && !matches!(body, EventKind::Notice(_)) {
            let cut = std::mem::take(&mut self.cut);
            if !matches!(body, EventKind::Finish { raw: None, .. }) {
                cut.into_iter().for_each(|index| self.stop(index, out));
            }
        }
        let Some(start) = &self.start else { return };
        match body {
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
    }

    fn start(
        &mut self,
        id: Option<&str>,
        model: Option<&str>,
        wire_type: &str,
        members: Option<&JsonText<'_>>,
    ) {
        self.id = id.or(self.manner.options.id.as_deref()).unwrap_or_default().to_owned();
        self.model = model.or(self.manner.options.model.as_deref()).unwrap_or_default().to_owned();
        let paths = self.members(members);
        let is_named = !wire_type.is_empty() || self.manner.is_normalized();
        self.start = Some(MessageStart { extra: paths, is_again: false, is_named });
    }

    /// The members of a start that are written.
    fn members(&self, members: Option<&JsonText<'_>>) -> MemberPaths {
        let mut paths = MemberPaths::default();
        each_member(members.filter(|_| self.manner.keeps()), |path, value| {
            if self.writes(path) {
                paths.set(path, value);
            }
        });
        paths
    }

    /// Whether an extra field is written. A field with the name of a read member has a type that clients do not expect.
    fn writes(&self, path: &str) -> bool {
        self.manner.keeps() && path != "type" && !(self.manner.is_normalized() && READ.contains(&path))
    }

    fn rename(&mut self, id: Option<&str>, model: Option<&str>) {
        for (own, given) in [(&mut self.id, id), (&mut self.model, model)] {
            if let Some(given) = given {
                given.clone_into(own);
            }
        }
        if self.start.is_none() {
            self.start = Some(MessageStart {
                extra: std::mem::take(&mut self.answer),
                is_again: true,
                is_named: true,
            });
        }
    }

    fn write_start(&mut self, usage: Option<&str>, out: &mut Vec<u8>) {
        let Some(MessageStart { extra: members, is_named, .. }) = self.start.take() else { return };
        let is_normalized = self.manner.is_normalized();
        if !is_named && usage.is_none() {
            // The input has no start of a message: an error, or the middle of a stream.
            let later = std::mem::replace(&mut self.answer, members);
            later.iter().for_each(|(path, value)| self.answer.set(path, value));
            return;
        }
        let usage = usage.or(is_normalized.then_some(NO_USAGE));
        let (id, model) = (std::mem::take(&mut self.id), std::mem::take(&mut self.model));
        self.put("message_start", out, |writer| {
            writer.key("message");
            writer.object();
            if !id.is_empty() || is_normalized {
                writer.text_member("id", &id);
            }
            writer.text_member("type", MESSAGE);
            if !model.is_empty() || is_normalized {
                writer.text_member("model", &model);
            }
            let usual = [("role", "\"assistant\""), ("content", "[]"), ("stop_reason", "null")];
            for (key, value) in usual.into_iter().chain([("stop_sequence", "null")]) {
                if members.get(key).is_none() {
                    writer.raw_member(key, value);
                }
            }
            if let Some(usage) = usage {
                writer.raw_member(USAGE, usage);
            }
            members.write(writer);
            writer.end_object();
        });
        (self.id, self.model) = (id, model);
    }

    fn usage(&mut self, wire_type: &str, counters: &TokenCounts, raw: &JsonText<'_>, out: &mut Vec<u8>) {
        count(&mut self.counts, counters, raw);
        let keeps = self.manner.keeps() && wire_type == USAGE;
        if self.start.is_none() && !self.usage.is_empty() && keeps {
            self.flush_news(out);
        }
        let is_start = self.start.is_some();
        let mut usage = std::mem::take(if is_start { &mut self.emitted_usage } else { &mut self.usage });
        usage.clear();
        match &self.counts {
            Some(counts) if self.manner.is_normalized() => {
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
        let is_normalized = self.manner.is_normalized();
        match scope {
            EventScope::Response if calls_itself(path, value) => {
                self.flush_news(out);
                self.put_raw(path, value, out);
            }
            EventScope::Response => {
                if self.answer.get(path).is_some() {
                    self.flush_news(out);
                }
                self.answer.set(path, value.as_str());
            }
            EventScope::Block(block) => {
                self.emit_block(block, None, out);
                let Some(open) = self.open(block) else { return };
                if calls_itself(path, value) {
                    // Clients would not know such a delta.
                    let index = Some(open.index).filter(|_| !is_normalized);
                    return index.into_iter().for_each(|index| self.put_complete_delta(index, value, out));
                }
                if open.extra.get(path).is_some() {
                    self.write_members(block, out);
                }
                if let Some(open) = self.open(block) {
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
                put_delta(&mut self.frame, index, "", out, |writer| {
                    crate::json::write_members(&[(path, value.as_str())], writer);
                });
            }
        }
    }

    fn open(&mut self, block: BlockId) -> Option<&mut OpenAnthropicBlock> {
        self.blocks.iter_mut().rev().find(|open| open.block == block)
    }

    fn start_block(&mut self, start: &EventKind<'_>, out: &mut Vec<u8>) {
        let EventKind::BlockStart { block, kind, wire_type, index, extra: members, .. } = start else {
            return;
        };
        let (is_normalized, keeps) = (self.manner.is_normalized(), self.manner.keeps());
        let form = match kind {
            BlockKind::Text | BlockKind::Refusal => AnthropicBlockForm::Text,
            BlockKind::Reasoning(ReasoningForm::Redacted) => AnthropicBlockForm::Redacted,
            BlockKind::Reasoning(ReasoningForm::Raw | ReasoningForm::Summary) => {
                AnthropicBlockForm::Thinking { is_signed: false }
            }
            // A client would run a call that another provider has already run.
            BlockKind::ToolCall { call: CallKind::Builtin, .. } if !keeps => return,
            BlockKind::ToolCall { id, is_made, name, call } => AnthropicBlockForm::Call {
                wire_type: if keeps && !wire_type.is_empty() { wire_type.as_ref() } else { TOOL_USE }
                    .to_owned(),
                id: match is_normalized {
                    true => Some(self.ids.claim(id.as_deref().unwrap_or_default())),
                    false => id.as_deref().filter(|_| !is_made).map(str::to_owned),
                },
                name: name.to_string(),
                arguments: ArgumentPieces::new(*call, self.manner.mode()),
            },
            // A client cannot read content without a wire type, either.
            BlockKind::ToolResult { .. } | BlockKind::Opaque { .. }
                if !keeps || is_normalized && wire_type.is_empty() =>
            {
                return;
            }
            BlockKind::ToolResult { value, .. } if is_normalized && !answers(value) => return,
            BlockKind::ToolResult { value, .. } | BlockKind::Opaque { value } => {
                AnthropicBlockForm::Fixed(value.as_str().to_owned())
            }
        };
        if keeps {
            self.flush_news(out);
        }
        let index = index.filter(|_| !is_normalized).unwrap_or(self.next_index);
        // An empty text or empty reasoning need not be written.
        let waits = match form {
            AnthropicBlockForm::Text | AnthropicBlockForm::Thinking { .. } => is_normalized,
            AnthropicBlockForm::Redacted => true,
            AnthropicBlockForm::Call { .. } | AnthropicBlockForm::Fixed(_) => false,
        };
        let members = self.members(members.as_ref());
        self.blocks.push(OpenAnthropicBlock { block: *block, index, form, extra: members, is_told: false });
        if !waits {
            self.emit_block(*block, None, out);
        }
    }

    /// Writes the start of a block, if it has not been written; `data` is the encrypted reasoning.
    fn emit_block(&mut self, block: BlockId, data: Option<&str>, out: &mut Vec<u8>) {
        let is_normalized = self.manner.is_normalized();
        let Some(at) = self.blocks.iter().rposition(|open| open.block == block) else { return };
        let OpenAnthropicBlock { index, form, extra: members, is_told, .. } = &mut self.blocks[at];
        if std::mem::replace(is_told, true) {
            return;
        }
        if let (AnthropicBlockForm::Redacted, None, true) = (&form, data, is_normalized) {
            // Visible text makes it plain reasoning.
            *form = AnthropicBlockForm::Thinking { is_signed: false };
        }
        let (index, form, members) = (*index, &*form, std::mem::take(members));
        self.next_index = index.saturating_add(1);
        let mut grown = None;
        put(&mut self.frame, "content_block_start", out, |writer| {
            writer.key("index");
            writer.number(index);
            writer.key("content_block");
            match form {
                AnthropicBlockForm::Fixed(value)
                    if calls_itself(COMPACTION, &JsonText::trusted(value.as_str())) =>
                {
                    writer.raw("{\"type\":\"compaction\",\"content\":null}");
                    grown = Some(value.clone());
                }
                AnthropicBlockForm::Fixed(value) => writer.raw(value),
                AnthropicBlockForm::Text => {
                    let usual = if members.get(TEXT).is_some() { &[][..] } else { &[(TEXT, "\"\"")] };
                    write_block(TEXT, usual, &members, writer);
                }
                AnthropicBlockForm::Thinking { .. } => {
                    write_block(THINKING, &[(THINKING, "\"\""), (SIGNATURE, "\"\"")], &members, writer);
                }
                AnthropicBlockForm::Redacted => {
                    let usual: Vec<_> = data.map(|data| (DATA, data)).into_iter().collect();
                    write_block(REDACTED_THINKING, &usual, &members, writer);
                }
                AnthropicBlockForm::Call { wire_type, id, name, .. } => {
                    writer.object();
                    writer.text_member("type", wire_type);
                    if let Some(id) = id {
                        writer.text_member("id", id);
                    }
                    writer.text_member("name", name);
                    writer.raw_member("input", "{}");
                    members.write(writer);
                    writer.end_object();
                }
            }
        });
        if let Some(value) = grown {
            put(&mut self.frame, "content_block_delta", out, |writer| {
                writer.key("index");
                writer.number(index);
                writer.key("delta");
                writer.object();
                writer.text_member("type", COMPACTION_DELTA);
                each_member(Some(&JsonText::trusted(value.as_str())), |key, value| {
                    if key != "type" {
                        writer.raw_member(key, value);
                    }
                });
                writer.end_object();
            });
        }
    }

    fn grow(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        self.emit_block(block, None, out);
        let Self { blocks, stamps, frame, text: scratch, .. } = self;
        let Some(open) = blocks.iter_mut().rev().find(|open| open.block == block) else { return };
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
            stamps.keep(block, frame.as_bytes(), &piece);
        }
        open.extra.clear();
    }

    /// Writes the waiting fields of a block, in a delta that adds nothing else.
    fn write_members(&mut self, block: BlockId, out: &mut Vec<u8>) {
        if self.open(block).is_some_and(|open| open.is_told && !open.extra.is_empty()) {
            self.grow(block, "", out);
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
            let is_apt = match &open.form {
                AnthropicBlockForm::Thinking { .. } => writes_attachment(ReasoningForm::Raw, kind, value),
                // Encrypted data is part of the block's start.
                AnthropicBlockForm::Redacted => {
                    let is_late = kind == AttachmentKind::Encrypted && open.is_told;
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
            if let Some(open) = self.open(block) {
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
        put_delta(&mut self.frame, index, name, out, |writer| writer.raw_member(key, value.as_str()));
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let is_normalized = self.manner.is_normalized();
        if !is_normalized {
            self.emit_block(block, None, out);
        }
        self.write_members(block, out);
        let Some(at) = self.blocks.iter().rposition(|open| open.block == block) else { return };
        let OpenAnthropicBlock { index, form, is_told, .. } = self.blocks.remove(at);
        let is_truncated = completion != BlockCompletion::Complete && !is_normalized;
        let rest = match &form {
            AnthropicBlockForm::Call { arguments, .. } if !is_truncated => arguments.rest(),
            _ => None,
        };
        if let Some(rest) = rest {
            let (kind, key) = form.delta();
            put_delta(&mut self.frame, index, kind, out, |writer| writer.text_member(key, rest));
        }
        if !is_told {
            return;
        }
        if let AnthropicBlockForm::Thinking { is_signed: false } = form
            && !self.manner.keeps()
        {
            // Clients send reasoning back only if it has a signature, even an empty one.
            put_delta(&mut self.frame, index, SIGNATURE_DELTA, out, |writer| {
                writer.text_member(SIGNATURE, "")
            });
        }
        match is_truncated {
            true => self.cut.push(index),
            false => self.stop(index, out),
        }
    }

    fn stop(&mut self, index: i64, out: &mut Vec<u8>) {
        self.put("content_block_stop", out, |writer| {
            writer.key("index");
            writer.number(index);
        });
    }

    fn fail(&mut self, error: &UpstreamError<'_>, out: &mut Vec<u8>) {
        self.has_failed = true;
        if !self.usage.is_empty() && !self.manner.is_normalized() {
            self.flush_news(out);
        }
        let (is_normalized, answer) = (self.manner.is_normalized(), std::mem::take(&mut self.answer));
        self.put("error", out, |writer| {
            write_error(error, is_normalized, writer);
            answer.write(writer);
        });
    }

    fn finish(&mut self, reason: FinishReason, raw: Option<&str>, out: &mut Vec<u8>) {
        if self.manner.is_normalized() {
            self.write_end(Some(stop_reason(reason, raw)), out);
        } else if raw.is_some() {
            self.write_end(raw, out);
        }
    }

    /// Writes the fields that wait for a `message_delta`, if there are any.
    fn flush_news(&mut self, out: &mut Vec<u8>) {
        if !self.usage.is_empty() || !self.answer.is_empty() {
            self.write_end(None, out);
        }
    }

    fn write_end(&mut self, stop_reason: Option<&str>, out: &mut Vec<u8>) {
        let answer = std::mem::take(&mut self.answer);
        // Clients look for counts in every `message_delta`; unchanged ones are repeated.
        if !self.usage.is_empty() {
            std::mem::swap(&mut self.emitted_usage, &mut self.usage);
            self.usage.clear();
        }
        let usage = std::mem::take(&mut self.emitted_usage);
        let is_normalized = self.manner.is_normalized();
        self.put("message_delta", out, |writer| {
            writer.key("delta");
            writer.object();
            if answer.get("stop_reason").is_none() {
                match stop_reason {
                    Some(wire_type) => writer.text_member("stop_reason", wire_type),
                    None => writer.raw_member("stop_reason", "null"),
                }
            }
            if answer.get("stop_sequence").is_none() {
                writer.raw_member("stop_sequence", "null");
            }
            let (beside, inside): (Vec<_>, Vec<_>) =
                answer.iter().partition(|(path, _)| BESIDE.contains(path));
            crate::json::write_members(&inside, writer);
            writer.end_object();
            crate::json::write_members(&beside, writer);
            if !usage.is_empty() {
                writer.raw_member(USAGE, &usage);
            } else if is_normalized {
                writer.raw_member(USAGE, NO_USAGE);
            }
        });
        self.emitted_usage = usage;
    }

    fn put(&mut self, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
        put(&mut self.frame, name, out, members);
    }

    /// Writes a complete delta.
    fn put_complete_delta(&mut self, index: i64, value: &JsonText<'_>, out: &mut Vec<u8>) {
        self.put("content_block_delta", out, |writer| {
            writer.key("index");
            writer.number(index);
            writer.raw_member("delta", value.as_str());
        });
    }

    /// Writes a complete event.
    fn put_raw(&mut self, name: &str, value: &JsonText<'_>, out: &mut Vec<u8>) {
        self.frame.clear();
        let mut writer = JsonWriter(&mut self.frame);
        writer.raw(value.as_str());
        for piece in ["event: ", name, "\ndata: ", &self.frame, "\n\n"] {
            out.extend_from_slice(piece.as_bytes());
        }
    }
}

/// Writes one event; `members` adds to its object.
fn put(frame: &mut String, name: &str, out: &mut Vec<u8>, members: impl FnOnce(&mut JsonWriter<'_>)) {
    frame.clear();
    frame.push_str("event: ");
    frame.push_str(name);
    frame.push_str("\ndata: ");
    let mut writer = JsonWriter(frame);
    writer.object();
    writer.text_member("type", name);
    members(&mut writer);
    writer.end_object();
    frame.push_str("\n\n");
    out.extend_from_slice(frame.as_bytes());
}

/// Writes a delta of the block with that number.
fn put_delta(
    frame: &mut String,
    index: i64,
    kind: &str,
    out: &mut Vec<u8>,
    extra: impl FnOnce(&mut JsonWriter<'_>),
) {
    put(frame, "content_block_delta", out, |writer| {
        writer.key("index");
        writer.number(index);
        writer.key("delta");
        writer.object();
        if !kind.is_empty() {
            writer.text_member("type", kind);
        }
        extra(writer);
        writer.end_object();
    });
}
