//! Finding markers in text that comes in pieces.
//!
//! All live markers are searched in one pass. Text at the end that may still become a marker is distinguished from text
//! that cannot, so that a caller holds back no more than it must.

use super::quotation::{begins_container, begins_mark};
use super::table::{self, MarkerHole};

/// A set of markers, each with its meaning.
#[derive(Clone, Debug)]
pub(super) struct MarkerSet<M> {
    rows: Vec<MarkersByByte<M>>,
    /// The distinct first bytes.
    firsts: Vec<u8>,
    /// Which row a byte begins, or [`PLAIN`], or [`WIDE`], or [`LINE`].
    row_of: Box<[u8; 256]>,
    /// For each row a bit for every byte that may be the second of its markers.
    seconds: Vec<[u64; 4]>,
}

/// The markers with one first byte: their common beginnings, and the markers of each.
type MarkersByByte<M> = Vec<(MarkerPattern, Vec<(MarkerPattern, M)>)>;

/// A byte that begins neither a marker nor anything else; one of a letter that may be a quotation mark; and one that a
/// line or code begins with.
const PLAIN: u8 = u8::MAX;
const WIDE: u8 = PLAIN - 1;
const LINE: u8 = WIDE - 1;

/// Whether a line, inline code or a code container may begin with that byte.
#[inline]
pub(super) fn is_line(byte: u8) -> bool {
    LINES[usize::from(byte)]
}

static LINES: [bool; 256] = {
    let mut lines = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        lines[byte as usize] = matches!(byte, b'\n' | b'`') || begins_container(byte);
        byte += 1;
    }
    lines
};

#[derive(Clone, Debug)]
struct MarkerPattern {
    head: String,
    /// The hole between head and tail, and the tail.
    tail: Option<(&'static MarkerHole, String)>,
    /// Whether it is found in other spellings, too.
    is_loose: bool,
}

/// The result of a search in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerMatch<M> {
    /// No marker, nor the beginning of one.
    Nothing,
    /// From here on it may become a marker.
    Perhaps(usize),
    /// A marker, where it begins and how long it is.
    Marker { at: usize, len: usize, meaning: M },
}

enum PatternMatch {
    No,
    Perhaps,
    Whole(usize),
}

/// Whether a marker can be searched for: it begins with text, and not with a placeholder.
pub(super) fn may_begin(text: &str) -> bool {
    !MarkerPattern::new(text).head.is_empty()
}

const LONGEST_WORD: usize = 128;

/// The ASCII spelling of a marker with bars and blanks that few keyboards have.
pub(super) fn in_ascii(text: &str) -> String {
    text.replace('｜', "|").replace('▁', "_")
}

/// Whether `text` begins with a marker in any spelling of its bars and blanks: one bar or two, of any width, with
/// blanks around them.
fn begins_loosely(marker: &str, text: &str) -> PatternMatch {
    let mut rest = text;
    for wanted in marker.chars() {
        let before = rest;
        rest = match wanted {
            '｜' => {
                let open = rest.strip_prefix(' ').unwrap_or(rest);
                let bars = open.chars().take(2).take_while(|bar| matches!(bar, '|' | '｜' | '‖'));
                let len = bars.map(char::len_utf8).sum();
                let close = &open[len..];
                match len {
                    0 if !open.is_empty() => return PatternMatch::No,
                    _ => close.strip_prefix(' ').unwrap_or(close),
                }
            }
            '▁' => rest.strip_prefix(['▁', '_', ' ']).unwrap_or(rest),
            wanted => rest.strip_prefix(wanted).unwrap_or(rest),
        };
        // Where the text ends, more of the same may come.
        if rest.is_empty() && (before.is_empty() || wanted == '｜') {
            return PatternMatch::Perhaps;
        }
        if rest.len() == before.len() {
            return PatternMatch::No;
        }
    }
    PatternMatch::Whole(text.len() - rest.len())
}

impl MarkerPattern {
    fn new(text: &str) -> Self {
        for hole in &table::HOLES {
            if let Some((head, tail)) = text.split_once(hole.written) {
                return Self { head: head.to_owned(), tail: Some((hole, tail.to_owned())), is_loose: false };
            }
        }
        Self { head: text.to_owned(), tail: None, is_loose: text.contains(['｜', '▁']) }
    }

