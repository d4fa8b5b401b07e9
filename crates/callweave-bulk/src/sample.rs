//! Generated traffic: responses of ten protocols, with calls in text and the faults that models have.
//!
//! A row depends on its number alone, so any part of the rows can be made anywhere, and again. Nothing in it is
//! recorded: names of models are invented, and calls are the examples of our dialects.

use std::borrow::Cow;

use callweave::accumulator::Accumulator;
use callweave::dialect::DialectRegistry;
use callweave::encode::EncodeOptions;
use callweave::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, FinishReason, JsonText,
    ReasoningForm, Sink, TokenCounts,
};
use callweave::protocol::Protocol;
use callweave::upstream::{ErrorClass, UpstreamError};
use serde_json::json;

/// A generated row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// Its number.
    pub id: u64,
    /// The time of the response, in seconds since 1970.
    pub time: i64,
    /// The bytes of the response.
    pub data: Vec<u8>,
}

/// The time of the first row: the first of October 2026.
const START: i64 = 1_790_812_800;
/// The rows lie in that many seconds: four weeks.
const SPAN: u64 = 28 * 86_400;

/// A model, the protocol in which it answers, and the dialect of its calls, if they stand in its text.
struct SampleModel {
    name: &'static str,
    protocol: &'static str,
    dialect: Option<&'static str>,
    /// Of a thousand calls those that are not quite JSON, in the first and in the last two weeks.
    faults: [u64; 2],
}

const fn native(name: &'static str, protocol: &'static str, faults: u64) -> SampleModel {
    SampleModel { name, protocol, dialect: None, faults: [faults; 2] }
}

const fn writing(
    name: &'static str,
    protocol: &'static str,
    dialect: &'static str,
    faults: [u64; 2],
) -> SampleModel {
    SampleModel { name, protocol, dialect: Some(dialect), faults }
}

const MODELS: &[SampleModel] = &[
    native("aster-mini", "openai-chat", 30),
    native("aster-large", "openai-responses", 5),
    native("birch-2", "anthropic-messages", 0),
    native("cedar-flash", "gemini-generatecontent", 0),
    native("cedar-agent", "gemini-interactions", 0),
    native("dahlia-coder", "codex-appserver-v2", 0),
    native("elm-rerank", "cohere-v2", 10),
    native("fir-bedrock", "bedrock-converse", 0),
    native("fir-invoke", "bedrock-invoke", 0),
    native("ginkgo-local", "ollama", 0),
    writing("hazel-hermes-14b", "openai-chat", "hermes", [40, 400]),
    writing("iris-coder-30b", "openai-chat", "qwen3_coder", [0, 0]),
    writing("juniper-8b", "ollama", "lfm2", [0, 0]),
    writing("kauri-24b", "openai-chat", "mistral", [120, 120]),
    writing("larch-70b", "openai-responses", "kimi_k2", [60, 60]),
    writing("maple-v3", "bedrock-converse", "deepseek_v3", [20, 20]),
];

const CITIES: [&str; 8] = ["Oslo", "Lima", "Kyoto", "Nairobi", "Zürich", "São Paulo", "Tallinn", "Hanoi"];
const WORDS: [&str; 4] = [
    "Let me look that up.",
    "I will check the weather first.",
    "One moment, please.",
    "Sure, here is what I found:",
];

/// Numbers that look random and are the same for every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// The row of that number.
pub fn row(id: u64) -> SampleRow {
    let mut numbers = Numbers(id.wrapping_mul(0x2545_F491_4F6C_DD1D));
    let offset = numbers.below(SPAN);
    let model = numbers.pick(MODELS);
    let protocol = Protocol::named(model.protocol).expect("the table has the protocols of the samples");
    let fate = numbers.below(1000);
    let mut data = if fate < 15 {
        error(protocol, &mut numbers)
    } else {
        let is_late = offset >= SPAN / 2;
        let has_fault = numbers.below(1000) < model.faults[usize::from(is_late)];
        let response = SampleResponse::new(id, model, has_fault, &mut numbers);
        response.written(protocol, numbers.below(2) == 0)
    };
    match fate {
        // The connection broke off.
        15..30 => data.truncate(data.len() * 2 / 3),
        30..33 => data = b"<html><body><h1>502 Bad Gateway</h1></body></html>".to_vec(),
        33..35 => data.clear(),
        _ => {}
    }
    SampleRow { id, time: START + offset as i64, data }
}

