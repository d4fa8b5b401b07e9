//! OpenAI Responses: stream events and the complete response.
//!
//! A response is a list of *items* (messages, reasoning, calls, results of hosted tools), numbered by `output_index`.
//! An item is sent up to three times: when it begins (`output_item.added`), when it ends (`output_item.done`), and once
//! more in the complete response that closes the stream. Between the first two, deltas grow its parts. Every block key
//! comes from a number where there is one, and only else from `item_id`: some servers give an item a new id in every
//! event. The closing list numbers its items anew where it leaves some out, so they are found by id first.
//!
//! | wire | block key |
//! |---|---|
//! | an item, or a call, at `output_index` i | `BlockKey::at(i)` |
//! | its content part c, summary part s, reasoning part c | `.part(CONTENT, c)`, `.part(SUMMARY, s)`, `.part(THOUGHT, c)` |

mod encode;
mod request;

use super::error::{typed_code, write_typed};
use super::{
    DetectionEvidence, ErrorCoding, ErrorContext, ExtraSubject, Protocol, ProtocolFrame, counts, error,
    extra, finish_reason, is_usual, report, report_usage,
};
use crate::event::{AttachmentKind, CallKind, FinishReason, ReasoningForm, TokenCounts};
use crate::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel,
};
use crate::json::{JsonKind, NodeMark, Opaque, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// OpenAI Responses and compatible servers.
pub static PROTOCOL: Protocol = Protocol {
    name: "openai-responses",
    aliases: &["responses", "openai-response", "open-responses", "azure-responses", "chatgpt-responses"],
    title: "OpenAI Responses and compatible servers",
    volatile: VOLATILE,
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
    code: typed_code,
    ..ErrorCoding::new(|error, class, writer| {
        writer.object();
        writer.key("error");
        write_typed(error, ERRORS, class, writer);
        writer.end_object();
    })
};

/// Numbering of events, padding that hides token lengths, coordinates that are in the [`BlockKey`].
const VOLATILE: &[&str] = &[
    "sequence_number",
    "obfuscation",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "annotation_index",
];

/// Finish reasons: the status of a response, or the reason why it is incomplete.
const FINISH: &[(&str, FinishReason)] = &[
    ("completed", FinishReason::Stop),
    ("complete", FinishReason::Stop),
    ("max_output_tokens", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("content_filter", FinishReason::ContentFilter),
    ("failed", FinishReason::Error),
];

const ERRORS: &[(&str, ErrorClass)] = &[
    ("invalid_api_key", ErrorClass::Authentication),
    ("insufficient_quota", ErrorClass::Permission),
    ("usage_limit_reached", ErrorClass::Permission),
    ("usage_not_included", ErrorClass::Permission),
    ("rate_limit_exceeded", ErrorClass::RateLimit),
    ("server_is_overloaded", ErrorClass::Overloaded),
    ("slow_down", ErrorClass::Overloaded),
    ("invalid_request_error", ErrorClass::InvalidRequest),
    ("invalid_prompt", ErrorClass::InvalidRequest),
    ("previous_response_not_found", ErrorClass::InvalidRequest),
    ("context_length_exceeded", ErrorClass::ContextTooLong),
    ("model_not_found", ErrorClass::NotFound),
    ("unknown_url", ErrorClass::NotFound),
    ("response_not_found", ErrorClass::NotFound),
    ("server_error", ErrorClass::Server),
    ("timeout", ErrorClass::Transport),
    ("connection_error", ErrorClass::Transport),
    ("vector_store_timeout", ErrorClass::Transport),
];

/// The groups of parts of an item.
const CONTENT: u8 = 0;
const SUMMARY: u8 = 1;
const THOUGHT: u8 = 2;

/// The status of a truncated item.
const INCOMPLETE: &str = "incomplete";

/// The wire type of a response.
pub(super) const RESPONSE: &str = "response";

/// The wire types of blocks and of their attachments.
pub(super) mod words {
    pub(crate) const OUTPUT_TEXT: &str = "output_text";
    pub(crate) const REFUSAL: &str = "refusal";
    pub(crate) const REASONING_TEXT: &str = "reasoning_text";
    pub(crate) const SUMMARY_TEXT: &str = "summary_text";
    pub(crate) const ANNOTATIONS: &str = "annotations";
    pub(crate) const LOGPROBS: &str = "logprobs";
    pub(crate) const ENCRYPTED: &str = "encrypted_content";
    pub(crate) const USAGE: &str = "usage";
}

/// Items that are calls: their type, the member with the arguments, and whether they have a name of their own. Calls of
/// other tools are recognized by the ending of their type.
pub(super) const CALLS: &[(&str, &str, bool)] = &[
    ("function_call", "arguments", true),
    ("custom_tool_call", "input", true),
    ("mcp_call", "arguments", true),
    ("mcp_approval_request", "arguments", true),
    ("mcp_list_tools", "", false),
    ("code_interpreter_call", "code", false),
    ("web_search_call", "action", false),
    ("file_search_call", "queries", false),
    ("computer_call", "action", false),
    ("local_shell_call", "action", false),
    ("shell_call", "action", false),
    ("apply_patch_call", "operation", false),
    ("image_generation_call", "", false),
    ("program", "code", false),
];

/// The member with the arguments of such a call.
pub(super) fn arguments_word(kind: &str) -> &'static str {
    CALLS.iter().find(|(wire_type, ..)| *wire_type == kind).map_or("arguments", |(_, member, _)| member)
}

/// Whether such a call has a name of its own.
pub(super) fn is_named(kind: &str) -> bool {
    CALLS.iter().any(|(wire_type, _, is_named)| *wire_type == kind && *is_named)
}

/// Whether such items have a status. A status of other items is passed on.
pub(super) fn has_status(kind: &str) -> bool {
    let is_silent = matches!(kind, "reasoning" | "program" | "mcp_list_tools" | "mcp_approval_request");
    let is_known = kind == "message" || is_call(kind) || kind.ends_with("_output");
    is_known && !is_silent
}

fn is_call(kind: &str) -> bool {
    kind.ends_with("_call") || CALLS.iter().any(|(wire_type, ..)| *wire_type == kind)
}

/// The name of a call that has none of its own.
pub(super) fn tool_name(kind: &str) -> &str {
    kind.strip_suffix("_call").unwrap_or(kind)
}

/// The certainty of the values of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemCertainty {
    /// It begins: strings are final, lists and objects may still fill.
    Begin,
    /// It ends, after deltas that already held its content.
    End,
    /// It has ended and is repeated, with all others, at a position that may not be its number.
    Recap,
    /// It is sent only once.
    Once,
}

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    let (is_ours, evidence) = match event_name(input) {
        None => {
            let object = body.get("object").and_then(Value::str);
            (object.is_some_and(|object| object.written().starts_with("response")), DetectionEvidence::Strong)
        }
        Some("error") => (body.get("sequence_number").is_some(), DetectionEvidence::Weak),
        Some("keepalive") => (true, DetectionEvidence::Weak),
        Some(kind) => (kind.starts_with("response."), DetectionEvidence::Strong),
    };
    is_ours.then_some(evidence)
}

