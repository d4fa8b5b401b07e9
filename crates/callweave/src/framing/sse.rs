//! Server-sent events, as the WHATWG standard reads an event stream.
//!
//! Lines end with CR, LF or CRLF; a byte order mark may open the stream; `data` lines of one event are
//! joined with LF; a blank line ends the event; an event without a `data` line is not dispatched;
//! comments, `retry` and unknown fields are skipped; an `id` holds until the next one.
//!
//! Some leniencies, because providers need them:
//! - the last event counts even if the stream ends before its blank line, or inside its last line;
//! - blanks before a known field name are skipped (` data: …` has been recorded);
//! - the field `error`, which GPUStack writes, is a frame of its own of kind [`FrameKind::Error`];
//! - a `data` line after a complete JSON object begins the next event, because the two joined would be no JSON: some
//!   servers leave the blank lines out;
//! - a proxy may have put a second `data:` before a line, or have written an object without any field name: the object
//!   is the data;
//! - lines without a field at the end of the stream, such as a proxy's error page, are a frame of kind
//!   [`FrameKind::Stray`]; before another event they are skipped.

use std::mem;

use memchr::{memchr, memchr2};

use super::nesting::BracketNesting;
use super::{BYTE_ORDER_MARK, Frame, FrameKind, FrameSink, StreamLimits, decode, without_cut_character};
use crate::Result;
use crate::json::lane::{ByteLane, WIDTH, first};

/// The length of the longest field name with a meaning.
const LONGEST_NAME: usize = "event".len();

/// Splits a stream of server-sent events. One frame is one dispatched event.
///
/// ```
/// use callweave::framing::{Frame, StreamLimits, SseFramer};
///
/// let mut sse = SseFramer::new(StreamLimits::default());
/// let mut seen = Vec::new();
/// sse.push(b": hello\r\ndata: one\r\ndata: two\r\n\r", &mut |frame: Frame<'_>| {
///     seen.push(frame.data.to_owned());
/// })?;
/// assert_eq!(seen, ["one\ntwo"]);
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug)]
pub struct SseFramer {
    limits: StreamLimits,
    /// The offset in the stream at which the next push begins.
    pub(super) offset: u64,
    /// The line that the last push left unfinished.
    line: Vec<u8>,
    /// Whether the last byte was a CR: an LF right after it belongs to it.
    is_after_return: bool,
    is_first_line: bool,
    /// Whether the next byte begins an event, computed beforehand because it is asked more than once for each.
    pub(super) is_between_frames: bool,
    /// The offset of the open event's first field.
    event_offset: Option<u64>,
    data: KeptField,
    name: KeptField,
    id: KeptField,
    /// The fields that came after the data: of this event if a blank line follows, of the next if more data does.
    later_name: KeptField,
    later_id: KeptField,
    later_offset: Option<u64>,
    probe: ObjectProbe,
    /// The lines without a field since the last event, and their offset.
    stray: Vec<u8>,
    stray_offset: u64,
}

/// The maximum number of bytes kept of lines without a field.
const MAX_STRAY: usize = 16 << 10;

/// Whether the data of the open event is one complete object; looked at only when more data comes.
#[derive(Debug, Default)]
enum ObjectProbe {
    #[default]
    Unread,
    /// The number of bytes read, without reaching the end.
    Open(BracketNesting, usize),
    Other,
}

/// A field's value from an earlier push. The buffer is reused.
#[derive(Debug, Default)]
struct KeptField {
    bytes: Vec<u8>,
    is_set: bool,
}

/// Field values that still lie in the bytes at hand. They take precedence over the kept ones.
#[derive(Default)]
struct BorrowedFields<'a> {
    data: Option<&'a [u8]>,
    /// The offset of the data in the stream.
    data_offset: u64,
    name: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    later_name: Option<&'a [u8]>,
    later_id: Option<&'a [u8]>,
}

impl KeptField {
    fn get(&self) -> Option<&[u8]> {
        self.is_set.then_some(&*self.bytes)
    }

    fn set(&mut self, value: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(value);
        self.is_set = true;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.is_set = false;
    }
}

impl SseFramer {
    /// A splitter at the start of a stream.
    pub fn new(limits: StreamLimits) -> Self {
        Self::at(0, limits)
    }

