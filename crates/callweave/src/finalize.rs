//! The last stage: completions that are possible only when nothing changes calls any more.
//!
//! [`Finalizer`] stands after the weave, the extractor and the argument stage. It makes the ids that providers did not
//! give, and derives the finish reason from the actual content: `tool_calls` where calls wait for the client and every
//! one is complete, the provider's own reason else. No other stage does either.

use std::borrow::Cow;

use crate::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, EventSink, FinishReason,
    NoticeCode,
};
use crate::fingerprint::keyed_digest;
use crate::made_id::MadeIds;
use crate::table::OrderedTable;

/// Makes ids and derives finish reasons. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Finalizer {
    prefix: Option<String>,
    /// Makes ids in place of the prefix.
    ids: Option<MadeIds>,
    choices: OrderedTable<u32, ChoiceTally>,
    /// Ids that providers gave and that look like made ones, so that made ones stay unique.
    taken: OrderedTable<String, ()>,
    has_failed: bool,
}

/// The calls of a choice.
#[derive(Clone, Debug, Default)]
struct ChoiceTally {
    calls: usize,
    /// The calls that wait for the client.
    waiting: OrderedTable<BlockId, WaitingCall>,
    /// The highest number among them.
    last: Option<BlockId>,
    /// The waiting calls by the ids of results: built only where a result came, or an id came late, which is rare.
    answers: Option<Box<WaitingCalls>>,
}

#[derive(Clone, Debug)]
struct WaitingCall {
    is_answered: bool,
    completion: BlockCompletion,
    /// The digest of its first id.
    id: u64,
}

/// The calls that wait, by their ids.
#[derive(Clone, Debug, Default)]
struct WaitingCalls {
    /// The number of calls that are known here by their first ids.
    known: usize,
    /// The index of the last call with that id, if no result has come for it.
    by_id: OrderedTable<u64, Option<usize>>,
    /// The calls with ids: the position of each, and the earlier call with the same id.
    named: Vec<(usize, Option<usize>)>,
}

impl WaitingCalls {
    fn name(&mut self, id: u64, at: usize) {
        let last = self.by_id.get_or_insert_with(id, || None);
        let earlier = last.replace(self.named.len());
        self.named.push((at, earlier));
    }
}

impl ChoiceTally {
    fn wait(&mut self, block: BlockId, id: &str) {
        let (completion, id) = (BlockCompletion::Truncated, keyed_digest(id));
        let call = WaitingCall { is_answered: false, completion, id };
        // Usually they are numbered as they come.
        let known = self.last.filter(|last| block <= *last).and_then(|_| self.waiting.position(&block));
        self.last = self.last.max(Some(block));
        let Some(at) = known else {
            self.waiting.append(block, call);
            return;
        };
        // A result for the call that had this number before must find it by its id, too.
        self.answers();
        *self.waiting.at_mut(at) = call;
        self.answers().name(id, at);
    }

    /// All waiting calls, by their ids.
    fn answers(&mut self) -> &mut WaitingCalls {
        let answers = self.answers.get_or_insert_default();
        for (at, (_, call)) in self.waiting.all().iter().enumerate().skip(answers.known) {
            answers.name(call.id, at);
        }
        answers.known = self.waiting.len();
        answers
    }

    /// Takes a late id of a call, if the call waits.
    fn name(&mut self, block: BlockId, id: &str) {
        if let Some(at) = self.waiting.position(&block) {
            self.answers().name(keyed_digest(id), at);
        }
    }

    /// Marks the calls of that id as answered: the client waits for them no longer.
    fn answer(&mut self, id: &str) {
        let mut next = self.answers().by_id.get_mut(&keyed_digest(id)).and_then(Option::take);
        while let Some((at, earlier)) = next.map(|next| self.answers().named[next]) {
            self.waiting.at_mut(at).is_answered = true;
            next = earlier;
        }
    }
}

/// The default prefix of made ids.
const PREFIX: &str = "tool";

