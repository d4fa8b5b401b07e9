//! While a model is silent: signs of life, in each client's way.

use http::Method;
use serde_json::{Value, json};

use crate::scripted_upstream::{Far, PAUSE, Then, answered, broken, said, stream};
use crate::support::{chat, gateway, messages, next, post, request, responses};

const COMMENT: &str = ": keep-alive\n\n";

/// The model is silent for 22 seconds after its first words.
#[tokio::test(start_paused = true)]
async fn silence_in_mid_answer_is_bridged_in_each_clients_way() {
    let gateway = gateway("[timeouts]\nkeep_alive = 5");
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}]});
    for (path, body, sign) in [
        ("/v1/chat/completions", chat("demo/silence", true), COMMENT),
        ("/v1/responses", responses("demo/silence", true), COMMENT),
        ("/v1/messages", messages("demo/silence", true), "event: ping\ndata: {\"type\": \"ping\"}\n\n"),
    ] {
        let got = post(&gateway, path, &body).await;
        assert_eq!(got.text.matches(sign).count(), 4, "{path}: {}", got.text);
        assert!(got.text.find(sign) > got.text.find("data: "), "{path}: before the first word");
        assert!(got.frames().iter().all(Value::is_object), "{path}");
    }
    // Google's clients take a comment for a broken response: they get the ends of lines.
    let path = "/v1beta/models/demo/silence:streamGenerateContent?alt=sse";
    let got = post(&gateway, path, &contents).await;
    assert!(got.text.contains(&"\n".repeat(2 + 4)) && !got.text.contains("\n:"), "{}", got.text);
    assert!(got.frames().iter().all(Value::is_object));
    // Here clients know no word that means nothing.
    let path = "/v1beta/models/demo/silence:streamGenerateContent";
    assert!(post(&gateway, path, &contents).await.json().is_array());
    let got = post(&gateway, "/api/chat", &chat("demo/silence", true)).await;
    assert!(got.text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", got.text);
}

/// The first piece of a response.
async fn first(
    gateway: &std::sync::Arc<callweave_gateway::Gateway>,
    path: &str,
    body: &Value,
) -> (String, String) {
    let response = gateway.handle(request(Method::POST, path, &[], &body.to_string())).await;
    assert_eq!(
        (response.status(), &response.headers()["content-type"]),
        (http::StatusCode::OK, &http::HeaderValue::from_static("text/event-stream"))
    );
    let mut body = response.into_body();
    let first = next(&mut body).await.expect("a piece");
    let mut rest = String::new();
    while let Some(piece) = next(&mut body).await {
        rest += &piece;
    }
    (first, rest)
}

#[tokio::test]
async fn silence_before_the_answer_is_bridged() {
    for (path, body, end) in [
        ("/v1/chat/completions", chat("x", true), "[DONE]"),
        ("/v1/messages", messages("x", true), "message_stop"),
        ("/v1/responses", responses("x", true), "response.completed"),
    ] {
        let frames =
            [said("Here."), json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})];
        let (answer, _) = stream(&frames, Then::Close);
        let far = Far::start(vec![(format!("{PAUSE}{answer}data: [DONE]\n\n"), Then::Close)]).await;
        let gateway = far.gateway("[timeouts]\nkeep_alive = 0.1");
        let (first, rest) = first(&gateway, path, &body).await;
        assert_eq!(first, COMMENT, "{path}");
        assert!(rest.contains("Here.") && rest.contains(end), "{path}: {rest}");
    }
}

#[tokio::test]
async fn a_failure_after_long_silence_is_told_in_the_stream() {
    for (path, body, word, end) in [
        ("/v1/chat/completions", chat("x", true), "\"error\":{\"message\":\"down\"", "[DONE]"),
        ("/v1/messages", messages("x", true), "event: error\n", "message_stop"),
        ("/v1/responses", responses("x", true), "response.failed", "response.completed"),
    ] {
        let far = Far::start(vec![(format!("{PAUSE}{}", broken().0), Then::Close)]).await;
        let gateway = far.gateway("retries = 0\n[timeouts]\nkeep_alive = 0.1");
        let (first, rest) = first(&gateway, path, &body).await;
        assert_eq!(first, COMMENT, "{path}");
        assert!(rest.contains(word) && rest.contains("down") && !rest.contains(end), "{path}: {rest}");
    }
}

#[tokio::test]
async fn who_wants_a_whole_answer_gets_its_status_however_long_it_takes() {
    let (answer, then) = crate::scripted_upstream::whole(200, &answered("here"));
    let far =
        Far::start(vec![(format!("{PAUSE}{answer}"), then), (format!("{PAUSE}{}", broken().0), then)]).await;
    let gateway = far.gateway("retries = 0\n[timeouts]\nkeep_alive = 0.1");
    let got = post(&gateway, "/v1/chat/completions", &chat("x", false)).await;
    assert!(got.text.contains("here"), "{}", got.text);
    assert_eq!(post(&gateway, "/v1/chat/completions", &chat("x", false)).await.status, 500);
}
