//! Looks on: what became of each call, how many tokens there were, when the first came.

use callweave::event::{BlockId, BlockKind, Body, CallKind, Completion, Counters, Event, NoticeCode};
use callweave::upstream::UpstreamError;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Outcome {
    /// It came as the protocol has it.
    Native,
    /// It stood in the text.
    FromText,
    /// Its arguments were fitted to the schema.
    Coerced,
    /// Its arguments were repaired.
    Repaired,
    /// Its schema is too large, or too much work: it was passed on as it is.
    Unchecked,
    /// It cannot be run.
    Invalid,
    /// It was invalid, and the model was asked again.
    Retried,
    /// It was cut off.
    Truncated,
}

impl Outcome {
    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::FromText => "from_text",
            Self::Coerced => "coerced",
            Self::Repaired => "repaired",
            Self::Unchecked => "unchecked",
            Self::Invalid => "invalid",
            Self::Retried => "retried",
            Self::Truncated => "truncated",
        }
    }
}

/// Looks at the events of one answer.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    open: Vec<Call>,
    /// The calls that are over, with what became of them.
    pub(crate) calls: Vec<Outcome>,
    /// Why calls cannot be run, by their ids.
    pub(crate) complaints: Vec<(String, String)>,
    /// The tokens so far.
    pub(crate) usage: Counters,
    /// The first error.
    pub(crate) error: Option<Box<UpstreamError<'static>>>,
    /// Whether the model has said anything.
    pub(crate) has_content: bool,
}

#[derive(Debug)]
struct Call {
    block: BlockId,
    id: String,
    outcome: Outcome,
    complaint: Option<String>,
}

impl Watch {
    /// Looks at an event.
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        match &event.body {
            Body::BlockStart { block, kind, .. } => {
                self.has_content = true;
                if let BlockKind::ToolCall { id, call: CallKind::Function | CallKind::Custom, .. } = kind {
                    let is_from_text = !event.source.is_empty();
                    let outcome = if is_from_text { Outcome::FromText } else { Outcome::Native };
                    let id = id.as_deref().unwrap_or_default().to_owned();
                    self.open.push(Call { block: *block, id, outcome, complaint: None });
                }
            }
            Body::Notice(notice) => {
                // Who does not say of which call speaks of the last.
                let call = match notice.block {
                    Some(block) => self.open.iter_mut().find(|call| call.block == block),
                    None => self.open.last_mut(),
                };
                let Some(call) = call else { return };
                let outcome = match notice.code {
                    NoticeCode::Repaired => {
                        let written = notice.text.as_deref().unwrap_or_default();
                        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(written).is_ok();
                        if is_json || written.is_empty() { Outcome::Coerced } else { Outcome::Repaired }
                    }
                    NoticeCode::Unchecked => Outcome::Unchecked,
                    NoticeCode::MalformedCall
                    | NoticeCode::UnknownTool
                    | NoticeCode::SchemaMismatch
                    | NoticeCode::MissingName => {
                        call.complaint.get_or_insert_with(|| notice.detail.to_string());
                        Outcome::Invalid
                    }
                    _ => return,
                };
                call.outcome = call.outcome.max(outcome);
            }
            Body::BlockEnd { block, completion } => {
                if let Some(at) = self.open.iter().position(|call| call.block == *block) {
                    let call = self.open.swap_remove(at);
                    self.end(call, *completion);
                }
            }
            Body::Usage { counters, .. } => merge(&mut self.usage, counters),
            Body::Error(error) => {
                self.error.get_or_insert_with(|| Box::new(error.clone().into_owned()));
            }
            _ => {}
        }
    }

    fn end(&mut self, call: Call, completion: Completion) {
        if completion != Completion::Whole {
            self.calls.push(Outcome::Truncated);
            return;
        }
        self.calls.push(call.outcome);
        if let Some(complaint) = call.complaint {
            self.complaints.push((call.id, complaint));
        }
    }
}

/// Takes counts that were reported later.
fn merge(own: &mut Counters, newer: &Counters) {
    own.input_tokens = newer.input_tokens.or(own.input_tokens);
    own.output_tokens = newer.output_tokens.or(own.output_tokens);
    own.cached_tokens = newer.cached_tokens.or(own.cached_tokens);
    own.cache_write_tokens = newer.cache_write_tokens.or(own.cache_write_tokens);
    own.reasoning_tokens = newer.reasoning_tokens.or(own.reasoning_tokens);
    own.total_tokens = newer.total_tokens;
}
