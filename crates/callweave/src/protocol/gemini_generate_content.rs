//! Gemini `generateContent` and `streamGenerateContent` (Google AI and Vertex): chunk and complete body have the same
//! shape, and a stream may also come as one JSON array.
//!
//! Parts have no number. Text continues the running block of its kind; every named `functionCall` is a call of its own,
//! at any position, and Vertex's streamed arguments belong to the call that is still open. SDK dumps spell every member
//! in snake case, so both spellings are read.

mod encode;
mod request;

use std::fmt::Write;

use super::{
    DetectionEvidence, ErrorCoding, ExtraSubject, Protocol, ProtocolFrame, choice_number, error, extra,
    finish_reason, is_kind, is_usual, report_usage,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, TokenCounts};
use crate::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel,
};
use crate::json::{JsonKind, NodeMark, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Gemini generateContent (Google AI, Vertex).
pub static PROTOCOL: Protocol = Protocol {
    name: "gemini-generatecontent",
    aliases: &["gemini", "generatecontent", "generate-content", "google", "vertex", "google-vertex"],
    title: "Gemini generateContent (Google AI, Vertex)",
    volatile: &[],
    kind_follows_text: true,
    errors: ERRORS,
    failure: Some(ErrorCoding::new(encode::write_failure)),
    recognise,
    decode,
    encode: Some(encode::ENCODING),
    request: Some(request::CODING),
};

const FINISH: &[(&str, FinishReason)] = &[
    (words::STOP, FinishReason::Stop),
    ("MAX_TOKENS", FinishReason::Length),
    ("SAFETY", FinishReason::ContentFilter),
    ("RECITATION", FinishReason::ContentFilter),
    ("BLOCKLIST", FinishReason::ContentFilter),
    ("PROHIBITED_CONTENT", FinishReason::ContentFilter),
    ("SPII", FinishReason::ContentFilter),
    ("MODEL_ARMOR", FinishReason::ContentFilter),
    ("IMAGE_SAFETY", FinishReason::ContentFilter),
    ("IMAGE_PROHIBITED_CONTENT", FinishReason::ContentFilter),
    ("IMAGE_RECITATION", FinishReason::ContentFilter),
    ("IMAGE_OTHER", FinishReason::ContentFilter),
    ("OTHER", FinishReason::Error),
    ("MALFORMED_FUNCTION_CALL", FinishReason::Error),
    ("MALFORMED_RESPONSE", FinishReason::Error),
    ("UNEXPECTED_TOOL_CALL", FinishReason::Error),
    ("TOO_MANY_TOOL_CALLS", FinishReason::Error),
    ("MISSING_THOUGHT_SIGNATURE", FinishReason::Error),
    (words::UNSPECIFIED, FinishReason::Other),
];

/// The same as numbers, which some of Vertex's clients write instead of the names.
const FINISH_NUMBERS: [&str; 11] = [
    words::UNSPECIFIED,
    words::STOP,
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
];

/// The status names of Google's APIs, and the reasons in their details.
const ERRORS: &[(&str, ErrorClass)] = &[
    ("UNAUTHENTICATED", ErrorClass::Authentication),
    ("API_KEY_INVALID", ErrorClass::Authentication),
    ("ACCESS_TOKEN_EXPIRED", ErrorClass::Authentication),
    ("CREDENTIALS_MISSING", ErrorClass::Authentication),
    ("PERMISSION_DENIED", ErrorClass::Permission),
    ("BILLING_DISABLED", ErrorClass::Permission),
    ("SERVICE_DISABLED", ErrorClass::Permission),
    ("RESOURCE_EXHAUSTED", ErrorClass::RateLimit),
    ("RATE_LIMIT_EXCEEDED", ErrorClass::RateLimit),
    ("UNAVAILABLE", ErrorClass::Overloaded),
    ("INVALID_ARGUMENT", ErrorClass::InvalidRequest),
    ("FAILED_PRECONDITION", ErrorClass::InvalidRequest),
    ("OUT_OF_RANGE", ErrorClass::InvalidRequest),
    ("ALREADY_EXISTS", ErrorClass::InvalidRequest),
    ("UNIMPLEMENTED", ErrorClass::InvalidRequest),
    ("NOT_FOUND", ErrorClass::NotFound),
    ("INTERNAL", ErrorClass::Server),
    ("UNKNOWN", ErrorClass::Server),
    ("ABORTED", ErrorClass::Server),
    ("DATA_LOSS", ErrorClass::Server),
    ("DEADLINE_EXCEEDED", ErrorClass::Transport),
    ("CANCELLED", ErrorClass::Transport),
];

/// The tool behind `executableCode`, by its name in requests.
const CODE_EXECUTION: Str<'static> = Str::Plain("code_execution");

mod words {
    pub(super) const STOP: &str = "STOP";
    pub(super) const UNSPECIFIED: &str = "FINISH_REASON_UNSPECIFIED";
    pub(super) const TEXT: &str = "text";
    pub(super) const THOUGHT: &str = "thought";
    pub(super) const SIGNATURE: &str = "thoughtSignature";
    pub(super) const FUNCTION_CALL: &str = "functionCall";
    /// A function call with arguments that come leaf by leaf.
    pub(super) const PARTIAL_ARGS: &str = "partialArgs";
    pub(super) const FUNCTION_RESPONSE: &str = "functionResponse";
    pub(super) const EXECUTABLE_CODE: &str = "executableCode";
    pub(super) const TOOL_CALL: &str = "toolCall";
    pub(super) const INLINE_DATA: &str = "inlineData";
    pub(super) const FILE_DATA: &str = "fileData";
    /// A part of none of these types.
    pub(super) const PARTS: &str = "parts";
    pub(super) const LOGPROBS: &str = "logprobsResult";
    pub(super) const CITATIONS: [&str; 3] = ["citationSources", "citation_sources", "citations"];
    pub(super) const CITATION_METADATA: &str = "citationMetadata";
    pub(super) const PROMPT_FEEDBACK: &str = "promptFeedback";
    pub(super) const USAGE: &str = "usageMetadata";
}

/// The wire type of a response; the wire has no name of its own.
const RESPONSE: &str = "generateContent";

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value.elements().next().unwrap_or(input.value);
    let is_strong = is_response(body) || body.get("response").is_some_and(is_response);
    DetectionEvidence::of(is_strong, || is_error(body))
}

