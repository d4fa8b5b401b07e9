//! Writing requests of Amazon Bedrock Converse.

use std::collections::HashSet;

use super::{ISSUER, NAME, TIERS};
use crate::json::{Number, Object, Value};
use crate::request::thinking::{
    budget_within, is_adaptive, is_of_other_maker, knows_effort, max_output, take_display,
    takes_both_samplings,
};
use crate::request::{
    CacheMark, ContentForm, ContentPart, Media, MediaKind, MediaSource, MessageContent, OutputFormat,
    PartKind, ProviderSeal, ReasoningMode, Request, RequestMessage, RequestTool, RequestWriting,
    RetainedFields, Role, ToolChoice, ToolKind, effort, ending_of_type, put, take_word,
};

pub(super) fn write(request: &mut Request, writing: &mut RequestWriting<'_>) -> Object {
    let mut body = Object::new();
    if writing.is_lossless {
        put(&mut body, "modelId", request.model.take());
    }
    let mut parts = request.messages.iter().flat_map(|message| &message.content.parts);
    let has_calls = parts.any(|part| matches!(part.body, PartKind::Call(_) | PartKind::Result(_)));
    let mut names = DocumentNames::default();
    let instructions = request.instructions.take();
    if !instructions.is_empty() {
        body.insert("system", write_blocks(instructions.parts, &mut names, writing));
    }
    let mut messages = Vec::new();
    writing
        .each_message(request, |message, writing| messages.push(write_message(message, &mut names, writing)));
    if !messages.is_empty() || !writing.is_lossless {
        body.insert("messages", messages);
    }
    write_tools(request, has_calls, &mut body, writing);
    // The model is named in the URL.
    let model = request.model.take().unwrap_or_default();
    if !writing.is_lossless {
        settle_thinking(request, &model, has_calls, &mut body);
    }
    put(&mut body, "inferenceConfig.maxTokens", request.max_tokens.take());
    let has_reasoning =
        body.get("additionalModelRequestFields").is_some_and(|own| own.get("thinking").is_some());
    let is_settled = has_reasoning && !writing.is_lossless && model.contains("claude");
    if !is_settled {
        let is_both = request.sampling.temperature.is_some() && !takes_both_samplings(&model);
        put(&mut body, "inferenceConfig.temperature", request.sampling.temperature.take());
        if writing.is_lossless || !is_both {
            put(&mut body, "inferenceConfig.topP", request.sampling.top_p.take());
        }
    }
    let stop = std::mem::take(&mut request.stop);
    put(&mut body, "inferenceConfig.stopSequences", (!stop.is_empty()).then_some(stop));
    if !is_settled {
        put(&mut body, "additionalModelRequestFields.top_k", request.sampling.top_k.take());
    }
    let reasoning = &mut request.reasoning;
    let mode = reasoning.mode.take_if(|_| writing.is_lossless);
    if has_reasoning || writing.is_lossless {
        put(&mut body, "additionalModelRequestFields.thinking.display", take_display(reasoning));
    }
    if writing.is_lossless {
        put(&mut body, "additionalModelRequestFields.thinking.type", mode.map(ReasoningMode::word));
        put(&mut body, "additionalModelRequestFields.thinking.budget_tokens", reasoning.budget.take());
        put(&mut body, "additionalModelRequestFields.output_config.effort", reasoning.effort.take());
    }
    // Only Anthropic's models have a member for it.
    if !writing.is_lossless
        && !is_of_other_maker(&model)
        && body.get("toolConfig").is_some()
        && request.parallel_calls == Some(false)
    {
        request.parallel_calls = None;
        put(&mut body, "additionalModelRequestFields.tool_choice.type", Some("auto"));
        put(&mut body, "additionalModelRequestFields.tool_choice.disable_parallel_tool_use", Some(true));
    }
    if let Some(OutputFormat::Schema { .. }) = request.format
        && let Some(OutputFormat::Schema { name, description, schema, .. }) = request.format.take()
    {
        put(&mut body, "outputConfig.textFormat.type", Some("json_schema"));
        put(&mut body, "outputConfig.textFormat.structure.jsonSchema.schema", Some(schema.to_string()));
        put(&mut body, "outputConfig.textFormat.structure.jsonSchema.name", name);
        put(&mut body, "outputConfig.textFormat.structure.jsonSchema.description", description);
    }
    if matches!(request.format, Some(OutputFormat::Text)) {
        request.format = None;
    }
    // It stays in the member it was read from.
    if writing.is_lossless {
        request.parallel_calls = None;
    }
    request.stream = None;
    put(&mut body, "requestMetadata", request.metadata.take());
    put(&mut body, "serviceTier.type", take_word(&mut request.service_tier, TIERS));
    request.kept.restore(NAME, &mut body);
    body
}

