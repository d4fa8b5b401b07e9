//! Nous: `{"fragments": […]}` → the calls.

use callweave::compat::nous::ToolCallAccumulator;
use serde_json::{Value, json};

pub(crate) fn answer(row: &Value) -> Value {
    let mut accumulator = ToolCallAccumulator::new();
    for fragment in row["input"]["fragments"].as_array().expect("a list of fragments") {
        accumulator.feed(fragment);
    }
    json!(accumulator.finalize())
}