fn is_response(body: Value<'_>) -> bool {
    body.members().any(|(key, value)| match key {
        "candidates" => value.kind() == JsonKind::Array,
        "promptFeedback" | "prompt_feedback" | "usageMetadata" | "usage_metadata" => {
            value.kind() == JsonKind::Object
        }
        // Not in snake case: other protocols name a model's version that way.
        "modelVersion" => value.kind() == JsonKind::String,
        _ => false,
    })
}

/// Whether it is an error: Google's have a number and a status name.
fn is_error(body: Value<'_>) -> bool {
    body.get("error").is_some_and(is_error_object)
}

fn is_error_object(error: Value<'_>) -> bool {
    error.get("code").is_some_and(|code| code.kind() == JsonKind::Number)
        && error.get("status").is_some_and(|status| status.kind() == JsonKind::String)
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    if input.value.kind() == JsonKind::Array {
        for chunk in input.value.elements() {
            decode_chunk(chunk, sink);
        }
    } else {
        decode_chunk(input.value, sink);
    }
}

/// Reads a chunk, and Code Assist's wrapper around it.
fn decode_chunk(mut chunk: Value<'_>, sink: &mut FragmentSink<'_>) {
    while let Some(inner) = decode_outermost(chunk, sink) {
        chunk = inner;
    }
}

