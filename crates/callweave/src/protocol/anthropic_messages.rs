//! Anthropic Messages: stream event and complete message, from Anthropic itself and from compatible servers.
//!
//! Blocks are numbered by their `index`. One stream may carry several passes (the server resumes a turn after its own
//! tools, a gateway tries again), each with a `message_start` and a numbering of its own, so a block that begins at an
//! index ends any block before it there.

mod encode;
mod request;

use super::{
    DetectionEvidence, ErrorCoding, ExtraSubject, Protocol, ProtocolFrame, counts, error, extra,
    finish_reason, is_kind, is_usual, report_usage,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, ReasoningForm, TokenCounts};
use crate::fragment::{BlockKey, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel};
use crate::json::{JsonKind, NodeMark, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Anthropic Messages.
pub static PROTOCOL: Protocol = Protocol {
    name: "anthropic-messages",
    aliases: &["anthropic", "messages", "claude"],
    title: "Anthropic Messages",
    volatile: &[],
    kind_follows_text: false,
    errors: ERRORS,
    failure: Some(FAILURE),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: Some(request::CODING),
};

/// The responses to failed requests.
const FAILURE: ErrorCoding = ErrorCoding {
    request_id: "request-id",
    statuses: &[(ErrorClass::Overloaded, 529), (ErrorClass::ContextTooLong, 413)],
    ..ErrorCoding::new(encode::write_failure)
};

/// The wire type of a response.
const MESSAGE: &str = "message";

/// The wire types of blocks, and for most of them the member with the content.
const TEXT: &str = "text";
const THINKING: &str = "thinking";
const REDACTED_THINKING: &str = "redacted_thinking";
const TOOL_USE: &str = "tool_use";
/// Another model continues where the first one refused.
const FALLBACK: &str = "fallback";
/// The summary that replaces earlier content: not part of the response, but to be sent back. It comes in one delta.
const COMPACTION: &str = "compaction";

/// The member with token counts.
const USAGE: &str = "usage";

/// The members with attachments of blocks.
const SIGNATURE: &str = "signature";
const DATA: &str = "data";
const CITATIONS: &str = "citations";

/// The deltas in which blocks grow, and the member that holds the text.
const TEXT_DELTA: (&str, &str) = ("text_delta", TEXT);
const THINKING_DELTA: (&str, &str) = ("thinking_delta", THINKING);
const INPUT_DELTA: (&str, &str) = ("input_json_delta", "partial_json");
const SIGNATURE_DELTA: &str = "signature_delta";
const CITATIONS_DELTA: &str = "citations_delta";
const COMPACTION_DELTA: &str = "compaction_delta";

fn is_delta(wire_type: &str) -> bool {
    const NAMES: [&str; 3] = [TEXT_DELTA.0, THINKING_DELTA.0, INPUT_DELTA.0];
    NAMES.contains(&wire_type) || matches!(wire_type, SIGNATURE_DELTA | CITATIONS_DELTA | COMPACTION_DELTA)
}

const PING: &str = "ping";

fn is_event(wire_type: &str) -> bool {
    matches!(
        wire_type,
        "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
            | PING
            | "error"
    )
}

const FINISH: &[(&str, FinishReason)] = &[
    ("end_turn", FinishReason::Stop),
    ("stop_sequence", FinishReason::Stop),
    ("max_tokens", FinishReason::Length),
    ("model_context_window_exceeded", FinishReason::Length),
    ("tool_use", FinishReason::ToolCalls),
    ("refusal", FinishReason::ContentFilter),
    ("pause_turn", FinishReason::Other),
    ("compaction", FinishReason::Other),
];

const ERRORS: &[(&str, ErrorClass)] = &[
    ("authentication_error", ErrorClass::Authentication),
    ("permission_error", ErrorClass::Permission),
    ("billing_error", ErrorClass::Permission),
    ("rate_limit_error", ErrorClass::RateLimit),
    ("overloaded_error", ErrorClass::Overloaded),
    ("invalid_request_error", ErrorClass::InvalidRequest),
    ("request_too_large", ErrorClass::ContextTooLong),
    ("not_found_error", ErrorClass::NotFound),
    ("api_error", ErrorClass::Server),
    ("conflict_error", ErrorClass::Server),
    ("timeout_error", ErrorClass::Transport),
];

/// The part of a block that is given at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockExtent {
    /// Deltas may follow.
    Beginning,
    /// All of it.
    Whole,
}

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    let (is_ours, evidence) = match wire_type(input) {
        // Other protocols have error frames too; here the frame itself has the type and no sequence number.
        Some("error") => {
            let is_ours = body.get("type").is_some()
                && body.get("error").is_some_and(|error| error.kind() == JsonKind::Object)
                && body.get("sequence_number").is_none();
            (is_ours, DetectionEvidence::Weak)
        }
        Some("ping") => (body.kind() == JsonKind::Object, DetectionEvidence::Weak),
        Some(wire_type) if is_event(wire_type) => {
            (body.kind() == JsonKind::Object, DetectionEvidence::Strong)
        }
        _ if is_complete(body) => (true, DetectionEvidence::Strong),
        // A message with its other members truncated.
        _ => (is_begun(body), DetectionEvidence::Weak),
    };
    is_ours.then_some(evidence)
}

