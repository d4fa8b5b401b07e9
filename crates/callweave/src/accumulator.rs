//! Events → message.
//!
//! The [`Accumulator`] is a sink of events and holds the [`Message`] that they make up. Taking an event costs O(1)
//! amortised: every block grows in one contiguous buffer, and blocks are found by number. The message can be looked at
//! while it grows.
//!
//! ```
//! use callweave::accumulator::Accumulator;
//! use callweave::event::{BlockId, BlockKind, EventKind, DeltaKind, Event, Sink};
//!
//! let mut accumulator = Accumulator::new();
//! accumulator.put(Event::new(0, EventKind::block_start(BlockId(0), BlockKind::Text)));
//! accumulator.put(Event::new(0, EventKind::Delta { block: BlockId(0), kind: DeltaKind::Text, text: "Hello".into() }));
//! assert_eq!(accumulator.message().text(), "Hello");
//! ```

use crate::event::{
    AttachmentKind, BlockCompletion, BlockId, BlockKind, ByteSpan, Event, EventKind, EventScope, ItemId,
    JsonText, Notice, NoticeCode, Sink,
};
use crate::message::{
    Attachment, Block, BlockContent, Choice, ExtraFields, Finish, InvalidCall, Message, OutputItem, ToolCall,
    ToolResult, Usage,
};
use crate::table::OrderedTable;

/// The state of a response, and the responses before it in the same input. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Accumulator {
    answer: GrowingMessage,
    /// Whether the response is over: the next event begins another.
    is_ended: bool,
    earlier: Vec<Message>,
}

/// A response as it grows.
#[derive(Clone, Debug, Default)]
struct GrowingMessage {
    message: Message,
    /// The position of each block: its choice and its index there, if that is not its number in the first choice.
    blocks: OrderedTable<BlockId, (usize, usize)>,
    /// The position of each item, in the same form.
    items: OrderedTable<ItemId, (usize, usize)>,
    /// The block of the last event: most events continue what the one before began.
    latest: Option<(BlockId, usize, usize)>,
    /// The position of each choice, if that is not its number.
    choices: OrderedTable<u32, usize>,
}

/// The attachments and the extra fields of a thing.
type AttachmentsAndExtra<'m> = (&'m mut Vec<Attachment>, &'m mut ExtraFields);

impl Accumulator {
    /// An accumulator before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// The message so far; where the input has several responses, that of the last.
    pub fn message(&self) -> &Message {
        &self.answer.message
    }

    /// The messages of all responses so far, the growing one last.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.earlier.iter().chain([self.message()])
    }

    /// The message; the accumulator is ready for the next turn. Of several responses in one input it is the first, with
    /// a notice that there are more: [`Accumulator::take_all`] has them.
    pub fn take(&mut self) -> Message {
        if self.earlier.is_empty() {
            return std::mem::take(self).answer.message;
        }
        let mut messages = self.take_all();
        let detail = format!("more answers follow in the same input: {}", messages.len() - 1);
        messages[0].notices.push(Notice::new(NoticeCode::Other, 0, detail));
        messages.swap_remove(0)
    }

    /// The messages of all responses; the accumulator is ready for the next turn.
    pub fn take_all(&mut self) -> Vec<Message> {
        let Self { answer, mut earlier, .. } = std::mem::take(self);
        earlier.push(answer.message);
        earlier
    }

    /// The messages of the responses before the last. A caller that takes them from time to time need not hold a
    /// recording of many.
    pub fn take_earlier(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.earlier)
    }

    /// A block of the growing message.
    pub(crate) fn block(&self, block: BlockId) -> Option<&Block> {
        let (choice, at) = self.answer.place(block)?;
        self.answer.message.choices.get(choice)?.blocks.get(at)
    }

    /// Forgets everything, for the next turn.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

impl<'e> Sink<Event<'e>> for Accumulator {
    fn put(&mut self, mut event: Event<'e>) {
        // Most events are deltas.
        if !self.is_ended
            && let EventKind::Delta { block, text, .. } = event.body
        {
            if let Some(block) = self.answer.block(block) {
                block.grow(&text, event.source);
            }
            return;
        }
        self.put_other(&mut event);
    }
}

impl Accumulator {
    /// Takes an event that is no delta of the current response. It is a separate function, so it costs a delta nothing.
    #[inline(never)]
    fn put_other(&mut self, event: &mut Event<'_>) {
        // A notice after the end belongs to the response before it.
        if self.is_ended && !matches!(event.body, EventKind::Notice(_) | EventKind::End) {
            self.is_ended = false;
            self.earlier.push(std::mem::take(&mut self.answer).message);
        }
        self.is_ended |= matches!(event.body, EventKind::End);
        self.answer.put(event);
    }
}

