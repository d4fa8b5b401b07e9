//! Ends a response after its calls, and leaves out the text behind them.

use std::collections::{HashMap, HashSet};

use super::super::policy::{StopMode, StopPolicy};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, EventSink, FinishReason,
    ItemId,
};

/// Ends a response after its calls. A call passes to its end, or not at all.
#[derive(Debug, Default)]
pub(in crate::exchange) struct StopStage {
    policy: StopPolicy,
    mode: Option<StopMode>,
    suppresses_tail: bool,
    choices: HashMap<u32, ChoiceCalls>,
    /// Blocks that are left out.
    dropped: HashSet<BlockId>,
    items: Vec<(u32, ItemId)>,
    is_truncated: bool,
    /// Whether only the ends of open blocks are let through.
    is_ending: bool,
    /// Whether the response ended by itself.
    is_over: bool,
    /// Whether the finish reason and the end are held back, since usage may follow the interruption.
    holds_end: bool,
}

#[derive(Debug, Default)]
struct ChoiceCalls {
    /// The open blocks, and whether each is a call.
    open: Vec<(BlockId, bool)>,
    calls: usize,
    ended: usize,
    is_finished: bool,
}

impl StopStage {
    /// A stage for a policy; none if there is nothing to do.
    pub(in crate::exchange) fn new(stop: &StopPolicy) -> Option<Self> {
        let mode = stop.active_mode();
        let suppresses_tail = stop.suppress_tail.unwrap_or(mode.is_some());
        let has_work = mode.is_some() || suppresses_tail;
        has_work.then(|| Self { policy: *stop, mode, suppresses_tail, ..Self::default() })
    }

    /// A stage that leaves the last events of a response that it ends to [`Self::end`].
    pub(in crate::exchange) fn holding_end(self) -> Self {
        Self { holds_end: true, ..self }
    }

    /// Ends a response whose end was held back.
    pub(in crate::exchange) fn end(&mut self, sink: &mut EventSink<'_>) {
        if self.is_settling() {
            self.is_over = true;
            self.finish(sink);
        }
    }

    /// Whether the response was ended here, and its end is held back.
    pub(in crate::exchange) fn is_settling(&self) -> bool {
        self.is_truncated && self.holds_end && !self.is_over
    }

    /// Whether the response was ended here.
    pub(in crate::exchange) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Whether every call is complete, so that only a next one may follow. For open native calls the decoder decides
    /// whether their arguments are complete: many wires do not mark the end of a call.
    pub(in crate::exchange) fn awaits_call(&self, has_complete_calls: bool) -> bool {
        let is_complete = |choice: &ChoiceCalls| match choice.calls - choice.ended {
            // In the other mode the end of a call ends the response.
            0 => choice.calls > 0 && self.mode == Some(StopMode::All),
            _ => has_complete_calls,
        };
        self.mode.is_some()
            && !self.is_truncated
            && !self.is_over
            && self.choices.values().all(is_complete)
            && !self.choices.is_empty()
    }

    /// From now on, lets only the ends of open blocks through.
    pub(in crate::exchange) fn begin_cut(&mut self) {
        self.is_ending = true;
    }

