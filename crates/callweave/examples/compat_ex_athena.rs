//! Reads a finished reply, `{"text": …, "tool_calls": …}`, and prints its calls, whichever way they were made.
//!
//! `echo '{"text": "~~~tool_call\n{\"name\": \"look\"}\n~~~"}' | cargo run -p callweave --example compat_ex_athena`

use std::error::Error;

use callweave::compat::ex_athena::{ProviderCapabilities, extract};
use callweave::json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let reply: Value = std::io::read_to_string(std::io::stdin())?.parse()?;
    for found in extract(&reply, &ProviderCapabilities::default())? {
        match found.call.error_result() {
            None => println!("{}: {}({})", found.call.id, found.call.name, found.call.arguments()),
            Some(answer) => println!("{}: {answer}", found.call.id),
        }
    }
    Ok(())
}
