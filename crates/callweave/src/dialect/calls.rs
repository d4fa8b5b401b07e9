//! The calls that stand in a stream of events.

use crate::event::{BlockId, BlockKind, Body, CallKind, Completion, DeltaKind, Event, Sink};

/// A call: its block, its name, and its argument text.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) block: BlockId,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Gathers whole calls. What is cut, and what the provider runs itself, is left out.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) whole: Vec<Told>,
    growing: Option<Told>,
}

impl Calls {
    /// The first call, whole or not.
    pub(super) fn first(&self) -> Option<&Told> {
        self.whole.first().or(self.growing.as_ref())
    }

    pub(super) fn follow(&mut self, body: &Body<'_>) {
        match body {
            Body::BlockStart { block, kind: BlockKind::ToolCall { name, call, .. }, .. } => {
                let told = Told { block: *block, name: name.to_string(), arguments: String::new() };
                self.growing = Some(told).filter(|_| *call != CallKind::Builtin);
            }
            Body::Delta { kind: DeltaKind::Arguments, text, .. } => {
                if let Some(call) = &mut self.growing {
                    call.arguments.push_str(text);
                }
            }
            Body::BlockEnd { completion, .. } => {
                self.whole.extend(self.growing.take().filter(|_| *completion == Completion::Whole));
            }
            _ => {}
        }
    }
}

impl<'e> Sink<Event<'e>> for Calls {
    fn put(&mut self, event: Event<'e>) {
        self.follow(&event.body);
    }
}
