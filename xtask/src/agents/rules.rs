//! The requests that providers refuse: a request is read as strictly as its provider reads it, and becomes a
//! conversation.
//!
//! Each protocol has one function. A refusal is a sentence, as the provider would say it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

use super::plan::{Call, Tool};

/// A request, as far as the scripted model looks at it.
pub(crate) struct Conversation {
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) is_streamed: bool,
    /// Whether the model reasons before it calls.
    pub(crate) reasons: bool,
    pub(crate) model: String,
    /// The turns with calls that came back without the provider's seal.
    pub(crate) unsealed: Vec<usize>,
}

/// A turn of it.
pub(crate) enum Turn {
    /// A text of the user or the system.
    Said(String),
    /// A response of the model without calls.
    Answered,
    Called(Vec<Call>),
    /// Results of calls, in any order.
    Results(Vec<String>),
}

/// Reads a request or refuses it.
pub(crate) type Reader = fn(&Value) -> Result<Conversation, String>;

/// The seal of reasoning: a provider takes back only its own.
pub(crate) fn seal(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("c2VhbA{:016x}", hasher.finish())
}

macro_rules! refuse {
    ($($words:tt)*) => { return Err(format!($($words)*)) };
}

/// Members that a strict server of chat completions knows; OpenAI's own are not among them.
const CHAT: &str = "model messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p \
     max_tokens n stop seed logprobs top_logprobs response_format user presence_penalty \
     frequency_penalty logit_bias reasoning_effort";

/// Models whose templates take system messages anywhere; the templates of others take one, at the beginning.
const SYSTEM_ANYWHERE: &[&str] = &["kimi", "deepseek", "mistral"];

/// Chat completions as strict servers of open models read them.
pub(crate) fn chat(body: &Value) -> Result<Conversation, String> {
    only(body, CHAT, "the request")?;
    let mut calls = Calls::default();
    let mut turns = Vec::new();
    let messages = list(body, "messages")?;
    let model = text(body, "model")?;
    let is_merged = !SYSTEM_ANYWHERE.iter().any(|family| model.contains(family));
    for (at, message) in messages.iter().enumerate() {
        let here = format!("messages[{at}]");
        let role = text(message, "role")?;
        only(message, "role content name tool_calls tool_call_id reasoning_content", &here)?;
        if role != "tool" {
            calls.all_answered(&here)?;
        }
        let content = chat_text(message, role, &here)?;
        match role {
            "system" if at > 0 && is_merged => refuse!("{here}: System message must be at the beginning."),
            "system" | "user" => turns.push(Turn::Said(content)),
            "assistant" => match message.get("tool_calls") {
                None => turns.push(Turn::Answered),
                Some(told) => {
                    let told = told.as_array().filter(|told| !told.is_empty());
                    let told = told.ok_or_else(|| format!("{here}.tool_calls is no list of calls"))?;
                    let mut called = Vec::new();
                    for call in told {
                        only(call, "id type function index", &here)?;
                        if call["type"] != "function" {
                            refuse!("{here}: type {} of a call", call["type"]);
                        }
                        let function = &call["function"];
                        calls.begin(text(call, "id")?, 64, &here)?;
                        called.push(Call {
                            name: name(text(function, "name")?, 64)?.to_owned(),
                            arguments: arguments(text(function, "arguments")?, &here)?,
                        });
                    }
                    turns.push(Turn::Called(called));
                }
            },
            "tool" => {
                calls.answer(text(message, "tool_call_id")?, &here)?;
                result(&mut turns, content);
            }
            role => refuse!("{here}: there is no role {role:?}"),
        }
    }
    calls.all_answered("the end")?;
    if !turns.iter().any(|turn| matches!(turn, Turn::Said(_))) {
        refuse!("no user message");
    }
    let mut tools = Vec::new();
    for tool in optional_list(body, "tools")? {
        only(tool, "type function", "tools")?;
        if tool["type"] != "function" {
            refuse!("tools: type {} is not supported, only function", tool["type"]);
        }
        let function = &tool["function"];
        only(function, "name description parameters strict", "tools.function")?;
        declare(&mut tools, function, "parameters", 64, false)?;
    }
    check_choice(body, &tools)?;
    if body.get("stream_options").is_some() && body["stream"] != true {
        refuse!("stream_options without stream");
    }
    conversation(body, turns, tools, true)
}

