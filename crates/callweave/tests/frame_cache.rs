//! A frame whose template is known is not read in full, and gives the same events as if it were.
//!
//! Both ways are compared: over all cases and recordings in many cuts, and over frames in which one value after the
//! other is replaced by what a reader might have looked at.

#[path = "support/cores.rs"]
mod cores;
mod laws;
#[path = "support/shared.rs"]
mod shared;
mod streams;

use std::fs;

use callweave::event::{Event, EventKind};
use callweave::framing::{Frame, FrameKind, Framer, StreamLimits};
use callweave::pipeline::Decoder;
use cores::each;
use laws::{data, folders, name};
use serde_json::Value;
use streams::STREAMS;

/// The pieces of an input: of that size, or (0) split right behind the data of each event, before its end.
fn pieces(bytes: &[u8], size: usize) -> Vec<&[u8]> {
    if size > 0 {
        return bytes.chunks(size).collect();
    }
    let ends = bytes.windows(2).enumerate().filter(|(_, pair)| pair == b"\n\n").map(|(at, _)| at);
    let cuts: Vec<usize> = [0].into_iter().chain(ends).chain([bytes.len()]).collect();
    cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect()
}

/// Checks that enough frames were known, or none at all in a build without the frame cache.
#[track_caller]
fn expect_known(known: u64, least: u64, name: &str) {
    let is_enough = if cfg!(callweave_no_frame_cache) { known == 0 } else { known >= least };
    assert!(is_enough, "{name}: {known} frames were known");
}

/// All events of an input in such pieces, how it ended, and how many frames were known.
fn events(bytes: &[u8], size: usize, reads_all: bool) -> (Vec<Event<'static>>, String, u64) {
    events_within(bytes, size, reads_all, StreamLimits::default())
}

fn events_within(
    bytes: &[u8],
    size: usize,
    reads_all: bool,
    limits: StreamLimits,
) -> (Vec<Event<'static>>, String, u64) {
    let builder = Decoder::builder().limits(limits);
    let mut decoder = if reads_all { builder.read_all().build() } else { builder.build() };
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces(bytes, size) {
        result = result.and_then(|()| decoder.push(piece, &mut events));
    }
    let finished = decoder.finish(&mut events);
    (events, format!("{:?}", result.and(finished)), decoder.known_frames())
}

/// Returns the number of known frames.
fn compare(name: &str, bytes: &[u8], sizes: &[usize]) -> u64 {
    let mut most = 0;
    for &size in sizes {
        let (expected, ended, none) = events(bytes, size, true);
        let (actual, end, known) = events(bytes, size, false);
        assert_eq!(none, 0);
        if let Some((at, (one, other))) =
            actual.iter().zip(&expected).enumerate().find(|(_, (one, other))| one != other)
        {
            panic!("{name} in pieces of {size}: event {at} is\n{one:?}\nnot\n{other:?}");
        }
        assert_eq!((actual.len(), end), (expected.len(), ended), "{name} in pieces of {size}");
        most = most.max(known);
    }
    most
}

fn inputs() -> Vec<(String, Vec<u8>)> {
    let own = folders(&data("protocol")).into_iter().flat_map(|protocol| folders(&protocol));
    let own = own.flat_map(|case| {
        let files = fs::read_dir(&case).expect("a folder").map(|file| file.expect("a file").path());
        let inputs = files.filter(|file| file.file_stem().is_some_and(|stem| stem == "input"));
        inputs.map(|file| (name(&case), fs::read(file).expect("a file"))).collect::<Vec<_>>()
    });
    let mut inputs: Vec<_> = own.collect();
    inputs.push(in_turns());
    inputs.extend(STREAMS.iter().map(|stream| (stream.name.to_owned(), stream.bytes(60))));
    assert!(inputs.len() > 200, "{}", inputs.len());
    inputs
}

/// Two calls whose arguments come in turns.
fn in_turns() -> (String, Vec<u8>) {
    let call = |number: usize, function: &str| {
        format!(
            "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[\
             {{\"index\":{number},\"function\":{{{function}}}}}]}}}}]}}\n\n"
        )
    };
    let begin = (0..2).map(|number| call(number, "\"name\":\"f\",\"arguments\":\"\""));
    let grow = (0..40).map(|at| call(at % 2, &format!("\"arguments\":\"piece {at}\"")));
    ("calls in turns".to_owned(), begin.chain(grow).collect::<String>().into_bytes())
}

