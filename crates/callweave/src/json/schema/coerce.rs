//! Coercion to a schema of a value that is held completely, with a record of every change.
//!
//! [`StreamCoercer`](super::StreamCoercer) calls this, for text and for values: it decides what is held, and which
//! alternative an object is, by the rules here and in [`alternative`](super::alternative).
//!
//! Each value is tried in every way that its schema allows, each change has a cost, and the cheapest way wins; a value
//! that fits as it was written costs nothing and stays.

use std::collections::HashSet;
use std::sync::Arc;

use super::alternative::{MemberRules, ObjectAlternative, ObjectShape};
use super::budget::{BudgetSpent, StepBudget};
use super::graph::{SchemaGraph, SchemaNodeId};
use super::scalar::{self, SearchReach};
use super::{CoerceOptions, CoercionChange, CoercionKind, MissingMembers, SchemaProblem, TypeSet};
use crate::json::{Array, Number, Object, Value};

/// The maximum depth of value and schema together; deeper values stay unchanged.
const MAX_DEPTH: usize = 256;
/// The steps that trying a schema on a value takes, for each schema that holds with it.
const TRY: usize = 4;
/// The maximum number of containers that were not written and are put around a value, one inside the other.
const MAX_ENCLOSED: usize = 4;
/// The cost of one problem: more than all changes that could avoid it.
const PROBLEM: u32 = 10_000;

/// One way to coerce a value.
#[derive(Debug, Default)]
pub(super) struct CoercionTrial {
    /// The value; none if it is unchanged.
    pub(super) value: Option<Value>,
    pub(super) cost: u32,
    pub(super) changes: Vec<CoercionChange>,
    pub(super) problems: Vec<SchemaProblem>,
}

pub(super) struct ValueCoercer<'s> {
    graph: &'s SchemaGraph,
    options: CoerceOptions,
    reach: SearchReach,
    budget: &'s mut StepBudget,
    path: Vec<ValuePathSegment>,
    depth: usize,
    /// The number of containers around the value that were not written.
    enclosed: usize,
    /// The schemas that are being tried on the same value: one that comes again is a cycle.
    trail: Vec<SchemaNodeId>,
}

/// A trial, unless it took too much work.
type TrialResult = Result<CoercionTrial, BudgetSpent>;

/// One step of a path into a value.
#[derive(Clone, Debug)]
pub(super) enum ValuePathSegment {
    Key(String),
    Index(usize),
}

impl CoercionTrial {
    /// The trial of a value that could not be coerced.
    pub(super) fn failed(problem: SchemaProblem) -> Self {
        Self { cost: PROBLEM, problems: vec![problem], ..Self::default() }
    }

    /// Continues with the outcome of `next`, which was given this trial's value.
    fn then(&mut self, next: Self) {
        if next.value.is_some() {
            self.value = next.value;
        }
        self.absorb(next.cost, next.changes, next.problems);
    }

    pub(super) fn absorb(&mut self, cost: u32, changes: Vec<CoercionChange>, problems: Vec<SchemaProblem>) {
        self.cost = self.cost.saturating_add(cost);
        self.changes.extend(changes);
        self.problems.extend(problems);
    }
}

impl<'s> ValueCoercer<'s> {
    /// A coercion of one value, with the steps of a budget: alternatives inside alternatives multiply, and so do texts
    /// that spell texts.
    pub(super) fn new(
        graph: &'s SchemaGraph,
        options: CoerceOptions,
        reach: SearchReach,
        budget: &'s mut StepBudget,
    ) -> Self {
        Self { graph, options, reach, budget, path: Vec::new(), depth: 0, enclosed: 0, trail: Vec::new() }
    }

    /// The same for values that are parts of another.
    pub(super) fn at(self, path: Vec<ValuePathSegment>, depth: usize) -> Self {
        Self { path, depth, ..self }
    }

    /// The path of these values.
    pub(super) fn into_path(self) -> Vec<ValuePathSegment> {
        self.path
    }

    pub(super) fn fit(&mut self, id: SchemaNodeId, value: &Value) -> TrialResult {
        self.fit_together(&[id], value)
    }

