//! Chunks: `{"type": …}` with text, a call, or metadata about the answer.

use super::{CHUNKS, foreign, number, text};
use crate::event::{AttachmentKind, CallKind, Counters, FinishReason};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Level, Part, Place};
use crate::json::{Object, Str, Value};

/// Members of a call's metadata that say how to read the chunk.
const ADDRESS: &[&str] = &["id", "index", "name", "builtin?"];
/// Marks of a call whose arguments come in pieces.
const EXPECTS_PIECES: &[&str] = &["start", "expects_arg_fragments", "args_fragment_expected?"];
/// What blocks are called that hold details of the thoughts.
pub(super) const REASONING_DETAILS: &str = "reasoning_details";
const CLOCK: &str = "done_at_unix_nano";

const FINISH: &[(&str, FinishReason)] = &[
    ("stop", FinishReason::Stop),
    ("completed", FinishReason::Stop),
    ("end_turn", FinishReason::Stop),
    ("tool_calls", FinishReason::ToolCalls),
    ("tool_use", FinishReason::ToolCalls),
    ("length", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("max_output_tokens", FinishReason::Length),
    ("content_filter", FinishReason::ContentFilter),
    ("error", FinishReason::Error),
];

pub(super) fn is_kind(kind: &str) -> bool {
    matches!(kind, "content" | "thinking" | "tool_call" | "meta")
}

/// Whether a member of a call's metadata is for the reader of the chunk only.
pub(super) fn is_control(key: &str) -> bool {
    ADDRESS.contains(&key) || EXPECTS_PIECES.contains(&key) || key == CLOCK
}

pub(super) fn read(chunk: &Object, sink: &mut FragmentSink<'_>) {
    let nothing = Object::new();
    let metadata = chunk.get("metadata").and_then(Value::as_object).unwrap_or(&nothing);
    match text(chunk, "type") {
        Some("content") => read_text(Channel::Text, chunk, metadata, sink),
        Some("thinking") => read_text(Channel::REASONING, chunk, metadata, sink),
        Some("tool_call") => read_call(chunk, metadata, sink),
        _ => read_meta(metadata, sink),
    }
}

fn read_text(channel: Channel, chunk: &Object, metadata: &Object, sink: &mut FragmentSink<'_>) {
    if let Some(text) = text(chunk, "text") {
        foreign("metadata.", metadata, |_| true, sink);
        sink.put(Fragment::new(Part::Text { channel, word: "", text: Str::Plain(text) }));
    }
}

/// Every such chunk announces a call of its own; one without a name announces nothing.
fn read_call(chunk: &Object, metadata: &Object, sink: &mut FragmentSink<'_>) {
    let Some(name) = text(chunk, "name").or_else(|| text(metadata, "name")) else { return };
    let is_marked = |key: &&str| metadata.get(key) == Some(&Value::Bool(true));
    let given = chunk.get("arguments").filter(|value| !value.is_null());
    let json = given.map(argument_text);
    let place = place(metadata);
    let part = Part::Call {
        id: text(metadata, "id").map(Str::Plain),
        name: Some(Str::Plain(name)),
        kind: if is_marked(&"builtin?") { CallKind::Builtin } else { CallKind::Function },
        word: "",
        arguments: Some(Arguments::Opening {
            fallback: json.as_deref().map(Str::Plain),
            expects_text: EXPECTS_PIECES.iter().any(is_marked),
        }),
    };
    if let (Some(value), Some(json)) = (given, &json) {
        // What stands if the pieces turn out to be no JSON.
        if value.as_object().is_none_or(|object| !object.is_empty()) {
            let value = if value.is_string() { value.to_string() } else { json.clone() };
            let part = Part::Foreign { level: Level::Next, path: "", key: "arguments", value: &value };
            sink.put(Fragment::new(part));
        }
    }
    foreign("metadata.", metadata, |key| !is_control(key), sink);
    sink.put(Fragment::new(part).at(place));
    // The beginning of the arguments that came beside the name, and is no JSON by itself.
    if let Some(beginning) = text(metadata, "raw_arguments") {
        put_piece(place, beginning, sink);
    }
}

fn place(metadata: &Object) -> Place {
    Place::at(number(metadata, "index").unwrap_or(0)).in_space(CHUNKS)
}

fn put_piece(place: Place, piece: &str, sink: &mut FragmentSink<'_>) {
    let arguments = Some(Arguments::Text(Str::Plain(piece)));
    let part = Part::Call { id: None, name: None, kind: CallKind::Function, word: "", arguments };
    sink.put(Fragment::new(part).at(place));
}

/// Arguments given as a text are that text; any other value is its JSON.
pub(super) fn argument_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn read_meta(metadata: &Object, sink: &mut FragmentSink<'_>) {
    if let Some(arguments) = metadata.get("tool_call_args").and_then(Value::as_object)
        && let Some(Value::String(piece)) = arguments.get("fragment")
    {
        put_piece(place(arguments), piece, sink);
    }
    for (key, value) in metadata {
        match (key, value) {
            (_, Value::Null) | ("tool_call_args", _) => {}
            ("reasoning_details", Value::Array(details)) => {
                // Passed on whole. Their text is not told as thoughts: those have chunks of their own.
                for detail in details {
                    let value = detail.to_string();
                    sink.put(Fragment::new(Part::Opaque { word: REASONING_DETAILS, value: &value }));
                }
            }
            (word @ "logprobs", Value::Array(_)) => {
                attach(AttachmentKind::Logprobs, word, value, sink);
            }
            (word @ "annotations", Value::Array(annotations)) => {
                for annotation in annotations {
                    attach(AttachmentKind::Annotation, word, annotation, sink);
                }
            }
            ("finish_reason", Value::String(word)) => {
                let known = FINISH.iter().find(|(known, _)| known == word);
                let reason = known.map_or(FinishReason::Other, |&(_, reason)| reason);
                sink.put(Fragment::new(Part::Finish { reason, raw: Some(Str::Plain(word)) }));
            }
            ("usage", Value::Object(usage)) => {
                let counters = counters(usage);
                sink.put(Fragment::new(Part::Usage { word: "usage", counters, raw: &value.to_string() }));
            }
            (key, value) => {
                let (level, path) = (Level::Answer, "metadata.");
                sink.put(Fragment::new(Part::Foreign { level, path, key, value: &value.to_string() }));
            }
        }
    }
}

fn attach(kind: AttachmentKind, word: &str, value: &Value, sink: &mut FragmentSink<'_>) {
    let value = value.to_string();
    sink.put(Fragment::new(Part::Attach { level: Level::Choice, on: "", kind, word, value: &value }));
}

fn counters(usage: &Object) -> Counters {
    let count = |keys: &[&str]| keys.iter().find_map(|&key| usage.get(key).and_then(Value::as_u64));
    Counters {
        input_tokens: count(&["input_tokens", "prompt_tokens", "input"]),
        output_tokens: count(&["output_tokens", "completion_tokens", "output"]),
        total_tokens: count(&["total_tokens"]),
        cached_tokens: count(&["cached_tokens", "cache_read_input_tokens", "cached_input"]),
        cache_write_tokens: count(&["cache_creation_tokens", "cache_creation_input_tokens"]),
        reasoning_tokens: count(&["reasoning_tokens", "reasoning"]),
    }
}
