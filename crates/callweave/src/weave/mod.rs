//! The one fold for all protocols: fragments → events.
//!
//! Protocols say what a frame contains; [`Weave`] keeps the state. It opens responses, choices, items and blocks when
//! they are first mentioned, ends them where the wire says so or where the next one begins, matches fragments of calls
//! by block key and id, and emits restated text once. It keeps no copy of the text: a block that may be restated is
//! remembered by its length and a hash.
//!
//! Nothing is finished at a finish reason: usage and even calls may follow it. The provider's own end marker, or the
//! end of input, ends the response. An input may hold several responses: a frame that begins anew after a response is
//! over begins the next one, and [`Weave::push_frame`] detects that.

mod block_state;
mod choice;
mod glance;
mod identity;
mod item;
mod leaves;
mod members;
mod seen;

use std::borrow::Cow;

use smol_str::SmolStr;

use self::block_state::{BlockCut, BlockState, NameState};
use self::choice::{CallPiece, ChoiceState, ResponseEnding};
use self::glance::FrameGlance;
use self::members::{ExtraMember, PendingExtra, path_of};
use self::seen::{SeenValues, ValueSpot};
use crate::dialect::Tools;
use crate::event::{
    AttachmentKind, BlockId, CallKind, Event, EventKind, EventScope, EventSink, ItemId, JsonText, Notice,
    NoticeCode, Sink, TokenCounts,
};
use crate::fingerprint::keyed_digest;
use crate::fragment::{BlockAddress, BlockKey, ExtraScope, Fragment, FragmentKind, FragmentSink};
use crate::json::{Opaque, Str};
use crate::table::OrderedTable;

/// The fold. See the [module](self).
#[derive(Clone, Default)]
pub struct Weave {
    context: WeaveContext,
    choices: OrderedTable<u32, ChoiceState>,
    /// The choices that have work when the frame is over.
    awake: Vec<usize>,
    answer: ResponseState,
    annotated: OrderedTable<AnnotationKey, ()>,
}

/// A choice, the scope of the annotation, and the hashes of its wire type and value.
type AnnotationKey = (u32, EventScope, [u64; 2]);

/// The state of the response as a whole.
#[derive(Clone, Default)]
struct ResponseState {
    id: Option<NameState>,
    model: Option<NameState>,
    wire_type: SmolStr,
    /// The extra fields that came before the start was emitted.
    extra: PendingExtra,
    has_begun: bool,
    /// The turn whose steps are counted, and their sum. Few wires count like this.
    steps: Option<Box<(String, TokenCounts)>>,
    /// Whether the provider gives its response a new id now and then, so that an id says nothing.
    has_changing_id: bool,
    has_content: bool,
    /// The number of choices that were given a finish reason.
    finished: usize,
    ending: ResponseEnding,
    /// Whether the first of the provider's two end markers has come.
    is_half_done: bool,
    /// Whether the end was emitted.
    is_told: bool,
    /// The last frame that was reported to come after the end.
    late: u64,
}

/// A call that waits for its name to be settled. See [`Weave::pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCall<'a> {
    /// The number of its choice.
    pub choice: u32,
    /// The provider's id, if it has come.
    pub id: Option<&'a str>,
    /// The name so far.
    pub name: &'a str,
    /// The argument text so far, where it came before the name.
    pub arguments: &'a str,
    /// The kind of the call: it says who runs the tool.
    pub kind: CallKind,
}

/// The state that all choices share.
#[derive(Clone, Default)]
struct WeaveContext {
    /// The declared tools, whose names are known in full.
    declared: Option<Tools>,
    choice: u32,
    frame: u64,
    offset: u64,
    blocks: u32,
    items: u32,
    scratch: String,
    seen: SeenValues,
    /// The extra fields for the item or block of the next fragment.
    next: PendingExtra,
    /// The details of the next step: an object that is not closed yet.
    details: String,
    /// The attachments of the block that the next fragment brings complete.
    hanging: Vec<(AttachmentKind, String, String)>,
}

