//! Codex app-server v2: JSON-RPC messages of an agent that runs tools by itself, one per line.
//!
//! A *turn* is the response; its *items* (messages, reasoning, tool activity) begin and end with `item/started` and
//! `item/completed`, and messages and reasoning grow by deltas in between. Items have ids instead of numbers, so an
//! item's block key is made from its id. Tools of the client come as requests (`item/tool/call`) beside their item;
//! arguments never stream. Everything about the session, the account and the machine is passed on as it is.

#[cfg(feature = "exchange")]
mod connection;
#[cfg(feature = "exchange")]
mod session;

#[cfg(feature = "exchange")]
pub use connection::{AppServerConnection, AppServerLine};
#[cfg(feature = "exchange")]
pub(crate) use session::{CodexSession, ServerMessage, SessionSettings};

use super::{
    DetectionEvidence, ErrorContext, ExtraSubject, Protocol, ProtocolFrame, extra, finish_reason, report,
    report_text,
};
use crate::event::{CallKind, FinishReason, NoticeCode, ReasoningForm, TokenCounts};
use crate::fragment::{BlockKey, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel};
use crate::json::{JsonKind, Opaque, Str, TapeNode as Value};
use crate::upstream::ErrorClass;

/// Codex app-server v2.
pub static PROTOCOL: Protocol = Protocol {
    name: "codex-appserver-v2",
    aliases: &["codex", "codex-app-server", "codex-appserver", "codex-app-server-v2"],
    title: "Codex app-server v2",
    volatile: VOLATILE,
    kind_follows_text: false,
    errors: ERRORS,
    failure: None,
    recognise,
    decode,
    encode: None,
    request: None,
};

/// The envelope, the clock, and ids represented by the [`BlockKey`], the response's own id or the turn's thread.
const VOLATILE: &[&str] = &[
    "jsonrpc",
    "emittedAtMs",
    "startedAtMs",
    "completedAtMs",
    "startedAt",
    "completedAt",
    "durationMs",
    "itemId",
    "turnId",
    "threadId",
    "itemsView",
];

const FINISH: &[(&str, FinishReason)] = &[
    ("completed", FinishReason::Stop),
    ("failed", FinishReason::Error),
    // Sessions put the reason of a limit there, which the agent takes for an error.
    ("max_output_tokens", FinishReason::Length),
    ("content_filter", FinishReason::ContentFilter),
];

/// The errors of a turn, and the JSON-RPC numbers of failed requests.
const ERRORS: &[(&str, ErrorClass)] = &[
    ("unauthorized", ErrorClass::Authentication),
    ("usageLimitExceeded", ErrorClass::Permission),
    ("rateLimitExceeded", ErrorClass::RateLimit),
    ("modelNotFound", ErrorClass::NotFound),
    ("flexUnavailable", ErrorClass::Overloaded),
    ("policyCapacityUnavailable", ErrorClass::Overloaded),
    ("serverOverloaded", ErrorClass::Overloaded),
    ("-32001", ErrorClass::Overloaded),
    ("badRequest", ErrorClass::InvalidRequest),
    ("cyberPolicy", ErrorClass::InvalidRequest),
    ("-32600", ErrorClass::InvalidRequest),
    ("-32602", ErrorClass::InvalidRequest),
    ("-32700", ErrorClass::InvalidRequest),
    ("contextWindowExceeded", ErrorClass::ContextTooLong),
    ("-32601", ErrorClass::NotFound),
    ("internalServerError", ErrorClass::Server),
    ("-32603", ErrorClass::Server),
    ("responseStreamDisconnected", ErrorClass::Transport),
    ("responseStreamConnectionFailed", ErrorClass::Transport),
    ("httpConnectionFailed", ErrorClass::Transport),
];

/// The groups of parts of a reasoning item.
const SUMMARY: u8 = 0;
const THOUGHT: u8 = 1;

const SUMMARIES: TextChannel = TextChannel::Reasoning(ReasoningForm::Summary);

/// The wire type of a response.
const TURN: &str = "turn";

/// Whether an item begins or has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemPhase {
    Begin,
    End,
}

