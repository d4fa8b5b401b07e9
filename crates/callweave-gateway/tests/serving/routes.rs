//! Every route of the manual, with an upstream behind it.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::scripted_upstream::{Far, Then, answered, said, stream, whole};
use crate::support::{Got, chat, gateway, get, post, request, responses, send};

const MANUAL: &str = include_str!("../../../../docs/gateway.md");
const VERTEX: &str = "/v1/projects/{project}/locations/{location}/publishers";

fn chatting() -> Value {
    json!({"model": "x", "messages": [{"role": "user", "content": "hi"}]})
}

fn contents() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
}

fn said_to_anthropic() -> Value {
    json!({"anthropic_version": "vertex-2023-10-16", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
}

fn vectors() -> Value {
    json!({"object": "list", "model": "e", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.25]}],
        "usage": {"prompt_tokens": 3, "total_tokens": 3}})
}

fn chat_stream() -> (String, Then) {
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let (head, _) = stream(&[said("Hello"), end], Then::Close);
    (format!("{head}data: [DONE]\n\n"), Then::Close)
}

/// A route of the manual, the body that is sent there, the response of the upstream, which speaks chat, and a part of
/// the client's response.
struct Case {
    route: String,
    body: Option<Value>,
    answer: Option<(String, Then)>,
    expected: &'static str,
}

fn case(route: impl Into<String>, body: Value, answer: (String, Then), expected: &'static str) -> Case {
    Case { route: route.into(), body: Some(body), answer: Some(answer), expected }
}

fn own(route: &str, body: Option<Value>, expected: &'static str) -> Case {
    Case { route: route.to_owned(), body, answer: None, expected }
}

