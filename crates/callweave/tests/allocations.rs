//! Allocations grow with the logarithm of the bytes, not with the deltas; and what is held is the message and a
//! constant.

mod streams;

use allocation_counter::{AllocationInfo, measure};
use callweave::accumulator::Accumulator;
use callweave::arguments::ArgumentStage;
use callweave::compat::req_llm::ChunkAccumulator;
use callweave::dialect::Tools;
use callweave::event::{BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind};
use callweave::message::{BlockContent, Message};
use callweave::pipeline::Decoder;
use streams::STREAMS;

/// Unoptimised code is slow, and the result is the same with less input.
const STEPS: [usize; 3] =
    if cfg!(debug_assertions) { [200, 2_000, 20_000] } else { [1_000, 10_000, 100_000] };

/// With what was learned of the frames before, or each frame in full.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Learned,
    Full,
}

fn decode(bytes: &[u8], reading: Reading) -> Message {
    let decoder = Decoder::builder();
    let mut decoder = match reading {
        Reading::Learned => decoder.build(),
        Reading::Full => decoder.read_all().build(),
    };
    let mut accumulator = Accumulator::new();
    for piece in bytes.chunks(4096) {
        decoder.push(piece, &mut accumulator).expect("sound input");
    }
    decoder.finish(&mut accumulator).expect("sound input");
    accumulator.take()
}

/// The bytes of text that a message holds.
fn held(message: &Message) -> usize {
    let blocks = message.choices.iter().flat_map(|choice| &choice.blocks);
    blocks
        .map(|block| match &block.content {
            BlockContent::Text(text) | BlockContent::Reasoning { text, .. } | BlockContent::Refusal(text) => {
                text.len()
            }
            BlockContent::ToolCall(call) => call.raw_arguments.len(),
            _ => 0,
        })
        .sum()
}

#[test]
fn allocations_grow_with_the_logarithm_and_memory_with_the_message() {
    let streams = STREAMS.iter().flat_map(|stream| [(stream, Reading::Learned), (stream, Reading::Full)]);
    for (stream, reading) in streams {
        let counted = STEPS.map(|count| -> (AllocationInfo, usize) {
            let bytes = stream.bytes(count);
            let mut message = Message::default();
            let info = measure(|| message = decode(&bytes, reading));
            (info, held(&message))
        });
        for ((small, _), (large, text)) in counted.iter().zip(&counted[1..]) {
            // Ten times the text is between three and four doublings of the buffer that holds it; a longer frame may
            // grow a scratch buffer. A shape that cannot be learned is tried again after twice as many frames.
            let most = if matches!(reading, Reading::Learned) { 20 } else { 10 };
            let more = large.count_total.saturating_sub(small.count_total);
            let name = stream.name;
            assert!(more <= most, "{name}, {reading:?}: {more} more allocations for ten times the deltas");
            // A buffer that doubles lies there twice for a moment.
            let bound = 3 * *text as u64 + (64 << 10);
            assert!(
                large.bytes_max <= bound,
                "{}: {} bytes for {text} of text",
                stream.name,
                large.bytes_max
            );
        }
        assert!(counted.iter().zip(STEPS).all(|((_, text), count)| *text > count), "{}", stream.name);
    }
}

/// Arguments that flow through repair and coercion are passed on from memory that is used again.
#[test]
fn coerced_arguments_are_not_allocated_piece_by_piece() {
    let parameters = serde_json::json!({"properties": {"text": {"type": "string"}}});
    let mut tools = Tools::default();
    tools.declare("look", Some(&parameters));
    let counted = STEPS.map(|count| {
        let (block, mut deltas) = (BlockId(0), 0);
        let mut mend = ArgumentStage::new().tools(tools.clone()).repair().coerce();
        let (id, is_made, name, call) = (None, false, "look".into(), CallKind::Function);
        let kind = BlockKind::ToolCall { id, is_made, name, call };
        let mut sink =
            |event: Event<'_>| deltas += usize::from(matches!(event.body, EventKind::Delta { .. }));
        let info = measure(|| {
            mend.push(Event::new(0, EventKind::block_start(block, kind)), &mut sink);
            for text in ["{\"text\": \""].into_iter().chain(std::iter::repeat_n("word\\n ", count)) {
                let kind = DeltaKind::Arguments;
                mend.push(Event::new(0, EventKind::Delta { block, kind, text: text.into() }), &mut sink);
            }
        });
        assert_eq!(deltas, count + 1);
        info.count_total
    });
    assert!(counted[2] <= counted[1] + 10, "{counted:?}");
}

/// The maximum number of bytes an open stream holds beside its message.
const MAX_BESIDE: usize = 4 << 10;

#[test]
fn an_open_stream_holds_little_beside_its_message() {
    for stream in STREAMS {
        let bytes = stream.bytes(500);
        let (mut open, mut deltas) = (None, 0);
        let mut read = || {
            let mut decoder = Decoder::detect();
            deltas = 0;
            for piece in bytes[..bytes.len() / 2].chunks(4096) {
                let sink = &mut |event: Event<'_>| {
                    deltas += usize::from(matches!(event.body, EventKind::Delta { .. }))
                };
                decoder.push(piece, sink).expect("sound input");
            }
            decoder
        };
        // The first run makes the data that a thread keeps for all of its streams.
        read();
        let info = measure(|| open = Some(read()));
        let decoder = open.expect("was made");
        let known = decoder.known_frames();
        assert!(deltas > 100 && known > 200, "{}: {deltas} deltas, {known} known frames", stream.name);
        let own = info.bytes_current as usize + size_of_val(&decoder);
        assert!(own <= MAX_BESIDE, "{}: {own} bytes beside the message", stream.name);
    }
}

/// A word is not paid for by the length of the response.
#[test]
fn the_reason_to_finish_is_asked_for_the_price_of_its_text() {
    let mut accumulator = ChunkAccumulator::new();
    for number in 0..10_000 {
        let chunk = serde_json::json!({"type": "meta", "metadata": {"annotations": [{"url": number}]}});
        accumulator.push(&chunk);
    }
    accumulator.push(&serde_json::json!({"type": "meta", "metadata": {"finish_reason": "stop"}}));
    let mut reason = None;
    let counted = measure(|| reason = accumulator.finalize_finish_reason());
    assert_eq!(reason.as_deref(), Some("stop"));
    assert!(counted.count_total <= 1 && counted.bytes_total < 64, "{counted:?}");
}
