//! Prefaces before a response, missing ends, and wrong protocol names: none of these may pass for a good response, and
//! nothing of a good response may be lost by them.

#[path = "support/cores.rs"]
mod cores;
mod laws;

use std::fs;

use callweave::event::{BlockCompletion, FinishReason, JsonText, NoticeCode};
use callweave::json::compact_into;
use callweave::message::{Block, BlockContent, Message};
use callweave::protocol::{Protocol, TABLE};
use cores::each;
use laws::{Decoded, data, decode_truncated, folders, name};

/// Texts that proxies and servers send before a response, or between two pieces of it.
const PREFACES: &[&str] = &[
    r#"{"type":"ping"}"#,
    r#"{"type":"keepalive","sequence_number":1}"#,
    r#"{"message":"your request is number 3 in the queue"}"#,
    r#"{"detail":"warming up"}"#,
    r#"{"detail":[{"loc":["body"],"msg":"deprecated"}]}"#,
    r#"{"status":"processing"}"#,
    r#"{"event":"heartbeat","data":null}"#,
    r#"{"id":7,"result":{"ok":true}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#,
    r#"{"choices":null}"#,
    r#"{"queue":[1,2]}"#,
    "{}",
    "[]",
    "null",
    r#""connected""#,
    "connected",
    "{not json",
];

/// The own cases whose name ends so, with their protocol and input.
fn cases(endings: &[&str]) -> Vec<(&'static Protocol, String, Vec<u8>)> {
    let mut cases = Vec::new();
    for folder in folders(&data("protocol")) {
        let protocol = Protocol::named(&name(&folder)).expect("a protocol of that name");
        for case in folders(&folder) {
            for ending in endings {
                if let Ok(bytes) = fs::read(case.join(format!("input.{ending}"))) {
                    cases.push((protocol, format!("{}/{}", protocol.name, name(&case)), bytes));
                }
            }
        }
    }
    assert!(cases.len() > 20, "where are the cases?");
    cases
}

/// Returns the parts that must not change: the content and the finish reason.
fn content(decoded: &Decoded) -> Vec<(Vec<BlockContent>, Option<FinishReason>)> {
    // JSON of the provider is the same with other blanks.
    let compact = |value: &JsonText<'_>| JsonText::from_value(&value.to_value());
    let plain = |block: &Block| match block.content.clone() {
        BlockContent::Opaque(value) => BlockContent::Opaque(compact(&value)),
        BlockContent::ToolResult(mut result) => {
            result.value = compact(&result.value);
            BlockContent::ToolResult(result)
        }
        content => content,
    };
    let blocks = |message: &Message| {
        let blocks = message.choices.iter().flat_map(|choice| &choice.blocks);
        (blocks.map(plain).collect(), message.finish_reason())
    };
    decoded.messages.iter().map(blocks).collect()
}

fn is_response(decoded: &Decoded) -> bool {
    decoded.error.is_none()
        && decoded.messages.iter().all(|message| message.errors.is_empty())
        && decoded
            .messages
            .iter()
            .any(|message| message.choices.iter().any(|choice| !choice.blocks.is_empty()))
}

#[test]
fn what_comes_before_an_answer_does_not_harm_it() {
    let mut count = 0;
    for (protocol, title, bytes) in cases(&["sse", "jsonl"]) {
        let plain = decode_truncated(None, &bytes, &[]);
        if !is_response(&plain) || plain.protocol != Some(protocol.name) {
            continue;
        }
        let is_sse = !bytes.starts_with(b"{");
        for preface in PREFACES {
            let before = if is_sse { format!("data: {preface}\n\n") } else { format!("{preface}\n") };
            let mut input = before.into_bytes();
            input.extend(&bytes);
            for known in [None, Some(protocol)] {
                let decoded = decode_truncated(known, &input, &[]);
                assert_eq!(decoded.faults, [""; 0], "{title} after {preface}");
                assert_eq!(decoded.error, None, "{title} after {preface}");
                assert_eq!(content(&decoded), content(&plain), "{title} after {preface} as {known:?}");
            }
            count += 1;
        }
    }
    assert!(count > 500, "only {count}");
}

#[test]
fn a_wrong_name_is_never_a_silent_success() {
    for (protocol, title, bytes) in cases(&["sse", "jsonl", "json"]) {
        let right = decode_truncated(Some(protocol), &bytes, &[]);
        if !is_response(&right) {
            continue;
        }
        for other in TABLE.iter().copied().filter(|other| *other != protocol) {
            let decoded = decode_truncated(Some(other), &bytes, &[]);
            let is_told = decoded.error.is_some()
                || decoded.messages.iter().any(|message| {
                    let is_empty = message.choices.iter().all(|choice| choice.blocks.is_empty());
                    !is_empty || !message.notices.is_empty() || !message.errors.is_empty()
                });
            assert!(is_told, "{title} as {}: {:?}", other.name, decoded.message);
            if let Some(error) = decoded.error {
                assert!(error.detail().contains(other.name), "{title}: {error}");
            }
        }
    }
    let chat =
        br#"{"object":"chat.completion","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    let error = decode_truncated(Protocol::named("anthropic"), chat, &[]).error.expect("it is not");
    assert_eq!(error.detail(), "nothing in the input is anthropic-messages; it looks like openai-chat");
}