    /// Coerces to schemas that hold together; to several only where they describe objects.
    fn fit_together(&mut self, ids: &[SchemaNodeId], value: &Value) -> TrialResult {
        self.budget
            .spend_on(TRY * ids.iter().map(|&id| self.graph.node(id).together.len()).sum::<usize>())?;
        if self.depth == MAX_DEPTH {
            return self.problem("nested too deep to be fitted".to_owned());
        }
        if ids.iter().any(|id| self.trail.contains(id)) {
            return self.problem("the schema leads back to itself".to_owned());
        }
        self.depth += 1;
        let outside = self.trail.len();
        self.trail.extend(ids);
        let trial = match (value, ids) {
            (Value::Object(members), _) if self.graph.describes_objects(ids) => {
                self.fit_object(ids, members, value)
            }
            (_, &[id]) => self.fit_here(id, value),
            _ => self.fit_all(ids, value),
        };
        self.trail.truncate(outside);
        self.depth -= 1;
        trial
    }

    /// Coerces another value than the current one: a part of it, or the result of its conversion.
    fn fit_other(&mut self, id: SchemaNodeId, value: &Value) -> TrialResult {
        let trail = std::mem::take(&mut self.trail);
        let trial = self.fit(id, value);
        self.trail = trail;
        trial
    }

    fn fit_here(&mut self, id: SchemaNodeId, value: &Value) -> TrialResult {
        let graph = self.graph;
        if let Some(choices) = graph.choices(id, self.budget)? {
            return self.fit_choice(id, &choices, value);
        }
        let mut trial = CoercionTrial::default();
        for group in graph.together(id).flat_map(|node| &node.any) {
            let next = self.fit_best(group, trial.value.as_ref().unwrap_or(value))?;
            trial.then(next);
        }
        let next = self.fit_own(id, trial.value.as_ref().unwrap_or(value))?;
        trial.then(next);
        Ok(trial)
    }

    /// The cheapest of several schemas, the first of equals.
    fn fit_best(&mut self, branches: &[SchemaNodeId], value: &Value) -> TrialResult {
        self.budget.spend_on(branches.len())?;
        let mut best: Option<CoercionTrial> = None;
        // Branches that take the value as it is come first, because they end the search.
        let takes = |branch: &&SchemaNodeId| self.graph.node(**branch).types.contains(TypeSet::of(value));
        let (likely, others): (Vec<&SchemaNodeId>, Vec<&SchemaNodeId>) = branches.iter().partition(takes);
        // An array that only one of them takes is coerced to that one, so that its elements need not wait for its end.
        if let ([only], true) = (&likely[..], value.is_array()) {
            return self.fit(**only, value);
        }
        for &branch in likely.into_iter().chain(others) {
            let trial = self.fit(branch, value)?;
            if best.as_ref().is_none_or(|best| trial.cost < best.cost) {
                best = Some(trial);
            }
            if best.as_ref().is_some_and(|best| best.cost == 0) {
                break;
            }
        }
        Ok(best.unwrap_or_default())
    }

