//! JSON values without lines: a complete body, one growing array, values one after the other.
//!
//! A value at top level is a frame as soon as its last bracket has come, however it is laid out. Of an array at top
//! level the elements are the frames, each as soon as it is complete: an array that grows while the model generates is
//! streamed. The splitter counts brackets outside strings and checks nothing else: a value that is no strict JSON is a
//! frame for the protocol to report. But where an object is broken beyond doubt, a line that begins with the next
//! object ends it, so that one damaged line of JSON lines does not swallow the lines after it.
//!
//! A body that is no JSON at all (plain text, HTML) is one frame with its text; text that is not HTML ends
//! at a line that begins with an object. Such text after a value is one frame to the end of its line, so that
//! the values after it are unharmed.

use std::mem;

use memchr::memchr;

use super::detect::FirstObject;
use super::nesting::{BracketNesting, NestingStop};
use super::{BYTE_ORDER_MARK, FrameSink, StreamLimits, emit_text, without_cut_character};
use crate::Result;
use crate::json::{JsonScanner, ScanStatus};

/// Splits a stream into JSON values. One frame is one value, or one element of an array.
///
/// ```
/// use callweave::framing::{Frame, JsonValues, StreamLimits};
///
/// let mut values = JsonValues::new(StreamLimits::default());
/// let mut seen = Vec::new();
/// values.push(b"[{\"a\":\n 1}\n,\r\n{\"b\": [2]}", &mut |frame: Frame<'_>| {
///     seen.push(frame.data.to_owned());
/// })?;
/// assert_eq!(seen, ["{\"a\":\n 1}", "{\"b\": [2]}"]);
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonValues {
    limits: StreamLimits,
    /// The offset in the stream at which the next push begins.
    offset: u64,
    /// The piece of a frame that earlier pushes brought.
    held: Vec<u8>,
    state: ValueState,
    is_in_array: bool,
    /// Whether anything but white space has come.
    is_begun: bool,
    line: LineInFrame,
    /// The strict scan of the object so far, and the number of bytes it has read; only as far as it was needed.
    strict: Option<(JsonScanner, usize)>,
}

/// The beginning of a line inside a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineInFrame {
    /// It begins otherwise, or the beginning does not matter.
    #[default]
    Other,
    /// Its first byte is to come.
    Start,
    /// It begins with a brace.
    Brace,
}

#[derive(Clone, Copy, Debug)]
enum ValueState {
    /// The number of bytes of a byte order mark that have come.
    Mark(usize),
    /// Between frames.
    Between,
    /// In a value that ends by itself.
    Value(BracketNesting),
    /// In a number, a word or anything else in an array, to the next delimiter.
    Word,
    /// In text that is no JSON.
    Text(TextExtent),
}

/// The extent of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextExtent {
    Line,
    /// To the end of the stream, or to a line that begins with an object.
    Lines,
    /// To the end of the stream.
    All,
}

impl JsonValues {
    /// A splitter at the start of a stream.
    pub fn new(limits: StreamLimits) -> Self {
        Self::at(0, limits)
    }

    pub(super) fn at(offset: u64, limits: StreamLimits) -> Self {
        let state = if offset == 0 { ValueState::Mark(0) } else { ValueState::Between };
        let (line, strict) = (LineInFrame::default(), None);
        Self { limits, offset, held: Vec::new(), state, is_in_array: false, is_begun: false, line, strict }
    }

    /// A splitter behind the first object of a stream.
    pub(super) fn after_object(offset: u64, limits: StreamLimits) -> Self {
        Self { state: ValueState::Between, is_begun: true, ..Self::at(offset, limits) }
    }

