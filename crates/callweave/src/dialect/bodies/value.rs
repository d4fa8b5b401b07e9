//! One JSON value, passed on byte for byte, its end found by reading and not by searching a closer.
//!
//! As long as the text is JSON it ends exactly where JSON says. Once it is not, brackets and quotes
//! still tell where it ends most of the time, and a closer outside quotes always does.

use super::super::markers::{Found, Markers};
use super::{Context, Token, boundary};
use crate::json::{Scanner, Status};

/// Longer than any closer.
const WINDOW: usize = 1024;

/// The state of reading one value.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::dialect) struct Value {
    scanner: Scanner,
    loose: Option<Loose>,
    /// Whether it has just stopped being JSON and nobody was told yet.
    is_untold: bool,
}

#[derive(Clone, Copy, Debug)]
struct Loose {
    depth: u32,
    quote: u8,
    is_escaped: bool,
    /// The last byte that was not white space.
    last: u8,
}

/// How far the value has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) enum Progress {
    Open,
    /// It has just stopped being JSON; nothing was taken.
    Odd,
    Complete,
    /// It was ended by a closer.
    Closed,
    /// The text ended before it did.
    Cut,
}

/// Whether a line, the text or the next marker follows. Nothing: more text is needed.
fn ends_line(rest: &str, is_last: bool) -> Option<bool> {
    match rest.trim_start_matches([' ', '\t', '\r']).bytes().next() {
        None => is_last.then_some(true),
        Some(next) => Some(matches!(next, b'\n' | b'<' | b'[')),
    }
}

impl Value {
    /// A value that should be an object, and begins with something else.
    pub(in crate::dialect) fn damaged() -> Self {
        let loose = Loose { depth: 0, quote: 0, is_escaped: false, last: b',' };
        Self { loose: Some(loose), is_untold: true, ..Self::default() }
    }

    /// Whether it is JSON so far.
    pub(in crate::dialect) fn is_json(&self) -> bool {
        self.loose.is_none()
    }

    /// Reads on: how many bytes of `text` belong to the value, and how far it has come.
    #[inline]
    pub(in crate::dialect) fn read(&mut self, text: &str, context: &Context<'_>) -> (usize, Progress) {
        let Context { form, is_last, .. } = *context;
        if self.is_untold {
            self.is_untold = false;
            return (0, Progress::Odd);
        }
        if self.loose.is_some() {
            return self.read_loosely(text, &form.closers, is_last);
        }
        // A long text is read window by window: neither its closers nor its value is looked for in all of it at once.
        let (whole, was_last) = (text, is_last);
        let end = boundary(text, WINDOW);
        let (text, is_last) = (&text[..end], is_last && end == text.len());
        let text = match form.closers.find(text, is_last) {
            Found::Nothing => text,
            // A closer that the text or the next call follows ends a string that was not closed.
            Found::Marker { at: 0, len, .. } if self.scanner.is_in_string() => {
                match form.is_closed_by(whole, was_last) {
                    Some(true) => {
                        self.loose = Some(Loose { depth: 0, quote: b'"', is_escaped: false, last: b',' });
                        self.is_untold = true;
                        return self.read(whole, context);
                    }
                    Some(false) => &text[..len],
                    None => return (0, Progress::Open),
                }
            }
            Found::Marker { at: 0, len, .. } => &text[..len],
            Found::Perhaps(0) if self.scanner.is_in_string() => return (0, Progress::Open),
            Found::Perhaps(0) => text,
            Found::Marker { at, .. } | Found::Perhaps(at) => &text[..at],
        };
        let before = self.scanner;
        let taken = self.scanner.push(text);
        match self.scanner.status() {
            Status::Complete => (taken, Progress::Complete),
            Status::Broken => {
                // The scanner forgets where it stood when it broke, so it goes there once more.
                let mut there = before;
                there.push(&text[..taken]);
                let quote = if there.is_in_string() { b'"' } else { 0 };
                self.scanner = there;
                self.loose =
                    Some(Loose { depth: there.depth(), quote, is_escaped: there.is_in_escape(), last: b',' });
                self.is_untold = taken > 0;
                if taken > 0 { (taken, Progress::Open) } else { (0, Progress::Odd) }
            }
            Status::Empty | Status::Open => (taken, Progress::Open),
        }
    }

    /// Whether it is JSON so far and stands inside a string, at none of its escapes.
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.loose.is_none() && !self.is_untold && self.scanner.is_in_string() && !self.scanner.is_in_escape()
    }

    /// Reads on as a body does: a token, and how far the value has come with it.
    #[inline]
    pub(in crate::dialect) fn token(&mut self, text: &str, context: &Context<'_>) -> (Token, Progress) {
        match self.read(text, context) {
            (_, Progress::Odd) => (Token::Odd("the arguments are not JSON"), Progress::Odd),
            (0, Progress::Open) if !context.is_last => (Token::More, Progress::Open),
            (0, Progress::Open) => {
                // A number is known to be complete only when nothing else follows it.
                let is_whole = self.loose.is_none() && self.scanner.finish() == Status::Complete;
                (Token::Markup(0), if is_whole { Progress::Complete } else { Progress::Cut })
            }
            (0, progress) => (Token::Markup(0), progress),
            (taken, progress) => (Token::Argument(taken), progress),
        }
    }

    fn read_loosely(&mut self, text: &str, closers: &Markers<()>, is_last: bool) -> (usize, Progress) {
        let Some(loose) = &mut self.loose else { return (0, Progress::Open) };
        for (at, byte) in text.bytes().enumerate() {
            if loose.is_escaped {
                loose.is_escaped = false;
                continue;
            }
            if text.is_char_boundary(at) {
                match closers.starting(&text[at..], is_last) {
                    Found::Marker { len, .. } if loose.quote != 0 => {
                        // Quotes mean little here; but a closer in the middle of a line may be quoted.
                        match ends_line(&text[at + len..], is_last) {
                            Some(true) => return (at, Progress::Closed),
                            Some(false) => {}
                            None => return (at, Progress::Open),
                        }
                    }
                    Found::Marker { .. } => return (at, Progress::Closed),
                    Found::Perhaps(_) => return (at, Progress::Open),
                    Found::Nothing => {}
                }
            }
            if loose.quote != 0 {
                match byte {
                    b'\\' => loose.is_escaped = true,
                    _ if byte == loose.quote => loose.quote = 0,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => loose.quote = byte,
                // An apostrophe opens a string only where a value or key may begin.
                b'\'' if matches!(loose.last, b'{' | b'[' | b',' | b':' | b'(') => loose.quote = byte,
                b'{' | b'[' => loose.depth += 1,
                b'}' | b']' if loose.depth == 1 => return (at + 1, Progress::Complete),
                b'}' | b']' => loose.depth = loose.depth.saturating_sub(1),
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                loose.last = byte;
            }
        }
        (text.len(), Progress::Open)
    }
}