/// The target of an extra field, and the scope of its event: no more events are emitted for a block that is over, so
/// late fields of it have the scope of its item or choice.
#[derive(Clone, Copy)]
struct ExtraTarget {
    owner: EventScope,
    scope: EventScope,
}

impl From<EventScope> for ExtraTarget {
    fn from(scope: EventScope) -> Self {
        Self { owner: scope, scope }
    }
}

/// The maximum length of a delta that is decoded in the scratch buffer, whose memory is held as long as the stream is.
const LONGEST_SCRATCH: usize = 1 << 14;

/// The maximum capacity kept for the details of later steps.
const LONGEST_DETAILS: usize = 512;

impl WeaveContext {
    #[inline(always)]
    fn emit(&self, body: EventKind<'_>, sink: &mut EventSink<'_>) {
        sink.put(Event::new(self.choice, body));
    }

    fn notice(&self, code: NoticeCode, detail: impl Into<Cow<'static, str>>, sink: &mut EventSink<'_>) {
        self.emit(EventKind::Notice(Notice::new(code, self.offset, detail)), sink);
    }

    /// Takes a member of the next step's details.
    fn detail(&mut self, key: &str, value: &str) {
        self.details.push_str(if self.details.is_empty() { "{\"" } else { ",\"" });
        self.details.push_str(key);
        self.details.push_str("\":");
        self.details.push_str(value);
    }

    /// Emits a step, with its details if there are some.
    fn progress(
        &mut self,
        scope: EventScope,
        wire_type: &str,
        value: Option<&str>,
        sink: &mut EventSink<'_>,
    ) {
        let mut details = std::mem::take(&mut self.details);
        let value = match details.is_empty() {
            true => value,
            false => {
                details.push('}');
                Some(&*details)
            }
        };
        let (wire_type, value) = (Cow::Borrowed(wire_type), value.map(JsonText::trusted));
        self.emit(EventKind::Progress { scope, wire_type, value }, sink);
        details.clear();
        // Previews of images are long.
        details.shrink_to(LONGEST_DETAILS);
        self.details = details;
    }

    /// Whether the name is complete: no call of it can turn out to be of another name with that prefix.
    fn is_whole_name(&self, name: &str) -> bool {
        self.declared.as_ref().is_some_and(|declared| declared.is_whole_name(name))
    }

    fn next_block(&mut self) -> BlockId {
        let block = BlockId(self.blocks);
        self.blocks += 1;
        block
    }

    fn next_item(&mut self) -> ItemId {
        let item = ItemId(self.items);
        self.items += 1;
        item
    }

    /// Whether the value is new there; it is remembered.
    fn is_news(&mut self, scope: EventScope, member: ExtraMember<'_>) -> bool {
        self.is_news_of(scope, 0, member)
    }

    /// Whether the value is new for the target of that hash; it is remembered.
    fn is_news_of(&mut self, scope: EventScope, of: u64, (path, key, value): ExtraMember<'_>) -> bool {
        let spot = ValueSpot { of, ..self.spot(scope, path, keyed_digest(key)) };
        self.seen.is_news(spot, value)
    }

    /// The position of a member with that key.
    fn spot(&self, scope: EventScope, path: &'static str, key: u64) -> ValueSpot {
        // A field of the response is the same from every choice.
        let choice = if scope == EventScope::Response { 0 } else { self.choice };
        ValueSpot { choice, scope, of: 0, path, key }
    }

    /// Emits an extra field, if it is new.
    fn tell(&mut self, about: impl Into<ExtraTarget>, member: ExtraMember<'_>, sink: &mut EventSink<'_>) {
        let about = about.into();
        if self.is_news(about.owner, member) {
            let (path, key, value) = member;
            let (scope, path, value) = (about.scope, path_of(path, key), JsonText::trusted(value));
            self.emit(EventKind::Extra { scope, path, value }, sink);
        }
    }

