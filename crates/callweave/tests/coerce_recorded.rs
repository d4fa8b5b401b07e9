//! Calls with the schemas of their tools, our own and recorded ones: they flow, and the streamed output equals the held
//! one.

#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use callweave::json::schema::{CoerceOptions, Schema, StepBudget, StreamCoercer};
use callweave::json::{JsonContainer, JsonScanner, ScanToken, ScanVisitor, Value};
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::{CallArguments, PartKind, RequestTool, ToolKind};

/// A call, as the text of its arguments, with the schema of its tool.
struct Recorded {
    schema: Value,
    text: String,
}

/// The rows of an index, with their protocols and what stands in their files.
fn rows(folder: &str) -> Option<Rows> {
    let folder = shared::find(folder)?;
    let index = fs::read_to_string(folder.join("INDEX.jsonl")).expect("an index");
    let rows = index.lines().map(|line| line.parse::<Value>().expect("an index row"));
    let read = |row: Value| {
        let protocol = Protocol::named(row["protocol"].as_str()?)?;
        Some((protocol, fs::read(folder.join(row["file"].as_str()?)).ok()?))
    };
    Some(rows.filter_map(read).collect())
}

fn declared<'t>(tools: &'t [RequestTool], found: &mut Vec<(&'t str, &'t Value)>) {
    for tool in tools {
        match &tool.kind {
            ToolKind::Function { schema: Some(schema) } => found.push((&tool.name, schema)),
            ToolKind::Group(tools) => declared(tools, found),
            _ => {}
        }
    }
}

/// Whether all arguments are declared there.
fn knows(schema: &Value, text: &str) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Ok(Value::Object(arguments)) = text.parse::<Value>() else { return false };
    properties.is_some_and(|properties| arguments.keys().all(|key| properties.contains_key(key)))
}

/// Our own cases in a folder of the data, with their protocols.
fn own(folder: &str) -> Rows {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let cases = TABLE.iter().flat_map(|&protocol| {
        let cases = fs::read_dir(folder.join(protocol.name)).into_iter().flatten();
        cases.map(move |case| (protocol, case.expect("a case").path()))
    });
    let input = |(protocol, case)| {
        let mut files = fs::read_dir(case).expect("a case").map(|file| file.expect("a file").path());
        let input = files.find(|file| file.file_stem().is_some_and(|stem| stem == "input"));
        (protocol, fs::read(input.expect("an input")).expect("a readable case"))
    };
    cases.map(input).collect()
}

