//! Strings, from their opening quote to their end.

use super::RepairChangeKind;
use super::ahead::{all_but, skip};
use super::escape::CONTROLS;
use super::noise::QuoteKind;
use super::parser::{ContainerKind, ParseStep, RepairParser};
use super::quote::{QuoteRole, StringReading};

/// The context of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringContext {
    Key,
    /// The value of a member.
    Member,
    /// An item of an array or of parentheses.
    Element,
    /// Outside all containers.
    Root,
}

/// The bytes that are nothing but text to [`RepairParser::body`].
const IS_TEXT: [bool; 256] = all_but(b"\\:,{[}]\"'`<");

impl RepairParser<'_> {
    pub(super) fn string_value(&mut self) -> ParseStep {
        let start = self.at;
        let context = match self.stack.last().map(|frame| frame.container) {
            None => StringContext::Root,
            Some(ContainerKind::Object) => StringContext::Member,
            Some(ContainerKind::Array | ContainerKind::Group { .. }) => StringContext::Element,
        };
        if self.string(context)? {
            self.end_value(start, true);
        }
        Ok(())
    }

    /// Reads the string that begins here, and the ones joined to it with `+`. `false` if the text
    /// ended in it and it was left out.
    pub(super) fn string(&mut self, context: StringContext) -> ParseStep<bool> {
        let mut close = self.one_string(context)?;
        while let Some(quote) = close {
            let plus = self.source.gap(self.at).next;
            if self.source.byte(plus) != Some(b'+') || context == StringContext::Key {
                return Ok(true);
            }
            let next = self.source.gap(plus + 1).next;
            let Some((open, length)) = self.source.quote(next) else {
                self.skip_noise();
                self.change(plus, plus + 1, "", RepairChangeKind::Concatenation);
                self.at = plus + 1;
                return Ok(true);
            };
            // The closing quote, the plus and the opening quote are removed; the string continues.
            self.forget_from(quote);
            self.change(quote, next + length, "", RepairChangeKind::Concatenation);
            close = self.body(context, open, next, next + length, false)?;
        }
        Ok(false)
    }

    /// Reads one string with its opening quote; returns the position of its closing quote.
    fn one_string(&mut self, context: StringContext) -> ParseStep<Option<usize>> {
        let start = self.at;
        let (open, length) = self.source.quote(start).expect("only called at a quote");
        let mut run = 1;
        while self.source.quote(start + run * length) == Some((open, length)) && run < 6 {
            run += 1;
        }
        let after = start + run * length;
        let (inside, is_doubled) = match run {
            2 if self.is_doubled_opening(context, open, after) => (after, true),
            3 | 5 if context != StringContext::Key => {
                return Ok(Some(self.triple_quoted(start, open, length)));
            }
            4 | 6 => {
                let middle = start + run / 2 * length;
                self.change(start, middle, "\"", RepairChangeKind::DoubledQuote);
                self.change(middle, after, "\"", RepairChangeKind::DoubledQuote);
                self.at = after;
                return Ok(Some(middle));
            }
            _ => (start + length, false),
        };
        if is_doubled {
            self.change(start, after, "\"", RepairChangeKind::DoubledQuote);
        } else if open != QuoteKind::Double {
            self.change(start, inside, "\"", RepairChangeKind::Quote);
        }
        self.body(context, open, start, inside, is_doubled)
    }

    /// Whether two quotes in a row open a string, and are not an empty one.
    fn is_doubled_opening(&self, context: StringContext, open: QuoteKind, after: usize) -> bool {
        let gap = self.source.gap(after).next;
        let Some(next) = self.source.char(gap) else { return false };
        if !(next.is_alphanumeric() || matches!(next, '_' | '$' | '<' | '/')) {
            return false;
        }
        // A key may be followed by its value without a colon, an element by another one.
        let end = self.words_end(gap);
        let closes = self.source.quote(end).is_some_and(|(quote, _)| open.is_closed_by(quote));
        match context {
            _ if gap == after => closes || context != StringContext::Key,
            StringContext::Key | StringContext::Member => closes && !self.is_named_member(gap),
            StringContext::Element | StringContext::Root => false,
        }
    }

    /// Reads a string between three quotes, as Python writes it.
    fn triple_quoted(&mut self, start: usize, open: QuoteKind, length: usize) -> usize {
        let inside = start + 3 * length;
        self.change(start, inside, "\"", RepairChangeKind::Quote);
        let mut at = inside;
        loop {
            let Some(byte) = self.source.byte(at) else {
                self.is_truncated = true;
                self.change(at, at, "\"", RepairChangeKind::Cut);
                self.at = at;
                return at;
            };
            let is_end = |place: usize| self.source.quote(place) == Some((open, length));
            if is_end(at) && is_end(at + length) && is_end(at + 2 * length) {
                self.change(at, at + 3 * length, "\"", RepairChangeKind::Quote);
                self.at = at + 3 * length;
                return at;
            }
            match byte {
                b'"' => {
                    self.change(at, at, "\\", RepairChangeKind::Escape);
                    at += 1;
                }
                b'\\' => match self.escape(at) {
                    Ok(end) => at = end,
                    Err(_) => {
                        self.change(at, at, "\\", RepairChangeKind::Escape);
                        at += 1;
                    }
                },
                0..0x20 => {
                    self.change(at, at + 1, CONTROLS[usize::from(byte)], RepairChangeKind::Escape);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Reads a string from `inside` to its end; returns the position of its closing quote, if it is not left out.
    fn body(
        &mut self,
        context: StringContext,
        open: QuoteKind,
        start: usize,
        inside: usize,
        is_doubled: bool,
    ) -> ParseStep<Option<usize>> {
        let mut reading = StringReading {
            open,
            start: inside,
            is_doubled,
            is_quoting: false,
            braces: 0,
            brackets: 0,
            last_comma: None,
            last_quote: inside,
            first_colon: None,
            embedded_until: 0,
            backslashes: None,
        };
        // Too many quotes were missing to follow each string to the end of the text: the next quote ends
        // it, or the next comma, bracket or line.
        let is_short = self.searches_left == 0;
        let is_hasty = is_short
            && !self.source.closing_quote(start).is_some_and(|close| {
                let length = self.source.quote(close).map_or(0, |(_, length)| length);
                let next = self.source.byte(self.space_after(close + length).0);
                matches!(next, None | Some(b',' | b'}' | b']' | b':'))
            });
        let mut at = inside;
        loop {
            at = skip(self.source.bytes, at, &IS_TEXT);
            let Some(byte) = self.source.byte(at) else { break };
            match byte {
                b',' | b'}' | b']' | b'\n' if is_hasty => return Ok(Some(self.end_string_at(at, inside))),
                b'\\' if self.is_plain_backslash(&mut reading, at) => {
                    self.change(at, at, "\\", RepairChangeKind::Escape);
                }
                b'\\' => {
                    at = self.escape(at)?;
                    continue;
                }
                b':' => reading.first_colon = reading.first_colon.or(Some(at)),
                b',' => reading.last_comma = Some(at),
                b'{' => reading.braces += 1,
                b'[' => reading.brackets += 1,
                b'}' => reading.braces = reading.braces.saturating_sub(1),
                b']' => reading.brackets = reading.brackets.saturating_sub(1),
                0..0x20 => self.change(at, at + 1, CONTROLS[usize::from(byte)], RepairChangeKind::Escape),
                b'"' | b'\'' | b'`' | b'<' | 0xC2 | 0xE2 | 0xEF => {
                    if let Some((quote, length)) = self.source.quote(at) {
                        if open.is_closed_by(quote) {
                            if let Some(end) = self.embedded_end(context, &reading, at) {
                                reading.embedded_until = end;
                            }
                            let role = if at < reading.embedded_until {
                                QuoteRole::Inner
                            } else if is_short {
                                QuoteRole::End
                            } else {
                                self.role(context, &reading, at, at + length)
                            };
                            match role {
                                QuoteRole::End => {
                                    return Ok(Some(self.end_string(context, quote, at, at + length)));
                                }
                                QuoteRole::DoubledEnd(end) => {
                                    self.change(at, end, "\"", RepairChangeKind::DoubledQuote);
                                    self.at = end;
                                    return Ok(Some(at));
                                }
                                QuoteRole::EndedAt(place) => {
                                    return Ok(Some(self.end_string_at(place, inside)));
                                }
                                QuoteRole::Inner => {}
                            }
                            reading.is_quoting = self.opens_quotation(&reading, at);
                            reading.last_quote = at + length;
                            if let Some(run) = quote.double_quote() {
                                self.change(at + run, at + run, "\\", RepairChangeKind::InnerQuote);
                            }
                        } else if let Some(run) = quote.double_quote() {
                            self.change(at + run, at + run, "\\", RepairChangeKind::Escape);
                        }
                        at += length;
                        continue;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Ok(self.end_of_text(context, &reading))
    }

    /// Ends a string at the quote from `at` to `end`.
    fn end_string(&mut self, context: StringContext, quote: QuoteKind, at: usize, end: usize) -> usize {
        if context == StringContext::Key
            && let Some((place, true)) = self.source.before(at, 0)
        {
            // A line break before the closing quote of a key is no part of its name.
            self.remove(place + 1, at, RepairChangeKind::Junk);
        }
        if quote != QuoteKind::Double {
            self.change(at, end, "\"", RepairChangeKind::Quote);
        }
        self.at = end;
        at
    }

    /// Ends a string whose quote is missing before `place`, white space left outside.
    fn end_string_at(&mut self, place: usize, inside: usize) -> usize {
        let end = self.source.before(place, inside).map_or(inside, |(last, _)| last + 1);
        // The last byte may be the end of a longer character; the text goes on at the end of that.
        let end = (end..=place).find(|&end| self.source.text.is_char_boundary(end)).unwrap_or(place);
        self.forget_from(end);
        self.change(end, end, "\"", RepairChangeKind::EndQuote);
        self.at = end;
        end
    }

    /// Ends the string at the end of the text; returns the position of its closing quote, if it is not left out.
    fn end_of_text(&mut self, context: StringContext, reading: &StringReading) -> Option<usize> {
        if !self.options.is_prefix {
            if let Some((quote, length)) = self.quote_of_another_kind(context, reading) {
                self.searches_left -= 1;
                self.forget_from(quote);
                self.change(quote, quote + length, "\"", RepairChangeKind::Quote);
                self.at = quote + length;
                return Some(quote);
            }
            if let Some(place) = self.missing_quote(context, reading.start) {
                self.searches_left = self.searches_left.saturating_sub(1);
                // A plus before the bracket was to join a string that did not come.
                let text = self.source.text[reading.start..place].trim_end();
                let text = text.strip_suffix('+').unwrap_or(text);
                return Some(self.end_string_at(reading.start + text.len(), reading.start));
            }
        }
        let end = self.source.len();
        self.is_truncated = true;
        self.at = end;
        let is_empty = self.source.text[reading.start..].trim().is_empty();
        let is_left_out = match context {
            StringContext::Root => false,
            StringContext::Key => is_empty || self.options.drops_unfinished,
            StringContext::Member => self.options.drops_unfinished,
            StringContext::Element => self.options.drops_unfinished || (is_empty && !self.options.is_prefix),
        };
        if is_left_out {
            self.drop_item();
            return None;
        }
        if self.options.is_prefix {
            self.change(end, end, "\"", RepairChangeKind::Cut);
            return Some(end);
        }
        let cut = self.changes.last().filter(|last| last.kind == RepairChangeKind::Cut && last.end == end);
        let written = cut.map_or(end, |cut| cut.at);
        let text = self.source.text[reading.start..written].trim_end_matches([' ', '\t', '\n', '\r', '+']);
        let close = reading.start + text.len();
        let token = text.rfind('<').map(|run| reading.start + run);
        match token.filter(|&token| self.source.token(token) == Some(close)) {
            Some(token) => self.remove(token, end, RepairChangeKind::Token),
            None => self.remove(close, end, RepairChangeKind::Cut),
        }
        self.change(end, end, "\"", RepairChangeKind::Cut);
        Some(end)
    }

    /// The position of a forgotten quote, where the text ended with brackets inside a string.
    fn missing_quote(&self, context: StringContext, start: usize) -> Option<usize> {
        if !self.ends_with_brackets(start) {
            return None;
        }
        let inside = &self.source.bytes[start..];
        match context {
            StringContext::Key => memchr::memchr(b':', inside).map(|run| start + run),
            StringContext::Element => {
                inside.iter().position(|byte| matches!(byte, b',' | b']' | b'\n')).map(|run| start + run)
            }
            StringContext::Member => memchr::memchr_iter(b',', inside)
                .map(|run| start + run)
                .find(|&comma| self.is_bare_member(self.source.gap(comma + 1).next))
                .or_else(|| self.before_closers(start)),
            StringContext::Root => None,
        }
    }

    /// Whether the text ends with brackets or a fence, which are hardly the end of a string.
    fn ends_with_brackets(&self, start: usize) -> bool {
        let last = self.source.before(self.source.len(), start);
        last.is_some_and(|(last, _)| matches!(self.source.bytes[last], b'}' | b']' | b')' | b'`'))
    }

    /// The position and length of a typographic quote that may end a string that began with a plain one.
    fn quote_of_another_kind(
        &self,
        context: StringContext,
        reading: &StringReading,
    ) -> Option<(usize, usize)> {
        if context == StringContext::Root || reading.open != QuoteKind::Double || self.searches_left == 0 {
            return None;
        }
        let quotes = self.source.text[reading.start..].char_indices().filter(|(_, c)| !c.is_ascii());
        quotes
            .filter_map(|(run, _)| {
                let at = reading.start + run;
                self.source.quote(at).map(|(_, length)| (at, length))
            })
            .find(|&(at, length)| self.is_after_value(at + length))
    }

    /// The position before the brackets at the end of the text that close the open containers.
    fn before_closers(&self, floor: usize) -> Option<usize> {
        let text = self.source.text[floor..].trim_end_matches(|c: char| c == '`' || c.is_ascii_whitespace());
        let mut place = floor + text.len();
        for frame in self.stack.iter() {
            let wanted = match frame.container {
                ContainerKind::Object => b'}',
                ContainerKind::Array => b']',
                ContainerKind::Group { .. } => b')',
            };
            let (last, _) = self.source.before(place, floor)?;
            if self.source.bytes[last] != wanted {
                break;
            }
            place = last;
        }
        (place < floor + text.len()).then_some(place)
    }
}
