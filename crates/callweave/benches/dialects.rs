//! What one delta costs: a call with one long string argument, in deltas of four bytes.
//!
//! `cargo bench --bench dialects`; divide the time by the deltas that the throughput counts.

use callweave::dialect::{ExtractOptions, Extractor, Registry, Tools};
use callweave::event::Event;
use divan::Bencher;
use divan::counter::ItemsCount;
use serde_json::json;

fn main() {
    divan::main();
}

const DIALECTS: [&str; 8] =
    ["hermes", "qwen3_coder", "deepseek_v31", "kimi_k2", "glm47", "gemma4", "pythonic", "minimax_m3"];

fn options(name: &str) -> ExtractOptions {
    let tools = json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
    ExtractOptions::new(name).expect("a dialect").tools(Tools::from_json(&tools))
}

/// The value of the argument, all of it ASCII.
fn value(len: usize) -> String {
    "some words of text, and then more of them. ".chars().cycle().take(len).collect()
}

fn run(bencher: Bencher<'_, '_>, name: &str, len: usize) {
    let dialect = Registry::builtin().find(name).expect("a dialect");
    let (before, after) = dialect.example.split_once("Oslo").expect("an argument");
    let value = value(len);
    let middle = (0..len).step_by(4).map(|at| &value[at..(at + 4).min(len)]);
    let deltas: Vec<&str> = [before].into_iter().chain(middle).chain([after]).collect();
    let options = options(name);
    bencher.counter(ItemsCount::new(deltas.len())).bench(|| {
        let mut events = 0_usize;
        let mut sink = |event: Event<'_>| {
            divan::black_box(&event);
            events += 1;
        };
        let mut extractor = Extractor::new(&options);
        for &delta in &deltas {
            extractor.push(delta, &mut sink);
        }
        extractor.finish(&mut sink);
        events
    });
}

#[divan::bench(args = DIALECTS)]
fn argument_1_kb(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, 1 << 10);
}

#[divan::bench(args = DIALECTS)]
fn argument_64_kb(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, 1 << 16);
}

#[divan::bench(args = DIALECTS, sample_count = 10)]
fn argument_1_mb(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, 1 << 20);
}

#[divan::bench(args = [800, 8000], sample_count = 10)]
fn calls_in_one_chunk(bencher: Bencher<'_, '_>, count: usize) {
    let call = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>\n";
    let text = call.repeat(count);
    let options = options("hermes");
    bencher.counter(ItemsCount::new(count)).bench(|| {
        let mut events = 0_usize;
        let mut sink = |_: Event<'_>| events += 1;
        let mut extractor = Extractor::new(&options);
        extractor.push(&text, &mut sink);
        extractor.finish(&mut sink);
        events
    });
}
