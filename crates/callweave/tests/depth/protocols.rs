//! Every row of the table of protocols, nested at every place of every frame of its own cases.

use std::collections::BTreeSet;
use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::{Event, Sink};
use callweave::fragment::Fragment;
use callweave::framing::{Frame, FrameKind, Framer, StreamLimits};
use callweave::grammar::EventValidator;
use callweave::json::Tape;
use callweave::message::Message;
use callweave::pipeline::{Decoder, FrameDecoder};
use callweave::protocol::{Protocol, ProtocolFrame, TABLE};
use serde_json::Value;

use super::laws::{data, folders};
use super::nesting::{Step, around, nested, nestings, places, shape};
use super::{NEEDLE, STACK, STACK_OF_A_DECODER, levels, on_a_stack_of};

#[derive(Clone)]
struct Framed {
    event: Option<String>,
    data: String,
    kind: FrameKind,
}

/// The frames of every own case of a protocol.
fn cases(protocol: &Protocol) -> Vec<Vec<Framed>> {
    let mut cases = Vec::new();
    for case in folders(&data("protocol").join(protocol.name)) {
        let input = fs::read_dir(&case).expect("a case").map(|entry| entry.expect("an entry").path());
        let input = input.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == "input"));
        let bytes = fs::read(input.expect("an input")).expect("a readable input");
        let mut frames = Vec::new();
        let mut framer = Framer::detect(StreamLimits::default());
        let mut keep = |frame: Frame<'_>| {
            let Frame { event, data, kind, .. } = frame;
            frames.push(Framed { event: event.map(Into::into), data: data.to_owned(), kind });
        };
        let _ = framer.push(&bytes, &mut keep);
        let _ = framer.finish(&mut keep);
        cases.push(frames);
    }
    cases
}

/// Decodes `frames`: the events, and the message that they amount to. None where the protocol could not be detected,
/// which is an error.
fn decode(mut decoder: FrameDecoder, frames: &[Framed]) -> Option<(Vec<Event<'static>>, Message)> {
    let (mut accumulator, mut validator) = (Accumulator::new(), EventValidator::new());
    let mut events = Vec::new();
    let mut sink = |event: Event<'_>| {
        validator.put(event.clone());
        accumulator.put(event.clone());
        events.push(event.into_owned());
    };
    for (offset, Framed { event, data, kind }) in (0..).zip(frames) {
        let event = event.as_deref();
        decoder.push(
            &Frame { event, data, id: None, offset, data_offset: None, kind: *kind, is_lossy: false },
            &mut sink,
        );
    }
    let is_known = decoder.finish(&mut sink).is_ok();
    assert_eq!(validator.faults(), [""; 0]);
    is_known.then(|| (events, accumulator.take()))
}

/// Writes it in the same protocol, if that is written: as deep as it is.
fn write(protocol: &Protocol, events: &[Event<'static>], message: &Message) {
    for options in [EncodeOptions::lossless(), EncodeOptions::normalized()] {
        let Some(mut encoder) = protocol.encoder(&options) else { return };
        let mut out = Vec::new();
        events.iter().for_each(|event| encoder.encode(event, &mut out));
        assert!(protocol.encode_body(message, &options, &mut out));
    }
}

/// Whether the needle is found in the events, and in the message.
fn told(protocol: &'static Protocol, frames: &[Framed]) -> Option<[bool; 2]> {
    let (events, message) = decode(FrameDecoder::new(protocol), frames)?;
    write(protocol, &events, &message);
    let written = serde_json::to_string(&message).expect("messages serialise");
    Some([format!("{events:?}"), written].map(|text| text.contains(NEEDLE)))
}

/// Whether the needle is found in what the protocol says of a frame, and what detection takes it for.
fn said(protocol: &'static Protocol, frame: &Framed) -> (bool, Option<&'static Protocol>) {
    let mut tape = Tape::new();
    let value = tape.parse(&frame.data).expect("nested JSON is JSON");
    let input = ProtocolFrame { event: frame.event.as_deref(), value };
    let mut is_found = false;
    protocol.decode(&input, &mut |fragment: Fragment<'_>| {
        is_found |= format!("{fragment:?}").contains(NEEDLE);
    });
    (is_found, Protocol::detect(&input))
}

/// A place is known by its last steps: content of many frames is read by the same code.
const KNOWN_BY: usize = 3;

