//! Requests that would cost more than they weigh: each limit is an error in the client's shape that names it.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client;
use crate::support::{Got, address, gateway, get, messages, post, request, responses, send};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes).expect("memory");
    writer.finish().expect("memory")
}

/// The endpoints of a gateway, a member of each that holds a list, and the path of the message in its errors.
const DOORS: [(&str, &str, &str); 5] = [
    ("/v1/chat/completions", "messages", "/error/message"),
    ("/v1/responses", "input", "/error/message"),
    ("/v1/messages", "messages", "/error/message"),
    ("/v1beta/models/demo%2Fhermes:generateContent", "contents", "/error/message"),
    ("/api/chat", "messages", "/error"),
];

fn said<'g>(got: &'g Value, place: &str) -> &'g str {
    got.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test]
async fn every_door_has_the_same_limits_and_names_them() {
    let config = "[limits]\nvalues = 300\nmessages = 20\nparts = 30\ntools = 10";
    let gateway = gateway(config);
    let many = |count: usize, element: Value| Value::from(vec![element; count]);
    for (path, word, place) in DOORS {
        let inner = if word == "contents" { "parts" } else { "content" };
        for (key, body) in [
            ("limits.values", json!({"model": "demo/hermes", "x": many(400, json!(0))})),
            ("limits.values", json!({"model": "demo/hermes", word: many(400, json!({}))})),
            ("limits.messages", json!({"model": "demo/hermes", word: many(21, json!({"role": "user"}))})),
            (
                "limits.parts",
                json!({"model": "demo/hermes", word: [{"role": "user", inner: many(31, json!({}))}]}),
            ),
            ("limits.tools", json!({"model": "demo/hermes", "tools": many(11, json!({}))})),
        ] {
            let got = post(&gateway, path, &body).await;
            let told = got.json();
            assert_eq!(got.status, 413, "{path}: {key}: {}", got.text);
            assert!(said(&told, place).contains(key), "{path}: {key}: {}", got.text);
        }
    }
    for path in ["/v1/embeddings", "/v1/messages/count_tokens", "/api/show", "/v1/tools/parse"] {
        let got = post(&gateway, path, &json!({"model": "demo/hermes", "x": many(400, json!(0))})).await;
        assert!(got.status == 413 && got.text.contains("limits.values"), "{path}: {}", got.text);
    }
    // A request just within its limits is answered.
    let mut body = messages("demo/hermes", false);
    body["messages"] = many(20, json!({"role": "user", "content": "Weather in Oslo?"}));
    assert_eq!(post(&gateway, "/v1/messages", &body).await.status, 200);
}

async fn packed(config: &str, body: Vec<u8>) -> Got {
    let request = Request::post("/v1/messages").header("content-encoding", "gzip");
    send(&gateway(config), request.body(Full::new(Bytes::from(body))).expect("a request")).await
}

#[tokio::test]
async fn compression_has_limits_of_its_own() {
    let bomb = gzip(format!("{{\"x\":[{}0]}}", "0,".repeat(2_000_000)).as_bytes());
    let got = packed("", bomb.clone()).await;
    assert!(got.status == 413 && got.text.contains("limits.ratio"), "{}", got.text);
    let got = packed("[limits]\nratio = 2000", bomb).await;
    assert!(got.status == 413 && got.text.contains("limits.values"), "{}", got.text);
    let got = packed("", gzip(b"").repeat(1001)).await;
    assert!(got.status == 413 && got.text.contains("limits.members"), "{}", got.text);
    let body = messages("demo/hermes", false).to_string();
    let got = packed("", [gzip(b"").repeat(999), gzip(body.as_bytes())].concat()).await;
    assert_eq!(got.status, 200, "{}", got.text);
}

/// Returns a server's response to the first bytes of a request.
async fn answer_to(server: std::net::SocketAddr, bytes: &[u8]) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server).await.expect("a server");
    let _ = stream.write_all(bytes).await;
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut answer));
    let count = read.await.expect("an answer in time").unwrap_or(0);
    (stream, String::from_utf8_lossy(&answer[..count]).into_owned())
}

