//! The end of a response that did not end by itself: an error, never a success.

use super::super::fault::UpstreamFault;
use super::super::incoming::start;
use super::super::policy::ExchangeTarget;
use crate::event::{BlockId, DeltaKind, Event, EventKind, EventSink, FinishReason, Notice, NoticeCode};
use crate::upstream::{ErrorClass, UpstreamError};

/// The number of characters that are shown of a text that is no response.
const MAX_SHOWN: usize = 300;

/// Makes a failure of a response that broke off, and reports failures once.
pub(in crate::exchange) struct FailureReporter {
    /// The limit of arguments, and the lengths of those of open calls.
    limit: usize,
    lengths: Vec<(BlockId, usize)>,
    failure: Option<Box<UpstreamError<'static>>>,
    /// Whether the failure is another than an error of the upstream.
    is_broken: bool,
    target: ExchangeTarget,
    has_begun: bool,
    is_truncated: bool,
    is_reported: bool,
    is_over: bool,
}

impl FailureReporter {
    pub(in crate::exchange) fn new(limit: usize, target: ExchangeTarget) -> Self {
        Self {
            limit,
            lengths: Vec::new(),
            failure: None,
            is_broken: false,
            target,
            has_begun: false,
            is_truncated: false,
            is_reported: false,
            is_over: false,
        }
    }

    /// The response fails; the first reason counts.
    pub(in crate::exchange) fn fail(&mut self, error: UpstreamError<'static>) {
        self.is_broken |= self.failure.is_none();
        self.failure.get_or_insert_with(|| Box::new(error));
    }

    /// The name of the target in errors.
    pub(in crate::exchange) fn shown(&self) -> String {
        self.target.shown()
    }

    /// Whether the response fails for another reason than an error of the upstream.
    pub(in crate::exchange) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether the response is over.
    pub(in crate::exchange) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes the next event.
    pub(in crate::exchange) fn push(&mut self, mut event: Event<'_>, sink: &mut EventSink<'_>) {
        // Clients know only the first of several responses in one body.
        if self.is_over {
            return;
        }
        match &mut event.body {
            EventKind::Start { .. } => self.has_begun = true,
            EventKind::Delta { block, kind: DeltaKind::Arguments, text }
                if self.grows(*block, text.len()) =>
            {
                let what = format!(
                    "made a call with more than {} bytes of arguments (limits.arguments)",
                    self.limit
                );
                self.fail(UpstreamFault::unusable(what).error(&self.shown()));
                return self.end(sink);
            }
            EventKind::BlockEnd { block, .. } => self.lengths.retain(|(open, _)| open != block),
            // The end decides whether that matters.
            EventKind::Notice(notice) if notice.code == NoticeCode::Truncated => {
                self.is_truncated = true;
                return;
            }
            EventKind::Error(error) => {
                let mut error = error.clone().into_owned();
                // Plain words are no response of a model, but a page or noise.
                if error.class == ErrorClass::Other && error.raw.as_str().starts_with('"') {
                    let words = error.message.chars().take(MAX_SHOWN);
                    let words: String =
                        words.map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
                    error = UpstreamFault::unusable(format!("answered: {words}")).error(&self.shown());
                }
                self.target.engine.mask(&mut error);
                self.failure.get_or_insert_with(|| Box::new(error));
                return self.report(sink);
            }
            EventKind::Finish { reason, raw } => {
                // A response with a finish reason is complete, even without its end marker. Any other was truncated,
                // however complete its calls look; so was a refusal without an end.
                let is_refused = matches!(reason, FinishReason::ContentFilter | FinishReason::Error);
                if self.is_truncated && (raw.is_none() || is_refused) {
                    self.fail(self.broken_off());
                }
                if self.failure.is_some() {
                    self.report(sink);
                    *reason = FinishReason::Error;
                }
            }
            EventKind::End => return self.end(sink),
            _ => {}
        }
        sink.put(event);
    }

    /// Signals that no more events will come.
    pub(in crate::exchange) fn finish(&mut self, sink: &mut EventSink<'_>) {
        if self.is_over {
            return;
        }
        self.fail(self.broken_off());
        if !self.has_begun {
            self.has_begun = true;
            sink.put(Event::new(0, start()));
        }
        self.end(sink);
    }

    /// Whether the arguments of a call grow beyond the limit.
    fn grows(&mut self, block: BlockId, by: usize) -> bool {
        let length = match self.lengths.iter_mut().find(|(open, _)| *open == block) {
            Some((_, length)) => {
                *length += by;
                *length
            }
            None => {
                self.lengths.push((block, by));
                by
            }
        };
        length > self.limit
    }

    fn end(&mut self, sink: &mut EventSink<'_>) {
        self.is_over = true;
        if self.failure.is_some() {
            self.report(sink);
            // A truncated response gets no end marker that stands for success.
            let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
            sink.put(Event::new(0, EventKind::Notice(notice)));
        }
        sink.put(Event::new(0, EventKind::End));
    }

    fn broken_off(&self) -> UpstreamError<'static> {
        UpstreamFault::lost("broke off its answer").error(&self.shown())
    }

    fn report(&mut self, sink: &mut EventSink<'_>) {
        if let Some(error) = self.failure.as_ref().filter(|_| !self.is_reported) {
            self.is_reported = true;
            sink.put(Event::new(0, EventKind::Error((**error).clone())));
        }
    }
}
