//! However much work a schema would make, it costs no more than the budget: in steps, in bytes and in stack.

use callweave::ErrorKind;
use callweave::json::schema::{CoerceOptions, Schema, SchemaPolicy, StepBudget};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The definition of that number.
type Link = fn(usize) -> Value;

/// A chain of definitions, each made of the next, and a call of it.
fn chain(length: usize, link: impl Fn(usize) -> Value, end: Value) -> Value {
    let mut defs: Map<String, Value> = (0..length).map(|at| (format!("d{at}"), link(at))).collect();
    defs.insert(format!("d{length}"), end);
    json!({"type": "object", "$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}})
}

fn next(at: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{}", at + 1)})
}

/// Schemas that multiply, each with a value of which nothing may be said.
fn families() -> Vec<(&'static str, Value, Value)> {
    let string = || json!({"type": "string"});
    let number = || json!({"type": "integer", "minimum": 5});
    let text = || json!({"a": "x"});
    let object = || json!({"a": {"b": 1, "c": 2}});
    vec![
        ("allOf", chain(40, |at| json!({"allOf": [next(at), next(at)]}), string()), text()),
        ("anyOf", chain(24, |at| json!({"anyOf": [next(at), next(at)]}), number()), text()),
        ("oneOf", chain(40, |at| json!({"oneOf": [next(at), next(at)]}), number()), text()),
        (
            "allOf, oneOf",
            chain(40, |at| json!({"allOf": [next(at)], "oneOf": [next(at), false]}), string()),
            text(),
        ),
        ("not", chain(40, |at| json!({"allOf": [{"not": {"not": next(at)}}, next(at)]}), string()), text()),
        ("if", chain(40, |at| json!({"if": next(at), "then": next(at), "else": next(at)}), string()), text()),
        ("true", chain(40, |at| json!({"allOf": [next(at), next(at)]}), json!(true)), text()),
        (
            "dependentSchemas",
            chain(
                40,
                |at| json!({"dependentSchemas": {"b": next(at), "c": next(at)}}),
                json!({"type": "object"}),
            ),
            object(),
        ),
        (
            "unevaluatedProperties",
            chain(
                40,
                |at| json!({"anyOf": [next(at), next(at)], "unevaluatedProperties": false}),
                json!({"properties": {"b": true}}),
            ),
            object(),
        ),
        (
            "unevaluatedItems",
            chain(
                40,
                |at| json!({"anyOf": [next(at)], "unevaluatedItems": next(at)}),
                json!({"prefixItems": [true]}),
            ),
            json!({"a": [1, 2, 3]}),
        ),
        (
            "propertyNames",
            chain(40, |at| json!({"propertyNames": next(at), "allOf": [next(at), next(at)]}), json!(true)),
            object(),
        ),
        (
            "anchors",
            chain(
                40,
                |at| json!({"$anchor": format!("a{at}"), "allOf": [{"$ref": format!("#a{}", at + 1)}, next(at)]}),
                json!({"$anchor": "a40"}),
            ),
            text(),
        ),
        (
            "ids",
            chain(
                40,
                |at| json!({"$id": format!("i{at}"), "allOf": [{"$ref": format!("i{}", at + 1)}, {"$ref": format!("i{}", at + 1)}]}),
                json!({"$id": "i40", "type": "string"}),
            ),
            text(),
        ),
        (
            "dynamic",
            json!({"$dynamicAnchor": "n", "type": "object", "properties": {"a": {"anyOf": [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n"}]}}}),
            (0..60).fold(json!(1), |inner, _| json!({"a": inner})),
        ),
        (
            "contains",
            json!({"properties": {"a": {"items": {"contains": {"contains": {"const": 0}}}}}}),
            json!({"a": [vec![vec![1; 1000]; 1000]]}),
        ),
        (
            "uniqueItems",
            json!({"properties": {"a": {"uniqueItems": true}}}),
            json!({"a": (0..400_000).collect::<Vec<_>>()}),
        ),
        (
            "enum",
            json!({"properties": {"a": {"items": {"enum": (0..20_000).collect::<Vec<_>>()}}}}),
            json!({"a": vec![-1; 1000]}),
        ),
        ("pattern", json!({"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}}), text()),
        (
            "patterns",
            json!({"patternProperties": (0..2000).map(|at| (format!("[a-z]{{1,30}}{at}"), json!({}))).collect::<Map<_, _>>()}),
            json!({"abcdefghijklmnopqrstuvwxyz": 1, "b": 1, "c": 2}),
        ),
        (
            "looking around",
            json!({"properties": {"a": {"items": {"pattern": "^(?!b)(.*)\\1$"}}}}),
            json!({"a": vec!["aa"; 1000]}),
        ),
        (
            "required",
            json!({"properties": {"a": {"items": {"required": (0..20_000).map(|at| at.to_string()).collect::<Vec<_>>()}}}}),
            json!({"a": vec![(0..20_000).map(|at| (at.to_string(), json!(1))).collect::<Map<_, _>>(); 60]}),
        ),
    ]
}

/// Checks with a budget of `steps`, and returns the result with the bytes that were taken and the steps that were used.
fn checked(schema: &Schema, value: &Value, steps: u64) -> (callweave::Result<usize>, u64, u64) {
    let value: callweave::json::Value = value.into();
    let mut budget = StepBudget::new(steps);
    let mut found = Ok(0);
    let taken = allocation_counter::measure(|| {
        found = schema.validate_within(&value, &mut budget).map(|problems| problems.len());
    });
    (found, taken.bytes_max, steps - budget.left())
}

#[test]
fn no_schema_costs_more_than_the_budget() {
    for (name, schema, value) in families() {
        let schema = Schema::new(&schema);
        // The schema itself is read with the first check.
        let first = checked(&schema, &value, 0);
        assert_eq!(first.0.expect_err(name).kind(), ErrorKind::Limit, "{name}");
        let (found, bytes, _) = checked(&schema, &value, StepBudget::STEPS);
        let error = found.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
        // Compiled patterns apart, a step takes next to nothing.
        assert!(bytes < 40 << 20, "{name}: {bytes} bytes");
    }
}

/// The same schemas with a single branch are ordinary work, so that it is the budget that ends the others.
#[test]
fn the_same_words_without_the_growth_are_checked() {
    for (name, end) in [("valid", json!({"type": "string"})), ("invalid", json!({"type": "integer"}))] {
        for word in ["allOf", "anyOf", "oneOf"] {
            let schema = Schema::new(&chain(40, |at| json!({word: [next(at)]}), end.clone()));
            let (found, _, steps) = checked(&schema, &json!({"a": "x"}), StepBudget::STEPS);
            assert_eq!(found.expect(word).min(1), usize::from(name == "invalid"), "{word} {name}");
            assert!(steps < 2_000, "{word}: {steps}");
        }
    }
}

#[test]
fn fitting_costs_no_more_than_the_budget() {
    for (name, schema, value) in families() {
        let schema = Schema::new(&schema);
        let value: callweave::json::Value = (&value).into();
        let taken = allocation_counter::measure(|| {
            let fit = schema.coerce_within(&value, CoerceOptions::default(), &mut StepBudget::default());
            if let Err(error) = fit {
                assert_eq!(error.kind(), ErrorKind::Limit, "{name}");
            }
        });
        assert!(taken.bytes_max < 100 << 20, "{name}: {} bytes", taken.bytes_max);
        assert!(taken.count_total < 2_000_000, "{name}: {} allocations", taken.count_total);
    }
}

/// Text that could be many things is coerced to none of them when that takes too long.
#[test]
fn alternatives_inside_alternatives_are_not_fitted() {
    let one = |at: usize, name: &str| json!({"properties": {"x": next(at)}, "required": [name]});
    let both = |at: usize| json!({"anyOf": [one(at, "y"), one(at, "z")]});
    let schema = Schema::new(&chain(30, both, json!({"type": "null"})));
    let value = (0..30).fold(json!("1"), |inner, _| json!({"x": inner}));
    let value = json!({"a": value});
    let fit = schema.coerce_within(&value, CoerceOptions::default(), &mut StepBudget::default());
    assert_eq!(fit.expect_err("too many").kind(), ErrorKind::Limit);
    let applied = schema.apply(SchemaPolicy::Coerce, &value).expect("it passes");
    assert!(applied.is_unchecked && applied.problems.is_empty() && applied.value == value);
}

/// A policy that rejects invalid values reports that the validity is unknown.
#[test]
fn what_is_unchecked_is_told_apart_from_what_is_wrong() {
    let schema =
        Schema::new(&chain(40, |at| json!({"allOf": [next(at), next(at)]}), json!({"type": "string"})));
    let value = json!({"a": "x"});
    assert_eq!(schema.apply(SchemaPolicy::Reject, &value).expect_err("unknown").kind(), ErrorKind::Limit);
    let applied = schema.apply(SchemaPolicy::Validate, &value).expect("it passes");
    assert!(applied.is_unchecked && applied.problems.is_empty() && applied.value == value);
    assert_eq!(
        schema.apply(SchemaPolicy::Reject, &json!({"a": "x", "b": 1})).expect_err("unknown").kind(),
        ErrorKind::Limit
    );
    assert!(!schema.apply(SchemaPolicy::Validate, &json!({"b": 1})).expect("it passes").is_unchecked);
}

#[test]
fn a_schema_that_is_too_large_says_nothing() {
    let many: Map<String, Value> = (0..Schema::MAX_VALUES).map(|at| (at.to_string(), json!({}))).collect();
    for schema in [
        json!({"properties": many}),
        json!({"enum": vec![0; Schema::MAX_VALUES]}),
        json!({"required": ["x"], "description": "x".repeat(Schema::MAX_BYTES)}),
    ] {
        let schema = Schema::new(&schema);
        assert_eq!(schema.validate(&json!({})).expect_err("too large").kind(), ErrorKind::Limit);
        assert_eq!(schema.coerce(&json!({"a": "1"})).value, json!({"a": "1"}));
        assert!(schema.apply(SchemaPolicy::Coerce, &json!({})).expect("it passes").is_unchecked);
        assert!(schema.property("1").is_any());
    }
}

/// A schema as large as may be is read in one pass, however its parts refer to each other.
#[test]
fn reading_a_schema_grows_with_its_size_only() {
    let links: [(&str, Link); 5] = [
        ("pointers", |at| json!({"$ref": format!("#/$defs/d{}", at + 1)})),
        ("anchors", |at| json!({"$anchor": format!("a{at}"), "$ref": format!("#a{}", at + 1)})),
        ("ids", |at| json!({"$id": format!("http://h/i{at}"), "$ref": format!("i{}", at + 1)})),
        ("folders", |at| json!({"$id": format!("f{at}/"), "items": {"$id": "g/", "$ref": "#"}})),
        ("branches", |at| json!({"allOf": [next(at), next(at)], "anyOf": [next(at)]})),
    ];
    for (name, link) in links {
        let cost = |length: usize| {
            let schema = chain(
                length,
                link,
                json!({"$anchor": format!("a{length}"), "$id": format!("http://h/i{length}")}),
            );
            let schema: callweave::json::Value = (&schema).into();
            allocation_counter::measure(|| {
                let schema = Schema::new(&schema);
                let _ = schema.validate(&json!({"b": 1}));
            })
        };
        let (small, large) = (cost(500), cost(4000));
        assert!(
            large.count_total < small.count_total * 10,
            "{name}: {} {}",
            small.count_total,
            large.count_total
        );
        assert!(
            large.bytes_total < small.bytes_total * 12,
            "{name}: {} {}",
            small.bytes_total,
            large.bytes_total
        );
    }
}

/// A chain of references is followed so deep; then nothing is said.
#[test]
fn long_chains_are_not_followed() {
    let links: [(Link, Link); 3] = [
        (
            |at| json!({"$anchor": format!("a{at}"), "$ref": format!("#a{}", at + 1)}),
            |at| json!({"$anchor": format!("a{at}"), "type": "string"}),
        ),
        (
            |at| json!({"$id": format!("http://h/i{at}"), "$ref": format!("i{}", at + 1)}),
            |at| json!({"$id": format!("http://h/i{at}"), "type": "string"}),
        ),
        (|at| json!({"allOf": [next(at)]}), |_| json!({"type": "string"})),
    ];
    for (link, end) in links {
        let schema = |length: usize| Schema::new(&chain(length, link, end(length)));
        let short = schema(60).validate(&json!({"a": 5})).expect("the schema is valid");
        assert_eq!(short.len(), 1, "{short:?}");
        let long = schema(5_000).validate(&json!({"a": 5}));
        assert_eq!(long.expect_err("too deep").kind(), ErrorKind::Limit);
    }
}

/// Problems are bounded, and so are the words in which they are reported.
#[test]
fn what_is_told_is_bounded() {
    let key = "k".repeat(100_000);
    let schema = Schema::new(
        &json!({"additionalProperties": {"items": {"enum": ["x".repeat(100_000)]}}, "propertyNames": {"pattern": "^x".repeat(2000)}}),
    );
    let problems = schema.validate(&json!({key: vec![1; 1000]})).expect("the schema is valid");
    assert_eq!(problems.len(), 64);
    assert!(problems.iter().all(|problem| problem.path.len() + problem.detail.len() < 1_000));
}

fn any_link() -> impl Strategy<Value = (String, usize, usize)> {
    let word = prop::sample::select(vec![
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "items",
        "properties",
        "additionalProperties",
        "contains",
        "unevaluatedProperties",
        "unevaluatedItems",
        "dependentSchemas",
        "propertyNames",
    ]);
    (word.prop_map(str::to_owned), 0usize..12, 0usize..12)
}

/// Definitions that lead to each other at random, with as many words each as the list gives them.
fn tangled(links: &[(String, usize, usize)]) -> Value {
    let mut defs: Vec<Map<String, Value>> = vec![Map::new(); 12];
    for (at, (word, one, other)) in links.iter().enumerate() {
        let to = |id: &usize| json!({"$ref": format!("#/$defs/d{id}")});
        let value = match word.as_str() {
            "allOf" | "anyOf" | "oneOf" => json!([to(one), to(other)]),
            "properties" | "dependentSchemas" => json!({"a": to(one), "b": to(other)}),
            _ => to(one),
        };
        let own = &mut defs[at % 12];
        own.insert(word.clone(), value);
        if word == "if" {
            own.insert("then".to_owned(), to(other));
            own.insert("else".to_owned(), to(one));
        }
    }
    let defs: Map<String, Value> =
        defs.into_iter().enumerate().map(|(at, words)| (format!("d{at}"), Value::Object(words))).collect();
    json!({"$defs": defs, "$ref": "#/$defs/d0"})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The counted steps bound everything: allocations stay below a constant for each of them.
    #[test]
    fn work_is_what_was_counted(links in prop::collection::vec(any_link(), 12..60), depth in 1usize..40) {
        let schema = Schema::new(&tangled(&links));
        let value = (0..depth).fold(json!([1, "x"]), |inner, at| if at % 3 == 0 { json!([inner, 1]) } else { json!({"a": inner, "b": [1]}) });
        let steps = 20_000;
        let (first, _, _) = checked(&schema, &value, 0);
        prop_assert!(first.is_err());
        let value: callweave::json::Value = (&value).into();
        for is_fitting in [false, true] {
            let mut budget = StepBudget::new(steps);
            let taken = allocation_counter::measure(|| {
                let _ = match is_fitting {
                    true => schema.coerce_within(&value, CoerceOptions::default(), &mut budget).map(|_| ()),
                    false => schema.validate_within(&value, &mut budget).map(|_| ()),
                };
            });
            let used = steps - budget.left();
            prop_assert!(used <= steps);
            prop_assert!(taken.count_total <= 4 * used + 2_000, "{} allocations for {used} steps", taken.count_total);
        }
    }
}
