//! Writing a long text in small deltas allocates only the buffers that hold it.

use allocation_counter::measure;
use callweave::encode::EncodeOptions;
use callweave::event::{
    BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, JsonText, ReasoningForm, TokenCounts,
};
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};

/// A stream of one long text, as a protocol writes it: before, one delta, how many of them.
const STREAMS: &[(&str, &str, &str)] = &[
    (
        "openai-responses",
        concat!(
            "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\"}}\n\n",
            "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\"}}\n\n",
        ),
        "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"line \\\"one\\\"\"}\n\n",
    ),
    (
        "anthropic-messages",
        concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        ),
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"line \\\"one\\\"\"}}\n\n",
    ),
    (
        "bedrock-converse",
        "{\"messageStart\":{\"role\":\"assistant\"}}\n",
        "{\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"text\":\"line \\\"one\\\"\"}}}\n",
    ),
    (
        "gemini-generatecontent",
        "",
        "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"line \\\"one\\\"\"}]}}],\"modelVersion\":\"m\",\"responseId\":\"r\"}\n\n",
    ),
    (
        "ollama",
        "",
        "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"line \\\"one\\\"\"},\"done\":false}\n",
    ),
    (
        "cohere-v2",
        concat!(
            "data: {\"type\":\"message-start\",\"id\":\"c\",\"delta\":{\"message\":{\"role\":\"assistant\"}}}\n\n",
            "data: {\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"text\",\"text\":\"\"}}}}\n\n",
        ),
        "data: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"line \\\"one\\\"\"}}}}\n\n",
    ),
    (
        "openai-chat",
        "",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"line \\\"one\\\"\"}}]}\n\n",
    ),
];

#[test]
fn a_long_text_allocates_only_what_holds_it() {
    for &(name, before, delta) in STREAMS {
        for options in [EncodeOptions::lossless(), EncodeOptions::normalized()] {
            for written in TABLE.iter().copied().filter(|protocol| protocol.is_written()) {
                if options == EncodeOptions::lossless() && written.name != name {
                    continue;
                }
                let mut encoder = written.encoder(&options).expect("a protocol that is written");
                let mut decoder = Decoder::detect();
                let mut out = Vec::with_capacity(4 << 20);
                let mut push = |input: &str| {
                    decoder
                        .push(input.as_bytes(), &mut |event: Event<'_>| encoder.encode(&event, &mut out))
                        .expect("no limit");
                };
                push(before);
                (0..100).for_each(|_| push(delta));
                let counted = measure(|| (0..4000).for_each(|_| push(delta)));
                assert!(out.len() > 4000 * 10, "{name} → {}: only {} bytes", written.name, out.len());
                // Doubling what holds the text.
                assert!(counted.count_total <= 16, "{name} → {}: {}", written.name, counted.count_total);
            }
        }
    }
}

/// A block, and what its deltas are.
fn blocks() -> [(BlockKind<'static>, DeltaKind); 5] {
    let call = |call| BlockKind::ToolCall { id: Some("c".into()), is_made: false, name: "f".into(), call };
    [
        (BlockKind::Text, DeltaKind::Text),
        (BlockKind::Reasoning(ReasoningForm::Raw), DeltaKind::Reasoning),
        (BlockKind::Refusal, DeltaKind::Refusal),
        (call(CallKind::Function), DeltaKind::Arguments),
        (call(CallKind::Custom), DeltaKind::Arguments),
    ]
}

/// The additional content of every delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Counts,
    /// Another block that grows.
    Block,
}

/// Writes a block that grows; a complaint, if that allocates.
fn encode_growing(
    written: &Protocol,
    options: &EncodeOptions,
    kind: usize,
    beside: Beside,
) -> Option<String> {
    let (block, kind) = blocks()[kind].clone();
    let title = format!("{} {:?}, {block:?}, {beside:?}", written.name, options.mode);
    let mut encoder = written.encoder(options).expect("a protocol that is written");
    let mut out = Vec::with_capacity(4 << 20);
    let mut put = |event: &Event<'_>| encoder.encode(event, &mut out);
    let event = |body| Event::new(0, body);
    let (model, word) = (Some("anthropic.m".into()), "of another protocol".into());
    put(&event(EventKind::Start { id: Some("a".into()), model, wire_type: word, extra: None }));
    put(&event(EventKind::ChoiceStart));
    put(&event(EventKind::block_start(BlockId(0), block.clone())));
    if beside == Beside::Block {
        put(&event(EventKind::block_start(BlockId(1), block)));
    }
    let raw = JsonText::from_value(&serde_json::json!({"eval_count": 7}));
    let mut counts =
        event(EventKind::Usage { wire_type: "usage".into(), counters: TokenCounts::default(), raw });
    let mut grow = |count| {
        let delta = |block, text: &'static str| event(EventKind::Delta { block, kind, text: text.into() });
        match (beside, &mut counts.body) {
            (Beside::Counts, EventKind::Usage { counters, .. }) => {
                (counters.output_tokens, counters.reasoning_tokens) = (Some(count), Some(1));
                put(&counts);
            }
            (Beside::Block, _) => put(&delta(BlockId(1), "beside")),
            _ => {}
        }
        put(&delta(BlockId(0), "line \"one\""));
    };
    (0..100).for_each(&mut grow);
    let counted = measure(|| (100..4100).for_each(&mut grow));
    // Doubling what holds the text.
    (counted.count_total > 16).then(|| format!("{title}: {}", counted.count_total))
}

#[test]
fn what_comes_with_every_delta_allocates_nothing_either() {
    let mut complaints = Vec::new();
    for written in TABLE.iter().copied().filter(|protocol| protocol.is_written()) {
        for options in [EncodeOptions::lossless(), EncodeOptions::normalized()] {
            for kind in 0..blocks().len() {
                for beside in [Beside::Nothing, Beside::Counts, Beside::Block] {
                    complaints.extend(encode_growing(written, &options, kind, beside));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}
