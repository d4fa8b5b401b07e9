//! Amazon Bedrock Converse and ConverseStream.
//!
//! A stream event is the bare object under a name that only the framing knows, or (as the SDKs print it) an object with
//! that name as its one member: `{"contentBlockDelta": {…}}`. Blocks are numbered by `contentBlockIndex`, in a complete
//! response by their position. Text and reasoning begin without an event of their own. The start and the deltas of a
//! block and the blocks of a complete response have the same members, so all three are read by the same code.

mod encode;
mod request;

use super::{
    DetectionEvidence, ErrorContext, ExtraSubject, Protocol, ProtocolFrame, error, extra, finish_reason,
    is_usual, report, report_usage,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, ReasoningForm, TokenCounts};
use crate::fragment::{BlockKey, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel};
use crate::json::{JsonKind, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Amazon Bedrock Converse.
pub static PROTOCOL: Protocol = Protocol {
    name: "bedrock-converse",
    aliases: &["converse", "bedrock"],
    title: "Amazon Bedrock Converse",
    volatile: VOLATILE,
    kind_follows_text: false,
    errors: ERRORS,
    failure: Some(super::error::AMAZON),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: Some(request::CODING),
};

/// Padding that hides token lengths.
const VOLATILE: &[&str] = &["p"];

/// The members that hold the message of a response.
const OUTPUT: &str = "output";
const CONTENT: &str = "content";

/// The members that hold the content of a block, and are its wire type.
const TEXT: &str = "text";
const REASONING: &str = "reasoningContent";
const TOOL_USE: &str = "toolUse";
const TOOL_RESULT: &str = "toolResult";
/// Text with citations, in a complete response.
const CITATIONS: &str = "citationsContent";

/// The members of reasoning; in a complete response its visible text is one level deeper.
const REASONING_TEXT: &str = "reasoningText";
const SIGNATURE: &str = "signature";
const REDACTED: &str = "redactedContent";

/// The type of a call that the provider runs itself.
const SERVER_TOOL_USE: &str = "server_tool_use";

/// The member with token counts.
const USAGE: &str = "usage";

const EVENTS: &[&str] = &[
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
];

const FINISH: &[(&str, FinishReason)] = &[
    ("end_turn", FinishReason::Stop),
    ("stop_sequence", FinishReason::Stop),
    ("max_tokens", FinishReason::Length),
    ("model_context_window_exceeded", FinishReason::Length),
    ("tool_use", FinishReason::ToolCalls),
    ("guardrail_intervened", FinishReason::ContentFilter),
    ("content_filtered", FinishReason::ContentFilter),
    ("malformed_model_output", FinishReason::Error),
    ("malformed_tool_use", FinishReason::Error),
];

/// The names in streams; the error types of complete responses begin with a capital.
const ERRORS: &[(&str, ErrorClass)] = &[
    ("accessDeniedException", ErrorClass::Permission),
    ("throttlingException", ErrorClass::RateLimit),
    ("serviceQuotaExceededException", ErrorClass::RateLimit),
    ("serviceUnavailableException", ErrorClass::Overloaded),
    ("modelNotReadyException", ErrorClass::Overloaded),
    ("validationException", ErrorClass::InvalidRequest),
    ("resourceNotFoundException", ErrorClass::NotFound),
    ("internalServerException", ErrorClass::Server),
    ("modelStreamErrorException", ErrorClass::Server),
    ("modelErrorException", ErrorClass::Server),
    ("modelTimeoutException", ErrorClass::Transport),
];

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    if let Some(name) = input.event {
        return is_event(name, body).then_some(DetectionEvidence::Strong);
    }
    let has = |is: fn(&str, Value<'_>) -> bool| body.members().any(|(name, value)| is(name, value));
    DetectionEvidence::of(is_complete(body) || has(is_event), || has(is_exception))
}

fn is_complete(body: Value<'_>) -> bool {
    body.get("output").and_then(|output| output.get("message")).is_some_and(|message| {
        message.get("content").is_some_and(|content| content.kind() == JsonKind::Array)
    })
}

fn is_event(name: &str, value: Value<'_>) -> bool {
    match name {
        // The one name that other protocols use too.
        "metadata" => ["usage", "metrics", "trace"].iter().any(|key| value.get(key).is_some()),
        _ => value.kind() == JsonKind::Object && EVENTS.contains(&name),
    }
}

/// Whether it is an exception, such as `throttlingException`.
fn is_exception(name: &str, value: Value<'_>) -> bool {
    value.kind() == JsonKind::Object && name.ends_with("Exception")
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    match input.event {
        Some(name) if EVENTS.contains(&name) => return event(name, body, sink),
        Some(name) if is_exception(name, body) => return exception(name, body, sink),
        _ => {}
    }
    if is_complete(body) {
        put(None, FragmentKind::Start { id: None, model: None, wire_type: OUTPUT }, sink);
        answer(body, sink);
        // A response without a stop reason was truncated.
        if body.get("stopReason").is_some() {
            put(None, FragmentKind::Done, sink);
        }
    } else if body.members().any(|(name, value)| is_event(name, value) || is_exception(name, value)) {
        for (name, value) in body.members() {
            if EVENTS.contains(&name) {
                event(name, value, sink);
            } else if is_exception(name, value) {
                exception(name, value, sink);
            } else if !VOLATILE.contains(&name) {
                extra(ExtraSubject::ANSWER, "", name, value, sink);
            }
        }
    } else if input.event.is_none()
        && body.get("message").or(body.get("Message")).is_some_and(|words| words.kind() == JsonKind::String)
    {
        error(body, ERRORS, sink);
    } else {
        extra(ExtraSubject::ANSWER, "", input.event.unwrap_or_default(), body, sink);
    }
}

/// Reads an exception; its name is its class.
fn exception(name: &str, exception: Value<'_>, sink: &mut FragmentSink<'_>) {
    let context = ErrorContext { words: ERRORS, code: Some(Str::Plain(name)), ..ErrorContext::default() };
    report(exception, context, sink);
}

fn put(place: Option<BlockKey>, part: FragmentKind<'_>, sink: &mut FragmentSink<'_>) {
    sink.put(Fragment { choice: 0, key: place, part });
}

/// The subject of fields of the block with the block key.
fn about(place: Option<BlockKey>) -> ExtraSubject {
    place.map_or(ExtraSubject::choice(0), |place| ExtraSubject::block(0, place))
}

fn event(name: &str, event: Value<'_>, sink: &mut FragmentSink<'_>) {
    put(None, FragmentKind::Start { id: None, model: None, wire_type: OUTPUT }, sink);
    if !name.starts_with("contentBlock") {
        answer(event, sink);
    } else {
        let place = event.get("contentBlockIndex").and_then(BlockKey::of);
        for (key, value) in event.members() {
            match key {
                "contentBlockIndex" => {}
                "start" | "delta" => content(place, value, sink),
                key if VOLATILE.contains(&key) => {}
                _ => extra(about(place), "", key, value, sink),
            }
        }
        if name == "contentBlockStop" {
            put(place, FragmentKind::End, sink);
        }
    }
    // `metadata` follows `messageStop`, though not in this order in all recordings, and nothing follows both.
    if matches!(name, "messageStop" | "metadata") {
        put(None, FragmentKind::HalfDone, sink);
    }
}

/// Reads a complete response, or the events with its fields besides the content.
fn answer(answer: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut output, mut counts, mut finish, mut failure) = (None, None, None, None);
    for (key, value) in answer.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            OUTPUT => output = Some(value),
            USAGE => counts = Some(value),
            "stopReason" => finish = value.filled(),
            key if VOLATILE.contains(&key) => {}
            key if is_exception(key, value) => failure = Some((key, value)),
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if let Some(counts) = counts {
        report_usage(USAGE, counts, read_usage, sink);
    }
    for (key, value) in output.iter().flat_map(|output| output.members()) {
        match key {
            "message" => message(value, sink),
            _ => extra(ExtraSubject::ANSWER, "output.", key, value, sink),
        }
    }
    if let Some((name, value)) = failure {
        exception(name, value, sink);
    }
    if let Some(wire_type) = finish {
        let reason = finish_reason(wire_type, FINISH);
        put(None, FragmentKind::Finish { reason, raw: Some(wire_type.into()) }, sink);
    }
}

