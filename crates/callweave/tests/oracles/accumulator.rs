//! Weave and accumulator: for any fragments, the events are well formed, and the message holds exactly the text that
//! they emitted.
//!
//! The input is a program of four bytes a step: what, where, and two words of small vocabularies.

use std::collections::HashMap;
use std::sync::LazyLock;

use callweave::accumulator::Accumulator;
use callweave::event::{
    AttachmentKind, BlockId, CallKind, Event, EventKind, FinishReason, NoticeCode, ReasoningForm, Sink,
    TokenCounts,
};
use callweave::fragment::{
    BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, TextChannel, UsageReport,
};
use callweave::grammar::EventValidator;
use callweave::json::{Opaque, Str};
use callweave::message::BlockContent;
use callweave::upstream::{ErrorClass, UpstreamError};
use callweave::weave::Weave;

const TEXTS: [Str<'static>; 16] = [
    Str::Plain(""),
    Str::Plain("{"),
    Str::Plain("}"),
    Str::Plain("{}"),
    Str::Plain("\"a\":"),
    Str::Plain("1"),
    Str::Plain(","),
    Str::Plain("{\"a\":1}"),
    Str::Plain(" "),
    Str::Plain("text"),
    Str::Plain("{\"long\":\"0123456789012345678901234567890\""),
    Str::Plain("{\"long\":\"0123456789012345678901234567890\",\"b\":2}"),
    Str::Escaped(r"\ud83d"),
    Str::Escaped(r"\ude00"),
    Str::Escaped(r#"\"\n\u00e9"#),
    Str::Plain("null"),
];
const JSONS: [&str; 8] =
    ["null", "{}", "{\"a\": [1, 2]}", "[]", "\"a\"", "1", "true", "[{\"a\":\"\\ud800\"}]"];
const NAMES: [Option<Str<'static>>; 8] = [
    None,
    Some(Str::Plain("")),
    Some(Str::Plain("a")),
    Some(Str::Plain("b")),
    Some(Str::Plain("ab")),
    Some(Str::Plain("tool_0_0")),
    Some(Str::Escaped(r"\u0061")),
    Some(Str::Plain("c")),
];
static ERRORS: LazyLock<[UpstreamError<'static>; 2]> =
    LazyLock::new(|| ["", "busy"].map(|message| UpstreamError::new(ErrorClass::Overloaded, message)));
const WORDS: [&str; 3] = ["", "word", "other"];
const PATHS: [&str; 4] = ["$.a", "$.a.b", "$.c[1]", "$["];
const FINISHES: [FinishReason; 6] = [
    FinishReason::Stop,
    FinishReason::Length,
    FinishReason::ToolCalls,
    FinishReason::ContentFilter,
    FinishReason::Error,
    FinishReason::Other,
];

fn pick<T: Copy>(list: &[T], at: u8) -> T {
    list[usize::from(at) % list.len()]
}

fn channel(at: u8) -> TextChannel {
    match at % 5 {
        0 | 1 => TextChannel::Text,
        2 => TextChannel::Refusal,
        3 => TextChannel::REASONING,
        _ => TextChannel::Reasoning(ReasoningForm::Summary),
    }
}

fn place(at: u8) -> Option<BlockKey> {
    match at % 16 {
        0..6 => None,
        6 => Some(BlockKey::LAST),
        7 => Some(BlockKey::named("a")),
        index @ 8..12 => Some(BlockKey::at(i64::from(index) - 9)),
        index @ 12..14 => Some(BlockKey::at(i64::from(index) - 12).in_space(1)),
        index => Some(BlockKey::at(0).part(index % 2, u64::from(index) - 13)),
    }
}

fn arguments(first: u8, second: u8) -> Option<FragmentArguments<'static>> {
    match first % 9 {
        0 => None,
        1..5 => Some(FragmentArguments::Text(pick(&TEXTS, second).into())),
        5 => Some(FragmentArguments::Complete(pick(&TEXTS, second).into())),
        6 => Some(FragmentArguments::Value(pick(&JSONS, second).into())),
        7 => Some(FragmentArguments::Leaf {
            path: pick(&PATHS, second).into(),
            value: pick(&JSONS, second / 4).into(),
            continues: second > 127,
        }),
        _ => Some(FragmentArguments::Opening {
            fallback: Some(pick(&TEXTS, second).into()).filter(|_| second > 127),
            expects_text: second % 2 == 1,
        }),
    }
}

/// The fragment that a step of the program says; none is the end of a frame.
fn fragment(step: [u8; 4]) -> Option<Fragment<'static>> {
    let [what, at, first, second] = step;
    let kinds = [CallKind::Function, CallKind::Custom, CallKind::Builtin];
    let attachments = [
        AttachmentKind::Signature,
        AttachmentKind::Encrypted,
        AttachmentKind::Annotation,
        AttachmentKind::Logprobs,
    ];
    let levels =
        [ExtraScope::Response, ExtraScope::Choice, ExtraScope::Item, ExtraScope::Block, ExtraScope::Next];
    let name = |at| pick(&NAMES, at).map(Opaque::from);
    let word = pick(&WORDS, second);
    let part = match what % 32 {
        0..6 => return None,
        6..9 => {
            FragmentKind::Text { channel: channel(first), wire_type: word, text: pick(&TEXTS, second).into() }
        }
        9 => {
            let (channel, is_recap) = (channel(first), first % 2 == 0);
            FragmentKind::Restate { channel, wire_type: word, text: pick(&TEXTS, second).into(), is_recap }
        }
        10 => FragmentKind::Open { channel: channel(first), wire_type: word },
        11 | 12 => FragmentKind::End,
        13 => FragmentKind::Start { id: name(first), model: name(second), wire_type: word },
        14 | 15 => FragmentKind::Attach {
            level: pick(&levels, first),
            on: word,
            kind: pick(&attachments, second),
            wire_type: word,
            value: pick(&JSONS, first / 5).into(),
        },
        16 => match second % 4 {
            0 => FragmentKind::Item { id: name(first), wire_type: word },
            1 => FragmentKind::ItemEnd,
            2 => FragmentKind::Truncated,
            _ => FragmentKind::Opaque { wire_type: word, value: pick(&JSONS, first).into() },
        },
        17 => FragmentKind::ResultOf { call: pick(&TEXTS, first).into() },
        18 => FragmentKind::ToolResult {
            call: name(first),
            wire_type: word,
            value: pick(&JSONS, second).into(),
        },
        19 => FragmentKind::Usage {
            wire_type: word,
            usage: UsageReport::new(TokenCounts::default(), pick(&JSONS, first)),
        },
        20 => FragmentKind::Finish { reason: pick(&FINISHES, first), raw: name(second) },
        21 => FragmentKind::Done,
        22 if first < 32 => FragmentKind::Error(pick(&[&ERRORS[0], &ERRORS[1]], first)),
        22 | 23 => FragmentKind::Extra {
            level: pick(&levels, first),
            path: "a.",
            key: "b",
            value: pick(&JSONS, second).into(),
        },
        24 => FragmentKind::Notice { code: NoticeCode::Other, detail: "an oddity", text: None },
        _ => FragmentKind::Call {
            id: name(first / 9),
            name: name(second / 16),
            kind: pick(&kinds, what / 32),
            wire_type: word,
            arguments: arguments(first, second),
        },
    };
    Some(Fragment { choice: u32::from(at / 16 % 3), key: place(at), part })
}

