//! Laws for any input: each oracle takes bytes and panics if a law is broken. Fuzzing looks for such bytes; the stored
//! seeds are run by a plain test.

#![allow(dead_code, reason = "each fuzz target uses one of them")]

pub(crate) mod accumulator;
pub(crate) mod contents;
pub(crate) mod decoder;
pub(crate) mod dialect;
pub(crate) mod exchange;
pub(crate) mod framing;
pub(crate) mod json;

#[path = "../support/aws.rs"]
mod aws;
#[path = "../support/driver.rs"]
mod driver;
#[path = "../laws/mod.rs"]
mod laws;

/// An oracle.
pub(crate) type Oracle = fn(&[u8]);

/// Every oracle by its name, which is the name of its fuzz target and of its folder of seeds.
pub(crate) const ALL: &[(&str, Oracle)] = &[
    ("accumulator", accumulator::check),
    ("contents", contents::check),
    ("decoder", decoder::check),
    ("dialect", dialect::check),
    ("exchange", exchange::check),
    ("framing", framing::check),
    ("json", json::check),
];
