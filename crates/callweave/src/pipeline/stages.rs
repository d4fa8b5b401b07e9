//! The stages behind the weave.

use crate::arguments::ArgumentStage;
use crate::dialect::DialectStage;
use crate::event::{Event, EventSink, Sink};
use crate::finalize::Finalizer;

/// The stages between the weave and the caller: the extractor (text → calls), the argument stage (calls → repaired
/// calls) and the finalizer. Many streams are open at the same time, and most need neither of the first two.
pub(super) struct StageChain {
    pub(super) extract: Option<Box<DialectStage>>,
    pub(super) mend: Option<Box<ArgumentStage>>,
    pub(super) close: Finalizer,
}

impl StageChain {
    /// Whether there is neither an extractor nor an argument stage.
    pub(super) fn are_idle(&self) -> bool {
        self.extract.is_none() && self.mend.is_none()
    }

    pub(super) fn push_through(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        let Self { extract, mend, close } = self;
        let mut close = |event: Event<'_>| close.push(event, sink);
        let mut mend = |event: Event<'_>| match mend {
            Some(mend) => mend.push(event, &mut close),
            None => close(event),
        };
        match extract {
            Some(extract) => extract.push(event, &mut mend),
            None => mend(event),
        }
    }

    pub(super) fn finish(&mut self, sink: &mut EventSink<'_>) {
        let Self { extract, mend, close } = self;
        let mut close = |event: Event<'_>| close.push(event, sink);
        if let Some(extract) = extract {
            extract.finish(&mut |event: Event<'_>| match mend {
                Some(mend) => mend.push(event, &mut close),
                None => close(event),
            });
        }
        if let Some(mend) = mend {
            mend.finish(&mut close);
        }
    }
}

/// A sink that passes events through the stages. It is no closure, because closures copy their arguments.
pub(super) struct StagedSink<'p, 's> {
    pub(super) stages: &'p mut StageChain,
    pub(super) sink: &'p mut EventSink<'s>,
}

impl<'e> Sink<Event<'e>> for StagedSink<'_, '_> {
    fn put(&mut self, mut event: Event<'e>) {
        if !self.stages.are_idle() {
            return self.stages.push_through(event, self.sink);
        }
        self.stages.close.look_at(&mut event);
        self.sink.put(event);
    }
}
