//! Requests of Anthropic Messages.

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Number, Object, Value};
use crate::request::{
    Arguments, Body, CacheMark, Call, CallKind, CallResult, Compaction, Content, Form, Format, Kept, Limits,
    Media, MediaKind, Members, Message, Part, Request, RequestCoding, Role, Seal, Source, Thinking, Thought,
    Tool, ToolChoice, ToolKind, WEB_SEARCH, Writing, effort, put,
};

pub(super) const CODING: RequestCoding = RequestCoding { read, write, limits: &Limits::ANTHROPIC };

const NAME: &str = PROTOCOL.name;

/// Whose signatures and encrypted thoughts these are.
const ISSUER: &str = "anthropic";

/// Words for how thoughts are told.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

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
    request.reasoning.mode = match body.peek_str("thinking.type") {
        Some("enabled") => Some(Thinking::On),
        Some("disabled") => Some(Thinking::Off),
        Some("adaptive") => Some(Thinking::Adaptive),
        _ => None,
    };
    if request.reasoning.mode.is_some() {
        body.string("thinking.type");
    }
    request.reasoning.budget = body.number("thinking.budget_tokens");
    request.reasoning.summary = SUMMARIES
        .iter()
        .find(|(word, _)| body.peek_str("thinking.display") == Some(word))
        .map(|(_, summary)| (*summary).to_owned());
    if request.reasoning.summary.is_some() {
        body.string("thinking.display");
    }
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
    request.service_tier = body.string("service_tier");
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
    let content = read_content(&mut message, "content");
    Message { role: role.unwrap_or(Role::User), content, name: None, kept: message.rest(NAME) }
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

fn read_cache(members: &mut Members) -> Option<CacheMark> {
    members
        .constant("cache_control.type", "ephemeral")
        .then(|| CacheMark { ttl: members.string("cache_control.ttl") })
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
        "image" => read_source(&mut block, MediaKind::Image).map(Body::Media),
        "document" => read_source(&mut block, MediaKind::File)
            .map(|media| Body::Media(Media { name: block.string("title"), ..media })),
        "thinking" => block.string("thinking").map(|text| {
            signature = block.string("signature").map(|data| Seal::new(ISSUER, data));
            Body::Thought(Thought { text: Some(text), ..Thought::default() })
        }),
        "redacted_thinking" => block.string("data").map(|data| {
            Body::Thought(Thought { encrypted: Some(Seal::new(ISSUER, data)), ..Thought::default() })
        }),
        "tool_use" => read_call(&mut block, CallKind::Function).map(Body::Call),
        "server_tool_use" => read_call(&mut block, CallKind::Builtin).map(Body::Call),
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
    if !matches!(&body, Body::Result(CallResult { kind: CallKind::Builtin, .. })) {
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
    Body::Result(CallResult { id, name: None, content, value: None, is_error, kind })
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

fn write(request: &mut Request, writing: &mut Writing<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    let instructions = request.instructions.take();
    if !instructions.is_empty() || instructions.form == Form::List && writing.is_faithful {
        let is_text = writing.is_faithful && instructions.form == Form::Text;
        put(&mut body, "system", write_content(instructions, is_text, writing));
    }
    let mut messages = Vec::new();
    for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        writing.losses.at(format_args!("messages[{number}]"));
        messages.push(write_message(message, writing));
    }
    if !messages.is_empty() || !writing.is_faithful {
        body.insert("messages", messages);
    }
    let tools: Vec<Value> = std::mem::take(&mut request.tools)
        .into_iter()
        .enumerate()
        .filter_map(|(number, tool)| {
            writing.losses.at(format_args!("tools[{number}]"));
            write_tool(tool, writing)
        })
        .collect();
    let has_tools = !tools.is_empty();
    if has_tools {
        body.insert("tools", tools);
    }
    if has_tools || writing.is_faithful {
        write_choice(request, &mut body, writing);
    }
    put(&mut body, "stop_sequences", Some(std::mem::take(&mut request.stop)).filter(|stop| !stop.is_empty()));
    put(&mut body, "temperature", request.sampling.temperature.take());
    put(&mut body, "top_p", request.sampling.top_p.take());
    put(&mut body, "top_k", request.sampling.top_k.take());
    write_reasoning(request, &mut body, writing);
    if writing.is_faithful || body.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled") {
        let told = request.reasoning.summary.take();
        put(
            &mut body,
            "thinking.display",
            told.map(|told| if told == "none" { "omitted" } else { "summarized" }),
        );
    }
    put(&mut body, "max_tokens", request.max_tokens.take());
    if request.kept.members(NAME).is_some_and(|members| members.contains_key("output_format")) {
        request.format = None;
    }
    if let Some(Format::Schema { .. }) = request.format
        && let Some(Format::Schema { schema, .. }) = request.format.take()
    {
        put(&mut body, "output_config.format.type", Some("json_schema"));
        put(&mut body, "output_config.format.schema", Some(schema));
    }
    if matches!(request.format, Some(Format::Text)) {
        request.format = None;
    }
    put(&mut body, "stream", request.stream.take());
    put(&mut body, "metadata.user_id", request.user.take());
    if writing.is_faithful {
        put(&mut body, "service_tier", request.service_tier.take());
    }
    let compaction = request.compaction.take().filter(|_| !writing.is_faithful);
    if let Some(compaction) = compaction {
        let mut edit = Object::from_iter([("type", "compact_20260112")]);
        if let Some(threshold) = compaction.threshold {
            put(&mut edit, "trigger.type", Some("input_tokens"));
            put(&mut edit, "trigger.value", Some(threshold));
        }
        put(&mut body, "context_management.edits", Some(vec![edit]));
    }
    request.kept.restore(NAME, &mut body);
    body
}

