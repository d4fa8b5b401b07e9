//! The statements of one frame, before they are assigned to blocks.
//!
//! A protocol reads one frame and states its contents as [`Fragment`]s: "text for choice 0", "arguments for the call at
//! index 2", "usage", "finish". It keeps no state; [`Weave`](crate::weave::Weave) is the one fold that turns fragments
//! into events and knows every rule of identity.
//!
//! Fragments borrow from the frame. Strings and values stay as they were written, and a protocol that only passes them
//! on cannot inspect them ([`Opaque`]); they are decoded where they are used.

use std::hash::{Hash, Hasher};

use crate::event::{AttachmentKind, CallKind, FinishReason, NoticeCode, ReasoningForm, Sink, TokenCounts};
use crate::fingerprint::keyed_digest;
use crate::json::{Opaque, TapeNode, with_spare_tape};
use crate::upstream::UpstreamError;

/// A sink of fragments with any lifetime.
pub type FragmentSink<'s> = dyn for<'f> Sink<Fragment<'f>> + 's;

/// One statement of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// The choice it belongs to.
    pub choice: u32,
    /// The key of the block it belongs to, where the wire numbers its blocks.
    pub key: Option<BlockKey>,
    /// The statement.
    pub part: FragmentKind<'a>,
}

/// The wire's number of a block inside a choice, as a protocol gives it: made and passed on, but not inspected. Readers
/// of fragments [reveal](BlockKey::reveal) its address; inside `protocol/` that is a lint error, as it is for an
/// [`Opaque`].
#[derive(Clone, Copy, Debug)]
pub struct BlockKey(BlockAddress);

impl BlockKey {
    /// The last block of the choice that was mentioned, open or ended: for statements of a wire without numbers about
    /// the block it has just sent.
    pub const LAST: Self = Self(BlockAddress::LAST);

    /// The space of a duplicate form (the legacy `function_call` beside `tool_calls`): a call that arrives there after
    /// others is held back as long as it only repeats one of them.
    pub const MIRROR: u8 = u8::MAX - 3;

    /// The space of positions in a list that repeats all items, where each must first be matched: see
    /// [`FragmentKind::Item`].
    pub const RECAP: u8 = u8::MAX - 4;

    /// The block with the wire's number `index`, in the first space.
    pub fn at(index: i64) -> Self {
        Self(BlockAddress::at(index))
    }

    /// The same, by the number in the frame: a frame that differs only in that number has a key that differs only in
    /// it.
    #[inline(always)]
    pub(crate) fn of(number: TapeNode<'_>) -> Option<Self> {
        number.opaque_index().or_else(|| number.index()).map(Self::at)
    }

    /// The block that a wire without numbers identifies by a name: the same name is the same key.
    pub fn named(name: &str) -> Self {
        // Frames are read independently of each other, so the key must follow from the name alone.
        let hash = keyed_digest(name);
        Self(BlockAddress { space: BlockAddress::NAMED, ..BlockAddress::at(hash.cast_signed()) })
    }

    /// The same number in another space.
    pub fn in_space(self, space: u8) -> Self {
        Self(BlockAddress { space, ..self.0 })
    }

    /// The same key, so many spaces further on if its space is one of the protocol's own.
    pub(crate) fn shifted(self, spaces: u8) -> Self {
        let is_own = self.0.space < Self::RECAP;
        if is_own { self.in_space(self.0.space.saturating_add(spaces)) } else { self }
    }

    /// A part inside the numbered item: the `number`th of a `group` of parts.
    pub fn part(self, group: u8, number: u64) -> Self {
        let number = number.min(u64::from(BlockAddress::MAX_PARTS)) as u32;
        Self(BlockAddress { part: (u32::from(group) + 1) * (BlockAddress::MAX_PARTS + 1) + number, ..self.0 })
    }

    /// The same, as the key of a block that runs until something else arrives.
    pub fn running(self) -> Self {
        Self(BlockAddress { runs: true, ..self.0 })
    }

    /// The address, for readers of fragments.
    #[inline]
    pub fn reveal(self) -> BlockAddress {
        self.0
    }
}

/// A revealed [`BlockKey`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockAddress {
    /// The wire's number. First, because different addresses mostly differ in it.
    pub(crate) index: i64,
    /// A protocol with several independent numberings (Cohere's contents and calls; loose fragments of
    /// different shapes) gives each its own space.
    pub(crate) space: u8,
    /// A part inside the numbered thing, see [`BlockKey::part`]; 0 if there is none.
    pub(crate) part: u32,
    /// Whether a block at this address runs until something else arrives, as one without a key does: the wire numbers
    /// it, but never says that it has ended.
    pub(crate) runs: bool,
}

