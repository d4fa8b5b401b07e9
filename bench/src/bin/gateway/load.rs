//! Clients that ask, as many as are wanted, and how long they wait.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// The kind of request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A complete response.
    Json,
    /// 32 chunks as fast as they come.
    Burst,
    /// 100 chunks of text, one every 2 ms.
    Paced,
    /// 100 chunks of a call, one every 2 ms.
    Call,
}

impl Kind {
    /// Whether it is measured by its chunks.
    pub(crate) fn is_paced(self) -> bool {
        matches!(self, Self::Paced | Self::Call)
    }
}

pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    /// The prefix of the model's name.
    pub(crate) model: &'static str,
    pub(crate) kind: Kind,
    pub(crate) connections: usize,
    pub(crate) count: usize,
}

pub(crate) struct Result {
    /// Responses in a second.
    pub(crate) rate: f64,
    /// Microseconds: of a complete response, or of a chunk from its sender to here.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Microseconds of processor time for each.
    pub(crate) busy: Option<f64>,
}

/// Nanoseconds, of a clock that all processes share.
pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

/// A request with a tool and a page of text, for either endpoint.
pub(crate) fn request(path: &str, model: &str, is_streamed: bool) -> Vec<u8> {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city","days"]}"#;
    let tool = match path {
        "/v1/messages" => format!(r#"{{"name":"get_weather","description":"It.","input_schema":{schema}}}"#),
        _ => format!(
            r#"{{"type":"function","function":{{"name":"get_weather","description":"It.","parameters":{schema}}}}}"#
        ),
    };
    let words = "What is the weather in Paris for three days? ".repeat(20);
    let body = format!(
        r#"{{"model":"{model}","max_tokens":1000,"stream":{is_streamed},"messages":[{{"role":"user","content":"{words}"}}],"tools":[{tool}]}}"#
    );
    let head =
        "content-type: application/json\r\nauthorization: Bearer none\r\nhost: localhost\r\ncontent-length";
    format!("POST {path} HTTP/1.1\r\n{head}: {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl Load {
    pub(crate) fn run(&self) -> Result {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let model = match self.kind {
            Kind::Json => "json",
            Kind::Burst => "burst",
            Kind::Paced => "paced",
            Kind::Call => "call",
        };
        let request =
            Arc::new(request(self.path, &format!("{}{model}", self.model), self.kind != Kind::Json));
        let left = Arc::new(AtomicUsize::new(self.count));
        let start = Instant::now();
        let mut times: Vec<f64> = runtime.block_on(async {
            let tasks: Vec<_> = (0..self.connections)
                .map(|_| tokio::spawn(work(self.address, request.clone(), left.clone(), self.kind)))
                .collect();
            let mut times = Vec::new();
            for task in tasks {
                times.extend(task.await.expect("no panic"));
            }
            times
        });
        let rate = self.count as f64 / start.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Result { rate, p50: at(0.5), p99: at(0.99), busy: None }
    }
}

async fn work(address: SocketAddr, request: Arc<Vec<u8>>, left: Arc<AtomicUsize>, kind: Kind) -> Vec<f64> {
    let stream = TcpStream::connect(address).await.expect("somebody listens");
    stream.set_nodelay(true).expect("a connection");
    let mut stream = BufReader::new(stream);
    let mut times = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let start = Instant::now();
        stream.get_mut().write_all(&request).await.expect("a request is taken");
        let took = read(&mut stream, &mut times, kind).await;
        assert!(took > 100, "an empty answer");
        if !kind.is_paced() {
            times.push(start.elapsed().as_nanos() as f64 / 1000.0);
        }
    }
    times
}

/// Reads a response to its end; of paced ones, how long its chunks were under way.
async fn read(stream: &mut BufReader<TcpStream>, times: &mut Vec<f64>, kind: Kind) -> usize {
    let (mut length, mut line) = (None, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await.expect("a head");
        assert!(!line.is_empty(), "the connection was closed");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse::<usize>().ok();
        }
        assert!(!line.starts_with("HTTP/1.1") || line.starts_with("HTTP/1.1 200"), "{line}");
        if line == "\r\n" {
            break;
        }
    }
    if let Some(length) = length {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        return length;
    }
    let mut total = 0;
    let mut chunk = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.expect("a chunk");
        let length = usize::from_str_radix(line.trim(), 16).expect("the length of a chunk");
        chunk.resize(length + 2, 0);
        stream.read_exact(&mut chunk).await.expect("a chunk");
        if length == 0 {
            return total;
        }
        total += length;
        if kind.is_paced() {
            let now = now();
            let text = String::from_utf8_lossy(&chunk);
            let sent =
                text.split("at ").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<u128>().ok());
            times.extend(sent.map(|sent| now.saturating_sub(sent) as f64 / 1000.0));
        }
    }
}
