//! One choice: its blocks, and which fragment belongs to which of them.
//!
//! The table in `identity.rs` decides which call a fragment of a call continues.

use std::borrow::Cow;
use std::ops::Deref;

use smol_str::SmolStr;

use super::block_state::{BlockCut, BlockState, CallState, NameState, StateContent};
use super::identity::IdentityEvidence;
use super::item::ItemTable;
use super::members::PendingExtra;
use super::{AppendTarget, ExtraTarget, WeaveContext};
use crate::event::{
    BlockCompletion, BlockKind, CallKind, EventKind, EventScope, EventSink, FinishReason, JsonText, Notice,
    NoticeCode,
};
use crate::fingerprint::{TextFingerprint, keyed_digest, keyed_hash};
use crate::fragment::{BlockAddress, BlockKey, FragmentArguments, TextChannel};
use crate::json::{Opaque, Str, compact_into};
use crate::table::OrderedTable;

#[derive(Clone, Default)]
pub(super) struct ChoiceState {
    states: Vec<BlockState>,
    by_place: OrderedTable<BlockAddress, usize>,
    /// Calls by the hashes of their ids.
    by_id: OrderedTable<u64, usize>,
    /// The block states of each numbered or named block group, in order.
    things: OrderedTable<BlockAddress, BlockGroup>,
    /// Block keys of groups that are also known by another key.
    aliases: OrderedTable<BlockAddress, BlockAddress>,
    /// A bit for each space that has such keys, or another space of that bit: mostly names alone.
    aliased: u64,
    /// The calls whose results come at a block key, with the extra fields of the result that came before it.
    answers: OrderedTable<BlockAddress, (String, PendingExtra)>,
    /// The texts of ended blocks, and the block state that first held each.
    texts: OrderedTable<TextFingerprint, usize>,
    /// All that ended blocks held, with the lanes of their channels.
    told: Vec<(ChannelKind, TextFingerprint)>,
    /// The block key asked for last and its block state: most fragments continue the block of the fragment before.
    latest: Option<(BlockAddress, usize)>,
    /// The open text block that has no block key.
    running: Option<usize>,
    /// The call whose arguments are complete and that ends when something else arrives.
    complete: Option<usize>,
    /// The block state of the latest fragment.
    last: Option<usize>,
    last_call: Option<usize>,
    items: ItemTable,
    /// Calls that got the first piece of their name in this frame.
    named: Vec<usize>,
    /// The number of the first of them that have begun.
    begun: usize,
    /// Calls that had it before: their name is settled if it does not grow in this frame.
    ripe: Vec<usize>,
    /// Whether the weave knows that there is work at the end of the frame.
    pub(super) is_awake: bool,
    pub(super) finish: Option<(FinishReason, Option<SmolStr>)>,
}

/// The blocks of one numbered or named block group.
#[derive(Clone, Default)]
struct BlockGroup {
    states: BlockNumbers,
    /// How many of the first block states the frame has restated already: a list of many parts must not be searched
    /// once per part.
    restated: usize,
    /// The frame that was counted for.
    frame: u64,
}

/// The numbers of block states, mostly of one: that needs no memory of its own.
#[derive(Clone, Default)]
enum BlockNumbers {
    #[default]
    None,
    One([usize; 1]),
    Many(Vec<usize>),
}

impl BlockNumbers {
    fn push(&mut self, at: usize) {
        match self {
            Self::None => *self = Self::One([at]),
            Self::One([first]) => *self = Self::Many(vec![*first, at]),
            Self::Many(all) => all.push(at),
        }
    }
}

impl Deref for BlockNumbers {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Self::None => &[],
            Self::One(one) => one,
            Self::Many(all) => all,
        }
    }
}

/// The end of a response.
#[derive(Clone, Copy, Default)]
pub(super) struct ResponseEnding {
    /// Whether the provider ended the response.
    pub(super) is_done: bool,
    pub(super) has_failed: bool,
    /// Whether a notice already reported that something is missing.
    pub(super) is_truncated: bool,
}

/// A call as a fragment describes it.
pub(super) struct CallPiece<'a> {
    pub(super) place: Option<BlockAddress>,
    pub(super) id: Option<Str<'a>>,
    pub(super) name: Option<Str<'a>>,
    pub(super) kind: CallKind,
    pub(super) wire_type: &'a str,
    pub(super) arguments: Option<FragmentArguments<'a>>,
}

impl ChoiceState {
    /// Takes the fields of the item at the block key.
    pub(super) fn item(
        &mut self,
        place: Option<BlockAddress>,
        id: Option<Str<'_>>,
        wire_type: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        self.items.tell(place.unwrap_or_default(), id, wire_type, context, sink);
    }

    /// Ends the item at the block key, and its blocks with it.
    pub(super) fn end_item(
        &mut self,
        place: Option<BlockAddress>,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let Some(item) = self.items.at(place.unwrap_or_default()) else { return };
        for at in 0..self.states.len() {
            if self.states[at].item == Some(item) {
                self.end_state(at, BlockCut::No, context, sink);
            }
        }
        context.emit_next(EventScope::Item(item), sink);
        self.items.end(item, context, sink);
    }

    /// The scope of the item at the block key; else of the choice.
    pub(super) fn item_scope(&self, place: Option<BlockAddress>) -> EventScope {
        let item = place.and_then(|place| self.items.at(place));
        item.map_or(EventScope::Choice, EventScope::Item)
    }

