//! A complete JSON text, checked once and then read without further errors.
//!
//! [`Tape::parse`] walks the text one time, strictly, without recursion, and notes where each value begins and ends.
//! [`TapeNode`]s are cheap copies that look at the notes; reading them cannot fail, skipping a value costs nothing, and
//! its written text is available. The tape's memory is reused from text to text, so parsing a stream of frames does not
//! allocate.
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

use std::cell::Cell;
use std::sync::atomic::{AtomicU16, Ordering};

pub(crate) use node::{Inspected, NodeMark, TapeLeaf};
pub use node::{NodeElements, NodeMembers, TapeNode};

use super::escape_into;
use super::lane::{self, ByteLane, WIDTH};
use super::value::{Value, ValueWalk, WalkStep};
use super::word::{digits, digits_alone_end, digits_end, long_plain_end, plain_end, run_end};
use crate::error::{Error, ErrorKind, Result};

/// Reusable notes about one JSON text.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The entries of the last text come first; entries behind them are left over from longer texts.
    notes: Vec<TapeEntry>,
    /// The text of a value that was laid out.
    text: String,
}

thread_local! {
    /// Many streams are open, but a thread reads one frame at a time, and perhaps something in it meanwhile.
    static SPARE: [Cell<Option<Box<Tape>>>; 2] = const { [Cell::new(None), Cell::new(None)] };
}

/// The maximum length of a tape that is kept: a thread that reads one huge text may never read another.
const LONGEST_SPARE: usize = 1 << 14;

/// Calls `read` with a tape that this thread keeps, or with a new one while these are in use.
#[inline]
pub(crate) fn with_spare_tape<T>(read: impl FnOnce(&mut Tape) -> T) -> T {
    let mut tape = take_spare();
    let result = read(&mut tape);
    keep_spare(tape);
    result
}

#[inline]
fn take_spare() -> Box<Tape> {
    // A thread that ends has lost its tapes.
    let spare = SPARE.try_with(|[one, other]| one.take().or_else(|| other.take()));
    spare.ok().flatten().unwrap_or_default()
}

#[inline]
fn keep_spare(tape: Box<Tape>) {
    if tape.notes.len() <= LONGEST_SPARE && tape.text.capacity() <= LONGEST_SPARE {
        let _ = SPARE.try_with(|[one, other]| match one.replace(Some(tape)) {
            None => {}
            earlier => other.set(earlier),
        });
    }
}

/// A text that was checked some time before it is read.
#[derive(Debug)]
pub(crate) struct CheckedText {
    text: String,
    /// The notes about it, and their number. Long ones take several times the memory of their text: such a text is read
    /// once more instead.
    notes: Option<(Box<Tape>, usize)>,
}

