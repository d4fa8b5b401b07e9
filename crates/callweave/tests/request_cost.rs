//! A request costs a small multiple of its bytes, whatever its content: to read it, to translate it to any protocol,
//! and to write that.

use allocation_counter::measure;
use callweave::json::Tape;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::RequestOptions;

/// The number of elements in the lists.
const COUNT: usize = 2000;

/// Bytes that a request may take for each of its JSON values.
const EACH: usize = 256;

/// Bytes that a request may take besides: as much of a MiB as it has of the 200,000 values that a gateway takes.
const CONSTANT: usize = (COUNT << 20) / 200_000;

fn list(element: &str) -> String {
    format!("[{}]", vec![element; COUNT].join(","))
}

/// The words of a protocol for the conversation, and for the parts of a message.
fn words(protocol: &Protocol) -> [&'static str; 2] {
    match protocol.name {
        "openai-responses" => ["input", "content"],
        "gemini-generatecontent" => ["contents", "parts"],
        _ => ["messages", "content"],
    }
}

/// Bodies that are mostly one thing, by what that is.
fn bodies([messages_word, parts_word]: [&str; 2]) -> Vec<(String, String)> {
    let mut bodies = Vec::new();
    let messages = [
        "{}",
        "0",
        r#"{"role":"user"}"#,
        r#"{"role":"user","content":"x"}"#,
        r#"{"role":"user","parts":[{"text":"x"}]}"#,
        r#"{"role":"user","content":[{}]}"#,
        r#"{"role":"tool"}"#,
        r#"{"role":"system","content":"x"}"#,
        r#"{"role":"assistant","tool_calls":[{}]}"#,
        r#"{"type":"function_call"}"#,
        r#"{"a":0}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#,
        r#"{"type":"function_call","call_id":"a","name":"f","arguments":""}"#,
        r#"{"role":"model","parts":[{"functionCall":{"name":"f"}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","content":""}"#,
        r#"{"type":"function_call_output","call_id":"a","output":""}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}"#,
    ];
    for message in messages {
        let body = format!(r#"{{"model":"m","{messages_word}":{}}}"#, list(message));
        bodies.push((format!("messages {message}"), body));
    }
    for part in ["{}", "0", r#"{"type":"text","text":""}"#, r#"{"text":""}"#, r#"{"type":"tool_use"}"#] {
        let list = list(part);
        let message = format!(r#"{{"role":"user","{parts_word}":{list}}}"#);
        bodies.push((format!("parts {part}"), format!(r#"{{"model":"m","{messages_word}":[{message}]}}"#)));
        bodies.push((format!("system {part}"), format!(r#"{{"model":"m","system":{list},"messages":[]}}"#)));
    }
    for tool in [
        "{}",
        r#"{"name":"f"}"#,
        r#"{"type":"function","name":"a b"}"#,
        r#"{"type":"function","function":{"name":"f"}}"#,
        r#"{"functionDeclarations":[{"name":"f"}]}"#,
    ] {
        bodies.push((
            format!("tools {tool}"),
            format!(r#"{{"model":"m","messages":[],"tools":{}}}"#, list(tool)),
        ));
    }
    for element in ["0", "[]", "{}", "\"\""] {
        bodies.push((format!("unknown {element}"), format!(r#"{{"model":"m","x":{}}}"#, list(element))));
    }
    let keys: String = (0..COUNT).map(|number| format!(",\"k{number}\":0")).collect();
    bodies.push(("keys".to_owned(), format!(r#"{{"model":"m"{keys}}}"#)));
    bodies.push((
        "keys of a message".to_owned(),
        format!(r#"{{"model":"m","{messages_word}":[{{"role":"user"{keys}}}]}}"#),
    ));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    bodies.push(("deep".to_owned(), format!(r#"{{"model":"m","x":[{}]}}"#, vec![deep; 10].join(","))));
    let long = "All work and no play makes Jack a dull boy.\\n".repeat(20);
    let long =
        if parts_word == "parts" { format!(r#"[{{"text":"{long}"}}]"#) } else { format!("\"{long}\"") };
    let said =
        format!(r#"{{"role":"user","{parts_word}":{long}}},{{"role":"assistant","{parts_word}":{long}}}"#);
    let said = vec![said; 100].join(",");
    bodies.push(("a conversation".to_owned(), format!(r#"{{"model":"m","{messages_word}":[{said}]}}"#)));
    bodies
}

/// The peak memory besides the body: as in a gateway, which keeps the body in case that it must ask another upstream.
fn peak(source: &Protocol, target: &Protocol, text: &str) -> usize {
    let counted = measure(|| {
        let request = {
            let mut tape = Tape::new();
            let outline = source.outline_request(tape.parse(text).expect("JSON")).expect("an object");
            outline.request().expect("a request")
        };
        let written = target.write_last_request(request, &RequestOptions::default()).expect("a body");
        let mut out = String::with_capacity(text.len() + text.len() / 8);
        written.body.write_last_into(&mut out);
    });
    usize::try_from(counted.bytes_max).expect("less than all memory")
}

#[test]
fn a_request_takes_a_few_times_its_bytes_and_some_for_each_value() {
    let mut beyond = Vec::new();
    for source in TABLE.iter().filter(|source| source.has_requests()) {
        for (name, text) in bodies(words(source)) {
            let values = Tape::new().parse(&text).expect("JSON").value_count();
            let allowed = 4 * text.len() + EACH * values + CONSTANT;
            for target in TABLE.iter().filter(|target| target.has_requests()) {
                let taken = text.len() + peak(source, target, &text);
                if taken > allowed {
                    let each = taken.saturating_sub(4 * text.len() + CONSTANT) / values;
                    beyond.push(format!("{each} for each value: {name}, {} to {}", source.name, target.name));
                }
            }
        }
    }
    beyond.sort();
    assert!(beyond.is_empty(), "{} are beyond:\n{}", beyond.len(), beyond.join("\n"));
}
