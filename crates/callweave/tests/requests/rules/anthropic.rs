//! The requests that Anthropic refuses.

use callweave::Value;

use super::{
    Found, Pairing, alternating, is_word, list, names, object_schema, only, only_without_tools, text,
};

pub(super) fn anthropic(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "model",
        "system",
        "messages",
        "tools",
        "tool_choice",
        "stop_sequences",
        "temperature",
        "top_p",
        "top_k",
        "thinking",
        "output_config",
        "max_tokens",
        "stream",
        "metadata",
        "service_tier",
        "context_management",
    ];
    only(body, MEMBERS, "the body", found);
    if body.get("service_tier").is_some_and(|tier| *tier != "auto" && *tier != "standard_only") {
        found.push("a tier is not known".to_owned());
    }
    let model = text(body, "model");
    let is_older =
        ["claude-3", "claude-sonnet-4-2", "claude-opus-4-2"].iter().any(|older| model.contains(older));
    let has_both = body.get("temperature").is_some() && body.get("top_p").is_some();
    if has_both && model.contains("claude") && !is_older {
        found.push("temperature and top_p together".to_owned());
    }
    if body["metadata"].get("user_id").and_then(Value::as_str).is_some_and(|user| user.len() > 256) {
        found.push("the name of a user is too long".to_owned());
    }
    let Some(most) = body["max_tokens"].as_u64() else {
        found.push("max_tokens is missing".to_owned());
        return;
    };
    if let Some(budget) = body["thinking"].get("budget_tokens").and_then(Value::as_u64)
        && !(1024..most).contains(&budget)
    {
        found.push("the budget is refused".to_owned());
    }
    if list(body, "tools").next().is_none() {
        only_without_tools(body, &["tools", "tool_choice"], found);
    }
    names(list(body, "tools").map(|tool| text(tool, "name")), "_-", 128, found);
    for tool in list(body, "tools").filter(|tool| tool.get("type").is_none()) {
        object_schema(&tool["input_schema"], found);
        if ["anyOf", "oneOf", "allOf"].iter().any(|union| tool["input_schema"].get(*union).is_some()) {
            found.push("a union at the root of a schema".to_owned());
        }
        schema(&tool["input_schema"], tool["strict"] == true, found);
    }
    let messages: Vec<&Value> = list(body, "messages").collect();
    match messages.first() {
        None => found.push("no message".to_owned()),
        Some(first) if first["role"] != "user" => found.push("the user does not speak first".to_owned()),
        Some(_) => {}
    }
    alternating(&messages.iter().map(|message| text(message, "role")).collect::<Vec<_>>(), found);
    let mut marks = 0;
    blocks(body, "system", &mut marks, found);
    let has_calls =
        messages.iter().any(|message| list(message, "content").any(|block| block["type"] == "tool_use"));
    if has_calls && list(body, "tools").next().is_none() {
        found.push("calls without tools".to_owned());
    }
    let thinks = body["thinking"].get("type").is_some_and(|word| *word == "enabled");
    if thinks && is_thoughtless(&messages) {
        found.push("calls that no thought leads to".to_owned());
    }
    let is_forced = body["tool_choice"].get("type").is_some_and(|word| *word == "any" || *word == "tool");
    if thinks && is_forced {
        found.push("a tool is forced on a model that thinks".to_owned());
    }
    let mut pairing = Pairing::default();
    for message in messages {
        if !["user", "assistant"].contains(&text(message, "role")) {
            found.push("a role is not known".to_owned());
        }
        let is_empty = list(message, "content").next().is_none();
        if is_empty {
            found.push("an empty message".to_owned());
        }
        blocks(message, "content", &mut marks, found);
        let mut has_spoken = false;
        for block in list(message, "content") {
            if block["type"] == "tool_result" {
                if has_spoken {
                    found.push("a result is not first".to_owned());
                }
                pairing.result(text(block, "tool_use_id"), found);
                blocks(block, "content", &mut marks, found);
            } else {
                has_spoken = true;
            }
        }
        pairing.turn(found);
        for block in list(message, "content").filter(|block| block["type"] == "tool_use") {
            if !is_word(text(block, "id"), "_-", 128) {
                found.push("an id is refused".to_owned());
            }
            if !block["input"].is_object() {
                found.push("arguments are no object".to_owned());
            }
            pairing.call(text(block, "id"), found);
        }
    }
}

/// Newer drafts know no lists of items, and strict objects allow no other members.
fn schema(root: &Value, is_strict: bool, found: Found<'_>) {
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        if schema.get("items").is_some_and(Value::is_array) {
            found.push("a list of items".to_owned());
        }
        let is_object = schema["type"] == "object" || schema.get("properties").is_some();
        if is_strict && is_object && schema.get("additionalProperties").is_none_or(|others| *others != false)
        {
            found.push("a strict object that allows other members".to_owned());
        }
        open.extend(schema["properties"].as_object().into_iter().flat_map(|object| object.values()));
        open.extend(schema.get("items"));
        open.extend(["anyOf", "prefixItems"].iter().flat_map(|key| list(schema, key)));
    }
}

/// Whether the model's last message begins without reasoning, and its calls are answered just now.
fn is_thoughtless(messages: &[&Value]) -> bool {
    let [.., said, answered] = messages else { return false };
    list(answered, "content").any(|block| block["type"] == "tool_result")
        && list(said, "content").next().is_some_and(|block| !text(block, "type").ends_with("thinking"))
}

fn blocks(holder: &Value, key: &str, marks: &mut usize, found: Found<'_>) {
    for block in list(holder, key) {
        match text(block, "type") {
            "text" if text(block, "text").trim().is_empty() => found.push("a blank text".to_owned()),
            "thinking" if block["signature"].as_str().is_none_or(str::is_empty) => {
                found.push("a thought is not signed".to_owned());
            }
            "text" | "image" | "document" | "thinking" | "redacted_thinking" | "tool_use" | "tool_result" => {
            }
            other => found.push(format!("a block {other}")),
        }
        *marks += usize::from(block.get("cache_control").is_some());
        if text(block, "type").ends_with("thinking") && block.get("cache_control").is_some() {
            found.push("a thought is marked for caching".to_owned());
        }
    }
}
