//! A request as a session: one ephemeral thread of an app-server, with messages for the request and for the response.
//!
//! ```text
//! thread/start ─▶ result {thread} ─▶ thread/inject_items ─▶ result ─▶ turn/start ─▶ notifications … turn/completed
//!                                                                                    │ enough calls
//!                                                                                    └▶ turn/interrupt
//! ```
//!
//! A server has many threads at once: messages of others are not this session's. Requests of the server that are no
//! tool calls (approvals, questions) are refused; tool calls are for the client to run, so they are never answered
//! here: the turn is interrupted, and the next request brings the results as history.

use super::token_counts;
use crate::event::TokenCounts;
use crate::exchange::UpstreamFault;
use crate::json::{Array, JsonKind, Object, Tape, TapeNode, Value};

/// Settings of a session that are not the client's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionSettings {
    /// Whether the server may run tools of its own.
    pub(crate) allows_own_tools: bool,
    /// Whether the response ends at its first call, so that there are no parallel ones.
    pub(crate) stops_at_first_call: bool,
}

/// The conversation of one request with an app-server.
#[derive(Debug)]
pub(crate) struct CodexSession {
    /// The prefix of the ids of requests: no other session has it.
    id: String,
    stage: PendingReply,
    /// The history, until it is sent.
    items: Value,
    /// The parameters of the turn, until they are sent.
    turn_parameters: Object,
    thread: Option<String>,
    turn: Option<String>,
    settings: SessionSettings,
    /// Whether the turn was started: from then on it costs something.
    has_turn: bool,
    /// Whether the turn was interrupted, and only its usage is waited for.
    is_settling: bool,
    /// Whether the response has content, so that no part of it may come again.
    has_content: bool,
    outgoing: Vec<u8>,
}

/// The request that waits for its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingReply {
    Thread,
    Items,
    Turn,
    Over,
}

/// The kind of a message of the server.
#[derive(Clone, Debug)]
pub(crate) enum ServerMessage {
    /// A part of the response.
    Response,
    /// A part of the response, in other words.
    Rewritten(String),
    /// The usage of an interrupted turn: the counts, and as they were written.
    Usage(TokenCounts, String),
    /// The interrupted turn is over.
    Settled,
    /// An error that ends the session.
    Failure,
    /// A message after which the session cannot go on.
    Fault(UpstreamFault),
    /// Nothing of the response.
    Other,
}

/// Settings of a thread that disable everything the client did not ask for: the server's own instructions, and its own
/// retries, which would repeat text that was streamed already.
const CONFIG: &[(&str, &str)] = &[
    ("features.unbounded_connection_retries", "false"),
    ("skills.include_instructions", "false"),
    ("include_environment_context", "false"),
    ("include_permissions_instructions", "false"),
    ("include_apps_instructions", "false"),
    ("include_collaboration_mode_instructions", "false"),
];

/// The items of tools that act on the machine.
const OWN_TOOLS: [&str; 3] = ["commandExecution", "fileChange", "mcpToolCall"];

/// Settings of a thread that disable the server's own tools.
const WITHOUT_TOOLS: &[(&str, &str)] = &[
    ("web_search", "\"disabled\""),
    ("features.shell_tool", "false"),
    ("features.view_image", "false"),
    ("features.multi_agent", "false"),
    ("features.goals", "false"),
    ("features.apps", "false"),
    ("features.plugins", "false"),
];

/// The members of a Responses body that a session expresses otherwise, or always has like this.
const IMPLIED: &[&str] = &["model", "stream", "stream_options", "store", "include"];

