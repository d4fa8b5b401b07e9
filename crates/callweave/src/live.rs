//! Events → what a person or an agent follows while an answer comes: text, thoughts, calls that grow, calls that are
//! done, the end.
//!
//! [`read::Items`](crate::read::Items) and `stream::Items` (feature `async`) pull them from anything that gives bytes;
//! [`Live`] makes them of events that you have.

use std::collections::HashMap;

use crate::accumulator::Accumulator;
use crate::event::{BlockId, Body, CallKind, DeltaKind, Event, FinishReason, Sink};
use crate::json::Value;
use crate::json::partial::{Growing, Partial};
use crate::message::{Content, Message, ToolCall};
use crate::upstream::UpstreamError;

/// One thing to follow. It borrows from what it was made of: take what you want to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item<'l> {
    /// More of the visible text.
    Text(&'l str),
    /// More of the thoughts.
    Thought(&'l str),
    /// More of a refusal.
    Refusal(&'l str),
    /// A call began or grew.
    Call(Grown<'l>),
    /// A call is there, whole or cut off: [`ToolCall::invalid`] tells whether it can be run.
    CallDone(&'l ToolCall),
    /// The upstream reported an error.
    Error(&'l UpstreamError<'static>),
    /// A choice is finished.
    Finish(FinishReason),
}

/// A call that is being written.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Grown<'l> {
    /// Its id, as far as it is known.
    pub id: &'l str,
    /// The tool's name.
    pub name: &'l str,
    /// The new piece of its argument text; empty when the call begins.
    pub piece: &'l str,
    /// What its arguments are so far, strings that have not ended included; none before they begin, or if what
    /// came is no JSON.
    pub arguments: Option<&'l Value>,
}

/// Makes items of events, and keeps what they amount to.
///
/// ```
/// use callweave::live::{Item, Live};
/// use callweave::pipeline::Decoder;
///
/// let (mut decoder, mut live) = (Decoder::detect(), Live::new());
/// let mut events = Vec::new();
/// decoder.push(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n", &mut events)?;
/// decoder.finish(&mut events)?;
/// for event in events {
///     if let Some(Item::Text(text)) = live.put(event) {
///         println!("{text}");
///     }
/// }
/// assert_eq!(live.message().text(), "Hi");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Live {
    accumulator: Accumulator,
    growing: HashMap<BlockId, Partial>,
    last: Option<Last>,
    choice: u32,
    /// The text of the last delta.
    piece: String,
}

/// What of the last event makes an item.
#[derive(Debug)]
enum Last {
    Delta(BlockId, DeltaKind),
    BlockStart(BlockId),
    BlockEnd(BlockId),
    Error(UpstreamError<'static>),
    Finish(FinishReason),
}

impl Live {
    /// Before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event. Not every one makes an item.
    pub fn put(&mut self, event: Event<'_>) -> Option<Item<'_>> {
        self.take(event);
        self.item()
    }

    /// The choice that the last item belongs to.
    pub fn choice(&self) -> u32 {
        self.choice
    }

    /// What the answer amounts to so far. Of several answers it is the one that came last.
    pub fn message(&self) -> &Message {
        self.accumulator.message()
    }

    /// What the answers amount to.
    pub fn into_messages(mut self) -> Vec<Message> {
        self.accumulator.take_all()
    }

    /// Takes the next event, and says whether it makes an item.
    pub(crate) fn take(&mut self, event: Event<'_>) -> bool {
        match &event.body {
            Body::Delta { block, kind: DeltaKind::Arguments, text } => {
                self.growing.entry(*block).or_insert_with(|| Partial::new(Growing::Strings)).push(text);
            }
            Body::Correction { block, text } => {
                if let Some(partial) = self.growing.get_mut(block) {
                    *partial = Partial::new(Growing::Strings);
                    partial.push(text);
                }
            }
            Body::BlockEnd { block, .. } => drop(self.growing.remove(block)),
            _ => {}
        }
        self.choice = event.choice;
        self.last = match &event.body {
            Body::Delta { block, kind, text } => {
                text.as_ref().clone_into(&mut self.piece);
                Some(Last::Delta(*block, *kind))
            }
            Body::BlockStart { block, .. } => Some(Last::BlockStart(*block)),
            Body::BlockEnd { block, .. } => Some(Last::BlockEnd(*block)),
            Body::Error(error) => Some(Last::Error(error.clone().into_owned())),
            Body::Finish { reason, .. } => Some(Last::Finish(*reason)),
            _ => None,
        };
        self.accumulator.put(event);
        self.item().is_some()
    }

    /// The item that the last event makes.
    pub(crate) fn item(&self) -> Option<Item<'_>> {
        let piece = self.piece.as_str();
        match self.last.as_ref()? {
            Last::Delta(_, DeltaKind::Text) => Some(Item::Text(piece)),
            Last::Delta(_, DeltaKind::Reasoning) => Some(Item::Thought(piece)),
            Last::Delta(_, DeltaKind::Refusal) => Some(Item::Refusal(piece)),
            Last::Delta(block, DeltaKind::Arguments) => self.grown(*block, piece).map(Item::Call),
            Last::BlockStart(block) => self.grown(*block, "").map(Item::Call),
            Last::BlockEnd(block) => self.call(*block).map(Item::CallDone),
            Last::Error(error) => Some(Item::Error(error)),
            Last::Finish(reason) => Some(Item::Finish(*reason)),
        }
    }

    fn grown<'l>(&'l self, block: BlockId, piece: &'l str) -> Option<Grown<'l>> {
        let ToolCall { id, name, .. } = self.call(block)?;
        let arguments = self.growing.get(&block).and_then(Partial::value);
        Some(Grown { id, name, piece, arguments })
    }

    fn call(&self, block: BlockId) -> Option<&ToolCall> {
        match &self.accumulator.block(block)?.content {
            Content::ToolCall(call) if call.kind != CallKind::Builtin => Some(call),
            _ => None,
        }
    }
}
