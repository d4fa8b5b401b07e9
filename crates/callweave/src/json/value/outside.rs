//! Conversions from and to the values of `serde_json`, for the public interface.

use std::borrow::Cow;

use super::{Array, Number, Object, Value, ValueBuilder};

/// A JSON value as the public interface takes it: a [`Value`], which keeps its written form, or that of `serde_json`.
pub trait AsValue {
    /// The value.
    fn as_value(&self) -> Cow<'_, Value>;
}

impl AsValue for Value {
    fn as_value(&self) -> Cow<'_, Value> {
        Cow::Borrowed(self)
    }
}

impl AsValue for serde_json::Value {
    fn as_value(&self) -> Cow<'_, Value> {
        Cow::Owned(self.into())
    }
}

impl<V: AsValue + ?Sized> AsValue for &V {
    fn as_value(&self) -> Cow<'_, Value> {
        (**self).as_value()
    }
}

enum OpenValue<'v> {
    Array(std::slice::Iter<'v, serde_json::Value>),
    Object(serde_json::map::Iter<'v>),
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        let mut builder = ValueBuilder::default();
        let mut open = Vec::new();
        let mut next = Some(value);
        loop {
            match next.take() {
                Some(serde_json::Value::Null) => builder.put(Self::Null),
                Some(serde_json::Value::Bool(truth)) => builder.put((*truth).into()),
                Some(serde_json::Value::Number(number)) => builder.put(Number::from(number).into()),
                Some(serde_json::Value::String(text)) => builder.put(text.as_str().into()),
                Some(serde_json::Value::Array(elements)) => {
                    builder.begin_array();
                    open.push(OpenValue::Array(elements.iter()));
                }
                Some(serde_json::Value::Object(members)) => {
                    builder.begin_object();
                    open.push(OpenValue::Object(members.iter()));
                }
                None => {
                    open.pop();
                    builder.end();
                }
            }
            next = match open.last_mut() {
                Some(OpenValue::Array(elements)) => elements.next(),
                Some(OpenValue::Object(members)) => members.next().map(|(key, value)| {
                    builder.key(key.clone());
                    value
                }),
                None => return builder.finish(),
            };
        }
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        (&value).into()
    }
}

impl From<&serde_json::Number> for Number {
    fn from(number: &serde_json::Number) -> Self {
        Self::trusted(&number.to_string())
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for Object {
    fn from(members: serde_json::Map<String, serde_json::Value>) -> Self {
        members.into_iter().collect()
    }
}

/// As far as `serde_json` can hold the value: numbers are the nearest, a number beyond the range is its text, and a
/// value nested more deeply than [`Value::MAX_DEPTH`] is its JSON text.
impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        value.to_serde_json(&|number| number.as_str().into())
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        (&value).into()
    }
}

/// Converts as `serde_json::Value::from(&Value)` does.
impl From<&Object> for serde_json::Map<String, serde_json::Value> {
    fn from(members: &Object) -> Self {
        members.iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
    }
}

impl From<Object> for serde_json::Map<String, serde_json::Value> {
    fn from(members: Object) -> Self {
        (&members).into()
    }
}

impl Value {
    /// The value for `serde_json`; `beyond` gives the value of a number that is beyond the range of its numbers.
    pub(in crate::json) fn to_serde_json(
        &self,
        beyond: &dyn Fn(&Number) -> serde_json::Value,
    ) -> serde_json::Value {
        fn convert(
            value: &Value,
            depth: usize,
            beyond: &dyn Fn(&Number) -> serde_json::Value,
        ) -> serde_json::Value {
            let inner = |value| convert(value, depth + 1, beyond);
            match value {
                Value::Null => serde_json::Value::Null,
                Value::Bool(truth) => (*truth).into(),
                Value::Number(number) => match number.as_str().parse::<serde_json::Number>() {
                    Ok(number) => serde_json::Value::Number(number),
                    Err(_) => beyond(number),
                },
                Value::String(text) => text.as_str().into(),
                Value::Array(_) | Value::Object(_) if depth >= Value::MAX_DEPTH => value.to_string().into(),
                Value::Array(elements) => elements.iter().map(inner).collect(),
                Value::Object(members) => {
                    members.iter().map(|(key, value)| (key.to_owned(), inner(value))).collect()
                }
            }
        }
        convert(self, 0, beyond)
    }
}

impl PartialEq<serde_json::Value> for Value {
    fn eq(&self, other: &serde_json::Value) -> bool {
        *self == *other.as_value()
    }
}

impl PartialEq<Value> for serde_json::Value {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<serde_json::Value> for Object {
    fn eq(&self, other: &serde_json::Value) -> bool {
        matches!(Value::from(other), Value::Object(other) if *self == other)
    }
}

impl PartialEq<serde_json::Value> for Array {
    fn eq(&self, other: &serde_json::Value) -> bool {
        matches!(Value::from(other), Value::Array(other) if *self == other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ways() {
        let outside = json!({"b": [1, -2.5, u64::MAX, null, true, "x", [], {}, [[0]]], "a": {"c": {"d": 1}}});
        let value = Value::from(&outside);
        assert_eq!(serde_json::Value::from(&value), outside);
        assert_eq!(value, outside);
        assert_eq!(Value::from(json!("x")), json!("x"));
    }

    #[test]
    fn what_serde_json_cannot_hold() {
        let value: Value = r#"[1.50, 12345678901234567890123, 1e400, -0]"#.parse().expect("JSON");
        assert_eq!(serde_json::Value::from(value), json!([1.5, 12345678901234567890123.0, "1e400", -0.0]));
    }
}
