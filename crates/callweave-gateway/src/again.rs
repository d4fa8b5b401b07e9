//! What a model is asked again, and how an answer becomes a part of the conversation.

use callweave::encode::EncodeOptions;
use callweave::message::Message;
use callweave::protocol::OPENAI_RESPONSES;
use callweave::request::{self, Request};
use callweave::{Value, json};

use crate::asked::Asked;

/// The same request with the model's answer and what is wrong with its calls, by their ids.
pub(crate) fn asked(asked: &Asked, answer: &Message, complaints: &[(String, String)]) -> Asked {
    let mut items = items(answer);
    let calls: Vec<_> = answer.tool_calls().map(|call| call.id.clone()).collect();
    for id in calls {
        let complaint = complaints.iter().find(|(of, _)| *of == id).map(|(_, what)| what.as_str());
        let output = match complaint {
            Some(what) => format!("error: {what}; send the call again with arguments that fit"),
            None => "not run: another call cannot be run; send all calls again".to_owned(),
        };
        let item = [
            ("type", "function_call_output".into()),
            ("call_id", Value::from(id)),
            ("output", output.into()),
        ];
        items.push(Value::object(item));
    }
    asked.extended(messages(items))
}

/// The output items of an answer: the form in which clients send answers back.
fn items(answer: &Message) -> Vec<Value> {
    let mut body = Vec::new();
    OPENAI_RESPONSES.encode_whole(answer, &EncodeOptions::mended(), &mut body);
    let body: Option<Value> = std::str::from_utf8(&body).ok().and_then(|text| text.parse().ok());
    let output = body.and_then(|mut body| body.get_mut("output").map(Value::take));
    match output {
        Some(Value::Array(items)) => items.into_vec(),
        _ => Vec::new(),
    }
}

/// What items say.
fn messages(items: Vec<Value>) -> Vec<request::Message> {
    let body = Value::object([("input", Value::from(json::Array::from_iter(items)))]);
    OPENAI_RESPONSES.read_request(body).map(|Request { messages, .. }| messages).unwrap_or_default()
}