/// Reads a chunk; returns the chunk that it wraps.
fn decode_outermost<'a>(chunk: Value<'a>, sink: &mut FragmentSink<'_>) -> Option<Value<'a>> {
    let [mut candidates, mut usage, mut feedback, mut failure, mut inner] = [NodeMark::default(); 5];
    // The wire's own spelling, or else that of SDK dumps.
    let [[mut id, mut dumped_id], [mut model, mut dumped_model]] = [[NodeMark::default(); 2]; 2];
    for (key, value) in chunk.members() {
        match key {
            "responseId" => id = value.mark(),
            "response_id" => dumped_id = value.mark(),
            "modelVersion" => model = value.mark(),
            "model_version" => dumped_model = value.mark(),
            "candidates" => candidates = value.mark(),
            "usageMetadata" | "usage_metadata" => usage = value.mark(),
            "promptFeedback" | "prompt_feedback" => {
                feedback = value.mark();
                extra(ExtraSubject::ANSWER, "", key, value, sink);
            }
            "error" => failure = value.mark(),
            "response" if value.kind() == JsonKind::Object => inner = value.mark(),
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    let named = |mark| chunk.marked(mark).and_then(Value::opaque_filled);
    let (id, model) = (named(id.or(dumped_id)), named(model.or(dumped_model)));
    let is_response = candidates.is_set() || usage.is_set() || feedback.is_set();
    if id.is_some() || model.is_some() || is_response {
        sink.put(Fragment::new(FragmentKind::Start { id, model, wire_type: RESPONSE }));
    }
    if let Some(usage) = chunk.marked(usage) {
        report_usage(words::USAGE, usage, read_usage, sink);
    }
    // A blocked prompt has no candidate that could have a finish reason.
    if let Some(feedback) = chunk.marked(feedback)
        && let Some(raw) = either(feedback, "blockReason", "block_reason").and_then(Value::opaque_filled)
    {
        sink.put(Fragment::new(FragmentKind::Finish { reason: FinishReason::ContentFilter, raw: Some(raw) }));
    }
    if let Some(candidates) = chunk.marked(candidates) {
        for (position, candidate) in candidates.elements().enumerate() {
            decode_candidate(candidate, position, sink);
        }
    }
    if let Some(failure) = chunk.marked(failure) {
        error(failure, ERRORS, sink);
    }
    chunk.marked(inner)
}

/// The member of that name in either spelling.
fn either<'a>(object: Value<'a>, camel: &str, snake: &str) -> Option<Value<'a>> {
    object.get(camel).or_else(|| object.get(snake))
}

fn decode_candidate(candidate: Value<'_>, position: usize, sink: &mut FragmentSink<'_>) {
    let [mut index, mut content, mut finish] = [NodeMark::default(); 3];
    let mut has_more = false;
    for (key, value) in candidate.members() {
        match key {
            "content" => content = value.mark(),
            "index" => index = value.mark(),
            "finishReason" | "finish_reason" => finish = value.mark(),
            _ => has_more = true,
        }
    }
    let choice = choice_number(candidate.marked(index), position);
    sink.put(Fragment::new(FragmentKind::Choice).in_choice(choice));
    if has_more {
        decode_beside(choice, candidate, sink);
    }
    if let Some(content) = candidate.marked(content) {
        for (key, value) in content.members() {
            match key {
                "parts" => value.elements().for_each(|part| decode_part(choice, part, sink)),
                "role" if is_usual(value, &["model"]) => {}
                _ => extra(ExtraSubject::choice(choice), "content.", key, value, sink),
            }
        }
    }
    let finish = candidate.marked(finish);
    if let Some(wire_type) = finish.and_then(Value::filled) {
        let reason = finish_reason(wire_type, FINISH);
        sink.put(
            Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }).in_choice(choice),
        );
    } else if let Some(number) = finish.filter(|finish| finish.kind() == JsonKind::Number) {
        let wire_type = number.index().and_then(|number| FINISH_NUMBERS.get(usize::try_from(number).ok()?));
        let reason =
            wire_type.map_or(FinishReason::Other, |wire_type| finish_reason(Str::Plain(wire_type), FINISH));
        let raw = Some(Str::Plain(number.raw()));
        // Zero means unspecified.
        if number.raw() != "0" {
            sink.put(
                Fragment::new(FragmentKind::Finish { reason, raw: raw.map(Into::into) }).in_choice(choice),
            );
        }
    }
}

