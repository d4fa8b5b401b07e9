//! The complete response, or the body of an error.

use super::super::{
    CITATIONS, CONTENT, ERRORS, OUTPUT, REASONING, REASONING_TEXT, REDACTED, SIGNATURE, TEXT, TOOL_RESULT,
    TOOL_USE, USAGE,
};
use super::{
    INCOMPLETE, NO_METRICS, NO_USAGE, exception_name, is_apt, is_read, set_call, stop_reason, write_error,
    write_usage,
};
use crate::encode::{EncodeMode, EncodeOptions, UniqueCallIds, write_arguments};
use crate::event::{AttachmentKind, CallKind, JsonText};
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Block, BlockContent, Message};
use crate::upstream::UpstreamError;

/// Writes the complete response, or the body of an error.
pub(super) fn write(message: &Message, options: &EncodeOptions, out: &mut Vec<u8>) {
    let is_normalized = options.is_normalized();
    let keeps = !is_normalized || message.wire_type == OUTPUT;
    let choice = message.choices.first();
    let is_empty = choice.is_none_or(|choice| choice.blocks.is_empty());
    let error = message.errors.first();
    let mut text = String::new();
    let mut writer = JsonWriter(&mut text);
    if let Some(error) = error.filter(|_| is_empty && (is_normalized || message.wire_type.is_empty())) {
        whole_error(error, is_normalized, &mut writer);
        return out.extend_from_slice(text.as_bytes());
    }
    let (mut extra, mut inside) = (MemberPaths::default(), MemberPaths::default());
    if keeps {
        let of_choice = choice.into_iter().flat_map(|choice| choice.extra.iter());
        for (path, value) in message.extra.iter().chain(of_choice) {
            match (path.strip_prefix("output."), path.strip_prefix("message.")) {
                (Some(path), _) => inside.set(path, value.as_str()),
                (None, Some(_)) => inside.set(path, value.as_str()),
                (None, None) => extra.set(path, value.as_str()),
            }
        }
    }
    writer.object();
    writer.key(OUTPUT);
    writer.object();
    let content = complete_content(choice.map_or(&[][..], |choice| &choice.blocks), options.mode, keeps);
    inside.set("message.role", inside.get("message.role").unwrap_or("\"assistant\"").to_owned().as_str());
    inside.set("message.content", &content);
    inside.write(&mut writer);
    writer.end_object();
    let finish = choice.and_then(|choice| choice.finish.as_ref());
    let wire_type = match finish {
        Some(finish) if is_normalized => Some(stop_reason(finish.reason, finish.raw.as_deref())),
        Some(finish) => finish.raw.as_deref(),
        None => is_normalized.then_some(INCOMPLETE),
    };
    if let Some(wire_type) = wire_type {
        writer.text_member("stopReason", wire_type);
    }
    match &message.usage {
        Some(usage) => {
            writer.key(USAGE);
            write_usage(&usage.counters, Some(&usage.raw).filter(|_| keeps), &mut writer);
        }
        None if is_normalized => writer.raw_member(USAGE, NO_USAGE),
        None => {}
    }
    if is_normalized && extra.get("metrics").is_none() {
        extra.set("metrics", NO_METRICS);
    }
    extra.write(&mut writer);
    if let Some(error) = error {
        writer.key(exception_name(error, is_normalized, ERRORS));
        write_error(error, is_normalized, &mut writer);
    }
    writer.end_object();
    out.extend_from_slice(text.as_bytes());
}

/// Writes the body of a failed request, which names the exception with a capital.
fn whole_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    if !is_normalized {
        return write_error(error, is_normalized, writer);
    }
    let name = exception_name(error, is_normalized, ERRORS);
    let (first, rest) = name.split_at_checked(1).unwrap_or_default();
    writer.object();
    writer.text_member("__type", &(first.to_uppercase() + rest));
    writer.text_member("message", &error.message);
    writer.end_object();
}