/// The event's own name, else the framing's; a complete response has neither.
fn event_name<'a>(input: &ProtocolFrame<'a>) -> Option<&'a str> {
    let named = input.value.members().find(|(key, _)| *key == "type");
    named
        .and_then(|(_, name)| name.filled())
        .map(Str::written)
        .or_else(|| input.event.filter(|_| input.value.get("object").is_none()))
}

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let Some(name) = event_name(input) else {
        decode_body(body, sink);
        return;
    };
    match name {
        // A sign that the connection is alive, and nothing else.
        "keepalive" => sink.put(Fragment::new(FragmentKind::Progress { wire_type: name, value: None })),
        "error" => decode_error(body, sink),
        _ => decode_event(name, body, sink),
    }
}

/// Reads a complete response, or the body of a failed request.
fn decode_body(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    if body.get("object").is_some() || body.get("output").is_some() {
        decode_response(body, None, sink);
    } else if ["error", "message", "detail"].iter().any(|key| body.get(key).is_some_and(is_told_error)) {
        decode_error(body, sink);
    } else {
        extra(ExtraSubject::ANSWER, "", "", body, sink);
    }
}

fn is_told_error(value: Value<'_>) -> bool {
    matches!(value.kind(), JsonKind::Object | JsonKind::Array | JsonKind::String)
        && value.get("content").is_none()
}

/// Reads an error in `error`, or in the members of the event itself.
fn decode_error(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    let Some(nested) =
        body.get("error").filter(|nested| matches!(nested.kind(), JsonKind::Object | JsonKind::String))
    else {
        error(body, ERRORS, sink);
        return;
    };
    for (key, value) in body.members() {
        if !matches!(key, "error" | "type") && !VOLATILE.contains(&key) {
            extra(ExtraSubject::ANSWER, "", key, value, sink);
        }
    }
    // Some servers put the code or the status beside the message.
    report(nested, ErrorContext { words: ERRORS, beside: Some(body), ..ErrorContext::default() }, sink);
}

