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
    EncodeContext, ProtocolEncoding, UniqueCallIds, WireCapabilities, WireEncoder, WireFeature, WrittenDelta,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, TokenCounts};
use crate::json::{JsonWriter, MemberPaths, Tape, split_below, write_members};
use crate::message::{Attachment, Block, BlockContent, Choice, Message, ToolCall, Usage};
use crate::protocol::error::{is_lost_connection, status_of};
use crate::protocol::{error_word, finish_word};
use crate::request::is_marked;
use crate::upstream::{ErrorClass, UpstreamError};

pub(in crate::protocol) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: WireEncoder::<GeminiStream>::boxed,
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

/// The finish reason on the wire. For clients calls are no reason of their own.
fn finish_reason<'r>(
    reason: FinishReason,
    raw: Option<&'r str>,
    has_failed: bool,
    context: &EncodeContext,
) -> Option<&'r str> {
    if !context.is_normalized() {
        return raw;
    }
    let usual = if reason == FinishReason::Other { words::UNSPECIFIED } else { words::STOP };
    let wire_type = finish_word(reason, raw, FINISH).unwrap_or(usual);
    Some(wire_type).filter(|_| !has_failed && !context.lacks_end(reason, raw))
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
    let (inside, beside) = split_below(members.iter(), "content.");
    writer.in_object(|writer| {
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
        writer.number_member("index", number);
        write_members(&beside, writer);
    });
}

/// Writes the provider's own token counts, if clients can read them: those in another spelling were not read from the
/// wire. Writes nothing if nothing was counted.
fn emit_usage(own: &Usage, context: &EncodeContext, out: &mut String) {
    let is_spelt = !context.is_normalized() || own.raw.as_str().contains("TokenCount");
    out.clear();
    match context.keeps() && is_spelt {
        true => out.push_str(own.raw.as_str()),
        false => write_usage(&own.counters(), &mut JsonWriter(out)),
    }
    if out == "{}" {
        out.clear();
    }
}

/// Writes token counts in this wire's form. It counts reasoning separately from the text.
fn write_usage(counters: &TokenCounts, writer: &mut JsonWriter<'_>) {
    let output = counters.output_tokens;
    let reasoning = counters.reasoning_tokens.map(|count| count.min(output.unwrap_or(count)));
    writer.in_object(|writer| {
        writer.number_members([
            ("promptTokenCount", counters.input_tokens),
            ("candidatesTokenCount", output.map(|output| output - reasoning.unwrap_or(0))),
            ("thoughtsTokenCount", reasoning),
            ("totalTokenCount", counters.total_tokens),
            ("cachedContentTokenCount", counters.cached_tokens),
        ]);
    });
}

fn write_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    let is_own = Tape::new().parse(error.raw.as_str()).is_ok_and(super::is_error_object);
    if !is_normalized || is_own {
        return writer.raw_member("error", error.raw.as_str());
    }
    let is_beside = error.class == ErrorClass::ContextTooLong || is_lost_connection(error);
    let class = is_beside.then(|| error.class.name());
    writer.object_member("error", |writer| write_status(error, class, writer));
}

/// Writes the body of a failed request.
pub(super) fn write_failure(error: &UpstreamError<'_>, class: Option<&str>, writer: &mut JsonWriter<'_>) {
    writer.in_object(|writer| {
        writer.object_member("error", |writer| write_status(error, class, writer));
    });
}

fn write_status(error: &UpstreamError<'_>, class: Option<&str>, writer: &mut JsonWriter<'_>) {
    let of_word = match error.class {
        ErrorClass::ContextTooLong => ErrorClass::InvalidRequest,
        class => class,
    };
    writer.number_member("code", error.status.unwrap_or(status_of(error.class)));
    writer.text_member("message", &error.message);
    let plain = UpstreamError { status: error.status, ..UpstreamError::new(of_word, "") };
    writer.text_member("status", error_word(&plain, ERRORS).unwrap_or("UNKNOWN"));
    let reason = class.map(|class| ("ErrorInfo", "reason", class.to_ascii_uppercase()));
    let wait = error.retry_after.map(|wait| ("RetryInfo", "retryDelay", format!("{}s", wait.as_secs_f64())));
    if reason.is_some() || wait.is_some() {
        writer.list_member("details", |writer| {
            for (kind, key, value) in reason.into_iter().chain(wait) {
                writer.in_object(|writer| {
                    writer.text_member("@type", &format!("type.googleapis.com/google.rpc.{kind}"));
                    writer.text_member(key, &value);
                });
            }
        });
    }
}

