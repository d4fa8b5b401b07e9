//! Matching of frames with templates: the bytes around the holes are equal, and each hole has contents of its kind.

use ascii::AsciiStr;

use super::MAX_HOLES;
use crate::json::{Str, ascii_end, blank_end, digits_alone_end, number_end, string_end};

/// A range of a frame that its template leaves open.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHole {
    /// The range in the data of the frame that the template was learned from. They are short, and templates are many.
    start: u16,
    end: u16,
    pub(super) kind: HoleKind,
}

impl FrameHole {
    pub(super) const fn new(start: usize, end: usize, kind: HoleKind) -> Self {
        Self { start: start as u16, end: end as u16, kind }
    }

    #[inline(always)]
    pub(super) fn start(self) -> usize {
        self.start.into()
    }

    #[inline(always)]
    pub(super) fn end(self) -> usize {
        self.end.into()
    }

    /// Adjusts the number to one more hole before the holes from `number` on.
    pub(super) fn make_room(&mut self, number: usize) {
        if let HoleKind::SameAs(other) = &mut self.kind
            && usize::from(*other) >= number
        {
            *other += 1;
        }
    }
}

/// Some of the first eight holes of a template, by their numbers: see
/// [`AppendPattern::pinned`](super::fragments::AppendPattern::pinned).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PinnedHoles(u8);

impl PinnedHoles {
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) fn has(self, hole: usize) -> bool {
        u32::from(self.0) >> hole & 1 == 1
    }

    /// The same holes with one more of the first eight.
    pub(super) fn and(self, hole: usize) -> Self {
        Self(self.0 | 1 << hole)
    }

    pub(super) fn and_all(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::NONE
    }
}

/// The kind of text that may stand in a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoleKind {
    /// The contents of a string, which are not empty.
    Text,
    /// A number.
    Number,
    /// A number of a block key.
    Place,
    /// The same text as in the hole of that number, which comes before.
    SameAs(u8),
    /// Spaces, or nothing.
    Blank,
}

/// The positions of the contents of a frame's holes.
pub(crate) type HolePieces = [HoleSpan; MAX_HOLES];

/// The range of the contents of a hole in a frame. They are UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoleSpan {
    pub(super) start: usize,
    pub(super) end: usize,
    has_escapes: bool,
}

impl HoleSpan {
    #[inline(always)]
    pub(super) fn str(self, frame: &[u8]) -> Str<'_> {
        str(frame, self.start, self.end, self.has_escapes)
    }

    pub(super) fn bytes(self, frame: &[u8]) -> &[u8] {
        &frame[self.start..self.end]
    }

    /// The number of a block key.
    pub(super) fn index(self, frame: &[u8]) -> i64 {
        self.bytes(frame).iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
    }
}

/// Contents of a hole, which are known to be UTF-8.
#[inline(always)]
fn str(frame: &[u8], start: usize, end: usize, has_escapes: bool) -> Str<'_> {
    let text = few_checked(frame, start, end).unwrap_or_else(|| checked(&frame[start..end]));
    if has_escapes { Str::Escaped(text) } else { Str::Plain(text) }
}

/// A few bytes as text, if they and the bytes around them are ASCII: checking a fixed number of bytes costs less than
/// checking exactly these.
#[inline(always)]
fn few_checked(frame: &[u8], start: usize, end: usize) -> Option<&str> {
    const MANY: usize = 16;
    let from = start.min(frame.len().checked_sub(MANY)?);
    let around: &[u8; MANY] = frame.get(from..from + MANY)?.first_chunk()?;
    AsciiStr::from_ascii(around).ok()?.as_str().get(start - from..end - from)
}

/// Bytes that are known to be UTF-8, as text: mostly ASCII, which is checked faster.
#[inline(never)]
fn checked(bytes: &[u8]) -> &str {
    match AsciiStr::from_ascii(bytes) {
        Ok(text) => text.as_str(),
        Err(_) => std::str::from_utf8(bytes).unwrap_or_default(),
    }
}

