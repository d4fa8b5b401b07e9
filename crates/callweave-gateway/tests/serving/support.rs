//! A gateway, and a client of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use callweave_gateway::config::{Config, Environment};
use callweave_gateway::{Gateway, ResponseBody, Server};
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// A gateway of that configuration that serves the scripted models, too, with nothing in its environment.
pub(crate) fn gateway(config: &str) -> Arc<Gateway> {
    let config =
        Config::read(&format!("demo = true\n{config}")).unwrap_or_else(|problem| panic!("{problem}"));
    Gateway::new(config, &Environment::of(|_| None)).expect("a gateway")
}

/// The response that a client got.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The values of a stream.
    pub(crate) fn frames(&self) -> Vec<Value> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The arguments of a chat stream's first call.
    pub(crate) fn arguments(&self) -> String {
        let frames = self.frames();
        let calls = frames.iter().filter_map(|frame| frame.pointer("/choices/0/delta/tool_calls/0"));
        calls.filter_map(|call| call.pointer("/function/arguments")?.as_str()).collect()
    }
}

pub(crate) async fn send(gateway: &Arc<Gateway>, request: Request<Full<Bytes>>) -> Got {
    read(gateway.handle(request).await).await
}

pub(crate) async fn read(response: Response<ResponseBody>) -> Got {
    let (parts, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("a body that does not break");
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    let text = String::from_utf8(bytes).expect("text");
    Got { status: parts.status.as_u16(), headers: parts.headers, text }
}

/// The next piece of a body.
pub(crate) async fn next(body: &mut ResponseBody) -> Option<String> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    let bytes = frame.expect("a sound body").into_data().expect("data");
    Some(String::from_utf8(bytes.to_vec()).expect("text"))
}

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::from(body.to_owned()))).expect("a request")
}

pub(crate) async fn post(gateway: &Arc<Gateway>, path: &str, body: &Value) -> Got {
    send(gateway, request(Method::POST, path, &[], &body.to_string())).await
}

pub(crate) async fn get(gateway: &Arc<Gateway>, path: &str) -> Got {
    send(gateway, request(Method::GET, path, &[], "")).await
}

pub(crate) fn schema() -> Value {
    json!({"type": "object", "required": ["city", "days"],
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})
}

/// A chat request with a tool.
pub(crate) fn chat(model: &str, is_streamed: bool) -> Value {
    json!({"model": model, "stream": is_streamed, "messages": [{"role": "user", "content": "Weather in Oslo?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": schema()}}]})
}

/// The same of Anthropic's.
pub(crate) fn messages(model: &str, is_streamed: bool) -> Value {
    json!({"model": model, "stream": is_streamed, "max_tokens": 99,
        "messages": [{"role": "user", "content": "Weather in Oslo?"}],
        "tools": [{"name": "get_weather", "input_schema": schema()}]})
}

/// The same of Responses.
pub(crate) fn responses(model: &str, is_streamed: bool) -> Value {
    json!({"model": model, "stream": is_streamed, "input": "Weather in Oslo?",
        "tools": [{"type": "function", "name": "get_weather", "parameters": schema()}]})
}

/// A gateway that listens; its base URL.
pub(crate) async fn listening(gateway: Arc<Gateway>) -> String {
    let server = Server::bind(gateway).await.expect("a port");
    let address = server.address().expect("an address");
    tokio::spawn(server.run(std::future::pending()));
    format!("http://{address}")
}

/// A gateway that listens; its address.
pub(crate) async fn address(gateway: Arc<Gateway>) -> std::net::SocketAddr {
    let url = listening(gateway).await;
    url.trim_start_matches("http://").parse().expect("an address")
}

/// A metric of the gateway's; 0 if it was never counted.
pub(crate) async fn metric(gateway: &Arc<Gateway>, name: &str) -> i64 {
    let text = get(gateway, "/metrics").await.text;
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let of_name = lines.filter(|(key, _)| key.starts_with(name));
    of_name.filter_map(|(_, count)| count.parse::<i64>().ok()).sum()
}
