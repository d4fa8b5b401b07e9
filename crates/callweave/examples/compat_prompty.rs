//! Gives the result of a whole answer: calls if there are any, else a structured value, else text.
//!
//! `cargo run -p callweave --example compat_prompty`

use std::error::Error;

use callweave::compat::prompty::{Processed, PromptAgent, process};
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Weather {
    city: String,
    celsius: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let chat = json!({"choices": [{"message": {"content": "{\"city\": \"Oslo\", \"celsius\": -3.5}"}}]});
    let claude = json!({"type": "message", "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}]});
    for (provider, response) in [("openai", chat), ("anthropic", claude)] {
        match process(&PromptAgent::new(provider).with_outputs(), &response)? {
            Processed::Structured(found) => {
                let Weather { city, celsius } = found.cast()?;
                println!("{provider}: {celsius} degrees in {city}");
            }
            Processed::ToolCalls(calls) => {
                for call in calls {
                    println!("{provider}: {} wants {}({})", call.id, call.name, call.arguments());
                }
            }
            other => println!("{provider}: {}", serde_json::to_string(&other)?),
        }
    }
    Ok(())
}
