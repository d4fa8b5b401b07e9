//! Writing requests of OpenAI Responses and compatible servers.

use super::{ISSUER, NAME, ROLES, text_word, write_texts};
use crate::json::{Object, Value};
use crate::request::{
    CallKind, ContentForm, ContentPart, Media, MediaKind, MediaSource, MessageContent, PartKind,
    ProviderSeal, Request, RequestMessage, RequestReasoning, RequestTool, RequestWriting, Role, ToolKind,
    TypedForm, WEB_SEARCH, data_url, effort, put,
};

pub(super) fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
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
    writing.each_message(request, |message, writing| write_message(message, &mut items, writing));
    put(&mut body, "input", write_input(items, writing));
    writing.put_tools(request, &mut body, NAME, write_tool, TypedForm::Flat);
    put(&mut body, "max_tool_calls", request.max_tool_calls.take());
    put(&mut body, "max_output_tokens", request.max_tokens.take());
    put(&mut body, "temperature", request.sampling.temperature.take());
    put(&mut body, "top_p", request.sampling.top_p.take());
    put(&mut body, "top_logprobs", request.sampling.top_logprobs.take());
    put(
        &mut body,
        "text.format",
        request.format.take().map(|format| TypedForm::Flat.write_format(format, writing)),
    );
    put(&mut body, "text.verbosity", request.verbosity.take());
    put(&mut body, "reasoning.effort", effort::take(&mut request.reasoning));
    // An absent summary means none.
    let summary = request.reasoning.summary.take().filter(|told| told != "none" || writing.is_lossless);
    put(&mut body, "reasoning.summary", summary);
    if std::mem::take(&mut request.reasoning.wants_encrypted) {
        body.insert("include", vec!["reasoning.encrypted_content"]);
    }
    put(&mut body, "stream", request.stream.take());
    put(&mut body, "store", request.store.take());
    put(&mut body, "previous_response_id", request.previous.take());
    put(&mut body, "metadata", request.metadata.take());
    put(&mut body, "user", request.user.take());
    put(&mut body, "service_tier", request.service_tier.take());
    put(&mut body, "prompt_cache_key", request.cache_key.take());
    let compaction = request.compaction.take().filter(|_| !writing.is_lossless);
    if let Some(compaction) = compaction {
        let mut one = Object::from_iter([("type", "compaction")]);
        put(&mut one, "compact_threshold", compaction.threshold);
        body.insert("context_management", vec![one]);
    }
    request.kept.restore(NAME, &mut body);
    body
}

/// Writes the input: a lone message of a bare text is the input itself.
fn write_input(mut items: Vec<Value>, writing: &RequestWriting<'_>) -> Option<Value> {
    if let [Value::Object(only)] = items.as_mut_slice()
        && only.len() == 1
        && only["content"].is_string()
    {
        return only.remove("content");
    }
    (!items.is_empty() || !writing.is_lossless).then(|| items.into())
}

fn write_message(mut message: RequestMessage, items: &mut Vec<Value>, writing: &mut RequestWriting<'_>) {
    let MessageContent { parts, form } = message.content.take();
    let is_empty = parts.is_empty();
    let role = message.role;
    let mut spoken = Vec::with_capacity(parts.len());
    for part in parts {
        let is_item = match &part.body {
            PartKind::Text(_) | PartKind::Refusal(_) | PartKind::Media(_) => false,
            PartKind::Reasoning(_) | PartKind::Call(_) | PartKind::Result(_) | PartKind::Tools(_) => true,
            // It is an opaque part of a message, or an item.
            PartKind::Opaque(_) => form == ContentForm::Any,
        };
        if is_item {
            write_spoken(&mut message, std::mem::take(&mut spoken), form, items, writing);
            items.extend(write_item(part, writing));
        } else {
            spoken.push(part);
        }
    }
    if is_empty && writing.is_lossless {
        items.push(message_item(&mut message, role, None, form).into());
    }
    write_spoken(&mut message, spoken, form, items, writing);
    writing.losses.message(NAME, &message);
}

fn message_item(
    message: &mut RequestMessage,
    role: Role,
    content: Option<Value>,
    form: ContentForm,
) -> Object {
    let word = ROLES.iter().find(|(_, own)| *own == role).map_or("user", |(word, _)| word);
    let mut item = Object::from_iter([("type", "message"), ("role", word)]);
    let empty = (form == ContentForm::List).then(|| Value::from(Vec::<Value>::new()));
    put(&mut item, "content", content.or(empty));
    message.retained.restore(NAME, &mut item);
    item
}

