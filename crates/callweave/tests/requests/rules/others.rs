//! The requests that Gemini, Ollama, Cohere and Bedrock refuse.

use std::collections::HashSet;

use callweave::Value;

use super::{Found, Pairing, alternating, is_word, list, names, only, text};

pub(super) fn gemini(body: &Value, found: Found<'_>) {
    const KEYWORDS: &[&str] = &[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "properties",
        "required",
        "propertyOrdering",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "pattern",
        "example",
        "anyOf",
        "default",
    ];
    only(
        body,
        &["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "serviceTier"],
        "the body",
        found,
    );
    let contents: Vec<&Value> = list(body, "contents").collect();
    alternating(&contents.iter().map(|content| text(content, "role")).collect::<Vec<_>>(), found);
    let mut schemas: Vec<&Value> = body.pointer("/generationConfig/responseSchema").into_iter().collect();
    for tool in list(body, "tools") {
        let functions: Vec<&Value> = list(tool, "functionDeclarations").collect();
        names(functions.iter().map(|function| text(function, "name")), "_.:-", 64, found);
        let is_lettered =
            |name: &str| name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic());
        if !functions.iter().all(|function| is_lettered(text(function, "name"))) {
            found.push("a tool's name begins with another sign than a letter".to_owned());
        }
        schemas.extend(functions.iter().filter_map(|function| function.get("parameters")));
    }
    while let Some(schema) = schemas.pop() {
        only(schema, KEYWORDS, "a schema", found);
        if schema.get("type").is_some_and(|own| !own.is_string()) {
            found.push("a schema of several types".to_owned());
        }
        if schema.get("type").is_none() && schema.get("anyOf").is_none() {
            found.push("a schema without a type".to_owned());
        }
        if text(schema, "type").eq_ignore_ascii_case("array") && !schema["items"].is_object() {
            found.push("a list without a schema of its elements".to_owned());
        }
        if list(schema, "enum").any(|value| value.as_str().is_none_or(str::is_empty)) {
            found.push("an enum of other than texts".to_owned());
        }
        schemas.extend(schema["properties"].as_object().into_iter().flat_map(|object| object.values()));
        schemas.extend(schema.get("items"));
        schemas.extend(list(schema, "anyOf"));
    }
    let count =
        |content: &Value, key: &str| list(content, "parts").filter(|part| part.get(key).is_some()).count();
    if contents.is_empty() {
        found.push("no message".to_owned());
    }
    let mut open = 0;
    for (at, content) in contents.iter().enumerate() {
        if list(content, "parts").next().is_none() {
            found.push("an empty message".to_owned());
        }
        if list(content, "parts").any(|part| part.get("text").is_some_and(|text| *text == "")) {
            found.push("a blank text".to_owned());
        }
        let results = count(content, "functionResponse");
        if results != open {
            found.push("as many results as calls are demanded".to_owned());
        }
        open = count(content, "functionCall");
        if at + 1 == contents.len() {
            open = 0;
        }
        for part in list(content, "parts") {
            if let Some(result) = part.get("functionResponse")
                && (!result["response"].is_object() || text(result, "name").is_empty())
            {
                found.push("a result without a name or an object".to_owned());
            }
        }
    }
    let _ = open;
}

pub(super) fn ollama(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] =
        &["model", "messages", "tools", "options", "logprobs", "top_logprobs", "format", "think", "stream"];
    only(body, MEMBERS, "the body", found);
    for message in list(body, "messages") {
        if !["system", "user", "assistant", "tool"].contains(&text(message, "role")) {
            found.push("a role is not known".to_owned());
        }
        if message.get("content").is_some_and(|content| !content.is_string()) {
            found.push("content is no text".to_owned());
        }
        for call in list(message, "tool_calls") {
            if !call["function"]["arguments"].is_object() {
                found.push("arguments are no object".to_owned());
            }
        }
    }
}

pub(super) fn cohere(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "model",
        "messages",
        "tools",
        "strict_tools",
        "tool_choice",
        "max_tokens",
        "stop_sequences",
        "temperature",
        "p",
        "k",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "logprobs",
        "response_format",
        "thinking",
        "stream",
    ];
    only(body, MEMBERS, "the body", found);
    names(list(body, "tools").map(|tool| text(&tool["function"], "name")), "_-", 64, found);
    for tool in list(body, "tools") {
        only(&tool["function"], &["name", "description", "parameters"], "a function", found);
    }
    if list(body, "messages").next().is_none() {
        found.push("no message".to_owned());
    }
    let mut pairing = Pairing::default();
    for message in list(body, "messages") {
        if message["role"] == "tool" {
            pairing.result(text(message, "tool_call_id"), found);
            if message.get("content").is_none() {
                found.push("a result is missing".to_owned());
            }
            continue;
        }
        pairing.turn(found);
        for call in list(message, "tool_calls") {
            pairing.call(text(call, "id"), found);
        }
    }
}

pub(super) fn converse(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "system",
        "messages",
        "toolConfig",
        "inferenceConfig",
        "additionalModelRequestFields",
        "outputConfig",
        "requestMetadata",
        "serviceTier",
    ];
    only(body, MEMBERS, "the body", found);
    let specs = list(&body["toolConfig"], "tools").filter_map(|tool| tool.get("toolSpec"));
    names(specs.map(|tool| text(tool, "name")), "_-", 64, found);
    let messages: Vec<&Value> = list(body, "messages").collect();
    alternating(&messages.iter().map(|message| text(message, "role")).collect::<Vec<_>>(), found);
    let has = |key: &str| {
        messages.iter().any(|message| list(message, "content").any(|block| block.get(key).is_some()))
    };
    match messages.first() {
        None => found.push("no message".to_owned()),
        Some(first) if first["role"] != "user" => found.push("the user does not speak first".to_owned()),
        Some(_) => {}
    }
    if (has("toolUse") || has("toolResult")) && list(&body["toolConfig"], "tools").next().is_none() {
        found.push("calls without tools".to_owned());
    }
    let mut documents = HashSet::new();
    let mut pairing = Pairing::default();
    for message in messages {
        if list(message, "content").next().is_none() {
            found.push("an empty message".to_owned());
        }
        for block in list(message, "content") {
            if block.get("text").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty()) {
                found.push("a blank text".to_owned());
            }
            if let Some(name) = block.pointer("/document/name").and_then(Value::as_str) {
                let is_known = |own: char| own.is_ascii_alphanumeric() || " -()[]".contains(own);
                if !name.chars().all(is_known) || name.contains("  ") || !documents.insert(name.to_owned()) {
                    found.push("a document's name is refused".to_owned());
                }
            }
            if let Some(result) = block.get("toolResult") {
                pairing.result(text(result, "toolUseId"), found);
                if list(result, "content").next().is_none() {
                    found.push("a result is missing".to_owned());
                }
            }
        }
        pairing.turn(found);
        for call in list(message, "content").filter_map(|block| block.get("toolUse")) {
            if !is_word(text(call, "toolUseId"), "_-", 64) {
                found.push("an id is refused".to_owned());
            }
            pairing.call(text(call, "toolUseId"), found);
        }
    }
}
