//! Partial values, looked at after every few bytes.

use callweave::json::ScanStatus;
use callweave::json::partial::{PartialValue, UnfinishedValues};
use callweave_growth::assert_linear;
use serde_json::json;

/// Reading all again with each delta would be quadratic.
#[test]
#[ignore = "counts work: cargo xtask growth"]
fn partial_values_are_linear() {
    let make = |shape, size| match shape {
        "one string" => json!({"content": "line of text\n".repeat(size / 14)}).to_string(),
        "many items" => json!({"items": vec![json!({"id": 7, "name": "x"}); size / 21]}).to_string(),
        _ => format!("{{\"n\":{}}}", "7".repeat(size)),
    };
    for shape in ["one string", "many items", "one number"] {
        assert_linear(shape, 20_000, 10, |size| {
            let text = make(shape, size);
            let mut partial = PartialValue::new(UnfinishedValues::StringsAndNumbers);
            for piece in text.as_bytes().chunks(4) {
                partial.push(std::str::from_utf8(piece).expect("the text is ASCII"));
                assert!(partial.value().is_some());
            }
            assert_eq!(partial.finish(), ScanStatus::Complete);
        });
    }
}
