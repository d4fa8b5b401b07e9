//! Every wait for an upstream has an end, and what was paid is not bought again.

use http::Method;
use serde_json::{Value, json};

use crate::scripted_upstream::{Far, PAUSE, Then, answered, broken, said, stream, whole};
use crate::support::{chat, gateway, get, messages, metric, next, post, request, responses};

/// An error whose body stops in the middle.
fn stalled(status: u16) -> (String, Then) {
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n");
    (format!("{head}{{\"error\":"), Then::Hang)
}

/// A response that comes a little at a time, and never ends.
fn trickling(head: &str, piece: &str) -> (String, Then) {
    let pause = PAUSE.to_string();
    (format!("HTTP/1.1 {head}\r\n\r\n{}", [piece; 5].join(&pause)), Then::Hang)
}

#[tokio::test]
async fn an_error_that_stops_in_the_middle_is_tried_again() {
    for is_streamed in [true, false] {
        let answer = match is_streamed {
            true => stream(
                &[said("here"), json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})],
                Then::Close,
            ),
            false => whole(200, &answered("here")),
        };
        let far = Far::start(vec![stalled(500), answer]).await;
        let gateway = far.gateway("retries = 1\n[timeouts]\nidle = 0.1");
        let got = post(&gateway, "/v1/chat/completions", &chat("x", is_streamed)).await;
        assert!(got.text.contains("here"), "{}", got.text);
        assert_eq!(far.seen().len(), 2);
    }
}

#[tokio::test]
async fn an_error_that_never_ends_has_its_status_and_the_next_is_asked() {
    let bodies = [
        ("/v1/chat/completions", chat("x", false)),
        ("/v1/chat/completions", chat("x", true)),
        ("/v1/messages", messages("x", true)),
        ("/v1/responses", responses("x", false)),
        ("/api/chat", chat("x", true)),
    ];
    for (path, body) in bodies {
        for answer in [stalled(400), trickling("400 X\r\ncontent-type: text/plain", " ")] {
            let far = Far::start(vec![answer]).await;
            let got = post(&far.gateway("[timeouts]\nidle = 0.4"), path, &body).await;
            assert_eq!(got.status, 400, "{path}: {}", got.text);
            assert!(got.json().get("error").is_some(), "{path}: {}", got.text);
            assert!(
                got.text.contains("\\\"far\\\" (model \\\"x\\\" at http://127.0.0.1:"),
                "{path}: {}",
                got.text
            );
            assert!(got.text.contains("status 400 and did not send the rest"), "{path}: {}", got.text);
        }
    }
    let (first, second) =
        (Far::start(vec![stalled(503)]).await, Far::start(vec![whole(200, &answered("other"))]).await);
    let config = format!(
        "[upstreams.a]\nbase_url = \"{}\"\nretries = 0\n[upstreams.b]\nbase_url = \"{}\"\n[[models]]\nname = \"m\"\nupstream = \"a\"\nfallbacks = [\"b/x\"]\n[timeouts]\nidle = 0.1",
        first.url, second.url
    );
    let got = post(&gateway(&config), "/v1/chat/completions", &chat("m", false)).await;
    assert!(got.text.contains("other"), "{}", got.text);
}

#[tokio::test]
async fn counts_and_what_passes_through_end_too() {
    let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"input";
    let far = Far::start(vec![(head.to_owned(), Then::Hang), whole(200, &json!(null)), stalled(401)]).await;
    let counting = far.gateway("protocol = \"anthropic-messages\"\n[timeouts]\nidle = 0.1");
    let got = post(&counting, "/v1/messages/count_tokens", &messages("x", false)).await;
    assert_eq!((got.status, &got.json()["type"]), (504, &json!("error")), "{}", got.text);
    let cut = "HTTP/1.1 200 X\r\ncontent-length: 8\r\n\r\n{\"input_".to_owned();
    let far = Far::start(vec![(cut, Then::Close), stalled(401)]).await;
    let counting = far.gateway("protocol = \"anthropic-messages\"\n[timeouts]\nidle = 0.1");
    let got = post(&counting, "/v1/messages/count_tokens", &messages("x", false)).await;
    assert_eq!((got.status, &got.json()["type"]), (502, &json!("error")), "{}", got.text);
    let gateway = far.gateway("[timeouts]\nidle = 0.1");
    let got = post(&gateway, "/v1/embeddings", &json!({"model": "x", "input": "a"})).await;
    assert_eq!(got.status, 401, "{}", got.text);
    assert!(got.json()["error"]["message"].is_string(), "{}", got.text);
    assert_eq!(metric(&gateway, "callweave_streams_active").await, 0);
}

