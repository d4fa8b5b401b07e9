//! Lookahead: the tokens that may stand at a position of the text.
//!
//! Every lookahead stops at the next quote or bracket or two, or is remembered, so that it stays linear over the
//! complete text.

use super::bare::literal;
use super::parser::RepairParser;
use super::strict;

/// Whether a key may be one that the end of the text truncates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyStrictness {
    Whole,
    MayBeCut,
}

/// The bytes that end no words.
const IS_IN_WORDS: [bool; 256] = all_but(b",:{}[]\"'`<");

/// All bytes except `ends`, control characters, and bytes that may begin a typographic quote.
pub(super) const fn all_but(ends: &[u8]) -> [bool; 256] {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = false;
        byte += 1;
    }
    let mut place = 0;
    while place < ends.len() {
        table[ends[place] as usize] = false;
        place += 1;
    }
    table[0xC2] = false;
    table[0xE2] = false;
    table[0xEF] = false;
    table
}

/// The first byte from `at` on that is not among `skipped`, or the end.
#[inline]
pub(super) fn skip(bytes: &[u8], mut at: usize, skipped: &[bool; 256]) -> usize {
    while bytes.get(at).is_some_and(|&byte| skipped[usize::from(byte)]) {
        at += 1;
    }
    at
}

impl RepairParser<'_> {
    /// The next position after white space, and whether a line ends before it.
    pub(super) fn space_after(&self, mut at: usize) -> (usize, bool) {
        let mut has_newline = false;
        while let Some(byte) = self.source.byte(at) {
            match byte {
                b'\n' => has_newline = true,
                b' ' | b'\t' | b'\r' => {}
                0x80.. => match self.source.noise(at) {
                    Some((end, _)) => {
                        at = end;
                        continue;
                    }
                    None => break,
                },
                _ => break,
            }
            at += 1;
        }
        (at, has_newline)
    }

    /// Whether the `+` at `plus` joins a string to another one, or to one that did not come.
    pub(super) fn is_joined(&self, plus: usize) -> bool {
        let next = self.source.gap(plus + 1).next;
        next >= self.source.len() || self.source.quote(next).is_some()
    }

    /// Whether the text at `at` can follow a value.
    pub(super) fn is_after_value(&self, at: usize) -> bool {
        let next = self.source.gap(at).next;
        matches!(self.source.byte(next), None | Some(b',' | b'}' | b']' | b':')) || self.source.is_fence(next)
    }

    /// The position after the comma at `at` and the commas that follow it.
    pub(super) fn after_commas(&self, at: usize) -> usize {
        let run = &self.source.bytes[at..];
        let length = run.iter().position(|byte| *byte != b',' && !byte.is_ascii_whitespace());
        at + length.unwrap_or(run.len())
    }

    /// Whether `name =` stands at `at`, in an object whose members have colons: text, then (SQL, code).
    pub(super) fn is_assignment(&self, at: usize) -> bool {
        if self.stack.last().is_none_or(|frame| frame.is_assigning) {
            return false;
        }
        let name = self.source.gap(at).next;
        let end = match self.source.quote(name) {
            Some((_, length)) => {
                self.source.closing_quote(name).map_or(self.source.len(), |close| close + length)
            }
            None => self.key_end(name),
        };
        self.source.byte(self.source.gap(end).next) == Some(b'=')
    }

    /// Whether a quoted key and a colon stand at `at`.
    pub(super) fn is_quoted_member(&self, at: usize) -> bool {
        let key = self.source.gap(at).next;
        let Some(close) = self.source.closing_quote(key) else { return false };
        let Some((_, length)) = self.source.quote(close) else { return false };
        self.source.byte(self.source.gap(close + length).next) == Some(b':')
    }

    /// Whether a member, or the end of an object, may begin at `at`.
    pub(super) fn is_member(&self, at: usize) -> bool {
        let next = self.source.gap(at).next;
        match self.source.byte(next) {
            None | Some(b'}' | b']' | b',') => true,
            Some(b'.') if self.source.starts_with(next, "...") => true,
            Some(_) if self.source.is_fence(next) => true,
            Some(_) if self.source.quote(next).is_some() => {
                self.is_named_member(next) || self.is_last_name(next)
            }
            Some(b'[' | b'{') => true,
            Some(_) => {
                let end = self.key_end(next);
                self.is_bare_key(next, end)
                    || self.half_quoted_key(next, end).is_some()
                    || self.is_key_after_words(next)
            }
        }
    }

    /// Whether a key and a colon stand at `at`, perhaps after words that do not belong there.
    pub(super) fn is_named_member(&self, at: usize) -> bool {
        if self.source.quote(at).is_some() {
            return self.is_quoted_key(at, KeyStrictness::MayBeCut);
        }
        self.is_bare_member(at) || self.is_key_after_words(at)
    }

    /// Whether words that belong to nothing stand at `at`, and a quoted key and a colon after them.
    fn is_key_after_words(&self, at: usize) -> bool {
        let words = self.words_end(at);
        words > at && self.source.quote(words).is_some() && self.is_quoted_key(words, KeyStrictness::Whole)
    }

    /// Whether a quoted key stands at `at`: one with a colon after it, or in it because its quote is
    /// missing.
    fn is_quoted_key(&self, at: usize, strictness: KeyStrictness) -> bool {
        let may_be_cut = strictness == KeyStrictness::MayBeCut;
        let Some(close) = self.source.closing_quote(at) else {
            return may_be_cut && self.words_end(at + 1) == self.source.len();
        };
        let Some((_, length)) = self.source.quote(close) else { return false };
        match self.source.byte(self.source.gap(close + length).next) {
            Some(b':' | b'=') => true,
            None => may_be_cut,
            Some(_) => {
                let name_start = self.source.quote(at).map_or(at, |(_, length)| at + length);
                let colon = self.source.before(close, name_start);
                colon.is_some_and(|(colon, _)| self.source.bytes[colon] == b':' && colon > name_start)
            }
        }
    }

    /// Whether a quoted name stands at `at` with nothing but the end of the object after it.
    fn is_last_name(&self, at: usize) -> bool {
        let Some(close) = self.source.closing_quote(at) else { return false };
        let Some((_, length)) = self.source.quote(close) else { return false };
        self.source.byte(self.source.gap(close + length).next) == Some(b'}')
    }

    /// Whether two quoted strings stand at `at`: a key and a value that miss their colon.
    pub(super) fn is_pair(&self, at: usize) -> bool {
        let Some(close) = self.source.quote(at).and_then(|_| self.source.closing_quote(at)) else {
            return false;
        };
        let Some((_, length)) = self.source.quote(close) else { return false };
        self.source.quote(self.source.gap(close + length).next).is_some()
    }

    /// The position of the colon, if the text from `at` to `end` is a key that has lost its opening quote.
    fn half_quoted_key(&self, at: usize, end: usize) -> Option<usize> {
        let (_, length) = self.source.quote(end).filter(|_| end > at)?;
        let colon = self.source.gap(end + length).next;
        (self.source.byte(colon) == Some(b':')).then_some(colon)
    }

    /// Whether a key that misses a quote or both, a colon, and a value that is surely one stand at `at`.
    pub(super) fn is_bare_member_with_value(&self, at: usize) -> bool {
        let end = self.key_end(at);
        let bare = || {
            let colon = self.source.gap(end).next;
            (self.source.byte(colon) == Some(b':') && self.is_bare_key(at, end)).then_some(colon)
        };
        let Some(colon) = self.half_quoted_key(at, end).or_else(bare) else { return false };
        let value = self.source.gap(colon + 1).next;
        let end = match self.source.byte(value) {
            Some(b'{' | b'[') => return true,
            Some(_) if self.source.quote(value).is_some() => return true,
            Some(b'-' | b'0'..=b'9') => strict::number_end(self.source.bytes, value),
            _ => {
                let end = self.word_end(value);
                literal(&self.source.text[value..end]).map(|_| end)
            }
        };
        end.is_some_and(|end| self.is_after_value(end))
    }

    /// The end of the characters from `at` on that may be part of a key without quotes.
    #[inline]
    fn key_end(&self, at: usize) -> usize {
        let letters = &self.source.bytes[at.min(self.source.len())..];
        at + letters.iter().take_while(|&&byte| is_key_byte(byte)).count()
    }

    /// Whether a key without quotes and a colon stand at `at`.
    pub(super) fn is_bare_member(&self, at: usize) -> bool {
        self.is_bare_key(at, self.key_end(at))
    }

    /// Whether the text from `at` to `end` is a key without quotes, with a colon after it.
    fn is_bare_key(&self, at: usize, end: usize) -> bool {
        let colon = self.source.gap(end).next;
        end > at
            && match self.source.byte(colon) {
                Some(b':') => !self.source.starts_with(colon, "://"),
                Some(b'=') => self.source.byte(colon + 1) != Some(b'='),
                _ => false,
            }
    }

    /// Whether an element of an array may begin at `at`, or the array may end there.
    pub(super) fn is_element(&self, at: usize) -> bool {
        let next = self.source.gap(at).next;
        match self.source.byte(next) {
            None | Some(b'{' | b'[' | b']' | b'(' | b')' | b'}' | b'-' | b'0'..=b'9') => true,
            Some(_) => self.source.quote(next).is_some(),
        }
    }

    /// Whether a quoted element stands at `at`, with a comma or the end of the array after it.
    pub(super) fn is_quoted_element(&self, at: usize) -> bool {
        let Some(close) = self.source.closing_quote(at) else { return false };
        let Some((_, length)) = self.source.quote(close) else { return false };
        matches!(self.source.byte(self.source.gap(close + length).next), Some(b',' | b']') | None)
    }

    /// The end of the words from `at`: the next quote, bracket, comma, colon or end of line.
    pub(super) fn words_end(&self, mut at: usize) -> usize {
        loop {
            at = skip(self.source.bytes, at, &IS_IN_WORDS);
            let Some(byte) = self.source.byte(at) else { break };
            match byte {
                b',' | b':' | b'{' | b'}' | b'[' | b']' | b'\n' | b'"' => break,
                b'`' | b'<' | 0xC2 | 0xE2 | 0xEF
                    if self.source.quote(at).is_some() || self.source.is_fence(at) =>
                {
                    break;
                }
                // An apostrophe inside a word is no quote.
                b'\'' if at == 0 || !self.source.bytes[at - 1].is_ascii_alphanumeric() => break,
                b'\'' if !self.source.byte(at + 1).is_some_and(|next| next.is_ascii_alphanumeric()) => break,
                _ => at += 1,
            }
        }
        at
    }
}

/// Whether `byte` may stand in a key without quotes.
pub(super) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-' | b'.') || byte >= 0x80
}