type Rows = Vec<(&'static Protocol, Vec<u8>)>;

/// The calls in the histories of requests, with the tools of the same request; and those of responses, with a tool of
/// that name that knows their arguments.
fn calls(requests: Vec<Rows>, responses: Vec<Rows>) -> Vec<Recorded> {
    let mut calls = Vec::new();
    let mut by_name: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for rows in requests {
        for (protocol, body) in rows {
            let Ok(body) = String::from_utf8_lossy(&body).parse::<Value>() else { continue };
            let Ok(request) = protocol.read_request(body) else { continue };
            let mut tools = Vec::new();
            declared(&request.tools, &mut tools);
            for (name, schema) in &tools {
                let known = by_name.entry((*name).to_owned()).or_default();
                if !known.contains(schema) {
                    known.push((*schema).clone());
                }
            }
            for part in request.messages.iter().flat_map(|message| &message.content.parts) {
                let PartKind::Call(call) = &part.body else { continue };
                let text = match &call.arguments {
                    CallArguments::Text(text) => text.clone(),
                    CallArguments::Json(value) => value.to_string(),
                };
                let tool = tools.iter().find(|(name, _)| *name == call.name);
                calls.extend(tool.map(|(_, schema)| Recorded { schema: (*schema).clone(), text }));
            }
        }
    }
    for rows in responses {
        for (protocol, bytes) in rows {
            let Ok(message) = Decoder::new(protocol).decode(&bytes) else { continue };
            for call in message.tool_calls() {
                let text = call.arguments();
                let tools = by_name.get(&call.name).into_iter().flatten();
                let tool = tools.into_iter().find(|schema| knows(schema, text));
                calls.extend(tool.map(|schema| Recorded { schema: schema.clone(), text: text.to_owned() }));
            }
        }
    }
    calls
}

/// With which byte each byte of a text leaves at the latest, if it flows: in a string with itself, in another token with
/// its end, and what stands between with the value that follows.
#[derive(Default)]
struct Due {
    due: Vec<usize>,
    /// The start of the open token.
    begun: usize,
}

impl Due {
    fn of(text: &str) -> Vec<usize> {
        let mut due = Self::default();
        JsonScanner::new().push_to(text, &mut due);
        due.to(text.len(), text.len());
        due.due
    }

    /// Marks the bytes up to `end` that are not known yet as leaving with the byte at `by`.
    fn to(&mut self, end: usize, by: usize) {
        let from = self.due.len();
        self.due.extend((from..end).map(|_| by));
    }
}

impl ScanVisitor for Due {
    fn open(&mut self, _: JsonContainer, at: usize) {
        self.to(at + 1, at);
    }

    fn close(&mut self, _: JsonContainer, at: usize) {
        self.to(at, at - 1);
    }

    fn begin(&mut self, token: ScanToken, at: usize) {
        self.begun = at;
        if token == ScanToken::String {
            self.to(at, at);
        }
    }

    fn end(&mut self, token: ScanToken, at: usize) {
        match token {
            ScanToken::Key => {}
            ScanToken::String => self.due.extend(self.begun..at),
            ScanToken::Number | ScanToken::Literal(_) => self.to(at, at),
        }
    }
}

#[test]
fn recorded_calls_flow() {
    let requests: Option<Vec<_>> = ["requests", "requests-2"].into_iter().map(rows).collect();
    let responses: Option<Vec<_>> = ["corpus", "corpus-2"].into_iter().map(rows).collect();
    let (Some(requests), Some(responses)) = (requests, responses) else { return };
    let calls = calls(requests, responses);
    let share = flow(&calls);
    assert!(calls.len() > 500 && share >= 95.0, "{} calls, {share:.2} %", calls.len());
}

#[test]
fn own_calls_flow() {
    let calls = calls(vec![own("request")], vec![own("protocol")]);
    let share = flow(&calls);
    // They are short, and many of their values are of a kind that waits for its end.
    assert!(calls.len() > 50 && share >= 75.0, "{} calls, {share:.2} %", calls.len());
}

/// Streams and holds all calls, and compares. Returns the share of bytes that flow, in percent.
fn flow(calls: &[Recorded]) -> f64 {
    let (mut all, mut flowing, mut changed) = (0, 0, 0);
    for Recorded { schema, text } in calls {
        let read = Schema::new(schema);
        let coercer = || StreamCoercer::new(&read, CoerceOptions::default(), StepBudget::default());
        let (mut held, mut whole) = (coercer(), String::new());
        held.push(text, &mut whole);
        held.finish(&mut whole);
        let (mut coercer, mut out, mut left) = (coercer(), String::new(), Vec::new());
        for (at, letter) in text.char_indices() {
            coercer.push(letter.encode_utf8(&mut [0; 4]), &mut out);
            left.resize(left.len().max(out.len()), at);
        }
        coercer.finish(&mut out);
        left.resize(out.len(), usize::MAX);
        assert_eq!(out, whole, "{text} with {schema}");
        assert_eq!(format!("{:?}", coercer.changes()), format!("{:?}", held.changes()), "{text}");
        all += text.len();
        if out != *text {
            // It is not known which byte became which.
            changed += 1;
            continue;
        }
        let due = Due::of(text);
        // A letter of several bytes leaves with its first.
        let due = text
            .char_indices()
            .flat_map(|(at, letter)| std::iter::repeat_n(due[at].max(at), letter.len_utf8()));
        flowing += due.zip(left).filter(|(due, left)| left <= due).count();
    }
    let share = flowing as f64 / all as f64 * 100.0;
    println!("{} calls, {changed} changed: {share:.2} % of {all} bytes flow", calls.len());
    share
}
