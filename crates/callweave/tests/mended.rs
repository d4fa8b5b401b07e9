//! What is written in mended mode is what clients expect, whatever protocol the answer came in.
//!
//! Every own case and, where it is at hand, every recording of *every* protocol is written in each protocol that has a
//! row here. The stream obeys the wire's grammar, as strict as its strictest client, and both the stream and the whole
//! body decode to the same text, thoughts, calls, finish and token counts as far as the wire can say them. That is so
//! for every prefix of the input, too, and however the input is cut.

#[path = "mended/anthropic_messages.rs"]
mod anthropic_messages;
#[path = "mended/bedrock_converse.rs"]
mod bedrock_converse;
#[path = "mended/bedrock_invoke.rs"]
mod bedrock_invoke;
mod laws;
#[path = "support/shared.rs"]
mod shared;

use std::fs;
use std::path::PathBuf;

use callweave::encode::EncodeOptions;
use callweave::event::{AttachmentKind, Body, CallKind, Event, FinishReason, NoticeCode};
use callweave::json::repair::repair;
use callweave::message::{Block, Content, Message, ToolCall};
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use laws::{Decoded, cut_lists, data, decode_cut, folders};
use serde_json::{Value, json};

/// How an answer that is written ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Whole,
    Truncated,
    Failed,
}

/// A wire, as its clients read it.
struct Wire {
    name: &'static str,
    /// The model that is asked for.
    model: &'static str,
    /// Reads a stream as the strictest client would; how each answer of it ends.
    walk: fn(&[u8]) -> Result<Vec<Ending>, String>,
    /// Whether the whole body is one that clients accept; they are told whether it is an error.
    check_whole: fn(&Value) -> Result<Ending, String>,
    /// The words for a reason to finish.
    finish: fn(FinishReason) -> &'static [&'static str],
}

const WIRES: &[Wire] = &[anthropic_messages::WIRE, bedrock_converse::WIRE, bedrock_invoke::WIRE];

fn options(wire: &Wire) -> EncodeOptions {
    EncodeOptions::mended().id("made").model(wire.model).created(7)
}

struct Sample {
    title: String,
    protocol: &'static Protocol,
    is_own: bool,
    bytes: Vec<u8>,
}

fn samples() -> Vec<Sample> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut paths: Vec<(&'static Protocol, bool, PathBuf)> = Vec::new();
    for protocol in TABLE.iter().copied() {
        for case in folders(&data("protocol").join(protocol.name)) {
            let inputs = fs::read_dir(&case).expect("readable").map(|entry| entry.expect("readable").path());
            let inputs = inputs.filter(|path| path.file_stem().is_some_and(|stem| stem == "input"));
            paths.extend(inputs.map(|path| (protocol, true, path)));
        }
    }
    if let Some(corpus) = shared::find("corpus") {
        let index = fs::read_to_string(corpus.join("INDEX.jsonl")).expect("an index");
        for line in index.lines() {
            let row: Value = serde_json::from_str(line).expect("an index row");
            if let Some(protocol) = row["protocol"].as_str().and_then(Protocol::named) {
                paths.push((protocol, false, corpus.join(row["file"].as_str().expect("a file name"))));
            }
        }
    }
    let sample = |(protocol, is_own, path): (&'static Protocol, bool, PathBuf)| Sample {
        title: format!("{}: {}", protocol.name, path.display()),
        protocol,
        is_own,
        bytes: fs::read(&path).expect("readable"),
    };
    paths.into_iter().map(sample).filter(|sample| sample.title.contains(&only)).collect()
}

fn protocol(wire: &Wire) -> &'static Protocol {
    Protocol::named(wire.name).expect("a protocol of that name")
}

