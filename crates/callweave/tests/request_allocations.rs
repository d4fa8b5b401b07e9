//! Translating a request takes little more memory than the request: long texts move, they are not copied.

#[path = "support/shared.rs"]
mod shared;

use std::fmt::Write as _;

use allocation_counter::measure;
use callweave::Value;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::RequestOptions;

/// A body as a coding agent sends it: long instructions, many tools with long descriptions, a long conversation.
fn body() -> String {
    let text = "All work and no play makes \\\"Jack\\\" a dull boy.\\n".repeat(60);
    let tools: Vec<String> = (0..20)
        .map(|number| {
            format!(
                r#"{{"name": "tool_{number}", "description": "{text}", "input_schema": {{"type": "object", "properties": {{"path": {{"type": "string", "description": "where"}}, "count": {{"type": "integer"}}}}, "required": ["path"]}}}}"#
            )
        })
        .collect();
    let turns: Vec<String> = (0..20)
        .map(|number| {
            format!(
                r#"{{"role": "assistant", "content": [{{"type": "text", "text": "{text}"}}, {{"type": "tool_use", "id": "t{number}", "name": "tool_1", "input": {{"path": "a"}}}}]}},
                {{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "t{number}", "content": "{text}"}}]}}"#
            )
        })
        .collect();
    format!(
        r#"{{"model": "m", "max_tokens": 9, "system": [{{"type": "text", "text": "{text}"}}], "tools": [{}], "messages": [{{"role": "user", "content": "go"}}, {}]}}"#,
        tools.join(","),
        turns.join(",")
    )
}

/// A body of our own, and what a coding agent really sent, where that is at hand.
#[test]
fn a_request_takes_a_few_times_its_size() {
    let recorded = shared::find("requests/anthropic-messages/claude-code-continue-t5.json");
    let recorded = recorded.map(|path| std::fs::read_to_string(path).expect("a recorded body"));
    let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
    for text in recorded.into_iter().chain([body()]) {
        assert!(text.len() > 100_000, "{}", text.len());
        for target in TABLE.iter().filter(|target| target.has_requests()) {
            let mut length = 0;
            let counted = measure(|| {
                let body: Value = text.parse().expect("JSON");
                let written =
                    anthropic.translate_request(body, target, &RequestOptions::default()).expect("a body");
                let mut out = String::with_capacity(text.len() + text.len() / 8);
                write!(out, "{}", written.body).expect("a string takes everything");
                length = out.len();
            });
            assert!(length > text.len() / 2, "{}: {length}", target.name);
            let ratio = counted.bytes_max as f64 / text.len() as f64;
            println!("{} of {} bytes: {ratio:.2}", target.name, text.len());
            assert!(ratio <= 3.0, "{}: {ratio:.2}", target.name);
        }
    }
}
