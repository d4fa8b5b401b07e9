//! Whether a frame has a shape: the bytes around the holes are the same, and each hole holds what may stand there.

use crate::json::{Str, ascii_end, digits_alone_end, number_end, string_end};

/// A place in a frame where its shape does not say what stands there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    /// Where it is in the data of the frame that the shape was learned from.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: HoleKind,
}

/// What may stand in a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoleKind {
    /// The contents of a string, which are not empty.
    Text,
    /// A number.
    Number,
    /// The number of a place.
    Place,
    /// What stands in the hole of that number, which comes before.
    SameAs(usize),
    /// Spaces, or nothing.
    Blank,
}

/// Where in a frame the contents of a hole stand. They are UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    has_escapes: bool,
}

impl Piece {
    #[inline(always)]
    pub(super) fn str(self, frame: &[u8]) -> Str<'_> {
        let text = std::str::from_utf8(&frame[self.start..self.end]).unwrap_or_default();
        if self.has_escapes { Str::Escaped(text) } else { Str::Plain(text) }
    }

    pub(super) fn len(self) -> usize {
        self.end - self.start
    }
}

/// The length of what `frame` begins with, if that is `text` but for its holes; `pieces` get what stands in them.
/// The holes are counted from `from` on. Part of every loop that it is called in: that is where streams spend their time.
#[inline(always)]
pub(super) fn fit<const MOST: usize>(
    text: &[u8],
    from: usize,
    holes: &[Hole],
    frame: &[u8],
    pieces: &mut [Piece; MOST],
) -> Option<usize> {
    let (mut before, mut at) = (0, 0);
    for (number, hole) in holes.iter().enumerate() {
        at = after(&text[before..from + hole.start], frame, at)?;
        before = from + hole.end;
        let (end, has_escapes) = match hole.kind {
            HoleKind::Text => match ascii_end(frame, at) {
                Some(end) => (end, false),
                None => text_end(frame, at)?,
            },
            HoleKind::Number | HoleKind::Place => match digits_alone_end(frame, at) {
                Some(end) => (end, false),
                None => (number_end(frame, at)?, false),
            },
            HoleKind::Blank => (at + frame[at..].iter().take_while(|byte| **byte == b' ').count(), false),
            HoleKind::SameAs(other) => {
                let Piece { start, end, has_escapes } = pieces[other];
                (after(&frame[start..end], frame, at)?, has_escapes)
            }
        };
        pieces[number] = Piece { start: at, end, has_escapes };
        at = end;
    }
    after(&text[before..], frame, at)
}

/// Where the contents of a string end that are not empty, and whether they have escapes.
#[inline(never)]
fn text_end(frame: &[u8], at: usize) -> Option<(usize, bool)> {
    let found = string_end(frame, at).filter(|(end, _)| *end > at)?;
    std::str::from_utf8(&frame[at..found.0]).ok()?;
    Some(found)
}

/// Where `frame` goes on after `literal`, if that stands at `at`.
#[inline]
fn after(literal: &[u8], frame: &[u8], at: usize) -> Option<usize> {
    frame.get(at..)?.starts_with(literal).then_some(at + literal.len())
}
