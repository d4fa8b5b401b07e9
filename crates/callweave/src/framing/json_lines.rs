//! One JSON value per line: NDJSON, JSON-RPC lines, recorded payloads.
//!
//! A line ends with LF or CRLF. White space around the value is dropped and blank lines are skipped. A line that is no
//! JSON is a frame all the same, and the lines after it are unharmed. Of a line of an event stream (a proxy put an
//! object before it) the data is taken.

use std::mem;

use memchr::memchr;

use super::sse::undoubled;
use super::{
    BYTE_ORDER_MARK, Frame, FrameKind, FrameSink, StreamLimits, emit_text_at, without_cut_character,
};
use crate::Result;

/// Splits a stream into lines. One frame is one line that is not blank.
///
/// ```
/// use callweave::framing::{Frame, JsonLines, StreamLimits};
///
/// let mut lines = JsonLines::new(StreamLimits::default());
/// let mut seen = Vec::new();
/// lines.push(b"{\"done\":false}\r\n\n{\"done\":", &mut |frame: Frame<'_>| {
///     seen.push(frame.data.to_owned());
/// })?;
/// assert_eq!(seen, ["{\"done\":false}"]);
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonLines {
    limits: StreamLimits,
    /// The offset in the stream at which the next push begins.
    pub(super) offset: u64,
    /// The line that the last push left unfinished.
    line: Vec<u8>,
}

impl JsonLines {
    /// A splitter at the start of a stream.
    pub fn new(limits: StreamLimits) -> Self {
        Self::at(0, limits)
    }

    pub(super) fn at(offset: u64, limits: StreamLimits) -> Self {
        Self { limits, offset, line: Vec::new() }
    }