#[tokio::test]
async fn a_body_that_says_it_is_too_long_is_refused_at_once() {
    let server = address(gateway("listen = \"127.0.0.1:0\"")).await;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000000\r\n\r\n{";
    let (_, answer) = answer_to(server, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("limits.body"), "{answer}");
}

#[tokio::test]
async fn a_request_names_one_host() {
    let server = address(gateway("listen = \"127.0.0.1:0\"")).await;
    for (head, expected) in [
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", "HTTP/1.1 200"),
        ("GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", "HTTP/1.1 400"),
        ("POST /v1/messages HTTP/1.1\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 400"),
        ("GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 200"),
    ] {
        let (_, answer) = answer_to(server, head.as_bytes()).await;
        assert!(answer.starts_with(expected), "{head}: {answer}");
        assert_eq!(head.contains("messages"), answer.contains("\"type\":\"error\""), "{answer}");
    }
}

/// Clients that send most of a long body and stop take the room that there is, and no more; others get an error.
#[tokio::test]
async fn bytes_of_unfinished_bodies_are_bounded() {
    let gateway = gateway("listen = \"127.0.0.1:0\"\n[limits]\nin_flight = 850000\nbody = 500000");
    let server = address(gateway.clone()).await;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 400000\r\n\r\n";
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server).await.expect("a server");
        stream.write_all(head.as_bytes()).await.expect("taken");
        stream.write_all(&[b' '; 390_000]).await.expect("taken");
        open.push(stream);
    }
    let full = async {
        while get(&gateway, "/readyz").await.status == 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), full).await.expect("no more room");
    let (_, refused) = answer_to(server, format!("{head}{}", " ".repeat(390_000)).as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 529") && refused.contains("retry-after: 1"), "{refused}");
    assert!(refused.contains("limits.in_flight") && refused.contains("overloaded_error"), "{refused}");
    // Short ones still find room, and so do monitors of the gateway.
    assert_eq!(post(&gateway, "/v1/messages", &messages("demo/hermes", false)).await.status, 200);
    assert_eq!(get(&gateway, "/healthz").await.status, 200);
    drop(open);
    let freed = async {
        let mut long = messages("demo/hermes", false);
        long["x"] = json!("y".repeat(390_000));
        let long = long.to_string();
        while send(&gateway, request(Method::POST, "/v1/messages", &[], &long)).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.expect("room again");
}

#[tokio::test]
async fn connections_are_bounded_and_the_gateway_can_still_be_watched() {
    let server = address(gateway("listen = \"127.0.0.1:0\"\n[limits]\nconnections = 3")).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let (stream, answer) = answer_to(server, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        open.push(stream);
    }
    let body = messages("demo/hermes", false).to_string();
    let got = client::ask(server, "POST", "/v1/messages", &[], body.as_bytes()).await;
    let text = String::from_utf8_lossy(&got.body).into_owned();
    assert_eq!((got.status, got.header("retry-after")), (529, Some("1")), "{text}");
    let chat = client::ask(server, "POST", "/v1/chat/completions", &[], b"{}").await;
    assert_eq!((chat.status, chat.header("retry-after")), (503, Some("1")), "{}", chat.text());
    assert!(text.contains("limits.connections") && text.contains("overloaded_error"), "{text}");
    for path in ["/healthz", "/metrics"] {
        assert_eq!(client::ask(server, "GET", path, &[], b"").await.status, 200);
    }
    open.pop();
    let freed = async {
        while client::ask(server, "POST", "/v1/messages", &[], body.as_bytes()).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.expect("room again");
}

#[tokio::test]
async fn what_watches_the_gateway_hears_that_it_is_overloaded() {
    let gateway = gateway("[limits]\nin_flight = 1000");
    let got = get(&gateway, "/readyz").await;
    assert_eq!((got.status, got.text.as_str()), (503, "overloaded\n"));
    assert_eq!(get(&gateway, "/healthz").await.status, 200);
}

/// A follow-up may expand to the maximum size of a request.
#[tokio::test]
async fn a_conversation_that_is_continued_has_the_limits_of_a_request() {
    let gateway = gateway("[limits]\nmessages = 12\n[store]\nbytes = 100000");
    let mut body = responses("demo/hermes", false);
    let mut count = 0;
    let refused = loop {
        let got = post(&gateway, "/v1/responses", &body).await;
        if got.status != 200 {
            break got;
        }
        count += 1;
        body["previous_response_id"] = got.json()["id"].clone();
        body["input"] = json!([{"role": "user", "content": "and?"}, {"role": "user", "content": "and?"}]);
        assert!(count < 20);
    };
    assert!(count > 2 && refused.status == 413, "{count}: {}", refused.text);
    assert!(refused.text.contains("limits.messages"), "{}", refused.text);
}

/// The values of a follow-up count in addition to the values of the conversation it continues.
#[tokio::test]
async fn values_of_a_conversation_are_added_up() {
    let gateway = gateway("[limits]\nvalues = 200");
    let mut body = responses("demo/hermes", false);
    body["input"] = json!(vec![json!({"role": "user", "content": "and?"}); 50]);
    let got = post(&gateway, "/v1/responses", &body).await;
    assert_eq!(got.status, 200, "{}", got.text);
    body["previous_response_id"] = got.json()["id"].clone();
    let got = post(&gateway, "/v1/responses", &body).await;
    assert!(got.status == 413 && got.text.contains("limits.values"), "{}", got.text);
    body["input"] = "and?".into();
    let got = post(&gateway, "/v1/responses", &body).await;
    assert_eq!(got.status, 200, "{}", got.text);
}

#[tokio::test]
async fn a_conversation_is_continued_although_its_first_answer_was_forgotten() {
    let gateway = gateway("[store]\nresponses = 2");
    let mut body = responses("demo/hermes", false);
    body["input"] = json!("Weather in Oslo? The word is xylophone.");
    let mut first = None;
    for _ in 0..4 {
        let got = post(&gateway, "/v1/responses", &body).await;
        assert_eq!(got.status, 200, "{}", got.text);
        let id = got.json()["id"].as_str().expect("an id").to_owned();
        body["previous_response_id"] = json!(id.clone());
        body["input"] = json!("and?");
        first.get_or_insert(id);
    }
    let first = first.expect("an answer");
    assert_eq!(get(&gateway, &format!("/v1/responses/{first}")).await.status, 404);
    body["previous_response_id"] = json!(first);
    let got = post(&gateway, "/v1/responses", &body).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
}
