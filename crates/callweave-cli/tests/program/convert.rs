//! Answers written in another protocol.

use serde_json::Value;

use crate::{clean, run};

#[test]
fn google_streams_as_events_or_as_one_array() {
    let events = run(&["convert", "--to", "gemini", "--stream"], clean()).good();
    let array = run(&["convert", "--to", "gemini", "--array"], clean()).good();
    let told: Vec<Value> = events
        .stdout()
        .split_terminator("\n\n")
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").expect("an event")).expect("JSON"))
        .collect();
    assert_eq!(array.json(), Value::from(told));
    let asked = run(&["convert", "--to", "gemini", "--array", "--whole"], clean());
    assert!(asked.stderr().contains("--whole"), "{}", asked.stderr());
}
