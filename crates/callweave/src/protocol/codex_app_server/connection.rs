//! One connection to an app-server, shared by many sessions: the handshake, and which session a line belongs to.
//!
//! ```text
//! initialize ─▶ result {userAgent} ─▶ initialized, account/read ─▶ result ─▶ ready for sessions
//! ```
//!
//! Every session is one thread. Its requests have ids that begin with its name, and notifications name their thread.
//! A session whose client leaves at the wrong moment cannot end what it does not know yet: the connection ends the
//! thread or the turn as soon as its id comes.

use std::collections::HashMap;

use super::session::{interrupt_request, refusal, request_line, text, unsubscribe_request};
use crate::exchange::UpstreamFault;
use crate::json::{Array, JsonKind, Object, Tape, TapeNode, Value};

/// The oldest version of the program that has everything that is used here, and whose own tools can be switched off.
const OLDEST: [u64; 2] = [0, 160];

/// The requests of the connection itself.
const INITIALIZE: &str = "callweave.initialize";
const ACCOUNT: &str = "callweave.account";

/// Notifications that no session needs.
const UNWANTED: &[&str] = &[
    "account/rateLimits/updated",
    "account/updated",
    "configWarning",
    "deprecationNotice",
    "remoteControl/status/changed",
    "thread/started",
    "thread/status/changed",
    "warning",
];

/// One connection to a Codex app-server, without I/O: a driver moves the lines.
#[derive(Debug)]
pub struct AppServerConnection {
    outgoing: Vec<u8>,
    version: Option<String>,
    sessions: HashMap<String, OpenThread>,
    /// The sessions of the threads.
    threads: HashMap<String, String>,
    has_served: bool,
}

/// The meaning of a line of an app-server.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppServerLine {
    /// It belongs to the session of that name.
    Session(String),
    /// The connection is ready for sessions.
    Ready,
    /// The app-server cannot be used.
    Unusable(UpstreamFault),
    /// It is not JSON.
    Malformed,
    /// It concerns nobody.
    Other,
}

/// What is known of a session's thread.
#[derive(Debug, Default)]
struct OpenThread {
    thread: Option<String>,
    turn: Option<String>,
    awaits_thread: bool,
    awaits_turn: bool,
    is_turn_over: bool,
    is_unsubscribed: bool,
    /// Whether nobody listens to the session any more.
    is_closed: bool,
}

impl AppServerConnection {
    /// A connection that is about to be made, by a program of that version.
    pub fn new(client_version: &str) -> Self {
        let client = [("name", "callweave".into()), ("version", client_version.into())];
        let capabilities = [
            ("experimentalApi", true.into()),
            ("optOutNotificationMethods", Value::from_iter(UNWANTED.iter().copied())),
        ];
        let parameters =
            [("clientInfo", Value::object(client)), ("capabilities", Value::object(capabilities))];
        Self {
            outgoing: request_line(INITIALIZE, "initialize", Value::object(parameters)),
            version: None,
            sessions: HashMap::new(),
            threads: HashMap::new(),
            has_served: false,
        }
    }

    /// Whether a turn came to its end or to a call.
    pub fn has_served(&self) -> bool {
        self.has_served
    }

    /// The version of the app-server, once it is known.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Takes the messages of the connection itself, one per line.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes a line, and returns whom it concerns.
    pub fn hear(&mut self, line: &[u8]) -> AppServerLine {
        let mut tape = Tape::new();
        let message = std::str::from_utf8(line).ok().and_then(|line| tape.parse(line).ok());
        let Some(message) = message.filter(|message| message.kind() == JsonKind::Object) else {
            return AppServerLine::Malformed;
        };
        match text(message, "method") {
            Some(method) => self.hear_method(&method, message),
            None => self.hear_reply(message),
        }
    }

    /// Registers a session, before its first message is sent.
    pub fn open(&mut self, session: &str) {
        self.sessions.insert(session.to_owned(), OpenThread::default());
    }