/// Neither silence nor trouble: it just never ends.
#[tokio::test]
async fn an_answer_has_an_end_in_all() {
    let config = "[timeouts]\nresponse = 0.7\nidle = 5";
    let endless =
        || trickling("200 X\r\ncontent-type: text/event-stream", &format!("data: {}\n\n", said("on ")));
    for (path, body, word) in [
        ("/v1/chat/completions", chat("x", true), "\"error\":{"),
        ("/v1/messages", messages("x", true), "event: error"),
        ("/api/chat", chat("x", true), "\"error\":\""),
    ] {
        let far = Far::start(vec![endless()]).await;
        let got = post(&far.gateway(config), path, &body).await;
        assert!(got.text.contains("on ") && got.text.contains(word), "{path}: {}", got.text);
        assert!(got.text.contains("end of its answer within 0.7 s"), "{path}: {}", got.text);
        assert!(far.is_left().await);
    }
    let far = Far::start(vec![trickling("200 X\r\ncontent-type: application/json", " ")]).await;
    let got = post(&far.gateway(config), "/v1/messages", &messages("x", false)).await;
    assert_eq!((got.status, &got.json()["type"]), (504, &json!("error")), "{}", got.text);
    // And while nothing has begun.
    let far = Far::start(vec![(String::new(), Then::Hang)]).await;
    let got =
        post(&far.gateway("[timeouts]\nresponse = 0.2"), "/v1/chat/completions", &chat("x", false)).await;
    assert_eq!(got.status, 504, "{}", got.text);
    // And where nobody reads what comes.
    let far = Far::start(vec![trickling("200 X\r\ncontent-type: application/json", " ")]).await;
    let embedding = json!({"model": "x", "input": "a"}).to_string();
    let response = far.gateway(config).handle(request(Method::POST, "/v1/embeddings", &[], &embedding)).await;
    let mut body = response.into_body();
    let read =
        async { while http_body_util::BodyExt::frame(&mut body).await.is_some_and(|frame| frame.is_ok()) {} };
    read.await;
    assert!(far.is_left().await);
}

#[tokio::test]
async fn what_was_answered_is_not_bought_again() {
    let cut = answered("half of it").to_string();
    let cut = &cut[..cut.len() - 20];
    let head = |length| {
        format!("HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
    };
    let answers = [
        (format!("{}{cut}", head(cut.len())), Then::Close),
        (format!("{}{cut}", head(cut.len() + 50)), Then::Close),
        (format!("{}{}", head(3000), " ".repeat(3000)), Then::Close),
        ("HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n".to_owned(), Then::Close),
    ];
    for (answer, then) in answers {
        for (key, times) in [("", 1), ("retry_broken = true", 3)] {
            let far = Far::start(vec![(answer.clone(), then); 5]).await;
            let gateway = far.gateway(&format!("{key}\n[limits]\nresponse = 2000"));
            let got = post(&gateway, "/v1/chat/completions", &chat("x", false)).await;
            assert_eq!((got.status, far.seen().len()), (502, times), "{answer}: {}", got.text);
        }
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_not_asked_without_end() {
    let far = Far::start(vec![broken(); 100]).await;
    // The retries that were saved up, and a fifth of the requests.
    let gateway = far.gateway("retries = 1\nretry_share = 0.2");
    for _ in 0..5 {
        let asking = (0..6).map(|_| {
            let gateway = gateway.clone();
            tokio::spawn(
                async move { post(&gateway, "/v1/chat/completions", &chat("x", false)).await.status },
            )
        });
        for asking in asking.collect::<Vec<_>>() {
            assert_eq!(asking.await.expect("no panic"), 500);
        }
    }
    let tries = metric(&gateway, "callweave_retries_total").await;
    assert!((10..=16).contains(&tries), "{tries}");
}

#[tokio::test]
async fn upstreams_are_asked_for_their_models_at_the_same_time() {
    let list = |name: &str| {
        let (answer, then) = whole(200, &json!({"object": "list", "data": [{"id": name}]}));
        (format!("{PAUSE}{answer}"), then)
    };
    // Each waits until all have been asked.
    let mut config = String::new();
    let mut fars = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        let far = Far::start(vec![list(name)]).await;
        config += &format!("[upstreams.{name}]\nbase_url = \"{}\"\n", far.url);
        fars.push(far);
    }
    let gateway = gateway(&config);
    let listing = tokio::spawn(async move { get(&gateway, "/v1/models").await });
    while fars.iter().any(|far| far.seen().is_empty()) {
        assert!(!listing.is_finished(), "one after the other");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Nobody has answered yet: the first that was asked is still silent when the last is.
    assert!(!listing.is_finished());
    let got = listing.await.expect("no panic").json();
    let names: Vec<&Value> =
        got["data"].as_array().expect("a list").iter().map(|model| &model["id"]).collect();
    let at = |name: &str| names.iter().position(|own| **own == json!(name));
    assert!(at("a/a").is_some() && at("a/a") < at("b/b") && at("i/i") < at("j/j"), "{names:?}");
}

/// Comments of an upstream do not replace the client's keep-alives.
#[tokio::test]
async fn comments_of_the_upstream_put_off_no_ping() {
    let comment = ": still here\n\n";
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let (answer, _) = stream(&[said("Here")], Then::Close);
    let pauses = format!("{PAUSE}{comment}").repeat(6);
    let far =
        Far::start(vec![(format!("{answer}{pauses}data: {end}\n\ndata: [DONE]\n\n"), Then::Close)]).await;
    let gateway = far.gateway("[timeouts]\nkeep_alive = 0.5");
    let body = chat("x", true).to_string();
    let response = gateway.handle(request(Method::POST, "/v1/chat/completions", &[], &body)).await;
    let mut body = response.into_body();
    let mut text = String::new();
    while let Some(piece) = next(&mut body).await {
        text += &piece;
    }
    assert!(text.matches(": keep-alive").count() >= 2, "{text}");
}
