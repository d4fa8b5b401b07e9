//! Payloads of any wrapping in; records of the tool calls, and their changes, out.
//!
//! The [`ToolCallAggregator`] serves handlers that pass a model's calls on to a client. It is fed one decoded payload at a time
//! (chat deltas and chunks, Responses events, Codex app-server notifications, or a message of any of them) and returns
//! the calls that changed. It owns no clock, no stream and no policy: the handler decides what to send and when to stop
//! ([`policy`] has the decisions as functions).
//!
//! ```
//! use callweave::compat::tool_call_aggregator::ToolCallAggregator;
//! use serde_json::json;
//!
//! let mut aggregator = ToolCallAggregator::new();
//! let first = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "look", "arguments": "{\"at\":"}}]});
//! let ingested = aggregator.ingest_delta(&first, None);
//! assert!(ingested.updated);
//! let delta = json!({"id": "c", "type": "function", "function": {"name": "look"}, "arguments": "{\"at\":"});
//! assert_eq!(json!(ingested.deltas[0]), delta);
//!
//! aggregator.ingest_delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"sky\"}"}}]}), None);
//! let snapshot = aggregator.snapshot(None);
//! assert_eq!(snapshot[0].arguments(), r#"{"at":"sky"}"#);
//! ```
//!
//! Invariants: choices are isolated; calls keep the order in which they became known, and their ids; argument text is
//! as the model wrote it, never parsed; a call is known as soon as its name is. Results borrow from the aggregator, so
//! a delta costs as much as changed, not as much as is held. The aggregator holds the argument text, and
//! [`ToolCallAggregator::reset_turn`] frees it.

mod payload;
pub mod policy;
mod record;
mod text;

use std::collections::{BTreeMap, HashMap};

use self::payload::{PayloadReader, forbids_parallel};
use self::record::CallNews;
pub use self::record::{IngestDeltaResult, ToolCallDelta, ToolCallRecord};
use self::text::BlockPatterns;
pub use self::text::{ParsedTextBlock, TextBlocks, extract_use_tool_blocks, use_tool_blocks};
use crate::accumulator::Accumulator;
use crate::dialect::CallMatcher;
use crate::event::{BlockId, BlockKind, Event, EventKind, Sink};
use crate::finalize::Finalizer;
use crate::fragment::{BlockKey, FragmentSink};
use crate::json::{AsValue, Tape, Value};
use crate::message::{Block, BlockContent, ToolCall};
use crate::protocol::CallPortion;
use crate::weave::{PendingCall, Weave};

/// The calls of a turn. See the [module](self).
#[derive(Default)]
pub struct ToolCallAggregator {
    turn: TurnState,
    patterns: BlockPatterns,
    forbids_parallel: bool,
}

/// How [`ToolCallAggregator::ingest_message`] reads a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestMessageOptions {
    /// Return the calls that no delta has emitted yet, and where a choice has no calls at all, make them from the
    /// blocks in its text.
    pub emit_if_missing: bool,
}

/// All that a turn holds.
#[derive(Default)]
struct TurnState {
    weave: Weave,
    close: Finalizer,
    answer: Accumulator,
    frames: u64,
    tape: Tape,
    watch: CallHistory,
    /// The changes that the last ingest is to report.
    changes: Vec<CallChange>,
}

/// The facts remembered of the calls besides their text.
#[derive(Default)]
struct CallHistory {
    choices: BTreeMap<u32, Vec<EmittedCall>>,
    blocks: HashMap<BlockId, (u32, usize)>,
    /// The calls of each choice that have not ended.
    open: BTreeMap<u32, Vec<usize>>,
    /// The calls that the current ingest changed.
    touched: Vec<(u32, usize)>,
}

/// The part of a call that was emitted.
struct EmittedCall {
    id: String,
    is_told: bool,
    name: String,
    arguments: usize,
    /// The provider replaced the text since.
    is_corrected: bool,
}

