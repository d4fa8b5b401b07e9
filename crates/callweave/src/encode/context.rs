//! The context in which a response is written.

use super::{EncodeMode, EncodeOptions, WireCapabilities};
use crate::event::{FinishReason, Notice, NoticeCode};
use crate::message::Message;

/// The caller's options, and the origin of the response.
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

    /// The context of a complete message.
    pub(crate) fn of(message: &Message, options: &EncodeOptions, capabilities: &WireCapabilities) -> Self {
        Self {
            options: options.clone(),
            is_own: capabilities.own.contains(&message.wire_type.as_str()),
            is_truncated: message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated),
        }
    }

    /// The context of the next response. A truncated input may be noticed before its response begins.
    pub(crate) fn of_next(&mut self, is_own: bool) -> Self {
        Self { options: std::mem::take(&mut self.options), is_own, is_truncated: self.is_truncated }
    }

    /// The id of a complete message, or else the caller's.
    pub(crate) fn id_of<'m>(&'m self, message: &'m Message) -> Option<&'m str> {
        message.id.as_deref().or(self.options.id.as_deref())
    }

    /// The model of a complete message, or else the caller's.
    pub(crate) fn model_of<'m>(&'m self, message: &'m Message) -> Option<&'m str> {
        message.model.as_deref().or(self.options.model.as_deref())
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

    /// Whether the end of a choice is missing: the input was truncated, and nothing else says why it ended.
    pub(crate) fn lacks_end(&self, reason: FinishReason, raw: Option<&str>) -> bool {
        self.is_truncated && reason == FinishReason::Other && (self.is_normalized() || raw.is_none())
    }

    pub(crate) fn notice(&mut self, notice: &Notice<'_>) {
        self.is_truncated |= notice.code == NoticeCode::Truncated;
    }
}
