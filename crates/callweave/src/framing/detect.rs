//! Detection of a stream's framing from its first bytes.
//!
//! A byte order mark and white space are passed over; then the first bytes decide:
//! - a field name of SSE with its colon, or the colon of a comment: SSE;
//! - `{`: lines if the first line is one complete value and ends, else values (a complete body, laid out or not, or
//!   values in a row);
//! - zero, with which no text begins: an AWS event stream, whose splitter reports any damage;
//! - anything else, `[` too: values, whose splitter also takes plain text. But text that is not HTML may have been put
//!   before an event stream by a proxy: it is a frame of its own if a line soon begins with a field of SSE.
//!
//! Only bytes that have not decided yet are held.

use std::mem;

use memchr::memchr;

use super::nesting::BracketNesting;
use super::{BYTE_ORDER_MARK, Framing, StreamLimits};

const SSE_OPENINGS: [&[u8]; 6] = [b":", b"data:", b"event:", b"id:", b"retry:", b"error:"];

/// The fields that identify an event stream among lines of text.
const FIELDS: [&[u8]; 2] = [b"data:", b"event:"];

#[derive(Debug, Default)]
pub(super) struct FramingDetector {
    /// The bytes since the white space, which have not decided the framing.
    held: Vec<u8>,
    /// The offset in the stream at which `held` begins.
    offset: u64,
    /// The first value, if it is an object.
    object: Option<FirstObject>,
    /// The start of the line of a text that is looked at next; in the end, the first line after the text.
    line: usize,
}

/// The maximum length of text before an event stream.
const MAX_TEXT: usize = 16 << 10;

/// The part read of an object that begins a stream, all of it in one line.
#[derive(Debug)]
pub(super) struct FirstObject {
    /// The number of its bytes that were read.
    pub(super) read: usize,
    pub(super) nesting: BracketNesting,
    pub(super) is_complete: bool,
    /// The number of bytes after it that were looked at.
    space: usize,
}

