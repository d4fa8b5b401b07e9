//! The limit of the work that a schema may cause.

use crate::error::{Error, ErrorKind};

/// The steps that are left for coercing and checking a value.
///
/// A schema decides how much work a value is: alternatives inside alternatives multiply, and so do references. Every
/// schema that is looked at for a value, every comparison and every piece of text takes steps. When none are left the
/// work ends with an error of the kind [`ErrorKind::Limit`], which says nothing about the value.
///
/// ```
/// use callweave::ErrorKind;
/// use callweave::json::schema::{StepBudget, CoerceOptions, Schema};
/// use serde_json::json;
///
/// let schema = Schema::new(&json!({"items": {"type": "integer"}}));
/// let mut budget = StepBudget::new(20);
/// let spent = schema.coerce_within(&json!(vec!["1"; 100]), CoerceOptions::default(), &mut budget);
/// assert_eq!(spent.expect_err("too much work").kind(), ErrorKind::Limit);
/// ```
#[derive(Clone, Debug)]
pub struct StepBudget {
    left: u64,
}

/// The error that no steps are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetSpent;

/// The number of bytes of text that count as one step.
const TEXT_PER_STEP: usize = 64;

impl StepBudget {
    /// The default budget of one value: a thousand times what tool calls take, and a few hundredths of a second.
    pub const STEPS: u64 = 250_000;

    /// A budget of `steps` steps.
    pub fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// The number of steps left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes steps; where fewer are left, all of them.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), BudgetSpent> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(BudgetSpent)
            }
        }
    }

    /// Takes the steps of looking at that number of parts.
    pub(super) fn spend_on(&mut self, parts: usize) -> Result<(), BudgetSpent> {
        self.spend(parts as u64)
    }

    /// Takes the steps of looking at that number of bytes of text.
    pub(super) fn spend_on_text(&mut self, bytes: usize) -> Result<(), BudgetSpent> {
        self.spend_on(1 + bytes / TEXT_PER_STEP)
    }
}

impl Default for StepBudget {
    fn default() -> Self {
        Self::new(Self::STEPS)
    }
}

impl From<BudgetSpent> for Error {
    fn from(_: BudgetSpent) -> Self {
        Self::new(ErrorKind::Limit, "the schema makes too much work of the value: it was not checked")
    }
}
