//! Amazon Bedrock InvokeModel and InvokeModelWithResponseStream: an envelope.
//!
//! A stream event `chunk` holds, in base64, one event of the model vendor's own protocol; a whole answer is
//! the vendor's own body without an envelope. What is inside is told by the table of protocols. Only the
//! plain-text models, whose bodies are spoken nowhere else any more, are read here.

mod encode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Evidence, Input, Protocol, Subject, finish_reason, foreign};
use crate::event::{Counters, FinishReason, NoticeCode};
use crate::fragment::{Channel, Fragment, FragmentSink, Part};
use crate::json::{Kind, Node as Value, Str, Tape};
use crate::upstream::ErrorClass;

/// Amazon Bedrock InvokeModel.
pub static PROTOCOL: Protocol = Protocol {
    name: "bedrock-invoke",
    aliases: &["invoke"],
    title: "Amazon Bedrock InvokeModel",
    volatile: VOLATILE,
    errors: ERRORS,
    failure: Some(super::error::AMAZON),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: None,
};

/// Bedrock's own; the rest are the vendor's.
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

/// What Bedrock itself says beside the vendor's own members begins so.
const OWN: &str = "amazon-bedrock-";

/// Stands in the last chunk of every stream.
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
    for (key, value) in body.members().filter(|(key, _)| key.starts_with(OWN) && *key != METRICS) {
        foreign(Subject::ANSWER, "", key, value, sink);
    }
    if is_plain(body) {
        plain(0, body, Depth::Body, sink);
    } else if let Some(protocol) = Protocol::detect(input).filter(|&protocol| *protocol != PROTOCOL) {
        // No vendor speaks in envelopes: one inside another is passed on.
        protocol.decode(input, &mut |fragment: Fragment<'_>| match fragment.part {
            Part::Foreign { key, .. } if key.starts_with(OWN) => {}
            _ => sink.put(fragment),
        });
    } else {
        // Nobody knows whether it tells more or all again.
        sink.put(Fragment::new(Part::Opaque {
            word: input.event.unwrap_or_default(),
            value: body.pass_raw(),
        }));
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
        sink.put(Fragment::new(Part::Usage { word: METRICS, counters, raw: metrics.pass_raw(), read: None }));
        sink.put(Fragment::new(Part::Done));
    }
}

/// How a plain-text model writes.
struct PlainWords {
    text: &'static str,
    reason: &'static str,
    /// The list in which answers stand: always, or only in a whole body.
    list: Option<&'static str>,
    is_always_list: bool,
    /// What always stands there in a stream.
    usual: &'static [(&'static str, &'static str)],
    /// Where a whole body counts input, beside the list, and output.
    counts: [&'static str; 2],
}

/// Claude 2, Titan, Llama, Mistral.
const PLAIN: &[PlainWords] = &[
    PlainWords {
        text: "completion",
        reason: "stop_reason",
        list: None,
        is_always_list: false,
        usual: &[("type", "\"completion\"")],
        counts: [""; 2],
    },
    PlainWords {
        text: "outputText",
        reason: "completionReason",
        list: Some("results"),
        is_always_list: false,
        usual: &[("index", "0")],
        counts: ["inputTextTokenCount", "tokenCount"],
    },
    PlainWords {
        text: "generation",
        reason: "stop_reason",
        list: None,
        is_always_list: false,
        usual: &[],
        counts: ["prompt_token_count", "generation_token_count"],
    },
    PlainWords {
        text: "text",
        reason: "stop_reason",
        list: Some("outputs"),
        is_always_list: true,
        usual: &[],
        counts: [""; 2],
    },
];

/// The members in which they count.
const INPUT: &[&str] = &["inputTextTokenCount", "prompt_token_count"];
const OUTPUT: &[&str] = &["totalOutputTextTokenCount", "generation_token_count", "tokenCount"];

/// Whether it is one of the lists in which plain-text models answer.
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
];

fn is_plain(body: Value<'_>) -> bool {
    let is_answer = |body: Value<'_>, is_listed: bool| {
        let is_apt = |words: &&PlainWords| is_listed == words.list.is_some() || !words.is_always_list;
        PLAIN.iter().filter(is_apt).any(|words| {
            body.get(words.text).is_some_and(|text| text.kind() == Kind::String)
                && body.get(words.reason).is_some()
        })
    };
    let is_listed = |(key, list): (&str, Value<'_>)| {
        is_list(key) && list.elements().next().is_some_and(|first| is_answer(first, true))
    };
    is_answer(body, false) || body.members().any(is_listed)
}

/// Who may list answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Body,
    Listed,
}

/// A plain-text answer, or a list of them; an answer of a list holds none itself.
fn plain(choice: u32, body: Value<'_>, depth: Depth, sink: &mut FragmentSink<'_>) {
    let mut counters = Counters::default();
    let (mut counts, mut told, mut finish) = (Vec::new(), None, None);
    let mut count = |key, value: Value<'_>| {
        counts.push(format!("\"{key}\":{}", value.raw()));
        value.count()
    };
    for (key, value) in body.members() {
        match key {
            "type" | "index" => {}
            key if key.starts_with(OWN) => {}
            key if PLAIN.iter().any(|words| words.text == key) => {
                told = value.pass_filled().map(|text| (key, text))
            }
            key if is_list(key) && depth == Depth::Body => {}
            "stop_reason" | "completionReason" => finish = value.filled(),
            key if INPUT.contains(&key) => counters.input_tokens = count(key, value),
            key if OUTPUT.contains(&key) => counters.output_tokens = count(key, value),
            _ => foreign(Subject::choice(choice), "", key, value, sink),
        }
    }
    if counters != Counters::default() {
        // The counts stand among the text, so the object that holds them alone is made here.
        let raw = format!("{{{}}}", counts.join(","));
        sink.put(Fragment::new(Part::Usage { word: "", counters, raw: &raw, read: None }));
    }
    if let Some((word, text)) = told {
        sink.put(Fragment::new(Part::Text { channel: Channel::Text, word, text }).in_choice(choice));
    }
    for (_, list) in body.members().filter(|(key, _)| is_list(key) && depth == Depth::Body) {
        for (choice, answer) in (0..).zip(list.elements()) {
            plain(choice, answer, Depth::Listed, sink);
        }
    }
    if let Some(word) = finish {
        let reason = finish_reason(word, FINISH);
        sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }).in_choice(choice));
        sink.put(Fragment::new(Part::Done));
    }
}
