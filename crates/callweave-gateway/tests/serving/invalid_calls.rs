//! The treatment of calls that stay invalid.

use std::sync::Arc;

use callweave_gateway::Gateway;
use serde_json::{Value, json};

use crate::scripted_upstream::{Far, Then, broken, stream, whole};
use crate::support::{Got, chat, gateway, messages, metric, post, responses};

fn demo(rest: &str) -> String {
    format!("[upstreams.demo]\nbase_url = \"demo:\"\n{rest}")
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
    let gateway = gateway(&demo("invalid = \"ask_again\"\nreask = 0"));
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

/// A response with a call of these arguments, and its usage.
fn called(arguments: &str, is_streamed: bool) -> (String, Then) {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "get_weather", "arguments": arguments}});
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = |word: &str, finish: Value| json!([{"index": 0, word: message, "finish_reason": finish}]);
    if !is_streamed {
        let choices = choice("message", json!("tool_calls"));
        return whole(
            200,
            &json!({"id": "a", "object": "chat.completion", "choices": choices, "usage": usage}),
        );
    }
    let frame = |choices: Value| json!({"id": "a", "object": "chat.completion.chunk", "choices": choices});
    let mut last = frame(json!([]));
    last["usage"] = usage;
    let end = json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]);
    let (text, then) = stream(&[frame(choice("delta", json!(null))), frame(end), last], Then::Close);
    (format!("{text}data: [DONE]\n\n"), then)
}

/// Three times, with arguments that lack something, have it of another type, and these.
fn three(last: &str, is_streamed: bool) -> Vec<(String, Then)> {
    ["{}", "{\"city\": \"Oslo\", \"days\": \"many\"}", last]
        .iter()
        .map(|arguments| called(arguments, is_streamed))
        .collect()
}

const ASKING: &str = "retries = 0\ninvalid = \"ask_again\"\nreask = 2";
const CALLS: &str = "callweave_tool_calls_total{outcome=";

/// The three clients: where each asks, what, and where its counts of tokens are.
fn clients(is_streamed: bool) -> [(&'static str, Value, [&'static str; 2]); 3] {
    let mut chat = chat("x", is_streamed);
    if is_streamed {
        chat["stream_options"] = json!({"include_usage": true});
    }
    [
        ("/v1/chat/completions", chat, ["/usage/prompt_tokens", "/usage/completion_tokens"]),
        ("/v1/messages", messages("x", is_streamed), ["/usage/input_tokens", "/usage/output_tokens"]),
        ("/v1/responses", responses("x", is_streamed), ["/usage/input_tokens", "/usage/output_tokens"]),
    ]
}

/// The largest count in a response at that path, in a complete body or anywhere in a stream.
fn told(got: &Got, path: &str) -> Option<u64> {
    let bodies = if got.text.starts_with('{') { vec![got.json()] } else { got.frames() };
    let places = [String::new(), "/response".to_owned(), "/message".to_owned()];
    let found = bodies.iter().flat_map(|body| {
        places.iter().filter_map(move |place| body.pointer(&format!("{place}{path}"))?.as_u64())
    });
    found.max()
}

async fn count(gateway: &Arc<Gateway>, outcome: &str) -> i64 {
    metric(gateway, &format!("{CALLS}\"{outcome}\"")).await
}

#[tokio::test]
async fn the_model_is_asked_as_often_as_it_takes_and_the_client_sees_the_last_answer() {
    let good = "{\"city\": \"Oslo\", \"days\": 2}";
    for is_streamed in [false, true] {
        for (path, body, [input, output]) in clients(is_streamed) {
            let far = Far::start(three(good, is_streamed)).await;
            let gateway = far.gateway(ASKING);
            let got = post(&gateway, path, &body).await;
            assert_eq!(got.status, 200, "{path}: {}", got.text);
            assert!(
                !got.text.contains("many") && !got.text.contains("cannot be run"),
                "{path}: {}",
                got.text
            );
            assert!(!got.headers.contains_key("x-callweave-invalid-calls"), "{path}");
            assert_eq!((told(&got, input), told(&got, output)), (Some(30), Some(9)), "{path}: {}", got.text);
            let seen = far.seen();
            assert_eq!(seen.len(), 3, "{path}");
            // Each time the model reads its own output, and the error in it.
            assert!(!seen[0].contains("error:") && seen[1].matches("error: ").count() == 1, "{}", seen[1]);
            assert!(seen[2].matches("error: ").count() == 2 && seen[2].contains("many"), "{}", seen[2]);
            assert!(seen[2].contains("city") && seen[2].contains("days"), "{}", seen[2]);
            assert_eq!((count(&gateway, "retried").await, count(&gateway, "native").await), (2, 1), "{path}");
            assert_eq!(metric(&gateway, "callweave_tokens_total{kind=\"output\"").await, 9, "{path}");
        }
    }
}

#[tokio::test]
async fn a_call_that_never_becomes_valid_is_passed_on_and_marked() {
    for is_streamed in [false, true] {
        for (path, body, [input, output]) in clients(is_streamed) {
            let far = Far::start(three("{\"city\": \"LAST\"}", is_streamed)).await;
            let gateway = far.gateway(ASKING);
            let got = post(&gateway, path, &body).await;
            assert_eq!((got.status, far.seen().len()), (200, 3), "{path}: {}", got.text);
            assert!(got.text.contains("LAST") && !got.text.contains("many"), "{path}: {}", got.text);
            let is_marked = match is_streamed {
                false => got.headers.get("x-callweave-invalid-calls").is_some_and(|count| count == "1"),
                true => got.text.matches(": callweave: the call ").count() == 1,
            };
            assert!(is_marked, "{path}: {}", got.text);
            assert_eq!((told(&got, input), told(&got, output)), (Some(30), Some(9)), "{path}: {}", got.text);
            assert_eq!(
                (count(&gateway, "retried").await, count(&gateway, "invalid").await),
                (2, 1),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn an_upstream_that_fails_when_asked_again_is_an_error_and_never_half_an_answer() {
    for is_streamed in [false, true] {
        for (path, body, _) in clients(is_streamed) {
            let far = Far::start(vec![called("{}", is_streamed), broken()]).await;
            let got = post(&far.gateway(ASKING), path, &body).await;
            assert!(got.text.contains("down"), "{path}: {}", got.text);
            assert!(
                !got.text.contains("get_weather") && !got.text.contains("[DONE]"),
                "{path}: {}",
                got.text
            );
            // Nothing was sent yet, so its status can be reported.
            assert_eq!(got.status, 500, "{path}: {}", got.text);
        }
    }
}
