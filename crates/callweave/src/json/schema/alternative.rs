//! The combinations in which the schemas of one value can hold together, and the one that an object is.
//!
//! All code that coerces an object, as a value or as growing text, asks here which alternatives there are, what each
//! says of a member, and which are ruled out; there is one source for that.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::TypeSet;
use super::budget::{BudgetSpent, StepBudget};
use super::graph::{SchemaGraph, SchemaNode, SchemaNodeId};
use super::scalar;

/// The maximum number of alternatives that are distinguished. Groups that would make more are left to validation.
const MAX_ALTERNATIVES: usize = 256;
/// The maximum number of schemas that hold together; the rest of them are left to validation.
const MAX_TOGETHER: usize = 128;
/// The maximum number of schemas searched for the keys that they know; where there are more, every key may be known.
const MAX_KNOWN: usize = 64;
/// Alternatives that list more schemas than this in all are not remembered.
const MAX_REMEMBERED: usize = 64;

/// Schemas that hold together for an object, with one of each group of which one holds.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectAlternative {
    pub(super) ids: Vec<SchemaNodeId>,
    /// Schemas that may hold as well: they only say which keys are known.
    known: Vec<SchemaNodeId>,
    /// The schemas that are a choice of values.
    pub(super) choices: Vec<SchemaNodeId>,
    /// Groups of which any one holds, without any change: by the schema that has them, and their number there.
    pub(super) checks: Vec<(SchemaNodeId, usize)>,
    /// Groups of which no schema was taken yet.
    open: VecDeque<(SchemaNodeId, usize)>,
}

/// The rules of one alternative for a member, by its key.
#[derive(Clone, Debug)]
pub(super) struct MemberRules {
    pub(super) schemas: Vec<SchemaNodeId>,
    /// Whether the key is no known name, but may mean one.
    pub(super) is_late: bool,
    /// Whether a member of that key is not allowed there.
    pub(super) is_excluded: bool,
    is_required: bool,
}

impl ObjectAlternative {
    fn add(&mut self, graph: &SchemaGraph, id: SchemaNodeId, fills: bool) {
        if graph.node(id).is_choice {
            self.choices.push(id);
        }
        for &id in &graph.node(id).together {
            if self.ids.contains(&id) || self.ids.len() == MAX_TOGETHER {
                continue;
            }
            self.ids.push(id);
            let node = graph.node(id);
            graph.know(&node.conditional, &mut self.known);
            for (at, group) in node.any.iter().enumerate() {
                let is_taken = group.iter().any(|&branch| graph.node(branch).takes.contains(TypeSet::OBJECT));
                let is_kept = group.iter().all(|&branch| graph.node(branch).keeps.contains(TypeSet::OBJECT));
                if !is_taken && (fills || !is_kept) {
                    self.open.push_back((id, at));
                    continue;
                }
                graph.know(group, &mut self.known);
                if !is_taken {
                    self.checks.push((id, at));
                }
            }
        }
    }

    /// Whether it has rules for the members of an object.
    pub(super) fn is_about_members(&self, graph: &SchemaGraph) -> bool {
        self.ids.iter().any(|&id| {
            let node = graph.node(id);
            node.is_about_members() || !node.required.is_empty()
        })
    }
}

impl SchemaGraph {
    /// Whether these schemas describe objects, and do not list them.
    pub(super) fn describes_objects(&self, ids: &[SchemaNodeId]) -> bool {
        let describes = |node: &SchemaNode| node.types.contains(TypeSet::OBJECT) && !node.is_choice;
        ids.iter().all(|&id| describes(self.node(id)))
    }

    /// The combinations in which schemas that describe objects hold together; at least one. With `fills`, missing
    /// members are filled in, which makes objects fit that would otherwise lack members.
    pub(super) fn alternatives(
        &self,
        ids: &[SchemaNodeId],
        fills: bool,
        budget: &mut StepBudget,
    ) -> Result<Vec<Arc<ObjectAlternative>>, BudgetSpent> {
        let found = match ids {
            &[id] => {
                let known = &self.node(id).alternatives[usize::from(fills)];
                known.get().cloned().unwrap_or_else(|| self.expanded(ids, fills))
            }
            _ => self.expanded(ids, fills),
        };
        // The number of schemas looked at to find them.
        let groups = |&id: &SchemaNodeId| 1 + self.node(id).any.iter().map(Vec::len).sum::<usize>();
        let listed =
            |it: &Arc<ObjectAlternative>| 1 + it.known.len() + it.ids.iter().map(groups).sum::<usize>();
        let size = found.iter().map(listed).sum();
        if let (&[id], ..=MAX_REMEMBERED) = (ids, size) {
            self.node(id).alternatives[usize::from(fills)].get_or_init(|| found.clone());
        }
        budget.spend_on(size)?;
        Ok(found)
    }