fn chat_text(message: &Value, role: &str, here: &str) -> Result<String, String> {
    match message.get("content") {
        None | Some(Value::Null) if role == "assistant" && message.get("tool_calls").is_some() => {
            Ok(String::new())
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            let mut whole = String::new();
            for part in parts {
                match part["type"].as_str() {
                    Some("text") => whole += text(part, "text")?,
                    Some("image_url") if role == "user" => {}
                    _ => refuse!("{here}: a part of type {} for {role}", part["type"]),
                }
            }
            Ok(whole)
        }
        content => refuse!("{here}: content {content:?} for {role}"),
    }
}

const ANTHROPIC: &str = "model messages system max_tokens metadata stop_sequences stream temperature top_k top_p tools \
     tool_choice thinking service_tier container context_management output_config cache_control \
     mcp_servers";

/// Anthropic's Messages.
pub(crate) fn anthropic(body: &Value) -> Result<Conversation, String> {
    only(body, ANTHROPIC, "the request")?;
    let Some(room) = body["max_tokens"].as_u64() else { refuse!("max_tokens: Field required") };
    let thinking = body["thinking"]["type"].as_str().unwrap_or("disabled");
    if thinking == "enabled" {
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
        if budget < 1024 || budget >= room {
            refuse!("thinking.budget_tokens: {budget} of {room}");
        }
        if !matches!(body["temperature"].as_f64(), None | Some(1.0)) {
            refuse!("`temperature` may only be set to 1 when thinking is enabled");
        }
    }
    if body["temperature"].is_number() && body["top_p"].is_number() {
        refuse!("`temperature` and `top_p` cannot both be specified for this model");
    }
    let reasons = thinking != "disabled";
    let mut cached = 0;
    let mut turns = Vec::new();
    for block in anthropic_blocks(body.get("system"), "system")? {
        cached += usize::from(block.get("cache_control").is_some());
        turns.push(Turn::Said(filled(&block, "system")?.to_owned()));
    }
    let mut calls = Calls::default();
    let messages = list(body, "messages")?;
    let last = messages.iter().rposition(|message| message["role"] == "assistant");
    for (at, message) in messages.iter().enumerate() {
        let here = format!("messages.{at}");
        only(message, "role content", &here)?;
        let role = text(message, "role")?;
        match role {
            "assistant" if at > 0 => calls.all_answered(&here)?,
            "user" => {}
            _ => refuse!("{here}: Unexpected role {role:?}"),
        }
        let blocks = anthropic_blocks(message.get("content"), &here)?;
        if blocks.is_empty() {
            refuse!("{here}: all messages must have non-empty content");
        }
        let (mut called, mut said, mut results) = (Vec::new(), String::new(), Vec::new());
        for block in &blocks {
            cached += usize::from(block.get("cache_control").is_some());
            match (role, block["type"].as_str().unwrap_or_default()) {
                (_, "text") => said += filled(block, &here)?,
                ("user", "image" | "document") => {}
                ("assistant", "redacted_thinking") => {}
                ("assistant", "thinking") => {
                    if text(block, "signature")? != seal(text(block, "thinking")?) {
                        refuse!("{here}: Invalid `signature` in `thinking` block");
                    }
                }
                ("assistant", "tool_use") => {
                    calls.begin(name(text(block, "id")?, 128)?, 128, &here)?;
                    let Some(input) = block["input"].as_object() else {
                        refuse!("{here}: tool_use.input: Input should be a valid dictionary")
                    };
                    called.push(Call { name: text(block, "name")?.to_owned(), arguments: input.clone() });
                }
                ("user", "tool_result") => {
                    if !said.is_empty() {
                        refuse!("{here}: tool_result blocks must come first");
                    }
                    calls.answer(text(block, "tool_use_id")?, &here)?;
                    let mut whole = String::new();
                    for part in anthropic_blocks(block.get("content"), &here)? {
                        if part["type"] == "text" {
                            whole += filled(&part, &here)?;
                        }
                    }
                    results.push(whole);
                }
                (role, kind) => refuse!("{here}: a block of type {kind:?} for {role}"),
            }
        }
        if role == "user" {
            calls.all_answered(&here)?;
        }
        let begins = blocks[0]["type"].as_str().unwrap_or_default();
        if thinking == "enabled" && last == Some(at) && !called.is_empty() && !begins.ends_with("thinking") {
            refuse!("{here}: Expected `thinking` or `redacted_thinking`, but found `{begins}`");
        }
        results.into_iter().for_each(|whole| result(&mut turns, whole));
        match role {
            "assistant" if called.is_empty() => turns.push(Turn::Answered),
            "assistant" => turns.push(Turn::Called(called)),
            _ => turns.push(Turn::Said(said)),
        }
    }
    calls.all_answered("the end")?;
    let mut tools = Vec::new();
    for tool in optional_list(body, "tools")? {
        cached += usize::from(tool.get("cache_control").is_some());
        if !matches!(tool["type"].as_str(), None | Some("custom")) {
            continue;
        }
        only(tool, "name description input_schema cache_control type strict eager_input_streaming", "tools")?;
        declare(&mut tools, tool, "input_schema", 128, true)?;
    }
    if cached > 4 {
        refuse!("A maximum of 4 blocks with cache_control may be provided. Found {cached}.");
    }
    if let Some(choice) = body.get("tool_choice") {
        let kind = choice["type"].as_str().unwrap_or_default();
        if tools.is_empty() || !["auto", "any", "tool", "none"].contains(&kind) {
            refuse!("tool_choice {choice}");
        }
    }
    conversation(body, turns, tools, reasons)
}

