//! Codex app-server v2: JSON-RPC messages of an agent that runs tools by itself, one per line.
//!
//! A *turn* is the answer; its *items* (messages, reasoning, what tools did) begin and end with
//! `item/started` and `item/completed`, and messages and reasoning grow by deltas in between. Items have
//! ids instead of numbers, so an item's place is made from its id. Tools of the client come as requests
//! (`item/tool/call`) beside their item; arguments never stream. Everything about the session, the account
//! and the machine is passed on as it is.

use super::{Context, Evidence, Input, Protocol, finish_reason, foreign, report};
use crate::event::{CallKind, Counters, FinishReason, NoticeCode};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Part, Place};
use crate::json::{Kind, Node as Value, Str};
use crate::upstream::ErrorClass;

pub(super) static PROTOCOL: Protocol = Protocol {
    name: "codex-appserver-v2",
    aliases: &["codex", "codex-app-server", "codex-appserver", "codex-app-server-v2"],
    title: "Codex app-server v2",
    volatile: VOLATILE,
    errors: ERRORS,
    recognise,
    decode,
};

/// The envelope, the clock, and ids that [`Place`], the answer's own id or the turn's thread stand for.
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

const FINISH: &[(&str, FinishReason)] = &[("completed", FinishReason::Stop), ("failed", FinishReason::Error)];

/// What went wrong in a turn, and the numbers of JSON-RPC for requests that failed.
const ERRORS: &[(&str, ErrorClass)] = &[
    ("unauthorized", ErrorClass::Authentication),
    ("usageLimitExceeded", ErrorClass::Permission),
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

/// Where the parts of a reasoning item begin in its numbering; 0 is the item itself.
const SUMMARY: u32 = 1;
const THOUGHT: u32 = Place::SORT;
const PARTS: u64 = Place::SORT as u64 - 2;

/// Whether an item begins or is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    Begin,
    End,
}

fn recognise(input: &Input<'_>) -> Option<Evidence> {
    let body = input.value;
    let is_object = |key| body.get(key).is_some_and(|value| value.kind() == Kind::Object);
    if let Some(method) = body.get("method").and_then(Value::str) {
        // All that speaks JSON-RPC has methods.
        let is_own = FAMILIES.iter().any(|family| method.written().starts_with(family));
        let evidence = if is_own { Evidence::Strong } else { Evidence::Weak };
        return is_object("params").then_some(evidence);
    }
    // A reply to a request of the client's.
    let is_reply = body.get("id").is_some()
        && (is_object("result") || is_object("error"))
        && body.members().all(|(key, _)| matches!(key, "jsonrpc" | "id" | "result" | "error"));
    is_reply.then_some(Evidence::Weak)
}

/// How the methods begin that tell of an answer.
const FAMILIES: &[&str] = &["thread/", "turn/", "item/"];

fn decode(input: &Input<'_>, sink: &mut FragmentSink<'_>) {
    let body = input.value;
    let params = body.get("params");
    match (body.get("method").and_then(Value::filled), params) {
        (Some(method), Some(params)) => decode_message(method.written(), body, params, sink),
        _ => decode_reply(body, sink),
    }
    rest(body, &["method", "params", "id", "result", "error"], sink);
}

/// A reply: to the start of a thread or turn, to anything else, or the report that a request failed.
fn decode_reply(body: Value<'_>, sink: &mut FragmentSink<'_>) {
    if let Some(failure) = body.get("error") {
        decode_failure(failure, sink);
    }
    let Some(result) = body.get("result") else { return };
    if let Some(model) = result.get("model").and_then(Value::filled) {
        sink.put(Fragment::new(Part::Start { id: None, model: Some(model) }));
    }
    for (key, value) in result.members() {
        match key {
            "model" => {}
            "turn" => decode_turn(value, sink),
            _ => foreign(0, None, "result.", key, value, sink),
        }
    }
}

