//! Each condition of the encoder core (`encode/core.rs`) alone: what is kept, what waits, what is left out.

use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::{Event, Sink};
use callweave::pipeline::{Decoder, decode_as};
use callweave::protocol::{
    ANTHROPIC_MESSAGES, BEDROCK_CONVERSE, COHERE_V2, GEMINI_GENERATE_CONTENT, OLLAMA, OPENAI_CHAT, Protocol,
};

const TEXT: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"note\":\"theirs\"}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" you\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" there\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7,\"total_tokens\":10}}\n\n",
    "data: [DONE]\n\n",
);
const FAILED: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n",
    "data: {\"error\":{\"message\":\"first\",\"type\":\"server_error\",\"code\":null}}\n\n",
    "data: {\"error\":{\"message\":\"second\",\"type\":\"server_error\",\"code\":null}}\n\n",
);
const CALLS: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"odd\":1,",
    "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"a\",",
    "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,",
    "\"function\":{\"arguments\":\"1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: [DONE]\n\n",
);
const TRUNCATED: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hal\"}}]}\n\n";
const ANTHROPIC: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"type\":\"message\",",
    "\"role\":\"assistant\",\"model\":\"c\",\"content\":[],\"note\":\"own\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":5,",
    "\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{},\"odd\":1}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":5,",
    "\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":\"}}\n\n",
);
const STOP: &str = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":5}\n\n";
const END: &str = concat!(
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\",",
    "\"stop_sequence\":null},\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const ANTHROPIC_ERROR: &str =
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\n";

fn events(inputs: &[&str]) -> Vec<Event<'static>> {
    let mut events = Vec::new();
    for input in inputs {
        let mut decoder = Decoder::detect();
        let mut take = |event: Event<'_>| events.push(event.into_owned());
        decoder.push(input.as_bytes(), &mut take).expect("a stream");
        decoder.finish(&mut take).expect("its end");
    }
    events
}

fn stream(inputs: &[&str], protocol: &Protocol, options: &EncodeOptions) -> Vec<u8> {
    let (mut encoder, mut out) = (protocol.encoder(options).expect("a written protocol"), Vec::new());
    events(inputs).iter().for_each(|event| encoder.encode(event, &mut out));
    out
}

fn text(inputs: &[&str], protocol: &Protocol, options: &EncodeOptions) -> String {
    String::from_utf8(stream(inputs, protocol, options)).expect("text")
}

fn body(input: &str, protocol: &Protocol, options: &EncodeOptions) -> String {
    let (mut accumulator, mut out) = (Accumulator::new(), Vec::new());
    events(&[input]).into_iter().for_each(|event| accumulator.put(event));
    protocol.encode_body(accumulator.message(), options, &mut out);
    String::from_utf8(out).expect("text")
}

fn normalized() -> EncodeOptions {
    EncodeOptions::normalized()
}

fn lossless() -> EncodeOptions {
    EncodeOptions::lossless()
}

#[test]
fn the_callers_names_fill_in() {
    let options = normalized().id("given").model("named");
    for out in [text(&[TEXT], &ANTHROPIC_MESSAGES, &options), body(TEXT, &ANTHROPIC_MESSAGES, &options)] {
        assert!(out.contains("\"id\":\"given\"") && out.contains("\"model\":\"named\""), "{out}");
    }
    let own = text(&[&[ANTHROPIC, STOP, END].concat()], &ANTHROPIC_MESSAGES, &options);
    assert!(own.contains("\"id\":\"m1\"") && own.contains("\"model\":\"c\""), "{own}");
}

#[test]
fn clients_that_stop_at_an_error_get_nothing_after_it() {
    let out = text(&[FAILED], &ANTHROPIC_MESSAGES, &normalized());
    assert!(out.trim_end().ends_with("\"message\":\"first\"}}"), "{out}");
    let out = text(&[FAILED], &OPENAI_CHAT, &normalized());
    assert!(out.contains("second"), "{out}");
    // The same protocol gets everything, and the next response is written.
    let own = [ANTHROPIC, ANTHROPIC_ERROR, STOP, END].concat();
    assert!(text(&[&own], &ANTHROPIC_MESSAGES, &lossless()).contains("max_tokens"));
    assert!(text(&[FAILED, TEXT], &ANTHROPIC_MESSAGES, &normalized()).contains(" there"));
}

