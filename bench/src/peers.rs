//! The pipelines that people build by hand. Each gives the text and the argument texts, so that nobody is
//! measured on work it does not do.

use std::borrow::Cow;

use eventsource_stream::Eventsource;
use futures::StreamExt;
use jiter::{Jiter, NumberInt, Peek};
use serde::Deserialize;

/// What a pipeline collects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The visible text.
    pub text: String,
    /// The argument text of each call.
    pub arguments: Vec<String>,
}

impl Collected {
    fn call(&mut self, index: usize) -> &mut String {
        if self.arguments.len() <= index {
            self.arguments.resize_with(index + 1, String::new);
        }
        &mut self.arguments[index]
    }
}

/// The data lines of an SSE body, found with memchr.
fn data_lines(body: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = body.get(at..).filter(|rest| !rest.is_empty())?;
            let end = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            at += end + 1;
            if let Some(data) = rest[..end].strip_prefix("data: ").filter(|data| *data != "[DONE]") {
                return Some(data);
            }
        }
    })
}

/// Events of 64 KiB reads, as an HTTP client delivers them.
fn reads(body: &str) -> impl futures::Stream<Item = Result<&[u8], std::convert::Infallible>> {
    futures::stream::iter(body.as_bytes().chunks(64 * 1024).map(Ok))
}

/// eventsource-stream and async-openai's types: what its users run.
pub fn chat_async_openai(body: &str) -> Collected {
    use async_openai::types::chat::CreateChatCompletionStreamResponse;
    let mut all = Collected::default();
    let mut events = reads(body).eventsource();
    futures::executor::block_on(async {
        while let Some(Ok(event)) = events.next().await {
            let Ok(chunk) = serde_json::from_str::<CreateChatCompletionStreamResponse>(&event.data) else {
                continue;
            };
            for choice in chunk.choices {
                all.text.push_str(choice.delta.content.as_deref().unwrap_or_default());
                for call in choice.delta.tool_calls.unwrap_or_default() {
                    let arguments = call.function.and_then(|function| function.arguments).unwrap_or_default();
                    all.call(call.index as usize).push_str(&arguments);
                }
            }
        }
    });
    all
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    index: usize,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
}

/// memchr and the smallest borrowed serde structs.
pub fn chat_serde(body: &str) -> Collected {
    let mut all = Collected::default();
    for data in data_lines(body) {
        let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(data) else { continue };
        for choice in chunk.choices {
            all.text.push_str(choice.delta.content.as_deref().unwrap_or_default());
            for call in choice.delta.tool_calls {
                all.call(call.index).push_str(call.function.arguments.as_deref().unwrap_or_default());
            }
        }
    }
    all
}

/// memchr and jiter driven by hand: the fastest that is written from existing crates.
pub fn chat_jiter(body: &str) -> Collected {
    let mut all = Collected::default();
    for data in data_lines(body) {
        let _ = chat_jiter_chunk(data, &mut all);
    }
    all
}

/// jiter's keys borrow the parser; a word is enough to go on.
#[derive(PartialEq, Eq)]
enum Key {
    Choices,
    Delta,
    Content,
    ToolCalls,
    Index,
    Function,
    Arguments,
    Other,
}

impl Key {
    fn of(name: &str) -> Self {
        match name {
            "choices" => Self::Choices,
            "delta" => Self::Delta,
            "content" => Self::Content,
            "tool_calls" => Self::ToolCalls,
            "index" => Self::Index,
            "function" => Self::Function,
            "arguments" => Self::Arguments,
            _ => Self::Other,
        }
    }
}

fn chat_jiter_chunk(data: &str, all: &mut Collected) -> Option<()> {
    let mut jiter = Jiter::new(data.as_bytes());
    let mut key = jiter.next_object().ok()?.map(Key::of);
    while let Some(name) = key {
        if name == Key::Choices {
            let mut element = jiter.next_array().ok()?;
            while element.is_some() {
                jiter_choice(&mut jiter, all)?;
                element = jiter.array_step().ok()?;
            }
        } else {
            jiter.next_skip().ok()?;
        }
        key = jiter.next_key().ok()?.map(Key::of);
    }
    Some(())
}

