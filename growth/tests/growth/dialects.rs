//! Dialects: many calls, and texts that invite to hold back or to look again.

use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Extractor, Tools};
use callweave::event::Event;
use callweave_growth::assert_linear;
use serde_json::json;

#[test]
#[ignore = "counts work: cargo xtask growth"]
fn many_calls_in_one_piece_are_linear() {
    let call = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"the sky\"}}</tool_call>\n";
    let options = ExtractOptions::new("hermes").expect("hermes");
    assert_linear("many calls", 400, 10, |count| {
        let text = call.repeat(count);
        assert_eq!(Extraction::of(&text, &options).calls.len(), count);
    });
}

/// Openers that open nothing, brackets, quotes, white space: everything that may be held back or looked at again.
#[test]
#[ignore = "counts work: cargo xtask growth"]
fn nasty_texts_of_every_other_dialect_are_linear() {
    nasty_texts(0);
}

/// The rest of them: the two run side by side.
#[test]
#[ignore = "counts work: cargo xtask growth"]
fn nasty_texts_of_the_dialects_between_are_linear() {
    nasty_texts(1);
}

fn nasty_texts(first: usize) {
    let tools =
        Tools::from_json(&json!([{"name": "get_weather", "parameters": {"properties": {"city": {}}}}]));
    for dialect in DialectRegistry::builtin().dialects().iter().skip(first).step_by(2) {
        let options = ExtractOptions::with_dialects(vec![dialect.clone()]).tools(tools.clone());
        let openers = dialect.forms.iter().flat_map(|form| &form.open);
        let opener =
            openers.map(|open| open.replace("{word}", "").replace("{suffix}", "")).next().unwrap_or_default();
        let (before, after) = dialect.example.split_once("Oslo").expect("every example asks about Oslo");
        let started = format!("{opener}{{\"a");
        let closers: Vec<String> =
            dialect.forms.iter().flat_map(|form| &form.close).map(|close| format!("\n{close}")).collect();
        let pieces =
            [&*opener, &*started, before, after, "[", "{", " ", "<", "\\", "\"", "'a ", "\n", "`", "\r", ")"];
        // Tags of other parameters and calls, each on a line.
        let other = format!("\n{}", before.replace("city", "other").trim_start());
        let others = closers.iter().chain([&other]).map(String::as_str);
        let pieces = pieces.into_iter().chain(others).chain(["\n<parameter=x>", "\n<arg_key>x</arg_key>"]);
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            for prefix in ["", before] {
                assert_linear(&format!("{} {prefix:?} {piece:?}", dialect.name), 2_000, 8, |size| {
                    let text = prefix.to_owned() + &piece.repeat(size / piece.len());
                    read(&options, text.split_inclusive(|_| true));
                    read(&options, [text.as_str()]);
                });
            }
        }
    }
}

fn read<'t>(options: &ExtractOptions, pieces: impl IntoIterator<Item = &'t str>) {
    let mut extractor = Extractor::new(options);
    let mut sink = |event: Event<'_>| drop(std::hint::black_box(event));
    for piece in pieces {
        extractor.push(piece, &mut sink);
    }
    extractor.finish(&mut sink);
}
