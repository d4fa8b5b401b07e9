//! Bytes in pieces of any size → frames.
//!
//! The bytes of a response are pushed as the network delivers them, divided anywhere, even inside a character; the
//! output is [`Frame`]s: one event of an SSE stream, one line of NDJSON, one element of a JSON array, one message of an
//! AWS event stream, or the complete body. The meaning of a frame's text, and whether it is JSON at all, is left to the
//! protocol.
//!
//! ```
//! use callweave::framing::{Frame, Framer, StreamLimits};
//!
//! let mut seen = Vec::new();
//! let mut framer = Framer::detect(StreamLimits::default());
//! for bytes in ["event: greeting\nda", "ta: {\"text\":\"hi\"}\n\ndata: [DO", "NE]\n"] {
//!     framer.push(bytes.as_bytes(), &mut |frame: Frame<'_>| {
//!         seen.push(format!("{} {}", frame.event.unwrap_or("-"), frame.data));
//!     })?;
//! }
//! framer.finish(&mut |frame: Frame<'_>| seen.push(frame.data.to_owned()))?;
//! assert_eq!(seen, ["greeting {\"text\":\"hi\"}", "[DONE]"]);
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! Laws, held by `tests/framing.rs`: any division of the input gives the same frames and the same error; every frame is
//! emitted as soon as its last byte has come; a frame that lies completely in the pushed bytes is neither copied nor
//! allocated for. An [`Error`] ends the stream, and the frames before it stay.

mod aws_event_stream;
mod detect;
mod json_lines;
mod json_values;
mod nesting;
mod sse;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::event::Sink;
use crate::{Error, ErrorKind, Result, names};

pub use aws_event_stream::AwsEventStream;
pub(crate) use aws_event_stream::{CHECKSUM, seal, write_event, write_exception};
pub use json_lines::JsonLines;
pub use json_values::JsonValues;
pub use sse::SseFramer;
pub(crate) use sse::is_field;

use detect::{FirstObject, FramingDetector};

/// One frame of a stream: the smallest piece that a protocol reads by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name that the framing gives it: the SSE event name, the AWS `:event-type`, or for an error
    /// the AWS `:exception-type` or `:error-code`.
    pub event: Option<&'a str>,
    /// The payload. Usually JSON, not checked here.
    pub data: &'a str,
    /// The SSE stream's last event id; empty is none.
    pub id: Option<&'a str>,
    /// The offset in the stream of the frame's first byte.
    pub offset: u64,
    /// The offset in the stream of the first byte of `data`, if all of it stands there unchanged and the framing kept
    /// track of it.
    pub data_offset: Option<u64>,
    /// Whether the framing itself marks it as an error.
    pub kind: FrameKind,
    /// Whether bytes that are not UTF-8 were replaced by U+FFFD.
    pub is_lossy: bool,
}

/// The kind of a frame, by the framing itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// An ordinary frame.
    #[default]
    Data,
    /// An error of the upstream: an AWS exception or error message, an SSE field `error`.
    Error,
    /// Text at the end of an event stream that has no fields: the error page or message of a proxy.
    Stray,
}

/// Anything that takes frames, whatever they borrow from.
pub type FrameSink<'s> = dyn for<'f> Sink<Frame<'f>> + 's;

/// The framings there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line: NDJSON, JSON-RPC lines.
    JsonLines,
    /// JSON values without lines: a complete body, a growing array, values one after the other.
    JsonValues,
    /// The binary event stream of AWS.
    AwsEventStream,
}

impl Framing {
    /// All framings.
    pub const ALL: [Self; 4] = [Self::Sse, Self::JsonLines, Self::JsonValues, Self::AwsEventStream];

    /// The name, as [`str::parse`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::JsonLines => "json-lines",
            Self::JsonValues => "json-values",
            Self::AwsEventStream => "aws-event-stream",
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Framing {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|framing| framing.name() == name)
            .ok_or_else(|| names::unknown("framing", name, Self::ALL.map(Self::name)))
    }
}

