//! Responses that clients refer to.

use http::Method;
use serde_json::json;

use crate::support::{gateway, get, post, request, responses, send};

#[tokio::test]
async fn a_conversation_goes_on_from_a_kept_answer() {
    let gateway = gateway("");
    for is_streamed in [false, true] {
        let got = post(&gateway, "/v1/responses", &responses("demo/hermes", is_streamed)).await;
        let body = match is_streamed {
            false => got.json(),
            true => got.frames().last().expect("a frame")["response"].clone(),
        };
        let id = body["id"].as_str().expect("an id");
        let call = body["output"].as_array().and_then(|all| all.last()).expect("a call");
        let next = json!({"model": "demo/hermes", "previous_response_id": id,
            "input": [{"type": "function_call_output", "call_id": call["call_id"], "output": "rain and wind"}]});
        let got = post(&gateway, "/v1/responses", &next).await;
        assert!(got.text.contains("rain and wind"), "{}", got.text);
        let again = got.json()["id"].as_str().expect("an id").to_owned();
        assert_ne!(again, id);
        assert_eq!(got.json()["previous_response_id"], id, "{}", got.text);
        assert_eq!(body["previous_response_id"], json!(null), "{body}");
        let kept = get(&gateway, &format!("/v1/responses/{again}")).await;
        assert_eq!(kept.json()["previous_response_id"], id, "{}", kept.text);
        let third = json!({"model": "demo/hermes", "previous_response_id": again, "input": "Thanks"});
        assert_eq!(post(&gateway, "/v1/responses", &third).await.status, 200);
        assert_eq!(get(&gateway, &format!("/v1/responses/{id}")).await.json()["id"], id);
    }
}

#[tokio::test]
async fn what_is_not_kept_cannot_be_referred_to() {
    let gateway = gateway("");
    let mut body = responses("demo/hermes", false);
    body["store"] = json!(false);
    let id = post(&gateway, "/v1/responses", &body).await.json()["id"].as_str().expect("an id").to_owned();
    let next = json!({"model": "demo/hermes", "previous_response_id": id, "input": "and?"});
    let got = post(&gateway, "/v1/responses", &next).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
}

#[tokio::test]
async fn answers_are_kept_for_their_client_alone() {
    let gateway = gateway("");
    let body = responses("demo/hermes", false).to_string();
    let as_client =
        |key, method, path: &str, body: &str| request(method, path, &[("authorization", key)], body);
    let got = send(&gateway, as_client("Bearer one", Method::POST, "/v1/responses", &body)).await;
    let path = format!("/v1/responses/{}", got.json()["id"].as_str().expect("an id"));
    assert_eq!(send(&gateway, as_client("Bearer two", Method::GET, &path, "")).await.status, 404);
    assert_eq!(send(&gateway, as_client("Bearer one", Method::GET, &path, "")).await.status, 200);
    assert_eq!(send(&gateway, as_client("Bearer one", Method::DELETE, &path, "")).await.status, 200);
    assert_eq!(send(&gateway, as_client("Bearer one", Method::GET, &path, "")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_referred_to_for_so_long_and_by_its_client_alone() {
    let gateway = gateway("[store]\nexpiry = 60");
    let ask = |key: &'static str, body: serde_json::Value| {
        send(&gateway, request(Method::POST, "/v1/responses", &[("authorization", key)], &body.to_string()))
    };
    let got = ask("Bearer one", responses("demo/hermes", false)).await;
    let id = got.json()["id"].as_str().expect("an id").to_owned();
    let next = json!({"model": "demo/hermes", "previous_response_id": id, "input": "and?"});
    tokio::time::advance(std::time::Duration::from_secs(59)).await;
    assert_eq!(ask("Bearer one", next.clone()).await.status, 200);
    for is_streamed in [false, true] {
        let mut next = next.clone();
        next["stream"] = json!(is_streamed);
        let got = ask("Bearer two", next).await;
        assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
    }
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    let got = ask("Bearer one", next).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
}
