//! Keeps what found no place from flooding the output.
//!
//! Text that is no part of a response is kept in notices and errors, so that nothing is lost. For a log that was given
//! by mistake that is everything, several times over. Therefore there is a budget for it, far more than a damaged
//! response needs; text beyond it is shortened, then counted.

use std::borrow::Cow;

use callweave::event::{Event, EventKind, JsonText, Notice, NoticeCode, Sink};
use callweave::json::Value;
use callweave::upstream::UpstreamError;

/// The maximum number of bytes of notices and errors in a response.
const BUDGET: usize = 64 << 10;
/// Bytes of the message of an error; a longer one is a page.
const MESSAGE: usize = 4 << 10;
/// The cost of a notice or an error beside its text.
const OVERHEAD: usize = 64;

/// Passes events on, and of notices and errors what the budget has room for.
pub(crate) struct NoticeBudget<S> {
    pub(crate) next: S,
    left: usize,
    dropped: u64,
}

impl<S: for<'e> Sink<Event<'e>>> NoticeBudget<S> {
    /// A stage in front of `next`.
    pub(crate) fn new(next: S) -> Self {
        Self { next, left: BUDGET, dropped: 0 }
    }

    /// Says that no event will come any more.
    pub(crate) fn finish(&mut self) {
        if self.dropped > 0 {
            let detail =
                format!("{} more notices and errors are not shown", std::mem::take(&mut self.dropped));
            self.next.put(Event::new(0, EventKind::Notice(Notice::new(NoticeCode::Other, 0, detail))));
        }
    }

    /// Takes bytes from the budget; the rest of it if there are fewer.
    fn spend(&mut self, bytes: usize) -> usize {
        let spent = bytes.min(self.left);
        self.left -= spent;
        spent
    }

    fn notice(&mut self, notice: &mut Notice<'_>) {
        self.spend(OVERHEAD + notice.detail.len());
        if let Some(text) = &mut notice.text {
            let max = self.spend(text.len());
            shorten(text, max);
        }
    }

    fn error(&mut self, error: &mut UpstreamError<'_>) {
        shorten(&mut error.message, MESSAGE);
        self.spend(OVERHEAD + error.message.len());
        let length = error.raw.as_str().len();
        if self.spend(length) < length {
            let text = error.raw.to_value();
            let mut text = text.as_str().unwrap_or(error.raw.as_str()).to_owned().into();
            shorten(&mut text, MESSAGE);
            error.raw = JsonText::from_value(&Value::from(text.into_owned()));
        }
    }
}

impl<'e, S: for<'s> Sink<Event<'s>>> Sink<Event<'e>> for NoticeBudget<S> {
    fn put(&mut self, mut event: Event<'e>) {
        // Most events are such.
        if let EventKind::Delta { .. } = event.body {
            return self.next.put(event);
        }
        if matches!(event.body, EventKind::Notice(_) | EventKind::Error(_)) && self.left == 0 {
            self.dropped += 1;
            return;
        }
        match &mut event.body {
            EventKind::End => self.finish(),
            EventKind::Notice(notice) => self.notice(notice),
            EventKind::Error(error) => self.error(error),
            _ => {}
        }
        self.next.put(event);
    }
}

/// Truncates a text after `max` bytes, and says so.
fn shorten(text: &mut Cow<'_, str>, max: usize) {
    if text.len() > max {
        let end = (0..=max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        *text = format!("{}… ({} bytes in all)", &text[..end], text.len()).into();
    }
}
