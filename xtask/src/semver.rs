//! Compares the library's interface with that of the last release.

use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed};
use crate::root;

/// Runs cargo-semver-checks against the newest tag `v…`.
pub(crate) fn run() -> Result<Outcome, String> {
    let words = ["describe", "--tags", "--match", "v[0-9]*", "--abbrev=0"];
    let output = Command::new("git").args(words).current_dir(root()).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if tag.is_empty() {
        return Ok(Outcome::Skipped("there is no tag v… yet, so nothing was promised".into()));
    }
    if !is_there("cargo-semver-checks") {
        let why = format!(
            "there is no cargo-semver-checks to compare with {tag}; `cargo install --locked cargo-semver-checks`"
        );
        // A release must not go out unchecked.
        return if std::env::var_os("CI").is_some() { Err(why) } else { Ok(Outcome::Skipped(why)) };
    }
    let words = ["semver-checks", "--package", "callweave", "--all-features", "--baseline-rev", &tag];
    succeed(Command::new(cargo()).args(words).current_dir(root()))?;
    Ok(Outcome::Passed)
}