impl FramingDetector {
    /// Takes bytes until they decide; then also returns the bytes that it does not hold.
    pub(super) fn push<'b>(&mut self, bytes: &'b [u8], limits: StreamLimits) -> Option<(Framing, &'b [u8])> {
        if self.held.is_empty() {
            let rest = self.skip_space(bytes);
            let framing = self.decide(rest, limits);
            if framing.is_none() || self.line > 0 {
                self.held.extend_from_slice(rest);
                return framing.map(|framing| (framing, &[][..]));
            }
            return framing.map(|framing| (framing, rest));
        }
        let mut held = mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let skipped = held.len() - self.skip_space(&held).len();
        held.drain(..skipped);
        let framing = self.decide(&held, limits);
        self.held = held;
        framing.map(|framing| (framing, &[][..]))
    }

    /// The held bytes, and the offset in the stream of them or of the next bytes.
    pub(super) fn take_held(&mut self) -> (Vec<u8>, u64) {
        (mem::take(&mut self.held), self.offset)
    }

    /// The object that the held bytes begin with, so that its bytes are not read again.
    pub(super) fn take_object(&mut self) -> Option<FirstObject> {
        self.object.take()
    }

    /// The length of the text before a stream of that framing in the held bytes.
    pub(super) fn text(&self, framing: Framing) -> usize {
        if framing == Framing::Sse { self.line } else { 0 }
    }

    fn skip_space<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let mark = if self.offset == 0 { BYTE_ORDER_MARK } else { &[] };
        let rest = bytes.strip_prefix(mark).unwrap_or(bytes).trim_ascii_start();
        self.offset += (bytes.len() - rest.len()) as u64;
        rest
    }

    fn decide(&mut self, bytes: &[u8], limits: StreamLimits) -> Option<Framing> {
        match bytes {
            [] => None,
            [b'{', ..] => self.decide_object(bytes, limits),
            [0, ..] => Some(Framing::AwsEventStream),
            _ if self.offset == 0 && BYTE_ORDER_MARK.starts_with(bytes) => None,
            [b':'] => None,
            // No comment, but a line of JSON that lost its beginning.
            [b':', b'"' | b'{' | b'[', ..] => self.decide_text(bytes, limits),
            _ if SSE_OPENINGS.iter().any(|opening| bytes.starts_with(opening)) => Some(Framing::Sse),
            _ if SSE_OPENINGS.iter().any(|opening| opening.starts_with(bytes)) => None,
            [b'<' | b'[' | b'"', ..] => Some(Framing::JsonValues),
            _ => self.decide_text(bytes, limits),
        }
    }

    /// Decides on text: it is text unless one of its lines begins an event stream.
    fn decide_text(&mut self, bytes: &[u8], limits: StreamLimits) -> Option<Framing> {
        let most = MAX_TEXT.min(limits.frame);
        let window = &bytes[..bytes.len().min(most)];
        loop {
            let line = window.get(self.line..).unwrap_or_default();
            let is_later = self.line > 0;
            if is_later && FIELDS.iter().any(|field| line.starts_with(field)) {
                return Some(Framing::Sse);
            }
            match memchr(b'\n', line) {
                _ if is_later && line.starts_with(b"{") => return Some(Framing::JsonValues),
                Some(end) => self.line += end + 1,
                None => return (window.len() == most).then_some(Framing::JsonValues),
            }
        }
    }

    /// Decides on an object. Looks no further than the maximum length of a frame, so that no more is ever held.
    fn decide_object(&mut self, bytes: &[u8], limits: StreamLimits) -> Option<Framing> {
        let window = &bytes[..bytes.len().min(limits.frame)];
        let object = self.object.get_or_insert_with(|| FirstObject {
            read: 0,
            nesting: BracketNesting::new(b'{'),
            is_complete: false,
            space: 0,
        });
        if !object.is_complete {
            let fresh = &window[object.read..];
            let line_end = memchr(b'\n', fresh);
            let line = &fresh[..line_end.unwrap_or(fresh.len())];
            let end = object.nesting.end(line);
            object.is_complete = end.is_some();
            object.read += end.unwrap_or(line.len());
            if !object.is_complete && line_end.is_some() {
                return Some(Framing::JsonValues);
            }
        }
        if object.is_complete {
            let after = &window[object.read + object.space..];
            object.space += after.len();
            if let Some(byte) = after.iter().find(|&&byte| byte == b'\n' || !byte.is_ascii_whitespace()) {
                return Some(if *byte == b'\n' { Framing::JsonLines } else { Framing::JsonValues });
            }
        }
        (bytes.len() >= limits.frame).then_some(Framing::JsonValues)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::frames;
    use super::super::{FrameSink, Framer};
    use super::*;

    #[test]
    fn first_bytes_decide() {
        use Framing::{AwsEventStream, JsonLines, JsonValues, Sse};
        let cases: [(&[u8], Framing); 23] = [
            (b"data: x\n\n", Sse),
            (b"\xEF\xBB\xBFdata:x\n\n", Sse),
            (b"\r\n\n data: x\n\n", Sse),
            (b": PROCESSING\n\ndata: {}\n\n", Sse),
            (b"event: a\ndata: x\n\n", Sse),
            (b"id: 1\n", Sse),
            (b"retry: 1\n", Sse),
            (b"error: {}\n", Sse),
            (b"{\"a\":1}\n{\"a\":2}\n", JsonLines),
            (b"\n{\"a\":{}} \r\n{\"a\":2}\n", JsonLines),
            (b"{\"a\":\"\\\"}{\"}\n", JsonLines),
            (b"{\"a\":1}", JsonValues),
            (b"{\n\"a\":1}", JsonValues),
            (b"{\"a\":1}{\"a\":1}\n", JsonValues),
            (b"{\"a\":1} {\"a\":1}\n", JsonValues),
            (b"[{\"a\":1}]\n", JsonValues),
            (b"database is down", JsonValues),
            (b"event", JsonValues),
            (b"<html>", JsonValues),
            (b"\xEF\xBB", JsonValues),
            (b"", JsonValues),
            (b"\0\0\0\x10\0\0\0\0\x05\xC2\x48\xEB\x7D\x98\xC8\xFF", AwsEventStream),
            (b"\0\0\0", AwsEventStream),
        ];
        for (input, framing) in cases {
            let named = frames(Framer::new(framing, StreamLimits::default()), &[input]);
            for cut in 0..=input.len() {
                let pieces = [&input[..cut], &input[cut..]];
                assert_eq!(found(&pieces), framing, "{input:?} cut at {cut}");
                assert_eq!(frames(Framer::detect(StreamLimits::default()), &pieces), named, "{input:?}");
            }
            let pieces: Vec<_> = input.chunks(1).collect();
            assert_eq!(found(&pieces), framing, "{input:?} bytewise");
            assert_eq!(frames(Framer::detect(StreamLimits::default()), &pieces), named, "{input:?} bytewise");
        }
    }

    fn found(pieces: &[&[u8]]) -> Framing {
        let mut framer = Framer::detect(StreamLimits::default());
        let sink: &mut FrameSink<'_> = &mut |_: super::super::Frame<'_>| {};
        for piece in pieces {
            // Some of the inputs are damaged, which does not matter here.
            let _ = framer.push(piece, sink);
        }
        let _ = framer.finish(sink);
        framer.framing().expect("every ended input has a framing")
    }

    #[test]
    fn text_may_stand_before_an_event_stream() {
        let input = b"warming up\n\nstill\ndata: {\"a\":1}\n\n";
        let seen = ["warming up\n\nstill", "{\"a\":1}"].map(String::from).to_vec();
        for cut in 0..=input.len() {
            let pieces = [&input[..cut], &input[cut..]];
            assert_eq!(
                frames(Framer::detect(StreamLimits::default()), &pieces),
                (seen.clone(), Ok(())),
                "{cut}"
            );
        }
        let pieces: Vec<_> = input.chunks(1).collect();
        assert_eq!(frames(Framer::detect(StreamLimits::default()), &pieces), (seen, Ok(())));
        let page = b"<html>\ndata: {}\n</html>";
        assert_eq!(frames(Framer::detect(StreamLimits::default()), &[page]).0.len(), 1);
    }

    #[test]
    fn a_first_object_over_the_limit_is_not_held() {
        let limits = StreamLimits { frame: 4, ..StreamLimits::default() };
        let input = b"{\"a\":1}\n{}\n";
        for pieces in [vec![&input[..]], input.chunks(1).collect()] {
            let (seen, result) = frames(Framer::detect(limits), &pieces);
            assert_eq!(seen, [""; 0]);
            assert_eq!(result.expect_err("too long").to_string(), "frame of more than 4 bytes (at byte 0)");
        }
    }
}