    /// Emits the extra fields that waited for this target, which has started already.
    fn emit_next(&mut self, about: impl Into<ExtraTarget>, sink: &mut EventSink<'_>) {
        let about = about.into();
        if self.next.is_empty() {
            return;
        }
        let next = std::mem::take(&mut self.next);
        for member in next.iter() {
            self.tell(about, member, sink);
        }
        self.return_next(next);
    }

    fn return_next(&mut self, mut next: PendingExtra) {
        next.clear();
        self.next = next;
    }

    /// Remembers members that are emitted with a start, before which none was emitted, and makes one object of them.
    fn members(&mut self, scope: EventScope, members: &mut PendingExtra) -> Option<JsonText<'static>> {
        self.seen.reserve(members.digests().len());
        for (path, key, value) in members.digests() {
            self.seen.note(self.spot(scope, path, key), value);
        }
        members.take()
    }

    /// The extra fields that wait for the item or block that is starting now.
    fn take_next(&mut self, scope: EventScope) -> Option<JsonText<'static>> {
        if self.next.is_empty() {
            return None;
        }
        let mut next = std::mem::take(&mut self.next);
        let json = self.members(scope, &mut next);
        self.next = next;
        json
    }

    /// Drops the pending fields and attachments: the next block was known already, and so are its fields.
    fn forget_next(&mut self) {
        self.next.clear();
        self.hanging.clear();
    }

    /// The scratch buffer, empty; give it back so that its memory is used again.
    fn take_scratch(&mut self) -> String {
        std::mem::take(&mut self.scratch)
    }

    fn return_scratch(&mut self, mut scratch: String) {
        scratch.clear();
        if scratch.capacity() > self.scratch.capacity() && scratch.capacity() <= LONGEST_SCRATCH {
            self.scratch = scratch;
        }
    }
}

impl Weave {
    /// A fold before the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// A fold that knows the declared tools. A call of one of them begins with the frame that brought its name, unless
    /// the name is a prefix of another declared name; any other call begins with its first arguments or with the next
    /// frame.
    pub fn with_tools(declared: Tools) -> Self {
        let declared = Some(declared).filter(|declared| !declared.is_empty());
        Self { context: WeaveContext { declared, ..WeaveContext::default() }, ..Self::default() }
    }

    /// Takes the fragments of one frame that began at byte `offset` of the input: `frame` is called once,
    /// with the sink to put them in.
    pub fn push(&mut self, offset: u64, frame: impl FnOnce(&mut FragmentSink<'_>), sink: &mut EventSink<'_>) {
        self.context.frame += 1;
        self.context.offset = offset;
        // A truncated step may have brought details only.
        self.context.details.clear();
        frame(&mut FragmentFeed { weave: self, sink });
        if self.answer.is_named() {
            self.begin(sink);
        }
        if !self.context.next.is_empty() {
            // Nothing came that these could belong to.
            self.choice(0, sink);
            self.context.emit_next(EventScope::Choice, sink);
        }
        if !self.awake.is_empty() {
            self.end_frame(sink);
        }
        if self.answer.ending.is_done {
            self.finish(sink);
        }
    }

    /// Runs the end-of-frame work of the choices.
    fn end_frame(&mut self, sink: &mut EventSink<'_>) {
        let Self { awake, choices, context, .. } = self;
        awake.retain(|&at| {
            let (number, choice) = choices.entry_mut(at);
            context.choice = *number;
            choice.end_frame(context, sink);
            choice.is_awake = choice.waits();
            choice.is_awake
        });
    }

    /// The block that grows in frames that otherwise repeat the one before. None if such a frame must be pushed all the
    /// same, because there is work at its end or the block is over.
    pub(crate) fn running(&self, number: u32, target: AppendTarget) -> Option<GrowingBlock> {
        if !self.awake.is_empty() || !self.context.next.is_empty() {
            return None;
        }
        let choice = self.choices.position(&number)?;
        let state = self.choices.all()[choice].1.running_on(target)?;
        Some(GrowingBlock { choice, state })
    }

    /// Continues such a block, for which nothing else has come since it was asked for.
    #[inline(always)]
    pub(crate) fn run(&mut self, GrowingBlock { choice, state: at }: GrowingBlock) -> BlockRun<'_> {
        let (number, choice) = self.choices.entry_mut(choice);
        let (state, complete) = choice.state_of_run(at);
        self.context.choice = *number;
        BlockRun { context: &mut self.context, at, state, complete }
    }