impl PartialEq for BlockAddress {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.rest() == other.rest()
    }
}

impl Eq for BlockAddress {}

impl Hash for BlockAddress {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.index.hash(hasher);
        self.rest().hash(hasher);
    }
}

impl From<BlockAddress> for BlockKey {
    fn from(address: BlockAddress) -> Self {
        Self(address)
    }
}

impl BlockAddress {
    /// See [`BlockKey::LAST`].
    pub(crate) const LAST: Self = Self { space: u8::MAX, index: 0, part: 0, runs: false };

    /// The space of keys that stand for names.
    const NAMED: u8 = u8::MAX - 2;

    /// The maximum number of a part; all parts beyond it are one.
    const MAX_PARTS: u32 = (1 << 24) - 1;

    pub(crate) fn at(index: i64) -> Self {
        Self { space: 0, index, part: 0, runs: false }
    }

    /// Whether it, or the item that it is a part of, has neither a number nor a name.
    pub(crate) fn is_anonymous(self) -> bool {
        self.owner() == BlockKey::named("").0
    }

    /// The wire's number of the item, if it has one.
    pub(crate) fn wire_number(self) -> Option<i64> {
        (self.space < Self::NAMED).then_some(self.index)
    }

    /// All but the number, in one integer.
    #[inline]
    fn rest(self) -> u64 {
        u64::from(self.part) << 16 | u64::from(self.space) << 8 | u64::from(self.runs)
    }

    /// The item that the part belongs to.
    pub(crate) fn owner(self) -> Self {
        Self { part: 0, runs: false, ..self }
    }

    /// The numbered item itself, without the part inside it.
    pub(crate) fn item(self) -> Self {
        Self { part: 0, ..self }
    }

    /// The group of the part: an item has separate lists (contents, summaries).
    pub(crate) fn group(self) -> u32 {
        self.part / (Self::MAX_PARTS + 1)
    }

    /// Whether the key is a position in a list that repeats all items, and may be numbered differently.
    pub(crate) fn is_loose(self) -> bool {
        self.space == BlockKey::RECAP
    }

    /// The wire's number of the part, or of the item where it has no parts, if it gave one.
    pub(crate) fn number(self) -> Option<i64> {
        match self.part {
            0 => self.wire_number(),
            part => Some(i64::from(part & Self::MAX_PARTS)),
        }
    }
}

/// The kind of running text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextChannel {
    /// Visible text.
    Text,
    /// Reasoning.
    Reasoning(ReasoningForm),
    /// A refusal.
    Refusal,
}

impl TextChannel {
    /// Reasoning in the model's own raw text.
    pub const REASONING: Self = Self::Reasoning(ReasoningForm::Raw);
}

/// The scope of an extra field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtraScope {
    /// The response.
    Response,
    /// The choice.
    Choice,
    /// The item with the block key.
    Item,
    /// The block with the block key.
    Block,
    /// The item or block of the next fragment of this frame: a member of its start, if that fragment starts it.
    Next,
}

/// Token counts as a provider wrote them; the normalized counters are read when they are needed.
#[derive(Clone, Copy)]
pub struct UsageReport<'a> {
    raw: Opaque<'a>,
    counters: UsageCounters<'a>,
}

/// Reads the counters of a provider's usage object.
pub(crate) type ReadUsage = fn(TapeNode<'_>) -> TokenCounts;

#[derive(Clone, Copy)]
enum UsageCounters<'a> {
    Known(TokenCounts),
    /// They follow from the object alone.
    Of(TapeNode<'a>, ReadUsage),
    /// Likewise; the object is parsed again.
    InRaw(ReadUsage),
}

impl<'a> UsageReport<'a> {
    /// Counters that are known, and the JSON they were written in.
    pub fn new(counters: TokenCounts, raw: impl Into<Opaque<'a>>) -> Self {
        Self { raw: raw.into(), counters: UsageCounters::Known(counters) }
    }

    /// The counters that `read` finds in a usage object. Nothing else of the frame may depend on it.
    pub(crate) fn of(usage: TapeNode<'a>, read: ReadUsage) -> Self {
        Self { raw: usage.opaque_json(), counters: UsageCounters::Of(usage, read) }
    }

    /// The same by the text of the object.
    pub(crate) fn in_raw(raw: &'a str, read: ReadUsage) -> Self {
        Self { raw: raw.into(), counters: UsageCounters::InRaw(read) }
    }

    /// The counters as the provider wrote them; JSON.
    pub(crate) fn raw(self) -> &'a str {
        self.raw.reveal_json()
    }

    /// The reader of the counters, if they follow from the object alone.
    pub(crate) fn reader(self) -> Result<ReadUsage, TokenCounts> {
        match self.counters {
            UsageCounters::Known(counters) => Err(counters),
            UsageCounters::Of(_, read) | UsageCounters::InRaw(read) => Ok(read),
        }
    }

    /// The normalized counters.
    pub(crate) fn counters(self) -> TokenCounts {
        match self.counters {
            UsageCounters::Known(counters) => counters,
            UsageCounters::Of(usage, read) => usage.read_apart(read),
            UsageCounters::InRaw(read) => {
                with_spare_tape(|tape| tape.parse(self.raw()).map(read)).unwrap_or_default()
            }
        }
    }
}

