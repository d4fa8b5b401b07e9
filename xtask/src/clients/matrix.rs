//! Scripts of clients side by side, and the matrix of what came of them.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Script;
use crate::check::wait_for;

/// A script keeps one core busy.
const AT_ONCE: usize = 2;
/// A script takes a minute; one that hangs must not take the rest of the run with it.
const TIME_LIMIT: Duration = Duration::from_secs(10 * 60);

/// The lines of a script's output that are for us.
struct Played {
    number: usize,
    rows: Vec<String>,
    skipped: Vec<String>,
    failure: Option<String>,
}

/// Plays all scripts, even if some fail, and prints the matrix of their rows and the reasons for skipped ones.
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
    let output = match output_of(script.args(words)) {
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

/// The output of a script, which is aborted at its time limit. Scripts in Python then print the stacks of all threads.
fn output_of(script: &mut Command) -> std::io::Result<Output> {
    script.env("PYTHONFAULTHANDLER", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stdout = scope.spawn(|| read_all(stdout));
        let stderr = scope.spawn(|| read_all(stderr));
        let status = match wait_for(&mut child, TIME_LIMIT)? {
            Some(status) => status,
            None => {
                let _ = Command::new("kill").args(["-ABRT", &child.id().to_string()]).status();
                child.wait()?
            }
        };
        Ok(Output {
            status,
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
        })
    })
}

fn read_all(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The bytes before an error are still worth printing.
    let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
    bytes
}
