//! Streams made to mislead, with known truth: the decoded response must be just that.
//!
//! A response with text, reasoning and calls is split into pieces and written in one of the ways in which servers write
//! it: interleaved, announced first, without or with changing ids, arguments before names, everything twice; in six
//! protocols and in every form of event streams. The same seed makes the same streams. Truncated anywhere, none of them
//! passes for complete.

#[path = "adversarial/wires.rs"]
mod wires;

use callweave::event::{FinishReason, NoticeCode};
use callweave::protocol::Protocol;
use callweave::{Accumulator, Decoder, Message};
use serde_json::{Value, json};
use wires::{WAYS, Way};

/// A generator of numbers that is the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % count
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn words(&mut self) -> String {
        const WORDS: [&str; 12] = [
            "Tromsø",
            "日本語",
            "emoji 😀",
            "a\\b",
            "\"q\"",
            "line\nbreak",
            "\u{2028}",
            "{\"x\":1}",
            "</tool>",
            "data: no",
            "12",
            "null",
        ];
        (0..=self.below(6)).map(|_| WORDS[self.below(WORDS.len())]).collect::<Vec<_>>().join(" ")
    }

    /// Cuts a text into pieces, between characters.
    fn pieces(&mut self, text: &str) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for letter in text.chars() {
            if self.chance(7) && pieces.last().is_some_and(|last| !last.is_empty()) {
                pieces.push(String::new());
            }
            pieces.last_mut().expect("one piece").push(letter);
        }
        pieces
    }
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

struct Truth {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
}

impl Truth {
    fn new(dice: &mut Dice) -> Self {
        let calls: Vec<_> = (0..dice.below(5))
            .map(|number| {
                let mut arguments = serde_json::Map::new();
                for key in 0..dice.below(4) {
                    let value = match dice.below(4) {
                        0 => json!(dice.words()),
                        1 => json!(dice.below(1_000_000)),
                        2 => json!([dice.words(), {"deep": null}]),
                        _ => json!(true),
                    };
                    arguments.insert(format!("k{key}"), value);
                }
                let name = ["look", "search", "f"][dice.below(3)].to_owned();
                Call {
                    id: format!("call_{number}{}", dice.below(1000)),
                    name,
                    arguments: json!(arguments).to_string(),
                }
            })
            .collect();
        let text = if calls.is_empty() || dice.chance(2) { dice.words() } else { String::new() };
        let reasoning = if dice.chance(3) { dice.words() } else { String::new() };
        Self { text, reasoning, calls }
    }

    fn check(&self, message: &Message, title: &str, stream: &str) {
        // A made id is none of the provider's.
        let calls: Vec<_> = message
            .tool_calls()
            .map(|call| {
                let id = (!call.has_made_id).then_some(call.id.as_str());
                (id, call.name.as_str(), call.arguments().parse::<Value>().ok())
            })
            .collect();
        let has_ids = !stream.starts_with('{');
        let truth: Vec<_> = self
            .calls
            .iter()
            .map(|call| {
                let id = has_ids.then_some(call.id.as_str());
                (id, call.name.as_str(), call.arguments.parse::<Value>().ok())
            })
            .collect();
        assert_eq!(calls, truth, "{title}:\n{stream}");
        assert_eq!(message.text(), self.text, "{title}:\n{stream}");
        assert_eq!(message.reasoning(), self.reasoning, "{title}:\n{stream}");
        let invalid: Vec<_> = message.tool_calls().filter_map(|call| call.invalid()).collect();
        assert!(invalid.is_empty() && message.errors.is_empty(), "{title}: {invalid:?}\n{stream}");
    }
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    event(&json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}))
}

const KINDS: [&str; 18] = [
    "plain",
    "interleaved",
    "announced together",
    "announced one by one",
    "id repeated",
    "id changes",
    "index 0",
    "name repeated",
    "arguments first",
    "all arguments first",
    "object",
    "function_call beside",
    "no index",
    "index 1",
    "name in pieces",
    "finish before the last piece",
    "parts",
    "usage and roles amid",
];

