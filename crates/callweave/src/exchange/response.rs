//! The stages between the bytes of an upstream and the bytes of the client.
//!
//! ```text
//! bytes ─▶ Decoder (dialect, repair, schema) ─▶ Undo ─▶ UniqueIds ─▶ Stopper ─▶ Ending ─▶ ResponseStats ─▶ Output ─▶ bytes, message
//! ```

mod chain;
mod ending;
mod output;
mod rewrite;
mod stats;
mod stopper;
mod unique_ids;

pub(super) use chain::{Chain, Reading};
pub(super) use output::{Hold, Output, OutputConfig};
pub use stats::{CallOutcome, Outcome};
