//! The interfaces of other systems for the same work, thin over the public core.
//!
//! - [`aggregator`]: deltas and messages of any wrapping → call records and increments to hand on to a client.
//! - [`loose`]: fragments as other accumulators hand them on.
//! - [`extract`]: a finished reply → its calls, wherever the model put them.
//! - [`prompt`]: a system prompt that teaches a dialect, and past calls written in it.
//! - [`process`]: a provider's answer, whole or streamed → text, calls, a structured value, vectors, images.

pub mod aggregator;
pub mod extract;
pub mod loose;
pub mod process;
pub mod prompt;
