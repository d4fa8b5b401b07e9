//! Requests of Amazon Bedrock Converse.

use std::collections::HashSet;

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    Arguments, Body, CacheMark, Call, CallKind, CallResult, Content, Form, Format, Kept, Limits, Media,
    MediaKind, Members, Message, Part, Request, RequestCoding, Role, Seal, Source, Thinking, Thought, Tool,
    ToolChoice, ToolKind, Writing, ending_of_type, put, type_of_name,
};

pub(super) const CODING: RequestCoding = RequestCoding { read, write, limits: &Limits::CONVERSE };

const NAME: &str = PROTOCOL.name;

/// Whose signatures these are: Claude's, whoever serves it.
const ISSUER: &str = "anthropic";

/// Words for how thoughts are told.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

fn read(body: Object) -> Result<Request> {
    let mut body = Members::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("modelId");
    if let Some(blocks) = body.objects("system") {
        request.instructions = Content::list(read_blocks(blocks, Depth::Outer));
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
    reasoning.mode = match body.peek_str("additionalModelRequestFields.thinking.type") {
        Some("enabled") => Some(Thinking::On),
        Some("disabled") => Some(Thinking::Off),
        Some("adaptive") => Some(Thinking::Adaptive),
        _ => None,
    };
    if reasoning.mode.is_some() {
        body.string("additionalModelRequestFields.thinking.type");
    }
    reasoning.budget = body.number("additionalModelRequestFields.thinking.budget_tokens");
    reasoning.effort = body.string("additionalModelRequestFields.output_config.effort");
    reasoning.summary = SUMMARIES
        .iter()
        .find(|(word, _)| body.peek_str("additionalModelRequestFields.thinking.display") == Some(word))
        .map(|(_, summary)| (*summary).to_owned());
    if reasoning.summary.is_some() {
        body.string("additionalModelRequestFields.thinking.display");
    }
    request.format = read_format(&mut body);
    request.metadata = body.object("requestMetadata");
    request.service_tier = body.string("serviceTier.type");
    request.kept = body.rest(NAME);
    Ok(request)
}

fn read_message(message: Object) -> Message {
    let mut message = Members::new(message);
    message.note_absence("role");
    let role = match message.peek_str("role") {
        Some("assistant") => Some(Role::Assistant),
        Some("user") => Some(Role::User),
        Some("system") => Some(Role::System),
        _ => None,
    };
    if role.is_some() {
        message.string("role");
    }
    let blocks = message.objects("content");
    let content =
        blocks.map_or_else(Content::default, |blocks| Content::list(read_blocks(blocks, Depth::Outer)));
    Message { kept: message.rest(NAME), ..Message::new(role.unwrap_or(Role::User), content) }
}

/// Results stand in messages, not in results.
#[derive(Clone, Copy, PartialEq)]
enum Depth {
    Outer,
    Inner,
}

fn read_blocks(blocks: Vec<Object>, depth: Depth) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(blocks.len());
    for block in blocks {
        // A mark of its own, after what it marks.
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

fn read_cache(block: &Object) -> Option<CacheMark> {
    let mark = block.get("cachePoint")?.as_object()?;
    let ttl = mark.get("ttl").map(|ttl| ttl.as_str().map(str::to_owned));
    let is_usual =
        block.len() == 1 && mark["type"] == "default" && mark.len() == 1 + usize::from(ttl.is_some());
    match ttl {
        _ if !is_usual => None,
        Some(None) => None,
        Some(ttl) => Some(CacheMark { ttl }),
        None => Some(CacheMark { ttl: None }),
    }
}

fn read_block(block: Object, depth: Depth) -> Part {
    let mut block = Members::new(block);
    let word = block.keys().next().unwrap_or_default().to_owned();
    let mut signature = None;
    let body = match word.as_str() {
        "text" => block.string("text").map(Body::Text),
        "image" => read_media(&mut block, "image", MediaKind::Image).map(Body::Media),
        "audio" => read_media(&mut block, "audio", MediaKind::Audio).map(Body::Media),
        "video" => read_media(&mut block, "video", MediaKind::Video).map(Body::Media),
        "document" => read_media(&mut block, "document", MediaKind::File).map(Body::Media),
        "json" => {
            // Others are told its text; it stays what it is.
            let text = block.peek("json").map(Value::to_string).unwrap_or_default();
            block.note_read("json");
            Some(Body::Text(text))
        }
        "toolUse" => read_call(&mut block),
        "toolResult" if depth == Depth::Outer => Some(read_result(&mut block)),
        "reasoningContent" => {
            if let Some(text) = block.string("reasoningContent.reasoningText.text") {
                let data = block.string("reasoningContent.reasoningText.signature");
                signature = data.map(|data| Seal::new(ISSUER, data));
                Some(Body::Thought(Thought { text: Some(text), ..Thought::default() }))
            } else {
                block.string("reasoningContent.redactedContent").map(|data| {
                    Body::Thought(Thought { encrypted: Some(Seal::new(ISSUER, data)), ..Thought::default() })
                })
            }
        }
        _ => None,
    };
    let Some(body) = body else {
        return Part::opaque(NAME, &word, block.into_object().into());
    };
    Part { signature, kept: block.rest(NAME), ..Part::new(body) }
}

fn read_media(block: &mut Members, word: &str, kind: MediaKind) -> Option<Media> {
    let source = if let Some(data) = block.string(&format!("{word}.source.bytes")) {
        Source::Data(data)
    } else if let Some(text) = block.string(&format!("{word}.source.text")) {
        Source::Text(text)
    } else {
        Source::Url(block.string(&format!("{word}.source.s3Location.uri"))?)
    };
    let format = format!("{word}.format");
    let media_type = block.peek_str(&format).and_then(type_of_name).map(str::to_owned);
    // A word that would be written in another way stays.
    if media_type.as_deref().and_then(ending_of_type) == block.peek_str(&format) {
        block.string(&format);
    }
    Some(Media { media_type, name: block.string(&format!("{word}.name")), ..Media::new(kind, source) })
}

fn read_call(block: &mut Members) -> Option<Body> {
    let name = block.string("toolUse.name")?;
    let id = block.string("toolUse.toolUseId");
    block.note_absence("toolUse.input");
    let input =
        block.take_if("toolUse.input", |input| !input.is_null()).unwrap_or_else(|| Object::new().into());
    let arguments = Arguments::Json(input);
    Some(Body::Call(Call { id, name, namespace: None, arguments, kind: CallKind::Function }))
}

fn read_result(block: &mut Members) -> Body {
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
    let content =
        blocks.map_or_else(Content::default, |blocks| Content::list(read_blocks(blocks, Depth::Inner)));
    Body::Result(CallResult { id, name: None, content, value: None, is_error, kind: CallKind::Function })
}

fn read_tools(tools: Vec<Object>) -> Vec<Tool> {
    let mut read: Vec<Tool> = Vec::with_capacity(tools.len());
    for tool in tools {
        if let Some(mark) = read_cache(&tool)
            && let Some(last) = read.last_mut().filter(|last| last.cache.is_none())
        {
            last.cache = Some(mark);
            continue;
        }
        let mut tool = Members::new(tool);
        let Some(name) = tool.string("toolSpec.name") else {
            let word = tool.keys().next().unwrap_or_default().to_owned();
            let kept = Kept::whole(NAME, tool.into_object().into());
            read.push(Tool { kept, ..Tool::new(word.clone(), ToolKind::Builtin(word)) });
            continue;
        };
        let kind = ToolKind::Function { schema: tool.object("toolSpec.inputSchema.json").map(Value::from) };
        let description = tool.string("toolSpec.description");
        let strict = tool.truth("toolSpec.strict");
        read.push(Tool { description, strict, kept: tool.rest(NAME), ..Tool::new(name, kind) });
    }
    read
}

fn read_choice(body: &mut Members) -> Option<ToolChoice> {
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

fn read_format(body: &mut Members) -> Option<Format> {
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
    Some(Format::Schema { name, description, schema, strict: None })
}

fn write(request: &mut Request, writing: &mut Writing<'_>) -> Object {
    let mut body = Object::new();
    if writing.is_faithful {
        put(&mut body, "modelId", request.model.take());
    }
    // Elsewhere it is named in the URL.
    request.model = None;
    let mut names = Names::default();
    let instructions = request.instructions.take();
    if !instructions.is_empty() {
        body.insert("system", write_blocks(instructions.parts, &mut names, writing));
    }
    let mut messages = Vec::new();
    for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        writing.losses.at(format_args!("messages[{number}]"));
        messages.push(write_message(message, &mut names, writing));
    }
    if !messages.is_empty() || !writing.is_faithful {
        body.insert("messages", messages);
    }
    write_tools(request, &mut body, writing);
    put(&mut body, "inferenceConfig.maxTokens", request.max_tokens.take());
    put(&mut body, "inferenceConfig.temperature", request.sampling.temperature.take());
    put(&mut body, "inferenceConfig.topP", request.sampling.top_p.take());
    let stop = std::mem::take(&mut request.stop);
    put(&mut body, "inferenceConfig.stopSequences", (!stop.is_empty()).then_some(stop));
    put(&mut body, "additionalModelRequestFields.top_k", request.sampling.top_k.take());
    let reasoning = &mut request.reasoning;
    let is_mode_made = reasoning.budget.is_some() && !writing.is_faithful;
    let mode = reasoning.mode.take().or_else(|| is_mode_made.then_some(Thinking::On));
    if mode.is_some_and(|mode| mode != Thinking::Off) || writing.is_faithful {
        let told = reasoning.summary.take();
        let display = told.map(|told| if told == "none" { "omitted" } else { "summarized" });
        put(&mut body, "additionalModelRequestFields.thinking.display", display);
    }
    put(
        &mut body,
        "additionalModelRequestFields.thinking.type",
        mode.map(|mode| match mode {
            Thinking::On => "enabled",
            Thinking::Off => "disabled",
            Thinking::Adaptive => "adaptive",
        }),
    );
    put(&mut body, "additionalModelRequestFields.thinking.budget_tokens", reasoning.budget.take());
    put(&mut body, "additionalModelRequestFields.output_config.effort", reasoning.effort.take());
    if let Some(Format::Schema { .. }) = request.format
        && let Some(Format::Schema { name, description, schema, .. }) = request.format.take()
    {
        put(&mut body, "outputConfig.textFormat.type", Some("json_schema"));
        put(&mut body, "outputConfig.textFormat.structure.jsonSchema.schema", Some(schema.to_string()));
        put(&mut body, "outputConfig.textFormat.structure.jsonSchema.name", name);
        put(&mut body, "outputConfig.textFormat.structure.jsonSchema.description", description);
    }
    if matches!(request.format, Some(Format::Text)) {
        request.format = None;
    }
    request.stream = None;
    put(&mut body, "requestMetadata", request.metadata.take());
    put(&mut body, "serviceTier.type", request.service_tier.take());
    request.kept.restore(NAME, &mut body);
    body
}

fn write_tools(request: &mut Request, body: &mut Object, writing: &mut Writing<'_>) {
    if request.tool_choice == Some(ToolChoice::None) {
        // There is no such word: without tools nothing can be called, unless the conversation has calls.
        let mut parts = request.messages.iter().flat_map(|message| &message.content.parts);
        if !parts.any(|part| matches!(part.body, Body::Call(_) | Body::Result(_))) {
            request.tools.clear();
            request.tool_choice = None;
            return;
        }
    }
    let mut tools: Vec<Value> = Vec::new();
    for (number, mut tool) in std::mem::take(&mut request.tools).into_iter().enumerate() {
        writing.losses.at(format_args!("tools[{number}]"));
        let mark = tool.cache.take();
        let written = write_tool(tool, writing);
        let is_written = written.is_some();
        tools.extend(written);
        tools.extend(mark.filter(|_| is_written).map(write_cache));
    }
    let has_tools = !tools.is_empty();
    put(body, "toolConfig.tools", has_tools.then_some(tools));
    if has_tools || writing.is_faithful {
        let choice = request.tool_choice.take();
        put(body, "toolConfig.toolChoice", choice.as_ref().and_then(write_choice));
        request.tool_choice = choice.filter(|choice| *choice == ToolChoice::None);
    }
}

fn write_choice(choice: &ToolChoice) -> Option<Value> {
    let empty = || Value::from(Object::new());
    match choice {
        ToolChoice::Auto => Some(Value::object([("auto", empty())])),
        ToolChoice::Required => Some(Value::object([("any", empty())])),
        ToolChoice::Tool { name, .. } => {
            Some(Value::object([("tool", Value::object([("name", name.as_str().into())]))]))
        }
        ToolChoice::None | ToolChoice::Allowed { .. } => None,
    }
}

fn write_tool(mut tool: Tool, writing: &mut Writing<'_>) -> Option<Value> {
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            let mut object = Object::new();
            put(&mut object, "toolSpec.name", Some(tool.name.clone()));
            let description = tool.description.take();
            put(
                &mut object,
                "toolSpec.description",
                description.filter(|text| writing.is_faithful || !text.is_empty()),
            );
            let any = || Value::object([("type", "object".into())]);
            let schema = schema.or_else(|| (!writing.is_faithful).then(any));
            put(&mut object, "toolSpec.inputSchema.json", schema);
            put(
                &mut object,
                "toolSpec.strict",
                tool.strict.take().filter(|strict| *strict || writing.is_faithful),
            );
            tool.kept.restore(NAME, &mut object);
            writing.losses.tool(NAME, &tool);
            Some(object.into())
        }
        kind => {
            tool.kind = kind;
            writing.losses.tool(NAME, &tool);
            tool.kept.into_whole(NAME)
        }
    }
}

