//! Follows the arguments of tool calls live, as values, while the model still writes them.
//!
//! `cargo run -p callweave --example follow_arguments < FILE`

use std::collections::HashMap;
use std::error::Error;

use callweave::event::{BlockKind, EventKind};
use callweave::json::partial::{PartialValue, UnfinishedValues};
use callweave::read::EventReader;

fn main() -> Result<(), Box<dyn Error>> {
    let mut calls = HashMap::new();
    for event in EventReader::new(std::io::stdin().lock()) {
        match event?.body {
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { name, .. }, .. } => {
                calls.insert(block, (name, PartialValue::new(UnfinishedValues::Strings)));
            }
            EventKind::Delta { block, text, .. } => {
                if let Some((name, arguments)) = calls.get_mut(&block) {
                    arguments.push(&text);
                    println!("{name} … {}", arguments.value().unwrap_or(&callweave::json::Value::Null));
                }
            }
            EventKind::BlockEnd { block, completion } => {
                if let Some((name, _)) = calls.remove(&block) {
                    println!("{name} is {completion:?}");
                }
            }
            _ => {}
        }
    }
    Ok(())
}