impl std::fmt::Debug for UsageReport<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UsageReport").field(&self.raw).finish()
    }
}

/// The statement of a [`Fragment`].
///
/// A `wire_type` is the wire's own name of the thing; it is emitted with the start of the thing it names.
#[derive(Clone, Copy, Debug)]
pub enum FragmentKind<'a> {
    /// The response's id and model. Sent by every frame that has them; only the first, or a change, is emitted.
    Start {
        /// The id, if given.
        id: Option<Opaque<'a>>,
        /// The model, if given.
        model: Option<Opaque<'a>>,
        /// The wire's own name of such a response.
        wire_type: &'a str,
    },
    /// A different model responds than the one that was requested.
    Rerouted {
        /// The model that responds.
        model: Opaque<'a>,
    },
    /// The choice exists, whether or not it has content.
    Choice,
    /// The item with the block key exists.
    Item {
        /// The provider's id.
        id: Option<Opaque<'a>>,
        /// The wire's own name of the item.
        wire_type: &'a str,
    },
    /// The item with the block key has ended, and with it its blocks.
    ItemEnd,
    /// A text block begins (only where the wire says so; a [`FragmentKind::Text`] opens its block by itself).
    Open {
        /// The kind of text.
        channel: TextChannel,
        /// The wire's own name of the block.
        wire_type: &'a str,
    },
    /// Text to append to the block with the block key, or to the running block of that channel and wire type.
    Text {
        /// The kind of text.
        channel: TextChannel,
        /// The wire's own name of the block.
        wire_type: &'a str,
        /// The text.
        text: Opaque<'a>,
    },
    /// The complete text of the block with the block key, or without a key all text of that channel, restated after (or
    /// instead of) its deltas.
    Restate {
        /// The kind of text.
        channel: TextChannel,
        /// The wire's own name of the block.
        wire_type: &'a str,
        /// The complete text.
        text: Opaque<'a>,
        /// Whether it is repeated together with all the rest of the response, perhaps numbered anew: a block elsewhere
        /// that held exactly this text is then the same one.
        is_recap: bool,
    },
    /// A piece of a tool call, found by block key and by id.
    Call {
        /// The provider's id.
        id: Option<Opaque<'a>>,
        /// The name, or a piece of it.
        name: Option<Opaque<'a>>,
        /// The kind of call: its runner and the form of its arguments.
        kind: CallKind,
        /// The wire's own name of the block.
        wire_type: &'a str,
        /// Arguments. `Some` of an empty text also says that the name is settled.
        arguments: Option<FragmentArguments<'a>>,
    },
    /// The thing with the block key is the one that has that name elsewhere, or else the one with the other key, if
    /// either is known. From now on the keys are one.
    Same {
        /// Its name; may be empty.
        name: Opaque<'a>,
        /// The other key under which it may have been sent.
        or: Option<BlockKey>,
    },
    /// The block with the block key has ended.
    End,
    /// The block with the block key has ended, because a limit truncated it.
    Truncated,
    /// An attachment of a block, an item, the choice or the response.
    Attach {
        /// The scope of the attachment. [`ExtraScope::Next`] is the block that the next fragment sends complete (a
        /// result, something opaque). On [`ExtraScope::Block`] without a key, or with a key that runs, it belongs to
        /// the running block of reasoning with a wire type that begins with `on`, and else to a new one of that wire
        /// type.
        level: ExtraScope,
        /// The wire type of the block of reasoning it belongs to, where that may have to be opened.
        on: &'a str,
        /// The kind of attachment.
        kind: AttachmentKind,
        /// The wire's own name of the attachment.
        wire_type: &'a str,
        /// The attachment; JSON.
        value: Opaque<'a>,
    },
    /// The content that will come with the block key is the result of that call.
    ResultOf {
        /// The id of the call.
        call: Opaque<'a>,
    },
    /// The result of a builtin tool: of the call with that id, of the one that the block key is the result of, or else
    /// of the last builtin call.
    ToolResult {
        /// The id of the call.
        call: Option<Opaque<'a>>,
        /// The wire's own name of the result.
        wire_type: &'a str,
        /// The result; JSON.
        value: Opaque<'a>,
    },
    /// Complete content that only the protocol knows.
    Opaque {
        /// The wire's own name of the content.
        wire_type: &'a str,
        /// The content; JSON.
        value: Opaque<'a>,
    },
    /// Progress of the item with the block key, or without a key of the response.
    Progress {
        /// The wire's own name of this step.
        wire_type: &'a str,
        /// The step's value; JSON. [Details](FragmentKind::Detail), if there were any, replace it.
        value: Option<Opaque<'a>>,
    },
    /// A member of the value of the [step](FragmentKind::Progress) that comes next in this frame.
    Detail {
        /// The member's name.
        key: &'a str,
        /// The member's value; JSON.
        value: Opaque<'a>,
    },
    /// Token counts of one step of the response, to be added to the counts of the steps before.
    Step {
        /// The turn that the steps belong to: steps of another turn are not added.
        turn: Opaque<'a>,
        /// The normalized counters.
        counters: TokenCounts,
        /// The counters as the provider wrote them; JSON.
        raw: Opaque<'a>,
    },
    /// Token counts.
    Usage {
        /// The location of the counts on the wire.
        wire_type: &'a str,
        /// The counts.
        usage: UsageReport<'a>,
    },
    /// The provider's reason to finish. The last one counts.
    Finish {
        /// The normalized reason, as far as the provider's own determines it.
        reason: FinishReason,
        /// The provider's own reason.
        raw: Option<Opaque<'a>>,
    },
    /// The provider's own end marker: nothing is missing.
    Done,
    /// One of the provider's two end markers, which come in either order: with the second, nothing is missing.
    HalfDone,
    /// The upstream reports an error.
    Error(&'a UpstreamError<'a>),
    /// An extra field. Emitted once, and again only when it changes.
    Extra {
        /// The scope of the field.
        level: ExtraScope,
        /// The path from the scope down to the object that holds the field, ending in a dot, or empty.
        path: &'static str,
        /// The member's name (or the event's).
        key: &'a str,
        /// The field's value; JSON.
        value: Opaque<'a>,
    },
    /// An irregularity.
    Notice {
        /// The code of the irregularity.
        code: NoticeCode,
        /// A description in words.
        detail: &'static str,
        /// Text that belongs nowhere else.
        text: Option<&'a str>,
    },
}

