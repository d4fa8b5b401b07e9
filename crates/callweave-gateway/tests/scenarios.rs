//! Upstreams that misbehave, as a strict client sees them through the gateway: every scenario on every endpoint,
//! streamed and complete. The client repairs nothing and reads no dialect.

mod upstream;

use std::net::SocketAddr;
use std::time::Duration;

use callweave::event::{BlockCompletion, FinishReason};
use callweave::json::schema::Schema;
use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use callweave::request::RequestOptions;
use callweave::{Decoder, Message, Value};
use serde_json::json;
use upstream::Upstream;
use upstream::client::{self, Reply};

/// A client's protocol, where it is spoken, and the words that only a good end has.
struct Endpoint {
    protocol: &'static Protocol,
    path: &'static str,
    good_ends: &'static [&'static str],
    /// The keep-alive of the protocol's streams.
    keep_alive: &'static str,
    error_key: &'static str,
}

const ENDPOINTS: [Endpoint; 3] = [
    Endpoint {
        protocol: &OPENAI_CHAT,
        path: "/v1/chat/completions",
        good_ends: &["[DONE]", "\"finish_reason\":\"stop\""],
        keep_alive: "\n:",
        error_key: "/error/message",
    },
    Endpoint {
        protocol: &ANTHROPIC_MESSAGES,
        path: "/v1/messages?beta=true",
        good_ends: &["message_stop", "end_turn"],
        keep_alive: "event: ping",
        error_key: "/error/message",
    },
    Endpoint {
        protocol: &OPENAI_RESPONSES,
        path: "/v1/responses",
        good_ends: &["response.completed"],
        keep_alive: "\n:",
        error_key: "/error/message",
    },
];

/// The expected result.
#[derive(Clone, Copy)]
enum Outcome {
    /// A number of calls, each right.
    Calls(usize),
    /// A call, and the reasoning before it.
    ThoughtAndCall,
    /// Reasoning apart from the text, and no call.
    Thought,
    /// No call that could be run, and the limit as the reason.
    Cut,
    /// A call without arguments, or none that could be run.
    Empty,
    /// An error with this status, and what to wait.
    Status(u16, Option<&'static str>),
    /// An error, never a good end.
    Broken,
    /// A sign of life in the silence, and then the end.
    KeptAlive,
    /// The upstream learns at once that the client left.
    Left,
}

const SCENARIOS: [(&str, &str, Outcome); 23] = [
    ("text-hermes", "hermes", Outcome::Calls(1)),
    ("text-qwenxml", "qwen3-coder", Outcome::Calls(1)),
    ("bad-json", "broken-json", Outcome::Calls(1)),
    ("truncated", "truncated", Outcome::Cut),
    ("wrong-types", "wrong-types", Outcome::Calls(1)),
    ("dup-index", "same-index", Outcome::Calls(2)),
    ("no-index", "no-index", Outcome::Calls(2)),
    ("parallel", "interleaved", Outcome::Calls(2)),
    ("finish-stop", "finish-stop", Outcome::Calls(1)),
    ("args-object", "object-arguments", Outcome::Calls(1)),
    ("empty-args", "empty-arguments", Outcome::Empty),
    ("name-case", "name-case", Outcome::Calls(1)),
    ("no-id", "no-ids", Outcome::Calls(1)),
    ("think-tags", "think-tags", Outcome::Thought),
    ("reasoning", "reasoning", Outcome::Thought),
    ("tool-in-think", "call-beside-thinking", Outcome::ThoughtAndCall),
    ("err-429", "status-429", Outcome::Status(429, Some("7"))),
    ("err-500", "status-500", Outcome::Status(500, None)),
    ("err-400", "status-400", Outcome::Status(400, None)),
    ("mid-error", "error-mid-stream", Outcome::Broken),
    ("abrupt", "abrupt-end", Outcome::Broken),
    ("silent", "silence", Outcome::KeptAlive),
    ("slow", "slow", Outcome::Left),
];

fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city", "days"],
    })
}

/// The client's request, in its protocol.
fn request(endpoint: &Endpoint, model: &str, is_streamed: bool) -> Vec<u8> {
    let chat = json!({
        "model": model,
        "stream": is_streamed,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "What is the weather in Paris for 3 days?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": schema()}}],
    });
    let options = RequestOptions::default();
    let written = OPENAI_CHAT.translate_request(chat.into(), endpoint.protocol, &options).expect("a request");
    written.body.to_string().into_bytes()
}

