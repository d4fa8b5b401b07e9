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
fn a_dialect_of_ones_own_is_found_by_name_and_listed() {
    let dialect = "name = 'stars'\naliases = ['asterisks']\nmodels = ['stellar']\nexample = '**call{}**'\n\
        [[forms]]\nopen = '**call'\nclose = '**'\n";
    let named = file("stars.toml", dialect);
    // Among all dialects, a marker that prose has too needs a declared tool.
    let text = "**call{\"name\": \"look\", \"arguments\": {}}**";
    let row = |name: &str| json!({"text": text, "dialect": name, "tools": [{"name": "look"}]});
    let rows: String =
        ["stars", "asterisks", "auto", "hermes"].map(|name| format!("{}\n", row(name))).concat();
    let found = run(&["extract", "--jsonl", "--dialect-file", path(&named)], &rows).good().lines();
    let names: Vec<_> = found.iter().map(|row| row["calls"][0]["name"].as_str()).collect();
    assert_eq!(names, [Some("look"), Some("look"), Some("look"), None]);
    run(&["extract", "--jsonl"], row("stars").to_string()).bad("1 of 1 rows failed");
    let content = row("stars")["text"].clone();
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": content}}]});
    let request = json!({"data": body, "dialect": "asterisks"}).to_string();
    let decoded = run(&["decode", "--jsonl", "--dialect-file", path(&named)], request).good().json();
    assert_eq!(decoded["tool_calls"][0]["name"], "look", "{decoded}");
    let listed = run(&["dialects", "--dialect-file", path(&named)], "").good().lines();
    assert_eq!(listed[0]["name"], "stars");
    assert!(listed.len() > 40);
    let listed = run(&["dialects", "acme/stellar-1", "--dialect-file", path(&named)], "").good().json();
    assert_eq!(listed["example"], "**call{}**");
}

#[test]
fn a_dialect_that_lacks_something_is_refused() {
    for (name, content, expected) in [
        ("empty.toml", "", "name is empty"),
        ("nameless.toml", "[[forms]]\nopen = '<x>'\n", "name is empty"),
        ("unmarked.toml", "name = 'x'\n[[forms]]\nopen = ''\n", "forms[0].open is empty"),
        (
            "untagged.toml",
            "name = 'x'\n[[forms]]\nopen = '<x>'\nbody = { tagged = {} }\n",
            "forms[0].body.tagged.parameter.open is empty",
        ),
    ] {
        let named = file(name, content);
        for command in ["extract", "decode", "dialects"] {
            let ran = run(&[command, "--dialect-file", path(&named)], "").bad(expected);
            assert!(ran.stderr().contains("does not describe a dialect"), "{}", ran.stderr());
        }
    }
}

#[test]
fn a_request_that_contradicts_itself_is_refused() {
    let hermes = |more: Value| {
        let mut row = json!({"text": REPLY, "dialect": "hermes"});
        row.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        format!("{row}\n")
    };
    let rows = [
        hermes(json!({"chunks": [REPLY]})),
        hermes(json!({"tools": []})),
        hermes(json!({"tools": "nope"})),
        hermes(json!({"tools": [{"foo": 1}]})),
        hermes(json!({"chunks": ["other"]})),
        "[]\n".to_owned(),
        format!("{}\n", json!([REPLY, "hermes", null, null, null])),
    ];
    let found = run(&["extract", "--jsonl"], rows.concat()).bad("5 of 7 rows failed").lines();
    for row in &found[..2] {
        assert_eq!(row["calls"][0]["name"], "get_weather", "{row}");
    }
    let shape = "bad request: a row is an object with \"text\" and \"dialect\"";
    let expected =
        ["the member tools has no tools", "the member tools", "chunks and text differ", shape, shape];
    for (row, part) in found[2..].iter().zip(expected) {
        assert!(row["error"].as_str().is_some_and(|error| error.contains(part)), "{row} for {part}");
    }
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

/// The example that each dialect shows is read by that dialect as a call or as reasoning.
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

/// A broken call is never an empty success, and one that was repaired is none.
#[test]
fn a_broken_call_is_told_and_repaired_where_its_marker_leaves_no_doubt() {
    let text = "Sure. <tool_call>{\"name\": \"look\", \"arguments\": {at: \"sky\"}}</tool_call>";
    for dialect in ["auto", "hermes"] {
        let ran = run(&["extract", "--dialect", dialect], text).bad("a call cannot be used");
        assert_eq!(ran.json()["calls"][0]["invalid"], true, "{dialect}");
        let repaired = run(&["extract", "--dialect", dialect, "--repair"], text).good().json();
        assert_eq!(
            repaired["calls"],
            json!([{"name": "look", "arguments": "{\"at\": \"sky\"}"}]),
            "{dialect}"
        );
    }
}

#[test]
fn a_call_behind_a_damaged_one_counts_only_if_it_is_asked_for() {
    let text = "<tool_call>{\"name\": \"write\", \"arguments\": {\"text\": \"x}}</tool_call>\n\
                <tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    for flags in [&["extract"][..], &["extract", "--repair"]] {
        let ran = run(flags, text).bad("a call cannot be used");
        let call = &ran.json()["calls"][1];
        assert_eq!((&call["after_damage"], &call["invalid"]), (&json!(true), &json!(true)), "{flags:?}");
    }
    let accepted = run(&["extract", "--repair", "--calls-after-damage"], text).good().json();
    assert_eq!(accepted["calls"][1], json!({"name": "look", "arguments": "{}", "after_damage": true}));
}
