//! Any client, any model.

use http::Method;
use serde_json::json;

use crate::support::{chat, gateway, get, listening, messages, metric, post, request, responses, send};

const MODELS: [&str; 8] =
    ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "cohere", "hermes", "broken-json"];

#[tokio::test]
async fn every_client_gets_its_call_from_every_model() {
    let gateway = gateway("");
    for model in MODELS.map(|model| format!("demo/{model}")) {
        let got = post(&gateway, "/v1/chat/completions", &chat(&model, false)).await;
        let choice = &got.json()["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{model}: {}", got.text);
        assert_eq!(choice["message"]["content"], json!(null), "{model}");
        let arguments = choice["message"]["tool_calls"][0]["function"]["arguments"].as_str();
        let arguments: serde_json::Value = serde_json::from_str(arguments.expect("a text")).expect("JSON");
        assert_eq!(arguments["city"], "Oslo", "{model}");

        let got = post(&gateway, "/v1/chat/completions", &chat(&model, true)).await;
        let streamed: serde_json::Value = serde_json::from_str(&got.arguments()).expect("JSON");
        assert_eq!(streamed, arguments, "{model}");
        assert!(got.text.ends_with("data: [DONE]\n\n"), "{model}: {}", got.text);

        let got = post(&gateway, "/v1/messages?beta=true", &messages(&model, false)).await;
        let body = got.json();
        let call =
            body["content"].as_array().and_then(|all| all.iter().find(|part| part["type"] == "tool_use"));
        assert_eq!(call.map(|call| &call["input"]), Some(&arguments), "{model}: {}", got.text);
        assert_eq!(body["stop_reason"], "tool_use", "{model}");

        let got = post(&gateway, "/v1/messages", &messages(&model, true)).await;
        assert!(got.text.contains("\"stop_reason\":\"tool_use\""), "{model}: {}", got.text);
        assert!(got.text.contains("event: message_stop"), "{model}: {}", got.text);

        let got = post(&gateway, "/v1/responses", &responses(&model, false)).await;
        let body = got.json();
        let call =
            body["output"].as_array().and_then(|all| all.iter().find(|item| item["type"] == "function_call"));
        assert_eq!(call.map(|call| &call["name"]), Some(&json!("get_weather")), "{model}: {}", got.text);

        let got = post(&gateway, "/v1/responses", &responses(&model, true)).await;
        assert!(got.text.contains("event: response.completed"), "{model}: {}", got.text);
    }
}

#[tokio::test]
async fn gemini_and_ollama_clients_are_served() {
    let gateway = gateway("");
    let schema = json!({"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]});
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}],
        "tools": [{"functionDeclarations": [{"name": "get_weather", "parameters": schema}]}]});
    let path = "/v1beta/models/demo/hermes:generateContent";
    let got = post(&gateway, path, &body).await;
    assert_eq!(got.json()["candidates"][0]["content"]["parts"][0]["functionCall"]["name"], "get_weather");
    let path = "/v1beta/models/demo/hermes:streamGenerateContent";
    let got = post(&gateway, &format!("{path}?alt=sse"), &body).await;
    assert!(got.frames().iter().any(|frame| {
        frame.pointer("/candidates/0/content/parts/0/functionCall/name") == Some(&json!("get_weather"))
    }));
    let got = post(&gateway, path, &body).await;
    assert!(got.json().is_array(), "{}", got.text);

    let body = json!({"model": "demo/hermes", "messages": [{"role": "user", "content": "Weather in Oslo?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": crate::support::schema()}}]});
    let got = post(&gateway, "/api/chat", &body).await;
    let lines: Vec<serde_json::Value> =
        got.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines.last().map(|line| &line["done"]), Some(&json!(true)));
    assert!(
        lines.iter().any(|line| line["message"]["tool_calls"][0]["function"]["arguments"]["city"] == "Oslo")
    );
}