fn decode_message(method: &str, body: Value<'_>, params: Value<'_>, sink: &mut FragmentSink<'_>) {
    let item = params.get("itemId").and_then(Value::filled).map(place_of);
    let grown =
        match method {
            "item/agentMessage/delta" | "item/plan/delta" => item.map(|place| (Channel::Text, place)),
            "item/reasoning/summaryTextDelta" => item
                .map(|place| (Channel::REASONING, place.part(SUMMARY + number(params.get("summaryIndex"))))),
            "item/reasoning/textDelta" => item
                .map(|place| (Channel::REASONING, place.part(THOUGHT + number(params.get("contentIndex"))))),
            _ => None,
        };
    if let Some((channel, place)) = grown {
        if let Some(text) = params.get("delta").and_then(Value::filled) {
            sink.put(Fragment::new(Part::Text { channel, text }).at(place));
        }
        rest(params, &["delta", "summaryIndex", "contentIndex"], sink);
        return;
    }
    match method {
        "item/started" | "item/completed" => {
            let telling = if method == "item/started" { Telling::Begin } else { Telling::End };
            if let Some(item) = params.get("item") {
                decode_item(item, telling, sink);
            }
            rest(params, &["item"], sink);
        }
        "item/tool/call" => decode_request(body, params, sink),
        "turn/started" | "turn/completed" => {
            if let Some(turn) = params.get("turn") {
                decode_turn(turn, sink);
            }
            if let Some(thread) = params.get("threadId") {
                foreign(0, None, "", "threadId", thread, sink);
            }
            rest(params, &["turn"], sink);
        }
        "thread/started" => {
            let thread = params.get("thread");
            if let Some(model) = thread.and_then(|thread| thread.get("model")).and_then(Value::filled) {
                sink.put(Fragment::new(Part::Start { id: None, model: Some(model) }));
            }
            rest(params, &[], sink);
        }
        "thread/tokenUsage/updated" => {
            if let Some(usage) = params.get("tokenUsage") {
                let turn = params.get("turnId").and_then(Value::filled).unwrap_or(Str::Plain(""));
                decode_usage(turn, usage, sink);
            }
            rest(params, &["tokenUsage"], sink);
        }
        "error" => decode_error(params, sink),
        // The part's block opens with its first text.
        "item/reasoning/summaryPartAdded" => rest(params, &["summaryIndex"], sink),
        _ => {
            if method == "model/rerouted"
                && let Some(model) = params.get("toModel").and_then(Value::filled)
            {
                sink.put(Fragment::new(Part::Rerouted { model }));
            }
            // A request is answered by its id, which stands in the envelope.
            let value = if body.get("id").is_some() { body.raw() } else { params.raw() };
            let part = Part::Foreign { scope: "", key: method, value };
            sink.put(Fragment { choice: 0, place: item, part });
        }
    }
}

/// Items have ids instead of numbers.
fn place_of(id: Str<'_>) -> Place {
    Place::named(id.written())
}

fn number(value: Option<Value<'_>>) -> u32 {
    value.and_then(Value::count).map_or(0, |count| count.min(PARTS) as u32)
}

/// Passes on the members that were not read.
fn rest(params: Value<'_>, read: &[&str], sink: &mut FragmentSink<'_>) {
    for (key, value) in params.members() {
        if !read.contains(&key) && !VOLATILE.contains(&key) {
            foreign(0, None, "", key, value, sink);
        }
    }
}

/// A turn: as it begins, as it ends (with its last items restated), or whole.
fn decode_turn(turn: Value<'_>, sink: &mut FragmentSink<'_>) {
    let (mut status, mut failure) = (None, None);
    if let Some(id) = turn.get("id").and_then(Value::filled) {
        sink.put(Fragment::new(Part::Start { id: Some(id), model: None }));
    }
    for (key, value) in turn.members() {
        match key {
            "id" => {}
            "status" => status = value.filled(),
            "error" => failure = Some(value),
            "items" => value.elements().for_each(|item| decode_item(item, Telling::End, sink)),
            key if VOLATILE.contains(&key) => {}
            _ => foreign(0, None, "turn.", key, value, sink),
        }
    }
    if let Some(failure) = failure {
        decode_failure(failure, sink);
    }
    if let Some(word) = status.filter(|word| !word.is("inProgress")) {
        let reason = finish_reason(word, FINISH);
        sink.put(Fragment::new(Part::Finish { reason, raw: Some(word) }));
        sink.put(Fragment::new(Part::Done));
    }
}