/// The members of stream events that are read elsewhere.
const READ: &[&str] = &[
    "type",
    "delta",
    "text",
    "refusal",
    "arguments",
    "input",
    "code",
    "name",
    "logprobs",
    "item",
    "part",
    "annotation",
    "response",
];

/// The members of a stream event.
struct ResponsesEvent<'a> {
    body: Value<'a>,
    /// The number of the item, and its id.
    output: NodeMark,
    item_id: NodeMark,
    content: u64,
    summary: u64,
    /// The piece of a delta, or the complete value that a `done` restates.
    payload: NodeMark,
    name: Option<Opaque<'a>>,
    logprobs: NodeMark,
    /// `item`, `part`, `annotation` or `response`.
    subject: NodeMark,
    has_more: bool,
}

fn read_event(body: Value<'_>) -> ResponsesEvent<'_> {
    // All are marked first and then read: a value that is read at once would have to be stored for every member.
    let [mut output, mut item_id, mut content, mut summary, mut name] = [NodeMark::default(); 5];
    let [mut payload, mut logprobs, mut subject] = [NodeMark::default(); 3];
    let mut has_more = false;
    for (key, value) in body.members() {
        match key {
            "type" | "sequence_number" | "obfuscation" => {}
            "item_id" => item_id = value.mark(),
            "output_index" => output = value.mark(),
            "content_index" => content = value.mark(),
            "summary_index" => summary = value.mark(),
            "delta" | "text" | "refusal" | "arguments" | "input" | "code" => payload = value.mark(),
            "name" => name = value.mark(),
            "logprobs" => logprobs = value.mark(),
            "item" | "part" | "annotation" | "response" => subject = value.mark(),
            key => has_more |= !VOLATILE.contains(&key),
        }
    }
    let number = |mark| body.marked(mark).and_then(Value::count).unwrap_or(0);
    ResponsesEvent {
        body,
        output,
        item_id,
        content: number(content),
        summary: number(summary),
        payload,
        name: body.marked(name).and_then(Value::opaque_filled),
        logprobs,
        subject,
        has_more,
    }
}

impl ResponsesEvent<'_> {
    /// The key of the event's item. Called only where there is one: events with the complete response have none, and
    /// are long.
    #[inline]
    fn item_place(&self) -> BlockKey {
        let body = self.body;
        match body.marked(self.output) {
            Some(number) => BlockKey::of(number).unwrap_or(BlockKey::at(0)),
            None => {
                let own_id = || {
                    body.marked(self.subject).and_then(|subject| subject.get("id")).and_then(Value::filled)
                };
                let id = body.marked(self.item_id).and_then(Value::filled).or_else(own_id);
                id.map_or(anonymous(), |id| BlockKey::named(id.written()))
            }
        }
    }
}

/// The key of the item in events that neither number nor name it.
fn anonymous() -> BlockKey {
    BlockKey::named("")
}

