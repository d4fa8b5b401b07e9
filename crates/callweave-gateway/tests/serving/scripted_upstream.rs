//! An upstream that sends, byte by byte, the script of a test; and tests that need such a one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callweave_gateway::Gateway;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{chat, gateway, get, messages, metric, post, request, send};

/// An upstream that gives one response after the other; then nothing.
pub(crate) struct Far {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<String>>>,
    /// The number of peers that left before the response was over.
    left: Arc<Mutex<usize>>,
    /// The number of bytes of responses that were taken.
    taken: Arc<AtomicUsize>,
}

/// The treatment of the connection after the response.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Then {
    Close,
    Hang,
}

/// The mark in a response at which the upstream is silent for a while.
pub(crate) const PAUSE: char = '\u{1}';

impl Far {
    /// Starts an upstream with these responses.
    pub(crate) async fn start(answers: Vec<(String, Then)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (seen, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (log, gone, taken) = (Arc::clone(&seen), Arc::clone(&left), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&taken);
        tokio::spawn(async move {
            for (answer, then) in answers {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(say(
                    stream,
                    answer,
                    then,
                    Arc::clone(&log),
                    Arc::clone(&gone),
                    Arc::clone(&count),
                ));
            }
        });
        Self { url, seen, left, taken }
    }

    /// The requests that came, byte by byte.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panicked").clone()
    }

    /// Whether a peer left before the response was over.
    pub(crate) async fn is_left(&self) -> bool {
        for _ in 0..200 {
            if *self.left.lock().expect("nobody panicked") > 0 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    /// A gateway in front of it, for all names.
    pub(crate) fn gateway(&self, rest: &str) -> Arc<Gateway> {
        let (before, rest) = rest.split_once("---").unwrap_or(("", rest));
        // It gives its scripted response at every path: mostly in Chat.
        let protocol = if rest.contains("protocol") { "" } else { "protocol = \"openai-chat\"" };
        gateway(&format!(
            "default_upstream = \"far\"\n{before}\n[upstreams.far]\nbase_url = \"{}\"\n{protocol}\n{rest}",
            self.url
        ))
    }
}

async fn say(
    mut stream: TcpStream,
    answer: String,
    then: Then,
    seen: Arc<Mutex<Vec<String>>>,
    left: Arc<Mutex<usize>>,
    taken: Arc<AtomicUsize>,
) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut piece).await else { return };
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    seen.lock().expect("nobody panicked").push(String::from_utf8_lossy(&bytes).into_owned());
    for (at, piece) in answer.split(PAUSE).enumerate() {
        if at > 0 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        for piece in piece.as_bytes().chunks(4096) {
            if stream.write_all(piece).await.is_err() {
                break;
            }
            taken.fetch_add(piece.len(), Relaxed);
        }
    }
    if then == Then::Hang {
        let mut byte = [0];
        let _ = stream.read(&mut byte).await;
        *left.lock().expect("nobody panicked") += 1;
    }
}

pub(crate) fn whole(status: u16, body: &Value) -> (String, Then) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    (format!("{head}x-request-id: theirs\r\n\r\n{body}"), Then::Close)
}

/// A stream that ends only with the connection.
pub(crate) fn stream(frames: &[Value], then: Then) -> (String, Then) {
    let frames: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    (format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{frames}"), then)
}

pub(crate) fn said(text: &str) -> Value {
    json!({"id": "a", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]})
}