/// What a budget must at least be.
const LEAST_BUDGET: u64 = 1024;

fn write_reasoning(request: &mut Request, body: &mut Object, writing: &Writing<'_>) {
    let reasoning = &mut request.reasoning;
    let words = |mode| match mode {
        Thinking::On => "enabled",
        Thinking::Off => "disabled",
        Thinking::Adaptive => "adaptive",
    };
    if writing.is_faithful
        || reasoning.mode.is_some() && reasoning.effort.is_none() && reasoning.budget.is_none()
    {
        put(body, "thinking.type", reasoning.mode.take().map(words));
        put(body, "thinking.budget_tokens", reasoning.budget.take());
        put(body, "output_config.effort", reasoning.effort.take());
        return;
    }
    let model = body["model"].as_str().unwrap_or_default();
    if reasoning.effort.is_some() && reasoning.mode.is_none() && knows_effort(model) && !is_adaptive(model) {
        put(body, "output_config.effort", effort::take(reasoning).filter(|effort| effort != "none"));
        return;
    }
    if is_adaptive(model) && (reasoning.effort.is_some() || reasoning.budget.is_some()) {
        match effort::take(reasoning).as_deref() {
            Some("none") => put(body, "thinking.type", Some("disabled")),
            Some(effort) => {
                put(body, "thinking.type", Some("adaptive"));
                put(body, "output_config.effort", Some(if effort == "minimal" { "low" } else { effort }));
            }
            None => {}
        }
        return;
    }
    let Some(budget) = effort::take_budget(reasoning).and_then(|tokens| tokens.as_u64()) else { return };
    if budget == 0 {
        put(body, "thinking.type", Some("disabled"));
        return;
    }
    let most = request.max_tokens.as_ref().and_then(Number::as_u64).unwrap_or(u64::MAX);
    let budget = budget.max(LEAST_BUDGET);
    if most <= LEAST_BUDGET {
        reasoning.budget = Some(budget.into());
        return;
    }
    put(body, "thinking.type", Some("enabled"));
    put(body, "thinking.budget_tokens", Some(budget.min(most - 1)));
}