/// Checks one input.
pub(crate) fn check(input: &[u8]) {
    let (mut weave, mut accumulator, mut validator) =
        (Weave::new(), Accumulator::new(), EventValidator::new());
    let mut texts: HashMap<BlockId, String> = HashMap::new();
    let mut sink = |event: Event<'_>| {
        match &event.body {
            EventKind::Delta { block, text, .. } => texts.entry(*block).or_default().push_str(text),
            EventKind::Correction { block, text } => *texts.entry(*block).or_default() = text.to_string(),
            _ => {}
        }
        validator.put(event.clone());
        accumulator.put(event);
    };
    let (steps, _) = input.as_chunks::<4>();
    let fragments: Vec<_> = steps.iter().take(2000).map(|step| fragment(*step)).collect();
    for (offset, frame) in (0..).zip(fragments.split(Option::is_none)) {
        weave.push(offset, |put| frame.iter().flatten().for_each(|fragment| put.put(*fragment)), &mut sink);
    }
    weave.finish(&mut sink);
    let faults = validator.finish();
    assert!(faults.is_empty(), "{faults:#?}\n{fragments:#?}");
    let message = accumulator.take();
    for block in message.choices.iter().flat_map(|choice| &choice.blocks) {
        let held = match &block.content {
            BlockContent::Text(text) | BlockContent::Reasoning { text, .. } | BlockContent::Refusal(text) => {
                text
            }
            BlockContent::ToolCall(call) => &call.raw_arguments,
            _ => continue,
        };
        assert_eq!(Some(held).filter(|text| !text.is_empty()), texts.get(&block.id), "block {}", block.id.0);
    }
    serde_json::to_string(&message).expect("messages serialise");
}