impl CodexSession {
    /// Opens a session for a request in the form of the Responses API; also returns the settings that are lost in it.
    pub(crate) fn open(
        id: &str,
        model: &str,
        mut body: Value,
        settings: SessionSettings,
    ) -> (Self, Vec<String>) {
        let mut members = match body.take() {
            Value::Object(members) => members,
            _ => Object::new(),
        };
        let mut lost = Vec::new();
        let mut items = match members.remove("input") {
            Some(Value::Array(items)) => items.into_vec(),
            Some(text @ Value::String(_)) => {
                vec![Value::object([("role", "user".into()), ("content", text)])]
            }
            _ => Vec::new(),
        };
        // Without instructions of its own a thread gets the program's.
        let instructions = members.remove("instructions").or_else(|| leading_instructions(&mut items));
        items.iter_mut().for_each(complete);
        let mut tools = dynamic_tools(members.remove("tools"), &mut lost);
        match members.remove("tool_choice") {
            None => {}
            Some(choice) if choice == "auto" => {}
            // A model without tools calls none.
            Some(choice) if choice == "none" => tools = Array::new().into(),
            Some(_) => lost.push("tool_choice".to_owned()),
        }
        let may_be_parallel = members.remove("parallel_tool_calls").and_then(|may| may.as_bool());
        if may_be_parallel == Some(false) && !settings.stops_at_first_call {
            lost.push("parallel_tool_calls".to_owned());
        }
        let turn_parameters = turn_parameters(&mut members, &mut lost);
        let is_lost = |(key, value): (&str, &Value)| {
            (!value.is_null() && !IMPLIED.contains(&key)).then(|| key.to_owned())
        };
        lost.extend(members.iter().filter_map(is_lost));
        let without_tools = if settings.allows_own_tools { &[] } else { WITHOUT_TOOLS };
        let config: Object = (CONFIG.iter().chain(without_tools))
            .map(|(key, value)| (*key, value.parse::<Value>().unwrap_or_default()))
            .collect();
        let mut parameters = Object::new();
        parameters.insert("model", model);
        parameters.insert("ephemeral", true);
        parameters.insert("approvalPolicy", "never");
        parameters.insert("sandbox", "read-only");
        parameters.insert("baseInstructions", instructions.unwrap_or_else(|| "".into()));
        parameters.insert("dynamicTools", tools);
        parameters.insert("config", Value::from(config));
        if !settings.allows_own_tools {
            parameters.insert("environments", Array::new());
        }
        let mut session = Self {
            id: id.to_owned(),
            stage: PendingReply::Thread,
            items: Array::from_iter(items).into(),
            turn_parameters,
            thread: None,
            turn: None,
            settings,
            has_turn: false,
            is_settling: false,
            has_content: false,
            outgoing: Vec::new(),
        };
        session.ask("thread/start", parameters.into());
        (session, lost)
    }

    /// The prefix of the ids of its requests.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the model was asked.
    pub(crate) fn has_turn(&self) -> bool {
        self.has_turn
    }

    /// Whether there are messages to send.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes the messages to send now, one per line.
    pub(crate) fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes a message of the server.
    pub(crate) fn hear(&mut self, line: &str) -> ServerMessage {
        let mut tape = Tape::new();
        let Ok(message) = tape.parse(line) else { return ServerMessage::Other };
        let (method, params) = (text(message, "method"), message.get("params"));
        match method {
            None => self.hear_result(message),
            Some(method) => {
                let thread = params.and_then(|params| text(params, "threadId"));
                if thread.is_none() || thread != self.thread {
                    return ServerMessage::Other;
                }
                if method == "error"
                    && let Some(fault) = params.and_then(|params| self.repeats(params))
                {
                    return ServerMessage::Fault(fault);
                }
                if method == "item/started"
                    && let Some(fault) = params.and_then(|params| self.acts(params))
                {
                    return ServerMessage::Fault(fault);
                }
                self.has_content |= method.starts_with("item/") && method != "item/started";
                match method.as_str() {
                    "turn/started" => {
                        self.has_turn = true;
                        let turn = params.and_then(|params| text(params.get("turn")?, "id"));
                        self.turn = turn.or(self.turn.take());
                    }
                    "turn/completed" => self.turn = None,
                    _ => {}
                }
                if self.is_settling {
                    return settled(&method, params);
                }
                if let Some(reason) = params.and_then(limit_reason) {
                    return match method.as_str() {
                        "turn/completed" => ServerMessage::Rewritten(ended_by(reason, message)),
                        // The end of the turn repeats it.
                        _ => ServerMessage::Other,
                    };
                }
                match message.get("id") {
                    Some(id) if method != "item/tool/call" => {
                        self.outgoing.append(&mut refusal(id));
                        ServerMessage::Other
                    }
                    _ => ServerMessage::Response,
                }
            }
        }
    }

    /// Ends the turn, but not the session: the usage of the turn may follow.
    pub(crate) fn settle(&mut self) {
        if std::mem::replace(&mut self.is_settling, true) {
            return;
        }
        if let (Some(thread), Some(turn)) = (&self.thread, self.turn.take()) {
            self.outgoing.append(&mut interrupt_request(&self.id, thread, &turn));
        }
    }

    /// Ends the turn, if it is running, and leaves the thread to the server, which forgets it.
    pub(crate) fn interrupt(&mut self) {
        self.stage = PendingReply::Over;
        let Some(thread) = self.thread.take() else { return };
        if let Some(turn) = self.turn.take() {
            self.outgoing.append(&mut interrupt_request(&self.id, &thread, &turn));
        }
        self.outgoing.append(&mut unsubscribe_request(&self.id, &thread));
    }

