//! One JSON value, passed on byte for byte, its end found by reading and not by searching a closer.
//!
//! As long as the text is JSON it ends exactly where JSON says. Once it is not, brackets and quotes still show where it
//! ends, and a closer outside quotes always does. Inside a string nothing is a closer, unless the string's end is in
//! doubt: it never ends, or the text behind its end cannot stand there. Then a closer that the next opener follows
//! shows where the value stopped.

use super::super::markers::MarkerMatch;
use super::{BodyContext, BodyToken, CompiledForm, boundary, leading_space};
use crate::json::{JsonScanner, ScanStatus};

/// Longer than any closer.
const WINDOW: usize = 1024;

/// The maximum distance behind a closer in a string at which the string's end is looked for; a longer string is
/// accepted as it is.
pub(in crate::dialect) const LONGEST_DOUBT: usize = 1 << 16;

/// The state of reading one value.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::dialect) struct ValueReader {
    scanner: JsonScanner,
    loose: Option<LooseValue>,
    /// Whether it has just stopped being JSON and that was not reported yet.
    is_untold: bool,
    /// The last byte outside a string that was not white space.
    last: u8,
    /// How many bytes in front are known to be of a string, and whether that is closed by the last of them.
    clear: usize,
    is_closed: bool,
    /// How far the end of a string was looked for from a closer in it.
    seen: usize,
    /// Whether the end of a string is in doubt, and whether the value stops here because of that.
    is_doubtful: bool,
    is_stopped: bool,
}

#[derive(Clone, Copy, Debug)]
struct LooseValue {
    depth: u32,
    quote: u8,
    is_escaped: bool,
    /// The last byte that was not white space.
    last: u8,
}

/// Where a string ends that holds what looks like the end of the call.
#[derive(Clone, Copy)]
pub(in crate::dialect) enum StringEnd {
    /// More text is needed.
    More,
    /// Behind this many bytes, its closing quote included.
    Closed(usize),
    /// Not within this many bytes, and the search stops there.
    Far(usize),
    /// Unknown.
    Doubtful,
}

/// How far the value has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) enum ValueProgress {
    Open,
    /// It has just stopped being JSON; nothing was taken.
    Odd,
    Complete,
    /// It was ended by a closer.
    Closed,
    /// The text ended before it did.
    Cut,
}

/// Whether a line, the text or the next marker follows. `None`: more text is needed.
fn ends_line(rest: &str, is_last: bool) -> Option<bool> {
    match rest.trim_start_matches([' ', '\t', '\r']).bytes().next() {
        None => is_last.then_some(true),
        Some(next) => Some(matches!(next, b'\n' | b'<' | b'[')),
    }
}

/// Returns where a string ends that is closed by `quote`, from a closer in it on; `seen` bytes were looked at before. A
/// quote ends it if the text behind it is what JSON has there.
pub(in crate::dialect) fn string_end(text: &str, quote: &str, seen: &mut usize, is_last: bool) -> StringEnd {
    let bytes = text.as_bytes();
    let first = quote.as_bytes()[0];
    let mut at = *seen;
    loop {
        if at > LONGEST_DOUBT {
            *seen = 0;
            return StringEnd::Far(boundary(text, LONGEST_DOUBT));
        }
        // The text may end inside an escape.
        let Some(rest) = bytes.get(at..) else { break };
        let Some(found) = memchr::memchr2(first, b'\\', rest) else {
            *seen = bytes.len();
            break;
        };
        at += found;
        *seen = at;
        if bytes[at] == b'\\' && quote.len() == 1 {
            at += 2;
            continue;
        }
        if !text[at..].starts_with(quote) {
            if quote.starts_with(&text[at..]) {
                break;
            }
            at += 1;
            continue;
        }
        let end = at + quote.len();
        return match bytes.get(end + leading_space(&text[end..])) {
            None if !is_last => StringEnd::More,
            None | Some(b',' | b':' | b'}' | b']') => {
                *seen = 0;
                StringEnd::Closed(end)
            }
            Some(_) => StringEnd::Doubtful,
        };
    }
    if is_last { StringEnd::Doubtful } else { StringEnd::More }
}

impl ValueReader {
    /// A value that should be an object, and begins with something else.
    pub(in crate::dialect) fn damaged() -> Self {
        let loose = LooseValue { depth: 0, quote: 0, is_escaped: false, last: b',' };
        Self { loose: Some(loose), is_untold: true, ..Self::default() }
    }

    /// Whether it is JSON so far.
    pub(in crate::dialect) fn is_json(&self) -> bool {
        self.loose.is_none()
    }

