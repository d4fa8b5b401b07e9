//! Agents with a gateway of their own: scripts stand for them, note how they were started and ask the given gateway.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program;

/// A folder for one test, with an agent in it that does what a script says.
struct Place(PathBuf);

impl Place {
    fn new(test: &str, agent: &str, script: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("home")).expect("a folder");
        let path = folder.join(agent);
        fs::write(&path, format!("#!/bin/bash\ncd '{}'\n{script}\n", folder.display())).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
        Self(folder)
    }

    /// The program, which finds the agent and nothing else of the tester's.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(&[]);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.0.display());
        command.env_clear().env("PATH", path).env("HOME", self.0.join("home")).arg("run").args(arguments);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }

    /// Variables and arguments as the agent saw them.
    fn noted(&self) -> (Vec<String>, Vec<String>) {
        let list = |file: &str| self.read(file).split('\0').map(str::to_owned).collect();
        (list("variables"), list("arguments"))
    }
}

/// Notes how it was started.
const NOTE: &str = r#"env -0 > variables; printf '%s\0' "$@" > arguments"#;

/// Asks a gateway for a response; `$1` is its address, `$2` the path, `$3` the body.
const ASK: &str = r#"ask() {
  local address=${1#http://}; address=${address%%/*}
  exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
  printf 'POST %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %s\r\n\r\n%s' "$2" "${#3}" "$3" >&3
  cat <&3
}"#;

const DEMO: [&str; 3] = ["--demo", "--model", "demo/hermes"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_agent_is_answered_while_it_runs_and_its_screen_is_its_own() {
    let body =
        r#"{"model": "demo/openai-chat", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;
    let script = format!(
        "{ASK}\nask \"$ANTHROPIC_BASE_URL\" /v1/messages '{body}' > answer; echo out; echo err >&2; exit 7"
    );
    let place = Place::new("answered", "claude", &script);
    let log = place.0.join("log");
    let output = place.run(&[&["claude", "--log", &log.to_string_lossy()], &DEMO[..]].concat());
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n".into(), "err\n".into()));
    assert_eq!(output.status.code(), Some(7));
    let answer = place.read("answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"type\":\"message\""), "{answer}");
    assert!(place.read("log").contains("demo/openai-chat"), "{}", place.read("log"));
}

#[test]
fn claude_is_told_by_variables_and_not_by_those_of_the_user() {
    let place = Place::new("claude", "claude", NOTE);
    let mut command = place.command(&[&["claude"], &DEMO[..], &["--", "-p", "two words"]].concat());
    command.env("ANTHROPIC_API_KEY", "secret").env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    assert!(command.status().expect("it runs").success());
    let (variables, arguments) = place.noted();
    assert_eq!(arguments, ["-p", "two words", ""]);
    let url = variables.iter().find_map(|it| it.strip_prefix("ANTHROPIC_BASE_URL=")).expect("a base URL");
    assert!(
        url.starts_with("http://127.0.0.1:") && url != "http://127.0.0.1:1" && !url.ends_with("/v1"),
        "{url}"
    );
    assert!(variables.contains(&"ANTHROPIC_MODEL=demo/hermes".to_owned()));
    assert!(variables.contains(&"ANTHROPIC_SMALL_FAST_MODEL=demo/hermes".to_owned()));
    assert!(!variables.iter().any(|it| it.contains("secret")), "{variables:?}");
}

#[test]
fn codex_is_told_by_flags_and_needs_no_key() {
    let place = Place::new("codex", "codex", NOTE);
    assert!(place.run(&[&["codex"], &DEMO[..], &["--", "exec", "x"]].concat()).status.success());
    let (_, arguments) = place.noted();
    let values: Vec<_> =
        arguments.iter().zip(&arguments[1..]).filter(|it| it.0 == "-c").map(|it| it.1).collect();
    assert_eq!(values[0], "model_provider=\"callweave\"");
    let provider: toml::Table = format!("{}\n{}", values[1], values[2]).parse().expect("values are TOML");
    let own = &provider["model_providers"]["callweave"];
    assert_eq!((own["wire_api"].as_str(), own.get("env_key")), (Some("responses"), None));
    assert!(own["base_url"].as_str().is_some_and(|url| url.ends_with("/v1")), "{own:?}");
    assert_eq!(provider["model"].as_str(), Some("demo/hermes"));
    assert_eq!(arguments[6..], ["exec", "x", ""]);
}

