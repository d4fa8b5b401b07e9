//! Requests: a client's request can be read and written back, and comes to every other provider in a form it accepts.
//!
//! - Law: a body that is read and written in its own protocol is the same body, unknown members included.
//! - Law: a body can be written in every protocol, without a panic, and what is written can be read again.
//! - Vectors: the expectations of other gateways for a translation, each by its own way of comparing.

#[path = "requests/answers.rs"]
mod answers;
#[path = "support/cores.rs"]
mod cores;
#[path = "support/document.rs"]
mod document;
#[path = "requests/keeping.rs"]
mod keeping;
#[path = "requests/pitfalls.rs"]
mod pitfalls;
#[path = "support/record.rs"]
mod record;
#[path = "requests/replay.rs"]
mod replay;
#[path = "requests/rules.rs"]
mod rules;
#[path = "requests/sealed.rs"]
mod sealed;
#[path = "support/shared.rs"]
mod shared;
#[path = "requests/survival.rs"]
mod survival;
#[path = "requests/table.rs"]
mod table;
#[path = "requests/there_and_back.rs"]
mod there_and_back;
#[path = "requests/vectors.rs"]
mod vectors;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use callweave::Value;
use callweave::json::Object;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::{Request, RequestMode, RequestOptions, WrittenRequest};
use cores::each;

struct Sample {
    title: String,
    protocol: &'static Protocol,
    body: Value,
}

/// The folders of bodies that clients sent.
const RECORDED: &[&str] = &["requests", "requests-2"];

/// Bodies that clients sent.
fn recorded() -> Vec<Sample> {
    RECORDED.iter().filter_map(|name| shared::find(name)).flat_map(|folder| recorded_in(&folder)).collect()
}

fn recorded_in(folder: &Path) -> Vec<Sample> {
    let index = fs::read_to_string(folder.join("INDEX.jsonl")).expect("an index");
    let rows = index.lines().map(|line| line.parse::<Value>().expect("an index row"));
    rows.filter_map(|row| {
        let protocol = protocol(row["protocol"].as_str().expect("a protocol"))?;
        let file = row["file"].as_str().expect("a file name");
        let text = fs::read_to_string(folder.join(file)).expect("a recorded file");
        Some(Sample { title: file.to_owned(), protocol, body: text.parse().expect("JSON") })
    })
    .collect()
}

/// Own bodies: one folder for each protocol, in it one for each case.
fn own() -> Vec<Sample> {
    let mut samples = Vec::new();
    for &protocol in TABLE.iter().filter(|protocol| protocol.has_requests()) {
        for case in cases(protocol) {
            let title = format!("{}/{}", protocol.name, case.file_name().expect("a name").to_string_lossy());
            let text = fs::read_to_string(case.join("input.json"))
                .unwrap_or_else(|error| panic!("{title}: {error}"));
            samples.push(Sample {
                body: text.parse().unwrap_or_else(|error| panic!("{title}: {error}")),
                title,
                protocol,
            });
        }
    }
    samples
}

fn cases(protocol: &Protocol) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/request").join(protocol.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|_| panic!("{} has own cases", protocol.name));
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    cases.sort();
    cases
}

/// Writes a request for a protocol: there is always a body.
fn written(target: &Protocol, request: &Request, options: &RequestOptions) -> WrittenRequest {
    target.write_request(request, options).expect("a body")
}

