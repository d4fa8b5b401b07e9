//! The shape that frames of a stream share: what was read once need not be read again.
//!
//! Consecutive frames are the same bytes but for a few strings and numbers: the text of a delta, a sequence number,
//! padding. Reading a frame is pure, and the [tape](crate::json::Tape) knows which values the protocol has looked at
//! and which it only passed on or skipped. A [`Shape`] is a frame with *holes* in place of such values, and the
//! fragments that it gave. A frame with the same bytes around the holes, and in each hole a value of the same kind,
//! gives the same fragments with what stands in its holes: that follows from purity, nothing is guessed. The fold
//! runs on the fragments either way.
//!
//! Which of the values that nobody looked at become holes is learned from two frames: those in which they differ.
//! Where a frame does not fit, it is read in full, and the shape gets more holes if it can.

mod cast;
mod fit;

use cast::{Cast, Growth, Recorder};
use fit::{Hole, HoleKind, fit};

use crate::event::EventSink;
use crate::fragment::FragmentSink;
use crate::json::{Kind, Leaf, Node, Seen, Str};
use crate::protocol::{Input, Protocol};
use crate::weave::Weave;

/// So many shapes are kept: of text, of thoughts, of arguments, and one to spare.
const MOST_SHAPES: usize = 4;
/// Longer frames say something new each time.
const LONGEST: usize = 2048;
/// So many holes a shape may have.
const MOST_HOLES: usize = 6;
/// So many values that nobody looked at may stand in a frame.
const MOST_LEAVES: usize = 32;
/// After so many frames that taught nothing, most frames are not compared any more.
const PATIENCE: u32 = 8;

/// The shapes of the frames of one stream. See the [module](self).
#[derive(Default)]
pub(crate) struct Shapes {
    known: Vec<Shape>,
    /// The shape that the last frame had, if it had one.
    latest: Option<usize>,
    /// The last frame that was read in full.
    before: Option<(Option<String>, String)>,
    /// How many frames in a row taught nothing.
    vain: u32,
    /// How many more frames are not compared.
    rest: u32,
}

/// A frame that is known but for what stands in its holes.
struct Shape {
    /// What the framing calls such frames.
    event: Option<String>,
    text: String,
    holes: Vec<Hole>,
    casts: Vec<Cast>,
    /// The only one of them that is news where the frame before had the same shape, if it is a piece of a text.
    growth: Option<Growth>,
}

/// What stands in the holes of a frame.
pub(crate) type Filled<'d> = [Str<'d>; MOST_HOLES];

/// Nothing stands anywhere.
pub(crate) const UNFILLED: Filled<'_> = [Str::Plain(""); MOST_HOLES];

/// A frame that has a known shape.
pub(crate) struct Known<'s, 'd> {
    shape: &'s Shape,
    data: &'d [u8],
    filled: &'s Filled<'d>,
    /// Whether the frame before had the same shape: then much of it is no news.
    is_repeat: bool,
    /// Which shape it is: see [`Shapes::follow`].
    pub(crate) number: usize,
}

impl Known<'_, '_> {
    /// Where its data end in the bytes that they are a piece of.
    pub(crate) fn end_in(&self, bytes: &[u8]) -> usize {
        self.data.as_ptr() as usize - bytes.as_ptr() as usize + self.data.len()
    }

    /// Has the fold take what the frame contains, if that is nothing but more of what the frame before brought.
    #[inline]
    pub(crate) fn grow(&self, weave: &mut Weave, offset: u64, sink: &mut EventSink<'_>) -> bool {
        let growth = self.shape.growth.as_ref().filter(|_| self.is_repeat);
        growth.is_some_and(|growth| weave.go_on(offset, growth.choice, growth.at, self.text(growth), sink))
    }

    /// Has the fold take what the frame contains.
    pub(crate) fn push_to(&self, weave: &mut Weave, offset: u64, sink: &mut EventSink<'_>) {
        weave.push(offset, |fragments| self.tell(fragments), sink);
    }

