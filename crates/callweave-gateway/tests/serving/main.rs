//! The gateway as its clients meet it, in one process and with scripted models behind it.

mod addresses;
mod bounds;
mod budget;
#[path = "../upstream/client.rs"]
mod client;
mod clients;
mod concurrency;
mod configuration;
mod dialects;
mod endpoints;
mod error_messages;
mod exactness;
mod forwarded;
mod invalid_calls;
mod keep_alive;
mod known_protocols;
mod limits;
mod logs;
mod manual;
mod misbehaving;
mod pages;
mod relayed;
mod request_bodies;
mod routes;
mod same_protocol;
mod scripted_upstream;
mod shutdown;
mod signatures;
mod stopping;
mod stored_responses;
mod support;
mod timeouts;
mod tls;
mod truncated;
mod upstream_protocols;
