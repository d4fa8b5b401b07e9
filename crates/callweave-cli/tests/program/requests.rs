//! `callweave convert --request`.

use serde_json::json;

use crate::{file, path, run, value};

const REQUEST: &str = r#"{"model": "qwen2.5:7b", "seed": 7, "odd": [1.0], "messages": [{"role": "user", "content": "The sky?"},
    {"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"sky\"}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "blue"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]}"#;

const BASE: [&str; 4] = ["convert", "--request", "--from", "openai-chat"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BASE.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn a_request_stays_what_it_was_in_its_own_protocol() {
    let ran = run(&with(&["--to", "openai-chat"]), REQUEST).good();
    assert_eq!(ran.json(), value(REQUEST));
}

#[test]
fn what_another_protocol_cannot_say_is_told() {
    let ran = run(&with(&["--to", "anthropic-messages"]), REQUEST).fine();
    assert_eq!(ran.json()["messages"][1]["content"][0]["name"], "look");
    let mut told: Vec<_> = ran.stderr().lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["lost: odd of openai-chat", "lost: seed"]);
    let mistral =
        run(&with(&["--to", "openai-chat", "--provider", "mistral", "--normalize"]), REQUEST).fine();
    let id = mistral.json()["messages"][1]["tool_calls"][0]["id"].as_str().map(str::len);
    assert_eq!(id, Some(9));
}

#[test]
fn tools_are_taught_in_the_dialect_of_the_model() {
    let named = run(&with(&["--to", "openai-chat", "--dialect", "hermes"]), REQUEST).good();
    assert_eq!(
        named.json(),
        run(&with(&["--to", "openai-chat", "--dialect", "auto"]), REQUEST).good().json()
    );
    assert_eq!(named.json(), run(&with(&["--to", "openai-chat", "--model", "qwq"]), REQUEST).good().json());
    let body = named.json();
    assert_eq!(body.get("tools"), None);
    assert_eq!(body["stop"], json!(["<tool_response>"]));
    assert_eq!(
        body["messages"][3],
        json!({"role": "user", "content": "<tool_response>\nblue\n</tool_response>"})
    );
    let unknown = REQUEST.replace("qwen2.5:7b", "nobody's");
    run(&with(&["--to", "openai-chat", "--dialect", "auto"]), unknown)
        .bad("no dialect is known for the model nobody's");
}

#[test]
fn what_cannot_be_converted_is_said() {
    run(&["convert", "--request", "--to", "openai-chat"], REQUEST).bad("name it with --from");
    run(&with(&["--to", "bedrock-invoke"]), REQUEST)
        .bad("requests of bedrock-invoke are not read or written");
    run(&with(&["--to", "openai-chat"]), "[]").bad("not an object");
    run(&with(&["--to", "openai-chat"]), "{oops").bad("not JSON");
    run(&with(&["--to", "openai-chat", "--provider", "nobody"]), REQUEST).bad("no provider with limits");
    let malformed = REQUEST.replace("\"model\"", "\"tool_choice\": 123, \"model\"");
    let ran = run(&with(&["--to", "anthropic-messages"]), malformed);
    assert_eq!(ran.code(), 1);
    assert!(ran.stderr().contains("error: the request is not what its protocol demands"), "{}", ran.stderr());
    assert_eq!(ran.json()["messages"][0]["role"], "user", "it is written all the same");
    assert_eq!(run(&with(&["--to", "openai-chat", "--complete"]), REQUEST).code(), 2);
    assert_eq!(run(&["convert", "--to", "openai-chat", "--provider", "mistral"], REQUEST).code(), 2);
}

#[test]
fn many_requests_are_converted_in_rows() {
    let named = file("request.json", REQUEST);
    let body = value(REQUEST);
    let rows = [
        json!({"from": "openai-chat", "to": "ollama", "data": body, "id": 1}),
        json!({"from": "openai-chat", "to": "openai-chat", "file": path(&named), "dialect": "react"}),
        json!({"to": "ollama", "data": body}),
        json!({"from": "openai-chat", "to": "anthropic-messages", "data": {"tool_choice": 123, "tools": body["tools"], "messages": []}}),
    ];
    let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let ran = run(&["convert", "--request", "--jsonl"], input);
    assert_eq!(ran.code(), 1);
    let lines = ran.lines();
    assert_eq!(lines[0]["id"], 1);
    assert_eq!(lines[0]["data"]["options"]["seed"], 7);
    assert_eq!(lines[0]["losses"], json!([{"path": "", "what": "odd of openai-chat"}]));
    assert_eq!(lines[1]["data"]["messages"][2]["content"], "Action: look\nAction Input: {\"at\": \"sky\"}\n");
    assert!(lines[2]["error"].as_str().expect("an error").contains("--from"), "{}", lines[2]);
    assert!(lines[3]["problem"].as_str().expect("a problem").contains("tool_choice"), "{}", lines[3]);
}
