//! Streams in which no frame is like the one before: every frame is read in full, beside serde_json into typed structs
//! that have the same fields.

use std::rc::Rc;

use callweave::pipeline::Decoder;

use super::wire::{GEMINI, PLAIN_ANTHROPIC, PLAIN_CHAT, PLAIN_RESPONSES, Peer, Stream};
use crate::measure::{Aim, Case, Row, Target, Way};
use crate::peers::{self, responses, typed};
use crate::streams::{self, Reads};

pub(crate) fn cases() -> Vec<Case> {
    let target = Some(Target(2, Aim::Ratio(1.0)));
    let streams = [
        (
            "chat 10k, every frame in full",
            Stream { peers: &[("memchr + serde_json, typed", Peer::Lines(typed::chat))], ..PLAIN_CHAT },
        ),
        (
            "anthropic 10k, every frame in full",
            Stream {
                peers: &[("memchr + serde_json, typed", Peer::Lines(typed::anthropic))],
                ..PLAIN_ANTHROPIC
            },
        ),
        (
            "responses 10k, every frame in full",
            Stream {
                peers: &[("memchr + serde_json, typed", Peer::Lines(responses::serde_json))],
                ..PLAIN_RESPONSES
            },
        ),
        ("gemini 10k, every frame in full", GEMINI),
    ];
    let streams = streams.map(|(name, stream)| {
        let stream = Stream { group: "Every frame in full", decoder: |builder| builder.read_all(), ..stream };
        stream.case(name, "event", 10_000, target)
    });
    let whole =
        [("whole chat body, 1 call", 1), ("whole chat body, 20 calls", 20)].map(|(name, calls)| Case {
            group: "Every frame in full",
            name: name.into(),
            unit: "body",
            pieces: 1,
            target,
            make: Box::new(move |_| whole(calls)),
        });
    streams.into_iter().chain(whole).collect()
}

fn whole(calls: usize) -> Row {
    let body = streams::whole_chat(calls);
    let reads = Rc::new(Reads::of(body.len(), body));
    let ours = Rc::clone(&reads);
    Row {
        pieces: 1,
        ways: vec![
            Way::new("callweave", move || {
                peers::callweave(&ours, Decoder::new(peers::protocol("openai-chat")))
            }),
            Way::new("serde_json, typed", move || typed::whole(reads.bytes(), typed::chat)),
        ],
    }
}
