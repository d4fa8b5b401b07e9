//! Bytes to a message: long streams of every kind, and very many of one thing.

use callweave::accumulator::Accumulator;
use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave_growth::assert_linear;

#[path = "../../../crates/callweave/tests/support/many.rs"]
mod many;
#[path = "../../../crates/callweave/tests/streams/mod.rs"]
mod streams;

fn decode(bytes: &[u8]) -> Message {
    let (mut decoder, mut accumulator) = (Decoder::detect(), Accumulator::new());
    for piece in bytes.chunks(4096) {
        decoder.push(piece, &mut accumulator).expect("sound input");
    }
    decoder.finish(&mut accumulator).expect("sound input");
    accumulator.take()
}

#[test]
#[ignore = "counts work: cargo xtask growth"]
fn streams_are_linear() {
    for stream in streams::STREAMS {
        assert_linear(stream.name, 1_000, 10, |count| {
            decode(&stream.bytes(count));
        });
    }
}

#[test]
#[ignore = "counts work: cargo xtask growth"]
fn very_many_of_one_thing_are_linear() {
    for many in many::MANY {
        assert_linear(many.name, 250, 8, |count| {
            decode(&(many.make)(count));
        });
    }
}
