//! Feeds fragments of tool calls (JSON, one per line) to Nous' accumulator, and prints its calls.
//!
//! `echo '{"name": "look", "arguments": {"at": "sky"}}' | cargo run -p callweave --example compat_nous`

use std::error::Error;

use callweave::compat::nous::ToolCallAccumulator;
use callweave::json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut accumulator = ToolCallAccumulator::new();
    for line in std::io::stdin().lines() {
        accumulator.feed(&line?.parse::<Value>()?);
    }
    for call in accumulator.finalize() {
        println!("{}", serde_json::to_string(&call)?);
        if let Some(result) = call.call.error_result() {
            println!("the model gets: {result}");
        }
    }
    Ok(())
}
