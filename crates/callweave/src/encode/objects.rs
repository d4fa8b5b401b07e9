//! Arguments as an object, for wires that have no other form for them.

use std::borrow::Cow;

use crate::event::{BlockCompletion, CallKind};
use crate::json::repair::{RepairVerdict, repair};
use crate::json::{JsonKind, JsonScanner, JsonWriter, ScanStatus, Tape};
use crate::message::ToolCall;

/// The member that holds the text of a custom tool's call where the wire wants an object.
pub(crate) const INPUT: &str = "input";

/// The member that holds, as the model wrote them, arguments that are no object and cannot be repaired to one: a client
/// that runs the call gets an unknown member, not an empty object. The name is from Anthropic's documentation.
pub(crate) const INVALID_JSON: &str = "INVALID_JSON";

/// Returns the arguments as the JSON text of an object, for clients: as they are, repaired, or completely under the one
/// member that names their kind. The arguments of a truncated call never pass for complete.
pub(crate) fn arguments(call: &ToolCall) -> Cow<'_, str> {
    let text = call.arguments();
    match (call.completion, call.kind) {
        // The argument stage has already wrapped these.
        (BlockCompletion::AfterDamage, _) if text.starts_with("{\"INVALID_JSON\":") => text.into(),
        (BlockCompletion::Truncated | BlockCompletion::AfterDamage, _) => under(INVALID_JSON, text),
        (BlockCompletion::Complete, CallKind::Custom) => under(INPUT, text),
        (BlockCompletion::Complete, CallKind::Function | CallKind::Builtin) if is_object(text) => text.into(),
        (BlockCompletion::Complete, CallKind::Function | CallKind::Builtin) => {
            let repaired = repair(text);
            match repaired.verdict {
                RepairVerdict::Repaired if is_object(&repaired.text) => repaired.text,
                _ => under(INVALID_JSON, text),
            }
        }
    }
}

/// Returns the arguments of a function as JSON text, for clients of wires with textual arguments: as the model wrote
/// them. The arguments of a truncated call are not JSON or are marked: nobody takes them for complete.
pub(crate) fn text(call: &ToolCall) -> Cow<'_, str> {
    let mut scanner = JsonScanner::new();
    scanner.push(&call.raw_arguments);
    match call.completion {
        BlockCompletion::AfterDamage if call.raw_arguments.starts_with("{\"INVALID_JSON\":") => {
            call.raw_arguments.as_str().into()
        }
        BlockCompletion::Truncated | BlockCompletion::AfterDamage if scanner.status() != ScanStatus::Open => {
            under(INVALID_JSON, &call.raw_arguments)
        }
        BlockCompletion::Truncated | BlockCompletion::AfterDamage | BlockCompletion::Complete => {
            call.arguments().into()
        }
    }
}

/// Whether the text is a JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    Tape::new().parse(text).is_ok_and(|value| value.kind() == JsonKind::Object)
}

/// Returns an object with the text as its one member.
pub(crate) fn under(member: &str, text: &str) -> Cow<'static, str> {
    let mut object = String::new();
    let mut writer = JsonWriter(&mut object);
    writer.object();
    writer.text_member(member, text);
    writer.end_object();
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_nothing_made_up() {
        let call =
            |text: &str, kind, completion| ToolCall { kind, completion, ..ToolCall::new("", "f", text) };
        for (text, kind, completion, expected) in [
            (r#"{"a": 1e400}"#, CallKind::Function, BlockCompletion::Complete, r#"{"a": 1e400}"#),
            ("", CallKind::Function, BlockCompletion::Complete, "{}"),
            ("", CallKind::Function, BlockCompletion::Truncated, r#"{"INVALID_JSON":""}"#),
            (r#"{"a":1"#, CallKind::Function, BlockCompletion::Truncated, r#"{"INVALID_JSON":"{\"a\":1"}"#),
            (r#"{"a":1}"#, CallKind::Function, BlockCompletion::Truncated, r#"{"INVALID_JSON":"{\"a\":1}"}"#),
            ("{a: 1}", CallKind::Function, BlockCompletion::Complete, r#"{"a": 1}"#),
            ("[1]", CallKind::Function, BlockCompletion::Complete, r#"{"INVALID_JSON":"[1]"}"#),
            ("ls -l", CallKind::Custom, BlockCompletion::Complete, r#"{"input":"ls -l"}"#),
        ] {
            assert_eq!(arguments(&call(text, kind, completion)), expected, "{text}");
        }
    }
}
