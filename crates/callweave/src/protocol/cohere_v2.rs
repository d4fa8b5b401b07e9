//! Cohere's v2 chat: named events, and the whole body.
//!
//! Contents and calls are numbered each on their own. The `tool_plan` (what the model means to do before
//! it calls) is told as thoughts: it is about the answer, not part of it, and Cohere itself keeps it out of
//! the content. It has no number and no end, so it runs until something else begins.

mod encode;
mod request;

use super::call::{CallObject, CallWords, Portion};
use super::error::write_message;
use super::{
    Context, ErrorCoding, Evidence, Input, Protocol, Subject, finish_reason, foreign, is_usual, report,
};
use crate::event::{AttachmentKind, Counters, FinishReason};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Level, Part, Place};
use crate::json::{Kind, Node as Value, Str};
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

/// How failed requests are answered: with a sentence.
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

/// What is answered: the wire has no word for it.
const CHAT: &str = "v2/chat";

mod words {
    pub(super) const TEXT: &str = "text";
    pub(super) const THINKING: &str = "thinking";
    pub(super) const PLAN: &str = "tool_plan";
    pub(super) const CITATIONS: &str = "citations";
}

const CONTENT_SPACE: u8 = 0;
const CALL_SPACE: u8 = 1;

fn recognise(input: &Input<'_>) -> Option<Evidence> {
    let body = input.value;
    let message = body.get("message").map(Value::kind);
    let is_strong = event(input).is_some_and(is_event)
        || message == Some(Kind::Object) && body.get("finish_reason").is_some();
    let has_id = || body.get("id").is_some_and(|id| id.kind() == Kind::String);
    // An error: the words, an id and perhaps a type, and nothing else. Or an answer that was cut off.
    Evidence::of(is_strong, || match message {
        Some(Kind::String) => {
            has_id() && body.members().all(|(key, _)| matches!(key, "id" | "message" | "error_type"))
        }
        Some(Kind::Object) => has_id() && body.get("model").is_none(),
        _ => false,
    })
}

/// The name of the event: its own `type`, else the name of the frame.
fn event<'a>(input: &Input<'a>) -> Option<&'a str> {
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

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    match event(input) {
        Some(name) if is_event(name) => decode_event(name, input.value, sink),
        Some(name) if input.value.get("message").is_none() && input.value.get("error").is_none() => {
            foreign(Subject::ANSWER, "", name, input.value, sink);
        }
        _ => decode_body(input.value, sink),
    }
}

fn decode_event(name: &str, frame: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut place, mut delta, mut id, mut entries) = (None, None, None, None);
    for (key, value) in frame.members() {
        match key {
            "type" => {}
            "index" => place = Place::of(value),
            "delta" => delta = Some(value),
            "id" => id = value.filled(),
            "logprobs" => entries = Some(value),
            _ => foreign(Subject::ANSWER, "", key, value, sink),
        }
    }
    if id.is_some() || name == "message-start" {
        sink.put(Fragment::new(Part::Start { id, model: None, word: CHAT }));
    }
    logprobs(entries, sink);
    if let Some(delta) = delta {
        decode_delta(place, delta, sink);
    }
    let over = match name {
        "content-end" => place.unwrap_or(Place::at(0)).in_space(CONTENT_SPACE),
        "tool-call-end" => place.unwrap_or(Place::at(0)).in_space(CALL_SPACE),
        "message-end" => {
            sink.put(Fragment::new(Part::Done));
            return;
        }
        _ => return,
    };
    sink.put(Fragment::new(Part::End).at(over));
}

fn decode_delta(place: Option<Place>, delta: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut finish, mut usage, mut failure) = (None, None, None);
    for (key, value) in delta.members() {
        match key {
            "message" => decode_message(place, value, sink),
            "finish_reason" => finish = value.str(),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            _ => foreign(Subject::ANSWER, "delta.", key, value, sink),
        }
    }
    // Some gateways put a word for the error beside its sentence.
    let code = || delta.get("error_type").and_then(Value::filled);
    decode_end(finish, usage, failure.map(|failure| (failure, code())), sink);
}

/// What ends an answer, in the last event or in the whole body.
fn decode_end(
    finish: Option<Str<'_>>,
    usage: Option<Value<'_>>,
    failure: Option<(Value<'_>, Option<Str<'_>>)>,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(usage) = usage {
        decode_usage(usage, sink);
    }
    if let Some((failure, code)) = failure {
        report(failure, Context { words: ERRORS, code, ..Context::default() }, sink);
    }
    if let Some(word) = finish {
        let reason = finish_reason(word, FINISH);
        sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }));
    }
}

fn decode_body(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut id, mut model, mut message) = (None, None, None);
    let (mut entries, mut finish, mut usage, mut failure) = (None, None, None, None);
    for (key, value) in body.members() {
        match key {
            "id" => id = value.filled(),
            "model" => model = value.filled(),
            "message" => message = Some(value),
            "finish_reason" => finish = value.str(),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            "logprobs" => entries = Some(value),
            // Part of an error that is the body itself, which is passed on whole.
            "error_type" if body.get("error").is_none() => {}
            _ => foreign(Subject::ANSWER, "", key, value, sink),
        }
    }
    if id.is_some() || model.is_some() {
        sink.put(Fragment::new(Part::Start { id, model, word: CHAT }));
    }
    logprobs(entries, sink);
    let mut code = body.get("error_type").and_then(Value::filled);
    match message.map(Value::kind) {
        Some(Kind::String) => (failure, code) = (Some(body), None),
        _ => {
            if let Some(message) = message {
                decode_message(None, message, sink);
            }
        }
    }
    decode_end(finish, usage, failure.map(|failure| (failure, code)), sink);
    if finish.is_some() {
        sink.put(Fragment::new(Part::Done));
    }
}