    pub(super) fn at(offset: u64, limits: StreamLimits) -> Self {
        Self {
            limits,
            offset,
            line: Vec::new(),
            is_after_return: false,
            is_first_line: true,
            is_between_frames: false,
            event_offset: None,
            data: KeptField::default(),
            name: KeptField::default(),
            id: KeptField::default(),
            later_name: KeptField::default(),
            later_id: KeptField::default(),
            later_offset: None,
            probe: ObjectProbe::Unread,
            stray: Vec::new(),
            stray_offset: 0,
        }
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

    /// Takes bytes up to the end of an event, or all of them; returns their number.
    pub(super) fn push_some(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<usize> {
        if self.is_between_frames
            && let Some(taken) = self.push_usual(bytes, sink)
        {
            return Ok(taken);
        }
        let taken = self.push_lines(bytes, sink)?;
        let has_begun = self.event_offset.is_some() || self.data.is_set || self.name.is_set;
        let is_in_line = !self.line.is_empty() || self.is_after_return;
        self.is_between_frames = !has_begun && !is_in_line && !self.is_first_line;
        Ok(taken)
    }

    /// Reads line by line up to a blank one, or all of the bytes.
    #[inline(never)]
    fn push_lines(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<usize> {
        let mut at = 0;
        if self.is_after_return && !bytes.is_empty() {
            self.is_after_return = false;
            at = usize::from(bytes[0] == b'\n');
        }
        let mut line = mem::take(&mut self.line);
        let mut fresh = BorrowedFields::default();
        if !line.is_empty() {
            let line_offset = self.offset - line.len() as u64;
            let end = line_length(&bytes[at..]).map(|length| at + length);
            let piece = &bytes[at..end.unwrap_or(bytes.len())];
            self.limits.check_line(line.len() + piece.len(), line_offset)?;
            line.extend_from_slice(piece);
            let Some(end) = end else {
                self.offset += bytes.len() as u64;
                self.line = line;
                return Ok(bytes.len());
            };
            at = self.after_line_end(bytes, end);
            self.read_line(&line, line_offset, &mut fresh, sink)?;
        }
        while let Some(length) = line_length(&bytes[at..]) {
            let line_offset = self.offset + at as u64;
            self.limits.check_line(length, line_offset)?;
            self.read_line(&bytes[at..at + length], line_offset, &mut fresh, sink)?;
            at = self.after_line_end(bytes, at + length);
            if length == 0 {
                self.keep(fresh);
                self.offset += at as u64;
                line.clear();
                self.line = line;
                return Ok(at);
            }
        }
        self.limits.check_line(bytes.len() - at, self.offset + at as u64)?;
        self.keep(fresh);
        self.offset += bytes.len() as u64;
        line.clear();
        line.extend_from_slice(&bytes[at..]);
        self.line = line;
        Ok(bytes.len())
    }

    /// Takes an event of the usual form: an object in one line, perhaps a name before it, a blank line, all of it at
    /// hand. Returns the number of its bytes; none for any other event, which is read line by line.
    fn push_usual(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Option<usize> {
        let named = bytes.strip_prefix(b"event: ");
        let (name_length, rest) = match named {
            Some(named) => {
                let length = name_length(named);
                (length, named.get(length..)?.strip_prefix(b"\n")?)
            }
            None => (0, bytes),
        };
        let value = rest.strip_prefix(b"data: ").filter(|value| value.starts_with(b"{"))?;
        let length = line_length(value)?;
        // The two line ends; Google writes the longer ones.
        let ends = match value[length..] {
            [b'\n', b'\n', ..] => 2,
            [b'\r', b'\n', b'\r', b'\n', ..] => 4,
            _ => return None,
        };
        let taken = bytes.len() - value.len() + length + ends;
        if self.id.is_set || taken > self.limits.line.min(self.limits.frame) {
            return None;
        }
        let (event, data) = match named {
            None => (None, simdutf8::basic::from_utf8(&value[..length]).ok()?),
            Some(named) => {
                // The name and the data are checked at once: short texts are costly to check.
                let before_value = named.len() - value.len();
                let fields = simdutf8::basic::from_utf8(&named[..before_value + length]).ok()?;
                let name = fields.get(..name_length)?;
                (Some(name).filter(|name| !name.is_empty()), fields.get(before_value..)?)
            }
        };
        self.forget_stray();
        let (offset, kind) = (self.offset, FrameKind::Data);
        let data_offset = Some(offset + (bytes.len() - value.len()) as u64);
        self.offset += taken as u64;
        sink.put(Frame { event, data, id: None, offset, data_offset, kind, is_lossy: false });
        Some(taken)
    }

    /// Ends the stream: emits the last event if no blank line ended it.
    pub fn finish(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        let line = mem::take(&mut self.line);
        let offset = self.offset - line.len() as u64;
        let line = without_cut_character(&line);
        let mut fresh = BorrowedFields::default();
        if !line.is_empty() && !begins_field(line) {
            self.read_line(line, offset, &mut fresh, sink)?;
        }
        self.end_event(&mut fresh, sink);
        let stray = mem::take(&mut self.stray);
        if !stray.trim_ascii().is_empty() {
            self.event_offset = Some(self.stray_offset);
            self.emit(FrameKind::Stray, stray.trim_ascii(), &fresh, sink);
        }
        Ok(())
    }

    /// Keeps a line that has no field, for the end of the stream.
    fn keep_stray(&mut self, line: &[u8], offset: u64) {
        if self.stray.is_empty() {
            self.stray_offset = offset;
        }
        if self.stray.len() + line.len() < MAX_STRAY {
            self.stray.extend_from_slice(line);
            self.stray.push(b'\n');
        }
    }

    /// The start of the next line, given the position of the end of the last one.
    fn after_line_end(&mut self, bytes: &[u8], end: usize) -> usize {
        if bytes[end] == b'\n' {
            return end + 1;
        }
        match bytes.get(end + 1) {
            Some(b'\n') => end + 2,
            Some(_) => end + 1,
            None => {
                self.is_after_return = true;
                end + 1
            }
        }
    }

    fn read_line<'a>(
        &mut self,
        mut line: &'a [u8],
        mut offset: u64,
        fresh: &mut BorrowedFields<'a>,
        sink: &mut FrameSink<'_>,
    ) -> Result<()> {
        if mem::take(&mut self.is_first_line)
            && offset == 0
            && let Some(rest) = line.strip_prefix(BYTE_ORDER_MARK)
        {
            line = rest;
            offset += BYTE_ORDER_MARK.len() as u64;
        }
        if line.is_empty() {
            self.end_event(fresh, sink);
            return Ok(());
        }
        while let [b' ' | b'\t', rest @ ..] = line {
            line = rest;
            offset += 1;
        }
        // A colon further on ends no name that is known.
        let (name, value) = match line.iter().take(LONGEST_NAME + 1).position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.add_data(line, undoubled(value), offset, fresh, sink)?,
            b"event" | b"id" if fresh.data.is_some() || self.data.is_set => {
                self.later_offset.get_or_insert(offset);
                match name {
                    b"event" => fresh.later_name = Some(value),
                    _ if memchr(0, value).is_none() => fresh.later_id = Some(value),
                    _ => {}
                }
            }
            b"event" => {
                self.event_offset.get_or_insert(offset);
                fresh.name = Some(value);
            }
            b"id" if memchr(0, value).is_none() => {
                self.event_offset.get_or_insert(offset);
                fresh.id = Some(value);
            }
            b"error" => self.emit_error(value, offset, fresh, sink)?,
            _ if line.starts_with(b"{") => self.add_data(line, line, offset, fresh, sink)?,
            _ if !is_field(line) => self.keep_stray(line, offset),
            _ => {}
        }
        Ok(())
    }

    /// Adds a data line, which ends with the value: the first one is borrowed; a second one makes a joined copy, or
    /// ends the event before.
    fn add_data<'a>(
        &mut self,
        line: &[u8],
        value: &'a [u8],
        offset: u64,
        fresh: &mut BorrowedFields<'a>,
        sink: &mut FrameSink<'_>,
    ) -> Result<()> {
        if let Some(before) = fresh.data.or(self.data.get())
            && !value.trim_ascii().is_empty()
            && self.probe.is_complete(before)
        {
            self.dispatch(fresh, sink);
            self.event_offset = self.later_offset.take();
            self.promote_later(fresh);
        }
        self.forget_stray();
        let event_offset = *self.event_offset.get_or_insert(offset);
        if let Some(first) = fresh.data.take() {
            self.data.set(first);
        }
        let Some(joined) = self.data.get() else {
            self.limits.check_frame(value.len(), event_offset)?;
            fresh.data = Some(value);
            fresh.data_offset = offset + (line.len() - value.len()) as u64;
            return Ok(());
        };
        self.limits.check_frame(joined.len() + 1 + value.len(), event_offset)?;
        self.data.bytes.push(b'\n');
        self.data.bytes.extend_from_slice(value);
        Ok(())
    }

    /// Ends the open event if it has data, and takes its name for the error if it has none.
    fn emit_error<'a>(
        &mut self,
        value: &'a [u8],
        offset: u64,
        fresh: &mut BorrowedFields<'a>,
        sink: &mut FrameSink<'_>,
    ) -> Result<()> {
        if fresh.data.is_some() || self.data.is_set {
            self.end_event(fresh, sink);
        }
        self.forget_stray();
        let event_offset = *self.event_offset.get_or_insert(offset);
        self.limits.check_frame(value.len(), event_offset)?;
        self.emit(FrameKind::Error, value, fresh, sink);
        self.close(fresh);
        Ok(())
    }

