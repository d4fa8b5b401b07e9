//! The hot paths cost no more than recorded: `counts.tsv` has the cost of a piece in each row, and the compiler that
//! produced it. A tenth more is a regression.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{ROWS, Row, count};
use crate::check::{Outcome, cargo, is_there, succeed, told};
use crate::root;

/// The maximum deviation of a count from the recorded one.
const SLACK: f64 = 0.1;

/// `cargo xtask instructions --guard`
pub(crate) fn run() -> Result<Outcome, String> {
    if !is_there("valgrind") {
        return Ok(Outcome::Skipped("there is no valgrind to count instructions".into()));
    }
    let text = std::fs::read_to_string(path()).map_err(told(&path()))?;
    let recorded = Recorded::read(&text)?;
    if recorded.compiler != compiler()? {
        return Ok(Outcome::Skipped(format!(
            "the instructions were counted as made by {}, and this is {}",
            recorded.compiler,
            compiler()?
        )));
    }
    if cfg!(debug_assertions) {
        return anew("--guard").map(|()| Outcome::Passed);
    }
    let verdict = judge(&recorded.rows, &counts()?);
    verdict.notes.iter().for_each(|note| println!("{note}"));
    if verdict.faults.is_empty() { Ok(Outcome::Passed) } else { Err(verdict.faults.join("\n")) }
}

/// `cargo xtask instructions --record`
pub(super) fn record() -> Result<(), String> {
    if cfg!(debug_assertions) {
        return anew("--record");
    }
    let mut text =
        format!("# Instructions per piece, by `cargo xtask instructions --record`.\n# {}\n", compiler()?);
    for (row, count) in counts()? {
        text += &format!("{}\t{}\t{count:.0}\n", row.what, row.name);
    }
    std::fs::write(path(), text).map_err(told(&path()))
}

/// Runs the build that users run; code that only feeds it need not be made as fast, which takes the compiler longer.
fn anew(flag: &str) -> Result<(), String> {
    let words = ["run", "--release", "--quiet", "--package", "xtask"];
    let config = ["--config", "profile.release.package.xtask.opt-level=1"];
    succeed(
        Command::new(cargo()).args(words).args(config).args(["--", "instructions", flag]).current_dir(root()),
    )
}

fn path() -> PathBuf {
    root().join("xtask/src/instructions/counts.tsv")
}

fn compiler() -> Result<String, String> {
    let output =
        Command::new("rustc").arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
    Ok(format!("{} for {}", String::from_utf8_lossy(&output.stdout).trim(), std::env::consts::ARCH))
}

/// The content of the file.
struct Recorded<'t> {
    compiler: &'t str,
    /// The work, its subject, and the cost of a piece.
    rows: Vec<(&'t str, &'t str, f64)>,
}

impl<'t> Recorded<'t> {
    fn read(text: &'t str) -> Result<Self, String> {
        let mut recorded = Self { compiler: "", rows: Vec::new() };
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix("# rustc ").and(line.strip_prefix("# ")) {
                recorded.compiler = compiler;
            } else if !line.starts_with('#') {
                let fields: Vec<&str> = line.split('\t').collect();
                let [what, name, count] = fields[..] else { return Err(format!("counts.tsv: {line}")) };
                recorded.rows.push((what, name, count.parse().map_err(|_| format!("counts.tsv: {line}"))?));
            }
        }
        Ok(recorded)
    }
}

#[derive(Default)]
struct Verdict {
    faults: Vec<String>,
    notes: Vec<String>,
}

fn judge(recorded: &[(&str, &str, f64)], counted: &[(Row, f64)]) -> Verdict {
    let mut verdict = Verdict::default();
    for (row, now) in counted {
        let Row { what, name, .. } = row;
        let Some((_, _, before)) = recorded.iter().find(|(does, of, _)| (does, of) == (what, name)) else {
            verdict
                .faults
                .push(format!("{what} {name} is not recorded: `cargo xtask instructions --record`"));
            continue;
        };
        let told = format!("{what} {name}: {now:.0} instructions per piece, recorded are {before:.0}");
        if *now > before * (1.0 + SLACK) {
            verdict.faults.push(told);
        } else if *now < before * (1.0 - SLACK) {
            verdict.notes.push(format!("{told}: lower the row with `cargo xtask instructions --record`"));
        } else {
            verdict.notes.push(told);
        }
    }
    for (what, name, _) in recorded {
        if !counted.iter().any(|(row, _)| (row.what, row.name) == (*what, *name)) {
            verdict.faults.push(format!("{what} {name} is recorded, and nobody counts it"));
        }
    }
    verdict
}

/// Returns the cost of a piece in each row: the difference between twice the pieces and once, so that no beginning is
/// in it. Other processes do not affect the counts, so that all cores count.
fn counts() -> Result<Vec<(Row, f64)>, String> {
    let rows: Vec<Row> = ROWS.iter().flat_map(Row::all).collect();
    let (next, counted) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let cost = per_piece(row);
                    counted.lock().expect("nobody panics with it").push((*row, cost));
                }
            });
        }
    });
    let counted = counted.into_inner().expect("nobody panics with it");
    let cost = |row: &Row| {
        let found = counted.iter().find(|(other, _)| (other.what, other.name) == (row.what, row.name));
        found.map_or_else(|| Err("not counted".to_owned()), |(_, cost)| cost.clone())
    };
    rows.iter().map(|row| Ok((*row, cost(row)?))).collect()
}

fn per_piece(row: &Row) -> Result<f64, String> {
    let [once, twice] = [row.pieces, 2 * row.pieces].map(|pieces| count(row.what, row.name, pieces));
    Ok(twice?.saturating_sub(once?) as f64 / row.pieces as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Of pieces.\n# rustc 1.0 for x\ndecode\tchat\t100\nextract\thermes\t200\n";

    fn verdict(counts: &[(&'static str, &'static str, f64)]) -> Verdict {
        let recorded = Recorded::read(TEXT).expect("rows");
        let counted: Vec<_> =
            counts.iter().map(|&(what, name, count)| (Row { what, name, pieces: 1 }, count)).collect();
        judge(&recorded.rows, &counted)
    }

    #[test]
    fn a_tenth_more_is_a_fault_and_a_tenth_less_is_told() {
        let fine = verdict(&[("decode", "chat", 109.0), ("extract", "hermes", 181.0)]);
        assert!(fine.faults.is_empty() && fine.notes.iter().all(|note| !note.contains("lower")));
        let worse = verdict(&[("decode", "chat", 111.0), ("extract", "hermes", 179.0)]);
        assert_eq!(worse.faults, ["decode chat: 111 instructions per piece, recorded are 100"]);
        assert!(worse.notes[0].ends_with("lower the row with `cargo xtask instructions --record`"));
    }

    #[test]
    fn rows_and_record_are_the_same_list() {
        let other = verdict(&[("decode", "chat", 100.0), ("decode", "new", 1.0)]);
        assert_eq!(other.faults.len(), 2);
    }

    #[test]
    fn the_file_is_of_some_compiler_and_has_every_row() {
        assert_eq!(Recorded::read(TEXT).expect("rows").compiler, "rustc 1.0 for x");
        let text = std::fs::read_to_string(path()).expect("a file");
        let recorded = Recorded::read(&text).expect("rows");
        let names: Vec<_> = ROWS.iter().flat_map(Row::all).map(|row| (row.what, row.name)).collect();
        assert_eq!(names, recorded.rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>());
    }
}
