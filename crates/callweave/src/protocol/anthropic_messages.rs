//! Anthropic Messages: stream event and whole message, from Anthropic itself and from the servers that
//! speak its language.
//!
//! Blocks are numbered by their `index`. One stream may carry several passes (the server resumes a turn
//! after its own tools, a gateway tries again), each with a `message_start` and a numbering of its own, so a
//! block that begins at a place ends whatever stood there.

use super::{Evidence, Input, Protocol, error, finish_reason, foreign, is_kind, is_usual};
use crate::event::{CallKind, Counters, DetailKind, FinishReason};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Part, Place};
use crate::json::{Kind, Node as Value, Str};
use crate::upstream::ErrorClass;

pub(super) static PROTOCOL: Protocol = Protocol {
    name: "anthropic-messages",
    aliases: &["anthropic", "messages", "claude"],
    title: "Anthropic Messages",
    volatile: &[],
    errors: ERRORS,
    recognise,
    decode,
};

const EVENTS: &[&str] = &[
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
];

const FINISH: &[(&str, FinishReason)] = &[
    ("end_turn", FinishReason::Stop),
    ("stop_sequence", FinishReason::Stop),
    ("max_tokens", FinishReason::Length),
    ("model_context_window_exceeded", FinishReason::Length),
    ("tool_use", FinishReason::ToolCalls),
    ("refusal", FinishReason::ContentFilter),
];

const ERRORS: &[(&str, ErrorClass)] = &[
    ("authentication_error", ErrorClass::Authentication),
    ("permission_error", ErrorClass::Permission),
    ("billing_error", ErrorClass::Permission),
    ("rate_limit_error", ErrorClass::RateLimit),
    ("overloaded_error", ErrorClass::Overloaded),
    ("invalid_request_error", ErrorClass::InvalidRequest),
    ("request_too_large", ErrorClass::ContextTooLong),
    ("not_found_error", ErrorClass::NotFound),
    ("api_error", ErrorClass::Server),
    ("conflict_error", ErrorClass::Server),
    ("timeout_error", ErrorClass::Transport),
];

/// Blocks that are neither text nor call must not be taken for one that had their number before.
const OPAQUE_SPACE: u8 = 1;

/// How much of a block is given at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Deltas may follow.
    Beginning,
    /// All of it.
    Whole,
}

fn recognise(input: &Input<'_>) -> Option<Evidence> {
    let body = input.value;
    let (is_ours, evidence) = match word(input) {
        // Others call a frame an error too; here the frame says so itself and nobody counts it.
        Some("error") => {
            let is_ours = body.get("type").is_some()
                && body.get("error").is_some_and(|error| error.kind() == Kind::Object)
                && body.get("sequence_number").is_none();
            (is_ours, Evidence::Weak)
        }
        Some("ping") => (body.kind() == Kind::Object, Evidence::Weak),
        Some(word) if EVENTS.contains(&word) => (body.kind() == Kind::Object, Evidence::Strong),
        _ if is_whole(body) => (true, Evidence::Strong),
        // A message whose other members were cut off.
        _ => (is_begun(body), Evidence::Weak),
    };
    is_ours.then_some(evidence)
}

/// What the frame calls itself, else what the framing calls it.
fn word<'a>(input: &Input<'a>) -> Option<&'a str> {
    input.value.get("type").and_then(Value::filled).map(Str::written).or(input.event)
}

fn is_whole(body: Value<'_>) -> bool {
    body.get("content").is_some_and(|content| content.kind() == Kind::Array)
        && match body.get("type").and_then(Value::str) {
            Some(word) => word.is("message"),
            None => body.get("stop_reason").is_some(),
        }
}

fn is_begun(body: Value<'_>) -> bool {
    let has_role = body.get("role").and_then(Value::str).is_some_and(|role| role.is("assistant"));
    has_role && body.get("content").is_some_and(|content| content.kind() == Kind::Array)
}

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    match word(input) {
        Some(word) if EVENTS.contains(&word) => event(word, body, sink),
        _ if is_whole(body) => whole(body, sink),
        None if body.get("error").is_some() => event("error", body, sink),
        // Too little to be recognised by, but enough for who knows what it is.
        None if body.get("content").is_some_and(|content| content.kind() == Kind::Array) => whole(body, sink),
        word => foreign(0, None, "", word.unwrap_or_default(), body, sink),
    }
}

fn whole(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    message(body, sink);
    put(None, Part::Done, sink);
}

