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

mod decoder;
mod detection;
mod fast_path;
mod stages;

pub use decoder::{Decoder, FrameDecoder};

use detection::FrameReader;
use stages::StageChain;

use crate::accumulator::Accumulator;
use crate::arguments::ArgumentStage;
use crate::dialect::{self, DialectStage, Tools};
use crate::event::{BlockCompletion, BlockId, BlockKind, DeltaKind, Event, EventKind, FinishReason};
use crate::finalize::Finalizer;
use crate::frame_cache::FrameCache;
use crate::framing::{Framer, Framing, StreamLimits};
use crate::message::Message;
use crate::protocol::Protocol;
use crate::weave::Weave;
use crate::{Error, Result};

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
    pub fn arguments(self, arguments: ArgumentStage) -> Self {
        Self { mend: arguments, ..self }
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

    /// Makes missing ids of calls out of this seed: they differ in their first nine letters and digits, and from those of
    /// other seeds.
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
        Decoder::over(framer, self.build_for_frames())
    }

    /// A decoder of frames, for callers that have those (or decoded JSON) instead of bytes.
    pub fn build_for_frames(self) -> FrameDecoder {
        let Self { protocol, candidates, dialect, mend, id_prefix, id_seed, reads_all, .. } = self;
        let (dialect, refusal) = match dialect.transpose() {
            Ok(dialect) => (dialect, None),
            Err(refusal) => (None, Some(Box::new(refusal))),
        };
        let cache = if reads_all { FrameCache::off() } else { FrameCache::default() };
        let weave = Weave::with_tools(mend.declared().clone());
        let reader = FrameReader::new(protocol, candidates, cache, weave);
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
        let FrameDecoder { mut stages, refusal, .. } = self.build_for_frames();
        if let Some(refusal) = refusal {
            return Err(*refusal);
        }
        let (mut message, block) = (Accumulator::new(), BlockId(0));
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
            stages.push_through(Event::new(0, body), &mut message);
        }
        stages.finish(&mut message);
        Ok(message.take())
    }
}
