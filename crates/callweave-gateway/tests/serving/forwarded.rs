//! The request to an upstream of the client's own protocol: the client's bytes, unchanged.

use std::sync::{Arc, Mutex};

use callweave_gateway::Gateway;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Got, gateway, request, schema, send};

/// A gateway whose upstream `up` calls a tool, and the bodies that this upstream was sent.
async fn before_upstream(
    name: &'static str,
    arguments: &'static str,
) -> (Arc<Gateway>, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = String::new();
            let body = loop {
                let mut piece = [0; 4096];
                let Ok(count @ 1..) = stream.read(&mut piece).await else { return };
                text.push_str(&String::from_utf8_lossy(&piece[..count]));
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() == length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                    break body.to_owned();
                }
            };
            seen.lock().expect("nobody panicked").push(body);
            let call =
                json!({"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
            let answer = json!({"id": "a", "object": "chat.completion", "model": "m", "choices": [choice]})
                .to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (gateway(&format!("[upstreams.up]\nbase_url = \"{url}\"")), bodies)
}

async fn ask(gateway: &Arc<Gateway>, path: &str, body: &str) -> Got {
    let got = send(gateway, request(Method::POST, path, &[], body)).await;
    assert_eq!(got.status, 200, "{}", got.text);
    got
}

fn arguments(got: &Got) -> Value {
    let answer = got.json();
    let arguments = answer.pointer("/choices/0/message/tool_calls/0/function/arguments");
    let text = arguments.and_then(Value::as_str).unwrap_or_else(|| panic!("{}", got.text));
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn only_the_name_of_the_model_changes() {
    let (gateway, bodies) = before_upstream("look", "{}").await;
    let body = r#"{ "model" : "up/m\u0031", "own": {"a": 1.50e0, "a": "\u0041"}, "messages": [] , "n":1}"#;
    ask(&gateway, "/v1/chat/completions", body).await;
    let expected = body.replace(r"up/m\u0031", "m1");
    assert_eq!(*bodies.lock().expect("nobody panicked"), [expected]);
}

#[tokio::test]
async fn what_rides_in_ids_is_taken_out_even_so() {
    let (gateway, bodies) = before_upstream("look", "{}").await;
    // A signature of another provider's, as a response of the gateway's would carry it.
    let sealed = "c1__sealed_W1siY2FsbCIsIm5vYm9keSIsIiIsImRhdGEiXV0";
    let call = json!({"id": sealed, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": sealed, "content": "seen"}]);
    ask(&gateway, "/v1/chat/completions", &json!({"model": "up/m", "messages": messages}).to_string()).await;
    let sent = bodies.lock().expect("nobody panicked")[0].clone();
    assert!(sent.contains(r#""id":"c1""#) && !sent.contains("__sealed_"), "{sent}");
}

#[tokio::test]
async fn tools_that_were_not_read_are_known_all_the_same() {
    let (gateway, _) = before_upstream("get_weather", r#"{"city": "Oslo", "days": "3"}"#).await;
    let tool = json!({"name": "get_weather", "parameters": schema()});
    let tools = json!({"model": "up/m", "messages": [], "tools": [{"type": "function", "function": tool}]});
    for _ in 0..2 {
        let got = ask(&gateway, "/v1/chat/completions", &tools.to_string()).await;
        assert_eq!(arguments(&got), json!({"city": "Oslo", "days": 3}));
    }
}

#[tokio::test]
async fn other_functions_are_not_taken_for_those_of_before() {
    let (gateway, _) = before_upstream("get_weather", r#"{"city": "Oslo", "days": "3"}"#).await;
    for (kind, days) in [("integer", json!(3)), ("string", json!("3")), ("integer", json!(3))] {
        let schema =
            json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": kind}}});
        let body = json!({"model": "up/m", "messages": [],
            "functions": [{"name": "get_weather", "parameters": schema}]});
        let got = ask(&gateway, "/v1/chat/completions", &body.to_string()).await;
        let answer = got.json();
        let message = &answer["choices"][0]["message"];
        let call = message.pointer("/tool_calls/0/function").or_else(|| message.get("function_call"));
        let text = call.and_then(|call| call["arguments"].as_str()).unwrap_or_else(|| panic!("{}", got.text));
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON")["days"], days, "{kind}");
    }
}
