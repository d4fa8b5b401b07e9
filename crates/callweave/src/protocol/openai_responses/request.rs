//! Requests of OpenAI Responses and compatible servers.
//!
//! Every item is a message of its own, so that its place, its id and its status come back. Whoever needs whole turns
//! joins them.

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    Arguments, Body, Call, CallKind, CallResult, Compaction, Content, Form, Format, Grammar, Kept, Limits,
    Media, MediaKind, Members, Message, Part, Request, RequestCoding, Role, Seal, Source, Thought, Tool,
    ToolChoice, ToolKind, WEB_SEARCH, Writing, data_url, effort, parse_data_url, put,
};

pub(super) const CODING: RequestCoding = RequestCoding { read, write, limits: &Limits::OPENAI_RESPONSES };

const NAME: &str = PROTOCOL.name;

/// Whose encrypted thoughts these are.
const ISSUER: &str = "openai";

const ROLES: &[(&str, Role)] = &[
    ("system", Role::System),
    ("developer", Role::Developer),
    ("user", Role::User),
    ("assistant", Role::Assistant),
];

fn read(body: Object) -> Result<Request> {
    let mut body = Members::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    if let Some(text) = body.string("instructions") {
        request.instructions = Content::text(text);
    }
    if let Some(text) = body.string("input") {
        // A message of nothing but a text: see `write_input`.
        let mut bare = Members::new(Object::new());
        bare.note_absence("type");
        bare.note_absence("role");
        let message = Message::new(Role::User, Content::text(text));
        request.messages.push(Message { kept: bare.rest(NAME), ..message });
    } else if let Some(items) = body.objects("input") {
        request.messages = items.into_iter().map(read_item).collect();
    }
    request.tools = body
        .objects("tools")
        .unwrap_or_default()
        .into_iter()
        .map(|tool| read_tool(tool, Depth::Outer))
        .collect();
    request.tool_choice = read_choice(&mut body);
    if request.tool_choice.is_none() && body.peek("tool_choice").is_some_and(Value::is_number) {
        body.note_malformed("tool_choice");
    }
    request.parallel_calls = body.truth("parallel_tool_calls");
    request.max_tool_calls = body.number("max_tool_calls");
    request.max_tokens = body.number("max_output_tokens");
    request.sampling.temperature = body.number("temperature");
    request.sampling.top_p = body.number("top_p");
    request.sampling.top_logprobs = body.number("top_logprobs");
    request.format = read_format(&mut body);
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

/// It stays.
fn read_compaction(body: &Members) -> Option<Compaction> {
    let all = body.peek("context_management")?.as_array()?;
    let one = all.iter().find(|one| one["type"] == "compaction")?;
    Some(Compaction { threshold: one["compact_threshold"].as_number().cloned() })
}

fn read_item(item: Object) -> Message {
    let mut item = Members::new(item);
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
        "reasoning" => Some((Role::Assistant, read_thought(&mut item))),
        "additional_tools" => item.objects("tools").map(|tools| {
            let tools = tools.into_iter().map(|tool| read_tool(tool, Depth::Outer)).collect();
            (Role::Developer, Body::Tools(tools))
        }),
        _ => None,
    }
    .map_or_else(
        || None,
        |(role, body)| {
            let mut item = std::mem::replace(&mut item, Members::new(Object::new()));
            item.constant("type", &word);
            Some(Message::of(role, Part { kept: item.rest(NAME), ..Part::new(body) }))
        },
    )
    .unwrap_or_else(|| Message::of(Role::Assistant, Part::opaque(NAME, &word, item.into_object().into())))
}

fn read_message(mut item: Members) -> Message {
    item.note_absence("role");
    let role = ROLES.iter().find(|(word, _)| item.peek_str("role") == Some(word));
    if role.is_some() {
        item.string("role");
    }
    let role = role.map_or(Role::User, |&(_, role)| role);
    item.note_absence("type");
    item.constant("type", "message");
    let content = read_content(&mut item, "content", role);
    Message { role, content, name: None, kept: item.rest(NAME) }
}

fn read_content(members: &mut Members, path: &str, role: Role) -> Content {
    if let Some(text) = members.string(path) {
        return Content::text(text);
    }
    match members.array(path) {
        Some(parts) => Content::list(parts.into_iter().map(|part| read_part(part, role)).collect()),
        None => Content::default(),
    }
}

