//! The one fold for all protocols: fragments → events.
//!
//! Protocols say what a frame contains; [`Weave`] remembers. It opens blocks when their first text or
//! their settled name arrives, ends them where the wire says so or where the next thing begins, matches
//! fragments of calls by place and id, tells restated text once, and derives the finish reason from what
//! was really there. It keeps no copy of the text: a block that may be restated is remembered by its
//! length and a hash.
//!
//! Nothing is finished before [`Weave::finish`]: usage and even calls may follow a finish reason. But an input
//! may hold several answers: what begins anew after an answer is over is the next one, and
//! [`Weave::push_frame`] then finishes the one before.

mod choice;
mod fingerprint;
mod glance;
mod leaves;
mod seen;
mod slot;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use self::choice::{Choice, Ending, Piece};
use self::glance::Glance;
use self::seen::{Seen, Spot};
use crate::event::{
    BlockId, Body, CallKind, Counters, Detail, DetailKind, Event, EventSink, Json, Notice, NoticeCode, Sink,
};
use crate::fragment::{Fragment, FragmentSink, Part, Place};
use crate::json::Str;

/// The fold. See the [module](self).
#[derive(Clone, Default)]
pub struct Weave {
    context: Context,
    choices: Vec<(u32, Choice)>,
    /// The choices that have something to do when the frame is over.
    awake: Vec<usize>,
    by_number: HashMap<u32, usize>,
    seen: Seen,
    annotated: HashSet<u64>,
    id: Option<String>,
    model: Option<String>,
    /// The turn whose steps are counted, and their sum.
    steps: Option<(String, Counters)>,
    /// The provider gives its answer a new id now and then, so that an id says nothing.
    has_changing_id: bool,
    has_content: bool,
    /// How many choices were given a reason to finish.
    finished: usize,
    ending: Ending,
}

/// A call that waits for its name to be settled. See [`Weave::pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCall<'a> {
    /// Its choice.
    pub choice: u32,
    /// The provider's id, if it has come.
    pub id: Option<&'a str>,
    /// The name so far.
    pub name: &'a str,
    /// Who runs it.
    pub kind: CallKind,
}

/// What all choices share.
#[derive(Clone, Default)]
struct Context {
    choice: u32,
    frame: u64,
    offset: u64,
    blocks: u32,
    scratch: String,
}

impl Context {
    fn emit(&self, body: Body<'_>, sink: &mut EventSink<'_>) {
        sink.put(Event::new(self.choice, body));
    }

    fn next_block(&mut self) -> BlockId {
        let block = BlockId(self.blocks);
        self.blocks += 1;
        block
    }

    /// The scratch buffer, empty; give it back so that its memory is used again.
    fn take_scratch(&mut self) -> String {
        std::mem::take(&mut self.scratch)
    }

    fn return_scratch(&mut self, mut scratch: String) {
        scratch.clear();
        if scratch.capacity() > self.scratch.capacity() {
            self.scratch = scratch;
        }
    }
}

impl Weave {
    /// A fold before the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the fragments of one frame that began at byte `offset` of the input: `frame` is called once,
    /// with the sink to put them in.
    pub fn push(&mut self, offset: u64, frame: impl FnOnce(&mut FragmentSink<'_>), sink: &mut EventSink<'_>) {
        self.context.frame += 1;
        self.context.offset = offset;
        frame(&mut Feed { weave: self, sink });
        let Self { awake, choices, context, .. } = self;
        awake.retain(|&at| {
            let (number, choice) = &mut choices[at];
            context.choice = *number;
            choice.end_frame(context, sink);
            choice.is_awake = choice.waits();
            choice.is_awake
        });
    }

    /// Takes the fragments of one frame as [`Weave::push`] does, but first finishes the answer if it is over
    /// and the frame begins the next one. For that `frame` may be called twice, and must say the same.
    pub fn push_frame(
        &mut self,
        offset: u64,
        frame: impl Fn(&mut FragmentSink<'_>),
        sink: &mut EventSink<'_>,
    ) {
        if self.is_over() {
            let mut glance = Glance::default();
            frame(&mut glance);
            if self.is_left_behind_by(&glance) {
                self.begin_anew(sink);
            }
        }
        self.push(offset, frame, sink);
    }

    /// Finishes the answer; what comes is the next one.
    pub(crate) fn begin_anew(&mut self, sink: &mut EventSink<'_>) {
        self.finish(sink);
        let context = std::mem::take(&mut self.context);
        *self = Self { context, ..Self::default() };
    }

    /// Says that no frame will come any more: ends all blocks, finishes all choices and the answer.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        if self.choices.is_empty() {
            self.choice(0);
        }
        for (number, choice) in &mut self.choices {
            self.context.choice = *number;
            choice.finish(self.ending, &mut self.context, sink);
        }
        sink.put(Event::new(0, Body::End));
    }

