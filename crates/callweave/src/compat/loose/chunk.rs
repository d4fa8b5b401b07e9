//! Chunks: `{"type": …}` with text, a call, or metadata about the response.

use super::{CHUNKS, extra, number, text, wire_type};
use crate::compat::tool_call_aggregator::policy::ChatFinishReason;
use crate::event::{AttachmentKind, CallKind, FinishReason, TokenCounts};
use crate::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel, UsageReport,
};
use crate::json::{JsonKind, Str, TapeNode};

/// Members of a call's metadata that say how to read the chunk.
const ADDRESS: &[&str] = &["id", "index", "name", "builtin?"];
/// Marks of a call whose arguments come in pieces.
const EXPECTS_PIECES: &[&str] = &["start", "expects_arg_fragments", "args_fragment_expected?"];
/// The wire type of blocks that hold details of the reasoning.
pub(in crate::compat) const REASONING_DETAILS: &str = "reasoning_details";
const CLOCK: &str = "done_at_unix_nano";

pub(super) fn is_kind(kind: &str) -> bool {
    matches!(kind, "content" | "thinking" | "tool_call" | "meta")
}

/// Whether a member of a call's metadata is for the reader of the chunk only.
pub(in crate::compat) fn is_control(key: &str) -> bool {
    ADDRESS.contains(&key) || EXPECTS_PIECES.contains(&key) || key == CLOCK
}

pub(super) fn read(chunk: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    let metadata = chunk.get("metadata");
    match text(chunk, "type").map(Str::written) {
        Some("content") => read_text(TextChannel::Text, chunk, metadata, sink),
        Some("thinking") => read_text(TextChannel::REASONING, chunk, metadata, sink),
        Some("tool_call") => read_call(chunk, metadata, sink),
        _ => metadata.into_iter().for_each(|metadata| read_meta(metadata, sink)),
    }
}

fn read_text(
    channel: TextChannel,
    chunk: TapeNode<'_>,
    metadata: Option<TapeNode<'_>>,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(text) = text(chunk, "text") {
        for (key, value) in metadata.into_iter().flat_map(TapeNode::members) {
            extra("metadata.", key, value, sink);
        }
        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type: "", text: text.into() }));
    }
}

/// Every such chunk announces a call of its own; one without a name announces nothing.
fn read_call(chunk: TapeNode<'_>, metadata: Option<TapeNode<'_>>, sink: &mut FragmentSink<'_>) {
    let told = |key: &str| metadata.and_then(|metadata| text(metadata, key));
    let Some(name) = text(chunk, "name").or_else(|| told("name")) else { return };
    let is_marked = |key: &&str| metadata.and_then(|metadata| metadata.get(key)?.bool()) == Some(true);
    let given = chunk.get("arguments").filter(|value| !value.is_null());
    if let Some(value) =
        given.filter(|value| value.kind() != JsonKind::Object || value.members().next().is_some())
    {
        // These arguments stand if the pieces turn out to be no JSON.
        extra("", "arguments", value, sink);
    }
    for (key, value) in metadata.into_iter().flat_map(TapeNode::members).filter(|(key, _)| !is_control(key)) {
        extra("metadata.", key, value, sink);
    }
    let part = FragmentKind::Call {
        id: (told("id").or_else(|| text(chunk, "id"))).map(Into::into),
        name: Some(name.into()),
        kind: if is_marked(&"builtin?") { CallKind::Builtin } else { CallKind::Function },
        wire_type: wire_type::CHUNK,
        arguments: Some(FragmentArguments::Opening {
            // Arguments given as a text are that text; any other value is its JSON.
            fallback: (given.map(|value| value.str().unwrap_or(Str::Plain(value.raw())))).map(Into::into),
            expects_text: EXPECTS_PIECES.iter().any(is_marked),
        }),
    };
    let place = place(metadata);
    sink.put(Fragment::new(part).at(place));
    // The beginning of the arguments that came beside the name, and is no JSON by itself.
    if let Some(beginning) = told("raw_arguments") {
        put_piece(place, beginning, sink);
    }
}

fn place(metadata: Option<TapeNode<'_>>) -> BlockKey {
    BlockKey::at(metadata.and_then(|metadata| number(metadata, "index")).unwrap_or(0)).in_space(CHUNKS)
}

fn put_piece(place: BlockKey, piece: Str<'_>, sink: &mut FragmentSink<'_>) {
    let arguments = Some(FragmentArguments::Text(piece.into()));
    let part = FragmentKind::Call {
        id: None,
        name: None,
        kind: CallKind::Function,
        wire_type: wire_type::CHUNK,
        arguments,
    };
    sink.put(Fragment::new(part).at(place));
}

fn read_meta(metadata: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    if let Some(arguments) = metadata.get("tool_call_args")
        && let Some(piece) = arguments.get("fragment").and_then(TapeNode::str)
    {
        put_piece(place(Some(arguments)), piece, sink);
    }
    for (key, value) in metadata.members() {
        match (key, value.kind()) {
            (_, JsonKind::Null) | ("tool_call_args", _) => {}
            (REASONING_DETAILS, JsonKind::Array) => {
                // Passed on complete. Their text is not emitted as reasoning: that has chunks of its own.
                for detail in value.elements() {
                    sink.put(Fragment::new(FragmentKind::Opaque {
                        wire_type: REASONING_DETAILS,
                        value: detail.raw().into(),
                    }));
                }
            }
            ("logprobs", JsonKind::Array) => attach(AttachmentKind::Logprobs, key, value, sink),
            ("annotations", JsonKind::Array) => {
                value.elements().for_each(|entry| attach(AttachmentKind::Annotation, key, entry, sink));
            }
            ("finish_reason", JsonKind::String) => {
                let raw = value.str();
                let reason = raw.map_or(FinishReason::Other, |wire_type| finish_reason(&wire_type.to_cow()));
                sink.put(Fragment::new(FragmentKind::Finish { reason, raw: raw.map(Into::into) }));
            }
            ("usage", JsonKind::Object) => {
                let usage = UsageReport::of(value, counters);
                sink.put(Fragment::new(FragmentKind::Usage { wire_type: "usage", usage }));
            }
            _ => {
                let (level, path, value) = (ExtraScope::Response, "metadata.", value.raw());
                sink.put(Fragment::new(FragmentKind::Extra { level, path, key, value: value.into() }));
            }
        }
    }
}

fn finish_reason(wire_type: &str) -> FinishReason {
    match wire_type {
        "error" => FinishReason::Error,
        // Here it is no success.
        "cancelled" => FinishReason::Other,
        wire_type => ChatFinishReason::read(Some(wire_type)).into(),
    }
}

fn attach(kind: AttachmentKind, wire_type: &str, value: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    let (level, value) = (ExtraScope::Choice, value.raw());
    sink.put(Fragment::new(FragmentKind::Attach { level, on: "", kind, wire_type, value: value.into() }));
}

fn counters(usage: TapeNode<'_>) -> TokenCounts {
    let count = |keys: &[&str]| keys.iter().find_map(|key| usage.get(key).and_then(TapeNode::count));
    TokenCounts {
        input_tokens: count(&["input_tokens", "prompt_tokens", "input"]),
        output_tokens: count(&["output_tokens", "completion_tokens", "output"]),
        total_tokens: count(&["total_tokens"]),
        cached_tokens: count(&["cached_tokens", "cache_read_input_tokens", "cached_input"]),
        cache_write_tokens: count(&["cache_creation_tokens", "cache_creation_input_tokens"]),
        reasoning_tokens: count(&["reasoning_tokens", "reasoning"]),
    }
}
