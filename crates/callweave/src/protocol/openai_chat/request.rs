//! Requests of OpenAI Chat Completions and compatible servers.

mod write;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    CacheMark, CallArguments, CallKind, CallResult, ContentPart, Media, MediaKind, MediaSource,
    MessageContent, PartKind, ProviderLimits, ProviderSeal, ReasoningMode, Request, RequestCall,
    RequestCoding, RequestMembers, RequestMessage, RequestReasoning, RequestTool, RetainedFields, Role,
    ToolChoice, ToolKind, TypedForm, WEB_SEARCH, parse_data_url, type_of_name,
};
use write::write;

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &ProviderLimits::UNKNOWN_CHAT };

const NAME: &str = PROTOCOL.name;

/// Roles; of two names the usual one is first.
const ROLES: &[(&str, Role)] = &[
    ("system", Role::System),
    ("developer", Role::Developer),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
];

/// The member that holds the reasoning of an assistant; of several names the usual one is first.
const THOUGHTS: &[&str] = &["reasoning_content", "reasoning"];

/// The signature of a call on Google's own server of this protocol.
const GOOGLE_SIGNATURE: &str = "extra_content.google.thought_signature";

/// Names for the visibility of reasoning.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::new(body);
    body.rename("max_completion_tokens", "max_tokens");
    body.rename("seed", "random_seed");
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    request.messages = body.objects("messages").unwrap_or_default().into_iter().map(read_message).collect();
    request.tools = body.objects("tools").unwrap_or_default().into_iter().map(read_tool).collect();
    request.tool_choice = read_choice(&mut body);
    if request.tool_choice.is_none() && body.peek("tool_choice").is_some_and(|choice| !choice.is_null()) {
        body.note_malformed("tool_choice");
    }
    // Web search is a tool in all other protocols. The options stay.
    if body.peek("web_search_options").is_some_and(Value::is_object) {
        let search = RequestTool::new(WEB_SEARCH, ToolKind::Builtin(WEB_SEARCH.to_owned()));
        request.tools.push(RequestTool { retained: RetainedFields::whole(NAME, Value::Null), ..search });
        body.note_read("web_search_options");
    }
    let is_legacy = body.peek("functions").is_some() || body.peek("function_call").is_some();
    if is_legacy {
        read_legacy_tools(&mut body, &mut request);
    }
    request.parallel_calls = body.truth("parallel_tool_calls");
    request.max_tokens = body.number("max_completion_tokens");
    request.stop = body.string_or_strings("stop").unwrap_or_default();
    let sampling = &mut request.sampling;
    sampling.temperature = body.number("temperature");
    sampling.top_p = body.number("top_p");
    sampling.top_k = body.number("top_k");
    sampling.min_p = body.number("min_p");
    sampling.frequency_penalty = body.number("frequency_penalty");
    sampling.presence_penalty = body.number("presence_penalty");
    sampling.repetition_penalty = body.number("repetition_penalty");
    sampling.seed = body.number("seed");
    sampling.choices = body.number("n");
    sampling.logit_bias = body.object("logit_bias");
    sampling.logprobs = body.truth("logprobs");
    sampling.top_logprobs = body.number("top_logprobs");
    request.format = TypedForm::Nested.read_format(&mut body, "response_format");
    request.reasoning.effort = body.string("reasoning_effort");
    request.reasoning.mode = ReasoningMode::read(&mut body, "thinking.type");
    if request.reasoning.mode.is_some() {
        request.reasoning.budget = body.number("thinking.budget_tokens");
        request.reasoning.summary = body.word("thinking.display", SUMMARIES);
    }
    request.stream = body.truth("stream");
    request.stream_usage = body.truth("stream_options.include_usage");
    request.store = body.truth("store");
    request.metadata = body.object("metadata");
    request.user = body.string("user");
    request.service_tier = body.string("service_tier");
    request.modalities = body.strings("modalities").unwrap_or_default();
    request.cache_key = body.string("prompt_cache_key");
    request.verbosity = body.string("verbosity");
    // Not a member of OpenAI's, but gateways pass it on.
    request.previous = body.string("previous_response_id");
    request.kept = body.rest(NAME);
    Ok(request)
}