#[test]
fn late_fields_of_another_protocol_are_left_out_too() {
    let input =
        TEXT.replace("\"delta\":{\"content\":\" you\"}", "\"delta\":{\"content\":\" you\"},\"later\":1");
    for protocol in [&ANTHROPIC_MESSAGES, &COHERE_V2, &GEMINI_GENERATE_CONTENT, &OLLAMA, &OPENAI_CHAT] {
        let out = text(&[&input], protocol, &normalized());
        assert!(!out.contains("later"), "{}: {out}", protocol.name);
    }
    assert!(text(&[&input], &OPENAI_CHAT, &lossless()).contains("later"));
}

#[test]
fn an_id_that_comes_late_is_written_for_the_same_protocol_alone() {
    let late = "\"function\":{\"arguments\":\"1}\"";
    let input = CALLS.replacen("\"id\":\"a\",", "", 1).replace(late, &format!("\"id\":\"late\",{late}"));
    assert!(text(&[&input], &OPENAI_CHAT, &lossless()).contains("\"id\":\"late\""));
}

#[test]
fn the_first_error_counts_where_it_waits() {
    let out = text(&[FAILED], &COHERE_V2, &normalized());
    assert!(out.contains("first") && !out.contains("second"), "{out}");
}

#[test]
fn a_call_truncated_by_the_end_of_input_has_no_end() {
    let out = text(&[ANTHROPIC], &ANTHROPIC_MESSAGES, &lossless());
    assert!(!out.contains("content_block_stop"), "{out}");
    let limited = [ANTHROPIC, STOP, END].concat();
    let out = text(&[&limited], &ANTHROPIC_MESSAGES, &lossless());
    assert!(out.contains("content_block_stop") && out.contains("max_tokens"), "{out}");
}

#[test]
fn the_same_protocol_keeps_its_numbers_and_fields() {
    let input = [ANTHROPIC, STOP, END].concat();
    let own = text(&[&input], &ANTHROPIC_MESSAGES, &lossless());
    assert!(own.contains("\"index\":5") && own.contains("\"odd\":1") && own.contains("ping"), "{own}");
    let client = text(&[&input], &ANTHROPIC_MESSAGES, &normalized());
    assert!(client.contains("\"index\":0") && !client.contains("\"index\":5"), "{client}");
    assert!(client.contains("\"odd\":1") && client.contains("\"note\":\"own\""), "{client}");
    assert!(body(&input, &ANTHROPIC_MESSAGES, &normalized()).contains("\"note\":\"own\""));
}

#[test]
fn clients_get_no_fields_of_another_protocol() {
    for protocol in [&ANTHROPIC_MESSAGES, &COHERE_V2, &GEMINI_GENERATE_CONTENT, &OLLAMA] {
        for input in [TEXT, CALLS] {
            let out = text(&[input], protocol, &normalized()) + &body(input, protocol, &normalized());
            assert!(!out.contains("theirs") && !out.contains("odd"), "{}: {out}", protocol.name);
        }
    }
}

#[test]
fn a_truncated_response_has_no_end_and_the_next_one_has() {
    assert!(!text(&[TRUNCATED], &OPENAI_CHAT, &normalized()).contains("[DONE]"));
    assert!(text(&[TRUNCATED, TEXT], &OPENAI_CHAT, &normalized()).ends_with("data: [DONE]\n\n"));
    assert!(text(&[TEXT], &OPENAI_CHAT, &normalized()).ends_with("data: [DONE]\n\n"));
    assert!(!text(&[TRUNCATED], &COHERE_V2, &normalized()).contains("message-end"));
    let limited = TEXT.replace("\"stop\"", "\"length\"").replace("data: [DONE]\n\n", "");
    assert!(text(&[&limited], &COHERE_V2, &normalized()).contains("MAX_TOKENS"));
    let strange = TEXT.replace("\"stop\"", "\"strange\"");
    assert!(text(&[&strange], &COHERE_V2, &normalized()).contains("MAX_TOKENS"));
    assert!(body(TRUNCATED, &OLLAMA, &normalized()).contains("\"done\":false"));
    assert!(body(TEXT, &OLLAMA, &normalized()).contains("\"done\":true"));
}

#[test]
fn blocks_stand_one_after_the_other_only_for_clients() {
    let own = text(&[CALLS], &OPENAI_CHAT, &lossless());
    let at = |needle: &str| own.find(needle).unwrap_or_else(|| panic!("{needle} in {own}"));
    assert!(at("\"g\"") < at("\"1}\""), "{own}");
    let client = text(&[CALLS], &ANTHROPIC_MESSAGES, &normalized());
    let at = |needle: &str| client.find(needle).unwrap_or_else(|| panic!("{needle} in {client}"));
    assert!(at("\"1}\"") < at("\"g\""), "{client}");
    // Calls with the same id are told apart, and a client's call has an id.
    assert!(client.contains("\"id\":\"a\"") && client.contains("\"id\":\"a_1\""), "{client}");
}

