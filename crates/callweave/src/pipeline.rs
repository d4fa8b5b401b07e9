//! Bytes → events: framing, protocol, weave and all stages behind it, with one owner.
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

use std::ops::Range;

use memchr::memchr;

use crate::accumulator::Accumulator;
use crate::arguments::ArgumentStage;
use crate::dialect::{self, DialectStage, Tools};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, DeltaKind, Event, EventKind, EventSink, FinishReason, Notice,
    NoticeCode, Sink,
};
use crate::finalize::Finalizer;
use crate::fragment::{ExtraScope, Fragment, FragmentKind, FragmentSink};
use crate::frame_cache::{FrameTemplates, HolePieces};
use crate::framing::{Frame, FrameKind, Framer, Framing, StreamLimits, is_field};
use crate::json::{self, AsValue, CheckedText, JsonKind, Str, Tape, TapeNode as Value, repair};
use crate::message::Message;
use crate::protocol::{
    DetectionEvidence, ErrorContext, Protocol, ProtocolFrame, TABLE, report, report_body, report_text,
};
use crate::truncated::{PrecedingFrames, TruncatedFrame, TruncatedRemains};
use crate::weave::Weave;
use crate::{Error, ErrorKind, Result};

/// Finds the calls and the reasoning that a model wrote into its text, in any dialect. The arguments of the calls are
/// repaired, coerced to the schemas of the tools and checked against them: [`ToolCall::invalid`] says of each whether
/// it can be run. Without declared tools (`&Tools::default()`) there is nothing to coerce to or to check, and only
/// markup that leaves no doubt is a call.
///
/// ```
/// use callweave::{Tools, extract};
///
/// #[derive(serde::Deserialize)]
/// struct Look { at: String, times: u8 }
///
/// let tools = Tools::from_json(&serde_json::json!([{"name": "look", "parameters": {"type": "object",
///     "properties": {"at": {"type": "string"}, "times": {"type": "integer"}}, "required": ["at"]}}]));
/// let message = extract("<think>Up.</think>Sure. [look(at='sky', times='2')]", &tools);
/// assert_eq!((&*message.text(), &*message.reasoning()), ("Sure. ", "Up."));
/// let call = message.tool_calls().next().expect("a call");
/// assert!(call.invalid().is_none());
/// let Look { at, times } = call.parse()?;
/// assert_eq!((at.as_str(), times), ("sky", 2));
/// # Ok::<(), callweave::Error>(())
/// ```
///
/// [`DecoderBuilder::extract`] reads text in other ways, [`Extractor`](dialect::Extractor) reads it as it comes.
///
/// [`ToolCall::invalid`]: crate::ToolCall::invalid
pub fn extract(text: &str, tools: &Tools) -> Message {
    let builder = Decoder::builder().dialect("auto").tools(tools.clone()).repair().coerce();
    #[cfg(feature = "schema")]
    let builder = builder.validate();
    builder.extract(text).expect("any dialect is a dialect")
}

/// Decodes a complete response, streamed or not, and detects its protocol. Of several responses it is the first, with a
/// notice; [`decode_all`] has the others.
pub fn decode(bytes: &[u8]) -> Result<Message> {
    Decoder::detect().decode(bytes)
}

/// Decodes a complete response of a known protocol.
pub fn decode_as(protocol: &'static Protocol, bytes: &[u8]) -> Result<Message> {
    Decoder::new(protocol).decode(bytes)
}

/// Decodes all responses of an input: several bodies or streams, one after the other.
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Message>> {
    Decoder::detect().decode_all(bytes)
}

/// The options for reading responses, with a default for each.
///
/// ```
/// use callweave::dialect::Tools;
/// use callweave::json::Value;
/// use callweave::pipeline::Decoder;
///
/// let tools: Value = r#"[{"name": "look", "parameters": {"properties": {"times": {"type": "integer"}}}}]"#.parse()?;
/// let decoder = Decoder::builder()
///     .dialect("auto")
///     .tools(Tools::from_json(&tools))
///     .repair()
///     .coerce()
///     .build();
/// let body = r#"{"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message":
///     {"content": "<tool_call>{'name': 'look', 'arguments': {'times': '3'}}</tool_call>"}}]}"#;
/// let message = decoder.decode(body.as_bytes())?;
/// assert_eq!(message.tool_calls().next().map(|call| call.arguments()), Some(r#"{"times": 3}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DecoderBuilder {
    protocol: Option<&'static Protocol>,
    candidates: Vec<&'static Protocol>,
    framing: Option<Framing>,
    limits: StreamLimits,
    dialect: Option<Result<dialect::ExtractOptions>>,
    mend: ArgumentStage,
    id_prefix: Option<String>,
    id_seed: Option<String>,
    reads_all: bool,
}