impl CheckedText {
    /// The text, if it is one JSON value with nothing but white space around it.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut tape = take_spare();
        let Ok(count) = tape.note(text) else {
            keep_spare(tape);
            return None;
        };
        let notes = (tape.notes.len() <= LONGEST_SPARE).then_some((tape, count));
        Some(Self { text: text.to_owned(), notes })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Calls `read` with the value.
    pub(crate) fn read(self, read: impl FnOnce(TapeNode<'_>)) {
        let Self { text, notes } = self;
        match notes {
            Some((tape, count)) => {
                read(TapeNode::root(&text, &tape.notes[..count]));
                keep_spare(tape);
            }
            None => _ = Tape::new().parse(&text).map(read),
        }
    }
}

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonKind {
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

/// A note about a value. Four words of memory, because there are many of them.
#[derive(Clone, Debug)]
struct TapeEntry {
    start: u32,
    /// While a list or an object is open, the closer of the container around it.
    end: u32,
    /// The note after this value and all inside it; while a list or an object is open, the note of the container around
    /// it.
    next: u32,
    kind: JsonKind,
    /// For strings: whether there are escapes. For the outermost object or list: whether some key has them.
    has_escapes: bool,
    sight: InspectionMark,
}

/// The part of a value that a reader has looked at: see [`Inspected`]. Atomic only so that nodes stay `Sync`.
#[derive(Debug)]
struct InspectionMark(AtomicU16);

impl InspectionMark {
    const UNSEEN: u16 = u16::MAX;
    const SEEN: u16 = u16::MAX - 1;
    /// The value is a number that was passed on as that of a block key.
    const PASSED: u16 = u16::MAX - 2;

    fn get(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, sight: u16) {
        self.0.store(sight, Ordering::Relaxed);
    }
}

impl Clone for InspectionMark {
    fn clone(&self) -> Self {
        Self(AtomicU16::new(self.get()))
    }
}

/// No note.
const NONE: u32 = u32::MAX;

impl TapeEntry {
    #[inline]
    fn new(kind: JsonKind, has_escapes: bool, start: u32, end: u32, next: u32) -> Self {
        let sight = InspectionMark(AtomicU16::new(InspectionMark::UNSEEN));
        Self { kind, has_escapes, start, end, next, sight }
    }

    /// A note of a value without others inside it, and without escapes.
    #[inline]
    fn leaf(kind: JsonKind, start: u32, end: u32, next: u32) -> Self {
        Self::new(kind, false, start, end, next)
    }
}

impl Tape {
    /// An empty tape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks `text`, which must be one JSON value with nothing but white space around it.
    pub fn parse<'t>(&'t mut self, text: &'t str) -> Result<TapeNode<'t>> {
        let count = self.note(text)?;
        Ok(TapeNode::root(text, &self.notes[..count]))
    }

    /// Checks a text of at most `values` values, containers included and keys not. A text with more is refused while it
    /// is scanned, by an error of the kind [`ErrorKind::Limit`]: its notes take at most 32 bytes for each allowed
    /// value.
    ///
    /// ```
    /// use callweave::json::Tape;
    ///
    /// let mut tape = Tape::new();
    /// assert!(tape.parse_within(r#"{"a": [1, 2]}"#, 4).is_ok());
    /// assert!(tape.parse_within(r#"{"a": [1, 2]}"#, 3).is_err());
    /// ```
    pub fn parse_within<'t>(&'t mut self, text: &'t str, values: usize) -> Result<TapeNode<'t>> {
        // A text with a limit is read once, by a tape of its own: most get room for all notes at once.
        if self.notes.is_empty() {
            make_room(&mut self.notes, text.len().min(LIKELY), values)?;
        }
        let count = self.note_within(text, values)?;
        let root = TapeNode::root(text, &self.notes[..count]);
        // Keys have notes, too, so that most texts are known to be within the limit without counting.
        if count > values && root.value_count() > values {
            return Err(too_many(values));
        }
        Ok(root)
    }

    /// Writes the notes about `text`; returns their number.
    fn note(&mut self, text: &str) -> Result<usize> {
        self.note_within(text, usize::MAX)
    }

    /// The same, unless there are too many notes for that number of values.
    fn note_within(&mut self, text: &str, values: usize) -> Result<usize> {
        if u32::try_from(text.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, TOO_LONG));
        }
        let mut walker = TapeWalker::begin();
        loop {
            match walker.walk(text.as_bytes(), &mut self.notes) {
                Ok(TapeStop::Full) => make_room(&mut self.notes, text.len().min(FIRST), values)?,
                Ok(TapeStop::End) => break,
                Err((at, what)) => return Err(Error::new(ErrorKind::Json, what).at(at.into())),
            }
        }
        self.notes[0].has_escapes |= walker.has_odd_keys;
        Ok(walker.count as usize)
    }