    /// Reads on: how many bytes of `text` belong to the value, and how far it has come.
    #[inline]
    pub(in crate::dialect) fn read(
        &mut self,
        text: &str,
        context: &mut BodyContext<'_>,
    ) -> (usize, ValueProgress) {
        let read = self.read_on(text, context.form, context.is_last);
        *context.in_doubt |= self.is_doubtful;
        read
    }

    #[inline]
    fn read_on(&mut self, text: &str, form: &CompiledForm, is_last: bool) -> (usize, ValueProgress) {
        if self.is_untold {
            self.is_untold = false;
            return (0, ValueProgress::Odd);
        }
        if self.is_stopped {
            return (0, ValueProgress::Closed);
        }
        if self.clear > 0 {
            return (self.take_clear(text), ValueProgress::Open);
        }
        if self.loose.is_some() {
            return self.read_loosely(text, form, is_last);
        }
        // A long text is read window by window: neither its closers nor its value is looked for in all of it at once.
        let (whole, was_last) = (text, is_last);
        let end = boundary(text, WINDOW);
        let (text, is_last) = (&text[..end], is_last && end == text.len());
        let text = match form.closers.find(text, is_last) {
            MarkerMatch::Nothing => text,
            MarkerMatch::Marker { at: 0, len, .. } if self.scanner.is_in_string() => {
                match self.closer_in_string(whole, "\"", form, was_last) {
                    Some(true) => return (self.take_clear(whole), ValueProgress::Open),
                    Some(false) => &text[..len],
                    None if self.is_untold => return self.read_on(whole, form, was_last),
                    None => return (0, ValueProgress::Open),
                }
            }
            MarkerMatch::Marker { at: 0, len, .. } => &text[..len],
            MarkerMatch::Perhaps(0) if self.scanner.is_in_string() => return (0, ValueProgress::Open),
            MarkerMatch::Perhaps(0) => text,
            MarkerMatch::Marker { at, .. } | MarkerMatch::Perhaps(at) => &text[..at],
        };
        let before = self.scanner;
        let taken = self.scanner.push(text);
        match self.scanner.status() {
            ScanStatus::Complete => (taken, ValueProgress::Complete),
            ScanStatus::Broken => {
                // The scanner forgets where it stood when it broke, so it goes there once more.
                let mut there = before;
                there.push(&text[..taken]);
                let quote = if there.is_in_string() { b'"' } else { 0 };
                self.scanner = there;
                self.note(&text[..taken]);
                self.is_doubtful |= quote == 0 && self.last == b'"';
                self.loose = Some(LooseValue {
                    depth: there.depth(),
                    quote,
                    is_escaped: there.is_in_escape(),
                    last: b',',
                });
                self.is_untold = taken > 0;
                if taken > 0 { (taken, ValueProgress::Open) } else { (0, ValueProgress::Odd) }
            }
            ScanStatus::Empty | ScanStatus::Open => {
                self.note(&text[..taken]);
                (taken, ValueProgress::Open)
            }
        }
    }

    /// Remembers the last byte of `text` that says something, where no string is open.
    #[inline]
    fn note(&mut self, text: &str) {
        if !self.scanner.is_in_string()
            && let Some(last) = text.bytes().rev().find(|byte| !byte.is_ascii_whitespace())
        {
            self.last = last;
        }
    }

    /// Takes the known rest of a string.
    fn take_clear(&mut self, text: &str) -> usize {
        let len = self.clear.min(text.len());
        self.clear -= len;
        let is_closed = self.clear == 0 && self.is_closed;
        match &mut self.loose {
            Some(loose) if is_closed => (loose.quote, loose.last) = (0, b'"'),
            Some(_) => {}
            None => {
                self.scanner.push(&text[..len]);
                self.note(&text[..len]);
            }
        }
        len
    }

    /// Whether a closer at the start of `text`, in a string, is data to the end of that string, or data by itself.
    /// `None`: more text is needed, or the value stops there.
    fn closer_in_string(
        &mut self,
        text: &str,
        quote: &str,
        form: &CompiledForm,
        is_last: bool,
    ) -> Option<bool> {
        // Only where the text ends there, or the next call begins, may it be more than data.
        if !form.is_closed_by(text, is_last)? {
            return Some(false);
        }
        let end = string_end(text, quote, &mut self.seen, is_last);
        match end {
            StringEnd::More => None,
            StringEnd::Closed(len) | StringEnd::Far(len) => {
                (self.clear, self.is_closed) = (len, matches!(end, StringEnd::Closed(_)));
                Some(true)
            }
            StringEnd::Doubtful => {
                let loose = LooseValue { depth: 0, quote: 0, is_escaped: false, last: b',' };
                self.is_untold = self.loose.is_none();
                self.loose = Some(loose);
                (self.is_doubtful, self.is_stopped) = (true, true);
                None
            }
        }
    }