    /// The target for the block at the block key; else its item or the choice.
    pub(super) fn about(&self, place: Option<BlockAddress>) -> ExtraTarget {
        match place.and_then(|place| self.at_place(place)) {
            Some(at) => self.states[at].about(),
            None => self.item_scope(place).into(),
        }
    }

    /// The pending extra fields of the block at the block key, if it has yet to start.
    pub(super) fn waiting(&mut self, place: BlockAddress) -> Option<&mut PendingExtra> {
        let at = self.at_place(place)?;
        let state = &mut self.states[at];
        (state.block.is_none() && !state.is_ended).then(|| &mut **state.extra.get_or_insert_default())
    }

    /// The target of an attachment at the block key; see
    /// [`FragmentKind::Attach`](crate::fragment::FragmentKind::Attach).
    pub(super) fn attachable(
        &mut self,
        place: Option<BlockAddress>,
        on: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) -> ExtraTarget {
        if place.is_some_and(|place| !place.runs) {
            return self.about(place);
        }
        let is_apt = |at: &usize| {
            let state = &self.states[*at];
            state.is_running(TextChannel::REASONING)
                && state.wire_type.starts_with(on)
                && state.place == place
        };
        let at = match self.running.filter(is_apt) {
            Some(at) => at,
            None => self.running_state(place, TextChannel::REASONING, on, context, sink),
        };
        self.begin_state(at, context, sink);
        self.states[at].about()
    }

    pub(super) fn open(
        &mut self,
        place: Option<BlockAddress>,
        channel: TextChannel,
        wire_type: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        // A block that is over is restated, not made anew.
        let known = place.filter(|place| !place.runs).and_then(|place| self.at_place(place));
        if let Some(at) = known.filter(|&at| self.states[at].is_ended && self.states[at].is_running(channel))
        {
            return context.emit_next(self.states[at].about(), sink);
        }
        let at = self.running_state(place, channel, wire_type, context, sink);
        self.begin_state(at, context, sink);
    }

    /// Gives a block state the extra fields that wait for it and starts its block; if the block has started, they are
    /// emitted as later fields.
    fn begin_state(&mut self, at: usize, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        self.claim(at, context, sink);
        self.states[at].start(context, sink);
    }

    /// Gives a block state the extra fields that wait for it.
    fn claim(&mut self, at: usize, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if context.next.is_empty() {
            return;
        }
        let state = &mut self.states[at];
        match (state.block, &mut state.extra) {
            (Some(_), _) => context.emit_next(state.about(), sink),
            (None, None) => state.extra = Some(Box::new(std::mem::take(&mut context.next))),
            (None, Some(members)) => {
                context.next.iter().for_each(|member| members.set(member));
                context.next.clear();
            }
        }
    }

