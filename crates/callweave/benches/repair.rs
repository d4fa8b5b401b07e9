//! Repair beside its peers: read the rows of one shape as ratios. A peer that gives up on a shape, or
//! gives back a fraction of it, looks fast; what each made of the shapes is printed first.

use callweave::json::repair::{Verdict, repair};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

fn main() {
    let options = llm_json::RepairOptions::default();
    for shape in SHAPES {
        let text = text(shape);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        let ours = repair(&text).closed().and_then(value);
        let same = |theirs: Option<String>| theirs.as_deref().and_then(value) == ours;
        println!(
            "{shape}: same value from jsonrepair-rs {}, llm_json {}",
            same(jsonrepair_rs::jsonrepair(&text).ok()),
            same(llm_json::repair_json(&text, &options).ok()),
        );
    }
    divan::main();
}

const SHAPES: [&str; 5] = ["valid", "python", "inner quotes", "cut off", "prose and fence"];

/// About 5 kB of tool arguments, broken in one way.
fn text(shape: &str) -> String {
    let list = |item: &str| format!("[{}]", vec![item; 60].join(", "));
    let valid =
        list(r#"{"id": 17, "path": "src/main.rs", "is_new": false, "range": [12, 48], "owner": null}"#);
    match shape {
        "valid" => valid,
        "python" => {
            list("{'id': 17, 'path': 'src/main.rs', 'is_new': False, 'range': (12, 48,), 'owner': None,}")
        }
        "inner quotes" => {
            list(r#"{"id": 17, "text": "she said "yes" and "no", then left", "html": "<a href="x">y</a>"}"#)
        }
        "cut off" => valid[..valid.len() - 20].to_owned(),
        "prose and fence" => format!("Here is what you asked for:\n```json\n{valid}\n```\nAnything else?"),
        _ => unreachable!("all shapes are listed"),
    }
}

#[divan::bench(args = SHAPES, sample_count = 50)]
fn callweave(bencher: Bencher, shape: &str) {
    let text = text(shape);
    assert!(!matches!(repair(&text).verdict, Verdict::Hopeless { .. }));
    bencher.counter(BytesCount::of_str(&text)).bench(|| repair(black_box(&text)));
}

#[divan::bench(args = SHAPES, sample_count = 50)]
fn jsonrepair_rs(bencher: Bencher, shape: &str) {
    let text = text(shape);
    bencher.counter(BytesCount::of_str(&text)).bench(|| jsonrepair_rs::jsonrepair(black_box(&text)));
}

#[divan::bench(args = SHAPES, sample_count = 20)]
fn llm_json(bencher: Bencher, shape: &str) {
    let text = text(shape);
    let options = llm_json::RepairOptions::default();
    bencher.counter(BytesCount::of_str(&text)).bench(|| llm_json::repair_json(black_box(&text), &options));
}