struct CallChange {
    choice: u32,
    ordinal: usize,
    news: CallNews,
    increment_from: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Emission {
    Changes,
    Missing,
    Nothing,
}

/// An aggregator before its first turn, under the document's name: [`ToolCallAggregator::new`].
pub fn create_tool_call_aggregator() -> ToolCallAggregator {
    ToolCallAggregator::new()
}

impl ToolCallAggregator {
    /// An aggregator before its first turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one delta or event, and returns the calls that it changed. The choice is 0 unless said; where the payload
    /// names its choices, its own count.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// use serde_json::json;
    ///
    /// let mut aggregator = ToolCallAggregator::new();
    /// let payload = json!({"function_call": {"name": "look"}});
    /// assert_eq!(aggregator.ingest_delta(&payload, 2).deltas[0].call.id, "tool_2_0");
    /// assert!(!aggregator.ingest_delta(&json!({"content": "hello"}), 2).updated);
    /// ```
    pub fn ingest_delta(
        &mut self,
        payload: &impl AsValue,
        choice: impl Into<Option<u32>>,
    ) -> IngestDeltaResult<'_> {
        self.read(payload, choice.into(), CallPortion::Piece);
        self.turn.note(Emission::Changes);
        self.turn.ingested()
    }

    /// Takes a complete message. Argument text in it replaces the text that deltas emitted before.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::{ToolCallAggregator, IngestMessageOptions};
    /// use serde_json::json;
    ///
    /// let mut aggregator = ToolCallAggregator::new();
    /// let message = json!({"content": "<use_tool><name>look</name><args>{}</args></use_tool>"});
    /// aggregator.ingest_message(&message, None, IngestMessageOptions::default());
    /// assert!(!aggregator.has_calls(None));
    /// aggregator.ingest_message(&message, None, IngestMessageOptions { emit_if_missing: true });
    /// assert_eq!(aggregator.snapshot(None)[0].name, "look");
    /// ```
    pub fn ingest_message(
        &mut self,
        payload: &impl AsValue,
        choice: impl Into<Option<u32>>,
        options: IngestMessageOptions,
    ) -> IngestDeltaResult<'_> {
        let texts = self.read(payload, choice.into(), CallPortion::Complete);
        let Self { turn, patterns, .. } = self;
        turn.note(Emission::Nothing);
        if options.emit_if_missing {
            for (choice, text) in texts {
                if !turn.has_calls(choice) {
                    let mut reader =
                        PayloadReader { turn, portion: CallPortion::Complete, texts: BTreeMap::new() };
                    patterns.blocks(&text).iter().for_each(|block| reader.put_text_call(choice, block));
                    turn.note(Emission::Nothing);
                }
            }
            turn.note(Emission::Missing);
        }
        turn.ingested()
    }

    /// Reads a payload; the text of each choice.
    fn read(
        &mut self,
        payload: &impl AsValue,
        choice: Option<u32>,
        portion: CallPortion,
    ) -> BTreeMap<u32, String> {
        let turn = &mut self.turn;
        let mut tape = std::mem::take(&mut turn.tape);
        let mut reader = PayloadReader { turn, portion, texts: BTreeMap::new() };
        // A value that is too long to be laid out is no payload.
        if let Ok(payload) = tape.lay_out(&payload.as_value()) {
            self.forbids_parallel |= forbids_parallel(payload);
            reader.read(payload, choice.unwrap_or(0));
        }
        let texts = reader.texts;
        self.turn.tape = tape;
        texts
    }

    /// The calls of a choice as they stand, in the order in which they became known.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// assert!(ToolCallAggregator::new().snapshot(None).is_empty());
    /// ```
    pub fn snapshot(&self, choice: impl Into<Option<u32>>) -> Vec<ToolCallRecord<'_>> {
        let choice = choice.into().unwrap_or(0);
        let count = self.turn.watch.choices.get(&choice).map_or(0, Vec::len);
        (0..count).filter_map(|ordinal| self.turn.record(choice, ordinal)).collect()
    }

    /// The calls of a choice as a message's `tool_calls`.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// assert_eq!(ToolCallAggregator::new().tool_calls(None), json!([]));
    /// ```
    pub fn tool_calls(&self, choice: impl Into<Option<u32>>) -> Value {
        self.snapshot(choice).iter().map(ToolCallRecord::to_tool_call).collect()
    }

    /// The first call of a choice as a message's singular `function_call`.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// assert_eq!(ToolCallAggregator::new().function_call(None), None);
    /// ```
    pub fn function_call(&self, choice: impl Into<Option<u32>>) -> Option<Value> {
        self.snapshot(choice).first().map(ToolCallRecord::to_function_call)
    }

    /// Whether the choice has calls.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f"}}), 1);
    /// assert!(aggregator.has_calls(1) && !aggregator.has_calls(None));
    /// ```
    pub fn has_calls(&self, choice: impl Into<Option<u32>>) -> bool {
        self.turn.has_calls(choice.into().unwrap_or(0))
    }

    /// The choices that have calls.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f"}}), 1);
    /// assert!(aggregator.choices().eq([1]));
    /// ```
    pub fn choices(&self) -> impl Iterator<Item = u32> {
        self.turn.watch.choices.keys().copied()
    }

    /// Whether calls may run in parallel: until a payload says otherwise.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// assert!(aggregator.supports_parallel_calls());
    /// aggregator.ingest_delta(&json!({"parallel_tool_calls": false}), None);
    /// assert!(!aggregator.supports_parallel_calls());
    /// ```
    pub fn supports_parallel_calls(&self) -> bool {
        !self.forbids_parallel
    }

    /// Forgets all calls, for the next turn. Registered patterns stay.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f"}}), None);
    /// aggregator.reset_turn();
    /// assert!(!aggregator.has_calls(None));
    /// ```
    pub fn reset_turn(&mut self) {
        self.turn = TurnState::default();
    }

    /// Registers a pattern beside the built-in `<use_tool>`, which stays as it is. A pattern of the same name is
    /// replaced. The matcher is given the complete text of a message; if it panics, or returns a range that is none, it
    /// is left out.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::{ToolCallAggregator, ParsedTextBlock};
    ///
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.register_text_pattern("brackets", |buffer: &str| {
    ///     let found = buffer.find("[[").zip(buffer.find("]]")).filter(|(start, end)| start < end);
    ///     found.map(|(start, end)| ParsedTextBlock::new(start..end + 2, &buffer[start + 2..end], "{}")).into_iter().collect()
    /// });
    /// assert_eq!(aggregator.extract_text_blocks("so: [[look]]")[0].name, "look");
    /// ```
    pub fn register_text_pattern(
        &mut self,
        name: &str,
        matcher: impl Fn(&str) -> Vec<ParsedTextBlock> + Send + Sync + 'static,
    ) {
        let find = move |buffer: &str| matcher(buffer).into_iter().map(Into::into).collect();
        self.patterns.register(CallMatcher::new(name, find));
    }

    /// Takes a registered pattern away; whether there was one.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.register_text_pattern("none", |_| Vec::new());
    /// assert!(aggregator.unregister_text_pattern("none") && !aggregator.unregister_text_pattern("none"));
    /// ```
    pub fn unregister_text_pattern(&mut self, name: &str) -> bool {
        self.patterns.unregister(name)
    }

    /// The complete `<use_tool>` blocks in a buffer, regardless of other registered patterns.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// let buffer = "<use_tool><name>look</name></use_tool>";
    /// assert_eq!(ToolCallAggregator::new().extract_use_tool_blocks(buffer)[0].index_end, buffer.len());
    /// ```
    pub fn extract_use_tool_blocks(&self, buffer: &str) -> Vec<ParsedTextBlock> {
        extract_use_tool_blocks(buffer)
    }

    /// The blocks of all patterns in a buffer, by position; none overlap.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// assert!(ToolCallAggregator::new().extract_text_blocks("nothing here").is_empty());
    /// ```
    pub fn extract_text_blocks(&self, buffer: &str) -> Vec<ParsedTextBlock> {
        self.patterns.blocks(buffer)
    }
}

impl TurnState {
    /// Takes the fragments of one call.
    fn push(&mut self, call: impl FnOnce(&mut FragmentSink<'_>)) {
        let Self { weave, close, answer, frames, watch, .. } = self;
        let mut watching = CallWatcher { answer, watch };
        weave.push(*frames, call, &mut |event: Event<'_>| close.push(event, &mut watching));
        *frames += 1;
    }

    /// The only call of the choice that is open, if there is just one: its id, else its block key, else neither, where
    /// it is the last one.
    fn only_open(&self, choice: u32) -> Option<(Option<String>, Option<BlockKey>)> {
        let mut waiting = self.weave.pending().filter(|call| call.choice == choice);
        let open = self.watch.open.get(&choice).map_or(&[][..], Vec::as_slice);
        match (open, waiting.next(), waiting.next()) {
            (&[], Some(call), None) => Some((call.id.map(str::to_owned), None)),
            (&[only], None, None) => {
                let block = self.block(choice, only)?;
                let id = as_call(block).filter(|call| !call.has_made_id).map(|call| call.id.clone());
                let is_last = only + 1 == self.count_started(choice);
                let place = block.index.filter(|_| !is_last && id.is_none()).map(BlockKey::at);
                Some((id, place))
            }
            _ => None,
        }
    }

    fn block(&self, choice: u32, ordinal: usize) -> Option<&Block> {
        self.answer.message().choice(choice)?.blocks.get(ordinal)
    }

    /// The call of that ordinal, where it has a block.
    fn started(&self, choice: u32, ordinal: usize) -> Option<&ToolCall> {
        self.block(choice, ordinal).and_then(as_call)
    }

    fn count_started(&self, choice: u32) -> usize {
        self.answer.message().choice(choice).map_or(0, |choice| choice.blocks.len())
    }

    /// The call of that ordinal, where its name may still grow and it has no block.
    fn waiting(&self, choice: u32, ordinal: usize) -> Option<PendingCall<'_>> {
        let position = ordinal.checked_sub(self.count_started(choice))?;
        self.weave.pending().filter(|call| call.choice == choice).nth(position)
    }

    fn has_calls(&self, choice: u32) -> bool {
        self.watch.choices.get(&choice).is_some_and(|calls| !calls.is_empty())
    }

    /// The call as it stands; its id is the one it was first known by.
    fn record(&self, choice: u32, ordinal: usize) -> Option<ToolCallRecord<'_>> {
        let id = self.watch.choices.get(&choice)?.get(ordinal)?.id.as_str();
        if let Some(block) = self.block(choice, ordinal)
            && let Some(call) = as_call(block)
        {
            return Some(ToolCallRecord {
                id,
                provider_id: (!call.has_made_id).then_some(call.id.as_str()),
                ordinal,
                kind: call.kind,
                name: &call.name,
                arguments: &call.raw_arguments,
                completion: block.is_ended.then_some(call.completion),
            });
        }
        let PendingCall { id: provider_id, name, arguments, kind, .. } = self.waiting(choice, ordinal)?;
        Some(ToolCallRecord { id, provider_id, ordinal, kind, name, arguments, completion: None })
    }

    /// Remembers the calls that were touched, and works out which changes to emit.
    fn note(&mut self, tell: Emission) {
        self.changes.clear();
        let mut touched = std::mem::take(&mut self.watch.touched);
        let is_started = touched.len();
        for call in self.weave.pending() {
            let ahead = touched[is_started..].iter().filter(|(choice, _)| *choice == call.choice).count();
            touched.push((call.choice, self.count_started(call.choice) + ahead));
        }
        touched.sort_unstable();
        touched.dedup();
        for &(choice, ordinal) in &touched {
            self.know(choice, ordinal);
            if tell == Emission::Changes {
                self.tell(choice, ordinal);
            }
        }
        touched.clear();
        self.watch.touched = touched;
        if tell == Emission::Missing {
            let choices = self.watch.choices.iter();
            let untold = choices.flat_map(|(&choice, calls)| {
                let untold = calls.iter().enumerate().filter(|(_, known)| !known.is_told);
                untold.map(move |(ordinal, _)| (choice, ordinal))
            });
            for (choice, ordinal) in untold.collect::<Vec<_>>() {
                self.tell(choice, ordinal);
            }
        }
    }

    /// Gives a call that is new its id.
    fn know(&mut self, choice: u32, ordinal: usize) {
        let count = self.watch.choices.get(&choice).map_or(0, Vec::len);
        if ordinal < count {
            return;
        }
        let id = match self.started(choice, ordinal) {
            Some(call) => call.id.clone(),
            None => {
                let given = self.waiting(choice, ordinal).and_then(|call| call.id);
                given.map_or_else(|| self.close.made_id(choice, ordinal), str::to_owned)
            }
        };
        self.watch.choices.entry(choice).or_default().push(EmittedCall {
            id,
            is_told: false,
            name: String::new(),
            arguments: 0,
            is_corrected: false,
        });
    }

    fn tell(&mut self, choice: u32, ordinal: usize) {
        let Some(record) = self.record(choice, ordinal) else { return };
        let (name, length) = (record.name.to_owned(), record.arguments.len());
        let Some(known) = self.watch.choices.get_mut(&choice).and_then(|calls| calls.get_mut(ordinal)) else {
            return;
        };
        // A name only grows.
        let news = CallNews {
            identity: !known.is_told,
            name: (known.name != name).then_some(known.name.len()),
            arguments: known.is_corrected || known.arguments != length,
        };
        if news == CallNews::default() {
            return;
        }
        let increment_from = (!known.is_corrected).then_some(known.arguments);
        self.changes.push(CallChange { choice, ordinal, news, increment_from });
        *known = EmittedCall {
            id: std::mem::take(&mut known.id),
            is_told: true,
            name,
            arguments: length,
            is_corrected: false,
        };
    }

    fn ingested(&self) -> IngestDeltaResult<'_> {
        let deltas: Vec<_> = self
            .changes
            .iter()
            .filter_map(|change| {
                let &CallChange { choice, ordinal, news, increment_from } = change;
                let call = self.record(choice, ordinal)?;
                let increment = increment_from.and_then(|from| call.arguments.get(from..));
                Some(ToolCallDelta { choice, call, increment, news })
            })
            .collect();
        IngestDeltaResult { updated: !deltas.is_empty(), deltas }
    }
}