/// A template with one hole, which is a text, as nearly all are in which a block grows: the bytes before and behind it.
#[derive(Clone, Copy)]
pub(super) struct OneHoleTemplate<'s> {
    lead: &'s [u8],
    trail: &'s [u8],
}

impl<'s> OneHoleTemplate<'s> {
    /// The form of a template whose hole has that start and end.
    #[inline(always)]
    pub(super) fn of(text: &'s [u8], start: usize, end: usize) -> Option<Self> {
        Some(Self { lead: text.get(..start)?, trail: text.get(end..)? })
    }

    /// The text in the frame that these bytes begin with, and the length of the frame, if it matches.
    #[inline(always)]
    pub(super) fn fit<'f>(&self, bytes: &'f [u8]) -> Option<(Str<'f>, usize)> {
        if !bytes.starts_with(self.lead) {
            return None;
        }
        let start = self.lead.len();
        let (end, has_escapes) = contents(bytes, start)?;
        let after = bytes.get(end..)?;
        begins_with(after, self.trail).then(|| (str(bytes, start, end, has_escapes), end + self.trail.len()))
    }
}

/// The same with blanks behind it, as Anthropic pads its frames, and with the bytes behind the blanks.
#[derive(Clone, Copy)]
pub(super) struct PaddedTemplate<'s>(OneHoleTemplate<'s>, &'s [u8]);

impl<'s> PaddedTemplate<'s> {
    /// The form of a template whose holes are these two.
    pub(super) fn of(text: &'s [u8], from: usize, own: FrameHole, blank: FrameHole) -> Option<Self> {
        let around =
            OneHoleTemplate::of(text.get(..from + blank.start())?, from + own.start(), from + own.end())?;
        Some(Self(around, text.get(from + blank.end()..)?))
    }

    #[inline(always)]
    pub(super) fn fit<'f>(&self, bytes: &'f [u8]) -> Option<(Str<'f>, usize)> {
        let (text, padding) = self.0.fit(bytes)?;
        let at = blank_end(bytes, padding);
        begins_with(bytes.get(at..)?, self.1).then_some((text, at + self.1.len()))
    }
}

/// Whether the bytes begin with a literal. A short literal, as the end of most frames is, is compared by two machine
/// words that may overlap, which costs less than a call.
#[inline(always)]
fn begins_with(bytes: &[u8], literal: &[u8]) -> bool {
    let Some(own) = bytes.get(..literal.len()) else { return false };
    let length = literal.len();
    if !(2..=8).contains(&length) {
        own == literal
    } else if length >= 4 {
        has_same_ends::<4>(own, literal)
    } else {
        has_same_ends::<2>(own, literal)
    }
}

#[inline(always)]
fn has_same_ends<const LENGTH: usize>(one: &[u8], other: &[u8]) -> bool {
    one.first_chunk::<LENGTH>() == other.first_chunk() && one.last_chunk::<LENGTH>() == other.last_chunk()
}

/// The length of the start of `frame` that equals `text` but for its holes, if it does; `pieces` get the contents. The
/// holes are counted from `from` on. It is inlined into every loop that calls it: streams spend their time there.
#[inline(always)]
pub(super) fn fit<const MAX: usize>(
    text: &[u8],
    from: usize,
    holes: &[FrameHole],
    frame: &[u8],
    pieces: &mut [HoleSpan; MAX],
) -> Option<usize> {
    fit_pinned(text, from, holes, PinnedHoles::NONE, frame, pieces)
}

/// The same with some holes that must have the same contents as in `text`; their pieces are not set.
#[inline(always)]
pub(super) fn fit_pinned<const MAX: usize>(
    text: &[u8],
    from: usize,
    holes: &[FrameHole],
    pinned: PinnedHoles,
    frame: &[u8],
    pieces: &mut [HoleSpan; MAX],
) -> Option<usize> {
    let (mut before, mut at) = (0, 0);
    for (number, hole) in holes.iter().enumerate() {
        if pinned.has(number) {
            continue;
        }
        at = after(&text[before..from + hole.start()], frame, at)?;
        before = from + hole.end();
        let (end, has_escapes) = match hole.kind {
            HoleKind::Text => contents(frame, at)?,
            HoleKind::Number => match digits_alone_end(frame, at) {
                Some(end) => (end, false),
                None => (number_end(frame, at)?, false),
            },
            HoleKind::Place => (place_end(frame, at)?, false),
            HoleKind::Blank => (blank_end(frame, at), false),
            HoleKind::SameAs(other) => {
                let HoleSpan { start, end, has_escapes } = pieces[usize::from(other)];
                (after(&frame[start..end], frame, at)?, has_escapes)
            }
        };
        pieces[number] = HoleSpan { start: at, end, has_escapes };
        at = end;
    }
    after(&text[before..], frame, at)
}

