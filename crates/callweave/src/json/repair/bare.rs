//! Values without quotes: literals, numbers, names, patterns, calls, plain text.

use super::ahead::is_key_byte;
use super::parser::{ContainerKind, ParseStep, ParserFrame, RepairParser};
use super::string::StringContext;
use super::{RepairChangeKind, strict};

/// The maximum length of a number looked back at from a comma, so that looking back stays cheap.
const LONGEST_TOKEN: usize = 64;

impl RepairParser<'_> {
    /// Reads a value without quotes and brackets.
    pub(super) fn bare_value(&mut self) -> ParseStep {
        let start = self.at;
        if let Some(paren) = self.call(start) {
            return self.open_group(start, paren + 1, true);
        }
        if let Some(quote) = self.prefixed_string(start) {
            self.change(start, quote, "", RepairChangeKind::Quote);
            self.at = quote;
            return self.string_value();
        }
        let context = match self.stack.last().map(|frame| frame.container) {
            None => StringContext::Root,
            Some(ContainerKind::Object) => StringContext::Member,
            Some(ContainerKind::Array | ContainerKind::Group { .. }) => StringContext::Element,
        };
        let (end, close) = match self.first_token(context, start) {
            Some(first) => (first, first),
            None => self.bare_end(context, start),
        };
        let is_text = self.write_bare(context, start, end);
        self.end_bare(end, close);
        self.end_value(start, is_text);
        Ok(())
    }

    /// Removes the closing quote of a text that had no opening one.
    fn end_bare(&mut self, end: usize, close: usize) {
        if close > end {
            self.change(end, close, "", RepairChangeKind::Quote);
        }
        self.at = close;
    }

    /// The end of the number or literal at `start`, where the words after it do not belong to it. Only
    /// the word itself is looked at, so that a list of words takes no longer than its length.
    fn first_token(&self, context: StringContext, start: usize) -> Option<usize> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
        let word = self.source.bytes[start..].iter().take_while(|byte| is_part(byte)).count();
        let end = start + word;
        let first = &self.source.text[start..end];
        // A sign alone belongs to the text behind it.
        let is_token = word > 1 || first.bytes().all(|byte| byte.is_ascii_digit());
        let is_value = || literal(first).is_some() || number(first).is_some();
        let is_alone = || match context {
            StringContext::Element => true,
            StringContext::Member => self.is_member(end),
            StringContext::Key | StringContext::Root => false,
        };
        let is_before_space = self.source.char(end).is_some_and(char::is_whitespace);
        (is_before_space && is_token && is_value() && is_alone()).then_some(end)
    }

    /// The position of the quote, if a string with one of Python's prefixes (`b"…"`, `r'…'`) stands at `start`.
    fn prefixed_string(&self, start: usize) -> Option<usize> {
        let is_prefix = |byte: &&u8| matches!(byte, b'b' | b'r' | b'u' | b'f' | b'B' | b'R' | b'U' | b'F');
        let quote = start + self.source.bytes[start..].iter().take(2).take_while(is_prefix).count();
        if quote == start || !matches!(self.source.byte(quote), Some(b'"' | b'\'')) {
            return None;
        }
        let close = self.source.closing_quote(quote)?;
        let is_string = self.is_after_value(close + 1) && !self.is_end_after_quote(quote + 1);
        is_string.then_some(quote)
    }

    /// Notes the changes that make the text from `start` to `end` a JSON value, and returns whether that is a string.
    pub(super) fn write_bare(&mut self, context: StringContext, start: usize, end: usize) -> bool {
        let text = &self.source.text[start..end];
        let is_at_end = end == self.source.len();
        if is_number(text) {
            return false;
        }
        if let Some(literal) = literal(text) {
            if literal != text {
                self.change(start, end, literal, RepairChangeKind::Literal);
            }
            return false;
        }
        if let Some(edits) = number(text) {
            self.is_truncated |= is_at_end && !text.ends_with(|c: char| c.is_ascii_digit());
            let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
            let kind = if has_digits { RepairChangeKind::Number } else { RepairChangeKind::Missing };
            for (at, length, replacement) in edits {
                self.change(start + at, start + at + length, replacement, kind);
            }
            return false;
        }
        if is_at_end
            && (self.options.is_prefix || context != StringContext::Root)
            && let Some(literal) = literal_beginning_with(text)
        {
            self.is_truncated = true;
            self.change(start, end, literal, RepairChangeKind::Cut);
            return false;
        }
        self.write_text(start, end, RepairChangeKind::Text);
        true
    }

    /// Puts quotes around the text from `start` to `end`.
    fn write_text(&mut self, start: usize, end: usize, kind: RepairChangeKind) {
        self.change(start, start, "\"", kind);
        for at in start..end {
            match self.source.bytes[at] {
                b'"' | b'\\' => self.change(at, at, "\\", RepairChangeKind::Escape),
                b'\t' => self.change(at, at + 1, "\\t", RepairChangeKind::Escape),
                0..0x20 => self.change(at, at + 1, " ", RepairChangeKind::Space),
                _ => {}
            }
        }
        self.change(end, end, "\"", kind);
    }

    /// Reads a key without quotes.
    pub(super) fn bare_key(&mut self) {
        let start = self.at;
        let (end, close) = self.bare_end(StringContext::Key, start);
        let next = self.source.gap(close).next;
        let is_junk = match self.source.byte(next) {
            Some(b',' | b'}' | b']') => {
                if self.begin_set() {
                    return;
                }
                true
            }
            Some(_) if self.source.quote(next).is_some() => self.is_named_member(next),
            _ => false,
        };
        if is_junk {
            self.undo_item();
            self.remove(start, close, RepairChangeKind::Junk);
            self.at = close;
            return;
        }
        self.write_text(start, end, RepairChangeKind::Quote);
        self.end_bare(end, close);
        self.end_key(start, self.at);
    }

    /// The end of the text without quotes that begins at `start`, and the end of the quote after it
    /// that nothing had opened.
    pub(super) fn bare_end(&self, context: StringContext, start: usize) -> (usize, usize) {
        let is_in_group =
            self.stack.iter().any(|frame| matches!(frame.container, ContainerKind::Group { .. }));
        let is_after_space = |at: usize| at > start && self.source.bytes[at - 1].is_ascii_whitespace();
        let first = self.source.char(start).map_or(1, char::len_utf8);
        let mut at = start + first;
        // `rm -r /a/*` begins no comment: only after a space, or right after one word, may it be one.
        let mut is_one_word = self.source.byte(start) != Some(b'/');
        while let Some(byte) = self.source.byte(at) {
            match byte {
                b'{' | b'[' if matches!(context, StringContext::Member | StringContext::Element) => {
                    let is_next = is_after_space(at) && context == StringContext::Element;
                    if is_next || self.is_token(start, at) {
                        break;
                    }
                    match self.bracket_end(at) {
                        Some(end) => at = end,
                        None if is_after_space(at) => break,
                        None => at += 1,
                    }
                    continue;
                }
                b'(' if matches!(context, StringContext::Member | StringContext::Element) => {
                    at = self.bracket_end(at).unwrap_or(at + 1);
                    continue;
                }
                b'{' | b'}' | b'[' | b']' if context != StringContext::Root => break,
                b'\n' => break,
                b',' if matches!(context, StringContext::Key | StringContext::Element) => break,
                b',' if context == StringContext::Member && self.is_member(at + 1) => break,
                b',' if context == StringContext::Member && self.is_token_before_quote(start, at) => break,
                b':' | b'=' if context == StringContext::Key => break,
                b')' if is_in_group => break,
                b')' if context != StringContext::Root && self.is_wrong_closer(start, at) => break,
                b';' if self.is_after_value(at + 1) || self.is_quoted_member(at + 1) => break,
                b'/' if self.source.is_block_comment(at) && (is_one_word || is_after_space(at)) => break,
                b'/' if self.source.byte(at + 1) == Some(b'/') && is_after_space(at) => break,
                b'#' if is_after_space(at) => break,
                b'<' if self.source.starts_with(at, "<!--") || self.source.token(at).is_some() => break,
                b'`' if self.source.is_fence(at) => break,
                b'"' | b'\'' | b'`' | b'<' | 0xC2 | 0xE2 | 0xEF => {
                    if let Some((_, length)) = self.source.quote(at) {
                        let is_apostrophe = byte != b'"'
                            && self.source.bytes[at - 1].is_ascii_alphanumeric()
                            && self.source.byte(at + length).is_some_and(|next| next.is_ascii_alphanumeric());
                        if !is_apostrophe
                            && self.is_end_after_quote(at + length)
                            && context != StringContext::Root
                        {
                            return (self.trimmed(start, at), at + length);
                        }
                        let is_next = match context {
                            StringContext::Key | StringContext::Element => !is_apostrophe,
                            StringContext::Member => !is_apostrophe && self.is_named_member(at),
                            StringContext::Root => false,
                        };
                        if is_next {
                            break;
                        }
                        at += length;
                        continue;
                    }
                }
                b' ' | b'\t' | b'/' => is_one_word = false,
                // An escaped quote is text here, as it is to code that looks ahead for the next quote.
                b'\\' if self.source.byte(at + 1) == Some(b'\\') || self.source.quote(at + 1).is_some() => {
                    at += 1
                }
                _ => {}
            }
            at += 1;
        }
        let end = self.trimmed(start, at);
        (end, end)
    }

    /// Whether a number or literal ends at `comma` and a quote follows.
    fn is_token_before_quote(&self, start: usize, comma: usize) -> bool {
        self.source.quote(self.source.gap(comma + 1).next).is_some() && self.is_token(start, comma)
    }

    /// Whether all from `start` to `end` is a number or literal.
    fn is_token(&self, start: usize, end: usize) -> bool {
        end - start <= LONGEST_TOKEN && {
            let text = self.source.text[start..end].trim_end();
            literal(text).is_some() || number(text).is_some()
        }
    }

    /// Whether the parenthesis at `paren` stands for another bracket: right after a number or literal, which
    /// has none, and where a value may end.
    fn is_wrong_closer(&self, start: usize, paren: usize) -> bool {
        let is_end = self.source.byte(paren + 1) == Some(b')') || self.is_after_value(paren + 1);
        is_end && self.is_token(start, paren)
    }

    /// The end of what the bracket at `at`, amid text without quotes, opens: behind its match in the same
    /// line. A bracket that is the last of the text closes what the text stands in, if it can.
    fn bracket_end(&self, at: usize) -> Option<usize> {
        let is_around = |frame: &ParserFrame| match self.source.bytes[at] {
            b'{' => frame.container == ContainerKind::Object,
            b'[' => frame.container == ContainerKind::Array,
            _ => matches!(frame.container, ContainerKind::Group { .. }),
        };
        let closes_around = |end: usize| {
            !self.options.is_prefix
                && self.source.gap(end).next == self.source.len()
                && self.stack.iter().any(is_around)
        };
        self.source.bracket_end(at).filter(|&end| !closes_around(end))
    }

    fn is_end_after_quote(&self, at: usize) -> bool {
        self.is_after_value(at) || self.source.gap(at).has_newline
    }

    fn trimmed(&self, start: usize, end: usize) -> usize {
        start + self.source.text[start..end].trim_end().len()
    }

    /// The position of the parenthesis, if a call stands at `start`: a name and one argument that is not itself plain
    /// text. A call of several arguments, or one that is part of a formula, is text.
    pub(super) fn call(&self, start: usize) -> Option<usize> {
        let name = |at: usize| {
            let length =
                self.source.bytes[at..].iter().take_while(|&&byte| is_key_byte(byte) && byte != b'-').count();
            (length > 0 && !self.source.bytes[at].is_ascii_digit()).then_some(at + length)
        };
        let mut end = name(start)?;
        let is_new = &self.source.bytes[start..end] == b"new";
        if is_new {
            end = name(self.source.gap(end).next)?;
        }
        let paren = self.source.gap(end).next;
        if self.source.byte(paren) != Some(b'(') {
            return None;
        }
        let argument = self.source.gap(paren + 1).next;
        let is_value = match self.source.byte(argument)? {
            b'{' | b'[' | b'-' | b'0'..=b'9' => true,
            b')' => is_new || !self.stack.is_empty(),
            _ if self.source.quote(argument).is_some() => true,
            _ => literal(&self.source.text[argument..self.word_end(argument)]).is_some(),
        };
        // Outside of all containers, documents are searched for, however many there are.
        let is_document = self.stack.is_empty() && matches!(self.source.byte(argument), Some(b'{' | b'['));
        (is_value && (is_document || !self.is_formula(paren))).then_some(paren)
    }

    /// Whether the call with the parenthesis at `paren` has several arguments, or an operator follows.
    fn is_formula(&self, paren: usize) -> bool {
        match self.source.argument_end(paren) {
            None => false,
            Some(end) if self.source.bytes[end] == b',' => {
                self.source.byte(self.source.gap(end + 1).next) != Some(b')')
            }
            Some(end) => {
                let next = self.source.byte(self.source.gap(end + 1).next);
                !self.stack.is_empty()
                    && matches!(
                        next,
                        Some(b'+' | b'-' | b'*' | b'/' | b'.' | b'(' | b'[' | b'?' | b'<' | b'>')
                    )
            }
        }
    }

    /// The end of the word at `at`, as far as a literal could go.
    pub(super) fn word_end(&self, at: usize) -> usize {
        let word =
            self.source.bytes[at..].iter().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
        at + word
    }

    /// Reads a pattern between slashes, as a text.
    pub(super) fn pattern(&mut self) -> ParseStep {
        let start = self.at;
        let Some(end) = self.pattern_end(start) else { return self.bare_value() };
        self.write_text(start, end, RepairChangeKind::Text);
        self.at = end;
        self.end_value(start, false);
        Ok(())
    }

    pub(super) fn pattern_end(&self, start: usize) -> Option<usize> {
        let mut at = start + 1;
        loop {
            match self.source.byte(at)? {
                b'\n' => return None,
                b'\\' => at += 1,
                b'/' => break,
                _ => {}
            }
            at += 1;
        }
        let flags = self.source.bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let end = at + 1 + flags;
        (end > start + 2 && self.is_after_value(end)).then_some(end)
    }
}

