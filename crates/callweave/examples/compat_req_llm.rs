//! Pushes stream chunks (JSON, one per line) to ReqLLM's accumulator, and prints text, calls and usage.
//!
//! `echo '{"type": "content", "text": "Hello"}' | cargo run -p callweave --example compat_req_llm`

use std::error::Error;

use callweave::compat::req_llm::ChunkAccumulator;
use callweave::json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut accumulator = ChunkAccumulator::new();
    for line in std::io::stdin().lines() {
        accumulator.push(&line?.parse::<Value>()?);
    }
    println!("{}", accumulator.finalize_text());
    for call in accumulator.finalize_tool_calls_for_response() {
        println!("{}", serde_json::to_string(&call)?);
    }
    if let Some(usage) = accumulator.finalize_usage() {
        println!("{} tokens in, {} out", usage["input"], usage["output"]);
    }
    for lost in accumulator.arguments_lost() {
        eprintln!("{}: the arguments of {} were lost", lost.tool_call_id, lost.tool_name);
    }
    Ok(())
}
