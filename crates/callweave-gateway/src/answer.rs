//! What happens to an answer on its way from the upstream to the client: the stages in a row.
//!
//! ```text
//! bytes ─▶ Decoder (dialect, repair, schema) ─▶ Undo ─▶ Stopper ─▶ Ending ─▶ Watch ─▶ Output ─▶ bytes, message
//! ```

mod chain;
mod ending;
mod output;
mod stopper;
mod watch;

pub(crate) use chain::{Chain, Reading};
pub(crate) use output::{Hold, Output, Wanted};
pub(crate) use watch::Outcome;