    /// Ends the event at a blank line, or at the end of the stream.
    fn end_event(&mut self, fresh: &mut BorrowedFields<'_>, sink: &mut FrameSink<'_>) {
        self.promote_later(fresh);
        self.later_offset = None;
        self.dispatch(fresh, sink);
    }

    /// Moves the fields that came after the data to the event that is open now.
    fn promote_later(&mut self, fresh: &mut BorrowedFields<'_>) {
        for (later, kept_later, own, kept) in [
            (&mut fresh.later_name, &mut self.later_name, &mut fresh.name, &mut self.name),
            (&mut fresh.later_id, &mut self.later_id, &mut fresh.id, &mut self.id),
        ] {
            if let Some(value) = later.take() {
                *own = Some(value);
            } else if kept_later.is_set {
                *own = None;
                mem::swap(kept, kept_later);
            }
            kept_later.clear();
        }
    }

    fn dispatch(&mut self, fresh: &mut BorrowedFields<'_>, sink: &mut FrameSink<'_>) {
        if let Some(data) = fresh.data.or(self.data.get()) {
            self.emit(FrameKind::Data, data, fresh, sink);
        }
        self.close(fresh);
    }

    #[inline]
    fn forget_stray(&mut self) {
        if !self.stray.is_empty() {
            self.stray.clear();
        }
    }

