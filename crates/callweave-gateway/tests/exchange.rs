//! Upstreams that misbehave, as a strict client sees them through an exchange alone: no server, no runtime, no clock. The
//! scenarios of `scenarios.rs`, for every client protocol, streamed and not. The client repairs nothing and reads no
//! dialect. Then the laws: cuts of the upstream's bytes change nothing, and no prefix of them looks complete.

#[path = "../../callweave/tests/support/driver.rs"]
mod driver;
#[path = "../../callweave/tests/laws/mod.rs"]
mod laws;
#[path = "../../callweave/tests/support/prefix.rs"]
mod prefix;
#[path = "../../callweave/tests/requests/rules.rs"]
#[allow(dead_code, reason = "the scripted models are providers without rules of their own")]
mod rules;

use std::sync::Arc;

use callweave::Value;
use callweave::event::{BlockCompletion, FinishReason};
use callweave::exchange::{ExchangeEngine, ExchangePolicy, HttpRequest};
use callweave::json::schema::Schema;
use callweave::message::Message;
use callweave::protocol::{OLLAMA, OPENAI_CHAT, Protocol};
use callweave::request::RequestOptions;
use callweave_gateway::demo::{self, DemoScript};
use driver::{CLIENTS, Client, End, Got, Reply, Step, drive};
use laws::cut_lists;
use serde_json::json;

/// The expected result.
#[derive(Clone, Copy)]
enum Expected {
    /// A number of calls, each right.
    Calls(usize),
    /// A call, and the reasoning before it.
    ReasoningAndCall,
    /// Reasoning apart from the text, and no call.
    Reasoning,
    /// No call that could be run, and the limit as the reason.
    Truncated,
    /// A call without arguments, or none that could be run.
    Empty,
    /// An error with this status, and what to wait.
    Status(u16, Option<&'static str>),
    /// An error, never a good end.
    Broken,
    /// A keep-alive in the silence, and then the end.
    KeptAlive,
    /// A client that leaves in the middle: the driver drops the exchange.
    Left,
}

const SCENARIOS: [(&str, &str, Expected); 23] = [
    ("text-hermes", "hermes", Expected::Calls(1)),
    ("text-qwenxml", "qwen3-coder", Expected::Calls(1)),
    ("bad-json", "broken-json", Expected::Calls(1)),
    ("truncated", "truncated", Expected::Truncated),
    ("wrong-types", "wrong-types", Expected::Calls(1)),
    ("dup-index", "same-index", Expected::Calls(2)),
    ("no-index", "no-index", Expected::Calls(2)),
    ("parallel", "interleaved", Expected::Calls(2)),
    ("finish-stop", "finish-stop", Expected::Calls(1)),
    ("args-object", "object-arguments", Expected::Calls(1)),
    ("empty-args", "empty-arguments", Expected::Empty),
    ("name-case", "name-case", Expected::Calls(1)),
    ("no-id", "no-ids", Expected::Calls(1)),
    ("think-tags", "think-tags", Expected::Reasoning),
    ("reasoning", "reasoning", Expected::Reasoning),
    ("tool-in-think", "call-beside-thinking", Expected::ReasoningAndCall),
    ("err-429", "status-429", Expected::Status(429, Some("7"))),
    ("err-500", "status-500", Expected::Status(500, None)),
    ("err-400", "status-400", Expected::Status(400, None)),
    ("mid-error", "error-mid-stream", Expected::Broken),
    ("abrupt", "abrupt-end", Expected::Broken),
    ("silent", "silence", Expected::KeptAlive),
    ("slow", "slow", Expected::Left),
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
fn request(client: &Client, model: &str) -> Vec<u8> {
    let chat = json!({
        "model": model,
        "stream": client.is_streamed,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "What is the weather in Paris for 3 days?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": schema()}}],
    });
    let options = RequestOptions::default();
    let written = OPENAI_CHAT.translate_request(chat.into(), client.protocol(), &options);
    written.expect("a request").body.to_string().into_bytes()
}

fn engine() -> Arc<ExchangeEngine> {
    let mut policy = ExchangePolicy::default();
    policy.base_url = "http://upstream/v1".to_owned();
    policy.protocol = Some(&OPENAI_CHAT);
    ExchangeEngine::new(policy).expect("a policy")
}

/// The script that a model plays for a request, and the faults of the request.
fn script(request: &HttpRequest) -> (DemoScript, Vec<String>) {
    let body: Value = std::str::from_utf8(request.body.as_ref()).expect("text").parse().expect("JSON");
    let mut faults = rules::refused(request.protocol.name, &body);
    if let Err(error) = request.protocol.read_request(body) {
        faults.push(error.to_string());
    }
    if request.headers.iter().all(|header| *header != ("content-type", "application/json".to_owned())) {
        faults.push("the body is not said to be JSON".to_owned());
    }
    let script = demo::response(&request.model, request.body.as_ref(), request.is_streamed);
    (script.expect("a scripted model"), faults)
}

