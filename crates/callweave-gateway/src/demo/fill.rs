//! Arguments that fit a schema, with what the user spoke of in them.

use std::cell::Cell;

use callweave::Value;
use callweave::json::{Array, Object};

/// Deeper than this nothing is filled: a schema may hold itself.
const DEEPEST: usize = 12;

/// The maximum number of steps of a filling, after which everything left is `null`: schemas inside schemas multiply.
const STEPS: usize = 20_000;

/// The maximum number of characters that a text is lengthened to.
const LONGEST: usize = 1000;

/// The extent to which an object is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FillExtent {
    /// Required properties, and properties that the text mentions.
    Required,
    /// All that has a schema.
    Everything,
}

/// Fills a schema from a text.
pub(super) struct SchemaFilling<'f> {
    root: &'f Value,
    text: &'f str,
    /// The text without its case.
    folded: String,
    extent: FillExtent,
    /// The steps that are left.
    left: Cell<usize>,
}

impl<'f> SchemaFilling<'f> {
    pub(super) fn new(root: &'f Value, text: &'f str, extent: FillExtent) -> Self {
        Self { root, text, folded: text.to_lowercase(), extent, left: Cell::new(STEPS) }
    }

    /// A value for the complete schema, which for tools is an object.
    pub(super) fn object(&self) -> Value {
        match self.value(self.root, 0) {
            object @ Value::Object(_) => object,
            _ => Value::object([]),
        }
    }

    /// Takes steps, and says whether there were that many.
    fn takes(&self, steps: usize) -> bool {
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    fn value(&self, schema: &Value, depth: usize) -> Value {
        if !self.takes(1) {
            return Value::Null;
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.filter(|_| depth < DEEPEST).map_or(Value::Null, |it| self.value(it, depth + 1));
        }
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let spoken = values.iter().find(|value| self.speaks_of(value));
            return spoken.or(values.iter().next()).cloned().unwrap_or(Value::Null);
        }
        for key in ["anyOf", "oneOf"] {
            let ways = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            let mut ways = ways.filter(|way| way.get("type").is_none_or(|kind| kind != "null"));
            if let Some(way) = ways.next().filter(|_| depth < DEEPEST) {
                return self.value(way, depth + 1);
            }
        }
        match self.kind(schema) {
            "object" => Value::Object(self.members(schema, depth)),
            "array" => self.items(schema, depth),
            "integer" | "number" => self.number(schema),
            "boolean" => true.into(),
            "null" => Value::Null,
            _ => given(schema).unwrap_or_else(|| self.string(schema).into()),
        }
    }

