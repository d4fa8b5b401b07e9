//! Naming a dialect only adds: calls found automatically are found where their dialect is named; and a named dialect
//! streams as well.

#[path = "dialects/rows.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod rows;
#[path = "support/shared.rs"]
mod shared;

use std::fs;
use std::path::PathBuf;

use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Extractor, Tools};
use callweave::event::{DeltaKind, Event, EventKind};
use serde_json::{Value, json};

/// The calls that can be run.
fn calls(text: &str, options: &ExtractOptions) -> Vec<(String, Value)> {
    let found = Extraction::of(text, options);
    let valid = found.calls.into_iter().filter(|call| call.invalid().is_none());
    valid
        .map(|call| (call.name.clone(), serde_json::from_str(call.arguments()).unwrap_or_default()))
        .collect()
}

/// Returns the calls that are found automatically and lost by naming the dialect.
fn lost(text: &str, named: &ExtractOptions, auto: &ExtractOptions) -> Vec<(String, Value)> {
    let mut found = calls(text, named);
    let is_lost = |call: &(String, Value)| match found.iter().position(|other| other == call) {
        Some(at) => {
            found.remove(at);
            false
        }
        None => true,
    };
    calls(text, auto).into_iter().filter(is_lost).collect()
}

#[test]
fn our_own_cases() {
    let data = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dialect"));
    let read = |path: &PathBuf| fs::read_to_string(path).ok();
    let tools = |path: PathBuf| Some(Tools::from_json(&serde_json::from_str::<Value>(&read(&path)?).ok()?));
    let default = tools(data.join("tools.json")).expect("default tools");
    let mut all = 0;
    for dialect in DialectRegistry::builtin().dialects() {
        for case in fs::read_dir(data.join(&dialect.name)).expect("a folder") {
            let case = case.expect("readable").path();
            let text = read(&case.join("input.txt")).expect("an input");
            let tools = tools(case.join("tools.json")).unwrap_or_else(|| default.clone());
            let of = |name: &str| ExtractOptions::new(name).expect("a dialect").tools(tools.clone());
            // The content of reasoning that the prompt opened is another question.
            if case.join("starting_in.txt").exists() {
                continue;
            }
            all += 1;
            let lost = lost(&text, &of(&dialect.name), &of("auto"));
            assert!(lost.is_empty(), "{}: {lost:?}", case.display());
        }
    }
    assert!(all > 200, "{all} cases");
}

/// Naming the dialect of a row that expects calls loses none that are found without.
#[test]
fn rows_of_others() {
    for set in ["dialects.jsonl", "fresh_dialects.jsonl"] {
        let Some(rows) = rows::load(set) else { return };
        for row in &rows {
            let expected = row.value["expected_calls"].as_array().map_or(0, |calls| calls.iter().count());
            let Some(text) = row.text("text").filter(|_| expected > 0) else { continue };
            let lost = lost(text, &row.options(), &row.auto());
            assert!(lost.is_empty(), "{set} {} {}: {text:?} loses {lost:?}", row.number, row.format());
        }
    }
}

/// A response that is JSON is text as soon as a key says so, in every dialect, in a fence or not.
#[test]
fn an_answer_in_json_flows_from_the_first_key_that_decides() {
    const LONG: usize = 8192;
    let tools = json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
    let tools = Tools::from_json(&tools);
    for dialect in DialectRegistry::builtin().dialects() {
        for (begin, end) in [("{\"answer\": \"", "\"}"), ("```json\n{\n  \"answer\": \"", "\"\n}\n```\n")] {
            let options = ExtractOptions::new(&dialect.name).expect("built in").tools(tools.clone());
            let text = format!("{begin}{}{end}", "long ".repeat(LONG / 5));
            let (mut extractor, mut shown, mut held) = (Extractor::new(&options), 0, 0);
            for (sent, letter) in text.char_indices() {
                let mut sink = |event: Event<'_>| {
                    if let EventKind::Delta { kind: DeltaKind::Text | DeltaKind::Reasoning, text, .. } =
                        &event.body
                    {
                        shown += text.len();
                    }
                };
                extractor.push(letter.encode_utf8(&mut [0; 4]), &mut sink);
                held = held.max((sent + 1).saturating_sub(shown));
            }
            assert!(held <= 64, "{}: {held} bytes of {begin:?} are held back", dialect.name);
        }
    }
}
