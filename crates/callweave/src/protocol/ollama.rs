//! Ollama's own API, `/api/chat` and `/api/generate`: one object per line, or one complete body.
//!
//! Calls come complete. Their `function.index` is not used: old builds leave it out or number every call 0, and a call
//! that is never continued needs no number.

mod encode;
mod request;

#[cfg(feature = "exchange")]
pub(crate) use request::chat_of_prompt;

use super::call::{CallObject, CallPortion, CallWords};
use super::{
    DetectionEvidence, ErrorCoding, ErrorContext, ExtraSubject, Protocol, ProtocolFrame, extra,
    finish_reason, is_usual, report,
};
use crate::event::{AttachmentKind, FinishReason, TokenCounts};
use crate::fragment::{
    ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel, UsageReport,
};
use crate::json::{JsonKind, TapeNode as Value};

/// Ollama /api/chat and /api/generate.
pub static PROTOCOL: Protocol = Protocol {
    name: "ollama",
    aliases: &["ollama-chat", "ollama-generate", "ollama-native"],
    title: "Ollama /api/chat and /api/generate",
    volatile: VOLATILE,
    kind_follows_text: false,
    // Its errors are plain messages.
    errors: &[],
    failure: Some(FAILURE),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: Some(request::CODING),
};

/// The responses to failed requests: a message only.
const FAILURE: ErrorCoding = ErrorCoding::new(|error, class, writer| {
    writer.object();
    writer.text_member("error", &error.message);
    if let Some(class) = class {
        writer.text_member("code", class);
    }
    writer.end_object();
});

/// The time of each single line.
const VOLATILE: &[&str] = &["created_at"];

const FINISH: &[(&str, FinishReason)] = &[
    ("stop", FinishReason::Stop),
    ("", FinishReason::Stop),
    ("length", FinishReason::Length),
    ("tool_calls", FinishReason::ToolCalls),
    // Ollama itself has no names for these; gateways in its place do.
    ("content_filter", FinishReason::ContentFilter),
    ("error", FinishReason::Error),
];

/// The wire types of a response, by its request: the wire has no name of its own.
const CHAT: &str = "chat";
const GENERATE: &str = "generate";

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    let is_kind = |key, kind| body.get(key).is_some_and(|value| value.kind() == kind);
    if !is_kind("model", JsonKind::String) {
        return None;
    }
    // The member `done` comes late, and may have been truncated.
    DetectionEvidence::of(is_kind("done", JsonKind::Bool), || {
        is_kind("created_at", JsonKind::String)
            && (is_kind("message", JsonKind::Object) || is_kind("response", JsonKind::String))
    })
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let (mut thinking, mut response, mut message) = (None, None, None);
    let (mut logprobs, mut failure) = (None, None);
    let (mut is_done, mut reason) = (false, None);
    let (mut model, mut counts) = (None, [None; 2]);
    for (key, value) in body.members() {
        match key {
            "model" => model = Some(value),
            "message" => message = Some(value),
            "thinking" => thinking = Some(value),
            "response" => response = Some(value),
            "logprobs" => logprobs = Some(value),
            "error" => failure = Some(value),
            "done" => is_done = value.bool() == Some(true),
            "done_reason" => reason = value.str(),
            "prompt_eval_count" => counts[0] = Some(value),
            "eval_count" => counts[1] = Some(value),
            key if VOLATILE.contains(&key) => {}
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if let model @ Some(_) = model.and_then(Value::opaque_filled) {
        let wire_type = if response.is_some() { GENERATE } else { CHAT };
        sink.put(Fragment::new(FragmentKind::Start { id: None, model, wire_type }));
    }
    decode_usage(counts.map(|count| count.and_then(Value::count)), sink);
    if let Some(entries) = logprobs.filter(|entries| entries.elements().next().is_some()) {
        let (level, kind, wire_type) = (ExtraScope::Choice, AttachmentKind::Logprobs, "logprobs");
        sink.put(Fragment::new(FragmentKind::Attach {
            level,
            on: "",
            kind,
            wire_type,
            value: entries.opaque_json(),
        }));
    }
    text(TextChannel::REASONING, "thinking", thinking, sink);
    text(TextChannel::Text, "response", response, sink);
    if let Some(message) = message {
        decode_message(message, sink);
    }
    if let Some(failure) = failure {
        report(failure, ErrorContext { beside: Some(body), ..ErrorContext::default() }, sink);
    }
    if is_done {
        let mapped = reason.map_or(FinishReason::Stop, |wire_type| finish_reason(wire_type, FINISH));
        sink.put(Fragment::new(FragmentKind::Finish { reason: mapped, raw: reason.map(Into::into) }));
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

fn text(channel: TextChannel, wire_type: &str, value: Option<Value<'_>>, sink: &mut FragmentSink<'_>) {
    if let Some(text) = value.and_then(Value::opaque_filled) {
        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }));
    }
}

/// Reads reasoning first, then text, then calls, in any order of the members.
fn decode_message(message: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut thinking, mut content, mut calls, mut images) = (None, None, None, None);
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            "thinking" => thinking = Some(value),
            "content" => content = Some(value),
            "tool_calls" => calls = Some(value),
            // Images that the model has made.
            "images" => {
                images = Some(value);
                if value.kind() != JsonKind::Array {
                    extra(ExtraSubject::choice(0), "message.", key, value, sink);
                }
            }
            _ => extra(ExtraSubject::choice(0), "message.", key, value, sink),
        }
    }
    text(TextChannel::REASONING, "thinking", thinking, sink);
    text(TextChannel::Text, "content", content, sink);
    for image in images.iter().flat_map(|images| images.elements()) {
        sink.put(Fragment::new(FragmentKind::Opaque { wire_type: "images", value: image.opaque_json() }));
    }
    for call in calls.iter().flat_map(|calls| calls.elements()) {
        decode_call(call, sink);
    }
}

const CALL: CallWords = CallWords {
    id: &["id"],
    index: &["index"],
    wrappers: &["function"],
    arguments: &["arguments"],
    wrapped: &["arguments"],
};

fn decode_call(call: Value<'_>, sink: &mut FragmentSink<'_>) {
    let call = CallObject::read(call, &CALL, |path, key, value| {
        if key != "index" {
            extra(ExtraSubject::next(0), path, key, value, sink);
        }
    });
    let arguments = Some(call.told(CallPortion::Complete).unwrap_or(FragmentArguments::Value("{}".into())));
    let CallObject { id, name, kind, .. } = call;
    sink.put(Fragment::new(FragmentKind::Call {
        id: id.map(Into::into),
        name: name.map(Into::into),
        kind,
        wire_type: "tool_calls",
        arguments,
    }));
    sink.put(Fragment::new(FragmentKind::End));
}

/// Reads the counters. They are among the other members, so their object is made here.
fn decode_usage([input, output]: [Option<u64>; 2], sink: &mut FragmentSink<'_>) {
    let counters = TokenCounts { input_tokens: input, output_tokens: output, ..TokenCounts::default() };
    let raw = match (input, output) {
        (None, None) => return,
        (Some(input), None) => format!("{{\"prompt_eval_count\":{input}}}"),
        (None, Some(output)) => format!("{{\"eval_count\":{output}}}"),
        (Some(input), Some(output)) => {
            format!("{{\"prompt_eval_count\":{input},\"eval_count\":{output}}}")
        }
    };
    sink.put(Fragment::new(FragmentKind::Usage { wire_type: "", usage: UsageReport::new(counters, &*raw) }));
}
