//! The gateway as its clients meet it, in one process and with scripted models behind it.

mod addressed;
mod again;
mod asking;
mod bounds;
mod budget;
#[path = "../upstream/client.rs"]
mod client;
mod configured;
mod cut;
mod documented;
mod doors;
mod exact;
mod far;
mod going;
mod kept;
mod limits;
mod logs;
mod manners;
mod named;
mod others;
mod own;
mod packed;
mod pages;
mod reading;
mod relayed;
mod room;
mod routes;
mod sealed;
mod sent_on;
mod silence;
mod spoken;
mod stopping;
mod support;
mod tls;
mod waits;
