//! callweave turns whatever a language model answers, in any provider's protocol and in any textual
//! dialect, streamed or whole, into one clean sequence of events and one finished message with valid
//! tool calls.

pub mod accumulator;
pub mod dialect;
pub mod error;
pub mod event;
pub mod fragment;
pub mod framing;
pub mod grammar;
pub mod json;
pub mod loose;
pub mod message;
pub mod pipeline;
pub mod protocol;
pub mod read;
#[cfg(feature = "async")]
pub mod stream;
pub mod weave;

pub use error::{Error, ErrorKind, Result};
