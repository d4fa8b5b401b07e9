//! The cost of one request: the allocations of a complete response, and the memory that an open stream holds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use allocation_counter::measure;
use bytes::Bytes;
use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use http::Request;
use http_body_util::{BodyExt, Full};
use tokio::runtime::Runtime;

/// A complete response with a call.
const COMPLETE: &str = concat!(
    r#"{"id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"m","choices":[{"index":0,"#,
    r#""message":{"role":"assistant","content":"Let me look that up for you.","tool_calls":[{"id":"call_1","#,
    r#""type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\",\"days\":3}"}}]},"#,
    r#""finish_reason":"tool_calls"}],"usage":{"prompt_tokens":120,"completion_tokens":24,"total_tokens":144}}"#,
);

/// The beginning of a stream.
const CHUNK: &str = concat!(
    r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1767225600,"model":"m","#,
    r#""choices":[{"index":0,"delta":{"role":"assistant","content":"Let me "},"finish_reason":null}]}"#,
    "\n\n"
);

/// An upstream that responds at once, or begins a stream and says no more. It runs on threads of its own, whose memory
/// is not counted.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(BufReader::new(stream)));
        }
    });
    address
}

fn answer(mut stream: BufReader<std::net::TcpStream>) {
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        let word = line.trim().to_ascii_lowercase();
        if word.is_empty() {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let text = String::from_utf8(body).expect("text");
            let response = match text.contains(r#""stream":true"#) {
                true => format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{CHUNK}\r\n",
                    CHUNK.len()
                ),
                false => format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{COMPLETE}",
                    COMPLETE.len()
                ),
            };
            if stream.get_mut().write_all(response.as_bytes()).is_err() {
                return;
            }
        } else if let Some(own) = word.strip_prefix("content-length:") {
            length = own.trim().parse().expect("a length");
        }
        line.clear();
    }
}

/// A gateway, on a runtime of this thread, whose memory is counted.
fn gateway() -> (Arc<Gateway>, Runtime) {
    let config = format!(
        "[upstreams.up]\nprotocol = \"openai-chat\"\nbase_url = \"http://{}/v1\"\nmodels = [\"m\"]\n",
        upstream()
    );
    let config = Config::read(&config).expect("a configuration");
    let gateway = Gateway::new(config, &Environment::of(|_| None)).expect("a gateway");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    (gateway, runtime)
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

fn request(path: &str, is_streamed: bool) -> Request<Full<Bytes>> {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city","days"]}"#;
    let tool = match path {
        MESSAGES => format!(r#"{{"name":"get_weather","input_schema":{schema}}}"#),
        _ => format!(r#"{{"type":"function","function":{{"name":"get_weather","parameters":{schema}}}}}"#),
    };
    let words = "What is the weather in Paris for three days? ".repeat(20);
    let body = format!(
        r#"{{"model":"up/m","max_tokens":1000,"stream":{is_streamed},"messages":[{{"role":"user","content":"{words}"}}],"tools":[{tool}]}}"#
    );
    let request = Request::post(path).header("host", "127.0.0.1").header("authorization", "Bearer none");
    request.body(Full::new(Bytes::from(body))).expect("a request")
}

#[test]
fn a_complete_response_takes_few_allocations() {
    let (gateway, runtime) = gateway();
    // Somewhat more than is counted: 232 and 47,684, 311 and 54,178.
    for (path, count, bytes) in [(CHAT, 236, 48_500), (MESSAGES, 314, 54_900)] {
        let mut text = Bytes::new();
        let mut ask = |request| {
            let answered = async { gateway.handle(request).await.into_body().collect().await };
            text = runtime.block_on(answered).expect("a response").to_bytes();
        };
        // The first make connections and tables.
        for _ in 0..3 {
            ask(request(path, false));
        }
        let asked = request(path, false);
        let counted = measure(|| ask(asked));
        assert!(text.windows(11).any(|word| word == b"get_weather"), "{text:?}");
        let taken = (counted.count_total, counted.bytes_total);
        println!("{path}: {taken:?}");
        assert!(taken.0 <= count && taken.1 <= bytes, "{path}: {taken:?}");
    }
}

#[test]
fn an_open_stream_holds_little() {
    const COUNT: usize = 20;
    let (gateway, runtime) = gateway();
    // Somewhat more than is counted: 38,738 and 37,967. Of it 17 KB are buffers of the upstream's connection.
    for (path, bytes) in [(CHAT, 39_500), (MESSAGES, 38_700)] {
        let mut open = Vec::with_capacity(COUNT + 1);
        let mut begin = |request| {
            let body = runtime.block_on(async {
                let mut body = gateway.handle(request).await.into_body();
                body.frame().await.expect("a frame").expect("bytes");
                // The piece handed over at the first read is released at the second.
                let waiting = tokio::time::timeout(std::time::Duration::from_millis(1), body.frame()).await;
                assert!(waiting.is_err(), "nothing more comes");
                body
            });
            open.push(body);
        };
        begin(request(path, true));
        let requests: Vec<_> = (0..COUNT).map(|_| request(path, true)).collect();
        let counted = measure(|| requests.into_iter().for_each(&mut begin));
        let each = counted.bytes_current / COUNT as i64;
        println!("{path}: {each} bytes, {} allocations", counted.count_current / COUNT as i64);
        assert!(each <= bytes, "{path}: {each}");
    }
}
