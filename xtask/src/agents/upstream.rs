//! An upstream that is as strict as providers are, and plays the task of the plan in any protocol.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::plan::{self, Call, Deed};
use super::rules::{self, Conversation, Reader, Turn};
use super::speech::{self, Body, Speech, Writer};

/// The text that the user's message holds if it is the task.
pub(crate) const TASK: &str = "the task of thirteen turns";
/// The model's last text.
pub(crate) const DONE: &str = "All thirteen turns are done.";

/// A protocol that it speaks, under a path of its own: nobody finds another there than was meant.
pub(crate) struct Wire {
    /// The name of the protocol.
    pub(crate) protocol: &'static str,
    /// The path of its base URL.
    pub(crate) base: &'static str,
    /// The endings of its paths.
    ends: &'static [&'static str],
    read: Reader,
    write: Writer,
    fail: fn(&str) -> Value,
}

pub(crate) const WIRES: [Wire; 4] = [
    Wire {
        protocol: "openai-chat",
        base: "/chat/v1",
        ends: &["/chat/completions"],
        read: rules::chat,
        write: speech::chat,
        fail: |what| json!({"error": {"message": what, "type": "invalid_request_error", "param": null, "code": null}}),
    },
    Wire {
        protocol: "anthropic-messages",
        base: "/anthropic",
        ends: &["/messages"],
        read: rules::anthropic,
        write: speech::anthropic,
        fail: |what| json!({"type": "error", "error": {"type": "invalid_request_error", "message": what}}),
    },
    Wire {
        protocol: "gemini-generatecontent",
        base: "/gemini",
        ends: &[":generateContent", ":streamGenerateContent"],
        read: rules::gemini,
        write: speech::gemini,
        fail: |what| json!({"error": {"code": 400, "message": what, "status": "INVALID_ARGUMENT"}}),
    },
    Wire {
        protocol: "openai-responses",
        base: "/responses/v1",
        ends: &["/responses"],
        read: rules::responses,
        write: speech::responses,
        fail: |what| json!({"error": {"message": what, "type": "invalid_request_error", "param": null, "code": null}}),
    },
];

/// A running upstream; it ends with this value.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    script: Arc<Script>,
}

/// The model, and what became of its task.
struct Script {
    /// The folder in which the agent works.
    folder: PathBuf,
    /// The folder to which requests are written.
    requests: PathBuf,
    count: AtomicUsize,
    report: Mutex<Report>,
    is_over: AtomicBool,
}

/// The observations of the upstream.
#[derive(Clone, Default)]
pub(crate) struct Report {
    /// Turns of the task that were asked for.
    pub(crate) turns: usize,
    /// The requests that a provider would have refused, and the calls that came back changed.
    pub(crate) faults: Vec<String>,
}

