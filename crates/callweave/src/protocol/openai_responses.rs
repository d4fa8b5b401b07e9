//! OpenAI Responses: stream events and the whole response.
//!
//! An answer is a list of *items* (messages, reasoning, calls, what hosted tools did), numbered by
//! `output_index`. An item is told up to three times: when it begins (`output_item.added`), when it ends
//! (`output_item.done`), and once more in the whole response that closes the stream. Between the first
//! two, deltas grow its parts. Everything is placed by number where there is one, and only else by
//! `item_id`: some servers give an item a new id in every event. The closing list numbers its items anew
//! where it leaves some out, so they are found by id first.
//!
//! | wire | place |
//! |---|---|
//! | a call at `output_index` i | `Place::at(i)` |
//! | its content part c, summary part s, reasoning part c | `.part(CONTENT + c)`, `.part(SUMMARY + s)`, `.part(THOUGHT + c)` |

use super::{Evidence, Input, Protocol, error, finish_reason, foreign, is_usual};
use crate::event::{CallKind, Counters, DetailKind, FinishReason};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Part, Place};
use crate::json::{Kind, Node as Value, Str};
use crate::upstream::ErrorClass;

pub(super) static PROTOCOL: Protocol = Protocol {
    name: "openai-responses",
    aliases: &["responses", "openai-response", "open-responses", "azure-responses", "chatgpt-responses"],
    title: "OpenAI Responses and compatible servers",
    volatile: VOLATILE,
    errors: ERRORS,
    recognise,
    decode,
};

/// Numbering of events, padding that hides token lengths, coordinates that [`Place`] stands for.
const VOLATILE: &[&str] = &[
    "sequence_number",
    "obfuscation",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "annotation_index",
];

/// Why a response ended: its status, or the reason why it is incomplete.
const FINISH: &[(&str, FinishReason)] = &[
    ("completed", FinishReason::Stop),
    ("complete", FinishReason::Stop),
    ("max_output_tokens", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("content_filter", FinishReason::ContentFilter),
    ("failed", FinishReason::Error),
];

const ERRORS: &[(&str, ErrorClass)] = &[
    ("invalid_api_key", ErrorClass::Authentication),
    ("insufficient_quota", ErrorClass::Permission),
    ("usage_limit_reached", ErrorClass::Permission),
    ("usage_not_included", ErrorClass::Permission),
    ("rate_limit_exceeded", ErrorClass::RateLimit),
    ("server_is_overloaded", ErrorClass::Overloaded),
    ("slow_down", ErrorClass::Overloaded),
    ("invalid_request_error", ErrorClass::InvalidRequest),
    ("invalid_prompt", ErrorClass::InvalidRequest),
    ("context_length_exceeded", ErrorClass::ContextTooLong),
    ("model_not_found", ErrorClass::NotFound),
    ("server_error", ErrorClass::Server),
    ("timeout", ErrorClass::Transport),
    ("vector_store_timeout", ErrorClass::Transport),
];

/// Where the parts of an item begin in its numbering; 0 is the item itself.
const CONTENT: u32 = 1;
const SUMMARY: u32 = Place::SORT;
const THOUGHT: u32 = 2 * Place::SORT;
const PARTS: u64 = Place::SORT as u64 - 2;

/// How definite it is what is told of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    /// It begins: strings are settled, lists and objects may still fill.
    Begin,
    /// It ends, after deltas that told it already.
    End,
    /// It is over and told once more, with all others, at a position that may not be its number.
    Recap,
    /// It is told only once.
    Once,
}

fn recognise(input: &Input<'_>) -> Option<Evidence> {
    let body = input.value;
    let (is_ours, evidence) = match event_name(input) {
        None => {
            let object = body.get("object").and_then(Value::str);
            (object.is_some_and(|object| object.written().starts_with("response")), Evidence::Strong)
        }
        Some("error") => (body.get("sequence_number").is_some(), Evidence::Weak),
        Some("keepalive") => (true, Evidence::Weak),
        Some(kind) => (kind.starts_with("response."), Evidence::Strong),
    };
    is_ours.then_some(evidence)
}

