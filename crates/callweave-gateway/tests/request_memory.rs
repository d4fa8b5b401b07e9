//! A request takes a small multiple of its bytes on its way through the gateway: its body, its scanned and parsed form,
//! and the request that is sent on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use allocation_counter::measure;
use bytes::Bytes;
use callweave::json::Tape;
use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};
use http::Request;
use http_body_util::{BodyExt, Full};

const MIB: usize = 1 << 20;

/// An upstream that reads any request and says yes, in any protocol. It runs on threads of its own, whose memory is not
/// counted.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let (mut path, mut length, mut line) = (String::new(), 0, String::new());
                while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
                    let word = line.trim().to_ascii_lowercase();
                    if word.is_empty() {
                        let mut body = vec![0; length];
                        let answer = match &path {
                            path if path.contains("messages") => {
                                r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn"}"#
                            }
                            path if path.contains("generate") => {
                                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"yes"}]},"finishReason":"STOP"}]}"#
                            }
                            _ => {
                                r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}"#
                            }
                        };
                        let head = format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                            answer.len()
                        );
                        let is_read = stream.read_exact(&mut body).is_ok();
                        if !is_read || stream.get_mut().write_all((head + answer).as_bytes()).is_err() {
                            return;
                        }
                    } else if let Some(own) = word.strip_prefix("content-length:") {
                        length = own.trim().parse().expect("a length");
                    } else if let Some(own) = word.strip_prefix("post ") {
                        path = own.to_owned();
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

/// The most memory that a request takes on its way, its body included, and whether it was answered.
fn peak(config: &str, path: &str, body: &str) -> (usize, String) {
    let config = Config::read(config).expect("a configuration");
    let gateway = Gateway::new(config, &Environment::of(|_| None)).expect("a gateway");
    // Everything is done on this thread, whose memory is counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut text = String::new();
    let mut ask = |body: &str| {
        runtime.block_on(async {
            let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
            let request = Request::post(path).header("host", "127.0.0.1").body(body).expect("a request");
            let answer = gateway.handle(request).await.into_body().collect().await.expect("an answer");
            text = String::from_utf8(answer.to_bytes().to_vec()).expect("text");
        });
    };
    // Connections and tables are made by the first request.
    ask(r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#);
    let counted = measure(|| ask(body));
    (usize::try_from(counted.bytes_max).expect("less than all memory"), text)
}

/// Bodies as large as a gateway takes, and mostly one thing.
fn bodies() -> Vec<(&'static str, String)> {
    let body = |messages: &str, more: &str| {
        format!(
            r#"{{"model":"m","max_tokens":9{more},"messages":[{messages}{{"role":"user","content":"Hi"}}]}}"#
        )
    };
    let long = "All work and no play makes Jack a dull boy.\\n".repeat(100);
    let said = format!(
        r#"{{"role":"user","content":"{long}"}},{{"role":"assistant","content":[{{"type":"text","text":"{long}"}}]}},"#
    );
    let tools: Vec<String> = (0..1_900)
        .map(|number| {
            format!(r#"{{"name":"f{number}","input_schema":{{"type":"object","properties":{{"a":{{"type":"string"}}}}}}}}"#)
        })
        .collect();
    vec![
        ("a conversation", body(&said.repeat(400), "")),
        ("short messages", body(&r#"{"role":"user","content":"x"},"#.repeat(9_000), "")),
        ("messages {}", body(&"{},".repeat(9_000), "")),
        ("parts 0", body(&format!(r#"{{"role":"user","content":[{}0]}},"#, "0,".repeat(9_000)), "")),
        ("tools", body("", &format!(r#","tools":[{}]"#, tools.join(",")))),
        ("unknown 0", body("", &format!(r#","x":[{}0]"#, "0,".repeat(190_000)))),
        ("unknown {}", body("", &format!(r#","x":[{}0]"#, "{},".repeat(190_000)))),
        ("unknown members", body("", &format!(r#","x":[{}0]"#, r#"{"a":""},"#.repeat(95_000)))),
    ]
}

#[test]
fn a_request_takes_a_few_times_its_bytes_and_some_for_each_value() {
    let address = upstream();
    let mut beyond = Vec::new();
    for (protocol, path) in [("anthropic", "/v1/messages"), ("openai", "/v1/chat/completions")] {
        for target in ["anthropic-messages", "openai-chat", "gemini-generatecontent"] {
            let config = format!(
                "default_upstream = \"u\"\n[upstreams.u]\nbase_url = \"http://{address}\"\nprotocol = \"{target}\"\n"
            );
            for (name, body) in bodies() {
                let values = Tape::new().parse(&body).expect("JSON").value_count();
                let (taken, answer) = peak(&config, path, &body);
                assert!(answer.contains("yes"), "{name}, {protocol} to {target}: {answer}");
                let allowed = 4 * body.len() + 256 * values + MIB;
                if taken > allowed {
                    beyond.push(format!("{taken} of {allowed}: {name}, {protocol} to {target}"));
                }
            }
        }
    }
    assert!(beyond.is_empty(), "{} are beyond:\n{}", beyond.len(), beyond.join("\n"));
}
