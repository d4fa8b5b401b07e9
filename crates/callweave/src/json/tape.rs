//! A whole JSON text, checked once and then read without further errors.
//!
//! [`Tape::parse`] walks the text one time, strictly, without recursion, and notes where each value
//! begins and ends. [`Node`]s are cheap copies that look at the notes; reading them cannot fail,
//! skipping a value costs nothing, and its text as written is at hand. The tape's memory is reused
//! from text to text, so parsing a stream of frames does not allocate.
//!
//! ```
//! use callweave::json::Tape;
//!
//! let mut tape = Tape::new();
//! let frame = tape.parse(r#"{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}"#)?;
//! let choice = frame.get("choices").and_then(|choices| choices.elements().next());
//! let delta = choice.and_then(|choice| choice.get("delta"));
//! assert_eq!(delta.map(|delta| delta.raw()), Some(r#"{"content": "Hi"}"#));
//! # Ok::<(), callweave::Error>(())
//! ```

mod node;

use std::sync::atomic::{AtomicU16, Ordering};

pub use node::{Elements, Members, Node};
pub(crate) use node::{Leaf, Seen};

use super::escape_into;
use super::value::{Step, Value, Walk};
use super::word::{digits_end, plain_end, run_end};
use crate::error::{Error, ErrorKind, Result};

/// Reusable notes about one JSON text.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    notes: Vec<Note>,
    /// The text of a value that was laid out.
    text: String,
}

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// Four words, because there are many of them.
#[derive(Clone, Debug)]
struct Note {
    start: u32,
    end: u32,
    /// The note after this value and all inside it; while a list or an object is open, the one that it stands in.
    next: u32,
    kind: Kind,
    /// For strings: whether there are escapes. For the outermost object or list: whether some key has them.
    has_escapes: bool,
    sight: Sight,
}

/// What a reader has looked at of a value: see [`Seen`]. Atomic only so that nodes stay `Sync`.
#[derive(Debug)]
struct Sight(AtomicU16);

impl Sight {
    const UNSEEN: u16 = u16::MAX;
    const SEEN: u16 = u16::MAX - 1;
    /// It is a number that was passed on as that of a place.
    const PASSED: u16 = u16::MAX - 2;

    fn get(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, sight: u16) {
        self.0.store(sight, Ordering::Relaxed);
    }
}

impl Clone for Sight {
    fn clone(&self) -> Self {
        Self(AtomicU16::new(self.get()))
    }
}

/// No note.
const NONE: u32 = u32::MAX;

impl Note {
    #[inline]
    fn new(kind: Kind, has_escapes: bool, start: u32, end: u32, next: u32) -> Self {
        let sight = Sight(AtomicU16::new(Sight::UNSEEN));
        Self { kind, has_escapes, start, end, next, sight }
    }
}

impl Tape {
    /// An empty tape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks `text`, which must be one JSON value with nothing but white space around it.
    pub fn parse<'t>(&'t mut self, text: &'t str) -> Result<Node<'t>> {
        if u32::try_from(text.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, TOO_LONG));
        }
        match Walker::begin(&mut self.notes).walk(text.as_bytes()) {
            Ok(()) => Ok(Node::root(text, &self.notes)),
            Err((at, what)) => Err(Error::new(ErrorKind::Json, what).at(at.into())),
        }
    }

    /// Lays out a value that is in memory: its text is written once and noted on the way, so that nobody has
    /// to read it again.
    ///
    /// ```
    /// use callweave::json::{Tape, Value};
    ///
    /// let mut tape = Tape::new();
    /// let call = tape.lay_out(&Value::object([("name", "look".into()), ("at", vec![1, 2].into())]))?;
    /// assert_eq!(call.get("at").map(|at| at.raw()), Some("[1,2]"));
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn lay_out<'t>(&'t mut self, value: &Value) -> Result<Node<'t>> {
        let Self { notes, text } = self;
        text.clear();
        let mut walker = Walker::begin(notes);
        for step in Walk::through(value) {
            let is_end = matches!(step, Step::EndArray | Step::EndObject);
            if !is_end && !text.is_empty() && !text.ends_with(['[', '{', ':']) {
                text.push(',');
            }
            walker.lay_down(step, text);
        }
        if u32::try_from(text.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, TOO_LONG));
        }
        Ok(Node::root(text, notes))
    }
}

const TOO_LONG: &str = "a JSON text is limited to 4 GiB";

/// What a walk gives, or where it failed and why. Places are half words: then nothing that is added to them can
/// overflow, and need not be checked for it.
type Walked<T> = std::result::Result<T, (u32, &'static str)>;

/// Writes the notes.
struct Walker<'n> {
    notes: &'n mut Vec<Note>,
    /// The innermost open container.
    open: u32,
    /// What closes it; where nothing is open, the zero that stands for the end.
    closer: u8,
}

