//! Truncated responses, for callers that must show clients an error: a finish reason that the provider never gave would
//! pass for its own.

use std::borrow::Cow;

use crate::event::{Event, EventKind, FinishReason, Notice, NoticeCode};
use crate::message::{Choice, Finish, Message};
use crate::upstream::{ErrorClass, UpstreamError};

/// Watches the events of a stream for a truncated response that reports no error itself.
#[derive(Default)]
pub(super) struct TruncationWatcher {
    detail: Option<String>,
    has_failed: bool,
}

impl TruncationWatcher {
    /// The error to write instead of this event, which would end a choice as if nothing were wrong.
    pub(super) fn take(&mut self, event: &Event<'_>) -> Option<UpstreamError<'static>> {
        match &event.body {
            EventKind::Start { .. } => *self = Self::default(),
            EventKind::Error(_) => self.has_failed = true,
            EventKind::Notice(notice) if is_truncated(notice) => {
                self.detail = Some(notice.detail.to_string())
            }
            EventKind::Finish { reason, raw }
                if is_unfinished(*reason, raw.as_deref()) && !self.has_failed =>
            {
                let detail = self.detail.as_deref()?;
                self.has_failed = true;
                return Some(error(detail));
            }
            _ => {}
        }
        None
    }
}

/// Returns the message with the error, if it was truncated and has none.
pub(super) fn failed(message: &Message) -> Option<Message> {
    let cut = message.notices.iter().find(|notice| is_truncated(notice))?;
    let is_open = |choice: &Choice| match &choice.finish {
        Some(Finish { reason, raw }) => is_unfinished(*reason, raw.as_deref()),
        None => true,
    };
    if !message.errors.is_empty() || !message.choices.iter().any(is_open) {
        return None;
    }
    let mut failed = message.clone();
    failed.errors.push(error(&cut.detail));
    for choice in failed.choices.iter_mut().filter(|choice| is_open(choice)) {
        choice.finish = Some(Finish { reason: FinishReason::Error, raw: None });
    }
    Some(failed)
}

fn is_truncated(notice: &Notice<'_>) -> bool {
    notice.code == NoticeCode::Truncated
}

/// Whether the provider gave no reason why the choice finished. A choice with a reason has finished, even if the last
/// event is missing; a refusal may continue.
fn is_unfinished(reason: FinishReason, raw: Option<&str>) -> bool {
    raw.is_none() || matches!(reason, FinishReason::ContentFilter | FinishReason::Error)
}

fn error(detail: &str) -> UpstreamError<'static> {
    let message = Cow::Owned(format!("the response was cut off: {detail}"));
    UpstreamError::new(ErrorClass::Transport, message)
}