/// The maximum lengths of the parts of a stream. More is an error of kind [`ErrorKind::Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The maximum number of bytes of a line, without its end.
    pub line: usize,
    /// The maximum number of bytes of a frame; for SSE of its data.
    pub frame: usize,
    /// The maximum number of bytes of the whole stream. Only a [`Framer`] checks it.
    pub total: u64,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { line: 64 << 20, frame: 64 << 20, total: u64::MAX }
    }
}

impl StreamLimits {
    fn check_line(&self, length: usize, offset: u64) -> Result<()> {
        within("line", length, self.line, offset)
    }

    fn check_frame(&self, length: usize, offset: u64) -> Result<()> {
        within("frame", length, self.frame, offset)
    }
}

/// Splits a stream into frames by a framing that is given or detected.
///
/// After an error `push` repeats it, and `finish` emits nothing more.
#[derive(Debug)]
pub struct Framer {
    stage: FramerState,
    limits: StreamLimits,
    /// The maximum number of bytes of a frame that is one line.
    most: usize,
    read: u64,
    /// Whether the next byte begins a frame that can be skipped, computed beforehand because it is asked more than once
    /// for each frame.
    is_between_frames: bool,
    failure: Option<Error>,
}

#[derive(Debug)]
enum FramerState {
    Detect(FramingDetector),
    Split(Box<FrameSplitter>),
}

#[derive(Debug)]
enum FrameSplitter {
    Sse(SseFramer),
    JsonLines(JsonLines),
    JsonValues(JsonValues),
    AwsEventStream(AwsEventStream),
}

impl Framer {
    /// A framer for a stream whose framing is known.
    pub fn new(framing: Framing, limits: StreamLimits) -> Self {
        Self::at(FramerState::Split(Box::new(FrameSplitter::new(framing, limits, 0))), limits)
    }

    /// A framer that detects the framing from the first bytes, because content types are often missing or wrong. Every
    /// input has a framing: anything unknown is the text of a complete body.
    pub fn detect(limits: StreamLimits) -> Self {
        Self::at(FramerState::Detect(FramingDetector::default()), limits)
    }

    fn at(stage: FramerState, limits: StreamLimits) -> Self {
        let most = limits.line.min(limits.frame);
        Self { stage, limits, most, read: 0, is_between_frames: false, failure: None }
    }

