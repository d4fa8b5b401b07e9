//! `callweave repair`.

use serde_json::{Value, json};

use crate::{file, path, run};

const BROKEN: &str = "{city: 'Oslo', days: '3',}";

#[test]
fn broken_json_is_mended_and_valid_json_untouched() {
    assert_eq!(run(&["repair"], BROKEN).good().json(), json!({"city": "Oslo", "days": "3"}));
    let valid = "{\"b\" :  1e400,\t\"a\": 12345678901234567890123, \"a\": [ ]}\n";
    assert_eq!(run(&["repair"], valid).good().stdout(), valid);
    let named = file("valid.json", "[1]");
    assert_eq!(run(&["repair", path(&named)], "").good().stdout(), "[1]\n");
}

#[test]
fn a_report_says_what_was_done() {
    let report = run(&["repair", "--report"], BROKEN).good().json();
    assert_eq!(report["verdict"], "repaired");
    assert_eq!(report["value"], json!({"city": "Oslo", "days": "3"}));
    let mut text = String::new();
    let mut done = 0;
    for change in report["changes"].as_array().expect("changes") {
        let byte = |key: &str| change[key].as_u64().expect("an offset") as usize;
        text += &BROKEN[done..byte("at")];
        text += change["replacement"].as_str().expect("a text");
        done = byte("end");
    }
    text += &BROKEN[done..];
    assert_eq!(report["text"], text);
}

#[test]
fn what_was_cut_off_is_closed_on_request_only() {
    let cut = r#"{"a": [1, "x"#;
    let ran = run(&["repair"], cut).bad("--partial");
    assert_eq!(ran.stdout(), "");
    assert_eq!(run(&["repair", "--partial"], cut).good().json(), json!({"a": [1, "x"]}));
    let report = run(&["repair", "--report", "--partial"], cut).good().json();
    assert_eq!(report["verdict"], "incomplete");
}

#[test]
fn what_is_hopeless_is_an_error() {
    let ran = run(&["repair"], " \n").bad("cannot be repaired");
    assert_eq!(ran.stdout(), "");
    let report = run(&["repair", "--report"], "").bad("empty").json();
    assert_eq!((&report["verdict"], &report["value"]), (&json!("hopeless"), &Value::Null));
    assert_eq!(report["why"], "the text is empty", "no byte is meant");
}

#[test]
fn a_schema_gives_types_and_problems() {
    let schema = json!({"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 6}, "days": {"type": "integer"}}, "required": ["city"]});
    let named = file("schema.json", schema.to_string());
    let arguments = ["repair", "--schema", path(&named)];
    assert_eq!(run(&arguments, BROKEN).good().json(), json!({"city": "Oslo", "days": 3}));
    let valid = r#"{"days":   4, "city": "Oslo"}"#;
    assert_eq!(run(&arguments, valid).good().stdout(), format!("{valid}\n"));
    let ran = run(&arguments, r#"{"city": "Trondheim"}"#).bad("does not fit the schema: $.city");
    assert_eq!(ran.json()["city"], "Trondheim");
    run(&["repair", "--schema", "no-such-schema.json"], "1").bad("cannot read no-such-schema.json");
}

#[test]
fn an_explanation_marks_every_change() {
    let shown = run(&["repair", "--explain"], BROKEN).good();
    let marked = shown.stdout().lines().next().expect("a line");
    assert!(marked.starts_with("{{+\"+}city{+\"+}: [-'-]{+\"+}Oslo"), "{marked}");
    assert!(shown.stdout().contains("repaired, ") && shown.stdout().contains("× quote  first at 1:2"));
    let coloured = run(&["repair", "--explain", "--color", "always"], BROKEN).good();
    assert!(coloured.stdout().contains("\x1b[31m'\x1b[0m"), "{}", coloured.stdout());
    assert!(!coloured.stdout().contains("[-"));
}

#[test]
fn rows_bring_their_schema_and_are_reported_one_per_line() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let rows = [
        json!({"input": "[1,\n 2]"}),
        json!({"input": "{n: '5'}", "schema": schema}),
        json!({"input": "{\"n\": [1", "partial": true}),
        json!({"input": "{\"n\": [1"}),
        json!({"input": ""}),
        json!({"text": "no input"}),
    ];
    let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let reports = run(&["repair", "--jsonl"], input).bad("3 of 6 rows failed").lines();
    let verdicts: Vec<_> = reports.iter().map(|report| report["verdict"].as_str()).collect();
    let expected = ["valid", "repaired", "incomplete", "incomplete", "hopeless"].map(Some);
    assert_eq!(verdicts[..5], expected);
    assert_eq!((&reports[0]["value"], &reports[0]["text"]), (&json!([1, 2]), &json!("[1,\n 2]")));
    assert_eq!(reports[1]["value"], json!({"n": 5}));
    assert_eq!(reports[2]["text"], "{\"n\": [1]}");
    // Closed only on request.
    assert_eq!(reports[3]["text"], "");
    let problems: Vec<_> = reports.iter().map(|report| report["problem"].is_string()).collect();
    assert_eq!(problems, [false, false, false, true, true, false]);
    assert!(reports[5]["error"].as_str().is_some_and(|error| error.contains("input")));
}
