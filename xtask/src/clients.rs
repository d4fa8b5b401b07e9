//! The providers' official clients, played our own cases and recordings: do they understand what callweave understands?

mod matrix;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use self::matrix::play_all;
use crate::check::{Outcome, cargo, is_there, succeed, told};
use crate::{root, target};

/// A script of clients: its program, and its arguments.
pub(crate) type Script = (PathBuf, Vec<OsString>);

/// The long ones come first: scripts are played side by side.
const FOR_PYTHON: [&str; 5] = [
    "anthropic_bedrock.py",
    "openai_chat_responses.py",
    "gemini_ollama_cohere.py",
    "errors.py",
    "compare.py",
];
const FOR_NODE: [&str; 3] = ["ai.mjs", "openai.mjs", "anthropic.mjs"];

/// `cargo xtask check --clients`: installs the clients into `target/clients`, in the versions that
/// `clients/requirements.txt` and `clients/package.json` name, and compares.
pub(crate) fn run() -> Result<Outcome, String> {
    if !is_there("python3") {
        return Ok(Outcome::Skipped("there is no python3".into()));
    }
    let home = target().join("clients");
    let python = match install_python(&home, &root().join("clients/requirements.txt"), &[]) {
        Ok(python) => python,
        Err(why) => return unreachable(why),
    };
    succeed(Command::new(cargo()).args(["build", "--quiet", "-p", "callweave-cli"]).current_dir(root()))?;
    let played = played();
    let of = |program: &Path, script: PathBuf| {
        let words = std::iter::once(script.into()).chain(played.iter().cloned());
        (program.to_owned(), words.collect())
    };
    let mut scripts: Vec<Script> =
        FOR_PYTHON.iter().map(|name| of(&python, root().join("clients").join(name))).collect();
    let written = written_requests()?;
    scripts.push((python, vec![root().join("clients/request_types.py").into(), written.into()]));
    let (for_node, outcome) = if is_there("npm") {
        let node = home.join("node");
        match install_for_node(&node) {
            Ok(()) => (Some(node), Ok(Outcome::Passed)),
            Err(why) => (None, unreachable(why)),
        }
    } else {
        (None, Ok(Outcome::Skipped("there is no npm for the clients of Node".into())))
    };
    if let Some(node) = for_node {
        scripts.extend(FOR_NODE.iter().map(|name| of(Path::new("node"), node.join(name))));
    }
    play_all(&scripts)?;
    outcome
}

/// An environment of Python with what a file requires, and the Python in it.
pub(crate) fn install_python(
    home: &Path,
    requirements: &Path,
    environment: &[(&str, &str)],
) -> Result<PathBuf, String> {
    let python = home.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(home))?;
    }
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
    succeed(Command::new(&python).args(install).arg(requirements).envs(environment.iter().copied()))?;
    Ok(python)
}

/// The clients for Node, with the scripts: packages are found beside the script that asks for them.
fn install_for_node(home: &Path) -> Result<(), String> {
    std::fs::create_dir_all(home).map_err(told(home))?;
    for file in ["package.json", "answers.mjs"].iter().chain(&FOR_NODE) {
        std::fs::copy(root().join("clients").join(file), home.join(file)).map_err(told(home))?;
    }
    let install = ["install", "--silent", "--no-audit", "--no-fund"];
    succeed(Command::new("npm").args(install).current_dir(home))
}

/// Returns the arguments of scripts: the program, our own cases and, where they are at hand, the recordings.
fn played() -> Vec<OsString> {
    let recorded = root().ancestors().map(|folder| folder.join("shared/corpus")).find(|path| path.exists());
    if recorded.is_none() {
        println!("   our own cases alone: the recordings are not there");
    }
    let own = [target().join("debug/callweave"), root().join("crates/callweave/tests/data/protocol")];
    own.into_iter().chain(recorded).map(OsString::from).collect()
}

/// Returns the file of our requests to the clients' providers, written by a test.
fn written_requests() -> Result<PathBuf, String> {
    let write = ["test", "--quiet", "-p", "callweave", "--all-features", "--test", "requests"];
    succeed(
        Command::new(cargo())
            .args(write)
            .args(["bodies_for_the_clients", "--", "--ignored"])
            .current_dir(root()),
    )?;
    Ok(target().join("tmp/written-requests.jsonl"))
}

/// Python or npm is there and the clients cannot be had. Without a network that is nobody's fault; CI has one, and
/// must not pass for months without having compared anything.
pub(crate) fn unreachable(why: String) -> Result<Outcome, String> {
    if std::env::var_os("CI").is_some() {
        return Err(format!("the clients cannot be had: {why}"));
    }
    Ok(Outcome::Skipped(format!("the clients cannot be had: {why}")))
}
