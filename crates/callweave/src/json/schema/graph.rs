//! The schema as a graph of nodes: references resolved to edges, types of every node computed.
//!
//! Following a reference is following an edge, so cycles are harmless, and nothing here recurses over
//! the schema.

use std::collections::HashMap;
use std::ops::BitAnd;
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;

use super::alternative::ObjectAlternative;
use super::budget::BudgetSpent;
use super::pattern::KeyPattern;
use super::scalar::NamedChoice;
use super::{StepBudget, TypeSet};
use crate::json::{Object, Value};

pub(super) type SchemaNodeId = usize;

#[derive(Clone, Debug, Default)]
pub(super) struct SchemaGraph {
    nodes: Vec<SchemaNode>,
}

/// One schema object, with its sub-schemas as edges.
#[derive(Clone, Debug)]
pub(super) struct SchemaNode {
    /// The types that the node's own keywords allow.
    own: TypeSet,
    is_nullable: bool,
    /// The types that the node allows in total.
    pub(super) types: TypeSet,
    /// The types whose values it takes as they are, whatever they contain.
    pub(super) takes: TypeSet,
    /// The types whose values it never changes, whatever they contain: they fit, or cannot be coerced.
    pub(super) keeps: TypeSet,
    /// Whether it is a choice of values: see [`SchemaGraph::choices`].
    pub(super) is_choice: bool,
    pub(super) title: Option<String>,
    /// The values of `enum` or `const`.
    pub(super) values: Option<Vec<Value>>,
    /// Schemas that hold as well: `$ref` and `allOf`.
    pub(super) all: Vec<SchemaNodeId>,
    /// Schemas that hold under conditions: `if` with its `then` and `else`, and `dependentSchemas`.
    pub(super) conditional: Vec<SchemaNodeId>,
    /// This schema and every one that holds whenever it does.
    pub(super) together: Vec<SchemaNodeId>,
    /// Groups of which one schema holds: `anyOf` and `oneOf`.
    pub(super) any: Vec<Vec<SchemaNodeId>>,
    /// The ways in which it holds for objects, found when they are first needed: without filling in missing members,
    /// and with it. See [`SchemaGraph::alternatives`].
    pub(super) alternatives: [OnceLock<Vec<Arc<ObjectAlternative>>>; 2],
    pub(super) properties: Vec<(String, SchemaNodeId)>,
    pub(super) patterns: Vec<(KeyPattern, SchemaNodeId)>,
    pub(super) required: Vec<String>,
    pub(super) additional: Option<SchemaNodeId>,
    /// `additionalProperties: false`
    pub(super) is_closed: bool,
    /// Whether it allows members without a declared name, or refers to an unavailable schema that may allow them.
    pub(super) is_open: bool,
    pub(super) prefix: Vec<SchemaNodeId>,
    pub(super) items: Option<SchemaNodeId>,
    pub(super) default: Option<Value>,
}

impl SchemaGraph {
    pub(super) const ROOT: SchemaNodeId = 0;

    pub(super) fn new(root: &Value) -> Self {
        let mut builder = GraphBuilder { root, ids: HashMap::new(), queue: Vec::new(), nodes: Vec::new() };
        builder.id(root);
        while let Some(schema) = builder.queue.get(builder.nodes.len()).copied() {
            let node = builder.node(schema);
            builder.nodes.push(node);
        }
        let mut graph = Self { nodes: builder.nodes };
        // Most schemas are small, and a request may declare many.
        graph.nodes.shrink_to_fit();
        graph.settle_types();
        for id in 0..graph.nodes.len() {
            graph.nodes[id].together = graph.conjunction(id);
        }
        graph.settle_choices();
        graph.settle_kept();
        graph
    }

    pub(super) fn node(&self, id: SchemaNodeId) -> &SchemaNode {
        &self.nodes[id]
    }

    /// Narrows the types of all nodes until nothing changes. Sets only ever shrink, so stopping early
    /// (a chain of references longer than the passes) allows too much, never too little.
    fn settle_types(&mut self) {
        const PASSES: usize = 64;
        for _ in 0..PASSES {
            let mut has_changed = false;
            // Sub-schemas mostly have higher numbers than the schemas that contain them.
            for id in (0..self.nodes.len()).rev() {
                let node = &self.nodes[id];
                let all = node.all.iter().fold(node.own, |types, &id| types & self.nodes[id].types);
                let any = |group: &Vec<SchemaNodeId>| {
                    group.iter().map(|&id| self.nodes[id].types).collect::<TypeSet>()
                };
                let mut types = node.any.iter().map(any).fold(all, TypeSet::bitand);
                if node.is_nullable {
                    types = types | TypeSet::NULL;
                }
                has_changed |= types != node.types;
                self.nodes[id].types = types;
            }
            if !has_changed {
                break;
            }
        }
    }

