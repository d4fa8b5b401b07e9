//! The store takes as much memory as its configuration says, whatever its content.

use std::sync::Arc;

use allocation_counter::measure;
use callweave::exchange::store::{ExchangeStore, StoreScope, StoredResponse, StoredTurn};
use callweave_gateway::config::Config;
use callweave_gateway::store::MemoryStore;

const MAX: usize = 2_000_000;

fn kept(earlier: Option<Arc<StoredTurn>>, input: &str) -> StoredResponse {
    let output = r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}]"#;
    let turn = StoredTurn::new(earlier, input.to_owned(), output.to_owned());
    StoredResponse { turn: Arc::new(turn), body: format!(r#"{{"output":{output}}}"#).into_bytes().into() }
}

/// Stores responses until old ones have left, and returns the bytes that stay in memory for each byte that the store
/// may take.
fn filled(input: &str, next: impl Fn(Option<&StoredResponse>) -> StoredResponse) -> f64 {
    let config = Config::read(&format!("[store]\nbytes = {MAX}\nresponses = 1000000")).expect("valid");
    let (client, mut store) = (StoreScope([1; 32]), None);
    let counted = measure(|| {
        let memory = MemoryStore::new(config.store.clone());
        let mut last: Option<StoredResponse> = None;
        for number in 0..3 * MAX / (input.len() + 500) {
            let id = format!("resp_{number:024}");
            let now = next(last.as_ref());
            memory.put_response(&client, &id, now.clone());
            // One that was not kept is not followed.
            last = memory.response(&client, &id).map(|_| now);
        }
        store = Some(memory);
    });
    drop(store);
    counted.bytes_current as f64 / MAX as f64
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
