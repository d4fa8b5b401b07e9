//! Writing requests of OpenAI Chat Completions and compatible servers.

use super::{GOOGLE_SIGNATURE, NAME, ROLES, SUMMARIES, is_copy};
use crate::json::{Object, Value};
use crate::request::{
    CacheMark, CallArguments, CallKind, ContentForm, ContentPart, Media, MediaKind, MediaSource,
    MessageContent, PartKind, ProviderSeal, ReasoningMode, Request, RequestMessage, RequestTool,
    RequestWriting, RetainedFields, Role, ToolKind, TypedForm, WEB_SEARCH, data_url, effort, ending_of_type,
    put, take_word,
};

pub(super) fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    if !writing.keeps_older_form {
        renew(request);
    }
    writing.put_messages(request, &mut body, write_message);
    if writing.is_lossless {
        drop_copies(request);
    } else {
        write_search(request, &mut body);
    }
    let has_tools = writing.put_tools(request, &mut body, NAME, write_tool, TypedForm::Nested);
    put(&mut body, "max_completion_tokens", request.max_tokens.take());
    let stop = std::mem::take(&mut request.stop);
    put(&mut body, "stop", (!stop.is_empty()).then_some(stop));
    let sampling = &mut request.sampling;
    put(&mut body, "temperature", sampling.temperature.take());
    put(&mut body, "top_p", sampling.top_p.take());
    put(&mut body, "frequency_penalty", sampling.frequency_penalty.take());
    put(&mut body, "presence_penalty", sampling.presence_penalty.take());
    put(&mut body, "seed", sampling.seed.take());
    put(&mut body, "n", sampling.choices.take());
    put(&mut body, "logit_bias", sampling.logit_bias.take());
    put(&mut body, "logprobs", sampling.logprobs.take());
    put(&mut body, "top_logprobs", sampling.top_logprobs.take());
    if writing.is_lossless {
        // Members of compatible servers, which OpenAI refuses.
        put(&mut body, "top_k", sampling.top_k.take());
        put(&mut body, "min_p", sampling.min_p.take());
        put(&mut body, "repetition_penalty", sampling.repetition_penalty.take());
        put(&mut body, "previous_response_id", request.previous.take());
        put(&mut body, "thinking.type", request.reasoning.mode.take().map(ReasoningMode::word));
        put(&mut body, "thinking.budget_tokens", request.reasoning.budget.take());
        put(&mut body, "thinking.display", take_word(&mut request.reasoning.summary, SUMMARIES));
    }
    put(
        &mut body,
        "response_format",
        request.format.take().map(|format| TypedForm::Nested.write_format(format, writing)),
    );
    let effort = effort::take(&mut request.reasoning);
    if has_tools && !writing.is_lossless && calls_without_thinking(body["model"].as_str().unwrap_or_default())
    {
        request.reasoning.effort = effort.filter(|effort| effort != "none");
        body.insert("reasoning_effort", "none");
    } else {
        put(&mut body, "reasoning_effort", effort);
    }
    put(&mut body, "stream", request.stream.take());
    let usage = request.stream_usage.take();
    if request.stream == Some(true) || writing.is_lossless || body.get("stream").is_some_and(|on| *on == true)
    {
        put(&mut body, "stream_options.include_usage", usage);
    }
    put(&mut body, "store", request.store.take());
    put(&mut body, "metadata", request.metadata.take());
    put(&mut body, "user", request.user.take());
    put(&mut body, "service_tier", request.service_tier.take());
    write_modalities(request, &mut body, writing);
    put(&mut body, "prompt_cache_key", request.cache_key.take());
    put(&mut body, "verbosity", request.verbosity.take());
    request.kept.restore(NAME, &mut body);
    body
}

/// Writes modalities. A model speaks only where a voice is chosen, and each provider has its own voices.
fn write_modalities(request: &mut Request, body: &mut Object, writing: &mut RequestWriting<'_>) {
    let mut words = std::mem::take(&mut request.modalities);
    let has_voice = request.kept.members(NAME).is_some_and(|members| members.contains_key("audio"));
    if !has_voice && !writing.is_lossless && words.iter().any(|word| word == "audio") {
        words.retain(|word| word != "audio");
        writing.losses.at(format_args!(""));
        writing.losses.put("modality audio");
    }
    let is_text = words.iter().all(|word| word == "text");
    put(body, "modalities", (writing.is_lossless && !words.is_empty() || !is_text).then_some(words));
}