/// The same as a reply.
fn reply(script: DemoScript) -> Reply {
    let mut end = End::Finish;
    let step = |step| match step {
        demo::ScriptStep::Send(bytes) => Some(Step::Bytes(bytes)),
        demo::ScriptStep::Wait(_) => Some(Step::Silence),
        demo::ScriptStep::Break => {
            end = End::Fail;
            None
        }
    };
    let steps = script.steps.into_iter().filter_map(step).collect();
    let mut headers: Vec<(String, Vec<u8>)> =
        script.headers.into_iter().map(|(name, value)| (name.to_owned(), value.into_bytes())).collect();
    headers.push(("x-request-id".to_owned(), b"req-demo-1".to_vec()));
    Reply { status: script.status, headers, steps, end }
}

/// The end of a stream that stands for success, in words that nothing else has.
fn good_ends(protocol: &Protocol) -> &'static [&'static str] {
    match protocol.name {
        "openai-chat" => &["[DONE]", "\"finish_reason\":\"stop\""],
        "openai-responses" => &["response.completed"],
        "anthropic-messages" => &["message_stop", "end_turn"],
        "gemini-generatecontent" => &["\"finishReason\":\"STOP\""],
        _ => &["\"done\":true"],
    }
}

fn error_pointer(protocol: &Protocol) -> &'static str {
    if *protocol == OLLAMA { "/error" } else { "/error/message" }
}

/// Returns the fault of the response; `Ok` if it is right.
fn judge(client: &Client, got: &Got, expected: Expected) -> Result<(), String> {
    let (protocol, text) = (client.protocol(), got.text());
    let fail =
        |what: &str| Err(format!("{what}: {} {}", got.status, text.chars().take(3000).collect::<String>()));
    if let Expected::Status(status, retry_after) = expected {
        let body: Value = text.parse().unwrap_or(Value::Null);
        return match () {
            () if got.status != status => fail("another status"),
            () if got.header("retry-after") != retry_after => fail("another retry-after"),
            () if got.header("x-request-id").is_none() => fail("no request id"),
            () if body.pointer(error_pointer(protocol)).and_then(Value::as_str).is_none() => fail("no error"),
            () if protocol.name == "anthropic-messages" && body["type"] != "error" => fail("not its shape"),
            () => Ok(()),
        };
    }
    let message = got.message(protocol);
    let is_good_end = good_ends(protocol).iter().any(|end| text.contains(end));
    if matches!(expected, Expected::Broken) {
        return match client.is_streamed {
            false if got.status < 500 => fail("a complete response of a part"),
            false => Ok(()),
            true if message.error().is_none() => fail("no error"),
            true if !message.text().starts_with("You said") => fail("what came before is lost"),
            true if is_good_end => fail("a good end"),
            true => Ok(()),
        };
    }
    if got.status != 200 {
        return fail("no complete response");
    }
    // A client should notice that a truncated call is incomplete.
    let is_noticed = !message.notices.is_empty() && !matches!(expected, Expected::Truncated);
    if message.error().is_some() || is_noticed {
        return fail(&format!("{:?} {:?}", message.errors, message.notices));
    }
    let finish = message.finish_reason();
    match expected {
        Expected::Calls(count) => {
            calls(client, &message, count).or_else(|what| fail(&what))?;
            if !message.reasoning().is_empty() || !message.text().trim().is_empty() {
                return fail("more than calls");
            }
        }
        Expected::ReasoningAndCall => {
            calls(client, &message, 1).or_else(|what| fail(&what))?;
            let is_apart = message.reasoning().trim() == "I should call get_weather.";
            if !is_apart || !message.text().trim().is_empty() {
                return fail("no reasoning, or text");
            }
        }
        Expected::Reasoning => {
            let is_text = message.text().trim_start().starts_with("You said");
            let is_apart = is_text && !message.text().contains("think>");
            if message.reasoning().trim() != "I need no tool for that." || !is_apart {
                return fail("the reasoning is not apart");
            }
            if finish != Some(FinishReason::Stop) || message.tool_calls().count() > 0 {
                return fail("another end");
            }
        }
        Expected::Truncated => {
            if finish != Some(FinishReason::Length) || message.tool_calls().any(is_runnable) {
                return fail(&format!("a truncated call that can be run, or ends with {finish:?}"));
            }
        }
        Expected::Empty => {
            let is_refused = message.tool_calls().all(|call| !is_runnable(call));
            let is_empty = message.tool_calls().all(|call| call.arguments() == "{}");
            if !is_refused || !is_empty || finish != Some(FinishReason::ToolCalls) {
                return fail("not empty");
            }
        }
        Expected::KeptAlive => {
            // A comment, an event of Anthropic's, or a blank line where comments break clients.
            let pings = ["\n:", "event: ping", "\n\n\n"];
            // Neither lines nor the values of an array have room for a keep-alive.
            let has_pings = got.header("content-type") == Some("text/event-stream");
            if has_pings && !pings.iter().any(|ping| text.contains(ping)) {
                return fail("no keep-alive");
            }
            let is_end = finish == Some(FinishReason::Stop) && message.text().contains("Paris");
            if !is_end || client.is_streamed && !is_good_end {
                return fail("not to the end");
            }
        }
        Expected::Status(..) | Expected::Broken | Expected::Left => {}
    }
    Ok(())
}

