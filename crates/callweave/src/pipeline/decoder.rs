//! The decoders: bytes, or frames, in; events out.

use memchr::memchr;

use super::DecoderBuilder;
use super::detection::FrameReader;
use super::stages::{StageChain, StagedSink};
use crate::accumulator::Accumulator;
use crate::dialect::DialectStage;
use crate::event::EventSink;
use crate::framing::{Frame, Framer, Framing};
use crate::json::{self, AsValue, CheckedText, TapeNode as Value};
use crate::message::Message;
use crate::protocol::Protocol;
use crate::{Error, Result};

/// Bytes of a response, cut anywhere → events.
pub struct Decoder {
    pub(super) framer: Framer,
    pub(super) frames: FrameDecoder,
    /// The complete input so far, if it is one JSON object in one line: whether the line has ended is not known yet.
    whole: Option<Box<CheckedText>>,
}

impl Decoder {
    pub(super) fn over(framer: Framer, frames: FrameDecoder) -> Self {
        Self { framer, frames, whole: None }
    }

    /// A decoder whose options are still to be set.
    pub fn builder() -> DecoderBuilder {
        DecoderBuilder::default()
    }

    /// A decoder of a known protocol; the framing is detected from the first bytes.
    pub fn new(protocol: &'static Protocol) -> Self {
        Self::builder().protocol(protocol).build()
    }

    /// A decoder that detects the protocol from the first frames.
    pub fn detect() -> Self {
        Self::builder().build()
    }

    /// The protocol, once it is known.
    pub fn protocol(&self) -> Option<&'static Protocol> {
        self.frames.protocol()
    }

    /// The framing, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        self.framer.framing()
    }

    /// The number of frames so far.
    pub fn frames(&self) -> u64 {
        self.frames.reader.frames
    }

    /// The number of frames that were not read in full, because the frame cache knew them.
    #[doc(hidden)]
    pub fn known_frames(&self) -> u64 {
        self.frames.reader.cache.known_frames()
    }

    /// The dialect in which something was found. See [`Extractor::dialect`](crate::dialect::Extractor::dialect).
    pub fn dialect(&self) -> Option<&str> {
        self.frames.dialect()
    }

    /// Whether native calls are open and all of them are complete: only the content behind them is not known. Many
    /// wires do not mark the end of a call.
    pub fn has_complete_calls(&self) -> bool {
        self.frames.reader.weave.has_complete_calls()
    }

    /// Takes the next bytes. An error ends the stream; events that were emitted before stay, and [`Decoder::finish`]
    /// may still be called to end the blocks that are open.
    pub fn push(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) -> Result<()> {
        let taken = self.frames.run_on(bytes, &mut self.framer, sink);
        if taken == bytes.len() {
            return Ok(());
        }
        self.push_rest(&bytes[taken..], sink)
    }

    /// Takes bytes that do not go on with a run of frames: see [`FrameDecoder::run_on`].
    #[inline(never)]
    fn push_rest(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) -> Result<()> {
        self.frames.check()?;
        if let Some(whole) = self.whole.take_if(|_| !bytes.is_empty()) {
            self.push_frames(whole.text().as_bytes(), sink)?;
        } else if self.push_complete(bytes, sink) {
            return Ok(());
        }
        self.push_frames(bytes, sink)
    }

    /// Takes the first bytes of a stream if they are one JSON object: the same pass finds that out and reads it, so
    /// that the framing need not look for its end.
    fn push_complete(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) -> bool {
        if !self.framer.is_unread(bytes) {
            return false;
        }
        let object = bytes.trim_ascii_end();
        if !matches!(object, [b'{', .., b'}']) {
            return false;
        }
        let line_end = memchr(b'\n', bytes).unwrap_or(bytes.len());
        // The end of a line may be the first byte of several.
        if (object.len()..bytes.len()).contains(&line_end) {
            return false;
        }
        let Ok(text) = simdutf8::basic::from_utf8(bytes) else { return false };
        if line_end < object.len() {
            return json::with_spare_tape(|tape| {
                let value = tape.parse(text);
                value.map(|value| self.take_complete(text.len(), value, sink)).is_ok()
            });
        }
        self.whole = CheckedText::of(text).map(Box::new);
        self.whole.is_some()
    }

    /// Takes the first frame, a value whose text has that length.
    fn take_complete(&mut self, length: usize, value: Value<'_>, sink: &mut EventSink<'_>) {
        self.framer.skip_object(length);
        self.frames.push_complete(value, sink);
    }

    /// Signals that no bytes will come any more.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        if let Some(whole) = self.whole.take() {
            let length = whole.text().len();
            whole.read(|value| self.take_complete(length, value, sink));
        }
        let Self { framer, frames, .. } = self;
        frames.reader.cache.pause();
        let framed = framer.finish(&mut |frame: Frame<'_>| frames.push(&frame, sink));
        let decoded = frames.finish(sink);
        framed.and(decoded)
    }

    /// Decodes a complete response. Of several it is the first, with a notice.
    pub fn decode(self, bytes: &[u8]) -> Result<Message> {
        Ok(self.collect(bytes)?.take())
    }

    /// Decodes all responses of an input: several bodies or streams, one after the other.
    pub fn decode_all(self, bytes: &[u8]) -> Result<Vec<Message>> {
        Ok(self.collect(bytes)?.take_all())
    }

    fn collect(mut self, bytes: &[u8]) -> Result<Accumulator> {
        let mut accumulator = Accumulator::new();
        self.push(bytes, &mut accumulator)?;
        self.finish(&mut accumulator)?;
        Ok(accumulator)
    }
}

