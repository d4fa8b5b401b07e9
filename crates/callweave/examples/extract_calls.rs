//! Reads a finished reply, `{"text": …, "tool_calls": …}`, and prints its calls, whichever way they were made.
//!
//! `echo '{"text": "~~~tool_call\n{\"name\": \"look\"}\n~~~"}' | cargo run --example extract_calls`

use std::error::Error;

use callweave::extract::{Capabilities, extract};

fn main() -> Result<(), Box<dyn Error>> {
    let reply = serde_json::from_reader(std::io::stdin())?;
    for found in extract(&reply, &Capabilities::default())? {
        match found.call.error_result() {
            None => println!("{}: {}({})", found.call.id, found.call.name, found.call.arguments()),
            Some(answer) => println!("{}: {answer}", found.call.id),
        }
    }
    Ok(())
}