/// Content that may be a text.
fn anthropic_blocks(content: Option<&Value>, here: &str) -> Result<Vec<Value>, String> {
    match content {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![serde_json::json!({"type": "text", "text": text})]),
        Some(Value::Array(blocks)) => Ok(blocks.clone()),
        Some(_) => Err(format!("{here}: content is neither text nor blocks")),
    }
}

fn filled<'v>(block: &'v Value, here: &str) -> Result<&'v str, String> {
    let text = text(block, "text")?;
    if text.is_empty() { Err(format!("{here}: text content blocks must be non-empty")) } else { Ok(text) }
}

const GEMINI: &str =
    "contents tools toolConfig systemInstruction generationConfig safetySettings cachedContent labels";
const GENERATION: &str = "temperature topP topK maxOutputTokens stopSequences candidateCount responseMimeType responseSchema \
     responseJsonSchema seed presencePenalty frequencyPenalty thinkingConfig responseLogprobs logprobs \
     responseModalities mediaResolution";
const GEMINI_SCHEMA: &str = "type format title description nullable enum maxItems minItems properties required minProperties \
     maxProperties minLength maxLength pattern example anyOf propertyOrdering default items minimum \
     maximum";

/// The placeholder for the signature of a call that this provider did not make, or made differently.
const UNSEALED: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Gemini's generateContent, as models of the third generation read it: calls come back with their signatures.
pub(crate) fn gemini(body: &Value) -> Result<Conversation, String> {
    only(body, GEMINI, "the request")?;
    if let Some(generation) = body.get("generationConfig") {
        only(generation, GENERATION, "generationConfig")?;
    }
    let mut turns = Vec::new();
    if let Some(system) = body.get("systemInstruction") {
        turns.push(Turn::Said(
            list(system, "parts")?.iter().filter_map(|part| part["text"].as_str()).collect(),
        ));
    }
    let (mut open, mut unsealed): (Option<Vec<String>>, _) = (None, Vec::new());
    let mut before = "";
    for (at, content) in list(body, "contents")?.iter().enumerate() {
        let here = format!("contents[{at}]");
        only(content, "role parts", &here)?;
        let role = content["role"].as_str().unwrap_or("user");
        if !["user", "model"].contains(&role) {
            refuse!("{here}: Please use a valid role: user, model.");
        }
        let (mut said, mut called, mut answered, mut results) =
            (String::new(), Vec::new(), Vec::new(), Vec::new());
        for part in list(content, "parts")? {
            only(
                part,
                "text functionCall functionResponse inlineData fileData thought thoughtSignature",
                &here,
            )?;
            if let Some(call) = part.get("functionCall") {
                only(call, "id name args", &here)?;
                let arguments = call["args"].as_object().cloned().unwrap_or_default();
                let call = Call { name: text(call, "name")?.to_owned(), arguments };
                if called.is_empty() && part["thoughtSignature"] != seal(&call.name) {
                    if part["thoughtSignature"] != UNSEALED {
                        refuse!("{here}: Function call `{}` is missing a thought_signature", call.name);
                    }
                    unsealed.push(turns.iter().filter(|turn| matches!(turn, Turn::Called(_))).count());
                }
                called.push(call);
            } else if let Some(response) = part.get("functionResponse") {
                only(response, "id name response parts willContinue scheduling", &here)?;
                let Some(object) = response["response"].as_object() else {
                    refuse!("{here}: functionResponse.response must be an object")
                };
                answered.push(text(response, "name")?.to_owned());
                let texts = object
                    .values()
                    .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                results.push(texts.collect::<Vec<_>>().join("\n"));
            } else if part["thought"] != true {
                said += part["text"].as_str().unwrap_or_default();
            }
        }
        match open.take() {
            Some(names) if names != answered => {
                refuse!(
                    "{here}: the number of function response parts is not that of the calls: {names:?}, {answered:?}"
                )
            }
            None if !answered.is_empty() => {
                refuse!("{here}: function response turn comes immediately after a function call turn")
            }
            _ => {}
        }
        if !called.is_empty() {
            if before != "user" {
                refuse!("{here}: function call turn comes immediately after a user turn");
            }
            open = Some(called.iter().map(|call| call.name.clone()).collect());
        }
        results.into_iter().for_each(|whole| result(&mut turns, whole));
        match role {
            "model" if called.is_empty() => turns.push(Turn::Answered),
            "model" => turns.push(Turn::Called(called)),
            _ => turns.push(Turn::Said(said)),
        }
        before = role;
    }
    if open.is_some() {
        refuse!("calls without responses at the end");
    }
    let mut tools = Vec::new();
    for tool in optional_list(body, "tools")? {
        for function in optional_list(tool, "functionDeclarations")? {
            let key = if function.get("parametersJsonSchema").is_some() {
                "parametersJsonSchema"
            } else {
                "parameters"
            };
            if let Some(schema) = function.get("parameters") {
                check_gemini_schema(schema, text(function, "name")?)?;
            }
            declare(&mut tools, function, key, 64, false)?;
        }
    }
    Ok(Conversation { unsealed, ..conversation(body, turns, tools, true)? })
}