pub(crate) fn answered(text: &str) -> Value {
    json!({"id": "a", "object": "chat.completion", "choices":
        [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})
}

const BROKEN: (u16, &str) = (500, "down");

pub(crate) fn broken() -> (String, Then) {
    whole(BROKEN.0, &json!({"error": {"message": BROKEN.1, "type": "server_error"}}))
}

#[tokio::test]
async fn what_fails_before_the_first_byte_is_tried_again() {
    let silent = (String::new(), Then::Close);
    let far = Far::start(vec![broken(), silent, whole(200, &answered("here"))]).await;
    let gateway = far.gateway("retries = 2");
    let got = post(&gateway, "/v1/chat/completions", &chat("x", false)).await;
    assert!(got.text.contains("here"), "{}", got.text);
    assert_eq!(metric(&gateway, "callweave_retries_total").await, 2);
}

#[tokio::test]
async fn nothing_is_tried_again_after_the_first_byte() {
    let far = Far::start(vec![stream(&[said("so far")], Then::Close), whole(200, &answered("never"))]).await;
    let got = post(&far.gateway(""), "/v1/chat/completions", &chat("x", true)).await;
    assert!(got.text.contains("so far") && got.text.contains("\"error\":{"), "{}", got.text);
    assert_eq!(far.seen().len(), 1);
}

#[tokio::test]
async fn what_the_client_did_wrong_is_not_tried_again() {
    let refusal = json!({"error": {"message": "no", "type": "invalid_request_error"}});
    let far = Far::start(vec![whole(400, &refusal), whole(200, &answered("never"))]).await;
    let got = post(&far.gateway("retries = 5"), "/v1/chat/completions", &chat("x", true)).await;
    assert_eq!((got.status, far.seen().len()), (400, 1), "{}", got.text);
    assert_eq!(got.headers["x-request-id"], "theirs");
}

#[tokio::test]
async fn an_upstream_that_does_not_begin_is_given_up() {
    let far = Far::start(vec![(String::new(), Then::Hang)]).await;
    let gateway = far.gateway("retries = 0\n[timeouts]\nfirst_byte = 0.05");
    let got = post(&gateway, "/v1/messages", &messages("x", true)).await;
    assert_eq!((got.status, &got.json()["type"]), (504, &json!("error")), "{}", got.text);
    assert!(far.is_left().await);
}

#[tokio::test]
async fn headers_of_the_clients_protocol_go_to_an_upstream_that_speaks_it() {
    let answer = json!({"type": "message", "id": "m", "role": "assistant", "model": "x", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}});
    let far = Far::start(vec![whole(200, &answer), whole(200, &answered("hi"))]).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [
        ("anthropic-beta", "tools-2024"),
        ("anthropic-version", "2023-01-01"),
        ("x-api-key", "mine"),
        ("x-request-id", "0B5C2A64-11d4-4f0e-9d3e-6d1f0a7c2b98"),
        ("traceparent", trace),
        ("cookie", "secret"),
    ];
    let body = messages("x", false).to_string();
    let asked = || request(Method::POST, "/v1/messages?beta=true", &headers, &body);
    let got = send(&far.gateway("protocol = \"anthropic-messages\""), asked()).await;
    assert!(got.text.contains("hi"), "{}", got.text);
    let seen = far.seen()[0].to_lowercase();
    assert!(seen.starts_with("post /v1/messages "), "{seen}");
    for line in [
        "anthropic-beta: tools-2024",
        "anthropic-version: 2023-01-01",
        "x-api-key: mine",
        "x-request-id: 0b5c2a64-11d4-4f0e-9d3e-6d1f0a7c2b98",
    ] {
        assert!(seen.contains(line), "{line}: {seen}");
    }
    assert!(
        seen.contains("traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-")
            && !seen.contains("00f067aa0ba902b7")
    );
    assert!(!seen.contains("cookie"));
    send(&far.gateway(""), asked()).await;
    let seen = far.seen()[1].to_lowercase();
    assert!(seen.contains("authorization: bearer mine") && !seen.contains("anthropic"), "{seen}");
}

