//! Finding markers in text that comes in pieces.
//!
//! All live markers are searched in one pass. What stands at the end of the text and may still become
//! a marker is told apart from what cannot, so that a caller holds back no more than it must.

/// A set of markers, each with what it means.
#[derive(Clone, Debug, Default)]
pub(super) struct Markers<M> {
    patterns: Vec<(Pattern, M)>,
    /// The distinct first bytes.
    firsts: Vec<u8>,
    is_first: Box<[bool]>,
}

#[derive(Clone, Debug)]
struct Pattern {
    head: String,
    /// What stands between the two, and what comes after it.
    tail: Option<(Hole, String)>,
    /// Whether it is found in other spellings, too.
    is_loose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    /// An optional `:word`.
    Suffix,
    /// An optional name.
    Word,
    /// Numbers, with whatever stands between them.
    Numbers,
}

impl Hole {
    fn holds(self, byte: u8) -> bool {
        match self {
            Self::Suffix | Self::Word => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':') || byte >= 0x80
            }
            Self::Numbers => byte.is_ascii_digit() || matches!(byte, b' ' | b',' | b':' | b'[' | b']'),
        }
    }
}

/// What was found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<M> {
    /// No marker, nor the beginning of one.
    Nothing,
    /// From here on it may become a marker.
    Perhaps(usize),
    /// A marker, where it begins and how long it is.
    Marker { at: usize, len: usize, meaning: M },
}

enum Match {
    No,
    Perhaps,
    Whole(usize),
}

/// Whether a marker can be searched for: it begins with text, and not with what stands for something else.
pub(super) fn may_begin(text: &str) -> bool {
    !Pattern::new(text).head.is_empty()
}

/// Stands for an optional `:word` in a marker.
pub(super) const SUFFIX: &str = "{suffix}";
const HOLES: [(&str, Hole); 3] =
    [(SUFFIX, Hole::Suffix), ("{word}", Hole::Word), ("{numbers}", Hole::Numbers)];
const LONGEST_WORD: usize = 128;

/// The ASCII spelling of a marker with bars and blanks that few keyboards have.
pub(super) fn in_ascii(text: &str) -> String {
    text.replace('｜', "|").replace('▁', "_")
}

/// Whether `text` begins with a marker in any spelling of its bars and blanks: one bar or two, of any width, with
/// blanks around them.
fn begins_loosely(marker: &str, text: &str) -> Match {
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
                    0 if !open.is_empty() => return Match::No,
                    _ => close.strip_prefix(' ').unwrap_or(close),
                }
            }
            '▁' => rest.strip_prefix(['▁', '_', ' ']).unwrap_or(rest),
            wanted => rest.strip_prefix(wanted).unwrap_or(rest),
        };
        // Where the text ends, more of the same may come.
        if rest.is_empty() && (before.is_empty() || wanted == '｜') {
            return Match::Perhaps;
        }
        if rest.len() == before.len() {
            return Match::No;
        }
    }
    Match::Whole(text.len() - rest.len())
}

impl Pattern {
    fn new(text: &str) -> Self {
        for (written, hole) in HOLES {
            if let Some((head, tail)) = text.split_once(written) {
                return Self { head: head.to_owned(), tail: Some((hole, tail.to_owned())), is_loose: false };
            }
        }
        Self { head: text.to_owned(), tail: None, is_loose: text.contains(['｜', '▁']) }
    }

    fn at_start_of(&self, text: &str) -> Match {
        if self.is_loose {
            return begins_loosely(&self.head, text);
        }
        let text = text.as_bytes();
        let head = self.head.as_bytes();
        if text.len() < head.len() {
            return if head.starts_with(text) { Match::Perhaps } else { Match::No };
        }
        if !text.starts_with(head) {
            return Match::No;
        }
        let Some((hole, tail)) = &self.tail else { return Match::Whole(head.len()) };
        let mut at = head.len();
        if *hole != Hole::Suffix || text.get(at) == Some(&b':') {
            at += text[at..].iter().take(LONGEST_WORD).take_while(|&&byte| hole.holds(byte)).count();
        }
        let rest = &text[at..];
        if rest.len() < tail.len() {
            if tail.as_bytes().starts_with(rest) { Match::Perhaps } else { Match::No }
        } else if rest.starts_with(tail.as_bytes()) {
            Match::Whole(at + tail.len())
        } else {
            Match::No
        }
    }
}

