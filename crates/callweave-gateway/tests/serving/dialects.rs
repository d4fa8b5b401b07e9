//! The reading of responses: the dialect, and the treatment of schemas.

use serde_json::{Value, json};

use crate::scripted_upstream::{Far, answered, whole};
use crate::support::{chat, gateway, metric, post};

const HERMES: &str =
    "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 1}}</tool_call>";
const QWEN: &str = "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n1\n</parameter>\n</function>\n</tool_call>";
const MISTRAL: &str = "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\", \"days\": 1}";

/// Whether the client gets a call of what the model writes.
async fn is_call(dialect: &str, model: &str, written: &str) -> bool {
    let far = Far::start(vec![whole(200, &answered(written))]).await;
    let gateway = far.gateway(&format!("dialect = \"{dialect}\""));
    let got = post(&gateway, "/v1/chat/completions", &chat(model, false)).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let message = &got.json()["choices"][0]["message"];
    let is_call = message["tool_calls"][0]["function"]["name"] == "get_weather";
    // Text that is not taken for a call is left in the text.
    assert!(is_call || message["content"].as_str() == Some(written), "{}", got.text);
    is_call
}

#[tokio::test]
async fn a_named_dialect_is_read_besides_all_others() {
    for (dialect, written, expected) in [
        ("auto", HERMES, true),
        ("auto", QWEN, true),
        ("auto", MISTRAL, true),
        ("hermes", HERMES, true),
        ("hermes", MISTRAL, true),
        ("qwen3_coder", QWEN, true),
        ("qwen3_coder", MISTRAL, true),
        ("none", HERMES, false),
        ("none", QWEN, false),
    ] {
        assert_eq!(is_call(dialect, "x", written).await, expected, "{dialect} {written}");
    }
}

#[tokio::test]
async fn the_dialect_of_a_model_is_read_besides_all_others() {
    for (model, written, expected) in [
        ("NousResearch/Hermes-3-Llama-3.1-8B", HERMES, true),
        ("NousResearch/Hermes-3-Llama-3.1-8B", MISTRAL, true),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", QWEN, true),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", MISTRAL, true),
        // Of whose dialect nobody knows is read in all of them.
        ("somebody/own-model", HERMES, true),
        ("somebody/own-model", MISTRAL, true),
    ] {
        assert_eq!(is_call("model", model, written).await, expected, "{model} {written}");
    }
}

#[tokio::test]
async fn thoughts_stay_where_they_are_wanted_in_every_dialect() {
    for dialect in ["auto", "hermes", "model"] {
        for (reasoning, is_apart) in [("", true), ("reasoning = false", false)] {
            let text = format!("<think>Hm.</think>{HERMES}");
            let far = Far::start(vec![whole(200, &answered(&text))]).await;
            let gateway = far.gateway(&format!("dialect = \"{dialect}\"\n{reasoning}"));
            let got = post(&gateway, "/v1/chat/completions", &chat("Hermes-3-Llama", false)).await;
            let message = &got.json()["choices"][0]["message"];
            assert_eq!(
                message["tool_calls"][0]["function"]["name"], "get_weather",
                "{dialect}: {}",
                got.text
            );
            assert_eq!(message["reasoning_content"].is_string(), is_apart, "{dialect}: {}", got.text);
            let text = message["content"].as_str().unwrap_or_default();
            assert_eq!(text.contains("<think>Hm.</think>"), !is_apart, "{dialect}: {}", got.text);
        }
    }
}

#[tokio::test]
async fn schemas_are_fitted_or_checked_or_nothing_at_all() {
    for (schema, days, marked, outcome) in [
        ("coerce", json!(1), None, "coerced"),
        ("validate", json!("1"), Some("1"), "invalid"),
        ("off", json!("1"), None, "native"),
    ] {
        let gateway = gateway(&format!("[upstreams.demo]\nbase_url = \"demo:\"\nschema = \"{schema}\""));
        for is_streamed in [false, true] {
            let got = post(&gateway, "/v1/chat/completions", &chat("demo/wrong-types", is_streamed)).await;
            let arguments = match is_streamed {
                true => got.arguments(),
                false => {
                    let mark =
                        got.headers.get("x-callweave-invalid-calls").and_then(|mark| mark.to_str().ok());
                    assert_eq!(mark, marked, "{schema}: {}", got.text);
                    let call = &got.json()["choices"][0]["message"]["tool_calls"][0];
                    call["function"]["arguments"].as_str().expect("a text").to_owned()
                }
            };
            let arguments: Value = serde_json::from_str(&arguments).expect("JSON");
            assert_eq!(arguments["days"], days, "{schema}: {}", got.text);
            let is_marked = got.text.contains("\n: callweave: the call ");
            assert_eq!(is_marked, is_streamed && marked.is_some(), "{schema}: {}", got.text);
        }
        let name = format!("callweave_tool_calls_total{{outcome=\"{outcome}\"");
        assert_eq!(metric(&gateway, &name).await, 2, "{schema}");
    }
}
