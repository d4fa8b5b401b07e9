//! What one frame says, before anybody has put it in its place.
//!
//! A protocol reads one frame and says what it contains, as [`Fragment`]s: "text for choice 0",
//! "arguments for the call at index 2", "usage", "finish". It keeps no state; [`Weave`](crate::weave::Weave)
//! is the one fold that turns fragments into events and knows every rule of identity.
//!
//! Fragments borrow from the frame. Strings stay as they stand in the JSON ([`Str`]) and values as they
//! were written (`&str` of JSON text); both are decoded where they are used.

use std::hash::{Hash, Hasher};
use std::num::NonZero;

use crate::event::{AttachmentKind, CallKind, FinishReason, NoticeCode, ReasoningForm, Sink, TokenCounts};
use crate::fingerprint::keyed_digest;
use crate::json::{Str, TapeNode};
use crate::upstream::UpstreamError;

/// Anything that takes fragments, whatever they borrow from.
pub type FragmentSink<'s> = dyn for<'f> Sink<Fragment<'f>> + 's;

/// One statement of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fragment<'a> {
    /// The choice it belongs to.
    pub choice: u32,
    /// Which block it belongs to, where the wire numbers its blocks.
    pub key: Option<BlockKey>,
    /// What is said.
    pub part: FragmentKind<'a>,
}

/// How the wire numbers a block inside a choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockKey {
    /// The wire's number. First, because places that differ mostly differ in it.
    pub index: i64,
    /// A protocol with several independent numberings (Cohere's contents and calls; loose fragments of
    /// different shapes) gives each its own space.
    pub space: u8,
    /// A part inside the numbered thing, see [`BlockKey::part`]; 0 if there is none.
    pub part: u32,
    /// Whether a block at this place runs until something else arrives, as one without a place does: the wire
    /// numbers it, but never says that it is over.
    pub runs: bool,
    /// The note of the number in the frame, if that was passed on: see [`BlockKey::of`]. It is the same place either way.
    pub(crate) note: Option<NonZero<u16>>,
}

impl PartialEq for BlockKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.rest() == other.rest()
    }
}

impl Eq for BlockKey {}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.index.hash(hasher);
        self.rest().hash(hasher);
    }
}

impl BlockKey {
    /// The block of the choice that was spoken of last, open or over: for what a wire without numbers
    /// says about the block it has just told.
    pub const LAST: Self = Self { space: u8::MAX, index: 0, part: 0, runs: false, note: None };

    /// The space of places that stand for names.
    const NAMED: u8 = u8::MAX - 2;

    /// The space of a second telling (the legacy `function_call` beside `tool_calls`): a call that is told
    /// there after others is held back as long as it tells just what one of them has told.
    pub const MIRROR: u8 = u8::MAX - 3;

    /// The space of positions in a list that tells all things again, where each is first to be found: see
    /// [`FragmentKind::Item`].
    pub const RECAP: u8 = u8::MAX - 4;

    /// Parts beyond this number are one.
    const MAX_PARTS: u32 = (1 << 24) - 1;

    /// The block that the wire numbers `index`, in the first space.
    pub fn at(index: i64) -> Self {
        Self { space: 0, index, part: 0, runs: false, note: None }
    }

    /// The same, by the number that stands in the frame. If it is passed on without a look at it, then in another frame
    /// that is the same but for that number, the place is the same but for it.
    #[inline(always)]
    pub(crate) fn of(number: TapeNode<'_>) -> Option<Self> {
        match number.pass_index() {
            Some((index, note)) => Some(Self { note: Some(note), ..Self::at(index) }),
            None => number.index().map(Self::at),
        }
    }

    /// The same place, of which it is not known where its number stands.
    pub(crate) fn noted_nowhere(self) -> Self {
        Self { note: None, ..self }
    }

    /// The block that a wire without numbers calls by a name: the same name is the same place.
    pub fn named(name: &str) -> Self {
        // Frames are read apart from each other, so the place must follow from the name alone.
        let hash = keyed_digest(name);
        Self { space: Self::NAMED, ..Self::at(hash.cast_signed()) }
    }

    /// Whether it, or the thing that it is a part of, has neither a number nor a name.
    pub(crate) fn is_anonymous(self) -> bool {
        self.owner() == Self::named("")
    }

    /// All but the number, in one word.
    #[inline]
    fn rest(self) -> u64 {
        u64::from(self.part) << 16 | u64::from(self.space) << 8 | u64::from(self.runs)
    }

    /// The thing that the part belongs to.
    pub(crate) fn owner(self) -> Self {
        Self { part: 0, runs: false, ..self }
    }

    /// The group of the part: what a thing lists apart from each other (contents, summaries).
    pub(crate) fn group(self) -> u32 {
        self.part / (Self::MAX_PARTS + 1)
    }

    /// Whether the space is one of the protocol's own.
    pub fn is_own(self) -> bool {
        self.space < Self::RECAP
    }

    /// Whether the place is one in a list that tells all again, and may not number as before.
    pub(crate) fn is_loose(self) -> bool {
        self.space == Self::RECAP
    }

