//! Fragments of a frame, with its holes in place of what stood there.

use std::cell::Cell;
use std::ops::Range;

use super::Known;
use super::fit::{Hole, HoleKind, Ties};
use crate::event::{AttachmentKind, CallKind, Counters, FinishReason, Sink};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Level, Part, Place, ReadUsage};
use crate::json::{Str, with_spare_tape};

/// A fragment that can be told of every frame of the shape. There are many shapes where many streams are open, and so
/// texts stand together in one, [`Casts::fixed`].
pub(super) struct Cast {
    choice: u32,
    place: Option<Place>,
    part: CastPart,
    /// The holes that it has in it.
    ties: Ties,
    /// Whether it is no news in a frame that follows another of the same shape, even at another place: so it is about no
    /// place whose number stands in the frame, and about no block.
    pub(super) is_quiet: bool,
    /// Whether it is no news in one that goes on with the same block either, if its holes hold what they held before.
    is_steady: bool,
}

/// The fragments of a frame.
#[derive(Default)]
pub(super) struct Casts {
    list: Vec<Cast>,
    /// The texts that are the same in every frame.
    fixed: String,
}

/// Those parts of which frames of a shape may consist.
enum CastPart {
    Start { id: Option<Slice>, model: Option<Slice>, word: Slice },
    Choice,
    Open { channel: Channel, word: Slice },
    Text { channel: Channel, word: Slice, text: Slice },
    Call { id: Option<Slice>, name: Option<Slice>, kind: CallKind, word: Slice, arguments: Option<Slice> },
    Attach { level: Level, on: Slice, kind: AttachmentKind, word: Slice, value: Slice },
    Usage { word: Slice, counters: Box<Counters>, raw: Slice, read: Option<ReadUsage> },
    Finish { reason: FinishReason, raw: Option<Slice> },
    End,
    Progress { word: Slice, value: Option<Slice> },
    Detail { key: Slice, value: Slice },
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
            Self::Detail { key, value } | Self::Foreign { key, value, .. } => {
                [Some(key), Some(value), None, None]
            }
        }
    }
}

/// A piece of a text, or of the arguments of a call.
pub(super) struct Growth {
    pub(super) choice: u32,
    /// Where the text stands; none for the arguments of a call.
    pub(super) at: Option<Option<Place>>,
    /// Which of the casts tells it.
    pub(super) cast: u16,
    /// The hole in which the text stands, if it is not always the same.
    pub(super) hole: Option<u8>,
    /// Whether that is the only hole but for those that are tied, and a text.
    pub(super) is_alone: bool,
    /// The hole behind it, if there is but one more, and that for blanks.
    pub(super) padding: Option<u8>,
    /// Whether something is said of the block, too: that is no news only after a frame that found the block begun.
    pub(super) has_members: bool,
    /// The holes of which something else is told: only as long as they hold the same as in the frame before, the text is
    /// all there is to tell. Servers count the seconds in every chunk.
    pub(super) ties: Ties,
}