fn write_spoken(
    message: &mut RequestMessage,
    parts: Vec<ContentPart>,
    form: ContentForm,
    items: &mut Vec<Value>,
    writing: &mut RequestWriting<'_>,
) {
    if parts.is_empty() {
        return;
    }
    let role = message.role;
    let is_text = form == ContentForm::Text && writing.is_lossless;
    let content = write_content(
        MessageContent { parts, form: if is_text { ContentForm::Text } else { ContentForm::List } },
        role,
        writing,
    );
    if let Some(content) = content {
        let mut item = message_item(message, role, Some(content), form);
        if role == Role::Assistant && !writing.is_lossless {
            // The types of output messages demand both. The made id differs from all given ones.
            item.get_or_insert_with("id", || format!("msg_{}", items.len()).into());
            item.get_or_insert_with("status", || "completed".into());
        }
        items.push(item.into());
    }
}

/// Writes one text, or a list.
fn write_content(content: MessageContent, role: Role, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let MessageContent { mut parts, form } = content;
    if form == ContentForm::Text
        && let [ContentPart { body: PartKind::Text(text), .. }] = parts.as_mut_slice()
    {
        let text = std::mem::take(text);
        writing.losses.part(NAME, &parts[0]);
        return Some(text.into());
    }
    let parts: Vec<Value> = parts.into_iter().filter_map(|part| write_part(part, role, writing)).collect();
    (!parts.is_empty() || form == ContentForm::List && writing.is_lossless).then(|| parts.into())
}

fn write_part(mut part: ContentPart, role: Role, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())) {
        PartKind::Text(text) => {
            object.insert("type", text_word(role));
            object.insert("text", text);
            if role == Role::Assistant && !writing.is_lossless {
                part.retained.restore(NAME, &mut object);
                object.get_or_insert_with("annotations", || Value::from(Vec::<Value>::new()));
            }
        }
        PartKind::Refusal(text) => {
            object.insert("type", "refusal");
            object.insert("refusal", text);
        }
        PartKind::Media(media) => write_media(*media, &mut object, role, writing)?,
        PartKind::Opaque(word) => return writing.opaque(&word, part.retained, NAME),
        body => {
            writing.losses.message(NAME, &RequestMessage::of(role, ContentPart { body, ..part }));
            return None;
        }
    }
    part.retained.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_media(
    media: Media,
    object: &mut Object,
    role: Role,
    writing: &mut RequestWriting<'_>,
) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    // The types demand it of images.
    let is_demanded = kind == MediaKind::Image && !writing.is_lossless;
    let detail = detail.or_else(|| is_demanded.then(|| "auto".to_owned()));
    let url = |data: &str| media_type.as_deref().map(|media_type| data_url(media_type, data));
    match (kind, source) {
        (MediaKind::Image, MediaSource::Data(data)) => {
            object.insert("type", "input_image");
            put(object, "image_url", url(&data).or_else(|| Some(data_url("image/jpeg", &data))));
            put(object, "detail", detail);
        }
        (MediaKind::Image, MediaSource::Url(url)) => {
            object.insert("type", "input_image");
            object.insert("image_url", url);
            put(object, "detail", detail);
        }
        (MediaKind::Image, MediaSource::Id(id)) => {
            object.insert("type", "input_image");
            object.insert("file_id", id);
            put(object, "detail", detail);
        }
        (MediaKind::File, MediaSource::Data(data)) => {
            object.insert("type", "input_file");
            put(object, "filename", name);
            put(object, "file_data", url(&data).or(Some(data)));
            put(object, "detail", detail);
        }
        (MediaKind::File, MediaSource::Id(id)) => {
            object.insert("type", "input_file");
            put(object, "filename", name);
            object.insert("file_id", id);
            put(object, "detail", detail);
        }
        (MediaKind::File, MediaSource::Url(url)) => {
            object.insert("type", "input_file");
            put(object, "filename", name);
            object.insert("file_url", url);
            put(object, "detail", detail);
        }
        (_, MediaSource::Text(text)) => {
            object.insert("type", text_word(role));
            object.insert("text", text);
        }
        (MediaKind::Audio | MediaKind::Video, _) => {
            writing.losses.put(format!("{kind:?}").to_lowercase());
            return None;
        }
    }
    Some(())
}

