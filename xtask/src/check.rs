//! Everything that CI runs: tiers of steps. The first failure ends a run; its last line says what was skipped, and why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::instructions::guard;
use crate::{
    agents, browser, clients, dist, frame_cache, fuzz, gateway_clients, growth, licences, python, readme,
    real_servers, root, semver, target, tool_loops,
};

/// The outcome of a step that did not fail.
pub(crate) enum Outcome {
    Passed,
    /// It could not run here, and why.
    Skipped(String),
}

/// The checks that `cargo xtask check` runs by one flag.
struct Tier {
    /// Without any, the first tier runs.
    flag: &'static str,
    steps: &'static [Step],
}

struct Step {
    title: &'static str,
    work: Work,
}

enum Work {
    /// The words after `cargo`, and what is set in its environment.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    Task(fn() -> Result<Outcome, String>),
}

use Work::{Cargo, Task};

const FORMAT: Step = Step { title: "format", work: Cargo(&["fmt", "--all", "--check"], &[]) };

const LINTS: Step = Step {
    title: "lints",
    work: Cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"], &[]),
};

/// The tests of the library that take seconds, the laws of protocols and framings among them. The others go through every
/// dialect, every recording or every depth.
const QUICK_LAWS: &[&str] = &[
    "test",
    "-p",
    "callweave",
    "--all-features",
    "--test",
    "tool_call_aggregator",
    "--test",
    "calls_flow",
    "--test",
    "detection",
    "--test",
    "errors",
    "--test",
    "ex_athena",
    "--test",
    "framing",
    "--test",
    "front",
    "--test",
    "json_partial",
    "--test",
    "json_schema",
    "--test",
    "live",
    "--test",
    "loose",
    "--test",
    "arguments",
    "--test",
    "naming",
    "--test",
    "prompty",
    "--test",
    "teach",
    "--test",
    "protocol",
    "--test",
    "session",
    "--test",
    "spelling",
];

/// A tier is a row; the first is what everybody runs before a commit.
const TIERS: &[Tier] = &[
    Tier {
        flag: "--full",
        steps: &[
            FORMAT,
            LINTS,
            Step {
                title: "lints without features",
                work: Cargo(
                    &["clippy", "-p", "callweave", "--no-default-features", "--", "-D", "warnings"],
                    &[],
                ),
            },
            Step {
                title: "documentation",
                work: Cargo(
                    &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"],
                    &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links")],
                ),
            },
            Step {
                // The examples are run as the documents say. The bench compares what it times by itself, and its
                // peers would have our dependencies built with features of theirs.
                title: "tests",
                work: Cargo(
                    &[
                        "test",
                        "--workspace",
                        "--exclude",
                        "callweave-bench",
                        "--all-features",
                        "--lib",
                        "--bins",
                        "--tests",
                    ],
                    &[],
                ),
            },
            Step {
                title: "documentation tests",
                work: Cargo(
                    &["test", "--workspace", "--exclude", "callweave-bench", "--all-features", "--doc"],
                    &[],
                ),
            },
            Step {
                title: "a program outside the workspace",
                work: Cargo(
                    &["test", "--manifest-path", "crates/callweave/tests/consumer/Cargo.toml"],
                    &[("CARGO_TARGET_DIR", "target")],
                ),
            },
            Step { title: "results without the frame cache", work: Task(frame_cache::run) },
            Step { title: "growth of work", work: Task(growth::run) },
            Step { title: "instructions of the hot paths", work: Task(guard::run) },
            Step { title: "commands of the documents", work: Task(readme::run) },
            Step { title: "licences, bans, sources", work: Task(licences::run) },
            Step {
                title: "package",
                // It is built from nothing each time.
                work: Cargo(
                    &["package", "--offline", "--allow-dirty", "--quiet", "-p", "callweave"],
                    &[("CARGO_INCREMENTAL", "0")],
                ),
            },
        ],
    },
    Tier {
        // Two minutes after a build: tests of the modules, and the laws over our own cases.
        flag: "--quick",
        steps: &[
            FORMAT,
            LINTS,
            Step {
                title: "unit tests",
                work: Cargo(
                    &[
                        "test",
                        "--workspace",
                        "--exclude",
                        "callweave-bench",
                        "--all-features",
                        "--lib",
                        "--bins",
                    ],
                    &[],
                ),
            },
            Step { title: "laws", work: Cargo(QUICK_LAWS, &[]) },
        ],
    },
    Tier {
        flag: "--clients",
        steps: &[
            Step { title: "official clients", work: Task(clients::run) },
            Step { title: "official clients through the gateway", work: Task(gateway_clients::run) },
            Step { title: "tool loops of frameworks", work: Task(tool_loops::run) },
            Step { title: "real servers behind the gateway", work: Task(real_servers::run) },
            Step { title: "pages in a browser", work: Task(browser::run) },
        ],
    },
    Tier {
        flag: "--python",
        steps: &[
            Step { title: "the package for Python", work: Task(python::run) },
            Step { title: "the types of the package for Python", work: Task(python::types) },
            Step { title: "the package on other versions of Python", work: Task(python::versions) },
            Step { title: "clients in Python with an exchange inside", work: Task(python::clients) },
            Step { title: "the source of the package for Python", work: Task(python::source) },
        ],
    },
    Tier { flag: "--agents", steps: &[Step { title: "coding agents", work: Task(agents::run) }] },
    Tier { flag: "--fuzz", steps: &[Step { title: "a short run of the fuzzers", work: Task(fuzz::smoke) }] },
    Tier {
        flag: "--release",
        steps: &[
            Step { title: "compatibility with the last release", work: Task(semver::run) },
            Step {
                // docs.rs has a nightly compiler; the stable one is made to behave as one. In a folder of its own,
                // since that makes it build everything anew.
                title: "documentation as on docs.rs",
                work: Cargo(
                    &[
                        "rustdoc",
                        "-p",
                        "callweave",
                        "--all-features",
                        "--target-dir",
                        "target/docs.rs",
                        "--",
                        "--cfg",
                        "docsrs",
                        "-D",
                        "warnings",
                    ],
                    &[("RUSTC_BOOTSTRAP", "1")],
                ),
            },
            Step { title: "a release, made and tried", work: Task(dist::rehearse) },
        ],
    },
];