impl<M: Copy> Markers<M> {
    pub(super) fn new() -> Self {
        Self { patterns: Vec::new(), firsts: Vec::new(), is_first: vec![false; 256].into() }
    }

    /// Adds a marker; an empty one is ignored, and the first meaning of a text stays.
    pub(super) fn add(&mut self, text: &str, meaning: M) {
        let Some(&first) = text.as_bytes().first() else { return };
        let pattern = Pattern::new(text);
        if self.patterns.iter().any(|(other, _)| other.head == pattern.head && other.tail == pattern.tail) {
            return;
        }
        self.patterns.push((pattern, meaning));
        if !self.is_first[usize::from(first)] {
            self.is_first[usize::from(first)] = true;
            self.firsts.push(first);
        }
    }

    /// Whether a marker begins with that byte.
    pub(super) fn is_first(&self, byte: u8) -> bool {
        self.is_first[usize::from(byte)]
    }

    pub(super) fn from_texts<'t>(texts: impl IntoIterator<Item = &'t str>, meaning: M) -> Self {
        let mut markers = Self::new();
        for text in texts {
            markers.add(text, meaning);
        }
        markers
    }

    /// The first marker in `text`; of several at one place the longest. With `is_last`, no more text
    /// will come, so that nothing may still become a marker.
    pub(super) fn find(&self, text: &str, is_last: bool) -> Found<M> {
        self.find_up_to(text, text.len(), is_last)
    }

    /// The first marker that begins before `end`.
    pub(super) fn find_up_to(&self, text: &str, end: usize, is_last: bool) -> Found<M> {
        let bytes = &text.as_bytes()[..end];
        let mut from = 0;
        while let Some(at) = self.next_first(&bytes[from..]) {
            let at = from + at;
            match self.starting(text.get(at..).unwrap_or_default(), is_last) {
                Found::Nothing => from = at + 1,
                Found::Perhaps(_) => return Found::Perhaps(at),
                Found::Marker { len, meaning, .. } => return Found::Marker { at, len, meaning },
            }
        }
        Found::Nothing
    }

    /// The longest marker right at the start of `text`.
    pub(super) fn starting(&self, text: &str, is_last: bool) -> Found<M> {
        let mut best = None;
        let first = text.as_bytes().first();
        for (pattern, meaning) in &self.patterns {
            if first.is_some() && first != pattern.head.as_bytes().first() {
                continue;
            }
            match pattern.at_start_of(text) {
                Match::No => {}
                Match::Perhaps if is_last => {}
                Match::Perhaps => return Found::Perhaps(0),
                Match::Whole(len) => {
                    // Whose own spelling it is has the better claim.
                    let rank = (len, !pattern.is_loose);
                    if best.is_none_or(|(highest, _)| rank > highest) {
                        best = Some((rank, *meaning));
                    }
                }
            }
        }
        best.map_or(Found::Nothing, |((len, _), meaning)| Found::Marker { at: 0, len, meaning })
    }

    fn next_first(&self, bytes: &[u8]) -> Option<usize> {
        match *self.firsts {
            [] => None,
            [one] => memchr::memchr(one, bytes),
            [one, two] => memchr::memchr2(one, two, bytes),
            [one, two, three] => memchr::memchr3(one, two, three, bytes),
            _ => bytes.iter().position(|&byte| self.is_first[usize::from(byte)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_marker_at_the_first_place_wins() {
        let mut markers = Markers::new();
        markers.add("<think>", 1);
        markers.add("<tool_call{suffix}>", 2);
        markers.add("<tool", 3);
        assert_eq!(markers.find("a < b", false), Found::Nothing);
        assert_eq!(markers.find("a <thi", false), Found::Perhaps(2));
        assert_eq!(markers.find("a <thi", true), Found::Nothing);
        assert_eq!(markers.find("<tool_call:ab>", false), Found::Marker { at: 0, len: 14, meaning: 2 });
        assert_eq!(markers.find("<tool_call:a", false), Found::Perhaps(0));
        assert_eq!(markers.find("<tool_call:a b", false), Found::Marker { at: 0, len: 5, meaning: 3 });
    }
}