impl Growth {
    /// What all of the casts amount to where the quiet ones are no news, if it is that. The number of a place, if there is a
    /// hole for it, stands in that one.
    pub(super) fn of(casts: &Casts, holes: &[Hole], place: Option<usize>) -> Option<Self> {
        let casts = &casts.list;
        let mut loud = casts.iter().enumerate().filter(|(_, cast)| !cast.is_steady);
        let (Some((own, cast)), None) = (loud.next(), loud.next()) else { return None };
        // What is said of a block must be said of this one, and not of the next.
        let is_of_it = |(at, other): (usize, &Cast)| match other.level() {
            Some(Level::Next) => other.choice == cast.choice && at < own,
            Some(Level::Block) => {
                // Places are the same whether or not their numbers stand in the frame, but not for long.
                let is_there = other.is_placed() == cast.is_placed() && other.place == cast.place;
                is_there && other.choice == cast.choice
            }
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
        let hole = match *text {
            Slice::Hole(hole) => Some(hole),
            Slice::Fixed { .. } => None,
            Slice::Around { .. } => return None,
        };
        let steady = casts.iter().filter(|cast| cast.is_steady);
        let ties = steady.fold(Ties::NONE, |ties, cast| ties.and_all(cast.ties));
        // Another place is another block.
        let ties = place.filter(|_| cast.is_placed()).map_or(ties, |hole| ties.and(hole));
        let is_text = |at: usize| hole.is_some_and(|hole| usize::from(hole) == at);
        // What is the same as another, or the text itself, cannot stay while that changes.
        let is_free = |(at, own): (usize, &Hole)| match own.kind {
            HoleKind::SameAs(other) => !ties.has(at) && !ties.has(other.into()),
            _ => !ties.has(at) || !is_text(at),
        };
        if !holes.iter().enumerate().all(is_free) {
            return None;
        }
        let mut free = holes.iter().enumerate().filter(|(at, _)| !ties.has(*at));
        let is_text = |(at, own): (usize, &Hole)| is_text(at) && own.kind == HoleKind::Text;
        let (first, second, third) = (free.next(), free.next(), free.next());
        let has_text = first.is_some_and(is_text);
        let is_alone = has_text && second.is_none();
        let padding = second.filter(|(_, own)| has_text && third.is_none() && own.kind == HoleKind::Blank);
        let padding = padding.map(|(at, _)| at as u8);
        let has_members = casts.iter().any(Cast::is_member);
        let own = own.try_into().ok()?;
        Some(Self { choice: cast.choice, at, cast: own, hole, is_alone, padding, has_members, ties })
    }
}

/// A piece of text in a fragment. Frames that have shapes are short.
#[derive(Clone, Copy)]
enum Slice {
    /// The same in every frame: where it stands in [`Casts::fixed`].
    Fixed { start: u16, end: u16, is_escaped: bool },
    /// What stands in that hole.
    Hole(u8),
    /// A piece of the frame with holes in it: where it stood in the data that the shape was learned from.
    Around { start: u16, end: u16, is_escaped: bool },
}

impl Slice {
    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed { .. })
    }

    /// Says which of the holes a piece of the frame is, if any, and keeps what has none; false if it ends inside one.
    fn settle(&mut self, data: &str, holes: &[Hole], fixed: &mut String) -> bool {
        let Self::Around { start, end, is_escaped } = *self else { return true };
        let range = usize::from(start)..usize::from(end);
        if let Some(at) = holes.iter().position(|hole| (hole.start()..hole.end()) == range) {
            *self = Self::Hole(at as u8);
            return true;
        }
        let mut inside =
            holes.iter().filter(|hole| hole.start() < range.end && range.start < hole.end()).peekable();
        if inside.peek().is_none() {
            return keep(&data[range], is_escaped, fixed).map(|kept| *self = kept).is_some();
        }
        !is_escaped && inside.all(|hole| range.start <= hole.start() && hole.end() <= range.end)
    }

    /// The holes that it has in it.
    fn ties(self, holes: &[Hole]) -> Ties {
        match self {
            Self::Fixed { .. } => Ties::NONE,
            Self::Hole(at) => Ties::NONE.and(at.into()),
            Self::Around { start, end, .. } => {
                let is_inside = |hole: &Hole| hole.start() < end.into() && usize::from(start) < hole.end();
                let inside = holes.iter().enumerate().filter(|(_, hole)| is_inside(hole));
                inside.fold(Ties::NONE, |ties, (at, _)| ties.and(at))
            }
        }
    }

    /// The text, if it is the same in every frame.
    fn fixed(self, casts: &Casts) -> Option<Str<'_>> {
        let Self::Fixed { start, end, is_escaped } = self else { return None };
        let text = &casts.fixed[usize::from(start)..usize::from(end)];
        Some(if is_escaped { Str::Escaped(text) } else { Str::Plain(text) })
    }

    fn str<'f>(self, known: &Known<'f, 'f>) -> Str<'f> {
        match self {
            Self::Fixed { .. } => self.fixed(&known.shape.casts).unwrap_or(Str::Plain("")),
            Self::Hole(at) => known.pieces[usize::from(at)].str(known.frame),
            Self::Around { start, end, .. } => Str::Plain(known.around(usize::from(start)..usize::from(end))),
        }
    }

    fn text<'f>(self, known: &Known<'f, 'f>) -> &'f str {
        self.str(known).written()
    }
}