    /// The framing, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        match &self.stage {
            FramerState::Detect(_) => None,
            FramerState::Split(splitter) => Some(splitter.framing()),
        }
    }

    /// Takes the next bytes of the stream, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<()> {
        let mut rest = bytes;
        loop {
            let taken = self.push_some(rest, sink)?;
            rest = &rest[taken..];
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes bytes up to the end of a frame, or all of them; returns their number.
    pub(crate) fn push_some(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<usize> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.catch_up();
        let allowed = &bytes[..bytes.len().min(self.left())];
        let failure = match self.split(allowed, sink) {
            Ok(taken) => {
                self.read += taken as u64;
                self.is_between_frames = match &self.stage {
                    FramerState::Split(splitter) => splitter.is_between_frames(),
                    FramerState::Detect(_) => false,
                };
                if taken < allowed.len() || allowed.len() == bytes.len() {
                    return Ok(taken);
                }
                let detail = format!("stream of more than {} bytes", self.limits.total);
                Error::new(ErrorKind::Limit, detail).at(self.read)
            }
            Err(failure) => {
                self.read += allowed.len() as u64;
                failure
            }
        };
        self.is_between_frames = false;
        self.failure = Some(failure.clone());
        Err(failure)
    }

    /// The number of bytes that may still come.
    fn left(&self) -> usize {
        usize::try_from(self.limits.total - self.read).unwrap_or(usize::MAX)
    }

    /// The offset of the next byte, if it begins a frame.
    pub(crate) fn between_frames(&self) -> Option<u64> {
        self.is_between_frames.then_some(self.read)
    }

    /// The offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.read
    }

    /// The maximum length of a frame, and of all that follow.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.most, self.left())
    }

    /// Skips frames of `length` bytes, for which there was [room](Framer::room) between frames and which the caller has
    /// read itself.
    pub(crate) fn skip(&mut self, length: usize) {
        self.read += length as u64;
    }

    /// Moves the splitter behind the skipped bytes: not each time, since runs of frames are skipped read by read.
    fn catch_up(&mut self) {
        if self.is_between_frames
            && let FramerState::Split(splitter) = &mut self.stage
        {
            splitter.move_to(self.read);
        }
    }

    /// Whether no byte has come of a stream whose framing is to be detected, and these bytes may come.
    pub(crate) fn is_unread(&self, bytes: &[u8]) -> bool {
        let is_within = || bytes.len() < self.limits.frame && bytes.len() <= self.left();
        self.read == 0
            && is_within()
            && self.failure.is_none()
            && matches!(self.stage, FramerState::Detect(_))
    }

    /// Skips the first bytes of an [unread](Framer::is_unread) stream, which are one object and which the caller has
    /// read itself; another value follows.
    pub(crate) fn skip_object(&mut self, length: usize) {
        self.read = length as u64;
        let values = JsonValues::after_object(self.read, self.limits);
        self.stage = FramerState::Split(Box::new(FrameSplitter::JsonValues(values)));
    }

    /// Ends the stream: emits what is still held.
    pub fn finish(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        self.catch_up();
        let result = self.close(sink);
        result.inspect_err(|error| self.failure = Some(error.clone()))
    }

    fn split(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<usize> {
        match &mut self.stage {
            FramerState::Split(splitter) => splitter.push_some(bytes, sink),
            FramerState::Detect(detect) => {
                let Some((framing, rest)) = detect.push(bytes, self.limits) else { return Ok(bytes.len()) };
                let text = detect.text(framing);
                let (mut held, mut offset) = detect.take_held();
                let object = detect.take_object();
                if text > 0 {
                    let stream = held.split_off(text);
                    emit_text(held.trim_ascii_end(), offset, sink);
                    (held, offset) = (stream, offset + text as u64);
                }
                self.settle(framing, (held, offset), object, sink)?;
                Ok(bytes.len() - rest.len())
            }
        }
    }

    fn close(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        match &mut self.stage {
            FramerState::Split(splitter) => splitter.finish(sink),
            FramerState::Detect(detect) => {
                // A body of one line without an end, or text that only began like something else.
                let (held, object) = (detect.take_held(), detect.take_object());
                self.settle(Framing::JsonValues, held, object, sink)?;
                self.close(sink)
            }
        }
    }

    /// Continues with the detected framing, beginning with the held bytes, their offset, and the part of them that was
    /// read.
    fn settle(
        &mut self,
        framing: Framing,
        (held, offset): (Vec<u8>, u64),
        object: Option<FirstObject>,
        sink: &mut FrameSink<'_>,
    ) -> Result<()> {
        let mut splitter = FrameSplitter::new(framing, self.limits, offset);
        let mut held = &held[..];
        if let (FrameSplitter::JsonValues(values), Some(object)) = (&mut splitter, object)
            && !held.is_empty()
        {
            held = &held[values.push_read(held, &object, sink)?..];
        }
        while !held.is_empty() {
            let taken = splitter.push_some(held, sink)?;
            held = &held[taken..];
        }
        self.stage = FramerState::Split(Box::new(splitter));
        Ok(())
    }
}

impl FrameSplitter {
    fn new(framing: Framing, limits: StreamLimits, offset: u64) -> Self {
        match framing {
            Framing::Sse => Self::Sse(SseFramer::at(offset, limits)),
            Framing::JsonLines => Self::JsonLines(JsonLines::at(offset, limits)),
            Framing::JsonValues => Self::JsonValues(JsonValues::at(offset, limits)),
            Framing::AwsEventStream => Self::AwsEventStream(AwsEventStream::at(offset, limits)),
        }
    }

