//! One template: a frame that is known but for the contents of its holes.

use std::ops::Range;

use super::fit::{FrameHole, HoleKind, HolePieces, PaddedTemplate, PinnedHoles, fit_pinned};
use super::fragments::{AppendPattern, FragmentTemplates, HoleContents};
use crate::event::EventSink;
use crate::json::{Inspected, Str, TapeLeaf, TapeNode};
use crate::weave::{BlockRun, Weave};

/// A frame that is known but for the contents of its holes.
pub(super) struct FrameTemplate {
    /// The event name of such frames in the framing.
    pub(super) event: Option<String>,
    /// The frame that it was learned from, within the bytes that the framing writes around the data, once they are
    /// known.
    pub(super) text: Vec<u8>,
    /// The range of the data in it.
    pub(super) data: Range<usize>,
    pub(super) skeleton: TemplateSkeleton,
    /// Whether the bytes around the data are known.
    pub(super) is_placed: bool,
    /// The number of bytes from the first byte of the frame to the offset that the framing gives it.
    pub(super) before: u64,
    pub(super) holes: Vec<FrameHole>,
    pub(super) fragments: FragmentTemplates,
    /// The only fragment that is new where the frame before had the same template, if it is a piece of a text.
    pub(super) append: Option<AppendPattern>,
    /// The hole of the number of a block key, if there is one.
    pub(super) place: Option<u8>,
}

/// The features that all frames of a template share, as far as they are looked at before reading. They are short.
#[derive(Clone, Copy, Default)]
pub(super) struct TemplateSkeleton {
    /// The number of values and keys in the data.
    pub(super) size: u16,
    /// The start and end of the first uninspected value in the data, and the start of the next; the start of the data,
    /// if there is none.
    lead: u16,
    first_end: u16,
    second: u16,
}

