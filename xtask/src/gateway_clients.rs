//! The providers' official clients, through a running gateway, against every scripted model.

use crate::check::{Outcome, told};
use crate::clients::{Script, play_all};
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
    let mut scripts: Vec<Script> =
        vec![(python, vec![root().join("clients/gateway.py").into(), url.clone().into()])];
    let has_node = home.join("node/node_modules/openai").exists();
    if has_node {
        // Packages are found beside the script that asks for them.
        let script = home.join("node/gateway.mjs");
        std::fs::copy(root().join("clients/gateway.mjs"), &script).map_err(told(&script))?;
        scripts.push(("node".into(), vec![script.into(), url.into()]));
    }
    play_all(&scripts)?;
    Ok(match has_node {
        true => Outcome::Passed,
        false => Outcome::Skipped("the clients for Node are not there".into()),
    })
}
