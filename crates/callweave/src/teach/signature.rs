//! The text in a prompt about one tool.

use crate::json::{Object, Value};

/// The maximum length of descriptions in signatures, in characters.
const LONGEST_DESCRIPTION: usize = 80;

/// A declared tool, of any shape.
pub(super) struct ToolSignature<'v> {
    pub(super) name: &'v str,
    pub(super) description: &'v str,
    pub(super) schema: Option<&'v Value>,
}

impl<'v> ToolSignature<'v> {
    pub(super) fn read(tool: &'v Value) -> Self {
        let tool = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
        let text = |key| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        let schema =
            ["parameters", "input_schema", "inputSchema", "schema"].iter().find_map(|&key| tool.get(key));
        Self {
            name: text("name"),
            description: text("description"),
            schema: schema.filter(|it| it.is_object()),
        }
    }

    fn name(&self) -> &str {
        if self.name.is_empty() { "<unnamed>" } else { self.name }
    }

    /// In the shape that most models were shown.
    pub(super) fn json(&self) -> Value {
        let empty = || Value::object([("type", "object".into()), ("properties", Value::object([]))]);
        let mut function = Object::from_iter([("name", Value::from(self.name()))]);
        if !self.description.trim().is_empty() {
            function.insert("description", self.description);
        }
        function.insert("parameters", self.schema.cloned().unwrap_or_else(empty));
        Value::object([("type", "function".into()), ("function", Value::Object(function))])
    }

    pub(super) fn full(&self) -> String {
        let schema = self.schema.map_or_else(|| "{}".to_owned(), Value::to_string);
        let description = match self.description.trim() {
            "" => "no description",
            _ => self.description,
        };
        format!("- `{}` — {description}\n  Schema: {schema}", self.name())
    }

    pub(super) fn compact(&self) -> String {
        let mut line = format!("- {}({})", self.name(), self.parameters().join(", "));
        let description = self.short_description();
        if !description.is_empty() {
            line.push_str(" — ");
            line.push_str(&description);
        }
        line
    }

    /// Required parameters first, each group in alphabetical order.
    fn parameters(&self) -> Vec<String> {
        let empty = Object::new();
        let properties = self.schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let required = self.schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        let is_required = |key: &str| required.is_some_and(|keys| keys.iter().any(|other| other == key));
        let mut parameters: Vec<_> = properties
            .unwrap_or(&empty)
            .iter()
            .map(|(key, schema)| (!is_required(key), key, type_of(schema)))
            .collect();
        parameters.sort_by_key(|&(is_optional, key, _)| (is_optional, key));
        let shown = |(is_optional, key, kind): (bool, &str, String)| {
            format!("{key}{}: {kind}", if is_optional { "?" } else { "" })
        };
        parameters.into_iter().map(shown).collect()
    }

    /// The first sentence, on one line.
    fn short_description(&self) -> String {
        let line = self.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = line.find(". ").map_or(line.as_str(), |end| &line[..=end]);
        sentence.chars().take(LONGEST_DESCRIPTION).collect()
    }
}

/// The type of a parameter in one word; a type that needs more is an `object`.
fn type_of(schema: &Value) -> String {
    let kind = |schema: &Value| match schema.get("type").and_then(Value::as_str) {
        Some(kind @ ("string" | "number" | "integer" | "boolean" | "null")) => Some(kind.to_owned()),
        _ => None,
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            let items = schema.get("items").and_then(kind);
            items.map_or_else(|| "array".to_owned(), |kind| format!("{kind}[]"))
        }
        _ => kind(schema).unwrap_or_else(|| "object".to_owned()),
    }
}
