//! Prints the text of a recorded stream while it is read, then the calls.
//!
//! `cargo run -p callweave --example process_stream -- PROVIDER < FILE`

use std::error::Error;
use std::io::{self, BufRead, Write};

use callweave::compat::prompty::{PromptAgent, StreamItem, process_bytes};

fn main() -> Result<(), Box<dyn Error>> {
    let provider = std::env::args().nth(1).ok_or("name the provider: openai, anthropic, gemini, …")?;
    let pieces = io::stdin().lock().split(b'\n').map(|line| line.map(|line| [&line[..], b"\n"].concat()));
    for item in process_bytes(&PromptAgent::new(provider), pieces)? {
        match item {
            Ok(StreamItem::Text(text)) => print!("{text}"),
            Ok(StreamItem::ToolCall(call)) => println!("\n{}: {}({})", call.id, call.name, call.arguments()),
            Ok(_) => {}
            Err(failure) if failure.is_determinate() => println!("\nno answer: {failure}"),
            Err(failure) => println!("\nbroken off after {} bytes: {failure}", failure.partial.len()),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