fn jiter_choice(jiter: &mut Jiter<'_>, all: &mut Collected) -> Option<()> {
    let mut key = jiter.next_object().ok()?.map(Key::of);
    while let Some(name) = key {
        if name == Key::Delta {
            let mut key = jiter.next_object().ok()?.map(Key::of);
            while let Some(name) = key {
                match (name, jiter.peek().ok()?) {
                    (Key::Content, Peek::String) => all.text.push_str(jiter.known_str().ok()?),
                    (Key::ToolCalls, Peek::Array) => {
                        let mut element = jiter.known_array().ok()?;
                        while element.is_some() {
                            jiter_call(jiter, all)?;
                            element = jiter.array_step().ok()?;
                        }
                    }
                    _ => jiter.next_skip().ok()?,
                }
                key = jiter.next_key().ok()?.map(Key::of);
            }
        } else {
            jiter.next_skip().ok()?;
        }
        key = jiter.next_key().ok()?.map(Key::of);
    }
    Some(())
}

fn jiter_call(jiter: &mut Jiter<'_>, all: &mut Collected) -> Option<()> {
    let mut index = 0;
    let mut key = jiter.next_object().ok()?.map(Key::of);
    while let Some(name) = key {
        match name {
            Key::Index => {
                if let NumberInt::Int(number) = jiter.next_int().ok()? {
                    index = usize::try_from(number).ok()?;
                }
            }
            Key::Function => {
                let mut key = jiter.next_object().ok()?.map(Key::of);
                while let Some(name) = key {
                    match name {
                        Key::Arguments => {
                            let text = jiter.next_str().ok()?;
                            all.call(index).push_str(text);
                        }
                        _ => jiter.next_skip().ok()?,
                    }
                    key = jiter.next_key().ok()?.map(Key::of);
                }
            }
            _ => jiter.next_skip().ok()?,
        }
        key = jiter.next_key().ok()?.map(Key::of);
    }
    Some(())
}

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(borrow, rename = "type")]
    name: &'a str,
    #[serde(default)]
    index: usize,
    #[serde(borrow, default)]
    delta: Option<AnthropicDelta<'a>>,
}

#[derive(Deserialize)]
struct AnthropicDelta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
}

/// memchr and the smallest borrowed serde structs.
pub fn anthropic_serde(body: &str) -> Collected {
    let mut all = Collected::default();
    for data in data_lines(body) {
        anthropic_event(data, &mut all);
    }
    all.arguments.retain(|arguments| !arguments.is_empty());
    all
}

/// eventsource-stream and the smallest borrowed serde structs.
pub fn anthropic_eventsource(body: &str) -> Collected {
    let mut all = Collected::default();
    let mut events = reads(body).eventsource();
    futures::executor::block_on(async {
        while let Some(Ok(event)) = events.next().await {
            anthropic_event(&event.data, &mut all);
        }
    });
    all.arguments.retain(|arguments| !arguments.is_empty());
    all
}

fn anthropic_event(data: &str, all: &mut Collected) {
    let Ok(event) = serde_json::from_str::<AnthropicEvent<'_>>(data) else { return };
    if event.name != "content_block_delta" {
        return;
    }
    let Some(delta) = event.delta else { return };
    all.text.push_str(delta.text.as_deref().unwrap_or_default());
    if let Some(json) = delta.partial_json {
        all.call(event.index).push_str(&json);
    }
}

/// callweave, bytes to message.
pub fn callweave(body: &str, protocol: &'static callweave::protocol::Protocol) -> Collected {
    let message = callweave::pipeline::decode_as(protocol, body.as_bytes()).unwrap_or_default();
    Collected {
        text: message.text().into_owned(),
        arguments: message.tool_calls().map(|call| call.raw_arguments.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams;

    #[test]
    fn every_pipeline_collects_the_same() {
        let chat = streams::chat(200);
        let protocol = callweave::protocol::Protocol::named("openai-chat").expect("in the table");
        let ours = callweave(&chat, protocol);
        assert_eq!(ours.arguments.len(), 4);
        assert_eq!(ours, chat_async_openai(&chat));
        assert_eq!(ours, chat_serde(&chat));
        assert_eq!(ours, chat_jiter(&chat));
        let anthropic = streams::anthropic(200);
        let protocol = callweave::protocol::Protocol::named("anthropic-messages").expect("in the table");
        let ours = callweave(&anthropic, protocol);
        assert_eq!(ours, anthropic_serde(&anthropic));
        assert_eq!(ours, anthropic_eventsource(&anthropic));
    }
}
