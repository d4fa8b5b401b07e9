//! Requests of Cohere v2 chat.

use super::PROTOCOL;
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{
    CallArguments, CallKind, CallResult, ContentForm, ContentPart, Media, MediaKind, MediaSource,
    MessageContent, OutputFormat, PartKind, ProviderLimits, ReasoningMode, Request, RequestCall,
    RequestCoding, RequestMembers, RequestMessage, RequestReasoning, RequestWriting, Role, ToolChoice,
    data_url, effort, put, read_plain_tools, write_plain_tool,
};

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &ProviderLimits::COHERE };

const NAME: &str = PROTOCOL.name;

const ROLES: &[(&str, Role)] =
    &[("system", Role::System), ("user", Role::User), ("assistant", Role::Assistant), ("tool", Role::Tool)];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    request.messages = body.objects("messages").unwrap_or_default().into_iter().map(read_message).collect();
    request.tools = read_plain_tools(&mut body, NAME);
    request.tool_choice = match body.peek_str("tool_choice") {
        Some("REQUIRED") => Some(ToolChoice::Required),
        Some("NONE") => Some(ToolChoice::None),
        _ => None,
    };
    if request.tool_choice.is_some() {
        body.string("tool_choice");
    }
    request.max_tokens = body.number("max_tokens");
    request.stop = body.strings("stop_sequences").unwrap_or_default();
    let sampling = &mut request.sampling;
    sampling.temperature = body.number("temperature");
    sampling.top_p = body.number("p");
    sampling.top_k = body.number("k");
    sampling.frequency_penalty = body.number("frequency_penalty");
    sampling.presence_penalty = body.number("presence_penalty");
    sampling.seed = body.number("seed");
    sampling.logprobs = body.truth("logprobs");
    request.format = match body.peek_str("response_format.type") {
        Some("text") => Some(OutputFormat::Text),
        Some("json_object") => Some(match body.object("response_format.json_schema") {
            Some(schema) => {
                OutputFormat::Schema { name: None, description: None, schema: schema.into(), strict: None }
            }
            None => OutputFormat::Json,
        }),
        _ => None,
    };
    if request.format.is_some() {
        body.string("response_format.type");
    }
    request.reasoning.mode = match body.peek_str("thinking.type") {
        Some("enabled") => Some(ReasoningMode::On),
        Some("disabled") => Some(ReasoningMode::Off),
        _ => None,
    };
    if request.reasoning.mode.is_some() {
        body.string("thinking.type");
    }
    request.reasoning.budget = body.number("thinking.token_budget");
    request.stream = body.truth("stream");
    request.kept = body.rest(NAME);
    Ok(request)
}

fn read_message(message: Object) -> RequestMessage {
    let mut message = RequestMembers::new(message);
    let role = message.role(ROLES).unwrap_or(Role::User);
    if role == Role::Tool {
        let id = message.string("tool_call_id");
        let content = read_content(&mut message);
        let kind = CallKind::Function;
        let result = CallResult { id, name: None, content, value: None, is_error: None, kind };
        let kept = message.rest(NAME);
        return RequestMessage { retained: kept, ..RequestMessage::of(role, ContentPart::new(result)) };
    }
    let plan = message.string("tool_plan");
    let MessageContent { parts, form } = read_content(&mut message);
    let plan = plan.map(|text| {
        ContentPart::new(PartKind::from(RequestReasoning { text: Some(text), ..RequestReasoning::default() }))
    });
    let calls = message.objects("tool_calls").unwrap_or_default().into_iter().map(read_call);
    let parts = plan.into_iter().chain(parts).chain(calls).collect();
    RequestMessage {
        retained: message.rest(NAME),
        ..RequestMessage::new(role, MessageContent { parts, form })
    }
}

fn read_content(message: &mut RequestMembers) -> MessageContent {
    if let Some(text) = message.string("content") {
        return MessageContent::text(text);
    }
    match message.array("content") {
        Some(parts) => MessageContent::list(parts.into_iter().map(read_part).collect()),
        None => MessageContent::default(),
    }
}

