//! Amazon Bedrock InvokeModel and InvokeModelWithResponseStream: an envelope.
//!
//! A stream event `chunk` holds, in base64, one event of the model vendor's own protocol; a complete response is the
//! vendor's own body without an envelope. The inner protocol is detected with the table of protocols. Only the
//! plain-text models, with body formats no longer used anywhere else, are read here.

mod encode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{DetectionEvidence, ExtraSubject, Protocol, ProtocolFrame, extra, finish_reason};
use crate::event::{CallKind, FinishReason, NoticeCode, TokenCounts};
use crate::fragment::{Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel, UsageReport};
use crate::json::{JsonKind, Str, Tape, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Amazon Bedrock InvokeModel.
pub static PROTOCOL: Protocol = Protocol {
    name: "bedrock-invoke",
    aliases: &["invoke"],
    title: "Amazon Bedrock InvokeModel",
    volatile: VOLATILE,
    kind_follows_text: false,
    errors: ERRORS,
    failure: Some(super::error::AMAZON),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: None,
};

/// Bedrock's own exceptions; the rest are the vendor's.
const ERRORS: &[(&str, ErrorClass)] = &[
    ("accessDeniedException", ErrorClass::Permission),
    ("throttlingException", ErrorClass::RateLimit),
    ("serviceUnavailableException", ErrorClass::Overloaded),
    ("validationException", ErrorClass::InvalidRequest),
    ("resourceNotFoundException", ErrorClass::NotFound),
    ("internalServerException", ErrorClass::Server),
    ("modelStreamErrorException", ErrorClass::Server),
    ("modelTimeoutException", ErrorClass::Transport),
];

/// Padding that hides token lengths.
const VOLATILE: &[&str] = &["p"];

/// The prefix of Bedrock's own members beside the vendor's.
const OWN: &str = "amazon-bedrock-";

/// A member of the last chunk of every stream.
const METRICS: &str = "amazon-bedrock-invocationMetrics";

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let is_ours = envelope(input.value).is_some() || (input.event.is_none() && is_plain(input.value));
    is_ours.then_some(DetectionEvidence::Strong)
}

