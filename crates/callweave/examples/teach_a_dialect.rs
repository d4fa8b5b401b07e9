//! Teaches a model without native tool calls to write them, and reads what it answers.
//!
//! `cargo run -p callweave --example teach_a_dialect -- qwen3_coder`

use std::error::Error;

use callweave::compat::ex_athena::native;
use callweave::dialect::{DialectRegistry, ExtractOptions as Reading, Extraction};
use callweave::teach::{CallWriter, PromptOptions, augment_system_prompt};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "fence".to_owned());
    let tools = json!([{
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }]);
    println!("{}\n", augment_system_prompt(Some("Be brief."), &tools, &PromptOptions::new(&name)?.compact()));

    // A response of the model, and the form of the result in its next turn.
    let dialect = DialectRegistry::builtin().find(&name).ok_or("unknown dialect")?;
    let writer = CallWriter::new(dialect)?;
    let call = &native::parse(&[json!({"name": "get_weather", "arguments": {"city": "Oslo"}})])[0].call;
    let answer = writer.render_call(call)?;
    println!("assistant: {answer}\nuser: {}", writer.render_result(call, "rain"));

    let found = Extraction::of(&answer, &Reading::new(&name)?);
    println!("read as: {}({})", found.calls[0].name, found.calls[0].arguments());
    Ok(())
}
