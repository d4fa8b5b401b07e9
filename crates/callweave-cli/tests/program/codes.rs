//! The exit codes of every command, as in docs/cli.md.

use serde_json::{Value, json};

use crate::{clean, file, path, run, sample};

#[track_caller]
fn code(arguments: &[&str], input: impl AsRef<[u8]>, expected: i32) {
    let ran = run(arguments, input);
    assert_eq!(ran.code(), expected, "{arguments:?}: {}", ran.stderr());
    // Every failure says why, and nothing else writes to standard error.
    assert_eq!(ran.stderr().is_empty(), expected == 0, "{arguments:?}: {}", ran.stderr());
}

/// Inputs of `decode` that are not as they should be, and their messages.
fn bad_answers() -> Vec<(&'static str, Vec<u8>)> {
    let clean = clean();
    let at = clean.windows(2).position(|two| two == b"\n\n").expect("a frame") + 2;
    let with = |frame: &[u8]| [&clean[..at], frame, b"\n\n", &clean[at..]].concat();
    let chunk =
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "a"}}]});
    let failing = format!("data: {chunk}\n\ndata: {{\"error\": {{\"message\": \"not now\"}}}}\n\n");
    let limited = json!({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "length", "message": {"content": "a"}}]})
    .to_string();
    vec![
        ("the response was cut off", format!("data: {chunk}\n\n").into()),
        ("a frame is damaged", with(b"data: {\"choices\": [{")),
        ("the input is damaged", with(b"data: {\"object\": \"\xff\xfe\"}")),
        ("a call cannot be used", sample()),
        ("the protocol cannot be told", b"{\"hello\": 1}".to_vec()),
        ("no response in a known protocol", b"Hello!".to_vec()),
        ("the input is empty", Vec::new()),
        ("answered with an error: no", b"{\"error\": {\"message\": \"no\"}}".to_vec()),
        ("answered with an error: not now", failing.into()),
        ("a limit on its length", limited.into()),
        ("status 503", b"HTTP/1.1 503 Service Unavailable\r\n\r\n".to_vec()),
    ]
}

#[test]
fn decode_fails_if_the_answer_is_not_to_be_relied_on() {
    for form in ["message", "events", "text", "view"] {
        code(&["decode", "--as", form], clean(), 0);
        for (told, input) in bad_answers() {
            run(&["decode", "--as", form], input).bad(told);
        }
    }
    code(&["decode", "no-such-file"], "", 1);
    code(&["decode", "--protocol", "no-such"], clean(), 2);
    code(&["decode", "--no-such-option"], clean(), 2);
}

/// The worst of the rows is the code of the run, and each row has its own.
#[test]
fn rows_fail_as_files_do() {
    for (told, input) in bad_answers() {
        let named = file("code.input", input);
        let clean = json!({"data": String::from_utf8_lossy(&clean())});
        let rows = format!("{clean}\n{}\n", json!({"file": named}));
        let rows = run(&["decode", "--jsonl"], rows).bad("1 of 2 rows failed").lines();
        let own = |row: &Value| row.get("error").or(row.get("problem")).cloned();
        assert_eq!(own(&rows[0]), None);
        assert!(own(&rows[1]).is_some_and(|own| own.to_string().contains(told)), "{told}: {}", rows[1]);
    }
}

#[test]
fn extract_fails_if_a_call_cannot_be_used() {
    let whole = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": 1}}</tool_call>";
    let tools = file(
        "code-tools.json",
        r#"[{"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}]"#,
    );
    let others = file("code-others.json", r#"[{"name": "jump"}]"#);
    code(&["extract"], whole, 0);
    code(&["extract"], "no call at all", 0);
    code(&["extract"], "<tool_call>{\"name\": \"look\", \"arguments\": {\"at", 1);
    code(
        &["extract", "--dialect", "hermes"],
        "<tool_call>{\"name\": \"look\", \"arguments\": [1]}</tool_call>",
        1,
    );
    code(&["extract", "--tools", path(&others)], whole, 1);
    code(&["extract", "--tools", path(&tools)], whole, 1);
    code(&["extract", "no-such-file"], "", 1);
    code(&["extract", "--dialect", "no-such"], whole, 2);
    let row = json!({"text": "<tool_call>{\"name\": \"look\", \"arguments\": {\"at"}).to_string();
    assert!(run(&["extract", "--jsonl"], row).bad("1 of 1").json()["problem"].is_string());
}

#[test]
fn repair_fails_if_the_text_is_not_whole_or_does_not_fit() {
    let schema = file("code-schema.json", r#"{"type": "object"}"#);
    code(&["repair"], "{a: 1,}", 0);
    code(&["repair"], "{\"a\": [1", 1);
    code(&["repair", "--partial"], "{\"a\": [1", 0);
    code(&["repair"], "", 1);
    code(&["repair", "--schema", path(&schema)], "[1]", 1);
    code(&["repair", "--missing", "keep"], "1", 2);
    for input in ["{\"a\": [1", ""] {
        assert!(
            run(&["repair", "--jsonl"], json!({"input": input}).to_string()).bad("1 of 1").json()["problem"]
                .is_string()
        );
    }
}

#[test]
fn the_other_commands_fail_if_they_cannot_do_it() {
    code(&["teach", "--tools", "-"], r#"[{"name": "look"}]"#, 0);
    code(&["teach", "--tools", "-"], "[]x", 1);
    code(&["teach"], "", 2);
    code(&["teach", "--jsonl"], "{\"tools\": 1}", 1);
    code(&["demo"], "", 0);
    code(&["protocols"], "", 0);
    code(&["dialects"], "", 0);
    code(&["dialects", "no-such"], "", 1);
    code(&["man"], "", 0);
    code(&["man", "no-such"], "", 1);
    code(&["completions", "bash"], "", 0);
    code(&["completions", "no-such"], "", 2);
}
