//! A scripted model that needs no network: it responds with tool calls in a dialect, or with a fault.
//!
//! The input is the body of a request in the model's protocol, the output a [`DemoScript`]: the bytes of a response in
//! that protocol, in pieces of a few characters, with pauses and breaks where the model is known for them. There is no
//! randomness and no clock: the same request gives the same bytes.
//!
//! Its behaviour:
//!
//! - Given a tool that looks at the weather, such as `get_weather`, it calls that, with arguments made to fit the schema;
//!   texts and numbers are taken from the last user message. It calls no other tool unless it is told to.
//! - Given the results of calls, it responds with a text that holds them.
//! - Given nothing of the kind, it repeats the user's text, or fills the schema of the response that was asked for.
//!
//! A model of a dialect understands tools that it is taught in words as well.
//!
//! It can be directed, whichever model it plays. Lines of the user's text that read `call NAME ARGUMENTS`, with a
//! declared tool and its arguments as JSON, are the calls it makes, in this order, one in each turn; thereafter it
//! responds with a text.
//!
//! ```text
//! call write_file {"path": "notes.txt", "content": "hello"}
//! call read_file {"path": "notes.txt"}
//! ```

mod chat;
mod faults;
mod fill;
mod plan;
mod table;
mod taught;
mod text;

use std::time::Duration;

use callweave::Value;
use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::Event;
use callweave::pipeline::Decoder;
use callweave::protocol::{OLLAMA, OPENAI_CHAT, Protocol};

use plan::DemoPlan;
use table::DemoModel;

/// The response of a model of the demonstration, as bytes of its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoScript {
    /// The status of the response.
    pub status: u16,
    /// Its headers, `content-type` among them.
    pub headers: Vec<(&'static str, String)>,
    /// The steps of the response, in order.
    pub steps: Vec<ScriptStep>,
}

/// One thing that an upstream does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptStep {
    /// Bytes are sent, as one chunk.
    Send(Vec<u8>),
    /// Nothing comes for a while.
    Wait(Duration),
    /// The connection breaks without an end.
    Break,
}

/// The names of the models, without `demo/`.
pub fn models() -> impl Iterator<Item = &'static str> {
    table::rows().iter().map(|row| row.name.as_str())
}

/// The protocol that a model speaks, if there is such a model.
pub fn protocol(model: &str) -> Option<&'static Protocol> {
    Some(DemoModel::find(model)?.protocol)
}

/// Describes a model in a line for people.
pub fn describe(model: &str) -> Option<&'static str> {
    Some(DemoModel::find(model)?.about)
}

/// Returns the model's response to a request body of its protocol; none if there is no such model. A body that is no
/// request gets status 400, as from providers.
pub fn response(model: &str, body: &[u8], is_streamed: bool) -> Option<DemoScript> {
    let row = DemoModel::find(model)?;
    if let Some((status, class, retry_after)) = row.refusal {
        let script = DemoScript::error(row.protocol, status, class, "the scripted model answers so");
        let seconds = retry_after.map(|seconds| ("retry-after", seconds.to_string()));
        return Some(DemoScript { headers: script.headers.into_iter().chain(seconds).collect(), ..script });
    }
    let body = std::str::from_utf8(body).ok().and_then(|text| text.parse::<Value>().ok());
    let body = body.map(|body| match row.dialect {
        Some(dialect) => taught::understood(body, dialect),
        None => body,
    });
    let request = body.and_then(|body| row.protocol.read_request(body).ok());
    let Some(request) = request else {
        return Some(DemoScript::error(row.protocol, 400, "invalid_request_error", "the body is no request"));
    };
    let plan = DemoPlan::of(&request, &row.habits);
    let steps = match is_streamed {
        true => chat::stream(row, &plan),
        false => chat::whole(row, &plan),
    };
    let steps = if row.protocol == &OPENAI_CHAT { steps } else { translate(row, steps, is_streamed) };
    let kind = match is_streamed {
        false => "application/json",
        true if row.protocol == &OLLAMA => "application/x-ndjson",
        true => "text/event-stream",
    };
    Some(DemoScript { status: 200, headers: vec![("content-type", kind.to_owned())], steps })
}

impl DemoScript {
    /// All bytes of it, as if nothing broke.
    pub fn bytes(&self) -> Vec<u8> {
        let sent = |step: &ScriptStep| match step {
            ScriptStep::Send(bytes) => bytes.clone(),
            ScriptStep::Wait(_) | ScriptStep::Break => Vec::new(),
        };
        self.steps.iter().flat_map(sent).collect()
    }

    /// An error body in the shape of the protocol.
    fn error(protocol: &Protocol, status: u16, class: &str, message: &str) -> Self {
        let inner = Value::object([("message", message.into()), ("type", class.into())]);
        let body = match protocol.name {
            "anthropic-messages" => Value::object([("type", "error".into()), ("error", inner)]),
            "ollama" => Value::object([("error", message.into())]),
            "cohere-v2" => Value::object([("message", message.into())]),
            "gemini-generatecontent" => {
                let inner = [("code", status.into()), ("message", message.into()), ("status", class.into())];
                Value::object([("error", Value::object(inner))])
            }
            _ => Value::object([("error", inner)]),
        };
        let kind = ("content-type", "application/json".to_owned());
        Self { status, headers: vec![kind], steps: vec![ScriptStep::Send(body.to_string().into_bytes())] }
    }
}

/// Translates the response to another protocol by the library's own encoder, step by step.
fn translate(row: &DemoModel, steps: Vec<ScriptStep>, is_streamed: bool) -> Vec<ScriptStep> {
    let options = EncodeOptions::normalized().model(row.name.as_str()).created(chat::CREATED);
    let mut decoder = Decoder::new(&OPENAI_CHAT);
    if !is_streamed {
        let mut response = Accumulator::new();
        for step in &steps {
            let ScriptStep::Send(bytes) = step else { continue };
            // The bytes were written by this module and are chat.
            let _ = decoder.push(bytes, &mut response);
        }
        let _ = decoder.finish(&mut response);
        let mut body = Vec::new();
        row.protocol.encode_body(response.message(), &options, &mut body);
        return vec![ScriptStep::Send(body)];
    }
    let Some(mut encoder) = row.protocol.encoder(&options) else { return Vec::new() };
    let mut translated = Vec::new();
    for step in steps {
        match step {
            ScriptStep::Send(bytes) => {
                let mut out = Vec::new();
                let _ = decoder.push(&bytes, &mut |event: Event<'_>| encoder.encode(&event, &mut out));
                translated.push(ScriptStep::Send(out));
            }
            other => translated.push(other),
        }
    }
    let mut out = Vec::new();
    let _ = decoder.finish(&mut |event: Event<'_>| encoder.encode(&event, &mut out));
    translated.push(ScriptStep::Send(out));
    translated.retain(|step| !matches!(step, ScriptStep::Send(bytes) if bytes.is_empty()));
    translated
}