    /// The wire's number of the part, or of the thing where it has no parts, if it gave one.
    pub fn number(self) -> Option<i64> {
        match self.part {
            0 => (self.space < Self::NAMED).then_some(self.index),
            part => Some(i64::from(part & Self::MAX_PARTS)),
        }
    }

    /// The same number in another space.
    pub fn in_space(self, space: u8) -> Self {
        Self { space, ..self }
    }

    /// A part inside the numbered thing: the `number`th of a `group` of parts.
    pub fn part(self, group: u8, number: u64) -> Self {
        let number = number.min(u64::from(Self::MAX_PARTS)) as u32;
        Self { part: (u32::from(group) + 1) * (Self::MAX_PARTS + 1) + number, ..self }
    }

    /// The same, as the place of a block that runs until something else arrives.
    pub fn running(self) -> Self {
        Self { runs: true, ..self }
    }

    /// The numbered thing itself, without the part inside it.
    pub fn item(self) -> Self {
        Self { part: 0, ..self }
    }
}

/// What kind of running text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextChannel {
    /// Visible text.
    Text,
    /// Thoughts.
    Reasoning(ReasoningForm),
    /// A refusal.
    Refusal,
}

impl TextChannel {
    /// Thoughts, as the model thought them.
    pub const REASONING: Self = Self::Reasoning(ReasoningForm::Raw);
}

/// What a value that only the protocol knows is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtraScope {
    /// The answer.
    Response,
    /// The choice.
    Choice,
    /// The item at the place.
    Item,
    /// The block at the place.
    Block,
    /// The item or block that the next fragment of this frame speaks of: a member of its start, if that
    /// fragment starts it.
    Next,
}

/// Reads counters from what a provider wrote. Some providers count in every frame: what is known but for its counts
/// need not be read in full.
#[derive(Clone, Copy)]
pub struct UsageReader(pub(crate) fn(TapeNode<'_>) -> TokenCounts);

impl UsageReader {
    /// The counters, and that only they are read from `usage`: see [`TapeNode::read_apart`].
    pub(crate) fn of(self, usage: TapeNode<'_>) -> TokenCounts {
        usage.read_apart(self.0)
    }
}

impl std::fmt::Debug for UsageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadUsage")
    }
}

