//! OpenAI Chat Completions and the many servers that speak it with an accent: chunk and whole body.

use super::{
    Context, Evidence, Input, Protocol, choice_number, error, finish_reason, foreign, is_kind, is_usual,
    report,
};
use crate::event::{CallKind, Counters, DetailKind, FinishReason};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Part, Place};
use crate::json::{Kind, Node as Value, Str};
use crate::upstream::ErrorClass;

pub(super) static PROTOCOL: Protocol = Protocol {
    name: "openai-chat",
    aliases: &["chat", "chat-completions", "openai", "mistral-chat", "mistral", "azure-openai", "openrouter"],
    title: "OpenAI Chat Completions and compatible servers",
    volatile: VOLATILE,
    errors: ERRORS,
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

/// Types and codes, the type first; some are the words of one server only.
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
    ("server_error", ErrorClass::Server),
    ("api_error", ErrorClass::Server),
    ("timeout", ErrorClass::Transport),
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

/// Calls that the provider ran itself (`executed_tools`).
const EXECUTED_SPACE: u8 = 2;

const OBJECTS: &[&str] = &["chat.completion.chunk", "chat.completion", "chat.completion.done", "error"];

fn recognise(input: &Input<'_>) -> Option<Evidence> {
    let body = input.value;
    let object = body.get("object").and_then(Value::str);
    let choices = body.get("choices").map(Value::kind);
    let is_strong = object.is_some_and(|object| object.written().starts_with("chat.completion"))
        || choices == Some(Kind::Array);
    Evidence::of(is_strong, || {
        object.is_some_and(|object| object.is("error"))
            || choices == Some(Kind::Null)
            || body.get("error").is_some_and(|error| matches!(error.kind(), Kind::Object | Kind::String))
            || (body.get("detail").is_some() && body.members().count() == 1)
            || body.get("message").is_some_and(|message| message.kind() == Kind::String)
            || body.get("base_resp").is_some_and(|status| status.kind() == Kind::Object)
    })
}

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let (mut id, mut model, mut object) = (None, None, None);
    let (mut choices, mut usage, mut words) = (None, None, None);
    let (mut failure, mut refusal) = (None, None);
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
            "choices" if is_kind(value, Kind::Array) => choices = Some(value),
            "usage" if is_kind(value, Kind::Object) => {
                usage = usage.filter(|_| value.is_null()).or(Some(value))
            }
            // Some say only that there is one, and the words beside it.
            "error" => failure = Some(value).filter(|value| value.bool() != Some(true)),
            "base_resp" if has_failed(value) => refusal = Some(value),
            // A message of another protocol is no words.
            "message" | "detail" if value.get("role").or(value.get("content")).is_none() => {
                words = Some((key, value));
            }
            "citations" if is_kind(value, Kind::Array) => {
                for citation in value.elements() {
                    sink.put(Fragment::new(Part::Annotation(citation.raw())));
                }
            }
            "x_groq" if is_kind(value, Kind::Object) => {
                for (key, value) in value.members() {
                    match key {
                        "usage" if is_kind(value, Kind::Object) => {
                            usage = usage.filter(|usage: &Value<'_>| !usage.is_null()).or(Some(value))
                        }
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
    let is_whole = object.is_some_and(|object| object.is("chat.completion"));
    for (position, choice) in choices.iter().flat_map(|choices| choices.elements()).enumerate() {
        match choice.kind() {
            Kind::Object => decode_choice(position, choice, is_whole, sink),
            _ => foreign(0, None, "", "choices", choice, sink),
        }
    }
    if let Some(usage) = usage {
        decode_usage(usage, sink);
    }
    if let Some(failure) = failure {
        // Some put the code, the type or the status beside the words.
        let context = Context { words: ERRORS, beside: Some(body), ..Context::default() };
        report(failure, context, sink);
    }
    if let Some(refusal) = refusal {
        error(refusal, BASE_RESP, sink);
    }
    match words {
        // A bare `{"message": …}` or `{"detail": …}` body is how some servers report an error.
        Some(_) if failure.is_none() && choices.is_none() => {
            error(body, ERRORS, sink);
        }
        Some((key, value)) => foreign(0, None, "", key, value, sink),
        None => {}
    }
    let is_told_whole = |choice: Value<'_>| {
        let has = |key| choice.get(key).is_some_and(|value| !value.is_null());
        has("message") && has("finish_reason") && !has("delta")
    };
    let mut all = choices.iter().flat_map(|choices| choices.elements()).peekable();
    let is_all = all.peek().is_some() && all.all(is_told_whole);
    let is_body = is_whole && choices.is_some();
    if is_body || is_all || object.is_some_and(|object| object.is("chat.completion.done")) {
        sink.put(Fragment::new(Part::Done));
    }
}

/// Whether MiniMax's status of an answer, which it writes beside everything, is not a success.
fn has_failed(status: Value<'_>) -> bool {
    status.get("status_code").and_then(Value::index).is_some_and(|code| code != 0)
}

/// Whether a `delta` or a `message` is being told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// What is new.
    Piece,
    /// All of the answer, whether or not its pieces were told before.
    Whole,
}

fn decode_choice(position: usize, choice: Value<'_>, is_whole: bool, sink: &mut FragmentSink<'_>) {
    // Most choices begin with their number.
    let index = choice.members().find(|(key, _)| *key == "index").map(|(_, index)| index);
    let number = choice_number(index, position);
    let (mut delta, mut message, mut finish, mut failure, mut words) = (None, None, None, None, None);
    for (key, value) in choice.members() {
        match key {
            "index" => {}
            "delta" if is_kind(value, Kind::Object) => delta = Some(value).filter(|value| !value.is_null()),
            "message" if is_kind(value, Kind::Object) => {
                message = Some(value).filter(|value| !value.is_null());
            }
            "finish_reason" if is_kind(value, Kind::String) => finish = value.str(),
            "error" => failure = Some(value),
            "text" if is_kind(value, Kind::String) => words = Some(value),
            "logprobs" => logprobs(number, value, sink),
            "usage" if is_kind(value, Kind::Object) => decode_usage(value, sink),
            key if VOLATILE.contains(&key) => {}
            _ => foreign(number, None, "choices[].", key, value, sink),
        }
    }
    // The text of the older completions. Beside a `delta` (Together) it tells the same thing twice.
    let is_told = |message: Value<'_>| message.get("content").is_some_and(|content| !is_empty(content));
    if let Some(words) = words.filter(|_| !delta.into_iter().chain(message).any(is_told)) {
        text(number, Channel::Text, words, Extent::Piece, sink);
    }
    match (delta, message) {
        // So does a cumulative `message` beside `delta` (Perplexity), but not beside one that says nothing.
        (Some(delta), message) if message.is_none() || says_something(delta) => {
            decode_message(number, delta, Extent::Piece, sink);
        }
        // Alone in a chunk it is another word for `delta`.
        (None, Some(message)) if !is_whole => decode_message(number, message, Extent::Piece, sink),
        (_, Some(message)) => decode_message(number, message, Extent::Whole, sink),
        (_, None) => {}
    }
    if let Some(word) = finish {
        let reason = finish_reason(word, FINISH);
        sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }).in_choice(number));
    }
    if let Some(failure) = failure {
        error(failure, ERRORS, sink);
    }
}

