//! Requests of Gemini generateContent. Members are spelled `likeThis` or `like_this`, often both in one body.

mod write;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    CallArguments, CallKind, CallResult, ContentPart, Media, MediaKind, MediaSource, MessageContent,
    OutputFormat, PartKind, ProviderLimits, ProviderSeal, ReasoningMode, Request, RequestCall, RequestCoding,
    RequestMembers, RequestMessage, RequestReasoning, RequestTool, RetainedFields, Role, ToolChoice,
    ToolKind, WEB_SEARCH, kind_of,
};
use write::write;

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &ProviderLimits::GEMINI };

const NAME: &str = PROTOCOL.name;

/// The issuer of the signatures.
const ISSUER: &str = "google";

/// The path of the reasoning budget.
const BUDGET: &str = "generationConfig.thinkingConfig.thinkingBudget";

/// Names of the service tiers.
const TIERS: &[(&str, &str)] = &[("standard", "default"), ("flex", "flex"), ("priority", "priority")];

/// The output modalities of the model.
const MODALITIES: &[&str] = &["TEXT", "IMAGE", "AUDIO"];

/// Roles; older names, used for results, stay.
const ROLES: &[(&str, Role)] = &[("user", Role::User), ("model", Role::Assistant)];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::any_case(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    if let Some(parts) = body.objects("systemInstruction.parts") {
        request.instructions = MessageContent::list(parts.into_iter().map(read_part).collect());
    } else if let Some(part) = body.string("systemInstruction.parts.text") {
        body.note_alone("systemInstruction.parts");
        request.instructions = MessageContent::list(vec![ContentPart::text(part)]);
    } else if let Some(text) = body.string("systemInstruction") {
        request.instructions = MessageContent::text(text);
    }
    request.messages = body.objects("contents").unwrap_or_default().into_iter().map(read_content).collect();
    request.tools = body.objects("tools").unwrap_or_default().into_iter().map(read_tools).collect();
    request.tool_choice = read_choice(&mut body);
    request.max_tokens = body.number("generationConfig.maxOutputTokens");
    request.stop = body.strings("generationConfig.stopSequences").unwrap_or_default();
    let sampling = &mut request.sampling;
    sampling.temperature = body.number("generationConfig.temperature");
    sampling.top_p = body.number("generationConfig.topP");
    sampling.top_k = body.number("generationConfig.topK");
    sampling.frequency_penalty = body.number("generationConfig.frequencyPenalty");
    sampling.presence_penalty = body.number("generationConfig.presencePenalty");
    sampling.seed = body.number("generationConfig.seed");
    sampling.choices = body.number("generationConfig.candidateCount");
    sampling.logprobs = body.truth("generationConfig.responseLogprobs");
    sampling.top_logprobs = body.number("generationConfig.logprobs");
    request.format = read_format(&mut body);
    let reasoning = &mut request.reasoning;
    match body.peek(BUDGET).and_then(Value::as_i64) {
        // A budget chosen by the model.
        Some(-1) => {
            reasoning.mode = Some(ReasoningMode::Adaptive);
            body.number(BUDGET);
        }
        _ => reasoning.budget = body.number(BUDGET),
    }
    let level = body.peek_str("generationConfig.thinkingConfig.thinkingLevel");
    if level.is_some_and(|level| level.bytes().all(|byte| byte.is_ascii_lowercase())) {
        reasoning.effort = body.string("generationConfig.thinkingConfig.thinkingLevel");
    } else {
        reasoning.effort = level.map(str::to_lowercase);
        // The usual spelling in capitals stays as it is.
        body.take_if("generationConfig.thinkingConfig.thinkingLevel", |_| false);
    }
    match body.peek("generationConfig.thinkingConfig.includeThoughts") {
        Some(Value::Bool(true)) => reasoning.summary = Some("auto".to_owned()),
        Some(Value::Bool(false)) => reasoning.summary = Some("none".to_owned()),
        _ => {}
    }
    body.truth("generationConfig.thinkingConfig.includeThoughts");
    request.service_tier = body.word("serviceTier", TIERS);
    request.modalities = read_modalities(&mut body);
    request.kept = body.rest(NAME);
    Ok(request)
}

