//! Items, events and messages from anything that can be read: a file, a socket, standard input.
//!
//! ```
//! use callweave::live::LiveItem;
//! use callweave::pipeline::Decoder;
//! use callweave::read::ItemReader;
//!
//! let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Well. <tool_call>{\\\"name\\\": \\\"look\\\"}\"}}]}\n\n\
//!     data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"</tool_call>\"},\"finish_reason\":\"stop\"}]}\n\n";
//! let decoder = Decoder::builder().dialect("hermes").build();
//! let mut items = ItemReader::with(body.as_bytes(), decoder);
//! for item in &mut items {
//!     match item? {
//!         LiveItem::Text(text) => print!("{text}"),
//!         LiveItem::Call(call) => print!("{}", call.piece),
//!         LiveItem::CallDone(call) => assert_eq!(call.arguments(), "{}"),
//!         LiveItem::Finish(reason) => println!("{reason}"),
//!         _ => {}
//!     }
//! }
//! assert_eq!(items.message().tool_calls().count(), 1);
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! Iterators own their items. [`ItemReader::lend`] and [`EventReader::lend`] lend them: nothing is allocated per delta,
//! and a call that grows has its value so far.
//!
//! ```
//! # use callweave::live::LiveItem;
//! # use callweave::read::ItemReader;
//! # let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":\
//! #     {\"name\":\"look\",\"arguments\":\"{\\\"at\\\": \\\"s\"}}]}}]}\n\n";
//! let mut items = ItemReader::new(body.as_bytes());
//! # let mut values = Vec::new();
//! while let Some(item) = items.lend() {
//!     if let LiveItem::Call(call) = item? {
//!         println!("{} {:?}", call.name, call.value); // look Some({"at": "s"})
//! #       values.extend(call.value.map(ToString::to_string));
//!     }
//! }
//! # assert_eq!(values, [r#"{"at":"s"}"#]);
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! The events that these are made of, with all fields of the wire:
//!
//! ```
//! use callweave::read::EventReader;
//!
//! let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
//! for event in EventReader::new(body.as_bytes()) {
//!     println!("{:?}", event?.body);
//! }
//! # Ok::<(), callweave::Error>(())
//! ```

use std::io::{ErrorKind as IoErrorKind, Read};

use crate::accumulator::Accumulator;
use crate::event::{Event, EventSink};
use crate::live::{LiveItem, LiveView};
use crate::message::Message;
use crate::pipeline::Decoder;
use crate::queue::EventQueue;
use crate::{Error, ErrorKind, Result};

const BUFFER: usize = 64 * 1024;

/// Reads a response to its end, giving its events to `sink` as they come.
pub fn pump(mut reader: impl Read, decoder: &mut Decoder, sink: &mut EventSink<'_>) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut offset = 0;
    loop {
        match read(&mut reader, &mut buffer, offset)? {
            0 => return decoder.finish(sink),
            count => {
                offset += count as u64;
                decoder.push(&buffer[..count], sink)?;
            }
        }
    }
}

/// Reads a response to its end into one message, and detects its protocol.
pub fn message(reader: impl Read) -> Result<Message> {
    let mut accumulator = Accumulator::new();
    pump(reader, &mut Decoder::detect(), &mut accumulator)?;
    Ok(accumulator.take())
}

/// The items of a response while it comes, as an iterator. After an error there are no more.
pub struct ItemReader<R> {
    events: EventReader<R>,
    live: LiveView,
}

impl<R: Read> ItemReader<R> {
    /// The items of a response whose protocol is detected.
    pub fn new(reader: R) -> Self {
        Self::with(reader, Decoder::detect())
    }

    /// The items of a response, by a decoder of your choice.
    pub fn with(reader: R, decoder: Decoder) -> Self {
        Self { events: EventReader::with(reader, decoder), live: LiveView::new() }
    }

    /// Reads on to the next item, which borrows its parts.
    pub fn lend(&mut self) -> Option<Result<LiveItem<'_>>> {
        loop {
            match self.events.lend()? {
                Err(error) => return Some(Err(error)),
                Ok(event) => {
                    if self.live.take(event) {
                        return self.live.item().map(Ok);
                    }
                }
            }
        }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.events.decoder
    }

    /// The message so far.
    pub fn message(&self) -> &Message {
        self.live.message()
    }

    /// The messages of all responses of the input.
    pub fn into_messages(self) -> Vec<Message> {
        self.live.into_messages()
    }
}

impl<R: Read> Iterator for ItemReader<R> {
    type Item = Result<LiveItem<'static>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lend().map(|item| item.map(LiveItem::into_owned))
    }
}

/// The events of a response, as an iterator. After an error there are no more.
pub struct EventReader<R> {
    reader: R,
    decoder: Decoder,
    buffer: Vec<u8>,
    offset: u64,
    ready: EventQueue,
    error: Option<Error>,
    is_over: bool,
}

impl<R: Read> EventReader<R> {
    /// The events of a response whose protocol is detected.
    pub fn new(reader: R) -> Self {
        Self::with(reader, Decoder::detect())
    }

    /// The events of a response, by a decoder of your choice.
    pub fn with(reader: R, decoder: Decoder) -> Self {
        let buffer = vec![0; BUFFER];
        Self { reader, decoder, buffer, offset: 0, ready: EventQueue::default(), error: None, is_over: false }
    }

    fn advance(&mut self) -> Result<()> {
        let Self { reader, decoder, buffer, offset, ready, is_over, .. } = self;
        match read(reader, buffer, *offset)? {
            0 => {
                *is_over = true;
                decoder.finish(ready)
            }
            count => {
                *offset += count as u64;
                decoder.push(&buffer[..count], ready)
            }
        }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Reads on to the next event, which borrows its text.
    pub fn lend(&mut self) -> Option<Result<Event<'_>>> {
        while self.ready.is_empty() && !self.is_over {
            if let Err(error) = self.advance() {
                self.is_over = true;
                self.error = Some(error);
            }
        }
        self.ready.take().map(Ok).or_else(|| self.error.take().map(Err))
    }
}

impl<R: Read> Iterator for EventReader<R> {
    type Item = Result<Event<'static>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lend().map(|event| event.map(Event::into_owned))
    }
}

fn read(reader: &mut impl Read, buffer: &mut [u8], offset: u64) -> Result<usize> {
    loop {
        match reader.read(buffer) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::new(ErrorKind::Io, "reading failed").at(offset).caused_by(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FailureState(bool);

    impl Read for FailureState {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(std::io::Error::other("the line is dead"));
            }
            let text = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
            buffer[..text.len()].copy_from_slice(text);
            Ok(text.len())
        }
    }

    #[test]
    fn what_came_before_a_failure_stays() {
        let events: Vec<_> = EventReader::new(FailureState(false)).collect();
        assert_eq!(events.len(), 5, "{events:?}");
        assert!(events[..4].iter().all(Result::is_ok));
        let error = events[4].as_ref().expect_err("reading failed");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Io, Some(58)));
        let source = std::error::Error::source(error).expect("it has a source");
        assert!(source.is::<std::io::Error>() && source.to_string() == "the line is dead", "{source}");
    }
}
