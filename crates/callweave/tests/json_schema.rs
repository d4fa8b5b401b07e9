//! Fitting to a schema: the cases in `data/json/schema`, laws, and the shared vectors.
//!
//! A case is `schema.json` with `input.json` (a value) or `input.txt` (a response); `expected.json` is the expected
//! result, and is written anew by `BLESS=1`.

#[path = "support/record.rs"]
mod record;
#[path = "support/schema_vectors.rs"]
mod schema_vectors;
#[path = "support/shared.rs"]
mod shared;

use std::path::Path;

use callweave::json::schema::{CoerceOptions, CoercedValue, Schema, TypeSet};
use proptest::prelude::*;
use record::Record;
use schema_vectors::Row;
use serde_json::{Value, json};

fn shown(fit: &CoercedValue) -> callweave::json::Value {
    use callweave::json::Value;

    let change = |change: &callweave::json::schema::CoercionChange| {
        Value::object([
            ("path", change.path.as_str().into()),
            ("kind", change.kind.label().into()),
            ("from", change.from.clone()),
            ("to", change.to.clone()),
        ])
    };
    let problem =
        |problem: &callweave::json::schema::SchemaProblem| format!("{}: {}", problem.path, problem.detail);
    Value::object([
        ("value", fit.value.clone()),
        ("changes", fit.changes.iter().map(change).collect()),
        ("problems", fit.problems.iter().map(problem).collect()),
    ])
}

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/json/schema");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the cases are there") {
        let case = entry.expect("a readable folder").path();
        let json = |name: &str| {
            let text = std::fs::read_to_string(case.join(name)).ok()?;
            Some(text.parse::<callweave::json::Value>().expect("the file is JSON"))
        };
        let schema = Schema::new(&json("schema.json").expect("a case has a schema"));
        let fit = match json("input.json") {
            Some(value) => schema.coerce(&value),
            None => schema.read(
                std::fs::read_to_string(case.join("input.txt")).expect("a case has an input").trim_end(),
            ),
        };
        if fit.problems.is_empty() {
            let again = schema.coerce(&fit.value);
            assert!(again.is_unchanged() && again.problems.is_empty(), "{case:?}: {again:?}");
        }
        let shown = format!("{:#}\n", shown(&fit));
        let expected = case.join("expected.json");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &shown).expect("the case can be written");
        }
        assert_eq!(shown, std::fs::read_to_string(&expected).unwrap_or_default(), "{case:?}");
        count += 1;
    }
    assert!(count > 0, "no cases in {folder:?}");
}

#[cfg(feature = "schema")]
#[test]
fn words_of_other_schema_languages_are_validated() {
    let schema = Schema::new(&json!({
        "type": "OBJECT",
        "properties": {"n": {"type": "INTEGER", "nullable": true}, "e": {"enum": ["x"], "nullable": true}},
    }));
    let problems = |value: Value| schema.validate(&value).expect("the schema is valid").len();
    assert_eq!(problems(json!({"n": null, "e": null})), 0);
    assert_eq!(problems(json!({"n": 1, "e": "x"})), 0);
    assert_eq!(problems(json!({"n": "1", "e": "y"})), 2);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-99i64..99).prop_map(Value::from),
        (-9.5f64..9.5).prop_map(Value::from),
        prop_oneof!["[a-c]{0,2}", "[0-9]{1,3}", r"\[[0-9]\]", r#"\{"a":[0-9]\}"#, "true", "null"]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"])
            .prop_map(|word| json!({"type": word})),
        Just(json!({"enum": ["a", "B", 1, null]})),
        Just(json!({"type": ["string", "null"]})),
        Just(json!({"type": "array", "items": {"$ref": "#"}})),
        Just(json!({"type": "object", "properties": {"a": {"$ref": "#"}}})),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, is_open)| json!({
                "type": "object",
                "properties": {"a": a, "b": b},
                "required": ["a"],
                "additionalProperties": is_open,
            })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|branches| json!({"anyOf": branches})),
            (inner.clone(), inner).prop_map(|(a, b)| json!({
                "properties": {"a": a},
                "allOf": [{"type": "object", "properties": {"b": b}}, {"required": ["b"]}],
            })),
        ]
    })
}

