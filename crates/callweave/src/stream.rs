//! Events from a [`Stream`] of bytes or of decoded JSON (feature `async`).
//!
//! No runtime is assumed: the adapters wait only for the stream they wrap.
//!
//! ```
//! use callweave::stream::EventStream;
//! use futures::StreamExt;
//!
//! let chunks = [Ok::<_, std::io::Error>("data: {\"choices\":[{\"index\":0,\"de"), Ok("lta\":{\"content\":\"Hi\"}}]}\n\n")];
//! let all = futures::executor::block_on(EventStream::new(futures::stream::iter(chunks)).collect::<Vec<_>>());
//! assert!(all.iter().all(Result::is_ok));
//! ```
//!
//! The items of a stream must own their text, so each delta is a text of its own. [`EventStream::lend`] and
//! [`ItemStream::lend`] lend theirs: nothing is allocated per delta. In this way a response may be translated while it
//! comes:
//!
//! ```
//! use callweave::encode::EncodeOptions;
//! use callweave::protocol::Protocol;
//!
//! # futures::executor::block_on(async {
//! # let chunks = [Ok::<_, std::io::Error>("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n")];
//! # let body = futures::stream::iter(chunks);
//! let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
//! let mut encoder = anthropic.encoder(&EncodeOptions::normalized()).expect("it is written");
//! let (mut events, mut output) = (callweave::stream::EventStream::new(body), Vec::new());
//! while let Some(event) = events.lend().await {
//!     encoder.encode(&event?, &mut output);
//! }
//! # assert!(String::from_utf8_lossy(&output).contains("text_delta"));
//! # Ok::<(), callweave::Error>(())
//! # }).unwrap();
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::accumulator::Accumulator;
use crate::event::{Event, EventSink, Sink};
use crate::json::AsValue;
use crate::live::{LiveItem, LiveView};
use crate::message::Message;
use crate::pipeline::{Decoder, FrameDecoder};
use crate::queue::EventQueue;
use crate::{Error, ErrorKind, Result};

/// A decoder of a stream's items into events.
pub trait StreamDecode<I> {
    /// Takes the next item.
    fn take(&mut self, item: I, sink: &mut EventSink<'_>) -> Result<()>;
    /// Signals that no item will come any more.
    fn end(&mut self, sink: &mut EventSink<'_>) -> Result<()>;
}

impl<B: AsRef<[u8]>> StreamDecode<B> for Decoder {
    fn take(&mut self, bytes: B, sink: &mut EventSink<'_>) -> Result<()> {
        self.push(bytes.as_ref(), sink)
    }

    fn end(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        self.finish(sink)
    }
}

impl<V: AsValue> StreamDecode<V> for FrameDecoder {
    fn take(&mut self, value: V, sink: &mut EventSink<'_>) -> Result<()> {
        self.push_value(&value, sink);
        Ok(())
    }

    fn end(&mut self, sink: &mut EventSink<'_>) -> Result<()> {
        self.finish(sink)
    }
}

/// Collects a stream of bytes into one message, and detects its protocol.
pub async fn message<S, I, E>(stream: S) -> Result<Message>
where
    S: Stream<Item = std::result::Result<I, E>> + Unpin,
    I: AsRef<[u8]>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut events = EventStream::new(stream);
    let mut accumulator = Accumulator::new();
    while let Some(event) = events.lend().await {
        accumulator.put(event?);
    }
    Ok(accumulator.take())
}

/// A stream of the items of a response while it comes. After an error there are no more.
///
/// ```
/// use callweave::live::LiveItem;
/// use callweave::stream::ItemStream;
/// use futures::StreamExt;
///
/// # futures::executor::block_on(async {
/// let chunks = [Ok::<_, std::io::Error>("data: {\"choices\":[{\"index\":0,\"de"), Ok("lta\":{\"content\":\"Hi\"}}]}\n\n")];
/// let mut items = ItemStream::new(futures::stream::iter(chunks));
/// while let Some(item) = items.next().await {
///     if let LiveItem::Text(text) = item? {
///         print!("{text}");
///     }
/// }
/// assert_eq!(items.message().text(), "Hi");
/// # Ok::<(), callweave::Error>(())
/// # }).unwrap();
/// ```
pub struct ItemStream<S> {
    events: EventStream<S, Decoder>,
    live: LiveView,
}

impl<S> ItemStream<S> {
    /// The items of a stream of bytes whose protocol is detected.
    pub fn new(stream: S) -> Self {
        Self::with(stream, Decoder::detect())
    }

