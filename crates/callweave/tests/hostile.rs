//! Input made to hurt: a clear error or a correct result, bounded memory, and no overflow of the stack. That the
//! work grows with the input and no faster is counted by `cargo xtask growth`.

#[path = "support/aws.rs"]
mod aws;
mod laws;
#[path = "support/many.rs"]
mod many;

use allocation_counter::measure;
use callweave::ErrorKind;
use callweave::accumulator::Accumulator;
use callweave::event::{BlockCompletion, Event, NoticeCode, Sink};
use callweave::framing::{Framing, StreamLimits};
use callweave::grammar::EventValidator;
use callweave::message::{BlockContent, Message};
use callweave::pipeline::Decoder;
use many::{MANY, Many, chat, events};

/// Unoptimised code is slow, and the result is the same with less input.
const SCALE: usize = if cfg!(debug_assertions) { 10 } else { 1 };

/// Decodes bytes that a server may have sent; the grammar holds for any.
fn decode(bytes: &[u8]) -> (Message, Option<callweave::Error>) {
    decode_with(Decoder::detect(), bytes)
}

fn decode_with(mut decoder: Decoder, bytes: &[u8]) -> (Message, Option<callweave::Error>) {
    let (mut accumulator, mut validator) = (Accumulator::new(), EventValidator::new());
    let mut sink = |event: Event<'_>| {
        validator.put(event.clone());
        accumulator.put(event);
    };
    let pushed = bytes.chunks(1 << 16).try_for_each(|piece| decoder.push(piece, &mut sink));
    let finished = decoder.finish(&mut sink);
    let error = pushed.and(finished).err();
    let faults = if error.is_none() { validator.finish() } else { validator.faults().to_vec() };
    assert!(faults.is_empty(), "{:#?}", &faults[..faults.len().min(5)]);
    (accumulator.take(), error)
}

fn decode_body(bytes: &[u8]) -> Message {
    let (message, error) = decode(bytes);
    assert_eq!(error, None);
    message
}

fn has_notice(message: &Message, code: NoticeCode) -> bool {
    message.notices.iter().any(|notice| notice.code == code)
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn a_single_line_of_100_megabytes() {
    let limits =
        StreamLimits { line: (64 << 20) / SCALE, frame: (64 << 20) / SCALE, ..StreamLimits::default() };
    for framing in [Framing::Sse, Framing::JsonLines, Framing::JsonValues] {
        let head: &[u8] = match framing {
            Framing::Sse => b"data: {\"choices\":[{\"delta\":{\"content\":\"",
            _ => b"{\"choices\":[{\"delta\":{\"content\":\"",
        };
        let piece = vec![b'x'; 1 << 16];
        let mut outcome = Ok(());
        let used = measure(|| {
            let mut decoder = Decoder::builder().framing(framing).limits(limits).build();
            let mut events = 0_usize;
            let mut sink = |_: Event<'_>| events += 1;
            outcome = decoder.push(head, &mut sink);
            for _ in 0..100 * 16 / SCALE {
                outcome = outcome.clone().and(decoder.push(&piece, &mut sink));
            }
        });
        let error = outcome.expect_err("the line is longer than the limit");
        assert_eq!(error.kind(), ErrorKind::Limit, "{framing}: {error}");
        assert!(used.bytes_max < 3 * limits.line as u64, "{framing}: {} bytes at once", used.bytes_max);
    }
}

#[test]
fn a_text_of_many_megabytes_in_one_frame() {
    let text = "x".repeat((32 << 20) / SCALE);
    let bytes = chat([format!("{{\"content\":\"{text}\"}}")].into_iter());
    assert_eq!(decode_body(&bytes).text().len(), text.len());
}

#[test]
fn a_million_frames_that_say_nothing() {
    for empty in ["data:\n\n", ": ping\n\n", "\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n"] {
        let mut bytes = empty.repeat(1_000_000 / SCALE / 4).into_bytes();
        bytes.extend(chat(["{\"content\":\"Hello\"}".to_owned()].into_iter()));
        let mut outcome = None;
        let used = measure(|| outcome = Some(decode(&bytes)));
        let (message, error) = outcome.expect("decoded");
        assert_eq!((&*message.text(), error), ("Hello", None), "{empty:?}");
        assert!(used.bytes_max < 1 << 20, "{empty:?}: {} bytes at once", used.bytes_max);
    }
}

#[test]
fn deep_nesting_is_kept_and_overflows_nothing() {
    let depth = 1_000_000 / SCALE;
    let deep = nested(depth);
    let escaped = deep.clone();
    for delta in [
        format!("{{\"content\":\"a\",\"foreign\":{deep}}}"),
        format!("{{\"content\":\"a\",\"annotations\":[{deep}]}}"),
        format!("{{\"content\":{deep}}}"),
        format!("{{\"content\":\"a\",\"reasoning_details\":[{{\"type\":\"x\",\"y\":{deep}}}]}}"),
        format!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"f\",\"arguments\":{deep}}}}}]}}"
        ),
        format!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"f\",\"arguments\":\"{{\\\"a\\\":{escaped}}}\"}}}}]}}"
        ),
    ] {
        let message = decode_body(&chat([delta.clone()].into_iter()));
        let text = serde_json::to_string(&message).expect("messages serialise");
        let half = "[".repeat(depth / 2);
        assert!(text.contains(&half), "lost: {}", &delta[..60]);
    }
    for member in ["usage", "error", "x"] {
        let body = format!("{{\"object\":\"chat.completion\",\"choices\":[],\"{member}\":{{\"a\":{deep}}}}}");
        let text = serde_json::to_string(&decode_body(body.as_bytes())).expect("messages serialise");
        assert!(text.contains(&"[".repeat(depth / 2)), "lost: {member}");
    }
    // Not even JSON.
    for text in [format!("data: {}\n\n", "[".repeat(depth)), "{\"a\":".repeat(depth)] {
        let (message, error) = decode(text.as_bytes());
        let is_marked = error.is_some() || !message.errors.is_empty() || !message.notices.is_empty();
        assert!(is_marked && message.text().is_empty(), "{}", &text[..20]);
    }
}