/// The event's own name, else the framing's; a whole response has neither.
fn event_name<'a>(input: &Input<'a>) -> Option<&'a str> {
    let named = input.value.members().find(|(key, _)| *key == "type");
    named
        .and_then(|(_, name)| name.filled())
        .map(Str::written)
        .or(input.event.filter(|_| input.value.get("object").is_none()))
}

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let Some(name) = event_name(input) else {
        decode_body(body, sink);
        return;
    };
    match name {
        // Says only that the connection lives.
        "keepalive" => {}
        "error" => decode_error(body, sink),
        _ => decode_event(name, body, sink),
    }
}

/// A whole response, or the body of a failed request.
fn decode_body(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    if body.get("object").is_some() || body.get("output").is_some() {
        decode_response(body, None, sink);
    } else if ["error", "message", "detail"].iter().any(|key| body.get(key).is_some_and(is_told_error)) {
        decode_error(body, sink);
    } else {
        foreign(0, None, "", "", body, sink);
    }
}

fn is_told_error(value: Value<'_>) -> bool {
    matches!(value.kind(), Kind::Object | Kind::Array | Kind::String) && value.get("content").is_none()
}

/// The error stands in `error`, or its members stand in the event itself.
fn decode_error(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    let Some(nested) =
        body.get("error").filter(|nested| matches!(nested.kind(), Kind::Object | Kind::String))
    else {
        error(body, ERRORS, sink);
        return;
    };
    error(nested, ERRORS, sink);
    for (key, value) in body.members() {
        if !matches!(key, "error" | "type") && !VOLATILE.contains(&key) {
            foreign(0, None, "", key, value, sink);
        }
    }
}

/// What the members of a stream event say, and about which place.
struct Event<'a> {
    item_place: Place,
    is_numbered: bool,
    content: u32,
    summary: u32,
    /// The piece of a delta, or the whole that a `done` restates.
    payload: Option<Value<'a>>,
    name: Option<Str<'a>>,
    logprobs: Option<Value<'a>>,
    /// `item`, `part`, `annotation` or `response`.
    subject: Option<Value<'a>>,
    has_more: bool,
}

