//! The providers' official clients, played our own cases: do they understand what callweave understands?

use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask clients`: installs the clients into `target/clients` and compares.
pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask stands in the workspace")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let home = target.join("clients");
    let python = home.join("bin/python");
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("there is no python3");
    }
    if !python.exists() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    }
    let requirements = root.join("clients/requirements.txt");
    let install =
        step(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements));
    if let Err(message) = install {
        return skip(&message);
    }
    step(Command::new("cargo").args(["build", "--quiet", "-p", "callweave-cli"]).current_dir(root))?;
    step(
        Command::new(&python)
            .arg(root.join("clients/compare.py"))
            .arg(target.join("debug/callweave"))
            .arg(root.join("crates/callweave/tests/data/protocol")),
    )
}

/// Without the clients there is nothing to compare with. CI must have them.
fn skip(why: &str) -> Result<(), String> {
    if std::env::var_os("CI").is_some() {
        return Err(format!("the clients cannot be had: {why}"));
    }
    println!("skipped: the clients cannot be had: {why}");
    Ok(())
}

fn step(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?} does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}