#[test]
fn a_known_frame_says_what_it_would_have_said() {
    let mut known = 0;
    for (name, bytes) in inputs() {
        known += compare(&name, &bytes, &[bytes.len().max(1), 997, 61, 1, 0]);
    }
    expect_known(known, 301, "all cases");
}

/// A chat of a few words, and then something else, each frame between what a framing may write around it.
fn chat(lead: &str, trail: &str) -> Vec<u8> {
    let texts = [
        "\"a\"",
        "\"é\"",
        "\"b\\n\"",
        "\"two words, and more than a few letters\"",
        "\"\"",
        "null",
        "\"\\ud83d\"",
        "\"c\"",
    ];
    let frame = |text: &str| {
        format!(
            "{lead}{{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}}}}]}}{trail}"
        )
    };
    texts.iter().cycle().take(40).map(|text| frame(text)).collect::<String>().into_bytes()
}

#[test]
fn whatever_the_framing_writes_around_it() {
    for (lead, trail) in [
        ("data: ", "\n\n"),
        ("data:", "\r\n\r\n"),
        ("data: ", "\r\r"),
        (": a comment\ndata: ", "\n\n"),
        ("event: chunk\nid: 7\nretry: 9\ndata: ", " \n\n"),
        ("data: ", "\nevent: late\n\n"),
        (": alive\n\ndata: ", "\n\n\n"),
        ("data: data: ", "\ndata:\n\n"),
        ("data: ", "\n"),
        ("", "\n"),
        ("  ", " \r\n\n"),
        ("", " "),
        ("event: ch\0unk\ndata: ", "\n\n"),
        ("id: \0\ndata: ", "\n: \0\n\n"),
    ] {
        // A zero stands for a byte that is not UTF-8.
        let bytes: Vec<u8> =
            chat(lead, trail).into_iter().map(|byte| if byte == 0 { 0xF2 } else { byte }).collect();
        let sizes: Vec<usize> = (0..60).chain([bytes.len(), bytes.len() / 2]).collect();
        let known = compare(&format!("{lead:?} … {trail:?}"), &bytes, &sizes);
        expect_known(known, 21, &format!("{lead:?} … {trail:?}"));
    }
}

/// A frame that begins as a known one does, and goes on otherwise.
#[test]
fn a_frame_is_known_when_its_end_is() {
    let frames = chat("data: ", "\n\n");
    let end = frames.windows(2).position(|pair| pair == b"\n\n").expect("an end");
    let last = &frames[..end];
    for rest in
        ["", "x\n\n", "{}\n\n", "\n", "\ndata: x\n\n", "\nevent: error\n\n", "\rdata: {}\n\n", " }\n\n"]
    {
        let bytes = [&frames, last, rest.as_bytes(), &frames].concat();
        let known = compare(rest, &bytes, &[bytes.len(), 61, 1, 0]);
        expect_known(known, 41, rest);
    }
}

#[test]
fn a_limit_is_met_at_the_same_byte() {
    let bytes = chat("data: ", "\n\n");
    let mut known = 0;
    let within = |limits| {
        let [expected, actual] = [true, false].map(|all| events_within(&bytes, bytes.len(), all, limits));
        assert_eq!((&actual.0, &actual.1), (&expected.0, &expected.1), "{limits:?}");
        actual.2
    };
    for total in 0..bytes.len() as u64 {
        known += within(StreamLimits { total, ..StreamLimits::default() });
    }
    for most in 90..150 {
        known += within(StreamLimits { line: most, ..StreamLimits::default() });
        known += within(StreamLimits { frame: most, ..StreamLimits::default() });
    }
    expect_known(known, 20_001, "limits");
}

