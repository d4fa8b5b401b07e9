//! OpenAI Chat Completions and the many servers that speak it with an accent: chunk and whole body.

use super::{Input, Protocol, error, finish_reason, foreign, is_usual};
use crate::event::{CallKind, Counters, DetailKind, FinishReason};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Part, Place};
use crate::json::{Kind, Str, Value};

pub(super) static PROTOCOL: Protocol = Protocol {
    name: "openai-chat",
    aliases: &["chat", "chat-completions", "openai", "mistral-chat", "mistral", "azure-openai", "openrouter"],
    title: "OpenAI Chat Completions and compatible servers",
    volatile: VOLATILE,
    recognise,
    decode,
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

/// The legacy `function_call` has neither index nor id; it is one call in a numbering of its own.
const LEGACY_SPACE: u8 = 1;
/// Calls that the provider ran itself (`executed_tools`).
const EXECUTED_SPACE: u8 = 2;

const OBJECTS: &[&str] = &["chat.completion.chunk", "chat.completion", "chat.completion.done", "error"];

fn recognise(input: &Input<'_>) -> bool {
    let body = input.value;
    let is_named = body
        .get("object")
        .and_then(Value::str)
        .is_some_and(|object| object.written().starts_with("chat.completion") || object.is("error"));
    is_named
        || body.get("choices").is_some_and(|choices| matches!(choices.kind(), Kind::Array | Kind::Null))
        || body.get("error").is_some_and(|error| matches!(error.kind(), Kind::Object | Kind::String))
        || (body.get("detail").is_some() && body.members().count() == 1)
        || body.get("message").is_some_and(|message| message.kind() == Kind::String)
}

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let (mut id, mut model, mut object) = (None, None, None);
    let (mut choices, mut usage, mut failure, mut words) = (None, None, None, None);
    for (key, value) in body.members() {
        match key {
            "id" => id = value.filled(),
            "model" => model = value.filled(),
            // Names the shape: chunk, whole or error.
            "object" => {
                object = value.str();
                if !is_usual(value, OBJECTS) {
                    foreign(0, None, "", key, value, sink);
                }
            }
            "choices" => choices = Some(value),
            "usage" => usage = usage.filter(|_| value.is_null()).or(Some(value)),
            "error" => failure = Some(value),
            "message" | "detail" => words = Some((key, value)),
            "citations" => {
                for citation in value.elements() {
                    sink.put(Fragment::new(Part::Annotation(citation.raw())));
                }
            }
            "x_groq" => {
                for (key, value) in value.members() {
                    match key {
                        "usage" => usage = usage.filter(|usage: &Value<'_>| !usage.is_null()).or(Some(value)),
                        _ => foreign(0, None, "x_groq.", key, value, sink),
                    }
                }
            }
            key if VOLATILE.contains(&key) => {}
            _ => foreign(0, None, "", key, value, sink),
        }
    }
    if id.is_some() || model.is_some() {
        sink.put(Fragment::new(Part::Start { id, model }));
    }
    for (position, choice) in choices.iter().flat_map(|choices| choices.elements()).enumerate() {
        decode_choice(position, choice, sink);
    }
    if let Some(usage) = usage {
        decode_usage(usage, sink);
    }
    if let Some(failure) = failure {
        error(failure, sink);
    }
    match words {
        // A bare `{"message": …}` or `{"detail": …}` body is how some servers report an error.
        Some(_) if failure.is_none() && choices.is_none() => {
            error(body, sink);
        }
        Some((key, value)) => foreign(0, None, "", key, value, sink),
        None => {}
    }
    if object.is_some_and(|object| object.is("chat.completion.done")) {
        sink.put(Fragment::new(Part::Done));
    }
}

fn decode_choice(position: usize, choice: Value<'_>, sink: &mut FragmentSink<'_>) {
    let number = number(position, choice);
    let (mut delta, mut message, mut finish, mut failure) = (None, None, None, None);
    for (key, value) in choice.members() {
        match key {
            "index" => {}
            "delta" => delta = Some(value).filter(|value| value.kind() == Kind::Object),
            "message" => message = Some(value).filter(|value| value.kind() == Kind::Object),
            "finish_reason" => finish = value.str(),
            "error" => failure = Some(value),
            "text" => text(number, Channel::Text, value, sink),
            "logprobs" => logprobs(number, value, sink),
            key if VOLATILE.contains(&key) => {}
            _ => foreign(number, None, "choices[].", key, value, sink),
        }
    }
    // A cumulative `message` beside `delta` (Perplexity) tells the same thing twice.
    if let Some(content) =
        delta.filter(|delta| message.is_none() || delta.members().next().is_some()).or(message)
    {
        decode_message(number, content, sink);
    }
    if let Some(word) = finish {
        let reason = finish_reason(word, FINISH);
        sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }).in_choice(number));
    }
    if let Some(failure) = failure {
        error(failure, sink);
    }
}

