//! Requests that are passed through to an upstream that supports them.

use http::Method;
use serde_json::json;

use crate::scripted_upstream::{Far, PAUSE, Then, whole};
use crate::support::{gateway, messages, post, request, send};

#[tokio::test]
async fn completions_are_passed_through_streamed_and_whole() {
    let frames = "data: {\"choices\":[{\"text\":\"a\",\"own\":1}]}\n\ndata: [DONE]\n\n";
    let streamed =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r7\r\n\r\n{frames}");
    let body = json!({"object": "text_completion", "choices": [{"text": "a"}], "own": [1.50]});
    let far = Far::start(vec![(streamed, Then::Close), whole(200, &body)]).await;
    let gateway = far.gateway("");
    let asked = json!({"model": "x", "prompt": "a", "stream": true}).to_string();
    let headers = [("authorization", "Bearer mine"), ("openai-organization", "org"), ("cookie", "c")];
    let got = send(&gateway, request(Method::POST, "/v1/completions", &headers, &asked)).await;
    assert_eq!((got.status, got.text.as_str()), (200, frames));
    assert_eq!(
        (&got.headers["content-type"], &got.headers["x-request-id"]),
        (&"text/event-stream".parse().expect("a header"), &"r7".parse().expect("a header"))
    );
    let seen = far.seen()[0].to_lowercase();
    assert!(seen.starts_with("post /v1/completions ") && seen.ends_with(&asked), "{seen}");
    assert!(
        seen.contains("authorization: bearer mine") && seen.contains("openai-organization: org"),
        "{seen}"
    );
    assert!(seen.contains("traceparent: 00-") && !seen.contains("cookie"), "{seen}");
    let got = post(&gateway, "/v1/completions", &json!({"model": "x", "prompt": "a"})).await;
    assert_eq!(got.json(), body);
}

#[tokio::test]
async fn errors_of_what_is_passed_through_keep_their_status_and_their_wait() {
    let answer = "HTTP/1.1 429 X\r\ncontent-type: application/json\r\nretry-after: 3\r\nx-request-id: r8\r\ncontent-length: 34\r\n\r\n{\"error\":{\"message\":\"slow, please\"}}";
    let answer = answer.replace("content-length: 34", "content-length: 36");
    let far = Far::start(vec![(answer, Then::Close)]).await;
    let got = post(&far.gateway(""), "/v1/embeddings", &json!({"model": "x", "input": "a"})).await;
    assert_eq!((got.status, got.json()["error"]["message"].as_str()), (429, Some("slow, please")));
    assert_eq!(
        (&got.headers["retry-after"], &got.headers["x-request-id"]),
        (&"3".parse().expect("a header"), &"r8".parse().expect("a header"))
    );
    let nobody = gateway("default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"http://127.0.0.1:9\"");
    let got = post(&nobody, "/v1/embeddings", &json!({"model": "x", "input": "a"})).await;
    assert_eq!((got.status, got.json()["error"]["message"].is_string()), (502, true), "{}", got.text);
}

#[tokio::test]
async fn what_is_passed_through_has_an_end_too() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n";
    let far = Far::start(vec![(head.to_owned(), Then::Hang)]).await;
    let gateway = far.gateway("[timeouts]\nidle = 0.2");
    let body = json!({"model": "x", "prompt": "a", "stream": true}).to_string();
    let response = gateway.handle(request(Method::POST, "/v1/completions", &[], &body)).await;
    let mut body = response.into_body();
    let read = async { while let Some(Ok(_)) = http_body_util::BodyExt::frame(&mut body).await {} };
    tokio::time::timeout(std::time::Duration::from_secs(5), read).await.expect("an end");
    assert!(far.is_left().await);
}

#[tokio::test]
async fn whoever_can_count_counts() {
    let counted = json!({"totalTokens": 31});
    let refused = json!({"error": {"code": 429, "message": "later", "status": "RESOURCE_EXHAUSTED"}});
    let far = Far::start(vec![whole(200, &counted), whole(429, &refused)]).await;
    let gateway = far.gateway("protocol = \"gemini-generatecontent\"");
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let got = post(&gateway, "/v1beta/models/far/x:countTokens", &body).await;
    assert_eq!(got.json()["totalTokens"], 31, "{}", got.text);
    assert!(far.seen()[0].starts_with("POST /v1beta/models/x:countTokens"), "{}", far.seen()[0]);
    let got = post(&gateway, "/v1beta/models/far/x:countTokens", &body).await;
    assert_eq!((got.status, &got.json()["error"]["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    // An upstream that cannot count is not asked, and the estimate follows the length.
    let silent = Far::start(vec![(PAUSE.to_string(), Then::Hang)]).await;
    let gateway = silent.gateway("");
    let count = |text: &str| {
        let mut body = messages("x", false);
        body["messages"][0]["content"] = json!(text);
        body
    };
    let short = post(&gateway, "/v1/messages/count_tokens", &count("")).await.json();
    let long = post(&gateway, "/v1/messages/count_tokens", &count(&"word ".repeat(800))).await.json();
    let tokens = |body: &serde_json::Value| body["input_tokens"].as_u64().expect("a count");
    assert_eq!(tokens(&long) - tokens(&short), 1000);
    assert_eq!(silent.seen().len(), 0);
}
