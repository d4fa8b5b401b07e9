//! How an answer ends that did not end by itself: with an error, and never as if all were well.

use std::borrow::Cow;

use callweave::event::{BlockId, Body, DeltaKind, Event, EventSink, FinishReason, Notice, NoticeCode};
use callweave::upstream::{ErrorClass, UpstreamError};

use crate::routes::Target;
use crate::upstream::Trouble;

/// So much is told of words that are no answer.
const LONGEST_WORDS: usize = 300;

/// Takes an answer that broke off for failed, and tells failures once.
pub(crate) struct Ending {
    /// How long arguments may be, and how long those of open calls are.
    limit: usize,
    lengths: Vec<(BlockId, usize)>,
    failure: Option<Box<UpstreamError<'static>>>,
    /// Whether it is not the upstream that tells the failure.
    is_broken: bool,
    /// Who answers.
    target: Target,
    has_begun: bool,
    is_truncated: bool,
    is_told: bool,
    is_over: bool,
}

impl Ending {
    pub(crate) fn new(limit: usize, target: Target) -> Self {
        Self {
            limit,
            lengths: Vec::new(),
            failure: None,
            is_broken: false,
            target,
            has_begun: false,
            is_truncated: false,
            is_told: false,
            is_over: false,
        }
    }

    /// Says why the answer fails; the first reason counts.
    pub(crate) fn fail(&mut self, error: UpstreamError<'static>) {
        self.is_broken |= self.failure.is_none();
        self.failure.get_or_insert_with(|| Box::new(error));
    }

    /// Who answers.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the upstream has answered, and told no error, but the answer fails.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
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
                let what = format!(
                    "made a call with more than {} bytes of arguments (limits.arguments)",
                    self.limit
                );
                self.fail(Trouble::unfit(what).error(&self.target));
                return self.end(sink);
            }
            Body::BlockEnd { block, .. } => self.lengths.retain(|(open, _)| open != block),
            // Whether that matters is known at the end.
            Body::Notice(notice) if notice.code == NoticeCode::Truncated => {
                self.is_truncated = true;
                return;
            }
            Body::Error(error) => {
                let mut error = error.clone().into_owned();
                // Who answers so in plain words has not answered at all, most likely: a page, or noise.
                if error.class == ErrorClass::Other && error.raw.as_str().starts_with('"') {
                    let words = error.message.chars().take(LONGEST_WORDS);
                    let words: String =
                        words.map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
                    error = Trouble::unfit(format!("answered: {words}")).error(&self.target);
                }
                self.target.upstream.mask(&mut error);
                self.failure.get_or_insert_with(|| Box::new(error));
                return self.tell(sink);
            }
            Body::Finish { reason, raw } => {
                // Whoever said why it finished has finished, even if its last word is missing. All others were cut off,
                // however whole their calls look; and so was a refusal that did not come to its end.
                let is_refused = matches!(reason, FinishReason::ContentFilter | FinishReason::Error);
                if self.is_truncated && (raw.is_none() || is_refused) {
                    self.fail(self.broken_off());
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
        self.fail(self.broken_off());
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
            let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
            sink.put(Event::new(0, Body::Notice(notice)));
        }
        sink.put(Event::new(0, Body::End));
    }

    fn broken_off(&self) -> UpstreamError<'static> {
        Trouble::lost("broke off its answer").error(&self.target)
    }

    fn tell(&mut self, sink: &mut EventSink<'_>) {
        if let Some(error) = self.failure.as_ref().filter(|_| !self.is_told) {
            self.is_told = true;
            sink.put(Event::new(0, Body::Error((**error).clone())));
        }
    }
}