/// The object with the `bytes`; SDKs print it under the event's name.
fn envelope(body: Value<'_>) -> Option<(Value<'_>, Str<'_>)> {
    let object = body.get("chunk").unwrap_or(body);
    let bytes = object.get("bytes").and_then(Value::str)?;
    Some((object, bytes))
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let Some((object, bytes)) = envelope(input.value) else {
        return vendor(input, sink);
    };
    let inside =
        STANDARD.decode(bytes.to_cow().as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let mut tape = Tape::new();
    match inside.as_deref().map(|text| tape.parse(text)) {
        Some(Ok(value)) => vendor(&ProtocolFrame { event: None, value }, sink),
        _ => sink.put(Fragment::new(FragmentKind::Notice {
            code: NoticeCode::MalformedFrame,
            detail: "the bytes of a chunk are not JSON in base64",
            text: Some(bytes.written()),
        })),
    }
    for (key, value) in object.members() {
        if key != "bytes" && !VOLATILE.contains(&key) {
            extra(ExtraSubject::ANSWER, "", key, value, sink);
        }
    }
}

/// Reads the vendor's own event or body, and Bedrock's additions to it.
fn vendor(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    for (key, value) in body.members().filter(|(key, _)| key.starts_with(OWN) && *key != METRICS) {
        extra(ExtraSubject::ANSWER, "", key, value, sink);
    }
    let is_own = body.members().all(|(key, _)| key.starts_with(OWN));
    if is_jurassic(body) {
        jurassic(body, sink);
    } else if is_plain(body) {
        plain(0, body, ListDepth::Body, sink);
    } else if is_own {
        // Only Bedrock's own members.
    } else if let Some(protocol) = Protocol::detect(input).filter(|&protocol| *protocol != PROTOCOL) {
        // No vendor uses envelopes: one inside another is passed on.
        protocol.decode(input, &mut |fragment: Fragment<'_>| match fragment.part {
            FragmentKind::Extra { key, .. } if key.starts_with(OWN) => {}
            _ => sink.put(fragment),
        });
    } else {
        // It may be new content or a repetition, so the rest must not pass for the complete response.
        let detail = "a chunk has a shape that is not known, and its text is not read";
        sink.put(Fragment::new(FragmentKind::Notice {
            code: NoticeCode::MalformedFrame,
            detail,
            text: None,
        }));
        sink.put(Fragment::new(FragmentKind::Finish { reason: FinishReason::Other, raw: None }));
        sink.put(Fragment::new(FragmentKind::Opaque {
            wire_type: input.event.unwrap_or_default(),
            value: body.opaque_json(),
        }));
    }
    if let Some(metrics) = body.get(METRICS) {
        let usage = UsageReport::of(metrics, read_metrics);
        sink.put(Fragment::new(FragmentKind::Usage { wire_type: METRICS, usage }));
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

fn read_metrics(metrics: Value<'_>) -> TokenCounts {
    let count = |key: &str| metrics.get(key).and_then(Value::count);
    let (cached_tokens, cache_write_tokens) =
        (count("cacheReadInputTokenCount"), count("cacheWriteInputTokenCount"));
    let cache = cached_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
    TokenCounts {
        input_tokens: count("inputTokenCount").map(|input| input.saturating_add(cache)),
        output_tokens: count("outputTokenCount"),
        cached_tokens,
        cache_write_tokens,
        ..TokenCounts::default()
    }
}

/// The body format of a plain-text model.
struct PlainTextModel {
    /// The wire type of a block of its text.
    wire_type: &'static str,
    text: &'static str,
    reason: &'static str,
    /// The list that holds the responses: always, or only in a complete body.
    list: Option<&'static str>,
    is_always_list: bool,
    /// Whether the member of the text identifies the format; else the reason has to be beside it, even if null.
    is_telling: bool,
    /// Members of which one must be present as well, where another protocol has such texts, too.
    beside: &'static [&'static str],
    /// The members that are always there in a stream.
    usual: &'static [(&'static str, &'static str)],
    /// The members with the counts of a complete body: input, beside the list, and output.
    counts: [&'static str; 2],
}

const USUAL: PlainTextModel = PlainTextModel {
    wire_type: "text",
    text: "text",
    reason: "stop_reason",
    list: None,
    is_always_list: false,
    is_telling: false,
    beside: &[],
    usual: &[],
    counts: [""; 2],
};

/// Claude 2, Titan, Llama, Mistral, DeepSeek, Cohere's Command (and Command R, with no list in the complete body).
const PLAIN: &[PlainTextModel] = &[
    PlainTextModel {
        wire_type: "completion",
        text: "completion",
        usual: &[("type", "\"completion\"")],
        ..USUAL
    },
    PlainTextModel {
        wire_type: "outputText",
        text: "outputText",
        reason: "completionReason",
        list: Some("results"),
        is_telling: true,
        usual: &[("index", "0")],
        counts: ["inputTextTokenCount", "tokenCount"],
        ..USUAL
    },
    PlainTextModel {
        wire_type: "generation",
        text: "generation",
        is_telling: true,
        counts: ["prompt_token_count", "generation_token_count"],
        ..USUAL
    },
    PlainTextModel { list: Some("outputs"), is_always_list: true, ..USUAL },
    PlainTextModel { wire_type: "choices[].text", list: Some("choices"), is_always_list: true, ..USUAL },
    COMMAND_R,
    PlainTextModel {
        wire_type: "generations[].text",
        list: Some("generations"),
        is_always_list: true,
        ..COMMAND_R
    },
];

const COMMAND_R: PlainTextModel = PlainTextModel {
    wire_type: "cohere.text",
    reason: "finish_reason",
    is_telling: true,
    beside: &["is_finished", "generation_id", "finish_reason"],
    ..USUAL
};

/// The wire type of a text block of AI21's Jurassic.
const JURASSIC: &str = "completions[].data.text";

/// The members with the token counts.
const INPUT: &[&str] = &["inputTextTokenCount", "prompt_token_count"];
const OUTPUT: &[&str] = &["totalOutputTextTokenCount", "generation_token_count", "tokenCount"];

/// Whether it is one of the lists that hold the responses of plain-text models.
fn is_list(key: &str) -> bool {
    PLAIN.iter().any(|words| words.list == Some(key))
}

const FINISH: &[(&str, FinishReason)] = &[
    ("stop", FinishReason::Stop),
    ("stop_sequence", FinishReason::Stop),
    ("FINISH", FinishReason::Stop),
    ("FINISHED", FinishReason::Stop),
    ("STOP_CRITERIA_MET", FinishReason::Stop),
    ("length", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("LENGTH", FinishReason::Length),
    ("CONTENT_FILTERED", FinishReason::ContentFilter),
    ("COMPLETE", FinishReason::Stop),
    ("endoftext", FinishReason::Stop),
    ("MAX_TOKENS", FinishReason::Length),
    ("ERROR_LIMIT", FinishReason::Length),
    ("ERROR_TOXIC", FinishReason::ContentFilter),
    ("ERROR", FinishReason::Error),
];

fn is_plain(body: Value<'_>) -> bool {
    words_of(body).is_some() || is_jurassic(body) || is_end_of_command(body)
}

/// Returns the format of a plain-text model's body.
fn words_of(body: Value<'_>) -> Option<&'static PlainTextModel> {
    let is_response = |words: &PlainTextModel, body: Value<'_>| {
        let says = |key: &str| body.get(key).is_some();
        body.get(words.text).is_some_and(|text| text.kind() == JsonKind::String)
            && (words.is_telling || says(words.reason))
            && (words.beside.is_empty() || words.beside.iter().any(|key| says(key)))
    };
    // Otherwise `choices` belongs to the older completions of the chat protocol.
    let is_other = |words: &PlainTextModel, body: Value<'_>| {
        words.list == Some("choices") && body.get("object").is_some()
            || words.text == "text" && body.get("type").is_some()
    };
    PLAIN.iter().filter(|words| !is_other(words, body)).find(|words| {
        let listed = words.list.and_then(|list| body.get(list)).and_then(|list| list.elements().next());
        match listed {
            Some(first) => {
                is_response(words, first)
                    && (words.list != Some("choices") || first.get("finish_reason").is_none())
            }
            None => !words.is_always_list && is_response(words, body),
        }
    })
}

/// Whether it is the end of a stream of Cohere's Command.
fn is_end_of_command(body: Value<'_>) -> bool {
    body.get("is_finished").and_then(Value::bool).is_some()
        && (body.get("finish_reason").is_some() || body.get("event_type").is_some())
}

/// Whether it is a body of AI21's Jurassic.
fn is_jurassic(body: Value<'_>) -> bool {
    let first = body.get("completions").and_then(|list| list.elements().next());
    first.is_some_and(|first| first.get("data").is_some_and(|data| data.get("text").is_some()))
}

/// Reads the responses of AI21's Jurassic: `{"completions": [{"data": {"text", "tokens"}, "finishReason":
/// {"reason"}}]}`.
fn jurassic(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in body.members().filter(|(key, _)| *key != "completions" && !key.starts_with(OWN)) {
        extra(ExtraSubject::ANSWER, "", key, value, sink);
    }
    let answers = body.get("completions");
    for (choice, answer) in (0..).zip(answers.into_iter().flat_map(Value::elements)) {
        for (key, value) in answer.members() {
            if !matches!(key, "data" | "finishReason") {
                extra(ExtraSubject::choice(choice), "", key, value, sink);
            }
        }
        let data = answer.get("data");
        for (key, value) in data.into_iter().flat_map(Value::members).filter(|(key, _)| *key != "text") {
            extra(ExtraSubject::choice(choice), "data.", key, value, sink);
        }
        if let Some(text) = data.and_then(|data| data.get("text")).and_then(Value::opaque_filled) {
            let (channel, wire_type) = (TextChannel::Text, JURASSIC);
            sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).in_choice(choice));
        }
        let finish = answer.get("finishReason");
        for (key, value) in finish.into_iter().flat_map(Value::members).filter(|(key, _)| *key != "reason") {
            extra(ExtraSubject::choice(choice), "finishReason.", key, value, sink);
        }
        if let Some(wire_type) = finish.and_then(|finish| finish.get("reason")).and_then(Value::filled) {
            let reason = finish_reason(wire_type, FINISH);
            sink.put(
                Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }).in_choice(choice),
            );
        }
    }
    sink.put(Fragment::new(FragmentKind::Done));
}