async fn ask(gateway: SocketAddr, endpoint: &Endpoint, model: &str, is_streamed: bool) -> Reply {
    let body = request(endpoint, model, is_streamed);
    let asked = client::ask(gateway, "POST", endpoint.path, &[("authorization", "Bearer sk-client")], &body);
    tokio::time::timeout(Duration::from_secs(30), asked).await.expect("an answer in time")
}

/// Returns the fault of the response; `Ok` if it is right.
fn judge(endpoint: &Endpoint, reply: &Reply, outcome: Outcome, is_streamed: bool) -> Result<(), String> {
    let text = reply.text();
    let fail =
        |what: &str| Err(format!("{what}: {} {}", reply.status, text.chars().take(3000).collect::<String>()));
    if let Outcome::Status(status, retry_after) = outcome {
        let body: Value = text.parse().unwrap_or(Value::Null);
        return match () {
            () if reply.status != status => fail("another status"),
            () if reply.header("retry-after") != retry_after => fail("another retry-after"),
            () if reply.header("x-request-id").is_none() => fail("no request id"),
            () if body.pointer(endpoint.error_key).and_then(Value::as_str).is_none() => fail("no error"),
            () if endpoint.protocol == &ANTHROPIC_MESSAGES && body["type"] != "error" => {
                fail("not its shape")
            }
            () => Ok(()),
        };
    }
    if matches!(outcome, Outcome::Broken) {
        let message = Decoder::new(endpoint.protocol).decode(&reply.body).unwrap_or_default();
        return match is_streamed {
            false if reply.status < 500 => fail("a whole answer of a part"),
            false => Ok(()),
            true if message.error().is_none() => fail("no error"),
            true if !message.text().starts_with("You said") => fail("what came before is lost"),
            true if endpoint.good_ends.iter().any(|end| text.contains(end)) => fail("a good end"),
            true => Ok(()),
        };
    }
    if reply.status != 200 || !reply.is_complete {
        return fail("no whole answer");
    }
    let message = match Decoder::new(endpoint.protocol).decode(&reply.body) {
        Ok(message) => message,
        Err(error) => return fail(&error.to_string()),
    };
    // A client should notice that a truncated call is incomplete.
    let is_noticed = !message.notices.is_empty() && !matches!(outcome, Outcome::Cut);
    if message.error().is_some() || is_noticed {
        return fail(&format!("{:?} {:?}", message.errors, message.notices));
    }
    let is_good_end = endpoint.good_ends.iter().any(|end| text.contains(end));
    let finish = message.finish_reason();
    match outcome {
        Outcome::Calls(count) => {
            calls(&message, count).or_else(|what| fail(&what))?;
            if !message.reasoning().is_empty() || !message.text().trim().is_empty() {
                return fail("more than calls");
            }
        }
        Outcome::ThoughtAndCall => {
            calls(&message, 1).or_else(|what| fail(&what))?;
            if message.reasoning().trim() != "I should call get_weather." || !message.text().trim().is_empty()
            {
                return fail("no thought, or text");
            }
        }
        Outcome::Thought => {
            let is_apart =
                message.text().trim_start().starts_with("You said") && !message.text().contains("think>");
            if message.reasoning().trim() != "I need no tool for that." || !is_apart {
                return fail("the thought is not apart");
            }
            if finish != Some(FinishReason::Stop) || message.tool_calls().count() > 0 {
                return fail("another end");
            }
        }
        Outcome::Cut => {
            let said = message.first().and_then(|choice| choice.finish.as_ref()?.raw.as_deref());
            let is_limit = matches!(said, Some("length" | "max_tokens" | "incomplete" | "max_output_tokens"));
            if !is_limit || message.tool_calls().any(is_runnable) {
                return fail(&format!("a cut call that can be run, or ends with {said:?}"));
            }
        }
        Outcome::Empty => {
            let is_refused = message.tool_calls().all(|call| !is_runnable(call));
            let is_empty = message.tool_calls().all(|call| call.arguments() == "{}");
            if !is_refused || !is_empty || finish != Some(FinishReason::ToolCalls) {
                return fail("not empty");
            }
        }
        Outcome::KeptAlive => {
            if is_streamed && !text.contains(endpoint.keep_alive) {
                return fail("no sign of life");
            }
            if finish != Some(FinishReason::Stop)
                || !message.text().contains("Paris")
                || (is_streamed && !is_good_end)
            {
                return fail("not to the end");
            }
        }
        Outcome::Status(..) | Outcome::Broken | Outcome::Left => {}
    }
    Ok(())
}