#[test]
fn leaves_with_hostile_paths_allocate_little() {
    let part = |call: &str| {
        format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{call}}}]}}}}]}}")
    };
    let begin = part("{\"name\":\"f\",\"willContinue\":true}");
    let leaf = |path: String| {
        let leaf = format!("{{\"jsonPath\":\"{path}\",\"numberValue\":1}}");
        part(&format!("{{\"partialArgs\":[{leaf}],\"willContinue\":true}}"))
    };
    let paths = (0..2000).map(|at| format!("$.a{at}[99999]")).chain([
        "$".to_owned() + &".a".repeat(100_000),
        "$".to_owned() + &"[0]".repeat(100_000),
        "$.x[18446744073709551615]".to_owned(),
        "$.x[".to_owned(),
        "$['".to_owned(),
        "$.ok".to_owned(),
    ]);
    let bytes = events([begin].into_iter().chain(paths.map(leaf)));
    let mut message = Message::default();
    let used = measure(|| message = decode_body(&bytes));
    assert!(used.bytes_max < 32 << 20, "{} bytes at once", used.bytes_max);
    let call = message.tool_calls().next().expect("a call");
    assert!(call.arguments().contains("\"ok\":1"), "{}", call.arguments());
    assert!(call.completion == BlockCompletion::Truncated, "leaves that found no place are missing");
    assert!(has_notice(&message, NoticeCode::MalformedCall));
}

#[test]
fn strange_numbers_name_places() {
    let indices = ["0", "-1", "1.5", "1e300", "99999999999999999999999", "\"7\"", "-0.0"];
    let call = |index: &str, at: usize, piece: &str| {
        let head = if piece == "{" { format!("\"id\":\"c{at}\",") } else { String::new() };
        let name = if piece == "{" { format!("\"name\":\"f{at}\",") } else { String::new() };
        format!(
            "{{\"tool_calls\":[{{\"index\":{index},{head}\"function\":{{{name}\"arguments\":\"{piece}\"}}}}]}}"
        )
    };
    // The last one is the first one again.
    let distinct = &indices[..6];
    let first = distinct.iter().enumerate().map(|(at, index)| call(index, at, "{"));
    let second = distinct.iter().enumerate().map(|(at, index)| call(index, at, "}"));
    let message = decode_body(&chat(first.chain(second)));
    let calls: Vec<_> = message.tool_calls().map(|call| (call.name.clone(), call.arguments())).collect();
    assert_eq!(calls.len(), distinct.len());
    assert!(calls.iter().all(|(_, arguments)| *arguments == "{}"), "{calls:?}");
    for index in ["NaN", "Infinity", "-Infinity"] {
        let message = decode_body(&chat([call(index, 0, "{}")].into_iter()));
        assert_eq!(message.tool_calls().count(), 1, "{index}");
        assert!(has_notice(&message, NoticeCode::Repaired), "{index}");
    }
}

#[test]
fn a_frame_with_nan_is_read_and_a_hopeless_one_is_kept() {
    let message = decode_body(&chat(
        [
            "{\"content\":\"a\",\"score\":NaN}",
            "{\"content\":\"b\",}",
            "{\"content\":\"lo",
            "{\"content\":\"c\"}",
        ]
        .into_iter()
        .map(str::to_owned),
    ));
    assert!(message.text().starts_with("ab") && message.text().ends_with('c'), "{}", message.text());
    assert_eq!(message.notices.iter().filter(|notice| notice.code == NoticeCode::Repaired).count(), 2);
    let kept = message.notices.iter().find(|notice| notice.code == NoticeCode::MalformedFrame);
    assert!(
        kept.and_then(|notice| notice.text.as_deref()).is_some_and(|text| text.contains("lo}")),
        "{kept:?}"
    );
}

