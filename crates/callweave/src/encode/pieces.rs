//! Arguments for wires on which they form an object: in pieces, and as a value.

use super::{EncodeMode, objects};
use crate::event::CallKind;
use crate::json::{JsonKind, JsonWriter, Tape, escape_into};
use crate::message::ToolCall;

/// The argument text of a call as it is streamed. Free text is written as an object of one string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgumentPieces {
    mode: EncodeMode,
    is_free: bool,
    is_begun: bool,
    /// The length of the part of a `null` that is withheld: clients get missing arguments in another form.
    withheld: usize,
}

const NONE: &str = "null";

impl ArgumentPieces {
    pub(crate) fn new(kind: CallKind, mode: EncodeMode) -> Self {
        Self { mode, is_free: kind == CallKind::Custom, is_begun: false, withheld: 0 }
    }

    /// Whether pieces are written as they come, from the first written one on.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_free
    }

    /// Returns the text to write for the next piece; none if that is withheld.
    pub(crate) fn next<'t>(&mut self, text: &'t str, scratch: &'t mut String) -> Option<&'t str> {
        let may_be_none = self.mode == EncodeMode::Normalized && !self.is_free && !self.is_begun;
        if may_be_none && NONE[self.withheld..].starts_with(text) {
            self.withheld += text.len();
            return None;
        }
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let withheld = std::mem::take(&mut self.withheld);
        if !self.is_free && withheld == 0 {
            return Some(text);
        }
        scratch.clear();
        if self.is_free {
            scratch.push_str(if is_begun { "" } else { "{\"input\":\"" });
            escape_into(text, scratch);
        } else {
            scratch.push_str(&NONE[..withheld]);
            scratch.push_str(text);
        }
        Some(scratch)
    }

    /// Returns the text to write at the end; none if all is written. A call without arguments has a piece, too.
    pub(crate) fn rest(self) -> Option<&'static str> {
        match (self.is_free, self.is_begun) {
            (true, true) => Some("\"}"),
            (true, false) => Some("{\"input\":\"\"}"),
            (false, true) => None,
            (false, false) if self.withheld < NONE.len() => Some(&NONE[..self.withheld]),
            (false, false) => Some(""),
        }
    }
}

/// Writes the arguments of a finished call as a value: for clients an object; as a text where they are no value.
pub(crate) fn write_arguments(call: &ToolCall, mode: EncodeMode, writer: &mut JsonWriter<'_>) {
    let text = call.arguments();
    let is_value = || Tape::new().parse(text).is_ok_and(|value| value.kind() != JsonKind::String);
    match mode {
        EncodeMode::Normalized => writer.raw(&objects::arguments(call)),
        EncodeMode::Lossless if is_value() => writer.raw(text),
        EncodeMode::Lossless => writer.string(text),
    }
}
