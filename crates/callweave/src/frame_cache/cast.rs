//! Templates of a frame's fragments, with holes in place of the values that change.

use std::cell::Cell;
use std::ops::Range;

use super::KnownFrame;
use super::fit::{FrameHole, HoleKind, PinnedHoles};
use crate::event::{AttachmentKind, CallKind, FinishReason, Sink, TokenCounts};
use crate::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel, UsageReader,
};
use crate::json::{Str, with_spare_tape};

/// A fragment that every frame of the template gives. There are many templates where many streams are open, so the
/// texts of all fragments share one string, [`FragmentTemplates::fixed`].
pub(super) struct FragmentTemplate {
    choice: u32,
    place: Option<BlockKey>,
    part: TemplateKind,
    /// The holes in it.
    ties: PinnedHoles,
    /// Whether it is not new in a frame that follows another of the same template, even at another block key: then it
    /// concerns no block key whose number stands in the frame, and no block.
    pub(super) is_quiet: bool,
    /// Whether it is also not new in a frame that continues the same block, if its holes have the same contents as
    /// before.
    is_steady: bool,
}

/// The fragment templates of a frame.
#[derive(Default)]
pub(super) struct FragmentTemplates {
    list: Vec<FragmentTemplate>,
    /// The texts that are the same in every frame.
    fixed: String,
}

/// The kinds of fragments that frames of a template may consist of.
enum TemplateKind {
    Start {
        id: Option<TemplateText>,
        model: Option<TemplateText>,
        wire_type: TemplateText,
    },
    Choice,
    Open {
        channel: TextChannel,
        wire_type: TemplateText,
    },
    Text {
        channel: TextChannel,
        wire_type: TemplateText,
        text: TemplateText,
    },
    Call {
        id: Option<TemplateText>,
        name: Option<TemplateText>,
        kind: CallKind,
        wire_type: TemplateText,
        arguments: Option<TemplateText>,
    },
    Attach {
        level: ExtraScope,
        on: TemplateText,
        kind: AttachmentKind,
        wire_type: TemplateText,
        value: TemplateText,
    },
    Usage {
        wire_type: TemplateText,
        counters: Box<TokenCounts>,
        raw: TemplateText,
        read: Option<UsageReader>,
    },
    Finish {
        reason: FinishReason,
        raw: Option<TemplateText>,
    },
    End,
    Progress {
        wire_type: TemplateText,
        value: Option<TemplateText>,
    },
    Detail {
        key: TemplateText,
        value: TemplateText,
    },
    Foreign {
        level: ExtraScope,
        path: &'static str,
        key: TemplateText,
        value: TemplateText,
    },
}

impl TemplateKind {
    /// The pieces of text in it.
    fn slices(&mut self) -> [Option<&mut TemplateText>; 4] {
        match self {
            Self::Start { id, model, wire_type } => [id.as_mut(), model.as_mut(), Some(wire_type), None],
            Self::Choice | Self::End => [None, None, None, None],
            Self::Open { wire_type, .. } => [Some(wire_type), None, None, None],
            Self::Text { wire_type, text, .. } => [Some(wire_type), Some(text), None, None],
            Self::Call { id, name, wire_type, arguments, .. } => {
                [id.as_mut(), name.as_mut(), Some(wire_type), arguments.as_mut()]
            }
            Self::Attach { on, wire_type, value, .. } => [Some(on), Some(wire_type), Some(value), None],
            Self::Usage { wire_type, raw, .. } => [Some(wire_type), Some(raw), None, None],
            Self::Finish { raw, .. } => [raw.as_mut(), None, None, None],
            Self::Progress { wire_type, value } => [Some(wire_type), value.as_mut(), None, None],
            Self::Detail { key, value } | Self::Foreign { key, value, .. } => {
                [Some(key), Some(value), None, None]
            }
        }
    }
}