    #[inline]
    fn text(&self, growth: &Growth) -> Str<'_> {
        match growth.hole {
            Some(hole) => self.filled[hole],
            None => self.shape.casts[growth.cast].text(),
        }
    }

    /// Says what the frame contains.
    fn tell(&self, sink: &mut FragmentSink<'_>) {
        for cast in &self.shape.casts {
            if !(self.is_repeat && cast.is_quiet) {
                cast.tell(self.shape, self.data, self.filled, sink);
            }
        }
    }
}

impl Shapes {
    /// Forgets everything: another protocol's frames follow.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// A frame of that shape was told. Not before: what looks like one may not be all there yet.
    pub(crate) fn follow(&mut self, number: usize) {
        self.latest = Some(number);
    }

    /// A frame came that was read in full.
    pub(crate) fn interrupt(&mut self) {
        self.latest = None;
    }

    /// The frame whose data these bytes are, if it is known.
    pub(crate) fn find<'s, 'd>(
        &'s self,
        event: Option<&str>,
        data: &'d [u8],
        filled: &'s mut Filled<'d>,
    ) -> Option<Known<'s, 'd>> {
        self.find_at(|own| (own == event).then_some(data), filled)
            .filter(|known| known.data.len() == data.len())
    }

    /// The frame that some bytes begin with, if it is known: `data` finds the data of one that is called so, with all
    /// that follows.
    #[inline]
    pub(crate) fn find_at<'s, 'd>(
        &'s self,
        data: impl Fn(Option<&str>) -> Option<&'d [u8]>,
        filled: &'s mut Filled<'d>,
    ) -> Option<Known<'s, 'd>> {
        let mut length = |at: usize| {
            let Shape { event, text, holes, .. } = self.known.get(at)?;
            let data = data(event.as_deref())?;
            fit(text, holes, data, filled).map(|length| &data[..length])
        };
        let latest = self.latest.unwrap_or_default();
        let (at, data) = match length(latest) {
            Some(data) => (latest, data),
            None => {
                let mut others = (0..self.known.len()).filter(|&at| at != latest);
                others.find_map(|at| Some((at, length(at)?)))?
            }
        };
        let is_repeat = self.latest == Some(at);
        Some(Known { shape: &self.known[at], data, filled, is_repeat, number: at })
    }

    /// Learns from a frame that was read in full.
    pub(crate) fn learn(&mut self, protocol: &Protocol, input: &Input<'_>, data: &str) {
        self.latest = None;
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        if data.len() > LONGEST {
            return;
        }
        if self.compare(protocol, input, data) {
            self.vain = 0;
            return;
        }
        self.vain += 1;
        if self.vain >= PATIENCE {
            self.rest = 1 << (self.vain - PATIENCE).min(6);
        }
        let (event, text) = self.before.get_or_insert_default();
        replace(event, input.event);
        text.clear();
        text.push_str(data);
    }

    /// Compares the frame with the shapes and with the frame before; whether that taught something.
    fn compare(&mut self, protocol: &Protocol, input: &Input<'_>, data: &str) -> bool {
        let known = self.known.iter().enumerate().rev();
        let known =
            known.map(|(at, shape)| (Some(at), shape.event.as_deref(), &shape.text, Some(&shape.holes[..])));
        let before = self.before.iter().map(|(event, text)| (None, event.as_deref(), text, None));
        let mut relatives = known
            .chain(before)
            .filter(|(_, event, text, _)| *event == input.event && is_alike(text, data))
            .peekable();
        if relatives.peek().is_none() {
            return false;
        }
        let Some(all) = possible_holes(input.value, data) else { return false };
        let found = relatives
            .find_map(|(at, _, text, own)| differing(&all, data, text, own).map(|holes| (at, holes)));
        let Some((at, holes)) = found else { return false };
        let mut recorder = Recorder::new(data, &holes);
        protocol.decode(input, &mut recorder);
        let Some(casts) = recorder.finish() else { return false };
        let event = input.event.map(Into::into);
        let growth = Growth::of(&casts);
        let shape = Shape { event, text: data.to_owned(), holes, casts, growth };
        match at {
            Some(at) => self.known[at] = shape,
            None => {
                if self.known.len() == MOST_SHAPES {
                    self.known.remove(0);
                }
                self.known.push(shape);
            }
        }
        true
    }
}