impl<'n> Walker<'n> {
    fn begin(notes: &'n mut Vec<Note>) -> Self {
        notes.clear();
        Self { notes, open: NONE, closer: 0 }
    }

    fn walk(&mut self, bytes: &[u8]) -> Walked<()> {
        let (mut at, mut byte) = next(bytes, 0);
        loop {
            if self.closer == b'}' {
                if byte != b'"' {
                    return Err((at, "a JSON object misses a key"));
                }
                at = self.string(bytes, at, Role::Key)?;
                (at, byte) = next(bytes, at);
                if byte != b':' {
                    return Err((at, "a JSON object misses a colon"));
                }
                (at, byte) = next(bytes, at + 1);
            }
            at = match byte {
                b'"' => self.string(bytes, at, Role::Value)?,
                b'{' | b'[' => {
                    self.begin_container(byte, at);
                    (at, byte) = next(bytes, at + 1);
                    if byte != self.closer {
                        continue;
                    }
                    self.close(at + 1);
                    at + 1
                }
                _ => self.scalar(bytes, at, byte)?,
            };
            // A value has ended; go on to where the next one begins.
            loop {
                (at, byte) = next(bytes, at);
                if byte != self.closer {
                    break;
                }
                if self.open == NONE {
                    break;
                }
                at += 1;
                self.close(at);
            }
            if byte != b',' || self.open == NONE {
                return self.end(bytes, at);
            }
            (at, byte) = next(bytes, at + 1);
        }
    }

    /// What stands at `at` does not go on: fine if it is the end and nothing is open.
    #[cold]
    fn end(&self, bytes: &[u8], at: u32) -> Walked<()> {
        match (self.open, (at as usize) < bytes.len()) {
            (NONE, false) => Ok(()),
            (NONE, true) => Err((at, "the JSON text goes on after its value")),
            (_, true) => Err((at, "the JSON text has a character out of place")),
            (_, false) => Err((at, "the JSON text ends too early")),
        }
    }

    #[inline]
    fn begin_container(&mut self, opener: u8, start: u32) {
        let (kind, closer) = if opener == b'{' { (Kind::Object, b'}') } else { (Kind::Array, b']') };
        let number = self.notes.len() as u32;
        self.notes.push(Note::new(kind, false, start, 0, self.open));
        (self.open, self.closer) = (number, closer);
    }

    /// Closes the innermost container at `end`, the byte after its closer.
    #[inline]
    fn close(&mut self, end: u32) {
        let next = self.notes.len() as u32;
        let Some(note) = self.notes.get_mut(self.open as usize) else { return };
        note.end = end;
        self.open = std::mem::replace(&mut note.next, next);
        self.closer = match self.notes.get(self.open as usize).map(|note| note.kind) {
            Some(Kind::Object) => b'}',
            Some(_) => b']',
            None => 0,
        };
    }

    #[inline]
    fn leaf(&mut self, kind: Kind, has_escapes: bool, start: u32, end: u32) {
        let next = self.notes.len() as u32 + 1;
        self.notes.push(Note::new(kind, has_escapes, start, end, next));
    }

    /// Reads the string whose quote stands at `start`; returns where it ends.
    #[inline(always)]
    fn string(&mut self, bytes: &[u8], start: u32, role: Role) -> Walked<u32> {
        let end = run_end(bytes, start as usize + 1);
        if bytes.get(end) == Some(&b'"') {
            let end = end as u32 + 1;
            self.leaf(Kind::String, false, start, end);
            return Ok(end);
        }
        self.odd_string(bytes, start, end, role)
    }

    /// The same for one that has something at `at` that is not its end.
    #[inline(never)]
    fn odd_string(&mut self, bytes: &[u8], start: u32, at: usize, role: Role) -> Walked<u32> {
        let (end, has_escapes) = contents(bytes, at).map_err(|(at, what)| (at as u32, what))?;
        let end = end as u32 + 1;
        self.leaf(Kind::String, has_escapes, start, end);
        if role == Role::Key {
            self.notes[0].has_escapes |= has_escapes;
        }
        Ok(end)
    }