/// The kinds of content that grow by deltas.
enum GrowingPart {
    /// A part of that group.
    Text(TextChannel, &'static str, u8),
    Call(CallKind, &'static str),
}

/// The content of the events named `response.<subject>.delta` and `.done`.
fn growing(subject: &str) -> Option<GrowingPart> {
    Some(match subject {
        "output_text" => GrowingPart::Text(TextChannel::Text, words::OUTPUT_TEXT, CONTENT),
        "refusal" => GrowingPart::Text(TextChannel::Refusal, words::REFUSAL, CONTENT),
        "reasoning_summary_text" => GrowingPart::Text(SUMMARIES, words::SUMMARY_TEXT, SUMMARY),
        "reasoning_text" => GrowingPart::Text(TextChannel::REASONING, words::REASONING_TEXT, THOUGHT),
        "function_call_arguments" => GrowingPart::Call(CallKind::Function, "arguments"),
        "custom_tool_call_input" => GrowingPart::Call(CallKind::Custom, "input"),
        "mcp_call_arguments" => GrowingPart::Call(CallKind::Builtin, "arguments"),
        "code_interpreter_call_code" => GrowingPart::Call(CallKind::Builtin, "code"),
        _ => return None,
    })
}

const SUMMARIES: TextChannel = TextChannel::Reasoning(ReasoningForm::Summary);

fn decode_event(name: &str, body: Value<'_>, sink: &mut FragmentSink<'_>) {
    let event = read_event(body);
    let subject = name.strip_prefix("response.").unwrap_or(name);
    // Nearly all events are deltas.
    let delta = subject.strip_suffix(".delta");
    let (subject, verb) = match delta {
        Some(subject) => (subject, "delta"),
        None => subject.rsplit_once('.').unwrap_or(("", subject)),
    };
    if let Some(growing) = growing(subject)
        && (delta.is_some() || verb == "done")
    {
        let place = event.item_place();
        event.emit_beside(ExtraSubject::item(place), body, sink);
        return grow(&growing, place, delta.is_some(), &event, sink);
    }
    let telling = if verb == "added" { ItemCertainty::Begin } else { ItemCertainty::End };
    match (subject, verb, body.marked(event.subject)) {
        ("", "created" | "queued" | "in_progress", response) => {
            event.emit_beside(ExtraSubject::ANSWER, body, sink);
            if let Some(response) = response {
                decode_response(response, Some(verb), sink);
            }
            sink.put(Fragment::new(FragmentKind::Progress { wire_type: name, value: None }));
        }
        ("", "completed" | "incomplete" | "failed" | "cancelled", Some(response)) => {
            event.emit_beside(ExtraSubject::ANSWER, body, sink);
            decode_response(response, Some(verb), sink);
        }
        ("output_item", "added" | "done", Some(item)) => {
            let (item, place) = (ResponsesItem::read(item), event.item_place());
            let or = (!event.output.is_set() && telling == ItemCertainty::End).then(anonymous);
            sink.put(Fragment::new(FragmentKind::Same { name: item.name(), or }).at(place));
            event.emit_beside(ExtraSubject::next(0), body, sink);
            decode_item(place, item, telling, sink);
        }
        ("content_part" | "reasoning_part", "added" | "done", Some(part)) => {
            let place = event.item_place();
            event.emit_beside(ExtraSubject::item(place), body, sink);
            decode_part(place, event.content, part, telling, sink);
        }
        ("reasoning_summary_part", "added" | "done", Some(part)) => {
            let place = event.item_place();
            event.emit_beside(ExtraSubject::item(place), body, sink);
            decode_summary(place, event.summary, part, telling, sink);
        }
        ("output_text.annotation" | "output_text_annotation", "added", Some(annotation)) => {
            let place = event.item_place();
            event.emit_beside(ExtraSubject::item(place), body, sink);
            let place = place.part(CONTENT, event.content);
            attach(place, AttachmentKind::Annotation, words::ANNOTATIONS, annotation, sink);
        }
        // Progress of a hosted tool, previews of its output and of the item's content, and future events.
        _ => {
            for (key, value) in body.members() {
                if key != "type" && !VOLATILE.contains(&key) {
                    sink.put(Fragment::new(FragmentKind::Detail { key, value: value.opaque_json() }));
                }
            }
            let part = FragmentKind::Progress { wire_type: name, value: Some("{}".into()) };
            sink.put(Fragment::new(part).at(event.item_place()));
        }
    }
}

impl ResponsesEvent<'_> {
    /// Emits the remaining members of the event, before its content.
    #[inline(always)]
    fn emit_beside(&self, subject: ExtraSubject, body: Value<'_>, sink: &mut FragmentSink<'_>) {
        if self.has_more {
            Self::tell_more(subject, body, sink);
        }
    }

    #[inline(never)]
    fn tell_more(subject: ExtraSubject, body: Value<'_>, sink: &mut FragmentSink<'_>) {
        for (key, value) in body.members() {
            if !READ.contains(&key) && !VOLATILE.contains(&key) {
                extra(subject, "", key, value, sink);
            }
        }
    }
}

/// Emits an attachment of the block with the block key.
fn attach(
    place: BlockKey,
    kind: AttachmentKind,
    wire_type: &str,
    value: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    let part = FragmentKind::hung("", kind, wire_type, value.opaque_json());
    sink.put(Fragment::new(part).at(place));
}

fn grow(
    growing: &GrowingPart,
    item: BlockKey,
    is_delta: bool,
    event: &ResponsesEvent<'_>,
    sink: &mut FragmentSink<'_>,
) {
    let payload = event.body.marked(event.payload);
    match *growing {
        GrowingPart::Text(channel, wire_type, group) => {
            let place = item.part(group, if group == SUMMARY { event.summary } else { event.content });
            // The entries in a `done` were already in the deltas.
            if is_delta
                && let Some(entries) =
                    event.body.marked(event.logprobs).filter(|entries| entries.elements().next().is_some())
            {
                if payload.is_some_and(Value::is_filled) {
                    sink.put(Fragment::new(FragmentKind::Open { channel, wire_type }).at(place));
                }
                logprobs(place, entries, sink);
            }
            match payload {
                Some(text) if !is_delta => restate(channel, wire_type, place, text, ItemCertainty::End, sink),
                Some(text) => {
                    if let Some(text) = text.opaque_filled() {
                        sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).at(place));
                    }
                }
                None => {}
            }
        }
        GrowingPart::Call(kind, wire_type) => {
            let arguments = match payload {
                Some(value) if is_delta && value.kind() == JsonKind::String => {
                    value.opaque().map(FragmentArguments::Text)
                }
                Some(value) => complete_arguments(value),
                None => None,
            };
            let part = FragmentKind::Call { id: None, name: event.name, kind, wire_type, arguments };
            sink.put(Fragment::new(part).at(item));
        }
    }
}

