//! The extractor as a stage between a protocol and the receiver of its events.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::calls::{CallCollector, CollectedCall};
use super::emit::BlockEmitter;
use super::extractor::{ExtractOptions, Extractor};
use super::spec::TextStart;
use crate::encode::objects::{self, INVALID_JSON};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, DeltaKind, Event, EventKind, EventScope, EventSink, FinishReason,
    ItemId, JsonText, Notice, NoticeCode, Sink,
};
use crate::json::compact_into;

/// Reads the visible text of every choice in a dialect, and passes everything else on.
///
/// Text blocks go in, and the content of the text comes out: text, reasoning, calls. Blocks are numbered anew. Once a
/// protocol begins a call of its own in a choice, the text of that choice is passed on as it is; a call of its own that
/// only repeats one of the text gives that one its id. A response that breaks off, or that a limit truncates, did not
/// end with the call it shows; one about whose end nothing is reported did. Where the provider corrects a text that
/// held nothing but text so far, the final text is read anew.
///
/// ```
/// use callweave::dialect::{ExtractOptions, DialectStage};
/// use callweave::event::{EventKind, BlockId, BlockKind, DeltaKind, Event};
///
/// let mut events: Vec<Event<'static>> = Vec::new();
/// let mut stage = DialectStage::new(&ExtractOptions::new("hermes")?);
/// stage.push(Event::new(0, EventKind::block_start(BlockId(0), BlockKind::Text)), &mut events);
/// let text = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>".into();
/// stage.push(Event::new(0, EventKind::Delta { block: BlockId(0), kind: DeltaKind::Text, text }), &mut events);
/// stage.push(Event::new(0, EventKind::BlockEnd { block: BlockId(0), completion: Default::default() }), &mut events);
/// stage.finish(&mut events);
/// assert!(events.iter().any(|event| matches!(
///     &event.body,
///     EventKind::BlockStart { kind: BlockKind::ToolCall { name, .. }, .. } if name == "look"
/// )));
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug)]
pub struct DialectStage {
    options: ExtractOptions,
    choices: Vec<ChoiceText>,
    /// The dialect of a response that is over.
    dialect: Option<String>,
    next_block: u32,
    /// Whether the response broke off, so that it did not end by itself.
    is_truncated: bool,
}

#[derive(Debug, Default)]
struct ChoiceText {
    number: u32,
    /// Reads the text, until the protocol begins a call of its own.
    extractor: Option<Extractor>,
    /// The protocol's blocks, and their numbers here; none for text that is being read.
    blocks: BTreeMap<u32, Option<BlockId>>,
    found: FoundEvents,
    /// How many of the protocol's text blocks the extractor has been given.
    texts: usize,
    /// Calls of the protocol's own that may repeat one of the text.
    held: Vec<HeldBlock>,
    /// The dialect of the text that was read.
    dialect: Option<String>,
    /// Reads the protocol's own reasoning, and the calls in it.
    reasoning: Option<(Extractor, CallCollector)>,
}

/// The blocks and calls that the extractor found.
#[derive(Debug, Default)]
struct FoundEvents {
    /// Its blocks, in the order of their numbers.
    made: Vec<BlockId>,
    /// The text block that is open.
    text: Option<BlockId>,
    /// An open text block that was emptied by a correction, for the text that comes.
    emptied: Option<BlockId>,
    /// The calls that no call of the protocol's own has repeated.
    calls: CallCollector,
    /// Whether visible text or a call came.
    has_spoken: bool,
    /// The item whose text is read.
    item: Option<ItemId>,
    /// The wire's own type of the text block that is read.
    wire_type: String,
    /// The extra fields of its start, for the first text block made of it.
    extra: Option<JsonText<'static>>,
    /// The beginning of an item of which nothing was emitted yet: if its text is all calls, there is none.
    begun: Option<(ItemId, Event<'static>)>,
    /// The end of the item, which ends with the blocks made of its text.
    ended: Option<Event<'static>>,
    /// Whether calls behind a damaged one count; if not, the one that is open, and its arguments.
    accepts_after_damage: bool,
    refused: Option<(BlockId, String)>,
}

#[derive(Debug)]
struct HeldBlock {
    call: CollectedCall,
    /// The events about it.
    events: Vec<Event<'static>>,
}

impl DialectStage {
    /// A stage for the dialect and tools of `options`.
    pub fn new(options: &ExtractOptions) -> Self {
        let options = options.clone();
        Self { options, choices: Vec::new(), dialect: None, next_block: 0, is_truncated: false }
    }

