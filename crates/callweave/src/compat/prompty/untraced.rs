//! No spans: the feature `tracing` is off.

use super::{Processed, PromptAgent, ResponseFacts, StreamFailure};
use crate::Result;
use crate::json::Value;

pub(super) struct ProcessSpan;

impl ProcessSpan {
    pub(super) fn begin(_: &PromptAgent) -> Self {
        Self
    }

    pub(super) fn end(self, _: &PromptAgent, _: &Value, _: &Result<Processed>, _: &ResponseFacts<'_>) {}
}

pub(super) struct StreamSpan;

impl StreamSpan {
    pub(super) fn new(_: &PromptAgent) -> Self {
        Self
    }

    pub(super) fn keep(&mut self, _: impl FnOnce() -> Value) {}

    pub(super) fn end(&mut self, _: u64, _: &ResponseFacts<'_>, _: Option<&StreamFailure>) {}
}