    /// Lays out a value that is in memory: its text is written once and noted on the way, so that it need not be read
    /// again.
    ///
    /// ```
    /// use callweave::json::{Tape, Value};
    ///
    /// let mut tape = Tape::new();
    /// let call = tape.lay_out(&Value::object([("name", "look".into()), ("at", vec![1, 2].into())]))?;
    /// assert_eq!(call.get("at").map(|at| at.raw()), Some("[1,2]"));
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn lay_out<'t>(&'t mut self, value: &Value) -> Result<TapeNode<'t>> {
        let Self { notes, text } = self;
        text.clear();
        let mut noter = TapeWriter::begin(notes);
        for step in ValueWalk::through(value) {
            let is_end = matches!(step, WalkStep::EndArray | WalkStep::EndObject);
            if !is_end && !text.is_empty() && !text.ends_with(['[', '{', ':']) {
                text.push(',');
            }
            noter.lay_down(step, text);
        }
        if u32::try_from(text.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, TOO_LONG));
        }
        Ok(TapeNode::root(text, notes))
    }
}

#[cold]
fn too_many(values: usize) -> Error {
    Error::new(ErrorKind::Limit, format!("the JSON text has more than {values} values"))
}

const TOO_LONG: &str = "a JSON text is limited to 4 GiB";