/// The level of a plain-text response: only a body may list responses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListDepth {
    Body,
    /// In a list with texts of that wire type.
    Listed(&'static str),
}

/// Reads a plain-text response, or a list of them; a response in a list holds no list itself.
fn plain(choice: u32, body: Value<'_>, depth: ListDepth, sink: &mut FragmentSink<'_>) {
    let words = words_of(body).unwrap_or(&USUAL);
    let wire_type = if let ListDepth::Listed(wire_type) = depth { wire_type } else { words.wire_type };
    // Members beside a list of responses concern all of them.
    let has_list = depth == ListDepth::Body && body.members().any(|(key, _)| is_list(key));
    let subject = if has_list { ExtraSubject::ANSWER } else { ExtraSubject::choice(choice) };
    let mut counters = TokenCounts::default();
    let (mut counts, mut told, mut finish, mut calls) = (Vec::new(), None, None, None);
    let mut count = |key, value: Value<'_>| {
        counts.push(format!("\"{key}\":{}", value.raw()));
        value.count()
    };
    for (key, value) in body.members() {
        match key {
            "type" | "index" => {}
            key if key.starts_with(OWN) => {}
            key if PLAIN.iter().any(|words| words.text == key) && value.kind() == JsonKind::String => {
                told = value.opaque_filled();
            }
            key if is_list(key) && depth == ListDepth::Body => {}
            "stop_reason" | "completionReason" | "finish_reason" => finish = value.filled(),
            "tool_calls" if value.kind() == JsonKind::Array => calls = Some(value),
            key if INPUT.contains(&key) => counters.input_tokens = count(key, value),
            key if OUTPUT.contains(&key) => counters.output_tokens = count(key, value),
            _ => extra(subject, "", key, value, sink),
        }
    }
    if counters != TokenCounts::default() {
        // The counts are among the other members, so an object with the counts alone is made here.
        let raw = format!("{{{}}}", counts.join(","));
        sink.put(Fragment::new(FragmentKind::Usage {
            wire_type: "",
            usage: UsageReport::new(counters, &*raw),
        }));
    }
    if let Some(text) = told {
        let (channel, wire_type) = (TextChannel::Text, wire_type);
        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).in_choice(choice));
    }
    // Command R's calls.
    for call in calls.into_iter().flat_map(Value::elements) {
        let name = call.get("name").and_then(Value::opaque_filled);
        let arguments = call.get("parameters").map(|value| FragmentArguments::Value(value.opaque_json()));
        let part = FragmentKind::Call {
            id: None,
            name,
            kind: CallKind::Function,
            wire_type: "tool_calls",
            arguments,
        };
        sink.put(Fragment::new(part).in_choice(choice));
    }
    for (_, list) in body.members().filter(|(key, _)| is_list(key) && depth == ListDepth::Body) {
        for (choice, answer) in (0..).zip(list.elements()) {
            plain(choice, answer, ListDepth::Listed(words.wire_type), sink);
        }
    }
    if let Some(wire_type) = finish {
        let reason = finish_reason(wire_type, FINISH);
        sink.put(
            Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }).in_choice(choice),
        );
        sink.put(Fragment::new(FragmentKind::Done));
    }
}