/// A stream of chat chunks; every way to write the same calls.
fn chat(truth: &Truth, kind: &str, dice: &mut Dice) -> String {
    let mut out = chunk(&json!({"role": "assistant", "content": ""}), None);
    let word = ["reasoning_content", "reasoning"][dice.below(2)];
    for piece in dice.pieces(&truth.reasoning) {
        out.push_str(&chunk(&json!({word: piece}), None));
    }
    for piece in dice.pieces(&truth.text) {
        out.push_str(&match kind {
            "parts" => chunk(&json!({"content": [{"type": "text", "text": piece}]}), None),
            "usage and roles amid" => {
                let usage = json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3});
                let amid = event(&json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage}));
                format!("{}{amid}", chunk(&json!({"role": "assistant", "content": piece}), None))
            }
            _ => chunk(&json!({"content": piece}), None),
        });
    }
    let tell =
        |out: &mut String, calls: Vec<Value>| out.push_str(&chunk(&json!({"tool_calls": calls}), None));
    let index = |number: usize| match kind {
        "index 0" => json!(0),
        "index 1" => json!(number + 1),
        "no index" => Value::Null,
        _ => json!(number),
    };
    let whole = |number: usize, function: Value| json!({"index": index(number), "id": truth.calls[number].id, "type": "function", "function": function});
    let more = |number: usize, piece: &str, dice: &mut Dice| {
        let mut call = json!({"index": index(number), "function": {"arguments": piece}});
        match kind {
            "id repeated" => call["id"] = json!(truth.calls[number].id),
            "id changes" => call["id"] = json!(format!("other_{}", dice.below(1 << 20))),
            "name repeated" => call["function"]["name"] = json!(truth.calls[number].name),
            _ => {}
        }
        call
    };
    let announce = |number: usize, dice: &mut Dice| {
        let name = &truth.calls[number].name;
        match dice.below(3) {
            0 => whole(number, json!({"name": name})),
            1 => whole(number, json!({"name": name, "arguments": ""})),
            _ => whole(number, json!({"name": name, "arguments": null})),
        }
    };
    let mut rest: Vec<(usize, Vec<String>)> =
        truth.calls.iter().enumerate().map(|(number, call)| (number, dice.pieces(&call.arguments))).collect();
    match kind {
        "interleaved" | "announced together" | "announced one by one" => {
            let all: Vec<_> = (0..rest.len()).map(|number| announce(number, dice)).collect();
            match kind {
                "announced together" if !all.is_empty() => tell(&mut out, all),
                _ => all.into_iter().for_each(|call| tell(&mut out, vec![call])),
            }
            while !rest.is_empty() {
                let at = dice.below(rest.len());
                let (number, pieces) = &mut rest[at];
                let piece = pieces.remove(0);
                tell(&mut out, vec![more(*number, &piece, dice)]);
                if pieces.is_empty() {
                    rest.remove(at);
                }
            }
        }
        _ => {
            for (number, pieces) in rest {
                let Call { name, arguments, .. } = &truth.calls[number];
                match kind {
                    "arguments first" | "all arguments first" => {
                        let first = if kind == "arguments first" { 1 } else { pieces.len() };
                        tell(&mut out, vec![whole(number, json!({"arguments": pieces[..first].concat()}))]);
                        tell(&mut out, vec![json!({"index": number, "function": {"name": name}})]);
                        for piece in &pieces[first..] {
                            tell(&mut out, vec![more(number, piece, dice)]);
                        }
                    }
                    "object" => {
                        let value: Value = arguments.parse().expect("JSON");
                        tell(&mut out, vec![whole(number, json!({"name": name, "arguments": value}))]);
                    }
                    // Only one call can be written this way.
                    "function_call beside" if truth.calls.len() == 1 => {
                        for piece in &pieces {
                            let function = json!({"name": name, "arguments": piece});
                            let delta = json!({"function_call": function, "tool_calls": [whole(number, function.clone())]});
                            out.push_str(&chunk(&delta, None));
                        }
                    }
                    "name in pieces" => {
                        let (head, tail) = name.split_at(1);
                        tell(&mut out, vec![whole(number, json!({"name": head}))]);
                        if !tail.is_empty() {
                            tell(&mut out, vec![json!({"index": number, "function": {"name": tail}})]);
                        }
                        for piece in &pieces {
                            tell(&mut out, vec![more(number, piece, dice)]);
                        }
                    }
                    _ => {
                        tell(&mut out, vec![announce(number, dice)]);
                        for (at, piece) in pieces.iter().enumerate() {
                            // Some proxies say it with every chunk.
                            if kind == "finish before the last piece" && at + 1 == pieces.len() {
                                out.push_str(&chunk(&json!({}), Some("tool_calls")));
                            }
                            tell(&mut out, vec![more(number, piece, dice)]);
                        }
                    }
                }
            }
        }
    }
    let finish = if truth.calls.is_empty() { "stop" } else { ["tool_calls", "stop"][dice.below(2)] };
    out.push_str(&chunk(&json!({}), Some(finish)));
    out.push_str("data: [DONE]\n\n");
    out
}

