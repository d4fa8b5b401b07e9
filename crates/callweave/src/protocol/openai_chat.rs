//! OpenAI Chat Completions and the many servers with dialects of it: chunk and complete body.

mod encode;
mod request;

use super::call::{CallObject, CallPortion, CallWords, arguments, is_blank};
use super::error::{typed_code, write_typed};
use super::{
    DetectionEvidence, ErrorCoding, ErrorContext, ExtraSubject, Protocol, ProtocolFrame, choice_number,
    counts, error, extra, finish_reason, is_kind, is_usual, report, report_usage,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, ReasoningForm, TokenCounts};
use crate::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel,
};
use crate::json::{JsonKind, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// OpenAI Chat Completions and compatible servers.
pub static PROTOCOL: Protocol = Protocol {
    name: "openai-chat",
    aliases: &["chat", "chat-completions", "openai", "mistral-chat", "mistral", "azure-openai", "openrouter"],
    title: "OpenAI Chat Completions and compatible servers",
    volatile: VOLATILE,
    kind_follows_text: false,
    errors: ERRORS,
    failure: Some(FAILURE),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: Some(request::CODING),
};

/// The responses to failed requests.
const FAILURE: ErrorCoding = ErrorCoding {
    code: typed_code,
    ..ErrorCoding::new(|error, class, writer| {
        writer.object();
        writer.key("error");
        write_typed(error, ERRORS, class, writer);
        writer.end_object();
    })
};

/// Padding that hides token lengths.
const VOLATILE: &[&str] = &["obfuscation", "p", "padding"];

const FINISH: &[(&str, FinishReason)] = &[
    ("stop", FinishReason::Stop),
    ("eos", FinishReason::Stop),
    ("end_turn", FinishReason::Stop),
    ("stop_sequence", FinishReason::Stop),
    ("", FinishReason::Stop),
    ("length", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("model_length", FinishReason::Length),
    ("tool_calls", FinishReason::ToolCalls),
    ("tool_call", FinishReason::ToolCalls),
    ("function_call", FinishReason::ToolCalls),
    ("tool_use", FinishReason::ToolCalls),
    ("content_filter", FinishReason::ContentFilter),
    ("safety", FinishReason::ContentFilter),
    ("error", FinishReason::Error),
];

/// Types and codes, the type first; some are used by one server only.
const ERRORS: &[(&str, ErrorClass)] = &[
    ("authentication_error", ErrorClass::Authentication),
    ("invalid_api_key", ErrorClass::Authentication),
    ("permission_error", ErrorClass::Permission),
    ("insufficient_quota", ErrorClass::Permission),
    ("rate_limit_error", ErrorClass::RateLimit),
    ("rate_limit_exceeded", ErrorClass::RateLimit),
    ("rate_limited", ErrorClass::RateLimit),
    ("service_unavailable_error", ErrorClass::Overloaded),
    ("server_is_overloaded", ErrorClass::Overloaded),
    ("slow_down", ErrorClass::Overloaded),
    ("unavailable_error", ErrorClass::Overloaded),
    ("invalid_request_error", ErrorClass::InvalidRequest),
    ("invalid_request_invalid_args", ErrorClass::InvalidRequest),
    ("Client specified an invalid argument", ErrorClass::InvalidRequest),
    ("tool_use_failed", ErrorClass::InvalidRequest),
    ("content_filter", ErrorClass::InvalidRequest),
    ("context_length_exceeded", ErrorClass::ContextTooLong),
    ("string_above_max_length", ErrorClass::ContextTooLong),
    ("exceed_context_size_error", ErrorClass::ContextTooLong),
    ("too_many_prompt_tokens", ErrorClass::ContextTooLong),
    ("not_found_error", ErrorClass::NotFound),
    ("invalid_model", ErrorClass::NotFound),
    ("model_not_found", ErrorClass::NotFound),
    ("DeploymentNotFound", ErrorClass::NotFound),
    ("unknown_url", ErrorClass::NotFound),
    ("response_not_found", ErrorClass::NotFound),
    ("server_error", ErrorClass::Server),
    ("api_error", ErrorClass::Server),
    ("timeout", ErrorClass::Transport),
    ("connection_error", ErrorClass::Transport),
];

/// The numbers in MiniMax's `base_resp`.
const BASE_RESP: &[(&str, ErrorClass)] = &[
    ("1004", ErrorClass::Authentication),
    ("2049", ErrorClass::Authentication),
    ("1008", ErrorClass::Permission),
    ("2056", ErrorClass::Permission),
    ("1002", ErrorClass::RateLimit),
    ("1039", ErrorClass::RateLimit),
    ("2013", ErrorClass::InvalidRequest),
    ("1026", ErrorClass::InvalidRequest),
    ("1027", ErrorClass::InvalidRequest),
    ("1042", ErrorClass::InvalidRequest),
    ("1000", ErrorClass::Server),
    ("1013", ErrorClass::Server),
    ("1024", ErrorClass::Server),
    ("1033", ErrorClass::Server),
    ("1001", ErrorClass::Transport),
];

/// An element of `tool_calls`.
pub const CALL: CallWords = CallWords {
    id: &["id"],
    index: &["index"],
    wrappers: &["function", "custom"],
    arguments: &["arguments"],
    wrapped: &["arguments", "input"],
};

/// Calls that the provider ran itself (`executed_tools`).
const EXECUTED_SPACE: u8 = 2;

/// OpenRouter's `reasoning_details`, which are numbered but never marked as ended.
const DETAIL_SPACE: u8 = 3;

/// The `object` of a response, streamed or complete.
pub(super) const CHAT: &str = "chat.completion";
pub(super) const CHAT_CHUNK: &str = "chat.completion.chunk";
pub(super) const TEXT_COMPLETION: &str = "text_completion";

/// The wire types of blocks: the member of a message that holds them. Reasoning may be in several members at once.
pub(super) mod words {
    pub(crate) const CONTENT: &str = "content";
    pub(crate) const CONTENT_TEXT: &str = "content[].text";
    pub(crate) const CONTENT_REFUSAL: &str = "content[].refusal";
    pub(crate) const CONTENT_THINKING: &str = "content[].thinking";
    pub(crate) const CONTENT_THINKING_LIST: &str = "content[].thinking[]";
    pub(crate) const CONTENT_REFERENCE: &str = "content[].reference";
    pub(crate) const CONTENT_PART: &str = "content[]";
    pub(crate) const TEXT: &str = "text";
    pub(crate) const REFUSAL: &str = "refusal";
    pub(crate) const TOOL_CALLS: &str = "tool_calls";
    pub(crate) const FUNCTION_CALL: &str = "function_call";
    pub(crate) const EXECUTED_TOOLS: &str = "executed_tools";
    pub(crate) const ANNOTATIONS: &str = "annotations";
    pub(crate) const CITATIONS: &str = "citations";
    pub(crate) const USAGE: &str = "usage";
    pub(crate) const GROQ_USAGE: &str = "x_groq.usage";
    pub(crate) const CHOICE_USAGE: &str = "choices[].usage";
    pub(crate) const THOUGHT_SIGNATURE: &str = "thought_signature";
    pub(crate) const DETAIL_TEXT: &str = "reasoning.text";
    pub(crate) const DETAIL_SUMMARY: &str = "reasoning.summary";
    pub(crate) const DETAIL_ENCRYPTED: &str = "reasoning.encrypted";
    /// Members that hold content unknown to other protocols: each value is a block.
    pub(crate) const OPAQUE: &[&str] = &["audio", "images"];
}

/// A row of [`REASONING`].
pub(super) struct ReasoningMember {
    pub(super) wire_type: &'static str,
    /// The type of the entry of `reasoning_details`, or none.
    pub(super) detail: &'static str,
    pub(super) has_reasoning_content: bool,
    pub(super) has_reasoning: bool,
}

const fn reasoning(
    wire_type: &'static str,
    detail: &'static str,
    has_reasoning_content: bool,
    has_reasoning: bool,
) -> ReasoningMember {
    ReasoningMember { wire_type, detail, has_reasoning_content, has_reasoning }
}

/// The members that may hold the same reasoning, and the wire types of such blocks.
pub(super) const REASONING: &[ReasoningMember] = &[
    reasoning("reasoning_content", "", true, false),
    reasoning("reasoning", "", false, true),
    reasoning("reasoning_content+reasoning", "", true, true),
    reasoning(words::DETAIL_TEXT, words::DETAIL_TEXT, false, false),
    reasoning("reasoning.text+reasoning_content", words::DETAIL_TEXT, true, false),
    reasoning("reasoning.text+reasoning", words::DETAIL_TEXT, false, true),
    reasoning("reasoning.text+reasoning_content+reasoning", words::DETAIL_TEXT, true, true),
    reasoning(words::DETAIL_SUMMARY, words::DETAIL_SUMMARY, false, false),
    reasoning("reasoning.summary+reasoning_content", words::DETAIL_SUMMARY, true, false),
    reasoning("reasoning.summary+reasoning", words::DETAIL_SUMMARY, false, true),
    reasoning("reasoning.summary+reasoning_content+reasoning", words::DETAIL_SUMMARY, true, true),
    reasoning(words::DETAIL_ENCRYPTED, words::DETAIL_ENCRYPTED, false, false),
];

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    let object = body.get("object").and_then(Value::str);
    let choices = body.get("choices").map(Value::kind);
    let is_strong = object.is_some_and(|object| object.written().starts_with("chat.completion"))
        || choices == Some(JsonKind::Array);
    DetectionEvidence::of(is_strong, || {
        object.is_some_and(|object| object.is("error"))
            || choices == Some(JsonKind::Null)
            || body
                .get("error")
                .is_some_and(|error| matches!(error.kind(), JsonKind::Object | JsonKind::String))
            || (body.get("detail").is_some() && body.members().count() == 1)
            || body.get("message").is_some_and(|message| message.kind() == JsonKind::String)
            || body.get("base_resp").is_some_and(|status| status.kind() == JsonKind::Object)
    })
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let (mut id, mut model, mut object) = (None, None, None);
    let (mut choices, mut usage, mut groq) = (None, None, None);
    let (mut message, mut detail) = (None, None);
    let (mut failure, mut refusal, mut citations) = (None, None, None);
    for (key, value) in body.members() {
        match key {
            "id" => id = value.opaque_filled(),
            "model" => model = value.opaque_filled(),
            // Names the shape: chunk, complete body or error.
            "object" => {
                object = value.str();
                if !is_usual(value, &[CHAT, CHAT_CHUNK, TEXT_COMPLETION, "error"]) {
                    extra(ExtraSubject::ANSWER, "", key, value, sink);
                }
            }
            "choices" if is_kind(value, JsonKind::Array) => choices = Some(value),
            "usage" if is_kind(value, JsonKind::Object) => {
                usage = Some(value).filter(|value| !value.is_null())
            }
            // Some servers only flag an error, with the message beside it.
            "error" => failure = Some(value).filter(|value| value.bool() != Some(true)),
            "base_resp" if has_failed(value) => refusal = Some(value),
            // A message of another protocol is not an error message.
            "message" | "detail" if value.get("role").or(value.get("content")).is_none() => {
                *(if key == "message" { &mut message } else { &mut detail }) = Some(value);
            }
            "citations" if is_kind(value, JsonKind::Array) => citations = Some(value),
            "x_groq" if is_kind(value, JsonKind::Object) => {
                for (key, value) in value.members() {
                    match key {
                        "usage" if is_kind(value, JsonKind::Object) => groq = Some(value),
                        _ => extra(ExtraSubject::ANSWER, "x_groq.", key, value, sink),
                    }
                }
            }
            key if VOLATILE.contains(&key) => {}
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    // Some servers report an error as a bare `{"message": …}` or `{"detail": …}` body.
    let has_words = message.or(detail).is_some();
    let is_words = has_words && failure.is_none() && choices.is_none();
    if has_words && !is_words {
        for (key, value) in [("message", message), ("detail", detail)] {
            value.into_iter().for_each(|value| extra(ExtraSubject::ANSWER, "", key, value, sink));
        }
    }
    let is_completion = object.is_some_and(|object| object.is(TEXT_COMPLETION));
    let wire_type = if is_completion { TEXT_COMPLETION } else { CHAT };
    if choices.is_some() || id.is_some() || model.is_some() {
        sink.put(Fragment::new(FragmentKind::Start { id, model, wire_type }));
    }
    if let Some(citations) = citations {
        for citation in citations.elements() {
            attach(0, ExtraScope::Response, AttachmentKind::Annotation, words::CITATIONS, citation, sink);
        }
    }
    if let Some(usage) = groq {
        report_usage(words::GROQ_USAGE, usage, read_usage, sink);
    }
    if let Some(usage) = usage {
        report_usage(words::USAGE, usage, read_usage, sink);
    }
    let is_complete = object.is_some_and(|object| object.is(CHAT));
    let (mut count, mut told_whole) = (0, 0);
    if let Some(choices) = choices {
        for choice in choices.elements() {
            match choice.kind() {
                JsonKind::Object => {
                    told_whole +=
                        usize::from(decode_choice(count, choice, is_complete, sink) == CallPortion::Complete);
                }
                _ => extra(ExtraSubject::ANSWER, "", "choices", choice, sink),
            }
            count += 1;
        }
    }
    if let Some(failure) = failure {
        // Some servers put the code, the type or the status beside the message.
        let context = ErrorContext { words: ERRORS, beside: Some(body), ..ErrorContext::default() };
        report(failure, context, sink);
    }
    if let Some(refusal) = refusal {
        error(refusal, BASE_RESP, sink);
    }
    if is_words {
        error(body, ERRORS, sink);
    }
    // A complete body has everything.
    if count > 0 && told_whole == count || is_complete && choices.is_some() {
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

/// Emits an attachment of the choice or the response.
fn attach(
    choice: u32,
    level: ExtraScope,
    kind: AttachmentKind,
    wire_type: &str,
    value: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    let part = FragmentKind::Attach { level, on: "", kind, wire_type, value: value.opaque_json() };
    sink.put(Fragment::new(part).in_choice(choice));
}

/// Whether MiniMax's status of a response, which it writes beside everything, is not a success.
fn has_failed(status: Value<'_>) -> bool {
    status.get("status_code").and_then(Value::index).is_some_and(|code| code != 0)
}

/// Reads a choice; returns whether it is complete.
fn decode_choice(
    position: usize,
    choice: Value<'_>,
    is_complete: bool,
    sink: &mut FragmentSink<'_>,
) -> CallPortion {
    // Most choices begin with their number.
    let index = choice.members().find(|(key, _)| *key == "index").map(|(_, index)| index);
    let number = choice_number(index, position);
    let (mut delta, mut message, mut spoken, mut finish, mut failure) = (None, None, None, None, None);
    let (mut has_delta, mut has_message, mut has_finish) = (false, false, false);
    sink.put(Fragment::new(FragmentKind::Choice).in_choice(number));
    for (key, value) in choice.members() {
        match key {
            "delta" => has_delta = !value.is_null(),
            "message" => has_message = !value.is_null(),
            "finish_reason" => has_finish = !value.is_null(),
            _ => {}
        }
        match key {
            "index" => {}
            "delta" if is_kind(value, JsonKind::Object) => delta = Some(value).filter(|_| has_delta),
            "message" if is_kind(value, JsonKind::Object) => message = Some(value).filter(|_| has_message),
            "finish_reason" if is_kind(value, JsonKind::String) => finish = value.str(),
            "error" => failure = Some(value),
            "text" if is_kind(value, JsonKind::String) => spoken = Some(value),
            "logprobs" => logprobs(number, value, sink),
            "usage" if is_kind(value, JsonKind::Object) => {
                report_usage(words::CHOICE_USAGE, value, read_usage, sink)
            }
            key if VOLATILE.contains(&key) => {}
            _ => extra(ExtraSubject::choice(number), "", key, value, sink),
        }
    }
    // The text of the older completions. Beside a `delta` (Together) it is a duplicate.
    let is_told = |message: Value<'_>| message.get("content").is_some_and(|content| !is_blank(content));
    if let Some(spoken) = spoken.filter(|_| !delta.into_iter().chain(message).any(is_told)) {
        text(number, TextChannel::Text, words::TEXT, spoken, CallPortion::Piece, sink);
    }
    match (delta, message) {
        // A cumulative `message` beside `delta` (Perplexity) is a duplicate too, but not beside an empty one.
        (Some(delta), message) if message.is_none() || says_something(delta) => {
            decode_message(number, delta, CallPortion::Piece, sink);
        }
        // Alone in a chunk it is another name for `delta`.
        (None, Some(message)) if !is_complete => decode_message(number, message, CallPortion::Piece, sink),
        (_, Some(message)) => decode_message(number, message, CallPortion::Complete, sink),
        (_, None) => {}
    }
    if let Some(wire_type) = finish {
        let reason = finish_reason(wire_type, FINISH);
        sink.put(
            Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }).in_choice(number),
        );
    }
    if let Some(failure) = failure {
        error(failure, ERRORS, sink);
    }
    if has_message && has_finish && !has_delta { CallPortion::Complete } else { CallPortion::Piece }
}

/// Whether a `delta` holds more than a role.
fn says_something(delta: Value<'_>) -> bool {
    delta.members().any(|(key, value)| key != "role" && !is_blank(value))
}

fn text(
    choice: u32,
    channel: TextChannel,
    wire_type: &str,
    value: Value<'_>,
    portion: CallPortion,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(text) = value.opaque_filled() {
        let part = match portion {
            CallPortion::Piece => FragmentKind::Text { channel, wire_type, text },
            CallPortion::Complete => FragmentKind::Restate { channel, wire_type, text, is_recap: true },
        };
        sink.put(Fragment::new(part).in_choice(choice));
    }
}

fn logprobs(choice: u32, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    let put = |wire_type, entries, sink: &mut FragmentSink<'_>| {
        attach(choice, ExtraScope::Choice, AttachmentKind::Logprobs, wire_type, entries, sink);
    };
    match value.kind() {
        JsonKind::Null => {}
        JsonKind::Object => {
            for (key, entries) in value.members() {
                match entries.kind() {
                    JsonKind::Array if entries.elements().next().is_none() => {}
                    JsonKind::Array => put(key, entries, sink),
                    _ => extra(ExtraSubject::choice(choice), "logprobs.", key, entries, sink),
                }
            }
        }
        _ => put("", value, sink),
    }
}

/// Reads a `delta` or a `message`: fields beside the content first, then reasoning, text and calls, in any order of the
/// members.
fn decode_message(choice: u32, message: Value<'_>, portion: CallPortion, sink: &mut FragmentSink<'_>) {
    let (mut content, mut refusal, mut calls, mut legacy, mut executed) = (None, None, None, None, None);
    let (mut details, mut reasoning_content, mut reasoning, mut signature) = (None, None, None, None);
    let mut has_opaque = false;
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            "content" => content = Some(value),
            "refusal" if is_kind(value, JsonKind::String) => refusal = Some(value),
            "tool_calls" if is_list(value) || value.kind() == JsonKind::Object => calls = Some(value),
            "function_call" if is_kind(value, JsonKind::Object) => legacy = Some(value),
            "executed_tools" if is_list(value) => executed = Some(value),
            "reasoning_details" if is_list(value) => details = Some(value),
            "reasoning_content" if is_kind(value, JsonKind::String) => reasoning_content = filled(value),
            "reasoning" if is_kind(value, JsonKind::String) => reasoning = filled(value),
            "annotations" if is_kind(value, JsonKind::Array) => {
                for annotation in value.elements() {
                    let kind = AttachmentKind::Annotation;
                    attach(choice, ExtraScope::Choice, kind, words::ANNOTATIONS, annotation, sink);
                }
            }
            "thought_signature" if is_kind(value, JsonKind::String) => {
                signature = Some(value).filter(|value| value.is_filled());
            }
            key if words::OPAQUE.contains(&key) => has_opaque = true,
            key if VOLATILE.contains(&key) => {}
            _ => extra(ExtraSubject::choice(choice), "message.", key, value, sink),
        }
    }
    if details.or(reasoning_content).or(reasoning).is_some() {
        decode_reasoning_list(choice, details, reasoning_content, reasoning, portion, sink);
    }
    if let Some(value) = signature {
        let (level, kind) = (ExtraScope::Block, AttachmentKind::Signature);
        let part = FragmentKind::Attach {
            level,
            on: "reasoning",
            kind,
            wire_type: words::THOUGHT_SIGNATURE,
            value: value.opaque_json(),
        };
        sink.put(Fragment::new(part).in_choice(choice));
    }
    if let Some(content) = content {
        decode_content(choice, content, portion, sink);
    }
    if let Some(refusal) = refusal {
        text(choice, TextChannel::Refusal, words::REFUSAL, refusal, portion, sink);
    }
    if has_opaque {
        decode_opaque(choice, message, sink);
    }
    if let Some(executed) = executed {
        executed.elements().for_each(|tool| decode_executed(choice, tool, sink));
    }
    // A list of calls, or a single one.
    if let Some(calls) = calls {
        match calls.kind() {
            JsonKind::Object => decode_call(choice, calls, portion, sink),
            _ => calls.elements().for_each(|call| decode_call(choice, call, portion, sink)),
        }
    }
    if let Some(function) = legacy.filter(|legacy| legacy.members().next().is_some()) {
        decode_legacy(choice, function, portion, sink);
    }
}