    /// Says that no more events will come, and ends what is open.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        let answer = if std::mem::take(&mut self.is_truncated) {
            BlockCompletion::Truncated
        } else {
            BlockCompletion::Complete
        };
        for at in 0..self.choices.len() {
            end_text(&mut self.choices[at], answer, &mut self.next_block, sink);
            for held in std::mem::take(&mut self.choices[at].held) {
                held.events.into_iter().for_each(|event| self.pass(at, event, sink));
            }
        }
    }

    /// The dialect in which something was found in the first choice that has any; see [`Extractor::dialect`].
    pub fn dialect(&self) -> Option<&str> {
        let mut found = self.choices.iter().filter_map(|choice| match &choice.extractor {
            Some(extractor) => extractor.dialect(),
            None => choice.dialect.as_deref(),
        });
        self.dialect.as_deref().or_else(|| found.next())
    }

    /// Holds the events of a call that may repeat one of the text, until its end shows whether it does. Returns the
    /// event if it is to be passed on.
    fn hold<'e>(&mut self, at: usize, event: Event<'e>, sink: &mut EventSink<'_>) -> Option<Event<'e>> {
        let choice = &mut self.choices[at];
        if let EventKind::BlockStart { block, kind: BlockKind::ToolCall { name, .. }, .. } = &event.body {
            // A call that the text only shows is no call where the protocol itself calls.
            choice.found.has_spoken = true;
            end_text(choice, BlockCompletion::Truncated, &mut self.next_block, sink);
            if choice.found.calls.whole.iter().any(|told| told.name == *name) {
                let call = CollectedCall { block: *block, name: name.to_string(), arguments: String::new() };
                choice.held.push(HeldBlock { call, events: vec![event.into_owned()] });
                return None;
            }
        }
        let Some(block) = event.body.block().filter(|_| !choice.held.is_empty()) else {
            return Some(event);
        };
        let Some(held_at) = choice.held.iter().position(|held| held.call.block == block) else {
            return Some(event);
        };
        let held = &mut choice.held[held_at];
        match &event.body {
            EventKind::Delta { text, .. } => held.call.arguments.push_str(text),
            EventKind::Correction { text, .. } => held.call.arguments = text.to_string(),
            _ => {}
        }
        let is_over = matches!(event.body, EventKind::BlockEnd { .. });
        held.events.push(event.into_owned());
        if is_over {
            let held = choice.held.remove(held_at);
            self.settle(at, held, sink);
        }
        None
    }

    /// Emits a call that was held, or gives the call of the text that it repeats its identity.
    fn settle(&mut self, at: usize, held: HeldBlock, sink: &mut EventSink<'_>) {
        let told = &mut self.choices[at].found.calls.whole;
        let arguments = compact(&held.call.arguments);
        let is_same =
            |told: &CollectedCall| told.name == held.call.name && compact(&told.arguments) == arguments;
        let same = told.iter().position(is_same);
        let Some(same) = same else {
            return held.events.into_iter().for_each(|event| self.pass(at, event, sink));
        };
        let own = told.remove(same).block;
        self.choices[at].blocks.insert(held.call.block.0, Some(own));
        for event in held.events {
            let Event { choice, body, .. } = event;
            match body {
                EventKind::BlockStart { kind: BlockKind::ToolCall { id: Some(id), .. }, .. } => {
                    sink.put(Event::new(
                        choice,
                        EventKind::Identity { scope: EventScope::Block(own), id: Some(id), model: None },
                    ));
                }
                EventKind::BlockStart { .. }
                | EventKind::Delta { .. }
                | EventKind::Correction { .. }
                | EventKind::BlockEnd { .. } => {}
                body => self.pass(at, Event::new(choice, body), sink),
            }
        }
    }

    /// Reads the final text in place of the draft, where nothing but text was made of that.
    fn correct(&mut self, at: usize, text: &str, sink: &mut EventSink<'_>) {
        let choice = &mut self.choices[at];
        let is_text_only = match choice.found.made[..] {
            [] => true,
            [only] => choice.found.text == Some(only),
            _ => false,
        };
        if choice.extractor.is_none() || choice.texts > 1 || !is_text_only {
            let detail = "a text was corrected after calls had been read in it";
            let notice = Notice {
                text: Some(Cow::Borrowed(text)),
                ..Notice::new(NoticeCode::LateFragment, 0, detail)
            };
            return sink.put(Event::new(choice.number, EventKind::Notice(notice)));
        }
        if let Some(block) = choice.found.text.take() {
            let body = EventKind::Correction { block, text: Cow::Borrowed("") };
            sink.put(Event::new(choice.number, body));
            choice.found.emptied = Some(block);
        }
        choice.found.made.clear();
        let mut extractor = self.options.extractor(choice.number);
        let ChoiceText { found, number, .. } = choice;
        let mut renumber =
            BlockRenumbering { found, choice: *number, next_block: &mut self.next_block, sink };
        extractor.push(text, &mut renumber);
        choice.extractor = Some(extractor);
    }
}

