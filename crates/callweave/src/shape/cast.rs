//! Fragments of a frame, with its holes in place of what stood there.

use std::ops::Range;

use super::Known;
use super::fit::Hole;
use crate::event::{AttachmentKind, CallKind, Counters, FinishReason, Sink};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Level, Part, Place};
use crate::json::Str;

/// A fragment that can be told of every frame of the shape.
pub(super) struct Cast {
    choice: u32,
    place: Option<Place>,
    /// Whether that is the place whose number stands in the frame: see [`Cast::bind`].
    follows: bool,
    part: CastPart,
    /// Whether it is no news in a frame that follows another of the same shape.
    pub(super) is_quiet: bool,
    /// Whether it is no news in one that goes on with the same block, either.
    is_steady: bool,
}

/// Those parts of which frames of a shape may consist.
#[derive(PartialEq)]
enum CastPart {
    Start { id: Option<Slice>, model: Option<Slice>, word: Slice },
    Choice,
    Open { channel: Channel, word: Slice },
    Text { channel: Channel, word: Slice, text: Slice },
    Call { id: Option<Slice>, name: Option<Slice>, kind: CallKind, word: Slice, arguments: Option<Slice> },
    Attach { level: Level, on: Slice, kind: AttachmentKind, word: Slice, value: Slice },
    Usage { word: Slice, counters: Counters, raw: Slice },
    Finish { reason: FinishReason, raw: Option<Slice> },
    End,
    Progress { word: Slice, value: Option<Slice> },
    Foreign { level: Level, path: &'static str, key: Slice, value: Slice },
}

impl CastPart {
    /// The pieces of text in it.
    fn slices(&mut self) -> [Option<&mut Slice>; 4] {
        match self {
            Self::Start { id, model, word } => [id.as_mut(), model.as_mut(), Some(word), None],
            Self::Choice | Self::End => [None, None, None, None],
            Self::Open { word, .. } => [Some(word), None, None, None],
            Self::Text { word, text, .. } => [Some(word), Some(text), None, None],
            Self::Call { id, name, word, arguments, .. } => {
                [id.as_mut(), name.as_mut(), Some(word), arguments.as_mut()]
            }
            Self::Attach { on, word, value, .. } => [Some(on), Some(word), Some(value), None],
            Self::Usage { word, raw, .. } => [Some(word), Some(raw), None, None],
            Self::Finish { raw, .. } => [raw.as_mut(), None, None, None],
            Self::Progress { word, value } => [Some(word), value.as_mut(), None, None],
            Self::Foreign { key, value, .. } => [Some(key), Some(value), None, None],
        }
    }
}

/// A piece of a text, or of the arguments of a call.
pub(super) struct Growth {
    pub(super) choice: u32,
    /// Where the text stands; none for the arguments of a call.
    pub(super) at: Option<Option<Place>>,
    /// Which of the casts tells it.
    pub(super) cast: usize,
    /// The hole in which the text stands, if it is not always the same.
    pub(super) hole: Option<usize>,
}

impl Growth {
    /// What all of the casts amount to where the quiet ones are no news, if it is that.
    pub(super) fn of(casts: &[Cast]) -> Option<Self> {
        let mut loud = casts.iter().enumerate().filter(|(_, cast)| !cast.is_steady);
        let (Some((own, cast)), None) = (loud.next(), loud.next()) else { return None };
        // What is said of a block must be said of this one, and not of the next.
        let is_of_it = |(at, other): (usize, &Cast)| match other.level() {
            Some(Level::Next) => other.choice == cast.choice && at < own,
            Some(Level::Block) => (other.choice, other.place) == (cast.choice, cast.place),
            _ => true,
        };
        if !casts.iter().enumerate().all(is_of_it) {
            return None;
        }
        let (at, text) = match &cast.part {
            CastPart::Text { text, .. } => (Some(cast.place), text),
            CastPart::Call { id: None, name: None, arguments: Some(text), .. } => (None, text),
            _ => return None,
        };
        let hole = match text {
            Slice::Hole(hole) => Some(*hole),
            Slice::Fixed { .. } => None,
            Slice::Around { .. } => return None,
        };
        Some(Self { choice: cast.choice, at, cast: own, hole })
    }
}

/// A piece of text in a fragment.
enum Slice {
    /// The same in every frame.
    Fixed { text: Box<str>, is_escaped: bool },
    /// What stands in that hole.
    Hole(usize),
    /// A piece of the frame with holes in it: where it stood in the data that the shape was learned from.
    Around { range: Range<usize>, is_escaped: bool },
}

/// Equal pieces of two frames. Of what has holes in it that cannot be told.
impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed { text, is_escaped }, Self::Fixed { text: other, is_escaped: is_other_escaped }) => {
                (text, is_escaped) == (other, is_other_escaped)
            }
            (Self::Hole(own), Self::Hole(other)) => own == other,
            _ => false,
        }
    }
}

