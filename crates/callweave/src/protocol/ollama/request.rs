//! Requests of Ollama `/api/chat`.

use super::PROTOCOL;
use crate::error::Result;
#[cfg(feature = "exchange")]
use crate::error::{Error, ErrorKind};
use crate::json::{Object, Value};
use crate::request::{
    CallArguments, CallKind, CallResult, ContentPart, Media, MediaKind, MediaSource, MessageContent,
    OutputFormat, PartKind, ProviderLimits, ReasoningMode, Request, RequestCall, RequestCoding,
    RequestMembers, RequestMessage, RequestReasoning, RequestWriting, Role, ToolChoice, put,
    read_plain_tools, write_plain_tool,
};

pub(super) const CODING: RequestCoding =
    RequestCoding { read, write, model: "model", limits: &ProviderLimits::OLLAMA };

const NAME: &str = PROTOCOL.name;

const ROLES: &[(&str, Role)] =
    &[("system", Role::System), ("user", Role::User), ("assistant", Role::Assistant), ("tool", Role::Tool)];

fn read(body: Object) -> Result<Request> {
    let mut body = RequestMembers::new(body);
    let mut request = Request { protocol: Some(NAME), ..Request::default() };
    request.model = body.string("model");
    request.messages = body.objects("messages").unwrap_or_default().into_iter().map(read_message).collect();
    request.tools = read_plain_tools(&mut body, NAME);
    request.max_tokens = body.number("options.num_predict");
    request.stop = body.strings("options.stop").unwrap_or_default();
    let sampling = &mut request.sampling;
    sampling.temperature = body.number("options.temperature");
    sampling.top_p = body.number("options.top_p");
    sampling.top_k = body.number("options.top_k");
    sampling.min_p = body.number("options.min_p");
    sampling.frequency_penalty = body.number("options.frequency_penalty");
    sampling.presence_penalty = body.number("options.presence_penalty");
    sampling.repetition_penalty = body.number("options.repeat_penalty");
    sampling.seed = body.number("options.seed");
    sampling.logprobs = body.truth("logprobs");
    sampling.top_logprobs = body.number("top_logprobs");
    request.format = match body.take_if("format", |format| *format == "json" || format.is_object()) {
        Some(Value::String(_)) => Some(OutputFormat::Json),
        Some(schema) => Some(OutputFormat::Schema { name: None, description: None, schema, strict: None }),
        None => None,
    };
    match body.take_if("think", |think| think.is_boolean() || think.is_string()) {
        Some(Value::Bool(is_on)) => {
            request.reasoning.mode = Some(if is_on { ReasoningMode::On } else { ReasoningMode::Off });
        }
        Some(Value::String(level)) => request.reasoning.effort = Some(level),
        _ => {}
    }
    request.stream = body.truth("stream");
    request.kept = body.rest(NAME);
    Ok(request)
}

/// Returns the request to `/api/chat` equivalent to one to `/api/generate`. It goes through the model's template, so
/// settings that would change that are refused.
#[cfg(feature = "exchange")]
pub(crate) fn chat_of_prompt(mut body: Object) -> Result<Object> {
    let refused = |what: &str| Err(Error::new(ErrorKind::Invalid, what.to_owned()));
    let is_said = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(is_on) => *is_on,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Number(_) | Value::Object(_) => true,
    };
    for (key, why) in REFUSED {
        if body.remove(key).is_some_and(|value| is_said(&value)) {
            return refused(&format!("{key} is not served: {why}"));
        }
    }
    let (system, prompt, images) = (body.remove("system"), body.remove("prompt"), body.remove("images"));
    let (prompt, images) = (prompt.filter(is_said), images.filter(is_said));
    if prompt.is_none() && images.is_none() {
        return refused("prompt is missing");
    }
    let message =
        |role: &str, content: Value| Object::from_iter([("role", role.into()), ("content", content)]);
    let mut messages = Vec::new();
    messages.extend(system.filter(is_said).map(|text| message("system", text)));
    let mut user = message("user", prompt.unwrap_or_else(|| "".into()));
    put(&mut user, "images", images);
    messages.push(user);
    body.insert("messages", messages);
    Ok(body)
}

