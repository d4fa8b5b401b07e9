//! The client's requests and its history, in its own protocol.

use std::collections::BTreeMap;

use callweave::Value;
use callweave::json::Object;

use super::json;

/// Returns the client's first request.
pub(super) fn asked(client: &str, is_streamed: bool) -> Value {
    let schema = r#"{"type": "object", "properties": {"q": {"type": "string"}}}"#;
    let long = format!("look_{}", "x".repeat(90));
    let mut body = json(&match client {
        "openai-chat" => format!(
            r#"{{"model": "m", "reasoning_effort": "high", "messages": [{{"role": "system", "content": "Be brief."}}, {{"role": "user", "content": "go"}}],
            "tools": [{{"type": "function", "function": {{"name": "look", "parameters": {schema}}}}}, {{"type": "custom", "custom": {{"name": "patch"}}}}]}}"#
        ),
        "openai-responses" => format!(
            r#"{{"model": "m", "instructions": "Be brief.", "reasoning": {{"effort": "high"}}, "store": false, "input": [{{"role": "user", "content": "go"}}],
            "tools": [{{"type": "function", "name": "look", "strict": false, "parameters": {schema}}}, {{"type": "custom", "name": "patch"}},
            {{"type": "namespace", "name": "mcp", "description": "d", "tools": [{{"type": "function", "name": "look", "strict": false, "parameters": {schema}}}]}}]}}"#
        ),
        "anthropic-messages" => format!(
            r#"{{"model": "m", "max_tokens": 9000, "thinking": {{"type": "enabled", "budget_tokens": 2000}}, "system": "Be brief.", "messages": [{{"role": "user", "content": "go"}}],
            "tools": [{{"name": "look", "input_schema": {schema}}}, {{"name": "{long}", "input_schema": {schema}}}]}}"#
        ),
        _ => format!(
            r#"{{"systemInstruction": {{"parts": [{{"text": "Be brief."}}]}}, "contents": [{{"role": "user", "parts": [{{"text": "go"}}]}}],
            "generationConfig": {{"thinkingConfig": {{"includeThoughts": true, "thinkingBudget": 2000}}}},
            "tools": [{{"functionDeclarations": [{{"name": "look", "parameters": {schema}}}, {{"name": "files.read:all", "parameters": {schema}}}]}}]}}"#
        ),
    });
    if client != "gemini-generatecontent" {
        body.as_object_mut().expect("an object").insert("stream", is_streamed);
    }
    body
}

fn frames(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).expect("text");
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(json)
        .collect()
}

/// Adds the response to the client's history, and the results of the calls: those of a round by turns first to last and
/// last to first.
pub(super) fn keep(client: &str, history: &mut Value, answer: &[u8], is_streamed: bool, round: usize) {
    let whole = || json(std::str::from_utf8(answer).expect("text"));
    let list = match client {
        "openai-responses" => "input",
        "gemini-generatecontent" => "contents",
        _ => "messages",
    };
    let mut said = match client {
        "openai-chat" if is_streamed => vec![joined_chat(&frames(answer))],
        "openai-chat" => vec![whole().pointer("/choices/0/message").expect("a message").clone()],
        "openai-responses" => {
            let body = if is_streamed {
                frames(answer).pop().expect("a last event")["response"].clone()
            } else {
                whole()
            };
            body["output"].as_array().expect("items").iter().cloned().collect()
        }
        "anthropic-messages" => {
            let content =
                if is_streamed { joined_blocks(&frames(answer)) } else { whole()["content"].clone() };
            vec![Value::object([("role", "assistant".into()), ("content", content)])]
        }
        _ => {
            let chunks = if is_streamed { frames(answer) } else { vec![whole()] };
            let parts: Value = chunks
                .iter()
                .filter_map(|chunk| chunk.pointer("/candidates/0/content/parts")?.as_array())
                .flatten()
                .cloned()
                .collect();
            vec![Value::object([("role", "model".into()), ("parts", parts)])]
        }
    };
    let mut results = Vec::new();
    for (at, call) in kept_calls(client, &said).into_iter().enumerate() {
        let told = format!("result {round} {at}");
        let own = |text: &str| Value::from(text);
        let id = call.id.as_deref().unwrap_or_default();
        results.push(match client {
            "openai-chat" => {
                Value::object([("role", own("tool")), ("tool_call_id", own(id)), ("content", own(&told))])
            }
            "openai-responses" => {
                let word = if call.is_custom { "custom_tool_call_output" } else { "function_call_output" };
                Value::object([("type", own(word)), ("call_id", own(id)), ("output", own(&told))])
            }
            "anthropic-messages" => Value::object([
                ("type", own("tool_result")),
                ("tool_use_id", own(id)),
                ("content", own(&told)),
            ]),
            _ => {
                let mut response = Object::from_iter([("name", own(&call.name))]);
                if let Some(id) = &call.id {
                    response.insert("id", id.as_str());
                }
                response.insert("response", Value::object([("output", own(&told))]));
                Value::object([("functionResponse", response.into())])
            }
        });
    }
    if round % 2 == 1 && client != "gemini-generatecontent" {
        results.reverse();
    }
    match client {
        "anthropic-messages" => {
            said.push(Value::object([("role", "user".into()), ("content", results.into())]));
        }
        "gemini-generatecontent" => {
            said.push(Value::object([("role", "user".into()), ("parts", results.into())]));
        }
        _ => said.extend(results),
    }
    history[list].as_array().expect("a list");
    if let Some(Value::Array(all)) = history.get_mut(list) {
        all.extend(said);
    }
}