/// A piece of a text, or of the arguments of a call.
pub(super) struct AppendPattern {
    pub(super) choice: u32,
    /// The block key of the text; none for the arguments of a call.
    pub(super) at: Option<Option<BlockKey>>,
    /// The number of its fragment template.
    pub(super) cast: u16,
    /// The hole of the text, if it is not always the same.
    pub(super) hole: Option<u8>,
    /// Whether that is the only hole that is not tied, and a text.
    pub(super) is_alone: bool,
    /// The hole behind it, if there is only one more, and it is for blanks.
    pub(super) padding: Option<u8>,
    /// Whether the frame has extra fields of the block, too: they are not new only after a frame that found the block
    /// begun.
    pub(super) has_members: bool,
    /// The holes that other fragments use: only as long as they have the same contents as in the frame before, the text
    /// is all there is to emit. Servers count the seconds in every chunk.
    pub(super) ties: PinnedHoles,
}

impl AppendPattern {
    /// The append pattern of all fragment templates where the steady ones change nothing, if there is one. The number
    /// of a block key, if there is a hole for it, stands in that one.
    pub(super) fn of(casts: &FragmentTemplates, holes: &[FrameHole], place: Option<usize>) -> Option<Self> {
        let casts = &casts.list;
        let mut loud = casts.iter().enumerate().filter(|(_, cast)| !cast.is_steady);
        let (Some((own, cast)), None) = (loud.next(), loud.next()) else { return None };
        // A field of a block must belong to this block, and not to the next.
        let is_of_it = |(at, other): (usize, &FragmentTemplate)| match other.level() {
            Some(ExtraScope::Next) => other.choice == cast.choice && at < own,
            Some(ExtraScope::Block) => {
                // Block keys are equal whether or not their numbers stand in the frame, but not for long.
                let is_there = other.is_placed() == cast.is_placed() && other.place == cast.place;
                is_there && other.choice == cast.choice
            }
            _ => true,
        };
        if !casts.iter().enumerate().all(is_of_it) {
            return None;
        }
        let (at, text) = match &cast.part {
            TemplateKind::Text { text, .. } => (Some(cast.place), text),
            TemplateKind::Call { id: None, name: None, arguments: Some(text), .. } => (None, text),
            _ => return None,
        };
        let hole = match *text {
            TemplateText::Hole(hole) => Some(hole),
            TemplateText::Fixed { .. } => None,
            TemplateText::Around { .. } => return None,
        };
        let steady = casts.iter().filter(|cast| cast.is_steady);
        let ties = steady.fold(PinnedHoles::NONE, |ties, cast| ties.and_all(cast.ties));
        // Another block key is another block.
        let ties = place.filter(|_| cast.is_placed()).map_or(ties, |hole| ties.and(hole));
        let is_text = |at: usize| hole.is_some_and(|hole| usize::from(hole) == at);
        // A hole that equals another, or the text itself, cannot stay while that changes.
        let is_free = |(at, own): (usize, &FrameHole)| match own.kind {
            HoleKind::SameAs(other) => !ties.has(at) && !ties.has(other.into()),
            _ => !ties.has(at) || !is_text(at),
        };
        if !holes.iter().enumerate().all(is_free) {
            return None;
        }
        let mut free = holes.iter().enumerate().filter(|(at, _)| !ties.has(*at));
        let is_text = |(at, own): (usize, &FrameHole)| is_text(at) && own.kind == HoleKind::Text;
        let (first, second, third) = (free.next(), free.next(), free.next());
        let has_text = first.is_some_and(is_text);
        let is_alone = has_text && second.is_none();
        let padding = second.filter(|(_, own)| has_text && third.is_none() && own.kind == HoleKind::Blank);
        let padding = padding.map(|(at, _)| at as u8);
        let has_members = casts.iter().any(FragmentTemplate::is_member);
        let own = own.try_into().ok()?;
        Some(Self { choice: cast.choice, at, cast: own, hole, is_alone, padding, has_members, ties })
    }
}

/// A piece of text in a fragment. Frames that have templates are short.
#[derive(Clone, Copy)]
enum TemplateText {
    /// The same in every frame: its range in [`FragmentTemplates::fixed`].
    Fixed { start: u16, end: u16, is_escaped: bool },
    /// The text of that hole.
    Hole(u8),
    /// A piece of the frame with holes in it: its range in the data that the template was learned from.
    Around { start: u16, end: u16, is_escaped: bool },
}

