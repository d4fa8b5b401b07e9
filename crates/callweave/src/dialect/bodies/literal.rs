//! Literals as Python and its relatives write them, turned into JSON text as they come.
//!
//! JSON is a subset and comes out as it went in. Beyond it: strings in other quotes, `True`, `None`,
//! tuples, sets, bare keys and bare words, keyword arguments.

use super::super::table::gemma4::braces;
use super::value::{StringEnd, string_end};
use super::{BodyContext, BodyToken, CompiledForm, leading_space};
use crate::event::BlockCompletion;
use crate::json::repair::repair;
use crate::json::schema::Schema;
use crate::json::{JsonScanner, ScanStatus, escape_into};

/// The state of reading one literal.
#[derive(Clone, Debug)]
pub(in crate::dialect) struct LiteralReader {
    at: LiteralState,
    stack: Vec<LiteralContainer>,
    /// How far into a bare word it has looked already, and how deep in brackets it was there.
    seen: (usize, usize),
    /// Whether a comma was read that stands in front of the next element, if any comes.
    owes_comma: bool,
    /// Whether the schema wants a string under the outermost key.
    wants_string: bool,
    /// How many bytes in front are known to be of a string, and how far its end was looked for.
    clear: usize,
    looked: usize,
    /// Whether the end of a string is in doubt.
    is_doubtful: bool,
}

/// How literals are read, and the peculiarities of a dialect's literals.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::dialect) struct LiteralSyntax<'s> {
    /// A token that stands on both sides of a string.
    pub(in crate::dialect) quote: &'s str,
    /// The schema that says which bare words are strings, where a dialect's values have no types of their own.
    pub(in crate::dialect) schema: Option<&'s Schema>,
    /// Whether calls stand on lines of their own, and not in a list.
    pub(in crate::dialect) line_ends_call: bool,
    /// The form around it, where its closer may end a string of the dialect's own token.
    pub(in crate::dialect) form: Option<&'s CompiledForm>,
    /// Whether no more text will come.
    pub(in crate::dialect) is_last: bool,
}

/// The result of reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) enum LiteralProgress {
    /// Too little text.
    More,
    /// This many bytes were read.
    Took(usize),
    /// This many bytes were read, and the literal is complete.
    Done(usize),
    /// This cannot be read.
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralContainer {
    /// `{key: value}`
    Object,
    /// `(key=value)`
    Arguments,
    /// `[…]`, a tuple, a set: the byte that closes it.
    List(u8),
}

/// A string that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenString {
    /// The byte that closes it; 0: the dialect's own token.
    quote: u8,
    /// Whether three quotes do.
    is_long: bool,
    is_key: bool,
    /// Whether a backslash is one.
    is_raw: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralState {
    Value,
    Key,
    Separator,
    /// After a value or element.
    Next,
    /// Inside a string.
    String(OpenString),
    Done,
}

/// The maximum length of bare words in front of something that must be distinguished from them.
pub(in crate::dialect) const LOOK_AHEAD: usize = 256;

impl LiteralReader {
    fn new(at: LiteralState, stack: Vec<LiteralContainer>) -> Self {
        Self {
            at,
            stack,
            seen: (0, 0),
            owes_comma: false,
            wants_string: false,
            clear: 0,
            looked: 0,
            is_doubtful: false,
        }
    }

    /// One value.
    pub(in crate::dialect) fn value() -> Self {
        Self::new(LiteralState::Value, Vec::new())
    }

    /// Keyword arguments after their `(`.
    pub(in crate::dialect) fn arguments() -> Self {
        Self::new(LiteralState::Key, vec![LiteralContainer::Arguments])
    }

