//! The complete body.

use super::{
    CHAT, CREATED, DETAILS, MADE_ID, REASONING_CONTENT, TEXT_COMPLETION, add_logprobs, finish_reason,
    is_time, reasoning_member, usage, words, write_detail, write_error, write_function_call, write_part,
    write_seal, write_tool_call,
};
use crate::encode::{EncodeContext, UniqueCallIds, WrittenDelta, objects};
use crate::event::{AttachmentKind, CallKind};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Block, BlockContent, Choice, Message};
use crate::request::is_marked;

/// Writes the complete body.
pub(super) fn write(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let is_normalized = context.is_normalized();
    let made = |made| is_normalized.then_some(made);
    let is_response = !(message.choices.is_empty() || message.errors.len() == 1 && is_bare(message));
    let mut extra = MemberPaths::default();
    if !is_normalized {
        extra.set_all(message.extra.paths());
        for own in &message.attachments {
            extra.extend(&own.wire_type, own.value.as_str());
        }
    }
    if let Some(own) = &message.usage {
        match is_normalized {
            true => extra.set(words::USAGE, &usage(&own.counters())),
            false => extra.set(words::USAGE, own.raw.as_str()),
        }
    }
    writer.in_object(|writer| {
        writer.optional_text_member("id", context.id_of(message).or(made(MADE_ID)));
        if is_response && (is_normalized || message.extra.get("object").is_none()) {
            let is_chat = is_normalized || message.wire_type.is_empty();
            writer.text_member("object", if is_chat { CHAT } else { &message.wire_type });
        }
        writer.optional_text_member("model", context.model_of(message).or(made("")));
        if is_normalized {
            match message.extra.get(CREATED).filter(|value| is_time(CREATED, value.as_str())) {
                Some(own) => writer.raw_member(CREATED, own.as_str()),
                None => writer.number_member(CREATED, context.options.created.unwrap_or(0)),
            }
        }
        extra.write(writer);
        if is_response {
            writer.list_member("choices", |writer| {
                for choice in &message.choices {
                    writer.in_object(|writer| complete_choice(choice, message, context, writer));
                }
            });
        }
        if let Some(error) = message.errors.first() {
            write_error(error, is_normalized, writer);
        }
    });
}

/// Whether the response holds nothing but its error.
fn is_bare(message: &Message) -> bool {
    message.choices.iter().all(|choice| choice.blocks.is_empty() && choice.extra.is_empty())
}

fn complete_choice(choice: &Choice, message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let is_normalized = context.is_normalized();
    let (mut fields, mut inside) = (MemberPaths::default(), MemberPaths::default());
    for (path, value) in choice.extra.paths().filter(|_| !is_normalized) {
        match path.strip_prefix("message.") {
            Some(path) => inside.set(path, value),
            None => fields.set(path, value),
        }
    }
    for entry in choice.attachments(AttachmentKind::Logprobs) {
        add_logprobs(&entry.wire_type, &entry.value, is_normalized, &mut fields);
    }
    for own in choice.attachments.iter().filter(|_| !is_normalized) {
        if own.kind == AttachmentKind::Annotation && own.wire_type != words::CONTENT_REFERENCE {
            inside.extend(&own.wire_type, own.value.as_str());
        }
    }
    writer.number_member("index", choice.number);
    if message.wire_type == TEXT_COMPLETION && !is_normalized {
        writer.text_member("text", &choice.text());
    } else {
        writer.object_member("message", |writer| {
            writer.text_member("role", "assistant");
            complete_message(choice, context, &mut inside, writer);
            inside.write(writer);
        });
    }
    fields.write(writer);
    if let Some(finish) = &choice.finish {
        match finish_reason(finish.reason, finish.raw.as_deref(), context) {
            Some(wire_type) => writer.text_member("finish_reason", wire_type),
            None => writer.raw_member("finish_reason", "null"),
        }
    }
}

