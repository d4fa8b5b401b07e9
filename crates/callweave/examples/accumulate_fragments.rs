//! Accumulates loose JSON fragments, one per line, of any of the four shapes into one message.
//!
//! `echo '[{"index": 0, "function": {"name": "look", "arguments": "{}"}}]' | cargo run -p callweave --example accumulate_fragments`

use std::error::Error;

use callweave::accumulator::Accumulator;
use callweave::compat::loose::LooseDecoder;
use callweave::json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut loose, mut answer) = (LooseDecoder::new(), Accumulator::new());
    for line in std::io::stdin().lines() {
        let fragment: Value = line?.parse()?;
        if loose.push(&fragment, &mut answer).is_none() {
            eprintln!("ignored: {fragment}");
        }
    }
    loose.finish(&mut answer);
    println!("{}", serde_json::to_string_pretty(answer.message())?);
    Ok(())
}
