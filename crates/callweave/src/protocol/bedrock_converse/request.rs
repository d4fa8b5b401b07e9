//! Requests of Amazon Bedrock Converse.

mod write;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    CacheMark, CallArguments, CallKind, CallResult, ContentPart, Media, MediaKind, MediaSource,
    MessageContent, OutputFormat, PartKind, ProviderLimits, ProviderSeal, ReasoningMode, Request,
    RequestCall, RequestCoding, RequestMembers, RequestMessage, RequestReasoning, RequestTool,
    RetainedFields, Role, ToolChoice, ToolKind, ending_of_type, type_of_name,
};
use write::{write, write_choice};

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "modelId", limits: &ProviderLimits::CONVERSE };

const NAME: &str = PROTOCOL.name;

/// The issuer of the signatures: Claude's, on any server.
const ISSUER: &str = "anthropic";

/// Names for the visibility of reasoning.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

/// Names of the service tiers.
const TIERS: &[(&str, &str)] =
    &[("default", "default"), ("flex", "flex"), ("priority", "priority"), ("reserved", "reserved")];

const ROLES: &[(&str, Role)] =
    &[("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System)];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("modelId");
    if let Some(blocks) = body.objects("system") {
        request.instructions = MessageContent::list(read_blocks(blocks, ConverseContentDepth::Outer));
    }
    request.messages = body.objects("messages").unwrap_or_default().into_iter().map(read_message).collect();
    request.tools = read_tools(body.objects("toolConfig.tools").unwrap_or_default());
    request.tool_choice = read_choice(&mut body);
    request.max_tokens = body.number("inferenceConfig.maxTokens");
    request.stop = body.strings("inferenceConfig.stopSequences").unwrap_or_default();
    request.sampling.temperature = body.number("inferenceConfig.temperature");
    request.sampling.top_p = body.number("inferenceConfig.topP");
    request.sampling.top_k = body.number("additionalModelRequestFields.top_k");
    let reasoning = &mut request.reasoning;
    reasoning.mode = ReasoningMode::read(&mut body, "additionalModelRequestFields.thinking.type");
    reasoning.budget = body.number("additionalModelRequestFields.thinking.budget_tokens");
    reasoning.effort = body.string("additionalModelRequestFields.output_config.effort");
    reasoning.summary = body.word("additionalModelRequestFields.thinking.display", SUMMARIES);
    // The form of Anthropic's models; it stays.
    let parallel = "additionalModelRequestFields.tool_choice.disable_parallel_tool_use";
    if let Some(is_single) = body.peek(parallel).and_then(Value::as_bool) {
        request.parallel_calls = Some(!is_single);
        body.note_read(parallel);
        body.note_read("additionalModelRequestFields.tool_choice.type");
    }
    request.format = read_format(&mut body);
    request.metadata = body.object("requestMetadata");
    request.service_tier = body.word("serviceTier.type", TIERS);
    request.kept = body.rest(NAME);
    Ok(request)
}

fn read_message(message: Object) -> RequestMessage {
    let mut message = RequestMembers::new(message);
    let role = message.role(ROLES).unwrap_or(Role::User);
    let blocks = message.objects("content");
    let content = blocks.map_or_else(MessageContent::default, |blocks| {
        MessageContent::list(read_blocks(blocks, ConverseContentDepth::Outer))
    });
    RequestMessage { retained: message.rest(NAME), ..RequestMessage::new(role, content) }
}

/// The depth of content: results are in messages, not in results.
#[derive(Clone, Copy, PartialEq)]
enum ConverseContentDepth {
    Outer,
    Inner,
}

fn read_blocks(blocks: Vec<Object>, depth: ConverseContentDepth) -> Vec<ContentPart> {
    let mut parts: Vec<ContentPart> = Vec::with_capacity(blocks.len());
    for block in blocks {
        // A separate mark, after the content it marks.
        if let Some(mark) = read_cache(&block)
            && let Some(last) = parts.last_mut().filter(|last| last.cache.is_none())
        {
            last.cache = Some(mark);
            continue;
        }
        parts.push(read_block(block, depth));
    }
    parts
}

fn read_cache(block: &Object) -> Option<Box<CacheMark>> {
    let mark = block.get("cachePoint")?.as_object()?;
    let ttl = mark.get("ttl").map(|ttl| ttl.as_str().map(str::to_owned));
    let is_usual =
        block.len() == 1 && mark["type"] == "default" && mark.len() == 1 + usize::from(ttl.is_some());
    match ttl {
        _ if !is_usual => None,
        Some(None) => None,
        Some(ttl) => Some(Box::new(CacheMark { ttl })),
        None => Some(Box::new(CacheMark { ttl: None })),
    }
}

fn read_block(block: Object, depth: ConverseContentDepth) -> ContentPart {
    let mut block = RequestMembers::new(block);
    let word = block.keys().next().unwrap_or_default().to_owned();
    let mut signature = None;
    let body = match word.as_str() {
        "text" => block.string("text").map(PartKind::Text),
        "image" => read_media(&mut block, "image", MediaKind::Image).map(PartKind::from),
        "audio" => read_media(&mut block, "audio", MediaKind::Audio).map(PartKind::from),
        "video" => read_media(&mut block, "video", MediaKind::Video).map(PartKind::from),
        "document" => read_media(&mut block, "document", MediaKind::File).map(PartKind::from),
        "json" => {
            // Other protocols get its text; it stays unchanged.
            let text = block.peek("json").map(Value::to_string).unwrap_or_default();
            block.note_read("json");
            Some(PartKind::Text(text))
        }
        // Text for a guard is also content; it stays unchanged.
        "guardContent" => block.peek_str("guardContent.text.text").map(str::to_owned).map(|text| {
            block.note_read("guardContent");
            PartKind::Text(text)
        }),
        "toolUse" => read_call(&mut block),
        "toolResult" if depth == ConverseContentDepth::Outer => Some(read_result(&mut block)),
        "reasoningContent" => {
            if let Some(text) = block.string("reasoningContent.reasoningText.text") {
                let data = block.string("reasoningContent.reasoningText.signature");
                signature = data.map(|data| ProviderSeal::new(ISSUER, data));
                Some(PartKind::from(RequestReasoning { text: Some(text), ..RequestReasoning::default() }))
            } else {
                block.string("reasoningContent.redactedContent").map(|data| {
                    PartKind::from(RequestReasoning {
                        encrypted: Some(ProviderSeal::new(ISSUER, data)),
                        ..RequestReasoning::default()
                    })
                })
            }
        }
        _ => None,
    };
    let Some(body) = body else {
        return ContentPart::opaque(NAME, &word, block.into_object().into());
    };
    ContentPart { signature, retained: block.rest(NAME), ..ContentPart::new(body) }
}

fn read_media(block: &mut RequestMembers, word: &str, kind: MediaKind) -> Option<Media> {
    let source = if let Some(data) = block.string(&format!("{word}.source.bytes")) {
        MediaSource::Data(data)
    } else if let Some(text) = block.string(&format!("{word}.source.text")) {
        MediaSource::Text(text)
    } else {
        MediaSource::Url(block.string(&format!("{word}.source.s3Location.uri"))?)
    };
    let format = format!("{word}.format");
    let media_type = block.peek_str(&format).and_then(type_of_name).map(str::to_owned);
    // A format name that would be written differently stays.
    if media_type.as_deref().and_then(ending_of_type) == block.peek_str(&format) {
        block.string(&format);
    }
    Some(Media { media_type, name: block.string(&format!("{word}.name")), ..Media::new(kind, source) })
}

fn read_call(block: &mut RequestMembers) -> Option<PartKind> {
    let name = block.string("toolUse.name")?;
    let id = block.string("toolUse.toolUseId");
    block.note_absence("toolUse.input");
    let input =
        block.take_if("toolUse.input", |input| !input.is_null()).unwrap_or_else(|| Object::new().into());
    let arguments = CallArguments::Json(input);
    Some(PartKind::from(RequestCall { id, name, namespace: None, arguments, kind: CallKind::Function }))
}

fn read_result(block: &mut RequestMembers) -> PartKind {
    let id = block.string("toolResult.toolUseId");
    let is_error = match block.peek_str("toolResult.status") {
        Some("success") => Some(false),
        Some("error") => Some(true),
        _ => None,
    };
    if is_error.is_some() {
        block.string("toolResult.status");
    }
    let blocks = block.objects("toolResult.content");
    let content = blocks.map_or_else(MessageContent::default, |blocks| {
        MessageContent::list(read_blocks(blocks, ConverseContentDepth::Inner))
    });
    PartKind::from(CallResult { id, name: None, content, value: None, is_error, kind: CallKind::Function })
}

fn read_tools(tools: Vec<Object>) -> Vec<RequestTool> {
    let mut read: Vec<RequestTool> = Vec::with_capacity(tools.len());
    for tool in tools {
        if let Some(mark) = read_cache(&tool)
            && let Some(last) = read.last_mut().filter(|last| last.cache.is_none())
        {
            last.cache = Some(mark);
            continue;
        }
        let mut tool = RequestMembers::new(tool);
        let Some(name) = tool.string("toolSpec.name") else {
            let word = tool.keys().next().unwrap_or_default().to_owned();
            let kept = RetainedFields::whole(NAME, tool.into_object().into());
            read.push(RequestTool {
                retained: kept,
                ..RequestTool::new(word.clone(), ToolKind::Builtin(word))
            });
            continue;
        };
        let kind = ToolKind::Function { schema: tool.object("toolSpec.inputSchema.json").map(Value::from) };
        let description = tool.string("toolSpec.description");
        let strict = tool.truth("toolSpec.strict");
        read.push(RequestTool {
            description,
            strict,
            retained: tool.rest(NAME),
            ..RequestTool::new(name, kind)
        });
    }
    read
}

fn read_choice(body: &mut RequestMembers) -> Option<ToolChoice> {
    let choice = body.peek("toolConfig.toolChoice")?;
    let read = if choice.get("auto").is_some() {
        ToolChoice::Auto
    } else if choice.get("any").is_some() {
        ToolChoice::Required
    } else {
        let name = choice.pointer("/tool/name")?.as_str()?.to_owned();
        ToolChoice::Tool { name, kind: CallKind::Function }
    };
    if write_choice(&read).as_ref() == Some(choice) {
        body.take_if("toolConfig.toolChoice", |_| true);
    }
    Some(read)
}

fn read_format(body: &mut RequestMembers) -> Option<OutputFormat> {
    const SCHEMA: &str = "outputConfig.textFormat.structure.jsonSchema.schema";
    let text = body.peek_str(SCHEMA)?;
    let schema: Value = text.parse().ok()?;
    let usual = schema.to_string();
    if usual == text {
        body.string(SCHEMA);
    } else {
        // Another spelling of the same schema stays.
        body.note_read("outputConfig");
    }
    body.constant("outputConfig.textFormat.type", "json_schema");
    let name = body.string("outputConfig.textFormat.structure.jsonSchema.name");
    let description = body.string("outputConfig.textFormat.structure.jsonSchema.description");
    Some(OutputFormat::Schema { name, description, schema, strict: None })
}
