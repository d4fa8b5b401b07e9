//! The state machine that all dialects share.
//!
//! Text is looked at from a cursor; text that has been accounted for is never seen again, and text that may still
//! change its meaning (the beginning of a marker, a call that is not certain yet) stays in front of the cursor. A call
//! is certain once its name is known; until then its tokens are kept in a log, and if it turns out to be none, the text
//! comes back as text.

mod call;
mod doubt;
mod opening;
mod prose;

use std::sync::Arc;

use self::doubt::DoubtfulCall;
use self::opening::OpeningCandidate;
use self::prose::ProseKind;
use super::bodies::{BodyContext, BodyReader, BodyToken, CompiledForm};
use super::calls::CollectedCall;
use super::emit::BlockEmitter;
use super::matcher::{CallMatcher, MatchedCall};
use super::plan::DialectPlan;
use super::position::TextPosition;
use super::spec::TextStart;
use super::tools::Tools;
use crate::event::{BlockCompletion, CallKind, EventSink, NoticeCode};

/// Deltas up to this length are looked at byte by byte.
const SHORT: usize = 32;

/// The choice that the text belongs to, and the risks that the caller accepts.
pub(super) struct ReadingMode {
    pub(super) choice: u32,
    /// Whether the position of a call does not matter.
    pub(super) is_trusting: bool,
    /// Whether calls behind a damaged one count.
    pub(super) accepts_after_damage: bool,
}

/// The state of reading one text stream.
#[derive(Debug)]
pub(super) struct TextEngine {
    plan: Arc<DialectPlan>,
    run: EngineRun,
}

#[derive(Debug, Default)]
struct EngineRun {
    state: EngineState,
    emitter: BlockEmitter,
    shared: EngineContext,
    /// The dialect that the text has settled on, where it had to decide.
    dialect: Option<usize>,
    /// Whether only white space has come since the last piece of markup.
    is_gap: bool,
    /// Whether white space in the gap is never text.
    is_frame: bool,
    /// How much of the gap was seen to be white space.
    gap_seen: usize,
    has_text: bool,
    /// The position that the visible text has reached.
    position: TextPosition,
    /// The visible text so far, as long as it may turn out to be reasoning that the prompt opened.
    lead: Option<String>,
    /// Whether the visible text mentions the tag that opens reasoning, and not yet the one that ends it.
    mentions_reasoning: bool,
    /// Where prose goes on in its block and its line, if it does.
    calm: Option<ProseKind>,
    /// The end of the prompt that the visible text is shown behind.
    continues: String,
    /// How many fences a body, or a doubtful call, has opened.
    fences: usize,
    was_odd: bool,
    /// The form of the last call, if its closer has not come.
    owed: Option<usize>,
    /// The tokens of a call that is not certain yet, and the text made of them.
    log: Vec<(BodyToken, String)>,
    /// Whether the caller said which dialect it is.
    is_named: bool,
    /// Whether the position of a call does not matter, and how many bytes of openings were read in vain.
    is_trusting: bool,
    vain: u64,
    /// Whether this reads a doubtful call, and whether that is outside reasoning.
    is_doubted: bool,
    is_in_block: bool,
    /// Whether the reasoning around the doubtful call is still open.
    is_in_reasoning: bool,
    /// Nothing before `settled` is doubted again, and nothing before `shown` opens a call.
    settled: u64,
    shown: u64,
    /// Whether the response was truncated, and did not end by itself.
    is_truncated: bool,
    /// How many calls were emitted.
    calls: usize,
    /// Whether a call was damaged in a way that leaves its end in doubt, and whether calls behind it count
    /// nevertheless.
    has_damage: bool,
    accepts_after_damage: bool,
    /// The last run of calls that were taken for reasoning.
    meant: Vec<CollectedCall>,
}

/// The state that readers share and fill; see [`BodyContext`].
#[derive(Debug, Default)]
struct EngineContext {
    tools: Arc<Tools>,
    name: String,
    id: String,
    scratch: String,
    complaint: Option<String>,
    looks: u32,
    in_doubt: bool,
}

