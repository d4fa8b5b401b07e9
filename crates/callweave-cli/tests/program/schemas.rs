//! The program's output conforms to the published schemas.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{run, sample};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema(name: &str) -> Validator {
    let path = root().join("schemas").join(format!("{name}.schema.json"));
    let text = std::fs::read_to_string(&path).expect("the schema is there");
    let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is one")
}

#[track_caller]
fn check(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{error} at {}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{value}");
}

/// All files below a directory, by name.
fn files(directory: &Path, names: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            files(&path, names, found);
        } else if path.file_name().is_some_and(|name| names.iter().any(|known| name == *known)) {
            found.push(path);
        }
    }
}

#[test]
fn events_and_messages_of_the_sample_conform() {
    check(&schema("message"), &run(&["decode"], sample()).json(), "the sample");
    let event = schema("event");
    for line in run(&["decode", "--as", "events"], sample()).lines() {
        check(&event, &line, "the sample");
    }
}

/// The library's own cases: every protocol, every oddity.
#[test]
fn events_and_messages_of_every_case_conform() {
    let (message, event) = (schema("message"), schema("event"));
    let mut inputs = Vec::new();
    let names = ["input.sse", "input.json", "input.jsonl", "input.ndjson", "input.eventstream"];
    files(&root().join("crates/callweave/tests/data/protocol"), &names, &mut inputs);
    assert!(inputs.len() > 50, "{}", inputs.len());
    let requests: String = inputs.iter().map(|path| format!("{}\n", json!({"file": path}))).collect();
    let rows = run(&["decode", "--jsonl"], requests).lines();
    assert_eq!(rows.len(), inputs.len());
    for (path, row) in inputs.iter().zip(&rows) {
        let what = path.display().to_string();
        // A case may be of an error, or say its protocol elsewhere.
        if row.get("error").is_none() {
            check(&message, row, &what);
        }
    }
    assert!(rows.iter().filter(|row| row.get("error").is_none()).count() > 50);
    for path in inputs {
        let ran = run(&["decode", "--as", "events", crate::path(&path)], "");
        for line in ran.lines() {
            check(&event, &line, &path.display().to_string());
        }
    }
}

#[test]
fn extractions_conform() {
    let (extraction, event) = (schema("extract"), schema("event"));
    let texts = [
        "Sure.\n<think>hm</think><tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call> done",
        "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sk",
        "plain",
    ];
    for text in texts {
        check(&extraction, &run(&["extract"], text).json(), text);
        for line in run(&["extract", "--as", "events"], text).lines() {
            check(&event, &line, text);
        }
    }
}

#[test]
fn reports_of_repairs_conform() {
    let validator = schema("repair");
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]});
    for input in ["{}", "{a: '1'}", "{\"a\": [1, 2", "", "\u{feff}[1,]", "```json\n{\"a\": \"1\"}\n```"] {
        for row in [
            json!({"input": input}),
            json!({"input": input, "partial": true}),
            json!({"input": input, "schema": schema}),
        ] {
            check(&validator, &run(&["repair", "--jsonl"], row.to_string()).json(), input);
        }
    }
}

/// A schema that takes anything would prove nothing.
#[test]
fn the_schemas_refuse_what_is_not_promised() {
    let mut message = run(&["decode"], sample()).json();
    message["surprise"] = json!(1);
    assert!(!schema("message").is_valid(&message));
    assert!(!schema("event").is_valid(&json!({"choice": 0, "type": "delta", "block": 0, "text": ""})));
    assert!(!schema("event").is_valid(&json!({"choice": 0, "type": "no such type"})));
    assert!(!schema("extract").is_valid(&json!({"calls": [], "content": "", "notices": []})));
}