impl GrowingMessage {
    fn choice_at(&mut self, number: u32) -> usize {
        let choices = &mut self.message.choices;
        if choices.get(number as usize).is_some_and(|choice| choice.number == number) {
            return number as usize;
        }
        if let Some(&at) = self.choices.get(&number) {
            return at;
        }
        // Most responses have one choice, and many are read at the same time.
        if choices.is_empty() {
            choices.reserve_exact(1);
        }
        let at = choices.len();
        choices.push(Choice { number, ..Choice::default() });
        if at != number as usize {
            self.choices.append(number, at);
        }
        at
    }

    fn choice(&mut self, number: u32) -> &mut Choice {
        let at = self.choice_at(number);
        &mut self.message.choices[at]
    }

    #[inline]
    fn block(&mut self, block: BlockId) -> Option<&mut Block> {
        let (choice, at) = match self.latest {
            Some((latest, choice, at)) if latest == block => (choice, at),
            _ => {
                let (choice, at) = self.place(block)?;
                self.latest = Some((block, choice, at));
                (choice, at)
            }
        };
        self.message.choices.get_mut(choice)?.blocks.get_mut(at)
    }

    /// The choice of a block, and the block's index in it.
    fn place(&self, block: BlockId) -> Option<(usize, usize)> {
        let (choice, at) = self.blocks.get(&block).copied().unwrap_or((0, block.0 as usize));
        let own = self.message.choices.get(choice)?.blocks.get(at)?;
        (own.id == block).then_some((choice, at))
    }

    fn item(&mut self, item: ItemId) -> Option<&mut OutputItem> {
        let (choice, at) = self.items.get(&item).copied().unwrap_or((0, item.0 as usize));
        let own = self.message.choices.get_mut(choice)?.items.get_mut(at)?;
        (own.number == item).then_some(own)
    }

    fn belongings(&mut self, choice: u32, scope: EventScope) -> Option<AttachmentsAndExtra<'_>> {
        match scope {
            EventScope::Response => Some((&mut self.message.attachments, &mut self.message.extra)),
            EventScope::Choice => {
                let choice = self.choice(choice);
                Some((&mut choice.attachments, &mut choice.extra))
            }
            EventScope::Item(item) => self.item(item).map(|item| (&mut item.attachments, &mut item.extra)),
            // A block takes its attachments itself.
            EventScope::Block(_) => None,
        }
    }
}

fn content(kind: BlockKind<'_>) -> BlockContent {
    match kind {
        BlockKind::Text => BlockContent::Text(String::new()),
        BlockKind::Reasoning(form) => BlockContent::Reasoning { form, text: String::new() },
        BlockKind::Refusal => BlockContent::Refusal(String::new()),
        BlockKind::ToolCall { id, is_made, name, call } => BlockContent::ToolCall(ToolCall {
            has_made_id: is_made || id.is_none(),
            id: id.unwrap_or_default().into_owned(),
            name: name.into_owned(),
            raw_arguments: String::new(),
            kind: call,
            completion: BlockCompletion::Truncated,
            violation: None,
        }),
        BlockKind::ToolResult { call, value } => {
            BlockContent::ToolResult(ToolResult { call: call.map(Into::into), value: value.into_owned() })
        }
        BlockKind::Opaque { value } => BlockContent::Opaque(value.into_owned()),
    }
}

/// Attaches a value: signatures and encrypted data replace the earlier value, log probabilities have an entry per
/// token.
fn attach(attachments: &mut Vec<Attachment>, kind: AttachmentKind, wire_type: &str, value: &JsonText<'_>) {
    let new = |value: JsonText<'static>| Attachment { kind, wire_type: wire_type.to_owned(), value };
    let value = value.clone();
    match kind {
        AttachmentKind::Logprobs => attachments.extend(value.entries().into_iter().map(new)),
        AttachmentKind::Annotation => attachments.push(new(value.into_owned())),
        AttachmentKind::Signature | AttachmentKind::Encrypted => {
            match attachments.iter_mut().find(|own| own.kind == kind && own.wire_type == wire_type) {
                Some(known) => known.value = value.into_owned(),
                None => attachments.push(new(value.into_owned())),
            }
        }
    }
}

/// A first text of this many bytes is usually complete: it takes no more memory than it has. After a shorter one more
/// will come, and there is room for some.
const LONG: usize = 64;

