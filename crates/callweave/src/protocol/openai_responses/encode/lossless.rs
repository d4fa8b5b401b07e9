//! Events → the stream they came from.
//!
//! Nearly every event has a wire event of its own. An event without one goes into the next suitable wire event:
//! attachments and changes of an item into the item's end, fields beside content into the next event of the same item.
//! Fields of the response itself come from a snapshot of the response, and so do all events that follow up to the end
//! of that snapshot: a step of the response, or its end.

use super::NumberedFrames;
use super::body::{
    ResponseClosing, WritingPhase, coordinates, growing, is_event, is_response_error, part_names, splice,
};
use super::plan::{BlockSpot, PlannedForm, ResponseDraft};
use crate::encode::{EncodeOptions, StreamEncoder, WrittenDelta};
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
    answer: LosslessState,
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
        Self { options: options.clone(), frames: NumberedFrames::default(), answer: LosslessState::default() }
    }
}

impl StreamEncoder for LosslessEncoder {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let EventKind::Start { .. } = event.body {
            self.answer = LosslessState::default();
            self.frames.sequence = 0;
        }
        let answer = &self.answer;
        if answer.starting.is_some_and(|entry| !answer.belongs(entry, &event.body)) {
            self.start_item(out);
        }
        let is_next = |(block, _): &(BlockId, String)| matches!(&event.body, EventKind::Delta { block: grown, .. } if grown == block);
        if self.answer.logprobs.as_ref().is_some_and(|logprobs| !is_next(logprobs)) {
            self.grow(None, out);
        }
        let known = self.answer.draft.plan.entries.len();
        if !self.answer.draft.take(event) {
            return;
        }
        if self.answer.draft.plan.entries.len() > known {
            self.answer.number(known);
        }
        if self.frames.repeat(event, out) {
            return;
        }
        self.tell(&event.body, out);
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
        entry.is_told = entry.item.is_some();
        self.next_index = self.next_index.saturating_add(1);
    }

    fn block(&self, spot: BlockSpot) -> Option<&Block> {
        self.draft.message().first()?.blocks.get(spot.block)
    }
}

