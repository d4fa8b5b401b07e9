//! The fast path: frames that the [cache](crate::frame_cache) knows are neither framed nor read.
//!
//! Bytes go to the cache first, as long as the next byte begins a frame; what it does not know is framed, one frame at a
//! time, and the bytes behind that frame go to the cache again.

use super::detection::FrameReader;
use super::stages::{StageChain, StagedSink};
use super::{Decoder, FrameDecoder};
use crate::Result;
use crate::event::EventSink;
use crate::framing::{Frame, Framer};

impl Decoder {
    /// Takes the next bytes as the framing cuts them.
    pub(super) fn push_frames(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) -> Result<()> {
        let Self { framer, frames, .. } = self;
        let mut rest = &bytes[frames.push_known(bytes, framer, sink)..];
        while !rest.is_empty() {
            // The framing may stop inside a frame.
            frames.reader.cache.pause();
            let (began, count) = (framer.between_frames(), frames.reader.frames);
            let taken = framer.push_some(rest, &mut |frame: Frame<'_>| frames.push(&frame, sink))?;
            if let (Some(began), Some(_)) = (began, framer.between_frames())
                && frames.reader.frames == count + 1
            {
                frames.reader.cache.place(&rest[..taken], began);
            }
            rest = &rest[taken..];
            rest = &rest[frames.push_known(rest, framer, sink)..];
        }
        Ok(())
    }
}

impl FrameDecoder {
    /// Takes the frames that these bytes begin with, as long as they continue the run of frames before; returns the
    /// number of bytes taken. It is inlined into its caller: for most reads there is nothing else to do.
    #[inline(always)]
    pub(super) fn run_on(&mut self, bytes: &[u8], framer: &mut Framer, sink: &mut EventSink<'_>) -> usize {
        let Self { reader, stages, .. } = self;
        if !reader.cache.is_running() || !stages.are_idle() {
            return 0;
        }
        let (most, left) = framer.room();
        let bytes = &bytes[..bytes.len().min(left)];
        let taken = reader.run(bytes, framer.offset(), most, sink);
        framer.skip(taken);
        taken
    }

    /// Takes the frames that these bytes begin with, as long as they are known; returns the number of bytes
    /// taken.
    #[inline]
    fn push_known(&mut self, bytes: &[u8], framer: &mut Framer, sink: &mut EventSink<'_>) -> usize {
        // Short responses have none.
        if self.reader.cache.is_empty() { 0 } else { self.push_such(bytes, framer, sink) }
    }

    #[inline(never)]
    fn push_such(&mut self, bytes: &[u8], framer: &mut Framer, sink: &mut EventSink<'_>) -> usize {
        let Self { reader, stages, .. } = self;
        // In a run, none of the conditions checked here has changed.
        let is_known = reader.cache.is_running()
            || reader.is_steady() && framer.between_frames().is_some() && reader.cache.may_begin(bytes);
        if !is_known {
            return 0;
        }
        debug_assert_eq!(framer.between_frames(), Some(framer.offset()));
        let taken = reader.push_known(bytes, framer.offset(), framer.room(), stages, sink);
        framer.skip(taken);
        taken
    }
}

impl FrameReader {
    /// Takes the frames that these bytes begin with, as long as they are known and there is room for each and
    /// for all of them; returns the number of bytes taken. To be called only where the reader is
    /// [steady](FrameReader::is_steady).
    fn push_known(
        &mut self,
        bytes: &[u8],
        mut offset: u64,
        (most, left): (usize, usize),
        stages: &mut StageChain,
        sink: &mut EventSink<'_>,
    ) -> usize {
        let mut rest = &bytes[..bytes.len().min(left)];
        let room = rest.len();
        loop {
            // Deltas of a block concern no stage but the extractor and the argument stage.
            let taken = match stages.are_idle() {
                true => self.run(rest, offset, most, sink),
                false => self.run(rest, offset, most, &mut StagedSink { stages, sink }),
            };
            (offset, rest) = (offset + taken as u64, &rest[taken..]);
            if rest.is_empty() {
                break;
            }
            let mut sink = StagedSink { stages, sink };
            let Some(length) = self.cache.push_next(rest, offset, most, &mut self.weave, &mut sink) else {
                break;
            };
            self.frames += 1;
            (offset, rest) = (offset + length as u64, &rest[length..]);
            if !self.is_steady() {
                break;
            }
        }
        room - rest.len()
    }

    /// Takes the frames that these bytes begin with, as long as they continue the content of the one before; returns
    /// the number of bytes taken.
    #[inline(always)]
    fn run(&mut self, bytes: &[u8], offset: u64, most: usize, sink: &mut EventSink<'_>) -> usize {
        let (frames, taken) = self.cache.run(bytes, offset, most, &mut self.weave, sink);
        self.frames += frames;
        taken
    }
}