#[test]
fn opencode_is_told_by_a_variable() {
    let place = Place::new("opencode", "opencode", NOTE);
    assert!(place.run(&[&["opencode"], &DEMO[..]].concat()).status.success());
    let (variables, _) = place.noted();
    let config =
        variables.iter().find_map(|it| it.strip_prefix("OPENCODE_CONFIG_CONTENT=")).expect("a variable");
    let config: Value = serde_json::from_str(config).expect("JSON");
    assert_eq!(config["model"], "callweave/demo/hermes");
    let provider = &config["provider"]["callweave"];
    assert!(provider["models"]["demo/hermes"].is_object(), "{config}");
    assert!(provider["options"]["baseURL"].as_str().is_some_and(|url| url.ends_with("/v1")), "{config}");
}

#[test]
fn qwen_is_told_by_variables_and_a_file_of_the_run() {
    let script = format!("{NOTE}; cat \"$QWEN_CODE_SYSTEM_SETTINGS_PATH\" > settings");
    let place = Place::new("qwen", "qwen", &script);
    assert!(place.run(&[&["qwen"], &DEMO[..]].concat()).status.success());
    let (variables, _) = place.noted();
    assert!(variables.contains(&"OPENAI_MODEL=demo/hermes".to_owned()));
    let settings: Value = serde_json::from_str(&place.read("settings")).expect("JSON");
    assert_eq!(settings["security"]["auth"]["selectedType"], "openai");
    let path =
        variables.iter().find_map(|it| it.strip_prefix("QWEN_CODE_SYSTEM_SETTINGS_PATH=")).expect("a path");
    assert!(!Path::new(path).exists(), "the files of a run go with it");
}

#[test]
fn gemini_finds_what_is_the_users_with_another_way_to_sign_in() {
    let script = format!(
        "{NOTE}; cd \"$GEMINI_CLI_HOME/.gemini\"; cat settings.json GEMINI.md; echo more >> GEMINI.md"
    );
    let place = Place::new("gemini", "gemini", &script);
    let own = place.0.join("home/.gemini");
    fs::create_dir_all(&own).expect("a folder");
    let settings =
        r#"{"ui": {"theme": "Default"}, "security": {"auth": {"selectedType": "oauth-personal"}}}"#;
    fs::write(own.join("settings.json"), settings).expect("a file");
    fs::write(own.join("GEMINI.md"), "\nmemory\n").expect("a file");
    let output = place.run(&[&["gemini"], &DEMO[..]].concat());
    let seen = text(&output.stdout);
    let (seen, memory) = seen.split_once('\n').expect("settings and memory");
    let seen: Value = serde_json::from_str(seen).expect("JSON");
    assert_eq!(memory, "memory\n");
    assert_eq!(
        (&seen["ui"]["theme"], &seen["security"]["auth"]["selectedType"]),
        (&Value::from("Default"), &Value::from("gemini-api-key"))
    );
    assert_eq!(fs::read_to_string(own.join("settings.json")).expect("a file"), settings);
    assert_eq!(fs::read_to_string(own.join("GEMINI.md")).expect("a file"), "\nmemory\nmore\n");
    let (variables, _) = place.noted();
    assert!(variables.contains(&"GEMINI_MODEL=demo/hermes".to_owned()));
    assert!(variables.iter().any(|it| it.starts_with("GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:")));
}

#[test]
fn continue_is_told_by_a_file_of_the_run() {
    let place = Place::new("continue", "cn", &format!("{NOTE}; cat \"$2\" > config"));
    assert!(place.run(&[&["continue"], &DEMO[..], &["--", "-p", "x"]].concat()).status.success());
    let (_, arguments) = place.noted();
    assert_eq!(
        (&arguments[0][..], &arguments[2..]),
        ("--config", &["-p".into(), "x".into(), String::new()][..])
    );
    let config: Value = serde_json::from_str(&place.read("config")).expect("JSON");
    assert_eq!(config["models"][0]["model"], "demo/hermes");
}

