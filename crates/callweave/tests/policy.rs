//! The page that defines a call: every block in it is as it says.

use std::path::Path;

use callweave::arguments::ArgumentStage;
use callweave::dialect::{ExtractOptions, Extraction, Extractor, Tools};
use callweave::event::Event;
use serde_json::json;

/// A block of the page: the words behind its fence, and what it holds.
fn blocks(page: &str) -> Vec<(Vec<&str>, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(Vec<&str>, Vec<&str>)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("~~~")) {
            (None, Some(words)) => open = Some((words.split(' ').collect(), Vec::new())),
            (Some(_), Some(_)) => {
                let (words, lines) = open.take().expect("it is open");
                blocks.push((words, lines.join("\n")));
            }
            (Some((_, lines)), None) => lines.push(line),
            (None, None) => {}
        }
    }
    blocks
}

fn tools() -> Tools {
    let strings = |names: &[&str]| {
        let properties = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        json!({"type": "object", "properties": properties.collect::<serde_json::Map<_, _>>()})
    };
    Tools::from_json(&json!([
        {"name": "get_weather", "parameters": strings(&["city"])},
        {"name": "write_file", "parameters": strings(&["path", "content"])},
    ]))
}

#[test]
fn every_block_is_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/what-is-a-call.md");
    let Ok(page) = std::fs::read_to_string(&path) else {
        println!("{} is not here: a package has no pages", path.display());
        return;
    };
    let blocks = blocks(&page);
    assert!(blocks.len() > 25, "{} blocks", blocks.len());
    for (words, text) in blocks {
        let word = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let mut options = ExtractOptions::new(word("dialect=").unwrap_or("auto")).expect("a dialect");
        if word("tools=") != Some("none") {
            options = options.tools(tools());
        }
        let mut mend = ArgumentStage::new();
        if words.contains(&"repair") {
            mend = mend.repair();
        }
        let (mut found, mut extractor) = (Extraction::default(), Extractor::new(&options));
        extractor.push(&text, &mut |event: Event<'_>| mend.push(event, &mut found));
        extractor.finish(&mut |event: Event<'_>| mend.push(event, &mut found));
        mend.finish(&mut found);
        let valid = found.calls.iter().filter(|call| call.invalid().is_none()).count();
        let count = word("calls=").map_or(1, |count| count.parse().expect("a number"));
        let is_so = match words[0] {
            "call" => valid == count,
            "marked" => valid == 0 && found.calls.len() == count,
            "text" => found.calls.is_empty() && found.content == text,
            other => panic!("{other:?} is no verdict"),
        };
        assert!(is_so, "{words:?} {text:?}: {found:#?}");
    }
}
