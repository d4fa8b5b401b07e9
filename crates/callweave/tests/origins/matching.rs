//! When an answer is what a row expects.

use serde_json::Value;

/// Whether `answer` is what `expected` asks for. A member that is null and one that is absent are the
/// same; objects of the form `{"$…": …}` are matchers.
pub(crate) fn is_match(expected: &Value, answer: &Value) -> bool {
    if let Some((matcher, operand)) = matcher(expected) {
        return match (matcher, operand) {
            ("$any", _) => true,
            ("$type", Value::String(kind)) => kind == kind_of(answer),
            ("$contains", Value::String(part)) => answer.as_str().is_some_and(|text| text.contains(part)),
            // All patterns describe ids that the origin makes at random. We keep the provider's, make ours
            // by counting, or show none where the origin's own type allows it.
            ("$match", Value::String(_)) => answer.as_str().is_none_or(|id| !id.is_empty()),
            _ => panic!("the matcher {matcher} is not known"),
        };
    }
    match (expected, answer) {
        (Value::Array(expected), Value::Array(answer)) => {
            expected.len() == answer.len()
                && expected.iter().zip(answer).all(|(expected, answer)| is_match(expected, answer))
        }
        (Value::Object(expected), Value::Object(answer)) => {
            let is_told =
                |(key, value): (&String, &Value)| is_match(value, answer.get(key).unwrap_or(&Value::Null));
            let is_asked = |(key, value): (&String, &Value)| value.is_null() || expected.contains_key(key);
            expected.iter().all(is_told) && answer.iter().all(is_asked)
        }
        // A vector's numbers are floats, however they were written.
        (Value::Number(expected), Value::Number(answer)) if expected.is_f64() != answer.is_f64() => {
            expected.as_f64() == answer.as_f64()
        }
        (expected, answer) => expected == answer,
    }
}

fn matcher(expected: &Value) -> Option<(&str, &Value)> {
    let (key, operand) = expected.as_object().filter(|object| object.len() == 1)?.iter().next()?;
    key.starts_with('$').then_some((key.as_str(), operand))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