impl DecoderBuilder {
    /// Sets the protocol of the responses. Else it is detected from the first frames.
    pub fn protocol(self, protocol: &'static Protocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// Restricts the protocols of the responses to these. An error that none of them claims is reported all the same.
    pub fn among(self, candidates: impl Into<Vec<&'static Protocol>>) -> Self {
        Self { candidates: candidates.into(), ..self }
    }

    /// Sets the framing of the bytes. Else it is detected from the first of them.
    pub fn framing(self, framing: Framing) -> Self {
        Self { framing: Some(framing), ..self }
    }

    /// Sets the limits of held input.
    pub fn limits(self, limits: StreamLimits) -> Self {
        Self { limits, ..self }
    }

    /// Reads calls and reasoning that the model writes into its text, in the dialect of that name (`"auto"`: any of
    /// them) or as [`ExtractOptions`](dialect::ExtractOptions) say. An unknown dialect name is an error of the first
    /// [`push`](Decoder::push).
    pub fn dialect<D>(self, dialect: D) -> Self
    where
        D: TryInto<dialect::ExtractOptions>,
        Error: From<D::Error>,
    {
        Self { dialect: Some(dialect.try_into().map_err(Error::from)), ..self }
    }

    /// Sets the argument stage; it replaces earlier settings of that stage.
    pub fn mend(self, mend: ArgumentStage) -> Self {
        Self { mend, ..self }
    }

    /// Declares the tools that the model was given. A call of one of them begins as soon as its name has come, unless
    /// that begins another declared name, too; a call of any other is reported in a notice.
    pub fn tools(self, tools: Tools) -> Self {
        Self { mend: self.mend.tools(tools), ..self }
    }

    /// Repairs arguments that are not quite JSON; each change is reported in a notice. Strict JSON flows as it comes;
    /// text behind an oddity comes at the end of its call.
    pub fn repair(self) -> Self {
        Self { mend: self.mend.repair(), ..self }
    }

    /// Coerces arguments to the schemas of the [tools](DecoderBuilder::tools) (`"5"` becomes 5 where a number is
    /// wanted), and names to the declared ones; each change is reported in a notice. A value that its schema cannot
    /// change flows as it comes, any other comes at its own end: see
    /// [`StreamCoercer`](crate::json::schema::StreamCoercer).
    pub fn coerce(self) -> Self {
        Self { mend: self.mend.coerce(), ..self }
    }

    /// Reports arguments that do not fit the schemas of the [tools](DecoderBuilder::tools) in a notice.
    #[cfg(feature = "schema")]
    pub fn validate(self) -> Self {
        Self { mend: self.mend.validate(), ..self }
    }

    /// The maximum number of steps that the schema of a tool may take for one call: see [`ArgumentStage::budget`].
    pub fn budget(self, steps: u64) -> Self {
        Self { mend: self.mend.budget(steps), ..self }
    }

    /// The prefix of ids that are made for calls without one; else `tool`. With a prefix of its own for each response,
    /// ids never repeat in a conversation.
    pub fn id_prefix(self, prefix: impl Into<String>) -> Self {
        Self { id_prefix: Some(prefix.into()), ..self }
    }

    /// Makes missing ids of calls out of this seed: see [`Finalizer::with_seed`].
    pub fn id_seed(self, seed: impl Into<String>) -> Self {
        Self { id_seed: Some(seed.into()), ..self }
    }

    /// Reads every frame in full, even one that differs from earlier ones only in its texts: for comparison, since the
    /// events are the same and it takes longer.
    #[doc(hidden)]
    pub fn read_all(self) -> Self {
        Self { reads_all: true, ..self }
    }

    /// A decoder of bytes.
    pub fn build(self) -> Decoder {
        let framer = match self.framing {
            Some(framing) => Framer::new(framing, self.limits),
            None => Framer::detect(self.limits),
        };
        Decoder { framer, frames: self.build_for_frames(), whole: None }
    }

    /// A decoder of frames, for callers that have those (or decoded JSON) instead of bytes.
    pub fn build_for_frames(self) -> FrameDecoder {
        let Self { protocol, candidates, dialect, mend, id_prefix, id_seed, reads_all, .. } = self;
        let (dialect, refusal) = match dialect.transpose() {
            Ok(dialect) => (dialect, None),
            Err(refusal) => (None, Some(Box::new(refusal))),
        };
        let is_named = protocol.is_some();
        let weave = Weave::with_tools(mend.declared().clone());
        let reader =
            FrameReader { protocol, candidates, is_named, reads_all, weave, ..FrameReader::default() };
        let dialect = dialect.map(|dialect| match mend.declared() {
            tools if tools.is_empty() => dialect,
            tools => dialect.tools(tools.clone()),
        });
        let stages = StageChain {
            extract: dialect.as_ref().map(|dialect| Box::new(DialectStage::new(dialect))),
            mend: (!mend.is_idle()).then(|| Box::new(mend)),
            close: match id_seed {
                Some(seed) => Finalizer::with_seed(seed),
                None => id_prefix.map_or_else(Finalizer::new, Finalizer::with_prefix),
            },
        };
        FrameDecoder { reader, stages, refusal }
    }

    /// Reads a text that a model wrote, with the options of this builder. [`extract`] has the options that most callers
    /// want. Fails if no dialect has the given name.
    pub fn extract(self, text: &str) -> Result<Message> {
        let mut message = Accumulator::new();
        self.extract_to(text, &mut message)?;
        Ok(message.take())
    }

    /// The same, as events. Returns the dialect in which something was found; see [`Decoder::dialect`].
    pub fn extract_to(self, text: &str, sink: &mut EventSink<'_>) -> Result<Option<String>> {
        let FrameDecoder { mut stages, refusal, .. } = self.build_for_frames();
        if let Some(refusal) = refusal {
            return Err(*refusal);
        }
        let block = BlockId(0);
        let written = [
            EventKind::Start { id: None, model: None, wire_type: "".into(), extra: None },
            EventKind::ChoiceStart,
            EventKind::block_start(block, BlockKind::Text),
            EventKind::Delta { block, kind: DeltaKind::Text, text: text.into() },
            EventKind::BlockEnd { block, completion: BlockCompletion::Complete },
            EventKind::Finish { reason: FinishReason::Stop, raw: None },
            EventKind::End,
        ];
        for body in written {
            stages.push_through(Event::new(0, body), sink);
        }
        stages.finish(sink);
        Ok(stages.extract.as_deref().and_then(DialectStage::dialect).map(str::to_owned))
    }
}

/// Bytes of a response, cut anywhere → events.
pub struct Decoder {
    framer: Framer,
    frames: FrameDecoder,
    /// The complete input so far, if it is one JSON object in one line: whether the line has ended is not known yet.
    whole: Option<Box<CheckedText>>,
}

impl Decoder {
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

