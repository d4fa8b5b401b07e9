//! Objects that several alternatives take, while their alternative is not known.
//!
//! Members that all alternatives treat alike are streamed. From the first other member on, the text of the object
//! waits; whenever a key or a value leaves fewer alternatives, and at the end of the object, that text is read again.

use std::borrow::Cow;
use std::mem::take;
use std::sync::Arc;

use super::{
    CoercerState, CoercerWalk, ContainerParts, FlowingContainer, FlowingMembers, TextFate, ValueDecision,
    ValueKind, read_key,
};
use crate::json::schema::alternative::{MemberRules, ObjectShape};
use crate::json::schema::budget::BudgetSpent;
use crate::json::schema::coerce::ValueCoercer;
use crate::json::schema::scalar::SearchReach;
use crate::json::schema::{MissingMembers, TypeSet};
use crate::json::{JsonLiteral, JsonScanner, Value};

/// Positions in the object that waits, each by its byte.
#[derive(Clone, Debug, Default)]
pub(super) struct UndecidedObject {
    /// The start of the text that was not passed on.
    pub(super) from: usize,
    /// The start of its last key, and the key.
    pub(super) key_from: usize,
    key: String,
    /// The start of its last string, number or literal.
    value_from: usize,
}

impl CoercerState {
    /// Keeps the text of a piece that may be looked at again.
    pub(super) fn remember(&mut self, text: &str) {
        let undecided = |open: &FlowingContainer| match &open.parts {
            ContainerParts::Members(members) if members.alternatives.len() > 1 => Some(members.start),
            _ => None,
        };
        match self.open.iter().find_map(undecided) {
            None => self.recent.clear(),
            Some(start) if self.recent.is_empty() => {
                self.recent_from = start.max(self.taken);
                self.recent.push_str(&text[self.recent_from - self.taken..]);
            }
            Some(_) => self.recent.push_str(text),
        }
        self.taken += text.len();
    }
}