/// Reads modalities in capitals; others stay.
fn read_modalities(body: &mut RequestMembers) -> Vec<String> {
    const PATH: &str = "generationConfig.responseModalities";
    let words = body.peek(PATH).and_then(Value::as_array).into_iter().flatten().map(Value::as_str);
    let is_usual = |word: &&str| MODALITIES.contains(word);
    let Some(words) = words.map(|word| word.filter(is_usual)).collect::<Option<Vec<&str>>>() else {
        return Vec::new();
    };
    let words = words.into_iter().map(str::to_lowercase).collect();
    body.strings(PATH);
    words
}

fn read_content(content: Object) -> RequestMessage {
    let mut content = RequestMembers::any_case(content);
    let role = content.role(ROLES).unwrap_or(Role::User);
    let parts = content.objects("parts");
    let message_content = parts.map_or_else(MessageContent::default, |parts| {
        MessageContent::list(parts.into_iter().map(read_part).collect())
    });
    RequestMessage { retained: content.rest(NAME), ..RequestMessage::new(role, message_content) }
}

fn read_part(part: Object) -> ContentPart {
    let mut part = RequestMembers::any_case(part);
    let is_reasoning = part.peek("thought").is_some_and(|thought| *thought == true);
    let body = if let Some(text) = part.string("text") {
        if is_reasoning {
            part.truth("thought");
            Some(PartKind::from(RequestReasoning { text: Some(text), ..RequestReasoning::default() }))
        } else {
            Some(PartKind::Text(text))
        }
    } else if part.peek_str("functionCall.name").is_some() {
        read_call(&mut part)
    } else if part.peek("functionResponse").is_some_and(Value::is_object) {
        Some(read_result(&mut part))
    } else {
        read_media(&mut part).map(PartKind::from)
    };
    let Some(body) = body else {
        let word = part.keys().next().unwrap_or_default().to_owned();
        return ContentPart { retained: part.rest(NAME), ..ContentPart::new(PartKind::Opaque(word)) };
    };
    let signature = part.string("thoughtSignature").map(|data| ProviderSeal::new(ISSUER, data));
    ContentPart { signature, retained: part.rest(NAME), ..ContentPart::new(body) }
}

fn read_media(part: &mut RequestMembers) -> Option<Media> {
    let (source, media_type) = if let Some(data) = part.string("inlineData.data") {
        (MediaSource::Data(data), part.string("inlineData.mimeType"))
    } else {
        (MediaSource::Url(part.string("fileData.fileUri")?), part.string("fileData.mimeType"))
    };
    let kind = media_type.as_deref().map_or(MediaKind::File, kind_of);
    let name = part.string("inlineData.displayName").or_else(|| part.string("fileData.displayName"));
    Some(Media { media_type, name, ..Media::new(kind, source) })
}

fn read_call(part: &mut RequestMembers) -> Option<PartKind> {
    let name = part.string("functionCall.name")?;
    let id = part.string("functionCall.id");
    part.note_absence("functionCall.args");
    let arguments = part.object("functionCall.args").unwrap_or_default();
    let arguments = CallArguments::Json(arguments.into());
    Some(PartKind::from(RequestCall { id, name, namespace: None, arguments, kind: CallKind::Function }))
}

fn read_result(part: &mut RequestMembers) -> PartKind {
    let id = part.string("functionResponse.id");
    let name = part.string("functionResponse.name");
    let value = part.object("functionResponse.response");
    let is_error =
        value.as_ref().filter(|value| value.len() == 1 && value.contains_key("error")).map(|_| true);
    let parts = part.objects("functionResponse.parts");
    let content = parts.map_or_else(MessageContent::default, |parts| {
        // Only one level: a result in a result is opaque.
        MessageContent::list(parts.into_iter().map(read_inner).collect())
    });
    PartKind::from(CallResult {
        id,
        name,
        content,
        value: value.map(Value::from),
        is_error,
        kind: CallKind::Function,
    })
}