    /// Takes the next event.
    pub(in crate::exchange) fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        // Clients know only the first of several responses in one body.
        if self.is_truncated
            || self.is_over
            || self.is_dropped(&event)
            || self.is_ending && !self.is_of_open(&event)
        {
            return;
        }
        let number = event.choice;
        if let EventKind::BlockStart { kind, .. } = &event.body
            && is_call(kind)
            && self.mode == Some(StopMode::All)
            && self.policy.is_beyond(self.choices.get(&number).map_or(0, |choice| choice.calls) + 1)
        {
            return self.cut(sink);
        }
        match &event.body {
            EventKind::ItemStart { item, .. } => self.items.push((number, *item)),
            EventKind::ItemEnd { item } => self.items.retain(|(_, open)| open != item),
            EventKind::BlockStart { block, kind, .. } => {
                let is_call = is_call(kind);
                let choice = self.choices.entry(number).or_default();
                choice.open.push((*block, is_call));
                choice.calls += usize::from(is_call);
            }
            EventKind::BlockEnd { block, completion } => {
                let choice = self.choices.entry(number).or_default();
                let is_call = choice.open.iter().any(|(open, is_call)| open == block && *is_call);
                choice.open.retain(|(open, _)| open != block);
                choice.ended += usize::from(is_call);
                let is_complete = is_call && *completion == BlockCompletion::Complete;
                sink.put(event);
                // The others are let through to the end of their first call, too.
                let is_done = |choice: &ChoiceCalls| choice.is_finished || choice.ended > 0;
                let is_first = self.mode == Some(StopMode::First) && !self.is_ending;
                if is_complete && is_first && self.choices.values().all(is_done) {
                    self.cut(sink);
                }
                return;
            }
            EventKind::ChoiceStart => {
                self.choices.entry(number).or_default();
            }
            EventKind::Finish { .. } => self.choices.entry(number).or_default().is_finished = true,
            EventKind::End => self.is_over = true,
            _ => {}
        }
        sink.put(event);
    }

    /// Ends the response here.
    pub(in crate::exchange) fn cut(&mut self, sink: &mut EventSink<'_>) {
        if self.is_over || std::mem::replace(&mut self.is_truncated, true) {
            return;
        }
        for (&number, choice) in &self.choices {
            for &(block, _) in &choice.open {
                sink.put(Event::new(
                    number,
                    EventKind::BlockEnd { block, completion: BlockCompletion::Complete },
                ));
            }
        }
        for &(number, item) in &self.items {
            sink.put(Event::new(number, EventKind::ItemEnd { item }));
        }
        if !self.holds_end {
            self.finish(sink);
        }
    }

    /// Emits the finish reasons, which usage never follows, and the end.
    fn finish(&self, sink: &mut EventSink<'_>) {
        for (&number, choice) in self.choices.iter().filter(|(_, choice)| !choice.is_finished) {
            let reason = if choice.calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
            sink.put(Event::new(number, EventKind::Finish { reason, raw: None }));
        }
        sink.put(Event::new(0, EventKind::End));
    }

    /// Whether the event belongs to a block that is open, or is a notice of a block.
    fn is_of_open(&self, event: &Event<'_>) -> bool {
        let is_open = |block: &BlockId| {
            let choice = self.choices.get(&event.choice);
            choice.is_some_and(|choice| choice.open.iter().any(|(open, _)| open == block))
        };
        match &event.body {
            EventKind::Notice(notice) => notice.block.is_some(),
            body => block_of(body).is_some_and(is_open),
        }
    }

    /// Whether the event belongs to a block that is left out; remembers blocks that begin so.
    fn is_dropped(&mut self, event: &Event<'_>) -> bool {
        match &event.body {
            EventKind::BlockStart { block, kind, .. } => {
                let calls = self.choices.get(&event.choice).map_or(0, |choice| choice.calls);
                let is_unwanted = match is_call(kind) {
                    true => self.mode == Some(StopMode::First) && calls > 0,
                    false => self.suppresses_tail && calls > 0,
                };
                is_unwanted && self.dropped.insert(*block)
            }
            EventKind::Notice(notice) => notice.block.is_some_and(|block| self.dropped.contains(&block)),
            body => block_of(body).is_some_and(|block| self.dropped.contains(block)),
        }
    }
}

/// The block that began before and goes on, or ends.
fn block_of<'b>(body: &'b EventKind<'_>) -> Option<&'b BlockId> {
    match body {
        EventKind::Delta { block, .. }
        | EventKind::Correction { block, .. }
        | EventKind::BlockEnd { block, .. }
        | EventKind::Identity { scope: EventScope::Block(block), .. }
        | EventKind::Attachment { scope: EventScope::Block(block), .. }
        | EventKind::Extra { scope: EventScope::Block(block), .. } => Some(block),
        _ => None,
    }
}

