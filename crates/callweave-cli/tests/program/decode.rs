//! `callweave decode` on whole files.

use serde_json::json;

use crate::{file, path, run, sample};

#[test]
fn a_pipe_gets_one_message() {
    let message = run(&["decode"], sample()).good().json();
    assert_eq!(message["model"], "aurora-1-mini");
    assert_eq!(message["finish_reason"], "tool_calls");
    assert_eq!(message["usage"]["total_tokens"], 343);
    let calls = message["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 2);
    assert!(calls[0].get("invalid").is_none());
    assert_eq!(calls[1]["invalid"]["reason"], "not_json");
}

#[test]
fn a_file_and_standard_input_give_the_same() {
    let named = file("decode-same.sse", sample());
    let from_file = run(&["decode", path(&named)], "").good();
    let from_stdin = run(&["decode", "--as", "message", "-"], sample()).good();
    assert_eq!(from_file.stdout(), from_stdin.stdout());
    assert_eq!(from_file.stdout().lines().count(), 1);
}

#[test]
fn events_are_json_lines() {
    let events = run(&["decode", "--as", "events"], sample()).good().lines();
    let types: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(types.len(), events.len());
    assert_eq!(types.iter().filter(|kind| **kind == "block_start").count(), 4);
    assert_eq!(types.iter().filter(|kind| **kind == "block_end").count(), 4);
}

#[test]
fn text_is_the_text_alone() {
    let expected = run(&["decode"], sample()).json()["content"].as_str().expect("text").to_owned();
    assert_eq!(run(&["decode", "--as", "text"], sample()).good().stdout(), expected + "\n");
}

#[test]
fn text_goes_out_byte_for_byte_and_ends_its_line_once() {
    let body = |text: &str| {
        json!({"object": "chat.completion", "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})
    };
    let text = |body| run(&["decode", "--as", "text"], body).good().stdout().to_owned();
    assert_eq!(text(body("a\u{1b}[31m\r\n").to_string()), "a\u{1b}[31m\r\n");
    assert_eq!(text(body("a").to_string()), "a\n");
    assert_eq!(text(body("").to_string()), "");
}

#[test]
fn several_choices_do_not_mix_in_text() {
    let mut stream = String::new();
    for (index, text) in [(0, "one "), (1, "two "), (0, "one"), (1, "two")] {
        let chunk = json!({"object": "chat.completion.chunk", "choices": [
            {"index": index, "delta": {"content": text}}]});
        stream += &format!("data: {chunk}\n\n");
    }
    let text = run(&["decode", "--as", "text"], &stream);
    assert_eq!(text.stdout(), "one one\n");
}

#[test]
fn a_named_protocol_is_used_under_any_of_its_names() {
    for name in ["openai-chat", "openai", "OpenAI-Chat", "auto"] {
        let message = run(&["decode", "--protocol", name], sample()).good().json();
        assert_eq!(message["model"], "aurora-1-mini", "{name}");
    }
}

#[test]
fn an_unknown_protocol_is_a_usage_error() {
    let ran = run(&["decode", "--protocol", "openai-chatt"], sample());
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("openai-chat"), "{}", ran.stderr());
}

#[test]
fn damage_is_told_after_what_was_recovered() {
    let sample = sample();
    let head = &sample[..sample.len() / 2];
    let damaged = [head, &[b'x'; 5000], b"\n\n", head].concat();
    let ran = run(&["decode", "--max-frame", "4096"], &damaged).bad("--max-frame");
    assert_eq!(ran.json()["model"], "aurora-1-mini");
    let ran = run(&["decode", "--max-frame", "4096", "--as", "events"], &damaged).bad("--max-frame");
    assert!(ran.lines().len() > 10);
}

#[test]
fn what_cannot_be_told_is_an_error_that_says_what_to_do() {
    let ran = run(&["decode"], r#"{"hello": 1}"#).bad("--protocol");
    assert_eq!(ran.stdout(), "");
    run(&["decode"], "").bad("empty");
}

#[test]
fn an_upstream_error_is_printed_and_fails() {
    let body = r#"{"error": {"message": "no such model", "type": "invalid_request_error"}}"#;
    let ran = run(&["decode", "--protocol", "openai"], body).bad("no such model");
    assert_eq!(ran.json()["errors"][0]["message"], "no such model");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    run(&["decode", "no-such-file.sse"], "").bad("cannot read no-such-file.sse");
    run(&["decode", env!("CARGO_TARGET_TMPDIR")], "").bad("directory");
}

#[test]
fn a_dialect_is_read_behind_any_protocol() {
    let text = "Sure. <tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}</tool_call>";
    let body = json!({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]});
    let body = body.to_string();
    let plain = run(&["decode"], &body).good().json();
    assert_eq!((&plain["content"], plain["tool_calls"].as_array().map(Vec::len)), (&json!(text), Some(0)));
    let read = run(&["decode", "--dialect", "auto"], &body).good().json();
    assert_eq!((&read["content"], &read["tool_calls"][0]["name"]), (&json!("Sure. "), &json!("look")));
    assert_eq!(read["finish_reason"], "tool_calls");
    assert_eq!(read, run(&["decode", "--model", "Hermes-3-8B"], &body).good().json());
    let row = json!({"data": body, "dialect": "hermes"}).to_string();
    assert_eq!(read, run(&["decode", "--jsonl"], row).good().json());
    let row = json!({"data": body}).to_string();
    assert_eq!(plain, run(&["decode", "--jsonl"], &row).good().json());
    assert_eq!(read, run(&["decode", "--jsonl", "--dialect", "hermes"], row).good().json());
}