/// Frames → events: for callers that have frames (or decoded JSON) instead of bytes.
///
/// Frames before the response that may come from others (keep-alives, status lines, text) are held until a frame
/// identifies the protocol beyond doubt; a frame that may turn out to be an error or the truncated end of the input is
/// held, too. If no such frame comes, the best guess counts.
pub struct FrameDecoder {
    pub(super) reader: FrameReader,
    pub(super) stages: StageChain,
    /// The reason why nothing can be decoded as it was asked for.
    pub(super) refusal: Option<Box<Error>>,
}

impl FrameDecoder {
    /// A decoder of a known protocol.
    pub fn new(protocol: &'static Protocol) -> Self {
        Decoder::builder().protocol(protocol).build_for_frames()
    }

    /// A decoder that detects the protocol from the first frames.
    pub fn detect() -> Self {
        Decoder::builder().build_for_frames()
    }

    /// The protocol, once it is known.
    pub fn protocol(&self) -> Option<&'static Protocol> {
        self.reader.protocol
    }

    /// The dialect in which something was found. See [`Extractor::dialect`](crate::dialect::Extractor::dialect).
    pub fn dialect(&self) -> Option<&str> {
        self.stages.extract.as_deref().and_then(DialectStage::dialect)
    }

    /// Checks that every requested name is known.
    fn check(&self) -> Result<()> {
        self.refusal.as_deref().map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    /// Takes the next frame.
    pub fn push(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        let Self { reader, stages, .. } = self;
        reader.push(frame, &mut StagedSink { stages, sink });
    }

    /// Takes a value without framing as the first frame.
    fn push_complete(&mut self, value: Value<'_>, sink: &mut EventSink<'_>) {
        let Self { reader, stages, .. } = self;
        reader.push_complete(value, &mut StagedSink { stages, sink });
    }

    /// Takes the next frame as decoded JSON.
    pub fn push_value(&mut self, value: &impl AsValue, sink: &mut EventSink<'_>) {
        let Self { reader, stages, .. } = self;
        reader.push_value(&value.as_value(), &mut StagedSink { stages, sink });
    }

    /// Signals that no frame will come any more. The error says that the protocol could not be detected, that the input
    /// is not in the named one, or that no dialect has the given name.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        self.check()?;
        let Self { reader, stages, .. } = self;
        let read = reader.finish(&mut StagedSink { stages, sink });
        stages.finish(sink);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::framing::StreamLimits;

    const BODY: &str = r#"{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":
        {"content":"\u0048i \"}{\" é \n"}}]}"#;

    type Told = (Vec<Event<'static>>, Result<()>, Option<Framing>);

    /// The events of each push and of the end: read by a decoder, or frame by frame.
    fn told(pieces: &[&[u8]], limits: StreamLimits) -> [Vec<Told>; 2] {
        let mut decoder = Decoder::builder().limits(limits).build();
        let (mut framer, mut frames) = (Framer::detect(limits), FrameDecoder::detect());
        let [mut whole, mut framed] = [Vec::new(), Vec::new()];
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let mut events = Vec::new();
            let result = decoder.push(piece, &mut events);
            whole.push((events, result, decoder.framing()));
            let mut events = Vec::new();
            let result = framer.push(piece, &mut |frame: Frame<'_>| frames.push(&frame, &mut events));
            framed.push((events, result, framer.framing()));
        }
        let mut events = Vec::new();
        let result = decoder.finish(&mut events);
        whole.push((events, result, decoder.framing()));
        let mut events = Vec::new();
        let result = framer.finish(&mut |frame: Frame<'_>| frames.push(&frame, &mut events));
        let result = result.and(frames.finish(&mut events));
        framed.push((events, result, framer.framing()));
        [whole, framed]
    }

    /// An object that is the complete first push is not framed; the events are the same.
    #[test]
    fn what_comes_whole_is_told_when_and_as_its_frame_would_be() {
        let line = BODY.replace('\n', " ");
        let deep = format!("{}{}{}", "{\"a\":".repeat(300), line, "}".repeat(300));
        let broken = line.replace(",\"choices\"", ",,\"choices\"");
        let mut count = 0;
        for body in [BODY, &line, &deep, &broken, "{}", "{", "{]}", "{\"a\":\"\u{1}\"}"] {
            for tail in ["", " ", "\n", " \r\n", "\u{c}", "{}", "}", "x", "\nx", "\n{\"a\":1}", " {}", "\n\n"]
            {
                for next in ["", " ", "\n", "{\"b\":2}\n{}", "\n{\"b\":2}", "x", &line] {
                    let first = format!("{body}{tail}");
                    let all = first.len() + next.len();
                    let limits = |line, frame, total| StreamLimits { line, frame, total: total as u64 };
                    for limits in [
                        StreamLimits::default(),
                        limits(1 << 20, first.len(), 1 << 20),
                        limits(1 << 20, body.len(), 1 << 20),
                        limits(body.len() - 1, 1 << 20, 1 << 20),
                        limits(1 << 20, 1 << 20, first.len()),
                        limits(1 << 20, 1 << 20, first.len() - 1),
                        limits(1 << 20, 1 << 20, all),
                    ] {
                        let [whole, framed] = told(&[first.as_bytes(), next.as_bytes()], limits);
                        assert_eq!(whole, framed, "{first:?} {next:?} {limits:?}");
                        count += 1;
                    }
                }
            }
        }
        assert!(count > 4000);
        let lossy = [BODY.as_bytes(), b"\xFF}"].concat();
        let [whole, framed] = told(&[&lossy], StreamLimits::default());
        assert_eq!(whole, framed);
    }

    /// Nothing of such an object is emitted before it is known that no line of its own ends it.
    #[test]
    fn a_line_that_may_go_on_is_held() {
        let mut decoder = Decoder::detect();
        let mut events: Vec<Event<'static>> = Vec::new();
        decoder.push(BODY.replace('\n', " ").as_bytes(), &mut events).expect("within limits");
        assert!(events.is_empty() && decoder.whole.is_some());
        decoder.push(b"\n", &mut events).expect("within limits");
        assert!(!events.is_empty() && decoder.whole.is_none());
        assert_eq!(decoder.framing(), Some(Framing::JsonLines));
    }
}