fn check_gemini_schema(schema: &Value, here: &str) -> Result<(), String> {
    only(schema, GEMINI_SCHEMA, here)?;
    let kind = schema["type"].as_str().unwrap_or_default().to_ascii_lowercase();
    if schema["type"].is_array() || (kind.is_empty() && schema.get("anyOf").is_none()) {
        refuse!("{here}: type {}", schema["type"]);
    }
    if kind == "array" && schema.get("items").is_none() {
        refuse!("{here}.items: missing field.");
    }
    if schema["enum"].as_array().is_some_and(|values| values.iter().any(|value| !value.is_string())) {
        refuse!("{here}: enum holds more than strings");
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_gemini_schema(property, &format!("{here}.{name}"))?;
    }
    let inner = schema.get("items").into_iter().chain(schema["anyOf"].as_array().into_iter().flatten());
    inner.into_iter().try_for_each(|inner| check_gemini_schema(inner, here))
}

const RESPONSES: &str = "model input instructions tools tool_choice parallel_tool_calls stream stream_options store include \
     reasoning text temperature top_p top_logprobs max_output_tokens max_tool_calls metadata user \
     prompt_cache_key prompt_cache_retention safety_identifier service_tier truncation background \
     previous_response_id client_metadata";

/// OpenAI's Responses, with a model that reasons.
pub(crate) fn responses(body: &Value) -> Result<Conversation, String> {
    only(body, RESPONSES, "the request")?;
    let is_stored = body["store"] != false;
    let mut turns = Vec::new();
    turns.extend(body["instructions"].as_str().map(|text| Turn::Said(text.to_owned())));
    let alone = [serde_json::json!({"role": "user", "content": body["input"]})];
    let items = if body["input"].is_string() { &alone[..] } else { list(body, "input")? };
    let (mut calls, mut reasoned) = (Calls::default(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        let here = format!("input[{at}]");
        let id = item["id"].as_str();
        let begins = |prefix: &str| match id {
            Some(id) if !id.starts_with(prefix) => {
                Err(format!("Invalid '{here}.id': '{id}'. Expected an ID that begins with '{prefix}'."))
            }
            _ => Ok(()),
        };
        match item["type"].as_str().unwrap_or("message") {
            "message" => {
                begins("msg")?;
                only(item, "type role content id status phase", &here)?;
                let role = text(item, "role")?;
                let kinds: &[&str] = match role {
                    "assistant" => &["output_text", "refusal"],
                    "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
                    role => refuse!("{here}: there is no role {role:?}"),
                };
                let mut said = item["content"].as_str().unwrap_or_default().to_owned();
                for part in item["content"].as_array().into_iter().flatten() {
                    if !kinds.contains(&text(part, "type")?) {
                        refuse!("Invalid value: {} at {here} for {role}", part["type"]);
                    }
                    said += part["text"].as_str().unwrap_or_default();
                }
                turns.push(if role == "assistant" { Turn::Answered } else { Turn::Said(said) });
            }
            "reasoning" => {
                begins("rs_")?;
                only(item, "type id summary content encrypted_content status", &here)?;
                list_or_empty(item, "summary", &here)?;
                match item["encrypted_content"].as_str() {
                    Some(sealed) if Some(sealed) != id.map(seal).as_deref() => {
                        refuse!("{here}: encrypted_content could not be verified")
                    }
                    None if !is_stored => refuse!("{here}: Item with id {id:?} not found: it was not stored"),
                    _ => {}
                }
                reasoned.extend(id);
            }
            kind @ ("function_call" | "custom_tool_call") => {
                let is_free = kind == "custom_tool_call";
                begins(if is_free { "ctc" } else { "fc" })?;
                only(item, "type id call_id name arguments input status namespace", &here)?;
                // A call of this model's own is not taken without the reasoning before it.
                if let Some(own) = id.and_then(|id| id.strip_prefix("fc_own_"))
                    && !reasoned.iter().any(|id| id.strip_prefix("rs_own_") == own.split('_').next())
                {
                    refuse!(
                        "{here}: of type 'function_call' was provided without its required 'reasoning' item"
                    );
                }
                calls.begin(text(item, "call_id")?, 64, &here)?;
                let name = name(text(item, "name")?, 128)?.to_owned();
                let arguments = match is_free {
                    true => Map::from_iter([("input".to_owned(), item["input"].clone())]),
                    false => arguments(text(item, "arguments")?, &here)?,
                };
                let call = Call { name, arguments };
                match turns.last_mut() {
                    Some(Turn::Called(called)) => called.push(call),
                    _ => turns.push(Turn::Called(vec![call])),
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                only(item, "type id call_id output status", &here)?;
                calls.answer(text(item, "call_id")?, &here)?;
                let parts = item["output"].as_array().into_iter().flatten();
                let whole: String = parts.filter_map(|part| part["text"].as_str()).collect();
                result(&mut turns, item["output"].as_str().map_or(whole, str::to_owned));
            }
            kind => refuse!("{here}: Invalid value: '{kind}'"),
        }
    }
    calls.all_answered("the end")?;
    let mut tools = Vec::new();
    for tool in optional_list(body, "tools")? {
        match tool["type"].as_str() {
            Some("function") => {
                only(tool, "type name description parameters strict defer_loading", "tools")?;
                declare(&mut tools, tool, "parameters", 128, false)?;
            }
            Some("custom") => {
                let name = name(text(tool, "name")?, 128)?.to_owned();
                tools.push(Tool { name, schema: Value::Null, is_free: true });
            }
            // Tools that the provider runs.
            Some("web_search" | "web_search_preview" | "image_generation" | "tool_search" | "namespace") => {}
            _ => refuse!("tools: Invalid value: {}", tool["type"]),
        }
    }
    conversation(body, turns, tools, true)
}

/// The calls of a conversation, by their ids.
#[derive(Default)]
struct Calls {
    all: Vec<String>,
    open: Vec<String>,
}

impl Calls {
    fn begin(&mut self, id: &str, longest: usize, here: &str) -> Result<(), String> {
        if id.is_empty() || id.len() > longest {
            refuse!("{here}: the id {id:?} of a call has not 1 to {longest} characters");
        }
        if self.all.iter().any(|known| known == id) {
            refuse!("{here}: the id {id:?} stands for another call already");
        }
        self.all.push(id.to_owned());
        self.open.push(id.to_owned());
        Ok(())
    }

    fn answer(&mut self, id: &str, here: &str) -> Result<(), String> {
        let Some(at) = self.open.iter().position(|open| open == id) else {
            refuse!("{here}: no call {id:?} waits for a result")
        };
        self.open.remove(at);
        Ok(())
    }

    fn all_answered(&self, here: &str) -> Result<(), String> {
        if self.open.is_empty() {
            Ok(())
        } else {
            Err(format!("{here}: no results for the calls {:?}", self.open))
        }
    }
}

fn conversation(
    body: &Value,
    turns: Vec<Turn>,
    tools: Vec<Tool>,
    reasons: bool,
) -> Result<Conversation, String> {
    let model = body["model"].as_str().unwrap_or_default().to_owned();
    Ok(Conversation {
        turns,
        tools,
        is_streamed: body["stream"] == true,
        reasons,
        model,
        unsealed: Vec::new(),
    })
}

fn result(turns: &mut Vec<Turn>, whole: String) {
    match turns.last_mut() {
        Some(Turn::Results(results)) => results.push(whole),
        _ => turns.push(Turn::Results(vec![whole])),
    }
}

fn declare(
    tools: &mut Vec<Tool>,
    told: &Value,
    key: &str,
    longest: usize,
    is_demanded: bool,
) -> Result<(), String> {
    let name = name(text(told, "name")?, longest)?;
    if tools.iter().any(|tool| tool.name == name) {
        refuse!("tools: the name {name} is there twice");
    }
    let schema = told.get(key).cloned().unwrap_or_default();
    let is_object = schema["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("object"));
    if !is_object && (is_demanded || !schema.is_null()) {
        refuse!("tools: the schema of {name} is of type {}", schema["type"]);
    }
    tools.push(Tool { name: name.to_owned(), schema, is_free: false });
    Ok(())
}

fn check_choice(body: &Value, tools: &[Tool]) -> Result<(), String> {
    if tools.is_empty() {
        if body.get("tools").is_some() {
            refuse!("tools: [] is too short");
        }
        for key in ["tool_choice", "parallel_tool_calls"] {
            if body.get(key).is_some() {
                refuse!("{key} is only allowed when tools are specified");
            }
        }
    }
    match body.get("tool_choice") {
        None => Ok(()),
        Some(Value::String(word)) if ["auto", "none", "required"].contains(&word.as_str()) => Ok(()),
        Some(choice) if tools.iter().any(|tool| choice["function"]["name"] == tool.name) => Ok(()),
        Some(choice) => Err(format!("tool_choice {choice}")),
    }
}

/// Whether an object has no other members than these, whose names stand in a row.
fn only(object: &Value, known: &str, here: &str) -> Result<(), String> {
    let Some(members) = object.as_object() else { refuse!("{here} is no object") };
    match members.keys().find(|key| !known.split_whitespace().any(|known| known == *key)) {
        Some(key) => Err(format!("{here}: Unknown name \"{key}\"")),
        None => Ok(()),
    }
}

fn list<'v>(object: &'v Value, key: &str) -> Result<&'v [Value], String> {
    let found = object[key].as_array().filter(|list| !list.is_empty());
    found.map(Vec::as_slice).ok_or_else(|| format!("{key}: no list with something in it"))
}

fn optional_list<'v>(object: &'v Value, key: &str) -> Result<&'v [Value], String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(value) => value.as_array().map(Vec::as_slice).ok_or_else(|| format!("{key} is no list")),
    }
}

