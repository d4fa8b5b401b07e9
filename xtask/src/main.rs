//! Checks and reports of the workspace: `cargo xtask <command>`.

mod agents;
mod bench;
mod bench_gateway;
mod browser;
mod check;
mod clients;
#[path = "../../crates/callweave/tests/support/cores.rs"]
mod cores;
mod coverage;
mod dist;
mod frame_cache;
mod fuzz;
mod gateway_clients;
mod growth;
mod instructions;
mod licences;
mod picture;
mod python;
mod readme;
mod real_servers;
mod scoreboard;
mod semver;
mod serving;
#[path = "../../crates/callweave/tests/support/shared.rs"]
mod shared;
mod tool_loops;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask agents [--all] [AGENT] [MODEL]
       cargo xtask bench [--json] [--write] [--rounds N] [--megabytes N] [--only TEXT]
       cargo xtask bench-gateway [--quick] [--beside CALLWEAVE]
       cargo xtask check [--full] [--quick] [--clients] [--python] [--agents] [--fuzz] [--release]
       cargo xtask coverage [--shared DIR]
       cargo xtask dist [--target TARGET]
       cargo xtask fuzz [--seconds N] [TARGET]
       cargo xtask growth
       cargo xtask frame-cache
       cargo xtask instructions [--guard|--record]
       cargo xtask picture
       cargo xtask readme
       cargo xtask scoreboard dialects [--differences]
       cargo xtask scoreboard repair [--differences] [FILE]
       cargo xtask scoreboard schema [--differences]";

fn main() -> ExitCode {
    if let Some(code) = frame_cache::wrap_compiler() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["agents", ref rest @ ..] => agents::run_some(rest),
        ["bench", ref rest @ ..] => bench::run(rest),
        ["bench-gateway", ref rest @ ..] => bench_gateway::run(rest),
        ["check", ref rest @ ..] => check::run(rest),
        ["coverage", ref rest @ ..] => coverage::run(rest),
        ["dist", ref rest @ ..] => dist::run(rest),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["frame-cache"] => check::alone(frame_cache::run),
        ["growth"] => check::alone(growth::run),
        ["picture"] => check::alone(picture::run),
        ["readme"] => check::alone(readme::run),
        ["instructions", ref rest @ ..] => instructions::run(rest),
        ["scoreboard", "dialects", ref rest @ ..] => scoreboard::dialects::run(rest),
        ["scoreboard", "repair", ref rest @ ..] => scoreboard::repair::run(rest),
        ["scoreboard", "schema", ref rest @ ..] => scoreboard::schema::run(rest),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map_or_else(|| xtask.clone(), PathBuf::from)
}

/// The folder in which cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
