//! The stages between the bytes of an upstream and the bytes of the client.
//!
//! ```text
//! bytes ─▶ Decoder (dialect, repair, schema) ─▶ ReverseMappingStage ─▶ UniqueIds ─▶ Stopper ─▶ Ending ─▶ ResponseStats ─▶ Output ─▶ bytes, message
//! ```

mod chain;
mod complete_calls;
mod ending;
mod output;
mod rewrite;
mod stats;
mod stopper;
mod unique_ids;

pub(super) use chain::{ResponseChain, ResponseReading};
pub(super) use output::{ClientOutput, HeldPart, OutputConfig};
pub use stats::{CallOutcome, CallResolution};