/// Drops copies: members that stay in the older form are not written in the newer.
fn drop_copies(request: &mut Request) {
    request.tools.retain(|tool| !is_copy(&tool.retained) || !matches!(tool.kind, ToolKind::Builtin(_)));
    let count = request.tools.len();
    request.tools.retain(|tool| !is_copy(&tool.retained));
    let has_older = request.kept.members(NAME).is_some_and(|members| members.contains_key("function_call"));
    if request.tools.len() < count || has_older {
        request.tool_choice = None;
    }
}

/// Converts tools, calls and results to the newer form: most servers know no other.
fn renew(request: &mut Request) {
    request.kept.forget(&["functions", "function_call"]);
    for tool in request.tools.iter_mut().filter(|tool| is_copy(&tool.retained)) {
        if !matches!(tool.kind, ToolKind::Builtin(_)) {
            tool.retained = RetainedFields::default();
        }
    }
    let (mut calls, mut last) = (0, None);
    for message in &mut request.messages {
        let has_call = !message.retained.forget(&["function_call"]).is_empty();
        for part in &mut message.content.parts {
            match &mut part.body {
                PartKind::Call(call) if has_call && is_copy(&part.retained) => {
                    part.retained = RetainedFields::default();
                    calls += 1;
                    last = Some(call.id.get_or_insert_with(|| format!("call_{}_{calls}", call.name)).clone());
                }
                // The role belongs to the older form.
                PartKind::Result(result) if !message.retained.forget(&["role"]).is_empty() => {
                    result.id = result.id.take().or_else(|| last.take());
                }
                _ => {}
            }
        }
    }
}

/// Whether the model (GPT-5.4 or later) calls functions here only without reasoning.
fn calls_without_thinking(model: &str) -> bool {
    let minor = model.strip_prefix("gpt-5.").map(|rest| rest.split('-').next().unwrap_or(rest));
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 4)
}

/// Writes web search, which is not a tool here.
fn write_search(request: &mut Request, body: &mut Object) {
    let count = request.tools.len();
    // Other servers of this protocol refuse the member; models with open weights are served by anybody.
    let is_openai = body["model"].as_str().is_some_and(|model| {
        ["gpt-", "o1", "o3", "o4"].iter().any(|start| model.starts_with(start))
            && !model.starts_with("gpt-oss")
    });
    if is_openai {
        request.tools.retain(|tool| tool.kind != ToolKind::Builtin(WEB_SEARCH.to_owned()));
    }
    put(body, "web_search_options", (request.tools.len() < count).then(Object::new));
}

fn write_message(mut message: RequestMessage, out: &mut Vec<Value>, writing: &mut RequestWriting<'_>) {
    let role = ROLES.iter().find(|(_, role)| *role == message.role).map_or("user", |(word, _)| word);
    if message.role == Role::Tool {
        return writing.put_results(message, role, NAME, out, |result, cache, object, writing| {
            put(object, "tool_call_id", result.id.take());
            let name = result.name.take();
            put(object, "name", name.filter(|_| writing.is_lossless || writing.limits.names_results));
            let content = one_text(result.content.take(), writing);
            put(object, "content", write_content(content, writing));
            write_cache(cache, object, writing);
        });
    }
    let mut object = Object::from_iter([("role", role)]);
    if writing.is_lossless || writing.limits.names_speakers {
        put(&mut object, "name", message.name.take());
    }
    let form = message.content.form;
    let (mut spoken, mut calls, mut thoughts) = (Vec::new(), Vec::new(), Vec::new());
    for part in std::mem::take(&mut message.content.parts) {
        match part.body {
            PartKind::Reasoning(_) | PartKind::Call(_) | PartKind::Refusal(_)
                if writing.is_lossless && is_copy(&part.retained) => {}
            PartKind::Call(_) => calls.extend(write_call(part, writing)),
            PartKind::Opaque(ref word) if word == "tool_call" => {
                calls.extend(part.retained.into_complete(NAME))
            }
            PartKind::Reasoning(_) if writing.is_lossless && !part.retained.is_empty() => {
                spoken.push(ContentPart { signature: None, body: PartKind::Opaque(String::new()), ..part });
            }
            PartKind::Reasoning(_) => thoughts.push(part),
            _ => spoken.push(part),
        }
    }
    let mut content = MessageContent { parts: spoken, form };
    if message.role != Role::User {
        content = one_text(content, writing);
    }
    if let Some(content) = write_content(content, writing) {
        object.insert("content", content);
    }
    let blocks: Vec<Value> = thoughts.iter_mut().filter_map(|part| write_block(part, writing)).collect();
    let texts = thoughts.iter_mut().filter_map(|part| {
        let PartKind::Reasoning(thought) = &mut part.body else { return None };
        thought
            .text
            .take()
            .or_else(|| Some(thought.summary.take()?.join("\n\n")))
            .filter(|text| writing.is_lossless || !text.is_empty())
    });
    let texts: Vec<String> = texts.collect();
    if !texts.is_empty() {
        object.insert("reasoning_content", texts.concat());
    }
    if !blocks.is_empty() {
        object.insert("thinking_blocks", blocks);
    }
    for part in &thoughts {
        writing.losses.part(NAME, part);
        if matches!(&part.body, PartKind::Reasoning(thought) if thought.encrypted.is_some()) {
            writing.losses.put("encrypted reasoning");
        }
    }
    if !calls.is_empty() {
        object.insert("tool_calls", calls);
    }
    message.retained.restore(NAME, &mut object);
    // A server that demands reasoning knows one member for it.
    if writing.limits.fills_reasoning
        && !writing.is_lossless
        && let Some(thought) = object.remove("reasoning")
    {
        object.insert("reasoning_content", thought);
    }
    writing.losses.message(NAME, &message);
    if object.len() > 1 || writing.is_lossless {
        out.push(object.into());
    }
}

