//! No spans: the feature `tracing` is off.

use super::{Agent, Failure, Learned, Processed};
use crate::Result;
use crate::json::Value;

pub(super) struct ProcessSpan;

impl ProcessSpan {
    pub(super) fn begin(_: &Agent) -> Self {
        Self
    }

    pub(super) fn end(self, _: &Agent, _: &Value, _: &Result<Processed>, _: &Learned<'_>) {}
}

pub(super) struct StreamSpan;

impl StreamSpan {
    pub(super) fn new(_: &Agent) -> Self {
        Self
    }

    pub(super) fn keep(&mut self, _: impl FnOnce() -> Value) {}

    pub(super) fn end(&mut self, _: u64, _: &Learned<'_>, _: Option<&Failure>) {}
}
