//! Walks through a whole value without recursion: a hostile response nests a hundred thousand lists.

use std::fmt::{self, Write};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::{slice, vec};

use super::{Array, Object, Value, ValueBuilder};
use crate::json::str::escape_to;
use crate::json::word::plain_end;

/// A value in the order in which it is written.
pub(in crate::json) struct ValueWalk<'v> {
    first: Option<WalkStep<'v>>,
    open: Vec<OpenWalk<'v>>,
}

enum OpenWalk<'v> {
    Array(slice::Iter<'v, Value>),
    Object(slice::Iter<'v, (String, Value)>),
    /// A member whose key was visited.
    Member(&'v Value),
}

pub(in crate::json) enum WalkStep<'v> {
    BeginArray,
    BeginObject,
    Key(&'v str),
    /// A value that is no container.
    Leaf(&'v Value),
    EndArray,
    EndObject,
}

impl<'v> ValueWalk<'v> {
    pub(in crate::json) fn through(value: &'v Value) -> Self {
        let mut walk = Self { first: None, open: Vec::new() };
        walk.first = Some(walk.enter(value));
        walk
    }

    fn through_elements(elements: &'v Array) -> Self {
        Self { first: Some(WalkStep::BeginArray), open: vec![OpenWalk::Array(elements.iter())] }
    }

    fn through_members(members: &'v Object) -> Self {
        Self { first: Some(WalkStep::BeginObject), open: vec![OpenWalk::Object(members.members().iter())] }
    }

    fn enter(&mut self, value: &'v Value) -> WalkStep<'v> {
        match value {
            Value::Array(elements) => {
                self.open.push(OpenWalk::Array(elements.iter()));
                WalkStep::BeginArray
            }
            Value::Object(members) => {
                self.open.push(OpenWalk::Object(members.members().iter()));
                WalkStep::BeginObject
            }
            leaf => WalkStep::Leaf(leaf),
        }
    }
}

impl<'v> Iterator for ValueWalk<'v> {
    type Item = WalkStep<'v>;

    fn next(&mut self) -> Option<WalkStep<'v>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        match self.open.last_mut()? {
            OpenWalk::Array(elements) => match elements.next() {
                Some(element) => Some(self.enter(element)),
                None => {
                    self.open.pop();
                    Some(WalkStep::EndArray)
                }
            },
            OpenWalk::Object(members) => match members.next() {
                Some((key, value)) => {
                    self.open.push(OpenWalk::Member(value));
                    Some(WalkStep::Key(key))
                }
                None => {
                    self.open.pop();
                    Some(WalkStep::EndObject)
                }
            },
            &mut OpenWalk::Member(value) => {
                self.open.pop();
                Some(self.enter(value))
            }
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        match self {
            Self::Null => Self::Null,
            Self::Bool(truth) => Self::Bool(*truth),
            Self::Number(number) => Self::Number(number.clone()),
            Self::String(text) => Self::String(text.clone()),
            Self::Array(_) | Self::Object(_) => {
                let mut builder = ValueBuilder::default();
                for step in ValueWalk::through(self) {
                    match step {
                        WalkStep::BeginArray => builder.begin_array(),
                        WalkStep::BeginObject => builder.begin_object(),
                        WalkStep::Key(key) => builder.key(key.to_owned()),
                        WalkStep::Leaf(leaf) => builder.put(leaf.clone()),
                        WalkStep::EndArray | WalkStep::EndObject => builder.end(),
                    }
                }
                builder.finish()
            }
        }
    }
}

impl Clone for Array {
    fn clone(&self) -> Self {
        self.iter().cloned().collect()
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        self.iter().map(|(key, value)| (key, value.clone())).collect()
    }
}

/// The effect of the last step on the next.
#[derive(Clone, Copy, PartialEq)]
enum StepEffect {
    Nothing,
    Begin,
    Key,
    Value,
}

/// Writes JSON text: compact, or with `{:#}` in lines, both as `serde_json` does.
fn write(walk: ValueWalk<'_>, is_pretty: bool, f: &mut impl Write) -> fmt::Result {
    let mut depth = 0;
    let mut after = StepEffect::Nothing;
    for step in walk {
        let is_end = matches!(step, WalkStep::EndArray | WalkStep::EndObject);
        depth -= usize::from(is_end);
        if after == StepEffect::Value && !is_end {
            f.write_char(',')?;
        }
        let begins_line =
            if is_end { after == StepEffect::Value } else { depth > 0 && after != StepEffect::Key };
        if is_pretty && begins_line {
            write!(f, "\n{:1$}", "", 2 * depth)?;
        }
        after = match step {
            WalkStep::BeginArray | WalkStep::BeginObject => StepEffect::Begin,
            WalkStep::Key(_) => StepEffect::Key,
            WalkStep::Leaf(_) | WalkStep::EndArray | WalkStep::EndObject => StepEffect::Value,
        };
        depth += usize::from(after == StepEffect::Begin);
        match step {
            WalkStep::BeginArray => f.write_char('[')?,
            WalkStep::BeginObject => f.write_char('{')?,
            WalkStep::EndArray => f.write_char(']')?,
            WalkStep::EndObject => f.write_char('}')?,
            WalkStep::Key(key) => {
                write_string(key, f)?;
                f.write_str(if is_pretty { ": " } else { ":" })?;
            }
            WalkStep::Leaf(Value::Null) => f.write_str("null")?,
            WalkStep::Leaf(Value::Bool(truth)) => f.write_str(if *truth { "true" } else { "false" })?,
            WalkStep::Leaf(Value::Number(number)) => f.write_str(number.as_str())?,
            WalkStep::Leaf(Value::String(text)) => write_string(text, f)?,
            WalkStep::Leaf(Value::Array(_) | Value::Object(_)) => unreachable!("a leaf is no container"),
        }
    }
    Ok(())
}

fn write_string(text: &str, f: &mut impl Write) -> fmt::Result {
    f.write_char('"')?;
    if plain_end(text.as_bytes(), 0) == text.len() {
        f.write_str(text)?;
    } else {
        escape_to(text, f)?;
    }
    f.write_char('"')
}

impl Value {
    /// Appends the value as compact JSON text.
    pub fn write_into(&self, out: &mut String) {
        // A string takes everything.
        let _ = write(ValueWalk::through(self), false, out);
    }

    /// The same for a value that is not needed any more: written parts are freed, so that a long value and its text are
    /// never in memory together.
    pub fn write_last_into(self, out: &mut String) {
        let mut open: Vec<UnwrittenRest> = Vec::new();
        let mut next = Some(self);
        loop {
            match next.take() {
                Some(Self::Array(elements)) => {
                    out.push('[');
                    open.push(UnwrittenRest::Array(elements.into_iter()));
                }
                Some(Self::Object(members)) => {
                    out.push('{');
                    open.push(UnwrittenRest::Object(members.into_iter()));
                }
                Some(leaf) => {
                    leaf.write_into(out);
                    out.push(',');
                }
                None => {}
            }
            match open.last_mut() {
                Some(UnwrittenRest::Array(elements)) => next = elements.next(),
                Some(UnwrittenRest::Object(members)) => {
                    next = members.next().map(|(key, value)| {
                        let _ = write_string(&key, out);
                        out.push(':');
                        value
                    });
                }
                None => break,
            }
            if next.is_none() {
                // Behind the last of several there is a comma.
                if out.ends_with(',') {
                    out.pop();
                }
                out.push_str(if matches!(open.pop(), Some(UnwrittenRest::Array(_))) { "]," } else { "}," });
            }
        }
        out.pop();
    }
}

/// The part of a value that is still to be written.
enum UnwrittenRest {
    Array(vec::IntoIter<Value>),
    Object(vec::IntoIter<(String, Value)>),
}

macro_rules! display {
    ($($shown:ty, $walk:ident;)*) => {$(
        /// Compact JSON text; with `{:#}` in lines.
        impl fmt::Display for $shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(ValueWalk::$walk(self), f.alternate(), f)
            }
        }

        impl fmt::Debug for $shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(ValueWalk::$walk(self), f.alternate(), f)
            }
        }
    )*};
}

