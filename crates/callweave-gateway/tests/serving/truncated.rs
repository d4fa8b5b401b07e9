//! A response that an upstream did not finish is an error, in every protocol and form.

use serde_json::{Value, json};

use crate::scripted_upstream::{Far, Then};
use crate::support::{Got, chat, messages, post, responses};

/// The clients, and the form of an error in mid-stream for each.
fn clients(is_streamed: bool) -> [(&'static str, Value); 5] {
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}]});
    let gemini = match is_streamed {
        true => "/v1beta/models/x:streamGenerateContent?alt=sse",
        false => "/v1beta/models/x:generateContent",
    };
    [
        ("/v1/chat/completions", chat("x", is_streamed)),
        ("/v1/messages", messages("x", is_streamed)),
        ("/v1/responses", responses("x", is_streamed)),
        (gemini, contents),
        ("/api/chat", chat("x", is_streamed)),
    ]
}

/// Complete bodies, one for each protocol that is asked.
fn bodies() -> Vec<(&'static str, Value)> {
    let calls = json!([{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Oslo\",\"days\":1}"}}]);
    let input = json!({"city": "Oslo", "days": 1});
    let refused = json!({"index": 0, "message": {"role": "assistant", "content": "H"}, "finish_reason": "content_filter"});
    let refusal =
        json!({"id": "a", "object": "chat.completion", "choices": [refused], "usage": {"prompt_tokens": 1}});
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 1}});
    vec![
        ("openai-chat", refusal),
        ("gemini-generatecontent", blocked),
        (
            "openai-chat",
            json!({"id": "a", "object": "chat.completion", "model": "x", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        ),
        (
            "openai-chat",
            json!({"id": "a", "object": "chat.completion", "model": "x", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": null, "tool_calls": calls}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1}}),
        ),
        (
            "anthropic-messages",
            json!({"type": "message", "id": "m", "role": "assistant", "model": "x",
            "content": [{"type": "text", "text": "Hello"}, {"type": "tool_use", "id": "t", "name": "get_weather", "input": input}],
            "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}),
        ),
        (
            "openai-responses",
            json!({"id": "r", "object": "response", "status": "completed", "model": "x", "output": [
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hello", "annotations": []}]}],
            "usage": {"input_tokens": 1, "output_tokens": 1}}),
        ),
        (
            "gemini-generatecontent",
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1}}),
        ),
        (
            "ollama",
            json!({"model": "x", "message": {"role": "assistant", "content": "Hello"}, "done": true, "done_reason": "stop", "eval_count": 3}),
        ),
        (
            "cohere-v2",
            json!({"id": "c", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
            "usage": {"tokens": {"input_tokens": 1}}}),
        ),
    ]
}

fn head(kind: &str, length: usize) -> String {
    format!("HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn a_whole_body_that_was_cut_is_an_error() {
    let mut count = 0;
    for (protocol, body) in bodies() {
        let body = body.to_string();
        // The framing of HTTP is right each time.
        let cuts: Vec<usize> = (1..body.len()).step_by(7).chain([body.len() - 1]).collect();
        for (path, asked) in clients(false) {
            let answers = cuts
                .iter()
                .map(|cut| (format!("{}{}", head("application/json", *cut), &body[..*cut]), Then::Close));
            let far = Far::start(answers.collect()).await;
            let gateway = far.gateway(&format!("protocol = \"{protocol}\""));
            for cut in &cuts {
                let got = post(&gateway, path, &asked).await;
                let what = format!("{protocol} → {path}: {:?}: {} {}", &body[..*cut], got.status, got.text);
                assert_eq!(got.status, 502, "{what}");
                assert!(got.json().get("error").is_some(), "{what}");
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
}

/// A stream of Anthropic's, with a text or a call.
fn events(block: &Value, delta: &Value, reason: &str) -> String {
    [
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [],
            "stop_reason": null, "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_stop"}),
    ]
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
    .concat()
}

/// Whether a stream says how it ended: by an error, or with a reason that the upstream gave.
fn ended(path: &str, got: &Got) -> Option<&'static str> {
    let has = |text: &str| got.text.contains(text);
    let failed = match path {
        "/v1/messages" => has("event: error"),
        "/v1/responses" => has("response.failed"),
        _ => has("\"error\":"),
    };
    let is_finished = match path {
        "/v1/chat/completions" => {
            has("\"finish_reason\":\"stop\"") || has("\"finish_reason\":\"tool_calls\"")
        }
        "/v1/messages" => has("\"stop_reason\":\"end_turn\"") || has("\"stop_reason\":\"tool_use\""),
        "/v1/responses" => has("response.completed"),
        "/api/chat" => has("\"done_reason\":\"stop\""),
        _ => has("\"finishReason\":\"STOP\""),
    };
    let is_invented = ["\"length\"", "max_tokens", "MAX_TOKENS", "max_output_tokens"]
        .iter()
        .any(|word| got.frames().iter().any(|frame| frame.to_string().contains(&format!("reason\":{word}"))));
    assert!(!is_invented, "{path}: {}", got.text);
    match (failed, is_finished) {
        (true, false) => Some("failed"),
        (false, true) => Some("finished"),
        _ => None,
    }
}

#[tokio::test]
async fn a_stream_that_was_cut_anywhere_ends_visibly() {
    let text = events(
        &json!({"type": "text", "text": ""}),
        &json!({"type": "text_delta", "text": "Hello"}),
        "end_turn",
    );
    let call = events(
        &json!({"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}),
        &json!({"type": "input_json_delta", "partial_json": "{\"city\":\"Oslo\",\"days\":1}"}),
        "tool_use",
    );
    for answer in [text, call] {
        let told = answer.find("event: message_delta").expect("a reason");
        let stop = told + answer[told..].find("\n\n").expect("its end");
        let cuts: Vec<usize> = (1..answer.len()).step_by(13).chain([told, stop]).collect();
        for (path, asked) in clients(true) {
            let answers = cuts
                .iter()
                .map(|cut| (format!("{}{}", head("text/event-stream", *cut), &answer[..*cut]), Then::Close));
            let far = Far::start(answers.collect()).await;
            let gateway = far.gateway("protocol = \"anthropic-messages\"");
            for cut in &cuts {
                let got = post(&gateway, path, &asked).await;
                if got.status != 200 {
                    assert!(
                        got.status == 502 && got.json().get("error").is_some(),
                        "{path} {cut}: {}",
                        got.text
                    );
                    continue;
                }
                // A client that has received the complete finish reason has a response.
                let expected = if *cut >= stop { "finished" } else { "failed" };
                assert_eq!(ended(path, &got), Some(expected), "{path} {cut} {stop}: {}", got.text);
            }
        }
    }
}