/// Whether the client runs it.
fn is_call(kind: &BlockKind<'_>) -> bool {
    matches!(kind, BlockKind::ToolCall { call: CallKind::Function | CallKind::Custom, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::event::DeltaKind;

    fn call(block: u32) -> [EventKind<'static>; 3] {
        let kind = BlockKind::ToolCall {
            id: Some(format!("c{block}").into()),
            is_made: false,
            name: "look".into(),
            call: CallKind::Function,
        };
        [
            EventKind::block_start(BlockId(block), kind),
            EventKind::Delta { block: BlockId(block), kind: DeltaKind::Arguments, text: "{}".into() },
            EventKind::BlockEnd { block: BlockId(block), completion: BlockCompletion::Complete },
        ]
    }

    fn text(block: u32) -> [EventKind<'static>; 3] {
        [
            EventKind::block_start(BlockId(block), BlockKind::Text),
            EventKind::Delta { block: BlockId(block), kind: DeltaKind::Text, text: "tail".into() },
            EventKind::BlockEnd { block: BlockId(block), completion: BlockCompletion::Complete },
        ]
    }

    fn run(
        stop: StopPolicy,
        bodies: impl IntoIterator<Item = EventKind<'static>>,
    ) -> (StopStage, Vec<Event<'static>>) {
        let (mut stopper, mut events) = (StopStage::new(&stop).expect("something to do"), Vec::new());
        for body in bodies {
            stopper.push(Event::new(0, body), &mut events);
        }
        (stopper, events)
    }

    fn on(mode: StopMode) -> StopPolicy {
        StopPolicy::after(mode)
    }

    #[test]
    fn the_first_call_is_let_through_to_its_end_and_nothing_after_it() {
        let [start, delta, end] = call(1);
        let [other, ..] = call(2);
        let (stopper, events) =
            run(on(StopMode::First), [start, other, delta, end].into_iter().chain(call(3)));
        let kinds: Vec<_> = events.iter().map(|event| &event.body).collect();
        assert!(
            matches!(
                kinds[..],
                [
                    EventKind::BlockStart { .. },
                    EventKind::Delta { .. },
                    EventKind::BlockEnd { .. },
                    EventKind::Finish { reason: FinishReason::ToolCalls, .. },
                    EventKind::End
                ]
            ),
            "{kinds:?}"
        );
        assert!(stopper.is_truncated);
    }

    #[test]
    fn all_calls_are_let_through_until_none_is_open() {
        let [start, delta, end] = call(1);
        let (mut stopper, mut events) = run(on(StopMode::All), [start, delta]);
        assert!(!stopper.awaits_call(false) && stopper.awaits_call(true));
        stopper.push(Event::new(0, end), &mut events);
        assert!(stopper.awaits_call(false) && !stopper.is_truncated);
        stopper.cut(&mut events);
        assert!(matches!(events.last().map(|event| &event.body), Some(EventKind::End)));
    }

    #[test]
    fn a_call_that_is_complete_and_open_ends_with_the_response() {
        for mode in [StopMode::First, StopMode::All] {
            let [start, delta, end] = call(1);
            let (mut stopper, mut events) = run(on(mode), [start, delta]);
            assert!(stopper.awaits_call(true) && !stopper.awaits_call(false));
            stopper.begin_cut();
            let [tail, ..] = text(2);
            for body in [tail, end, EventKind::End] {
                stopper.push(Event::new(0, body), &mut events);
            }
            assert!(!stopper.is_over && events.len() == 3, "{events:?}");
            stopper.cut(&mut events);
            assert!(stopper.is_truncated && events.len() == 5, "{events:?}");
        }
    }

    #[test]
    fn an_end_that_is_held_back_comes_after_the_usage() {
        let mut stopper = StopStage::new(&on(StopMode::First)).expect("something to do").holding_end();
        let mut events = Vec::new();
        for body in call(1) {
            stopper.push(Event::new(0, body), &mut events);
        }
        assert!(stopper.is_settling() && events.len() == 3, "{events:?}");
        stopper.end(&mut events);
        let last: Vec<_> = events[3..].iter().map(|event| &event.body).collect();
        assert!(
            matches!(last[..], [EventKind::Finish { reason: FinishReason::ToolCalls, .. }, EventKind::End]),
            "{last:?}"
        );
        stopper.end(&mut events);
        assert!(!stopper.is_settling() && events.len() == 5, "{events:?}");
    }

    #[test]
    fn no_more_calls_than_allowed_are_let_through() {
        let stop = StopPolicy { max_calls: Some(1), ..on(StopMode::All) };
        let (stopper, events) = run(stop, call(1).into_iter().chain(call(2)));
        assert!(stopper.is_truncated && events.len() == 5, "{events:?}");
    }

    #[test]
    fn calls_of_a_next_response_in_the_same_body_end_nothing() {
        let bodies = text(0).into_iter().chain([EventKind::End]).chain(call(1));
        let (mut stopper, mut events) = run(on(StopMode::First), bodies.collect::<Vec<_>>());
        assert!(!stopper.is_truncated && !stopper.awaits_call(false));
        stopper.cut(&mut events);
        assert!(!stopper.is_truncated);
        assert_eq!(events.len(), 4);
    }

    #[test]
    fn a_tail_is_left_out_and_text_before_calls_is_not() {
        let tail = StopPolicy { suppress_tail: Some(true), ..StopPolicy::default() };
        let bodies = text(0).into_iter().chain(call(1)).chain(text(2));
        let (_, events) = run(tail, bodies.collect::<Vec<_>>());
        assert_eq!(events.len(), 6);
        assert!(StopStage::new(&StopPolicy::default()).is_none());
    }
}
