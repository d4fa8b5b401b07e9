//! Writing generateContent: chunks as server-sent events or as the elements of one array, and the complete body.
//!
//! Text is written part by part. Any other part is written complete, so it waits for the end of its block; only a call
//! with arguments that came leaf by leaf is announced when it begins. Fields beside content wait for the next chunk:
//! usage and the members of the response for any, the members of a candidate for one of its own.
//!
//! In normalized mode, a response of another protocol has texts, reasoning, the calls of the client's tools, usage and
//! the finish reason. Left out are the provider's own tools and their results, images and other data, signatures (of
//! value only to their issuer), annotations and log probabilities. A refusal is a text. A truncated call has
//! `willContinue`, and a truncated response has no `finishReason`; an error is reported after all content.

mod part;
mod stream;

use self::part::{set_logprobs, write_belongings, write_block, write_text};
use self::stream::GeminiStream;
use super::{ERRORS, FINISH, RESPONSE, words};
use crate::encode::{
    EncodeContext, EncodeMode, ProtocolEncoding, UniqueCallIds, WireCapabilities, WireFeature, WrittenDelta,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, NoticeCode, TokenCounts};
use crate::json::{JsonWriter, MemberPaths, Tape, write_members};
use crate::message::{Attachment, Block, BlockContent, Choice, Message, ToolCall, Usage};
use crate::protocol::error::{is_lost_connection, status_of};
use crate::protocol::{error_word, finish_word};
use crate::request::is_marked;
use crate::upstream::{ErrorClass, UpstreamError};

pub(in crate::protocol) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: GeminiStream::boxed,
    complete,
    capabilities: |_, _, _| CAPABILITIES,
    id_prefix: "",
};

const CAPABILITIES: WireCapabilities = WireCapabilities {
    own: &[RESPONSE],
    unsupported: &[
        WireFeature::Refusal,
        WireFeature::Summary,
        WireFeature::Custom,
        WireFeature::CacheWrite,
        WireFeature::OddReasoningTokens,
        WireFeature::NamesOfFailure,
    ],
    indistinct_finish: &[],
    errors: ERRORS,
    ..WireCapabilities::BASE
};

/// Writes the model and the id of a response.
fn write_names(names: [&str; 2], writer: &mut JsonWriter<'_>) {
    for (key, name) in ["modelVersion", "responseId"].into_iter().zip(names) {
        if !name.is_empty() {
            writer.text_member(key, name);
        }
    }
}

/// The wire's finish reason for clients. Calls are no reason of their own here.
fn word_for(reason: FinishReason, said: Option<&str>) -> &str {
    let wire_type = finish_word(reason, said, FINISH);
    wire_type.unwrap_or(if reason == FinishReason::Other { words::UNSPECIFIED } else { words::STOP })
}

/// The reason in the feedback why the prompt was blocked.
fn block_reason(path: &str, feedback: &str) -> Option<String> {
    if !matches!(path, words::PROMPT_FEEDBACK | "prompt_feedback") {
        return None;
    }
    let mut tape = Tape::new();
    let reason = super::either(tape.parse(feedback).ok()?, "blockReason", "block_reason")?;
    Some(reason.filled()?.to_cow().into_owned())
}

