//! `callweave extract` and `callweave dialects`.

use serde_json::{Value, json};

use crate::{Running, file, path, run};

const REPLY: &str = "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tromsø\"}}\n</tool_call>";

#[test]
fn calls_and_text_are_told_apart() {
    let expected = json!({
        "calls": [{"name": "get_weather", "arguments": "{\"city\": \"Tromsø\"}"}],
        "content": "Let me look.\n", "reasoning": "", "notices": [],
    });
    assert_eq!(run(&["extract"], REPLY).good().json(), expected);
    assert_eq!(run(&["extract", "--dialect", "hermes", "-"], REPLY).good().json(), expected);
    let named = file("reply.txt", REPLY);
    assert_eq!(run(&["extract", "--as", "message", path(&named)], "").good().json(), expected);
}

#[test]
fn a_thought_that_the_prompt_opened_is_one() {
    let text = "hm</think>yes";
    let reasoning = |arguments: &[&str]| run(arguments, text).good().json()["reasoning"].clone();
    assert_eq!(reasoning(&["extract", "--dialect", "hermes", "--starting-in", "reasoning"]), "hm");
    assert_eq!(reasoning(&["extract", "--dialect", "qwen3", "--starting-in", "text"]), "");
}

#[test]
fn a_model_has_its_dialect() {
    let text = "<tool_call>\n<function=look>\n<parameter=at>\nsky\n</parameter>\n</function>\n</tool_call>";
    let found = run(&["extract", "--model", "Qwen/Qwen3-Coder-30B-A3B-Instruct"], text).good().json();
    assert_eq!(found["calls"][0]["name"], "look");
    let ran = run(&["extract", "--model", "no such"], text).bad("no dialect is known for the model no such");
    assert!(ran.stderr().contains("--dialect"));
}

#[test]
fn a_dialect_of_ones_own_is_read_from_a_file() {
    let dialect = "name = 'tilde'\n[[forms]]\nopen = '~~call'\nclose = '~~'\nbody = { json = {} }\n";
    let named = file("tilde.toml", dialect);
    let text = "Now: ~~call{\"name\": \"look\", \"arguments\": {}}~~";
    let found = run(&["extract", "--dialect-file", path(&named)], text).good().json();
    assert_eq!((&found["content"], &found["calls"][0]["name"]), (&json!("Now: "), &json!("look")));
    let named = file("broken.toml", "name = 'x'\nfroms = []\n");
    let ran = run(&["extract", "--dialect-file", path(&named)], text).bad("does not describe a dialect");
    assert!(ran.stderr().contains("froms"), "{}", ran.stderr());
}

#[test]
fn tools_give_types_and_flag_strangers() {
    let text = "<tool_call>\n<function=look>\n<parameter=times>\n5\n</parameter>\n</function>\n</tool_call>";
    let tool = json!({"name": "look", "parameters": {"type": "object", "properties": {"times": {"type": "string"}}}});
    let arguments = |named: &std::path::Path| {
        let found = run(&["extract", "--dialect", "qwen3_coder", "--tools", path(named)], text).good().json();
        let text = found["calls"][0]["arguments"].as_str().expect("arguments").to_owned();
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    assert_eq!(arguments(&file("tools.json", json!([tool]).to_string())), json!({"times": "5"}));
    let request = json!({"tools": [{"type": "function", "function": tool}]});
    assert_eq!(arguments(&file("tools-request.json", request.to_string())), json!({"times": "5"}));
    let none = file("tools-none.json", "{}");
    run(&["extract", "--tools", path(&none)], text).bad("has no tools");
    run(&["extract", "--tools", "no-such-tools.json"], text).bad("cannot read no-such-tools.json");
}

#[test]
fn rows_name_their_own_dialect_tools_and_pieces() {
    let rows = [
        json!({"text": REPLY, "dialect": "hermes", "tools": null, "chunks": null, "starting_in": "text"}),
        json!({"chunks": ["<tool_", "call>{\"name\": \"a\", \"arguments\": {}}</tool_call>"], "dialect": "auto"}),
        json!({"text": "x", "dialect": "no such"}),
        json!({"dialect": "hermes"}),
        json!({"text": "hm</think>yes", "dialect": "hermes", "starting_in": "reasoning"}),
        json!({"text": "x", "starting_in": "nowhere"}),
    ];
    let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let found = run(&["extract", "--jsonl"], input).bad("3 of 6 rows failed").lines();
    assert_eq!(found[0]["calls"][0]["name"], "get_weather");
    assert_eq!(found[1]["calls"][0]["name"], "a");
    assert!(
        found[2]["error"].as_str().is_some_and(|error| error.contains("unknown dialect")),
        "{}",
        found[2]
    );
    assert!(found[3]["error"].as_str().is_some_and(|error| error.contains("text or chunks")), "{}", found[3]);
    assert_eq!((&found[4]["reasoning"], &found[4]["content"]), (&json!("hm"), &json!("yes")));
    assert!(found[5]["error"].is_string());
}

#[test]
fn arguments_are_seen_while_the_text_still_grows() {
    let mut running = Running::start(&["extract", "--as", "events", "--dialect", "hermes"]);
    let (half, rest) = REPLY.as_bytes().split_at(REPLY.find('ø').expect("ø") + 1);
    running.write(half);
    running.wait_for("Troms");
    running.write(rest);
    let seen = running.finish();
    assert!(seen.contains('ø') && !seen.contains('\u{fffd}'), "{seen}");
}

#[test]
fn dialects_are_listed_with_models_and_example() {
    let rows = run(&["dialects"], "").good().lines();
    assert!(rows.len() > 40);
    for row in &rows {
        assert!(row["name"].is_string() && row["models"].is_array(), "{row}");
        assert!(row["example"].as_str().is_some_and(|example| !example.is_empty()), "{row}");
    }
    assert_eq!(run(&["dialects", "Qwen/Qwen3-Coder-30B"], "").good().json()["name"], "qwen3_coder");
    run(&["dialects", "nothing"], "").bad("no dialect and no model is called nothing");
}

/// The example that each dialect shows is read by that dialect as a call or a thought.
#[test]
fn every_example_is_read_by_its_own_dialect() {
    for row in run(&["dialects"], "").lines() {
        let request = json!({"text": row["example"], "dialect": row["name"]});
        let found = run(&["extract", "--jsonl"], request.to_string()).good().json();
        let is_read = found["calls"].as_array().is_some_and(|calls| !calls.is_empty())
            || found["reasoning"].as_str().is_some_and(|thought| !thought.is_empty());
        assert!(is_read, "{}: {found}", row["name"]);
    }
}
