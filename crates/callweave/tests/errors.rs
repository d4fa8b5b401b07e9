//! Errors through every protocol: before a stream and in its middle, there and back.

use std::fs;
use std::time::Duration;

use callweave::Value;
use callweave::encode::EncodeOptions;
use callweave::event::{Event, EventKind};
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE, WrittenError, read_error};
use callweave::upstream::{ErrorClass, UpstreamError};
use cores::each;

#[path = "support/cores.rs"]
mod cores;
#[path = "support/shared.rs"]
mod shared;

fn written() -> impl Iterator<Item = &'static Protocol> {
    TABLE.iter().copied().filter(|protocol| protocol.is_written())
}

fn read(protocol: &Protocol, written: &WrittenError) -> UpstreamError<'static> {
    protocol.read_error(Some(written.status), written.headers.clone(), &written.body)
}

/// Returns the facts that must survive.
fn facts(error: &UpstreamError<'_>) -> (ErrorClass, Option<u16>, String, Option<Duration>, Option<String>) {
    let id = error.request_id.as_ref().map(ToString::to_string);
    (error.class, error.status, error.message.to_string(), error.retry_after, id)
}

/// Errors of every class: with their usual status, and with one that says something else.
fn errors() -> Vec<UpstreamError<'static>> {
    let mut errors = Vec::new();
    for class in ErrorClass::ALL.into_iter().filter(|class| *class != ErrorClass::Other) {
        let statuses = [None, Some(400), Some(404), Some(429), Some(500), Some(529)];
        for (number, status) in statuses.into_iter().enumerate() {
            let mut error = UpstreamError::new(class, format!("It \"went\" wrong\n({number}) für alle"));
            error.status = status;
            error.retry_after = (number % 2 == 0).then(|| Duration::from_millis(1500 * number as u64));
            error.request_id = (number % 3 == 0).then(|| "req_1".into());
            errors.push(error);
        }
    }
    for class in [ErrorClass::RateLimit, ErrorClass::ContextTooLong, ErrorClass::InvalidRequest] {
        errors.extend(NASTY.iter().map(|message| {
            let mut error = UpstreamError::new(class, *message);
            error.status = Some(400);
            error
        }));
    }
    errors
}

/// Messages that look like something else, or speak of another class.
const NASTY: &[&str] = &[
    "{\"message\": \"inner\"}",
    "[1]",
    "null",
    "<html><title>502 Bad Gateway</title></html>",
    "503 Service Unavailable",
    "rate limit exceeded, try again in 1m30s",
    "prompt is too long",
    "Incorrect API key provided",
    "connection reset by peer",
    "model not found",
    "authentication",
    "error",
    "Permission",
    "a\u{0}b\u{1f600}\"\\/\u{2028}",
    " x ",
    "0",
    "data: [DONE]\n\n",
];

fn is_vague(error: &UpstreamError<'_>) -> bool {
    matches!(error.class, ErrorClass::InvalidRequest | ErrorClass::Server | ErrorClass::Transport)
}

/// A status that says more than a vague class is the better word: no wire has both.
fn is_told(error: &UpstreamError<'_>) -> bool {
    !is_vague(error) || !matches!(error.status, Some(404 | 429 | 529))
}

#[test]
fn errors_survive_every_protocol_and_the_way_back() {
    let mut errors = errors();
    errors.retain(is_told);
    let counts = each(&errors, |error| {
        let mut count = 0;
        for from in written() {
            let told = read(from, &from.write_error(error).expect("it is written"));
            // Words that say more than a vague class are the better ones, too.
            if !(is_vague(error) && NASTY.contains(&&*error.message)) {
                assert_eq!(told.class, error.class, "{}", from.name);
            }
            assert_eq!(told.message, error.message, "{}", from.name);
            assert_eq!(told.status.filter(|_| error.status.is_some()), error.status, "{}", from.name);
            // The wait may stand in the words.
            let wait = told.retry_after.filter(|_| error.retry_after.is_some());
            assert_eq!((wait, &told.request_id), (error.retry_after, &error.request_id), "{}", from.name);
            for to in written() {
                let there = read(to, &to.write_error(&told).expect("it is written"));
                assert_eq!(facts(&there), facts(&told), "{} → {}", from.name, to.name);
                let back = read(from, &from.write_error(&there).expect("it is written"));
                assert_eq!(facts(&back), facts(&told), "{} → {} → {}", from.name, to.name, from.name);
                count += 1;
            }
        }
        count
    });
    println!("{} ways", counts.iter().sum::<usize>());
}

#[test]
fn a_body_comes_back_as_it_was_in_its_own_protocol() {
    for body in [
        &b"{\"error\": {\"message\":\"no\",  \"odd\": [1.0]}}\n"[..],
        b"<html>\xff",
        b"\"text\"",
        b"",
        b"no json",
    ] {
        for protocol in written() {
            let headers = [("content-type", "text/odd"), ("Retry-After", "3"), ("x-request-id", "r")];
            let error = protocol.read_error(Some(418), headers, body);
            let again = protocol.write_error(&error).expect("it is written");
            assert_eq!((again.status, &*again.body), (418, body), "{}", protocol.name);
            let header = |name: &str| again.headers.iter().any(|(own, _)| *own == name);
            assert!(header("retry-after") && header("content-type"), "{} {:?}", protocol.name, again.headers);
        }
    }
}

