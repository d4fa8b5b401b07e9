//! The hosts that the gateway serves, and the pages that may read its responses.

use callweave_gateway::keys::KeyDigest;
use http::Method;
use serde_json::json;

use crate::support::{Got, chat, gateway, get, messages, request, responses, send};

/// The paths asked, and the position of the error by which their clients know a refusal.
const DOORS: [(&str, &str); 4] = [
    ("/v1/chat/completions", "/error/message"),
    ("/v1/messages", "/error/message"),
    ("/v1beta/models/demo%2Fhermes:generateContent", "/error/message"),
    ("/api/chat", "/error"),
];

fn ask(path: &str, headers: &[(&str, &str)]) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let body = match path {
        "/v1/messages" => messages("demo/hermes", false),
        "/v1/responses" => responses("demo/hermes", false),
        _ if path.starts_with("/v1beta") => json!({"contents": [{"parts": [{"text": "hi"}]}]}),
        _ => chat("demo/hermes", false),
    };
    // A page may send this without asking first.
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", "text/plain")]).collect();
    request(Method::POST, path, &headers, &body.to_string())
}

fn is_refused(got: &Got, place: &str, word: &str) {
    let body = got.json();
    let message = body.pointer(place).and_then(|it| it.as_str()).unwrap_or_default();
    assert_eq!(got.status, 403, "{}", got.text);
    assert!(message.contains(word), "{}", got.text);
    assert!(!got.headers.contains_key("access-control-allow-origin"), "{:?}", got.headers);
}

#[tokio::test]
async fn without_keys_only_names_of_this_machine_are_answered_for() {
    let own = gateway("");
    for host in [
        "localhost",
        "localhost:2255",
        "LOCALHOST:1",
        "127.0.0.1:9",
        "127.8.9.1",
        "[::1]:2255",
        "[::ffff:127.0.0.1]",
    ] {
        let got = send(&own, ask("/v1/messages", &[("host", host)])).await;
        assert_eq!(got.status, 200, "{host}: {}", got.text);
    }
    for host in [
        "evil.example",
        "evil.example:2255",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "xlocalhost",
        "10.0.0.1",
        "[2001:db8::1]:2255",
        "127.0.0.1@evil.example",
        "",
        "localhost,evil.example",
    ] {
        for (path, place) in DOORS {
            is_refused(&send(&own, ask(path, &[("host", host)])).await, place, "allowed_hosts");
        }
        for path in ["/metrics", "/v1/models", "/v1/nothing"] {
            let got = send(&own, request(Method::GET, path, &[("host", host)], "")).await;
            is_refused(&got, "/error/message", "allowed_hosts");
        }
        // A health check may use any host name.
        assert_eq!(send(&own, request(Method::GET, "/healthz", &[("host", host)], "")).await.status, 200);
    }
    // The complete address in the request line, and another host behind the first.
    let got = send(&own, ask("http://evil.example/v1/messages", &[("host", "localhost")])).await;
    assert_eq!(got.status, 403, "{}", got.text);
    let got = send(&own, ask("/v1/messages", &[("host", "localhost"), ("host", "evil.example")])).await;
    assert_eq!(got.status, 403, "{}", got.text);
}

#[tokio::test]
async fn other_names_are_answered_for_if_they_are_allowed_or_keys_are_asked_for() {
    let opened = gateway("allowed_hosts = [\"gateway.example\", \"*.inner.example\", \"box:81\"]");
    for (host, status) in [
        ("gateway.example", 200),
        ("GATEWAY.example:2255", 200),
        ("a.inner.example", 200),
        ("inner.example", 403),
        ("evilinner.example", 403),
        ("box:81", 200),
        ("box:82", 403),
        ("localhost", 200),
    ] {
        let got = send(&opened, ask("/v1/messages", &[("host", host)])).await;
        assert_eq!(got.status, status, "{host}: {}", got.text);
    }
    let keyed = gateway(&format!("client_keys = [\"{}\"]", KeyDigest::of("k")));
    let got = send(&keyed, ask("/v1/messages", &[("host", "any.example"), ("x-api-key", "k")])).await;
    assert_eq!(got.status, 200, "{}", got.text);
    // Other machines know one that listens for them by its address.
    let wide = gateway("listen = \"0.0.0.0:0\"\nallow_open = true");
    assert_eq!(send(&wide, ask("/v1/messages", &[("host", "10.0.0.1:2255")])).await.status, 200);
    assert_eq!(send(&wide, ask("/v1/messages", &[("host", "evil.example")])).await.status, 403);
}