display! {
    Value, through;
    Array, through_elements;
    Object, through_members;
}

/// Whether all pairs are equal, and all pairs inside them.
fn are_same<'v>(mut pairs: Vec<(&'v Value, &'v Value)>) -> bool {
    while let Some((one, other)) = pairs.pop() {
        let is_same = match (one, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Number(one), Value::Number(other)) => one == other,
            (Value::String(one), Value::String(other)) => one == other,
            (Value::Array(one), Value::Array(other)) => pair_elements(one, other, &mut pairs),
            (Value::Object(one), Value::Object(other)) => pair_members(one, other, &mut pairs),
            _ => false,
        };
        if !is_same {
            return false;
        }
    }
    true
}

fn pair_elements<'v>(one: &'v Array, other: &'v Array, pairs: &mut Vec<(&'v Value, &'v Value)>) -> bool {
    pairs.extend(one.iter().zip(other.iter()));
    one.len() == other.len()
}

fn pair_members<'v>(one: &'v Object, other: &'v Object, pairs: &mut Vec<(&'v Value, &'v Value)>) -> bool {
    one.len() == other.len()
        && one.iter().all(|(key, value)| {
            let found = other.get(key);
            pairs.extend(found.map(|found| (value, found)));
            found.is_some()
        })
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        are_same(vec![(self, other)])
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = Vec::new();
        pair_elements(self, other, &mut pairs) && are_same(pairs)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = Vec::new();
        pair_members(self, other, &mut pairs) && are_same(pairs)
    }
}

impl Eq for Value {}
impl Eq for Array {}
impl Eq for Object {}

