//! Errors say who was asked, where, and what went wrong; in the client's shape and without secrets.

use std::io::Write;
use std::sync::Arc;

use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use serde_json::{Value, json};

use crate::scripted_upstream::{Far, Then, answered, said, stream, whole};
use crate::support::{chat, gateway, get, messages, post};

fn unused() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port")
}

#[tokio::test]
async fn a_refused_connection_is_no_timeout_and_is_named() {
    let address = unused();
    let gateway = gateway(&format!(
        "default_upstream = \"mine\"\n[upstreams.mine]\nbase_url = \"http://user:PASSWORD@{address}/v1?key=QKEY\"\nretries = 0\n[upstreams.lost]\nbase_url = \"http://nowhere.invalid\"\nretries = 0"
    ));
    let got = post(&gateway, "/v1/chat/completions", &chat("x", false)).await;
    let error = &got.json()["error"];
    assert_eq!((got.status, &error["code"]), (502, &json!("connection_error")), "{}", got.text);
    let message = error["message"].as_str().expect("words");
    assert!(message.contains(&format!("upstream \"mine\" (model \"x\" at http://{address}/v1")), "{message}");
    assert!(
        message.contains("refused") && !message.contains("PASSWORD") && !message.contains("QKEY"),
        "{message}"
    );
    let got = post(&gateway, "/v1/messages", &messages("lost/x", true)).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (502, &json!("api_error")), "{}", got.text);
    assert!(
        got.text.contains("nowhere.invalid/v1/messages") && !got.text.contains("timeout"),
        "{}",
        got.text
    );
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let got = post(&gateway, "/v1beta/models/x:generateContent", &contents).await;
    assert!(got.status == 502 && !got.text.contains("DEADLINE"), "{}", got.text);
    // A reset is none, either.
    let far = Far::start(vec![(String::new(), Then::Close)]).await;
    let got = post(&far.gateway("retries = 0"), "/v1/chat/completions", &chat("x", false)).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (502, &json!("connection_error")), "{}", got.text);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_no_timeout() {
    let far = Far::start(vec![whole(200, &answered(&"x".repeat(5000)))]).await;
    let got =
        post(&far.gateway("[limits]\nresponse = 1000"), "/v1/chat/completions", &chat("x", false)).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (502, &Value::Null), "{}", got.text);
    assert!(got.text.contains("too large") && got.text.contains("\\\"far\\\""), "{}", got.text);
}

#[tokio::test]
async fn an_answer_that_is_none_is_named() {
    for words in
        ["<html><title>Welcome to nginx</title></html>", "this is no JSON {", "\u{1f}\u{2}\u{3}\n\n\u{7f}"]
    {
        let head = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{words}", words.len());
        for is_streamed in [false, true] {
            let far = Far::start(vec![(head.clone(), Then::Close); 3]).await;
            let got = post(&far.gateway(""), "/v1/chat/completions", &chat("x", is_streamed)).await;
            let message = got.json()["error"]["message"].as_str().expect("words").to_owned();
            assert_eq!((got.status, far.seen().len()), (502, 1), "{message}");
            assert!(
                message.contains("upstream \"far\"") && !message.contains(char::is_control),
                "{message:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_unknown_path_is_no_unknown_model() {
    let gateway = gateway("");
    let got = get(&gateway, "/v1/unknown").await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (404, &json!("unknown_url")), "{}", got.text);
    let got = get(&gateway, "/v1/responses/none").await;
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (404, &json!("response_not_found")),
        "{}",
        got.text
    );
    let got = post(&gateway, "/v1/chat/completions", &chat("gpt-4o", false)).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (404, &json!("model_not_found")), "{}", got.text);
    assert!(got.text.contains("default_upstream"), "{}", got.text);
}