fn error(protocol: &Protocol, numbers: &mut Numbers) -> Vec<u8> {
    let (class, text) = *numbers.pick(&[
        (ErrorClass::RateLimit, "Too many requests, please slow down"),
        (ErrorClass::Overloaded, "The model is overloaded"),
        (ErrorClass::ContextTooLong, "The input is too long for this model"),
        (ErrorClass::Server, "Internal error"),
    ]);
    let error = UpstreamError::new(class, text);
    let chat = Protocol::named("openai-chat").expect("the table has it");
    let written = protocol.write_error(&error).or_else(|| chat.write_error(&error));
    written.map(|written| written.body).unwrap_or_default()
}

/// What a model answers.
struct SampleResponse {
    id: String,
    model: &'static str,
    reasoning: Option<&'static str>,
    text: String,
    call: Option<(String, String)>,
    usage: TokenCounts,
}

impl SampleResponse {
    fn new(id: u64, model: &'static SampleModel, has_fault: bool, numbers: &mut Numbers) -> Self {
        let city = *numbers.pick(&CITIES);
        let reasoning = (numbers.below(4) == 0).then_some("The user wants to know the weather.");
        let mut text = (*numbers.pick(&WORDS)).to_owned();
        let input_tokens = 200 + numbers.below(4000);
        let output_tokens = 20 + numbers.below(300);
        let mut usage = TokenCounts::default();
        usage.input_tokens = Some(input_tokens);
        usage.output_tokens = Some(output_tokens);
        usage.total_tokens = Some(input_tokens + output_tokens);
        let has_call = numbers.below(10) < 7;
        let mut call = None;
        match model.dialect.filter(|_| has_call) {
            Some(dialect) => {
                let registry = DialectRegistry::builtin();
                let dialect = registry.find(dialect).expect("the table has the dialects of the samples");
                let written = dialect.example.replace("Oslo", city);
                text = if has_fault { written.replace('"', "'") } else { written };
            }
            None if has_call => {
                let arguments = match (has_fault, numbers.below(2)) {
                    (false, _) => format!("{{\"city\": \"{city}\"}}"),
                    (true, 0) => format!("{{\"city\": \"{city}\",}}"),
                    (true, _) => format!("{{'city': '{city}'}}"),
                };
                call = Some((format!("call_{id:08x}"), arguments));
            }
            None => text.push_str(&format!(" It is {} degrees in {city}.", numbers.below(35))),
        }
        Self { id: format!("resp_{id:08x}"), model: model.name, reasoning, text, call, usage }
    }