/// Calls `check` with every kind of place there is in the own cases of a protocol: the frames of the case,
/// which of them it is, its JSON, and the place in it.
fn each_place(protocol: &Protocol, mut check: impl FnMut(&[Framed], usize, &Value, &[Step])) -> usize {
    let mut seen = BTreeSet::new();
    for frames in cases(protocol) {
        for (at, frame) in frames.iter().enumerate() {
            let Ok(value) = serde_json::from_str::<Value>(&frame.data) else { continue };
            for path in places(&value) {
                if seen.insert(shape(&path[path.len().saturating_sub(KNOWN_BY)..])) {
                    check(&frames, at, &value, &path);
                }
            }
        }
    }
    seen.len()
}

/// The frame with something nested at one of its places.
fn nest(frame: &Framed, value: &Value, path: &[Step], (open, close): (&str, &str), levels: usize) -> Framed {
    let (before, after) = around(value, path);
    let inside = nested(open, &format!("{{\"{NEEDLE}\":0}}"), close, levels);
    Framed { data: format!("{before}{inside}{after}"), ..frame.clone() }
}

/// Decoding and detection, nested in every way at every place. The result is that of a few levels: depth changes
/// nothing.
#[test]
fn every_place_of_every_frame() {
    for &protocol in TABLE {
        on_a_stack_of(STACK_OF_A_DECODER, move || {
            let mut count = 0;
            let places = each_place(protocol, |frames, at, value, path| {
                for (open, close) in nestings(value, path) {
                    let said =
                        |levels| said(protocol, &nest(&frames[at], value, path, (&open, &close), levels));
                    let place = || format!("{} of {}, nested in {open}", shape(path), frames[at].data);
                    assert_eq!(said(levels(&open)), said(2), "{}", place());
                    count += 1;
                }
            });
            println!("{}: {count} inputs, {places} places", protocol.name);
            assert!(places > 20 && count > 3 * places, "{}: {count} at {places} places", protocol.name);
        });
    }
}

/// The same through all stages, to the message and its JSON.
#[test]
fn every_place_to_the_message() {
    for &protocol in TABLE {
        on_a_stack_of(STACK, move || {
            each_place(protocol, |frames, at, value, path| {
                let told = |levels| {
                    let mut frames = frames.to_vec();
                    frames[at] = nest(&frames[at], value, path, ("[", "]"), levels);
                    told(protocol, &frames)
                };
                assert_eq!(told(5_000), told(2), "{} of {}", shape(path), frames[at].data);
            });
        });
    }
}

/// Complete inputs of nothing but depth, in every framing, under detection and as every protocol.
#[test]
fn nothing_but_depth() {
    const OPENERS: [(&str, &str); 5] =
        [("[", "]"), ("{\"a\":", "}"), ("{\"error\":", "}"), ("[{\"choices\":", "}]"), ("{\"chunk\":", "}")];
    on_a_stack_of(STACK, || {
        let decoders = || TABLE.iter().map(|&row| Decoder::new(row)).chain([Decoder::detect()]);
        for (open, close) in OPENERS {
            let whole = nested(open, "0", close, 20_000);
            let cut = open.repeat(20_000);
            for input in
                [whole.clone(), cut.clone(), format!("data: {whole}\n\n"), format!("data: {cut}\n\n")]
            {
                for mut decoder in decoders() {
                    let mut answer = Accumulator::new();
                    let pushed = decoder.push(input.as_bytes(), &mut answer);
                    let finished = decoder.finish(&mut answer);
                    let message = answer.take();
                    let is_told = pushed.and(finished).is_err()
                        || !message.notices.is_empty()
                        || !message.errors.is_empty()
                        || !message.extra.is_empty();
                    assert!(is_told, "{:?} lost {}", decoder.protocol(), &input[..40]);
                    serde_json::to_string(&message).expect("messages serialise");
                }
            }
        }
    });
}

/// Envelopes in envelopes: each level of base64 is a third longer, so there are few of them.
#[test]
fn envelopes_in_envelopes() {
    on_a_stack_of(STACK, || {
        let mut frame = format!("{{\"{NEEDLE}\":0}}");
        while frame.len() < 1 << 20 {
            frame = format!("{{\"chunk\":{{\"bytes\":\"{}\"}}}}", STANDARD.encode(&frame));
        }
        let frame = Framed { event: None, data: frame, kind: FrameKind::Data };
        let (_, message) = decode(FrameDecoder::detect(), &[frame]).expect("an envelope is known");
        assert!(message.choices.iter().any(|choice| !choice.blocks.is_empty()));
    });
}