#[tokio::test]
async fn an_error_that_is_no_json_gets_the_clients_shape() {
    let page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    for (protocol, path, body) in [
        ("openai-chat", "/v1/chat/completions", chat("x", false)),
        ("openai-chat", "/v1/chat/completions", chat("x", true)),
        ("anthropic-messages", "/v1/messages", messages("x", true)),
        ("openai-chat", "/v1/embeddings", json!({"model": "x", "input": "a"})),
    ] {
        let head = |status: u16, kind: &str, length: usize| {
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
        };
        for (status, kind, words, told) in [
            (502, "text/html", page, "502: 502 Bad Gateway"),
            (503, "text/plain", "", "status 503 and no words"),
            (400, "text/plain", "", "status 400 and no words"),
            (401, "application/json", "\"no\"", "status 401: no"),
        ] {
            let far =
                Far::start(vec![(format!("{}{words}", head(status, kind, words.len())), Then::Close)]).await;
            let got =
                post(&far.gateway(&format!("protocol = \"{protocol}\"\nretries = 0")), path, &body).await;
            assert_eq!(
                (got.status, &got.headers["content-type"]),
                (status, &"application/json".parse().expect("a type"))
            );
            let message = got.json()["error"]["message"].as_str().expect("words").to_owned();
            assert!(
                message.contains(told) && message.contains("upstream \"far\" (model \"x\" at http://"),
                "{message}"
            );
        }
        // An error in the right shape is unchanged; one in the shape of others is brought into the right one.
        let usual = json!({"error": {"message": "own", "type": "x", "more": 1}});
        let typed = json!({"type": "error", "error": {"type": "x", "message": "own", "more": 1}});
        let own = if protocol == "openai-chat" { &usual } else { &typed };
        for answer in [&usual, &typed, &json!({"detail": "own"}), &json!({"error": "own"})] {
            let far = Far::start(vec![whole(418, answer)]).await;
            let got = post(&far.gateway(&format!("protocol = \"{protocol}\"")), path, &body).await;
            assert_eq!(
                (got.status, &got.json()["error"]["message"]),
                (418, &json!("own")),
                "{answer}: {}",
                got.text
            );
            let is_kept = answer == own || protocol == "openai-chat" && *answer == typed;
            assert_eq!(got.text.contains("more"), is_kept, "{answer}: {}", got.text);
            assert_eq!(
                got.json().get("type").is_some(),
                protocol != "openai-chat" || *answer == typed,
                "{answer}: {}",
                got.text
            );
        }
    }
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let elsewhere = Far::start(vec![whole(200, &answered("stolen"))]).await;
    for status in [301, 302, 307, 308] {
        let head = format!(
            "HTTP/1.1 {status} X\r\nlocation: {}/v1?key=QKEY\r\ncontent-length: 0\r\n\r\n",
            elsewhere.url
        );
        let far = Far::start(vec![(head, Then::Close)]).await;
        let got = post(&far.gateway(""), "/v1/chat/completions", &chat("x", false)).await;
        let message = got.json()["error"]["message"].as_str().expect("words").to_owned();
        assert!(
            got.status == 502 && message.contains("redirect") && message.contains(&elsewhere.url),
            "{message}"
        );
        assert!(!message.contains("QKEY"), "{message}");
    }
    assert!(elsewhere.seen().is_empty());
}

fn packed(kind: &str, text: &[u8]) -> Vec<u8> {
    let fast = flate2::Compression::fast();
    let write = |writer: &mut dyn Write| writer.write_all(text).expect("memory");
    match kind {
        "gzip" => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), fast);
            write(&mut writer);
            writer.finish().expect("memory")
        }
        "deflate" => {
            let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), fast);
            write(&mut writer);
            writer.finish().expect("memory")
        }
        "raw" => {
            let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), fast);
            write(&mut writer);
            writer.finish().expect("memory")
        }
        _ => ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest),
    }
}

/// An upstream that says bytes.
async fn says(head: &str, body: Vec<u8>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let head = format!("HTTP/1.1 {head}content-length: {}\r\n\r\n", body.len());
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut piece = vec![0; 1 << 16];
            let _ = stream.read(&mut piece).await;
            let _ = stream.write_all(head.as_bytes()).await;
            for piece in body.chunks(100) {
                let _ = stream.write_all(piece).await;
                let _ = stream.flush().await;
            }
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn compressed_answers_are_read_within_the_limit() {
    let (streamed, _) = stream(
        &[said("Hel"), said("lo"), json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})],
        Then::Close,
    );
    let (_, frames) = streamed.split_once("\r\n\r\n").expect("a body");
    let whole = answered("Hello").to_string();
    let refusal = json!({"error": {"message": "no, because", "type": "x"}}).to_string();
    for kind in ["gzip", "deflate", "raw", "zstd"] {
        let coding = if kind == "raw" { "deflate" } else { kind };
        let asked = |head: String, body: Vec<u8>, is_streamed: bool| async move {
            let url = says(&head, body).await;
            let gateway = gateway(&format!(
                "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{url}\"\nretries = 0\n[limits]\nresponse = 100000"
            ));
            post(&gateway, "/v1/chat/completions", &chat("x", is_streamed)).await
        };
        let head = |status: u16, kind: &str| {
            format!("{status} X\r\ncontent-type: {kind}\r\ncontent-encoding: {coding}\r\n")
        };
        let got = asked(head(200, "application/json"), packed(kind, whole.as_bytes()), false).await;
        assert_eq!(got.json()["choices"][0]["message"]["content"], "Hello", "{kind}: {}", got.text);
        let got = asked(head(200, "text/event-stream"), packed(kind, frames.as_bytes()), true).await;
        let text: String = got
            .frames()
            .iter()
            .filter_map(|frame| frame.pointer("/choices/0/delta/content")?.as_str().map(str::to_owned))
            .collect();
        assert!(text == "Hello" && got.text.contains("[DONE]"), "{kind}: {}", got.text);
        let got = asked(head(400, "application/json"), packed(kind, refusal.as_bytes()), false).await;
        assert_eq!((got.status, &got.json()["error"]["message"]), (400, &json!("no, because")), "{kind}");
        // A megabyte, and a body that was truncated.
        let got = asked(head(200, "application/json"), packed(kind, &vec![b' '; 1 << 20]), false).await;
        assert!(got.status == 502 && got.text.contains("100000 bytes"), "{kind}: {}", got.text);
        let mut cut = packed(kind, whole.as_bytes());
        cut.truncate(cut.len() - 12);
        let got = asked(head(200, "application/json"), cut, false).await;
        assert_eq!(got.status, 502, "{kind}: {}", got.text);
        let got = asked(head(200, "application/json"), b"\x1f\x8bnonsense nonsense".to_vec(), false).await;
        assert!(got.status == 502 && got.json()["error"]["message"].is_string(), "{kind}: {}", got.text);
    }
    let url = says("200 X\r\ncontent-encoding: br\r\n", b"nonsense".to_vec()).await;
    let gateway =
        gateway(&format!("default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{url}\"\nretries = 0"));
    let got = post(&gateway, "/v1/chat/completions", &chat("x", false)).await;
    assert!(got.status == 502 && got.text.contains("\\\"br\\\""), "{}", got.text);
}

