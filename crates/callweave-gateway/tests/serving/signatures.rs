//! Seals of a provider come back to it through clients of other protocols.

use serde_json::{Value, json};

use crate::scripted_upstream::{Far, whole};
use crate::support::{chat, post, request, send};

const SIGNATURE: &str = "EqQBCgIYAhIkc2lnbmF0dXJl";

/// A response of Anthropic with signed reasoning and a call.
fn signed() -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "The city is Oslo.", "signature": SIGNATURE},
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo", "days": 2}}],
        "usage": {"input_tokens": 1, "output_tokens": 1}})
}

fn done() -> Value {
    json!({"type": "message", "id": "msg_2", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Sunny."}], "usage": {"input_tokens": 1, "output_tokens": 1}})
}

/// The body of the last request that an upstream got.
fn last(far: &Far) -> Value {
    let seen = far.seen();
    let (_, body) = seen.last().and_then(|text| text.split_once("\r\n\r\n")).expect("a request");
    serde_json::from_str(body).expect("JSON")
}

/// The second request of a chat client's tool loop: it has kept nothing but the call.
fn second(first: &Value, got: &Value) -> Value {
    let mut next = first.clone();
    let message = got["choices"][0]["message"].clone();
    let (call, id) = (message["tool_calls"].clone(), message["tool_calls"][0]["id"].clone());
    let messages = next["messages"].as_array_mut().expect("messages");
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": call}));
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": "sunny"}));
    next
}

fn asked() -> Value {
    let mut asked = chat("claude-sonnet-4-5", false);
    asked["reasoning_effort"] = "low".into();
    asked["max_tokens"] = 9000.into();
    asked
}

#[tokio::test]
async fn signed_reasoning_survives_a_chat_client() {
    let far = Far::start(vec![whole(200, &signed()), whole(200, &done())]).await;
    let gateway = far.gateway("protocol = \"anthropic-messages\"");
    let first = asked();
    let got = post(&gateway, "/v1/chat/completions", &first).await.json();
    let answer = post(&gateway, "/v1/chat/completions", &second(&first, &got)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let content = &last(&far)["messages"][1]["content"];
    assert_eq!(
        content[0],
        json!({"type": "thinking", "thinking": "The city is Oslo.", "signature": SIGNATURE})
    );
    assert_eq!(content[1]["type"], "tool_use");
    assert_eq!(content[1]["id"], "toolu_1");
}

#[tokio::test]
async fn another_client_and_another_upstream_get_no_seal() {
    let far = Far::start(vec![whole(200, &signed()), whole(200, &done()), whole(200, &done())]).await;
    let other = Far::start(vec![whole(200, &done())]).await;
    let config =
        format!("---\n[upstreams.other]\nbase_url = \"{}\"\nprotocol = \"anthropic-messages\"\n", other.url);
    let gateway = far.gateway(&config.replace("---\n", "---protocol = \"anthropic-messages\"\n"));
    let first = asked();
    let got = post(&gateway, "/v1/chat/completions", &first).await.json();
    let next = second(&first, &got);
    // Without its own key a client is the machine's; with one it is another client.
    let headers = [("authorization", "Bearer another-key")];
    let answer =
        send(&gateway, request(http::Method::POST, "/v1/chat/completions", &headers, &next.to_string()))
            .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(!last(&far).to_string().contains(SIGNATURE), "another client");
    let mut elsewhere = next.clone();
    elsewhere["model"] = "other/claude-sonnet-4-5".into();
    let answer = post(&gateway, "/v1/chat/completions", &elsewhere).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(!last(&other).to_string().contains(SIGNATURE), "another upstream");
    let answer = post(&gateway, "/v1/chat/completions", &next).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(last(&far).to_string().contains(SIGNATURE), "the client itself");
}

#[tokio::test]
async fn seals_ride_in_ids_where_that_is_configured() {
    let far = Far::start(vec![whole(200, &signed()), whole(200, &done())]).await;
    let config = "---protocol = \"anthropic-messages\"\nseals_in_ids = true";
    let first = asked();
    let got = post(&far.gateway(config), "/v1/chat/completions", &first).await.json();
    // A second gateway knows nothing of the first; the client has kept the text of the reasoning.
    let mut next = second(&first, &got);
    next["messages"][1]["reasoning_content"] = got["choices"][0]["message"]["reasoning_content"].clone();
    let answer = post(&far.gateway(config), "/v1/chat/completions", &next).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let content = &last(&far)["messages"][1]["content"];
    assert_eq!(content[0]["signature"], SIGNATURE);
    assert_eq!(content[1]["id"], "toolu_1", "the upstream's own id");
}
