//! Templates of the frames of a stream: parts that were read once need not be read again.
//!
//! Consecutive frames are the same bytes but for a few strings and numbers: the text of a delta, a sequence number,
//! padding. Reading a frame is pure, and the [tape](crate::json::Tape) knows which values the protocol has looked at
//! and which it only passed on or skipped. A [`FrameTemplate`] is a frame with *holes* in place of such values, and the
//! fragments that it gave. A frame with the same bytes around the holes, and in each hole a value of the same kind,
//! gives the same fragments with the contents of its holes: that follows from purity, nothing is guessed. The fold runs
//! on the fragments either way.
//!
//! Two frames show which of the uninspected values become holes: the values in which they differ. Where a frame does
//! not match, it is read in full, and the template gets more holes if it can. The number of a block, which is passed on
//! as its [block key](crate::fragment::BlockKey::of), is a hole from the start: sooner or later it changes. Counts of
//! tokens are inspected, but separately from everything else: only the object that holds them is [read
//! again](crate::fragment::UsageReader).
//!
//! A template also holds the bytes that the framing wrote around such a frame. A run of frames that only grow one block
//! is therefore a loop over the bytes: compare, find the ends of the holes, hand the text to the block. Holes that
//! other fragments use are [tied](AppendPattern::ties) in it: once they change, the run is over.

mod cast;
mod fit;

use std::ops::Range;

pub(crate) use cast::TemplateRecorder;
use cast::{AppendPattern, FragmentTemplates};
pub(crate) use fit::HoleSpan;
use fit::{
    FrameHole, HoleKind, OneHoleTemplate, PaddedTemplate, PinnedHoles, common_end, common_start, fit,
    fit_tied, is_place,
};

use crate::event::EventSink;
use crate::fragment::FragmentSink;
use crate::json::{Inspected, JsonKind, Str, TapeLeaf, TapeNode};
use crate::protocol::ProtocolFrame;
use crate::weave::{BlockRun, GrowingBlock, Weave};

/// The maximum number of templates: of text, of reasoning, of arguments, of their starts and ends, and one to spare.
const MAX_TEMPLATES: usize = 6;
/// The maximum length of a frame. Longer frames bring something new each time.
const LONGEST: usize = 2048;
/// The maximum number of holes of a template, all of which [`PinnedHoles`] can name.
const MAX_HOLES: usize = 8;
/// The maximum number of uninspected values in a frame.
const MAX_LEAVES: usize = 32;
/// The length written around the data of most frames, beside their name, and by how much the next may be longer.
const FRAMING: usize = "event: \ndata: \n\n".len() + 24;
/// The number of frames compared in vain after which most are not compared any more.
const PATIENCE: u32 = 8;

/// The templates of the frames of one stream. See the [module](self).
#[derive(Default)]
pub(crate) struct FrameTemplates {
    known: Vec<FrameTemplate>,
    /// The template of the last frame, if it had one.
    latest: Option<usize>,
    /// Whether the frame before it had the same template, and the same contents in the tied holes.
    is_again: bool,
    /// Whether the last frame had the same contents in the tied holes as the frame before. Where they change with every
    /// frame, there is no run.
    is_tied: bool,
    /// The template of the frame that the framing has just brought.
    brought: Option<usize>,
    /// The run of frames that continues, as long as nothing else has come.
    stride: Option<FastRun>,
    /// The last frame that was read in full.
    before: Option<PreviousFrame>,
    /// The templates that the frame being read resembles.
    likes: TemplateCandidates,
    /// The number of frames in a row that were compared in vain.
    vain: u32,
    /// The number of further frames that are not compared.
    rest: u32,
}

/// Frames of one template that only grow one block: see [`FrameTemplates::run`].
#[derive(Clone, Copy)]
struct FastRun {
    shape: usize,
    block: GrowingBlock,
    /// The start and end of the only hole in the template's text, if there is only one and it is a text.
    alone: Option<(usize, usize)>,
}

/// The templates and the frame that a frame may be compared with.
#[derive(Clone, Copy, Default)]
struct TemplateCandidates {
    /// A bit for each template.
    shapes: u8,
    /// Whether the frame before is like it.
    before: bool,
}

