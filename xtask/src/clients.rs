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
    for script in ["compare.py", "encoded.py"] {
        succeed(
            Command::new(&python)
                .arg(root().join("clients").join(script))
                .arg(target().join("debug/callweave"))
                .arg(root().join("crates/callweave/tests/data/protocol")),
        )?;
    }
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