fn read_message(message: Object) -> RequestMessage {
    let mut message = RequestMembers::new(message);
    let is_result = matches!(message.peek_str("role"), Some("tool" | "function"));
    let role = message.role(ROLES).unwrap_or(if is_result { Role::Tool } else { Role::User });
    if is_result {
        let result = CallResult {
            id: message.string("tool_call_id"),
            name: message.string("name"),
            content: read_content(&mut message),
            value: None,
            is_error: None,
            kind: CallKind::Function,
        };
        let part = ContentPart { cache: read_cache(&mut message), ..ContentPart::new(result) };
        return RequestMessage { retained: message.rest(NAME), ..RequestMessage::of(role, part) };
    }
    let name = message.string("name");
    let mut parts = Vec::new();
    let is_text = |word: &&&str| message.peek(word).is_some_and(Value::is_string);
    if role == Role::Assistant
        && let Some(word) = THOUGHTS.iter().find(is_text)
    {
        message.rename("reasoning_content", word);
        let text = message.string("reasoning_content");
        parts
            .push(ContentPart::new(PartKind::from(RequestReasoning { text, ..RequestReasoning::default() })));
    }
    let mut content = read_content(&mut message);
    if !content.parts.iter().any(|part| matches!(part.body, PartKind::Reasoning(_))) {
        let blocks = message.peek("thinking_blocks").and_then(Value::as_array);
        parts.extend(blocks.into_iter().flatten().filter_map(Value::as_object).map(read_block));
        message.note_read("thinking_blocks");
        read_marked(&mut message, &mut parts);
        let details = message.peek("reasoning_details").and_then(Value::as_array);
        let details: Vec<ContentPart> =
            details.into_iter().flatten().filter_map(Value::as_object).filter_map(read_detail).collect();
        if !details.is_empty() {
            parts.extend(details);
            message.note_read("reasoning_details");
        }
    }
    parts.append(&mut content.parts);
    // It is beside the content, where it stays.
    if let Some(text) = message.peek_str("refusal").filter(|text| !text.is_empty()).map(str::to_owned) {
        parts.push(ContentPart {
            retained: RetainedFields::whole(NAME, Value::Null),
            ..ContentPart::new(PartKind::Refusal(text))
        });
        message.note_read("refusal");
    }
    let calls = message.objects("tool_calls").unwrap_or_default();
    parts.extend(calls.into_iter().map(read_call));
    parts.extend(read_legacy_call(&mut message));
    let content = MessageContent { parts, form: content.form };
    RequestMessage { role, content, name, retained: message.rest(NAME) }
}

fn read_content(message: &mut RequestMembers) -> MessageContent {
    if let Some(text) = message.string("content") {
        return MessageContent::text(text);
    }
    match message.array("content") {
        Some(parts) => MessageContent::list(parts.into_iter().map(read_part).collect()),
        None => MessageContent::default(),
    }
}

fn read_cache(members: &mut RequestMembers) -> Option<Box<CacheMark>> {
    members
        .constant("cache_control.type", "ephemeral")
        .then(|| Box::new(CacheMark { ttl: members.string("cache_control.ttl") }))
}

fn read_part(part: Value) -> ContentPart {
    let part = match part {
        Value::Object(part) => part,
        other => return ContentPart::opaque(NAME, "", other),
    };
    let mut part = RequestMembers::new(part);
    let word = part.peek_str("type").unwrap_or_default().to_owned();
    let body = match word.as_str() {
        "text" => part.string("text").map(PartKind::Text),
        "refusal" => part.string("refusal").map(PartKind::Refusal),
        "image_url" => read_image(&mut part).map(PartKind::from),
        "input_audio" => part.string("input_audio.data").map(|data| {
            let format = part.peek_str("input_audio.format").and_then(type_of_name);
            let media_type = format.map(str::to_owned);
            if media_type.is_some() {
                part.string("input_audio.format");
            }
            PartKind::from(Media { media_type, ..Media::new(MediaKind::Audio, MediaSource::Data(data)) })
        }),
        "file" => read_file(&mut part).map(PartKind::from),
        "thinking" | "redacted_thinking" => return read_reasoning(part.into_object()),
        _ => None,
    };
    let Some(body) = body else {
        return ContentPart::opaque(NAME, &word, part.into_object().into());
    };
    part.string("type");
    let cache = read_cache(&mut part);
    ContentPart { cache, retained: part.rest(NAME), ..ContentPart::new(body) }
}

/// Reads reasoning inside the content, in the form of gateways to Claude. It is kept completely.
fn read_reasoning(part: Object) -> ContentPart {
    let own = |keys: [&str; 2]| keys.iter().find_map(|key| part[*key].as_str().map(str::to_owned));
    // Mistral has a list of texts.
    let listed = || {
        let texts = part["thinking"].as_array()?.iter().map(|text| text["text"].as_str());
        texts.collect::<Option<String>>()
    };
    let text = own(["text", "thinking"]).or_else(listed);
    let encrypted = own(["redactedContent", "data"]).map(ProviderSeal::found);
    let signature = part["signature"].as_str().map(ProviderSeal::found);
    let body = PartKind::from(RequestReasoning { text, summary: None, encrypted });
    ContentPart { signature, retained: RetainedFields::whole(NAME, part.into()), ..ContentPart::new(body) }
}