fn read_event(body: Value<'_>) -> Event<'_> {
    let (mut is_numbered, mut item_id) = (false, None);
    let mut event = Event {
        item_place: Place::at(0),
        is_numbered: false,
        content: 0,
        summary: 0,
        payload: None,
        name: None,
        logprobs: None,
        subject: None,
        has_more: false,
    };
    for (key, value) in body.members() {
        match key {
            "output_index" => {
                is_numbered = true;
                event.item_place = Place::at(value.index().unwrap_or(0));
            }
            "item_id" => item_id = value.filled(),
            "content_index" => event.content = number(value),
            "summary_index" => event.summary = number(value),
            "delta" | "text" | "refusal" | "arguments" | "input" | "code" => event.payload = Some(value),
            "name" => event.name = value.filled(),
            "logprobs" => event.logprobs = Some(value),
            "item" | "part" | "annotation" | "response" => event.subject = Some(value),
            "type" | "sequence_number" | "obfuscation" => {}
            key => event.has_more |= !VOLATILE.contains(&key),
        }
    }
    event.is_numbered = is_numbered;
    if !is_numbered {
        let own_id = || event.subject.and_then(|subject| subject.get("id")).and_then(Value::filled);
        event.item_place = item_id.or_else(own_id).map_or(anonymous(), |id| Place::named(id.written()));
    }
    event
}

/// The item of events that neither number nor name it.
fn anonymous() -> Place {
    Place::named("")
}

fn number(value: Value<'_>) -> u32 {
    value.count().map_or(0, |count| count.min(PARTS) as u32)
}

/// What grows by deltas.
enum Growing {
    Text(Channel, Place),
    Call(CallKind),
}

/// What the events called `response.<subject>.delta` and `.done` tell about.
fn growing(subject: &str, event: &Event<'_>) -> Option<Growing> {
    let place = event.item_place;
    let content = place.part(CONTENT + event.content);
    Some(match subject {
        "output_text" => Growing::Text(Channel::Text, content),
        "refusal" => Growing::Text(Channel::Refusal, content),
        "reasoning_summary_text" => Growing::Text(Channel::REASONING, place.part(SUMMARY + event.summary)),
        "reasoning_text" => Growing::Text(Channel::REASONING, place.part(THOUGHT + event.content)),
        "function_call_arguments" => Growing::Call(CallKind::Function),
        "custom_tool_call_input" => Growing::Call(CallKind::Custom),
        "mcp_call_arguments" | "code_interpreter_call_code" => Growing::Call(CallKind::Builtin),
        _ => return None,
    })
}

fn decode_event(name: &str, body: Value<'_>, sink: &mut FragmentSink<'_>) {
    let event = read_event(body);
    let place = event.item_place;
    let subject = name.strip_prefix("response.").unwrap_or(name);
    let (subject, verb) = subject.rsplit_once('.').unwrap_or(("", subject));
    if let Some(growing) = growing(subject, &event)
        && matches!(verb, "delta" | "done")
    {
        grow(&growing, verb, &event, sink);
    } else {
        match (subject, verb) {
            (
                "",
                "created" | "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled",
            ) => {
                if let Some(response) = event.subject {
                    decode_response(response, Some(verb), sink);
                }
            }
            ("output_item", "added") => decode_event_item(&event, Telling::Begin, sink),
            ("output_item", "done") => decode_event_item(&event, Telling::End, sink),
            // A part's block opens with its first text.
            ("content_part" | "reasoning_part" | "reasoning_summary_part", "added") => {}
            ("content_part", "done") => {
                if let Some(part) = event.subject {
                    decode_part(place, event.content, part, Telling::End, sink);
                }
            }
            ("reasoning_part", "done") => {
                if let Some(part) = event.subject {
                    decode_thought(place, event.content, part, Telling::End, sink);
                }
            }
            ("reasoning_summary_part", "done") => {
                if let Some(part) = event.subject {
                    decode_summary(place, event.summary, part, Telling::End, sink);
                }
            }
            ("output_text.annotation" | "output_text_annotation", "added") => {
                if let Some(annotation) = event.subject {
                    let place = place.part(CONTENT + event.content);
                    sink.put(Fragment::new(Part::Annotation(annotation.raw())).at(place));
                }
            }
            // How a hosted tool comes along, previews of its output and of what the item will say, and
            // whatever else there will be.
            _ => {
                let part = Part::Foreign { scope: "", key: name, value: body.raw() };
                sink.put(Fragment::new(part).at(place));
                return;
            }
        }
    }
    if event.has_more {
        for (key, value) in body.members() {
            let is_read = matches!(
                key,
                "type" | "delta" | "text" | "refusal" | "arguments" | "input" | "code" | "name" | "logprobs"
            ) || matches!(key, "item" | "part" | "annotation" | "response");
            if !is_read && !VOLATILE.contains(&key) {
                foreign(0, Some(place), "", key, value, sink);
            }
        }
    }
}

fn grow(growing: &Growing, verb: &str, event: &Event<'_>, sink: &mut FragmentSink<'_>) {
    let is_delta = verb == "delta";
    match *growing {
        Growing::Text(channel, place) => {
            match event.payload {
                Some(text) if !is_delta => restate(channel, place, text, Telling::End, sink),
                Some(text) => {
                    if let Some(text) = text.filled() {
                        sink.put(Fragment::new(Part::Text { channel, text }).at(place));
                    }
                }
                None => {}
            }
            // What a `done` lists was told by the deltas.
            if is_delta && let Some(entries) = event.logprobs {
                logprobs(entries, sink);
            }
        }
        Growing::Call(kind) => {
            let arguments = match event.payload {
                Some(value) if is_delta && value.kind() == Kind::String => value.str().map(Arguments::Text),
                Some(value) => whole_arguments(value),
                None => None,
            };
            let part = Part::Call { id: None, name: event.name, kind, arguments };
            sink.put(Fragment::new(part).at(event.item_place));
        }
    }
}

/// Arguments told whole. An empty text says nothing about what was streamed before.
fn whole_arguments(value: Value<'_>) -> Option<Arguments<'_>> {
    match value.kind() {
        Kind::Null => None,
        Kind::String => value.filled().map(Arguments::Whole),
        _ => Some(Arguments::Value(value.raw())),
    }
}

fn logprobs(entries: Value<'_>, sink: &mut FragmentSink<'_>) {
    if entries.elements().next().is_some() {
        sink.put(Fragment::new(Part::Logprobs(entries.raw())));
    }
}

fn decode_event_item(event: &Event<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let Some(item) = event.subject else { return };
    let name = item.get("id").and_then(Value::filled).unwrap_or(Str::Plain(""));
    let or = (!event.is_numbered && telling == Telling::End).then(anonymous);
    sink.put(Fragment::new(Part::Same { name, or }).at(event.item_place));
    decode_item(event.item_place, item, telling, sink);
}

/// A response: whole, or as an event of the stream shows it.
fn decode_response(response: Value<'_>, event: Option<&str>, sink: &mut FragmentSink<'_>) {
    let telling = match event {
        None => Telling::Once,
        Some("created" | "queued" | "in_progress") => Telling::Begin,
        Some(_) => Telling::Recap,
    };
    let [id, model] = ["id", "model"].map(|key| response.get(key).and_then(Value::filled));
    if id.is_some() || model.is_some() {
        sink.put(Fragment::new(Part::Start { id, model }));
    }
    let (mut status, mut incomplete) = (None, None);
    let (mut output, mut usage, mut failure) = (None, None, None);
    for (key, value) in response.members() {
        match key {
            "id" | "model" => {}
            "object" if is_usual(value, &["response"]) => {}
            "status" => status = value.filled(),
            "incomplete_details" => {
                for (key, value) in value.members() {
                    match key {
                        "reason" => incomplete = value.filled(),
                        _ => foreign(0, None, "response.incomplete_details.", key, value, sink),
                    }
                }
            }
            "output" => output = Some(value),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            // A setting everywhere but with mistral.rs, where a text is the thoughts.
            "reasoning" if telling == Telling::Once && value.kind() == Kind::String => {
                let place = Place::at(-1);
                restate(Channel::REASONING, place, value, telling, sink);
                sink.put(Fragment::new(Part::End).at(place));
            }
            _ => foreign(0, None, "response.", key, value, sink),
        }
    }
    for (position, item) in output.iter().flat_map(|output| output.elements()).enumerate() {
        let mut place = Place::at(position as i64);
        if telling == Telling::Recap {
            let name = item.get("id").and_then(Value::filled).unwrap_or(Str::Plain(""));
            let or = Some(place);
            place = place.in_space(Place::RECAP);
            sink.put(Fragment::new(Part::Same { name, or }).at(place));
        }
        decode_item(place, item, telling, sink);
    }
    if let Some(usage) = usage {
        decode_usage(usage, sink);
    }
    if let Some(failure) = failure {
        error(failure, ERRORS, sink);
    }
    if telling == Telling::Begin {
        return;
    }
    let status = status.map(Str::written).or(event);
    if let Some(word) = incomplete.or(status.map(Str::Plain)) {
        let reason = finish_reason(word, FINISH);
        sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }));
    }
    // A background response that was asked for too early has its end still before it.
    if !matches!(status, Some("queued" | "in_progress")) {
        sink.put(Fragment::new(Part::Done));
    }
}

