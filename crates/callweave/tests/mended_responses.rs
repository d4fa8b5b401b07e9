//! What is written as OpenAI Responses in mended mode is a stream as clients expect it, whatever protocol the answer
//! came in: every own case and recording of every protocol goes through.

mod laws;
#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use callweave::encode::EncodeOptions;
use callweave::event::{Body, CallKind, Event, NoticeCode};
use callweave::message::{Content, Message};
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use laws::{Decoded, data, decode_cut, folders};
use serde_json::Value;

fn responses() -> &'static Protocol {
    Protocol::named("openai-responses").expect("a protocol of that name")
}

fn options() -> EncodeOptions {
    EncodeOptions::mended().id("resp_made").model("m").created(7)
}

fn samples() -> Vec<(&'static Protocol, PathBuf)> {
    let mut all = Vec::new();
    for protocol in TABLE.iter().copied() {
        for case in folders(&data("protocol").join(protocol.name)) {
            let inputs =
                fs::read_dir(&case).expect("a readable case").map(|entry| entry.expect("readable").path());
            all.extend(
                inputs
                    .filter(|path| path.file_stem().is_some_and(|stem| stem == "input"))
                    .map(|path| (protocol, path)),
            );
        }
    }
    if let Some(corpus) = shared::find("corpus") {
        let index = fs::read_to_string(corpus.join("INDEX.jsonl")).expect("an index");
        for line in index.lines() {
            let row: Value = serde_json::from_str(line).expect("an index row");
            if let Some(protocol) = row["protocol"].as_str().and_then(Protocol::named) {
                all.push((protocol, corpus.join(row["file"].as_str().expect("a file name"))));
            }
        }
    }
    all
}

fn encode(events: &[Event<'static>]) -> Vec<u8> {
    let mut encoder = responses().encoder(&options()).expect("Responses is written");
    let mut out = Vec::new();
    for event in events {
        encoder.encode(event, &mut out);
    }
    out
}

/// The wire events of each answer.
fn answers(stream: &[u8]) -> Vec<Vec<Value>> {
    let text = std::str::from_utf8(stream).expect("UTF-8");
    let mut answers: Vec<Vec<Value>> = Vec::new();
    for frame in text.split_terminator("\n\n") {
        let (event, data) = frame.split_once('\n').expect("a name and its data");
        let value: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(event.strip_prefix("event: "), value["type"].as_str());
        if value["type"] == "response.created" {
            answers.push(Vec::new());
        }
        answers.last_mut().expect("an answer begins with its creation").push(value);
    }
    answers
}

/// Walks a stream as a strict client does; the closing response.
fn walk(events: &[Value]) -> Result<&Value, String> {
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

/// What a client must get to see of the first choice.
fn essence(message: &Message, with_ids: bool) -> (String, String, String, Vec<(String, Value)>) {
    let Some(choice) = message.first() else { return Default::default() };
    let reasoning = choice.blocks.iter().filter_map(|block| match &block.content {
        Content::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let calls = choice.tool_calls().filter(|call| call.kind != CallKind::Builtin).map(|call| {
        let arguments = serde_json::from_str(call.arguments()).unwrap_or_else(|_| call.arguments().into());
        let id = if with_ids { call.id.as_str() } else { "" };
        (format!("{id} {} {:?}", call.name, call.completion), arguments)
    });
    (choice.text().into_owned(), reasoning.collect(), choice.refusal().into_owned(), calls.collect())
}

/// What no item can say: that arguments are complete JSON only by chance.
const ASIDE: &[&str] = &["stream-arguments-cut-inside-a-leaf"];

/// Texts that a closing restatement corrects differ from the deltas, and so may the check of them.
fn is_corrected(decoded: &Decoded) -> bool {
    decoded.events.iter().any(|event| matches!(event.body, Body::Correction { .. }))
}

/// A stream stays with the ids that it began with; only a whole body can have those that came later.
fn is_renamed(decoded: &Decoded) -> bool {
    let is_name = |event: &Event<'_>| matches!(event.body, Body::Identity { .. });
    decoded.events.iter().any(is_name)
}

#[test]
fn every_answer_is_a_stream_that_clients_expect() {
    let mut complaints = Vec::new();
    let mut count = 0;
    for (protocol, path) in samples() {
        let title = format!("{}: {}", protocol.name, path.display());
        let decoded = decode_cut(Some(protocol), &fs::read(&path).expect("readable"), &[]);
        if decoded.error.is_some() || ASIDE.iter().any(|aside| title.contains(aside)) {
            continue;
        }
        count += 1;
        let stream = encode(&decoded.events);
        let answers = answers(&stream);
        if answers.len() != decoded.messages.len() {
            complaints.push(format!("{title}: {} answers for {}", answers.len(), decoded.messages.len()));
        }
        let again = decode_cut(Some(responses()), &stream, &[]);
        for ((events, message), read) in answers.iter().zip(&decoded.messages).zip(&again.messages) {
            let closing = match walk(events) {
                Ok(closing) => closing,
                Err(why) => {
                    if !is_corrected(&decoded) {
                        complaints.push(format!("{title}: {why}"));
                    }
                    continue;
                }
            };
            let is_truncated = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
            if (is_truncated || !message.errors.is_empty()) && closing["status"] == "completed" {
                complaints.push(format!("{title}: completed although it was not"));
            }
            // An id that several calls share is left to the first of them.
            let calls = || message.first().into_iter().flat_map(|choice| choice.tool_calls());
            let is_unique = calls().map(|call| &call.id).collect::<BTreeSet<_>>().len() == calls().count();
            let (one, other) = (essence(message, is_unique), essence(read, is_unique));
            if is_renamed(&decoded) {
                continue;
            }
            if one != other {
                complaints.push(format!("{title}:\n  {one:?}\n  {other:?}"));
            }
            let mut whole = Vec::new();
            assert!(responses().encode_whole(message, &options(), &mut whole), "Responses is written");
            let whole: Value = serde_json::from_slice(&whole).expect("JSON");
            if whole != *closing {
                complaints.push(format!("{title}: the whole body differs\n  {whole}\n  {closing}"));
            }
        }
    }
    assert!(count > 0, "nothing to write");
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

/// The first block flows as it comes; what grows beside it comes in one piece when its turn has come.
#[test]
fn interleaved_blocks_wait_for_their_turn_and_the_first_flows() {
    let chat = Protocol::named("openai-chat").expect("a protocol of that name");
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
    let mut encoder = responses().encoder(&options()).expect("Responses is written");
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

/// Whatever is missing at the end, what was written is well formed and does not say that it is complete.
#[test]
fn every_prefix_ends_as_clients_expect() {
    for (protocol, path) in samples().into_iter().filter(|(_, path)| path.starts_with(data("protocol"))) {
        let bytes = fs::read(&path).expect("readable");
        let step = (bytes.len() / 24).max(1);
        for end in (0..bytes.len()).step_by(step) {
            let decoded = decode_cut(Some(protocol), &bytes[..end], &[]);
            if decoded.error.is_some() || is_corrected(&decoded) {
                continue;
            }
            let title = format!("{}: {end}", path.display());
            for (events, message) in answers(&encode(&decoded.events)).iter().zip(&decoded.messages) {
                let closing = walk(events).unwrap_or_else(|why| panic!("{title}: {why}"));
                let is_truncated = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
                assert!(
                    !is_truncated || closing["status"] != "completed",
                    "{title}: completed although it was not"
                );
            }
        }
    }
}