    fn written(&self, protocol: &Protocol, is_streamed: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let options = EncodeOptions::normalized();
        match protocol.encoder(&options) {
            Some(mut encoder) if is_streamed => {
                self.events(&mut |event: Event<'_>| encoder.encode(&event, &mut out));
            }
            Some(_) => {
                let mut message = Accumulator::new();
                self.events(&mut message);
                protocol.encode_body(&message.take(), &options, &mut out);
            }
            None if protocol.name == "gemini-interactions" => out.extend(self.interaction().into_bytes()),
            None => out.extend(self.codex_turn().into_bytes()),
        }
        out
    }

    fn events(&self, sink: &mut dyn for<'e> Sink<Event<'e>>) {
        let mut put = |body: EventKind<'_>| sink.put(Event::new(0, body));
        let (id, model) = (Some(Cow::Borrowed(&*self.id)), Some(Cow::Borrowed(self.model)));
        put(EventKind::Start { id, model, wire_type: "".into(), extra: None });
        put(EventKind::ChoiceStart);
        let text = (BlockKind::Text, DeltaKind::Text, &*self.text);
        let reasoning =
            self.reasoning.map(|text| (BlockKind::Reasoning(ReasoningForm::Raw), DeltaKind::Reasoning, text));
        let call = self.call.as_ref().map(|(id, arguments)| {
            let id = Some(Cow::Borrowed(&**id));
            let kind = BlockKind::ToolCall {
                id,
                is_made: false,
                name: "get_weather".into(),
                call: CallKind::Function,
            };
            (kind, DeltaKind::Arguments, &**arguments)
        });
        let blocks = reasoning.into_iter().chain([text]).chain(call);
        for (number, (kind, delta, text)) in (0..).zip(blocks) {
            let block = BlockId(number);
            put(EventKind::block_start(block, kind));
            for piece in pieces(text) {
                put(EventKind::Delta { block, kind: delta, text: piece.into() });
            }
            put(EventKind::BlockEnd { block, completion: BlockCompletion::Complete });
        }
        let reason = if self.call.is_some() { FinishReason::ToolCalls } else { FinishReason::Stop };
        put(EventKind::Usage {
            wire_type: "".into(),
            counters: self.usage,
            raw: JsonText::from_value(&json!({})),
        });
        put(EventKind::Finish { reason, raw: None });
        put(EventKind::End);
    }

    /// The response as a body of Gemini's Interactions.
    fn interaction(&self) -> String {
        let mut steps = Vec::new();
        steps.push(json!({"type": "model_output", "content": [{"type": "text", "text": self.text}]}));
        if let Some((id, _)) = &self.call {
            let arguments = json!({"city": "Oslo"});
            steps.push(
                json!({"type": "function_call", "id": id, "name": "get_weather", "arguments": arguments}),
            );
        }
        let usage = json!({
            "total_tokens": self.usage.total_tokens,
            "total_input_tokens": self.usage.input_tokens,
            "total_output_tokens": self.usage.output_tokens,
        });
        let status = if self.call.is_some() { "requires_action" } else { "completed" };
        let body = json!({
            "id": self.id, "object": "interaction", "model": self.model, "status": status, "usage": usage, "steps": steps,
        });
        body.to_string()
    }

    /// The response as a turn of Codex's app server.
    fn codex_turn(&self) -> String {
        let at = |turn: serde_json::Value| json!({"threadId": "thread", "turn": turn});
        let turn = |status: &str| json!({"id": self.id, "items": [], "status": status, "error": null});
        let item = |text: &str| json!({"type": "agentMessage", "id": "message", "text": text});
        let of_turn = |key: &str, value: serde_json::Value| json!({key: value, "threadId": "thread", "turnId": self.id});
        let mut delta = of_turn("delta", self.text.clone().into());
        delta["itemId"] = "message".into();
        let messages = [
            ("turn/started", at(turn("inProgress"))),
            ("item/started", of_turn("item", item(""))),
            ("item/agentMessage/delta", delta),
            ("item/completed", of_turn("item", item(&self.text))),
            ("turn/completed", at(turn("completed"))),
        ];
        messages
            .map(|(method, params)| json!({"method": method, "params": params}).to_string() + "\n")
            .concat()
    }
}

/// The pieces in which a text comes.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let cut = rest.char_indices().nth(24).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(cut);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::row::RowReader;

    #[test]
    fn rows_are_the_same_again_and_of_all_protocols() {
        let reader = RowReader::new(callweave::Decoder::builder().dialect("auto").repair());
        let mut found = BTreeSet::new();
        let mut outcomes = BTreeSet::new();
        for id in 0..2000 {
            let sample = row(id);
            assert_eq!(sample, row(id));
            let read = reader.decode(&sample.data);
            found.extend(read.protocol.map(|protocol| protocol.name));
            outcomes.extend(read.calls().map(|call| call.outcome));
        }
        let all: BTreeSet<_> = callweave::protocol::TABLE.iter().map(|protocol| protocol.name).collect();
        assert_eq!(found, all);
        for outcome in ["native", "from_text", "repaired", "truncated"] {
            assert!(outcomes.contains(outcome), "{outcomes:?}");
        }
    }
}
