//! Runs every fuzz oracle over its stored seeds and over our own cases. `BLESS=1` writes the seeds anew.

mod oracles;

use std::fs;
use std::path::{Path, PathBuf};

use callweave::protocol::{Protocol, TABLE};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}

#[test]
fn every_seed_holds() {
    for (target, check) in oracles::ALL {
        let seeds = files(&folder(target));
        // A package holds no seeds; the repository does.
        assert!(!seeds.is_empty() || !folder("").exists(), "{target} has no seeds");
        for seed in seeds {
            println!("{}", seed.display());
            check(&fs::read(&seed).expect("a readable seed"));
        }
    }
}

/// Our own cases of a layer: name of the folder, name of the case, input.
fn cases(layer: &str) -> Vec<(String, String, Vec<u8>)> {
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut cases = Vec::new();
    for folder in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(layer)) {
        for case in files(&folder) {
            let is_input = |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == "input");
            // Binary cases are built by their own tests.
            let Some(input) = files(&case).into_iter().find(is_input) else { continue };
            cases.push((name(&folder), name(&case), fs::read(input).expect("a readable input")));
        }
    }
    cases
}

/// Checks our own cases, with the bytes that choose how before them, and stores a sample of them: that is
/// enough to start from, since fuzzing mixes them.
fn check_cases(layer: &str, target: &str, chosen: impl Fn(&str, usize) -> Vec<u8>) {
    let (_, check) = oracles::ALL.iter().find(|(name, _)| *name == target).expect("an oracle");
    for (at, (folder, case, bytes)) in cases(layer).into_iter().enumerate() {
        let seed = [chosen(&folder, bytes.len()), bytes].concat();
        check(&seed);
        if at % 4 == 0 && seed.len() < 2000 {
            store(target, &format!("{folder}-{case}"), &seed);
        }
    }
}

fn store(target: &str, name: &str, seed: &[u8]) {
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(folder(target)).expect("a writable folder");
        fs::write(folder(target).join(name), seed).expect("a writable folder");
    }
}

#[test]
fn every_protocol_case_holds() {
    check_cases("protocol", "decoder", |name, length| {
        let at = TABLE.iter().position(|row| Some(*row) == Protocol::named(name)).expect("a protocol");
        let [high, low] = ((length / 2) as u16).to_be_bytes();
        vec![at as u8, high, low]
    });
}

/// A sample of the protocols' cases, as what an upstream sends.
#[test]
fn every_exchange_case_holds() {
    let cases = cases("protocol").into_iter().enumerate();
    for (at, (folder, case, bytes)) in cases.filter(|(at, (.., bytes))| at % 9 == 0 && bytes.len() < 2000) {
        let Some(protocol) = oracles::exchange::choice(&folder) else { continue };
        let [high, low] = ((bytes.len() / 2) as u16).to_be_bytes();
        let seed = [vec![(at / 9) as u8, protocol, (at / 9) as u8, high, low], bytes].concat();
        oracles::exchange::check(&seed);
        store("exchange", &format!("{folder}-{case}"), &seed);
    }
}

#[test]
fn every_framing_case_holds() {
    check_cases("framing", "framing", |name, _| {
        let choice =
            ["sse", "json-lines", "json-values", "aws-event-stream"].iter().position(|own| *own == name);
        vec![choice.unwrap_or(5) as u8, 0, 7, 1, 0, 31]
    });
}

#[test]
fn every_dialect_case_holds() {
    check_cases("dialect", "dialect", |name, length| vec![oracles::dialect::choice(name), length as u8]);
}

#[test]
fn every_json_case_holds() {
    check_cases("json", "json", |_, length| vec![1, 4, (length / 3) as u8, 2]);
}

#[test]
fn generated_programs_hold() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    for round in 0..2000 {
        let program: Vec<u8> = (0..4 * (5 + round % 60)).map(|_| next()).collect();
        oracles::accumulator::check(&program);
        if round % 100 == 0 {
            store("accumulator", &format!("program-{round:04}"), &program);
        }
    }
}
