//! The role of a quote inside a string.
//!
//! It ends the string only if the text behind it can follow a string there; else it belongs to the text and is escaped.

use super::ahead::is_key_byte;
use super::escape::BackslashReading;
use super::noise::QuoteKind;
use super::parser::{ContainerKind, RepairParser};
use super::string::StringContext;

/// The role of a quote inside a string.
pub(super) enum QuoteRole {
    End,
    /// The end, together with the quote right after it, up to this position.
    DoubledEnd(usize),
    Inner,
    /// The string should have ended before this position: its quote is missing.
    EndedAt(usize),
}

/// The state of reading a string.
pub(super) struct StringReading {
    pub(super) open: QuoteKind,
    pub(super) start: usize,
    pub(super) is_doubled: bool,
    /// Whether a quotation inside the string has been opened and not closed.
    pub(super) is_quoting: bool,
    /// Brackets opened inside the string and not closed: `{`, `[`.
    pub(super) braces: u32,
    pub(super) brackets: u32,
    pub(super) last_comma: Option<usize>,
    pub(super) last_quote: usize,
    pub(super) first_colon: Option<usize>,
    /// Quotes before this position are text: JSON was pasted in there.
    pub(super) embedded_until: usize,
    /// The reading of the string's backslashes, once one that matters was met.
    pub(super) backslashes: Option<BackslashReading>,
}