/// An error that ends the turn, or one after which the agent tries again.
fn decode_error(params: Value<'_>, sink: &mut FragmentSink<'_>) {
    if params.get("willRetry").and_then(Value::bool) != Some(true) {
        decode_failure(params.get("error").unwrap_or(params), sink);
        rest(params, &["error", "willRetry"], sink);
        return;
    }
    let message = params.get("error").and_then(|error| error.get("message")).and_then(Value::filled);
    sink.put(Fragment::new(Part::Notice {
        code: NoticeCode::Other,
        detail: "the agent met an error and tries again",
        text: message.map(Str::written),
    }));
    sink.put(Fragment::new(Part::Foreign { scope: "", key: "error", value: params.raw() }));
}

/// An error object. What kind it is stands in a word, or in the name of a member that holds what it got from HTTP.
fn decode_failure(failure: Value<'_>, sink: &mut FragmentSink<'_>) {
    let info = failure.get("codexErrorInfo");
    let named = info.and_then(|info| info.members().next());
    let code = info.and_then(Value::filled).or(named.map(|(name, _)| Str::Plain(name)));
    let status = named.and_then(|(_, got)| got.get("httpStatusCode")).and_then(Value::count);
    let status = status.and_then(|status| u16::try_from(status).ok());
    report(failure, Context { words: ERRORS, code, status, ..Context::default() }, sink);
}

/// The client is asked to run one of its tools; the call's item tells the same.
fn decode_request(body: Value<'_>, params: Value<'_>, sink: &mut FragmentSink<'_>) {
    let Some(id) = params.get("callId").and_then(Value::filled) else {
        sink.put(Fragment::new(Part::Foreign { scope: "", key: "item/tool/call", value: body.raw() }));
        return;
    };
    let place = place_of(id);
    sink.put(
        Fragment::new(Part::Call {
            id: Some(id),
            name: params.get("tool").and_then(Value::filled),
            kind: CallKind::Function,
            arguments: params.get("arguments").map(arguments),
        })
        .at(place),
    );
    if let Some(request) = body.get("id") {
        // What the client's answer must carry.
        foreign(0, Some(place), "item/tool/call.", "id", request, sink);
    }
    if let Some(namespace) = params.get("namespace") {
        foreign(0, Some(place), "item.", "namespace", namespace, sink);
    }
    sink.put(Fragment::new(Part::End).at(place));
    rest(params, &["callId", "tool", "arguments", "namespace"], sink);
}