#[tokio::test]
async fn pages_from_elsewhere_are_refused_with_and_without_keys() {
    let keyed = format!("client_keys = [\"{}\"]", KeyDigest::of("k"));
    for gateway in [gateway(""), gateway(&keyed)] {
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:3000",
            "https://localhost.evil",
            "vscode-webview://x",
            "",
        ] {
            let headers = [("host", "localhost:2255"), ("origin", origin), ("x-api-key", "k")];
            for (path, place) in DOORS {
                is_refused(&send(&gateway, ask(path, &headers)).await, place, "allowed_origins");
            }
            is_refused(
                &send(&gateway, request(Method::GET, "/metrics", &headers, "")).await,
                "/error/message",
                "allowed_origins",
            );
            let asked = [headers[0], headers[1], ("access-control-request-method", "POST")];
            let got = send(&gateway, request(Method::OPTIONS, "/v1/messages", &asked, "")).await;
            is_refused(&got, "/error/message", "allowed_origins");
        }
        let own = [("host", "localhost:2255"), ("origin", "http://localhost:2255"), ("x-api-key", "k")];
        assert_eq!(send(&gateway, ask("/v1/messages", &own)).await.status, 200);
    }
}

const PAGE: &str = "https://app.example";

/// Whether a page can read a response, and caches give no page's copy of it to another.
fn is_readable(got: &Got, origin: &str) {
    let header = |name: &str| got.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("access-control-allow-origin"), Some(origin), "{:?}", got.headers);
    assert_eq!(header("access-control-expose-headers"), Some("*"), "{:?}", got.headers);
    let varies = |value: &http::HeaderValue| value.to_str().is_ok_and(|it| it.eq_ignore_ascii_case("origin"));
    assert!(got.headers.get_all("vary").iter().any(varies), "{:?}", got.headers);
}

#[tokio::test]
async fn pages_that_are_allowed_can_read_every_answer() {
    let config = format!("allowed_origins = [\"{PAGE}\", \"vscode-webview:\", \"app:\", \"null\"]");
    let open = gateway(&config);
    for origin in [PAGE, "vscode-webview://1a2b", "app://obsidian.md", "null"] {
        let headers = [("host", "127.0.0.1:2255"), ("origin", origin)];
        for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"] {
            let got = send(&open, ask(path, &headers)).await;
            assert_eq!(got.status, 200, "{}", got.text);
            is_readable(&got, origin);
        }
        let body = messages("demo/hermes", true).to_string();
        let streamed = send(&open, request(Method::POST, "/v1/messages", &headers, &body)).await;
        assert!(streamed.text.contains("message_stop"), "{}", streamed.text);
        is_readable(&streamed, origin);
        for (method, path, body, status) in [
            (Method::GET, "/v1/models", "", 200),
            (Method::GET, "/healthz", "", 200),
            (Method::POST, "/v1/messages", "{", 400),
            (Method::POST, "/v1/messages", "{\"model\": \"none\", \"messages\": []}", 404),
            (Method::POST, "/v1/nothing", "{}", 404),
            (Method::PUT, "/v1/messages", "{}", 405),
        ] {
            let got = send(&open, request(method, path, &headers, body)).await;
            assert_eq!(got.status, status, "{path}: {}", got.text);
            is_readable(&got, origin);
        }
    }
    let got =
        send(&open, ask("/v1/messages", &[("host", "localhost"), ("origin", "https://other.example")])).await;
    is_refused(&got, "/error/message", "allowed_origins");
    // Nobody gets from a cache what was meant for a page, and the other way round.
    assert!(get(&open, "/v1/models").await.headers.contains_key("vary"));
    assert!(!get(&gateway(""), "/v1/models").await.headers.contains_key("vary"));
}

#[tokio::test]
async fn browsers_are_told_what_a_page_may_send() {
    let keyed = format!("allowed_origins = [\"{PAGE}\"]\nclient_keys = [\"{}\"]", KeyDigest::of("k"));
    let open = gateway(&keyed);
    let asked = [
        ("host", "gateway.example"),
        ("origin", PAGE),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,x-stainless-os"),
        ("access-control-request-private-network", "true"),
    ];
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses/x", "/v1/models"] {
        let got = send(&open, request(Method::OPTIONS, path, &asked, "")).await;
        assert_eq!((got.status, got.text.as_str()), (204, ""), "{path}");
        is_readable(&got, PAGE);
        let header = |name: &str| got.headers[name].to_str().expect("text").to_owned();
        assert!(header("access-control-allow-methods").contains("POST"));
        assert_eq!(header("access-control-allow-headers"), asked[3].1);
        assert_eq!(header("access-control-allow-private-network"), "true");
    }
    // A page can also read a refusal for want of a key.
    let got = send(&open, ask("/v1/messages", &[("origin", PAGE)])).await;
    assert_eq!(got.status, 401, "{}", got.text);
    is_readable(&got, PAGE);
    // A request without an origin is told which methods there are.
    let got = send(&open, request(Method::OPTIONS, "/v1/messages", &[], "")).await;
    assert_eq!((got.status, got.headers["allow"].to_str().ok()), (405, Some("POST")), "{}", got.text);
}