    /// The items of a stream of bytes, by a decoder of your choice.
    pub fn with(stream: S, decoder: Decoder) -> Self {
        Self { events: EventStream::with(stream, decoder), live: LiveView::new() }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        self.events.decoder()
    }

    /// The message so far.
    pub fn message(&self) -> &Message {
        self.live.message()
    }

    /// The messages of all responses of the stream.
    pub fn into_messages(self) -> Vec<Message> {
        self.live.into_messages()
    }
}

impl<S, I, E> ItemStream<S>
where
    S: Stream<Item = std::result::Result<I, E>> + Unpin,
    I: AsRef<[u8]>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Waits for the next item, which borrows its parts. Nothing is lost if the wait is given up.
    pub async fn lend(&mut self) -> Option<Result<LiveItem<'_>>> {
        match std::future::poll_fn(|context| self.poll_item(context)).await? {
            Ok(()) => self.live.item().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// Waits until the view has an item; none if there are no more.
    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<()>>> {
        loop {
            ready!(self.events.poll_ready(context));
            match self.events.take() {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(event)) => {
                    if self.live.take(event) {
                        return Poll::Ready(Some(Ok(())));
                    }
                }
            }
        }
    }
}

impl<S: Unpin> Unpin for ItemStream<S> {}

impl<S, I, E> Stream for ItemStream<S>
where
    S: Stream<Item = std::result::Result<I, E>> + Unpin,
    I: AsRef<[u8]>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = Result<LiveItem<'static>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        Poll::Ready(match ready!(this.poll_item(context)) {
            Some(Ok(())) => this.live.item().map(|item| Ok(item.into_owned())),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }
}

/// A stream of events. After an error there are no more.
pub struct EventStream<S, D> {
    stream: S,
    decoder: D,
    ready: EventQueue,
    error: Option<Error>,
    is_over: bool,
}

impl<S> EventStream<S, Decoder> {
    /// The events of a stream of bytes whose protocol is detected.
    pub fn new(stream: S) -> Self {
        Self::with(stream, Decoder::detect())
    }
}

impl<S, D> EventStream<S, D> {
    /// The events of a stream, by a decoder of your choice: a [`Decoder`] of bytes, or a [`FrameDecoder`] of decoded
    /// JSON values, each one frame.
    pub fn with(stream: S, decoder: D) -> Self {
        Self { stream, decoder, ready: EventQueue::default(), error: None, is_over: false }
    }

    /// The decoder.
    pub fn decoder(&self) -> &D {
        &self.decoder
    }
}

impl<S: Unpin, D> Unpin for EventStream<S, D> {}

impl<S, D, I, E> EventStream<S, D>
where
    S: Stream<Item = std::result::Result<I, E>> + Unpin,
    D: StreamDecode<I>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Waits for the next event, which borrows its text. Nothing is lost if the wait is given up.
    pub async fn lend(&mut self) -> Option<Result<Event<'_>>> {
        std::future::poll_fn(|context| self.poll_ready(context)).await;
        self.take()
    }

    /// Waits until there is an event to take, or no more.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.ready.is_empty() && !self.is_over {
            let item = ready!(Pin::new(&mut self.stream).poll_next(context));
            let taken = match item {
                Some(Ok(item)) => self.decoder.take(item, &mut self.ready),
                Some(Err(error)) => Err(Error::new(ErrorKind::Io, "the stream failed").caused_by(error)),
                None => {
                    self.is_over = true;
                    self.decoder.end(&mut self.ready)
                }
            };
            if let Err(error) = taken {
                self.is_over = true;
                self.error = Some(error);
            }
        }
        Poll::Ready(())
    }

    fn take(&mut self) -> Option<Result<Event<'_>>> {
        self.ready.take().map(Ok).or_else(|| self.error.take().map(Err))
    }
}

impl<S, D, I, E> Stream for EventStream<S, D>
where
    S: Stream<Item = std::result::Result<I, E>> + Unpin,
    D: StreamDecode<I>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = Result<Event<'static>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        ready!(this.poll_ready(context));
        Poll::Ready(this.take().map(|event| event.map(Event::into_owned)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stream_keeps_its_own_error() {
        let chunks = [Ok("data: {}\n\n"), Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))];
        let failed = futures::executor::block_on(message(futures::stream::iter(chunks)));
        let error = failed.expect_err("the stream failed");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, "the stream failed".to_owned()));
        let source =
            std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::ConnectionReset));
    }
}