/// Keeps a text that is the same in every frame, if there is room.
fn keep(text: &str, is_escaped: bool, fixed: &mut String) -> Option<Slice> {
    let start = u16::try_from(fixed.len()).ok()?;
    let end = u16::try_from(fixed.len() + text.len()).ok()?;
    fixed.push_str(text);
    Some(Slice::Fixed { start, end, is_escaped })
}

impl<'f> Known<'f, 'f> {
    /// What stands where that range of the data stood in the frame that the shape was learned from.
    fn around(&self, range: Range<usize>) -> &'f str {
        let moved = |at: usize, is_before: fn(&Hole, usize) -> bool| {
            let holes = self.shape.holes.iter().zip(self.pieces);
            let before = holes.take_while(|(hole, _)| is_before(hole, at));
            before.fold(self.from + at, |at, (hole, own)| at + own.len() - (hole.end() - hole.start()))
        };
        // What comes to stand right behind the piece is no part of it.
        let start = moved(range.start, |hole, at| hole.end() <= at);
        let end = moved(range.end, |hole, at| hole.start() < at);
        // Checked when it was fitted: neither bound stands inside a character.
        std::str::from_utf8(&self.frame[start..end]).unwrap_or_default()
    }
}

impl Casts {
    /// All of them, in the order in which they are told.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Cast> {
        self.list.iter()
    }

    /// The text of one that is the same in every frame.
    pub(super) fn text(&self, at: u16) -> Str<'_> {
        let text = match &self.list[usize::from(at)].part {
            CastPart::Text { text, .. } | CastPart::Call { arguments: Some(text), .. } => text.fixed(self),
            _ => None,
        };
        text.unwrap_or(Str::Plain(""))
    }

    /// The data that the shape was learned from have got longer or shorter.
    pub(super) fn stretch(&mut self, moved: impl Fn(usize) -> usize) {
        for slice in self.list.iter_mut().flat_map(|cast| cast.part.slices()).flatten() {
            if let Slice::Around { start, end, .. } = slice {
                [*start, *end] = [*start, *end].map(|at| moved(at.into()) as u16);
            }
        }
    }
}

impl Cast {
    /// Whether its place is the one whose number stands in the hole for that.
    fn is_placed(&self) -> bool {
        self.place.is_some_and(|place| place.note.is_some())
    }

    /// Says what it says of a frame in which the place has that number, if it has one.
    #[inline(always)]
    pub(super) fn tell<'f>(
        &'f self,
        frame: &Known<'f, 'f>,
        number: Option<i64>,
        sink: &mut FragmentSink<'_>,
    ) {
        let str = |slice: &Slice| slice.str(frame);
        let may_be = |slice: &Option<Slice>| slice.map(|slice| slice.str(frame));
        let text = |slice: &Slice| slice.text(frame);
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
            CastPart::Usage { word, counters, raw, read } => {
                let written = text(raw);
                let counters = match read {
                    Some(ReadUsage(read)) if !raw.is_fixed() => {
                        with_spare_tape(|tape| tape.parse(written).map_or(**counters, read))
                    }
                    _ => **counters,
                };
                Part::Usage { word: text(word), counters, raw: written, read: *read }
            }
            CastPart::Finish { reason, raw } => Part::Finish { reason: *reason, raw: may_be(raw) },
            CastPart::End => Part::End,
            CastPart::Progress { word, value } => {
                Part::Progress { word: text(word), value: value.as_ref().map(text) }
            }
            CastPart::Detail { key, value } => Part::Detail { key: text(key), value: text(value) },
            CastPart::Foreign { level, path, key, value } => {
                Part::Foreign { level: *level, path, key: text(key), value: text(value) }
            }
        };
        let place = match (self.place, number) {
            (Some(place), Some(index)) if self.is_placed() => Some(Place { index, ..place }),
            (place, _) => place,
        };
        sink.put(Fragment { choice: self.choice, place, part });
    }

    /// Whether it is news only once, as long as it says the same. Counts are not: they may come too late, each time.
    fn lasts(&self) -> bool {
        match &self.part {
            CastPart::Start { .. } | CastPart::Choice => true,
            CastPart::Foreign { key, .. } => key.is_fixed(),
            _ => false,
        }
    }

    /// Whether it is about a block.
    fn is_member(&self) -> bool {
        matches!(self.level(), Some(Level::Block | Level::Next))
    }

    /// What it is about that only the protocol knows.
    fn level(&self) -> Option<Level> {
        match &self.part {
            CastPart::Foreign { level, .. } => Some(*level),
            _ => None,
        }
    }

    /// Whether both speak of the same member, so that each makes news of the other.
    fn disputes(&self, other: &Self, casts: &Casts) -> bool {
        match (&self.part, &other.part) {
            (CastPart::Start { .. }, CastPart::Start { .. }) => true,
            (
                CastPart::Foreign { path, key, .. },
                CastPart::Foreign { path: other_path, key: other_key, .. },
            ) => {
                let written = |key: &Slice| key.fixed(casts).map(Str::written);
                path == other_path && key.is_fixed() && written(key) == written(other_key)
            }
            _ => false,
        }
    }
}

