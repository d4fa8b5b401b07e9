//! Valid JSON text → a value in memory, whatever is in it.

use serde_json::{Map, Value};

use super::{Kind, Str, Tape, tape};

/// Values nested more deeply are kept as their text: programs that walk a value recurse.
const MAX_DEPTH: usize = 100;

/// The value that a JSON text stands for. What a value in memory cannot hold is not lost: half a
/// surrogate pair becomes U+FFFD, and what is nested too deeply stays as a string of its JSON text.
pub(crate) fn to_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| match Tape::new().parse(text) {
        Ok(value) => build(value, 0),
        Err(_) => Value::String(text.to_owned()),
    })
}

fn build(value: tape::Value<'_>, depth: usize) -> Value {
    match value.kind() {
        Kind::Object | Kind::Array if depth >= MAX_DEPTH => Value::String(value.raw().to_owned()),
        Kind::Object => {
            let member = |(key, value)| (Str::Escaped(key).to_cow().into_owned(), build(value, depth + 1));
            Value::Object(value.members().map(member).collect::<Map<_, _>>())
        }
        Kind::Array => value.elements().map(|element| build(element, depth + 1)).collect(),
        Kind::String => value.str().map(Str::to_cow).unwrap_or_default().into_owned().into(),
        Kind::Number => serde_json::from_str(value.raw()).unwrap_or_else(|_| value.raw().into()),
        Kind::Bool => Value::Bool(value.bool() == Some(true)),
        Kind::Null => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        assert_eq!(
            to_value(r#"{"a\ud800": ["\udc00", 123456789012345678901234567890]}"#).to_string(),
            "{\"a\u{fffd}\":[\"\u{fffd}\",123456789012345678901234567890]}"
        );
        let deep = format!("{}7{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = to_value(&deep).to_string();
        assert!(text.contains(&deep[MAX_DEPTH..deep.len() - MAX_DEPTH]));
    }
}