/// The frame's own type, else the name in the framing.
fn wire_type<'a>(input: &ProtocolFrame<'a>) -> Option<&'a str> {
    input.value.get("type").and_then(Value::filled).map(Str::written).or(input.event)
}

fn is_complete(body: Value<'_>) -> bool {
    body.get("content").is_some_and(|content| content.kind() == JsonKind::Array)
        && match body.get("type").and_then(Value::str) {
            Some(wire_type) => wire_type.is(MESSAGE),
            None => body.get("stop_reason").is_some(),
        }
}

fn is_begun(body: Value<'_>) -> bool {
    let has_role = body.get("role").and_then(Value::str).is_some_and(|role| role.is("assistant"));
    has_role && body.get("content").is_some_and(|content| content.kind() == JsonKind::Array)
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let event = AnthropicEvent::read(body);
    match body.marked(event.kind).and_then(Value::filled).map(Str::written).or(input.event) {
        Some(wire_type) if is_event(wire_type) => event.decode(wire_type, body, sink),
        _ if is_complete(body) => whole(body, sink),
        None if body.get("error").is_some() => event.decode("error", body, sink),
        // Not enough for detection, but enough where the protocol is known.
        None if body.get("content").is_some_and(|content| content.kind() == JsonKind::Array) => {
            whole(body, sink)
        }
        wire_type => extra(ExtraSubject::ANSWER, "", wire_type.unwrap_or_default(), body, sink),
    }
}

fn whole(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    message(body, sink);
    // A message with a null stop reason was truncated.
    if body.get("stop_reason").is_none_or(|reason| !reason.is_null()) {
        put(None, FragmentKind::Done, sink);
    }
}

/// The members of an event.
#[derive(Default)]
struct AnthropicEvent<'a> {
    kind: NodeMark,
    index: NodeMark,
    usage: NodeMark,
    error: NodeMark,
    /// The last of the other members, and whether there are more.
    told: (&'a str, NodeMark),
    has_more: bool,
}

impl<'a> AnthropicEvent<'a> {
    #[inline]
    fn read(body: Value<'a>) -> Self {
        let mut event = Self::default();
        for (key, value) in body.members() {
            match key {
                "type" => event.kind = value.mark(),
                "index" => event.index = value.mark(),
                "usage" => event.usage = value.mark(),
                "error" => event.error = value.mark(),
                _ => {
                    event.has_more |= event.told.1.is_set();
                    event.told = (key, value.mark());
                }
            }
        }
        event
    }

    fn decode(&self, wire_type: &str, body: Value<'_>, sink: &mut FragmentSink<'_>) {
        if wire_type == "error" && !self.error.is_set() {
            error(body, ERRORS, sink);
            return;
        }
        let place = body.marked(self.index).and_then(BlockKey::of);
        if let Some(counts) = body.marked(self.usage) {
            report_usage(USAGE, counts, read_usage, sink);
        }
        let mut tell = |(key, value)| match key {
            "type" | "index" | "usage" | "error" => {}
            "message" => message(value, sink),
            "content_block" => block(place, value, BlockExtent::Beginning, sink),
            "delta" if wire_type == "message_delta" => message(value, sink),
            "delta" => delta(place, value, sink),
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        };
        // Mostly there is only one.
        match self.has_more {
            true => body.members().for_each(&mut tell),
            false => body.marked(self.told.1).into_iter().for_each(|value| tell((self.told.0, value))),
        }
        if let Some(failure) = body.marked(self.error) {
            error(failure, ERRORS, sink);
        }
        match wire_type {
            "content_block_stop" => put(place, FragmentKind::End, sink),
            "message_stop" => put(None, FragmentKind::Done, sink),
            PING => put(None, FragmentKind::Progress { wire_type, value: None }, sink),
            _ => {}
        }
    }
}

