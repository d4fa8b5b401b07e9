//! A gateway between agents and models: a client speaks its own protocol, the model behind may speak
//! another or only text, and the client gets clean, valid, correctly finished tool calls.
//!
//! ```text
//! client ─▶ router ─▶ Asked ─▶ routes ─▶ upstream ─▶ answer (stages) ─▶ Output ─▶ client
//! ```
//!
//! One flow serves every protocol, streamed or complete: [`config`] names the upstream of each model, a row of `wire`
//! the way to ask it, and the stages of `response` make calls of its response. A response is made while the client reads
//! it: nothing runs on its own, so a slow client slows its upstream down and one that leaves ends its request there.

mod account;
mod attempts;
mod body;
mod check;
mod codex;
pub mod config;
pub mod demo;
mod failure;
mod gateway;
mod handle;
mod heavy;
mod hops;
mod idle_timer;
mod in_flight;
mod incoming;
mod intake;
pub mod keys;
mod live;
pub mod log;
mod metrics;
mod models;
mod pages;
mod parse;
mod patient;
mod record;
mod relay;
mod retry;
mod router;
mod routes;
mod server;
pub mod store;
mod tokens;
mod trace;
mod upstream;

pub use body::ResponseBody;
pub use check::UpstreamProbe;
pub use gateway::Gateway;
pub use server::Server;
