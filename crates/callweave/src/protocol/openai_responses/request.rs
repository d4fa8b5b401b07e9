//! Requests of OpenAI Responses and compatible servers.
//!
//! Every item is a message of its own, to preserve its position, its id and its status. Consumers that need complete
//! turns join them.

mod write;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    CallArguments, CallKind, CallResult, CompactionSettings, ContentPart, Media, MediaKind, MediaSource,
    MessageContent, PartKind, ProviderLimits, ProviderSeal, Request, RequestCall, RequestCoding,
    RequestMembers, RequestMessage, RequestReasoning, RequestTool, RetainedFields, Role, ToolKind, TypedForm,
    WEB_SEARCH, parse_data_url,
};
use write::write;

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &ProviderLimits::OPENAI_RESPONSES };

const NAME: &str = PROTOCOL.name;

/// The issuer of the encrypted reasoning.
const ISSUER: &str = "openai";

const ROLES: &[(&str, Role)] = &[
    ("system", Role::System),
    ("developer", Role::Developer),
    ("user", Role::User),
    ("assistant", Role::Assistant),
];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    if let Some(text) = body.string("instructions") {
        request.instructions = MessageContent::text(text);
    }
    if let Some(text) = body.string("input") {
        // A message of a bare text: see `write_input`.
        let mut bare = RequestMembers::new(Object::new());
        bare.note_absence("type");
        bare.note_absence("role");
        let message = RequestMessage::new(Role::User, MessageContent::text(text));
        request.messages.push(RequestMessage { retained: bare.rest(NAME), ..message });
    } else if let Some(items) = body.objects("input") {
        request.messages = items.into_iter().map(read_item).collect();
    }
    request.tools = body
        .objects("tools")
        .unwrap_or_default()
        .into_iter()
        .map(|tool| read_tool(tool, ToolDepth::Outer))
        .collect();
    request.tool_choice = TypedForm::Flat.read_choice(&mut body);
    if request.tool_choice.is_none() && body.peek("tool_choice").is_some_and(Value::is_number) {
        body.note_malformed("tool_choice");
    }
    request.parallel_calls = body.truth("parallel_tool_calls");
    request.max_tool_calls = body.number("max_tool_calls");
    request.max_tokens = body.number("max_output_tokens");
    request.sampling.temperature = body.number("temperature");
    request.sampling.top_p = body.number("top_p");
    request.sampling.top_logprobs = body.number("top_logprobs");
    request.format = TypedForm::Flat.read_format(&mut body, "text.format");
    request.verbosity = body.string("text.verbosity");
    request.reasoning.effort = body.string("reasoning.effort");
    request.reasoning.summary = body.string("reasoning.summary");
    request.compaction = read_compaction(&body);
    if request.compaction.is_some() {
        body.note_read("context_management");
    }
    request.stream = body.truth("stream");
    request.store = body.truth("store");
    request.previous = body.string("previous_response_id");
    request.metadata = body.object("metadata");
    request.user = body.string("user");
    request.service_tier = body.string("service_tier");
    request.cache_key = body.string("prompt_cache_key");
    request.kept = body.rest(NAME);
    Ok(request)
}

/// Reads the compaction settings, which also stay in the body.
fn read_compaction(body: &RequestMembers) -> Option<CompactionSettings> {
    let all = body.peek("context_management")?.as_array()?;
    let one = all.iter().find(|one| one["type"] == "compaction")?;
    Some(CompactionSettings { threshold: one["compact_threshold"].as_number().cloned() })
}

fn read_item(item: Object) -> RequestMessage {
    let mut item = RequestMembers::new(item);
    let word = item.peek_str("type").unwrap_or("message").to_owned();
    match word.as_str() {
        "message" => return read_message(item),
        "function_call" | "custom_tool_call" => {
            read_call(&mut item, word == "custom_tool_call").map(|body| (Role::Assistant, body))
        }
        "function_call_output" | "custom_tool_call_output" => {
            let kind = if word == "custom_tool_call_output" { CallKind::Custom } else { CallKind::Function };
            Some((Role::Tool, read_output(&mut item, kind)))
        }
        "reasoning" => Some((Role::Assistant, read_reasoning(&mut item))),
        "additional_tools" => item.objects("tools").map(|tools| {
            let tools = tools.into_iter().map(|tool| read_tool(tool, ToolDepth::Outer)).collect();
            (Role::Developer, PartKind::Tools(tools))
        }),
        _ => None,
    }
    .map_or_else(
        || None,
        |(role, body)| {
            let mut item = std::mem::replace(&mut item, RequestMembers::new(Object::new()));
            item.constant("type", &word);
            Some(RequestMessage::of(
                role,
                ContentPart { retained: item.rest(NAME), ..ContentPart::new(body) },
            ))
        },
    )
    .unwrap_or_else(|| {
        RequestMessage::of(Role::Assistant, ContentPart::opaque(NAME, &word, item.into_object().into()))
    })
}

fn read_message(mut item: RequestMembers) -> RequestMessage {
    let role = item.role(ROLES).unwrap_or(Role::User);
    item.note_absence("type");
    item.constant("type", "message");
    let content = read_content(&mut item, "content", role);
    RequestMessage { role, content, name: None, retained: item.rest(NAME) }
}

fn read_content(members: &mut RequestMembers, path: &str, role: Role) -> MessageContent {
    if let Some(text) = members.string(path) {
        return MessageContent::text(text);
    }
    match members.array(path) {
        Some(parts) => MessageContent::list(parts.into_iter().map(|part| read_part(part, role)).collect()),
        None => MessageContent::default(),
    }
}