fn replace(own: &mut Option<String>, event: Option<&str>) {
    match (own, event) {
        (Some(own), Some(event)) => {
            own.clear();
            own.push_str(event);
        }
        (own, event) => *own = event.map(Into::into),
    }
}

/// Whether it is worth while to compare: most frames that have nothing in common differ soon.
fn is_alike(one: &str, other: &str) -> bool {
    const START: usize = 12;
    one.as_bytes().iter().zip(other.as_bytes()).take(START).all(|(one, other)| one == other)
}

/// The values of a frame that nobody looked at.
fn possible_holes(value: Node<'_>, data: &str) -> Option<Vec<Hole>> {
    let mut holes: Vec<Hole> = Vec::new();
    let mut notes: Vec<u32> = Vec::new();
    for Leaf { note, kind, start, end, seen } in value.leaves().filter(|leaf| leaf.start < leaf.end) {
        let kind = match (seen, kind) {
            (Seen::All, _) => continue,
            (Seen::Kind, Kind::Number) => HoleKind::Number,
            (Seen::Kind, _) => HoleKind::Text,
            (Seen::SameAs(other), _) => match notes.iter().position(|note| *note == other) {
                Some(at) => HoleKind::SameAs(at),
                None => continue,
            },
        };
        notes.push(note);
        holes.push(Hole { start, end, kind });
    }
    // Anthropic pads its frames with blanks before the last brace.
    if let Some(inner) = data.strip_suffix('}') {
        holes.push(Hole {
            start: inner.trim_end_matches(' ').len(),
            end: inner.len(),
            kind: HoleKind::Blank,
        });
    }
    (holes.len() <= MOST_LEAVES).then_some(holes)
}

/// Those of `all` holes of a frame in which another frame differs, or which that one's shape has already. None if the
/// other differs elsewhere or in too much, or if its shape has all of them.
fn differing(all: &[Hole], data: &str, other: &str, own: Option<&[Hole]>) -> Option<Vec<Hole>> {
    let mut filled = [Str::Plain(""); MOST_LEAVES];
    let length = fit(data, all, other.as_bytes(), &mut filled)?;
    let mut is_hole = [false; MOST_LEAVES];
    let (mut moved, mut has_more) = (0, false);
    for (at, (hole, filled)) in all.iter().zip(filled).enumerate() {
        let filled = filled.written();
        // Where the hole begins in the other frame.
        let there = (hole.start as isize + moved) as usize;
        moved += filled.len() as isize - (hole.end - hole.start) as isize;
        let is_known =
            own.unwrap_or_default().iter().any(|own| own.start == there && own.end == there + filled.len());
        let differs = filled != &data[hole.start..hole.end];
        has_more |= differs && !is_known;
        is_hole[at] = is_known || differs;
    }
    // What is the same as a hole is a hole, too.
    let mut renamed = [0; MOST_LEAVES];
    let mut holes: Vec<Hole> = Vec::new();
    for (at, hole) in all.iter().enumerate() {
        let kind = match hole.kind {
            HoleKind::SameAs(other) if is_hole[other] => HoleKind::SameAs(renamed[other]),
            HoleKind::SameAs(_) => continue,
            kind if is_hole[at] => kind,
            _ => continue,
        };
        is_hole[at] = true;
        renamed[at] = holes.len();
        holes.push(Hole { kind, ..*hole });
    }
    let is_whole = length == other.len();
    let is_news = own.is_none() || has_more;
    (is_whole && is_news && holes.len() <= MOST_HOLES).then_some(holes)
}