fn list_or_empty(object: &Value, key: &str, here: &str) -> Result<(), String> {
    if object[key].is_array() { Ok(()) } else { Err(format!("Missing required parameter: '{here}.{key}'")) }
}

fn text<'v>(object: &'v Value, key: &str) -> Result<&'v str, String> {
    object[key].as_str().ok_or_else(|| format!("{key}: a text is required, not {}", object[key]))
}

/// A name of letters that every provider takes.
fn name(name: &str, longest: usize) -> Result<&str, String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let is_fit = is_plain && (1..=longest).contains(&name.len());
    if is_fit { Ok(name) } else { Err(format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,{longest}}}$")) }
}

fn arguments(text: &str, here: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("{here}: arguments are no JSON object: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A request of each protocol that is taken, with one call and its result.
    fn sound() -> [(Reader, Value); 4] {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let chat_request = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "u"},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "r"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
        });
        let thought = json!({"type": "thinking", "thinking": "t", "signature": seal("t")});
        let anthropic_request = json!({
            "model": "m", "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000},
            "messages": [
                {"role": "user", "content": "u"},
                {"role": "assistant", "content": [thought, {"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]},
            ],
            "tools": [{"name": "f", "input_schema": schema}],
        });
        let call = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": seal("f")});
        let gemini_request = json!({
            "contents": [
                {"role": "user", "parts": [{"text": "u"}]},
                {"role": "model", "parts": [call]},
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "r"}}}]},
            ],
            "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
        });
        let thought = json!({"type": "reasoning", "id": "rs_own_1", "summary": [], "encrypted_content": seal("rs_own_1")});
        let responses_request = json!({
            "model": "m", "store": false,
            "input": [
                {"role": "user", "content": "u"},
                thought,
                {"type": "function_call", "id": "fc_own_1_0", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "r"},
            ],
            "tools": [{"type": "function", "name": "f", "parameters": schema}],
        });
        [
            (chat, chat_request),
            (anthropic, anthropic_request),
            (gemini, gemini_request),
            (responses, responses_request),
        ]
    }

    #[test]
    fn a_sound_request_is_a_conversation() {
        for (read, body) in sound() {
            let conversation = read(&body).unwrap_or_else(|why| panic!("{why}: {body}"));
            let calls = conversation.turns.iter().filter(|turn| matches!(turn, Turn::Called(_))).count();
            let results = conversation.turns.iter().filter(|turn| matches!(turn, Turn::Results(_))).count();
            assert_eq!((calls, results, conversation.tools.len()), (1, 1, 1), "{body}");
            assert!(conversation.unsealed.is_empty());
        }
    }

    /// Each rule alone: the change to a sound request, and the resulting refusal.
    #[test]
    fn what_providers_refuse_is_refused() {
        let (chat, anthropic, gemini, responses) = (0, 1, 2, 3);
        let again = |path: &str, body: &Value| {
            let list = body.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
            [list.clone(), list].concat()
        };
        let sound = sound();
        let rows = [
            (chat, "/prompt_cache_key", json!("k"), "Unknown name \"prompt_cache_key\""),
            (
                chat,
                "/messages/1",
                json!({"role": "system", "content": "s"}),
                "System message must be at the beginning",
            ),
            (chat, "/messages/1/role", json!("developer"), "no role"),
            (chat, "/messages/3/tool_call_id", json!("c2"), "no call \"c2\""),
            (chat, "/messages/3", json!({"role": "user", "content": "u"}), "no results for the calls"),
            (chat, "/messages", json!(again("/messages", &sound[0].1)[1..].to_vec()), "at the beginning"),
            (chat, "/messages/2/tool_calls/0/id", json!("x".repeat(65)), "1 to 64"),
            (chat, "/messages/2/tool_calls/0/function/arguments", json!("{"), "no JSON object"),
            (
                chat,
                "/messages/2/tool_calls",
                json!(again("/messages/2/tool_calls", &sound[0].1)),
                "another call already",
            ),
            (chat, "/tools/0/type", json!("custom"), "only function"),
            (chat, "/tools/0/function/name", json!("a.b"), "does not match"),
            (chat, "/tools", json!([]), "too short"),
            (chat, "/tools", json!(again("/tools", &sound[0].1)), "twice"),
            (chat, "/stream_options", json!({}), "without stream"),
            (anthropic, "/prompt", json!(1), "Unknown name"),
            (anthropic, "/temperature", json!(0.5), "temperature"),
            (anthropic, "/messages/1/content/0/signature", json!("forged"), "Invalid `signature`"),
            (anthropic, "/messages/1/content/0", json!({"type": "text", "text": "t"}), "Expected `thinking`"),
            (anthropic, "/messages/1/content/0", json!({"type": "text", "text": ""}), "non-empty"),
            (anthropic, "/messages/1/content/1/id", json!("functions.f:0"), "does not match"),
            (anthropic, "/messages/1/content/1/input", json!("{}"), "dictionary"),
            (anthropic, "/messages/2/content/0/tool_use_id", json!("c2"), "no call"),
            (anthropic, "/messages/2/role", json!("tool"), "Unexpected role"),
            (anthropic, "/tools/0/input_schema", json!({}), "type null"),
            (gemini, "/model", json!("m"), "Unknown name"),
            (gemini, "/contents/1/parts/0/thoughtSignature", json!("forged"), "missing a thought_signature"),
            (gemini, "/contents/2/parts/0/functionResponse/name", json!("g"), "not that of the calls"),
            (gemini, "/contents/2/parts/0", json!({"text": "u"}), "not that of the calls"),
            (gemini, "/contents/0/role", json!("model"), "immediately after a user turn"),
            (gemini, "/tools/0/functionDeclarations/0/parameters/$schema", json!("s"), "Unknown name"),
            (
                gemini,
                "/tools/0/functionDeclarations/0/parameters/properties/a",
                json!({"type": "array"}),
                "missing field",
            ),
            (responses, "/max_tokens", json!(9), "Unknown name"),
            (responses, "/input/1/encrypted_content", json!("forged"), "could not be verified"),
            (responses, "/input/1/encrypted_content", Value::Null, "not found"),
            (responses, "/input/1/id", json!("x"), "begins with 'rs_'"),
            (
                responses,
                "/input/1",
                json!({"role": "user", "content": "u"}),
                "without its required 'reasoning' item",
            ),
            (responses, "/input/2/id", json!("call_1"), "begins with 'fc'"),
            (responses, "/input/3/call_id", json!("c2"), "no call"),
            (responses, "/input/0/content", json!([{"type": "text", "text": "u"}]), "Invalid value"),
        ];
        for (wire, path, value, why) in rows {
            let (read, mut body) = sound[wire].clone();
            let (parent, key) = path.rsplit_once('/').expect("a path");
            match body.pointer_mut(parent).expect("it is there") {
                Value::Array(list) => list[key.parse::<usize>().expect("a place")] = value,
                object => object[key] = value,
            }
            let refused = read(&body).err().unwrap_or_else(|| panic!("{path} is taken: {body}"));
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }
}