    fn expanded(&self, ids: &[SchemaNodeId], fills: bool) -> Vec<Arc<ObjectAlternative>> {
        let mut first = ObjectAlternative::default();
        for &id in ids {
            first.add(self, id, fills);
        }
        let mut found = Vec::new();
        let mut open = vec![first];
        while let Some(mut alternative) = open.pop() {
            let Some((id, at)) = alternative.open.pop_front() else {
                found.push(Arc::new(alternative));
                continue;
            };
            let group = &self.node(id).any[at];
            // A schema that leads back to alternatives that are being expanded adds nothing.
            let leads_back =
                |id: &SchemaNodeId| alternative.ids.contains(id) && !self.node(*id).any.is_empty();
            let fitting: Vec<SchemaNodeId> = group
                .iter()
                .copied()
                .filter(|&branch| self.node(branch).types.contains(TypeSet::OBJECT))
                .filter(|&branch| !self.node(branch).together.iter().any(leads_back))
                .collect();
            if fitting.is_empty() || found.len() + open.len() + fitting.len() > MAX_ALTERNATIVES {
                self.know(group, &mut alternative.known);
                open.push(alternative);
                continue;
            }
            for &branch in fitting.iter().rev() {
                let mut next = alternative.clone();
                next.add(self, branch, fills);
                open.push(next);
            }
        }
        found
    }

    /// Adds schemas that may hold, with all that may hold with them.
    fn know(&self, ids: &[SchemaNodeId], known: &mut Vec<SchemaNodeId>) {
        let mut at = known.len();
        known.extend(ids.iter().take(MAX_KNOWN.saturating_sub(at)));
        while let Some(&id) = known.get(at) {
            at += 1;
            let node = self.node(id);
            for &next in node.all.iter().chain(&node.conditional).chain(node.any.iter().flatten()) {
                if known.len() < MAX_KNOWN && !known.contains(&next) {
                    known.push(next);
                }
            }
        }
    }

    /// Whether two schemas say the same, as far as that is seen without looking into them.
    fn is_same(&self, one: SchemaNodeId, other: SchemaNodeId) -> bool {
        let is_leaf = |node: &SchemaNode| {
            let is_alone = node.all.is_empty() && node.any.is_empty() && node.conditional.is_empty();
            is_alone && !node.is_about_members() && !node.is_about_elements() && node.required.is_empty()
        };
        let same = |one: &SchemaNode, other: &SchemaNode| {
            let is_alike =
                (one.types, one.is_choice, &one.title) == (other.types, other.is_choice, &other.title);
            is_alike && one.values == other.values && is_leaf(one) && is_leaf(other)
        };
        one == other || same(self.node(one), self.node(other))
    }

    /// Whether all alternatives treat a member alike.
    pub(super) fn agree(&self, rules: &[MemberRules], is_null: bool) -> bool {
        let Some((first, others)) = rules.split_first() else { return true };
        others.iter().all(|rules| {
            (rules.is_late, rules.is_excluded) == (first.is_late, first.is_excluded)
                && (!is_null || rules.is_required == first.is_required)
                && rules.schemas.len() == first.schemas.len()
                && rules.schemas.iter().zip(&first.schemas).all(|(&one, &other)| self.is_same(one, other))
        })
    }
}

/// The rules of an alternative for the members of an object.
#[derive(Clone, Copy)]
pub(super) struct ObjectShape<'s> {
    graph: &'s SchemaGraph,
    alternative: &'s ObjectAlternative,
}

impl<'s> ObjectShape<'s> {
    pub(super) fn new(graph: &'s SchemaGraph, alternative: &'s ObjectAlternative) -> Self {
        Self { graph, alternative }
    }

