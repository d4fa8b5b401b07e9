//! Streams a response from a file: text, reasoning, calls with their arguments as values while the model still writes them.
//!
//! `cargo run -p callweave --example follow_items < FILE`

use std::error::Error;

use callweave::read::Items;
use callweave::{Decoder, Item, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let decoder = Decoder::builder().dialect("auto").repair().build();
    let mut items = Items::with(std::io::stdin().lock(), decoder);
    while let Some(item) = items.next() {
        match item? {
            Item::Text(text) | Item::Refusal(text) => print!("{text}"),
            Item::Thought(thought) => eprint!("{thought}"),
            Item::Call(call) => println!("{} … {}", call.name, call.arguments.unwrap_or(&Value::Null)),
            Item::CallDone(call) => println!("{}({})", call.name, call.arguments()),
            Item::Error(error) => eprintln!("{error}"),
            Item::Finish(reason) => println!("{reason}"),
            _ => {}
        }
    }
    Ok(())
}
