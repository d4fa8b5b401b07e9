//! A model's text in deltas of four bytes: arguments of a call, and text without any marker.

use callweave::dialect::{DialectRegistry, ExtractOptions, Extractor, Tools};
use callweave::event::{Event, EventKind};
use serde_json::json;

use crate::measure::{Aim, Case, Row, Target, Way};
use crate::peers::Outcome;

const DIALECTS: [&str; 8] =
    ["hermes", "qwen3_coder", "deepseek_v31", "kimi_k2", "glm47", "gemma4", "pythonic", "minimax_m3"];
const DELTA: &str = "word";
/// Letters as they stand in English, some of which begin markers.
const PROSE: &str = "A model that has no tools of its own writes what it wants to call into its answer, and whoever reads the \
    answer has to find it there. Most of what it writes is for people, though, and looks like this: plain words, a few \
    commas, now and then a number such as 42 or the name of a city. ";
/// 100 kB.
const DELTAS: usize = 25_000;
/// The maximum cost of an argument delta, and of plain text.
const MAX: f64 = 170.0;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = DIALECTS
        .into_iter()
        .map(|name| {
            case(format!("{name}: argument delta"), Aim::Instructions(MAX), move |deltas| {
                vec![argument("callweave", name, deltas)]
            })
        })
        .collect();
    cases.push(case("hermes: plain text delta", Aim::Instructions(MAX), |deltas| {
        vec![plain("callweave", "hermes", deltas), argument("an argument delta", "hermes", deltas)]
    }));
    cases.push(case("auto: plain text delta", Aim::Ratio(0.5), |deltas| {
        vec![plain("callweave", "auto", deltas), plain("one dialect", "hermes", deltas)]
    }));
    cases.push(case("hermes: delta of English", Aim::Instructions(MAX), |deltas| {
        vec![prose("callweave", "hermes", deltas)]
    }));
    cases.push(case("auto: delta of English", Aim::Ratio(0.5), |deltas| {
        vec![prose("callweave", "auto", deltas), prose("one dialect", "hermes", deltas)]
    }));
    cases
}

fn case(name: impl Into<String>, aim: Aim, ways: impl Fn(usize) -> Vec<Way> + 'static) -> Case {
    Case {
        group: "Dialects",
        name: name.into(),
        unit: "delta",
        pieces: DELTAS,
        target: Some(Target(3, aim)),
        make: Box::new(move |pieces| Row { pieces, ways: ways(pieces) }),
    }
}

fn options(name: &str) -> ExtractOptions {
    let tools = json!([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]);
    ExtractOptions::new(name).expect("a dialect of the table").tools(Tools::from_json(&tools))
}

/// A call with one long string argument.
fn argument(way: &'static str, name: &str, deltas: usize) -> Way {
    let dialect = DialectRegistry::builtin().find(name).expect("a dialect of the table");
    let (before, after) = dialect.example.split_once("Oslo").expect("an example with this city");
    let (before, after, options) = (before.to_owned(), after.to_owned(), options(name));
    let pieces = vec![DELTA; deltas];
    Way::new(way, move || extract(&options, &before, &pieces, &after))
}

fn plain(way: &'static str, name: &str, deltas: usize) -> Way {
    let (options, pieces) = (options(name), vec![DELTA; deltas]);
    Way::new(way, move || extract(&options, "", &pieces, ""))
}

fn prose(way: &'static str, name: &str, deltas: usize) -> Way {
    let options = options(name);
    let pieces = (0..PROSE.len() / 4).map(|at| &PROSE[4 * at..4 * at + 4]);
    let pieces: Vec<&'static str> = pieces.cycle().take(deltas).collect();
    Way::new(way, move || extract(&options, "", &pieces, ""))
}

/// Whether the deltas came out as long as they went in.
fn extract(options: &ExtractOptions, before: &str, pieces: &[&str], after: &str) -> Outcome {
    let mut shown = 0;
    let mut sink = |event: Event<'_>| {
        if let EventKind::Delta { text, .. } = &event.body {
            shown += text.len();
        }
    };
    let mut extractor = Extractor::new(options);
    extractor.push(before, &mut sink);
    for piece in pieces {
        extractor.push(piece, &mut sink);
    }
    extractor.push(after, &mut sink);
    extractor.finish(&mut sink);
    Outcome::of_text(if shown >= DELTA.len() * pieces.len() { "all" } else { "not all" })
}