impl Upstream {
    pub(crate) fn start(folder: &Path, requests: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(requests)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let script = Arc::new(Script {
            folder: folder.to_owned(),
            requests: requests.to_owned(),
            count: AtomicUsize::new(0),
            report: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let script = Arc::clone(&own);
                // A client that leaves is no fault.
                std::thread::spawn(move || drop(script.answer(stream)));
            }
        });
        Ok(Self { address, script })
    }

    pub(crate) fn report(&self) -> Report {
        self.script.report().clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.script.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Script {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, what: String) {
        let mut report = self.report();
        if !report.faults.contains(&what) {
            report.faults.push(what);
        }
    }

    /// One request, one connection.
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(&stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let wire = WIRES.iter().find(|wire| path.starts_with(wire.base));
        let asked = wire.filter(|wire| wire.ends.iter().any(|end| path.ends_with(end)));
        let (status, body) = match (wire, asked) {
            (_, Some(wire)) => self.speak(wire, path, &body),
            (Some(_), None) if path.ends_with("/models") => {
                (200, plain(&json!({"object": "list", "data": []})))
            }
            (Some(_), None) if path.ends_with("/count_tokens") => (200, plain(&json!({"input_tokens": 100}))),
            _ => (404, plain(&json!({"error": {"message": format!("there is no {path}")}}))),
        };
        let kind = if body.is_stream { "text/event-stream" } else { "application/json" };
        let mut stream = &stream;
        write!(stream, "HTTP/1.1 {status} OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n")?;
        // Events come in pieces that know nothing of where one ends.
        body.text.as_bytes().chunks(1000).try_for_each(|piece| stream.write_all(piece))
    }

    fn speak(&self, wire: &Wire, path: &str, body: &[u8]) -> (u16, Body) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let _ = fs::write(self.requests.join(format!("{number:03}.json")), body);
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut read = (wire.read)(&body);
        if let (Some((model, method)), Ok(conversation)) =
            (path.rsplit('/').next().and_then(|end| end.split_once(':')), &mut read)
        {
            // Gemini's path says what others say in the body.
            conversation.model = model.to_owned();
            conversation.is_streamed = method.starts_with("stream");
        }
        self.reply(wire, number, read)
    }

    fn reply(&self, wire: &Wire, number: usize, read: Result<Conversation, String>) -> (u16, Body) {
        let said = read.and_then(|conversation| {
            let speech = self.next(&conversation, number)?;
            Ok((wire.write)(&conversation, &speech))
        });
        match said {
            Ok(body) => (200, body),
            Err(what) => {
                self.fault(format!("request {number} refused: {what}"));
                (400, plain(&(wire.fail)(&what)))
            }
        }
    }

    /// Returns the model's next output: the turn of the task that follows the turns already called.
    fn next(&self, conversation: &Conversation, number: usize) -> Result<Speech, String> {
        let say = |text: &str, calls| Speech {
            reasoning: format!("Request {number}: <b>which</b> tool, {{if any}}?"),
            text: text.to_owned(),
            calls,
            number,
        };
        let is_task = |turn: &Turn| matches!(turn, Turn::Said(text) if text.contains(TASK));
        let Some(begin) =
            conversation.turns.iter().position(is_task).filter(|_| !conversation.tools.is_empty())
        else {
            // Titles, summaries and other requests of agents beside their work.
            return Ok(say("Noted.", Vec::new()));
        };
        let plan = plan::turns();
        let calls = |deeds: &[Deed]| -> Result<Vec<Call>, String> {
            deeds.iter().map(|deed| plan::call(&deed.action, &conversation.tools, &self.folder)).collect()
        };
        let mut turn = 0;
        for past in &conversation.turns[begin..] {
            match past {
                Turn::Called(called) => {
                    let Some(deeds) = plan.get(turn) else {
                        return Err("more turns than the task has".into());
                    };
                    if !is_same(called, &calls(deeds)?) {
                        self.fault(format!("turn {turn}: the calls come back as {}", shown(called)));
                    }
                    if conversation.unsealed.contains(&turn) && *called == calls(deeds)? {
                        self.fault(format!("turn {turn}: the signature is lost"));
                    }
                    turn += 1;
                }
                Turn::Results(results) => {
                    let deeds =
                        turn.checked_sub(1).and_then(|turn| plan.get(turn)).map_or(&[][..], |deeds| deeds);
                    for deed in deeds.iter().filter(|deed| !results.iter().any(|it| it.contains(deed.result)))
                    {
                        self.fault(format!(
                            "turn {}: no result holds {:?}: {results:?}",
                            turn - 1,
                            deed.result
                        ));
                    }
                }
                Turn::Said(_) | Turn::Answered => {}
            }
        }
        let mut report = self.report();
        report.turns = report.turns.max(turn);
        drop(report);
        Ok(match plan.get(turn) {
            Some(deeds) => say("", calls(deeds)?),
            None => say(DONE, Vec::new()),
        })
    }
}

/// Whether calls come back as they were made. Agents may write out what a tool's schema says anyway.
fn is_same(called: &[Call], made: &[Call]) -> bool {
    let is_kept = |(came, made): (&Call, &Call)| {
        came.name == made.name
            && made.arguments.iter().all(|(name, value)| came.arguments.get(name) == Some(value))
    };
    called.len() == made.len() && called.iter().zip(made).all(is_kept)
}

fn shown(calls: &[Call]) -> String {
    format!("{calls:?}").chars().take(400).collect()
}

fn plain(value: &Value) -> Body {
    Body { text: value.to_string(), is_stream: false }
}