/// Whether `text` is a number as JSON writes it.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && strict::is_valid(text)
}

/// The JSON literal that `text` means, if it is a literal of any language.
pub(super) fn literal(text: &str) -> Option<&'static str> {
    let word = text.trim_start_matches(['+', '-']);
    let is_signed = word.len() + 1 == text.len();
    let word = if is_signed { word.trim_start() } else { text };
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    match word.len() {
        3 | 8 if is("nan") || is("infinity") => Some("null"),
        _ if is_signed => None,
        4 if is("true") => Some("true"),
        5 if is("false") => Some("false"),
        4 | 9 if is("null") || is("none") || is("undefined") => Some("null"),
        _ => None,
    }
}

/// The JSON literal whose name, in any language, begins with `text`.
fn literal_beginning_with(text: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 10] = [
        ("true", "true"),
        ("True", "true"),
        ("false", "false"),
        ("False", "false"),
        ("null", "null"),
        ("None", "null"),
        ("NaN", "null"),
        ("Infinity", "null"),
        ("-Infinity", "null"),
        ("undefined", "null"),
    ];
    NAMES.iter().find(|(name, _)| name.starts_with(text)).map(|&(_, literal)| literal)
}

/// The changes that make `text` a number as JSON writes it, as (place, length, replacement); `None` if it is no number.
/// Leading zeros are not taken away: such a text is a name, not a quantity.
pub(super) fn number(text: &str) -> Option<Vec<(usize, usize, &'static str)>> {
    let bytes = text.as_bytes();
    let mut edits = Vec::new();
    let mut at = 0;
    let digits = |at: &mut usize, edits: &mut Vec<(usize, usize, &'static str)>| {
        let start = *at;
        while let Some(&byte) = bytes.get(*at) {
            let is_between = *at > start && bytes[*at - 1].is_ascii_digit();
            match byte {
                b'0'..=b'9' => {}
                b'_' if is_between && bytes.get(*at + 1).is_some_and(u8::is_ascii_digit) => {
                    edits.push((*at, 1, ""))
                }
                _ => break,
            }
            *at += 1;
        }
        *at > start
    };
    match bytes.first()? {
        b'-' => at = 1,
        b'+' => {
            edits.push((0, 1, ""));
            at = 1;
        }
        b'.' | b'0'..=b'9' => {}
        _ => return None,
    }
    let whole = at;
    if bytes.len() == 1 && at == 1 {
        edits.push((1, 0, "0"));
        return Some(edits);
    }
    if digits(&mut at, &mut edits) {
        if bytes[whole] == b'0' && at > whole + 1 {
            return None;
        }
    } else if bytes.get(at) == Some(&b'.') {
        edits.push((at, 0, "0"));
    } else {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        if !digits(&mut at, &mut edits) {
            edits.push((at, 0, "0"));
        }
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        if !digits(&mut at, &mut edits) {
            edits.push((at, 0, "0"));
        }
    }
    (at == bytes.len()).then_some(edits)
}
