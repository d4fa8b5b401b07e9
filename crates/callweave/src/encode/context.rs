//! The state that every encoder keeps of the response it writes.

use super::{EncodeMode, EncodeOptions};
use crate::event::{Notice, NoticeCode};

/// The manner of writing a response: the caller's options, and its origin.
#[derive(Default)]
pub(crate) struct EncodeContext {
    pub(crate) options: EncodeOptions,
    /// Whether the response came in this protocol: its clients know all its fields.
    is_own: bool,
    /// Whether the input ended before the response did.
    pub(crate) is_truncated: bool,
}

impl EncodeContext {
    pub(crate) fn new(options: &EncodeOptions) -> Self {
        Self { options: options.clone(), ..Self::default() }
    }

    /// The manner of the next response. A truncated input may be noticed before its response begins.
    pub(crate) fn of_next(&mut self, is_own: bool) -> Self {
        Self { options: std::mem::take(&mut self.options), is_own, is_truncated: self.is_truncated }
    }

    pub(crate) fn mode(&self) -> EncodeMode {
        self.options.mode
    }

    pub(crate) fn is_normalized(&self) -> bool {
        self.options.is_normalized()
    }

    /// Whether extra fields of this protocol are written.
    pub(crate) fn keeps(&self) -> bool {
        self.is_own || !self.is_normalized()
    }

    pub(crate) fn notice(&mut self, notice: &Notice<'_>) {
        self.is_truncated |= notice.code == NoticeCode::Truncated;
    }
}