/// The result of a walk, or the place and reason of its failure. Places are half words: then nothing that is added to
/// them can overflow, and need not be checked for it.
type WalkResult<T> = std::result::Result<T, (u32, &'static str)>;

/// Writes the entries of a text as it reads it, over the entries that are left of another one.
///
/// The likely case is tested first: white space is looked for where another byte was expected and missed, and room is
/// made when there is none.
struct TapeWalker {
    /// The current position: at a value, or at the key of one.
    at: u32,
    /// The number of notes written.
    count: u32,
    /// The innermost open container.
    open: u32,
    /// The byte that closes it, or [`NO_CLOSER`].
    closer: u8,
    /// Whether some key has escapes.
    has_odd_keys: bool,
}

/// The closer where nothing is open: a byte that is in no text.
const NO_CLOSER: u8 = 0xFF;

/// The reason why a walk stops.
enum TapeStop {
    End,
    /// There is no room for more notes.
    Full,
}

impl TapeWalker {
    fn begin() -> Self {
        Self { at: 0, count: 0, open: NONE, closer: NO_CLOSER, has_odd_keys: false }
    }

    /// Continues where it stopped.
    fn walk(&mut self, bytes: &[u8], notes: &mut [TapeEntry]) -> WalkResult<TapeStop> {
        let Self { mut at, mut count, mut open, mut closer, .. } = *self;
        'value: loop {
            // Room is checked once for a key and its value.
            let room = notes.get_mut(count as usize..count as usize + 2);
            let Some(room) = room.and_then(<[TapeEntry]>::first_chunk_mut::<2>) else {
                (self.at, self.count, self.open, self.closer) = (at, count, open, closer);
                return Ok(TapeStop::Full);
            };
            let [mut note, value_note] = room.each_mut();
            let mut first;
            if closer == b'}' {
                count += 1;
                let quoted = |at| LaneWindow::at(bytes, at).filter(|window| window.byte(0) == b'"');
                let mut window = quoted(at);
                // Some write a space behind each comma.
                if window.is_none() && byte(bytes, at) == b' ' {
                    at += 1;
                    window = quoted(at);
                }
                if let Some((window, end)) = window.map(LaneWindow::string_end)
                    && window.two(end) == *b"\":"
                {
                    *note = TapeEntry::leaf(JsonKind::String, at, at + end + 1, count);
                    at += end + 2;
                    first = window.byte(end + 2);
                } else {
                    if byte(bytes, at) != b'"' {
                        at = expect(bytes, at, b'"', "a JSON object misses a key")?;
                    }
                    let end = run_end(bytes, at as usize + 1) as u32;
                    if two(bytes, end) == *b"\":" {
                        *note = TapeEntry::leaf(JsonKind::String, at, end + 1, count);
                        at = end + 2;
                    } else {
                        let (end, has_escapes) = odd_end(bytes, end)?;
                        *note = TapeEntry {
                            has_escapes,
                            ..TapeEntry::leaf(JsonKind::String, at, end + 1, count)
                        };
                        self.has_odd_keys |= has_escapes;
                        at = expect(bytes, end + 1, b':', "a JSON object misses a colon")? + 1;
                    }
                    first = byte(bytes, at);
                }
                // Many write a space behind the colon.
                if first == b' ' {
                    at += 1;
                    first = byte(bytes, at);
                }
                note = value_note;
            } else if closer == NO_CLOSER && count > 0 {
                return Err((at - 1, "the JSON text goes on after its value"));
            } else {
                first = byte(bytes, at);
            }
            count += 1;
            // The byte behind the value.
            let mut next;
            loop {
                if first == b'"' {
                    let window = LaneWindow::at(bytes, at).map(LaneWindow::string_end);
                    let end = match window {
                        Some((window, end)) if window.byte(end) == b'"' => {
                            *note = TapeEntry::leaf(JsonKind::String, at, at + end + 1, count);
                            at += end + 1;
                            next = window.byte(end + 1);
                            break;
                        }
                        Some((_, end)) if end as usize > 2 * WIDTH => {
                            long_plain_end(bytes, (at + end) as usize)
                        }
                        Some((_, end)) => (at + end) as usize,
                        None => run_end(bytes, at as usize + 1),
                    } as u32;
                    if byte(bytes, end) == b'"' {
                        *note = TapeEntry::leaf(JsonKind::String, at, end + 1, count);
                        at = end + 1;
                    } else {
                        let (end, has_escapes) = odd_end(bytes, end)?;
                        *note = TapeEntry {
                            has_escapes,
                            ..TapeEntry::leaf(JsonKind::String, at, end + 1, count)
                        };
                        at = end + 1;
                    }
                } else if let b'{' | b'[' = first {
                    let (kind, end) =
                        if first == b'{' { (JsonKind::Object, b'}') } else { (JsonKind::Array, b']') };
                    // While it is open, its end is the closer of the one around it.
                    *note = TapeEntry::new(kind, false, at, closer.into(), open);
                    (open, closer) = (count - 1, end);
                    at += 1;
                    next = byte(bytes, at);
                    if next <= b' ' {
                        at = skip(bytes, at);
                        next = byte(bytes, at);
                    }
                    if next != closer {
                        continue 'value;
                    }
                    break;
                } else if let Some((end, after)) = short_number(bytes, at, first) {
                    *note = TapeEntry::leaf(JsonKind::Number, at, end, count);
                    at = end;
                    next = after;
                    break;
                } else if first <= b' '
                    && let Some(past) = past_space(bytes, at)
                {
                    at = past;
                    first = byte(bytes, at);
                    continue;
                } else {
                    let (kind, end) = scalar(bytes, at, first)?;
                    *note = TapeEntry::leaf(kind, at, end, count);
                    at = end;
                }
                next = byte(bytes, at);
                break;
            }
            // A value has ended; go on to the start of the next one.
            loop {
                if next == b',' {
                    at += 1;
                    continue 'value;
                }
                if next == closer {
                    at += 1;
                    (open, closer) = close(notes, open, at, count);
                } else if next <= b' '
                    && let Some(past) = past_space(bytes, at)
                {
                    at = past;
                } else {
                    break;
                }
                next = byte(bytes, at);
            }
            self.count = count;
            return end(bytes, at, open);
        }
    }
}

/// The bytes looked at in one step: a quote, two lanes behind it, and what may follow their end.
#[derive(Clone, Copy)]
struct LaneWindow<'t>(&'t [u8; WINDOW]);

/// Twice a lane, and a few bytes. No position in the first lane is beyond it, so none needs a bounds check.
const WINDOW: usize = 2 * WIDTH + 4;

impl<'t> LaneWindow<'t> {
    /// The window there; none where the end of the text is near.
    #[inline(always)]
    fn at(bytes: &'t [u8], at: u32) -> Option<Self> {
        let at = at as usize;
        bytes.get(at..at + WINDOW)?.first_chunk().map(Self)
    }