/// Writes reasoning with its seal, in the form in which gateways pass it on to the issuer.
fn write_block(part: &mut ContentPart, writing: &RequestWriting<'_>) -> Option<Value> {
    let issuer = writing.limits.replays.filter(|_| !writing.is_lossless)?;
    let PartKind::Reasoning(thought) = &mut part.body else { return None };
    if let Some(data) = ProviderSeal::of(&mut thought.encrypted, issuer) {
        return Some(Value::object([("type", "redacted_thinking".into()), ("data", data.into())]));
    }
    let signature = ProviderSeal::of(&mut part.signature, issuer)?;
    let text = thought.text.clone().unwrap_or_default();
    let members = [("type", "thinking".into()), ("thinking", text.into()), ("signature", signature.into())];
    Some(Value::object(members))
}

/// Joins several texts into one, for servers that take lists of parts from users only, such as llama-cpp-python.
fn one_text(content: MessageContent, writing: &mut RequestWriting<'_>) -> MessageContent {
    let is_text = |part: &ContentPart| matches!(part.body, PartKind::Text(_));
    let is_taken = writing.is_lossless || !writing.limits.wants_one_text();
    if is_taken || content.parts.len() < 2 || !content.parts.iter().all(is_text) {
        return content;
    }
    content.parts.iter().for_each(|part| writing.losses.part(NAME, part));
    let texts: Vec<&str> = content.parts.iter().filter_map(ContentPart::as_text).collect();
    MessageContent::text(texts.join("\n\n"))
}

/// Writes one text as it is, anything else as a list.
fn write_content(content: MessageContent, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let MessageContent { mut parts, form } = content;
    let is_text = match form {
        ContentForm::Text => parts.len() == 1,
        ContentForm::List => !writing.is_lossless && parts.len() == 1,
        ContentForm::Any => parts.len() == 1,
    };
    let is_plain = |part: &ContentPart| {
        matches!(part.body, PartKind::Text(_)) && (part.is_plain() || !writing.is_lossless)
    };
    if is_text && parts.iter().all(is_plain) {
        let part = parts.pop()?;
        writing.losses.part(NAME, &part);
        let PartKind::Text(text) = part.body else { return None };
        return Some(text.into());
    }
    if parts.is_empty() && (form != ContentForm::List || !writing.is_lossless) {
        return None;
    }
    let parts: Vec<Value> = parts.into_iter().filter_map(|part| write_part(part, writing)).collect();
    (!parts.is_empty() || writing.is_lossless).then(|| parts.into())
}

fn write_cache(cache: &mut Option<Box<CacheMark>>, object: &mut Object, writing: &RequestWriting<'_>) {
    if writing.is_lossless
        && let Some(mark) = cache.take()
    {
        put(object, "cache_control.type", Some("ephemeral"));
        put(object, "cache_control.ttl", mark.ttl);
    }
}

