//! A dialect leaves a response as it is where it finds nothing in its text: the same blocks, with the wire's own types
//! and extra fields.

mod laws;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/shared.rs"]
mod shared;

use callweave::Decoder;
use callweave::accumulator::Accumulator;
use callweave::message::{Block, BlockContent, Message};
use callweave::pipeline::DecoderBuilder;
use samples::{Sample, samples};

fn decode(builder: DecoderBuilder, sample: &Sample) -> Option<(Message, bool)> {
    let (mut decoder, mut message) = (builder.protocol(sample.protocol).build(), Accumulator::new());
    decoder.push(&sample.bytes, &mut message).ok()?;
    decoder.finish(&mut message).ok()?;
    Some((message.take(), decoder.dialect().is_some()))
}

/// The parts of a response that a dialect must not touch; none where a choice has several texts: they are read as one,
/// because a call may stand in two of them.
fn shown(message: &Message) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for choice in &message.choices {
        let is_text = |block: &&Block| matches!(block.content, BlockContent::Text(_));
        if choice.blocks.iter().filter(is_text).count() > 1 {
            return None;
        }
        // Nothing is made of a text without a character.
        let is_empty = |block: &&Block| matches!(&block.content, BlockContent::Text(text) if text.is_empty());
        for block in choice.blocks.iter().filter(|block| !is_empty(block)) {
            let Block { wire_type, content, extra, .. } = block;
            all.push(format!("{} {wire_type} {content:?} {extra:?}", choice.number));
        }
    }
    Some(all)
}

#[test]
fn a_dialect_that_finds_nothing_changes_nothing() {
    let mut compared = 0;
    for sample in samples() {
        let Some((plain, _)) = decode(Decoder::builder(), &sample) else { continue };
        let Some((read, has_found)) = decode(Decoder::builder().dialect("auto"), &sample) else { continue };
        // Reasoning may be found where no call is.
        if has_found || read.text() != plain.text() {
            continue;
        }
        let Some(expected) = shown(&plain) else { continue };
        compared += usize::from(sample.is_own);
        assert_eq!(shown(&read), Some(expected), "{}", sample.title);
    }
    assert!(compared > 100, "{compared} of our own cases");
}
