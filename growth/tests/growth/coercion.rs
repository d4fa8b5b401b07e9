//! Arguments that are coerced while they come, a few bytes at a time.

use callweave::json::schema::{CoerceOptions, Schema, StepBudget, StreamCoercer};
use callweave_growth::assert_linear;
use serde_json::json;

type Shape = (&'static str, fn(usize) -> String);

const SHAPES: &[Shape] = &[
    ("one long string", |size| format!("{{\"text\": \"{}\"}}", "word ".repeat(size))),
    ("many members", |size| members(size, |at| format!("\"x{at}\": {at}"))),
    ("members that have another's name", |size| {
        members(size, |at| format!("\"TE{}XT\": {at}", "-".repeat(at % 9)))
    }),
    ("a member that comes again", |size| members(size, |_| "\"text\": \"a\"".to_owned())),
    ("numbers that are texts", |size| format!("{{\"list\": [{}]}}", vec!["\"5\""; size].join(","))),
    ("objects in a list", |size| {
        format!("{{\"list\": [{}]}}", vec!["{\"text\": \"a\", \"kind\": \"B\"}"; size].join(","))
    }),
    ("alternatives that are held", |size| format!("{{\"any\": {{\"text\": \"{}\"}}}}", "word ".repeat(size))),
    ("containers in containers", |size| format!("{}{}", "{\"list\": [".repeat(size), "]}".repeat(size))),
];

fn members(size: usize, member: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..size).map(member).collect::<Vec<_>>().join(", "))
}

#[test]
#[ignore = "counts work: cargo xtask growth"]
fn coercion_is_linear() {
    let schema = Schema::new(&json!({"type": "object", "properties": {
        "text": {"type": "string"}, "kind": {"enum": ["a", "b"]}, "list": {"items": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}},
        "any": {"anyOf": [{"properties": {"text": {"type": "string"}}}, {"properties": {"text": {"type": "null"}}}]},
    }}));
    for (name, shape) in SHAPES {
        assert_linear(name, 400, 8, |size| {
            let text = shape(size);
            let mut coercer = StreamCoercer::new(&schema, CoerceOptions::default(), StepBudget::default());
            let (mut out, mut rest) = (String::new(), text.as_str());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(5));
                coercer.push(piece, &mut out);
                rest = after;
            }
            coercer.finish(&mut out);
            std::hint::black_box(out);
        });
    }
}
