//! A delta that is read by the bytes around the one before gives the same events as a full reading.
//!
//! Every own case and, where it is at hand, every recording is written twice in each protocol and mode: as it is, and with
//! an event after every delta that no wire has a word for, so that the next one is written in full.

#[path = "support/cores.rs"]
mod cores;
mod laws;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/shared.rs"]
mod shared;

use callweave::encode::EncodeOptions;
use callweave::event::{Event, EventKind, JsonText, TokenCounts};
use callweave::framing::Framing;
use callweave::protocol::{Protocol, TABLE};
use cores::each;
use laws::decode_truncated;
use samples::samples;

/// The maximum part of a recording that is written.
const MAX: usize = if cfg!(debug_assertions) { 200 } else { 2_000 };
/// The number of pieces that a delta is split into.
const PIECES: usize = 4;

/// The same events with deltas in pieces, and token counts between two of them if they are wanted.
fn in_pieces(events: &[Event<'static>], has_counts: bool) -> Vec<Event<'static>> {
    let mut all = Vec::new();
    for event in events {
        let EventKind::Delta { block, kind, text } = &event.body else {
            all.push(event.clone());
            continue;
        };
        let mut rest = text.as_ref();
        for number in 1..=PIECES {
            let end = rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(if number == PIECES { rest.len() } else { end });
            if piece.is_empty() {
                break;
            }
            rest = after;
            if has_counts && number == 3 {
                let mut counters = TokenCounts::default();
                counters.output_tokens = Some(all.len() as u64);
                let raw = JsonText::from_value(&serde_json::json!({"output_tokens": all.len()}));
                all.push(Event::new(0, EventKind::Usage { wire_type: "usage".into(), counters, raw }));
            }
            let text = piece.to_owned().into();
            let body = EventKind::Delta { block: *block, kind: *kind, text };
            all.push(Event::new(event.choice, body).with_source(event.source));
        }
    }
    all
}

fn write(
    protocol: &Protocol,
    options: &EncodeOptions,
    events: &[Event<'_>],
    is_interrupted: bool,
) -> Vec<u8> {
    let mut encoder = protocol.encoder(options).expect("a protocol that is written");
    let mut out = Vec::new();
    for event in events {
        encoder.encode(event, &mut out);
        if is_interrupted && let EventKind::Delta { .. } = event.body {
            encoder.encode(&Event::new(event.choice, EventKind::Markup { text: "".into() }), &mut out);
        }
    }
    out
}

#[test]
fn a_delta_is_told_as_if_it_were_written_in_full() {
    let modes = [EncodeOptions::lossless(), EncodeOptions::normalized()];
    each(&samples(), |sample| {
        let mut events = decode_truncated(Some(sample.protocol), &sample.bytes, &[]).events;
        events.truncate(MAX);
        let [plain, counted] = [false, true].map(|has_counts| in_pieces(&events, has_counts));
        for written in TABLE.iter().copied().filter(|protocol| protocol.is_written()) {
            for options in modes.clone().map(|options| options.model("anthropic.m")) {
                let as_list = options.clone().framing(Framing::JsonValues);
                for (options, events) in [(&options, &plain), (&options, &counted), (&as_list, &plain)] {
                    let [told, in_full] =
                        [false, true].map(|is_interrupted| write(written, options, events, is_interrupted));
                    let differs = || told.iter().zip(&in_full).position(|(one, two)| one != two);
                    assert!(
                        told == in_full,
                        "{} → {} {:?}: differs at {:?}\n{}\n{}",
                        sample.title,
                        written.name,
                        options.mode,
                        differs(),
                        String::from_utf8_lossy(&told),
                        String::from_utf8_lossy(&in_full),
                    );
                }
            }
        }
    });
}
