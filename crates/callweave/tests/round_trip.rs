//! Law 7: a decoded response can be written back, and nothing is lost on the way.
//!
//! Every own case and, where it is at hand, every recording of a protocol that is written goes through decode → encode
//! → decode: streams as a stream and as a complete body, complete bodies as both. The events (or, where one form cannot
//! express the other's facts, the messages) are the same, and every JSON leaf of the input stands again in the output;
//! a reader that drops something cannot pass.

mod laws;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/shared.rs"]
mod shared;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use callweave::encode::EncodeOptions;
use callweave::event::{AttachmentKind, Event, EventKind, EventScope, NoticeCode};
use callweave::framing::{Frame, Framer, StreamLimits};
use callweave::json::{JsonKind, Str, Tape, TapeNode};
use callweave::message::{BlockContent, Message};
use callweave::protocol::Protocol;
use laws::{Decoded, comparable, decode_truncated, merge};
use samples::{Sample, all_samples};

/// The fields that a protocol's responses may lose, by the key of the leaf, and why a provider's engineer would not
/// mind.
const EXCEPTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        "openai-chat",
        &[
            ("obfuscation", "padding"),
            ("p", "padding"),
            ("padding", "padding"),
            ("finish_reason", "of several words the last one counts"),
        ],
    ),
    (
        "openai-responses",
        &[
            ("sequence_number", "made anew"),
            ("obfuscation", "padding"),
            ("item_id", "made anew from what the item itself says"),
        ],
    ),
    ("bedrock-converse", &[("p", "padding")]),
    ("bedrock-invoke", &[("p", "padding")]),
    ("ollama", &[("created_at", "the time of each single line"), ("index", "calls are numbered anew")]),
    ("cohere-v2", &[]),
    ("gemini-generatecontent", &[("role", "always the same, and said where there are parts")]),
];

