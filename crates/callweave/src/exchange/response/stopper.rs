//! Ends a response after its calls, and leaves out the text behind them.

use std::collections::{HashMap, HashSet};

use super::super::policy::{StopMode, StopPolicy};
use crate::event::{
    BlockId, BlockKind, Body, CallKind, Completion, Event, EventSink, FinishReason, ItemId, Scope,
};

/// Ends a response after its calls. A call passes to its end, or not at all.
#[derive(Debug, Default)]
pub(in crate::exchange) struct Stopper {
    mode: Option<StopMode>,
    suppresses_tail: bool,
    choices: HashMap<u32, Choice>,
    /// Blocks that are left out.
    dropped: HashSet<BlockId>,
    items: Vec<(u32, ItemId)>,
    is_cut: bool,
    /// Whether the response ended by itself.
    is_over: bool,
}

#[derive(Debug, Default)]
struct Choice {
    /// The open blocks, and whether each is a call.
    open: Vec<(BlockId, bool)>,
    calls: usize,
    ended: usize,
    is_finished: bool,
}

impl Stopper {
    /// One for a policy; none if there is nothing to do.
    pub(in crate::exchange) fn new(stop: &StopPolicy) -> Option<Self> {
        let mode = stop.is_on.unwrap_or(false).then(|| stop.mode.unwrap_or_default());
        let suppresses_tail = stop.suppress_tail.unwrap_or(mode.is_some());
        let has_work = mode.is_some() || suppresses_tail;
        has_work.then(|| Self { mode, suppresses_tail, ..Self::default() })
    }

    /// Whether the response was ended here.
    pub(in crate::exchange) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether every call is over, and only a next one may follow.
    pub(in crate::exchange) fn awaits_call(&self) -> bool {
        let all_ended = |choice: &Choice| choice.calls > 0 && choice.ended == choice.calls;
        self.mode == Some(StopMode::All)
            && !self.is_cut
            && self.choices.values().all(all_ended)
            && !self.choices.is_empty()
    }

