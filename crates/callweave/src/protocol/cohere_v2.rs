//! Cohere's v2 chat: named events, and the complete body.
//!
//! Contents and calls are numbered independently. The `tool_plan` (the model's plan before it calls) is emitted as
//! reasoning: it is about the response, not part of it, and Cohere itself keeps it out of the content. It has no number
//! and no end, so it runs until something else begins.

mod encode;
mod request;

use super::call::{CallObject, CallPortion, CallWords};
use super::error::write_message;
use super::{
    DetectionEvidence, ErrorCoding, ErrorContext, ExtraSubject, Protocol, ProtocolFrame, extra,
    finish_reason, is_usual, report, report_usage,
};
use crate::event::{AttachmentKind, FinishReason, TokenCounts};
use crate::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel,
};
use crate::json::{JsonKind, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Cohere v2 chat.
pub static PROTOCOL: Protocol = Protocol {
    name: "cohere-v2",
    aliases: &["cohere", "cohere-chat"],
    title: "Cohere v2 chat",
    volatile: &[],
    kind_follows_text: false,
    errors: ERRORS,
    failure: Some(FAILURE),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: Some(request::CODING),
};

/// The responses to failed requests: a message only.
const FAILURE: ErrorCoding = ErrorCoding::new(|error, class, writer| {
    write_message(error, class.map(|class| ("error_type", class)), writer)
});

const FINISH: &[(&str, FinishReason)] = &[
    ("COMPLETE", FinishReason::Stop),
    ("STOP_SEQUENCE", FinishReason::Stop),
    ("MAX_TOKENS", FinishReason::Length),
    ("ERROR_LIMIT", FinishReason::Length),
    ("TOOL_CALL", FinishReason::ToolCalls),
    ("ERROR_TOXIC", FinishReason::ContentFilter),
    ("ERROR", FinishReason::Error),
    ("TIMEOUT", FinishReason::Error),
];

const ERRORS: &[(&str, ErrorClass)] = &[("TOO_MANY_TOKENS", ErrorClass::ContextTooLong)];

/// The wire type of a response: the wire has no name of its own.
const CHAT: &str = "v2/chat";

mod words {
    pub(super) const TEXT: &str = "text";
    pub(super) const THINKING: &str = "thinking";
    pub(super) const PLAN: &str = "tool_plan";
    pub(super) const CITATIONS: &str = "citations";
}

const CONTENT_SPACE: u8 = 0;
const CALL_SPACE: u8 = 1;

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    let message = body.get("message").map(Value::kind);
    let is_strong = event(input).is_some_and(is_event)
        || message == Some(JsonKind::Object) && body.get("finish_reason").is_some();
    let has_id = || body.get("id").is_some_and(|id| id.kind() == JsonKind::String);
    // An error: the message, an id and perhaps a type, and nothing else. Or a truncated response.
    DetectionEvidence::of(is_strong, || match message {
        Some(JsonKind::String) => {
            has_id() && body.members().all(|(key, _)| matches!(key, "id" | "message" | "error_type"))
        }
        Some(JsonKind::Object) => has_id() && body.get("model").is_none(),
        _ => false,
    })
}

/// The name of the event: its own `type`, else the name of the frame.
fn event<'a>(input: &ProtocolFrame<'a>) -> Option<&'a str> {
    input.value.get("type").and_then(Value::filled).map(Str::written).or(input.event)
}

fn is_event(name: &str) -> bool {
    matches!(
        name,
        "message-start"
            | "message-end"
            | "content-start"
            | "content-delta"
            | "content-end"
            | "tool-plan-delta"
            | "tool-call-start"
            | "tool-call-delta"
            | "tool-call-end"
            | "citation-start"
            | "citation-end"
    )
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    match event(input) {
        Some(name) if is_event(name) => decode_event(name, input.value, sink),
        Some(name) if input.value.get("message").is_none() && input.value.get("error").is_none() => {
            extra(ExtraSubject::ANSWER, "", name, input.value, sink);
        }
        _ => decode_body(input.value, sink),
    }
}

