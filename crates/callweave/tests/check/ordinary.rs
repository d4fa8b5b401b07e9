//! The schemas of real tools, with real calls, are far below the budget.

use std::path::Path;

use callweave::json::Value;
use callweave::json::schema::{CoerceOptions, MissingMembers, Schema, StepBudget, TextCompleteness};

use crate::shared;

/// The schemas and the arguments in a recorded request, wherever they stand.
fn parts(request: &Value) -> (Vec<&Value>, Vec<Value>) {
    let (mut schemas, mut calls) = (Vec::new(), Vec::new());
    let mut open = vec![("", request)];
    while let Some((key, value)) = open.pop() {
        match (key, value) {
            ("arguments", Value::String(text)) => calls.extend(text.parse()),
            ("arguments" | "input" | "args", Value::Object(_)) => calls.push(value.clone()),
            (
                "parameters" | "input_schema" | "inputSchema" | "json" | "schema" | "parametersJsonSchema",
                Value::Object(words),
            ) if words.contains_key("type") || words.contains_key("properties") => {
                schemas.push(value);
                continue;
            }
            _ => {}
        }
        match value {
            Value::Object(members) => open.extend(members),
            Value::Array(elements) => open.extend(elements.iter().map(|element| ("", element))),
            _ => {}
        }
    }
    (schemas, calls)
}

fn requests(folder: &Path, found: &mut Vec<Value>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            requests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            found.extend(text.parse());
        }
    }
}

#[test]
fn real_calls_take_few_steps() {
    let mut all = Vec::new();
    for folder in ["requests", "requests-2"] {
        let Some(folder) = shared::find(folder) else { return };
        requests(&folder, &mut all);
    }
    assert!(take_few_steps(&all) > 1000);
}

#[test]
fn own_calls_take_few_steps() {
    let mut all = Vec::new();
    requests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/request"), &mut all);
    assert!(take_few_steps(&all) > 1000);
}

/// Coerces and checks all calls of these requests by all their schemas. Returns the number of checks.
fn take_few_steps(all: &[Value]) -> usize {
    let mut steps = Vec::new();
    for request in all {
        let (schemas, mut calls) = parts(request);
        calls.push(Value::object([]));
        for schema in schemas {
            let schema = Schema::new(schema);
            let options =
                CoerceOptions { missing: MissingMembers::Infer, extent: TextCompleteness::Complete };
            let filled = schema.coerce_with(&Value::object([]), options).value;
            for call in calls.iter().chain([&filled]) {
                let mut budget = StepBudget::default();
                let fit = schema.coerce_within(call, CoerceOptions::default(), &mut budget);
                let fit = fit.unwrap_or_else(|error| panic!("{error}: {schema:?} {call}"));
                if let Err(error) = schema.validate_within(&fit.value, &mut budget) {
                    assert_eq!(error.kind(), callweave::ErrorKind::Invalid, "{schema:?} {call}");
                }
                steps.push(StepBudget::STEPS - budget.left());
            }
        }
    }
    steps.sort_unstable();
    let at = |share: usize| steps[(steps.len() - 1) * share / 1000];
    let told = format!(
        "{} checks: half {}, 99 % {}, 999 ‰ {}, most {}",
        steps.len(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
    println!("{told}");
    assert!(at(1000) * 20 < StepBudget::STEPS, "{told}");
    steps.len()
}
