//! Templates of the frames of a stream: parts that were read once need not be read again.
//!
//! Consecutive frames are the same bytes but for a few strings and numbers: the text of a delta, a sequence number,
//! padding. A protocol is pure, and it reads a value either as a [`Str`](crate::json::Str), which it may inspect, or as
//! an [`Opaque`](crate::json::Opaque), which it can only pass on; the [tape](crate::json::Tape) notes which. A
//! [`FrameTemplate`] is a frame with *holes* in place of values that were not inspected, and the fragments that it gave.
//! A frame with the same bytes around the holes, and in each hole a value of the same kind, gives the same fragments
//! with the contents of its holes. The fold runs on the fragments either way.
//!
//! Two frames show which of the uninspected values become holes: the values in which they differ. A frame that does not
//! match is read in full, and the template gets more holes if it can ([`learn`]). The number of a block key is a hole
//! from the start: sooner or later it changes. Counts of tokens are read when they are needed, from the object that
//! holds them ([`UsageReport`](crate::fragment::UsageReport)).
//!
//! A template also holds the bytes that the framing wrote around such a frame. A run of frames that only grow one block
//! is therefore a loop over the bytes: compare, find the ends of the holes, hand the text to the block. Holes that
//! other fragments use are [pinned](fragments::AppendPattern::pinned) in it: once they change, the run is over.
//!
//! [`FrameCache`] is all that the rest of the library sees, and `--cfg callweave_no_frame_cache` replaces it by one that
//! knows no frame: every frame is then read in full, and every result is the same.

mod fit;
mod fragments;
mod learn;
mod probe;
mod template;

use fit::{HolePieces, HoleSpan, OneHoleTemplate, PinnedHoles, fit};
use learn::PreviousFrame;
use template::FrameTemplate;

use crate::event::EventSink;
use crate::framing::Frame;
use crate::weave::{GrowingBlock, Weave};

/// The maximum number of templates: of text, of reasoning, of arguments, of their starts and ends, and one to spare.
const MAX_TEMPLATES: usize = 6;
/// The maximum number of holes of a template, all of which [`PinnedHoles`] can name.
const MAX_HOLES: usize = 8;

/// The templates of the frames of one stream. See the [module](self).
#[derive(Default)]
pub(crate) struct FrameCache {
    templates: Vec<FrameTemplate>,
    /// The template of the last frame, if it had one.
    latest: Option<usize>,
    /// Whether the last frame had the template of the frame before it, and the same contents in the pinned holes.
    is_again: bool,
    /// Whether the last frame had the contents of the frame before it in the pinned holes. Where they change with every
    /// frame, there is no run.
    is_pinned: bool,
    /// The frame that the framing has just brought, if it has a template.
    framed: Option<FramedTemplate>,
    /// The run of frames that continues, as long as nothing else has come.
    run: Option<FastRun>,
    /// The last frame that was read in full.
    previous: Option<PreviousFrame>,
    /// The number of frames in a row that were compared in vain.
    vain: u32,
    /// The number of further frames that are not compared.
    rest: u32,
    /// The number of frames that were not read in full.
    known_frames: u64,
    /// Whether all frames are read in full.
    is_off: bool,
}

/// Frames of one template that only grow one block: see [`FrameCache::run`].
#[derive(Clone, Copy)]
struct FastRun {
    template: usize,
    block: GrowingBlock,
    /// The start and end of the only hole in the template's text, if there is only one and it is a text.
    alone: Option<(usize, usize)>,
}

/// A frame with a template, as the framing brought it: see [`FrameCache::place`].
struct FramedTemplate {
    template: usize,
    offset: u64,
    /// The offset of its data, and their length.
    data: Option<(u64, usize)>,
}

impl FramedTemplate {
    fn new(template: usize, frame: &Frame<'_>, data: &str) -> Self {
        let blanks = frame.data.len() - frame.data.trim_ascii_start().len();
        // A replacement of bytes around the data is reported each time.
        let start = frame.data_offset.filter(|_| !frame.is_lossy).map(|start| start + blanks as u64);
        Self { template, offset: frame.offset, data: start.map(|start| (start, data.len())) }
    }
}

impl FrameCache {
    /// A cache that never knows a frame.
    pub(crate) fn off() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// The number of frames that were not read in full.
    pub(crate) fn known_frames(&self) -> u64 {
        self.known_frames
    }

    /// Forgets everything: another protocol's frames follow.
    pub(crate) fn clear(&mut self) {
        *self = Self { known_frames: self.known_frames, is_off: self.is_off, ..Self::default() };
    }

    /// Whether no template is known, as in short responses.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// Whether nothing has come since a frame that only grew a block: then the next one may do so, too.
    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Ends the run: the next bytes may be something else, and the bytes around them need not be those around the frame
    /// before.
    pub(crate) fn pause(&mut self) {
        self.run = None;
        self.framed = None;
    }