impl<'a> FragmentKind<'a> {
    /// An attachment of the block with the block key, or of a block of reasoning with the wire type `on`.
    pub(crate) fn hung(on: &'a str, kind: AttachmentKind, wire_type: &'a str, value: Opaque<'a>) -> Self {
        Self::Attach { level: ExtraScope::Block, on, kind, wire_type, value }
    }
}

/// The arguments in a [`FragmentKind::Call`].
#[derive(Clone, Copy, Debug)]
pub enum FragmentArguments<'a> {
    /// Argument text to append.
    Text(Opaque<'a>),
    /// The complete argument text, restated after (or instead of) its pieces.
    Complete(Opaque<'a>),
    /// The complete arguments as a JSON value; JSON.
    Value(Opaque<'a>),
    /// One leaf of the arguments, addressed by a JSON path.
    Leaf {
        /// The path, such as `$.a.b[0]`.
        path: Opaque<'a>,
        /// The leaf's value, JSON; a string is appended to the string already there, if that one continues.
        value: Opaque<'a>,
        /// Whether more of this string will come.
        continues: bool,
    },
    /// The announcement of a call, by a wire that announces each call once and under its own number: a
    /// second announcement there is another call, and text under another number is not this call's.
    Opening {
        /// The arguments if no text follows.
        fallback: Option<Opaque<'a>>,
        /// Whether text must follow; a call that then gets none was truncated.
        expects_text: bool,
    },
}

impl<'a> Fragment<'a> {
    /// A statement about choice 0 without a block key.
    pub fn new(part: FragmentKind<'a>) -> Self {
        Self { choice: 0, key: None, part }
    }

    /// The same about another choice.
    pub fn in_choice(self, choice: u32) -> Self {
        Self { choice, ..self }
    }

    /// The same about the block with the key `place`.
    pub fn at(self, place: BlockKey) -> Self {
        Self { key: Some(place), ..self }
    }
}
