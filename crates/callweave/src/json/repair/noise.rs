//! Text between the tokens: white space of all sorts, comments, special tokens of models.

use std::cell::Cell;

use super::RepairChangeKind;

/// The text with its noise. Searches for the end of a comment or string are remembered, so that looking ahead again and
/// again over the same one costs nothing.
pub(super) struct NoisySource<'t> {
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
    block_end: Cell<(usize, usize)>,
    markup_end: Cell<(usize, usize)>,
    line_end: Cell<(usize, usize)>,
    /// The start and end of the last search over lines of comments.
    comments: Cell<(usize, usize)>,
    /// For each kind of quote, the start and end of the last search for a closing one.
    closing: [Cell<(usize, usize)>; 5],
    /// The number of bytes that may still be looked at in search of matching brackets, which is not remembered.
    matching_left: Cell<usize>,
}

/// The position behind white space and comments.
#[derive(Clone, Copy)]
pub(super) struct TextGap {
    pub(super) next: usize,
    pub(super) has_newline: bool,
}

/// The maximum length of a special token that is recognised.
const LONGEST_TOKEN: usize = 64;

/// The maximum number of looks at each byte, on average, in search of matching brackets.
const MATCHING_PER_BYTE: usize = 8;

/// The special token that stands for a quote.
const QUOTE_TOKEN: &str = "<|\"|>";

/// Whether `byte` may begin noise other than the white space of JSON.
#[inline]
pub(super) fn may_be_noise(byte: u8) -> bool {
    matches!(byte, b'/' | b'#' | b'<' | 0..0x20 | 0x7f..)
}

/// A kind of quote, as an opening one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteKind {
    Double,
    Single,
    DoubleLike,
    SingleLike,
    Token,
}

impl QuoteKind {
    /// The position of a double quote in it, which has to be escaped in a string.
    pub(super) fn double_quote(self) -> Option<usize> {
        match self {
            Self::Double => Some(0),
            Self::Token => QUOTE_TOKEN.find('"'),
            Self::Single | Self::DoubleLike | Self::SingleLike => None,
        }
    }

    /// Whether `other` can end a string that this one began.
    pub(super) fn is_closed_by(self, other: Self) -> bool {
        match self {
            Self::Double => other == Self::Double,
            Self::Single => other == Self::Single,
            Self::DoubleLike => matches!(other, Self::Double | Self::DoubleLike),
            Self::SingleLike => matches!(other, Self::Single | Self::SingleLike),
            Self::Token => other == Self::Token,
        }
    }
}

/// The next step after a look at a byte.
enum SearchStep {
    Found,
    Nothing,
    Further,
}