/// Whether a `delta` holds more than a role.
fn says_something(delta: Value<'_>) -> bool {
    delta.members().any(|(key, value)| key != "role" && !is_empty(value))
}

fn is_empty(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Null => true,
        Kind::String => value.filled().is_none(),
        Kind::Array => value.elements().next().is_none(),
        Kind::Object => value.members().next().is_none(),
        Kind::Bool | Kind::Number => false,
    }
}

fn text(choice: u32, channel: Channel, value: Value<'_>, extent: Extent, sink: &mut FragmentSink<'_>) {
    if let Some(text) = value.filled() {
        let part = match extent {
            Extent::Piece => Part::Text { channel, text },
            Extent::Whole => Part::Restate { channel, text, is_recap: true },
        };
        sink.put(Fragment::new(part).in_choice(choice));
    }
}

fn logprobs(choice: u32, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    match value.kind() {
        Kind::Null => {}
        Kind::Object => {
            for (key, entries) in value.members() {
                match entries.kind() {
                    Kind::Array if entries.elements().next().is_none() => {}
                    Kind::Array => {
                        sink.put(Fragment::new(Part::Logprobs(entries.raw())).in_choice(choice));
                    }
                    _ => foreign(choice, None, "choices[].logprobs.", key, entries, sink),
                }
            }
        }
        _ => sink.put(Fragment::new(Part::Logprobs(value.raw())).in_choice(choice)),
    }
}

