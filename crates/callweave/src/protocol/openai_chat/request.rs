//! Requests of OpenAI Chat Completions and compatible servers.

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    Arguments, Body, CacheMark, Call, CallKind, CallResult, Content, Form, Format, Grammar, Kept, Limits,
    Media, MediaKind, Members, Message, Part, Request, RequestCoding, Role, Seal, Source, Thinking, Thought,
    Tool, ToolChoice, ToolKind, WEB_SEARCH, Writing, data_url, effort, ending_of_type, parse_data_url, put,
    type_of_name,
};

pub(super) const CODING: RequestCoding = RequestCoding { read, write, limits: &Limits::OPENAI_CHAT };

const NAME: &str = PROTOCOL.name;

/// Roles; of two words the usual one is first.
const ROLES: &[(&str, Role)] = &[
    ("system", Role::System),
    ("developer", Role::Developer),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
];

/// The member that holds the thoughts of an assistant; of several words the usual one is first.
const THOUGHTS: &[&str] = &["reasoning_content", "reasoning"];

/// The signature of a call, as Google's own server of this protocol tells it.
const GOOGLE_SIGNATURE: &str = "extra_content.google.thought_signature";

/// Words for how thoughts are told.
const SUMMARIES: &[(&str, &str)] = &[("summarized", "auto"), ("omitted", "none")];

fn read(body: Object) -> Result<Request> {
    let mut body = Members::new(body);
    body.rename("max_completion_tokens", "max_tokens");
    body.rename("seed", "random_seed");
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    request.messages = body.objects("messages").unwrap_or_default().into_iter().map(read_message).collect();
    request.tools = body.objects("tools").unwrap_or_default().into_iter().map(read_tool).collect();
    request.tool_choice = read_choice(&mut body);
    if request.tool_choice.is_none() && body.peek("tool_choice").is_some_and(|choice| !choice.is_null()) {
        body.note_malformed("tool_choice");
    }
    let is_legacy = body.peek("functions").is_some() || body.peek("function_call").is_some();
    if is_legacy {
        read_legacy_tools(&mut body, &mut request);
    }
    request.parallel_calls = body.truth("parallel_tool_calls");
    request.max_tokens = body.number("max_completion_tokens");
    request.stop = body.string_or_strings("stop").unwrap_or_default();
    let sampling = &mut request.sampling;
    sampling.temperature = body.number("temperature");
    sampling.top_p = body.number("top_p");
    sampling.top_k = body.number("top_k");
    sampling.min_p = body.number("min_p");
    sampling.frequency_penalty = body.number("frequency_penalty");
    sampling.presence_penalty = body.number("presence_penalty");
    sampling.repetition_penalty = body.number("repetition_penalty");
    sampling.seed = body.number("seed");
    sampling.choices = body.number("n");
    sampling.logit_bias = body.object("logit_bias");
    sampling.logprobs = body.truth("logprobs");
    sampling.top_logprobs = body.number("top_logprobs");
    request.format = read_format(&mut body);
    request.reasoning.effort = body.string("reasoning_effort");
    request.reasoning.mode = match body.peek_str("thinking.type") {
        Some("enabled") => Some(Thinking::On),
        Some("disabled") => Some(Thinking::Off),
        Some("adaptive") => Some(Thinking::Adaptive),
        _ => None,
    };
    if request.reasoning.mode.is_some() {
        body.string("thinking.type");
        request.reasoning.budget = body.number("thinking.budget_tokens");
        request.reasoning.summary = SUMMARIES
            .iter()
            .find(|(word, _)| body.peek_str("thinking.display") == Some(word))
            .map(|(_, summary)| (*summary).to_owned());
        if request.reasoning.summary.is_some() {
            body.string("thinking.display");
        }
    }
    request.stream = body.truth("stream");
    request.stream_usage = body.truth("stream_options.include_usage");
    request.store = body.truth("store");
    request.metadata = body.object("metadata");
    request.user = body.string("user");
    request.service_tier = body.string("service_tier");
    request.cache_key = body.string("prompt_cache_key");
    request.verbosity = body.string("verbosity");
    // Not OpenAI's, but gateways pass it on.
    request.previous = body.string("previous_response_id");
    request.kept = body.rest(NAME);
    Ok(request)
}

