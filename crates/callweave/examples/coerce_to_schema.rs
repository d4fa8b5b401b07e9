//! Fits arguments as models write them to the schema of a tool, and tells what was changed.
//!
//! `cargo run -p callweave --example coerce_to_schema`

use callweave::json::schema::Schema;
use serde_json::json;

fn main() {
    let schema = Schema::new(&json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    }));
    // Text of a model, broken on top of it; `Schema::coerce` takes a value that was read already.
    let fit = schema.read("```json\n{'city': 'Oslo', 'days': '5', 'tags': '[\"sea\"]',}\n```");
    println!("{}", fit.value);
    for change in &fit.changes {
        println!("{}: {} became {} ({})", change.path, change.from, change.to, change.kind.label());
    }
    for problem in &fit.problems {
        println!("{}: {}", problem.path, problem.detail);
    }
}