/// Members of an item that its blocks tell by themselves.
fn is_told(key: &str, value: Value<'_>) -> bool {
    match key {
        "content" | "summary" | "encrypted_content" | "role" | "output_index" | "item_id" => true,
        // Other states (`incomplete`, `failed`, `searching`) are passed on.
        "status" => value.str().is_some_and(|word| word.is("completed") || word.is("in_progress")),
        _ => false,
    }
}

fn decode_item(place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let kind = item.get("type").and_then(Value::filled).map_or("message", Str::written);
    let is_own = item.get("role").and_then(Value::filled).is_none_or(|role| role.is("assistant"));
    match kind {
        "message" if is_own => decode_message(place, item, telling, sink),
        "reasoning" => decode_reasoning(place, item, telling, sink),
        "mcp_list_tools" | "mcp_approval_request" | "program" => {
            decode_call(kind, place, item, telling, sink);
        }
        _ if kind.ends_with("_call") => decode_call(kind, place, item, telling, sink),
        _ if kind.ends_with("_output") => decode_output(place, item, telling, sink),
        // A compacted conversation, a message of somebody else's, what will be invented yet.
        _ if telling != Telling::Begin => {
            let part = Part::Foreign { scope: "", key: "output[]", value: item.raw() };
            sink.put(Fragment::new(part).at(place));
        }
        _ => {}
    }
}

