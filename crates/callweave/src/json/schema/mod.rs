//! Fitting arguments to the JSON Schema of a tool.
//!
//! - [`Schema`]: a tool's schema, its references resolved once.
//! - [`Place`] and [`Types`]: which JSON types a parameter may have, for dialects that write values
//!   without saying their types.

mod graph;
mod types;

use serde_json::Value;

use graph::{Graph, Id};
pub use types::Types;

/// The JSON Schema of a tool's arguments (or of any value). See the [module](self).
///
/// References are local (`#/$defs/…`); one that leads elsewhere or nowhere says nothing.
#[derive(Clone, Debug)]
pub struct Schema {
    graph: Graph,
}

/// A place in a document, with what the schema says about it.
#[derive(Clone, Debug)]
pub struct Place<'s> {
    graph: &'s Graph,
    /// The nodes that describe the place, each together with what holds whenever it does.
    ids: Vec<Id>,
    types: Types,
}

impl Schema {
    /// Reads a schema. Words it does not know say nothing, as the standard wants it.
    pub fn new(schema: &Value) -> Self {
        Self { graph: Graph::new(schema) }
    }

    /// What the schema says about the whole value.
    pub fn root(&self) -> Place<'_> {
        let id = Graph::ROOT;
        Place { graph: &self.graph, ids: vec![id], types: self.graph.node(id).types }
    }

    /// The types allowed for the parameter `name`; [`Types::ANY`] where the schema does not say.
    pub fn property(&self, name: &str) -> Types {
        self.root().property(name).map_or(Types::ANY, |place| place.types())
    }
}

impl<'s> Place<'s> {
    /// The types allowed here.
    pub fn types(&self) -> Types {
        self.types
    }

    /// The place of the member `name` of an object here; nothing where the schema does not mention it.
    pub fn property(&self, name: &str) -> Option<Self> {
        self.step(|graph, id| {
            let node = graph.node(id);
            let named = node.properties.iter().find(|(other, _)| other == name).map(|(_, id)| *id);
            let by_pattern =
                || node.patterns.iter().find(|(pattern, _)| pattern.matches(name)).map(|(_, id)| *id);
            named.or_else(by_pattern).or(node.additional)
        })
    }

    /// The place of the elements of an array here; nothing where the schema does not say.
    pub fn items(&self) -> Option<Self> {
        self.step(|graph, id| {
            let node = graph.node(id);
            node.items.or(node.prefix.first().copied())
        })
    }

    /// Where `next` leads from any schema that describes this place: what the schemas of one
    /// alternative say holds together, what alternatives say is allowed side by side.
    fn step(&self, next: impl Fn(&Graph, Id) -> Option<Id>) -> Option<Self> {
        let mut ids = Vec::new();
        let mut types = Types::NONE;
        let mut seen = self.ids.clone();
        let mut at = 0;
        while let Some(&start) = seen.get(at) {
            at += 1;
            let mut together = None;
            for id in self.graph.conjunction(start) {
                if let Some(next) = next(self.graph, id) {
                    let known = together.unwrap_or(Types::ANY);
                    together = Some(known & self.graph.node(next).types);
                    ids.push(next);
                }
                for &branch in self.graph.node(id).any.iter().flatten() {
                    if !seen.contains(&branch) {
                        seen.push(branch);
                    }
                }
            }
            types = types | together.unwrap_or(Types::NONE);
        }
        if ids.is_empty() {
            return None;
        }
        ids.dedup();
        Some(Self { graph: self.graph, ids, types })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(schema: Value) -> String {
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
        assert_eq!(deep.types(), Types::OBJECT);
        let id = deep.property("id").expect("id").types();
        assert_eq!(id, Types::INTEGER | Types::STRING);
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
        assert_eq!(schema.property("a"), Types::STRING | Types::INTEGER);
        assert_eq!(schema.property("b"), Types::NULL | Types::BOOLEAN);
        assert_eq!(schema.property("other"), Types::BOOLEAN);
        let list = schema.root().property("list").and_then(|list| list.items()).expect("items");
        assert_eq!(list.property("n").map(|n| n.types()), Some(Types::INTEGER));
        assert!(Schema::new(&json!({"type": "object"})).root().property("x").is_none());
    }
}