    fn scalar(&mut self, bytes: &[u8], start: u32, first: u8) -> Walked<u32> {
        let rest = bytes.get(start as usize..).unwrap_or_default();
        // Most numbers are whole.
        let digits = if first.wrapping_sub(b'1') < 9 { digits_end(rest, 1) } else { 0 };
        let (kind, length) = match first {
            _ if digits > 0 && !matches!(rest.get(digits), Some(b'.' | b'e' | b'E')) => {
                (Kind::Number, digits)
            }
            b't' if rest.starts_with(b"true") => (Kind::Bool, 4),
            b'f' if rest.starts_with(b"false") => (Kind::Bool, 5),
            b'n' if rest.starts_with(b"null") => (Kind::Null, 4),
            b'-' | b'0'..=b'9' => (Kind::Number, number(rest).ok_or((start, "a JSON number is malformed"))?),
            _ if rest.is_empty() => return Err((start, "the JSON text ends too early")),
            _ => return Err((start, "the JSON text has a character out of place")),
        };
        let end = start + length as u32;
        self.leaf(kind, false, start, end);
        Ok(end)
    }

    fn lay_down(&mut self, step: Step<'_>, text: &mut String) {
        // Too long a text is refused when it is written.
        let end = |text: &String| text.len() as u32;
        let start = end(text);
        let mut string = |content: &str| {
            let before = text.len();
            text.push('"');
            escape_into(content, text);
            text.push('"');
            (text.len() - before) != content.len() + 2
        };
        match step {
            Step::BeginArray | Step::BeginObject => {
                let opener = if matches!(step, Step::BeginArray) { '[' } else { '{' };
                text.push(opener);
                self.begin_container(opener as u8, start);
            }
            Step::EndArray | Step::EndObject => {
                text.push(if matches!(step, Step::EndArray) { ']' } else { '}' });
                self.close(end(text));
            }
            Step::Key(key) => {
                let has_escapes = string(key);
                self.leaf(Kind::String, has_escapes, start, end(text));
                self.notes[0].has_escapes |= has_escapes;
                text.push(':');
            }
            Step::Leaf(leaf) => {
                let (kind, has_escapes) = match leaf {
                    Value::String(content) => (Kind::String, string(content)),
                    Value::Number(number) => {
                        text.push_str(number.as_str());
                        (Kind::Number, false)
                    }
                    Value::Bool(truth) => {
                        text.push_str(if *truth { "true" } else { "false" });
                        (Kind::Bool, false)
                    }
                    Value::Null | Value::Array(_) | Value::Object(_) => {
                        text.push_str("null");
                        (Kind::Null, false)
                    }
                };
                self.leaf(kind, has_escapes, start, end(text));
            }
        }
    }
}

/// What a string is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// The first byte from `at` on that is not white space, and its place; a zero stands for the end.
#[inline]
fn next(bytes: &[u8], at: u32) -> (u32, u8) {
    let byte = byte(bytes, at);
    // Mostly there is none, or one space.
    if byte > b' ' {
        return (at, byte);
    }
    let at = if byte == b' ' { at + 1 } else { at };
    let at = if self::byte(bytes, at) > b' ' { at } else { skip(bytes, at) };
    (at, self::byte(bytes, at))
}

#[inline]
fn byte(bytes: &[u8], at: u32) -> u8 {
    bytes.get(at as usize).copied().unwrap_or_default()
}

#[inline(never)]
fn skip(bytes: &[u8], mut at: u32) -> u32 {
    while let b' ' | b'\n' | b'\r' | b'\t' = byte(bytes, at) {
        at += 1;
    }
    at
}

/// Where the contents of a string end that go on at `at`, and whether there are escapes from there on.
#[inline]
fn contents(bytes: &[u8], mut at: usize) -> std::result::Result<(usize, bool), (usize, &'static str)> {
    let mut has_escapes = false;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok((at, has_escapes)),
            Some(b'\\') => {
                has_escapes = true;
                at += match bytes.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                    Some(b'u') if is_hex(bytes.get(at + 2..at + 6)) => 6,
                    _ => return Err((at, "a JSON string has a bad escape")),
                };
            }
            Some(_) => return Err((at, "a JSON string has a raw control character")),
            None => return Err((at, "the JSON text ends inside a string")),
        }
    }
}

/// Where the contents of a string end that begin at `at`, and whether they have escapes; none if it is no string.
#[inline]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    contents(bytes, at).ok()
}

/// Where the number ends that begins at `at`, if there is one.
#[inline]
pub(crate) fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    matches!(rest, [b'-' | b'0'..=b'9', ..]).then(|| number(rest)).flatten().map(|length| at + length)
}