fn text_word(role: Role) -> &'static str {
    if role == Role::Assistant { "output_text" } else { "input_text" }
}

fn read_part(part: Value, role: Role) -> Part {
    let part = match part {
        Value::Object(part) => part,
        other => return Part::opaque(NAME, "", other),
    };
    let mut part = Members::new(part);
    let word = part.peek_str("type").unwrap_or_default().to_owned();
    let (usual, body) = match word.as_str() {
        "input_text" | "output_text" | "text" => (text_word(role), part.string("text").map(Body::Text)),
        "refusal" => ("refusal", part.string("refusal").map(Body::Refusal)),
        "input_image" => ("input_image", read_image(&mut part).map(Body::Media)),
        "input_file" => ("input_file", read_file(&mut part).map(Body::Media)),
        _ => ("", None),
    };
    let Some(body) = body else {
        return Part::opaque(NAME, &word, part.into_object().into());
    };
    // A text with the word of another role stays what it is.
    part.constant("type", usual);
    Part { kept: part.rest(NAME), ..Part::new(body) }
}

fn read_image(part: &mut Members) -> Option<Media> {
    let media = match part.string("image_url") {
        Some(url) => read_url(MediaKind::Image, url),
        None => Media::new(MediaKind::Image, Source::Id(part.string("file_id")?)),
    };
    Some(Media { detail: part.string("detail"), ..media })
}

fn read_url(kind: MediaKind, url: String) -> Media {
    match parse_data_url(&url) {
        Some((media_type, data)) => {
            let media_type = Some(media_type.to_owned());
            Media { media_type, ..Media::new(kind, Source::Data(data.to_owned())) }
        }
        None => Media::new(kind, Source::Url(url)),
    }
}

fn read_file(part: &mut Members) -> Option<Media> {
    let media = if let Some(data) = part.string("file_data") {
        match parse_data_url(&data) {
            Some(_) => read_url(MediaKind::File, data),
            None => Media::new(MediaKind::File, Source::Data(data)),
        }
    } else if let Some(id) = part.string("file_id") {
        Media::new(MediaKind::File, Source::Id(id))
    } else {
        Media::new(MediaKind::File, Source::Url(part.string("file_url")?))
    };
    Some(Media { name: part.string("filename"), detail: part.string("detail"), ..media })
}

fn read_call(item: &mut Members, is_custom: bool) -> Option<Body> {
    let (path, kind) =
        if is_custom { ("input", CallKind::Custom) } else { ("arguments", CallKind::Function) };
    let name = item.string("name")?;
    item.note_absence(path);
    let arguments = Arguments::Text(item.string(path).unwrap_or_default());
    let id = item.string("call_id");
    let namespace = item.string("namespace");
    Some(Body::Call(Call { id, name, namespace, arguments, kind }))
}

fn read_output(item: &mut Members, kind: CallKind) -> Body {
    let id = item.string("call_id");
    let content = read_content(item, "output", Role::Tool);
    Body::Result(CallResult { id, name: None, content, value: None, is_error: None, kind })
}

fn read_thought(item: &mut Members) -> Body {
    Body::Thought(Thought {
        text: read_texts(item, "content", "reasoning_text").map(|texts| texts.join("\n\n")),
        summary: read_texts(item, "summary", "summary_text"),
        encrypted: item.string("encrypted_content").map(|data| Seal::new(ISSUER, data)),
    })
}

