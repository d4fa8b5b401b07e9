//! JSON values without lines: a whole body, one growing array, values one after the other.
//!
//! A value at top level is a frame as soon as its last bracket has come, however it is laid out. Of an
//! array at top level the elements are the frames, each as soon as it is whole, so that an array that
//! grows while the model speaks streams. The splitter counts brackets outside strings and judges
//! nothing else: a value that is no strict JSON is a frame for the protocol to report.
//!
//! A body that is no JSON at all (plain text, HTML) is one frame with its text. Such text after a value
//! is one frame to the end of its line, so that the values after it are unharmed.

use std::mem;

use memchr::{memchr, memchr2, memchr3};

use super::{BYTE_ORDER_MARK, FrameSink, Limits, emit_text};
use crate::Result;

/// Splits a stream into JSON values. One frame is one value, or one element of an array.
///
/// ```
/// use callweave::framing::{Frame, JsonValues, Limits};
///
/// let mut values = JsonValues::new(Limits::default());
/// let mut seen = Vec::new();
/// values.push(b"[{\"a\":\n 1}\n,\r\n{\"b\": [2]}", &mut |frame: Frame<'_>| {
///     seen.push(frame.data.to_owned());
/// })?;
/// assert_eq!(seen, ["{\"a\":\n 1}", "{\"b\": [2]}"]);
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonValues {
    limits: Limits,
    /// Where in the stream the next push begins.
    offset: u64,
    /// The piece of a frame that earlier pushes brought.
    held: Vec<u8>,
    state: State,
    is_in_array: bool,
    /// Whether anything but white space has come.
    is_begun: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of a byte order mark have come.
    Mark(usize),
    /// Between frames.
    Between,
    /// In a value that ends by itself.
    Value(Nesting),
    /// In a number, a word or whatever else stands in an array, to the next delimiter.
    Word,
    /// In text that is no JSON, to the end of its line or of the stream.
    Text { until_line_end: bool },
}