/// Writes the reasoning settings in the form of the model's maker: Anthropic's models have a budget beside the other
/// settings, or an effort; Nova has an effort of its own; other models get none.
fn settle_thinking(request: &mut Request, model: &str, has_calls: bool, body: &mut Object) {
    let is_forced = body["toolConfig"].get("toolChoice").is_some_and(|choice| choice.get("auto").is_none());
    let reasoning = &mut request.reasoning;
    if model.contains("nova-2") {
        if let Some(effort) = effort::take(reasoning).filter(|effort| effort != "none") {
            let word = match effort.as_str() {
                "minimal" | "low" => "low",
                "medium" => "medium",
                _ => "high",
            };
            put(body, "additionalModelRequestFields.reasoningConfig.type", Some("enabled"));
            put(body, "additionalModelRequestFields.reasoningConfig.maxReasoningEffort", Some(word));
        }
        return;
    }
    let is_asked = reasoning.effort.is_some() || reasoning.budget.is_some() || reasoning.mode.is_some();
    if !is_asked || is_of_other_maker(model) {
        return;
    }
    let field = |name: &str| format!("additionalModelRequestFields.{name}");
    // A custom name does not identify the model behind it, so the caller's settings are passed on.
    if !model.contains("claude") {
        let mode = reasoning.mode.take().or_else(|| reasoning.budget.is_some().then_some(ReasoningMode::On));
        put(body, &field("thinking.type"), mode.map(ReasoningMode::word));
        put(body, &field("thinking.budget_tokens"), reasoning.budget.take());
        put(body, &field("output_config.effort"), reasoning.effort.take());
        return;
    }
    if is_adaptive(model) || knows_effort(model) && reasoning.mode.is_none() && reasoning.budget.is_none() {
        let effort = effort::take(reasoning);
        let is_off = effort.as_deref() == Some("none") || reasoning.mode.take() == Some(ReasoningMode::Off);
        if is_adaptive(model) {
            put(body, &field("thinking.type"), Some(if is_off { "disabled" } else { "adaptive" }));
        }
        let effort = effort.filter(|_| !is_off);
        put(
            body,
            &field("output_config.effort"),
            effort.map(|word| if word == "minimal" { "low".to_owned() } else { word }),
        );
        return settle_sampling(request, body);
    }
    // A model without adaptive reasoning gets a fixed budget.
    if reasoning.mode == Some(ReasoningMode::Adaptive) {
        reasoning.mode = Some(ReasoningMode::On);
    }
    if let Some(budget) = effort::take_budget(reasoning).and_then(|tokens| tokens.as_u64()) {
        let most = request.max_tokens.as_ref().and_then(Number::as_u64);
        let most = most.or_else(|| max_output(model)).unwrap_or(2 * budget.max(8192));
        // Thinking is refused beside a tool that must be called, and after calls without reasoning.
        let is_refused = is_forced || has_calls && !thinks_before_calls(body);
        match budget_within(budget, most).filter(|_| budget > 0 && !is_refused) {
            Some(budget) => {
                put(body, &field("thinking.type"), Some("enabled"));
                put(body, &field("thinking.budget_tokens"), Some(budget));
                request.max_tokens = request.max_tokens.take().or(Some(most.into()));
            }
            None if budget == 0 => put(body, &field("thinking.type"), Some("disabled")),
            None => request.reasoning.budget = Some(budget.into()),
        }
    }
    settle_sampling(request, body);
}

/// Takes out sampling settings that models with thinking switched on refuse.
fn settle_sampling(request: &mut Request, body: &mut Object) {
    let fields = body.get("additionalModelRequestFields");
    let thinks =
        fields.and_then(|fields| fields.get("thinking")).is_some_and(|own| own["type"] != "disabled");
    if thinks {
        let sampling = &mut request.sampling;
        let is_one = |own: &Number| own.as_f64() == Some(1.0);
        let is_wide = |own: &Number| own.as_f64().is_some_and(|own| (0.95..=1.0).contains(&own));
        // Settings that remain in the request are reported as lost.
        let refused = (
            sampling.temperature.take_if(|own| !is_one(own)),
            sampling.top_p.take_if(|own| !is_wide(own)),
            sampling.top_k.take(),
        );
        put(body, "inferenceConfig.temperature", sampling.temperature.take());
        put(body, "inferenceConfig.topP", sampling.top_p.take());
        (sampling.temperature, sampling.top_p, sampling.top_k) = refused;
    }
}