    /// The members of an object after its `{`.
    pub(in crate::dialect) fn members() -> Self {
        Self::new(LiteralState::Key, vec![LiteralContainer::Object])
    }

    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        matches!(self.at, LiteralState::String(_))
    }

    /// Reads on, and appends the JSON of the text read to `out`.
    pub(in crate::dialect) fn next(
        &mut self,
        text: &str,
        syntax: LiteralSyntax<'_>,
        out: &mut String,
    ) -> LiteralProgress {
        let mut at = 0;
        loop {
            if self.at == LiteralState::Done {
                return LiteralProgress::Done(at);
            }
            // A comma makes no text before its element comes, which may never be: so it begins a new piece.
            if at > 0 && (at == text.len() || self.at == LiteralState::Next) {
                return LiteralProgress::Took(at);
            }
            match self.step(&text[at..], syntax, out) {
                LiteralProgress::Took(len) | LiteralProgress::Done(len) => at += len,
                LiteralProgress::More if at > 0 => return LiteralProgress::Took(at),
                LiteralProgress::More => return LiteralProgress::More,
                LiteralProgress::Bad if at > 0 => return LiteralProgress::Took(at),
                LiteralProgress::Bad => return LiteralProgress::Bad,
            }
        }
    }

    /// Closes everything that is open, so that `out` is complete JSON. Whether nothing was missing.
    pub(in crate::dialect) fn close(&mut self, out: &mut String) -> bool {
        let is_complete = self.at == LiteralState::Done;
        match self.at {
            LiteralState::String(OpenString { is_key, .. }) => {
                out.push('"');
                if is_key {
                    out.push_str(":null");
                }
            }
            LiteralState::Value if !matches!(self.stack.last(), Some(LiteralContainer::List(_))) => {
                out.push_str("null")
            }
            LiteralState::Separator => out.push_str(":null"),
            _ => {}
        }
        while let Some(frame) = self.stack.pop() {
            out.push(if matches!(frame, LiteralContainer::List(_)) { ']' } else { '}' });
        }
        self.at = LiteralState::Done;
        is_complete
    }

    /// Reads on as a body does: a token, and how the literal ended, if it did.
    pub(in crate::dialect) fn token(
        &mut self,
        text: &str,
        syntax: LiteralSyntax<'_>,
        context: &mut BodyContext<'_>,
    ) -> (BodyToken, Option<BlockCompletion>) {
        context.scratch.clear();
        let piece = self.next(text, LiteralSyntax { is_last: context.is_last, ..syntax }, context.scratch);
        *context.in_doubt |= self.is_doubtful;
        match piece {
            LiteralProgress::Took(len) => (BodyToken::Converted(len), None),
            LiteralProgress::Done(len) => (BodyToken::Converted(len), Some(BlockCompletion::Complete)),
            LiteralProgress::More if !context.is_last => (BodyToken::More, None),
            LiteralProgress::More if !text.is_empty() => (BodyToken::Markup(text.len()), None),
            LiteralProgress::More => {
                self.close(context.scratch);
                (BodyToken::Converted(0), Some(BlockCompletion::Truncated))
            }
            LiteralProgress::Bad => (BodyToken::Fail, None),
        }
    }

    fn step(&mut self, text: &str, syntax: LiteralSyntax<'_>, out: &mut String) -> LiteralProgress {
        if let LiteralState::String(quoted) = self.at {
            return self.string(text, quoted, syntax, out);
        }
        let space = leading_space(text);
        if space > 0 {
            if !self.owes_comma {
                out.push_str(&text[..space]);
            }
            return LiteralProgress::Took(space);
        }
        let Some(&byte) = text.as_bytes().first() else { return LiteralProgress::More };
        if let (LiteralState::Value | LiteralState::Key, Some(opened)) =
            (self.at, self.quote(text, byte, syntax))
        {
            return match opened {
                Some((quoted, len)) => {
                    self.pay_comma(out);
                    self.seen = (0, 0);
                    self.at = LiteralState::String(quoted);
                    out.push('"');
                    LiteralProgress::Took(len)
                }
                None => LiteralProgress::More,
            };
        }
        match self.at {
            LiteralState::Value => self.begin(text, byte, syntax, out),
            LiteralState::Key => self.key(text, byte, syntax, out),
            LiteralState::Separator => {
                if byte != b':' && byte != b'=' {
                    return LiteralProgress::Bad;
                }
                out.push(':');
                self.at = LiteralState::Value;
                LiteralProgress::Took(1)
            }
            LiteralState::Next => self.next_element(byte, out),
            LiteralState::String(_) | LiteralState::Done => LiteralProgress::Bad,
        }
    }

    /// Whether a string opens here, and how long the opener is. The inner `None`: more text is needed.
    #[expect(clippy::option_option, reason = "no quote, not known yet, and a quote are three answers")]
    fn quote(&self, text: &str, byte: u8, syntax: LiteralSyntax<'_>) -> Option<Option<(OpenString, usize)>> {
        let is_key = self.at != LiteralState::Value;
        let quoted = |quote, is_long, is_raw| OpenString { quote, is_long, is_key, is_raw };
        if !syntax.quote.is_empty() {
            if text.starts_with(syntax.quote) {
                return Some(Some((quoted(0, false, false), syntax.quote.len())));
            }
            if !syntax.is_last && syntax.quote.starts_with(text) {
                return Some(None);
            }
        }
        let is_quote = |byte: u8| matches!(byte, b'"' | b'\'');
        let rest = match byte {
            // Python's prefixes of strings.
            b'r' | b'R' | b'b' | b'B' | b'u' | b'U' | b'f' | b'F' if !is_key => &text[1..],
            _ => text,
        };
        let quote = rest.bytes().next().filter(|&quote| is_quote(quote))?;
        let run = rest.bytes().take(3).take_while(|&other| other == quote).count();
        if run == rest.len() && run < 3 && !syntax.is_last {
            return Some(None);
        }
        let is_raw = matches!(byte, b'r' | b'R');
        let len = if run == 3 { 3 } else { 1 };
        Some(Some((quoted(quote, run == 3, is_raw), text.len() - rest.len() + len)))
    }

    fn string(
        &mut self,
        text: &str,
        quoted: OpenString,
        syntax: LiteralSyntax<'_>,
        out: &mut String,
    ) -> LiteralProgress {
        let OpenString { quote, is_long, is_key, is_raw } = quoted;
        let is_last = syntax.is_last;
        let bytes = text.as_bytes();
        if quote == 0 && self.clear > 0 && !text.is_empty() {
            let len = self.clear.min(text.len());
            self.clear -= len;
            return keep(text, len, out);
        }
        if quote == 0 {
            return match braces::string_piece(text, syntax) {
                LiteralProgress::Took(len) => keep(text, len, out),
                // The call's end, if the string's own does not come.
                LiteralProgress::Done(0) => match string_end(text, syntax.quote, &mut self.looked, is_last) {
                    StringEnd::More => LiteralProgress::More,
                    StringEnd::Closed(len) => self.clear_up_to(text, len - syntax.quote.len(), out),
                    StringEnd::Far(len) => self.clear_up_to(text, len, out),
                    StringEnd::Doubtful => {
                        self.is_doubtful = true;
                        self.close_string(0, is_key, out)
                    }
                },
                LiteralProgress::Done(len) => self.close_string(len, is_key, out),
                piece => piece,
            };
        }
        let run = memchr::memchr2(quote, b'\\', bytes).unwrap_or(bytes.len());
        if run > 0 {
            return keep(text, run, out);
        }
        if bytes.is_empty() {
            return LiteralProgress::More;
        }
        if bytes[0] == b'\\' && is_raw {
            // It keeps a quote from closing the string, and stays.
            let Some(next) = text[1..].chars().next() else {
                return if is_last { keep(text, 1, out) } else { LiteralProgress::More };
            };
            return keep(text, 1 + next.len_utf8(), out);
        }
        if bytes[0] == b'\\' {
            return escape(text, is_last, out);
        }
        let closed = if is_long {
            let run = bytes.iter().take(3).take_while(|&&byte| byte == quote).count();
            if run == bytes.len() && run < 3 && !is_last {
                return LiteralProgress::More;
            }
            (run == 3).then_some(3)
        } else {
            // A quote that nothing fitting follows is part of the string: models forget to escape it.
            let after = 1 + leading_space(&text[1..]);
            match bytes.get(after) {
                None if !is_last => return LiteralProgress::More,
                None => Some(1),
                // Code in a string has quotes before parentheses, too; but there something else goes on.
                Some(b')') => {
                    let is_passed = |byte: &u8| match byte {
                        b'\n' => !syntax.line_ends_call,
                        byte => matches!(byte, b')' | b' ' | b'\t' | b'\r'),
                    };
                    let behind = after + bytes[after..].iter().take_while(|byte| is_passed(byte)).count();
                    match bytes.get(behind) {
                        None if !is_last => return LiteralProgress::More,
                        None | Some(b',' | b']' | b'}' | b';' | b'<' | b'\n') => Some(1),
                        Some(_) => None,
                    }
                }
                Some(b':' | b'=') if !is_key && self.stack.last().is_some() => None,
                // A further argument has a name; in code, a comma may be followed by anything.
                Some(b',') if !is_key && self.stack.last() == Some(&LiteralContainer::Arguments) => {
                    match begins_argument(&text[after + 1..]) {
                        None if !is_last => return LiteralProgress::More,
                        None | Some(true) => Some(1),
                        Some(false) => None,
                    }
                }
                Some(b']' | b'}') if !is_key && self.stack.last() == Some(&LiteralContainer::Arguments) => {
                    None
                }
                Some(b',' | b']' | b'}' | b':' | b'=' | b'<') => Some(1),
                Some(_) => None,
            }
        };
        let Some(len) = closed else {
            return keep(text, text.chars().next().map_or(0, char::len_utf8), out);
        };
        self.close_string(len, is_key, out)
    }

    fn clear_up_to(&mut self, text: &str, len: usize, out: &mut String) -> LiteralProgress {
        self.clear = len.saturating_sub(text.len());
        keep(text, len.min(text.len()), out)
    }

    fn close_string(&mut self, len: usize, is_key: bool, out: &mut String) -> LiteralProgress {
        out.push('"');
        self.at = if is_key { LiteralState::Separator } else { LiteralState::Next };
        self.settle();
        LiteralProgress::Took(len)
    }

    fn begin(
        &mut self,
        text: &str,
        byte: u8,
        syntax: LiteralSyntax<'_>,
        out: &mut String,
    ) -> LiteralProgress {
        match byte {
            b'[' => self.open(LiteralContainer::List(b']'), out),
            b'(' => self.open(LiteralContainer::List(b')'), out),
            b'{' => match self.is_set(text, syntax.is_last) {
                None => LiteralProgress::More,
                Some(true) => self.open(LiteralContainer::List(b'}'), out),
                Some(false) => self.open(LiteralContainer::Object, out),
            },
            b']' | b')' | b'}' if matches!(self.stack.last(), Some(LiteralContainer::List(close)) if *close == byte) =>
            {
                self.at = LiteralState::Next;
                self.next_element(byte, out)
            }
            // A bare string may be empty.
            b',' | b'}' if self.wants_string && self.stack.len() == 1 => self.word(text, syntax, out),
            b',' | b'}'
                if !syntax.quote.is_empty() && self.stack.last() == Some(&LiteralContainer::Object) =>
            {
                self.pay_comma(out);
                out.push_str("\"\"");
                self.at = LiteralState::Next;
                LiteralProgress::Took(0)
            }
            b',' | b']' | b')' | b'}' | b':' => LiteralProgress::Bad,
            _ => self.word(text, syntax, out),
        }
    }

    /// Whether the braces at the start of `text` hold a set and no object: the text behind the first element shows it.
    fn is_set(&mut self, text: &str, is_last: bool) -> Option<bool> {
        let bytes = text.as_bytes();
        let start = 1 + leading_space(&text[1..]);
        let limit = bytes.len().min(start + LOOK_AHEAD);
        let mut at = start;
        let mut quote = 0;
        while at < limit {
            let byte = bytes[at];
            match byte {
                b'\\' if quote != 0 => at += 1,
                _ if byte == quote => quote = 0,
                _ if quote != 0 => {}
                b'"' | b'\'' => quote = byte,
                b':' | b'{' | b'[' | b'(' => return Some(false),
                b'}' => return Some(at > start),
                b',' => return Some(true),
                _ => {}
            }
            at += 1;
        }
        if is_last || limit < bytes.len() { Some(false) } else { None }
    }

    /// A bare word: a number, a constant, or a string without quotes.
    fn word(&mut self, text: &str, syntax: LiteralSyntax<'_>, out: &mut String) -> LiteralProgress {
        let bytes = text.as_bytes();
        let (mut at, mut depth) = self.seen;
        let is_string = self.wants_string && self.stack.len() == 1;
        let may_hold_commas =
            is_string || !syntax.quote.is_empty() && self.stack.last() == Some(&LiteralContainer::Object);
        while at < bytes.len() {
            match bytes[at] {
                quote @ (b'"' | b'\'') if depth > 0 => {
                    match memchr::memchr(quote, &bytes[at + 1..bytes.len().min(at + 1 + LOOK_AHEAD)]) {
                        Some(len) => at += len + 1,
                        None if syntax.is_last || bytes.len() - at > LOOK_AHEAD => {}
                        None => {
                            self.seen = (at, depth);
                            return LiteralProgress::More;
                        }
                    }
                }
                // A bare string may hold commas; the one that ends it stands before the next key.
                b',' if may_hold_commas && depth == 0 => match braces::begins_key(&text[at + 1..]) {
                    Some(true) => break,
                    Some(false) => {}
                    None if syntax.is_last => {}
                    None => {
                        self.seen = (at, depth);
                        return LiteralProgress::More;
                    }
                },
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth > 0 => depth -= 1,
                b',' | b')' | b']' | b'}' if depth == 0 => break,
                _ => {}
            }
            at += 1;
        }
        if at == bytes.len() && !syntax.is_last {
            self.seen = (at, depth);
            return LiteralProgress::More;
        }
        self.seen = (0, 0);
        self.pay_comma(out);
        let word = text[..at].trim_end();
        if is_string {
            out.push('"');
            escape_into(word, out);
            out.push('"');
        } else {
            word_into(word, out);
        }
        self.at = LiteralState::Next;
        self.settle();
        LiteralProgress::Took(at)
    }

    fn key(&mut self, text: &str, byte: u8, syntax: LiteralSyntax<'_>, out: &mut String) -> LiteralProgress {
        let Some(&frame) = self.stack.last() else { return LiteralProgress::Bad };
        let close = if frame == LiteralContainer::Arguments { b')' } else { b'}' };
        if byte == close {
            self.at = LiteralState::Next;
            return self.next_element(byte, out);
        }
        // Some write arguments as members: `f(a: "b")`.
        let separates = |byte: u8| byte == b':' || byte == b'=' && frame == LiteralContainer::Arguments;
        match text.bytes().position(|byte| separates(byte) || matches!(byte, b',' | b')' | b'}' | b'(')) {
            Some(len) if separates(text.as_bytes()[len]) && (1..=LOOK_AHEAD).contains(&len) => {
                self.pay_comma(out);
                let key = text[..len].trim_end();
                out.push('"');
                escape_into(key, out);
                out.push('"');
                let schema = syntax.schema.filter(|_| self.stack.len() == 1);
                self.wants_string = schema.is_some_and(|schema| schema.property(key).is_only_string());
                self.at = LiteralState::Separator;
                LiteralProgress::Took(len)
            }
            None if !syntax.is_last && text.len() <= LOOK_AHEAD => LiteralProgress::More,
            _ => LiteralProgress::Bad,
        }
    }

    fn next_element(&mut self, byte: u8, out: &mut String) -> LiteralProgress {
        let (close, written, next) = match self.stack.last() {
            Some(LiteralContainer::Object) => (b'}', '}', LiteralState::Key),
            Some(LiteralContainer::Arguments) => (b')', '}', LiteralState::Key),
            Some(LiteralContainer::List(close)) => (*close, ']', LiteralState::Value),
            None => return LiteralProgress::Bad,
        };
        self.owes_comma = byte == b',';
        if byte == b',' {
            self.at = next;
        } else if byte == close {
            out.push(written);
            self.stack.pop();
            self.settle();
        } else {
            return LiteralProgress::Bad;
        }
        LiteralProgress::Took(1)
    }

    /// Opens a list or an object.
    fn open(&mut self, frame: LiteralContainer, out: &mut String) -> LiteralProgress {
        self.pay_comma(out);
        self.stack.push(frame);
        self.at = if frame == LiteralContainer::Object { LiteralState::Key } else { LiteralState::Value };
        out.push(if frame == LiteralContainer::Object { '{' } else { '[' });
        LiteralProgress::Took(1)
    }

    fn pay_comma(&mut self, out: &mut String) {
        if std::mem::take(&mut self.owes_comma) {
            out.push(',');
        }
    }

    fn settle(&mut self) {
        if self.stack.is_empty() {
            self.at = LiteralState::Done;
        } else if !matches!(self.at, LiteralState::Separator) {
            self.at = LiteralState::Next;
        }
    }
}