/// Reads complete arguments. An empty text says nothing about the arguments streamed before.
fn complete_arguments(value: Value<'_>) -> Option<FragmentArguments<'_>> {
    match value.kind() {
        JsonKind::Null => None,
        JsonKind::String => value.opaque_filled().map(FragmentArguments::Complete),
        _ => Some(FragmentArguments::Value(value.opaque_json())),
    }
}

fn logprobs(place: BlockKey, entries: Value<'_>, sink: &mut FragmentSink<'_>) {
    if entries.elements().next().is_some() {
        attach(place, AttachmentKind::Logprobs, words::LOGPROBS, entries, sink);
    }
}

/// Reads a response: complete, or in an event of the stream.
fn decode_response(response: Value<'_>, event: Option<&str>, sink: &mut FragmentSink<'_>) {
    let telling = match event {
        None => ItemCertainty::Once,
        Some("created" | "queued" | "in_progress") => ItemCertainty::Begin,
        Some(_) => ItemCertainty::Recap,
    };
    let [id, model] =
        response.find_all(["id", "model"]).map(|mark| response.marked(mark).and_then(Value::opaque_filled));
    sink.put(Fragment::new(FragmentKind::Start { id, model, wire_type: RESPONSE }));
    let (mut status, mut incomplete) = (None, None);
    let (mut output, mut usage, mut failure, mut thoughts) = (None, None, None, None);
    for (key, value) in response.members() {
        match key {
            "id" | "model" => {}
            "object" if is_usual(value, &["response"]) => {}
            "status" => status = value.filled(),
            "incomplete_details" => {
                for (key, value) in value.members() {
                    match key {
                        "reason" => incomplete = value.filled(),
                        _ => extra(ExtraSubject::ANSWER, "incomplete_details.", key, value, sink),
                    }
                }
            }
            "output" => output = Some(value),
            "usage" => usage = Some(value),
            "error" => failure = Some(value),
            // This is a setting, except with mistral.rs: there a text is the reasoning.
            "reasoning" if value.kind() == JsonKind::String => {
                thoughts = Some(value);
            }
            _ => extra(ExtraSubject::ANSWER, "", key, value, sink),
        }
    }
    if let Some(thoughts) = thoughts {
        let place = BlockKey::at(-1);
        restate(TextChannel::REASONING, "reasoning", place, thoughts, telling, sink);
        sink.put(Fragment::new(FragmentKind::End).at(place));
    }
    for (position, item) in output.iter().flat_map(|output| output.elements()).enumerate() {
        let (item, mut place) = (ResponsesItem::read(item), BlockKey::at(position as i64));
        if telling == ItemCertainty::Recap {
            let or = Some(place);
            place = place.in_space(BlockKey::RECAP);
            sink.put(Fragment::new(FragmentKind::Same { name: item.name(), or }).at(place));
        }
        decode_item(place, item, telling, sink);
    }
    if let Some(usage) = usage {
        report_usage(words::USAGE, usage, read_usage, sink);
    }
    if let Some(failure) = failure {
        error(failure, ERRORS, sink);
    }
    if telling == ItemCertainty::Begin {
        return;
    }
    let status = status.map(Str::written).or(event);
    if let Some(wire_type) = incomplete.or(status.map(Str::Plain)) {
        let reason = finish_reason(wire_type, FINISH);
        sink.put(Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }));
    }
    // A background response that was fetched early has not ended yet.
    if !matches!(status, Some("queued" | "in_progress")) {
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

/// Whether a member of an item is read elsewhere, or always has the same value.
fn is_told(kind: &str, telling: ItemCertainty, key: &str, value: Value<'_>) -> bool {
    match key {
        "id" | "type" | "output_index" | "item_id" => true,
        // Other states (`incomplete`, `failed`, `searching`) are passed on.
        "status" if telling == ItemCertainty::Begin => {
            has_status(kind) && is_usual(value, &["in_progress", "completed"])
        }
        "status" => has_status(kind) && is_usual(value, &["completed"]),
        "role" => is_usual(value, &["assistant"]),
        _ => false,
    }
}

/// An item, and the members common to all items.
#[derive(Clone, Copy)]
struct ResponsesItem<'a> {
    value: Value<'a>,
    kind: &'a str,
    id: Option<Opaque<'a>>,
    /// Whether it is the model's own.
    is_own: bool,
    content: Option<Value<'a>>,
    summary: Option<Value<'a>>,
    encrypted: Option<Value<'a>>,
}