    /// Whether the upstream has reported an error.
    pub fn has_failed(&self) -> bool {
        self.ending.has_failed
    }

    /// Whether neither content nor an error has come.
    pub(crate) fn is_empty(&self) -> bool {
        !self.ending.has_failed && !self.has_content
    }

    /// Whether what comes may be another answer: the provider has said its last word, or nothing but an error,
    /// or has given every choice a reason to finish.
    pub(crate) fn is_over(&self) -> bool {
        let is_begun = self.has_content || self.finished > 0 || self.ending.has_failed;
        let is_finished = self.finished > 0 && self.finished == self.choices.len();
        (self.ending.is_done && is_begun) || self.has_only_failed() || is_finished
    }

    fn has_only_failed(&self) -> bool {
        self.ending.has_failed && !self.has_content && self.finished == 0
    }

    /// Whether a frame that comes after the end is of another answer.
    fn is_left_behind_by(&self, next: &Glance) -> bool {
        let has_other_id = next.has_other_id(self.id.as_deref());
        if self.has_only_failed() {
            return !next.has_error && (has_other_id || next.has_content());
        }
        if self.ending.is_done {
            // The same answer may be told once more, whole.
            let is_retold = next.is_whole && (self.id.is_some() || next.id.is_some());
            return has_other_id || next.is_fresh || (next.has_content() && !is_retold) || next.has_error;
        }
        // Content may follow a finish; under another id it is another's.
        self.id.is_some() && has_other_id && !self.has_changing_id && (next.has_content() || next.has_finish)
    }