fn encode(wire: &Wire, events: &[Event<'static>]) -> Vec<u8> {
    let mut encoder = protocol(wire).encoder(&options(wire)).expect("a protocol that is written");
    let mut out = Vec::new();
    for event in events {
        encoder.encode(event, &mut out);
    }
    out
}

/// Encodes while the input is decoded, cut so: every delta as it comes.
fn encode_cut(wire: &Wire, sample: &Sample, cuts: &[usize]) -> Vec<u8> {
    let mut encoder = protocol(wire).encoder(&options(wire)).expect("a protocol that is written");
    let mut decoder = Decoder::new(sample.protocol);
    let mut out = Vec::new();
    let mut sink = |event: Event<'_>| encoder.encode(&event, &mut out);
    let mut from = 0;
    for &cut in cuts.iter().chain([&sample.bytes.len()]) {
        if decoder.push(&sample.bytes[from..cut], &mut sink).is_err() {
            break;
        }
        from = cut;
    }
    // Damage is the same however the input is cut.
    let _ = decoder.finish(&mut sink);
    out
}

/// What a client must get to see of the answer.
#[derive(Debug, PartialEq)]
struct Essence {
    /// What is refused is said.
    text: String,
    reasoning: String,
    /// What signs the thoughts.
    signatures: Vec<String>,
    calls: Vec<(String, String, Value)>,
    /// Input, output, read from a cache, written to one: what was not counted is 0.
    usage: [u64; 4],
    is_failed: bool,
}

fn essence(message: &Message) -> Essence {
    let choice = message.choices.first();
    let blocks = || choice.into_iter().flat_map(|choice| &choice.blocks);
    let text = blocks().filter_map(|block| match &block.content {
        Content::Text(text) | Content::Refusal(text) => Some(text.as_str()),
        _ => None,
    });
    let reasoning = blocks().filter_map(|block| match &block.content {
        Content::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let is_thought = |block: &&Block| matches!(block.content, Content::Reasoning { .. });
    let signatures = blocks().filter(is_thought).flat_map(|block| &block.attachments);
    let signatures = signatures.filter(|own| own.kind == AttachmentKind::Signature);
    let signatures = signatures.filter_map(|own| Some(own.value.to_text()?.into_owned()));
    let calls = blocks().filter_map(|block| match &block.content {
        Content::ToolCall(call) if call.kind != CallKind::Builtin => Some(call),
        _ => None,
    });
    let counters = message.usage.as_ref().map(|usage| usage.counters()).unwrap_or_default();
    // Some count more cached tokens than there were.
    let cached = counters.cached_tokens.min(counters.input_tokens.or(counters.cached_tokens));
    let usage = [counters.input_tokens, counters.output_tokens, cached, counters.cache_write_tokens];
    Essence {
        text: text.collect(),
        reasoning: reasoning.collect(),
        signatures: signatures.collect(),
        calls: calls.map(|call| (call.id.clone(), call.name.clone(), arguments(call))).collect(),
        usage: usage.map(Option::unwrap_or_default),
        is_failed: !message.errors.is_empty(),
    }
}

/// The arguments as clients are to understand them, however they are told: free text and what is no object in an object
/// of one member, what can be repaired repaired.
fn arguments(call: &ToolCall) -> Value {
    let text = match call.kind {
        CallKind::Custom => return json!({ "input": call.raw_arguments }),
        CallKind::Function | CallKind::Builtin => call.raw_arguments.trim_ascii(),
    };
    let value = serde_json::from_str(&repair(text).text).unwrap_or(Value::Null);
    let told = value.get("INVALID_JSON").and_then(Value::as_str).unwrap_or(text).trim_ascii();
    match serde_json::from_str(&repair(told).text) {
        _ if matches!(told, "" | "null") => json!({}),
        Ok(object @ Value::Object(_)) => object,
        _ => json!({ "INVALID_JSON": told }),
    }
}

/// Takes ids away that are not those of the original: one that several calls share is left to the first of them.
fn without_shared_ids(mut original: Essence, mut read: Essence) -> (Essence, Essence) {
    let ids: Vec<String> = original.calls.iter().map(|(id, ..)| id.clone()).collect();
    for calls in [&mut original.calls, &mut read.calls] {
        for (at, (id, ..)) in calls.iter_mut().enumerate() {
            if ids.get(at).is_some_and(|own| ids[..at].contains(own)) {
                id.clear();
            }
        }
    }
    (original, read)
}

fn is_truncated(message: &Message) -> bool {
    message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated)
}

fn ending(message: &Message) -> Ending {
    match () {
        () if !message.errors.is_empty() => Ending::Failed,
        () if is_truncated(message) => Ending::Truncated,
        () => Ending::Whole,
    }
}

/// Whether the wire says why the answer finished. What is read may be derived, so the word itself counts.
fn says_why(wire: &Wire, message: &Message, read: &Message) -> bool {
    let words = (wire.finish)(message.finish_reason().unwrap_or(FinishReason::Other));
    let said = read.choices.first().and_then(|choice| choice.finish.as_ref()?.raw.as_deref());
    !message.errors.is_empty() || said.is_some_and(|said| words.contains(&said))
}

/// A stream stays with what it began with: only a whole body can have what was corrected later.
fn is_changed(decoded: &Decoded) -> bool {
    let is_change = |event: &Event<'_>| matches!(event.body, Body::Correction { .. } | Body::Identity { .. });
    decoded.events.iter().any(is_change)
}

fn check(wire: &Wire, sample: &Sample, complaints: &mut Vec<String>) {
    let decoded = decode_cut(Some(sample.protocol), &sample.bytes, &[]);
    if decoded.error.is_some() {
        return;
    }
    let title = format!("{} in {}", sample.title, wire.name);
    let stream = encode(wire, &decoded.events);
    match (wire.walk)(&stream) {
        Ok(endings) => {
            let wanted: Vec<_> = decoded.messages.iter().map(ending).collect();
            if endings != wanted {
                complaints.push(format!("{title}: ends {endings:?}, not {wanted:?}"));
            }
        }
        Err(why) => complaints.push(format!("{title}: {why}\n{}", String::from_utf8_lossy(&stream))),
    }
    let again = decode_cut(Some(protocol(wire)), &stream, &[]);
    if again.messages.len() != decoded.messages.len() {
        complaints.push(format!("{title}: {} answers", again.messages.len()));
    }
    for (message, read) in decoded.messages.iter().zip(&again.messages) {
        let (one, mut other) = without_shared_ids(essence(message), essence(read));
        if is_truncated(message) && other.usage == [0; 4] {
            // Some wires count at the end only.
            other.usage = one.usage;
        }
        if !says_why(wire, message, read) {
            complaints
                .push(format!("{title}: finishes with {:?}", read.choices.first().map(|own| &own.finish)));
        }
        if one != other && !is_changed(&decoded) && !one.is_failed {
            complaints.push(format!("{title}: stream\n  {one:?}\n  {other:?}"));
        }
        let mut whole = Vec::new();
        protocol(wire).encode_whole(message, &options(wire), &mut whole);
        let body: Value = serde_json::from_slice(&whole).expect("JSON");
        match (wire.check_whole)(&body) {
            Ok(ending) if (ending == Ending::Failed) == (message.errors.is_empty()) => {
                complaints.push(format!("{title}: the whole body {ending:?} {body}"));
            }
            Ok(_) => {}
            Err(why) => complaints.push(format!("{title}: the whole body: {why} {body}")),
        }
        let read = decode_cut(Some(protocol(wire)), &whole, &[]);
        let (one, other) = without_shared_ids(essence(message), essence(&read.message));
        if !says_why(wire, message, &read.message) {
            complaints.push(format!("{title}: the whole body finishes otherwise: {body}"));
        }
        if one != other && !(one.is_failed && other.is_failed) {
            complaints.push(format!("{title}: whole\n  {one:?}\n  {other:?}\n  {body}"));
        }
    }
}

#[test]
fn every_answer_is_what_clients_expect() {
    let (mut complaints, mut count) = (Vec::new(), 0);
    for sample in samples() {
        for wire in WIRES {
            count += 1;
            check(wire, &sample, &mut complaints);
        }
    }
    assert!(count > 0, "nothing to write");
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

/// Whatever is missing at the end, what was written is well formed and does not say that it is complete.
#[test]
fn every_prefix_ends_as_clients_expect() {
    for sample in samples().iter().filter(|sample| sample.is_own) {
        let step = (sample.bytes.len() / 24).max(1);
        for end in (0..sample.bytes.len()).step_by(step) {
            let decoded = decode_cut(Some(sample.protocol), &sample.bytes[..end], &[]);
            if decoded.error.is_some() {
                continue;
            }
            // Of which of two answers the end is missing is told after the first has ended.
            let mut wanted: Vec<_> = decoded.messages.iter().map(ending).collect();
            wanted.sort();
            for wire in WIRES {
                let title = format!("{} up to {end} in {}", sample.title, wire.name);
                let mut endings = (wire.walk)(&encode(wire, &decoded.events))
                    .unwrap_or_else(|why| panic!("{title}: {why}"));
                endings.sort();
                assert_eq!(endings, wanted, "{title}");
            }
        }
    }
}

/// However the input is cut, the output says the same.
#[test]
fn cuts_of_the_input_do_not_show() {
    for sample in samples().iter().filter(|sample| sample.is_own) {
        for wire in WIRES {
            let told = |cuts: &[usize]| {
                let written = encode_cut(wire, sample, cuts);
                let mut events = decode_cut(Some(protocol(wire)), &written, &[]).events;
                // They say at which byte.
                events.retain(|event| !matches!(event.body, Body::Notice(_)));
                events
            };
            let wanted = told(&[]);
            for cuts in cut_lists(sample.bytes.len(), 4) {
                assert_eq!(told(&cuts), wanted, "{} in {} cut at {cuts:?}", sample.title, wire.name);
            }
        }
    }
}

/// The first block flows as it comes; what grows beside it comes in one piece when its turn has come.
#[test]
fn interleaved_blocks_wait_for_their_turn_and_the_first_flows() {
    let chat = Protocol::named("openai-chat").expect("a protocol of that name");
    let call = |index: u32, name: &str, arguments: &str| {
        let mut function = json!({ "arguments": arguments });
        let mut call = json!({ "index": index });
        if !name.is_empty() {
            function["name"] = name.into();
            call["id"] = format!("call_{index}").into();
        }
        call["function"] = function;
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
        format!("data: {chunk}\n\n")
    };
    for wire in WIRES {
        let mut decoder = Decoder::new(chat);
        let mut encoder = protocol(wire).encoder(&options(wire)).expect("a protocol that is written");
        let mut all = Vec::new();
        let mut told = |input: &str| {
            let before = all.len();
            let mut sink = |event: Event<'_>| encoder.encode(&event, &mut all);
            decoder.push(input.as_bytes(), &mut sink).expect("no limit");
            all.len() > before
        };
        assert!(told(&call(0, "f", "{\"a\":")), "{}: the first flows", wire.name);
        assert!(!told(&call(1, "g", "{\"b\":")), "{}: the second waits", wire.name);
        assert!(told(&call(0, "", "1")), "{}: the first flows on", wire.name);
        assert!(!told(&call(1, "", "2}")), "{}: the second still waits", wire.name);
        assert!(told(&call(0, "", "}")), "{}: the first ends", wire.name);
        assert!(told("data: [DONE]\n\n"), "{}: the second has its turn", wire.name);
        assert_eq!((wire.walk)(&all), Ok(vec![Ending::Whole]));
        let read = essence(&decode_cut(Some(protocol(wire)), &all, &[]).message);
        let calls = [("call_0", "f", json!({ "a": 1 })), ("call_1", "g", json!({ "b": 2 }))];
        assert_eq!(read.calls, calls.map(|(id, name, given)| (id.to_owned(), name.to_owned(), given)));
    }
}