/// Inputs that cannot come back complete, or not in the way named after them, and why.
const ASIDE: &[(&str, &str)] = &[
    ("openai-chat/end-marker-alone", "nothing was said, so nothing can be written"),
    (
        "openai-chat/function-call-legacy-twice-with-equal-arguments: → whole",
        "a body has room for one call of the old kind",
    ),
    ("openai-chat/status-words-before-the-stream", "of what comes before an answer the last counts"),
    ("openai-chat/text-beside-delta: lost", "what one frame says twice is written once"),
    ("openai-chat/usage-after-the-end-marker: lost", "what comes after the end is a notice"),
    (
        "openai-chat/groq-compound-mini-test-code-interpreter.sse: → whole",
        "a body tells a tool and its result at once",
    ),
    (
        "openai-chat/groq-compound-beta-test-groq-model-web-search-tool-stream.sse: → whole",
        "a body tells a tool and its result at once",
    ),
    (
        "openai-responses/second-response-after-the-first",
        "without numbers nobody knows what item a part is of",
    ),
    ("openai-responses/output-index-absent", "without numbers nobody knows what item a part is of"),
    (
        "openai-responses/output-index-absent-and-no-item-done",
        "without numbers nobody knows what item a part is of",
    ),
    ("openai-responses/output-index-and-id-absent", "without numbers nobody knows what item a part is of"),
    ("openai-chat/arguments-placeholder-then-real", "a correction is written as what is right"),
    ("openai-chat/arguments-go-on-after-the-call-ended", "what came too late for a call is a notice"),
    ("openai-chat/choice-index-huge-negative-or-text", "a choice of no number gets one"),
    ("openai-chat/index-huge-negative-or-fractional", "a call of no number gets one"),
    ("openai-chat/id-changes-without-a-name", "the first id counts"),
    (
        "openai-chat/members-of-another-type",
        "a member of the wrong type is passed on but has no place of its own",
    ),
    (
        "openai-chat/parts-of-another-type",
        "a member of the wrong type is passed on but has no place of its own",
    ),
    ("openai-chat/surrogates-split-between-deltas", "halves of a character are written as one"),
    (
        "openai-chat/reasoning-field-changes-in-mid-stream",
        "a whole body does not say which member spoke first",
    ),
    (
        "openai-responses/background-response-still-queued: whole → stream",
        "a stream that ends so has no last word",
    ),
    (
        "openai-responses/error-event-with-flat-members: → whole",
        "a whole body has a status and no loose parts",
    ),
    ("openai-responses/raw-thoughts-in-reasoning-parts: lost", "one server's name for content parts"),
    ("openai-responses/texts-where-lists-of-parts-belong: lost", "a lone text is written as the only part"),
    (
        "openai-responses/openai-gpt-5-2025-08-07-stream-image.sse: → whole",
        "the closing response has another image than the item's end",
    ),
    ("anthropic-messages/emoji-cut-between-deltas: lost", "halves of a character are written as one"),
    (
        "anthropic-messages/keep-alives-of-others-before-the-stream",
        "what others say before the stream begins has no place in it",
    ),
    (
        "anthropic-messages/usage-cache-written-then-read: stream",
        "of several messages that end a stream the last one is written with the reason",
    ),
    (
        "anthropic-messages/members-of-another-type: → whole",
        "a member of the wrong type is passed on but has no place of its own",
    ),
    (
        "anthropic-messages/things-not-known-yet: → whole",
        "a whole body has no place for events and deltas that nobody knows",
    ),
    (
        "bedrock-converse/thoughts-inside-thoughts",
        "thoughts inside thoughts have no place: they would be thoughts",
    ),
    (
        "bedrock-converse/whole-cached-input: lost",
        "a gateway's name for the kind of a block, beside the member that says it",
    ),
    (
        "bedrock-converse/bedrock-amazon-bedrock-json-tool.json: lost",
        "a gateway's name for the kind of a block, beside the member that says it",
    ),
    (
        "openai-chat/content-that-is-no-text",
        "a number or an object where a text belongs is written as a text",
    ),
    (
        "openai-chat/arguments-without-a-name-then-another-call",
        "a call without a name has no place of its own",
    ),
    ("openai-chat/same-index-twice-in-one-chunk", "two calls of one number are told under two"),
    ("openai-chat/stream-function-call-beside-tool-calls: lost", "blanks behind arguments say nothing"),
    ("openai-chat/line-end-behind-a-call-that-is-over: lost", "blanks behind arguments say nothing"),
    ("gemini-generatecontent/stream-finish-as-a-number: lost", "zero says that there is no reason yet"),
    ("bedrock-invoke/deepseek-choices-text: lost", "the number of the only answer"),
    (
        "anthropic-messages/call-without-input-then-another: → whole",
        "after a limit an object does not show whether it was cut, and a text does",
    ),
    (
        "anthropic-messages/limit-after-an-input-object: whole → stream",
        "after a limit an object does not show whether it was cut, and a text does",
    ),
    (
        "anthropic-messages/limit-after-complete-input-text: → whole",
        "after a limit an object does not show whether it was cut, and a text does",
    ),
    (
        "bedrock-converse/limit-after-an-input-object: whole → stream",
        "after a limit an object does not show whether it was cut, and a text does",
    ),
    (
        "openai-chat/limit-after-an-object",
        "after a limit an object does not show whether it was cut, and a text does",
    ),
    (
        "bedrock-converse/opentelemetry-python-contrib-test-converse-stream-with-invalid-model-0-9aeea9.json: whole → stream",
        "the error of a request is no event of a stream",
    ),
    (
        "bedrock-invoke/openinference-should-handle-mistral-pixtral-models-0-27c8bd.json",
        "the error of a request is no event of a stream",
    ),
    (
        "bedrock-converse/ai-amazon-bedrock-json-with-tools-1-0-275cd2.json: lost",
        "a gateway's name for the kind of a block, beside the member that says it",
    ),
    (
        "bedrock-invoke/whole-cohere-two-generations: whole → stream",
        "chunks of plain texts do not tell which of several answers they go on with",
    ),
    ("bedrock-invoke/whole-jurassic: whole → stream", "a retired model, which was never streamed"),
    ("bedrock-invoke/whole-jurassic: lost in the stream", "a retired model, which was never streamed"),
    ("bedrock-invoke/bytes-that-are-not-base64: lost", "a damaged chunk is a notice"),
    ("bedrock-invoke/envelope-inside-an-envelope", "no vendor speaks in envelopes"),
    ("bedrock-invoke/model-error-mid-stream: → whole", "a whole body has no exceptions"),
    (
        "bedrock-invoke/vendor-nobody-knows: → whole",
        "nobody knows what the chunks of an unknown vendor amount to",
    ),
    (
        "bedrock-invoke/bedrock-amazon.nova-lite-v1-0-test-nova-invoke-stream.eventstream: lost",
        "numbers of blocks without any content",
    ),
    (
        "gemini-generatecontent/array-cut-inside-a-call",
        "the frame ends in a call; what had come of it is written as a call that goes on",
    ),
    (
        "gemini-generatecontent/stream-call-beside-an-empty-text: lost",
        "arguments in a text are written as the object they are, and `thought` only where it is true",
    ),
    ("gemini-generatecontent/whole-sdk-dump-in-snake-case: lost", "a dump is written in the wire's spelling"),
];

