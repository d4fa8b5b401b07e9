//! ReqLLM: `{"chunks": […]}` → what every finaliser gives.

use callweave::compat::req_llm::ChunkAccumulator;
use serde_json::{Value, json};

pub(crate) fn answer(row: &Value) -> Value {
    let mut accumulator = ChunkAccumulator::new();
    accumulator.reduce(row["input"]["chunks"].as_array().expect("a list of chunks"));
    json!({
        "text": accumulator.finalize_text(),
        "thinking": accumulator.finalize_thinking(),
        "reasoning_details": accumulator.finalize_reasoning_details(),
        "logprobs": accumulator.finalize_logprobs(),
        "finish_reason": accumulator.finalize_finish_reason(),
        "usage": accumulator.finalize_usage(),
        "tool_calls": accumulator.finalize_tool_calls_for_response(),
        "args_lost": accumulator.arguments_lost(),
        "message": accumulator.finalize_message(),
    })
}
