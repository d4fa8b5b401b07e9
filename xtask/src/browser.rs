//! A page of another origin in a real browser, which asks the gateway as web applications and hostile pages do.

use std::path::PathBuf;
use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed};
use crate::{root, target};

/// The names under which systems have it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A part of `cargo xtask check --clients`.
pub(crate) fn run() -> Result<Outcome, String> {
    let Some(chromium) = NAMES.into_iter().find_map(path) else {
        return Ok(Outcome::Skipped("there is no chromium for pages that ask the gateway".into()));
    };
    if !is_there("python3") {
        return Ok(Outcome::Skipped("there is no python3".into()));
    }
    succeed(Command::new(cargo()).args(["build", "--quiet", "-p", "callweave-cli"]).current_dir(root()))?;
    let mut script = Command::new("python3");
    script.arg(root().join("clients/browser.py")).arg(target().join("debug/callweave")).arg(chromium);
    succeed(&mut script)?;
    Ok(Outcome::Passed)
}

/// The path of a program.
fn path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
