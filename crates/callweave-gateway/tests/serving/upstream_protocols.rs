//! Upstreams whose protocols no client of the gateway speaks.

use callweave::Decoder;
use callweave::encode::EncodeOptions;
use callweave::event::Event;
use callweave::protocol::{BEDROCK_CONVERSE, COHERE_V2, OPENAI_CHAT, Protocol};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::{chat, gateway, messages, post};

/// A response with a call whose arguments are of the wrong type, in that protocol.
fn answer(protocol: &'static Protocol, is_streamed: bool) -> Vec<u8> {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\", \"days\": \"2\"}"}});
    let body = json!({"id": "a", "object": "chat.completion", "model": "x", "choices": [{"index": 0,
        "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [call]}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}});
    let (body, mut bytes) = (body.to_string(), Vec::new());
    let mut decoder = Decoder::new(&OPENAI_CHAT);
    if !is_streamed {
        let message = decoder.decode(body.as_bytes()).expect("an answer");
        protocol.encode_body(&message, &EncodeOptions::normalized(), &mut bytes);
        return bytes;
    }
    let mut encoder = protocol.encoder(&EncodeOptions::normalized()).expect("a protocol that is written");
    let mut sink = |event: Event<'_>| encoder.encode(&event, &mut bytes);
    decoder.push(body.as_bytes(), &mut sink).expect("an answer");
    decoder.finish(&mut sink).expect("an answer");
    bytes
}

/// An upstream that gives that response to the first request; the request.
async fn start(kind: &str, body: Vec<u8>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut request = vec![0; 65536];
        let count = stream.read(&mut request).await.expect("a request");
        stream.write_all(&[head.as_bytes(), &body].concat()).await.expect("taken");
        String::from_utf8_lossy(&request[..count]).into_owned()
    });
    (url, asked)
}

#[tokio::test]
async fn bedrock_and_cohere_are_asked_and_heard() {
    let binary = "application/vnd.amazon.eventstream";
    for (protocol, is_streamed, kind, path) in [
        (&BEDROCK_CONVERSE, false, "application/json", "/model/own.model-v1%3A0/converse"),
        (&BEDROCK_CONVERSE, true, binary, "/model/own.model-v1%3A0/converse-stream"),
        (&COHERE_V2, false, "application/json", "/v2/chat"),
        (&COHERE_V2, true, "text/event-stream", "/v2/chat"),
    ] {
        for is_chat in [true, false] {
            let (url, asked) = start(kind, answer(protocol, is_streamed)).await;
            let gateway =
                gateway(&format!("[upstreams.far]\nbase_url = \"{url}\"\nprotocol = \"{}\"", protocol.name));
            let model = "far/own.model-v1:0";
            let got = match is_chat {
                true => post(&gateway, "/v1/chat/completions", &chat(model, is_streamed)).await,
                false => post(&gateway, "/v1/messages", &messages(model, is_streamed)).await,
            };
            assert_eq!(got.status, 200, "{}: {}", protocol.name, got.text);
            let arguments = match (is_chat, is_streamed) {
                (true, true) => got.arguments(),
                (true, false) => {
                    let call = &got.json()["choices"][0]["message"]["tool_calls"][0];
                    call["function"]["arguments"].as_str().expect("a text").to_owned()
                }
                (false, true) => {
                    let frames = got.frames();
                    let pieces =
                        frames.iter().filter_map(|frame| frame.pointer("/delta/partial_json")?.as_str());
                    pieces.collect()
                }
                (false, false) => {
                    let body = got.json();
                    let calls = body["content"].as_array().expect("a list");
                    calls.iter().find(|part| part["type"] == "tool_use").expect("a call")["input"].to_string()
                }
            };
            let arguments: Value = serde_json::from_str(&arguments).expect("JSON");
            assert_eq!(arguments, json!({"city": "Oslo", "days": 2}), "{}: {}", protocol.name, got.text);
            let asked = asked.await.expect("a request");
            assert!(asked.starts_with(&format!("POST {path} HTTP/1.1")), "{asked}");
            assert!(asked.contains("get_weather"), "{asked}");
        }
    }
}