/// Reads members of a message that hold content unknown to other protocols.
fn decode_opaque(choice: u32, message: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (wire_type, value) in message.members().filter(|(key, _)| words::OPAQUE.contains(key)) {
        let alone = Some(value).filter(|value| !matches!(value.kind(), JsonKind::Array | JsonKind::Null));
        for value in value.elements().chain(alone) {
            sink.put(
                Fragment::new(FragmentKind::Opaque { wire_type, value: value.opaque_json() })
                    .in_choice(choice),
            );
        }
    }
}

/// Reads the single call of the form from before there were several.
fn decode_legacy(choice: u32, function: Value<'_>, portion: CallPortion, sink: &mut FragmentSink<'_>) {
    let name = function.get("name").and_then(Value::opaque_filled);
    let arguments = function.get("arguments").and_then(|value| arguments(value, portion));
    let is_empty = match arguments {
        Some(FragmentArguments::Complete(text)) => text.is_empty(),
        arguments => arguments.is_none(),
    };
    let is_call = name.is_some() || !is_empty;
    for (key, value) in function.members() {
        if key != "arguments" && !(key == "name" && is_kind(value, JsonKind::String)) {
            let subject = if is_call { ExtraSubject::next(choice) } else { ExtraSubject::choice(choice) };
            extra(subject, "", key, value, sink);
        }
    }
    if is_call {
        let place = BlockKey::at(0).in_space(BlockKey::MIRROR);
        let wire_type = words::FUNCTION_CALL;
        let part = FragmentKind::Call { id: None, name, kind: CallKind::Function, wire_type, arguments };
        sink.put(Fragment::new(part).in_choice(choice).at(place));
    }
}

