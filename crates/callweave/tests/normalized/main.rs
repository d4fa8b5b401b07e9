//! The output in normalized mode is what clients expect, whatever protocol the response came in.
//!
//! Every own case and, where it is at hand, every recording of *every* protocol is written in each protocol that is
//! written, streamed and complete. The output obeys the grammar of its wire, as strict as its strictest client
//! ([`WIRES`]), and read again it says what the response said, but for the losses that the encoder names
//! ([`translation`]). This also holds for every prefix of the input, and for every split.

mod anthropic_messages;
mod bedrock_converse;
mod bedrock_invoke;
mod cohere;
#[path = "../support/cores.rs"]
mod cores;
#[path = "../support/document.rs"]
mod document;
mod features;
mod gemini;
#[path = "../laws/mod.rs"]
mod laws;
mod ollama;
mod openai_chat;
mod openai_responses;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/shared.rs"]
mod shared;
mod table;
mod translation;

use callweave::encode::EncodeOptions;
use callweave::event::{Event, EventKind, FinishReason, NoticeCode};
use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::Loss;
use cores::each;
use features::features;
use laws::{cut_lists, decode_truncated};
use samples::{Sample, samples};
use serde_json::{Value, json};
use translation::{differing, names};

/// The end of a written response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Whole,
    Truncated,
    Failed,
}

/// The moment at which a response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// With its last word.
    End,
    /// With the reason to finish.
    Reason,
    /// With the reasons of all choices.
    AllReasons,
}

/// The form of calls that grow side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// Each comes complete, when it is over.
    Whole,
    /// In pieces, one after the other.
    InTurns,
    /// In pieces, as they come: they have numbers.
    AtOnce,
}

/// A wire, as its clients read it.
struct Wire {
    name: &'static str,
    /// The model that is asked for.
    model: &'static str,
    /// Reads the stream of one response as the strictest client would; returns its end.
    walk: fn(&[u8]) -> Result<Ending, String>,
    /// Whether the complete body is one that clients accept; whether it reports a failure.
    check_whole: fn(&Value) -> Result<Ending, String>,
    /// The words for a reason to finish.
    finish: fn(FinishReason) -> &'static [&'static str],
    /// The moment at which a response is complete, even if more was to come.
    over: Over,
    /// The form of calls that grow side by side.
    calls: Calls,
}

const WIRES: &[Wire] = &[
    anthropic_messages::WIRE,
    bedrock_converse::WIRE,
    bedrock_invoke::WIRE,
    cohere::WIRE,
    gemini::WIRE,
    ollama::WIRE,
    openai_chat::WIRE,
    openai_responses::WIRE,
];

/// One response, written as a stream.
struct Streamed {
    bytes: Vec<u8>,
    losses: Vec<Loss>,
    /// The expected end.
    ending: Ending,
}