    /// The number of frames that were not read in full, because their shape was known.
    #[doc(hidden)]
    pub fn known_frames(&self) -> u64 {
        self.frames.reader.known_frames
    }

    /// The dialect in which something was found. See [`Extractor::dialect`](dialect::Extractor::dialect).
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

    /// Takes the next bytes as the framing cuts them.
    fn push_frames(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) -> Result<()> {
        let Self { framer, frames, .. } = self;
        let mut rest = &bytes[frames.push_known(bytes, framer, sink)..];
        while !rest.is_empty() {
            // The framing may stop inside a frame.
            frames.reader.shapes.pause();
            let began = framer.between_frames();
            let mut brought = FramedInput::Nothing;
            let taken = framer.push_some(rest, &mut |frame: Frame<'_>| {
                frames.push(&frame, sink);
                brought.take(&frame, rest, frames.reader.shapes.have_brought());
            })?;
            if let (Some(began), Some(_), FramedInput::One { data, offset }) =
                (began, framer.between_frames(), brought)
            {
                frames.reader.shapes.place(&rest[..taken], data, offset - began);
            }
            rest = &rest[taken..];
            rest = &rest[frames.push_known(rest, framer, sink)..];
        }
        Ok(())
    }

    /// Signals that no bytes will come any more.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        if let Some(whole) = self.whole.take() {
            let length = whole.text().len();
            whole.read(|value| self.take_complete(length, value, sink));
        }
        let Self { framer, frames, .. } = self;
        frames.reader.shapes.pause();
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

/// The frames that the framing found in some bytes.
enum FramedInput {
    Nothing,
    /// A frame whose data stand in the bytes as they are, in that range.
    One {
        data: Range<usize>,
        offset: u64,
    },
    /// Frames, or one whose shape is not known or whose data do not stand in the bytes as they are.
    Other,
}

impl FramedInput {
    /// Takes a frame of the framing. Its position is of use only if its shape is known.
    #[inline]
    fn take(&mut self, frame: &Frame<'_>, bytes: &[u8], is_known: bool) {
        if !is_known {
            *self = Self::Other;
            return;
        }
        let data = frame.data.trim_ascii();
        let start = (data.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
        *self = match self {
            // A replacement of bytes around the data is reported each time.
            Self::Nothing if !frame.is_lossy && start.saturating_add(data.len()) <= bytes.len() => {
                Self::One { data: start..start + data.len(), offset: frame.offset }
            }
            _ => Self::Other,
        };
    }
}

/// Frames → events: for callers that have frames (or decoded JSON) instead of bytes.
///
/// Frames before the response that may come from others (keep-alives, status lines, text) are held until a frame
/// identifies the protocol beyond doubt; a frame that may turn out to be an error or the truncated end of the input is
/// held, too. If no such frame comes, the best guess counts.
pub struct FrameDecoder {
    reader: FrameReader,
    stages: StageChain,
    /// The reason why nothing can be decoded as it was asked for.
    refusal: Option<Box<Error>>,
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

    /// The dialect in which something was found. See [`Extractor::dialect`](dialect::Extractor::dialect).
    pub fn dialect(&self) -> Option<&str> {
        self.stages.extract.as_deref().and_then(DialectStage::dialect)
    }

    /// Takes the frames that these bytes begin with, as long as they continue the run of frames before; returns the
    /// number of bytes taken. It is inlined into its caller: for most reads there is nothing else to do.
    #[inline(always)]
    fn run_on(&mut self, bytes: &[u8], framer: &mut Framer, sink: &mut EventSink<'_>) -> usize {
        let Self { reader, stages, .. } = self;
        if !reader.shapes.is_running() || !stages.are_idle() {
            return 0;
        }
        let (most, left) = framer.room();
        let bytes = &bytes[..bytes.len().min(left)];
        let taken = reader.run(bytes, framer.offset(), most, sink);
        framer.skip(taken);
        taken
    }

    /// Takes the frames that these bytes begin with, as long as their shapes are known; returns the number of bytes
    /// taken.
    #[inline]
    fn push_known(&mut self, bytes: &[u8], framer: &mut Framer, sink: &mut EventSink<'_>) -> usize {
        // Short responses have none.
        if self.reader.shapes.is_empty() { 0 } else { self.push_such(bytes, framer, sink) }
    }

