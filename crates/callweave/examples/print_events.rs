//! Prints the events of an answer as they come, one JSON object per line.
//!
//! `cargo run -p callweave --example print_events < FILE`

use std::error::Error;

use callweave::read::EventReader;

fn main() -> Result<(), Box<dyn Error>> {
    for event in EventReader::new(std::io::stdin().lock()) {
        println!("{}", serde_json::to_string(&event?)?);
    }
    Ok(())
}