fn complete_content(blocks: &[Block], mode: EncodeMode, keeps: bool) -> String {
    let is_normalized = mode == EncodeMode::Normalized;
    let mut text = String::new();
    let mut writer = JsonWriter(&mut text);
    let mut ids = UniqueCallIds::default();
    writer.list();
    for block in blocks {
        let mut members = MemberPaths::default();
        if keeps {
            let written = block.extra.iter().filter(|(path, _)| !(is_normalized && is_read(path)));
            written.for_each(|(path, value)| members.set(path, value.as_str()));
        }
        if !complete_block(block, mode, keeps, &mut ids, &mut members) {
            continue;
        }
        writer.object();
        members.write(&mut writer);
        writer.end_object();
    }
    writer.end_list();
    text
}

/// Adds the content of the block to its members; returns false if it cannot be expressed.
fn complete_block(
    block: &Block,
    mode: EncodeMode,
    keeps: bool,
    ids: &mut UniqueCallIds,
    members: &mut MemberPaths,
) -> bool {
    let is_normalized = mode == EncodeMode::Normalized;
    let is_known = keeps && !(is_normalized && block.wire_type.is_empty());
    match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => {
            let citations = block.attachments.iter().filter(|own| own.kind == AttachmentKind::Annotation);
            for citation in citations.filter(|_| keeps) {
                members.extend(&format!("{CITATIONS}.citations"), citation.value.as_str());
            }
            let is_cited = members.iter().any(|(path, _)| path.starts_with(CITATIONS));
            match (is_cited, text.is_empty()) {
                (true, true) => {}
                (true, false) => {
                    let mut part = String::new();
                    let mut writer = JsonWriter(&mut part);
                    writer.object();
                    writer.text_member(TEXT, text);
                    writer.end_object();
                    members.extend(&format!("{CITATIONS}.{CONTENT}"), &part);
                }
                (false, true) if is_normalized => return false,
                (false, _) => members.set(TEXT, JsonText::from_text(text).as_str()),
            }
        }
        BlockContent::Reasoning { form, text } => {
            let hung = |kind| {
                let hung = block.attachments.iter().rfind(move |own| own.kind == kind);
                hung.filter(|own| keeps || is_apt(*form, kind, &own.value)).map(|own| own.value.as_str())
            };
            let (signature, data) = (hung(AttachmentKind::Signature), hung(AttachmentKind::Encrypted));
            if let Some(data) = data {
                members.set(&format!("{REASONING}.{REDACTED}"), data);
            }
            let shown = [
                (TEXT, Some(JsonText::from_text(text)).filter(|_| !text.is_empty() || data.is_none())),
                (SIGNATURE, signature.map(JsonText::trusted)),
            ];
            for (key, value) in shown {
                if let Some(value) = value {
                    members.set(&format!("{REASONING}.{REASONING_TEXT}.{key}"), value.as_str());
                }
            }
            return !is_normalized || !text.is_empty() || signature.is_some() || data.is_some();
        }
        BlockContent::ToolCall(call) if call.kind == CallKind::Builtin && !keeps => return false,
        BlockContent::ToolCall(call) => {
            let id = match is_normalized {
                true => Some(ids.claim(&call.id)),
                false => Some(call.id.clone()).filter(|_| !call.has_made_id),
            };
            set_call(id.as_deref(), &call.name, call.kind, members);
            let mut input = String::new();
            write_arguments(call, mode, &mut JsonWriter(&mut input));
            members.set(&format!("{TOOL_USE}.input"), &input);
        }
        BlockContent::ToolResult(result) if is_known && !(is_normalized && result.call.is_none()) => {
            if let Some(call) = &result.call {
                members.set(&format!("{TOOL_RESULT}.toolUseId"), JsonText::from_text(call).as_str());
            }
            members.set(&format!("{TOOL_RESULT}.{CONTENT}"), result.value.as_str());
        }
        BlockContent::Opaque(value) if is_known => members.set(&block.wire_type, value.as_str()),
        BlockContent::ToolResult(_) | BlockContent::Opaque(_) => return false,
    }
    true
}