    fn emit(&self, kind: FrameKind, data: &[u8], fresh: &BorrowedFields<'_>, sink: &mut FrameSink<'_>) {
        let (data, is_data_lossy) = decode(data);
        let is_given = |value: &&[u8]| !value.is_empty();
        let event = fresh.name.or(self.name.get()).filter(is_given).map(decode);
        let id = fresh.id.or(self.id.get()).filter(is_given).map(decode);
        let is_lossy = is_data_lossy || [&event, &id].into_iter().flatten().any(|(_, is_lossy)| *is_lossy);
        sink.put(Frame {
            event: event.as_ref().map(|(event, _)| &**event),
            data: &data,
            id: id.as_ref().map(|(id, _)| &**id),
            offset: self.event_offset.unwrap_or(self.offset),
            data_offset: fresh.data.filter(|_| !is_data_lossy).map(|_| fresh.data_offset),
            kind,
            is_lossy,
        });
    }

    /// Forgets the event, but keeps the id, as the standard says.
    fn close(&mut self, fresh: &mut BorrowedFields<'_>) {
        fresh.data = None;
        fresh.name = None;
        self.data.clear();
        self.name.clear();
        self.event_offset = None;
        self.probe = ObjectProbe::Unread;
    }

    /// Copies the fields that the open event borrows from the bytes at hand.
    fn keep(&mut self, fresh: BorrowedFields<'_>) {
        for (fresh, kept) in [
            (fresh.data, &mut self.data),
            (fresh.name, &mut self.name),
            (fresh.id, &mut self.id),
            (fresh.later_name, &mut self.later_name),
            (fresh.later_id, &mut self.later_id),
        ] {
            if let Some(value) = fresh {
                kept.set(value);
            }
        }
    }
}