/// Whether the model decides by itself how much it thinks: from version 4.6 on.
fn is_adaptive(model: &str) -> bool {
    version(model) >= (4, 6)
}

/// Whether the model knows effort: Opus since 4.5, the others since they decide by themselves.
fn knows_effort(model: &str) -> bool {
    is_adaptive(model) || model.contains("opus") && version(model) >= (4, 5)
}

/// The version that a model's name tells; dates are no versions.
fn version(model: &str) -> (u32, u32) {
    let rest = model.split_once("claude-").map_or("", |(_, rest)| rest);
    let numbers = rest.split(['-', '.', '@', ':']).filter_map(|word| word.parse().ok());
    let mut numbers = numbers.filter(|number: &u32| *number < 100);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn write_choice(request: &mut Request, body: &mut Object, writing: &Writing<'_>) {
    let word = match &request.tool_choice {
        Some(ToolChoice::Auto) => Some("auto"),
        Some(ToolChoice::Required) => Some("any"),
        Some(ToolChoice::None) => Some("none"),
        Some(ToolChoice::Tool { .. }) => Some("tool"),
        Some(ToolChoice::Allowed { .. }) | None => None,
    };
    if word.is_some() {
        put(body, "tool_choice.type", word);
        if let Some(ToolChoice::Tool { name, .. }) = request.tool_choice.take() {
            put(body, "tool_choice.name", Some(name));
        }
    }
    if (word != Some("none") || writing.is_faithful)
        && let Some(is_parallel) = request.parallel_calls.take()
    {
        let has_word = word.is_some() || writing.is_faithful;
        put(body, "tool_choice.type", (!has_word).then_some("auto"));
        put(body, "tool_choice.disable_parallel_tool_use", Some(!is_parallel));
    }
}

fn write_message(mut message: Message, writing: &mut Writing<'_>) -> Value {
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System | Role::Developer => "system",
        Role::User | Role::Tool => "user",
    };
    let mut object = Object::from_iter([("role", role)]);
    let content = message.content.take();
    let is_text = writing.is_faithful && content.form == Form::Text;
    put(&mut object, "content", write_content(content, is_text, writing));
    message.kept.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    object.into()
}

/// One text, or a list of blocks.
fn write_content(content: Content, is_text: bool, writing: &mut Writing<'_>) -> Option<Value> {
    let Content { mut parts, form } = content;
    if is_text && let [Part { body: Body::Text(text), .. }] = parts.as_mut_slice() {
        let text = std::mem::take(text);
        writing.losses.part(NAME, &parts[0]);
        return Some(text.into());
    }
    if parts.is_empty() && (form != Form::List || !writing.is_faithful) {
        return None;
    }
    Some(parts.into_iter().filter_map(|part| write_block(part, writing)).collect::<Vec<Value>>().into())
}