fn cases() -> Vec<Case> {
    let text = || whole(200, &answered("Hello"));
    let embedded = || whole(200, &vectors());
    let one = || json!({"content": {"parts": [{"text": "a"}]}});
    let batch = || json!({"requests": [{"model": "models/x", "content": {"parts": [{"text": "a"}]}}]});
    let mut all = vec![
        case("POST /v1/chat/completions", chatting(), text(), r#""content":"Hello""#),
        case("POST /v1beta/openai/chat/completions", chatting(), text(), r#""content":"Hello""#),
        case("POST /openai/deployments/{model}/chat/completions", chatting(), text(), r#""content":"Hello""#),
        case("POST /v1/responses", json!({"model": "x", "input": "hi"}), text(), r#""text":"Hello""#),
        case("POST /openai/v1/responses", json!({"model": "x", "input": "hi"}), text(), r#""text":"Hello""#),
        case("POST /v1/messages", said_to_anthropic_with_model(), text(), r#""text":"Hello""#),
        case(
            "POST /api/chat",
            json!({"model": "x", "messages": chatting()["messages"], "stream": false}),
            text(),
            r#""content":"Hello""#,
        ),
        case(
            "POST /api/generate",
            json!({"model": "x", "prompt": "hi", "stream": false}),
            text(),
            r#""response":"Hello""#,
        ),
        case(
            "POST /v1/completions",
            json!({"model": "x", "prompt": "hi"}),
            whole(200, &json!({"choices": [{"text": "Hello"}]})),
            r#""text":"Hello""#,
        ),
        case(
            "POST /openai/deployments/{model}/completions",
            json!({"prompt": "hi"}),
            whole(200, &json!({"choices": [{"text": "Hello"}]})),
            r#""text":"Hello""#,
        ),
        case("POST /v1/embeddings", json!({"model": "x", "input": "a"}), embedded(), r#"[0.5,-1.25]"#),
        case(
            "POST /v1beta/openai/embeddings",
            json!({"model": "x", "input": "a"}),
            embedded(),
            r#"[0.5,-1.25]"#,
        ),
        case(
            "POST /openai/deployments/{model}/embeddings",
            json!({"input": "a"}),
            embedded(),
            r#"[0.5,-1.25]"#,
        ),
        case(
            "POST /api/embed",
            json!({"model": "x", "input": "a"}),
            embedded(),
            r#""embeddings":[[0.5,-1.25]]"#,
        ),
        case(
            "POST /api/embeddings",
            json!({"model": "x", "prompt": "a"}),
            embedded(),
            r#"{"embedding":[0.5,-1.25]}"#,
        ),
        own("GET /api/tags", None, r#""models":["#),
        own("GET /api/ps", None, r#""models":["#),
        own("POST /api/show", Some(json!({"model": "x"})), r#""capabilities":["#),
        own("GET /api/version", None, r#""version""#),
        own("POST /v1/messages/count_tokens", Some(said_to_anthropic_with_model()), r#""input_tokens":"#),
        own(
            "POST /v1/responses/input_tokens",
            Some(json!({"model": "x", "input": "hi"})),
            r#""object":"response.input_tokens""#,
        ),
        own("GET /v1/models", None, r#""object":"list""#),
        own("GET /v1beta/openai/models", None, r#""object":"list""#),
        own("GET /v1/models/{model}", None, r#""object":"model""#),
        own("POST /v1/tools/parse", Some(json!({"text": "hi"})), r#""calls""#),
        own("GET /healthz", None, "ok"),
        own("GET /health", None, "ok"),
        own("GET /livez", None, "ok"),
        own("GET /readyz", None, "ready"),
        own("GET /metrics", None, "callweave_"),
        own("GET /", None, "callweave"),
    ];
    for before in ["/v1beta/models", "/v1beta"] {
        let at = |verb: &str| format!("POST {before}/{{model}}:{verb}");
        all.push(case(at("embedContent"), one(), embedded(), r#"{"embedding":{"values":[0.5,-1.25]}}"#));
        all.push(case(
            at("batchEmbedContents"),
            batch(),
            embedded(),
            r#"{"embeddings":[{"values":[0.5,-1.25]}]}"#,
        ));
    }
    for before in ["/v1beta1/publishers", VERTEX] {
        let at = |verb: &str| format!("POST {before}/{{publisher}}/models/{{model}}:{verb}");
        let predicted = json!({"instances": [{"content": "a"}]});
        all.push(case(at("embedContent"), one(), embedded(), r#"{"embedding":{"values":[0.5,-1.25]}}"#));
        all.push(case(
            at("predict"),
            predicted,
            embedded(),
            r#"{"predictions":[{"embeddings":{"values":[0.5,-1.25]}}]}"#,
        ));
    }
    for before in [
        "/v1beta/models",
        "/v1beta",
        "/v1beta1/publishers/{publisher}/models",
        &format!("{VERTEX}/{{publisher}}/models"),
    ] {
        let at = |verb: &str| format!("POST {before}/{{model}}:{verb}");
        all.push(case(at("generateContent"), contents(), text(), r#""text":"Hello""#));
        all.push(case(at("streamGenerateContent"), contents(), chat_stream(), r#""text":"Hello""#));
        all.push(own(&at("countTokens"), Some(contents()), r#""totalTokens":"#));
    }
    let claude = |verb: &str| format!("POST {VERTEX}/anthropic/models/{{model}}:{verb}");
    all.push(case(claude("rawPredict"), said_to_anthropic(), text(), r#""text":"Hello""#));
    all.push(case(claude("streamRawPredict"), said_to_anthropic(), chat_stream(), r#""text":"Hello""#));
    let count = format!("POST {VERTEX}/anthropic/models/count-tokens:rawPredict");
    all.push(own(&count, Some(said_to_anthropic_with_model()), r#""input_tokens":"#));
    let openapi = "POST /v1/projects/{project}/locations/{location}/endpoints/openapi/chat/completions";
    all.push(case(openapi, chatting(), text(), r#""content":"Hello""#));
    all
}

fn said_to_anthropic_with_model() -> Value {
    let mut body = said_to_anthropic();
    body["model"] = json!("x");
    body
}

/// Routes that need a stored response, or another upstream, and have tests of their own below.
const ELSEWHERE: &[&str] = &[
    "GET /v1/responses/{id}",
    "DELETE /v1/responses/{id}",
    "GET /v1/responses/{id}/input_items",
    "POST /v1/responses/{id}/cancel",
    "POST /v1/responses/compact",
];

/// The routes of the manual's table.
fn documented() -> BTreeSet<String> {
    let section = MANUAL.split_once("\n## Routes\n").and_then(|(_, rest)| rest.split_once("\n## "));
    let rows = section.expect("a chapter").0.lines().filter(|line| line.starts_with("| `"));
    let mut routes = Vec::<String>::new();
    for code in rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2)) {
        routes.push(match code.strip_prefix(':') {
            Some(verb) => {
                let before =
                    routes.last().and_then(|before| before.rsplit_once(':')).expect("a route before");
                format!("{}:{verb}", before.0)
            }
            None => code.to_owned(),
        });
    }
    routes.into_iter().collect()
}

async fn ask(case: &Case, model: &str) -> (Got, Option<String>) {
    let answers = case.answer.iter().cloned().collect();
    let far = Far::start(answers).await;
    let gateway = far.gateway("models = [\"x\"]");
    let (method, path) = case.route.split_once(' ').expect("a method");
    let path = path.replace("{model}", model).replace("{project}", "p").replace("{location}", "l");
    let path = path.replace("{publisher}", "google");
    let body = case.body.as_ref().map_or(String::new(), Value::to_string);
    let method: Method = method.parse().expect("a method");
    let got = send(&gateway, request(method, &path, &[("api-key", "mine")], &body)).await;
    (got, far.seen().first().cloned())
}

#[tokio::test]
async fn every_documented_route_answers() {
    let cases = cases();
    let told: BTreeSet<String> = cases.iter().map(|case| case.route.clone()).collect();
    let told: BTreeSet<String> =
        told.into_iter().chain(ELSEWHERE.iter().map(|own| (*own).to_owned())).collect();
    assert_eq!(documented(), told);
    for case in &cases {
        for model in ["x", "far/x", "far%2Fx"] {
            let (got, seen) = ask(case, model).await;
            assert_eq!(got.status, 200, "{} {model}: {}", case.route, got.text);
            assert!(
                got.text.replace(": ", ":").contains(case.expected),
                "{} {model}: {}",
                case.route,
                got.text
            );
            if case.answer.is_some() {
                let seen = seen.expect("a request upstream");
                assert!(seen.contains("\"model\":\"x\""), "{} {model}: {seen}", case.route);
                assert!(seen.to_lowercase().contains("authorization: bearer mine"), "{}: {seen}", case.route);
                assert!(!seen.contains("anthropic_version"), "{seen}");
            }
        }
    }
}

#[tokio::test]
async fn azures_and_vertexs_bodies_fit_upstreams_of_the_same_protocol() {
    let message = json!({"type": "message", "id": "m", "role": "assistant", "model": "x", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}});
    let far = Far::start(vec![whole(200, &message)]).await;
    let gateway = far.gateway("protocol = \"anthropic-messages\"");
    let path = "/v1/projects/p/locations/l/publishers/anthropic/models/far/x:rawPredict";
    let got = post(&gateway, path, &said_to_anthropic()).await;
    assert_eq!((got.status, &got.json()["model"]), (200, &json!("far/x")), "{}", got.text);
    let sent = far.seen().remove(0);
    assert!(sent.starts_with("POST /v1/messages ") && sent.contains("\"stream\":false"), "{sent}");
    assert!(sent.contains("\"model\":\"x\"") && !sent.contains("anthropic_version\""), "{sent}");
}

/// A request of an Ollama client with a prompt.
#[tokio::test]
async fn a_prompt_is_a_conversation() {
    let far = Far::start(vec![whole(200, &answered("{}")), chat_stream()]).await;
    let gateway = far.gateway("");
    let body = json!({"model": "x", "prompt": "Look.", "system": "Be brief.", "images": ["iVBORw0KGgoAAAA="],
        "format": "json", "options": {"temperature": 0.5, "num_predict": 7}, "keep_alive": "5m", "stream": false});
    let got = post(&gateway, "/api/generate", &body).await;
    let answer = got.json();
    assert_eq!((&answer["response"], &answer["done"]), (&json!("{}"), &json!(true)), "{}", got.text);
    assert!(answer.get("message").is_none() && answer["model"] == "x", "{}", got.text);
    let seen = far.seen().remove(0);
    let sent: Value = serde_json::from_str(seen.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "Be brief."}), "{sent}");
    assert_eq!(sent["messages"][1]["content"][0]["text"], "Look.", "{sent}");
    let url = sent["messages"][1]["content"][1]["image_url"]["url"].as_str().expect("an image");
    assert!(url.starts_with("data:image/png;base64,iVBOR"), "{sent}");
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(7), &json!(0.5)), "{sent}");
    assert_eq!(sent["response_format"]["type"], "json_object", "{sent}");
    let got = post(&gateway, "/api/generate", &json!({"model": "x", "prompt": "Look."})).await;
    assert_eq!(got.headers["content-type"], "application/x-ndjson");
    let lines: Vec<Value> =
        got.text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let text: String = lines.iter().filter_map(|line| line["response"].as_str()).collect();
    assert_eq!(
        (text.as_str(), &lines.last().expect("a line")["done"]),
        ("Hello", &json!(true)),
        "{}",
        got.text
    );
    assert!(!got.text.contains("\"message\""), "{}", got.text);
    for (key, value) in [
        ("raw", json!(true)),
        ("suffix", json!("}")),
        ("template", json!("{{ .Prompt }}")),
        ("context", json!([1, 2])),
    ] {
        let mut body = json!({"model": "x", "prompt": "Look."});
        body[key] = value;
        let got = post(&gateway, "/api/generate", &body).await;
        assert!(got.status == 400 && got.text.contains(key), "{key}: {}", got.text);
        assert!(got.json()["error"].is_string(), "{}", got.text);
    }
    // A model is loaded and unloaded by no prompt.
    for (keep, reason) in [(json!("5m"), "load"), (json!(0), "unload")] {
        let body = json!({"model": "x", "prompt": "", "keep_alive": keep});
        let got = post(&gateway, "/api/generate", &body).await.json();
        assert_eq!((&got["done_reason"], &got["response"]), (&json!(reason), &json!("")), "{got}");
    }
    assert_eq!(far.seen().len(), 2);
    let body = json!({"model": "demo/hermes", "prompt": "Look.", "raw": false, "suffix": "", "context": [],
        "stream": false});
    assert_eq!(post(&gateway, "/api/generate", &body).await.status, 200);
}

#[tokio::test]
async fn embeddings_are_translated_and_what_is_lost_is_named() {
    let ollama = json!({"model": "x", "embeddings": [[1.50], [2]], "prompt_eval_count": 4});
    let gemini = json!({"embeddings": [{"values": [1.50]}, {"values": [2]}]});
    for (protocol, answer, path) in [
        ("ollama", &ollama, "POST /api/embed "),
        ("gemini-generatecontent", &gemini, "POST /v1beta/models/x:batchEmbedContents "),
    ] {
        let far = Far::start(vec![whole(200, answer), whole(200, answer)]).await;
        let gateway = far.gateway(&format!("protocol = \"{protocol}\""));
        let body = json!({"model": "far/x", "input": ["a", "b"], "dimensions": 8, "extra": 1, "än,d": 2});
        let got = post(&gateway, "/v1/embeddings", &body).await;
        assert_eq!(got.json()["data"][1]["embedding"], json!([2]), "{}", got.text);
        assert!(got.text.contains("[1.5") && got.json()["model"] == "far/x", "{}", got.text);
        assert_eq!(got.headers["x-callweave-lost"], "extra, ?n?d");
        let seen = far.seen().remove(0);
        assert!(seen.starts_with(path) && seen.contains(":8"), "{seen}");
        let packed = json!({"model": "far/x", "input": ["a", "b"], "encoding_format": "base64"});
        let got = post(&gateway, "/v1/embeddings", &packed).await;
        assert_eq!(got.json()["data"][1]["embedding"], "AAAAQA==", "{}", got.text);
    }
    let far = Far::start(vec![whole(200, &gemini)]).await;
    let gateway = far.gateway("protocol = \"gemini-generatecontent\"");
    let body = json!({"model": "models/far/x", "content": {"parts": [{"text": "a"}]}, "taskType": "RETRIEVAL_QUERY"});
    let got = post(&gateway, "/v1beta/models/far/x:embedContent", &body).await;
    let seen = far.seen().remove(0);
    assert_eq!(got.status, 200, "{}", got.text);
    assert!(seen.contains("\"models/x\"") && seen.contains("RETRIEVAL_QUERY"), "{seen}");
    let far = Far::start(vec![whole(200, &gemini)]).await;
    let gateway = far.gateway("protocol = \"gemini-generatecontent\"");
    let body = json!({"instances": [{"content": "a"}, {"content": "b", "title": "t"}], "parameters": {"outputDimensionality": 8}});
    let got = post(&gateway, "/v1beta1/publishers/far/models/x:predict", &body).await;
    assert_eq!(got.json()["predictions"][1]["embeddings"]["values"], json!([2]), "{}", got.text);
    assert_eq!(got.headers["x-callweave-lost"], "title");
    let seen = far.seen().remove(0);
    assert!(seen.starts_with("POST /v1beta/models/x:batchEmbedContents ") && seen.contains(":8"), "{seen}");
}

#[tokio::test]
async fn embeddings_that_cannot_be_had_are_told() {
    let far = Far::start(vec![whole(200, &json!({"data": [{}]}))]).await;
    let gateway = far.gateway("");
    let got = post(&gateway, "/api/embed", &json!({"model": "x", "input": "a"})).await;
    assert!(got.status == 502 && got.text.contains("embeddings that cannot be read"), "{}", got.text);
    let got = post(&gateway, "/api/embed", &json!({"model": "demo/hermes", "input": "a"})).await;
    assert!(got.status == 404 && got.text.contains("has no embeddings"), "{}", got.text);
    assert!(!got.text.contains("model_not_found"), "{}", got.text);
    let got =
        post(&gateway, "/v1beta/models/x:embedContent", &json!({"content": {"parts": [{"inlineData": {}}]}}))
            .await;
    assert_eq!(
        (got.status, &got.json()["error"]["status"]),
        (400, &json!("INVALID_ARGUMENT")),
        "{}",
        got.text
    );
}

fn responded(id: &str, text: &str) -> Value {
    json!({"id": id, "object": "response", "created_at": 1, "status": "completed", "model": "x", "error": null,
        "incomplete_details": null, "output": [{"type": "message", "id": "msg_1", "status": "completed",
            "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
}

/// Servers that give every response the same id must not have one conversation go on with another.
#[tokio::test]
async fn a_response_does_not_take_the_id_of_one_that_is_kept() {
    let said = ["It rains.", "It snows.", "Still rain."];
    let far = Far::start(said.map(|text| whole(200, &responded("resp_1", text))).to_vec()).await;
    let gateway = far.gateway("protocol = \"openai-responses\"");
    let ask = |text: &str| json!({"model": "x", "input": text});
    let first = post(&gateway, "/v1/responses", &ask("Rain?")).await.json();
    let second = post(&gateway, "/v1/responses", &ask("Snow?")).await.json();
    assert_eq!(first["id"], "resp_1");
    assert_ne!(second["id"], "resp_1", "{second}");
    for (id, own, other) in
        [(&first["id"], "It rains.", "It snows."), (&second["id"], "It snows.", "It rains.")]
    {
        let kept = get(&gateway, &format!("/v1/responses/{}", id.as_str().expect("an id"))).await;
        assert!(kept.text.contains(own) && !kept.text.contains(other), "{}", kept.text);
    }
    let next = json!({"model": "x", "input": "And now?", "previous_response_id": first["id"]});
    assert_eq!(post(&gateway, "/v1/responses", &next).await.status, 200);
    let sent = far.seen().remove(2);
    assert!(sent.contains("It rains.") && !sent.contains("It snows."), "{sent}");
}

#[tokio::test]
async fn an_upstream_that_keeps_nothing_gets_the_whole_conversation() {
    for (rest, is_streamed) in [
        ("", false),
        ("", true),
        ("dialect = \"none\"\nrepair = false\nschema = \"off\"", false),
        ("dialect = \"none\"\nrepair = false\nschema = \"off\"", true),
    ] {
        let first = match is_streamed {
            false => whole(200, &responded("resp_up1", "It rains.")),
            true => {
                let created = json!({"type": "response.created", "sequence_number": 0, "response":
                    {"id": "resp_up1", "object": "response", "status": "in_progress", "model": "x", "output": []}});
                let done = json!({"type": "response.completed", "sequence_number": 1, "response": responded("resp_up1", "It rains.")});
                stream(&[created, done], Then::Close)
            }
        };
        let far = Far::start(vec![first, whole(200, &responded("resp_up2", "Still."))]).await;
        let gateway = far.gateway(&format!("protocol = \"openai-responses\"\n{rest}"));
        let got =
            post(&gateway, "/v1/responses", &json!({"model": "x", "input": "Rain?", "stream": is_streamed}))
                .await;
        assert!(got.status == 200 && got.text.contains("resp_up1"), "{}", got.text);
        let next = json!({"model": "x", "input": "And now?", "previous_response_id": "resp_up1"});
        let got = post(&gateway, "/v1/responses", &next).await;
        assert!(got.text.contains("Still."), "{}", got.text);
        let sent = far.seen().remove(1);
        assert!(!sent.contains("previous_response_id"), "{sent}");
        let sent: Value = serde_json::from_str(sent.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
        let input = sent["input"].to_string();
        let at = |text: &str| input.find(text).unwrap_or_else(|| panic!("{text}: {input}"));
        assert!(at("Rain?") < at("It rains.") && at("It rains.") < at("And now?"), "{input}");
        let unknown = json!({"model": "x", "input": "And?", "previous_response_id": "resp_none"});
        let got = post(&gateway, "/v1/responses", &unknown).await;
        assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
    }
}

#[tokio::test]
async fn an_upstream_that_keeps_responses_is_asked_for_them() {
    let list = json!({"object": "list", "data": []});
    let far = Far::start(vec![
        whole(200, &responded("resp_2", "Still.")),
        whole(200, &responded("resp_1", "It rains.")),
        whole(200, &list),
        whole(400, &json!({"error": {"message": "Cannot cancel", "type": "invalid_request_error"}})),
        whole(200, &json!({"id": "resp_1", "object": "response", "deleted": true})),
        whole(200, &json!({"object": "response.compaction", "output": []})),
        whole(200, &json!({"object": "response.input_tokens", "input_tokens": 11})),
        whole(404, &json!({"error": {"message": "no such path"}})),
        whole(200, &responded("resp_3", "Kept.")),
    ])
    .await;
    let gateway = far.gateway("protocol = \"openai-responses\"\nkeeps_responses = true\nretries = 0");
    let next = json!({"model": "x", "input": "And now?", "previous_response_id": "resp_1"});
    assert_eq!(post(&gateway, "/v1/responses", &next).await.status, 200);
    for (method, path, status, expected) in [
        (Method::GET, "/v1/responses/resp_1?include=a", 200, "It rains."),
        (Method::GET, "/v1/responses/resp_1/input_items?limit=2", 200, "\"list\""),
        (Method::POST, "/v1/responses/resp_1/cancel", 400, "Cannot cancel"),
        (Method::DELETE, "/v1/responses/resp_1", 200, "deleted"),
    ] {
        let got =
            send(&gateway, request(method.clone(), path, &[("authorization", "Bearer mine")], "")).await;
        assert_eq!(got.status, status, "{method} {path}: {}", got.text);
        assert!(got.text.contains(expected), "{method} {path}: {}", got.text);
        let seen = far.seen().pop().expect("a request");
        assert!(
            seen.starts_with(&format!("{method} {path} ")) && seen.to_lowercase().contains("bearer mine"),
            "{seen}"
        );
    }
    let body = json!({"model": "far/x", "input": "hi"});
    let got = post(&gateway, "/v1/responses/compact", &body).await;
    assert!(got.text.contains("response.compaction"), "{}", got.text);
    assert!(far.seen().pop().expect("a request").contains("\"model\":\"x\""));
    let counted = post(&gateway, "/v1/responses/input_tokens", &body).await.json();
    assert_eq!(counted["input_tokens"], 11);
    // The count is estimated for an upstream without such a path.
    let counted = post(&gateway, "/v1/responses/input_tokens", &body).await.json();
    assert!(counted["input_tokens"].as_u64().is_some_and(|count| count > 0), "{counted}");
    let stateful = json!({"model": "x", "input": "hi", "conversation": "conv_1", "prompt": {"id": "pmpt_1"}});
    let got = post(&gateway, "/v1/responses", &stateful).await;
    assert!(got.text.contains("Kept."), "{}", got.text);
    let seen = far.seen().pop().expect("a request");
    assert!(seen.contains("conv_1") && seen.contains("pmpt_1"), "{seen}");
}

#[tokio::test]
async fn what_only_openai_keeps_is_refused_elsewhere() {
    let far = Far::start(vec![]).await;
    for protocol in ["openai-chat", "anthropic-messages", "openai-responses"] {
        let gateway = far.gateway(&format!("protocol = \"{protocol}\""));
        for (key, value) in [("conversation", json!({"id": "conv_1"})), ("prompt", json!({"id": "pmpt_1"}))] {
            let mut body = responses("x", true);
            body[key] = value;
            let got = post(&gateway, "/v1/responses", &body).await;
            assert_eq!(
                (got.status, &got.json()["error"]["type"]),
                (400, &json!("invalid_request_error")),
                "{}",
                got.text
            );
            assert!(got.text.contains(key) && got.text.contains("\\\"far\\\""), "{}", got.text);
        }
        let got = post(&gateway, "/v1/responses/compact", &json!({"model": "x", "input": "hi"})).await;
        let is_unknown = got.status == 404 && got.json()["error"]["code"] == "unknown_url";
        assert!(is_unknown || protocol == "openai-responses", "{}", got.text);
    }
    assert!(far.seen().iter().all(|seen| seen.contains("/responses/compact")), "{:?}", far.seen());
    let mut body = responses("demo/hermes", false);
    body["conversation"] = Value::Null;
    assert_eq!(post(&gateway(""), "/v1/responses", &body).await.status, 200);
}

#[tokio::test]
async fn the_input_of_a_kept_response_is_listed_and_it_is_complete() {
    let gateway = gateway("");
    let first =
        post(&gateway, "/v1/responses", &json!({"model": "demo/hermes", "input": "one"})).await.json();
    let next = json!({"model": "demo/hermes", "previous_response_id": first["id"], "input":
        [{"role": "user", "content": "two"}, {"type": "message", "id": "msg_own", "role": "user", "content": "three"}]});
    let next = post(&gateway, "/v1/responses", &next).await.json();
    let id = next["id"].as_str().expect("an id");
    let list = |query: &'static str| {
        let path = format!("/v1/responses/{id}/input_items{query}");
        let gateway = gateway.clone();
        async move { send(&gateway, request(Method::GET, &path, &[], "")).await.json() }
    };
    let all = list("?order=asc").await;
    let kinds: Vec<_> =
        all["data"].as_array().expect("items").iter().map(|item| item["role"].clone()).collect();
    assert_eq!(kinds, ["user", "assistant", "user", "user"], "{all}");
    assert_eq!(all["data"][0]["content"][0], json!({"type": "input_text", "text": "one"}), "{all}");
    assert!(
        all["data"]
            .as_array()
            .expect("items")
            .iter()
            .all(|item| item["id"].is_string() && item["type"] == "message")
    );
    assert_eq!((&all["last_id"], &all["has_more"]), (&json!("msg_own"), &json!(false)), "{all}");
    let newest = list("?limit=1").await;
    assert_eq!(
        (&newest["data"][0]["id"], &newest["has_more"]),
        (&json!("msg_own"), &json!(true)),
        "{newest}"
    );
    let rest = list("?after=msg_own").await;
    assert_eq!(rest["data"].as_array().map(Vec::len), Some(3), "{rest}");
    let got = post(&gateway, &format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert!(got.status == 400 && got.text.contains("complete"), "{}", got.text);
    let counted =
        post(&gateway, "/v1/responses/input_tokens", &json!({"model": "demo/hermes", "input": "x"}))
            .await
            .json();
    let longer = json!({"model": "demo/hermes", "input": "x", "previous_response_id": id});
    let longer = post(&gateway, "/v1/responses/input_tokens", &longer).await.json();
    assert!(longer["input_tokens"].as_u64() > counted["input_tokens"].as_u64(), "{longer}");
    for path in ["/v1/responses/none/input_items", "/v1/responses/none"] {
        let got = send(&gateway, request(Method::GET, path, &[], "")).await;
        assert_eq!(
            (got.status, &got.json()["error"]["code"]),
            (404, &json!("response_not_found")),
            "{}",
            got.text
        );
    }
    let got = post(&gateway, "/v1/responses/none/cancel", &json!({})).await;
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (404, &json!("response_not_found")),
        "{}",
        got.text
    );
}

/// A client of the older form, from upstreams that respond in any.
#[tokio::test]
async fn clients_of_functions_get_function_calls() {
    let older = json!({"name": "look", "arguments": "{\"at\":\"sky\"}"});
    let newer = json!([{"index": 0, "id": "c1", "type": "function", "function": older},
        {"index": 1, "id": "c2", "type": "function", "function": older}]);
    let body = |is_streamed: bool| {
        json!({"model": "x", "stream": is_streamed, "messages": [{"role": "user", "content": "Look."}],
            "functions": [{"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}],
            "function_call": "auto"})
    };
    for (key, value, finish) in
        [("function_call", &older, "function_call"), ("tool_calls", &newer, "tool_calls")]
    {
        for rest in ["", "dialect = \"none\"\nrepair = false\nschema = \"off\""] {
            let message = json!({"role": "assistant", "content": null, key: value});
            let complete = json!({"id": "a", "object": "chat.completion", "choices":
                [{"index": 0, "finish_reason": finish, "message": message}]});
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]});
            let frames = [json!({"choices": [{"index": 0, "delta": {key: value}}]}), end];
            let (streamed, _) = stream(&frames, Then::Close);
            let streamed = (format!("{streamed}data: [DONE]\n\n"), Then::Close);
            let far = Far::start(vec![whole(200, &complete), streamed]).await;
            let gateway = far.gateway(rest);
            let got = post(&gateway, "/v1/chat/completions", &body(false)).await;
            let choice = got.json()["choices"][0].clone();
            assert_eq!(choice["message"]["function_call"], older, "{}", got.text);
            assert_eq!(choice["finish_reason"], "function_call", "{}", got.text);
            assert!(!got.text.contains("tool_calls"), "{}", got.text);
            let seen = &far.seen()[0];
            assert!(seen.contains("\"tools\":") && !seen.contains("\"functions\":"), "{seen}");
            let got = post(&gateway, "/v1/chat/completions", &body(true)).await;
            let frames = got.frames();
            let piece = |member: &str| -> String {
                let path = format!("/choices/0/delta/function_call/{member}");
                frames.iter().filter_map(|frame| frame.pointer(&path)?.as_str()).collect()
            };
            assert_eq!(
                (piece("name"), piece("arguments")),
                ("look".to_owned(), "{\"at\":\"sky\"}".to_owned())
            );
            assert!(
                !got.text.contains("tool_calls") && got.text.contains("\"finish_reason\":\"function_call\""),
                "{}",
                got.text
            );
        }
    }
    // Scripted models of other protocols and dialects.
    for model in ["demo/anthropic", "demo/hermes", "demo/parallel"] {
        for is_streamed in [false, true] {
            let mut body = chat(model, is_streamed);
            let function = body["tools"][0]["function"].take();
            body["functions"] = json!([function]);
            body.as_object_mut().expect("an object").remove("tools");
            let got = post(&gateway(""), "/v1/chat/completions", &body).await;
            assert_eq!(got.text.matches("\"name\":").count(), 1, "{model}: {}", got.text);
            assert!(
                got.text.contains("function_call") && !got.text.contains("tool_calls"),
                "{model}: {}",
                got.text
            );
        }
    }
}

#[tokio::test]
async fn what_is_not_served_says_what_to_do() {
    let gateway = gateway("");
    for (path, hint, pointer) in [
        ("/v1/messages/batches", "batches are not served", "/error/type"),
        ("/v1/messages/batches/b_1/results", "batches are not served", "/error/type"),
        ("/v1/conversations", "previous_response_id", "/error/code"),
        ("/v1/files", "within the request", "/error/code"),
        ("/v1beta/models/x:batchGenerateContent", "generateContent", "/error/status"),
        ("/api/pull", "upstream itself", "/error"),
    ] {
        let got = post(&gateway, path, &json!({})).await;
        assert_eq!(got.status, 404, "{path}: {}", got.text);
        assert!(got.text.contains(hint) && !got.text.contains("model_not_found"), "{path}: {}", got.text);
        assert!(got.json().pointer(pointer).is_some_and(Value::is_string), "{path}: {}", got.text);
    }
}

#[tokio::test]
async fn reasoning_comes_where_clients_look_for_it() {
    let message = json!({"role": "assistant", "content": "Hello", "reasoning_content": "I greet."});
    let complete = json!({"id": "a", "object": "chat.completion", "choices":
        [{"index": 0, "finish_reason": "stop", "message": message}]});
    let thought = json!({"choices": [{"index": 0, "delta": {"reasoning_content": "I greet."}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let (streamed, _) = stream(&[thought, said("Hello"), end], Then::Close);
    let streamed = (format!("{streamed}data: [DONE]\n\n"), Then::Close);
    let far = Far::start(vec![whole(200, &complete), streamed.clone(), streamed]).await;
    let gateway = far.gateway("");
    let body = |is_streamed: bool| json!({"model": "x", "input": "hi", "stream": is_streamed});
    let got = post(&gateway, "/v1/responses", &body(false)).await;
    let item = got.json()["output"][0].clone();
    assert_eq!(item["summary"], json!([{"type": "summary_text", "text": "I greet."}]), "{}", got.text);
    assert_eq!(got.text.matches("I greet.").count(), 1, "{}", got.text);
    let got = post(&gateway, "/v1/responses", &body(true)).await;
    for name in
        ["reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_part.done"]
    {
        assert!(got.text.contains(&format!("event: response.{name}\n")), "{name}: {}", got.text);
    }
    assert!(!got.text.contains("reasoning_text"), "{}", got.text);
    let body = json!({"model": "x", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let got = post(&gateway, "/v1/messages", &body).await;
    let frames = got.frames();
    let kinds: Vec<_> = frames.iter().filter_map(|frame| frame.pointer("/delta/type")?.as_str()).collect();
    assert_eq!(kinds, ["thinking_delta", "signature_delta", "text_delta"], "{}", got.text);
}
