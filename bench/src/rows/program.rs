//! The program over recordings of many responses that lie in the page cache: user time, and for rows the time that
//! passes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::measure::{Aim, Report, Target, Times, median};
use crate::streams::{self, Chat};

/// The number of chunks of a response in a recording.
const CHUNKS: usize = 300;

/// Measures the program at that path, over recordings of about `megabytes` megabytes.
pub(crate) fn reports(program: &str, megabytes: usize, rounds: usize) -> io::Result<Vec<Report>> {
    let folder = std::env::temp_dir().join(format!("callweave-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let measured = measure(program, &folder, megabytes, rounds);
    fs::remove_dir_all(&folder)?;
    measured
}

fn measure(program: &str, folder: &Path, megabytes: usize, rounds: usize) -> io::Result<Vec<Report>> {
    let (answers, rows) = (folder.join("answers.sse"), folder.join("rows.jsonl"));
    let answer = streams::chat(CHUNKS, Chat::Padded);
    let count = megabytes * 1_000_000 / answer.len() + 1;
    repeat(&answers, &answer, count)?;
    let row = format!("{}\n", serde_json::json!({"data": answer}));
    repeat(&rows, &row, count)?;

    let mut decode = Vec::new();
    let mut peak = 0.0_f64;
    for _ in 0..rounds {
        let used = run(Command::new(program).args(["decode", "--dialect", "none"]).arg(&answers))?;
        decode.push(used.user / (fs::metadata(&answers)?.len() as f64 / 1000.0));
        peak = peak.max(used.peak);
    }
    let (mut all, mut one) = (Vec::new(), Vec::new());
    let size = fs::metadata(&rows)?.len() as f64 / 1000.0;
    let decode_rows = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["decode", "--jsonl", "--dialect", "none"]).stdin(File::open(&rows)?);
        run(&mut command)
    };
    let has_taskset = Command::new("taskset").arg("--version").output().is_ok();
    for _ in 0..rounds {
        all.push(decode_rows(&[program])?.passed / size);
        if has_taskset {
            one.push(decode_rows(&["taskset", "-c", "0", program])?.passed / size);
        }
    }
    let (all, one) = (times(all), times(one));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let whole = Report {
        ours: Some(times(decode)),
        // 1 GB per second of user time.
        target: Some(Target(6, Aim::Nanoseconds(1000.0))),
        ..Report::new("Program", format!("callweave decode, {megabytes} MB of answers, user time"), "kB")
    };
    let memory = Report {
        bytes: Some(peak),
        ..Report::new(
            "Program",
            format!("callweave decode, {megabytes} MB of answers, most memory"),
            "process",
        )
    };
    let rows = Report {
        ours: Some(all),
        peers: if has_taskset { vec![("on one core".into(), one)] } else { Vec::new() },
        ratio: has_taskset.then_some(one.best / all.best),
        median_ratio: has_taskset.then_some(one.median / all.median),
        target: (cores > 1).then_some(Target(6, Aim::Ratio(0.75 * cores as f64))),
        ..Report::new("Program", format!("callweave decode --jsonl, {megabytes} MB, {cores} cores"), "kB")
    };
    Ok(vec![whole, memory, rows])
}

fn times(all: Vec<f64>) -> Times {
    Times { best: all.iter().copied().fold(f64::INFINITY, f64::min), median: median(all) }
}

fn repeat(path: &Path, text: &str, count: usize) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    (0..count).try_for_each(|_| file.write_all(text.as_bytes()))?;
    file.flush()
}

/// The use of a process: nanoseconds, and bytes.
struct Used {
    user: f64,
    passed: f64,
    peak: f64,
}

fn run(command: &mut Command) -> io::Result<Used> {
    let before = children();
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn()?;
    // The peak of its memory, as far as it is read before the process ends.
    let (mut peak, status) = (0.0_f64, format!("/proc/{}/status", child.id()));
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let most = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        peak = most.and_then(|most| most.parse::<f64>().ok()).map_or(peak, |most| most * 1024.0);
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    let passed = start.elapsed().as_nanos() as f64;
    if !ended.success() {
        return Err(io::Error::other(format!("{command:?} ended with {ended}")));
    }
    Ok(Used { user: children() - before, passed, peak })
}

/// Nanoseconds of user time of the processes that have ended. The clock of this ticks a hundred times a second.
fn children() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().nth(13).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default()
        * 1e7
}