    pub(super) fn text(
        &mut self,
        place: Option<BlockAddress>,
        channel: TextChannel,
        wire_type: &str,
        text: Str<'_>,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        if text.is_empty() {
            return;
        }
        if let Some(at) = self.undisturbed(place, context) {
            let state = &mut self.states[at];
            if state.is_running(channel) && state.is_open() && state.restated_in.is_none() {
                return state.append(text, context, sink);
            }
        }
        let known = place
            .filter(|place| !place.runs)
            .and_then(|place| self.at_place(place))
            .map(|at| &self.states[at]);
        if known.is_some_and(|state| state.restated_in.is_some() && state.is_running(channel)) {
            // All of this text was emitted, and none is emitted twice.
            let notice = Notice {
                text: Some(text.to_cow()),
                ..Notice::new(
                    NoticeCode::LateFragment,
                    context.offset,
                    "text came for a block that had been told whole",
                )
            };
            return context.emit(EventKind::Notice(notice), sink);
        }
        let at = self.running_state(place, channel, wire_type, context, sink);
        self.claim(at, context, sink);
        self.states[at].append(text, context, sink);
    }

    /// The block state that text or arguments continue just as those of the frame before did.
    pub(super) fn running_on(&self, target: AppendTarget) -> Option<usize> {
        let at = self.last.filter(|_| self.ripe.is_empty() && self.named.is_empty())?;
        let is_it = match target {
            AppendTarget::Arguments => self.last == self.last_call,
            // A restated text may have given its block key to another one.
            AppendTarget::Text(Some(place)) => place.runs || self.at_place(place) == Some(at),
            AppendTarget::Text(None) => true,
        };
        (is_it && self.states[at].goes_on(target)).then_some(at)
    }

    /// That block state, and the block state of the complete call.
    #[inline(always)]
    pub(super) fn state_of_run(&mut self, at: usize) -> (&mut BlockState, &mut Option<usize>) {
        (&mut self.states[at], &mut self.complete)
    }

    /// Takes content that comes complete and is no text.
    fn fixed(
        &mut self,
        place: Option<BlockAddress>,
        kind: BlockKind<'_>,
        wire_type: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let at = self.states.len();
        self.arrive(at, context, sink);
        let block = context.next_block();
        let members = context.take_next(EventScope::Block(block));
        let item = place.and_then(|place| self.items.at(place));
        let index = place.and_then(BlockAddress::number);
        let wire_type = Cow::Borrowed(wire_type);
        context.emit(EventKind::BlockStart { block, item, kind, wire_type, index, extra: members }, sink);
        for (kind, wire_type, value) in std::mem::take(&mut context.hanging) {
            let (scope, wire_type, value) =
                (EventScope::Block(block), Cow::Owned(wire_type), JsonText::trusted(value));
            context.emit(EventKind::Attachment { scope, kind, wire_type, value }, sink);
        }
        context.emit(EventKind::BlockEnd { block, completion: BlockCompletion::Complete }, sink);
        self.states.push(BlockState::fixed(block, item, context.frame));
    }

    /// Takes the result of a tool that the provider ran.
    pub(super) fn result(
        &mut self,
        place: Option<BlockAddress>,
        call: Option<Str<'_>>,
        wire_type: &str,
        value: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let call = call.map(Str::to_cow);
        let call = self.called(place, call.as_deref()).map(|id| Cow::Owned(id.to_owned()));
        let scope = place.and_then(|place| self.items.at(place)).map_or(EventScope::Choice, EventScope::Item);
        // Without id and block key nothing shows that an equal result is the same one.
        let is_known = call.is_some() || place.is_some();
        let of = || keyed_hash(&(call.as_deref(), place));
        if is_known && !context.is_news_of(scope, of(), ("result", wire_type, value)) {
            return context.forget_next();
        }
        if let Some((_, members)) = place.and_then(|place| self.answers.get_mut(&place)) {
            members.iter().for_each(|member| context.next.set(member));
            members.clear();
        }
        self.fixed(
            place,
            BlockKind::ToolResult { call, value: JsonText::trusted(value) },
            wire_type,
            context,
            sink,
        );
    }

    /// Takes content that only this protocol has.
    pub(super) fn opaque(
        &mut self,
        place: Option<BlockAddress>,
        wire_type: &str,
        value: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        if let Some(place) = place
            && !context.is_news_of(EventScope::Choice, keyed_hash(&place), ("opaque", wire_type, value))
        {
            return context.forget_next();
        }
        self.fixed(place, BlockKind::Opaque { value: JsonText::trusted(value) }, wire_type, context, sink);
    }

    pub(super) fn restate(
        &mut self,
        place: Option<BlockAddress>,
        (channel, wire_type): (TextChannel, &str),
        text: Str<'_>,
        is_recap: bool,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        // In memory of its own: a restated text is long, and rare.
        let text = text.to_cow();
        let Some(place) = place.filter(|place| !place.runs) else {
            return self.restate_all(place, channel, wire_type, &text, context, sink);
        };
        // An empty text says nothing about the text that was streamed before.
        if text.is_empty() {
            return;
        }
        self.count_restated(place, context.frame);
        let at = match self.restated(place, channel, &text, is_recap, context.frame) {
            Some(at) => {
                self.set_place(place, at);
                at
            }
            None => self.running_state(Some(place), channel, wire_type, context, sink),
        };
        self.claim(at, context, sink);
        self.states[at].restated_in = Some(context.frame);
        self.states[at].restate(Str::Plain(&text), context, sink);
    }

    /// Steps over the block states that this frame has restated.
    fn count_restated(&mut self, place: BlockAddress, frame: u64) {
        let Some(owner) = self.things.get_mut(&place.owner()) else { return };
        if owner.frame != frame {
            (owner.frame, owner.restated) = (frame, 0);
        }
        let is_restated = |&&at: &&usize| self.states[at].restated_in == Some(frame);
        owner.restated += owner.states[owner.restated..].iter().take_while(is_restated).count();
    }

    /// The block state whose text is restated; none if the text is new. Where the closing list does not number its
    /// parts as the deltas did, the text decides.
    fn restated(
        &self,
        place: BlockAddress,
        channel: TextChannel,
        text: &str,
        is_recap: bool,
        frame: u64,
    ) -> Option<usize> {
        // A list restates each part once, and no part that the same frame brought.
        let may_be = |at: &usize| {
            let state = &self.states[*at];
            state.is_running(channel) && state.restated_in != Some(frame)
        };
        let goes_on = |at: &usize| self.states[*at].has_text() && self.states[*at].is_extended_by(text);
        let exact = self.at_place(place).filter(may_be);
        if let Some(at) = exact.filter(goes_on) {
            return Some(at);
        }
        let own = || {
            let owner = self.things.get(&place.owner());
            let states = owner.and_then(|owner| owner.states.get(owner.restated..)).unwrap_or_default();
            states.iter().copied().take(MANY).filter(may_be)
        };
        let print = TextFingerprint::of(text);
        let is_equal = |at: &usize| self.states[*at].told() == print;
        let known = own().find(is_equal).or_else(|| own().find(goes_on));
        let known = known.or(exact.filter(|&at| self.states[at].has_text()));
        // The next of the parts of one sort.
        let next = || own().find(|&at| self.states[at].group == Some(place.group()));
        known
            .or_else(next)
            .or(exact)
            .or_else(|| {
                let told = self.told_before(print, frame).filter(may_be);
                told.filter(|&at| is_recap || self.states[at].restated_in.is_none())
            })
            .or_else(|| {
                // Restated with all the rest, under a number that says nothing.
                let latest = (0..self.states.len()).rev().take(MANY);
                latest.filter(|at| is_recap && self.states[*at].is_open()).filter(may_be).find(goes_on)
            })
    }

    /// Unites the group at `place` with the one of that name, or else with the one at the other block key, if either is
    /// known.
    pub(super) fn unite(&mut self, place: BlockAddress, name: Str<'_>, or: Option<BlockAddress>) {
        let own = self.canonical(place).owner();
        let named =
            (!name.is_empty()).then(|| self.canonical(BlockKey::named(&name.to_cow()).reveal()).owner());
        let or = or.map(|or| self.canonical(or).owner());
        // Some wires give several items the same id: then the position decides which of them a recap means.
        if let Some(or) = or.filter(|or| place.is_loose() && self.items.has_id(*or, &name.to_cow())) {
            return self.alias(own, or);
        }
        let has_blocks =
            |owner: &BlockAddress| self.things.get(owner).is_some_and(|owner| !owner.states.is_empty());
        let known = named.into_iter().chain(or).find(has_blocks);
        let known = known.or(named.filter(|named| self.things.contains(named)));
        match known {
            // A number belongs to one group, but a name may be shared by all.
            Some(known) if !has_blocks(&own) && (place.is_loose() || known.number().is_none()) => {
                self.alias(own, known);
            }
            _ => {
                if let Some(named) = named.filter(|named| !self.things.contains(named)) {
                    self.alias(named, own);
                }
                self.owner(own);
            }
        }
    }

    fn alias(&mut self, place: BlockAddress, owner: BlockAddress) {
        if place != owner {
            self.aliases.insert(place, owner);
            self.aliased |= bit(place);
        }
    }

    /// The block key by which the group at `place` was first known.
    pub(super) fn canonical(&self, place: BlockAddress) -> BlockAddress {
        let may_be_alias = |place: BlockAddress| self.aliased & bit(place) != 0;
        if !may_be_alias(place) {
            return place;
        }
        let mut owner = place.owner();
        // The chain is at most this long: a name of a number of a recap.
        for _ in 0..3 {
            match may_be_alias(owner).then(|| self.aliases.get(&owner)).flatten() {
                Some(other) => owner = *other,
                None => break,
            }
        }
        BlockAddress { part: place.part, runs: place.runs, ..owner }
    }

    /// Takes all the text of a channel: emits the missing part, and emits a text that does not begin with the text so
    /// far as one more.
    fn restate_all(
        &mut self,
        place: Option<BlockAddress>,
        channel: TextChannel,
        wire_type: &str,
        text: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let running = self.running.map(|at| &self.states[at]).filter(|state| state.is_running(channel));
        let ended =
            self.told.iter().filter(|(lane, _)| *lane == ChannelKind::of(channel)).map(|(_, told)| *told);
        let told = ended.chain(running.map(BlockState::told));
        let missing = told.clone().try_fold(text, |text, told| told.suffix_of(text)).unwrap_or(text);
        if told.map(TextFingerprint::length).sum::<u64>() > 0
            && missing.len() == text.len()
            && !text.is_empty()
        {
            let detail = "a text is told whole after other pieces; it stands behind them";
            context.emit(EventKind::Notice(Notice::new(NoticeCode::Other, context.offset, detail)), sink);
        }
        self.text(place, channel, wire_type, Str::Plain(missing), context, sink);
    }

    /// The block of an earlier frame that held exactly this text: closing restatements may number their blocks anew.
    fn told_before(&self, text: TextFingerprint, frame: u64) -> Option<usize> {
        let at = *self.texts.get(&text)?;
        (self.states[at].frame < frame).then_some(at)
    }

    fn end_state(&mut self, at: usize, cut: BlockCut, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        let state = &mut self.states[at];
        if state.is_ended {
            return;
        }
        state.end(cut, context, sink);
        if let StateContent::Running(channel) = state.content {
            self.texts.get_or_insert_with(state.told(), || at);
            self.told.push((ChannelKind::of(channel), state.told()));
        }
    }

    /// The open block state for running text, made if need be.
    fn running_state(
        &mut self,
        place: Option<BlockAddress>,
        channel: TextChannel,
        wire_type: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) -> usize {
        let found = match place {
            Some(place) if !place.runs => self
                .at_place(place)
                .filter(|&at| self.states[at].is_open() && self.states[at].is_running(channel)),
            // A block without an end of its own is another block as soon as its wire type changes.
            _ => {
                let running = self.running.filter(|&at| self.states[at].runs_as(place, channel, wire_type));
                // Where the wire numbers its blocks and left this number out, the last one continues.
                running.or_else(|| {
                    self.last.filter(|&at| {
                        let state = &self.states[at];
                        place.is_none()
                            && state.place.is_some_and(|place| !place.runs)
                            && state.is_open()
                            && state.is_running(channel)
                    })
                })
            }
        };
        if let Some(at) = found {
            self.arrive(at, context, sink);
            return at;
        }
        let at = self.states.len();
        self.arrive(at, context, sink);
        let item = place.and_then(|place| self.items.at(place));
        self.add(BlockState::running(channel, wire_type, place, item, context.frame));
        match place {
            Some(place) if !place.runs => {
                self.states[at].group = Some(place.group());
                self.set_place(place, at);
                self.owner(place).states.push(at);
            }
            _ => self.running = Some(at),
        }
        at
    }

    /// Adds a block state. Most responses have few, and many are read at the same time; but a response that brings
    /// several in one frame mostly brings more, and is soon over.
    fn add(&mut self, state: BlockState) {
        let (count, is_full) = (self.states.len(), self.states.len() == self.states.capacity());
        match self.states.last() {
            None => self.states.reserve_exact(1),
            Some(last) if is_full && last.frame == state.frame => self.states.reserve_exact(3 * count),
            Some(_) => {}
        }
        self.states.push(state);
    }

    /// The block group at the block key.
    fn owner(&mut self, place: BlockAddress) -> &mut BlockGroup {
        self.things.get_or_insert_with(place.owner(), BlockGroup::default)
    }

    /// Whether all open calls are complete, if any are open.
    pub(super) fn are_open_calls_complete(&self) -> Option<bool> {
        // Without this one some call is incomplete, or none is open.
        if self.complete.is_none() {
            return self.states.iter().any(BlockState::is_open_call).then_some(false);
        }
        let mut open = self.states.iter().filter(|state| state.is_open_call());
        Some(open.all(|state| state.is_complete_call() && state.is_named_call()))
    }

    /// Handles a fragment for block state `at`: blocks that waited for another one to arrive are over.
    fn arrive(&mut self, at: usize, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        self.last = Some(at);
        if let Some(complete) = self.complete.take_if(|complete| *complete != at) {
            self.end_state(complete, BlockCut::No, context, sink);
        }
        if let Some(running) = self.running.take_if(|running| *running != at) {
            self.end_state(running, BlockCut::No, context, sink);
        }
        if !self.ripe.is_empty() {
            self.settle_names(Some(at), context, sink);
        }
    }

    /// Starts the calls whose name is sure: it came in an earlier frame and has not grown in this one, or it is the
    /// name of a declared tool and a prefix of no other. Calls begin in the order in which they were named, so it stops
    /// at the one at `before` and at one whose name may still grow.
    fn settle_names(&mut self, before: Option<usize>, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        let Self { ripe, states, .. } = self;
        let mut is_waiting = false;
        ripe.retain(|&at| {
            let state = &mut states[at];
            if state.block.is_some() || state.is_ended {
                return false;
            }
            let is_growing = state.as_call().is_some_and(|call| {
                call.named_in == context.frame && !context.is_whole_name(call.name.as_str())
            });
            is_waiting |= is_growing || before == Some(at);
            if !is_waiting {
                state.start(context, sink);
            }
            is_waiting
        });
    }

    pub(super) fn call(
        &mut self,
        piece: &CallPiece<'_>,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        // Most fragments only continue the arguments of the last call.
        let at = match piece {
            CallPiece {
                id: None, name: None, arguments: Some(FragmentArguments::Text(_)), place, ..
            } => self
                .undisturbed(*place, context)
                .filter(|&at| self.states[at].goes_on(AppendTarget::Arguments)),
            _ => None,
        };
        match (at, piece.arguments) {
            (Some(at), Some(arguments)) => self.argue(at, arguments, context, sink),
            _ => self.call_in_full(piece, context, sink),
        }
    }

    /// The last block state, if it has that block key and nothing waits that would have to be emitted first. Blocks
    /// that it ended when it was last used are over.
    #[inline(always)]
    fn undisturbed(&self, place: Option<BlockAddress>, context: &WeaveContext) -> Option<usize> {
        let (latest, at) = self.latest?;
        let is_last = place == Some(latest) && self.last == Some(at);
        (is_last && self.ripe.is_empty() && context.next.is_empty()).then_some(at)
    }

    fn call_in_full(&mut self, piece: &CallPiece<'_>, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        let id = piece.id.map(Str::to_cow).filter(|id| !id.is_empty());
        let name = piece.name.map(Str::to_cow).filter(|name| !name.is_empty());
        let digest = id.as_deref().map(keyed_digest);
        let by_id = digest.and_then(|id| self.by_id.get(&id).copied());
        let found = self.locate(piece, by_id, id.as_deref(), name.as_deref(), context.frame);
        let at = match found {
            Some(at) => {
                self.arrive(at, context, sink);
                at
            }
            None => {
                let at = self.states.len();
                self.arrive(at, context, sink);
                let item = piece.place.and_then(|place| self.items.at(place));
                let mut state =
                    BlockState::call(piece.kind, piece.wire_type, piece.place, item, context.frame);
                state.is_doubted = self.last_call.is_some() && is_mirror(piece.place);
                self.add(state);
                at
            }
        };
        self.claim(at, context, sink);
        self.last_call = Some(at);
        if let Some(place) = piece.place {
            self.displace(place, at, piece.arguments, context, sink);
            self.set_place(place, at);
            if found.is_none() {
                self.owner(place).states.push(at);
            } else if let Some(call) = self.states[at].as_call_mut() {
                call.index = call.index.or(place.number());
            }
        }
        if matches!(piece.arguments, Some(FragmentArguments::Opening { .. }))
            && let Some(call) = self.states[at].as_call_mut()
        {
            // Text that came before the announcement could not show who runs the call.
            call.kind = piece.kind;
        }
        if let Some(digest) = digest.filter(|_| by_id.is_none()) {
            self.by_id.append(digest, at);
        }
        if let Some(id) = id {
            self.identify(at, id, context, sink);
        }
        if let Some(name) = name {
            self.name(at, &name, context, sink);
        }
        if let Some(arguments) = piece.arguments {
            self.argue(at, arguments, context, sink);
        }
        if self.states[at].is_doubted && !self.is_mirrored(at, false) {
            self.states[at].is_doubted = false;
            self.states[at].start(context, sink);
        }
    }

    /// Ends the text at whose block key a call begins, and the call at whose block key another is announced.
    fn displace(
        &mut self,
        place: BlockAddress,
        by: usize,
        arguments: Option<FragmentArguments<'_>>,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let is_announced = matches!(arguments, Some(FragmentArguments::Text(text)) if text.is_empty());
        let ends = |at: &usize| *at != by && (is_announced || self.states[*at].as_call().is_none());
        if let Some(former) = self.at_place(place).filter(ends) {
            self.end_state(former, BlockCut::No, context, sink);
        }
    }

    /// The block state of the call that the fragment belongs to; none if it is a new one. `by_id` is the one that has
    /// the id.
    fn locate(
        &self,
        piece: &CallPiece<'_>,
        by_id: Option<usize>,
        id: Option<&str>,
        name: Option<&str>,
        frame: u64,
    ) -> Option<usize> {
        let by_place = piece
            .place
            .and_then(|place| self.at_place(place))
            .filter(|&at| self.states[at].as_call().is_some());
        let by_id = by_id.map(|at| by_place.filter(|&at| self.states[at].has_id(id)).unwrap_or(at));
        let item = piece.place.and_then(|place| self.items.open_at(place));
        let evidence = IdentityEvidence {
            states: &self.states,
            piece,
            id,
            name,
            frame,
            by_id,
            by_place,
            last_open: self.last_call.filter(|&at| self.states[at].is_open()),
            is_in_item: item.is_some() && by_place.is_some_and(|at| self.states[at].item == item),
        };
        evidence.locate()
    }

    fn identify(
        &mut self,
        at: usize,
        id: Cow<'_, str>,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let state = &mut self.states[at];
        let (block, is_ended) = (state.block, state.is_ended);
        // The end of an item gives the id that its call has from then on.
        let is_final = state.item.is_some() && !is_ended;
        let Some(call) = state.as_call_mut().filter(|call| call.id.is_none() || is_final) else { return };
        if call.id.as_deref() == Some(&*id) {
            return;
        }
        match block {
            Some(_) if is_ended => {
                let detail = format!("the call of {} got its id {id} after it had ended", call.name.as_str());
                let notice = Notice::new(NoticeCode::LateFragment, context.offset, detail);
                context.emit(EventKind::Notice(notice), sink);
            }
            Some(block) => {
                let (scope, id) = (EventScope::Block(block), Some(Cow::Borrowed(id.as_ref())));
                context.emit(EventKind::Identity { scope, id, model: None }, sink);
            }
            None => {}
        }
        call.id = Some(id.into());
    }

    fn name(&mut self, at: usize, piece: &str, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        let state = &mut self.states[at];
        let has_started = state.block.is_some();
        let Some(call) = state.as_call_mut() else { return };
        if has_started {
            if call.name.as_str() != piece {
                let detail =
                    format!("the call of {} was renamed to {piece} after it had begun", call.name.as_str());
                context.emit(EventKind::Notice(Notice::new(NoticeCode::Other, context.offset, detail)), sink);
            }
            return;
        }
        // A repeated complete name is not doubled, a growing one replaces, a further piece is joined.
        let is_first = call.name.as_str().is_empty();
        match piece.starts_with(call.name.as_str()) {
            true => call.name = NameState::Whole(piece.into()),
            false => call.name.grow(piece),
        }
        call.named_in = context.frame;
        if is_first {
            self.named.push(at);
        }
    }

    fn argue(
        &mut self,
        at: usize,
        arguments: FragmentArguments<'_>,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let is_named = self.states[at].as_call().is_some_and(|call| !call.name.as_str().is_empty());
        if is_named && self.states[at].is_open() && self.states[at].block.is_none() {
            // Calls begin in the order in which they were named.
            for &earlier in self.ripe.iter().take_while(|&&earlier| earlier != at) {
                let state = &mut self.states[earlier];
                if state.is_open() {
                    state.start(context, sink);
                }
            }
            while let Some(&earlier) = self.named.get(self.begun).filter(|&&earlier| earlier < at) {
                self.states[earlier].start(context, sink);
                self.begun += 1;
            }
            self.states[at].start(context, sink);
        }
        let state = &mut self.states[at];
        match arguments {
            FragmentArguments::Text(text) if state.is_ended => {
                // Some servers send a newline behind each call, as an escape.
                let text = text.reveal().to_cow();
                if !text.trim_ascii().is_empty() {
                    let notice = Notice {
                        text: Some(text),
                        ..Notice::new(
                            NoticeCode::LateFragment,
                            context.offset,
                            "arguments came for a call that had ended",
                        )
                    };
                    context.emit(EventKind::Notice(notice), sink);
                }
            }
            FragmentArguments::Text(text) => {
                state.meet_expectation();
                state.append(text.reveal(), context, sink);
            }
            FragmentArguments::Opening { fallback, expects_text } => {
                state.open_call(fallback.map(Opaque::reveal), expects_text);
            }
            FragmentArguments::Complete(text) => state.restate(text.reveal(), context, sink),
            FragmentArguments::Value(json) => {
                let mut scratch = context.take_scratch();
                compact_into(json.reveal_json(), &mut scratch);
                state.take_value(&scratch, context, sink);
                context.return_scratch(scratch);
            }
            FragmentArguments::Leaf { path, value, continues } => {
                state.put_leaf(path.reveal(), value.reveal_json(), continues, context, sink);
            }
        }
        // Complete arguments wait for their name.
        if state.is_open() && state.is_complete_call() && state.is_named_call() {
            self.complete = Some(at);
        }
    }

    /// Ends the block at the block key because the provider says so; without a block key, the last call.
    pub(super) fn end(
        &mut self,
        place: Option<BlockAddress>,
        cut: BlockCut,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let at = match place {
            Some(place) => self.at_place(place),
            None => self.last_call,
        };
        if let Some(at) = at {
            self.end_state(at, cut, context, sink);
        }
    }

    /// Notes that the result of the call of that id will come at the block key.
    pub(super) fn answer(&mut self, place: BlockAddress, id: Str<'_>, context: &mut WeaveContext) {
        let members = std::mem::take(&mut context.next);
        self.answers.insert(place, (id.to_cow().into_owned(), members));
    }

    /// The id of the call that a result belongs to.
    fn called<'c>(&'c self, place: Option<BlockAddress>, id: Option<&'c str>) -> Option<&'c str> {
        let id = id.or_else(|| place.and_then(|place| self.answers.get(&place)).map(|(id, _)| id.as_str()));
        if id.is_some() {
            return id;
        }
        let is_builtin =
            |at: &usize| self.states[*at].as_call().is_some_and(|call| call.kind == CallKind::Builtin);
        let at = match place {
            Some(place) => self.at_place(place),
            None => self.last_call.filter(is_builtin),
        };
        self.states[at?].as_call()?.id.as_deref()
    }

    fn at_place(&self, place: BlockAddress) -> Option<usize> {
        match self.latest {
            _ if place == BlockAddress::LAST => self.last,
            Some((latest, at)) if latest == place => Some(at),
            _ => self.by_place.get(&place).copied(),
        }
    }

    fn set_place(&mut self, place: BlockAddress, at: usize) {
        if place != BlockAddress::LAST && self.latest != Some((place, at)) {
            self.latest = Some((place, at));
            self.by_place.insert(place, at);
        }
    }

    /// Ends the frame: names that did not grow in it, and names that cannot grow, are settled.
    pub(super) fn end_frame(&mut self, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        match self.ripe.is_empty() {
            true => std::mem::swap(&mut self.ripe, &mut self.named),
            false => self.ripe.append(&mut self.named),
        }
        self.begun = 0;
        self.settle_names(None, context, sink);
    }

    /// The calls whose name may still grow.
    pub(super) fn pending(&self) -> impl Iterator<Item = &CallState> {
        let waiting = self.ripe.iter().chain(&self.named).filter_map(|&at| self.states.get(at));
        waiting
            .filter(|state| state.block.is_none() && state.is_open() && !state.is_doubted)
            .filter_map(BlockState::as_call)
            .filter(|call| !call.name.as_str().is_empty())
    }

    /// Whether there is work at the end of the frame.
    pub(super) fn waits(&self) -> bool {
        !self.named.is_empty() || !self.ripe.is_empty()
    }

    /// Whether the call at `at` may still have the same arguments as an earlier call of its name, which may come in
    /// other pieces; at the end of the response, whether it has.
    fn is_mirrored(&self, at: usize, is_over: bool) -> bool {
        let state = &self.states[at];
        let Some(call) = state.as_call() else { return false };
        let is_same = |other: &BlockState| {
            let has_name = other.as_call().is_some_and(|other| other.name.as_str() == call.name.as_str());
            let is_less = !state.is_complete_call() && other.is_complete_call();
            has_name && (!is_over || is_less || other.told() == state.told())
        };
        self.states[..at].iter().rev().take(MANY).any(is_same)
    }

    /// Whether there is no content.
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Ends the response: every block ends, and the provider's reason is emitted.
    pub(super) fn finish(
        &mut self,
        ResponseEnding { is_done, has_failed, is_truncated }: ResponseEnding,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let said = self.finish.as_ref().map(|(reason, _)| *reason);
        let cut = match said {
            _ if has_failed => BlockCut::ByLimit,
            Some(FinishReason::Length | FinishReason::ContentFilter | FinishReason::Error) => {
                BlockCut::ByLimit
            }
            None if !is_done => BlockCut::ByLimit,
            Some(FinishReason::Other) if is_truncated => BlockCut::ByLimit,
            _ => BlockCut::ByEnd,
        };
        for at in 0..self.states.len() {
            // A block that only repeated another one is not emitted.
            let is_doubted = self.states[at].is_doubted && self.is_mirrored(at, true);
            let state = &mut self.states[at];
            state.is_ended |= is_doubted;
            state.is_doubted = false;
            state.end(cut, context, sink);
        }
        let is_limited = matches!(said, Some(FinishReason::Length | FinishReason::ContentFilter));
        if let Some(last) = self.states.last_mut().filter(|_| is_limited) {
            last.mark_as_cut(context, sink);
        }
        self.items.end_all(context, sink);
        let reason = match said {
            Some(reason) => reason,
            None if is_done && !self.states.is_empty() => FinishReason::Stop,
            None => FinishReason::Other,
        };
        let has_calls = self.states.iter().any(|state| state.as_call().is_some());
        let mut calls =
            self.states.iter().filter_map(BlockState::as_call).filter(|call| call.kind != CallKind::Builtin);
        let has_only_complete = has_calls && calls.all(|call| call.completion == BlockCompletion::Complete);
        let odd = match said {
            _ if has_failed => None,
            _ if is_limited && has_only_complete => {
                Some((NoticeCode::Other, "the response ended at a limit, after complete calls"))
            }
            None if !is_done => {
                let detail = "the stream ended without the provider's end";
                (!is_truncated).then_some((NoticeCode::Truncated, detail))
            }
            Some(FinishReason::ToolCalls) if !has_calls => {
                Some((NoticeCode::Empty, "the provider speaks of tool calls and sent none"))
            }
            _ if self.states.is_empty()
                && matches!(said, None | Some(FinishReason::Stop | FinishReason::Other)) =>
            {
                Some((NoticeCode::Empty, "the answer has neither text nor calls"))
            }
            _ => None,
        };
        if let Some((code, detail)) = odd {
            context.notice(code, detail, sink);
        }
        let finish = self.finish.take();
        let raw = finish.as_ref().and_then(|(_, raw)| raw.as_deref()).map(Cow::Borrowed);
        context.emit(EventKind::Finish { reason, raw }, sink);
    }
}

