//! Text with a call in a dialect, its JSON broken, becomes a value of a type of your own. With `--features schema` the
//! arguments are also checked against the schema of the tool.
//!
//! `cargo run -p callweave --example dialect_to_struct`

use callweave::{Tools, Value, extract};

#[derive(Debug, serde::Deserialize)]
#[allow(dead_code)]
struct Forecast {
    city: String,
    days: u8,
    hourly: bool,
}

const TOOLS: &str = r#"[{"name": "forecast", "parameters": {"type": "object", "required": ["city", "days"], "properties":
    {"city": {"type": "string"}, "days": {"type": "integer"}, "hourly": {"type": "boolean"}}}}]"#;

// Bare keys, single quotes, a comma too many, and values of the wrong type.
const TEXT: &str = "<think>They want a forecast.</think>Let me look.
<tool_call>{name: 'forecast', 'arguments': {city: 'Paris', days: \"3\", hourly: \"false\",}}</tool_call>";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools: Value = TOOLS.parse()?;
    let message = extract(TEXT, &Tools::from_json(&tools));
    println!("reasoning: {}\ntext: {}", message.reasoning(), message.text().trim());
    for call in message.tool_calls() {
        match call.error_result() {
            None => println!("{:?}", call.parse::<Forecast>()?),
            Some(answer) => println!("for the model: {answer}"),
        }
    }
    Ok(())
}
