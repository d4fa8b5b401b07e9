//! OpenAI Responses as its strictest client reads it.

use std::collections::BTreeSet;

use callweave::event::{Event, EventKind, FinishReason, NoticeCode};
use callweave::pipeline::Decoder;
use serde_json::Value;

use super::{Calls, Ending, Over, Wire, openai_chat};
use crate::laws::decode_truncated;
use crate::samples::{Sample, samples};

pub(super) const WIRE: Wire = Wire {
    name: "openai-responses",
    model: "m",
    walk,
    check_whole,
    finish,
    over: Over::End,
    calls: Calls::InTurns,
};

fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => &["completed"],
        // A response that is not said to be complete was truncated by a limit.
        FinishReason::Length => &["max_output_tokens"],
        FinishReason::ContentFilter => &["content_filter"],
        // A truncated response has failed.
        FinishReason::Error => &["failed"],
        FinishReason::Other => &["max_output_tokens", "failed"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

/// The wire events of the response.
fn events(stream: &[u8]) -> Result<Vec<Value>, String> {
    let text = std::str::from_utf8(stream).map_err(|_| "not UTF-8")?;
    let frames = text.split_terminator("\n\n").map(|frame| {
        let (event, data) = frame.split_once('\n').ok_or("no name or no data")?;
        let data = data.strip_prefix("data: ").ok_or("no data")?;
        let value: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        match event.strip_prefix("event: ") == value["type"].as_str() {
            true => Ok(value),
            false => Err(format!("another name: {frame}")),
        }
    });
    frames.collect()
}

fn walk(stream: &[u8]) -> Result<Ending, String> {
    let events = events(stream)?;
    let closing = closing(&events)?;
    let has_failed = events.iter().any(|event| event["type"] == "error");
    ending(closing, has_failed)
}

fn check_whole(body: &Value) -> Result<Ending, String> {
    let is_made = body["error"]["message"].as_str().is_some_and(|message| MADE.contains(&message));
    ending(body, !is_made)
}

/// The forms of a failure without an error event: one in the finish reason, and the end of the input.
const MADE: &[&str] = &[
    "the upstream failed",
    "the stream ended without the provider's end",
    "the input was cut off in a frame; what had come of it was read",
];

/// The end of a response; a truncated one has failed, too.
fn ending(response: &Value, has_failed: bool) -> Result<Ending, String> {
    if response["object"] != "response" || !response["id"].is_string() || !response["output"].is_array() {
        return Err(format!("not the response that clients read: {response}"));
    }
    match response["status"].as_str() {
        Some("completed" | "incomplete") => Ok(Ending::Whole),
        Some("failed") if has_failed => Ok(Ending::Failed),
        Some("failed") if response["error"]["message"] == MADE[0] => Ok(Ending::Whole),
        Some("failed") => Ok(Ending::Truncated),
        status => Err(format!("status {status:?}")),
    }
}

/// Walks a stream as a strict client does; the closing response.
fn closing(events: &[Value]) -> Result<&Value, String> {
    let mut output: Vec<Value> = Vec::new();
    let mut item: Option<i64> = None;
    let mut part: Option<(String, i64)> = None;
    let mut ids = BTreeSet::new();
    let (mut text, mut closing) = (String::new(), None);
    for (at, event) in events.iter().enumerate() {
        let kind = event["type"].as_str().ok_or("no type")?;
        let fail = |why: &str| Err(format!("event {at} {kind}: {why}"));
        if event["sequence_number"] != at {
            return fail("its number");
        }
        if closing.is_some() {
            return fail("after the end");
        }
        let index = event["output_index"].as_i64();
        if index.is_some() && kind != "response.output_item.added" && item != index {
            return fail("an item that is not open");
        }
        let place = [("s", "summary_index"), ("c", "content_index")];
        let place =
            place.iter().find_map(|(group, key)| Some(((*group).to_owned(), event.get(key)?.as_i64()?)));
        let name = kind.strip_prefix("response.").unwrap_or(kind);
        match name {
            "created" | "in_progress" if at < 2 => {}
            "error" => {}
            "completed" | "incomplete" | "failed" => {
                closing = Some(&event["response"]);
                if item.is_some() || part.is_some() || event["response"]["status"] != name {
                    return fail("something is open, or the status differs");
                }
            }
            "output_item.added" => {
                let own = &event["item"];
                if item.is_some() || index != Some(output.len() as i64) || !ids.insert(own["id"].to_string())
                {
                    return fail("another item is open, or its number or id is taken");
                }
                if own["call_id"].is_string() && own["call_id"] == own["id"] && own["type"] == "function_call"
                {
                    return fail("its id is that of the call");
                }
                item = index;
                text.clear();
            }
            "output_item.done" => {
                if part.is_some() {
                    return fail("a part is open");
                }
                item = None;
                output.push(event["item"].clone());
            }
            "content_part.added" | "reasoning_summary_part.added" => {
                if part.is_some() {
                    return fail("another part is open");
                }
                part = place;
                text.clear();
            }
            "content_part.done" | "reasoning_summary_part.done" if part.take() != place => {
                return fail("a part that is not open");
            }
            _ if name.ends_with(".delta") => {
                if place != part {
                    return fail("a part that is not open");
                }
                text.push_str(event["delta"].as_str().unwrap_or_default());
            }
            _ if name.ends_with("_arguments.done") || name.ends_with("_input.done") => {
                let whole = event.get("arguments").or(event.get("input")).and_then(Value::as_str);
                if whole != Some(&text) {
                    return fail("its text differs from the deltas");
                }
                text.clear();
            }
            _ => {}
        }
    }
    let closing = closing.ok_or("no end")?;
    let mut last = closing["output"].as_array().cloned().unwrap_or_default();
    for item in output.iter_mut().chain(&mut last).filter_map(Value::as_object_mut) {
        // The newest wins.
        item.remove("encrypted_content");
        item.remove("result");
    }
    match last == output {
        true => Ok(closing),
        false => Err("the closing output differs from the items".to_owned()),
    }
}

/// A complete body is the response that closes such a stream.
#[test]
fn a_whole_body_is_what_closes_a_stream() {
    for Sample { title, protocol, bytes, .. } in &samples() {
        let decoded = decode_truncated(Some(protocol), bytes, &[]);
        // A stream stays with the ids that it began with; only a complete body can have those that came later. And only
        // that marks a call of which it turned out at the end that a limit may have truncated it.
        let is_change = |event: &Event<'_>| match &event.body {
            EventKind::Correction { .. } | EventKind::Identity { .. } => true,
            EventKind::Notice(notice) => {
                notice.code == NoticeCode::IncompleteArguments && notice.block.is_some()
            }
            _ => false,
        };
        if decoded.error.is_some() || decoded.events.iter().any(is_change) {
            continue;
        }
        for (stream, message) in WIRE.streams(&decoded.events).iter().zip(&decoded.messages) {
            let events = events(&stream.bytes).expect("events");
            let mut whole = Vec::new();
            assert!(
                WIRE.protocol().encode_body(message, &WIRE.options(), &mut whole),
                "Responses is written"
            );
            let whole: Value = serde_json::from_slice(&whole).expect("JSON");
            assert_eq!(Ok(&whole), closing(&events), "{title}");
        }
    }
}