/// Writes a candidate: the parts that `parts` writes, and its members; members of its content begin with `content.`.
fn write_candidate(
    number: u32,
    members: &MemberPaths,
    finish: Option<&str>,
    writer: &mut JsonWriter<'_>,
    parts: impl FnOnce(&mut JsonWriter<'_>),
) {
    let (inside, beside): (Vec<_>, Vec<_>) =
        members.iter().partition(|(path, _)| path.starts_with("content."));
    let inside: Vec<_> = inside.iter().map(|(path, value)| (&path["content.".len()..], *value)).collect();
    writer.object();
    let before = writer.0.len();
    writer.key("content");
    writer.object();
    writer.key("parts");
    writer.list();
    let empty = writer.0.len();
    parts(writer);
    if writer.0.len() == empty && inside.is_empty() {
        writer.0.truncate(before);
    } else {
        writer.end_list();
        if !inside.iter().any(|(path, _)| *path == "role") {
            writer.text_member("role", "model");
        }
        write_members(&inside, writer);
        writer.end_object();
    }
    if let Some(wire_type) = finish {
        // Some clients of Vertex write numbers instead of the names.
        match wire_type.bytes().all(|byte| byte.is_ascii_digit()) && !wire_type.is_empty() {
            true => writer.raw_member("finishReason", wire_type),
            false => writer.text_member("finishReason", wire_type),
        }
    }
    writer.key("index");
    writer.number(number);
    write_members(&beside, writer);
    writer.end_object();
}

/// Writes token counts in this wire's form. It counts reasoning separately from the text.
fn write_usage(counters: &TokenCounts, writer: &mut JsonWriter<'_>) {
    let output = counters.output_tokens;
    let thoughts = counters.reasoning_tokens.map(|thoughts| thoughts.min(output.unwrap_or(thoughts)));
    let spoken = output.map(|output| output - thoughts.unwrap_or(0));
    writer.object();
    for (key, count) in [
        ("promptTokenCount", counters.input_tokens),
        ("candidatesTokenCount", spoken),
        ("thoughtsTokenCount", thoughts),
        ("totalTokenCount", counters.total_tokens),
        ("cachedContentTokenCount", counters.cached_tokens),
    ] {
        if let Some(count) = count {
            writer.key(key);
            writer.number(count);
        }
    }
    writer.end_object();
}

/// Writes the provider's own object, if clients can read it: one in another spelling was not read from the wire. Writes
/// nothing if nothing was counted.
fn emit_usage(own: &Usage, keeps: bool, mode: EncodeMode, out: &mut String) {
    let is_spelt = mode == EncodeMode::Lossless || own.raw.as_str().contains("TokenCount");
    out.clear();
    match keeps && is_spelt {
        true => out.push_str(own.raw.as_str()),
        false => write_usage(&own.counters(), &mut JsonWriter(out)),
    }
    if out == "{}" {
        out.clear();
    }
}

fn write_error(error: &UpstreamError<'_>, mode: EncodeMode, writer: &mut JsonWriter<'_>) {
    let is_own = Tape::new().parse(error.raw.as_str()).is_ok_and(super::is_error_object);
    if mode == EncodeMode::Lossless || is_own {
        return writer.raw_member("error", error.raw.as_str());
    }
    let is_beside = error.class == ErrorClass::ContextTooLong || is_lost_connection(error);
    let class = is_beside.then(|| error.class.name());
    writer.key("error");
    write_status(error, class, writer);
}

/// Writes the body of a failed request.
pub(super) fn write_failure(error: &UpstreamError<'_>, class: Option<&str>, writer: &mut JsonWriter<'_>) {
    writer.object();
    writer.key("error");
    write_status(error, class, writer);
    writer.end_object();
}

fn write_status(error: &UpstreamError<'_>, class: Option<&str>, writer: &mut JsonWriter<'_>) {
    let of_word = match error.class {
        ErrorClass::ContextTooLong => ErrorClass::InvalidRequest,
        class => class,
    };
    writer.object();
    writer.key("code");
    writer.number(error.status.unwrap_or(status_of(error.class)));
    writer.text_member("message", &error.message);
    let plain = UpstreamError { status: error.status, ..UpstreamError::new(of_word, "") };
    writer.text_member("status", error_word(&plain, ERRORS).unwrap_or("UNKNOWN"));
    if error.retry_after.is_some() || class.is_some() {
        writer.key("details");
        writer.list();
        if let Some(class) = class {
            writer.object();
            writer.text_member("@type", "type.googleapis.com/google.rpc.ErrorInfo");
            writer.text_member("reason", &class.to_ascii_uppercase());
            writer.end_object();
        }
        if let Some(wait) = error.retry_after {
            writer.object();
            writer.text_member("@type", "type.googleapis.com/google.rpc.RetryInfo");
            writer.text_member("retryDelay", &format!("{}s", wait.as_secs_f64()));
            writer.end_object();
        }
        writer.end_list();
    }
    writer.end_object();
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let options = &context.options;
    let mode = options.mode;
    let keeps = message.wire_type == RESPONSE || mode == EncodeMode::Lossless;
    writer.object();
    let blocked = message.extra.iter().find_map(|(path, value)| block_reason(path, value.as_str()));
    let is_told = |choice: &&Choice| {
        let said = choice.finish.as_ref().and_then(|finish| finish.raw.as_deref());
        let is_silent = match said {
            None => !message.errors.is_empty(),
            Some(_) => said == blocked.as_deref(),
        };
        !is_silent || !choice.blocks.is_empty() || !choice.extra.is_empty()
    };
    let is_response = message.choices.iter().any(|choice| is_told(&choice));
    if is_response {
        let mut ids = UniqueCallIds::default();
        writer.key("candidates");
        writer.list();
        for choice in message.choices.iter().filter(is_told) {
            complete_candidate(choice, message, mode, keeps, &mut ids, writer);
        }
        writer.end_list();
    }
    let mut answer = MemberPaths::default();
    if keeps {
        message.extra.iter().for_each(|(path, value)| answer.set(path, value.as_str()));
    }
    answer.write(writer);
    if let Some(own) = &message.usage {
        let mut made = String::new();
        emit_usage(own, keeps, mode, &mut made);
        if !made.is_empty() {
            writer.raw_member(words::USAGE, &made);
        }
    }
    let is_named = is_response || message.errors.is_empty();
    let names = [(&message.model, &options.model), (&message.id, &options.id)];
    if is_named {
        write_names(
            names.map(|(own, given)| own.as_ref().or(given.as_ref()).map_or("", String::as_str)),
            writer,
        );
    }
    if let Some(error) = message.errors.first() {
        write_error(error, mode, writer);
    }
    writer.end_object();
}

fn complete_candidate(
    choice: &Choice,
    message: &Message,
    mode: EncodeMode,
    keeps: bool,
    ids: &mut UniqueCallIds,
    writer: &mut JsonWriter<'_>,
) {
    let mut members = MemberPaths::default();
    if keeps {
        for (path, value) in choice.extra.iter() {
            if path != "content.role" || mode == EncodeMode::Lossless {
                members.set(path, value.as_str());
            }
        }
        set_logprobs(choice.attachments(AttachmentKind::Logprobs).map(|entry| &entry.value), &mut members);
        for Attachment { kind, wire_type, value } in &choice.attachments {
            match kind {
                AttachmentKind::Logprobs => {}
                _ if words::CITATIONS.contains(&wire_type.as_str()) => {
                    members.extend(&format!("{}.{wire_type}", words::CITATION_METADATA), value.as_str());
                }
                _ => members.set(wire_type, value.as_str()),
            }
        }
    }
    let is_truncated = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
    let finish = choice.finish.as_ref().and_then(|finish| match (mode, finish.raw.as_deref()) {
        (EncodeMode::Lossless, raw) => raw,
        (EncodeMode::Normalized, _) if !message.errors.is_empty() => None,
        (EncodeMode::Normalized, _) if is_truncated && finish.reason == FinishReason::Other => None,
        (EncodeMode::Normalized, raw) => Some(word_for(finish.reason, raw)),
    });
    if mode == EncodeMode::Normalized && finish.is_some() {
        // Clients iterate over the parts of every response.
        members.set("content.role", "\"model\"");
    }
    write_candidate(choice.number, &members, finish, writer, |writer| {
        for block in &choice.blocks {
            let has_members = keeps && !(block.attachments.is_empty() && block.extra.is_empty());
            let (text, is_reasoning) = match &block.content {
                BlockContent::Text(text) | BlockContent::Refusal(text) => (text, false),
                BlockContent::Reasoning { text, .. } => (text, true),
                BlockContent::ToolCall(call)
                    if mode == EncodeMode::Normalized && (keeps || call.kind != CallKind::Builtin) =>
                {
                    let call = ToolCall { id: ids.claim(&call.id), ..call.clone() };
                    let block = Block { content: BlockContent::ToolCall(call), ..block.clone() };
                    write_block(&block, mode, keeps, writer);
                    continue;
                }
                BlockContent::Opaque(_)
                    if mode == EncodeMode::Normalized && block.wire_type == words::PARTS =>
                {
                    continue;
                }
                BlockContent::ToolCall(_) | BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {
                    if keeps {
                        write_block(block, mode, keeps, writer);
                    }
                    continue;
                }
            };
            let marked = block.attachments.iter().rfind(|own| !keeps && is_marked(&own.value));
            if !text.is_empty() || has_members || marked.is_some() {
                write_text(&mut WrittenDelta::new(text), is_reasoning, writer, |writer| {
                    if has_members {
                        write_belongings(block, |_| true, writer);
                    }
                    if let Some(own) = marked {
                        writer.raw_member(words::SIGNATURE, own.value.as_str());
                    }
                });
            }
        }
    });
}
