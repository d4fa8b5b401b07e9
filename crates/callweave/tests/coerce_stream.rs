//! Coercion of growing text: streamed output equals held output, for generated schemas, texts and splits, the shared
//! vectors, and own cases.

#[path = "support/dice.rs"]
mod dice;
#[path = "support/schema_vectors.rs"]
#[expect(dead_code, reason = "only what the rows are made of is used")]
mod schema_vectors;
#[path = "support/shared.rs"]
mod shared;

use callweave::json::schema::{CoerceOptions, MissingMembers, Schema, StepBudget, StreamCoercer};
use dice::Dice;
use serde_json::json;

/// The result for a text that comes in pieces: everything passed on, the part passed on with each piece, and the
/// notices.
struct Told {
    text: String,
    pieces: Vec<String>,
    said: String,
}

fn told<'p>(
    schema: &Schema,
    options: CoerceOptions,
    budget: u64,
    pieces: impl Iterator<Item = &'p str>,
) -> Told {
    let mut coercer = StreamCoercer::new(schema, options, StepBudget::new(budget));
    let mut told = Told { text: String::new(), pieces: Vec::new(), said: String::new() };
    let mut put = |out: String| {
        told.text.push_str(&out);
        told.pieces.push(out);
    };
    for piece in pieces {
        let mut out = String::new();
        coercer.push(piece, &mut out);
        put(out);
    }
    let mut out = String::new();
    coercer.finish(&mut out);
    put(out);
    told.said = format!("{:?} {:?}", coercer.changes(), coercer.error());
    told
}

/// Any split gives the same.
fn flows_as_held(schema: &Schema, options: CoerceOptions, budget: u64, text: &str, dice: &mut Dice) -> Told {
    let held = told(schema, options, budget, [text].into_iter());
    let by_characters = told(schema, options, budget, text.split_inclusive(|_| true));
    let same = |flowed: &Told, how: &str| {
        assert_eq!(flowed.text, held.text, "{how}: {text}\n{schema:?}");
        assert_eq!(flowed.said, held.said, "{how}: {text}");
    };
    same(&by_characters, "by characters");
    let at = dice.below(text.len() + 1);
    if let Some((one, other)) = text.split_at_checked(at) {
        same(&told(schema, options, budget, [one, other].into_iter()), &format!("cut at {at}"));
    }
    held
}

/// Asserts that the text is coerced as its value is; returns whether that stayed within the budget.
fn agrees_with_values(schema: &Schema, options: CoerceOptions, text: &str, told: &Told) -> bool {
    let Ok(value) = text.parse::<callweave::json::Value>() else { return true };
    let Ok(fit) = schema.coerce_within(&value, options, &mut StepBudget::default()) else { return false };
    if told.said.ends_with("})") {
        return false;
    }
    match told.text.parse::<callweave::json::Value>() {
        Ok(flowed) => assert_eq!(flowed, fit.value, "{text} with {schema:?}"),
        // Filling in may nest a value more deeply than text is read.
        Err(error) => {
            assert_eq!((error.kind(), &told.text), (callweave::ErrorKind::Limit, &fit.value.to_string()));
        }
    }
    let said = format!("{:?} None", fit.changes);
    assert_eq!(told.said, said, "{text} with {schema:?}");
    // Members that may mean another that comes later are moved without a change.
    if fit.is_unchanged() && told.text != text {
        let sorted = |text: &str| {
            let mut bytes: Vec<u8> = text.bytes().filter(|byte| !b" ,".contains(byte)).collect();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(&told.text), sorted(text), "{text}");
    }
    true
}

#[test]
fn generated() {
    let mut dice = Dice::new(1);
    let (mut all, mut changed, mut unchecked) = (0, 0, 0);
    for _ in 0..3_000 {
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
            let text = dice.text();
            let told = flows_as_held(&schema, options, StepBudget::STEPS, &text, &mut dice);
            all += 1;
            changed += usize::from(told.text != text);
            unchecked += usize::from(!agrees_with_values(&schema, options, &text, &told));
            // The same, damaged and with keys that come twice.
            let damaged = dice.damaged(&text);
            flows_as_held(&schema, options, StepBudget::STEPS, &damaged, &mut dice);
            let budget = dice.below(200) as u64;
            flows_as_held(&schema, options, budget, &text, &mut dice);
        }
    }
    let said = format!("of {all} {changed} were changed, {unchecked} too much work");
    assert!(changed * 4 > all && unchecked * 200 < all, "{said}");
}

#[test]
fn shared_vectors() {
    let Some(rows) = schema_vectors::rows() else { return };
    let mut dice = Dice::new(2);
    let options = CoerceOptions::default();
    for row in &rows {
        let schema = Schema::new(&row.schema);
        let told = flows_as_held(&schema, options, StepBudget::STEPS, &row.input, &mut dice);
        assert!(agrees_with_values(&schema, options, &row.input, &told), "{}", row.input);
    }
}