    #[inline(never)]
    fn push_such(&mut self, bytes: &[u8], framer: &mut Framer, sink: &mut EventSink<'_>) -> usize {
        let Self { reader, stages, .. } = self;
        // In a run, none of the conditions checked here has changed.
        let is_known = reader.shapes.is_running()
            || reader.is_steady() && framer.between_frames().is_some() && reader.shapes.may_begin(bytes);
        if !is_known {
            return 0;
        }
        debug_assert_eq!(framer.between_frames(), Some(framer.offset()));
        let taken = reader.push_known(bytes, framer.offset(), framer.room(), stages, sink);
        framer.skip(taken);
        taken
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

/// The stages between the weave and the caller: the extractor (text → calls), the argument stage (calls → repaired
/// calls) and the finalizer. Many streams are open at the same time, and most need neither of the first two.
struct StageChain {
    extract: Option<Box<DialectStage>>,
    mend: Option<Box<ArgumentStage>>,
    close: Finalizer,
}

impl StageChain {
    /// Whether there is neither an extractor nor an argument stage.
    fn are_idle(&self) -> bool {
        self.extract.is_none() && self.mend.is_none()
    }

    fn push_through(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        let Self { extract, mend, close } = self;
        let mut close = |event: Event<'_>| close.push(event, sink);
        let mut mend = |event: Event<'_>| match mend {
            Some(mend) => mend.push(event, &mut close),
            None => close(event),
        };
        match extract {
            Some(extract) => extract.push(event, &mut mend),
            None => mend(event),
        }
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) {
        let Self { extract, mend, close } = self;
        let mut close = |event: Event<'_>| close.push(event, sink);
        if let Some(extract) = extract {
            extract.finish(&mut |event: Event<'_>| match mend {
                Some(mend) => mend.push(event, &mut close),
                None => close(event),
            });
        }
        if let Some(mend) = mend {
            mend.finish(&mut close);
        }
    }
}

/// A sink that passes events through the stages. It is no closure, because closures copy their arguments.
struct StagedSink<'p, 's> {
    stages: &'p mut StageChain,
    sink: &'p mut EventSink<'s>,
}

impl<'e> Sink<Event<'e>> for StagedSink<'_, '_> {
    fn put(&mut self, mut event: Event<'e>) {
        if !self.stages.are_idle() {
            return self.stages.push_through(event, self.sink);
        }
        self.stages.close.look_at(&mut event);
        self.sink.put(event);
    }
}

/// Frames → the events that the weave makes of them.
#[derive(Default)]
struct FrameReader {
    protocol: Option<&'static Protocol>,
    /// The possible protocols; any, where none is named.
    candidates: Vec<&'static Protocol>,
    weave: Weave,
    /// Frames whose meaning depends on later ones.
    held: Vec<HeldFrame>,
    held_bytes: usize,
    /// The number of frames that there was no room to hold.
    left_out: u64,
    frames: u64,
    /// Whether some frame was JSON.
    has_json: bool,
    /// Whether some frame was damaged.
    has_damage: bool,
    /// Whether the caller named the protocol.
    is_named: bool,
    /// Whether some frame was the protocol's beyond doubt.
    is_confirmed: bool,
    /// The protocol that frames outside the known one seem to be in.
    resembles: Option<&'static Protocol>,
    shapes: FrameTemplates,
    known_frames: u64,
    /// Whether frames are read in full even if their shape is known.
    reads_all: bool,
}

struct HeldFrame {
    event: Option<String>,
    data: String,
    offset: u64,
    meaning: HeldMeaning,
}

impl HeldFrame {
    fn input<'h>(&'h self, value: Value<'h>) -> ProtocolFrame<'h> {
        ProtocolFrame { event: self.event.as_deref(), value }
    }
}

/// The possible meanings of a held frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldMeaning {
    /// JSON without certain meaning, and the protocol that claims it.
    Json(Option<&'static Protocol>),
    /// JSON with a text in it: an error, unless a response follows. The protocol that claims it.
    Words(Option<&'static Protocol>),
    /// No JSON: damage, an error, or the truncated end of the input.
    Text,
    /// The end marker.
    Done,
}

/// The input that follows the held frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterHeld {
    Answer,
    Nothing,
}

/// The maximum number of frames, and below of their bytes, that are held before a response. The first frame always is.
const MAX_HELD: usize = 64;
const MAX_HELD_BYTES: usize = 1 << 20;

impl FrameReader {
    fn push(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        self.frames += 1;
        if frame.is_lossy {
            let detail = "bytes that are not UTF-8 were replaced";
            let notice = Notice::new(NoticeCode::InvalidUtf8, frame.offset, detail);
            sink.put(Event::new(0, EventKind::Notice(notice)));
        }
        let data = frame.data.trim_ascii();
        if data.is_empty() {
            return;
        }
        let may_be_known = frame.kind == FrameKind::Data && self.is_steady();
        if may_be_known && self.push_brought(frame, data.as_bytes(), sink) {
            return;
        }
        self.shapes.interrupt();
        if frame.kind == FrameKind::Error {
            return self.fail(frame, sink);
        }
        if data == "[DONE]" {
            match self.held.is_empty() {
                true => self.end_response(frame.offset, sink),
                false => self.hold(frame, data, HeldMeaning::Done, sink),
            }
            return;
        }
        if frame.kind == FrameKind::Stray {
            // The response itself is complete.
            if !self.weave.is_over() {
                self.hold(frame, data, HeldMeaning::Text, sink);
            }
            return;
        }
        if !self.push_json(frame, data, sink) {
            self.push_text(frame, data, sink);
        }
    }

    /// Takes a frame that the framing brought, if its shape is known.
    fn push_brought(&mut self, frame: &Frame<'_>, data: &[u8], sink: &mut EventSink<'_>) -> bool {
        if !self.shapes.may_be(frame.event, data) {
            return false;
        }
        let mut pieces = HolePieces::default();
        let Some(known) = self.shapes.find(frame.event, data, &mut pieces) else { return false };
        self.known_frames += 1;
        let number = known.number;
        known.push_to(&mut self.weave, frame.offset, sink);
        self.shapes.follow_brought(number, data, &pieces);
        true
    }

