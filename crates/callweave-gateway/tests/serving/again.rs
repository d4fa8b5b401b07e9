//! What is done with calls that stay invalid.

use serde_json::json;

use crate::support::{chat, gateway, messages, metric, post, responses};

fn demo(rest: &str) -> String {
    format!("[upstreams.demo]\nurl = \"demo:\"\n{rest}")
}

#[tokio::test]
async fn the_model_is_asked_again_and_the_client_sees_only_the_good_answer() {
    let gateway = gateway(&demo("invalid = \"ask_again\""));
    for is_streamed in [false, true] {
        let got = post(&gateway, "/v1/chat/completions", &chat("demo/lacking-once", is_streamed)).await;
        let arguments = match is_streamed {
            true => got.arguments(),
            false => {
                let body = got.json();
                let call = &body["choices"][0]["message"]["tool_calls"];
                assert_eq!(call.as_array().map(Vec::len), Some(1), "{}", got.text);
                call[0]["function"]["arguments"].as_str().unwrap_or_default().to_owned()
            }
        };
        let arguments: serde_json::Value = serde_json::from_str(&arguments).expect("JSON");
        assert!(arguments["city"].is_string() && arguments["days"].is_i64(), "{}", got.text);
    }
    assert_eq!(metric(&gateway, "callweave_tool_calls_total{outcome=\"retried\"").await, 2);
    assert_eq!(metric(&gateway, "callweave_tool_calls_total{outcome=\"native\"").await, 2);
    let got = post(&gateway, "/v1/messages", &messages("demo/lacking-once", false)).await;
    assert_eq!(got.json()["stop_reason"], "tool_use", "{}", got.text);
    let got = post(&gateway, "/v1/responses", &responses("demo/lacking-once", true)).await;
    assert_eq!(got.text.matches("event: response.output_item.added").count(), 1, "{}", got.text);
}

#[tokio::test]
async fn the_tokens_of_all_answers_are_counted() {
    let again = gateway(&demo("invalid = \"ask_again\""));
    let once = gateway("");
    let body = chat("demo/lacking-once", false);
    let both = post(&again, "/v1/chat/completions", &body).await.json();
    let first = post(&once, "/v1/chat/completions", &body).await.json();
    let tokens = |body: &serde_json::Value| body["usage"]["completion_tokens"].as_u64().expect("a count");
    assert!(tokens(&both) > tokens(&first), "{both} {first}");
}

#[tokio::test]
async fn asking_again_has_an_end() {
    let gateway = gateway(&demo("invalid = \"ask_again\"\nask_again = 0"));
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/lacking-once", false)).await;
    assert_eq!(got.json()["choices"][0]["finish_reason"], "tool_calls", "{}", got.text);
    assert_eq!(metric(&gateway, "callweave_tool_calls_total{outcome=\"retried\"").await, 0);
    assert_eq!(metric(&gateway, "callweave_tool_calls_total{outcome=\"invalid\"").await, 1);
}

#[tokio::test]
async fn an_invalid_call_can_be_an_error() {
    let gateway = gateway(&demo("invalid = \"error\""));
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/lacking-arguments", false)).await;
    assert_eq!(got.status, 502, "{}", got.text);
    let got = post(&gateway, "/v1/messages", &messages("demo/lacking-arguments", true)).await;
    assert!(got.text.contains("\"type\":\"error\"") && !got.text.contains("message_stop"), "{}", got.text);
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/openai-chat", true)).await;
    assert!(got.arguments().contains("Oslo"), "{}", got.text);
}

#[tokio::test]
async fn an_invalid_call_is_marked_where_it_is_passed_on() {
    let gateway = gateway("");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/lacking-arguments", false)).await;
    assert_eq!(got.headers["x-callweave-invalid-calls"], "1", "{}", got.text);
    let got = post(&gateway, "/v1/messages", &messages("demo/lacking-arguments", true)).await;
    assert_eq!(got.text.matches("\n: callweave: the call ").count(), 1, "{}", got.text);
    let got = post(&gateway, "/v1/messages", &messages("demo/anthropic", true)).await;
    assert!(!got.text.contains(": callweave"), "{}", got.text);
}

#[tokio::test]
async fn a_truncated_call_is_never_whole() {
    let gateway = gateway("");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/truncated", true)).await;
    assert!(serde_json::from_str::<serde_json::Value>(&got.arguments()).is_err(), "{}", got.text);
    assert!(got.text.contains("\"finish_reason\":\"length\""), "{}", got.text);
    let got = post(&gateway, "/v1/messages", &messages("demo/truncated", false)).await;
    assert_eq!(got.json()["stop_reason"], json!("max_tokens"), "{}", got.text);
}

#[tokio::test]
async fn a_model_without_tools_is_told_of_them_in_words() {
    let folder = std::env::temp_dir().join(format!("callweave-taught-{}", std::process::id()));
    let record = format!("record = {:?}\n", folder.display().to_string());
    let gateway = gateway(&format!("{record}{}", demo("tools = \"prompt\"\ndialect = \"hermes\"")));
    let got = post(&gateway, "/v1/messages", &messages("demo/hermes", false)).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let sent = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let sent = sent.filter(|path| path.extension().is_some_and(|own| own == "json"));
    let body: String = sent.map(|path| std::fs::read_to_string(path).expect("readable")).collect();
    std::fs::remove_dir_all(&folder).expect("removable");
    assert!(body.contains("<tool_call>") && body.contains("get_weather"), "{body}");
    assert!(!body.contains("\"tools\":"), "{body}");
}
