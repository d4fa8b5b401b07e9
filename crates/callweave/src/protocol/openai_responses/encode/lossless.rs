//! Events → the stream they came from.
//!
//! Nearly every event has a wire event of its own. An event without one goes into the next suitable wire event:
//! attachments and changes of an item into the item's end, fields beside content into the next event of the same item.
//! Fields of the response itself come from a snapshot of the response, and so do all events that follow up to the end
//! of that snapshot: a step of the response, or its end.

use super::body::{ResponseClosing, WritingPhase, is_event, is_response_error, splice, text};
use super::plan::{BlockSpot, ResponseDraft};
use super::{NO_LOGPROBS, NumberedFrames, WrittenPart};
use crate::encode::{EncodeOptions, StreamEncoder, put_event};
use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, ItemId,
    JsonText,
};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Block, BlockContent, ExtraFields, ToolCall};
use crate::protocol::openai_responses::{INCOMPLETE, READ, VOLATILE};
use crate::upstream::UpstreamError;

pub(super) struct LosslessEncoder {
    options: EncodeOptions,
    frames: NumberedFrames,
    state: LosslessState,
}

/// The state of the response.
#[derive(Default)]
struct LosslessState {
    draft: ResponseDraft,
    /// Whether a snapshot of the response has been written.
    is_begun: bool,
    /// Whether the events come from a snapshot of the response.
    is_snapshot: bool,
    /// Whether the output of that snapshot has passed.
    is_past_output: bool,
    /// An item with a start that waits for further fields.
    starting: Option<usize>,
    /// The fields of an event of the item beside its content.
    beside: Option<(usize, MemberPaths)>,
    /// Log probabilities of the text that comes next.
    logprobs: Option<(BlockId, String)>,
    /// The block that was annotated last, and the number of its annotations.
    annotated: Option<(BlockId, usize)>,
    /// The number of written errors, and extra fields that may have come with the next one.
    errors: usize,
    news: ExtraFields,
    next_index: i64,
}

impl LosslessEncoder {
    pub(super) fn new(options: &EncodeOptions) -> Self {
        Self { options: options.clone(), frames: NumberedFrames::default(), state: LosslessState::default() }
    }
}

impl StreamEncoder for LosslessEncoder {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let EventKind::Start { .. } = event.body {
            self.state = LosslessState::default();
            self.frames.sequence = 0;
        }
        let state = &self.state;
        if state.starting.is_some_and(|entry| !state.belongs(entry, &event.body)) {
            self.start_item(out);
        }
        let is_next = |(block, _): &(BlockId, String)| matches!(&event.body, EventKind::Delta { block: grown, .. } if grown == block);
        if self.state.logprobs.as_ref().is_some_and(|logprobs| !is_next(logprobs)) {
            self.grow(None, out);
        }
        let known = self.state.draft.plan.entries.len();
        if !self.state.draft.take(event) {
            return;
        }
        if self.state.draft.plan.entries.len() > known {
            self.state.number(known);
        }
        if self.frames.repeat(event, out) {
            return;
        }
        self.write(&event.body, out);
    }
}

impl LosslessState {
    /// Whether the event belongs to the start of the item.
    fn belongs(&self, entry: usize, body: &EventKind<'_>) -> bool {
        let is_its = |item: ItemId| self.draft.plan.entry_of(item) == Some(entry);
        match body {
            EventKind::BlockStart { item: Some(item), kind: BlockKind::ToolCall { .. }, .. } => is_its(*item),
            EventKind::Attachment {
                scope: EventScope::Item(item), kind: AttachmentKind::Encrypted, ..
            } => is_its(*item),
            EventKind::Notice(_) => true,
            _ => false,
        }
    }

    /// Numbers a new entry.
    fn number(&mut self, entry: usize) {
        let entry = &mut self.draft.plan.entries[entry];
        entry.output_index = self.next_index;
        // Blocks without an item have only their own events.
        entry.is_emitted = entry.item.is_some();
        self.next_index = self.next_index.saturating_add(1);
    }

    fn block(&self, spot: BlockSpot) -> Option<&Block> {
        self.draft.message().first()?.blocks.get(spot.block)
    }
}

