//! Events and messages → Anthropic Messages: [`stream`] writes the events of a stream, [`complete`] the complete message,
//! from the same objects.

mod complete;
mod stream;

use self::stream::AnthropicStream;
use super::{CITATIONS, DATA, ERRORS, FINISH, MESSAGE, SIGNATURE, TEXT, THINKING, TOOL_USE, USAGE};
use crate::encode::{
    EncodeContext, ProtocolEncoding, WireCapabilities, WireEncoder, WireFeature, write_counts,
};
use crate::event::{AttachmentKind, BlockKind, CallKind, FinishReason, JsonText, ReasoningForm, TokenCounts};
use crate::json::{JsonWriter, MemberPaths, Tape};
use crate::protocol::error::{LOST_CONNECTION, is_lost_connection};
use crate::protocol::{error_word, finish_word};
use crate::upstream::UpstreamError;

pub(super) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: WireEncoder::<AnthropicStream>::boxed,
    complete: complete::write,
    capabilities: |_, _, _| CAPABILITIES,
    id_prefix: "msg_",
};

const CAPABILITIES: WireCapabilities = WireCapabilities {
    own: &[MESSAGE],
    unsupported: &[
        WireFeature::OtherChoices,
        WireFeature::Refusal,
        WireFeature::Summary,
        WireFeature::Custom,
        WireFeature::Cut,
        WireFeature::Total,
        WireFeature::OddCached,
        WireFeature::NamesOfFailure,
        WireFeature::CountsWithoutEnd,
    ],
    writes_attachment,
    indistinct_finish: &[FinishReason::Error, FinishReason::Other],
    errors: ERRORS,
    ..WireCapabilities::BASE
};

/// Whether an attachment of another protocol's reasoning can be written: both kinds are texts, and encrypted data
/// belongs to redacted reasoning.
fn writes_attachment(form: ReasoningForm, kind: AttachmentKind, value: &JsonText<'_>) -> bool {
    let is_text = value.as_str().trim_ascii_start().starts_with('"');
    match kind {
        AttachmentKind::Signature => is_text,
        AttachmentKind::Encrypted => is_text && form == ReasoningForm::Redacted,
        AttachmentKind::Annotation | AttachmentKind::Logprobs => false,
    }
}

/// Members that are read, and passed on only where they have an unexpected type.
const READ: &[&str] = &[
    "type",
    "role",
    "message",
    "content",
    USAGE,
    "stop_reason",
    "partial_json",
    "citation",
    TEXT,
    THINKING,
    SIGNATURE,
    DATA,
    CITATIONS,
];

/// The stop reason of an incomplete response, which a client must not take for complete.
const INCOMPLETE: &str = "max_tokens";

/// Whether the value is an object with that `type`.
fn calls_itself(wire_type: &str, value: &JsonText<'_>) -> bool {
    let mut tape = Tape::new();
    let own = tape.parse(value.as_str()).ok().and_then(|object| object.get("type")?.str());
    own.is_some_and(|own| own.is(wire_type))
}

/// Whether an extra field is written. A field with the name of a read member has a type that clients do not expect.
fn writes_field(path: &str, is_normalized: bool) -> bool {
    path != "type" && !(is_normalized && READ.contains(&path))
}

/// The wire type of a call.
fn call_type(wire_type: &str, keeps: bool) -> &str {
    if keeps && !wire_type.is_empty() { wire_type } else { TOOL_USE }
}

/// Whether the wire can express a block.
fn is_expressed(kind: &BlockKind<'_>, wire_type: &str, context: &EncodeContext) -> bool {
    match kind {
        BlockKind::Text | BlockKind::Refusal | BlockKind::Reasoning(_) => true,
        // A client would run a call that another provider has already run.
        BlockKind::ToolCall { call, .. } => *call != CallKind::Builtin || context.keeps(),
        BlockKind::ToolResult { value, .. } if context.is_normalized() && !answers(value) => false,
        // A client cannot read content without a wire type, either.
        BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => {
            context.keeps() && !(context.is_normalized() && wire_type.is_empty())
        }
    }
}

/// Whether a result has the id of its call; a truncated one may not.
fn answers(result: &JsonText<'_>) -> bool {
    Tape::new().parse(result.as_str()).is_ok_and(|block| block.get("tool_use_id").is_some())
}

/// Writes a block: its type, the usual members unless `extra` has them, and `extra`.
fn write_block(wire_type: &str, usual: &[(&str, &str)], extra: &MemberPaths, writer: &mut JsonWriter<'_>) {
    writer.in_object(|writer| {
        writer.text_member("type", wire_type);
        for (key, value) in usual.iter().filter(|(key, _)| extra.get(key).is_none()) {
            writer.raw_member(key, value);
        }
        extra.write(writer);
    });
}

/// Writes a call with the arguments that `input` writes.
fn write_call(
    wire_type: &str,
    id: Option<&str>,
    name: &str,
    extra: &MemberPaths,
    writer: &mut JsonWriter<'_>,
    input: impl FnOnce(&mut JsonWriter<'_>),
) {
    writer.in_object(|writer| {
        writer.text_member("type", wire_type);
        writer.optional_text_member("id", id);
        writer.text_member("name", name);
        writer.key("input");
        input(writer);
        extra.write(writer);
    });
}

fn stop_reason(reason: FinishReason, said: Option<&str>) -> &str {
    finish_word(reason, said, FINISH).unwrap_or(INCOMPLETE)
}

fn write_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    if !is_normalized {
        return writer.raw_member("error", error.raw.as_str());
    }
    writer.object_member("error", |writer| {
        writer.text_member("type", error_word(error, ERRORS).unwrap_or_default());
        writer.text_member("message", &error.message);
        // The wire has no type for it.
        writer.optional_text_member("code", is_lost_connection(error).then_some(LOST_CONNECTION));
    });
}

/// Writes the body of a failed request. There is a name for every class.
pub(super) fn write_failure(error: &UpstreamError<'_>, _: Option<&str>, writer: &mut JsonWriter<'_>) {
    writer.in_object(|writer| {
        writer.text_member("type", "error");
        write_error(error, true, writer);
        writer.optional_text_member("request_id", error.request_id.as_deref());
    });
}

const NO_USAGE: &str = "{\"input_tokens\":0,\"output_tokens\":0}";

/// Writes token counts in the wire's form, and the provider's other members.
fn write_usage(counters: &TokenCounts, raw: Option<&JsonText<'_>>, writer: &mut JsonWriter<'_>) {
    let counters = counters.with_cache_beside();
    let counts = [
        ("input_tokens", Some(counters.input_tokens.unwrap_or(0))),
        ("cache_creation_input_tokens", counters.cache_write_tokens),
        ("cache_read_input_tokens", counters.cached_tokens),
        ("output_tokens", Some(counters.output_tokens.unwrap_or(0))),
    ];
    writer.in_object(|writer| {
        let others = write_counts(&counts, raw, |_, _| false, writer);
        if let (Some(count), None) = (counters.reasoning_tokens, others.get("output_tokens_details")) {
            writer.object_member("output_tokens_details", |writer| {
                writer.number_member("thinking_tokens", count);
            });
        }
    });
}