impl<'a> ResponsesItem<'a> {
    fn read(value: Value<'a>) -> Self {
        let mut item = Self {
            value,
            kind: "message",
            id: None,
            is_own: true,
            content: None,
            summary: None,
            encrypted: None,
        };
        for (key, value) in value.members() {
            match key {
                "type" => item.kind = value.filled().map_or("message", Str::written),
                "id" => item.id = value.opaque_filled(),
                "role" => item.is_own = value.filled().is_none_or(|role| role.is("assistant")),
                "content" => item.content = Some(value),
                "summary" => item.summary = Some(value),
                words::ENCRYPTED => item.encrypted = Some(value),
                _ => {}
            }
        }
        item
    }

    /// The name for the item's block key.
    fn name(&self) -> Opaque<'a> {
        self.id.unwrap_or("".into())
    }
}

fn decode_item(
    place: BlockKey,
    item: ResponsesItem<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    match item.kind {
        "message" if item.is_own => {
            emit_item(item, telling, place, |key| key == "content", sink);
            for (number, part) in parts(item.content) {
                decode_part(place, number, part, telling, sink);
            }
        }
        "reasoning" => {
            let is_read = |key: &str| matches!(key, "content" | "summary" | words::ENCRYPTED);
            emit_item(item, telling, place, is_read, sink);
            if let Some(data) = item.encrypted.filter(|data| data.is_filled()) {
                let (kind, wire_type, value) = (AttachmentKind::Encrypted, words::ENCRYPTED, data.raw());
                let part = FragmentKind::Attach {
                    level: ExtraScope::Item,
                    on: "",
                    kind,
                    wire_type,
                    value: value.into(),
                };
                sink.put(Fragment::new(part).at(place));
            }
            for (number, part) in parts(item.summary) {
                decode_summary(place, number, part, telling, sink);
            }
            for (number, part) in parts(item.content) {
                decode_reasoning(place, number, part, telling, sink);
            }
        }
        kind if is_call(kind) => decode_call(place, item, telling, sink),
        kind if kind.ends_with("_output") => decode_output(place, item, telling, sink),
        // A compacted conversation, a message of another role, or a future item type.
        _ => emit_item(item, telling, place, |_| false, sink),
    }
    if telling != ItemCertainty::Begin {
        sink.put(Fragment::new(FragmentKind::ItemEnd).at(place));
    }
}

/// Emits the item, with the members that are not read elsewhere.
fn emit_item(
    item: ResponsesItem<'_>,
    telling: ItemCertainty,
    place: BlockKey,
    is_read: impl Fn(&str) -> bool,
    sink: &mut FragmentSink<'_>,
) {
    for (key, value) in item.value.members() {
        if !is_told(item.kind, telling, key, value) && !is_read(key) && !is_empty(value) {
            extra(ExtraSubject::next(0), "", key, value, sink);
        }
    }
    sink.put(Fragment::new(FragmentKind::Item { id: item.id, wire_type: item.kind }).at(place));
}

/// The numbered parts of an item: a list, or (some servers) the only part as a bare text.
fn parts<'a>(value: Option<Value<'a>>) -> impl Iterator<Item = (u64, Value<'a>)> {
    let alone = value.filter(|value| value.kind() == JsonKind::String);
    let listed = value.into_iter().flat_map(Value::elements);
    (0..).zip(alone.into_iter().chain(listed))
}

/// Reads a content part, beginning or complete.
fn decode_part(
    place: BlockKey,
    number: u64,
    part: Value<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    let kind = part.get("type").and_then(Value::str).map_or(words::OUTPUT_TEXT, Str::written);
    let (channel, member) = match kind {
        words::OUTPUT_TEXT | "text" => (TextChannel::Text, "text"),
        words::REFUSAL => (TextChannel::Refusal, "refusal"),
        words::REASONING_TEXT => return decode_reasoning(place, number, part, telling, sink),
        _ if telling == ItemCertainty::Begin => return,
        _ => {
            let part = FragmentKind::Opaque { wire_type: kind, value: part.opaque_json() };
            sink.put(Fragment::new(part).at(place.part(CONTENT, number)));
            return;
        }
    };
    let place = place.part(CONTENT, number);
    emit_part(channel, kind, member, place, part, telling, sink);
}

