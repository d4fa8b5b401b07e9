//! The binary event stream of AWS (`application/vnd.amazon.eventstream`).
//!
//! A message is: total length, header length, CRC-32 of these eight bytes, headers, payload, CRC-32 of
//! everything before it; numbers are big endian. Both checksums are checked before a frame is emitted.
//! The `:message-type` distinguishes events from exceptions and errors; the latter are frames of kind
//! [`FrameKind::Error`]. An error without a payload gets `{"message": …}` from its `:error-message`.

use std::borrow::Cow;
use std::mem;

use super::{Frame, FrameKind, FrameSink, StreamLimits, decode};
use crate::json::escape_into;
use crate::{Error, ErrorKind, Result};

/// Bytes before the headers: two lengths and their checksum.
const PRELUDE: usize = 12;
/// Bytes behind the payload.
pub(crate) const CHECKSUM: usize = 4;
/// Bytes of a message without headers and payload.
const OVERHEAD: usize = PRELUDE + CHECKSUM;

/// Splits an AWS event stream. One frame is one message.
///
/// ```
/// use callweave::framing::{AwsEventStream, Frame, StreamLimits};
///
/// let message = b"\0\0\0\x12\0\0\0\0\x5F\xC2\x9E\x7C{}\x4A\x3E\x7E\x2D";
/// let mut messages = AwsEventStream::new(StreamLimits::default());
/// let error = messages.push(message, &mut |_: Frame<'_>| {}).unwrap_err();
/// assert_eq!(error.to_string(), "message 1: checksum of the prelude does not match (at byte 0)");
/// ```
#[derive(Debug)]
pub struct AwsEventStream {
    limits: StreamLimits,
    /// The offset in the stream at which the next push begins.
    offset: u64,
    /// Messages emitted so far.
    count: u64,
    /// The message that the last push left unfinished.
    held: Vec<u8>,
    /// Length of the held message, once its prelude has been checked.
    length: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct MessagePrelude {
    total: usize,
    headers: usize,
    is_intact: bool,
}

/// The headers that describe a message.
#[derive(Debug, Default)]
struct MessageHeaders<'a> {
    message_type: Option<&'a [u8]>,
    event_type: Option<&'a [u8]>,
    exception_type: Option<&'a [u8]>,
    error_code: Option<&'a [u8]>,
    error_message: Option<&'a [u8]>,
}

impl AwsEventStream {
    /// A splitter at the start of a stream.
    pub fn new(limits: StreamLimits) -> Self {
        Self::at(0, limits)
    }

    pub(super) fn at(offset: u64, limits: StreamLimits) -> Self {
        Self { limits, offset, count: 0, held: Vec::new(), length: None }
    }

    /// Takes the next bytes of the stream, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8], sink: &mut FrameSink<'_>) -> Result<()> {
        let mut rest = bytes;
        if !self.held.is_empty() {
            rest = self.complete_held(rest, sink)?;
        }
        // Unless the held message is still unfinished, and then all bytes were taken.
        while rest.len() >= PRELUDE {
            let offset = self.offset + (bytes.len() - rest.len()) as u64;
            let length = self.check_prelude(rest, offset)?;
            let Some((message, after)) = rest.split_at_checked(length) else {
                self.length = Some(length);
                break;
            };
            self.emit(message, offset, sink)?;
            rest = after;
        }
        self.held.extend_from_slice(rest);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Ends the stream: an unfinished message is an error.
    pub fn finish(&mut self, _sink: &mut FrameSink<'_>) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let offset = self.offset - self.held.len() as u64;
        let detail = match self.length {
            Some(length) => format!("stream ends after {} of {length} bytes", self.held.len()),
            None => format!("stream ends after {} bytes, inside the prelude", self.held.len()),
        };
        Err(self.damage(offset, &detail))
    }

    /// Adds to the held message and emits it if that completes it; returns the bytes after it.
    fn complete_held<'b>(&mut self, bytes: &'b [u8], sink: &mut FrameSink<'_>) -> Result<&'b [u8]> {
        let offset = self.offset - self.held.len() as u64;
        let mut rest = bytes;
        if self.length.is_none() {
            rest = self.hold_up_to(PRELUDE, rest);
            if self.held.len() < PRELUDE {
                return Ok(rest);
            }
            self.length = Some(self.check_prelude(&self.held, offset)?);
        }
        let length = self.length.expect("set above");
        rest = self.hold_up_to(length, rest);
        if self.held.len() == length {
            let message = mem::take(&mut self.held);
            self.emit(&message, offset, sink)?;
            self.held = message;
            self.held.clear();
            self.length = None;
        }
        Ok(rest)
    }

