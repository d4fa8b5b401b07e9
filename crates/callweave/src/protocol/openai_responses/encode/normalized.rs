//! Events → the stream that clients expect, from any source protocol.
//!
//! Events only make the message and its plan grow; the output follows the plan. One item is open at a time and one part
//! of it, and it is written as far as the message has grown. Content that grows beside it waits in the message for its
//! turn.

use super::NumberedFrames;
use super::body::{
    ResponseClosing, WritingPhase, coordinates, error_code, growing, is_summary, listed, part_names, splice,
};
use super::plan::{BlockSpot, PlannedForm, ResponseDraft, is_empty, is_own};
use crate::encode::{EncodeOptions, StreamEncoder, WrittenDelta};
use crate::event::{AttachmentKind, Event, EventKind, EventScope, JsonText};
use crate::message::{Block, BlockContent};

pub(super) struct NormalizedEncoder {
    options: EncodeOptions,
    frames: NumberedFrames,
    draft: ResponseDraft,
    is_begun: bool,
    /// The position of the output.
    at: OutputCursor,
    /// Whether nothing more will come of the choice.
    is_finished: bool,
    /// The notices from before the start of the response.
    noticed: Vec<Event<'static>>,
}

/// The position of the output in the plan.
#[derive(Clone, Copy, Default)]
struct OutputCursor {
    entry: usize,
    /// The position of the block in the entry.
    block: usize,
    is_part_begun: bool,
    /// The numbers of parts in the item: summaries, and others.
    parts: [i64; 2],
    /// The number of written bytes of the block's text.
    written: usize,
    /// The number of the block's written attachments, and of the annotations among them.
    attached: usize,
    annotations: usize,
}

impl NormalizedEncoder {
    pub(super) fn new(options: &EncodeOptions) -> Self {
        Self {
            options: options.clone(),
            frames: NumberedFrames::default(),
            draft: ResponseDraft::mended(),
            is_begun: false,
            at: OutputCursor::default(),
            is_finished: false,
            noticed: Vec::new(),
        }
    }
}

impl StreamEncoder for NormalizedEncoder {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let EventKind::Start { .. } = event.body {
            let (frames, noticed) = (std::mem::take(&mut self.frames), std::mem::take(&mut self.noticed));
            *self = Self { frames: NumberedFrames { sequence: 0, ..frames }, ..Self::new(&self.options) };
            self.draft.take(event);
            // Notices from before the start belong to this response.
            for notice in &noticed {
                self.draft.take(notice);
            }
        } else if let (EventKind::Notice(_), false) = (&event.body, self.is_begun) {
            return self.noticed.push(event.clone().into_owned());
        } else if !self.draft.take(event) {
            return;
        }
        self.begin(out);
        if self.frames.repeat(event, out) {
            if let EventKind::Delta { text, .. } = &event.body {
                self.at.written += text.len();
            }
            return;
        }
        match &event.body {
            EventKind::ItemEnd { item } => {
                if let Some(entry) = self.draft.plan.entry_of(*item) {
                    self.draft.plan.entries[entry].is_ended = true;
                }
                // Only the next event shows whether the response was truncated in it.
                return;
            }
            EventKind::BlockEnd { .. } | EventKind::Notice(_) if self.waits_to_end() => return,
            EventKind::Correction { block, .. } => {
                // Written text cannot be retracted: the end of the part has the complete text.
                let Some(spot) = self.draft.plan.spot(*block) else { return };
                let is_open = self.at.is_part_begun && spot.entry == self.at.entry;
                if let Some(text) = self.block(spot).and_then(text).filter(|_| is_open) {
                    self.at.written = text.len();
                }
            }
            EventKind::Finish { .. } => self.is_finished = true,
            EventKind::Error { .. } => self.fail(out),
            EventKind::End => {
                self.end(out);
                // The next response has not begun.
                self.is_begun = false;
                return;
            }
            _ => {}
        }
        self.advance(out);
        if let EventKind::Progress { scope: EventScope::Item(item), wire_type, value } = &event.body
            && self.draft.plan.entry_of(*item) == Some(self.at.entry)
        {
            self.progress(wire_type, value.as_ref(), out);
        }
    }
}

/// The text of a block that grows.
fn text(block: &Block) -> Option<&str> {
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) | BlockContent::Reasoning { text, .. } => {
            Some(text)
        }
        BlockContent::ToolCall(call) => Some(&call.raw_arguments),
        BlockContent::ToolResult(_) | BlockContent::Opaque(_) => None,
    }
}