/// A frame that may become a template.
#[derive(Default)]
struct PreviousFrame {
    /// The number of values and keys in it.
    size: usize,
    /// The frame itself, if the one before it had as many: nothing is recorded before the third. For frames that come
    /// only twice a template would come too late, and short streams would pay for it.
    text: String,
    event: Option<String>,
}

/// A frame that is known but for the contents of its holes.
struct FrameTemplate {
    /// The event name of such frames in the framing.
    event: Option<String>,
    /// The frame that it was learned from, within the bytes that the framing writes around the data, once they are
    /// known.
    text: Vec<u8>,
    /// The range of the data in it.
    data: Range<usize>,
    skeleton: TemplateSkeleton,
    is_placed: bool,
    /// The number of bytes from the first byte of the frame to the offset that the framing gives it.
    before: u64,
    holes: Vec<FrameHole>,
    casts: FragmentTemplates,
    /// The only fragment that is new where the frame before had the same template, if it is a piece of a text.
    growth: Option<AppendPattern>,
    /// The hole of the number of a block key, if there is one.
    place: Option<u8>,
}

/// The features that all frames of a template share, as far as they are looked at before reading. They are short.
#[derive(Clone, Copy, Default)]
struct TemplateSkeleton {
    /// The number of values and keys in the data.
    size: u16,
    /// The start and end of the first uninspected value in the data, and the start of the next; the start of the data,
    /// if there is none.
    lead: u16,
    first_end: u16,
    second: u16,
}

impl TemplateSkeleton {
    /// The skeleton of a frame, and the number in it that was passed on as that of a block key, if it is the only one.
    fn of(value: TapeNode<'_>) -> (Self, Option<TapeLeaf>) {
        let (mut bounds, mut count) = ([0; 3], 0);
        let (mut place, mut places) = (None, 0);
        for leaf in value.leaves().filter(|leaf| leaf.seen != Inspected::All) {
            match count {
                0 => bounds = [leaf.start, leaf.end, leaf.end],
                1 => bounds[2] = leaf.start,
                _ => {}
            }
            count += 1;
            if leaf.seen == Inspected::Place {
                places += 1;
                place = Some(leaf);
            }
        }
        let [lead, first_end, second] = bounds.map(|it| it as u16);
        (Self { size: value.size() as u16, lead, first_end, second }, place.filter(|_| places == 1))
    }

    /// Whether data that begin as the template's data `own` do also continue like them behind the first value.
    fn goes_on(self, own: &[u8], value: TapeNode<'_>, data: &[u8]) -> bool {
        let lead = self.lead.into();
        let between = &own[self.first_end.into()..self.second.into()];
        value.leaf_around(lead, lead).is_none_or(|leaf| data[leaf.end..].starts_with(between))
    }

    /// Adjusts the skeleton to another length of the first value, if that is the one that ends there.
    fn stretch(&mut self, end: usize, moved: impl Fn(usize) -> usize) {
        if usize::from(self.first_end) == end {
            [self.first_end, self.second] = [self.first_end, self.second].map(|at| moved(at.into()) as u16);
        }
    }
}

/// The positions of the contents of a frame's holes.
pub(crate) type HolePieces = [HoleSpan; MAX_HOLES];

/// A frame with a known template.
#[derive(Clone, Copy)]
pub(crate) struct KnownFrame<'s, 'd> {
    shape: &'s FrameTemplate,
    /// The frame as it was written, or its data.
    frame: &'d [u8],
    /// The offset in it at which the data begin.
    from: usize,
    pieces: &'s HolePieces,
    /// Whether the frame before had the same template: then much of it is not new.
    is_repeat: bool,
    /// Whether the one before that had it, too.
    is_again: bool,
    /// The number of its template: see [`FrameTemplates::follow`].
    pub(crate) number: usize,
}

impl KnownFrame<'_, '_> {
    /// The number of its bytes.
    pub(crate) fn length(&self) -> usize {
        self.frame.len()
    }

    /// The offset that the framing gives it, if its first byte stands at that offset.
    pub(crate) fn offset(&self, first: u64) -> u64 {
        first + self.shape.before
    }

    /// Pushes the contents of the frame to the fold.
    pub(crate) fn push_to(&self, weave: &mut Weave, offset: u64, sink: &mut EventSink<'_>) {
        if self.is_repeat
            && let Some(growth) = &self.shape.growth
            && (self.is_again || !growth.has_members)
            && self.holds(growth.ties)
            && let Some(block) = weave.running(growth.choice, growth.at)
        {
            let text = self.shape.grown(growth, self.frame, self.pieces);
            return weave.run(block).push(offset, text, sink);
        }
        weave.push(offset, |fragments| self.tell(fragments), sink);
    }

