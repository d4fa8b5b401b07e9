//! Repairs JSON as models write it, and tells what was changed and how sure that is.
//!
//! `echo "{'city': 'Oslo', days: 5," | cargo run -p callweave --example repair_json`

use std::error::Error;
use std::io::Read;

use callweave::json::repair::repair;

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let repair = repair(&text);
    println!("{:?}: {}", repair.verdict, repair.closed().unwrap_or("nothing to keep"));
    for change in &repair.changes {
        println!("byte {}: {} ({:?})", change.at, change.kind.label(), change.kind.class());
    }
    Ok(())
}