/// Whether the calls that wait for results had reasoning before them.
fn thinks_before_calls(body: &Object) -> bool {
    let Some(messages) = body["messages"].as_array() else { return true };
    let first = |message: &Value| message["content"].as_array().and_then(|blocks| blocks.first().cloned());
    let is_waiting = messages.last().and_then(first).is_some_and(|block| block.get("toolResult").is_some());
    let said = messages.iter().rev().find(|message| message["role"] == "assistant").and_then(first);
    !is_waiting || said.is_some_and(|block| block.get("reasoningContent").is_some())
}

fn write_tools(request: &mut Request, has_calls: bool, body: &mut Object, writing: &mut RequestWriting<'_>) {
    if request.tool_choice == Some(ToolChoice::None) && !has_calls {
        // There is no such choice: without tools nothing can be called. A conversation with calls must have some.
        request.tools.clear();
        request.tool_choice = None;
        return;
    }
    let mut tools: Vec<Value> = Vec::new();
    for (number, mut tool) in std::mem::take(&mut request.tools).into_iter().enumerate() {
        writing.losses.at(format_args!("tools[{number}]"));
        let mark = tool.cache.take();
        let written = write_tool(tool, writing);
        let is_written = written.is_some();
        tools.extend(written);
        tools.extend(mark.filter(|_| is_written).map(|mark| write_cache(*mark)));
    }
    let has_tools = !tools.is_empty();
    put(body, "toolConfig.tools", has_tools.then_some(tools));
    if has_tools || writing.is_lossless {
        let choice = request.tool_choice.take();
        // These models do not know this choice.
        let is_refused = |choice: &ToolChoice| {
            let model = request.model.as_deref().unwrap_or_default();
            *choice == ToolChoice::Required
                && !writing.is_lossless
                && ["amazon.nova", "meta.llama"].iter().any(|start| model.contains(start))
        };
        let said = choice.as_ref().filter(|choice| !is_refused(choice));
        put(body, "toolConfig.toolChoice", said.and_then(write_choice));
        request.tool_choice = choice.filter(|choice| *choice == ToolChoice::None || is_refused(choice));
    }
}

pub(super) fn write_choice(choice: &ToolChoice) -> Option<Value> {
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

fn write_tool(mut tool: RequestTool, writing: &mut RequestWriting<'_>) -> Option<Value> {
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            let mut object = Object::new();
            put(&mut object, "toolSpec.name", Some(tool.name.clone()));
            let description = tool.description.take();
            put(
                &mut object,
                "toolSpec.description",
                description.filter(|text| writing.is_lossless || !text.is_empty()),
            );
            let any = || Value::object([("type", "object".into())]);
            let schema = schema.or_else(|| (!writing.is_lossless).then(any));
            put(&mut object, "toolSpec.inputSchema.json", schema);
            put(
                &mut object,
                "toolSpec.strict",
                tool.strict.take().filter(|strict| *strict || writing.is_lossless),
            );
            tool.retained.restore(NAME, &mut object);
            writing.losses.tool(NAME, &tool);
            Some(object.into())
        }
        kind => {
            tool.kind = kind;
            writing.losses.tool(NAME, &tool);
            tool.retained.into_complete(NAME)
        }
    }
}

/// Names of documents, unique in a request.
#[derive(Default)]
struct DocumentNames {
    taken: HashSet<String>,
}

