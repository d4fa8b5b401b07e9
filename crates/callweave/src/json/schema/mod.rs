//! Coercion of arguments to the JSON Schema of a tool.
//!
//! - [`Schema::coerce`]: takes a value and returns the value that the schema requires, with every [`CoercionChange`]
//!   and the problems that remain.
//! - [`StreamCoercer`]: the same for JSON text that is still growing.
//! - [`Schema::read`]: the same from a response's text, broken or in prose.
//! - [`Schema::validate`] and [`Schema::apply`]: full validation, and the [`SchemaPolicy`] that says what follows from
//!   it (feature `schema`).
//! - [`StepBudget`]: the maximum number of steps for all of that.
//! - [`SchemaLocation`] and [`TypeSet`]: the JSON types that a parameter may have, for dialects that write values without
//!   their types.
//! - [`match_name`]: the declared tool that a called name means.
//!
//! ```
//! use callweave::json::schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::new(&json!({
//!     "type": "object",
//!     "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
//!     "required": ["city"],
//! }));
//! let fit = schema.coerce(&json!({"city": "Oslo", "days": "5", "tags": "[\"sea\"]"}));
//! assert_eq!(fit.value, json!({"city": "Oslo", "days": 5, "tags": ["sea"]}));
//! assert_eq!(fit.changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["$.days", "$.tags"]);
//! assert!(fit.problems.is_empty());
//! ```
//!
//! # Decisions
//!
//! - A value that fits as it was written stays: where strings or numbers are allowed, `"5"` and `5` stay alike.
//! - Nothing is invented: defaults are filled in only on request ([`MissingMembers`]).
//! - A `null` for an optional member that takes none is left out: models write it for "not given".
//! - Members are found by another spelling of their name or by their title, and then come last, as they do in streamed
//!   text; undeclared ones are left out only where the schema is closed. Neither happens to a key that any keyword
//!   allows.
//! - Of several alternatives an object or array is coerced to the only one that takes it, whatever is wrong with its
//!   parts. An alternative does not take an object with a key that it does not allow, or a scalar that it cannot
//!   coerce, if others do.
//! - A fraction is never rounded to an integer.
//! - A root that takes only strings is the text itself, with its quotes.

mod alternative;
mod budget;
#[cfg(feature = "schema")]
mod check;
mod coerce;
mod graph;
mod name;
mod pattern;
mod read;
mod scalar;
mod stream;
mod types;
#[cfg(feature = "schema")]
mod validate;

use std::borrow::Cow;
use std::sync::Arc;

use super::bounded;
pub use budget::StepBudget;
use coerce::CoercionTrial;
use graph::{SchemaGraph, SchemaNodeId};
pub use name::match_name;
pub use stream::StreamCoercer;
pub use types::TypeSet;
#[cfg(feature = "schema")]
pub use validate::{SchemaPolicy, ValidationOutcome};

use crate::error::{Error, ErrorKind, Result};
use crate::json::{AsValue, Value};

/// The JSON Schema of a tool's arguments (or of any value). See the [module](self).
///
/// References are local (`#/$defs/…`); a reference that leads elsewhere or nowhere restricts nothing.
#[derive(Clone, Debug)]
pub struct Schema {
    graph: Arc<SchemaGraph>,
    is_too_large: bool,
    #[cfg(feature = "schema")]
    validator: validate::LazyCheck,
}

/// The outcome of coercing a value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CoercedValue {
    /// The value, coerced as far as possible.
    pub value: Value,
    /// Every change that was made, in the order of the outcome.
    pub changes: Vec<CoercionChange>,
    /// The problems that could not be coerced away; the values stay as they were.
    pub problems: Vec<SchemaProblem>,
}

/// One change of a value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CoercionChange {
    /// The path in the value as it was, like `$.items[2].name`.
    pub path: String,
    /// The kind of change.
    pub kind: CoercionKind,
    /// The value before the change.
    pub from: Value,
    /// The value after the change.
    pub to: Value,
}

/// The kinds of [`CoercionChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CoercionKind {
    /// Text became a number.
    Number,
    /// Text or a number became a boolean.
    Boolean,
    /// Text became `null`.
    Null,
    /// A number or boolean became its text.
    Text,
    /// An array or object became its JSON text.
    Written,
    /// Text became the array or object that it spells.
    Parsed,
    /// One of the values to choose from was meant.
    Chosen,
    /// A value became an array of one element.
    Wrapped,
    /// An element took the place of its array.
    Unwrapped,
    /// A value became the only member of an object.
    Keyed,
    /// A member got the name that it has in the schema.
    Renamed,
    /// A member was left out.
    Dropped,
    /// A missing member was filled in.
    Filled,
}

