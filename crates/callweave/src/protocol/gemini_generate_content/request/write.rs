//! Writing requests of Gemini generateContent.

use super::{BUDGET, ISSUER, NAME, TIERS};
use crate::json::{Object, Value};
use crate::request::{
    CallResult, ContentForm, ContentPart, FullSchemas, Media, MediaKind, MediaSource, MessageContent,
    OutputFormat, PartKind, ProviderSeal, ReasoningMode, Request, RequestMessage, RequestTool,
    RequestWriting, Role, ToolChoice, ToolKind, WEB_SEARCH, effort, in_open_api, put, take_word,
    type_of_name,
};

pub(super) fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
    let mut body = Object::new();
    if writing.is_lossless {
        put(&mut body, "model", request.model.take());
    }
    // In normalized mode the model is named in the URL only.
    let model = request.model.take().unwrap_or_default();
    let instructions = request.instructions.take();
    if instructions.form == ContentForm::Text && writing.is_lossless {
        body.insert("systemInstruction", instructions.joined(""));
    } else if !instructions.is_empty() {
        let parts: Vec<Value> = instructions
            .parts
            .into_iter()
            .filter_map(|part| write_part(part, PartPosition::Content, writing))
            .collect();
        put(&mut body, "systemInstruction.parts", Some(parts));
    }
    let mut contents = Vec::new();
    writing.each_message(request, |message, writing| contents.push(write_content(message, writing)));
    if !contents.is_empty() || !writing.is_lossless {
        body.insert("contents", contents);
    }
    let tools = write_tools(std::mem::take(&mut request.tools), writing);
    let has_tools = !tools.is_empty();
    if has_tools {
        body.insert("tools", tools);
    }
    if has_tools || writing.is_lossless {
        write_choice(request, &mut body);
    }
    put(&mut body, "generationConfig.maxOutputTokens", request.max_tokens.take());
    let stop = std::mem::take(&mut request.stop);
    put(&mut body, "generationConfig.stopSequences", (!stop.is_empty()).then_some(stop));
    let sampling = &mut request.sampling;
    put(&mut body, "generationConfig.temperature", sampling.temperature.take());
    put(&mut body, "generationConfig.topP", sampling.top_p.take());
    put(&mut body, "generationConfig.topK", sampling.top_k.take());
    put(&mut body, "generationConfig.frequencyPenalty", sampling.frequency_penalty.take());
    put(&mut body, "generationConfig.presencePenalty", sampling.presence_penalty.take());
    put(&mut body, "generationConfig.seed", sampling.seed.take());
    put(&mut body, "generationConfig.candidateCount", sampling.choices.take());
    put(&mut body, "generationConfig.responseLogprobs", sampling.logprobs.take());
    put(&mut body, "generationConfig.logprobs", sampling.top_logprobs.take());
    match request.format.take() {
        Some(OutputFormat::Text) => put(&mut body, "generationConfig.responseMimeType", Some("text/plain")),
        Some(OutputFormat::Json) => {
            put(&mut body, "generationConfig.responseMimeType", Some("application/json"))
        }
        Some(OutputFormat::Schema { schema, .. }) => {
            put(&mut body, "generationConfig.responseMimeType", Some("application/json"));
            // A schema that was read from the other member is renamed with the retained fields.
            let (is_complete, schema) = whole_or_narrow(schema, writing);
            let word = if is_complete { "responseJsonSchema" } else { "responseSchema" };
            put(&mut body, &format!("generationConfig.{word}"), Some(schema));
        }
        None => {}
    }
    write_reasoning(request, &model, &mut body, writing);
    request.stream = None;
    let modalities = std::mem::take(&mut request.modalities);
    let modalities: Vec<String> = modalities.iter().map(|word| word.to_uppercase()).collect();
    put(&mut body, "generationConfig.responseModalities", (!modalities.is_empty()).then_some(modalities));
    // Only some of its servers know it, and `default` is the default of all.
    if writing.is_lossless || request.service_tier.as_deref() != Some("default") {
        put(&mut body, "serviceTier", take_word(&mut request.service_tier, TIERS));
    }
    request.kept.restore(NAME, &mut body);
    body
}

/// Returns a schema in full for the newer models' members; some of these models also take the older members, where
/// these can express it.
fn whole_or_narrow(schema: Value, writing: &RequestWriting<'_>) -> (bool, Value) {
    match writing.limits.whole_schemas {
        _ if writing.is_lossless => (false, schema),
        FullSchemas::None => (false, schema),
        FullSchemas::Others => match in_open_api(&schema) {
            Some(narrow) => (false, narrow),
            None => (true, schema),
        },
        FullSchemas::All => (true, schema),
    }
}