/// Whether the value is a list of objects, or null.
fn is_list(value: Value<'_>) -> bool {
    is_kind(value, JsonKind::Array) && value.elements().all(|element| is_kind(element, JsonKind::Object))
}

/// Reads content: a text, or (Mistral) a list of parts.
fn decode_content(choice: u32, content: Value<'_>, portion: CallPortion, sink: &mut FragmentSink<'_>) {
    text(choice, TextChannel::Text, words::CONTENT, content, portion, sink);
    let alone = match content.kind() {
        // Some templates write a number where a text belongs.
        JsonKind::Number | JsonKind::Bool => {
            let (channel, wire_type, text) = (TextChannel::Text, words::CONTENT, content.opaque_json());
            return sink
                .put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).in_choice(choice));
        }
        JsonKind::Object => Some(content),
        JsonKind::String | JsonKind::Array | JsonKind::Null => None,
    };
    for part in alone.into_iter().chain(content.elements()) {
        let kind = part.get("type").and_then(Value::str).unwrap_or(Str::Plain("text"));
        let told = match (part.kind(), kind.written()) {
            (JsonKind::String, _) => {
                text(choice, TextChannel::Text, words::CONTENT_TEXT, part, CallPortion::Piece, sink);
                continue;
            }
            (JsonKind::Object, "text" | "output_text") if part.get("text").is_some() => "text",
            (JsonKind::Object, "refusal") => "refusal",
            (JsonKind::Object, "thinking") => "thinking",
            (JsonKind::Object, "reference") => {
                let kind = AttachmentKind::Annotation;
                attach(choice, ExtraScope::Choice, kind, words::CONTENT_REFERENCE, part, sink);
                continue;
            }
            _ => {
                let part = FragmentKind::Opaque { wire_type: words::CONTENT_PART, value: part.opaque_json() };
                sink.put(Fragment::new(part).in_choice(choice));
                continue;
            }
        };
        decode_content_part(choice, part, told, sink);
    }
}