/// Texts in a list of parts. What is not written again just so stays as well.
fn read_texts(item: &mut Members, path: &str, word: &str) -> Option<Vec<String>> {
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

/// Groups stand among the tools, not inside groups.
#[derive(Clone, Copy, PartialEq)]
enum Depth {
    Outer,
    Inner,
}

fn read_tool(tool: Object, depth: Depth) -> Tool {
    let mut tool = Members::new(tool);
    let word = tool.peek_str("type").unwrap_or_default().to_owned();
    let name = tool.peek_str("name").map(str::to_owned);
    let kind = match (word.as_str(), &name) {
        ("function", Some(_)) => {
            Some(ToolKind::Function { schema: tool.object("parameters").map(Value::from) })
        }
        ("custom", Some(_)) => Some(ToolKind::Custom { grammar: read_grammar(&mut tool) }),
        ("namespace", Some(_)) if depth == Depth::Outer => tool.objects("tools").map(|tools| {
            ToolKind::Group(tools.into_iter().map(|tool| read_tool(tool, Depth::Inner)).collect())
        }),
        _ => None,
    };
    let (Some(kind), Some(name)) = (kind, name) else {
        let kept = Kept::whole(NAME, tool.into_object().into());
        let word = if word.starts_with("web_search") { WEB_SEARCH.to_owned() } else { word };
        return Tool { kept, ..Tool::new(word.clone(), ToolKind::Builtin(word)) };
    };
    tool.string("type");
    tool.string("name");
    let description = tool.string("description");
    let strict = tool.truth("strict");
    Tool { description, strict, kept: tool.rest(NAME), ..Tool::new(name, kind) }
}

fn read_grammar(tool: &mut Members) -> Option<Grammar> {
    if tool.constant("format.type", "text") {
        return Some(Grammar { syntax: "text".to_owned(), definition: String::new() });
    }
    tool.peek_str("format.syntax")?;
    tool.peek_str("format.definition")?;
    tool.constant("format.type", "grammar");
    Some(Grammar { syntax: tool.string("format.syntax")?, definition: tool.string("format.definition")? })
}

fn read_choice(body: &mut Members) -> Option<ToolChoice> {
    let choice = body.peek("tool_choice")?;
    let named = |kind| Some(ToolChoice::Tool { name: choice.get("name")?.as_str()?.to_owned(), kind });
    let read = match (choice.as_str(), choice.get("type").and_then(Value::as_str)) {
        (Some("auto"), _) => Some(ToolChoice::Auto),
        (Some("none"), _) => Some(ToolChoice::None),
        (Some("required"), _) => Some(ToolChoice::Required),
        (_, Some("function")) => named(CallKind::Function),
        (_, Some("custom")) => named(CallKind::Custom),
        (_, Some("allowed_tools")) => {
            let tools = choice["tools"].as_array();
            let names = tools.into_iter().flatten().map(|tool| tool["name"].as_str().map(str::to_owned));
            let is_required = choice["mode"] == "required";
            names.collect::<Option<_>>().map(|names| ToolChoice::Allowed { names, is_required })
        }
        _ => None,
    }?;
    if write_choice(&read) == *choice {
        body.take_if("tool_choice", |_| true);
    }
    Some(read)
}

fn read_format(body: &mut Members) -> Option<Format> {
    let format = match body.peek_str("text.format.type") {
        Some("text") => Format::Text,
        Some("json_object") => Format::Json,
        Some("json_schema") => Format::Schema {
            schema: body.object("text.format.schema")?.into(),
            name: body.string("text.format.name"),
            description: body.string("text.format.description"),
            strict: body.truth("text.format.strict"),
        },
        _ => return None,
    };
    body.string("text.format.type");
    Some(format)
}

fn write(request: &mut Request, writing: &mut Writing<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    if !request.instructions.is_empty() {
        let content = request.instructions.take();
        for part in &content.parts {
            writing.losses.part(NAME, part);
        }
        body.insert("instructions", content.joined("\n\n"));
    }
    let mut items = Vec::new();
    for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        writing.losses.at(format_args!("messages[{number}]"));
        write_message(message, &mut items, writing);
    }
    put(&mut body, "input", write_input(items, writing));
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
    if writing.is_faithful && request.kept.members(NAME).is_some_and(|own| own.contains_key("tool_choice")) {
        // In a form of its own, which stays.
        request.tool_choice = None;
    }
    if has_tools || writing.is_faithful {
        put(&mut body, "tool_choice", request.tool_choice.take().as_ref().map(write_choice));
        put(&mut body, "parallel_tool_calls", request.parallel_calls.take());
    }
    put(&mut body, "max_tool_calls", request.max_tool_calls.take());
    put(&mut body, "max_output_tokens", request.max_tokens.take());
    put(&mut body, "temperature", request.sampling.temperature.take());
    put(&mut body, "top_p", request.sampling.top_p.take());
    put(&mut body, "top_logprobs", request.sampling.top_logprobs.take());
    put(&mut body, "text.format", request.format.take().map(|format| write_format(format, writing)));
    put(&mut body, "text.verbosity", request.verbosity.take());
    put(&mut body, "reasoning.effort", effort::take(&mut request.reasoning));
    // Without a word nothing is told.
    let summary = request.reasoning.summary.take().filter(|told| told != "none" || writing.is_faithful);
    put(&mut body, "reasoning.summary", summary);
    put(&mut body, "stream", request.stream.take());
    put(&mut body, "store", request.store.take());
    put(&mut body, "previous_response_id", request.previous.take());
    put(&mut body, "metadata", request.metadata.take());
    put(&mut body, "user", request.user.take());
    put(&mut body, "service_tier", request.service_tier.take());
    put(&mut body, "prompt_cache_key", request.cache_key.take());
    let compaction = request.compaction.take().filter(|_| !writing.is_faithful);
    if let Some(compaction) = compaction {
        let mut one = Object::from_iter([("type", "compaction")]);
        put(&mut one, "compact_threshold", compaction.threshold);
        body.insert("context_management", vec![one]);
    }
    request.kept.restore(NAME, &mut body);
    body
}