    #[inline(always)]
    fn byte(self, at: u32) -> u8 {
        self.0.get(at as usize).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn two(self, at: u32) -> [u8; 2] {
        [self.byte(at), self.byte(at + 1)]
    }

    /// The position of the first byte behind the quote that is not plain, or of the one behind the lanes.
    #[inline(always)]
    fn string_end(self) -> (Self, u32) {
        let found = ByteLane::at(self.0, 1).map_or(0, ByteLane::specials);
        if found != 0 {
            return (self, 1 + lane::first(found) as u32);
        }
        (self, 1 + WIDTH as u32 + ByteLane::at(self.0, 1 + WIDTH).map_or(0, ByteLane::plain))
    }
}

/// The end of the integer of a few digits that begins with `first`, and the byte behind it; none if it may be something
/// else.
#[inline(always)]
fn short_number(bytes: &[u8], at: u32, first: u8) -> Option<(u32, u8)> {
    if !first.is_ascii_digit() {
        return None;
    }
    let start = at as usize;
    let sixteen: &[u8; 16] = bytes.get(start..start + 16)?.first_chunk()?;
    let length = digits(sixteen);
    let next = *sixteen.get(length)?;
    let is_complete = matches!(next, b',' | b'}' | b']') && (first != b'0' || length == 1);
    is_complete.then_some((at + length as u32, next))
}

/// Closes the innermost container at `end`, the byte after its closer; returns the container around it, and its closer.
#[inline(always)]
fn close(notes: &mut [TapeEntry], open: u32, end: u32, count: u32) -> (u32, u8) {
    let Some(note) = notes.get_mut(open as usize) else { return (NONE, NO_CLOSER) };
    let closer = std::mem::replace(&mut note.end, end) as u8;
    (std::mem::replace(&mut note.next, count), closer)
}

/// Writes the notes about a value that is laid out.
struct TapeWriter<'n> {
    notes: &'n mut Vec<TapeEntry>,
    /// The innermost open container.
    open: u32,
}

impl<'n> TapeWriter<'n> {
    fn begin(notes: &'n mut Vec<TapeEntry>) -> Self {
        notes.clear();
        Self { notes, open: NONE }
    }

    fn begin_container(&mut self, kind: JsonKind, start: u32) {
        let number = self.notes.len() as u32;
        self.notes.push(TapeEntry::new(kind, false, start, 0, self.open));
        self.open = number;
    }

    /// Closes the innermost container at `end`, the byte after its closer.
    fn close(&mut self, end: u32) {
        let next = self.notes.len() as u32;
        let Some(note) = self.notes.get_mut(self.open as usize) else { return };
        note.end = end;
        self.open = std::mem::replace(&mut note.next, next);
    }

    fn leaf(&mut self, kind: JsonKind, has_escapes: bool, start: u32, end: u32) {
        let next = self.notes.len() as u32 + 1;
        self.notes.push(TapeEntry { has_escapes, ..TapeEntry::leaf(kind, start, end, next) });
    }

    fn lay_down(&mut self, step: WalkStep<'_>, text: &mut String) {
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
            WalkStep::BeginArray | WalkStep::BeginObject => {
                let is_array = matches!(step, WalkStep::BeginArray);
                text.push(if is_array { '[' } else { '{' });
                self.begin_container(if is_array { JsonKind::Array } else { JsonKind::Object }, start);
            }
            WalkStep::EndArray | WalkStep::EndObject => {
                text.push(if matches!(step, WalkStep::EndArray) { ']' } else { '}' });
                self.close(end(text));
            }
            WalkStep::Key(key) => {
                let has_escapes = string(key);
                self.leaf(JsonKind::String, has_escapes, start, end(text));
                self.notes[0].has_escapes |= has_escapes;
                text.push(':');
            }
            WalkStep::Leaf(leaf) => {
                let (kind, has_escapes) = match leaf {
                    Value::String(content) => (JsonKind::String, string(content)),
                    Value::Number(number) => {
                        text.push_str(number.as_str());
                        (JsonKind::Number, false)
                    }
                    Value::Bool(truth) => {
                        text.push_str(if *truth { "true" } else { "false" });
                        (JsonKind::Bool, false)
                    }
                    Value::Null | Value::Array(_) | Value::Object(_) => {
                        text.push_str("null");
                        (JsonKind::Null, false)
                    }
                };
                self.leaf(kind, has_escapes, start, end(text));
            }
        }
    }
}

