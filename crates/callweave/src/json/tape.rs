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

use std::sync::atomic::{AtomicU32, Ordering};

use super::value::{Builder, Number, Step, Value, Walk};
use super::word::{digits_end, plain_end};
use super::{Str, escape_into};
use crate::error::{Error, ErrorKind, Result};

/// Reusable notes about one JSON text.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    notes: Vec<Note>,
    open: Vec<u32>,
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

#[derive(Clone, Debug)]
struct Note {
    kind: Kind,
    /// For strings: whether there are escapes. For the outermost object or list: whether some key has them.
    has_escapes: bool,
    start: u32,
    end: u32,
    /// The note after this value and all inside it.
    next: u32,
    sight: Sight,
}

/// What a reader has looked at of a value: see [`Seen`]. Atomic only so that nodes stay `Sync`.
#[derive(Debug)]
struct Sight(AtomicU32);

impl Sight {
    const UNSEEN: u32 = u32::MAX;
    const SEEN: u32 = u32::MAX - 1;

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, sight: u32) {
        self.0.store(sight, Ordering::Relaxed);
    }
}

impl Clone for Sight {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.get()))
    }
}

/// How much of a value its reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Of what kind it is and, if it is a string, whether it is empty.
    Kind,
    /// Besides that it is the same string as the one whose note has that number.
    SameAs(u32),
    /// What it says.
    All,
}

/// A string or number on a tape: see [`Node::leaves`].
pub(crate) struct Leaf {
    /// The number of its note.
    pub(crate) note: u32,
    pub(crate) kind: Kind,
    /// Where it stands in the text, without quotes.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) seen: Seen,
}

/// A value on a [`Tape`].
#[derive(Clone, Copy)]
pub struct Node<'t> {
    text: &'t str,
    notes: &'t [Note],
    at: u32,
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.raw())
    }
}