    /// Whether the tied holes have the template's contents.
    fn holds(&self, ties: PinnedHoles) -> bool {
        self.shape.holes.iter().enumerate().filter(|(at, _)| ties.has(*at)).all(|(at, hole)| {
            let start = self.shape.data.start;
            self.shape.text[start + hole.start()..start + hole.end()] == *self.pieces[at].bytes(self.frame)
        })
    }

    /// Emits the fragments of the frame.
    fn tell(&self, sink: &mut FragmentSink<'_>) {
        let number = self.shape.place.map(|hole| self.pieces[usize::from(hole)].index(self.frame));
        for cast in self.shape.casts.iter() {
            if !(self.is_repeat && cast.is_quiet) {
                cast.tell(self, number, sink);
            }
        }
    }
}

impl FrameTemplate {
    /// The length of the frame that these bytes begin with, if it matches this template and its tied holes.
    #[inline(always)]
    fn fit(&self, bytes: &[u8], ties: PinnedHoles, pieces: &mut HolePieces) -> Option<usize> {
        fit_tied(&self.text, self.data.start, &self.holes, ties, bytes, pieces)
    }

    /// Sets the contents of the tied holes to those of an emitted frame: the next one is compared with that. Returns
    /// whether they had these contents before.
    fn tie(&mut self, frame: &[u8], pieces: &HolePieces) -> bool {
        let ties = self.growth.as_ref().map_or(PinnedHoles::NONE, |growth| growth.ties);
        let mut is_same = true;
        for (at, piece) in (0..self.holes.len()).zip(pieces).filter(|(at, _)| ties.has(*at)) {
            let (hole, written) = (self.holes[at], piece.bytes(frame));
            let own = &mut self.text[self.data.clone()][hole.start()..hole.end()];
            if own == written {
                continue;
            }
            is_same = false;
            match hole.kind {
                HoleKind::Place => self.go_to(at, written, piece.index(frame)),
                _ if own.len() == written.len() => own.copy_from_slice(written),
                // Everything behind it would move. A value that grows like this, such as a count, seldom stays the
                // same.
                _ => self.growth = None,
            }
        }
        is_same
    }

    /// Adopts another number of the block key: the next frames continue there.
    #[inline(never)]
    fn go_to(&mut self, hole: usize, written: &[u8], index: i64) {
        let (start, end) = (self.holes[hole].start(), self.holes[hole].end());
        self.text.splice(self.data.start + start..self.data.start + end, written.iter().copied());
        if let Some(AppendPattern { at: Some(Some(place)), .. }) = &mut self.growth
            && place.note.is_some()
        {
            place.index = index;
        }
        if end - start == written.len() {
            return;
        }
        let moved = |at: usize| if at >= end { at + written.len() - (end - start) } else { at };
        self.data.end = self.data.start + moved(self.data.end - self.data.start);
        for own in &mut self.holes {
            *own = FrameHole::new(moved(own.start()), moved(own.end()), own.kind);
        }
        self.skeleton.stretch(end, moved);
        self.casts.stretch(moved);
    }

    /// The text by which a frame of this template grows a block.
    #[inline(always)]
    fn grown<'f>(&'f self, growth: &AppendPattern, frame: &'f [u8], pieces: &HolePieces) -> Str<'f> {
        match growth.hole {
            Some(hole) => pieces[usize::from(hole)].str(frame),
            None => self.casts.text(growth.cast),
        }
    }

    /// Takes all frames of this template that these bytes begin with: see [`FrameTemplates::run`]. It stands apart for
    /// templates with several holes, which leaves the registers to the others.
    #[inline(never)]
    fn run(
        &self,
        bytes: &[u8],
        offset: u64,
        most: usize,
        mut run: BlockRun<'_>,
        sink: &mut EventSink<'_>,
    ) -> (u64, usize) {
        let (mut frames, mut at) = (0, 0);
        let Some(growth) = &self.growth else { return (frames, at) };
        if let Some(padded) = self.padded(growth) {
            while let Some((text, length)) = padded.fit(&bytes[at..]).filter(|(_, length)| *length <= most) {
                run.push(offset + at as u64 + self.before, text, sink);
                (frames, at) = (frames + 1, at + length);
            }
            return (frames, at);
        }
        let mut pieces = HolePieces::default();
        while at < bytes.len()
            && let Some(length) =
                self.fit(&bytes[at..], growth.ties, &mut pieces).filter(|length| *length <= most)
        {
            let text = self.grown(growth, &bytes[at..], &pieces);
            run.push(offset + at as u64 + self.before, text, sink);
            (frames, at) = (frames + 1, at + length);
        }
        (frames, at)
    }