/// Names of documents, each once in a request.
#[derive(Default)]
struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// A name of letters, digits, single spaces, hyphens and brackets, without its ending.
    fn next(&mut self, name: Option<&str>) -> String {
        let name = name.map_or("document", |name| name.rsplit_once('.').map_or(name, |(stem, _)| stem));
        let mut clean = String::with_capacity(name.len());
        for character in name.chars().take(180) {
            let is_known = character.is_ascii_alphanumeric() || "-()[]".contains(character);
            match if is_known { character } else { ' ' } {
                ' ' if clean.ends_with(' ') || clean.is_empty() => {}
                character => clean.push(character),
            }
        }
        let clean = match clean.trim_end() {
            "" => "document",
            clean => clean,
        };
        let mut unique = clean.to_owned();
        let mut count = 1;
        while !self.taken.insert(unique.clone()) {
            count += 1;
            unique = format!("{clean} [{count}]");
        }
        unique
    }
}

fn write_message(mut message: Message, names: &mut Names, writing: &mut Writing<'_>) -> Value {
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System | Role::Developer => "system",
        Role::User | Role::Tool => "user",
    };
    let mut object = Object::from_iter([("role", role)]);
    let Content { parts, form } = message.content.take();
    if !parts.is_empty() || form == Form::List || !writing.is_faithful {
        object.insert("content", write_blocks(parts, names, writing));
    }
    message.kept.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    object.into()
}