fn is_hex(digits: Option<&[u8]>) -> bool {
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Whether the text is a number and nothing else.
pub(super) fn is_number(text: &str) -> bool {
    matches!(text.as_bytes(), [b'-' | b'0'..=b'9', ..] if number(text.as_bytes()) == Some(text.len()))
}

/// The length of the number at the start of `bytes`.
fn number(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| digits_end(bytes, from) - from;
    let mut at = usize::from(bytes[0] == b'-');
    at += match digits(at) {
        0 => return None,
        _ if bytes[at] == b'0' => 1,
        count => count,
    };
    if bytes.get(at) == Some(&b'.') {
        let count = digits(at + 1);
        if count == 0 {
            return None;
        }
        at += 1 + count;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let count = digits(at + 1 + sign);
        if count == 0 {
            return None;
        }
        at += 1 + sign + count;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_exactly_what_serde_json_accepts() {
        for text in [
            "{}",
            " [ ] ",
            "0",
            "-0.5e-7",
            "-",
            "1.",
            "1e",
            "01",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\t\"",
            "[,]",
            "[1,]",
            "{\"a\":1,}",
            "{,}",
            "nul",
            "null x",
            "{\"a\":[{}],\"b\":{\"c\":null}}",
            "{\"a\"}",
            "[",
            "{",
            "",
            "}",
            "[}",
        ] {
            let is_valid = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(Tape::new().parse(text).is_ok(), is_valid, "{text}");
        }
    }

    #[test]
    fn members_skip_what_is_inside() {
        let mut tape = Tape::new();
        let value = tape.parse(r#"{"a":{"x":[1,{"y":2}]},"b":[true,"\n"],"a":3}"#).expect("valid");
        let keys: Vec<_> = value.members().map(|(key, value)| (key, value.raw())).collect();
        assert_eq!(keys, [("a", r#"{"x":[1,{"y":2}]}"#), ("b", r#"[true,"\n"]"#), ("a", "3")]);
        assert_eq!(value.get("a").and_then(Node::count), Some(3));
        assert_eq!(value.elements().count(), 0);
    }

    #[test]
    fn any_number_names_a_place() {
        let mut tape = Tape::new();
        let value =
            tape.parse("[0, 1.0, -3, 1.5, 1e300, 99999999999999999999, \"2\", null, 1e0]").expect("valid");
        let places: Vec<_> = value.elements().map(Node::index).collect();
        assert_eq!(places[..3], [Some(0), Some(1), Some(-3)]);
        assert!(places[3].is_some() && places[4].is_some() && places[5].is_some());
        assert_eq!(places[6..], [Some(2), None, Some(1)]);
    }

    #[test]
    fn nothing_is_lost_on_the_way_into_memory() {
        let mut tape = Tape::new();
        let text =
            r#"{"a\ud800": ["\udc00", 123456789012345678901234567890, {"b": {}, "c": [[], 1e5]}], "": null}"#;
        let value = tape.parse(text).expect("valid").to_value();
        let expected = "{\"a\u{fffd}\":[\"\u{fffd}\",123456789012345678901234567890,{\"b\":{},\"c\":[[],1e5]}],\"\":null}";
        assert_eq!(value.to_string(), expected);
        let inner = tape.parse(text).expect("valid").members().next().map(|(_, inner)| inner.to_value());
        assert_eq!(inner, value.get("a\u{fffd}").cloned());
        let deep = |depth| format!("{}7, 8{}", "[[], ".repeat(depth), "]".repeat(depth));
        let value = Value::of_text(&deep(100_000));
        assert!(value.to_string().ends_with(&format!(" 7, 8{}\"{}", "]".repeat(99_900), "]".repeat(100))));
        assert!(deep(126).parse::<Value>().is_ok_and(|value| value.to_string().ends_with(&"]".repeat(126))));
        assert!(deep(127).parse::<Value>().is_err());
    }

    #[test]
    fn what_is_laid_out_is_noted_as_if_it_had_been_read() {
        for text in [
            "null",
            "\"a\\nb\"",
            "[]",
            "{}",
            r#"{"a":[{},[],"",{"b\\c":-1.50e9,"d":{"e":[true,false,null]}},":"],"f,[":"\u0001,"}"#,
        ] {
            let value: Value = text.parse().expect("valid");
            let (mut read, mut laid_out) = (Tape::new(), Tape::new());
            read.parse(text).expect("valid");
            assert_eq!(laid_out.lay_out(&value).expect("short").pass_raw(), text);
            assert_eq!(format!("{:?}", laid_out.notes), format!("{:?}", read.notes), "{text}");
        }
    }

    #[test]
    fn what_is_the_same_far_away_counts_as_seen() {
        for (count, expected) in [(3, Seen::SameAs(4)), (70_000, Seen::All)] {
            let text = format!("[{}\"a\",\"a\"]", "0,".repeat(count));
            let mut tape = Tape::new();
            let value = tape.parse(&text).expect("valid");
            let last: Vec<_> = value.elements().skip(count).collect();
            assert!(last[0].is_same(last[1]));
            assert_eq!(value.leaves().last().map(|leaf| leaf.seen), Some(expected));
        }
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(Tape::new().parse(&text).is_ok());
    }
}