    /// The calls whose name has come but may still grow, and that have no block yet.
    pub fn pending(&self) -> impl Iterator<Item = PendingCall<'_>> {
        self.choices.iter().flat_map(|(number, choice)| {
            choice.pending().map(|call| PendingCall {
                choice: *number,
                id: call.id.as_deref(),
                name: &call.name,
                kind: call.kind,
            })
        })
    }

    fn choice(&mut self, number: u32) -> usize {
        self.context.choice = number;
        if let Some(at) = self.choices.iter().take(MANY).position(|(own, _)| *own == number) {
            return at;
        }
        *self.by_number.entry(number).or_insert_with(|| {
            self.choices.push((number, Choice::default()));
            self.choices.len() - 1
        })
    }

    /// Remembers the choice, which was told content, if it has something to do when the frame is over.
    fn wake(&mut self, at: usize) {
        let choice = &mut self.choices[at].1;
        self.has_content |= !choice.is_empty();
        if !choice.is_awake && choice.waits() {
            choice.is_awake = true;
            self.awake.push(at);
        }
    }

    fn fragment(&mut self, fragment: Fragment<'_>, sink: &mut EventSink<'_>) {
        let Fragment { choice: number, place, part } = fragment;
        let at = match part {
            // These speak of the answer, not of a choice, and must not make one.
            Part::Start { .. }
            | Part::Rerouted { .. }
            | Part::Step { .. }
            | Part::Usage { .. }
            | Part::Done
            | Part::Error(_)
            | Part::Notice { .. } => 0,
            Part::Foreign { .. } | Part::Annotation(_) if place.is_none() => 0,
            _ => self.choice(number),
        };
        self.context.choice = number;
        let given = place;
        let place = match self.choices.get(at) {
            Some((_, choice)) => place.map(|place| choice.canonical(place)),
            None => place,
        };
        let context = &mut self.context;
        match part {
            Part::Same { name, or } => {
                if let Some(place) = place {
                    self.choices[at].1.unite(place, name, or);
                }
            }
            Part::Start { id, model } => self.start(id, model, sink),
            Part::Rerouted { model } => {
                self.model.take_if(|known| !model.is(known));
                self.start(None, Some(model), sink);
            }
            Part::Open(channel) => {
                self.choices[at].1.open(place, channel, context, sink);
                self.wake(at);
            }
            Part::Text { channel, text } => {
                self.choices[at].1.text(place, channel, text, context, sink);
                self.wake(at);
            }
            Part::Restate { channel, text, is_recap } => {
                self.choices[at].1.restate(place, channel, text, is_recap, context, sink);
                self.wake(at);
            }
            Part::Call { id, name, kind, arguments } => {
                self.choices[at].1.call(Piece { place, id, name, kind, arguments }, context, sink);
                self.wake(at);
            }
            Part::End => self.choices[at].1.end(place, context, sink),
            Part::Detail { kind, index, data, extra } => {
                let block = match place {
                    Some(place) => self.choices[at].1.block(place),
                    None => self.choices[at].1.reasoning_block(),
                };
                // The position in a list that tells all again is not the number.
                let index = if place == given { index } else { place.and_then(Place::number) };
                self.detail(place, block, kind, index, data, extra, sink);
            }
            Part::Annotation(json) => {
                let mut hasher = DefaultHasher::new();
                (number, place, json).hash(&mut hasher);
                if self.annotated.insert(hasher.finish()) {
                    let block = place.and_then(|place| self.choices[at].1.block(place));
                    self.context.emit(Body::Annotation { block, value: Json::trusted(json) }, sink);
                }
            }
            Part::Logprobs(json) => context.emit(Body::Logprobs { value: Json::trusted(json) }, sink),
            Part::Answers { call } => {
                if let Some(place) = place {
                    self.choices[at].1.answer(place, call);
                }
            }
            Part::ToolResult { call, value } => {
                let call = call.map(Str::to_cow);
                let (block, id) = self.choices[at].1.called(place, call.as_deref());
                let call = id.map(|id| Cow::Owned(id.to_owned()));
                self.choices[at].1.answered.extend(block);
                let key = call.as_deref().unwrap_or("");
                let spot = Spot { choice: number, place, block, scope: "tool result", key };
                if self.seen.is_news(spot, value) {
                    self.context.emit(Body::ToolResult { block, call, value: Json::trusted(value) }, sink);
                }
            }
            Part::Step { turn, counters, raw } => {
                let spot = Spot { choice: 0, place: None, block: None, scope: "usage", key: "" };
                if self.seen.is_news(spot, raw) {
                    let known = self.steps.take().filter(|(known, _)| turn.is(known));
                    let (turn, sum) =
                        known.unwrap_or_else(|| (turn.to_cow().into_owned(), Counters::default()));
                    let counters = sum.plus(&counters);
                    self.steps = Some((turn, counters));
                    self.context.emit(Body::Usage { counters, raw: Json::trusted(raw) }, sink);
                }
            }
            Part::Usage { counters, raw } => {
                let spot = Spot { choice: 0, place: None, block: None, scope: "usage", key: "" };
                if self.seen.is_news(spot, raw) {
                    self.context.emit(Body::Usage { counters, raw: Json::trusted(raw) }, sink);
                }
            }
            Part::Finish { reason, raw } => {
                let finish = &mut self.choices[at].1.finish;
                self.finished += usize::from(finish.is_none());
                // An empty word says nothing where another one was said.
                if finish.is_none() || raw.is_none_or(|raw| !raw.is_empty()) {
                    *finish = Some((reason, raw.map(|raw| raw.to_cow().into_owned())));
                }
            }
            Part::Done => self.ending.is_done = true,
            Part::Error(error) => {
                self.ending.has_failed = true;
                let spot = Spot { choice: 0, place: None, block: None, scope: "error", key: "" };
                if self.seen.is_news(spot, &error.message) {
                    self.context.emit(Body::Error(error.clone()), sink);
                }
            }
            Part::Foreign { scope, key, value } => {
                let block = place.and_then(|place| self.choices[at].1.block(place));
                let is_element = place.is_none() && key.ends_with("[]");
                if is_element || self.seen.is_news(Spot { choice: number, place, block, scope, key }, value) {
                    let path = if scope.is_empty() {
                        Cow::Borrowed(key)
                    } else {
                        Cow::Owned(format!("{scope}{key}"))
                    };
                    self.context.emit(Body::Foreign { block, path, value: Json::trusted(value) }, sink);
                }
            }
            Part::Notice { code, detail, text } => {
                self.ending.is_truncated |= code == NoticeCode::Truncated;
                let notice = Notice {
                    code,
                    offset: context.offset,
                    detail: Cow::Borrowed(detail),
                    text: text.map(Cow::Borrowed),
                };
                context.emit(Body::Notice(notice), sink);
            }
        }
    }

    /// Tells the answer's id and model when they are first known. Servers that change them later (an
    /// empty id first, a new id per chunk) do not restart the answer.
    fn start(&mut self, id: Option<Str<'_>>, model: Option<Str<'_>>, sink: &mut EventSink<'_>) {
        let is_other = |known: &String, given: Str<'_>| !given.is_empty() && !given.is(known);
        self.has_changing_id |= self.id.as_ref().zip(id).is_some_and(|(known, given)| is_other(known, given));
        let news = |known: &mut Option<String>, given: Option<Str<'_>>| {
            if known.is_none() {
                *known = given.filter(|given| !given.is_empty()).map(|given| given.to_cow().into_owned());
                return known.is_some();
            }
            false
        };
        let (has_id, has_model) = (news(&mut self.id, id), news(&mut self.model, model));
        if has_id || has_model {
            let id = self.id.as_deref().filter(|_| has_id).map(Cow::Borrowed);
            let model = self.model.as_deref().filter(|_| has_model).map(Cow::Borrowed);
            sink.put(Event::new(0, Body::Start { id, model }));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the members of one fragment, taken apart once")]
    fn detail(
        &mut self,
        place: Option<Place>,
        block: Option<BlockId>,
        kind: DetailKind,
        index: Option<i64>,
        data: Str<'_>,
        extra: Option<&str>,
        sink: &mut EventSink<'_>,
    ) {
        let scope = match kind {
            DetailKind::Text | DetailKind::Summary => None,
            DetailKind::Signature => Some("signature"),
            DetailKind::Encrypted => Some("encrypted"),
            DetailKind::Redacted => Some("redacted"),
        };
        if let Some(scope) = scope {
            let key = index.map(|index| index.to_string()).unwrap_or_default();
            let spot = Spot { choice: self.context.choice, place, block, scope, key: &key };
            if !self.seen.is_news(spot, data.written()) {
                return;
            }
        }
        let detail = Detail { kind, index, data: data.to_cow(), extra: extra.map(Json::trusted) };
        self.context.emit(Body::ReasoningDetail { block, detail }, sink);
    }
}

/// Up to this many choices are searched one by one.
const MANY: usize = 8;

struct Feed<'w, 'o, 's> {
    weave: &'w mut Weave,
    sink: &'o mut EventSink<'s>,
}

impl<'f> Sink<Fragment<'f>> for Feed<'_, '_, '_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        self.weave.fragment(fragment, self.sink);
    }
}