impl Slice {
    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed { .. })
    }

    /// Says which of the holes a piece of the frame is, if any; false if it ends inside one.
    fn settle(&mut self, data: &str, holes: &[Hole]) -> bool {
        let Self::Around { range, is_escaped } = self else { return true };
        if let Some(at) = holes.iter().position(|hole| (hole.start..hole.end) == *range) {
            *self = Self::Hole(at);
            return true;
        }
        let mut inside =
            holes.iter().filter(|hole| hole.start < range.end && range.start < hole.end).peekable();
        if inside.peek().is_none() {
            *self = Self::Fixed { text: data[range.clone()].into(), is_escaped: *is_escaped };
            return true;
        }
        !*is_escaped && inside.all(|hole| range.start <= hole.start && hole.end <= range.end)
    }

    fn fixed(&self) -> Str<'_> {
        match self {
            Self::Fixed { text, is_escaped: true } => Str::Escaped(text),
            Self::Fixed { text, is_escaped: false } => Str::Plain(text),
            Self::Hole(_) | Self::Around { .. } => Str::Plain(""),
        }
    }

    fn str<'f>(&'f self, known: &Known<'f, 'f>) -> Str<'f> {
        match self {
            Self::Fixed { .. } => self.fixed(),
            Self::Hole(at) => known.pieces[*at].str(known.frame),
            Self::Around { range, .. } => Str::Plain(known.around(range)),
        }
    }

    fn text<'f>(&'f self, known: &Known<'f, 'f>) -> &'f str {
        self.str(known).written()
    }
}

impl<'f> Known<'f, 'f> {
    /// What stands where that range of the data stood in the frame that the shape was learned from.
    fn around(&self, range: &Range<usize>) -> &'f str {
        let moved = |at: usize| {
            let before = self.shape.holes.iter().zip(self.pieces).take_while(|(hole, _)| hole.end <= at);
            before.fold(self.from + at, |at, (hole, own)| at + own.len() - (hole.end - hole.start))
        };
        // Checked when it was fitted: neither bound stands inside a character.
        std::str::from_utf8(&self.frame[moved(range.start)..moved(range.end)]).unwrap_or_default()
    }
}

