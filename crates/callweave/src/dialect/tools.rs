//! The tools that were declared to the model.

use std::sync::Arc;

use crate::json::schema::Schema;
use crate::json::{AsValue, Value};

/// Declared tools: their names, and the schemas of their arguments.
///
/// ```
/// use callweave::dialect::Tools;
///
/// let tools = Tools::from_json(&serde_json::json!([
///     {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}},
///     {"name": "search", "input_schema": {"type": "object"}},
/// ]));
/// assert!(tools.contains("search") && !tools.contains("delete"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// Agents declare the same tools with every request: a caller that keeps them shares them.
    tools: Arc<Vec<DeclaredTool>>,
}

/// The name of a tool, the schema of its arguments, their names, and the names of those that must be there.
type DeclaredTool = (String, Option<Schema>, Vec<String>, Vec<String>);

impl Tools {
    /// Reads a list of tools, each in the shape of OpenAI (`function.parameters`), of Anthropic (`input_schema`) or
    /// bare (`name`, `parameters`). Anything else is left out.
    pub fn from_json(list: &impl AsValue) -> Self {
        let mut tools = Self::default();
        for tool in list.as_value().as_array().into_iter().flatten() {
            let function = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
            let Some(name) = function.get("name").and_then(Value::as_str) else { continue };
            let schema = ["parameters", "input_schema", "inputSchema", "schema"]
                .iter()
                .find_map(|&key| function.get(key));
            tools.declare(name, schema.map(|schema| schema as &dyn AsValue));
        }
        tools
    }

    /// Declares one tool, with the JSON Schema of its arguments where there is one.
    pub fn declare(&mut self, name: &str, schema: Option<&dyn AsValue>) {
        let schema = schema.map(AsValue::as_value);
        let keys = schema
            .as_deref()
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object)
            .map(|properties| properties.keys().map(str::to_owned).collect())
            .unwrap_or_default();
        let required = schema
            .as_deref()
            .and_then(|schema| schema.get("required"))
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let schema = schema.as_deref().map(Schema::new);
        Arc::make_mut(&mut self.tools).push((name.to_owned(), schema, keys, required));
    }

    /// Whether none was declared.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether a tool of that name was declared.
    pub fn contains(&self, name: &str) -> bool {
        self.tools.iter().any(|(tool, ..)| tool == name)
    }

    /// The declared tool that a text names: in another case, or behind a namespace, it is still that tool.
    pub fn find(&self, name: &str) -> Option<&str> {
        let names = || self.tools.iter().map(|(tool, ..)| tool.as_str());
        let declared = |wanted: &str| names().find(|tool| *tool == wanted);
        let folded = |wanted: &str| names().find(|tool| tool.eq_ignore_ascii_case(wanted));
        let last = || name.rsplit_once('.').and_then(|(_, last)| declared(last).or_else(|| folded(last)));
        declared(name).or_else(|| folded(name)).or_else(last)
    }

    /// Whether a declared tool's name begins with `text`.
    pub(super) fn may_begin(&self, text: &str) -> bool {
        self.tools.iter().any(|(tool, ..)| tool.starts_with(text))
    }

    /// Whether `name` is a declared tool, and not the beginning of another one's name.
    pub(crate) fn is_whole_name(&self, name: &str) -> bool {
        let mut begun =
            self.tools.iter().map(|(tool, ..)| tool).filter(|tool| tool.starts_with(name)).peekable();
        begun.peek().is_some() && begun.all(|tool| tool == name)
    }

    /// The schema of a tool's arguments.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.tools.iter().find(|(tool, ..)| tool == name).and_then(|(_, schema, ..)| schema.as_ref())
    }

    /// Whether a tool has that parameter, where its parameters are known.
    pub(super) fn declares(&self, name: &str, parameter: &str) -> Option<bool> {
        let (_, schema, known, _) = self.tools.iter().find(|(tool, ..)| tool == name)?;
        let place = schema.as_ref().filter(|_| !known.is_empty())?.root();
        Some(place.property(parameter).is_some())
    }

    /// Whether a tool lists that parameter among its own.
    pub(super) fn has_parameter(&self, name: &str, parameter: &str) -> bool {
        self.parameters(name).any(|known| known == parameter)
    }

    /// Whether a parameter that a tool lists begins with `text`.
    pub(super) fn may_begin_parameter(&self, name: &str, text: &str) -> bool {
        self.parameters(name).any(|known| known.starts_with(text))
    }

    fn parameters(&self, name: &str) -> impl Iterator<Item = &String> {
        self.tools.iter().filter(move |(tool, ..)| tool == name).flat_map(|(_, _, known, _)| known)
    }

    /// Whether these are all parameters without which a tool cannot be called.
    pub(super) fn has_required(&self, name: &str, given: &[String]) -> bool {
        let mut required = self.tools.iter().filter(|(tool, ..)| tool == name).flat_map(|(.., names)| names);
        required.all(|name| given.contains(name))
    }

    /// Whether a tool, or a parameter of one, has that name.
    pub(super) fn names(&self, name: &str) -> bool {
        self.tools.iter().any(|(tool, _, known, _)| tool == name || known.iter().any(|known| known == name))
    }

    /// All names, and the parameters that are known.
    pub(super) fn known(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.tools.iter().map(|(name, _, parameters, _)| (name.as_str(), parameters.as_slice()))
    }
}
