//! The spans of the processing door, as an OpenTelemetry SDK exports them.
#![cfg(feature = "tracing")]

#[path = "support/spans.rs"]
mod spans;

use callweave::compat::prompty::{
    PromptAgent, StreamItem, process, process_async, process_bytes, process_stream,
};
use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use self::spans::recorded;

fn attribute(span: &SpanData, key: &str) -> Value {
    spans::attribute(span, key).unwrap_or_default()
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_ref()).collect()
}

/// A response full of words that may be exported only when content is captured.
fn answer() -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5-2026", "system_fingerprint": "hidden",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "hidden text",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"hidden\", \"api_key\": \"sk-1\"}"}},
                {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19,
            "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 3}}})
}

fn agent() -> PromptAgent {
    PromptAgent::new("azure").named("helper").model("gpt-5")
}

/// Returns the output of a future that never waits. (The exporter waits by an executor, which must not be nested.)
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

fn check_answer(spans: &[SpanData], name: &str) {
    assert_eq!(names(spans), [name]);
    for (key, expected) in [
        ("gen_ai.provider.name", json!("azure.ai.openai")),
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.request.model", json!("gpt-5")),
        ("gen_ai.agent.name", json!("helper")),
        ("gen_ai.response.id", json!("chatcmpl-1")),
        ("gen_ai.response.model", json!("gpt-5-2026")),
        ("gen_ai.response.finish_reasons", json!("[\"tool_calls\"]")),
        ("gen_ai.usage.input_tokens", json!(12)),
        ("gen_ai.usage.output_tokens", json!(7)),
        ("gen_ai.usage.cache_read.input_tokens", json!(4)),
        ("gen_ai.usage.reasoning.output_tokens", json!(3)),
        ("gen_ai.tool.call.id", json!("[\"call_1\",\"call_2\"]")),
        ("gen_ai.tool.name", json!("[\"weather\",\"time\"]")),
        ("signature", json!(format!("helper.{name}"))),
        ("error.type", Value::Null),
    ] {
        assert_eq!(attribute(&spans[0], key), expected, "{key}");
    }
    assert_eq!(spans[0].status, Status::Unset);
}

#[test]
fn every_call_writes_one_span() {
    let (_, spans) = recorded(|| process(&agent(), &answer()));
    check_answer(&spans, "process");
    let (_, spans) = recorded(|| now(process_async(&agent(), &answer())));
    check_answer(&spans, "process");
}

#[test]
fn a_stream_writes_one_span_with_the_same_attributes() {
    let mut chunk = answer();
    let message = chunk["choices"][0]["message"].take();
    chunk["choices"][0]["delta"] = message;
    let (items, spans) = recorded(|| {
        let chunks = [Ok::<_, String>(chunk)];
        process_stream(&agent(), chunks).expect("known").count()
    });
    assert_eq!(items, 3);
    check_answer(&spans, "PromptyStream");
    assert_eq!(attribute(&spans[0], "gen_ai.request.stream"), json!(true));
    assert_eq!(attribute(&spans[0], "result_count"), json!(1));
}

#[test]
fn operations_have_the_conventions_names() {
    let told = |provider: &str, response: Value| {
        let (_, spans) = recorded(|| process(&PromptAgent::new(provider), &response));
        let told = |key| attribute(&spans[0], key);
        json!([
            told("gen_ai.provider.name"),
            told("gen_ai.operation.name"),
            told("gen_ai.output.type"),
            told("gen_ai.response.model"),
            told("gen_ai.usage.input_tokens")
        ])
    };
    let embedding = json!({"object": "list", "model": "e", "data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 5, "total_tokens": 5}});
    assert_eq!(told("openai", embedding), json!(["openai", "embeddings", null, "e", 5]));
    let image = json!({"data": [{"url": "https://example.com"}]});
    assert_eq!(told("openai", image), json!(["openai", "generate_content", "image", null, null]));
    let gemini = json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "modelVersion": "g", "usageMetadata": {"promptTokenCount": 2}});
    assert_eq!(told("vertex", gemini), json!(["gcp.vertex_ai", "generate_content", null, "g", 2]));
    let claude = json!({"type": "message", "model": "c", "content": [], "usage": {"input_tokens": 3}});
    assert_eq!(told("anthropic", claude), json!(["anthropic", "chat", null, "c", 3]));
}

#[test]
fn content_stays_out_unless_it_is_asked_for() {
    let stream = |agent: &PromptAgent| {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "hidden", "refusal": "hidden"}}]});
        process_stream(agent, [Ok::<_, String>(chunk)]).expect("known").count()
    };
    let failed = json!({"error": {"message": "hidden", "api_key": "hidden"}});
    let (_, spans) =
        recorded(|| (process(&agent(), &answer()), process(&agent(), &failed), stream(&agent())));
    assert_eq!(names(&spans), ["process", "process", "PromptyStream"]);
    assert!(!format!("{spans:?}").contains("hidden"), "{spans:?}");
    assert!(!format!("{spans:?}").contains("sk-1"), "{spans:?}");
    let agent = agent().capturing_content();
    let (_, spans) = recorded(|| (process(&agent, &answer()), process(&agent, &failed), stream(&agent)));
    assert!(spans.iter().all(|span| format!("{span:?}").contains("hidden")), "{spans:?}");
}