fn write_block(mut part: Part, writing: &mut Writing<'_>) -> Option<Value> {
    let mut block = Object::new();
    match std::mem::replace(&mut part.body, Body::Opaque(String::new())) {
        Body::Text(text) | Body::Refusal(text) => {
            block.insert("type", "text");
            block.insert("text", text);
        }
        Body::Media(media) => write_media(media, &mut block, writing)?,
        Body::Thought(thought) => write_thought(thought, &mut part, &mut block, writing)?,
        Body::Call(call) => {
            let is_builtin = call.kind == CallKind::Builtin && writing.is_faithful;
            block.insert("type", if is_builtin { "server_tool_use" } else { "tool_use" });
            put(&mut block, "id", call.id);
            block.insert("name", call.name);
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
            block.insert("input", input);
        }
        Body::Result(result) => {
            block.insert("type", "tool_result");
            put(&mut block, "tool_use_id", result.id);
            let is_text = match result.content.form {
                Form::Text => true,
                Form::List => false,
                Form::Any => true,
            };
            // One level: a result in a result is opaque.
            put(&mut block, "content", write_content(result.content, is_text, writing));
            put(&mut block, "is_error", result.is_error.filter(|is_error| *is_error || writing.is_faithful));
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
    write_cache(part.cache.take(), &mut block);
    part.kept.restore(NAME, &mut block);
    writing.losses.part(NAME, &part);
    Some(block.into())
}

fn write_cache(mark: Option<CacheMark>, object: &mut Object) {
    if let Some(mark) = mark {
        put(object, "cache_control.type", Some("ephemeral"));
        put(object, "cache_control.ttl", mark.ttl);
    }
}

fn write_media(media: Media, block: &mut Object, writing: &mut Writing<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    let word = match (kind, &source) {
        (MediaKind::Image, _) => "image",
        (MediaKind::File, _) | (_, Source::Text(_)) => "document",
        (MediaKind::Audio | MediaKind::Video, _) => {
            writing.losses.put(format!("{kind:?}").to_lowercase());
            return None;
        }
    };
    if detail.is_some() {
        writing.losses.put("detail of an image");
    }
    block.insert("type", word);
    match source {
        Source::Data(data) => {
            let usual = if word == "image" { "image/jpeg" } else { "application/pdf" };
            put(block, "source.type", Some("base64"));
            let media_type = media_type.or_else(|| (!writing.is_faithful).then(|| usual.to_owned()));
            put(block, "source.media_type", media_type);
            put(block, "source.data", Some(data));
        }
        Source::Text(text) => {
            put(block, "source.type", Some("text"));
            let media_type = media_type.or_else(|| (!writing.is_faithful).then(|| "text/plain".to_owned()));
            put(block, "source.media_type", media_type);
            put(block, "source.data", Some(text));
        }
        Source::Url(url) => {
            put(block, "source.type", Some("url"));
            put(block, "source.url", Some(url));
        }
        Source::Id(id) => {
            put(block, "source.type", Some("file"));
            put(block, "source.file_id", Some(id));
        }
    }
    if word == "document" {
        put(block, "title", name);
    }
    Some(())
}

/// A thought without this provider's signature would be refused.
fn write_thought(
    mut thought: Thought,
    part: &mut Part,
    block: &mut Object,
    writing: &mut Writing<'_>,
) -> Option<()> {
    if let Some(data) = Seal::of(&mut thought.encrypted, ISSUER) {
        block.insert("type", "redacted_thinking");
        block.insert("data", data);
        return Some(());
    }
    let signature = Seal::of(&mut part.signature, ISSUER);
    if signature.is_none() && !writing.is_faithful {
        writing.losses.put("reasoning that is not signed by this provider");
        return None;
    }
    block.insert("type", "thinking");
    let text = thought.text.or_else(|| Some(thought.summary?.join("\n\n")));
    put(block, "thinking", text.or_else(|| (!writing.is_faithful).then(String::new)));
    put(block, "signature", signature);
    Some(())
}

fn write_tool(mut tool: Tool, writing: &mut Writing<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            object.insert("name", tool.name.clone());
            put(&mut object, "description", tool.description.take());
            put(&mut object, "input_schema", schema);
            let strict = tool.strict.take().filter(|strict| *strict || writing.is_faithful);
            put(&mut object, "strict", strict);
        }
        ToolKind::Builtin(word) if word == WEB_SEARCH && tool.kept.protocol() != Some(NAME) => {
            let members = [("type", "web_search_20250305".into()), ("name", "web_search".into())];
            return Some(Value::object(members));
        }
        ToolKind::Builtin(word) => {
            tool.kind = ToolKind::Builtin(word);
            writing.losses.tool(NAME, &tool);
            return tool.kept.into_whole(NAME);
        }
        ToolKind::Custom { .. } | ToolKind::Group(_) => {
            writing.losses.put("free-form tool");
            return None;
        }
    }
    write_cache(tool.cache.take(), &mut object);
    tool.kept.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}