    /// The padded form of the template, if its frames have only one text in them, and blanks behind it.
    fn padded(&self, growth: &AppendPattern) -> Option<PaddedTemplate<'_>> {
        let (text, padding) = (growth.hole?, growth.padding?);
        let [text, padding] = [text, padding].map(|hole| self.holes[usize::from(hole)]);
        PaddedTemplate::of(&self.text, self.data.start, text, padding)
    }

    /// Adopts the bytes that the framing writes around the data of such frames.
    fn place(&mut self, lead: &[u8], trail: &[u8], before: u64) {
        let is_same = self.is_placed
            && self.before == before
            && self.text[..self.data.start] == *lead
            && self.text[self.data.end..] == *trail;
        if is_same {
            return;
        }
        let data = lead.len()..lead.len() + self.data.len();
        let length = data.end + trail.len();
        self.text.resize(length.max(self.text.len()), 0);
        self.text.copy_within(self.data.clone(), data.start);
        self.text.truncate(length);
        self.text[..data.start].copy_from_slice(lead);
        self.text[data.end..].copy_from_slice(trail);
        self.data = data;
        self.before = before;
        self.is_placed = true;
    }
}

impl FrameTemplates {
    /// Forgets everything: another protocol's frames follow.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether nothing has come since a frame that only grew a block: then the next one may do so, too.
    pub(crate) fn is_running(&self) -> bool {
        self.stride.is_some()
    }

    /// Ends the run: the next bytes may be something else, and the bytes around them need not be those around the frame
    /// before.
    pub(crate) fn pause(&mut self) {
        self.stride = None;
        self.brought = None;
    }

    /// Notes that a frame of that template was emitted. Not before: a frame that looks like one may be incomplete.
    pub(crate) fn follow(&mut self, number: usize, frame: &[u8], pieces: &HolePieces) {
        self.is_tied = self.known.get_mut(number).is_some_and(|shape| shape.tie(frame, pieces));
        self.is_again = self.latest == Some(number) && self.is_tied;
        self.latest = Some(number);
        self.stride = None;
    }

    /// Notes that a frame of that template, which the framing brought, was emitted.
    pub(crate) fn follow_brought(&mut self, number: usize, data: &[u8], pieces: &HolePieces) {
        self.follow(number, data, pieces);
        self.brought = Some(number);
    }

    /// Whether the framing has just brought a frame with a known template.
    #[inline]
    pub(crate) fn have_brought(&self) -> bool {
        self.brought.is_some()
    }

    /// Notes that a frame was read in full.
    #[inline]
    pub(crate) fn interrupt(&mut self) {
        self.latest = None;
        self.brought = None;
        self.stride = None;
    }

    /// Notes that the framing read only these bytes to bring the latest frame, with its data in that range, and that
    /// the frame began `before` bytes after the first of them: the next frame of its template need not be framed.
    #[inline]
    pub(crate) fn place(&mut self, written: &[u8], data: Range<usize>, before: u64) {
        if let Some(shape) = self.brought.take().and_then(|number| self.known.get_mut(number)) {
            shape.place(&written[..data.start], &written[data.end..], before);
        }
    }

    /// Takes all frames at the start of these bytes, which begin at that offset, as long as they are no longer than
    /// `most` and only continue the latest frame. Returns the number of frames and bytes.
    #[inline(always)]
    pub(crate) fn run(
        &mut self,
        bytes: &[u8],
        offset: u64,
        most: usize,
        weave: &mut Weave,
        sink: &mut EventSink<'_>,
    ) -> (u64, usize) {
        let (mut frames, mut at) = (0, 0);
        if self.stride.is_none() {
            self.stride = self.stride_out(weave);
        }
        let Some(FastRun { shape, block, alone }) = self.stride else { return (frames, at) };
        let Some(shape) = self.known.get(shape) else { return (frames, at) };
        let mut run = weave.run(block);
        let around = alone.and_then(|(start, end)| OneHoleTemplate::of(&shape.text, start, end));
        let Some(around) = around else { return shape.run(bytes, offset, most, run, sink) };
        while let Some((text, length)) = around.fit(&bytes[at..]).filter(|(_, length)| *length <= most) {
            run.push(offset + at as u64 + shape.before, text, sink);
            (frames, at) = (frames + 1, at + length);
        }
        (frames, at)
    }