/// Returns the part passed on with each piece.
fn pieces(schema: serde_json::Value, text: &[&str]) -> Vec<String> {
    let schema = Schema::new(&schema);
    let mut told = told(&schema, CoerceOptions::default(), StepBudget::STEPS, text.iter().copied());
    let last = told.pieces.pop();
    assert_eq!(last.as_deref(), Some(""), "something was left to the end");
    told.pieces
}

#[test]
fn strings_flow_in_pieces() {
    let schema = json!({"properties": {"path": {"type": "string"}, "contents": {"type": "string"}}});
    let text = [r#"{"path": "a"#, r#".rs","#, r#" "contents""#, r#": "fn "#, r#"main\"#, r#"n"#, r#"" }"#];
    let expected = [r#"{"path": "a"#, r#".rs""#, "", r#", "contents": "fn "#, r#"main\"#, "n", r#"" }"#];
    assert_eq!(pieces(schema.clone(), &text), expected);
    // The same holds with any alternatives beside it, and where the schema says nothing.
    for schema in [
        json!({}),
        json!({"properties": {"contents": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
        json!({"properties": {"contents": {"oneOf": [{"enum": ["A"]}, {"type": "string"}]}}}),
        json!({"properties": {"contents": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": ["null", "string"]}}}),
        json!({"allOf": [schema, {"required": ["path"]}]}),
        json!({"additionalProperties": {"type": "string", "minLength": 3}}),
    ] {
        let told = pieces(schema.clone(), &text);
        assert_eq!(told.concat(), text.concat(), "{schema}");
        assert!(told[3].ends_with(": \"fn ") && told[4] == "main\\" && told[5] == "n", "{schema}: {told:?}");
    }
}

#[test]
fn parts_flow_one_by_one() {
    let schema = json!({"properties": {"list": {"items": {"anyOf": [
        {"properties": {"n": {"type": "integer"}, "t": {"type": "string"}}}, {"type": "null"}]}}}});
    let text =
        [r#"{"list": [{"n": "#, r#""1""#, r#", "t": "x"#, r#"y"}, nul"#, r#"l, {"t"#, r#"": 1}]"#, "}"];
    let expected =
        [r#"{"list": [{"#, r#""n": 1"#, r#", "t": "x"#, r#"y"}, "#, "null, {", r#""t": "1"}]"#, "}"];
    assert_eq!(pieces(schema, &text), expected);
}

#[test]
fn values_that_may_change_are_held_to_their_end() {
    let schema = json!({"properties": {
        "n": {"type": "integer"}, "list": {"type": "array"}, "unit": {"enum": ["C", "F"]}, "rest": {"type": "string"}}});
    for (text, held) in [
        ([r#"{"n": "#, r#""1"#, r#"2""#, r#", "rest": "x"#], r#""n": 12"#),
        ([r#"{"list": "#, r#""[1"#, r#",2]""#, r#", "rest": "x"#], r#""list": [1,2]"#),
        ([r#"{"unit": "#, r#""c"#, r#"""#, r#", "rest": "x"#], r#""unit": "C""#),
    ] {
        let told = &pieces(schema.clone(), &text);
        assert_eq!(told[..], ["{", "", held, r#", "rest": "x"#], "{text:?}");
    }
}

#[test]
fn members_spelled_otherwise_come_at_the_end() {
    let schema = json!({"properties": {"file_path": {"type": "string"}, "line": {"type": "integer"}},
        "additionalProperties": false});
    let text = [r#"{ "filePath": "a", "#, r#""line": 1, "why": "be"#, r#"cause" "#, "}"];
    let expected = ["{", r#" "line": 1"#, "", r#", "file_path": "a" }"#];
    assert_eq!(pieces(schema, &text), expected);
    // One that means a member that comes itself stays what it is.
    let schema = json!({"properties": {"a": {"type": "integer"}}});
    assert_eq!(pieces(schema, &[r#"{"A": 1, "a": "2"}"#]).concat(), r#"{ "a": 2,"A": 1}"#);
}

/// Alternatives of objects under the name `it`.
fn one_of(branches: serde_json::Value) -> serde_json::Value {
    json!({"properties": {"it": {"oneOf": branches}}})
}

#[test]
fn a_member_that_only_one_alternative_takes_decides() {
    let branch = |word: &str, kind: &str| json!({"properties": {"kind": {"const": word}, "n": {"type": kind}}, "required": ["kind"]});
    let schema = one_of(json!([branch("a", "integer"), branch("b", "string")]));
    let text = [r#"{"it": {"kind": "b", "#, r#""n": 1}"#, r#", "x": "y"#, "\"}"];
    assert_eq!(pieces(schema, &text), [r#"{"it": {"kind": "b""#, r#", "n": "1"}"#, r#", "x": "y"#, "\"}"]);
}

#[test]
fn members_before_the_one_that_decides_wait_for_it() {
    let branch =
        |word: &str, kind: &str| json!({"properties": {"kind": {"enum": [word]}, "n": {"type": kind}}});
    let schema = one_of(
        json!([branch("a", "integer"), branch("b", "string"), branch("c", "boolean"), {"type": "string"}]),
    );
    let text = [r#"{"it": {"n": 1"#, r#", "kind": "B""#, r#", "s": "x"#, r#"y"}"#, "}"];
    let expected = [r#"{"it": {"#, r#""n": "1", "kind": "b""#, r#", "s": "x"#, r#"y"}"#, "}"];
    assert_eq!(pieces(schema, &text), expected);
}

#[test]
fn a_key_that_only_one_alternative_has_a_place_for_decides() {
    let branch = |name: &str| json!({"properties": {name: {"type": "string"}, "n": {"type": "integer"}}, "additionalProperties": false});
    let schema = one_of(json!([branch("path"), branch("url")]));
    let text = [r#"{"it": {"url": "x"#, r#"y", "n": "#, r#""1"}"#, "}"];
    assert_eq!(pieces(schema.clone(), &text), [r#"{"it": {"url": "x"#, r#"y""#, r#", "n": 1}"#, "}"]);
    // A null decides nothing: some models write all members of all alternatives.
    let text = [r#"{"it": {"path": null, "#, r#""url": "x"#, r#"y"}"#, "}"];
    assert_eq!(pieces(schema, &text), [r#"{"it": {"#, r#" "url": "x"#, r#"y"}"#, "}"]);
}

#[test]
fn members_that_all_alternatives_treat_alike_flow() {
    let branch = |name: &str, kind: &str| {
        json!({"properties": {"path": {"type": "string"}, "line": {"type": "integer"}, name: {"type": kind}},
            "required": [name]})
    };
    let schema = one_of(json!([branch("text", "string"), branch("rows", "array")]));
    let text = [r#"{"it": {"path": "a"#, r#"b", "line": "3", "#, r#""text": "x"#, r#"y"}"#, "}"];
    let expected = [r#"{"it": {"path": "a"#, r#"b", "line": 3"#, r#", "text": "x"#, r#"y"}"#, "}"];
    assert_eq!(pieces(schema.clone(), &text), expected);
    // A member that the alternatives treat differently waits for the end of the object, unless something decides.
    let text = [r#"{"it": {"path": "a", "rows": "[1"#, r#"]", "z": "zz"#, r#""}"#, "}"];
    let expected = [r#"{"it": {"path": "a""#, "", r#", "rows": [1], "z": "zz"}"#, "}"];
    let without =
        one_of(json!([branch("text", "string"), branch("rows", "array"), branch("rows", "number")]));
    assert_eq!(pieces(without, &text), expected);
}

#[test]
fn alternatives_at_the_root_and_beside_members_flow() {
    let branch =
        |word: &str, kind: &str| json!({"properties": {"kind": {"const": word}, "n": {"type": kind}}});
    let mut schema = json!({"oneOf": [branch("a", "integer"), branch("b", "string")]});
    let text = [r#"{"kind": "a", "#, r#""n": "1", "body": "x"#, r#"y"#, r#""}"#];
    let expected = [r#"{"kind": "a""#, r#", "n": 1, "body": "x"#, "y", r#""}"#];
    assert_eq!(pieces(schema.clone(), &text), expected);
    schema["properties"] = json!({"body": {"type": "string"}, "n": {}});
    assert_eq!(pieces(schema, &text), expected);
    // Required members alone decide nothing.
    let schema = json!({"properties": {"n": {"type": "integer"}, "body": {"type": "string"}},
        "anyOf": [{"required": ["n"]}, {"required": ["body"]}]});
    let text = [r#"{"n": "1", "body": "x"#, r#"y"#, r#""}"#];
    assert_eq!(pieces(schema, &text), [r#"{"n": 1, "body": "x"#, "y", r#""}"#]);
}

/// An object that nothing decides is read in the cheapest way at its end; then the held text comes.
#[test]
fn an_object_that_nothing_decides_waits_for_its_end() {
    let schema = one_of(json!([
        {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {"type": "integer"}, "c": {}}},
    ]));
    let text = [r#"{"it": { "a": [1,"#, r#" "2"], "c": "x"#, r#"", "b": 3 }"#, "}"];
    let expected = [r#"{"it": {"#, "", r#" "a": ["1", "2"], "c": "x", "b": 3 }"#, "}"];
    assert_eq!(pieces(schema.clone(), &text), expected);
    // One that is truncated, or is no value, comes as it was written.
    let schema = Schema::new(&schema);
    for text in [r#"{"it": { "a": [1, "2"], "c"#, r#"{"it": { "a": [1], "c": "\ud800" }, "d": 1}"#] {
        let told = told(&schema, CoerceOptions::default(), StepBudget::STEPS, text.split_inclusive(|_| true));
        assert_eq!(told.text, text);
    }
}

#[test]
fn a_spent_budget_lets_the_rest_pass() {
    let schema = Schema::new(&json!({"items": {"type": "integer"}}));
    let text = format!("[{}]", vec!["\"1\""; 50].join(","));
    let told = told(&schema, CoerceOptions::default(), 200, text.split_inclusive(|_| true));
    assert!(told.text.starts_with("[1,1,") && told.text.ends_with(",\"1\",\"1\"]"), "{}", told.text);
    assert!(told.said.contains("too much work"), "{}", told.said);
}
