//! Checking by a schema: the verdict is that of the `jsonschema` crate, and the work is bounded by the budget.

#![cfg(feature = "schema")]

#[path = "check/budget.rs"]
mod budget;
#[path = "check/verdicts.rs"]
mod verdicts;
