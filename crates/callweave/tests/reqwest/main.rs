//! The layer for reqwest, between clients as people have them and an upstream on loopback.

mod upstream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use async_openai::middleware::retry::OpenAIRetryLayer;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, CreateChatCompletionRequest, CreateChatCompletionResponse, FinishReason,
};
use callweave::exchange::store::{ExchangeStore, StoreScope, StoredResponse};
use callweave::exchange::{ExchangeEngine, ExchangePolicy, InvalidCalls, SchemaMode, SharedState, StopMode};
use callweave::protocol::{ANTHROPIC_MESSAGES, CODEX_APP_SERVER, OLLAMA, OPENAI_CHAT};
use callweave::request::{TurnKey, TurnStore};
use callweave::reqwest::{ExchangeLayer, ExchangeService};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _, service_fn};
use upstream::{Piece, Reply, Upstream};

/// A call as a model writes it into its text: not quite JSON.
const CALL: &str =
    "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'Oslo', 'days': '2'}}</tool_call>";

/// The call's arguments after the argument stage.
fn arguments() -> Value {
    json!({"city": "Oslo", "days": 2})
}

/// The body of a client's request.
fn asked() -> Value {
    json!({
        "model": "m",
        "messages": [{"role": "user", "content": "The weather in Oslo?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }}}],
    })
}

fn streamed() -> Value {
    let mut asked = asked();
    asked["stream"] = json!(true);
    asked
}

/// A chat completion with a text.
fn completion(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    let body = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    });
    Reply::new(200).header("content-type", "application/json").text(body.to_string())
}

/// A chunk of a streamed chat completion.
fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice],
    });
    format!("data: {chunk}\n\n")
}

fn text_chunk(text: &str) -> String {
    chunk(&json!({"content": text}), None)
}

fn end_of_chat() -> String {
    chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n"
}

fn event_stream() -> Reply {
    Reply::new(200).header("content-type", "text/event-stream")
}

/// Every dialect, repair and coercion.
fn policy() -> ExchangePolicy {
    ExchangePolicy::default()
}

/// An async-openai client whose requests go through the layer.
fn openai(upstream: &Upstream, policy: ExchangePolicy, retries: usize) -> async_openai::Client<OpenAIConfig> {
    let service = ExchangeService::new(reqwest::Client::new(), policy).expect("a policy");
    let service = service_fn(move |request: HttpRequestFactory| {
        let service = service.clone();
        async move { Ok::<_, OpenAIError>(service.execute(request.build().await?).await?) }
    });
    let config = OpenAIConfig::new().with_api_base(format!("{}/v1", upstream.url)).with_api_key("sk-client");
    async_openai::Client::with_config(config).with_http_service(OpenAIRetryLayer::new(retries).layer(service))
}

fn chat_request(body: Value) -> CreateChatCompletionRequest {
    serde_json::from_value(body).expect("a request")
}

/// The name and the arguments of the only call.
fn only_call(response: &CreateChatCompletionResponse) -> (String, Value) {
    let calls = response.choices[0].message.tool_calls.as_deref().expect("calls");
    let [ChatCompletionMessageToolCalls::Function(call)] = calls else { panic!("{calls:?}") };
    let arguments = serde_json::from_str(&call.function.arguments).expect("JSON");
    (call.function.name.clone(), arguments)
}

/// A request of a program that has only reqwest.
fn post(upstream: &Upstream, path: &str, body: &Value) -> reqwest::Request {
    reqwest::Client::new()
        .post(format!("{}{path}", upstream.url))
        .bearer_auth("sk-client")
        .header("content-type", "application/json")
        .body(body.to_string())
        .build()
        .expect("a request")
}

fn service(policy: ExchangePolicy) -> ExchangeService {
    ExchangeService::new(reqwest::Client::new(), policy).expect("a policy")
}