/// Equal values have members in any order, so the hash is the sum over all leaves and keys.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let mut sum: u64 = 0;
        let mut open = vec![(0, self)];
        while let Some((place, value)) = open.pop() {
            let hash = match value {
                Self::Null => hasher.hash_one((place, 0)),
                Self::Bool(truth) => hasher.hash_one((place, truth)),
                Self::Number(number) => hasher.hash_one((place, number)),
                Self::String(text) => hasher.hash_one((place, text)),
                Self::Array(elements) => {
                    open.extend(
                        elements
                            .iter()
                            .enumerate()
                            .map(|(at, element)| (hasher.hash_one((place, at)), element)),
                    );
                    hasher.hash_one((place, elements.len()))
                }
                Self::Object(members) => {
                    open.extend(members.iter().map(|(key, value)| (hasher.hash_one((place, key)), value)));
                    hasher.hash_one((place, members.len()))
                }
            };
            sum = sum.wrapping_add(hash);
        }
        state.write_u64(sum);
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        dismantle(self.iter_mut());
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        dismantle(self.values_mut());
    }
}

/// Drops the containers among `values` one after the other, each when there are none left inside it.
fn dismantle<'v>(values: impl Iterator<Item = &'v mut Value>) {
    fn take<'v>(values: impl Iterator<Item = &'v mut Value>, open: &mut Vec<Value>) {
        let is_filled = |value: &Value| match value {
            Value::Array(elements) => !elements.is_empty(),
            Value::Object(members) => !members.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        open.extend(values.filter(|value| is_filled(value)).map(Value::take));
    }
    let mut open = Vec::new();
    take(values, &mut open);
    while let Some(mut value) = open.pop() {
        match &mut value {
            Value::Array(elements) => take(elements.iter_mut(), &mut open),
            Value::Object(members) => take(members.values_mut(), &mut open),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_last_text_is_the_same_text() {
        for text in [
            "0",
            r#"",""#,
            "[]",
            "{}",
            r#"[[],{},[[1,","]],{"a":[{"b\"":null},"x"],"c":{}}]"#,
            r#"{"a":{"b":{}},"c":[],"d,":true}"#,
        ] {
            let value: Value = text.parse().expect("JSON");
            let mut out = String::from("before,");
            value.write_last_into(&mut out);
            assert_eq!(out, format!("before,{text}"));
        }
    }

    #[test]
    fn depth_takes_no_stack() {
        const DEPTH: usize = 300_000;
        let work = || {
            let list = |inner| Value::Array(vec![inner].into());
            let object = |inner| Value::object([("a", inner)]);
            for (nest, begin, end) in
                [(&list as &dyn Fn(Value) -> Value, "[", "]"), (&object, "{\"a\":", "}")]
            {
                let value = (0..DEPTH).fold(7.into(), |inner, _| nest(inner));
                let copy = value.clone();
                assert!(value == copy);
                assert!(HashSet::from([&value]).contains(&copy));
                let text = format!("{}7{}", begin.repeat(DEPTH), end.repeat(DEPTH));
                assert!(format!("{value}") == text && format!("{value:?}") == text);
                assert!(serde_json::to_string(&value).is_ok());
                assert!(serde_json::from_str::<Value>(&text).is_err());
                let outside = serde_json::Value::from(&value);
                assert!(value != outside);
            }
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(work).expect("a thread");
        thread.join().expect("it does not overflow");
    }

    #[test]
    fn order_of_members_does_not_count_and_spelling_does() {
        let value = |text: &str| text.parse::<Value>().expect("JSON");
        let set = HashSet::from([value(r#"{"a":[1,{"b":null}],"c":true}"#)]);
        assert!(set.contains(&value(r#"{"c":true,"a":[1,{"b":null}]}"#)));
        for other in [
            r#"{"c":true,"a":[{"b":null},1]}"#,
            r#"{"c":true,"a":[1.0,{"b":null}]}"#,
            r#"{"c":true,"a":[1,{"b":null},2]}"#,
            r#"{"c":true,"a":[1,{"b":null}],"d":0}"#,
            r#"{"c":true,"b":[1,{"b":null}]}"#,
            r#"[{"c":true,"a":[1,{"b":null}]}]"#,
        ] {
            assert!(!set.contains(&value(other)), "{other}");
        }
    }

    #[test]
    fn text_is_as_serde_json_writes_it() {
        for text in [
            "[]",
            "{}",
            r#"[[],{},[{}],"",null,true,false,-0,1.50,1e5]"#,
            r#"{"a":{"b":[1,[2,[3]],4],"c":{}},"d":"x"}"#,
            r#"{"\"\\\n\u0001":"\b\f\t\r\u001f/é😀"}"#,
        ] {
            let value: Value = text.parse().expect("JSON");
            assert_eq!(value.to_string(), text);
            assert_eq!(serde_json::to_string(&value).ok().as_deref(), Some(text));
            assert_eq!(serde_json::to_string_pretty(&value).ok(), Some(format!("{value:#}")));
            match value {
                Value::Array(elements) => assert_eq!(elements.to_string(), text),
                Value::Object(members) => assert_eq!(members.to_string(), text),
                _ => {}
            }
        }
    }
}