/// Events without oddities of the way, and with neighbours in an order of their own: what stands beside each other in
/// one frame has none.
fn essence(events: &[Event<'static>]) -> Vec<String> {
    let mut told: Vec<Event<'static>> = Vec::new();
    for event in events {
        match &event.body {
            EventKind::Notice(_) => {}
            // In how many pieces they come says nothing.
            EventKind::Attachment {
                scope,
                kind: kind @ AttachmentKind::Logprobs,
                wire_type: word,
                value,
            } => {
                told.extend(value.clone().entries().into_iter().map(|value| {
                    let (scope, kind, word) = (*scope, *kind, word.clone());
                    Event::new(event.choice, EventKind::Attachment { scope, kind, wire_type: word, value })
                }));
            }
            _ => merge(&mut told, event.clone()),
        }
    }
    // The position of a block's end depends on the other content of its frame.
    let mut ends = Vec::new();
    told.retain(|event| {
        let is_end = matches!(event.body, EventKind::BlockEnd { .. });
        ends.extend(is_end.then(|| event.clone()));
        !is_end
    });
    for end in ends {
        let EventKind::BlockEnd { block, .. } = end.body else { continue };
        let is_of = |event: &Event<'_>| match &event.body {
            EventKind::BlockStart { block: own, .. }
            | EventKind::Delta { block: own, .. }
            | EventKind::Correction { block: own, .. }
            | EventKind::Extra { scope: EventScope::Block(own), .. }
            | EventKind::Identity { scope: EventScope::Block(own), .. }
            | EventKind::Attachment { scope: EventScope::Block(own), .. } => *own == block,
            _ => false,
        };
        let at = told.iter().rposition(is_of).map_or(told.len(), |at| at + 1);
        told.insert(at, end);
    }
    let is_free = |event: &Event<'_>| {
        use EventKind::{Attachment, Extra, Identity, Usage};
        matches!(event.body, Extra { .. } | Attachment { .. } | Usage { .. } | Identity { .. })
    };
    let mut lines: Vec<(bool, String)> = told
        .iter()
        .map(|event| (is_free(event), serde_json::to_string(event).expect("events serialise")))
        .collect();
    let mut from = 0;
    while from < lines.len() {
        let end =
            lines[from..].iter().position(|(is_free, _)| !is_free).map_or(lines.len(), |end| from + end);
        lines[from..end].sort();
        from = end + 1;
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The index at which two lists of lines part.
fn parting(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).position(|(one, other)| one != other).unwrap_or(one.len().min(other.len()))
}

