//! Requests of Anthropic Messages.

mod write;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    CacheMark, CallArguments, CallKind, CallResult, CompactionSettings, ContentPart, Media, MediaKind,
    MediaSource, MessageContent, OutputFormat, PartKind, ProviderLimits, ProviderSeal, ReasoningMode,
    Request, RequestCall, RequestCoding, RequestMembers, RequestMessage, RequestReasoning, RequestTool,
    RetainedFields, Role, ToolChoice, ToolKind, WEB_SEARCH,
};
use write::write;

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &ProviderLimits::ANTHROPIC };

const NAME: &str = PROTOCOL.name;

/// The issuer of the signatures and encrypted reasoning.
const ISSUER: &str = "anthropic";

/// Names for the visibility of reasoning.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

/// Names of the service tiers.
const TIERS: &[(&str, &str)] = &[("auto", "auto"), ("standard_only", "default")];

const ROLES: &[(&str, Role)] =
    &[("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System)];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    request.instructions = read_content(&mut body, "system");
    request.messages = body.objects("messages").unwrap_or_default().into_iter().map(read_message).collect();
    request.tools = body.objects("tools").unwrap_or_default().into_iter().map(read_tool).collect();
    if let Some(is_disabled) = body.truth("tool_choice.disable_parallel_tool_use") {
        request.parallel_calls = Some(!is_disabled);
    }
    request.tool_choice = read_choice(&mut body);
    request.max_tokens = body.number("max_tokens");
    request.stop = body.strings("stop_sequences").unwrap_or_default();
    request.sampling.temperature = body.number("temperature");
    request.sampling.top_p = body.number("top_p");
    request.sampling.top_k = body.number("top_k");
    request.reasoning.mode = ReasoningMode::read(&mut body, "thinking.type");
    request.reasoning.budget = body.number("thinking.budget_tokens");
    request.reasoning.summary = body.word("thinking.display", SUMMARIES);
    request.reasoning.effort = body.string("output_config.effort");
    if body.peek_str("output_config.format.type") == Some("json_schema")
        && body.peek("output_format").is_none()
        && let Some(schema) = body.object("output_config.format.schema")
    {
        body.string("output_config.format.type");
        let schema = schema.into();
        request.format =
            Some(OutputFormat::Schema { name: None, description: None, schema, strict: Some(true) });
    } else if let Some(schema) = body.peek("output_format.schema").filter(|schema| schema.is_object()) {
        // The older member, which takes precedence. It stays.
        let schema = schema.clone();
        body.note_read("output_format");
        request.format =
            Some(OutputFormat::Schema { name: None, description: None, schema, strict: Some(true) });
    }
    request.compaction = read_compaction(&body);
    if request.compaction.is_some() {
        body.note_read("context_management");
    }
    request.stream = body.truth("stream");
    request.user = body.string("metadata.user_id");
    request.service_tier = body.word("service_tier", TIERS);
    request.kept = body.rest(NAME);
    Ok(request)
}

/// Reads the compaction among the edits of long conversations. All of them stay.
fn read_compaction(body: &RequestMembers) -> Option<CompactionSettings> {
    let edits = body.peek("context_management.edits")?.as_array()?;
    let edit =
        edits.iter().find(|edit| edit["type"].as_str().is_some_and(|word| word.starts_with("compact_")))?;
    Some(CompactionSettings { threshold: edit.pointer("/trigger/value").and_then(Value::as_number).cloned() })
}

fn read_message(message: Object) -> RequestMessage {
    let mut message = RequestMembers::new(message);
    let role = message.role(ROLES).unwrap_or(Role::User);
    let content = read_content(&mut message, "content");
    RequestMessage { role, content, name: None, retained: message.rest(NAME) }
}

fn read_content(members: &mut RequestMembers, path: &str) -> MessageContent {
    if let Some(text) = members.string(path) {
        return MessageContent::text(text);
    }
    match members.array(path) {
        Some(blocks) => MessageContent::list(
            blocks.into_iter().map(|block| read_block(block, AnthropicContentDepth::Outer)).collect(),
        ),
        None => MessageContent::default(),
    }
}

fn read_cache(members: &mut RequestMembers) -> Option<Box<CacheMark>> {
    members
        .constant("cache_control.type", "ephemeral")
        .then(|| Box::new(CacheMark { ttl: members.string("cache_control.ttl") }))
}

/// The depth of content: results are in messages, not in results.
#[derive(Clone, Copy, PartialEq)]
enum AnthropicContentDepth {
    Outer,
    Inner,
}

fn read_block(block: Value, depth: AnthropicContentDepth) -> ContentPart {
    let block = match block {
        Value::Object(block) => block,
        other => return ContentPart::opaque(NAME, "", other),
    };
    let mut block = RequestMembers::new(block);
    let word = block.peek_str("type").unwrap_or_default().to_owned();
    let mut signature = None;
    let body = match word.as_str() {
        "text" => block.string("text").map(PartKind::Text),
        "image" => read_source(&mut block, MediaKind::Image).map(PartKind::from),
        "document" => read_source(&mut block, MediaKind::File)
            .map(|media| PartKind::from(Media { name: block.string("title"), ..media })),
        "thinking" => block.string("thinking").map(|text| {
            // Reasoning of other models has an empty signature, which seals nothing. It stays.
            match block.peek_str("signature") {
                Some("") => block.note_read("signature"),
                _ => signature = block.string("signature").map(|data| ProviderSeal::new(ISSUER, data)),
            }
            PartKind::from(RequestReasoning { text: Some(text), ..RequestReasoning::default() })
        }),
        "redacted_thinking" => block.string("data").map(|data| {
            PartKind::from(RequestReasoning {
                encrypted: Some(ProviderSeal::new(ISSUER, data)),
                ..RequestReasoning::default()
            })
        }),
        "tool_use" => read_call(&mut block, CallKind::Function).map(PartKind::from),
        "server_tool_use" => read_call(&mut block, CallKind::Builtin).map(PartKind::from),
        "tool_result" if depth == AnthropicContentDepth::Outer => {
            Some(read_result(&mut block, CallKind::Function))
        }
        word if depth == AnthropicContentDepth::Outer
            && word.ends_with("_tool_result")
            && word != "mcp_tool_result" =>
        {
            // Its content is the tool's own and stays unchanged.
            let mut result = read_result(&mut block, CallKind::Builtin);
            if let PartKind::Result(result) = &mut result {
                result.value = block.peek("content").cloned();
                block.note_read("content");
            }
            Some(result)
        }
        _ => None,
    };
    let Some(body) = body else {
        if let "tool_use" | "text" | "tool_result" | "thinking" = word.as_str() {
            block.note_malformed("type");
            return ContentPart { retained: block.rest(NAME), ..ContentPart::new(PartKind::Opaque(word)) };
        }
        return ContentPart::opaque(NAME, &word, block.into_object().into());
    };
    if !matches!(&body, PartKind::Result(result) if result.kind == CallKind::Builtin) {
        block.string("type");
    }
    let cache = read_cache(&mut block);
    ContentPart { body, cache, signature, retained: block.rest(NAME) }
}

fn read_source(block: &mut RequestMembers, kind: MediaKind) -> Option<Media> {
    let media = match block.peek_str("source.type")? {
        "base64" => {
            let data = block.string("source.data")?;
            Media {
                media_type: block.string("source.media_type"),
                ..Media::new(kind, MediaSource::Data(data))
            }
        }
        "text" => {
            let text = block.string("source.data")?;
            Media {
                media_type: block.string("source.media_type"),
                ..Media::new(kind, MediaSource::Text(text))
            }
        }
        "url" => Media::new(kind, MediaSource::Url(block.string("source.url")?)),
        "file" => Media::new(kind, MediaSource::Id(block.string("source.file_id")?)),
        _ => return None,
    };
    block.string("source.type");
    Some(media)
}

fn read_call(block: &mut RequestMembers, kind: CallKind) -> Option<RequestCall> {
    let name = block.string("name")?;
    let id = block.string("id");
    if id.is_none() {
        block.note_malformed("id");
    }
    block.note_absence("input");
    let input = block.take_if("input", |input| !input.is_null()).unwrap_or_else(|| Object::new().into());
    Some(RequestCall { id, name, namespace: None, arguments: CallArguments::Json(input), kind })
}

fn read_result(block: &mut RequestMembers, kind: CallKind) -> PartKind {
    let id = block.string("tool_use_id");
    let is_error = block.truth("is_error");
    let content = match kind {
        CallKind::Builtin => MessageContent::default(),
        CallKind::Function | CallKind::Custom => match block.string("content") {
            Some(text) => MessageContent::text(text),
            None => block.array("content").map_or_else(MessageContent::default, |blocks| {
                MessageContent::list(
                    blocks.into_iter().map(|block| read_block(block, AnthropicContentDepth::Inner)).collect(),
                )
            }),
        },
    };
    PartKind::from(CallResult { id, name: None, content, value: None, is_error, kind })
}

fn read_tool(tool: Object) -> RequestTool {
    let mut tool = RequestMembers::new(tool);
    let word = tool.peek_str("type").unwrap_or("custom").to_owned();
    let name = tool.peek_str("name").unwrap_or_default().to_owned();
    if word != "custom" || tool.peek_str("name").is_none() {
        let word = if word.starts_with("web_search_") { WEB_SEARCH.to_owned() } else { word };
        return RequestTool {
            retained: RetainedFields::whole(NAME, tool.into_object().into()),
            ..RequestTool::new(name, ToolKind::Builtin(word))
        };
    }
    tool.string("name");
    let kind = ToolKind::Function { schema: tool.object("input_schema").map(Value::from) };
    let description = tool.string("description");
    let strict = tool.truth("strict");
    let cache = read_cache(&mut tool);
    RequestTool { description, strict, cache, retained: tool.rest(NAME), ..RequestTool::new(name, kind) }
}

fn read_choice(body: &mut RequestMembers) -> Option<ToolChoice> {
    let choice = match body.peek_str("tool_choice.type")? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Tool { name: body.string("tool_choice.name")?, kind: CallKind::Function },
        _ => return None,
    };
    body.string("tool_choice.type");
    Some(choice)
}
