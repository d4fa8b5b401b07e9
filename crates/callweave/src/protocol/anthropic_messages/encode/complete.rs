//! The complete message, or the body of an error.

use super::super::{CITATIONS, DATA, MESSAGE, REDACTED_THINKING, SIGNATURE, TEXT, THINKING, USAGE};
use super::{
    INCOMPLETE, NO_USAGE, call_type, is_expressed, stop_reason, write_block, write_call, write_error,
    write_usage, writes_field,
};
use crate::encode::{EncodeContext, UniqueCallIds, block_kind, write_arguments};
use crate::event::{AttachmentKind, JsonText, ReasoningForm};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Block, BlockContent, Message};

/// Writes the complete message, or the body of an error.
pub(super) fn write(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let is_normalized = context.is_normalized();
    let choice = message.choices.first();
    let mut extra = MemberPaths::default();
    if context.keeps() {
        let of_all = message.extra.paths().chain(choice.into_iter().flat_map(|choice| choice.extra.paths()));
        extra.set_all(of_all.filter(|(path, _)| writes_field(path, is_normalized)));
    }
    let is_empty = choice.is_none_or(|choice| choice.blocks.is_empty());
    let error = message.errors.first();
    let is_failure = is_empty && (is_normalized || message.wire_type.is_empty());
    writer.in_object(|writer| {
        if let Some(error) = error.filter(|_| is_failure) {
            writer.text_member("type", "error");
            write_error(error, is_normalized, writer);
        } else {
            write_message(message, context, &mut extra, writer);
        }
        extra.write(writer);
    });
}

fn write_message(
    message: &Message,
    context: &EncodeContext,
    extra: &mut MemberPaths,
    writer: &mut JsonWriter<'_>,
) {
    let is_normalized = context.is_normalized();
    let blocks = message.choices.first().map_or(&[][..], |choice| &choice.blocks);
    let made = is_normalized.then_some("");
    writer.optional_text_member("id", context.id_of(message).or(made));
    writer.text_member("type", MESSAGE);
    writer.optional_text_member("model", context.model_of(message).or(made));
    if extra.get("role").is_none() {
        writer.text_member("role", "assistant");
    }
    if extra.get("content").is_none() || !blocks.is_empty() {
        extra.remove("content");
        let mut ids = UniqueCallIds::default();
        writer.list_member("content", |writer| {
            blocks.iter().for_each(|block| complete_block(block, context, &mut ids, writer));
        });
    }
    write_stop(message, is_normalized, extra, writer);
    match &message.usage {
        Some(usage) => {
            extra.remove(USAGE);
            writer.key(USAGE);
            write_usage(&usage.counters, Some(&usage.raw).filter(|_| context.keeps()), writer);
        }
        None if is_normalized => writer.raw_member(USAGE, NO_USAGE),
        None => {}
    }
    if let Some(error) = message.errors.first() {
        write_error(error, is_normalized, writer);
    }
}

fn write_stop(message: &Message, is_normalized: bool, extra: &mut MemberPaths, writer: &mut JsonWriter<'_>) {
    let finish = message.choices.first().and_then(|choice| choice.finish.as_ref());
    let wire_type = match finish {
        _ if is_normalized && !message.errors.is_empty() => None,
        Some(finish) if is_normalized => Some(stop_reason(finish.reason, finish.raw.as_deref())),
        Some(finish) => finish.raw.as_deref(),
        None => is_normalized.then_some(INCOMPLETE),
    };
    match wire_type {
        Some(wire_type) => {
            extra.remove("stop_reason");
            writer.text_member("stop_reason", wire_type);
        }
        None if extra.get("stop_reason").is_none() => writer.raw_member("stop_reason", "null"),
        None => {}
    }
    if extra.get("stop_sequence").is_none() {
        writer.raw_member("stop_sequence", "null");
    }
}

fn complete_block(
    block: &Block,
    context: &EncodeContext,
    ids: &mut UniqueCallIds,
    writer: &mut JsonWriter<'_>,
) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    if !is_expressed(&block_kind(&block.content), &block.wire_type, context) {
        return;
    }
    let mut extra = MemberPaths::default();
    if keeps {
        extra.set_all(block.extra.paths().filter(|(path, _)| writes_field(path, is_normalized)));
    }
    let last =
        |kind| block.attachments.iter().rfind(move |own| own.kind == kind).map(|own| own.value.as_str());
    let signature = last(AttachmentKind::Signature).filter(|value| keeps || value.starts_with('"'));
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => {
            if is_normalized && text.is_empty() {
                return;
            }
            if keeps {
                for own in block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation) {
                    extra.extend(CITATIONS, own.value.as_str());
                }
                signature.into_iter().for_each(|value| extra.set(SIGNATURE, value));
            }
            if !text.is_empty() {
                extra.remove(TEXT);
            }
            write_block(TEXT, &[(TEXT, JsonText::from_text(text).as_str())], &extra, writer);
        }
        BlockContent::Reasoning { form, text } => {
            let data = last(AttachmentKind::Encrypted).filter(|value| value.starts_with('"'));
            match (form, data) {
                (ReasoningForm::Redacted, Some(data)) if text.is_empty() => {
                    write_block(REDACTED_THINKING, &[(DATA, data)], &extra, writer);
                }
                (ReasoningForm::Redacted, None) if !is_normalized => {
                    write_block(REDACTED_THINKING, &[], &extra, writer);
                }
                _ if is_normalized && text.is_empty() && signature.is_none() => {}
                _ => {
                    let text = JsonText::from_text(text);
                    let usual = [(THINKING, text.as_str()), (SIGNATURE, signature.unwrap_or("\"\""))];
                    write_block(THINKING, &usual, &extra, writer);
                }
            }
        }
        BlockContent::ToolCall(call) => {
            let id = ids.written(context, &call.id, call.has_made_id);
            let wire_type = call_type(&block.wire_type, keeps);
            write_call(wire_type, id.as_deref(), &call.name, &extra, writer, |writer| {
                write_arguments(call, context.mode(), writer);
            });
        }
        BlockContent::ToolResult(result) => writer.raw(result.value.as_str()),
        BlockContent::Opaque(value) => writer.raw(value.as_str()),
    }
}