    /// The fault of a server that uses a tool of its own although none are allowed.
    fn acts(&self, params: TapeNode<'_>) -> Option<UpstreamFault> {
        let kind = text(params.get("item")?, "type").filter(|_| !self.settings.allows_own_tools)?;
        let is_own = OWN_TOOLS.contains(&kind.as_str());
        is_own.then(|| UpstreamFault::unusable(format!("used a tool of its own, which are off: {kind}")))
    }

    /// The fault of a model call that broke off and is made again, where the response already has content of the first:
    /// it cannot be taken back.
    fn repeats(&self, params: TapeNode<'_>) -> Option<UpstreamFault> {
        let is_repeated = params.get("willRetry").and_then(TapeNode::bool) == Some(true) && self.has_content;
        let error = params.get("error").filter(|_| is_repeated)?;
        let why = text(error, "additionalDetails").or_else(|| text(error, "message")).unwrap_or_default();
        Some(UpstreamFault::lost(format!("lost its model in the middle of the response: {why}")))
    }

    /// Takes the result of the pending request, and sends the next.
    fn hear_result(&mut self, message: TapeNode<'_>) -> ServerMessage {
        if text(message, "id") != Some(self.request_id()) {
            return ServerMessage::Other;
        }
        if let Some(error) = message.get("error") {
            self.stage = PendingReply::Over;
            let what = text(error, "message").unwrap_or_default();
            return match what.contains("unknown variant") {
                true => ServerMessage::Fault(UpstreamFault::unusable(TOO_OLD)),
                false => ServerMessage::Failure,
            };
        }
        let result = message.get("result");
        let id_of = |key| text(result?.get(key)?, "id");
        match self.stage {
            PendingReply::Thread => {
                self.thread = id_of("thread");
                let sources = result.and_then(|result| result.get("instructionSources"));
                if let Some(source) = sources.and_then(|sources| sources.elements().next()) {
                    return ServerMessage::Fault(UpstreamFault::unusable(format!(
                        "adds instructions to every request that the client does not know, from {}",
                        source.raw()
                    )));
                }
                self.stage = PendingReply::Items;
                let items = self.items.take();
                let parameters = [("threadId", self.thread.clone().into()), ("items", items)];
                self.ask("thread/inject_items", Value::object(parameters));
            }
            PendingReply::Items => {
                self.stage = PendingReply::Turn;
                let mut parameters = std::mem::take(&mut self.turn_parameters);
                parameters.insert("threadId", Value::from(self.thread.clone()));
                parameters.insert("input", Value::from(Array::new()));
                self.ask("turn/start", parameters.into());
            }
            PendingReply::Turn => {
                self.has_turn = true;
                self.turn = id_of("turn").or(self.turn.take());
            }
            PendingReply::Over => {}
        }
        ServerMessage::Other
    }

    /// The id of the pending request.
    fn request_id(&self) -> String {
        let step = match self.stage {
            PendingReply::Thread => "thread",
            PendingReply::Items => "items",
            PendingReply::Turn => "turn",
            PendingReply::Over => "over",
        };
        format!("{}.{step}", self.id)
    }

    fn ask(&mut self, method: &str, parameters: Value) {
        self.outgoing.append(&mut request_line(&self.request_id(), method, parameters));
    }
}

const TOO_OLD: &str = "is too old: it does not know a method that is needed";

/// A request, as a line. Its id and its method stand at the beginning.
pub(super) fn request_line(id: &str, method: &str, parameters: Value) -> Vec<u8> {
    line(Value::object([("id", id.into()), ("method", method.into()), ("params", parameters)]))
}

pub(super) fn interrupt_request(session: &str, thread: &str, turn: &str) -> Vec<u8> {
    let ids = Value::object([("threadId", thread.into()), ("turnId", turn.into())]);
    request_line(&format!("{session}.interrupt"), "turn/interrupt", ids)
}

pub(super) fn unsubscribe_request(session: &str, thread: &str) -> Vec<u8> {
    let ids = Value::object([("threadId", thread.into())]);
    request_line(&format!("{session}.unsubscribe"), "thread/unsubscribe", ids)
}

/// The refusal of a request of the server.
pub(super) fn refusal(id: TapeNode<'_>) -> Vec<u8> {
    let error = [("code", (-32601).into()), ("message", "not available to this client".into())];
    line(Value::object([("id", id.to_value()), ("error", Value::object(error))]))
}

fn line(message: Value) -> Vec<u8> {
    let mut line = String::new();
    message.write_last_into(&mut line);
    line.push('\n');
    line.into_bytes()
}