impl NormalizedEncoder {
    fn block(&self, spot: BlockSpot) -> Option<&Block> {
        self.draft.message().first()?.blocks.get(spot.block)
    }

    /// Whether the open item has ended and waits for the next event.
    fn waits_to_end(&self) -> bool {
        let entry = self.draft.plan.entries.get(self.at.entry);
        entry.is_some_and(|entry| entry.item.is_some() && entry.is_ended)
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.is_begun {
            return;
        }
        self.is_begun = true;
        let Self { frames, draft, options, .. } = self;
        let response = draft.response(options);
        for name in ["response.created", "response.in_progress"] {
            frames.put(name, out, |writer| {
                writer.key("response");
                response.write(&ResponseClosing::step("in_progress"), None, writer);
            });
        }
    }

    /// Writes everything that can be written.
    fn advance(&mut self, out: &mut Vec<u8>) {
        while self.at.entry < self.draft.plan.entries.len() {
            if !self.advance_blocks(out) || !self.is_over() {
                return;
            }
            self.end_item(out);
            self.at = OutputCursor { entry: self.at.entry + 1, ..OutputCursor::default() };
        }
    }

    /// Whether nothing more will come of the open item; its blocks are written.
    fn is_over(&self) -> bool {
        let entry = &self.draft.plan.entries[self.at.entry];
        let is_last = self.at.entry + 1 == self.draft.plan.entries.len();
        match entry.item {
            Some(_) => entry.is_ended || self.is_finished,
            None if entry.form.is_call() => true,
            None => !is_last || self.is_finished,
        }
    }

    /// Writes the blocks of the open item; returns false if one of them has not ended.
    fn advance_blocks(&mut self, out: &mut Vec<u8>) -> bool {
        loop {
            let entry = &self.draft.plan.entries[self.at.entry];
            let Some(choice) = self.draft.message().first() else { return false };
            let Some(&block) = entry.blocks.get(self.at.block) else {
                // An item of this protocol exists even without content, but a call needs its name first.
                if entry.item.is_some()
                    && (!entry.form.is_call() || entry.call(choice).is_some() || entry.is_ended)
                {
                    self.start_item(out);
                }
                return true;
            };
            let own = &choice.blocks[block];
            let is_ended = own.is_ended;
            let is_skipped = is_empty(own) && !self.at.is_part_begun;
            if is_skipped && entry.item.is_some() && !entry.form.is_call() {
                self.start_item(out);
            } else if !is_skipped {
                self.start_item(out);
                self.grow(block, out);
            }
            if !is_ended {
                return false;
            }
            if !is_skipped {
                self.end_block(block, out);
            }
            let OutputCursor { entry, block, parts, .. } = self.at;
            self.at = OutputCursor { entry, block: block + 1, parts, ..OutputCursor::default() };
        }
    }

    fn start_item(&mut self, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        if draft.plan.entries[at.entry].is_told {
            return;
        }
        let made = draft.response(options).made_id();
        let (Some(choice), plan) = draft.parts() else { return };
        plan.announce(at.entry, choice, &made);
        let (response, entry) = (draft.response(options), &draft.plan.entries[at.entry]);
        frames.put("response.output_item.added", out, |writer| {
            writer.key("output_index");
            writer.number(entry.output_index);
            writer.key("item");
            response.item(entry, WritingPhase::Begin, writer);
        });
    }

    /// Writes the new content of a block.
    fn grow(&mut self, block: usize, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        let Some(choice) = draft.message().first() else { return };
        let (own, entry) = (&choice.blocks[block], &draft.plan.entries[at.entry]);
        let response = draft.response(options);
        let number = at.parts[usize::from(is_summary(own))];
        if let Some((added, _, index)) = part_events(own).filter(|_| !at.is_part_begun) {
            frames.put(added, out, |writer| {
                coordinates(&response, entry, Some((index, number)), writer);
                writer.key("part");
                response.part(own, WritingPhase::Begin, writer);
            });
        }
        at.is_part_begun = true;
        let Some(growing) = growing(response.item_type(entry), own) else { return };
        let index = growing.index.map(|key| (key, number));
        let news = text(own).and_then(|text| text.get(at.written..)).unwrap_or_default();
        let attached =
            own.attachments.get(at.attached..).filter(|_| is_own(draft.message())).unwrap_or_default();
        at.written += news.len();
        at.attached += attached.len();
        if !news.is_empty() {
            let mut piece = WrittenDelta::new(news);
            frames.put(growing.delta, out, |writer| {
                coordinates(&response, entry, index, writer);
                piece.write("delta", writer);
                if let BlockContent::Text(_) = own.content {
                    writer.key("logprobs");
                    listed(attached, AttachmentKind::Logprobs, writer);
                }
            });
            if attached.is_empty() {
                frames.keep(own.id, &piece);
            }
        }
        for annotation in attached.iter().filter(|own| own.kind == AttachmentKind::Annotation) {
            frames.put("response.output_text.annotation.added", out, |writer| {
                coordinates(&response, entry, index, writer);
                writer.key("annotation_index");
                writer.number(at.annotations);
                writer.raw_member("annotation", annotation.value.as_str());
            });
            at.annotations += 1;
        }
    }

