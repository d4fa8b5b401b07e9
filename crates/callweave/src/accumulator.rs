//! Events → message.
//!
//! The [`Accumulator`] is a sink of events and holds the [`Message`] they amount to. Taking an event costs
//! O(1) amortised: every block grows in one contiguous buffer, and blocks are found by number. The message
//! can be looked at while it grows.
//!
//! ```
//! use callweave::accumulator::Accumulator;
//! use callweave::event::{BlockId, BlockKind, Body, Event, Sink};
//!
//! let mut accumulator = Accumulator::new();
//! accumulator.put(Event::new(0, Body::BlockStart { block: BlockId(0), kind: BlockKind::Text }));
//! accumulator.put(Event::new(0, Body::Delta { block: BlockId(0), text: "Hello".into() }));
//! assert_eq!(accumulator.message().text(), "Hello");
//! ```

use std::collections::{HashMap, HashSet};

use crate::event::{BlockId, BlockKind, Body, Completion, DetailKind, Event, Notice, NoticeCode, Sink};
use crate::json::Value;
use crate::message::{
    Annotation, Block, Choice, Content, Finish, Message, ReasoningDetail, ToolCall, ToolResult, Usage,
};

/// The state of an answer, and the answers before it in the same input. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Accumulator {
    answer: Answer,
    /// Whether the answer is over: the next event begins another.
    is_ended: bool,
    earlier: Vec<Message>,
}

/// An answer as it grows.
#[derive(Clone, Debug, Default)]
struct Answer {
    message: Message,
    /// Where each block stands: its choice and its position there.
    blocks: HashMap<BlockId, (usize, usize)>,
    /// The block of the last event: most events continue what the one before began.
    latest: Option<(BlockId, usize, usize)>,
    choices: HashMap<u32, Tally>,
    /// Provider ids that look like made ones, so that made ones stay unique.
    taken_ids: HashSet<String>,
}

/// What must be found quickly in a choice.
#[derive(Clone, Debug, Default)]
struct Tally {
    at: usize,
    calls: usize,
    details: HashMap<(Option<BlockId>, Option<i64>, DetailKind), usize>,
}

impl Accumulator {
    /// An accumulator before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// The message so far; where the input has several answers, that of the last.
    pub fn message(&self) -> &Message {
        &self.answer.message
    }

    /// The messages of all answers so far, the growing one last.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.earlier.iter().chain([self.message()])
    }

    /// The message; the accumulator is ready for the next turn. Of several answers in one input it is the
    /// first, with a notice that there are more: [`Accumulator::take_all`] has them.
    pub fn take(&mut self) -> Message {
        let mut messages = self.take_all().into_iter();
        let mut first = messages.next().unwrap_or_default();
        if messages.len() > 0 {
            let detail = format!("more answers follow in the same input: {}", messages.len());
            first.notices.push(Notice::new(NoticeCode::Other, 0, detail));
        }
        first
    }

    /// The messages of all answers; the accumulator is ready for the next turn.
    pub fn take_all(&mut self) -> Vec<Message> {
        let Self { answer, mut earlier, .. } = std::mem::take(self);
        earlier.push(answer.message);
        earlier
    }

    /// Adds a notice to the message, even if the answer is over.
    pub(crate) fn annotate(&mut self, notice: Notice<'static>) {
        self.answer.message.notices.push(notice);
    }

    /// Forgets everything, for the next turn.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

impl<'e> Sink<Event<'e>> for Accumulator {
    fn put(&mut self, event: Event<'e>) {
        // What is noticed after the end is noticed of the answer before it.
        if self.is_ended && !matches!(event.body, Body::Notice(_) | Body::End) {
            self.is_ended = false;
            self.earlier.push(std::mem::take(&mut self.answer).message);
        }
        self.is_ended |= matches!(event.body, Body::End);
        self.answer.put(event);
    }
}

impl Answer {
    fn tally(&mut self, number: u32) -> &mut Tally {
        let choices = &mut self.message.choices;
        self.choices.entry(number).or_insert_with(|| {
            choices.push(Choice { number, ..Choice::default() });
            Tally { at: choices.len() - 1, ..Tally::default() }
        })
    }

    fn choice(&mut self, number: u32) -> &mut Choice {
        let at = self.tally(number).at;
        &mut self.message.choices[at]
    }

    fn block(&mut self, block: BlockId) -> Option<&mut Block> {
        let (choice, at) = match self.latest {
            Some((latest, choice, at)) if latest == block => (choice, at),
            _ => *self.blocks.get(&block)?,
        };
        self.latest = Some((block, choice, at));
        self.message.choices.get_mut(choice)?.blocks.get_mut(at)
    }

    fn start_block(&mut self, event: &Event<'_>, block: BlockId, kind: &BlockKind<'_>) {
        let number = event.choice;
        let tally = self.tally(number);
        let choice = tally.at;
        let content = match kind {
            BlockKind::Text => Content::Text(String::new()),
            BlockKind::Reasoning => Content::Reasoning(String::new()),
            BlockKind::Refusal => Content::Refusal(String::new()),
            BlockKind::ToolCall { id, name, index, call } => {
                let ordinal = tally.calls;
                tally.calls += 1;
                let given = id.as_ref().map(|id| id.to_string());
                let has_made_id = given.is_none();
                if let Some(id) = given.as_ref().filter(|id| id.starts_with("tool_")) {
                    self.taken_ids.insert(id.clone());
                }
                Content::ToolCall(ToolCall {
                    id: given.unwrap_or_else(|| self.make_id(number, ordinal)),
                    has_made_id,
                    name: name.to_string(),
                    index: *index,
                    raw_arguments: String::new(),
                    kind: *call,
                    completion: Completion::Cut,
                })
            }
        };
        let blocks = &mut self.message.choices[choice].blocks;
        self.blocks.insert(block, (choice, blocks.len()));
        blocks.push(Block {
            id: block,
            content,
            is_ended: false,
            source: event.source,
            foreign: Default::default(),
        });
    }

