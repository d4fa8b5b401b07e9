//! Decisions that handlers make around the aggregator, as pure functions: which finish reason to report, and whether to
//! stop the backend now. Timers, processes and configuration are theirs.

use std::fmt;

use serde::Serialize;

use super::ToolCallRecord;
use crate::event::FinishReason;
pub use crate::stop::{StopMode, StopPolicy};

/// A finish reason that a client of Chat Completions understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatFinishReason {
    /// The response is over.
    #[default]
    Stop,
    /// A limit truncated it.
    Length,
    /// Calls wait to be run.
    ToolCalls,
    /// The singular form of the same.
    FunctionCall,
    /// A filter truncated it.
    ContentFilter,
}

/// The reason as Chat Completions spells it, such as `tool_calls`.
impl fmt::Display for ChatFinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A backend's finish reason, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendFinish {
    /// There was none.
    Missing,
    /// It says nothing we know.
    Unknown,
    /// It means this.
    Known(ChatFinishReason),
}

/// A reason that is unknown or missing becomes [`FinishReason::Other`].
impl From<BackendFinish> for FinishReason {
    fn from(wire_type: BackendFinish) -> Self {
        match wire_type {
            BackendFinish::Missing | BackendFinish::Unknown => Self::Other,
            BackendFinish::Known(ChatFinishReason::Stop) => Self::Stop,
            BackendFinish::Known(ChatFinishReason::Length) => Self::Length,
            BackendFinish::Known(ChatFinishReason::ToolCalls | ChatFinishReason::FunctionCall) => {
                Self::ToolCalls
            }
            BackendFinish::Known(ChatFinishReason::ContentFilter) => Self::ContentFilter,
        }
    }
}

const WORDS: &[(&str, ChatFinishReason)] = &[
    ("stop", ChatFinishReason::Stop),
    ("completed", ChatFinishReason::Stop),
    ("complete", ChatFinishReason::Stop),
    ("finished", ChatFinishReason::Stop),
    ("done", ChatFinishReason::Stop),
    ("halt", ChatFinishReason::Stop),
    ("end_turn", ChatFinishReason::Stop),
    ("cancelled", ChatFinishReason::Stop),
    ("length", ChatFinishReason::Length),
    ("length_reached", ChatFinishReason::Length),
    ("max_tokens", ChatFinishReason::Length),
    ("max_tokens_reached", ChatFinishReason::Length),
    ("max_output_tokens", ChatFinishReason::Length),
    ("truncated", ChatFinishReason::Length),
    ("filtered", ChatFinishReason::ContentFilter),
];

/// Parts of finish reasons that show their meaning, the strongest first.
const HINTS: &[(&str, ChatFinishReason)] = &[
    ("token_limit", ChatFinishReason::Length),
    ("tool", ChatFinishReason::ToolCalls),
    ("function", ChatFinishReason::FunctionCall),
    ("content_filter", ChatFinishReason::ContentFilter),
    ("content-filter", ChatFinishReason::ContentFilter),
    ("contentfilter", ChatFinishReason::ContentFilter),
    ("safety", ChatFinishReason::ContentFilter),
    ("moderation", ChatFinishReason::ContentFilter),
    ("policy", ChatFinishReason::ContentFilter),
];

impl ChatFinishReason {
    /// Reads a backend's finish reason, in any case.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::policy::{ChatFinishReason, BackendFinish};
    ///
    /// assert_eq!(ChatFinishReason::read(Some("REQUIRES_TOOL")), BackendFinish::Known(ChatFinishReason::ToolCalls));
    /// assert_eq!(ChatFinishReason::read(Some("weird")), BackendFinish::Unknown);
    /// assert_eq!(ChatFinishReason::read(None), BackendFinish::Missing);
    /// ```
    pub fn read(wire_type: Option<&str>) -> BackendFinish {
        let wire_type = wire_type.unwrap_or("").trim().to_lowercase();
        if wire_type.is_empty() {
            return BackendFinish::Missing;
        }
        let known = WORDS.iter().find(|(known, _)| *known == wire_type);
        let hinted = || HINTS.iter().find(|(hint, _)| wire_type.contains(hint));
        known.or_else(hinted).map_or(BackendFinish::Unknown, |&(_, reason)| BackendFinish::Known(reason))
    }
}