impl Block {
    /// The block that an event starts.
    pub(crate) fn started_by(event: &mut Event<'_>) -> Option<Self> {
        let EventKind::BlockStart { block, item, kind, wire_type, index, extra } = &mut event.body else {
            return None;
        };
        Some(Self {
            id: *block,
            item: *item,
            wire_type: std::mem::take(wire_type).into_owned(),
            index: *index,
            content: content(std::mem::replace(kind, BlockKind::Text)),
            is_ended: false,
            source: event.source,
            attachments: Vec::new(),
            extra: ExtraFields::of(extra.take()),
        })
    }

    /// Takes the text of a delta that was made from there.
    #[inline]
    fn grow(&mut self, text: &str, source: ByteSpan) {
        self.source.end = self.source.end.max(source.end);
        if let Some(own) = self.text_mut() {
            if own.capacity() == 0 {
                own.reserve_exact(text.len().max(LONG));
            }
            own.push_str(text);
        }
    }

    /// Takes an event about the block.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        self.source.end = self.source.end.max(event.source.end);
        match &event.body {
            EventKind::Delta { text, .. } => self.grow(text, event.source),
            EventKind::Correction { text, .. } => {
                if let Some(own) = self.text_mut() {
                    own.clear();
                    own.push_str(text);
                }
            }
            EventKind::BlockEnd { completion, .. } => {
                self.is_ended = true;
                if let BlockContent::ToolCall(call) = &mut self.content {
                    call.completion = *completion;
                }
            }
            EventKind::Identity { id: Some(id), .. } => {
                if let BlockContent::ToolCall(call) = &mut self.content {
                    call.id = id.to_string();
                    call.has_made_id = false;
                }
            }
            EventKind::Attachment { kind, wire_type, value, .. } => {
                attach(&mut self.attachments, *kind, wire_type, value)
            }
            EventKind::Extra { path, value, .. } => {
                self.extra.set(path.to_string(), value.clone().into_owned())
            }
            _ => {}
        }
    }

    #[inline]
    fn text_mut(&mut self) -> Option<&mut String> {
        match &mut self.content {
            BlockContent::Text(text) | BlockContent::Reasoning { text, .. } | BlockContent::Refusal(text) => {
                Some(text)
            }
            BlockContent::ToolCall(call) => Some(&mut call.raw_arguments),
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => None,
        }
    }
}