fn event(word: &str, event: Value<'_>, sink: &mut FragmentSink<'_>) {
    if word == "error" && event.get("error").is_none() {
        error(event, ERRORS, sink);
        return;
    }
    let place = event.get("index").and_then(Value::index).map(Place::at);
    for (key, value) in event.members() {
        match key {
            "type" | "index" => {}
            "message" => message(value, sink),
            "content_block" => {
                end_other(place, value, sink);
                block(place, value, Extent::Beginning, sink);
            }
            "delta" if word == "message_delta" => message(value, sink),
            "delta" => delta(place, value, sink),
            "usage" => usage(value, sink),
            "error" => {
                error(value, ERRORS, sink);
            }
            _ => foreign(0, None, "", key, value, sink),
        }
    }
    match word {
        "content_block_stop" => put(place, Part::End, sink),
        "message_stop" => put(None, Part::Done, sink),
        _ => {}
    }
}

fn put(place: Option<Place>, part: Part<'_>, sink: &mut FragmentSink<'_>) {
    sink.put(Fragment { choice: 0, place, part });
}

/// A whole message, the skeleton that begins a stream, or what `message_delta` adds to it.
fn message(message: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (id, model) =
        (message.get("id").and_then(Value::filled), message.get("model").and_then(Value::filled));
    if id.is_some() || model.is_some() {
        put(None, Part::Start { id, model }, sink);
    }
    for (key, value) in message.members() {
        match key {
            "id" | "model" | "type" => {}
            "role" if is_usual(value, &["assistant"]) => {}
            "content" if is_kind(value, Kind::String) || value.kind() == Kind::Array => {
                if let Some(text) = value.filled() {
                    put(None, Part::Text { channel: Channel::Text, text }, sink);
                }
                for (index, content) in value.elements().enumerate() {
                    let place = i64::try_from(index).ok().map(Place::at);
                    end_other(place, content, sink);
                    block(place, content, Extent::Whole, sink);
                    put(place, Part::End, sink);
                }
            }
            "usage" if is_kind(value, Kind::Object) => usage(value, sink),
            "stop_reason" if is_kind(value, Kind::String) => {
                if let Some(word) = value.filled() {
                    let reason = finish_reason(word, FINISH);
                    put(None, Part::Finish { reason, raw: Some(word) }, sink);
                }
            }
            _ => foreign(0, None, "", key, value, sink),
        }
    }
}

fn kind(block: Value<'_>) -> &str {
    block.get("type").and_then(Value::str).map_or("", Str::written)
}

/// Ends what stood where a block begins. A call is known by its id: the same one announced again goes on.
fn end_other(place: Option<Place>, block: Value<'_>, sink: &mut FragmentSink<'_>) {
    if !kind(block).ends_with("tool_use") {
        put(place, Part::End, sink);
    }
}

fn block(place: Option<Place>, block: Value<'_>, extent: Extent, sink: &mut FragmentSink<'_>) {
    match kind(block) {
        "text" => text_block(place, Channel::Text, block, sink),
        "thinking" | "redacted_thinking" => text_block(place, Channel::REASONING, block, sink),
        "tool_use" => call(place, CallKind::Function, block, extent, sink),
        // The provider runs these itself: `server_tool_use`, `mcp_tool_use`.
        word if word.ends_with("tool_use") => call(place, CallKind::Builtin, block, extent, sink),
        word if word.ends_with("tool_result") => {
            let call = block.get("tool_use_id").and_then(Value::filled);
            put(None, Part::ToolResult { call, value: block.raw() }, sink);
        }
        "compaction" => compaction(place, block, sink),
        "fallback" => {
            // Another model goes on where the first one refused.
            if let Some(model) = block.get("to").and_then(|to| to.get("model")).and_then(Value::filled) {
                put(None, Part::Rerouted { model }, sink);
            }
            opaque(place, "content[]", block, sink);
        }
        _ => opaque(place, "content[]", block, sink),
    }
}

/// A block that is neither text nor call, one of a list.
fn opaque(place: Option<Place>, key: &'static str, block: Value<'_>, sink: &mut FragmentSink<'_>) {
    foreign(0, place.map(|place| place.in_space(OPAQUE_SPACE)), "", key, block, sink);
}

fn text_block(place: Option<Place>, channel: Channel, block: Value<'_>, sink: &mut FragmentSink<'_>) {
    put(place, Part::Open(channel), sink);
    content(place, block, sink);
}

