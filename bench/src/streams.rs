//! Seeded streams: half text, half arguments of four calls, in fragments of about four bytes; and the reads in which
//! a program gets them.

use std::fmt::Write as _;
use std::ops::Range;

/// Bytes, and where the reads end that bring them.
pub(crate) struct Reads {
    body: Vec<u8>,
    ends: Vec<usize>,
}

impl Reads {
    /// One event in each read, as a network brings them while a model writes.
    pub(crate) fn by_event(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let mut ends: Vec<usize> = memchr::memmem::find_iter(&body, "\n\n").map(|at| at + 2).collect();
        if ends.last() != Some(&body.len()) {
            ends.push(body.len());
        }
        Self { body, ends }
    }

    /// Reads of that many bytes, as of a file or a fast upstream.
    pub(crate) fn of(size: usize, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let ends = (1..body.len().div_ceil(size)).map(|number| number * size).chain([body.len()]).collect();
        Self { body, ends }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let Range { start, end } = std::mem::replace(&mut start, end)..end;
            &self.body[start..end]
        })
    }
}

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }

    /// A fragment as it stands inside a JSON string: mostly letters, sometimes an escape or more than ASCII.
    fn fragment(&mut self) -> &'static str {
        const FRAGMENTS: [&str; 16] = [
            "the ", "and ", "word", " of", "tion", "ing ", "\\n", "let ", "fn (", "x = ", "1234", "é ", "; ",
            "a\\\"b", "    ", "call",
        ];
        FRAGMENTS[self.next() % FRAGMENTS.len()]
    }

    /// The same inside a JSON string inside a JSON string.
    fn argument(&mut self) -> String {
        self.fragment().replace('\\', "\\\\").replace('"', "\\\"")
    }

    /// Returns the padding with which providers hide the length of a frame.
    fn padding(&mut self) -> &'static str {
        const PADDING: &str = "aB3dE7gH1jK5mN9p";
        &PADDING[..self.next() % PADDING.len() + 1]
    }
}

/// Other members that change from chunk to chunk of a chat stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chat {
    /// Nothing.
    Plain,
    /// The member `obfuscation`, in its length.
    Padded,
    /// The member `created`, with every fiftieth chunk.
    Timed,
    /// The text is reasoning, sent twice, as OpenRouter does.
    Thinking,
}

/// An OpenAI chat stream of `chunks` SSE events of about 320 bytes.
pub(crate) fn chat(chunks: usize, kind: Chat) -> String {
    let mut random = Random(7);
    let mut out = String::with_capacity(chunks * 340);
    let mut number = 0;
    let mut chunk = |delta: &str, padding: &str| {
        let second = 1_730_000_000 + if kind == Chat::Timed { number / 50 } else { 0 };
        number += 1;
        let _ = write!(
            out,
            "data: {{\"id\":\"chatcmpl-BQ2x8Yd0vJ3mK5n7\",\"object\":\"chat.completion.chunk\",\"created\":{second},\"model\":\"gpt-4.1-2025-04-14\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_a1b2c3d4e5\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}],\"usage\":null,\"obfuscation\":\"{padding}\"}}\n\n"
        );
    };
    let padding = |random: &mut Random| if kind == Chat::Padded { random.padding() } else { "aB3dE" };
    let text = chunks / 2;
    for _ in 0..text {
        let fragment = random.fragment();
        let delta = match kind {
            Chat::Plain | Chat::Padded | Chat::Timed => format!("{{\"content\":\"{fragment}\"}}"),
            Chat::Thinking => format!(
                "{{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"{fragment}\",\"reasoning_details\":[{{\"type\":\"reasoning.text\",\"text\":\"{fragment}\",\"format\":\"unknown\",\"index\":0}}]}}"
            ),
        };
        chunk(&delta, padding(&mut random));
    }
    for call in 0..4 {
        chunk(
            &format!(
                "{{\"tool_calls\":[{{\"index\":{call},\"id\":\"call_{call}\",\"type\":\"function\",\"function\":{{\"name\":\"write_file\",\"arguments\":\"\"}}}}]}}"
            ),
            padding(&mut random),
        );
        let piece = |text: &str| {
            format!("{{\"tool_calls\":[{{\"index\":{call},\"function\":{{\"arguments\":\"{text}\"}}}}]}}")
        };
        chunk(&piece("{\\\"text\\\":\\\""), padding(&mut random));
        for _ in 0..(chunks - text) / 4 {
            chunk(&piece(&random.argument()), padding(&mut random));
        }
        chunk(&piece("\\\"}"), padding(&mut random));
    }
    out.push_str("data: [DONE]\n\n");
    out
}