/// What they read is told apart, not who reads it.
impl PartialEq for UsageReader {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a [`Fragment`] says.
///
/// A `word` is the wire's own word for the thing; it is told on with the start of what it names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FragmentKind<'a> {
    /// The answer's names. Told by every frame that has them; only the first, or what has changed, is news.
    Start {
        /// The id, if given.
        id: Option<Str<'a>>,
        /// The model, if given.
        model: Option<Str<'a>>,
        /// What the wire calls such an answer.
        wire_type: &'a str,
    },
    /// Another model answers than the one that was asked.
    Rerouted {
        /// The model that answers.
        model: Str<'a>,
    },
    /// The choice is there, whether or not anything is said of it.
    Choice,
    /// The item at the place is there.
    Item {
        /// The provider's id.
        id: Option<Str<'a>>,
        /// What the wire calls it.
        wire_type: &'a str,
    },
    /// The item at the place is over, and so are its blocks.
    ItemEnd,
    /// A text block begins (only where the wire says so; a [`FragmentKind::Text`] opens its block by itself).
    Open {
        /// Which kind of text.
        channel: TextChannel,
        /// What the wire calls the block.
        wire_type: &'a str,
    },
    /// Text to append to the block at the place, or to the running block of that channel and word.
    Text {
        /// Which kind of text.
        channel: TextChannel,
        /// What the wire calls the block.
        wire_type: &'a str,
        /// The text.
        text: Str<'a>,
    },
    /// The whole text of the block at the place, or without a place all text of that channel, restated
    /// after (or instead of) its deltas.
    Restate {
        /// Which kind of text.
        channel: TextChannel,
        /// What the wire calls the block.
        wire_type: &'a str,
        /// The whole text.
        text: Str<'a>,
        /// Whether it is told once more with all the rest of the answer, perhaps numbered anew: a block
        /// elsewhere that held exactly this text is then the same one.
        is_recap: bool,
    },
    /// A piece of a tool call, found by place and by id.
    Call {
        /// The provider's id.
        id: Option<Str<'a>>,
        /// The name, or a piece of it.
        name: Option<Str<'a>>,
        /// Who runs it.
        kind: CallKind,
        /// What the wire calls the block.
        wire_type: &'a str,
        /// Arguments. `Some` of an empty text also says that the name is settled.
        arguments: Option<FragmentArguments<'a>>,
    },
    /// The thing at the place is the one that is elsewhere called by that name, or else the one at the other
    /// place, if either is known. From now on the places are one.
    Same {
        /// Its name; may be empty.
        name: Str<'a>,
        /// Where else it may have been told of.
        or: Option<BlockKey>,
    },
    /// The block at the place is over.
    End,
    /// The block at the place is over, because a limit cut it.
    Truncated,
    /// Something that hangs on a block, an item, the choice or the answer.
    Attach {
        /// What it hangs on. [`ExtraScope::Next`] is the block that the next fragment tells whole (a result, something
        /// opaque). On [`ExtraScope::Block`] without a place, or at a place that runs, it hangs on the running
        /// block of thoughts whose word begins with `on`, and else on a new one of that word.
        level: ExtraScope,
        /// The word of the block of thoughts it hangs on, where that may have to be opened.
        on: &'a str,
        /// What it is.
        kind: AttachmentKind,
        /// What the wire calls it.
        wire_type: &'a str,
        /// The attachment; JSON.
        value: &'a str,
    },
    /// What will come at the place is the result of that call.
    ResultOf {
        /// The id of the call.
        call: Str<'a>,
    },
    /// What a builtin tool answered: the call of that id, the one that the place answers, or else the
    /// last builtin call.
    ToolResult {
        /// The id of the call.
        call: Option<Str<'a>>,
        /// What the wire calls it.
        wire_type: &'a str,
        /// The result; JSON.
        value: &'a str,
    },
    /// Content that only the protocol knows, whole.
    Opaque {
        /// What the wire calls it.
        wire_type: &'a str,
        /// The content; JSON.
        value: &'a str,
    },
    /// How the item at the place, or without a place the answer, comes along.
    Progress {
        /// What the wire calls this step.
        wire_type: &'a str,
        /// What it says; JSON. If there were [details](FragmentKind::Detail), they are said instead.
        value: Option<&'a str>,
    },
    /// A member of what the [step](FragmentKind::Progress) says that this frame tells next.
    Detail {
        /// The member's name.
        key: &'a str,
        /// What stood there; JSON.
        value: &'a str,
    },
    /// Token counts of one step of the answer, to be added to those of the steps before.
    Step {
        /// What the steps belong to: another one's are not added.
        turn: Str<'a>,
        /// Normalised.
        counters: TokenCounts,
        /// As the provider wrote them; JSON.
        raw: &'a str,
    },
    /// Token counts.
    Usage {
        /// Where the wire says them.
        wire_type: &'a str,
        /// Normalised.
        counters: TokenCounts,
        /// As the provider wrote them; JSON.
        raw: &'a str,
        /// What reads the counters, if it reads them from `raw` and from nothing else.
        read: Option<UsageReader>,
    },
    /// The provider's reason to finish. The last one counts.
    Finish {
        /// In our words, as far as the provider's word tells.
        reason: FinishReason,
        /// The provider's word.
        raw: Option<Str<'a>>,
    },
    /// The provider's own end marker: nothing is missing.
    Done,
    /// One of the provider's two last words, which come in either order: with the second, nothing is missing.
    HalfDone,
    /// The upstream reports an error.
    Error(&'a UpstreamError<'a>),
    /// What only this protocol knows. Told on once, and again only when it changes.
    Extra {
        /// What it is about.
        level: ExtraScope,
        /// Where it stood: the path from there down to the object, ending in a dot, or empty.
        path: &'static str,
        /// The member's name (or the event's).
        key: &'a str,
        /// What stood there; JSON.
        value: &'a str,
    },
    /// An oddity.
    Notice {
        /// Which.
        code: NoticeCode,
        /// In words.
        detail: &'static str,
        /// Text that found no other place.
        text: Option<&'a str>,
    },
}

impl<'a> FragmentKind<'a> {
    /// Something that hangs on the block at the place, or on a block of thoughts of the word `on`.
    pub(crate) fn hung(on: &'a str, kind: AttachmentKind, wire_type: &'a str, value: &'a str) -> Self {
        Self::Attach { level: ExtraScope::Block, on, kind, wire_type, value }
    }
}

/// The arguments in a [`FragmentKind::Call`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FragmentArguments<'a> {
    /// Argument text to append.
    Text(Str<'a>),
    /// The whole argument text, restated after (or instead of) its pieces.
    Complete(Str<'a>),
    /// The arguments as a JSON value, whole; JSON.
    Value(&'a str),
    /// One leaf of the arguments, addressed by a JSON path.
    Leaf {
        /// Where, such as `$.a.b[0]`.
        path: Str<'a>,
        /// The leaf's value, JSON; a string is appended to the string already there, if that one continues.
        value: &'a str,
        /// Whether more of this string will come.
        continues: bool,
    },
    /// The announcement of a call, by a wire that announces each call once and under its own number: a
    /// second announcement there is another call, and text under another number is not this call's.
    Opening {
        /// The arguments if no text follows.
        fallback: Option<Str<'a>>,
        /// Whether text must follow; a call that then gets none was cut.
        expects_text: bool,
    },
}

impl<'a> Fragment<'a> {
    /// A statement about choice 0 at no particular place.
    pub fn new(part: FragmentKind<'a>) -> Self {
        Self { choice: 0, key: None, part }
    }

    /// The same about another choice.
    pub fn in_choice(self, choice: u32) -> Self {
        Self { choice, ..self }
    }

    /// The same about the block at `place`.
    pub fn at(self, place: BlockKey) -> Self {
        Self { key: Some(place), ..self }
    }
}
