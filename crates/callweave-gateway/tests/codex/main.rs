//! Codex behind the gateway: a scripted app-server as its child process, and clients of every protocol.
#![cfg(unix)]

mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// The child process: it plays the server only if it is asked to.
#[test]
fn scripted_app_server() {
    if std::env::var_os(server::HEARD).is_some() {
        server::serve();
    }
}

/// A gateway with a scripted app-server behind it, and a folder for both.
struct Setup {
    gateway: Arc<Gateway>,
    folder: PathBuf,
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Prints the catalog of models, or starts the server; the arguments are noted.
const SCRIPT: &str = r#"
echo "args $*" >> "$SCRIPTED_HEARD"
if [ "$1" = debug ] && [ "$SCRIPTED_MANNER" != old ]; then
    echo '{"models": [{"slug": "m", "tool_mode": "code_mode_only", "context_window": 9}]}'
else
    exec "$0" --exact scripted_app_server --nocapture --quiet
fi"#;

/// The configuration of a scripted app-server.
fn config(more: &str, general: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let program = program.display();
    format!(
        r#"default_upstream = "codex"
        {general}
        [upstreams.codex]
        protocol = "codex-app-server"
        command = ["sh", "-c", '''{SCRIPT}''', "{program}", "app-server"]
        environment = ["SCRIPTED_HEARD", "SCRIPTED_MANNER"]
        {more}"#
    )
}

fn setup_as(manner: &str, more: &str, general: &str) -> Setup {
    setup_with(manner, more, general, &[])
}

fn setup_with(manner: &str, more: &str, general: &str, own: &[(&str, &str)]) -> Setup {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("callweave-codex-test-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let config = Config::read(&config(more, general)).unwrap_or_else(|problem| panic!("{problem}"));
    let variables = |name: &str| match name {
        "PATH" => std::env::var("PATH").ok(),
        "HOME" => Some(folder.display().to_string()),
        server::HEARD => Some(folder.join("heard").display().to_string()),
        server::MANNER => Some(manner.to_owned()),
        "SECRET_OF_THE_GATEWAY" => Some("secret".to_owned()),
        _ => own.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
    };
    let gateway =
        Gateway::new(config, &Environment::of(variables)).unwrap_or_else(|problem| panic!("{problem}"));
    Setup { gateway, folder }
}

fn setup(more: &str) -> Setup {
    setup_as("", more, "")
}

struct Got {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Setup {
    fn request(path: &str, body: &Value) -> Request<Full<Bytes>> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", KEY.0));
        request.body(Full::new(Bytes::from(body.to_string()))).expect("a request")
    }

    async fn post(&self, path: &str, body: &Value) -> Got {
        let (parts, body) = self.gateway.handle(Self::request(path, body)).await.into_parts();
        let bytes = body.collect().await.expect("a body that does not break").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        Got { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// What the servers have heard and noted so far.
    fn heard(&self) -> String {
        std::fs::read_to_string(self.folder.join("heard")).unwrap_or_default()
    }

    fn count(&self, part: &str) -> usize {
        self.heard().matches(part).count()
    }

    /// Waits until something was heard a number of times.
    async fn wait_for(&self, part: &str, times: usize) {
        let start = Instant::now();
        while self.count(part) < times {
            assert!(start.elapsed() < Duration::from_secs(20), "{part} in {}", self.heard());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.heard().lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect()
    }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})
}

fn chat(model: &str, is_streamed: bool) -> Value {
    json!({"model": model, "stream": is_streamed,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": schema()}}]})
}

const CHAT: &str = "/v1/chat/completions";

/// Requests of every client protocol, with a path for complete and one for streamed responses.
fn clients(model: &str) -> Vec<(String, Value)> {
    let tool = json!({"name": "get_weather", "parameters": schema()});
    let mut all = Vec::new();
    for is_streamed in [false, true] {
        let method = if is_streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        all.extend([
            (CHAT.to_owned(), chat(model, is_streamed)),
            (
                "/v1/responses".to_owned(),
                json!({"model": model, "stream": is_streamed, "input": "Weather?",
                    "tools": [{"type": "function", "name": "get_weather", "parameters": schema()}]}),
            ),
            (
                "/v1/messages".to_owned(),
                json!({"model": model, "stream": is_streamed, "max_tokens": 99,
                    "messages": [{"role": "user", "content": "Weather?"}],
                    "tools": [{"name": "get_weather", "input_schema": schema()}]}),
            ),
            (
                format!("/v1beta/models/{model}:{method}"),
                json!({"contents": [{"role": "user", "parts": [{"text": "Weather?"}]}],
                    "tools": [{"functionDeclarations": [tool]}]}),
            ),
            (
                "/api/chat".to_owned(),
                json!({"model": model, "stream": is_streamed, "messages": [{"role": "user", "content": "Weather?"}],
                    "tools": [{"type": "function", "function": tool}]}),
            ),
        ]);
    }
    all
}

#[tokio::test]
async fn every_client_gets_text_calls_and_errors() {
    let setup = setup("retries = 0");
    for (path, body) in clients("text") {
        let got = setup.post(&path, &body).await;
        assert!(got.status == 200 && got.text.contains("sunny."), "{path}: {} {}", got.status, got.text);
    }
    for (path, body) in clients("call") {
        let got = setup.post(&path, &body).await;
        assert_eq!(got.status, 200, "{path}: {}", got.text);
        // Coerced to the client's schema, whatever the wire's form of arguments.
        let text = got.text.replace(['\\', ' '], "");
        assert!(text.contains("get_weather") && text.contains(r#""days":2"#), "{path}: {}", got.text);
        assert!(!got.text.contains("Bergen"), "{path}: {}", got.text);
    }
    for (path, body) in clients("too-long") {
        let got = setup.post(&path, &body).await;
        assert!(
            matches!(got.status, 400 | 413) && got.text.contains("too long"),
            "{path}: {} {}",
            got.status,
            got.text
        );
    }
    assert_eq!(setup.pids().len(), 1, "one process for all");
    let requests = 3 * 10;
    setup.wait_for("\"thread/unsubscribe\"", requests).await;
    assert_eq!(setup.count("\"thread/start\""), requests);
}

#[tokio::test]
async fn a_call_ends_the_turn_and_its_result_comes_back_as_history() {
    let setup = setup("");
    let mut body = chat("call", false);
    let got = setup.post(CHAT, &body).await;
    let message = &got.json()["choices"][0];
    assert_eq!(
        (&message["finish_reason"], &message["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    assert_eq!(got.json()["usage"]["total_tokens"], 9, "of the interrupted turn");
    setup.wait_for("\"turn/interrupt\"", 1).await;
    setup.wait_for("interrupted thread-0", 1).await;
    let call = message["message"]["tool_calls"][0].clone();
    let messages = body["messages"].as_array_mut().expect("messages");
    messages.push(message["message"].clone());
    messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"}));
    body["model"] = "text".into();
    let got = setup.post(CHAT, &body).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "It is sunny.");
    assert_eq!(got.json()["usage"]["total_tokens"], 9);
    let heard = setup.heard();
    let items = heard.lines().filter(|line| line.contains("thread/inject_items")).nth(1).expect("a history");
    let items: Value = serde_json::from_str(items).expect("JSON");
    let types: Vec<_> =
        items["params"]["items"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
    assert_eq!(types, ["message", "function_call", "function_call_output"]);
}

#[tokio::test]
async fn parallel_calls_are_collected_where_that_is_configured() {
    let setup = setup("stop_after_tools_mode = \"all\"\nstop_after_tools_grace_ms = 100");
    for (path, body) in clients("parallel") {
        let got = setup.post(&path, &body).await;
        assert!(got.text.contains("Oslo") && got.text.contains("Bergen"), "{path}: {}", got.text);
    }
    let got = setup.post(CHAT, &chat("parallel", false)).await.json();
    assert_eq!(got["choices"][0]["message"]["tool_calls"].as_array().map(Vec::len), Some(2));
    assert_eq!(got["choices"][0]["finish_reason"], "tool_calls");
}

/// The variables of the story, and what one response has then: the number of calls, and whether they waited for more.
#[tokio::test]
async fn the_variables_of_the_environment_are_honoured() {
    const GRACE: (&str, &str) = ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", "700");
    for (variables, calls, waits) in [
        (&[GRACE][..], 1, false),
        (&[("PROXY_STOP_AFTER_TOOLS_MODE", "first"), GRACE], 1, false),
        (&[("PROXY_STOP_AFTER_TOOLS_MODE", "all"), GRACE], 2, true),
        (&[("PROXY_STOP_AFTER_TOOLS_MODE", "all"), ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", "10")], 2, false),
        // A turn cannot go on without results: all calls come then.
        (&[("PROXY_STOP_AFTER_TOOLS", "false"), GRACE], 2, true),
        (&[("PROXY_ENABLE_PARALLEL_TOOL_CALLS", "true"), GRACE], 2, true),
        (
            &[("PROXY_ENABLE_PARALLEL_TOOL_CALLS", "true"), ("PROXY_STOP_AFTER_TOOLS_MODE", "first"), GRACE],
            1,
            false,
        ),
    ] {
        let setup = setup_with("", "", "", variables);
        setup.post(CHAT, &chat("text", false)).await;
        let start = Instant::now();
        let got = setup.post(CHAT, &chat("parallel", false)).await.json();
        let took = start.elapsed();
        let message = &got["choices"][0]["message"];
        assert_eq!(message["tool_calls"].as_array().map(Vec::len), Some(calls), "{variables:?}: {got}");
        assert_eq!(took >= Duration::from_millis(700), waits, "{variables:?}: {took:?}");
    }
    for (name, value) in [("PROXY_STOP_AFTER_TOOLS", "treu"), ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", "1s")] {
        let config = Config::read(&config("", "")).expect("valid");
        let environment = Environment::of(|own| (own == name).then(|| value.to_owned()));
        let problem = Gateway::new(config, &environment).err().map(|problem| problem.to_string());
        assert!(problem.is_some_and(|problem| problem.contains(name)), "{name}");
    }
}

#[tokio::test]
async fn what_is_said_after_calls_is_left_out_unless_it_is_wanted() {
    let tail = ("PROXY_SUPPRESS_TAIL_AFTER_TOOLS", "false");
    let all = ("PROXY_STOP_AFTER_TOOLS_MODE", "all");
    for (variables, is_there) in [(&[all][..], false), (&[all, tail], true)] {
        let setup = setup_with("", "", "", variables);
        let got = setup.post(CHAT, &chat("use-tool", true)).await;
        assert_eq!(got.text.contains("a tail"), is_there, "{variables:?}: {}", got.text);
    }
}

#[tokio::test]
async fn blocks_in_text_are_calls_and_own_tools_are_not() {
    let setup = setup("");
    let got = setup.post(CHAT, &chat("use-tool", false)).await.json();
    assert_eq!(got["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(got["choices"][0]["message"]["content"], Value::Null);
    assert!(!got.to_string().contains("a tail"), "{got}");
    // What Codex may not do is an error, should it do it.
    let got = setup.post(CHAT, &chat("own-tool", false)).await;
    assert!(got.status == 502 && got.text.contains("commandExecution"), "{} {}", got.status, got.text);
    setup.wait_for("thread/unsubscribe", 2).await;
}

/// The key and its digest.
const KEY: (&str, &str) = ("secret", "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");

#[tokio::test]
async fn own_tools_that_are_allowed_never_drive_the_finish() {
    let keys = format!("client_keys = [\"sha256:{}\"]", KEY.1);
    let setup = setup_as("", "run_tools_on_this_machine = true", &keys);
    let got = setup.post(CHAT, &chat("own-tool", false)).await.json();
    assert!(!setup.heard().contains("model_catalog_json"), "{}", setup.heard());
    let choice = &got["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("stop"), &json!("Done.")));
    assert!(choice["message"].get("tool_calls").is_none_or(Value::is_null), "{got}");
    assert_eq!(got["usage"]["total_tokens"], 17, "the sum of both model calls");
}

#[tokio::test]
async fn what_a_client_asks_for_reaches_the_thread_and_the_rest_is_reported() {
    let setup = setup("");
    let mut body = chat("text", false);
    body["reasoning_effort"] = "low".into();
    body["temperature"] = 0.5.into();
    body["stop"] = json!(["x"]);
    body["tool_choice"] = "required".into();
    body["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}});
    body["messages"][1]["content"] = json!([{"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]);
    let got = setup.post(CHAT, &body).await;
    let lost = got.headers["x-callweave-lost"].to_str().expect("text").to_owned();
    for name in ["temperature", "stop", "tool_choice"] {
        assert!(lost.contains(name), "{name} of {lost}");
    }
    assert!(!lost.contains("parallel") && !lost.contains("reasoning"), "{lost}");
    let params = |method: &str| -> Value {
        let heard = setup.heard();
        let line = heard.lines().find(|line| line.contains(method)).expect("heard").to_owned();
        serde_json::from_str::<Value>(&line).expect("JSON")["params"].clone()
    };
    let thread = params("\"thread/start\"");
    assert_eq!((&thread["model"], &thread["baseInstructions"]), (&json!("text"), &json!("Be brief.")));
    assert_eq!((&thread["ephemeral"], &thread["sandbox"]), (&json!(true), &json!("read-only")));
    assert_eq!((&thread["environments"], &thread["approvalPolicy"]), (&json!([]), &json!("never")));
    assert_eq!(thread["config"]["features.shell_tool"], false);
    assert_eq!(thread["dynamicTools"][0]["inputSchema"], schema());
    let turn = params("\"turn/start\"");
    assert_eq!((&turn["effort"], &turn["outputSchema"]["type"]), (&json!("low"), &json!("object")));
    assert!(params("\"thread/inject_items\"").to_string().contains("data:image/png;base64,iVBORw0KGgo="));
}

#[tokio::test]
async fn models_are_those_of_the_process() {
    let setup = setup("");
    let list = setup.gateway.models().await;
    assert_eq!(list, ["first", "second"]);
    assert!(setup.heard().contains("model/list"));
}

#[tokio::test]
async fn the_process_is_isolated() {
    let setup = setup("");
    setup.post(CHAT, &chat("text", false)).await;
    let heard = setup.heard();
    let variables = heard.lines().find_map(|line| line.strip_prefix("env ")).expect("variables");
    let mut names: Vec<&str> = variables.split(' ').collect();
    // Those that the shell sets by itself.
    names.retain(|name| !matches!(*name, "PWD" | "OLDPWD" | "_" | "SHLVL"));
    names.sort_unstable();
    assert_eq!(names, ["CODEX_HOME", "HOME", "PATH", server::HEARD, server::MANNER]);
    assert!(setup.folder.join(".local/state/callweave/codex").is_dir());
    let cwd = heard.lines().find_map(|line| line.strip_prefix("cwd ")).expect("a folder");
    assert!(cwd.contains("callweave-codex-"), "{cwd}");
}

#[tokio::test]
async fn the_models_of_the_process_have_no_tools_of_their_own() {
    let setup = setup("");
    setup.post(CHAT, &chat("text", false)).await;
    let heard = setup.heard();
    let arguments = heard.lines().find(|line| line.contains("model_catalog_json")).expect("a catalog");
    let (_, path) = arguments.split_once("model_catalog_json=\"").expect("a path");
    let catalog = std::fs::read_to_string(path.trim_end_matches('"')).expect("a catalog");
    assert_eq!(catalog, r#"{"models":[{"slug":"m","tool_mode":null,"context_window":9}]}"#);
    assert!(heard.contains("args debug models --bundled"), "{heard}");
}

#[tokio::test]
async fn a_process_that_cannot_be_used_says_why() {
    for (manner, more, status, part) in [
        ("old", "", 502, "too old"),
        ("logged-out", "", 401, "not logged in"),
        ("exits", "retries = 0", 502, "ended before it was ready"),
        ("silent", "retries = 0", 504, "was not ready"),
    ] {
        let setup = setup_as(manner, more, "[timeouts]\nconnect = 1");
        let got = setup.post(CHAT, &chat("text", false)).await;
        assert!(got.status == status && got.text.contains(part), "{manner}: {} {}", got.status, got.text);
    }
    let text =
        "default_upstream = \"codex\"\n[upstreams.codex]\ncommand = [\"/no/such/codex\", \"app-server\"]";
    let config = Config::read(text).expect("valid");
    let home = std::env::temp_dir().join("callweave-codex-test-home").display().to_string();
    let home = |name: &str| (name == "HOME").then(|| home.clone());
    let gateway = Gateway::new(config, &Environment::of(home)).expect("a gateway");
    let missing = Setup { gateway, folder: std::env::temp_dir().join("callweave-codex-test-home") };
    let got = missing.post(CHAT, &chat("text", false)).await;
    assert!(got.status == 502 && got.text.contains("there is no program"), "{} {}", got.status, got.text);
}

#[tokio::test]
async fn instructions_that_the_client_does_not_know_are_refused() {
    let setup = setup("");
    let got = setup.post(CHAT, &chat("instructed", false)).await;
    assert!(got.status == 502 && got.text.contains("AGENTS.md"), "{} {}", got.status, got.text);
    setup.wait_for("thread/unsubscribe", 1).await;
    assert_eq!(setup.count("turn/start"), 0);
}

#[tokio::test]
async fn errors_have_their_classes() {
    let setup = setup("retries = 0");
    for (model, status) in
        [("too-long", 400), ("no-quota", 403), ("busy", 503), ("no-login", 401), ("limited", 429)]
    {
        let got = setup.post(CHAT, &chat(model, false)).await;
        assert_eq!(got.status, status, "{model}: {}", got.text);
    }
    // A limit of the model is the end of a response.
    let got = setup.post(CHAT, &chat("truncated", false)).await;
    assert_eq!(got.json()["choices"][0]["finish_reason"], "length", "{}", got.text);
}

#[tokio::test]
async fn approvals_are_refused() {
    let setup = setup("");
    let got = setup.post(CHAT, &chat("approval", false)).await.json();
    assert_eq!(got["choices"][0]["message"]["content"], "Refused.");
    setup.wait_for("\"error\"", 1).await;
    let heard = setup.heard();
    let reply = heard.lines().find(|line| line.contains("\"error\"")).expect("a reply");
    assert_eq!(serde_json::from_str::<Value>(reply).expect("JSON")["id"], 77);
}

#[tokio::test]
async fn a_process_that_dies_is_an_error_and_the_next_request_works() {
    let setup = setup("retries = 0");
    for (path, body) in clients("dies") {
        let got = setup.post(&path, &body).await;
        let is_streamed = body["stream"] == true || path.contains("stream");
        match is_streamed {
            true => {
                assert!(got.text.contains("thread-") && got.text.contains("error"), "{path}: {}", got.text);
                assert!(
                    !got.text.contains("[DONE]") && !got.text.contains("\"stop\""),
                    "{path}: {}",
                    got.text
                );
            }
            false => assert!(got.status == 502 && got.text.contains("error"), "{path}: {}", got.text),
        }
        let got = setup.post(CHAT, &chat("text", false)).await;
        assert_eq!(got.status, 200, "after {path}: {}", got.text);
    }
    assert_eq!(setup.pids().len(), 11, "each death is followed by a start");
}

#[tokio::test]
async fn a_killed_process_is_an_error_in_every_stream_and_the_next_request_works() {
    let setup = setup("retries = 0");
    let asking: Vec<_> =
        (0..3).map(|_| tokio::spawn(setup.gateway.clone().handle_owned(chat("endless", true)))).collect();
    setup.wait_for("\"turn/start\"", 3).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let killed = std::process::Command::new("kill").args(["-9", &setup.pids()[0].to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    for asked in asking {
        let text = asked.await.expect("no panic");
        assert!(text.contains("thread-") && text.contains("\"error\"") && !text.contains("[DONE]"), "{text}");
    }
    let got = setup.post(CHAT, &chat("text", false)).await;
    assert_eq!(got.status, 200, "{}", got.text);
}

#[tokio::test]
async fn a_process_that_dies_again_and_again_is_started_less_and_less_often() {
    let setup = setup("retries = 0");
    let start = Instant::now();
    let mut requests = 0;
    while start.elapsed() < Duration::from_millis(1200) {
        let got = setup.post(CHAT, &chat("dies-at-once", false)).await;
        assert!(got.status >= 500, "{}", got.text);
        requests += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let starts = setup.pids().len();
    assert!((2..=5).contains(&starts) && requests > starts, "{starts} starts for {requests} requests");
}

#[tokio::test]
async fn malformed_lines_are_skipped_and_repeated_text_is_an_error() {
    let setup = setup("retries = 0");
    let got = setup.post(CHAT, &chat("malformed", false)).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "It goes on.");
    let got = setup.post(CHAT, &chat("retries", true)).await;
    assert!(got.text.contains("stream cut") && !got.text.contains("half a word"), "{}", got.text);
    setup.wait_for("interrupted", 1).await;
    let got = setup.post(CHAT, &chat("retries-early", false)).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "All of it.");
}

#[tokio::test]
async fn a_line_without_a_bound_ends_the_process_and_not_the_gateway() {
    let setup = setup_as("", "retries = 0", "[limits]\nanswer = 1000000");
    let got = setup.post(CHAT, &chat("long-line", false)).await;
    assert!(got.status == 502 && got.text.contains("1000000 bytes"), "{} {}", got.status, got.text);
    assert_eq!(setup.post(CHAT, &chat("text", false)).await.status, 200);
}

#[tokio::test]
async fn a_process_that_replies_to_nothing_is_given_up() {
    a_deaf_process_is_replaced(10).await;
}

#[tokio::test]
async fn a_process_whose_input_is_full_is_given_up() {
    a_deaf_process_is_replaced(4 << 20).await;
}

async fn a_deaf_process_is_replaced(size: usize) {
    let setup = setup_as("", "retries = 0", "[timeouts]\nidle = 1\nfirst_byte = 2");
    let gateway = setup.gateway.clone();
    let first = tokio::spawn(gateway.handle_owned(chat("deaf", true)));
    setup.wait_for("\"turn/start\"", 1).await;
    // It hangs in a way that the model has no part in, or takes less than a pipe holds.
    let mut body = chat("text", false);
    body["messages"][0]["content"] = "x".repeat(size).into();
    let got = setup.post(CHAT, &body).await;
    assert!(got.status >= 500, "{} {}", got.status, got.text);
    assert!(first.await.expect("no panic").contains("error"));
    let got = setup.post(CHAT, &chat("text", false)).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(setup.pids().len(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_interrupts_its_turn_at_any_moment() {
    let setup = setup("");
    let mut response = setup.gateway.handle(Setup::request(CHAT, &chat("endless", true))).await;
    response.body_mut().frame().await.expect("a piece").expect("a piece");
    drop(response);
    setup.wait_for("interrupted thread-0", 1).await;
    setup.wait_for("thread/unsubscribe", 1).await;
    // Before the thread is there, and before the turn is.
    for wait in [50, 310] {
        let asking = setup.gateway.clone().handle_owned(chat("slow-start", true));
        assert!(tokio::time::timeout(Duration::from_millis(wait), asking).await.is_err() || wait > 300);
    }
    setup.wait_for("thread/unsubscribe", 3).await;
}

#[tokio::test]
async fn twenty_at_once_do_not_mix() {
    let setup = setup("");
    let start = Instant::now();
    let asking: Vec<_> =
        (0..20).map(|_| tokio::spawn(setup.gateway.clone().handle_owned(chat("streams", true)))).collect();
    let mut threads = std::collections::HashSet::new();
    for asked in asking {
        let text = asked.await.expect("no panic");
        let deltas: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        let said: String =
            deltas.iter().filter_map(|delta| delta["choices"][0]["delta"]["content"].as_str()).collect();
        let words: Vec<&str> = said.split_whitespace().collect();
        let thread = words[0].rsplit_once('-').expect("a thread and a number").0;
        let own: Vec<String> = (0..20).map(|word| format!("{thread}-{word}")).collect();
        assert_eq!(words, own);
        assert!(text.ends_with("data: [DONE]\n\n"));
        threads.insert(thread.to_owned());
    }
    assert_eq!((threads.len(), setup.pids().len()), (20, 1));
    assert!(start.elapsed() < Duration::from_secs(10), "they ran one after the other");
}

#[tokio::test]
async fn more_than_the_pool_holds_wait_and_then_are_refused() {
    let setup = setup_as("", "threads = 1\nretries = 0", "[timeouts]\nconnect = 0.3");
    let mut first = setup.gateway.handle(Setup::request(CHAT, &chat("endless", true))).await;
    first.body_mut().frame().await.expect("a piece").expect("a piece");
    let got = setup.post(CHAT, &chat("text", false)).await;
    assert!(got.status == 503 && got.text.contains("no room"), "{} {}", got.status, got.text);
    drop(first);
    assert_eq!(setup.post(CHAT, &chat("text", false)).await.status, 200);
}

#[test]
fn configurations_of_processes_are_checked() {
    let wrong = |text: &str| Config::read(text).err().map(|problem| problem.to_string()).unwrap_or_default();
    let up = "[upstreams.c]\ncommand = [\"codex\", \"app-server\"]\n";
    assert_eq!(wrong(up), "");
    assert_eq!(wrong(&format!("{up}protocol = \"codex-app-server\"")), "");
    for (text, part) in [
        ("[upstreams.c]\nprotocol = \"codex-app-server\"\nbase_url = \"http://h\"".to_owned(), "command = "),
        ("[upstreams.c]\ncommand = [\"\"]".to_owned(), "a program and its arguments"),
        ("[upstreams.c]\ncommand = [\"codex\"]".to_owned(), "one of its words is app-server"),
        (format!("{up}protocol = \"ollama\""), "speaks codex-app-server"),
        (format!("{up}base_url = \"http://h\""), "no address"),
        (format!("{up}codex_home = \"relative\""), "absolute"),
        (format!("{up}environment = [\"A=b\"]"), "environment variable"),
        (format!("{up}threads = 0"), "from 1 to 1000"),
        (format!("{up}run_tools_on_this_machine = true"), "client_keys"),
        ("[upstreams.c]\nbase_url = \"http://h\"\ncodex_home = \"/x\"".to_owned(), "with a command"),
        (
            "[upstreams.c]\nbase_url = \"http://h\"\nrun_tools_on_this_machine = true".to_owned(),
            "with a command",
        ),
    ] {
        assert!(wrong(&text).contains(part), "{text}: {}", wrong(&text));
    }
    let key = "ab".repeat(32);
    let keyed = format!("client_keys = [\"sha256:{key}\"]\n{up}run_tools_on_this_machine = true");
    assert_eq!(wrong(&keyed), "");
}

/// A request in a task of its own.
trait HandleOwned {
    async fn handle_owned(self, body: Value) -> String;
}

impl HandleOwned for Arc<Gateway> {
    async fn handle_owned(self, body: Value) -> String {
        let response = self.handle(Setup::request(CHAT, &body)).await;
        let bytes = response.into_body().collect().await.expect("a body that does not break").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }
}
