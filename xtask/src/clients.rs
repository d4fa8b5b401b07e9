//! The providers' official clients, played our own cases and recordings: do they understand what callweave understands?

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
    let mut matrix = Vec::new();
    for script in [
        "compare.py",
        "openai_chat_responses.py",
        "anthropic_bedrock.py",
        "gemini_ollama_cohere.py",
        "errors.py",
    ] {
        play(Command::new(&python).arg(root().join("clients").join(script)), &mut matrix)?;
    }
    requests(&python)?;
    let outcome = node(&mut matrix)?;
    print_matrix(&matrix);
    Ok(outcome)
}

/// What we ask of their providers, by the types of their requests.
fn requests(python: &std::path::Path) -> Result<(), String> {
    let write = ["test", "--quiet", "-p", "callweave", "--all-features", "--test", "requests"];
    succeed(
        Command::new(cargo())
            .args(write)
            .args(["bodies_for_the_clients", "--", "--ignored"])
            .current_dir(root()),
    )?;
    let written = target().join("tmp/written-requests.jsonl");
    succeed(Command::new(python).arg(root().join("clients/requests.py")).arg(written))
}

/// The same with clients for Node.
fn node(matrix: &mut Vec<String>) -> Result<Outcome, String> {
    if !is_there("npm") {
        return Ok(Outcome::Skipped("there is no npm for the clients of Node".into()));
    }
    // Packages are found beside the script that asks for them.
    let home = target().join("clients/node");
    std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    let scripts = ["anthropic.mjs", "openai.mjs", "ai.mjs"];
    for file in ["package.json", "answers.mjs"].iter().chain(&scripts) {
        std::fs::copy(root().join("clients").join(file), home.join(file))
            .map_err(|error| error.to_string())?;
    }
    let install = ["install", "--silent", "--no-audit", "--no-fund"];
    if let Err(why) = succeed(Command::new("npm").args(install).current_dir(&home)) {
        return unreachable(why);
    }
    for script in scripts {
        play(Command::new("node").arg(home.join(script)), matrix)?;
    }
    Ok(Outcome::Passed)
}

/// Plays our own cases and, where they are at hand, the recordings to the clients of a script, and keeps its rows of the
/// matrix.
fn play(script: &mut Command, matrix: &mut Vec<String>) -> Result<(), String> {
    script.arg(target().join("debug/callweave")).arg(root().join("crates/callweave/tests/data/protocol"));
    let recorded = root().ancestors().map(|folder| folder.join("shared/corpus")).find(|path| path.exists());
    let output =
        script.args(recorded).output().map_err(|error| format!("{script:?} does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines() {
        match line.strip_prefix("matrix: ") {
            Some(row) => matrix.push(format!("| {row} |")),
            None => println!("{line}"),
        }
    }
    match output.status.success() {
        true => Ok(()),
        false => {
            print_matrix(matrix);
            let told = String::from_utf8_lossy(&output.stderr);
            Err(format!("{script:?} ended with {}\n{told}", output.status))
        }
    }
}

fn print_matrix(rows: &[String]) {
    println!("| client | protocol | answers of | passed | skipped | failed |\n|---|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
}

/// Python is there and the clients cannot be had. Without a network that is nobody's fault; CI has one, and
/// must not pass for months without having compared anything.
fn unreachable(why: String) -> Result<Outcome, String> {
    if std::env::var_os("CI").is_some() {
        return Err(format!("the clients cannot be had: {why}"));
    }
    Ok(Outcome::Skipped(format!("the clients cannot be had: {why}")))
}