/// Reads reasoning beside the content, in the form of other gateways. The list stays with the message.
fn read_block(block: &Object) -> ContentPart {
    let mut part = read_reasoning(block.clone());
    part.retained = RetainedFields::whole(NAME, Value::Null);
    part
}

/// Takes seals of other providers out of the details, to keep them from being sent to anybody else.
fn read_marked(message: &mut RequestMembers, parts: &mut Vec<ContentPart>) {
    let seal_of = |detail: &Value| {
        let own = |key: &str| {
            Some(ProviderSeal::new("", detail.get(key)?.as_str()?)).filter(|seal| !seal.issuer.is_empty())
        };
        Some((own("signature"), own("data"))).filter(|seals| *seals != (None, None))
    };
    let list = message.peek("reasoning_details").and_then(Value::as_array);
    if !list.into_iter().flatten().any(|detail| seal_of(detail).is_some()) {
        return;
    }
    let (mut signatures, mut rest) = (Vec::new(), Vec::new());
    for detail in message.array("reasoning_details").into_iter().flatten() {
        match seal_of(&detail) {
            Some((signature, encrypted)) => {
                signatures.extend(signature);
                parts.extend(encrypted.map(|seal| {
                    ContentPart::new(RequestReasoning {
                        encrypted: Some(seal),
                        ..RequestReasoning::default()
                    })
                }));
            }
            None => rest.push(detail),
        }
    }
    message.put("reasoning_details", Some(rest).filter(|rest| !rest.is_empty()));
    // The texts of several blocks of reasoning are one here, and no signature covers all of them.
    let is_told = |part: &&mut ContentPart| matches!(&part.body, PartKind::Reasoning(thought) if thought.text.is_some());
    if let (Some(thought), [_]) = (parts.iter_mut().find(is_told), &*signatures) {
        thought.signature = signatures.pop();
    }
}

/// The issuers of seals, by the formats of OpenRouter's details.
const FORMATS: &[(&str, &str)] = &[("anthropic-", "anthropic"), ("openai-", "openai"), ("google-", "google")];

/// Reads reasoning beside the content, in OpenRouter's form. The list stays with the message.
fn read_detail(detail: &Object) -> Option<ContentPart> {
    let format = detail["format"].as_str().unwrap_or_default();
    let issuer = FORMATS.iter().find(|(start, _)| format.starts_with(start)).map(|(_, issuer)| *issuer);
    let own = |key: &str| detail[key].as_str().map(str::to_owned);
    let sealed = |data: String| {
        issuer.map_or_else(
            || ProviderSeal::found(data.as_str()),
            |issuer| ProviderSeal::new(issuer, data.as_str()),
        )
    };
    let mut thought = RequestReasoning::default();
    match detail["type"].as_str()? {
        "reasoning.text" => thought.text = Some(own("text")?),
        "reasoning.summary" => thought.summary = Some(vec![own("summary")?]),
        "reasoning.encrypted" => thought.encrypted = Some(sealed(own("data")?)),
        _ => return None,
    }
    let signature = own("signature").map(sealed);
    Some(ContentPart {
        signature,
        retained: RetainedFields::whole(NAME, Value::Null),
        ..ContentPart::new(thought)
    })
}

fn read_image(part: &mut RequestMembers) -> Option<Media> {
    // Mistral accepts the URL itself instead of the object. It is kept as it is, and read.
    let url = match part.peek_str("image_url").map(str::to_owned) {
        Some(url) => {
            part.note_read("image_url");
            url
        }
        None => part.string("image_url.url")?,
    };
    let detail = part.string("image_url.detail");
    if detail.as_ref().is_some_and(|detail| !["auto", "low", "high", "original"].contains(&detail.as_str())) {
        part.note_malformed("image_url.detail");
    }
    Some(Media { detail, ..Media::at(MediaKind::Image, url) })
}

fn read_file(part: &mut RequestMembers) -> Option<Media> {
    let name = part.string("file.filename");
    let media = if let Some(data) = part.string("file.file_data") {
        match parse_data_url(&data) {
            Some(_) => Media::at(MediaKind::File, data),
            None => Media::new(MediaKind::File, MediaSource::Data(data)),
        }
    } else if let Some(id) = part.string("file.file_id") {
        Media::new(MediaKind::File, MediaSource::Id(id))
    } else {
        part.put("file.filename", name);
        return None;
    };
    Some(Media { name, ..media })
}