    fn at_start_of(&self, text: &str) -> PatternMatch {
        if self.is_loose {
            return begins_loosely(&self.head, text);
        }
        let text = text.as_bytes();
        let head = self.head.as_bytes();
        if text.len() < head.len() {
            return if head.starts_with(text) { PatternMatch::Perhaps } else { PatternMatch::No };
        }
        if !text.starts_with(head) {
            return PatternMatch::No;
        }
        let Some((hole, tail)) = &self.tail else { return PatternMatch::Whole(head.len()) };
        let mut at = head.len();
        if hole.lead.is_none() || text.get(at) == hole.lead.as_ref() {
            let holds =
                |byte: &&u8| byte.is_ascii_alphanumeric() || **byte >= 0x80 || hole.others.contains(byte);
            at += text[at..].iter().take(LONGEST_WORD).take_while(holds).count();
        }
        let rest = &text[at..];
        if rest.len() < tail.len() {
            if tail.as_bytes().starts_with(rest) { PatternMatch::Perhaps } else { PatternMatch::No }
        } else if rest.starts_with(tail.as_bytes()) {
            PatternMatch::Whole(at + tail.len())
        } else {
            PatternMatch::No
        }
    }
}

impl<M: Copy> MarkerSet<M> {
    pub(super) fn new() -> Self {
        let mut row_of = Box::new([PLAIN; 256]);
        (0..=u8::MAX).filter(|&byte| is_line(byte)).for_each(|byte| row_of[usize::from(byte)] = LINE);
        (0x80..=u8::MAX).filter(|&byte| begins_mark(byte)).for_each(|byte| row_of[usize::from(byte)] = WIDE);
        Self { rows: Vec::new(), firsts: Vec::new(), row_of, seconds: Vec::new() }
    }

    /// Adds a marker; an empty one is ignored, and the first meaning of a text stays.
    pub(super) fn add(&mut self, text: &str, meaning: M) {
        let pattern = MarkerPattern::new(text);
        let Some(&first) = pattern.head.as_bytes().first() else { return };
        if !self.is_first(first) {
            self.row_of[usize::from(first)] = self.rows.len() as u8;
            self.rows.push(Vec::new());
            self.firsts.push(first);
            self.seconds.push([0; 4]);
        }
        let seconds = &mut self.seconds[usize::from(self.row_of[usize::from(first)])];
        match pattern.head.as_bytes().get(1).filter(|_| !pattern.is_loose) {
            Some(second) => seconds[usize::from(second / 64)] |= 1 << (second % 64),
            None => *seconds = [u64::MAX; 4],
        }
        let row = &mut self.rows[usize::from(self.row_of[usize::from(first)])];
        let lead = &pattern.head[..pattern.head.chars().take(2).map(char::len_utf8).sum()];
        let at = row.iter().position(|(other, _)| other.head == lead).unwrap_or(row.len());
        if at == row.len() {
            row.push((MarkerPattern::new(lead), Vec::new()));
        }
        if row[at].1.iter().all(|(other, _)| other.head != pattern.head || other.tail != pattern.tail) {
            row[at].1.push((pattern, meaning));
        }
    }

    /// Whether a marker begins with that byte.
    pub(super) fn is_first(&self, byte: u8) -> bool {
        self.row_of[usize::from(byte)] < LINE
    }

    /// Whether a marker may begin with the byte at `at`, by it and by the one behind it: letters begin markers, too,
    /// and stand everywhere.
    #[inline]
    fn may_begin_at(&self, bytes: &[u8], at: usize) -> bool {
        let Some(seconds) = self.seconds.get(usize::from(self.row_of[usize::from(bytes[at])])) else {
            return false;
        };
        bytes.get(at + 1).is_none_or(|second| seconds[usize::from(second / 64)] >> (second % 64) & 1 == 1)
    }