    fn make_id(&self, choice: u32, ordinal: usize) -> String {
        let mut id = format!("tool_{choice}_{ordinal}");
        while self.taken_ids.contains(&id) {
            id.push('_');
        }
        id
    }
}

impl Block {
    fn text_mut(&mut self) -> &mut String {
        match &mut self.content {
            Content::Text(text) | Content::Reasoning(text) | Content::Refusal(text) => text,
            Content::ToolCall(call) => &mut call.raw_arguments,
        }
    }
}

impl Answer {
    fn put(&mut self, event: Event<'_>) {
        let number = event.choice;
        match event.body {
            Body::Delta { block, text } => {
                let source = event.source;
                if let Some(block) = self.block(block) {
                    block.text_mut().push_str(&text);
                    block.source.end = block.source.end.max(source.end);
                }
            }
            Body::Start { id, model } => {
                let message = &mut self.message;
                message.id = message.id.take().or(id.map(Into::into));
                // Told again only when another model answers.
                message.model = model.map(Into::into).or(message.model.take());
            }
            Body::BlockStart { block, ref kind } => self.start_block(&event, block, kind),
            Body::Identity { block, id } => {
                if let Some(Block { content: Content::ToolCall(call), .. }) = self.block(block) {
                    call.id = id.into_owned();
                    call.has_made_id = false;
                }
            }
            Body::Correction { block, text } => {
                if let Some(block) = self.block(block) {
                    let own = block.text_mut();
                    own.clear();
                    own.push_str(&text);
                }
            }
            Body::BlockEnd { block, completion } => {
                let source = event.source;
                if let Some(block) = self.block(block) {
                    block.is_ended = true;
                    block.source.end = block.source.end.max(source.end);
                    if let Content::ToolCall(call) = &mut block.content {
                        call.completion = completion;
                    }
                }
            }
            Body::ReasoningDetail { block, detail } => {
                let tally = self.tally(number);
                let choice = tally.at;
                let key = (block, detail.index, detail.kind);
                // Without a number nothing says that two details belong together.
                let known = detail.index.or(block.map(|_| 0)).and_then(|_| tally.details.get(&key).copied());
                let details = &mut self.message.choices[choice].reasoning_details;
                match known.and_then(|at| details.get_mut(at)) {
                    Some(ReasoningDetail { detail: known, .. }) => {
                        let data = known.data.to_mut();
                        match detail.kind {
                            DetailKind::Text | DetailKind::Summary => {}
                            DetailKind::Signature | DetailKind::Encrypted | DetailKind::Redacted => {
                                data.clear()
                            }
                        }
                        data.push_str(&detail.data);
                        known.extra = detail.extra.map(|extra| extra.into_owned()).or(known.extra.take());
                    }
                    None => {
                        let at = details.len();
                        details.push(ReasoningDetail { block, detail: detail.into_owned() });
                        self.tally(number).details.insert(key, at);
                    }
                }
            }
            Body::Annotation { block, value } => {
                self.choice(number).annotations.push(Annotation { block, value: value.to_value() });
            }
            Body::Logprobs { value } => match value.to_value() {
                Value::Array(entries) => self.choice(number).logprobs.extend(entries),
                entry => self.choice(number).logprobs.push(entry),
            },
            Body::ToolResult { block, call, value } => {
                let (call, value) = (call.map(Into::into), value.to_value());
                self.choice(number).tool_results.push(ToolResult { block, call, value });
            }
            Body::Usage { counters, ref raw } => {
                self.message.usage.get_or_insert_with(Usage::default).merge(&counters, raw);
            }
            Body::Finish { reason, raw } => {
                self.choice(number).finish = Some(Finish { reason, raw: raw.map(Into::into) });
            }
            Body::Markup { .. } | Body::End => {}
            Body::Notice(notice) => self.message.notices.push(notice.into_owned()),
            Body::Error(error) => self.message.errors.push(error.into_owned()),
            Body::Foreign { block, path, value } => {
                let value = value.to_value();
                let foreign = match block {
                    Some(block) => self.block(block).map(|block| &mut block.foreign),
                    None if path.starts_with("choices[]") || path.starts_with("candidates[]") => {
                        Some(&mut self.choice(number).foreign)
                    }
                    None => Some(&mut self.message.foreign),
                };
                let Some(foreign) = foreign else { return };
                match foreign.get_mut(path.as_ref()) {
                    Some(Value::Array(list)) if path.ends_with("[]") => list.push(value),
                    _ if path.ends_with("[]") => {
                        foreign.insert(path.into_owned(), vec![value]);
                    }
                    _ => {
                        foreign.insert(path.into_owned(), value);
                    }
                }
            }
        }
    }
}