impl LosslessEncoder {
    fn write(&mut self, body: &EventKind<'_>, out: &mut Vec<u8>) {
        let is_about_response = match body {
            EventKind::Extra { scope: EventScope::Response, path, value } => {
                self.state.news.set(path.as_ref(), value.clone().into_owned());
                true
            }
            EventKind::Identity { scope: EventScope::Response, .. } => true,
            EventKind::Usage { .. } => {
                self.frames.templates.forget();
                self.state.is_past_output = true;
                true
            }
            _ => false,
        };
        if is_about_response {
            self.state.is_snapshot = true;
            return;
        }
        match body {
            EventKind::ItemStart { item, .. } => {
                let LosslessState { draft, starting, is_snapshot, .. } = &mut self.state;
                *starting = draft.plan.entry_of(*item).filter(|_| !*is_snapshot);
            }
            EventKind::BlockStart { block, .. } => self.start_block(*block, out),
            EventKind::Progress { scope: EventScope::Response, wire_type, value } => {
                self.step(wire_type, value.as_ref(), out)
            }
            EventKind::End => self.end(out),
            EventKind::Error(_) if self.state.is_snapshot => self.state.is_past_output = true,
            EventKind::ItemEnd { item } if self.state.is_snapshot => self.end_unsaid(*item),
            _ if self.state.is_snapshot => {}
            EventKind::Delta { block, text, .. } => self.delta(*block, text, out),
            EventKind::Progress { scope, wire_type, value } => {
                self.progress(*scope, wire_type, value.as_ref(), out)
            }
            EventKind::Attachment { scope, kind, value, .. } => self.attach(*scope, *kind, value, out),
            EventKind::Correction { block, .. } => self.restate(*block, out),
            EventKind::BlockEnd { block, completion } => self.end_block(*block, *completion, out),
            EventKind::ItemEnd { item } => self.end_item(*item, out),
            EventKind::Extra { scope: EventScope::Item(item), path, value } => {
                self.say_beside(*item, path, value)
            }
            EventKind::Error(_) => self.fail(out),
            _ => {}
        }
    }