/// A response of many blocks, whose numbers are written so, of a text or (every third) a call.
fn blocks(numbers: &[String]) -> Vec<u8> {
    let mut stream = String::new();
    let mut event = |name: &str, rest: &str| {
        stream.push_str(&format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n"));
    };
    event(
        "message_start",
        ",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}",
    );
    for (at, number) in numbers.iter().enumerate() {
        let (block, kind, key) = match at % 3 {
            2 => {
                (r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#, "input_json_delta", "partial_json")
            }
            _ => (r#"{"type":"text","text":""}"#, "text_delta", "text"),
        };
        event("content_block_start", &format!(",\"index\":{number},\"content_block\":{block}"));
        for text in ["one", " two", "é", "4", " "] {
            let delta = format!("{{\"type\":\"{kind}\",\"{key}\":\"{text}\"}}");
            event("content_block_delta", &format!(",\"index\":{number},\"delta\":{delta}"));
        }
        event("content_block_stop", &format!(",\"index\":{number}"));
    }
    stream.into_bytes()
}

#[test]
fn another_number_is_another_place() {
    let plain: Vec<_> = (0..14).map(|number| number.to_string()).collect();
    let odd = [
        "0",
        "1",
        "1.0",
        "2",
        "-3",
        "\"4\"",
        "5",
        "5",
        "99999999999999999999",
        "7",
        "null",
        "10",
        "1e1",
        "0",
    ];
    let bytes = blocks(&plain);
    let known = compare("blocks", &bytes, &[bytes.len(), 997, 61, 0]);
    // The frames that begin and end blocks are read in full, and of the frames that grow them the first three of each
    // kind.
    expect_known(known, 64, "blocks");
    let bytes = blocks(&odd.map(str::to_owned));
    compare("odd numbers", &bytes, &[bytes.len(), 997, 61, 0]);
    // Two ways to write a number, and then another.
    let delta = |(text, number, blank): (&str, &str, &str)| {
        format!(
            "{{\"delta\":{{\"message\":{{\"content\":{{\"thinking\":\"{text}\"}}}}}},\"index\":{number},\
             \"type\":\"content-delta\"{blank}}}\n"
        )
    };
    let start =
        "{\"type\":\"message-start\",\"id\":\"m\",\"delta\":{\"message\":{\"role\":\"assistant\"}}}\n"
            .to_owned();
    let zero = ("a", "-0", " ");
    let deltas = [zero, zero, zero, ("b", "0", ""), ("c", "1", ""), ("d", "1", ""), ("e", "0", "")];
    let text: String = [start].into_iter().chain(deltas.map(delta)).collect();
    compare("two zeros", text.as_bytes(), &[text.len(), 61]);
    // In turns, and once more after the end.
    let twice: Vec<_> = plain.iter().chain(&plain).cloned().collect();
    let bytes = blocks(&twice);
    compare("blocks again", &bytes, &[bytes.len(), 61, 0]);
}

/// Three items that grow in turns, one of them with a longer number; each names itself, and one member repeats its number.
fn items_in_turns() -> String {
    let frame = |at: usize| {
        let number = [3, 10, 4][at % 3];
        format!(
            "{{\"type\":\"response.output_text.delta\",\"sequence_number\":{at},\"item_id\":\"msg_{number}\",\
             \"output_index\":{number},\"content_index\":0,\"delta\":\"t{at}\",\"beside\":{number}}}\n"
        )
    };
    let start = "{\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"object\":\"response\"}}\n";
    [start.to_owned()].into_iter().chain((0..60).map(frame)).collect()
}

/// Items that grow for some frames each, with numbers of one digit and of two. Behind the number stands a member that is
/// passed on as it is written, with something in it that changes seldom.
fn items_of_phases() -> String {
    let frame = |at: usize| {
        let (number, phase) = ([9, 10, 9, 11, 100][at / 5 % 5], at / 8);
        format!(
            "{{\"type\":\"response.output_text.delta\",\"sequence_number\":{at},\"output_index\":{number},\
             \"content_index\":0,\"beside\":{{\"phase\":{phase},\"of\":\"all\"}},\"delta\":\"t{at}\"}}\n"
        )
    };
    let start = "{\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"object\":\"response\"}}\n";
    [start.to_owned()].into_iter().chain((0..75).map(frame)).collect()
}

/// A frame is brought by a read that ends inside its line end, and the next read brings one without data, by another
/// name: the text around that one says nothing of the first.
#[test]
fn what_is_written_around_another_frame_is_not_its_own() {
    let frame = |name: &str, text: &str| {
        let delta = format!("{{\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}");
        format!("event: {name}\r\ndata: {delta}\r\n\r\n")
    };
    let start =
        "event: message_start\r\ndata: {\"message\":{\"id\":\"m\",\"content\":[]}}\r\n\r\n".to_owned();
    let known = (0..5).map(|at| frame("content_block_delta", &format!("t{at}")));
    let mut reads: Vec<String> = [start].into_iter().chain(known).collect();
    let mut cut = frame("content_block_delta", "cut");
    cut.truncate(cut.len() - 1);
    reads.extend([
        cut,
        "\n".to_owned(),
        "event: ping\r\ndata: \r\n\r\n".to_owned(),
        frame("ping", "not told"),
        frame("content_block_delta", "end"),
    ]);
    let events = |builder: callweave::pipeline::DecoderBuilder| {
        let mut decoder = builder.build();
        let mut events: Vec<Event<'static>> = Vec::new();
        for read in &reads {
            decoder.push(read.as_bytes(), &mut events).expect("no limit");
        }
        decoder.finish(&mut events).expect("an answer");
        events
    };
    assert_eq!(events(Decoder::builder()), events(Decoder::builder().read_all()));
}

/// A name in the framing decides what the same data mean.
#[test]
fn known_data_under_another_name_are_not_known() {
    let frame = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
    let delta =
        |at: usize| format!("{{\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"t{at}\"}}}}");
    let start = frame("message_start", "{\"message\":{\"id\":\"m\",\"content\":[]}}");
    let known = (0..6).map(|at| frame("content_block_delta", &delta(at)));
    let pings = (0..6).map(|at| frame("ping", &format!("{{\"index\":0,\"pad\":\"p{at}\"}}")));
    let last = [frame("ping", &delta(6)), frame("content_block_delta", &delta(7))];
    let text: String = [start].into_iter().chain(known).chain(pings).chain(last).collect();
    compare("another name", text.as_bytes(), &[text.len(), 61, 1, 0]);
}

/// A server leaves out the blank line between two events: the bytes around the second are not those of the first.
#[test]
fn two_frames_at_once_are_two() {
    let data = |text: &str| {
        format!(
            "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\
             \"{text}\"}}}}]}}\n"
        )
    };
    let single: String = (0..6).map(|at| data(&format!("t{at}")) + "\n").collect();
    let double: String = (0..6).map(|at| data("same") + &data(&format!("u{at}")) + "\n").collect();
    let text = single.clone() + &double + &single + &double;
    let known = compare("two at once", text.as_bytes(), &[text.len(), 61, 1, 0]);
    expect_known(known, 15, "two at once");
}

/// Some give every chunk another id, longer or shorter than the one before: each is emitted as it is, known or not.
#[test]
fn an_id_that_changes_with_every_chunk_is_told_each_time() {
    let ids: Vec<String> = (0..12_usize).map(|at| format!("id-{}{at}", "x".repeat(at * 5 % 31))).collect();
    let chunk = |id: &String| {
        format!(
            "data: {{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":\
             [{{\"index\":0,\"delta\":{{\"content\":\"t\"}}}}]}}\n\n"
        )
    };
    let stream: String = ids.iter().map(chunk).collect();
    for builder in [Decoder::builder(), Decoder::builder().read_all()] {
        let mut decoder = builder.build();
        let mut events: Vec<Event<'static>> = Vec::new();
        decoder.push(stream.as_bytes(), &mut events).expect("no limit");
        decoder.finish(&mut events).expect("an answer");
        let told = events.iter().filter_map(|event| match &event.body {
            EventKind::Start { id, .. } | EventKind::Identity { id, .. } => id.as_deref(),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), ids);
    }
}

/// A text that grows while a tool shows previews, which are too long to have a shape.
fn between_previews() -> String {
    let frame = |at: usize| {
        let preview = "A".repeat(2_100);
        format!(
            "{{\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"t{at}\"}}\n\
             {{\"type\":\"response.image_generation_call.partial_image\",\"output_index\":1,\"partial\":\"{preview}\"}}\n"
        )
    };
    let start = "{\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"object\":\"response\"}}\n";
    [start.to_owned()].into_iter().chain((0..30).map(frame)).collect()
}

/// A text that grows beside seven numbers that do, too: as many holes as there may be, without that of the place.
fn of_many_holes() -> String {
    let frame = |at: usize| {
        let counts: String = (1..8).map(|number| format!(",\"n{number}\":{}", at * number)).collect();
        format!(
            "{{\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"t{at}\"{counts}}}\n"
        )
    };
    let start = "{\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"object\":\"response\"}}\n";
    [start.to_owned()].into_iter().chain((1..31).map(frame)).collect()
}

/// All but the first few are known.
#[test]
fn what_stands_beside_or_between_does_not_keep_shapes_from_being_known() {
    for (name, text) in [("between previews", between_previews()), ("many holes", of_many_holes())] {
        let known = compare(name, text.as_bytes(), &[text.len(), 997, 61]);
        expect_known(known, 26, name);
    }
}

/// All but the first three are known, in any order of turns.
#[test]
fn places_may_take_turns() {
    let items = ("items in turns".to_owned(), items_in_turns().into_bytes());
    let phases = ("items of phases".to_owned(), items_of_phases().into_bytes());
    // One more tells that the phase may change.
    for ((name, bytes), frames) in [(in_turns(), 40), (items, 60), (phases, 74)] {
        let known = compare(&name, &bytes, &[bytes.len(), 997, 61, 0]);
        expect_known(known, frames - 3, &name);
    }
}

/// A text that is repeated takes over a block key that another one had, which then is the last one used.
fn told_again() -> String {
    let event = |name: &str, number: usize, index: u8, rest: &str| {
        format!(
            "{{\"type\":\"response.{name}\",\"sequence_number\":{number},\"item_id\":\"m\",\"output_index\":0,\
             \"content_index\":{index},{rest}}}\n"
        )
    };
    let whole = "\"part\":{\"type\":\"output_text\",\"text\":\"ab\"}";
    let deltas =
        (4..12).map(|number| event("output_text.delta", number, 0, &format!("\"delta\":\"x{number}\"")));
    let head = [
        event("content_part.done", 1, 8, whole),
        event("output_text.delta", 2, 0, "\"delta\":\"b\""),
        event("content_part.done", 3, 0, whole),
    ];
    head.into_iter().chain(deltas).collect()
}

/// Blanks come to stand behind a value of a frame that had none.
fn padded() -> String {
    let frames = [(1, 0), (2, 0), (3, 2), (4, 0), (5, 3), (5, 0), (5, 1), (6, 0)];
    let frame = |(at, (print, blanks)): (usize, (u8, usize))| {
        let blanks = " ".repeat(blanks);
        format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":\
             {{\"content\":\"t{at}\"}}}}],\"system_fingerprint\":\"f{print}\"{blanks}}}\n"
        )
    };
    frames.into_iter().enumerate().map(frame).collect()
}

/// A block grows by frames that have nothing but a text and blanks in them; some only look so.
fn padded_deltas() -> String {
    let event = |name: &str, rest: &str| format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n");
    let delta = |number: usize| {
        let text =
            ["a", "\\n", "é", "a longer text than a lane has room for", "\\\"", "\\ud83d", "\\ude00", "}"]
                [number % 8];
        let end = match number {
            30 => "} ,\"index\":0 ",
            40 => " }",
            50 => "},\"more\":1",
            60 => "}\t",
            _ => "}",
        };
        let blanks = " ".repeat(number * 7 % 23);
        let rest = format!(
            "\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}{number}\"{end}{blanks}"
        );
        event("content_block_delta", &rest)
    };
    let start = event("message_start", "\"message\":{\"id\":\"m\",\"role\":\"assistant\"}");
    let open =
        event("content_block_start", "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    [start, open].into_iter().chain((0..80).map(delta)).collect()
}

/// A member of a block stands in the frame that opens it, before it is open.
fn of_the_block() -> String {
    let frame = |number: usize| {
        let index = number / 4;
        format!(
            "{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"x\":\"y\",\"type\":\"text_delta\",\
             \"text\":\"t{number}\"}}}}\n"
        )
    };
    let start = "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\
                 \"content\":[]}}\n";
    [start.to_owned()].into_iter().chain((0..24).map(frame)).collect()
}

/// Seconds are counted beside the text: most stay for some frames, some come again, and one has a digit more. Between
/// them stands reasoning, with a second of its own.
fn counted() -> String {
    let seconds =
        [1, 1, 2, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 2, 2, 9, 9, 9, 10, 10, 9, 9, 9, 10, 4];
    let frame = |(at, second): (usize, u8)| {
        let kind = if at % 15 == 12 { "reasoning" } else { "content" };
        let print = at.min(4) / 4;
        format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":{second},\"choices\":[{{\"index\":0,\"delta\":\
             {{\"{kind}\":\"t{at}\"}}}}],\"system_fingerprint\":\"f{print}\",\"obfuscation\":\"{at:0>width$}\"}}\n",
            width = 1 + at % 5
        )
    };
    seconds.into_iter().enumerate().map(frame).collect()
}

/// Tokens are counted in every frame, in the ways of both that do so; some frames count nothing new.
fn tokens() -> [String; 2] {
    let counts = [
        "1", "2", "3", "3", "3", "4", "5", "10", "11", "11", "1e1", "12.5", "null", "\"13\"", "14", "15",
        "-1", "16",
    ];
    let numbered = counts.into_iter().cycle().take(40).enumerate();
    let gemini = |(at, count): (usize, &str)| {
        format!(
            "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"t{at}\"}}],\"role\":\"model\"}},\"index\":0}}],\
             \"usageMetadata\":{{\"promptTokenCount\":9,\"candidatesTokenCount\":{count},\"totalTokenCount\":{at},\
             \"promptTokensDetails\":[{{\"modality\":\"TEXT\",\"tokenCount\":9}}]}},\"modelVersion\":\"g\",\"responseId\":\"r\"}}\n"
        )
    };
    let chat = |(at, count): (usize, &str)| {
        let total = 7 + at / 3;
        format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"t{at}\"}}}}],\
             \"usage\":{{\"prompt_tokens\":4,\"completion_tokens\":{count},\"total_tokens\":{total},\
             \"completion_tokens_details\":{{\"reasoning_tokens\":{count}}}}}}}\n"
        )
    };
    [numbered.clone().map(gemini).collect(), numbered.map(chat).collect()]
}

/// An id that looks like the markers by which the cache finds out where a text comes from, for half of the frames.
fn like_markers() -> String {
    let frame = |at: usize| {
        let id = if at < 20 { "867530942610" } else { "c" };
        format!(
            "{{\"id\":\"{id}0\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":\
             {{\"content\":\"t{at}\"}}}}]}}\n"
        )
    };
    (0..40).map(frame).collect()
}

/// Something that may have come too late stands before counts that come too late.
fn late() -> String {
    let start = |word: &str| {
        format!(
            "{{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",\"type\":\"{word}\",\"role\":\"assistant\",\"model\":\"c\",\
             \"content\":[],\"usage\":{{\"input_tokens\":10,\"output_tokens\":1}}}}}}\n"
        )
    };
    let starts = ["message", "a", "b", "c", "d", "e"].map(start);
    [starts[0].as_str(), "data: [DONE]\n"].into_iter().chain(starts.iter().map(String::as_str)).collect()
}

/// Reasoning that comes under two names, and is the same in every second frame.
fn told_twice() -> String {
    let frame = |(at, thought): (usize, &str)| {
        format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"reasoning\":\
             \"{thought}\",\"reasoning_content\":\" three\"}}}}],\"obfuscation\":\"{}\"}}\n",
            "x".repeat(usize::from(at > 12))
        )
    };
    ["a", " three", "b", " three", "c", "d", " three"]
        .iter()
        .cycle()
        .take(30)
        .copied()
        .enumerate()
        .map(frame)
        .collect()
}

/// Steps of tools that nobody knows, and texts, of several items in turns; now and then an item has another name, or none,
/// and a step says more, the same twice, or nothing.
fn of_items() -> String {
    let frame = |number: usize| {
        let (item, text) = (number / 5 % 3, "x".repeat(1 + number % 4));
        let id = match number % 11 {
            9 => String::new(),
            10 => format!("\"item_id\":\"other {number}\","),
            _ => format!("\"item_id\":\"i{item}\","),
        };
        let (name, rest) = match number % 17 {
            15 => ("shell_call_command.delta", "\"command_index\":0,\"note\":null,\"a.b\":1,"),
            16 => ("shell_call_command.delta", "\"command_index\":0,\"command_index\":1,"),
            _ if item == 1 => ("output_text.delta", "\"content_index\":0,"),
            _ => ("shell_call_command.delta", "\"command_index\":0,"),
        };
        format!(
            "{{\"type\":\"response.{name}\",{id}{rest}\"delta\":\"t{number}\",\"obfuscation\":\"{text}\",\
             \"output_index\":{item},\"sequence_number\":{number}}}\n"
        )
    };
    (0..120).map(frame).collect()
}

#[test]
fn what_stands_around_a_known_frame_counts() {
    let [gemini, chat] = tokens();
    for (name, stream) in [
        ("told again", told_again()),
        ("padded", padded()),
        ("padded deltas", padded_deltas()),
        ("of the block", of_the_block()),
        ("counted", counted()),
        ("late", late()),
        ("told twice", told_twice()),
        ("of items", of_items()),
        ("like markers", like_markers()),
        ("tokens of Gemini", gemini),
        ("tokens of chat", chat),
    ] {
        let known = compare(name, stream.as_bytes(), &[stream.len(), 61, 1]);
        expect_known(known, 1, name);
    }
}

#[test]
fn a_known_frame_of_a_recording_says_what_it_would_have_said() {
    let Some(corpus) = shared::find("corpus") else {
        return shared::skip("the recorded answers are not there");
    };
    let mut known = 0;
    let mut files: Vec<_> = walk(&corpus);
    files.sort();
    for file in files {
        let bytes = fs::read(&file).expect("a file");
        if bytes.len() < 300_000 {
            known += compare(&name(&file), &bytes, &[bytes.len().max(1), 1399, 113, 0]);
        }
    }
    expect_known(known, 10_001, "the recordings");
}

/// Writes a line for every input, in several splits, to the file that `CALLWEAVE_RESULTS` names: `cargo xtask check`
/// compares the file of a build without the frame cache with that of the usual build.
#[test]
fn results_are_written_for_comparison() {
    let Some(path) = std::env::var_os("CALLWEAVE_RESULTS") else { return };
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/decoder");
    let recordings = shared::find("corpus").map(|corpus| walk(&corpus)).unwrap_or_default();
    let mut files: Vec<_> = walk(&seeds).into_iter().chain(recordings).collect();
    files.sort();
    let files = files.iter().map(|file| (file.display().to_string(), fs::read(file).expect("a file")));
    let inputs: Vec<_> =
        inputs().into_iter().chain(files.filter(|(_, bytes)| bytes.len() < 300_000)).collect();
    let lines = each(&inputs, |(name, bytes)| {
        let results = [bytes.len().max(1), 997, 61, 0].map(|size| {
            use std::hash::{Hash, Hasher};
            let (events, ended, _) = events(bytes, size, false);
            let mut hasher = std::hash::DefaultHasher::new();
            format!("{events:?} {ended}").hash(&mut hasher);
            format!("{:016x}", hasher.finish())
        });
        format!("{} {name}\n", results.join(" "))
    });
    assert!(lines.len() > 200);
    fs::write(path, lines.concat()).expect("a writable file");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// The frames of an input.
fn frames(bytes: &[u8]) -> Vec<(Option<String>, String)> {
    let mut frames = Vec::new();
    let mut framer = Framer::detect(StreamLimits::default());
    let mut keep = |frame: Frame<'_>| {
        if frame.kind == FrameKind::Data {
            frames.push((frame.event.map(Into::into), frame.data.to_owned()));
        }
    };
    let _ = framer.push(bytes, &mut keep);
    let _ = framer.finish(&mut keep);
    frames
}

/// The replacements of a string.
const STRINGS: &[&str] = &[
    r#""Hello""#,
    r#"" world""#,
    r#""""#,
    r#""\u00e9\n\"quoted\"""#,
    r#""\ud83d""#,
    r#""\ude00 joined""#,
    r#""-5""#,
    r#""0""#,
    r#""stop""#,
    r#""error""#,
    r#""function""#,
    r#""message""#,
    r#""ping""#,
    r#""{}""#,
    r#""naïve 😀""#,
    r#""Hello""#,
    "null",
    "7",
    r#"{"text":"deep"}"#,
    r#""bad \x escape""#,
    "\"raw \u{1} control\"",
    r#""last""#,
];

/// The replacements of a number.
const NUMBERS: &[&str] =
    &["1", "2", "-5", "1.5", "1e3", "99999999999999999999", "0", "01", "-", "3", "\"4\"", "null", "5", "6"];

/// The paths of the strings and numbers in a value.
fn leaves(value: &Value, path: String, found: &mut Vec<(String, bool)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                leaves(value, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(elements) => {
            for (at, value) in elements.iter().enumerate() {
                leaves(value, format!("{path}/{at}"), found);
            }
        }
        Value::String(_) => found.push((path, true)),
        Value::Number(_) => found.push((path, false)),
        Value::Bool(_) | Value::Null => {}
    }
}

/// A frame and, for each value in it, frames in which others stand in its place: one by one, and both of two.
fn varied(frame: &str) -> Vec<Vec<String>> {
    let Ok(value) = serde_json::from_str::<Value>(frame) else { return Vec::new() };
    let mut found = Vec::new();
    leaves(&value, String::new(), &mut found);
    let vary = |paths: &[&(String, bool)]| {
        let others = if paths[0].1 { STRINGS } else { NUMBERS };
        let mut value = value.clone();
        for (path, _) in paths {
            *value.pointer_mut(path).expect("a leaf") = Value::from("\u{0}here");
        }
        let text = value.to_string();
        let written = others.iter().map(|other| text.replace(r#""\u0000here""#, other));
        std::iter::once(frame.to_owned()).chain(written).collect()
    };
    let single = found.iter().map(|leaf| vary(&[leaf]));
    let strings: Vec<_> = found.iter().filter(|(_, is_string)| *is_string).collect();
    let pairs = strings.windows(2).map(vary);
    single.chain(pairs).collect()
}

fn written(event: &Option<String>, data: &str) -> String {
    let event = event.as_ref().map(|event| format!("event: {event}\n")).unwrap_or_default();
    format!("{event}data: {}\n\n", data.replace('\n', " "))
}

#[test]
fn what_is_looked_at_is_no_hole() {
    let mut tried = std::collections::HashSet::new();
    let mut tasks = Vec::new();
    for (name, bytes) in inputs() {
        let frames = frames(&bytes);
        if frames.len() < 2 || frames.len() > 40 {
            continue;
        }
        for (at, (event, frame)) in frames.iter().enumerate() {
            // Once for frames that differ in digits and texts only.
            let skeleton: String = frame.chars().filter(|letter| !letter.is_alphanumeric()).collect();
            let words: String = frame.chars().filter(|letter| *letter == '_').collect();
            if frame.len() > 1500 || !tried.insert((event.clone(), skeleton, words)) {
                continue;
            }
            let before: String = frames[..at].iter().map(|(event, data)| written(event, data)).collect();
            tasks.push((name.clone(), before, event.clone(), frame.clone()));
        }
    }
    let known = each(&tasks, |(name, before, event, frame)| {
        let streams = varied(frame).into_iter().map(|variants| {
            let varied = variants.iter().map(|data| written(event, data));
            std::iter::once(before.clone()).chain(varied).collect::<String>()
        });
        streams.map(|stream| compare(name, stream.as_bytes(), &[stream.len()])).sum::<u64>()
    });
    let known: u64 = known.iter().sum();
    expect_known(known, 5_001, "variants");
}