thread_local! {
    /// Memory for casts, since many are made and few kept.
    static ROOM: Cell<Casts> = const { Cell::new(Casts { list: Vec::new(), fixed: String::new() }) };
}

/// Makes casts of the fragments of a frame, while they are told.
pub(crate) struct Recorder<'d> {
    data: &'d str,
    casts: Casts,
    /// Whether something came that has no cast.
    has_failed: bool,
}

impl<'d> Recorder<'d> {
    /// Of a frame, which is not longer than a slice can tell.
    pub(super) fn new(data: &'d str) -> Self {
        // A thread that ends has no room.
        Self { data, casts: ROOM.try_with(Cell::take).unwrap_or_default(), has_failed: false }
    }

    /// The casts of a frame that has those holes, if everything has one. The number of a place, if there is a hole for it,
    /// stands in that one and has that note.
    pub(super) fn finish(&mut self, holes: &[Hole], place: Option<(usize, u32)>) -> Option<Casts> {
        let Casts { list, fixed } = &mut self.casts;
        let mut settle = |cast: &mut Cast| {
            let mut slices = cast.part.slices().into_iter().flatten();
            slices.all(|slice| slice.settle(self.data, holes, fixed))
        };
        if self.has_failed || !list.iter_mut().all(&mut settle) {
            return None;
        }
        // No more memory than there is in them: many streams are open at the same time.
        let mut casts = Casts { list: Vec::with_capacity(list.len()), fixed: fixed.as_str().into() };
        casts.list.append(list);
        for at in 0..casts.list.len() {
            let cast = &mut casts.list[at];
            let slices = cast.part.slices().into_iter().flatten();
            cast.ties = slices.fold(Ties::NONE, |ties, slice| ties.and_all(slice.ties(holes)));
            let is_placed = |own: Place, note: u32| own.note.is_some_and(|own| u32::from(own.get()) == note);
            match (cast.place, place) {
                (Some(own), Some((hole, note))) if is_placed(own, note) => cast.ties = cast.ties.and(hole),
                (own, _) => cast.place = own.map(Place::noted_nowhere),
            }
            let cast = &casts.list[at];
            if cast.lasts() {
                let mut others = casts.list.iter().enumerate().filter(|(other, _)| *other != at);
                let is_disputed = others.any(|(_, other)| cast.disputes(other, &casts));
                let cast = &mut casts.list[at];
                cast.is_steady = !is_disputed;
                cast.is_quiet = !is_disputed && cast.ties.is_empty() && !cast.is_member();
            }
        }
        Some(casts)
    }