    /// Takes the fragments of one frame as [`Weave::push`] does, but first finishes the response if it is over and the
    /// frame begins the next one. For that `frame` may be called twice, and must say the same.
    pub fn push_frame(
        &mut self,
        offset: u64,
        frame: impl Fn(&mut FragmentSink<'_>),
        sink: &mut EventSink<'_>,
    ) {
        if self.is_over() {
            let mut glance = FrameGlance::default();
            frame(&mut glance);
            if self.answer.is_left_behind_by(&glance) {
                self.begin_anew(sink);
            }
        }
        self.push(offset, frame, sink);
    }

    /// Finishes the response; the next frame begins another one.
    pub(crate) fn begin_anew(&mut self, sink: &mut EventSink<'_>) {
        self.finish(sink);
        let WeaveContext { frame, scratch, declared, .. } = std::mem::take(&mut self.context);
        *self = Self {
            context: WeaveContext { frame, scratch, declared, ..WeaveContext::default() },
            ..Self::default()
        };
    }

    /// Whether the next frame may belong to another response.
    pub(crate) fn is_over(&self) -> bool {
        self.answer.is_over(self.choices.len())
    }

    /// Ends the response: no frame will come any more.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        if self.answer.is_told {
            return;
        }
        self.answer.is_told = true;
        if self.choices.is_empty() {
            self.choice(0, sink);
        }
        for (number, choice) in self.choices.all_mut() {
            self.context.choice = *number;
            choice.finish(self.answer.ending, &mut self.context, sink);
        }
        sink.put(Event::new(0, EventKind::End));
    }

    /// Whether the upstream has reported an error.
    pub fn has_failed(&self) -> bool {
        self.answer.ending.has_failed
    }

    /// Whether neither content nor an error has come.
    pub(crate) fn is_empty(&self) -> bool {
        !self.answer.ending.has_failed && !self.answer.has_content
    }

    /// The provider's latest finish reason of the choice, while the response is not over.
    pub(crate) fn raw_finish_reason(&self, choice: u32) -> Option<&str> {
        let (_, choice) = self.choices.all().iter().find(|(number, _)| *number == choice)?;
        choice.finish.as_ref()?.1.as_deref()
    }

    /// Whether calls are open, and all of them are complete.
    pub(crate) fn has_complete_calls(&self) -> bool {
        let mut open = self.choices.all().iter().filter_map(|(_, choice)| choice.are_open_calls_complete());
        open.next().is_some_and(|first| first && open.all(|complete| complete))
    }

    /// The calls whose name has come but may still grow, and that have no block yet.
    pub fn pending(&self) -> impl Iterator<Item = PendingCall<'_>> {
        self.choices.all().iter().flat_map(|(number, choice)| {
            choice.pending().map(|call| PendingCall {
                choice: *number,
                id: call.id.as_deref(),
                name: call.name.as_str(),
                arguments: call.held(),
                kind: call.kind,
            })
        })
    }

    /// Emits the start of the response, if it has not been emitted.
    fn begin(&mut self, sink: &mut EventSink<'_>) {
        if self.answer.has_begun {
            return;
        }
        self.answer.has_begun = true;
        let members = self.context.members(EventScope::Response, &mut std::mem::take(&mut self.answer.extra));
        let ResponseState { id, model, wire_type, .. } = &self.answer;
        let [id, model] = [id, model].map(|name| name.as_ref().map(|name| Cow::Borrowed(name.as_str())));
        sink.put(Event::new(
            0,
            EventKind::Start { id, model, wire_type: Cow::Borrowed(wire_type), extra: members },
        ));
    }

    /// The choice of that number, begun if it has not begun.
    fn choice(&mut self, number: u32, sink: &mut EventSink<'_>) -> usize {
        self.context.choice = number;
        if let Some(at) = self.choices.position(&number) {
            return at;
        }
        self.begin(sink);
        self.context.emit(EventKind::ChoiceStart, sink);
        self.choices.append(number, ChoiceState::default())
    }

    /// Remembers the choice, which got content, if it has work when the frame is over.
    fn wake(&mut self, at: usize) {
        let choice = self.choices.at_mut(at);
        self.answer.has_content |= !choice.is_empty();
        if !choice.is_awake && choice.waits() {
            choice.is_awake = true;
            self.awake.push(at);
        }
    }

    /// Takes a fragment by reference: large ones are then taken apart only where they are used.
    fn fragment(&mut self, fragment: &Fragment<'_>, sink: &mut EventSink<'_>) {
        let (number, place) = (fragment.choice, fragment.key.map(BlockKey::reveal));
        if self.answer.is_told {
            return self.late(&fragment.part, sink);
        }
        match fragment.part {
            // A fragment about the response, not about a choice, must not make one.
            FragmentKind::Start { id, model, wire_type } => {
                let [id, model] = [id, model].map(|name| name.map(Opaque::reveal));
                return self.start(id, model, wire_type, sink);
            }
            FragmentKind::Rerouted { model } => return self.start(None, Some(model.reveal()), "", sink),
            FragmentKind::Step { turn, counters, raw } => {
                self.begin(sink);
                let (turn, raw) = (turn.reveal(), raw.reveal_json());
                if self.context.is_news(EventScope::Response, ("usage ", "", raw)) {
                    let known = self.answer.steps.take().filter(|steps| turn.is(&steps.0));
                    let mut steps = known
                        .unwrap_or_else(|| Box::new((turn.to_cow().into_owned(), TokenCounts::default())));
                    let counters = steps.1.plus(&counters);
                    steps.1 = counters;
                    self.answer.steps = Some(steps);
                    let (wire_type, raw) = (Cow::Borrowed("tokenUsage"), JsonText::trusted(raw));
                    sink.put(Event::new(0, EventKind::Usage { wire_type, counters, raw }));
                }
                return;
            }
            FragmentKind::Extra { level: ExtraScope::Response, path, key, value } => {
                let value = value.reveal_json();
                if self.answer.has_begun {
                    self.context.choice = 0;
                    self.context.tell(EventScope::Response, (path, key, value), sink);
                } else {
                    self.answer.extra.set((path, key, value));
                }
                return;
            }
            FragmentKind::Extra { level: ExtraScope::Next, path, key, value } => {
                return self.context.next.set((path, key, value.reveal_json()));
            }
            FragmentKind::Attach { level: ExtraScope::Next, kind, wire_type, value, .. } => {
                return self.context.hanging.push((
                    kind,
                    wire_type.to_owned(),
                    value.reveal_json().to_owned(),
                ));
            }
            FragmentKind::Attach { level: ExtraScope::Response, kind, wire_type, value, .. } => {
                self.begin(sink);
                self.context.choice = 0;
                return self.attach(EventScope::Response.into(), kind, wire_type, value.reveal_json(), sink);
            }
            FragmentKind::Progress { wire_type, value } if place.is_none() => {
                if !self.answer.has_begun && !self.answer.is_named() {
                    // Keep-alives before the response has begun.
                    return;
                }
                self.begin(sink);
                self.context.choice = 0;
                let value = value.map(Opaque::reveal_json);
                return self.context.progress(EventScope::Response, wire_type, value, sink);
            }
            FragmentKind::Detail { key, value } => return self.context.detail(key, value.reveal_json()),
            FragmentKind::Usage { wire_type, usage } => {
                self.begin(sink);
                if self.context.is_news(EventScope::Response, ("usage ", wire_type, usage.raw())) {
                    let (wire_type, raw) = (Cow::Borrowed(wire_type), JsonText::trusted(usage.raw()));
                    let counters = usage.counters();
                    sink.put(Event::new(0, EventKind::Usage { wire_type, counters, raw }));
                }
                return;
            }
            FragmentKind::Done => return self.answer.ending.is_done = true,
            FragmentKind::HalfDone => {
                self.answer.ending.is_done |= std::mem::replace(&mut self.answer.is_half_done, true);
                return;
            }
            FragmentKind::Error(error) => {
                self.begin(sink);
                self.answer.ending.has_failed = true;
                if self.context.is_news(EventScope::Response, ("error", "", &error.message)) {
                    sink.put(Event::new(0, EventKind::Error(error.clone())));
                }
                return;
            }
            FragmentKind::Notice { code, detail, text } => {
                self.answer.ending.is_truncated |= code == NoticeCode::Truncated;
                if self.answer.is_named() {
                    self.begin(sink);
                }
                let notice = Notice {
                    text: text.map(Cow::Borrowed),
                    ..Notice::new(code, self.context.offset, detail)
                };
                return sink.put(Event::new(number, EventKind::Notice(notice)));
            }
            _ => {}
        }
        let at = self.choice(number, sink);
        let (choice, context) = (self.choices.at_mut(at), &mut self.context);
        let place = place.map(|place| choice.canonical(place));
        match fragment.part {
            FragmentKind::Same { name, or } => {
                if let Some(place) = place {
                    choice.unite(place, name.reveal(), or.map(BlockKey::reveal));
                }
            }
            FragmentKind::Choice => {}
            FragmentKind::Item { id, wire_type } => {
                choice.item(place, id.map(Opaque::reveal), wire_type, context, sink)
            }
            FragmentKind::ItemEnd => choice.end_item(place, context, sink),
            FragmentKind::Open { channel, wire_type } => {
                choice.open(place, channel, wire_type, context, sink);
                self.wake(at);
            }
            FragmentKind::Text { channel, wire_type, text } => {
                choice.text(place, channel, wire_type, text.reveal(), context, sink);
                self.wake(at);
            }
            FragmentKind::Restate { channel, wire_type, text, is_recap } => {
                choice.restate(place, (channel, wire_type), text.reveal(), is_recap, context, sink);
                self.wake(at);
            }
            FragmentKind::Call { id, name, kind, wire_type, arguments } => {
                let [id, name] = [id, name].map(|text| text.map(Opaque::reveal));
                choice.call(&CallPiece { place, id, name, kind, wire_type, arguments }, context, sink);
                self.wake(at);
            }
            FragmentKind::End => choice.end(place, BlockCut::No, context, sink),
            FragmentKind::Truncated => choice.end(place, BlockCut::ByLimit, context, sink),
            FragmentKind::Attach { level, on, kind, wire_type, value } => {
                let about = match level {
                    ExtraScope::Block => choice.attachable(place, on, context, sink),
                    ExtraScope::Item => choice.item_scope(place).into(),
                    ExtraScope::Choice | ExtraScope::Response | ExtraScope::Next => EventScope::Choice.into(),
                };
                self.attach(about, kind, wire_type, value.reveal_json(), sink);
            }
            FragmentKind::ResultOf { call } => {
                if let Some(place) = place {
                    choice.answer(place, call.reveal(), context);
                }
            }
            FragmentKind::ToolResult { call, wire_type, value } => {
                let call = call.map(Opaque::reveal);
                choice.result(place, call, wire_type, value.reveal_json(), context, sink)
            }
            FragmentKind::Opaque { wire_type, value } => {
                choice.opaque(place, wire_type, value.reveal_json(), context, sink)
            }
            FragmentKind::Progress { wire_type, value } => {
                let value = value.map(Opaque::reveal_json);
                context.progress(choice.item_scope(place), wire_type, value, sink);
            }
            FragmentKind::Finish { reason, raw } => {
                // An empty reason does not replace another one.
                self.answer.finished += usize::from(choice.finish.is_none());
                if choice.finish.is_none() || raw.is_none_or(|raw| !raw.is_empty()) {
                    choice.finish = Some((reason, raw.map(|raw| raw.reveal().to_cow().into())));
                }
            }
            FragmentKind::Extra { level, path, key, value } => {
                let value = value.reveal_json();
                let about = match level {
                    ExtraScope::Block => choice.about(place),
                    ExtraScope::Item => choice.item_scope(place).into(),
                    ExtraScope::Choice | ExtraScope::Response | ExtraScope::Next => EventScope::Choice.into(),
                };
                match place.filter(|_| level == ExtraScope::Block).and_then(|place| choice.waiting(place)) {
                    Some(members) => members.set((path, key, value)),
                    None => context.tell(about, (path, key, value), sink),
                }
            }
            FragmentKind::Start { .. }
            | FragmentKind::Rerouted { .. }
            | FragmentKind::Step { .. }
            | FragmentKind::Usage { .. }
            | FragmentKind::Detail { .. }
            | FragmentKind::Done
            | FragmentKind::HalfDone
            | FragmentKind::Error(_)
            | FragmentKind::Notice { .. } => {
                unreachable!("told above")
            }
        }
    }

    /// Reports a fragment that came after the end of the response and begins no other, once a frame, if it says
    /// anything.
    fn late(&mut self, part: &FragmentKind<'_>, sink: &mut EventSink<'_>) {
        if let FragmentKind::Notice { code, detail, text } = *part {
            // The response itself is complete.
            let code = if code == NoticeCode::Truncated { NoticeCode::LateFragment } else { code };
            let text = text.map(Cow::Borrowed);
            let notice = Notice { text, ..Notice::new(code, self.context.offset, detail) };
            return sink.put(Event::new(0, EventKind::Notice(notice)));
        }
        let is_silent = matches!(
            part,
            FragmentKind::Start { .. }
                | FragmentKind::Choice
                | FragmentKind::Done
                | FragmentKind::HalfDone
                | FragmentKind::End
                | FragmentKind::Item { .. }
                | FragmentKind::ItemEnd
                | FragmentKind::Finish { .. }
                | FragmentKind::Restate { .. }
                | FragmentKind::Progress { .. }
                | FragmentKind::Detail { .. }
                | FragmentKind::Extra { .. }
        );
        if !is_silent && self.answer.late != self.context.frame {
            self.answer.late = self.context.frame;
            self.context.choice = 0;
            self.context.notice(NoticeCode::LateFragment, "something came after the end of the answer", sink);
        }
    }

    /// Emits the response's id and model when they are first known, and when they change.
    fn start(
        &mut self,
        id: Option<Str<'_>>,
        model: Option<Str<'_>>,
        wire_type: &str,
        sink: &mut EventSink<'_>,
    ) {
        let news = |known: &mut Option<NameState>, given: Option<Str<'_>>| {
            let Some(given) = given.filter(|given| !given.is_empty()) else { return false };
            match known {
                Some(known) if given.is(known.as_str()) => return false,
                Some(known) => known.change(&given.to_cow()),
                None => *known = Some(NameState::Whole(given.to_cow().into())),
            }
            true
        };
        let ResponseState { id: own_id, model: own_model, has_begun, has_changing_id, .. } = &mut self.answer;
        let had_id = own_id.is_some();
        let (has_id, has_model) = (news(own_id, id), news(own_model, model));
        *has_changing_id |= had_id && has_id;
        if !*has_begun {
            if self.answer.wire_type.is_empty() {
                self.answer.wire_type = wire_type.into();
            }
        } else if has_id || has_model {
            let [id, model] = [(own_id, has_id), (own_model, has_model)].map(|(name, is_news)| {
                name.as_ref().filter(|_| is_news).map(|name| Cow::Borrowed(name.as_str()))
            });
            sink.put(Event::new(0, EventKind::Identity { scope: EventScope::Response, id, model }));
        }
    }

    /// Emits an attachment, if it is new: one entry of several, or the newest of its kind.
    fn attach(
        &mut self,
        about: ExtraTarget,
        kind: AttachmentKind,
        wire_type: &str,
        value: &str,
        sink: &mut EventSink<'_>,
    ) {
        let ExtraTarget { owner, scope } = about;
        let is_news = match kind {
            AttachmentKind::Logprobs => true,
            AttachmentKind::Annotation => {
                let told = (self.context.choice, owner, [wire_type, value].map(keyed_digest));
                self.annotated.insert(told, ()).is_none()
            }
            AttachmentKind::Signature => self.context.is_news(owner, ("signature", wire_type, value)),
            AttachmentKind::Encrypted => self.context.is_news(owner, ("encrypted", wire_type, value)),
        };
        if is_news {
            let (wire_type, value) = (Cow::Borrowed(wire_type), JsonText::trusted(value));
            self.context.emit(EventKind::Attachment { scope, kind, wire_type, value }, sink);
        }
    }
}

