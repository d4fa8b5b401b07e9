//! Responses that clients take exactly: their name for the model, ids that are unique in a conversation, streams that can
//! be split anywhere a client splits, and losses that are named.

use serde_json::{Value, json};

use crate::scripted_upstream::{Far, Then, stream, whole};
use crate::support::{chat, messages, post};

fn native_call(id: &str) -> Value {
    json!({"id": "c", "object": "chat.completion", "model": "upstream-name", "choices": [{"index": 0,
        "message": {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\", \"days\": 1}"}}]},
        "finish_reason": "tool_calls"}]})
}

#[tokio::test]
async fn a_response_carries_the_clients_name_for_the_model() {
    let row = "\n[[models]]\nname = \"claude-*\"\nupstream = \"far\"\nmodel = \"native\"";
    for (path, body) in
        [("/v1/chat/completions", chat("claude-5", false)), ("/v1/messages", messages("claude-5", false))]
    {
        let far = Far::start(vec![whole(200, &native_call("call_1"))]).await;
        let got = post(&far.gateway(row), path, &body).await;
        assert_eq!(got.json()["model"], "claude-5", "{path}");
        assert_eq!(got.headers["x-callweave-model"], "native", "{path}");
    }
    // Even where nothing else is done to a response.
    let plain = "dialect = \"none\"\nrepair = false\nschema = \"off\"";
    let far = Far::start(vec![whole(200, &native_call("call_1"))]).await;
    let got =
        post(&far.gateway(&format!("{plain}{row}")), "/v1/chat/completions", &chat("claude-5", false)).await;
    assert_eq!(got.json()["model"], "claude-5", "{}", got.text);
}

#[tokio::test]
async fn an_id_that_the_conversation_has_already_is_replaced() {
    let mut history = chat("m", false);
    let list = history["messages"].as_array_mut().expect("messages");
    list.push(json!({"role": "assistant", "tool_calls": [{"id": "call_0", "type": "function",
        "function": {"name": "get_weather", "arguments": "{}"}}]}));
    list.push(json!({"role": "tool", "tool_call_id": "call_0", "content": "sunny"}));
    let far = Far::start(vec![whole(200, &native_call("call_0")), whole(200, &native_call("call_9"))]).await;
    let gateway = far.gateway("");
    let got = post(&gateway, "/v1/chat/completions", &history).await.json();
    let id = got.pointer("/choices/0/message/tool_calls/0/id").and_then(Value::as_str).expect("an id");
    assert!(id != "call_0" && !id.is_empty(), "{id}");
    // One that is new stays as it is.
    let got = post(&gateway, "/v1/chat/completions", &history).await.json();
    assert_eq!(got.pointer("/choices/0/message/tool_calls/0/id"), Some(&json!("call_9")));
    // The history of another protocol counts as well.
    let mut history = messages("m", false);
    let list = history["messages"].as_array_mut().expect("messages");
    list.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": "call_0", "name": "get_weather", "input": {}}]}));
    list.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "sunny"}]}));
    let far = Far::start(vec![whole(200, &native_call("call_0"))]).await;
    let got = post(&far.gateway(""), "/v1/messages", &history).await.json();
    let call = got["content"].as_array().and_then(|all| all.iter().find(|part| part["type"] == "tool_use"));
    assert_ne!(call.expect("a call")["id"], "call_0");
}

const SEPARATED: &str = "a\u{2028}b\u{2029}c\u{85}d";

#[tokio::test]
async fn line_separators_are_escaped_in_every_stream() {
    let frame = json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": SEPARATED}}]});
    let end = json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let plain = "dialect = \"none\"\nrepair = false\nschema = \"off\"";
    let asked = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    let said = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    for (config, path, body) in [
        ("", "/v1/chat/completions", &asked),
        (plain, "/v1/chat/completions", &asked),
        ("", "/v1/responses", &json!({"model": "m", "stream": true, "input": "Hi"})),
        ("", "/v1/messages", &said),
        ("", "/v1beta/models/m:streamGenerateContent?alt=sse", &contents),
        ("", "/api/chat", &asked),
    ] {
        let (mut answer, then) = stream(&[frame.clone(), end.clone()], Then::Close);
        answer.push_str("data: [DONE]\n\n");
        let far = Far::start(vec![(answer, then)]).await;
        let got = post(&far.gateway(config), path, body).await;
        assert_eq!(got.status, 200, "{path}: {}", got.text);
        assert!(!got.text.contains(['\u{2028}', '\u{2029}', '\u{85}']), "{path}: {:?}", got.text);
        assert!(got.text.contains("a\\u2028b\\u2029c\\u0085d"), "{path}: {:?}", got.text);
    }
}

