//! Repair beside its peers: read the rows of one shape as ratios. A peer that gives up on a shape, or makes
//! something else of it, cannot be raced; what each made of the shapes is printed first.

use callweave::json::repair::{Verdict, repair};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use serde_json::Value;

fn main() {
    let options = llm_json::RepairOptions::default();
    for shape in SHAPES {
        let text = text(shape);
        println!(
            "{shape:16} jsonrepair-rs: {:16} llm_json: {}",
            outcome(&text, jsonrepair_rs::jsonrepair(&text).ok()),
            outcome(&text, llm_json::repair_json(&text, &options).ok()),
        );
    }
    divan::main();
}

/// What a peer made of `text`, measured by what we make of it.
fn outcome(text: &str, theirs: Option<String>) -> &'static str {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    match theirs {
        None => "refuses",
        Some(theirs) if value(&theirs) == repair(text).closed().and_then(value) => "the same value",
        Some(_) => "a wrong value",
    }
}

const SHAPES: [&str; 12] = [
    "valid",
    "single quotes",
    "trailing commas",
    "missing commas",
    "unquoted keys",
    "comments",
    "raw line ends",
    "python",
    "inner quotes",
    "cut off",
    "missing closers",
    "prose and fence",
];

/// About 5 kB of tool arguments, broken in one way.
fn text(shape: &str) -> String {
    let edits = |edit: &str| format!(r#"{{"edits": [{}]}}"#, vec![edit; 60].join(", "));
    let valid =
        edits(r#"{"id": 17, "path": "src/main.rs", "is_new": false, "range": [12, 48], "owner": null}"#);
    match shape {
        "valid" => valid,
        "single quotes" => valid.replace('"', "'"),
        "trailing commas" => valid.replace("48]", "48,]").replace("null}", "null,}"),
        "missing commas" => valid.replace(", \"", " \""),
        "unquoted keys" => {
            edits(r#"{id: 17, path: "src/main.rs", is_new: false, range: [12, 48], owner: null}"#)
        }
        "comments" => {
            valid.replace("\"path\"", "/* the file */ \"path\"").replace("false, ", "false, // no\n")
        }
        "raw line ends" => valid.replace("src/main.rs", "fn main() {\n}"),
        "python" => {
            edits("{'id': 17, 'path': 'src/main.rs', 'is_new': False, 'range': (12, 48,), 'owner': None,}")
        }
        "inner quotes" => {
            edits(r#"{"id": 17, "text": "she said "yes" and "no", then left", "html": "<a href="x">y</a>"}"#)
        }
        "cut off" => valid[..valid.len() - 20].to_owned(),
        "missing closers" => valid[..valid.len() - 2].to_owned(),
        "prose and fence" => format!("Here is what you asked for:\n```json\n{valid}\n```\nAnything else?"),
        _ => unreachable!("all shapes are listed"),
    }
}

#[divan::bench(args = SHAPES, sample_count = 100)]
fn callweave(bencher: Bencher, shape: &str) {
    let text = text(shape);
    assert!(!matches!(repair(&text).verdict, Verdict::Hopeless { .. }));
    bencher.counter(BytesCount::of_str(&text)).bench(|| repair(black_box(&text)));
}

#[divan::bench(args = SHAPES, sample_count = 100)]
fn jsonrepair_rs(bencher: Bencher, shape: &str) {
    let text = text(shape);
    bencher.counter(BytesCount::of_str(&text)).bench(|| jsonrepair_rs::jsonrepair(black_box(&text)));
}

#[divan::bench(args = SHAPES, sample_count = 100)]
fn llm_json(bencher: Bencher, shape: &str) {
    let text = text(shape);
    let options = llm_json::RepairOptions::default();
    bencher.counter(BytesCount::of_str(&text)).bench(|| llm_json::repair_json(black_box(&text), &options));
}
