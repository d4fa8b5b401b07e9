//! The result of a response while it comes.

use std::collections::VecDeque;
use std::fmt::{self, Display};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::provider::AgentProvider;
use super::{PromptAgent, ResponseFacts, call_of, serialize_members, trace, unexpected};
use crate::accumulator::Accumulator;
use crate::event::{DeltaKind, Event, EventKind, EventSink, Notice, NoticeCode, Sink};
use crate::json::{AsValue, Value};
use crate::message::{BlockContent, Message, ToolCall};
use crate::pipeline::{Decoder, FrameDecoder};
use crate::protocol::Protocol;
use crate::{Error, ErrorKind, Result};

/// The items of a stream of decoded JSON values, each one chunk of the provider's.
///
/// Text comes at once, calls when the source has ended. See [`ProcessStream`].
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, StreamItem, process_stream};
/// use serde_json::json;
///
/// let chunks = [
///     json!({"choices": [{"delta": {"content": "Hel"}}]}),
///     json!({"choices": [{"delta": {"content": "lo"}}]}),
/// ];
/// let chunks = chunks.into_iter().map(Ok::<_, std::io::Error>);
/// let items: Result<Vec<_>, _> = process_stream(&PromptAgent::new("openai"), chunks)?.collect();
/// assert_eq!(items?, [StreamItem::Text("Hel".into()), StreamItem::Text("lo".into())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn process_stream<I, V, E>(
    agent: &PromptAgent,
    chunks: I,
) -> Result<ProcessStream<I::IntoIter, FrameDecoder>>
where
    I: IntoIterator<Item = std::result::Result<V, E>>,
    V: AsValue,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let decoder = AgentProvider::named(&agent.provider)?.decoder().build_for_frames();
    Ok(ProcessStream::new(agent, chunks.into_iter(), decoder))
}

/// The items of a stream of bytes, split anywhere, of any framing (server-sent events, JSON lines, AWS events).
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, StreamItem, process_bytes};
///
/// let body = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n";
/// let pieces = body.chunks(10).map(Ok::<_, std::io::Error>);
/// let items: Result<Vec<_>, _> = process_bytes(&PromptAgent::new("openai"), pieces)?.collect();
/// assert_eq!(items?, [StreamItem::Text("Hi".into())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn process_bytes<I, B, E>(agent: &PromptAgent, pieces: I) -> Result<ProcessStream<I::IntoIter, Decoder>>
where
    I: IntoIterator<Item = std::result::Result<B, E>>,
    B: AsRef<[u8]>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let decoder = AgentProvider::named(&agent.provider)?.decoder().build();
    Ok(ProcessStream::new(agent, pieces.into_iter(), decoder))
}

/// [`process_stream`] for a `futures::Stream` (feature `async`). No runtime is assumed.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, StreamItem, process_stream_async};
/// use futures::{StreamExt, stream};
/// use serde_json::json;
///
/// let chunks = stream::iter([Ok::<_, std::io::Error>(json!({"choices": [{"delta": {"content": "Hi"}}]}))]);
/// let mut items = process_stream_async(&PromptAgent::new("openai"), chunks)?;
/// let first = futures::executor::block_on(items.next()).ok_or("nothing came")??;
/// assert_eq!(first, StreamItem::Text("Hi".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "async")]
pub fn process_stream_async<S, V, E>(agent: &PromptAgent, chunks: S) -> Result<ProcessStream<S, FrameDecoder>>
where
    S: futures_core::Stream<Item = std::result::Result<V, E>>,
    V: AsValue,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let decoder = AgentProvider::named(&agent.provider)?.decoder().build_for_frames();
    Ok(ProcessStream::new(agent, chunks, decoder))
}

/// [`process_bytes`] for a `futures::Stream` (feature `async`). No runtime is assumed.
///
/// ```
/// use callweave::compat::prompty::{PromptAgent, StreamItem, process_bytes_async};
/// use futures::{StreamExt, stream};
///
/// let body = "{\"model\":\"m\",\"message\":{\"content\":\"Hi\"},\"done\":false}\n";
/// let mut items = process_bytes_async(&PromptAgent::new("ollama"), stream::iter([Ok::<_, std::io::Error>(body)]))?;
/// let first = futures::executor::block_on(items.next()).ok_or("nothing came")??;
/// assert_eq!(first, StreamItem::Text("Hi".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "async")]
pub fn process_bytes_async<S, B, E>(agent: &PromptAgent, pieces: S) -> Result<ProcessStream<S, Decoder>>
where
    S: futures_core::Stream<Item = std::result::Result<B, E>>,
    B: AsRef<[u8]>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let decoder = AgentProvider::named(&agent.provider)?.decoder().build();
    Ok(ProcessStream::new(agent, pieces, decoder))
}

/// A piece of the result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// Text to append; never empty.
    Text(String),
    /// A complete call. Calls come last, in the order of the wire's own numbers.
    ToolCall(ToolCall),
}

