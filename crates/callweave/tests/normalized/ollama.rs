//! Ollama, as its clients expect it.

use callweave::event::FinishReason;
use serde_json::Value;

use super::{Calls, Ending, Over, Wire};

pub(super) const WIRE: Wire =
    Wire { name: "ollama", model: "m", walk, check_whole, finish, over: Over::Reason, calls: Calls::Whole };

/// It stops after calls as after text.
fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => &["stop"],
        FinishReason::Length => &["length"],
        FinishReason::ContentFilter => &["content_filter"],
        FinishReason::Error => &["error"],
        FinishReason::Other => &["unknown", "load", "unload"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

fn check_whole(body: &Value) -> Result<Ending, String> {
    check(&body.to_string(), true)
}

fn walk(stream: &[u8]) -> Result<Ending, String> {
    check(std::str::from_utf8(stream).map_err(|_| "not UTF-8")?, false)
}

/// Reads line by line; a complete response is one line that is done.
fn check(stream: &str, is_whole_body: bool) -> Result<Ending, String> {
    let (mut is_done, mut has_failed) = (false, false);
    let mut calls = 0;
    let mut counts_early = false;
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
        counts_early |= !is_done && line.get("eval_count").or(line.get("prompt_eval_count")).is_some();
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
            let is_complete = call["id"].is_string()
                && function["name"].is_string()
                && function["arguments"].is_object()
                && function["index"] == calls;
            calls += 1;
            if !is_complete || is_done && !is_whole_body {
                return fail("a call without its members, or too late");
            }
        }
    }
    match (has_failed, is_done) {
        (true, true) => Err(format!("failed and done: {stream}")),
        (false, true) if counts_early => Err(format!("counters before the last line: {stream}")),
        (true, false) => Ok(Ending::Failed),
        (false, true) => Ok(Ending::Whole),
        (false, false) => Ok(Ending::Truncated),
    }
}