fn recognise(input: &ProtocolFrame<'_>) -> Option<DetectionEvidence> {
    let body = input.value;
    let is_object = |key| body.get(key).is_some_and(|value| value.kind() == JsonKind::Object);
    if let Some(method) = body.get("method").and_then(Value::str) {
        // Every JSON-RPC protocol has methods.
        let is_own = FAMILIES.iter().any(|family| method.written().starts_with(family));
        let evidence = if is_own { DetectionEvidence::Strong } else { DetectionEvidence::Weak };
        return is_object("params").then_some(evidence);
    }
    // A reply to a request of the client.
    let is_reply = body.get("id").is_some()
        && (is_object("result") || is_object("error"))
        && body.members().all(|(key, _)| matches!(key, "jsonrpc" | "id" | "result" | "error"));
    is_reply.then_some(DetectionEvidence::Weak)
}

/// The prefixes of the methods about a response.
const FAMILIES: &[&str] = &["thread/", "turn/", "item/"];

fn decode(input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let params = body.get("params");
    match (body.get("method").and_then(Value::filled), params) {
        (Some(method), Some(params)) => decode_message(method.written(), body, params, sink),
        _ => decode_reply(body, sink),
    }
    rest(body, &["method", "params", "id", "result", "error"], sink);
}

/// Reads a reply: to the start of a thread or turn, to anything else, or the report that a request failed.
fn decode_reply(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    if let Some(failure) = body.get("error") {
        decode_failure(failure, sink);
    }
    let Some(result) = body.get("result") else { return };
    if let Some(model) = result.get("model").and_then(Value::opaque_filled) {
        sink.put(Fragment::new(FragmentKind::Start { id: None, model: Some(model), wire_type: TURN }));
    }
    for (key, value) in result.members() {
        match key {
            "model" => {}
            "turn" => decode_turn(value, sink),
            _ => extra(ExtraSubject::ANSWER, "result.", key, value, sink),
        }
    }
}

fn decode_message(method: &str, body: Value<'_>, params: Value<'_>, sink: &mut FragmentSink<'_>) {
    let item = params.get("itemId").and_then(Value::filled).map(place_of);
    let part =
        |group, key| item.map(|place| place.part(group, params.get(key).and_then(Value::count).unwrap_or(0)));
    let grown = match method {
        "item/agentMessage/delta" => item.map(|place| (TextChannel::Text, "agentMessage", place)),
        "item/plan/delta" => item.map(|place| (TextChannel::Text, "plan", place)),
        "item/reasoning/summaryTextDelta" => {
            part(SUMMARY, "summaryIndex").map(|place| (SUMMARIES, "summary", place))
        }
        "item/reasoning/textDelta" => {
            part(THOUGHT, "contentIndex").map(|place| (TextChannel::REASONING, "content", place))
        }
        _ => None,
    };
    if let Some((channel, wire_type, place)) = grown {
        rest(params, &["delta", "summaryIndex", "contentIndex"], sink);
        if let Some(text) = params.get("delta").and_then(Value::opaque_filled) {
            sink.put(Fragment::new(FragmentKind::Text { channel, wire_type, text }).at(place));
        }
        return;
    }
    match method {
        "item/started" | "item/completed" => {
            let telling = if method == "item/started" { ItemPhase::Begin } else { ItemPhase::End };
            rest(params, &["item"], sink);
            if let Some(item) = params.get("item") {
                decode_item(item, telling, sink);
            }
        }
        "item/tool/call" => decode_request(body, params, sink),
        "turn/started" | "turn/completed" => {
            if let Some(thread) = params.get("threadId") {
                extra(ExtraSubject::ANSWER, "", "threadId", thread, sink);
            }
            rest(params, &["turn"], sink);
            if let Some(turn) = params.get("turn") {
                decode_turn(turn, sink);
            }
        }
        "thread/started" => {
            let thread = params.get("thread");
            if let Some(model) = thread.and_then(|thread| thread.get("model")).and_then(Value::opaque_filled)
            {
                sink.put(Fragment::new(FragmentKind::Start {
                    id: None,
                    model: Some(model),
                    wire_type: TURN,
                }));
            }
            rest(params, &[], sink);
        }
        "thread/tokenUsage/updated" => {
            if let Some(usage) = params.get("tokenUsage") {
                let turn = params.get("turnId").and_then(Value::opaque_filled).unwrap_or("".into());
                decode_usage(turn, usage, sink);
            }
            rest(params, &["tokenUsage"], sink);
        }
        "error" => decode_error(params, sink),
        // The part's block opens with its first text.
        "item/reasoning/summaryPartAdded" => rest(params, &["summaryIndex"], sink),
        _ => {
            if method == "model/rerouted"
                && let Some(model) = params.get("toModel").and_then(Value::opaque_filled)
            {
                sink.put(Fragment::new(FragmentKind::Rerouted { model }));
            }
            // A request is answered by its id, which is in the envelope.
            let value = if body.get("id").is_some() { body } else { params };
            match item {
                Some(place) => {
                    let part = FragmentKind::Progress { wire_type: method, value: Some(value.opaque_json()) };
                    sink.put(Fragment::new(part).at(place));
                }
                None => extra(ExtraSubject::ANSWER, "", method, value, sink),
            }
        }
    }
}