fn read_call(call: Object) -> ContentPart {
    let mut call = RequestMembers::new(call);
    call.note_absence("type");
    let is_custom = call.peek_str("type") == Some("custom");
    let (base, kind) =
        if is_custom { ("custom", CallKind::Custom) } else { ("function", CallKind::Function) };
    let Some(name) = call.string(&format!("{base}.name")) else {
        return ContentPart::opaque(NAME, "tool_call", call.into_object().into());
    };
    let arguments = if is_custom { "custom.input" } else { "function.arguments" };
    let arguments = match call.take_if(arguments, |value| value.is_string() || value.is_object()) {
        Some(Value::String(text)) => CallArguments::Text(text),
        Some(value) => CallArguments::Json(value),
        None => {
            call.note_absence(arguments);
            CallArguments::Text(String::new())
        }
    };
    call.constant("type", base);
    let id = call.string("id");
    let cache = read_cache(&mut call);
    // The location on Google's own server of this protocol. It stays.
    let signature = call.peek_str(GOOGLE_SIGNATURE).map(|data| ProviderSeal::new("google", data));
    if signature.is_some() {
        call.note_read("extra_content");
    }
    let body = PartKind::from(RequestCall { id, name, namespace: None, arguments, kind });
    ContentPart { body, cache, signature, retained: call.rest(NAME) }
}

/// Reads the single call of the older form, which has no id. It stays.
fn read_legacy_call(message: &mut RequestMembers) -> Option<ContentPart> {
    let call = message.peek("function_call")?;
    let name = call["name"].as_str()?.to_owned();
    let arguments = CallArguments::Text(call["arguments"].as_str().unwrap_or_default().to_owned());
    message.note_read("function_call");
    let body =
        PartKind::from(RequestCall { id: None, name, namespace: None, arguments, kind: CallKind::Function });
    Some(ContentPart { retained: RetainedFields::whole(NAME, Value::Null), ..ContentPart::new(body) })
}

/// Reads tools in the older form. They stay.
fn read_legacy_tools(body: &mut RequestMembers, request: &mut Request) {
    let tools: Vec<RequestTool> = body
        .peek("functions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|function| {
            let kind = ToolKind::Function { schema: function.get("parameters").cloned() };
            let mut tool = RequestTool::new(function["name"].as_str()?, kind);
            tool.description = function["description"].as_str().map(str::to_owned);
            tool.retained = RetainedFields::whole(NAME, Value::Null);
            Some(tool)
        })
        .collect();
    request.tools.extend(tools);
    body.note_read("functions");
    if request.tool_choice.is_none() {
        request.tool_choice = match body.peek("function_call") {
            Some(Value::String(word)) if word == "none" => Some(ToolChoice::None),
            Some(Value::String(word)) if word == "auto" => Some(ToolChoice::Auto),
            Some(Value::Object(named)) => named["name"]
                .as_str()
                .map(|name| ToolChoice::Tool { name: name.to_owned(), kind: CallKind::Function }),
            _ => None,
        };
        body.note_read("function_call");
    }
}

/// Whether it is a copy of something that stays elsewhere in the older form.
fn is_copy(kept: &RetainedFields) -> bool {
    kept.members(NAME).is_some_and(|members| members.contains_key(""))
}

fn read_tool(tool: Object) -> RequestTool {
    let mut tool = RequestMembers::new(tool);
    tool.note_absence("type");
    let word = tool.peek_str("type").unwrap_or("function").to_owned();
    let name = match word.as_str() {
        "function" => tool.string("function.name"),
        "custom" => tool.string("custom.name"),
        _ => None,
    };
    let Some(name) = name else {
        let whole = RetainedFields::whole(NAME, tool.into_object().into());
        return RequestTool { retained: whole, ..RequestTool::new(word.clone(), ToolKind::Builtin(word)) };
    };
    tool.constant("type", &word);
    let kind = match word.as_str() {
        "custom" => ToolKind::Custom { grammar: TypedForm::Nested.read_grammar(&mut tool) },
        _ => ToolKind::Function { schema: tool.object("function.parameters").map(Value::from) },
    };
    if tool.peek("function.parameters").is_some_and(|schema| !schema.is_null()) {
        tool.note_malformed("function.parameters");
    }
    let description = tool.string(&format!("{word}.description"));
    let strict = tool.truth("function.strict");
    // Some clients write it into the function, where it stays.
    let inner = tool.peek_str("function.cache_control.type") == Some("ephemeral");
    let cache = read_cache(&mut tool).or_else(|| inner.then(Box::default));
    RequestTool { description, strict, cache, retained: tool.rest(NAME), ..RequestTool::new(name, kind) }
}

fn read_choice(body: &mut RequestMembers) -> Option<ToolChoice> {
    // Mistral's name, which stays.
    if body.peek_str("tool_choice") == Some("any") {
        body.note_read("tool_choice");
        return Some(ToolChoice::Required);
    }
    TypedForm::Nested.read_choice(body)
}
