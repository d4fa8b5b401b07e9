//! OpenAI chat streams.

use std::borrow::Cow;

use jiter::{Jiter, Peek};
use serde::Deserialize;

use super::{Collected, hand};

/// async-openai's types, which its users run.
pub(crate) fn async_openai(data: &[u8], all: &mut Collected) {
    use async_openai::types::chat::CreateChatCompletionStreamResponse;
    let Ok(chunk) = serde_json::from_slice::<CreateChatCompletionStreamResponse>(data) else { return };
    for choice in chunk.choices {
        all.text.push_str(choice.delta.content.as_deref().unwrap_or_default());
        for call in choice.delta.tool_calls.unwrap_or_default() {
            let arguments = call.function.and_then(|function| function.arguments).unwrap_or_default();
            all.call(call.index as usize).push_str(&arguments);
        }
    }
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
    reasoning: Option<Cow<'a, str>>,
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

impl Chunk<'_> {
    fn add(self, all: &mut Collected) {
        for choice in self.choices {
            all.text.push_str(choice.delta.content.as_deref().unwrap_or_default());
            all.reasoning.push_str(choice.delta.reasoning.as_deref().unwrap_or_default());
            for call in choice.delta.tool_calls {
                all.call(call.index).push_str(call.function.arguments.as_deref().unwrap_or_default());
            }
        }
    }
}

/// The smallest borrowed structs, by serde_json.
pub(crate) fn serde_json(data: &[u8], all: &mut Collected) {
    if let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) {
        chunk.add(all);
    }
}

/// The same by sonic-rs.
pub(crate) fn sonic(data: &[u8], all: &mut Collected) {
    if let Ok(chunk) = sonic_rs::from_slice::<Chunk<'_>>(data) {
        chunk.add(all);
    }
}

enum Key {
    Choices,
    Delta,
    Content,
    Reasoning,
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
            "reasoning" => Self::Reasoning,
            "tool_calls" => Self::ToolCalls,
            "index" => Self::Index,
            "function" => Self::Function,
            "arguments" => Self::Arguments,
            _ => Self::Other,
        }
    }
}

/// jiter driven by hand.
pub(crate) fn jiter(data: &[u8], all: &mut Collected) {
    let _ = hand::object(&mut Jiter::new(data), Key::of, |key, jiter| match key {
        Key::Choices => hand::array(jiter, |jiter| {
            hand::object(jiter, Key::of, |key, jiter| match key {
                Key::Delta => delta(jiter, all),
                _ => hand::skip(jiter),
            })
        }),
        _ => hand::skip(jiter),
    });
}

fn delta(jiter: &mut Jiter<'_>, all: &mut Collected) -> Option<()> {
    hand::object(jiter, Key::of, |key, jiter| match key {
        Key::Content => hand::append(jiter, &mut all.text),
        Key::Reasoning => hand::append(jiter, &mut all.reasoning),
        Key::ToolCalls if jiter.peek().ok()? == Peek::Array => hand::array(jiter, |jiter| call(jiter, all)),
        _ => hand::skip(jiter),
    })
}

fn call(jiter: &mut Jiter<'_>, all: &mut Collected) -> Option<()> {
    // The index may come after the arguments.
    let (mut index, mut arguments) = (0, std::mem::take(&mut all.scratch));
    hand::object(jiter, Key::of, |key, jiter| match key {
        Key::Index => {
            index = hand::index(jiter)?;
            Some(())
        }
        Key::Function => hand::object(jiter, Key::of, |key, jiter| match key {
            Key::Arguments => hand::append(jiter, &mut arguments),
            _ => hand::skip(jiter),
        }),
        _ => hand::skip(jiter),
    })?;
    all.call(index).push_str(&arguments);
    arguments.clear();
    all.scratch = arguments;
    Some(())
}