impl ResponseState {
    /// Whether the next frame may belong to another response: the provider has ended this one, or sent nothing but an
    /// error, or has given every choice a finish reason.
    fn is_over(&self, choices: usize) -> bool {
        let is_begun = self.has_content || self.finished > 0 || self.ending.has_failed;
        let is_finished = self.finished > 0 && self.finished == choices;
        self.is_told && is_begun || self.has_only_failed() || is_finished
    }

    fn has_only_failed(&self) -> bool {
        self.ending.has_failed && !self.has_content && self.finished == 0
    }

    /// Whether a frame that comes after the end belongs to another response.
    fn is_left_behind_by(&self, next: &FrameGlance) -> bool {
        let has_other_id = next.has_other_id(self.id.as_ref().map(NameState::as_str));
        if self.has_only_failed() {
            return !next.has_error && (has_other_id || next.has_content());
        }
        if self.ending.is_done {
            // The same response may come once more, complete.
            let is_retold = next.is_complete && (self.id.is_some() || next.id.is_some());
            return has_other_id || next.is_fresh || (next.has_content() && !is_retold) || next.has_error;
        }
        // Content may follow a finish; under another id it belongs to another response. Many responses begin with a
        // choice that holds only the role; the counts that follow a response may name a choice, too.
        let begins = next.has_content() || next.has_finish || next.has_choice && !next.has_usage;
        self.id.is_some() && has_other_id && !self.has_changing_id && begins
    }