/// Reads the members of a candidate beside its content.
fn decode_beside(choice: u32, candidate: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in candidate.members() {
        match key {
            "index" | "content" | "finishReason" | "finish_reason" => {}
            // One annotation: its supports name its chunks by their position.
            "groundingMetadata" | "grounding_metadata" => {
                if value.members().next().is_some() {
                    annotation(choice, key, value, sink);
                }
            }
            "citationMetadata" | "citation_metadata" => decode_citations(choice, value, sink),
            "logprobsResult" | "logprobs_result" => decode_logprobs(choice, value, sink),
            _ => extra(ExtraSubject::choice(choice), "", key, value, sink),
        }
    }
}

fn annotation(choice: u32, wire_type: &str, value: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (level, kind) = (ExtraScope::Choice, AttachmentKind::Annotation);
    let part = FragmentKind::Attach { level, on: "", kind, wire_type, value: value.opaque_json() };
    sink.put(Fragment::new(part).in_choice(choice));
}

fn decode_citations(choice: u32, metadata: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in metadata.members() {
        match key {
            // Google AI's name for them, and Vertex's.
            key if words::CITATIONS.contains(&key) => {
                value.elements().for_each(|citation| annotation(choice, key, citation, sink));
            }
            _ => extra(ExtraSubject::choice(choice), "citationMetadata.", key, value, sink),
        }
    }
}

/// Reads log probabilities. Google lists the chosen tokens and their alternatives separately. Here each token has its
/// alternatives with it, to let the entries of several chunks follow each other.
fn decode_logprobs(choice: u32, result: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut chosen, mut rivals) = (None, None);
    for (key, value) in result.members() {
        match key {
            "chosenCandidates" | "chosen_candidates" => chosen = Some(value),
            "topCandidates" | "top_candidates" => rivals = Some(value),
            _ => extra(ExtraSubject::choice(choice), "logprobsResult.", key, value, sink),
        }
    }
    let [mut chosen, mut rivals] =
        [chosen, rivals].map(|list| list.into_iter().flat_map(|list| list.elements()));
    let mut entries = String::new();
    loop {
        let (token, rivals) = (chosen.next(), rivals.next());
        if token.is_none() && rivals.is_none() {
            break;
        }
        entries.push_str(if entries.is_empty() { "[{" } else { ",{" });
        let members = token.into_iter().flat_map(|token| token.members());
        let rivals = rivals.into_iter().flat_map(|rivals| rivals.members());
        let rivals =
            rivals.map(|(key, list)| (if key == "candidates" { "topCandidates" } else { key }, list));
        for (at, (key, value)) in members.chain(rivals).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(entries, "{comma}\"{key}\":{}", value.raw());
        }
        entries.push('}');
    }
    if !entries.is_empty() {
        entries.push(']');
        let (level, kind, wire_type) = (ExtraScope::Choice, AttachmentKind::Logprobs, words::LOGPROBS);
        let part = FragmentKind::Attach { level, on: "", kind, wire_type, value: (&*entries).into() };
        sink.put(Fragment::new(part).in_choice(choice));
    }
}