fn read_message(message: Object) -> Message {
    let mut message = Members::new(message);
    message.note_absence("role");
    let role = message.peek_str("role").map(str::to_owned);
    let known = ROLES.iter().find(|(word, _)| role.as_deref() == Some(*word));
    if known.is_some() {
        message.string("role");
    }
    let is_result = matches!(role.as_deref(), Some("tool" | "function"));
    let role = known.map_or(if is_result { Role::Tool } else { Role::User }, |&(_, role)| role);
    if is_result {
        let result = CallResult {
            id: message.string("tool_call_id"),
            name: message.string("name"),
            content: read_content(&mut message),
            value: None,
            is_error: None,
            kind: CallKind::Function,
        };
        let part = Part { cache: read_cache(&mut message), ..Part::new(Body::Result(result)) };
        return Message { kept: message.rest(NAME), ..Message::of(role, part) };
    }
    let name = message.string("name");
    let mut parts = Vec::new();
    let is_text = |word: &&&str| message.peek(word).is_some_and(Value::is_string);
    if role == Role::Assistant
        && let Some(word) = THOUGHTS.iter().find(is_text)
    {
        message.rename("reasoning_content", word);
        let text = message.string("reasoning_content");
        parts.push(Part::new(Body::Thought(Thought { text, ..Thought::default() })));
    }
    let mut content = read_content(&mut message);
    if !content.parts.iter().any(|part| matches!(part.body, Body::Thought(_))) {
        let blocks = message.peek("thinking_blocks").and_then(Value::as_array);
        parts.extend(blocks.into_iter().flatten().filter_map(Value::as_object).map(read_block));
        message.note_read("thinking_blocks");
    }
    parts.append(&mut content.parts);
    let calls = message.objects("tool_calls").unwrap_or_default();
    parts.extend(calls.into_iter().map(read_call));
    parts.extend(read_legacy_call(&mut message));
    let content = Content { parts, form: content.form };
    Message { role, content, name, kept: message.rest(NAME) }
}

fn read_content(message: &mut Members) -> Content {
    if let Some(text) = message.string("content") {
        return Content::text(text);
    }
    match message.array("content") {
        Some(parts) => Content::list(parts.into_iter().map(read_part).collect()),
        None => Content::default(),
    }
}

fn read_cache(members: &mut Members) -> Option<CacheMark> {
    members
        .constant("cache_control.type", "ephemeral")
        .then(|| CacheMark { ttl: members.string("cache_control.ttl") })
}

fn read_part(part: Value) -> Part {
    let part = match part {
        Value::Object(part) => part,
        other => return Part::opaque(NAME, "", other),
    };
    let mut part = Members::new(part);
    let word = part.peek_str("type").unwrap_or_default().to_owned();
    let body = match word.as_str() {
        "text" => part.string("text").map(Body::Text),
        "refusal" => part.string("refusal").map(Body::Refusal),
        "image_url" => read_image(&mut part).map(Body::Media),
        "input_audio" => part.string("input_audio.data").map(|data| {
            let format = part.peek_str("input_audio.format").and_then(type_of_name);
            let media_type = format.map(str::to_owned);
            if media_type.is_some() {
                part.string("input_audio.format");
            }
            Body::Media(Media { media_type, ..Media::new(MediaKind::Audio, Source::Data(data)) })
        }),
        "file" => read_file(&mut part).map(Body::Media),
        "thinking" | "redacted_thinking" => return read_thought(part.into_object()),
        _ => None,
    };
    let Some(body) = body else {
        return Part::opaque(NAME, &word, part.into_object().into());
    };
    part.string("type");
    let cache = read_cache(&mut part);
    Part { cache, kept: part.rest(NAME), ..Part::new(body) }
}