impl RepairParser<'_> {
    /// The end of the JSON that was pasted into the string without escapes, if its first quote stands at `at`. Text
    /// that is no JSON to its last bracket is not followed far.
    pub(super) fn embedded_end(
        &mut self,
        context: StringContext,
        reading: &StringReading,
        at: usize,
    ) -> Option<usize> {
        if !matches!(context, StringContext::Member | StringContext::Element)
            || at < reading.embedded_until
            || self.searches_left == 0
        {
            return None;
        }
        let (bracket, _) = self.source.before(at, reading.start)?;
        let is_json = match self.source.bytes[bracket] {
            b'{' => self.is_quoted_member(at),
            b'[' => self.is_quoted_element(at),
            _ => false,
        };
        if !is_json {
            return None;
        }
        let end = self.balanced_end(bracket).filter(|&end| {
            let quotes = (end..self.source.len()).filter_map(|place| self.source.quote(place));
            quotes.map(|(quote, _)| quote).any(|quote| reading.open.is_closed_by(quote))
        });
        if end.is_none() {
            self.searches_left -= 1;
        }
        end
    }

    /// The end of the container that the bracket at `at` opens, by brackets and quotes alone.
    fn balanced_end(&self, mut at: usize) -> Option<usize> {
        let mut depth = 0usize;
        loop {
            match self.source.byte(at)? {
                b'"' => at = self.source.closing_quote(at)?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }

    /// Whether the inner quote at `at` opens a quotation.
    pub(super) fn opens_quotation(&self, reading: &StringReading, at: usize) -> bool {
        let is_after_space = at == reading.start
            || matches!(self.source.bytes[at - 1], b' ' | b'\t' | b'\n' | b'(' | b'[' | b'{');
        !reading.is_quoting && is_after_space
    }

    /// Returns the role of the quote from `at` to `end` in the string that is being read.
    pub(super) fn role(
        &mut self,
        context: StringContext,
        reading: &StringReading,
        at: usize,
        end: usize,
    ) -> QuoteRole {
        if reading.is_doubled
            && let Some((quote, length)) = self.source.quote(end)
            && reading.open.is_closed_by(quote)
        {
            return QuoteRole::DoubledEnd(end + length);
        }
        let (next, has_newline) = self.space_after(end);
        let Some(byte) = self.source.byte(next) else { return QuoteRole::End };
        let is_noise = match byte {
            b'/' => matches!(self.source.byte(next + 1), Some(b'*' | b'/')),
            b'#' => next > end,
            b'<' => self.source.starts_with(next, "<!--") || self.source.token(next).is_some(),
            b'`' => self.source.is_fence(next),
            _ => false,
        };
        if is_noise || (byte == b'+' && self.is_joined(next)) {
            return QuoteRole::End;
        }
        match context {
            StringContext::Key => self.role_in_key(reading, at, next, byte),
            StringContext::Member => self.role_in_member(reading, at, end, next, byte, has_newline),
            StringContext::Element => self.role_in_element(reading, at, end, next, byte, has_newline),
            StringContext::Root => self.role_in_root(reading, end, next, byte, has_newline),
        }
    }

    fn role_in_key(&self, reading: &StringReading, at: usize, next: usize, byte: u8) -> QuoteRole {
        if matches!(byte, b':' | b'=' | b',' | b'}' | b']' | b'{' | b'[') {
            return QuoteRole::End;
        }
        if let Some((colon, _)) = self.source.before(at, reading.start)
            && self.source.bytes[colon] == b':'
        {
            return QuoteRole::EndedAt(colon);
        }
        if self.source.quote(next).is_some() {
            return QuoteRole::End;
        }
        let words = self.words_end(next);
        match self.source.quote(words) {
            Some((_, length)) if self.source.byte(self.source.gap(words + length).next) == Some(b':') => {
                // A comma before the quote: the key ended at its colon, and this is the next one.
                let is_after_comma = self
                    .source
                    .before(at, reading.start)
                    .is_some_and(|(place, _)| self.source.bytes[place] == b',');
                reading.first_colon.filter(|_| is_after_comma).map_or(QuoteRole::Inner, QuoteRole::EndedAt)
            }
            _ => QuoteRole::End,
        }
    }

    fn role_in_member(
        &self,
        reading: &StringReading,
        at: usize,
        end: usize,
        next: usize,
        byte: u8,
        has_newline: bool,
    ) -> QuoteRole {
        match byte {
            b'}' | b']' | b')' => return self.role_before_bracket(reading, next, byte),
            b',' if reading.is_quoting && self.is_assignment(next + 1) => return QuoteRole::Inner,
            b',' if self.is_member(self.after_commas(next)) => return QuoteRole::End,
            b',' | b':' => return QuoteRole::Inner,
            b';' if reading.braces == 0
                && (self.is_after_value(next + 1) || self.is_quoted_member(next + 1)) =>
            {
                return QuoteRole::End;
            }
            _ => {}
        }
        if let Some((_, length)) = self.source.quote(next) {
            let is_end = self.is_named_member(next) || (has_newline && !self.is_after_value(next + length));
            return if is_end { QuoteRole::End } else { QuoteRole::Inner };
        }
        if has_newline && self.is_member(next) {
            return QuoteRole::End;
        }
        if let Some((place, is_on_new_line)) = self.source.before(at, reading.start) {
            match self.source.bytes[place] {
                b',' if self.is_named_member(at) => return QuoteRole::EndedAt(place),
                b':' if self.is_bare_key_before(reading, place) => {
                    return reading.last_comma.map_or(QuoteRole::Inner, QuoteRole::EndedAt);
                }
                _ if is_on_new_line && self.is_named_member(at) => return QuoteRole::EndedAt(place + 1),
                _ => {}
            }
        }
        let is_first_quote = reading.last_quote == reading.start;
        if is_first_quote
            && self.is_before_space(reading, at, end, next)
            && self.is_bare_member_with_value(next)
        {
            return QuoteRole::End;
        }
        if self.looks_closing(reading, at, end, next) {
            let words = self.words_end(next);
            let is_end = match self.source.byte(words) {
                Some(b'}' | b']') => true,
                Some(b',') => self.is_named_member(self.source.gap(words + 1).next),
                Some(_) => self.source.quote(words).is_some() && self.is_named_member(words),
                None => false,
            };
            if is_end {
                return QuoteRole::End;
            }
        }
        QuoteRole::Inner
    }

    fn role_in_element(
        &self,
        reading: &StringReading,
        at: usize,
        end: usize,
        next: usize,
        byte: u8,
        has_newline: bool,
    ) -> QuoteRole {
        match byte {
            b'}' | b']' | b')' => return self.role_before_bracket(reading, next, byte),
            b',' if !reading.is_quoting || self.is_element(next + 1) => return QuoteRole::End,
            b',' => return QuoteRole::Inner,
            b':' | b';' if !reading.is_quoting => return QuoteRole::End,
            _ => {}
        }
        if let Some((_, length)) = self.source.quote(next) {
            let is_inner = reading.is_quoting || (next == end && self.is_after_value(next + length));
            return if is_inner { QuoteRole::Inner } else { QuoteRole::End };
        }
        if has_newline {
            return QuoteRole::End;
        }
        if let Some((place, _)) = self.source.before(at, reading.start)
            && self.source.bytes[place] == b','
            && self.is_quoted_element(at)
        {
            return QuoteRole::EndedAt(place);
        }
        if self.looks_closing(reading, at, end, next) { QuoteRole::End } else { QuoteRole::Inner }
    }

    fn role_in_root(
        &self,
        reading: &StringReading,
        end: usize,
        next: usize,
        byte: u8,
        has_newline: bool,
    ) -> QuoteRole {
        match byte {
            b'}' if reading.braces > 0 => QuoteRole::Inner,
            b']' if reading.brackets > 0 => QuoteRole::Inner,
            b'}' | b']' | b':' | b';' => QuoteRole::End,
            b',' if self.is_element(next + 1) => QuoteRole::End,
            _ if has_newline && next > end => QuoteRole::End,
            _ => QuoteRole::Inner,
        }
    }

    /// The role of a quote before a bracket: it ends the string unless the bracket closes one that was opened inside.
    fn role_before_bracket(&self, reading: &StringReading, bracket: usize, byte: u8) -> QuoteRole {
        let is_inner = match byte {
            b'}' => reading.braces > 0 && !self.is_after_value(bracket + 1),
            b']' => reading.brackets > 0 && !self.is_after_value(bracket + 1),
            _ => !self.stack.iter().any(|frame| matches!(frame.container, ContainerKind::Group { .. })),
        };
        if is_inner { QuoteRole::Inner } else { QuoteRole::End }
    }

    /// Whether a quote looks like the end of a quotation: text before it, a space after it.
    fn looks_closing(&self, reading: &StringReading, at: usize, end: usize, next: usize) -> bool {
        !reading.is_quoting && at > reading.start && self.is_before_space(reading, at, end, next)
    }

    /// Whether there is space after a quote and none before it.
    #[inline]
    fn is_before_space(&self, reading: &StringReading, at: usize, end: usize, next: usize) -> bool {
        let is_after_space = at > reading.start && self.source.bytes[at - 1].is_ascii_whitespace();
        next > end && !is_after_space
    }

    /// Whether the text from the last comma to the colon at `colon` is a key without quotes.
    fn is_bare_key_before(&self, reading: &StringReading, colon: usize) -> bool {
        let Some(comma) = reading.last_comma.filter(|&comma| comma >= reading.last_quote && comma < colon)
        else {
            return false;
        };
        let key = self.source.text[comma + 1..colon].trim();
        !key.is_empty() && key.bytes().all(is_key_byte)
    }
}
