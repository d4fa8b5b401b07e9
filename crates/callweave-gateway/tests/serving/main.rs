//! The gateway as its clients meet it, in one process and with scripted models behind it.

mod again;
mod asking;
mod far;
mod kept;
mod manners;
mod stopping;
mod support;