    /// The run that frames like the latest would be.
    #[inline(never)]
    fn stride_out(&self, weave: &Weave) -> Option<FastRun> {
        let number = self.latest.filter(|_| self.is_tied)?;
        let shape = self.known.get(number).filter(|shape| shape.is_placed)?;
        let growth = shape.growth.as_ref().filter(|growth| self.is_again || !growth.has_members)?;
        let hole = growth.hole.filter(|_| growth.is_alone).map(|hole| shape.holes[usize::from(hole)]);
        let alone = hole.map(|hole| (shape.data.start + hole.start(), shape.data.start + hole.end()));
        Some(FastRun { shape: number, block: weave.running(growth.choice, growth.at)?, alone })
    }

    /// Whether some template begins as these bytes do: mostly that distinguishes known frames from others.
    pub(crate) fn may_begin(&self, bytes: &[u8]) -> bool {
        self.known.iter().any(|shape| {
            let end = shape.data.start + usize::from(shape.skeleton.lead);
            shape.is_placed && bytes.starts_with(&shape.text[..end])
        })
    }

    /// Whether data of that event name begin as those of some template do.
    pub(crate) fn may_be(&self, event: Option<&str>, data: &[u8]) -> bool {
        self.known.iter().any(|shape| shape.may_be(event, data))
    }

    /// The frame whose data these bytes are, if it is known.
    pub(crate) fn find<'s, 'd>(
        &'s self,
        event: Option<&str>,
        data: &'d [u8],
        pieces: &'s mut HolePieces,
    ) -> Option<KnownFrame<'s, 'd>> {
        let fits = |shape: &FrameTemplate, pieces: &mut HolePieces| {
            if shape.event.as_deref() != event {
                return None;
            }
            let length = fit(&shape.text[shape.data.clone()], 0, &shape.holes, data, pieces);
            length.filter(|length| *length == data.len())
        };
        let (number, _) = self.first(fits, pieces)?;
        Some(KnownFrame { from: 0, ..self.known(number, data, pieces) })
    }

    /// The frame that some bytes begin with, if it is known.
    #[inline(always)]
    pub(crate) fn find_at<'s, 'd>(
        &'s self,
        bytes: &'d [u8],
        pieces: &'s mut HolePieces,
    ) -> Option<KnownFrame<'s, 'd>> {
        let fits = |shape: &FrameTemplate, pieces: &mut HolePieces| {
            if shape.is_placed { shape.fit(bytes, PinnedHoles::NONE, pieces) } else { None }
        };
        let (number, length) = self.first(fits, pieces)?;
        Some(self.known(number, &bytes[..length], pieces))
    }

    /// The first template that matches, and the length of its frame; the latest is tried first.
    fn first(
        &self,
        fits: impl Fn(&FrameTemplate, &mut HolePieces) -> Option<usize>,
        pieces: &mut HolePieces,
    ) -> Option<(usize, usize)> {
        let latest = self.latest.unwrap_or_default();
        let others = (0..self.known.len()).filter(|&at| at != latest);
        [latest].into_iter().chain(others).find_map(|at| {
            let shape = self.known.get(at)?;
            Some((at, fits(shape, pieces)?))
        })
    }

    fn known<'s, 'd>(&'s self, number: usize, frame: &'d [u8], pieces: &'s HolePieces) -> KnownFrame<'s, 'd> {
        let shape = &self.known[number];
        let is_repeat = self.latest == Some(number);
        let (from, is_again) = (shape.data.start, self.is_again);
        KnownFrame { shape, frame, from, pieces, is_repeat, is_again, number }
    }

    /// Whether a template may be learned from a frame of that number of values and keys. Not where no template is known
    /// and the frame before had another number, as in responses that are too short for templates: they should not pay
    /// for them.
    #[inline]
    pub(crate) fn may_learn(&self, size: usize) -> bool {
        !self.known.is_empty()
            || self.rest > 0
            || self.before.as_ref().is_some_and(|before| before.size == size)
    }