/// The fields in which servers tell the same thoughts, best first.
const DETAILS: Channel = Channel::Reasoning { source: 0 };
const REASONING_CONTENT: Channel = Channel::Reasoning { source: 1 };
const REASONING: Channel = Channel::Reasoning { source: 2 };

/// A `delta` or a `message`: thoughts first, then text, then calls, whatever the order of the members.
fn decode_message(choice: u32, message: Value<'_>, extent: Extent, sink: &mut FragmentSink<'_>) {
    let (mut content, mut refusal, mut calls, mut legacy, mut executed) = (None, None, None, None, None);
    let (mut details, mut reasoning_content, mut reasoning, mut signature) = (None, None, None, None);
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            "content" if is_kind(value, Kind::String) || value.kind() == Kind::Array => content = Some(value),
            "refusal" if is_kind(value, Kind::String) => refusal = Some(value),
            "tool_calls" if is_list(value) || value.kind() == Kind::Object => calls = Some(value),
            "function_call" if is_kind(value, Kind::Object) => legacy = Some(value),
            "executed_tools" if is_list(value) => executed = Some(value),
            "reasoning_details" if is_list(value) => details = Some(value),
            "reasoning_content" if is_kind(value, Kind::String) => reasoning_content = Some(value),
            "reasoning" if is_kind(value, Kind::String) => reasoning = Some(value),
            "annotations" if is_kind(value, Kind::Array) => {
                for annotation in value.elements() {
                    sink.put(Fragment::new(Part::Annotation(annotation.raw())).in_choice(choice));
                }
            }
            "thought_signature" if is_kind(value, Kind::String) => signature = value.filled(),
            key if VOLATILE.contains(&key) => {}
            _ => foreign(choice, None, "choices[].message.", key, value, sink),
        }
    }
    for detail in details.iter().flat_map(|details| details.elements()) {
        decode_detail(choice, detail, sink);
    }
    for (channel, value) in [(REASONING_CONTENT, reasoning_content), (REASONING, reasoning)] {
        if let Some(value) = value {
            text(choice, channel, value, extent, sink);
        }
    }
    if let Some(data) = signature {
        let part = Part::Detail { kind: DetailKind::Signature, index: None, data, extra: None };
        sink.put(Fragment::new(part).in_choice(choice));
    }
    if let Some(content) = content {
        decode_content(choice, content, extent, sink);
    }
    if let Some(refusal) = refusal {
        text(choice, Channel::Refusal, refusal, extent, sink);
    }
    for tool in executed.iter().flat_map(|tools| tools.elements()) {
        decode_executed(choice, tool, sink);
    }
    // A list of calls, or the only one.
    let alone = calls.filter(|calls| calls.kind() == Kind::Object);
    for call in calls.into_iter().flat_map(Value::elements).chain(alone) {
        decode_call(choice, call, extent, sink);
    }
    if let Some(function) = legacy.filter(|legacy| legacy.members().next().is_some()) {
        let name = function.get("name").and_then(Value::filled);
        let arguments = function.get("arguments").and_then(|value| arguments(value, extent));
        let is_empty = matches!(arguments, None | Some(Arguments::Whole(Str::Plain(""))));
        if name.is_some() || !is_empty {
            let place = Place::at(0).in_space(Place::MIRROR);
            let part = Part::Call { id: None, name, kind: CallKind::Function, arguments };
            sink.put(Fragment::new(part).in_choice(choice).at(place));
        }
        for (key, value) in function.members() {
            if key != "arguments" && !(key == "name" && is_kind(value, Kind::String)) {
                foreign(choice, None, "choices[].message.function_call.", key, value, sink);
            }
        }
    }
}

/// Whether the value is a list of objects, or null.
fn is_list(value: Value<'_>) -> bool {
    is_kind(value, Kind::Array) && value.elements().all(|element| is_kind(element, Kind::Object))
}