/// Writes the complete body.
fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let blocked = message.extra.paths().find_map(|(path, value)| block_reason(path, value));
    let is_written = |choice: &&Choice| {
        let said = choice.finish.as_ref().and_then(|finish| finish.raw.as_deref());
        let is_silent = match said {
            None => !message.errors.is_empty(),
            Some(_) => said == blocked.as_deref(),
        };
        !is_silent || !choice.blocks.is_empty() || !choice.extra.is_empty()
    };
    let is_response = message.choices.iter().any(|choice| is_written(&choice));
    writer.in_object(|writer| {
        if is_response {
            let mut ids = UniqueCallIds::default();
            writer.list_member("candidates", |writer| {
                for choice in message.choices.iter().filter(is_written) {
                    complete_candidate(choice, message, context, &mut ids, writer);
                }
            });
        }
        if context.keeps() {
            message.extra.write(writer);
        }
        if let Some(own) = &message.usage {
            let mut made = String::new();
            emit_usage(own, context, &mut made);
            if !made.is_empty() {
                writer.raw_member(words::USAGE, &made);
            }
        }
        if is_response || message.errors.is_empty() {
            let names = [context.model_of(message), context.id_of(message)];
            write_names(names.map(Option::unwrap_or_default), writer);
        }
        if let Some(error) = message.errors.first() {
            write_error(error, context.is_normalized(), writer);
        }
    });
}

fn complete_candidate(
    choice: &Choice,
    message: &Message,
    context: &EncodeContext,
    ids: &mut UniqueCallIds,
    writer: &mut JsonWriter<'_>,
) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let mut members = MemberPaths::default();
    if keeps {
        members.set_all(choice.extra.paths().filter(|(path, _)| *path != "content.role" || !is_normalized));
        let logprobs = choice.attachments(AttachmentKind::Logprobs).map(|entry| entry.value.clone());
        set_logprobs(logprobs, &mut members);
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
    let finish = choice.finish.as_ref().and_then(|finish| {
        finish_reason(finish.reason, finish.raw.as_deref(), !message.errors.is_empty(), context)
    });
    if is_normalized && finish.is_some() {
        // Clients iterate over the parts of every response.
        members.set("content.role", "\"model\"");
    }
    write_candidate(choice.number, &members, finish, writer, |writer| {
        choice.blocks.iter().for_each(|block| complete_part(block, context, ids, writer));
    });
}

fn complete_part(
    block: &Block,
    context: &EncodeContext,
    ids: &mut UniqueCallIds,
    writer: &mut JsonWriter<'_>,
) {
    let (is_normalized, keeps) = (context.is_normalized(), context.keeps());
    let (text, is_reasoning) = match &block.content {
        BlockContent::Text(text) | BlockContent::Refusal(text) => (text, false),
        BlockContent::Reasoning { text, .. } => (text, true),
        BlockContent::ToolCall(call) if is_normalized && (keeps || call.kind != CallKind::Builtin) => {
            let call = ToolCall { id: ids.claim(&call.id), ..call.clone() };
            let block = Block { content: BlockContent::ToolCall(call), ..block.clone() };
            return write_block(&block, context, writer);
        }
        BlockContent::Opaque(_) if is_normalized && block.wire_type == words::PARTS => return,
        BlockContent::ToolCall(_) | BlockContent::ToolResult(_) | BlockContent::Opaque(_) => {
            if keeps {
                write_block(block, context, writer);
            }
            return;
        }
    };
    let has_members = keeps && !(block.attachments.is_empty() && block.extra.is_empty());
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