/// The block key of an item, from its id: items have no numbers.
fn place_of(id: Str<'_>) -> BlockKey {
    BlockKey::named(id.written())
}

/// Passes on the members that were not read.
fn rest(params: Value<'_>, read: &[&str], sink: &mut FragmentSink<'_>) {
    for (key, value) in params.members() {
        if !read.contains(&key) && !VOLATILE.contains(&key) {
            extra(ExtraSubject::ANSWER, "", key, value, sink);
        }
    }
}

/// Reads a turn: as it begins, as it ends (with its last items restated), or complete.
fn decode_turn(turn: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut status, mut failure, mut items) = (None, None, None);
    if let Some(id) = turn.get("id").and_then(Value::opaque_filled) {
        sink.put(Fragment::new(FragmentKind::Start { id: Some(id), model: None, wire_type: TURN }));
    }
    for (key, value) in turn.members() {
        match key {
            "id" => {}
            "status" => status = value.filled(),
            "error" => failure = Some(value),
            "items" => items = Some(value),
            key if VOLATILE.contains(&key) => {}
            _ => extra(ExtraSubject::ANSWER, "turn.", key, value, sink),
        }
    }
    for item in items.iter().flat_map(|items| items.elements()) {
        decode_item(item, ItemPhase::End, sink);
    }
    if let Some(failure) = failure {
        decode_failure(failure, sink);
    }
    if let Some(wire_type) = status.filter(|wire_type| !wire_type.is("inProgress")) {
        let reason = finish_reason(wire_type, FINISH);
        sink.put(Fragment::new(FragmentKind::Finish { reason, raw: Some(wire_type.into()) }));
        sink.put(Fragment::new(FragmentKind::Done));
    }
}

/// Reads an error that ends the turn, or one after which the agent tries again.
fn decode_error(params: Value<'_>, sink: &mut FragmentSink<'_>) {
    if params.get("willRetry").and_then(Value::bool) != Some(true) {
        decode_failure(params.get("error").unwrap_or(params), sink);
        rest(params, &["error", "willRetry"], sink);
        return;
    }
    let message = params.get("error").and_then(|error| error.get("message")).and_then(Value::filled);
    sink.put(Fragment::new(FragmentKind::Notice {
        code: NoticeCode::Other,
        detail: "the agent met an error and tries again",
        text: message.map(Str::written),
    }));
    extra(ExtraSubject::ANSWER, "", "error", params, sink);
}

/// Reads an error object. Its kind is a string, or the name of a member that holds the HTTP details.
fn decode_failure(failure: Value<'_>, sink: &mut FragmentSink<'_>) {
    let info = failure.get("codexErrorInfo");
    let named = info.and_then(|info| info.members().next());
    let code = info.and_then(Value::filled).or(named.map(|(name, _)| Str::Plain(name)));
    let status = named.and_then(|(_, got)| got.get("httpStatusCode")).and_then(Value::count);
    let status = status.and_then(|status| u16::try_from(status).ok());
    let message = failure.get("message").and_then(Value::filled).map(Str::to_cow);
    // Statuses without a name of their own are in the text: `unexpected status 404 Not Found: …`.
    let told = || message.as_deref()?.strip_prefix("unexpected status ")?.get(..3)?.parse().ok();
    let status = status.or_else(told);
    let context = ErrorContext { words: ERRORS, code, status, ..ErrorContext::default() };
    // The body of its own upstream's refusal may stand in place of a message.
    match &message {
        Some(body) if body.starts_with('{') => report_text(body, context, sink),
        _ => drop(report(failure, context, sink)),
    }
}