/// The number of a choice. Most choices begin with it; those without one stand in order.
fn number(position: usize, choice: Value<'_>) -> u32 {
    let index = choice.members().find(|(key, _)| *key == "index").map(|(_, index)| index);
    u32::try_from(index.and_then(Value::count).unwrap_or(position as u64)).unwrap_or(0)
}

fn text(choice: u32, channel: Channel, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    if let Some(text) = value.filled() {
        sink.put(Fragment::new(Part::Text { channel, text }).in_choice(choice));
    }
}

fn logprobs(choice: u32, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    let mut put =
        |entries: Value<'_>| sink.put(Fragment::new(Part::Logprobs(entries.raw())).in_choice(choice));
    match value.kind() {
        Kind::Null => {}
        Kind::Object => {
            value
                .members()
                .map(|(_, entries)| entries)
                .filter(|list| list.elements().next().is_some())
                .for_each(put);
        }
        _ => put(value),
    }
}

/// The fields in which servers tell the same thoughts, best first.
const DETAILS: Channel = Channel::Reasoning { source: 0 };
const REASONING_CONTENT: Channel = Channel::Reasoning { source: 1 };
const REASONING: Channel = Channel::Reasoning { source: 2 };

/// A `delta` or a `message`: thoughts first, then text, then calls, whatever the order of the members.
fn decode_message(choice: u32, message: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut content, mut refusal, mut calls, mut legacy, mut executed) = (None, None, None, None, None);
    let (mut details, mut reasoning_content, mut reasoning, mut signature) = (None, None, None, None);
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            "content" => content = Some(value),
            "refusal" => refusal = Some(value),
            "tool_calls" => calls = Some(value),
            "function_call" => legacy = Some(value),
            "executed_tools" => executed = Some(value),
            "reasoning_details" => details = Some(value),
            "reasoning_content" => reasoning_content = Some(value),
            "reasoning" => reasoning = Some(value),
            "annotations" => {
                for annotation in value.elements() {
                    sink.put(Fragment::new(Part::Annotation(annotation.raw())).in_choice(choice));
                }
            }
            "thought_signature" => signature = value.filled(),
            key if VOLATILE.contains(&key) => {}
            _ => foreign(choice, None, "choices[].message.", key, value, sink),
        }
    }
    for detail in details.iter().flat_map(|details| details.elements()) {
        decode_detail(choice, detail, sink);
    }
    for (channel, value) in [(REASONING_CONTENT, reasoning_content), (REASONING, reasoning)] {
        if let Some(value) = value {
            text(choice, channel, value, sink);
        }
    }
    if let Some(data) = signature {
        let part = Part::Detail { kind: DetailKind::Signature, index: None, data, extra: None };
        sink.put(Fragment::new(part).in_choice(choice));
    }
    if let Some(content) = content {
        decode_content(choice, content, sink);
    }
    if let Some(refusal) = refusal {
        text(choice, Channel::Refusal, refusal, sink);
    }
    for tool in executed.iter().flat_map(|tools| tools.elements()) {
        decode_executed(choice, tool, sink);
    }
    for call in calls.iter().flat_map(|calls| calls.elements()) {
        decode_call(choice, call, sink);
    }
    if let Some(function) = legacy.filter(|legacy| legacy.members().next().is_some()) {
        let name = function.get("name").and_then(Value::filled);
        let arguments = function.get("arguments").and_then(arguments);
        if name.is_some() || function.get("arguments").and_then(Value::filled).is_some() {
            let place = Place::at(0).in_space(LEGACY_SPACE);
            let part = Part::Call { id: None, name, kind: CallKind::Function, arguments };
            sink.put(Fragment::new(part).in_choice(choice).at(place));
        }
    }
}