const KEY: &str = "sk-upstream-secret-1";

fn keyed(far: &Far, rest: &str) -> Arc<Gateway> {
    let config = format!(
        "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{}\"\nprotocol = \"openai-chat\"\napi_key_env = \"K\"\n{rest}",
        far.url
    );
    let config = Config::read(&config).expect("a configuration");
    Gateway::new(config, &Environment::of(|name| (name == "K").then(|| KEY.to_owned()))).expect("a gateway")
}

#[tokio::test]
async fn a_key_that_the_upstream_echoes_is_masked() {
    let echo = json!({"error": {"message": format!("Incorrect API key provided: Bearer {KEY}"), "type": "invalid_request_error",
        "code": "invalid_api_key", "param": KEY}});
    let mid = format!("data: {}\n\ndata: {echo}\n\n", said("so far"));
    let mid = format!("HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n{mid}");
    for (path, body) in [
        ("/v1/chat/completions", chat("x", false)),
        ("/v1/chat/completions", chat("x", true)),
        ("/v1/messages", messages("x", true)),
        ("/v1/embeddings", json!({"model": "x", "input": "a"})),
    ] {
        let page = format!("HTTP/1.1 401 X\r\ncontent-type: text/html\r\n\r\n<p>{KEY}</p>");
        for answer in [whole(401, &echo), (page, Then::Close), (mid.clone(), Then::Close)] {
            let far = Far::start(vec![answer]).await;
            let got = post(&keyed(&far, "retries = 0"), path, &body).await;
            assert!(far.seen()[0].contains(KEY));
            let is_passed = path == "/v1/embeddings" && got.status == 200;
            assert!(is_passed || got.text.contains("***"), "{path}: {}", got.text);
            assert!(is_passed || !got.text.contains(KEY), "{path}: {}", got.text);
        }
    }
}

#[tokio::test]
async fn whose_account_it_is_is_not_passed_on() {
    let body = answered("x").to_string();
    let head = "HTTP/1.1 200 X\r\nopenai-organization: org-secret\r\nopenai-project: proj\r\nanthropic-organization-id: org\r\nopenai-processing-ms: 3\r\nx-ratelimit-remaining-requests: 9\r\n";
    let far =
        Far::start(vec![(format!("{head}content-length: {}\r\n\r\n{body}", body.len()), Then::Close)]).await;
    let got = post(&far.gateway(""), "/v1/chat/completions", &chat("x", false)).await;
    for name in ["openai-organization", "openai-project", "anthropic-organization-id"] {
        assert!(!got.headers.contains_key(name), "{name}");
    }
    assert_eq!(
        (&got.headers["openai-processing-ms"], &got.headers["x-ratelimit-remaining-requests"]),
        (&"3".parse().expect("a header"), &"9".parse().expect("a header"))
    );
}

#[tokio::test]
async fn a_date_to_wait_for_counts_from_now_if_the_upstream_tells_no_time() {
    let head = |then: &str| format!("HTTP/1.1 429 X\r\nretry-after: {then}\r\ncontent-length: 2\r\n\r\n{{}}");
    for (then, told) in [
        ("Wed, 21 Oct 2015 07:28:00 GMT", "0"),
        ("0", "0"),
        ("99999999999999999999", "31536000"),
        ("Mon, 21 Oct 2199 07:28:00 GMT", "31536000"),
    ] {
        let far = Far::start(vec![(head(then), Then::Close); 3]).await;
        let got = post(&far.gateway("retries = 2"), "/v1/chat/completions", &chat("x", false)).await;
        assert_eq!(
            (got.status, &got.headers["retry-after"]),
            (429, &told.parse().expect("a header")),
            "{then}"
        );
        // A wait of a year is left to the client.
        assert_eq!(far.seen().len(), if told == "0" { 3 } else { 1 }, "{then}");
    }
}
