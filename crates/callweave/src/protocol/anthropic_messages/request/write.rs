//! Writing requests of Anthropic Messages.

use super::{ISSUER, NAME, TIERS};
use crate::json::{Number, Object, Value};
use crate::request::thinking::{
    budget_within, is_adaptive, knows_effort, take_display, takes_both_samplings, version,
};
use crate::request::{
    CacheMark, CallKind, ContentForm, ContentPart, Media, MediaKind, MediaSource, MessageContent,
    OutputFormat, PartKind, ProviderSeal, ReasoningMode, Request, RequestMessage, RequestReasoning,
    RequestTool, RequestWriting, Role, ToolChoice, ToolKind, WEB_SEARCH, effort, put, take_word,
};

pub(super) fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
    let mut body = Object::new();
    put(&mut body, "model", request.model.take());
    let instructions = request.instructions.take();
    if !instructions.is_empty() || instructions.form == ContentForm::List && writing.is_lossless {
        let is_text = writing.is_lossless && instructions.form == ContentForm::Text;
        put(&mut body, "system", write_content(instructions, is_text, writing));
    }
    let mut messages = Vec::new();
    writing.each_message(request, |message, writing| messages.push(write_message(message, writing)));
    let is_thoughtless = is_thoughtless(&messages);
    if !messages.is_empty() || !writing.is_lossless {
        body.insert("messages", messages);
    }
    let tools = writing.each_tool(request, write_tool);
    let has_tools = !tools.is_empty();
    if has_tools {
        body.insert("tools", tools);
    }
    if has_tools || writing.is_lossless {
        write_choice(request, &mut body, writing);
    }
    put(&mut body, "stop_sequences", Some(std::mem::take(&mut request.stop)).filter(|stop| !stop.is_empty()));
    put(&mut body, "temperature", request.sampling.temperature.take());
    put(&mut body, "top_p", request.sampling.top_p.take());
    put(&mut body, "top_k", request.sampling.top_k.take());
    write_reasoning(request, &mut body, writing);
    if !writing.is_lossless {
        settle_thinking(request, &mut body, is_thoughtless);
        settle_sampling(request, &mut body);
    }
    if writing.is_lossless || body.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled") {
        put(&mut body, "thinking.display", take_display(&mut request.reasoning));
    }
    put(&mut body, "max_tokens", request.max_tokens.take());
    if request.kept.members(NAME).is_some_and(|members| members.contains_key("output_format")) {
        request.format = None;
    }
    if let Some(OutputFormat::Schema { .. }) = request.format
        && let Some(OutputFormat::Schema { schema, .. }) = request.format.take()
    {
        put(&mut body, "output_config.format.type", Some("json_schema"));
        put(&mut body, "output_config.format.schema", Some(schema));
    }
    if matches!(request.format, Some(OutputFormat::Text)) {
        request.format = None;
    }
    put(&mut body, "stream", request.stream.take());
    put(&mut body, "metadata.user_id", request.user.take());
    put(&mut body, "service_tier", take_word(&mut request.service_tier, TIERS));
    let compaction = request.compaction.take().filter(|_| !writing.is_lossless);
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

