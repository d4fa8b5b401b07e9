//! Amazon Bedrock InvokeModel and InvokeModelWithResponseStream: an envelope.
//!
//! A stream event `chunk` holds, in base64, one event of the model vendor's own protocol; a whole answer is
//! the vendor's own body without an envelope. What is inside is told by the table of protocols. Only the
//! plain-text models, whose bodies are spoken nowhere else any more, are read here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Evidence, Input, Protocol, Subject, finish_reason, foreign};
use crate::event::{Counters, FinishReason, NoticeCode};
use crate::fragment::{Channel, Fragment, FragmentSink, Part};
use crate::json::{Kind, Node as Value, Str, Tape};

/// Amazon Bedrock InvokeModel.
pub static PROTOCOL: Protocol = Protocol {
    name: "bedrock-invoke",
    aliases: &["invoke"],
    title: "Amazon Bedrock InvokeModel",
    volatile: VOLATILE,
    // Its errors are Bedrock's or the vendor's.
    errors: &[],
    recognise,
    decode,
    encode: None,
};

/// Padding that hides token lengths.
const VOLATILE: &[&str] = &["p"];

/// Stands beside the vendor's own members in the last chunk of every stream.
const METRICS: &str = "amazon-bedrock-invocationMetrics";

fn recognise(input: &Input<'_>) -> Option<Evidence> {
    let is_ours = envelope(input.value).is_some() || (input.event.is_none() && is_plain(input.value));
    is_ours.then_some(Evidence::Strong)
}

/// The object with the `bytes`; SDKs print it under the event's name.
fn envelope(body: Value<'_>) -> Option<(Value<'_>, Str<'_>)> {
    let object = body.get("chunk").unwrap_or(body);
    let bytes = object.get("bytes").and_then(Value::str)?;
    Some((object, bytes))
}

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let Some((object, bytes)) = envelope(input.value) else {
        return vendor(input, sink);
    };
    let inside =
        STANDARD.decode(bytes.to_cow().as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let mut tape = Tape::new();
    match inside.as_deref().map(|text| tape.parse(text)) {
        Some(Ok(value)) => vendor(&Input { event: None, value }, sink),
        _ => sink.put(Fragment::new(Part::Notice {
            code: NoticeCode::MalformedFrame,
            detail: "the bytes of a chunk are not JSON in base64",
            text: Some(bytes.written()),
        })),
    }
    for (key, value) in object.members() {
        if key != "bytes" && !VOLATILE.contains(&key) {
            foreign(Subject::ANSWER, "", key, value, sink);
        }
    }
}

/// The vendor's own event or body, and what Bedrock adds to it.
fn vendor(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    if is_plain(body) {
        plain(0, body, LISTS, sink);
    } else if let Some(protocol) = Protocol::detect(input).filter(|&protocol| *protocol != PROTOCOL) {
        // No vendor speaks in envelopes: one inside another is passed on.
        protocol.decode(input, sink);
    } else {
        // Nobody knows whether it tells more or all again.
        sink.put(Fragment::new(Part::Opaque { word: input.event.unwrap_or_default(), value: body.raw() }));
    }
    if let Some(metrics) = body.get(METRICS) {
        let count = |key: &str| metrics.get(key).and_then(Value::count);
        let (cached_tokens, cache_write_tokens) =
            (count("cacheReadInputTokenCount"), count("cacheWriteInputTokenCount"));
        let cache = cached_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
        let counters = Counters {
            input_tokens: count("inputTokenCount").map(|input| input.saturating_add(cache)),
            output_tokens: count("outputTokenCount"),
            cached_tokens,
            cache_write_tokens,
            ..Counters::default()
        };
        sink.put(Fragment::new(Part::Usage { word: METRICS, counters, raw: metrics.raw() }));
        sink.put(Fragment::new(Part::Done));
    }
}

/// The members in which plain-text models write: Claude 2, Titan, Llama.
const TEXTS: &[&str] = &["completion", "outputText", "generation"];
/// The members in which they list their answers: Titan, Mistral.
const LISTS: &[&str] = &["results", "outputs"];

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
];

fn is_plain(body: Value<'_>) -> bool {
    let is_answer = |body: Value<'_>, texts: &[&str]| {
        texts.iter().any(|key| body.get(key).is_some_and(|text| text.kind() == Kind::String))
            && ["stop_reason", "completionReason"].iter().any(|key| body.get(key).is_some())
    };
    is_answer(body, TEXTS)
        || LISTS
            .iter()
            .filter_map(|key| body.get(key))
            .any(|list| list.elements().next().is_some_and(|first| is_answer(first, &["outputText", "text"])))
}

/// A plain-text answer, or a list of them under one of `lists`; an answer of a list holds none itself.
fn plain(choice: u32, body: Value<'_>, lists: &[&str], sink: &mut FragmentSink<'_>) {
    let mut counters = Counters::default();
    let mut counts = Vec::new();
    let mut count = |key, value: Value<'_>| {
        counts.push(format!("\"{key}\":{}", value.raw()));
        value.count()
    };
    for (key, value) in body.members() {
        match key {
            "type" | "index" => {}
            key if TEXTS.contains(&key) || key == "text" => {
                if let Some(text) = value.filled() {
                    sink.put(
                        Fragment::new(Part::Text { channel: Channel::Text, word: key, text })
                            .in_choice(choice),
                    );
                }
            }
            key if lists.contains(&key) => {
                for (choice, answer) in (0..).zip(value.elements()) {
                    plain(choice, answer, &[], sink);
                }
            }
            "stop_reason" | "completionReason" => {
                if let Some(word) = value.filled() {
                    let reason = finish_reason(word, FINISH);
                    sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }).in_choice(choice));
                    sink.put(Fragment::new(Part::Done));
                }
            }
            "inputTextTokenCount" | "prompt_token_count" => counters.input_tokens = count(key, value),
            "totalOutputTextTokenCount" | "generation_token_count" | "tokenCount" => {
                counters.output_tokens = count(key, value);
            }
            _ => foreign(Subject::choice(choice), "", key, value, sink),
        }
    }
    if counters != Counters::default() {
        // The counts stand among the text, so the object that holds them alone is made here.
        let raw = format!("{{{}}}", counts.join(","));
        sink.put(Fragment::new(Part::Usage { word: "", counters, raw: &raw }));
    }
}