impl Step {
    fn run(&self) -> Result<Outcome, String> {
        println!("── {}", self.title);
        let start = Instant::now();
        let outcome = match self.work {
            Cargo(words, environment) => run_cargo(
                Command::new(cargo())
                    .args(words)
                    .envs(environment.iter().copied())
                    .env("CALLWEAVE_SKIPPED", skipped()),
            ),
            Task(task) => task(),
        };
        // Printed, never asserted.
        println!("── {}: {:.0} s", self.title, start.elapsed().as_secs_f64());
        outcome.map_err(|why| format!("{} failed: {why}", self.title))
    }
}

fn run_cargo(command: &mut Command) -> Result<Outcome, String> {
    println!(
        "   cargo {}",
        command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    );
    succeed(command.current_dir(root())).map(|()| Outcome::Passed)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs a command that has to succeed.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?} does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// The exit of a process; none if it still runs after `limit`.
pub(crate) fn wait_for(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        match child.try_wait()? {
            None if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(50)),
            ended => return Ok(ended),
        }
    }
}

/// Whether a program can be started at all.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// `cargo xtask check [--TIER…]`
pub(crate) fn run(flags: &[&str]) -> Result<(), String> {
    let flags = if flags.is_empty() { &[TIERS[0].flag] } else { flags };
    let mut steps = Vec::new();
    for flag in flags {
        let Some(tier) = TIERS.iter().find(|tier| tier.flag == *flag) else {
            let known: Vec<_> = TIERS.iter().map(|tier| tier.flag).collect();
            return Err(format!("usage: cargo xtask check [{}]", known.join("|")));
        };
        steps.extend(tier.steps);
    }
    let list = skipped();
    std::fs::create_dir_all(target()).and_then(|()| std::fs::write(&list, "")).map_err(told(&list))?;
    let mut times = Vec::new();
    for step in steps {
        let start = Instant::now();
        if let Outcome::Skipped(why) = step.run()? {
            skip(&list, &format!("skipped: {}: {why}\n", step.title))?;
        }
        times.push((step.title, start.elapsed().as_secs()));
    }
    println!("── done");
    for (title, seconds) in &times {
        println!("{seconds:6} s  {title}");
    }
    let skipped = std::fs::read_to_string(&list).map_err(told(&list))?;
    println!("{}", summary(times.len(), &skipped));
    Ok(())
}

/// The last line of a run: how many steps passed, how many tests and steps were skipped, and for which reasons. Reasons
/// that differ only in names (between backticks) are one.
fn summary(steps: usize, skipped: &str) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for line in skipped.lines() {
        let why = line.splitn(3, ": ").nth(2).unwrap_or(line);
        let words = why.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "…" });
        *reasons.entry(words.collect()).or_default() += 1;
    }
    let count: usize = reasons.values().sum();
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let reasons: Vec<_> = reasons.iter().map(|(why, count)| format!("{count} × {why}")).collect();
    match count {
        0 => format!("passed: {steps} steps, nothing skipped"),
        _ => format!("passed: {steps} steps; {count} skipped: {}", reasons.join("; ")),
    }
}

/// The file in which tests and steps record that they were skipped.
fn skipped() -> PathBuf {
    target().join("skipped.txt")
}

/// Runs a task as a command of its own.
pub(crate) fn alone(task: fn() -> Result<Outcome, String>) -> Result<(), String> {
    if let Outcome::Skipped(why) = task()? {
        println!("skipped: {why}");
    }
    Ok(())
}

fn skip(list: &Path, line: &str) -> Result<(), String> {
    use std::io::Write as _;
    print!("{line}");
    let mut file = std::fs::OpenOptions::new().append(true).open(list).map_err(told(list))?;
    file.write_all(line.as_bytes()).map_err(told(list))
}

/// An error of the file system, with the path it is about.
pub(crate) fn told(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_groups_what_was_skipped() {
        assert_eq!(summary(3, ""), "passed: 3 steps, nothing skipped");
        let skipped = "skipped: a: the material `shared/a` is not here\n\
                       skipped: licences: there is no cargo-deny: install it\n\
                       skipped: b::c: the material `shared/b` is not here\n";
        assert_eq!(
            summary(3, skipped),
            "passed: 3 steps; 3 skipped: 2 × the material … is not here; 1 × there is no cargo-deny: install it"
        );
    }
}