fn write_reasoning(request: &mut Request, body: &mut Object, writing: &RequestWriting<'_>) {
    let reasoning = &mut request.reasoning;
    if writing.is_lossless
        || reasoning.mode == Some(ReasoningMode::Off)
            && reasoning.effort.is_none()
            && reasoning.budget.is_none()
    {
        put(body, "thinking.type", reasoning.mode.take().map(ReasoningMode::word));
        put(body, "thinking.budget_tokens", reasoning.budget.take());
        put(body, "output_config.effort", reasoning.effort.take());
        return;
    }
    let model = body["model"].as_str().unwrap_or_default();
    if reasoning.effort.is_some() && reasoning.mode.is_none() && knows_effort(model) && !is_adaptive(model) {
        put(body, "output_config.effort", effort::take(reasoning).filter(|effort| effort != "none"));
        return;
    }
    let is_asked = reasoning.effort.is_some() || reasoning.budget.is_some();
    if is_adaptive(model) && reasoning.mode.is_some() && !is_asked {
        reasoning.mode = None;
        put(body, "thinking.type", Some("adaptive"));
        return;
    }
    if is_adaptive(model) && is_asked {
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
    // A model without adaptive reasoning gets a fixed budget.
    if reasoning.mode == Some(ReasoningMode::Adaptive) {
        reasoning.mode = Some(ReasoningMode::On);
    }
    let Some(budget) = effort::take_budget(reasoning).and_then(|tokens| tokens.as_u64()) else { return };
    if budget == 0 {
        put(body, "thinking.type", Some("disabled"));
        return;
    }
    let most = request.max_tokens.as_ref().and_then(Number::as_u64).unwrap_or(u64::MAX);
    match budget_within(budget, most) {
        Some(budget) => {
            put(body, "thinking.type", Some("enabled"));
            put(body, "thinking.budget_tokens", Some(budget));
        }
        None => reasoning.budget = Some(budget.into()),
    }
}

/// Whether the model waits for results of calls without reasoning of its own before them.
fn is_thoughtless(messages: &[Value]) -> bool {
    let first = |message: &Value| message["content"].as_array().and_then(|blocks| blocks.first().cloned());
    let is_waiting = messages.last().and_then(first).is_some_and(|block| block["type"] == "tool_result");
    let said = messages.iter().rev().find(|message| message["role"] == "assistant").and_then(first);
    is_waiting
        && said.is_some_and(|block| !block["type"].as_str().is_some_and(|word| word.ends_with("thinking")))
}

/// Takes thinking out of the body where it would be refused: after calls without reasoning, and beside a tool that must
/// be called.
fn settle_thinking(request: &mut Request, body: &mut Object, is_thoughtless: bool) {
    let is_forced = body["tool_choice"].get("type").is_some_and(|word| *word == "any" || *word == "tool");
    let is_on = body["thinking"].get("type").is_some_and(|word| *word == "enabled");
    if is_on && (is_thoughtless || is_forced) {
        let thinking = body.remove("thinking").unwrap_or_default();
        request.reasoning.budget = thinking["budget_tokens"].as_number().cloned();
        request.reasoning.mode = Some(ReasoningMode::On);
    }
}

/// Takes out sampling settings that newer models, and models with thinking switched on, refuse.
fn settle_sampling(request: &mut Request, body: &mut Object) {
    let model = body["model"].as_str().unwrap_or_default();
    let version = version(model);
    let thinks = body["thinking"].get("type").is_some_and(|word| *word != "disabled");
    let own = |key: &str| body.get(key).and_then(Value::as_number).and_then(Number::as_f64);
    let (temperature, top_p) = (own("temperature"), own("top_p"));
    let is_fixed = version >= (4, 7);
    let is_hot = is_fixed || thinks && temperature != Some(1.0);
    let is_both = !takes_both_samplings(model) && temperature.is_some() && !is_hot;
    let is_narrow = thinks && !top_p.is_some_and(|own| (0.95..=1.0).contains(&own));
    let mut take = |key: &str, is_refused: bool| {
        body.get(key).filter(|_| is_refused)?;
        body.remove(key).and_then(|value| value.as_number().cloned())
    };
    request.sampling.temperature = take("temperature", is_hot);
    request.sampling.top_p = take("top_p", is_fixed || is_narrow || is_both);
    request.sampling.top_k = take("top_k", is_fixed || thinks);
}

fn write_choice(request: &mut Request, body: &mut Object, writing: &RequestWriting<'_>) {
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
    if (word != Some("none") || writing.is_lossless)
        && let Some(is_parallel) = request.parallel_calls.take()
    {
        let has_word = word.is_some() || writing.is_lossless;
        put(body, "tool_choice.type", (!has_word).then_some("auto"));
        put(body, "tool_choice.disable_parallel_tool_use", Some(!is_parallel));
    }
}

fn write_message(mut message: RequestMessage, writing: &mut RequestWriting<'_>) -> Value {
    let mut object = Object::from_iter([("role", message.role.speaker())]);
    let content = message.content.take();
    let is_text = writing.is_lossless && content.form == ContentForm::Text;
    put(&mut object, "content", write_content(content, is_text, writing));
    message.retained.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    object.into()
}

/// Writes one text, or a list of blocks.
fn write_content(content: MessageContent, is_text: bool, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let MessageContent { mut parts, form } = content;
    if is_text && let [ContentPart { body: PartKind::Text(text), .. }] = parts.as_mut_slice() {
        let text = std::mem::take(text);
        writing.losses.part(NAME, &parts[0]);
        return Some(text.into());
    }
    if parts.is_empty() && (form != ContentForm::List || !writing.is_lossless) {
        return None;
    }
    let mut blocks: Vec<Value> = parts.into_iter().filter_map(|part| write_block(part, writing)).collect();
    // All content is lost, and an empty message is refused.
    if blocks.is_empty() && !writing.is_lossless {
        blocks.push(Value::object([("type", "text".into()), ("text", "(left out)".into())]));
    }
    Some(blocks.into())
}

fn write_block(mut part: ContentPart, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let mut block = Object::new();
    match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())) {
        PartKind::Text(text) | PartKind::Refusal(text) => {
            block.insert("type", "text");
            block.insert("text", text);
        }
        PartKind::Media(media) => write_media(*media, &mut block, writing)?,
        PartKind::Reasoning(thought) => write_reasoning_block(*thought, &mut part, &mut block, writing)?,
        PartKind::Call(call) => {
            let call = *call;
            let is_builtin = call.kind == CallKind::Builtin && writing.is_lossless;
            block.insert("type", if is_builtin { "server_tool_use" } else { "tool_use" });
            put(&mut block, "id", call.id);
            block.insert("name", call.name);
            block.insert("input", writing.value_of(call.arguments));
        }
        PartKind::Result(result) => {
            block.insert("type", "tool_result");
            put(&mut block, "tool_use_id", result.id);
            let is_text = match result.content.form {
                ContentForm::Text => true,
                ContentForm::List => false,
                ContentForm::Any => true,
            };
            // Only one level: a result in a result is opaque.
            put(&mut block, "content", write_content(result.content, is_text, writing));
            put(&mut block, "is_error", result.is_error.filter(|is_error| *is_error || writing.is_lossless));
        }
        PartKind::Tools(tools) => {
            let body = PartKind::Tools(tools);
            writing.losses.message(NAME, &RequestMessage::of(Role::User, ContentPart { body, ..part }));
            return None;
        }
        PartKind::Opaque(word) => return writing.opaque(&word, part.retained, NAME),
    }
    // Reasoning cannot be marked; the mark is a loss.
    if !block["type"].as_str().is_some_and(|word| word.ends_with("thinking")) || writing.is_lossless {
        write_cache(part.cache.take(), &mut block);
    }
    part.retained.restore(NAME, &mut block);
    writing.losses.part(NAME, &part);
    Some(block.into())
}