    /// Takes the next bytes of the stream, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<()> {
        let mut at = self.skip_mark(bytes);
        let mut start = at;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if self.line != LineInFrame::Other && self.is_begin_of_next(rest[0], &bytes[start..at]) {
                // The brace before this quote is the next object's.
                let brace = at.checked_sub(1).filter(|&brace| brace >= start);
                match brace {
                    Some(brace) => self.emit(&bytes[start..brace], self.offset + start as u64, sink)?,
                    None => {
                        self.held.pop();
                        self.emit(&[], self.offset + at as u64 - 1, sink)?;
                        self.held.push(b'{');
                    }
                }
                start = brace.unwrap_or(at);
                let mut nesting = BracketNesting::new(b'{');
                nesting.end(b"{");
                self.state = ValueState::Value(nesting);
                continue;
            }
            // A brace that begins a line is read by itself, to ask what follows it.
            let piece = if self.line == LineInFrame::Brace { &rest[..1] } else { rest };
            let (length, is_complete) = match &mut self.state {
                ValueState::Mark(_) => unreachable!("the mark was passed over"),
                ValueState::Between => {
                    at += self.begin(rest);
                    start = at;
                    continue;
                }
                ValueState::Value(nesting) => match nesting.read(piece) {
                    NestingStop::End(length) => (length, true),
                    NestingStop::Line(length) => (length, false),
                    NestingStop::Open => (piece.len(), false),
                },
                ValueState::Word => match rest.iter().position(|&byte| is_delimiter(byte)) {
                    Some(length) => (length, true),
                    None => (rest.len(), false),
                },
                ValueState::Text(TextExtent::Line) => match memchr(b'\n', rest) {
                    Some(length) => (length, true),
                    None => (rest.len(), false),
                },
                ValueState::Text(TextExtent::Lines) => {
                    (memchr(b'\n', piece).map_or(piece.len(), |end| end + 1), false)
                }
                ValueState::Text(TextExtent::All) => (rest.len(), false),
            };
            if rest[..length].ends_with(b"\n") && self.asks_for_lines() {
                self.line = LineInFrame::Start;
            }
            at += length;
            if is_complete {
                self.emit(&bytes[start..at], self.offset + start as u64, sink)?;
                self.state = ValueState::Between;
                start = at;
            }
        }
        self.hold(&bytes[start..], self.offset + start as u64)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Takes the first bytes of the stream, with an object that was read already; returns their number.
    pub(super) fn push_read(
        &mut self,
        bytes: &[u8],
        object: &FirstObject,
        sink: &mut FrameSink<'_>,
    ) -> Result<usize> {
        let read = &bytes[..object.read];
        self.is_begun = true;
        if object.is_complete {
            self.state = ValueState::Between;
            self.emit(read, self.offset, sink)?;
        } else {
            self.state = ValueState::Value(object.nesting);
            self.hold(read, self.offset)?;
        }
        self.offset += read.len() as u64;
        Ok(read.len())
    }

    /// Ends the stream: emits the last value even if it is truncated.
    pub fn finish(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        if let ValueState::Mark(count) = self.state
            && count < BYTE_ORDER_MARK.len()
        {
            self.held.extend_from_slice(&BYTE_ORDER_MARK[..count]);
        }
        self.state = ValueState::Between;
        self.held.truncate(without_cut_character(&self.held).len());
        if self.held.is_empty() {
            return Ok(());
        }
        self.emit(&[], self.offset, sink)
    }

    fn asks_for_lines(&self) -> bool {
        match self.state {
            ValueState::Value(nesting) => nesting.open == b'{',
            ValueState::Text(extent) => extent == TextExtent::Lines,
            ValueState::Mark(_) | ValueState::Between | ValueState::Word => false,
        }
    }

    /// Whether the open frame ends before the object that a line begins: text always does, an object if it is broken.
    /// `fresh` is the part of the frame in the bytes at hand, up to `byte`.
    fn is_begin_of_next(&mut self, byte: u8, fresh: &[u8]) -> bool {
        let line = mem::take(&mut self.line);
        if line == LineInFrame::Start && byte == b'{' {
            self.line = LineInFrame::Brace;
        }
        if line != LineInFrame::Brace || byte != b'"' {
            return false;
        }
        if let ValueState::Text(_) = self.state {
            return true;
        }
        let (scanner, read) = self.strict.get_or_insert_with(|| (JsonScanner::new(), 0));
        let (held, fresh) =
            (&self.held[(*read).min(self.held.len())..], &fresh[read.saturating_sub(self.held.len())..]);
        for piece in [held, fresh] {
            *read += piece.len();
            scanner.push(&String::from_utf8_lossy(piece));
        }
        scanner.status() == ScanStatus::Broken || !scanner.is_strict()
    }

    /// Skips a byte order mark at the start of the stream; bytes that only looked like one are text.
    fn skip_mark(&mut self, bytes: &[u8]) -> usize {
        let ValueState::Mark(mut count) = self.state else { return 0 };
        for (at, byte) in bytes.iter().enumerate() {
            if count < BYTE_ORDER_MARK.len() && *byte == BYTE_ORDER_MARK[count] {
                count += 1;
                continue;
            }
            if (1..BYTE_ORDER_MARK.len()).contains(&count) {
                self.held.extend_from_slice(&BYTE_ORDER_MARK[..count]);
                self.is_begun = true;
                self.state = ValueState::Text(TextExtent::Lines);
            } else {
                self.state = ValueState::Between;
            }
            return at;
        }
        self.state = ValueState::Mark(count);
        bytes.len()
    }

    /// Skips the bytes between frames; stops at the first byte of the next one.
    fn begin(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            if byte.is_ascii_whitespace() {
                continue;
            }
            let is_later = mem::replace(&mut self.is_begun, true);
            self.state = match byte {
                b'{' => ValueState::Value(BracketNesting::new(b'{')),
                b',' if self.is_in_array => continue,
                b']' if self.is_in_array => {
                    self.is_in_array = false;
                    continue;
                }
                b'[' if !self.is_in_array => {
                    self.is_in_array = true;
                    continue;
                }
                b'[' | b'"' => ValueState::Value(BracketNesting::new(byte)),
                _ if self.is_in_array => ValueState::Word,
                _ if is_later => ValueState::Text(TextExtent::Line),
                b'<' => ValueState::Text(TextExtent::All),
                _ => ValueState::Text(TextExtent::Lines),
            };
            return at;
        }
        bytes.len()
    }

    fn hold(&mut self, piece: &[u8], offset: u64) -> Result<()> {
        // A brace that begins a line may be the next object's: it counts once that is known.
        let doubtful = usize::from(self.line == LineInFrame::Brace);
        let length = (self.held.len() + piece.len()).saturating_sub(doubtful);
        self.limits.check_frame(length, offset - self.held.len() as u64)?;
        self.held.extend_from_slice(piece);
        Ok(())
    }

    /// Emits the frame that `piece` completes; `offset` is the piece's.
    fn emit(&mut self, piece: &[u8], offset: u64, sink: &mut FrameSink<'_>) -> Result<()> {
        (self.line, self.strict) = (LineInFrame::Other, None);
        if self.held.is_empty() {
            self.limits.check_frame(piece.len(), offset)?;
            emit_text(piece.trim_ascii_end(), offset, sink);
            return Ok(());
        }
        let offset_of_frame = offset - self.held.len() as u64;
        self.hold(piece, offset)?;
        emit_text(self.held.trim_ascii_end(), offset_of_frame, sink);
        self.held.clear();
        Ok(())
    }
}

fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'[' | b'{' | b'"')
}

#[cfg(test)]
mod tests {
    use super::super::Framing;
    use super::super::testing;
    use super::*;

    fn read(input: &str) -> Vec<String> {
        let (seen, result) = read_within(input.as_bytes(), StreamLimits::default());
        assert_eq!(result, Ok(()));
        seen
    }

    fn read_within(bytes: &[u8], limits: StreamLimits) -> (Vec<String>, Result<()>) {
        testing::read(Framing::JsonValues, bytes, limits)
    }

    #[test]
    fn whole_bodies() {
        assert_eq!(read("{\n  \"a\": [\"}\\\"\", {}]\n}\n"), ["{\n  \"a\": [\"}\\\"\", {}]\n}"]);
        assert_eq!(read("\u{feff} {} "), ["{}"]);
        assert_eq!(read(""), [""; 0]);
        assert_eq!(read(" \n"), [""; 0]);
        assert_eq!(read("\u{feff}"), [""; 0]);
        assert_eq!(read("{\"a\": \"\\\\\"}{}"), ["{\"a\": \"\\\\\"}", "{}"]);
    }

    #[test]
    fn elements_of_an_array() {
        assert_eq!(read("[{\"a\":1}\n,\r\n{\"b\":[1]}]"), ["{\"a\":1}", "{\"b\":[1]}"]);
        assert_eq!(read("[1, -2.5 ,\"a,]\", [3, [4]], null]"), ["1", "-2.5", "\"a,]\"", "[3, [4]]", "null"]);
        assert_eq!(read("[]"), [""; 0]);
        assert_eq!(read("[{}]\n[{}] {}"), ["{}", "{}", "{}"]);
        assert_eq!(read("[{},{\"cut\": tr"), ["{}", "{\"cut\": tr"]);
    }