    /// Notes a frame of that number of values and keys, and of bytes, from which no template may be learned.
    #[inline]
    pub(crate) fn pass(&mut self, size: usize, length: usize) {
        self.interrupt();
        if length > LONGEST {
            return;
        }
        let before = self.before.get_or_insert_default();
        before.size = size;
        before.text.clear();
    }

    /// Records a frame while it is read, if a template may be learned from it: if there is a similar one.
    #[inline]
    pub(crate) fn recorder<'d>(
        &mut self,
        input: &ProtocolFrame<'_>,
        data: &'d str,
    ) -> Option<TemplateRecorder<'d>> {
        if self.rest > 0 || data.len() > LONGEST {
            return None;
        }
        let shapes = self.known.iter().map(|shape| shape.is_like(input, data));
        let shapes = shapes.enumerate().fold(0, |all, (at, is_like)| all | u8::from(is_like) << at);
        let before = self.before.as_ref().is_some_and(|before| before.is_like(input, data));
        self.likes = TemplateCandidates { shapes, before };
        (shapes > 0 || before).then(|| TemplateRecorder::new(data))
    }

    /// Learns from a frame that was read in full.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        input: &ProtocolFrame<'_>,
        data: &str,
        recorder: Option<TemplateRecorder<'_>>,
    ) {
        self.interrupt();
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        if data.len() > LONGEST {
            return;
        }
        if let Some(mut recorder) = recorder {
            if self.compare(input, data, &mut recorder) {
                self.vain = 0;
                return;
            }
            self.vain += 1;
            if self.vain >= PATIENCE {
                // The pause doubles each time: the cost of comparing in vain must not grow with the stream.
                self.rest = 1 << (self.vain - PATIENCE).min(16);
            }
        }
        let before = self.before.get_or_insert_default();
        let size = input.value.size();
        before.text.clear();
        if std::mem::replace(&mut before.size, size) == size {
            // With room for the bytes that most framings write around it, since it may become a template's text.
            before.text.reserve(data.len() + FRAMING + input.event.map_or(0, str::len));
            before.text.push_str(data);
            replace(&mut before.event, input.event);
        }
    }

    /// Compares the frame with the templates and with the frame before; returns whether a template was learned.
    fn compare(
        &mut self,
        input: &ProtocolFrame<'_>,
        data: &str,
        recorder: &mut TemplateRecorder<'_>,
    ) -> bool {
        let likes = self.likes;
        let known = || self.known.iter().enumerate().rev().filter(|(at, _)| likes.shapes >> at & 1 == 1);
        let before = self.before.as_ref().filter(|_| likes.before);
        if known().next().is_none()
            && let Some(before) = before
            && let Some(hole) = only_hole(input.value, data, &before.text)
        {
            let mut holes = Vec::with_capacity(2);
            holes.push(hole);
            return self.keep(input, data, recorder, None, holes);
        }
        let mut room = [FrameHole::new(0, 0, HoleKind::Blank); MAX_LEAVES];
        let Some(all) = possible_holes(input.value, data, &mut room) else { return false };
        let by_shape = known().find_map(|(at, shape)| {
            let news = FrameDifference::of(all, data, &shape.text[shape.data.clone()], Some(shape))?;
            news.has_more.then_some((Some(at), news.holes))
        });
        let by_before = || Some((None, FrameDifference::of(all, data, before?.text.as_bytes(), None)?.holes));
        let Some((at, holes)) = by_shape.or_else(by_before) else { return false };
        self.keep(input, data, recorder, at, holes)
    }

    /// Keeps the template of a frame with those holes, instead of a known one, or besides all of them.
    fn keep(
        &mut self,
        input: &ProtocolFrame<'_>,
        data: &str,
        recorder: &mut TemplateRecorder<'_>,
        at: Option<usize>,
        mut holes: Vec<FrameHole>,
    ) -> bool {
        let (skeleton, place) = TemplateSkeleton::of(input.value);
        // The number of a block key changes seldom, but it may. Where there are too many other holes, it is none.
        let place =
            place.filter(|leaf| holes.len() < MAX_HOLES && is_place(data.as_bytes(), leaf.start, leaf.end));
        let place = place.map(|TapeLeaf { note, start, end, .. }| {
            let hole = FrameHole::new(start, end, HoleKind::Place);
            let before = holes.partition_point(|own| own.start() < start);
            holes.iter_mut().for_each(|own| own.make_room(before));
            holes.insert(before, hole);
            (before, note)
        });
        if holes.len() > MAX_HOLES {
            return false;
        }
        let Some(casts) = recorder.finish(&holes, place) else { return false };
        let growth = AppendPattern::of(&casts, &holes, place.map(|(hole, _)| hole));
        // A frame that is no longer compared lends its memory.
        let before = self.before.take_if(|_| at.is_none()).unwrap_or_default();
        let (mut text, mut event) = (before.text.into_bytes(), before.event);
        text.clear();
        text.extend_from_slice(data.as_bytes());
        replace(&mut event, input.event);
        let shape = FrameTemplate {
            event,
            text,
            data: 0..data.len(),
            skeleton,
            is_placed: false,
            before: 0,
            holes,
            casts,
            growth,
            place: place.map(|(hole, _)| hole as u8),
        };
        let number = match at {
            Some(at) => {
                self.known[at] = shape;
                at
            }
            None => {
                if self.known.len() == MAX_TEMPLATES {
                    self.known.remove(0);
                }
                // Few streams have more than one or two, and many are open at the same time.
                self.known.reserve_exact(1);
                self.known.push(shape);
                self.known.len() - 1
            }
        };
        self.brought = Some(number);
        // The frame was emitted in full: one that follows it continues it.
        self.latest = Some(number);
        (self.is_again, self.is_tied) = (false, false);
        true
    }
}