impl ObjectProbe {
    /// Whether the data is a complete object, or the end marker of a stream. Each byte is read once.
    fn is_complete(&mut self, data: &[u8]) -> bool {
        let (mut nesting, read) = match mem::replace(self, Self::Other) {
            Self::Unread if data.trim_ascii() == b"[DONE]" => return true,
            Self::Unread if data.trim_ascii_start().starts_with(b"{") => (BracketNesting::new(b'{'), 0),
            Self::Unread | Self::Other => return false,
            Self::Open(nesting, read) => (nesting, read),
        };
        match nesting.end(&data[read..]) {
            Some(end) => data[read + end..].trim_ascii().is_empty(),
            None => {
                *self = Self::Open(nesting, data.len());
                false
            }
        }
    }
}

/// The object or end marker behind a second field name.
pub(super) fn undoubled(value: &[u8]) -> &[u8] {
    let mut inner = value;
    while let Some(rest) = inner.strip_prefix(b"data:") {
        inner = rest.trim_ascii_start();
    }
    if inner.starts_with(b"{") || inner.starts_with(b"[") { inner } else { value }
}

/// Whether the line has a field, known or not: a word and a colon, or a comment.
pub(crate) fn is_field(line: &[u8]) -> bool {
    let Some(colon) = memchr(b':', line) else { return false };
    let name = line[..colon].trim_ascii();
    let name = name.strip_prefix(BYTE_ORDER_MARK).unwrap_or(name);
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Whether the end of the stream may have truncated the line inside the name of a field.
fn begins_field(line: &[u8]) -> bool {
    let name = line.trim_ascii_start();
    [&b"data"[..], b"event", b"id", b"retry", b"error"]
        .iter()
        .any(|field| field.starts_with(name) && *field != name)
}

/// The length of the name that a line begins with, up to its end or a byte that stands in no name. Most names are too
/// short to be searched.
fn name_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(lane) = ByteLane::at(bytes, at) {
        let found = lane.quotes();
        if found != 0 {
            return at + first(found);
        }
        at += WIDTH;
    }
    // Such a short event is read line by line.
    bytes.len()
}