/// The form of an own body in every other protocol, with its losses and the changes to undo in the response.
#[test]
fn own_bodies_go_out_as_recorded() {
    for &protocol in TABLE.iter().filter(|protocol| protocol.has_requests()) {
        for case in cases(protocol) {
            let body = fs::read_to_string(case.join("input.json")).expect("an input").parse().expect("JSON");
            let request = protocol.read_request(body).expect("a request");
            let mut all = Object::new();
            for &other in TABLE.iter().filter(|other| other.has_requests() && **other != protocol) {
                let written = written(other, &request, &RequestOptions::default());
                let mut told = Object::from_iter([("body", written.body)]);
                told.insert("losses", written.losses.iter().map(ToString::to_string).collect::<Vec<_>>());
                if !written.names.is_empty() {
                    told.insert("names", written.names.into_iter().collect::<Object>());
                }
                if !written.namespaces.is_empty() {
                    told.insert("namespaces", written.namespaces.into_iter().collect::<Object>());
                }
                if !written.wrapped.is_empty() {
                    told.insert("wrapped", written.wrapped);
                }
                all.insert(other.name, told);
            }
            let (path, found) = (case.join("expected.json"), format!("{all:#}\n"));
            if std::env::var_os("BLESS").is_some() {
                fs::write(&path, &found).expect("the case can be written");
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(found, expected, "{} (BLESS=1 writes it)", path.display());
        }
    }
}

/// A body with wrong values anywhere comes back as well, and panics nowhere.
#[test]
fn malformed_bodies_come_back_too() {
    let odd: Vec<Value> = [
        "null",
        "7",
        "true",
        r#""odd""#,
        "[]",
        "{}",
        r#"[7, "x"]"#,
        r#"[{"type": "odd"}]"#,
        r#"{"type": "odd", "x": [1]}"#,
    ]
    .map(|text| text.parse().expect("JSON"))
    .into();
    let found = each(&own(), |sample| {
        let mut differing = BTreeMap::new();
        let mut count = 0;
        for path in places(&sample.body) {
            for value in &odd {
                let mut body = sample.body.clone();
                *at(&mut body, &path) = value.clone();
                if !body.is_object() {
                    continue;
                }
                count += 1;
                let request = sample.protocol.read_request(body.clone()).expect("a request");
                let again =
                    sample.protocol.write_request(&request, &RequestOptions::default()).expect("a body");
                if again.body != body {
                    let what = format!("{} {}", sample.title, path.join("/"));
                    differing.entry(what).or_insert_with(|| difference(&body, &again.body, &[]));
                }
                for other in TABLE.iter().filter(|other| other.has_requests()) {
                    written(other, &request, &RequestOptions::default());
                }
            }
        }
        (count, differing)
    });
    println!("{} malformed bodies", found.iter().map(|(count, _)| count).sum::<usize>());
    let differing = found.iter().flat_map(|(_, differing)| differing);
    let lines: Vec<String> = differing.map(|(what, difference)| format!("{what}\n{difference}")).collect();
    assert!(lines.is_empty(), "{} places:\n{}", lines.len(), lines.join("\n"));
}

/// The paths of all places in a value.
fn places(value: &Value) -> Vec<Vec<String>> {
    let (mut places, mut open) = (Vec::new(), vec![(Vec::new(), value)]);
    while let Some((path, value)) = open.pop() {
        let below = |key: &str| path.iter().cloned().chain([key.to_owned()]).collect::<Vec<_>>();
        match value {
            Value::Array(list) => {
                open.extend(list.iter().enumerate().map(|(index, value)| (below(&index.to_string()), value)));
            }
            Value::Object(members) => open.extend(members.iter().map(|(key, value)| (below(key), value))),
            _ => {}
        }
        places.push(path);
    }
    places
}

fn at<'v>(value: &'v mut Value, path: &[String]) -> &'v mut Value {
    path.iter().fold(value, |value, key| match value {
        Value::Array(list) => &mut list[key.parse::<usize>().expect("an index")],
        value => value.get_mut(key).expect("a member"),
    })
}

/// A provider that speaks another's protocol has rules of its own.
#[test]
fn ids_have_nine_letters_for_mistral() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    let body = r#"{"model": "small", "messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"id": "call_one", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_one", "content": "x"}]}"#;
    let request = chat.read_request(body.parse().expect("JSON")).expect("a request");
    let mut options = RequestOptions::default();
    options.provider = Some("mistral".to_owned());
    options.mode = RequestMode::Normalized;
    let written = chat.write_request(&request, &options).expect("a body").body;
    let id = written.pointer("/messages/1/tool_calls/0/id").and_then(Value::as_str).expect("an id");
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(written.pointer("/messages/2/tool_call_id").and_then(Value::as_str), Some(id));
    options.provider = Some("nobody".to_owned());
    assert!(chat.write_request(&request, &options).is_err());
}

/// Nothing here recurses over what a client sends, and nothing looks at all of it for each of its parts.
#[test]
fn deep_and_long_bodies_are_read_and_written() {
    let mut deep = Value::from("x");
    for _ in 0..50_000 {
        deep = Value::object([("type", "object".into()), ("items", deep)]);
    }
    let count = 20_000;
    let calls: Value = (0..count)
        .map(|number| {
            let function = Value::object([("name", "f".into()), ("arguments", "{}".into())]);
            Value::object([
                ("id", format!("c{number}").into()),
                ("type", "function".into()),
                ("function", function),
            ])
        })
        .collect();
    let mut messages = vec![Value::object([("role", "assistant".into()), ("tool_calls", calls)])];
    messages.extend((0..2 * count).rev().map(|number| {
        let id = format!("c{number}");
        Value::object([("role", "tool".into()), ("tool_call_id", id.into()), ("content", "x".into())])
    }));
    let function = Value::object([("name", "f".into()), ("parameters", deep.clone())]);
    let tool = Value::object([("type", "function".into()), ("function", function)]);
    let body =
        Value::object([("messages", messages.into()), ("tools", vec![tool].into()), ("unknown", deep)]);
    let chat = protocol("openai-chat").expect("a protocol with requests");
    let request = chat.read_request(body.clone()).expect("a request");
    for other in TABLE.iter().filter(|other| other.has_requests()) {
        let written = other.write_request(&request, &RequestOptions::default()).expect("a body");
        assert_eq!(written.body == body, *other == chat);
    }
}

/// The protocol of that name, if its requests are known.
fn protocol(name: &str) -> Option<&'static Protocol> {
    Protocol::named(name).filter(|protocol| protocol.has_requests())
}