impl GrowingMessage {
    /// Takes an event; what it owns is taken out of it.
    fn put(&mut self, event: &mut Event<'_>) {
        let number = event.choice;
        match &mut event.body {
            EventKind::Delta { block, .. }
            | EventKind::Correction { block, .. }
            | EventKind::BlockEnd { block, .. }
            | EventKind::Identity { scope: EventScope::Block(block), .. }
            | EventKind::Attachment { scope: EventScope::Block(block), .. }
            | EventKind::Extra { scope: EventScope::Block(block), .. } => {
                if let Some(block) = self.block(*block) {
                    block.take(event);
                }
            }
            EventKind::Start { id, model, wire_type, extra } => {
                let message = &mut self.message;
                message.id = id.take().map(Into::into);
                message.model = model.take().map(Into::into);
                message.wire_type = std::mem::take(wire_type).into_owned();
                message.extra = ExtraFields::of(extra.take());
            }
            EventKind::ChoiceStart => {
                self.choice_at(number);
            }
            EventKind::ItemStart { item, id, wire_type, extra } => {
                let at = self.choice_at(number);
                let items = &mut self.message.choices[at].items;
                if (at, items.len()) != (0, item.0 as usize) || self.items.contains(item) {
                    self.items.insert(*item, (at, items.len()));
                }
                items.push(OutputItem {
                    number: *item,
                    id: id.take().map(Into::into),
                    wire_type: std::mem::take(wire_type).into_owned(),
                    attachments: Vec::new(),
                    extra: ExtraFields::of(extra.take()),
                });
            }
            EventKind::BlockStart { block, .. } => {
                let at = self.choice_at(number);
                let blocks = &mut self.message.choices[at].blocks;
                if (at, blocks.len()) != (0, block.0 as usize) || self.blocks.contains(block) {
                    self.blocks.insert(*block, (at, blocks.len()));
                }
                if blocks.is_empty() {
                    blocks.reserve_exact(1);
                }
                blocks.extend(Block::started_by(event));
            }
            EventKind::Identity { scope, id, model } => match scope {
                // The first names count; some servers give every chunk new ones.
                EventScope::Response => {
                    let message = &mut self.message;
                    message.id = message.id.take().or_else(|| id.take().map(Into::into));
                    message.model = message.model.take().or_else(|| model.take().map(Into::into));
                }
                EventScope::Choice | EventScope::Block(_) => {}
                EventScope::Item(item) => {
                    if let (Some(item), Some(id)) = (self.item(*item), id.take()) {
                        item.id = Some(id.into_owned());
                    }
                }
            },
            EventKind::Attachment { scope, kind, wire_type, value } => {
                if let Some((attachments, _)) = self.belongings(number, *scope) {
                    attach(attachments, *kind, wire_type, value);
                }
            }
            EventKind::Usage { counters, raw, .. } => match &mut self.message.usage {
                Some(usage) => usage.merge(counters, raw),
                None => {
                    self.message.usage = Some(Usage { counters: *counters, raw: raw.clone().into_owned() });
                }
            },
            EventKind::Finish { reason, raw } => {
                self.choice(number).finish =
                    Some(Finish { reason: *reason, raw: raw.take().map(Into::into) });
            }
            EventKind::Notice(_) | EventKind::Error(_) => {
                match std::mem::replace(&mut event.body, EventKind::End) {
                    EventKind::Notice(notice) => {
                        // A call that has ended may turn out to be truncated.
                        let is_truncated = notice.code == NoticeCode::IncompleteArguments;
                        let violation = InvalidCall::reported(&notice);
                        if let Some(block) = notice.block.and_then(|block| self.block(block))
                            && let BlockContent::ToolCall(call) = &mut block.content
                        {
                            if is_truncated {
                                call.completion = BlockCompletion::Truncated;
                            }
                            call.violation = violation.map(Box::new).or(call.violation.take());
                        }
                        self.message.notices.push(notice.into_owned());
                    }
                    EventKind::Error(error) => self.message.errors.push(error.into_owned()),
                    _ => {}
                }
            }
            EventKind::Extra { scope, path, value } => {
                if let Some((_, extra)) = self.belongings(number, *scope) {
                    extra.set(std::mem::take(path), value.clone().into_owned());
                }
            }
            EventKind::End
            | EventKind::ItemEnd { .. }
            | EventKind::Progress { .. }
            | EventKind::Markup { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::DeltaKind;

    /// Numbers of choices, blocks and items mostly are their positions, but need not be.
    #[test]
    fn whatever_the_numbers_everything_finds_its_place() {
        for numbers in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [7, 3, 1], [5, 0, 900]] {
            for choices in [[0, 0, 0], [0, 1, 0], [1, 0, 1], [3, 2, 0]] {
                let mut accumulator = Accumulator::new();
                for (number, choice) in numbers.into_iter().zip(choices) {
                    let (block, item) = (BlockId(number), ItemId(number));
                    let (id, wire_type, extra) = (None, "".into(), None);
                    accumulator.put(Event::new(choice, EventKind::ItemStart { item, id, wire_type, extra }));
                    accumulator.put(Event::new(choice, EventKind::block_start(block, BlockKind::Text)));
                }
                for (number, choice) in numbers.into_iter().zip(choices) {
                    let (block, kind, text) = (BlockId(number), DeltaKind::Text, number.to_string().into());
                    accumulator.put(Event::new(choice, EventKind::Delta { block, kind, text }));
                    let (scope, id) = (EventScope::Item(ItemId(number)), Some(number.to_string().into()));
                    accumulator.put(Event::new(choice, EventKind::Identity { scope, id, model: None }));
                    let unknown = BlockId(number + 1_000);
                    accumulator
                        .put(Event::new(choice, EventKind::Correction { block: unknown, text: "x".into() }));
                }
                let message = accumulator.take();
                let told: usize = message.choices.iter().map(|choice| choice.blocks.len()).sum();
                assert_eq!(told, numbers.len());
                for choice in &message.choices {
                    for (block, item) in choice.blocks.iter().zip(&choice.items) {
                        assert_eq!(block.content, BlockContent::Text(block.id.0.to_string()));
                        assert_eq!(item.id, Some(item.number.0.to_string()));
                        let at = numbers.iter().position(|number| *number == block.id.0).expect("told");
                        assert_eq!(choice.number, choices[at]);
                    }
                }
            }
        }
    }
    #[test]
    fn of_two_blocks_of_one_number_the_later_one_grows() {
        let mut accumulator = Accumulator::new();
        for _ in 0..2 {
            accumulator.put(Event::new(0, EventKind::block_start(BlockId(1), BlockKind::Text)));
        }
        let (block, kind) = (BlockId(1), DeltaKind::Text);
        accumulator.put(Event::new(0, EventKind::Delta { block, kind, text: "Yes".into() }));
        let texts = accumulator.message().choices[0].blocks.iter().map(|block| block.content.clone());
        assert_eq!(texts.collect::<Vec<_>>(), ["", "Yes"].map(|text| BlockContent::Text(text.into())));
    }
}