    fn fit_choice(
        &mut self,
        id: SchemaNodeId,
        choices: &[scalar::NamedChoice<'s>],
        value: &Value,
    ) -> TrialResult {
        let types = self.graph.node(id).types;
        if self.is_one_of(choices, value)? || (value.is_null() && types.allows_null()) {
            return Ok(CoercionTrial::default());
        }
        // Each choice is spelled in several ways, and searched for in all of the text.
        let text = value.as_str().map_or(0, str::len);
        self.budget.spend_on(choices.len().saturating_mul(8 + text / 16))?;
        if let Some(chosen) = scalar::choose(choices, value, self.reach) {
            return self.change(CoercionKind::Chosen, value, chosen.clone());
        }
        let found = match value {
            Value::String(text) if types.allows_null() && scalar::is_null_word(text.trim()) => {
                return self.change(CoercionKind::Null, value, Value::Null);
            }
            Value::Array(elements) => self.pick(elements),
            _ => None,
        };
        match found {
            Some(element) => {
                let mut trial = self.change(CoercionKind::Unwrapped, value, element.clone())?;
                let next = self.fit_choice(id, choices, &element)?;
                trial.then(next);
                Ok(trial)
            }
            None => self.problem(format!("{} is none of the values to choose from", brief(value))),
        }
    }

    /// The element that stands for a complete array: its only one, or in prose its first.
    fn pick(&self, elements: &[Value]) -> Option<Value> {
        match elements {
            [element] => Some(element.clone()),
            [element, ..] if self.reach == SearchReach::Prose => Some(element.clone()),
            _ => None,
        }
    }

    /// Coerces to the schema's own keywords, without alternatives.
    fn fit_own(&mut self, id: SchemaNodeId, value: &Value) -> TrialResult {
        let types = self.graph.node(id).types;
        if !types.contains(TypeSet::of(value)) {
            return self.convert(id, types, value);
        }
        match value {
            // Only an object read from a text comes here: objects have come to their alternatives before.
            Value::Object(members) => self.fit_object(&[id], members, value),
            Value::Array(elements) => self.fit_elements(id, elements),
            _ => Ok(CoercionTrial::default()),
        }
    }

    /// Coerces a value of a type that is not allowed: the cheapest conversion to one that is.
    fn convert(&mut self, id: SchemaNodeId, types: TypeSet, value: &Value) -> TrialResult {
        self.spend(value)?;
        let mut best: Option<CoercionTrial> = None;
        for (kind, converted) in self.conversions(id, types, value) {
            let is_enclosing = matches!(kind, CoercionKind::Wrapped | CoercionKind::Keyed);
            if is_enclosing && self.enclosed == MAX_ENCLOSED {
                continue;
            }
            self.enclosed += usize::from(is_enclosing);
            let mut trial = self.change(kind, value, converted)?;
            let next = self.fit_other(id, trial.value.as_ref().unwrap_or(value));
            self.enclosed -= usize::from(is_enclosing);
            trial.then(next?);
            if best.as_ref().is_none_or(|best| trial.cost < best.cost) {
                best = Some(trial);
            }
        }
        match best.filter(|trial| trial.problems.is_empty()) {
            Some(best) => Ok(best),
            None => self.problem(format!("{} where {types} is wanted", brief(value))),
        }
    }

    fn conversions(&self, id: SchemaNodeId, types: TypeSet, value: &Value) -> Vec<(CoercionKind, Value)> {
        let mut found = Vec::new();
        match value {
            Value::String(text) => {
                let text = text.trim();
                if types.allows_null() && scalar::is_null_word(text) {
                    found.push((CoercionKind::Null, Value::Null));
                }
                if types.allows_boolean()
                    && let Some(truth) = scalar::boolean(text, self.reach)
                {
                    found.push((CoercionKind::Boolean, Value::Bool(truth)));
                }
                if types.allows_integer()
                    && let Some(number) = scalar::number(text, self.reach)
                {
                    found.push((CoercionKind::Number, Value::Number(number)));
                }
                let is_container = (text.starts_with('{') && types.allows_object())
                    || (text.starts_with('[') && types.allows_array());
                if is_container && let Some(parsed) = super::read::mended(text) {
                    found.push((CoercionKind::Parsed, parsed));
                }
            }
            Value::Number(number) => {
                if types.allows_string() {
                    found.push((CoercionKind::Text, Value::String(number.to_string())));
                }
                if types.allows_boolean()
                    && let Some(truth) = scalar::truth(number)
                {
                    found.push((CoercionKind::Boolean, Value::Bool(truth)));
                }
            }
            Value::Bool(_) if types.allows_string() => {
                found.push((CoercionKind::Text, Value::String(value.to_string())));
            }
            Value::Array(elements) => {
                found.extend(self.pick(elements).map(|element| (CoercionKind::Unwrapped, element)));
                if types.allows_string() {
                    found.push((CoercionKind::Written, Value::String(value.to_string())));
                }
            }
            Value::Object(_) if types.allows_string() => {
                found.push((CoercionKind::Written, Value::String(value.to_string())));
            }
            Value::Object(_) | Value::Bool(_) | Value::Null => {}
        }
        if types.allows_array() && !value.is_null() && !value.is_array() {
            found.push((CoercionKind::Wrapped, Value::Array(vec![value.clone()].into())));
        }
        if types.allows_object()
            && !value.is_null()
            && let Some(name) = self.only_member(id)
        {
            found.push((CoercionKind::Keyed, keyed(name, value)));
        }
        // A type that is not allowed would be converted again, without end.
        found.retain(|(_, converted)| types.contains(TypeSet::of(converted)));
        found
    }

    /// The member that a bare value in prose must be, where the object has only one.
    fn only_member(&self, id: SchemaNodeId) -> Option<&'s str> {
        let graph = self.graph;
        let mut names = graph.together(id).flat_map(|node| &node.properties).map(|(name, _)| name.as_str());
        match (self.reach, names.next(), names.next()) {
            (SearchReach::Prose, Some(name), None) => Some(name),
            _ => None,
        }
    }

