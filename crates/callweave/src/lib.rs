//! callweave turns any response of a language model, in any provider's protocol and in any textual dialect, streamed or
//! complete, into one clean sequence of events and one message with valid tool calls; and writes it in the protocol that
//! a client speaks.
//!
//! ```
//! use callweave::read::ItemReader;
//! use callweave::{Decoder, LiveItem, Tools, Value};
//!
//! # let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"<tool_call>{'name': 'look', \"}}]}\n\n\
//! #     data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"'arguments': {'at': 'sky'}}</tool_call>\"}}]}\n\n\
//! #     data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
//! # let answer = body.as_bytes();
//! let tools: Value = r#"[{"name": "look", "parameters": {"type": "object"}}]"#.parse()?;
//! let decoder = Decoder::builder()
//!     .dialect("auto") // calls that the model writes into its text
//!     .tools(Tools::from_json(&tools))
//!     .repair() // arguments that are not quite JSON
//!     .build();
//! let mut items = ItemReader::with(answer, decoder); // anything that can be read
//! for item in &mut items {
//!     match item? {
//!         LiveItem::Text(text) => print!("{text}"),
//!         LiveItem::Reasoning(thought) => eprint!("{thought}"),
//!         LiveItem::Call(call) => eprint!("{} {}", call.name, call.piece), // while it grows
//!         LiveItem::CallDone(call) => println!("{}({})", call.name, call.arguments()),
//!         LiveItem::Finish(reason) => println!("{reason}"),
//!         LiveItem::Error(error) => eprintln!("{error}"),
//!         _ => {}
//!     }
//! }
//! # assert_eq!(items.message().tool_calls().next().map(|call| call.arguments().to_owned()), Some(r#"{"at": "sky"}"#.to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Text without a protocol around it is [`extract`]ed, a body or a recorded stream is [`decode`]d: both give a [`Message`] with
//! its [`ToolCall`]s.
//!
//! # The flow
//!
//! ```text
//! bytes ─▶ framing ─▶ protocol ─▶ weave ─▶ dialect, arguments, finalize ─▶ Event ─┬▶ Accumulator ─▶ Message
//!                                                                                 └▶ Encoder ─▶ bytes
//! ```
//!
//! Every stage is `push(input, &mut sink)` and `finish(&mut sink)`. A complete body is one push, so a streamed and a
//! complete response cannot disagree. Nothing here waits or reads a file or a clock. Only the feature `reqwest` adds a module that speaks to a network.
//!
//! ```
//! use callweave::accumulator::Accumulator;
//! use callweave::pipeline::Decoder;
//!
//! let reads = ["data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel", "lo\"}}]}\n\ndata: [DONE]\n\n"];
//! let mut decoder = Decoder::detect();
//! let mut answer = Accumulator::new();
//! for bytes in reads {
//!     decoder.push(bytes.as_bytes(), &mut answer)?;
//! }
//! decoder.finish(&mut answer)?;
//! assert_eq!(answer.message().text(), "Hello");
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! # The stages
//!
//! [`fragment`], [`weave`], [`finalize`] and [`grammar`] are public for tests and tools; they may change with any release.
//!
//! - [`framing`]: bytes, split anywhere → frames (SSE, JSON lines, JSON values, AWS event streams).
//! - [`protocol`]: one frame → [`fragment`]s, pure; the [`protocol::TABLE`] lists the protocols.
//! - [`weave`]: fragments → [`event`]s, the one stateful fold; [`grammar`] checks its output.
//! - [`dialect`]: text → events, for models that write calls and reasoning into their text.
//! - [`arguments`]: calls → calls that can be run: repaired, fitted to their schemas, checked.
//! - [`finalize`]: missing ids, and the finish reason.
//! - [`accumulator`]: events → [`message`]; [`live`]: events → items to follow while they come.
//! - [`outcome`]: events → what became of each call.
//! - [`encode`]: events and messages → the bytes of a protocol.
//! - [`request`]: the bodies that clients send ↔ one neutral request.
//! - `exchange` (feature `exchange`): everything between a client's request and its response, as a gateway does it.
//! - [`provider`]: names, addresses, variables, protocols and rules of providers, in one table.
//! - [`upstream`]: the errors of providers, with a class that says what to do.
//! - [`json`]: scanning, partial values, repair and schemas of what models write.
//!
//! # Ways in
//!
//! - [`pipeline`], [`read`] and `stream` (feature `async`): bytes, readers and streams to events and messages.
//! - `reqwest` (feature `reqwest`): an exchange around `reqwest::Client`, as a layer of `tower`.
//! - [`compat`]: the interfaces of other systems under their own names: [`compat::nous`], [`compat::req_llm`],
//!   [`compat::ex_athena`], [`compat::tool_call_aggregator`] and [`compat::prompty`].
//! - [`mod@teach`]: prompts for models without native tool calls.
//!
//! # Features
//!
//! `async` adds adapters for `futures::Stream`; `schema` adds validation by the whole of JSON Schema, and about fifty
//! crates; `exchange` adds what a gateway decides, without I/O; `reqwest` drives it for clients over reqwest, and adds
//! reqwest and tokio; `tracing` (on by default) lets [`compat::prompty`] write spans. Only `schema` changes results: without it, arguments are
//! coerced to their schemas and not checked against them. No feature changes results of your own code: see [`json::Value`].

// docs.rs shows what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]
// What only the cache uses stays where it belongs.
#![cfg_attr(callweave_no_frame_cache, allow(dead_code, unused_imports))]

pub mod accumulator;
pub mod arguments;
pub mod compat;
pub mod dialect;
pub mod encode;
pub mod error;
pub mod event;
#[cfg(feature = "exchange")]
pub mod exchange;
#[doc(hidden)]
pub mod finalize;
mod fingerprint;
#[doc(hidden)]
pub mod fragment;
#[cfg_attr(callweave_no_frame_cache, path = "frame_cache/off.rs")]
mod frame_cache;
pub mod framing;
#[doc(hidden)]
pub mod grammar;
pub mod json;
pub mod live;
mod made_id;
pub mod message;
#[doc(hidden)]
pub mod names;
pub mod outcome;
pub mod pipeline;
// A protocol passes opaque values on and cannot inspect them: see `clippy.toml`.
#[deny(clippy::disallowed_methods)]
pub mod protocol;
pub mod provider;
mod queue;
pub mod read;
pub mod request;
#[cfg(feature = "reqwest")]
pub mod reqwest;
pub mod stop;
#[cfg(feature = "async")]
pub mod stream;
mod table;
pub mod teach;
mod truncated;
pub mod upstream;
#[doc(hidden)]
pub mod weave;

pub use accumulator::Accumulator;
pub use dialect::Tools;
pub use encode::Encoder;
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, FinishReason};
#[cfg(feature = "exchange")]
pub use exchange::Exchange;
pub use json::Value;
pub use live::LiveItem;
pub use message::{InvalidCall, InvalidReason, Message, ToolCall};
pub use pipeline::{Decoder, decode, extract};
pub use protocol::Protocol;
pub use request::Request;
pub use teach::teach;

/// The examples in the documents, so that they are run.
#[cfg(doctest)]
mod documents {
    // It shows the layer for reqwest, too.
    #[cfg(feature = "reqwest")]
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/origins.md")]
    mod origins {}
    #[doc = include_str!("../../../docs/dev/tool-call-aggregator.md")]
    mod tool_call_aggregator {}
}