#[test]
fn a_wait_until_a_date_counts_from_the_answers_own_date() {
    let then = ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT");
    let wait = |now: &str| {
        let error = callweave::protocol::read_error(Some(429), [("Date", now), then], b"");
        error.retry_after.map(|wait| wait.as_secs())
    };
    assert_eq!(wait("Wed, 21 Oct 2026 07:28:00 GMT"), Some(30));
    assert_eq!(wait("Wed, 21 Oct 2026 07:29:00 GMT"), Some(0));
    assert_eq!(wait("yesterday"), None);
}

/// Returns the error in a stream of the protocol.
fn in_stream(
    protocol: &'static Protocol,
    error: &UpstreamError<'static>,
    opening: &[Event<'static>],
) -> UpstreamError<'static> {
    let mut bytes = Vec::new();
    let mut encoder = protocol.encoder(&EncodeOptions::normalized()).expect("it is written");
    let event = |body| Event::new(0, body);
    for event in opening.iter().chain(&[event(EventKind::Error(error.clone())), event(EventKind::End)]) {
        encoder.encode(event, &mut bytes);
    }
    let mut found = None;
    let mut sink = |event: Event<'_>| {
        if let EventKind::Error(error) = event.body {
            found.get_or_insert(error.into_owned());
        }
    };
    let mut decoder = Decoder::new(protocol);
    decoder.push(&bytes, &mut sink).expect("a stream");
    decoder.finish(&mut sink).expect("a stream");
    found.unwrap_or_else(|| panic!("{}: no error in {}", protocol.name, String::from_utf8_lossy(&bytes)))
}

#[test]
fn errors_survive_in_mid_stream() {
    let text = b"{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":false}\n";
    let mut opening = Vec::new();
    let mut decoder = Decoder::detect();
    decoder.push(text, &mut opening).expect("a stream");
    assert!(!opening.is_empty());
    // A stream of sentences has the title of a page.
    let is_page = |error: &UpstreamError<'_>| error.message.starts_with('<');
    let speaks_else = |error: &UpstreamError<'_>| is_vague(error) && NASTY.contains(&&*error.message);
    let is_tried = |error: &&UpstreamError<'_>| is_told(error) && !is_page(error) && !speaks_else(error);
    for error in errors().iter().filter(is_tried) {
        for from in written() {
            let told = read(from, &from.write_error(error).expect("it is written"));
            for to in written() {
                // In a response, or instead of one.
                let is_first = told.status == Some(400);
                let found = in_stream(to, &told, if is_first { &[] } else { &opening });
                assert_eq!(
                    (found.class, &found.message),
                    (told.class, &told.message),
                    "{} → {}",
                    from.name,
                    to.name
                );
            }
        }
    }
}

