//! The complete response, or the body of an error.

use super::super::{
    CITATIONS, CONTENT, ERRORS, OUTPUT, REASONING, REASONING_TEXT, REDACTED, SIGNATURE, TEXT, TOOL_RESULT,
    TOOL_USE, USAGE,
};
use super::{
    INCOMPLETE, NO_METRICS, NO_USAGE, exception_name, is_expressed, is_read, set_call, stop_reason,
    write_error, write_usage, writes_attachment,
};
use crate::encode::objects::under;
use crate::encode::{EncodeContext, UniqueCallIds, block_kind, write_arguments};
use crate::event::{AttachmentKind, JsonText};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Block, BlockContent, Message};
use crate::upstream::UpstreamError;

/// Writes the complete response, or the body of an error.
pub(super) fn write(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let choice = message.choices.first();
    let is_empty = choice.is_none_or(|choice| choice.blocks.is_empty());
    let error = message.errors.first();
    if let Some(error) = error.filter(|_| is_empty && (is_normalized || message.wire_type.is_empty())) {
        return failure(error, is_normalized, writer);
    }
    let (mut extra, mut inside) = (MemberPaths::default(), MemberPaths::default());
    if keeps {
        let of_choice = choice.into_iter().flat_map(|choice| choice.extra.paths());
        for (path, value) in message.extra.paths().chain(of_choice) {
            match (path.strip_prefix("output."), path.starts_with("message.")) {
                (Some(path), _) => inside.set(path, value),
                (None, true) => inside.set(path, value),
                (None, false) => extra.set(path, value),
            }
        }
    }
    if inside.get("message.role").is_none() {
        inside.set("message.role", "\"assistant\"");
    }
    inside.set("message.content", &content(choice.map_or(&[][..], |choice| &choice.blocks), context));
    writer.in_object(|writer| {
        writer.object_member(OUTPUT, |writer| inside.write(writer));
        let finish = choice.and_then(|choice| choice.finish.as_ref());
        let wire_type = match finish {
            Some(finish) if is_normalized => Some(stop_reason(finish.reason, finish.raw.as_deref())),
            Some(finish) => finish.raw.as_deref(),
            None => is_normalized.then_some(INCOMPLETE),
        };
        writer.optional_text_member("stopReason", wire_type);
        match &message.usage {
            Some(usage) => {
                writer.key(USAGE);
                write_usage(&usage.counters, Some(&usage.raw).filter(|_| keeps), writer);
            }
            None if is_normalized => writer.raw_member(USAGE, NO_USAGE),
            None => {}
        }
        if is_normalized && extra.get("metrics").is_none() {
            extra.set("metrics", NO_METRICS);
        }
        extra.write(writer);
        if let Some(error) = error {
            writer.key(exception_name(error, is_normalized, ERRORS));
            write_error(error, is_normalized, writer);
        }
    });
}

/// Writes the body of a failed request, which names the exception with a capital.
fn failure(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    if !is_normalized {
        return write_error(error, is_normalized, writer);
    }
    let name = exception_name(error, is_normalized, ERRORS);
    let (first, rest) = name.split_at_checked(1).unwrap_or_default();
    writer.in_object(|writer| {
        writer.text_member("__type", &(first.to_uppercase() + rest));
        writer.text_member("message", &error.message);
    });
}

fn content(blocks: &[Block], context: &EncodeContext) -> String {
    let mut text = String::new();
    let mut ids = UniqueCallIds::default();
    JsonWriter(&mut text).in_list(|writer| {
        for block in blocks {
            if let Some(members) = block_members(block, context, &mut ids) {
                writer.in_object(|writer| members.write(writer));
            }
        }
    });
    text
}

/// Returns the members of a block; none if it cannot be expressed.
fn block_members(block: &Block, context: &EncodeContext, ids: &mut UniqueCallIds) -> Option<MemberPaths> {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    if !is_expressed(&block_kind(&block.content), &block.wire_type, context) {
        return None;
    }
    let mut members = MemberPaths::default();
    if keeps {
        members.set_all(block.extra.paths().filter(|(path, _)| !(is_normalized && is_read(path))));
    }
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => {
            let citations = block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation);
            for citation in citations.filter(|_| keeps) {
                members.extend(&format!("{CITATIONS}.citations"), citation.value.as_str());
            }
            let is_cited = members.iter().any(|(path, _)| path.starts_with(CITATIONS));
            match (is_cited, text.is_empty()) {
                (true, true) => {}
                (true, false) => members.extend(&format!("{CITATIONS}.{CONTENT}"), &under(TEXT, text)),
                (false, true) if is_normalized => return None,
                (false, _) => members.set(TEXT, JsonText::from_text(text).as_str()),
            }
        }
        BlockContent::Reasoning { form, text } => {
            let last = |kind| {
                let last = block.attachments.iter().rfind(move |own| own.kind == kind)?;
                let is_apt = keeps || writes_attachment(*form, kind, &last.value);
                is_apt.then(|| last.value.as_str())
            };
            let (signature, data) = (last(AttachmentKind::Signature), last(AttachmentKind::Encrypted));
            if is_normalized && text.is_empty() && signature.is_none() && data.is_none() {
                return None;
            }
            if let Some(data) = data {
                members.set(&format!("{REASONING}.{REDACTED}"), data);
            }
            let visible = Some(JsonText::from_text(text)).filter(|_| !text.is_empty() || data.is_none());
            for (key, value) in [(TEXT, visible), (SIGNATURE, signature.map(JsonText::trusted))] {
                if let Some(value) = value {
                    members.set(&format!("{REASONING}.{REASONING_TEXT}.{key}"), value.as_str());
                }
            }
        }
        BlockContent::ToolCall(call) => {
            let id = ids.written(context, &call.id, call.has_made_id);
            set_call(id.as_deref(), &call.name, call.kind, &mut members);
            let mut input = String::new();
            write_arguments(call, context.mode(), &mut JsonWriter(&mut input));
            members.set(&format!("{TOOL_USE}.input"), &input);
        }
        BlockContent::ToolResult(result) => {
            if let Some(call) = &result.call {
                members.set(&format!("{TOOL_RESULT}.toolUseId"), JsonText::from_text(call).as_str());
            }
            members.set(&format!("{TOOL_RESULT}.{CONTENT}"), result.value.as_str());
        }
        BlockContent::Opaque(value) => members.set(&block.wire_type, value.as_str()),
    }
    Some(members)
}