impl Cast {
    /// The text that is the same in every frame.
    pub(super) fn text(&self) -> Str<'_> {
        match &self.part {
            CastPart::Text { text, .. } | CastPart::Call { arguments: Some(text), .. } => text.fixed(),
            _ => Str::Plain(""),
        }
    }

    /// Learns which places follow the number of a place in the frame: it says the same as `other` does of a frame where
    /// nothing else differs, but those numbers. False if it does not.
    pub(super) fn learn_place(&mut self, number: i64, other: &Self, other_number: i64) -> bool {
        self.follows = match (self.place, other.place) {
            _ if number == other_number => other.follows,
            (Some(own), Some(other)) => own != other && (own.index, other.index) == (number, other_number),
            _ => false,
        };
        let place = self
            .place
            .map(|place| Place { index: if self.follows { other_number } else { place.index }, ..place });
        (self.choice, &self.part) == (other.choice, &other.part) && place == other.place
    }

    /// Takes over another number of the place.
    pub(super) fn bind(&mut self, number: i64) {
        if let Some(place) = self.place.as_mut().filter(|_| self.follows) {
            place.index = number;
        }
    }

    pub(super) fn tell<'f>(&'f self, frame: &Known<'f, 'f>, sink: &mut FragmentSink<'_>) {
        let str = |slice: &'f Slice| slice.str(frame);
        let may_be = |slice: &'f Option<Slice>| slice.as_ref().map(str);
        let text = |slice: &'f Slice| slice.text(frame);
        let part = match &self.part {
            CastPart::Text { channel, word, text: own } => {
                Part::Text { channel: *channel, word: text(word), text: str(own) }
            }
            CastPart::Call { id, name, kind, word, arguments } => Part::Call {
                id: may_be(id),
                name: may_be(name),
                kind: *kind,
                word: text(word),
                arguments: may_be(arguments).map(Arguments::Text),
            },
            CastPart::Start { id, model, word } => {
                Part::Start { id: may_be(id), model: may_be(model), word: text(word) }
            }
            CastPart::Choice => Part::Choice,
            CastPart::Open { channel, word } => Part::Open { channel: *channel, word: text(word) },
            CastPart::Attach { level, on, kind, word, value } => Part::Attach {
                level: *level,
                on: text(on),
                kind: *kind,
                word: text(word),
                value: text(value),
            },
            CastPart::Usage { word, counters, raw } => {
                Part::Usage { word: text(word), counters: *counters, raw: text(raw) }
            }
            CastPart::Finish { reason, raw } => Part::Finish { reason: *reason, raw: may_be(raw) },
            CastPart::End => Part::End,
            CastPart::Progress { word, value } => {
                Part::Progress { word: text(word), value: value.as_ref().map(text) }
            }
            CastPart::Foreign { level, path, key, value } => {
                Part::Foreign { level: *level, path, key: text(key), value: text(value) }
            }
        };
        sink.put(Fragment { choice: self.choice, place: self.place, part });
    }

    /// Whether it says nothing but what is the same in every frame, and is news only once.
    fn is_fixed(&self) -> bool {
        let is_fixed = |slice: &Option<Slice>| slice.as_ref().is_none_or(Slice::is_fixed);
        match &self.part {
            CastPart::Start { id, model, .. } => is_fixed(id) && is_fixed(model),
            CastPart::Choice => true,
            CastPart::Foreign { level: Level::Answer | Level::Choice, value, .. } => value.is_fixed(),
            _ => false,
        }
    }

    /// Whether it says of a block what is the same in every frame.
    fn is_fixed_member(&self) -> bool {
        matches!(&self.part, CastPart::Foreign { level: Level::Block | Level::Next, key, value, .. }
            if key.is_fixed() && value.is_fixed())
    }

    /// What it is about that only the protocol knows.
    fn level(&self) -> Option<Level> {
        match &self.part {
            CastPart::Foreign { level, .. } => Some(*level),
            _ => None,
        }
    }

    /// Whether both speak of the same member, so that each makes news of the other.
    fn disputes(&self, other: &Self) -> bool {
        match (&self.part, &other.part) {
            (CastPart::Start { .. }, CastPart::Start { .. }) => true,
            (
                CastPart::Foreign { path, key: Slice::Fixed { text: key, .. }, .. },
                CastPart::Foreign { path: other_path, key: Slice::Fixed { text: other_key, .. }, .. },
            ) => path == other_path && key == other_key,
            _ => false,
        }
    }
}

/// Makes casts of the fragments of a frame, while they are told.
pub(crate) struct Recorder<'d> {
    data: &'d str,
    casts: Vec<Cast>,
    /// Whether something came that has no cast.
    has_failed: bool,
}

impl<'d> Recorder<'d> {
    /// Of a frame; `room` is memory that one before it had.
    pub(super) fn new(data: &'d str, room: Vec<Cast>) -> Self {
        Self { data, casts: room, has_failed: false }
    }