fn write_blocks(parts: Vec<Part>, names: &mut Names, writing: &mut Writing<'_>) -> Vec<Value> {
    let mut blocks = Vec::with_capacity(parts.len());
    for mut part in parts {
        let mark = part.cache.take();
        let block = write_block(part, names, writing);
        let is_written = block.is_some();
        blocks.extend(block);
        blocks.extend(mark.filter(|_| is_written).map(write_cache));
    }
    blocks
}

fn write_cache(mark: CacheMark) -> Value {
    let mut object = Object::new();
    put(&mut object, "cachePoint.type", Some("default"));
    put(&mut object, "cachePoint.ttl", mark.ttl);
    object.into()
}

fn write_block(mut part: Part, names: &mut Names, writing: &mut Writing<'_>) -> Option<Value> {
    let mut block = Object::new();
    match std::mem::replace(&mut part.body, Body::Opaque(String::new())) {
        Body::Text(text) | Body::Refusal(text) => {
            let is_json = part.kept.members(NAME).is_some_and(|members| members.contains_key("json"));
            put(&mut block, "text", (!is_json).then_some(text));
        }
        Body::Media(media) => write_media(media, &mut block, names, writing)?,
        Body::Thought(mut thought) => {
            if let Some(data) = Seal::of(&mut thought.encrypted, ISSUER) {
                put(&mut block, "reasoningContent.redactedContent", Some(data));
            } else {
                let signature = Seal::of(&mut part.signature, ISSUER);
                if signature.is_none() && !writing.is_faithful {
                    writing.losses.put("reasoning that is not signed by this provider");
                    return None;
                }
                let text = thought.text.or_else(|| Some(thought.summary?.join("\n\n")));
                put(&mut block, "reasoningContent.reasoningText.text", text);
                put(&mut block, "reasoningContent.reasoningText.signature", signature);
            }
        }
        Body::Call(call) => {
            put(&mut block, "toolUse.toolUseId", call.id);
            put(&mut block, "toolUse.name", Some(call.name));
            let input = match call.arguments {
                Arguments::Json(value) if writing.is_faithful => value,
                arguments => arguments.into_object().map_or_else(
                    |text| {
                        writing.losses.refuse("arguments that are not an object");
                        Value::object([("arguments", text.into())])
                    },
                    Value::from,
                ),
            };
            put(&mut block, "toolUse.input", Some(input));
        }
        Body::Result(result) => {
            put(&mut block, "toolResult.toolUseId", result.id);
            let Content { mut parts, form } = result.content;
            if let Some(value) = result.value {
                let mut json = Part::text("");
                json.kept = Kept::new(NAME, Object::from_iter([("json", value)]));
                parts.insert(0, json);
            }
            if !parts.is_empty() || form == Form::List || !writing.is_faithful {
                // One level: a result in a result is opaque.
                let content = write_blocks(parts, names, writing);
                put(&mut block, "toolResult.content", Some(content));
            }
            let status = result.is_error.filter(|is_error| *is_error || writing.is_faithful);
            put(
                &mut block,
                "toolResult.status",
                status.map(|is_error| if is_error { "error" } else { "success" }),
            );
        }
        Body::Tools(tools) => {
            let body = Body::Tools(tools);
            writing.losses.message(NAME, &Message::of(Role::User, Part { body, ..part }));
            return None;
        }
        Body::Opaque(word) => {
            if part.kept.protocol() != Some(NAME) {
                writing.losses.put(format!("{word} of {}", part.kept.protocol().unwrap_or("nobody")));
            }
            return part.kept.into_whole(NAME);
        }
    }
    part.kept.restore(NAME, &mut block);
    writing.losses.part(NAME, &part);
    Some(block.into())
}

