//! Writing Chat: [`stream`] writes chunks as server-sent events, [`complete`] the complete body, from the same members.

mod complete;
mod stream;

use self::stream::ChatStream;
use super::{CHAT, CHAT_CHUNK, ERRORS, REASONING, ReasoningMember, TEXT_COMPLETION, words};
use crate::encode::{
    EncodeContext, ProtocolEncoding, WireCapabilities, WireEncoder, WireFeature, WrittenDelta,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, JsonText, TokenCounts};
use crate::json::{JsonKind, JsonWriter, MemberPaths, Tape, TapeNode, split_below, write_members};
use crate::protocol::error::write_typed;
use crate::upstream::UpstreamError;

pub(super) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: WireEncoder::<ChatStream>::boxed,
    complete: complete::write,
    capabilities: |_, _, _| CAPABILITIES,
    id_prefix: "chatcmpl-",
};

const CAPABILITIES: WireCapabilities = WireCapabilities {
    unsupported: &[WireFeature::Summary, WireFeature::Cut, WireFeature::CacheWrite],
    logprobs: is_logprob,
    indistinct_finish: &[FinishReason::Error, FinishReason::Other],
    errors: ERRORS,
    ..WireCapabilities::BASE
};

/// The id of a response to clients that want one, where neither the response nor the caller has any.
const MADE_ID: &str = "chatcmpl";
/// The member with the time of the response.
const CREATED: &str = "created";
/// The member in which clients of gateways keep seals, and send them back.
const DETAILS: &str = "reasoning_details";
/// The member in which clients find reasoning.
const REASONING_CONTENT: &str = "reasoning_content";

/// Whether a member of a response is its time, in seconds.
fn is_time(path: &str, value: &str) -> bool {
    path == CREATED && value.parse::<u64>().is_ok()
}

/// The finish reason on the wire. Clients must not take a truncated response for complete.
fn finish_reason<'r>(reason: FinishReason, raw: Option<&'r str>, context: &EncodeContext) -> Option<&'r str> {
    match reason {
        _ if !context.is_normalized() => raw,
        FinishReason::Stop => Some("stop"),
        FinishReason::ToolCalls if context.options.older_form => Some("function_call"),
        FinishReason::ToolCalls => Some("tool_calls"),
        FinishReason::ContentFilter => Some("content_filter"),
        FinishReason::Length | FinishReason::Error | FinishReason::Other => Some("length"),
    }
}

/// Whether all entries have the form that clients read; other protocols have other forms.
fn is_logprob(entries: &JsonText<'_>) -> bool {
    entries.clone().entries().iter().all(|entry| {
        let mut tape = Tape::new();
        let entry = tape.parse(entry.as_str()).ok();
        let has =
            |key, kind| entry.and_then(|entry| entry.get(key)).is_some_and(|value| value.kind() == kind);
        has("token", JsonKind::String)
            && has("logprob", JsonKind::Number)
            && has("top_logprobs", JsonKind::Array)
    })
}

/// Adds log probabilities of a channel to the fields of a choice.
fn add_logprobs(channel: &str, entries: &JsonText<'_>, is_normalized: bool, fields: &mut MemberPaths) {
    let entries_json = entries.as_str();
    match channel {
        _ if is_normalized && !is_logprob(entries) => {}
        words::REFUSAL if is_normalized => fields.extend("logprobs.refusal", entries_json),
        _ if is_normalized => fields.extend("logprobs.content", entries_json),
        "" => fields.set("logprobs", entries_json),
        _ => fields.extend(&format!("logprobs.{channel}"), entries_json),
    }
}

/// Writes an entry of `tool_calls`; a call that goes on has neither id nor name.
fn write_tool_call<'p>(
    kind: CallKind,
    index: Option<i64>,
    [id, name]: [Option<&str>; 2],
    arguments: &mut WrittenDelta<'_>,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    let (kind, member) = match kind {
        CallKind::Function | CallKind::Builtin => ("function", "arguments"),
        CallKind::Custom => ("custom", "input"),
    };
    let (inside, beside) = split_below(extra, "function.");
    writer.in_object(|writer| {
        write_index(index, writer);
        writer.optional_text_member("id", id);
        writer.optional_text_member("type", name.map(|_| kind));
        writer.object_member(kind, |writer| {
            writer.optional_text_member("name", name);
            arguments.write(member, writer);
            write_members(&inside, writer);
        });
        write_members(&beside, writer);
    });
}

