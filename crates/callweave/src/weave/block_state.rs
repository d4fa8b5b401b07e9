//! One block under construction: its text so far, the part already emitted, how it ends.

use std::borrow::Cow;

use smol_str::SmolStr;

use super::leaves::ArgumentLeaves;
use super::members::PendingExtra;
use super::{AppendTarget, ExtraTarget, WeaveContext};
use crate::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, DeltaKind, EventKind, EventScope, EventSink, ItemId,
    Notice, NoticeCode,
};
use crate::fingerprint::TextFingerprint;
use crate::fragment::{BlockAddress, FragmentArguments, TextChannel};
use crate::json::{JsonScanner, PendingSurrogate, ScanStatus, Str};

/// A resent text of this many bytes cannot be chance.
const CERTAIN_RESEND: u64 = 32;

#[derive(Clone)]
pub(super) struct BlockState {
    /// The block, once it has started.
    pub(super) block: Option<BlockId>,
    pub(super) is_ended: bool,
    /// The frame that last restated its complete text.
    pub(super) restated_in: Option<u64>,
    /// The group of parts it is in, in its block group.
    pub(super) group: Option<u32>,
    /// Whether it may only repeat what another block emits: it does not start before that is known.
    pub(super) is_doubted: bool,
    /// The frame in which the block state was made.
    pub(super) frame: u64,
    pub(super) content: StateContent,
    /// The wire type: the wire's own name of the block.
    pub(super) wire_type: SmolStr,
    pub(super) place: Option<BlockAddress>,
    pub(super) item: Option<ItemId>,
    /// The extra fields that came with its start, until that is emitted: mostly none.
    pub(super) extra: Option<Box<PendingExtra>>,
    /// The text emitted so far.
    told: TextFingerprint,
    surrogate: PendingSurrogate,
}

#[derive(Clone)]
pub(super) enum StateContent {
    Running(TextChannel),
    Call(Box<CallState>),
    /// Content that came complete.
    Fixed,
}

/// A tool call under construction.
#[derive(Clone)]
pub(super) struct CallState {
    pub(super) id: Option<SmolStr>,
    pub(super) name: NameState,
    /// The wire's own number.
    pub(super) index: Option<i64>,
    pub(super) kind: CallKind,
    /// The frame that last brought a piece of the name.
    pub(super) named_in: u64,
    /// Argument text that came before the name was settled.
    held: String,
    scanner: JsonScanner,
    /// Whether the arguments came as an object, which does not show whether it is complete.
    is_valued: bool,
    /// Whether the provider resends the complete text each time.
    is_cumulative: bool,
    /// The arguments as leaves, which few wires send.
    leaves: Option<Box<ArgumentLeaves>>,
    /// The announcement of the call, where the wire announces calls.
    pub(super) opening: Option<CallOpening>,
    pub(super) completion: BlockCompletion,
}

impl CallState {
    /// Argument text that came before the name was settled.
    pub(super) fn held(&self) -> &str {
        &self.held
    }
}

/// The name of a call or a response. Most come complete and are short, and need no memory of their own; joined pieces
/// and changed names are kept in a buffer that grows.
#[derive(Clone)]
pub(super) enum NameState {
    Whole(SmolStr),
    Grown(String),
}

impl Default for NameState {
    fn default() -> Self {
        Self::Whole(SmolStr::default())
    }
}

impl NameState {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Whole(name) => name,
            Self::Grown(name) => name,
        }
    }

    /// Takes another name instead.
    pub(super) fn change(&mut self, name: &str) {
        match self {
            Self::Whole(_) => *self = Self::Grown(name.to_owned()),
            Self::Grown(own) => {
                own.clear();
                own.push_str(name);
            }
        }
    }

    pub(super) fn grow(&mut self, piece: &str) {
        match self {
            Self::Whole(name) => *self = Self::Grown([name, piece].concat()),
            Self::Grown(name) => name.push_str(piece),
        }
    }
}

/// The announcement of a call, as far as it concerns the arguments.
#[derive(Clone)]
pub(super) struct CallOpening {
    fallback: Option<SmolStr>,
    expects_text: bool,
}

