//! The items of the output, and the blocks in each.

use std::collections::{HashMap, HashSet};

use super::body::{ResponseClosing, ResponseObject};
use crate::accumulator::Accumulator;
use crate::encode::{EncodeOptions, is_of_choice};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, ItemId, JsonText,
    ReasoningForm, Sink,
};
use crate::message::{Block, BlockContent, Choice, Message};
use crate::protocol::openai_responses::{CALLS, RESPONSE};

/// A response as it grows, and the plan of its output.
#[derive(Default)]
pub(super) struct ResponseDraft {
    accumulator: Accumulator,
    pub(super) plan: OutputPlan,
    is_normalized: bool,
    /// The id and model of the response: the latest, or for clients the first.
    id: Option<String>,
    model: Option<String>,
    /// The choice that is written: this wire has only one.
    choice: Option<u32>,
    /// Whether some reasoning came as a summary.
    has_summary: bool,
}

impl ResponseDraft {
    pub(super) fn normalized() -> Self {
        Self { is_normalized: true, ..Self::default() }
    }

    pub(super) fn message(&self) -> &Message {
        self.accumulator.message()
    }

    /// The response so far.
    pub(super) fn response<'m>(&'m self, options: &'m EncodeOptions) -> ResponseObject<'m> {
        ResponseObject::new(self.message(), [&self.id, &self.model], options)
    }

    /// The choice, and the plan of it.
    pub(super) fn parts(&mut self) -> (Option<&Choice>, &mut OutputPlan) {
        (self.accumulator.message().first(), &mut self.plan)
    }

    /// Takes an event; returns false if it is about a choice that is not written.
    pub(super) fn take(&mut self, event: &Event<'_>) -> bool {
        // Nearly all events are deltas, and they change neither id, model nor plan.
        if let EventKind::Delta { block, kind, text } = &event.body {
            let is_written = *self.choice.get_or_insert(event.choice) == event.choice;
            if is_written {
                let body = EventKind::Delta { block: *block, kind: *kind, text: text.as_ref().into() };
                self.accumulator.put(Event { choice: event.choice, source: event.source, body });
            }
            return is_written;
        }
        if is_of_choice(&event.body) && *self.choice.get_or_insert(event.choice) != event.choice {
            return false;
        }
        match &event.body {
            EventKind::Start { id, model, .. } => {
                [self.id, self.model] = [id, model].map(|name| name.as_deref().map(str::to_owned));
            }
            EventKind::Identity { scope: EventScope::Response, id, model } if !self.is_normalized => {
                for (own, given) in [(&mut self.id, id), (&mut self.model, model)] {
                    *own = given.as_deref().map(str::to_owned).or(own.take());
                }
            }
            EventKind::BlockStart { kind: BlockKind::Reasoning(ReasoningForm::Summary), .. } => {
                self.has_summary = true
            }
            _ => {}
        }
        // Borrowed from the event, to avoid a second copy.
        let body = match &event.body {
            EventKind::Usage { wire_type, counters, raw } => EventKind::Usage {
                wire_type: wire_type.as_ref().into(),
                counters: *counters,
                raw: JsonText::trusted(raw.as_str()),
            },
            EventKind::BlockStart {
                block,
                kind: BlockKind::Reasoning(ReasoningForm::Raw),
                item,
                index,
                wire_type,
                extra: members,
            } if self.is_normalized && !self.has_summary && !is_own(self.accumulator.message()) => {
                EventKind::BlockStart {
                    block: *block,
                    kind: BlockKind::Reasoning(ReasoningForm::Summary),
                    item: *item,
                    index: *index,
                    wire_type: wire_type.clone(),
                    extra: members.clone(),
                }
            }
            body => body.clone(),
        };
        self.accumulator.put(Event { choice: event.choice, source: event.source, body });
        let message = self.accumulator.message();
        let has_items = is_own(message) || !self.is_normalized;
        let Some(choice) = message.first() else { return true };
        match &event.body {
            EventKind::ItemStart { .. } if has_items => {
                self.plan.add_item(choice, choice.items.len() - 1);
            }
            EventKind::BlockStart { .. } => {
                self.plan.add_block(choice, choice.blocks.len() - 1, has_items, self.is_normalized);
            }
            _ => {}
        }
        true
    }
}

/// The items of the output, in order.
#[derive(Default)]
pub(super) struct OutputPlan {
    pub(super) entries: Vec<PlannedItem>,
    by_item: HashMap<ItemId, usize>,
    by_block: HashMap<BlockId, BlockSpot>,
    /// The number of announced entries, and the ids of the calls among them.
    announced: usize,
    calls: HashSet<String>,
    /// The ids of the announced entries.
    ids: HashSet<String>,
    /// The block of the last lookup: most events are about the same block as the one before.
    latest: Option<(BlockId, BlockSpot)>,
}

