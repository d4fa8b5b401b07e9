//! Framing, decoding, and decoding with accumulation, beside what people build from existing crates.
//!
//! `cargo bench -p callweave-bench --bench decode`; `cargo run --release -p callweave-bench` prints ratios.

use callweave::event::Event;
use callweave::framing::{Frame, Framer, Framing, Limits};
use callweave::pipeline::Decoder;
use callweave::protocol::Protocol;
use callweave_bench::{peers, streams};
use divan::{Bencher, black_box};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

fn main() {
    divan::main();
}

fn protocol(name: &str) -> &'static Protocol {
    Protocol::named(name).expect("a protocol of the table")
}

#[divan::bench(args = SIZES)]
fn framing_chat(bencher: Bencher<'_, '_>, chunks: usize) {
    let body = streams::chat(chunks);
    bencher.counter(divan::counter::ItemsCount::new(chunks)).bench(|| {
        let mut framer = Framer::new(Framing::Sse, Limits::default());
        let mut count = 0;
        framer
            .push(black_box(body.as_bytes()), &mut |frame: Frame<'_>| count += frame.data.len())
            .expect("within the limits");
        count
    });
}

#[divan::bench(args = SIZES)]
fn decode_chat(bencher: Bencher<'_, '_>, chunks: usize) {
    decode_only(bencher, chunks, &streams::chat(chunks), "openai-chat");
}

#[divan::bench(args = SIZES)]
fn decode_anthropic(bencher: Bencher<'_, '_>, chunks: usize) {
    decode_only(bencher, chunks, &streams::anthropic(chunks), "anthropic-messages");
}

fn decode_only(bencher: Bencher<'_, '_>, chunks: usize, body: &str, name: &str) {
    bencher.counter(divan::counter::ItemsCount::new(chunks)).bench(|| {
        let mut decoder = Decoder::new(protocol(name));
        let mut count = 0_usize;
        let mut sink = |event: Event<'_>| {
            black_box(&event);
            count += 1;
        };
        decoder.push(black_box(body.as_bytes()), &mut sink).expect("within the limits");
        decoder.finish(&mut sink).expect("a known protocol");
        count
    });
}

macro_rules! pipeline {
    ($name:ident, $stream:ident, $run:expr) => {
        #[divan::bench(args = SIZES)]
        fn $name(bencher: Bencher<'_, '_>, chunks: usize) {
            let body = streams::$stream(chunks);
            bencher.counter(divan::counter::ItemsCount::new(chunks)).bench(|| $run(black_box(&body)));
        }
    };
}

pipeline!(message_chat_callweave, chat, |body| peers::callweave(body, protocol("openai-chat")));
pipeline!(message_chat_async_openai, chat, peers::chat_async_openai);
pipeline!(message_chat_memchr_serde_json, chat, peers::chat_serde);
pipeline!(message_chat_memchr_jiter, chat, peers::chat_jiter);
pipeline!(message_anthropic_callweave, anthropic, |body| peers::callweave(
    body,
    protocol("anthropic-messages")
));
pipeline!(message_anthropic_eventsource_serde_json, anthropic, peers::anthropic_eventsource);
pipeline!(message_anthropic_memchr_serde_json, anthropic, peers::anthropic_serde);