fn message(message: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            CONTENT => {
                for (index, block) in value.elements().enumerate() {
                    let place = i64::try_from(index).ok().map(BlockKey::at);
                    content(place, block, sink);
                    put(place, FragmentKind::End, sink);
                }
            }
            _ => extra(ExtraSubject::choice(0), "message.", key, value, sink),
        }
    }
}

/// Reads a block of a complete response, or the beginning or a delta of one.
fn content(place: Option<BlockKey>, content: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in content.members() {
        match key {
            // Some gateways name the kind beside the member that implies it.
            "type" if is_usual(value, &["text", "tool_use", "tool_result", "reasoning"]) => {}
            TEXT => text(place, TextChannel::Text, key, value, sink),
            REASONING => reasoning(place, value, sink),
            TOOL_USE => call(place, value, sink),
            TOOL_RESULT => result(place, value, sink),
            "citation" => annotation(place, value, sink),
            CITATIONS => citations(place, value, sink),
            // Images and future content.
            _ if value.kind() == JsonKind::Object => {
                put(place, FragmentKind::Opaque { wire_type: key, value: value.opaque_json() }, sink);
            }
            _ => extra(about(place), "", key, value, sink),
        }
    }
}

fn citations(place: Option<BlockKey>, content: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in content.members() {
        match key {
            CONTENT => {
                for (key, value) in value.elements().flat_map(Value::members) {
                    match key {
                        TEXT => text(place, TextChannel::Text, key, value, sink),
                        _ => extra(about(place), "citationsContent.", key, value, sink),
                    }
                }
            }
            "citations" => value.elements().for_each(|citation| annotation(place, citation, sink)),
            _ => extra(about(place), "citationsContent.", key, value, sink),
        }
    }
}

