//! The metrics, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::account::beginning;
use callweave::exchange::CallResolution;

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct GatewayMetrics {
    calls: LabelledCounts<4>,
    requests: LabelledCounts<3>,
    tokens: LabelledCounts<3>,
    losses: LabelledCounts<1>,
    retries: AtomicU64,
    active: AtomicI64,
    /// The time that the gateway itself worked on a request, apart from waiting.
    request: Histogram,
    /// The time that it worked on a chunk.
    chunk: Histogram,
    first: Histogram,
}

/// A count for each set of labels.
#[derive(Default)]
struct LabelledCounts<const N: usize>(Mutex<BTreeMap<[String; N], u64>>);

/// The maximum number of label sets, however many names a configuration has.
const MAX: usize = 2000;

/// The maximum number of bytes in a label.
const LONGEST: usize = 128;

/// A label, or its beginning.
fn bounded(label: &str) -> String {
    beginning(label, LONGEST).to_owned()
}

impl<const N: usize> LabelledCounts<N> {
    fn add(&self, labels: [&str; N], count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut labels = labels.map(bounded);
        if counts.len() >= MAX && !counts.contains_key(&labels) {
            labels = std::array::from_fn(|_| "other".to_owned());
        }
        *counts.entry(labels).or_default() += count;
    }

    fn write(&self, name: &str, help: &str, keys: [&str; N], text: &mut String) {
        head(name, help, "counter", text);
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, count) in counts.iter() {
            let _ = write!(text, "{name}{{");
            for (place, (key, label)) in keys.iter().zip(labels).enumerate() {
                let comma = if place > 0 { "," } else { "" };
                let label = label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let _ = write!(text, "{comma}{key}=\"{label}\"");
            }
            let _ = writeln!(text, "}} {count}");
        }
    }
}

/// Upper bounds in microseconds.
const BOUNDS: [u64; 14] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 50_000, 250_000, 1_000_000, 5_000_000, 30_000_000];

#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[at].fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
    }

    fn write(&self, name: &str, help: &str, text: &mut String) {
        head(name, help, "histogram", text);
        let mut total = 0;
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            total += bucket.load(Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {total}", bound as f64 / 1e6);
        }
        total += self.buckets[BOUNDS.len()].load(Relaxed);
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {total}");
        let _ = writeln!(text, "{name}_sum {}", self.micros.load(Relaxed) as f64 / 1e6);
        let _ = writeln!(text, "{name}_count {total}");
    }
}

fn head(name: &str, help: &str, kind: &str, text: &mut String) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

impl GatewayMetrics {
    /// A call is over.
    pub(crate) fn call(&self, outcome: CallResolution, dialect: &str, upstream: &str, model: &str) {
        self.calls.add([outcome.name(), dialect, upstream, model], 1);
    }

    /// A request is over.
    pub(crate) fn request(&self, protocol: &str, upstream: &str, status: &str) {
        self.requests.add([protocol, upstream, status], 1);
    }

    /// Tokens were counted.
    pub(crate) fn tokens(&self, kind: &str, upstream: &str, model: &str, count: u64) {
        self.tokens.add([kind, upstream, model], count);
    }

    /// A request loses something in its translation.
    pub(crate) fn loss(&self, upstream: &str) {
        self.losses.add([upstream], 1);
    }

    /// A request is sent again.
    pub(crate) fn retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Counts a response that began, or ended.
    pub(crate) fn active(&self, change: i64) {
        self.active.fetch_add(change, Relaxed);
    }

    /// Records the time that the gateway itself worked on a request.
    pub(crate) fn added(&self, time: Duration) {
        self.request.add(time);
    }

    /// Records the time that the gateway itself worked on a chunk.
    pub(crate) fn chunk(&self, time: Duration) {
        self.chunk.add(time);
    }

    /// Records the time until the client got something.
    pub(crate) fn first(&self, time: Duration) {
        self.first.add(time);
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.calls.write(
            "callweave_tool_calls_total",
            "Tool calls by what became of them.",
            ["outcome", "dialect", "upstream", "model"],
            &mut text,
        );
        self.requests.write(
            "callweave_requests_total",
            "Requests by the client's protocol, who was asked last, and the status.",
            ["protocol", "upstream", "status"],
            &mut text,
        );
        self.tokens.write(
            "callweave_tokens_total",
            "Tokens as upstreams count them.",
            ["kind", "upstream", "model"],
            &mut text,
        );
        self.losses.write(
            "callweave_requests_with_losses_total",
            "Requests of which the upstream did not get everything.",
            ["upstream"],
            &mut text,
        );
        head("callweave_retries_total", "Requests that were sent again.", "counter", &mut text);
        let _ = writeln!(text, "callweave_retries_total {}", self.retries.load(Relaxed));
        let lost = "Lines of the log that could not be written.";
        head("callweave_log_lines_lost_total", lost, "counter", &mut text);
        let _ = writeln!(text, "callweave_log_lines_lost_total {}", crate::log::lost());
        head("callweave_streams_active", "Answers under way.", "gauge", &mut text);
        let _ = writeln!(text, "callweave_streams_active {}", self.active.load(Relaxed));
        let added = "What the gateway itself added to a request, in seconds.";
        self.request.write("callweave_request_added_seconds", added, &mut text);
        let added = "What the gateway itself added to a chunk, in seconds.";
        self.chunk.write("callweave_chunk_added_seconds", added, &mut text);
        let first = "From a request to the first byte of its answer, in seconds.";
        self.first.write("callweave_first_token_seconds", first, &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_with_their_labels() {
        let metrics = GatewayMetrics::default();
        metrics.call(CallResolution::Repaired, "hermes", "local", "a\"b");
        metrics.chunk(Duration::from_micros(30));
        let text = metrics.text();
        let call = r#"callweave_tool_calls_total{outcome="repaired",dialect="hermes",upstream="local",model="a\"b"} 1"#;
        assert!(text.lines().any(|line| line == call), "{text}");
        assert!(text.contains("callweave_chunk_added_seconds_bucket{le=\"0.00005\"} 1"), "{text}");
    }

    #[test]
    fn labels_are_bounded() {
        let counts = LabelledCounts::<1>::default();
        (0..2 * MAX).for_each(|number| counts.add([&number.to_string()], 1));
        let kept = counts.0.lock().expect("unshared");
        assert_eq!((kept.len(), kept[&["other".to_owned()]]), (MAX + 1, MAX as u64));
        let long = LabelledCounts::<1>::default();
        long.add([&"ä".repeat(100_000)], 1);
        assert!(long.0.lock().expect("unshared").keys().all(|labels| labels[0].len() == LONGEST));
    }
}