/// The length of the first line, if it ends. Every event has a blank line, so that is looked at first.
fn line_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n' | b'\r', ..] => Some(0),
        _ => memchr2(b'\r', b'\n', bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Framing;
    use super::super::testing;
    use super::*;
    use crate::ErrorKind;

    /// The frames of the whole input, after checking that every division in two gives the same.
    fn read(input: &str) -> Vec<String> {
        read_within(input, StreamLimits::default()).0
    }

    fn read_within(input: &str, limits: StreamLimits) -> (Vec<String>, Result<()>) {
        testing::read(Framing::Sse, input.as_bytes(), limits)
    }

    #[test]
    fn every_line_end_counts() {
        for end in ["\n", "\r\n", "\r"] {
            let input = ["event: a", "data: 1", "", "data: 2", "data: 3", "", ""].join(end);
            assert_eq!(read(&input), ["a|1", "2\n3"], "{end:?}");
        }
        assert_eq!(read("data: 1\r\rdata: 2\n\r\ndata: 3\r\n\n"), ["1", "2", "3"]);
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        assert_eq!(read("\u{feff}data: bom\n\n"), ["bom"]);
        assert_eq!(read("data:x\n\ndata:  y\n\ndata: z \n\n"), ["x", " y", "z "]);
        assert_eq!(read("data\n\ndata\ndata\n\ndata:"), ["", "\n", ""]);
        assert_eq!(read(": note\n:\nunknown: 1\nretry: 5\ndata: x\n: note\n\n"), ["x"]);
        assert_eq!(read("event: done\n\ndata: x\n\n"), ["x"]);
        assert_eq!(read("event: a\nevent: b\ndata: x\n\n"), ["b|x"]);
        assert_eq!(read("Data: x\n\ndata : x\n\n\u{feff}data: x\n\n"), [""; 0]);
    }

    #[test]
    fn leniencies() {
        assert_eq!(read("data: 1\n\ndata: 2\ndata: 3"), ["1", "2\n3"]);
        assert_eq!(read(" data: 1\n\n\t event: e\ndata: 2\n\n : c\n\n"), ["1", "e|2"]);
        assert_eq!(read("error: {}\n\ndata: 2\n\n"), ["!{}", "2"]);
        assert_eq!(read("event: e\nerror: x\n\nevent: f\ndata: 1\nerror: y"), ["!e|x", "f|1", "!y"]);
    }

    #[test]
    fn text_without_fields_ends_the_stream() {
        let page = "<html>\n\n<h1>504: Time-out</h1></html>";
        assert_eq!(read(&format!("data: 1\n\n{page}")), ["1", "?<html>\n<h1>504: Time-out</h1></html>"]);
        assert_eq!(read("data: 1\n\nreset reason: gone\n"), ["1", "?reset reason: gone"]);
        assert_eq!(read("data: 1\n\nbad gateway\ndata: 2\n\n"), ["1", "2"]);
        assert_eq!(read("data: 1\n\nbad gateway\n\ndata: {}\n\n"), ["1", "{}"]);
        // Unknown fields, comments, and text that the end of the stream truncated are no stray text.
        assert_eq!(read("data: 1\nmeta: x\n\nx-took: 1\n: bye\n\n"), ["1"]);
        for cut in ["d", "dat", "even", "i", "ret", "err"] {
            assert_eq!(read(&format!("data: 1\n\n{cut}")), ["1"]);
        }
        let long = format!("data: 1\n\n{}", "no field\n".repeat(1 << 12));
        let mut longest = 0;
        let mut sink = |frame: Frame<'_>| longest = longest.max(frame.data.len());
        let mut sse = SseFramer::new(StreamLimits::default());
        sse.push(long.as_bytes(), &mut sink).and_then(|()| sse.finish(&mut sink)).expect("no limit is met");
        assert!((MAX_STRAY - 16..MAX_STRAY).contains(&longest));
    }

    #[test]
    fn ids_hold_until_the_next() {
        let mut seen = Vec::new();
        let input = b"id: 7\n\ndata: a\n\ndata: b\nid: 8\n\nid: 9\0\ndata: c\n\nid\ndata: d\n\n";
        SseFramer::new(StreamLimits::default())
            .push(input, &mut |frame: Frame<'_>| seen.push((frame.id.map(str::to_owned), frame.offset)))
            .expect("no limit is met");
        let expected = [(Some("7"), 7), (Some("8"), 16), (Some("8"), 38), (None, 47)];
        assert_eq!(seen, expected.map(|(id, offset)| (id.map(str::to_owned), offset)));
    }

    #[test]
    fn limits() {
        let limits = StreamLimits { line: 8, frame: 5, total: u64::MAX };
        assert_eq!(read_within("data: 12\n\ndata: 3\n\n", limits), (vec!["12".into(), "3".into()], Ok(())));
        let (seen, result) = read_within("data: 1\n\n: 3456789\n", limits);
        let error = result.expect_err("the comment is too long");
        assert_eq!((seen, error.kind(), error.offset()), (vec!["1".into()], ErrorKind::Limit, Some(9)));
        assert_eq!(error.to_string(), "line of more than 8 bytes (at byte 9)");
        let (_, result) = read_within("data:12\ndata:34\ndata:5\n\n", limits);
        assert_eq!(result.expect_err("the data is too long").detail(), "frame of more than 5 bytes");
    }

    #[test]
    fn events_may_stand_line_by_line() {
        let lines = "event: a\ndata: {\"n\":\ndata: 1}\nevent: b\ndata: {\"n\":2}\ndata: {\"n\":3}\n: c\ndata: [DONE]\n";
        assert_eq!(read(lines), ["a|{\"n\":\n1}", "b|{\"n\":2}", "{\"n\":3}", "[DONE]"]);
        // A name after the data, a blank line of data and text in lines are as the standard says.
        assert_eq!(read("data: {}\nevent: a\n\ndata: {}\ndata:\n\n"), ["a|{}", "{}\n"]);
        assert_eq!(read("data: {} {\ndata: one\ndata: {}\n\n"), ["{} {\none\n{}"]);
    }

    #[test]
    fn usual_events_are_read_as_others_are() {
        let first = "data: {}\n\n";
        for (events, expected) in [
            ("data: {\"a\":1}\n\nevent: e\ndata: {}\n\n", vec!["{\"a\":1}", "e|{}"]),
            ("event: e\ndata: {}\n\ndata: {}\n\n", vec!["e|{}", "{}"]),
            ("event: \ndata: {}\n\nevent: e\ndata: {}\r\n\r\n", vec!["{}", "e|{}"]),
            ("data: {}\ndata: {}\n\ndata: {\ndata: }\n\n", vec!["{}", "{}", "{\n}"]),
            ("data: {} \n\ndata: {}\nevent: e\n\ndata: {}\n\n", vec!["{} ", "e|{}", "{}"]),
            ("data: {ö}\n\ndata: {}\r\rdata: {}\n", vec!["{ö}", "{}", "{}"]),
            (": data: {}\n\nevent: \"e\"\ndata: {}\n\n", vec!["\"e\"|{}"]),
            (
                "event: a name of many words, ö\ndata: {}\n\nevent: e\rdata: {}\n\n",
                vec!["a name of many words, ö|{}", "e|{}"],
            ),
            ("data: {}\r\n\r\nevent: e\r\ndata: {}\r\n\r\ndata: {}\r\n\n", vec!["{}", "e|{}", "{}"]),
            ("data: {}\r\n\r\n\ndata: {}\n\r\ndata: {}\r\n\r", vec!["{}", "{}", "{}"]),
            ("data: {}\r\n\rdata: {}\r\n\r\ndata: {\r\ndata: }\r\n\r\n", vec!["{}", "{}", "{\n}"]),
            ("event: e", vec![]),
            ("event: e\ndata: {}", vec!["e|{}"]),
        ] {
            let expected: Vec<_> = [vec!["{}"], expected].concat();
            assert_eq!(read(&format!("{first}{events}")), expected, "{events:?}");
        }
        let mut seen = Vec::new();
        SseFramer::new(StreamLimits::default())
            .push(
                b"data: {}\n\nid: 7\ndata: {}\n\ndata: {\xff}\n\nevent: \xff\ndata: {}\n\ndata: {}\n\n",
                &mut |frame: Frame<'_>| {
                    seen.push((
                        frame.id.map(str::to_owned),
                        frame.data.to_owned(),
                        frame.offset,
                        frame.is_lossy,
                    ));
                },
            )
            .expect("no limit is met");
        let id = || Some("7".to_owned());
        let expected = [
            (None, "{}", 0, false),
            (id(), "{}", 10, false),
            (id(), "{\u{fffd}}", 26, true),
            (id(), "{}", 37, true),
            (id(), "{}", 56, false),
        ];
        assert_eq!(
            seen,
            expected.map(|(id, data, offset, is_lossy)| (id, data.to_owned(), offset, is_lossy))
        );
    }

    #[test]
    fn usual_events_are_held_to_the_limits() {
        let usual = "data: {}\n\nevent: e\ndata: {\"a\":12}\n\n";
        let line = StreamLimits { line: 13, ..StreamLimits::default() };
        let frame = StreamLimits { frame: 7, ..StreamLimits::default() };
        for (limits, detail) in [
            (line, "line of more than 13 bytes (at byte 19)"),
            (frame, "frame of more than 7 bytes (at byte 10)"),
        ] {
            let (seen, result) = read_within(usual, limits);
            assert_eq!((seen, result.expect_err("too long").to_string()), (vec!["{}".into()], detail.into()));
            let within = StreamLimits {
                line: limits.line.saturating_add(1),
                frame: limits.frame.saturating_add(1),
                ..limits
            };
            assert_eq!(read_within(usual, within), (vec!["{}".into(), "e|{\"a\":12}".into()], Ok(())));
        }
    }

    #[test]
    fn a_field_name_may_be_doubled_or_missing() {
        assert_eq!(read("data: data: {\"a\":1}\n\ndata:data:data: [DONE]\n\n"), ["{\"a\":1}", "[DONE]"]);
        assert_eq!(read("data: data: none\n\n"), ["data: none"]);
        assert_eq!(read("data: {\"a\":1}\n\n{\"error\":{}}\n"), ["{\"a\":1}", "{\"error\":{}}"]);
    }

    #[test]
    fn characters_may_be_cut_and_bad_bytes_are_replaced() {
        assert_eq!(read("data: größe 🦀\n\n"), ["größe 🦀"]);
        let mut seen = Vec::new();
        SseFramer::new(StreamLimits::default())
            .push(b"data: a\xffb\n\ndata: c\n\n", &mut |frame: Frame<'_>| {
                seen.push((frame.data.to_owned(), frame.is_lossy));
            })
            .expect("no limit is met");
        assert_eq!(seen, [("a\u{fffd}b".to_owned(), true), ("c".to_owned(), false)]);
    }
}
