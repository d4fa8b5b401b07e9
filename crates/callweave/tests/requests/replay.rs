//! Conversations that a client keeps in its protocol while the model behind speaks another: two rounds of calls and
//! results, streamed and complete. Every request that reaches the provider keeps its rules, every call comes back to
//! the client under the name it knows, and everything the provider signed comes back to it unaltered.

#[path = "replay/client.rs"]
mod client;
#[path = "replay/upstream.rs"]
mod upstream;

use std::collections::HashSet;

use callweave::Value;
use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::Event;
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::{RequestOptions, ReverseMappingStage};

use super::protocol;
use super::rules;
use client::{asked, keep, kept_calls};
use upstream::{answer, calls};

/// The protocols, and a model of each.
const SIDES: &[(&str, &str)] = &[
    ("openai-chat", "small"),
    ("openai-responses", "gpt-5.1"),
    ("anthropic-messages", "claude-sonnet-4-5"),
    ("gemini-generatecontent", "gemini-3-pro"),
];

/// The placeholder that Gemini accepts as a signature.
const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

fn json(text: &str) -> Value {
    text.parse().unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The response as the client gets it.
fn relayed(
    client: &Protocol,
    upstream: &'static Protocol,
    bytes: &[u8],
    is_streamed: bool,
    undo: ReverseMappingStage,
) -> Vec<u8> {
    if is_streamed {
        return cut_and_relayed(client, upstream, bytes, 7, undo);
    }
    let mut undo = undo;
    let mut decoder = Decoder::new(upstream);
    let mut message = Accumulator::new();
    decoder.push(bytes, &mut |event: Event<'_>| undo.push(event, &mut message)).expect("an answer");
    decoder.finish(&mut |event: Event<'_>| undo.push(event, &mut message)).expect("an answer");
    let mut out = Vec::new();
    assert!(client.encode_body(message.message(), &encoding(), &mut out));
    out
}

fn encoding() -> EncodeOptions {
    EncodeOptions::normalized().id("answer").model("m").created(1)
}

/// The stream as the client gets it, where it comes in pieces of that size.
fn cut_and_relayed(
    client: &Protocol,
    upstream: &'static Protocol,
    bytes: &[u8],
    size: usize,
    mut undo: ReverseMappingStage,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(upstream);
    let mut encoder = client.encoder(&encoding()).expect("answers are written");
    let mut sink =
        |event: Event<'_>| undo.push(event, &mut |event: Event<'_>| encoder.encode(&event, &mut out));
    for piece in bytes.chunks(size) {
        decoder.push(piece, &mut sink).expect("an answer");
    }
    decoder.finish(&mut sink).expect("an answer");
    out
}

/// The seals in a body, under any name of the wire.
fn seals(value: &Value) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list.iter()),
            Value::Object(members) => {
                for (key, value) in members {
                    match (key, value) {
                        ("signature" | "thoughtSignature" | "encrypted_content", Value::String(seal)) => {
                            found.push(seal.clone());
                        }
                        (_, value) => open.push(value),
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the provider's own complaints about a history.
fn refused(upstream: &str, body: &Value) -> Vec<String> {
    let mut found = rules::refused(upstream, body);
    for content in body.get("contents").and_then(Value::as_array).into_iter().flatten() {
        let parts = content["parts"].as_array().into_iter().flatten();
        let first = parts.into_iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|call| call.get("thoughtSignature").is_none()) {
            found.push("the first call is not signed".to_owned());
        }
    }
    found
}

fn converse(client: &'static Protocol, upstream: (&'static str, &str), is_streamed: bool, carries: bool) {
    let target = protocol(upstream.0).expect("a protocol with requests");
    let title = format!("{} → {} streamed {is_streamed} carrying {carries}", client.name, target.name);
    let mut options = RequestOptions::default();
    options.model = Some(upstream.1.to_owned());
    let mut history = asked(client.name, is_streamed);
    let names = declared(client, &history);
    let mut issued: Vec<String> = Vec::new();
    for round in 0..3 {
        let written = client.translate_request(history.clone(), target, &options).expect("a body");
        let body = &written.body;
        assert_eq!(refused(target.name, body), Vec::<String>::new(), "{title}, round {round}: {body:#}");
        let told = seals(body);
        let is_known = |seal: &String| issued.contains(seal) || seal == PLACEHOLDER;
        assert!(told.iter().all(is_known), "{title}, round {round}: {told:?} of {issued:?}\n{body:#}");
        if carries {
            assert!(
                issued.iter().all(|seal| told.contains(seal)),
                "{title}: {told:?} of {issued:?}\n{body:#}"
            );
        }
        // Every result is there, once.
        let text = body.to_string();
        for (round, at) in (0..round).flat_map(|round| (0..names.len()).map(move |at| (round, at))) {
            assert_eq!(text.matches(&format!("result {round} {at}")).count(), 1, "{title}: {body:#}");
        }
        let made = calls(target, body, &written.wrapped);
        let (bytes, sealed) = answer(target.name, round, &made, is_streamed);
        issued.extend(sealed);
        let undo = ReverseMappingStage::new(&written);
        let undo = if carries { undo.carrying_seals() } else { undo };
        let bytes = relayed(client, target, &bytes, is_streamed, undo);
        let before = history.clone();
        keep(client.name, &mut history, &bytes, is_streamed, round);
        let list =
            ["messages", "input", "contents"].iter().find_map(|key| history.get(*key)).expect("a list");
        let old = ["messages", "input", "contents"].iter().find_map(|key| before.get(*key)).expect("a list");
        let new: Vec<Value> = list
            .as_array()
            .expect("a list")
            .iter()
            .skip(old.as_array().expect("a list").len())
            .cloned()
            .collect();
        let told: Vec<(Option<String>, String, bool)> = kept_calls(client.name, &new)
            .into_iter()
            .map(|call| {
                let is_patch = call.name == "patch";
                let input = if is_patch { "*** Begin \"Patch\"\n" } else { r#"{"q": "é"}"# };
                if is_patch {
                    assert_eq!(call.input, input, "{title}");
                } else {
                    assert_eq!(json(&call.input), json(input), "{title}");
                }
                (call.namespace, call.name, call.is_custom)
            })
            .collect();
        assert_eq!(told, names, "{title}: the client knows its tools");
        let ids: Vec<Option<String>> =
            kept_calls(client.name, &new).into_iter().map(|call| call.id).collect();
        let unique: HashSet<&Option<String>> = ids.iter().collect();
        assert!(unique.len() == ids.len(), "{title}: {ids:?}");
    }
}

/// The tools that a client declares: namespace, name, and whether they take free text.
fn declared(client: &Protocol, body: &Value) -> Vec<(Option<String>, String, bool)> {
    calls(client, body, &[]).into_iter().map(|call| (call.namespace, call.name, call.is_custom)).collect()
}

#[test]
fn a_history_kept_in_one_protocol_is_accepted_in_another() {
    for (name, _) in SIDES {
        let client = protocol(name).expect("a protocol with requests");
        for upstream in SIDES.iter().filter(|(other, _)| other != name) {
            for is_streamed in [false, true] {
                for carries in [false, true] {
                    converse(client, *upstream, is_streamed, carries);
                }
            }
        }
    }
}

/// A response comes to clients of every protocol with the names and the free text that they know, in any split.
#[test]
fn what_was_changed_is_undone_in_any_cut() {
    let responses = protocol("openai-responses").expect("a protocol with requests");
    for (name, model) in SIDES {
        let upstream = protocol(name).expect("a protocol with requests");
        let mut options = RequestOptions::default();
        options.model = Some((*model).to_owned());
        let body = asked("openai-responses", true);
        let written = responses.translate_request(body, upstream, &options).expect("a body");
        let made = calls(upstream, &written.body, &written.wrapped);
        let (bytes, _) = answer(name, 0, &made, true);
        for &client in TABLE.iter().filter(|client| client.has_requests()) {
            let title = format!("{name} → {}", client.name);
            for carries in [false, true] {
                let told = |size: usize| {
                    let undo = ReverseMappingStage::new(&written);
                    let undo = if carries { undo.carrying_seals() } else { undo };
                    let out = cut_and_relayed(client, upstream, &bytes, size, undo);
                    let message = callweave::pipeline::decode_as(client, &out).expect("an answer");
                    let calls: Vec<_> = message
                        .tool_calls()
                        .map(|call| (call.id.clone(), call.name.clone(), call.arguments().to_owned()))
                        .collect();
                    (message.text().into_owned(), calls)
                };
                let whole = told(bytes.len());
                let names: Vec<&str> = whole.1.iter().map(|(_, name, _)| name.as_str()).collect();
                assert_eq!(names, ["look", "patch", "look"], "{title}");
                let free = &whole.1[1].2;
                let free = match json_or_text(free) {
                    Value::Object(wrapped) => wrapped["input"].as_str().expect("free text").to_owned(),
                    _ => free.clone(),
                };
                assert_eq!(free, "*** Begin \"Patch\"\n", "{title}");
                for size in [1, 2, 3, 5, 11, 64] {
                    assert_eq!(told(size), whole, "{title} in pieces of {size}");
                }
            }
        }
    }
}

fn json_or_text(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| text.into())
}