/// Reads a part of the content with its text in the member `told`.
fn decode_content_part(choice: u32, part: Value<'_>, told: &str, sink: &mut FragmentSink<'_>) {
    let spoken = part.get(told).filter(|value| is_kind(*value, JsonKind::String) || told == "thinking");
    for (key, value) in part.members() {
        if key != "type" && (key != told || spoken.is_none()) {
            let has_text =
                spoken.is_some_and(|spoken| spoken.is_filled() || spoken.elements().next().is_some());
            let subject = if has_text { ExtraSubject::next(choice) } else { ExtraSubject::choice(choice) };
            extra(subject, "", key, value, sink);
        }
    }
    let Some(spoken) = spoken else { return };
    match told {
        "thinking" => decode_thinking(choice, spoken, sink),
        "refusal" => {
            text(choice, TextChannel::Refusal, words::CONTENT_REFUSAL, spoken, CallPortion::Piece, sink)
        }
        _ => text(choice, TextChannel::Text, words::CONTENT_TEXT, spoken, CallPortion::Piece, sink),
    }
}

/// Reads reasoning: a text, or a list of texts.
fn decode_thinking(choice: u32, thoughts: Value<'_>, sink: &mut FragmentSink<'_>) {
    if !is_kind(thoughts, JsonKind::String) && thoughts.kind() != JsonKind::Array {
        return extra(ExtraSubject::choice(choice), "message.content.", "thinking", thoughts, sink);
    }
    text(choice, TextChannel::REASONING, words::CONTENT_THINKING, thoughts, CallPortion::Piece, sink);
    for thought in thoughts.elements() {
        match thought.get("text").filter(|text| is_kind(*text, JsonKind::String)) {
            Some(value) => {
                text(
                    choice,
                    TextChannel::REASONING,
                    words::CONTENT_THINKING_LIST,
                    value,
                    CallPortion::Piece,
                    sink,
                );
            }
            None => {
                let part = FragmentKind::Opaque {
                    wire_type: words::CONTENT_THINKING_LIST,
                    value: thought.opaque_json(),
                };
                sink.put(Fragment::new(part).in_choice(choice));
            }
        }
    }
}

