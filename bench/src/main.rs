//! Prints how callweave compares with hand-built pipelines, as ratios of one interleaved run.

use std::time::{Duration, Instant};

use callweave::protocol::Protocol;
use callweave_bench::peers::{self, Collected};
use callweave_bench::streams;

type Pipeline = (&'static str, fn(&str) -> Collected);

const ROUNDS: usize = 7;

fn main() {
    for chunks in [1_000, 10_000, 100_000] {
        compare(
            &format!("chat, {chunks} chunks"),
            &streams::chat(chunks),
            chunks,
            &[
                ("callweave", |body| peers::callweave(body, protocol("openai-chat"))),
                ("eventsource-stream + async-openai", peers::chat_async_openai),
                ("memchr + serde_json", peers::chat_serde),
                ("memchr + jiter", peers::chat_jiter),
            ],
        );
        compare(
            &format!("anthropic, {chunks} events"),
            &streams::anthropic(chunks),
            chunks,
            &[
                ("callweave", |body| peers::callweave(body, protocol("anthropic-messages"))),
                ("eventsource-stream + serde_json", peers::anthropic_eventsource),
                ("memchr + serde_json", peers::anthropic_serde),
            ],
        );
    }
}

fn protocol(name: &str) -> &'static Protocol {
    Protocol::named(name).expect("a protocol of the table")
}

/// Runs the pipelines in turns, so that a slow phase of the machine hits all of them, and takes the best.
fn compare(title: &str, body: &str, chunks: usize, pipelines: &[Pipeline]) {
    let mut best = vec![Duration::MAX; pipelines.len()];
    for _ in 0..ROUNDS {
        for ((_, run), best) in pipelines.iter().zip(&mut best) {
            let start = Instant::now();
            std::hint::black_box(run(body));
            *best = start.elapsed().min(*best);
        }
    }
    println!("{title}");
    for ((name, _), time) in pipelines.iter().zip(&best) {
        let per_chunk = time.as_nanos() as f64 / chunks as f64;
        let ratio = time.as_secs_f64() / best[0].as_secs_f64();
        println!("  {name:<36} {per_chunk:>8.0} ns/chunk  x{ratio:.2}");
    }
}