#[tokio::test]
async fn async_openai_gets_a_call_of_a_model_that_writes_text() {
    let upstream = Upstream::serve([completion(&format!("I look.\n{CALL}"))]).await;
    let response =
        openai(&upstream, policy(), 0).chat().create(chat_request(asked())).await.expect("a response");
    assert_eq!(only_call(&response), ("get_weather".to_owned(), arguments()));
    assert_eq!(response.choices[0].finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(response.choices[0].message.content.as_deref().map(str::trim), Some("I look."));
    assert_eq!(response.usage.expect("the usage").total_tokens, 3);

    let seen = upstream.only();
    assert_eq!(seen.line, "POST /v1/chat/completions");
    assert_eq!(seen.json(), asked());
    assert_eq!(seen.header("authorization").as_deref(), Some("Bearer sk-client"));
    assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
}

#[tokio::test]
async fn async_openai_follows_a_stream_while_it_comes() {
    let reply = event_stream()
        .text(chunk(&json!({"role": "assistant", "content": ""}), None))
        .text(text_chunk("I look. "))
        .piece(Piece::Gate)
        .text(text_chunk(&CALL[..20]))
        .text(text_chunk(&CALL[20..]))
        .text(end_of_chat());
    let upstream = Upstream::serve([reply]).await;
    let client = openai(&upstream, policy(), 0);
    let mut stream = client.chat().create_stream(chat_request(streamed())).await.expect("a stream");
    let (mut text, mut name, mut arguments_text, mut finish) =
        (String::new(), String::new(), String::new(), None);
    while let Some(chunk) = stream.next().await {
        for choice in chunk.expect("a chunk").choices {
            text.push_str(choice.delta.content.as_deref().unwrap_or_default());
            for call in choice.delta.tool_calls.unwrap_or_default() {
                let function = call.function.expect("a function");
                name.push_str(function.name.as_deref().unwrap_or_default());
                arguments_text.push_str(function.arguments.as_deref().unwrap_or_default());
            }
            finish = finish.or(choice.finish_reason);
        }
        // The upstream goes on only when the first text is here: a stream that waits for its end never comes to it.
        if text.trim() == "I look." && name.is_empty() {
            upstream.open_gate();
        }
    }
    assert_eq!((text.trim(), name.as_str()), ("I look.", "get_weather"));
    assert_eq!(serde_json::from_str::<Value>(&arguments_text).expect("JSON"), arguments());
    assert_eq!(finish, Some(FinishReason::ToolCalls));
}

#[tokio::test]
async fn a_program_with_reqwest_alone_gets_the_same() {
    let upstream = Upstream::serve([completion(CALL), completion(CALL)]).await;
    let request = || post(&upstream, "/v1/chat/completions", &asked());
    let own_url = request().url().clone();
    // By the service itself, and as a layer among others of tower's.
    let executed = service(policy()).execute(request()).await.expect("a response");
    let layered = ServiceBuilder::new()
        .layer(ExchangeLayer::new(policy()).expect("a policy"))
        .service(reqwest::Client::new())
        .oneshot(request())
        .await
        .expect("a response");
    for response in [executed, layered] {
        assert_eq!((response.status().as_u16(), response.url()), (200, &own_url));
        assert_eq!(response.headers()["content-type"], "application/json");
        let body: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
        let call = &body["choices"][0]["message"]["tool_calls"][0]["function"];
        let text = call["arguments"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), arguments(), "{body}");
    }
}

/// A message of Anthropic's with a text.
fn anthropic_message(text: &str) -> Reply {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    });
    Reply::new(200).header("request-id", "req_1").text(body.to_string())
}

#[tokio::test]
async fn a_chat_client_may_have_an_upstream_of_anthropics() {
    let upstream = Upstream::serve([anthropic_message(CALL)]).await;
    let mut policy = policy();
    policy.protocol = Some(&ANTHROPIC_MESSAGES);
    policy.base_url = format!("{}/anthropic", upstream.url);
    let mut asked = asked();
    asked["max_completion_tokens"] = json!(100);
    let response = openai(&upstream, policy, 0).chat().create(chat_request(asked)).await.expect("a response");
    assert_eq!(only_call(&response), ("get_weather".to_owned(), arguments()));

    let seen = upstream.only();
    assert_eq!(seen.line, "POST /anthropic/v1/messages");
    assert_eq!(seen.header("x-api-key").as_deref(), Some("sk-client"));
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("anthropic-version").as_deref(), Some("2023-06-01"));
    assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
    let body = seen.json();
    assert_eq!(
        (&body["max_tokens"], &body["tools"][0]["name"]),
        (&json!(100), &json!("get_weather")),
        "{body}"
    );
}