/// Takes out of the body what a turn can express.
fn turn_parameters(members: &mut Object, lost: &mut Vec<String>) -> Object {
    let mut parameters = Object::new();
    let mut reasoning = members.remove("reasoning").unwrap_or_default();
    for key in ["effort", "summary"] {
        if let Some(value) = reasoning.get_mut(key).filter(|value| !value.is_null()) {
            parameters.insert(key, value.take());
        }
    }
    let mut text = members.remove("text").unwrap_or_default();
    if text.get("verbosity").is_some_and(|verbosity| !verbosity.is_null()) {
        lost.push("verbosity".to_owned());
    }
    let mut format = text.get_mut("format").map(Value::take).unwrap_or_default();
    match format.get("type").and_then(Value::as_str) {
        None | Some("text") => {}
        Some(_) => match format.get_mut("schema").map(Value::take) {
            Some(schema) => drop(parameters.insert("outputSchema", schema)),
            None => lost.push("response_format".to_owned()),
        },
    }
    parameters
}

/// The text of a member.
pub(super) fn text(node: TapeNode<'_>, key: &str) -> Option<String> {
    let value = node.get(key)?;
    (value.kind() == JsonKind::String).then(|| value.str().map(|text| text.to_cow().into_owned()))?
}

/// The limit at which the model ended, which the agent takes for an error of the turn.
fn limit_reason(params: TapeNode<'_>) -> Option<&'static str> {
    let error = params.get("turn").and_then(|turn| turn.get("error")).or_else(|| params.get("error"))?;
    let message = text(error, "message")?;
    let reason = message.strip_prefix("Incomplete response returned, reason: ")?;
    LIMITS.into_iter().find(|limit| *limit == reason)
}

/// The limits that are the end of a response, and no error.
const LIMITS: [&str; 2] = ["max_output_tokens", "content_filter"];

/// The end of a turn with another status, and without its error.
fn ended_by(status: &str, message: TapeNode<'_>) -> String {
    let mut message = message.to_value();
    let turn = message.get_mut("params").and_then(|params| params.get_mut("turn"));
    if let Some(turn) = turn.and_then(Value::as_object_mut) {
        turn.remove("error");
        turn.insert("status", status);
    }
    message.to_string()
}

/// The meaning of a message after the turn was interrupted.
fn settled(method: &str, params: Option<TapeNode<'_>>) -> ServerMessage {
    match method {
        "turn/completed" => ServerMessage::Settled,
        "thread/tokenUsage/updated" => {
            // A thread has one turn, so all tokens of the thread are those of the turn.
            let total = params.and_then(|params| params.get("tokenUsage")?.get("total"));
            total.map_or(ServerMessage::Other, |total| {
                ServerMessage::Usage(token_counts(total), total.raw().to_owned())
            })
        }
        _ => ServerMessage::Other,
    }
}

/// Writes out what the Responses API lets clients leave out of a message: its type, and the parts of its content.
fn complete(item: &mut Value) {
    let Some(members) = item.as_object_mut() else { return };
    let Some(role) = members.get("role").and_then(Value::as_str) else { return };
    let part = if role == "assistant" { "output_text" } else { "input_text" };
    if members.get("type").is_none_or(Value::is_null) {
        members.insert("type", "message");
    }
    if let Some(text @ Value::String(_)) = members.get_mut("content") {
        let part = Value::object([("type", part.into()), ("text", text.take())]);
        *text = Value::from_iter([part]);
    }
}

/// Takes the text of a leading system message out of the history.
fn leading_instructions(items: &mut Vec<Value>) -> Option<Value> {
    let first = items.first()?;
    let role = first.get("role").and_then(Value::as_str)?;
    if !matches!(role, "system" | "developer") {
        return None;
    }
    let text = match first.get("content")? {
        Value::String(text) => text.to_string(),
        Value::Array(parts) => {
            let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
            texts?.join("\n\n")
        }
        _ => return None,
    };
    items.remove(0);
    Some(text.into())
}

/// Returns the client's functions as tools of a thread. Tools of other kinds are lost.
fn dynamic_tools(tools: Option<Value>, lost: &mut Vec<String>) -> Value {
    let Some(Value::Array(tools)) = tools else { return Array::new().into() };
    let mut functions = Vec::new();
    for mut tool in tools.into_vec() {
        if tool.get("type").and_then(Value::as_str) != Some("function") {
            lost.push("tools".to_owned());
            continue;
        }
        let mut member = |key: &str| tool.get_mut(key).map(Value::take);
        let name = member("name").unwrap_or_default();
        let description = member("description").filter(|text| text.as_str().is_some());
        let schema = member("parameters").filter(|schema| schema.as_object().is_some());
        functions.push(Value::object([
            ("type", "function".into()),
            ("name", name),
            ("description", description.unwrap_or_else(|| "".into())),
            ("inputSchema", schema.unwrap_or_else(|| Value::object([("type", "object".into())]))),
        ]));
    }
    Array::from_iter(functions).into()
}