    fn framing(&self) -> Framing {
        match self {
            Self::Sse(_) => Framing::Sse,
            Self::JsonLines(_) => Framing::JsonLines,
            Self::JsonValues(_) => Framing::JsonValues,
            Self::AwsEventStream(_) => Framing::AwsEventStream,
        }
    }

    /// Takes bytes up to the end of a frame, where the framing can stop there, or all of them.
    #[inline]
    fn push_some(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<usize> {
        match self {
            Self::Sse(sse) => return sse.push_some(bytes, sink),
            Self::JsonLines(lines) => return lines.push_some(bytes, sink),
            Self::JsonValues(values) => values.push(bytes, sink)?,
            Self::AwsEventStream(messages) => messages.push(bytes, sink)?,
        }
        Ok(bytes.len())
    }

    /// Whether the next byte begins a frame that can be [skipped](FrameSplitter::move_to).
    fn is_between_frames(&self) -> bool {
        match self {
            Self::Sse(sse) => sse.is_between_frames,
            Self::JsonLines(lines) => lines.is_between_frames(),
            Self::JsonValues(_) | Self::AwsEventStream(_) => false,
        }
    }

    /// Moves over frames, between two, to the offset of the next byte.
    fn move_to(&mut self, offset: u64) {
        match self {
            Self::Sse(sse) => sse.offset = offset,
            Self::JsonLines(lines) => lines.offset = offset,
            Self::JsonValues(_) | Self::AwsEventStream(_) => {}
        }
    }

    fn finish(&mut self, sink: &mut FrameSink<'_>) -> Result<()> {
        match self {
            Self::Sse(sse) => sse.finish(sink),
            Self::JsonLines(lines) => lines.finish(sink),
            Self::JsonValues(values) => values.finish(sink),
            Self::AwsEventStream(messages) => messages.finish(sink),
        }
    }
}

/// The byte order mark that may open a UTF-8 stream.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

fn within(thing: &str, length: usize, limit: usize, offset: u64) -> Result<()> {
    if length <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Limit, format!("{thing} of more than {limit} bytes")).at(offset))
}

/// The text of the bytes, and whether some of them had to be replaced.
fn decode(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => (String::from_utf8_lossy(bytes), true),
    }
}

