//! Calls flow by default: counted in frames, the name leaves with the frame that makes it sure, and each piece of the
//! arguments with its own.

use callweave::exchange::IncomingHead;
use callweave::exchange::http::ClientEndpoint;
use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT, Protocol};

const CHAT_TOOLS: &str = r#"[{"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"mode":{"type":"integer"}}}}}]"#;

/// Requests of clients whose wires have pieces of arguments.
const REQUESTS: &[(&str, &str)] = &[
    (
        "/chat/completions",
        r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],"tools":TOOLS}"#,
    ),
    (
        "/responses",
        r#"{"model":"m","stream":true,"input":"go","tools":[{"type":"function","name":"write_file","parameters":SCHEMA}]}"#,
    ),
    (
        "/messages",
        r#"{"model":"m","stream":true,"max_tokens":9000,"messages":[{"role":"user","content":"go"}],"tools":[{"name":"write_file","input_schema":SCHEMA}]}"#,
    ),
];

const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"mode":{"type":"integer"}}}"#;

/// Pieces of arguments, and what of each the client gets with its own frame. The mode is a text for an integer: it is held to
/// its own end.
const PIECES: &[(&str, &str)] = &[
    (r#"{"path": "a"#, "a"),
    (r#"/b.txt", "content": "fir"#, "fir"),
    ("st line", "st line"),
    (" and more", " and more"),
    (r#" words", "mode": ""#, " words"),
    ("5", ""),
    (r#""}"#, "5"),
];

fn frames(protocol: &Protocol) -> Vec<String> {
    let quoted = |text: &str| serde_json::to_string(text).expect("JSON");
    let mut frames = Vec::new();
    if *protocol == OPENAI_CHAT {
        let chunk = |delta: String| {
            format!(
                "data: {{\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n"
            )
        };
        frames.push(chunk(r#"{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"write_file","arguments":""}}]}"#.to_owned()));
        for (piece, _) in PIECES {
            let arguments = quoted(piece);
            frames.push(chunk(format!(
                "{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":{arguments}}}}}]}}"
            )));
        }
    } else {
        let event =
            |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{rest}}}\n\n");
        let start = r#""message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}"#;
        let block =
            r#""index":0,"content_block":{"type":"tool_use","id":"c1","name":"write_file","input":{}}"#;
        frames.push(event("message_start", start) + &event("content_block_start", block));
        for (piece, _) in PIECES {
            let json = quoted(piece);
            let delta =
                format!("\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":{json}}}");
            frames.push(event("content_block_delta", &delta));
        }
    }
    frames
}

#[test]
fn names_and_arguments_leave_with_their_own_frames() {
    for upstream in [&OPENAI_CHAT, &ANTHROPIC_MESSAGES] {
        for (path, body) in REQUESTS {
            let body = body.replace("TOOLS", CHAT_TOOLS).replace("SCHEMA", SCHEMA);
            let route = ClientEndpoint::find(path).expect("a path");
            let engine = crate::engine(upstream, |_| {});
            let mut exchange =
                engine.open(IncomingHead::new(route, body.as_bytes(), "1")).expect("a request");
            exchange.take_outgoing().expect("a request");
            exchange.accept([("content-type", "text/event-stream")]);
            let what = format!("{} to {path}", upstream.name);
            let mut frames = frames(upstream).into_iter();
            exchange.push(frames.next().expect("the name").as_bytes());
            assert!(exchange.is_ready(), "{what}: the name makes the response ready");
            let text = String::from_utf8(exchange.take_bytes()).expect("text");
            assert!(text.contains("write_file"), "{what}: the name with its frame, but {text:?}");
            for (frame, (piece, expected)) in frames.zip(PIECES) {
                exchange.push(frame.as_bytes());
                let text = String::from_utf8(exchange.take_bytes()).expect("text");
                assert!(text.contains(expected), "{what}: {expected:?} with {piece:?}, but {text:?}");
                assert_eq!(text.is_empty(), expected.is_empty(), "{what}: {piece:?} gives {text:?}");
            }
        }
    }
}

#[test]
fn a_client_that_takes_no_pieces_gets_calls_complete() {
    let (path, body) = REQUESTS[0];
    let body = body.replace("TOOLS", CHAT_TOOLS);
    for upstream in [&OPENAI_CHAT, &ANTHROPIC_MESSAGES] {
        let route = ClientEndpoint::find(path).expect("a path");
        let mut head = IncomingHead::new(route, body.as_bytes(), "1");
        head.headers =
            vec![("User-Agent".into(), "speakeasy-sdk/python 3.7.0 2.935.1 1.0.0 mistralai".into())];
        let mut exchange = crate::engine(upstream, |_| {}).open(head).expect("a request");
        exchange.take_outgoing().expect("a request");
        exchange.accept([("content-type", "text/event-stream")]);
        for frame in frames(upstream) {
            exchange.push(frame.as_bytes());
            let text = String::from_utf8(exchange.take_bytes()).expect("text");
            assert!(!text.contains("tool_calls"), "{}: a piece of a call: {text}", upstream.name);
        }
        exchange.finish();
        let text = String::from_utf8(exchange.take_bytes()).expect("text");
        let chunks: Vec<&str> = text.lines().filter(|line| line.contains(r#""tool_calls":["#)).collect();
        let [chunk] = chunks[..] else { panic!("{}: not one chunk with a call: {text}", upstream.name) };
        let chunk: serde_json::Value =
            serde_json::from_str(chunk.trim_start_matches("data: ")).expect("JSON");
        let call = &chunk["choices"][0]["delta"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "write_file");
        let arguments = call["arguments"].as_str().expect("a text");
        let expected = r#"{"path": "a/b.txt", "content": "first line and more words", "mode": 5}"#;
        assert_eq!(arguments, expected);
    }
}