fn decode_message(place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    // What the item says of itself waits for the block it belongs to.
    if telling == Telling::Begin {
        return;
    }
    for (number, part) in parts(item.get("content")) {
        decode_part(place, number, part, telling, sink);
    }
    rest_of_item(place.part(CONTENT), item, sink);
}

/// The numbered parts of an item: a list, or (some servers) the only one as a bare text.
fn parts<'a>(value: Option<Value<'a>>) -> impl Iterator<Item = (u32, Value<'a>)> {
    let alone = value.filter(|value| value.kind() == Kind::String);
    let listed = value.into_iter().flat_map(Value::elements);
    alone.into_iter().chain(listed).enumerate().map(|(at, part)| ((at as u64).min(PARTS) as u32, part))
}

/// A content part, whole.
fn decode_part(place: Place, number: u32, part: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let kind = part.get("type").and_then(Value::str).map_or("output_text", Str::written);
    let (channel, member) = match kind {
        "output_text" | "text" => (Channel::Text, "text"),
        "refusal" => (Channel::Refusal, "refusal"),
        "reasoning_text" => return decode_thought(place, number, part, telling, sink),
        _ => {
            foreign(0, Some(place.part(CONTENT + number)), "output[].", "content[]", part, sink);
            return;
        }
    };
    let place = place.part(CONTENT + number);
    restate(channel, place, part.get(member).unwrap_or(part), telling, sink);
    for (key, value) in part.members() {
        match key {
            "type" => {}
            key if key == member => {}
            "annotations" => {
                for annotation in value.elements() {
                    sink.put(Fragment::new(Part::Annotation(annotation.raw())).at(place));
                }
            }
            "logprobs" => {
                if telling == Telling::Once {
                    logprobs(value, sink);
                }
            }
            _ => foreign(0, Some(place), "output[].content[].", key, value, sink),
        }
    }
    sink.put(Fragment::new(Part::End).at(place));
}

/// Raw thoughts, whole. That they are no summary is told by the part's type.
fn decode_thought(place: Place, number: u32, part: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let place = place.part(THOUGHT + number);
    restate(Channel::REASONING, place, part.get("text").unwrap_or(part), telling, sink);
    for (key, value) in part.members() {
        if key != "text" {
            foreign(0, Some(place), "output[].content[].", key, value, sink);
        }
    }
    sink.put(Fragment::new(Part::End).at(place));
}

