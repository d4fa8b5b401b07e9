//! Scripts of clients side by side, and the matrix of what came of them.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::Script;

/// A script keeps one core busy.
const AT_ONCE: usize = 2;

/// What a script said in the lines that are for us.
struct Played {
    number: usize,
    rows: Vec<String>,
    skipped: Vec<String>,
    failure: Option<String>,
}

/// Plays all scripts, whatever becomes of the others, and prints the matrix of their rows and why what was skipped was.
pub(crate) fn play_all(scripts: &[Script]) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.map_while(|number| Some(play(number, scripts.get(number)?))).collect::<Vec<_>>()
    };
    let mut all: Vec<Played> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|played| played.number);
    println!("| client | protocol | answers of | passed | skipped | failed |\n|---|---|---|---|---|---|");
    all.iter().flat_map(|played| &played.rows).for_each(|row| println!("| {row} |"));
    println!("\nskipped, and why:");
    all.iter().flat_map(|played| &played.skipped).for_each(|line| println!("- {line}"));
    let failures: Vec<_> = all.iter().filter_map(|played| played.failure.as_deref()).collect();
    if all.len() < scripts.len() {
        return Err("not all scripts were played".into());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn play(number: usize, (program, words): &Script) -> Played {
    let start = Instant::now();
    let mut script = Command::new(program);
    let mut played = Played { number, rows: Vec::new(), skipped: Vec::new(), failure: None };
    let output = match script.args(words).output() {
        Ok(output) => output,
        Err(error) => {
            played.failure = Some(format!("{script:?} does not start: {error}"));
            return played;
        }
    };
    let mut said = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(row) = line.strip_prefix("matrix: ") {
            played.rows.push(row.into());
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            played.skipped.push(reason.into());
        } else {
            said += &format!("{line}\n");
        }
    }
    let name = words.first().map(std::path::Path::new).and_then(std::path::Path::file_name);
    // At once: another script may be about to say something.
    println!("{said}   {}: {:.0} s", name.unwrap_or_default().display(), start.elapsed().as_secs_f64());
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        played.failure = Some(format!("{script:?} ended with {}\n{told}", output.status));
    } else if played.rows.is_empty() {
        played.failure = Some(format!("{script:?} has compared nothing"));
    }
    played
}
