//! The grammar of events: the laws that every sequence the library emits keeps.
//!
//! The [`EventValidator`] is a sink that passes nothing on and remembers faults. Tests put it behind everything.

use std::collections::{HashMap, HashSet};

use crate::event::{BlockId, BlockKind, DeltaKind, Event, EventKind, EventScope, ItemId, Sink};

/// Checks the laws that [`crate::event`] states.
#[derive(Debug, Default)]
pub struct EventValidator {
    blocks: HashMap<BlockId, OpenThings>,
    /// The number of open blocks of each choice.
    open: HashMap<u32, usize>,
    choices: HashSet<u32>,
    /// Whether each item has ended.
    items: HashMap<ItemId, bool>,
    finished: HashSet<u32>,
    /// Whether a response is going on.
    has_begun: bool,
    /// Whether only blocks are emitted, without a response around them.
    is_bare: bool,
    events: usize,
    faults: Vec<String>,
}

#[derive(Debug)]
struct OpenThings {
    choice: u32,
    /// The kind of its deltas.
    kind: Option<DeltaKind>,
    is_ended: bool,
}

impl EventValidator {
    /// A validator before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// A validator of blocks without a response around them, as an extractor emits them.
    pub fn of_blocks() -> Self {
        Self { is_bare: true, ..Self::default() }
    }

    /// The faults, each with the number of the event; empty for a valid sequence so far.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// The faults once no event will come any more: an open block, item or response is a fault, too.
    pub fn finish(mut self) -> Vec<String> {
        if self.has_begun {
            self.fault("the answer never ended");
        }
        self.end_response();
        self.faults
    }

    /// Checks that everything that began in the response has ended; the next response is checked on its own.
    fn end_response(&mut self) {
        let mut open: Vec<_> =
            self.blocks.drain().filter(|(_, block)| !block.is_ended).map(|(id, _)| ("block", id.0)).collect();
        open.extend(self.items.drain().filter(|(_, is_ended)| !is_ended).map(|(id, _)| ("item", id.0)));
        open.sort_unstable();
        self.faults.extend(open.into_iter().map(|(what, number)| format!("{what} {number} never ended")));
        self.open.clear();
        self.choices.clear();
        self.finished.clear();
        self.has_begun = false;
    }

    fn fault(&mut self, what: impl std::fmt::Display) {
        self.faults.push(format!("event {}: {what}", self.events));
    }

    fn inside(&mut self, choice: u32, block: BlockId, what: &str) {
        match self.blocks.get(&block) {
            None => self.fault(format_args!("{what} of block {} that never started", block.0)),
            Some(open) if open.is_ended => {
                self.fault(format_args!("{what} of block {} after its end", block.0))
            }
            Some(open) if open.choice != choice => {
                self.fault(format_args!("{what} of block {} in another choice", block.0))
            }
            Some(_) => {}
        }
    }
}