#[tokio::test]
async fn models_are_listed_in_each_clients_shape() {
    let gateway = gateway("");
    let got = get(&gateway, "/v1/models").await.json();
    assert!(got["data"].as_array().expect("a list").iter().any(|model| model["id"] == "demo/hermes"));
    let anthropic = request(Method::GET, "/v1/models", &[("anthropic-version", "2023-06-01")], "");
    let got = send(&gateway, anthropic).await.json();
    assert_eq!((&got["data"][0]["type"], &got["has_more"]), (&json!("model"), &json!(false)));
    let got = get(&gateway, "/v1beta/models").await.json();
    assert!(got["models"][0]["name"].as_str().is_some_and(|name| name.starts_with("models/demo/")));
    let got = get(&gateway, "/api/tags").await.json();
    assert!(got["models"][0]["model"].as_str().is_some_and(|name| name.starts_with("demo/")));
    assert_eq!(get(&gateway, "/v1/models/demo/hermes").await.json()["id"], "demo/hermes");
    assert_eq!(get(&gateway, "/v1/models/none").await.status, 404);
    assert!(get(&gateway, "/api/version").await.json()["version"].is_string());
    let got = post(&gateway, "/api/show", &json!({"model": "demo/hermes"})).await.json();
    assert_eq!(got["capabilities"], json!(["completion", "tools"]));
}

#[tokio::test]
async fn errors_have_the_clients_own_shape_and_keep_their_status() {
    let gateway = gateway("[upstreams.demo]\nbase_url = \"demo:\"\nretries = 0");
    for (model, status) in
        [("status-400", 400), ("status-401", 401), ("status-429", 429), ("status-500", 500)]
    {
        let model = format!("demo/{model}");
        for is_streamed in [false, true] {
            let got = post(&gateway, "/v1/chat/completions", &chat(&model, is_streamed)).await;
            assert_eq!(got.status, status, "{}", got.text);
            assert!(got.json()["error"]["message"].is_string(), "{}", got.text);
            let got = post(&gateway, "/v1/messages", &messages(&model, is_streamed)).await;
            assert_eq!((got.status, &got.json()["type"]), (status, &json!("error")), "{}", got.text);
            if status == 429 {
                assert_eq!(got.json()["error"]["type"], "rate_limit_error");
                assert_eq!(got.headers["retry-after"], "7");
            }
            assert!(got.headers.contains_key("x-request-id"));
        }
    }
    let got = post(&gateway, "/api/chat", &chat("demo/status-500", false)).await;
    assert_eq!((got.status, got.json()["error"].is_string()), (500, true), "{}", got.text);
    let asked = json!({"contents": [{"parts": [{"text": "hi"}]}]});
    let got = post(&gateway, "/v1beta/models/demo/status-429:generateContent", &asked).await;
    assert_eq!(got.json()["error"]["status"], "RESOURCE_EXHAUSTED", "{}", got.text);
    let got = post(&gateway, "/v1/messages", &messages("demo/none", false)).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (404, &json!("not_found_error")));
    let broken = request(Method::POST, "/v1/messages", &[], "{");
    let got = send(&gateway, broken).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (400, &json!("invalid_request_error")));
}

#[tokio::test]
async fn tokens_are_estimated_where_nobody_counts() {
    let gateway = gateway("");
    let got = post(&gateway, "/v1/messages/count_tokens?beta=true", &messages("demo/hermes", false)).await;
    assert!(
        got.json()["input_tokens"].as_u64().is_some_and(|count| (20..200).contains(&count)),
        "{}",
        got.text
    );
}

#[tokio::test]
async fn text_is_parsed_for_whoever_has_asked_the_model_already() {
    let gateway = gateway("");
    let text = "Sure. <tool_call>{'name': 'look', 'arguments': {'times': '3'}}</tool_call>";
    let tools = json!([{"name": "look", "parameters": {"properties": {"times": {"type": "integer"}}}}]);
    let got = post(&gateway, "/v1/tools/parse", &json!({"text": text, "tools": tools})).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert!(
        got.text.contains("look") && got.text.contains("\"times\\\": 3") || got.text.contains("\"times\":3"),
        "{}",
        got.text
    );
    let got = post(&gateway, "/v1/tools/parse", &json!({"text": text, "dialect": "klingon"})).await;
    assert_eq!(got.status, 400);
}