/// Reads reasoning, which some servers send in several members at once: it is emitted once, from the best of them.
fn decode_reasoning_list(
    choice: u32,
    details: Option<Value<'_>>,
    reasoning_content: Option<Value<'_>>,
    reasoning: Option<Value<'_>>,
    portion: CallPortion,
    sink: &mut FragmentSink<'_>,
) {
    let told = details.iter().flat_map(|details| details.elements()).filter_map(detail_text);
    let (best, is_single) = match told.clone().count() {
        0 => (reasoning_content.or(reasoning), true),
        count => (told.clone().next(), count == 1),
    };
    // The same reasoning in another member is a duplicate; another text there is passed on.
    let mut is_told = |key: &'static str, text: Option<Value<'_>>| match (text, best) {
        (Some(text), Some(best)) if is_single && !text.is_same(best) => {
            extra(ExtraSubject::choice(choice), "message.", key, text, sink);
            false
        }
        (text, _) => text.is_some(),
    };
    let has_reasoning_content = is_told("reasoning_content", reasoning_content);
    let has_reasoning = is_told("reasoning", reasoning);
    let wire_type = |detail: &str| {
        let is_row = |row: &&ReasoningMember| {
            row.detail == detail
                && row.has_reasoning_content == has_reasoning_content
                && row.has_reasoning == has_reasoning
        };
        REASONING.iter().find(is_row).map(|row| row.wire_type)
    };
    for detail in details.iter().flat_map(|details| details.elements()) {
        let kind = detail.get("type").and_then(Value::filled).map_or(words::DETAIL_TEXT, Str::written);
        decode_detail(choice, detail, kind, wire_type(kind).unwrap_or(kind), sink);
    }
    if told.count() == 0
        && let (Some(text), Some(wire_type)) = (best.and_then(Value::opaque), wire_type(""))
    {
        let part = match portion {
            CallPortion::Piece => FragmentKind::Text { channel: TextChannel::REASONING, wire_type, text },
            CallPortion::Complete => {
                FragmentKind::Restate { channel: TextChannel::REASONING, wire_type, text, is_recap: true }
            }
        };
        sink.put(Fragment::new(part).in_choice(choice));
    }
}