/// A summary of thoughts, whole.
fn decode_summary(place: Place, number: u32, part: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let place = place.part(SUMMARY + number);
    restate(Channel::REASONING, place, part.get("text").unwrap_or(part), telling, sink);
    for (key, value) in part.members() {
        if !matches!(key, "text" | "type") {
            foreign(0, Some(place), "output[].summary[].", key, value, sink);
        }
    }
    sink.put(Fragment::new(Part::End).at(place));
}

/// An empty text says nothing about what was streamed before.
fn restate(channel: Channel, place: Place, text: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    if let Some(text) = text.filled() {
        let is_recap = telling == Telling::Recap;
        sink.put(Fragment::new(Part::Restate { channel, text, is_recap }).at(place));
    }
}

/// Thoughts: summaries, raw text, or nothing to see but what must be sent back.
fn decode_reasoning(place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    // What is encrypted at the beginning is not what counts in the end.
    if telling == Telling::Begin {
        return;
    }
    let summaries = item.get("summary");
    let thoughts = item.get("content");
    for (number, part) in parts(summaries) {
        decode_summary(place, number, part, telling, sink);
    }
    for (number, part) in parts(thoughts) {
        decode_thought(place, number, part, telling, sink);
    }
    let has_text = |list: Option<Value<'_>>| {
        parts(list).next().is_some_and(|(_, part)| part.get("text").unwrap_or(part).filled().is_some())
    };
    let owner = if has_text(summaries) {
        place.part(SUMMARY)
    } else if has_text(thoughts) {
        place.part(THOUGHT)
    } else {
        // The item keeps its place among the others even if it shows nothing.
        sink.put(Fragment::new(Part::Open(Channel::REASONING)).at(place));
        place
    };
    if let Some(data) = item.get("encrypted_content").and_then(Value::filled) {
        let part = Part::Detail { kind: DetailKind::Encrypted, index: place.number(), data, extra: None };
        sink.put(Fragment::new(part).at(owner));
    }
    rest_of_item(owner, item, sink);
    sink.put(Fragment::new(Part::End).at(owner));
}

/// The members that carry what a tool is to do, in the items of the different tools.
const ARGUMENTS: &[&str] = &["arguments", "input", "code", "action", "actions", "operation", "queries"];
/// The members that carry what a hosted tool answered.
const RESULTS: &[&str] = &["output", "outputs", "results", "result", "tools", "error"];

/// A call: of the client's tool, or told of a tool that the provider runs itself.
fn decode_call(kind: &str, place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let call = runner(kind, item);
    let (mut id, mut call_id, mut name, mut given) = (None, None, None, None);
    for (key, value) in item.members() {
        match key {
            "id" => id = value.filled(),
            "call_id" => call_id = value.filled(),
            "name" => name = value.filled(),
            key if is_arguments(key, value) => given = Some(value),
            _ => {}
        }
    }
    let arguments = given
        .filter(|value| telling != Telling::Begin || value.kind() == Kind::String)
        .and_then(whole_arguments)
        // The name is whole, whatever the arguments will be.
        .unwrap_or(Arguments::Text(Str::Plain("")));
    let part = Part::Call {
        id: call_id.or(id),
        name: name.or(Some(Str::Plain(kind.strip_suffix("_call").unwrap_or(kind)))),
        kind: call,
        arguments: Some(arguments),
    };
    sink.put(Fragment::new(part).at(place));
    for (key, value) in item.members() {
        match key {
            "call_id" | "name" => {}
            "id" if call_id.is_none() => {}
            "type" if matches!((kind, call), ("function_call", _) | (_, CallKind::Custom)) => {}
            key if is_arguments(key, value) => {}
            key if call == CallKind::Builtin && RESULTS.contains(&key) => {
                if telling != Telling::Begin && !is_empty(value) {
                    let part = Part::ToolResult { call: call_id.or(id), value: value.raw() };
                    sink.put(Fragment::new(part).at(place));
                }
            }
            _ if is_told(key, value) => {}
            _ => foreign(0, Some(place), "output[].", key, value, sink),
        }
    }
    if telling != Telling::Begin {
        sink.put(Fragment::new(Part::End).at(place));
    }
}

