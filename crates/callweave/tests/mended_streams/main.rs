//! What is written in mended mode is what clients of that protocol expect, whatever protocol the answer came in: every
//! own case and recording of every protocol goes through, streamed and whole. What is written obeys the grammar of its
//! wire, and read back it is the same message, as far as the wire can say it.

#[path = "../laws/mod.rs"]
mod laws;
#[path = "../support/shared.rs"]
mod shared;

mod cohere;
mod gemini;
mod ollama;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use callweave::encode::EncodeOptions;
use callweave::event::{Body, CallKind, Completion, Counters, Event, FinishReason, NoticeCode};
use callweave::json::repair::{Verdict, repair};
use callweave::message::{Choice, Content, Message, ToolCall};
use callweave::protocol::{Protocol, TABLE};
use laws::{Decoded, data, decode_cut, folders};
use serde_json::{Value, json};

/// A wire that is written, and what a client of it knows.
struct Wire {
    protocol: &'static str,
    /// Walks a stream as a strict client does.
    walk: fn(&str, &Told) -> Result<(), String>,
    /// Takes away what the wire has no words for.
    soften: fn(&mut Essence, &Told),
    /// Whether it can tell several choices.
    has_choices: bool,
    /// Whether arguments are objects, not texts.
    has_objects: bool,
}

const WIRES: &[Wire] = &[cohere::WIRE, gemini::WIRE, ollama::WIRE];

/// How the answer ended.
struct Told {
    has_failed: bool,
    /// Whether it was cut off before it was finished.
    is_truncated: bool,
}

/// What a client must get to see of a choice.
#[derive(Debug, PartialEq)]
struct Essence {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    finish: Option<FinishReason>,
    usage: Counters,
}

#[derive(Debug, PartialEq)]
struct Call {
    id: String,
    name: String,
    arguments: Value,
    is_cut: bool,
}

impl Essence {
    fn of(message: &Message, choice: &Choice, arguments: fn(&ToolCall) -> Value) -> Self {
        let mut text = String::new();
        for block in &choice.blocks {
            // A refusal is what the client gets to read.
            if let Content::Text(own) | Content::Refusal(own) = &block.content {
                text.push_str(own);
            }
        }
        let calls = choice.tool_calls().filter(|call| call.kind != CallKind::Builtin);
        let calls = calls.map(|call| Call {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: arguments(call),
            is_cut: call.completion == Completion::Cut,
        });
        let mut usage = message.usage.as_ref().map(|usage| usage.counters()).unwrap_or_default();
        // What was not counted is 0.
        for count in [
            &mut usage.input_tokens,
            &mut usage.output_tokens,
            &mut usage.total_tokens,
            &mut usage.cached_tokens,
            &mut usage.cache_write_tokens,
            &mut usage.reasoning_tokens,
        ] {
            *count = count.filter(|count| *count > 0);
        }
        let finish = choice.finish.as_ref().map(|finish| finish.reason);
        Self { text, reasoning: choice.reasoning().into_owned(), calls: calls.collect(), finish, usage }
    }
}

/// The arguments as they are.
fn by_value(call: &ToolCall) -> Value {
    serde_json::from_str(call.arguments()).unwrap_or_else(|_| call.arguments().into())
}

/// The arguments as a client gets them where the wire wants JSON text.
fn as_text(call: &ToolCall) -> Value {
    match call.kind {
        CallKind::Custom => {
            let object = json!({ "input": call.raw_arguments });
            match call.completion {
                Completion::Cut if call.raw_arguments.is_empty() => "".into(),
                // It ends where the text ends.
                Completion::Cut => object.to_string().trim_end_matches("\"}").into(),
                Completion::Whole => object,
            }
        }
        _ => by_value(call),
    }
}