    fn fit_elements(&mut self, id: SchemaNodeId, elements: &[Value]) -> TrialResult {
        let graph = self.graph;
        self.budget.spend_on(elements.len())?;
        let mut trial = CoercionTrial::default();
        let mut fitted: Vec<Option<Value>> = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let schemas: Vec<SchemaNodeId> = graph.element(id, index).collect();
            let inner = self.fit_element(&schemas, index, element)?;
            fitted.push(inner.value);
            trial.absorb(inner.cost, inner.changes, inner.problems);
        }
        if fitted.iter().any(Option::is_some) {
            let all = fitted.into_iter().zip(elements);
            trial.value = Some(all.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect());
            self.spend_on_copy(elements.iter())?;
        }
        Ok(trial)
    }

    /// Coerces one element of an array.
    pub(super) fn fit_element(
        &mut self,
        schemas: &[SchemaNodeId],
        index: usize,
        element: &Value,
    ) -> TrialResult {
        self.path.push(ValuePathSegment::Index(index));
        let inner = self.fit_all(schemas, element)?;
        self.path.pop();
        Ok(inner)
    }

    /// Coerces to schemas that all hold for a value: for an object as one, for any other one after the other.
    fn fit_all(&mut self, schemas: &[SchemaNodeId], value: &Value) -> TrialResult {
        if schemas.len() > 1 && value.is_object() && self.graph.describes_objects(schemas) {
            let trail = std::mem::take(&mut self.trail);
            let trial = self.fit_together(schemas, value);
            self.trail = trail;
            return trial;
        }
        let mut trial = CoercionTrial::default();
        for &schema in schemas {
            let next = self.fit_other(schema, trial.value.as_ref().unwrap_or(value))?;
            trial.then(next);
        }
        Ok(trial)
    }

    /// Coerces an object to the alternative that it is, of all that describe it.
    fn fit_object(&mut self, ids: &[SchemaNodeId], members: &Object, value: &Value) -> TrialResult {
        let fills = self.options.missing != MissingMembers::Keep;
        let mut left = self.graph.alternatives(ids, fills, self.budget)?;
        for (key, member) in members {
            if left.len() == 1 {
                break;
            }
            if !member.is_null() {
                self.narrow_by_key(&mut left, key)?;
                self.narrow_by_value(&mut left, key, member)?;
            }
        }
        Ok(self.cheapest(&left, members, value)?.1)
    }

    /// Removes the alternatives that do not allow a member that others allow.
    pub(super) fn narrow_by_key(
        &mut self,
        left: &mut Vec<Arc<ObjectAlternative>>,
        key: &str,
    ) -> Result<(), BudgetSpent> {
        let is_out = |coercer: &mut Self, alternative: &ObjectAlternative| {
            let rules = ObjectShape::new(coercer.graph, alternative).rules(key, coercer.budget)?;
            Ok(rules.is_excluded && !rules.is_late)
        };
        self.narrow(left, is_out)
    }

    /// Removes the alternatives that cannot take a member, a string, number or boolean, that others can.
    pub(super) fn narrow_by_value(
        &mut self,
        left: &mut Vec<Arc<ObjectAlternative>>,
        key: &str,
        member: &Value,
    ) -> Result<(), BudgetSpent> {
        if !matches!(member, Value::Bool(_) | Value::Number(_) | Value::String(_)) {
            return Ok(());
        }
        let is_out = |coercer: &mut Self, alternative: &ObjectAlternative| {
            let rules = ObjectShape::new(coercer.graph, alternative).rules(key, coercer.budget)?;
            Ok(!coercer.fit_all(&rules.schemas, member)?.problems.is_empty())
        };
        self.narrow(left, is_out)
    }

    /// Removes alternatives, unless that would remove all.
    fn narrow(
        &mut self,
        left: &mut Vec<Arc<ObjectAlternative>>,
        is_out: impl Fn(&mut Self, &ObjectAlternative) -> Result<bool, BudgetSpent>,
    ) -> Result<(), BudgetSpent> {
        if left.len() < 2 {
            return Ok(());
        }
        let mut fitting = Vec::with_capacity(left.len());
        for alternative in &*left {
            if !is_out(self, alternative)? {
                fitting.push(Arc::clone(alternative));
            }
        }
        if !fitting.is_empty() {
            *left = fitting;
        }
        Ok(())
    }

    /// The cheapest of several alternatives, the first of equals, by its number.
    pub(super) fn cheapest(
        &mut self,
        left: &[Arc<ObjectAlternative>],
        members: &Object,
        value: &Value,
    ) -> Result<(usize, CoercionTrial), BudgetSpent> {
        let mut best: Option<(usize, CoercionTrial)> = None;
        for (at, alternative) in left.iter().enumerate() {
            let trial = self.fit_alternative(alternative, members, value)?;
            if best.as_ref().is_none_or(|(_, best)| trial.cost < best.cost) {
                best = Some((at, trial));
            }
            if best.as_ref().is_some_and(|(_, best)| best.cost == 0) {
                break;
            }
        }
        Ok(best.unwrap_or_default())
    }

    fn fit_alternative(
        &mut self,
        alternative: &ObjectAlternative,
        members: &Object,
        value: &Value,
    ) -> TrialResult {
        let graph = self.graph;
        let mut trial = self.fit_members(&ObjectShape::new(graph, alternative), members, value)?;
        // These change nothing, but may find something wrong.
        for &id in &alternative.choices {
            let next = self.fit(id, value)?;
            trial.absorb(next.cost, Vec::new(), next.problems);
        }
        for &(id, at) in &alternative.checks {
            let next = self.fit_best(&graph.node(id).any[at], trial.value.as_ref().unwrap_or(value))?;
            trial.absorb(next.cost, Vec::new(), next.problems);
        }
        Ok(trial)
    }

    fn fit_members(&mut self, shape: &ObjectShape<'_>, members: &Object, value: &Value) -> TrialResult {
        if self.reach == SearchReach::Prose
            && let Some(trial) = self.fit_keyed(shape, members, value)?
        {
            return Ok(trial);
        }
        let mut trial = CoercionTrial::default();
        // Name, new value if it changed, and the value as it was.
        let mut kept: Vec<(&str, Option<Value>, &Value)> = Vec::with_capacity(members.len());
        let mut later = Vec::new();
        for (key, member) in members {
            let rules = shape.rules(key, self.budget)?;
            if rules.is_late {
                later.push((key, member));
            } else if let Some(new) = self.fit_member(shape, key, (key, &rules), member, &mut trial)? {
                kept.push((key, new, member));
            }
        }
        // Whether a key means another member's name is known when all members have come.
        let mut given: HashSet<&str> = HashSet::new();
        for (key, member) in later {
            let is_there = |name: &str| members.contains_key(name) || given.contains(name);
            let name = shape.name_of(key, is_there).unwrap_or(key);
            given.insert(name);
            let rules = shape.rules(name, self.budget)?;
            if let Some(new) = self.fit_member(shape, key, (name, &rules), member, &mut trial)? {
                kept.push((name, new, member));
            }
        }
        let names: HashSet<&str> = kept.iter().map(|(name, ..)| *name).collect();
        let added = self.add_missing(shape, &names, &mut trial)?;
        if !trial.changes.is_empty() {
            self.spend_on_copy(kept.iter().map(|(_, _, old)| *old))?;
            let kept = kept.into_iter();
            let kept = kept.map(|(name, new, old)| (name.to_owned(), new.unwrap_or_else(|| old.clone())));
            trial.value = Some(Value::Object(kept.chain(added).collect()));
        }
        Ok(trial)
    }

    /// In prose, an object without any known name may be the value of the only one that there is.
    fn fit_keyed(
        &mut self,
        shape: &ObjectShape<'_>,
        members: &Object,
        value: &Value,
    ) -> Result<Option<CoercionTrial>, BudgetSpent> {
        let mut names = shape.properties().map(|(name, _)| name);
        let (Some(name), None) = (names.next(), names.next()) else { return Ok(None) };
        let is_known = members.keys().any(|key| shape.has_name_for(key));
        if members.is_empty() || is_known || self.enclosed == MAX_ENCLOSED {
            return Ok(None);
        }
        let within = keyed(name, value);
        let Value::Object(members) = &within else { return Ok(None) };
        let mut trial = self.change(CoercionKind::Keyed, value, within.clone())?;
        self.enclosed += 1;
        let next = self.fit_members(shape, members, &within);
        self.enclosed -= 1;
        trial.then(next?);
        Ok(Some(trial).filter(|trial| trial.problems.is_empty()))
    }

    /// Coerces the member `key`, which has that name and those rules in the schema: its new value if it changed; none
    /// if it is left out.
    pub(super) fn fit_member(
        &mut self,
        shape: &ObjectShape<'_>,
        key: &str,
        (name, rules): (&str, &MemberRules),
        member: &Value,
        trial: &mut CoercionTrial,
    ) -> Result<Option<Option<Value>>, BudgetSpent> {
        self.path.push(ValuePathSegment::Key(key.to_owned()));
        if name != key {
            let renamed = self.change(CoercionKind::Renamed, &key.into(), name.into())?;
            trial.absorb(renamed.cost, renamed.changes, renamed.problems);
        }
        let schemas = &rules.schemas;
        let is_unwanted = || !schemas.is_empty() && !shape.is_required(name) && !shape.allows_null(schemas);
        let kept = if rules.is_excluded || (member.is_null() && is_unwanted()) {
            let dropped = self.change(CoercionKind::Dropped, member, Value::Null)?;
            trial.absorb(dropped.cost, dropped.changes, dropped.problems);
            None
        } else {
            let inner = self.fit_all(schemas, member)?;
            // An undeclared member is no problem, but makes an alternative less likely.
            let surprise = u32::from(schemas.is_empty() && shape.has_properties());
            trial.absorb(inner.cost.saturating_add(surprise), inner.changes, inner.problems);
            Some(inner.value)
        };
        self.path.pop();
        Ok(kept)
    }

    /// Fills in the missing members, or reports them.
    pub(super) fn add_missing(
        &mut self,
        shape: &ObjectShape<'_>,
        names: &HashSet<&str>,
        trial: &mut CoercionTrial,
    ) -> Result<Vec<(String, Value)>, BudgetSpent> {
        let mut added = Vec::new();
        self.budget.spend_on(shape.properties().count())?;
        let required = shape.required().count();
        for (name, schema) in shape.missing(names) {
            self.budget.spend_on(1 + required / 8)?;
            let is_required = shape.is_required(name);
            self.path.push(ValuePathSegment::Key(name.to_owned()));
            let next = match self.stand_in(schema, is_required)? {
                Some(value) => self.change(CoercionKind::Filled, &Value::Null, value)?,
                None if is_required => self.problem("missing".to_owned())?,
                None => CoercionTrial::default(),
            };
            self.path.pop();
            trial.absorb(next.cost, next.changes, next.problems);
            added.extend(next.value.map(|value| (name.to_owned(), value)));
        }
        Ok(added)
    }

    /// The substitute for a missing member, as the options allow.
    fn stand_in(
        &mut self,
        schema: Option<SchemaNodeId>,
        is_required: bool,
    ) -> Result<Option<Value>, BudgetSpent> {
        let types = schema.map_or(TypeSet::ANY, |id| self.graph.node(id).types);
        Ok(match self.options.missing {
            MissingMembers::Keep => None,
            MissingMembers::Empty if types.allows_null() => Some(Value::Null),
            MissingMembers::Empty => {
                (is_required && types == TypeSet::ARRAY).then(|| Value::Array(Array::new()))
            }
            MissingMembers::Blank if types == TypeSet::ARRAY => Some(Value::Array(Array::new())),
            MissingMembers::Blank if types == TypeSet::OBJECT && !self.has_properties(schema) => {
                Some(Value::Object(Object::new()))
            }
            MissingMembers::Blank => Some(Value::Null),
            MissingMembers::Infer => match schema.filter(|_| is_required) {
                Some(schema) => self.inferred(schema, types)?,
                None => None,
            },
        })
    }

    fn has_properties(&self, schema: Option<SchemaNodeId>) -> bool {
        schema.is_some_and(|id| self.graph.together(id).any(|node| !node.properties.is_empty()))
    }

    /// The value that the schema itself offers for a member: its default, its first choice, an empty container.
    fn inferred(&mut self, schema: SchemaNodeId, types: TypeSet) -> Result<Option<Value>, BudgetSpent> {
        let graph = self.graph;
        if let Some(default) = graph.together(schema).find_map(|node| node.default.as_ref()) {
            self.spend(default)?;
            return Ok(Some(default.clone()));
        }
        if let Some(choice) = graph.choices(schema, self.budget)?.and_then(|choices| choices.first().copied())
        {
            self.spend(choice.value)?;
            return Ok(Some(choice.value.clone()));
        }
        Ok(match types {
            TypeSet::ARRAY => Some(Value::Array(Array::new())),
            TypeSet::OBJECT => Some(Value::Object(Object::new())),
            _ => None,
        })
    }

    /// Counts the work of looking at all of a value, which conversions and choices do. Text that may have to be
    /// repaired is looked at closely.
    fn spend(&mut self, value: &Value) -> Result<(), BudgetSpent> {
        let is_mendable = value.as_str().is_some_and(|text| text.trim_start().starts_with(['{', '[']));
        let closeness = if is_mendable { 16 } else { 1 };
        self.budget.spend_on(size(value).saturating_mul(closeness))
    }

    /// Counts the work of copying parts of a value: a change copies the parts beside it.
    fn spend_on_copy<'v>(&mut self, parts: impl Iterator<Item = &'v Value>) -> Result<(), BudgetSpent> {
        for part in parts {
            self.budget.spend_on(size(part))?;
        }
        Ok(())
    }

    fn is_one_of(&mut self, choices: &[scalar::NamedChoice<'_>], value: &Value) -> Result<bool, BudgetSpent> {
        // Two values are compared as far as the smaller one goes.
        if !matches!(value, Value::Null | Value::Bool(_)) {
            self.budget.spend_on(choices.len().saturating_mul(size(value).min(64)))?;
        }
        Ok(choices.iter().any(|choice| is_same(choice.value, value)))
    }

    fn change(&mut self, kind: CoercionKind, from: &Value, to: Value) -> TrialResult {
        self.budget.spend_on(size(from) + size(&to))?;
        let change = CoercionChange { path: self.path()?, kind, from: from.clone(), to: to.clone() };
        Ok(CoercionTrial { value: Some(to), cost: kind.cost(), changes: vec![change], problems: Vec::new() })
    }

    fn problem(&mut self, detail: String) -> TrialResult {
        Ok(CoercionTrial::failed(SchemaProblem { path: self.path()?, detail }))
    }

    fn path(&mut self) -> Result<String, BudgetSpent> {
        let path = path_of(&self.path);
        self.budget.spend_on_text(path.len())?;
        Ok(path)
    }
}

/// A path as it is reported, like `$.items[2].name`.
pub(super) fn path_of(segments: &[ValuePathSegment]) -> String {
    let mut path = String::from("$");
    for segment in segments {
        match segment {
            ValuePathSegment::Key(key) => super::push_key(&mut path, key),
            ValuePathSegment::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// The size of a value: its parts, long texts counted by their length.
fn size(value: &Value) -> usize {
    const TEXT: usize = 64;
    let mut size = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        size += 1;
        match value {
            Value::Array(elements) => open.extend(elements),
            Value::Object(members) => open.extend(members.values()),
            Value::String(text) => size += text.len() / TEXT,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    size
}

fn keyed(name: &str, value: &Value) -> Value {
    Value::Object(Object::from_iter([(name, value.clone())]))
}

/// Whether two values are equal in JSON Schema, where `1` and `1.0` are.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_decimal = |number: &Number| number.as_str().contains(['.', 'e', 'E']);
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if is_decimal(one) || is_decimal(other) => {
            one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

/// A value in a message: short, and only enough of it to identify it.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(_) => "a number".to_owned(),
    }
}
