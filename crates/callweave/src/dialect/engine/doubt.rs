//! Reads doubtful calls, which are calls only if nothing but calls follows to the end of the response: a call in a code
//! block, in reasoning, or without its opener. Each is read aside, by a reader of its own, while its text is held.

use super::super::bodies::boundary;
use super::super::calls::{CallCollector, CollectedCall};
use super::super::position::{MarkerPosition, TextPosition};
use super::prose::ProseKind;
use super::{EngineContext, EngineRun, EngineState, EngineStep, PendingText};
use crate::event::{BlockCompletion, DeltaKind, Event, EventKind, EventSink, NoticeCode, Sink};

/// The maximum length of the held text.
pub(super) const LONGEST: usize = 1 << 18;
/// The maximum length of a remark that may follow the calls of reasoning that is not closed. Longer text is more
/// reasoning.
const LONGEST_REMARK: usize = 256;

#[derive(Debug)]
pub(super) struct DoubtfulCall {
    run: EngineRun,
    kept: HeldEvents,
    /// How much of the text was read.
    read: usize,
    /// The kind of prose it stands in, and how much white space is before it.
    place: ProseKind,
    space: usize,
    why: DoubtReason,
}

/// The reason why a call is doubtful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoubtReason {
    /// It stands in a block of code, or in reasoning.
    Block,
    /// It is enclosed by a quotation or a container that shows it.
    Enclosed,
    /// It is listed: on a line of its own it is shown, even at the end.
    Listed,
    /// Its opener is missing, or it has none.
    Openerless,
}

impl From<MarkerPosition> for DoubtReason {
    fn from(standing: MarkerPosition) -> Self {
        match standing {
            MarkerPosition::Enclosed => Self::Enclosed,
            MarkerPosition::Listed => Self::Listed,
            _ => Self::Block,
        }
    }
}

/// The events that are emitted once there is no doubt left.
#[derive(Debug, Default)]
struct HeldEvents {
    events: Vec<Event<'static>>,
    calls: CallCollector,
    /// Where visible text came, and how much of it may.
    words: Option<u64>,
    remark: usize,
    /// Whether a call was truncated.
    has_cut: bool,
}

impl<'e> Sink<Event<'e>> for HeldEvents {
    fn put(&mut self, event: Event<'e>) {
        self.calls.follow(&event.body);
        match &event.body {
            EventKind::Delta { kind: DeltaKind::Text, text, .. }
                if self.remark > 0 || !text.trim_ascii().is_empty() =>
            {
                match self.remark.checked_sub(text.len()) {
                    Some(left) => self.remark = left,
                    None => {
                        self.words.get_or_insert(event.source.start + self.remark as u64);
                        self.remark = 0;
                    }
                }
            }
            EventKind::BlockEnd { completion: BlockCompletion::Truncated, .. } => self.has_cut = true,
            _ => {}
        }
        if let (
            Some(Event { source, body: EventKind::Delta { block, text, .. }, .. }),
            EventKind::Delta { block: next, text: more, .. },
        ) = (self.events.last_mut(), &event.body)
            && block == next
            && (source.end == event.source.start || event.source.is_empty())
        {
            text.to_mut().push_str(more);
            source.end = source.end.max(event.source.end);
            return;
        }
        self.events.push(event.into_owned());
    }
}

impl EngineRun {
    /// Begins to read the following text aside.
    pub(super) fn doubt(&mut self, place: ProseKind, space: usize, why: DoubtReason) -> EngineStep {
        let run = Self {
            state: EngineState::Prose(ProseKind::Text),
            emitter: self.emitter.clone(),
            shared: EngineContext { tools: self.shared.tools.clone(), ..EngineContext::default() },
            position: TextPosition::default(),
            lead: None,
            continues: String::new(),
            fences: 0,
            log: Vec::new(),
            is_doubted: true,
            is_in_block: !place.is_reasoning(),
            is_in_reasoning: place.is_reasoning(),
            has_text: self.has_text && !place.is_reasoning(),
            meant: Vec::new(),
            calls: 0,
            ..*self
        };
        let remark = if place.is_reasoning() { LONGEST_REMARK } else { 0 };
        let kept = HeldEvents { remark, ..HeldEvents::default() };
        self.state = EngineState::Doubt(Box::new(DoubtfulCall { run, kept, read: 0, place, space, why }));
        EngineStep::Took(0)
    }

