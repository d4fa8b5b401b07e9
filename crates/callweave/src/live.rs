//! Events → the items that a person or an agent follows while a response comes: text, reasoning, calls that grow, calls
//! that are done, the end.
//!
//! [`read::ItemReader`](crate::read::ItemReader) and `stream::ItemStream` (feature `async`) pull them from any source
//! of bytes; [`LiveView`] makes them of events that you have.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::accumulator::Accumulator;
use crate::event::{BlockId, CallKind, DeltaKind, Event, EventKind, FinishReason, Sink};
use crate::json::Value;
use crate::json::partial::{PartialValue, UnfinishedValues};
use crate::message::{BlockContent, Message, ToolCall};
use crate::upstream::UpstreamError;

/// One item to follow. Lent items borrow from the view that made them, so nothing is allocated for them;
/// [`LiveItem::into_owned`] detaches one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LiveItem<'l> {
    /// More of the visible text.
    Text(Cow<'l, str>),
    /// More of the reasoning.
    Reasoning(Cow<'l, str>),
    /// More of a refusal.
    Refusal(Cow<'l, str>),
    /// A call began or grew.
    Call(CallDelta<'l>),
    /// A call is there, complete or truncated: [`ToolCall::invalid`] says whether it can be run.
    CallDone(Cow<'l, ToolCall>),
    /// The upstream reported an error.
    Error(Cow<'l, UpstreamError<'static>>),
    /// A choice is finished.
    Finish(FinishReason),
}

/// A call that is being written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallDelta<'l> {
    /// Its id, as far as it is known.
    pub id: Cow<'l, str>,
    /// The tool's name.
    pub name: Cow<'l, str>,
    /// The new piece of its argument text; empty when the call begins.
    pub piece: Cow<'l, str>,
    /// The parsed arguments so far, strings that have not ended included; none before they begin, or if the text is not
    /// JSON. An item that owns its parts has none: a copy with every piece would cost the square of the arguments.
    pub value: Option<&'l Value>,
}

impl LiveItem<'_> {
    /// Detaches the item from what it borrows. The [value so far](CallDelta::value) of a growing call stays behind.
    pub fn into_owned(self) -> LiveItem<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Text(text) => LiveItem::Text(own(text)),
            Self::Reasoning(text) => LiveItem::Reasoning(own(text)),
            Self::Refusal(text) => LiveItem::Refusal(own(text)),
            Self::Call(CallDelta { id, name, piece, .. }) => {
                LiveItem::Call(CallDelta { id: own(id), name: own(name), piece: own(piece), value: None })
            }
            Self::CallDone(call) => LiveItem::CallDone(Cow::Owned(call.into_owned())),
            Self::Error(error) => LiveItem::Error(Cow::Owned(error.into_owned())),
            Self::Finish(reason) => LiveItem::Finish(reason),
        }
    }
}

/// Makes items of events, and keeps the message that they make up.
///
/// ```
/// use callweave::live::{LiveItem, LiveView};
/// use callweave::pipeline::Decoder;
///
/// let (mut decoder, mut live) = (Decoder::detect(), LiveView::new());
/// let mut events = Vec::new();
/// decoder.push(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n", &mut events)?;
/// decoder.finish(&mut events)?;
/// for event in events {
///     if let Some(LiveItem::Text(text)) = live.put(event) {
///         println!("{text}");
///     }
/// }
/// assert_eq!(live.message().text(), "Hi");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct LiveView {
    accumulator: Accumulator,
    growing: HashMap<BlockId, PartialValue>,
    last: Option<LastEvent>,
    choice: u32,
    /// The text of the last delta.
    piece: String,
}

/// The part of the last event that makes an item.
#[derive(Debug)]
enum LastEvent {
    Delta(BlockId, DeltaKind),
    BlockStart(BlockId),
    BlockEnd(BlockId),
    Error(UpstreamError<'static>),
    Finish(FinishReason),
}

impl LiveView {
    /// A view before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event. Not every one makes an item.
    pub fn put(&mut self, event: Event<'_>) -> Option<LiveItem<'_>> {
        self.take(event);
        self.item()
    }

    /// The choice that the last item belongs to.
    pub fn choice(&self) -> u32 {
        self.choice
    }

    /// The message so far. Of several responses it is the one that came last.
    pub fn message(&self) -> &Message {
        self.accumulator.message()
    }

    /// The messages of all responses.
    pub fn into_messages(mut self) -> Vec<Message> {
        self.accumulator.take_all()
    }

    /// Takes the next event, and says whether it makes an item.
    pub(crate) fn take(&mut self, event: Event<'_>) -> bool {
        match &event.body {
            EventKind::Delta { block, kind: DeltaKind::Arguments, text } => {
                self.growing
                    .entry(*block)
                    .or_insert_with(|| PartialValue::new(UnfinishedValues::Strings))
                    .push(text);
            }
            EventKind::Correction { block, text } => {
                if let Some(partial) = self.growing.get_mut(block) {
                    *partial = PartialValue::new(UnfinishedValues::Strings);
                    partial.push(text);
                }
            }
            EventKind::BlockEnd { block, .. } => drop(self.growing.remove(block)),
            _ => {}
        }
        self.choice = event.choice;
        self.last = match &event.body {
            EventKind::Delta { block, kind, text } => {
                text.as_ref().clone_into(&mut self.piece);
                Some(LastEvent::Delta(*block, *kind))
            }
            EventKind::BlockStart { block, .. } => Some(LastEvent::BlockStart(*block)),
            EventKind::BlockEnd { block, .. } => Some(LastEvent::BlockEnd(*block)),
            EventKind::Error(error) => Some(LastEvent::Error(error.clone().into_owned())),
            EventKind::Finish { reason, .. } => Some(LastEvent::Finish(*reason)),
            _ => None,
        };
        self.accumulator.put(event);
        self.item().is_some()
    }

    /// The item that the last event makes.
    pub(crate) fn item(&self) -> Option<LiveItem<'_>> {
        let piece = Cow::Borrowed(self.piece.as_str());
        match self.last.as_ref()? {
            LastEvent::Delta(_, DeltaKind::Text) => Some(LiveItem::Text(piece)),
            LastEvent::Delta(_, DeltaKind::Reasoning) => Some(LiveItem::Reasoning(piece)),
            LastEvent::Delta(_, DeltaKind::Refusal) => Some(LiveItem::Refusal(piece)),
            LastEvent::Delta(block, DeltaKind::Arguments) => self.grown(*block, piece).map(LiveItem::Call),
            LastEvent::BlockStart(block) => self.grown(*block, "".into()).map(LiveItem::Call),
            LastEvent::BlockEnd(block) => self.call(*block).map(Cow::Borrowed).map(LiveItem::CallDone),
            LastEvent::Error(error) => Some(LiveItem::Error(Cow::Borrowed(error))),
            LastEvent::Finish(reason) => Some(LiveItem::Finish(*reason)),
        }
    }

    fn grown<'l>(&'l self, block: BlockId, piece: Cow<'l, str>) -> Option<CallDelta<'l>> {
        let ToolCall { id, name, .. } = self.call(block)?;
        let value = self.growing.get(&block).and_then(PartialValue::value);
        Some(CallDelta { id: id.into(), name: name.into(), piece, value })
    }

    fn call(&self, block: BlockId) -> Option<&ToolCall> {
        match &self.accumulator.block(block)?.content {
            BlockContent::ToolCall(call) if call.kind != CallKind::Builtin => Some(call),
            _ => None,
        }
    }
}