#[test]
fn signals_are_passed_on_and_the_end_is_the_agents() {
    for (signal, script, code) in [
        ("TERM", "trap 'echo told > told; exit 3' TERM", 3),
        ("INT", "trap 'echo told > told; exit 4' INT", 4),
        ("TERM", "echo told > told", 143),
    ] {
        let place =
            Place::new("signal", "codex", &format!("{script}\ntouch ready; while :; do sleep 0.02; done"));
        let mut child = place.command(&[&["codex"], &DEMO[..]].concat()).spawn().expect("it starts");
        let began = Instant::now();
        while !place.0.join("ready").exists() {
            assert!(began.elapsed() < Duration::from_secs(20), "the agent does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(sent.expect("there is kill").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{signal} {script}");
        assert_eq!(place.read("told"), "told\n");
    }
}

#[test]
fn what_is_missing_is_named_with_the_way_to_get_it() {
    let place = Place::new("missing", "claude", "touch ran");
    let fails = |arguments: &[&str], part: &str| {
        let output = place.run(arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(part), "{arguments:?}: {said}");
    };
    fails(&["qwen", "--demo"], "npm install -g @qwen-code/qwen-code");
    fails(&["claude"], "no upstream is configured: name a server with --upstream");
    fails(&["claude", "--config", "nowhere.toml"], "nowhere.toml");
    fails(&["claude", "--upstream", "127.0.0.1:1"], "name the model with --model");
    assert!(!place.0.join("ran").exists());
}

/// A server of Chat that lists these models, and responds with the model that it was asked for.
fn server(models: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let models: Vec<_> = models.iter().map(|id| serde_json::json!({"id": id, "object": "model"})).collect();
    let list = serde_json::json!({"object": "list", "data": models}).to_string();
    let none = r#"{"detail":"Not Found"}"#.to_owned();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let (mut first, mut length) = (String::new(), 0);
            let _ = reader.read_line(&mut first);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = std::io::Read::read_exact(&mut reader, &mut body);
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let message =
                serde_json::json!({"role": "assistant", "content": format!("I am {}", asked["model"])});
            let choice = serde_json::json!({"index": 0, "message": message, "finish_reason": "stop"});
            let answer =
                serde_json::json!({"id": "a", "object": "chat.completion", "choices": [choice]}).to_string();
            let (status, body) = match () {
                () if first.starts_with("GET") => ("200 OK", &list),
                () if first.contains("/chat/completions") => ("200 OK", &answer),
                () => ("404 Not Found", &none),
            };
            let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
            let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n{head}\r\n\r\n{body}");
        }
    });
    address.to_string()
}

#[test]
fn the_only_model_is_taken_and_every_name_means_it() {
    let body =
        r#"{"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;
    let script = format!("{ASK}\n{NOTE}; ask \"$ANTHROPIC_BASE_URL\" /v1/messages '{body}' > answer");
    let place = Place::new("only", "claude", &script);
    let output = place.run(&["claude", "--upstream", &server(&["tiny"])]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(place.noted().0.contains(&"ANTHROPIC_MODEL=tiny".to_owned()));
    assert!(place.read("answer").contains(r#"I am \"tiny\""#), "{}", place.read("answer"));
    let output = place.run(&["claude", "--upstream", &server(&["tiny", "large"])]);
    assert!(text(&output.stderr).contains("name the model with --model: there are tiny, large"));
}

/// The recipes of the document start their agents, each before a server in the place of its own.
#[test]
fn the_recipes_are_followed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let document = fs::read_to_string(path).expect("the document");
    let place = Place::new("recipes", "claude", "echo started >> started");
    for agent in ["codex", "opencode", "gemini", "qwen", "cn"] {
        fs::copy(place.0.join("claude"), place.0.join(agent)).expect("a script");
    }
    for server in ["llama-server", "ollama", "vllm", "lms"] {
        std::os::unix::fs::symlink("/bin/true", place.0.join(server)).expect("a program");
    }
    let program = Path::new(env!("CARGO_BIN_EXE_callweave"));
    std::os::unix::fs::symlink(program, place.0.join("callweave")).expect("a program");
    let mut wanted = 0;
    let blocks = document.split("```bash\n").skip(1).filter_map(|block| block.split("```").next());
    for block in blocks.filter(|block| block.contains("callweave run ")) {
        let mut script = format!("set -e\n{block}");
        for usual in
            ["localhost:8080", "127.0.0.1:8080", "127.0.0.1:11434", "127.0.0.1:8000", "127.0.0.1:1234"]
        {
            script = script.replace(usual, &server(&["tiny"]));
        }
        let mut shell = Command::new("sh");
        shell.env_clear().env("PATH", format!("{}:/usr/bin:/bin", place.0.display()));
        shell.env("HOME", place.0.join("home")).env("HOST_KEY", "key");
        let output = shell.args(["-c", &script]).stdin(Stdio::null()).output().expect("a shell");
        assert!(output.status.success(), "{script}: {}", text(&output.stderr));
        wanted += block.matches("callweave run ").count();
        assert_eq!(place.read("started").lines().count(), wanted, "{script}");
    }
    assert!(wanted >= 14, "{wanted} recipes");
}