fn write_part(mut part: ContentPart, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let mut object = Object::new();
    let body = std::mem::replace(&mut part.body, PartKind::Opaque(String::new()));
    match body {
        PartKind::Text(text) => {
            object.insert("type", "text");
            object.insert("text", text);
        }
        PartKind::Refusal(text) => {
            object.insert("type", "refusal");
            object.insert("refusal", text);
        }
        PartKind::Media(media) => write_media(*media, &mut object, writing)?,
        PartKind::Opaque(word) => return writing.opaque(&word, part.retained, NAME),
        body => {
            let lost = RequestMessage::of(Role::User, ContentPart { body, ..part });
            writing.losses.message(NAME, &lost);
            return None;
        }
    }
    write_cache(&mut part.cache, &mut object, writing);
    part.retained.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_media(media: Media, object: &mut Object, writing: &mut RequestWriting<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    match (kind, source) {
        (MediaKind::Image, MediaSource::Data(data)) => {
            let url = data_url(media_type.as_deref().unwrap_or("image/jpeg"), &data);
            object.insert("type", "image_url");
            put(object, "image_url.url", Some(url));
            put(object, "image_url.detail", detail);
        }
        (MediaKind::Image, MediaSource::Url(url)) => {
            object.insert("type", "image_url");
            put(object, "image_url.url", Some(url));
            put(object, "image_url.detail", detail);
        }
        (MediaKind::Audio, MediaSource::Data(data)) => {
            object.insert("type", "input_audio");
            put(object, "input_audio.data", Some(data));
            put(object, "input_audio.format", media_type.as_deref().and_then(ending_of_type));
        }
        (_, MediaSource::Data(data)) => {
            let data = match media_type {
                Some(media_type) => data_url(&media_type, &data),
                None => data,
            };
            object.insert("type", "file");
            put(object, "file.file_data", Some(data));
            put(object, "file.filename", name);
        }
        (MediaKind::File, MediaSource::Id(id)) => {
            object.insert("type", "file");
            put(object, "file.file_id", Some(id));
            put(object, "file.filename", name);
        }
        (_, MediaSource::Text(text)) => {
            object.insert("type", "text");
            object.insert("text", text);
        }
        (kind, MediaSource::Id(_)) => {
            writing.losses.put(format!("{kind:?} with the provider").to_lowercase());
            return None;
        }
        (kind, MediaSource::Url(_)) => {
            writing.losses.put(format!("{kind:?} by url").to_lowercase());
            return None;
        }
    }
    Some(())
}

fn write_call(mut part: ContentPart, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let body = std::mem::replace(&mut part.body, PartKind::Opaque(String::new()));
    let PartKind::Call(call) = body else { return None };
    let call = *call;
    let mut object = Object::new();
    put(&mut object, "id", call.id);
    let (kind, member) = match call.kind {
        CallKind::Custom => ("custom", "input"),
        CallKind::Function | CallKind::Builtin => ("function", "arguments"),
    };
    object.insert("type", kind);
    put(&mut object, &format!("{kind}.name"), Some(call.name));
    let arguments = match call.arguments {
        // Some servers write objects, and only they read them.
        CallArguments::Json(value) if writing.is_lossless => value,
        arguments => arguments.into_text().into(),
    };
    put(&mut object, &format!("{kind}.{member}"), Some(arguments));
    write_cache(&mut part.cache, &mut object, writing);
    if part.retained.members(NAME).is_some_and(|members| members.contains_key("extra_content")) {
        part.signature = None;
    }
    if let Some(issuer) = writing.limits.signs_calls {
        put(&mut object, GOOGLE_SIGNATURE, ProviderSeal::of(&mut part.signature, issuer));
    }
    part.retained.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_tool(mut tool: RequestTool, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let Some(mut object) = TypedForm::Nested.write_tool(&mut tool, None) else {
        if let ToolKind::Group(_) = tool.kind {
            writing.losses.put("group of tools");
            return None;
        }
        writing.losses.tool(NAME, &tool);
        return tool.retained.into_complete(NAME);
    };
    let is_inner =
        tool.retained.members(NAME).is_some_and(|members| members["function"].get("cache_control").is_some());
    if is_inner && writing.is_lossless {
        tool.cache = None;
    }
    write_cache(&mut tool.cache, &mut object, writing);
    tool.retained.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}
