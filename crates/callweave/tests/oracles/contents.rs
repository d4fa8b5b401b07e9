//! Contents are never calls: a call whose value is made of markers is read as that call and no other.
//!
//! The first byte chooses the dialect, the second how it is read and what stands between the pieces; every further
//! pair of bytes, up to three, is a piece of the value.

use std::sync::LazyLock;

use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Tools};
use serde_json::{Value, json};

#[path = "../contents/written.rs"]
mod written;

use written::{Template, Untold, pieces};

static TEMPLATES: LazyLock<Vec<Template>> =
    LazyLock::new(|| DialectRegistry::builtin().dialects().iter().map(Template::of).collect());
static PIECES: LazyLock<Vec<String>> = LazyLock::new(|| pieces(DialectRegistry::builtin().dialects()));
static TOOLS: LazyLock<Tools> = LazyLock::new(|| {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    Tools::from_json(&json!([{"name": "get_weather", "parameters": schema}]))
});

pub(crate) fn check(input: &[u8]) {
    let [dialect, how, chosen @ ..] = input else { return };
    let template = &TEMPLATES[usize::from(*dialect) % TEMPLATES.len()];
    let piece = |pair: &[u8]| {
        let number = pair.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        PIECES[number % PIECES.len()].as_str()
    };
    let pieces: Vec<&str> = chosen.chunks(2).take(3).map(piece).collect();
    let value = pieces.join(["", "\n", " ", "a"][usize::from(how >> 1 & 3)]);
    let name = if how & 1 == 1 { "auto" } else { &template.name };
    let options = ExtractOptions::new(name).expect("a dialect").tools(TOOLS.clone());
    let text = template.write(&value);
    let found = Extraction::of(&text, &options);
    let valid: Vec<_> = found.calls.iter().filter(|call| call.invalid().is_none()).collect();
    let is_same = match (&valid[..], found.calls.len()) {
        ([call], 1) => {
            let arguments = serde_json::from_str::<Value>(call.arguments()).unwrap_or_default();
            call.name == "get_weather" && arguments == json!({"city": value})
        }
        _ => false,
    };
    let untold = template.untold(&value);
    let is_untold = untold.is_some_and(|why| valid.len() <= 1 || why == Untold::End);
    assert!(is_same || is_untold, "{name}: {text:?} reads as {:#?}", found.calls);
}