    /// Takes a value without framing as the next frame; its position is the number of frames before it.
    fn push_complete(&mut self, value: Value<'_>, sink: &mut EventSink<'_>) {
        let (data, kind, offset) = (value.raw(), FrameKind::Data, self.frames);
        self.frames += 1;
        let frame = Frame { event: None, data, id: None, offset, kind, is_lossy: false };
        self.push_value_of(&frame, data, value, sink);
    }

    /// Whether a frame of a known shape needs no other treatment: nothing is held, and the response goes on.
    fn is_steady(&self) -> bool {
        !self.shapes.is_empty() && self.held.is_empty() && !self.weave.is_over()
    }

    /// Takes the frames that these bytes begin with, as long as their shapes are known and there is room for each and
    /// for all of them; returns the number of bytes taken. To be called only where the reader is
    /// [steady](FrameReader::is_steady).
    fn push_known(
        &mut self,
        bytes: &[u8],
        mut offset: u64,
        (most, left): (usize, usize),
        stages: &mut StageChain,
        sink: &mut EventSink<'_>,
    ) -> usize {
        let mut rest = &bytes[..bytes.len().min(left)];
        let room = rest.len();
        loop {
            // Deltas of a block concern no stage but the extractor and the argument stage.
            let taken = match stages.are_idle() {
                true => self.run(rest, offset, most, sink),
                false => self.run(rest, offset, most, &mut StagedSink { stages, sink }),
            };
            (offset, rest) = (offset + taken as u64, &rest[taken..]);
            if rest.is_empty() {
                break;
            }
            let mut pieces = HolePieces::default();
            let Some(known) = self.shapes.find_at(rest, &mut pieces).filter(|known| known.length() <= most)
            else {
                break;
            };
            let (number, length) = (known.number, known.length());
            let mut sink = StagedSink { stages, sink };
            known.push_to(&mut self.weave, known.offset(offset), &mut sink);
            self.shapes.follow(number, &rest[..length], &pieces);
            self.frames += 1;
            self.known_frames += 1;
            (offset, rest) = (offset + length as u64, &rest[length..]);
            if !self.is_steady() {
                break;
            }
        }
        room - rest.len()
    }

    /// Takes the frames that these bytes begin with, as long as they continue the content of the one before; returns
    /// the number of bytes taken.
    #[inline(always)]
    fn run(&mut self, bytes: &[u8], offset: u64, most: usize, sink: &mut EventSink<'_>) -> usize {
        let (frames, taken) = self.shapes.run(bytes, offset, most, &mut self.weave, sink);
        self.frames += frames;
        self.known_frames += frames;
        taken
    }

    /// Takes the JSON of a frame; returns false if it is not JSON.
    fn push_json(&mut self, frame: &Frame<'_>, data: &str, sink: &mut EventSink<'_>) -> bool {
        json::with_spare_tape(|tape| {
            let value = tape.parse(data);
            value.map(|value| self.push_value_of(frame, data, value, sink)).is_ok()
        })
    }

    fn push_value_of(&mut self, frame: &Frame<'_>, data: &str, value: Value<'_>, sink: &mut EventSink<'_>) {
        // Protocols know keys in their usual spelling.
        if let Some(plain) = value.with_plain_keys() {
            self.push_json(frame, &plain, sink);
            return;
        }
        self.has_json = true;
        let input = ProtocolFrame { event: frame.event, value };
        let has_words = has_words(&input);
        if let Some(next) = self.successor(&input) {
            self.release(AfterHeld::Answer, sink);
            self.weave.begin_anew(sink);
            self.shapes.clear();
            self.protocol = Some(next);
            return self.decode(next, &input, frame.offset, sink);
        }
        let is_plain = self.held.is_empty() && !has_words;
        if let Some(known) = self.protocol.filter(|_| is_plain && self.is_confirmed) {
            return self.decode_and_learn(known, &input, data, frame.offset, sink);
        }
        match (self.claim(&input), self.protocol) {
            (Some((DetectionEvidence::Strong, found)), _) => {
                self.protocol = Some(found);
                self.is_confirmed = true;
                self.shapes.clear();
                self.release(AfterHeld::Answer, sink);
                self.decode(found, &input, frame.offset, sink);
            }
            (claim, known) => {
                let claimant = known.or(claim.map(|(_, claimant)| claimant));
                let meaning =
                    if has_words { HeldMeaning::Words(claimant) } else { HeldMeaning::Json(claimant) };
                self.hold(frame, data, meaning, sink);
            }
        }
    }