/// The arguments as a client gets them where the wire wants an object.
fn as_object(call: &ToolCall) -> Value {
    let text = call.arguments();
    let object = |text: &str| serde_json::from_str(text).ok().filter(Value::is_object);
    let invalid = || json!({ "INVALID_JSON": text });
    match (call.completion, call.kind) {
        (Completion::Cut, _) => invalid(),
        (_, CallKind::Custom) => json!({ "input": text }),
        _ => object(text).unwrap_or_else(|| {
            let repaired = repair(text);
            let is_repaired = repaired.verdict == Verdict::Repaired;
            object(&repaired.text).filter(|_| is_repaired).unwrap_or_else(invalid)
        }),
    }
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

fn options() -> EncodeOptions {
    EncodeOptions::mended().id("made").model("m").created(1_700_000_000)
}

impl Wire {
    fn protocol(&self) -> &'static Protocol {
        Protocol::named(self.protocol).expect("a protocol of that name")
    }

    /// The bytes of each answer, and whether it was cut off before its first choice was finished.
    fn streams(&self, events: &[Event<'static>]) -> Vec<(String, bool)> {
        let mut encoder = self.protocol().encoder(&options()).expect("a protocol that is written");
        let (mut streams, mut stream) = (Vec::new(), Vec::new());
        let (mut is_noticed, mut is_truncated, mut first) = (false, false, None);
        for event in events {
            encoder.encode(event, &mut stream);
            match &event.body {
                // That may be before the answer begins.
                Body::Notice(notice) => is_noticed |= notice.code == NoticeCode::Truncated,
                Body::ChoiceStart => first = first.or(Some(event.choice)),
                Body::Finish { reason, .. } if first == Some(event.choice) => {
                    is_truncated = is_noticed && *reason == FinishReason::Other;
                }
                Body::End => {
                    let text = String::from_utf8(std::mem::take(&mut stream)).expect("UTF-8");
                    streams.push((text, is_truncated));
                    (is_noticed, first) = (false, None);
                }
                _ => {}
            }
        }
        assert!(stream.is_empty(), "nothing follows the end");
        streams
    }

    /// What is wrong with one answer.
    fn check(
        &self,
        (stream, is_truncated): &(String, bool),
        message: &Message,
        decoded: &Decoded,
    ) -> Vec<String> {
        let told = Told { has_failed: !message.errors.is_empty(), is_truncated: *is_truncated };
        let is_renamed = is_renamed(decoded);
        let mut faults: Vec<String> = (self.walk)(stream, &told).err().into_iter().collect();
        let mut whole = Vec::new();
        assert!(self.protocol().encode_whole(message, &options(), &mut whole), "a protocol that is written");
        if let Err(error) = serde_json::from_slice::<Value>(&whole) {
            faults.push(format!("the whole body is not JSON: {error}"));
        }
        for (form, bytes) in [("stream", stream.as_bytes()), ("whole", &whole)] {
            let again = decode_cut(Some(self.protocol()), bytes, &[]);
            let read = &again.message;
            let first = message.first().map(|choice| choice.number);
            for choice in
                message.choices.iter().filter(|choice| self.has_choices || Some(choice.number) == first)
            {
                let number = if self.has_choices { choice.number } else { 0 };
                let [mut one, mut other] = [
                    Some(Essence::of(message, choice, if self.has_objects { as_object } else { as_text })),
                    read.choice(number).map(|choice| Essence::of(read, choice, by_value)),
                ];
                // An id that several calls share is left to the first of them.
                let ids: BTreeSet<_> = choice.tool_calls().map(|call| &call.id).collect();
                let is_unique = ids.len() == choice.tool_calls().count();
                let is_answered = choice.tool_results().any(|result| {
                    choice
                        .tool_calls()
                        .any(|call| call.kind != CallKind::Builtin && Some(&call.id) == result.call.as_ref())
                });
                for essence in [&mut one, &mut other].into_iter().flatten() {
                    (self.soften)(essence, &told);
                    if is_renamed || !is_unique {
                        essence.calls.iter_mut().for_each(|call| call.id.clear());
                    }
                    // These wires have no results, so that such a call waits for one.
                    if is_answered {
                        essence.finish = None;
                    }
                }
                // Nothing can be said of a call without a name.
                let is_nameless = choice.tool_calls().any(|call| call.name.is_empty());
                // A stream of text has told arguments that are JSON only by chance when that is known.
                let is_chance = |call: &ToolCall| {
                    let is_json = serde_json::from_str::<Value>(&call.raw_arguments).is_ok();
                    call.completion == Completion::Cut && is_json && !self.has_objects
                };
                let is_unsaid = is_nameless || choice.tool_calls().any(is_chance);
                if one != other && !is_unsaid {
                    faults.push(format!(
                        "{form}\n  {one:?}\n  {other:?}\n  {}",
                        String::from_utf8_lossy(bytes)
                    ));
                }
            }
            if told.has_failed == read.errors.is_empty() {
                faults.push(format!("{form}: failed {}, read as {:?}", told.has_failed, read.errors));
            }
            let must_be_cut = told.is_truncated && (form == "stream" || is_cut(message));
            if must_be_cut && !told.has_failed && !is_cut(read) {
                faults.push(format!("{form}: passed off as whole"));
            }
        }
        faults
    }
}

fn is_cut(message: &Message) -> bool {
    message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated)
}