    /// Writes a first snapshot of the response if it has an id, a model or extra fields.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let message = self.state.draft.message();
        let is_named = message.id.is_some() || message.model.is_some() || !message.extra.is_empty();
        if !self.state.is_begun && is_named && !message.wire_type.is_empty() {
            self.snapshot("response.created", &ResponseClosing::step("in_progress"), false, out);
        }
    }

    fn snapshot(&mut self, name: &str, closing: &ResponseClosing<'_>, has_output: bool, out: &mut Vec<u8>) {
        let Self { frames, state, options } = self;
        state.is_begun = true;
        let plan = has_output.then_some(&state.draft.plan);
        frames.snapshot(name, &state.draft.response(options), closing, plan, out);
    }

    fn step(&mut self, wire_type: &str, value: Option<&JsonText<'_>>, out: &mut Vec<u8>) {
        let status = match wire_type {
            "response.created" | "response.in_progress" => "in_progress",
            "response.queued" => "queued",
            _ => return self.frames.put(wire_type, out, |writer| splice(value, writer)),
        };
        self.snapshot(wire_type, &ResponseClosing::step(status), false, out);
        self.state.is_snapshot = false;
        self.state.is_past_output = false;
        self.state.news = ExtraFields::default();
    }

    fn start_item(&mut self, out: &mut Vec<u8>) {
        let Some(entry) = self.state.starting.take() else { return };
        self.begin(out);
        let Self { frames, state, options } = self;
        let entry = &state.draft.plan.entries[entry];
        frames.item(&state.draft.response(options), entry, WritingPhase::Begin, out);
    }

    fn start_block(&mut self, block: BlockId, out: &mut Vec<u8>) {
        let LosslessState { draft, next_index, starting, is_snapshot, .. } = &mut self.state;
        let Some(spot) = draft.plan.spot(block) else { return };
        let (choice, plan) = draft.parts();
        let Some(own) = choice.and_then(|choice| choice.blocks.get(spot.block)) else { return };
        let entry = &mut plan.entries[spot.entry];
        let is_call = matches!(own.content, BlockContent::ToolCall(_));
        let is_starting = *starting == Some(spot.entry) || *is_snapshot || entry.item.is_none();
        // A call has the number of its item on the wire.
        if let Some(index) = own.index.filter(|_| is_call && is_starting) {
            entry.output_index = index;
            *next_index = (*next_index).max(index.saturating_add(1));
        }
        if *is_snapshot {
            return;
        }
        match &own.content {
            BlockContent::ToolCall(_) => self.start_item(out),
            BlockContent::ToolResult(_) => {}
            BlockContent::Opaque(_) => self.part(block, WritingPhase::End, out),
            BlockContent::Text(_) | BlockContent::Refusal(_) | BlockContent::Reasoning { .. } => {
                self.part(block, WritingPhase::Begin, out);
            }
        }
    }

    /// Writes a frame about a block, with the fields that wait for one of its item.
    fn put_part(
        &mut self,
        block: BlockId,
        put: impl FnOnce(&mut NumberedFrames, &WrittenPart<'_>, &MemberPaths),
    ) {
        let Some(spot) = self.state.draft.plan.spot(block) else { return };
        let beside = self.take_beside(spot.entry);
        let Self { frames, state, options } = self;
        let Some(block) = state.block(spot) else { return };
        let entry = &state.draft.plan.entries[spot.entry];
        let (response, number) = (state.draft.response(options), block.index.unwrap_or(0));
        put(frames, &WrittenPart { response, entry, block, number }, &beside);
    }

    /// Writes a block as a part.
    fn part(&mut self, block: BlockId, phase: WritingPhase, out: &mut Vec<u8>) {
        self.begin(out);
        self.put_part(block, |frames, part, beside| frames.part(part, phase, beside, out));
    }

    fn delta(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        match self.state.logprobs.is_some() {
            true => self.grow(Some(text), out),
            false => self.grow_block(block, text, NO_LOGPROBS, out),
        }
    }

    /// Writes the waiting log probabilities, with their text.
    fn grow(&mut self, text: Option<&str>, out: &mut Vec<u8>) {
        if let Some((block, logprobs)) = self.state.logprobs.take() {
            self.grow_block(block, text.unwrap_or_default(), &logprobs, out);
        }
    }

    fn grow_block(&mut self, block: BlockId, text: &str, logprobs: &str, out: &mut Vec<u8>) {
        if self.state.draft.plan.spot(block).is_some() {
            self.begin(out);
        }
        self.put_part(block, |frames, part, beside| frames.delta(part, text, logprobs, beside, out));
    }

    /// Writes the complete text of a block.
    fn restate(&mut self, block: BlockId, out: &mut Vec<u8>) {
        self.put_part(block, |frames, part, beside| {
            if let Some(text) = text(part.block) {
                frames.done(part, text, NO_LOGPROBS, beside, out);
            }
        });
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let Some(spot) = self.state.draft.plan.spot(block) else { return };
        let Some(own) = self.state.block(spot) else { return };
        match &own.content {
            BlockContent::ToolCall(call)
                if completion != BlockCompletion::Complete && call.raw_arguments.is_empty() => {}
            // Fields beside the end of a call came with the end of its item.
            BlockContent::ToolCall(_) => {
                let beside = self.state.beside.take();
                self.restate(block, out);
                self.state.beside = beside;
            }
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
            BlockContent::Text(_) | BlockContent::Refusal(_) | BlockContent::Reasoning { .. } => {
                self.restate(block, out);
                self.part(block, WritingPhase::End, out);
            }
        }
    }

    fn end_item(&mut self, item: ItemId, out: &mut Vec<u8>) {
        let Some(at) = self.state.draft.plan.entry_of(item) else { return };
        self.take_beside(at);
        let Self { frames, state, options } = self;
        let (Some(choice), plan) = state.draft.parts() else { return };
        let entry = &mut plan.entries[at];
        entry.end(choice, false);
        let status = entry.item.and_then(|at| choice.items.get(at)?.extra.get("status"));
        let is_said = status.and_then(JsonText::to_text).is_some_and(|status| status == INCOMPLETE);
        let is_open = entry.call(choice).is_some_and(|block| match &block.content {
            BlockContent::ToolCall(call) => entry.is_incomplete && !is_said && !shows_cut(call),
            _ => false,
        });
        if is_open {
            entry.is_emitted = false;
            return;
        }
        let entry = &state.draft.plan.entries[at];
        frames.item(&state.draft.response(options), entry, WritingPhase::End, out);
    }

    /// Leaves an item that only the end of the response ends out of the output: the output would end it sooner.
    fn end_unsaid(&mut self, item: ItemId) {
        let LosslessState { draft, is_past_output, .. } = &mut self.state;
        if let Some(entry) = draft.plan.entry_of(item).filter(|_| *is_past_output) {
            draft.plan.entries[entry].is_emitted = false;
        }
    }

    fn attach(&mut self, scope: EventScope, kind: AttachmentKind, value: &JsonText<'_>, out: &mut Vec<u8>) {
        // The start of the item is complete.
        self.start_item(out);
        let EventScope::Block(block) = scope else { return };
        match kind {
            AttachmentKind::Logprobs => {
                let value = value.as_str().trim_ascii();
                let list = if value.starts_with('[') { value.to_owned() } else { format!("[{value}]") };
                self.state.logprobs = Some((block, list));
            }
            AttachmentKind::Annotation => self.annotate(block, value, out),
            AttachmentKind::Signature | AttachmentKind::Encrypted => {}
        }
    }

    fn annotate(&mut self, block: BlockId, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let mut annotated = self.state.annotated;
        self.put_part(block, |frames, part, beside| {
            let own = part.block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation);
            let count = match annotated {
                Some((latest, count)) if latest == block => count,
                _ => own.count() - 1,
            };
            frames.annotation(part, count, value, beside, out);
            annotated = Some((block, count + 1));
        });
        self.state.annotated = annotated;
    }

    fn progress(
        &mut self,
        scope: EventScope,
        wire_type: &str,
        value: Option<&JsonText<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        let entry = match scope {
            EventScope::Item(item) => self.state.draft.plan.entry_of(item),
            EventScope::Response | EventScope::Choice | EventScope::Block(_) => None,
        };
        let Self { frames, state, options } = self;
        let entry = entry.map(|at| &state.draft.plan.entries[at]);
        frames.progress(wire_type, value, &state.draft.response(options), entry, out);
    }

    /// Keeps a field beside the content of an item's event, where an event can hold it.
    fn say_beside(&mut self, item: ItemId, path: &str, value: &JsonText<'_>) {
        let Some(entry) = self.state.draft.plan.entry_of(item) else { return };
        if self.state.draft.plan.entries[entry].is_ended || READ.contains(&path) || VOLATILE.contains(&path) {
            return;
        }
        match &mut self.state.beside {
            Some((own, beside)) if *own == entry => beside.set(path, value.as_str()),
            beside => {
                let mut paths = MemberPaths::default();
                paths.set(path, value.as_str());
                *beside = Some((entry, paths));
            }
        }
    }

    fn take_beside(&mut self, entry: usize) -> MemberPaths {
        self.state.beside.take_if(|(own, _)| *own == entry).map(|(_, paths)| paths).unwrap_or_default()
    }

    /// Writes the newest error, unless the response itself holds it.
    fn fail(&mut self, out: &mut Vec<u8>) {
        let message = self.state.draft.message();
        if message.errors.last().is_some_and(is_response_error) {
            self.state.is_snapshot = true;
            self.state.is_past_output = true;
            return;
        }
        self.begin(out);
        let Self { frames, state, .. } = self;
        let message = state.draft.message();
        let Some(error) = message.errors.last() else { return };
        state.errors = message.errors.len();
        let is_first = !state.is_begun;
        write_error(error, if is_first { &message.extra } else { &state.news }, frames, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let Self { frames, state, .. } = self;
        let message = state.draft.message();
        let has_said = message
            .first()
            .and_then(|choice| choice.finish.as_ref())
            .is_some_and(|finish| finish.raw.is_some());
        if has_said {
            let closing = ResponseClosing::of(message, false);
            let response = state.draft.response(&self.options);
            return frames.snapshot(closing.event(), &response, &closing, Some(&state.draft.plan), out);
        }
        let unwritten = message.errors.get(state.errors..).and_then(<[_]>::last);
        if let Some(error) = unwritten {
            write_error(error, &state.news, frames, out);
        } else if message.errors.is_empty() {
            self.begin(out);
        }
    }
}

/// Whether a truncated call is visible as such: an end would make any other complete.
fn shows_cut(call: &ToolCall) -> bool {
    call.kind == CallKind::Function && !call.raw_arguments.is_empty()
}

fn write_error(
    error: &UpstreamError<'_>,
    extra: &ExtraFields,
    frames: &mut NumberedFrames,
    out: &mut Vec<u8>,
) {
    if is_event(error) {
        frames.frame.clear();
        JsonWriter(&mut frames.frame).raw(error.raw.as_str());
        return put_event(Some("error"), &frames.frame, out);
    }
    frames.put("error", out, |writer| {
        writer.raw_member("error", error.raw.as_str());
        extra.write(writer);
    });
}
