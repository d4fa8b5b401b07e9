//! Events and messages → Converse: [`stream`] writes the messages of an AWS event stream, [`complete`] the complete
//! response, from the same objects.

mod complete;
mod stream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use self::stream::ConverseStream;
use super::{FINISH, OUTPUT, REASONING, REASONING_TEXT, SERVER_TOOL_USE, TOOL_USE};
use crate::encode::{
    EncodeContext, ProtocolEncoding, WireCapabilities, WireEncoder, WireFeature, write_counts,
};
use crate::event::{AttachmentKind, BlockKind, CallKind, FinishReason, JsonText, ReasoningForm, TokenCounts};
use crate::json::{JsonWriter, MemberPaths};
use crate::protocol::error::{ErrorClassNames, IN_AMAZON_STREAMS, error_beside, write_message};
use crate::protocol::{error_word, finish_word};
use crate::upstream::UpstreamError;

pub(super) const ENCODING: ProtocolEncoding = ProtocolEncoding {
    stream: WireEncoder::<ConverseStream>::boxed,
    complete: complete::write,
    capabilities: |_, _, _| CAPABILITIES,
    id_prefix: "",
};

const CAPABILITIES: WireCapabilities = WireCapabilities {
    own: &[OUTPUT],
    unsupported: &[
        WireFeature::Id,
        WireFeature::Model,
        WireFeature::OtherChoices,
        WireFeature::Refusal,
        WireFeature::Summary,
        WireFeature::Custom,
        WireFeature::Cut,
        WireFeature::ReasoningTokens,
        WireFeature::OddCached,
        WireFeature::CountsWithoutEnd,
    ],
    writes_attachment,
    errors: IN_AMAZON_STREAMS,
    ..WireCapabilities::BASE
};

/// The stop reason of an incomplete response, which a client must not take for complete.
const INCOMPLETE: &str = "max_tokens";

const NO_METRICS: &str = "{\"latencyMs\":0}";

/// Whether the wire can express a block.
fn is_expressed(kind: &BlockKind<'_>, wire_type: &str, context: &EncodeContext) -> bool {
    match kind {
        BlockKind::Text | BlockKind::Refusal | BlockKind::Reasoning(_) => true,
        // A client would run a call that another provider has already run.
        BlockKind::ToolCall { call, .. } => *call != CallKind::Builtin || context.keeps(),
        // A truncated result may lack the id of its call.
        BlockKind::ToolResult { call: None, .. } if context.is_normalized() => false,
        BlockKind::ToolResult { .. } | BlockKind::Opaque { .. } => {
            context.keeps() && !(context.is_normalized() && wire_type.is_empty())
        }
    }
}

/// Sets the id, name and type of a call, as members of its object.
fn set_call(id: Option<&str>, name: &str, kind: CallKind, members: &mut MemberPaths) {
    let mut set = |key: &str, value: &str| {
        members.set(&format!("{TOOL_USE}.{key}"), JsonText::from_text(value).as_str());
    };
    if let Some(id) = id {
        set("toolUseId", id);
    }
    set("name", name);
    if kind == CallKind::Builtin {
        set("type", SERVER_TOOL_USE);
    }
}

/// Whether an attachment of another protocol's reasoning can be written: a signature is a text, and redacted content is
/// binary.
fn writes_attachment(form: ReasoningForm, kind: AttachmentKind, value: &JsonText<'_>) -> bool {
    let text = value.to_text();
    match kind {
        AttachmentKind::Signature => text.is_some(),
        AttachmentKind::Encrypted if form == ReasoningForm::Redacted => {
            text.is_some_and(|text| STANDARD.decode(text.as_bytes()).is_ok())
        }
        AttachmentKind::Encrypted | AttachmentKind::Annotation | AttachmentKind::Logprobs => false,
    }
}

/// Whether the member is read, and passed on only where it is deeper than clients look.
fn is_read(path: &str) -> bool {
    path.strip_prefix(REASONING).and_then(|rest| rest.strip_prefix('.')) == Some(REASONING_TEXT)
}

fn stop_reason(reason: FinishReason, said: Option<&str>) -> &str {
    finish_word(reason, said, FINISH).unwrap_or(INCOMPLETE)
}

/// Returns the name of an exception, which is its class.
fn exception_name<'e>(
    error: &'e UpstreamError<'_>,
    is_normalized: bool,
    words: &'static ErrorClassNames,
) -> &'e str {
    let said = error
        .code
        .as_deref()
        .filter(|code| !is_normalized && code.ends_with("Exception") && code.len() < usize::from(u8::MAX));
    said.or_else(|| error_word(error, words)).unwrap_or_default()
}

fn write_error(error: &UpstreamError<'_>, is_normalized: bool, writer: &mut JsonWriter<'_>) {
    if !is_normalized && error.raw.as_str().trim_ascii_start().starts_with('{') {
        return writer.raw(error.raw.as_str());
    }
    write_message(error, error_beside(error, IN_AMAZON_STREAMS), writer);
}

const NO_USAGE: &str = "{\"inputTokens\":0,\"outputTokens\":0,\"totalTokens\":0}";

/// Writes token counts in the wire's form, and the provider's other members.
fn write_usage(counters: &TokenCounts, raw: Option<&JsonText<'_>>, writer: &mut JsonWriter<'_>) {
    let all = counters.input_tokens.unwrap_or(0).saturating_add(counters.output_tokens.unwrap_or(0));
    let counters = counters.with_cache_beside();
    let counts = [
        ("inputTokens", Some(counters.input_tokens.unwrap_or(0))),
        ("outputTokens", Some(counters.output_tokens.unwrap_or(0))),
        ("totalTokens", Some(counters.total_tokens.unwrap_or(all))),
        ("cacheReadInputTokens", counters.cached_tokens),
        ("cacheWriteInputTokens", counters.cache_write_tokens),
    ];
    // An older name of the same count.
    let is_elsewhere =
        |key: &str, others: &MemberPaths| others.get(&key.replace("Tokens", "TokenCount")).is_some();
    writer.in_object(|writer| {
        write_counts(&counts, raw, is_elsewhere, writer);
    });
}