/// An Anthropic stream of `events` SSE events.
pub(crate) fn anthropic(events: usize) -> String {
    let mut random = Random(7);
    let mut out = String::with_capacity(events * 140);
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
            event("content_block_delta", &piece(&random.argument()));
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

/// An OpenAI Responses stream of `events` SSE events: numbered, padded, and restated at its end.
pub(crate) fn responses(events: usize) -> String {
    let mut random = Random(7);
    let mut out = String::with_capacity(events * 260);
    let mut number = 0;
    let mut event = |name: &str, data: &str| {
        let _ = write!(
            out,
            "event: response.{name}\ndata: {{\"type\":\"response.{name}\",\"sequence_number\":{number},{data}}}\n\n"
        );
        number += 1;
    };
    let response = "\"id\":\"resp_68a1\",\"object\":\"response\",\"created_at\":1730000000,\"model\":\"gpt-4.1-2025-04-14\"";
    event("created", &format!("\"response\":{{{response},\"status\":\"in_progress\",\"output\":[]}}"));
    event(
        "output_item.added",
        "\"output_index\":0,\"item\":{\"id\":\"msg_68a1\",\"type\":\"message\",\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}",
    );
    event(
        "content_part.added",
        "\"item_id\":\"msg_68a1\",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"\"}",
    );
    let mut text = String::new();
    for _ in 0..events / 2 {
        let fragment = random.fragment();
        text.push_str(fragment);
        event(
            "output_text.delta",
            &format!(
                "\"item_id\":\"msg_68a1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{fragment}\",\"logprobs\":[],\"obfuscation\":\"{}\"",
                random.padding()
            ),
        );
    }
    event(
        "output_text.done",
        &format!(
            "\"item_id\":\"msg_68a1\",\"output_index\":0,\"content_index\":0,\"text\":\"{text}\",\"logprobs\":[]"
        ),
    );
    let part = format!("{{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"{text}\"}}");
    event(
        "content_part.done",
        &format!("\"item_id\":\"msg_68a1\",\"output_index\":0,\"content_index\":0,\"part\":{part}"),
    );
    event(
        "output_item.done",
        &format!(
            "\"output_index\":0,\"item\":{{\"id\":\"msg_68a1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{part}]}}"
        ),
    );
    for call in 1..5 {
        let item = |status: &str, arguments: &str| {
            format!(
                "\"output_index\":{call},\"item\":{{\"id\":\"fc_{call}\",\"type\":\"function_call\",\"status\":\"{status}\",\"arguments\":\"{arguments}\",\"call_id\":\"call_{call}\",\"name\":\"write_file\"}}"
            )
        };
        event("output_item.added", &item("in_progress", ""));
        let mut arguments = String::new();
        for count in 0..(events - events / 2) / 4 + 2 {
            let fragment = match count {
                0 => "{\\\"text\\\":\\\"".to_owned(),
                count if count > (events - events / 2) / 4 => "\\\"}".to_owned(),
                _ => random.argument(),
            };
            arguments.push_str(&fragment);
            event(
                "function_call_arguments.delta",
                &format!(
                    "\"item_id\":\"fc_{call}\",\"output_index\":{call},\"delta\":\"{fragment}\",\"obfuscation\":\"{}\"",
                    random.padding()
                ),
            );
        }
        event(
            "function_call_arguments.done",
            &format!("\"item_id\":\"fc_{call}\",\"output_index\":{call},\"arguments\":\"{arguments}\""),
        );
        event("output_item.done", &item("completed", &arguments));
    }
    event(
        "completed",
        &format!(
            "\"response\":{{{response},\"status\":\"completed\",\"usage\":{{\"input_tokens\":9,\"output_tokens\":99,\"total_tokens\":108}}}}"
        ),
    );
    out
}

/// A Gemini stream of `chunks` SSE events, each with its usage, as that API sends them.
pub(crate) fn gemini(chunks: usize) -> String {
    let mut random = Random(7);
    let mut out = String::with_capacity(chunks * 360);
    for number in 0..chunks {
        let part = if number % 4 == 3 {
            format!(
                "{{\"functionCall\":{{\"name\":\"write_file\",\"args\":{{\"text\":\"{}\",\"lines\":[{number},7]}}}}}}",
                random.fragment()
            )
        } else {
            format!("{{\"text\":\"{}{}{}\"}}", random.fragment(), random.fragment(), random.fragment())
        };
        let finish = if number + 1 == chunks { "\"finishReason\":\"STOP\"," } else { "" };
        let _ = write!(
            out,
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}],\"role\":\"model\"}},{finish}\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":20,\"candidatesTokenCount\":{number},\"totalTokenCount\":{},\"promptTokensDetails\":[{{\"modality\":\"TEXT\",\"tokenCount\":20}}]}},\"modelVersion\":\"gemini-2.5-flash\",\"responseId\":\"resp-1\"}}\r\n\r\n",
            number + 20
        );
    }
    out
}

/// A complete chat response with one paragraph and `calls` calls.
pub(crate) fn whole_chat(calls: usize) -> String {
    let mut random = Random(7);
    let text: String = (0..100).map(|_| random.fragment()).collect();
    let calls: Vec<String> = (0..calls)
        .map(|call| {
            let arguments: String = (0..40).map(|_| random.argument()).collect();
            format!(
                "{{\"id\":\"call_{call}\",\"type\":\"function\",\"function\":{{\"name\":\"write_file\",\"arguments\":\"{{\\\"text\\\":\\\"{arguments}\\\"}}\"}}}}"
            )
        })
        .collect();
    format!(
        "{{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1730000000,\"model\":\"gpt-4.1-2025-04-14\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\",\"tool_calls\":[{}],\"refusal\":null,\"annotations\":[]}},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}}],\"usage\":{{\"prompt_tokens\":20,\"completion_tokens\":99,\"total_tokens\":119}},\"service_tier\":\"default\",\"system_fingerprint\":\"fp_a1b2c3d4e5\"}}",
        calls.join(",")
    )
}
