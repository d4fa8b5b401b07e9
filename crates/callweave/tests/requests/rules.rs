//! What providers refuse, as code: everything that is written for another provider keeps its rules.
//!
//! The rules are those that providers tell in their errors and client libraries in their types: names and ids, the order
//! of calls and results, who may speak when, what a text, a schema and a body may hold.

use std::collections::{BTreeMap, HashSet};

use callweave::Value;
use callweave::protocol::TABLE;
use callweave::request::RequestOptions;

use super::{own, protocol, recorded};

/// Violations as they are found.
type Found<'f> = &'f mut Vec<String>;

/// Looks for violations in a body.
type Rules = fn(&Value, Found<'_>);

/// The rules of each protocol's own provider.
const RULES: &[(&str, Rules)] = &[
    ("openai-chat", chat),
    ("openai-responses", responses),
    ("anthropic-messages", anthropic),
    ("gemini-generatecontent", gemini),
    ("ollama", ollama),
    ("cohere-v2", cohere),
    ("bedrock-converse", converse),
];

#[test]
fn what_is_written_for_another_provider_keeps_its_rules() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for (name, rules) in RULES {
            let target = protocol(name).expect("a protocol with requests");
            if target == sample.protocol {
                continue;
            }
            let written = target.write_request(&request, &RequestOptions::default()).expect("a body");
            let mut violations = Vec::new();
            rules(&written.body, &mut violations);
            count += 1;
            for violation in violations {
                found.entry(format!("{name}: {violation}")).or_default().push(sample.title.clone());
            }
        }
    }
    println!("{count} translations keep their rules");
    let lines: Vec<String> = found
        .iter()
        .map(|(what, titles)| format!("{what}: {} bodies, such as {}", titles.len(), titles[0]))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// What else providers that speak OpenAI's Chat refuse.
#[test]
fn what_is_written_for_a_provider_of_anothers_protocol_keeps_its_rules() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    let rows: &[(&str, Rules)] = &[
        ("mistral", mistral),
        ("deepseek", thinking_kept),
        ("moonshot", thinking_kept),
        ("groq", thinking_refused),
        ("cerebras", thinking_refused),
    ];
    for sample in own().into_iter().chain(recorded()).filter(|sample| sample.protocol != chat) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for (provider, rules) in rows {
            let mut options = RequestOptions::default();
            options.provider = Some((*provider).to_owned());
            let written = chat.write_request(&request, &options).expect("a body");
            let mut violations = Vec::new();
            rules(&written.body, &mut violations);
            assert!(violations.is_empty(), "{} for {provider}: {violations:?}", sample.title);
        }
    }
}

fn mistral(body: &Value, found: Found<'_>) {
    for member in ["max_completion_tokens", "stream_options", "seed"] {
        if body.get(member).is_some() {
            found.push(format!("a member {member}"));
        }
    }
    thinking_refused(body, found);
    let messages: Vec<&Value> = list(body, "messages").collect();
    for pair in messages.windows(2) {
        if pair[0]["role"] == "tool" && pair[1]["role"] == "user" {
            found.push("the user speaks after a tool".to_owned());
        }
    }
    let ids = messages.iter().flat_map(|message| list(message, "tool_calls")).map(|call| text(call, "id"));
    let results = messages.iter().filter_map(|message| message["tool_call_id"].as_str());
    for id in ids.chain(results) {
        if id.len() != 9 || !is_word(id, "", 9) {
            found.push(format!("an id {id}"));
        }
    }
}

fn thinking_kept(body: &Value, found: Found<'_>) {
    for message in list(body, "messages") {
        if list(message, "tool_calls").next().is_some() && !message["reasoning_content"].is_string() {
            found.push("calls without a thought".to_owned());
        }
    }
}

fn thinking_refused(body: &Value, found: Found<'_>) {
    if list(body, "messages").any(|message| message.get("reasoning_content").is_some()) {
        found.push("a thought".to_owned());
    }
}