    /// Whether there is something to emit of its start.
    fn is_named(&self) -> bool {
        !self.has_begun && (self.id.is_some() || self.model.is_some() || !self.wire_type.is_empty())
    }
}

/// The part of the last block that a repeated frame appends to.
#[derive(Clone, Copy)]
pub(crate) enum AppendTarget {
    /// The text with that block key.
    Text(Option<BlockAddress>),
    /// The arguments of the call.
    Arguments,
}

/// The position of a block that frame after frame only grows: see [`Weave::running`].
#[derive(Clone, Copy)]
pub(crate) struct GrowingBlock {
    choice: usize,
    state: usize,
}

/// Such a block, as it grows. Taking text changes nothing that was asked to find it.
pub(crate) struct BlockRun<'w> {
    context: &'w mut WeaveContext,
    at: usize,
    state: &'w mut BlockState,
    /// The complete call of its choice.
    complete: &'w mut Option<usize>,
}

impl BlockRun<'_> {
    /// Takes the text of the next frame, which began at that byte of the input.
    #[inline(always)]
    pub(crate) fn push(&mut self, offset: u64, text: Str<'_>, sink: &mut EventSink<'_>) {
        self.context.frame += 1;
        self.context.offset = offset;
        self.state.append(text, self.context, sink);
        if self.state.is_complete_call() {
            *self.complete = Some(self.at);
        }
    }
}

struct FragmentFeed<'w, 'o, 's> {
    weave: &'w mut Weave,
    sink: &'o mut EventSink<'s>,
}

impl<'f> Sink<Fragment<'f>> for FragmentFeed<'_, '_, '_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        self.weave.fragment(&fragment, self.sink);
    }
}