fn replace(own: &mut Option<String>, event: Option<&str>) {
    match (own, event) {
        (Some(own), Some(event)) => {
            own.clear();
            own.push_str(event);
        }
        (own, event) => *own = event.map(Into::into),
    }
}

impl PreviousFrame {
    #[inline(always)]
    fn is_like(&self, input: &ProtocolFrame<'_>, data: &str) -> bool {
        // Most frames have no text yet.
        let is_such = !self.text.is_empty() && self.size == input.value.size();
        is_such
            && self.event.as_deref() == input.event
            && is_alike(self.text.as_bytes(), input.value, data.as_bytes())
    }
}

impl FrameTemplate {
    /// Whether a frame may have this template, by its event name and its beginning.
    #[inline]
    fn may_be(&self, event: Option<&str>, data: &[u8]) -> bool {
        let lead = &self.text[self.data.start..][..self.skeleton.lead.into()];
        data.starts_with(lead) && self.event.as_deref() == event
    }

    /// Whether a frame may have this template, or one that is made of it.
    fn is_like(&self, input: &ProtocolFrame<'_>, data: &str) -> bool {
        let is_such = usize::from(self.skeleton.size) == input.value.size()
            && self.may_be(input.event, data.as_bytes())
            && self.skeleton.goes_on(&self.text[self.data.clone()], input.value, data.as_bytes());
        is_such && is_alike(&self.text[self.data.clone()], input.value, data.as_bytes())
    }
}

/// Whether it is worthwhile to compare a frame with another: their common start, or else their common end, ends in a
/// value, not in a key or between values. It may also end in the blanks that some put before the last brace.
fn is_alike(other: &[u8], value: TapeNode<'_>, data: &[u8]) -> bool {
    if data == other {
        return true;
    }
    let before = common_start(data, other);
    // A text that is not empty does not match an empty one.
    let is_apt = |start: usize| start < before || other.get(before) != Some(&b'"');
    if !value.leaf_at(before).is_some_and(is_apt) {
        return false;
    }
    let after = data.len() - common_end(data, other);
    value.leaf_at(after).is_some() || data.get(after..).is_some_and(|rest| rest.trim_ascii() == b"}")
}

