//! A client speaks Chat Completions, the provider speaks Anthropic's Messages: the request there, the stream back.
//!
//! `cargo run -p callweave --example relay_chat_to_anthropic`

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use callweave::encode::EncodeOptions;
use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT};
use callweave::request::{RequestOptions, ReverseMappingStage};
use callweave::{Decoder, Event};

const REQUEST: &str = r#"{"model": "gpt-5", "stream": true, "seed": 7, "messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [{"type": "function", "function": {"name": "weather.get",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]}"#;

const ANSWER: &str = r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"usage":{"input_tokens":20,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather_get","input":{}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Paris\"}"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":12}}

data: {"type":"message_stop"}

"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = RequestOptions::default();
    options.model = Some("claude-sonnet-4-5".to_owned());
    let written = OPENAI_CHAT.translate_request(REQUEST.parse()?, &ANTHROPIC_MESSAGES, &options)?;
    eprintln!("{}", written.body);
    for loss in &written.losses {
        eprintln!("lost: {loss}");
    }

    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut encoder =
        OPENAI_CHAT.encoder(&EncodeOptions::normalized().created(now)).expect("chat is written");
    let mut back = ReverseMappingStage::new(&written); // the client's own names of tools
    let (mut decoder, mut out) = (Decoder::new(&ANTHROPIC_MESSAGES), Vec::new());
    for chunk in ANSWER.as_bytes().chunks(100) {
        decoder.push(chunk, &mut |event: Event<'_>| {
            back.push(event, &mut |event: Event<'_>| encoder.encode(&event, &mut out));
        })?;
        std::io::stdout().write_all(&out)?;
        out.clear();
    }
    decoder.finish(&mut |event: Event<'_>| {
        back.push(event, &mut |event: Event<'_>| encoder.encode(&event, &mut out))
    })?;
    std::io::stdout().write_all(&out)?;
    Ok(())
}