    fn kind<'s>(&self, schema: &'s Value) -> &'s str {
        let kinds = schema.get("type");
        let listed = || kinds?.as_array()?.iter().filter_map(Value::as_str).find(|kind| *kind != "null");
        let has = |key| schema.get(key).is_some();
        match kinds.and_then(Value::as_str).or_else(listed) {
            Some(kind) => kind,
            None if has("properties") || has("allOf") || has("additionalProperties") => "object",
            None if has("items") => "array",
            None => "string",
        }
    }

    fn members(&self, schema: &Value, depth: usize) -> Object {
        let mut members = Object::new();
        if depth >= DEEPEST {
            return members;
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if let Value::Object(inner) = self.value(part, depth + 1) {
                inner.iter().for_each(|(key, value)| {
                    members.insert(key, value.clone());
                });
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |key: &str| {
            required
                .is_some_and(|keys| self.takes(1 + keys.len() / 16) && keys.iter().any(|other| other == key))
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, property) in properties.into_iter().flatten() {
            let is_wanted = match self.extent {
                FillExtent::Everything => true,
                FillExtent::Required => is_required(key) || self.speaks_to(property),
            };
            if is_wanted {
                members.insert(key, self.value(property, depth + 1));
            }
        }
        members
    }

    /// Whether the text says something for an optional property: one of its values, or a number.
    fn speaks_to(&self, property: &Value) -> bool {
        match property.get("enum").and_then(Value::as_array) {
            Some(values) => values.iter().any(|value| self.speaks_of(value)),
            None => matches!(self.kind(property), "integer" | "number") && self.numbers().next().is_some(),
        }
    }

    fn speaks_of(&self, value: &Value) -> bool {
        self.takes(1 + self.folded.len() / 256)
            && value
                .as_str()
                .is_some_and(|value| !value.is_empty() && self.folded.contains(&value.to_lowercase()))
    }

    fn items(&self, schema: &Value, depth: usize) -> Value {
        let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 8);
        let item = |_| match schema.get("items") {
            Some(items) => self.value(items, depth + 1),
            None => self.string(schema).into(),
        };
        if depth >= DEEPEST { Value::Array(Array::new()) } else { (0..count).map(item).collect() }
    }

    fn number(&self, schema: &Value) -> Value {
        let bound = |key| schema.get(key).and_then(Value::as_f64);
        let least = bound("minimum").or(bound("exclusiveMinimum").map(|least| least + 1.0));
        let max = bound("maximum").or(bound("exclusiveMaximum").map(|max| max - 1.0));
        let fits =
            |number: &f64| least.is_none_or(|least| *number >= least) && max.is_none_or(|max| *number <= max);
        let is_complete = self.kind(schema) == "integer";
        let spoken = self.numbers().filter(fits).find(|number| !is_complete || number.fract() == 0.0);
        let number = spoken.unwrap_or_else(|| least.unwrap_or(1.0).min(max.unwrap_or(f64::MAX)));
        match number.fract() == 0.0 && number.abs() < 1e15 {
            true => (number as i64).into(),
            false => number.into(),
        }
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.text
            .split(|char: char| char.is_whitespace() || ",;:?!()".contains(char))
            .filter_map(|word| word.trim_end_matches('.').parse().ok())
            .filter(|number: &f64| number.is_finite())
    }

    /// Returns the quoted part of the text, else the names in the text, else the text, as long as the schema allows.
    fn string(&self, schema: &Value) -> String {
        let dated = match schema.get("format").and_then(Value::as_str) {
            Some("date") => Some("2026-01-31"),
            Some("date-time") => Some("2026-01-31T12:00:00Z"),
            Some("time") => Some("12:00:00Z"),
            Some("uri" | "url") => Some("https://example.com/"),
            Some("email") => Some("someone@example.com"),
            Some("uuid") => Some("5f1e2d3c-4b5a-4678-9abc-def012345678"),
            _ => None,
        };
        if let Some(dated) = dated {
            return dated.to_owned();
        }
        if !self.takes(self.text.len() / 256) {
            return String::new();
        }
        let quoted = self.text.split(['"', '“', '”', '`']).nth(1).filter(|text| !text.is_empty());
        let mut found =
            quoted.map(str::to_owned).or_else(|| self.names()).unwrap_or_else(|| self.beginning());
        let length = |key| schema.get(key).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
        let least = length("minLength").unwrap_or(0).min(LONGEST);
        found.extend(std::iter::repeat_n('-', least.saturating_sub(found.chars().count())));
        found.chars().take(length("maxLength").unwrap_or(usize::MAX)).collect()
    }

    /// The first words with capitals that do not begin a sentence.
    fn names(&self) -> Option<String> {
        let mut names = Vec::new();
        let mut begins = true;
        for word in self.text.split_whitespace() {
            let bare = word.trim_matches(|char: char| !char.is_alphanumeric());
            let is_name = !begins && bare.chars().count() > 1 && bare.starts_with(char::is_uppercase);
            begins = word.ends_with(['.', '?', '!', ':']);
            match is_name {
                true => names.push(bare),
                false if !names.is_empty() => break,
                false => {}
            }
            if begins && !names.is_empty() {
                break;
            }
        }
        (!names.is_empty()).then(|| names.join(" "))
    }

    fn beginning(&self) -> String {
        let line = self.text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("something");
        line.chars().take(60).collect()
    }
}

/// A text that the schema gives itself.
fn given(schema: &Value) -> Option<Value> {
    let example = || schema.get("examples")?.as_array()?.iter().next();
    schema.get("default").or_else(example).filter(|value| value.is_string()).cloned()
}
