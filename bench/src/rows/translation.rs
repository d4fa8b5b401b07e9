//! Responses and requests from one protocol to another, beside decoding alone and beside parsing and writing.

use std::rc::Rc;

use callweave::Value;
use callweave::encode::EncodeOptions;
use callweave::event::Event;
use callweave::pipeline::{Decoder, DecoderBuilder};
use callweave::request::RequestOptions;

use super::wire::{PLAIN_ANTHROPIC, PLAIN_CHAT, Stream};
use crate::measure::{Aim, Case, Row, Target, Way};
use crate::peers::{Outcome, protocol};
use crate::request;
use crate::streams::Reads;

/// Twice as long as decoding alone.
const TWICE: Option<Target> = Some(Target(5, Aim::Ratio(0.5)));

pub(crate) fn cases() -> Vec<Case> {
    let full: fn(DecoderBuilder) -> DecoderBuilder = |builder| builder.read_all();
    let answers = [
        ("chat to anthropic 10k", PLAIN_CHAT, "anthropic-messages", TWICE),
        ("anthropic to chat 10k", PLAIN_ANTHROPIC, "openai-chat", TWICE),
        (
            "chat to anthropic 10k, every frame in full",
            Stream { decoder: full, ..PLAIN_CHAT },
            "anthropic-messages",
            TWICE,
        ),
        (
            "anthropic to chat 10k, every frame in full",
            Stream { decoder: full, ..PLAIN_ANTHROPIC },
            "openai-chat",
            TWICE,
        ),
    ];
    let answers = answers.map(|(name, stream, to, target)| Case {
        group: "Translation",
        name: name.into(),
        unit: "event",
        pieces: 10_000,
        target,
        make: Box::new(move |pieces| answer(stream, to, pieces)),
    });
    let requests = [
        ("request to chat, 200 kB", 60, "openai-chat"),
        ("request to chat, 2 MB", 800, "openai-chat"),
        ("request to gemini, 200 kB", 60, "gemini-generatecontent"),
    ];
    let requests = requests.map(|(name, turns, to)| Case {
        group: "Translation",
        name: name.into(),
        unit: "kB",
        pieces: request::body(turns).len() / 1000,
        target: None,
        make: Box::new(move |_| requested(turns, to)),
    });
    answers.into_iter().chain(requests).collect()
}

fn answer(stream: Stream, to: &'static str, pieces: usize) -> Row {
    let reads = Rc::new((stream.reads)((stream.generate)(pieces)));
    let alone = Rc::clone(&reads);
    Row {
        pieces,
        ways: vec![
            Way::new("callweave", move || {
                let mut encoder = protocol(to).encoder(&EncodeOptions::normalized()).expect("it is written");
                let mut out = Vec::new();
                decode(stream, &reads, |event| {
                    encoder.encode(&event, &mut out);
                    std::hint::black_box(&out);
                    out.clear();
                })
            }),
            Way::new("decoding alone", move || {
                decode(stream, &alone, |event| {
                    std::hint::black_box(&event);
                })
            }),
        ],
    }
}

fn decode(stream: Stream, reads: &Reads, mut event: impl FnMut(Event<'_>)) -> Outcome {
    let mut decoder = (stream.decoder)(Decoder::builder()).protocol(protocol(stream.protocol)).build();
    let mut count = 0_usize;
    let mut sink = |next: Event<'_>| {
        count += 1;
        event(next);
    };
    let pushed = reads.pieces().try_for_each(|piece| decoder.push(piece, &mut sink));
    pushed.and_then(|()| decoder.finish(&mut sink)).expect("an answer of that protocol");
    Outcome::of_text(count.to_string())
}

fn requested(turns: usize, to: &'static str) -> Row {
    let text: Rc<str> = request::body(turns).into();
    let parsed = Rc::clone(&text);
    // They write different requests; that both are about as long is all that can be compared.
    let written = |out: &str, text: &str| Outcome::of_text((out.len() * 2 > text.len()).to_string());
    Row {
        pieces: text.len() / 1000,
        ways: vec![
            Way::new("callweave", move || {
                let request: Value = text.parse().expect("JSON");
                let source = protocol("anthropic-messages");
                let translated = source.translate_request(request, protocol(to), &RequestOptions::default());
                written(&translated.expect("a request").body.to_string(), &text)
            }),
            Way::new("serde_json: parse and write", move || {
                let request: serde_json::Value = serde_json::from_str(&parsed).expect("JSON");
                written(&request.to_string(), &parsed)
            }),
        ],
    }
}