/// A call as the client has it.
pub(super) struct KeptCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) is_custom: bool,
    pub(super) input: String,
}

/// The calls in what a client keeps, by its own words.
pub(super) fn kept_calls(client: &str, said: &[Value]) -> Vec<KeptCall> {
    let own = |value: &Value| value.as_str().map(str::to_owned);
    match client {
        "openai-chat" => said[0]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|call| {
                let is_custom = call["type"] == "custom";
                let (kind, key) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
                KeptCall {
                    id: own(&call["id"]),
                    name: own(&call[kind]["name"]).expect("a name"),
                    namespace: None,
                    is_custom,
                    input: own(&call[kind][key]).expect("arguments"),
                }
            })
            .collect(),
        "openai-responses" => said
            .iter()
            .filter(|item| item["type"].as_str().is_some_and(|word| word.ends_with("_call")))
            .map(|item| {
                let is_custom = item["type"] == "custom_tool_call";
                KeptCall {
                    id: own(&item["call_id"]),
                    name: own(&item["name"]).expect("a name"),
                    namespace: item.get("namespace").and_then(own),
                    is_custom,
                    input: own(&item[if is_custom { "input" } else { "arguments" }]).expect("arguments"),
                }
            })
            .collect(),
        "anthropic-messages" => said[0]["content"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| KeptCall {
                id: own(&block["id"]),
                name: own(&block["name"]).expect("a name"),
                namespace: None,
                is_custom: false,
                input: block["input"].to_string(),
            })
            .collect(),
        _ => said[0]["parts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| part.get("functionCall"))
            .map(|call| KeptCall {
                id: call.get("id").and_then(own),
                name: own(&call["name"]).expect("a name"),
                namespace: None,
                is_custom: false,
                input: call["args"].to_string(),
            })
            .collect(),
    }
}

/// The message that the chunks of a stream make, as clients join them.
fn joined_chat(chunks: &[Value]) -> Value {
    let (mut texts, mut calls) = (BTreeMap::<&str, String>::new(), BTreeMap::<u64, Value>::new());
    for delta in chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta")) {
        for key in ["content", "reasoning_content"] {
            if let Some(text) = delta.get(key).and_then(Value::as_str) {
                texts.entry(key).or_default().push_str(text);
            }
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let index = call["index"].as_u64().expect("an index");
            let Some(kept) = calls.get_mut(&index) else {
                let mut call = call.clone();
                call.as_object_mut().expect("an object").remove("index");
                calls.insert(index, call);
                continue;
            };
            for (kind, key) in [("function", "arguments"), ("custom", "input")] {
                let Some(more) = call.get(kind).and_then(|own| own.get(key)).and_then(Value::as_str) else {
                    continue;
                };
                let place = kept.get_mut(kind).and_then(|own| own.get_mut(key)).expect("a start");
                *place = format!("{}{more}", place.as_str().unwrap_or_default()).into();
            }
        }
    }
    let mut message = Object::from_iter([("role", "assistant")]);
    for (key, text) in texts {
        message.insert(key, text);
    }
    message.insert("tool_calls", calls.into_values().collect::<Vec<_>>());
    message.into()
}

/// The blocks that the events of a stream make, as clients join them.
fn joined_blocks(events: &[Value]) -> Value {
    let mut blocks: Vec<(Value, String)> = Vec::new();
    for event in events {
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(event["index"].as_u64(), Some(blocks.len() as u64));
                blocks.push((event["content_block"].clone(), String::new()));
            }
            "content_block_delta" => {
                let (block, input) = &mut blocks[event["index"].as_u64().expect("an index") as usize];
                let delta = &event["delta"];
                if let Some(json) = delta.get("partial_json").and_then(Value::as_str) {
                    input.push_str(json);
                }
                for key in ["text", "thinking", "signature"] {
                    if let Some(more) = delta.get(key).and_then(Value::as_str) {
                        let before = block[key].as_str().unwrap_or_default().to_owned();
                        block.as_object_mut().expect("a block").insert(key, before + more);
                    }
                }
            }
            _ => {}
        }
    }
    blocks
        .into_iter()
        .map(|(mut block, input)| {
            if !input.is_empty() {
                block.as_object_mut().expect("a block").insert("input", json(&input));
            }
            block
        })
        .collect()
}