fn text_word(role: Role) -> &'static str {
    if role == Role::Assistant { "output_text" } else { "input_text" }
}

fn read_part(part: Value, role: Role) -> ContentPart {
    let part = match part {
        Value::Object(part) => part,
        other => return ContentPart::opaque(NAME, "", other),
    };
    let mut part = RequestMembers::new(part);
    let word = part.peek_str("type").unwrap_or_default().to_owned();
    let (usual, body) = match word.as_str() {
        "input_text" | "output_text" | "text" => (text_word(role), part.string("text").map(PartKind::Text)),
        "refusal" => ("refusal", part.string("refusal").map(PartKind::Refusal)),
        "input_image" => ("input_image", read_image(&mut part).map(PartKind::from)),
        "input_file" => ("input_file", read_file(&mut part).map(PartKind::from)),
        _ => ("", None),
    };
    let Some(body) = body else {
        return ContentPart::opaque(NAME, &word, part.into_object().into());
    };
    // A text with the part type of another role keeps it.
    part.constant("type", usual);
    ContentPart { retained: part.rest(NAME), ..ContentPart::new(body) }
}

fn read_image(part: &mut RequestMembers) -> Option<Media> {
    let media = match part.string("image_url") {
        Some(url) => Media::at(MediaKind::Image, url),
        None => Media::new(MediaKind::Image, MediaSource::Id(part.string("file_id")?)),
    };
    Some(Media { detail: part.string("detail"), ..media })
}

fn read_file(part: &mut RequestMembers) -> Option<Media> {
    let media = if let Some(data) = part.string("file_data") {
        match parse_data_url(&data) {
            Some(_) => Media::at(MediaKind::File, data),
            None => Media::new(MediaKind::File, MediaSource::Data(data)),
        }
    } else if let Some(id) = part.string("file_id") {
        Media::new(MediaKind::File, MediaSource::Id(id))
    } else {
        Media::new(MediaKind::File, MediaSource::Url(part.string("file_url")?))
    };
    Some(Media { name: part.string("filename"), detail: part.string("detail"), ..media })
}

fn read_call(item: &mut RequestMembers, is_custom: bool) -> Option<PartKind> {
    let (path, kind) =
        if is_custom { ("input", CallKind::Custom) } else { ("arguments", CallKind::Function) };
    let name = item.string("name")?;
    item.note_absence(path);
    let arguments = CallArguments::Text(item.string(path).unwrap_or_default());
    let id = item.string("call_id");
    let namespace = item.string("namespace");
    Some(PartKind::from(RequestCall { id, name, namespace, arguments, kind }))
}

fn read_output(item: &mut RequestMembers, kind: CallKind) -> PartKind {
    let id = item.string("call_id");
    let content = read_content(item, "output", Role::Tool);
    PartKind::from(CallResult { id, name: None, content, value: None, is_error: None, kind })
}

fn read_reasoning(item: &mut RequestMembers) -> PartKind {
    PartKind::from(RequestReasoning {
        text: read_texts(item, "content", "reasoning_text").map(|texts| texts.join("\n\n")),
        summary: read_texts(item, "summary", "summary_text"),
        encrypted: item.string("encrypted_content").map(|data| ProviderSeal::new(ISSUER, data)),
    })
}

/// Reads texts in a list of parts. A list that would be written differently also stays in the item.
fn read_texts(item: &mut RequestMembers, path: &str, word: &str) -> Option<Vec<String>> {
    let list = item.peek(path)?.as_array()?;
    let texts: Vec<String> =
        list.iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect();
    let is_usual = *list == *write_texts(&texts, word).as_array()? && (path == "summary" || texts.len() == 1);
    if is_usual {
        item.array(path);
    } else if texts.is_empty() {
        return None;
    } else {
        item.note_read(path);
    }
    Some(texts)
}

fn write_texts(texts: &[String], word: &str) -> Value {
    texts.iter().map(|text| Value::object([("type", word.into()), ("text", text.as_str().into())])).collect()
}

/// The depth of a tool: groups are among the tools, not inside groups.
#[derive(Clone, Copy, PartialEq)]
enum ToolDepth {
    Outer,
    Inner,
}

fn read_tool(tool: Object, depth: ToolDepth) -> RequestTool {
    let mut tool = RequestMembers::new(tool);
    let word = tool.peek_str("type").unwrap_or_default().to_owned();
    let name = tool.peek_str("name").map(str::to_owned);
    let kind = match (word.as_str(), &name) {
        ("function", Some(_)) => {
            Some(ToolKind::Function { schema: tool.object("parameters").map(Value::from) })
        }
        ("custom", Some(_)) => Some(ToolKind::Custom { grammar: TypedForm::Flat.read_grammar(&mut tool) }),
        ("namespace", Some(_)) if depth == ToolDepth::Outer => tool.objects("tools").map(|tools| {
            ToolKind::Group(tools.into_iter().map(|tool| read_tool(tool, ToolDepth::Inner)).collect())
        }),
        _ => None,
    };
    let (Some(kind), Some(name)) = (kind, name) else {
        let kept = RetainedFields::whole(NAME, tool.into_object().into());
        let word = if word.starts_with("web_search") { WEB_SEARCH.to_owned() } else { word };
        return RequestTool { retained: kept, ..RequestTool::new(word.clone(), ToolKind::Builtin(word)) };
    };
    tool.string("type");
    tool.string("name");
    let description = tool.string("description");
    let strict = tool.truth("strict");
    RequestTool { description, strict, retained: tool.rest(NAME), ..RequestTool::new(name, kind) }
}