/// Reads a part: a text, or a part with one content member that is its type; the other members belong to that.
///
/// A signature belongs to its own part, so a signed part is a block of its own, even without any text.
fn decode_part(choice: u32, part: Value<'_>, sink: &mut FragmentSink<'_>) {
    let [mut text, mut thought, mut own, mut dumped] = [NodeMark::default(); 4];
    let (mut is_odd, mut has_content, mut has_rest) = (part.kind() != JsonKind::Object, false, false);
    for (key, value) in part.members() {
        match key {
            "text" => {
                is_odd |= !is_kind(value, JsonKind::String);
                text = value.mark();
            }
            "thought" => thought = value.mark(),
            "thoughtSignature" | "thought_signature" => {
                // A value that is no string is passed on.
                has_rest |= !is_kind(value, JsonKind::String);
                match key {
                    words::SIGNATURE => own = value.mark(),
                    _ => dumped = value.mark(),
                }
            }
            key if content_type(key).is_some() => {
                is_odd |= !is_kind(value, JsonKind::Object);
                has_content |= !value.is_null();
            }
            _ => has_rest = true,
        }
    }
    let mut put = |part| sink.put(Fragment::new(part).in_choice(choice));
    if is_odd {
        return put(FragmentKind::Opaque { wire_type: words::PARTS, value: part.opaque_json() });
    }
    let is_reasoning = part.marked(thought).and_then(Value::bool) == Some(true);
    let (channel, wire_type) = if is_reasoning {
        (TextChannel::REASONING, words::THOUGHT)
    } else {
        (TextChannel::Text, words::TEXT)
    };
    let text = part.marked(text).and_then(Value::opaque_filled);
    let signature = part.marked(own.or(dumped)).filter(|signature| signature.kind() == JsonKind::String);
    if has_content {
        if let Some(text) = text {
            put(FragmentKind::Text { channel, wire_type, text });
        }
        for (key, content) in part.members().filter(|(_, value)| !value.is_null()) {
            if let Some(wire_type) = content_type(key) {
                decode_part_content(choice, part, signature, (wire_type, content), sink);
            }
        }
        return;
    }
    let signature = signature.filter(|signature| signature.is_filled());
    if signature.is_some() {
        end_last(choice, sink);
    }
    if has_rest {
        let is_told = text.is_some() || signature.is_some();
        let subject = if is_told { ExtraSubject::next(choice) } else { ExtraSubject::choice(choice) };
        decode_rest(subject, part, sink);
    }
    if let Some(signature) = signature {
        sink.put(Fragment::new(FragmentKind::Open { channel, wire_type }).in_choice(choice));
        sign(choice, signature, ExtraScope::Block, sink);
    }
    if let Some(text) = text {
        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).in_choice(choice));
    }
    if signature.is_some() {
        end_last(choice, sink);
    }
}

/// Ends the block that was mentioned last.
fn end_last(choice: u32, sink: &mut FragmentSink<'_>) {
    sink.put(Fragment::new(FragmentKind::End).in_choice(choice).at(BlockKey::LAST));
}

/// Attaches a signature to the block that was mentioned last, or to the next.
fn sign(choice: u32, signature: Value<'_>, level: ExtraScope, sink: &mut FragmentSink<'_>) {
    let (kind, wire_type) = (AttachmentKind::Signature, words::SIGNATURE);
    let part = FragmentKind::Attach { level, on: "", kind, wire_type, value: signature.opaque_json() };
    sink.put(Fragment::new(part).in_choice(choice).at(BlockKey::LAST));
}