/// Content is a text, or (Mistral) a list of parts.
fn decode_content(choice: u32, content: Value<'_>, sink: &mut FragmentSink<'_>) {
    text(choice, Channel::Text, content, sink);
    for part in content.elements() {
        match part.kind() {
            Kind::Object => {}
            Kind::String => {
                text(choice, Channel::Text, part, sink);
                continue;
            }
            _ => {
                foreign(choice, None, "choices[].message.", "content", part, sink);
                continue;
            }
        }
        let kind = part.get("type").and_then(Value::str).unwrap_or(Str::Plain("text"));
        let told = match kind.written() {
            "text" | "output_text" => "text",
            "refusal" => "refusal",
            "thinking" => "thinking",
            "reference" => {
                sink.put(Fragment::new(Part::Annotation(part.raw())).in_choice(choice));
                continue;
            }
            _ => {
                foreign(choice, None, "choices[].message.", "content", part, sink);
                continue;
            }
        };
        for (key, value) in part.members() {
            match key {
                "type" => {}
                "thinking" if key == told => decode_thinking(choice, value, sink),
                "refusal" if key == told => text(choice, Channel::Refusal, value, sink),
                "text" if key == told => text(choice, Channel::Text, value, sink),
                _ => foreign(choice, None, CONTENT_PART, key, value, sink),
            }
        }
    }
}

const CONTENT_PART: &str = "choices[].message.content[].";

/// Thoughts are a text, or a list of texts.
fn decode_thinking(choice: u32, thoughts: Value<'_>, sink: &mut FragmentSink<'_>) {
    text(choice, REASONING_CONTENT, thoughts, sink);
    for thought in thoughts.elements() {
        match thought.get("text") {
            Some(value) => text(choice, REASONING_CONTENT, value, sink),
            None => foreign(choice, None, CONTENT_PART, "thinking", thought, sink),
        }
    }
}

/// The types whose members say what they are.
const DETAIL_TYPES: &[&str] = &["reasoning.text", "reasoning.summary", "reasoning.encrypted"];

/// One of OpenRouter's `reasoning_details`. Fragments of one detail share their index and type.
fn decode_detail(choice: u32, detail: Value<'_>, sink: &mut FragmentSink<'_>) {
    let index = detail.get("index").and_then(Value::index);
    let mut put = |part| sink.put(Fragment::new(part).in_choice(choice));
    for (key, value) in detail.members() {
        let (kind, is_thought) = match key {
            "text" => (DetailKind::Text, true),
            "summary" => (DetailKind::Summary, true),
            "signature" => (DetailKind::Signature, false),
            "data" => (DetailKind::Encrypted, false),
            "index" => continue,
            "type" if is_usual(value, DETAIL_TYPES) => continue,
            _ if value.is_null() => continue,
            _ => {
                put(Part::Foreign {
                    scope: "choices[].message.reasoning_details[].",
                    key,
                    value: value.raw(),
                });
                continue;
            }
        };
        let Some(data) = value.filled() else { continue };
        if is_thought {
            put(Part::Text { channel: DETAILS, text: data });
        }
        put(Part::Detail { kind, index, data, extra: None });
    }
}