fn write_item(mut part: ContentPart, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let mut item = Object::new();
    match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())) {
        PartKind::Call(call) => {
            let is_custom = call.kind == CallKind::Custom;
            item.insert("type", if is_custom { "custom_tool_call" } else { "function_call" });
            put(&mut item, "call_id", call.id);
            item.insert("name", call.name);
            put(&mut item, "namespace", call.namespace);
            item.insert(if is_custom { "input" } else { "arguments" }, call.arguments.into_text());
        }
        PartKind::Result(result) => {
            let is_custom = result.kind == CallKind::Custom;
            item.insert("type", if is_custom { "custom_tool_call_output" } else { "function_call_output" });
            put(&mut item, "call_id", result.id);
            let MessageContent { parts, form } = result.content;
            let is_text = match form {
                ContentForm::Text => true,
                ContentForm::List => false,
                ContentForm::Any => parts.len() == 1,
            };
            let is_text = is_text || !writing.is_lossless && parts.len() == 1 && parts[0].as_text().is_some();
            let form = if is_text { ContentForm::Text } else { ContentForm::List };
            let output = write_content(MessageContent { parts, form }, Role::Tool, writing);
            put(&mut item, "output", output.or_else(|| (!writing.is_lossless).then(|| "".into())));
            if result.is_error == Some(true) {
                writing.losses.put("error mark of a result");
            }
        }
        PartKind::Reasoning(thought) => write_reasoning_block(*thought, &mut item, writing)?,
        PartKind::Tools(tools) => {
            item.insert("type", "additional_tools");
            let tools: Vec<Value> = tools.into_iter().filter_map(|tool| write_tool(tool, writing)).collect();
            item.insert("tools", tools);
        }
        PartKind::Opaque(word) => return writing.opaque(&word, part.retained, NAME),
        PartKind::Text(_) | PartKind::Refusal(_) | PartKind::Media(_) => return None,
    }
    part.retained.restore(NAME, &mut item);
    writing.losses.part(NAME, &part);
    Some(item.into())
}

/// Writes reasoning for the provider that encrypted it; the text of another provider's reasoning is no reasoning item
/// here.
fn write_reasoning_block(
    mut thought: RequestReasoning,
    item: &mut Object,
    writing: &mut RequestWriting<'_>,
) -> Option<()> {
    let encrypted = ProviderSeal::of(&mut thought.encrypted, ISSUER);
    if encrypted.is_none() && !writing.is_lossless {
        writing.losses.put("reasoning that is not this provider's");
        return None;
    }
    item.insert("type", "reasoning");
    let summary = thought.summary.map(|texts| write_texts(&texts, "summary_text"));
    put(
        item,
        "summary",
        summary.or_else(|| (!writing.is_lossless).then(|| Value::from(Vec::<Value>::new()))),
    );
    put(item, "content", thought.text.map(|text| write_texts(&[text], "reasoning_text")));
    put(item, "encrypted_content", encrypted);
    Some(())
}

fn write_tool(mut tool: RequestTool, writing: &mut RequestWriting<'_>) -> Option<Value> {
    // Without a member for it the schema would be made strict.
    let strict = (!writing.is_lossless).then_some(false);
    let mut object = TypedForm::Flat.write_tool(&mut tool, strict).unwrap_or_default();
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        _ if !object.is_empty() => {}
        ToolKind::Builtin(word) if word == WEB_SEARCH && tool.retained.protocol() != Some(NAME) => {
            return Some(Value::object([("type", "web_search".into())]));
        }
        ToolKind::Group(tools) => {
            object.insert("type", "namespace");
            object.insert("name", tool.name.clone());
            put(&mut object, "description", tool.description.take());
            // Only one level of groups: a group in a group is read as a builtin.
            let tools: Vec<Value> = tools.into_iter().filter_map(|tool| write_tool(tool, writing)).collect();
            object.insert("tools", tools);
        }
        kind => {
            tool.kind = kind;
            writing.losses.tool(NAME, &tool);
            return tool.retained.into_complete(NAME);
        }
    }
    put(&mut object, "strict", tool.strict.take());
    tool.retained.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}