    /// Notes that messages of a session are sent.
    pub fn sent(&mut self, session: &str, lines: &[u8]) {
        let Some(open) = self.sessions.get_mut(session) else { return };
        let own = format!("{{\"id\":\"{session}.");
        for line in lines.split(|byte| *byte == b'\n').filter(|line| line.starts_with(own.as_bytes())) {
            // Messages begin with their id and their method: the rest may be long.
            let head = &line[..line.len().min(MAX_HEAD)];
            let has = |method: &str| {
                let method = format!("\"method\":\"{method}\"");
                memchr::memmem::find(head, method.as_bytes()).is_some()
            };
            match () {
                () if has("thread/start") => open.awaits_thread = true,
                () if has("turn/start") => open.awaits_turn = true,
                () if has("turn/interrupt") => open.is_turn_over = true,
                () if has("thread/unsubscribe") => open.is_unsubscribed = true,
                () => {}
            }
        }
    }

    /// Closes a session: nobody listens to it any more. Its turn is interrupted and its thread left, unless the session
    /// has done so.
    pub fn close(&mut self, session: &str) {
        if let Some(open) = self.sessions.get_mut(session) {
            open.is_closed = true;
            self.leave(session);
        }
    }

    /// The number of sessions that are not at their end.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The catalog of models of the program, without the tools that it gives to the models that it knows: settings of a
    /// thread do not reach those.
    pub fn catalog_without_tools(catalog: &[u8]) -> Option<String> {
        let mut catalog: Value = std::str::from_utf8(catalog).ok()?.parse().ok()?;
        let models = catalog.get_mut("models")?.as_array_mut().filter(|models| !models.is_empty())?;
        for model in models.iter_mut() {
            let members = model.as_object_mut()?;
            for key in MODEL_TOOLS {
                if let Some(value) = members.get_mut(key) {
                    *value = if value.is_array() { Array::new().into() } else { Value::Null };
                }
            }
        }
        Some(catalog.to_string())
    }

    /// A request for the list of models, as a session of its own; `cursor` is the end of the list so far.
    pub fn models_request(session: &str, cursor: Option<&str>) -> Vec<u8> {
        let mut parameters = Object::new();
        if let Some(cursor) = cursor {
            parameters.insert("cursor", cursor);
        }
        request_line(&format!("{session}.models"), "model/list", parameters.into())
    }

    /// Reads a list of models: the names, and where the next page begins.
    pub fn read_models(line: &[u8]) -> Result<(Vec<String>, Option<String>), UpstreamFault> {
        let mut tape = Tape::new();
        let message = std::str::from_utf8(line).ok().and_then(|line| tape.parse(line).ok());
        let result = message.and_then(|message| message.get("result"));
        let Some(list) = result.and_then(|result| result.get("data")) else {
            return Err(UpstreamFault::unusable("has no list of models"));
        };
        let is_shown = |model: &TapeNode<'_>| model.get("hidden").and_then(TapeNode::bool) != Some(true);
        let name = |model: TapeNode<'_>| text(model, "model").or_else(|| text(model, "id"));
        let names = list.elements().filter(is_shown).filter_map(name).collect();
        Ok((names, result.and_then(|result| text(result, "nextCursor"))))
    }

    fn hear_reply(&mut self, message: TapeNode<'_>) -> AppServerLine {
        let Some(id) = text(message, "id") else { return AppServerLine::Other };
        match id.as_str() {
            INITIALIZE => return self.hear_initialized(message),
            ACCOUNT => return self.hear_account(message),
            _ => {}
        }
        let Some((session, step)) = id.rsplit_once('.') else { return AppServerLine::Other };
        let Some(open) = self.sessions.get_mut(session) else { return AppServerLine::Other };
        let id_of = |key| text(message.get("result")?.get(key)?, "id");
        match step {
            "thread" => {
                open.awaits_thread = false;
                open.thread = id_of("thread");
                if let Some(thread) = &open.thread {
                    self.threads.insert(thread.clone(), session.to_owned());
                }
            }
            "turn" => {
                open.awaits_turn = false;
                open.turn = id_of("turn").or(open.turn.take());
            }
            _ => {}
        }
        if open.is_closed {
            self.leave(session);
            return AppServerLine::Other;
        }
        AppServerLine::Session(session.to_owned())
    }