#[test]
fn a_body_cut_anywhere_is_read_as_far_as_it_came() {
    each(&cases(&["json"]), |(protocol, title, bytes)| {
        let whole = decode_truncated(Some(protocol), bytes, &[]);
        // The number of a choice may stand after its text.
        if !is_response(&whole) || whole.messages.len() > 1 || whole.message.choices.len() > 1 {
            return;
        }
        let (text, thoughts) = (whole.message.text(), whole.message.reasoning());
        let calls: Vec<_> = whole.message.tool_calls().collect();
        let last = bytes.trim_ascii_end().len();
        for end in 1..last {
            let cut = decode_truncated(None, &bytes[..end], &[]);
            let message = &cut.message;
            let title = format!("{title} cut at {end}");
            assert_eq!(cut.faults, [""; 0], "{title}");
            let is_marked = cut.error.is_some()
                || !message.errors.is_empty()
                || message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
            // An array may be complete but for its bracket.
            assert!(is_marked || bytes.starts_with(b"["), "{title}: {message:?}");
            let is_stopped = message.finish_reason() == Some(FinishReason::Stop);
            assert!(cut.error.is_some() || !is_stopped || bytes.starts_with(b"["), "{title}");
            // A character may be truncated, too; and the mark that a text is reasoning may stand after it.
            let (told, thought) = (message.text(), message.reasoning());
            let [told, thought] = [&told, &thought].map(|text| text.trim_end_matches('\u{fffd}'));
            assert!(text.starts_with(told) || thoughts.starts_with(told), "{title}: {told}");
            assert!(thoughts.starts_with(thought), "{title}: {thought}");
            for call in message.tool_calls() {
                let is_known = |known: &&callweave::message::ToolCall| {
                    known.name == call.name && known.raw_arguments == call.raw_arguments
                };
                let is_complete = call.completion == BlockCompletion::Complete && call.invalid().is_none();
                assert!(!is_complete || calls.iter().any(is_known), "{title}: {call:?}");
            }
        }
    });
}

#[test]
fn a_damaged_line_costs_that_line_alone() {
    for (protocol, title, bytes) in cases(&["jsonl"]) {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { continue };
        let rest = decode_truncated(Some(protocol), &bytes[end + 1..], &[]);
        if !is_response(&rest) || !bytes[end + 1..].starts_with(b"{\"") {
            continue;
        }
        // A line that ends so may go on with the next, one that begins so may be a comment of SSE.
        let is_odd = |cut: usize| {
            bytes[..cut].trim_ascii_end().last().is_some_and(|last| b":[,".contains(last))
                || (bytes[cut] == b':' && !b"\"{[".contains(&bytes[cut + 1]))
        };
        for cut in (1..end).filter(|&cut| !is_odd(cut)) {
            for damaged in [&bytes[..cut], &bytes[cut..end]] {
                let input = [damaged, &bytes[end..]].concat();
                let decoded = decode_truncated(Some(protocol), &input, &[]);
                let text = String::from_utf8_lossy(damaged);
                assert_eq!(decoded.error, None, "{title}: {text}");
                assert_eq!(content(&decoded), content(&rest), "{title}: {text}");
                assert!(
                    decoded.messages[0]
                        .notices
                        .iter()
                        .any(|notice| notice.code == NoticeCode::MalformedFrame),
                    "{title}: {text}"
                );
            }
        }
    }
}

/// A recording may hold responses of several protocols: each is detected by itself.
#[test]
fn answers_of_several_protocols_are_several_answers() {
    let mut bodies: Vec<(&'static Protocol, String, Vec<u8>)> = Vec::new();
    for (protocol, title, bytes) in cases(&["json"]) {
        let is_known = bodies.iter().any(|(other, ..)| *other == protocol);
        let decoded = decode_truncated(None, &bytes, &[]);
        let is_complete = title.contains("/whole-") && !decoded.message.is_truncated();
        let is_complete = is_complete && decoded.protocol == Some(protocol.name);
        if !is_known && is_complete && is_response(&decoded) && decoded.messages.len() == 1 {
            bodies.push((protocol, title, bytes));
        }
    }
    assert!(bodies.len() > 5, "too few protocols have a whole body: {}", bodies.len());
    for (first, title, one) in &bodies {
        for (second, other_title, other) in bodies.iter().filter(|(second, ..)| second != first) {
            let mut both = String::new();
            for body in [one, other] {
                compact_into(std::str::from_utf8(body).expect("a case in UTF-8"), &mut both);
                both.push('\n');
            }
            let decoded = decode_truncated(None, both.as_bytes(), &[]);
            let expected: Vec<_> =
                [one, other].iter().flat_map(|bytes| content(&decode_truncated(None, bytes, &[]))).collect();
            assert_eq!(content(&decoded), expected, "{title}, then {other_title} ({})", second.name);
        }
    }
}