impl EngineContext {
    #[inline]
    fn context<'c>(&'c mut self, form: &'c CompiledForm, is_last: bool) -> BodyContext<'c> {
        BodyContext {
            form,
            tools: &self.tools,
            name: &mut self.name,
            id: &mut self.id,
            scratch: &mut self.scratch,
            complaint: &mut self.complaint,
            looks: &mut self.looks,
            in_doubt: &mut self.in_doubt,
            is_last,
            ended: None,
        }
    }
}

#[derive(Debug)]
enum EngineState {
    Prose(ProseKind),
    /// In the header of a message, or perhaps in one that the prompt began.
    Header {
        is_given: bool,
    },
    /// A call that is not certain yet.
    Opening(OpeningCandidate),
    /// Something that is a call only if nothing else follows.
    Doubt(Box<DoubtfulCall>),
    /// A certain call.
    Call {
        form: usize,
        reader: BodyReader,
    },
    /// Right after a body of this form; whether a closer has come.
    After {
        form: usize,
        is_closed: bool,
    },
}

impl Default for EngineState {
    fn default() -> Self {
        Self::Prose(ProseKind::Text)
    }
}

/// The input of a step: the text that is not accounted for, and whether no more will come.
#[derive(Clone, Copy)]
struct PendingText<'a> {
    plan: &'a DialectPlan,
    text: &'a str,
    is_last: bool,
}

/// The outcome of a step.
enum EngineStep {
    /// It accounted for this many bytes, or changed the state.
    Took(usize),
    /// It accounted for this many bytes, which were all, and nothing is pending.
    Rest(usize),
    /// It needs more text.
    Wait,
}

impl TextEngine {
    pub(super) fn new(
        plan: Arc<DialectPlan>,
        tools: Arc<Tools>,
        start: Option<TextStart>,
        ReadingMode { choice, is_trusting, accepts_after_damage }: ReadingMode,
    ) -> Self {
        let live = &plan.live;
        let only = plan.only();
        let default = only.map_or(TextStart::Text, |only| only.starts_in);
        let given = live.messages.as_ref().and_then(|messages| messages.grammar.begins_with);
        let state = match start.unwrap_or(default) {
            TextStart::Reasoning if live.messages.is_some() && only.is_some() => {
                EngineState::Prose(ProseKind::MessageThought)
            }
            TextStart::Reasoning => EngineState::Prose(ProseKind::Thought(live.given)),
            _ if given.is_some_and(|begin| only.is_some() || !begin.is_empty()) => {
                EngineState::Header { is_given: true }
            }
            _ => EngineState::Prose(ProseKind::Text),
        };
        let may_be_reasoning = start.is_none() && plan.has_reasoning;
        let run = EngineRun {
            state,
            emitter: BlockEmitter::new(choice),
            shared: EngineContext { tools, ..EngineContext::default() },
            is_gap: true,
            lead: may_be_reasoning.then(String::new),
            continues: only.map_or_else(String::new, |only| only.continues.clone()),
            is_named: !plan.is_auto(),
            is_trusting,
            accepts_after_damage,
            ..EngineRun::default()
        };
        Self { plan, run }
    }

    /// Takes a short `text` that goes on with a string or a line of prose, if it does: the common case.
    #[inline]
    pub(super) fn takes_as_is(&mut self, text: &str, sink: &mut EventSink<'_>) -> bool {
        if text.is_empty() || text.len() > SHORT {
            return false;
        }
        let Self { plan, run } = self;
        if let EngineState::Call { form, reader } = &mut run.state
            && reader.takes_as_is(text, &plan.forms[*form])
        {
            run.emitter.argument(text, text.len(), sink);
            return true;
        }
        run.takes_as_is(&plan.live, text, sink)
    }

    /// Takes the part of `text` that is prose beyond doubt, if nearly all is: see [`EngineRun::take_most`].
    pub(super) fn take_most(&mut self, text: &str, sink: &mut EventSink<'_>) -> Option<usize> {
        if text.is_empty() || text.len() > SHORT || matches!(self.run.state, EngineState::Call { .. }) {
            return None;
        }
        self.run.take_most(&self.plan.live, text, sink)
    }

