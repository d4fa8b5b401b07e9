//! Output for people: colour, the view, and control characters that a terminal is kept from.

use std::process::Command;

use serde_json::json;

use crate::{clean, file, path, program, run};

#[path = "../../../callweave/tests/support/shared.rs"]
mod shared;

use shared::skip;

/// Runs the program on a terminal (by way of `script`), or nothing where there is none to be had.
fn on_terminal(arguments: &str, environment: &[(&str, &str)]) -> Option<String> {
    if !cfg!(target_os = "linux") {
        skip("script takes other options here");
        return None;
    }
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_callweave"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command.envs(environment.iter().copied());
    match command.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).expect("UTF-8").replace("\r\n", "\n")),
        Err(error) => {
            skip(&format!("there is no program script to make a terminal with ({error})"));
            None
        }
    }
}

#[test]
fn a_terminal_gets_the_view_in_colour() {
    let named = file("terminal.sse", clean());
    let Some(seen) = on_terminal(&format!("decode {}", path(&named)), &[]) else { return };
    assert!(seen.contains("\x1b["), "{seen}");
    let plain = run(&["decode", "--as", "view", path(&named)], "").good();
    assert!(!plain.stdout().contains('\x1b'));
    assert_eq!(anstream::adapter::strip_str(&seen).to_string(), plain.stdout());
}

#[test]
fn no_color_is_honoured() {
    let Some(seen) = on_terminal("demo --fast", &[("NO_COLOR", "1")]) else { return };
    assert!(seen.contains("get_forecast") && !seen.contains('\x1b'), "{seen}");
    let Some(seen) = on_terminal("demo --fast --color never", &[]) else { return };
    assert!(seen.contains("get_forecast") && !seen.contains('\x1b'), "{seen}");
}

#[test]
fn colour_can_be_forced_into_a_pipe() {
    let output = program(&["demo", "--color", "always"]).output().expect("the program runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\x1b["));
    assert!(!run(&["demo"], "").good().stdout().contains('\x1b'));
}

#[test]
fn a_terminal_gets_indented_json_on_demand() {
    let named = file("terminal-json.sse", clean());
    let line = format!("decode --as message {}", path(&named));
    let Some(seen) = on_terminal(&line, &[("NO_COLOR", "1")]) else { return };
    assert!(seen.starts_with("{\n  \"id\": \"chatcmpl"), "{seen}");
    let value: serde_json::Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(value, run(&["decode", path(&named)], "").json());
}

#[test]
fn protocols_are_a_table_on_a_terminal() {
    let Some(seen) = on_terminal("protocols", &[("NO_COLOR", "1")]) else { return };
    assert!(seen.contains("openai-chat") && seen.contains("also chat"), "{seen}");
}

#[test]
fn an_answer_cannot_steer_the_terminal() {
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "content": "red \u{1b}[31m bell \u{7}", "tool_calls": [
            {"id": "\u{1b}c", "type": "function", "function": {"name": "\u{1b}[2J", "arguments": "{\"a\": \"\u{9b}\"}"}}]}}]});
    let named = file("steering.json", body.to_string());
    let plain = run(&["decode", "--as", "view", path(&named)], "");
    assert!(plain.stdout().contains("red ␛[31m bell ␇"), "{}", plain.stdout());
    assert!(plain.stdout().contains("▸ ␛[2J  ␛c"), "{}", plain.stdout());
    assert!(!plain.stdout().contains(['\u{1b}', '\u{9b}', '\u{7}']));
    let Some(seen) = on_terminal(&format!("decode --as text {}", path(&named)), &[]) else { return };
    assert_eq!(seen, "red ␛[31m bell ␇\n");
}

#[test]
fn the_demo_shows_what_the_model_writes_and_what_the_client_gets() {
    let seen = run(&["demo"], "").good();
    let parts = [
        "the model writes\n\nTwo cities",
        "I'll look up",
        "get_forecast({\"city\": \"Bergen\", ",
        "get_forecast({city: 'Tromsø', ",
        "/* polar night */ units: \"metric\"})\n",
        "\nthe client gets\n",
        "reasoning\n",
        "I'll look up",
        "▸ get_forecast  call_Yq81\n  {\n    \"city\": \"Bergen\"",
        "▸ get_forecast  call_Zr27\n  {\n    \"city\": \"Tromsø\"",
        "tool_calls · 212 in (128 cached)",
        "notice the arguments of get_forecast were repaired",
    ];
    let mut rest = seen.stdout();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is not in {rest}")).1;
    }
    assert!(!seen.stdout().contains("\n\n\n"), "{}", seen.stdout());
    assert!(!seen.stdout().contains("not JSON"), "{}", seen.stdout());
}

#[test]
fn the_demo_recommends_a_command_that_succeeds() {
    let Some(seen) = on_terminal("demo --fast", &[("NO_COLOR", "1")]) else { return };
    let (_, hint) = seen.split_once("the same as JSON: callweave demo --raw | callweave ").expect("a hint");
    let words: Vec<_> = hint.split_whitespace().collect();
    assert_eq!(run(&words, crate::sample()).good().json()["tool_calls"][1]["id"], "call_Zr27");
}

/// A call that cannot be used is reported once, with what a repair would make of it.
#[test]
fn a_damaged_call_is_shown_once() {
    let seen = run(&["decode", "--as", "view"], crate::sample()).bad("--repair fixes it");
    let seen = seen.stdout();
    assert!(seen.contains("✗ the arguments of get_forecast are not JSON"), "{seen}");
    assert!(seen.contains("✓ --repair makes it, with 20 changes"), "{seen}");
    assert!(!seen.contains("notice"), "{seen}");
}

#[test]
fn a_big_file_gets_a_progress_bar() {
    let line = "data: {\"object\": \"chat.completion.chunk\", \"choices\": [{\"delta\": {\"content\": \"hi\"}}]}\n\n";
    let end =
        "data: {\"object\": \"chat.completion.chunk\", \"choices\": [{\"finish_reason\": \"stop\"}]}\n\n";
    let named = file("big.sse", line.repeat((16 << 20) / line.len() + 1) + end);
    let line = format!("decode --as events {} > /dev/null", path(&named));
    let Some(seen) = on_terminal(&line, &[]) else { return };
    assert!(seen.contains('█') && seen.contains("MiB"), "{seen:?}");
    assert!(seen.ends_with("\r\x1b[2K"), "{seen:?}");
}

#[test]
fn a_big_pipe_is_counted() {
    let line = "data: {\"object\": \"chat.completion.chunk\", \"choices\": [{\"delta\": {\"content\": \"hi\"}}]}\n\n";
    let end =
        "data: {\"object\": \"chat.completion.chunk\", \"choices\": [{\"finish_reason\": \"stop\"}]}\n\n";
    let named = file("piped.sse", line.repeat((17 << 20) / line.len()) + end);
    let Some(seen) = on_terminal(&format!("decode --as text < {} > /dev/null", path(&named)), &[]) else {
        return;
    };
    assert!(seen.contains(" MiB read"), "{seen:?}");
    assert!(seen.ends_with("\r\x1b[2K"), "{seen:?}");
}

#[test]
fn tables_are_json_on_demand() {
    for table in ["protocols", "dialects"] {
        let Some(seen) = on_terminal(&format!("{table} --jsonl"), &[]) else { return };
        assert_eq!(seen, run(&[table], "").good().stdout());
    }
}
