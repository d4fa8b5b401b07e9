//! The extractor as a stage between a protocol and whatever takes its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::extractor::{Extractor, Options};
use super::plan::Plan;
use crate::event::{BlockId, BlockKind, Body, CallKind, Completion, Event, FinishReason, Sink};

/// Reads the visible text of every choice in a dialect, and passes everything else on.
///
/// Text blocks go in, and whatever the text holds comes out: text, thoughts, calls. Blocks are numbered
/// anew. Once a protocol begins a call of its own in a choice, the text of that choice is passed on as it
/// is. A choice that only stopped, but holds whole calls, finishes with
/// [`FinishReason::ToolCalls`]. Call [`Stage::finish`] when no more events will come.
///
/// ```
/// use callweave::dialect::{Options, Stage};
/// use callweave::event::{Body, BlockId, BlockKind, Event, Sink};
///
/// let mut events: Vec<Event<'static>> = Vec::new();
/// let mut stage = Stage::new(&Options::new("hermes")?, &mut events);
/// stage.put(Event::new(0, Body::BlockStart { block: BlockId(0), kind: BlockKind::Text }));
/// let text = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>".into();
/// stage.put(Event::new(0, Body::Delta { block: BlockId(0), text }));
/// stage.put(Event::new(0, Body::BlockEnd { block: BlockId(0), completion: Default::default() }));
/// stage.finish();
/// assert!(events.iter().any(|event| matches!(
///     &event.body,
///     Body::BlockStart { kind: BlockKind::ToolCall { name, .. }, .. } if name == "look"
/// )));
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug)]
pub struct Stage<'s, S: ?Sized> {
    options: Options,
    plan: Arc<Plan>,
    choices: Vec<Choice>,
    next_block: u32,
    next: &'s mut S,
}

#[derive(Debug)]
struct Choice {
    number: u32,
    /// Reads the text, until the protocol begins a call of its own.
    extractor: Option<Extractor>,
    /// The protocol's blocks, and what they are called here; none for text that is being read. Blocks that have
    /// ended stay: details of a thought may follow it.
    blocks: BTreeMap<u32, Option<BlockId>>,
    /// The extractor's blocks, in the order of their numbers.
    made: Vec<BlockId>,
    calls: usize,
    has_cut_call: bool,
}

impl<'s, S: for<'e> Sink<Event<'e>> + ?Sized> Stage<'s, S> {
    /// A stage in front of `next`.
    pub fn new(options: &Options, next: &'s mut S) -> Self {
        Self { options: options.clone(), plan: options.plan(), choices: Vec::new(), next_block: 0, next }
    }

    /// Says that no more events will come, and ends what is open.
    pub fn finish(&mut self) {
        for choice in &mut self.choices {
            end_text(choice, &mut self.next_block, self.next);
        }
    }
}

