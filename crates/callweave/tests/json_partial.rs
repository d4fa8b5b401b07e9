//! Partial values: the cases in `data/json/partial`, and the laws that hold for every document.
//!
//! A case is `input.txt`; `expected.txt` holds the expected events, and is written anew by `BLESS=1`.

use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr as _;

use callweave::json::partial::{PartialValue, UnfinishedValues, ValueChange, ValueChangeKind};
use callweave::json::{ScanStatus, Value};
use proptest::prelude::*;
use serde_json::json;

const POLICIES: [UnfinishedValues; 3] =
    [UnfinishedValues::Hidden, UnfinishedValues::Strings, UnfinishedValues::StringsAndNumbers];

/// Returns the events of a text that comes in pieces, a line each, adjacent growth merged; and the end.
fn told<'t>(pieces: impl Iterator<Item = &'t str>) -> String {
    let mut lines: Vec<(String, &str, String)> = Vec::new();
    let mut partial = PartialValue::new(UnfinishedValues::Strings);
    let mut take = |progress: ValueChange<'_>| {
        let path = progress.path.to_string();
        match progress.change {
            ValueChangeKind::Started(kind) => lines.push((path, "started", format!("{kind:?}"))),
            ValueChangeKind::Completed(value) => lines.push((path, "completed", value.to_string())),
            ValueChangeKind::Grew(text) => match lines.last_mut() {
                Some((last, "grew", all)) if *last == path => all.push_str(text),
                _ => lines.push((path, "grew", text.to_owned())),
            },
        }
    };
    for piece in pieces {
        partial.push_to(piece, &mut take);
    }
    let status = partial.finish_to(&mut take);
    let mut out = String::new();
    for (path, word, detail) in lines {
        let detail = if word == "grew" { format!("{detail:?}") } else { detail };
        writeln!(out, "{path} {word} {detail}").expect("writing to a string");
    }
    let value = partial.into_value().map_or("nothing".to_owned(), |value| value.to_string());
    writeln!(out, "{status:?}: {value}").expect("writing to a string");
    out
}

fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, letter)| &text[at..at + letter.len_utf8()])
}

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/json/partial");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the cases are there") {
        let case = entry.expect("a readable folder").path();
        let input = std::fs::read_to_string(case.join("input.txt")).expect("a case has an input");
        let whole = told(std::iter::once(input.as_str()));
        assert_eq!(told(characters(&input)), whole, "{case:?}, by characters");
        for (cut, _) in input.char_indices() {
            assert_eq!(told([&input[..cut], &input[cut..]].into_iter()), whole, "{case:?}, cut at {cut}");
        }
        let expected = case.join("expected.txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &whole).expect("the case can be written");
        }
        assert_eq!(whole, std::fs::read_to_string(&expected).unwrap_or_default(), "{case:?}");
        count += 1;
    }
    assert!(count > 0, "no cases in {folder:?}");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has none", |number| number.is_finite()).prop_map(Value::from),
        "[0-9]{1,40}".prop_map(|digits| {
            let digits = digits.trim_start_matches('0');
            Value::from_str(if digits.is_empty() { "0" } else { digits }).expect("digits are a number")
        }),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether `later` is `earlier` with nothing changed but the growing end.
fn continues(earlier: &Value, later: &Value, is_last: bool) -> bool {
    match (earlier, later) {
        (Value::Array(earlier), Value::Array(later)) => {
            let last = earlier.len().saturating_sub(1);
            earlier.len() <= later.len()
                && earlier
                    .iter()
                    .zip(later)
                    .enumerate()
                    .all(|(at, (earlier, later))| continues(earlier, later, is_last && at == last))
        }
        (Value::Object(earlier), Value::Object(later)) => {
            let last = earlier.len().saturating_sub(1);
            earlier.len() <= later.len()
                && earlier.iter().zip(later).enumerate().all(|(at, (earlier, later))| {
                    earlier.0 == later.0 && continues(earlier.1, later.1, is_last && at == last)
                })
        }
        (Value::String(earlier), Value::String(later)) if is_last => later.starts_with(earlier.as_str()),
        (Value::Number(_), Value::Number(_)) if is_last => true,
        _ => earlier == later,
    }
}

proptest! {
    #[test]
    fn the_whole_is_what_serde_json_reads(value in any_value(), is_pretty: bool, size in 1usize..9) {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.expect("a value can be written");
        let expected: Value = text.parse().expect("what was written can be read");
        prop_assert_eq!(&expected, &value);
        for growing in POLICIES {
            let mut partial = PartialValue::new(growing);
            let letters: Vec<&str> = characters(&text).collect();
            for piece in letters.chunks(size) {
                partial.push(&piece.concat());
            }
            prop_assert_eq!(partial.finish(), ScanStatus::Complete);
            prop_assert_eq!(partial.value().map(Value::to_string), Some(expected.to_string()));
        }
    }

    #[test]
    fn what_is_complete_never_changes(value in any_value()) {
        let text = value.to_string();
        for growing in POLICIES {
            let mut partial = PartialValue::new(growing);
            let mut earlier = None;
            for letter in characters(&text) {
                partial.push(letter);
                let later = partial.value().cloned();
                if let (Some(earlier), Some(later)) = (&earlier, &later) {
                    prop_assert!(continues(earlier, later, true), "{earlier} became {later}");
                }
                prop_assert!(earlier.is_none() || later.is_some());
                earlier = later;
            }
        }
    }

    #[test]
    fn no_text_at_all_is_a_panic(text in r#"[\[\]{}":,\\u0-9a-f eE.+truenalsé\n-]{0,60}"#) {
        for growing in POLICIES {
            let mut whole = PartialValue::new(growing);
            whole.push(&text);
            whole.finish();
            let mut pieces = PartialValue::new(growing);
            for letter in characters(&text) {
                pieces.push(letter);
            }
            pieces.finish();
            prop_assert_eq!(whole.status(), pieces.status());
            if whole.status() == ScanStatus::Complete {
                prop_assert_eq!(whole.value(), pieces.value());
            }
        }
    }
}

fn grow(text: &str) {
    let mut partial = PartialValue::new(UnfinishedValues::StringsAndNumbers);
    let mut is_seen = true;
    for piece in text.as_bytes().chunks(4) {
        partial.push(std::str::from_utf8(piece).expect("the text is ASCII"));
        is_seen &= partial.value().is_some();
    }
    assert!(is_seen && partial.finish() == ScanStatus::Complete);
}

/// Four bytes at a time, ten times the text allocates about ten times as much; copying all again with each
/// delta would make it a hundred.
#[test]
fn a_megabyte_in_small_deltas_allocates_in_proportion() {
    let make = |shape, size| match shape {
        "one string" => json!({"content": "line of text\n".repeat(size / 14)}).to_string(),
        "many items" => json!({"items": vec![json!({"id": 7, "name": "x"}); size / 21]}).to_string(),
        _ => format!("{{\"n\":{}}}", "7".repeat(size)),
    };
    for shape in ["one string", "many items", "one number"] {
        let (small, large) = (make(shape, 100_000), make(shape, 1_000_000));
        let [few, many] = [&small, &large].map(|text| allocation_counter::measure(|| grow(text)));
        assert!(many.count_total <= few.count_total * 11, "{shape}: {few:?} became {many:?}");
        assert!(many.bytes_total <= few.bytes_total * 25, "{shape}: {few:?} became {many:?}");
    }
    let one_string = allocation_counter::measure(|| grow(&make("one string", 1_000_000)));
    assert!(one_string.count_total < 100, "a growing string is not copied per delta: {one_string:?}");
}
