//! Gemini's Interactions: events about numbered steps, and the complete interaction.
//!
//! A step is reasoning, an output, a call, or the result of a call that Google ran. An older version of the same
//! protocol names steps contents (`content.start`, `outputs`). The texts of an output are one block: the events do not
//! distinguish its parts.

use super::{
    DetectionEvidence, ExtraSubject, Protocol, ProtocolFrame, error, extra, finish_reason, is_usual,
    report_usage,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, TokenCounts};
use crate::fragment::{BlockKey, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel};
use crate::json::{JsonKind, Opaque, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Gemini Interactions.
pub static PROTOCOL: Protocol = Protocol {
    name: "gemini-interactions",
    aliases: &["interactions", "google-interactions"],
    title: "Gemini Interactions",
    volatile: VOLATILE,
    kind_follows_text: false,
    errors: ERRORS,
    failure: None,
    recognise,
    decode,
    encode: None,
    request: None,
};

/// The id for resuming a broken stream.
const VOLATILE: &[&str] = &["event_id"];

/// The statuses of an interaction that has ended, temporarily or finally.
const STATUS: &[(&str, FinishReason)] = &[
    ("completed", FinishReason::Stop),
    ("requires_action", FinishReason::ToolCalls),
    ("incomplete", FinishReason::Length),
    ("budget_exceeded", FinishReason::Length),
    ("failed", FinishReason::Error),
    ("cancelled", FinishReason::Other),
];

const ERRORS: &[(&str, ErrorClass)] = &[("internal_error", ErrorClass::Server)];

/// The statuses of a running interaction.
const GOING_ON: [&str; 3] = ["in_progress", "queued", ""];

const INTERACTION: &str = "interaction.";
/// The wire type of a response.
const WORD: &str = "interaction";

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let is_interaction =
        input.value.get("object").and_then(Value::str).is_some_and(|object| object.is("interaction"));
    let is_ours = is_interaction
        || input.value.get("event_type").and_then(Value::filled).is_some_and(|name| is_event(name.written()))
        || input.event.is_some_and(is_event);
    is_ours.then_some(DetectionEvidence::Strong)
}

fn is_event(name: &str) -> bool {
    ["interaction.", "step.", "content."].iter().any(|family| name.starts_with(family))
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let frame = input.value;
    let name = frame.get("event_type").and_then(Value::filled).map(Str::written).or(input.event);
    let Some(name) = name else {
        decode_interaction(frame, ContentPortion::Whole, sink);
        return;
    };
    // Steps come one after the other, so steps of a wire without numbers can be distinguished.
    let place = BlockKey::at(frame.get("index").and_then(Value::index).unwrap_or(0));
    let matter = ["step", "content", "delta"].iter().find_map(|key| frame.get(key));
    match (name, matter) {
        ("step.start" | "content.start", Some(step)) => {
            decode_step(place, step, ContentPortion::Start, sink);
        }
        ("step.delta" | "content.delta", Some(delta)) => {
            decode_step(place, delta, ContentPortion::Delta, sink);
        }
        ("step.stop" | "content.stop", None) => {
            sink.put(Fragment::new(FragmentKind::End).at(place));
        }
        _ if name.starts_with(INTERACTION) => decode_progress(name, frame, sink),
        _ if frame.get("error").is_some() => {}
        _ => {
            extra(ExtraSubject::ANSWER, "", name, frame, sink);
            return;
        }
    }
    decode_envelope(frame, sink);
}

