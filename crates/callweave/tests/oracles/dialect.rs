//! Dialects: any split of a text gives the same events, which are well formed and account for every byte.
//!
//! The first byte chooses the dialect, the second the declared tools and the state in which the text begins; the
//! rest is the text.

use std::sync::LazyLock;

use callweave::dialect::{DialectRegistry, ExtractOptions, TextStart, Tools};
use serde_json::json;

#[path = "../dialects/laws.rs"]
mod laws;

/// Every dialect, and last all of them at once.
static DIALECTS: LazyLock<Vec<ExtractOptions>> = LazyLock::new(|| {
    let names = DialectRegistry::builtin().dialects().iter().map(|dialect| dialect.name.as_str());
    names.chain(["auto"]).map(|name| ExtractOptions::new(name).expect("a dialect")).collect()
});

static TOOLS: LazyLock<Tools> = LazyLock::new(|| {
    Tools::from_json(&json!([{"name": "get_weather", "parameters": {"properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "detail": {"type": ["boolean", "null"]},
        "options": {"type": "object"},
        "hours": {"type": "array", "items": {"type": "integer"}},
    }}}]))
});

/// The byte that chooses a dialect.
pub(crate) fn choice(name: &str) -> u8 {
    let dialects = DialectRegistry::builtin().dialects();
    dialects.iter().position(|dialect| dialect.name == name).unwrap_or(dialects.len()) as u8
}

pub(crate) fn check(input: &[u8]) {
    let [dialect, how, text @ ..] = input else { return };
    let text = String::from_utf8_lossy(text);
    let mut options = DIALECTS[usize::from(*dialect) % DIALECTS.len()].clone();
    if how & 1 == 1 {
        options = options.tools(TOOLS.clone());
    }
    match how >> 1 & 3 {
        1 => options = options.starting_in(TextStart::Text),
        2 => options = options.starting_in(TextStart::Reasoning),
        _ => {}
    }
    if let Err(difference) = laws::check(&text, &options) {
        panic!("{text:?}: {difference}");
    }
}