    #[test]
    fn values_one_after_the_other() {
        assert_eq!(read("{}{\"a\":{}} \n {}"), ["{}", "{\"a\":{}}", "{}"]);
        assert_eq!(read("{]}{}"), ["{]}", "{}"]);
    }

    #[test]
    fn a_damaged_line_ends_where_the_next_object_begins() {
        for damaged in
            ["{\"a\":\"Hel", "{\"a\":fal", "{\"a\":{\"b\":1}", "{\"a\":1,", "a\":1}", "\u{e4}h \u{1f980}"]
        {
            let input = format!("{damaged}\n{{\"b\":\"}}\"}}\r\n{{\"c\":2}}\n");
            assert_eq!(read(&input), [damaged, "{\"b\":\"}\"}", "{\"c\":2}"]);
            let later = format!("{{\"z\":0}}{damaged}\n{{\"b\":1}}");
            assert_eq!(read(&later).last().map(String::as_str), Some("{\"b\":1}"), "{later}");
        }
        // Valid JSON is one value, however it is laid out.
        for whole in ["{\"a\":[\n{\"b\":1},\n{\"c\":\n{\"d\":[]}}]}", "{\n\"a\":NaN,\n\"b\":\n{}}"] {
            assert_eq!(read(whole), [whole]);
        }
        assert_eq!(read("{\"a\":\"x\n{\"b\":\"y\n{\"c\":1}"), ["{\"a\":\"x", "{\"b\":\"y", "{\"c\":1}"]);
    }

    /// A line that begins with a brace is checked for the next object, whether or not the text before it lies in the
    /// same push.
    #[test]
    fn lines_that_begin_with_a_brace_are_found_in_any_cut() {
        for before in [
            "",
            "so many words that ",
            "a text that is so long that its end is searched for, not looked for word by word, as the ends of most strings are",
        ] {
            for (broken, is_broken) in [
                ("{\"a\":\"BEFORE\n", true),
                ("{\"a\":\"BEFORE\\\n", true),
                ("{\"a\":\"BEFORE\",\"b\":[1,\n", false),
                ("{\"a\":\"BEFORE\"\n", true),
                ("{\"BEFORE\":\n", false),
            ] {
                let head = broken.replace("BEFORE", before);
                let frames = read(&format!("{head}{{\"c\":1}}]}}"));
                assert_eq!(frames[0] == head.trim_end(), is_broken, "{head:?}: {frames:?}");
            }
        }
    }

    #[test]
    fn text_is_one_frame() {
        assert_eq!(read("<html>\n{}\n</html>\n"), ["<html>\n{}\n</html>"]);
        assert_eq!(read("upstream down"), ["upstream down"]);
        assert_eq!(read("{}} oops\n{}"), ["{}", "} oops", "{}"]);
        assert_eq!(read("[{} oops, {}]"), ["{}", "oops", "{}"]);
        assert_eq!(
            read_within(b"\xEF\xBBx", StreamLimits::default()),
            read_within(b"\xEF\xBBx ", StreamLimits::default())
        );
    }

    #[test]
    fn the_limit_is_on_the_frame() {
        let limits = StreamLimits { frame: 3, ..StreamLimits::default() };
        let (seen, result) = read_within(b"[{ }, {  }]", limits);
        assert_eq!(seen, ["{ }"]);
        assert_eq!(result.expect_err("too long").to_string(), "frame of more than 3 bytes (at byte 6)");
    }
}
