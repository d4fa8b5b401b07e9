//! Requests read in one protocol and written in another: very many of one thing.

use callweave::json::Tape;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::RequestOptions;
use callweave_growth::assert_linear;

/// Requests that are mostly one thing, in the protocol that says it.
const MANY: &[(&str, &str, &str)] = &[
    ("texts", "openai-chat", r#"{"role":"user","content":"x"}"#),
    (
        "turns to merge",
        "openai-chat",
        r#"{"role":"assistant","content":"x"},{"role":"assistant","content":"y"}"#,
    ),
    (
        "orphans between texts",
        "openai-chat",
        r#"{"role":"tool","tool_call_id":"a","content":"x"},{"role":"user","content":"y"}"#,
    ),
    (
        "equal ids",
        "openai-chat",
        r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"}"#,
    ),
    (
        "calls without a result",
        "openai-chat",
        r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
    ),
    ("losses", "anthropic-messages", r#"{"role":"user","content":[{"type":"unknown","a":0},0]}"#),
    (
        "unknown members",
        "anthropic-messages",
        r#"{"role":"user","content":[{"type":"text","text":"x","k":0}],"k":0}"#,
    ),
    ("system messages", "openai-chat", r#"{"role":"system","content":"x"},{"role":"user","content":"y"}"#),
];

fn translate(source: &Protocol, target: &Protocol, text: &str) {
    let mut tape = Tape::new();
    let outline = source.outline_request(tape.parse(text).expect("JSON")).expect("an object");
    let request = outline.request().expect("a request");
    let written = target.write_last_request(request, &RequestOptions::default()).expect("a body");
    written.body.write_last_into(&mut String::new());
}

#[test]
#[ignore = "counts work: cargo xtask growth"]
fn requests_are_linear() {
    for (name, source, message) in MANY {
        let source = Protocol::named(source).expect("a protocol of that name");
        for target in TABLE.iter().filter(|target| target.has_requests()) {
            assert_linear(&format!("{name} to {}", target.name), 300, 8, |count| {
                let messages = vec![*message; count].join(",");
                translate(source, target, &format!(r#"{{"model":"m","messages":[{messages}]}}"#));
            });
        }
    }
}
