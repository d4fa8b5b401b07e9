//! Every dialect, its texts nested at every bracket and every tag of its own cases.

use std::fs;

use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Extractor, Tools};
use callweave::event::{Event, Sink};
use callweave::grammar::EventValidator;

use super::laws::{boundary, data, folders, name};
use super::nesting::nested;
use super::{NEEDLE, STACK, levels, on_a_stack_of};

/// The brackets that models nest: of JSON and of Python, and elements.
const BRACKETS: [(&str, &str); 6] =
    [("[", "]"), ("{\"a\":", "}"), ("{'a':", "}"), ("(", ")"), ("f(a=", ")"), ("<a>", "</a>")];

/// The places in a text where something begins: after an opening bracket, sign or tag.
fn places(text: &str) -> Vec<usize> {
    text.match_indices(['[', '{', '(', '>', ':', '=', '"']).map(|(at, sign)| at + sign.len()).collect()
}

/// The marks of a text itself, as openers: everything in angle brackets, and fences.
fn marks(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('<') {
        if let Some(end) = text[at..].find('>') {
            found.push(&text[at..=at + end]);
        }
    }
    found.extend(text.lines().filter(|line| line.starts_with(['~', '`'])));
    found.sort_unstable();
    found.dedup();
    found
}

/// Extracts from `text`, in two pieces split at `cut`. The sources of the events tile it, so nothing is lost.
fn check(text: &str, cut: usize, options: &ExtractOptions) {
    let mut validator = EventValidator::of_blocks();
    let mut sources = Vec::new();
    let mut sink = |event: Event<'_>| {
        sources.push(event.source);
        validator.put(event);
    };
    let mut extractor = Extractor::new(options);
    let (before, after) = text.split_at(boundary(text, cut));
    extractor.push(before, &mut sink);
    extractor.push(after, &mut sink);
    extractor.finish(&mut sink);
    let shown = &text[..boundary(text, 300)];
    assert_eq!(validator.faults(), [""; 0], "{shown}");
    sources.retain(|span| !span.is_empty());
    sources.sort_by_key(|span| span.start);
    let end = sources.iter().try_fold(0, |at, span| (span.start == at).then_some(span.end));
    assert_eq!(end, Some(text.len() as u64), "{shown}");
    let whole = Extraction::of(text, options);
    serde_json::to_string(&whole).expect("what was extracted serialises");
}

fn nest_everywhere(dialect: &str) -> usize {
    let tools = fs::read_to_string(data("dialect").join("tools.json")).expect("default tools");
    let tools = Tools::from_json(&serde_json::from_str::<serde_json::Value>(&tools).expect("tools are JSON"));
    let options = ExtractOptions::new(dialect).expect("a dialect of that name").tools(tools);
    let mut count = 0;
    // The first case shows what the dialect looks like.
    for case in folders(&data("dialect").join(dialect)).iter().take(CASES) {
        let text = fs::read_to_string(case.join("input.txt")).expect("an input");
        let places = places(&text);
        let step = (places.len() / PLACES).max(1);
        let marks = marks(&text);
        let openers: Vec<(&str, &str)> =
            BRACKETS.into_iter().chain(marks.iter().map(|&mark| (mark, ""))).collect();
        for &at in places.iter().step_by(step) {
            for &(open, close) in &openers {
                let deep = nested(open, NEEDLE, close, levels(open));
                let (before, after) = text.split_at(at);
                check(&format!("{before}{deep}{after}"), at + deep.len() / 2, &options);
                count += 1;
            }
        }
    }
    count
}

/// The number of cases of a dialect, and the approximate number of places of each, that are nested.
const CASES: usize = 2;
const PLACES: usize = 2;

#[test]
fn every_dialect() {
    let held = folders(&data("dialect")).iter().map(|path| name(path)).collect::<Vec<_>>();
    let names = DialectRegistry::builtin()
        .dialects()
        .iter()
        .map(|dialect| dialect.name.clone())
        .chain(["auto".into()]);
    for dialect in names {
        assert!(held.contains(&dialect), "{dialect} has no cases");
        on_a_stack_of(STACK, move || {
            let count = nest_everywhere(&dialect);
            println!("{dialect}: {count} inputs");
            assert!(count > 10, "{dialect}: only {count} inputs");
        });
    }
}
