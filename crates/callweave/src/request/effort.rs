//! The effort of a model's reasoning, by name and in tokens: wires have the one or the other.

use super::{ReasoningMode, ReasoningSettings};
use crate::json::Number;

/// Names of effort and the tokens that gateways agree on for them.
const BUDGETS: &[(&str, u64)] = &[
    ("none", 0),
    ("minimal", 512),
    ("low", 1024),
    ("medium", 2048),
    ("high", 4096),
    ("xhigh", 8192),
    ("max", 16384),
];

/// Takes the effort; a budget becomes one as well, `high` at most, since only some models know more.
pub(crate) fn take(reasoning: &mut ReasoningSettings) -> Option<String> {
    let ReasoningSettings { mode, effort, budget, .. } = reasoning;
    if let Some(effort) = effort.take() {
        // Beside a named effort, the mode and the budget add nothing.
        *mode = None;
        *budget = None;
        return Some(effort);
    }
    if let Some(tokens) = budget.take() {
        *mode = None;
        let tokens = tokens.as_u64().unwrap_or(0);
        let word = match tokens {
            0 => "none",
            tokens => BUDGETS[2..=4]
                .iter()
                .rev()
                .find(|(_, least)| tokens >= *least)
                .map_or("minimal", |(word, _)| word),
        };
        return Some(word.to_owned());
    }
    // Not every model of such a wire can switch reasoning off: that is a loss.
    mode.take_if(|mode| *mode != ReasoningMode::Off).map(|_| "medium".to_owned())
}

/// Takes the budget; an effort becomes one as well.
pub(crate) fn take_budget(reasoning: &mut ReasoningSettings) -> Option<Number> {
    let ReasoningSettings { mode, effort, budget, .. } = reasoning;
    let said = effort.take();
    let mode = mode.take();
    budget.take().or_else(|| {
        let word = match (said.as_deref(), mode) {
            (Some(word), _) => word,
            (None, Some(ReasoningMode::Off)) => "none",
            (None, Some(ReasoningMode::On)) => "high",
            (None, Some(ReasoningMode::Adaptive) | None) => return None,
        };
        let tokens = BUDGETS.iter().find(|(own, _)| *own == word).map_or(2048, |(_, tokens)| *tokens);
        Some(tokens.into())
    })
}