/// The position of a block: its entry, and its index in the choice.
#[derive(Clone, Copy)]
pub(super) struct BlockSpot {
    pub(super) entry: usize,
    pub(super) block: usize,
}

/// An item of the output.
pub(super) struct PlannedItem {
    /// Its index among the choice's items; none for one that is made here.
    pub(super) item: Option<usize>,
    pub(super) form: PlannedForm,
    /// The indices of its blocks in the choice.
    pub(super) blocks: Vec<usize>,
    pub(super) output_index: i64,
    /// Its id and that of its call when it was first written; made, if it had none.
    pub(super) id: String,
    pub(super) call_id: String,
    /// Whether its end has come.
    pub(super) is_ended: bool,
    /// Whether it is in the output at all.
    pub(super) is_emitted: bool,
    pub(super) is_incomplete: bool,
}

/// The kind of content of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedForm {
    Message,
    Reasoning,
    /// A call of the client's function.
    Function,
    /// A call of the client's custom tool.
    Custom,
    /// A call that only this protocol knows.
    Hosted,
    /// The result of a call.
    Output,
    /// Anything else.
    Other,
}

impl PlannedForm {
    /// The form of an item of that wire type.
    pub(super) fn of(wire_type: &str) -> Self {
        match wire_type {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Function,
            "custom_tool_call" => Self::Custom,
            _ if wire_type.ends_with("_call") || CALLS.iter().any(|(known, ..)| *known == wire_type) => {
                Self::Hosted
            }
            _ if wire_type.ends_with("_output") => Self::Output,
            _ => Self::Other,
        }
    }

    /// The wire type of an item that is made here.
    pub(super) fn wire_type(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Function => "function_call",
            Self::Custom => "custom_tool_call",
            Self::Message | Self::Hosted | Self::Output | Self::Other => "message",
        }
    }

    /// The prefix of the ids of such items.
    fn prefix(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Reasoning => "rs",
            Self::Function => "fc",
            Self::Custom => "ctc",
            Self::Hosted | Self::Output | Self::Other => "item",
        }
    }

    pub(super) fn is_call(self) -> bool {
        matches!(self, Self::Function | Self::Custom | Self::Hosted)
    }

    /// The item in which clients look for such a block; none if this wire cannot express it.
    fn holding(content: &BlockContent) -> Option<Self> {
        match content {
            BlockContent::Text(_) | BlockContent::Refusal(_) => Some(Self::Message),
            BlockContent::Reasoning { form: ReasoningForm::Redacted, text } if text.is_empty() => None,
            BlockContent::Reasoning { .. } => Some(Self::Reasoning),
            BlockContent::ToolCall(call) => match call.kind {
                CallKind::Function => Some(Self::Function),
                CallKind::Custom => Some(Self::Custom),
                // The client would run it.
                CallKind::Builtin => None,
            },
            BlockContent::ToolResult(_) | BlockContent::Opaque(_) => None,
        }
    }
}

impl PlannedItem {
    fn new(item: Option<usize>, form: PlannedForm) -> Self {
        Self {
            item,
            form,
            blocks: Vec::new(),
            output_index: 0,
            id: String::new(),
            call_id: String::new(),
            is_ended: false,
            is_emitted: false,
            is_incomplete: false,
        }
    }

    /// Its blocks.
    pub(super) fn blocks<'m>(&self, choice: &'m Choice) -> impl Iterator<Item = &'m Block> {
        self.blocks.iter().filter_map(|&at| choice.blocks.get(at))
    }

    /// The block of its call.
    pub(super) fn call<'m>(&self, choice: &'m Choice) -> Option<&'m Block> {
        self.blocks(choice).find(|block| matches!(block.content, BlockContent::ToolCall(_)))
    }

    /// Numbers it and makes its missing ids.
    fn announce(&mut self, ordinal: usize, choice: &Choice, made: &str, calls: &mut HashSet<String>) {
        self.is_emitted = true;
        self.output_index = ordinal as i64;
        let own = self.item.and_then(|at| choice.items.get(at)?.id.clone());
        self.id = own.unwrap_or_else(|| format!("{}_{made}_{ordinal}", self.form.prefix()));
        if let Some(Block { content: BlockContent::ToolCall(call), .. }) = self.call(choice) {
            self.call_id.clone_from(&call.id);
            // Results refer to their call by its id.
            if !calls.insert(self.call_id.clone()) {
                self.call_id = format!("{}_{ordinal}", call.id);
            }
        }
    }

    /// Whether it has content to write.
    fn has_content(&self, choice: &Choice) -> bool {
        self.item.is_some() || self.blocks(choice).any(|block| !is_empty(block))
    }
}

/// Whether the block is an empty text.
pub(super) fn is_empty(block: &Block) -> bool {
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) | BlockContent::Reasoning { text, .. } => {
            text.is_empty()
        }
        BlockContent::ToolCall(_) | BlockContent::ToolResult(_) | BlockContent::Opaque(_) => false,
    }
}