/// Makes room for more notes about a text of that length, unless there are too many notes for that number of values.
#[cold]
fn make_room(notes: &mut Vec<TapeEntry>, length: usize, values: usize) -> Result<()> {
    // Each value has at most one key, and the walker wants room for a key and a value.
    let most = values.saturating_mul(2).saturating_add(2);
    if notes.len() >= most {
        return Err(too_many(values));
    }
    // Mostly there are eight bytes for a note; but one string may be most of a long text.
    let more = notes.len().max(length / 8 + 2).min(most - notes.len());
    notes.reserve_exact(more);
    notes.resize_with(notes.len() + more, || TapeEntry::leaf(JsonKind::Null, 0, 0, 0));
    Ok(())
}

/// The maximum length of a text for which room for all notes is made at once: of a frame, whose tape stays with its
/// thread.
const FIRST: usize = 2 << 10;
/// The same for a text with a limit.
const LIKELY: usize = 16 << 10;

/// Ends the walk at `at`, where the text does not go on: fine if it is the end and nothing is open.
#[cold]
fn end(bytes: &[u8], at: u32, open: u32) -> WalkResult<TapeStop> {
    match (open, (at as usize) < bytes.len()) {
        (NONE, false) => Ok(TapeStop::End),
        (NONE, true) => Err((at, "the JSON text goes on after its value")),
        (_, _) => Err(misplaced(bytes, at)),
    }
}

#[cold]
fn misplaced(bytes: &[u8], at: u32) -> (u32, &'static str) {
    match (at as usize) < bytes.len() {
        true => (at, "the JSON text has a character out of place"),
        false => (at, "the JSON text ends too early"),
    }
}

/// The position of `expected`, which was missed at `at`, behind white space.
#[cold]
#[inline(never)]
fn expect(bytes: &[u8], at: u32, expected: u8, what: &'static str) -> WalkResult<u32> {
    let at = skip(bytes, at);
    if byte(bytes, at) == expected { Ok(at) } else { Err((at, what)) }
}

/// The byte at `at`; a zero stands for the end.
#[inline(always)]
fn byte(bytes: &[u8], at: u32) -> u8 {
    bytes.get(at as usize).copied().unwrap_or_default()
}

/// The two bytes at `at`; zeros stand for the end.
#[inline(always)]
fn two(bytes: &[u8], at: u32) -> [u8; 2] {
    let at = at as usize;
    bytes.get(at..at + 2).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
}

/// The position of the first byte from `at` on that is not white space.
#[cold]
#[inline(never)]
fn skip(bytes: &[u8], mut at: u32) -> u32 {
    while let b' ' | b'\n' | b'\r' | b'\t' = byte(bytes, at) {
        at += 1;
    }
    at
}

/// The same, if there is white space.
#[cold]
#[inline(never)]
fn past_space(bytes: &[u8], at: u32) -> Option<u32> {
    Some(skip(bytes, at)).filter(|past| *past > at)
}

/// The value that begins with `first`, if it is no string and has no others in it: its kind and its end.
#[inline(always)]
fn scalar(bytes: &[u8], at: u32, first: u8) -> WalkResult<(JsonKind, u32)> {
    let start = at as usize;
    let is = |word: &[u8]| bytes.get(start..start + word.len()) == Some(word);
    Ok(match first {
        b'n' if is(b"null") => (JsonKind::Null, at + 4),
        b't' if is(b"true") => (JsonKind::Bool, at + 4),
        b'f' if is(b"false") => (JsonKind::Bool, at + 5),
        // Most numbers are short and integers.
        b'0' if matches!(byte(bytes, at + 1), b',' | b'}') => (JsonKind::Number, at + 1),
        b'-' | b'0'..=b'9' => match digits_alone_end(bytes, start) {
            Some(end) => (JsonKind::Number, end as u32),
            None => (JsonKind::Number, odd_number_end(bytes, at)?),
        },
        _ => return Err(misplaced(bytes, at)),
    })
}