/// Writes the one call of the older form.
fn write_function_call<'p>(
    name: Option<&str>,
    arguments: &mut WrittenDelta<'_>,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    writer.object_member("function_call", |writer| {
        writer.optional_text_member("name", name);
        arguments.write("arguments", writer);
        write_members(&extra.collect::<Vec<_>>(), writer);
    });
}

/// Writes a part of a content that is a list.
fn write_part<'p>(
    wire_type: &str,
    kind: &str,
    piece: &mut WrittenDelta<'_>,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    writer.in_object(|writer| {
        writer.text_member("type", kind);
        match wire_type {
            words::CONTENT_THINKING_LIST => writer.list_member(kind, |writer| {
                writer.in_object(|writer| {
                    writer.text_member("type", "text");
                    piece.write("text", writer);
                });
            }),
            _ => piece.write(kind, writer),
        }
        write_members(&extra.collect::<Vec<_>>(), writer);
    });
}

/// Writes an entry of `reasoning_details`.
fn write_detail<'p>(
    kind: &str,
    index: Option<i64>,
    piece: &mut WrittenDelta<'_>,
    extra: impl Iterator<Item = (&'p str, &'p str)>,
    writer: &mut JsonWriter<'_>,
) {
    writer.in_object(|writer| {
        writer.text_member("type", kind);
        write_index(index, writer);
        if !piece.text.is_empty() {
            piece.write(if kind == words::DETAIL_SUMMARY { "summary" } else { "text" }, writer);
        }
        write_members(&extra.collect::<Vec<_>>(), writer);
    });
}

fn write_index(index: Option<i64>, writer: &mut JsonWriter<'_>) {
    if let Some(index) = index {
        writer.number_member("index", index);
    }
}

/// The row of reasoning with that wire type.
fn reasoning_member(wire_type: &str) -> Option<&'static ReasoningMember> {
    REASONING.iter().find(|row| row.wire_type == wire_type)
}

/// Writes a seal of another provider. The text that it seals is elsewhere, once.
fn write_seal(kind: AttachmentKind, value: &JsonText<'_>, writer: &mut JsonWriter<'_>) {
    let (wire_type, key) = match kind {
        AttachmentKind::Signature => (words::DETAIL_TEXT, "signature"),
        _ => (words::DETAIL_ENCRYPTED, "data"),
    };
    writer.in_object(|writer| {
        writer.text_member("type", wire_type);
        writer.raw_member(key, value.as_str());
        writer.text_member("format", "unknown");
    });
}

/// Returns token counts in chat's form.
fn usage(counters: &TokenCounts) -> String {
    let mut text = String::new();
    let input = counters.input_tokens.unwrap_or(0);
    let output = counters.output_tokens.unwrap_or(0);
    JsonWriter(&mut text).in_object(|writer| {
        writer.number_member("prompt_tokens", input);
        writer.number_member("completion_tokens", output);
        writer.number_member("total_tokens", counters.total_tokens.unwrap_or(input.saturating_add(output)));
        for (group, key, count) in [
            ("prompt_tokens_details", "cached_tokens", counters.cached_tokens),
            ("completion_tokens_details", "reasoning_tokens", counters.reasoning_tokens),
        ] {
            if let Some(count) = count {
                writer.object_member(group, |writer| writer.number_member(key, count));
            }
        }
    });
    text
}

/// Writes an error as it came, or else in the form clients know.
fn write_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    let is_own = |raw: TapeNode<'_>| {
        let has = |key| raw.get(key).is_some();
        raw.get("message").is_some_and(|it| it.str().is_some())
            && has("type")
            && (has("code") || has("param"))
    };
    if !is_normalized || Tape::new().parse(error.raw.as_str()).is_ok_and(is_own) {
        return writer.raw_member("error", error.raw.as_str());
    }
    writer.key("error");
    write_typed(error, ERRORS, None, writer);
}