#[test]
fn half_surrogates_become_replacement_characters() {
    let message = decode_body(&chat(
        [
            r#"{"content":"a\ud800","x\udc00":"\ud83d"}"#,
            r#"{"content":"b\udc00"}"#,
            r#"{"tool_calls":[{"index":0,"id":"\ud800","function":{"name":"f\udfff","arguments":"{\"a\":\"\\ud800\"}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"x","function":{"name":"g","arguments":{"a":"\ud800"}}}]}"#,
        ]
        .into_iter()
        .map(str::to_owned),
    ));
    assert_eq!(message.text(), "a\u{fffd}b\u{fffd}");
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), ("\u{fffd}", "f\u{fffd}"));
    assert_eq!(calls[0].arguments(), r#"{"a":"\ud800"}"#);
    assert_eq!(calls[1].arguments(), r#"{"a":"\ud800"}"#);
    let text = serde_json::to_string(&message).expect("messages serialise");
    assert!(text.contains("\":\"\u{fffd}\""), "{text}");
}

#[test]
fn bytes_that_are_not_utf8_are_replaced() {
    let mut bytes =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xFF\xC3(\xF0\x9F\x98\"}}]}\n\n".to_vec();
    bytes.extend(chat(["{\"content\":\"b\"}".to_owned()].into_iter()));
    let message = decode_body(&bytes);
    assert_eq!(message.text(), "a\u{fffd}\u{fffd}(\u{fffd}b");
    assert!(has_notice(&message, NoticeCode::InvalidUtf8));
}

fn aws_message(payload: &[u8]) -> Vec<u8> {
    aws::message(b"\x0B:event-type\x07\x00\x11contentBlockDelta", payload)
}

#[test]
fn binary_frames_cut_or_changed_anywhere() {
    let one = aws_message(br#"{"contentBlockIndex":0,"delta":{"text":"Hello"}}"#);
    let bytes: Vec<u8> = one.iter().chain(&one).copied().collect();
    let decoder = || Decoder::builder().framing(Framing::AwsEventStream).build();
    for end in 1..bytes.len() {
        let (message, error) = decode_with(decoder(), &bytes[..end]);
        let expected = if end < one.len() { "" } else { "Hello" };
        assert_eq!(message.text(), expected, "cut at {end}");
        assert_eq!(error.is_some(), end != one.len(), "cut at {end}: {error:?}");
        if end != one.len() {
            let kind = error.map(|error| error.kind());
            assert!(matches!(kind, Some(ErrorKind::Framing | ErrorKind::Unknown)), "cut at {end}: {kind:?}");
        }
    }
    for at in 0..one.len() {
        let mut bytes = one.clone();
        bytes[at] ^= 0x40;
        let (_, error) = decode_with(decoder(), &bytes);
        assert!(error.is_some(), "byte {at} changed and nobody noticed");
    }
    let huge: Vec<u8> = [0xFF; 12].into_iter().chain([0; 100]).collect();
    let used = measure(|| {
        let (_, error) = decode_with(decoder(), &huge);
        assert!(error.is_some());
    });
    assert!(used.bytes_max < 1 << 20, "{} bytes for a length that is a lie", used.bytes_max);
}

#[test]
fn very_many_of_one_thing() {
    for Many { name, full, make, check } in MANY {
        let count = full / SCALE;
        let bytes = make(count);
        let mut message = Message::default();
        let used = measure(|| message = decode_body(&bytes));
        check(count, &message);
        // The memory held is the message, the record of the bytes seen, and the index of its parts.
        let bound = (1 << 20) + 60 * bytes.len() as u64;
        assert!(used.bytes_max < bound, "{name}: {} bytes at once for {}", used.bytes_max, bytes.len());
        if let Some(BlockContent::ToolCall(call)) =
            message.first().and_then(|choice| choice.blocks.first()).map(|block| &block.content)
        {
            assert!(call.name.is_empty() || call.name.starts_with(['f', '0']), "{name}: {}", call.name);
        }
    }
}

#[test]
fn frames_that_nobody_knows_are_counted_and_the_answer_after_them_is_read() {
    let unknown = (0..1000).map(|at| format!("{{\"unheard_of\":{at}}}"));
    let mut bytes = events(unknown);
    bytes.extend(chat(["{\"content\":\"late\"}".to_owned()].into_iter()));
    let (message, error) = decode(&bytes);
    assert_eq!((message.text().as_ref(), error), ("late", None));
    let notices: Vec<_> = message.notices.iter().map(|notice| notice.detail.as_ref()).collect();
    assert!(notices.contains(&"frames before the answer were left out: 936"), "{notices:?}");
    // Keep-alives that say the same take no room.
    let mut bytes = events((0..1000).map(|_| "{\"type\":\"ping\"}".to_owned()));
    bytes.extend(chat(["{\"content\":\"late\"}".to_owned()].into_iter()));
    let (message, error) = decode(&bytes);
    assert_eq!((message.text().as_ref(), error), ("late", None));
    assert!(message.notices.iter().all(|notice| !notice.detail.contains("left out")));
    let (_, error) = decode(&events((0..1000).map(|at| format!("{{\"unheard_of\":{at}}}"))));
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Unknown));
}