impl CoercionKind {
    /// The cost of the change: how unlikely it is that this was meant.
    fn cost(self) -> u32 {
        match self {
            Self::Null | Self::Boolean | Self::Number | Self::Parsed | Self::Filled | Self::Renamed => 1,
            Self::Text | Self::Chosen | Self::Dropped => 2,
            Self::Wrapped | Self::Unwrapped => 3,
            Self::Written => 4,
            Self::Keyed => 5,
        }
    }

    /// The kind in a word.
    pub fn label(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Null => "null",
            Self::Text => "text",
            Self::Written => "written",
            Self::Parsed => "parsed",
            Self::Chosen => "chosen",
            Self::Wrapped => "wrapped",
            Self::Unwrapped => "unwrapped",
            Self::Keyed => "keyed",
            Self::Renamed => "renamed",
            Self::Dropped => "dropped",
            Self::Filled => "filled",
        }
    }
}

/// A part of a value that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaProblem {
    /// The path of the value, like `$.items[2].name`.
    pub path: String,
    /// The problem in words, without the value itself.
    pub detail: String,
}

impl SchemaProblem {
    /// The problem of a value that was too deep to be walked.
    fn too_deep() -> Self {
        let detail = "nested too deep: what lies deeper stands as its text".to_owned();
        Self { path: "$".to_owned(), detail }
    }

    /// The problem of a value that took too much work to check.
    fn unchecked(error: &Error) -> Self {
        Self { path: "$".to_owned(), detail: error.to_string() }
    }
}

/// The options of coercion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoerceOptions {
    /// The treatment of members that are missing.
    pub missing: MissingMembers,
    /// Whether a text is complete.
    pub extent: TextCompleteness,
}

/// The treatment of members that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissingMembers {
    /// They stay missing; a required one is a problem.
    #[default]
    Keep,
    /// They become `null` where that is allowed; a required array becomes empty.
    Empty,
    /// They become `null`, or empty where only an array or a map is allowed: something to show while the rest is still
    /// to come.
    Blank,
    /// Required ones become the value that the schema offers: its default, its first choice, an empty container.
    Infer,
}

/// Whether a text is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TextCompleteness {
    /// It is complete.
    #[default]
    Complete,
    /// It is the beginning of a longer one: a number at its end is not complete.
    Prefix,
}

/// A position in a document, with the schemas for it.
#[derive(Clone, Debug)]
pub struct SchemaLocation<'s> {
    graph: &'s SchemaGraph,
    /// The nodes that describe the position, each together with the nodes that hold whenever it does.
    ids: Vec<SchemaNodeId>,
    types: TypeSet,
}

impl Schema {
    /// The maximum number of values in the text of a schema. A larger schema restricts nothing, and nothing is checked
    /// by it: the largest schemas of tools have a few thousand.
    pub const MAX_VALUES: usize = 50_000;
    /// The maximum number of bytes of the names and texts of a schema together.
    pub const MAX_BYTES: usize = 2 << 20;

    /// Reads a schema. Unknown keywords restrict nothing, as the standard requires.
    pub fn new(schema: &(impl AsValue + ?Sized)) -> Self {
        let schema = schema.as_value();
        let is_too_large = is_too_large(&schema);
        let schema = if is_too_large { Cow::Owned(Value::Bool(true)) } else { bounded(&schema) };
        Self {
            graph: Arc::new(SchemaGraph::new(&schema)),
            is_too_large,
            #[cfg(feature = "schema")]
            validator: validate::LazyCheck::new(&schema),
        }
    }

    /// Coerces a value to the schema.
    ///
    /// Only types, choices, members and elements are looked at; all other keywords (lengths, patterns, ranges) are for
    /// [`validate`](Schema::validate).
    pub fn coerce(&self, value: &(impl AsValue + ?Sized)) -> CoercedValue {
        self.coerce_with(value, CoerceOptions::default())
    }

    /// Coerces a value to the schema, as `options` say. Where that would take more than a [`StepBudget`] allows, the
    /// value stays as it is, and that is reported as its problem.
    pub fn coerce_with(&self, value: &(impl AsValue + ?Sized), options: CoerceOptions) -> CoercedValue {
        let value = value.as_value();
        self.coerce_within(&*value, options, &mut StepBudget::default()).unwrap_or_else(|error| {
            CoercedValue {
                value: bounded(&value).into_owned(),
                changes: Vec::new(),
                problems: vec![SchemaProblem::unchecked(&error)],
            }
        })
    }