    /// Finds the nodes that are choices of values.
    fn settle_choices(&mut self) {
        let lists: Vec<bool> =
            (0..self.nodes.len()).map(|id| self.together(id).any(|node| node.values.is_some())).collect();
        // Whether all alternatives of the first group of each node list values.
        let offers: Vec<Option<bool>> = self
            .nodes
            .iter()
            .map(|node| node.any.first().map(|group| group.iter().all(|&branch| lists[branch])))
            .collect();
        for (id, &lists) in lists.iter().enumerate() {
            let first = self.nodes[id].together.iter().find_map(|&id| offers[id]);
            self.nodes[id].is_choice = lists || first == Some(true);
        }
    }

    /// Finds the values that no node changes. Sets only ever grow, so stopping early marks too many values as
    /// changeable, never too few.
    fn settle_kept(&mut self) {
        const PASSES: usize = 8;
        // The types of each schema together with the schemas that hold with it, without alternatives.
        let own: Vec<(TypeSet, TypeSet)> = (0..self.nodes.len()).map(|id| self.own_kept(id)).collect();
        for _ in 0..PASSES {
            let mut has_changed = false;
            // The types that the alternatives of each node allow.
            let any: Vec<(TypeSet, TypeSet)> = self.nodes.iter().map(|node| self.any_kept(node)).collect();
            for id in (0..self.nodes.len()).rev() {
                let node = &self.nodes[id];
                let mut kept = own[id];
                for &other in &node.together {
                    kept = (kept.0 & any[other].0, kept.1 & any[other].1);
                }
                has_changed |= kept != (node.takes, node.keeps);
                (self.nodes[id].takes, self.nodes[id].keeps) = kept;
            }
            if !has_changed {
                break;
            }
        }
    }

    fn own_kept(&self, id: SchemaNodeId) -> (TypeSet, TypeSet) {
        let node = &self.nodes[id];
        if node.is_choice {
            return (TypeSet::NONE, TypeSet::NONE);
        }
        let mut said = TypeSet::NONE;
        for node in self.together(id) {
            if node.is_about_members() {
                said = said | TypeSet::OBJECT;
            }
            if node.is_about_elements() {
                said = said | TypeSet::ARRAY;
            }
        }
        let keeps = node.types.without(said);
        let is_demanding = self.together(id).any(|node| !node.required.is_empty());
        let takes = if is_demanding { keeps.without(TypeSet::OBJECT) } else { keeps };
        // `null` is never converted.
        (takes, keeps | TypeSet::NULL)
    }

    fn any_kept(&self, node: &SchemaNode) -> (TypeSet, TypeSet) {
        let mut kept = (TypeSet::ANY, TypeSet::ANY);
        for group in &node.any {
            let takes = group.iter().map(|&branch| self.nodes[branch].takes).collect::<TypeSet>();
            let keeps = group.iter().fold(TypeSet::ANY, |keeps, &branch| keeps & self.nodes[branch].keeps);
            kept = (kept.0 & takes, kept.1 & (takes | keeps));
        }
        kept
    }

    /// The schemas for the elements of an array that `id` describes, with the number of schemas tried one inside the
    /// other to come there; none if that is not known before the array is complete.
    pub(super) fn of_elements(
        &self,
        id: SchemaNodeId,
        depth: usize,
        found: &mut Vec<(SchemaNodeId, usize)>,
        budget: &mut StepBudget,
    ) -> Result<Option<()>, BudgetSpent> {
        /// The maximum depth of alternatives inside alternatives that are followed.
        const MAX: usize = 16;
        let kind = TypeSet::ARRAY;
        let node = &self.nodes[id];
        budget.spend_on(node.together.len())?;
        if node.is_choice || !node.types.contains(kind) || depth > MAX {
            return Ok(None);
        }
        for group in self.together(id).flat_map(|node| &node.any) {
            budget.spend_on(group.len())?;
            let is_taken = group.iter().any(|&branch| self.nodes[branch].takes.contains(kind));
            let is_kept = group.iter().all(|&branch| self.nodes[branch].keeps.contains(kind));
            if is_taken || is_kept {
                continue;
            }
            let mut fitting = group.iter().filter(|&&branch| self.nodes[branch].types.contains(kind));
            let (Some(&branch), None) = (fitting.next(), fitting.next()) else { return Ok(None) };
            if self.of_elements(branch, depth + 1, found, budget)?.is_none() {
                return Ok(None);
            }
        }
        if self.together(id).any(SchemaNode::is_about_elements) {
            found.push((id, depth));
        }
        Ok(Some(()))
    }