/// Whether the calls are as many, and as they should be.
fn calls(message: &Message, count: usize) -> Result<(), String> {
    let calls: Vec<_> = message.tool_calls().collect();
    if calls.len() != count {
        return Err(format!("{} calls", calls.len()));
    }
    if message.finish_reason() != Some(FinishReason::ToolCalls) {
        return Err(format!("finish {:?}", message.finish_reason()));
    }
    for (at, call) in calls.iter().enumerate() {
        let arguments: Value = call.arguments().parse().unwrap_or(Value::Null);
        let city = if at == 0 { "Paris" } else { "Paris 2" };
        if call.name != "get_weather"
            || arguments["city"] != city
            || arguments["days"] != 3
            || !is_runnable(call)
        {
            return Err(format!("call {at}: {} {arguments}", call.name));
        }
        let is_alone = calls.iter().filter(|other| other.id == call.id).count() == 1;
        if call.id.is_empty() || call.has_made_id || !is_alone {
            return Err(format!("call {at}: id {:?}", call.id));
        }
    }
    Ok(())
}

/// Whether a client would run the call.
fn is_runnable(call: &callweave::ToolCall) -> bool {
    let arguments = call.arguments().parse::<Value>();
    let fits =
        arguments.is_ok_and(|it| Schema::new(&schema()).validate(&it).is_ok_and(|found| found.is_empty()));
    call.completion == BlockCompletion::Complete && fits
}

