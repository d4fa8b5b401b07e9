//! Repair beside its peers. A peer that gives up on a shape, or makes something else of it, is not raced.

use std::rc::Rc;

use callweave::json::repair::repair;

use crate::measure::{Case, Row, Way};
use crate::peers::Outcome;

pub(crate) fn cases() -> Vec<Case> {
    let case = |shape: &'static str| Case {
        group: "Repair",
        name: format!("repair, {shape}"),
        unit: "kB",
        pieces: 5,
        target: None,
        make: Box::new(move |_| row(shape)),
    };
    SHAPES.into_iter().map(case).collect()
}

fn row(shape: &str) -> Row {
    let text: Rc<str> = text(shape).into();
    let [ours, other] = [(); 2].map(|()| Rc::clone(&text));
    let options = llm_json::RepairOptions::default();
    Row {
        pieces: 5,
        ways: vec![
            Way::new("callweave", move || made(repair(&ours).closed().map(str::to_owned))),
            Way::new("jsonrepair-rs", move || made(jsonrepair_rs::jsonrepair(&other).ok())),
            Way::new("llm_json", move || made(llm_json::repair_json(&text, &options).ok())),
        ],
    }
}

fn made(repaired: Option<String>) -> Outcome {
    Outcome::of_json(|| repaired.unwrap_or_default())
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
