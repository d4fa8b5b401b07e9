//! A client that takes nothing for granted: it says what came, byte by byte, and how it ended.

use std::net::SocketAddr;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A response as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end, by the rules of HTTP.
    pub(crate) is_complete: bool,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request, and leaves the response to be read.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(to).await.expect("somebody listens");
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("a request is taken");
    stream.write_all(body).await.expect("a body is taken");
    BufReader::new(stream)
}

/// Reads the status and the headers of a response.
pub(crate) async fn head(stream: &mut BufReader<TcpStream>) -> Reply {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let count = stream.read_line(&mut line).await.unwrap_or(0);
        match line.trim_end() {
            _ if count == 0 => break,
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let status = lines.first().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let header =
        |line: &String| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let headers = lines.iter().skip(1).filter_map(header).collect();
    Reply { status, headers, body: Vec::new(), is_complete: false }
}

/// Sends a request and reads the complete response.
pub(crate) async fn ask(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut stream = send(to, method, path, headers, body).await;
    let mut reply = head(&mut stream).await;
    if reply.header("transfer-encoding").is_some() {
        (reply.body, reply.is_complete) = chunked(&mut stream).await;
    } else if let Some(length) = reply.header("content-length").and_then(|length| length.parse().ok()) {
        let mut body = vec![0; length];
        reply.is_complete = stream.read_exact(&mut body).await.is_ok();
        reply.body = body;
    } else {
        reply.is_complete = stream.read_to_end(&mut reply.body).await.is_ok();
    }
    reply
}

/// A chunked body as far as it came, and whether its end came.
pub(crate) async fn chunked(stream: &mut (impl AsyncBufRead + Unpin)) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return (body, false);
        }
        let Ok(length) = usize::from_str_radix(line.trim(), 16) else { return (body, false) };
        let mut chunk = vec![0; length + 2];
        if stream.read_exact(&mut chunk).await.is_err() {
            return (body, false);
        }
        if length == 0 {
            return (body, true);
        }
        body.extend_from_slice(&chunk[..length]);
    }
}