/// The uninspected values of a frame, if there is room for them. Frames are often compared in vain, which should cost
/// no memory.
fn possible_holes<'r>(
    value: TapeNode<'_>,
    data: &str,
    room: &'r mut [FrameHole; MAX_LEAVES],
) -> Option<&'r [FrameHole]> {
    let mut notes = [0; MAX_LEAVES];
    let mut count = 0;
    for TapeLeaf { note, kind, start, end, seen } in value.leaves().filter(|leaf| leaf.start < leaf.end) {
        let kind = match (seen, kind) {
            (Inspected::All, _) => continue,
            (Inspected::Kind, JsonKind::Number) => HoleKind::Number,
            (Inspected::Kind, _) => HoleKind::Text,
            (Inspected::Place, _) => HoleKind::Place,
            (Inspected::SameAs(other), _) => match notes[..count].iter().position(|note| *note == other) {
                Some(at) => HoleKind::SameAs(at as u8),
                None => continue,
            },
        };
        *room.get_mut(count)? = FrameHole::new(start, end, kind);
        notes[count] = note;
        count += 1;
    }
    // Anthropic pads its frames with blanks before the last brace.
    if let Some(inner) = data.strip_suffix('}') {
        let (start, end) = (inner.trim_end_matches(' ').len(), inner.len());
        *room.get_mut(count)? = FrameHole::new(start, end, HoleKind::Blank);
        count += 1;
    }
    Some(&room[..count])
}

/// The one uninspected text or number in which a frame differs from another, if it differs in nothing else: most
/// templates are made of that, and it is found without a look at the others.
fn only_hole(value: TapeNode<'_>, data: &str, other: &str) -> Option<FrameHole> {
    let (own, other) = (data.as_bytes(), other.as_bytes());
    let most = own.len().min(other.len());
    let before = common_start(own, other);
    let after = common_end(own, other).min(most - before);
    let TapeLeaf { note, kind, start, end, seen } = value.leaf_around(before, own.len() - after)?;
    let kind = if kind == JsonKind::Number { HoleKind::Number } else { HoleKind::Text };
    let hole = FrameHole::new(start, end, kind);
    // A value that equals another cannot change alone.
    let is_alone = seen == Inspected::Kind && !value.has_same(note);
    let is_apt = is_alone && start < end && before + after < own.len().max(other.len());
    let length = fit(own, 0, &[hole], other, &mut [HoleSpan::default(); 1])?;
    (is_apt && length == other.len()).then_some(hole)
}

/// The difference of a frame from another.
struct FrameDifference {
    /// The holes of both, but for the one of a block key.
    holes: Vec<FrameHole>,
    /// Whether it differs where the other's template has no hole.
    has_more: bool,
}

impl FrameDifference {
    /// The ones of `all` holes of a frame in which another frame differs, or which that one's template has already.
    /// None if the other differs elsewhere or in too much.
    fn of(all: &[FrameHole], data: &str, other: &[u8], shape: Option<&FrameTemplate>) -> Option<Self> {
        let mut pieces = [HoleSpan::default(); MAX_LEAVES];
        let length = fit(data.as_bytes(), 0, all, other, &mut pieces)?;
        let is_at = |piece: HoleSpan, own: &FrameHole| (own.start(), own.end()) == (piece.start, piece.end);
        let mut is_hole = [false; MAX_LEAVES];
        let (mut places, mut is_elsewhere, mut has_more) = (0, false, false);
        for (at, (hole, piece)) in all.iter().zip(pieces).enumerate() {
            let differs = data.as_bytes()[hole.start()..hole.end()] != other[piece.start..piece.end];
            if hole.kind == HoleKind::Place {
                (places, is_elsewhere) = (places + 1, is_elsewhere | differs);
                continue;
            }
            let is_known = shape.is_some_and(|shape| shape.holes.iter().any(|own| is_at(piece, own)));
            has_more |= differs && !is_known;
            is_hole[at] = is_known || differs;
        }
        // A value that equals a hole is a hole, too.
        let mut renamed = [0; MAX_LEAVES];
        let mut holes: Vec<FrameHole> = Vec::with_capacity(2);
        for (at, hole) in all.iter().enumerate() {
            let kind = match hole.kind {
                HoleKind::SameAs(other) if is_hole[usize::from(other)] => {
                    HoleKind::SameAs(renamed[usize::from(other)])
                }
                HoleKind::SameAs(_) => continue,
                kind if is_hole[at] => kind,
                _ => continue,
            };
            is_hole[at] = true;
            renamed[at] = holes.len() as u8;
            holes.push(FrameHole::new(hole.start(), hole.end(), kind));
        }
        // Of several block keys, none is a hole.
        let is_such = length == other.len() && (!is_elsewhere || places == 1);
        is_such.then_some(Self { holes, has_more })
    }
}