impl Wire {
    fn protocol(&self) -> &'static Protocol {
        Protocol::named(self.name).expect("a protocol of that name")
    }

    fn options(&self) -> EncodeOptions {
        EncodeOptions::normalized().id("made").model(self.model).created(1_700_000_000)
    }

    /// Each response as a stream.
    fn streams(&self, events: &[Event<'static>]) -> Vec<Streamed> {
        let mut encoder = self.protocol().encoder(&self.options()).expect("a protocol that is written");
        let (mut streams, mut bytes) = (Vec::new(), Vec::new());
        let (mut is_truncated, mut has_failed, mut reasons) = (false, false, Vec::new());
        for event in events {
            encoder.encode(event, &mut bytes);
            match &event.body {
                EventKind::Start { .. } => (has_failed, reasons) = (false, Vec::new()),
                // That may be before the response begins.
                EventKind::Notice(notice) => is_truncated |= notice.code == NoticeCode::Truncated,
                EventKind::Error(_) => has_failed = true,
                EventKind::ChoiceStart => reasons.push((event.choice, FinishReason::Other)),
                EventKind::Finish { reason, .. } => {
                    let own = reasons.iter_mut().find(|(choice, _)| *choice == event.choice);
                    own.expect("a choice that has begun").1 = *reason;
                }
                EventKind::End => {
                    let mut said = reasons.iter().map(|(_, reason)| *reason != FinishReason::Other);
                    let is_over = match self.over {
                        Over::End => false,
                        Over::Reason => said.next().unwrap_or(false),
                        Over::AllReasons => !reasons.is_empty() && said.all(|is_said| is_said),
                    };
                    let ending = match () {
                        () if has_failed => Ending::Failed,
                        () if is_truncated && !is_over => Ending::Truncated,
                        () => Ending::Whole,
                    };
                    is_truncated = false;
                    let losses = encoder.losses().to_vec();
                    streams.push(Streamed { bytes: std::mem::take(&mut bytes), losses, ending });
                }
                _ => {}
            }
        }
        assert!(bytes.is_empty(), "nothing follows the end");
        streams
    }

    /// Returns the faults of the output for one response.
    fn faults(&self, stream: &Streamed, message: &Message) -> Vec<String> {
        let mut faults = Vec::new();
        match (self.walk)(&stream.bytes) {
            Ok(ending) if ending != stream.ending => {
                faults.push(format!("the stream ends {ending:?}, not {:?}", stream.ending));
            }
            Ok(_) => {}
            // Emitted text cannot be taken back.
            Err(_) if names(&stream.losses).contains("correction of what a stream has told") => {}
            Err(why) => faults.push(format!("the stream: {why}")),
        }
        let mut whole = Vec::new();
        assert!(self.protocol().encode_body(message, &self.options(), &mut whole), "it is written");
        match serde_json::from_slice(&whole)
            .map_err(|error| error.to_string())
            .and_then(|body| (self.check_whole)(&body))
        {
            Ok(ending) if (ending == Ending::Failed) == message.errors.is_empty() => {
                faults.push(format!("the whole body {ending:?}"));
            }
            Ok(_) => {}
            Err(why) => faults.push(format!("the whole body: {why}")),
        }
        let losses = self.protocol().losses(message, &self.options());
        for (form, bytes, losses) in [("stream", &stream.bytes, &stream.losses), ("whole", &whole, &losses)] {
            let read = decode_truncated(Some(self.protocol()), bytes, &[]).message;
            let is_own = message.wire_type == read.wire_type;
            let [one, other] = [message, &read].map(|message| features(message, is_own));
            let mut losses = names(losses);
            // Arguments that only one wire writes as an object are closed.
            if is_own && losses.contains("cut of a call") {
                losses.insert("calls".to_owned());
            }
            // A response that broke off has no other word than that of a limit, after which an object may have been
            // truncated.
            let is_length = |message: &Message| message.finish_reason() == Some(FinishReason::Length);
            if stream.ending == Ending::Truncated && is_length(&read) && !is_length(message) {
                losses.insert("cut of a call".to_owned());
            }
            let differing = differing(&one, &other, &losses);
            faults.extend(differing.into_iter().map(|fault| format!("{form}: {fault}")));
            if !self.says_why(message, &read, stream.ending) {
                let finish = read.first().map(|choice| &choice.finish);
                faults.push(format!("{form}: finishes with {finish:?} for {:?}", message.finish_reason()));
            }
        }
        if !faults.is_empty() {
            let [stream, whole] =
                [&stream.bytes, &whole].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            faults.push(format!("{stream}\n{whole}"));
        }
        faults
    }

    /// Whether the wire says why the response finished. The decoded reason may be derived, so the word itself counts.
    fn says_why(&self, message: &Message, read: &Message, ending: Ending) -> bool {
        let words = (self.finish)(message.finish_reason().unwrap_or(FinishReason::Other));
        let said = read.first().and_then(|choice| choice.finish.as_ref()?.raw.as_deref());
        match said {
            _ if ending == Ending::Failed => true,
            Some(said) => {
                let is_truncated =
                    ending == Ending::Truncated && (self.finish)(FinishReason::Other).contains(&said);
                is_truncated || words.contains(&said)
            }
            // A truncated response need not say so, and an empty one says nothing.
            None => ending == Ending::Truncated || words.is_empty(),
        }
    }
}

/// Checks what becomes of an input in every protocol.
fn check(title: &str, protocol: &'static Protocol, bytes: &[u8], complaints: &mut Vec<String>) -> usize {
    let decoded = decode_truncated(Some(protocol), bytes, &[]);
    if decoded.error.is_some() {
        return 0;
    }
    let mut count = 0;
    for wire in WIRES {
        let streams = wire.streams(&decoded.events);
        assert_eq!(streams.len(), decoded.messages.len(), "{title} in {}", wire.name);
        for (stream, message) in streams.iter().zip(&decoded.messages) {
            count += 1;
            let faults = wire.faults(stream, message);
            if !faults.is_empty() {
                complaints.push(format!(
                    "{title} ({} bytes) in {}: {}",
                    bytes.len(),
                    wire.name,
                    faults.join("\n  ")
                ));
            }
        }
    }
    count
}

