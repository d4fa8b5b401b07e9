//! An upstream on loopback: it plays the scripts of the demonstration over a real connection, and writes down what it
//! was sent and whether the peer left before the end.

pub(crate) mod client;
#[path = "../../../callweave/tests/requests/rules.rs"]
mod rules;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callweave::Value;
use callweave::protocol::Protocol;
use callweave_gateway::config::{Config, Environment};
use callweave_gateway::demo::{self, DemoScript, ScriptStep};
use callweave_gateway::{Gateway, Server};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The paths of the protocols; the first path that the request's path ends with counts.
const PATHS: [(&str, &str); 7] = [
    ("/chat/completions", "openai-chat"),
    ("/responses", "openai-responses"),
    ("/messages", "anthropic-messages"),
    ("/api/chat", "ollama"),
    ("/v2/chat", "cohere-v2"),
    (":generateContent", "gemini-generatecontent"),
    (":streamGenerateContent", "gemini-generatecontent"),
];

/// A running upstream. It ends with the runtime.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request as it came, and the fate of its response.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    /// The faults of the request.
    pub(crate) faults: Vec<String>,
    /// The number of pieces of the response that were sent.
    pub(crate) sent: usize,
    /// Whether the peer left while there was more to send.
    pub(crate) is_left: bool,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl Upstream {
    /// Listens; no pause is longer than this one.
    pub(crate) async fn start(longest: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, log.clone(), longest));
            }
        });
        Self { address, seen }
    }

    /// Returns the requests received so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("nobody panicked").clone()
    }

    /// Takes the requests received since the last call.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("nobody panicked"))
    }
}

/// A gateway with this configuration, at a free port. It ends with the runtime.
pub(crate) async fn gateway(config: &str) -> SocketAddr {
    let mut config = Config::read(&format!("demo = true\n{config}")).expect("a configuration");
    config.listen.set_port(0);
    let gateway = Gateway::new(config, &Environment::of(|_| None)).expect("a gateway");
    let server = Server::bind(gateway).await.expect("a free port");
    let address = server.address().expect("an address");
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn serve(stream: TcpStream, log: Arc<Mutex<Vec<Seen>>>, longest: Duration) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    while let Some(mut seen) = receive(&mut stream).await {
        let protocol =
            PATHS.iter().find(|(path, _)| seen.path.split('?').next().unwrap_or_default().ends_with(path));
        let model = match seen.body.get("model").and_then(Value::as_str) {
            Some(model) => model.to_owned(),
            None => seen
                .path
                .rsplit('/')
                .next()
                .and_then(|last| last.split(':').next())
                .unwrap_or_default()
                .to_owned(),
        };
        let is_streamed = seen.path.contains("streamGenerateContent")
            || seen.body.get("stream").and_then(Value::as_bool).unwrap_or(seen.path.ends_with("/api/chat"));
        check(&mut seen, protocol.map(|(_, name)| *name), &model);
        let script = match protocol {
            Some((_, name)) if demo::protocol(&model).is_some_and(|own| own.name == *name) => {
                demo::response(&model, seen.body.to_string().as_bytes(), is_streamed)
            }
            _ => None,
        };
        let script = script.unwrap_or_else(|| DemoScript {
            status: 404,
            headers: vec![("content-type", "application/json".to_owned())],
            steps: vec![ScriptStep::Send(
                br#"{"error":{"message":"no such model here","type":"not_found_error"}}"#.to_vec(),
            )],
        });
        let at = {
            let mut log = log.lock().expect("nobody panicked");
            log.push(seen);
            log.len() - 1
        };
        let is_open = play(&mut stream, &script, longest, |sent, is_left| {
            // The log may have been taken in the meantime.
            if let Some(seen) = log.lock().expect("nobody panicked").get_mut(at) {
                (seen.sent, seen.is_left) = (sent, is_left);
            }
        })
        .await;
        if !is_open {
            return;
        }
    }
}

/// Records faults that no provider would accept.
fn check(seen: &mut Seen, protocol: Option<&str>, model: &str) {
    let mut faults = Vec::new();
    match protocol.and_then(Protocol::named) {
        None => faults.push(format!("nobody answers at {}", seen.path)),
        Some(protocol) => {
            if let Err(error) = protocol.read_request(seen.body.clone()) {
                faults.push(format!("no request of {}: {error}", protocol.name));
            }
            // A provider that speaks another's protocol by its own rules has its name in the path.
            let own = rules::PROVIDERS.iter().find(|(name, _)| seen.path.contains(&format!("/{name}/")));
            match own {
                Some((_, refuse)) => refuse(&seen.body, &mut faults),
                None => faults.extend(rules::refused(protocol.name, &seen.body)),
            }
        }
    }
    if demo::protocol(model).is_none() {
        faults.push(format!("no model {model:?}"));
    }
    if seen.header("content-type").is_none_or(|kind| !kind.starts_with("application/json")) {
        faults.push("the body is not said to be JSON".to_owned());
    }
    for name in ["connection", "transfer-encoding", "x-forwarded-for"] {
        if seen.header(name).is_some_and(|value| value != "keep-alive" && value != "chunked") {
            faults.push(format!("a header that is not for upstreams: {name}"));
        }
    }
    seen.faults = faults;
}

/// One request; none at the end of the connection.
async fn receive(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" if lines.is_empty() => {}
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines[0].split(' ').nth(1)?.to_owned();
    let header =
        |line: &String| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let headers: Vec<(String, String)> = lines[1..].iter().filter_map(header).collect();
    let find = |name: &str| headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut body = Vec::new();
    if let Some((_, length)) = find("content-length") {
        body.resize(length.parse().ok()?, 0);
        stream.read_exact(&mut body).await.ok()?;
    } else if find("transfer-encoding").is_some() {
        body = client::chunked(stream).await.0;
    }
    let body = String::from_utf8_lossy(&body).parse().unwrap_or(Value::Null);
    Some(Seen { path, headers, body, faults: Vec::new(), sent: 0, is_left: false })
}

/// Plays a script; false if the connection is no more.
async fn play(
    stream: &mut BufReader<TcpStream>,
    script: &DemoScript,
    longest: Duration,
    mut note: impl FnMut(usize, bool),
) -> bool {
    let mut head =
        format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\nx-request-id: req-demo-1\r\n", script.status);
    for (name, value) in &script.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    if stream.get_mut().write_all(head.as_bytes()).await.is_err() {
        note(0, true);
        return false;
    }
    let mut sent = 0;
    for step in &script.steps {
        match step {
            ScriptStep::Send(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                if stream.get_mut().write_all(&chunk).await.is_err() {
                    note(sent, true);
                    return false;
                }
                sent += 1;
                note(sent, false);
            }
            ScriptStep::Wait(pause) => {
                // A client that leaves is noticed at once: a waiting client sends nothing.
                let mut byte = [0];
                let gone = stream.read(&mut byte);
                if tokio::time::timeout((*pause).min(longest), gone).await.is_ok() {
                    note(sent, true);
                    return false;
                }
            }
            ScriptStep::Break => {
                // Reset rather than closed: nobody may take that for an end.
                let _ = stream.get_ref().set_zero_linger();
                return false;
            }
        }
    }
    stream.get_mut().write_all(b"0\r\n\r\n").await.is_ok()
}
