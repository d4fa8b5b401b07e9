//! Checks and reports of the workspace: `cargo xtask <command>`.

mod check;
mod clients;
mod coverage;
mod fuzz;
mod instructions;
mod scoreboard;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask check [--quick]
       cargo xtask clients
       cargo xtask coverage [--shared DIR]
       cargo xtask fuzz [--seconds N] [TARGET]
       cargo xtask instructions
       cargo xtask scoreboard dialects [--differences]
       cargo xtask scoreboard repair [--differences] [FILE]
       cargo xtask scoreboard schema [--differences]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["check", ref rest @ ..] => check::run(rest),
        ["clients"] => clients::run(),
        ["coverage", ref rest @ ..] => coverage::run(rest),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
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