    /// Reads `text`, which begins where the last call stopped, and returns how much of it is accounted for. With
    /// `is_last` no more will come, and all of it is.
    pub(super) fn read(&mut self, text: &str, is_last: bool, sink: &mut EventSink<'_>) -> usize {
        let mut at = 0;
        loop {
            match self.run.step(PendingText { plan: &self.plan, text: &text[at..], is_last }, sink) {
                EngineStep::Took(taken) => at += taken,
                EngineStep::Rest(taken) => return at + taken,
                EngineStep::Wait => return at,
            }
        }
    }

    /// Emits the calls that matchers found in the complete text, and reports the matchers that failed; the text between
    /// the calls is read as usual.
    pub(super) fn read_around(
        &mut self,
        text: &str,
        (calls, complaints): (&[MatchedCall], Vec<String>),
        sink: &mut EventSink<'_>,
    ) {
        complaints.into_iter().for_each(|told| self.run.emitter.notice(NoticeCode::Matcher, told, sink));
        let mut at = 0;
        for call in calls {
            self.read(&text[at..call.start], true, sink);
            let run = &mut self.run;
            run.shared.name.clone_from(&call.name);
            run.emitter.call(&call.name, "", CallKind::Function, 0, sink);
            run.flag_begun(sink);
            let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
            run.emitter.argument(arguments, call.end - call.start, sink);
            run.end_call(BlockCompletion::Complete, sink);
            run.state = EngineState::Prose(ProseKind::Text);
            run.calls += 1;
            run.open_gap(false);
            at = call.end;
        }
        self.read(&text[at..], true, sink);
    }

    /// Whether matchers are to be given the complete text, so that nothing is read before its end.
    pub(super) fn waits_for_all(&self) -> bool {
        self.plan.waits_for_all
    }

    /// The matchers that are to be given the complete text.
    pub(super) fn whole_text_matchers(&self) -> impl Iterator<Item = &CallMatcher> {
        self.plan.forms.iter().filter_map(CompiledForm::whole_text_matcher)
    }

    /// Says how the response ends, before its last text is read.
    pub(super) fn ends(&mut self, answer: BlockCompletion) {
        self.run.is_truncated = answer == BlockCompletion::Truncated;
    }

    /// Ends what is open. All text must have been read as the last.
    pub(super) fn finish(&mut self, sink: &mut EventSink<'_>) {
        self.run.emitter.end(BlockCompletion::Complete, sink);
        self.run.emit_meant(sink);
    }

    /// The dialect that the text has settled on.
    pub(super) fn dialect(&self) -> Option<&str> {
        let index = if self.plan.is_auto() { self.run.dialect? } else { 0 };
        self.plan.dialects.get(index).map(|dialect| dialect.name.as_str())
    }
}

impl EngineRun {
    #[inline]
    fn step(&mut self, ahead: PendingText<'_>, sink: &mut EventSink<'_>) -> EngineStep {
        let PendingText { plan, text, is_last } = ahead;
        self.calm = None;
        match &mut self.state {
            EngineState::Call { form, reader } => {
                let form = *form;
                let mut context = self.shared.context(&plan.forms[form], is_last);
                let token = reader.next(text, &mut context);
                // The common case of a long argument: no second look at an exhausted text.
                let is_through = |len: usize| len == text.len() && !is_last && reader.is_in_string();
                match token {
                    BodyToken::Argument(len) | BodyToken::Converted(len) if is_through(len) => {
                        self.show(token, form, text, sink);
                        EngineStep::Rest(len)
                    }
                    // A body that is odd only because the input ends is not damaged but truncated.
                    BodyToken::Odd(_) if is_last => EngineStep::Took(0),
                    BodyToken::Fail if is_last => self.show(BodyToken::Done, form, text, sink),
                    token => self.show(token, form, text, sink),
                }
            }
            &mut EngineState::Prose(place) => self.prose(place, ahead, sink),
            &mut EngineState::Header { is_given } => self.header(is_given, ahead, sink),
            EngineState::Opening(_) => self.opening(ahead, sink),
            EngineState::Doubt(_) => self.doubted(ahead, sink),
            &mut EngineState::After { form, is_closed } => self.after(form, is_closed, ahead, sink),
        }
    }
}