/// A message of nothing but a text is the input itself.
fn write_input(mut items: Vec<Value>, writing: &Writing<'_>) -> Option<Value> {
    if let [Value::Object(only)] = items.as_mut_slice()
        && only.len() == 1
        && only["content"].is_string()
    {
        return only.remove("content");
    }
    (!items.is_empty() || !writing.is_faithful).then(|| items.into())
}

fn write_message(mut message: Message, items: &mut Vec<Value>, writing: &mut Writing<'_>) {
    let Content { parts, form } = message.content.take();
    let is_empty = parts.is_empty();
    let role = message.role;
    let mut spoken = Vec::new();
    for part in parts {
        let is_item = match &part.body {
            Body::Text(_) | Body::Refusal(_) | Body::Media(_) => false,
            Body::Thought(_) | Body::Call(_) | Body::Result(_) | Body::Tools(_) => true,
            // A part of a message that only this protocol knows, or an item.
            Body::Opaque(_) => form == Form::Any,
        };
        if is_item {
            write_spoken(&mut message, std::mem::take(&mut spoken), form, items, writing);
            items.extend(write_item(part, writing));
        } else {
            spoken.push(part);
        }
    }
    if is_empty && writing.is_faithful {
        items.push(message_item(&mut message, role, None, form).into());
    }
    write_spoken(&mut message, spoken, form, items, writing);
    writing.losses.message(NAME, &message);
}

fn message_item(message: &mut Message, role: Role, content: Option<Value>, form: Form) -> Object {
    let word = ROLES.iter().find(|(_, own)| *own == role).map_or("user", |(word, _)| word);
    let mut item = Object::from_iter([("type", "message"), ("role", word)]);
    let empty = (form == Form::List).then(|| Value::from(Vec::<Value>::new()));
    put(&mut item, "content", content.or(empty));
    message.kept.restore(NAME, &mut item);
    item
}

fn write_spoken(
    message: &mut Message,
    parts: Vec<Part>,
    form: Form,
    items: &mut Vec<Value>,
    writing: &mut Writing<'_>,
) {
    if parts.is_empty() {
        return;
    }
    let role = message.role;
    let is_text = form == Form::Text && writing.is_faithful;
    let content =
        write_content(Content { parts, form: if is_text { Form::Text } else { Form::List } }, role, writing);
    if let Some(content) = content {
        items.push(message_item(message, role, Some(content), form).into());
    }
}

/// One text, or a list.
fn write_content(content: Content, role: Role, writing: &mut Writing<'_>) -> Option<Value> {
    let Content { mut parts, form } = content;
    if form == Form::Text
        && let [Part { body: Body::Text(text), .. }] = parts.as_mut_slice()
    {
        let text = std::mem::take(text);
        writing.losses.part(NAME, &parts[0]);
        return Some(text.into());
    }
    let parts: Vec<Value> = parts.into_iter().filter_map(|part| write_part(part, role, writing)).collect();
    (!parts.is_empty() || form == Form::List && writing.is_faithful).then(|| parts.into())
}