fn write_cache(mark: Option<Box<CacheMark>>, object: &mut Object) {
    if let Some(mark) = mark {
        put(object, "cache_control.type", Some("ephemeral"));
        put(object, "cache_control.ttl", mark.ttl);
    }
}

fn write_media(media: Media, block: &mut Object, writing: &mut RequestWriting<'_>) -> Option<()> {
    let Media { kind, source, media_type, name, detail } = media;
    let word = match (kind, &source) {
        (MediaKind::Image, _) => "image",
        (MediaKind::File, _) | (_, MediaSource::Text(_)) => "document",
        (MediaKind::Audio | MediaKind::Video, _) => {
            writing.losses.put(format!("{kind:?}").to_lowercase());
            return None;
        }
    };
    if detail.is_some_and(|detail| detail != "auto") {
        writing.losses.put("detail of an image");
    }
    block.insert("type", word);
    match source {
        MediaSource::Data(data) => {
            let usual = if word == "image" { "image/jpeg" } else { "application/pdf" };
            put(block, "source.type", Some("base64"));
            let media_type = media_type.or_else(|| (!writing.is_lossless).then(|| usual.to_owned()));
            put(block, "source.media_type", media_type);
            put(block, "source.data", Some(data));
        }
        MediaSource::Text(text) => {
            put(block, "source.type", Some("text"));
            let media_type = media_type.or_else(|| (!writing.is_lossless).then(|| "text/plain".to_owned()));
            put(block, "source.media_type", media_type);
            put(block, "source.data", Some(text));
        }
        MediaSource::Url(url) => {
            put(block, "source.type", Some("url"));
            put(block, "source.url", Some(url));
        }
        MediaSource::Id(id) => {
            put(block, "source.type", Some("file"));
            put(block, "source.file_id", Some(id));
        }
    }
    if word == "document" {
        put(block, "title", name);
    }
    Some(())
}

/// Writes reasoning. Without this provider's signature it would be refused.
fn write_reasoning_block(
    mut thought: RequestReasoning,
    part: &mut ContentPart,
    block: &mut Object,
    writing: &mut RequestWriting<'_>,
) -> Option<()> {
    if let Some(data) = ProviderSeal::of(&mut thought.encrypted, ISSUER) {
        block.insert("type", "redacted_thinking");
        block.insert("data", data);
        return Some(());
    }
    let signature = ProviderSeal::of(&mut part.signature, ISSUER);
    if signature.is_none() && !writing.is_lossless {
        writing.losses.put("reasoning that is not signed by this provider");
        return None;
    }
    block.insert("type", "thinking");
    let text = thought.into_text();
    put(block, "thinking", text.or_else(|| (!writing.is_lossless).then(String::new)));
    put(block, "signature", signature);
    Some(())
}

fn write_tool(mut tool: RequestTool, writing: &mut RequestWriting<'_>) -> Option<Value> {
    let mut object = Object::new();
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            object.insert("name", tool.name.clone());
            put(&mut object, "description", tool.description.take());
            put(&mut object, "input_schema", schema);
            let strict = tool.strict.take().filter(|strict| *strict || writing.is_lossless);
            put(&mut object, "strict", strict);
        }
        ToolKind::Builtin(word) if word == WEB_SEARCH && tool.retained.protocol() != Some(NAME) => {
            let members = [("type", "web_search_20250305".into()), ("name", "web_search".into())];
            return Some(Value::object(members));
        }
        ToolKind::Builtin(word) => {
            tool.kind = ToolKind::Builtin(word);
            writing.losses.tool(NAME, &tool);
            return tool.retained.into_complete(NAME);
        }
        ToolKind::Custom { .. } | ToolKind::Group(_) => {
            writing.losses.put("free-form tool");
            return None;
        }
    }
    write_cache(tool.cache.take(), &mut object);
    tool.retained.restore(NAME, &mut object);
    writing.losses.tool(NAME, &tool);
    Some(object.into())
}