/// Reads raw reasoning, beginning or complete.
fn decode_reasoning(
    place: BlockKey,
    number: u64,
    part: Value<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    let place = place.part(THOUGHT, number);
    emit_part(TextChannel::REASONING, words::REASONING_TEXT, "text", place, part, telling, sink);
}

/// Reads a summary of reasoning, beginning or complete.
fn decode_summary(
    place: BlockKey,
    number: u64,
    part: Value<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    let place = place.part(SUMMARY, number);
    emit_part(SUMMARIES, words::SUMMARY_TEXT, "text", place, part, telling, sink);
}

/// Emits a part with its text in `member`; extra fields of the part come first.
fn emit_part(
    channel: TextChannel,
    wire_type: &str,
    member: &str,
    place: BlockKey,
    part: Value<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    // A bare text is itself the part's text.
    let (mut text, mut annotations, mut entries) = (part, None, None);
    for (key, value) in part.members() {
        match key {
            "type" => {}
            "annotations" => annotations = Some(value),
            "logprobs" => entries = Some(value),
            _ if key == member => text = value,
            _ if is_empty(value) => {}
            _ => extra(ExtraSubject::next(0), "", key, value, sink),
        }
    }
    // An empty text says nothing about the text streamed before.
    let text = text.opaque_filled().filter(|_| telling != ItemCertainty::Begin);
    match text {
        Some(text) => {
            let is_recap = telling == ItemCertainty::Recap;
            sink.put(Fragment::new(FragmentKind::Restate { channel, wire_type, text, is_recap }).at(place));
        }
        None => sink.put(Fragment::new(FragmentKind::Open { channel, wire_type }).at(place)),
    }
    for annotation in annotations.into_iter().flat_map(Value::elements) {
        attach(place, AttachmentKind::Annotation, words::ANNOTATIONS, annotation, sink);
    }
    if telling == ItemCertainty::Once
        && let Some(entries) = entries
    {
        logprobs(place, entries, sink);
    }
    if telling != ItemCertainty::Begin {
        sink.put(Fragment::new(FragmentKind::End).at(place));
    }
}

/// Restates a text. An empty one says nothing about the text streamed before.
fn restate(
    channel: TextChannel,
    wire_type: &str,
    place: BlockKey,
    text: Value<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    if let Some(text) = text.opaque_filled() {
        let is_recap = telling == ItemCertainty::Recap;
        sink.put(Fragment::new(FragmentKind::Restate { channel, wire_type, text, is_recap }).at(place));
    }
}

/// The members with the arguments of a tool, in the items of the different tools.
const ARGUMENTS: &[&str] = &["arguments", "input", "code", "action", "actions", "operation", "queries"];
/// The members with the result of a hosted tool.
const RESULTS: &[&str] = &["output", "outputs", "results", "result", "tools", "error"];

/// Reads a call: of the client's tool, or of a tool that the provider runs itself.
fn decode_call(
    place: BlockKey,
    item: ResponsesItem<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    let ResponsesItem { value: members, kind, id, .. } = item;
    let call = runner(kind, members);
    let (mut call_id, mut name, mut status, mut given) = (None, None, None, None);
    for (key, value) in members.members() {
        match key {
            "call_id" => call_id = value.opaque_filled(),
            "name" => name = value.opaque_filled(),
            "status" => status = Some(value),
            key if is_arguments(key, value) => given = Some((key, value)),
            _ => {}
        }
    }
    let is_result = |key: &str| call == CallKind::Builtin && RESULTS.contains(&key);
    let is_read = |key: &str| {
        key == "call_id"
            || key == "name" && is_named(kind)
            || given.is_some_and(|(member, _)| member == key)
            || is_result(key)
    };
    emit_item(item, telling, place, is_read, sink);
    let arguments = given
        .map(|(_, value)| value)
        .filter(|value| telling != ItemCertainty::Begin || value.kind() == JsonKind::String)
        .and_then(complete_arguments)
        // The name is complete, independently of the arguments.
        .unwrap_or(FragmentArguments::Text("".into()));
    let part = FragmentKind::Call {
        // The call of a tool that the provider runs has no id but that of its item.
        id: call_id.or(id.filter(|_| call == CallKind::Builtin)),
        name: name.or((!is_named(kind)).then(|| tool_name(kind).into())),
        kind: call,
        wire_type: given.map_or(arguments_word(kind), |(member, _)| member),
        arguments: Some(arguments),
    };
    sink.put(Fragment::new(part).at(place));
    if telling == ItemCertainty::Begin {
        return;
    }
    // Without this status, a call that was truncated before its arguments would be one without arguments.
    let is_truncated = status.and_then(Value::str).is_some_and(|status| status.is(INCOMPLETE));
    sink.put(Fragment::new(if is_truncated { FragmentKind::Truncated } else { FragmentKind::End }).at(place));
    for (wire_type, value) in members.members().filter(|(key, _)| is_result(key)) {
        if !is_empty(value) {
            let part =
                FragmentKind::ToolResult { call: call_id.or(id), wire_type, value: value.opaque_json() };
            sink.put(Fragment::new(part).at(place));
        }
    }
}