/// A client that leaves in the middle: the upstream must learn it before it has sent much more.
async fn leave(
    gateway: SocketAddr,
    upstream: &Upstream,
    endpoint: &Endpoint,
    is_streamed: bool,
) -> Result<(), String> {
    upstream.take();
    let body = request(endpoint, "up/slow", is_streamed);
    let mut stream = client::send(gateway, "POST", endpoint.path, &[], &body).await;
    if is_streamed {
        client::head(&mut stream).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(stream);
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let seen = upstream.seen();
        if let Some(seen) = seen.first().filter(|seen| seen.is_left) {
            // A piece every 50 ms: ten in the time until the client left, and a few until it was noticed.
            return if seen.sent <= 20 { Ok(()) } else { Err(format!("noticed after {} pieces", seen.sent)) };
        }
    }
    Err(format!("never noticed: {:?}", upstream.seen().iter().map(|seen| seen.sent).collect::<Vec<_>>()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_is_right_on_every_endpoint() {
    let upstream = Upstream::start(Duration::from_millis(50)).await;
    let patient = Upstream::start(Duration::from_millis(700)).await;
    let gateway = upstream::gateway(&format!(
        r#"
        [timeouts]
        keep_alive = 0.2
        [upstreams.up]
        base_url = "http://{}/v1"
        retries = 0
        [upstreams.patient]
        base_url = "http://{}/v1"
        [upstreams.demo]
        base_url = "demo:"
        retries = 0
        "#,
        upstream.address, patient.address
    ))
    .await;
    let (mut matrix, mut failures, mut right) = (String::new(), Vec::new(), 0);
    for (name, model, outcome) in SCENARIOS {
        matrix += &format!("{name:14}");
        let before = failures.len();
        for endpoint in &ENDPOINTS {
            for is_streamed in [true, false] {
                let places: &[&str] = match outcome {
                    Outcome::KeptAlive => &["patient"],
                    _ => &["up", "demo"],
                };
                let mut found = Vec::new();
                if matches!(outcome, Outcome::Left) {
                    found.push(leave(gateway, &upstream, endpoint, is_streamed).await);
                } else {
                    for place in places {
                        let reply = ask(gateway, endpoint, &format!("{place}/{model}"), is_streamed).await;
                        // A model in the same process has no headers to forward but its own.
                        found.push(judge(endpoint, &reply, outcome, is_streamed));
                    }
                    for seen in upstream.take() {
                        found.push(seen.faults.is_empty().then_some(()).ok_or(format!("{:?}", seen.faults)));
                    }
                }
                let wrong: Vec<String> = found.into_iter().filter_map(Result::err).collect();
                matrix += if wrong.is_empty() { " ok   " } else { " WRONG" };
                let mode = if is_streamed { "streamed" } else { "whole" };
                failures.extend(
                    wrong.iter().map(|what| format!("{name}, {} {mode}: {what}", endpoint.protocol.name)),
                );
            }
        }
        right += usize::from(failures.len() == before);
        matrix += "\n";
    }
    println!("               chat S  J   messages S J responses S J\n{matrix}{right} of {}", SCENARIOS.len());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// A conversation as agents have them: reasoning, two calls at once, their results, and tools with more than plain
/// schemas.
fn conversation(endpoint: &Endpoint, model: &str, is_streamed: bool) -> Vec<u8> {
    let call = |id: &str, city: &str| {
        let arguments = json!({"city": city, "days": 3}).to_string();
        json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}})
    };
    let chat = json!({
        "model": model,
        "stream": is_streamed,
        "max_tokens": 1000,
        "parallel_tool_calls": true,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is the weather in Paris and in Rome for 3 days?"},
            {"role": "assistant", "content": null, "reasoning_content": "Two calls.",
                "tool_calls": [call("call_1", "Paris"), call("call_2", "Rome")]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
            {"role": "user", "content": "And in Oslo for 3 days?"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": schema()}},
            {"type": "function", "function": {"name": "list-files_2", "parameters": {"type": "object",
                "$defs": {"path": {"type": "string", "minLength": 1}}, "additionalProperties": false,
                "properties": {"path": {"$ref": "#/$defs/path"}, "kind": {"const": "all"}, "depth": {"type": ["integer", "null"]}},
                "required": ["path"]}}},
            {"type": "function", "function": {"name": "now"}},
        ],
    });
    let options = RequestOptions::default();
    let written = OPENAI_CHAT.translate_request(chat.into(), endpoint.protocol, &options).expect("a request");
    written.body.to_string().into_bytes()
}

/// Upstreams: their names here, their protocols, further configuration, and the model that is asked.
const UPSTREAMS: [(&str, &str, &str, &str); 11] = [
    ("chat", "openai-chat", "", "openai-chat"),
    ("mistral", "openai-chat", "provider = \"mistral\"", "openai-chat"),
    ("deepseek", "openai-chat", "provider = \"deepseek\"", "openai-chat"),
    ("groq", "openai-chat", "provider = \"groq\"", "openai-chat"),
    ("responses", "openai-responses", "", "openai-responses"),
    ("anthropic", "anthropic-messages", "", "anthropic"),
    ("gemini", "gemini-generatecontent", "", "gemini"),
    ("ollama", "ollama", "", "ollama"),
    ("cohere", "cohere-v2", "", "cohere"),
    // Additions of the gateway's own: a prompt that teaches, and a complaint.
    ("taught", "openai-chat", "tools = \"prompt\"\ndialect = \"hermes\"", "hermes"),
    ("again", "openai-chat", "invalid = \"ask_again\"\nparallel_tool_calls = false", "lacking-once"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_provider_gets_what_it_accepts() {
    let upstream = Upstream::start(Duration::from_millis(1)).await;
    let mut config = String::new();
    for (name, protocol, rest, _) in UPSTREAMS {
        let url = format!(
            "http://{}/{name}/{}",
            upstream.address,
            if protocol == "openai-chat" { "v1" } else { "" }
        );
        config += &format!(
            "[upstreams.{name}]\nbase_url = \"{}\"\nprotocol = \"{protocol}\"\nretries = 0\n{rest}\n",
            url.trim_end_matches('/')
        );
    }
    let gateway = upstream::gateway(&config).await;
    let (mut faults, mut count) = (Vec::new(), 0);
    for (name, _, _, model) in UPSTREAMS {
        for endpoint in &ENDPOINTS {
            for is_streamed in [true, false] {
                let model = format!("{name}/{model}");
                let bodies =
                    [request(endpoint, &model, is_streamed), conversation(endpoint, &model, is_streamed)];
                for body in bodies {
                    let reply = client::ask(gateway, "POST", endpoint.path, &[], &body).await;
                    assert_eq!(reply.status, 200, "{name}, {}: {}", endpoint.protocol.name, reply.text());
                    let seen = upstream.take();
                    assert!(!seen.is_empty(), "{name}");
                    count += seen.len();
                    faults.extend(
                        seen.into_iter()
                            .flat_map(|seen| seen.faults)
                            .map(|what| format!("{name}, asked by {}: {what}", endpoint.protocol.name)),
                    );
                }
            }
        }
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The model that lacks something is asked again, at least.
    assert!(count > UPSTREAMS.len() * ENDPOINTS.len() * 4, "{count}");
}
