//! callweave beside the pipelines that people build from existing crates: prints one JSON row per measurement.
//!
//! `cargo xtask bench` builds and runs it, and makes a table of the rows.

mod instructions;
mod measure;
mod peers;
#[allow(dead_code, reason = "counted elsewhere, too")]
#[path = "../../xtask/src/instructions/request.rs"]
mod request;
mod rows;
mod streams;

use std::process::ExitCode;

use measure::Report;

const USAGE: &str = "usage: callweave-bench [--rounds N] [--megabytes N] [--program PATH] [--only TEXT]";

struct Options {
    rounds: usize,
    /// Of the recordings that the program reads.
    megabytes: usize,
    /// The program `callweave`, if it is to be measured.
    program: Option<String>,
    /// Rows whose name has this in it.
    only: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["count", name, times] => count(name, times),
        ["count-recorded", file, way, times] => rows::recorded::run(file, way, times),
        ["memory", name, way] => rows::memory::tell(name, way),
        ref flags => options(flags).and_then(|options| run(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut flags: &[&str]) -> Result<Options, String> {
    let mut options = Options { rounds: 7, megabytes: 200, program: None, only: String::new() };
    while let [flag, value, rest @ ..] = flags {
        let number = || value.parse::<usize>().map_err(|_| USAGE.to_owned());
        match *flag {
            "--rounds" => options.rounds = number()?.max(1),
            "--megabytes" => options.megabytes = number()?.max(1),
            "--program" => options.program = Some((*value).to_owned()),
            "--only" => options.only = (*value).to_owned(),
            _ => return Err(USAGE.into()),
        }
        flags = rest;
    }
    if flags.is_empty() { Ok(options) } else { Err(USAGE.into()) }
}

/// Does our work of one row, to be counted.
fn count(name: &str, times: &str) -> Result<(), String> {
    let times = times.parse().map_err(|_| USAGE.to_owned())?;
    let case = rows::cases().into_iter().find(|case| case.name == name).ok_or("no such row")?;
    (case.make)(case.pieces.min(instructions::PIECES)).run(0, times);
    Ok(())
}

fn run(options: &Options) -> Result<(), String> {
    let is_wanted = |name: &str| name.contains(&options.only);
    let mut reports = Vec::new();
    let mut counted = Vec::new();
    for case in rows::cases().into_iter().filter(|case| is_wanted(&case.name)) {
        eprintln!("… {}", case.name);
        let mut row = (case.make)(case.pieces);
        let notes: Vec<_> = row.compare().into_iter().map(|what| format!("not raced: {what}")).collect();
        // Repair is where peers give up; elsewhere nobody may.
        if case.group != "Repair" && !notes.is_empty() {
            return Err(format!("{}: {}", case.name, notes.join("; ")));
        }
        let measured = row.measure(options.rounds);
        let is_long = case.pieces > instructions::PIECES;
        let pieces = if is_long { (case.make)(instructions::PIECES).pieces } else { row.pieces };
        counted.push((vec!["count".to_owned(), case.name.clone()], pieces));
        let report = Report { target: case.target, notes, ..Report::new(case.group, case.name, case.unit) };
        reports.push(report.measured(measured));
    }
    if let Some(program) = options.program.as_deref().filter(|_| is_wanted("callweave decode")) {
        eprintln!("… the program");
        let own = rows::program::reports(program, options.megabytes, options.rounds.min(5));
        reports.extend(own.map_err(|error| format!("{program}: {error}"))?);
    }
    if is_wanted("memory") {
        reports.extend(rows::memory::reports());
    }
    // Only when nothing is timed any more: it takes all cores.
    eprintln!("… instructions");
    for (report, count) in reports.iter_mut().zip(instructions::count(&counted)) {
        report.instructions = count;
    }
    if is_wanted("recorded") {
        eprintln!("… recorded streams");
        reports.extend(rows::recorded::reports());
    }
    for report in &reports {
        if is_wanted(&report.name) {
            println!("{}", report.to_json());
        }
    }
    Ok(())
}