impl<'e> Sink<Event<'e>> for EventValidator {
    fn put(&mut self, event: Event<'e>) {
        self.events += 1;
        let choice = event.choice;
        let may_follow_finish = matches!(
            event.body,
            EventKind::Usage { .. }
                | EventKind::Extra { .. }
                | EventKind::Notice(_)
                | EventKind::Error(_)
                | EventKind::Identity { .. }
                | EventKind::Progress { .. }
                | EventKind::End
        );
        if self.finished.contains(&choice) && !may_follow_finish {
            self.fault(format_args!("{:?} after the finish", event.body));
        }
        if !self.has_begun
            && !self.is_bare
            && !matches!(event.body, EventKind::Start { .. } | EventKind::Notice(_))
        {
            self.fault(format_args!("{:?} before the start", event.body));
        }
        if let Some(EventScope::Item(item)) = scope_of(&event.body)
            && !self.items.contains_key(&item)
        {
            self.fault(format_args!("{:?} of an item that never started", event.body));
        }
        match &event.body {
            EventKind::Start { .. } => {
                if self.has_begun {
                    self.fault("an answer starts before the one before it ended");
                }
                self.has_begun = true;
            }
            EventKind::ChoiceStart => {
                if !self.choices.insert(choice) {
                    self.fault(format_args!("choice {choice} started twice"));
                }
            }
            EventKind::ItemStart { item, .. } => {
                if self.items.insert(*item, false).is_some() {
                    self.fault(format_args!("item {} started twice", item.0));
                }
            }
            EventKind::ItemEnd { item } => match self.items.insert(*item, true) {
                Some(false) => {}
                Some(true) => self.fault(format_args!("item {} ended twice", item.0)),
                None => self.fault(format_args!("item {} ended but never started", item.0)),
            },
            EventKind::BlockStart { block, kind, item, .. } => {
                if !self.is_bare && !self.choices.contains(&choice) {
                    self.fault(format_args!("block {} in choice {choice}, which never started", block.0));
                }
                if item.is_some_and(|item| !self.items.contains_key(&item)) {
                    self.fault(format_args!("block {} in an item that never started", block.0));
                }
                let kind = match kind {
                    BlockKind::Text => Some(DeltaKind::Text),
                    BlockKind::Reasoning(_) => Some(DeltaKind::Reasoning),
                    BlockKind::Refusal => Some(DeltaKind::Refusal),
                    BlockKind::ToolCall { .. } => Some(DeltaKind::Arguments),
                    BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => None,
                };
                if self.blocks.insert(*block, OpenThings { choice, kind, is_ended: false }).is_some() {
                    self.fault(format_args!("block {} started twice", block.0));
                }
                *self.open.entry(choice).or_default() += 1;
            }
            EventKind::Delta { block, kind, text } => {
                self.inside(choice, *block, "delta");
                if self.blocks.get(block).is_some_and(|open| open.kind != Some(*kind)) {
                    self.fault(format_args!("{kind:?} for block {}, which holds something else", block.0));
                }
                if text.is_empty() {
                    self.fault(format_args!("empty delta of block {}", block.0));
                }
            }
            EventKind::Identity { scope: EventScope::Block(block), .. } => match self.blocks.get(block) {
                Some(open) if open.choice == choice && open.kind == Some(DeltaKind::Arguments) => {}
                _ => self.fault(format_args!("identity of block {}, which is no call here", block.0)),
            },
            EventKind::Attachment { scope: EventScope::Block(block), .. } => {
                self.inside(choice, *block, "attachment")
            }
            EventKind::Extra { scope: EventScope::Block(block), .. } => {
                self.inside(choice, *block, "foreign value")
            }
            EventKind::Correction { block, .. } => self.inside(choice, *block, "correction"),
            EventKind::BlockEnd { block, .. } => {
                self.inside(choice, *block, "end");
                if let Some(block) = self.blocks.get_mut(block) {
                    block.is_ended = true;
                    let open = self.open.entry(block.choice).or_default();
                    *open = open.saturating_sub(1);
                }
            }
            EventKind::Finish { .. } => {
                if self.open.get(&choice).is_some_and(|&open| open > 0) {
                    self.fault(format_args!("choice {choice} finished with an open block"));
                }
                self.finished.insert(choice);
            }
            EventKind::End => {
                let finished = self.finished.len();
                if finished != self.choices.len() {
                    self.fault("an answer ended before all its choices had finished");
                }
                self.end_response();
            }
            EventKind::Identity { .. }
            | EventKind::Attachment { .. }
            | EventKind::Progress { .. }
            | EventKind::Usage { .. }
            | EventKind::Markup { .. }
            | EventKind::Notice(_)
            | EventKind::Error(_)
            | EventKind::Extra { .. } => {}
        }
    }
}

fn scope_of(body: &EventKind<'_>) -> Option<EventScope> {
    match body {
        EventKind::Identity { scope, .. }
        | EventKind::Attachment { scope, .. }
        | EventKind::Progress { scope, .. }
        | EventKind::Extra { scope, .. } => Some(*scope),
        _ => None,
    }
}