fn decode_part_content(
    choice: u32,
    part: Value<'_>,
    signature: Option<Value<'_>>,
    (wire_type, content): (&'static str, Value<'_>),
    sink: &mut FragmentSink<'_>,
) {
    decode_rest(ExtraSubject::next(choice), part, sink);
    let is_call = matches!(wire_type, words::FUNCTION_CALL | words::EXECUTABLE_CODE | words::TOOL_CALL);
    if let Some(signature) = signature.filter(|_| !is_call) {
        sign(choice, signature, ExtraScope::Next, sink);
    }
    let mut put = |part| sink.put(Fragment::new(part).in_choice(choice));
    let mut continues = false;
    match wire_type {
        words::FUNCTION_CALL => continues = decode_call(choice, content, sink),
        words::EXECUTABLE_CODE => {
            let id = content.get("id").and_then(Value::opaque_filled);
            let (name, arguments) =
                (Some(CODE_EXECUTION), Some(FragmentArguments::Value(content.opaque_json())));
            put(FragmentKind::Call {
                id,
                name: name.map(Into::into),
                kind: CallKind::Builtin,
                wire_type,
                arguments,
            });
        }
        words::TOOL_CALL => decode_tool_call(choice, wire_type, content, sink),
        words::INLINE_DATA | words::FILE_DATA => {
            return put(FragmentKind::Opaque { wire_type, value: content.opaque_json() });
        }
        _ => {
            let call = content.get("id").and_then(Value::opaque_filled);
            return put(FragmentKind::ToolResult { call, wire_type, value: content.opaque_json() });
        }
    }
    if let Some(signature) = signature {
        sign(choice, signature, ExtraScope::Block, sink);
    }
    if !continues {
        end_last(choice, sink);
    }
}

/// Reads the members of a part beside its content and its signature.
fn decode_rest(subject: ExtraSubject, part: Value<'_>, sink: &mut FragmentSink<'_>) {
    for (key, value) in part.members() {
        let is_read = content_type(key).is_some()
            || matches!(key, "text" | "thought")
            || matches!(key, "thoughtSignature" | "thought_signature") && is_kind(value, JsonKind::String);
        if !is_read {
            extra(subject, "", key, value, sink);
        }
    }
}

/// The wire type of the member, if it is the content of the part; SDK dumps spell it differently.
fn content_type(key: &str) -> Option<&'static str> {
    Some(match key {
        words::FUNCTION_CALL | "function_call" => words::FUNCTION_CALL,
        words::FUNCTION_RESPONSE | "function_response" => words::FUNCTION_RESPONSE,
        words::EXECUTABLE_CODE | "executable_code" => words::EXECUTABLE_CODE,
        "codeExecutionResult" | "code_execution_result" => "codeExecutionResult",
        words::TOOL_CALL | "tool_call" => words::TOOL_CALL,
        "toolResponse" | "tool_response" => "toolResponse",
        words::INLINE_DATA | "inline_data" => words::INLINE_DATA,
        words::FILE_DATA | "file_data" => words::FILE_DATA,
        _ => return None,
    })
}

/// Reads a call, complete or in pieces; returns whether more of it will come.
fn decode_call(choice: u32, call: Value<'_>, sink: &mut FragmentSink<'_>) -> bool {
    let (mut id, mut name, mut given, mut pieces) = (None, None, None, None);
    let mut continues = false;
    for (key, value) in call.members() {
        match key {
            "id" => id = value.opaque_filled(),
            "name" => name = value.opaque_filled(),
            "args" => given = Some(value).filter(|value| !value.is_null()),
            "partialArgs" | "partial_args" => pieces = Some(value).filter(|value| !value.is_null()),
            "willContinue" | "will_continue" => continues = value.bool() == Some(true),
            _ => extra(ExtraSubject::next(choice), "functionCall.", key, value, sink),
        }
    }
    let is_streamed = continues || pieces.is_some();
    let wire_type = if is_streamed { words::PARTIAL_ARGS } else { words::FUNCTION_CALL };
    let put = |id, name, arguments, sink: &mut FragmentSink<'_>| {
        let part = FragmentKind::Call { id, name, kind: CallKind::Function, wire_type, arguments };
        sink.put(Fragment::new(part).in_choice(choice));
    };
    let is_announced = is_streamed && (id.is_some() || name.is_some());
    if is_announced {
        // More has to come, if only the mark that nothing does.
        put(id, name, Some(FragmentArguments::Opening { fallback: None, expects_text: true }), sink);
        name = None;
    }
    match given {
        // An empty object while more is to come is a placeholder.
        Some(args) if !is_streamed || args.kind() != JsonKind::Object || args.members().next().is_some() => {
            put(
                id,
                name,
                Some(
                    args.opaque()
                        .map_or(FragmentArguments::Value(args.opaque_json()), FragmentArguments::Complete),
                ),
                sink,
            );
        }
        _ if name.is_some() => put(id, name, Some(FragmentArguments::Value("{}".into())), sink),
        _ => {}
    }
    for piece in pieces.iter().flat_map(|pieces| pieces.elements()) {
        match leaf(piece) {
            Some(leaf) => put(id, None, Some(leaf), sink),
            None => {
                extra(
                    ExtraSubject::block(choice, BlockKey::LAST),
                    "functionCall.",
                    "partialArgs",
                    piece,
                    sink,
                );
            }
        }
    }
    if !continues && (is_streamed || given.is_none()) {
        put(id, None, Some(FragmentArguments::Text("".into())), sink);
    }
    continues
}