#[test]
fn ids_that_were_made_stay_here() {
    let input = CALLS.replace("\"id\":\"a\",", "");
    assert!(!text(&[&input], &OPENAI_CHAT, &lossless()).contains("\"id\""));
    assert!(!body(&input, &OPENAI_CHAT, &lossless()).contains("\"id\""));
    assert!(text(&[&input], &OPENAI_CHAT, &normalized()).contains("\"id\":\"tool"));
}

#[test]
fn blocks_that_are_written_complete_have_all_their_pieces() {
    let out = text(&[CALLS], &OLLAMA, &normalized());
    assert!(out.contains("\"arguments\":{\"x\":1}") && out.contains("\"name\":\"g\""), "{out}");
}

#[test]
fn every_response_starts_afresh() {
    let out = text(&[TEXT, TEXT], &ANTHROPIC_MESSAGES, &normalized());
    assert_eq!(out.matches("content_block_start\ndata").count(), 2, "{out}");
    assert!(!out.contains("\"index\":1"), "{out}");
    assert!(out.contains("\"output_tokens\":7") && !out.contains("\"output_tokens\":14"), "{out}");
}

#[test]
fn choices_and_names_are_the_events_own() {
    let two = TEXT.replace("\"index\":0", "\"index\":1");
    let out = text(&[&[TEXT.replace("data: [DONE]\n\n", ""), two].concat()], &OPENAI_CHAT, &lossless());
    assert_eq!(out.matches("\"index\":1,\"delta\":{\"content\"").count(), 3, "{out}");
    let renamed = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let renamed = [renamed, &renamed.replace("c1", "c2"), "data: [DONE]\n\n"].concat();
    let out = text(&[&renamed], &OPENAI_CHAT, &lossless());
    assert!(out.contains("\"id\":\"c1\"") && out.contains("\"id\":\"c2\""), "{out}");
}

#[test]
fn repeated_frames_are_sealed() {
    let out = stream(&[TEXT], &BEDROCK_CONVERSE, &normalized());
    assert_eq!(decode_as(&BEDROCK_CONVERSE, &out).expect("frames").text(), "Hi you there");
}

#[test]
fn counts_are_written_once_under_the_wires_names() {
    let input = [ANTHROPIC, STOP, END].concat();
    for out in [
        text(&[&input], &ANTHROPIC_MESSAGES, &normalized()),
        body(&input, &ANTHROPIC_MESSAGES, &normalized()),
    ] {
        assert!(out.contains("\"input_tokens\":1,\"output_tokens\":9}"), "{out}");
    }
    // Counts under other names are not those of the wire, and an older name of one is not doubled.
    let own = |usage: &str| {
        let message = "{\"output\":{\"message\":{\"role\":\"assistant\",\"content\":[{\"text\":\"Hi\"}]}}";
        let input = format!("{message},\"stopReason\":\"end_turn\",\"usage\":{usage}}}");
        body(&input, &BEDROCK_CONVERSE, &normalized())
    };
    let out = own(
        "{\"inputTokens\":3,\"outputTokens\":7,\"totalTokens\":10,\"cacheReadInputTokenCount\":2,\"cacheReadInputTokens\":2}",
    );
    assert!(!out.contains("cacheReadInputTokens\":2,\"cacheReadInputTokens"), "{out}");
    let out = body(TEXT, &BEDROCK_CONVERSE, &normalized());
    assert!(out.contains("\"usage\":{\"inputTokens\":3,\"outputTokens\":7,\"totalTokens\":10}"), "{out}");
}

#[test]
fn a_wire_of_one_choice_gets_the_first() {
    let other = TEXT.replace("\"index\":0", "\"index\":1").replace("Hi", "Other");
    let both = [TEXT.replace("data: [DONE]\n\n", ""), other].concat();
    assert!(!text(&[&both], &ANTHROPIC_MESSAGES, &normalized()).contains("Other"));
    assert!(text(&[&both], &OPENAI_CHAT, &normalized()).contains("Other"));
}

#[test]
fn the_signature_of_an_announced_call_is_written_once() {
    let path = "tests/data/protocol/gemini-generatecontent/stream-arguments-leaf-by-leaf/input.jsonl";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let input = std::fs::read_to_string(path).expect("a case");
    let out = text(&[&input], &GEMINI_GENERATE_CONTENT, &lossless());
    let count = |text: &str| text.matches("thoughtSignature").count();
    assert!(count(&input) > 0);
    assert_eq!(count(&out), count(&input), "{out}");
}
