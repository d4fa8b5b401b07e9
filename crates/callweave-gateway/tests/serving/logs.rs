//! The content of the log, and content that is never in it.

use std::io;
use std::sync::{Arc, Mutex};

use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use callweave_gateway::keys::KeyDigest;
use http::Method;
use serde_json::{Value, json};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use crate::scripted_upstream::{Far, Then, answered, said, stream, whole};
use crate::support::{chat, gateway, messages, post, request, responses, send};

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Listens on this thread to everything that anybody says, until the guard is dropped.
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let builder = tracing_subscriber::fmt().json().flatten_event(true).with_max_level(Level::TRACE);
        tracing::subscriber::set_default(builder.with_writer(self.clone()).finish())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panicked")).into_owned()
    }

    /// The lines about requests.
    fn answered(&self) -> Vec<Value> {
        let lines =
            self.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>();
        lines.into_iter().filter(|line| line["message"] == "answered").collect()
    }
}

/// Texts that must not be in a log: said by the client, by the model, in arguments and results, and three keys.
const SECRETS: [&str; 8] = [
    "PINEAPPLE",
    "MANGO",
    "PAPAYA",
    "LYCHEE",
    "sk-client-key",
    "sk-upstream-key",
    "sk-wrong-key",
    "sk-query-key",
];

#[tokio::test]
async fn no_key_and_no_content_is_logged() {
    let log = Log::default();
    let _guard = log.listen();
    // A canary, so that an empty log proves something.
    tracing::trace!(canary = true, "the log is heard");
    let call = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"LYCHEE\"}}</tool_call>";
    let refusal = json!({"error": {"message": "PINEAPPLE is not allowed with sk-upstream-key", "type": "invalid_request_error"}});
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.extend([
            whole(200, &answered("MANGO")),
            stream(&[said("MANGO"), said(call)], Then::Close),
            whole(400, &refusal),
            whole(500, &refusal),
            ("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>MANGO</html>".to_owned(), Then::Close),
            ("HTTP/1.1 MANGO".to_owned(), Then::Close),
            // Asked again.
            whole(200, &answered(call)),
            whole(200, &answered(call)),
            whole(200, &answered(call)),
        ]);
    }
    let far = Far::start(answers).await;
    let config = format!(
        "default_upstream = \"far\"\nclient_keys = [\"{}\"]\n[upstreams.far]\nbase_url = \"{}\"\nprotocol = \"openai-chat\"\napi_key_env = \"FAR_KEY\"\nretries = 0\ninvalid = \"ask_again\"",
        KeyDigest::of("sk-client-key"),
        far.url
    );
    let environment = Environment::of(|name| (name == "FAR_KEY").then(|| "sk-upstream-key".to_owned()));
    let gateway = Gateway::new(Config::read(&config).expect("valid"), &environment).expect("a gateway");
    let with_secrets = |mut body: Value| {
        body["system"] = json!("PINEAPPLE");
        body["metadata"] = json!({"user_id": "PINEAPPLE"});
        for turns in ["messages", "input"] {
            if body[turns].is_array() {
                body[turns].as_array_mut().expect("turns").push(json!({"role": "user", "content": "PAPAYA"}));
            }
        }
        body
    };
    for (path, body) in [
        ("/v1/chat/completions", [chat("x", false), chat("x", true)]),
        ("/v1/messages", [messages("x", false), messages("x", true)]),
        ("/v1/responses", [responses("x", false), responses("x", true)]),
    ] {
        let key = [("authorization", "Bearer sk-client-key"), ("cookie", "PAPAYA")];
        for turn in 0..7 {
            let body = with_secrets(body[usize::from(turn == 1)].clone()).to_string();
            send(&gateway, request(Method::POST, path, &key, &body)).await;
        }
        let wrong = request(Method::POST, path, &[("x-api-key", "sk-wrong-key")], &body[0].to_string());
        assert_eq!(send(&gateway, wrong).await.status, 401);
        let broken = request(Method::POST, &format!("{path}?key=sk-query-key"), &key, "{\"PAPAYA\": ");
        assert_eq!(send(&gateway, broken).await.status, 400);
    }
    assert_eq!(far.seen().len(), 27);
    assert!(far.seen().iter().all(|seen| seen.contains("Bearer sk-upstream-key")));
    let text = log.text();
    assert!(text.contains("the log is heard") && log.answered().len() == 27, "{text}");
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn what_is_refused_or_passed_through_is_logged_and_counted_too() {
    let log = Log::default();
    let _guard = log.listen();
    let far = Far::start(vec![whole(200, &json!({"data": []}))]).await;
    let gateway = far.gateway(&format!("client_keys = [\"{}\"]\n---", KeyDigest::of("key")));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let ask = |path: &'static str, key: &'static str, body: &'static str| {
        let headers = [("traceparent", parent.as_str()), ("x-api-key", key)];
        send(&gateway, request(Method::POST, path, &headers, body))
    };
    assert_eq!(ask("/v1/messages?key=secret", "wrong", "{}").await.status, 401);
    assert_eq!(ask("/v1/messages", "key", "{").await.status, 400);
    assert_eq!(ask("/v1/nothing", "key", "{}").await.status, 404);
    assert_eq!(ask("/v1/embeddings", "key", "{\"model\": \"e\", \"input\": \"a\"}").await.status, 200);
    let lines = log.answered();
    let told: Vec<_> = lines.iter().map(|line| (line["status"].clone(), line["path"].clone())).collect();
    let expected =
        [("401", "/v1/messages"), ("400", "/v1/messages"), ("404", "/v1/nothing"), ("200", "/v1/embeddings")];
    assert_eq!(told, expected.map(|(status, path)| (json!(status), json!(path))), "{}", log.text());
    assert!(lines.iter().all(|line| line["trace"] == trace && line["request"].is_string()), "{}", log.text());
    for (protocol, status) in
        [("anthropic-messages", "401"), ("anthropic-messages", "400"), ("openai-chat", "200")]
    {
        let name = format!(
            "callweave_requests_total{{protocol=\"{protocol}\",upstream=\"none\",status=\"{status}\""
        );
        assert_eq!(counted(&gateway, &name).await, 1, "{protocol} {status}");
    }
}

