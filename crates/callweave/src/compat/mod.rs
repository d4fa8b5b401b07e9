//! The interfaces of other systems for the same work, thin over the public core.
//!
//! - [`tool_call_aggregator`]: deltas and messages of any wrapping → call records and increments to pass on to a
//!   client.
//! - [`loose`]: fragments as other accumulators hand them on.
//! - [`ex_athena`]: a finished reply → its calls, wherever the model put them.
//! - [`teach`]: a system prompt that teaches a dialect, and past calls written in it.
//! - [`prompty`]: a provider's response, complete or streamed → text, calls, a structured value, vectors, images.

pub mod ex_athena;
pub mod loose;
pub mod prompty;
pub mod teach;
pub mod tool_call_aggregator;