impl DocumentNames {
    /// Returns a name of letters, digits, single spaces, hyphens and brackets, without its file extension.
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

fn write_message(
    mut message: RequestMessage,
    names: &mut DocumentNames,
    writing: &mut RequestWriting<'_>,
) -> Value {
    let mut object = Object::from_iter([("role", message.role.speaker())]);
    let MessageContent { parts, form } = message.content.take();
    if !parts.is_empty() || form == ContentForm::List || !writing.is_lossless {
        let mut blocks = write_blocks(parts, names, writing);
        // A document without any text beside it is refused.
        let has = |key: &str| blocks.iter().any(|block| block.get(key).is_some());
        if has("document") && !has("text") && !writing.is_lossless {
            blocks.push(Value::object([("text", ".".into())]));
        }
        // All content is lost, and an empty message is refused.
        if blocks.is_empty() && !writing.is_lossless {
            blocks.push(left_out());
        }
        object.insert("content", blocks);
    }
    message.retained.restore(NAME, &mut object);
    writing.losses.message(NAME, &message);
    object.into()
}

/// The placeholder where all content is lost.
fn left_out() -> Value {
    Value::object([("text", "(left out)".into())])
}

fn write_blocks(
    parts: Vec<ContentPart>,
    names: &mut DocumentNames,
    writing: &mut RequestWriting<'_>,
) -> Vec<Value> {
    let mut blocks = Vec::with_capacity(parts.len());
    for mut part in parts {
        let mut mark = part.cache.take();
        // Marks are not possible inside a result: they come after it.
        if let PartKind::Result(result) = &mut part.body
            && !writing.is_lossless
        {
            let inner = result.content.parts.iter_mut().filter_map(|part| part.cache.take()).last();
            mark = mark.or(inner);
        }
        let block = write_block(part, names, writing);
        let is_written = block.is_some();
        blocks.extend(block);
        blocks.extend(mark.filter(|_| is_written).map(|mark| write_cache(*mark)));
    }
    blocks
}

fn write_cache(mark: CacheMark) -> Value {
    let mut object = Object::new();
    put(&mut object, "cachePoint.type", Some("default"));
    put(&mut object, "cachePoint.ttl", mark.ttl);
    object.into()
}

fn write_block(
    mut part: ContentPart,
    names: &mut DocumentNames,
    writing: &mut RequestWriting<'_>,
) -> Option<Value> {
    let mut block = Object::new();
    match std::mem::replace(&mut part.body, PartKind::Opaque(String::new())) {
        PartKind::Text(text) | PartKind::Refusal(text) => {
            let is_kept =
                |members: &Object| ["json", "guardContent"].iter().any(|key| members.contains_key(key));
            let is_copy = part.retained.members(NAME).is_some_and(is_kept);
            put(&mut block, "text", (!is_copy).then_some(text));
        }
        PartKind::Media(media) => write_media(*media, &mut block, names, writing)?,
        PartKind::Reasoning(mut thought) => {
            if let Some(data) = ProviderSeal::of(&mut thought.encrypted, ISSUER) {
                put(&mut block, "reasoningContent.redactedContent", Some(data));
            } else {
                let signature = ProviderSeal::of(&mut part.signature, ISSUER);
                if signature.is_none() && !writing.is_lossless {
                    writing.losses.put("reasoning that is not signed by this provider");
                    return None;
                }
                let text = thought.into_text();
                put(&mut block, "reasoningContent.reasoningText.text", text);
                put(&mut block, "reasoningContent.reasoningText.signature", signature);
            }
        }
        PartKind::Call(call) => {
            let call = *call;
            put(&mut block, "toolUse.toolUseId", call.id);
            put(&mut block, "toolUse.name", Some(call.name));
            put(&mut block, "toolUse.input", Some(writing.value_of(call.arguments)));
        }
        PartKind::Result(result) => {
            put(&mut block, "toolResult.toolUseId", result.id);
            let MessageContent { mut parts, form } = result.content;
            if let Some(value) = result.value {
                let mut json = ContentPart::text("");
                json.retained = RetainedFields::new(NAME, Object::from_iter([("json", value)]));
                parts.insert(0, json);
            }
            if !parts.is_empty() || form == ContentForm::List || !writing.is_lossless {
                // Only one level: a result in a result is opaque.
                let mut content = write_blocks(parts, names, writing);
                if content.is_empty() && !writing.is_lossless {
                    content.push(left_out());
                }
                put(&mut block, "toolResult.content", Some(content));
            }
            let status = result.is_error.filter(|is_error| *is_error || writing.is_lossless);
            put(
                &mut block,
                "toolResult.status",
                status.map(|is_error| if is_error { "error" } else { "success" }),
            );
        }
        PartKind::Tools(tools) => {
            let body = PartKind::Tools(tools);
            writing.losses.message(NAME, &RequestMessage::of(Role::User, ContentPart { body, ..part }));
            return None;
        }
        PartKind::Opaque(word) => return writing.opaque(&word, part.retained, NAME),
    }
    part.retained.restore(NAME, &mut block);
    writing.losses.part(NAME, &part);
    Some(block.into())
}

fn write_media(
    media: Media,
    block: &mut Object,
    names: &mut DocumentNames,
    writing: &mut RequestWriting<'_>,
) -> Option<()> {
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
        MediaSource::Data(data) => ("source.bytes", data),
        MediaSource::Text(text) => ("source.text", text),
        MediaSource::Url(url) if writing.is_lossless || url.starts_with("s3://") => {
            ("source.s3Location.uri", url)
        }
        MediaSource::Url(_) => {
            writing.losses.put(format!("{kind:?} by url").to_lowercase());
            return None;
        }
        MediaSource::Id(_) => {
            writing.losses.put(format!("{kind:?} with the provider").to_lowercase());
            return None;
        }
    };
    let format = media_type.as_deref().and_then(ending_of_type);
    let format = format.or_else(|| (!writing.is_lossless).then_some(usual));
    put(block, &format!("{word}.format"), format);
    if writing.is_lossless {
        put(block, &format!("{word}.name"), name);
    } else if word == "document" {
        put(block, "document.name", Some(names.next(name.as_deref())));
    }
    put(block, &format!("{word}.{path}"), Some(value));
    Some(())
}
