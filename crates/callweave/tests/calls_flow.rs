//! Calls leave as they come: the name with the frame that makes it sure, each piece of the arguments that fits with its own
//! frame, through the decoder and the encoder of every wire that can say it.

use callweave::dialect::Tools;
use callweave::encode::EncodeOptions;
use callweave::event::{BlockKind, DeltaKind, Event, EventKind};
use callweave::live::{LiveItem, LiveView};
use callweave::pipeline::Decoder;
use callweave::protocol::{OPENAI_CHAT, TABLE};
use serde_json::{Value, json};

fn tools() -> Tools {
    Tools::from_json(&json!([
        {"name": "get", "parameters": {}},
        {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}},
        {"name": "write_file", "parameters": {"properties": {"path": {"type": "string"}, "contents": {"type": "string"}}}},
    ]))
}

/// A frame of the chat protocol that brings this of its call.
fn frame(call: &Value) -> Vec<u8> {
    let delta = json!({"tool_calls": [call]});
    let chunk =
        json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]});
    format!("data: {chunk}\n\n").into_bytes()
}

fn named(name: &str) -> Vec<u8> {
    frame(
        &json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}),
    )
}

fn name_piece(name: &str) -> Vec<u8> {
    frame(&json!({"index": 0, "function": {"name": name}}))
}

fn arguments(piece: &str) -> Vec<u8> {
    frame(&json!({"index": 0, "function": {"arguments": piece}}))
}

/// The content of one frame: the names of calls that begin, and the arguments.
type Brought = (Vec<String>, String);

fn reads(decoder: &mut Decoder, frame: &[u8]) -> (Vec<Event<'static>>, Brought) {
    let mut events = Vec::new();
    decoder.push(frame, &mut events).expect("the frame is sound");
    let (mut names, mut pieces) = (Vec::new(), String::new());
    for event in &events {
        match &event.body {
            EventKind::BlockStart { kind: BlockKind::ToolCall { name, .. }, .. } => {
                names.push(name.to_string())
            }
            EventKind::Delta { kind: DeltaKind::Arguments, text, .. } => pieces.push_str(text),
            _ => {}
        }
    }
    (events, (names, pieces))
}

fn brought(frames: &[Vec<u8>]) -> Vec<Brought> {
    let mut decoder =
        Decoder::builder().protocol(&OPENAI_CHAT).tools(tools()).repair().coerce().budget(1000).build();
    frames.iter().map(|frame| reads(&mut decoder, frame).1).collect()
}

fn begins(frames: &[Vec<u8>]) -> Vec<(usize, String)> {
    let brought = brought(frames).into_iter().enumerate();
    brought.flat_map(|(at, (names, _))| names.into_iter().map(move |name| (at, name))).collect()
}

#[test]
fn a_name_that_is_sure_leaves_at_once() {
    let name = |at, name: &str| vec![(at, name.to_owned())];
    assert_eq!(begins(&[named("write_file"), arguments("{")]), name(0, "write_file"));
    // It begins another one's name, and may become that.
    assert_eq!(begins(&[named("get"), arguments("{")]), name(1, "get"));
    assert_eq!(begins(&[named("get"), name_piece("_weather"), arguments("{")]), name(1, "get_weather"));
    // Nobody declared it.
    assert_eq!(begins(&[named("write"), arguments("{")]), name(1, "write"));
    assert_eq!(begins(&[named("write"), name_piece("_file"), arguments("{")]), name(1, "write_file"));
    // Calls begin in the order in which they were named.
    let second =
        |name: &str| frame(&json!({"index": 1, "id": "call_2", "function": {"name": name, "arguments": ""}}));
    let both = [(1, "get".to_owned()), (1, "write_file".to_owned())];
    assert_eq!(begins(&[named("get"), second("write_file"), arguments("{")]), both);
}