proptest! {
    /// A coerced value fits: nothing is left to change.
    #[test]
    fn fitting_twice_is_fitting_once(schema in any_schema(), value in any_value()) {
        let schema = Schema::new(&schema);
        let fit = schema.coerce(&value);
        if fit.problems.is_empty() {
            let again = schema.coerce(&fit.value);
            prop_assert!(again.is_unchanged(), "{:?} then {:?}", fit, again);
            prop_assert!(again.problems.is_empty(), "{:?} then {:?}", fit, again);
            prop_assert!(schema.root().types().contains(TypeSet::of(&fit.value)));
        }
        prop_assert_eq!(fit.value == value, fit.is_unchanged() || fit.value == value);
    }

    /// Any text can be read with any schema.
    #[test]
    fn no_text_is_a_panic(schema in any_schema(), text in r#"[\[\]{}":,a-c0-9 .`\n-]{0,40}"#) {
        Schema::new(&schema).read_with(&text, CoerceOptions::default());
    }
}

#[cfg(feature = "schema")]
proptest! {
    /// A value that is valid as written is not touched.
    #[test]
    fn the_valid_stays(schema in any_schema(), value in any_value()) {
        let schema = Schema::new(&schema);
        if schema.validate(&value).is_ok_and(|problems| problems.is_empty()) {
            let fit = schema.coerce(&value);
            prop_assert!(fit.is_unchanged(), "{:?}", fit);
            prop_assert!(fit.problems.is_empty(), "{:?}", fit);
        }
    }

    /// A coerced value without problems is valid.
    #[test]
    fn the_fitted_is_valid(schema in any_schema(), value in any_value()) {
        let schema = Schema::new(&schema);
        let fit = schema.coerce(&value);
        if fit.problems.is_empty() && let Ok(problems) = schema.validate(&fit.value) {
            prop_assert!(problems.is_empty(), "{:?}: {:?}", fit, problems);
        }
    }
}

/// Alternatives inside alternatives multiply; the work is bounded all the same.
#[test]
fn nested_alternatives_end() {
    let schema = Schema::new(&json!({
        "$defs": {"n": {"anyOf": [
            {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["x"]},
            {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["y"]},
        ]}},
        "$ref": "#/$defs/n",
    }));
    let mut value = json!({});
    for _ in 0..100 {
        value = json!({"n": value});
    }
    assert!(!schema.coerce(&value).problems.is_empty());
}

/// Hostile responses are read with work that is bounded by their length, and without deep recursion.
#[test]
fn hostile_answers_end() {
    let schema = Schema::new(&json!({
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"$ref": "#"}, {"type": "integer"}]}},
    }));
    let depth = 500;
    for text in [
        "[".repeat(depth),
        "{\"a\":".repeat(depth),
        "{} ".repeat(depth),
        "{\"a\":[".repeat(depth) + &"]}".repeat(depth),
        "\"{\\\"a\\\":".repeat(depth),
        format!("{{\"a\":{}}}", "[{\"a\":\"1\"}],".repeat(depth)),
        "true false ".repeat(depth),
    ] {
        schema.read(&text);
    }
}

/// A schema whose only member is the schema again: neither an object that could be put into it for ever nor values that are as
/// deep as any need a deep stack.
#[test]
fn schemas_of_themselves_end() {
    let member = json!({"type": "object", "properties": {"x": {"$ref": "#"}}});
    let alternative = json!({"properties": {"x": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}}});
    let several = json!({"anyOf": [
        {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]},
        {"type": "object", "properties": {"x": {"$ref": "#"}, "y": {"$ref": "#"}}},
        {"type": "integer"},
    ]});
    for schema in [member, alternative, several] {
        let schema = Schema::new(&schema);
        for text in [
            "It is {\"a\": 1}, I think.".to_owned(),
            "{\"a\":".repeat(400) + &"}".repeat(400),
            "So: ".to_owned() + &"{\"x\":".repeat(400) + "\"1\"" + &"}".repeat(400),
            "{\"x\":".repeat(400) + "\"1\"" + &"}".repeat(400),
            "{\"X\":".repeat(400) + "\"1\"" + &"}".repeat(400),
        ] {
            schema.read_with(&text, CoerceOptions::default());
        }
    }
}

/// An alternative that could enclose the value for ever does not hide the one that takes it as it is.
#[test]
fn what_fits_is_found_behind_what_could_be_made_to_fit() {
    let schema = Schema::new(&json!({"anyOf": [
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "object", "properties": {"a": {"$ref": "#"}}}]},
    ]}));
    assert!(schema.coerce(&json!({"a": {}})).is_unchanged());
}

#[test]
fn shared_vectors() {
    let Some(rows) = schema_vectors::rows() else { return };
    let mut record = Record::open("schema");
    for row in rows.iter().filter(|row| !row.is_passed()) {
        let Row { source, kind, input, expected, schema, .. } = row;
        let story = || format!("{source} {kind} {input:?}\n  want {expected}\n  schema {schema}");
        record.see(&row.name, &row.answer(), story);
    }
    record.close();
}
