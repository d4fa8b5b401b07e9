//! The providers' official clients, through a running gateway, against every scripted model.

use std::process::Command;

use crate::check::{Outcome, succeed, told};
use crate::serving::Serving;
use crate::{root, target};

/// A part of `cargo xtask check --clients`: what the step before it has installed is used.
pub(crate) fn run() -> Result<Outcome, String> {
    let home = target().join("clients");
    let python = home.join("bin/python");
    if !python.exists() {
        return Ok(Outcome::Skipped("the clients for Python are not there".into()));
    }
    let gateway = Serving::start(&home.join("gateway.log"))?;
    let url = format!("http://{}", gateway.address);
    succeed(Command::new(python).arg(root().join("clients/gateway.py")).arg(&url))?;
    if !home.join("node/node_modules/openai").exists() {
        return Ok(Outcome::Skipped("the clients for Node are not there".into()));
    }
    // Packages are found beside the script that asks for them.
    let script = home.join("node/gateway.mjs");
    std::fs::copy(root().join("clients/gateway.mjs"), &script).map_err(told(&script))?;
    succeed(Command::new("node").arg(script).arg(&url))?;
    Ok(Outcome::Passed)
}