impl<'t> NoisySource<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        // An empty range remembers nothing.
        let nothing = || Cell::new((usize::MAX, 0));
        Self {
            text,
            bytes: text.as_bytes(),
            block_end: nothing(),
            markup_end: nothing(),
            line_end: nothing(),
            comments: nothing(),
            closing: std::array::from_fn(|_| nothing()),
            matching_left: Cell::new(text.len().saturating_mul(MATCHING_PER_BYTE)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    pub(super) fn starts_with(&self, at: usize, what: &str) -> bool {
        self.bytes[at.min(self.len())..].starts_with(what.as_bytes())
    }

    /// The character at `at`, which is a character boundary.
    pub(super) fn char(&self, at: usize) -> Option<char> {
        self.text.get(at..)?.chars().next()
    }

    /// The quote at `at` and its length. Three backticks are a fence, not quotes.
    #[inline]
    pub(super) fn quote(&self, at: usize) -> Option<(QuoteKind, usize)> {
        Some(match self.byte(at)? {
            b'"' => (QuoteKind::Double, 1),
            b'\'' => (QuoteKind::Single, 1),
            b'`' if !self.is_fence(at) => (QuoteKind::SingleLike, 1),
            b'<' if self.starts_with(at, QUOTE_TOKEN) => (QuoteKind::Token, QUOTE_TOKEN.len()),
            0x80.. => match self.char(at)? {
                quote @ ('\u{2018}'..='\u{201B}' | '´') => (QuoteKind::SingleLike, quote.len_utf8()),
                quote @ ('\u{201C}'..='\u{201F}' | '«' | '»' | '＂') => {
                    (QuoteKind::DoubleLike, quote.len_utf8())
                }
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The position of the quote that closes the one at `at`, by quotes alone.
    pub(super) fn closing_quote(&self, at: usize) -> Option<usize> {
        let (open, length) = self.quote(at)?;
        let memory = &self.closing[open as usize];
        let (from, end) = memory.get();
        // A quote inside the searched range is an escaped one: the search would go the same way.
        if !(from..end).contains(&at) {
            memory.set((at, self.find_closing(open, at + length)));
        }
        let (_, close) = memory.get();
        (close < self.len()).then_some(close)
    }

    /// The next quote from `at` that closes `open`, or the end of the text.
    fn find_closing(&self, open: QuoteKind, mut at: usize) -> usize {
        let plain = match open {
            QuoteKind::Double => Some(b'"'),
            QuoteKind::Single => Some(b'\''),
            QuoteKind::DoubleLike | QuoteKind::SingleLike | QuoteKind::Token => None,
        };
        if let Some(quote) = plain {
            while let Some(run) = memchr::memchr2(quote, b'\\', self.bytes.get(at..).unwrap_or_default()) {
                at += run;
                if self.bytes[at] == quote {
                    return at;
                }
                at += 2;
            }
            return self.len();
        }
        while let Some(byte) = self.byte(at) {
            match byte {
                b'\\' => at += 1,
                b'"' | b'\'' | b'`' | b'<' | 0xC2 | 0xE2 | 0xEF
                    if self.quote(at).is_some_and(|(quote, _)| open.is_closed_by(quote)) =>
                {
                    return at;
                }
                _ => {}
            }
            at += 1;
        }
        self.len()
    }

    /// The position behind the bracket that closes the one at `at`, in the same line and outside of quotes.
    pub(super) fn bracket_end(&self, at: usize) -> Option<usize> {
        let open = self.byte(at)?;
        let close = if open == b'(' { b')' } else { open + 2 };
        let mut depth = 0usize;
        let end = self.search(at, |byte| {
            match byte {
                b'\n' => return SearchStep::Nothing,
                _ if byte == open => depth += 1,
                _ if byte == close => depth -= 1,
                _ => {}
            }
            if depth == 0 { SearchStep::Found } else { SearchStep::Further }
        });
        end.map(|end| end + 1)
    }

    /// The position of the comma or parenthesis that ends the first argument after the parenthesis at `paren`.
    pub(super) fn argument_end(&self, paren: usize) -> Option<usize> {
        let argument = self.gap(paren + 1).next;
        let start = match self.quote(argument) {
            Some((_, length)) => self.closing_quote(argument)? + length,
            None => argument,
        };
        let mut depth = 0usize;
        self.search(start, |byte| {
            match byte {
                b'{' | b'[' | b'(' => depth += 1,
                b',' | b')' if depth == 0 => return SearchStep::Found,
                b'}' | b']' if depth == 0 => return SearchStep::Nothing,
                b'}' | b']' | b')' => depth -= 1,
                _ => {}
            }
            SearchStep::Further
        })
    }

    /// Calls `look` with the bytes from `start` on that are outside of quotes; returns the position where it found its
    /// target.
    fn search(&self, start: usize, mut look: impl FnMut(u8) -> SearchStep) -> Option<usize> {
        let left = self.matching_left.get();
        let mut at = start;
        let found = loop {
            let Some(byte) = self.byte(at).filter(|_| at - start < left) else { break None };
            match byte {
                b'"' => match self.closing_quote(at) {
                    Some(close) => at = close,
                    None => break None,
                },
                _ => match look(byte) {
                    SearchStep::Found => break Some(at),
                    SearchStep::Nothing => break None,
                    SearchStep::Further => {}
                },
            }
            at += 1;
        };
        self.matching_left.set(left.saturating_sub(at - start));
        found
    }

    /// Whether a mark of a fenced block stands at `at`.
    #[inline]
    pub(super) fn is_fence(&self, at: usize) -> bool {
        self.byte(at) == Some(b'`') && self.starts_with(at, "```")
    }

    /// The noise at `at`: its end, and the kind of change that removes it (white space that JSON knows is not removed
    /// and has none).
    pub(super) fn noise(&self, at: usize) -> Option<(usize, Option<RepairChangeKind>)> {
        Some(match self.byte(at)? {
            b' ' | b'\n' | b'\r' | b'\t' => (at + 1, None),
            b'/' => match self.byte(at + 1)? {
                b'*' => (self.find(&self.block_end, at + 2, "*/"), Some(RepairChangeKind::Comment)),
                b'/' => (self.line_end(at), Some(RepairChangeKind::Comment)),
                _ => return None,
            },
            b'#' => (self.line_end(at), Some(RepairChangeKind::Comment)),
            b'<' if self.starts_with(at, "<!--") => {
                (self.find(&self.markup_end, at + 4, "-->"), Some(RepairChangeKind::Comment))
            }
            b'<' => (self.token(at)?, Some(RepairChangeKind::Token)),
            0..0x20 | 0x7f => (at + 1, Some(RepairChangeKind::Space)),
            0x80.. => match self.char(at)? {
                space @ ('\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}' | '\u{180E}') => {
                    (at + space.len_utf8(), Some(RepairChangeKind::Space))
                }
                space if space.is_whitespace() => (at + space.len_utf8(), Some(RepairChangeKind::Space)),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Whether a block comment that has an end begins at `at`; `/*/` is a piece of a path.
    pub(super) fn is_block_comment(&self, at: usize) -> bool {
        self.starts_with(at, "/*") && self.byte(at + 2) != Some(b'/') && {
            let end = self.find(&self.block_end, at + 2, "*/");
            end >= at + 4 && self.bytes[..end].ends_with(b"*/")
        }
    }

    /// The end of the special token that begins at `at`.
    pub(super) fn token(&self, at: usize) -> Option<usize> {
        if self.starts_with(at, QUOTE_TOKEN) {
            return None;
        }
        let (open, close) = if self.starts_with(at, "<|") {
            ("<|", "|>")
        } else if self.starts_with(at, "<｜") {
            ("<｜", "｜>")
        } else {
            return None;
        };
        let from = at + open.len();
        let until = (from + LONGEST_TOKEN).min(self.len());
        let inside = &self.bytes[from..until];
        let length = memchr::memmem::find(inside, close.as_bytes())?;
        let is_name = !inside[..length].iter().any(|byte| matches!(byte, b'\n' | b'"' | b'{' | b'}' | b'<'));
        is_name.then_some(from + length + close.len())
    }

    /// The position behind one space at `at`, or `at`, if no further noise can stand there.
    #[inline]
    pub(super) fn short_gap(&self, at: usize) -> Option<usize> {
        let next = if self.bytes.get(at) == Some(&b' ') { at + 1 } else { at };
        self.bytes.get(next).filter(|&&byte| byte > b' ' && !may_be_noise(byte)).map(|_| next)
    }

    /// Skips noise from `at`.
    #[inline]
    pub(super) fn gap(&self, at: usize) -> TextGap {
        match self.short_gap(at) {
            Some(next) => TextGap { next, has_newline: false },
            None => self.long_gap(at),
        }
    }

    #[inline(never)]
    fn long_gap(&self, mut at: usize) -> TextGap {
        let mut has_newline = false;
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b' ' | b'\t' | b'\r' => at += 1,
                b'\n' => {
                    has_newline = true;
                    at += 1;
                }
                b'#' | b'/' if self.is_line_comment(at) => {
                    let next = self.line_comments_end(at);
                    has_newline |= next > self.line_end(at);
                    at = next;
                }
                _ => match may_be_noise(byte).then(|| self.noise(at)).flatten() {
                    Some((end, _)) => at = end,
                    None => break,
                },
            }
        }
        TextGap { next: at, has_newline }
    }

    fn is_line_comment(&self, at: usize) -> bool {
        self.byte(at) == Some(b'#') || self.starts_with(at, "//")
    }

    /// The end of the lines of comments that begin at `at`, with the white space between them.
    fn line_comments_end(&self, at: usize) -> usize {
        let mut end = self.line_end(at);
        let (from, until) = self.comments.get();
        // The end of a line among lines of comments is the end of one of them: the rest is known.
        if (from..until).contains(&end) {
            return until;
        }
        let from = end;
        loop {
            let next = self.ascii_space(end);
            if next == end || !self.is_line_comment(next) {
                break;
            }
            end = self.line_end(next);
        }
        self.comments.set((from, end));
        end
    }

    /// Skips the white space that JSON knows.
    #[inline]
    pub(super) fn ascii_space(&self, mut at: usize) -> usize {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(at) {
            at += 1;
        }
        at
    }

    /// The last position before `at` that is no white space, and whether a line ends in between.
    pub(super) fn before(&self, at: usize, floor: usize) -> Option<(usize, bool)> {
        let mut has_newline = false;
        let mut place = at;
        while place > floor {
            place -= 1;
            match self.bytes[place] {
                b'\n' => has_newline = true,
                b' ' | b'\t' | b'\r' => {}
                _ => return Some((place, has_newline)),
            }
        }
        None
    }

    /// The end of the line that `at` is in, before its line break.
    pub(super) fn line_end(&self, at: usize) -> usize {
        let end = self.find(&self.line_end, at, "\n");
        if self.byte(end.saturating_sub(1)) == Some(b'\n') && end > at { end - 1 } else { end }
    }

    /// The end of the next `needle` from `at`, or of the text.
    fn find(&self, memory: &Cell<(usize, usize)>, at: usize, needle: &str) -> usize {
        let (from, end) = memory.get();
        if (from..end).contains(&at) && end - at >= needle.len() {
            return end;
        }
        let rest = &self.bytes[at.min(self.len())..];
        let end =
            memchr::memmem::find(rest, needle.as_bytes()).map_or(self.len(), |run| at + run + needle.len());
        memory.set((at, end));
        end
    }
}
