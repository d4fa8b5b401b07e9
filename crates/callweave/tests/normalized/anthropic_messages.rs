//! Anthropic Messages as its strictest client reads it.

use callweave::event::FinishReason;
use serde_json::{Value, json};

use super::{Calls, Ending, Over, Wire};

pub(super) const WIRE: Wire = Wire {
    name: "anthropic-messages",
    model: "m",
    walk,
    check_whole,
    finish,
    over: Over::End,
    calls: Calls::InTurns,
};

const STOP_REASONS: &[&str] = &[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "compaction",
    "model_context_window_exceeded",
];

/// A response that is not said to be complete was truncated by a limit.
fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop => &["end_turn", "stop_sequence"],
        FinishReason::Length => &["max_tokens", "model_context_window_exceeded"],
        FinishReason::ToolCalls => &["tool_use"],
        FinishReason::ContentFilter => &["refusal"],
        FinishReason::Error => &["max_tokens"],
        FinishReason::Other => &["max_tokens", "pause_turn", "compaction"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

fn walk(stream: &[u8]) -> Result<Ending, String> {
    let text = std::str::from_utf8(stream).map_err(|_| "not UTF-8")?;
    let mut endings: Vec<Ending> = Vec::new();
    // The type of the open block, the number of the next one, whether its last event has come.
    let (mut open, mut next, mut is_over) = (None, 0, true);
    for (at, frame) in text.split_terminator("\n\n").enumerate() {
        let (name, data) = frame.split_once('\n').ok_or("a frame without data")?;
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").ok_or("no data")?)
            .map_err(|error| error.to_string())?;
        let name = name.strip_prefix("event: ").ok_or("no name")?;
        let fail = |why: &str| Err(format!("event {at} {name}: {why}"));
        if event["type"] != name {
            return fail("its type");
        }
        if name == "message_start" {
            if open.is_some() {
                return fail("a block is open");
            }
            check_message(&event["message"])?;
            if event["message"]["content"] != json!([]) || !event["message"]["stop_reason"].is_null() {
                return fail("begins with content");
            }
            endings.push(Ending::Truncated);
            (next, is_over) = (0, false);
            continue;
        }
        if name == "error" {
            if !event["error"]["type"].is_string() || !event["error"]["message"].is_string() {
                return fail("not the object that clients read");
            }
            match endings.last_mut() {
                Some(last) if !is_over => *last = Ending::Failed,
                _ => endings.push(Ending::Failed),
            }
            (open, is_over) = (None, true);
            continue;
        }
        if is_over {
            return fail("after the end");
        }
        let index = event["index"].as_i64();
        match name {
            "ping" => {}
            "content_block_start" => {
                if open.is_some() || index != Some(next) {
                    return fail("another block is open, or its number is taken");
                }
                check_block(&event["content_block"])?;
                open = event["content_block"]["type"].as_str().map(str::to_owned);
                next += 1;
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let is_apt = match (open.as_deref(), delta["type"].as_str()) {
                    (Some("text"), Some("text_delta")) => delta["text"].is_string(),
                    (Some("text"), Some("citations_delta")) => delta["citation"].is_object(),
                    (Some("thinking"), Some("thinking_delta")) => delta["thinking"].is_string(),
                    (Some("thinking"), Some("signature_delta")) => delta["signature"].is_string(),
                    (Some("compaction"), Some("compaction_delta")) => true,
                    (Some(call), Some("input_json_delta")) if call.ends_with("tool_use") => {
                        delta["partial_json"].is_string()
                    }
                    (open, _) => open.is_some_and(|open| !KNOWN.contains(&open)),
                };
                if !is_apt || index != Some(next - 1) {
                    return fail("it does not belong to the open block");
                }
            }
            "content_block_stop" => {
                let ended = open.take();
                if ended.is_none() || index != Some(next - 1) {
                    return fail("no such block is open");
                }
            }
            "message_delta" => {
                if open.is_some() || !event["usage"]["output_tokens"].is_u64() {
                    return fail("a block is open, or nothing is counted");
                }
                let reason = &event["delta"]["stop_reason"];
                if !reason.is_null() && !reason.as_str().is_some_and(|word| STOP_REASONS.contains(&word)) {
                    return fail("an unknown reason to stop");
                }
            }
            "message_stop" => {
                if open.is_some() {
                    return fail("a block is open");
                }
                is_over = true;
                endings.last_mut().map(|ending| *ending = Ending::Whole).ok_or("no start")?;
            }
            // Events that only this protocol has, from responses in this protocol.
            _ => {}
        }
    }
    match (open, &endings[..]) {
        (Some(_), _) => Err("a block is open at the end".to_owned()),
        (None, [ending]) => Ok(*ending),
        (None, _) => Err(format!("{} answers", endings.len())),
    }
}

const KNOWN: &[&str] = &["text", "thinking", "redacted_thinking", "tool_use", "compaction"];

fn check_message(message: &Value) -> Result<(), String> {
    let is_message = message["id"].is_string()
        && message["type"] == "message"
        && message["role"] == "assistant"
        && message["model"].is_string()
        && message["content"].is_array()
        && message.get("stop_sequence").is_some();
    let usage = &message["usage"];
    match is_message && usage["input_tokens"].is_u64() && usage["output_tokens"].is_u64() {
        true => Ok(()),
        false => Err(format!("not the object that clients read: {message}")),
    }
}

fn check_block(block: &Value) -> Result<(), String> {
    let has = |key: &str| block[key].is_string();
    let is_block = match block["type"].as_str() {
        Some("text") => has("text"),
        Some("thinking") => has("thinking") && has("signature"),
        Some("redacted_thinking") => has("data"),
        Some(word) if word.ends_with("tool_use") => has("id") && has("name") && block["input"].is_object(),
        Some(word) if word.ends_with("tool_result") => has("tool_use_id"),
        Some(_) => true,
        None => false,
    };
    if is_block { Ok(()) } else { Err(format!("not a block that clients read: {block}")) }
}

fn check_whole(body: &Value) -> Result<Ending, String> {
    if body["type"] == "error" {
        return match body["error"]["type"].is_string() && body["error"]["message"].is_string() {
            true => Ok(Ending::Failed),
            false => Err("not the error that clients read".to_owned()),
        };
    }
    check_message(body)?;
    body["content"].as_array().into_iter().flatten().try_for_each(check_block)?;
    match body.get("error") {
        Some(_) => Ok(Ending::Failed),
        None if body["stop_reason"].is_null() => Err("no reason to stop".to_owned()),
        None => Ok(Ending::Whole),
    }
}
