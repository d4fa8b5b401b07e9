//! A gateway that goes, clients that are gone, and requests that go round.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use callweave_gateway::{Gateway, Server};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::client;
use crate::scripted_upstream::{Far, Then};
use crate::support::{chat, gateway, get, listening, messages, metric, post, responses};

async fn served(gateway: &Arc<Gateway>) -> (Server, std::net::SocketAddr) {
    let server = Server::bind(Arc::clone(gateway)).await.expect("a port");
    let address = server.address().expect("an address");
    (server, address)
}

#[tokio::test]
async fn who_has_heard_nothing_yet_hears_that_the_gateway_goes() {
    let stalled = "HTTP/1.1 500 X\r\ncontent-length: 500\r\n\r\n{\"error\":".to_owned();
    for is_hurried in [false, true] {
        let silent = (String::new(), Then::Hang);
        let far = Far::start([vec![silent; 7], vec![(stalled.clone(), Then::Hang)]].concat()).await;
        let shutdown = if is_hurried { 600.0 } else { 0.1 };
        let config = format!("listen = \"127.0.0.1:0\"\n--- [timeouts]\nshutdown = {shutdown}");
        let gateway = far.gateway(&config);
        let (server, address) = served(&gateway).await;
        let stop = Arc::new(Notify::new());
        let stopping = Arc::clone(&stop);
        let running = tokio::spawn(async move {
            let stopped = stopping.notified();
            match is_hurried {
                true => server.run_until(stopped, ready(())).await,
                false => server.run_until(stopped, pending()).await,
            }
        });
        let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
        let asks = [
            ("/v1/chat/completions", chat("x", true)),
            ("/v1/chat/completions", chat("x", false)),
            ("/v1/messages", messages("x", true)),
            ("/v1/responses", responses("x", false)),
            ("/v1beta/models/x:generateContent", contents),
            ("/api/chat", chat("x", true)),
            ("/v1/embeddings", json!({"model": "x", "input": "a"})),
            ("/v1/messages", messages("x", false)),
        ];
        let mut asking = Vec::new();
        for (at, (path, body)) in asks.into_iter().enumerate() {
            let body = body.to_string();
            asking.push((
                path,
                tokio::spawn(async move { client::ask(address, "POST", path, &[], body.as_bytes()).await }),
            ));
            while far.seen().len() <= at {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        stop.notify_one();
        for (path, asking) in asking {
            let got = asking.await.expect("no panic");
            assert!(matches!(got.status, 503 | 529) && got.is_complete, "{path}: {got:?}");
            let body: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
            assert!(
                body.get("error").is_some() && got.text().contains("shuts down"),
                "{path}: {}",
                got.text()
            );
        }
        running.await.expect("no panic");
    }
}

#[tokio::test]
async fn who_sent_another_request_and_left_is_noticed() {
    let far = Far::start(vec![(String::new(), Then::Hang)]).await;
    let gateway = far.gateway("listen = \"127.0.0.1:0\"\n---");
    let address = listening(gateway.clone()).await;
    let body = chat("x", false).to_string();
    let one = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = TcpStream::connect(address.trim_start_matches("http://")).await.expect("a server");
    client.write_all(one.repeat(2).as_bytes()).await.expect("requests are taken");
    while far.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(metric(&gateway, "callweave_streams_active").await, 1);
    drop(client);
    assert!(far.is_left().await);
    assert_eq!(metric(&gateway, "callweave_streams_active").await, 0);
}

/// Two gateways that ask each other.
#[tokio::test]
async fn a_request_that_goes_round_is_ended() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let second = port.local_addr().expect("an address");
    drop(port);
    let one = gateway(&format!(
        "listen = \"127.0.0.1:0\"\ndefault_upstream = \"two\"\n[upstreams.two]\nbase_url = \"http://{second}\"\nprotocol = \"anthropic-messages\""
    ));
    let first = listening(one.clone()).await;
    let two = gateway(&format!(
        "listen = \"{second}\"\ndefault_upstream = \"one\"\n[upstreams.one]\nbase_url = \"{first}\"\nretries = 5"
    ));
    listening(two.clone()).await;
    for (path, body, is_streamed) in [
        ("/v1/messages", messages("x", false), false),
        ("/v1/chat/completions", chat("x", true), true),
        ("/api/chat", chat("x", false), false),
    ] {
        let got = post(&one, path, &body).await;
        assert_eq!(got.status, 508, "{path} {is_streamed}: {}", got.text);
        assert!(got.json().get("error").is_some() && got.text.contains("goes round"), "{path}: {}", got.text);
    }
    // Nobody asked more than once.
    assert_eq!(metric(&one, "callweave_retries_total").await, 0);
    assert_eq!(metric(&two, "callweave_retries_total").await, 0);
    assert_eq!(get(&one, "/v1/models").await.status, 200);
}