fn encode_stream(protocol: &'static Protocol, decoded: &Decoded, options: &EncodeOptions) -> Vec<u8> {
    let mut encoder = protocol.encoder(options).expect("a protocol that is written");
    let mut out = Vec::new();
    for event in &decoded.events {
        encoder.encode(event, &mut out);
    }
    out
}

/// The values under a key.
#[derive(Default)]
struct Leaves {
    values: BTreeSet<String>,
    /// All texts, one after the other: a text may come in other pieces.
    joined: String,
}

impl Leaves {
    fn hold(&self, value: &str) -> bool {
        self.values.contains(value) || self.joined.contains(value)
    }
}

/// The scalars of every frame by the key they stand under; empty ones say nothing.
fn leaves(bytes: &[u8]) -> BTreeMap<String, Leaves> {
    let mut all: BTreeMap<String, Leaves> = BTreeMap::new();
    let mut tape = Tape::new();
    let mut framer = Framer::detect(StreamLimits::default());
    let mut take = |frame: Frame<'_>| {
        if let Ok(value) = tape.parse(frame.data) {
            collect(value, &mut all);
        }
    };
    let _ = framer.push(bytes, &mut take);
    let _ = framer.finish(&mut take);
    all
}

/// The member that holds a frame inside a frame.
const ENVELOPE: &str = "bytes";

fn collect(value: TapeNode<'_>, all: &mut BTreeMap<String, Leaves>) {
    let mut open = vec![(String::new(), value)];
    while let Some((key, value)) = open.pop() {
        match value.kind() {
            JsonKind::Object => open
                .extend(value.members().map(|(key, value)| (Str::Escaped(key).to_cow().into_owned(), value))),
            JsonKind::Array => open.extend(value.elements().map(|value| (key.clone(), value))),
            JsonKind::Null => {}
            JsonKind::String => {
                if let Some(text) = value.filled() {
                    let inside = STANDARD.decode(text.to_cow().as_bytes()).ok();
                    let inside =
                        inside.filter(|_| key == ENVELOPE).and_then(|bytes| String::from_utf8(bytes).ok());
                    if let Some(inside) = inside
                        && let Ok(inside) = Tape::new().parse(&inside)
                    {
                        collect(inside, all);
                        continue;
                    }
                    let leaves = all.entry(key).or_default();
                    leaves.joined.push_str(&text.to_cow());
                    leaves.values.insert(text.to_cow().into_owned());
                }
            }
            JsonKind::Number | JsonKind::Bool => {
                all.entry(key).or_default().values.insert(value.raw().to_owned());
            }
        }
    }
}

/// The members in which argument text stands.
const ARGUMENTS: &[&str] = &["arguments", "partial_json", "input"];

/// The leaves of the input that are not in the output: equal, or (texts) as a piece of what stands under the same key.
fn lost(protocol: &Protocol, input: &[u8], output: &[u8]) -> Vec<String> {
    let exceptions =
        EXCEPTIONS.iter().find(|(name, _)| *name == protocol.name).map_or(&[][..], |(_, list)| list);
    let (given, kept) = (leaves(input), leaves(output));
    let nothing = Leaves::default();
    let of = |key: &str| kept.get(key).unwrap_or(&nothing);
    let mut lost = Vec::new();
    for (key, leaves) in given {
        if exceptions.iter().any(|(own, _)| *own == key) {
            continue;
        }
        for value in leaves.values {
            // Arguments that came as an object are a text in the output.
            let quoted = serde_json::to_string(&value).expect("a text");
            let quoted = quoted.trim_matches('"');
            let is_argument = ARGUMENTS.iter().any(|key| of(key).hold(&value) || of(key).hold(quoted));
            if !of(&key).hold(&value) && !is_argument {
                lost.push(format!("{key}: {value:.120}"));
            }
        }
    }
    lost
}