#[cfg(feature = "exchange")]
/// Members of requests to `/api/generate` that a conversation cannot express.
const REFUSED: &[(&str, &str)] = &[
    ("raw", "prompts are sent by the template of the model"),
    ("template", "prompts are sent by the template of the model"),
    ("suffix", "text is not filled in before an end"),
    ("context", "send the conversation to /api/chat instead"),
];

fn read_message(message: Object) -> RequestMessage {
    let mut message = RequestMembers::new(message);
    let role = message.role(ROLES).unwrap_or(Role::User);
    let mut content = MessageContent::default();
    if let Some(text) = message.string("thinking") {
        content.parts.push(ContentPart::new(PartKind::from(RequestReasoning {
            text: Some(text),
            ..RequestReasoning::default()
        })));
    }
    if let Some(text) = message.string("content") {
        content.parts.push(ContentPart::text(text));
    }
    for data in message.strings("images").unwrap_or_default() {
        content
            .parts
            .push(ContentPart::new(PartKind::from(Media::new(MediaKind::Image, MediaSource::Data(data)))));
    }
    if role == Role::Tool {
        let result = CallResult {
            id: message.string("tool_call_id"),
            name: message.string("tool_name"),
            content,
            value: None,
            is_error: None,
            kind: CallKind::Function,
        };
        let kept = message.rest(NAME);
        return RequestMessage { retained: kept, ..RequestMessage::of(role, ContentPart::new(result)) };
    }
    content.parts.extend(message.objects("tool_calls").unwrap_or_default().into_iter().map(read_call));
    RequestMessage { retained: message.rest(NAME), ..RequestMessage::new(role, content) }
}

fn read_call(call: Object) -> ContentPart {
    let mut call = RequestMembers::new(call);
    let Some(name) = call.string("function.name") else {
        return ContentPart::opaque(NAME, "tool_call", call.into_object().into());
    };
    call.note_absence("function.arguments");
    let arguments = match call.take_if("function.arguments", |value| value.is_object() || value.is_string()) {
        Some(Value::String(text)) => CallArguments::Text(text),
        Some(value) => CallArguments::Json(value),
        None => CallArguments::Json(Object::new().into()),
    };
    let id = call.string("id");
    let body = PartKind::from(RequestCall { id, name, namespace: None, arguments, kind: CallKind::Function });
    ContentPart { retained: call.rest(NAME), ..ContentPart::new(body) }
}

fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    writing.put_messages(request, &mut body, write_message);
    if !writing.is_lossless && request.tool_choice == Some(ToolChoice::None) {
        // There is no such choice: without tools nothing can be called.
        request.tools.clear();
        request.tool_choice = None;
    }
    let tools = writing.each_tool(request, |tool, writing| write_plain_tool(tool, NAME, writing));
    put(&mut body, "tools", (!tools.is_empty()).then_some(tools));
    put(&mut body, "options.num_predict", request.max_tokens.take());
    let stop = std::mem::take(&mut request.stop);
    put(&mut body, "options.stop", (!stop.is_empty()).then_some(stop));
    let sampling = &mut request.sampling;
    put(&mut body, "options.temperature", sampling.temperature.take());
    put(&mut body, "options.top_p", sampling.top_p.take());
    put(&mut body, "options.top_k", sampling.top_k.take());
    put(&mut body, "options.min_p", sampling.min_p.take());
    put(&mut body, "options.frequency_penalty", sampling.frequency_penalty.take());
    put(&mut body, "options.presence_penalty", sampling.presence_penalty.take());
    put(&mut body, "options.repeat_penalty", sampling.repetition_penalty.take());
    put(&mut body, "options.seed", sampling.seed.take());
    put(&mut body, "logprobs", sampling.logprobs.take());
    put(&mut body, "top_logprobs", sampling.top_logprobs.take());
    match request.format.take() {
        Some(OutputFormat::Json) => put(&mut body, "format", Some("json")),
        Some(OutputFormat::Schema { schema, .. }) => put(&mut body, "format", Some(schema)),
        Some(OutputFormat::Text) | None => {}
    }
    put(&mut body, "think", write_think(request, writing));
    // Without this member the response would be streamed.
    let stream = request.stream.take().or_else(|| (!writing.is_lossless).then_some(false));
    put(&mut body, "stream", stream);
    request.kept.restore(NAME, &mut body);
    body
}