/// Whether the calls are as many, and as they should be.
fn calls(client: &Client, message: &Message, count: usize) -> Result<(), String> {
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
        let is_right = call.name == "get_weather" && arguments["city"] == city && arguments["days"] == 3;
        if !is_right || !is_runnable(call) {
            return Err(format!("call {at}: {} {arguments}", call.name));
        }
        let is_alone = calls.iter().filter(|other| other.id == call.id).count() == 1;
        let is_given = !call.has_made_id || *client.protocol() == OLLAMA;
        if call.id.is_empty() || !is_given || !is_alone {
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

#[test]
fn every_scenario_is_right_for_every_client() {
    let engine = engine();
    let (mut matrix, mut failures) = (String::new(), Vec::new());
    for (name, model, expected) in SCENARIOS {
        matrix += &format!("{name:14}");
        for client in &CLIENTS {
            let incoming = client.incoming(model, &request(client, model), "scenario");
            let mut faults = Vec::new();
            let got = drive(&engine, incoming, |request| {
                let (script, found) = script(request);
                faults.extend(found);
                reply(script)
            });
            let got = got.expect("a request that can be read");
            faults.extend(judge(client, &got, expected).err());
            matrix += if faults.is_empty() { " ok   " } else { " WRONG" };
            failures.extend(faults.into_iter().map(|what| format!("{name}, {}: {what}", client.name)));
        }
        matrix += "\n";
    }
    println!("{matrix}");
    assert!(failures.is_empty(), "{}\n{matrix}", failures.join("\n\n"));
}

/// The bytes of a scenario for a client, and how they end; none where the model refuses.
fn recorded(engine: &Arc<ExchangeEngine>, client: &Client, model: &str) -> Option<(Vec<u8>, End)> {
    let mut recorded = None;
    let incoming = client.incoming(model, &request(client, model), "scenario");
    let got = drive(engine, incoming, |request| {
        let script = script(request).0;
        let bytes = script.bytes();
        let reply = reply(script);
        if reply.status == 200 {
            recorded = Some((bytes, reply.end));
        }
        reply
    });
    got.expect("a request that can be read");
    recorded
}

#[test]
fn cuts_change_nothing() {
    let engine = engine();
    for (name, model, _) in SCENARIOS {
        for client in &CLIENTS {
            let Some((bytes, end)) = recorded(&engine, client, model) else { continue };
            let get = |cuts: &[usize]| {
                let incoming = client.incoming(model, &request(client, model), "scenario");
                let got = drive(&engine, incoming, |_| Reply::cut(&bytes, cuts, end));
                got.expect("a request that can be read").read(client)
            };
            let complete = get(&[]);
            for cuts in cut_lists(bytes.len(), 12) {
                assert_eq!(get(&cuts), complete, "{name}, {}: cut at {:?}", client.name, cuts.first());
            }
        }
    }
}

#[test]
fn no_prefix_looks_complete() {
    let engine = engine();
    for (name, model, _) in SCENARIOS {
        for client in &CLIENTS {
            let Some((bytes, _)) = recorded(&engine, client, model) else { continue };
            let step = (bytes.len() / 24).max(1);
            for at in (0..bytes.len()).step_by(step).chain(bytes.len().saturating_sub(8)..bytes.len()) {
                for end in [End::Finish, End::Fail] {
                    let incoming = client.incoming(model, &request(client, model), "scenario");
                    let got = drive(&engine, incoming, |_| Reply::cut(&bytes[..at], &[], end));
                    let got = got.expect("a request that can be read");
                    let what = prefix::judge(client, &got, &OPENAI_CHAT, &bytes[..at], end);
                    let about = format!("{name}, {}, {at} of {} bytes, {end:?}", client.name, bytes.len());
                    assert_eq!(what, Ok(()), "{about}:\n{}", got.text());
                }
            }
        }
    }
}