impl TemplateText {
    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed { .. })
    }

    /// Finds the hole that a piece of the frame is, if any, and keeps a piece without holes; false if it ends inside
    /// one.
    fn settle(&mut self, data: &str, holes: &[FrameHole], fixed: &mut String) -> bool {
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

    /// The holes in it.
    fn ties(self, holes: &[FrameHole]) -> PinnedHoles {
        match self {
            Self::Fixed { .. } => PinnedHoles::NONE,
            Self::Hole(at) => PinnedHoles::NONE.and(at.into()),
            Self::Around { start, end, .. } => {
                let is_inside =
                    |hole: &FrameHole| hole.start() < end.into() && usize::from(start) < hole.end();
                let inside = holes.iter().enumerate().filter(|(_, hole)| is_inside(hole));
                inside.fold(PinnedHoles::NONE, |ties, (at, _)| ties.and(at))
            }
        }
    }

    /// The text, if it is the same in every frame.
    fn fixed(self, casts: &FragmentTemplates) -> Option<Str<'_>> {
        let Self::Fixed { start, end, is_escaped } = self else { return None };
        let text = &casts.fixed[usize::from(start)..usize::from(end)];
        Some(if is_escaped { Str::Escaped(text) } else { Str::Plain(text) })
    }

    fn str<'f>(self, known: &KnownFrame<'f, 'f>) -> Str<'f> {
        match self {
            Self::Fixed { .. } => self.fixed(&known.shape.casts).unwrap_or(Str::Plain("")),
            Self::Hole(at) => known.pieces[usize::from(at)].str(known.frame),
            Self::Around { start, end, .. } => Str::Plain(known.around(usize::from(start)..usize::from(end))),
        }
    }

    fn text<'f>(self, known: &KnownFrame<'f, 'f>) -> &'f str {
        self.str(known).written()
    }
}

/// Keeps a text that is the same in every frame, if there is room.
fn keep(text: &str, is_escaped: bool, fixed: &mut String) -> Option<TemplateText> {
    let start = u16::try_from(fixed.len()).ok()?;
    let end = u16::try_from(fixed.len() + text.len()).ok()?;
    fixed.push_str(text);
    Some(TemplateText::Fixed { start, end, is_escaped })
}

impl<'f> KnownFrame<'f, 'f> {
    /// The text at the position of that range in the frame that the template was learned from.
    fn around(&self, range: Range<usize>) -> &'f str {
        let moved = |at: usize, is_before: fn(&FrameHole, usize) -> bool| {
            let holes = self.shape.holes.iter().zip(self.pieces);
            let before = holes.take_while(|(hole, _)| is_before(hole, at));
            before.fold(self.from + at, |at, (hole, own)| at + own.len() - (hole.end() - hole.start()))
        };
        // A hole that begins right behind the piece is no part of it.
        let start = moved(range.start, |hole, at| hole.end() <= at);
        let end = moved(range.end, |hole, at| hole.start() < at);
        // Checked when it was matched: neither bound stands inside a character.
        std::str::from_utf8(&self.frame[start..end]).unwrap_or_default()
    }
}

impl FragmentTemplates {
    /// All of them, in the order in which they are emitted.
    pub(super) fn iter(&self) -> impl Iterator<Item = &FragmentTemplate> {
        self.list.iter()
    }

    /// The text of one that is the same in every frame.
    pub(super) fn text(&self, at: u16) -> Str<'_> {
        let text = match &self.list[usize::from(at)].part {
            TemplateKind::Text { text, .. } | TemplateKind::Call { arguments: Some(text), .. } => {
                text.fixed(self)
            }
            _ => None,
        };
        text.unwrap_or(Str::Plain(""))
    }

    /// Adjusts the ranges to another length of the data that the template was learned from.
    pub(super) fn stretch(&mut self, moved: impl Fn(usize) -> usize) {
        for slice in self.list.iter_mut().flat_map(|cast| cast.part.slices()).flatten() {
            if let TemplateText::Around { start, end, .. } = slice {
                [*start, *end] = [*start, *end].map(|at| moved(at.into()) as u16);
            }
        }
    }
}

