//! Schemas that strangers write cost a bounded amount of work; a call that would take more is passed on unchecked.

use serde_json::{Map, Value, json};

use crate::client;
use crate::support::{Got, address, gateway, get, metric, post};

const OPEN: &str = "listen = \"127.0.0.1:0\"";

/// A schema in which each definition is made of the next, twice.
fn doubled(word: &str, levels: usize, end: Value) -> Value {
    let next = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
    let mut defs: Map<String, Value> =
        (0..levels).map(|at| (format!("d{at}"), json!({word: [next(at), next(at)]}))).collect();
    defs.insert(format!("d{levels}"), end);
    json!({"type": "object", "$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}})
}

fn hostile() -> Vec<(&'static str, Value)> {
    let long = |make: &dyn Fn(usize) -> Value| {
        let defs: Map<String, Value> = (0..20_000).map(|at| (format!("d{at}"), make(at))).collect();
        json!({"$id": "http://h/r", "$defs": defs, "properties": {"a": {"$ref": "i0"}}})
    };
    vec![
        ("allOf", doubled("allOf", 40, json!({"type": "string"}))),
        ("anyOf", doubled("anyOf", 24, json!({"type": "integer", "minimum": 5}))),
        ("oneOf", doubled("oneOf", 40, json!({"type": "integer"}))),
        ("ids", long(&|at| json!({"$id": format!("i{at}"), "$ref": format!("i{}", at + 1)}))),
        ("enum", json!({"properties": {"a": {"enum": (0..100_000).collect::<Vec<_>>()}}})),
        ("pattern", json!({"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}})),
    ]
}

fn calling(schema: &Value) -> Value {
    json!({"model": "demo/openai-chat", "messages": [{"role": "user", "content": "call f {\"a\":\"x\"}"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]})
}

fn arguments(got: &Got) -> String {
    let call = got.json().pointer("/choices/0/message/tool_calls/0/function/arguments").cloned();
    call.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_else(|| panic!("{}", got.text))
}

#[tokio::test]
async fn calls_are_passed_on_unchecked_and_counted_so() {
    let gateway = gateway(OPEN);
    for (at, (name, schema)) in (1..).zip(hostile()) {
        let got = post(&gateway, "/v1/chat/completions", &calling(&schema)).await;
        assert_eq!(
            (got.status, arguments(&got).replace(' ', "")),
            (200, "{\"a\":\"x\"}".to_owned()),
            "{name}"
        );
        let unchecked = metric(&gateway, "callweave_tool_calls_total{outcome=\"unchecked\"").await;
        assert_eq!(unchecked, at, "{name}: {}", get(&gateway, "/metrics").await.text);
    }
    let all = metric(&gateway, "callweave_tool_calls_total").await;
    assert_eq!(all, hostile().len() as i64);
}

#[tokio::test]
async fn what_is_parsed_says_that_it_is_unchecked() {
    for (name, schema) in hostile() {
        let text = r#"<tool_call>{"name":"f","arguments":{"a":"x"}}</tool_call>"#;
        let body = json!({"text": text, "tools": [{"name": "f", "parameters": schema}]});
        let got = post(&gateway(OPEN), "/v1/tools/parse", &body).await;
        assert_eq!(got.status, 200, "{name}");
        let notices = got.json()["notices"].clone();
        let codes = notices.as_array().into_iter().flatten().map(|notice| notice["code"].clone());
        assert_eq!(codes.collect::<Vec<_>>(), ["unchecked"], "{name}: {}", got.text);
    }
}

/// Three of them, whose clients leave at once, keep nobody else from being answered.
#[tokio::test]
async fn the_gateway_answers_others_meanwhile() {
    let server = address(gateway(OPEN)).await;
    for (_, schema) in hostile().into_iter().take(3) {
        let body = calling(&schema).to_string();
        let ask = tokio::spawn(async move {
            client::ask(server, "POST", "/v1/chat/completions", &[], body.as_bytes()).await
        });
        tokio::task::yield_now().await;
        ask.abort();
    }
    assert_eq!(client::ask(server, "GET", "/healthz", &[], b"").await.status, 200);
}

#[tokio::test]
async fn the_budget_is_configured() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let invalid = "callweave_tool_calls_total{outcome=\"invalid\"";
    let unchecked = "callweave_tool_calls_total{outcome=\"unchecked\"";
    let usual = gateway(OPEN);
    post(&usual, "/v1/chat/completions", &calling(&schema)).await;
    assert_eq!((metric(&usual, invalid).await, metric(&usual, unchecked).await), (1, 0));
    let scarce = gateway(&format!("{OPEN}\n[limits]\nschema_steps = 5"));
    post(&scarce, "/v1/chat/completions", &calling(&schema)).await;
    assert_eq!((metric(&scarce, invalid).await, metric(&scarce, unchecked).await), (0, 1));
}

/// Scripted models fill arguments by schemas, and strangers write those too.
#[tokio::test]
async fn scripted_arguments_are_bounded() {
    let wide = |levels: usize| {
        let next = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
        let properties = |at: usize| (0..30).map(|own| (format!("p{own}"), next(at))).collect::<Map<_, _>>();
        let all: Vec<String> = (0..30).map(|own| format!("p{own}")).collect();
        let mut defs: Map<String, Value> = (0..levels)
            .map(|at| (format!("d{at}"), json!({"properties": properties(at), "required": all})))
            .collect();
        defs.insert(format!("d{levels}"), json!({"type": "string", "minLength": 1_000_000_000_000u64}));
        json!({"$defs": defs, "type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "required": ["a"]})
    };
    let mut body = calling(&wide(6));
    body["messages"][0]["content"] = json!("Weather in Oslo?");
    let got = post(&gateway(OPEN), "/v1/chat/completions", &body).await;
    assert_eq!(got.status, 200);
    assert!(got.text.len() < 30_000_000, "{} bytes", got.text.len());
}