    fn hear_method(&mut self, method: &str, message: TapeNode<'_>) -> AppServerLine {
        let params = message.get("params");
        let thread = params.and_then(|params| text(params, "threadId"));
        let session = thread.and_then(|thread| self.threads.get(&thread)).cloned();
        let open = session.as_ref().and_then(|session| self.sessions.get_mut(session));
        if let Some(open) = open {
            match method {
                "turn/started" => {
                    open.awaits_turn = false;
                    open.turn =
                        params.and_then(|params| text(params.get("turn")?, "id")).or(open.turn.take());
                }
                "turn/completed" => open.is_turn_over = true,
                _ => {}
            }
            self.has_served |= matches!(method, "turn/completed" | "item/tool/call");
            if !open.is_closed {
                return session.map_or(AppServerLine::Other, AppServerLine::Session);
            }
            if let Some(session) = &session {
                self.leave(session);
            }
        }
        // Nobody else would reply.
        if let Some(id) = message.get("id") {
            self.outgoing.append(&mut refusal(id));
        }
        AppServerLine::Other
    }

    fn hear_initialized(&mut self, message: TapeNode<'_>) -> AppServerLine {
        let agent = message.get("result").and_then(|result| text(result, "userAgent"));
        let Some(agent) = agent else {
            let error = message.get("error").and_then(|error| text(error, "message")).unwrap_or_default();
            let what = format!("did not take the handshake of an app-server: {error}");
            return AppServerLine::Unusable(UpstreamFault::unusable(what));
        };
        let version = version_of(&agent);
        self.version = version.map(str::to_owned);
        if let Some(version) = version.filter(|version| is_older(version)) {
            let [major, minor] = OLDEST;
            let what = format!("is too old: version {version} of Codex, and {major}.{minor} is needed");
            return AppServerLine::Unusable(UpstreamFault::unusable(what));
        }
        self.outgoing.extend_from_slice(b"{\"method\":\"initialized\"}\n");
        self.outgoing.append(&mut request_line(ACCOUNT, "account/read", Object::new().into()));
        AppServerLine::Other
    }

    fn hear_account(&mut self, message: TapeNode<'_>) -> AppServerLine {
        let result = message.get("result");
        let needs = result.and_then(|result| result.get("requiresOpenaiAuth")).and_then(TapeNode::bool);
        let account = result.and_then(|result| result.get("account")).filter(|account| !account.is_null());
        if needs == Some(true) && account.is_none() {
            return AppServerLine::Unusable(UpstreamFault::unauthorized("is not logged in"));
        }
        AppServerLine::Ready
    }

    /// Ends all that is known of a closed session; it is forgotten when nothing more is to come.
    fn leave(&mut self, session: &str) {
        let Some(open) = self.sessions.get_mut(session) else { return };
        if let (Some(thread), Some(turn)) = (&open.thread, &open.turn)
            && !std::mem::replace(&mut open.is_turn_over, true)
        {
            self.outgoing.append(&mut interrupt_request(session, thread, turn));
        }
        if open.awaits_thread || open.awaits_turn {
            return;
        }
        let Some(OpenThread { thread: Some(thread), is_unsubscribed, .. }) = self.sessions.remove(session)
        else {
            return;
        };
        self.threads.remove(&thread);
        if !is_unsubscribed {
            self.outgoing.append(&mut unsubscribe_request(session, &thread));
        }
    }
}

/// The members of a model in the catalog that give it tools: a mode in which it writes programs that call tools, patches
/// of files, other agents, and single tools.
const MODEL_TOOLS: [&str; 4] =
    ["tool_mode", "apply_patch_tool_type", "multi_agent_version", "experimental_supported_tools"];

/// The number of bytes of a message that hold its method.
const MAX_HEAD: usize = 128;

/// The version in a user agent, behind the name that the client gave itself: `callweave/0.169.0 (…)`.
fn version_of(agent: &str) -> Option<&str> {
    agent.split_once('/')?.1.split_whitespace().next()
}

