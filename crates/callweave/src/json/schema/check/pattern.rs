//! Patterns and formats, which only the validator's library knows. It gets one keyword and one text at a time, so that
//! the cost is known beforehand.

use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};

use super::CheckStop;
use crate::json::schema::StepBudget;

/// The maximum weight of a pattern: a heavier one is not compiled.
const MAX_WEIGHT: u64 = 50_000;
/// The maximum number of bytes of a compiled pattern.
const MAX_SIZE: usize = 4 << 20;
/// The maximum number of backtracks in a text for a pattern with lookaround.
const MAX_BACKTRACKS: usize = 2_000;
/// The steps that backtracking takes for a short text.
const BACKTRACKING: u64 = 500;
/// The number of a pattern's states that are looked at for a text in one step.
const STATES_PER_STEP: u64 = 64;

/// A regular expression, compiled when it is first needed.
#[derive(Debug)]
pub(super) struct LazyPattern {
    pub(super) text: String,
    weight: u64,
    made: OnceLock<Option<PatternState>>,
}

#[derive(Debug)]
enum PatternState {
    /// Takes time by its weight and the length of the text.
    Linear(Validator),
    /// Has lookaround or back references, and gives up when it has backtracked too often.
    Backtracking(Validator),
}

impl LazyPattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), weight: weight(text), made: OnceLock::new() }
    }

    /// Whether it is found in a text.
    pub(super) fn matches(&self, text: &str, budget: &mut StepBudget) -> Result<bool, CheckStop> {
        if self.weight > MAX_WEIGHT {
            return Err(CheckStop::Spent);
        }
        if self.made.get().is_none() {
            budget.spend(self.weight)?;
        }
        let Some(made) = self.made.get_or_init(|| self.make()) else {
            return Err(CheckStop::Invalid(format!(
                "a pattern is no regular expression: {}",
                super::excerpt(&self.text)
            )));
        };
        let length = text.len() as u64;
        match made {
            PatternState::Linear(validator) => {
                budget.spend(1 + self.weight.saturating_mul(length) / STATES_PER_STEP)?;
                Ok(validator.is_valid(&text.into()))
            }
            PatternState::Backtracking(validator) => {
                budget.spend(BACKTRACKING.saturating_mul(1 + length / STATES_PER_STEP))?;
                match validator.validate(&text.into()) {
                    Ok(()) => Ok(true),
                    Err(error) => match error.kind() {
                        ValidationErrorKind::Pattern { .. } => Ok(false),
                        _ => Err(CheckStop::Spent),
                    },
                }
            }
        }
    }

    fn make(&self) -> Option<PatternState> {
        let schema = json!({"pattern": self.text});
        let options = jsonschema::options().with_draft(Draft::Draft202012);
        let linear = PatternOptions::regex().size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE);
        if let Ok(validator) = options.clone().with_pattern_options(linear).build(&schema) {
            return Some(PatternState::Linear(validator));
        }
        let backtracking = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(MAX_SIZE)
            .dfa_size_limit(MAX_SIZE);
        let validator = options.with_pattern_options(backtracking).build(&schema).ok()?;
        Some(PatternState::Backtracking(validator))
    }
}

