//! How an answer ends that did not end by itself: with an error, and never as if all were well.

use std::borrow::Cow;

use callweave::event::{BlockId, Body, DeltaKind, Event, EventSink, FinishReason, Notice, NoticeCode};
use callweave::upstream::{ErrorClass, UpstreamError};

/// Takes an answer that broke off for failed, and tells failures once.
#[derive(Debug)]
pub(crate) struct Ending {
    /// How long arguments may be, and how long those of open calls are.
    limit: usize,
    lengths: Vec<(BlockId, usize)>,
    failure: Option<Box<UpstreamError<'static>>>,
    has_begun: bool,
    is_truncated: bool,
    is_told: bool,
    is_over: bool,
}

impl Ending {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            lengths: Vec::new(),
            failure: None,
            has_begun: false,
            is_truncated: false,
            is_told: false,
            is_over: false,
        }
    }

    /// Says why the answer fails; the first reason counts.
    pub(crate) fn fail(&mut self, error: UpstreamError<'static>) {
        self.failure.get_or_insert_with(|| Box::new(error));
    }

    /// Whether the answer is over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes the next event.
    pub(crate) fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        let mut event = event;
        // Of several answers in one body clients know only the first.
        if self.is_over {
            return;
        }
        match &mut event.body {
            Body::Start { .. } => self.has_begun = true,
            Body::Delta { block, kind: DeltaKind::Arguments, text } if self.grows(*block, text.len()) => {
                let what = "the arguments of a call are longer than the gateway allows";
                let mut error = UpstreamError::new(ErrorClass::Other, what);
                error.status = Some(502);
                self.fail(error);
                return self.end(sink);
            }
            Body::BlockEnd { block, .. } => self.lengths.retain(|(open, _)| open != block),
            Body::Notice(notice) => self.is_truncated |= notice.code == NoticeCode::Truncated,
            Body::Error(error) => {
                self.fail(error.clone().into_owned());
                return self.tell(sink);
            }
            Body::Finish { reason, raw } => {
                // Whoever said why it finished has finished, even if its last word is missing.
                if self.is_truncated && raw.is_none() && *reason == FinishReason::Other {
                    self.fail(broken_off());
                }
                if self.failure.is_some() {
                    self.tell(sink);
                    *reason = FinishReason::Error;
                }
            }
            Body::End => return self.end(sink),
            _ => {}
        }
        sink.put(event);
    }

    /// Says that no more events will come.
    pub(crate) fn finish(&mut self, sink: &mut EventSink<'_>) {
        if self.is_over {
            return;
        }
        self.fail(broken_off());
        if !self.has_begun {
            self.has_begun = true;
            let body = Body::Start { id: None, model: None, word: Cow::Borrowed(""), members: None };
            sink.put(Event::new(0, body));
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
            self.tell(sink);
            // Where a wire has a last word that says that all went well, it is not said.
            if !self.is_truncated {
                let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
                sink.put(Event::new(0, Body::Notice(notice)));
            }
        }
        sink.put(Event::new(0, Body::End));
    }

    fn tell(&mut self, sink: &mut EventSink<'_>) {
        if let Some(error) = self.failure.as_ref().filter(|_| !self.is_told) {
            self.is_told = true;
            sink.put(Event::new(0, Body::Error((**error).clone())));
        }
    }
}

fn broken_off() -> UpstreamError<'static> {
    let mut error = UpstreamError::new(ErrorClass::Transport, "the answer of the upstream broke off");
    error.status = Some(502);
    error
}