impl JsonValues {
    /// A splitter at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Self::at(0, limits)
    }

    pub(super) fn at(offset: u64, limits: Limits) -> Self {
        let state = if offset == 0 { State::Mark(0) } else { State::Between };
        Self { limits, offset, held: Vec::new(), state, is_in_array: false, is_begun: false }
    }

    /// Takes the next bytes of the stream, in any cut.
    pub fn push(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<()> {
        let mut at = self.skip_mark(bytes);
        let mut start = at;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (length, is_whole) = match &mut self.state {
                State::Mark(_) => unreachable!("the mark was passed over"),
                State::Between => {
                    at += self.begin(rest);
                    start = at;
                    continue;
                }
                State::Value(nesting) => match nesting.end(rest) {
                    Some(length) => (length, true),
                    None => (rest.len(), false),
                },
                State::Word => match rest.iter().position(|&byte| is_delimiter(byte)) {
                    Some(length) => (length, true),
                    None => (rest.len(), false),
                },
                State::Text { until_line_end: true } => match memchr(b'\n', rest) {
                    Some(length) => (length, true),
                    None => (rest.len(), false),
                },
                State::Text { until_line_end: false } => (rest.len(), false),
            };
            at += length;
            if is_whole {
                self.emit(&bytes[start..at], self.offset + start as u64, sink)?;
                self.state = State::Between;
                start = at;
            }
        }
        self.hold(&bytes[start..], self.offset + start as u64)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Says that the stream has ended: emits the last value even if it is cut.
    pub fn finish(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        if let State::Mark(count) = self.state
            && count < BYTE_ORDER_MARK.len()
        {
            self.held.extend_from_slice(&BYTE_ORDER_MARK[..count]);
        }
        self.state = State::Between;
        if self.held.is_empty() {
            return Ok(());
        }
        self.emit(&[], self.offset, sink)
    }

    /// Passes over a byte order mark at the start of the stream; what only looked like one is text.
    fn skip_mark(&mut self, bytes: &[u8]) -> usize {
        let State::Mark(mut count) = self.state else { return 0 };
        for (at, byte) in bytes.iter().enumerate() {
            if count < BYTE_ORDER_MARK.len() && *byte == BYTE_ORDER_MARK[count] {
                count += 1;
                continue;
            }
            if (1..BYTE_ORDER_MARK.len()).contains(&count) {
                self.held.extend_from_slice(&BYTE_ORDER_MARK[..count]);
                self.is_begun = true;
                self.state = State::Text { until_line_end: false };
            } else {
                self.state = State::Between;
            }
            return at;
        }
        self.state = State::Mark(count);
        bytes.len()
    }

    /// Passes over what stands between frames; stops at the first byte of the next one.
    fn begin(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            if byte.is_ascii_whitespace() {
                continue;
            }
            let is_later = mem::replace(&mut self.is_begun, true);
            self.state = match byte {
                b'{' => State::Value(Nesting::new(b'{')),
                b',' if self.is_in_array => continue,
                b']' if self.is_in_array => {
                    self.is_in_array = false;
                    continue;
                }
                b'[' if !self.is_in_array => {
                    self.is_in_array = true;
                    continue;
                }
                b'[' | b'"' => State::Value(Nesting::new(byte)),
                _ if self.is_in_array => State::Word,
                _ => State::Text { until_line_end: is_later },
            };
            return at;
        }
        bytes.len()
    }

    fn hold(&mut self, piece: &[u8], offset: u64) -> Result<()> {
        self.limits.check_frame(self.held.len() + piece.len(), offset - self.held.len() as u64)?;
        self.held.extend_from_slice(piece);
        Ok(())
    }

    /// Emits the frame that `piece` completes; `offset` is the piece's.
    fn emit(&mut self, piece: &[u8], offset: u64, sink: &mut FrameSink<'_>) -> Result<()> {
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

/// Finds the end of a value that opens with a bracket or a quote, in any cut.
///
/// Only brackets of the kind that opened the value are counted: in JSON they alone tell its end, and
/// where the other kind is out of balance the end is still found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting {
    open: u8,
    close: u8,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Before a value whose first byte is `{`, `[` or `"`.
    pub(super) fn new(first: u8) -> Self {
        let (open, close) = if first == b'[' { (b'[', b']') } else { (b'{', b'}') };
        Self { open, close, depth: 0, is_in_string: false, is_escaped: false }
    }

    /// Reads on; where the value ended, the number of bytes up to there.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.is_escaped && !bytes.is_empty() {
            self.is_escaped = false;
            at = 1;
        }
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if self.is_in_string {
                at += memchr2(b'"', b'\\', rest)? + 1;
                if bytes[at - 1] == b'\\' {
                    self.is_escaped = at == bytes.len();
                    at += 1;
                    continue;
                }
                self.is_in_string = false;
            } else {
                at += memchr3(b'"', self.open, self.close, rest)? + 1;
                match bytes[at - 1] {
                    b'"' => {
                        self.is_in_string = true;
                        continue;
                    }
                    byte if byte == self.open => self.depth += 1,
                    _ => self.depth -= 1,
                }
            }
            if self.depth == 0 {
                return Some(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Framing;
    use super::super::testing;
    use super::*;

    fn read(input: &str) -> Vec<String> {
        let (seen, result) = read_within(input.as_bytes(), Limits::default());
        assert_eq!(result, Ok(()));
        seen
    }

    fn read_within(bytes: &[u8], limits: Limits) -> (Vec<String>, Result<()>) {
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
    fn text_is_one_frame() {
        assert_eq!(read("<html>\n{}\n</html>\n"), ["<html>\n{}\n</html>"]);
        assert_eq!(read("upstream down"), ["upstream down"]);
        assert_eq!(read("{}} oops\n{}"), ["{}", "} oops", "{}"]);
        assert_eq!(read("[{} oops, {}]"), ["{}", "oops", "{}"]);
        assert_eq!(
            read_within(b"\xEF\xBBx", Limits::default()),
            read_within(b"\xEF\xBBx ", Limits::default())
        );
    }

    #[test]
    fn the_limit_is_on_the_frame() {
        let limits = Limits { frame: 3, ..Limits::default() };
        let (seen, result) = read_within(b"[{ }, {  }]", limits);
        assert_eq!(seen, ["{ }"]);
        assert_eq!(result.expect_err("too long").to_string(), "frame of more than 3 bytes (at byte 6)");
    }
}
