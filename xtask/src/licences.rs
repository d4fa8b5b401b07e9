//! The rules for dependencies: licences, banned crates and sources, by `deny.toml`.

use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed};
use crate::root;

/// Runs cargo-deny. Advisories are left out: they need a database from the network, and would make the same
/// commit pass today and fail tomorrow.
pub(crate) fn run() -> Result<Outcome, String> {
    if !is_there("cargo-deny") {
        return Ok(Outcome::Skipped("there is no cargo-deny; `cargo install --locked cargo-deny`".into()));
    }
    // It looks at dependencies on any system, also at those that this one never needed.
    if let Err(why) =
        succeed(Command::new(cargo()).args(["fetch", "--locked", "--quiet"]).current_dir(root()))
    {
        return Ok(Outcome::Skipped(format!("crates of other systems cannot be had: {why}")));
    }
    let words = ["deny", "--offline", "--all-features", "check", "licenses", "bans", "sources"];
    succeed(Command::new(cargo()).args(words).current_dir(root()))?;
    Ok(Outcome::Passed)
}