/// llama-cpp-python's server answers 400 to a request id that is no UUID, and knows no other limit than `max_tokens`.
#[tokio::test]
async fn a_strict_chat_server_understands_ids_and_limits() {
    let unnamed = || {
        let (head, then) = whole(200, &answered("hi"));
        (head.replace("x-request-id: theirs\r\n", ""), then)
    };
    let far = Far::start(vec![unnamed(), unnamed()]).await;
    let mut body = messages("tiny", false);
    body["max_tokens"] = json!(20);
    let gateway = far.gateway("");
    // A client's own id that is none stays here, and comes back.
    for headers in [&[][..], &[("x-request-id", "run-7")]] {
        let got = send(&gateway, request(Method::POST, "/v1/messages", headers, &body.to_string())).await;
        let seen = far.seen().pop().expect("a request").to_lowercase();
        let id = seen.lines().find_map(|line| line.strip_prefix("x-request-id: ")).expect("an id").trim();
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(got.headers["x-request-id"], headers.first().map_or(id, |(_, own)| own));
        assert!(seen.contains("\"max_tokens\":20") && !seen.contains("max_completion_tokens"), "{seen}");
    }
}

#[tokio::test]
async fn a_request_that_needs_no_change_is_sent_as_it_came() {
    let far = Far::start(vec![whole(200, &answered("hi"))]).await;
    let body =
        "{ \"model\": \"x\",  \"own\": 1.50, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}] }";
    send(&far.gateway(""), request(Method::POST, "/v1/chat/completions", &[], body)).await;
    assert!(far.seen()[0].ends_with(body), "{}", far.seen()[0]);
}

#[tokio::test]
async fn who_can_count_is_asked_and_other_routes_are_passed_on() {
    let vector = json!({"object": "list", "data": [{"embedding": [1]}]});
    let far = Far::start(vec![whole(200, &json!({"input_tokens": 42})), whole(200, &vector), broken()]).await;
    let counting = far.gateway("protocol = \"anthropic-messages\"");
    let got = post(&counting, "/v1/messages/count_tokens?beta=true", &messages("far/x", false)).await;
    assert_eq!(got.json()["input_tokens"], 42, "{}", got.text);
    assert!(
        far.seen()[0].starts_with("POST /v1/messages/count_tokens")
            && far.seen()[0].contains("\"model\":\"x\"")
    );
    let gateway = far.gateway("");
    let got = post(&gateway, "/v1/embeddings", &json!({"model": "far/e", "input": "a"})).await;
    assert_eq!(got.json(), vector);
    assert!(far.seen()[1].starts_with("POST /v1/embeddings") && far.seen()[1].contains("\"model\":\"e\""));
    let got = post(&gateway, "/v1/completions", &json!({"model": "far/e", "prompt": "a"})).await;
    assert_eq!(got.status, 500);
    let got = post(&gateway, "/v1/embeddings", &json!({"model": "demo/hermes", "input": "a"})).await;
    assert_eq!(got.status, 404, "{}", got.text);
}

const CALL: &str =
    "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 1}}</tool_call>";

#[tokio::test]
async fn the_upstream_is_left_when_the_first_call_is_over() {
    let far = Far::start(vec![stream(&[said(CALL), said("\n"), said(CALL)], Then::Hang)]).await;
    let gateway = far.gateway("stop_after_tools = true");
    let got = post(&gateway, "/v1/chat/completions", &chat("x", true)).await;
    assert_eq!(got.arguments(), "{\"city\": \"Oslo\", \"days\": 1}", "{}", got.text);
    assert!(got.text.ends_with("data: [DONE]\n\n"), "{}", got.text);
    assert!(far.is_left().await);
}

#[tokio::test]
async fn the_upstream_is_left_when_no_other_call_comes() {
    let far =
        Far::start(vec![stream(&[said(CALL), said(CALL), said("So I called them.")], Then::Hang)]).await;
    let gateway = far
        .gateway("stop_after_tools = true\nstop_after_tools_mode = \"all\"\nstop_after_tools_grace_ms = 30");
    let got = post(&gateway, "/v1/chat/completions", &chat("x", true)).await;
    assert_eq!(got.text.matches("\"name\":").count(), 2, "{}", got.text);
    assert!(
        got.text.contains("\"finish_reason\":\"tool_calls\"") && !got.text.contains("called them"),
        "{}",
        got.text
    );
    assert!(far.is_left().await);
}