    /// Its memory, for the next.
    pub(super) fn into_room(mut self) -> Vec<Cast> {
        self.casts.clear();
        self.casts
    }

    /// The casts of a frame that has those holes, if everything has one.
    pub(super) fn finish(&mut self, holes: &[Hole]) -> Option<Vec<Cast>> {
        let settle = |cast: &mut Cast| {
            let mut slices = cast.part.slices().into_iter().flatten();
            slices.all(|slice| slice.settle(self.data, holes))
        };
        if self.has_failed || !self.casts.iter_mut().all(settle) {
            return None;
        }
        let mut casts = std::mem::take(&mut self.casts);
        for at in 0..casts.len() {
            let is_disputed = |cast: &Cast| {
                let mut others = casts.iter().enumerate().filter(|(other, _)| *other != at);
                others.any(|(_, other)| cast.disputes(other))
            };
            let is_quiet = casts[at].is_fixed() && !is_disputed(&casts[at]);
            let is_steady = is_quiet || casts[at].is_fixed_member() && !is_disputed(&casts[at]);
            let cast = &mut casts[at];
            (cast.is_quiet, cast.is_steady) = (is_quiet, is_steady);
        }
        casts.shrink_to_fit();
        Some(casts)
    }

    /// What stands in the frame is settled when its holes are known.
    fn str(&self, text: Str<'_>) -> Slice {
        let written = text.written();
        let is_escaped = matches!(text, Str::Escaped(_));
        let own = self.data.as_bytes().as_ptr_range();
        let its = written.as_bytes().as_ptr_range();
        if its.start < own.start || its.end > own.end || written.is_empty() {
            return Slice::Fixed { text: written.into(), is_escaped };
        }
        let start = its.start as usize - own.start as usize;
        Slice::Around { range: start..start + written.len(), is_escaped }
    }

    fn text(&self, text: &str) -> Slice {
        self.str(Str::Plain(text))
    }

    fn cast(&self, part: Part<'_>) -> Option<CastPart> {
        let may_be = |text: Option<Str<'_>>| text.map(|text| self.str(text));
        Some(match part {
            Part::Start { id, model, word } => {
                CastPart::Start { id: may_be(id), model: may_be(model), word: self.text(word) }
            }
            Part::Choice => CastPart::Choice,
            Part::Open { channel, word } => CastPart::Open { channel, word: self.text(word) },
            Part::Text { channel, word, text } => {
                CastPart::Text { channel, word: self.text(word), text: self.str(text) }
            }
            Part::Call { id, name, kind, word, arguments: arguments @ (None | Some(Arguments::Text(_))) } => {
                let arguments = arguments.and_then(|arguments| match arguments {
                    Arguments::Text(text) => Some(text),
                    _ => None,
                });
                let [id, name, arguments] = [id, name, arguments].map(may_be);
                CastPart::Call { id, name, kind, word: self.text(word), arguments }
            }
            Part::Attach { level, on, kind, word, value } => {
                let [on, word, value] = [on, word, value].map(|text| self.text(text));
                CastPart::Attach { level, on, kind, word, value }
            }
            Part::Usage { word, counters, raw } => {
                CastPart::Usage { word: self.text(word), counters, raw: self.text(raw) }
            }
            Part::Finish { reason, raw } => CastPart::Finish { reason, raw: may_be(raw) },
            Part::End => CastPart::End,
            Part::Progress { word, value } => {
                CastPart::Progress { word: self.text(word), value: may_be(value.map(Str::Plain)) }
            }
            Part::Foreign { level, path, key, value } => {
                CastPart::Foreign { level, path, key: self.text(key), value: self.text(value) }
            }
            _ => return None,
        })
    }
}

impl<'f> Sink<Fragment<'f>> for Recorder<'_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        if self.has_failed {
            return;
        }
        let Fragment { choice, place, part } = fragment;
        match self.cast(part) {
            Some(part) => self.casts.push(Cast {
                choice,
                place,
                follows: false,
                part,
                is_quiet: false,
                is_steady: false,
            }),
            None => self.has_failed = true,
        }
    }
}
