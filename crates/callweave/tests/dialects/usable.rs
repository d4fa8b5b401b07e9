//! The faults for which a dialect is refused.

use callweave::dialect::{Dialect, DialectRegistry};
use serde_json::{Value, json};

fn complaint(dialect: Value) -> String {
    let dialect: Dialect = serde_json::from_value(dialect).expect("the fields are known");
    let error = dialect.check().expect_err("it is not usable");
    let (_, complaint) = error.detail().split_once(" is not usable: ").expect("it says so");
    complaint.to_owned()
}

fn of_form(form: Value) -> String {
    complaint(json!({"name": "x", "forms": [{"open": "<", "body": {"json": {}}}, form]}))
}

#[test]
fn every_built_in_dialect_is_usable() {
    for dialect in DialectRegistry::builtin().dialects() {
        assert_eq!(dialect.check(), Ok(()));
    }
}

#[test]
fn names_and_markers_are_filled() {
    for (dialect, expected) in [
        (json!({}), "name is empty"),
        (json!({"name": " "}), "name is empty"),
        (json!({"name": "auto"}), "name is \"auto\", which lets the text decide"),
        (json!({"name": "x", "aliases": ["y", ""]}), "aliases[1] is empty"),
        (json!({"name": "x", "models": [""]}), "models[0] is empty"),
        (json!({"name": "x", "markup": ["<e>", ""]}), "markup[1] is empty"),
        (
            json!({"name": "x", "markup": ["{word}>"]}),
            "markup[0] begins with a placeholder; it needs text before it",
        ),
        (json!({"name": "x", "reasoning": [{"open": "", "close": "a"}]}), "reasoning[0].open is empty"),
        (json!({"name": "x", "reasoning": [{"open": "a"}]}), "reasoning[0].close is missing"),
    ] {
        assert_eq!(complaint(dialect), expected);
    }
}

#[test]
fn a_form_has_what_its_body_needs() {
    let call = json!({"open": "<f=", "end": ">"});
    let parameter = json!({"open": "<p=", "end": ">"});
    for (form, expected) in [
        (json!({"open": "", "body": {"json": {}}}), "open is empty"),
        (json!({"open": ["a", ""]}), "open is empty"),
        (json!({"open": "a", "close": ""}), "close is empty"),
        (json!({"open": "a", "body": {"json": {"name": [""]}}}), "body.json.name is empty"),
        (json!({"open": "a", "body": {"json": {"arguments": [""]}}}), "body.json.arguments is empty"),
        (json!({"body": {"header": {"after": ":"}}}), "open is missing, and its body has no sign of its own"),
        (json!({"open": "a", "body": {"header": {"after": ""}}}), "body.header.after is empty"),
        (json!({"open": "a", "body": {"tagged": {}}}), "body.tagged.parameter.open is empty"),
        (
            json!({"body": {"tagged": {"call": call, "parameter": {"open": "<p="}}}}),
            "body.tagged.parameter.end is empty",
        ),
        (
            json!({"body": {"tagged": {"call": call, "parameter": parameter}}}),
            "body.tagged.value_close is empty",
        ),
        (
            json!({"body": {"tagged": {"parameter": parameter, "value_close": "</p>"}}}),
            "open is missing, and its body has no sign of its own",
        ),
        (
            json!({"body": {"tagged": {"call": {"open": "<f", "attribute": "name"}}}}),
            "body.tagged.call.end is empty",
        ),
        (json!({"body": {"elements": {"prefix": "]"}}}), "body.elements.call.open is empty"),
        (json!({"open": "<use", "body": {"fields": {}}}), "body.fields.name is empty"),
    ] {
        assert_eq!(of_form(form).strip_prefix("forms[1]."), Some(expected));
    }
}