impl<'e, S: for<'a> Sink<Event<'a>> + ?Sized> Sink<Event<'e>> for Stage<'_, S> {
    fn put(&mut self, event: Event<'e>) {
        let at = self.choices.iter().position(|choice| choice.number == event.choice).unwrap_or_else(|| {
            let engine = self.options.engine(Arc::clone(&self.plan), event.choice);
            self.choices.push(Choice {
                number: event.choice,
                extractor: Some(Extractor::of(engine)),
                blocks: BTreeMap::new(),
                made: Vec::new(),
                calls: 0,
                has_cut_call: false,
            });
            self.choices.len() - 1
        });
        let choice = &mut self.choices[at];
        let next_block = &mut self.next_block;
        let mut event = event;
        match &mut event.body {
            Body::BlockStart { block, kind } => {
                if matches!(kind, BlockKind::ToolCall { .. }) {
                    end_text(choice, next_block, self.next);
                    choice.extractor = None;
                }
                if matches!(kind, BlockKind::Text) && choice.extractor.is_some() {
                    choice.blocks.insert(block.0, None);
                    return;
                }
                let own = number(next_block);
                choice.blocks.insert(block.0, Some(own));
                *block = own;
            }
            Body::Delta { block, text } => match choice.own(*block) {
                Some(Some(own)) => *block = own,
                Some(None) => {
                    let Choice { extractor, made, calls, has_cut_call, .. } = choice;
                    match extractor {
                        Some(extractor) => {
                            let mut renumber =
                                Renumber { made, calls, has_cut_call, next_block, next: self.next };
                            extractor.push(text, &mut renumber);
                            return;
                        }
                        // The text block was begun before the protocol's own call.
                        None => *block = choice.reopen(*block, next_block, self.next),
                    }
                }
                None => return,
            },
            Body::BlockEnd { block, .. } | Body::Identity { block, .. } | Body::Correction { block, .. } => {
                match choice.own(*block) {
                    Some(Some(own)) => *block = own,
                    _ => return,
                }
            }
            Body::ReasoningDetail { block, .. }
            | Body::Annotation { block, .. }
            | Body::ToolResult { block, .. }
            | Body::Foreign { block, .. } => {
                // What is said of a text that is being read is said of what was made of it last.
                *block = block.and_then(|block| match choice.own(block)? {
                    Some(own) => Some(own),
                    None => choice.made.last().copied(),
                });
            }
            Body::Finish { reason, .. } => {
                end_text(choice, next_block, self.next);
                if *reason == FinishReason::Stop && choice.calls > 0 && !choice.has_cut_call {
                    *reason = FinishReason::ToolCalls;
                }
            }
            Body::Start { .. }
            | Body::Logprobs { .. }
            | Body::Usage { .. }
            | Body::Markup { .. }
            | Body::Notice(_)
            | Body::Error(_) => {}
        }
        self.next.put(event);
    }
}

fn number(next_block: &mut u32) -> BlockId {
    let block = BlockId(*next_block);
    *next_block += 1;
    block
}

/// Ends the text of a choice, and with it all that was found in it.
fn end_text<S: for<'e> Sink<Event<'e>> + ?Sized>(choice: &mut Choice, next_block: &mut u32, next: &mut S) {
    if let Some(mut extractor) = choice.extractor.take() {
        let Choice { made, calls, has_cut_call, .. } = choice;
        extractor.finish(&mut Renumber { made, calls, has_cut_call, next_block, next });
    }
}

impl Choice {
    fn own(&self, block: BlockId) -> Option<Option<BlockId>> {
        self.blocks.get(&block.0).copied()
    }

    /// Gives a text block that is no longer read a block of its own.
    fn reopen<S: for<'e> Sink<Event<'e>> + ?Sized>(
        &mut self,
        block: BlockId,
        next_block: &mut u32,
        next: &mut S,
    ) -> BlockId {
        let own = number(next_block);
        self.blocks.insert(block.0, Some(own));
        next.put(Event::new(self.number, Body::BlockStart { block: own, kind: BlockKind::Text }));
        own
    }
}

/// Gives the extractor's blocks their numbers in the whole answer.
struct Renumber<'r, S: ?Sized> {
    made: &'r mut Vec<BlockId>,
    calls: &'r mut usize,
    has_cut_call: &'r mut bool,
    next_block: &'r mut u32,
    next: &'r mut S,
}

impl<'e, S: for<'a> Sink<Event<'a>> + ?Sized> Sink<Event<'e>> for Renumber<'_, S> {
    fn put(&mut self, mut event: Event<'e>) {
        match &mut event.body {
            Body::BlockStart { block, kind } => {
                let own = number(self.next_block);
                self.made.push(own);
                *block = own;
                if matches!(kind, BlockKind::ToolCall { call: CallKind::Function | CallKind::Custom, .. }) {
                    *self.calls += 1;
                }
            }
            Body::BlockEnd { block, completion } => {
                *self.has_cut_call |= *completion == Completion::Cut;
                *block = self.own(*block);
            }
            Body::Delta { block, .. } | Body::Identity { block, .. } | Body::Correction { block, .. } => {
                *block = self.own(*block);
            }
            _ => {}
        }
        self.next.put(event);
    }
}

impl<S: ?Sized> Renumber<'_, S> {
    fn own(&self, block: BlockId) -> BlockId {
        // The extractor numbers its blocks from 0 without gaps.
        self.made.get(block.0 as usize).copied().unwrap_or(block)
    }
}
