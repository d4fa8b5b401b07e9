//! Limits on clients and upstreams: bytes, headers and time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::client;
use crate::support::{address, chat, gateway, messages, post};

#[tokio::test]
async fn a_request_has_only_so_many_headers() {
    let server = address(gateway("listen = \"127.0.0.1:0\"\n[limits]\nheaders = 10")).await;
    let headers: Vec<(String, String)> =
        (0..9).map(|number| (format!("x-{number}"), "v".to_owned())).collect();
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // Two more are of the connection.
    assert_eq!(client::ask(server, "GET", "/healthz", &headers[..8], b"").await.status, 200);
    assert_eq!(client::ask(server, "GET", "/healthz", &headers[..9], b"").await.status, 431);
}

#[tokio::test]
async fn headers_are_only_so_long() {
    let server = address(gateway("listen = \"127.0.0.1:0\"")).await;
    let mut stream = TcpStream::connect(server).await.expect("a server");
    let long = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-long: {}\r\n\r\n", "v".repeat(600_000));
    // It need not take all of it to refuse it.
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    let write = async {
        let _ = writer.write_all(long.as_bytes()).await;
    };
    let (_, _) = tokio::join!(write, reader.read_to_end(&mut answer));
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(client::ask(server, "GET", "/healthz", &[], b"").await.status, 200);
}

#[tokio::test]
async fn bodies_are_only_so_long_however_they_come() {
    let server = address(gateway("listen = \"127.0.0.1:0\"\n[limits]\nbody = 2000")).await;
    let mut body = messages("demo/hermes", false);
    let ask = |body: String| async move {
        let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let counted = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let chunked =
            format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        [said(server, counted).await, said(server, chunked).await]
    };
    for answer in ask(body.to_string()).await {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    body["messages"][0]["content"] = json!("x".repeat(2000));
    for answer in ask(body.to_string()).await {
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("\"type\":\"error\""), "{answer}");
    }
}

/// Returns a server's response to these bytes.
async fn said(server: SocketAddr, bytes: String) -> String {
    let mut stream = TcpStream::connect(server).await.expect("a server");
    let _ = stream.write_all(bytes.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_connection_is_waited_for_only_so_long() {
    // A listener with a full queue that accepts nobody answers no further connection.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let full = socket.listen(1).expect("a queue");
    let address = full.local_addr().expect("an address");
    let mut queue = Vec::new();
    for _ in 0..8 {
        queue.push(tokio::time::timeout(Duration::from_millis(50), TcpStream::connect(address)).await);
    }
    assert!(queue.iter().any(Result::is_err), "the queue takes everybody");
    let gateway = gateway(&format!(
        "default_upstream = \"far\"\n[timeouts]\nconnect = 0.2\n[upstreams.far]\nbase_url = \"http://{address}\"\nretries = 0"
    ));
    let began = Instant::now();
    let got = post(&gateway, "/v1/messages", &messages("x", false)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((got.status, &got.json()["type"]), (504, &json!("error")), "{}", got.text);
    let got = post(&gateway, "/v1/chat/completions", &chat("x", true)).await;
    assert_eq!((got.status, got.json()["error"]["message"].is_string()), (504, true), "{}", got.text);
}

#[tokio::test]
async fn other_machines_are_not_let_in_without_a_key() {
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        // The same as on the command line: the address replaces the file's.
        let mut config = Config::read("").expect("valid");
        config.listen = listen.parse().expect("an address");
        let refused = Gateway::new(config.clone(), &Environment::of(|_| None));
        assert!(refused.is_err_and(|problem| problem.to_string().contains("client_keys")), "{listen}");
        config.allow_open = true;
        assert!(Gateway::new(config.clone(), &Environment::of(|_| None)).is_ok(), "{listen}");
        (config.allow_open, config.client_keys) =
            (false, vec![callweave_gateway::keys::KeyDigest::of("key").to_string()]);
        assert!(Gateway::new(config, &Environment::of(|_| None)).is_ok(), "{listen}");
    }
    assert!(Config::read("").expect("valid").listen.ip().is_loopback());
}