fn text(
    place: Option<BlockKey>,
    channel: TextChannel,
    wire_type: &str,
    value: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(text) = value.opaque_filled() {
        put(place, FragmentKind::Text { channel, wire_type, text }, sink);
    }
}

/// Reads a citation, which may come before the text that it belongs to.
fn annotation(place: Option<BlockKey>, citation: Value<'_>, sink: &mut FragmentSink<'_>) {
    put(place, FragmentKind::Open { channel: TextChannel::Text, wire_type: TEXT }, sink);
    put(
        place,
        FragmentKind::hung(REASONING, AttachmentKind::Annotation, "citations", citation.opaque_json()),
        sink,
    );
}

/// Reads reasoning: its text may be one level deeper.
fn reasoning(place: Option<BlockKey>, content: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in content.members() {
        match key {
            REASONING_TEXT if value.kind() == JsonKind::Object => {
                for (key, value) in value.members() {
                    thought(place, key, value, sink);
                }
            }
            _ => thought(place, key, value, sink),
        }
    }
}

fn thought<'a>(place: Option<BlockKey>, key: &'a str, value: Value<'a>, sink: &mut FragmentSink<'_>) {
    let (kind, form) = match key {
        TEXT => return text(place, TextChannel::REASONING, REASONING, value, sink),
        SIGNATURE => (AttachmentKind::Signature, ReasoningForm::Raw),
        REDACTED => (AttachmentKind::Encrypted, ReasoningForm::Redacted),
        _ => return extra(about(place), "reasoningContent.", key, value, sink),
    };
    if value.is_filled() {
        // Reasoning may have no visible text, and then nothing has opened its block.
        put(place, FragmentKind::Open { channel: TextChannel::Reasoning(form), wire_type: REASONING }, sink);
        put(place, FragmentKind::hung(REASONING, kind, key, value.opaque_json()), sink);
    }
}

fn call(place: Option<BlockKey>, tool: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut id, mut name, mut kind, mut arguments) = (None, None, CallKind::Function, None);
    for (key, value) in tool.members() {
        match key {
            "toolUseId" => id = value.opaque_filled(),
            "name" => name = value.opaque_filled(),
            "type" if value.str().is_some_and(|wire_type| wire_type.is(SERVER_TOOL_USE)) => {
                kind = CallKind::Builtin
            }
            "input" => {
                arguments = match value.kind() {
                    JsonKind::Null => None,
                    JsonKind::String => value.opaque().map(FragmentArguments::Text),
                    _ => Some(FragmentArguments::Value(value.opaque_json())),
                };
            }
            _ => extra(ExtraSubject::next(0), "toolUse.", key, value, sink),
        }
    }
    // A name is always complete.
    let arguments = arguments.or(name.map(|_| FragmentArguments::Text("".into())));
    put(place, FragmentKind::Call { id, name, kind, wire_type: TOOL_USE, arguments }, sink);
}

/// Reads the result of a provider's tool: complete; or, streamed, its head and then a list of its content.
fn result(place: Option<BlockKey>, result: Value<'_>, sink: &mut FragmentSink<'_>) {
    let wire_type = TOOL_RESULT;
    if result.kind() == JsonKind::Array {
        return put(
            place,
            FragmentKind::ToolResult { call: None, wire_type, value: result.opaque_json() },
            sink,
        );
    }
    for (key, value) in result.members() {
        if !matches!(key, "toolUseId" | CONTENT) {
            extra(ExtraSubject::next(0), "toolResult.", key, value, sink);
        }
    }
    let call = result.get("toolUseId").and_then(Value::opaque_filled);
    if let Some(call) = call {
        put(place, FragmentKind::ResultOf { call }, sink);
    }
    if let Some(content) = result.get(CONTENT).filter(|content| !content.is_null()) {
        put(place, FragmentKind::ToolResult { call, wire_type, value: content.opaque_json() }, sink);
    }
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    let count = |key: &str| usage.get(key).and_then(Value::count);
    let cached_tokens = count("cacheReadInputTokens").or_else(|| count("cacheReadInputTokenCount"));
    let cache_write_tokens = count("cacheWriteInputTokens").or_else(|| count("cacheWriteInputTokenCount"));
    let cache = cached_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
    TokenCounts {
        // The wire counts cached tokens beside the input.
        input_tokens: count("inputTokens").map(|input| input.saturating_add(cache)),
        output_tokens: count("outputTokens"),
        total_tokens: count("totalTokens"),
        cached_tokens,
        cache_write_tokens,
        reasoning_tokens: None,
    }
}
