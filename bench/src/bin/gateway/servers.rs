//! The upstream, and the plain relay that the gateway is compared with.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::load::now;

/// The number of pieces that the arguments of a call come in.
pub(crate) const ARGUMENTS: usize = 40;

/// The number of frames that may be sent to clients of `step`.
static STEPS: Semaphore = Semaphore::const_new(0);

/// Responds by the model that is asked for: `json`, `burst`, `paced`, `call`, `step`, `slow`, `stall`, `garbage`,
/// `half`; `go` lets a frame of `step` go.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn upstream(port: u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("a free port");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> Option<()> {
    let mut taken = Vec::new();
    'requests: loop {
        let (head, length) = loop {
            if let Some(head) = taken.windows(4).position(|window| window == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&taken[..head]).to_ascii_lowercase();
                let length =
                    text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
                break (head + 4, length.unwrap_or(0usize));
            }
            if stream.read_buf(&mut taken).await.ok()? == 0 {
                return None;
            }
        };
        while taken.len() < head + length {
            if stream.read_buf(&mut taken).await.ok()? == 0 {
                return None;
            }
        }
        let body: Vec<u8> = taken.drain(..head + length).skip(head).collect();
        let asks = |model: &str| {
            let word = format!("\"{model}\"");
            body.windows(word.len()).any(|window| window == word.as_bytes())
        };
        if asks("go") {
            STEPS.add_permits(1);
        }
        if asks("json") || asks("go") {
            let body = whole();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
            stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await.ok()?;
            continue;
        }
        if asks("stall") {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.ok()?;
        let (count, pause) = match () {
            () if asks("burst") => (32, 0),
            () if asks("paced") || asks("call") => (100, 2),
            () if asks("step") => (ARGUMENTS + 3, 0),
            () if asks("garbage") || asks("half") => (100, 20),
            () => (usize::MAX, 5000),
        };
        let mut next = tokio::time::Instant::now();
        for at in 0..count {
            if pause > 0 && at > 0 {
                next += Duration::from_millis(pause);
                tokio::select! {
                    // A client that leaves is not written to.
                    read = stream.readable() => {
                        read.ok()?;
                        if stream.try_read(&mut [0]).is_ok() {
                            return None;
                        }
                        tokio::time::sleep_until(next).await;
                    }
                    () = tokio::time::sleep_until(next) => {}
                }
            }
            let chunk = match () {
                () if asks("step") => {
                    STEPS.acquire().await.ok()?.forget();
                    call(at, count, piece)
                }
                () if asks("call") => call(at, count, |_| format!("at {} ", now())),
                () => chunk(at, count),
            };
            send(&mut stream, &chunk).await?;
            if at == 3 && asks("garbage") {
                send(&mut stream, "\u{0}\u{1}<html>nothing</html>\n\n").await?;
                stream.write_all(b"0\r\n\r\n").await.ok()?;
                continue 'requests;
            }
            if at == 3 && asks("half") {
                let _ = stream.shutdown().await;
                return None;
            }
        }
        if asks("step") {
            STEPS.acquire().await.ok()?.forget();
        }
        send(&mut stream, "data: [DONE]\n\n").await?;
        stream.write_all(b"0\r\n\r\n").await.ok()?;
    }
}

async fn send(stream: &mut TcpStream, text: &str) -> Option<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.ok()
}

fn whole() -> String {
    concat!(
        r#"{"id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"json","choices":[{"index":0,"#,
        r#""message":{"role":"assistant","content":"Let me look that up for you.","tool_calls":[{"id":"call_1","#,
        r#""type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\",\"days\":3}"}}]},"#,
        r#""finish_reason":"tool_calls"}],"usage":{"prompt_tokens":120,"completion_tokens":24,"total_tokens":144}}"#,
    )
    .to_owned()
}

/// Words with the time in them, and in the last fifth of the stream a call.
fn chunk(at: usize, count: usize) -> String {
    let begins_call = count - count / 5;
    let (delta, finish) = match () {
        () if at + 1 == count => ("{}".to_owned(), "\"tool_calls\""),
        () if at < begins_call || count == usize::MAX => (format!(r#"{{"content":"at {} "}}"#, now()), "null"),
        () if at == begins_call => (
            r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris"}}]}"#
                .to_owned(),
            "null",
        ),
        () if at + 2 == count => (
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"\",\"days\":3}"}}]}"#.to_owned(),
            "null",
        ),
        () => (r#"{"tool_calls":[{"index":0,"function":{"arguments":" on"}}]}"#.to_owned(), "null"),
    };
    frame(&delta, finish)
}

/// A call and nothing else: the role, the name, pieces of its arguments, the finish.
fn call(at: usize, count: usize, piece: impl Fn(usize) -> String) -> String {
    let of_call = |rest: String| format!(r#"{{"tool_calls":[{{"index":0,{rest}}}]}}"#);
    let arguments = |text: String| of_call(format!(r#""function":{{"arguments":"{text}"}}"#));
    match () {
        () if at + 1 == count => frame("{}", "\"tool_calls\""),
        () if at == 0 => frame(r#"{"role":"assistant","content":null}"#, "null"),
        () if at == 1 => {
            let named = r#""id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}"#;
            frame(&of_call(named.to_owned()), "null")
        }
        () if at == 2 => frame(&arguments(format!(r#"{{\"city\":\"{}"#, piece(0))), "null"),
        () if at + 2 == count => frame(&arguments(format!(r#"{}\",\"days\":3}}"#, piece(at - 2))), "null"),
        () => frame(&arguments(piece(at - 2)), "null"),
    }
}

/// A piece of arguments that is like no other.
pub(crate) fn piece(at: usize) -> String {
    format!("piece {at:02} ")
}

fn frame(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"paced\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// Passes everything on as it is.
#[tokio::main]
pub(crate) async fn relay(port: u16, upstream: SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("a free port");
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let client = client.clone();
        let pass = service_fn(move |request: Request<Incoming>| pass(client.clone(), upstream, request));
        tokio::spawn(async move {
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), pass).await;
        });
    }
}

async fn pass(
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("http://{upstream}{path}").parse::<Uri>().expect("a path was a path");
    request.headers_mut().remove("host");
    client.request(request).await
}
