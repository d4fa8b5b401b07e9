//! One block at a time, for wires that cannot tell two at once.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::event::{BlockId, BlockKind, Body, DeltaKind, Event, Scope};

/// Puts events in an order in which one block is open at a time.
///
/// The first block flows as it comes. What begins beside it waits until its turn has come, and is then told at
/// once as far as it has grown. What is not about a block flows as it comes, and what is about another choice than
/// the first that was heard of is left out: such wires have only one.
#[derive(Default)]
pub(crate) struct Turns {
    choice: Option<u32>,
    open: Option<BlockId>,
    waiting: VecDeque<Vec<Event<'static>>>,
    /// Where each block that waits, or has waited, stands in the order of all that had to.
    places: HashMap<BlockId, usize>,
    /// How many have had their turn.
    served: usize,
}

impl Turns {
    /// Takes the next event; `put` gets what can be told now.
    pub(crate) fn push(&mut self, event: &Event<'_>, put: &mut dyn FnMut(&Event<'_>)) {
        if let Body::Start { .. } = event.body {
            *self = Self::default();
        }
        if is_of_choice(&event.body) && *self.choice.get_or_insert(event.choice) != event.choice {
            return;
        }
        let Some(block) = block_of(&event.body) else { return put(event) };
        match &event.body {
            Body::BlockStart { .. } if self.open.is_some() => {
                self.places.insert(block, self.served + self.waiting.len());
                self.waiting.push_back(vec![event.clone().into_owned()]);
            }
            Body::BlockStart { .. } => {
                self.open = Some(block);
                put(event);
            }
            _ if self.open == Some(block) => {
                put(event);
                if let Body::BlockEnd { .. } = event.body {
                    self.serve(put);
                }
            }
            _ => self.hold(block, event),
        }
    }

    /// Adds to what waits of a block.
    fn hold(&mut self, block: BlockId, event: &Event<'_>) {
        let at = self.places.get(&block).and_then(|place| place.checked_sub(self.served));
        let Some(held) = at.and_then(|at| self.waiting.get_mut(at)) else { return };
        match (&event.body, held.last_mut()) {
            (
                Body::Delta { text, .. },
                Some(Event { body: Body::Delta { text: Cow::Owned(all), .. }, .. }),
            ) => {
                all.push_str(text);
            }
            // Nobody has seen what is corrected, or what had no name.
            (Body::Correction { text, .. }, _) => {
                held.retain(|event| !matches!(event.body, Body::Delta { .. }));
                if let Some(kind) = held.first().and_then(|event| delta_kind(&event.body)) {
                    let text = text.to_string().into();
                    held.push(Event::new(event.choice, Body::Delta { block, kind, text }));
                }
            }
            (Body::Identity { id: Some(new), .. }, _) => {
                if let Some(Event { body: Body::BlockStart { kind, .. }, .. }) = held.first_mut()
                    && let BlockKind::ToolCall { id, is_made, .. } = kind
                {
                    (*id, *is_made) = (Some(new.to_string().into()), false);
                }
            }
            _ => held.push(event.clone().into_owned()),
        }
    }

    /// Tells what waits, up to the first block that is not over.
    fn serve(&mut self, put: &mut dyn FnMut(&Event<'_>)) {
        self.open = None;
        while let Some(held) = self.waiting.pop_front() {
            self.served += 1;
            held.iter().for_each(&mut *put);
            let is_over = matches!(held.last(), Some(Event { body: Body::BlockEnd { .. }, .. }));
            if !is_over {
                self.open = held.first().and_then(|event| block_of(&event.body));
                return;
            }
        }
    }
}

/// Whether the event tells of a choice, not of the answer.
fn is_of_choice(body: &Body<'_>) -> bool {
    match body {
        Body::Start { .. } | Body::Usage { .. } | Body::Error(_) | Body::Notice(_) | Body::End => false,
        Body::Foreign { scope, .. }
        | Body::Identity { scope, .. }
        | Body::Attachment { scope, .. }
        | Body::Progress { scope, .. } => *scope != Scope::Answer,
        Body::ChoiceStart
        | Body::ItemStart { .. }
        | Body::ItemEnd { .. }
        | Body::BlockStart { .. }
        | Body::Delta { .. }
        | Body::Correction { .. }
        | Body::BlockEnd { .. }
        | Body::Finish { .. }
        | Body::Markup { .. } => true,
    }
}

/// The block that the event is about.
fn block_of(body: &Body<'_>) -> Option<BlockId> {
    match body {
        Body::BlockStart { block, .. }
        | Body::Delta { block, .. }
        | Body::Correction { block, .. }
        | Body::BlockEnd { block, .. } => Some(*block),
        Body::Foreign { scope, .. }
        | Body::Identity { scope, .. }
        | Body::Attachment { scope, .. }
        | Body::Progress { scope, .. } => match scope {
            Scope::Block(block) => Some(*block),
            Scope::Answer | Scope::Choice | Scope::Item(_) => None,
        },
        _ => None,
    }
}

/// What the deltas of a block that starts so are.
fn delta_kind(body: &Body<'_>) -> Option<DeltaKind> {
    let Body::BlockStart { kind, .. } = body else { return None };
    match kind {
        BlockKind::Text => Some(DeltaKind::Text),
        BlockKind::Reasoning(_) => Some(DeltaKind::Reasoning),
        BlockKind::Refusal => Some(DeltaKind::Refusal),
        BlockKind::ToolCall { .. } => Some(DeltaKind::Arguments),
        BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => None,
    }
}
