//! Upstreams that misbehave, and the responses that a strict client expects nevertheless. The client repairs nothing and
//! reads no dialect.

use callweave::event::{BlockCompletion, FinishReason};
use callweave::json::schema::Schema;
use callweave::protocol::{OLLAMA, OPENAI_CHAT, Protocol};
use callweave::request::RequestOptions;
use callweave::{Decoder, Message, Value};
use serde_json::json;

/// The expected result.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
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

/// The scenarios: their names, the scripted models that play them, and the expected results.
pub(crate) const SCENARIOS: [(&str, &str, Expected); 23] = [
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

/// The schema of the tool.
pub(crate) fn schema() -> serde_json::Value {
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
pub(crate) fn request(protocol: &'static Protocol, model: &str, is_streamed: bool) -> Vec<u8> {
    let chat = json!({
        "model": model,
        "stream": is_streamed,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "What is the weather in Paris for 3 days?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": schema()}}],
    });
    let written = OPENAI_CHAT.translate_request(chat.into(), protocol, &RequestOptions::default());
    written.expect("a request").body.to_string().into_bytes()
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

/// A response as a client has it.
pub(crate) struct ClientView<'r> {
    pub(crate) protocol: &'static Protocol,
    pub(crate) is_streamed: bool,
    pub(crate) status: u16,
    pub(crate) header: &'r dyn Fn(&str) -> Option<&'r str>,
    pub(crate) body: &'r [u8],
    /// Whether the body came to its end.
    pub(crate) is_complete: bool,
}

/// Returns the fault of the response; `Ok` if it is right.
pub(crate) fn judge(got: &ClientView<'_>, expected: Expected) -> Result<(), String> {
    let (protocol, text) = (got.protocol, String::from_utf8_lossy(got.body));
    let fail =
        |what: &str| Err(format!("{what}: {} {}", got.status, text.chars().take(3000).collect::<String>()));
    if let Expected::Status(status, retry_after) = expected {
        let body: Value = text.parse().unwrap_or(Value::Null);
        return match () {
            () if got.status != status => fail("another status"),
            () if (got.header)("retry-after") != retry_after => fail("another retry-after"),
            () if (got.header)("x-request-id").is_none() => fail("no request id"),
            () if body.pointer(error_pointer(protocol)).and_then(Value::as_str).is_none() => fail("no error"),
            () if protocol.name == "anthropic-messages" && body["type"] != "error" => fail("not its shape"),
            () => Ok(()),
        };
    }
    let message = Decoder::new(protocol).decode(got.body).unwrap_or_default();
    let is_good_end = good_ends(protocol).iter().any(|end| text.contains(end));
    if matches!(expected, Expected::Broken) {
        return match got.is_streamed {
            false if got.status < 500 => fail("a complete response of a part"),
            false => Ok(()),
            true if message.error().is_none() => fail("no error"),
            true if !message.text().starts_with("You said") => fail("what came before is lost"),
            true if is_good_end => fail("a good end"),
            true => Ok(()),
        };
    }
    if got.status != 200 || !got.is_complete {
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
            calls(protocol, &message, count).or_else(|what| fail(&what))?;
            if !message.reasoning().is_empty() || !message.text().trim().is_empty() {
                return fail("more than calls");
            }
        }
        Expected::ReasoningAndCall => {
            calls(protocol, &message, 1).or_else(|what| fail(&what))?;
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
            // Comments break the clients of Gemini.
            let ping = match protocol.name {
                "anthropic-messages" => "event: ping",
                "gemini-generatecontent" => "\n\n\n",
                _ => "\n:",
            };
            // Neither lines nor the values of an array have room for a keep-alive.
            let has_pings = (got.header)("content-type") == Some("text/event-stream");
            if has_pings && !text.contains(ping) {
                return fail("no keep-alive");
            }
            let is_end = finish == Some(FinishReason::Stop) && message.text().contains("Paris");
            if !is_end || got.is_streamed && !is_good_end {
                return fail("not to the end");
            }
        }
        Expected::Status(..) | Expected::Broken | Expected::Left => {}
    }
    Ok(())
}

/// Whether the calls are as many, and as they should be.
fn calls(protocol: &Protocol, message: &Message, count: usize) -> Result<(), String> {
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
        let is_given = !call.has_made_id || *protocol == OLLAMA;
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