/// Writes the members of a message, each from the blocks with its wire type.
fn complete_message(
    choice: &Choice,
    context: &EncodeContext,
    inside: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    let is_normalized = context.is_normalized();
    let is_list = |block: &Block| block.wire_type.starts_with(words::CONTENT_PART);
    let has_references = choice.attachments.iter().any(|own| own.wire_type == words::CONTENT_REFERENCE);
    if !is_normalized && (choice.blocks.iter().any(is_list) || has_references) {
        complete_parts(choice, writer);
    } else {
        match choice.text() {
            text if text.is_empty() => writer.raw_member("content", "null"),
            text => writer.text_member("content", &text),
        }
    }
    let refusals = choice.blocks.iter().filter(|block| is_normalized || block.wire_type == words::REFUSAL);
    let refusal: String = refusals
        .filter_map(|block| match &block.content {
            BlockContent::Refusal(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !refusal.is_empty() {
        writer.text_member("refusal", &refusal);
    }
    complete_reasoning(choice, is_normalized, inside, writer);
    complete_calls(choice, context, writer);
    for block in choice.blocks.iter().filter(|_| !is_normalized) {
        match &block.content {
            BlockContent::Opaque(value) if block.wire_type == "audio" => inside.set("audio", value.as_str()),
            BlockContent::Opaque(value) if !is_list(block) => inside.extend(&block.wire_type, value.as_str()),
            BlockContent::ToolResult(result) => inside.extend(&block.wire_type, result.value.as_str()),
            _ => {}
        }
    }
}

/// Writes content as a list of parts.
fn complete_parts(choice: &Choice, writer: &mut JsonWriter<'_>) {
    writer.list_member("content", |writer| {
        for block in &choice.blocks {
            let wire_type = block.wire_type.as_str();
            let (kind, text) = match &block.content {
                BlockContent::Text(text) => ("text", text),
                BlockContent::Refusal(text) if wire_type == words::CONTENT_REFUSAL => ("refusal", text),
                BlockContent::Reasoning { text, .. } if wire_type.starts_with(words::CONTENT_PART) => {
                    ("thinking", text)
                }
                BlockContent::Opaque(value) if wire_type == words::CONTENT_PART => {
                    writer.raw(value.as_str());
                    continue;
                }
                _ => continue,
            };
            write_part(wire_type, kind, &mut WrittenDelta::new(text), block.extra.paths(), writer);
        }
        for own in choice.attachments.iter().filter(|own| own.wire_type == words::CONTENT_REFERENCE) {
            writer.raw(own.value.as_str());
        }
    });
}

fn complete_reasoning(
    choice: &Choice,
    is_normalized: bool,
    inside: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    let (mut content, mut plain, mut details) = (String::new(), String::new(), String::new());
    JsonWriter(&mut details).in_list(|entries| {
        for block in &choice.blocks {
            let BlockContent::Reasoning { text, .. } = &block.content else { continue };
            if is_normalized {
                content.push_str(text);
                for own in block.attachments.iter().filter(|own| is_marked(&own.value)) {
                    write_seal(own.kind, &own.value, entries);
                }
                continue;
            }
            let row = reasoning_member(&block.wire_type);
            if row.is_some_and(|row| row.has_reasoning_content) {
                content.push_str(text);
            }
            if row.is_some_and(|row| row.has_reasoning) {
                plain.push_str(text);
            }
            let detail = row.map_or(block.wire_type.as_str(), |row| row.detail);
            let attached = block.attachments.iter().map(|own| (own.wire_type.as_str(), own.value.as_str()));
            if detail.starts_with("reasoning.") {
                let extra = block.extra.paths().chain(attached);
                write_detail(detail, block.index, &mut WrittenDelta::new(text), extra, entries);
            } else {
                inside.set_all(attached);
            }
        }
        for own in choice.items.iter().filter(|_| is_normalized).flat_map(|item| &item.attachments) {
            if own.kind == AttachmentKind::Encrypted && is_marked(&own.value) {
                write_seal(own.kind, &own.value, entries);
            }
        }
    });
    for (key, text) in [(REASONING_CONTENT, content), ("reasoning", plain)] {
        if !text.is_empty() {
            writer.text_member(key, &text);
        }
    }
    if details.len() > 2 {
        writer.raw_member(DETAILS, &details);
    }
}

/// Writes the calls: for clients those of their own tools.
fn complete_calls(choice: &Choice, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let is_normalized = context.is_normalized();
    let older = is_normalized && context.options.older_form;
    let calls = |wire_type: &'static str| {
        choice.blocks.iter().filter_map(move |block| match &block.content {
            BlockContent::ToolCall(call) if is_normalized && call.kind == CallKind::Builtin => None,
            BlockContent::ToolCall(call) if is_normalized || block.wire_type == wire_type => {
                Some((block, call))
            }
            _ => None,
        })
    };
    if !older && calls(words::TOOL_CALLS).next().is_some() {
        let mut ids = UniqueCallIds::default();
        writer.list_member("tool_calls", |writer| {
            for (block, call) in calls(words::TOOL_CALLS) {
                let extra = block.extra.paths().filter(|_| !is_normalized);
                let arguments = match call.kind {
                    _ if !is_normalized => call.raw_arguments.as_str().into(),
                    CallKind::Function | CallKind::Builtin => objects::text(call),
                    CallKind::Custom => call.arguments().into(),
                };
                let id = ids.written(context, &call.id, call.has_made_id);
                let names = [id.as_deref(), Some(call.name.as_str())];
                let piece = &mut WrittenDelta::new(&arguments);
                write_tool_call(call.kind, None, names, piece, extra, writer);
            }
        });
    }
    // The older form has one call.
    let count = if is_normalized { usize::from(older) } else { usize::MAX };
    for (block, call) in calls(words::FUNCTION_CALL).take(count) {
        let extra = block.extra.paths().filter(|_| !is_normalized);
        let arguments = match is_normalized {
            true => objects::text(call),
            false => call.raw_arguments.as_str().into(),
        };
        let piece = &mut WrittenDelta::new(&arguments);
        write_function_call(Some(&call.name), piece, extra, writer);
    }
}
