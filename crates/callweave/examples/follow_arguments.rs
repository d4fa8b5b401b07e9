//! Follows the arguments of tool calls live, as values, while the model still writes them.
//!
//! `cargo run -p callweave --example follow_arguments < FILE`

use std::collections::HashMap;
use std::error::Error;

use callweave::event::{BlockKind, Body};
use callweave::json::partial::{Growing, Partial};
use callweave::read::Events;

fn main() -> Result<(), Box<dyn Error>> {
    let mut calls = HashMap::new();
    for event in Events::new(std::io::stdin().lock()) {
        match event?.body {
            Body::BlockStart { block, kind: BlockKind::ToolCall { name, .. }, .. } => {
                calls.insert(block, (name, Partial::new(Growing::Strings)));
            }
            Body::Delta { block, text, .. } => {
                if let Some((name, arguments)) = calls.get_mut(&block) {
                    arguments.push(&text);
                    println!("{name} … {}", arguments.value().unwrap_or(&callweave::json::Value::Null));
                }
            }
            Body::BlockEnd { block, completion } => {
                if let Some((name, _)) = calls.remove(&block) {
                    println!("{name} is {completion:?}");
                }
            }
            _ => {}
        }
    }
    Ok(())
}
