//! Asking a model again: its response and the reasons why calls cannot be run become a part of the conversation.

use crate::encode::EncodeOptions;
use crate::json::{Array, Value};
use crate::message::Message;
use crate::protocol::OPENAI_RESPONSES;
use crate::request::{self, Request};

/// The messages that follow a response with invalid calls. The reasons are given by the ids of the calls.
pub(super) fn messages(response: &Message, reasons: &[(String, String)]) -> Vec<request::RequestMessage> {
    let mut items = items(response);
    for call in response.tool_calls() {
        let reason = reasons.iter().find(|(of, _)| *of == call.id).map(|(_, reason)| reason.as_str());
        let output = match reason {
            Some(reason) => format!("error: {reason}; send the call again with arguments that fit"),
            None => "not run: another call cannot be run; send all calls again".to_owned(),
        };
        let item = [
            ("type", "function_call_output".into()),
            ("call_id", Value::from(call.id.clone())),
            ("output", output.into()),
        ];
        items.push(Value::object(item));
    }
    let body = Value::object([("input", Value::from(Array::from_iter(items)))]);
    OPENAI_RESPONSES.read_request(body).map(|Request { messages, .. }| messages).unwrap_or_default()
}

/// The output items of a response: the form in which clients send responses back.
fn items(response: &Message) -> Vec<Value> {
    let mut body = Vec::new();
    OPENAI_RESPONSES.encode_body(response, &EncodeOptions::normalized(), &mut body);
    let body: Option<Value> = std::str::from_utf8(&body).ok().and_then(|text| text.parse().ok());
    let output = body.and_then(|mut body| body.get_mut("output").map(Value::take));
    match output {
        Some(Value::Array(items)) => items.into_vec(),
        _ => Vec::new(),
    }
}