/// A message: whole, with lists, or the piece of one that an event with its `index` tells.
fn decode_message(place: Option<Place>, message: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut content, mut plan, mut calls, mut citations) = (None, None, None, None);
    for (key, value) in message.members() {
        match key {
            "role" if is_usual(value, &["assistant"]) => {}
            "content" => content = Some(value),
            "tool_plan" => plan = value.pass_filled(),
            "tool_calls" => calls = Some(value),
            "citations" => citations = Some(value),
            _ => foreign(Subject::choice(0), "message.", key, value, sink),
        }
    }
    if let Some(text) = content.and_then(Value::pass_filled) {
        let place = place.unwrap_or(Place::at(0)).in_space(CONTENT_SPACE);
        sink.put(Fragment::new(Part::Text { channel: Channel::Text, word: words::TEXT, text }).at(place));
    }
    each(place, content, sink, decode_content);
    each(None, citations, sink, |_, citation, _, sink| {
        // It says itself which content it is about.
        let (level, kind, word) = (Level::Choice, AttachmentKind::Annotation, words::CITATIONS);
        sink.put(Fragment::new(Part::Attach { level, on: "", kind, word, value: citation.pass_raw() }));
    });
    if let Some(text) = plan {
        sink.put(Fragment::new(Part::Text { channel: Channel::REASONING, word: words::PLAN, text }));
    }
    each(place, calls, sink, decode_call);
}

/// Goes through a list of whole things, or through the one thing that an event tells a piece of.
fn each(
    place: Option<Place>,
    value: Option<Value<'_>>,
    sink: &mut FragmentSink<'_>,
    tell: fn(Place, Value<'_>, Portion, &mut FragmentSink<'_>),
) {
    let Some(value) = value else { return };
    match value.kind() {
        Kind::Object => tell(place.unwrap_or(Place::at(0)), value, Portion::Piece, sink),
        _ => {
            for (position, element) in (0..).zip(value.elements()) {
                tell(Place::at(position), element, Portion::Whole, sink);
            }
        }
    }
}

fn decode_content(place: Place, content: Value<'_>, portion: Portion, sink: &mut FragmentSink<'_>) {
    let place = place.in_space(CONTENT_SPACE);
    let kind = content.get("type").and_then(Value::str);
    if kind.is_some_and(|kind| !kind.is(words::TEXT) && !kind.is(words::THINKING)) {
        sink.put(Fragment::new(Part::Opaque { word: "content", value: content.pass_raw() }).at(place));
        return;
    }
    for (key, value) in content.members() {
        let (channel, word) = match key {
            "type" => continue,
            words::TEXT => (Channel::Text, words::TEXT),
            words::THINKING => (Channel::REASONING, words::THINKING),
            _ => {
                foreign(Subject::block(0, place), "", key, value, sink);
                continue;
            }
        };
        let Some(text) = value.pass() else { continue };
        if kind.is_some() {
            sink.put(Fragment::new(Part::Open { channel, word }).at(place));
        }
        if !text.is_empty() {
            sink.put(Fragment::new(Part::Text { channel, word, text }).at(place));
        }
    }
    if portion == Portion::Whole {
        sink.put(Fragment::new(Part::End).at(place));
    }
}

const CALL: CallWords =
    CallWords { id: &["id"], index: &[], wrappers: &["function"], arguments: &[], wrapped: &["arguments"] };

fn decode_call(place: Place, call: Value<'_>, portion: Portion, sink: &mut FragmentSink<'_>) {
    let place = place.in_space(CALL_SPACE);
    let pass_on = |path, key, value| foreign(Subject::next(0), path, key, value, sink);
    let CallObject { id, name, kind, arguments, .. } = CallObject::read(call, &CALL, pass_on);
    // Even an empty text settles the name.
    let arguments = arguments.and_then(Value::pass).map(Arguments::Text);
    sink.put(Fragment::new(Part::Call { id, name, kind, word: "tool_calls", arguments }).at(place));
    if portion == Portion::Whole {
        sink.put(Fragment::new(Part::End).at(place));
    }
}

fn logprobs(entries: Option<Value<'_>>, sink: &mut FragmentSink<'_>) {
    if let Some(entries) = entries.filter(|entries| !entries.is_null()) {
        let (level, kind, word) = (Level::Choice, AttachmentKind::Logprobs, "logprobs");
        sink.put(Fragment::new(Part::Attach { level, on: "", kind, word, value: entries.pass_raw() }));
    }
}

fn decode_usage(usage: Value<'_>, sink: &mut FragmentSink<'_>) {
    if usage.members().next().is_none() {
        return;
    }
    // What was billed leaves Cohere's own prompt out; it is the second best.
    let count = |key: &str| {
        let of = |group: &str| usage.get(group).and_then(|group| group.get(key)).and_then(Value::count);
        of("tokens").or_else(|| of("billed_units"))
    };
    let counters = Counters {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        total_tokens: None,
        cached_tokens: usage.get("cached_tokens").and_then(Value::count),
        cache_write_tokens: None,
        reasoning_tokens: count("reasoning_tokens"),
    };
    sink.put(Fragment::new(Part::Usage { word: "usage", counters, raw: usage.pass_raw(), read: None }));
}