/// A call that the provider ran itself, with its result.
fn decode_executed(choice: u32, tool: Value<'_>, sink: &mut FragmentSink<'_>) {
    let place = Place::at(tool.get("index").and_then(Value::index).unwrap_or(0)).in_space(EXECUTED_SPACE);
    let name = tool.get("type").and_then(Value::filled);
    let arguments = tool.get("arguments").and_then(Value::str).map(Arguments::Whole);
    let part = Part::Call { id: None, name, kind: CallKind::Builtin, arguments };
    sink.put(Fragment::new(part).in_choice(choice).at(place));
    if tool.get("output").is_some_and(|output| !output.is_null()) {
        let part = Part::ToolResult { call: None, value: tool.raw() };
        sink.put(Fragment::new(part).in_choice(choice).at(place));
        return;
    }
    for (key, value) in tool.members() {
        if !matches!(key, "index" | "type" | "arguments") {
            foreign(choice, Some(place), "choices[].message.executed_tools[].", key, value, sink);
        }
    }
}

fn decode_call(choice: u32, call: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut place, mut id, mut kind) = (None, None, CallKind::Function);
    let (mut name, mut given) = (None, None);
    for (key, value) in call.members() {
        match key {
            "index" => place = value.index().map(Place::at),
            "id" => id = value.filled(),
            "type" if value.str().is_some_and(|word| word.is("custom")) => kind = CallKind::Custom,
            "type" => {}
            "function" | "custom" => {
                for (key, value) in value.members() {
                    match key {
                        "name" => name = value.filled(),
                        "arguments" | "input" => given = Some(value),
                        _ => {}
                    }
                }
            }
            "name" => name = name.or(value.filled()),
            "arguments" => given = given.or(Some(value)),
            _ => {}
        }
    }
    let arguments = given.and_then(arguments);
    let part = Part::Call { id, name, kind, arguments };
    sink.put(Fragment { choice, place, part });
    for (key, value) in call.members() {
        match key {
            "index" | "id" | "function" | "custom" | "name" | "arguments" => {}
            "type" if is_usual(value, &["function", "custom"]) => {}
            _ => foreign(choice, place, "choices[].message.tool_calls[].", key, value, sink),
        }
    }
    for (tool, is_read) in [("function", ["name", "arguments"]), ("custom", ["name", "input"])] {
        for (key, value) in call.get(tool).iter().flat_map(|tool| tool.members()) {
            if !is_read.contains(&key) {
                foreign(choice, place, "choices[].message.tool_calls[].function.", key, value, sink);
            }
        }
    }
}

/// Argument text, or (some servers) the arguments as an object.
fn arguments(value: Value<'_>) -> Option<Arguments<'_>> {
    match value.kind() {
        Kind::Null => None,
        Kind::String => value.str().map(Arguments::Text),
        _ => Some(Arguments::Value(value.raw())),
    }
}

fn decode_usage(usage: Value<'_>, sink: &mut FragmentSink<'_>) {
    if usage.members().next().is_none() {
        return;
    }
    let count = |key: &str| usage.get(key).and_then(Value::count);
    let detail =
        |group: &str, key: &str| usage.get(group).and_then(|group| group.get(key)).and_then(Value::count);
    let input = count("prompt_tokens");
    let mut output = count("completion_tokens");
    let total = count("total_tokens");
    let reasoning =
        detail("completion_tokens_details", "reasoning_tokens").or_else(|| count("reasoning_tokens"));
    if let (Some(prompt), Some(completion), Some(thoughts), Some(sum)) = (input, output, reasoning, total)
        && thoughts > 0
        && prompt.checked_add(completion).and_then(|spoken| spoken.checked_add(thoughts)) == Some(sum)
    {
        // xAI counts its thoughts beside the completion, everybody else inside it.
        output = Some(completion + thoughts);
    }
    let counters = Counters {
        input_tokens: input,
        output_tokens: output,
        total_tokens: total,
        cached_tokens: detail("prompt_tokens_details", "cached_tokens")
            .or_else(|| count("prompt_cache_hit_tokens"))
            .or_else(|| count("cached_tokens"))
            .or_else(|| count("num_cached_tokens"))
            .or_else(|| count("cache_read_input_tokens")),
        cache_write_tokens: detail("prompt_tokens_details", "cache_write_tokens")
            .or_else(|| count("cache_creation_input_tokens")),
        reasoning_tokens: reasoning,
    };
    sink.put(Fragment::new(Part::Usage { counters, raw: usage.raw() }));
}