fn put(place: Option<BlockKey>, part: FragmentKind<'_>, sink: &mut FragmentSink<'_>) {
    sink.put(Fragment { choice: 0, key: place, part });
}

/// Reads a complete message, the skeleton that begins a stream, or the additions of `message_delta`.
fn message(message: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut id, mut model, mut given, mut counts, mut finish) = (None, None, None, None, None);
    let mut failure = None;
    for (key, value) in message.members() {
        match key {
            "error" => failure = Some(value),
            "id" => id = value.opaque_filled(),
            "model" => model = value.opaque_filled(),
            "type" => {}
            "role" if is_usual(value, &["assistant"]) => {}
            "content" if is_kind(value, JsonKind::String) || value.kind() == JsonKind::Array => {
                given = Some(value)
            }
            "usage" if is_kind(value, JsonKind::Object) => counts = Some(value),
            "stop_reason" if is_kind(value, JsonKind::String) => finish = value.filled(),
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if id.is_some() || model.is_some() {
        put(None, FragmentKind::Start { id, model, wire_type: MESSAGE }, sink);
    }
    if let Some(counts) = counts {
        report_usage(USAGE, counts, read_usage, sink);
    }
    if let Some(text) = given.and_then(Value::opaque_filled) {
        put(None, FragmentKind::Text { channel: TextChannel::Text, wire_type: TEXT, text }, sink);
    }
    for (index, content) in given.iter().flat_map(|given| given.elements()).enumerate() {
        let place = i64::try_from(index).ok().map(BlockKey::at);
        block(place, content, BlockExtent::Whole, sink);
        put(place, FragmentKind::End, sink);
    }
    if let Some(failure) = failure {
        error(failure, ERRORS, sink);
    }
    if let Some(wire_type) = finish {
        let reason = finish_reason(wire_type, FINISH);
        put(None, FragmentKind::Finish { reason, raw: Some(wire_type.into()) }, sink);
    }
}

const REDACTED: TextChannel = TextChannel::Reasoning(ReasoningForm::Redacted);

/// Reads a block, and ends any earlier block with the same key.
fn block(place: Option<BlockKey>, block: Value<'_>, extent: BlockExtent, sink: &mut FragmentSink<'_>) {
    let wire_type = block.get("type").and_then(Value::str).map_or("", Str::written);
    let is_announced = wire_type == COMPACTION && extent == BlockExtent::Beginning;
    if is_announced && block.get("content").is_none_or(Value::is_null) {
        // Its content will follow.
        return;
    }
    // A call is identified by its id: the same id announced again continues it.
    if !wire_type.ends_with("tool_use") {
        put(place, FragmentKind::End, sink);
    }
    match wire_type {
        TEXT => text_block(place, TextChannel::Text, wire_type, block, sink),
        THINKING => text_block(place, TextChannel::REASONING, wire_type, block, sink),
        REDACTED_THINKING => text_block(place, REDACTED, wire_type, block, sink),
        TOOL_USE => call(place, CallKind::Function, wire_type, block, extent, sink),
        // The provider runs these itself: `server_tool_use`, `mcp_tool_use`.
        _ if wire_type.ends_with("tool_use") => {
            call(place, CallKind::Builtin, wire_type, block, extent, sink)
        }
        _ if wire_type.ends_with("tool_result") => {
            let call = block.get("tool_use_id").and_then(Value::opaque_filled);
            put(place, FragmentKind::ToolResult { call, wire_type, value: block.opaque_json() }, sink);
        }
        _ => {
            let model = block.get("to").and_then(|to| to.get("model")).and_then(Value::opaque_filled);
            if let Some(model) = model.filter(|_| wire_type == FALLBACK) {
                put(None, FragmentKind::Rerouted { model }, sink);
            }
            put(None, FragmentKind::Opaque { wire_type, value: block.opaque_json() }, sink);
        }
    }
}

/// Reads a text or thinking block as it begins, or complete.
fn text_block(
    place: Option<BlockKey>,
    channel: TextChannel,
    wire_type: &str,
    block: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    let members = ContentMembers::read(block);
    members.emit_extra(ExtraSubject::next(0), block, sink);
    put(place, FragmentKind::Open { channel, wire_type }, sink);
    content(place, block, &members, sink);
}

/// The content members of a block or delta.
#[derive(Default)]
struct ContentMembers<'a> {
    kind: Option<Value<'a>>,
    has_hung: bool,
    /// The last member that grows the block, and whether there are others.
    growing: Option<(&'a str, Value<'a>)>,
    has_more: bool,
    /// Whether there are members that are not read as content.
    has_extra: bool,
}