    /// The nodes about a value that `id` describes, without alternatives.
    pub(super) fn together(&self, id: SchemaNodeId) -> impl Iterator<Item = &SchemaNode> {
        self.nodes[id].together.iter().map(|&id| &self.nodes[id])
    }

    /// The schemas of the element at `index` of an array that `id` describes.
    pub(super) fn element(&self, id: SchemaNodeId, index: usize) -> impl Iterator<Item = SchemaNodeId> {
        self.together(id).filter_map(move |node| node.prefix.get(index).copied().or(node.items))
    }

    /// The values to choose from, if the schema is a choice of values: by `enum`, by `const`, or by
    /// alternatives that are such choices, the idiom for values with titles.
    pub(super) fn choices(
        &self,
        id: SchemaNodeId,
        budget: &mut StepBudget,
    ) -> Result<Option<Vec<NamedChoice<'_>>>, BudgetSpent> {
        let Some(mut choices) = self.all_choices(id, budget)? else { return Ok(None) };
        let types = self.nodes[id].types;
        choices.retain(|choice| types.contains(TypeSet::of(choice.value)));
        Ok(Some(choices))
    }

    fn all_choices(
        &self,
        id: SchemaNodeId,
        budget: &mut StepBudget,
    ) -> Result<Option<Vec<NamedChoice<'_>>>, BudgetSpent> {
        if let Some(choices) = self.own_choices(id) {
            budget.spend_on(choices.len())?;
            return Ok(Some(choices.collect()));
        }
        let Some(group) = self.together(id).flat_map(|node| &node.any).next() else { return Ok(None) };
        let mut found = Vec::new();
        for &branch in group {
            let Some(choices) = self.own_choices(branch) else { return Ok(None) };
            budget.spend_on(1 + choices.len())?;
            found.extend(choices);
        }
        Ok(Some(found))
    }

    /// The values that a schema itself lists.
    fn own_choices(&self, id: SchemaNodeId) -> Option<impl ExactSizeIterator<Item = NamedChoice<'_>>> {
        self.together(id).find_map(|node| {
            let title = node.title.as_deref();
            node.values.as_ref().map(|values| values.iter().map(move |value| NamedChoice { value, title }))
        })
    }

    pub(super) fn title(&self, id: SchemaNodeId) -> Option<&str> {
        self.nodes[id].title.as_deref()
    }

    /// A schema and the schemas that hold with it, as many as tools have; a longer chain of references only restricts
    /// less, which validation makes good.
    fn conjunction(&self, id: SchemaNodeId) -> Vec<SchemaNodeId> {
        const MAX: usize = 64;
        let mut found = vec![id];
        let mut at = 0;
        while let Some(&id) = found.get(at) {
            for &other in &self.nodes[id].all {
                if found.len() < MAX && !found.contains(&other) {
                    found.push(other);
                }
            }
            at += 1;
        }
        found
    }
}

impl SchemaNode {
    pub(super) fn is_about_members(&self) -> bool {
        let has_names = !self.properties.is_empty() || !self.patterns.is_empty();
        has_names || self.additional.is_some() || self.is_closed
    }

    pub(super) fn is_about_elements(&self) -> bool {
        !self.prefix.is_empty() || self.items.is_some()
    }
}

struct GraphBuilder<'v> {
    root: &'v Value,
    /// The number of each schema, by its address inside `root`.
    ids: HashMap<*const Value, SchemaNodeId>,
    queue: Vec<&'v Value>,
    nodes: Vec<SchemaNode>,
}