#[tokio::test]
async fn calls_are_counted_by_what_became_of_them() {
    let gateway = gateway("");
    for (model, outcome) in [
        ("openai-chat", "native"),
        ("hermes", "from_text"),
        ("broken-json", "repaired"),
        ("wrong-types", "coerced"),
        ("lacking-arguments", "invalid"),
        ("truncated", "truncated"),
    ] {
        for is_streamed in [false, true] {
            post(&gateway, "/v1/chat/completions", &chat(&format!("demo/{model}"), is_streamed)).await;
        }
        let name = format!("callweave_tool_calls_total{{outcome=\"{outcome}\"");
        assert_eq!(metric(&gateway, &name).await, 2, "{model}");
    }
    assert_eq!(metric(&gateway, "callweave_streams_active").await, 0);
}

#[tokio::test]
async fn an_upstream_over_http_is_asked_in_its_protocol() {
    let behind = listening(gateway("listen = \"127.0.0.1:0\"")).await;
    for protocol in
        ["openai-chat", "openai-responses", "anthropic-messages", "gemini-generatecontent", "ollama"]
    {
        let config = format!(
            "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{behind}\"\nprotocol = \"{protocol}\""
        );
        let gateway = gateway(&config);
        let got = post(&gateway, "/v1/chat/completions", &chat("far/demo/hermes", true)).await;
        assert!(got.arguments().contains("Oslo"), "{protocol}: {}", got.text);
        let got = post(&gateway, "/v1/messages", &messages("far/demo/anthropic", false)).await;
        assert_eq!(got.json()["stop_reason"], "tool_use", "{protocol}: {}", got.text);
    }
}

#[tokio::test]
async fn bytes_stay_as_they_are_where_nothing_is_to_be_done() {
    let row = "[[models]]\nname = \"x\"\nupstream = \"demo\"\nmodel = \"wrong-types\"";
    let behind = gateway(&format!("listen = \"127.0.0.1:0\"\n{row}"));
    let far = listening(behind.clone()).await;
    let plain = format!(
        "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{far}\"\ndialect = \"none\"\nrepair = false\nschema = \"off\""
    );
    let gateway = gateway(&plain);
    for is_streamed in [false, true] {
        let got = post(&gateway, "/v1/chat/completions", &chat("x", is_streamed)).await;
        let own = post(&behind, "/v1/chat/completions", &chat("x", is_streamed)).await;
        let without_time = |text: &str| {
            text.split("\"created\":")
                .map(|part| part.trim_start_matches(char::is_numeric).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(without_time(&got.text), without_time(&own.text));
    }
    assert_eq!(metric(&gateway, "callweave_tool_calls_total{outcome=\"native\"").await, 2);
}

#[tokio::test]
async fn made_ids_of_calls_never_come_again() {
    let gateway = gateway("");
    let mut seen = std::collections::HashSet::new();
    for model in ["demo/no-ids", "demo/hermes", "demo/qwen3-coder"] {
        for is_streamed in [false, true] {
            for _ in 0..3 {
                let got = post(&gateway, "/v1/chat/completions", &chat(model, is_streamed)).await;
                let bodies = if is_streamed { got.frames() } else { vec![got.json()] };
                let calls = bodies.iter().filter_map(|body| {
                    let choice = body["choices"].get(0)?;
                    choice
                        .pointer("/message/tool_calls")
                        .or_else(|| choice.pointer("/delta/tool_calls"))?
                        .as_array()
                });
                let ids: Vec<_> = calls.flatten().filter_map(|call| call["id"].as_str()).collect();
                assert!(!ids.is_empty(), "{model}: {}", got.text);
                for id in ids {
                    assert!(seen.insert(id.to_owned()), "{model}: {id} comes again");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_the_gateway_takes_is_measured() {
    let gateway = gateway("");
    for is_streamed in [false, true] {
        post(&gateway, "/v1/messages", &messages("demo/hermes", is_streamed)).await;
    }
    for name in ["request_added", "first_token"] {
        assert_eq!(metric(&gateway, &format!("callweave_{name}_seconds_count")).await, 2, "{name}");
    }
    assert!(metric(&gateway, "callweave_chunk_added_seconds_count").await > 2);
    for kind in ["input", "output"] {
        assert!(metric(&gateway, &format!("callweave_tokens_total{{kind=\"{kind}\"")).await > 0, "{kind}");
    }
}