/// The reason why a stream broke off, and the text that it had until then.
///
/// A refusal ([`ErrorKind::Refusal`], `Model refused: …`) and an error that the upstream reports
/// ([`ErrorKind::Upstream`]) are the response. An [`Error`] of this library that the caller's source failed with is
/// passed on as it is. Where the transport failed ([`ErrorKind::Io`] and the others) nobody knows what the response
/// would have been, or whether the provider went on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamFailure {
    /// The error that ended the stream.
    pub error: Error,
    /// The text that had come.
    pub partial: String,
}

impl StreamFailure {
    /// Whether the outcome is known: the model refused, or the upstream reported an error.
    ///
    /// ```
    /// use callweave::compat::prompty::{PromptAgent, process_stream};
    ///
    /// let lost = [Err::<serde_json::Value, _>("connection reset")];
    /// let failure = process_stream(&PromptAgent::new("openai"), lost)?.next().unwrap().unwrap_err();
    /// assert!(!failure.is_determinate());
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn is_determinate(&self) -> bool {
        matches!(self.error.kind(), ErrorKind::Refusal | ErrorKind::Upstream)
    }
}

impl Display for StreamFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for StreamFailure {
    /// The error of the caller's own source, if it failed.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<StreamFailure> for Error {
    fn from(failure: StreamFailure) -> Self {
        failure.error
    }
}

impl Serialize for StreamItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => {
                let mut item = serializer.serialize_map(Some(2))?;
                item.serialize_entry("kind", "text")?;
                item.serialize_entry("value", text)?;
                item.end()
            }
            Self::ToolCall(call) => {
                let mut item = serializer.serialize_map(None)?;
                item.serialize_entry("kind", "tool")?;
                serialize_members(call, &mut item)?;
                item.end()
            }
        }
    }
}

/// A decoder that turns the items of a source into events. For [`ProcessStream`]; not to be implemented elsewhere.
pub trait StreamSource<I>: sealed::Sealed {
    #[doc(hidden)]
    fn take(&mut self, item: &I, sink: &mut EventSink<'_>) -> Result<()>;
    #[doc(hidden)]
    fn end(&mut self, sink: &mut EventSink<'_>) -> Result<()>;
    #[doc(hidden)]
    fn known(&self) -> Option<&'static Protocol>;
    #[doc(hidden)]
    fn record(item: I) -> Value;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::pipeline::Decoder {}
    impl Sealed for crate::pipeline::FrameDecoder {}
}

impl<V: AsValue> StreamSource<V> for FrameDecoder {
    fn take(&mut self, chunk: &V, sink: &mut EventSink<'_>) -> Result<()> {
        self.push_value(chunk, sink);
        Ok(())
    }

    fn end(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        self.finish(sink)
    }

    fn known(&self) -> Option<&'static Protocol> {
        self.protocol()
    }

    fn record(chunk: V) -> Value {
        chunk.as_value().into_owned()
    }
}

impl<B: AsRef<[u8]>> StreamSource<B> for Decoder {
    fn take(&mut self, piece: &B, sink: &mut EventSink<'_>) -> Result<()> {
        self.push(piece.as_ref(), sink)
    }

    fn end(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        self.finish(sink)
    }

    fn known(&self) -> Option<&'static Protocol> {
        self.protocol()
    }

    fn record(piece: B) -> Value {
        String::from_utf8_lossy(piece.as_ref()).into()
    }
}

/// The items of a response while it comes: an [`Iterator`] over an iterator, a `futures::Stream` over a stream (feature
/// `async`).
///
/// - Text comes at once, as the provider split it; empty text is left out. Where a provider corrects its text in the
///   end, the items already given stay given; [`ProcessStream::message`] has the correction.
/// - Calls come when the source has ended, in the order of the wire's own numbers. A call without any argument text has
///   `""` (or `{}` where the wire has objects); one that never got a name is left out.
/// - A refusal, an error of the upstream's and a failing source end it with a [`StreamFailure`], and nothing follows.
/// - Only the first choice counts: the one that speaks first. Likewise only the first response counts, where the source
///   goes on with another.
pub struct ProcessStream<S, D> {
    source: S,
    decoder: D,
    folded: ItemFolder,
    /// How many items the source gave.
    taken: u64,
    is_over: bool,
    span: trace::StreamSpan,
}

impl<S, D> ProcessStream<S, D> {
    fn new(agent: &PromptAgent, source: S, decoder: D) -> Self {
        let span = trace::StreamSpan::new(agent);
        Self { source, decoder, folded: ItemFolder::default(), taken: 0, is_over: false, span }
    }

    /// The message so far, with usage, reasoning and everything else that is no item.
    ///
    /// ```
    /// use callweave::compat::prompty::{PromptAgent, process_stream};
    /// use serde_json::json;
    ///
    /// let chunks = [Ok::<_, std::io::Error>(json!({"choices": [], "usage": {"completion_tokens": 3}}))];
    /// let mut items = process_stream(&PromptAgent::new("openai"), chunks)?;
    /// assert!(items.next().is_none());
    /// let usage = items.message().usage.as_ref().and_then(|usage| usage.counters.output_tokens);
    /// assert_eq!(usage, Some(3));
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn message(&self) -> &Message {
        self.folded.message.message()
    }

