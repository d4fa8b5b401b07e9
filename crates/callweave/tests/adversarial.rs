//! Streams made to mislead, with known truth: what is decoded must be just that.
//!
//! A response with text, reasoning and calls is cut into pieces and told in one of the ways in which servers tell it:
//! interleaved, announced first, without or with changing ids, arguments before names, everything twice. The same seed
//! makes the same streams.

use callweave::protocol::Protocol;
use callweave::{Accumulator, Decoder, Message};
use serde_json::{Value, json};

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
        let calls: Vec<_> = message
            .tool_calls()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments().parse::<Value>().ok()))
            .collect();
        let truth: Vec<_> = self
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.parse::<Value>().ok()))
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

const KINDS: [&str; 12] = [
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
];

/// A stream of chat chunks; every way to tell the same calls.
fn chat(truth: &Truth, kind: &str, dice: &mut Dice) -> String {
    let mut out = chunk(&json!({"role": "assistant", "content": ""}), None);
    let word = ["reasoning_content", "reasoning"][dice.below(2)];
    for piece in dice.pieces(&truth.reasoning) {
        out.push_str(&chunk(&json!({word: piece}), None));
    }
    for piece in dice.pieces(&truth.text) {
        out.push_str(&chunk(&json!({"content": piece}), None));
    }
    let tell =
        |out: &mut String, calls: Vec<Value>| out.push_str(&chunk(&json!({"tool_calls": calls}), None));
    let index = |number: usize| if kind == "index 0" { 0 } else { number };
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
                    // Only one call can be told so.
                    "function_call beside" if truth.calls.len() == 1 => {
                        for piece in &pieces {
                            let function = json!({"name": name, "arguments": piece});
                            let delta = json!({"function_call": function, "tool_calls": [whole(number, function.clone())]});
                            out.push_str(&chunk(&delta, None));
                        }
                    }
                    _ => {
                        tell(&mut out, vec![announce(number, dice)]);
                        for piece in &pieces {
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

fn decode(stream: &str, dice: &mut Dice) -> Message {
    let (mut message, mut decoder) =
        (Accumulator::new(), Decoder::new(Protocol::named("openai-chat").expect("chat")));
    let (mut rest, step) = (stream.as_bytes(), 1 + dice.below(400));
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(step.min(rest.len()));
        decoder.push(piece, &mut message).expect("no limit");
        rest = after;
    }
    decoder.finish(&mut message).expect("an end");
    message.take()
}

#[test]
fn twelve_thousand_streams_say_what_is_true() {
    let mut dice = Dice(27);
    for round in 0..12_000 {
        let truth = Truth::new(&mut dice);
        let kind = KINDS[round % KINDS.len()];
        let stream = chat(&truth, kind, &mut dice);
        let message = decode(&stream, &mut dice);
        truth.check(&message, kind, &stream);
    }
}
