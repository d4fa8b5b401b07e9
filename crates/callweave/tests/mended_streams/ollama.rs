//! Ollama, as its clients expect it.

use serde_json::Value;

use crate::{Essence, Told, Wire};

pub(crate) const WIRE: Wire =
    Wire { protocol: "ollama", walk, soften, has_choices: false, has_objects: true };

fn walk(stream: &str, told: &Told) -> Result<(), String> {
    let (mut is_done, mut has_failed) = (false, false);
    let mut calls = 0;
    for line in stream.split_terminator('\n') {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let fail = |why: &str| Err(format!("{why}: {line}"));
        if is_done || has_failed {
            return fail("something after the end");
        }
        if let Some(error) = line.get("error") {
            has_failed = true;
            if !error.is_string() {
                return fail("an error that is no sentence");
            }
            continue;
        }
        let time = line["created_at"].as_str().unwrap_or_default();
        if !line["model"].is_string() || time.len() < 20 || !time.ends_with('Z') {
            return fail("no model or no time");
        }
        match line["done"].as_bool() {
            Some(done) => is_done = done,
            None => return fail("neither done nor not"),
        }
        if is_done != line["done_reason"].as_str().is_some_and(|word| !word.is_empty()) {
            return fail("a reason in the last line only");
        }
        let Some(message) = line.get("message") else {
            match line["response"].is_string() {
                true => continue,
                false => return fail("no message"),
            }
        };
        if message["role"] != "assistant" || !message["content"].is_string() {
            return fail("no role or no content");
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let is_whole = call["id"].is_string()
                && function["name"].is_string()
                && function["arguments"].is_object()
                && function["index"] == calls;
            calls += 1;
            if !is_whole || is_done {
                return fail("a call without its members, or too late");
            }
        }
    }
    let is_open = told.has_failed || told.is_truncated;
    match (has_failed == told.has_failed, is_done != is_open) {
        (true, true) => Ok(()),
        _ => Err(format!("failed {has_failed}, done {is_done}: {stream}")),
    }
}

fn soften(essence: &mut Essence, _: &Told) {
    let usage = &mut essence.usage;
    usage.total_tokens = None;
    usage.cached_tokens = None;
    usage.cache_write_tokens = None;
    usage.reasoning_tokens = None;
    // That a call was cut off is told by its arguments.
    if essence.calls.iter().any(|call| call.arguments.get("INVALID_JSON").is_some()) {
        essence.finish = None;
    }
    essence.calls.iter_mut().for_each(|call| call.is_cut = false);
}
