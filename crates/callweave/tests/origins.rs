//! The interfaces of `compat` against what the systems of the origin documents answer: every row of `data/origins.jsonl`,
//! which is ours, and of `shared/vectors/origins.jsonl` is put to our interface.
//!
//! A system is one function from a row to our answer, listed in [`answer`]. Our answer may differ
//! only where a decision of the design explains it; those rows stand in `data/aside/origins.txt`.

#[path = "origins/codex.rs"]
mod codex;
#[path = "origins/exathena.rs"]
mod exathena;
#[path = "origins/matching.rs"]
mod matching;
#[path = "origins/nous.rs"]
mod nous;
#[path = "origins/prompty.rs"]
mod prompty;
#[path = "support/record.rs"]
mod record;
#[path = "origins/reqllm.rs"]
mod reqllm;
#[path = "support/shared.rs"]
mod shared;
#[cfg(feature = "tracing")]
#[path = "support/spans.rs"]
mod spans;

use std::fs;

use record::Record;
use serde_json::Value;

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

/// Rows of our own, in the words of the documents.
#[test]
fn own_rows_are_answered_as_the_documents_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/origins.jsonl");
    let mut systems = std::collections::BTreeSet::new();
    for line in fs::read_to_string(path).expect("the rows can be read").lines() {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let answer = answer(&row).expect("a system of ours");
        assert!(matching::is_match(&row["expected"], &answer), "{}: {answer}", row["name"]);
        systems.insert(row["system"].as_str().map(str::to_owned));
    }
    assert_eq!(systems.len(), 5, "{systems:?}");
}

#[test]
fn every_row_is_answered_as_its_origin_does_or_as_we_decided() {
    let Some(path) = shared::find("vectors/origins.jsonl") else { return };
    let rows = fs::read_to_string(path).expect("the rows can be read");
    let mut record = Record::open("origins");
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let Some(answer) = answer(&row) else { continue };
        let is_same = matching::is_match(&row["expected"], &answer)
            || row.get("seed_expected").is_some_and(|seed| matching::is_match(seed, &answer));
        if !is_same {
            let name = |key: &str| row[key].as_str().unwrap_or_default();
            let row_name = format!("{}/{}", name("system"), name("name"));
            record.see(&row_name, &answer, || format!("want {}", row["expected"]));
        }
    }
    record.close();
}