impl FragmentTemplate {
    /// Whether its block key is the one whose number stands in the hole for that.
    fn is_placed(&self) -> bool {
        self.place.is_some_and(|place| place.note.is_some())
    }

    /// Emits the fragment of a frame in which the block key has that number, if it has one.
    #[inline(always)]
    pub(super) fn tell<'f>(
        &'f self,
        frame: &KnownFrame<'f, 'f>,
        number: Option<i64>,
        sink: &mut FragmentSink<'_>,
    ) {
        let str = |slice: &TemplateText| slice.str(frame);
        let may_be = |slice: &Option<TemplateText>| slice.map(|slice| slice.str(frame));
        let text = |slice: &TemplateText| slice.text(frame);
        let part = match &self.part {
            TemplateKind::Text { channel, wire_type, text: own } => {
                FragmentKind::Text { channel: *channel, wire_type: text(wire_type), text: str(own) }
            }
            TemplateKind::Call { id, name, kind, wire_type, arguments } => FragmentKind::Call {
                id: may_be(id),
                name: may_be(name),
                kind: *kind,
                wire_type: text(wire_type),
                arguments: may_be(arguments).map(FragmentArguments::Text),
            },
            TemplateKind::Start { id, model, wire_type } => {
                FragmentKind::Start { id: may_be(id), model: may_be(model), wire_type: text(wire_type) }
            }
            TemplateKind::Choice => FragmentKind::Choice,
            TemplateKind::Open { channel, wire_type } => {
                FragmentKind::Open { channel: *channel, wire_type: text(wire_type) }
            }
            TemplateKind::Attach { level, on, kind, wire_type, value } => FragmentKind::Attach {
                level: *level,
                on: text(on),
                kind: *kind,
                wire_type: text(wire_type),
                value: text(value),
            },
            TemplateKind::Usage { wire_type, counters, raw, read } => {
                let written = text(raw);
                let counters = match read {
                    Some(UsageReader(read)) if !raw.is_fixed() => {
                        with_spare_tape(|tape| tape.parse(written).map_or(**counters, read))
                    }
                    _ => **counters,
                };
                FragmentKind::Usage { wire_type: text(wire_type), counters, raw: written, read: *read }
            }
            TemplateKind::Finish { reason, raw } => {
                FragmentKind::Finish { reason: *reason, raw: may_be(raw) }
            }
            TemplateKind::End => FragmentKind::End,
            TemplateKind::Progress { wire_type, value } => {
                FragmentKind::Progress { wire_type: text(wire_type), value: value.as_ref().map(text) }
            }
            TemplateKind::Detail { key, value } => {
                FragmentKind::Detail { key: text(key), value: text(value) }
            }
            TemplateKind::Foreign { level, path, key, value } => {
                FragmentKind::Extra { level: *level, path, key: text(key), value: text(value) }
            }
        };
        let place = match (self.place, number) {
            (Some(place), Some(index)) if self.is_placed() => Some(BlockKey { index, ..place }),
            (place, _) => place,
        };
        sink.put(Fragment { choice: self.choice, key: place, part });
    }

    /// Whether it is new only once, as long as it stays the same. Counts are not: they may come too late, each time.
    fn lasts(&self) -> bool {
        match &self.part {
            TemplateKind::Start { .. } | TemplateKind::Choice => true,
            TemplateKind::Foreign { key, .. } => key.is_fixed(),
            _ => false,
        }
    }

    /// Whether it is about a block.
    fn is_member(&self) -> bool {
        matches!(self.level(), Some(ExtraScope::Block | ExtraScope::Next))
    }

    /// The scope of an extra field.
    fn level(&self) -> Option<ExtraScope> {
        match &self.part {
            TemplateKind::Foreign { level, .. } => Some(*level),
            _ => None,
        }
    }

    /// Whether both are about the same extra field, so that each makes the other new.
    fn disputes(&self, other: &Self, casts: &FragmentTemplates) -> bool {
        match (&self.part, &other.part) {
            (TemplateKind::Start { .. }, TemplateKind::Start { .. }) => true,
            (
                TemplateKind::Foreign { path, key, .. },
                TemplateKind::Foreign { path: other_path, key: other_key, .. },
            ) => {
                let written = |key: &TemplateText| key.fixed(casts).map(Str::written);
                path == other_path && key.is_fixed() && written(key) == written(other_key)
            }
            _ => false,
        }
    }
}

