//! Every endpoint of the gateway: the clients that are let in, and the errors at wrong ones.

use callweave_gateway::keys::KeyDigest;
use http::Method;
use serde_json::{Value, json};

use crate::client;
use crate::support::{Got, address, chat, gateway, get, messages, post, request, responses, send};

/// The shape of an error for a client.
#[derive(Clone, Copy, Debug)]
enum Shape {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

impl Shape {
    /// Returns the fault of an error response with that status; `Ok` if it is right.
    fn judge(self, got: &Got) -> Result<(), String> {
        let body = got.json();
        let is_text = |path: &str| {
            body.pointer(path).and_then(Value::as_str).is_some_and(|text: &str| !text.is_empty())
        };
        let is_so = match self {
            Self::OpenAi => is_text("/error/message") && is_text("/error/type"),
            Self::Anthropic => body["type"] == "error" && is_text("/error/message") && is_text("/error/type"),
            Self::Gemini => {
                body["error"]["code"] == got.status && is_text("/error/message") && is_text("/error/status")
            }
            Self::Ollama => is_text("/error"),
        };
        let kind = got.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
        let has_id = got.headers.contains_key("x-request-id");
        (is_so && is_json && has_id).then_some(()).ok_or(format!("{self:?} {kind:?} {has_id}: {}", got.text))
    }
}

fn contents() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}]})
}

