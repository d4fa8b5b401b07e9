//! Frames that tell deltas: the next of a block differs from the one before in its text alone.
//!
//! An encoder writes the first delta of a block in full, its text as a [`Piece`], which knows afterwards where it
//! stands. If the frame says nothing that only this delta says, it is kept ([`Stamps::keep`]), and what follows is told by
//! the bytes around the text ([`Stamps::repeat`]). Every other event may change how deltas are told, and makes all frames
//! unknown. Only token counts, which some providers send with every delta, do not: an encoder that writes them beside
//! deltas must say so ([`Stamps::forget`]).

use std::ops::Range;

use crate::event::{BlockId, Body, Event};
use crate::json::{Writer, escape_bytes};

/// How often a text may stand in one frame.
const MOST_PLACES: usize = 3;
/// How many blocks may grow beside each other.
const MOST_BLOCKS: usize = 8;

/// The text of a delta, and where it was written.
pub(crate) struct Piece<'t> {
    pub(crate) text: &'t str,
    places: [Range<usize>; MOST_PLACES],
    /// How often it was written, be it more than there are places.
    count: usize,
}

impl<'t> Piece<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, places: Default::default(), count: 0 }
    }

    /// Writes it as a member.
    pub(crate) fn write(&mut self, key: &str, writer: &mut Writer<'_>) {
        writer.key(key);
        let start = writer.0.len() + 1;
        writer.string(self.text);
        if let Some(place) = self.places.get_mut(self.count) {
            *place = start..writer.0.len() - 1;
        }
        self.count += 1;
    }

    /// Says how much stands before what it was written into.
    pub(crate) fn stands_behind(&mut self, length: usize) {
        for place in &mut self.places {
            *place = place.start + length..place.end + length;
        }
    }
}

/// The frames of the blocks that grow.
#[derive(Default)]
pub(crate) struct Stamps {
    /// Those that are unknown stand last, for the memory they have.
    stamps: Vec<Stamp>,
    known: usize,
}

/// A frame without what differs.
#[derive(Default)]
struct Stamp {
    block: Option<BlockId>,
    bytes: Vec<u8>,
    /// Where something is missing, in order.
    holes: Vec<(usize, Hole)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hole {
    Text,
    Number,
}

impl Stamps {
    /// Tells a delta by the frame of its block; false if there is none, and for every other event.
    #[inline]
    pub(crate) fn repeat(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> bool {
        self.repeat_numbered(event, 0, out)
    }

    /// The same where frames are numbered.
    #[inline]
    pub(crate) fn repeat_numbered(&mut self, event: &Event<'_>, number: u64, out: &mut Vec<u8>) -> bool {
        match &event.body {
            Body::Delta { block, text, .. } => {
                let known = self.stamps[..self.known].iter().find(|stamp| stamp.block == Some(*block));
                // Wires have their own ways to tell nothing.
                let Some(stamp) = known.filter(|_| !text.is_empty()) else { return false };
                stamp.fill(text, number, out);
                true
            }
            Body::Usage { .. } => false,
            _ => {
                self.forget();
                false
            }
        }
    }

    /// Makes all frames unknown.
    pub(crate) fn forget(&mut self) {
        self.known = 0;
    }

    /// Keeps a frame that tells a delta and nothing else. The encoder must have nothing more to remember of the
    /// deltas that follow.
    pub(crate) fn keep(&mut self, block: BlockId, frame: &[u8], piece: &Piece<'_>) {
        self.keep_numbered(block, frame, piece, None);
    }

    /// The same where frames are numbered: where the number stands, if it does.
    pub(crate) fn keep_numbered(
        &mut self,
        block: BlockId,
        frame: &[u8],
        piece: &Piece<'_>,
        number: Option<Range<usize>>,
    ) {
        let Some(places) = piece.places.get(..piece.count).filter(|_| !piece.text.is_empty()) else { return };
        let at = if self.known < MOST_BLOCKS { self.known } else { block.0 as usize % MOST_BLOCKS };
        if at == self.stamps.len() {
            self.stamps.push(Stamp::default());
        }
        let Stamp { block: of, bytes, holes } = &mut self.stamps[at];
        *of = Some(block);
        bytes.clear();
        holes.clear();
        let mut from = 0;
        let numbers = number.into_iter().map(|place| (place, Hole::Number));
        // Numbers stand before texts on all wires.
        for (place, hole) in numbers.chain(places.iter().cloned().map(|place| (place, Hole::Text))) {
            bytes.extend_from_slice(&frame[from..place.start]);
            holes.push((bytes.len(), hole));
            from = place.end;
        }
        bytes.extend_from_slice(&frame[from..]);
        self.known = self.known.max(at + 1);
    }
}

impl Stamp {
    fn fill(&self, text: &str, number: u64, out: &mut Vec<u8>) {
        let mut from = 0;
        for &(at, hole) in &self.holes {
            out.extend_from_slice(&self.bytes[from..at]);
            match hole {
                Hole::Text => escape_bytes(text, out),
                Hole::Number => put_digits(number, out),
            }
            from = at;
        }
        out.extend_from_slice(&self.bytes[from..]);
    }
}

/// Appends a number. Apart, or those that have none would wait for its arithmetic.
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