/// The arguments without blanks between their tokens; none are `{}`.
fn compact(arguments: &str) -> String {
    let mut compact = String::new();
    let is_empty = arguments.trim_ascii().is_empty();
    compact_into(if is_empty { "{}" } else { arguments }, &mut compact);
    compact
}

impl DialectStage {
    /// Takes the next event.
    pub fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        if matches!(event.body, EventKind::End) {
            self.finish(sink);
            self.dialect = self.dialect().map(str::to_owned);
            self.choices.clear();
            self.next_block = 0;
            return sink.put(event);
        }
        let at = self.choices.iter().position(|choice| choice.number == event.choice).unwrap_or_else(|| {
            let extractor = Some(self.options.extractor(event.choice));
            self.choices.reserve_exact(usize::from(self.choices.is_empty()));
            let accepts_after_damage = self.options.accepts_after_damage();
            let found = FoundEvents { accepts_after_damage, ..FoundEvents::default() };
            self.choices.push(ChoiceText { number: event.choice, extractor, found, ..ChoiceText::default() });
            self.choices.len() - 1
        });
        if let Some(event) = self.hold(at, event, sink) {
            self.pass(at, event, sink);
        }
    }

    /// Reads the text of an event, or passes it on with the number that its block has here.
    fn pass(&mut self, at: usize, event: Event<'_>, sink: &mut EventSink<'_>) {
        let Some(mut event) = self.choices[at].keep_item(event, sink) else { return };
        let choice = &mut self.choices[at];
        let next_block = &mut self.next_block;
        match &mut event.body {
            EventKind::BlockStart { block, kind, item, wire_type, extra, .. } => {
                if matches!(kind, BlockKind::Text) && choice.extractor.is_some() {
                    choice.found.item = *item;
                    wire_type.as_ref().clone_into(&mut choice.found.wire_type);
                    choice.found.extra = extra.take().map(JsonText::into_owned);
                    choice.blocks.insert(block.0, None);
                    choice.texts += 1;
                    return;
                }
                let own = number(next_block);
                choice.blocks.insert(block.0, Some(own));
                *block = own;
            }
            EventKind::Delta { block, text, kind } => match choice.own(*block) {
                Some(Some(own)) => {
                    if *kind == DeltaKind::Reasoning && choice.extractor.is_some() {
                        let begin = || {
                            let options = self.options.clone().starting_in(TextStart::Reasoning);
                            (options.extractor(choice.number), CallCollector::default())
                        };
                        let (thinker, calls) = choice.reasoning.get_or_insert_with(begin);
                        thinker.push(text, calls);
                    }
                    *block = own;
                }
                Some(None) => {
                    let ChoiceText { extractor, found, number, .. } = choice;
                    match extractor {
                        Some(extractor) => {
                            let mut renumber = BlockRenumbering { found, choice: *number, next_block, sink };
                            extractor.push(text, &mut renumber);
                            return;
                        }
                        // The text block was begun before the protocol's own call.
                        None => *block = choice.reopen(*block, next_block, sink),
                    }
                }
                None => return,
            },
            EventKind::Correction { block, text } => match choice.own(*block) {
                Some(Some(own)) => *block = own,
                Some(None) => return self.correct(at, text, sink),
                None => return,
            },
            EventKind::BlockEnd { block, .. } => match choice.own(*block) {
                Some(Some(own)) => *block = own,
                _ => return,
            },
            EventKind::Identity { scope, .. }
            | EventKind::Attachment { scope, .. }
            | EventKind::Extra { scope, .. }
            | EventKind::Progress { scope, .. } => {
                if let EventScope::Block(block) = *scope {
                    // An event about a text that is being read refers to the block that was made of it last.
                    *scope = match choice.own(block) {
                        Some(Some(own)) => EventScope::Block(own),
                        _ => choice.found.text.map_or(EventScope::Choice, EventScope::Block),
                    };
                }
            }
            EventKind::Finish { reason, .. } => {
                let is_truncated = matches!(
                    reason,
                    FinishReason::Length | FinishReason::ContentFilter | FinishReason::Error
                );
                end_text(
                    choice,
                    if is_truncated { BlockCompletion::Truncated } else { BlockCompletion::Complete },
                    next_block,
                    sink,
                );
            }
            EventKind::Error(_) => self.is_truncated = true,
            EventKind::Notice(notice) => self.is_truncated |= notice.code == NoticeCode::Truncated,
            EventKind::Start { .. }
            | EventKind::ChoiceStart
            | EventKind::ItemStart { .. }
            | EventKind::ItemEnd { .. }
            | EventKind::Usage { .. }
            | EventKind::Markup { .. }
            | EventKind::End => {}
        }
        sink.put(event);
    }
}