/// The maximum number of block states compared with a restated text.
const MANY: usize = 8;

/// The bit of the space of a block key.
fn bit(place: BlockAddress) -> u64 {
    1 << (place.space % 64)
}

fn is_mirror(place: Option<BlockAddress>) -> bool {
    place.is_some_and(|place| place.space == BlockKey::MIRROR)
}

/// A channel, whatever the form of its reasoning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChannelKind {
    Text,
    Reasoning,
    Refusal,
}

impl ChannelKind {
    fn of(channel: TextChannel) -> Self {
        match channel {
            TextChannel::Text => Self::Text,
            TextChannel::Reasoning(_) => Self::Reasoning,
            TextChannel::Refusal => Self::Refusal,
        }
    }
}

impl std::fmt::Debug for StateContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running(channel) => channel.fmt(f),
            Self::Call(call) => f.write_str(call.name.as_str()),
            Self::Fixed => f.write_str("fixed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// One of the steps that fragments have a choice take, by the throw of dice.
    fn step(
        choice: &mut ChoiceState,
        dice: u64,
        context: &mut WeaveContext,
        events: &mut Vec<Event<'static>>,
    ) {
        let pick = |from: u32, count: u64| (dice >> from) % count;
        let places =
            [BlockKey::at(0), BlockKey::at(1), BlockKey::at(1).part(0, 1), BlockKey::at(2).running()]
                .map(BlockKey::reveal);
        let place = places.get(pick(8, 5) as usize).copied();
        let channel = if pick(16, 4) == 0 { TextChannel::REASONING } else { TextChannel::Text };
        let text = [
            Str::Plain("a"),
            Str::Plain("{}"),
            Str::Plain("{\"a\":"),
            Str::Plain("1}"),
            Str::Escaped("\\n"),
            Str::Escaped("\\ud83d"),
            Str::Escaped("\\ude00"),
            Str::Plain(""),
        ][pick(20, 8) as usize];
        let may_be = |from: u32, text: Str<'static>| (pick(from, 8) == 0).then_some(text);
        match pick(0, 16) {
            0..5 => choice.text(place, channel, "", text, context, events),
            5..11 => {
                let arguments = match pick(24, 12) {
                    0 => None,
                    1 => Some(FragmentArguments::Complete(text.into())),
                    2 => Some(FragmentArguments::Opening { fallback: None, expects_text: pick(28, 2) == 0 }),
                    _ => Some(FragmentArguments::Text(text.into())),
                };
                let id = may_be(30, if pick(34, 2) == 0 { Str::Plain("one") } else { Str::Plain("two") });
                let (name, kind, wire_type) = (may_be(38, Str::Plain("look")), CallKind::Function, "");
                choice.call(&CallPiece { place, id, name, kind, wire_type, arguments }, context, events);
            }
            11 => choice.end(place, BlockCut::No, context, events),
            12 => choice.restate(place, (channel, ""), text, pick(24, 2) == 0, context, events),
            13 => context.next.set(("", "member", if pick(24, 2) == 0 { "1" } else { "2" })),
            _ => {
                choice.end_frame(context, events);
                context.frame += 1;
            }
        }
    }

    /// The block key that was asked for last is only cached, and so is the block state that a piece continues:
    /// forgetting both after each step emits the same events.
    #[test]
    fn what_only_goes_on_is_told_as_by_all_rules() {
        let mut seed = 7_u64;
        let mut went_on = 0;
        for _ in 0..40_000 {
            let (mut choice, mut forgetful) = (ChoiceState::default(), ChoiceState::default());
            let (mut context, mut other) = (WeaveContext::default(), WeaveContext::default());
            let (mut events, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..24 {
                seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                let dice = seed >> 20;
                went_on += usize::from(choice.undisturbed(Some(BlockAddress::at(0)), &context).is_some());
                step(&mut choice, dice, &mut context, &mut events);
                forgetful.latest = None;
                step(&mut forgetful, dice, &mut other, &mut expected);
            }
            choice.end_frame(&mut context, &mut events);
            forgetful.end_frame(&mut other, &mut expected);
            assert_eq!(events, expected);
        }
        assert!(went_on > 40_000, "{went_on}");
    }

    #[test]
    fn a_list_of_many_parts_is_not_looked_through_once_per_part() {
        let (mut choice, mut context) =
            (ChoiceState::default(), WeaveContext { frame: 1, ..WeaveContext::default() });
        let mut events: Vec<Event<'static>> = Vec::new();
        for part in 0..100 {
            let (place, text) = (BlockKey::at(0).part(0, part).reveal(), format!("part {part}"));
            let text = Str::Plain(&text);
            choice.restate(Some(place), (TextChannel::Text, ""), text, false, &mut context, &mut events);
        }
        let owner = &choice.things.get(&BlockAddress::at(0)).expect("it was told");
        assert_eq!((owner.states.len(), owner.restated), (100, 99));
    }
}
