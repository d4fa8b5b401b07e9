//! Tool loops of frameworks, through a running gateway, against scripted models.

use crate::check::{Outcome, told};
use crate::clients::{Script, install_python, play_all, unreachable};
use crate::serving::Serving;
use crate::{root, target};

/// A part of `cargo xtask check --clients`. The frameworks for Python want other versions of the official clients than
/// the newest, so they are installed apart; the frameworks for Node stand beside the clients that an earlier step has
/// installed.
pub(crate) fn run() -> Result<Outcome, String> {
    let home = target().join("clients");
    if !home.join("bin/python").exists() {
        return Ok(Outcome::Skipped("the clients for Python are not there".into()));
    }
    let requirements = root().join("clients/frameworks/requirements.txt");
    let python = match install_python(&home.join("frameworks"), &requirements, &[]) {
        Ok(python) => python,
        Err(why) => return unreachable(why),
    };
    let gateway = Serving::start(&home.join("tool-loops.log"))?;
    let url = format!("http://{}", gateway.address);
    let mut scripts: Vec<Script> =
        vec![(python, vec![root().join("clients/tool_loops.py").into(), url.clone().into()])];
    let has_node = home.join("node/node_modules/ai").exists();
    if has_node {
        // Packages are found beside the script that asks for them.
        let script = home.join("node/tool_loops.mjs");
        std::fs::copy(root().join("clients/tool_loops.mjs"), &script).map_err(told(&script))?;
        scripts.push(("node".into(), vec![script.into(), url.into()]));
    }
    play_all(&scripts)?;
    Ok(match has_node {
        true => Outcome::Passed,
        false => Outcome::Skipped("the frameworks for Node are not there".into()),
    })
}