fn write_reasoning(request: &mut Request, model: &str, body: &mut Object, writing: &RequestWriting<'_>) {
    const LEVEL: &str = "generationConfig.thinkingConfig.thinkingLevel";
    const TOLD: &str = "generationConfig.thinkingConfig.includeThoughts";
    let reasoning = &mut request.reasoning;
    if reasoning.mode == Some(ReasoningMode::Adaptive)
        && reasoning.effort.is_none()
        && reasoning.budget.is_none()
    {
        reasoning.mode = None;
        reasoning.budget = Some((-1).into());
    }
    let told = reasoning.summary.take().map(|summary| summary != "none");
    if writing.is_lossless {
        put(body, BUDGET, reasoning.budget.take());
        put(body, LEVEL, reasoning.effort.take());
        put(body, TOLD, told);
        return;
    }
    let is_asked = reasoning.mode.is_some_and(|mode| mode != ReasoningMode::Off)
        || reasoning.budget.as_ref().is_some_and(|budget| budget.as_str() != "0")
        || reasoning.effort.as_deref().is_some_and(|effort| effort != "none");
    if model.contains("gemini-3")
        && let Some(effort) = reasoning.effort.take()
    {
        reasoning.mode = None;
        reasoning.budget = None;
        let level = match effort.as_str() {
            // These models always reason.
            "none" | "minimal" | "low" => "LOW",
            "medium" => "MEDIUM",
            _ => "HIGH",
        };
        put(body, LEVEL, Some(level));
        put(body, TOLD, told);
        return;
    }
    let budget = effort::take_budget(reasoning);
    put(body, TOLD, told.or_else(|| (budget.is_some() || is_asked).then_some(is_asked)));
    put(body, BUDGET, budget);
}

fn write_choice(request: &mut Request, body: &mut Object) {
    const MODE: &str = "toolConfig.functionCallingConfig.mode";
    const NAMES: &str = "toolConfig.functionCallingConfig.allowedFunctionNames";
    let (mode, names) = match request.tool_choice.take() {
        Some(ToolChoice::Auto) => ("AUTO", None),
        Some(ToolChoice::None) => ("NONE", None),
        Some(ToolChoice::Required) => ("ANY", None),
        Some(ToolChoice::Tool { name, .. }) => ("ANY", Some(vec![name])),
        Some(ToolChoice::Allowed { names, is_required: true }) => ("ANY", Some(names)),
        Some(ToolChoice::Allowed { names, is_required: false }) => ("AUTO", Some(names)),
        None => return,
    };
    put(body, MODE, Some(mode));
    put(body, NAMES, names);
}

fn write_content(mut message: RequestMessage, writing: &mut RequestWriting<'_>) -> Value {
    let role = if message.role == Role::Assistant { "model" } else { "user" };
    let mut object = Object::from_iter([("role", role)]);
    let MessageContent { parts, form } = message.content.take();
    let is_absent = parts.is_empty() && form != ContentForm::List && writing.is_lossless;
    let parts: Vec<Value> =
        parts.into_iter().filter_map(|part| write_part(part, PartPosition::Content, writing)).collect();
    if !is_absent {
        object.insert("parts", parts);
    }
    message.retained.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    object.into()
}

/// The position of a part.
#[derive(Clone, Copy, PartialEq)]
enum PartPosition {
    Content,
    Result,
}

fn write_part(
    mut part: ContentPart,
    inside: PartPosition,
    writing: &mut RequestWriting<'_>,
) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())) {
        PartKind::Text(text) | PartKind::Refusal(text) if inside == PartPosition::Content => {
            object.insert("text", text);
        }
        PartKind::Media(media) => write_media(*media, &mut object, writing)?,
        PartKind::Reasoning(thought) => {
            let text = thought.into_text();
            if text.as_ref().is_none_or(String::is_empty) && !writing.is_lossless {
                writing.losses.put("encrypted reasoning");
                return None;
            }
            put(&mut object, "text", text);
            object.insert("thought", true);
        }
        PartKind::Call(call) => {
            put(&mut object, "functionCall.name", Some(call.name));
            put(&mut object, "functionCall.id", call.id);
            let arguments = writing.object_of(call.arguments);
            put(&mut object, "functionCall.args", Some(arguments));
        }
        PartKind::Result(result) => write_result(*result, &mut object, writing),
        PartKind::Opaque(word) => {
            // An empty part has no retained fields.
            if part.retained.protocol() != Some(NAME) && !writing.is_lossless {
                writing.losses.put(format!("{word} of {}", part.retained.protocol().unwrap_or("nobody")));
                return None;
            }
            part.retained.restore(NAME, &mut object);
            return Some(object.into());
        }
        body => {
            writing.losses.message(NAME, &RequestMessage::of(Role::User, ContentPart { body, ..part }));
            return None;
        }
    }
    put(&mut object, "thoughtSignature", ProviderSeal::of(&mut part.signature, ISSUER));
    part.retained.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