/// The minimum number of states of a pattern, with repetitions written out.
fn weight(pattern: &str) -> u64 {
    /// The weight of a Unicode class: it has hundreds of ranges.
    const CLASS: u64 = 100;
    let mut open = vec![0u64];
    let mut last = 0;
    let mut rest = pattern.chars().peekable();
    while let Some(letter) = rest.next() {
        last = match letter {
            '(' => {
                open.push(0);
                continue;
            }
            ')' if open.len() > 1 => open.pop().unwrap_or(0).saturating_add(1),
            '\\' => match rest.next() {
                Some('p' | 'P') => {
                    while rest.next_if(|letter| *letter != '}').is_some() {}
                    rest.next();
                    CLASS
                }
                _ => 1,
            },
            '[' => {
                let mut class = 4;
                while let Some(letter) = rest.next_if(|letter| *letter != ']') {
                    let escaped = if letter == '\\' { rest.next() } else { None };
                    class += if matches!(escaped, Some('p' | 'P')) { CLASS } else { 1 };
                }
                rest.next();
                class
            }
            '{' => {
                let mut most = 0u64;
                let mut count = 0u64;
                while let Some(letter) = rest.next_if(|letter| letter.is_ascii_digit() || *letter == ',') {
                    count = letter
                        .to_digit(10)
                        .map_or(0, |digit| count.saturating_mul(10).saturating_add(digit.into()));
                    most = most.max(count);
                }
                rest.next_if_eq(&'}');
                let written_out = last.saturating_mul(most.max(1));
                if let Some(sum) = open.last_mut() {
                    *sum = sum.saturating_add(written_out - last);
                }
                last = written_out;
                continue;
            }
            '.' => 4,
            _ => 1,
        };
        if let Some(sum) = open.last_mut() {
            *sum = sum.saturating_add(last);
        }
    }
    open.into_iter().fold(1, u64::saturating_add)
}

/// Keywords about the form of a text that drafts before 2019-09 require: `format`, and the encoding of its content.
#[derive(Debug)]
pub(super) struct StringFormat {
    schema: Value,
    draft: Draft,
    /// Whether the text itself must be a regular expression.
    is_pattern: bool,
    made: OnceLock<Option<Validator>>,
}

impl StringFormat {
    pub(super) fn new(words: Map<String, Value>, draft: Draft) -> Self {
        let is_pattern = words.get("format").is_some_and(|format| format == "regex");
        Self { schema: Value::Object(words), draft, is_pattern, made: OnceLock::new() }
    }

    /// Returns the problem of a text, if there is one.
    pub(super) fn problem(&self, text: &str, budget: &mut StepBudget) -> Result<Option<String>, CheckStop> {
        budget.spend_on(text.len())?;
        if self.is_pattern && weight(text) > MAX_WEIGHT {
            return Err(CheckStop::Spent);
        }
        let make = || jsonschema::options().with_draft(self.draft).build(&self.schema).ok();
        let Some(validator) = self.made.get_or_init(make) else {
            return Err(CheckStop::Invalid("the form of a text is not known".to_owned()));
        };
        Ok(validator.validate(&text.into()).err().map(|error| error.masked().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_weigh_what_they_say() {
        assert!(weight("^[a-z]{1,63}(-[0-9]{4}){2}$") < 1_000);
        assert!(weight("((a{1000}){1000}){1000}") > 1_000_000_000);
        assert!(weight("a{99999999999999999999}") > MAX_WEIGHT);
        assert!(weight("(((((((") < 100);
        assert!(weight(r"\p{L}{1000}") >= 100_000);
    }

    #[test]
    fn a_pattern_that_would_go_back_for_ever_is_not_judged() {
        let text = format!("{}!", "a".repeat(60));
        for pattern in [r"^(?=(a|aa)+$)(a|aa)+$", r"^(a*)*\1$", r"^(?:(a+)+\1)+$"] {
            let judged = LazyPattern::new(pattern).matches(&text, &mut StepBudget::default());
            assert!(matches!(judged, Err(CheckStop::Spent) | Ok(false)), "{pattern}: {judged:?}");
        }
        let linear = LazyPattern::new("^(a+)+$").matches(&text, &mut StepBudget::default());
        assert!(matches!(linear, Ok(false)), "{linear:?}");
    }

    #[test]
    fn patterns_look_around() {
        let pattern = LazyPattern::new(r"^(?!con$)[a-z]+$");
        let mut budget = StepBudget::default();
        assert!(pattern.matches("cone", &mut budget).is_ok_and(|is_found| is_found));
        assert!(pattern.matches("con", &mut budget).is_ok_and(|is_found| !is_found));
        assert!(matches!(LazyPattern::new("(").matches("", &mut budget), Err(CheckStop::Invalid(_))));
    }
}
