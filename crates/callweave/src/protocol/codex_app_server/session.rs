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

use crate::json::{Array, JsonKind, Object, Tape, TapeNode, Value};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMessage {
    /// A part of the response.
    Response,
    /// An error that ends the session.
    Failure,
    /// Nothing of the response.
    Other,
}

/// Settings of a thread that disable everything the client did not ask for: the server's own tools, its own
/// instructions, and its own retries, which would repeat text that was streamed already.
const CONFIG: &[(&str, &str)] = &[
    ("web_search", "\"disabled\""),
    ("features.shell_tool", "false"),
    ("features.view_image", "false"),
    ("features.multi_agent", "false"),
    ("features.goals", "false"),
    ("features.apps", "false"),
    ("features.plugins", "false"),
    ("features.unbounded_connection_retries", "false"),
    ("skills.include_instructions", "false"),
    ("include_environment_context", "false"),
    ("include_permissions_instructions", "false"),
    ("include_apps_instructions", "false"),
];

/// The settings of a Responses body that a turn cannot express.
const LOST: &[&str] = &[
    "temperature",
    "top_p",
    "max_output_tokens",
    "tool_choice",
    "parallel_tool_calls",
    "metadata",
    "user",
    "truncation",
    "top_logprobs",
    "service_tier",
];

impl CodexSession {
    /// Opens a session for a request in the form of the Responses API; also returns the settings that are lost in it.
    pub(crate) fn open(id: &str, model: &str, mut body: Value) -> (Self, Vec<String>) {
        let mut members = match body.take() {
            Value::Object(members) => members,
            _ => Object::new(),
        };
        let mut lost: Vec<String> =
            LOST.iter().filter(|key| members.remove(key).is_some()).map(|key| (*key).to_owned()).collect();
        let mut items = match members.remove("input") {
            Some(Value::Array(items)) => items.into_vec(),
            Some(Value::String(text)) => vec![Value::object([
                ("type", "message".into()),
                ("role", "user".into()),
                ("content", Value::String(text)),
            ])],
            _ => Vec::new(),
        };
        // Without instructions of its own a thread gets the program's.
        let instructions = members.remove("instructions").or_else(|| leading_instructions(&mut items));
        let tools = dynamic_tools(members.remove("tools"), &mut lost);
        let mut turn_parameters = Object::new();
        if let Some(effort) = members.get_mut("reasoning").and_then(|own| own.get_mut("effort")) {
            turn_parameters.insert("effort", effort.take());
        }
        if let Some(schema) = members
            .get_mut("text")
            .and_then(|text| text.get_mut("format"))
            .and_then(|format| format.get_mut("schema"))
        {
            turn_parameters.insert("outputSchema", schema.take());
        }
        let config: Object =
            CONFIG.iter().map(|(key, value)| (*key, value.parse::<Value>().unwrap_or_default())).collect();
        let parameters = Value::object([
            ("model", model.into()),
            ("ephemeral", true.into()),
            ("environments", Array::new().into()),
            ("approvalPolicy", "never".into()),
            ("sandbox", "read-only".into()),
            ("baseInstructions", instructions.unwrap_or_else(|| "".into())),
            ("dynamicTools", tools),
            ("config", config.into()),
        ]);
        let mut session = Self {
            id: id.to_owned(),
            stage: PendingReply::Thread,
            items: Array::from_iter(items).into(),
            turn_parameters,
            thread: None,
            turn: None,
            outgoing: Vec::new(),
        };
        session.ask("thread/start", parameters);
        (session, lost)
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
                match method.as_str() {
                    "turn/started" => {
                        let turn = params.and_then(|params| text(params.get("turn")?, "id"));
                        self.turn = turn.or(self.turn.take());
                    }
                    "turn/completed" => self.turn = None,
                    _ => {}
                }
                match message.get("id") {
                    Some(id) if method != "item/tool/call" => {
                        self.refuse(id);
                        ServerMessage::Other
                    }
                    _ => ServerMessage::Response,
                }
            }
        }
    }

    /// Ends the turn, if it is running, and leaves the thread to the server, which forgets it.
    pub(crate) fn interrupt(&mut self) {
        let (thread, turn) = (self.thread.clone(), self.turn.take());
        if let (Some(thread), Some(turn)) = (thread, turn) {
            let ids = Value::object([("threadId", thread.into()), ("turnId", turn.into())]);
            self.ask("turn/interrupt", ids);
        }
        self.stage = PendingReply::Over;
        if let Some(thread) = self.thread.take() {
            self.ask("thread/unsubscribe", Value::object([("threadId", thread.into())]));
        }
    }

    /// Takes the result of the pending request, and sends the next.
    fn hear_result(&mut self, message: TapeNode<'_>) -> ServerMessage {
        if text(message, "id") != Some(self.request_id(self.stage)) {
            return ServerMessage::Other;
        }
        if message.get("error").is_some() {
            self.stage = PendingReply::Over;
            return ServerMessage::Failure;
        }
        let result = message.get("result");
        let id_of = |key| text(result?.get(key)?, "id");
        match self.stage {
            PendingReply::Thread => {
                self.thread = id_of("thread");
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
            PendingReply::Turn => self.turn = id_of("turn").or(self.turn.take()),
            PendingReply::Over => {}
        }
        ServerMessage::Other
    }

    fn request_id(&self, stage: PendingReply) -> String {
        format!("{}.{}", self.id, stage as u8)
    }

    fn ask(&mut self, method: &str, parameters: Value) {
        let id = match method {
            "turn/interrupt" => format!("{}.interrupt", self.id),
            "thread/unsubscribe" => format!("{}.unsubscribe", self.id),
            _ => self.request_id(self.stage),
        };
        let message = [("id", id.into()), ("method", method.into()), ("params", parameters)];
        self.send(&Value::object(message));
    }

    /// Refuses a request of the server.
    fn refuse(&mut self, id: TapeNode<'_>) {
        let error = [("code", (-32601).into()), ("message", "not available to this client".into())];
        let message = [("id", id.to_value()), ("error", Value::object(error))];
        self.send(&Value::object(message));
    }

    fn send(&mut self, message: &Value) {
        self.outgoing.extend_from_slice(message.to_string().as_bytes());
        self.outgoing.push(b'\n');
    }
}

/// The text of a member.
fn text(node: TapeNode<'_>, key: &str) -> Option<String> {
    let value = node.get(key)?;
    (value.kind() == JsonKind::String).then(|| value.str().map(|text| text.to_cow().into_owned()))?
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
