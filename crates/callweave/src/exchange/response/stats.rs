//! Statistics of a response: the outcome of each call, tokens, the first error.

use crate::event::{BlockCompletion, Event, EventKind, TokenCounts};
use crate::outcome::{CallOutcome, CallOutcomes};
use crate::upstream::UpstreamError;

/// Statistics of one response.
#[derive(Debug, Default)]
pub(in crate::exchange) struct ResponseStats {
    outcomes: CallOutcomes,
    /// The calls that are over.
    pub(in crate::exchange) calls: Vec<CallOutcome>,
    /// The reasons why calls cannot be run, by their ids.
    pub(in crate::exchange) complaints: Vec<(String, String)>,
    /// The tokens so far.
    pub(in crate::exchange) usage: TokenCounts,
    /// The first error.
    pub(in crate::exchange) error: Option<Box<UpstreamError<'static>>>,
    /// Whether the model has said anything.
    pub(in crate::exchange) has_content: bool,
}

impl ResponseStats {
    /// Takes note of an event.
    pub(in crate::exchange) fn see(&mut self, event: &Event<'_>) {
        self.outcomes.see(event);
        match &event.body {
            EventKind::BlockStart { .. } => self.has_content = true,
            EventKind::BlockEnd { completion, .. } => {
                for call in self.outcomes.take() {
                    if *completion == BlockCompletion::Complete
                        && let Some(reason) = &call.reason
                    {
                        self.complaints.push((call.id.clone(), reason.clone()));
                    }
                    self.calls.push(call);
                }
            }
            EventKind::Usage { counters, .. } => self.usage.update(counters),
            EventKind::Error(error) => {
                self.error.get_or_insert_with(|| Box::new(error.clone().into_owned()));
            }
            _ => {}
        }
    }
}
