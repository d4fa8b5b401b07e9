//! Bytes → events: framing, protocol and weave in a row.
//!
//! ```
//! use callweave::pipeline::{Decoder, decode};
//!
//! let body = r#"{"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
//!     "message": {"role": "assistant", "content": "Hello"}}]}"#;
//! assert_eq!(decode(body.as_bytes())?.text(), "Hello");
//!
//! // The same in pieces, as they come.
//! let mut decoder = Decoder::detect();
//! let mut message = callweave::accumulator::Accumulator::new();
//! for piece in body.as_bytes().chunks(7) {
//!     decoder.push(piece, &mut message)?;
//! }
//! decoder.finish(&mut message)?;
//! assert_eq!(message.message().text(), "Hello");
//! # Ok::<(), callweave::Error>(())
//! ```

use crate::accumulator::Accumulator;
use crate::event::{Body, Event, EventSink, Notice, NoticeCode};
use crate::fragment::{Fragment, FragmentSink, Part};
use crate::framing::{Frame, FrameKind, Framer, Framing, Limits};
use crate::json::{AsValue, Str, Tape, repair};
use crate::message::Message;
use crate::protocol::{Context, Input, Protocol, TABLE, report_body, report_text};
use crate::weave::Weave;
use crate::{Error, ErrorKind, Result};

/// Decodes a whole answer, streamed or not, of a protocol that is found out.
pub fn decode(bytes: &[u8]) -> Result<Message> {
    collect(Decoder::detect(), bytes)
}

/// Decodes a whole answer of a known protocol.
pub fn decode_as(protocol: &'static Protocol, bytes: &[u8]) -> Result<Message> {
    collect(Decoder::new(protocol), bytes)
}

fn collect(mut decoder: Decoder, bytes: &[u8]) -> Result<Message> {
    let mut accumulator = Accumulator::new();
    decoder.push(bytes, &mut accumulator)?;
    decoder.finish(&mut accumulator)?;
    Ok(accumulator.take())
}

/// Bytes of an answer in any cut → events.
pub struct Decoder {
    framer: Framer,
    frames: FrameDecoder,
}

impl Decoder {
    /// A decoder of a known protocol; the framing is found out from the first bytes.
    pub fn new(protocol: &'static Protocol) -> Self {
        Self::with(Some(protocol), Framer::detect(Limits::default()))
    }

    /// A decoder that finds out the protocol from the first frames.
    pub fn detect() -> Self {
        Self::with(None, Framer::detect(Limits::default()))
    }

    /// A decoder that finds out which of these protocols it is. See [`FrameDecoder::among`].
    pub fn among(candidates: Vec<&'static Protocol>) -> Self {
        Self { frames: FrameDecoder::among(candidates), ..Self::detect() }
    }

    /// A decoder with everything chosen: a protocol or none, a framer with its limits.
    pub fn with(protocol: Option<&'static Protocol>, framer: Framer) -> Self {
        Self { framer, frames: FrameDecoder { protocol, ..FrameDecoder::detect() } }
    }

    /// The protocol, once it is known.
    pub fn protocol(&self) -> Option<&'static Protocol> {
        self.frames.protocol
    }

    /// The framing, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        self.framer.framing()
    }

    /// Takes the next bytes. An error ends the stream; what was emitted before stays, and
    /// [`Decoder::finish`] may still be called to end the blocks that are open.
    pub fn push(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) -> Result<()> {
        let Self { framer, frames } = self;
        framer.push(bytes, &mut |frame: Frame<'_>| frames.push(&frame, sink))
    }

    /// Says that no bytes will come any more.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        let Self { framer, frames } = self;
        let framed = framer.finish(&mut |frame: Frame<'_>| frames.push(&frame, sink));
        let decoded = frames.finish(sink);
        framed.and(decoded)
    }
}

/// Frames → events: for callers that have frames (or decoded JSON) instead of bytes.
#[derive(Default)]
pub struct FrameDecoder {
    protocol: Option<&'static Protocol>,
    /// The protocols it may be; any, where none is named.
    candidates: Vec<&'static Protocol>,
    weave: Weave,
    tape: Tape,
    /// Frames from before the protocol was known.
    held: Vec<Held>,
    /// The first frame, if it is not JSON, until the next one tells what that means.
    first: Option<Held>,
    frames: u64,
}

struct Held {
    event: Option<String>,
    data: String,
    offset: u64,
}

/// A stream that has not shown its protocol after this many frames will not.
const MAX_HELD: usize = 64;

impl FrameDecoder {
    /// A decoder of a known protocol.
    pub fn new(protocol: &'static Protocol) -> Self {
        Self { protocol: Some(protocol), ..Self::default() }
    }

    /// A decoder that finds out the protocol from the first frames.
    pub fn detect() -> Self {
        Self::default()
    }

    /// A decoder that finds out which of these protocols it is. An error that none of them claims is
    /// reported all the same.
    pub fn among(candidates: Vec<&'static Protocol>) -> Self {
        Self { candidates, ..Self::default() }
    }