    /// Reads on aside, and decides if it can.
    pub(super) fn doubted(&mut self, ahead: PendingText<'_>, sink: &mut EventSink<'_>) -> EngineStep {
        let PendingText { text, is_last, .. } = ahead;
        let EngineState::Doubt(doubt) = &mut self.state else { return EngineStep::Wait };
        let end = boundary(text, LONGEST);
        let is_too_long = end < text.len();
        let is_end = is_last && !is_too_long;
        doubt.run.is_truncated = self.is_truncated;
        let was_in_reasoning = doubt.place.is_reasoning();
        loop {
            let is_closed = was_in_reasoning && !doubt.run.is_in_reasoning;
            doubt.kept.remark = if is_closed { 0 } else { doubt.kept.remark };
            let calls = doubt.run.calls;
            let next = PendingText { text: &text[doubt.read..end], is_last: is_end, ..ahead };
            let step = doubt.run.step(next, &mut doubt.kept);
            if is_closed && doubt.run.calls > calls {
                // The call that follows reasoning is the one that is meant.
                doubt.kept.words.get_or_insert(doubt.run.emitter.offset());
            }
            if let Some(words) = doubt.kept.words {
                return self.dismiss(words, "more follows it", sink);
            }
            match step {
                EngineStep::Took(taken) => doubt.read += taken,
                EngineStep::Rest(taken) => {
                    doubt.read += taken;
                    break;
                }
                EngineStep::Wait => break,
            }
        }
        if is_too_long {
            let end = self.emitter.offset() + end as u64;
            return self.dismiss(end, "it is too long to be held until the answer ends", sink);
        }
        if !is_last {
            return EngineStep::Wait;
        }
        // Text after a call in closed reasoning is a part of that reasoning.
        let is_remarked = was_in_reasoning && !doubt.run.is_in_reasoning && doubt.run.has_text;
        let is_listed =
            doubt.why == DoubtReason::Listed && !text[doubt.space..].trim_ascii_end().contains('\n');
        let is_call = !is_listed
            && doubt.run.calls > 0
            && (was_in_reasoning || !doubt.kept.has_cut)
            && !is_remarked
            && !self.is_truncated;
        if !is_call {
            let end = self.emitter.offset() + end as u64;
            return self.dismiss(end, "the answer does not end with it", sink);
        }
        let EngineState::Doubt(doubt) =
            std::mem::replace(&mut self.state, EngineState::Prose(ProseKind::Text))
        else {
            return EngineStep::Wait;
        };
        let detail = match was_in_reasoning {
            true => "a call stands in reasoning, which it ends",
            false => "a call stands in a code block, or without its opener, and the answer ends with it",
        };
        self.emitter.notice(NoticeCode::Judged, detail, sink);
        doubt.kept.events.into_iter().for_each(|event| sink.put(event));
        *self = Self { is_doubted: false, is_in_block: false, meant: Vec::new(), ..doubt.run };
        EngineStep::Took(doubt.read)
    }

    /// Turns the doubtful call into text, up to `until`.
    fn dismiss(&mut self, until: u64, reason: &str, sink: &mut EventSink<'_>) -> EngineStep {
        let offset = self.emitter.offset();
        let EngineState::Doubt(doubt) =
            std::mem::replace(&mut self.state, EngineState::Prose(ProseKind::Text))
        else {
            return EngineStep::Wait;
        };
        self.state = EngineState::Prose(doubt.place);
        self.vain = self.vain.max(doubt.run.vain) + doubt.read as u64;
        self.settled = until.max(offset + doubt.space as u64 + 1);
        // Markers in it are its own.
        if doubt.why != DoubtReason::Block {
            self.shown = self.settled;
        }
        if let Some(CollectedCall { name, .. }) = doubt.kept.calls.first() {
            let detail = format!("what looks like a call of {name:?} is text: {reason}");
            self.emitter.notice(NoticeCode::Judged, detail, sink);
        }
        let calls = doubt.kept.calls.whole;
        if doubt.place.is_reasoning() && !calls.is_empty() {
            self.meant = calls;
        }
        EngineStep::Took(0)
    }

    /// Reads a fence around, or between, doubtful calls.
    pub(super) fn doubted_fence(
        &mut self,
        len: usize,
        ahead: PendingText<'_>,
        sink: &mut EventSink<'_>,
    ) -> EngineStep {
        let PendingText { text, is_last, .. } = ahead;
        let mut whole = len;
        if self.fences > 0 {
            self.fences -= 1;
        } else {
            whole += text[whole..]
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                .count();
            if whole == text.len() && !is_last {
                return EngineStep::Wait;
            }
            self.fences += 1;
        }
        self.enter(&text[..whole], EngineState::Prose(ProseKind::Text), false, sink)
    }

    /// Emits the last calls of reasoning in which the response ends, if nothing was emitted: they are meant.
    pub(super) fn emit_meant(&mut self, sink: &mut EventSink<'_>) {
        if self.has_text || self.calls > 0 || self.is_truncated {
            return;
        }
        self.emitter.emit_meant(&std::mem::take(&mut self.meant), sink);
    }
}