/// A metric of a gateway that wants a key.
async fn counted(gateway: &Arc<Gateway>, name: &str) -> i64 {
    let text = send(gateway, request(Method::GET, "/metrics", &[("x-api-key", "key")], "")).await.text;
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn every_request_is_logged_with_its_trace_and_what_became_of_it() {
    let log = Log::default();
    let _guard = log.listen();
    let far = Far::start(vec![whole(200, &answered("hi"))]).await;
    let front = far.gateway("");
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "own=1"), ("x-request-id", "mine")];
    let body = chat("x", false).to_string();
    send(&front, request(Method::POST, "/v1/chat/completions", &headers, &body)).await;
    let [line] = &log.answered()[..] else { panic!("{}", log.text()) };
    let (span, sent) = (line["span"].as_str().expect("a span"), far.seen()[0].to_lowercase());
    assert_eq!((&line["trace"], &line["request"]), (&json!(trace), &json!("mine")), "{line}");
    assert!(sent.contains(&format!("traceparent: 00-{trace}-{span}-01")), "{sent}");
    assert!(sent.contains("tracestate: own=1"), "{sent}");
    for (name, value) in [
        ("protocol", json!("openai-chat")),
        ("upstream", json!("far")),
        ("model", json!("x")),
        ("status", json!("200")),
        ("streamed", json!(false)),
        ("tries", json!(1)),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
    assert!(line["ms"].is_f64() && line["first_ms"].is_f64() && line["error"].is_null(), "{line}");
    // Without a trace of the client's one begins here, and another for each request.
    let own = gateway("[upstreams.demo]\nbase_url = \"demo:\"\nretries = 0");
    post(&own, "/v1/messages", &messages("demo/status-500", true)).await;
    post(&own, "/v1/messages", &messages("demo/abrupt-end", true)).await;
    let lines = log.answered();
    assert_eq!((&lines[1]["status"], &lines[2]["status"]), (&json!("500"), &json!("broken")), "{lines:?}");
    assert!(lines[1]["error"].is_string() && lines[2]["error"].is_string(), "{lines:?}");
    assert!(
        lines[1]["trace"] != lines[2]["trace"] && lines[1]["trace"].as_str().is_some_and(|id| id.len() == 32)
    );
}