/// Letters that Python has behind a backslash, and what each stands for.
const ESCAPES: (&str, &str) = ("ntrbfva0\"'\\/", "\n\t\r\u{8}\u{c}\u{b}\u{7}\0\"'\\/");

/// An escape sequence, as JSON writes it.
fn escape(text: &str, is_last: bool, out: &mut String) -> LiteralProgress {
    let bytes = text.as_bytes();
    let Some(&kind) = bytes.get(1) else {
        return if is_last { keep(text, 1, out) } else { LiteralProgress::More };
    };
    let digits = match kind {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => 0,
    };
    if bytes.len() < 2 + digits && !is_last {
        return LiteralProgress::More;
    }
    let hex = text.get(2..2 + digits).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match hex.filter(|_| digits > 0) {
        // Half a character stays what it is.
        Some(_) if kind == b'u' => out.push_str(&text[..6]),
        Some(hex) => {
            let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
            let mut buffer = [0; 4];
            escape_into(code.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut buffer), out);
        }
        None if kind == b'\n' => return LiteralProgress::Took(2),
        None => {
            // No escape at all: the backslash is meant.
            let Some(at) = ESCAPES.0.find(char::from(kind)) else { return keep(text, 1, out) };
            escape_into(&ESCAPES.1[at..=at], out);
        }
    }
    LiteralProgress::Took(2 + digits)
}

