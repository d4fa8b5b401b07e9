//! Laws of repair, over made-up documents and over noise.

use callweave::json::Value;
use callweave::json::repair::{ChangeClass, RepairOptions, RepairVerdict, apply, repair};
use proptest::prelude::*;

/// Pieces of JSON and of what models put in its place.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "\"",
    "'",
    "“",
    "”",
    "‘",
    "`",
    "```",
    "```json\n",
    "：",
    "，",
    "｛",
    "］",
    "＂",
    "\\",
    "\\\"",
    "\\n",
    "\\u",
    "\\u00e9",
    "\\ud83d",
    "\\'",
    "\n",
    " ",
    "\t",
    "\u{a0}",
    "\u{feff}",
    "\u{0}",
    "a",
    "key",
    "b c",
    "é",
    "😀",
    "0",
    "12",
    "-",
    "+",
    ".",
    "...",
    "1e",
    "e5",
    "_",
    "true",
    "True",
    "None",
    "nul",
    "NaN",
    "undefined",
    "//",
    "/*",
    "*/",
    "/",
    "#",
    "<!--",
    "-->",
    "<|call|>",
    "<|\"|>",
    ";",
    "=",
    "=>",
    "\"a\":",
    "\"a\": \"b\"",
    "{\"a\":1}",
    "[]",
    "{}",
    "{{",
    "}}",
    "\", \"",
    "\"\"",
    "\"\"\"",
    "ObjectId(\"1\")",
    "callback(",
    "new ",
    "Here it is: ",
    "http://x.y/",
    "$",
];

fn noise() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        "[ -~é😀\n\"\\\\]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-z \"é]{0,6}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every option that changes how a text is read.
fn all_options() -> [RepairOptions; 5] {
    let new = RepairOptions::new();
    [
        new,
        new.close_truncated(),
        new.prefix().close_truncated(),
        new.prefix().drop_unfinished_strings(),
        new.without_prose().allow(ChangeClass::Structural),
    ]
}

/// Checks the laws that hold for every text.
fn check(text: &str) {
    for options in all_options() {
        let repaired = options.repair(text);
        let Some(closed) = repaired.closed() else {
            assert!(repaired.text.is_empty() && repaired.changes.is_empty(), "{text:?}");
            continue;
        };
        assert!(serde_json::from_str::<Value>(closed).is_ok(), "{text:?} became {closed:?}");
        assert_eq!(apply(text, &repaired.changes), closed, "the changes replay, {text:?}");
        assert!(repaired.changes.is_sorted_by_key(|change| change.at), "{text:?}: {:?}", repaired.changes);
        let again = options.repair(closed);
        assert_eq!((again.verdict, &*again.text), (RepairVerdict::Valid, closed), "idempotent, {text:?}");
        match repaired.verdict {
            RepairVerdict::Valid => assert_eq!(closed, text),
            RepairVerdict::Repaired => assert_eq!(repaired.text, closed),
            RepairVerdict::Incomplete => assert!(repaired.text.is_empty() || options != RepairOptions::new()),
            RepairVerdict::Hopeless { .. } => unreachable!("a hopeless text has nothing to close"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2_000 } else { 200_000 }))]

    #[test]
    fn noise_never_gives_anything_but_json(text in noise()) {
        check(&text);
    }

    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn a_valid_document_is_a_fixed_point(value in value(), is_pretty in any::<bool>()) {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.expect("a value can be written");
        let repaired = repair(&text);
        prop_assert_eq!(repaired.verdict, RepairVerdict::Valid);
        prop_assert_eq!(repaired.text.as_ptr(), text.as_ptr());
    }

    #[test]
    fn a_prefix_is_never_passed_off_as_whole(value in value(), cut in any::<prop::sample::Index>()) {
        let text = serde_json::to_string(&serde_json::json!({ "all": value })).expect("a value can be written");
        let cut = (1..text.len()).filter(|&at| text.is_char_boundary(at)).nth(cut.index(text.chars().count() - 1));
        let prefix = &text[..cut.expect("the index is within the text")];
        let repaired = RepairOptions::new().prefix().repair(prefix);
        prop_assert_eq!(repaired.verdict, RepairVerdict::Incomplete, "{}", prefix);
        check(prefix);
    }

    #[test]
    fn a_damaged_document_is_survived(value in value(), place in any::<prop::sample::Index>(), piece in prop::sample::select(PIECES), takes in 0..3usize) {
        let mut characters: Vec<char> = serde_json::to_string(&value).expect("a value can be written").chars().collect();
        let at = place.index(characters.len());
        let end = (at + takes).min(characters.len());
        characters.splice(at..end, piece.chars());
        check(&characters.into_iter().collect::<String>());
    }
}

#[test]
fn depth_is_bounded_by_a_verdict_and_not_by_the_stack() {
    let valid = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(repair(&valid).verdict, RepairVerdict::Valid);
    for opener in ["[", "{\"a\":", "(", "[f("] {
        let verdict = repair(&opener.repeat(100_000)).verdict;
        assert!(matches!(verdict, RepairVerdict::Hopeless { .. }), "{opener}: {verdict:?}");
    }
}