    fn nodes(&self) -> impl Iterator<Item = &'s SchemaNode> {
        let graph = self.graph;
        self.alternative.ids.iter().map(|&id| graph.node(id))
    }

    pub(super) fn properties(&self) -> impl Iterator<Item = (&'s str, SchemaNodeId)> {
        self.nodes().flat_map(|node| &node.properties).map(|(name, id)| (name.as_str(), *id))
    }

    pub(super) fn required(&self) -> impl Iterator<Item = &'s str> {
        self.nodes().flat_map(|node| &node.required).map(String::as_str)
    }

    pub(super) fn has_properties(&self) -> bool {
        self.nodes().any(|node| !node.properties.is_empty())
    }

    fn is_closed(&self) -> bool {
        self.nodes().any(|node| node.is_closed)
    }

    fn declares(&self, name: &str) -> bool {
        self.properties().any(|(other, _)| other == name)
    }

    pub(super) fn is_required(&self, name: &str) -> bool {
        self.required().any(|required| required == name)
    }

    pub(super) fn allows_null(&self, schemas: &[SchemaNodeId]) -> bool {
        schemas.iter().all(|&id| self.graph.node(id).types.allows_null())
    }

    /// Returns the rules for the member `key`.
    pub(super) fn rules(&self, key: &str, budget: &mut StepBudget) -> Result<MemberRules, BudgetSpent> {
        // Each key is searched for among the names, and an unknown one in all spellings.
        let names = self.alternative.ids.len() + self.properties().count() / 8;
        budget.spend_on(names)?;
        let schemas = self.schemas(key, budget)?;
        let is_required = self.is_required(key);
        let mut rules = MemberRules { schemas, is_late: false, is_excluded: false, is_required };
        if self.declares(key) || self.is_allowed(key, budget)? {
            return Ok(rules);
        }
        budget.spend_on(names.saturating_mul(16))?;
        rules.is_late = self.meant_by(key).next().is_some();
        rules.is_excluded = self.is_closed();
        Ok(rules)
    }

    /// Whether an undeclared member is allowed explicitly, or may be.
    fn is_allowed(&self, key: &str, budget: &mut StepBudget) -> Result<bool, BudgetSpent> {
        let known = self.alternative.known.iter().map(|&id| self.graph.node(id));
        budget.spend_on(self.alternative.known.len())?;
        if self.alternative.known.len() >= MAX_KNOWN {
            return Ok(true);
        }
        for node in self.nodes().chain(known) {
            if node.additional.is_some() || node.is_open {
                return Ok(true);
            }
            for (pattern, _) in &node.patterns {
                if pattern.matches(key, budget)? != Some(false) {
                    return Ok(true);
                }
            }
        }
        let known = self.alternative.known.iter().map(|&id| &self.graph.node(id).properties);
        for properties in known {
            budget.spend_on(properties.len() / 8)?;
            if properties.iter().any(|(name, _)| name == key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The declared names that `key` may mean: by another spelling or by their title.
    fn meant_by(&self, key: &str) -> impl Iterator<Item = &'s str> {
        let (graph, spelled) = (self.graph, scalar::letters_and_digits(key));
        self.properties()
            .filter(move |(name, id)| {
                graph.title(*id) == Some(key)
                    || (!spelled.is_empty() && scalar::letters_and_digits(name) == spelled)
            })
            .map(|(name, _)| name)
    }

    /// The declared member that a late key means: the only one that it may mean, of the members that are still missing.
    pub(super) fn name_of(&self, key: &str, is_there: impl Fn(&str) -> bool) -> Option<&'s str> {
        let mut meant = self.meant_by(key).filter(|name| !is_there(name));
        match (meant.next(), meant.next()) {
            (Some(name), None) => Some(name),
            _ => None,
        }
    }

    /// Whether a key is a declared name, or may mean one.
    pub(super) fn has_name_for(&self, key: &str) -> bool {
        self.declares(key) || self.meant_by(key).next().is_some()
    }

    /// The schemas for the member `name`.
    fn schemas(&self, name: &str, budget: &mut StepBudget) -> Result<Vec<SchemaNodeId>, BudgetSpent> {
        let mut all = Vec::new();
        for node in self.nodes() {
            let before = all.len();
            all.extend(node.properties.iter().filter(|(other, _)| other == name).map(|(_, id)| *id));
            let mut is_sure = true;
            for (pattern, id) in &node.patterns {
                match pattern.matches(name, budget)? {
                    Some(true) => all.push(*id),
                    Some(false) => {}
                    None => is_sure = false,
                }
            }
            if all.len() == before && is_sure {
                all.extend(node.additional);
            }
        }
        Ok(all)
    }

    /// The declared and required members that are not in `members`.
    pub(super) fn missing(&self, members: &HashSet<&str>) -> Vec<(&'s str, Option<SchemaNodeId>)> {
        let mut missing: Vec<(&str, Option<SchemaNodeId>)> = Vec::new();
        let mut known: HashSet<&str> = HashSet::new();
        let declared = self.properties().map(|(name, id)| (name, Some(id)));
        let required = self.required().map(|name| (name, None));
        for (name, id) in declared.chain(required) {
            if !members.contains(name) && known.insert(name) {
                missing.push((name, id));
            }
        }
        missing
    }
}
