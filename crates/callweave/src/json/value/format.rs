//! Values in serde's types and formats.
//!
//! The text of a number survives `serde_json` by way of its raw values, in both directions. In types that buffer their
//! input (flattened, tagged and untagged ones) and in other formats there is no text; numbers are then converted by the
//! format.

use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Array, Number, Object, Value};

/// Serialized as an integer or a float if one is written just like that; else as it is written, for `serde_json`.
impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Minus zero is no integer to a program.
        if self.as_str() != "-0" {
            if let Some(number) = self.as_i64() {
                return serializer.serialize_i64(number);
            }
            if let Some(number) = self.as_u64() {
                return serializer.serialize_u64(number);
            }
        }
        if !serializer.is_human_readable() {
            return match self.as_f64() {
                Some(number) => serializer.serialize_f64(number),
                None => serializer.serialize_str(self.as_str()),
            };
        }
        match self.as_plain_f64() {
            Some(number) => serializer.serialize_f64(number),
            None => serialize_text(self.as_str(), serializer),
        }
    }
}

/// Passes a number to `serde_json` as it is written. Its `Value` takes none beyond the range of floats (`1e400`): that
/// is a string there, and integers of more than 64 bits are rounded, as when `serde_json` reads them.
fn serialize_text<S: Serializer>(number: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let mut raw = serializer.serialize_struct(RAW, 1)?;
    if let Err(error) = raw.serialize_field(RAW, number) {
        raw.serialize_field(RAW, &format!("\"{number}\"")).map_err(|_| error)?;
    }
    raw.end()
}

/// A value with the number of containers around it.
struct NestedValue<'v>(&'v Value, usize);

impl Serialize for NestedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, depth) = *self;
        match value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::Number(number) => number.serialize(serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(_) | Value::Object(_) if depth >= Value::MAX_DEPTH => serializer.collect_str(value),
            Value::Array(elements) => serialize_elements(elements, depth, serializer),
            Value::Object(members) => serialize_members(members, depth, serializer),
        }
    }
}

fn serialize_elements<S: Serializer>(
    elements: &Array,
    depth: usize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(elements.len()))?;
    for element in elements {
        list.serialize_element(&NestedValue(element, depth + 1))?;
    }
    list.end()
}

fn serialize_members<S: Serializer>(
    members: &Object,
    depth: usize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(members.len()))?;
    for (key, value) in members {
        map.serialize_entry(key, &NestedValue(value, depth + 1))?;
    }
    map.end()
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        NestedValue(self, 0).serialize(serializer)
    }
}

impl Serialize for Array {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_elements(self, 0, serializer)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_members(self, 0, serializer)
    }
}

/// The name by which `serde_json` recognises that the text of a value is asked for. A format that does not know it
/// gives the value.
const RAW: &str = "$serde_json::private::RawValue";

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW, TextOrValue)
    }
}

/// Takes the text of a value, or else the value.
struct TextOrValue;

impl<'de> Visitor<'de> for TextOrValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        match map.next_key::<String>()? {
            Some(key) if key == RAW => {
                let text: String = map.next_value()?;
                text.parse().map_err(A::Error::custom)
            }
            first => members(first, map),
        }
    }
}

/// Takes a value.
struct PlainVisitor;

fn members<'de, A: MapAccess<'de>>(first: Option<String>, mut map: A) -> Result<Value, A::Error> {
    let mut members = Object::new();
    let mut next = first;
    while let Some(key) = next {
        let value: Value = map.next_value()?;
        members.insert(key, value);
        next = map.next_key()?;
    }
    Ok(Value::Object(members))
}

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i128<E>(self, number: i128) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u128<E>(self, number: u128) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut elements = Array::new();
        while let Some(element) = list.next_element::<Value>()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let first = map.next_key()?;
        members(first, map)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(number),
            _ => Err(D::Error::custom("a number is wanted")),
        }
    }
}

impl<'de> Deserialize<'de> for Array {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Array(elements) => Ok(elements),
            _ => Err(D::Error::custom("an array is wanted")),
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(members) => Ok(members),
            _ => Err(D::Error::custom("an object is wanted")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"b":12345678901234567890123,"a":[1.50,1e5,-0,1e400],"c":{"z":null,"y":"x"}}"#;

    #[test]
    fn serde_json_keeps_the_text() {
        let value: Value = serde_json::from_str(TEXT).expect("JSON");
        assert_eq!(serde_json::to_string(&value).ok().as_deref(), Some(TEXT));
        #[derive(Serialize, Deserialize)]
        struct OwnVisitor {
            b: Number,
            a: Array,
            c: Object,
        }
        let own: OwnVisitor = serde_json::from_str(TEXT).expect("its members");
        assert_eq!(serde_json::to_string(&own).ok().as_deref(), Some(TEXT));
    }

    #[test]
    fn types_that_buffer_get_the_value() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        enum TaggedForm {
            A { value: Value },
        }
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct FlatForm {
            #[serde(flatten)]
            inner: InnerForm,
        }
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct InnerForm {
            value: Value,
        }
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(untagged)]
        enum UntaggedForm {
            B { other: bool },
            A { value: Value },
        }
        let text = r#"{"kind":"A","value":{"z":[1.5,-7,18446744073709551615,null,true,"x"],"a":{}}}"#;
        let value: Value =
            r#"{"z":[1.5,-7,18446744073709551615,null,true,"x"],"a":{}}"#.parse().expect("JSON");
        let tagged: TaggedForm = serde_json::from_str(text).expect("tagged");
        assert_eq!(serde_json::to_string(&tagged).ok().as_deref(), Some(text));
        assert_eq!(tagged, TaggedForm::A { value: value.clone() });
        let flat: FlatForm = serde_json::from_str(text).expect("flat");
        assert_eq!(flat.inner.value, value);
        let untagged: UntaggedForm = serde_json::from_str(text).expect("untagged");
        assert_eq!(untagged, UntaggedForm::A { value });
        // The written form survives serialization, whatever is around it.
        let spelled: Value = "1.50".parse().expect("JSON");
        for text in [
            serde_json::to_string(&TaggedForm::A { value: spelled.clone() }),
            serde_json::to_string(&FlatForm { inner: InnerForm { value: spelled.clone() } }),
            serde_json::to_string(&UntaggedForm::A { value: spelled }),
        ] {
            assert!(text.is_ok_and(|text| text.contains("1.50")));
        }
    }

    #[test]
    fn a_member_that_is_named_like_the_raw_text_is_a_member() {
        let text = format!(r#"{{"{RAW}":"[1"}}"#);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value[RAW], "[1");
    }

    #[test]
    fn what_is_nested_too_deep_is_text() {
        let deep = format!("{}7{}", "[".repeat(1000), "]".repeat(1000));
        let value = (0..1000).fold(Value::from(7), |inner, _| Value::Array(vec![inner].into()));
        let written = serde_json::to_value(&value).expect("it is bounded");
        assert!(written.to_string().contains(&deep[Value::MAX_DEPTH..deep.len() - Value::MAX_DEPTH]));
    }
}