#[test]
fn a_body_comes_back_in_its_own_protocol() {
    let mut differing = Vec::new();
    let samples: Vec<Sample> = own().into_iter().chain(recorded()).collect();
    for sample in &samples {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        let written = sample.protocol.write_request(&request, &RequestOptions::default()).expect("a body");
        if written.body != sample.body || !written.losses.is_empty() {
            differing.push(format!(
                "{}\n{}",
                sample.title,
                difference(&sample.body, &written.body, &written.losses)
            ));
        }
    }
    println!("{} bodies", samples.len());
    assert!(
        differing.is_empty(),
        "{} of {} bodies differ:\n{}",
        differing.len(),
        samples.len(),
        differing.join("\n")
    );
}

/// Numbers come back as they were spelled, wherever they stand, and unknown members in their order.
#[test]
fn numbers_are_spelled_as_they_were() {
    let spelled = ["1.0", "1e3", "-0", "0.10", "123456789012345678901234567890", "1E-7", "6.02e+23"];
    for sample in own() {
        let numbers: Value = format!("[{}]", spelled.join(",")).parse().expect("JSON");
        let mut body = sample.body.clone();
        let unknown = Value::object([("z", numbers.clone()), ("a", "\u{1}/é".into())]);
        body.as_object_mut().expect("an object").insert("unknown", unknown.clone());
        for key in ["temperature", "seed", "max_tokens", "max_output_tokens", "max_completion_tokens"] {
            if let Some(value) = body.get_mut(key) {
                *value = numbers[1].clone();
            }
        }
        let request = sample.protocol.read_request(body.clone()).expect("a request");
        let written = sample.protocol.write_request(&request, &RequestOptions::default()).expect("a body");
        assert!(written.body.to_string().contains(&unknown.to_string()), "{}", sample.title);
        assert_eq!(written.body, body, "{}", sample.title);
        let count = |value: &Value| value.to_string().matches("1e3").count();
        assert_eq!(count(&written.body), count(&body), "{}", sample.title);
    }
}

/// A request can be stored and comes back as it was: numbers as they were spelled, members in their order.
#[test]
fn a_request_can_be_stored() {
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        let stored = serde_json::to_string(&request).expect("JSON");
        let back: Request = serde_json::from_str(&stored).expect("a request");
        assert!(back == request, "{}", sample.title);
        let written = sample.protocol.write_request(&back, &RequestOptions::default()).expect("a body");
        assert_eq!(written.body.to_string(), rewritten(&sample), "{}", sample.title);
    }
    let unknown = serde_json::from_str::<Request>(r#"{"protocol": "smoke-signals"}"#);
    assert!(unknown.expect_err("no such protocol").to_string().contains("smoke-signals"));
}

fn rewritten(sample: &Sample) -> String {
    let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
    let written = sample.protocol.write_request(&request, &RequestOptions::default()).expect("a body");
    written.body.to_string()
}

/// The first few places at which two values differ.
fn difference(expected: &Value, actual: &Value, losses: &[callweave::request::Loss]) -> String {
    let mut lines: Vec<String> = losses.iter().map(|loss| format!("  lost {loss}")).collect();
    let mut open = vec![(String::new(), Some(expected), Some(actual))];
    while let Some((path, expected, actual)) = open.pop() {
        match (expected, actual) {
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(key))) {
                    open.push((format!("{path}/{key}"), one.get(key), other.get(key)));
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                for index in 0..one.len().max(other.len()) {
                    open.push((format!("{path}/{index}"), one.get(index), other.get(index)));
                }
            }
            (one, other) if one == other => {}
            (one, other) => {
                let show = |value: Option<&Value>| {
                    value.map_or("nothing".to_owned(), |value| value.to_string().chars().take(120).collect())
                };
                lines.push(format!("  {path}: {} → {}", show(one), show(other)));
            }
        }
    }
    lines.truncate(12);
    lines.join("\n")
}

#[test]
fn a_body_goes_out_in_every_protocol() {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for &other in TABLE.iter().filter(|other| other.has_requests()) {
            let written = written(other, &request, &RequestOptions::default());
            let again = other.read_request(written.body.clone()).expect("a request");
            let twice = other.write_request(&again, &RequestOptions::default()).expect("a body");
            assert_eq!(
                twice.body,
                written.body,
                "{} in {}: {}",
                sample.title,
                other.name,
                difference(&written.body, &twice.body, &twice.losses)
            );
            *counts.entry((sample.protocol.name, other.name)).or_default() += 1;
        }
    }
    for ((from, to), count) in counts {
        println!("{from} → {to}: {count}");
    }
}

/// Writes the requests for every provider, one line each, for the providers' own clients to look at:
/// `clients/request_types.py`.
#[test]
#[ignore = "writes a file that `cargo xtask check --clients` reads"]
fn bodies_for_the_clients() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("written-requests.jsonl");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).expect("a file to write"));
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for &target in TABLE.iter().filter(|target| target.has_requests() && **target != sample.protocol) {
            let mut options = RequestOptions::default();
            // Other servers of that protocol take more.
            options.provider = (target.name == "openai-chat").then(|| "openai".to_owned());
            let written = written(target, &request, &options);
            let line = Value::object([
                ("title", sample.title.as_str().into()),
                ("target", target.name.into()),
                ("body", written.body),
            ]);
            writeln!(file, "{line}").expect("the line is written");
        }
    }
}