/// Reads an event about the interaction itself.
fn decode_progress(name: &str, frame: Value<'_>, sink: &mut FragmentSink<'_>) {
    if let Some(interaction) = frame.get("interaction") {
        decode_interaction(interaction, ContentPortion::Start, sink);
    }
    if let Some(status) = frame.get("status").and_then(Value::str) {
        decode_status(status, sink);
    }
    if matches!(name, "interaction.completed" | "interaction.complete") {
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

/// Reads the members that any event may have.
fn decode_envelope(frame: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in frame.members() {
        match key {
            "event_type" | "index" | "step" | "content" | "delta" | "interaction" | "status" => {}
            "interaction_id" => {
                if let id @ Some(_) = value.opaque_filled() {
                    sink.put(Fragment::new(FragmentKind::Start { id, model: None, wire_type: WORD }));
                }
            }
            "error" => {
                error(value, ERRORS, sink);
            }
            key if VOLATILE.contains(&key) => {}
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
}

/// The portion of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentPortion {
    /// It begins; its members may be placeholders.
    Start,
    /// It continues.
    Delta,
    /// All of it.
    Whole,
}

fn decode_interaction(interaction: Value<'_>, telling: ContentPortion, sink: &mut FragmentSink<'_>) {
    let [id, model] = ["id", "model"].map(|key| interaction.get(key).and_then(Value::opaque_filled));
    sink.put(Fragment::new(FragmentKind::Start { id, model, wire_type: WORD }));
    let (mut status, mut steps, mut usage, mut failure) = (None, None, None, None);
    for (key, value) in interaction.members() {
        match key {
            "id" | "model" => {}
            "status" => status = value.str(),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            // Events have already sent the steps; an event that restates them is passed on as it is.
            "steps" | "outputs" if telling == ContentPortion::Whole => steps = Some(value),
            "object" if is_usual(value, &["interaction"]) => {}
            "role" if is_usual(value, &["model"]) => {}
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if let Some(usage) = usage {
        report_usage("usage", usage, read_usage, sink);
    }
    for (index, step) in (0..).zip(steps.iter().flat_map(|steps| steps.elements())) {
        let place = BlockKey::at(index);
        decode_step(place, step, ContentPortion::Whole, sink);
        sink.put(Fragment::new(FragmentKind::End).at(place));
    }
    if let Some(failure) = failure {
        error(failure, ERRORS, sink);
    }
    if let Some(status) = status {
        decode_status(status, sink);
    }
    if telling == ContentPortion::Whole
        && status.is_some_and(|status| !GOING_ON.iter().any(|wire_type| status.is(wire_type)))
    {
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

fn decode_status(status: Str<'_>, sink: &mut FragmentSink<'_>) {
    if !GOING_ON.iter().any(|wire_type| status.is(wire_type)) {
        let reason = finish_reason(status, STATUS);
        sink.put(Fragment::new(FragmentKind::Finish { reason, raw: Some(status.into()) }));
    }
}

/// Reads a step, its beginning, or a delta of it: the members are the same, and `type` is the kind.
fn decode_step(place: BlockKey, step: Value<'_>, telling: ContentPortion, sink: &mut FragmentSink<'_>) {
    let kind = step.get("type").and_then(Value::str).map_or("", Str::written);
    match kind {
        "thought" | "thought_summary" | "thought_signature" => decode_reasoning(place, step, telling, sink),
        "model_output" | "text" | "text_annotation" | "text_annotation_delta" => {
            decode_output(place, step, sink);
        }
        "function_call" | "arguments_delta" => {
            decode_call(place, None, CallKind::Function, step, telling, sink);
        }
        _ => {
            if let Some(tool) = kind.strip_suffix("_call") {
                let name = Some(Str::Plain(tool));
                decode_call(place, name.map(Into::into), CallKind::Builtin, step, telling, sink);
            } else if kind.ends_with("_result") {
                decode_result(place, step, telling, sink);
            } else if kind.is_empty() {
                extra(ExtraSubject::block(0, place), "", "steps", step, sink);
            } else {
                // Images, speech and future content.
                sink.put(Fragment::new(FragmentKind::Opaque { wire_type: kind, value: step.opaque_json() }));
            }
        }
    }
}

fn decode_reasoning(
    place: BlockKey,
    thought: Value<'_>,
    telling: ContentPortion,
    sink: &mut FragmentSink<'_>,
) {
    if telling != ContentPortion::Delta {
        // Reasoning may be nothing but its signature.
        sink.put(
            Fragment::new(FragmentKind::Open { channel: TextChannel::REASONING, wire_type: "thought" })
                .at(place),
        );
    }
    for (key, value) in thought.members() {
        match key {
            "type" => {}
            // One text in a delta, a list of them in a complete step.
            "content" | "summary" if value.kind() == JsonKind::Object => {
                decode_reasoning_text(place, key, value, sink);
            }
            "content" | "summary" if value.kind() == JsonKind::Array => {
                value.elements().for_each(|content| decode_reasoning_text(place, key, content, sink));
            }
            "text" | "thought" => text(place, TextChannel::REASONING, "thought", value, sink),
            // Read after the text it signs.
            "signature" => {}
            _ => extra(ExtraSubject::block(0, place), "", key, value, sink),
        }
    }
    if let Some(value) = thought.get("signature") {
        signature(place, value, sink);
    }
}

fn decode_reasoning_text<'a>(place: BlockKey, key: &'a str, content: Value<'a>, sink: &mut FragmentSink<'_>) {
    match content.get("text") {
        Some(value) => text(place, TextChannel::REASONING, "thought", value, sink),
        None => extra(ExtraSubject::block(0, place), "", key, content, sink),
    }
}

/// Reads an output, or (a delta, or the older version) one text of it.
fn decode_output(place: BlockKey, output: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in output.members() {
        match key {
            "content" if value.kind() == JsonKind::Array => {
                for content in value.elements() {
                    match content.get("text") {
                        Some(_) => decode_text(place, content, |_| false, sink),
                        None => sink.put(Fragment::new(FragmentKind::Opaque {
                            wire_type: key,
                            value: content.opaque_json(),
                        })),
                    }
                }
            }
            _ => {}
        }
    }
    let is_list =
        |key: &str| key == "content" && output.get(key).is_some_and(|list| list.kind() == JsonKind::Array);
    decode_text(place, output, is_list, sink);
}

/// Reads a text, and then its annotations and extra fields.
fn decode_text(
    place: BlockKey,
    output: Value<'_>,
    is_read: impl Fn(&str) -> bool,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(value) = output.get("text") {
        text(place, TextChannel::Text, "text", value, sink);
    }
    for (key, value) in output.members().filter(|(key, _)| !is_read(key)) {
        match key {
            "type" | "text" => {}
            "annotations" => {
                for annotation in value.elements() {
                    attach(place, AttachmentKind::Annotation, key, annotation, sink);
                }
            }
            "signature" => signature(place, value, sink),
            _ => extra(ExtraSubject::block(0, place), "", key, value, sink),
        }
    }
}

fn attach(
    place: BlockKey,
    kind: AttachmentKind,
    wire_type: &str,
    value: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    let part = FragmentKind::hung("", kind, wire_type, value.opaque_json());
    sink.put(Fragment::new(part).at(place));
}

fn decode_call(
    place: BlockKey,
    tool: Option<Opaque<'_>>,
    kind: CallKind,
    call: Value<'_>,
    telling: ContentPortion,
    sink: &mut FragmentSink<'_>,
) {
    // A delta need not name its call, and its type does not cover tools of other servers.
    let (mut id, mut name, mut arguments) = (None, tool.filter(|_| telling != ContentPortion::Delta), None);
    for (key, value) in call.members() {
        match key {
            "id" => id = value.opaque_filled(),
            "name" => name = value.opaque_filled().or(name),
            "arguments" => arguments = decode_arguments(value, telling),
            _ => {}
        }
    }
    if telling == ContentPortion::Start {
        // The name is always complete.
        arguments = arguments.or(Some(FragmentArguments::Text("".into())));
    }
    for (key, value) in call.members() {
        if !matches!(key, "id" | "name" | "arguments" | "type") && !is_blank(value) {
            extra(ExtraSubject::next(0), "", key, value, sink);
        }
    }
    let wire_type = call.get("type").and_then(Value::str).map_or("function_call", Str::written);
    sink.put(Fragment::new(FragmentKind::Call { id, name, kind, wire_type, arguments }).at(place));
}

/// Reads a piece of text in a delta, else an object; an empty one at the start is only a placeholder.
fn decode_arguments(value: Value<'_>, telling: ContentPortion) -> Option<FragmentArguments<'_>> {
    match value.kind() {
        JsonKind::Null => None,
        JsonKind::String => value.opaque().map(FragmentArguments::Text),
        JsonKind::Object if telling == ContentPortion::Start && value.members().next().is_none() => None,
        _ => Some(FragmentArguments::Value(value.opaque_json())),
    }
}

/// Reads the result of a tool that Google ran. The beginning of the step only has the id of the call.
fn decode_result(place: BlockKey, result: Value<'_>, telling: ContentPortion, sink: &mut FragmentSink<'_>) {
    let call = result.get("call_id").and_then(Value::opaque_filled);
    if telling != ContentPortion::Start || result.get("result").is_some() {
        let wire_type = result.get("type").and_then(Value::str).map_or("", Str::written);
        sink.put(
            Fragment::new(FragmentKind::ToolResult { call, wire_type, value: result.opaque_json() })
                .at(place),
        );
        return;
    }
    for (key, value) in result.members() {
        if !matches!(key, "type" | "call_id") && !is_blank(value) {
            extra(ExtraSubject::next(0), "", key, value, sink);
        }
    }
    if let Some(call) = call {
        sink.put(Fragment::new(FragmentKind::ResultOf { call }).at(place));
    }
}

fn is_blank(value: Value<'_>) -> bool {
    value.kind() == JsonKind::String && !value.is_filled()
}

fn text(
    place: BlockKey,
    channel: TextChannel,
    wire_type: &str,
    value: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(text) = value.opaque_filled() {
        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).at(place));
    }
}

fn signature(place: BlockKey, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    if value.is_filled() {
        attach(place, AttachmentKind::Signature, "signature", value, sink);
    }
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    let count = |key: &str| usage.get(key).and_then(Value::count);
    let sum = |one: &str, other: &str| match (count(one), count(other)) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    };
    TokenCounts {
        input_tokens: sum("total_input_tokens", "total_tool_use_tokens"),
        output_tokens: sum("total_output_tokens", "total_thought_tokens"),
        total_tokens: count("total_tokens"),
        cached_tokens: count("total_cached_tokens"),
        cache_write_tokens: None,
        reasoning_tokens: count("total_thought_tokens"),
    }
}
