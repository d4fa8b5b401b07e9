//! Events and messages → Anthropic Messages: [`stream`] writes the events of a stream, [`whole`] the complete message,
//! from the same objects.

mod stream;
mod whole;

use super::{CITATIONS, DATA, ERRORS, FINISH, MESSAGE, SIGNATURE, TEXT, THINKING, USAGE};
use crate::encode::{ProtocolEncoding, WireCapabilities, WireFeature};
use crate::event::{AttachmentKind, FinishReason, JsonText, ReasoningForm, TokenCounts};
use crate::json::{JsonWriter, MemberPaths, Tape, each_member};
use crate::protocol::error::{LOST_CONNECTION, is_lost_connection};
use crate::protocol::{error_word, finish_word};
use crate::upstream::UpstreamError;

pub(super) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: stream::encoder,
    whole: whole::write,
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

/// Whether a result has the id of its call; a truncated one may not.
fn answers(result: &JsonText<'_>) -> bool {
    Tape::new().parse(result.as_str()).is_ok_and(|block| block.get("tool_use_id").is_some())
}

/// Writes a block: its type, the usual members unless `members` has them, and `members`.
fn write_block(wire_type: &str, usual: &[(&str, &str)], members: &MemberPaths, writer: &mut JsonWriter<'_>) {
    writer.object();
    writer.text_member("type", wire_type);
    for (key, value) in usual.iter().filter(|(key, _)| members.get(key).is_none()) {
        writer.raw_member(key, value);
    }
    members.write(writer);
    writer.end_object();
}

fn stop_reason(reason: FinishReason, said: Option<&str>) -> &str {
    finish_word(reason, said, FINISH).unwrap_or(INCOMPLETE)
}

fn write_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    if !is_normalized {
        return writer.raw_member("error", error.raw.as_str());
    }
    writer.key("error");
    writer.object();
    writer.text_member("type", error_word(error, ERRORS).unwrap_or_default());
    writer.text_member("message", &error.message);
    if is_lost_connection(error) {
        // The wire has no type for it.
        writer.text_member("code", LOST_CONNECTION);
    }
    writer.end_object();
}

/// Writes the body of a failed request. There is a name for every class.
pub(super) fn write_failure(error: &UpstreamError<'_>, _: Option<&str>, writer: &mut JsonWriter<'_>) {
    writer.object();
    writer.text_member("type", "error");
    write_error(error, true, writer);
    if let Some(id) = &error.request_id {
        writer.text_member("request_id", id);
    }
    writer.end_object();
}

const NO_USAGE: &str = "{\"input_tokens\":0,\"output_tokens\":0}";

/// Writes token counts in the wire's form, and the provider's other members.
fn write_usage(counters: &TokenCounts, raw: Option<&JsonText<'_>>, writer: &mut JsonWriter<'_>) {
    let mut paths = MemberPaths::default();
    each_member(raw, |key, value| paths.set(key, value));
    let counters = counters.with_cache_beside();
    let counts = [
        ("input_tokens", Some(counters.input_tokens.unwrap_or(0))),
        ("cache_creation_input_tokens", counters.cache_write_tokens),
        ("cache_read_input_tokens", counters.cached_tokens),
        ("output_tokens", Some(counters.output_tokens.unwrap_or(0))),
    ];
    if !counts.iter().any(|(key, _)| paths.get(key).is_some()) {
        // The raw counts have other names, from an envelope.
        paths.clear();
    }
    writer.object();
    for (key, count) in counts {
        // The last object may lack a count of an earlier one.
        if let Some(count) = count {
            paths.remove(key);
            writer.key(key);
            writer.number(count);
        }
    }
    paths.write(writer);
    if let (Some(count), None) = (counters.reasoning_tokens, paths.get("output_tokens_details")) {
        writer.key("output_tokens_details");
        writer.object();
        writer.key("thinking_tokens");
        writer.number(count);
        writer.end_object();
    }
    writer.end_object();
}
