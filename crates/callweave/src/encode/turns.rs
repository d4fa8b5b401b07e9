//! One block at a time, for wires that cannot interleave blocks.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::event::{BlockId, BlockKind, DeltaKind, Event, EventKind, EventScope};

/// The blocks that clients can read in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientReading {
    /// One block, of the first choice that was mentioned: such wires have no other.
    Block,
    /// One block of each choice.
    BlockOfEach,
    /// One text of each choice. Calls are numbered, and any of them may grow.
    TextOfEach,
}

/// Puts events in an order that clients can read.
///
/// The first block is emitted as it comes. A block that begins beside it waits for its turn, and is then emitted at
/// once as far as it has grown. Events that are not about a block are emitted as they come.
pub(super) struct BlockSerializer {
    reading: ClientReading,
    /// The choices that were mentioned.
    lanes: Vec<(u32, ChoiceBlocks)>,
}

/// The blocks of a choice.
#[derive(Default)]
struct ChoiceBlocks {
    open: Option<BlockId>,
    waiting: VecDeque<Vec<Event<'static>>>,
    /// The position of each block that waits, or has waited, in the order of all such blocks.
    turns: HashMap<BlockId, usize>,
    /// The number of blocks that have had their turn.
    served: usize,
}

impl BlockSerializer {
    pub(super) fn new(reading: ClientReading) -> Self {
        Self { reading, lanes: Vec::new() }
    }

    /// Whether the event continues the block being emitted, as nearly all events do.
    pub(super) fn continues(&self, event: &Event<'_>) -> bool {
        match (&event.body, self.lanes.first()) {
            (EventKind::Delta { block, .. }, Some((choice, lane))) => {
                (*choice, lane.open) == (event.choice, Some(*block))
            }
            _ => false,
        }
    }

    /// Takes the next event; `put` gets the events that can be emitted now.
    pub(super) fn push(&mut self, event: &Event<'_>, put: &mut dyn FnMut(&Event<'_>)) {
        if let EventKind::Start { .. } = event.body {
            self.lanes.clear();
        }
        if !is_of_choice(&event.body) {
            return put(event);
        }
        let at = match self.lanes.iter().position(|(choice, _)| *choice == event.choice) {
            Some(at) => at,
            None if self.reading == ClientReading::Block && !self.lanes.is_empty() => return,
            None => {
                self.lanes.push((event.choice, ChoiceBlocks::default()));
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[at].1;
        match event.body.block() {
            Some(block)
                if self.reading != ClientReading::TextOfEach || lane.is_in_turn(block, &event.body) =>
            {
                lane.push(block, event, put);
            }
            _ => put(event),
        }
    }
}

impl ChoiceBlocks {
    /// Whether the block must wait for its turn, as texts must where calls need not.
    fn is_in_turn(&self, block: BlockId, body: &EventKind<'_>) -> bool {
        match body {
            EventKind::BlockStart { kind, .. } => !matches!(kind, BlockKind::ToolCall { .. }),
            _ => self.open == Some(block) || self.turns.get(&block).is_some_and(|turn| *turn >= self.served),
        }
    }

    fn push(&mut self, block: BlockId, event: &Event<'_>, put: &mut dyn FnMut(&Event<'_>)) {
        match &event.body {
            EventKind::BlockStart { .. } if self.open.is_some() => {
                self.turns.insert(block, self.served + self.waiting.len());
                self.waiting.push_back(vec![event.clone().into_owned()]);
            }
            EventKind::BlockStart { .. } => {
                self.open = Some(block);
                put(event);
            }
            _ if self.open == Some(block) => {
                put(event);
                if let EventKind::BlockEnd { .. } = event.body {
                    self.serve(put);
                }
            }
            _ => self.hold(block, event),
        }
    }

    /// Adds an event to the waiting events of a block.
    fn hold(&mut self, block: BlockId, event: &Event<'_>) {
        let at = self.turns.get(&block).and_then(|turn| turn.checked_sub(self.served));
        let Some(events) = at.and_then(|at| self.waiting.get_mut(at)) else { return };
        match (&event.body, events.last_mut()) {
            (
                EventKind::Delta { text, .. },
                Some(Event { body: EventKind::Delta { text: Cow::Owned(all), .. }, .. }),
            ) => {
                all.push_str(text);
            }
            // The client has seen neither the corrected text nor the missing id.
            (EventKind::Correction { text, .. }, _) => {
                events.retain(|event| !matches!(event.body, EventKind::Delta { .. }));
                if let Some(kind) = events.first().and_then(|event| delta_kind(&event.body)) {
                    let text = text.to_string().into();
                    events.push(Event::new(event.choice, EventKind::Delta { block, kind, text }));
                }
            }
            (EventKind::Identity { id: Some(new), .. }, _) => {
                if let Some(Event { body: EventKind::BlockStart { kind, .. }, .. }) = events.first_mut()
                    && let BlockKind::ToolCall { id, is_made, .. } = kind
                {
                    (*id, *is_made) = (Some(new.to_string().into()), false);
                }
            }
            _ => events.push(event.clone().into_owned()),
        }
    }

    /// Emits the waiting events, up to the first block that has not ended.
    fn serve(&mut self, put: &mut dyn FnMut(&Event<'_>)) {
        self.open = None;
        while let Some(events) = self.waiting.pop_front() {
            self.served += 1;
            events.iter().for_each(&mut *put);
            let is_over = matches!(events.last(), Some(Event { body: EventKind::BlockEnd { .. }, .. }));
            if !is_over {
                self.open = events.first().and_then(|event| event.body.block());
                return;
            }
        }
    }
}

/// Whether the event is about a choice, not about the response.
pub(crate) fn is_of_choice(body: &EventKind<'_>) -> bool {
    match body {
        EventKind::Start { .. }
        | EventKind::Usage { .. }
        | EventKind::Error(_)
        | EventKind::Notice(_)
        | EventKind::End => false,
        EventKind::Extra { scope, .. }
        | EventKind::Identity { scope, .. }
        | EventKind::Attachment { scope, .. }
        | EventKind::Progress { scope, .. } => *scope != EventScope::Response,
        EventKind::ChoiceStart
        | EventKind::ItemStart { .. }
        | EventKind::ItemEnd { .. }
        | EventKind::BlockStart { .. }
        | EventKind::Delta { .. }
        | EventKind::Correction { .. }
        | EventKind::BlockEnd { .. }
        | EventKind::Finish { .. }
        | EventKind::Markup { .. } => true,
    }
}

/// The kind of the deltas of a block with this start.
fn delta_kind(body: &EventKind<'_>) -> Option<DeltaKind> {
    let EventKind::BlockStart { kind, .. } = body else { return None };
    match kind {
        BlockKind::Text => Some(DeltaKind::Text),
        BlockKind::Reasoning(_) => Some(DeltaKind::Reasoning),
        BlockKind::Refusal => Some(DeltaKind::Refusal),
        BlockKind::ToolCall { .. } => Some(DeltaKind::Arguments),
        BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => None,
    }
}