    /// Takes the next bytes of the stream, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.push_some(rest, sink)?;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Takes bytes up to the end of a line, or all of them; returns their number.
    pub(super) fn push_some(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<usize> {
        let Some(length) = memchr(b'\n', bytes) else {
            self.hold(bytes, self.offset)?;
            self.offset += bytes.len() as u64;
            return Ok(bytes.len());
        };
        let piece = &bytes[..length];
        if !self.emit_usual(piece, sink) {
            self.end_line(piece, sink)?;
        }
        self.offset += length as u64 + 1;
        Ok(length + 1)
    }

    /// Emits a line of the usual form: an object, all of it at hand, and nothing else. Returns whether it is one.
    fn emit_usual(&self, line: &[u8], sink: &mut FrameSink<'_>) -> bool {
        let is_object = matches!(line, [b'{', .., b'}']) && self.line.is_empty();
        if !is_object || line.len() > self.limits.line.min(self.limits.frame) {
            return false;
        }
        let Ok(data) = simdutf8::basic::from_utf8(line) else { return false };
        let (offset, kind) = (self.offset, FrameKind::Data);
        let data_offset = Some(offset);
        sink.put(Frame { event: None, data, id: None, offset, data_offset, kind, is_lossy: false });
        true
    }

    /// Emits the line that `piece` ends.
    #[inline(never)]
    fn end_line(&mut self, piece: &[u8], sink: &mut FrameSink<'_>) -> Result<()> {
        if self.line.is_empty() {
            return self.emit(piece, self.offset, sink);
        }
        self.hold(piece, self.offset)?;
        let line = mem::take(&mut self.line);
        self.emit(&line, self.offset + piece.len() as u64 - line.len() as u64, sink)?;
        self.line = line;
        self.line.clear();
        Ok(())
    }

    /// Whether the next byte begins a line.
    pub(super) fn is_between_frames(&self) -> bool {
        self.line.is_empty() && self.offset > 0
    }

    /// Ends the stream: emits the last line if no line end did.
    pub fn finish(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        let line = mem::take(&mut self.line);
        self.emit(without_cut_character(&line), self.offset - line.len() as u64, sink)
    }

    /// Keeps a piece of a line that is not complete yet; `offset` is the piece's.
    fn hold(&mut self, piece: &[u8], offset: u64) -> Result<()> {
        let length = self.line.len() + piece.len();
        // The CR may turn out to be half of the line's end.
        let is_returned = piece.last().or(self.line.last()) == Some(&b'\r');
        self.limits.check_line(length - usize::from(is_returned), offset - self.line.len() as u64)?;
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn emit(&self, line: &[u8], mut offset: u64, sink: &mut FrameSink<'_>) -> Result<()> {
        let mut value = line.strip_suffix(b"\r").unwrap_or(line);
        self.limits.check_line(value.len(), offset)?;
        if offset == 0
            && let Some(rest) = value.strip_prefix(BYTE_ORDER_MARK)
        {
            value = rest;
            offset += BYTE_ORDER_MARK.len() as u64;
        }
        let trimmed = value.trim_ascii_start();
        offset += (value.len() - trimmed.len()) as u64;
        let trimmed = trimmed.trim_ascii_end();
        if !trimmed.is_empty() {
            self.limits.check_frame(trimmed.len(), offset)?;
            let data = undoubled(trimmed);
            emit_text_at(data, offset, offset + (trimmed.len() - data.len()) as u64, sink);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Framing;
    use super::super::testing;
    use super::*;

    fn read(input: &str, limits: StreamLimits) -> (Vec<String>, Result<()>) {
        testing::read(Framing::JsonLines, input.as_bytes(), limits)
    }

    #[test]
    fn lines_are_frames() {
        let (seen, result) =
            read("\u{feff}{\"a\":1}\r\n\n \t\r\n not json \n{\"ö\":2}", StreamLimits::default());
        assert_eq!((seen, result), (vec!["{\"a\":1}".into(), "not json".into(), "{\"ö\":2}".into()], Ok(())));
        assert_eq!(read("", StreamLimits::default()), (vec![], Ok(())));
        let (seen, _) = read("{}\ndata: {\"a\":1}\n\ndata: [DONE]\n", StreamLimits::default());
        assert_eq!(seen, ["{}", "{\"a\":1}", "[DONE]"]);
    }

    #[test]
    fn usual_lines_are_read_as_others_are() {
        let (seen, _) =
            read("{}\n{\"a\":1}\r\n{ } \n {}\n{\n}\n[]\ndata: {}\n{\"ö\":1}\n", StreamLimits::default());
        assert_eq!(seen, ["{}", "{\"a\":1}", "{ }", "{}", "{", "}", "[]", "{}", "{\"ö\":1}"]);
        for (limits, detail) in [
            (StreamLimits { line: 4, ..StreamLimits::default() }, "line of more than 4 bytes (at byte 7)"),
            (StreamLimits { frame: 4, ..StreamLimits::default() }, "frame of more than 4 bytes (at byte 7)"),
        ] {
            let (seen, result) = read("{}\n{}\n\n{   }\n{}\n", limits);
            assert_eq!(seen, ["{}", "{}"]);
            assert_eq!(result.expect_err("too long").to_string(), detail);
        }
        let mut seen = Vec::new();
        JsonLines::new(StreamLimits::default())
            .push(b"{}\n{\xff}\n{}\n", &mut |frame: Frame<'_>| seen.push((frame.offset, frame.is_lossy)))
            .expect("no limit is met");
        assert_eq!(seen, [(0, false), (3, true), (7, false)]);
    }

    #[test]
    fn a_line_of_just_the_limit_passes() {
        let limits = StreamLimits { line: 2, ..StreamLimits::default() };
        assert_eq!(read("{}\r\n{}\n12", limits), (vec!["{}".into(), "{}".into(), "12".into()], Ok(())));
        for input in ["{}\r\n123\n{}", "{}\r\n12\r3\n", "{}\r\n123"] {
            let (seen, result) = read(input, limits);
            assert_eq!(seen, ["{}"]);
            assert_eq!(
                result.expect_err("too long").to_string(),
                "line of more than 2 bytes (at byte 4)",
                "{input:?}"
            );
        }
    }

    #[test]
    fn offsets_point_at_the_value() {
        let mut seen = Vec::new();
        let mut lines = JsonLines::new(StreamLimits::default());
        for piece in ["{}\n  [", "]\n\n1\n"] {
            lines
                .push(piece.as_bytes(), &mut |frame: Frame<'_>| seen.push(frame.offset))
                .expect("no limit is met");
        }
        assert_eq!(seen, [0, 5, 9]);
    }
}
