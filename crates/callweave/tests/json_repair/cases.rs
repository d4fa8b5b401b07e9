//! Our own cases: `tests/data/json/repair/<case>/input` and `expected`, and `options` where there
//! are any. `BLESS=1` writes the expected files anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use callweave::json::repair::{ChangeClass, RepairOptions, RepairVerdict};

#[test]
fn every_case_comes_out_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/json/repair");
    let is_blessing = std::env::var_os("BLESS").is_some();
    let mut count = 0;
    let mut failures = String::new();
    for entry in fs::read_dir(&folder).expect("the folder of cases can be read") {
        let case = entry.expect("the folder of cases can be read").path();
        if !case.is_dir() {
            continue;
        }
        count += 1;
        let input = fs::read_to_string(case.join("input")).expect("a case has an input");
        let options = fs::read_to_string(case.join("options")).unwrap_or_default();
        let got = describe(&input, options.split_whitespace());
        if is_blessing {
            fs::write(case.join("expected"), &got).expect("the expected file can be written");
            continue;
        }
        let expected = fs::read_to_string(case.join("expected")).unwrap_or_default();
        if got != expected {
            let name = case.file_name().unwrap_or_default().to_string_lossy();
            write!(failures, "{name}\nexpected\n{expected}\ngot\n{got}\n")
                .expect("a string can be written to");
        }
    }
    assert!(count >= 40, "only {count} cases");
    assert!(failures.is_empty(), "{failures}");
}

fn describe<'o>(input: &str, words: impl Iterator<Item = &'o str>) -> String {
    let options = words.fold(RepairOptions::new(), |options, word| match word {
        "prefix" => options.prefix(),
        "close-truncated" => options.close_truncated(),
        "drop-unfinished-strings" => options.drop_unfinished_strings(),
        "without-prose" => options.without_prose(),
        "lossless-only" => options.allow(ChangeClass::Lossless),
        "no-guesses" => options.allow(ChangeClass::Structural),
        _ => panic!("unknown option {word}"),
    });
    let repair = options.repair(input);
    let mut out = String::new();
    match repair.verdict {
        RepairVerdict::Hopeless { why, at } => writeln!(out, "hopeless at {at}: {why}"),
        verdict => writeln!(out, "{verdict:?}"),
    }
    .expect("a string can be written to");
    if let Some(closed) = repair.closed() {
        writeln!(out, "{closed}").expect("a string can be written to");
    }
    for change in &repair.changes {
        let was = &input[change.at..change.end];
        let label = change.kind.label();
        writeln!(
            out,
            "{} {was:?} -> {:?} {label} ({:?})",
            change.at,
            change.replacement,
            change.kind.class()
        )
        .expect("a string can be written to");
    }
    out
}