/// The bytes without a last character that the end of the input truncated: nobody knows that character.
fn without_cut_character(bytes: &[u8]) -> &[u8] {
    let begin = bytes.len().saturating_sub(LONGEST_CHARACTER - 1);
    let lead = bytes[begin..].iter().rposition(|byte| byte & 0xC0 != 0x80).map(|at| begin + at);
    let is_truncated = |at: &usize| {
        std::str::from_utf8(&bytes[*at..])
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    lead.filter(is_truncated).map_or(bytes, |at| &bytes[..at])
}

/// The number of bytes of the longest character.
const LONGEST_CHARACTER: usize = 4;

/// Emits a frame that is nothing but text.
fn emit_text(bytes: &[u8], offset: u64, sink: &mut FrameSink<'_>) {
    emit_text_at(bytes, offset, offset, sink);
}

/// Emits a frame with nothing in it but text, which begins at `data_offset`.
fn emit_text_at(bytes: &[u8], offset: u64, data_offset: u64, sink: &mut FrameSink<'_>) {
    let (data, is_lossy) = decode(bytes);
    let (kind, data_offset) = (FrameKind::Data, Some(data_offset).filter(|_| !is_lossy));
    sink.put(Frame { event: None, data: &data, id: None, offset, data_offset, kind, is_lossy });
}

/// Collects frames for the tests of the framings.
#[cfg(test)]
mod testing {
    use super::*;

    /// Frames as `event|data` lines, `!` before an error's and `?` before stray text, and the result of the stream.
    pub(super) fn frames(mut framer: Framer, pieces: &[&[u8]]) -> (Vec<String>, Result<()>) {
        let mut seen = Vec::new();
        let mut sink = |frame: Frame<'_>| {
            let mark = match frame.kind {
                FrameKind::Data => "",
                FrameKind::Error => "!",
                FrameKind::Stray => "?",
            };
            seen.push(match frame.event {
                Some(event) => format!("{mark}{event}|{}", frame.data),
                None => format!("{mark}{}", frame.data),
            });
        };
        let mut result = Ok(());
        for piece in pieces {
            result = result.and_then(|()| framer.push(piece, &mut sink));
        }
        let result = result.and_then(|()| framer.finish(&mut sink));
        (seen, result)
    }

    /// The frames of the whole input, after checking that every division in two gives the same.
    pub(super) fn read(framing: Framing, bytes: &[u8], limits: StreamLimits) -> (Vec<String>, Result<()>) {
        let input = String::from_utf8_lossy(bytes);
        let framer = || Framer::new(framing, limits);
        let whole = frames(framer(), &[bytes]);
        for cut in 0..=bytes.len() {
            assert_eq!(frames(framer(), &[&bytes[..cut], &bytes[cut..]]), whole, "{input:?} cut at {cut}");
        }
        assert_eq!(frames(framer(), &bytes.chunks(1).collect::<Vec<_>>()), whole, "{input:?} bytewise");
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::testing::frames;
    use super::*;

    #[test]
    fn names_parse_back() {
        for framing in Framing::ALL {
            assert_eq!(framing.to_string().parse(), Ok(framing));
        }
        assert_eq!("morse".parse::<Framing>().expect_err("unknown").kind(), ErrorKind::Unknown);
    }

    #[test]
    fn total_limit_keeps_what_came_before() {
        let limits = StreamLimits { total: 12, ..StreamLimits::default() };
        let input = b"data: a\n\ndata: b\n\n";
        for pieces in [vec![&input[..]], input.chunks(1).collect()] {
            let (seen, result) = frames(Framer::new(Framing::Sse, limits), &pieces);
            assert_eq!(seen, ["a"]);
            let error = result.expect_err("over the limit");
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Limit, Some(12)));
            assert_eq!(error.detail(), "stream of more than 12 bytes");
        }
    }

    #[test]
    fn a_character_that_the_end_cut_is_left_out() {
        for framing in [Framing::Sse, Framing::JsonLines, Framing::JsonValues] {
            for letter in ["ø", "日", "👩"] {
                for came in 1..letter.len() {
                    let bytes = [b"data: {\"a\":\"b", &letter.as_bytes()[..came]].concat();
                    let bytes = if framing == Framing::Sse { &bytes[..] } else { &bytes[6..] };
                    let mut seen = Vec::new();
                    let mut framer = Framer::new(framing, StreamLimits::default());
                    let mut sink = |frame: Frame<'_>| seen.push((frame.data.to_owned(), frame.is_lossy));
                    framer.push(bytes, &mut sink).and_then(|()| framer.finish(&mut sink)).expect("no limit");
                    assert_eq!(seen, [("{\"a\":\"b".to_owned(), false)], "{framing} {letter} {came}");
                }
            }
        }
        // Bytes that no continuation makes a character are damage.
        assert_eq!(without_cut_character(b"a\xff"), b"a\xff");
        assert_eq!(without_cut_character(b"a\xa9\xa9\xa9\xa9"), b"a\xa9\xa9\xa9\xa9");
        assert_eq!(without_cut_character("aé".as_bytes()), "aé".as_bytes());
    }

    #[test]
    fn an_error_is_repeated_and_ends_the_stream() {
        let limits = StreamLimits { line: 3, ..StreamLimits::default() };
        let mut framer = Framer::new(Framing::JsonLines, limits);
        let mut count = 0;
        let mut sink = |_: Frame<'_>| count += 1;
        let first = framer.push(b"{}\n12345\n{}\n", &mut sink);
        assert!(first.is_err());
        assert_eq!(framer.push(b"{}\n", &mut sink), first);
        assert_eq!(framer.finish(&mut sink), Ok(()));
        assert_eq!(count, 1);
    }
}
