//! Strings, and where they end.
//!
//! A quote ends a string only if what follows can follow a string in that place; else it belongs to
//! the text and is escaped. All looking ahead stops at the next quote or bracket or two, so that it
//! stays linear over the whole text.

use super::noise::Quote;
use super::parser::{Container, Parser, Step, Stop};
use super::{ChangeKind, Why, strict};

/// Where a string stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    Key,
    /// The value of a member.
    Member,
    /// An item of an array or of parentheses.
    Element,
    /// Outside all containers.
    Root,
}

/// What a quote inside a string is.
enum Role {
    End,
    /// The end, together with the quote right after it, up to this place.
    DoubledEnd(usize),
    Inner,
    /// The string should have ended before this place: its quote is missing.
    EndedAt(usize),
}

/// Whether a key may be one that the end of the text cuts off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Whole,
    MayBeCut,
}

/// What is known about the string so far.
struct Reading {
    open: Quote,
    start: usize,
    is_doubled: bool,
    /// Whether a quotation inside the string has been opened and not closed.
    is_quoting: bool,
    /// Brackets opened inside the string and not closed: `{`, `[`.
    braces: u32,
    brackets: u32,
    last_comma: Option<usize>,
    last_quote: usize,
    first_colon: Option<usize>,
    /// Quotes before this place are text: JSON was pasted in there.
    embedded_until: usize,
    /// How the backslashes of the string are read, once one that matters was met.
    backslashes: Option<Backslashes>,
}

/// How backslashes before letters are read, in a string that a model perhaps forgot to escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslashes {
    /// As JSON says.
    Escapes,
    /// The string has some that JSON does not know: `\b` belongs to a pattern and `\f` to a formula.
    Pattern,
    /// The string begins like `C:\`: none of them makes an escape.
    Path,
}

/// How control characters are written in a string.
#[rustfmt::skip]
const CONTROLS: [&str; 32] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
    "\\b", "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f",
    "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
    "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

/// Which bytes are nothing but text to [`Parser::body`].
const IS_TEXT: [bool; 256] = all_but(b"\\:,{[}]\"'`<");

/// Which bytes end no words.
const IS_IN_WORDS: [bool; 256] = all_but(b",:{}[]\"'`<");

