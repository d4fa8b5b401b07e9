//! A cache that knows no frame, in place of the [module](super::frame_cache): every frame is read in full. The events are
//! the same, which `cargo xtask check` compares.

use crate::event::EventSink;
use crate::framing::Frame;
use crate::protocol::{Protocol, ProtocolFrame};
use crate::weave::Weave;

#[derive(Default)]
pub(crate) struct FrameCache;

impl FrameCache {
    pub(crate) fn off() -> Self {
        Self
    }

    pub(crate) fn known_frames(&self) -> u64 {
        0
    }

    pub(crate) fn clear(&mut self) {}

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn is_running(&self) -> bool {
        false
    }

    pub(crate) fn pause(&mut self) {}

    pub(crate) fn interrupt(&mut self) {}

    pub(crate) fn run(
        &mut self,
        _: &[u8],
        _: u64,
        _: usize,
        _: &mut Weave,
        _: &mut EventSink<'_>,
    ) -> (u64, usize) {
        (0, 0)
    }

    pub(crate) fn may_begin(&self, _: &[u8]) -> bool {
        false
    }

    pub(crate) fn push_next(
        &mut self,
        _: &[u8],
        _: u64,
        _: usize,
        _: &mut Weave,
        _: &mut EventSink<'_>,
    ) -> Option<usize> {
        None
    }

    pub(crate) fn push_frame(
        &mut self,
        _: &Frame<'_>,
        _: &str,
        _: &mut Weave,
        _: &mut EventSink<'_>,
    ) -> bool {
        false
    }

    pub(crate) fn place(&mut self, _: &[u8], _: u64) {}

    pub(crate) fn learn(&mut self, _: &Protocol, _: &ProtocolFrame<'_>, _: &Frame<'_>, _: &str) {}
}
