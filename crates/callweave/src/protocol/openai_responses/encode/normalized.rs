//! Events → the stream that clients expect, from any source protocol.
//!
//! Events only make the message and its plan grow; the output follows the plan. One item is open at a time and one part
//! of it, and it is written as far as the message has grown. Content that grows beside it waits in the message for its
//! turn.

use super::body::{ResponseClosing, WritingPhase, error_code, is_summary, listed, text};
use super::plan::{BlockSpot, ResponseDraft, is_empty, is_own};
use super::{NO_LOGPROBS, NumberedFrames, WrittenPart};
use crate::encode::{EncodeOptions, StreamEncoder};
use crate::event::{AttachmentKind, Event, EventKind, EventScope, JsonText};
use crate::json::MemberPaths;
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

impl OutputCursor {
    /// The block at that index of the choice, as a part of the open item.
    fn part<'m>(
        &self,
        block: usize,
        draft: &'m ResponseDraft,
        options: &'m EncodeOptions,
    ) -> Option<WrittenPart<'m>> {
        let (block, entry) = (draft.message().first()?.blocks.get(block)?, &draft.plan.entries[self.entry]);
        let number = self.parts[usize::from(is_summary(block))];
        Some(WrittenPart { response: draft.response(options), entry, block, number })
    }
}

impl NormalizedEncoder {
    pub(super) fn new(options: &EncodeOptions) -> Self {
        Self {
            options: options.clone(),
            frames: NumberedFrames::default(),
            draft: ResponseDraft::normalized(),
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
            frames.snapshot(name, &response, &ResponseClosing::step("in_progress"), None, out);
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
        if draft.plan.entries[at.entry].is_emitted {
            return;
        }
        let made = draft.response(options).made_id();
        let (Some(choice), plan) = draft.parts() else { return };
        plan.announce(at.entry, choice, &made);
        let entry = &draft.plan.entries[at.entry];
        frames.item(&draft.response(options), entry, WritingPhase::Begin, out);
    }

    /// Writes the new content of a block.
    fn grow(&mut self, block: usize, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        let Some(part) = at.part(block, draft, options) else { return };
        let (own, none) = (part.block, MemberPaths::default());
        if is_part(own) && !at.is_part_begun {
            frames.part(&part, WritingPhase::Begin, &none, out);
        }
        at.is_part_begun = true;
        if part.growing().is_none() {
            return;
        }
        let news = text(own).and_then(|text| text.get(at.written..)).unwrap_or_default();
        let attached =
            own.attachments.get(at.attached..).filter(|_| is_own(draft.message())).unwrap_or_default();
        at.written += news.len();
        at.attached += attached.len();
        if !news.is_empty() {
            frames.delta(&part, news, &listed(attached, AttachmentKind::Logprobs), &none, out);
        }
        for annotation in attached.iter().filter(|own| own.kind == AttachmentKind::Annotation) {
            frames.annotation(&part, at.annotations, &annotation.value, &none, out);
            at.annotations += 1;
        }
    }

    /// Writes the end of a block after all its content.
    fn end_block(&mut self, block: usize, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        let Some(part) = at.part(block, draft, options) else { return };
        let (own, none) = (part.block, MemberPaths::default());
        let complete = match &own.content {
            BlockContent::ToolCall(call) => part.response.arguments(call),
            _ => text(own).unwrap_or_default(),
        };
        if at.written == 0 && !complete.is_empty() {
            frames.delta(&part, complete, NO_LOGPROBS, &none, out);
        }
        let attached = if is_own(draft.message()) { &own.attachments[..] } else { &[] };
        frames.done(&part, complete, &listed(attached, AttachmentKind::Logprobs), &none, out);
        if is_part(own) {
            frames.part(&part, WritingPhase::End, &none, out);
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
        let entry = &draft.plan.entries[at.entry];
        if entry.is_emitted {
            frames.item(&draft.response(options), entry, WritingPhase::End, out);
        }
    }

    /// Writes progress of the open item.
    fn progress(&mut self, wire_type: &str, value: Option<&JsonText<'_>>, out: &mut Vec<u8>) {
        let Self { frames, draft, options, at, .. } = self;
        let entry = draft.plan.entries.get(at.entry).filter(|entry| entry.is_emitted);
        if entry.is_some() {
            frames.progress(wire_type, value, &draft.response(options), entry, out);
        }
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
        frames.snapshot(closing.event(), &draft.response(options), &closing, Some(&draft.plan), out);
    }
}

/// Whether the block is a part of an item.
fn is_part(block: &Block) -> bool {
    !matches!(block.content, BlockContent::ToolCall(_) | BlockContent::ToolResult(_))
}