impl Tape {
    /// An empty tape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks `text`, which must be one JSON value with nothing but white space around it.
    pub fn parse<'t>(&'t mut self, text: &'t str) -> Result<Node<'t>> {
        self.notes.clear();
        self.open.clear();
        if u32::try_from(text.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, TOO_LONG));
        }
        self.walk(text).map_err(|(at, what)| Error::new(ErrorKind::Json, what).at(at as u64))?;
        Ok(Node { text, notes: &self.notes, at: 0 })
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
        self.notes.clear();
        self.open.clear();
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        for step in Walk::through(value) {
            let is_end = matches!(step, Step::EndArray | Step::EndObject);
            if !is_end && !text.is_empty() && !text.ends_with(['[', '{', ':']) {
                text.push(',');
            }
            self.lay_down(step, &mut text);
        }
        self.text = text;
        if u32::try_from(self.text.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, TOO_LONG));
        }
        Ok(Node { text: &self.text, notes: &self.notes, at: 0 })
    }

    fn lay_down(&mut self, step: Step<'_>, text: &mut String) {
        let start = text.len();
        let mut string = |content: &str| {
            text.push('"');
            escape_into(content, text);
            text.push('"');
            (text.len() - start) != content.len() + 2
        };
        match step {
            Step::BeginArray | Step::BeginObject => {
                let is_array = matches!(step, Step::BeginArray);
                text.push(if is_array { '[' } else { '{' });
                self.begin(if is_array { Kind::Array } else { Kind::Object }, start);
            }
            Step::EndArray | Step::EndObject => {
                text.push(if matches!(step, Step::EndArray) { ']' } else { '}' });
                self.close(text.len());
            }
            Step::Key(key) => {
                let has_escapes = string(key);
                self.leaf(Kind::String, has_escapes, start, text.len());
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
                self.leaf(kind, has_escapes, start, text.len());
            }
        }
    }

    fn walk(&mut self, text: &str) -> Walked<()> {
        let bytes = text.as_bytes();
        let mut at = skip(bytes, 0);
        loop {
            at = match bytes.get(at) {
                Some(b'"') => self.string(bytes, at)?,
                Some(b'{') => {
                    self.begin(Kind::Object, at);
                    at = skip(bytes, at + 1);
                    if bytes.get(at) != Some(&b'}') {
                        at = self.key(bytes, at)?;
                        continue;
                    }
                    self.close(at + 1)
                }
                Some(b'[') => {
                    self.begin(Kind::Array, at);
                    at = skip(bytes, at + 1);
                    if bytes.get(at) != Some(&b']') {
                        continue;
                    }
                    self.close(at + 1)
                }
                _ => self.scalar(bytes, at)?,
            };
            // A value has ended; go on to where the next one begins.
            loop {
                at = skip(bytes, at);
                let Some(&open) = self.open.last() else {
                    return if at < bytes.len() {
                        Err((at, "the JSON text goes on after its value"))
                    } else {
                        Ok(())
                    };
                };
                let is_object = self.notes[open as usize].kind == Kind::Object;
                match bytes.get(at) {
                    Some(b',') => {
                        at = skip(bytes, at + 1);
                        if is_object {
                            at = self.key(bytes, at)?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => at = self.close(at + 1),
                    Some(b']') if !is_object => at = self.close(at + 1),
                    Some(_) => return Err((at, "the JSON text has a character out of place")),
                    None => return Err((at, "the JSON text ends too early")),
                }
            }
        }
    }

    /// Reads a key and its colon; returns where the value begins.
    fn key(&mut self, bytes: &[u8], at: usize) -> Walked<usize> {
        if bytes.get(at) != Some(&b'"') {
            return Err((at, "a JSON object misses a key"));
        }
        let at = self.string(bytes, at)?;
        if self.notes.last().is_some_and(|key| key.has_escapes) {
            self.notes[0].has_escapes = true;
        }
        let at = skip(bytes, at);
        if bytes.get(at) != Some(&b':') {
            return Err((at, "a JSON object misses a colon"));
        }
        Ok(skip(bytes, at + 1))
    }

    fn begin(&mut self, kind: Kind, start: usize) {
        self.open.push(self.notes.len() as u32);
        self.notes.push(Note::new(kind, false, start, 0, 0));
    }

    /// Closes the innermost container at `end`, the byte after its closer.
    fn close(&mut self, end: usize) -> usize {
        let at = self.open.pop().expect("a closer is only taken with its opener open") as usize;
        let next = self.notes.len() as u32;
        let note = &mut self.notes[at];
        note.end = end as u32;
        note.next = next;
        end
    }

    fn leaf(&mut self, kind: Kind, has_escapes: bool, start: usize, end: usize) {
        let next = self.notes.len() as u32 + 1;
        self.notes.push(Note::new(kind, has_escapes, start, end, next));
    }

    fn string(&mut self, bytes: &[u8], start: usize) -> Walked<usize> {
        let (end, has_escapes) = contents(bytes, start + 1)?;
        self.leaf(Kind::String, has_escapes, start, end + 1);
        Ok(end + 1)
    }

    fn scalar(&mut self, bytes: &[u8], start: usize) -> Walked<usize> {
        let rest = &bytes[start..];
        let Some(&first) = rest.first() else { return Err((start, "the JSON text ends too early")) };
        let (kind, length) = match first {
            b't' if rest.starts_with(b"true") => (Kind::Bool, 4),
            b'f' if rest.starts_with(b"false") => (Kind::Bool, 5),
            b'n' if rest.starts_with(b"null") => (Kind::Null, 4),
            b'-' | b'0'..=b'9' => (Kind::Number, number(rest).ok_or((start, "a JSON number is malformed"))?),
            _ => return Err((start, "the JSON text has a character out of place")),
        };
        self.leaf(kind, false, start, start + length);
        Ok(start + length)
    }
}

const TOO_LONG: &str = "a JSON text is limited to 4 GiB";

/// What a walk gives, or where it failed and why.
type Walked<T> = std::result::Result<T, (usize, &'static str)>;

/// The first byte from `at` on that is not white space.
fn skip(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where the contents of a string end that begin at `at`, and whether they have escapes.
#[inline]
fn contents(bytes: &[u8], mut at: usize) -> Walked<(usize, bool)> {
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

impl Note {
    fn new(kind: Kind, has_escapes: bool, start: usize, end: usize, next: u32) -> Self {
        let sight = Sight(AtomicU32::new(Sight::UNSEEN));
        Self { kind, has_escapes, start: start as u32, end: end as u32, next, sight }
    }
}

impl<'t> Node<'t> {
    fn note(self) -> &'t Note {
        &self.notes[self.at as usize]
    }

    /// What kind of value it is.
    pub fn kind(self) -> Kind {
        self.note().kind
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Its text as written.
    pub fn raw(self) -> &'t str {
        self.look();
        self.pass_raw()
    }

    /// Its text as written, for one who passes it on and does not look at it.
    pub(crate) fn pass_raw(self) -> &'t str {
        let note = self.note();
        &self.text[note.start as usize..note.end as usize]
    }

    /// Where it begins in the parsed text.
    pub fn start(self) -> usize {
        self.note().start as usize
    }

    /// The string, if it is one.
    pub fn str(self) -> Option<Str<'t>> {
        self.look();
        self.pass()
    }

    /// The string, if it is one, for one who passes it on and does not look at it.
    pub(crate) fn pass(self) -> Option<Str<'t>> {
        let note = self.note();
        if note.kind != Kind::String {
            return None;
        }
        let inner = &self.text[note.start as usize + 1..note.end as usize - 1];
        Some(if note.has_escapes { Str::Escaped(inner) } else { Str::Plain(inner) })
    }

    /// The string, if it is one that is not empty: `""`, `null` and absent are the same.
    pub fn filled(self) -> Option<Str<'t>> {
        self.look();
        self.pass_filled()
    }

    /// The string, if it is one that is not empty, for one who passes it on and does not look at it.
    pub(crate) fn pass_filled(self) -> Option<Str<'t>> {
        self.pass().filter(|text| !text.is_empty())
    }

    /// Whether it is a string that is not empty.
    pub(crate) fn is_filled(self) -> bool {
        self.pass_filled().is_some()
    }

    /// Whether both strings are the same, for one who passes on one of them.
    pub(crate) fn is_same(self, other: Self) -> bool {
        if self.at == other.at {
            return true;
        }
        let is_same = self.pass().is_some() && self.pass() == other.pass();
        if is_same {
            let (first, later) = if self.at < other.at { (self, other) } else { (other, self) };
            // Who has looked at either has looked at both, and a third that is the same is so by the first.
            match (first.note().sight.get(), later.note().sight.get()) {
                (Sight::UNSEEN, Sight::UNSEEN) => later.note().sight.set(first.at),
                (_, known) if known == first.at => {}
                _ => {
                    first.look();
                    later.look();
                }
            }
        } else {
            self.look();
            other.look();
        }
        is_same
    }

    /// Notes that the reader knows what it says, and so what the one says that is the same.
    fn look(self) {
        let sight = &self.note().sight;
        let known = sight.get();
        if known < Sight::SEEN {
            self.notes[known as usize].sight.set(Sight::SEEN);
        }
        sight.set(Sight::SEEN);
    }

    /// The strings and numbers inside this outermost value that are no keys, with what its reader knows of each.
    pub(crate) fn leaves(self) -> impl Iterator<Item = Leaf> {
        let bytes = self.text.as_bytes();
        let mut seen_until = 0;
        (0..self.notes.len() as u32).zip(self.notes).filter_map(move |(at, note)| {
            let own = note.sight.get();
            if own == Sight::SEEN {
                // Who looks at a list or an object looks at all that is in it.
                seen_until = seen_until.max(note.next);
            }
            let (start, end) = (note.start as usize, note.end as usize);
            let (start, end) = match note.kind {
                Kind::String if bytes.get(skip(bytes, end)) == Some(&b':') => return None,
                Kind::String => (start + 1, end - 1),
                Kind::Number => (start, end),
                Kind::Object | Kind::Array | Kind::Bool | Kind::Null => return None,
            };
            let seen = match own {
                _ if at < seen_until => Seen::All,
                Sight::UNSEEN => Seen::Kind,
                Sight::SEEN => Seen::All,
                other => Seen::SameAs(other),
            };
            Some(Leaf { note: at, kind: note.kind, start, end, seen })
        })
    }

    /// Whether it is `true` or `false`, if it is either.
    pub fn bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == "true")
    }

    /// The number as a count of something: a whole number that is not negative.
    pub fn count(self) -> Option<u64> {
        if self.kind() != Kind::Number {
            return None;
        }
        let raw = self.raw();
        raw.parse().ok().or_else(|| {
            let float: f64 = raw.parse().ok()?;
            (float >= 0.0 && float < u64::MAX as f64 && float.fract() == 0.0).then_some(float as u64)
        })
    }

    /// The number (or numeric string) as the name of a place: any number has one, equal numbers
    /// have the same, and other values have none.
    pub fn index(self) -> Option<i64> {
        let raw = match self.kind() {
            Kind::Number => self.raw(),
            Kind::String => {
                return match self.str() {
                    Some(Str::Plain(text)) => text.parse().ok(),
                    _ => None,
                };
            }
            _ => return None,
        };
        raw.parse().ok().or_else(|| {
            let float: f64 = raw.parse().ok()?;
            let whole = float as i64;
            Some(if whole as f64 == float && whole != i64::MAX { whole } else { float.to_bits() as i64 })
        })
    }

    /// The members, if it is an object; else none.
    pub fn members(self) -> Members<'t> {
        let note = self.note();
        let end = if note.kind == Kind::Object { note.next } else { self.at + 1 };
        Members { inner: self, at: self.at + 1, end }
    }

    /// The elements, if it is an array; else none.
    pub fn elements(self) -> Elements<'t> {
        let note = self.note();
        let end = if note.kind == Kind::Array { note.next } else { self.at + 1 };
        Elements { inner: self, at: self.at + 1, end }
    }

    /// Whether it nests more containers than [`Value::MAX_DEPTH`].
    pub(super) fn is_too_deep(self) -> bool {
        let mut open: Vec<u32> = Vec::new();
        let notes = &self.notes[..self.note().next as usize];
        notes.iter().enumerate().skip(self.at as usize).any(|(at, note)| {
            while open.pop_if(|end| *end as usize == at).is_some() {}
            if let Kind::Object | Kind::Array = note.kind {
                open.push(note.next);
            }
            open.len() > Value::MAX_DEPTH
        })
    }

    /// The value in memory, made in one pass over the notes. What a value should not hold is not lost: half
    /// a surrogate pair becomes U+FFFD, and what is nested more deeply than [`Value::TOLD_DEPTH`] is a string
    /// of its JSON text.
    pub fn to_value(self) -> Value {
        self.to_value_within(Value::TOLD_DEPTH)
    }

    /// The value in memory; what is nested more deeply than `depth` is a string of its JSON text.
    pub(super) fn to_value_within(self, depth: usize) -> Value {
        let mut builder = Builder::default();
        // For every open container the note after it, and whether it has keys.
        let mut open: Vec<(u32, bool)> = Vec::new();
        let mut node = self;
        loop {
            match node.kind() {
                Kind::Object | Kind::Array if open.len() == depth => {
                    builder.put(node.raw().into());
                    // On to the last note inside it.
                    node.at = node.note().next - 1;
                }
                Kind::Object => {
                    builder.begin_object();
                    open.push((node.note().next, true));
                }
                Kind::Array => {
                    builder.begin_array();
                    open.push((node.note().next, false));
                }
                Kind::String => builder.put(node.str().map(Str::to_cow).unwrap_or_default().into()),
                Kind::Number => builder.put(Number::trusted(node.raw()).into()),
                Kind::Bool => builder.put((node.raw() == "true").into()),
                Kind::Null => builder.put(Value::Null),
            }
            node.at += 1;
            while open.pop_if(|(end, _)| *end == node.at).is_some() {
                builder.end();
            }
            match open.last() {
                None => return builder.finish(),
                Some((_, false)) => {}
                Some((_, true)) => {
                    builder.key(node.str().map(Str::to_cow).unwrap_or_default().into_owned());
                    node.at += 1;
                }
            }
        }
    }

    /// The text of this outermost value with its keys written without needless escapes; none if they
    /// already are.
    pub(crate) fn with_plain_keys(self) -> Option<String> {
        if self.at > 0 || self.kind() == Kind::String || !self.note().has_escapes {
            return None;
        }
        let bytes = self.text.as_bytes();
        let mut plain = String::with_capacity(self.text.len());
        let mut from = 0;
        for note in self.notes.iter().filter(|note| note.kind == Kind::String && note.has_escapes) {
            let (start, end) = (note.start as usize + 1, note.end as usize - 1);
            if bytes.get(skip(bytes, end + 1)) == Some(&b':') {
                plain.push_str(&self.text[from..start]);
                escape_into(&Str::Escaped(&self.text[start..end]).to_cow(), &mut plain);
                from = end;
            }
        }
        plain.push_str(&self.text[from..]);
        (plain != self.text).then_some(plain)
    }

    /// The last member of that name, if it is an object that has one.
    pub fn get(self, key: &str) -> Option<Node<'t>> {
        self.members().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }
}

/// The members of an object, in order. A key with escapes comes as written.
#[derive(Clone)]
pub struct Members<'t> {
    inner: Node<'t>,
    at: u32,
    end: u32,
}

impl<'t> Iterator for Members<'t> {
    type Item = (&'t str, Node<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let key = Node { at: self.at, ..self.inner };
        let value = Node { at: self.at + 1, ..self.inner };
        self.at = value.note().next;
        Some((key.pass()?.written(), value))
    }
}

/// The elements of an array, in order.
#[derive(Clone)]
pub struct Elements<'t> {
    inner: Node<'t>,
    at: u32,
    end: u32,
}

impl<'t> Iterator for Elements<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let value = Node { at: self.at, ..self.inner };
        self.at = value.note().next;
        Some(value)
    }
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
    fn deep_nesting_needs_no_stack() {
        let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(Tape::new().parse(&text).is_ok());
    }
}
