//! The program `callweave`: decode, repair and extract what language models answered.
//!
//! Each command is one file in `commands/`. They share a few parts: [`input`] reads files and standard
//! input as bytes come, [`declared`] knows dialects and tools, [`render`] and [`terminal`] turn events into something to print, [`rows`] runs any
//! command over JSON lines, by the threads of [`batches`].
//!
//! It is a library with one function, [`run`], so that packages for other languages bring the same program.

mod arguments;
mod batches;
mod brief;
mod commands;
mod declared;
mod explain;
mod input;
mod log;
mod pretty;
mod progress;
mod render;
mod report;
mod response;
mod rows;
mod size;
mod terminal;
mod verdict;
mod wrapping;

use std::ffi::OsString;
use std::io;

use anstyle::AnsiColor;
use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

use commands::{
    check, completions, convert, decode, demo, dialects, extract, man, protocols, repair, run, serve, teach,
};

const STYLES: clap::builder::Styles = clap::builder::Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Turn any response of a language model into clean events and one message with valid tool calls
#[derive(Parser)]
#[command(name = "callweave", version, styles = STYLES, max_term_width = 100)]
#[command(after_help = "\
Examples:
  callweave demo                            see it work on a sample
  callweave serve                           be the gateway between agents and models
  callweave run claude --upstream URL       a coding agent with a model of your own
  curl -sN … | callweave decode             watch a response as it streams
  callweave decode response.sse | jq .      one finished message as JSON
  callweave extract reply.txt               the calls that a model wrote into its text
  callweave repair --explain broken.json    the changes that make it JSON

On a terminal responses are shown in colour as they grow; piped, they are plain JSON.")]
struct Cli {
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    #[arg(help = "When to use colour: auto, always or never")]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Run(run::RunCommand),
    Check(check::CheckArgs),
    Decode(decode::DecodeArgs),
    Convert(convert::ConvertArgs),
    Extract(extract::ExtractArgs),
    Repair(repair::RepairArgs),
    #[command(alias = "prompt")]
    Teach(teach::TeachArgs),
    Demo(demo::DemoArgs),
    Protocols(protocols::ProtocolsArgs),
    Dialects(dialects::DialectsArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs the program with the words of a command line, of which the first is the name of the program. Returns its exit
/// code.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            // There is nobody left to tell where even that cannot be printed.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(FAILURE);
        }
    };
    match cli.color {
        ColorChoice::Auto => {}
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
    }
    for (old, new) in renamed(&words) {
        report::print_warning(&format!("{old} is called {new} now"));
    }
    let done = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Run(run) => match run.run() {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Check(check) => check.run(),
        Command::Decode(decode) => decode.run(),
        Command::Convert(convert) => convert.run(),
        Command::Extract(extract) => extract.run(),
        Command::Repair(repair) => repair.run(),
        Command::Teach(teach) => teach.run(),
        Command::Demo(demo) => demo.run(),
        Command::Protocols(protocols) => protocols.run(),
        Command::Dialects(dialects) => dialects.run(),
        Command::Completions(completions) => completions.run(&mut Cli::command()),
        Command::Man(man) => man.run(&Cli::command()),
    };
    let Err(error) = done else { return 0 };
    if is_broken_pipe(&error) {
        return 0;
    }
    report::print_error(&format!("{error:#}"));
    FAILURE
}

/// The exit code of a command that failed.
const FAILURE: u8 = 1;

/// Words of the command line that have another name now.
const RENAMED: &[(&str, &str)] = &[
    ("prompt", "teach"),
    ("--mend", "--normalize"),
    ("--whole", "--complete"),
    ("--key-env", "--api-key-env"),
];

/// The words that were given under their old names. A command comes first; other words without dashes are values.
fn renamed(words: &[OsString]) -> Vec<&'static (&'static str, &'static str)> {
    let words = words.iter().skip(1).map_while(|word| word.to_str().filter(|word| *word != "--"));
    let words: Vec<&str> = words.collect();
    let command = words.iter().find(|word| !word.starts_with('-'));
    let is_given = |old: &str| match old.starts_with('-') {
        true => words.iter().any(|word| word.split('=').next() == Some(old)),
        false => command == Some(&old),
    };
    RENAMED.iter().filter(|(old, _)| is_given(old)).collect()
}

/// Whether the reader of our output has gone away: `callweave … | head` is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