    /// Takes the next event.
    pub(in crate::exchange) fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        // Clients know only the first of several responses in one body.
        if self.is_cut || self.is_over || self.is_dropped(&event) {
            return;
        }
        let number = event.choice;
        match &event.body {
            Body::ItemStart { item, .. } => self.items.push((number, *item)),
            Body::ItemEnd { item } => self.items.retain(|(_, open)| open != item),
            Body::BlockStart { block, kind, .. } => {
                let is_call = is_call(kind);
                let choice = self.choices.entry(number).or_default();
                choice.open.push((*block, is_call));
                choice.calls += usize::from(is_call);
            }
            Body::BlockEnd { block, completion } => {
                let choice = self.choices.entry(number).or_default();
                let is_call = choice.open.iter().any(|(open, is_call)| open == block && *is_call);
                choice.open.retain(|(open, _)| open != block);
                choice.ended += usize::from(is_call);
                let is_whole = is_call && *completion == Completion::Whole;
                sink.put(event);
                // The others are let through to the end of their first call, too.
                let is_done = |choice: &Choice| choice.is_finished || choice.ended > 0;
                if is_whole && self.mode == Some(StopMode::First) && self.choices.values().all(is_done) {
                    self.cut(sink);
                }
                return;
            }
            Body::ChoiceStart => {
                self.choices.entry(number).or_default();
            }
            Body::Finish { .. } => self.choices.entry(number).or_default().is_finished = true,
            Body::End => self.is_over = true,
            _ => {}
        }
        sink.put(event);
    }

    /// Ends the response here.
    pub(in crate::exchange) fn cut(&mut self, sink: &mut EventSink<'_>) {
        if self.is_over || std::mem::replace(&mut self.is_cut, true) {
            return;
        }
        for (&number, choice) in &self.choices {
            for &(block, _) in &choice.open {
                sink.put(Event::new(number, Body::BlockEnd { block, completion: Completion::Whole }));
            }
        }
        for &(number, item) in &self.items {
            sink.put(Event::new(number, Body::ItemEnd { item }));
        }
        for (&number, choice) in self.choices.iter().filter(|(_, choice)| !choice.is_finished) {
            let reason = if choice.calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
            sink.put(Event::new(number, Body::Finish { reason, raw: None }));
        }
        sink.put(Event::new(0, Body::End));
    }

    /// Whether the event belongs to a block that is left out; remembers blocks that begin so.
    fn is_dropped(&mut self, event: &Event<'_>) -> bool {
        match &event.body {
            Body::BlockStart { block, kind, .. } => {
                let calls = self.choices.get(&event.choice).map_or(0, |choice| choice.calls);
                let is_unwanted = match is_call(kind) {
                    true => self.mode == Some(StopMode::First) && calls > 0,
                    false => self.suppresses_tail && calls > 0,
                };
                is_unwanted && self.dropped.insert(*block)
            }
            Body::Delta { block, .. }
            | Body::Correction { block, .. }
            | Body::BlockEnd { block, .. }
            | Body::Identity { scope: Scope::Block(block), .. }
            | Body::Attachment { scope: Scope::Block(block), .. }
            | Body::Foreign { scope: Scope::Block(block), .. } => self.dropped.contains(block),
            Body::Notice(notice) => notice.block.is_some_and(|block| self.dropped.contains(&block)),
            _ => false,
        }
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

    fn call(block: u32) -> [Body<'static>; 3] {
        let kind = BlockKind::ToolCall {
            id: Some(format!("c{block}").into()),
            is_made: false,
            name: "look".into(),
            call: CallKind::Function,
        };
        [
            Body::block_start(BlockId(block), kind),
            Body::Delta { block: BlockId(block), kind: DeltaKind::Arguments, text: "{}".into() },
            Body::BlockEnd { block: BlockId(block), completion: Completion::Whole },
        ]
    }

    fn text(block: u32) -> [Body<'static>; 3] {
        [
            Body::block_start(BlockId(block), BlockKind::Text),
            Body::Delta { block: BlockId(block), kind: DeltaKind::Text, text: "tail".into() },
            Body::BlockEnd { block: BlockId(block), completion: Completion::Whole },
        ]
    }

    fn run(
        stop: StopPolicy,
        bodies: impl IntoIterator<Item = Body<'static>>,
    ) -> (Stopper, Vec<Event<'static>>) {
        let (mut stopper, mut events) = (Stopper::new(&stop).expect("something to do"), Vec::new());
        for body in bodies {
            stopper.push(Event::new(0, body), &mut events);
        }
        (stopper, events)
    }

    fn on(mode: StopMode) -> StopPolicy {
        StopPolicy { is_on: Some(true), mode: Some(mode), ..StopPolicy::default() }
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
                    Body::BlockStart { .. },
                    Body::Delta { .. },
                    Body::BlockEnd { .. },
                    Body::Finish { reason: FinishReason::ToolCalls, .. },
                    Body::End
                ]
            ),
            "{kinds:?}"
        );
        assert!(stopper.is_cut);
    }

    #[test]
    fn all_calls_are_let_through_until_none_is_open() {
        let [start, delta, end] = call(1);
        let (mut stopper, mut events) = run(on(StopMode::All), [start, delta]);
        assert!(!stopper.awaits_call());
        stopper.push(Event::new(0, end), &mut events);
        assert!(stopper.awaits_call() && !stopper.is_cut);
        stopper.cut(&mut events);
        assert!(matches!(events.last().map(|event| &event.body), Some(Body::End)));
    }

    #[test]
    fn calls_of_a_next_response_in_the_same_body_end_nothing() {
        let bodies = text(0).into_iter().chain([Body::End]).chain(call(1));
        let (mut stopper, mut events) = run(on(StopMode::First), bodies.collect::<Vec<_>>());
        assert!(!stopper.is_cut && !stopper.awaits_call());
        stopper.cut(&mut events);
        assert!(!stopper.is_cut);
        assert_eq!(events.len(), 4);
    }

    #[test]
    fn a_tail_is_left_out_and_text_before_calls_is_not() {
        let tail = StopPolicy { suppress_tail: Some(true), ..StopPolicy::default() };
        let bodies = text(0).into_iter().chain(call(1)).chain(text(2));
        let (_, events) = run(tail, bodies.collect::<Vec<_>>());
        assert_eq!(events.len(), 6);
        assert!(Stopper::new(&StopPolicy::default()).is_none());
    }
}
