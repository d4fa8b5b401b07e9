//! A scripted Codex app-server: this test program, started again. The model's name says how a turn goes.

use std::collections::HashMap;
use std::io::{BufRead, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// The variable with the file that the server writes what it hears to.
pub(crate) const HEARD: &str = "SCRIPTED_HEARD";
/// The variable with the account and version that the server pretends to have.
pub(crate) const MANNER: &str = "SCRIPTED_MANNER";

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

fn note(text: &str) {
    let Ok(path) = std::env::var(HEARD) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| writeln!(file, "{text}"));
}

/// Serves until its input is closed.
pub(crate) fn serve() {
    let manner = std::env::var(MANNER).unwrap_or_default();
    let mut models: HashMap<String, (String, Value)> = HashMap::new();
    let mut turns: HashMap<String, Sender<()>> = HashMap::new();
    note(&format!("pid {}", std::process::id()));
    note(&format!("env {}", std::env::vars().map(|(name, _)| name).collect::<Vec<_>>().join(" ")));
    note(&format!("cwd {}", std::env::current_dir().unwrap_or_default().display()));
    eprintln!("{}", "complaint ".repeat(20_000));
    if manner == "exits" {
        std::process::exit(3);
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).expect("JSON");
        let (id, params) = (&message["id"], &message["params"]);
        let method = message["method"].as_str().unwrap_or("reply");
        if method != "thread/inject_items" || line.len() < 10_000 {
            note(&line);
        }
        let reply = |result: Value| say(&json!({"id": id, "result": result}));
        match method {
            "initialize" if manner == "silent" => {}
            "initialize" => {
                let version = if manner == "old" { "0.40.0" } else { "0.169.0" };
                reply(json!({"userAgent": format!("callweave/{version} (test)")}));
            }
            "account/read" => {
                reply(json!({"account": null, "requiresOpenaiAuth": manner == "logged-out"}));
            }
            "model/list" if params["cursor"] == "2" => {
                reply(json!({"data": [{"id": "second", "model": "second", "hidden": false}]}));
            }
            "model/list" => reply(json!({"data": [{"id": "x", "model": "first", "hidden": false},
                {"id": "y", "model": "hidden", "hidden": true}], "nextCursor": "2"})),
            "thread/start" => {
                let thread = format!("thread-{}", models.len());
                let model = params["model"].as_str().unwrap_or_default().to_owned();
                let sources = if model == "instructed" { json!(["/x/AGENTS.md"]) } else { json!([]) };
                models.insert(thread.clone(), (model.clone(), params.clone()));
                if model == "slow-start" {
                    std::thread::sleep(Duration::from_millis(300));
                }
                reply(json!({"thread": {"id": thread}, "model": model, "instructionSources": sources}));
            }
            "turn/start" => {
                let thread = params["threadId"].as_str().unwrap_or_default().to_owned();
                let model = models.get(&thread).map(|(model, _)| model.clone()).unwrap_or_default();
                if model == "deaf" {
                    reply(json!({"turn": {"id": "turn"}}));
                    // It reads nothing any more, and does not end.
                    std::thread::sleep(Duration::from_secs(600));
                }
                let (stop, stopped) = channel();
                turns.insert(thread.clone(), stop);
                let turn = Turn { thread, stopped };
                say(&json!({"method": "turn/started", "params": {"threadId": turn.thread,
                    "turn": {"id": "turn", "status": "inProgress"}}}));
                reply(json!({"turn": {"id": "turn", "status": "inProgress"}}));
                std::thread::spawn(move || turn.play(&model));
            }
            "turn/interrupt" => {
                reply(json!({}));
                turns.remove(params["threadId"].as_str().unwrap_or_default());
            }
            "reply" | "initialized" => {}
            _ => reply(json!({})),
        }
    }
}

struct Turn {
    thread: String,
    /// Is closed when the turn is interrupted.
    stopped: Receiver<()>,
}

impl Turn {
    fn tell(&self, method: &str, mut params: Value) {
        params["threadId"] = self.thread.as_str().into();
        params["turnId"] = "turn".into();
        say(&json!({"method": method, "params": params}));
    }

    fn text(&self, id: &str, pieces: &[&str]) {
        self.tell("item/started", json!({"item": {"type": "agentMessage", "id": id, "text": ""}}));
        for piece in pieces {
            self.tell("item/agentMessage/delta", json!({"itemId": id, "delta": piece}));
        }
        let text = pieces.concat();
        self.tell("item/completed", json!({"item": {"type": "agentMessage", "id": id, "text": text}}));
    }

    fn call(&self, number: usize, city: &str) {
        let arguments = json!({"city": city, "days": "2"});
        let id = format!("call_{}_{number}", self.thread);
        let item = json!({"type": "dynamicToolCall", "id": id, "tool": "get_weather", "arguments": arguments,
            "status": "inProgress"});
        self.tell("item/started", json!({"item": item}));
        say(
            &json!({"method": "item/tool/call", "id": number, "params": {"threadId": self.thread, "turnId": "turn",
            "callId": id, "tool": "get_weather", "arguments": arguments}}),
        );
    }

    fn usage(&self, input: u64, output: u64) {
        let counts = json!({"totalTokens": input + output, "inputTokens": input, "outputTokens": output});
        self.tell("thread/tokenUsage/updated", json!({"tokenUsage": {"total": counts, "last": counts}}));
    }