fn decode_event(name: &str, frame: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut place, mut delta, mut id, mut entries) = (None, None, None, None);
    for (key, value) in frame.members() {
        match key {
            "type" => {}
            "index" => place = BlockKey::of(value),
            "delta" => delta = Some(value),
            "id" => id = value.opaque_filled(),
            "logprobs" => entries = Some(value),
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if id.is_some() || name == "message-start" {
        sink.put(Fragment::new(FragmentKind::Start { id, model: None, wire_type: CHAT }));
    }
    logprobs(entries, sink);
    if let Some(delta) = delta {
        decode_delta(place, delta, sink);
    }
    let over = match name {
        "content-end" => place.unwrap_or(BlockKey::at(0)).in_space(CONTENT_SPACE),
        "tool-call-end" => place.unwrap_or(BlockKey::at(0)).in_space(CALL_SPACE),
        "message-end" => {
            sink.put(Fragment::new(FragmentKind::Done));
            return;
        }
        _ => return,
    };
    sink.put(Fragment::new(FragmentKind::End).at(over));
}

fn decode_delta(place: Option<BlockKey>, delta: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut finish, mut usage, mut failure) = (None, None, None);
    for (key, value) in delta.members() {
        match key {
            "message" => decode_message(place, value, sink),
            "finish_reason" => finish = value.str(),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            _ => extra(ExtraSubject::ANSWER, "delta.", key, value, sink),
        }
    }
    // Some gateways put an error type beside the message.
    let code = || delta.get("error_type").and_then(Value::filled);
    decode_end(finish, usage, failure.map(|failure| (failure, code())), sink);
}

/// Reads the end of a response, in the last event or in the complete body.
fn decode_end(
    finish: Option<Str<'_>>,
    usage: Option<Value<'_>>,
    failure: Option<(Value<'_>, Option<Str<'_>>)>,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(usage) = usage {
        report_usage("usage", usage, read_usage, sink);
    }
    if let Some((failure, code)) = failure {
        report(failure, ErrorContext { words: ERRORS, code, ..ErrorContext::default() }, sink);
    }
    if let Some(wire_type) = finish {
        let reason = finish_reason(wire_type, FINISH);
        sink.put(Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }));
    }
}

fn decode_body(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut id, mut model, mut message) = (None, None, None);
    let (mut entries, mut finish, mut usage, mut failure) = (None, None, None, None);
    for (key, value) in body.members() {
        match key {
            "id" => id = value.opaque_filled(),
            "model" => model = value.opaque_filled(),
            "message" => message = Some(value),
            "finish_reason" => finish = value.str(),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            "logprobs" => entries = Some(value),
            // Part of an error that is the body itself, which is passed on completely.
            "error_type" if body.get("error").is_none() => {}
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if id.is_some() || model.is_some() {
        sink.put(Fragment::new(FragmentKind::Start { id, model, wire_type: CHAT }));
    }
    logprobs(entries, sink);
    let mut code = body.get("error_type").and_then(Value::filled);
    match message.map(Value::kind) {
        Some(JsonKind::String) => (failure, code) = (Some(body), None),
        _ => {
            if let Some(message) = message {
                decode_message(None, message, sink);
            }
        }
    }
    decode_end(finish, usage, failure.map(|failure| (failure, code)), sink);
    if finish.is_some() {
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

/// Reads a message: complete, with lists, or the piece of one in an event with its `index`.
fn decode_message(place: Option<BlockKey>, message: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut content, mut plan, mut calls, mut citations) = (None, None, None, None);
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            "content" => content = Some(value),
            "tool_plan" => plan = value.opaque_filled(),
            "tool_calls" => calls = Some(value),
            "citations" => citations = Some(value),
            _ => extra(ExtraSubject::choice(0), "message.", key, value, sink),
        }
    }
    if let Some(text) = content.and_then(Value::opaque_filled) {
        let place = place.unwrap_or(BlockKey::at(0)).in_space(CONTENT_SPACE);
        sink.put(
            Fragment::new(FragmentKind::Text { channel: TextChannel::Text, wire_type: words::TEXT, text })
                .at(place),
        );
    }
    each(place, content, sink, decode_content);
    each(None, citations, sink, |_, citation, _, sink| {
        // The citation itself names its content.
        let (level, kind, wire_type) = (ExtraScope::Choice, AttachmentKind::Annotation, words::CITATIONS);
        sink.put(Fragment::new(FragmentKind::Attach {
            level,
            on: "",
            kind,
            wire_type,
            value: citation.opaque_json(),
        }));
    });
    if let Some(text) = plan {
        sink.put(Fragment::new(FragmentKind::Text {
            channel: TextChannel::REASONING,
            wire_type: words::PLAN,
            text,
        }));
    }
    each(place, calls, sink, decode_call);
}

