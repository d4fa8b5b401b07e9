//! Seeded streams: half text, half arguments of four calls, in fragments of about four bytes.

use std::fmt::Write as _;

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A fragment as it stands inside a JSON string: mostly letters, sometimes an escape or more than ASCII.
    fn fragment(&mut self) -> &'static str {
        const FRAGMENTS: [&str; 16] = [
            "the ", "and ", "word", " of", "tion", "ing ", "\\n", "let ", "fn (", "x = ", "1234", "é ", "; ",
            "a\\\"b", "    ", "call",
        ];
        FRAGMENTS[self.next() as usize % FRAGMENTS.len()]
    }
}

/// An OpenAI chat stream of `chunks` SSE events.
pub fn chat(chunks: usize) -> String {
    let mut random = Random(7);
    let mut out = String::new();
    let mut chunk = |delta: &str| {
        let _ = write!(
            out,
            "data: {{\"id\":\"chatcmpl-BQ2x8Yd0vJ3mK5n7\",\"object\":\"chat.completion.chunk\",\"created\":1730000000,\"model\":\"gpt-4.1-2025-04-14\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_a1b2c3d4e5\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}],\"usage\":null,\"obfuscation\":\"aB3dE\"}}\n\n"
        );
    };
    let text = chunks / 2;
    for _ in 0..text {
        chunk(&format!("{{\"content\":\"{}\"}}", random.fragment()));
    }
    for call in 0..4 {
        chunk(&format!(
            "{{\"tool_calls\":[{{\"index\":{call},\"id\":\"call_{call}\",\"type\":\"function\",\"function\":{{\"name\":\"write_file\",\"arguments\":\"\"}}}}]}}"
        ));
        let piece = |text: &str| {
            format!("{{\"tool_calls\":[{{\"index\":{call},\"function\":{{\"arguments\":\"{text}\"}}}}]}}")
        };
        chunk(&piece("{\\\"text\\\":\\\""));
        for _ in 0..(chunks - text) / 4 {
            let fragment = random.fragment().replace('\\', "\\\\").replace('"', "\\\"");
            chunk(&piece(&fragment));
        }
        chunk(&piece("\\\"}"));
    }
    out.push_str("data: [DONE]\n\n");
    out
}

/// An Anthropic stream of `events` SSE events.
pub fn anthropic(events: usize) -> String {
    let mut random = Random(7);
    let mut out = String::new();
    let mut event = |name: &str, data: &str| {
        let _ = write!(out, "event: {name}\ndata: {{\"type\":\"{name}\",{data}}}\n\n");
    };
    event(
        "message_start",
        "\"message\":{\"id\":\"msg_01\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}",
    );
    event("content_block_start", "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    let text = events / 2;
    for _ in 0..text {
        event(
            "content_block_delta",
            &format!("\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{}\"}}", random.fragment()),
        );
    }
    event("content_block_stop", "\"index\":0");
    for call in 1..5 {
        event(
            "content_block_start",
            &format!(
                "\"index\":{call},\"content_block\":{{\"type\":\"tool_use\",\"id\":\"toolu_{call}\",\"name\":\"write_file\",\"input\":{{}}}}"
            ),
        );
        let piece = |text: &str| {
            format!(
                "\"index\":{call},\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{text}\"}}"
            )
        };
        event("content_block_delta", &piece("{\\\"text\\\":\\\""));
        for _ in 0..(events - text) / 4 {
            let fragment = random.fragment().replace('\\', "\\\\").replace('"', "\\\"");
            event("content_block_delta", &piece(&fragment));
        }
        event("content_block_delta", &piece("\\\"}"));
        event("content_block_stop", &format!("\"index\":{call}"));
    }
    event(
        "message_delta",
        "\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":99}",
    );
    event("message_stop", "\"index\":0");
    out
}