    /// The protocol of the next response, if the one before is over and the caller did not name its protocol: a
    /// recording may hold responses of several.
    fn successor(&self, input: &ProtocolFrame<'_>) -> Option<&'static Protocol> {
        let known = self.protocol.filter(|_| self.is_confirmed && !self.is_named && self.weave.is_over())?;
        if (known.recognise)(input) == Some(DetectionEvidence::Strong) {
            return None;
        }
        let candidates = if self.candidates.is_empty() { TABLE } else { &self.candidates };
        match Protocol::weigh(candidates, input) {
            Some((DetectionEvidence::Strong, next)) => Some(next),
            _ => None,
        }
    }

    /// The protocol that the frame belongs to: the known one, or one of the candidates.
    fn claim(&mut self, input: &ProtocolFrame<'_>) -> Option<(DetectionEvidence, &'static Protocol)> {
        let Some(known) = self.protocol else {
            let candidates = if self.candidates.is_empty() { TABLE } else { &self.candidates };
            return Protocol::weigh(candidates, input);
        };
        let claim = (known.recognise)(input).map(|evidence| (evidence, known));
        if claim.is_none() && !self.is_confirmed && self.frames <= MAX_HELD as u64 {
            let found = Protocol::weigh(TABLE, input);
            self.resembles = self.resembles.or(found.map(|(_, protocol)| protocol));
        }
        claim
    }

    fn decode(
        &mut self,
        protocol: &Protocol,
        input: &ProtocolFrame<'_>,
        offset: u64,
        sink: &mut EventSink<'_>,
    ) {
        self.weave.push_frame(offset, |fragments| protocol.decode(input, fragments), sink);
    }

    /// Reads a frame, and learns its shape where that may be of use: frames after the end are read in full each time.
    fn decode_and_learn(
        &mut self,
        protocol: &Protocol,
        input: &ProtocolFrame<'_>,
        data: &str,
        offset: u64,
        sink: &mut EventSink<'_>,
    ) {
        if self.reads_all || self.weave.is_over() {
            return self.decode(protocol, input, offset, sink);
        }
        if !self.shapes.may_learn(input.value.size()) {
            self.weave.push(offset, |fragments| protocol.decode(input, fragments), sink);
            return self.shapes.pass(input.value.size(), data.len());
        }
        let mut recorder = self.shapes.recorder(input, data);
        let read = |fragments: &mut FragmentSink<'_>| match &mut recorder {
            Some(recorder) => protocol.decode(input, &mut |fragment: Fragment<'_>| {
                recorder.put(fragment);
                fragments.put(fragment);
            }),
            None => protocol.decode(input, fragments),
        };
        self.weave.push(offset, read, sink);
        self.shapes.learn(input, data, recorder);
    }

    fn end_response(&mut self, offset: u64, sink: &mut EventSink<'_>) {
        self.weave.push(offset, |fragments| fragments.put(Fragment::new(FragmentKind::Done)), sink);
    }

    /// Takes the next frame as decoded JSON.
    fn push_value(&mut self, value: &json::Value, sink: &mut EventSink<'_>) {
        json::with_spare_tape(|tape| match tape.lay_out(value) {
            Ok(value) => self.push_complete(value, sink),
            Err(_) => self.frames += 1,
        });
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        if self.frames == 0 {
            return Err(Error::new(ErrorKind::Unknown, "the input is empty"));
        }
        self.untear(sink);
        let named = self.protocol.filter(|_| !self.is_confirmed);
        let claimed = self.held.iter().find_map(|held| match held.meaning {
            HeldMeaning::Json(claimant) | HeldMeaning::Words(claimant) => claimant,
            HeldMeaning::Text | HeldMeaning::Done => None,
        });
        self.protocol = self.protocol.or(claimed);
        if self.protocol.is_none() && self.is_unknown() {
            let what = "the protocol cannot be told from the input";
            return Err(Error::new(ErrorKind::Unknown, what));
        }
        let words = self.last_words();
        self.release(AfterHeld::Nothing, sink);
        self.interrupt(&words, sink);
        let is_empty = self.weave.is_empty();
        self.weave.finish(sink);
        match named.filter(|_| is_empty && self.has_json) {
            Some(named) => Err(self.not_of(named)),
            None => Ok(()),
        }
    }

    /// Takes the text that ends an input of JSON: a proxy's error page or sentence.
    fn last_words(&mut self) -> Vec<HeldFrame> {
        let is_words = |held: &HeldFrame| {
            let data = held.data.trim_ascii_start();
            held.meaning == HeldMeaning::Text && !data.starts_with(['{', '[']) && !is_field(data.as_bytes())
        };
        let count = self.held.iter().rev().take_while(|held| is_words(held)).count();
        // Where text came between frames before, the last text is damage, too.
        let count = if self.has_json && !self.has_damage { count } else { 0 };
        self.held.split_off(self.held.len() - count)
    }

    /// Handles a text by which something other than the provider ended the input: it is an error of an unfinished
    /// response, and damage after a finished one.
    fn interrupt(&mut self, words: &[HeldFrame], sink: &mut EventSink<'_>) {
        let Some(first) = words.first() else { return };
        if self.weave.is_over() {
            for HeldFrame { data, offset, .. } in words {
                self.weave.push(*offset, |fragments| fragments.put(damage(data)), sink);
            }
            return;
        }
        let lines: Vec<_> = words.iter().map(|held| held.data.as_str()).collect();
        let (text, context) = (lines.join("\n"), ErrorContext::default());
        self.weave.push_frame(first.offset, |fragments| report_text(&text, context, fragments), sink);
    }