/// Reads the request to the client to run one of its tools; the call's item repeats it.
fn decode_request(body: Value<'_>, params: Value<'_>, sink: &mut FragmentSink<'_>) {
    let Some(id) = params.get("callId").and_then(Value::filled) else {
        return extra(ExtraSubject::ANSWER, "", "item/tool/call", body, sink);
    };
    rest(params, &["callId", "tool", "arguments", "namespace"], sink);
    if let Some(request) = body.get("id") {
        // The client's reply must have this id.
        extra(ExtraSubject::next(0), "item/tool/call.", "id", request, sink);
    }
    if let Some(namespace) = params.get("namespace") {
        extra(ExtraSubject::next(0), "", "namespace", namespace, sink);
    }
    let place = place_of(id);
    let part = FragmentKind::Call {
        id: Some(id.into()),
        name: params.get("tool").and_then(Value::opaque_filled),
        kind: CallKind::Function,
        wire_type: "arguments",
        arguments: params.get("arguments").map(arguments),
    };
    sink.put(Fragment::new(part).at(place));
    sink.put(Fragment::new(FragmentKind::End).at(place));
}

fn arguments(value: Value<'_>) -> FragmentArguments<'_> {
    match value.str() {
        Some(text) => FragmentArguments::Complete(text.into()),
        None if value.is_null() => FragmentArguments::Text("".into()),
        None => FragmentArguments::Value(value.opaque_json()),
    }
}

fn decode_item(item: Value<'_>, telling: ItemPhase, sink: &mut FragmentSink<'_>) {
    let kind = item.get("type").and_then(Value::filled).map_or("", Str::written);
    let id = item.get("id").and_then(Value::filled);
    let place = id.map_or(BlockKey::at(0), place_of);
    match kind {
        "agentMessage" | "plan" => {
            emit_item(kind, place, item, |key| key == "text", sink);
            if let Some(text) = item.get("text").and_then(Value::opaque_filled) {
                let part = FragmentKind::Restate {
                    channel: TextChannel::Text,
                    wire_type: kind,
                    text,
                    is_recap: true,
                };
                sink.put(Fragment::new(part).at(place));
            }
        }
        "reasoning" => {
            emit_item(kind, place, item, |key| matches!(key, "summary" | "content"), sink);
            if telling == ItemPhase::End {
                decode_reasoning_list(SUMMARIES, "summary", SUMMARY, place, item, sink);
                decode_reasoning_list(TextChannel::REASONING, "content", THOUGHT, place, item, sink);
            }
        }
        // Input of the user or a hook, and marks in the conversation: not the agent's response.
        "userMessage" | "hookPrompt" | "enteredReviewMode" | "exitedReviewMode" | "contextCompaction"
        | "subAgentActivity" | "" => emit_item(kind, place, item, |_| false, sink),
        _ if kind.ends_with("Output") => decode_output(kind, place, item, telling, sink),
        _ => decode_call(kind, place, item, telling, sink),
    }
    if telling == ItemPhase::End {
        sink.put(Fragment::new(FragmentKind::ItemEnd).at(place));
    }
}

/// Emits the item, with the members that are not read elsewhere. Statuses other than the two usual ones (`failed`,
/// `declined`) are passed on.
fn emit_item(
    kind: &str,
    place: BlockKey,
    item: Value<'_>,
    is_read: impl Fn(&str) -> bool,
    sink: &mut FragmentSink<'_>,
) {
    for (key, value) in item.members() {
        let is_usual = key == "status"
            && value.str().is_some_and(|wire_type| wire_type.is("completed") || wire_type.is("inProgress"));
        if !matches!(key, "id" | "type") && !is_usual && !is_read(key) && !VOLATILE.contains(&key) {
            extra(ExtraSubject::next(0), "", key, value, sink);
        }
    }
    let id = item.get("id").and_then(Value::opaque_filled);
    sink.put(Fragment::new(FragmentKind::Item { id, wire_type: kind }).at(place));
}

/// Reads the reasoning that an item restates.
fn decode_reasoning_list(
    channel: TextChannel,
    wire_type: &'static str,
    group: u8,
    place: BlockKey,
    item: Value<'_>,
    sink: &mut FragmentSink<'_>,
) {
    for (number, text) in (0..).zip(item.get(wire_type).iter().flat_map(|texts| texts.elements())) {
        let place = place.part(group, number);
        if let Some(text) = text.opaque_filled() {
            sink.put(
                Fragment::new(FragmentKind::Restate { channel, wire_type, text, is_recap: true }).at(place),
            );
        }
        sink.put(Fragment::new(FragmentKind::End).at(place));
    }
}

/// The members with the arguments of a tool, in the items of the different tools, the best first.
const ARGUMENTS: &[&str] = &["arguments", "command", "changes", "action", "query", "prompt", "path"];
/// The members with the result of a tool.
const RESULTS: &[&str] = &["aggregatedOutput", "result", "results", "contentItems", "error"];
/// The same in an item that is only the result of an earlier call.
const OUTPUTS: &[&str] = &["output", "result", "contentItems", "content", "error"];

/// Reads the result of a call of another item, named by its `callId`.
fn decode_output(
    kind: &str,
    place: BlockKey,
    item: Value<'_>,
    telling: ItemPhase,
    sink: &mut FragmentSink<'_>,
) {
    let call = ["callId", "call_id"].iter().find_map(|key| item.get(key)).and_then(Value::opaque_filled);
    let given = OUTPUTS.iter().find_map(|&key| Some((key, item.get(key).filter(|value| !value.is_null())?)));
    let is_read = |key: &str| {
        matches!(key, "callId" | "call_id") && call.is_some()
            || given.is_some_and(|(member, _)| member == key)
    };
    emit_item(kind, place, item, is_read, sink);
    if let Some((wire_type, value)) = given.filter(|_| telling == ItemPhase::End) {
        sink.put(
            Fragment::new(FragmentKind::ToolResult { call, wire_type, value: value.opaque_json() }).at(place),
        );
    }
}

/// Reads a call: of the client's tool (`dynamicToolCall`), or of a tool that the agent runs itself.
fn decode_call(
    kind: &str,
    place: BlockKey,
    item: Value<'_>,
    telling: ItemPhase,
    sink: &mut FragmentSink<'_>,
) {
    let id = item.get("id").and_then(Value::opaque_filled);
    let tool = item.get("tool").and_then(Value::opaque_filled);
    let given = ARGUMENTS.iter().find_map(|&key| {
        let value = item.get(key).filter(|value| !value.is_null())?;
        Some((key, value))
    });
    // A call whose turn was interrupted has failed without any content: nobody has answered it.
    let is_abandoned = item.get("status").and_then(Value::str).is_some_and(|status| status.is("failed"))
        && kind == "dynamicToolCall"
        && item.get("contentItems").is_some_and(|items| items.elements().next().is_none());
    let results = if is_abandoned { &[][..] } else { RESULTS };
    let is_read =
        |key: &str| key == "tool" || given.is_some_and(|(member, _)| member == key) || results.contains(&key);
    emit_item(kind, place, item, is_read, sink);
    // A search begins before its query is known; arguments and commands are complete from the start.
    let is_settled = telling == ItemPhase::End || matches!(given, Some(("arguments" | "command", _)));
    let part = FragmentKind::Call {
        id,
        name: tool.or(Some(kind.into())),
        kind: if kind == "dynamicToolCall" { CallKind::Function } else { CallKind::Builtin },
        wire_type: given.map_or("arguments", |(member, _)| member),
        arguments: Some(
            given
                .filter(|_| is_settled)
                .map_or(FragmentArguments::Text("".into()), |(_, value)| arguments(value)),
        ),
    };
    sink.put(Fragment::new(part).at(place));
    if telling == ItemPhase::Begin {
        return;
    }
    sink.put(Fragment::new(FragmentKind::End).at(place));
    for &wire_type in results {
        if let Some(value) = item.get(wire_type).filter(|value| !value.is_null()) {
            sink.put(
                Fragment::new(FragmentKind::ToolResult { call: id, wire_type, value: value.opaque_json() })
                    .at(place),
            );
        }
    }
}

/// Reads token counts. A turn may call the model several times: `last` counts one of them, `total` all of the thread.
fn decode_usage(turn: Opaque<'_>, usage: Value<'_>, sink: &mut FragmentSink<'_>) {
    let counters = token_counts(usage.get("last").unwrap_or(usage));
    sink.put(Fragment::new(FragmentKind::Step { turn, counters, raw: usage.opaque_json() }));
}

fn token_counts(counts: Value<'_>) -> TokenCounts {
    let count = |key: &str| counts.get(key).and_then(Value::count);
    TokenCounts {
        input_tokens: count("inputTokens"),
        output_tokens: count("outputTokens"),
        total_tokens: count("totalTokens"),
        cached_tokens: count("cachedInputTokens"),
        cache_write_tokens: count("cacheWriteInputTokens"),
        reasoning_tokens: count("reasoningOutputTokens"),
    }
}