    /// Coerces a value to the schema with the steps of a budget. Fails with [`ErrorKind::Limit`] where they do not
    /// suffice, or where the schema is [too large](Schema::MAX_VALUES).
    ///
    /// [`ErrorKind::Limit`]: crate::ErrorKind::Limit
    pub fn coerce_within(
        &self,
        value: &(impl AsValue + ?Sized),
        options: CoerceOptions,
        budget: &mut StepBudget,
    ) -> Result<CoercedValue> {
        self.within_limits()?;
        let value = value.as_value();
        let value = bounded(&value);
        let steps = StepBudget::new(budget.left());
        let fit = StreamCoercer::new(self, options, steps).fit(&value);
        *budget = fit.as_ref().map_or(StepBudget::new(0), |(_, left)| left.clone());
        let (mut fit, _) = fit?;
        fit.problems.extend(matches!(value, Cow::Owned(_)).then(SchemaProblem::too_deep));
        Ok(fit)
    }

    /// Fails where the schema was too large to be read.
    fn within_limits(&self) -> Result<()> {
        if self.is_too_large {
            return Err(Error::new(ErrorKind::Limit, "the schema is too large: the value was not checked"));
        }
        Ok(())
    }

    /// Reads the value that the schema requires out of a response: JSON, broken JSON, JSON in prose or in fenced
    /// blocks, or a plain sentence that names the value. Of all candidates, the one that fits with the fewest changes
    /// is taken.
    ///
    /// ```
    /// use callweave::json::schema::Schema;
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(&json!({"type": "boolean"}));
    /// assert_eq!(schema.read("The answer is **True**.").value, true);
    /// ```
    pub fn read(&self, text: &str) -> CoercedValue {
        self.read_with(text, CoerceOptions::default())
    }

    /// Reads the value out of a response, as `options` say.
    pub fn read_with(&self, text: &str, options: CoerceOptions) -> CoercedValue {
        read::read(&self.graph, text, options)
    }

    /// The part of the schema that applies to the whole value.
    pub fn root(&self) -> SchemaLocation<'_> {
        let id = SchemaGraph::ROOT;
        SchemaLocation { graph: &self.graph, ids: vec![id], types: self.graph.node(id).types }
    }

    /// The types allowed for the parameter `name`; [`TypeSet::ANY`] where the schema does not say.
    pub fn property(&self, name: &str) -> TypeSet {
        self.root().property(name).map_or(TypeSet::ANY, |place| place.types())
    }
}

impl CoercedValue {
    fn new(trial: CoercionTrial, unchanged: impl FnOnce() -> Value) -> Self {
        let value = trial.value.unwrap_or_else(unchanged);
        Self { value, changes: trial.changes, problems: trial.problems }
    }

    /// Whether the value was left as it was written.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }
}

impl<'s> SchemaLocation<'s> {
    /// The types allowed here.
    pub fn types(&self) -> TypeSet {
        self.types
    }

    /// The position of the member `name` of an object here; none where the schema does not mention it.
    pub fn property(&self, name: &str) -> Option<Self> {
        self.step(|graph, id| {
            let node = graph.node(id);
            let named = node.properties.iter().find(|(other, _)| other == name).map(|(_, id)| *id);
            let by_pattern =
                || node.patterns.iter().find(|(pattern, _)| pattern.is_found_in(name)).map(|(_, id)| *id);
            named.or_else(by_pattern).or(node.additional)
        })
    }

    /// The position of the elements of an array here; none where the schema does not say.
    pub fn items(&self) -> Option<Self> {
        self.step(|graph, id| {
            let node = graph.node(id);
            node.items.or(node.prefix.first().copied())
        })
    }

    /// The position to which `next` leads from any schema that describes this one: the schemas of one alternative hold
    /// together, alternatives are allowed side by side.
    fn step(&self, next: impl Fn(&SchemaGraph, SchemaNodeId) -> Option<SchemaNodeId>) -> Option<Self> {
        /// The maximum number of schemas and names that are looked at; more of them only leave a type open.
        const MAX: usize = 4096;
        let mut looks = 0;
        let mut ids = Vec::new();
        let mut types = TypeSet::NONE;
        let mut seen = self.ids.clone();
        let mut at = 0;
        while let Some(&start) = seen.get(at) {
            at += 1;
            let mut together = None;
            for &id in &self.graph.node(start).together {
                let node = self.graph.node(id);
                looks += 1 + node.properties.len() + node.patterns.len();
                if let Some(next) = next(self.graph, id) {
                    let known = together.unwrap_or(TypeSet::ANY);
                    together = Some(known & self.graph.node(next).types);
                    ids.push(next);
                }
                for &branch in self.graph.node(id).any.iter().flatten() {
                    looks += 1 + seen.len() / 16;
                    if looks > MAX {
                        return None;
                    }
                    if !seen.contains(&branch) {
                        seen.push(branch);
                    }
                }
            }
            types = types | together.unwrap_or(TypeSet::NONE);
        }
        if ids.is_empty() {
            return None;
        }
        ids.dedup();
        Some(Self { graph: self.graph, ids, types })
    }
}