fn read_inner(part: Object) -> ContentPart {
    let mut part = RequestMembers::any_case(part);
    match read_media(&mut part) {
        Some(media) => ContentPart { retained: part.rest(NAME), ..ContentPart::new(media) },
        None => {
            ContentPart { retained: part.rest(NAME), ..ContentPart::new(PartKind::Opaque("part".to_owned())) }
        }
    }
}

/// Reads one element of the list of tools: functions, or tools that the provider runs. Functions are a group without a
/// name.
fn read_tools(tool: Object) -> RequestTool {
    let mut tool = RequestMembers::any_case(tool);
    if let Some(functions) = tool.objects("functionDeclarations") {
        let functions = functions.into_iter().map(read_function).collect();
        return RequestTool { retained: tool.rest(NAME), ..RequestTool::new("", ToolKind::Group(functions)) };
    }
    let word = tool.keys().next().unwrap_or_default().to_owned();
    let word =
        if matches!(word.as_str(), "googleSearch" | "google_search") { WEB_SEARCH.to_owned() } else { word };
    RequestTool {
        retained: RetainedFields::whole(NAME, tool.into_object().into()),
        ..RequestTool::new(word.clone(), ToolKind::Builtin(word))
    }
}

fn read_function(function: Object) -> RequestTool {
    let mut function = RequestMembers::any_case(function);
    let name = function.string("name").unwrap_or_else(|| {
        function.note_absence("name");
        String::new()
    });
    let schema = match function.object("parameters") {
        Some(schema) => Some(schema),
        None => {
            function.rename("parameters", "parametersJsonSchema");
            function.rename("parameters", "parameters_json_schema");
            function.object("parameters")
        }
    };
    let kind = ToolKind::Function { schema: schema.map(Value::from) };
    let description = function.string("description");
    RequestTool { description, retained: function.rest(NAME), ..RequestTool::new(name, kind) }
}

fn read_choice(body: &mut RequestMembers) -> Option<ToolChoice> {
    const MODE: &str = "toolConfig.functionCallingConfig.mode";
    const NAMES: &str = "toolConfig.functionCallingConfig.allowedFunctionNames";
    let is_required = match body.peek_str(MODE)? {
        "AUTO" => false,
        "ANY" => true,
        "NONE" => {
            body.string(MODE);
            return Some(ToolChoice::None);
        }
        _ => return None,
    };
    body.string(MODE);
    match body.strings(NAMES) {
        Some(mut names) if names.len() == 1 && is_required => {
            Some(ToolChoice::Tool { name: names.pop()?, kind: CallKind::Function })
        }
        Some(names) => Some(ToolChoice::Allowed { names, is_required }),
        None if is_required => Some(ToolChoice::Required),
        None => Some(ToolChoice::Auto),
    }
}

fn read_format(body: &mut RequestMembers) -> Option<OutputFormat> {
    const TYPE: &str = "generationConfig.responseMimeType";
    const SCHEMA: &str = "generationConfig.responseSchema";
    match body.peek_str(TYPE) {
        Some("application/json") => {}
        Some("text/plain") => {
            body.string(TYPE);
            return Some(OutputFormat::Text);
        }
        _ => return None,
    }
    body.string(TYPE);
    body.rename(SCHEMA, "responseJsonSchema");
    body.rename(SCHEMA, "response_json_schema");
    Some(match body.object(SCHEMA) {
        Some(schema) => {
            OutputFormat::Schema { name: None, description: None, schema: schema.into(), strict: None }
        }
        None => OutputFormat::Json,
    })
}