    /// Writes the end of a block after all its content.
    fn end_block(&mut self, block: usize, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        let Some(choice) = draft.message().first() else { return };
        let (own, entry) = (&choice.blocks[block], &draft.plan.entries[at.entry]);
        let response = draft.response(options);
        let number = at.parts[usize::from(is_summary(own))];
        if let Some(growing) = growing(response.item_type(entry), own) {
            let index = growing.index.map(|key| (key, number));
            let whole = match &own.content {
                BlockContent::ToolCall(call) => response.arguments(call),
                _ => text(own).unwrap_or_default(),
            };
            if at.written == 0 && !whole.is_empty() {
                frames.put(growing.delta, out, |writer| {
                    coordinates(&response, entry, index, writer);
                    writer.text_member("delta", whole);
                });
            }
            frames.put(growing.done, out, |writer| {
                coordinates(&response, entry, index, writer);
                if let (BlockContent::ToolCall(call), PlannedForm::Function) = (&own.content, entry.form) {
                    writer.text_member("name", &call.name);
                }
                writer.text_member(growing.whole, whole);
                if let BlockContent::Text(_) = own.content {
                    writer.key("logprobs");
                    let own = if is_own(draft.message()) { &own.attachments[..] } else { &[] };
                    listed(own, AttachmentKind::Logprobs, writer);
                }
            });
        }
        if let Some((_, done, index)) = part_events(own) {
            frames.put(done, out, |writer| {
                coordinates(&response, entry, Some((index, number)), writer);
                writer.key("part");
                response.part(own, WritingPhase::End, writer);
            });
            at.parts[usize::from(is_summary(own))] += 1;
        }
    }

    fn end_item(&mut self, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, is_finished, .. } = self;
        let is_last = at.entry + 1 == draft.plan.entries.len();
        let is_truncated =
            is_last && *is_finished && !ResponseClosing::of(draft.message(), true).is_completed();
        let (Some(choice), plan) = draft.parts() else { return };
        plan.entries[at.entry].end(choice, is_truncated);
        let (response, entry) = (draft.response(options), &draft.plan.entries[at.entry]);
        if entry.is_told {
            frames.put("response.output_item.done", out, |writer| {
                writer.key("output_index");
                writer.number(entry.output_index);
                writer.key("item");
                response.item(entry, WritingPhase::End, writer);
            });
        }
    }

    /// Writes progress of the open item.
    fn progress(&mut self, wire_type: &str, value: Option<&JsonText<'_>>, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        let response = draft.response(options);
        let Some(entry) = draft.plan.entries.get(at.entry).filter(|entry| entry.is_told) else { return };
        frames.put(wire_type, out, |writer| {
            coordinates(&response, entry, None, writer);
            splice(value, writer);
        });
    }

    fn fail(&mut self, out: &mut Vec<u8>) {
        let Self { frames, draft, .. } = self;
        let Some(error) = draft.message().errors.last() else { return };
        frames.put("error", out, |writer| {
            writer.text_member("code", error_code(error, true));
            writer.text_member("message", &error.message);
            writer.raw_member("param", "null");
        });
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.is_finished = true;
        self.advance(out);
        let Self { frames, draft, options, .. } = self;
        let closing = ResponseClosing::of(draft.message(), true);
        let response = draft.response(options);
        frames.put(closing.event(), out, |writer| {
            writer.key("response");
            response.write(&closing, Some(&draft.plan), writer);
        });
    }
}

/// The events at the beginning and the end of a part, and the member that numbers it.
fn part_events(block: &Block) -> Option<(&'static str, &'static str, &'static str)> {
    match block.content {
        BlockContent::ToolCall(_) | BlockContent::ToolResult(_) => None,
        _ => Some(part_names(block)),
    }
}