    /// Whether nothing in `text` begins a marker, a line, code or a quotation mark.
    #[inline]
    pub(super) fn spare(&self, text: &str) -> bool {
        text.bytes().all(|byte| self.row_of[usize::from(byte)] == PLAIN)
    }

    /// Returns how much of `text` is no marker, line or code: all of it, or all but a last byte that one may begin
    /// with. None if it must be looked at.
    pub(super) fn spared(&self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        if bytes.iter().copied().any(is_line) {
            return None;
        }
        let first = (0..bytes.len()).find(|&at| self.may_begin_at(bytes, at)).unwrap_or(bytes.len());
        let is_spare = first + 1 >= bytes.len() || matches!(self.find(text, false), MarkerMatch::Nothing);
        is_spare.then_some(if first + 1 == bytes.len() { first } else { bytes.len() })
    }

    /// Adds markers of one meaning.
    pub(super) fn add_all<T: AsRef<str>>(&mut self, texts: impl IntoIterator<Item = T>, meaning: M) {
        texts.into_iter().for_each(|text| self.add(text.as_ref(), meaning));
    }

    /// The same with these markers.
    pub(super) fn with<T: AsRef<str>>(mut self, texts: impl IntoIterator<Item = T>, meaning: M) -> Self {
        self.add_all(texts, meaning);
        self
    }

    /// Returns the first marker in `text`; of several at one position the longest. With `is_last`, no more text will
    /// come, so that nothing may still become a marker.
    pub(super) fn find(&self, text: &str, is_last: bool) -> MarkerMatch<M> {
        self.find_up_to(text, text.len(), is_last)
    }

    /// The first marker that begins before `end`.
    pub(super) fn find_up_to(&self, text: &str, end: usize, is_last: bool) -> MarkerMatch<M> {
        let bytes = &text.as_bytes()[..end];
        let mut from = 0;
        while let Some(at) = self.next_first(&bytes[from..]) {
            let at = from + at;
            if !self.may_begin_at(text.as_bytes(), at) {
                from = at + 1;
                continue;
            }
            match self.starting(text.get(at..).unwrap_or_default(), is_last) {
                MarkerMatch::Nothing => from = at + 1,
                MarkerMatch::Perhaps(_) => return MarkerMatch::Perhaps(at),
                MarkerMatch::Marker { len, meaning, .. } => return MarkerMatch::Marker { at, len, meaning },
            }
        }
        MarkerMatch::Nothing
    }

    /// The longest marker right at the start of `text`.
    pub(super) fn starting(&self, text: &str, is_last: bool) -> MarkerMatch<M> {
        let mut best = None;
        let row = match text.as_bytes().first() {
            Some(first) => self.rows.get(usize::from(self.row_of[usize::from(*first)])),
            None if is_last || self.rows.is_empty() => None,
            None => return MarkerMatch::Perhaps(0),
        };
        let alike =
            row.into_iter().flatten().filter(|(lead, _)| !matches!(lead.at_start_of(text), PatternMatch::No));
        for (pattern, meaning) in alike.flat_map(|(_, group)| group) {
            match pattern.at_start_of(text) {
                PatternMatch::No => {}
                PatternMatch::Perhaps if is_last => {}
                PatternMatch::Perhaps => return MarkerMatch::Perhaps(0),
                PatternMatch::Whole(len) => {
                    // An exact spelling ranks above a loose one; a tag of any name ranks lowest.
                    let rank = (pattern.head != "<", len, !pattern.is_loose && pattern.tail.is_none());
                    if best.is_none_or(|(highest, _)| rank > highest) {
                        best = Some((rank, *meaning));
                    }
                }
            }
        }
        best.map_or(MarkerMatch::Nothing, |((_, len, _), meaning)| MarkerMatch::Marker {
            at: 0,
            len,
            meaning,
        })
    }

    fn next_first(&self, bytes: &[u8]) -> Option<usize> {
        match *self.firsts {
            [] => None,
            [one] => memchr::memchr(one, bytes),
            [one, two] => memchr::memchr2(one, two, bytes),
            [one, two, three] => memchr::memchr3(one, two, three, bytes),
            _ => bytes.iter().position(|&byte| self.is_first(byte)),
        }
    }
}
