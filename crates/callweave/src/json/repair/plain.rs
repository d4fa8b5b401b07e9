//! Unambiguous members and elements, read many at a time.
//!
//! Most of a broken document is not broken. This module reads keys, strings, numbers and literals with nothing odd
//! inside them, if the text behind them leaves no doubt about their end either; all else is left to the careful parser,
//! which would come to the same result.

use super::noise::may_be_noise;
use super::parser::{ContainerKind, RepairParser};
use super::{RepairChangeKind, strict};
use crate::json::word::{next_byte, odd_end};

/// A key and its colon.
struct PlainKey {
    start: usize,
    /// The end of its text: before the closing quote, if it has one.
    end: usize,
    /// Its quote, if it has one.
    quote: Option<u8>,
    colon: usize,
}

/// A string, number or literal.
struct PlainScalar {
    start: usize,
    end: usize,
    kind: ScalarKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScalarKind {
    String {
        quote: u8,
    },
    Number,
    /// A literal, in the form of JSON.
    Literal(&'static str),
}

/// The result of reading a value.
enum ReadOutcome {
    /// The value needs the careful parser.
    Nothing,
    /// It was read, but no key behind it.
    Value,
    /// It was read, and a key follows.
    ValueBefore(PlainKey),
}

impl RepairParser<'_> {
    /// Reads members from here on, where a key is due. `false` if there is none that leaves no doubt.
    pub(super) fn plain_members(&mut self) -> bool {
        let Some(key) = self.plain_key(self.at) else { return false };
        self.plain_members_from(key);
        true
    }

    #[inline(never)]
    fn plain_members_from(&mut self, mut key: PlainKey) {
        loop {
            self.take_key(&key);
            match self.read_member_value() {
                ReadOutcome::Nothing | ReadOutcome::Value => return,
                ReadOutcome::ValueBefore(next) => key = next,
            }
        }
    }

    /// Reads the value of a member, and members after it. `false` if that needs the careful parser.
    pub(super) fn plain_member_value(&mut self) -> bool {
        match self.read_member_value() {
            ReadOutcome::Nothing => return false,
            ReadOutcome::Value => {}
            ReadOutcome::ValueBefore(key) => self.plain_members_from(key),
        }
        true
    }

    /// Reads elements from here on, where one is due. `false` if there is none that leaves no doubt.
    pub(super) fn plain_elements(&mut self) -> bool {
        let bytes = self.source.bytes;
        let is_group = matches!(self.innermost(), Some(ContainerKind::Group { .. }));
        let mut is_read = false;
        while let Some(value) = self.scalar(self.at) {
            let (next, byte) = next_byte(bytes, value.end);
            let is_comma = match byte {
                Some(b',') => true,
                Some(b'}' | b']') => false,
                Some(b')') if is_group => false,
                // Only the comma is missing.
                Some(b'-' | b'0'..=b'9' | b'"' | b'\'')
                    if next > value.end && value.kind == ScalarKind::Number =>
                {
                    false
                }
                _ => break,
            };
            self.at = value.start;
            self.begin_item();
            self.take_value(&value);
            is_read = true;
            if !is_comma {
                break;
            }
            self.take_comma(next);
        }
        is_read
    }

    /// Reads the value of a member if it leaves no doubt.
    #[inline(always)]
    fn read_member_value(&mut self) -> ReadOutcome {
        let bytes = self.source.bytes;
        let Some(value) = self.scalar(self.at) else { return ReadOutcome::Nothing };
        let (next, byte) = next_byte(bytes, value.end);
        match byte {
            Some(b'}' | b']') => {
                self.take_value(&value);
                ReadOutcome::Value
            }
            Some(b',') => {
                let (after, byte) = next_byte(bytes, next + 1);
                if let Some(key) = self.plain_key(after) {
                    self.take_value(&value);
                    self.take_comma(next);
                    return ReadOutcome::ValueBefore(key);
                }
                let is_string = matches!(value.kind, ScalarKind::String { .. });
                let is_end = match byte {
                    Some(b'}') => true,
                    Some(b'"' | b'\'') => !is_string,
                    Some(byte) => may_be_noise(byte) && self.is_plain_key(self.source.gap(after).next),
                    None => false,
                };
                if !is_end {
                    return ReadOutcome::Nothing;
                }
                self.take_value(&value);
                self.take_comma(next);
                ReadOutcome::Value
            }
            // Only the comma is missing.
            Some(b'"' | b'\'') if next > value.end && self.is_plain_key(next) => {
                self.take_value(&value);
                ReadOutcome::Value
            }
            _ => ReadOutcome::Nothing,
        }
    }

    /// Whether a key that leaves no doubt stands at `at`, or the end of the object.
    #[inline(never)]
    fn is_plain_key(&self, at: usize) -> bool {
        self.source.byte(at) == Some(b'}') || self.plain_key(at).is_some()
    }

    /// The key at `at`, with quotes or without.
    #[inline(always)]
    fn plain_key(&self, at: usize) -> Option<PlainKey> {
        let bytes = self.source.bytes;
        match bytes.get(at) {
            Some(&quote @ (b'"' | b'\'')) => {
                let end = self.plain_string_end(at, quote)?;
                let (colon, byte) = next_byte(bytes, end + 1);
                let is_key = byte == Some(b':');
                is_key.then_some(PlainKey { start: at, end, quote: Some(quote), colon })
            }
            Some(&byte) if is_name_byte(byte) => {
                let mut end = at + 1;
                while bytes.get(end).is_some_and(|&byte| is_name_byte(byte)) {
                    end += 1;
                }
                let is_key = bytes.get(end) == Some(&b':') && !self.source.starts_with(end, "://");
                is_key.then_some(PlainKey { start: at, end, quote: None, colon: end })
            }
            _ => None,
        }
    }

    /// The string, number or literal from `from` on.
    #[inline(always)]
    fn scalar(&self, from: usize) -> Option<PlainScalar> {
        let (at, byte) = next_byte(self.source.bytes, from);
        let (end, kind) = match byte? {
            quote @ (b'"' | b'\'') => (self.plain_string_end(at, quote)? + 1, ScalarKind::String { quote }),
            b'-' | b'0'..=b'9' => (strict::number_end(self.source.bytes, at)?, ScalarKind::Number),
            byte => {
                let (word, literal) = match byte {
                    b't' => ("true", "true"),
                    b'f' => ("false", "false"),
                    b'n' => ("null", "null"),
                    b'T' => ("True", "true"),
                    b'F' => ("False", "false"),
                    b'N' => ("None", "null"),
                    _ => return None,
                };
                if !self.source.starts_with(at, word) {
                    return None;
                }
                (at + word.len(), ScalarKind::Literal(literal))
            }
        };
        Some(PlainScalar { start: at, end, kind })
    }

    /// The position of the quote that ends the string at `start`, with no escapes, brackets or other quotes on the way.
    #[inline(always)]
    fn plain_string_end(&self, start: usize, quote: u8) -> Option<usize> {
        let end = odd_end(self.source.bytes, start + 1, quote);
        let is_end = self.source.byte(end) == Some(quote);
        // An empty string may be the first half of doubled quotes.
        let is_doubled = end == start + 1 && self.source.byte(end + 1) == Some(quote);
        (is_end && !is_doubled).then_some(end)
    }

    #[inline(always)]
    fn take_key(&mut self, key: &PlainKey) {
        self.at = key.start;
        self.begin_item();
        match key.quote {
            Some(quote) => self.take_quotes(key.start, key.end + 1, quote),
            None => {
                self.change(key.start, key.start, "\"", RepairChangeKind::Quote);
                self.change(key.end, key.end, "\"", RepairChangeKind::Quote);
            }
        }
        self.end_key(key.start, key.end + usize::from(key.quote.is_some()));
        self.end_colon(key.colon + 1);
    }

    #[inline(always)]
    fn take_value(&mut self, value: &PlainScalar) {
        let &PlainScalar { start, end, kind } = value;
        match kind {
            ScalarKind::String { quote } => self.take_quotes(start, end, quote),
            ScalarKind::Number => {}
            ScalarKind::Literal(literal) => {
                if self.source.bytes[start] != literal.as_bytes()[0] {
                    self.change(start, end, literal, RepairChangeKind::Literal);
                }
            }
        }
        self.at = end;
        self.end_value(start, matches!(kind, ScalarKind::String { .. }));
    }

    /// Makes the quotes of the string from `start` to `end` double ones.
    #[inline(always)]
    fn take_quotes(&mut self, start: usize, end: usize, quote: u8) {
        if quote != b'"' {
            self.change(start, start + 1, "\"", RepairChangeKind::Quote);
            self.change(end - 1, end, "\"", RepairChangeKind::Quote);
        }
    }
}

/// Whether `byte` stands in names that leave no doubt.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