/// The frames as events, in one of the forms that the standard allows.
fn dressed(frames: &[Value], dice: &mut Dice) -> String {
    let mut out = String::from(if dice.chance(4) { "\u{feff}" } else { "" });
    let end = ["\n", "\r\n", "\r"][dice.below(3)];
    let (has_names, has_comments, space) = (dice.chance(2), dice.chance(3), ["", " "][dice.below(2)]);
    for frame in frames {
        if has_comments && dice.chance(3) {
            out.push_str(&format!(": keep-alive{end}{end}"));
        }
        if let Some(name) = frame["type"].as_str().filter(|_| has_names) {
            out.push_str(&format!("event:{space}{name}{end}"));
        }
        out.push_str(&format!("data:{space}{frame}{end}{end}"));
    }
    out
}

/// A stream in one of the other protocols.
fn told(truth: &Truth, way: &Way, dice: &mut Dice) -> String {
    let frames = (way.frames)(truth, way.kind, dice);
    match way.protocol {
        "ollama" => frames.iter().map(|frame| format!("{frame}\n")).collect(),
        _ => dressed(&frames, dice),
    }
}

fn decode(protocol: &str, stream: &[u8], dice: &mut Dice) -> Message {
    let protocol = Protocol::named(protocol).expect("a protocol of that name");
    let (mut message, mut decoder) = (Accumulator::new(), Decoder::new(protocol));
    let (mut rest, step) = (stream, 1 + dice.below(400));
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(step.min(rest.len()));
        decoder.push(piece, &mut message).expect("no limit");
        rest = after;
    }
    // A stream of which hardly anything came is nothing.
    let _ = decoder.finish(&mut message);
    message.take()
}

#[test]
fn twelve_thousand_streams_say_what_is_true() {
    let mut dice = Dice(27);
    for round in 0..12_000 {
        let truth = Truth::new(&mut dice);
        let kind = KINDS[round % KINDS.len()];
        let stream = chat(&truth, kind, &mut dice);
        let message = decode("openai-chat", stream.as_bytes(), &mut dice);
        truth.check(&message, kind, &stream);
    }
}

#[test]
fn six_thousand_streams_of_other_protocols_say_what_is_true() {
    let mut dice = Dice(28);
    for round in 0..6_000 {
        let truth = Truth::new(&mut dice);
        let way = &WAYS[round % WAYS.len()];
        let stream = told(&truth, way, &mut dice);
        let message = decode(way.protocol, stream.as_bytes(), &mut dice);
        let reason = if truth.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        truth.check(&message, &format!("{} {}", way.protocol, way.kind), &stream);
        assert_eq!(message.finish_reason(), Some(reason), "{} {}: {stream}", way.protocol, way.kind);
    }
}

/// A truncated stream says so, emits nothing that is not true, and has no call that only looks complete.
#[test]
fn six_thousand_cut_streams_do_not_pass_for_complete() {
    let mut dice = Dice(29);
    // Items that nobody announced are known by their numbers alone, and the cut may take those away.
    let ways: Vec<_> = WAYS.iter().filter(|way| way.kind != "not added").collect();
    for round in 0..6_000 {
        let truth = Truth::new(&mut dice);
        let way = ways[round % ways.len()];
        let stream = told(&truth, way, &mut dice);
        // Blank lines and the last event may be missing without harm; everything before is emitted by then.
        let last = stream.trim_end().len() - stream.trim_end().lines().last().map_or(0, str::len);
        let cut = &stream.as_bytes()[..1 + dice.below(last.max(2) - 1)];
        let message = decode(way.protocol, cut, &mut dice);
        let title = format!("{} {}: {}", way.protocol, way.kind, String::from_utf8_lossy(cut));
        assert!(truth.text.starts_with(&*message.text()) || is_doubtful(way, &message), "{title}");
        assert!(truth.reasoning.starts_with(&*message.reasoning()), "{title}");
        assert!(message.tool_calls().count() <= truth.calls.len(), "{title}");
        for (call, own) in message.tool_calls().zip(&truth.calls) {
            let is_same = |text: &str| text.parse::<Value>().ok() == own.arguments.parse::<Value>().ok();
            assert!(own.name.starts_with(&*call.name), "{title}");
            assert!(call.invalid().is_some() || is_same(call.arguments()), "{title}");
        }
        let is_reported = message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
        let has_finished = message
            .first()
            .is_some_and(|choice| choice.finish.as_ref().is_some_and(|finish| finish.raw.is_some()));
        assert!(
            is_reported || has_finished || message.error().is_some() || message == Message::default(),
            "{title}"
        );
    }
}

/// The channel that Gemini's missing first chunk would have given its text is unknown, and everything left is emitted
/// as text.
fn is_doubtful(way: &Way, message: &Message) -> bool {
    way.protocol == "gemini-generatecontent" && message.reasoning().is_empty()
}
