//! Cohere's chat, as its clients expect it.

use callweave::event::FinishReason;
use serde_json::Value;

use super::{Calls, Ending, Over, Wire};

pub(super) const WIRE: Wire = Wire {
    name: "cohere-v2",
    model: "m",
    walk,
    check_whole,
    finish,
    over: Over::Reason,
    calls: Calls::InTurns,
};

/// A response that is not said to be complete was truncated by a limit.
fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop => &["COMPLETE", "STOP_SEQUENCE"],
        FinishReason::Length => &["MAX_TOKENS", "ERROR_LIMIT"],
        FinishReason::ToolCalls => &["TOOL_CALL"],
        FinishReason::ContentFilter => &["ERROR_TOXIC"],
        FinishReason::Error => &["ERROR", "TIMEOUT"],
        FinishReason::Other => &["MAX_TOKENS"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

/// The body of a failed request has a message, and no response.
fn check_whole(body: &Value) -> Result<Ending, String> {
    let message = &body["message"];
    if message.is_string() || body["error"].is_string() {
        return Ok(Ending::Failed);
    }
    let parts = message["content"].as_array().into_iter().flatten();
    let is_part = |part: &Value| {
        part["type"].as_str().is_some_and(|kind| part.get(kind).is_some() || kind == "document")
    };
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let is_call = |call: &Value| {
        let function = &call["function"];
        call["id"].is_string() && function["name"].is_string() && function["arguments"].is_string()
    };
    let is_response = body["id"].is_string() && message["role"] == "assistant";
    let is_finished = body["finish_reason"].as_str().is_none_or(|word| FINISH.contains(&word));
    match is_response && is_finished && parts.clone().all(is_part) && calls.clone().all(is_call) {
        true => Ok(Ending::Whole),
        false => Err("not the object that clients read".to_owned()),
    }
}

/// The words of the SDKs' enumeration, and one of the version before.
const FINISH: &[&str] =
    &["COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "ERROR", "TIMEOUT", "ERROR_TOXIC"];

fn walk(stream: &[u8]) -> Result<Ending, String> {
    let stream = std::str::from_utf8(stream).map_err(|_| "not UTF-8")?;
    let mut open: Option<(&str, u64)> = None;
    let (mut contents, mut calls, mut citations) = (0, 0, 0);
    let (mut is_over, mut is_done, mut has_failed) = (false, false, false);
    for (at, frame) in stream.split_terminator("\n\n").enumerate() {
        if frame == "data: [DONE]" && is_over && !is_done {
            is_done = true;
            continue;
        }
        let (name, data) = frame.split_once('\n').ok_or_else(|| format!("no name: {frame}"))?;
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap_or_default())
            .map_err(|error| format!("{error}: {frame}"))?;
        let fail = |why: &str| Err(format!("event {at}, {why}: {frame}"));
        if name.strip_prefix("event: ") != event["type"].as_str() {
            return fail("another name");
        }
        if is_over || (at == 0) != (event["type"] == "message-start") {
            return fail("out of its place");
        }
        let index = event["index"].as_u64();
        let message = &event["delta"]["message"];
        let mut start = |kind, counter: &mut u64| {
            // A truncated call has no end.
            let is_next = open.is_none_or(|(kind, _)| kind == "call") && index == Some(*counter);
            open = Some((kind, *counter));
            *counter += 1;
            is_next
        };
        let is_good = match event["type"].as_str().unwrap_or_default() {
            "message-start" => event["id"].is_string() && message["role"] == "assistant",
            "content-start" => {
                let kind = message["content"]["type"].as_str().unwrap_or_default();
                let is_known = !matches!(kind, "text" | "thinking") || message["content"][kind] == "";
                start("content", &mut contents) && is_known
            }
            "content-delta" => {
                let content = &message["content"];
                open.map(|(kind, at)| (kind, Some(at))) == Some(("content", index))
                    && (content["text"].is_string() || content["thinking"].is_string())
            }
            "content-end" => open.take().map(|(kind, at)| (kind, Some(at))) == Some(("content", index)),
            "tool-plan-delta" => open.is_none() && message["tool_plan"].is_string(),
            "tool-call-start" => {
                let call = &message["tool_calls"];
                start("call", &mut calls)
                    && call["id"].is_string()
                    && call["type"] == "function"
                    && call["function"]["name"].is_string()
                    && call["function"]["arguments"] == ""
            }
            "tool-call-delta" => {
                open.map(|(kind, at)| (kind, Some(at))) == Some(("call", index))
                    && message["tool_calls"]["function"]["arguments"].is_string()
            }
            "tool-call-end" => open.take().map(|(kind, at)| (kind, Some(at))) == Some(("call", index)),
            "citation-start" => {
                citations += 1;
                index == Some(citations - 1) && message["citations"].is_object()
            }
            "citation-end" => index == Some(citations - 1),
            "message-end" => {
                is_over = true;
                let delta = &event["delta"];
                has_failed = delta["error"].is_string();
                delta["finish_reason"].as_str().is_some_and(|word| FINISH.contains(&word))
            }
            _ => true,
        };
        if !is_good {
            return fail("not as it should be");
        }
    }
    match (has_failed, is_over, is_done) {
        (true, true, true) => Ok(Ending::Failed),
        (false, true, true) => Ok(Ending::Whole),
        (false, false, false) => Ok(Ending::Truncated),
        _ => Err(format!("failed {has_failed}, over {is_over}, done {is_done}: {stream}")),
    }
}
