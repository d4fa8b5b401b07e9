//! The gateway as a program: its greeting, its address, and its log.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{file, path, program, run};

/// A gateway that runs; it ends with this value.
struct Serving {
    child: Child,
    address: SocketAddr,
}

/// A port that nobody listens on.
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port()
}

/// The program with nothing of the tester's in its environment.
fn serve(arguments: &[&str]) -> Command {
    let mut command = program(&[]);
    command.env_clear().arg("serve").args(arguments).stdin(Stdio::null());
    command
}

impl Serving {
    fn start(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let port = free();
        let mut command = serve(&[&["--port", &port.to_string()], arguments].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        change(&mut command);
        let child = command.spawn().expect("the program starts");
        let mut serving = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        let began = Instant::now();
        while TcpStream::connect(serving.address).is_err() {
            let ended = serving.child.try_wait().expect("a child");
            assert!(ended.is_none() && began.elapsed() < Duration::from_secs(20), "{ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        serving
    }

    /// The response to a request: its status and its body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("a gateway");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let head = format!("host: localhost\r\nconnection: close\r\ncontent-length: {}", body.len());
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\n\r\n{body}").expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no answer: {text:?}")), text)
    }

    fn chat(&self, model: &str) -> u16 {
        let body = serde_json::json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
        self.ask("POST", "/v1/chat/completions", &body.to_string()).0
    }

    fn lost(&self) -> u64 {
        let text = self.ask("GET", "/metrics", "").1;
        let line = text.lines().find_map(|line| line.strip_prefix("callweave_log_lines_lost_total "));
        line.expect("a metric").parse().expect("a number")
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_lines_and_no_answer() {
    let full = || File::options().write(true).open("/dev/full").expect("Linux has one");
    for form in ["text", "json"] {
        let serving = Serving::start(&["--log", form], |command| {
            command.stderr(full()).stdout(full());
        });
        for _ in 0..6 {
            assert_eq!(serving.chat("demo/hermes"), 200, "{form}");
        }
        serving.wait_until("six lines are lost", |serving| serving.lost() == 6);
    }
}

#[test]
fn a_reader_that_leaves_costs_lines_and_no_answer() {
    let mut serving = Serving::start(&[], |command| {
        command.stderr(Stdio::piped());
    });
    let mut reader = serving.child.stderr.take().expect("a pipe");
    assert_eq!(serving.chat("demo/hermes"), 200);
    let mut begun = [0; 10];
    reader.read_exact(&mut begun).expect("a line");
    drop(reader);
    for _ in 0..4 {
        assert_eq!(serving.chat("demo/hermes"), 200);
    }
    serving.wait_until("four lines are lost", |serving| serving.lost() == 4);
}

#[test]
fn a_reader_that_reads_nothing_costs_no_answer() {
    let serving = Serving::start(&[], |command| {
        command.stderr(Stdio::piped());
    });
    let model = format!("demo/{}", "x".repeat(150));
    for _ in 0..400 {
        assert_eq!(serving.chat(&model), 404);
    }
    let line = logged("serve-400.log", &[], |serving| assert_eq!(serving.chat(&model), 404)).len();
    assert!(400 * line > 65_536, "400 lines of {line} bytes fit into a pipe");
}

/// Returns the log of a gateway that served these requests and was then stopped.
fn logged(name: &str, arguments: &[&str], ask: impl FnOnce(&Serving)) -> String {
    let log = file(name, "");
    let serving = Serving::start(arguments, |command| {
        command.stderr(File::create(&log).expect("a file"));
    });
    ask(&serving);
    serving.wait_until("there is a line", |_| std::fs::metadata(&log).is_ok_and(|it| it.len() > 0));
    std::thread::sleep(Duration::from_millis(100));
    drop(serving);
    std::fs::read_to_string(&log).expect("a log that is text")
}

#[test]
fn what_clients_write_stays_within_its_field() {
    let model = "ok\n2026-01-01T00:00:00Z  INFO answered request=forged status=\"200\"\r\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2028}\\\" x=\"y";
    for name in [model.to_owned(), format!("demo/{model}"), format!("demo/{}", "\u{1b}".repeat(300_000))] {
        let log = logged("serve-escape.log", &[], |serving| assert_eq!(serving.chat(&name), 404));
        assert_eq!(log.lines().count(), 1, "{log:?}");
        assert!(log.len() < 3000, "{}", log.len());
        assert!(
            !log.trim_end_matches('\n')
                .chars()
                .any(|char| char.is_control() || "\u{202e}\u{2028}".contains(char)),
            "{log:?}"
        );
    }
    let log = logged("serve-escape.log", &[], |serving| assert_eq!(serving.chat(model), 404));
    assert!(
        log.contains(
            r#"model="ok\n2026-01-01T00:00:00Z  INFO answered request=forged status=\"200\"\r\u{1b}]0;"#
        ),
        "{log}"
    );
    assert!(log.contains(r#"\u{202e}\u{2028}\\\" x=\"y" "#), "{log}");
    // As JSON it is the written text.
    let log = logged("serve-escape.log", &["--log", "json"], |serving| assert_eq!(serving.chat(model), 404));
    let line: serde_json::Value = serde_json::from_str(log.trim_end()).expect("one line of JSON");
    assert_eq!(line["model"], model);
}

#[test]
fn times_are_told_as_people_read_them() {
    let log = logged("serve-times.log", &[], |serving| assert_eq!(serving.chat("demo/hermes"), 200));
    for name in [" ms=", " first_ms="] {
        let number = log.split_once(name).unwrap_or_else(|| panic!("{log}")).1.split_whitespace().next();
        let decimals =
            number.and_then(|number| number.split_once('.')).map_or(0, |(_, decimals)| decimals.len());
        assert!(decimals <= 2, "{log}");
    }
}

#[test]
fn a_terminal_gets_nothing_that_a_client_wrote_raw() {
    // The same formatter writes for terminals: `--color always` does not change that.
    let log = logged("serve-terminal.log", &["--color", "always"], |serving| {
        assert_eq!(serving.chat("demo/\u{1b}[2J"), 404);
    });
    assert!(log.contains(r"\u{1b}[2J"), "{log}");
}

#[test]
fn people_say_in_many_ways_where_to_listen() {
    let port = free().to_string();
    for arguments in [
        vec!["--listen", &port],
        vec!["--port", &port],
        vec!["--host", "localhost", "--port", &port],
        vec!["--host", "127.0.0.1", "--listen", &port],
    ] {
        let mut child = serve(&arguments).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut text = [0; 512];
        let count = child.stdout.take().expect("a pipe").read(&mut text).expect("a greeting");
        let text = String::from_utf8_lossy(&text[..count]).into_owned();
        let _ = child.kill();
        let _ = child.wait();
        assert!(
            text.starts_with(&format!("callweave serves http://127.0.0.1:{port} for this machine only")),
            "{text}"
        );
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let refused = serve(&["--port", &port]).output().expect("the program runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("use --port"), "{text}");
}

#[test]
fn check_and_serve_say_the_same() {
    let config = file(
        "serve-check.toml",
        "[upstreams.a]\nbase_url = \"http://user:PASSWORD@127.0.0.1:9/v1?key=QKEY\"\napi_key_env = \"NOPE\"\n",
    );
    let told = run(&["check", "--offline", "--config", path(&config)], "").fine();
    let port = free().to_string();
    let mut child = serve(&["--config", path(&config), "--port", &port])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let began = Instant::now();
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_err()
        && began.elapsed() < Duration::from_secs(20)
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let _ = child.kill();
    let said = child.wait_with_output().expect("the program ends");
    let said = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    for text in [told.stdout(), &said] {
        assert!(text.contains("for this machine only"), "{text}");
        assert!(
            text.contains("serve-check.toml: line 3: upstreams.a.api_key_env: NOPE is not set"),
            "{text}"
        );
        assert!(text.contains("http://127.0.0.1:9/v1?key=…"), "{text}");
        assert!(!text.contains("PASSWORD") && !text.contains("QKEY"), "{text}");
    }
    let wrong = file("serve-wrong.toml", "[upstreams.a]\nbase_url = \"http://\"\nprovider = \"lamacp\"\n");
    let told = run(&["check", "--config", path(&wrong)], "").bad("line 2");
    let said = run(&["serve", "--config", path(&wrong)], "").bad("line 3");
    assert_eq!(told.stderr(), said.stderr());
}

#[test]
fn what_cannot_be_served_is_refused_with_the_way_out() {
    let refused = |arguments: &[&str], variables: &[(&str, &str)], parts: &[&str]| {
        let output = serve(arguments).envs(variables.iter().copied()).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?} {variables:?}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text}"));
    };
    let claude = [("ANTHROPIC_BASE_URL", "http://127.0.0.1:2255"), ("ANTHROPIC_API_KEY", "none")];
    refused(
        &[],
        &claude,
        &["ANTHROPIC_BASE_URL", "this gateway itself", "Claude Code", "env -u ANTHROPIC_BASE_URL"],
    );
    refused(&["--upstream", "localhost:8000", "--port", "8000"], &[], &["this gateway itself", "--port"]);
    refused(
        &["--port", "1"],
        &[("PROXY_STOP_AFTER_TOOLS", "treu")],
        &["PROXY_STOP_AFTER_TOOLS", "true or false"],
    );
    refused(&["--port", "1"], &[("CALLWEAVE_LOG", "inof")], &["CALLWEAVE_LOG", "info"]);
    refused(&["--upstream", "x:1", "--upstream-protocol", "opena"], &[], &["mean \"openai"]);
    refused(&["--upstream", "x:1", "--dialect", "hermess"], &[], &["mean \"hermes\"?"]);
    refused(&["--listen", "nowhere"], &[], &["127.0.0.1:2255"]);
    run(&["dialects", "hermess"], "").bad("did you mean \"hermes\"?");
}

#[test]
fn scripted_models_come_only_when_they_are_asked_for() {
    let models = |arguments: &[&str], variables: &[(&str, &str)]| {
        let serving = Serving::start(arguments, |command| {
            command.envs(variables.iter().copied());
        });
        serving.ask("GET", "/v1/models", "").1.matches("\"demo/").count()
    };
    assert!(models(&[], &[]) > 50);
    assert_eq!(models(&["--upstream", "localhost:9"], &[]), 0);
    assert!(models(&["--upstream", "localhost:9", "--demo"], &[]) > 50);
    assert_eq!(models(&[], &[("OPENAI_BASE_URL", "http://127.0.0.1:9")]), 0);
    assert!(models(&["--demo"], &[("OPENAI_BASE_URL", "http://127.0.0.1:9")]) > 50);
}

#[test]
fn a_greeting_that_nobody_reads_is_no_reason_to_stop() {
    let mut serving = Serving::start(&[], |command| {
        command.stdout(Stdio::piped());
    });
    drop(serving.child.stdout.take());
    assert_eq!(serving.chat("demo/hermes"), 200);
    let config = file("serve-flags.toml", "listen = \"0.0.0.0:1\"\n");
    // The command line counts, not only the file.
    let serving = Serving::start(&["--config", path(&config), "--host", "127.0.0.1"], |_| {});
    assert_eq!(serving.ask("GET", "/healthz", "").0, 200);
    let opened = Serving::start(&["--allow-host", "box", "--allow-origin", "app:"], |_| {});
    for (host, origin, status) in
        [("box", "app://x", "200"), ("other", "app://x", "403"), ("box", "http://x", "403")]
    {
        let mut stream = TcpStream::connect(opened.address).expect("a gateway");
        let head = format!("host: {host}\r\norigin: {origin}\r\nconnection: close");
        write!(stream, "GET /v1/models HTTP/1.1\r\n{head}\r\n\r\n").expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{host} {origin}: {text}");
    }
    let gone = TcpStream::connect(serving.address).err().map(|error| error.kind());
    assert_ne!(gone, Some(ErrorKind::ConnectionRefused));
}
