//! Streams a response from a file: text, reasoning, calls with their arguments as values while the model still writes them.
//!
//! `cargo run -p callweave --example follow_items < FILE`

use std::error::Error;

use callweave::read::ItemReader;
use callweave::{Decoder, LiveItem, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let decoder = Decoder::builder().dialect("auto").repair().build();
    let mut items = ItemReader::with(std::io::stdin().lock(), decoder);
    while let Some(item) = items.lend() {
        match item? {
            LiveItem::Text(text) | LiveItem::Refusal(text) => print!("{text}"),
            LiveItem::Reasoning(thought) => eprint!("{thought}"),
            LiveItem::Call(call) => println!("{} … {}", call.name, call.value.unwrap_or(&Value::Null)),
            LiveItem::CallDone(call) => println!("{}({})", call.name, call.arguments()),
            LiveItem::Error(error) => eprintln!("{error}"),
            LiveItem::Finish(reason) => println!("{reason}"),
            _ => {}
        }
    }
    Ok(())
}
