//! Runs the fuzz targets in turn. Nothing has to be installed but a C++ compiler for libFuzzer: the code is
//! instrumented by flags that the stable compiler takes, and safe code needs no sanitizer.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::check::{Outcome, cargo, is_there, succeed};
use crate::root;

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [TARGET]";

/// Coverage for libFuzzer.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// A few seconds for each target: that they build, and that nothing lies on the surface.
pub(crate) fn smoke() -> Result<Outcome, String> {
    let compilers = [std::env::var("CXX").unwrap_or_default(), "c++".into(), "g++".into(), "clang++".into()];
    if !compilers.iter().any(|compiler| !compiler.is_empty() && is_there(compiler)) {
        return Ok(Outcome::Skipped("there is no C++ compiler to build libFuzzer with".into()));
    }
    let fetch = ["fetch", "--quiet", "--manifest-path", "fuzz/Cargo.toml"];
    if let Err(why) = succeed(Command::new(cargo()).args(fetch).current_dir(root())) {
        let why = format!("what the fuzzers are built with cannot be had: {why}");
        return if std::env::var_os("CI").is_some() { Err(why) } else { Ok(Outcome::Skipped(why)) };
    }
    run(&["--seconds", "5"]).map(|()| Outcome::Passed)
}

/// Builds the targets and lets each run.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let (seconds, only) = match arguments {
        [] => (60, None),
        ["--seconds", seconds] => (number(seconds)?, None),
        ["--seconds", seconds, target] => (number(seconds)?, Some(*target)),
        [target] if !target.starts_with('-') => (60, Some(*target)),
        _ => return Err(USAGE.into()),
    };
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let mut targets: Vec<String> = std::fs::read_dir(fuzz.join("fuzz_targets"))
        .map_err(|error| format!("fuzz/fuzz_targets: {error}"))?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .filter(|target| only.is_none_or(|only| only == target))
        .collect();
    targets.sort();
    if targets.is_empty() {
        return Err(format!("there is no such target in fuzz/fuzz_targets: {only:?}"));
    }
    let programs = build(&fuzz)?;
    for target in targets {
        println!("── {target}, {seconds} s");
        fuzz_one(&fuzz, &programs, &target, seconds)?;
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| USAGE.to_owned())
}

/// Builds all targets; returns the folder of the programs.
fn build(fuzz: &Path) -> Result<PathBuf, String> {
    let host = host()?;
    let folder = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder).join("fuzz"),
        None => fuzz.join("target"),
    };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        // The flags are for the target alone; named, it is not taken for the host of build scripts.
        .args(["build", "--release", "--quiet", "--bins", "--target", &host, "--manifest-path"])
        .arg(fuzz.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder)
        .env("RUSTFLAGS", FLAGS.join(" "))
        .env("RUSTC_BOOTSTRAP", "1")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the fuzz targets do not build; libFuzzer needs a C++ compiler".into());
    }
    Ok(folder.join(host).join("release"))
}

pub(crate) fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its host".into())
}

/// Runs a target from its seeds; its findings are kept beside the programs.
fn fuzz_one(fuzz: &Path, programs: &Path, target: &str, seconds: u64) -> Result<(), String> {
    let found = programs.join("corpus").join(target);
    let artifacts = fuzz.join("artifacts").join(target);
    for folder in [&found, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let status = Command::new(programs.join(target))
        .arg(format!("-max_total_time={seconds}"))
        .args([
            "-timeout=20",
            "-rss_limit_mb=4096",
            "-max_len=4096",
            "-print_final_stats=1",
            "-print_funcs=0",
            "-verbosity=0",
        ])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&found)
        .args(Some(fuzz.join("seeds").join(target)).filter(|seeds| seeds.exists()))
        .status()
        .map_err(|error| format!("{target}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{target} broke a law; see fuzz/artifacts/{target}")) }
}
