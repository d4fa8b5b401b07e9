//! The instructions of our work in a row: valgrind's count of a process that does it twice, less that of one that does
//! it once.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counting takes fifty times as long as running does; beyond this a piece costs what it costs before.
pub(crate) const PIECES: usize = 10_000;

/// The process to count: its arguments, before the number of repetitions, and the number of pieces.
pub(crate) type Counted = (Vec<String>, usize);

/// Per piece of each; none without valgrind.
pub(crate) fn count(rows: &[Counted]) -> Vec<Option<f64>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: instructions: there is no valgrind to count them");
        return vec![None; rows.len()];
    }
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(vec![None; rows.len()]));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((words, pieces)) = rows.get(number) else { break };
                    let [once, twice] = [1, 2].map(|times| process(words, times));
                    let own = twice.zip(once).and_then(|(twice, once)| twice.checked_sub(once));
                    let own = own.map(|count| count as f64 / *pieces as f64);
                    counts.lock().expect("nobody panics with it")[number] = own;
                }
            });
        }
    });
    counts.into_inner().expect("nobody panics with it")
}

fn process(words: &[String], times: u32) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(words)
        .arg(times.to_string())
        .output()
        .ok()?;
    let told = String::from_utf8_lossy(&output.stderr);
    told.lines().find_map(|line| line.split_once("Collected :"))?.1.trim().parse().ok()
}