    fn hold_up_to<'b>(&mut self, length: usize, bytes: &'b [u8]) -> &'b [u8] {
        let (piece, rest) = bytes.split_at(bytes.len().min(length - self.held.len()));
        self.held.extend_from_slice(piece);
        rest
    }

    /// The length of the message that `bytes` begin.
    fn check_prelude(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        let prelude = MessagePrelude::read(bytes).expect("callers wait for a whole prelude");
        if !prelude.is_intact {
            return Err(self.damage(offset, "checksum of the prelude does not match"));
        }
        if !prelude.has_possible_lengths() {
            let MessagePrelude { total, headers, .. } = prelude;
            let detail = format!("{headers} bytes of headers do not fit in {total} bytes");
            return Err(self.damage(offset, &detail));
        }
        self.limits.check_frame(prelude.total, offset)?;
        Ok(prelude.total)
    }

    fn emit(&mut self, message: &[u8], offset: u64, sink: &mut FrameSink<'_>) -> Result<()> {
        let (body, checksum) = message.split_at(message.len() - 4);
        if be32(checksum, 0) != Some(crc32fast::hash(body)) {
            return Err(self.damage(offset, "checksum of the message does not match"));
        }
        let prelude = MessagePrelude::read(body).expect("the prelude was checked");
        let (headers, payload) = body[PRELUDE..].split_at(prelude.headers);
        let headers = MessageHeaders::read(headers).map_err(|detail| self.damage(offset, &detail))?;
        headers.emit(payload, offset, sink);
        self.count += 1;
        Ok(())
    }

    fn damage(&self, offset: u64, detail: &str) -> Error {
        Error::new(ErrorKind::Framing, format!("message {}: {detail}", self.count + 1)).at(offset)
    }
}

/// Appends an event of such a stream.
pub(crate) fn write_event(name: &str, payload: &str, out: &mut Vec<u8>) {
    write_message([":event-type", "event"], name, payload, out);
}

/// Appends an exception.
pub(crate) fn write_exception(name: &str, payload: &str, out: &mut Vec<u8>) {
    write_message([":exception-type", "exception"], name, payload, out);
}

fn write_message([key, kind]: [&str; 2], name: &str, payload: &str, out: &mut Vec<u8>) {
    let headers = [(key, name), (":content-type", "application/json"), (":message-type", kind)];
    let start = out.len();
    let length = |(name, value): &(&str, &str)| 4 + name.len() + value.len();
    let head: usize = headers.iter().map(length).sum();
    for number in [0, u32::try_from(head).unwrap_or(u32::MAX), 0] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    for (name, value) in headers {
        out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(name.as_bytes());
        // A string.
        out.push(7);
        out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(payload.as_bytes());
    seal(start, out);
}

/// Ends the message that begins at `start`, and fills in its length and checksums.
pub(crate) fn seal(start: usize, out: &mut Vec<u8>) {
    let message = &mut out[start..];
    let total = u32::try_from(message.len() + CHECKSUM).unwrap_or(u32::MAX);
    message[..4].copy_from_slice(&total.to_be_bytes());
    let checksum = crc32fast::hash(&message[..8]);
    message[8..12].copy_from_slice(&checksum.to_be_bytes());
    let checksum = crc32fast::hash(message);
    out.extend_from_slice(&checksum.to_be_bytes());
}

impl MessagePrelude {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            total: be32(bytes, 0)? as usize,
            headers: be32(bytes, 4)? as usize,
            is_intact: be32(bytes, 8)? == crc32fast::hash(&bytes[..8]),
        })
    }

    fn has_possible_lengths(self) -> bool {
        self.total.checked_sub(OVERHEAD).is_some_and(|room| self.headers <= room)
    }
}

impl<'a> MessageHeaders<'a> {
    /// Reads all headers: name length, name, type, value. `Err` names the damage.
    fn read(mut bytes: &'a [u8]) -> std::result::Result<Self, String> {
        let mut headers = Self::default();
        while let Some((&length, rest)) = bytes.split_first() {
            let (name, rest) = rest.split_at_checked(length.into()).ok_or("a header name is cut")?;
            let (&kind, rest) = rest.split_first().ok_or("a header has no type")?;
            let (width, rest) = match kind {
                0 | 1 => (0, rest),
                2 => (1, rest),
                3 => (2, rest),
                4 => (4, rest),
                5 | 8 => (8, rest),
                9 => (16, rest),
                6 | 7 => {
                    let (length, rest) = rest.split_first_chunk().ok_or("a header value is cut")?;
                    (usize::from(u16::from_be_bytes(*length)), rest)
                }
                _ => return Err(format!("unknown header type {kind}")),
            };
            let (value, rest) = rest.split_at_checked(width).ok_or("a header value is cut")?;
            if kind == 7 {
                headers.set(name, value);
            }
            bytes = rest;
        }
        Ok(headers)
    }

    fn set(&mut self, name: &[u8], value: &'a [u8]) {
        let header = match name {
            b":message-type" => &mut self.message_type,
            b":event-type" => &mut self.event_type,
            b":exception-type" => &mut self.exception_type,
            b":error-code" => &mut self.error_code,
            b":error-message" => &mut self.error_message,
            _ => return,
        };
        *header = Some(value);
    }