/// Thoughts among the content, as gateways before Claude write them. They are kept whole.
fn read_thought(part: Object) -> Part {
    let own = |keys: [&str; 2]| keys.iter().find_map(|key| part[*key].as_str().map(str::to_owned));
    let text = own(["text", "thinking"]);
    let encrypted = own(["redactedContent", "data"]).map(|data| Seal::new("", data));
    let signature = part["signature"].as_str().map(|data| Seal::new("", data));
    let body = Body::Thought(Thought { text, summary: None, encrypted });
    Part { signature, kept: Kept::whole(NAME, part.into()), ..Part::new(body) }
}

/// Thoughts beside the content, as other gateways write them. The list stays with the message.
fn read_block(block: &Object) -> Part {
    let mut part = read_thought(block.clone());
    part.kept = Kept::whole(NAME, Value::Null);
    part
}

fn read_image(part: &mut Members) -> Option<Media> {
    // Mistral takes the URL itself for the object. It is kept as it is, and looked at.
    let url = match part.peek_str("image_url").map(str::to_owned) {
        Some(url) => {
            part.note_read("image_url");
            url
        }
        None => part.string("image_url.url")?,
    };
    let detail = part.string("image_url.detail");
    if detail.as_ref().is_some_and(|detail| !["auto", "low", "high", "original"].contains(&detail.as_str())) {
        part.note_malformed("image_url.detail");
    }
    Some(Media { detail, ..read_url(MediaKind::Image, url) })
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
    let name = part.string("file.filename");
    let media = if let Some(data) = part.string("file.file_data") {
        match parse_data_url(&data) {
            Some(_) => read_url(MediaKind::File, data),
            None => Media::new(MediaKind::File, Source::Data(data)),
        }
    } else if let Some(id) = part.string("file.file_id") {
        Media::new(MediaKind::File, Source::Id(id))
    } else {
        part.put("file.filename", name);
        return None;
    };
    Some(Media { name, ..media })
}

fn read_call(call: Object) -> Part {
    let mut call = Members::new(call);
    call.note_absence("type");
    let is_custom = call.peek_str("type") == Some("custom");
    let (base, kind) =
        if is_custom { ("custom", CallKind::Custom) } else { ("function", CallKind::Function) };
    let Some(name) = call.string(&format!("{base}.name")) else {
        return Part::opaque(NAME, "tool_call", call.into_object().into());
    };
    let arguments = if is_custom { "custom.input" } else { "function.arguments" };
    let arguments = match call.take_if(arguments, |value| value.is_string() || value.is_object()) {
        Some(Value::String(text)) => Arguments::Text(text),
        Some(value) => Arguments::Json(value),
        None => {
            call.note_absence(arguments);
            Arguments::Text(String::new())
        }
    };
    call.constant("type", base);
    let id = call.string("id");
    let cache = read_cache(&mut call);
    // Where Google's own server of this protocol puts it. It stays.
    let signature = call.peek_str(GOOGLE_SIGNATURE).map(|data| Seal::new("google", data));
    if signature.is_some() {
        call.note_read("extra_content");
    }
    let body = Body::Call(Call { id, name, namespace: None, arguments, kind });
    Part { body, cache, signature, kept: call.rest(NAME) }
}

/// The only call, in the older form, which has no id. It stays.
fn read_legacy_call(message: &mut Members) -> Option<Part> {
    let call = message.peek("function_call")?;
    let name = call["name"].as_str()?.to_owned();
    let arguments = Arguments::Text(call["arguments"].as_str().unwrap_or_default().to_owned());
    message.note_read("function_call");
    let body = Body::Call(Call { id: None, name, namespace: None, arguments, kind: CallKind::Function });
    Some(Part { kept: Kept::whole(NAME, Value::Null), ..Part::new(body) })
}

