//! Reads a model's text, in whatever dialect it calls tools, and parses the arguments of the calls into a type of your own.
//!
//! `echo "Sure. [get_weather(city='Oslo', days='3')]" | cargo run -p callweave --example text_to_struct`

use std::error::Error;

use callweave::{Tools, extract};
use serde_json::json;

#[derive(serde::Deserialize)]
struct GetWeather {
    city: String,
    #[serde(default)]
    days: u8,
}

fn main() -> Result<(), Box<dyn Error>> {
    let tools = Tools::from_json(&json!([{"name": "get_weather", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }}]));
    let message = extract(&std::io::read_to_string(std::io::stdin())?, &tools);
    println!("{}", message.text());
    for call in message.tool_calls() {
        if let Some(invalid) = call.invalid() {
            eprintln!("{invalid}");
            continue;
        }
        let GetWeather { city, days } = call.parse()?;
        println!("the weather in {city}, {days} days");
    }
    Ok(())
}