/// Whether the response came in this protocol.
pub(super) fn is_own(message: &Message) -> bool {
    message.wire_type == RESPONSE
}

impl OutputPlan {
    /// Returns the plan of a complete message.
    pub(super) fn of(message: &Message, is_normalized: bool) -> Self {
        let mut plan = Self::default();
        let Some(choice) = message.first() else { return plan };
        let has_items = is_own(message) || !is_normalized;
        let positions: HashMap<_, _> =
            choice.items.iter().enumerate().map(|(at, item)| (item.number, at)).collect();
        let known = |block: &Block| block.item.and_then(|item| positions.get(&item).copied());
        // A call found in a text comes after the items before it, and some of these hold no block.
        let mut later = choice.items.len();
        let mut behind: Vec<usize> = Vec::with_capacity(choice.blocks.len());
        for block in choice.blocks.iter().rev() {
            behind.push(match known(block) {
                Some(known) => {
                    later = known;
                    known + 1
                }
                None if is_normalized && matches!(block.content, BlockContent::ToolCall(_)) => later,
                None => 0,
            });
        }
        let mut items = 0;
        for (at, until) in behind.into_iter().rev().enumerate() {
            while has_items && items < until {
                plan.add_item(choice, items);
                items += 1;
            }
            plan.add_block(choice, at, has_items, is_normalized);
        }
        while has_items && items < choice.items.len() {
            plan.add_item(choice, items);
            items += 1;
        }
        plan
    }

    /// Ends every entry and numbers them as a stream would have.
    pub(super) fn close(&mut self, message: &Message, closing: &ResponseClosing<'_>, made: &str) {
        let Some(choice) = message.first() else { return };
        let last = self.entries.len();
        for at in 0..last {
            if self.entries[at].has_content(choice) {
                self.announce(at, choice, made);
            }
            self.entries[at].end(choice, at + 1 == last && !closing.is_completed());
        }
    }

    /// Numbers an entry and makes its missing ids.
    pub(super) fn announce(&mut self, entry: usize, choice: &Choice, made: &str) {
        let entry = &mut self.entries[entry];
        entry.announce(self.announced, choice, made, &mut self.calls);
        // Some providers give several items the same id, and clients would take them for one.
        let given = entry.id.len();
        let mut number = 1;
        while !self.ids.insert(entry.id.clone()) {
            number += 1;
            entry.id.truncate(given);
            entry.id.push_str(&format!("_{number}"));
        }
        self.announced += 1;
    }

    /// Takes an item of the choice.
    fn add_item(&mut self, choice: &Choice, item: usize) {
        if let Some(own) = choice.items.get(item) {
            self.by_item.insert(own.number, self.entries.len());
            self.entries.push(PlannedItem::new(Some(item), PlannedForm::of(&own.wire_type)));
        }
    }

    /// Takes a block of the choice, if the wire can express it.
    fn add_block(
        &mut self,
        choice: &Choice,
        block: usize,
        has_items: bool,
        is_normalized: bool,
    ) -> Option<()> {
        let own = choice.blocks.get(block)?;
        let known = own.item.filter(|_| has_items).and_then(|item| self.by_item.get(&item).copied());
        let entry = match known {
            Some(entry) => entry,
            None if !is_normalized && own.wire_type == super::body::REASONING => return None,
            None => {
                let form = PlannedForm::holding(&own.content)?;
                let is_free =
                    |entry: &PlannedItem| entry.item.is_none() && entry.form == form && !form.is_call();
                match self.entries.last() {
                    Some(last) if is_free(last) => self.entries.len() - 1,
                    _ => {
                        self.entries.push(PlannedItem::new(None, form));
                        self.entries.len() - 1
                    }
                }
            }
        };
        self.entries[entry].blocks.push(block);
        self.by_block.insert(own.id, BlockSpot { entry, block });
        Some(())
    }

    pub(super) fn entry_of(&self, item: ItemId) -> Option<usize> {
        self.by_item.get(&item).copied()
    }

    pub(super) fn spot(&mut self, block: BlockId) -> Option<BlockSpot> {
        if let Some((_, spot)) = self.latest.filter(|(latest, _)| *latest == block) {
            return Some(spot);
        }
        let spot = *self.by_block.get(&block)?;
        self.latest = Some((block, spot));
        Some(spot)
    }
}

impl PlannedItem {
    /// Ends it. The call itself says whether it is complete; any other item is incomplete if the response was truncated
    /// in it.
    pub(super) fn end(&mut self, choice: &Choice, is_truncated: bool) {
        self.is_ended = true;
        self.is_incomplete = match self.call(choice).map(|block| &block.content) {
            Some(BlockContent::ToolCall(call)) => call.completion != BlockCompletion::Complete,
            _ => is_truncated && matches!(self.form, PlannedForm::Message | PlannedForm::Reasoning),
        };
    }
}