/// Whether the member is what the tool is to do. A lone word (`"action": "generate"`) is a setting.
fn is_arguments(key: &str, value: Value<'_>) -> bool {
    let may_be_text = matches!(key, "arguments" | "input" | "code");
    match value.kind() {
        Kind::Object | Kind::Array => ARGUMENTS.contains(&key),
        Kind::String | Kind::Null => may_be_text,
        Kind::Bool | Kind::Number => false,
    }
}

fn is_empty(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Null => true,
        Kind::String => value.filled().is_none(),
        Kind::Array => value.elements().next().is_none(),
        Kind::Object | Kind::Bool | Kind::Number => false,
    }
}

/// Who runs a call.
fn runner(kind: &str, item: Value<'_>) -> CallKind {
    match kind {
        "function_call" => CallKind::Function,
        "custom_tool_call" if is_marked(item) => CallKind::Builtin,
        "custom_tool_call" => CallKind::Custom,
        // The client carries these out and sends the item of the same name with `_output`.
        "local_shell_call" | "apply_patch_call" | "computer_call" => CallKind::Function,
        // A shell without an environment, or with a local one, is the client's; in a container it is hosted.
        "shell_call" => match item.get("environment").and_then(|environment| environment.get("type")) {
            Some(environment) if !environment.str().is_some_and(|word| word.is("local")) => CallKind::Builtin,
            _ => CallKind::Function,
        },
        "tool_search_call" => match item.get("execution").and_then(Value::str) {
            Some(word) if word.is("client") => CallKind::Function,
            _ => CallKind::Builtin,
        },
        // An `mcp_approval_request` belongs here too: the client answers yes or no, the provider runs it.
        _ => CallKind::Builtin,
    }
}

/// Whether a custom call's id marks it as one that the server runs.
///
/// xAI streams its own tools as custom calls whose id begins with the tool's two letters (`xs_call_1`,
/// `xs_call-1`) where a client's begins with `call`. Nothing else in the item tells them apart.
fn is_marked(item: Value<'_>) -> bool {
    let Some(id) = item.get("call_id").and_then(Value::filled) else { return false };
    let Some((mark, rest)) = id.written().split_at_checked(2) else { return false };
    mark.bytes().all(|byte| byte.is_ascii_lowercase())
        && rest.strip_prefix("_call").is_some_and(|rest| rest.starts_with(['_', '-']))
}

/// What a hosted tool answered, as an item of its own.
fn decode_output(place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    if telling == Telling::Begin {
        return;
    }
    let call = item.get("call_id").and_then(Value::filled);
    for (key, value) in item.members() {
        match key {
            "call_id" | "type" => {}
            key if RESULTS.contains(&key) => {
                if !is_empty(value) {
                    sink.put(Fragment::new(Part::ToolResult { call, value: value.raw() }).at(place));
                }
            }
            _ if is_told(key, value) => {}
            _ => foreign(0, Some(place), "output[].*_output.", key, value, sink),
        }
    }
}

fn rest_of_item(place: Place, item: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in item.members() {
        if key != "type" && !is_told(key, value) {
            foreign(0, Some(place), "output[].", key, value, sink);
        }
    }
}

fn decode_usage(usage: Value<'_>, sink: &mut FragmentSink<'_>) {
    if usage.members().next().is_none() {
        return;
    }
    let count = |key: &str| usage.get(key).and_then(Value::count);
    let detail =
        |group: &str, key: &str| usage.get(group).and_then(|group| group.get(key)).and_then(Value::count);
    let counters = Counters {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        total_tokens: count("total_tokens"),
        cached_tokens: detail("input_tokens_details", "cached_tokens"),
        cache_write_tokens: detail("input_tokens_details", "cache_write_tokens"),
        reasoning_tokens: detail("output_tokens_details", "reasoning_tokens"),
    };
    sink.put(Fragment::new(Part::Usage { counters, raw: usage.raw() }));
}