/// Reads one of Vertex's `partialArgs`: a path and one typed value, such as `stringValue`.
fn leaf(piece: Value<'_>) -> Option<FragmentArguments<'_>> {
    let (mut path, mut value, mut continues) = (None, None, false);
    for (key, member) in piece.members() {
        match key {
            "jsonPath" | "json_path" => path = member.str(),
            "willContinue" | "will_continue" => continues = member.bool() == Some(true),
            // Written as null, or as the one name of its enumeration.
            "nullValue" | "null_value" => value = value.or(Some("null")),
            _ if member.is_null() => {}
            _ => value = Some(member.raw()),
        }
    }
    Some(FragmentArguments::Leaf { path: path?.into(), value: value?.into(), continues })
}

/// Reads the call of a tool that Google runs, named by its type.
fn decode_tool_call(choice: u32, wire_type: &str, call: Value<'_>, sink: &mut FragmentSink<'_>) {
    let id = call.get("id").and_then(Value::opaque_filled);
    let name = either(call, "toolType", "tool_type").and_then(Value::opaque_filled);
    let args = call.get("args").filter(|args| !args.is_null());
    for (key, value) in call.members() {
        if !matches!(key, "id" | "toolType" | "tool_type" | "args") {
            extra(ExtraSubject::next(choice), "toolCall.", key, value, sink);
        }
    }
    let arguments = Some(FragmentArguments::Value(args.map_or("{}".into(), Value::opaque_json)));
    let part = FragmentKind::Call { id, name, kind: CallKind::Builtin, wire_type, arguments };
    sink.put(Fragment::new(part).in_choice(choice));
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    // The wire's own spelling, or else that of SDK dumps.
    let [mut own, mut dumped] = [[NodeMark::default(); 6]; 2];
    for (key, value) in usage.members() {
        let count = match key {
            "promptTokenCount" => &mut own[0],
            "candidatesTokenCount" => &mut own[1],
            "totalTokenCount" => &mut own[2],
            "thoughtsTokenCount" => &mut own[3],
            "cachedContentTokenCount" => &mut own[4],
            "toolUsePromptTokenCount" => &mut own[5],
            "prompt_token_count" => &mut dumped[0],
            "candidates_token_count" => &mut dumped[1],
            "total_token_count" => &mut dumped[2],
            "thoughts_token_count" => &mut dumped[3],
            "cached_content_token_count" => &mut dumped[4],
            "tool_use_prompt_token_count" => &mut dumped[5],
            _ => continue,
        };
        *count = value.mark();
    }
    let count = |at: usize| usage.marked(own[at].or(dumped[at])).and_then(Value::count);
    let thoughts = count(3);
    TokenCounts {
        input_tokens: sum(count(0), count(5)),
        output_tokens: sum(count(1), thoughts),
        total_tokens: count(2),
        cached_tokens: count(4),
        cache_write_tokens: None,
        reasoning_tokens: thoughts,
    }
}

/// The sum of the reported counts; none if nothing was reported.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}