#[tokio::test]
async fn a_stream_of_anthropics_is_a_chat_clients() {
    let event =
        |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
    let delta = |text: &str| {
        event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        )
    };
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    let reply = event_stream()
        .text(event(json!({"type": "message_start", "message": message})))
        .text(event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})))
        .text(delta(&CALL[..30]))
        .text(delta(&CALL[30..]))
        .text(event(json!({"type": "content_block_stop", "index": 0})))
        .text(event(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}})))
        .text(event(json!({"type": "message_stop"})));
    let upstream = Upstream::serve([reply]).await;
    let mut policy = policy();
    policy.protocol = Some(&ANTHROPIC_MESSAGES);
    // Without a base URL it is another path of the same server.
    let client = openai(&upstream, policy, 0);
    let mut stream = client.chat().create_stream(chat_request(streamed())).await.expect("a stream");
    let mut text = String::new();
    while let Some(chunk) = stream.next().await {
        for choice in chunk.expect("a chunk").choices {
            for call in choice.delta.tool_calls.unwrap_or_default() {
                text.push_str(
                    call.function.and_then(|function| function.arguments).as_deref().unwrap_or_default(),
                );
            }
        }
    }
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), arguments());
    assert_eq!(upstream.only().line, "POST /v1/messages");
    assert_eq!(upstream.only().json()["stream"], json!(true));
}

#[tokio::test]
async fn another_protocol_of_the_same_server_has_its_own_path() {
    let body = json!({"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": true});
    let upstream = Upstream::serve([Reply::new(200).text(body.to_string())]).await;
    let mut policy = policy();
    policy.protocol = Some(&OLLAMA);
    let request = post(&upstream, "/behind/v1/chat/completions?api-version=1", &asked());
    let response = service(policy).execute(request).await.expect("a response");
    let body: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
    assert_eq!(body["choices"][0]["message"]["content"], "Hi");
    assert_eq!(upstream.only().line, "POST /behind/api/chat");
}

/// Clients of every protocol, streaming and not, over an upstream of Chat's.
#[tokio::test]
async fn clients_of_every_protocol_are_served() {
    let parameters = asked()["tools"][0]["function"]["parameters"].clone();
    let question = "The weather in Oslo?";
    let user = json!([{"role": "user", "content": question}]);
    let tool = json!({"name": "get_weather", "parameters": parameters});
    let typed = json!({"type": "function", "name": "get_weather", "parameters": parameters});
    let gemini = json!({
        "contents": [{"role": "user", "parts": [{"text": question}]}],
        "tools": [{"functionDeclarations": [tool]}],
    });
    let responses = |stream| json!({"model": "m", "input": question, "tools": [typed], "stream": stream});
    let messages = |stream| {
        let tool = json!({"name": "get_weather", "input_schema": parameters});
        json!({"model": "m", "max_tokens": 9, "messages": user, "tools": [tool], "stream": stream})
    };
    let ollama =
        |stream| json!({"model": "m", "messages": user, "tools": asked()["tools"], "stream": stream});
    let (json_type, sse) = ("application/json", "text/event-stream");
    for (path, body, is_streamed, content_type, end) in [
        ("/v1/responses", responses(false), false, json_type, "\"completed\""),
        ("/v1/responses", responses(true), true, sse, "event: response.completed"),
        ("/v1/messages", messages(false), false, json_type, "\"tool_use\""),
        ("/v1/messages", messages(true), true, sse, "event: message_stop"),
        ("/v1beta/models/m:generateContent", gemini.clone(), false, json_type, "functionCall"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini.clone(), true, sse, "data: "),
        ("/v1beta/models/m:streamGenerateContent", gemini.clone(), true, json_type, "]"),
        ("/api/chat", ollama(false), false, json_type, "\"done\":true"),
        ("/api/chat", ollama(true), true, "application/x-ndjson", "\"done\":true"),
    ] {
        let reply = match is_streamed {
            true => {
                event_stream().text(text_chunk(&CALL[..9])).text(text_chunk(&CALL[9..])).text(end_of_chat())
            }
            false => completion(CALL),
        };
        let upstream = Upstream::serve([reply]).await;
        let mut policy = policy();
        policy.protocol = Some(&OPENAI_CHAT);
        policy.base_url.clone_from(&upstream.url);
        let mut request = post(&upstream, path, &body);
        request.headers_mut().remove("authorization");
        request.headers_mut().insert("x-goog-api-key", "sk-client".parse().expect("a value"));
        let response = service(policy).execute(request).await.expect("a response");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &content_type.parse().expect("a value"))
        );
        let text = response.text().await.expect("a body");
        for part in ["get_weather", "Oslo", end] {
            assert!(text.contains(part), "{path} has no {part}: {text}");
        }
        assert!(!text.contains("tool_call>"), "{path}: {text}");
        let seen = upstream.only();
        assert_eq!(seen.line, "POST /v1/chat/completions");
        assert_eq!(seen.json()["stream"].as_bool().unwrap_or(false), is_streamed, "{path}");
        assert_eq!(
            seen.headers("authorization", "x-goog-api-key"),
            ("Bearer sk-client".into(), String::new())
        );
    }
}

