//! A response that comes over a `futures::Stream` allocates only the buffers that hold it, read and written again.

#![cfg(feature = "async")]

mod streams;

use allocation_counter::measure;
use callweave::encode::EncodeOptions;
use callweave::protocol::{Protocol, TABLE};
use callweave::stream::{EventStream, ItemStream, message};
use futures::executor::block_on;
use streams::STREAMS;

/// Some pieces end in the middle of a frame.
const PIECE: usize = 1000;

/// The number of allocations for `deltas` deltas, read in pieces.
fn count(stream: &streams::Stream, deltas: usize, read: impl Fn(&mut Vec<&[u8]>)) -> u64 {
    let bytes = stream.bytes(deltas);
    let mut pieces: Vec<_> = bytes.chunks(PIECE).collect();
    measure(|| read(&mut pieces)).count_total
}

/// Ten times the deltas are a few doublings of the buffers that hold the text; and what cannot be learned of frames is
/// tried again a few times.
fn grows_with_the_logarithm(title: &str, stream: &streams::Stream, read: impl Fn(&mut Vec<&[u8]>)) {
    let [small, large] = [300, 3000].map(|deltas| count(stream, deltas, &read));
    let more = large.saturating_sub(small);
    assert!(more <= 24, "{title}: {more} more allocations for ten times the deltas");
}

/// The pieces as they come from the network.
fn reads<'p>(pieces: &'p mut Vec<&[u8]>) -> impl futures::Stream<Item = std::io::Result<&'p [u8]>> + Unpin {
    futures::stream::iter(pieces.iter().map(|piece| Ok(*piece)))
}

#[test]
fn reading_allocates_nothing_per_delta() {
    for stream in STREAMS {
        grows_with_the_logarithm(stream.name, stream, |pieces| {
            let message = block_on(message(reads(pieces))).expect("a sound stream");
            assert!(!message.choices.is_empty());
        });
        grows_with_the_logarithm(&format!("items of {}", stream.name), stream, |pieces| {
            block_on(async {
                let mut items = ItemStream::new(reads(pieces));
                while let Some(item) = items.lend().await {
                    item.expect("a sound stream");
                }
            });
        });
    }
}

#[test]
fn translating_allocates_nothing_per_delta() {
    for stream in STREAMS {
        for written in TABLE.iter().copied().filter(|protocol: &&Protocol| protocol.is_written()) {
            let title = format!("{} → {}", stream.name, written.name);
            grows_with_the_logarithm(&title, stream, |pieces| {
                let options = EncodeOptions::normalized().model("anthropic.m");
                let mut encoder = written.encoder(&options).expect("a protocol that is written");
                let mut out = Vec::new();
                block_on(async {
                    let mut events = EventStream::new(reads(pieces));
                    while let Some(event) = events.lend().await {
                        encoder.encode(&event.expect("a sound stream"), &mut out);
                        // The socket has taken it.
                        out.clear();
                    }
                });
            });
        }
    }
}