/// Content is a text, or (Mistral) a list of parts.
fn decode_content(choice: u32, content: Value<'_>, extent: Extent, sink: &mut FragmentSink<'_>) {
    text(choice, Channel::Text, content, extent, sink);
    for part in content.elements() {
        match part.kind() {
            Kind::Object => {}
            Kind::String => {
                text(choice, Channel::Text, part, Extent::Piece, sink);
                continue;
            }
            _ => {
                foreign(choice, None, "choices[].message.", "content[]", part, sink);
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
                foreign(choice, None, "choices[].message.", "content[]", part, sink);
                continue;
            }
        };
        for (key, value) in part.members() {
            match key {
                "type" => {}
                "thinking" if key == told => decode_thinking(choice, value, sink),
                _ if key != told || !is_kind(value, Kind::String) => {
                    foreign(choice, None, CONTENT_PART, key, value, sink);
                }
                "refusal" => text(choice, Channel::Refusal, value, Extent::Piece, sink),
                _ => text(choice, Channel::Text, value, Extent::Piece, sink),
            }
        }
    }
}

const CONTENT_PART: &str = "choices[].message.content[].";

/// Thoughts are a text, or a list of texts.
fn decode_thinking(choice: u32, thoughts: Value<'_>, sink: &mut FragmentSink<'_>) {
    if !is_kind(thoughts, Kind::String) && thoughts.kind() != Kind::Array {
        return foreign(choice, None, CONTENT_PART, "thinking", thoughts, sink);
    }
    text(choice, REASONING_CONTENT, thoughts, Extent::Piece, sink);
    for thought in thoughts.elements() {
        match thought.get("text").filter(|text| is_kind(*text, Kind::String)) {
            Some(value) => text(choice, REASONING_CONTENT, value, Extent::Piece, sink),
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
        let is_text = value.kind() == Kind::String;
        let (kind, is_thought) = match key {
            "text" if is_text => (DetailKind::Text, true),
            "summary" if is_text => (DetailKind::Summary, true),
            "signature" if is_text => (DetailKind::Signature, false),
            "data" if is_text => (DetailKind::Encrypted, false),
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
    let arguments = tool.get("arguments").and_then(|value| arguments(value, Extent::Whole));
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

fn decode_call(choice: u32, call: Value<'_>, extent: Extent, sink: &mut FragmentSink<'_>) {
    let (mut place, mut id, mut kind) = (None, None, CallKind::Function);
    let (mut name, mut given) = (None, None);
    for (key, value) in call.members() {
        match key {
            "index" => place = value.index().map(Place::at),
            "id" => id = value.filled(),
            "type" if value.str().is_some_and(|word| word.is("custom")) => kind = CallKind::Custom,
            "type" => {}
            "function" | "custom" => {
                // Snowflake writes both, and one of them empty.
                let is_told = value.members().any(|(_, member)| !is_empty(member));
                if !is_told && call.get(if key == "custom" { "function" } else { "custom" }).is_some() {
                    continue;
                }
                if key == "custom" && value.kind() == Kind::Object {
                    kind = CallKind::Custom;
                }
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
    let arguments = given.and_then(|value| arguments(value, extent));
    let part = Part::Call { id, name, kind, arguments };
    sink.put(Fragment { choice, place, part });
    // Calls without a number have what else they say beside them.
    let own = Some(place.unwrap_or(Place::LAST));
    for (key, value) in call.members() {
        match key {
            "index" | "arguments" => {}
            "id" | "name" if is_kind(value, Kind::String) => {}
            "type" if is_usual(value, &["function", "custom"]) => {}
            "function" | "custom" if is_kind(value, Kind::Object) => {
                for (key, value) in value.members() {
                    match key {
                        "name" if is_kind(value, Kind::String) => {}
                        "arguments" | "input" => {}
                        _ => {
                            foreign(choice, own, "choices[].message.tool_calls[].function.", key, value, sink)
                        }
                    }
                }
            }
            _ => foreign(choice, own, "choices[].message.tool_calls[].", key, value, sink),
        }
    }
}

/// Argument text, or (some servers) the arguments as an object. An empty piece says nothing: the name beside
/// it may still grow.
fn arguments(value: Value<'_>, extent: Extent) -> Option<Arguments<'_>> {
    match value.kind() {
        Kind::Null => None,
        Kind::String if extent == Extent::Whole => value.str().map(Arguments::Whole),
        Kind::String => value.filled().map(Arguments::Text),
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
