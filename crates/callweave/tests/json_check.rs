//! Checking by a schema: the verdict is that of the `jsonschema` crate, and the work is bounded by the budget.

#![cfg(feature = "schema")]

#[path = "check/budget.rs"]
mod budget;
#[path = "check/ordinary.rs"]
mod ordinary;
#[path = "support/shared.rs"]
mod shared;
#[path = "check/verdicts.rs"]
mod verdicts;
