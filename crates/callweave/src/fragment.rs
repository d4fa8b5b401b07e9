//! What one frame says, before anybody has put it in its place.
//!
//! A protocol reads one frame and says what it contains, as [`Fragment`]s: "text for choice 0",
//! "arguments for the call at index 2", "usage", "finish". It keeps no state; [`Weave`](crate::weave::Weave)
//! is the one fold that turns fragments into events and knows every rule of identity.
//!
//! Fragments borrow from the frame. Strings stay as they stand in the JSON ([`Str`]) and values as they
//! were written (`&str` of JSON text); both are decoded where they are used.

use crate::event::{CallKind, Counters, DetailKind, FinishReason, NoticeCode, Sink};
use crate::json::Str;
use crate::upstream::UpstreamError;

/// Anything that takes fragments, whatever they borrow from.
pub type FragmentSink<'s> = dyn for<'f> Sink<Fragment<'f>> + 's;

/// One statement of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fragment<'a> {
    /// The choice it belongs to.
    pub choice: u32,
    /// Which block it belongs to, where the wire numbers its blocks.
    pub place: Option<Place>,
    /// What is said.
    pub part: Part<'a>,
}

/// How the wire numbers a block inside a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// A protocol with several independent numberings (Cohere's contents and calls; loose fragments of
    /// different shapes) gives each its own space.
    pub space: u8,
    /// The wire's number.
    pub index: i64,
    /// A part inside the numbered thing (a content part or summary of a Responses item); 0 if there is none.
    pub part: u32,
}

impl Place {
    /// The block of the choice that was spoken of last, open or over: for what a wire without numbers
    /// says about the block it has just told.
    pub const LAST: Self = Self { space: u8::MAX, index: 0, part: 0 };

    /// The space of places that stand for names.
    const NAMED: u8 = u8::MAX - 2;

    /// The space of a second telling (the legacy `function_call` beside `tool_calls`): a call that is told
    /// there after others is held back as long as it tells just what one of them has told.
    pub const MIRROR: u8 = u8::MAX - 3;

    /// The space of positions in a list that tells all things again, where each is first to be found: see
    /// [`Part::Same`].
    pub const RECAP: u8 = u8::MAX - 4;

    /// How many parts of one sort a thing can have.
    pub const SORT: u32 = 1 << 20;

    /// The block that the wire numbers `index`, in the first space.
    pub fn at(index: i64) -> Self {
        Self { space: 0, index, part: 0 }
    }

    /// The block that a wire without numbers calls by a name: the same name is the same place.
    pub fn named(name: &str) -> Self {
        // FNV-1a: frames are read apart from each other, so the place must follow from the name alone.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { space: Self::NAMED, index: hash.cast_signed(), part: 0 }
    }

    /// The thing that the part belongs to.
    pub(crate) fn thing(self) -> Self {
        Self { part: 0, ..self }
    }

    /// The sort of the part: parts that a thing lists apart from each other (contents, summaries) are numbered
    /// this far from each other.
    pub(crate) fn sort(self) -> u32 {
        self.part / Self::SORT
    }

    /// Whether the space is one of the protocol's own.
    pub(crate) fn is_own(self) -> bool {
        self.space < Self::RECAP
    }

    /// Whether the place is one in a list that tells all again, and may not number as before.
    pub(crate) fn is_loose(self) -> bool {
        self.space == Self::RECAP
    }

    /// The wire's number, if it gave one.
    pub fn number(self) -> Option<i64> {
        (self.space < Self::NAMED).then_some(self.index)
    }

    /// The same number in another space.
    pub fn in_space(self, space: u8) -> Self {
        Self { space, ..self }
    }

    /// A part inside the numbered thing.
    pub fn part(self, part: u32) -> Self {
        Self { part, ..self }
    }
}

/// What kind of running text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Visible text.
    Text,
    /// Thoughts. Where one answer tells the same thoughts in several fields, each field has its own
    /// source number; the first source seen in a choice is used and the others are not, smaller
    /// numbers first within a frame.
    Reasoning {
        /// The number of the field.
        source: u8,
    },
    /// A refusal.
    Refusal,
}

impl Channel {
    /// Thoughts that the wire tells in one place only.
    pub const REASONING: Self = Self::Reasoning { source: 0 };
}

/// What a [`Fragment`] says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// The answer's id and model.
    Start {
        /// The id, if given.
        id: Option<Str<'a>>,
        /// The model, if given.
        model: Option<Str<'a>>,
    },
    /// Another model answers than the one that was asked.
    Rerouted {
        /// The model that answers.
        model: Str<'a>,
    },
    /// A text block begins (only where the wire says so; a [`Part::Text`] opens its block by itself).
    Open(Channel),
    /// Text to append to the block at the place, or to the running block of that channel.
    Text {
        /// Which kind of text.
        channel: Channel,
        /// The text.
        text: Str<'a>,
    },
    /// The whole text of the block at the place, or without a place all text of that channel, restated
    /// after (or instead of) its deltas.
    Restate {
        /// Which kind of text.
        channel: Channel,
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
        /// Arguments. `Some` of an empty text also says that the name is settled.
        arguments: Option<Arguments<'a>>,
    },
    /// The thing at the place is the one that is elsewhere called by that name, or else the one at the other
    /// place, if either is known. From now on the places are one.
    Same {
        /// Its name; may be empty.
        name: Str<'a>,
        /// Where else it may have been told of.
        or: Option<Place>,
    },
    /// The block at the place is over.
    End,
    /// A detail of the thoughts at the place.
    Detail {
        /// What it is.
        kind: DetailKind,
        /// The wire's number for it.
        index: Option<i64>,
        /// The data.
        data: Str<'a>,
        /// Remaining fields, a JSON object.
        extra: Option<&'a str>,
    },
    /// An annotation of the text at the place; JSON.
    Annotation(&'a str),
    /// Log probabilities; JSON, one entry or a list.
    Logprobs(&'a str),
    /// What will come at the place is the result of that call.
    Answers {
        /// The id of the call.
        call: Str<'a>,
    },
    /// What a builtin tool answered: the call of that id, the one that the place answers, or else the
    /// last builtin call.
    ToolResult {
        /// The id of the call.
        call: Option<Str<'a>>,
        /// The result; JSON.
        value: &'a str,
    },
    /// Token counts of one step of the answer, to be added to those of the steps before.
    Step {
        /// What the steps belong to: another one's are not added.
        turn: Str<'a>,
        /// Normalised.
        counters: Counters,
        /// As the provider wrote them; JSON.
        raw: &'a str,
    },
    /// Token counts.
    Usage {
        /// Normalised.
        counters: Counters,
        /// As the provider wrote them; JSON.
        raw: &'a str,
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
    /// The upstream reports an error.
    Error(&'a UpstreamError<'a>),
    /// What only this protocol knows. Told on once, and again only when it changes.
    Foreign {
        /// Where it stood: the path down to the object, ending in a dot, or empty.
        scope: &'static str,
        /// The member's name (or the event's). One that ends in `[]` is an element of a list: another one does
        /// not replace it, and is told on even if it is equal, unless it stands at the same place.
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

/// The arguments in a [`Part::Call`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arguments<'a> {
    /// Argument text to append.
    Text(Str<'a>),
    /// The whole argument text, restated after (or instead of) its pieces.
    Whole(Str<'a>),
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
    pub fn new(part: Part<'a>) -> Self {
        Self { choice: 0, place: None, part }
    }

    /// The same about another choice.
    pub fn in_choice(self, choice: u32) -> Self {
        Self { choice, ..self }
    }

    /// The same about the block at `place`.
    pub fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }
}