fn write_part(mut part: Part, role: Role, writing: &mut Writing<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut part.body, Body::Opaque(String::new())) {
        Body::Text(text) => {
            object.insert("type", text_word(role));
            object.insert("text", text);
        }
        Body::Refusal(text) => {
            object.insert("type", "refusal");
            object.insert("refusal", text);
        }
        Body::Media(media) => write_media(media, &mut object, role, writing)?,
        Body::Opaque(word) => {
            if part.kept.protocol() != Some(NAME) {
                writing.losses.put(format!("{word} of {}", part.kept.protocol().unwrap_or("nobody")));
            }
            return part.kept.into_whole(NAME);
        }
        body => {
            writing.losses.message(NAME, &Message::of(role, Part { body, ..part }));
            return None;
        }
    }
    part.kept.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_media(media: Media, object: &mut Object, role: Role, writing: &mut Writing<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    let url = |data: &str| media_type.as_deref().map(|media_type| data_url(media_type, data));
    match (kind, source) {
        (MediaKind::Image, Source::Data(data)) => {
            object.insert("type", "input_image");
            put(object, "image_url", url(&data).or_else(|| Some(data_url("image/jpeg", &data))));
            put(object, "detail", detail);
        }
        (MediaKind::Image, Source::Url(url)) => {
            object.insert("type", "input_image");
            object.insert("image_url", url);
            put(object, "detail", detail);
        }
        (MediaKind::Image, Source::Id(id)) => {
            object.insert("type", "input_image");
            object.insert("file_id", id);
            put(object, "detail", detail);
        }
        (MediaKind::File, Source::Data(data)) => {
            object.insert("type", "input_file");
            put(object, "filename", name);
            put(object, "file_data", url(&data).or(Some(data)));
            put(object, "detail", detail);
        }
        (MediaKind::File, Source::Id(id)) => {
            object.insert("type", "input_file");
            put(object, "filename", name);
            object.insert("file_id", id);
            put(object, "detail", detail);
        }
        (MediaKind::File, Source::Url(url)) => {
            object.insert("type", "input_file");
            put(object, "filename", name);
            object.insert("file_url", url);
            put(object, "detail", detail);
        }
        (_, Source::Text(text)) => {
            object.insert("type", text_word(role));
            object.insert("text", text);
            if name.is_some() {
                writing.losses.put("title of a document");
            }
        }
        (MediaKind::Audio | MediaKind::Video, _) => {
            writing.losses.put(format!("{kind:?}").to_lowercase());
            return None;
        }
    }
    Some(())
}

fn write_item(mut part: Part, writing: &mut Writing<'_>) -> Option<Value> {
    let mut item = Object::new();
    match std::mem::replace(&mut part.body, Body::Opaque(String::new())) {
        Body::Call(call) => {
            let is_custom = call.kind == CallKind::Custom;
            item.insert("type", if is_custom { "custom_tool_call" } else { "function_call" });
            put(&mut item, "call_id", call.id);
            item.insert("name", call.name);
            put(&mut item, "namespace", call.namespace);
            item.insert(if is_custom { "input" } else { "arguments" }, call.arguments.into_text());
        }
        Body::Result(result) => {
            let is_custom = result.kind == CallKind::Custom;
            item.insert("type", if is_custom { "custom_tool_call_output" } else { "function_call_output" });
            put(&mut item, "call_id", result.id);
            let Content { parts, form } = result.content;
            let is_text = match form {
                Form::Text => true,
                Form::List => false,
                Form::Any => parts.len() == 1,
            };
            let is_text = is_text || !writing.is_faithful && parts.len() == 1 && parts[0].as_text().is_some();
            let form = if is_text { Form::Text } else { Form::List };
            let output = write_content(Content { parts, form }, Role::Tool, writing);
            put(&mut item, "output", output.or_else(|| (!writing.is_faithful).then(|| "".into())));
            if result.is_error == Some(true) {
                writing.losses.put("error mark of a result");
            }
        }
        Body::Thought(thought) => write_thought(thought, &mut item, writing)?,
        Body::Tools(tools) => {
            item.insert("type", "additional_tools");
            let tools: Vec<Value> = tools.into_iter().filter_map(|tool| write_tool(tool, writing)).collect();
            item.insert("tools", tools);
        }
        Body::Opaque(word) => {
            if part.kept.protocol() != Some(NAME) {
                writing.losses.put(format!("{word} of {}", part.kept.protocol().unwrap_or("nobody")));
            }
            return part.kept.into_whole(NAME);
        }
        Body::Text(_) | Body::Refusal(_) | Body::Media(_) => return None,
    }
    part.kept.restore(NAME, &mut item);
    writing.losses.part(NAME, &part);
    Some(item.into())
}

