//! Chat as its strictest client reads it.

use std::collections::BTreeMap;

use callweave::event::FinishReason;
use serde_json::Value;

use super::{Calls, Ending, Over, Wire};
use crate::laws::decode_truncated;

pub(super) const WIRE: Wire = Wire {
    name: "openai-chat",
    model: "m",
    walk,
    check_whole,
    finish,
    over: Over::End,
    calls: Calls::AtOnce,
};

/// A response that is not said to be complete was truncated by a limit.
fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop => &["stop"],
        FinishReason::ToolCalls => &["tool_calls"],
        FinishReason::ContentFilter => &["content_filter"],
        FinishReason::Length | FinishReason::Error | FinishReason::Other => &["length"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

/// The facts known about a choice.
#[derive(Default)]
struct Seen {
    calls: u64,
    is_finished: bool,
}

fn walk(stream: &[u8]) -> Result<Ending, String> {
    let text = std::str::from_utf8(stream).map_err(|_| "not UTF-8")?;
    let mut choices: BTreeMap<u64, Seen> = BTreeMap::new();
    let (mut is_done, mut has_failed, mut is_counted, mut names) = (false, false, false, None);
    for frame in text.split_terminator("\n\n") {
        let data = frame.strip_prefix("data: ").ok_or_else(|| format!("no data: {frame}"))?;
        let fail = |why: &str| Err(format!("{why}: {frame}"));
        if is_done {
            return fail("after the end");
        }
        if data == "[DONE]" {
            is_done = true;
            continue;
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| format!("{error}: {data}"))?;
        if let Some(error) = chunk.get("error") {
            has_failed = true;
            if !error["message"].is_string() || !error["type"].is_string() {
                return fail("not the error that clients read");
            }
            continue;
        }
        let own = ["id", "object", "created", "model"].map(|key| chunk[key].clone());
        if own[1] != "chat.completion.chunk" || !own[0].is_string() || !own[2].is_u64() || !own[3].is_string()
        {
            return fail("not the names that clients read");
        }
        if names.get_or_insert_with(|| own.clone()) != &own {
            return fail("other names than before");
        }
        let list = chunk["choices"].as_array().ok_or_else(|| format!("no choices: {frame}"))?;
        if is_counted && !list.is_empty() {
            return fail("after the counts");
        }
        if chunk["usage"].is_object() && !list.is_empty() {
            return fail("counts beside a choice");
        }
        is_counted |= chunk["usage"].is_object();
        for choice in list {
            let Some(index) = choice["index"].as_u64() else { return fail("a choice without number") };
            let is_first = !choices.contains_key(&index);
            let seen = choices.entry(index).or_default();
            check_delta(choice, is_first, seen).map_err(|why| format!("{why}: {frame}"))?;
        }
    }
    match () {
        () if has_failed => Ok(Ending::Failed),
        () if choices.values().any(|seen| !seen.is_finished) => Err("a choice without end".to_owned()),
        () if is_done => Ok(Ending::Whole),
        () => Ok(Ending::Truncated),
    }
}

fn check_delta(choice: &Value, is_first: bool, seen: &mut Seen) -> Result<(), String> {
    let delta = choice["delta"].as_object().ok_or("no delta")?;
    if delta.contains_key("role") != is_first || is_first && delta["role"] != "assistant" {
        return Err("the role comes first, and only then".to_owned());
    }
    if std::mem::replace(&mut seen.is_finished, choice["finish_reason"].is_string()) {
        return Err("after its finish".to_owned());
    }
    if seen.is_finished && !delta.is_empty() {
        return Err("content with the finish".to_owned());
    }
    for (key, value) in delta.iter().filter(|(key, _)| *key != "tool_calls") {
        if !value.is_string() {
            return Err(format!("{key} is no text"));
        }
    }
    for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let index = call["index"].as_u64().ok_or("a call without number")?;
        let body = call.get("function").or(call.get("custom")).ok_or("a call of nothing")?;
        let is_new = index == seen.calls;
        seen.calls += u64::from(is_new);
        let is_named = call["id"].is_string() && call["type"].is_string() && body["name"].is_string();
        let is_silent = call.get("id").is_none() && call.get("type").is_none() && body.get("name").is_none();
        if index >= seen.calls || is_new != is_named || !is_new && !is_silent {
            return Err("a call is named when it begins, and only then".to_owned());
        }
    }
    for entry in choice["logprobs"]["content"].as_array().into_iter().flatten() {
        check_logprob(entry)?;
    }
    Ok(())
}

fn check_logprob(entry: &Value) -> Result<(), String> {
    match entry["token"].is_string() && entry["logprob"].is_number() && entry["top_logprobs"].is_array() {
        true => Ok(()),
        false => Err(format!("not the log probabilities that clients read: {entry}")),
    }
}

fn check_whole(body: &Value) -> Result<Ending, String> {
    if let Some(error) = body.get("error") {
        return match error["message"].is_string() && error["type"].is_string() {
            true => Ok(Ending::Failed),
            false => Err("not the error that clients read".to_owned()),
        };
    }
    let is_named = body["id"].is_string() && body["model"].is_string() && body["created"].is_u64();
    let choices = body["choices"].as_array().filter(|_| is_named && body["object"] == "chat.completion");
    for choice in choices.ok_or("not the object that clients read")? {
        let message = &choice["message"];
        if message["role"] != "assistant"
            || message.get("content").is_none()
            || !choice["finish_reason"].is_string()
        {
            return Err(format!("not a choice that clients read: {choice}"));
        }
        let mut ids = Vec::new();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let body = call.get("function").map(|body| (&body["name"], &body["arguments"]));
            let body = body.or(call.get("custom").map(|body| (&body["name"], &body["input"])));
            if !body.is_some_and(|(name, text)| name.is_string() && text.is_string())
                || ids.contains(&&call["id"])
            {
                return Err(format!("not a call that clients read, or its id is taken: {call}"));
            }
            ids.push(&call["id"]);
        }
        choice["logprobs"]["content"].as_array().into_iter().flatten().try_for_each(check_logprob)?;
    }
    Ok(Ending::Whole)
}

/// A client that did not ask for counts does not get them.
#[test]
fn counts_come_to_who_asks_for_them() {
    let input = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
    let decoded = decode_truncated(Some(WIRE.protocol()), input, &[]);
    for (options, is_counted) in [(WIRE.options(), true), (WIRE.options().without_usage(), false)] {
        let mut encoder = WIRE.protocol().encoder(&options).expect("chat is written");
        let mut out = Vec::new();
        decoded.events.iter().for_each(|event| encoder.encode(event, &mut out));
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text.contains("\"prompt_tokens\":3"), is_counted, "{text}");
        assert_eq!(walk(text.as_bytes()), Ok(Ending::Whole));
    }
}