    fn emit(&self, payload: &[u8], offset: u64, sink: &mut FrameSink<'_>) {
        let (kind, event) = match self.message_type {
            Some(b"exception") => (FrameKind::Error, self.exception_type),
            Some(b"error") => (FrameKind::Error, self.error_code),
            _ => (FrameKind::Data, self.event_type),
        };
        let (mut data, mut is_lossy) = decode(payload);
        if kind == FrameKind::Error
            && payload.is_empty()
            && let Some(message) = self.error_message
        {
            let (message, is_message_lossy) = decode(message);
            let mut object = String::from(r#"{"message":""#);
            escape_into(&message, &mut object);
            object.push_str(r#""}"#);
            data = Cow::Owned(object);
            is_lossy = is_message_lossy;
        }
        let event = event.map(decode);
        is_lossy |= event.as_ref().is_some_and(|(_, is_lossy)| *is_lossy);
        sink.put(Frame {
            event: event.as_ref().map(|(event, _)| &**event),
            data: &data,
            id: None,
            offset,
            data_offset: None,
            kind,
            is_lossy,
        });
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::super::Framing;
    use super::super::testing;
    use super::*;

    fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let total = u32::try_from(OVERHEAD + headers.len() + payload.len()).expect("small");
        let mut bytes = total.to_be_bytes().to_vec();
        bytes.extend((headers.len() as u32).to_be_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes.extend(headers);
        bytes.extend(payload);
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    fn header(name: &str, value: &str) -> Vec<u8> {
        let mut bytes = vec![name.len() as u8];
        bytes.extend(name.bytes());
        bytes.push(7);
        bytes.extend((value.len() as u16).to_be_bytes());
        bytes.extend(value.bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> (Vec<String>, Result<()>) {
        testing::read(Framing::AwsEventStream, bytes, StreamLimits { frame: 1000, ..StreamLimits::default() })
    }

    fn error(bytes: &[u8]) -> String {
        let (_, result) = read(bytes);
        let error = result.expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Framing);
        error.to_string()
    }

    #[test]
    fn events_exceptions_and_errors() {
        let mut bytes = message(&[], b"{}");
        let event = [header(":message-type", "event"), header(":event-type", "chunk")].concat();
        bytes.extend(message(&event, "{\"p\":\"ä\"}".as_bytes()));
        let exception =
            [header(":exception-type", "throttlingException"), header(":message-type", "exception")].concat();
        bytes.extend(message(&exception, b"{\"message\":\"slow\"}"));
        let failure = [
            header(":message-type", "error"),
            header(":error-code", "500"),
            header(":error-message", "say \"no\""),
        ]
        .concat();
        bytes.extend(message(&failure, b""));
        let expected = [
            "{}",
            "chunk|{\"p\":\"ä\"}",
            "!throttlingException|{\"message\":\"slow\"}",
            r#"!500|{"message":"say \"no\""}"#,
        ];
        assert_eq!(read(&bytes), (expected.map(String::from).to_vec(), Ok(())));
    }

    #[test]
    fn all_header_types_are_passed_over() {
        let mut headers = Vec::new();
        for (kind, width) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
            headers.extend([1, b'h', kind]);
            headers.extend(vec![0xFF; width]);
        }
        headers.extend(b"\x01b\x06\x00\x03\x00\x01\x02");
        headers.extend(header(":event-type", "e"));
        assert_eq!(read(&message(&headers, b"x")), (vec!["e|x".into()], Ok(())));
        assert_eq!(error(&message(b"\x01h\x0A", b"")), "message 1: unknown header type 10 (at byte 0)");
        assert_eq!(error(&message(b"\x05h", b"")), "message 1: a header name is cut (at byte 0)");
        assert_eq!(error(&message(b"\x01h\x04\x00", b"")), "message 1: a header value is cut (at byte 0)");
    }

    #[test]
    fn damage_is_told_and_what_came_before_stays() {
        let whole = message(&[], b"{\"a\":1}");
        let mut bytes = [&whole[..], &whole[..]].concat();
        let second = whole.len();
        bytes[second + 13] ^= 1;
        assert_eq!(read(&bytes).0, ["{\"a\":1}"]);
        assert_eq!(error(&bytes), "message 2: checksum of the message does not match (at byte 23)");
        bytes[second] ^= 1;
        assert_eq!(error(&bytes), "message 2: checksum of the prelude does not match (at byte 23)");
        assert_eq!(
            error(&bytes[..second + 5]),
            "message 2: stream ends after 5 bytes, inside the prelude (at byte 23)"
        );
        assert_eq!(error(&whole[..20]), "message 1: stream ends after 20 of 23 bytes (at byte 0)");
        let mut impossible = [0, 0, 0, 20, 0, 0, 0, 9].to_vec();
        impossible.extend(crc32fast::hash(&impossible).to_be_bytes());
        assert_eq!(error(&impossible), "message 1: 9 bytes of headers do not fit in 20 bytes (at byte 0)");
    }

    #[test]
    fn a_message_over_the_limit_is_not_waited_for() {
        let mut prelude = [0, 0x10, 0, 0, 0, 0, 0, 0].to_vec();
        prelude.extend(crc32fast::hash(&prelude).to_be_bytes());
        let (_, result) = read(&prelude);
        assert_eq!(result.expect_err("too long").kind(), ErrorKind::Limit);
    }
}
