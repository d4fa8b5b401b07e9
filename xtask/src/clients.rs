//! The providers' official clients, played our own cases: do they understand what callweave understands?

use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed};
use crate::{root, target};

/// `cargo xtask check --clients`: installs the clients into `target/clients`, in the versions that
/// `clients/requirements.txt` names, and compares.
pub(crate) fn run() -> Result<Outcome, String> {
    let home = target().join("clients");
    let python = home.join("bin/python");
    if !is_there("python3") {
        return Ok(Outcome::Skipped("there is no python3".into()));
    }
    if !python.exists()
        && let Err(why) = succeed(Command::new("python3").args(["-m", "venv"]).arg(&home))
    {
        return unreachable(why);
    }
    let requirements = root().join("clients/requirements.txt");
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries=1",
        "--timeout=20",
        "-r",
    ];
    if let Err(why) = succeed(Command::new(&python).args(install).arg(requirements)) {
        return unreachable(why);
    }
    succeed(Command::new(cargo()).args(["build", "--quiet", "-p", "callweave-cli"]).current_dir(root()))?;
    // What we read of their providers, and what they read of us.
    let scripts =
        ["compare.py", "openai_chat_responses.py", "anthropic_bedrock.py", "gemini_ollama_cohere.py"];
    for script in scripts {
        succeed(
            Command::new(&python)
                .arg(root().join("clients").join(script))
                .arg(target().join("debug/callweave"))
                .arg(root().join("crates/callweave/tests/data/protocol")),
        )?;
    }
    node()
}

/// The same with a client for Node.
fn node() -> Result<Outcome, String> {
    if !is_there("npm") {
        return Ok(Outcome::Skipped("there is no npm for the clients of Node".into()));
    }
    // Packages are found beside the script that asks for them.
    let home = target().join("clients/node");
    std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    for file in ["package.json", "anthropic.mjs"] {
        std::fs::copy(root().join("clients").join(file), home.join(file))
            .map_err(|error| error.to_string())?;
    }
    let install = ["install", "--silent", "--no-audit", "--no-fund"];
    if let Err(why) = succeed(Command::new("npm").args(install).current_dir(&home)) {
        return unreachable(why);
    }
    succeed(
        Command::new("node")
            .arg(home.join("anthropic.mjs"))
            .arg(target().join("debug/callweave"))
            .arg(root().join("crates/callweave/tests/data/protocol")),
    )?;
    Ok(Outcome::Passed)
}

/// Python is there and the clients cannot be had. Without a network that is nobody's fault; CI has one, and
/// must not pass for months without having compared anything.
fn unreachable(why: String) -> Result<Outcome, String> {
    if std::env::var_os("CI").is_some() {
        return Err(format!("the clients cannot be had: {why}"));
    }
    Ok(Outcome::Skipped(format!("the clients cannot be had: {why}")))
}