/// Whether the member holds the tool's arguments. A lone string (`"action": "generate"`) is a setting.
fn is_arguments(key: &str, value: Value<'_>) -> bool {
    let may_be_text = matches!(key, "arguments" | "input" | "code");
    match value.kind() {
        JsonKind::Object | JsonKind::Array => ARGUMENTS.contains(&key),
        JsonKind::String | JsonKind::Null => may_be_text,
        JsonKind::Bool | JsonKind::Number => false,
    }
}

fn is_empty(value: Value<'_>) -> bool {
    match value.kind() {
        JsonKind::Null => true,
        JsonKind::String => !value.is_filled(),
        JsonKind::Array => value.elements().next().is_none(),
        JsonKind::Object | JsonKind::Bool | JsonKind::Number => false,
    }
}

/// The kind of a call by its runner.
fn runner(kind: &str, item: Value<'_>) -> CallKind {
    match kind {
        "function_call" => CallKind::Function,
        "custom_tool_call" if is_marked(item) => CallKind::Builtin,
        "custom_tool_call" => CallKind::Custom,
        // The client runs these and sends the item of the same name with `_output`.
        "local_shell_call" | "apply_patch_call" | "computer_call" => CallKind::Function,
        // A shell without an environment, or with a local one, is the client's; in a container it is hosted.
        "shell_call" => match item.get("environment").and_then(|environment| environment.get("type")) {
            Some(environment) if !environment.str().is_some_and(|wire_type| wire_type.is("local")) => {
                CallKind::Builtin
            }
            _ => CallKind::Function,
        },
        "tool_search_call" => match item.get("execution").and_then(Value::str) {
            Some(wire_type) if wire_type.is("client") => CallKind::Function,
            _ => CallKind::Builtin,
        },
        // This includes `mcp_approval_request`: the client answers yes or no, the provider runs it.
        _ => CallKind::Builtin,
    }
}

/// Whether a custom call's id marks it as one that the server runs.
///
/// xAI streams its own tools as custom calls with an id that begins with the tool's two letters (`xs_call_1`,
/// `xs_call-1`) where a client's begins with `call`. Nothing else in the item distinguishes them.
fn is_marked(item: Value<'_>) -> bool {
    let Some(id) = item.get("call_id").and_then(Value::filled) else { return false };
    let Some((mark, rest)) = id.written().split_at_checked(2) else { return false };
    mark.bytes().all(|byte| byte.is_ascii_lowercase())
        && rest.strip_prefix("_call").is_some_and(|rest| rest.starts_with(['_', '-']))
}

/// Reads the result of a hosted tool, as an item of its own.
fn decode_output(
    place: BlockKey,
    item: ResponsesItem<'_>,
    telling: ItemCertainty,
    sink: &mut FragmentSink<'_>,
) {
    let call = item.value.get("call_id").and_then(Value::opaque_filled);
    emit_item(item, telling, place, |key| RESULTS.contains(&key), sink);
    if telling == ItemCertainty::Begin {
        return;
    }
    for (wire_type, value) in
        item.value.members().filter(|(key, value)| RESULTS.contains(key) && !is_empty(*value))
    {
        sink.put(
            Fragment::new(FragmentKind::ToolResult { call, wire_type, value: value.opaque_json() }).at(place),
        );
    }
}

fn read_usage(usage: Value<'_>) -> TokenCounts {
    let mut counters = TokenCounts::default();
    for (key, value) in usage.members() {
        match key {
            "input_tokens" => counters.input_tokens = value.count(),
            "output_tokens" => counters.output_tokens = value.count(),
            "total_tokens" => counters.total_tokens = value.count(),
            "input_tokens_details" => {
                [counters.cached_tokens, counters.cache_write_tokens] =
                    counts(value, ["cached_tokens", "cache_write_tokens"]);
            }
            "output_tokens_details" => {
                [counters.reasoning_tokens] = counts(value, ["reasoning_tokens"]);
            }
            _ => {}
        }
    }
    counters
}