    /// The protocol, once it is known.
    pub fn protocol(&self) -> Option<&'static Protocol> {
        self.protocol
    }

    /// Takes the next frame.
    pub fn push(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        self.frames += 1;
        if frame.is_lossy {
            let detail = "bytes that are not UTF-8 were replaced";
            let notice = Notice::new(NoticeCode::InvalidUtf8, frame.offset, detail);
            sink.put(Event::new(0, Body::Notice(notice)));
        }
        let data = frame.data.trim_ascii();
        if data.is_empty() {
            return;
        }
        if frame.kind == FrameKind::Error {
            return self.fail(frame, sink);
        }
        if data == "[DONE]" {
            return self.weave.push(frame.offset, |fragments| fragments.put(Fragment::new(Part::Done)), sink);
        }
        if !self.push_json(frame, data, sink) {
            self.malformed(frame, data, sink);
        }
    }

    /// Takes the JSON of a frame; false if it is none.
    fn push_json(&mut self, frame: &Frame<'_>, data: &str, sink: &mut EventSink<'_>) -> bool {
        let Self { protocol, candidates, weave, tape, held, first, .. } = self;
        let Ok(value) = tape.parse(data) else { return false };
        // Protocols know their words as they are usually written.
        if let Some(plain) = value.with_plain_keys() {
            return self.push_json(frame, &plain, sink);
        }
        if let Some(first) = first.take() {
            weave.push(first.offset, |fragments| fragments.put(damage(&first.data)), sink);
        }
        let input = Input { event: frame.event, value };
        let known = match *protocol {
            Some(known) => known,
            // Too much of what nobody knows came first: what follows must not stand without it.
            None if held.len() >= MAX_HELD => return true,
            None => {
                let candidates = if candidates.is_empty() { TABLE } else { candidates };
                let Some(found) = Protocol::detect_among(candidates, &input) else {
                    let mut is_error = false;
                    let mut report =
                        |fragments: &mut FragmentSink<'_>| is_error = report_body(value, fragments);
                    weave.push(frame.offset, &mut report, sink);
                    if !is_error {
                        let (event, data) = (frame.event.map(Into::into), data.to_owned());
                        held.push(Held { event, data, offset: frame.offset });
                    }
                    return true;
                };
                *protocol = Some(found);
                Self::release(held, found, weave, sink);
                found
            }
        };
        weave.push(frame.offset, |fragments| known.decode(&input, fragments), sink);
        true
    }

    /// Takes the next frame as decoded JSON.
    pub fn push_value(&mut self, value: &impl AsValue, sink: &mut EventSink<'_>) {
        let data = value.as_value().to_string();
        let offset = self.frames;
        self.push(
            &Frame { event: None, data: &data, id: None, offset, kind: FrameKind::Data, is_lossy: false },
            sink,
        );
    }

    /// Says that no frame will come any more. The error says that the protocol could not be told.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        let is_unknown = self.protocol.is_none() && !self.held.is_empty();
        if is_unknown || self.frames == 0 {
            let what =
                if is_unknown { "the protocol cannot be told from the input" } else { "the input is empty" };
            return Err(Error::new(ErrorKind::Unknown, what));
        }
        self.fail_with_first(sink);
        self.weave.finish(sink);
        Ok(())
    }

    fn release(held: &mut Vec<Held>, protocol: &Protocol, weave: &mut Weave, sink: &mut EventSink<'_>) {
        let mut tape = Tape::new();
        for Held { event, data, offset } in held.drain(..) {
            if let Ok(value) = tape.parse(&data) {
                let input = Input { event: event.as_deref(), value };
                weave.push(offset, |fragments| protocol.decode(&input, fragments), sink);
            }
        }
    }

    /// The framing itself calls the frame an error.
    fn fail(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        let words = self.protocol.map_or(&[][..], |protocol| protocol.errors);
        let context = Context { words, code: frame.event.map(Str::Plain), ..Context::default() };
        self.weave.push(frame.offset, |fragments| report_text(frame.data, context, fragments), sink);
    }

    /// The frame is not JSON. Where that is only a matter of notation (`NaN`, a comma too many) it is read
    /// all the same. Else it is damage if JSON came before or comes after, and a plain-text error if not.
    fn malformed(&mut self, frame: &Frame<'_>, data: &str, sink: &mut EventSink<'_>) {
        let mended = repair::Options::new().allow(repair::Class::Lossless).without_prose().repair(data);
        if mended.verdict == repair::Verdict::Repaired && mended.text.starts_with('{') {
            let notice = Notice::new(NoticeCode::Repaired, frame.offset, "a frame is not quite JSON");
            sink.put(Event::new(0, Body::Notice(notice)));
            if self.push_json(frame, &mended.text, sink) {
                return;
            }
        }
        if self.frames == 1 {
            let (event, data) = (None, frame.data.to_owned());
            self.first = Some(Held { event, data, offset: frame.offset });
            return;
        }
        self.fail_with_first(sink);
        self.weave.push(frame.offset, |fragments| fragments.put(damage(frame.data)), sink);
    }

    /// No JSON came after the first frame, which was none.
    fn fail_with_first(&mut self, sink: &mut EventSink<'_>) {
        if let Some(Held { data, offset, .. }) = self.first.take() {
            self.weave.push(offset, |fragments| report_text(&data, Context::default(), fragments), sink);
        }
    }
}

fn damage(text: &str) -> Fragment<'_> {
    let detail = "a frame is not JSON";
    Fragment::new(Part::Notice { code: NoticeCode::MalformedFrame, detail, text: Some(text) })
}