/// The reasoning text of a detail.
fn detail_text(detail: Value<'_>) -> Option<Value<'_>> {
    ["text", "summary"].iter().find_map(|key| detail.get(key).and_then(filled))
}

/// The value, if it is a string that is not empty.
fn filled(value: Value<'_>) -> Option<Value<'_>> {
    value.is_filled().then_some(value)
}

/// Reads one of OpenRouter's `reasoning_details`. Fragments of one detail share their index and type.
fn decode_detail(choice: u32, detail: Value<'_>, kind: &str, wire_type: &str, sink: &mut FragmentSink<'_>) {
    let place = BlockKey::at(detail.get("index").and_then(Value::index).unwrap_or(0));
    let place = place.in_space(DETAIL_SPACE).running();
    let thought = detail_text(detail);
    let attached = |key| detail.get(key).and_then(filled);
    let attachments = [
        ("signature", AttachmentKind::Signature, attached("signature")),
        ("data", AttachmentKind::Encrypted, attached("data")),
    ];
    let is_empty = thought.is_none() && attachments.iter().all(|(.., value)| value.is_none());
    for (key, value) in detail.members() {
        let is_read = match key {
            "text" | "summary" | "signature" | "data" => is_kind(value, JsonKind::String),
            "index" => value.index().is_some() || value.is_null(),
            "type" => value.kind() == JsonKind::String,
            _ => false,
        };
        if !is_read {
            let (subject, path) = if is_empty {
                (ExtraSubject::choice(choice), "message.reasoning_details.")
            } else {
                (ExtraSubject::next(choice), "")
            };
            extra(subject, path, key, value, sink);
        }
    }
    let form = match kind {
        words::DETAIL_SUMMARY => ReasoningForm::Summary,
        words::DETAIL_ENCRYPTED => ReasoningForm::Redacted,
        _ => ReasoningForm::Raw,
    };
    let channel = TextChannel::Reasoning(form);
    if let Some(text) = thought.and_then(Value::opaque) {
        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).in_choice(choice).at(place));
    }
    if kind == words::DETAIL_ENCRYPTED && !is_empty {
        sink.put(Fragment::new(FragmentKind::Open { channel, wire_type: kind }).in_choice(choice).at(place));
    }
    for (wire_type, attachment, value) in attachments {
        if let Some(value) = value {
            let value = value.opaque_json();
            let part = FragmentKind::hung(kind, attachment, wire_type, value);
            sink.put(Fragment::new(part).in_choice(choice).at(place));
        }
    }
}

