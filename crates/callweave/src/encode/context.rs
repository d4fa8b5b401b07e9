//! What every encoder knows of the answer it writes.

use super::{EncodeMode, EncodeOptions};
use crate::event::{Notice, NoticeCode};

/// How an answer is written: as the caller wants it, and as its origin allows.
#[derive(Default)]
pub(crate) struct EncodeContext {
    pub(crate) options: EncodeOptions,
    /// The answer came in this protocol: its clients know all that it says.
    is_own: bool,
    /// The input ended before the answer did.
    pub(crate) is_truncated: bool,
}

impl EncodeContext {
    pub(crate) fn new(options: &EncodeOptions) -> Self {
        Self { options: options.clone(), ..Self::default() }
    }

    /// The manner of the next answer. That the input is cut off may be noticed before its answer begins.
    pub(crate) fn of_next(&mut self, is_own: bool) -> Self {
        Self { options: std::mem::take(&mut self.options), is_own, is_truncated: self.is_truncated }
    }

    pub(crate) fn mode(&self) -> EncodeMode {
        self.options.mode
    }

    pub(crate) fn is_normalized(&self) -> bool {
        self.options.is_normalized()
    }

    /// Whether what only this protocol knows is written.
    pub(crate) fn keeps(&self) -> bool {
        self.is_own || !self.is_normalized()
    }

    pub(crate) fn notice(&mut self, notice: &Notice<'_>) {
        self.is_truncated |= notice.code == NoticeCode::Truncated;
    }
}