/// The end of the number of a block key, if it is written in digits only.
fn place_end(frame: &[u8], at: usize) -> Option<usize> {
    let is_zero =
        frame.get(at) == Some(&b'0') && matches!(frame.get(at + 1), Some(b',' | b'}' | b']' | b' '));
    if is_zero { Some(at + 1) } else { digits_alone_end(frame, at) }
}

/// Whether the number in that range may be the number of a block key.
pub(super) fn is_place(frame: &[u8], start: usize, end: usize) -> bool {
    place_end(frame, start) == Some(end)
}

/// The end of the contents of a string, if they are not empty, and whether they have escapes.
#[inline(always)]
fn contents(frame: &[u8], at: usize) -> Option<(usize, bool)> {
    ascii_end(frame, at).or_else(|| text_end(frame, at))
}

/// The same for any contents, ASCII or not.
#[inline(never)]
fn text_end(frame: &[u8], at: usize) -> Option<(usize, bool)> {
    let found = string_end(frame, at).filter(|(end, _)| *end > at)?;
    std::str::from_utf8(&frame[at..found.0]).ok()?;
    Some(found)
}

/// The position in `frame` behind `literal`, if that stands at `at`.
#[inline]
fn after(literal: &[u8], frame: &[u8], at: usize) -> Option<usize> {
    frame.get(at..)?.starts_with(literal).then_some(at + literal.len())
}

/// The number of bytes that both begin with.
pub(super) fn common_start(one: &[u8], other: &[u8]) -> usize {
    let words = one.chunks_exact(WORD).zip(other.chunks_exact(WORD));
    let whole = WORD * words.take_while(|(one, other)| one == other).count();
    let bytes = one[whole..].iter().zip(&other[whole..]);
    whole + bytes.take_while(|(one, other)| one == other).count()
}

/// The number of bytes that both end with.
pub(super) fn common_end(one: &[u8], other: &[u8]) -> usize {
    let words = one.rchunks_exact(WORD).zip(other.rchunks_exact(WORD));
    let whole = WORD * words.take_while(|(one, other)| one == other).count();
    let bytes = one.iter().rev().skip(whole).zip(other.iter().rev().skip(whole));
    whole + bytes.take_while(|(one, other)| one == other).count()
}

const WORD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_literal_is_compared() {
        let text = b"0123456789abcdefghijklmnopq";
        for length in 0..=text.len() {
            let literal = &text[..length];
            assert!(begins_with(text, literal) && begins_with(literal, literal));
            assert_eq!(begins_with(&text[..length.saturating_sub(1)], literal), length == 0);
            for at in 0..length {
                let mut other = text.to_vec();
                other[at] ^= 1;
                assert!(!begins_with(&other, literal), "{at} of {length}");
            }
        }
    }

    #[test]
    fn what_is_common_is_counted_to_the_byte() {
        let text = b"0123456789abcdefghijklmnopq";
        for length in 0..=text.len() {
            assert_eq!(
                (common_start(&text[..length], text), common_end(&text[length..], text)),
                (length, text.len() - length)
            );
            let mut other = text.to_vec();
            if let Some(byte) = other.get_mut(length) {
                *byte = b'#';
                assert_eq!(
                    (common_start(&other, text), common_end(&other, text)),
                    (length, text.len() - length - 1)
                );
            }
        }
        assert_eq!((common_start(b"", b"a"), common_end(b"ab", b"")), (0, 0));
    }
}