/// The first block flows as it comes; a block that grows beside it comes in one piece when its turn has come.
#[test]
fn items_wait_for_their_turn_and_the_first_flows() {
    let chat = openai_chat::WIRE.protocol();
    let frame = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let call = |index: u32, name: &str, arguments: &str| {
        let arguments = serde_json::to_string(arguments).expect("a string");
        let identity = if name.is_empty() { String::new() } else { format!("\"id\":\"call_{index}\",") };
        let name = if name.is_empty() { String::new() } else { format!("\"name\":\"{name}\",") };
        frame(&format!(
            "{{\"tool_calls\":[{{\"index\":{index},{identity}\"function\":{{{name}\"arguments\":{arguments}}}}}]}}"
        ))
    };
    let mut decoder = Decoder::new(chat);
    let mut encoder = WIRE.protocol().encoder(&WIRE.options()).expect("Responses is written");
    let mut told = |input: &str| {
        let mut out = Vec::new();
        decoder
            .push(input.as_bytes(), &mut |event: Event<'_>| encoder.encode(&event, &mut out))
            .expect("no limit");
        let text = String::from_utf8(out).expect("UTF-8");
        text.lines()
            .filter_map(|line| line.strip_prefix("event: response."))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (added, delta) = ("output_item.added", "function_call_arguments.delta");
    let (args, done) = ("function_call_arguments.done", "output_item.done");
    assert_eq!(told(&call(0, "f", "{\"a\":")), ["created", "in_progress", added, delta]);
    assert_eq!(told(&call(1, "g", "{\"b\":")), [""; 0]);
    assert_eq!(told(&call(0, "", "1")), [delta]);
    assert_eq!(told(&call(1, "", "2}")), [""; 0]);
    assert_eq!(told(&call(0, "", "}")), [delta]);
    assert_eq!(told("data: [DONE]\n\n"), [args, done, added, delta, args, done, "completed"]);
}
