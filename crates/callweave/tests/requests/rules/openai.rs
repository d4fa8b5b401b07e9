//! The requests that OpenAI refuses, in Chat and in Responses.

use callweave::Value;

use super::{Found, Pairing, is_word, list, names, object_schema, only, only_without_tools, text};

pub(super) fn chat(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "temperature",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "n",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "response_format",
        "reasoning_effort",
        "stream",
        "stream_options",
        "store",
        "metadata",
        "user",
        "service_tier",
        "prompt_cache_key",
        "verbosity",
        "web_search_options",
        "modalities",
    ];
    only(body, MEMBERS, "the body", found);
    settings(body, found);
    if list(body, "modalities").any(|word| *word == "audio") {
        found.push("a model that speaks without a voice".to_owned());
    }
    let model = text(body, "model").rsplit('/').next().unwrap_or_default();
    let reasons = ["gpt-5", "o1", "o3", "o4"].iter().any(|start| model.starts_with(start));
    let refused = if reasons { "max_tokens" } else { "max_completion_tokens" };
    if body.get(refused).is_some() {
        found.push(format!("a member {refused} for {}", text(body, "model")));
    }
    if !reasons {
        common(body, ["gpt-", "chatgpt-"].iter().any(|start| model.starts_with(start)), found);
    }
    if list(body, "tools").next().is_none() {
        only_without_tools(body, &["tools", "tool_choice", "parallel_tool_calls"], found);
    }
    if body.get("stream_options").is_some() && body["stream"] != true {
        found.push("options of a stream that is none".to_owned());
    }
    names(list(body, "tools").map(|tool| text(&tool[text(tool, "type")], "name")), "_-", 64, found);
    for tool in list(body, "tools") {
        only(tool, &["type", "function", "custom"], "a tool", found);
        if let Some(schema) = tool.pointer("/function/parameters") {
            object_schema(schema, found);
        }
    }
    if list(body, "messages").next().is_none() {
        found.push("no message".to_owned());
    }
    let mut pairing = Pairing::default();
    for message in list(body, "messages") {
        let mut members = vec!["role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"];
        // Only gateways before these models take it.
        members.extend(model.starts_with("claude-").then_some("thinking_blocks"));
        only(message, &members, "a message", found);
        match text(message, "role") {
            "tool" => {
                pairing.result(text(message, "tool_call_id"), found);
                let is_text = message["content"].is_string()
                    || list(message, "content").all(|part| part["type"] == "text");
                if !is_text || message.get("content").is_none() {
                    found.push("a result is no text".to_owned());
                }
                continue;
            }
            "system" | "developer" | "user" | "assistant" => pairing.turn(found),
            _ => found.push("a role is not known".to_owned()),
        }
        for part in list(message, "content") {
            if !["text", "image_url", "input_audio", "file", "refusal"].contains(&text(part, "type")) {
                found.push("a part is not known".to_owned());
            }
        }
        for call in list(message, "tool_calls") {
            let mut members = vec!["id", "type", "function", "custom"];
            members.extend(model.starts_with("gemini-").then_some("extra_content"));
            only(call, &members, "a call", found);
            if !is_word(text(call, "id"), "_-.:|", 64) {
                found.push("an id is refused".to_owned());
            }
            if call["type"] == "function" && !call["function"]["arguments"].is_string() {
                found.push("arguments are no text".to_owned());
            }
            pairing.call(text(call, "id"), found);
        }
    }
}

/// Finds faults that servers other than OpenAI's own refuse, whatever names their models have.
fn common(body: &Value, is_openai: bool, found: Found<'_>) {
    for member in ["metadata", "prompt_cache_key", "service_tier", "store", "verbosity"] {
        if body.get(member).is_some() && !is_openai {
            found.push(format!("a member {member} for a server that may not be OpenAI's"));
        }
    }
    for (number, message) in list(body, "messages").enumerate() {
        match text(message, "role") {
            "system" if number > 0 => found.push("a system message that does not lead".to_owned()),
            "developer" => found.push("a developer".to_owned()),
            _ => {}
        }
    }
    let calls = list(body, "messages").flat_map(|message| list(message, "tool_calls"));
    if list(body, "tools").chain(calls).any(|tool| tool["type"] != "function") {
        found.push("a tool that is no function".to_owned());
    }
    if body.pointer("/tool_choice/type").is_some_and(|kind| *kind != "function") {
        found.push("a choice of tools that is no function".to_owned());
    }
}

/// Finds faults that are refused in both.
fn settings(body: &Value, found: Found<'_>) {
    if text(body, "user").len() > 64 {
        found.push("the name of a user is too long".to_owned());
    }
    let thinks = body.get("reasoning_effort").is_some() || body.get("reasoning").is_some();
    let model = text(body, "model").rsplit('/').next().unwrap_or_default();
    if thinks && (model.starts_with("gpt-4") || model.starts_with("gpt-3")) {
        found.push(format!("{model} is told to think"));
    }
}

pub(super) fn responses(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "model",
        "instructions",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
        "include",
        "max_output_tokens",
        "temperature",
        "top_p",
        "top_logprobs",
        "text",
        "reasoning",
        "stream",
        "store",
        "previous_response_id",
        "metadata",
        "user",
        "service_tier",
        "prompt_cache_key",
        "context_management",
    ];
    only(body, MEMBERS, "the body", found);
    settings(body, found);
    if list(body, "tools").next().is_none() {
        only_without_tools(body, &["tools", "tool_choice", "parallel_tool_calls"], found);
    }
    let named = list(body, "tools").filter(|tool| tool["type"] != "web_search");
    names(named.map(|tool| text(tool, "name")), "_-", 64, found);
    let is_kept = body.get("previous_response_id").is_some();
    if !is_kept && !body["input"].is_string() && list(body, "input").next().is_none() {
        found.push("no input".to_owned());
    }
    let mut pairing = Pairing::default();
    for item in list(body, "input") {
        match text(item, "type") {
            "function_call" | "custom_tool_call" => {
                if !is_word(text(item, "call_id"), "_-.:|", 64) {
                    found.push("an id is refused".to_owned());
                }
                pairing.call(text(item, "call_id"), found);
            }
            "function_call_output" | "custom_tool_call_output" => {
                // The provider keeps what came before.
                if !is_kept {
                    pairing.result(text(item, "call_id"), found);
                }
                if item.get("output").is_none() {
                    found.push("a result is missing".to_owned());
                }
            }
            "message" => {
                if item["role"] != "assistant" {
                    pairing.turn(found);
                }
                let usual = if item["role"] == "assistant" { "output_text" } else { "input_text" };
                let is_known = |key: &str| item.get(key).is_some_and(Value::is_string);
                if item["role"] == "assistant"
                    && !item["content"].is_string()
                    && !(text(item, "id").starts_with("msg_") && is_known("status"))
                {
                    found.push("an answer without an id or a status".to_owned());
                }
                for part in list(item, "content") {
                    if part["type"] == "output_text" && !part["annotations"].is_array() {
                        found.push("a text of an answer without annotations".to_owned());
                    }
                    if part["type"] == "input_image" && !part["detail"].is_string() {
                        found.push("an image without detail".to_owned());
                    }
                    if ![usual, "input_image", "input_file", "refusal"].contains(&text(part, "type")) {
                        found.push(format!("a part {} of {}", part["type"], item["role"]));
                    }
                }
            }
            "reasoning" if item["summary"].is_array() && item["encrypted_content"].is_string() => {}
            other => found.push(format!("an item {other}")),
        }
    }
}
