//! The providers' official clients, through a running gateway, against every scripted model.

use std::ffi::OsString;
use std::process::Command;

use crate::check::{Outcome, told};
use crate::clients::{Script, play_all};
use crate::serving::{Serving, free_address};
use crate::{root, target};

/// Seconds for which an upstream says nothing, while the gateway gives a sign of life in each.
const SILENCE: &str = "3.5";

/// Upstreams that a script plays itself.
struct Played {
    script: &'static str,
    /// The configuration besides the upstreams.
    settings: &'static str,
    /// Their names and protocols.
    upstreams: &'static [(&'static str, &'static str)],
    /// The arguments of the script besides the addresses.
    words: &'static [&'static str],
}

const PLAYED: [Played; 3] = [
    Played {
        script: "silence.py",
        settings: "[timeouts]\nkeep_alive = 1\n",
        upstreams: &[("silent", "openai-chat")],
        words: &[SILENCE],
    },
    Played {
        script: "odd_routes.py",
        settings: "demo = true\n",
        upstreams: &[("far", "openai-chat"), ("far-responses", "openai-responses")],
        words: &[],
    },
    Played {
        script: "odd_routes.mjs",
        settings: "demo = true\n",
        upstreams: &[("far", "openai-chat")],
        words: &[],
    },
];

/// Scripts for which the scripted models are enough.
const FOR_DEMO: [&str; 4] = ["gateway.py", "invalid_calls.py", "gateway.mjs", "invalid_calls.mjs"];

/// A part of `cargo xtask check --clients`: it uses the installations of the step before it.
pub(crate) fn run() -> Result<Outcome, String> {
    let home = target().join("clients");
    if !home.join("bin/python").exists() {
        return Ok(Outcome::Skipped("the clients for Python are not there".into()));
    }
    let has_node = home.join("node/node_modules/openai").exists();
    let is_able = |script: &str| has_node || !script.ends_with(".mjs");
    let mut scripts: Vec<Script> = Vec::new();
    let mut serving = vec![Serving::start(&home.join("gateway.log"))?];
    for name in FOR_DEMO.into_iter().filter(|name| is_able(name)) {
        scripts.push(script(name, [format!("http://{}", serving[0].address)])?);
    }
    run_readme(&format!("http://{}", serving[0].address))?;
    for Played { script: name, settings, upstreams, words } in PLAYED.iter().filter(|it| is_able(it.script)) {
        let upstream = free_address().map_err(|error| error.to_string())?;
        let mut text = (*settings).to_owned();
        for (name, protocol) in *upstreams {
            text.push_str(&format!(
                "[upstreams.{name}]\nbase_url = \"http://{upstream}/v1\"\nprotocol = \"{protocol}\"\nmodels = [\"m\"]\n"
            ));
        }
        let config = home.join(format!("{name}.toml"));
        std::fs::write(&config, text).map_err(told(&config))?;
        let options = ["--config".as_ref(), config.as_os_str()];
        let gateway = Serving::start_with(&home.join(format!("{name}.log")), &options)?;
        let addresses = [format!("http://{}", gateway.address), upstream.port().to_string()];
        scripts.push(script(name, addresses.into_iter().chain(words.iter().map(|&word| word.into())))?);
        serving.push(gateway);
    }
    play_all(&scripts)?;
    Ok(match has_node {
        true => Outcome::Passed,
        false => Outcome::Skipped("the clients for Node are not there".into()),
    })
}

/// A script with its words, and what runs it.
fn script(name: &str, words: impl IntoIterator<Item = String>) -> Result<Script, String> {
    let (home, file) = (target().join("clients"), root().join("clients").join(name));
    let (program, file) = match name.ends_with(".mjs") {
        false => (home.join("bin/python"), file),
        true => {
            // Packages are found beside the script that asks for them.
            let copy = home.join("node").join(name);
            std::fs::copy(&file, &copy).map_err(told(&copy))?;
            ("node".into(), copy)
        }
    };
    let words = words.into_iter().map(OsString::from);
    Ok((program, std::iter::once(file.into()).chain(words).collect()))
}

/// Runs the Python of the README, which must print the call.
fn run_readme(url: &str) -> Result<(), String> {
    let path = root().join("README.md");
    let text = std::fs::read_to_string(&path).map_err(told(&path))?;
    let code = text.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
    let (code, _) = code.ok_or("the README has no Python")?;
    let mut python = Command::new(target().join("clients/bin/python"));
    let output = python.args(["-c", &code.replace("http://127.0.0.1:2255", url)]).output();
    let output = output.map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && printed.contains("get_weather") && printed.contains("Paris") {
        return Ok(());
    }
    Err(format!("the README's Python printed {printed:?}\n{}", String::from_utf8_lossy(&output.stderr)))
}