    /// Whether there is JSON that no protocol claims and that reports no error either.
    fn is_unknown(&self) -> bool {
        let mut tape = Tape::new();
        let has_error = |value: Value<'_>| report_body(value, &mut |_: Fragment<'_>| {});
        let mut is_nobodys = |held: &HeldFrame| {
            held.meaning == HeldMeaning::Json(None) && !tape.parse(&held.data).is_ok_and(has_error)
        };
        (self.has_json && self.left_out > 0) || self.held.iter().any(&mut is_nobodys)
    }

    fn not_of(&self, named: &Protocol) -> Error {
        let mut what = format!("nothing in the input is {}", named.name);
        if let Some(other) = self.resembles {
            what.push_str(&format!("; it looks like {}", other.name));
        }
        Error::new(ErrorKind::Unknown, what)
    }

    /// Keeps a frame until its meaning is clear.
    fn hold(&mut self, frame: &Frame<'_>, data: &str, meaning: HeldMeaning, sink: &mut EventSink<'_>) {
        let is_full = self.held.len() >= MAX_HELD || self.held_bytes + data.len() > MAX_HELD_BYTES;
        if is_full && !self.held.is_empty() {
            if self.protocol.is_none() {
                // Repeated frames, such as keep-alives, do not count as left out.
                let is_repeat = |held: &HeldFrame| held.data == data && held.event.as_deref() == frame.event;
                self.left_out += u64::from(!self.held.iter().any(is_repeat));
                return;
            }
            self.release(AfterHeld::Nothing, sink);
        }
        self.held_bytes += data.len();
        let (event, data) = (frame.event.map(Into::into), data.to_owned());
        self.held.push(HeldFrame { event, data, offset: frame.offset, meaning });
    }

    /// Reads the held frames, now that it is clear what follows.
    fn release(&mut self, then: AfterHeld, sink: &mut EventSink<'_>) {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let mut tape = Tape::new();
        // A frame before a response is no error, unless an end comes between.
        let mut is_followed = then == AfterHeld::Answer;
        let mut followed: Vec<_> = held
            .iter()
            .rev()
            .map(|held| {
                match held.meaning {
                    HeldMeaning::Done => is_followed = false,
                    HeldMeaning::Json(Some(claimant)) if !is_followed => {
                        let tells = |value| tells(claimant, &held.input(value), is_content);
                        is_followed = tape.parse(&held.data).is_ok_and(tells);
                    }
                    HeldMeaning::Json(_) | HeldMeaning::Words(_) | HeldMeaning::Text => {}
                }
                is_followed
            })
            .collect();
        followed.reverse();
        for (at, (held, is_followed)) in held.iter().zip(followed).enumerate() {
            let HeldFrame { data, offset, meaning, .. } = held;
            let input = tape.parse(data).ok().map(|value| held.input(value));
            match (*meaning, input) {
                (HeldMeaning::Done, _) => self.end_response(*offset, sink),
                (HeldMeaning::Json(_) | HeldMeaning::Words(_), Some(input))
                    if is_followed && self.is_extra(*meaning, &input) =>
                {
                    self.weave.push(*offset, |fragments| pass_on(input.value, fragments), sink);
                }
                (HeldMeaning::Json(claimant) | HeldMeaning::Words(claimant), Some(input)) => {
                    let confirmed = self.protocol.filter(|_| self.is_confirmed);
                    let protocol = confirmed.or(claimant).or(self.protocol);
                    let has_words = matches!(meaning, HeldMeaning::Words(_));
                    let read = |fragments: &mut FragmentSink<'_>| {
                        read_doubtful(protocol, &input, has_words, fragments);
                    };
                    self.weave.push_frame(*offset, read, sink);
                }
                (_, _) if !is_followed && at == 0 && !self.has_json => {
                    self.weave.push_frame(
                        *offset,
                        |fragments| report_text(data, ErrorContext::default(), fragments),
                        sink,
                    );
                }
                (_, _) => {
                    self.has_damage = true;
                    self.weave.push(*offset, |fragments| fragments.put(damage(data)), sink);
                }
            }
        }
        if self.left_out > 0 {
            let detail =
                format!("frames before the answer were left out: {}", std::mem::take(&mut self.left_out));
            sink.put(Event::new(0, EventKind::Notice(Notice::new(NoticeCode::Other, 0, detail))));
        }
    }

    /// Whether a frame before the response is not of its protocol.
    fn is_extra(&self, meaning: HeldMeaning, input: &ProtocolFrame<'_>) -> bool {
        let is_of = |protocol: &Protocol| (protocol.recognise)(input).is_some();
        matches!(meaning, HeldMeaning::Words(_))
            || !self.protocol.filter(|_| self.is_confirmed).is_none_or(is_of)
    }

    /// Handles a frame that the framing itself marks as an error.
    fn fail(&mut self, frame: &Frame<'_>, sink: &mut EventSink<'_>) {
        let words = self.protocol.map_or(&[][..], |protocol| protocol.errors);
        let context = ErrorContext { words, code: frame.event.map(Str::Plain), ..ErrorContext::default() };
        self.weave.push_frame(frame.offset, |fragments| report_text(frame.data, context, fragments), sink);
    }

    /// Handles a frame that is not JSON. Where only the notation is wrong (`NaN`, a comma too many) it is read all the
    /// same. Else it is damage if a response came before or comes after, the truncated end of the input if nothing
    /// comes after, and a plain-text error if there is nothing else.
    fn push_text(&mut self, frame: &Frame<'_>, data: &str, sink: &mut EventSink<'_>) {
        let mut mended = lossless().repair(data);
        let with_text = damaged_escape(&mended.verdict).map(|at| with_escapes_as_text(data, at));
        if let Some(text) = &with_text {
            mended = lossless().repair(text);
        }
        let is_read =
            matches!(mended.verdict, repair::RepairVerdict::Valid | repair::RepairVerdict::Repaired);
        if is_read && mended.text.starts_with('{') {
            let (code, detail) = match with_text {
                None => (NoticeCode::Repaired, "a frame is not quite JSON"),
                Some(_) => {
                    (NoticeCode::MalformedFrame, "an escape in a frame is damaged and was read as text")
                }
            };
            sink.put(Event::new(0, EventKind::Notice(Notice::new(code, frame.offset, detail))));
            if self.push_json(frame, &mended.text, sink) {
                return;
            }
        }
        self.hold(frame, frame.data, HeldMeaning::Text, sink);
    }

    /// Reads the available part of a last frame that the end of the input truncated.
    fn untear(&mut self, sink: &mut EventSink<'_>) {
        let Some(HeldFrame { event, data, offset, .. }) =
            self.held.pop_if(|held| held.meaning == HeldMeaning::Text)
        else {
            return;
        };
        let torn = TruncatedFrame::of(data.trim_ascii());
        let mut tape = Tape::new();
        if let Some(torn) = &torn
            && let Ok(value) = tape.parse(&torn.text)
        {
            let input = ProtocolFrame { event: event.as_deref(), value };
            let claim = self.claim(&input);
            let is_certain = claim.is_some_and(|(evidence, _)| evidence == DetectionEvidence::Strong);
            if let Some(protocol) = self.protocol.or(claim.map(|(_, claimant)| claimant)) {
                self.protocol = Some(protocol);
                self.has_json = true;
                self.is_confirmed |= is_certain;
                self.release(if is_certain { AfterHeld::Answer } else { AfterHeld::Nothing }, sink);
                let came =
                    if self.weave.is_empty() { PrecedingFrames::Nothing } else { PrecedingFrames::Something };
                let decode = |fragments: &mut FragmentSink<'_>| {
                    let mut remains = TruncatedRemains::new(torn, protocol, came, fragments);
                    protocol.decode(&input, &mut remains);
                    remains.finish();
                };
                return self.weave.push_frame(offset, decode, sink);
            }
        }
        self.held.push(HeldFrame { event, data, offset, meaning: HeldMeaning::Text });
    }
}