fn write_media(media: Media, block: &mut Object, names: &mut Names, writing: &mut Writing<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    let (word, usual) = match kind {
        MediaKind::Image => ("image", "jpeg"),
        MediaKind::Audio => ("audio", "wav"),
        MediaKind::Video => ("video", "mp4"),
        MediaKind::File => ("document", "txt"),
    };
    if detail.is_some() && detail.as_deref() != Some("auto") {
        writing.losses.put("detail of an image");
    }
    let (path, value) = match source {
        Source::Data(data) => ("source.bytes", data),
        Source::Text(text) => ("source.text", text),
        Source::Url(url) if writing.is_faithful || url.starts_with("s3://") => ("source.s3Location.uri", url),
        Source::Url(_) => {
            writing.losses.put(format!("{kind:?} by url").to_lowercase());
            return None;
        }
        Source::Id(_) => {
            writing.losses.put(format!("{kind:?} with the provider").to_lowercase());
            return None;
        }
    };
    let format = media_type.as_deref().and_then(ending_of_type);
    let format = format.or_else(|| (!writing.is_faithful).then_some(usual));
    put(block, &format!("{word}.format"), format);
    if writing.is_faithful {
        put(block, &format!("{word}.name"), name);
    } else if word == "document" {
        put(block, "document.name", Some(names.next(name.as_deref())));
    }
    put(block, &format!("{word}.{path}"), Some(value));
    Some(())
}