#[tokio::test]
async fn a_connection_serves_the_next_request_after_a_stream() {
    let behind = gateway("listen = \"127.0.0.1:0\"");
    let url = crate::support::listening(behind).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let front = proxy.local_addr().expect("an address");
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut from, _)) = proxy.accept().await {
            *counted.lock().expect("nobody panicked") += 1;
            let mut to = TcpStream::connect(url.trim_start_matches("http://")).await.expect("a server");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from, &mut to).await });
        }
    });
    let gateway = gateway(&format!("[upstreams.far]\nbase_url = \"http://{front}\""));
    for is_streamed in [true, false, true, true] {
        let got = post(&gateway, "/v1/chat/completions", &chat("far/demo/hermes", is_streamed)).await;
        assert_eq!(got.status, 200, "{}", got.text);
    }
    assert_eq!(*count.lock().expect("nobody panicked"), 1);
}

#[tokio::test]
async fn a_client_that_reads_slowly_slows_the_upstream_down() {
    let long = said(&"x".repeat(1000));
    let far = Far::start(vec![stream(&vec![long; 30_000], Then::Close)]).await;
    let body = chat("x", true).to_string();
    let gateway = far.gateway("");
    let response = gateway.handle(request(Method::POST, "/v1/chat/completions", &[], &body)).await;
    let mut body = response.into_body();
    assert!(crate::support::next(&mut body).await.is_some());
    let mut before = usize::MAX;
    // Until nothing more is taken.
    while far.taken.load(Relaxed) != before {
        before = far.taken.load(Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // The bytes that the system buffers for a connection, and not the 30 MB that there are.
    assert!(before < 12_000_000, "{before}");
    while crate::support::next(&mut body).await.is_some() {}
    assert!(far.taken.load(Relaxed) > 30_000_000);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_given_up() {
    let long = said(&"x".repeat(1000));
    let far = Far::start(vec![stream(&vec![long; 20_000], Then::Hang)]).await;
    let front = far.gateway("listen = \"127.0.0.1:0\"\n--- [timeouts]\nidle = 0.3");
    let address = crate::support::listening(front.clone()).await;
    let body = chat("x", true).to_string();
    let mut client = TcpStream::connect(address.trim_start_matches("http://")).await.expect("a server");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(format!("{head}{body}").as_bytes()).await.expect("a request is taken");
    assert!(far.is_left().await);
    assert_eq!(metric(&front, "callweave_streams_active").await, 0);
}

#[tokio::test]
async fn upstreams_are_asked_for_their_models_once_in_a_while() {
    let list = json!({"object": "list", "data": [{"id": "one"}, {"id": "two"}]});
    let far = Far::start(vec![whole(200, &list)]).await;
    let gateway = far.gateway("");
    for _ in 0..2 {
        let got = get(&gateway, "/v1/models").await.json();
        let names: Vec<_> =
            got["data"].as_array().expect("a list").iter().map(|model| model["id"].clone()).collect();
        assert!(names.contains(&json!("one")) && names.contains(&json!("two")), "{names:?}");
    }
    assert_eq!(far.seen().len(), 1);
}

#[tokio::test]
async fn a_provider_of_anothers_protocol_gets_its_own_rules_kept() {
    let far = Far::start(vec![whole(200, &answered("hi"))]).await;
    let body = json!({"model": "x", "max_completion_tokens": 9, "safe_prompt": true, "temperature": 0.50,
    "messages": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "own": 1, "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "get_weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]});
    let got = post(&far.gateway("provider = \"mistral\""), "/v1/chat/completions", &body).await;
    assert!(got.text.contains("hi"), "{}", got.text);
    let seen = far.seen().remove(0);
    let sent: Value = serde_json::from_str(seen.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let id = sent["messages"][1]["tool_calls"][0]["id"].as_str().expect("an id");
    assert!(id.len() == 9 && sent["messages"][2]["tool_call_id"] == id, "{sent}");
    assert_eq!((&sent["max_tokens"], &sent["safe_prompt"]), (&json!(9), &json!(true)), "{sent}");
    assert!(sent.get("max_completion_tokens").is_none(), "{sent}");
}