fn read_part(part: Value) -> ContentPart {
    let part = match part {
        Value::Object(part) => part,
        other => return ContentPart::opaque(NAME, "", other),
    };
    let mut part = RequestMembers::new(part);
    let word = part.peek_str("type").unwrap_or_default().to_owned();
    let body = match word.as_str() {
        "text" => part.string("text").map(PartKind::Text),
        "thinking" => part
            .string("thinking")
            .map(|text| PartKind::from(RequestReasoning { text: Some(text), ..RequestReasoning::default() })),
        "image_url" => part.string("image_url.url").map(|url| {
            let media = Media::at(MediaKind::Image, url);
            PartKind::from(Media { detail: part.string("image_url.detail"), ..media })
        }),
        _ => None,
    };
    let Some(body) = body else {
        return ContentPart::opaque(NAME, &word, part.into_object().into());
    };
    if word != "thinking" {
        // The type distinguishes reasoning in the list from a plan.
        part.string("type");
    }
    ContentPart { retained: part.rest(NAME), ..ContentPart::new(body) }
}

fn read_call(call: Object) -> ContentPart {
    let mut call = RequestMembers::new(call);
    let Some(name) = call.string("function.name") else {
        return ContentPart::opaque(NAME, "tool_call", call.into_object().into());
    };
    call.note_absence("type");
    call.constant("type", "function");
    call.note_absence("function.arguments");
    let arguments = CallArguments::Text(call.string("function.arguments").unwrap_or_default());
    let id = call.string("id");
    let body = PartKind::from(RequestCall { id, name, namespace: None, arguments, kind: CallKind::Function });
    ContentPart { retained: call.rest(NAME), ..ContentPart::new(body) }
}

fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    writing.put_messages(request, &mut body, write_message);
    if !writing.is_lossless {
        narrow(request);
    }
    let mut is_strict = false;
    let tools: Vec<Value> = std::mem::take(&mut request.tools)
        .into_iter()
        .enumerate()
        .filter_map(|(number, mut tool)| {
            writing.losses.at(format_args!("tools[{number}]"));
            is_strict |= tool.strict.take() == Some(true);
            write_plain_tool(tool, NAME, writing)
        })
        .collect();
    let has_tools = !tools.is_empty();
    put(&mut body, "tools", has_tools.then_some(tools));
    put(&mut body, "strict_tools", is_strict.then_some(true));
    if has_tools || writing.is_lossless {
        put(
            &mut body,
            "tool_choice",
            match request.tool_choice {
                Some(ToolChoice::Required) => Some("REQUIRED"),
                Some(ToolChoice::None) => Some("NONE"),
                _ => None,
            },
        );
        request.tool_choice = None;
    }
    put(&mut body, "max_tokens", request.max_tokens.take());
    let stop = std::mem::take(&mut request.stop);
    put(&mut body, "stop_sequences", (!stop.is_empty()).then_some(stop));
    let sampling = &mut request.sampling;
    put(&mut body, "temperature", sampling.temperature.take());
    put(&mut body, "p", sampling.top_p.take());
    put(&mut body, "k", sampling.top_k.take());
    put(&mut body, "frequency_penalty", sampling.frequency_penalty.take());
    put(&mut body, "presence_penalty", sampling.presence_penalty.take());
    put(&mut body, "seed", sampling.seed.take());
    put(&mut body, "logprobs", sampling.logprobs.take());
    match request.format.take() {
        Some(OutputFormat::Text) => put(&mut body, "response_format.type", Some("text")),
        Some(OutputFormat::Json) => put(&mut body, "response_format.type", Some("json_object")),
        Some(OutputFormat::Schema { schema, .. }) => {
            put(&mut body, "response_format.type", Some("json_object"));
            put(&mut body, "response_format.json_schema", Some(schema));
        }
        None => {}
    }
    let word = |mode| if mode == ReasoningMode::Off { "disabled" } else { "enabled" };
    if writing.is_lossless {
        put(&mut body, "thinking.type", request.reasoning.mode.take().map(word));
        put(&mut body, "thinking.token_budget", request.reasoning.budget.take());
    } else if request.reasoning.mode == Some(ReasoningMode::Adaptive)
        && request.reasoning.effort.is_none()
        && request.reasoning.budget.is_none()
    {
        request.reasoning.mode = None;
        put(&mut body, "thinking.type", Some("enabled"));
    } else if let Some(budget) = effort::take_budget(&mut request.reasoning) {
        let is_on = budget.as_str() != "0";
        put(&mut body, "thinking.type", Some(if is_on { "enabled" } else { "disabled" }));
        put(&mut body, "thinking.token_budget", is_on.then_some(budget));
    }
    put(&mut body, "stream", request.stream.take());
    request.kept.restore(NAME, &mut body);
    body
}

/// Keeps only the tool that must be called: there is no other way to require one.
fn narrow(request: &mut Request) {
    if let Some(ToolChoice::Tool { name, .. }) = &request.tool_choice {
        request.tools.retain(|tool| tool.name == *name);
        request.tool_choice = Some(ToolChoice::Required);
    }
}