/// The source of the finish reason. The first in this order is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishSource {
    /// Token counts that reached a limit.
    TokenCount,
    /// The stream was idle for too long.
    StreamIdleTimeout,
    /// The handler stopped the backend after calls.
    ToolCutoff,
    /// The provider.
    Provider,
    /// The backend, when its task was over.
    TaskComplete,
    /// The handler, when it closed the response.
    Finalizer,
    /// There are calls.
    ToolPresence,
    /// There is a singular call.
    FunctionPresence,
    /// Nobody.
    Fallback,
}

impl FinishSource {
    fn rank(self) -> u8 {
        match self {
            Self::TokenCount | Self::StreamIdleTimeout | Self::ToolCutoff => 0,
            Self::Provider | Self::TaskComplete => 1,
            Self::Finalizer | Self::ToolPresence | Self::FunctionPresence => 2,
            Self::Fallback => 3,
        }
    }
}

/// In which form calls are present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallPresence {
    /// There are none.
    #[default]
    None,
    /// As `tool_calls`.
    Tools,
    /// As a singular `function_call`.
    Function,
}

impl CallPresence {
    /// In which form these calls drive the finish reason: as `tool_calls` if there are some and all are complete.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// use callweave::compat::tool_call_aggregator::policy::CallPresence;
    /// use serde_json::json;
    ///
    /// let mut aggregator = ToolCallAggregator::new();
    /// assert_eq!(CallPresence::of(&aggregator.snapshot(None)), CallPresence::None);
    /// let piece = |text: &str| json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]});
    /// aggregator.ingest_delta(&piece("{\"a\":"), None);
    /// assert_eq!(CallPresence::of(&aggregator.snapshot(None)), CallPresence::None);
    /// aggregator.ingest_delta(&piece("1}"), None);
    /// assert_eq!(CallPresence::of(&aggregator.snapshot(None)), CallPresence::Tools);
    /// ```
    pub fn of(calls: &[ToolCallRecord<'_>]) -> Self {
        let is_complete = !calls.is_empty() && calls.iter().all(|call| !call.is_incomplete());
        if is_complete { Self::Tools } else { Self::None }
    }
}

/// The reason to report, and its source: the most trustworthy of all reasons, the first on ties; complete calls turn
/// any reason into their own. Calls of which one is [incomplete](super::ToolCallRecord::is_incomplete) count as
/// [`CallPresence::None`]: see [`CallPresence::of`].
///
/// ```
/// use callweave::compat::tool_call_aggregator::policy::{CallPresence, ChatFinishReason, FinishSource, resolve};
///
/// let said = [(ChatFinishReason::Length, FinishSource::Provider)];
/// assert_eq!(resolve(&said, CallPresence::Tools), (ChatFinishReason::ToolCalls, FinishSource::ToolPresence));
/// assert_eq!(resolve(&[], CallPresence::None), (ChatFinishReason::Stop, FinishSource::Fallback));
/// ```
pub fn resolve(
    said: &[(ChatFinishReason, FinishSource)],
    calls: CallPresence,
) -> (ChatFinishReason, FinishSource) {
    let best = said.iter().copied().min_by_key(|(_, source)| source.rank());
    let (reason, source) = best.unwrap_or((ChatFinishReason::Stop, FinishSource::Fallback));
    let present = match calls {
        CallPresence::Tools => (ChatFinishReason::ToolCalls, FinishSource::ToolPresence),
        CallPresence::Function if reason != ChatFinishReason::ToolCalls => {
            (ChatFinishReason::FunctionCall, FinishSource::FunctionPresence)
        }
        CallPresence::Function | CallPresence::None => return (reason, source),
    };
    if present.0 == reason { (reason, source) } else { present }
}
