//! Upstreams that misbehave, as a strict client sees them through the gateway: every scenario on every endpoint,
//! streamed and complete. The client repairs nothing and reads no dialect.

mod misbehaviour;
mod upstream;

use std::net::SocketAddr;
use std::time::Duration;

use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use callweave::request::RequestOptions;
use misbehaviour::{ClientView, Expected, SCENARIOS, judge, request, schema};
use serde_json::json;
use upstream::Upstream;
use upstream::client::{self, Reply};

/// A client's protocol, and its path.
struct Endpoint {
    protocol: &'static Protocol,
    path: &'static str,
}

const ENDPOINTS: [Endpoint; 3] = [
    Endpoint { protocol: &OPENAI_CHAT, path: "/v1/chat/completions" },
    Endpoint { protocol: &ANTHROPIC_MESSAGES, path: "/v1/messages?beta=true" },
    Endpoint { protocol: &OPENAI_RESPONSES, path: "/v1/responses" },
];

async fn ask(gateway: SocketAddr, endpoint: &Endpoint, model: &str, is_streamed: bool) -> Reply {
    let body = request(endpoint.protocol, model, is_streamed);
    let asked = client::ask(gateway, "POST", endpoint.path, &[("authorization", "Bearer sk-client")], &body);
    tokio::time::timeout(Duration::from_secs(30), asked).await.expect("an answer in time")
}

/// A client that leaves in the middle: the upstream must learn it before it has sent much more.
async fn leave(
    gateway: SocketAddr,
    upstream: &Upstream,
    endpoint: &Endpoint,
    is_streamed: bool,
) -> Result<(), String> {
    upstream.take();
    let body = request(endpoint.protocol, "up/slow", is_streamed);
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
    for (name, model, expected) in SCENARIOS {
        matrix += &format!("{name:14}");
        let before = failures.len();
        for endpoint in &ENDPOINTS {
            for is_streamed in [true, false] {
                let places: &[&str] = match expected {
                    Expected::KeptAlive => &["patient"],
                    _ => &["up", "demo"],
                };
                let mut found = Vec::new();
                if matches!(expected, Expected::Left) {
                    found.push(leave(gateway, &upstream, endpoint, is_streamed).await);
                } else {
                    for place in places {
                        let reply = ask(gateway, endpoint, &format!("{place}/{model}"), is_streamed).await;
                        // A model in the same process has no headers to forward but its own.
                        let view = ClientView {
                            protocol: endpoint.protocol,
                            is_streamed,
                            status: reply.status,
                            header: &|name| reply.header(name),
                            body: &reply.body,
                            is_complete: reply.is_complete,
                        };
                        found.push(judge(&view, expected));
                    }
                    for seen in upstream.take() {
                        found.push(seen.faults.is_empty().then_some(()).ok_or(format!("{:?}", seen.faults)));
                    }
                }
                let wrong: Vec<String> = found.into_iter().filter_map(Result::err).collect();
                matrix += if wrong.is_empty() { " ok   " } else { " WRONG" };
                let mode = if is_streamed { "streamed" } else { "complete" };
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
                let bodies = [
                    request(endpoint.protocol, &model, is_streamed),
                    conversation(endpoint, &model, is_streamed),
                ];
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
