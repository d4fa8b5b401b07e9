//! Whether a frame has a shape: the bytes around the holes are the same, and each hole holds what may stand there.

use crate::json::{Str, number_end, string_end};

/// A place in a frame where its shape does not say what stands there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    /// Where it is in the frame that the shape was learned from.
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
    /// What stands in the hole of that number, which comes before.
    SameAs(usize),
    /// Spaces, or nothing.
    Blank,
}

/// The length of what `data` begins with, if that is `text` but for its holes; `filled` gets what stands in them.
#[inline]
pub(super) fn fit<'d, const MOST: usize>(
    text: &str,
    holes: &[Hole],
    data: &'d [u8],
    filled: &mut [Str<'d>; MOST],
) -> Option<usize> {
    let text = text.as_bytes();
    let (mut from, mut at) = (0, 0);
    for (number, hole) in holes.iter().enumerate() {
        at = after(&text[from..hole.start], data, at)?;
        from = hole.end;
        let (end, has_escapes) = match hole.kind {
            HoleKind::Text => string_end(data, at).filter(|(end, _)| *end > at)?,
            HoleKind::Number => (number_end(data, at)?, false),
            HoleKind::Blank => (at + data[at..].iter().take_while(|byte| **byte == b' ').count(), false),
            HoleKind::SameAs(other) => {
                filled[number] = filled[other];
                at = after(filled[other].written().as_bytes(), data, at)?;
                continue;
            }
        };
        let own = std::str::from_utf8(&data[at..end]).ok()?;
        filled[number] = if has_escapes { Str::Escaped(own) } else { Str::Plain(own) };
        at = end;
    }
    after(&text[from..], data, at)
}

/// Where `data` goes on after `literal`, if that stands at `at`.
#[inline]
fn after(literal: &[u8], data: &[u8], at: usize) -> Option<usize> {
    data.get(at..)?.starts_with(literal).then_some(at + literal.len())
}