impl LosslessEncoder {
    fn tell(&mut self, body: &EventKind<'_>, out: &mut Vec<u8>) {
        let is_about_response = match body {
            EventKind::Extra { scope: EventScope::Response, path, value } => {
                self.answer.news.set(path.as_ref(), value.clone().into_owned());
                true
            }
            EventKind::Identity { scope: EventScope::Response, .. } => true,
            EventKind::Usage { .. } => {
                self.frames.stamps.forget();
                self.answer.is_past_output = true;
                true
            }
            _ => false,
        };
        if is_about_response {
            self.answer.is_snapshot = true;
            return;
        }
        match body {
            EventKind::ItemStart { item, .. } => {
                let LosslessState { draft, starting, is_snapshot, .. } = &mut self.answer;
                *starting = draft.plan.entry_of(*item).filter(|_| !*is_snapshot);
            }
            EventKind::BlockStart { block, .. } => self.start_block(*block, out),
            EventKind::Progress { scope: EventScope::Response, wire_type, value } => {
                self.step(wire_type, value.as_ref(), out)
            }
            EventKind::End => self.end(out),
            EventKind::Error(_) if self.answer.is_snapshot => self.answer.is_past_output = true,
            EventKind::ItemEnd { item } if self.answer.is_snapshot => self.end_unsaid(*item),
            _ if self.answer.is_snapshot => {}
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
        let message = self.answer.draft.message();
        let is_named = message.id.is_some() || message.model.is_some() || !message.extra.is_empty();
        if !self.answer.is_begun && is_named && !message.wire_type.is_empty() {
            self.snapshot("response.created", &ResponseClosing::step("in_progress"), false, out);
        }
    }

    fn snapshot(&mut self, name: &str, closing: &ResponseClosing<'_>, has_output: bool, out: &mut Vec<u8>) {
        let Self { frames, answer, options } = self;
        answer.is_begun = true;
        let (response, plan) = (answer.draft.response(options), has_output.then_some(&answer.draft.plan));
        frames.put(name, out, |writer| {
            writer.key("response");
            response.write(closing, plan, writer);
        });
    }

    fn step(&mut self, wire_type: &str, value: Option<&JsonText<'_>>, out: &mut Vec<u8>) {
        let status = match wire_type {
            "response.created" | "response.in_progress" => "in_progress",
            "response.queued" => "queued",
            _ => return self.frames.put(wire_type, out, |writer| splice(value, writer)),
        };
        self.snapshot(wire_type, &ResponseClosing::step(status), false, out);
        self.answer.is_snapshot = false;
        self.answer.is_past_output = false;
        self.answer.news = ExtraFields::default();
    }

    fn start_item(&mut self, out: &mut Vec<u8>) {
        let Some(entry) = self.answer.starting.take() else { return };
        self.begin(out);
        let Self { frames, answer, options } = self;
        let (response, entry) = (answer.draft.response(options), &answer.draft.plan.entries[entry]);
        frames.put("response.output_item.added", out, |writer| {
            writer.key("output_index");
            writer.number(entry.output_index);
            writer.key("item");
            response.item(entry, WritingPhase::Begin, writer);
        });
    }

    fn start_block(&mut self, block: BlockId, out: &mut Vec<u8>) {
        let LosslessState { draft, next_index, starting, is_snapshot, .. } = &mut self.answer;
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

    /// Writes a block as a part.
    fn part(&mut self, block: BlockId, phase: WritingPhase, out: &mut Vec<u8>) {
        self.begin(out);
        let Some(spot) = self.answer.draft.plan.spot(block) else { return };
        let beside = self.take_beside(spot.entry);
        let Self { frames, answer, options } = self;
        let Some(block) = answer.block(spot) else { return };
        let response = answer.draft.response(options);
        let entry = &answer.draft.plan.entries[spot.entry];
        let index = block.index.unwrap_or(0);
        let (added, done, key) = part_names(block);
        let name = if phase == WritingPhase::Begin { added } else { done };
        frames.put(name, out, |writer| {
            coordinates(&response, entry, Some((key, index)), writer);
            writer.key("part");
            response.part(block, phase, writer);
            beside.write(writer);
        });
    }

    fn delta(&mut self, block: BlockId, text: &str, out: &mut Vec<u8>) {
        match self.answer.logprobs.is_some() {
            true => self.grow(Some(text), out),
            false => self.grow_block(block, text, None, out),
        }
    }

    /// Writes the waiting log probabilities, with their text.
    fn grow(&mut self, text: Option<&str>, out: &mut Vec<u8>) {
        if let Some((block, logprobs)) = self.answer.logprobs.take() {
            self.grow_block(block, text.unwrap_or_default(), Some(&logprobs), out);
        }
    }

    fn grow_block(&mut self, block: BlockId, text: &str, logprobs: Option<&str>, out: &mut Vec<u8>) {
        let Some(spot) = self.answer.draft.plan.spot(block) else { return };
        self.begin(out);
        let beside = self.take_beside(spot.entry);
        let Self { frames, answer, options } = self;
        let Some(block) = answer.block(spot) else { return };
        let (response, entry) = (answer.draft.response(options), &answer.draft.plan.entries[spot.entry]);
        let index = block.index.unwrap_or(0);
        let Some(growing) = growing(response.item_type(entry), block) else { return };
        let mut piece = WrittenDelta::new(text);
        frames.put(growing.delta, out, |writer| {
            coordinates(&response, entry, growing.index.map(|key| (key, index)), writer);
            piece.write("delta", writer);
            if let BlockContent::Text(_) = block.content {
                writer.raw_member("logprobs", logprobs.unwrap_or("[]"));
            }
            beside.write(writer);
        });
        if logprobs.is_none() && beside.is_empty() {
            frames.keep(block.id, &piece);
        }
    }

    /// Writes the complete text of a block.
    fn restate(&mut self, block: BlockId, out: &mut Vec<u8>) {
        let Some(spot) = self.answer.draft.plan.spot(block) else { return };
        let beside = self.take_beside(spot.entry);
        let Self { frames, answer, options } = self;
        let Some(block) = answer.block(spot) else { return };
        let (response, entry) = (answer.draft.response(options), &answer.draft.plan.entries[spot.entry]);
        let index = block.index.unwrap_or(0);
        let Some(growing) = growing(response.item_type(entry), block) else { return };
        let text = match &block.content {
            BlockContent::Text(text) | BlockContent::Refusal(text) | BlockContent::Reasoning { text, .. } => {
                text
            }
            BlockContent::ToolCall(call) => &call.raw_arguments,
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => return,
        };
        let is_function = entry.form == PlannedForm::Function;
        frames.put(growing.done, out, |writer| {
            coordinates(&response, entry, growing.index.map(|key| (key, index)), writer);
            if is_function && let BlockContent::ToolCall(call) = &block.content {
                writer.text_member("name", &call.name);
            }
            writer.text_member(growing.whole, text);
            if let BlockContent::Text(_) = block.content {
                writer.raw_member("logprobs", "[]");
            }
            beside.write(writer);
        });
    }

    fn end_block(&mut self, block: BlockId, completion: BlockCompletion, out: &mut Vec<u8>) {
        let Some(spot) = self.answer.draft.plan.spot(block) else { return };
        let Some(own) = self.answer.block(spot) else { return };
        match &own.content {
            BlockContent::ToolCall(call)
                if completion != BlockCompletion::Complete && call.raw_arguments.is_empty() => {}
            // Fields beside the end of a call came with the end of its item.
            BlockContent::ToolCall(_) => {
                let beside = self.answer.beside.take();
                self.restate(block, out);
                self.answer.beside = beside;
            }
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
            BlockContent::Text(_) | BlockContent::Refusal(_) | BlockContent::Reasoning { .. } => {
                self.restate(block, out);
                self.part(block, WritingPhase::End, out);
            }
        }
    }

    fn end_item(&mut self, item: ItemId, out: &mut Vec<u8>) {
        let Some(at) = self.answer.draft.plan.entry_of(item) else { return };
        self.take_beside(at);
        let Self { frames, answer, options } = self;
        let (Some(choice), plan) = answer.draft.parts() else { return };
        let entry = &mut plan.entries[at];
        entry.end(choice, false);
        let status = entry.item.and_then(|at| choice.items.get(at)?.extra.get("status"));
        let is_said = status.and_then(JsonText::to_text).is_some_and(|status| status == INCOMPLETE);
        let is_open = entry.call(choice).is_some_and(|block| match &block.content {
            BlockContent::ToolCall(call) => entry.is_incomplete && !is_said && !shows_cut(call),
            _ => false,
        });
        if is_open {
            entry.is_told = false;
            return;
        }
        let (response, entry) = (answer.draft.response(options), &answer.draft.plan.entries[at]);
        frames.put("response.output_item.done", out, |writer| {
            writer.key("output_index");
            writer.number(entry.output_index);
            writer.key("item");
            response.item(entry, WritingPhase::End, writer);
        });
    }

    /// Leaves an item that only the end of the response ends out of the output: the output would end it sooner.
    fn end_unsaid(&mut self, item: ItemId) {
        let LosslessState { draft, is_past_output, .. } = &mut self.answer;
        if let Some(entry) = draft.plan.entry_of(item).filter(|_| *is_past_output) {
            draft.plan.entries[entry].is_told = false;
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
                self.answer.logprobs = Some((block, list));
            }
            AttachmentKind::Annotation => self.annotate(block, value, out),
            AttachmentKind::Signature | AttachmentKind::Encrypted => {}
        }
    }

    fn annotate(&mut self, block: BlockId, value: &JsonText<'_>, out: &mut Vec<u8>) {
        let Some(spot) = self.answer.draft.plan.spot(block) else { return };
        let beside = self.take_beside(spot.entry);
        let Self { frames, answer, options } = self;
        let Some(block) = answer.block(spot) else { return };
        let (response, entry) = (answer.draft.response(options), &answer.draft.plan.entries[spot.entry]);
        let index = block.index.unwrap_or(0);
        let count = match answer.annotated {
            Some((latest, count)) if latest == block.id => count,
            _ => block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation).count() - 1,
        };
        frames.put("response.output_text.annotation.added", out, |writer| {
            coordinates(&response, entry, Some(("content_index", index)), writer);
            writer.key("annotation_index");
            writer.number(count);
            writer.raw_member("annotation", value.as_str());
            beside.write(writer);
        });
        answer.annotated = Some((block.id, count + 1));
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
            EventScope::Item(item) => self.answer.draft.plan.entry_of(item),
            EventScope::Response | EventScope::Choice | EventScope::Block(_) => None,
        };
        let Self { frames, answer, options } = self;
        let response = answer.draft.response(options);
        frames.put(wire_type, out, |writer| {
            if let Some(entry) = entry.map(|at| &answer.draft.plan.entries[at]) {
                coordinates(&response, entry, None, writer);
            }
            splice(value, writer);
        });
    }

    /// Keeps a field beside the content of an item's event, where an event can hold it.
    fn say_beside(&mut self, item: ItemId, path: &str, value: &JsonText<'_>) {
        let Some(entry) = self.answer.draft.plan.entry_of(item) else { return };
        if self.answer.draft.plan.entries[entry].is_ended || READ.contains(&path) || VOLATILE.contains(&path)
        {
            return;
        }
        match &mut self.answer.beside {
            Some((own, beside)) if *own == entry => beside.set(path, value.as_str()),
            beside => {
                let mut paths = MemberPaths::default();
                paths.set(path, value.as_str());
                *beside = Some((entry, paths));
            }
        }
    }

    fn take_beside(&mut self, entry: usize) -> MemberPaths {
        self.answer.beside.take_if(|(own, _)| *own == entry).map(|(_, paths)| paths).unwrap_or_default()
    }

    /// Writes the newest error, unless the response itself holds it.
    fn fail(&mut self, out: &mut Vec<u8>) {
        let message = self.answer.draft.message();
        if message.errors.last().is_some_and(is_response_error) {
            self.answer.is_snapshot = true;
            self.answer.is_past_output = true;
            return;
        }
        self.begin(out);
        let Self { frames, answer, .. } = self;
        let message = answer.draft.message();
        let Some(error) = message.errors.last() else { return };
        answer.errors = message.errors.len();
        let is_first = !answer.is_begun;
        write_error(error, if is_first { &message.extra } else { &answer.news }, frames, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let Self { frames, answer, .. } = self;
        let message = answer.draft.message();
        let has_said = message
            .first()
            .and_then(|choice| choice.finish.as_ref())
            .is_some_and(|finish| finish.raw.is_some());
        if has_said {
            let closing = ResponseClosing::of(message, false);
            let response = answer.draft.response(&self.options);
            let event = closing.event();
            frames.put(event, out, |writer| {
                writer.key("response");
                response.write(&closing, Some(&answer.draft.plan), writer);
            });
            return;
        }
        let unwritten = message.errors.get(answer.errors..).and_then(<[_]>::last);
        if let Some(error) = unwritten {
            write_error(error, &answer.news, frames, out);
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
        frames.scratch.clear();
        frames.scratch.push_str("event: error\ndata: ");
        JsonWriter(&mut frames.scratch).raw(error.raw.as_str());
        frames.scratch.push_str("\n\n");
        out.extend_from_slice(frames.scratch.as_bytes());
        return;
    }
    let extra: Vec<_> = extra.iter().map(|(path, value)| (path, value.as_str())).collect();
    frames.put("error", out, |writer| {
        writer.raw_member("error", error.raw.as_str());
        crate::json::write_members(&extra, writer);
    });
}