/// Visits a list of complete values, or the one value in an event with a piece of it.
fn each(
    place: Option<BlockKey>,
    value: Option<Value<'_>>,
    sink: &mut FragmentSink<'_>,
    tell: fn(BlockKey, Value<'_>, CallPortion, &mut FragmentSink<'_>),
) {
    let Some(value) = value else { return };
    match value.kind() {
        JsonKind::Object => tell(place.unwrap_or(BlockKey::at(0)), value, CallPortion::Piece, sink),
        _ => {
            for (position, element) in (0..).zip(value.elements()) {
                tell(BlockKey::at(position), element, CallPortion::Complete, sink);
            }
        }
    }
}

fn decode_content(place: BlockKey, content: Value<'_>, portion: CallPortion, sink: &mut FragmentSink<'_>) {
    let place = place.in_space(CONTENT_SPACE);
    let kind = content.get("type").and_then(Value::str);
    if kind.is_some_and(|kind| !kind.is(words::TEXT) && !kind.is(words::THINKING)) {
        sink.put(
            Fragment::new(FragmentKind::Opaque { wire_type: "content", value: content.opaque_json() })
                .at(place),
        );
        return;
    }
    for (key, value) in content.members() {
        let (channel, wire_type) = match key {
            "type" => continue,
            words::TEXT => (TextChannel::Text, words::TEXT),
            words::THINKING => (TextChannel::REASONING, words::THINKING),
            _ => {
                extra(ExtraSubject::block(0, place), "", key, value, sink);
                continue;
            }
        };
        let Some(text) = value.opaque() else { continue };
        if kind.is_some() {
            sink.put(Fragment::new(FragmentKind::Open { channel, wire_type }).at(place));
        }
        if !text.is_empty() {
            sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).at(place));
        }
    }
    if portion == CallPortion::Complete {
        sink.put(Fragment::new(FragmentKind::End).at(place));
    }
}

const CALL: CallWords =
    CallWords { id: &["id"], index: &[], wrappers: &["function"], arguments: &[], wrapped: &["arguments"] };

fn decode_call(place: BlockKey, call: Value<'_>, portion: CallPortion, sink: &mut FragmentSink<'_>) {
    let place = place.in_space(CALL_SPACE);
    let pass_on = |path, key, value| extra(ExtraSubject::next(0), path, key, value, sink);
    let CallObject { id, name, kind, arguments, .. } = CallObject::read(call, &CALL, pass_on);
    // Even an empty text makes the name final.
    let arguments = arguments.and_then(Value::opaque).map(FragmentArguments::Text);
    sink.put(
        Fragment::new(FragmentKind::Call {
            id: id.map(Into::into),
            name: name.map(Into::into),
            kind,
            wire_type: "tool_calls",
            arguments,
        })
        .at(place),
    );
    if portion == CallPortion::Complete {
        sink.put(Fragment::new(FragmentKind::End).at(place));
    }
}

fn logprobs(entries: Option<Value<'_>>, sink: &mut FragmentSink<'_>) {
    if let Some(entries) = entries.filter(|entries| !entries.is_null()) {
        let (level, kind, wire_type) = (ExtraScope::Choice, AttachmentKind::Logprobs, "logprobs");
        sink.put(Fragment::new(FragmentKind::Attach {
            level,
            on: "",
            kind,
            wire_type,
            value: entries.opaque_json(),
        }));
    }
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    // Billed units leave Cohere's own prompt out; they are the second choice.
    let count = |key: &str| {
        let of = |group: &str| usage.get(group).and_then(|group| group.get(key)).and_then(Value::count);
        of("tokens").or_else(|| of("billed_units"))
    };
    TokenCounts {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        total_tokens: None,
        cached_tokens: usage.get("cached_tokens").and_then(Value::count),
        cache_write_tokens: None,
        reasoning_tokens: count("reasoning_tokens"),
    }
}