#[tokio::test]
async fn levels_say_whom_a_line_concerns() {
    let log = Log::default();
    let _guard = log.listen();
    let refusal = |status| whole(status, &json!({"error": {"message": "no"}}));
    let far = Far::start(vec![refusal(400), refusal(500), refusal(401), whole(200, &answered("hi"))]).await;
    let text = format!(
        "demo = true\ndefault_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{}\"\nretries = 0\napi_key_env = \"K\"\n[[models]]\nname = \"best\"\nupstream = \"demo\"\nmodel = \"status-401\"\nfallbacks = [\"demo/hermes\"]",
        far.url
    );
    let environment = Environment::of(|name| (name == "K").then(|| "k".to_owned()));
    let gateway = Gateway::new(Config::read(&text).expect("valid"), &environment).expect("a gateway");
    for (model, level, status, fallbacks) in [
        ("x", "INFO", "400", json!(null)),
        ("x", "WARN", "500", json!(null)),
        // The key is the gateway's own.
        ("x", "WARN", "401", json!(null)),
        ("x", "INFO", "200", json!(null)),
        ("demo/nobody", "INFO", "404", json!(null)),
        ("demo/abrupt-end", "WARN", "broken", json!(null)),
        ("best", "WARN", "200", json!(1)),
    ] {
        post(&gateway, "/v1/chat/completions", &chat(model, true)).await;
        let lines = log.answered();
        let line = lines.last().expect("a line");
        let told = (line["level"].as_str(), line["status"].as_str(), &line["fallbacks"]);
        assert_eq!(told, (Some(level), Some(status), &fallbacks), "{model}: {line}");
    }
}

#[tokio::test]
async fn what_cannot_be_said_to_an_upstream_is_a_warning() {
    let log = Log::default();
    let _guard = log.listen();
    let far = Far::start(vec![whole(200, &json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}))]).await;
    let gateway = far.gateway("protocol = \"anthropic-messages\"");
    let mut body = chat("x", false);
    (body["seed"], body["logit_bias"]) = (json!(7), json!({"5": 1}));
    assert_eq!(post(&gateway, "/v1/chat/completions", &body).await.status, 200);
    let lines: Vec<Value> =
        log.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let line = lines.iter().find(|line| line["message"] == "left out of the request").expect("a line");
    let lost = line["lost"].as_str().expect("words");
    assert!(line["level"] == "WARN" && lost.contains("seed") && lost.contains("logit bias"), "{line}");
    assert_eq!((&line["upstream"], line["request"].is_string()), (&json!("far"), true), "{line}");
}

#[tokio::test]
async fn a_line_names_the_key_that_was_shown_and_never_tells_it() {
    let log = Log::default();
    let _guard = log.listen();
    let config = format!("client_keys = [\"{}\", \"{}\"]", KeyDigest::of("one"), KeyDigest::of("two"));
    let keyed = gateway(&config);
    for (key, name) in [("one", Some("one")), ("two", Some("two")), ("three", None)] {
        let body = chat("demo/hermes", false).to_string();
        send(&keyed, request(Method::POST, "/v1/chat/completions", &[("x-api-key", key)], &body)).await;
        send(&keyed, request(Method::POST, "/v1/nothing", &[("x-api-key", key)], "{}")).await;
        let digest = name.map(|name| KeyDigest::of(name).to_string()["sha256:".len()..][..8].to_owned());
        for line in &log.answered()[log.answered().len() - 2..] {
            assert_eq!(line["key"].as_str(), digest.as_deref(), "{line}");
        }
    }
    // Where nobody needs one, it is somebody else's.
    let open = gateway("");
    let body = chat("demo/hermes", false).to_string();
    send(&open, request(Method::POST, "/v1/chat/completions", &[("x-api-key", "one")], &body)).await;
    assert!(log.answered().last().is_some_and(|line| line["key"].is_null()), "{}", log.text());
}

#[tokio::test]
async fn names_that_clients_make_up_take_no_room() {
    let log = Log::default();
    let _guard = log.listen();
    let mut answer = answered("hi");
    answer["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4});
    let far = Far::start(vec![whole(200, &answer); 40]).await;
    let gateway = far.gateway("models = [\"real\"]");
    for number in 0..38 {
        post(
            &gateway,
            "/v1/chat/completions",
            &chat(&format!("made-up-{number}-{}", "ä".repeat(5000)), false),
        )
        .await;
    }
    for name in ["real", "far/real"] {
        post(&gateway, "/v1/chat/completions", &chat(name, false)).await;
    }
    let text = crate::support::get(&gateway, "/metrics").await.text;
    assert!(!text.contains("made-up") && text.len() < 20_000, "{text}");
    assert!(log.answered().iter().all(|line| line.to_string().len() < 1500), "{}", log.text());
    for model in ["other", "real"] {
        assert!(text.contains(&format!("upstream=\"far\",model=\"{model}\"}}")), "{text}");
    }
}