/// A bare word as JSON.
pub(in crate::dialect) fn word_into(word: &str, out: &mut String) {
    if is_json(word) {
        out.push_str(word);
        return;
    }
    match word {
        "True" | "TRUE" => out.push_str("true"),
        "False" | "FALSE" => out.push_str("false"),
        "None" | "NULL" | "Null" => out.push_str("null"),
        _ => match number(word) {
            Some(number) => out.push_str(&number),
            None => {
                out.push('"');
                escape_into(word, out);
                out.push('"');
            }
        },
    }
}

/// Whether `text` is one complete JSON value.
pub(in crate::dialect) fn is_json(text: &str) -> bool {
    let mut scanner = JsonScanner::new();
    scanner.push(text) == text.len() && scanner.finish() == ScanStatus::Complete && scanner.is_strict()
}

/// A number that Python reads and JSON does not, as JSON.
fn number(word: &str) -> Option<String> {
    if !word.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let (sign, digits) = word.split_at(word.len() - word.trim_start_matches(['+', '-']).len());
    let trimmed = digits.trim_start_matches('0');
    let plain = if trimmed.starts_with(|first: char| first.is_ascii_digit()) { trimmed } else { digits };
    let number = repair(&format!("{sign}{plain}")).text.into_owned();
    number.starts_with(|first: char| first.is_ascii_digit() || first == '-').then_some(number)
}

/// Passes the first `len` bytes of `text` on as they are.
fn keep(text: &str, len: usize, out: &mut String) -> LiteralProgress {
    escape_into(&text[..len], out);
    LiteralProgress::Took(len)
}

/// Whether `text` begins with the name of an argument and its sign, or the end of all arguments. `None`: more text is
/// needed.
fn begins_argument(text: &str) -> Option<bool> {
    let bytes = &text.as_bytes()[..text.len().min(LOOK_AHEAD)];
    let rest = bytes.trim_ascii_start();
    let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let behind = rest[name..].trim_ascii_start();
    match behind {
        [b')', ..] if name == 0 => Some(true),
        [b'=' | b':'] | [] if bytes.len() < LOOK_AHEAD => None,
        [b'=' | b':', next, ..] => Some(name > 0 && *next != b'='),
        _ => Some(false),
    }
}
