//! Passes the tool calls of a stream of payloads (JSON, one per line, of any wrapping) on as the
//! `tool_calls` of Chat Completions chunks, then prints the whole calls.
//!
//! `echo '{"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": "{}"}}]}' | cargo run -p callweave --example compat_tool_call_aggregator`

use std::error::Error;

use callweave::compat::tool_call_aggregator::{IngestMessageOptions, ToolCallAggregator};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut aggregator = ToolCallAggregator::new();
    let mut text = String::new();
    for line in std::io::stdin().lines() {
        let payload: Value = serde_json::from_str(&line?)?;
        let content = payload.pointer("/choices/0/delta/content").or(payload.get("content"));
        text.push_str(content.and_then(Value::as_str).unwrap_or(""));
        let ingested = aggregator.ingest_delta(&payload, None);
        if ingested.updated {
            println!("{}", json!({"delta": {"tool_calls": ingested.to_tool_calls(None)}}));
        }
    }
    // A model that knows no structured calls may have written them.
    let options = IngestMessageOptions { emit_if_missing: true };
    aggregator.ingest_message(&json!({"content": text}), None, options);
    println!("{}", json!({"content": null, "tool_calls": aggregator.tool_calls(None)}));
    Ok(())
}
