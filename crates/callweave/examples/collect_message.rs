//! Collects a recorded answer, streamed or whole, of any protocol, into one message.
//!
//! `cargo run -p callweave --example collect_message -- FILE`

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give the file of a recorded answer")?;
    let message = callweave::pipeline::decode(&std::fs::read(path)?)?;
    println!("{}", serde_json::to_string_pretty(&message)?);
    Ok(())
}
