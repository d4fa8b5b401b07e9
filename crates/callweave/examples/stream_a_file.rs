//! Follows a recorded stream; without a file, a sample.
//!
//! `cargo run -p callweave --example stream_a_file`

use std::io::{Read, Write};

use callweave::read::ItemReader;
use callweave::{Decoder, LiveItem};

// Reasoning, a text, a call whose JSON is not quite right, and an error at the end.
const SAMPLE: &str = r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[]}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"They want the weather. "}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Let me "}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}

data: {"type":"content_block_stop","index":1}

data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{'city': "}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"'Paris',}"}}

data: {"type":"content_block_stop","index":2}

data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}

"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let input: Box<dyn Read> = match std::env::args_os().nth(1) {
        Some(path) => Box::new(std::fs::File::open(path)?),
        None => Box::new(SAMPLE.as_bytes()),
    };
    // The protocol is detected; calls in the text and arguments that are not quite JSON are read, too.
    let decoder = Decoder::builder().dialect("auto").repair().build();
    let mut items = ItemReader::with(input, decoder);
    for item in &mut items {
        match item? {
            LiveItem::Text(text) => print!("{text}"),
            LiveItem::Reasoning(text) => print!("\x1b[2m{text}\x1b[0m"), // dim
            LiveItem::CallDone(call) => match call.invalid() {
                None => println!("\n{}({})", call.name, call.arguments()),
                Some(problem) => println!("\n{}: {}: {}", call.name, problem.detail, call.arguments()),
            },
            LiveItem::Error(error) => println!("\nerror: {error}"),
            LiveItem::Finish(reason) => println!("\nfinished: {reason}"),
            _ => {}
        }
        std::io::stdout().flush()?;
    }
    if items.message().is_truncated() {
        println!("the end is missing");
    }
    Ok(())
}
