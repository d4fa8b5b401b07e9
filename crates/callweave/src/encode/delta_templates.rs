//! Frames of deltas: the next frame of a block differs from the one before in its text alone.
//!
//! An encoder writes the first delta of a block in full, its text as a [`WrittenDelta`], which records its position. If
//! the frame holds nothing specific to this delta, it is kept ([`DeltaTemplates::keep`]), and the following deltas are
//! written with the bytes around the text ([`DeltaTemplates::repeat`]). Every other event may change the form of
//! deltas, and discards all frames. Only token counts, which some providers send with every delta, do not: an encoder
//! that writes them beside deltas must discard the frames itself ([`DeltaTemplates::forget`]).

use std::ops::Range;

use crate::event::{BlockId, Event, EventKind};
use crate::json::{JsonWriter, escape_bytes};

/// The maximum number of times a text may be in one frame.
const MAX_SPANS: usize = 3;
/// The maximum number of blocks that may grow in parallel.
const MAX_BLOCKS: usize = 8;

/// The text of a delta, and the positions where it was written.
pub(crate) struct WrittenDelta<'t> {
    pub(crate) text: &'t str,
    spans: [Range<usize>; MAX_SPANS],
    /// The number of times it was written, which may exceed the number of positions kept.
    count: usize,
}

impl<'t> WrittenDelta<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, spans: Default::default(), count: 0 }
    }

    /// Writes it as a member.
    pub(crate) fn write(&mut self, key: &str, writer: &mut JsonWriter<'_>) {
        writer.key(key);
        let start = writer.0.len() + 1;
        writer.string(self.text);
        if let Some(span) = self.spans.get_mut(self.count) {
            *span = start..writer.0.len() - 1;
        }
        self.count += 1;
    }

    /// Moves the positions by the length of the bytes before the object it was written into.
    pub(crate) fn stands_behind(&mut self, length: usize) {
        for span in &mut self.spans {
            *span = span.start + length..span.end + length;
        }
    }
}

/// The frames of the growing blocks.
#[derive(Default)]
pub(crate) struct DeltaTemplates {
    /// Discarded frames are last, kept for their memory.
    templates: Vec<DeltaTemplate>,
    known: usize,
}

/// A frame without the parts that differ.
#[derive(Default)]
struct DeltaTemplate {
    block: Option<BlockId>,
    bytes: Vec<u8>,
    /// The positions of the missing parts, in order.
    holes: Vec<(usize, TemplateHole)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TemplateHole {
    Text,
    Number,
}

impl DeltaTemplates {
    /// Writes a delta with the frame of its block; returns false if there is none, and for every other event.
    #[inline]
    pub(crate) fn repeat(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        self.repeat_numbered(event, 0, out)
    }

    /// The same for numbered frames.
    #[inline]
    pub(crate) fn repeat_numbered(&mut self, event: &Event<'_>, number: u64, out: &mut Vec<u8>) -> bool {
        match &event.body {
            EventKind::Delta { block, text, .. } => {
                let known =
                    self.templates[..self.known].iter().find(|template| template.block == Some(*block));
                // Wires have their own forms of an empty delta.
                let Some(template) = known.filter(|_| !text.is_empty()) else { return false };
                template.fill(text, number, out);
                true
            }
            EventKind::Usage { .. } => false,
            _ => {
                self.forget();
                false
            }
        }
    }

    /// Discards all frames.
    pub(crate) fn forget(&mut self) {
        self.known = 0;
    }

    /// Keeps a frame that holds a delta and nothing else. The encoder must have nothing more to remember of the deltas
    /// that follow.
    pub(crate) fn keep(&mut self, block: BlockId, frame: &[u8], piece: &WrittenDelta<'_>) {
        self.keep_numbered(block, frame, piece, None);
    }

    /// The same for numbered frames, with the position of the number, if it is written.
    pub(crate) fn keep_numbered(
        &mut self,
        block: BlockId,
        frame: &[u8],
        piece: &WrittenDelta<'_>,
        number: Option<Range<usize>>,
    ) {
        let Some(spans) = piece.spans.get(..piece.count).filter(|_| !piece.text.is_empty()) else { return };
        let at = if self.known < MAX_BLOCKS { self.known } else { block.0 as usize % MAX_BLOCKS };
        if at == self.templates.len() {
            self.templates.push(DeltaTemplate::default());
        }
        let DeltaTemplate { block: of, bytes, holes } = &mut self.templates[at];
        *of = Some(block);
        bytes.clear();
        holes.clear();
        let mut from = 0;
        let numbers = number.into_iter().map(|span| (span, TemplateHole::Number));
        // Numbers come before texts on all wires.
        for (span, hole) in numbers.chain(spans.iter().cloned().map(|span| (span, TemplateHole::Text))) {
            bytes.extend_from_slice(&frame[from..span.start]);
            holes.push((bytes.len(), hole));
            from = span.end;
        }
        bytes.extend_from_slice(&frame[from..]);
        self.known = self.known.max(at + 1);
    }
}

impl DeltaTemplate {
    fn fill(&self, text: &str, number: u64, out: &mut Vec<u8>) {
        let mut from = 0;
        for &(at, hole) in &self.holes {
            out.extend_from_slice(&self.bytes[from..at]);
            match hole {
                TemplateHole::Text => escape_bytes(text, out),
                TemplateHole::Number => put_digits(number, out),
            }
            from = at;
        }
        out.extend_from_slice(&self.bytes[from..]);
    }
}

/// Appends a number. Not inlined, because frames without a number would pay for its arithmetic.
#[inline(never)]
fn put_digits(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}