fn as_call(block: &Block) -> Option<&ToolCall> {
    match &block.content {
        BlockContent::ToolCall(call) => Some(call),
        _ => None,
    }
}

/// Collects the calls and remembers which of them changed.
struct CallWatcher<'w> {
    answer: &'w mut Accumulator,
    watch: &'w mut CallHistory,
}

impl<'e> Sink<Event<'e>> for CallWatcher<'_> {
    fn put(&mut self, event: Event<'e>) {
        let Self { answer, watch } = self;
        match &event.body {
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { .. }, .. } => {
                let ordinal = answer.message().choice(event.choice).map_or(0, |choice| choice.blocks.len());
                watch.blocks.insert(*block, (event.choice, ordinal));
                watch.touched.push((event.choice, ordinal));
                watch.open.entry(event.choice).or_default().push(ordinal);
            }
            EventKind::Delta { block, .. } => watch.touched.extend(watch.blocks.get(block)),
            EventKind::Correction { block, .. } => {
                if let Some(&(choice, ordinal)) = watch.blocks.get(block) {
                    watch.touched.push((choice, ordinal));
                    let known = watch.choices.get_mut(&choice).and_then(|calls| calls.get_mut(ordinal));
                    if let Some(known) = known {
                        known.is_corrected = true;
                    }
                }
            }
            EventKind::BlockEnd { block, .. } => {
                if let Some((choice, ordinal)) = watch.blocks.get(block) {
                    watch.open.entry(*choice).or_default().retain(|open| open != ordinal);
                }
            }
            EventKind::Identity { .. } => {}
            // Notices are reported to nobody here, and must not be held.
            _ => return,
        }
        answer.put(event);
    }
}