/// Reads a call that the provider ran itself, with its result.
fn decode_executed(choice: u32, tool: Value<'_>, sink: &mut FragmentSink<'_>) {
    let place = BlockKey::at(tool.get("index").and_then(Value::index).unwrap_or(0)).in_space(EXECUTED_SPACE);
    let wire_type = words::EXECUTED_TOOLS;
    let name = tool.get("type").and_then(Value::opaque_filled);
    let arguments = tool.get("arguments").and_then(|value| arguments(value, CallPortion::Complete));
    let is_over = tool.get("output").is_some_and(|output| !output.is_null());
    for (key, value) in tool.members() {
        if !is_over && !matches!(key, "index" | "type" | "arguments") {
            extra(ExtraSubject::next(choice), "", key, value, sink);
        }
    }
    let part = FragmentKind::Call { id: None, name, kind: CallKind::Builtin, wire_type, arguments };
    sink.put(Fragment::new(part).in_choice(choice).at(place));
    if is_over {
        let part = FragmentKind::ToolResult { call: None, wire_type, value: tool.opaque_json() };
        sink.put(Fragment::new(part).in_choice(choice).at(place));
    }
}

fn decode_call(choice: u32, call: Value<'_>, portion: CallPortion, sink: &mut FragmentSink<'_>) {
    let pass_on = |path, key, value| extra(ExtraSubject::next(choice), path, key, value, sink);
    let call = CallObject::read(call, &CALL, pass_on);
    let arguments = call.told(portion);
    let CallObject { id, name, kind, index, .. } = call;
    let place = index.and_then(BlockKey::of);
    let part = FragmentKind::Call {
        id: id.map(Into::into),
        name: name.map(Into::into),
        kind,
        wire_type: words::TOOL_CALLS,
        arguments,
    };
    sink.put(Fragment { choice, key: place, part });
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    let (mut prompt, mut completion) = ([None; 2], [None; 1]);
    let [mut input, mut output, mut total, mut thoughts, mut written] = [None; 5];
    // The first of them that is present counts.
    let mut cached = [None; 4];
    for (key, value) in usage.members() {
        match key {
            "prompt_tokens" => input = value.count(),
            "completion_tokens" => output = value.count(),
            "total_tokens" => total = value.count(),
            "prompt_tokens_details" => prompt = counts(value, ["cached_tokens", "cache_write_tokens"]),
            "completion_tokens_details" => completion = counts(value, ["reasoning_tokens"]),
            "reasoning_tokens" => thoughts = value.count(),
            "prompt_cache_hit_tokens" => cached[0] = value.count(),
            "cached_tokens" => cached[1] = value.count(),
            "num_cached_tokens" => cached[2] = value.count(),
            "cache_read_input_tokens" => cached[3] = value.count(),
            "cache_creation_input_tokens" => written = value.count(),
            _ => {}
        }
    }
    let reasoning = completion[0].or(thoughts);
    if let (Some(prompt), Some(completion), Some(thoughts), Some(sum)) = (input, output, reasoning, total)
        && thoughts > 0
        && prompt.checked_add(completion).and_then(|spoken| spoken.checked_add(thoughts)) == Some(sum)
    {
        // xAI counts its reasoning beside the completion, everybody else inside it.
        output = Some(completion + thoughts);
    }
    TokenCounts {
        input_tokens: input,
        output_tokens: output,
        total_tokens: total,
        cached_tokens: prompt[0].or_else(|| cached.into_iter().flatten().next()),
        cache_write_tokens: prompt[1].or(written),
        reasoning_tokens: reasoning,
    }
}
