//! The interfaces of other systems for the same work, thin over the public core.
//!
//! - [`tool_call_aggregator`]: deltas and messages of any wrapping → call records and increments to pass on to a
//!   client.
//! - [`nous`] and [`req_llm`]: accumulators of fragments, with the functions and results of two Elixir libraries.
//! - [`loose`]: the decoder below them, for fragments of any shape.
//! - [`ex_athena`]: a finished reply → its calls, wherever the model put them.
//! - [`prompty`]: a provider's response, complete or streamed → text, calls, a structured value, vectors, images.

pub mod ex_athena;
pub mod loose;
pub mod nous;
pub mod prompty;
pub mod req_llm;
pub mod tool_call_aggregator;