/// The separators come in pieces of one byte each, and pass through as the upstream's bytes.
#[tokio::test]
async fn a_separator_in_pieces_is_escaped_too() {
    use callweave::exchange::http::ClientEndpoint;
    use callweave::exchange::{ExchangeEngine, ExchangePolicy, IncomingHead, SchemaMode};

    let mut policy = ExchangePolicy::default();
    (policy.dialect, policy.repair, policy.schema) = ("none".to_owned(), false, SchemaMode::Off);
    let engine = ExchangeEngine::new(policy).expect("a policy");
    let body = br#"{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}"#;
    let route = ClientEndpoint::find("/chat/completions").expect("a path");
    let mut exchange = engine.open(IncomingHead::new(route, &body[..], "1")).expect("a request");
    exchange.take_outgoing().expect("a request");
    exchange.accept([("content-type", "text/event-stream")]);
    let frame = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{SEPARATED}é€\"}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let mut text = Vec::new();
    for byte in frame.as_bytes() {
        exchange.push(&[*byte]);
        text.append(&mut exchange.take_bytes());
    }
    exchange.finish();
    text.append(&mut exchange.take_bytes());
    let text = String::from_utf8(text).expect("text");
    assert_eq!(
        text,
        frame.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace('\u{85}', "\\u0085")
    );
}

/// Where nothing is done to responses, only frames that need a name or an id are rewritten.
#[tokio::test]
async fn a_frame_that_needs_another_name_or_id_is_rewritten_alone() {
    let plain = "dialect = \"none\"\nrepair = false\nschema = \"off\"";
    let row = "\n[[models]]\nname = \"alias\"\nupstream = \"far\"\nmodel = \"native\"";
    let frames = [
        r#"{"id": "c" ,"model":"native-2026","choices":[{"index":0,"delta":{"role":"assistant"}}],"p":1.0e2}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"get_weather","arguments":""}}]}}]}"#,
        r#"{"id":"c","odd": "\u0041","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"call_0\", \"days\": 1}"}}]}}]}"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ];
    let sent: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let mut history = chat("alias", true);
    let list = history["messages"].as_array_mut().expect("messages");
    list.push(json!({"role": "assistant", "tool_calls": [{"id": "call_0", "type": "function",
        "function": {"name": "get_weather", "arguments": "{}"}}]}));
    list.push(json!({"role": "tool", "tool_call_id": "call_0", "content": "sunny"}));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    for (model, body, row) in [("alias", &history, row), ("native-2026", &chat("m", true), "")] {
        let far = Far::start(vec![(format!("{head}{sent}"), Then::Close)]).await;
        let got = post(&far.gateway(&format!("{plain}{row}")), "/v1/chat/completions", body).await;
        let found = got.text.split_once("\"index\":0,\"id\":\"").expect("an id").1;
        let id = found.split('"').next().expect("an id");
        assert_eq!(id == "call_0", row.is_empty(), "{}", got.text);
        let expected =
            sent.replace("native-2026", model).replace("\"id\":\"call_0\"", &format!("\"id\":\"{id}\""));
        assert_eq!(got.text, expected);
    }
}

#[tokio::test]
async fn what_a_translation_loses_is_named_in_a_header() {
    let answer = json!({"type": "message", "id": "m", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}});
    let far = Far::start(vec![whole(200, &answer)]).await;
    let gateway = far.gateway("protocol = \"anthropic-messages\"");
    let body = json!({"model": "m", "seed": 7, "logit_bias": {"1": 2}, "messages": [{"role": "user", "content": "Hi"}]});
    let got = post(&gateway, "/v1/chat/completions", &body).await;
    let lost = got.headers["x-callweave-lost"].to_str().expect("text").to_owned();
    assert!(lost.contains("seed"), "{lost}");
    let counted = crate::support::get(&gateway, "/metrics").await.text;
    assert!(counted.contains("callweave_requests_with_losses_total{upstream=\"far\"} 1"), "{counted}");
}

#[tokio::test]
async fn calls_flow_where_an_invalid_one_is_an_error() {
    let delta = |delta: Value| json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta}]});
    let call = |function: Value| {
        delta(json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}))
    };
    let end = json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let frames = [
        call(json!({"name": "get_weather", "arguments": ""})),
        call(json!({"arguments": "{\"city\": \"Os"})),
        call(json!({"arguments": "lo\"}"})),
        end,
    ];
    let far = Far::start(vec![stream(&frames, Then::Close)]).await;
    let got = post(&far.gateway("invalid = \"error\""), "/v1/chat/completions", &chat("m", true)).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.arguments(), "{\"city\": \"Oslo\"}", "the arguments came before the error");
    assert!(got.text.contains("cannot be run") && !got.text.contains("[DONE]"), "{}", got.text);
    assert!(!got.text.contains("\"finish_reason\":\"tool_calls\""), "{}", got.text);
}