/// Every door that needs a body: where it is, what is said there, and how errors look.
fn posted(model: &str) -> Vec<(String, Value, Shape)> {
    let model_of = |body: Value| {
        let mut body = body;
        body["model"] = json!(model);
        body
    };
    let at = |path: &str| path.to_owned();
    vec![
        (at("/v1/chat/completions"), chat(model, false), Shape::OpenAi),
        (at("/chat/completions"), chat(model, true), Shape::OpenAi),
        (at("/openai/v1/chat/completions"), chat(model, false), Shape::OpenAi),
        (at("/v1/responses"), responses(model, false), Shape::OpenAi),
        (at("/v1/messages"), messages(model, false), Shape::Anthropic),
        (at("/anthropic/v1/messages?beta=true"), messages(model, true), Shape::Anthropic),
        (at("/v1/messages/count_tokens"), messages(model, false), Shape::Anthropic),
        (format!("/v1beta/models/{model}:generateContent"), contents(), Shape::Gemini),
        (format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"), contents(), Shape::Gemini),
        (format!("/v1beta/models/{model}:countTokens"), contents(), Shape::Gemini),
        (at("/api/chat"), chat(model, false), Shape::Ollama),
        (at("/api/show"), model_of(json!({})), Shape::Ollama),
        (at("/v1/embeddings"), model_of(json!({"input": "a"})), Shape::OpenAi),
        (at("/v1/completions"), model_of(json!({"prompt": "a"})), Shape::OpenAi),
    ]
}

/// Paths that need no body.
const ASKED: [(&str, Shape); 8] = [
    ("/v1/models", Shape::OpenAi),
    ("/v1/models/demo/hermes", Shape::OpenAi),
    ("/v1beta/models", Shape::Gemini),
    ("/v1beta/models/demo/hermes", Shape::Gemini),
    ("/api/tags", Shape::Ollama),
    ("/api/version", Shape::Ollama),
    ("/metrics", Shape::OpenAi),
    ("/v1/responses/resp_1", Shape::OpenAi),
];

#[tokio::test]
async fn every_door_takes_the_key_in_either_header() {
    let gateway = gateway(&format!("client_keys = [\"{}\"]", KeyDigest::of("secret")));
    let doors =
        posted("demo/hermes").into_iter().map(|(path, body, shape)| (Method::POST, path, body, shape));
    let parse = (Method::POST, "/v1/tools/parse".to_owned(), json!({"text": "a"}), Shape::OpenAi);
    let asked = ASKED.map(|(path, shape)| (Method::GET, path.to_owned(), json!(null), shape));
    for (method, path, body, shape) in doors.chain([parse]).chain(asked) {
        let body = body.to_string();
        let ask = |header: (&'static str, &'static str)| {
            send(&gateway, request(method.clone(), &path, &[header], &body))
        };
        for header in
            [("authorization", "Bearer secret"), ("x-api-key", "secret"), ("x-goog-api-key", "secret")]
        {
            let got = ask(header).await;
            assert_ne!(got.status, 401, "{path} {header:?}: {}", got.text);
        }
        for header in [("authorization", "Bearer other"), ("x-goog-api-key", "other"), ("cookie", "secret")] {
            let got = ask(header).await;
            assert_eq!(got.status, 401, "{path} {header:?}: {}", got.text);
            // The header tells which client asks for models where several share a path.
            let is_google = header.0 == "x-goog-api-key" && path.starts_with("/v1/models");
            let shape = if is_google { Shape::Gemini } else { shape };
            shape.judge(&got).unwrap_or_else(|what| panic!("{path}: {what}"));
        }
    }
    for open in ["/healthz", "/readyz", "/"] {
        assert_eq!(get(&gateway, open).await.status, 200, "{open}");
    }
}

#[tokio::test]
async fn an_unknown_model_is_not_found_in_each_clients_shape() {
    let gateway = gateway("");
    for (path, body, shape) in posted("nobody") {
        let got = post(&gateway, &path, &body).await;
        assert_eq!(got.status, 404, "{path}: {}", got.text);
        shape.judge(&got).unwrap_or_else(|what| panic!("{path}: {what}"));
    }
    let got = post(&gateway, "/v1/chat/completions", &chat("nobody", true)).await.json();
    assert_eq!(got["error"]["code"], "model_not_found", "{got}");
    for (path, shape) in [("/v1/models/nobody", Shape::OpenAi), ("/v1beta/models/nobody", Shape::Gemini)] {
        let got = get(&gateway, path).await;
        assert_eq!(got.status, 404, "{path}: {}", got.text);
        shape.judge(&got).unwrap_or_else(|what| panic!("{path}: {what}"));
    }
    let anthropic = request(Method::GET, "/v1/models/nobody", &[("anthropic-version", "2023-06-01")], "");
    let got = send(&gateway, anthropic).await;
    Shape::Anthropic.judge(&got).unwrap_or_else(|what| panic!("{what}"));
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_each_clients_shape() {
    let gateway = gateway("");
    for (path, _, shape) in posted("demo/hermes") {
        for body in [
            "",
            "{",
            "nothing",
            "[]",
            "null",
            "\"text\"",
            "{\"model\": 7}",
            "\u{feff}{}",
            "{\"a\": \"\\ud800\"}",
        ] {
            let got = send(&gateway, request(Method::POST, &path, &[], body)).await;
            // Gemini names the model in the path, and an empty object is one of its requests.
            let is_taken = matches!(shape, Shape::Gemini) && body.starts_with("{\"");
            if is_taken && got.status == 200 {
                continue;
            }
            assert_eq!(got.status, 400, "{path} {body:?}: {}", got.text);
            shape.judge(&got).unwrap_or_else(|what| panic!("{path} {body:?}: {what}"));
        }
        let mut bytes = request(Method::POST, &path, &[], "");
        *bytes.body_mut() = http_body_util::Full::new(bytes::Bytes::from_static(b"{\"model\": \"\xff\"}"));
        let got = send(&gateway, bytes).await;
        assert_eq!(got.status, 400, "{path}: {}", got.text);
    }
}

#[tokio::test]
async fn nobody_is_asked_to_answer_nothing_in_another_protocol() {
    let gateway = gateway("");
    for (path, _, shape) in posted("demo/cohere") {
        let asks =
            ["/chat", "/responses", "/messages", "enerateContent"].iter().any(|part| path.contains(part));
        if !asks || path.contains("count_tokens") {
            continue;
        }
        for nothing in ["7", "[]", "{}", "null"] {
            let body = format!(
                "{{\"model\": \"demo/cohere\", \"max_tokens\": 9, \"messages\": {nothing}, \"input\": {nothing}, \
                 \"contents\": {nothing}}}"
            );
            let got = send(&gateway, request(Method::POST, &path, &[], &body)).await;
            assert_eq!(got.status, 400, "{path} {nothing}: {}", got.text);
            assert!(got.text.contains("no messages"), "{path} {nothing}: {}", got.text);
            shape.judge(&got).unwrap_or_else(|what| panic!("{path} {nothing}: {what}"));
        }
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_so_in_each_clients_shape() {
    let gateway = gateway("");
    for (path, _, shape) in posted("demo/hermes") {
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let got = send(&gateway, request(method.clone(), &path, &[], "")).await;
            assert_eq!(got.status, 405, "{method} {path}: {}", got.text);
            assert_eq!(got.headers["allow"], "POST", "{method} {path}");
            shape.judge(&got).unwrap_or_else(|what| panic!("{method} {path}: {what}"));
        }
    }
    for (path, shape) in ASKED {
        let got = send(&gateway, request(Method::POST, path, &[], "{}")).await;
        assert_eq!(got.status, 405, "{path}: {}", got.text);
        let allowed = if path.starts_with("/v1/responses/") { "GET, HEAD, DELETE" } else { "GET, HEAD" };
        assert_eq!(got.headers["allow"], allowed, "{path}");
        shape.judge(&got).unwrap_or_else(|what| panic!("{path}: {what}"));
    }
}

#[tokio::test]
async fn an_unknown_path_is_not_found_in_the_shape_of_its_neighbours() {
    let gateway = gateway("");
    for (path, shape) in [
        ("/v1/nothing", Shape::OpenAi),
        ("/", Shape::OpenAi),
        ("/v1/messages/batches", Shape::Anthropic),
        ("/anthropic/v1/nothing", Shape::Anthropic),
        ("/v1beta/nothing", Shape::Gemini),
        ("/gemini/nothing", Shape::Gemini),
        ("/api/pull", Shape::Ollama),
        ("/ollama/nothing", Shape::Ollama),
    ] {
        let got = post(&gateway, path, &json!({})).await;
        let expected = if path == "/" { 405 } else { 404 };
        assert_eq!(got.status, expected, "{path}: {}", got.text);
        shape.judge(&got).unwrap_or_else(|what| panic!("{path}: {what}"));
    }
}

#[tokio::test]
async fn whoever_asks_only_for_the_head_gets_no_body() {
    let server = address(gateway("listen = \"127.0.0.1:0\"")).await;
    for path in ["/v1/models", "/api/tags", "/healthz", "/", "/api/version"] {
        let whole = client::ask(server, "GET", path, &[], b"").await;
        let mut stream = client::send(server, "HEAD", path, &[], b"").await;
        let head = client::head(&mut stream).await;
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
        assert_eq!((head.status, rest.len()), (200, 0), "{path}");
        let length = whole.text().len().to_string();
        assert_eq!(head.header("content-length"), Some(length.as_str()), "{path}");
    }
}

#[tokio::test]
async fn one_model_is_told_in_each_clients_shape() {
    let gateway = gateway("");
    let anthropic =
        request(Method::GET, "/v1/models/demo/hermes", &[("anthropic-version", "2023-06-01")], "");
    let got = send(&gateway, anthropic).await.json();
    assert_eq!((&got["type"], &got["id"]), (&json!("model"), &json!("demo/hermes")));
    let got = get(&gateway, "/v1beta/models/demo%2Fhermes").await.json();
    assert_eq!(got["name"], "models/demo/hermes");
    let methods = got["supportedGenerationMethods"].as_array().expect("a list");
    assert!(methods.contains(&json!("streamGenerateContent")));
    let got = post(&gateway, "/api/show", &json!({"name": "demo/hermes"})).await;
    assert_eq!((got.status, got.json()["details"]["family"].is_string()), (200, true), "{}", got.text);
    let got = get(&gateway, "/api/tags").await.json();
    assert!(got["models"][0]["details"]["family"].is_string() && got["models"][0]["modified_at"].is_string());
}

#[tokio::test]
async fn calls_and_thoughts_are_parsed_out_of_a_text_alone() {
    let gateway = gateway("");
    let tools = json!([{"type": "function", "function": {"name": "look",
        "parameters": {"properties": {"times": {"type": "integer"}}, "required": ["times"]}}}]);
    let text = "<think>Hm.</think>So: <tool_call>{'name': 'look', 'arguments': {'times': '3'}}</tool_call>";
    let got = post(&gateway, "/v1/tools/parse", &json!({"text": text, "tools": tools})).await.json();
    assert!(got["dialect"].is_string(), "{got}");
    assert_eq!(
        (&got["calls"][0]["name"], &got["calls"][0]["arguments"]),
        (&json!("look"), &json!("{\"times\": 3}"))
    );
    assert_eq!((&got["content"], &got["reasoning"]), (&json!("So: "), &json!("Hm.")), "{got}");
    let text = "<function=look>\n<parameter=times>\n3\n</parameter>\n</function>";
    let body = json!({"text": text, "tools": tools, "model": "Qwen3-Coder-30B"});
    let got = post(&gateway, "/v1/tools/parse", &body).await.json();
    assert_eq!((&got["calls"][0]["name"], &got["dialect"]), (&json!("look"), &json!("qwen3_coder")), "{got}");
    // Naming a dialect only adds to what is found without.
    let body = json!({"text": text, "tools": tools, "dialect": "hermes"});
    let got = post(&gateway, "/v1/tools/parse", &body).await.json();
    assert_eq!((&got["calls"][0]["name"], &got["dialect"]), (&json!("look"), &json!("hermes")), "{got}");
    for wrong in [json!({}), json!({"text": 3}), json!({"text": "a", "own": 1})] {
        let got = post(&gateway, "/v1/tools/parse", &wrong).await;
        assert_eq!(got.status, 400, "{}", got.text);
        Shape::OpenAi.judge(&got).unwrap_or_else(|what| panic!("{what}"));
    }
}
