//! The store takes as much memory as its configuration says, whatever is kept in it.

use std::sync::Arc;

use allocation_counter::measure;
use bytes::Bytes;
use callweave_gateway::config::Config;
use callweave_gateway::keys::Digest;
use callweave_gateway::store::{Kept, Memory, Store, Turn};

const MOST: usize = 2_000_000;

fn kept(earlier: Option<Arc<Turn>>, input: &str) -> Kept {
    let output = r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}]"#;
    let turn = Turn::new(earlier, input.to_owned(), output.to_owned());
    Kept {
        turn: Arc::new(turn),
        body: Bytes::from(format!(r#"{{"output":{output}}}"#).into_bytes().into_boxed_slice()),
    }
}

/// Keeps answers until old ones have left, and tells how much stays in memory, for each byte that the store may take.
fn filled(input: &str, next: impl Fn(Option<&Kept>) -> Kept) -> f64 {
    let config = Config::read(&format!("[store]\nbytes = {MOST}\nanswers = 1000000")).expect("valid");
    let (client, mut store) = (Digest::of("one"), None);
    let counted = measure(|| {
        let memory = Memory::new(config.store.clone());
        let mut last: Option<Kept> = None;
        for number in 0..3 * MOST / (input.len() + 500) {
            let id = format!("resp_{number:024}");
            let now = next(last.as_ref());
            memory.put(&client, &id, now.clone());
            // One that was not kept is not followed.
            last = memory.get(&client, &id).map(|_| now);
        }
        store = Some(memory);
    });
    drop(store);
    counted.bytes_current as f64 / MOST as f64
}

#[test]
fn the_store_takes_what_it_says() {
    let values = format!("[{}{{}}]", "{},".repeat(30_000));
    let long = format!("\"{}\"", "word ".repeat(20_000));
    for (name, input) in [("short texts", "\"Hi\""), ("many values", &values), ("long texts", &long)] {
        let share = filled(input, |_| kept(None, input));
        assert!((0.75..=1.25).contains(&share), "{name}: {share:.2} of what the store may take");
        let share = filled(input, |last| kept(last.map(|last| Arc::clone(&last.turn)), input));
        assert!(share <= 1.25, "conversations of {name}: {share:.2} of what the store may take");
    }
}
