//! The grammar of events: what every sequence the library emits looks like.
//!
//! The [`Validator`] is a sink that passes nothing on and remembers what was wrong. Tests put it behind
//! everything.

use std::collections::{HashMap, HashSet};

use crate::event::{BlockId, BlockKind, Body, Event, Sink};

/// Checks the laws that [`crate::event`] states.
#[derive(Debug, Default)]
pub struct Validator {
    blocks: HashMap<BlockId, Open>,
    /// How many blocks of each choice are open.
    open: HashMap<u32, usize>,
    finished: HashSet<u32>,
    events: usize,
    faults: Vec<String>,
}

#[derive(Debug)]
struct Open {
    choice: u32,
    is_call: bool,
    is_ended: bool,
}

impl Validator {
    /// A validator before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was wrong, with the number of the event; empty for a good sequence so far.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// What was wrong once no event will come any more: open blocks are faults, too.
    pub fn finish(mut self) -> Vec<String> {
        let mut open: Vec<_> =
            self.blocks.iter().filter(|(_, block)| !block.is_ended).map(|(id, _)| id.0).collect();
        open.sort_unstable();
        self.faults.extend(open.into_iter().map(|block| format!("block {block} never ended")));
        self.faults
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

impl<'e> Sink<Event<'e>> for Validator {
    fn put(&mut self, event: Event<'e>) {
        self.events += 1;
        let choice = event.choice;
        let may_follow_finish = matches!(
            event.body,
            Body::Usage { .. }
                | Body::Foreign { .. }
                | Body::Notice(_)
                | Body::Error(_)
                | Body::Start { .. }
                | Body::End
        );
        if self.finished.contains(&choice) && !may_follow_finish {
            self.fault(format_args!("{:?} after the finish", event.body));
        }
        match &event.body {
            Body::BlockStart { block, kind } => {
                let is_call = matches!(kind, BlockKind::ToolCall { .. });
                if self.blocks.insert(*block, Open { choice, is_call, is_ended: false }).is_some() {
                    self.fault(format_args!("block {} started twice", block.0));
                }
                *self.open.entry(choice).or_default() += 1;
            }
            Body::Delta { block, text } => {
                self.inside(choice, *block, "delta");
                if text.is_empty() {
                    self.fault(format_args!("empty delta of block {}", block.0));
                }
            }
            Body::Identity { block, .. } => match self.blocks.get(block) {
                Some(open) if open.choice == choice && open.is_call => {}
                _ => self.fault(format_args!("identity of block {}, which is no call here", block.0)),
            },
            Body::Correction { block, .. } => self.inside(choice, *block, "correction"),
            Body::BlockEnd { block, .. } => {
                self.inside(choice, *block, "end");
                if let Some(block) = self.blocks.get_mut(block) {
                    block.is_ended = true;
                    let open = self.open.entry(block.choice).or_default();
                    *open = open.saturating_sub(1);
                }
            }
            Body::Finish { .. } => {
                if self.open.get(&choice).is_some_and(|&open| open > 0) {
                    self.fault(format_args!("choice {choice} finished with an open block"));
                }
                self.finished.insert(choice);
            }
            Body::End => {
                if self.open.values().any(|&open| open > 0) {
                    self.fault("the answer ended with an open block");
                }
                self.finished.clear();
            }
            Body::Start { .. }
            | Body::ReasoningDetail { .. }
            | Body::Annotation { .. }
            | Body::Logprobs { .. }
            | Body::ToolResult { .. }
            | Body::Usage { .. }
            | Body::Markup { .. }
            | Body::Notice(_)
            | Body::Error(_)
            | Body::Foreign { .. } => {}
        }
    }
}