    /// Notes that a frame was read in full, or was no frame of the protocol.
    #[inline]
    pub(crate) fn interrupt(&mut self) {
        self.latest = None;
        self.pause();
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
        if self.run.is_none() {
            self.run = self.begin_run(weave);
        }
        let Some(FastRun { template, block, alone }) = self.run else { return (frames, at) };
        let Some(template) = self.templates.get(template) else { return (frames, at) };
        let mut run = weave.run(block);
        match alone.and_then(|(start, end)| OneHoleTemplate::of(&template.text, start, end)) {
            Some(around) => {
                while let Some((text, length)) =
                    around.fit(&bytes[at..]).filter(|(_, length)| *length <= most)
                {
                    run.push(offset + at as u64 + template.before, text, sink);
                    (frames, at) = (frames + 1, at + length);
                }
            }
            None => (frames, at) = template.run(bytes, offset, most, run, sink),
        }
        self.known_frames += frames;
        (frames, at)
    }

    /// The run that frames like the latest would be.
    #[inline(never)]
    fn begin_run(&self, weave: &Weave) -> Option<FastRun> {
        let number = self.latest.filter(|_| self.is_pinned)?;
        let template = self.templates.get(number).filter(|template| template.is_placed)?;
        let append = template.append.as_ref().filter(|append| self.is_again || !append.has_extra)?;
        let hole = append.hole.filter(|_| append.is_alone).map(|hole| template.holes[usize::from(hole)]);
        let start = template.data.start;
        let alone = hole.map(|hole| (start + hole.start(), start + hole.end()));
        Some(FastRun { template: number, block: weave.running(append.choice, append.target)?, alone })
    }

    /// Whether some template begins as these bytes do: mostly that distinguishes known frames from others.
    pub(crate) fn may_begin(&self, bytes: &[u8]) -> bool {
        self.templates.iter().any(|template| template.may_begin(bytes))
    }

    /// Takes the frame that these bytes begin with, if it is known and no longer than `most`; returns its length.
    #[inline(always)]
    pub(crate) fn push_next(
        &mut self,
        bytes: &[u8],
        offset: u64,
        most: usize,
        weave: &mut Weave,
        sink: &mut EventSink<'_>,
    ) -> Option<usize> {
        let mut pieces = HolePieces::default();
        let fits = |template: &FrameTemplate, pieces: &mut HolePieces| {
            if template.is_placed { template.fit(bytes, PinnedHoles::NONE, pieces) } else { None }
        };
        let (number, length) = self.first(fits, &mut pieces).filter(|(_, length)| *length <= most)?;
        let offset = offset + self.templates[number].before;
        self.push(number, &bytes[..length], &pieces, offset, weave, sink);
        Some(length)
    }

    /// Takes a frame that the framing brought, if it is known.
    pub(crate) fn push_frame(
        &mut self,
        frame: &Frame<'_>,
        data: &str,
        weave: &mut Weave,
        sink: &mut EventSink<'_>,
    ) -> bool {
        if !self.templates.iter().any(|template| template.may_be(frame.event, data.as_bytes())) {
            return false;
        }
        let mut pieces = HolePieces::default();
        let fits = |template: &FrameTemplate, pieces: &mut HolePieces| {
            let own = &template.text[template.data.clone()];
            let length = fit(own, 0, &template.holes, data.as_bytes(), pieces)?;
            (length == data.len() && template.event.as_deref() == frame.event).then_some(length)
        };
        let Some((number, _)) = self.first(fits, &mut pieces) else { return false };
        self.push(number, data.as_bytes(), &pieces, frame.offset, weave, sink);
        self.framed = Some(FramedTemplate::new(number, frame, data));
        true
    }

    /// The first template that matches, and the length of its frame; the latest is tried first.
    #[inline(always)]
    fn first(
        &self,
        fits: impl Fn(&FrameTemplate, &mut HolePieces) -> Option<usize>,
        pieces: &mut HolePieces,
    ) -> Option<(usize, usize)> {
        let latest = self.latest.unwrap_or_default();
        let others = (0..self.templates.len()).filter(|&at| at != latest);
        [latest].into_iter().chain(others).find_map(|at| {
            let template = self.templates.get(at)?;
            Some((at, fits(template, pieces)?))
        })
    }

    /// Pushes a frame of that template, and compares the next one with it.
    fn push(
        &mut self,
        number: usize,
        frame: &[u8],
        pieces: &HolePieces,
        offset: u64,
        weave: &mut Weave,
        sink: &mut EventSink<'_>,
    ) {
        let is_repeat = self.latest == Some(number);
        let template = &mut self.templates[number];
        let is_again = is_repeat.then_some(self.is_again);
        template.push_to(frame, pieces, is_again, offset, weave, sink);
        self.is_pinned = template.pin(frame, pieces);
        self.is_again = is_repeat && self.is_pinned;
        self.latest = Some(number);
        self.run = None;
        self.known_frames += 1;
    }

    /// Notes that the framing read just these bytes, which begin at that offset, to bring the latest frame: the next
    /// frame of its template need not be framed.
    #[inline]
    pub(crate) fn place(&mut self, written: &[u8], began: u64) {
        let Some(FramedTemplate { template, offset, data: Some((start, length)) }) = self.framed.take()
        else {
            return;
        };
        let around = start.checked_sub(began).and_then(|start| {
            let start = start as usize;
            Some((written.get(..start)?, written.get(start + length..)?))
        });
        if let (Some((lead, trail)), Some(template)) = (around, self.templates.get_mut(template)) {
            template.place(lead, trail, offset - began);
        }
    }
}
