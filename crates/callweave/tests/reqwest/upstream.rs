//! An upstream on loopback that responds by a script, and remembers its requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A request that came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The method and the path with its query.
    pub(crate) line: String,
    header_lines: Vec<(String, String)>,
    pub(crate) body: String,
    /// The number of the connection.
    pub(crate) connection: usize,
}

impl Seen {
    /// The values of a header, one after the other.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let own: Vec<&str> = self
            .header_lines
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
            .collect();
        (!own.is_empty()).then(|| own.join(" & "))
    }

    /// Two headers; nothing where one is missing.
    pub(crate) fn headers(&self, one: &str, other: &str) -> (String, String) {
        (self.header(one).unwrap_or_default(), self.header(other).unwrap_or_default())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A part of a response.
pub(crate) enum Piece {
    Text(String),
    /// Waits until the test opens the gate.
    Gate,
    /// Waits until the client has left.
    Hold,
    /// Breaks the connection.
    Break,
}

/// A response.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    pieces: Vec<Piece>,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), pieces: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn text(self, text: impl Into<String>) -> Self {
        self.piece(Piece::Text(text.into()))
    }

    pub(crate) fn piece(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }
}

/// The upstream.
pub(crate) struct Upstream {
    /// Its address: `http://127.0.0.1:1234`.
    pub(crate) url: String,
    state: Arc<State>,
}

struct State {
    seen: Mutex<Vec<Seen>>,
    replies: Mutex<VecDeque<Reply>>,
    /// A permit for each piece that may go on.
    gate: Semaphore,
    /// A permit for each client that has left while it was held.
    left: Semaphore,
}

impl Upstream {
    /// Responds with these, one after the other.
    pub(crate) async fn serve(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            seen: Mutex::default(),
            replies: Mutex::new(replies.into_iter().collect()),
            gate: Semaphore::new(0),
            left: Semaphore::new(0),
        });
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                let state = Arc::clone(&served);
                tokio::spawn(async move { state.connection(stream, number).await });
            }
        });
        Self { url, state }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().expect("not poisoned").clone()
    }

    /// The only request.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        seen[0].clone()
    }

    /// Lets a response go on.
    pub(crate) fn open_gate(&self) {
        self.state.gate.add_permits(1);
    }

    /// Waits until a client has left that was held.
    pub(crate) async fn client_left(&self) {
        self.state.left.acquire().await.expect("open").forget();
    }
}

impl State {
    /// Serves a connection until either side ends it.
    async fn connection(&self, stream: TcpStream, number: usize) {
        let mut stream = BufReader::new(stream);
        while let Some(seen) = request(&mut stream, number).await {
            self.seen.lock().expect("not poisoned").push(seen);
            let reply = self.replies.lock().expect("not poisoned").pop_front();
            let reply = reply.unwrap_or_else(|| Reply::new(500).text("nothing is scripted"));
            if self.answer(reply, &mut stream).await.is_none() {
                return;
            }
        }
    }

    async fn answer(&self, reply: Reply, stream: &mut BufReader<TcpStream>) -> Option<()> {
        let mut head = format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n", reply.status);
        for (name, value) in reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.ok()?;
        for piece in reply.pieces {
            match piece {
                Piece::Text(text) => {
                    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                    stream.write_all(chunk.as_bytes()).await.ok()?;
                }
                Piece::Gate => self.gate.acquire().await.expect("open").forget(),
                Piece::Hold => {
                    // Nobody sends anything: this ends when the connection does.
                    let _ = stream.read_u8().await;
                    self.left.add_permits(1);
                    return None;
                }
                Piece::Break => return None,
            }
        }
        stream.write_all(b"0\r\n\r\n").await.ok()
    }
}

/// The next request of a connection.
async fn request(stream: &mut BufReader<TcpStream>, connection: usize) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut seen = Seen { connection, ..Seen::default() };
    seen.line = line.trim().strip_suffix(" HTTP/1.1")?.to_owned();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        seen.header_lines.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut body = Vec::new();
    if seen.header("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).ok()? + 2];
            stream.read_exact(&mut chunk).await.ok()?;
            if chunk.len() == 2 {
                break;
            }
            body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    } else {
        body.resize(seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0), 0);
        stream.read_exact(&mut body).await.ok()?;
    }
    seen.body = String::from_utf8(body).ok()?;
    Some(seen)
}
