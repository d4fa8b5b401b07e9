//! The complete message, or the body of an error.

use super::super::{CITATIONS, DATA, MESSAGE, REDACTED_THINKING, SIGNATURE, TEXT, THINKING, TOOL_USE, USAGE};
use super::{INCOMPLETE, NO_USAGE, READ, answers, stop_reason, write_block, write_error, write_usage};
use crate::encode::{EncodeMode, EncodeOptions, UniqueCallIds, write_arguments};
use crate::event::{AttachmentKind, CallKind, JsonText, ReasoningForm};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Attachment, Block, BlockContent, Message};

/// Writes the complete message, or the body of an error.
pub(super) fn write(message: &Message, options: &EncodeOptions, out: &mut Vec<u8>) {
    let is_normalized = options.is_normalized();
    let keeps = !is_normalized || message.wire_type == MESSAGE;
    let choice = message.choices.first();
    let mut extra = MemberPaths::default();
    if keeps {
        let of_choice = choice.into_iter().flat_map(|choice| choice.extra.iter());
        let of_all = message.extra.iter().chain(of_choice);
        let written = of_all.filter(|(path, _)| *path != "type" && !(is_normalized && READ.contains(path)));
        written.for_each(|(path, value)| extra.set(path, value.as_str()));
    }
    let mut text = String::new();
    let mut writer = JsonWriter(&mut text);
    writer.object();
    let is_empty = choice.is_none_or(|choice| choice.blocks.is_empty());
    let error = message.errors.first();
    if let Some(error) = error.filter(|_| is_empty && (is_normalized || message.wire_type.is_empty())) {
        writer.text_member("type", "error");
        write_error(error, is_normalized, &mut writer);
    } else {
        for (key, given, fallback) in
            [("id", &message.id, &options.id), ("model", &message.model, &options.model)]
        {
            match given.as_ref().or(fallback.as_ref()) {
                Some(name) => writer.text_member(key, name),
                None if is_normalized => writer.text_member(key, ""),
                None => {}
            }
            if key == "id" {
                writer.text_member("type", MESSAGE);
            }
        }
        if extra.get("role").is_none() {
            writer.text_member("role", "assistant");
        }
        if extra.get("content").is_none() || !is_empty {
            extra.remove("content");
            writer.key("content");
            writer.list();
            let mut ids = UniqueCallIds::default();
            for block in choice.into_iter().flat_map(|choice| &choice.blocks) {
                complete_block(block, options.mode, keeps, &mut ids, &mut writer);
            }
            writer.end_list();
        }
        write_stop(message, is_normalized, &mut extra, &mut writer);
        match &message.usage {
            Some(usage) => {
                extra.remove(USAGE);
                writer.key(USAGE);
                write_usage(&usage.counters, Some(&usage.raw).filter(|_| keeps), &mut writer);
            }
            None if is_normalized => writer.raw_member(USAGE, NO_USAGE),
            None => {}
        }
        if let Some(error) = error {
            write_error(error, is_normalized, &mut writer);
        }
    }
    extra.write(&mut writer);
    writer.end_object();
    out.extend_from_slice(text.as_bytes());
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
    mode: EncodeMode,
    keeps: bool,
    ids: &mut UniqueCallIds,
    writer: &mut JsonWriter<'_>,
) {
    let is_normalized = mode == EncodeMode::Normalized;
    let mut members = MemberPaths::default();
    if keeps {
        let written = block.extra.iter().filter(|(path, _)| !is_normalized || !READ.contains(path));
        written.for_each(|(path, value)| members.set(path, value.as_str()));
    }
    let hung = |kind| block.attachments.iter().rfind(move |own| own.kind == kind);
    let signature = hung(AttachmentKind::Signature).map(|own| own.value.as_str());
    let signature = signature.filter(|value| keeps || value.starts_with('"'));
    let is_known = keeps && !(is_normalized && block.wire_type.is_empty());
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => {
            if is_normalized && text.is_empty() {
                return;
            }
            if keeps {
                for own in block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation) {
                    members.extend(CITATIONS, own.value.as_str());
                }
                signature.into_iter().for_each(|value| members.set(SIGNATURE, value));
            }
            if !text.is_empty() {
                members.remove(TEXT);
            }
            write_block(TEXT, &[(TEXT, JsonText::from_text(text).as_str())], &members, writer);
        }
        BlockContent::Reasoning { form, text } => {
            let data = hung(AttachmentKind::Encrypted).and_then(data_of);
            let text_json = JsonText::from_text(text);
            match (form, data) {
                (ReasoningForm::Redacted, Some(data)) if text.is_empty() => {
                    write_block(REDACTED_THINKING, &[(DATA, data)], &members, writer);
                }
                (ReasoningForm::Redacted, None) if !is_normalized => {
                    write_block(REDACTED_THINKING, &[], &members, writer);
                }
                _ if is_normalized && text.is_empty() && signature.is_none() => {}
                _ => {
                    let usual = [(THINKING, text_json.as_str()), (SIGNATURE, signature.unwrap_or("\"\""))];
                    write_block(THINKING, &usual, &members, writer);
                }
            }
        }
        BlockContent::ToolCall(call) if call.kind == CallKind::Builtin && !keeps => {}
        BlockContent::ToolCall(call) => {
            let wire_type = if keeps && !block.wire_type.is_empty() { &block.wire_type } else { TOOL_USE };
            writer.object();
            writer.text_member("type", wire_type);
            if is_normalized {
                writer.text_member("id", &ids.claim(&call.id));
            } else if !call.has_made_id {
                writer.text_member("id", &call.id);
            }
            writer.text_member("name", &call.name);
            writer.key("input");
            write_arguments(call, mode, writer);
            members.write(writer);
            writer.end_object();
        }
        BlockContent::ToolResult(result) if is_normalized && !answers(&result.value) => {}
        BlockContent::ToolResult(result) if is_known => writer.raw(result.value.as_str()),
        BlockContent::Opaque(value) if is_known => writer.raw(value.as_str()),
        BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {}
    }
}

fn data_of(attachment: &Attachment) -> Option<&str> {
    Some(attachment.value.as_str()).filter(|value| value.starts_with('"'))
}
