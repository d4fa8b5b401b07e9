//! Checks and reports of the workspace: `cargo xtask <command>`.

mod check;
mod clients;
mod scoreboard;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["check", ref rest @ ..] => check::run(rest),
        ["clients"] => clients::run(),
        ["scoreboard", "repair", ref rest @ ..] => scoreboard::repair::run(rest),
        ["scoreboard", "schema", ref rest @ ..] => scoreboard::schema::run(rest),
        _ => Err("usage: cargo xtask check [--quick] | clients | scoreboard repair [--differences] [FILE] \
                  | scoreboard schema [--differences]"
            .into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