thread_local! {
    /// Memory for fragment templates, since many are made and few kept.
    static ROOM: Cell<FragmentTemplates> = const { Cell::new(FragmentTemplates { list: Vec::new(), fixed: String::new() }) };
}

/// Makes templates of the fragments of a frame, while they are emitted.
pub(crate) struct TemplateRecorder<'d> {
    data: &'d str,
    casts: FragmentTemplates,
    /// Whether a fragment came that has no template.
    has_failed: bool,
}

impl<'d> TemplateRecorder<'d> {
    /// A recorder for a frame, which is no longer than a template's range can express.
    pub(super) fn new(data: &'d str) -> Self {
        // A thread that ends has lost its storage.
        Self { data, casts: ROOM.try_with(Cell::take).unwrap_or_default(), has_failed: false }
    }

    /// The templates of the fragments of a frame with those holes, if every fragment has one. The number of a block
    /// key, if there is a hole for it, stands in that one and has that note.
    pub(super) fn finish(
        &mut self,
        holes: &[FrameHole],
        place: Option<(usize, u32)>,
    ) -> Option<FragmentTemplates> {
        let FragmentTemplates { list, fixed } = &mut self.casts;
        let mut settle = |cast: &mut FragmentTemplate| {
            let mut slices = cast.part.slices().into_iter().flatten();
            slices.all(|slice| slice.settle(self.data, holes, fixed))
        };
        if self.has_failed || !list.iter_mut().all(&mut settle) {
            return None;
        }
        // No more memory than they need: many streams are open at the same time.
        let mut casts =
            FragmentTemplates { list: Vec::with_capacity(list.len()), fixed: fixed.as_str().into() };
        casts.list.append(list);
        for at in 0..casts.list.len() {
            let cast = &mut casts.list[at];
            let slices = cast.part.slices().into_iter().flatten();
            cast.ties = slices.fold(PinnedHoles::NONE, |ties, slice| ties.and_all(slice.ties(holes)));
            let is_placed =
                |own: BlockKey, note: u32| own.note.is_some_and(|own| u32::from(own.get()) == note);
            match (cast.place, place) {
                (Some(own), Some((hole, note))) if is_placed(own, note) => cast.ties = cast.ties.and(hole),
                (own, _) => cast.place = own.map(BlockKey::noted_nowhere),
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

    /// Texts of the frame are resolved when its holes are known.
    fn str(&mut self, text: Str<'_>) -> Option<TemplateText> {
        let written = text.written();
        let is_escaped = matches!(text, Str::Escaped(_));
        let own = self.data.as_bytes().as_ptr_range();
        let its = written.as_bytes().as_ptr_range();
        if its.start < own.start || its.end > own.end || written.is_empty() {
            return keep(written, is_escaped, &mut self.casts.fixed);
        }
        let start = its.start as usize - own.start as usize;
        let (start, end) = (u16::try_from(start).ok()?, u16::try_from(start + written.len()).ok()?);
        Some(TemplateText::Around { start, end, is_escaped })
    }

    fn text(&mut self, text: &str) -> Option<TemplateText> {
        self.str(Str::Plain(text))
    }

    /// None if there is a text and it cannot be kept.
    fn may_be(&mut self, text: Option<Str<'_>>) -> Option<Option<TemplateText>> {
        match text {
            Some(text) => self.str(text).map(Some),
            None => Some(None),
        }
    }

    fn cast(&mut self, part: FragmentKind<'_>) -> Option<TemplateKind> {
        Some(match part {
            FragmentKind::Start { id, model, wire_type } => TemplateKind::Start {
                id: self.may_be(id)?,
                model: self.may_be(model)?,
                wire_type: self.text(wire_type)?,
            },
            FragmentKind::Choice => TemplateKind::Choice,
            FragmentKind::Open { channel, wire_type } => {
                TemplateKind::Open { channel, wire_type: self.text(wire_type)? }
            }
            FragmentKind::Text { channel, wire_type, text } => {
                TemplateKind::Text { channel, wire_type: self.text(wire_type)?, text: self.str(text)? }
            }
            FragmentKind::Call {
                id,
                name,
                kind,
                wire_type,
                arguments: arguments @ (None | Some(FragmentArguments::Text(_))),
            } => {
                let arguments = arguments.and_then(|arguments| match arguments {
                    FragmentArguments::Text(text) => Some(text),
                    _ => None,
                });
                let (id, name) = (self.may_be(id)?, self.may_be(name)?);
                TemplateKind::Call {
                    id,
                    name,
                    kind,
                    wire_type: self.text(wire_type)?,
                    arguments: self.may_be(arguments)?,
                }
            }
            FragmentKind::Attach { level, on, kind, wire_type, value } => {
                let (on, wire_type, value) = (self.text(on)?, self.text(wire_type)?, self.text(value)?);
                TemplateKind::Attach { level, on, kind, wire_type, value }
            }
            FragmentKind::Usage { wire_type, counters, raw, read } => {
                let (wire_type, counters, raw) = (self.text(wire_type)?, Box::new(counters), self.text(raw)?);
                TemplateKind::Usage { wire_type, counters, raw, read }
            }
            FragmentKind::Finish { reason, raw } => TemplateKind::Finish { reason, raw: self.may_be(raw)? },
            FragmentKind::End => TemplateKind::End,
            FragmentKind::Progress { wire_type, value } => TemplateKind::Progress {
                wire_type: self.text(wire_type)?,
                value: self.may_be(value.map(Str::Plain))?,
            },
            FragmentKind::Detail { key, value } => {
                TemplateKind::Detail { key: self.text(key)?, value: self.text(value)? }
            }
            FragmentKind::Extra { level, path, key, value } => {
                TemplateKind::Foreign { level, path, key: self.text(key)?, value: self.text(value)? }
            }
            _ => return None,
        })
    }
}

impl Drop for TemplateRecorder<'_> {
    fn drop(&mut self) {
        let FragmentTemplates { mut list, mut fixed } = std::mem::take(&mut self.casts);
        list.clear();
        fixed.clear();
        let _ = ROOM.try_with(|room| room.set(FragmentTemplates { list, fixed }));
    }
}

impl<'f> Sink<Fragment<'f>> for TemplateRecorder<'_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        if self.has_failed {
            return;
        }
        let Fragment { choice, key: place, part } = fragment;
        match self.cast(part) {
            Some(part) => self.casts.list.push(FragmentTemplate {
                choice,
                place,
                part,
                ties: PinnedHoles::NONE,
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

    /// Of two block keys, only the one whose number stands in the hole follows it, though both were passed on.
    #[test]
    fn a_place_follows_its_own_number_only() {
        let data = r#"{"a":7,"b":7}"#;
        let mut recorder = TemplateRecorder::new(data);
        for note in [2, 4] {
            let place = BlockKey { note: NonZero::new(note), ..BlockKey::at(7) };
            recorder.put(Fragment::new(FragmentKind::End).at(place));
        }
        let hole = FrameHole::new(5, 6, HoleKind::Place);
        let casts = recorder.finish(&[hole], Some((0, 2))).expect("all have casts");
        let followed: Vec<_> = casts.iter().map(|cast| (cast.is_placed(), cast.ties.has(0))).collect();
        assert_eq!(followed, [(true, true), (false, false)]);
    }
}
