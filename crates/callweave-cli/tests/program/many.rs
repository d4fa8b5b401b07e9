//! Several files.

use serde_json::json;

use crate::{clean, file, path, run, sample};

#[test]
fn each_message_has_the_name_of_its_file() {
    let (good, bad) = (file("many-good.sse", clean()), file("many-bad.sse", sample()));
    let ran =
        run(&["decode", path(&good), path(&bad), "no-such-file", path(&good)], "").bad("2 of 4 files failed");
    let rows = ran.lines();
    let files: Vec<_> = rows.iter().map(|row| row["file"].as_str().expect("a name")).collect();
    assert_eq!(files, [path(&good), path(&bad), "no-such-file", path(&good)]);
    assert_eq!(rows[0]["model"], "aurora-1-mini");
    assert!(rows[0].get("problem").is_none() && rows[1]["problem"].is_string());
    assert_eq!(
        rows[2]["error"].as_str().map(|error| error.starts_with("cannot read no-such-file")),
        Some(true)
    );
    // Each error is reported with its file, once.
    let told: Vec<_> = ran.stderr().lines().collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains("many-bad.sse: a call") && told[1].starts_with("error: cannot read no-such-file")
    );
}

#[test]
fn text_has_headings_and_events_have_the_file() {
    let (one, two) = (file("many-1.sse", clean()), file("many-2.sse", clean()));
    let text = run(&["decode", "--as", "text", path(&one), path(&two)], "").good();
    let headings: Vec<_> = text.stdout().lines().filter(|line| line.starts_with("==> ")).collect();
    assert_eq!(headings, [format!("==> {} <==", path(&one)), format!("==> {} <==", path(&two))]);
    let events = run(&["decode", "--as", "events", path(&one), path(&two)], "").good().lines();
    assert!(events.iter().all(|event| event["file"].is_string() && event["type"].is_string()));
    assert_eq!(events[0]["file"], path(&one));
    assert_eq!(events.last().map(|event| event["file"].clone()), Some(json!(path(&two))));
}

#[test]
fn extract_and_repair_take_several_files() {
    let (one, two) = (file("many-1.txt", "{a: 1}"), file("many-2.txt", "[2"));
    let rows = run(&["repair", path(&one), path(&two)], "").bad("1 of 2 files failed").lines();
    assert_eq!((&rows[0]["file"], &rows[0]["value"]), (&json!(path(&one)), &json!({"a": 1})));
    assert_eq!((&rows[1]["verdict"], rows[1]["problem"].is_string()), (&json!("incomplete"), true));
    let explained = run(&["repair", "--explain", path(&one), path(&two)], "").bad("1 of 2 files failed");
    assert!(
        explained.stdout().starts_with(&format!("==> {} <==\n{{{{+", path(&one))),
        "{}",
        explained.stdout()
    );
    let rows = run(&["extract", path(&one), path(&two)], "").good().lines();
    assert_eq!((&rows[0]["file"], &rows[1]["content"]), (&json!(path(&one)), &json!("[2")));
}

#[test]
fn requests_may_be_in_several_files() {
    let (one, two) =
        (file("many-1.jsonl", "{\"input\": \"1\"}\n"), file("many-2.jsonl", "{\"input\": \"2\"}\nx\n"));
    let rows = run(&["repair", "--jsonl", path(&one), path(&two)], "").bad("1 of 2 files failed").lines();
    assert_eq!(rows.iter().map(|row| row["value"].as_i64()).collect::<Vec<_>>(), [Some(1), Some(2), None]);
    assert_eq!((&rows[2]["file"], &rows[2]["line"]), (&json!(path(&two)), &json!(2)));
}