/// The members of a text or thinking block, and of the deltas that grow any block.
fn content(place: Option<Place>, content: Value<'_>, sink: &mut FragmentSink<'_>) {
    let index = place.map(|place| place.index);
    for (key, value) in content.members() {
        match (key, value.filled()) {
            ("type", _) => {}
            ("text", Some(text)) => put(place, Part::Text { channel: Channel::Text, text }, sink),
            ("thinking", Some(text)) => put(place, Part::Text { channel: Channel::REASONING, text }, sink),
            ("signature", Some(data)) => {
                put(place, Part::Detail { kind: DetailKind::Signature, index, data, extra: None }, sink);
            }
            ("data", Some(data)) => {
                put(place, Part::Detail { kind: DetailKind::Redacted, index, data, extra: None }, sink);
            }
            ("text" | "thinking" | "signature" | "data", None) if is_kind(value, Kind::String) => {}
            ("partial_json", _) => {
                let arguments = match value.kind() {
                    Kind::Null => None,
                    Kind::String => value.str().map(Arguments::Text),
                    _ => Some(Arguments::Value(value.raw())),
                };
                let part = Part::Call { id: None, name: None, kind: CallKind::Function, arguments };
                put(place, part, sink);
            }
            ("citation", _) => put(place, Part::Annotation(value.raw()), sink),
            ("citations", _) if is_kind(value, Kind::Array) => {
                for citation in value.elements() {
                    put(place, Part::Annotation(citation.raw()), sink);
                }
            }
            _ => foreign(0, place, "content[].", key, value, sink),
        }
    }
}

fn delta(place: Option<Place>, delta: Value<'_>, sink: &mut FragmentSink<'_>) {
    match delta.get("type").and_then(Value::str) {
        Some(word) if word.is("compaction_delta") => compaction(place, delta, sink),
        _ => content(place, delta, sink),
    }
}

/// The summary that replaces what came before: not part of the answer, but to be sent back.
fn compaction(place: Option<Place>, compaction: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in compaction.members() {
        match key {
            "type" => {}
            "content" | "encrypted_content" if value.str().is_some_and(Str::is_empty) => {}
            "content" => opaque(place, "content[].compaction.content[]", value, sink),
            "encrypted_content" => opaque(place, "content[].compaction.encrypted_content[]", value, sink),
            _ => foreign(0, None, "content[].compaction.", key, value, sink),
        }
    }
}

fn call(place: Option<Place>, kind: CallKind, block: Value<'_>, extent: Extent, sink: &mut FragmentSink<'_>) {
    let (mut id, mut name, mut arguments) = (None, None, Arguments::Text(Str::Plain("")));
    for (key, value) in block.members() {
        match key {
            "id" => id = value.filled(),
            "name" => name = value.filled(),
            "input" => match value.kind() {
                Kind::Null => {}
                Kind::String => arguments = value.str().map_or(arguments, Arguments::Text),
                // Where deltas may follow, `{}` only holds the place of what they will bring.
                Kind::Object if extent == Extent::Beginning && value.members().next().is_none() => {}
                _ => arguments = Arguments::Value(value.raw()),
            },
            _ => {}
        }
    }
    put(place, Part::Call { id, name, kind, arguments: Some(arguments) }, sink);
    for (key, value) in block.members() {
        if !matches!(key, "type" | "id" | "name" | "input") {
            foreign(0, place, "content[].", key, value, sink);
        }
    }
}

fn usage(usage: Value<'_>, sink: &mut FragmentSink<'_>) {
    if usage.members().next().is_none() {
        return;
    }
    let count = |key: &str| usage.get(key).and_then(Value::count);
    let cached_tokens = count("cache_read_input_tokens");
    let cache_write_tokens = count("cache_creation_input_tokens");
    let cache = cached_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
    let counters = Counters {
        // The wire counts cached tokens beside the input.
        input_tokens: count("input_tokens").map(|input| input.saturating_add(cache)),
        output_tokens: count("output_tokens"),
        total_tokens: None,
        cached_tokens,
        cache_write_tokens,
        reasoning_tokens: usage
            .get("output_tokens_details")
            .and_then(|details| details.get("thinking_tokens"))
            .and_then(Value::count),
    };
    put(None, Part::Usage { counters, raw: usage.raw() }, sink);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn is_ours(event: Option<&str>, frame: &str) -> bool {
        recognise(&Input { event, value: Tape::new().parse(frame).expect("valid") }).is_some()
    }

    #[test]
    fn an_error_is_ours_only_if_it_says_so_itself() {
        assert!(is_ours(None, r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#));
        assert!(!is_ours(Some("error"), r#"{"error":{"message":"m"}}"#));
        assert!(!is_ours(None, r#"{"type":"error","message":"m"}"#));
        assert!(!is_ours(None, r#"{"type":"error","error":{"message":"m"},"sequence_number":2}"#));
    }

    #[test]
    fn the_framing_may_name_what_the_frame_does_not() {
        assert!(is_ours(Some("message_stop"), "{}"));
        assert!(!is_ours(None, "{}"));
    }
}
