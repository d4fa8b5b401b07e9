//! Cohere's chat, as its clients expect it.

use callweave::event::{Counters, FinishReason};
use serde_json::Value;

use crate::{Essence, Told, Wire};

pub(crate) const WIRE: Wire =
    Wire { protocol: "cohere-v2", walk, soften, has_choices: false, has_objects: false };

/// The words of the SDKs' enumeration, and one of the version before.
const FINISH: &[&str] =
    &["COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "ERROR", "TIMEOUT", "ERROR_TOXIC"];

fn walk(stream: &str, told: &Told) -> Result<(), String> {
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
            // A call that was cut has no end.
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
    let is_open = told.is_truncated && !told.has_failed;
    match has_failed == told.has_failed && is_done != is_open && is_over == is_done {
        true => Ok(()),
        false => Err(format!("failed {has_failed}, over {is_over}, done {is_done}: {stream}")),
    }
}

fn soften(essence: &mut Essence, told: &Told) {
    essence.usage.cache_write_tokens = None;
    essence.usage.total_tokens = None;
    if essence.finish == Some(FinishReason::Other) {
        essence.finish = Some(FinishReason::Length);
    }
    // Only the last event counts, and the body of a failed request does not.
    if told.is_truncated || told.has_failed {
        essence.usage = Counters::default();
    }
    // Where the text of a call that was cut off would pass for whole, it stands as what it is.
    for call in &mut essence.calls {
        if let Some(text) = call.arguments.get("INVALID_JSON") {
            (call.arguments, call.is_cut) = (text.clone(), true);
        }
        if call.is_cut {
            essence.finish = None;
        }
    }
}