/// Texts that a closing restatement corrects cannot be taken back.
fn is_corrected(decoded: &Decoded) -> bool {
    decoded.events.iter().any(|event| matches!(event.body, Body::Correction { .. }))
}

/// What a wire cannot say.
const ASIDE: &[(&str, &str, &str)] = &[(
    "gemini-generatecontent",
    "whole-blocked-prompt",
    "a prompt is blocked however much of the reason has come",
)];

fn is_aside(wire: &Wire, title: &str) -> bool {
    ASIDE.iter().any(|(protocol, case, _)| wire.protocol == *protocol && title.contains(case))
}

fn is_renamed(decoded: &Decoded) -> bool {
    decoded.events.iter().any(|event| matches!(event.body, Body::Identity { .. }))
}

fn run(wire: &Wire) {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut complaints = Vec::new();
    let mut count = 0;
    for (protocol, path) in samples() {
        let title = format!("{}: {}", protocol.name, path.display());
        if !title.contains(&only) {
            continue;
        }
        let decoded = decode_cut(Some(protocol), &fs::read(&path).expect("readable"), &[]);
        if decoded.error.is_some() || is_corrected(&decoded) {
            continue;
        }
        count += 1;
        let streams = wire.streams(&decoded.events);
        assert_eq!(streams.len(), decoded.messages.len(), "{title}");
        for (stream, message) in streams.iter().zip(&decoded.messages) {
            let faults = wire.check(stream, message, &decoded);
            complaints.extend(faults.into_iter().map(|fault| format!("{title}: {fault}")));
        }
    }
    assert!(count > 0, "nothing to write");
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

/// Whatever is missing at the end, what was written is well formed and is not passed off as whole.
fn run_prefixes(wire: &Wire) {
    for (protocol, path) in samples().into_iter().filter(|(_, path)| path.starts_with(data("protocol"))) {
        let bytes = fs::read(&path).expect("readable");
        let step = (bytes.len() / 16).max(1);
        for end in (0..bytes.len()).step_by(step) {
            let decoded = decode_cut(Some(protocol), &bytes[..end], &[]);
            if decoded.error.is_some() || is_corrected(&decoded) || is_aside(wire, &path.to_string_lossy()) {
                continue;
            }
            for (stream, message) in wire.streams(&decoded.events).iter().zip(&decoded.messages) {
                let faults = wire.check(stream, message, &decoded);
                assert!(faults.is_empty(), "{}: {end}: {faults:#?}", path.display());
            }
        }
    }
}

/// However the input is cut, the same bytes are written, deltas apart: read back they are the same events.
fn run_splits(wire: &Wire) {
    for (protocol, path) in samples().into_iter().filter(|(_, path)| path.starts_with(data("protocol"))) {
        let bytes = fs::read(&path).expect("readable");
        let written = |cuts: &[usize]| {
            let mut decoder = callweave::pipeline::Decoder::new(protocol);
            let mut encoder = wire.protocol().encoder(&options()).expect("a protocol that is written");
            let mut out = Vec::new();
            let mut from = 0;
            for &cut in cuts.iter().chain([&bytes.len()]) {
                let sink = &mut |event: Event<'_>| encoder.encode(&event, &mut out);
                if decoder.push(&bytes[from..cut], sink).is_err() {
                    return None;
                }
                from = cut;
            }
            decoder.finish(&mut |event: Event<'_>| encoder.encode(&event, &mut out)).ok()?;
            Some(decode_cut(Some(wire.protocol()), &out, &[]).events)
        };
        let whole = written(&[]);
        for cuts in laws::cut_lists(bytes.len(), 6) {
            assert_eq!(written(&cuts), whole, "{}: {:?}…", path.display(), &cuts[..cuts.len().min(8)]);
        }
    }
}

macro_rules! laws_of {
    ($($wire:ident),*) => {$(
        mod $wire {
            #[test]
            fn every_answer_is_what_clients_expect() {
                super::super::run(&super::super::$wire::WIRE);
            }

            #[test]
            fn every_prefix_is_what_clients_expect() {
                super::super::run_prefixes(&super::super::$wire::WIRE);
            }

            #[test]
            fn any_split_is_written_alike() {
                super::super::run_splits(&super::super::$wire::WIRE);
            }
        }
    )*};
}

mod written {
    laws_of!(cohere, gemini, ollama);
}

#[test]
fn every_wire_is_in_the_table() {
    assert!(WIRES.iter().all(|wire| wire.protocol().is_written()));
}