impl<'a> ContentMembers<'a> {
    #[inline]
    fn read(content: Value<'a>) -> Self {
        let mut members = Self::default();
        for (key, value) in content.members() {
            match MemberRole::of(key, value) {
                MemberRole::Kind => members.kind = Some(value),
                MemberRole::Hung => members.has_hung = true,
                MemberRole::Growing => {
                    members.has_more |= members.growing.is_some();
                    members.growing = Some((key, value));
                }
                MemberRole::Foreign => members.has_extra = true,
            }
        }
        members
    }

    /// Passes on the members that are not read as content.
    fn emit_extra(&self, subject: ExtraSubject, content: Value<'a>, sink: &mut FragmentSink<'_>) {
        if self.has_extra {
            let is_extra =
                |(key, value): &(&str, Value<'_>)| MemberRole::of(key, *value) == MemberRole::Foreign;
            for (key, value) in content.members().filter(is_extra) {
                extra(subject, "", key, value, sink);
            }
        }
    }
}

/// The role of a member in a block or delta.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberRole {
    Kind,
    /// It is an attachment of the block.
    Hung,
    /// The block grows by it.
    Growing,
    /// It is not read as content.
    Foreign,
}

impl MemberRole {
    #[inline(always)]
    fn of(key: &str, value: Value<'_>) -> Self {
        match key {
            "type" => Self::Kind,
            "partial_json" => Self::Growing,
            TEXT | THINKING if is_kind(value, JsonKind::String) => Self::Growing,
            "citation" => Self::Hung,
            SIGNATURE | DATA if is_kind(value, JsonKind::String) => Self::Hung,
            CITATIONS if is_kind(value, JsonKind::Array) => Self::Hung,
            _ => Self::Foreign,
        }
    }
}

/// Reads the members of a text or thinking block, and of the deltas that grow any block: attachments first.
fn content(
    place: Option<BlockKey>,
    content: Value<'_>,
    members: &ContentMembers<'_>,
    sink: &mut FragmentSink<'_>,
) {
    let mut hang = |kind, wire_type: &str, value: Value<'_>| {
        put(place, FragmentKind::hung(THINKING, kind, wire_type, value.opaque_json()), sink);
    };
    let hung = content.members().take_while(|_| members.has_hung);
    for (key, value) in hung.filter(|(key, value)| MemberRole::of(key, *value) == MemberRole::Hung) {
        match key {
            SIGNATURE if value.is_filled() => hang(AttachmentKind::Signature, key, value),
            DATA if value.is_filled() => hang(AttachmentKind::Encrypted, key, value),
            "citation" => hang(AttachmentKind::Annotation, CITATIONS, value),
            CITATIONS => {
                value.elements().for_each(|citation| hang(AttachmentKind::Annotation, key, citation));
            }
            _ => {}
        }
    }
    match members.growing {
        _ if members.has_more => content.members().for_each(|(key, value)| grow(place, key, value, sink)),
        Some((key, value)) => grow(place, key, value, sink),
        None => {}
    }
}