impl CoercerWalk<'_> {
    /// Decides on a member by its key, or leaves the decision to the schemas found for it.
    pub(super) fn by_key(&mut self) -> Result<Option<ValueDecision>, BudgetSpent> {
        let is_null = self.state.kind == ValueKind::Literal(JsonLiteral::Null);
        let mut rules = self.rules()?;
        if !self.graph.agree(&rules, is_null) {
            let is_narrowed = !is_null && self.narrow(None)?;
            if is_narrowed {
                rules = self.rules()?;
            }
            if !self.graph.agree(&rules, is_null) {
                return self.by_several(&rules).map(Some);
            }
        }
        let CoercerState { ids, is_late, .. } = &mut *self.state;
        let Some(rules) = rules.into_iter().next() else { return Ok(Some(ValueDecision::Pass)) };
        *is_late = rules.is_late;
        *ids = rules.schemas;
        Ok((rules.is_late || rules.is_excluded).then_some(ValueDecision::Hold))
    }

    /// The rules of every alternative for the last key.
    fn rules(&mut self) -> Result<Vec<MemberRules>, BudgetSpent> {
        let CoercerState { open, budget, .. } = &mut *self.state;
        let Some(FlowingContainer { parts: ContainerParts::Members(members), .. }) = open.last() else {
            return Ok(Vec::new());
        };
        let of = |alternative| ObjectShape::new(self.graph, alternative).rules(&members.key, budget);
        members.alternatives.iter().map(Arc::as_ref).map(of).collect()
    }

    /// Decides on a member for which several alternatives have different rules.
    fn by_several(&mut self, rules: &[MemberRules]) -> Result<ValueDecision, BudgetSpent> {
        let CoercerState { ids, budget, kind, is_shared, .. } = &mut *self.state;
        ids.extend(rules.iter().flat_map(|rules| &rules.schemas));
        budget.spend_on(ids.len())?;
        if rules.iter().any(|rules| rules.is_late || rules.is_excluded) {
            return Ok(ValueDecision::Wait);
        }
        let kind = match kind {
            // Whether they take it is seen at its end.
            ValueKind::Number | ValueKind::Literal(_) => {
                *is_shared = true;
                return Ok(ValueDecision::Hold);
            }
            ValueKind::String => TypeSet::STRING,
            ValueKind::Array => TypeSet::ARRAY,
            ValueKind::Object => TypeSet::OBJECT,
        };
        if !ids.iter().all(|&id| self.graph.node(id).takes.contains(kind)) {
            return Ok(ValueDecision::Wait);
        }
        if let Some(members) = self.members() {
            let key = members.key.clone();
            members.names.push(key);
        }
        Ok(ValueDecision::Pass)
    }

    /// Removes the alternatives of the innermost object that its last key excludes, or the value of that key; returns
    /// whether there were any.
    fn narrow(&mut self, member: Option<&Value>) -> Result<bool, BudgetSpent> {
        let graph = self.graph;
        let CoercerState { open, budget, options, now, undecided, .. } = &mut *self.state;
        let Some(FlowingContainer { depth, parts: ContainerParts::Members(members) }) = open.last_mut()
        else {
            return Ok(false);
        };
        let key = if *now == TextFate::Wait { &undecided.key } else { &members.key };
        let before = members.alternatives.len();
        let mut coercer =
            ValueCoercer::new(graph, *options, SearchReach::Value, budget).at(Vec::new(), *depth);
        match member {
            None => coercer.narrow_by_key(&mut members.alternatives, key)?,
            Some(member) => coercer.narrow_by_value(&mut members.alternatives, key, member)?,
        }
        Ok(members.alternatives.len() < before)
    }

    /// Holds back the innermost object until its alternative is known, from the member with the value that begins at
    /// byte `value_from` on; the text up to `at` was dealt with.
    pub(super) fn wait(&mut self, value_from: usize, at: usize) {
        self.from = at;
        let from = value_from - self.state.lead.text.len();
        let key = self.members().map(|members| members.key.clone()).unwrap_or_default();
        self.state.undecided = UndecidedObject { from, key_from: 0, key, value_from };
        self.state.lead.text.clear();
        self.state.held.clear();
        self.state.now = TextFate::Wait;
        self.state.nested = 0;
    }

    /// The text from the byte `from` to the one at `at`.
    pub(super) fn written(&self, from: usize, at: usize) -> Cow<'_, str> {
        match from.checked_sub(self.base) {
            Some(from) => Cow::Borrowed(&self.text[from..at]),
            None => {
                let CoercerState { recent, recent_from, .. } = &*self.state;
                Cow::Owned([&recent[from - recent_from..], &self.text[..at]].concat())
            }
        }
    }

    /// Handles the start of a member's value while its object waits, which may end the wait.
    pub(super) fn begin_waiting(&mut self, is_null: bool, at: usize) {
        let narrowed = if is_null { Ok(false) } else { self.narrow(None) };
        self.go_on_if(narrowed, at);
        self.state.undecided.value_from = self.base + at;
    }

    /// Handles the end of a member's key while its object waits.
    pub(super) fn end_waiting_key(&mut self, at: usize) {
        self.state.undecided.key = read_key(&self.written(self.state.undecided.key_from, at));
    }

    /// Handles the end of a string, number or literal that is a member while its object waits.
    pub(super) fn end_waiting(&mut self, at: usize) {
        let written = self.written(self.state.undecided.value_from, at);
        let Ok(value) = written.parse::<Value>() else { return };
        let narrowed = self.narrow(Some(&value));
        self.go_on_if(narrowed, at);
    }

    /// Continues with an object that waits if fewer alternatives are left; or if the steps are spent, because nothing
    /// is changed any more then.
    fn go_on_if(&mut self, narrowed: Result<bool, BudgetSpent>, at: usize) {
        let waiting = self.base + at - self.state.undecided.from;
        let narrowed = match narrowed {
            Ok(true) => self.state.budget.spend_on_text(waiting).map(|()| true),
            other => other,
        };
        if let Err(spent) = narrowed {
            self.settle(spent);
        }
        if narrowed.unwrap_or(true) {
            self.go_on(at);
        }
    }

    /// Takes any alternative, because the steps are spent.
    fn settle(&mut self, spent: BudgetSpent) {
        self.state.error = Some(spent.into());
        if let Some(members) = self.members() {
            members.alternatives.truncate(1);
        }
    }

    /// Reads the text that waits again, up to `at`.
    fn go_on(&mut self, at: usize) {
        let from = self.state.undecided.from;
        let mut text = self.written(from, at).into_owned();
        let end = text.len();
        // The end of a number is recognised by the byte behind it.
        text.push(' ');
        let mut scanner = JsonScanner::new();
        scanner.push(if text.trim_ascii_start().starts_with(',') { "{\"\":\"\"" } else { "{" });
        self.state.now = TextFate::Between;
        self.state.again += 1;
        let mut walk = CoercerWalk {
            graph: self.graph,
            state: self.state,
            base: from,
            text: &text,
            from: 0,
            out: self.out,
        };
        scanner.push_to(&text, &mut walk);
        walk.flush(end);
        self.state.again -= 1;
        self.from = at;
    }

    /// Whether the innermost object waits, and the text is between its members or parts of them.
    pub(super) fn is_waiting(&self) -> bool {
        self.state.now == TextFate::Wait && self.state.nested == 0
    }

    /// Handles the end of the innermost object at `at`: its alternative must be known, if anything depends on it.
    pub(super) fn end_undecided(&mut self, at: usize) {
        let is_waiting = self.is_waiting();
        let is_between = self.state.now == TextFate::Between;
        let is_judged = self.state.options.missing != MissingMembers::Keep || self.state.problems.is_some();
        let has_to = |members: &mut FlowingMembers| {
            let is_open = is_waiting || is_between && (is_judged || !members.later.is_empty());
            members.alternatives.len() > 1 && is_open
        };
        if !self.members().is_some_and(has_to) {
            return;
        }
        if self.state.error.is_none()
            && let Err(spent) = self.choose(at)
        {
            self.settle(spent);
        }
        if is_waiting {
            self.go_on(at);
        }
        self.state.is_unreadable = false;
    }

    /// Finds the alternative of the innermost object, which ends at `at`.
    fn choose(&mut self, at: usize) -> Result<(), BudgetSpent> {
        let graph = self.graph;
        let CoercerState { open, .. } = &*self.state;
        let Some(FlowingContainer { depth, parts: ContainerParts::Members(members) }) = open.last() else {
            return Ok(());
        };
        let (depth, left) = (*depth, members.alternatives.clone());
        let text = self.written(members.start, at).into_owned() + "}";
        let CoercerState { budget, options, path, .. } = &mut *self.state;
        budget.spend_on_text(text.len())?;
        let value = text.parse::<Value>().unwrap_or(Value::Null);
        let Value::Object(members) = &value else {
            self.state.is_unreadable = true;
            return Ok(());
        };
        let mut coercer =
            ValueCoercer::new(graph, *options, SearchReach::Value, budget).at(take(path), depth);
        let chosen = coercer.cheapest(&left, members, &value);
        *path = coercer.into_path();
        let (chosen, _) = chosen?;
        if let Some(members) = self.members() {
            members.alternatives = vec![Arc::clone(&left[chosen])];
        }
        Ok(())
    }
}
