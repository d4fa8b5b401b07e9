//! Requests of Anthropic Messages.

mod write;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    Arguments, Body, CacheMark, Call, CallKind, CallResult, Compaction, Content, Format, Kept, Limits, Media,
    MediaKind, Members, Message, Part, Request, RequestCoding, Role, Seal, Source, Thinking, Thought, Tool,
    ToolChoice, ToolKind, WEB_SEARCH,
};
use write::write;

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &Limits::ANTHROPIC };

const NAME: &str = PROTOCOL.name;

/// Whose signatures and encrypted thoughts these are.
const ISSUER: &str = "anthropic";

/// Words for how thoughts are told.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

/// Words for how fast, and at what price.
const TIERS: &[(&str, &str)] = &[("auto", "auto"), ("standard_only", "default")];

const ROLES: &[(&str, Role)] =
    &[("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System)];

fn read(body: Object) -> Result<Request> {
    let mut body = Members::new(body);
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
    request.reasoning.mode = Thinking::read(&mut body, "thinking.type");
    request.reasoning.budget = body.number("thinking.budget_tokens");
    request.reasoning.summary = body.word("thinking.display", SUMMARIES);
    request.reasoning.effort = body.string("output_config.effort");
    if body.peek_str("output_config.format.type") == Some("json_schema")
        && body.peek("output_format").is_none()
        && let Some(schema) = body.object("output_config.format.schema")
    {
        body.string("output_config.format.type");
        let schema = schema.into();
        request.format = Some(Format::Schema { name: None, description: None, schema, strict: Some(true) });
    } else if let Some(schema) = body.peek("output_format.schema").filter(|schema| schema.is_object()) {
        // The older place, which counts more. It stays.
        let schema = schema.clone();
        body.note_read("output_format");
        request.format = Some(Format::Schema { name: None, description: None, schema, strict: Some(true) });
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

/// One of several things to do about long conversations. All of them stay.
fn read_compaction(body: &Members) -> Option<Compaction> {
    let edits = body.peek("context_management.edits")?.as_array()?;
    let edit =
        edits.iter().find(|edit| edit["type"].as_str().is_some_and(|word| word.starts_with("compact_")))?;
    Some(Compaction { threshold: edit.pointer("/trigger/value").and_then(Value::as_number).cloned() })
}

fn read_message(message: Object) -> Message {
    let mut message = Members::new(message);
    let role = message.role(ROLES).unwrap_or(Role::User);
    let content = read_content(&mut message, "content");
    Message { role, content, name: None, kept: message.rest(NAME) }
}

fn read_content(members: &mut Members, path: &str) -> Content {
    if let Some(text) = members.string(path) {
        return Content::text(text);
    }
    match members.array(path) {
        Some(blocks) => {
            Content::list(blocks.into_iter().map(|block| read_block(block, Depth::Outer)).collect())
        }
        None => Content::default(),
    }
}

fn read_cache(members: &mut Members) -> Option<Box<CacheMark>> {
    members
        .constant("cache_control.type", "ephemeral")
        .then(|| Box::new(CacheMark { ttl: members.string("cache_control.ttl") }))
}

/// Results stand in messages, not in results.
#[derive(Clone, Copy, PartialEq)]
enum Depth {
    Outer,
    Inner,
}

fn read_block(block: Value, depth: Depth) -> Part {
    let block = match block {
        Value::Object(block) => block,
        other => return Part::opaque(NAME, "", other),
    };
    let mut block = Members::new(block);
    let word = block.peek_str("type").unwrap_or_default().to_owned();
    let mut signature = None;
    let body = match word.as_str() {
        "text" => block.string("text").map(Body::Text),
        "image" => read_source(&mut block, MediaKind::Image).map(Body::from),
        "document" => read_source(&mut block, MediaKind::File)
            .map(|media| Body::from(Media { name: block.string("title"), ..media })),
        "thinking" => block.string("thinking").map(|text| {
            // Thoughts of other models have an empty one, which seals nothing. It stays.
            match block.peek_str("signature") {
                Some("") => block.note_read("signature"),
                _ => signature = block.string("signature").map(|data| Seal::new(ISSUER, data)),
            }
            Body::from(Thought { text: Some(text), ..Thought::default() })
        }),
        "redacted_thinking" => block.string("data").map(|data| {
            Body::from(Thought { encrypted: Some(Seal::new(ISSUER, data)), ..Thought::default() })
        }),
        "tool_use" => read_call(&mut block, CallKind::Function).map(Body::from),
        "server_tool_use" => read_call(&mut block, CallKind::Builtin).map(Body::from),
        "tool_result" if depth == Depth::Outer => Some(read_result(&mut block, CallKind::Function)),
        word if depth == Depth::Outer && word.ends_with("_tool_result") && word != "mcp_tool_result" => {
            // Its content is the tool's own and stays what it is.
            let mut result = read_result(&mut block, CallKind::Builtin);
            if let Body::Result(result) = &mut result {
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
            return Part { kept: block.rest(NAME), ..Part::new(Body::Opaque(word)) };
        }
        return Part::opaque(NAME, &word, block.into_object().into());
    };
    if !matches!(&body, Body::Result(result) if result.kind == CallKind::Builtin) {
        block.string("type");
    }
    let cache = read_cache(&mut block);
    Part { body, cache, signature, kept: block.rest(NAME) }
}

fn read_source(block: &mut Members, kind: MediaKind) -> Option<Media> {
    let media = match block.peek_str("source.type")? {
        "base64" => {
            let data = block.string("source.data")?;
            Media { media_type: block.string("source.media_type"), ..Media::new(kind, Source::Data(data)) }
        }
        "text" => {
            let text = block.string("source.data")?;
            Media { media_type: block.string("source.media_type"), ..Media::new(kind, Source::Text(text)) }
        }
        "url" => Media::new(kind, Source::Url(block.string("source.url")?)),
        "file" => Media::new(kind, Source::Id(block.string("source.file_id")?)),
        _ => return None,
    };
    block.string("source.type");
    Some(media)
}

fn read_call(block: &mut Members, kind: CallKind) -> Option<Call> {
    let name = block.string("name")?;
    let id = block.string("id");
    if id.is_none() {
        block.note_malformed("id");
    }
    block.note_absence("input");
    let input = block.take_if("input", |input| !input.is_null()).unwrap_or_else(|| Object::new().into());
    Some(Call { id, name, namespace: None, arguments: Arguments::Json(input), kind })
}

fn read_result(block: &mut Members, kind: CallKind) -> Body {
    let id = block.string("tool_use_id");
    let is_error = block.truth("is_error");
    let content = match kind {
        CallKind::Builtin => Content::default(),
        CallKind::Function | CallKind::Custom => match block.string("content") {
            Some(text) => Content::text(text),
            None => block.array("content").map_or_else(Content::default, |blocks| {
                Content::list(blocks.into_iter().map(|block| read_block(block, Depth::Inner)).collect())
            }),
        },
    };
    Body::from(CallResult { id, name: None, content, value: None, is_error, kind })
}

fn read_tool(tool: Object) -> Tool {
    let mut tool = Members::new(tool);
    let word = tool.peek_str("type").unwrap_or("custom").to_owned();
    let name = tool.peek_str("name").unwrap_or_default().to_owned();
    if word != "custom" || tool.peek_str("name").is_none() {
        let word = if word.starts_with("web_search_") { WEB_SEARCH.to_owned() } else { word };
        return Tool {
            kept: Kept::whole(NAME, tool.into_object().into()),
            ..Tool::new(name, ToolKind::Builtin(word))
        };
    }
    tool.string("name");
    let kind = ToolKind::Function { schema: tool.object("input_schema").map(Value::from) };
    let description = tool.string("description");
    let strict = tool.truth("strict");
    let cache = read_cache(&mut tool);
    Tool { description, strict, cache, kept: tool.rest(NAME), ..Tool::new(name, kind) }
}

fn read_choice(body: &mut Members) -> Option<ToolChoice> {
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
