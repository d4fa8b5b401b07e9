//! An exchange with a backend that is asked by messages and asks back: a scripted Codex app-server.

use callweave::Value;
use callweave::exchange::http::ClientEndpoint;
use callweave::exchange::{
    Exchange, ExchangeEngine, ExchangePolicy, IncomingHead, NextStep, OutgoingRequest, StopMode,
};
use callweave::protocol::CODEX_APP_SERVER;

/// An app-server that responds to a session, and plays a turn.
struct Server {
    /// The lines of the turn; `THREAD` and `TURN` stand for the ids.
    turn: Vec<String>,
    /// Every message that it got.
    heard: Vec<Value>,
    /// The error of the first request, if it is refused.
    refusal: Option<&'static str>,
}

const NOISE: &str = concat!(
    r#"{"method":"configWarning","params":{"summary":"no bubblewrap"}}"#,
    "\n",
    r#"{"method":"item/agentMessage/delta","params":{"threadId":"other","turnId":"u","itemId":"m","delta":"not yours"}}"#,
    "\nnot JSON at all\n",
    r#"{"id":"another.1","result":{"thread":{"id":"other"}}}"#,
    "\n",
);

impl Server {
    fn playing(turn: &[&str]) -> Self {
        let notification = |line: &&str| line.replace("IDS", r#""threadId":"THREAD","turnId":"TURN""#);
        Self { turn: turn.iter().map(notification).collect(), heard: Vec::new(), refusal: None }
    }

    /// The lines that follow a message.
    fn hear(&mut self, line: &str) -> String {
        let message: Value = line.parse().expect("JSON");
        let id = message["id"].clone();
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.heard.push(message);
        let result = |result: &str| format!("{{\"id\":{id},\"result\":{result}}}\n");
        let started = r#"{"method":"turn/started","params":{"threadId":"THREAD","turn":{"id":"TURN","status":"inProgress"}}}"#;
        match method.as_str() {
            "thread/start" => match self.refusal {
                Some(error) => format!("{NOISE}{{\"id\":{id},\"error\":{error}}}\n"),
                None => NOISE.to_owned() + &result(r#"{"thread":{"id":"THREAD"},"model":"m"}"#),
            },
            "turn/start" => {
                let mut lines =
                    format!("{started}\n{}", result(r#"{"turn":{"id":"TURN","status":"inProgress"}}"#));
                for line in &self.turn {
                    lines += line;
                    lines.push('\n');
                    lines += NOISE;
                }
                lines
            }
            "" => String::new(),
            _ => result("{}"),
        }
    }

    fn methods(&self) -> Vec<&str> {
        self.heard
            .iter()
            .map(|message| message.get("method").and_then(Value::as_str).unwrap_or("reply"))
            .collect()
    }

    fn params(&self, method: &str) -> &Value {
        let asked = self.heard.iter().find(|message| message.get("method").is_some_and(|own| *own == method));
        &asked.unwrap_or_else(|| panic!("{method} was asked: {:?}", self.heard))["params"]
    }
}

/// Drives an exchange to its end. The server's output comes in pieces of `piece` bytes.
fn drive(exchange: &mut Exchange, server: &mut Server, piece: usize) -> Vec<u8> {
    let (mut client, mut coming) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        match exchange.next() {
            NextStep::Send => {
                let Some(OutgoingRequest::Messages(lines)) = exchange.take_outgoing() else {
                    panic!("messages")
                };
                for line in String::from_utf8(lines).expect("JSON lines").lines() {
                    coming.extend_from_slice(server.hear(line).as_bytes());
                }
            }
            NextStep::Read(grace) if coming.is_empty() => match grace {
                Some(_) => exchange.silence(),
                None => exchange.finish(),
            },
            NextStep::Read(_) => {
                let rest = coming.split_off(piece.min(coming.len()));
                exchange.push(&coming);
                coming = rest;
            }
            NextStep::Interrupt => panic!("a session is interrupted by a message"),
            NextStep::Over => {
                client.append(&mut exchange.take_bytes());
                return client;
            }
        }
        client.append(&mut exchange.take_bytes());
    }
    panic!("the exchange never ends");
}

fn engine(change: impl FnOnce(&mut ExchangePolicy)) -> std::sync::Arc<ExchangeEngine> {
    let mut policy = ExchangePolicy::default();
    policy.protocol = Some(&CODEX_APP_SERVER);
    policy.name = "codex".to_owned();
    change(&mut policy);
    ExchangeEngine::new(policy).expect("a policy")
}

const TOOLS: &str = r#"[{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}}]"#;

fn chat(engine: &std::sync::Arc<ExchangeEngine>, messages: &str, more: &str) -> Exchange {
    let body = format!(r#"{{"model":"m","messages":{messages},"tools":{TOOLS}{more}}}"#);
    let route = ClientEndpoint::find("/chat/completions").expect("a path");
    engine.open(IncomingHead::new(route, body.as_bytes(), "id1")).expect("a request")
}

const ASKED: &str = r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"Weather?"}]"#;

const CALL: &[&str] = &[
    r#"{"method":"item/started","params":{IDS,"item":{"type":"dynamicToolCall","id":"call_1","tool":"get_weather","arguments":{"city":"Oslo","days":"2"},"status":"inProgress"}}}"#,
    r#"{"method":"item/tool/call","id":0,"params":{IDS,"callId":"call_1","tool":"get_weather","arguments":{"city":"Oslo","days":"2"}}}"#,
];
const SECOND: &[&str] = &[
    r#"{"method":"item/started","params":{IDS,"item":{"type":"dynamicToolCall","id":"call_2","tool":"get_weather","arguments":{"city":"Bergen"},"status":"inProgress"}}}"#,
    r#"{"method":"item/tool/call","id":1,"params":{IDS,"callId":"call_2","tool":"get_weather","arguments":{"city":"Bergen"}}}"#,
];
const TEXT: &[&str] = &[
    r#"{"method":"item/started","params":{IDS,"item":{"type":"agentMessage","id":"m1","text":""}}}"#,
    r#"{"method":"item/agentMessage/delta","params":{IDS,"itemId":"m1","delta":"It is "}}"#,
    r#"{"method":"item/agentMessage/delta","params":{IDS,"itemId":"m1","delta":"sunny."}}"#,
    r#"{"method":"item/completed","params":{IDS,"item":{"type":"agentMessage","id":"m1","text":"It is sunny."}}}"#,
    r#"{"method":"thread/tokenUsage/updated","params":{IDS,"tokenUsage":{"total":{"totalTokens":9,"inputTokens":5,"outputTokens":4},"last":{"totalTokens":9,"inputTokens":5,"outputTokens":4}}}}"#,
    r#"{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN","items":[],"status":"completed"}}}"#,
];

fn json(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).expect("text").parse().expect("JSON")
}

#[test]
fn a_call_leaves_the_session_and_its_turn_is_interrupted() {
    let engine = engine(|_| {});
    let mut server = Server::playing(&[CALL, SECOND, TEXT].concat());
    let mut exchange = chat(&engine, ASKED, "");
    let body = json(&drive(&mut exchange, &mut server, usize::MAX));
    assert_eq!(exchange.head().status, 200);
    let choice = &body["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 1, "{body}");
    assert_eq!(
        calls[0]["function"]["arguments"], r#"{"city":"Oslo","days":2}"#,
        "coerced to the client's schema"
    );
    assert_eq!(exchange.outcomes()[0].outcome.name(), "coerced");
    let asked = ["thread/start", "thread/inject_items", "turn/start", "turn/interrupt", "thread/unsubscribe"];
    assert_eq!(server.methods(), asked);
    let start = server.params("thread/start");
    assert_eq!(start["baseInstructions"], "Be brief.");
    assert_eq!(start["dynamicTools"][0]["name"], "get_weather");
    assert_eq!((&start["sandbox"], &start["approvalPolicy"]), (&"read-only".into(), &"never".into()));
    assert_eq!(start["config"]["features.shell_tool"], Value::Bool(false));
    let items = server.params("thread/inject_items")["items"].as_array().expect("items").len();
    assert_eq!(items, 1, "only the user's message");
    let interrupted = server.params("turn/interrupt");
    assert_eq!((&interrupted["threadId"], &interrupted["turnId"]), (&"THREAD".into(), &"TURN".into()));
}

#[test]
fn parallel_calls_are_collected_until_silence() {
    let engine = engine(|policy| policy.stop.mode = Some(StopMode::All));
    let mut server = Server::playing(&[CALL, SECOND].concat());
    let body = json(&drive(&mut chat(&engine, ASKED, ""), &mut server, usize::MAX));
    let calls = body["choices"][0]["message"]["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 2, "{body}");
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
    assert!(server.methods().contains(&"turn/interrupt"));
}

#[test]
fn results_of_calls_are_history() {
    let engine = engine(|_| {});
    let mut server = Server::playing(TEXT);
    let messages = r#"[{"role":"user","content":"Weather?"},
        {"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]},
        {"role":"tool","tool_call_id":"call_1","content":"sunny"}]"#;
    let mut exchange = chat(&engine, messages, r#","temperature":0.1,"max_tokens":50"#);
    let body = json(&drive(&mut exchange, &mut server, usize::MAX));
    assert_eq!(body["choices"][0]["message"]["content"], "It is sunny.");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(exchange.usage().input_tokens, Some(5));
    let items = server.params("thread/inject_items")["items"].as_array().expect("items");
    let types: Vec<_> = items.iter().map(|item| item["type"].as_str().unwrap_or_default()).collect();
    assert_eq!(types, ["message", "function_call", "function_call_output"]);
    let mut lost: Vec<_> = exchange.losses().iter().map(|loss| loss.what.as_str()).collect();
    lost.sort_unstable();
    assert_eq!(lost, ["max_output_tokens", "temperature"]);
    assert_eq!(server.methods().last(), Some(&"thread/unsubscribe"));
    assert!(!server.methods().contains(&"turn/interrupt"), "the turn is over");
}

#[test]
fn every_client_protocol_is_served_and_cuts_change_nothing() {
    let bodies = [
        ("/chat/completions", r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]STREAM}"#),
        ("/responses", r#"{"model":"m","input":"Hi"STREAM}"#),
        ("/messages", r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]STREAM}"#),
        ("/models/m:generateContent", r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#),
        ("/models/m:streamGenerateContent", r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#),
        ("/api/chat", r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]STREAM}"#),
    ];
    let engine = engine(|_| {});
    for (path, body) in bodies {
        for stream in [r#","stream":false"#, r#","stream":true"#] {
            let body = body.replace("STREAM", stream);
            let run = |piece| {
                let route = ClientEndpoint::find(path).expect("a path");
                let incoming = IncomingHead::new(route, body.as_bytes(), "id1");
                let mut exchange = engine.open(incoming).expect("a request");
                let bytes = drive(&mut exchange, &mut Server::playing(TEXT), piece);
                assert_eq!((exchange.head().status, exchange.error()), (200, None), "{path}");
                String::from_utf8(bytes).expect("text")
            };
            let complete = run(usize::MAX);
            assert!(complete.contains("It is ") && complete.contains("sunny."), "{path}: {complete}");
            assert!(!complete.contains("not yours"), "{path}: {complete}");
            for piece in [1, 7, 64] {
                assert_eq!(run(piece), complete, "{path} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn a_server_that_asks_for_approval_is_refused() {
    let approval =
        r#"{"method":"item/commandExecution/requestApproval","id":7,"params":{IDS,"command":"rm -rf /"}}"#;
    let mut server = Server::playing(&[&[approval], TEXT].concat());
    let body = json(&drive(&mut chat(&engine(|_| {}), ASKED, ""), &mut server, usize::MAX));
    assert_eq!(body["choices"][0]["message"]["content"], "It is sunny.");
    let reply = server.heard.iter().find(|message| message.get("method").is_none()).expect("a reply");
    assert_eq!(reply["id"].to_string(), "7");
    assert!(reply.get("error").is_some() && reply.get("result").is_none());
}

#[test]
fn a_refused_thread_and_a_dead_server_are_errors() {
    let mut server = Server::playing(TEXT);
    server.refusal =
        Some(r#"{"code":-32600,"message":"thread/start.dynamicTools requires experimentalApi capability"}"#);
    let mut exchange = chat(&engine(|_| {}), ASKED, "");
    drive(&mut exchange, &mut server, usize::MAX);
    let failure = exchange.failure().expect("a failure");
    assert!(failure.message.contains("experimentalApi"), "{failure:?}");
    assert!(exchange.head().status >= 400);

    // The turn never completes: the server's output ends.
    let mut exchange = chat(&engine(|_| {}), ASKED, r#","stream":true"#);
    let bytes = drive(&mut exchange, &mut Server::playing(&TEXT[..2]), usize::MAX);
    let text = String::from_utf8(bytes).expect("text");
    assert!(exchange.error().is_some() && text.contains("It is ") && text.contains("\"error\""), "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
}

#[test]
fn a_line_without_an_end_is_bounded() {
    let engine = engine(|policy| policy.limits.bytes = 1000);
    let mut exchange = chat(&engine, ASKED, "");
    exchange.take_outgoing();
    for _ in 0..200 {
        exchange.push(b"0123456789");
    }
    assert!(exchange.failure().is_some_and(|error| error.message.contains("too long")));
}

#[test]
fn whoever_leaves_interrupts_the_turn() {
    let mut server = Server::playing(&TEXT[..2]);
    let mut exchange = chat(&engine(|_| {}), ASKED, r#","stream":true"#);
    let mut coming = String::new();
    while coming.is_empty() || exchange.next() == NextStep::Send {
        let Some(OutgoingRequest::Messages(lines)) = exchange.take_outgoing() else { break };
        for line in String::from_utf8(lines).expect("lines").lines() {
            coming = server.hear(line);
            exchange.push(coming.as_bytes());
        }
    }
    let error = callweave::upstream::UpstreamError::new(
        callweave::upstream::ErrorClass::Transport,
        "the client left",
    );
    exchange.abort(error);
    assert_eq!(exchange.next(), NextStep::Send);
    let Some(OutgoingRequest::Messages(lines)) = exchange.take_outgoing() else { panic!("messages") };
    let lines = String::from_utf8(lines).expect("lines");
    assert!(lines.contains("turn/interrupt") && lines.contains("thread/unsubscribe"), "{lines}");
    assert_eq!(exchange.next(), NextStep::Over);
}

/// The usage of an interrupted turn comes after the interruption, or in the same bytes as the call.
#[test]
fn the_usage_of_an_interrupted_turn_is_waited_for() {
    let usage = r#"{"method":"thread/tokenUsage/updated","params":{IDS,"tokenUsage":{"total":{"totalTokens":9,"inputTokens":5,"outputTokens":4},"last":{"totalTokens":2,"inputTokens":1,"outputTokens":1}}}}"#;
    let over = r#"{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN","items":[],"status":"interrupted"}}}"#;
    let tool = r#"{"name":"get_weather","input_schema":{"type":"object"}}"#;
    let messages = format!(
        r#""model":"m","max_tokens":9,"messages":[{{"role":"user","content":"Hi"}}],"tools":[{tool}]"#
    );
    let chat = format!(r#""model":"m","messages":{ASKED},"tools":{TOOLS}"#);
    for (path, body, expected) in [
        ("/chat/completions", format!("{{{chat}}}"), r#""finish_reason":"tool_calls""#),
        (
            "/chat/completions",
            format!(r#"{{{chat},"stream":true,"stream_options":{{"include_usage":true}}}}"#),
            r#""finish_reason":"tool_calls""#,
        ),
        ("/messages", format!("{{{messages}}}"), r#""stop_reason":"tool_use""#),
        (
            "/messages",
            format!(r#"{{{messages},"stream":true}}"#),
            r#""delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":5,"output_tokens":4}"#,
        ),
    ] {
        for piece in [1, 50, usize::MAX] {
            let mut server = Server::playing(&[CALL, &[usage, over]].concat());
            let route = ClientEndpoint::find(path).expect("a path");
            let head = IncomingHead::new(route, body.as_bytes(), "id1");
            let mut exchange = engine(|_| {}).open(head).expect("a request");
            let text = String::from_utf8(drive(&mut exchange, &mut server, piece)).expect("text");
            assert_eq!(exchange.usage().total_tokens, Some(9), "{piece}: {text}");
            assert!(text.contains(expected), "{piece}: {text}");
            assert!(server.methods().contains(&"turn/interrupt"), "{piece}: {:?}", server.methods());
        }
    }
}

/// A process that dies after the calls takes nothing from the response.
#[test]
fn a_response_that_only_waits_for_its_usage_is_complete() {
    let mut server = Server::playing(CALL);
    let mut exchange = chat(&engine(|_| {}), ASKED, "");
    loop {
        match exchange.next() {
            NextStep::Send => {
                let Some(OutgoingRequest::Messages(lines)) = exchange.take_outgoing() else {
                    panic!("messages")
                };
                let lines = String::from_utf8(lines).expect("lines");
                let coming: String = lines.lines().map(|line| server.hear(line)).collect();
                exchange.push(coming.as_bytes());
            }
            NextStep::Read(_) => {
                exchange.fail(&callweave::exchange::UpstreamFault::lost("died"));
            }
            NextStep::Interrupt | NextStep::Over => break,
        }
    }
    assert_eq!((exchange.head().status, exchange.error()), (200, None));
    let body = json(&exchange.take_bytes());
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn messages_are_written_out_in_full() {
    let mut server = Server::playing(TEXT);
    let body = r#"{"model":"m","input":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},
        {"role":"user","content":[{"type":"input_text","text":"Go on"}]}]}"#;
    let route = ClientEndpoint::find("/responses").expect("a path");
    let mut exchange =
        engine(|_| {}).open(IncomingHead::new(route, body.as_bytes(), "id1")).expect("a request");
    drive(&mut exchange, &mut server, usize::MAX);
    let items = server.params("thread/inject_items")["items"].as_array().expect("items").clone();
    let found: Vec<_> =
        items.iter().map(|item| (item["type"].as_str(), item["content"][0]["type"].as_str())).collect();
    let message = Some("message");
    assert_eq!(
        found,
        [(message, Some("input_text")), (message, Some("output_text")), (message, Some("input_text"))]
    );
}

#[test]
fn a_request_without_tools_by_choice_declares_none() {
    let mut server = Server::playing(TEXT);
    let mut exchange = chat(&engine(|_| {}), ASKED, r#","tool_choice":"none""#);
    drive(&mut exchange, &mut server, usize::MAX);
    assert!(server.params("thread/start")["dynamicTools"].as_array().expect("tools").is_empty());
    assert_eq!(exchange.losses(), []);
}

#[test]
fn own_tools_are_left_on_only_where_the_policy_allows_them() {
    for allows in [false, true] {
        let mut server = Server::playing(TEXT);
        let engine = engine(|policy| policy.allows_agent_tools = allows);
        drive(&mut chat(&engine, ASKED, ""), &mut server, usize::MAX);
        let start = server.params("thread/start");
        assert_eq!(start["config"].get("features.shell_tool").is_none(), allows);
        assert_eq!(start.get("environments").is_none(), allows);
        assert_eq!((&start["sandbox"], &start["approvalPolicy"]), (&"read-only".into(), &"never".into()));
    }
}

/// An app-server refuses names with other letters.
#[test]
fn names_of_tools_are_mapped_there_and_back() {
    let call = CALL.iter().map(|line| line.replace("get_weather", "NAME")).collect::<Vec<_>>();
    let tools = r#"[{"type":"function","function":{"name":"files.read","parameters":{"type":"object"}}}]"#;
    let body = format!(r#"{{"model":"m","messages":{ASKED},"tools":{tools}}}"#);
    let open = || {
        let route = ClientEndpoint::find("/chat/completions").expect("a path");
        engine(|_| {}).open(IncomingHead::new(route, body.as_bytes(), "id1")).expect("a request")
    };
    let mut server = Server::playing(TEXT);
    drive(&mut open(), &mut server, usize::MAX);
    let name = server.params("thread/start")["dynamicTools"][0]["name"].as_str().expect("a name").to_owned();
    assert!(
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')),
        "{name}"
    );
    let call: Vec<String> = call.iter().map(|line| line.replace("NAME", &name)).collect();
    let mut server = Server::playing(&call.iter().map(String::as_str).collect::<Vec<_>>());
    let body = json(&drive(&mut open(), &mut server, usize::MAX));
    assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "files.read");
}
