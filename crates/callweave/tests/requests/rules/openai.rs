//! What OpenAI refuses, in Chat and in Responses.

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
    ];
    only(body, MEMBERS, "the body", found);
    let reasons = ["gpt-5", "o1", "o3", "o4"].iter().any(|start| text(body, "model").starts_with(start));
    let refused = if reasons { "max_tokens" } else { "max_completion_tokens" };
    if body.get(refused).is_some() {
        found.push(format!("a member {refused} for {}", text(body, "model")));
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
    let has_calls = list(body, "messages").any(|message| list(message, "tool_calls").next().is_some());
    let mut pairing = Pairing::default();
    for message in list(body, "messages") {
        only(
            message,
            &["role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"],
            "a message",
            found,
        );
        match text(message, "role") {
            "tool" => {
                pairing.result(text(message, "tool_call_id"), has_calls, found);
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
            only(call, &["id", "type", "function", "custom"], "a call", found);
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
    if list(body, "tools").next().is_none() {
        only_without_tools(body, &["tools", "tool_choice", "parallel_tool_calls"], found);
    }
    let named = list(body, "tools").filter(|tool| tool["type"] != "web_search");
    names(named.map(|tool| text(tool, "name")), "_-", 64, found);
    let is_call = |item: &Value| text(item, "type").ends_with("_call");
    let has_calls = list(body, "input").any(is_call);
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
                pairing.result(text(item, "call_id"), has_calls, found);
                if item.get("output").is_none() {
                    found.push("a result is missing".to_owned());
                }
            }
            "message" => {
                if item["role"] != "assistant" {
                    pairing.turn(found);
                }
                let usual = if item["role"] == "assistant" { "output_text" } else { "input_text" };
                for part in list(item, "content") {
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