/// A call that began before its id came has that id in the end.
#[test]
fn an_id_that_comes_late_is_kept() {
    let decoder = Decoder::builder().protocol(&OPENAI_CHAT).tools(tools()).build();
    let frames = [name_piece("write_file"), frame(&json!({"index": 0, "id": "call_9"})), arguments("{}")];
    let message = decoder.decode(&frames.concat()).expect("the frames are sound");
    let calls: Vec<_> = message.tool_calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
    assert_eq!(calls, [("call_9", "write_file")]);
}

#[test]
fn what_fits_leaves_with_its_frame() {
    let pieces = ["{\"path\": \"a.rs\", \"contents\": \"", "fn main() {", "\\n", "}", "\\n\""];
    let frames: Vec<_> =
        [named("write_file")].into_iter().chain(pieces.iter().map(|piece| arguments(piece))).collect();
    let told: Vec<_> = brought(&frames).into_iter().map(|(_, piece)| piece).collect();
    // The last quote may be a part of the text, if it is not followed as a quote is.
    assert_eq!(told[1..5], pieces[..4]);
    let frames = [
        named("get_weather"),
        arguments("{\"city\": \"Oslo\","),
        arguments(" \"days\": \"3\""),
        arguments("}"),
    ];
    let told: Vec<_> = brought(&frames).into_iter().map(|(_, piece)| piece).collect();
    assert_eq!(told[1..], ["{\"city\": \"Oslo", "\"", ", \"days\": 3}"]);
}

#[test]
fn live_items_show_what_has_come() {
    let mut decoder = Decoder::builder().protocol(&OPENAI_CHAT).tools(tools()).repair().coerce().build();
    let mut live = LiveView::new();
    let mut seen = Vec::new();
    let frames = [named("get_weather"), arguments("{\"days\": \"3\", \"city\": \"Os"), arguments("lo")];
    for frame in &frames {
        let mut events = Vec::<Event<'static>>::new();
        decoder.push(frame, &mut events).expect("the frame is sound");
        for event in events {
            if let Some(LiveItem::Call(call)) = live.put(event) {
                seen.push((call.name.to_string(), call.value.map(ToString::to_string).unwrap_or_default()));
            }
        }
    }
    let grown = ["", r#"{"days":3,"city":"Os"}"#, r#"{"days":3,"city":"Oslo"}"#];
    assert_eq!(seen, grown.map(|arguments| ("get_weather".to_owned(), arguments.to_owned())));
}

/// The wires on which a call comes complete.
const WHOLE: [&str; 2] = ["gemini-generatecontent", "ollama"];

/// For clients; the other mode writes what the same protocol said, in the frames in which it said it.
#[test]
fn every_wire_that_can_says_it_at_once() {
    let pieces = ["{\"contents\": \"fir", "st, secon", "d\"}"];
    let frames: Vec<_> =
        [named("write_file")].into_iter().chain(pieces.iter().map(|piece| arguments(piece))).collect();
    let mut whole = Vec::new();
    for protocol in TABLE {
        let options = EncodeOptions::normalized().id("r").model("m").created(0);
        let Some(mut encoder) = protocol.encoder(&options) else { continue };
        let builder = Decoder::builder().tools(tools()).coerce();
        let mut upstream = builder.clone().protocol(&OPENAI_CHAT).build();
        let mut client = builder.protocol(protocol).build();
        let mut read = Vec::new();
        for frame in &frames {
            let mut out = Vec::new();
            for event in reads(&mut upstream, frame).0 {
                encoder.encode(&event, &mut out);
            }
            read.push(reads(&mut client, &out).1);
        }
        if read.iter().all(|(names, piece)| names.is_empty() && piece.is_empty()) {
            whole.push(protocol.name);
            continue;
        }
        let names = [vec!["write_file".to_owned()], vec![], vec![], vec![]];
        let expected: Vec<_> = names.into_iter().zip(["", pieces[0], pieces[1], pieces[2]]).collect();
        let read: Vec<_> = read.iter().map(|(names, piece)| (names.clone(), piece.as_str())).collect();
        assert_eq!(read, expected, "{}", protocol.name);
    }
    assert_eq!(whole, WHOLE);
}