/// The body of an error as OpenAI has it.
const LIMIT: &str = r#"{"error": {"message": "Slow down.", "type": "requests", "param": null, "code": "rate_limit_exceeded"}}"#;

#[tokio::test]
async fn a_refusal_reaches_async_openai_with_its_status() {
    for protocol in [None, Some(&ANTHROPIC_MESSAGES)] {
        let body = match protocol {
            None => LIMIT,
            Some(_) => r#"{"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}"#,
        };
        let upstream = Upstream::serve([Reply::new(429).text(body)]).await;
        let mut policy = policy();
        policy.protocol = protocol;
        let refused = openai(&upstream, policy, 0).chat().create(chat_request(asked())).await;
        let Err(OpenAIError::ApiError(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.status_code.as_u16(), 429);
        assert_eq!(error.api_error.message, "Slow down.");
        assert_eq!(upstream.seen().len(), 1, "nobody but the client tries again");
    }
}

#[tokio::test]
async fn retries_of_async_openai_stay_its_own() {
    let refusal = Reply::new(429).header("retry-after", "0").text(LIMIT);
    let upstream = Upstream::serve([refusal, completion(CALL)]).await;
    let response =
        openai(&upstream, policy(), 1).chat().create(chat_request(asked())).await.expect("a response");
    assert_eq!(only_call(&response).1, arguments());
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn headers_that_concern_the_client_come_through() {
    let reply = || [("x-ratelimit-remaining-requests", "7"), ("x-request-id", "req_1"), ("retry-after", "3")];
    let with =
        |reply_: Reply| reply().into_iter().fold(reply_, |reply, (name, value)| reply.header(name, value));
    let secret = "set-cookie";
    let upstream = Upstream::serve([
        with(Reply::new(429).text(LIMIT)).header(secret, "a=b"),
        with(completion(CALL)).header(secret, "a=b"),
        with(event_stream().text(text_chunk("Hi")).text(end_of_chat())).header(secret, "a=b"),
    ])
    .await;
    for (body, status) in [(asked(), 429), (asked(), 200), (streamed(), 200)] {
        let request = post(&upstream, "/v1/chat/completions", &body);
        let response = service(policy()).execute(request).await.expect("a response");
        assert_eq!(response.status().as_u16(), status);
        for (name, value) in reply() {
            let own: Vec<_> = response.headers().get_all(name).iter().collect();
            assert_eq!(own, [value], "{name} of a response with status {status}");
        }
        assert_eq!(response.headers().get(secret), None);
    }
}

#[tokio::test]
async fn the_upstream_sees_a_client_that_leaves() {
    let reply = || event_stream().text(text_chunk("I look. ")).piece(Piece::Hold);
    let silent = event_stream().piece(Piece::Hold);
    let upstream = Upstream::serve([reply(), reply(), silent]).await;

    // In the middle of a stream, by async-openai and by reqwest.
    let client = openai(&upstream, policy(), 0);
    let mut stream = client.chat().create_stream(chat_request(streamed())).await.expect("a stream");
    stream.next().await.expect("a chunk").expect("a chunk");
    drop(stream);
    upstream.client_left().await;

    let request = post(&upstream, "/v1/chat/completions", &streamed());
    let mut response = service(policy()).execute(request).await.expect("a response");
    response.chunk().await.expect("a stream").expect("bytes");
    drop(response);
    upstream.client_left().await;

    // Before the stream has begun.
    let waiting =
        tokio::spawn(service(policy()).execute(post(&upstream, "/v1/chat/completions", &streamed())));
    while upstream.seen().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    waiting.abort();
    upstream.client_left().await;
}

#[tokio::test]
async fn a_response_ends_after_its_calls_if_the_policy_says_so() {
    for mode in [StopMode::First, StopMode::All] {
        for body in [asked(), streamed()] {
            let upstream = Upstream::serve([event_stream().text(text_chunk(CALL)).piece(Piece::Hold)]).await;
            let mut policy = policy();
            policy.stop.is_on = Some(true);
            policy.stop.mode = Some(mode);
            policy.stop.grace_ms = Some(1);
            let request = post(&upstream, "/v1/chat/completions", &body);
            let mut response = service(policy).execute(request).await.expect("a response");
            let mut text = String::new();
            while !text.contains("\"tool_calls\"") || text.starts_with("data") && !text.contains("[DONE]") {
                let bytes = response.chunk().await.expect("a body").expect("bytes");
                text.push_str(std::str::from_utf8(&bytes).expect("text"));
            }
            assert!(text.contains("Oslo"), "{mode:?}: {text}");
            // The upstream is not needed any more, whether or not the program reads on.
            upstream.client_left().await;
            drop(response);
        }
    }
}

#[tokio::test]
async fn other_requests_pass_through_untouched() {
    let odd = "{ \"data\" :[] }";
    let reply = || Reply::new(201).header("x-own", "1").header("set-cookie", "a=b").text(odd);
    let upstream = Upstream::serve([reply(), reply(), reply(), reply()]).await;
    let requests = [
        ("GET", "/v1/models"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/threads/t/messages"),
        ("GET", "/v1/chat/completions"),
    ];
    for (method, path) in requests {
        let request = reqwest::Client::new()
            .request(method.parse().expect("a method"), format!("{}{path}", upstream.url))
            .header("accept-encoding", "gzip")
            .header("x-asked", "2")
            .body(odd)
            .build()
            .expect("a request");
        let response = service(policy()).execute(request).await.expect("a response");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-own"]),
            (201, &"1".parse().expect("a value"))
        );
        assert_eq!(response.headers()["set-cookie"], "a=b");
        assert_eq!(response.text().await.expect("a body"), odd);
        let seen = upstream.seen().pop().expect("a request");
        assert_eq!((seen.line.as_str(), seen.body.as_str()), (format!("{method} {path}").as_str(), odd));
        assert_eq!(seen.headers("accept-encoding", "x-asked"), ("gzip".into(), "2".into()));
    }
}

#[tokio::test]
async fn a_model_is_asked_again_about_a_call_that_stays_invalid() {
    let invalid = CALL.replace("'city': 'Oslo', ", "");
    let upstream = Upstream::serve([completion(&invalid), completion(CALL)]).await;
    let mut policy = policy();
    policy.invalid_calls = InvalidCalls::Reask;
    let response =
        openai(&upstream, policy, 0).chat().create(chat_request(asked())).await.expect("a response");
    assert_eq!(only_call(&response).1, arguments());
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].json(), asked());
    let messages = seen[1].json()["messages"].as_array().expect("messages").clone();
    assert!(
        messages.len() > 1 && messages[1..].iter().any(|message| message.to_string().contains("city")),
        "{messages:?}"
    );
    for seen in seen {
        assert_eq!(seen.line, "POST /v1/chat/completions");
        assert_eq!(seen.header("authorization").as_deref(), Some("Bearer sk-client"));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_of_the_clients_protocol() {
    let reply = || event_stream().text(text_chunk("I look. ")).piece(Piece::Gate).piece(Piece::Break);
    let upstream = Upstream::serve([reply(), reply()]).await;
    upstream.open_gate();
    let request = post(&upstream, "/v1/chat/completions", &streamed());
    let response = service(policy()).execute(request).await.expect("a response");
    assert_eq!(response.status().as_u16(), 200);
    let text = response.text().await.expect("a body that ends as bodies do");
    let last = text.trim().rsplit("data: ").find(|data| data.starts_with('{')).expect("an event");
    let last: Value = serde_json::from_str(last).expect("JSON");
    let message = last["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("lost the connection in the middle of its answer"), "{text}");

    upstream.open_gate();
    let client = openai(&upstream, policy(), 0);
    let stream = client.chat().create_stream(chat_request(streamed())).await.expect("a stream");
    let chunks: Vec<_> = stream.collect().await;
    assert!(chunks[0].is_ok() && chunks.iter().any(Result::is_err), "{chunks:?}");
}

#[tokio::test]
async fn nothing_is_shown_before_the_first_content() {
    let error =
        r#"data: {"error": {"message": "The server is overloaded.", "type": "server_error", "code": 503}}"#;
    let upstream = Upstream::serve([
        event_stream()
            .text(chunk(&json!({"role": "assistant", "content": ""}), None))
            .text(format!("{error}\n\n")),
        event_stream().text(chunk(&json!({"role": "assistant", "content": ""}), None)).piece(Piece::Break),
    ])
    .await;
    for status in [503, 502] {
        let request = post(&upstream, "/v1/chat/completions", &streamed());
        let response = service(policy()).execute(request).await.expect("a response");
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers()["content-type"], "application/json");
        let body: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
        assert!(body["error"]["message"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn errors_of_the_inner_client_stay_its_own() {
    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let request = reqwest::Client::new().post(format!("http://{closed}/v1/chat/completions"));
    let request = request.body(asked().to_string()).build().expect("a request");
    let error = service(policy()).execute(request).await.expect_err("nobody is there");
    assert!(error.is_connect(), "{error:?}");

    let upstream = Upstream::serve([event_stream().piece(Piece::Hold)]).await;
    let mut request = post(&upstream, "/v1/chat/completions", &asked());
    *request.timeout_mut() = Some(std::time::Duration::from_millis(50));
    let response = service(policy()).execute(request).await.expect("a response");
    assert_eq!(response.status().as_u16(), 502, "the program's timeout counts");
    upstream.client_left().await;
}

#[test]
fn an_upstream_that_is_not_asked_over_http_is_refused_at_once() {
    let mut policy = policy();
    policy.protocol = Some(&CODEX_APP_SERVER);
    let error = ExchangeLayer::new(policy).expect_err("no HTTP");
    assert!(error.to_string().contains("over HTTP"), "{error}");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused_here() {
    let upstream = Upstream::serve([]).await;
    let mut request = post(&upstream, "/v1/messages", &json!(null));
    *request.body_mut() = Some("{".into());
    let response = service(policy()).execute(request).await.expect("a response");
    assert_eq!(response.status().as_u16(), 400);
    let body: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_body_that_is_streamed_is_read_first() {
    let upstream = Upstream::serve([completion(CALL)]).await;
    let mut request = post(&upstream, "/v1/chat/completions", &json!(null));
    let pieces: Vec<String> = asked().to_string().chars().map(String::from).collect();
    let pieces = futures::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    *request.body_mut() = Some(reqwest::Body::wrap_stream(pieces));
    let response = service(policy()).execute(request).await.expect("a response");
    assert!(response.text().await.expect("a body").contains("tool_calls"));
    assert_eq!(upstream.only().json(), asked());
}

#[tokio::test]
async fn a_server_that_the_program_asks_itself_gets_its_url_and_headers() {
    let upstream = Upstream::serve([completion(CALL), completion(CALL)]).await;
    let path = "/openai/deployments/d/chat/completions?api-version=1";
    let request = || {
        let client = reqwest::Client::new().post(format!("{}{path}", upstream.url));
        let client = client.header("api-key", "k").header("x-title", "t").header("x-title", "u");
        client.body(asked().to_string()).build().expect("a request")
    };
    service(policy()).execute(request()).await.expect("a response");
    // A key of the policy takes the place of the program's.
    let mut keyed = policy();
    keyed.api_key = Some("own".to_owned());
    service(keyed).execute(request()).await.expect("a response");
    let seen = upstream.seen();
    for seen in &seen {
        assert_eq!(seen.line, format!("POST {path}"));
        assert_eq!(seen.header("x-title").as_deref(), Some("t & u"));
        assert_eq!(seen.header("content-type").as_deref(), Some("application/json"));
    }
    assert_eq!(seen[0].headers("api-key", "authorization"), ("k".into(), String::new()));
    assert_eq!(seen[1].headers("api-key", "authorization"), (String::new(), "Bearer own".into()));
}

/// Google's clients may have their key in the URL.
#[tokio::test]
async fn a_key_in_the_url_is_a_key() {
    let body = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]});
    let replies = || Reply::new(200).text(body.to_string());
    let upstream = Upstream::serve([replies(), replies(), replies(), completion("Hi")]).await;
    let asked = json!({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]});
    let path = "/v1beta/models/m:generateContent";
    let (mut own, mut nobodys, mut chat) = (policy(), policy(), policy());
    own.api_key = Some("own".to_owned());
    nobodys.forwards_client_key = false;
    chat.protocol = Some(&OPENAI_CHAT);
    for policy in [policy(), own, nobodys, chat] {
        let mut request = post(&upstream, &format!("{path}?a=b&key=sk-client"), &asked);
        request.headers_mut().remove("authorization");
        assert_eq!(service(policy).execute(request).await.expect("a response").status().as_u16(), 200);
    }
    let seen = upstream.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.headers("x-goog-api-key", "authorization")).collect();
    let none = String::new;
    assert_eq!(keys[0], (none(), none()), "it stands in the URL");
    assert_eq!(keys[1], ("own".to_owned(), none()));
    assert_eq!(keys[2], (none(), none()));
    assert_eq!(keys[3], (none(), "Bearer sk-client".to_owned()));
    let lines: Vec<_> = seen.iter().map(|seen| seen.line.as_str()).collect();
    let without = format!("POST {path}?a=b");
    let with = format!("{without}&key=sk-client");
    assert_eq!(lines, [with.as_str(), &without, &without, "POST /v1/chat/completions"]);
}

#[tokio::test]
async fn another_server_gets_no_header_that_its_protocol_does_not_know() {
    let upstream = Upstream::serve([completion(CALL)]).await;
    let mut policy = policy();
    policy.base_url.clone_from(&upstream.url);
    let request = reqwest::Client::new()
        .post("http://model.invalid/v1/chat/completions?secret=1")
        .bearer_auth("sk-client")
        .header("cookie", "a=b")
        .header("x-title", "t")
        .header("openai-organization", "org")
        .body(asked().to_string());
    service(policy).execute(request.build().expect("a request")).await.expect("a response");
    let seen = upstream.only();
    assert_eq!(seen.line, "POST /v1/chat/completions");
    assert_eq!(seen.headers("cookie", "x-title"), (String::new(), String::new()));
    assert_eq!(
        seen.headers("openai-organization", "authorization"),
        ("org".into(), "Bearer sk-client".into())
    );
}

/// A policy that changes nothing leaves the bytes of the upstream, and they stream.
#[tokio::test]
async fn nothing_to_do_leaves_the_bytes() {
    let first = text_chunk("I look. ").replace(':', ": ");
    let reply = event_stream().text(first.as_str()).piece(Piece::Gate).text(end_of_chat());
    let upstream = Upstream::serve([reply]).await;
    let mut policy = policy();
    policy.dialect = "none".to_owned();
    (policy.repair, policy.schema) = (false, SchemaMode::Off);
    let request = post(&upstream, "/v1/chat/completions", &streamed());
    let mut response = service(policy).execute(request).await.expect("a response");
    assert_eq!(response.chunk().await.expect("a stream").expect("bytes"), first);
    upstream.open_gate();
    assert_eq!(response.text().await.expect("a stream"), end_of_chat());
}

/// Keeps responses in memory.
#[derive(Default)]
struct Memory(Mutex<HashMap<(StoreScope, String), Arc<StoredResponse>>>);

/// Chat has no seals.
impl TurnStore for Memory {
    fn put(&self, _: &[TurnKey], _: &[u8]) {}

    fn get(&self, _: &TurnKey) -> Option<Arc<[u8]>> {
        None
    }
}

impl ExchangeStore for Memory {
    fn response(&self, scope: &StoreScope, id: &str) -> Option<Arc<StoredResponse>> {
        self.0.lock().expect("not poisoned").get(&(*scope, id.to_owned())).cloned()
    }

    fn put_response(&self, scope: &StoreScope, id: &str, response: StoredResponse) {
        self.0.lock().expect("not poisoned").insert((*scope, id.to_owned()), Arc::new(response));
    }

    fn remove_response(&self, scope: &StoreScope, id: &str) -> bool {
        self.0.lock().expect("not poisoned").remove(&(*scope, id.to_owned())).is_some()
    }
}

#[tokio::test]
async fn a_response_is_referred_to_by_whoever_got_it() {
    let upstream = Upstream::serve([completion("Bergen."), completion("Oslo.")]).await;
    let mut policy = policy();
    policy.protocol = Some(&OPENAI_CHAT);
    policy.base_url.clone_from(&upstream.url);
    let shared = Arc::new(SharedState::with_store(Arc::new(Memory::default()), [7; 16]));
    let engine = ExchangeEngine::with_shared(policy, shared).expect("a policy");
    let service = ExchangeLayer::with_engine(engine).expect("HTTP").layer(reqwest::Client::new());
    let ask = async |key: &str, body: Value| {
        let mut request = post(&upstream, "/v1/responses", &body);
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().expect("a value"));
        let response = service.execute(request).await.expect("a response");
        let status = response.status().as_u16();
        (status, serde_json::from_slice::<Value>(&response.bytes().await.expect("a body")).expect("JSON"))
    };
    let (status, first) = ask("one", json!({"model": "m", "input": "Name a city."})).await;
    assert_eq!(status, 200, "{first}");
    let next = json!({"model": "m", "input": "Another.", "previous_response_id": first["id"]});
    assert_eq!(ask("another", next.clone()).await.0, 400, "nobody else's");
    assert_eq!(ask("one", next).await.0, 200);
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    let contents: Vec<String> =
        seen[1].json()["messages"].as_array().expect("messages").iter().map(Value::to_string).collect();
    for (message, text) in contents.iter().zip(["Name a city.", "Bergen.", "Another."]) {
        assert!(message.contains(text), "{contents:?}");
    }
    assert_eq!(contents.len(), 3);
}

#[tokio::test]
async fn connections_are_used_again() {
    let stream = || event_stream().text(text_chunk("Hi")).text(end_of_chat());
    let upstream = Upstream::serve([completion(CALL), stream(), stream(), completion(CALL)]).await;
    let service = service(policy());
    for body in [asked(), streamed(), streamed(), asked()] {
        let request = post(&upstream, "/v1/chat/completions", &body);
        service.execute(request).await.expect("a response").bytes().await.expect("a body");
    }
    let connections: Vec<usize> = upstream.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0, 0, 0]);
}

