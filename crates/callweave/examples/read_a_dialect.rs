//! Reads calls and thoughts that a model writes into its text, while the text still comes.
//!
//! `cargo run -p callweave --example read_a_dialect`

use std::error::Error;

use callweave::dialect::{ExtractOptions, Extractor};
use callweave::event::{BlockKind, Event, EventKind};

fn main() -> Result<(), Box<dyn Error>> {
    let deltas = [
        "<think>Rain in Bergen?</think>Let me look. <tool",
        "_call>\n{\"name\": \"get_weather\", \"argu",
        "ments\": {\"city\": \"Bergen\"}}\n</tool_call>",
    ];
    let mut extractor = Extractor::new(&ExtractOptions::new("auto")?);
    let mut sink = |event: Event<'_>| match event.body {
        EventKind::BlockStart { kind: BlockKind::Reasoning(_), .. } => print!("\nthought: "),
        EventKind::BlockStart { kind: BlockKind::ToolCall { name, .. }, .. } => print!("\ncall of {name}: "),
        EventKind::BlockStart { .. } => print!("\ntext: "),
        EventKind::Delta { text, .. } => print!("{text}"),
        _ => {}
    };
    for delta in deltas {
        extractor.push(delta, &mut sink);
    }
    extractor.finish(&mut sink);
    println!();
    Ok(())
}