    /// Whether it is JSON so far and stands inside a string, at none of its escapes.
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.loose.is_none() && !self.is_untold && self.scanner.is_in_string() && !self.scanner.is_in_escape()
    }

    /// Reads on as a body does: a token, and how far the value has come with it.
    #[inline]
    pub(in crate::dialect) fn token(
        &mut self,
        text: &str,
        context: &mut BodyContext<'_>,
    ) -> (BodyToken, ValueProgress) {
        match self.read(text, context) {
            (_, ValueProgress::Odd) => (BodyToken::Odd("the arguments are not JSON"), ValueProgress::Odd),
            (0, ValueProgress::Open) if !context.is_last => (BodyToken::More, ValueProgress::Open),
            (0, ValueProgress::Open) => {
                // A number is known to be complete only when nothing else follows it.
                let is_complete = self.loose.is_none() && self.scanner.finish() == ScanStatus::Complete;
                (BodyToken::Markup(0), if is_complete { ValueProgress::Complete } else { ValueProgress::Cut })
            }
            (0, progress) => (BodyToken::Markup(0), progress),
            (taken, progress) => (BodyToken::Argument(taken), progress),
        }
    }

    fn read_loosely(&mut self, text: &str, form: &CompiledForm, is_last: bool) -> (usize, ValueProgress) {
        let mut at = 0;
        while at < text.len() {
            let Some(loose) = &mut self.loose else { return (0, ValueProgress::Open) };
            let byte = text.as_bytes()[at];
            if loose.is_escaped {
                loose.is_escaped = false;
                at += 1;
                continue;
            }
            if text.is_char_boundary(at) {
                match form.closers.starting(&text[at..], is_last) {
                    MarkerMatch::Perhaps(_) => return (at, ValueProgress::Open),
                    // Quotes mean little now; but a closer in the middle of a line may be quoted.
                    MarkerMatch::Marker { len, .. } if loose.quote != 0 && self.is_doubtful => {
                        match ends_line(&text[at + len..], is_last) {
                            Some(true) => return (at, ValueProgress::Closed),
                            Some(false) => {}
                            None => return (at, ValueProgress::Open),
                        }
                    }
                    MarkerMatch::Marker { .. } if loose.quote != 0 && at > 0 => {
                        return (at, ValueProgress::Open);
                    }
                    MarkerMatch::Marker { len, .. } if loose.quote != 0 => {
                        let quote = if loose.quote == b'"' { "\"" } else { "'" };
                        match self.closer_in_string(text, quote, form, is_last) {
                            Some(true) => return (self.take_clear(text), ValueProgress::Open),
                            Some(false) => {
                                at = len;
                                continue;
                            }
                            None if self.is_stopped => return (0, ValueProgress::Closed),
                            None => return (0, ValueProgress::Open),
                        }
                    }
                    MarkerMatch::Marker { .. } => {
                        self.is_doubtful |= is_quote(loose.last);
                        return (at, ValueProgress::Closed);
                    }
                    MarkerMatch::Nothing => {}
                }
            }
            at += 1;
            if loose.quote != 0 {
                match byte {
                    b'\\' => loose.is_escaped = true,
                    _ if byte == loose.quote => (loose.quote, loose.last) = (0, byte),
                    _ => {}
                }
                continue;
            }
            let follows_string = is_quote(loose.last);
            self.is_doubtful |=
                follows_string && !byte.is_ascii_whitespace() && !matches!(byte, b',' | b':' | b'}' | b']');
            match byte {
                b'"' => loose.quote = byte,
                // An apostrophe opens a string only where a value or key may begin.
                b'\'' if matches!(loose.last, b'{' | b'[' | b',' | b':' | b'(') => loose.quote = byte,
                b'{' | b'[' => loose.depth += 1,
                b'}' | b']' if loose.depth == 1 => return (at, ValueProgress::Complete),
                b'}' | b']' => loose.depth = loose.depth.saturating_sub(1),
                _ => {}
            }
            if loose.quote == 0 && !byte.is_ascii_whitespace() {
                loose.last = if byte == b'\'' { 0 } else { byte };
            }
        }
        (text.len(), ValueProgress::Open)
    }
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}