#[cold]
fn odd_number_end(bytes: &[u8], at: u32) -> WalkResult<u32> {
    match number_end(bytes, at as usize) {
        Some(end) => Ok(end as u32),
        None => Err((at, "a JSON number is malformed")),
    }
}

/// The end of a string with a byte at `at` that may not be its end, and whether it has escapes.
#[cold]
fn odd_end(bytes: &[u8], at: u32) -> WalkResult<(u32, bool)> {
    match contents(bytes, at as usize) {
        Ok((end, has_escapes)) => Ok((end as u32, has_escapes)),
        Err((at, what)) => Err((at as u32, what)),
    }
}

/// The end of the contents of a string that continue at `at`, and whether there are escapes from there on.
#[inline]
fn contents(bytes: &[u8], mut at: usize) -> std::result::Result<(usize, bool), (usize, &'static str)> {
    let mut has_escapes = false;
    // Lane by lane, and in each from mark to mark: where there is one escape there are more.
    while let Some(lane) = ByteLane::at(bytes, at) {
        let (mut found, mut width) = (lane.specials(), WIDTH);
        while found != 0 {
            let place = lane::first(found);
            if bytes[at + place] == b'"' {
                return Ok((at + place, has_escapes));
            }
            let length = escape(bytes, at + place)?;
            has_escapes = true;
            // An escaped byte is no mark; it may stand in the next lane.
            width = width.max(place + length);
            found &= u32::MAX << (place + length);
        }
        at += width;
    }
    loop {
        at = plain_end(bytes, at);
        if bytes.get(at) == Some(&b'"') {
            return Ok((at, has_escapes));
        }
        at += escape(bytes, at)?;
        has_escapes = true;
    }
}

/// The length of the escape at `at`, if it is one.
#[inline(always)]
fn escape(bytes: &[u8], at: usize) -> std::result::Result<usize, (usize, &'static str)> {
    match bytes.get(at) {
        Some(b'\\') => match bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') if is_hex(bytes.get(at + 2..at + 6)) => Ok(6),
            _ => Err((at, "a JSON string has a bad escape")),
        },
        Some(_) => Err((at, "a JSON string has a raw control character")),
        None => Err((at, "the JSON text ends inside a string")),
    }
}

/// The end of the contents of a string that begin at `at`, and whether they have escapes; none if it is no string.
#[inline]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    contents(bytes, at).ok()
}