/// Whether a version is too old. A version that is no number, such as that of a development build, is not.
fn is_older(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        // Builds of developers have the version 0.0.0.
        (Some(0), Some(0)) => false,
        (Some(major), Some(minor)) => [major, minor] < OLDEST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: Vec<u8>) -> Vec<Value> {
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(|line| line.parse().expect("JSON")).collect()
    }

    fn methods(bytes: Vec<u8>) -> Vec<String> {
        let method = |line: Value| line.get("method").and_then(Value::as_str).unwrap_or("reply").to_owned();
        lines(bytes).into_iter().map(method).collect()
    }

    /// A connection that is ready for sessions.
    fn ready() -> AppServerConnection {
        let mut connection = AppServerConnection::new("1");
        assert_eq!(methods(connection.take_outgoing()), ["initialize"]);
        let agent = br#"{"id":"callweave.initialize","result":{"userAgent":"callweave/0.169.0 (x)"}}"#;
        assert!(matches!(connection.hear(agent), AppServerLine::Other));
        assert_eq!(connection.version(), Some("0.169.0"));
        assert_eq!(methods(connection.take_outgoing()), ["initialized", "account/read"]);
        let account = br#"{"id":"callweave.account","result":{"account":null,"requiresOpenaiAuth":false}}"#;
        assert!(matches!(connection.hear(account), AppServerLine::Ready));
        connection
    }

    const THREAD: &[u8] = br#"{"id":"s1.thread","result":{"thread":{"id":"T"}}}"#;
    const TURN: &[u8] = br#"{"id":"s1.turn","result":{"turn":{"id":"U"}}}"#;
    const STARTED: &[u8] = br#"{"method":"turn/started","params":{"threadId":"T","turn":{"id":"U"}}}"#;
    const COMPLETED: &[u8] = br#"{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"U"}}}"#;

    fn is_of(line: &AppServerLine, name: &str) -> bool {
        matches!(line, AppServerLine::Session(session) if session == name)
    }

    #[test]
    fn lines_go_to_the_session_of_their_request_or_thread() {
        let mut connection = ready();
        connection.open("s1");
        connection.open("s2");
        assert!(is_of(&connection.hear(THREAD), "s1"));
        let other = br#"{"id":"s2.thread","result":{"thread":{"id":"T2"}}}"#;
        assert!(is_of(&connection.hear(other), "s2"));
        assert!(is_of(&connection.hear(STARTED), "s1"));
        let delta = br#"{"method":"item/agentMessage/delta","params":{"threadId":"T2","delta":"x"}}"#;
        assert!(is_of(&connection.hear(delta), "s2"));
        let unknown = br#"{"method":"item/agentMessage/delta","params":{"threadId":"T3","delta":"x"}}"#;
        assert!(matches!(connection.hear(unknown), AppServerLine::Other));
        assert!(matches!(connection.hear(br#"{"id":"s3.turn","result":{}}"#), AppServerLine::Other));
        assert!(matches!(connection.hear(br#"{"id":7,"result":{}}"#), AppServerLine::Other));
        for malformed in [&b"not JSON"[..], b"[1]", b"\xff", b"{\"id\":"] {
            assert!(matches!(connection.hear(malformed), AppServerLine::Malformed));
        }
        assert!(connection.take_outgoing().is_empty());
    }

    #[test]
    fn requests_that_concern_nobody_are_refused() {
        let mut connection = ready();
        connection.hear(br#"{"id":3,"method":"currentTime/read","params":{}}"#);
        let replies = lines(connection.take_outgoing());
        assert!(
            replies.len() == 1 && replies[0].get("error").is_some() && replies[0]["id"].as_u64() == Some(3)
        );
    }

    /// A client may leave between any two lines; afterwards nothing of its session is left.
    #[test]
    fn a_session_that_is_left_at_any_moment_leaves_nothing_behind() {
        // The lines in order, each with the message of the session that it follows, if there is one.
        let steps: [(&[u8], &[u8]); 5] = [
            (br#"{"id":"s1.thread","method":"thread/start","params":{}}"#, THREAD),
            (
                br#"{"id":"s1.items","method":"thread/inject_items","params":{}}"#,
                br#"{"id":"s1.items","result":{}}"#,
            ),
            (br#"{"id":"s1.turn","method":"turn/start","params":{}}"#, TURN),
            (b"", STARTED),
            (b"", COMPLETED),
        ];
        for last_sent in 0..=steps.len() {
            for last_heard in [last_sent.saturating_sub(1), last_sent] {
                let mut connection = ready();
                connection.open("s1");
                for (at, (sent, heard)) in steps.iter().enumerate().take(last_sent) {
                    connection.sent("s1", sent);
                    if at < last_heard {
                        connection.hear(heard);
                    }
                }
                connection.close("s1");
                let mut left = connection.take_outgoing();
                for (_, heard) in &steps[last_heard..last_sent] {
                    assert!(matches!(connection.hear(heard), AppServerLine::Other));
                    left.append(&mut connection.take_outgoing());
                }
                let (left, is_running) = (methods(left), (3..=4).contains(&last_heard) || last_sent == 3);
                let is_there = last_sent > 0;
                assert_eq!(
                    left.contains(&"turn/interrupt".to_owned()),
                    is_running,
                    "{last_sent} {last_heard}: {left:?}"
                );
                let unsubscribed = left.iter().filter(|method| *method == "thread/unsubscribe").count();
                assert_eq!(unsubscribed, usize::from(is_there), "{last_sent} {last_heard}: {left:?}");
                assert_eq!((connection.open_sessions(), connection.threads.len()), (0, 0));
            }
        }
    }

    #[test]
    fn a_session_that_ended_by_itself_is_not_ended_again() {
        let mut connection = ready();
        connection.open("s1");
        for line in [THREAD, TURN] {
            connection.hear(line);
        }
        connection.sent("s1", &interrupt_request("s1", "T", "U"));
        connection.sent("s1", &unsubscribe_request("s1", "T"));
        connection.close("s1");
        assert!(connection.take_outgoing().is_empty());
    }

    #[test]
    fn programs_that_are_too_old_or_without_an_account_are_reported() {
        for (agent, is_usable) in [
            ("callweave/0.169.0 (Debian)", true),
            ("callweave/0.160.0 (Debian)", true),
            ("callweave/0.170.0-alpha.1 (Debian)", true),
            ("callweave/1.0.0", true),
            ("callweave/0.0.0 (x)", true),
            ("callweave/dev", true),
            ("callweave/0.42.0 (Debian)", false),
        ] {
            let mut connection = AppServerConnection::new("1");
            let line = format!(r#"{{"id":"callweave.initialize","result":{{"userAgent":"{agent}"}}}}"#);
            let heard = connection.hear(line.as_bytes());
            match heard {
                AppServerLine::Unusable(fault) if !is_usable => assert!(fault.to_string().contains("0.42.0")),
                AppServerLine::Other if is_usable => {}
                other => panic!("{agent}: {other:?}"),
            }
        }
        let mut connection = ready();
        let account = br#"{"id":"callweave.account","result":{"account":null,"requiresOpenaiAuth":true}}"#;
        let AppServerLine::Unusable(fault) = connection.hear(account) else { panic!("no account") };
        assert_eq!(fault.error("codex").class, crate::upstream::ErrorClass::Authentication);
        let account =
            br#"{"id":"callweave.account","result":{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}}"#;
        assert!(matches!(connection.hear(account), AppServerLine::Ready));
    }

    #[test]
    fn models_of_the_catalog_lose_their_tools_and_nothing_else() {
        let catalog = br#"{"models":[{"slug":"a","tool_mode":"code_mode_only","apply_patch_tool_type":"freeform","multi_agent_version":"v2","experimental_supported_tools":["clock"],"context_window":9},{"slug":"b"}]}"#;
        let changed: Value =
            AppServerConnection::catalog_without_tools(catalog).expect("a catalog").parse().expect("JSON");
        let expected = r#"{"models":[{"slug":"a","tool_mode":null,"apply_patch_tool_type":null,"multi_agent_version":null,"experimental_supported_tools":[],"context_window":9},{"slug":"b"}]}"#;
        assert_eq!(changed, expected.parse::<Value>().expect("JSON"));
        for other in
            [&b""[..], b"error: unrecognized subcommand", b"{}", br#"{"models":[]}"#, br#"{"models":["a"]}"#]
        {
            assert_eq!(AppServerConnection::catalog_without_tools(other), None);
        }
    }

    #[test]
    fn models_are_listed_page_by_page() {
        let page = br#"{"id":"m.models","result":{"data":[{"id":"a","model":"a-1","hidden":false},{"id":"b","model":"b","hidden":true}],"nextCursor":"n"}}"#;
        let (names, next) = AppServerConnection::read_models(page).expect("a list");
        assert_eq!((names, next.as_deref()), (vec!["a-1".to_owned()], Some("n")));
        let request = lines(AppServerConnection::models_request("m", Some("n")));
        assert_eq!(request[0]["params"]["cursor"], "n");
        assert!(AppServerConnection::read_models(br#"{"id":"m.models","error":{"message":"no"}}"#).is_err());
    }
}