impl<'v> GraphBuilder<'v> {
    fn id(&mut self, schema: &'v Value) -> SchemaNodeId {
        *self.ids.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            self.queue.push(schema);
            self.queue.len() - 1
        })
    }

    fn node(&mut self, schema: &'v Value) -> SchemaNode {
        let mut node = SchemaNode {
            own: TypeSet::ANY,
            is_nullable: false,
            types: TypeSet::ANY,
            takes: TypeSet::NONE,
            keeps: TypeSet::NONE,
            is_choice: false,
            title: None,
            values: None,
            all: Vec::new(),
            conditional: Vec::new(),
            together: Vec::new(),
            any: Vec::new(),
            alternatives: Default::default(),
            properties: Vec::new(),
            patterns: Vec::new(),
            required: Vec::new(),
            additional: None,
            is_closed: false,
            is_open: false,
            prefix: Vec::new(),
            items: None,
            default: None,
        };
        let Value::Object(words) = schema else {
            if schema == &Value::Bool(false) {
                node.own = TypeSet::NONE;
            }
            return node;
        };
        node.values = match (words.get("const"), words.get("enum")) {
            (Some(value), _) => Some(vec![value.clone()]),
            (None, Some(Value::Array(values))) => Some(values.to_vec()),
            _ => None,
        };
        node.own = own_types(words, node.values.as_deref());
        node.is_nullable = words.get("nullable") == Some(&Value::Bool(true));
        node.title = words.get("title").and_then(Value::as_str).map(str::to_owned);
        node.default = words.get("default").cloned();
        let target = |word: &str| resolve(self.root, words.get(word)?.as_str()?);
        match target("$ref") {
            Some(target) => {
                let id = self.id(target);
                node.all.push(id);
            }
            None => {
                node.is_open =
                    ["$ref", "$dynamicRef", "$recursiveRef"].iter().any(|word| words.contains_key(word))
            }
        }
        node.all.extend(self.list(words, "allOf"));
        for word in ["anyOf", "oneOf"] {
            let group = self.list(words, word);
            if !group.is_empty() {
                node.any.push(group);
            }
        }
        for word in ["if", "then", "else"] {
            node.conditional.extend(words.get(word).map(|schema| self.id(schema)));
        }
        for word in ["dependentSchemas", "dependencies"] {
            node.conditional.extend(self.named(words, word).into_iter().map(|(_, id)| id));
        }
        node.properties = self.named(words, "properties");
        let patterns = self.named(words, "patternProperties").into_iter();
        node.patterns = patterns.map(|(pattern, id)| (KeyPattern::new(&pattern), id)).collect();
        if let Some(Value::Array(names)) = words.get("required") {
            node.required = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        match words.get("additionalProperties") {
            Some(Value::Bool(true)) => node.is_open = true,
            Some(Value::Bool(false)) => node.is_closed = true,
            Some(schema @ Value::Object(_)) => node.additional = Some(self.id(schema)),
            _ => {}
        }
        node.is_open |=
            matches!(words.get("unevaluatedProperties"), Some(Value::Bool(true) | Value::Object(_)));
        node.prefix = self.list(words, "prefixItems");
        match words.get("items") {
            // The tuples of older drafts.
            Some(Value::Array(_)) => node.prefix = self.list(words, "items"),
            Some(schema) => node.items = Some(self.id(schema)),
            None => {}
        }
        node
    }

    fn list(&mut self, words: &'v Object, word: &str) -> Vec<SchemaNodeId> {
        match words.get(word) {
            Some(Value::Array(schemas)) => schemas.iter().map(|schema| self.id(schema)).collect(),
            _ => Vec::new(),
        }
    }

    fn named(&mut self, words: &'v Object, word: &str) -> Vec<(String, SchemaNodeId)> {
        match words.get(word) {
            Some(Value::Object(schemas)) => {
                schemas.iter().map(|(name, schema)| (name.to_owned(), self.id(schema))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The types that `type`, `enum` and `const` allow; without them, the types that the shape keywords are about: the
/// standard lets `properties` alone allow a string, but nobody who writes them means that.
fn own_types(words: &Object, values: Option<&[Value]>) -> TypeSet {
    let named = match words.get("type") {
        Some(Value::String(word)) => TypeSet::named(word),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(TypeSet::named).collect(),
        _ => TypeSet::ANY,
    };
    if let Some(values) = values {
        return named & values.iter().map(TypeSet::of).collect::<TypeSet>();
    }
    if !named.is_any() || ["$ref", "anyOf", "oneOf", "allOf"].iter().any(|word| words.contains_key(word)) {
        return named;
    }
    let has = |list: &[&str]| list.iter().any(|word| words.contains_key(word));
    match (has(&["properties", "patternProperties", "additionalProperties"]), has(&["items", "prefixItems"]))
    {
        (true, false) => TypeSet::OBJECT,
        (false, true) => TypeSet::ARRAY,
        (true, true) => TypeSet::OBJECT | TypeSet::ARRAY,
        (false, false) => TypeSet::ANY,
    }
}

/// The schema that a local reference (`#`, `#/$defs/Name`) points at.
fn resolve<'v>(root: &'v Value, reference: &str) -> Option<&'v Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') { root.pointer(&percent_decoded(pointer)) } else { root.pointer(pointer) }
}

pub(super) fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
