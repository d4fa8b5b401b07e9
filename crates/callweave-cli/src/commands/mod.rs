//! The commands, one file each.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod decode;
pub(crate) mod demo;
pub(crate) mod dialects;
pub(crate) mod extract;
pub(crate) mod man;
pub(crate) mod protocols;
pub(crate) mod repair;
mod requests;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod teach;