/// Repairs that keep the meaning of a frame.
fn lossless() -> repair::RepairOptions {
    repair::RepairOptions::new().allow(repair::ChangeClass::Lossless).without_prose()
}

/// The position of a damaged `\u` escape.
fn damaged_escape(verdict: &repair::RepairVerdict) -> Option<usize> {
    match verdict {
        repair::RepairVerdict::Hopeless { why: repair::HopelessReason::DamagedEscape, at } => Some(*at),
        _ => None,
    }
}

/// The maximum number of damaged escapes that are looked for in a frame.
const MAX_DAMAGED_ESCAPES: usize = 16;

/// The frame with its damaged escapes, the first of them at `first`, as the letters that stand there: the intended
/// characters are unknown, but all the rest is readable.
fn with_escapes_as_text(data: &str, first: usize) -> String {
    let mut text = data.to_owned();
    let mut damaged = Some(first);
    for _ in 0..MAX_DAMAGED_ESCAPES {
        let Some(at) = damaged else { break };
        text.insert(at, '\\');
        damaged = damaged_escape(&lossless().repair(&text).verdict);
    }
    text
}

/// Whether the frame has only a text that may be an error's: it is one only if no response follows.
fn has_words(input: &ProtocolFrame<'_>) -> bool {
    if !input.value.has_any(["message", "detail"]) {
        return false;
    }
    let is_error = |text: Str<'_>| text.is("error");
    let mut has_words = false;
    for (key, value) in input.value.members() {
        match key {
            "message" if value.kind() == JsonKind::String => has_words = true,
            "detail" => has_words = true,
            "error" | "errors" | "choices" | "method" => return false,
            "type" | "object" if value.str().is_some_and(is_error) => return false,
            _ => {}
        }
    }
    has_words && input.event != Some("error")
}

/// Whether that protocol finds such a fragment in the frame.
fn tells(protocol: &Protocol, input: &ProtocolFrame<'_>, is_such: fn(&FragmentKind<'_>) -> bool) -> bool {
    let mut is_told = false;
    protocol.decode(input, &mut |fragment: Fragment<'_>| is_told |= is_such(&fragment.part));
    is_told
}

fn is_content(part: &FragmentKind<'_>) -> bool {
    matches!(
        part,
        FragmentKind::Open { .. }
            | FragmentKind::Text { .. }
            | FragmentKind::Restate { .. }
            | FragmentKind::Call { .. }
    )
}

/// Reads a frame by its protocol if that finds anything in it (in a mere text: an error), else as an error that no
/// protocol knows.
fn read_doubtful(
    protocol: Option<&Protocol>,
    input: &ProtocolFrame<'_>,
    has_words: bool,
    fragments: &mut FragmentSink<'_>,
) {
    let is_such: fn(&FragmentKind<'_>) -> bool = match has_words {
        true => |part| matches!(part, FragmentKind::Error(_)),
        false => |part| {
            !matches!(part, FragmentKind::Start { .. } | FragmentKind::Choice | FragmentKind::Extra { .. })
        },
    };
    match protocol {
        Some(protocol) if tells(protocol, input, is_such) => protocol.decode(input, fragments),
        _ if report_body(input.value, fragments) => {}
        _ if has_words => {
            report(input.value, ErrorContext::default(), fragments);
        }
        Some(protocol) => protocol.decode(input, fragments),
        None => {}
    }
}

/// Passes on a frame before the response that says nothing of it.
fn pass_on(value: Value<'_>, fragments: &mut FragmentSink<'_>) {
    for (key, value) in value.members() {
        fragments.put(Fragment::new(FragmentKind::Extra {
            level: ExtraScope::Response,
            path: "",
            key,
            value: value.raw(),
        }));
    }
}

fn damage(text: &str) -> Fragment<'_> {
    let detail = "a frame is not JSON";
    Fragment::new(FragmentKind::Notice { code: NoticeCode::MalformedFrame, detail, text: Some(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