/// The expectations of other gateways.
#[test]
fn errors_are_translated_as_others_expect() {
    let Some(path) = shared::find("vectors/translation.jsonl") else { return };
    let (mut all, mut contested) = (0, 0);
    for line in fs::read_to_string(path).expect("the rows").lines() {
        let row: Value = line.parse().expect("a row");
        if row["kind"] != "error" || row["input"].get("status").is_none() {
            continue;
        }
        let protocol = |key: &str| Protocol::named(row[key].as_str().expect("a name")).expect("a protocol");
        let input = &row["input"];
        let status = input["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let headers = input["headers"].as_object().into_iter().flatten();
        let headers: Vec<_> = headers
            .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let body = input["body"].as_str().map_or_else(|| input["body"].to_string(), str::to_owned);
        let error = protocol("from").read_error(status, headers, body.as_bytes());
        let answer = protocol("to").write_error(&error).expect("it is written");
        assert_eq!(Some(answer.status), status, "{line}");
        let answer: Value = String::from_utf8(answer.body).expect("text").parse().expect("JSON");
        let is_met = is_subset(&row["expected"], &answer);
        if row["contested"] == true {
            contested += usize::from(is_met);
            continue;
        }
        assert!(is_met, "{answer}\n{line}");
        all += 1;
    }
    println!("{all} errors as expected, and {contested} contested ones");
}

fn is_subset(expected: &Value, found: &Value) -> bool {
    match expected.as_object() {
        Some(members) => {
            members.iter().all(|(key, value)| found.get(key).is_some_and(|found| is_subset(value, found)))
        }
        None => expected == found,
    }
}

/// The written errors of each protocol for each class. `clients/errors.py` plays them to the official clients.
#[test]
fn written_errors_are_as_recorded() {
    let mut lines = String::new();
    for protocol in written() {
        for class in ErrorClass::ALL {
            let mut error = UpstreamError::new(class, "It went wrong");
            error.request_id = Some("req_1".into());
            error.retry_after = (class == ErrorClass::RateLimit).then(|| Duration::from_millis(1500));
            let answer = protocol.write_error(&error).expect("it is written");
            let headers = answer.headers.into_iter().map(|(name, value)| (name, Value::from(value)));
            let body: Value = String::from_utf8(answer.body).expect("text").parse().expect("JSON");
            let row = Value::object([
                ("protocol", protocol.name.into()),
                ("class", class.name().into()),
                ("status", u64::from(answer.status).into()),
                ("headers", Value::Object(headers.collect())),
                ("body", body),
            ]);
            lines += &format!("{row}\n");
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/error/written.jsonl");
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, &lines).expect("the record can be written");
    }
    assert_eq!(fs::read_to_string(&path).expect("the record"), lines);
}

#[test]
fn a_lost_connection_is_no_timeout() {
    for protocol in written() {
        for (status, is_timeout) in [(Some(502), false), (Some(500), false), (Some(504), true), (None, true)]
        {
            let mut error = UpstreamError::new(ErrorClass::Transport, "It went wrong");
            error.status = status;
            let answer = protocol.write_error(&error).expect("it is written");
            let headers: String = answer.headers.iter().map(|(_, value)| value.as_str()).collect();
            let text = format!("{headers}{}", String::from_utf8_lossy(&answer.body)).to_lowercase();
            let has_word = text.contains("timeout") || text.contains("deadline");
            assert!(is_timeout || !has_word, "{} {status:?}: {text}", protocol.name);
            let told = read(protocol, &answer);
            assert_eq!(told.class, ErrorClass::Transport, "{} {status:?}: {text}", protocol.name);
            let streamed = in_stream(protocol, &error, &[]);
            assert_eq!(streamed.class, ErrorClass::Transport, "{} {status:?}", protocol.name);
        }
    }
}

/// Agents shorten their history when they get this code, and give up without it.
#[test]
fn a_known_class_has_the_code_that_clients_look_for_in_its_own_protocol() {
    let flat = r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#;
    let typed = r#"{"error":{"message":"Range of input length should be [1, 30720]","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"},"id":"x"}"#;
    let words = r#"{"error":"prompt too long; exceeded max context length by 5 tokens"}"#;
    for name in ["openai-chat", "openai-responses"] {
        let protocol = Protocol::named(name).expect("a protocol");
        for body in [flat, typed, words, "prompt is too long"] {
            let error = protocol.read_error(Some(400), [("server", "")], body.as_bytes());
            let written = protocol.write_error(&error).expect("it is written");
            let told: Value = String::from_utf8_lossy(&written.body).parse().expect("JSON");
            let object = told.get("error").unwrap_or(&told);
            assert_eq!(object["code"].as_str(), Some("context_length_exceeded"), "{name}: {told}");
            assert_eq!(object["message"].as_str(), Some(&*error.message), "{name}: {told}");
            assert_eq!(told.get("id").is_some(), body == typed, "what else was said stays");
        }
        // Codes of their own stay, and bodies that have the right one are not touched.
        for body in [
            r#"{"error": {"message": "slow down", "type": "requests", "code": "queue_exceeded"}}"#,
            r#"{"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}"#,
        ] {
            let error = protocol.read_error(Some(429), [("server", "")], body.as_bytes());
            assert_eq!(protocol.write_error(&error).expect("it is written").body, body.as_bytes());
        }
    }
}

/// Rows of error bodies of many providers: the class by status and body, and by the body alone.
#[test]
fn published_error_bodies_are_classified() {
    let Some(vectors) = shared::find("vectors-2") else { return };
    let rows = fs::read_to_string(vectors.join("errors.jsonl")).expect("rows");
    let (mut count, mut with_status, mut alone, mut waits) = (0, Vec::new(), Vec::new(), Vec::new());
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).expect("a row");
        let body = row["body"].as_str().map_or_else(|| row["body"].to_string(), str::to_owned);
        let status = row["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let headers = row["headers"].as_object().into_iter().flatten();
        let headers: Vec<_> =
            headers.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default())).collect();
        let is_right = |class: ErrorClass| {
            row["classes"].as_array().is_some_and(|classes| classes.iter().any(|known| known == class.name()))
        };
        count += 1;
        let error = read_error(status, headers, body.as_bytes());
        with_status.extend((!is_right(error.class)).then(|| format!("{} {body}", error.class.name())));
        let wait = error.retry_after.map(|wait| wait.as_secs_f64());
        let is_waited = row["retry_after_seconds"].as_f64().is_none_or(|known| wait == Some(known));
        waits.extend((!is_waited).then(|| format!("{wait:?} {body}")));
        let error = read_error(None, [("server", "")], body.as_bytes());
        alone.extend((!is_right(error.class)).then(|| format!("{} {body}", error.class.name())));
    }
    assert!(count > 50, "{count} rows");
    assert!(with_status.len() * 100 <= count * 2, "by status and body: {with_status:#?}");
    assert!(alone.len() * 100 <= count * 5, "by body alone: {alone:#?}");
    assert!(waits.is_empty(), "{waits:#?}");
}