/// All bytes but those of `ends`, control characters, and those that may begin a typographic quote.
const fn all_but(ends: &[u8]) -> [bool; 256] {
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
fn skip(bytes: &[u8], mut at: usize, skipped: &[bool; 256]) -> usize {
    while bytes.get(at).is_some_and(|&byte| skipped[usize::from(byte)]) {
        at += 1;
    }
    at
}

impl Parser<'_> {
    pub(super) fn string_value(&mut self) -> Step {
        let start = self.at;
        let context = match self.stack.last().map(|frame| frame.container) {
            None => Context::Root,
            Some(Container::Object) => Context::Member,
            Some(Container::Array | Container::Group { .. }) => Context::Element,
        };
        if self.string(context)? {
            self.end_value(start, true);
        }
        Ok(())
    }

    /// Reads the string that begins here, and the ones joined to it with `+`. `false` if the text
    /// ended in it and it was left out.
    pub(super) fn string(&mut self, context: Context) -> Step<bool> {
        let mut close = self.one_string(context)?;
        while let Some(quote) = close {
            let plus = self.source.gap(self.at).next;
            if self.source.byte(plus) != Some(b'+') || context == Context::Key {
                return Ok(true);
            }
            let next = self.source.gap(plus + 1).next;
            let Some((open, length)) = self.source.quote(next) else {
                self.skip_noise();
                self.change(plus, plus + 1, "", ChangeKind::Concatenation);
                self.at = plus + 1;
                return Ok(true);
            };
            // The closing quote, the plus and the opening quote go; the string goes on.
            self.forget_from(quote);
            self.change(quote, next + length, "", ChangeKind::Concatenation);
            close = self.body(context, open, next, next + length, false)?;
        }
        Ok(false)
    }

    /// Reads one string with its opening quote; where its closing quote stands.
    fn one_string(&mut self, context: Context) -> Step<Option<usize>> {
        let start = self.at;
        let (open, length) = self.source.quote(start).expect("only called at a quote");
        let mut run = 1;
        while self.source.quote(start + run * length) == Some((open, length)) && run < 6 {
            run += 1;
        }
        let after = start + run * length;
        let (inside, is_doubled) = match run {
            2 if self.is_doubled_opening(context, open, after) => (after, true),
            3 | 5 if context != Context::Key => return Ok(Some(self.triple_quoted(start, open, length))),
            4 | 6 => {
                let middle = start + run / 2 * length;
                self.change(start, middle, "\"", ChangeKind::DoubledQuote);
                self.change(middle, after, "\"", ChangeKind::DoubledQuote);
                self.at = after;
                return Ok(Some(middle));
            }
            _ => (start + length, false),
        };
        if is_doubled {
            self.change(start, after, "\"", ChangeKind::DoubledQuote);
        } else if open != Quote::Double {
            self.change(start, inside, "\"", ChangeKind::Quote);
        }
        self.body(context, open, start, inside, is_doubled)
    }

    /// Whether two quotes in a row open a string, and are not an empty one.
    fn is_doubled_opening(&self, context: Context, open: Quote, after: usize) -> bool {
        let gap = self.source.gap(after).next;
        let Some(next) = self.source.char(gap) else { return false };
        if !(next.is_alphanumeric() || matches!(next, '_' | '$' | '<' | '/')) {
            return false;
        }
        // A key may be followed by its value without a colon, an element by another one.
        let end = self.words_end(gap);
        let closes = self.source.quote(end).is_some_and(|(quote, _)| open.is_closed_by(quote));
        match context {
            _ if gap == after => closes || context != Context::Key,
            Context::Key | Context::Member => closes && !self.is_named_member(gap),
            Context::Element | Context::Root => false,
        }
    }

    /// A string between three quotes, as Python writes it.
    fn triple_quoted(&mut self, start: usize, open: Quote, length: usize) -> usize {
        let inside = start + 3 * length;
        self.change(start, inside, "\"", ChangeKind::Quote);
        let mut at = inside;
        loop {
            let Some(byte) = self.source.byte(at) else {
                self.is_cut = true;
                self.change(at, at, "\"", ChangeKind::Cut);
                self.at = at;
                return at;
            };
            let is_end = |place: usize| self.source.quote(place) == Some((open, length));
            if is_end(at) && is_end(at + length) && is_end(at + 2 * length) {
                self.change(at, at + 3 * length, "\"", ChangeKind::Quote);
                self.at = at + 3 * length;
                return at;
            }
            match byte {
                b'"' => {
                    self.change(at, at, "\\", ChangeKind::Escape);
                    at += 1;
                }
                b'\\' => match self.escape(at) {
                    Ok(end) => at = end,
                    Err(_) => {
                        self.change(at, at, "\\", ChangeKind::Escape);
                        at += 1;
                    }
                },
                0..0x20 => {
                    self.change(at, at + 1, CONTROLS[usize::from(byte)], ChangeKind::Escape);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Reads a string from `inside` to its end; where its closing quote stands, if it is not left out.
    fn body(
        &mut self,
        context: Context,
        open: Quote,
        start: usize,
        inside: usize,
        is_doubled: bool,
    ) -> Step<Option<usize>> {
        let mut reading = Reading {
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
                    self.change(at, at, "\\", ChangeKind::Escape);
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
                0..0x20 => self.change(at, at + 1, CONTROLS[usize::from(byte)], ChangeKind::Escape),
                b'"' | b'\'' | b'`' | b'<' | 0xC2 | 0xE2 | 0xEF => {
                    if let Some((quote, length)) = self.source.quote(at) {
                        if open.is_closed_by(quote) {
                            if let Some(end) = self.embedded_end(context, &reading, at) {
                                reading.embedded_until = end;
                            }
                            let role = if at < reading.embedded_until {
                                Role::Inner
                            } else if is_short {
                                Role::End
                            } else {
                                self.role(context, &reading, at, at + length)
                            };
                            match role {
                                Role::End => {
                                    return Ok(Some(self.end_string(context, quote, at, at + length)));
                                }
                                Role::DoubledEnd(end) => {
                                    self.change(at, end, "\"", ChangeKind::DoubledQuote);
                                    self.at = end;
                                    return Ok(Some(at));
                                }
                                Role::EndedAt(place) => return Ok(Some(self.end_string_at(place, inside))),
                                Role::Inner => {}
                            }
                            reading.is_quoting = self.opens_quotation(&reading, at);
                            reading.last_quote = at + length;
                            if let Some(run) = quote.double_quote() {
                                self.change(at + run, at + run, "\\", ChangeKind::InnerQuote);
                            }
                        } else if let Some(run) = quote.double_quote() {
                            self.change(at + run, at + run, "\\", ChangeKind::Escape);
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

    /// Whether the backslash at `at` is one of the text, although JSON would take it for an escape.
    fn is_plain_backslash(&self, reading: &mut Reading, at: usize) -> bool {
        let Some(byte @ (b'b' | b'f' | b'n' | b'r' | b't')) = self.source.byte(at + 1) else { return false };
        match *reading.backslashes.get_or_insert_with(|| self.backslashes(reading.open, reading.start)) {
            Backslashes::Escapes => false,
            Backslashes::Pattern => matches!(byte, b'b' | b'f'),
            Backslashes::Path => true,
        }
    }

    /// How the backslashes of the string from `start` to the next quote are to be read.
    fn backslashes(&self, open: Quote, start: usize) -> Backslashes {
        if let [drive, b':', b'\\', next, ..] = self.source.bytes[start..]
            && drive.is_ascii_alphabetic()
            && next.is_ascii_alphabetic()
        {
            return Backslashes::Path;
        }
        let mut at = start;
        while let Some(byte) = self.source.byte(at) {
            match (byte, self.source.byte(at + 1)) {
                (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u')) => at += 2,
                (b'\\', Some(b'\'' | b'`' | b'_' | b'\n' | b'\r') | None) => at += 2,
                (b'\\', Some(_)) => return Backslashes::Pattern,
                _ if self.source.quote(at).is_some_and(|(quote, _)| open.is_closed_by(quote)) => break,
                _ => at += 1,
            }
        }
        Backslashes::Escapes
    }

    /// The end of the JSON that was pasted into the string without escapes, if its first quote stands
    /// at `at`. What is no JSON to its last bracket is not followed far.
    fn embedded_end(&mut self, context: Context, reading: &Reading, at: usize) -> Option<usize> {
        if !matches!(context, Context::Member | Context::Element)
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

    /// The end of what the bracket at `at` opens, by brackets and quotes alone.
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
    fn opens_quotation(&self, reading: &Reading, at: usize) -> bool {
        let is_after_space = at == reading.start
            || matches!(self.source.bytes[at - 1], b' ' | b'\t' | b'\n' | b'(' | b'[' | b'{');
        !reading.is_quoting && is_after_space
    }

    /// Ends a string at the quote from `at` to `end`.
    fn end_string(&mut self, context: Context, quote: Quote, at: usize, end: usize) -> usize {
        if context == Context::Key
            && let Some((place, true)) = self.source.before(at, 0)
        {
            // A line break before the closing quote of a key is no part of its name.
            self.remove(place + 1, at, ChangeKind::Junk);
        }
        if quote != Quote::Double {
            self.change(at, end, "\"", ChangeKind::Quote);
        }
        self.at = end;
        at
    }

    /// Ends a string whose quote is missing before `place`, white space left outside.
    fn end_string_at(&mut self, place: usize, inside: usize) -> usize {
        let end = self.source.before(place, inside).map_or(inside, |(last, _)| last + 1);
        // The last byte may be the end of a longer character; its end is where the text goes on.
        let end = (end..=place).find(|&end| self.source.text.is_char_boundary(end)).unwrap_or(place);
        self.forget_from(end);
        self.change(end, end, "\"", ChangeKind::EndQuote);
        self.at = end;
        end
    }

    /// Reads the escape at `at` and returns its end.
    fn escape(&mut self, at: usize) -> Step<usize> {
        let Some(byte) = self.source.byte(at + 1) else {
            self.change(at, at + 1, "", ChangeKind::Cut);
            return Ok(at + 1);
        };
        Ok(match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at + 2,
            b'u' => return self.unicode_escape(at),
            b'\n' | b'\r' => {
                self.change(at, at + 2, CONTROLS[usize::from(byte)], ChangeKind::Escape);
                at + 2
            }
            b'\'' | b'`' | b'_' => {
                self.change(at, at + 1, "", ChangeKind::Escape);
                // The character is text now, whatever it is.
                at + 2
            }
            _ => {
                self.change(at, at, "\\", ChangeKind::Escape);
                at + 1
            }
        })
    }

    fn unicode_escape(&mut self, at: usize) -> Step<usize> {
        let rest = &self.source.bytes[at..];
        if let Some(length) = strict::unicode_escape(rest) {
            return Ok(at + length);
        }
        if let Some(unit) = strict::unit(rest) {
            if (0xD800..0xDC00).contains(&unit) && rest.len() < 12 && is_cut_escape(&rest[6..]) {
                self.change(at, self.source.len(), "", ChangeKind::Cut);
                return Ok(self.source.len());
            }
            self.change(at, at + 6, "\\ufffd", ChangeKind::Surrogate);
            return Ok(at + 6);
        }
        let word: &[u8] = &rest[2..rest.len().min(6)];
        let hex = word.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if hex == word.len() && rest.len() < 6 {
            self.change(at, self.source.len(), "", ChangeKind::Cut);
            return Ok(self.source.len());
        }
        // `\users` or `\underline` is a word with a backslash, not a character that was meant.
        let is_word = word.first().is_some_and(u8::is_ascii_lowercase)
            && word
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic())
                .any(|byte| !byte.is_ascii_hexdigit());
        if is_word {
            self.change(at, at, "\\", ChangeKind::Escape);
            return Ok(at + 1);
        }
        Err(Stop::Hopeless(Why::DamagedEscape, at))
    }

    /// The text ended inside the string: where its closing quote stands, if it is not left out.
    fn end_of_text(&mut self, context: Context, reading: &Reading) -> Option<usize> {
        if !self.options.is_prefix {
            if let Some((quote, length)) = self.quote_of_another_kind(context, reading) {
                self.searches_left -= 1;
                self.forget_from(quote);
                self.change(quote, quote + length, "\"", ChangeKind::Quote);
                self.at = quote + length;
                return Some(quote);
            }
            if let Some(place) = self.missing_quote(context, reading.start) {
                self.searches_left = self.searches_left.saturating_sub(1);
                // A plus before the bracket was to join something that did not come.
                let text = self.source.text[reading.start..place].trim_end();
                let text = text.strip_suffix('+').unwrap_or(text);
                return Some(self.end_string_at(reading.start + text.len(), reading.start));
            }
        }
        let end = self.source.len();
        self.is_cut = true;
        self.at = end;
        let is_empty = self.source.text[reading.start..].trim().is_empty();
        let is_left_out = match context {
            Context::Root => false,
            Context::Key => is_empty || self.options.drops_unfinished,
            Context::Member => self.options.drops_unfinished,
            Context::Element => self.options.drops_unfinished || (is_empty && !self.options.is_prefix),
        };
        if is_left_out {
            self.drop_item();
            return None;
        }
        if self.options.is_prefix {
            self.change(end, end, "\"", ChangeKind::Cut);
            return Some(end);
        }
        let cut = self.changes.last().filter(|last| last.kind == ChangeKind::Cut && last.end == end);
        let written = cut.map_or(end, |cut| cut.at);
        let text = self.source.text[reading.start..written].trim_end_matches([' ', '\t', '\n', '\r', '+']);
        let close = reading.start + text.len();
        let token = text.rfind('<').map(|run| reading.start + run);
        match token.filter(|&token| self.source.token(token) == Some(close)) {
            Some(token) => self.remove(token, end, ChangeKind::Token),
            None => self.remove(close, end, ChangeKind::Cut),
        }
        self.change(end, end, "\"", ChangeKind::Cut);
        Some(end)
    }

    /// The text ended with brackets inside a string: where its quote was forgotten.
    fn missing_quote(&self, context: Context, start: usize) -> Option<usize> {
        if !self.ends_with_brackets(start) {
            return None;
        }
        let inside = &self.source.bytes[start..];
        match context {
            Context::Key => memchr::memchr(b':', inside).map(|run| start + run),
            Context::Element => {
                inside.iter().position(|byte| matches!(byte, b',' | b']' | b'\n')).map(|run| start + run)
            }
            Context::Member => memchr::memchr_iter(b',', inside)
                .map(|run| start + run)
                .find(|&comma| self.is_bare_member(self.source.gap(comma + 1).next))
                .or_else(|| self.before_closers(start)),
            Context::Root => None,
        }
    }

    /// Whether the text ends with brackets or a fence, which are hardly the end of a string.
    fn ends_with_brackets(&self, start: usize) -> bool {
        let last = self.source.before(self.source.len(), start);
        last.is_some_and(|(last, _)| matches!(self.source.bytes[last], b'}' | b']' | b')' | b'`'))
    }

    /// A typographic quote in a string that began with a plain one, where the string may end.
    fn quote_of_another_kind(&self, context: Context, reading: &Reading) -> Option<(usize, usize)> {
        if context == Context::Root || reading.open != Quote::Double || self.searches_left == 0 {
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

    /// The place before the brackets at the end of the text that close what is open.
    fn before_closers(&self, floor: usize) -> Option<usize> {
        let text = self.source.text[floor..].trim_end_matches(|c: char| c == '`' || c.is_ascii_whitespace());
        let mut place = floor + text.len();
        for frame in self.stack.iter() {
            let wanted = match frame.container {
                Container::Object => b'}',
                Container::Array => b']',
                Container::Group { .. } => b')',
            };
            let (last, _) = self.source.before(place, floor)?;
            if self.source.bytes[last] != wanted {
                break;
            }
            place = last;
        }
        (place < floor + text.len()).then_some(place)
    }

    /// What the quote from `at` to `end` is for the string that is being read.
    fn role(&mut self, context: Context, reading: &Reading, at: usize, end: usize) -> Role {
        if reading.is_doubled
            && let Some((quote, length)) = self.source.quote(end)
            && reading.open.is_closed_by(quote)
        {
            return Role::DoubledEnd(end + length);
        }
        let (next, has_newline) = self.space_after(end);
        let Some(byte) = self.source.byte(next) else { return Role::End };
        let is_noise = match byte {
            b'/' => matches!(self.source.byte(next + 1), Some(b'*' | b'/')),
            b'#' => next > end,
            b'<' => self.source.starts_with(next, "<!--") || self.source.token(next).is_some(),
            b'`' => self.source.is_fence(next),
            _ => false,
        };
        if is_noise || (byte == b'+' && self.is_joined(next)) {
            return Role::End;
        }
        match context {
            Context::Key => self.role_in_key(reading, at, next, byte),
            Context::Member => self.role_in_member(reading, at, end, next, byte, has_newline),
            Context::Element => self.role_in_element(reading, at, end, next, byte, has_newline),
            Context::Root => self.role_in_root(reading, end, next, byte, has_newline),
        }
    }

    /// The next place after white space, and whether a line ends before it.
    fn space_after(&self, mut at: usize) -> (usize, bool) {
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
    fn is_joined(&self, plus: usize) -> bool {
        let next = self.source.gap(plus + 1).next;
        next >= self.source.len() || self.source.quote(next).is_some()
    }

    fn role_in_key(&self, reading: &Reading, at: usize, next: usize, byte: u8) -> Role {
        if matches!(byte, b':' | b'=' | b',' | b'}' | b']' | b'{' | b'[') {
            return Role::End;
        }
        if let Some((colon, _)) = self.source.before(at, reading.start)
            && self.source.bytes[colon] == b':'
        {
            return Role::EndedAt(colon);
        }
        if self.source.quote(next).is_some() {
            return Role::End;
        }
        let words = self.words_end(next);
        match self.source.quote(words) {
            Some((_, length)) if self.source.byte(self.source.gap(words + length).next) == Some(b':') => {
                // A comma before the quote: the key ended at its colon, and this is the next one.
                let is_after_comma = self
                    .source
                    .before(at, reading.start)
                    .is_some_and(|(place, _)| self.source.bytes[place] == b',');
                reading.first_colon.filter(|_| is_after_comma).map_or(Role::Inner, Role::EndedAt)
            }
            _ => Role::End,
        }
    }

    fn role_in_member(
        &self,
        reading: &Reading,
        at: usize,
        end: usize,
        next: usize,
        byte: u8,
        has_newline: bool,
    ) -> Role {
        match byte {
            b'}' | b']' | b')' => return self.role_before_bracket(reading, next, byte),
            b',' if reading.is_quoting && self.is_assignment(next + 1) => return Role::Inner,
            b',' if self.is_member(self.after_commas(next)) => return Role::End,
            b',' | b':' => return Role::Inner,
            b';' if reading.braces == 0
                && (self.is_after_value(next + 1) || self.is_quoted_member(next + 1)) =>
            {
                return Role::End;
            }
            _ => {}
        }
        if let Some((_, length)) = self.source.quote(next) {
            let is_end = self.is_named_member(next) || (has_newline && !self.is_after_value(next + length));
            return if is_end { Role::End } else { Role::Inner };
        }
        if has_newline && self.is_member(next) {
            return Role::End;
        }
        if let Some((place, is_on_new_line)) = self.source.before(at, reading.start) {
            match self.source.bytes[place] {
                b',' if self.is_named_member(at) => return Role::EndedAt(place),
                b':' if self.is_bare_key_before(reading, place) => {
                    return reading.last_comma.map_or(Role::Inner, Role::EndedAt);
                }
                _ if is_on_new_line && self.is_named_member(at) => return Role::EndedAt(place + 1),
                _ => {}
            }
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
                return Role::End;
            }
        }
        Role::Inner
    }

    fn role_in_element(
        &self,
        reading: &Reading,
        at: usize,
        end: usize,
        next: usize,
        byte: u8,
        has_newline: bool,
    ) -> Role {
        match byte {
            b'}' | b']' | b')' => return self.role_before_bracket(reading, next, byte),
            b',' if !reading.is_quoting || self.is_element(next + 1) => return Role::End,
            b',' => return Role::Inner,
            b':' | b';' if !reading.is_quoting => return Role::End,
            _ => {}
        }
        if let Some((_, length)) = self.source.quote(next) {
            let is_inner = reading.is_quoting || (next == end && self.is_after_value(next + length));
            return if is_inner { Role::Inner } else { Role::End };
        }
        if has_newline {
            return Role::End;
        }
        if let Some((place, _)) = self.source.before(at, reading.start)
            && self.source.bytes[place] == b','
            && self.is_quoted_element(at)
        {
            return Role::EndedAt(place);
        }
        if self.looks_closing(reading, at, end, next) { Role::End } else { Role::Inner }
    }

    fn role_in_root(&self, reading: &Reading, end: usize, next: usize, byte: u8, has_newline: bool) -> Role {
        match byte {
            b'}' if reading.braces > 0 => Role::Inner,
            b']' if reading.brackets > 0 => Role::Inner,
            b'}' | b']' | b':' | b';' => Role::End,
            b',' if self.is_element(next + 1) => Role::End,
            _ if has_newline && next > end => Role::End,
            _ => Role::Inner,
        }
    }

    /// A bracket after the quote ends the string unless it closes one that was opened inside.
    fn role_before_bracket(&self, reading: &Reading, bracket: usize, byte: u8) -> Role {
        let is_inner = match byte {
            b'}' => reading.braces > 0 && !self.is_after_value(bracket + 1),
            b']' => reading.brackets > 0 && !self.is_after_value(bracket + 1),
            _ => !self.stack.iter().any(|frame| matches!(frame.container, Container::Group { .. })),
        };
        if is_inner { Role::Inner } else { Role::End }
    }

    /// Whether a quote looks like the end of what it stands after: text before it, a space after it.
    fn looks_closing(&self, reading: &Reading, at: usize, end: usize, next: usize) -> bool {
        !reading.is_quoting
            && next > end
            && at > reading.start
            && !matches!(self.source.bytes[at - 1], b' ' | b'\t' | b'\n' | b'\r')
    }

    /// Whether the text from the last comma to the colon at `colon` is a key without quotes.
    fn is_bare_key_before(&self, reading: &Reading, colon: usize) -> bool {
        let Some(comma) = reading.last_comma.filter(|&comma| comma >= reading.last_quote && comma < colon)
        else {
            return false;
        };
        let key = self.source.text[comma + 1..colon].trim();
        !key.is_empty() && key.bytes().all(is_key_byte)
    }

    /// Whether what follows can follow a value.
    pub(super) fn is_after_value(&self, at: usize) -> bool {
        let next = self.source.gap(at).next;
        matches!(self.source.byte(next), None | Some(b',' | b'}' | b']' | b':')) || self.source.is_fence(next)
    }

    /// The place after the comma at `at` and those that follow it.
    fn after_commas(&self, at: usize) -> usize {
        let run = &self.source.bytes[at..];
        let length = run.iter().position(|byte| *byte != b',' && !byte.is_ascii_whitespace());
        at + length.unwrap_or(run.len())
    }

    /// Whether `name =` stands at `at`, in an object whose members have colons: text, then (SQL, code).
    fn is_assignment(&self, at: usize) -> bool {
        if self.stack.last().is_none_or(|frame| frame.is_assigning) {
            return false;
        }
        let name = self.source.gap(at).next;
        let end = match self.source.quote(name) {
            Some((_, length)) => {
                self.source.closing_quote(name).map_or(self.source.len(), |close| close + length)
            }
            None => name + self.source.bytes[name..].iter().take_while(|&&byte| is_key_byte(byte)).count(),
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
            Some(_) => self.is_named_member(next),
        }
    }

    /// Whether a key and a colon stand at `at`, perhaps after words that do not belong there.
    pub(super) fn is_named_member(&self, at: usize) -> bool {
        if self.source.quote(at).is_some() {
            return self.is_quoted_key(at, Strictness::MayBeCut);
        }
        if self.is_bare_member(at) {
            return true;
        }
        let words = self.words_end(at);
        words > at && self.source.quote(words).is_some() && self.is_quoted_key(words, Strictness::Whole)
    }

    /// Whether a quoted key stands at `at`: one with a colon after it, or in it because its quote is
    /// missing.
    fn is_quoted_key(&self, at: usize, strictness: Strictness) -> bool {
        let may_be_cut = strictness == Strictness::MayBeCut;
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

    /// Whether a key without quotes and a colon stand at `at`.
    fn is_bare_member(&self, at: usize) -> bool {
        let end = at
            + self.source.bytes[at.min(self.source.len())..]
                .iter()
                .take_while(|&&byte| is_key_byte(byte))
                .count();
        let colon = self.source.gap(end).next;
        end > at
            && match self.source.byte(colon) {
                Some(b':') => !self.source.starts_with(colon, "://"),
                Some(b'=') => self.source.byte(colon + 1) != Some(b'='),
                _ => false,
            }
    }

    /// Whether an element of an array may begin at `at`, or the array may end there.
    fn is_element(&self, at: usize) -> bool {
        let next = self.source.gap(at).next;
        match self.source.byte(next) {
            None | Some(b'{' | b'[' | b']' | b'(' | b')' | b'}' | b'-' | b'0'..=b'9') => true,
            Some(_) => self.source.quote(next).is_some(),
        }
    }

    /// Whether a quoted element stands at `at`, with a comma or the end of the array after it.
    fn is_quoted_element(&self, at: usize) -> bool {
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

/// Whether `bytes` may be the beginning of a `\u` escape that the end of the text cut off.
fn is_cut_escape(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .zip(b"\\u0000")
        .all(|(&byte, &form)| if form == b'0' { byte.is_ascii_hexdigit() } else { byte == form })
}

/// Whether `byte` may stand in a key without quotes.
pub(super) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-' | b'.') || byte >= 0x80
}
