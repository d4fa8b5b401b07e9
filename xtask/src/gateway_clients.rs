//! The providers' official clients, through a running gateway, against every scripted model.

use crate::check::{Outcome, told};
use crate::clients::{Script, play_all};
use crate::serving::{Serving, free_address};
use crate::{root, target};

/// Seconds for which an upstream says nothing, while the gateway gives a sign of life in each.
const SILENCE: &str = "3.5";

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
    let upstream = free_address().map_err(|error| error.to_string())?;
    let config = home.join("silence.toml");
    let text = format!(
        "[timeouts]\nkeep_alive = 1\n[upstreams.silent]\nurl = \"http://{upstream}/v1\"\nprotocol = \"openai-chat\"\n"
    );
    std::fs::write(&config, text).map_err(told(&config))?;
    let options = ["--config".as_ref(), config.as_os_str()];
    let silent = Serving::start_with(&home.join("silence.log"), &options)?;
    let has_node = home.join("node/node_modules/openai").exists();
    if has_node {
        // Packages are found beside the script that asks for them.
        let script = home.join("node/gateway.mjs");
        std::fs::copy(root().join("clients/gateway.mjs"), &script).map_err(told(&script))?;
        scripts.push(("node".into(), vec![script.into(), url.into()]));
    }
    scripts.push((
        home.join("bin/python"),
        vec![
            root().join("clients/silence.py").into(),
            format!("http://{}", silent.address).into(),
            upstream.port().to_string().into(),
            SILENCE.into(),
        ],
    ));
    play_all(&scripts)?;
    Ok(match has_node {
        true => Outcome::Passed,
        false => Outcome::Skipped("the clients for Node are not there".into()),
    })
}