/// Tools in the older form. They stay.
fn read_legacy_tools(body: &mut Members, request: &mut Request) {
    let tools: Vec<Tool> = body
        .peek("functions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|function| {
            let kind = ToolKind::Function { schema: function.get("parameters").cloned() };
            let mut tool = Tool::new(function["name"].as_str()?, kind);
            tool.description = function["description"].as_str().map(str::to_owned);
            tool.kept = Kept::whole(NAME, Value::Null);
            Some(tool)
        })
        .collect();
    request.tools.extend(tools);
    body.note_read("functions");
    if request.tool_choice.is_none() {
        request.tool_choice = match body.peek("function_call") {
            Some(Value::String(word)) if word == "none" => Some(ToolChoice::None),
            Some(Value::String(word)) if word == "auto" => Some(ToolChoice::Auto),
            Some(Value::Object(named)) => named["name"]
                .as_str()
                .map(|name| ToolChoice::Tool { name: name.to_owned(), kind: CallKind::Function }),
            _ => None,
        };
        body.note_read("function_call");
    }
}

/// Whether something is a copy of what stays elsewhere in the older form.
fn is_copy(kept: &Kept) -> bool {
    kept.members(NAME).is_some_and(|members| members.contains_key(""))
}

fn read_tool(tool: Object) -> Tool {
    let mut tool = Members::new(tool);
    tool.note_absence("type");
    let word = tool.peek_str("type").unwrap_or("function").to_owned();
    let name = match word.as_str() {
        "function" => tool.string("function.name"),
        "custom" => tool.string("custom.name"),
        _ => None,
    };
    let Some(name) = name else {
        let whole = Kept::whole(NAME, tool.into_object().into());
        return Tool { kept: whole, ..Tool::new(word.clone(), ToolKind::Builtin(word)) };
    };
    tool.constant("type", &word);
    let kind = match word.as_str() {
        "custom" => ToolKind::Custom { grammar: read_grammar(&mut tool) },
        _ => ToolKind::Function { schema: tool.object("function.parameters").map(Value::from) },
    };
    if tool.peek("function.parameters").is_some_and(|schema| !schema.is_null()) {
        tool.note_malformed("function.parameters");
    }
    let description = tool.string(&format!("{word}.description"));
    let strict = tool.truth("function.strict");
    // Some write it into the function, where it stays.
    let inner = tool.peek_str("function.cache_control.type") == Some("ephemeral");
    let cache = read_cache(&mut tool).or_else(|| inner.then(CacheMark::default));
    Tool { description, strict, cache, kept: tool.rest(NAME), ..Tool::new(name, kind) }
}

fn read_grammar(tool: &mut Members) -> Option<Grammar> {
    if tool.constant("custom.format.type", "text") {
        return Some(Grammar { syntax: "text".to_owned(), definition: String::new() });
    }
    tool.peek_str("custom.format.grammar.syntax")?;
    tool.peek_str("custom.format.grammar.definition")?;
    tool.constant("custom.format.type", "grammar");
    let syntax = tool.string("custom.format.grammar.syntax")?;
    let definition = tool.string("custom.format.grammar.definition")?;
    Some(Grammar { syntax, definition })
}

