//! The expectations of other gateways for a translated response: the rows of the same file that are complete bodies and
//! streams.
//!
//! Streams are compared by what they come to: where gateways cut the pieces, and what they say about nothing, differs.
//! Ids and times that a gateway makes are not ours. Rows that we answer otherwise are in
//! `data/aside/translation-answers.txt`, with the reason and our answer.

use std::collections::BTreeMap;
use std::fs;

use callweave::Value;
use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::Event;
use callweave::json::Object;
use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave::protocol::Protocol;

use super::record::Record;
use super::shared;
use super::vectors::{Score, difference, print};

#[test]
fn answers_are_translated_as_others_expect() {
    let Some(path) = shared::find("vectors/translation.jsonl") else { return };
    let text = fs::read_to_string(path).expect("the rows");
    let mut record = Record::open("translation-answers");
    let mut scores: BTreeMap<(String, String), Score> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let row: Value = line.parse().expect("a row");
        let is_stream = row["kind"] == "stream";
        if !is_stream && row["kind"] != "response" {
            continue;
        }
        let name = |key: &str| row[key].as_str().expect("a name");
        let side = |key: &str| Protocol::named(name(key)).expect("a protocol");
        let (source, target) = (side("from"), side("to"));
        let answer = if is_stream {
            joined(target, &streamed(source, target, &input(&row["input"])))
        } else {
            whole(target, &read(source, row["input"].to_string().as_bytes()))
        };
        let difference = tell(&row, target, &answer);
        let kind = format!("{} {}", name("kind"), name("from"));
        let score = scores.entry((kind, name("to").to_owned())).or_default();
        score.count(row["contested"] == true, difference.is_none());
        if row["contested"] != true
            && let Some(difference) = difference
        {
            record.see(&(number + 1).to_string(), &answer, || {
                format!(
                    "{difference}\n  in {}\n  expected {}\n  notes {}",
                    row["input"], row["expected"], row["notes"]
                )
            });
        }
    }
    print(&scores, 80);
    record.close();
}

/// The bytes of a recorded stream; events of Bedrock are written one on a line.
fn input(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        Value::Array(events) => {
            events.iter().map(|event| format!("{event}\n")).collect::<String>().into_bytes()
        }
        value => value.to_string().into_bytes(),
    }
}

fn read(source: &'static Protocol, bytes: &[u8]) -> Message {
    let mut decoder = Decoder::new(source);
    let mut message = Accumulator::new();
    // The events before an error count.
    let _ = decoder.push(bytes, &mut message).and_then(|()| decoder.finish(&mut message));
    message.message().clone()
}

fn options() -> EncodeOptions {
    EncodeOptions::normalized().id("[id]").model("[model]").created(123)
}

fn streamed(source: &'static Protocol, target: &Protocol, bytes: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(source);
    let mut encoder = target.encoder(&options()).expect("answers are written");
    let mut out = Vec::new();
    let mut sink = |event: Event<'_>| encoder.encode(&event, &mut out);
    let _ = decoder.push(bytes, &mut sink).and_then(|()| decoder.finish(&mut sink));
    out
}

fn whole(target: &Protocol, message: &Message) -> Value {
    let mut out = Vec::new();
    assert!(target.encode_body(message, &options(), &mut out));
    std::str::from_utf8(&out).expect("text").parse().expect("JSON")
}

/// Returns the body that a stream amounts to.
fn joined(target: &'static Protocol, stream: &[u8]) -> Value {
    whole(target, &read(target, stream))
}

/// Returns the differences from the row's expectation.
fn tell(row: &Value, target: &'static Protocol, answer: &Value) -> Option<String> {
    let frames = row["expected"].as_array().or_else(|| row["expected"].get("events_prefix")?.as_array());
    let mut answer = answer.clone();
    let mut row = row.clone();
    if let Some(frames) = frames {
        let frames: Vec<&Value> = frames.iter().filter(|frame| frame.is_object()).collect();
        let stream: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
        let mut expected = joined(target, stream.as_bytes());
        // Members that no frame has were made while the frames were joined. No end is expected of a truncated stream.
        let is_truncated = row["match"] == "prefix";
        for key in ["finish_reason", "stop_reason", "status", "error"] {
            if is_truncated || !frames.iter().any(|frame| says(frame, key)) {
                forget(&mut expected, key);
            }
        }
        forget(&mut expected, "usage");
        let mut counted = Object::new();
        for frame in &frames {
            for holder in [Some(*frame), frame.get("message"), frame.get("response")].into_iter().flatten() {
                counted.extend(holder.get("usage").and_then(Value::as_object).cloned().unwrap_or_default());
            }
        }
        if let Some(body) = expected.as_object_mut().filter(|_| !counted.is_empty()) {
            body.insert("usage", counted);
        }
        let members = row.as_object_mut().expect("a row");
        members.insert("expected", expected);
        members.insert("match", "subset");
    } else if row["match"] == "semantic" {
        let Some(choices) = row["expected"].get("choices").cloned() else {
            // Nothing at all is an error of the reader's; otherwise the text is reported.
            let is_told = row["input"] == "" || answer.to_string().contains("partial answer");
            return (!is_told).then(|| "the text is not told".to_owned());
        };
        let members = row.as_object_mut().expect("a row");
        members.insert("expected", Value::object([("choices", choices)]));
        members.insert("match", "subset");
    }
    if row["match"] != "paths" {
        let expected = row.get_mut("expected").and_then(Value::as_object_mut)?;
        let own = answer.as_object_mut()?;
        // Made by the server that responds.
        for key in ["id", "created", "created_at", "completed_at", "object", "system_fingerprint", "model"] {
            own.remove(key);
            expected.remove(key);
        }
        own.retain(|key, value| {
            expected.contains_key(key) || !SAY_NOTHING.contains(&(key, value.to_string().as_str()))
        });
        if let (Some(own), Some(expected)) = (own.get_mut("usage"), expected.get("usage")) {
            forget_zeros(own, expected);
        }
    }
    difference(&row, &answer)
}

/// Members that the client's types demand and others leave out.
const SAY_NOTHING: &[(&str, &str)] =
    &[("metadata", "{}"), ("parallel_tool_calls", "true"), ("tool_choice", "\"auto\""), ("tools", "[]")];

/// A count of nothing says nothing.
fn forget_zeros(counted: &mut Value, expected: &Value) {
    let Some(members) = counted.as_object_mut() else { return };
    members.retain(|key, value| {
        let other = expected.get(key);
        forget_zeros(value, other.unwrap_or(&Value::Null));
        let is_nothing =
            value.as_u64() == Some(0) || value.as_object().is_some_and(|members| members.is_empty());
        other.is_some() || !is_nothing
    });
}

/// Whether there is a member of that name anywhere that is not null.
fn says(value: &Value, name: &str) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|value| says(value, name)),
        Value::Object(members) => {
            members.iter().any(|(key, value)| key == name && !value.is_null() || says(value, name))
        }
        _ => false,
    }
}

/// Removes all members of that name.
fn forget(value: &mut Value, name: &str) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| forget(value, name)),
        Value::Object(members) => {
            members.remove(name);
            members.iter_mut().for_each(|(_, value)| forget(value, name));
        }
        _ => {}
    }
}
