//! Statistics of a response: the outcome of each call, tokens, the first error.

use crate::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, NoticeCode, TokenCounts,
};
use crate::json::Tape;
use crate::upstream::UpstreamError;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallResolution {
    /// It came as the protocol has it.
    Native,
    /// It stood in the text.
    FromText,
    /// Its arguments were coerced to the schema.
    Coerced,
    /// Its arguments were repaired.
    Repaired,
    /// Its schema is too large, or took too many steps: it was passed on as it is.
    Unchecked,
    /// It cannot be run.
    Invalid,
    /// It was invalid, and the model was asked again.
    Retried,
    /// It was truncated.
    Truncated,
}

impl CallResolution {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
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

/// A call that is over, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallOutcome {
    /// Its id, as the client gets it.
    pub id: String,
    /// Its name, as the client gets it.
    pub name: String,
    /// Its outcome.
    pub outcome: CallResolution,
    /// The reason why it cannot be run.
    pub reason: Option<String>,
    /// The dialect of the text, where the response has calls in its text.
    pub dialect: Option<String>,
}

/// Statistics of one response.
#[derive(Debug, Default)]
pub(in crate::exchange) struct ResponseStats {
    open: Vec<(BlockId, CallOutcome)>,
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
        match &event.body {
            EventKind::BlockStart { block, kind, .. } => {
                self.has_content = true;
                if let BlockKind::ToolCall { id, name, call: CallKind::Function | CallKind::Custom, .. } =
                    kind
                {
                    let is_from_text = !event.source.is_empty();
                    let call = CallOutcome {
                        id: id.as_deref().unwrap_or_default().to_owned(),
                        name: name.to_string(),
                        outcome: if is_from_text { CallResolution::FromText } else { CallResolution::Native },
                        reason: None,
                        dialect: None,
                    };
                    self.open.push((*block, call));
                }
            }
            EventKind::Notice(notice) => {
                // A notice without a block is about the last call.
                let call = match notice.block {
                    Some(block) => self.open.iter_mut().find(|(open, _)| *open == block),
                    None => self.open.last_mut(),
                };
                let Some((_, call)) = call else { return };
                let outcome = match notice.code {
                    NoticeCode::Repaired => {
                        let written = notice.text.as_deref().unwrap_or_default();
                        let is_json = written.is_empty() || Tape::new().parse(written).is_ok();
                        if is_json { CallResolution::Coerced } else { CallResolution::Repaired }
                    }
                    NoticeCode::Unchecked => CallResolution::Unchecked,
                    NoticeCode::MalformedCall
                    | NoticeCode::UnknownTool
                    | NoticeCode::SchemaMismatch
                    | NoticeCode::MissingName => {
                        call.reason.get_or_insert_with(|| notice.detail.to_string());
                        CallResolution::Invalid
                    }
                    _ => return,
                };
                call.outcome = call.outcome.max(outcome);
            }
            EventKind::BlockEnd { block, completion } => {
                if let Some(at) = self.open.iter().position(|(open, _)| open == block) {
                    let (_, call) = self.open.swap_remove(at);
                    self.end(call, *completion);
                }
            }
            EventKind::Usage { counters, .. } => self.usage.update(counters),
            EventKind::Error(error) => {
                self.error.get_or_insert_with(|| Box::new(error.clone().into_owned()));
            }
            _ => {}
        }
    }

    fn end(&mut self, mut call: CallOutcome, completion: BlockCompletion) {
        if completion != BlockCompletion::Complete {
            call.outcome = CallResolution::Truncated;
        } else if let Some(reason) = &call.reason {
            self.complaints.push((call.id.clone(), reason.clone()));
        }
        self.calls.push(call);
    }
}