impl Finalizer {
    /// A stage that makes ids of the form `tool_<choice>_<ordinal>`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with another prefix: with a prefix of its own for each response, ids never repeat in a conversation.
    pub fn with_prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: Some(prefix.into()), ..Self::default() }
    }

    /// A stage that makes ids of a seed: `call_` and letters and digits. With a seed of its own for each response, ids
    /// never repeat in a conversation; the ids of one response differ in the first letters and digits behind `call_`,
    /// since some clients shorten ids.
    ///
    /// ```
    /// use callweave::finalize::Finalizer;
    ///
    /// let close = Finalizer::with_seed("7f3a");
    /// let (one, other) = (close.made_id(0, 0), close.made_id(0, 1));
    /// assert_ne!(one[..10], other[..10]);
    /// ```
    pub fn with_seed(seed: impl AsRef<str>) -> Self {
        Self { ids: Some(MadeIds::new(seed.as_ref())), ..Self::default() }
    }

    /// Takes the next event.
    pub fn push(&mut self, mut event: Event<'_>, sink: &mut EventSink<'_>) {
        self.look_at(&mut event);
        sink.put(event);
    }

    /// Completes an event.
    #[inline]
    pub(crate) fn look_at(&mut self, event: &mut Event<'_>) {
        // Most events are deltas, and need no completion.
        if !matches!(event.body, EventKind::Delta { .. }) {
            self.look_at_other(event);
        }
    }

    fn look_at_other(&mut self, event: &mut Event<'_>) {
        match &mut event.body {
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { id, is_made, call, .. }, .. } => {
                *is_made = id.is_none();
                match id {
                    Some(id) => self.take(id),
                    None => *id = Some(Cow::Owned(self.make(event.choice))),
                }
                let tally = self.tally(event.choice);
                tally.calls += 1;
                if *call != CallKind::Builtin {
                    tally.wait(*block, id.as_deref().unwrap_or_default());
                }
            }
            EventKind::BlockStart { kind: BlockKind::ToolResult { call: Some(call), .. }, .. } => {
                // A call whose result came in the same response does not wait.
                self.tally(event.choice).answer(call);
            }
            EventKind::BlockEnd { block, completion } => {
                let tally = self.choices.get_mut(&event.choice);
                if let Some(call) = tally.and_then(|tally| tally.waiting.get_mut(block)) {
                    call.completion = *completion;
                }
            }
            EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
                self.take(id);
                if let Some(tally) = self.choices.get_mut(&event.choice) {
                    tally.name(*block, id);
                }
            }
            // A call that has ended may turn out to be truncated.
            EventKind::Notice(notice) if notice.code == NoticeCode::IncompleteArguments => {
                let call = notice.block.zip(self.choices.get_mut(&event.choice));
                if let Some(call) = call.and_then(|(block, tally)| tally.waiting.get_mut(&block)) {
                    call.completion = BlockCompletion::Truncated;
                }
            }
            EventKind::Error(_) => self.has_failed = true,
            EventKind::Finish { reason, .. } => *reason = self.reason(event.choice, *reason),
            EventKind::End => {
                self.choices.clear();
                self.taken.clear();
                self.has_failed = false;
            }
            _ => {}
        }
    }

    fn tally(&mut self, number: u32) -> &mut ChoiceTally {
        self.choices.get_or_insert_with(number, ChoiceTally::default)
    }

    fn take(&mut self, id: &str) {
        // Many providers' ids begin with the prefix itself.
        let rest = id.strip_prefix(self.prefix.as_deref().unwrap_or(PREFIX));
        if rest.is_some_and(|rest| rest.starts_with('_')) {
            self.taken.insert(id.to_owned(), ());
        }
    }

    fn make(&mut self, choice: u32) -> String {
        let ordinal = self.tally(choice).calls;
        self.made_id(choice, ordinal)
    }

    /// The id that is made for the call of that ordinal in its choice, if its provider gives none.
    pub fn made_id(&self, choice: u32, ordinal: usize) -> String {
        if let Some(ids) = &self.ids {
            return ids.id(choice, ordinal);
        }
        let prefix = self.prefix.as_deref().unwrap_or(PREFIX);
        // No `format!`, which costs ten times as much.
        let (mut one, mut other) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut id = [prefix, one.format(choice), other.format(ordinal)].join("_");
        while self.taken.contains(&*id) {
            id.push('_');
        }
        id
    }

    fn reason(&self, choice: u32, said: FinishReason) -> FinishReason {
        let waiting = self.choices.get(&choice).map_or(&[][..], |tally| tally.waiting.all());
        let mut waiting = waiting.iter().map(|(_, call)| call).filter(|call| !call.is_answered).peekable();
        let is_waiting = waiting.peek().is_some();
        let is_truncated = waiting.any(|call| call.completion != BlockCompletion::Complete);
        match said {
            _ if self.has_failed => FinishReason::Error,
            _ if is_waiting && !is_truncated => FinishReason::ToolCalls,
            // A provider that promises calls and sends none would make an agent wait for ever.
            FinishReason::ToolCalls if !is_truncated => FinishReason::Stop,
            said => said,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::JsonText;

    fn call(block: u32, id: Option<&'static str>) -> Vec<EventKind<'static>> {
        let (id, name, call) = (id.map(Cow::Borrowed), "look".into(), CallKind::Function);
        let kind = BlockKind::ToolCall { id, is_made: false, name, call };
        let end = EventKind::BlockEnd { block: BlockId(block), completion: BlockCompletion::Complete };
        vec![EventKind::block_start(BlockId(block), kind), end]
    }

    fn result(block: u32, id: &'static str) -> Vec<EventKind<'static>> {
        let (call, value) = (Some(Cow::Borrowed(id)), JsonText::trusted("1"));
        vec![EventKind::block_start(BlockId(block), BlockKind::ToolResult { call, value })]
    }

    fn late(block: u32, id: &'static str) -> Vec<EventKind<'static>> {
        vec![EventKind::Identity {
            scope: EventScope::Block(BlockId(block)),
            id: Some(id.into()),
            model: None,
        }]
    }

    /// A call that has a result waits no longer, by any of its ids; a call that comes after the result waits.
    #[test]
    fn calls_wait_until_each_is_answered() {
        let cases = [
            (vec![call(0, Some("a"))], true),
            (vec![call(0, Some("a")), result(1, "a")], false),
            (vec![call(0, Some("a")), result(1, "b")], true),
            (vec![call(0, Some("a")), result(1, "a"), call(2, Some("b"))], true),
            (vec![call(0, Some("a")), result(1, "a"), call(2, Some("b")), result(3, "b")], false),
            (vec![call(0, Some("a")), result(1, "a"), call(2, Some("a"))], true),
            (vec![call(0, Some("a")), call(1, Some("a")), result(2, "a")], false),
            (vec![call(0, None), late(0, "a"), result(1, "a")], false),
            (vec![call(0, None), late(0, "a"), result(1, "tool_0_0")], false),
            (vec![call(0, None), late(0, "a"), call(1, Some("b")), result(2, "a")], true),
            (vec![call(0, None), late(0, "a"), call(1, Some("b")), result(2, "a"), result(3, "b")], false),
            // A number that comes again, in any order.
            (vec![call(4, Some("b")), call(4, Some("c")), result(3, "b")], false),
            (vec![call(4, Some("b")), call(4, Some("c")), result(3, "c")], false),
            (vec![call(5, Some("a")), call(3, Some("b")), call(4, Some("c")), call(5, Some("d"))], true),
            (
                vec![
                    call(5, Some("a")),
                    call(3, Some("b")),
                    call(5, Some("d")),
                    result(6, "d"),
                    result(7, "b"),
                ],
                false,
            ),
        ];
        for (events, is_waiting) in cases {
            let (mut close, mut told) = (Finalizer::new(), Vec::<Event<'static>>::new());
            let finish = EventKind::Finish { reason: FinishReason::Stop, raw: None };
            for body in events.iter().flatten().cloned().chain([finish]) {
                close.push(Event::new(0, body), &mut told);
            }
            let reason = if is_waiting { FinishReason::ToolCalls } else { FinishReason::Stop };
            let last = told.pop().map(|event| event.body);
            assert_eq!(last, Some(EventKind::Finish { reason, raw: None }), "{events:?}");
        }
    }
}