fn number(next_block: &mut u32) -> BlockId {
    let block = BlockId(*next_block);
    *next_block += 1;
    block
}

/// Ends the text of a choice, and with it all that was found in it.
fn end_text(
    choice: &mut ChoiceText,
    answer: BlockCompletion,
    next_block: &mut u32,
    sink: &mut EventSink<'_>,
) {
    if let Some(mut extractor) = choice.extractor.take() {
        let ChoiceText { found, number, dialect, reasoning, .. } = choice;
        let mut renumber = BlockRenumbering { found, choice: *number, next_block, sink };
        extractor.end(answer, &mut renumber);
        renumber.end_emptied();
        renumber.end_item();
        *dialect = extractor.dialect().map(str::to_owned);
        // They are meant where the response ends with them, nothing else said.
        let Some((mut thinker, mut calls)) = reasoning.take().filter(|_| !found.has_spoken) else { return };
        thinker.end(answer, &mut calls);
        let mut emitter = BlockEmitter::new(*number);
        emitter.next_block = *next_block;
        emitter.emit_meant(&calls.whole, sink);
        *next_block = emitter.next_block;
    }
}

impl ChoiceText {
    /// Keeps the beginning and the end of an item until it is known what is made of its text. Returns the event if it
    /// is to be passed on.
    fn keep_item<'e>(&mut self, event: Event<'e>, sink: &mut EventSink<'_>) -> Option<Event<'e>> {
        if self.extractor.is_none() {
            return Some(event);
        }
        let found = &mut self.found;
        let pending = found.begun.as_ref().map(|(item, _)| *item);
        let is_shown = match &event.body {
            EventKind::ItemStart { .. } => true,
            EventKind::BlockStart { kind, item, .. } => !matches!(kind, BlockKind::Text) || *item != pending,
            EventKind::Identity { scope: EventScope::Item(item), .. }
            | EventKind::Attachment { scope: EventScope::Item(item), .. }
            | EventKind::Extra { scope: EventScope::Item(item), .. } => Some(*item) == pending,
            // Of an item without text nothing can be made.
            EventKind::ItemEnd { item } => Some(*item) == pending && found.item != pending,
            _ => false,
        };
        if let Some((_, begun)) = found.begun.take_if(|_| is_shown) {
            sink.put(begun);
        }
        match event.body {
            EventKind::ItemStart { item, .. } => {
                found.begun = Some((item, event.into_owned()));
                None
            }
            EventKind::ItemEnd { item } if found.item == Some(item) => {
                found.ended = Some(event.into_owned());
                None
            }
            _ => Some(event),
        }
    }

    fn own(&self, block: BlockId) -> Option<Option<BlockId>> {
        self.blocks.get(&block.0).copied()
    }