    /// Takes an item of the source; `None` is its end.
    fn step<I, E>(&mut self, given: Option<std::result::Result<I, E>>)
    where
        D: StreamSource<I>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { decoder, folded, taken, is_over, span, .. } = self;
        match given {
            Some(Ok(item)) => {
                *taken += 1;
                let result = decoder.take(&item, folded);
                span.keep(|| D::record(item));
                folded.fail_if(result);
            }
            Some(Err(error)) => folded.fail(match error.into().downcast() {
                Ok(own) => *own,
                Err(other) => Error::new(ErrorKind::Io, "the stream failed").caused_by(other),
            }),
            None => {
                *is_over = true;
                // A source that gave nothing has said nothing wrong.
                let result = if *taken == 0 { Ok(()) } else { decoder.end(folded) };
                folded.fail_if(result.map_err(|error| match error.kind() {
                    ErrorKind::Unknown => unexpected(),
                    _ => error,
                }));
                folded.release_calls(decoder.known());
            }
        }
        *is_over |= folded.failure.is_some();
        if *is_over {
            let learned =
                ResponseFacts { message: folded.message.message(), protocol: decoder.known(), value: None };
            span.end(*taken, &learned, folded.failure.as_ref());
        }
    }

    fn is_waiting(&self) -> bool {
        self.folded.ready.is_empty() && !self.is_over
    }

    fn pop(&mut self) -> Option<std::result::Result<StreamItem, StreamFailure>> {
        self.folded.ready.pop_front().map(Ok).or_else(|| self.folded.failure.take().map(Err))
    }
}

impl<S, D, I, E> Iterator for ProcessStream<S, D>
where
    S: Iterator<Item = std::result::Result<I, E>>,
    D: StreamSource<I>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = std::result::Result<StreamItem, StreamFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.is_waiting() {
            let given = self.source.next();
            self.step(given);
        }
        self.pop()
    }
}

#[cfg(feature = "async")]
impl<S: Unpin, D> Unpin for ProcessStream<S, D> {}

#[cfg(feature = "async")]
impl<S, D, I, E> futures_core::Stream for ProcessStream<S, D>
where
    S: futures_core::Stream<Item = std::result::Result<I, E>> + Unpin,
    D: StreamSource<I>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = std::result::Result<StreamItem, StreamFailure>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while this.is_waiting() {
            let given = std::task::ready!(std::pin::Pin::new(&mut this.source).poll_next(context));
            this.step(given);
        }
        std::task::Poll::Ready(this.pop())
    }
}

/// Events → items.
#[derive(Default)]
struct ItemFolder {
    message: Accumulator,
    ready: VecDeque<StreamItem>,
    failure: Option<StreamFailure>,
    /// The choice that counts.
    choice: Option<u32>,
    extent: StreamExtent,
}

/// The state of the response.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum StreamExtent {
    #[default]
    Growing,
    Ended,
    /// Another response followed, which is not this one's.
    Followed,
}

impl<'e> Sink<Event<'e>> for ItemFolder {
    fn put(&mut self, event: Event<'e>) {
        if self.failure.is_some() || self.extent == StreamExtent::Followed {
            return;
        }
        if self.extent == StreamExtent::Ended {
            self.extent = StreamExtent::Followed;
            let notice = Notice::new(NoticeCode::Other, 0, "another answer follows and was left out");
            return self.message.put(Event::new(0, EventKind::Notice(notice)));
        }
        match &event.body {
            EventKind::End => self.extent = StreamExtent::Ended,
            EventKind::BlockStart { .. } => {
                self.choice.get_or_insert(event.choice);
            }
            EventKind::Delta { kind, text, .. } if self.choice == Some(event.choice) => match kind {
                DeltaKind::Text => self.ready.push_back(StreamItem::Text(text.to_string())),
                DeltaKind::Refusal => {
                    return self.fail(Error::new(ErrorKind::Refusal, format!("Model refused: {text}")));
                }
                DeltaKind::Reasoning | DeltaKind::Arguments => {}
            },
            EventKind::Error(reported) => {
                let error = reported.clone().into();
                self.message.put(event);
                return self.fail(error);
            }
            _ => {}
        }
        self.message.put(event);
    }
}

impl ItemFolder {
    fn fail_if(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: Error) {
        let message = self.message.message();
        let choice = self.choice.and_then(|choice| message.choice(choice));
        let partial = choice.map(|choice| choice.text().into_owned()).unwrap_or_default();
        self.failure.get_or_insert(StreamFailure { error, partial });
    }

    /// Releases the calls, which are complete once the source has ended.
    fn release_calls(&mut self, protocol: Option<&Protocol>) {
        let choice = self.choice.and_then(|choice| self.message.message().choice(choice));
        let (None, Some(choice)) = (&self.failure, choice) else { return };
        let mut blocks: Vec<_> = choice.blocks.iter().collect();
        // Stable: calls that share a number, or have none, stay in the order in which they began.
        blocks.sort_by_key(|block| block.index);
        let calls = blocks.into_iter().filter_map(|block| match &block.content {
            BlockContent::ToolCall(call) => call_of(protocol, call).map(StreamItem::ToolCall),
            _ => None,
        });
        self.ready.extend(calls);
    }
}