impl TemplateSkeleton {
    /// The skeleton of a frame, and the number in it that was passed on as that of a block key, if it is the only one.
    pub(super) fn of(value: TapeNode<'_>) -> (Self, Option<TapeLeaf>) {
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
    pub(super) fn goes_on(self, own: &[u8], value: TapeNode<'_>, data: &[u8]) -> bool {
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

impl FrameTemplate {
    /// Whether bytes may be a frame of this template, by its beginning.
    pub(super) fn may_begin(&self, bytes: &[u8]) -> bool {
        let end = self.data.start + usize::from(self.skeleton.lead);
        self.is_placed && bytes.starts_with(&self.text[..end])
    }

    /// Whether data may be of this template, by their event name and their beginning.
    #[inline]
    pub(super) fn may_be(&self, event: Option<&str>, data: &[u8]) -> bool {
        let lead = &self.text[self.data.start..][..self.skeleton.lead.into()];
        data.starts_with(lead) && self.event.as_deref() == event
    }

    /// The length of the frame that these bytes begin with, if it matches this template and its pinned holes.
    #[inline(always)]
    pub(super) fn fit(&self, bytes: &[u8], pinned: PinnedHoles, pieces: &mut HolePieces) -> Option<usize> {
        fit_pinned(&self.text, self.data.start, &self.holes, pinned, bytes, pieces)
    }

    /// Pushes the contents of a frame to the fold. `is_again` is set if the frame before had this template, and says
    /// whether the one before that had it, too.
    pub(super) fn push_to(
        &self,
        frame: &[u8],
        pieces: &HolePieces,
        is_again: Option<bool>,
        offset: u64,
        weave: &mut Weave,
        sink: &mut EventSink<'_>,
    ) {
        if let Some(is_again) = is_again
            && let Some(append) = &self.append
            && (is_again || !append.has_extra)
            && self.has_pinned(append.pinned, frame, pieces)
            && let Some(block) = weave.running(append.choice, append.target)
        {
            return weave.run(block).push(offset, self.appended(append, frame, pieces), sink);
        }
        let number = self.place.map(|hole| pieces[usize::from(hole)].index(frame));
        let contents = HoleContents { frame, pieces, number, is_repeat: is_again.is_some() };
        weave.push(offset, |fragments| self.fragments.emit(&contents, fragments), sink);
    }

    /// Whether the pinned holes have the template's contents.
    fn has_pinned(&self, pinned: PinnedHoles, frame: &[u8], pieces: &HolePieces) -> bool {
        self.holes.iter().zip(pieces).enumerate().filter(|(at, _)| pinned.has(*at)).all(
            |(_, (hole, piece))| {
                let start = self.data.start;
                self.text[start + hole.start()..start + hole.end()] == *piece.bytes(frame)
            },
        )
    }

    /// The text by which a frame of this template grows a block.
    #[inline(always)]
    fn appended<'f>(&'f self, append: &AppendPattern, frame: &'f [u8], pieces: &HolePieces) -> Str<'f> {
        match append.hole {
            Some(hole) => pieces[usize::from(hole)].str(frame),
            None => self.fragments.fixed_text(append.template),
        }
    }

    /// Sets the contents of the pinned holes to those of an emitted frame: the next one is compared with that. Returns
    /// whether they had these contents before.
    pub(super) fn pin(&mut self, frame: &[u8], pieces: &HolePieces) -> bool {
        let pinned = self.append.as_ref().map_or(PinnedHoles::NONE, |append| append.pinned);
        let mut is_same = true;
        for (at, piece) in (0..self.holes.len()).zip(pieces).filter(|(at, _)| pinned.has(*at)) {
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
                _ => self.append = None,
            }
        }
        is_same
    }

    /// Adopts another number of the block key: the next frames continue there.
    #[inline(never)]
    fn go_to(&mut self, hole: usize, written: &[u8], number: i64) {
        let (start, end) = (self.holes[hole].start(), self.holes[hole].end());
        self.text.splice(self.data.start + start..self.data.start + end, written.iter().copied());
        if let Some(append) = &mut self.append {
            append.go_to(number);
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
    }

    /// Takes all frames of this template that these bytes begin with: see [`FrameCache::run`](super::FrameCache::run).
    /// It stands apart for templates with several holes, which leaves the registers to the others.
    #[inline(never)]
    pub(super) fn run(
        &self,
        bytes: &[u8],
        offset: u64,
        most: usize,
        mut run: BlockRun<'_>,
        sink: &mut EventSink<'_>,
    ) -> (u64, usize) {
        let (mut frames, mut at) = (0, 0);
        let Some(append) = &self.append else { return (frames, at) };
        if let Some(padded) = self.padded(append) {
            while let Some((text, length)) = padded.fit(&bytes[at..]).filter(|(_, length)| *length <= most) {
                run.push(offset + at as u64 + self.before, text, sink);
                (frames, at) = (frames + 1, at + length);
            }
            return (frames, at);
        }
        let mut pieces = HolePieces::default();
        while at < bytes.len()
            && let Some(length) =
                self.fit(&bytes[at..], append.pinned, &mut pieces).filter(|length| *length <= most)
        {
            let text = self.appended(append, &bytes[at..], &pieces);
            run.push(offset + at as u64 + self.before, text, sink);
            (frames, at) = (frames + 1, at + length);
        }
        (frames, at)
    }

    /// The padded form of the template, if its frames have only one text in them, and blanks behind it.
    fn padded(&self, append: &AppendPattern) -> Option<PaddedTemplate<'_>> {
        let (text, padding) = (append.hole?, append.padding?);
        let [text, padding] = [text, padding].map(|hole| self.holes[usize::from(hole)]);
        PaddedTemplate::of(&self.text, self.data.start, text, padding)
    }

    /// Adopts the bytes that the framing writes around the data of such frames.
    pub(super) fn place(&mut self, lead: &[u8], trail: &[u8], before: u64) {
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