    /// Gives a text block that is no longer read a block of its own.
    fn reopen(&mut self, block: BlockId, next_block: &mut u32, sink: &mut EventSink<'_>) -> BlockId {
        let own = number(next_block);
        self.blocks.insert(block.0, Some(own));
        let (kind, wire_type) = (BlockKind::Text, self.found.wire_type.as_str().into());
        let (item, index, extra) = (None, None, self.found.extra.take());
        let body = EventKind::BlockStart { block: own, item, kind, wire_type, index, extra };
        sink.put(Event::new(self.number, body));
        own
    }
}

/// Gives the extractor's blocks their numbers in the complete response, and remembers its calls.
struct BlockRenumbering<'r, 's> {
    found: &'r mut FoundEvents,
    choice: u32,
    next_block: &'r mut u32,
    sink: &'r mut EventSink<'s>,
}

impl<'e> Sink<Event<'e>> for BlockRenumbering<'_, '_> {
    fn put(&mut self, mut event: Event<'e>) {
        match &mut event.body {
            EventKind::BlockStart { block, kind, item, wire_type, extra, .. } => {
                let is_text = matches!(kind, BlockKind::Text);
                if is_text {
                    if let Some((_, begun)) = self.found.begun.take() {
                        self.sink.put(begun);
                    }
                    *item = self.found.item;
                    *wire_type = self.found.wire_type.clone().into();
                    *extra = self.found.extra.take();
                }
                self.found.has_spoken |= is_text || matches!(kind, BlockKind::ToolCall { .. });
                let emptied = self.found.emptied.take_if(|_| is_text);
                self.end_emptied();
                let own = emptied.unwrap_or_else(|| number(self.next_block));
                self.found.made.push(own);
                self.found.text = is_text.then_some(own);
                *block = own;
                if emptied.is_some() {
                    return;
                }
            }
            EventKind::BlockEnd { block, .. } => {
                self.found.text = None;
                *block = self.own(*block);
                self.tell_refused(*block);
            }
            EventKind::Delta { block, text, .. } => {
                *block = self.own(*block);
                if let Some((refused, arguments)) = &mut self.found.refused
                    && refused == block
                {
                    return arguments.push_str(text);
                }
            }
            EventKind::Correction { block, .. } => *block = self.own(*block),
            EventKind::Identity { scope: EventScope::Block(block), .. } => *block = self.own(*block),
            EventKind::Notice(notice) => {
                notice.block = notice.block.map(|block| self.own(block));
                if notice.code == NoticeCode::AfterDamage && !self.found.accepts_after_damage {
                    self.found.refused = notice.block.map(|block| (block, String::new()));
                }
            }
            _ => {}
        }
        self.found.calls.follow(&event.body);
        self.sink.put(event);
    }
}

impl BlockRenumbering<'_, '_> {
    fn own(&self, block: BlockId) -> BlockId {
        // The extractor numbers its blocks from 0 without gaps.
        self.found.made.get(block.0 as usize).copied().unwrap_or(block)
    }

    /// Emits the arguments of a call that must not be run, wrapped as invalid: many clients run what they can parse.
    fn tell_refused(&mut self, ended: BlockId) {
        if let Some((block, arguments)) = self.found.refused.take_if(|(block, _)| *block == ended) {
            let text = objects::under(INVALID_JSON, &arguments);
            let body = EventKind::Delta { block, kind: DeltaKind::Arguments, text };
            self.sink.put(Event::new(self.choice, body));
        }
    }

    /// Ends the item that was read, if anything of it was emitted. One that has begun behind it is emitted now.
    fn end_item(&mut self) {
        let read = self.found.item;
        let (begun, ended) = (self.found.begun.take(), self.found.ended.take());
        let is_untold = begun.as_ref().is_some_and(|(item, _)| Some(*item) == read);
        let begun = begun.map(|(_, begun)| begun);
        for event in ended.into_iter().chain(begun).filter(|_| !is_untold) {
            self.sink.put(event);
        }
    }

    /// Ends the block that was emptied and that no text came for.
    fn end_emptied(&mut self) {
        if let Some(block) = self.found.emptied.take() {
            let body = EventKind::BlockEnd { block, completion: BlockCompletion::Complete };
            self.sink.put(Event::new(self.choice, body));
        }
    }
}