/// Reads a member that grows a block; others are ignored here.
fn grow(place: Option<BlockKey>, key: &str, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    match (key, value.opaque_filled()) {
        (TEXT, Some(text)) => {
            put(place, FragmentKind::Text { channel: TextChannel::Text, wire_type: TEXT, text }, sink)
        }
        (THINKING, Some(text)) => {
            put(
                place,
                FragmentKind::Text { channel: TextChannel::REASONING, wire_type: THINKING, text },
                sink,
            );
        }
        ("partial_json", _) => {
            let arguments = match value.kind() {
                JsonKind::Null => None,
                JsonKind::String => value.opaque().map(FragmentArguments::Text),
                _ => Some(FragmentArguments::Value(value.opaque_json())),
            };
            let (kind, wire_type) = (CallKind::Function, TOOL_USE);
            put(place, FragmentKind::Call { id: None, name: None, kind, wire_type, arguments }, sink);
        }
        _ => {}
    }
}

fn delta(place: Option<BlockKey>, delta: Value<'_>, sink: &mut FragmentSink<'_>) {
    let members = ContentMembers::read(delta);
    let wire_type = members.kind.and_then(Value::str).map_or("", Str::written);
    if wire_type == COMPACTION_DELTA {
        let members = delta.members().filter(|(key, _)| *key != "type");
        let value = members.fold(format!("{{\"type\":\"{COMPACTION}\""), |object, (key, value)| {
            format!("{object},\"{key}\":{}", value.raw())
        });
        return put(
            None,
            FragmentKind::Opaque { wire_type: COMPACTION, value: (&*(value + "}")).into() },
            sink,
        );
    }
    let subject = place.map_or(ExtraSubject::choice(0), |place| ExtraSubject::block(0, place));
    let is_unknown = !wire_type.is_empty() && !is_delta(wire_type);
    if is_unknown && !members.has_hung && members.growing.is_none() {
        return extra(subject, "", wire_type, delta, sink);
    }
    members.emit_extra(subject, delta, sink);
    content(place, delta, &members, sink);
}

fn call(
    place: Option<BlockKey>,
    kind: CallKind,
    wire_type: &str,
    block: Value<'_>,
    extent: BlockExtent,
    sink: &mut FragmentSink<'_>,
) {
    let (mut id, mut name, mut arguments) = (None, None, FragmentArguments::Text("".into()));
    for (key, value) in block.members() {
        match key {
            "type" => {}
            "id" => id = value.opaque_filled(),
            "name" => name = value.opaque_filled(),
            "input" => match value.kind() {
                JsonKind::Null => {}
                JsonKind::String => arguments = value.opaque().map_or(arguments, FragmentArguments::Text),
                // Where deltas may follow, `{}` is only a placeholder.
                JsonKind::Object if extent == BlockExtent::Beginning && value.members().next().is_none() => {}
                _ => arguments = FragmentArguments::Value(value.opaque_json()),
            },
            _ => extra(ExtraSubject::next(0), "", key, value, sink),
        }
    }
    put(place, FragmentKind::Call { id, name, kind, wire_type, arguments: Some(arguments) }, sink);
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    let [input_tokens, output_tokens, cached_tokens, cache_write_tokens] = counts(
        usage,
        ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"],
    );
    let cache = cached_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
    TokenCounts {
        // The wire counts cached tokens beside the input.
        input_tokens: input_tokens.map(|input| input.saturating_add(cache)),
        output_tokens,
        total_tokens: None,
        cached_tokens,
        cache_write_tokens,
        reasoning_tokens: usage
            .get("output_tokens_details")
            .and_then(|details| details.get("thinking_tokens"))
            .and_then(Value::count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn is_ours(event: Option<&str>, frame: &str) -> bool {
        recognise(&ProtocolFrame { event, value: Tape::new().parse(frame).expect("valid") }).is_some()
    }

    #[test]
    fn an_error_is_ours_only_if_it_says_so_itself() {
        assert!(is_ours(None, r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#));
        assert!(!is_ours(Some("error"), r#"{"error":{"message":"m"}}"#));
        assert!(!is_ours(None, r#"{"type":"error","message":"m"}"#));
        assert!(!is_ours(None, r#"{"type":"error","error":{"message":"m"},"sequence_number":2}"#));
    }

    #[test]
    fn the_framing_may_name_what_the_frame_does_not() {
        assert!(is_ours(Some("message_stop"), "{}"));
        assert!(!is_ours(None, "{}"));
    }
}