fn read_choice(body: &mut Members) -> Option<ToolChoice> {
    let choice = body.peek("tool_choice")?;
    let named = |base: &str, kind| {
        let name = choice.get(base)?.get("name")?.as_str()?.to_owned();
        Some(ToolChoice::Tool { name, kind })
    };
    let read = match (choice.as_str(), choice.get("type").and_then(Value::as_str)) {
        (Some("auto"), _) => Some(ToolChoice::Auto),
        (Some("none"), _) => Some(ToolChoice::None),
        (Some("required"), _) => Some(ToolChoice::Required),
        // Mistral's word, which stays.
        (Some("any"), _) => {
            body.note_read("tool_choice");
            return Some(ToolChoice::Required);
        }
        (_, Some("function")) => named("function", CallKind::Function),
        (_, Some("custom")) => named("custom", CallKind::Custom),
        (_, Some("allowed_tools")) => {
            let tools = choice.pointer("/allowed_tools/tools").and_then(Value::as_array);
            let names = tools.into_iter().flatten().map(|tool| {
                tool.pointer("/function/name").or(tool.pointer("/custom/name"))?.as_str().map(str::to_owned)
            });
            let is_required = choice.pointer("/allowed_tools/mode").is_some_and(|mode| *mode == "required");
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
    let format = match body.peek_str("response_format.type") {
        Some("text") => Format::Text,
        Some("json_object") => Format::Json,
        Some("json_schema") => Format::Schema {
            schema: body.object("response_format.json_schema.schema")?.into(),
            name: body.string("response_format.json_schema.name"),
            description: body.string("response_format.json_schema.description"),
            strict: body.truth("response_format.json_schema.strict"),
        },
        _ => return None,
    };
    body.string("response_format.type");
    Some(format)
}

fn write(request: &mut Request, writing: &mut Writing<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    let mut messages = Vec::new();
    if !request.instructions.is_empty() {
        let instructions = Message::new(Role::System, request.instructions.take());
        write_message(instructions, &mut messages, writing);
    }
    for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        writing.losses.at(format_args!("messages[{number}]"));
        write_message(message, &mut messages, writing);
    }
    if !messages.is_empty() || !writing.is_faithful {
        body.insert("messages", messages);
    }
    if writing.is_faithful {
        drop_copies(request);
    } else {
        write_search(request, &mut body);
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
    if writing.is_faithful && request.kept.members(NAME).is_some_and(|own| own.contains_key("tool_choice")) {
        // In a form of its own, which stays.
        request.tool_choice = None;
    }
    if has_tools || writing.is_faithful {
        put(&mut body, "tool_choice", request.tool_choice.take().as_ref().map(write_choice));
        put(&mut body, "parallel_tool_calls", request.parallel_calls.take());
    }
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
    if writing.is_faithful {
        // Members of compatible servers, which OpenAI refuses.
        put(&mut body, "top_k", sampling.top_k.take());
        put(&mut body, "min_p", sampling.min_p.take());
        put(&mut body, "repetition_penalty", sampling.repetition_penalty.take());
        put(&mut body, "previous_response_id", request.previous.take());
        put(
            &mut body,
            "thinking.type",
            request.reasoning.mode.take().map(|mode| match mode {
                Thinking::On => "enabled",
                Thinking::Off => "disabled",
                Thinking::Adaptive => "adaptive",
            }),
        );
        put(&mut body, "thinking.budget_tokens", request.reasoning.budget.take());
        let summary = request.reasoning.summary.take();
        let display =
            SUMMARIES.iter().find(|(_, own)| summary.as_deref() == Some(own)).map(|(word, _)| *word);
        put(&mut body, "thinking.display", display);
    }
    put(&mut body, "response_format", request.format.take().map(|format| write_format(format, writing)));
    put(&mut body, "reasoning_effort", effort::take(&mut request.reasoning));
    put(&mut body, "stream", request.stream.take());
    let usage = request.stream_usage.take();
    if request.stream == Some(true) || writing.is_faithful || body.get("stream").is_some_and(|on| *on == true)
    {
        put(&mut body, "stream_options.include_usage", usage);
    }
    put(&mut body, "store", request.store.take());
    put(&mut body, "metadata", request.metadata.take());
    put(&mut body, "user", request.user.take());
    put(&mut body, "service_tier", request.service_tier.take());
    put(&mut body, "prompt_cache_key", request.cache_key.take());
    put(&mut body, "verbosity", request.verbosity.take());
    request.kept.restore(NAME, &mut body);
    body
}

/// What stays in the older form is not written in the newer.
fn drop_copies(request: &mut Request) {
    let count = request.tools.len();
    request.tools.retain(|tool| !is_copy(&tool.kept));
    let has_older = request.kept.members(NAME).is_some_and(|members| members.contains_key("function_call"));
    if request.tools.len() < count || has_older {
        request.tool_choice = None;
    }
}

/// Searching the web is no tool here.
fn write_search(request: &mut Request, body: &mut Object) {
    let count = request.tools.len();
    // Other servers of this protocol refuse the member.
    let is_openai = body["model"]
        .as_str()
        .is_some_and(|model| ["gpt-", "o1", "o3", "o4"].iter().any(|start| model.starts_with(start)));
    if is_openai {
        request.tools.retain(|tool| tool.kind != ToolKind::Builtin(WEB_SEARCH.to_owned()));
    }
    put(body, "web_search_options", (request.tools.len() < count).then(Object::new));
}

fn write_message(mut message: Message, out: &mut Vec<Value>, writing: &mut Writing<'_>) {
    let role = ROLES.iter().find(|(_, role)| *role == message.role).map_or("user", |(word, _)| word);
    if message.role == Role::Tool {
        for mut part in std::mem::take(&mut message.content.parts) {
            let Body::Result(ref mut result) = part.body else {
                message.content.parts.push(part);
                continue;
            };
            let mut object = Object::from_iter([("role", role)]);
            put(&mut object, "tool_call_id", result.id.take());
            let name = result.name.take();
            put(&mut object, "name", name.filter(|_| writing.is_faithful || writing.limits.names_results));
            if let Some(content) = write_content(result.content.take(), writing) {
                object.insert("content", content);
            }
            if result.is_error == Some(true) {
                writing.losses.put("error mark of a result");
            }
            write_cache(&mut part, &mut object, writing);
            message.kept.restore(NAME, &mut object);
            writing.losses.part(NAME, &part);
            out.push(object.into());
        }
        writing.losses.message(NAME, &message);
        return;
    }
    let mut object = Object::from_iter([("role", role)]);
    if writing.is_faithful || writing.limits.names_speakers {
        put(&mut object, "name", message.name.take());
    }
    let form = message.content.form;
    let (mut spoken, mut calls, mut thoughts) = (Vec::new(), Vec::new(), Vec::new());
    for part in std::mem::take(&mut message.content.parts) {
        match part.body {
            Body::Thought(_) | Body::Call(_) if writing.is_faithful && is_copy(&part.kept) => {}
            Body::Call(_) => calls.extend(write_call(part, writing)),
            Body::Opaque(ref word) if word == "tool_call" => calls.extend(part.kept.into_whole(NAME)),
            Body::Thought(_) if writing.is_faithful && !part.kept.is_empty() => {
                spoken.push(Part { signature: None, body: Body::Opaque(String::new()), ..part });
            }
            Body::Thought(_) => thoughts.push(part),
            _ => spoken.push(part),
        }
    }
    if let Some(content) = write_content(Content { parts: spoken, form }, writing) {
        object.insert("content", content);
    }
    let texts = thoughts.iter_mut().filter_map(|part| {
        let Body::Thought(thought) = &mut part.body else { return None };
        thought
            .text
            .take()
            .or_else(|| Some(thought.summary.take()?.join("\n\n")))
            .filter(|text| writing.is_faithful || !text.is_empty())
    });
    let texts: Vec<String> = texts.collect();
    if !texts.is_empty() {
        object.insert("reasoning_content", texts.concat());
    }
    for part in &thoughts {
        writing.losses.part(NAME, part);
        if let Body::Thought(Thought { encrypted: Some(_), .. }) = part.body {
            writing.losses.put("encrypted reasoning");
        }
    }
    if !calls.is_empty() {
        object.insert("tool_calls", calls);
    }
    message.kept.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    if object.len() > 1 || writing.is_faithful {
        out.push(object.into());
    }
}

/// One text as it is, anything else as a list.
fn write_content(content: Content, writing: &mut Writing<'_>) -> Option<Value> {
    let Content { mut parts, form } = content;
    let is_text = match form {
        Form::Text => parts.len() == 1,
        Form::List => !writing.is_faithful && parts.len() == 1,
        Form::Any => parts.len() == 1,
    };
    let is_plain =
        |part: &Part| matches!(part.body, Body::Text(_)) && (part.is_plain() || !writing.is_faithful);
    if is_text && parts.iter().all(is_plain) {
        let part = parts.pop()?;
        writing.losses.part(NAME, &part);
        let Body::Text(text) = part.body else { return None };
        return Some(text.into());
    }
    if parts.is_empty() && (form != Form::List || !writing.is_faithful) {
        return None;
    }
    let parts: Vec<Value> = parts.into_iter().filter_map(|part| write_part(part, writing)).collect();
    (!parts.is_empty() || writing.is_faithful).then(|| parts.into())
}

fn write_cache(part: &mut Part, object: &mut Object, writing: &Writing<'_>) {
    if writing.is_faithful
        && let Some(mark) = part.cache.take()
    {
        put(object, "cache_control.type", Some("ephemeral"));
        put(object, "cache_control.ttl", mark.ttl);
    }
}

fn write_part(mut part: Part, writing: &mut Writing<'_>) -> Option<Value> {
    let mut object = Object::new();
    let body = std::mem::replace(&mut part.body, Body::Opaque(String::new()));
    match body {
        Body::Text(text) => {
            object.insert("type", "text");
            object.insert("text", text);
        }
        Body::Refusal(text) => {
            object.insert("type", "refusal");
            object.insert("refusal", text);
        }
        Body::Media(media) => write_media(media, &mut object, writing)?,
        Body::Opaque(word) => {
            if part.kept.protocol() != Some(NAME) {
                writing.losses.put(format!("{word} of {}", part.kept.protocol().unwrap_or("nobody")));
            }
            return part.kept.into_whole(NAME);
        }
        body => {
            let lost = Message::of(Role::User, Part { body, ..part });
            writing.losses.message(NAME, &lost);
            return None;
        }
    }
    write_cache(&mut part, &mut object, writing);
    part.kept.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_media(media: Media, object: &mut Object, writing: &mut Writing<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    match (kind, source) {
        (MediaKind::Image, Source::Data(data)) => {
            let url = data_url(media_type.as_deref().unwrap_or("image/jpeg"), &data);
            object.insert("type", "image_url");
            put(object, "image_url.url", Some(url));
            put(object, "image_url.detail", detail);
        }
        (MediaKind::Image, Source::Url(url)) => {
            object.insert("type", "image_url");
            put(object, "image_url.url", Some(url));
            put(object, "image_url.detail", detail);
        }
        (MediaKind::Audio, Source::Data(data)) => {
            object.insert("type", "input_audio");
            put(object, "input_audio.data", Some(data));
            put(object, "input_audio.format", media_type.as_deref().and_then(ending_of_type));
        }
        (_, Source::Data(data)) => {
            let data = match media_type {
                Some(media_type) => data_url(&media_type, &data),
                None => data,
            };
            object.insert("type", "file");
            put(object, "file.file_data", Some(data));
            put(object, "file.filename", name);
        }
        (MediaKind::File, Source::Id(id)) => {
            object.insert("type", "file");
            put(object, "file.file_id", Some(id));
            put(object, "file.filename", name);
        }
        (_, Source::Text(text)) => {
            object.insert("type", "text");
            object.insert("text", text);
            if name.is_some() {
                writing.losses.put("title of a document");
            }
        }
        (kind, Source::Id(_)) => {
            writing.losses.put(format!("{kind:?} with the provider").to_lowercase());
            return None;
        }
        (kind, Source::Url(_)) => {
            writing.losses.put(format!("{kind:?} by url").to_lowercase());
            return None;
        }
    }
    Some(())
}

fn write_call(mut part: Part, writing: &mut Writing<'_>) -> Option<Value> {
    let body = std::mem::replace(&mut part.body, Body::Opaque(String::new()));
    let Body::Call(call) = body else { return None };
    let mut object = Object::new();
    put(&mut object, "id", call.id);
    match call.kind {
        CallKind::Custom => {
            object.insert("type", "custom");
            put(&mut object, "custom.name", Some(call.name));
            let input = match call.arguments {
                Arguments::Json(value) if writing.is_faithful => value,
                arguments => arguments.into_text().into(),
            };
            put(&mut object, "custom.input", Some(input));
        }
        CallKind::Function | CallKind::Builtin => {
            object.insert("type", "function");
            put(&mut object, "function.name", Some(call.name));
            let arguments = match call.arguments {
                // Some servers write objects, and only they read them.
                Arguments::Json(value) if writing.is_faithful => value,
                arguments => arguments.into_text().into(),
            };
            put(&mut object, "function.arguments", Some(arguments));
        }
    }
    write_cache(&mut part, &mut object, writing);
    if part.kept.members(NAME).is_some_and(|members| members.contains_key("extra_content")) {
        part.signature = None;
    }
    part.kept.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_tool(mut tool: Tool, writing: &mut Writing<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            object.insert("type", "function");
            put(&mut object, "function.name", Some(tool.name.clone()));
            put(&mut object, "function.description", tool.description.take());
            put(&mut object, "function.parameters", schema);
            put(&mut object, "function.strict", tool.strict.take());
        }
        ToolKind::Custom { grammar } => {
            object.insert("type", "custom");
            put(&mut object, "custom.name", Some(tool.name.clone()));
            put(&mut object, "custom.description", tool.description.take());
            if let Some(Grammar { syntax, .. }) = &grammar
                && syntax == "text"
            {
                put(&mut object, "custom.format.type", Some("text"));
            } else if let Some(grammar) = grammar {
                put(&mut object, "custom.format.type", Some("grammar"));
                put(&mut object, "custom.format.grammar.syntax", Some(grammar.syntax));
                put(&mut object, "custom.format.grammar.definition", Some(grammar.definition));
            }
        }
        ToolKind::Builtin(word) => {
            tool.kind = ToolKind::Builtin(word);
            writing.losses.tool(NAME, &tool);
            return tool.kept.into_whole(NAME);
        }
        ToolKind::Group(_) => {
            writing.losses.put("group of tools");
            return None;
        }
    }
    let is_inner =
        tool.kept.members(NAME).is_some_and(|members| members["function"].get("cache_control").is_some());
    if is_inner && writing.is_faithful {
        tool.cache = None;
    }
    if writing.is_faithful
        && let Some(mark) = tool.cache.take()
    {
        put(&mut object, "cache_control.type", Some("ephemeral"));
        put(&mut object, "cache_control.ttl", mark.ttl);
    }
    tool.kept.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}

fn write_choice(choice: &ToolChoice) -> Value {
    let named = |name: &str, kind: CallKind| {
        let base = if kind == CallKind::Custom { "custom" } else { "function" };
        Value::object([("type", base.into()), (base, Value::object([("name", name.into())]))])
    };
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Tool { name, kind } => named(name, *kind),
        ToolChoice::Allowed { names, is_required } => {
            let mode = if *is_required { "required" } else { "auto" };
            let tools: Value = names.iter().map(|name| named(name, CallKind::Function)).collect();
            let allowed = Value::object([("mode", mode.into()), ("tools", tools)]);
            Value::object([("type", "allowed_tools".into()), ("allowed_tools", allowed)])
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
            let name = name.or_else(|| (!writing.is_faithful).then(|| "structured_output".to_owned()));
            put(&mut object, "json_schema.name", name);
            put(&mut object, "json_schema.description", description);
            put(&mut object, "json_schema.schema", Some(schema));
            put(&mut object, "json_schema.strict", strict);
        }
    }
    object.into()
}
