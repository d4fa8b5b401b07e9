//! Writing a long text in small deltas allocates only the buffers that hold it.

use allocation_counter::measure;
use callweave::encode::EncodeOptions;
use callweave::event::Event;
use callweave::pipeline::Decoder;
use callweave::protocol::TABLE;

/// A stream of one long text, as a protocol tells it: before, one delta, how many of them.
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
        for options in [EncodeOptions::faithful(), EncodeOptions::mended()] {
            for written in TABLE.iter().copied().filter(|protocol| protocol.is_written()) {
                if options == EncodeOptions::faithful() && written.name != name {
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