fn write_message(mut message: RequestMessage, out: &mut Vec<Value>, writing: &mut RequestWriting<'_>) {
    let role = ROLES.iter().find(|(_, role)| *role == message.role).map_or("system", |(word, _)| word);
    if message.role == Role::Tool {
        return writing.put_results(message, role, NAME, out, |result, _, object, writing| {
            put(object, "tool_call_id", result.id.take());
            put(object, "content", write_content(result.content.take(), writing));
        });
    }
    let mut object = Object::from_iter([("role", role)]);
    let MessageContent { parts, form } = message.content.take();
    let has_calls = parts.iter().any(|part| matches!(part.body, PartKind::Call(_)));
    let (mut plan, mut spoken, mut calls): (Option<String>, _, _) = (None, Vec::new(), Vec::new());
    for mut part in parts {
        let is_plan = if writing.is_lossless { part.retained.is_empty() } else { has_calls };
        match &mut part.body {
            PartKind::Call(_) => calls.extend(write_call(part, writing)),
            PartKind::Opaque(word) if word == "tool_call" => calls.extend(part.retained.into_complete(NAME)),
            PartKind::Reasoning(thought) if is_plan => {
                let text = thought.text.take().or_else(|| Some(thought.summary.take()?.join("\n\n")));
                match text {
                    Some(text) => plan.get_or_insert_default().push_str(&text),
                    None => writing.losses.put("encrypted reasoning"),
                }
                writing.losses.part(NAME, &part);
            }
            _ => spoken.push(part),
        }
    }
    put(&mut object, "tool_plan", plan);
    put(&mut object, "content", write_content(MessageContent { parts: spoken, form }, writing));
    put(&mut object, "tool_calls", (!calls.is_empty()).then_some(calls));
    message.retained.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    if object.len() > 1 || writing.is_lossless {
        out.push(object.into());
    }
}

fn write_content(content: MessageContent, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let MessageContent { mut parts, form } = content;
    let is_text = form != ContentForm::List || !writing.is_lossless;
    if is_text && let [ContentPart { body: PartKind::Text(text), .. }] = parts.as_mut_slice() {
        let text = std::mem::take(text);
        writing.losses.part(NAME, &parts[0]);
        return Some(text.into());
    }
    if parts.is_empty() && (form != ContentForm::List || !writing.is_lossless) {
        return None;
    }
    let parts: Vec<Value> = parts.into_iter().filter_map(|part| write_part(part, writing)).collect();
    (!parts.is_empty() || writing.is_lossless).then(|| parts.into())
}

fn write_part(mut part: ContentPart, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())).document_as_text() {
        PartKind::Text(text) | PartKind::Refusal(text) => {
            object.insert("type", "text");
            object.insert("text", text);
        }
        PartKind::Reasoning(thought) => {
            let text = thought.into_text();
            if text.as_ref().is_none_or(String::is_empty) && !writing.is_lossless {
                writing.losses.put("encrypted reasoning");
                return None;
            }
            object.insert("type", "thinking");
            put(&mut object, "thinking", text);
        }
        PartKind::Media(media) if media.kind == MediaKind::Image => {
            let url = match media.source {
                MediaSource::Url(url) => url,
                MediaSource::Data(data) => {
                    data_url(media.media_type.as_deref().unwrap_or("image/jpeg"), &data)
                }
                MediaSource::Id(_) | MediaSource::Text(_) => {
                    writing.losses.put("image with the provider");
                    return None;
                }
            };
            object.insert("type", "image_url");
            put(&mut object, "image_url.url", Some(url));
            put(&mut object, "image_url.detail", media.detail);
        }
        PartKind::Opaque(word) => return writing.opaque(&word, part.retained, NAME),
        body => {
            writing.losses.message(NAME, &RequestMessage::of(Role::User, ContentPart { body, ..part }));
            return None;
        }
    }
    part.retained.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}

fn write_call(mut part: ContentPart, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let PartKind::Call(call) = std::mem::replace(&mut part.body, PartKind::Opaque(String::new())) else {
        return None;
    };
    let mut object = Object::new();
    put(&mut object, "id", call.id);
    object.insert("type", "function");
    put(&mut object, "function.name", Some(call.name));
    put(&mut object, "function.arguments", Some(call.arguments.into_text()));
    part.retained.restore(NAME, &mut object);
    writing.losses.part(NAME, &part);
    Some(object.into())
}