    /// What stands in the frame is settled when its holes are known.
    fn str(&mut self, text: Str<'_>) -> Option<Slice> {
        let written = text.written();
        let is_escaped = matches!(text, Str::Escaped(_));
        let own = self.data.as_bytes().as_ptr_range();
        let its = written.as_bytes().as_ptr_range();
        if its.start < own.start || its.end > own.end || written.is_empty() {
            return keep(written, is_escaped, &mut self.casts.fixed);
        }
        let start = its.start as usize - own.start as usize;
        let (start, end) = (u16::try_from(start).ok()?, u16::try_from(start + written.len()).ok()?);
        Some(Slice::Around { start, end, is_escaped })
    }

    fn text(&mut self, text: &str) -> Option<Slice> {
        self.str(Str::Plain(text))
    }

    /// None if the text that there may be has no place.
    fn may_be(&mut self, text: Option<Str<'_>>) -> Option<Option<Slice>> {
        match text {
            Some(text) => self.str(text).map(Some),
            None => Some(None),
        }
    }

    fn cast(&mut self, part: Part<'_>) -> Option<CastPart> {
        Some(match part {
            Part::Start { id, model, word } => {
                CastPart::Start { id: self.may_be(id)?, model: self.may_be(model)?, word: self.text(word)? }
            }
            Part::Choice => CastPart::Choice,
            Part::Open { channel, word } => CastPart::Open { channel, word: self.text(word)? },
            Part::Text { channel, word, text } => {
                CastPart::Text { channel, word: self.text(word)?, text: self.str(text)? }
            }
            Part::Call { id, name, kind, word, arguments: arguments @ (None | Some(Arguments::Text(_))) } => {
                let arguments = arguments.and_then(|arguments| match arguments {
                    Arguments::Text(text) => Some(text),
                    _ => None,
                });
                let (id, name) = (self.may_be(id)?, self.may_be(name)?);
                CastPart::Call { id, name, kind, word: self.text(word)?, arguments: self.may_be(arguments)? }
            }
            Part::Attach { level, on, kind, word, value } => {
                let (on, word, value) = (self.text(on)?, self.text(word)?, self.text(value)?);
                CastPart::Attach { level, on, kind, word, value }
            }
            Part::Usage { word, counters, raw, read } => {
                let (word, counters, raw) = (self.text(word)?, Box::new(counters), self.text(raw)?);
                CastPart::Usage { word, counters, raw, read }
            }
            Part::Finish { reason, raw } => CastPart::Finish { reason, raw: self.may_be(raw)? },
            Part::End => CastPart::End,
            Part::Progress { word, value } => {
                CastPart::Progress { word: self.text(word)?, value: self.may_be(value.map(Str::Plain))? }
            }
            Part::Detail { key, value } => {
                CastPart::Detail { key: self.text(key)?, value: self.text(value)? }
            }
            Part::Foreign { level, path, key, value } => {
                CastPart::Foreign { level, path, key: self.text(key)?, value: self.text(value)? }
            }
            _ => return None,
        })
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        let Casts { mut list, mut fixed } = std::mem::take(&mut self.casts);
        list.clear();
        fixed.clear();
        let _ = ROOM.try_with(|room| room.set(Casts { list, fixed }));
    }
}

impl<'f> Sink<Fragment<'f>> for Recorder<'_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        if self.has_failed {
            return;
        }
        let Fragment { choice, place, part } = fragment;
        match self.cast(part) {
            Some(part) => self.casts.list.push(Cast {
                choice,
                place,
                part,
                ties: Ties::NONE,
                is_quiet: false,
                is_steady: false,
            }),
            None => self.has_failed = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    /// Of two places, only the one whose number stands in the hole follows it, though both were passed on.
    #[test]
    fn a_place_follows_its_own_number_only() {
        let data = r#"{"a":7,"b":7}"#;
        let mut recorder = Recorder::new(data);
        for note in [2, 4] {
            let place = Place { note: NonZero::new(note), ..Place::at(7) };
            recorder.put(Fragment::new(Part::End).at(place));
        }
        let hole = Hole::new(5, 6, HoleKind::Place);
        let casts = recorder.finish(&[hole], Some((0, 2))).expect("all have casts");
        let followed: Vec<_> = casts.iter().map(|cast| (cast.is_placed(), cast.ties.has(0))).collect();
        assert_eq!(followed, [(true, true), (false, false)]);
    }
}