fn write_think(request: &mut Request, writing: &RequestWriting<'_>) -> Option<Value> {
    let reasoning = &mut request.reasoning;
    if let Some(effort) = reasoning.effort.take() {
        reasoning.mode = None;
        if writing.is_lossless {
            return Some(effort.into());
        }
        return Some(match effort.as_str() {
            "none" => false.into(),
            "minimal" | "low" => "low".into(),
            "medium" => "medium".into(),
            "high" => "high".into(),
            _ => "max".into(),
        });
    }
    if let Some(budget) = &reasoning.budget
        && budget.as_str() == "0"
    {
        reasoning.budget = None;
        return Some(false.into());
    }
    let mode = reasoning.mode.take();
    mode.map(|mode| (mode != ReasoningMode::Off).into())
        .or_else(|| reasoning.budget.is_some().then(|| true.into()))
}

fn write_message(mut message: RequestMessage, out: &mut Vec<Value>, writing: &mut RequestWriting<'_>) {
    let role = ROLES.iter().find(|(_, role)| *role == message.role).map_or("system", |(word, _)| word);
    if message.role == Role::Tool {
        return writing.put_results(message, role, NAME, out, |result, _, object, writing| {
            write_content(result.content.take(), object, writing);
            put(object, "tool_name", result.name.take());
            put(object, "tool_call_id", result.id.take());
        });
    }
    let mut object = Object::from_iter([("role", role)]);
    let content = message.content.take();
    let is_silent = content.is_empty();
    let calls = write_content(content, &mut object, writing);
    put(&mut object, "tool_calls", (!calls.is_empty()).then_some(calls));
    message.retained.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    if object.len() > 1 || writing.is_lossless || is_silent {
        out.push(object.into());
    }
}

/// Writes one text and the images beside it; returns the calls.
fn write_content(
    content: MessageContent,
    object: &mut Object,
    writing: &mut RequestWriting<'_>,
) -> Vec<Value> {
    let (mut text, mut thoughts): (Option<String>, Option<String>) = (None, None);
    let (mut images, mut calls) = (Vec::new(), Vec::new());
    for mut part in content.parts {
        match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())).document_as_text() {
            PartKind::Text(own) | PartKind::Refusal(own) => text.get_or_insert_default().push_str(&own),
            PartKind::Reasoning(thought) => {
                let own = thought.into_text();
                match own.filter(|own| writing.is_lossless || !own.is_empty()) {
                    Some(own) => thoughts.get_or_insert_default().push_str(&own),
                    None => writing.losses.put("encrypted reasoning"),
                }
            }
            PartKind::Call(call) => {
                calls.push(write_call(*call, &mut part, writing));
            }
            PartKind::Opaque(word) if part.retained.protocol() == Some(NAME) && word == "tool_call" => {
                calls.extend(std::mem::take(&mut part.retained).into_complete(NAME));
            }
            PartKind::Media(media) => match media.source {
                MediaSource::Data(data) if media.kind == MediaKind::Image => {
                    if media.detail.is_some() {
                        writing.losses.put("detail of an image");
                    }
                    images.push(data);
                }
                source => {
                    let way = if matches!(source, MediaSource::Url(_)) { "by url" } else { "" };
                    writing.losses.put(format!("{:?} {way}", media.kind).trim().to_lowercase());
                }
            },
            body => {
                writing.losses.message(NAME, &RequestMessage::of(Role::User, ContentPart { body, ..part }));
                continue;
            }
        }
        writing.losses.part(NAME, &part);
    }
    put(object, "thinking", thoughts);
    put(object, "content", text);
    put(object, "images", (!images.is_empty()).then_some(images));
    calls
}

fn write_call(call: RequestCall, part: &mut ContentPart, writing: &mut RequestWriting<'_>) -> Value {
    let mut object = Object::new();
    put(&mut object, "id", call.id);
    put(&mut object, "function.name", Some(call.name));
    let arguments: Value = match call.arguments {
        CallArguments::Text(text) if writing.is_lossless => text.into(),
        arguments => writing.object_of(arguments).into(),
    };
    put(&mut object, "function.arguments", Some(arguments));
    part.retained.restore(NAME, &mut object);
    object.into()
}