/// The end of the number that begins at `at`, if there is one.
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

    /// A second escape anywhere in a lane, and anything behind it.
    #[test]
    fn escapes_are_checked_at_every_place() {
        let mut tape = Tape::new();
        for escape in
            ["\\n", "\\\"", "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\x", "\\u12g4", "\\", "\u{1}", "\"", "é"]
        {
            for before in 0..36 {
                for after in [0, 1, 2, 3, 7, 14, 15, 16, 17, 40] {
                    let text = format!("[\"\\t{}{escape}{}\"]", "a".repeat(before), "b".repeat(after));
                    let expected = serde_json::from_str::<Vec<String>>(&text).ok();
                    let parsed = tape.parse(&text).ok();
                    let read = parsed.and_then(|list| list.elements().next()?.str());
                    let read = read.map(|text| vec![text.to_cow().into_owned()]);
                    assert_eq!(read, expected, "{text}");
                }
            }
        }
    }

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

    /// Keys, strings and numbers of every length around a lane, in the midst of a text and at its end.
    fn texts_of_lengths() -> impl Iterator<Item = String> {
        let more = format!(",\"more\":\"{}\"", "m".repeat(60));
        (0..40).flat_map(move |length| {
            let (word, digits) = ("k".repeat(length), "7".repeat(1 + length % 20));
            [&more, ""].map(|more| {
                format!("{{\"{word}\":\"{word}\",\"n\":{digits},\"l\":[{digits},\"{word}\",[]],\"z\":{{\"{word}x\":0}}{more}}}")
            })
        })
    }

    #[test]
    fn whatever_the_lengths_all_is_noted() {
        for text in texts_of_lengths() {
            let (mut read, mut laid_out) = (Tape::new(), Tape::new());
            read.parse(&text).expect("valid");
            laid_out.lay_out(&text.parse().expect("valid")).expect("short");
            let written = |tape: &Tape| format!("{:?}", &tape.notes[..tape.notes[0].next as usize]);
            assert_eq!(written(&laid_out), written(&read), "{text}");
        }
    }

    #[test]
    fn a_byte_amiss_is_found_wherever_it_stands() {
        for text in texts_of_lengths().step_by(7) {
            for at in 0..text.len() {
                for amiss in ["", "\"", "\\", ",", ":", "]", "}", "{", "[", " ", "0", "-", ".", "\u{1}", "é"]
                {
                    let text = format!("{}{amiss}{}", &text[..at], &text[at + 1..]);
                    let is_valid = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
                    assert_eq!(Tape::new().parse(&text).is_ok(), is_valid, "{text}");
                }
            }
        }
    }

    /// The limit is the exact number of values, with or without keys and white space, and no more notes are made than
    /// needed.
    #[test]
    fn a_text_of_too_many_values_is_refused_while_it_is_scanned() {
        for (text, count) in [
            ("7", 1),
            ("[]", 1),
            ("[0,0,0]", 4),
            ("{\"a\" : {\"b\"\n: []}, \"c\":\"d\"}", 4),
            ("[\":\", {\":\" :\":\"}]", 4),
        ] {
            let mut tape = Tape::new();
            assert_eq!(tape.parse_within(text, count).map(TapeNode::value_count).ok(), Some(count), "{text}");
            let refused = tape.parse_within(text, count - 1);
            assert_eq!(refused.map_err(|error| error.kind()).err(), Some(ErrorKind::Limit), "{text}");
        }
        let long = format!("[{}0]", "{},".repeat(1_000_000));
        let mut tape = Tape::new();
        assert!(tape.parse_within(&long, 1000).is_err());
        assert!(tape.notes.capacity() <= 2 * 1000 + 2, "{}", tape.notes.capacity());
    }

    #[test]
    fn members_skip_what_is_inside() {
        let mut tape = Tape::new();
        let value = tape.parse(r#"{"a":{"x":[1,{"y":2}]},"b":[true,"\n"],"a":3}"#).expect("valid");
        let keys: Vec<_> = value.members().map(|(key, value)| (key, value.raw())).collect();
        assert_eq!(keys, [("a", r#"{"x":[1,{"y":2}]}"#), ("b", r#"[true,"\n"]"#), ("a", "3")]);
        assert_eq!(value.get("a").and_then(TapeNode::count), Some(3));
        assert_eq!(value.elements().count(), 0);
    }

    #[test]
    fn any_number_names_a_place() {
        let mut tape = Tape::new();
        let value =
            tape.parse("[0, 1.0, -3, 1.5, 1e300, 99999999999999999999, \"2\", null, 1e0]").expect("valid");
        let places: Vec<_> = value.elements().map(TapeNode::index).collect();
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
            assert_eq!(laid_out.lay_out(&value).expect("short").opaque_json().reveal_json(), text);
            let written = |tape: &Tape| format!("{:?}", &tape.notes[..tape.notes[0].next as usize]);
            assert_eq!(written(&laid_out), written(&read), "{text}");
        }
    }

    #[test]
    fn what_is_the_same_far_away_counts_as_seen() {
        for (count, expected) in [(3, Inspected::SameAs(4)), (70_000, Inspected::All)] {
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
