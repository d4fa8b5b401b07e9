//! The front doors against what the systems of the origin documents answer: every row of
//! `shared/vectors/origins.jsonl` is put to our interface.
//!
//! A system is one function from a row to our answer, listed in [`answer`]. Our answer may differ
//! only where a decision of the design explains it; those stand in `origins/decisions.rs`.

#[path = "origins/codex.rs"]
mod codex;
#[path = "origins/decisions.rs"]
mod decisions;
#[path = "origins/exathena.rs"]
mod exathena;
#[path = "origins/matching.rs"]
mod matching;
#[path = "origins/nous.rs"]
mod nous;
#[path = "origins/prompty.rs"]
mod prompty;
#[path = "origins/reqllm.rs"]
mod reqllm;
#[cfg(feature = "tracing")]
#[path = "support/spans.rs"]
mod spans;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Rows that are known to be answered otherwise, as decided.
const DIFFERENT: &[&str] = &[
    "one_broken_fence_fails_the_whole_text",
    "openai_first_id_and_name_win",
    "openai_split_name_keeps_first_piece_only",
    "object_arguments_are_ignored",
    "snapshot_style_stream_replaces_prefix",
];

/// Our answer to a row; none where the system has no function here.
fn answer(row: &Value) -> Option<Value> {
    match row["system"].as_str()? {
        "exathena" => exathena::answer(row),
        "nous" => Some(nous::answer(row)),
        "prompty" => prompty::answer(row),
        "reqllm" => Some(reqllm::answer(row)),
        "codex" => Some(codex::answer(row)),
        _ => None,
    }
}

#[test]
fn every_row_is_answered_as_its_origin_does_or_as_we_decided() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/origins.jsonl");
    let Ok(rows) = fs::read_to_string(&path) else {
        eprintln!(
            "skipped: the recorded material `shared/vectors/origins.jsonl` is not beside the repository"
        );
        return;
    };
    let (mut faults, mut counts) = (Vec::new(), BTreeMap::<String, [usize; 2]>::new());
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let (system, name) = (row["system"].as_str().unwrap_or(""), row["name"].as_str().unwrap_or(""));
        let Some(answer) = answer(&row) else { continue };
        let is_same = matching::is_match(&row["expected"], &answer)
            || row.get("seed_expected").is_some_and(|seed| matching::is_match(seed, &answer));
        counts.entry(system.to_owned()).or_default()[usize::from(!is_same)] += 1;
        match decisions::find(&row) {
            _ if is_same => {
                if DIFFERENT.contains(&name) {
                    faults.push(format!("{system} {name} is no longer answered otherwise"));
                }
            }
            Some(decision) => println!("{system} {name}: {}", decision.why),
            None => {
                faults.push(format!("{system} {name}\n  expected {}\n  answered {answer}", row["expected"]));
            }
        }
    }
    for (system, [same, decided]) in counts {
        println!("{system}: {same} rows as their origin, {decided} as decided");
    }
    assert!(faults.is_empty(), "{} rows\n{}", faults.len(), faults.join("\n"));
}