/// Whether a schema is larger than the limits.
fn is_too_large(schema: &Value) -> bool {
    let (mut values, mut bytes) = (0, 0);
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        values += 1;
        match value {
            Value::Array(elements) => {
                if values + open.len() + elements.len() > Schema::MAX_VALUES {
                    return true;
                }
                open.extend(elements);
            }
            Value::Object(members) => {
                if values + open.len() + members.len() > Schema::MAX_VALUES {
                    return true;
                }
                bytes += members.keys().map(str::len).sum::<usize>();
                open.extend(members.values());
            }
            Value::String(text) => bytes += text.len(),
            Value::Number(number) => bytes += number.as_str().len(),
            Value::Null | Value::Bool(_) => {}
        }
        if bytes > Schema::MAX_BYTES {
            return true;
        }
    }
    false
}

/// The maximum number of characters of a name, a pattern or a value in a problem or a path.
const EXCERPT: usize = 120;

/// The beginning of a text, as long as a problem may quote it.
fn excerpt(text: &str) -> Cow<'_, str> {
    if text.len() <= EXCERPT {
        return text.into();
    }
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Appends the step into the member `key` to a path.
fn push_key(path: &mut String, key: &str) {
    let key = &*excerpt(key);
    if crate::json::partial::is_name(key) {
        path.push('.');
        path.push_str(key);
    } else {
        path.push_str(&format!("[{}]", Value::from(key)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(schema: serde_json::Value) -> String {
        Schema::new(&schema).root().types().to_string()
    }

    #[test]
    fn types_follow_every_way_of_saying_them() {
        assert_eq!(types(json!({})), "any");
        assert_eq!(types(json!(true)), "any");
        assert_eq!(types(json!(false)), "nothing");
        assert_eq!(types(json!({"type": "number"})), "number");
        assert_eq!(types(json!({"type": ["integer", "null"]})), "null|integer");
        assert_eq!(types(json!({"type": "STRING", "nullable": true})), "null|string");
        assert_eq!(types(json!({"enum": ["a", 1, null]})), "null|integer|string");
        assert_eq!(types(json!({"const": 1.5})), "fraction");
        assert_eq!(types(json!({"type": "string", "enum": ["a", 1]})), "string");
        assert_eq!(types(json!({"anyOf": [{"type": "string"}, {"type": "array"}]})), "string|array");
        assert_eq!(types(json!({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]})), "string");
        assert_eq!(types(json!({"properties": {}})), "object");
        assert_eq!(types(json!({"items": {}})), "array");
        assert_eq!(types(json!({"type": "no such word"})), "any");
    }

    #[test]
    fn references_are_followed_and_cycles_end() {
        let node = json!({
            "$defs": {
                "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "id": {"$ref": "#/$defs/a~1b%25"}}},
                "a/b%": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "integer"}]},
                "Loop": {"$ref": "#/$defs/Loop", "type": "string"},
            },
            "$ref": "#/$defs/Node",
        });
        let schema = Schema::new(&node);
        let deep = schema.root().property("next").and_then(|next| next.property("next")).expect("next");
        assert_eq!(deep.types(), TypeSet::OBJECT);
        let id = deep.property("id").expect("id").types();
        assert_eq!(id, TypeSet::INTEGER | TypeSet::STRING);
        assert_eq!(types(json!({"$ref": "https://example.com/other"})), "any");
    }

    #[test]
    fn properties_are_found_through_alternatives_and_arrays() {
        let schema = Schema::new(&json!({
            "anyOf": [
                {"properties": {"a": {"type": "string"}, "list": {"items": {"properties": {"n": {"type": "integer"}}}}}},
                {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
            ],
            "properties": {"b": {}},
            "allOf": [{"properties": {"b": {"type": "null"}}}],
        }));
        assert_eq!(schema.property("a"), TypeSet::STRING | TypeSet::INTEGER);
        assert_eq!(schema.property("b"), TypeSet::NULL | TypeSet::BOOLEAN);
        assert_eq!(schema.property("other"), TypeSet::BOOLEAN);
        let list = schema.root().property("list").and_then(|list| list.items()).expect("items");
        assert_eq!(list.property("n").map(|n| n.types()), Some(TypeSet::INTEGER));
        assert!(Schema::new(&json!({"type": "object"})).root().property("x").is_none());
    }
}