/// Writes a result as an object; a text becomes its only member.
fn write_result(result: CallResult, object: &mut Object, writing: &mut RequestWriting<'_>) {
    put(object, "functionResponse.id", result.id);
    put(object, "functionResponse.name", result.name);
    let MessageContent { parts, form } = result.content;
    let mut text = String::new();
    let mut rich = Vec::new();
    for part in parts {
        match part.as_text() {
            Some(own) => {
                text.push_str(own);
                writing.losses.part(NAME, &part);
            }
            None => rich.push(part),
        }
    }
    let response = match result.value {
        Some(value) => Some(value),
        None if writing.is_lossless => None,
        None => {
            let key = if result.is_error == Some(true) { "error" } else { "output" };
            Some(Value::object([(key, text.into())]))
        }
    };
    put(object, "functionResponse.response", response);
    let parts: Vec<Value> =
        rich.into_iter().filter_map(|part| write_part(part, PartPosition::Result, writing)).collect();
    if !parts.is_empty() || form == ContentForm::List && writing.is_lossless {
        put(object, "functionResponse.parts", Some(parts));
    }
}

fn write_media(media: Media, object: &mut Object, writing: &mut RequestWriting<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    if detail.is_some_and(|detail| detail != "auto") {
        writing.losses.put("detail of an image");
    }
    let usual = match kind {
        MediaKind::Image => "image/jpeg",
        MediaKind::Audio => "audio/wav",
        MediaKind::Video => "video/mp4",
        MediaKind::File => "application/pdf",
    };
    match source {
        MediaSource::Data(data) => {
            let media_type = media_type.or_else(|| (!writing.is_lossless).then(|| usual.to_owned()));
            put(object, "inlineData.mimeType", media_type);
            put(object, "inlineData.data", Some(data));
            if writing.is_lossless {
                put(object, "inlineData.displayName", name);
            }
        }
        MediaSource::Url(url)
            if url.starts_with("gs://") && media_type.is_none() && type_of_name(&url).is_none() =>
        {
            writing.losses.refuse(format!("{kind:?} without a media type").to_lowercase());
            return None;
        }
        MediaSource::Url(url) => {
            let guess = || type_of_name(&url).unwrap_or(usual).to_owned();
            let media_type = media_type.or_else(|| (!writing.is_lossless).then(guess));
            put(object, "fileData.mimeType", media_type);
            put(object, "fileData.fileUri", Some(url));
            if writing.is_lossless {
                put(object, "fileData.displayName", name);
            }
        }
        MediaSource::Text(text) => {
            object.insert("text", text);
        }
        MediaSource::Id(_) => {
            writing.losses.put(format!("{kind:?} with the provider").to_lowercase());
            return None;
        }
    }
    Some(())
}

fn write_tools(tools: Vec<RequestTool>, writing: &mut RequestWriting<'_>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut functions: Vec<Value> = Vec::new();
    for (number, mut tool) in tools.into_iter().enumerate() {
        writing.losses.at(format_args!("tools[{number}]"));
        match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
            ToolKind::Group(members) if writing.is_lossless => {
                let members: Vec<Value> =
                    members.into_iter().filter_map(|tool| write_function(tool, writing)).collect();
                let mut object = Object::from_iter([("functionDeclarations", members)]);
                tool.retained.restore(NAME, &mut object);
                out.push(object.into());
            }
            ToolKind::Builtin(word) => {
                let is_search = word == WEB_SEARCH && tool.retained.protocol() != Some(NAME);
                tool.kind = ToolKind::Builtin(word);
                if is_search {
                    out.push(Value::object([("googleSearch", Object::new().into())]));
                } else {
                    writing.losses.tool(NAME, &tool);
                    out.extend(tool.retained.into_complete(NAME));
                }
            }
            kind => functions.extend(write_function(RequestTool { kind, ..tool }, writing)),
        }
    }
    if !functions.is_empty() {
        out.insert(0, Value::object([("functionDeclarations", functions.into())]));
    }
    out
}

fn write_function(mut tool: RequestTool, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let ToolKind::Function { schema } = std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) else {
        writing.losses.put("free-form tool");
        return None;
    };
    let mut object = Object::from_iter([("name", tool.name.clone())]);
    put(&mut object, "description", tool.description.take());
    // An object schema without members would be refused.
    let is_empty = |schema: &Value| {
        schema.as_object().is_some_and(|schema| {
            schema["properties"].as_object().is_none_or(Object::is_empty) && !schema.contains_key("anyOf")
        })
    };
    if let Some(schema) = schema.filter(|schema| writing.is_lossless || !is_empty(schema)) {
        let (is_complete, schema) = whole_or_narrow(schema, writing);
        object.insert(if is_complete { "parametersJsonSchema" } else { "parameters" }, schema);
    }
    tool.retained.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}
