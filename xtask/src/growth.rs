//! Runs the tests of the package `growth` in a build that counts work.

use std::process::Command;

use crate::check::{Outcome, cargo, succeed};
use crate::fuzz::host;
use crate::{root, target};

/// `cargo xtask growth`
pub(crate) fn run() -> Result<Outcome, String> {
    if !has_counters()? {
        return Ok(Outcome::Skipped(
            "this compiler comes without the profiler's runtime, which counts".into(),
        ));
    }
    succeed(test()?.arg("--no-run"))?;
    // A process counts the work of all its threads, so that each has one; the other core has a process of its own.
    let parts = [vec!["every_other"], vec!["--skip", "every_other"]].map(|part| {
        let mut command = test()?;
        command.args(["--", "--ignored", "--test-threads=1"]).args(part);
        command.spawn().map_err(|error| format!("{command:?} does not start: {error}"))
    });
    let ended = parts.map(|part| part.and_then(|mut child| child.wait().map_err(|error| error.to_string())));
    for status in ended {
        if !status?.success() {
            return Err("the work grows faster than its input, or was not counted".into());
        }
    }
    Ok(Outcome::Passed)
}

/// The tests, in a build that counts.
fn test() -> Result<Command, String> {
    let folder = target().join("growth");
    let mut command = Command::new(cargo());
    command
        // The flags are for the target alone; named, it is not taken for the host of build scripts.
        .args(["test", "--quiet", "-p", "callweave-growth", "--test", "growth", "--target", &host()?])
        .arg("--target-dir")
        .arg(&folder)
        .env("RUSTFLAGS", format!("--cfg=counted -Cprofile-generate={}", folder.join("profiles").display()))
        // The counts are not read from files, so none is written.
        .env("LLVM_PROFILE_FILE", "/dev/null")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(root());
    Ok(command)
}

fn has_counters() -> Result<bool, String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = output.map_err(|error| format!("rustc: {error}"))?;
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.any(|name| name.to_string_lossy().starts_with("libprofiler_builtins")))
}