    fn end(&self, status: &str, error: Value) {
        let turn = json!({"id": "turn", "items": [], "status": status, "error": error});
        self.tell("turn/completed", json!({"turn": turn}));
    }

    fn fail(&self, error: &Value) {
        self.tell("error", json!({"error": error, "willRetry": false}));
        self.end("failed", error.clone());
    }

    /// Waits, unless the turn is interrupted: then it ends.
    fn goes_on(&self, wait: Duration) -> bool {
        let is_on = self.stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
        if !is_on {
            note(&format!("interrupted {}", self.thread));
            self.end("interrupted", Value::Null);
        }
        is_on
    }

    /// Streams a word now and then.
    fn stream(&self, words: usize, wait: Duration) -> bool {
        self.tell("item/started", json!({"item": {"type": "agentMessage", "id": "m", "text": ""}}));
        (0..words).all(|word| {
            let delta = format!("{}-{word} ", self.thread);
            self.tell("item/agentMessage/delta", json!({"itemId": "m", "delta": delta}));
            self.goes_on(wait)
        })
    }

    fn play(self, model: &str) {
        let never = Duration::from_secs(600);
        match model {
            "call" | "parallel" => {
                self.text("m0", &["I look ", "it up."]);
                self.call(0, "Oslo");
                if model == "parallel" {
                    self.call(1, "Bergen");
                }
                if self.stopped.recv_timeout(never).is_err() {
                    note(&format!("interrupted {}", self.thread));
                    self.usage(5, 4);
                    self.end("interrupted", Value::Null);
                }
            }
            "use-tool" => {
                let block = "<use_tool>\n<name>get_weather</name>\n<args>{\"city\":\"Oslo\",\"days\":2}</args>\n</use_tool>";
                self.text("m0", &["Sure. ", block, " and a tail"]);
                self.usage(5, 4);
                self.end("completed", Value::Null);
            }
            "own-tool" => {
                let item = json!({"type": "commandExecution", "id": "x1", "command": "ls", "status": "completed",
                    "aggregatedOutput": "nothing", "exitCode": 0});
                self.tell("item/started", json!({"item": item}));
                self.tell("item/completed", json!({"item": item}));
                self.text("m1", &["Done."]);
                self.usage(5, 4);
                self.usage(7, 1);
                self.end("completed", Value::Null);
            }
            "approval" => {
                say(&json!({"method": "item/commandExecution/requestApproval", "id": 77,
                    "params": {"threadId": self.thread, "turnId": "turn", "command": "rm -rf /"}}));
                self.goes_on(Duration::from_millis(300));
                self.text("m1", &["Refused."]);
                self.end("completed", Value::Null);
            }
            "endless" => {
                self.stream(100_000, Duration::from_millis(5));
            }
            "streams" => {
                if self.stream(20, Duration::from_millis(20)) {
                    self.end("completed", Value::Null);
                }
            }
            "dies" => {
                self.stream(3, Duration::from_millis(5));
                std::process::abort();
            }
            "dies-at-once" => std::process::abort(),
            "malformed" => {
                self.tell("item/started", json!({"item": {"type": "agentMessage", "id": "m", "text": ""}}));
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(b"\xff\xfe not JSON {\n[1, 2\n\n");
                drop(out);
                self.text("m", &["It goes ", "on."]);
                self.end("completed", Value::Null);
            }
            "long-line" => {
                self.tell("item/agentMessage/delta", json!({"itemId": "m", "delta": "x".repeat(3 << 20)}));
                self.goes_on(never);
            }
            "retries" => {
                self.tell("item/started", json!({"item": {"type": "agentMessage", "id": "m", "text": ""}}));
                self.tell("item/agentMessage/delta", json!({"itemId": "m", "delta": "half a "}));
                let error = json!({"message": "Reconnecting... 1/5", "additionalDetails": "stream cut"});
                self.tell("error", json!({"error": error, "willRetry": true}));
                self.tell("item/agentMessage/delta", json!({"itemId": "m", "delta": "half a word"}));
                self.goes_on(never);
            }
            "retries-early" => {
                let error = json!({"message": "Reconnecting... 1/5"});
                self.tell("error", json!({"error": error, "willRetry": true}));
                self.text("m", &["All ", "of it."]);
                self.end("completed", Value::Null);
            }
            "too-long" => {
                self.fail(&json!({"message": "too long", "codexErrorInfo": "contextWindowExceeded"}))
            }
            "no-quota" => self.fail(&json!({"message": "no quota", "codexErrorInfo": "usageLimitExceeded"})),
            "busy" => self.fail(&json!({"message": "busy", "codexErrorInfo": "serverOverloaded"})),
            "no-login" => self.fail(&json!({"message": "who?", "codexErrorInfo": "unauthorized"})),
            "limited" => self.fail(&json!({"message": "slower",
                "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}})),
            "truncated" => {
                self.text("m", &["Once upon"]);
                self.fail(&json!({"codexErrorInfo": "other",
                "message": "Incomplete response returned, reason: max_output_tokens"}));
            }
            _ => {
                self.text("m1", &["It is ", "sunny."]);
                self.usage(5, 4);
                self.end("completed", Value::Null);
            }
        }
    }
}