#[test]
fn every_answer_is_what_clients_expect() {
    let (mut complaints, mut count) = (Vec::new(), 0);
    for Sample { title, protocol, bytes, .. } in &samples() {
        count += check(title, protocol, bytes, &mut complaints);
    }
    assert!(count > 0, "nothing to write");
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

/// The output for a truncated input is well formed and does not say that it is complete.
#[test]
fn every_prefix_is_what_clients_expect() {
    let mut samples = samples();
    samples.retain(|sample| sample.is_own);
    let found = each(&samples, |Sample { title, protocol, bytes, .. }| {
        let (mut complaints, mut count) = (Vec::new(), 0);
        for end in (0..bytes.len()).step_by((bytes.len() / 12).max(1)) {
            count += check(title, protocol, &bytes[..end], &mut complaints);
        }
        (complaints, count)
    });
    let count: usize = found.iter().map(|(_, count)| count).sum();
    let complaints: Vec<String> = found.into_iter().flat_map(|(complaints, _)| complaints).collect();
    assert!(count > 0, "nothing to write");
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

/// The output is the same for every split of the input.
#[test]
fn cuts_of_the_input_do_not_show() {
    for sample in samples().iter().filter(|sample| sample.is_own) {
        let wanted = encoded(sample, &[]);
        for cuts in cut_lists(sample.bytes.len(), 4) {
            for ((wire, told), wanted) in WIRES.iter().zip(encoded(sample, &cuts)).zip(&wanted) {
                assert_eq!(told, *wanted, "{} in {} cut at {cuts:?}", sample.title, wire.name);
            }
        }
    }
}

/// Returns the events in each wire that was written while the input was decoded, split at `cuts`: every delta as it
/// comes.
fn encoded(sample: &Sample, cuts: &[usize]) -> Vec<Vec<Event<'static>>> {
    let encoder = |wire: &Wire| wire.protocol().encoder(&wire.options()).expect("a protocol that is written");
    let mut written: Vec<_> = WIRES.iter().map(|wire| (encoder(wire), Vec::new())).collect();
    let mut decoder = Decoder::new(sample.protocol);
    let mut sink = |event: Event<'_>| {
        for (encoder, out) in &mut written {
            encoder.encode(&event, out);
        }
    };
    let mut from = 0;
    for &cut in cuts.iter().chain([&sample.bytes.len()]) {
        if decoder.push(&sample.bytes[from..cut], &mut sink).is_err() {
            break;
        }
        from = cut;
    }
    // Damage is the same for every split of the input.
    let _ = decoder.finish(&mut sink);
    let told = WIRES.iter().zip(&written).map(|(wire, (_, out))| {
        let mut events = decode_truncated(Some(wire.protocol()), out, &[]).events;
        // They say at which byte.
        events.retain(|event| !matches!(event.body, EventKind::Notice(_)));
        events
    });
    told.collect()
}

/// The first call flows as it comes; a call that grows beside it comes in one piece when its turn has come, unless its
/// clients can read both at once.
#[test]
fn interleaved_calls_wait_for_their_turn_and_the_first_flows() {
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
        let mut decoder = Decoder::new(openai_chat::WIRE.protocol());
        let mut encoder = wire.protocol().encoder(&wire.options()).expect("a protocol that is written");
        let mut all = Vec::new();
        let mut told = |input: &str| {
            let before = all.len();
            let mut sink = |event: Event<'_>| encoder.encode(&event, &mut all);
            decoder.push(input.as_bytes(), &mut sink).expect("no limit");
            all.len() > before
        };
        let (is_complete, is_numbered) = (wire.calls == Calls::Whole, wire.calls == Calls::AtOnce);
        assert_eq!(told(&call(0, "f", "{\"a\":")), !is_complete, "{}: the first flows", wire.name);
        assert_eq!(told(&call(1, "g", "{\"b\":")), is_numbered, "{}: the second waits", wire.name);
        assert_eq!(told(&call(0, "", "1")), !is_complete, "{}: the first flows on", wire.name);
        assert_eq!(told(&call(1, "", "2}")), is_numbered, "{}: the second still waits", wire.name);
        assert_eq!(told(&call(0, "", "}")), !is_complete, "{}: the first ends", wire.name);
        assert!(told("data: [DONE]\n\n"), "{}: the second has its turn", wire.name);
        assert_eq!((wire.walk)(&all), Ok(Ending::Whole), "{}", wire.name);
        let read = features(&decode_truncated(Some(wire.protocol()), &all, &[]).message, false);
        assert_eq!(read["calls"], json!([["call_0", "f", { "a": 1 }], ["call_1", "g", { "b": 2 }]]));
    }
}

#[test]
fn every_protocol_that_is_written_is_in_the_table() {
    let written = TABLE.iter().filter(|protocol| protocol.is_written()).count();
    assert_eq!(WIRES.iter().filter(|wire| wire.protocol().is_written()).count(), written);
}
