//! Converse as its strictest client reads it.

use callweave::event::FinishReason;
use callweave::framing::{AwsEventStream, Frame, FrameKind, StreamLimits};
use serde_json::Value;

use super::{Calls, Ending, Over, Wire};

pub(super) const WIRE: Wire = Wire {
    name: "bedrock-converse",
    model: "m",
    walk,
    check_whole,
    finish,
    over: Over::End,
    calls: Calls::InTurns,
};

/// A response that is not said to be complete was truncated by a limit.
fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop => &["end_turn", "stop_sequence"],
        FinishReason::Length => &["max_tokens", "model_context_window_exceeded"],
        FinishReason::ToolCalls => &["tool_use"],
        FinishReason::ContentFilter => &["guardrail_intervened", "content_filtered"],
        FinishReason::Error => &["malformed_model_output", "malformed_tool_use"],
        FinishReason::Other => &["max_tokens"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

fn walk(stream: &[u8]) -> Result<Ending, String> {
    let mut events: Vec<(FrameKind, String, Value)> = Vec::new();
    let mut framing = AwsEventStream::new(StreamLimits::default());
    let mut take = |frame: Frame<'_>| {
        let value = serde_json::from_str(frame.data).unwrap_or(Value::Null);
        events.push((frame.kind, frame.event.unwrap_or_default().to_owned(), value));
    };
    framing.push(stream, &mut take).map_err(|error| error.to_string())?;
    framing.finish(&mut take).map_err(|error| error.to_string())?;
    let mut endings: Vec<Ending> = Vec::new();
    // The open block and whether it was announced, the number of the next one, and the parts of the end that came.
    let (mut open, mut next, mut is_stopped, mut is_over) = (None::<Kind>, 0, false, true);
    for (at, (kind, name, event)) in events.iter().enumerate() {
        let fail = |why: &str| Err(format!("event {at} {name}: {why} {event}"));
        if *kind == FrameKind::Error {
            if !name.ends_with("Exception") || !event["message"].is_string() {
                return fail("not an exception that clients read");
            }
            match endings.last_mut() {
                Some(last) if !is_over => *last = Ending::Failed,
                _ => endings.push(Ending::Failed),
            }
            (open, is_over) = (None, true);
            continue;
        }
        if name == "messageStart" {
            if open.is_some() || event["role"] != "assistant" {
                return fail("a block is open, or nobody speaks");
            }
            endings.push(Ending::Truncated);
            (next, is_stopped, is_over) = (0, false, false);
            continue;
        }
        if is_over {
            return fail("after the end");
        }
        let index = event["contentBlockIndex"].as_i64();
        match name.as_str() {
            "contentBlockStart" => {
                if open.is_some() || is_stopped || index != Some(next) {
                    return fail("another block is open, or its number is taken");
                }
                open = Some(Kind::of(&event["start"]).ok_or("a start of nothing")?);
                next += 1;
            }
            "contentBlockDelta" => {
                if is_stopped {
                    return fail("after the stop");
                }
                let kind = Kind::of(&event["delta"]).ok_or(format!("a delta of nothing: {event}"))?;
                if open.is_none() {
                    // Only these begin with their first delta.
                    if !matches!(kind, Kind::Text | Kind::Reasoning) {
                        return fail("nothing is open");
                    }
                    open = Some(kind);
                    next += 1;
                }
                if open != Some(kind) || index != Some(next - 1) {
                    return fail("it does not belong to the open block");
                }
                if kind == Kind::Call && !event["delta"]["toolUse"]["input"].is_string() {
                    return fail("no input");
                }
            }
            "contentBlockStop" => {
                let ended = open.take();
                if ended.is_none() || index != Some(next - 1) {
                    return fail("no such block is open");
                }
            }
            "messageStop" => {
                if open.is_some() || is_stopped || !event["stopReason"].is_string() {
                    return fail("a block is open, or no reason is given");
                }
                is_stopped = true;
            }
            "metadata" => {
                let usage = &event["usage"];
                let counts = ["inputTokens", "outputTokens", "totalTokens"];
                if !is_stopped || !counts.iter().all(|key| usage[key].is_u64()) {
                    return fail("too early, or nothing is counted");
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Call,
    Result,
    Other,
}

impl Kind {
    /// Returns the kind of a start or a delta, which has exactly one.
    fn of(content: &Value) -> Option<Self> {
        let content = content.as_object().filter(|content| content.len() == 1)?;
        let (key, value) = content.iter().next()?;
        Some(match key.as_str() {
            "text" if value.is_string() => Self::Text,
            "citation" if value.is_object() => Self::Text,
            "reasoningContent" if value.is_object() => Self::Reasoning,
            "toolUse" if value.is_object() => Self::Call,
            "toolResult" => Self::Result,
            "text" | "citation" | "reasoningContent" | "toolUse" => return None,
            _ => Self::Other,
        })
    }
}

fn check_whole(body: &Value) -> Result<Ending, String> {
    if body.get("__type").is_some() {
        let name = body["__type"].as_str().unwrap_or_default();
        let is_error = name.ends_with("Exception") && name.starts_with(char::is_uppercase);
        return match is_error && body["message"].is_string() {
            true => Ok(Ending::Failed),
            false => Err("not the error that clients read".to_owned()),
        };
    }
    let message = &body["output"]["message"];
    let is_response = message["role"] == "assistant"
        && body["stopReason"].is_string()
        && body["usage"]["inputTokens"].is_u64()
        && body["metrics"].is_object();
    let content =
        message["content"].as_array().filter(|_| is_response).ok_or("not the object that clients read")?;
    for block in content {
        let kind = Kind::of(block).ok_or(format!("not a block that clients read: {block}"))?;
        let call = &block["toolUse"];
        if kind == Kind::Call
            && !(call["toolUseId"].is_string() && call["name"].is_string() && call["input"].is_object())
        {
            return Err(format!("not a call that clients read: {block}"));
        }
    }
    let has_failed = body.as_object().is_some_and(|body| body.keys().any(|key| key.ends_with("Exception")));
    Ok(if has_failed { Ending::Failed } else { Ending::Whole })
}
