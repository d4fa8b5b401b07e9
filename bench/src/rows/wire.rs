//! Bytes of a stream → accumulated message, beside the pipelines that people build by hand.

use std::rc::Rc;

use callweave::pipeline::{Decoder, DecoderBuilder};

use crate::measure::{Aim, Case, Row, Target, Way};
use crate::peers::{self, Collected, anthropic, chat, responses, typed};
use crate::streams::{self, Chat, Reads};

/// A peer's function for the data of an event, and the finder of its events.
#[derive(Clone, Copy)]
pub(crate) enum Peer {
    Lines(fn(&[u8], &mut Collected)),
    Events(fn(&[u8], &mut Collected)),
}

pub(crate) type Peers = &'static [(&'static str, Peer)];

const CHAT: Peers = &[
    ("eventsource-stream + async-openai", Peer::Events(chat::async_openai)),
    ("memchr + serde_json", Peer::Lines(chat::serde_json)),
    ("memchr + sonic-rs", Peer::Lines(chat::sonic)),
    ("memchr + jiter", Peer::Lines(chat::jiter)),
];
/// async-openai's types have no reasoning.
const CHAT_BY_HAND: Peers = CHAT.split_at(1).1;
const ANTHROPIC: Peers = &[
    ("eventsource-stream + serde_json", Peer::Events(anthropic::serde_json)),
    ("memchr + serde_json", Peer::Lines(anthropic::serde_json)),
    ("memchr + sonic-rs", Peer::Lines(anthropic::sonic)),
    ("memchr + jiter", Peer::Lines(anthropic::jiter)),
];
const RESPONSES: Peers = &[
    ("memchr + serde_json", Peer::Lines(responses::serde_json)),
    ("memchr + sonic-rs", Peer::Lines(responses::sonic)),
    ("memchr + jiter", Peer::Lines(responses::jiter)),
];

/// A stream of a protocol, and how it is read.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) group: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) generate: fn(usize) -> String,
    pub(crate) reads: fn(String) -> Reads,
    pub(crate) decoder: fn(DecoderBuilder) -> DecoderBuilder,
    pub(crate) peers: Peers,
}

impl Stream {
    pub(crate) fn case(
        self,
        name: impl Into<String>,
        unit: &'static str,
        pieces: usize,
        target: Option<Target>,
    ) -> Case {
        let make = Box::new(move |pieces| self.row((self.reads)((self.generate)(pieces)), pieces));
        Case { group: self.group, name: name.into(), unit, pieces, target, make }
    }

    pub(crate) fn row(self, reads: Reads, pieces: usize) -> Row {
        let reads = Rc::new(reads);
        let protocol = peers::protocol(self.protocol);
        let ours = Rc::clone(&reads);
        let ours = Way::new("callweave", move || {
            peers::callweave(&ours, (self.decoder)(Decoder::builder()).protocol(protocol).build())
        });
        let others = self.peers.iter().map(|&(name, peer)| {
            let reads = Rc::clone(&reads);
            Way::new(name, move || match peer {
                Peer::Lines(event) => peers::lines(&reads, event),
                Peer::Events(event) => peers::events(&reads, event),
            })
        });
        Row { pieces, ways: [ours].into_iter().chain(others).collect() }
    }
}

pub(crate) fn by_event(body: String) -> Reads {
    Reads::by_event(body)
}

fn by_16_kib(body: String) -> Reads {
    Reads::of(16 << 10, body)
}

pub(crate) const PLAIN_CHAT: Stream = Stream {
    group: "Streams",
    protocol: "openai-chat",
    generate: |chunks| streams::chat(chunks, Chat::Plain),
    reads: by_event,
    decoder: |builder| builder,
    peers: CHAT,
};
pub(crate) const PLAIN_ANTHROPIC: Stream = Stream {
    group: "Streams",
    protocol: "anthropic-messages",
    generate: streams::anthropic,
    reads: by_event,
    decoder: |builder| builder,
    peers: ANTHROPIC,
};
pub(crate) const PLAIN_RESPONSES: Stream = Stream {
    group: "Streams",
    protocol: "openai-responses",
    generate: streams::responses,
    reads: by_event,
    decoder: |builder| builder,
    peers: RESPONSES,
};
pub(crate) const GEMINI: Stream = Stream {
    group: "Streams",
    protocol: "gemini-generatecontent",
    generate: streams::gemini,
    reads: by_event,
    decoder: |builder| builder,
    peers: &[("memchr + serde_json, typed", Peer::Lines(typed::gemini))],
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pieces, size) in [(1_000, "1k"), (10_000, "10k"), (100_000, "100k")] {
        // The targets are about the steady state.
        let target = |ratio: f64| (pieces == 100_000).then_some(Target(1, Aim::Ratio(ratio)));
        for (reads, told) in
            [(by_event as fn(String) -> Reads, "an event per read"), (by_16_kib, "16 KiB reads")]
        {
            let chat = Stream { reads, ..PLAIN_CHAT };
            cases.push(chat.case(format!("chat {size}, {told}"), "chunk", pieces, target(8.0)));
            let anthropic = Stream { reads, ..PLAIN_ANTHROPIC };
            cases.push(anthropic.case(format!("anthropic {size}, {told}"), "event", pieces, target(5.0)));
        }
    }
    let users = Stream { peers: CHAT.split_at(1).0, ..PLAIN_CHAT };
    cases.push(users.case(
        "chat 100k, against what users of async-openai run",
        "chunk",
        100_000,
        Some(Target(1, Aim::Ratio(25.0))),
    ));
    let padded = Stream { generate: |chunks| streams::chat(chunks, Chat::Padded), ..PLAIN_CHAT };
    cases.push(padded.case("chat 10k, padded in varying length", "chunk", 10_000, None));
    let timed = Stream { generate: |chunks| streams::chat(chunks, Chat::Timed), ..PLAIN_CHAT };
    cases.push(timed.case("chat 10k, seconds counted", "chunk", 10_000, None));
    let thinking = Stream {
        generate: |chunks| streams::chat(chunks, Chat::Thinking),
        peers: CHAT_BY_HAND,
        ..PLAIN_CHAT
    };
    cases.push(thinking.case("chat 10k, thoughts told twice", "chunk", 10_000, None));
    cases.push(PLAIN_RESPONSES.case("responses 10k, numbered and padded", "event", 10_000, None));
    cases.push(GEMINI.case("gemini 10k, tokens counted, every fourth chunk a call", "event", 10_000, None));
    cases
}
