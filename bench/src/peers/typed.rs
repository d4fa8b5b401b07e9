//! serde_json into typed structs that have everything a message of ours has of the same response.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Collected;

type Text<'a> = Option<Cow<'a, str>>;

/// Keeps the first text.
fn keep(told: Text<'_>, kept: &mut String) {
    if let Some(told) = told
        && kept.is_empty()
    {
        *kept = told.into_owned();
    }
}

#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    choices: Vec<ChatChoice<'a>>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(borrow, default)]
    service_tier: Text<'a>,
    #[serde(borrow, default)]
    system_fingerprint: Text<'a>,
    #[serde(default)]
    created: Option<u64>,
}

#[derive(Deserialize)]
struct ChatUsage {
    completion_tokens: u64,
    prompt_tokens: u64,
}

#[derive(Deserialize)]
struct ChatChoice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow, alias = "message")]
    delta: ChatDelta<'a>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow, default)]
    role: Text<'a>,
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    reasoning: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    tool_calls: Vec<ChatCall<'a>>,
}

#[derive(Deserialize)]
struct ChatCall<'a> {
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow)]
    function: ChatFunction<'a>,
}

#[derive(Deserialize)]
struct ChatFunction<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Text<'a>,
}

/// A chunk of a chat stream, or a complete chat response.
pub(crate) fn chat(data: &[u8], all: &mut Collected) {
    let Ok(chunk) = serde_json::from_slice::<Chat<'_>>(data) else { return };
    std::hint::black_box((&chunk.service_tier, &chunk.system_fingerprint, chunk.created));
    keep(chunk.id, &mut all.id);
    keep(chunk.model, &mut all.model);
    for choice in chunk.choices {
        let ChatDelta { role, content, reasoning, refusal, tool_calls } = choice.delta;
        std::hint::black_box((choice.index, &choice.finish_reason, &role, &refusal));
        all.text.push_str(content.as_deref().unwrap_or_default());
        all.reasoning.push_str(reasoning.as_deref().unwrap_or_default());
        for (position, call) in tool_calls.into_iter().enumerate() {
            std::hint::black_box(&call.id);
            all.names.extend(call.function.name.map(Cow::into_owned));
            let arguments = call.function.arguments.unwrap_or_default();
            all.call(call.index.unwrap_or(position)).push_str(&arguments);
        }
    }
    if let Some(usage) = chunk.usage {
        std::hint::black_box(usage.prompt_tokens);
        all.output_tokens = usage.completion_tokens;
    }
}

#[derive(Deserialize)]
struct Anthropic<'a> {
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
    #[serde(default)]
    index: usize,
    #[serde(borrow, default)]
    message: Option<AnthropicMessage<'a>>,
    #[serde(borrow, default)]
    content_block: Option<AnthropicBlock<'a>>,
    #[serde(borrow, default)]
    delta: Option<AnthropicDelta<'a>>,
    #[serde(default)]
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
struct AnthropicMessage<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    model: Text<'a>,
}

#[derive(Deserialize)]
struct AnthropicBlock<'a> {
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default, rename = "name")]
    tool: Text<'a>,
}

#[derive(Deserialize)]
struct AnthropicDelta<'a> {
    #[serde(borrow, default, rename = "type")]
    name: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    partial_json: Text<'a>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
}

#[derive(Deserialize)]
struct AnthropicUsage {
    output_tokens: u64,
}

/// An event of an Anthropic stream.
pub(crate) fn anthropic(data: &[u8], all: &mut Collected) {
    let Ok(event) = serde_json::from_slice::<Anthropic<'_>>(data) else { return };
    std::hint::black_box(&event.name);
    if let Some(message) = event.message {
        keep(message.id, &mut all.id);
        keep(message.model, &mut all.model);
    }
    if let Some(block) = event.content_block {
        std::hint::black_box((&block.name, &block.id));
        all.names.extend(block.tool.map(Cow::into_owned));
    }
    if let Some(delta) = event.delta {
        std::hint::black_box((&delta.name, &delta.stop_reason));
        all.text.push_str(delta.text.as_deref().unwrap_or_default());
        all.reasoning.push_str(delta.thinking.as_deref().unwrap_or_default());
        if let Some(json) = delta.partial_json {
            all.call(event.index).push_str(&json);
        }
    }
    if let Some(usage) = event.usage {
        all.output_tokens = usage.output_tokens;
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gemini<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
    #[serde(borrow, default)]
    response_id: Text<'a>,
    #[serde(borrow, default)]
    model_version: Text<'a>,
    #[serde(default)]
    usage_metadata: Option<GeminiUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiUsage {
    #[serde(default)]
    candidates_token_count: u64,
    #[serde(default)]
    prompt_token_count: u64,
    #[serde(default)]
    total_token_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    content: GeminiContent<'a>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
}

#[derive(Deserialize)]
struct GeminiContent<'a> {
    #[serde(borrow, default)]
    role: Text<'a>,
    #[serde(borrow, default)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow, default)]
    function_call: Option<GeminiCall<'a>>,
}

#[derive(Deserialize)]
struct GeminiCall<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// A chunk of a Gemini stream.
pub(crate) fn gemini(data: &[u8], all: &mut Collected) {
    let Ok(chunk) = serde_json::from_slice::<Gemini<'_>>(data) else { return };
    keep(chunk.response_id, &mut all.id);
    keep(chunk.model_version, &mut all.model);
    for candidate in chunk.candidates {
        std::hint::black_box((candidate.index, &candidate.finish_reason, &candidate.content.role));
        for part in candidate.content.parts {
            let text = part.text.as_deref().unwrap_or_default();
            if part.thought { &mut all.reasoning } else { &mut all.text }.push_str(text);
            if let Some(call) = part.function_call {
                std::hint::black_box(&call.id);
                all.names.push(call.name.into_owned());
                all.arguments.push(call.args.map(RawValue::get).unwrap_or_default().to_owned());
            }
        }
    }
    if let Some(usage) = chunk.usage_metadata {
        std::hint::black_box((usage.prompt_token_count, usage.total_token_count));
        all.output_tokens = usage.candidates_token_count;
    }
}

/// A complete body: one event, and no lines.
pub(crate) fn whole(data: &[u8], read: fn(&[u8], &mut Collected)) -> super::Outcome {
    let mut all = Collected::default();
    read(data, &mut all);
    super::Outcome::Collected(all)
}