#[tokio::test]
async fn a_compressed_answer_that_nobody_unpacks_is_an_error() {
    let upstream = Upstream::serve([Reply::new(200).header("content-encoding", "gzip").text("…")]).await;
    let request = post(&upstream, "/v1/chat/completions", &asked());
    let response = service(policy()).execute(request).await.expect("a response");
    assert_eq!(response.status().as_u16(), 502);
    assert!(response.text().await.expect("a body").contains("gzip"));
}

/// A service that demands what tower's contract says: it is asked for its readiness before each call.
#[derive(Default)]
struct Strict {
    client: reqwest::Client,
    is_ready: bool,
}

/// A clone need not be ready.
impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), is_ready: false }
    }
}

impl Service<reqwest::Request> for Strict {
    type Response = reqwest::Response;
    type Error = Arc<reqwest::Error>;
    type Future = futures::future::BoxFuture<'static, Result<reqwest::Response, Arc<reqwest::Error>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: reqwest::Request) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called before it was ready");
        let sent = self.client.execute(request);
        Box::pin(async move { sent.await.map_err(Arc::new) })
    }
}

#[tokio::test]
async fn inner_services_are_ready_before_each_call() {
    let invalid = CALL.replace("'city': 'Oslo', ", "");
    let replies = || [completion(&invalid), completion(CALL), Reply::new(200).text("{}")];
    let mut policy = policy();
    policy.invalid_calls = InvalidCalls::Reask;
    let service = ExchangeService::new(Strict::default(), policy).expect("a policy");
    let upstream = Upstream::serve(replies().into_iter().chain(replies())).await;
    let asking = || post(&upstream, "/v1/chat/completions", &asked());
    let other = || post(&upstream, "/v1/embeddings", &json!({}));
    service.execute(asking()).await.expect("a response");
    service.execute(other()).await.expect("a response");
    service.clone().oneshot(asking()).await.expect("a response");
    service.clone().oneshot(other()).await.expect("a response");
    assert_eq!(upstream.seen().len(), 6);
}

/// Collects the events of a test.
#[cfg(feature = "tracing")]
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

#[cfg(feature = "tracing")]
impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{}={value:?} ", field.name()));
            }
        }
        if event.metadata().target().starts_with("callweave") {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0.lock().expect("not poisoned").push(fields.0);
        }
    }
}

#[cfg(feature = "tracing")]
#[tokio::test]
async fn parts_that_the_upstream_does_not_get_are_reported() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let events = Events::default();
    let subscriber = tracing_subscriber::registry().with(events.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let upstream = Upstream::serve([anthropic_message("Hi")]).await;
    let mut policy = policy();
    policy.protocol = Some(&ANTHROPIC_MESSAGES);
    let mut asked = asked();
    asked["seed"] = json!(7);
    let request = post(&upstream, "/v1/chat/completions", &asked);
    service(policy).execute(request).await.expect("a response");
    let events = events.0.lock().expect("not poisoned").clone();
    assert!(events.iter().any(|event| event.contains("left out") && event.contains("seed")), "{events:?}");
}