#[test]
fn captured_content_has_no_secrets() {
    let (_, spans) = recorded(|| process(&agent().capturing_content(), &answer()));
    assert!(!format!("{spans:?}").contains("sk-1"), "{spans:?}");
    let told = |key: &str| -> Value {
        serde_json::from_str(attribute(&spans[0], key).as_str().expect("captured")).expect("JSON")
    };
    assert_eq!(told("inputs")["usage"]["prompt_tokens"], 12, "counts of tokens are no secrets");
    assert_eq!(told("result")[0]["arguments"], "{\"city\":\"hidden\",\"api_key\":\"[redacted]\"}");
    let message = json!([{"role": "assistant", "finish_reason": "tool_calls", "parts": [
        {"type": "text", "content": "hidden text"},
        {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "hidden", "api_key": "[redacted]"}},
        {"type": "tool_call", "id": "call_2", "name": "time", "arguments": {}}]}]);
    assert_eq!(told("gen_ai.output.messages"), message);
}

#[test]
fn an_error_is_told_by_its_kind() {
    let told = |provider: &str, response: Value| {
        let (_, spans) = recorded(|| process(&PromptAgent::new(provider), &response));
        assert_eq!(names(&spans), ["process"]);
        assert!(matches!(&spans[0].status, Status::Error { description } if description.is_empty()));
        attribute(&spans[0], "error.type")
    };
    assert_eq!(told("openai", json!({"error": {"message": "busy"}})), "upstream");
    assert_eq!(told("openai", json!({"object": "list", "data": []})), "invalid");
    assert_eq!(told("openai", json!({"odd": 1})), "unknown");
    assert_eq!(told("acme", json!({})), "unknown");
}

fn chunks() -> impl Iterator<Item = Result<Value, String>> {
    ["a", "b", "c"].into_iter().map(|text| Ok(json!({"choices": [{"index": 0, "delta": {"content": text}}]})))
}

#[test]
fn a_stream_that_is_not_read_to_its_end_writes_no_span() {
    let (_, spans) = recorded(|| process_stream(&agent(), chunks()).expect("known").take(3).count());
    assert!(spans.is_empty(), "{spans:?}");
    let (_, spans) = recorded(|| {
        let mut items = process_stream(&agent(), chunks()).expect("known");
        while items.next().is_some() {}
        assert!(items.next().is_none() && items.next().is_none(), "asking again changes nothing");
    });
    assert_eq!(names(&spans), ["PromptyStream"]);
    assert_eq!(attribute(&spans[0], "result_count"), json!(3));
    assert_eq!(attribute(&spans[0], "result"), Value::Null);
}

#[test]
fn a_captured_stream_tells_the_providers_chunks() {
    let agent = agent().capturing_content();
    let (_, spans) = recorded(|| process_stream(&agent, chunks()).expect("known").count());
    let expected: Value = chunks().map(|chunk| chunk.expect("a chunk")).collect();
    assert_eq!(attribute(&spans[0], "result"), expected.to_string());
    assert_eq!(attribute(&spans[0], "inputs"), "None");
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let (_, spans) = recorded(|| process_bytes(&agent, [Ok::<_, String>(body)]).expect("known").count());
    assert_eq!(attribute(&spans[0], "result"), json!([body]).to_string());
}

#[test]
fn a_stream_that_breaks_off_has_ended() {
    let broken = chunks().take(1).chain([Err("reset".to_owned())]);
    let (_, spans) = recorded(|| process_stream(&agent(), broken).expect("known").count());
    assert_eq!(names(&spans), ["PromptyStream"]);
    assert_eq!(attribute(&spans[0], "error.type"), "io");
}

#[test]
fn spans_stand_below_the_callers() {
    let (_, spans) = recorded(|| tracing::info_span!("turn").in_scope(|| process(&agent(), &answer())));
    assert_eq!(names(&spans), ["process", "turn"]);
    assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
}

struct Failing;

impl<S: tracing::Subscriber> Layer<S> for Failing {
    fn on_new_span(&self, _: &tracing::span::Attributes<'_>, _: &tracing::span::Id, _: Context<'_, S>) {
        panic!("no new span");
    }
}

struct FailingLater;

impl<S: tracing::Subscriber> Layer<S> for FailingLater {
    fn on_record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>, _: Context<'_, S>) {
        panic!("no record");
    }

    fn on_close(&self, _: tracing::span::Id, _: Context<'_, S>) {
        panic!("no end");
    }
}

#[test]
fn a_failing_subscriber_changes_nothing() {
    let results = || {
        let items: Vec<Result<StreamItem, _>> = process_stream(&agent(), chunks()).expect("known").collect();
        (process(&agent(), &answer()), now(process_async(&agent(), &answer())), items)
    };
    let alone = spans::alone();
    let expected = results();
    let guard = tracing_subscriber::registry().with(Failing).set_default();
    assert_eq!(results(), expected);
    drop(guard);
    let guard = tracing_subscriber::registry().with(FailingLater).set_default();
    assert_eq!(results(), expected);
    drop(guard);
    drop(alone);
    let (again, spans) = recorded(results);
    assert_eq!((again, spans.len()), (expected, 3));
}
