//! Streamed coercion gives the same result as coercion of the held text.

#[path = "../../../../tests/support/dice.rs"]
#[expect(dead_code, reason = "damaged text is no value")]
mod dice;

use dice::Dice;

use super::*;

/// Streaming and holding the text give the same value, changes and problems.
#[test]
fn flowing_is_holding() {
    let mut dice = Dice::new(7);
    let (mut all, mut entered, mut unchecked) = (0, 0, 0);
    for _ in 0..1_500 {
        let schema = Schema::new(&dice.schema());
        let missing = [
            MissingMembers::Keep,
            MissingMembers::Keep,
            MissingMembers::Empty,
            MissingMembers::Blank,
            MissingMembers::Infer,
        ];
        let options = CoerceOptions { missing: missing[dice.below(5)], ..CoerceOptions::default() };
        for _ in 0..3 {
            let Ok(value) = dice.text().parse::<Value>() else { continue };
            all += 1;
            let mut budget = StepBudget::default();
            let held = ValueCoercer::new(&schema.graph, options, SearchReach::Value, &mut budget)
                .fit(SchemaGraph::ROOT, &value);
            let flowed = StreamCoercer::new(&schema, options, StepBudget::default()).fit(&value);
            let (Ok(held), Ok((flowed, _))) = (held, flowed) else {
                unchecked += 1;
                continue;
            };
            entered += usize::from(value.is_object() && flowed.value.is_object());
            let held = CoercedValue::new(held, || value.clone());
            assert_eq!(flowed, held, "{value} with {schema:?}");
        }
    }
    assert!(entered * 2 > all && unchecked * 200 < all, "{entered} of {all}, {unchecked} unchecked");
}

/// Objects inside objects that are all decided by their last member.
#[test]
fn alternatives_inside_alternatives_come_to_an_end() {
    let branch = |word: &str, kind: &str| {
        serde_json::json!({"properties": {
            "n": {"type": kind}, "inner": {"$ref": "#"}, "kind": {"const": word}}})
    };
    let schema = Schema::new(&serde_json::json!({"oneOf": [branch("a", "integer"), branch("b", "string")]}));
    for (depth, steps) in [(3, StepBudget::STEPS), (90, u64::MAX), (90, StepBudget::STEPS)] {
        let mut text = String::from("{}");
        let mut expected = text.clone();
        for level in 0..depth {
            let (kind, n) = if level % 2 == 0 { ("a", "1") } else { ("b", "\"1\"") };
            text = format!(r#"{{"n":"1","inner":{text},"kind":"{kind}"}}"#);
            expected = format!(r#"{{"n":{n},"inner":{expected},"kind":"{kind}"}}"#);
        }
        let mut coercer = StreamCoercer::new(&schema, CoerceOptions::default(), StepBudget::new(steps));
        let mut out = String::new();
        coercer.push(&text, &mut out);
        coercer.finish(&mut out);
        if coercer.error().is_none() {
            assert_eq!(out, expected);
        }
        assert!(coercer.error().is_none() || depth > 3);
    }
}
