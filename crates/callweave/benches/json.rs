//! Scanning and partial values beside their peers; read the rows of one group as ratios.

use std::hint::black_box;

use callweave::json::{Scanner, Status, Tape};
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// What tool arguments look like: short keys, short strings, some numbers, nested a little.
fn arguments() -> String {
    let item = r#"{"id": 17, "path": "src/main.rs", "is_new": false, "range": [12, 48], "note": "see \"lib\"\n", "owner": null}"#;
    format!(r#"{{"query": "open files", "limit": 20, "items": [{}]}}"#, vec![item; 500].join(", "))
}

fn numbers() -> String {
    let rows = (0..6000).map(|n| format!("{}, {}.{}, -{}e-3", n, n * 7, n % 100, n * 31));
    format!("[{}]", rows.collect::<Vec<_>>().join(", "))
}

fn strings() -> String {
    let line =
        r#""A sentence as a model writes it into a file, with \"quotes\" now and then, and a line end.\n""#;
    format!("[{}]", vec![line; 600].join(","))
}

fn text(shape: &str) -> String {
    match shape {
        "arguments" => arguments(),
        "numbers" => numbers(),
        _ => strings(),
    }
}

const SHAPES: [&str; 3] = ["arguments", "numbers", "strings"];

#[divan::bench_group(sample_count = 200)]
mod scan {
    use super::*;

    #[divan::bench(args = SHAPES)]
    fn callweave_scanner(bencher: Bencher, shape: &str) {
        let text = text(shape);
        bencher.counter(BytesCount::of_str(&text)).bench(|| {
            let mut scanner = Scanner::new();
            scanner.push(black_box(&text));
            assert_eq!(scanner.status(), Status::Complete);
        });
    }

    #[divan::bench(args = SHAPES)]
    fn callweave_scanner_4_byte_deltas(bencher: Bencher, shape: &str) {
        let text = text(shape);
        bencher.counter(BytesCount::of_str(&text)).bench(|| {
            let mut scanner = Scanner::new();
            for piece in black_box(&text).as_bytes().chunks(4) {
                scanner.push(std::str::from_utf8(piece).expect("the text is ASCII"));
            }
            assert_eq!(scanner.status(), Status::Complete);
        });
    }

    #[divan::bench(args = SHAPES)]
    fn callweave_tape(bencher: Bencher, shape: &str) {
        let text = text(shape);
        let mut tape = Tape::new();
        bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
            black_box(tape.parse(black_box(&text)).expect("the text is JSON"));
        });
    }

    #[divan::bench(args = SHAPES)]
    fn serde_json_ignored_any(bencher: Bencher, shape: &str) {
        let text = text(shape);
        bencher.counter(BytesCount::of_str(&text)).bench(|| {
            serde_json::from_str::<serde::de::IgnoredAny>(black_box(&text)).expect("the text is JSON")
        });
    }
}

/// A growing argument in four-byte deltas, the value looked at after each.
#[divan::bench_group(sample_count = 10)]
mod partial {
    use callweave::json::partial::{Growing, Partial};
    use jiter::{JsonValue, PartialMode};

    use super::*;

    const SIZES: [usize; 3] = [4_000, 16_000, 64_000];

    fn of_size(size: usize) -> String {
        let line = "let value = compute(input, \\\"name\\\");\\n";
        format!(r#"{{"path": "src/lib.rs", "content": "{}"}}"#, line.repeat(size / line.len()))
    }

    #[divan::bench(args = [4_000, 16_000, 64_000, 1_000_000])]
    fn callweave_partial(bencher: Bencher, size: usize) {
        let text = of_size(size);
        bencher.counter(BytesCount::of_str(&text)).bench(|| {
            let mut partial = Partial::new(Growing::Strings);
            for piece in text.as_bytes().chunks(4) {
                partial.push(std::str::from_utf8(piece).expect("the text is ASCII"));
                black_box(partial.value());
            }
            assert_eq!(partial.status(), Status::Complete);
        });
    }

    #[divan::bench(args = SIZES)]
    fn jiter_partial(bencher: Bencher, size: usize) {
        let text = of_size(size);
        bencher.counter(BytesCount::of_str(&text)).bench(|| {
            for end in (4..=text.len()).step_by(4) {
                let prefix = &text.as_bytes()[..end];
                black_box(
                    JsonValue::parse_with_config(prefix, true, PartialMode::TrailingStrings)
                        .expect("a prefix of JSON"),
                );
            }
        });
    }
}