impl BlockState {
    pub(super) fn running(
        channel: TextChannel,
        wire_type: &str,
        place: Option<BlockAddress>,
        item: Option<ItemId>,
        frame: u64,
    ) -> Self {
        Self::new(StateContent::Running(channel), wire_type, place, item, frame)
    }

    /// A block that came complete.
    pub(super) fn fixed(block: BlockId, item: Option<ItemId>, frame: u64) -> Self {
        Self { block: Some(block), is_ended: true, ..Self::new(StateContent::Fixed, "", None, item, frame) }
    }

    pub(super) fn call(
        kind: CallKind,
        wire_type: &str,
        place: Option<BlockAddress>,
        item: Option<ItemId>,
        frame: u64,
    ) -> Self {
        let call = CallState {
            id: None,
            name: NameState::default(),
            index: place.and_then(BlockAddress::number),
            kind,
            named_in: frame,
            held: String::new(),
            scanner: JsonScanner::new(),
            is_valued: false,
            is_cumulative: false,
            leaves: None,
            opening: None,
            completion: BlockCompletion::Complete,
        };
        Self::new(StateContent::Call(Box::new(call)), wire_type, place, item, frame)
    }

    fn new(
        content: StateContent,
        wire_type: &str,
        place: Option<BlockAddress>,
        item: Option<ItemId>,
        frame: u64,
    ) -> Self {
        Self {
            block: None,
            is_ended: false,
            restated_in: None,
            group: None,
            is_doubted: false,
            frame,
            content,
            wire_type: wire_type.into(),
            place,
            item,
            extra: None,
            told: TextFingerprint::default(),
            surrogate: PendingSurrogate::default(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.is_ended
    }

    /// Whether it is the text of that block key, or a call, and has begun and is not over.
    #[inline]
    pub(super) fn goes_on(&self, target: AppendTarget) -> bool {
        let is_such = match (&self.content, target) {
            (StateContent::Running(_), AppendTarget::Text(place)) => place == self.place,
            (StateContent::Call(_), AppendTarget::Arguments) => true,
            _ => false,
        };
        is_such && self.block.is_some() && !self.is_ended && self.restated_in.is_none()
    }

    pub(super) fn as_call(&self) -> Option<&CallState> {
        match &self.content {
            StateContent::Call(call) => Some(call),
            StateContent::Running(_) | StateContent::Fixed => None,
        }
    }

    pub(super) fn as_call_mut(&mut self) -> Option<&mut CallState> {
        match &mut self.content {
            StateContent::Call(call) => Some(call),
            StateContent::Running(_) | StateContent::Fixed => None,
        }
    }

    /// Whether this is running text of the kind of `channel`, whatever its form.
    pub(super) fn is_running(&self, channel: TextChannel) -> bool {
        match &self.content {
            StateContent::Running(own) => std::mem::discriminant(own) == std::mem::discriminant(&channel),
            StateContent::Call(_) | StateContent::Fixed => false,
        }
    }

    /// Whether this is open running text that the wire would continue in this way.
    #[inline]
    pub(super) fn runs_as(&self, place: Option<BlockAddress>, channel: TextChannel, wire_type: &str) -> bool {
        self.is_open() && self.is_running(channel) && self.place == place && self.wire_type == wire_type
    }

    /// Itself, as what something is about.
    pub(super) fn about(&self) -> ExtraTarget {
        let around = self.item.map_or(EventScope::Choice, EventScope::Item);
        match self.block.map(EventScope::Block) {
            Some(owner) if self.is_ended => ExtraTarget { owner, scope: around },
            Some(owner) => owner.into(),
            None => around.into(),
        }
    }

    pub(super) fn has_text(&self) -> bool {
        !self.told.is_empty() || self.surrogate.is_pending()
    }

    /// The text emitted so far.
    pub(super) fn told(&self) -> TextFingerprint {
        self.told
    }

    /// Whether the arguments are a complete value.
    pub(super) fn is_complete_call(&self) -> bool {
        self.as_call().is_some_and(|call| call.scanner.status() == ScanStatus::Complete)
    }

    /// Whether it is a call that is not over.
    pub(super) fn is_open_call(&self) -> bool {
        self.is_open() && self.as_call().is_some()
    }

    /// Whether it is a call whose name has come.
    pub(super) fn is_named_call(&self) -> bool {
        self.as_call().is_some_and(|call| !call.name.as_str().is_empty())
    }

    /// Whether it is a call that was given an id.
    pub(super) fn has_any_id(&self) -> bool {
        self.as_call().is_some_and(|call| call.id.is_some())
    }

    /// Whether it is a call that the wire numbers.
    pub(super) fn has_index(&self) -> bool {
        self.as_call().is_some_and(|call| call.index.is_some())
    }

    /// Whether it is a call that was announced.
    pub(super) fn has_opening(&self) -> bool {
        self.as_call().is_some_and(|call| call.opening.is_some())
    }

    /// Whether it is the call of that id.
    pub(super) fn has_id(&self, id: Option<&str>) -> bool {
        self.as_call().is_some_and(|call| call.id.as_deref() == id)
    }

    /// Whether the arguments so far are only a placeholder of the real ones.
    pub(super) fn is_placeholder(&self) -> bool {
        is_placeholder(self.told)
    }

    /// Whether `text` restates or extends the argument text emitted so far.
    pub(super) fn is_extended_by(&self, text: &str) -> bool {
        self.told.suffix_of(text).is_some()
    }

    /// Starts the block if it has not started.
    pub(super) fn start(&mut self, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if self.block.is_some() || self.is_doubted {
            return;
        }
        let block = context.next_block();
        self.block = Some(block);
        let kind = match &self.content {
            StateContent::Running(TextChannel::Text) => BlockKind::Text,
            StateContent::Running(TextChannel::Reasoning(form)) => BlockKind::Reasoning(*form),
            StateContent::Running(TextChannel::Refusal) => BlockKind::Refusal,
            StateContent::Call(call) => BlockKind::ToolCall {
                id: call.id.as_deref().map(Cow::Borrowed),
                is_made: false,
                name: Cow::Borrowed(call.name.as_str()),
                call: call.kind,
            },
            StateContent::Fixed => return,
        };
        let members =
            self.extra.take().and_then(|mut own| context.members(EventScope::Block(block), &mut own));
        let index = self.place.and_then(BlockAddress::number);
        let wire_type = Cow::Borrowed(self.wire_type.as_str());
        context.emit(
            EventKind::BlockStart { block, item: self.item, kind, wire_type, index, extra: members },
            sink,
        );
        if let StateContent::Call(call) = &mut self.content
            && !call.held.is_empty()
        {
            let text = Cow::Owned(std::mem::take(&mut call.held));
            context.emit(EventKind::Delta { block, kind: DeltaKind::Arguments, text }, sink);
        }
    }

    fn delta_kind(&self) -> DeltaKind {
        match &self.content {
            StateContent::Running(TextChannel::Text) | StateContent::Fixed => DeltaKind::Text,
            StateContent::Running(TextChannel::Reasoning(_)) => DeltaKind::Reasoning,
            StateContent::Running(TextChannel::Refusal) => DeltaKind::Refusal,
            StateContent::Call(_) => DeltaKind::Arguments,
        }
    }

    /// Takes text to append.
    #[inline(always)]
    pub(super) fn append(&mut self, text: Str<'_>, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        match text {
            Str::Plain(text) if !self.surrogate.is_pending() => self.append_decoded(text, context, sink),
            _ => self.append_escaped(text, context, sink),
        }
    }

    #[inline(never)]
    fn append_escaped(&mut self, text: Str<'_>, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if !self.surrogate.is_pending()
            && text.read_short(|text| self.append_decoded(text, context, sink)).is_some()
        {
            return;
        }
        let mut scratch = context.take_scratch();
        text.decode_into(&mut scratch, &mut self.surrogate);
        self.append_decoded(&scratch, context, sink);
        context.return_scratch(scratch);
    }

    #[inline(always)]
    fn append_decoded(&mut self, text: &str, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if text.is_empty() {
            return;
        }
        if matches!(self.content, StateContent::Call(_)) && !self.takes_arguments(text, context, sink) {
            return;
        }
        self.told.push(text);
        self.emit_delta(text, context, sink);
    }

    /// Whether the text continues the arguments of the call. Otherwise it repeated them, and was taken as a
    /// restatement.
    #[inline(always)]
    fn takes_arguments(&mut self, text: &str, context: &mut WeaveContext, sink: &mut EventSink<'_>) -> bool {
        let StateContent::Call(call) = &mut self.content else { return true };
        // Most are shorter than the text so far, and cannot repeat it.
        let is_short = self.told.length() > LONGEST_PLACEHOLDER.max(text.len() as u64);
        if is_short && !call.is_cumulative || call.kind == CallKind::Custom {
            call.scanner.push(text);
            return true;
        }
        self.takes_long_arguments(text, context, sink)
    }

    /// The same for a text that may repeat the arguments.
    #[inline(never)]
    fn takes_long_arguments(
        &mut self,
        text: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) -> bool {
        let StateContent::Call(call) = &mut self.content else { return true };
        let suffix = self.told.suffix_of(text).filter(|_| !self.told.is_empty());
        if call.is_cumulative {
            match suffix {
                Some(_) => {
                    self.restate_decoded(text, context, sink);
                    return false;
                }
                None => call.is_cumulative = false,
            }
        }
        if suffix.is_none() && !is_placeholder(self.told) {
            call.scanner.push(text);
            return true;
        }
        let mut ahead = call.scanner;
        let taken = ahead.push(text);
        let is_impossible = call.scanner.status() != ScanStatus::Broken
            && (ahead.status() == ScanStatus::Broken
                || text[taken..].bytes().any(|byte| !byte.is_ascii_whitespace()));
        // The arguments of a tool that the provider runs need not be JSON, and then any text may follow any other.
        let is_long = call.kind == CallKind::Function && self.told.length() >= CERTAIN_RESEND;
        let is_certain = is_impossible || is_long;
        if let Some(suffix) = suffix.filter(|_| is_certain) {
            // One fragment sent twice does not say that all will be.
            let is_repeat = suffix.is_empty();
            call.is_cumulative = !is_repeat;
            let detail = match is_repeat {
                true => format!("a fragment of the arguments of {} came twice", call.name.as_str()),
                false => format!("the arguments of {} are resent whole each time", call.name.as_str()),
            };
            let code = if is_repeat { NoticeCode::Repeated } else { NoticeCode::Cumulative };
            context.emit(EventKind::Notice(Notice::new(code, context.offset, detail)), sink);
            self.restate_decoded(text, context, sink);
            return false;
        }
        if is_impossible && suffix.is_none() {
            self.restate_decoded(text, context, sink);
            return false;
        }
        call.scanner = ahead;
        true
    }

    #[inline(always)]
    fn emit_delta(&mut self, text: &str, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if self.block.is_none() {
            if let StateContent::Call(call) = &mut self.content {
                return call.held.push_str(text);
            }
            self.start(context, sink);
        }
        if let Some(block) = self.block {
            let kind = self.delta_kind();
            context.emit(EventKind::Delta { block, kind, text: Cow::Borrowed(text) }, sink);
        }
    }

    /// Takes the complete text: emits only the missing part, or corrects a difference.
    pub(super) fn restate(&mut self, text: Str<'_>, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        let mut scratch = context.take_scratch();
        text.read(&mut scratch, |text| self.restate_decoded(text, context, sink));
        context.return_scratch(scratch);
    }

    pub(super) fn restate_decoded(
        &mut self,
        text: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        // An empty restatement of a text that was streamed is an omission, not a correction.
        if text.is_empty() && !self.told.is_empty() {
            return;
        }
        let suffix = self.told.suffix_of(text);
        if suffix == Some("") {
            return;
        }
        if self.is_ended {
            let notice = Notice {
                text: Some(Cow::Borrowed(text)),
                ..Notice::new(
                    NoticeCode::LateFragment,
                    context.offset,
                    "a block was restated differently after it had ended",
                )
            };
            return context.emit(EventKind::Notice(notice), sink);
        }
        self.surrogate = PendingSurrogate::default();
        match suffix {
            Some(suffix) => {
                self.told.push(suffix);
                if let StateContent::Call(call) = &mut self.content {
                    call.scanner.push(suffix);
                }
                self.emit_delta(suffix, context, sink);
            }
            None => {
                self.told = TextFingerprint::of(text);
                if let StateContent::Call(call) = &mut self.content {
                    call.scanner = JsonScanner::new();
                    call.scanner.push(text);
                    if self.block.is_none() {
                        call.held.clear();
                        call.held.push_str(text);
                    }
                }
                if let Some(block) = self.block {
                    context.emit(EventKind::Correction { block, text: Cow::Borrowed(text) }, sink);
                }
            }
        }
    }

    /// Whether an announcement only repeats the one that this call had, or is the first it gets.
    pub(super) fn is_announced_by(
        &self,
        name: Option<&str>,
        arguments: Option<FragmentArguments<'_>>,
    ) -> bool {
        let Some(call) = self.as_call() else { return false };
        if call.name.as_str().is_empty() {
            return true;
        }
        let (Some(own), Some(FragmentArguments::Opening { fallback, .. })) = (&call.opening, arguments)
        else {
            return false;
        };
        let is_same_text = match (&own.fallback, fallback) {
            (Some(own), Some(given)) => given.reveal().is(own),
            (own, given) => own.is_none() && given.is_none(),
        };
        is_same_text && name.is_none_or(|name| name == call.name.as_str())
    }

    /// Takes the announcement of the call.
    pub(super) fn open_call(&mut self, fallback: Option<Str<'_>>, expects_text: bool) {
        let expects_text = expects_text && !self.has_text();
        if let StateContent::Call(call) = &mut self.content {
            let fallback = fallback.map(|text| SmolStr::new(text.to_cow()));
            call.opening = Some(CallOpening { fallback, expects_text });
        }
    }

    /// Text came for the call, be it empty: what was expected is there.
    pub(super) fn meet_expectation(&mut self) {
        if let StateContent::Call(call) = &mut self.content
            && let Some(opening) = &mut call.opening
        {
            opening.expects_text = false;
        }
    }

    /// Uses the arguments of the announcement where no text followed and none had to.
    fn fall_back(&mut self, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if self.has_text() {
            return;
        }
        if let StateContent::Call(call) = &mut self.content
            && let Some(opening) = &mut call.opening
            && !opening.expects_text
            && let Some(text) = opening.fallback.clone()
        {
            self.take_value(&text, context, sink);
        }
    }

    /// Takes one leaf of the arguments.
    pub(super) fn put_leaf(
        &mut self,
        path: Str<'_>,
        value: &str,
        continues: bool,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        self.meet_expectation();
        let StateContent::Call(call) = &mut self.content else { return };
        let leaves = call.leaves.get_or_insert_default();
        if let Err(code) = leaves.put(&path.to_cow(), crate::json::Value::of_text(value), continues) {
            let detail =
                format!("an argument of {} has an impossible path {}", call.name.as_str(), path.to_cow());
            let notice =
                Notice { text: Some(Cow::Borrowed(value)), ..Notice::new(code, context.offset, detail) };
            context.emit(EventKind::Notice(notice), sink);
        }
    }

    /// Ends the block. `cut` says that the stream ended before the block did.
    pub(super) fn end(&mut self, cut: BlockCut, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if self.is_ended {
            return;
        }
        if self.as_call().is_some_and(|call| call.name.as_str().is_empty()) {
            context.notice(NoticeCode::MissingName, "a tool call has no name", sink);
        }
        self.fall_back(context, sink);
        let mut is_missing_leaves = false;
        if let StateContent::Call(call) = &mut self.content
            && let Some(leaves) = call.leaves.take()
        {
            // Leaves always make a complete value, so the text does not show it.
            is_missing_leaves = leaves.has_lost
                || match cut {
                    BlockCut::No => false,
                    BlockCut::ByEnd => leaves.is_growing(),
                    BlockCut::ByLimit => true,
                };
            self.take_value(&leaves.to_text(), context, sink);
        }
        self.start(context, sink);
        if self.surrogate.is_pending() {
            let mut scratch = context.take_scratch();
            self.surrogate.flush_into(&mut scratch);
            self.append_decoded(&scratch, context, sink);
            context.return_scratch(scratch);
        }
        self.is_ended = true;
        let completion = if is_missing_leaves { BlockCompletion::Truncated } else { self.completion(cut) };
        let Some(block) = self.block else { return };
        if let StateContent::Call(call) = &mut self.content {
            call.completion = completion;
            let is_broken = call.kind == CallKind::Function && call.scanner.status() == ScanStatus::Broken;
            let (code, what) = match completion {
                BlockCompletion::Truncated | BlockCompletion::AfterDamage => {
                    (NoticeCode::IncompleteArguments, "not a complete JSON value")
                }
                BlockCompletion::Complete => (NoticeCode::MalformedCall, "not JSON"),
            };
            if completion == BlockCompletion::Truncated || is_broken {
                let detail = format!("the arguments of {} are {what}", call.name.as_str());
                context.emit(EventKind::Notice(Notice::new(code, context.offset, detail)), sink);
            }
        }
        context.emit(EventKind::BlockEnd { block, completion }, sink);
    }

    /// Marks the call as truncated: the response ended at a limit, and this was the last of it. Arguments that came as
    /// an object, or not at all, do not show whether they were truncated.
    pub(super) fn mark_as_cut(&mut self, context: &WeaveContext, sink: &mut EventSink<'_>) {
        let (block, has_item) = (self.block, self.item.is_some());
        let Some(call) = self.as_call_mut() else { return };
        let is_seen = call.scanner.status() == ScanStatus::Complete && !call.is_valued;
        // The items of some wires have a status of their own.
        if is_seen
            || has_item
            || call.kind == CallKind::Builtin
            || call.completion == BlockCompletion::Truncated
        {
            return;
        }
        call.completion = BlockCompletion::Truncated;
        let name = call.name.as_str();
        let detail =
            format!("the arguments of {name} are the last thing before a limit, and may have been cut");
        let notice = Notice::new(NoticeCode::IncompleteArguments, context.offset, detail);
        context.emit(EventKind::Notice(Notice { block, ..notice }), sink);
    }

    /// Takes the arguments as an object.
    pub(super) fn take_value(&mut self, text: &str, context: &mut WeaveContext, sink: &mut EventSink<'_>) {
        if let StateContent::Call(call) = &mut self.content {
            call.is_valued = true;
        }
        self.restate_decoded(text, context, sink);
    }

    fn completion(&mut self, cut: BlockCut) -> BlockCompletion {
        let has_text = self.has_text();
        let StateContent::Call(call) = &mut self.content else { return BlockCompletion::Complete };
        if call.opening.as_ref().is_some_and(|opening| opening.expects_text) {
            return BlockCompletion::Truncated;
        }
        let is_complete = match call.kind {
            CallKind::Function => match call.scanner.finish() {
                ScanStatus::Complete => true,
                // A broken text is complete nonetheless.
                ScanStatus::Empty | ScanStatus::Broken => cut != BlockCut::ByLimit,
                ScanStatus::Open => false,
            },
            CallKind::Custom => cut == BlockCut::No || has_text && cut == BlockCut::ByEnd,
            CallKind::Builtin => cut != BlockCut::ByLimit,
        };
        if is_complete { BlockCompletion::Complete } else { BlockCompletion::Truncated }
    }
}

/// Texts that some servers send for "no arguments yet", before the real ones.
const PLACEHOLDERS: [&str; 2] = ["{}", "null"];
const LONGEST_PLACEHOLDER: u64 = "null".len() as u64;

#[inline]
fn is_placeholder(told: TextFingerprint) -> bool {
    told.length() <= LONGEST_PLACEHOLDER && PLACEHOLDERS.iter().any(|text| told == TextFingerprint::of(text))
}

/// The reason why a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockCut {
    /// The provider said so, or the next block or item began.
    No,
    /// The stream ended.
    ByEnd,
    /// The stream ended because of a limit, a filter or an error.
    ByLimit,
}
