//! The outcomes of calls: which came as the protocol has them, which stood in text, which had to be repaired.
//!
//! Events go in, in the order in which a decoder emits them; every call that has ended is in the list that comes out.
//!
//! ```
//! use callweave::outcome::{CallOutcomes, CallResolution};
//! use callweave::{Decoder, Event};
//!
//! let body = br#"{"choices": [{"message": {"content": "<tool_call>{'name': 'look', 'arguments': {}}</tool_call>"}}]}"#;
//! let mut outcomes = CallOutcomes::default();
//! let mut decoder = Decoder::builder().dialect("auto").build();
//! let mut see = |event: Event<'_>| outcomes.see(&event);
//! decoder.push(body, &mut see)?;
//! decoder.finish(&mut see)?;
//! assert_eq!(outcomes.calls()[0].outcome, CallResolution::Repaired);
//! # Ok::<(), callweave::Error>(())
//! ```

use crate::event::{BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, NoticeCode};
use crate::json::Tape;

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
    /// Its block in the response.
    pub block: BlockId,
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

/// Follows the calls of a response, except those that the provider runs itself.
#[derive(Clone, Debug, Default)]
pub struct CallOutcomes {
    open: Vec<CallOutcome>,
    over: Vec<CallOutcome>,
}

impl CallOutcomes {
    /// Takes note of an event.
    pub fn see(&mut self, event: &Event<'_>) {
        match &event.body {
            EventKind::BlockStart {
                block,
                kind: BlockKind::ToolCall { id, name, call: CallKind::Function | CallKind::Custom, .. },
                ..
            } => {
                let is_from_text = !event.source.is_empty();
                self.open.push(CallOutcome {
                    block: *block,
                    id: id.as_deref().unwrap_or_default().to_owned(),
                    name: name.to_string(),
                    outcome: if is_from_text { CallResolution::FromText } else { CallResolution::Native },
                    reason: None,
                    dialect: None,
                });
            }
            EventKind::Notice(notice) => {
                // A notice without a block is about the last call.
                let call = match notice.block {
                    Some(block) => self.open.iter_mut().find(|call| call.block == block),
                    None => self.open.last_mut(),
                };
                let Some(call) = call else { return };
                let outcome = match notice.code {
                    NoticeCode::Repaired => match notice.text.as_deref() {
                        Some(written) if written.is_empty() || Tape::new().parse(written).is_ok() => {
                            CallResolution::Coerced
                        }
                        _ => CallResolution::Repaired,
                    },
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
                if let Some(at) = self.open.iter().position(|call| call.block == *block) {
                    let mut call = self.open.swap_remove(at);
                    if *completion != BlockCompletion::Complete {
                        call.outcome = CallResolution::Truncated;
                    }
                    self.over.push(call);
                }
            }
            _ => {}
        }
    }

    /// The calls that are over.
    pub fn calls(&self) -> &[CallOutcome] {
        &self.over
    }

    /// Takes the calls that are over.
    pub fn take(&mut self) -> Vec<CallOutcome> {
        std::mem::take(&mut self.over)
    }
}