#[test]
fn every_protocol_with_requests_has_rules() {
    let with_requests = TABLE.iter().filter(|protocol| protocol.has_requests());
    for protocol in with_requests {
        assert!(RULES.iter().any(|(name, _)| *name == protocol.name), "{}", protocol.name);
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn only(body: &Value, keys: &[&str], what: &str, found: Found<'_>) {
    for key in body.as_object().into_iter().flat_map(|object| object.keys()) {
        if !keys.contains(&key) {
            found.push(format!("{what} has a member {key}"));
        }
    }
}

fn is_word(word: &str, others: &str, most: usize) -> bool {
    (1..=most).contains(&word.len())
        && word.chars().all(|own| own.is_ascii_alphanumeric() || others.contains(own))
}

fn names<'v>(names: impl Iterator<Item = &'v str>, others: &str, most: usize, found: Found<'_>) {
    let mut seen = HashSet::new();
    for name in names {
        if !is_word(name, others, most) {
            found.push("a tool's name is refused".to_owned());
        }
        if !seen.insert(name) {
            found.push("two tools have one name".to_owned());
        }
    }
}

/// Calls and results in turns of a conversation: the ids of calls, and of the results right behind.
#[derive(Default)]
struct Pairing {
    open: Vec<String>,
    seen: HashSet<String>,
    has_calls: bool,
}

impl Pairing {
    fn call(&mut self, id: &str, found: Found<'_>) {
        self.has_calls = true;
        if !self.seen.insert(id.to_owned()) {
            found.push("two calls have one id".to_owned());
        }
        self.open.push(id.to_owned());
    }

    fn result(&mut self, id: &str, has_other_calls: bool, found: Found<'_>) {
        match self.open.iter().position(|open| open == id) {
            Some(at) => {
                self.open.remove(at);
            }
            // A conversation that holds no call at all is the rest of one that somebody else keeps.
            None if has_other_calls => found.push("a result has no call".to_owned()),
            None => {}
        }
    }

    /// Somebody else speaks.
    fn turn(&mut self, found: Found<'_>) {
        if !self.open.is_empty() {
            found.push("a call has no result".to_owned());
        }
        self.open.clear();
    }
}

fn object_schema(schema: &Value, found: Found<'_>) {
    if schema["type"] != "object" {
        found.push("the root of a schema is no object".to_owned());
    }
}

fn alternating(roles: &[&str], found: Found<'_>) {
    if roles.windows(2).any(|pair| pair[0] == pair[1]) {
        found.push("somebody speaks twice in a row".to_owned());
    }
}

fn chat(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
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

fn only_without_tools(body: &Value, keys: &[&str], found: Found<'_>) {
    for key in keys {
        if body.get(*key).is_some() {
            found.push(format!("{key} without tools"));
        }
    }
}

fn responses(body: &Value, found: Found<'_>) {
    const MEMBERS: &[&str] = &[
        "model",
        "instructions",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
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

fn anthropic(body: &Value, found: Found<'_>) {
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
        "context_management",
    ];
    only(body, MEMBERS, "the body", found);
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
    }
    let messages: Vec<&Value> = list(body, "messages").collect();
    alternating(&messages.iter().map(|message| text(message, "role")).collect::<Vec<_>>(), found);
    let mut marks = 0;
    blocks(body, "system", &mut marks, found);
    let has_calls =
        messages.iter().any(|message| list(message, "content").any(|block| block["type"] == "tool_use"));
    if has_calls && list(body, "tools").next().is_none() {
        found.push("calls without tools".to_owned());
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
                pairing.result(text(block, "tool_use_id"), has_calls, found);
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

fn gemini(body: &Value, found: Found<'_>) {
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
        &["contents", "systemInstruction", "tools", "toolConfig", "generationConfig"],
        "the body",
        found,
    );
    let contents: Vec<&Value> = list(body, "contents").collect();
    alternating(&contents.iter().map(|content| text(content, "role")).collect::<Vec<_>>(), found);
    let mut schemas: Vec<&Value> = body.pointer("/generationConfig/responseSchema").into_iter().collect();
    for tool in list(body, "tools") {
        let functions: Vec<&Value> = list(tool, "functionDeclarations").collect();
        names(functions.iter().map(|function| text(function, "name")), "_.:-", 64, found);
        schemas.extend(functions.iter().filter_map(|function| function.get("parameters")));
    }
    while let Some(schema) = schemas.pop() {
        only(schema, KEYWORDS, "a schema", found);
        if schema.get("type").is_some_and(|own| !own.is_string()) {
            found.push("a schema of several types".to_owned());
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
    let has_calls = contents.iter().any(|content| count(content, "functionCall") > 0);
    let mut open = 0;
    for (at, content) in contents.iter().enumerate() {
        if list(content, "parts").next().is_none() {
            found.push("an empty message".to_owned());
        }
        if list(content, "parts").any(|part| part.get("text").is_some_and(|text| *text == "")) {
            found.push("a blank text".to_owned());
        }
        let results = count(content, "functionResponse");
        if has_calls && results != open {
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

fn ollama(body: &Value, found: Found<'_>) {
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

fn cohere(body: &Value, found: Found<'_>) {
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
    let has_calls = list(body, "messages").any(|message| list(message, "tool_calls").next().is_some());
    let mut pairing = Pairing::default();
    for message in list(body, "messages") {
        if message["role"] == "tool" {
            pairing.result(text(message, "tool_call_id"), has_calls, found);
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

fn converse(body: &Value, found: Found<'_>) {
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
    let has_calls = has("toolUse");
    if (has_calls || has("toolResult")) && list(&body["toolConfig"], "tools").next().is_none() {
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
                pairing.result(text(result, "toolUseId"), has_calls, found);
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