fn check(protocol: &'static Protocol, sample: &Sample, complaints: &mut Vec<String>) {
    let Sample { title, bytes, .. } = sample;
    let decoded = decode_truncated(Some(protocol), bytes, &[]);
    if decoded.error.is_some() {
        return;
    }
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    let is_complete = bytes.trim_ascii_start().starts_with(b"{") && lines <= decoded.messages.len()
        || serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
    let stream = encode_stream(protocol, &decoded, &EncodeOptions::lossless());
    let again = decode_truncated(Some(protocol), &stream, &[]);
    // A body has no word for being truncated.
    let is_truncated =
        |message: &Message| message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
    let is_truncated = decoded.messages.iter().any(is_truncated);
    if is_complete && is_truncated {
    } else if is_complete {
        let (one, other) = (messages(protocol, &decoded), messages(protocol, &again));
        if one != other {
            complaints.push(format!("{title}: whole → stream\n  {one:?}\n  {other:?}"));
        }
    } else {
        let (one, other) = (essence(&decoded.events), essence(&again.events));
        if one != other {
            let at = parting(&one, &other);
            complaints.push(format!(
                "{title}: stream → stream, event {at}\n  {:?}\n  {:?}",
                one.get(at),
                other.get(at)
            ));
        }
    }
    let lost = lost(protocol, bytes, &stream);
    if !lost.is_empty() {
        complaints.push(format!("{title}: lost in the stream: {lost:?}"));
    }
    let [message] = &decoded.messages[..] else { return };
    if is_truncated {
        return;
    }
    let mut whole = Vec::new();
    assert!(
        protocol.encode_body(message, &EncodeOptions::lossless(), &mut whole),
        "a protocol that is written"
    );
    let again = decode_truncated(Some(protocol), &whole, &[]);
    let (one, other) = (messages(protocol, &decoded), messages(protocol, &again));
    if one != other {
        complaints
            .push(format!("{title}: → whole\n  {one:?}\n  {other:?}\n  {}", String::from_utf8_lossy(&whole)));
    }
}

/// Protocols whose complete body does not say in which order text, reasoning and calls came.
const ORDERLESS: &[&str] = &["openai-chat", "ollama", "cohere-v2"];

fn messages(protocol: &Protocol, decoded: &Decoded) -> Vec<serde_json::Value> {
    let is_orderless = ORDERLESS.contains(&protocol.name);
    decoded
        .messages
        .iter()
        .map(|message| if is_orderless { comparable(&sorted(message)) } else { comparable(message) })
        .collect()
}

fn sorted(message: &Message) -> Message {
    let mut message = message.clone();
    for choice in &mut message.choices {
        choice.blocks.sort_by_key(|block| match &block.content {
            BlockContent::Reasoning { .. } => 0,
            BlockContent::Text(_) => 1,
            BlockContent::Refusal(_) => 2,
            BlockContent::ToolCall(_) => 3,
            _ => 4,
        });
    }
    message
}

#[test]
fn what_was_read_is_written_back() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut complaints = Vec::new();
    let mut count = 0;
    let samples = all_samples();
    for sample in samples.iter().filter(|sample| sample.protocol.is_written()) {
        count += 1;
        check(sample.protocol, sample, &mut complaints);
    }
    // Most that are set aside are recordings: where those are absent, nobody complains of them.
    let has_recordings = samples.iter().any(|sample| !sample.is_own);
    let is_of =
        |what: &str, complaint: &str| complaint.strip_prefix(what).is_some_and(|rest| !rest.starts_with('-'));
    let is_idle = |(what, _): &&(&str, &str)| {
        has_recordings
            && only.is_empty()
            && !what.contains(".sse")
            && !complaints.iter().any(|complaint| is_of(what, complaint))
    };
    let idle: Vec<_> = ASIDE.iter().filter(is_idle).collect();
    assert!(idle.is_empty(), "these are written back: {idle:#?}");
    complaints.retain(|complaint| !ASIDE.iter().any(|(what, _)| is_of(what, complaint)));
    assert!(count > 0, "nothing to write");
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}
