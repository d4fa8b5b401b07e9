//! The calls that stand in a stream of events.

use crate::event::{BlockCompletion, BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, Sink};

/// A call: its block, its name, and its argument text.
#[derive(Debug)]
pub(super) struct CollectedCall {
    pub(super) block: BlockId,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Gathers complete calls. Truncated calls, and calls that the provider runs itself, are left out.
#[derive(Debug, Default)]
pub(super) struct CallCollector {
    pub(super) whole: Vec<CollectedCall>,
    growing: Option<CollectedCall>,
}

impl CallCollector {
    /// The first call, complete or not.
    pub(super) fn first(&self) -> Option<&CollectedCall> {
        self.whole.first().or(self.growing.as_ref())
    }

    pub(super) fn follow(&mut self, body: &EventKind<'_>) {
        match body {
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { name, call, .. }, .. } => {
                let told = CollectedCall { block: *block, name: name.to_string(), arguments: String::new() };
                self.growing = Some(told).filter(|_| *call != CallKind::Builtin);
            }
            EventKind::Delta { kind: DeltaKind::Arguments, text, .. } => {
                if let Some(call) = &mut self.growing {
                    call.arguments.push_str(text);
                }
            }
            EventKind::BlockEnd { completion, .. } => {
                self.whole.extend(self.growing.take().filter(|_| *completion == BlockCompletion::Complete));
            }
            _ => {}
        }
    }
}

impl<'e> Sink<Event<'e>> for CallCollector {
    fn put(&mut self, event: Event<'e>) {
        self.follow(&event.body);
    }
}