/// Thoughts go back to whoever encrypted them; the words of another's thoughts are no reasoning item of this one's.
fn write_thought(mut thought: Thought, item: &mut Object, writing: &mut Writing<'_>) -> Option<()> {
    let encrypted = Seal::of(&mut thought.encrypted, ISSUER);
    if encrypted.is_none() && !writing.is_faithful {
        writing.losses.put("reasoning that is not this provider's");
        return None;
    }
    item.insert("type", "reasoning");
    let summary = thought.summary.map(|texts| write_texts(&texts, "summary_text"));
    put(
        item,
        "summary",
        summary.or_else(|| (!writing.is_faithful).then(|| Value::from(Vec::<Value>::new()))),
    );
    put(item, "content", thought.text.map(|text| write_texts(&[text], "reasoning_text")));
    put(item, "encrypted_content", encrypted);
    Some(())
}

fn write_tool(mut tool: Tool, writing: &mut Writing<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            object.insert("type", "function");
            object.insert("name", tool.name.clone());
            put(&mut object, "description", tool.description.take());
            put(&mut object, "parameters", schema);
            // Without a word the schema would be made strict.
            put(
                &mut object,
                "strict",
                tool.strict.take().or_else(|| (!writing.is_faithful).then_some(false)),
            );
        }
        ToolKind::Custom { grammar } => {
            object.insert("type", "custom");
            object.insert("name", tool.name.clone());
            put(&mut object, "description", tool.description.take());
            if let Some(Grammar { syntax, .. }) = &grammar
                && syntax == "text"
            {
                put(&mut object, "format.type", Some("text"));
            } else if let Some(grammar) = grammar {
                put(&mut object, "format.type", Some("grammar"));
                put(&mut object, "format.syntax", Some(grammar.syntax));
                put(&mut object, "format.definition", Some(grammar.definition));
            }
        }
        ToolKind::Group(tools) => {
            object.insert("type", "namespace");
            object.insert("name", tool.name.clone());
            put(&mut object, "description", tool.description.take());
            // One level: a group in a group is read as a builtin.
            let tools: Vec<Value> = tools.into_iter().filter_map(|tool| write_tool(tool, writing)).collect();
            object.insert("tools", tools);
        }
        ToolKind::Builtin(word) if word == WEB_SEARCH && tool.kept.protocol() != Some(NAME) => {
            return Some(Value::object([("type", "web_search".into())]));
        }
        ToolKind::Builtin(word) => {
            tool.kind = ToolKind::Builtin(word);
            writing.losses.tool(NAME, &tool);
            return tool.kept.into_whole(NAME);
        }
    }
    put(&mut object, "strict", tool.strict.take());
    tool.kept.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}

fn write_choice(choice: &ToolChoice) -> Value {
    let named = |name: &str, kind: CallKind| {
        let word = if kind == CallKind::Custom { "custom" } else { "function" };
        Value::object([("type", word.into()), ("name", name.into())])
    };
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Tool { name, kind } => named(name, *kind),
        ToolChoice::Allowed { names, is_required } => {
            let mode = if *is_required { "required" } else { "auto" };
            let tools: Value = names.iter().map(|name| named(name, CallKind::Function)).collect();
            Value::object([("type", "allowed_tools".into()), ("mode", mode.into()), ("tools", tools)])
        }
    }
}

fn write_format(format: Format, writing: &Writing<'_>) -> Value {
    let mut object = Object::new();
    match format {
        Format::Text => {
            object.insert("type", "text");
        }
        Format::Json => {
            object.insert("type", "json_object");
        }
        Format::Schema { name, description, schema, strict } => {
            object.insert("type", "json_schema");
            put(
                &mut object,
                "name",
                name.or_else(|| (!writing.is_faithful).then(|| "structured_output".to_owned())),
            );
            put(&mut object, "description", description);
            object.insert("schema", schema);
            put(&mut object, "strict", strict);
        }
    }
    object.into()
}