fn arguments(value: Value<'_>) -> Arguments<'_> {
    match value.str() {
        Some(text) => Arguments::Whole(text),
        None if value.is_null() => Arguments::Text(Str::Plain("")),
        None => Arguments::Value(value.raw()),
    }
}

fn decode_item(item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let kind = item.get("type").and_then(Value::filled).map_or("", Str::written);
    let id = item.get("id").and_then(Value::filled);
    let place = id.map_or(Place::at(0), place_of);
    match kind {
        "agentMessage" | "plan" => decode_text(kind, place, item, telling, sink),
        "reasoning" => decode_reasoning(place, item, telling, sink),
        // What the user or a hook said, and marks in the conversation: not the agent's answer.
        "userMessage" | "hookPrompt" | "enteredReviewMode" | "exitedReviewMode" | "contextCompaction"
        | "subAgentActivity" | "" => {
            if telling == Telling::End {
                // Of each there may be several.
                let part = Part::Foreign { scope: "", key: "item[]", value: item.raw() };
                sink.put(Fragment::new(part).at(place));
            }
        }
        _ => decode_call(kind, place, item, telling, sink),
    }
}

fn decode_text(kind: &str, place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    if let Some(text) = item.get("text").and_then(Value::filled) {
        sink.put(Fragment::new(Part::Restate { channel: Channel::Text, text, is_recap: true }).at(place));
    }
    if telling == Telling::End {
        rest_of_item(place, item, |key| key == "text" || key == "type" && kind == "agentMessage", sink);
        sink.put(Fragment::new(Part::End).at(place));
    }
}

fn decode_reasoning(place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    if telling == Telling::Begin {
        return;
    }
    for (key, first) in [("summary", SUMMARY), ("content", THOUGHT)] {
        for (number, text) in item.get(key).iter().flat_map(|texts| texts.elements()).enumerate() {
            let place = place.part(first + (number as u64).min(PARTS) as u32);
            if let Some(text) = text.filled() {
                sink.put(
                    Fragment::new(Part::Restate { channel: Channel::REASONING, text, is_recap: true })
                        .at(place),
                );
            }
            sink.put(Fragment::new(Part::End).at(place));
        }
    }
    let is_told = |key: &str| matches!(key, "type" | "summary" | "content");
    rest_of_item(place.part(SUMMARY), item, is_told, sink);
}

/// The members that carry what a tool is to do, in the items of the different tools, the best first.
const ARGUMENTS: &[&str] = &["arguments", "command", "changes", "action", "query", "prompt", "path"];
/// The members that carry what a tool answered.
const RESULTS: &[&str] = &["aggregatedOutput", "result", "results", "contentItems", "error"];

/// A call: of the client's tool (`dynamicToolCall`), or told of a tool that the agent runs itself.
fn decode_call(kind: &str, place: Place, item: Value<'_>, telling: Telling, sink: &mut FragmentSink<'_>) {
    let id = item.get("id").and_then(Value::filled);
    let tool = item.get("tool").and_then(Value::filled);
    let given = ARGUMENTS.iter().find_map(|&key| {
        let value = item.get(key).filter(|value| !value.is_null())?;
        Some((key, value))
    });
    // A search is begun before its query is known; arguments and commands are whole from the start.
    let is_settled = telling == Telling::End || matches!(given, Some(("arguments" | "command", _)));
    let part = Part::Call {
        id,
        name: tool.or(Some(Str::Plain(kind))),
        kind: if kind == "dynamicToolCall" { CallKind::Function } else { CallKind::Builtin },
        arguments: Some(
            given
                .filter(|_| is_settled)
                .map_or(Arguments::Text(Str::Plain("")), |(_, value)| arguments(value)),
        ),
    };
    sink.put(Fragment::new(part).at(place));
    if telling == Telling::Begin {
        return;
    }
    for &key in RESULTS {
        if let Some(value) = item.get(key).filter(|value| !value.is_null()) {
            sink.put(Fragment::new(Part::ToolResult { call: id, value: value.raw() }).at(place));
        }
    }
    let is_told = |key: &str| {
        key == "tool"
            || key == "type" && (kind == "dynamicToolCall" || tool.is_none())
            || given.is_some_and(|(member, _)| member == key)
            || RESULTS.contains(&key)
    };
    rest_of_item(place, item, is_told, sink);
    sink.put(Fragment::new(Part::End).at(place));
}

/// Passes on the members of an item that its block does not tell. States other than the two usual ones
/// (`failed`, `declined`) are worth telling.
fn rest_of_item(place: Place, item: Value<'_>, is_told: impl Fn(&str) -> bool, sink: &mut FragmentSink<'_>) {
    for (key, value) in item.members() {
        let is_usual =
            key == "status" && value.str().is_some_and(|word| word.is("completed") || word.is("inProgress"));
        if key != "id" && !is_usual && !is_told(key) && !VOLATILE.contains(&key) {
            foreign(0, Some(place), "item.", key, value, sink);
        }
    }
}

/// A turn may ask the model several times: `last` counts one of them, `total` all of the thread.
fn decode_usage(turn: Str<'_>, usage: Value<'_>, sink: &mut FragmentSink<'_>) {
    let last = usage.get("last").unwrap_or(usage);
    let count = |key: &str| last.get(key).and_then(Value::count);
    let counters = Counters {
        input_tokens: count("inputTokens"),
        output_tokens: count("outputTokens"),
        total_tokens: count("totalTokens"),
        cached_tokens: count("cachedInputTokens"),
        cache_write_tokens: count("cacheWriteInputTokens"),
        reasoning_tokens: count("reasoningOutputTokens"),
    };
    sink.put(Fragment::new(Part::Step { turn, counters, raw: usage.raw() }));
}
