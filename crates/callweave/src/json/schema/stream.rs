//! Coercion of JSON text that is still growing.

#[cfg(test)]
mod tests;
mod undecided;

use std::collections::HashSet;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use super::alternative::{ObjectAlternative, ObjectShape};
use super::budget::BudgetSpent;
use super::coerce::{CoercionTrial, ValueCoercer, ValuePathSegment};
use super::graph::{SchemaGraph, SchemaNodeId};
use super::scalar::SearchReach;
use super::types::is_integer;
use super::{
    CoerceOptions, CoercedValue, CoercionChange, MissingMembers, Schema, SchemaProblem, StepBudget, TypeSet,
};
use undecided::UndecidedObject;

use crate::error::Error;
use crate::json::tape::Tape;
use crate::json::{JsonContainer, JsonLiteral, JsonScanner, ScanStatus, ScanToken, ScanVisitor, Value};

/// Coerces JSON text to a schema while it comes, and passes it on as early as is safe.
///
/// Each value is looked at where it begins. A value that no keyword of the schema can change is streamed, strings in
/// pieces; any other is held to its own end, and then coerced. A string is streamed where strings are allowed, an
/// object and an array are streamed part by part, and `"5"` for an integer is held. [`Schema::coerce`] is the same for
/// a text in one piece. Held completely are:
///
/// - values of `enum` and `const`, and scalars other than strings, which are short;
/// - values of a type that the schema does not allow there;
/// - arrays that several alternatives of an `anyOf` or `oneOf` take;
/// - of an object that several alternatives take, the members that they treat differently, until a key or a value has
///   shown which one it is, else to its end;
/// - members whose key is no declared name but may mean one: they come at the end of their object, and so do members
///   that are filled in.
///
/// Text that needs no change is passed on byte for byte. Where the text is no JSON any more, where it ends early and
/// where the [`StepBudget`] is spent, the rest is passed on as it is. The result depends on the text alone, not on its
/// pieces.
///
/// ```
/// use callweave::json::schema::{StepBudget, CoerceOptions, Schema, StreamCoercer};
/// use serde_json::json;
///
/// let schema = Schema::new(&json!({"properties": {"path": {"type": "string"}, "line": {"type": "integer"}}}));
/// let mut coercer = StreamCoercer::new(&schema, CoerceOptions::default(), StepBudget::default());
/// let mut out = String::new();
/// coercer.push(r#"{"path": "src/li"#, &mut out);
/// assert_eq!(out, r#"{"path": "src/li"#);
/// coercer.push(r#"b.rs", "line": "1"#, &mut out);
/// assert_eq!(out, r#"{"path": "src/lib.rs""#);
/// coercer.push(r#"2"}"#, &mut out);
/// assert_eq!(out, r#"{"path": "src/lib.rs", "line": 12}"#);
/// ```
#[derive(Clone, Debug)]
pub struct StreamCoercer {
    graph: Arc<SchemaGraph>,
    scanner: JsonScanner,
    state: CoercerState,
}

#[derive(Clone, Debug)]
struct CoercerState {
    options: CoerceOptions,
    budget: StepBudget,
    /// The reason why nothing more is coerced.
    error: Option<Error>,
    wants_object: bool,
    /// The open containers that are streamed.
    open: Vec<FlowingContainer>,
    /// The path of the innermost of them.
    path: Vec<ValuePathSegment>,
    now: TextFate,
    /// The number of containers that are open inside the value that is passed or held.
    nested: usize,
    /// In an object: the text since its last member, up to the value of the next.
    lead: MemberLead,
    /// The text of the held value, and its kind.
    held: String,
    kind: ValueKind,
    /// The schemas of the value that has begun.
    ids: Vec<SchemaNodeId>,
    /// Whether its name is decided at the end of its object.
    is_late: bool,
    /// Whether several alternatives have schemas of their own for it.
    is_shared: bool,
    /// The state of an object whose text waits until its alternative is known.
    undecided: UndecidedObject,
    /// The number of nested re-reads of text that waited.
    again: usize,
    /// Whether the text that waited is no value, so that it passes as it is.
    is_unreadable: bool,
    /// The number of bytes before this piece.
    taken: usize,
    /// The earlier text, from this byte on, as long as it may be read again.
    recent: String,
    recent_from: usize,
    /// Whether the output differs from the text that came.
    has_diverged: bool,
    changes: Vec<CoercionChange>,
    /// The problems, if they are asked for.
    problems: Option<Vec<SchemaProblem>>,
}

/// The treatment of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFate {
    /// It is between values.
    Between,
    /// It is a key.
    Key,
    /// It is passed on.
    Pass,
    /// It is held to the end of its value.
    Hold,
    /// It waits until the alternative of the innermost object is known.
    Wait,
    /// It is not looked at any more.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Object,
    Array,
    String,
    Number,
    Literal(JsonLiteral),
}

/// The treatment of a value that begins.
enum ValueDecision {
    Pass,
    /// Its members are looked at one by one, by these alternatives.
    EnterObject(Vec<Arc<ObjectAlternative>>),
    /// Its elements are looked at one by one, by that schema; the number counts the schemas tried around them.
    EnterArray(SchemaNodeId, usize),
    Hold,
    /// The alternative of the object that it is a member of has to be known first.
    Wait,
}

/// A container that is streamed.
#[derive(Clone, Debug)]
struct FlowingContainer {
    /// The number of schemas tried one inside the other where its parts are.
    depth: usize,
    parts: ContainerParts,
}

#[derive(Clone, Debug)]
enum ContainerParts {
    Members(FlowingMembers),
    /// The schema, and the number of elements that are over.
    Elements(SchemaNodeId, usize),
}

#[derive(Clone, Debug, Default)]
struct FlowingMembers {
    /// The alternatives that the object may still be; all of them coerce the members so far alike.
    alternatives: Vec<Arc<ObjectAlternative>>,
    /// The byte at which the object began.
    start: usize,
    /// The last key.
    key: String,
    is_told: bool,
    /// All declared names that came, and all others that were kept.
    names: Vec<String>,
    /// The names of the members that were left out.
    dropped: Vec<String>,
    later: Vec<DelayedMember>,
}

/// A member that comes at the end of its object.
#[derive(Clone, Debug)]
struct DelayedMember {
    lead: MemberLead,
    key: String,
    text: String,
}

/// The text before the value of a member: the comma, the key and the colon.
#[derive(Clone, Debug, Default)]
struct MemberLead {
    text: String,
    /// The range of the key in it, quotes included.
    key: Range<usize>,
}

/// The maximum number of containers that are streamed one inside the other; the scanner reports keys a little deeper.
const MAX_OPEN: usize = 96;
/// The maximum number of nested re-reads of text that waited; alternatives deeper than that are held.
const MAX_AGAIN: usize = 8;

impl StreamCoercer {
    /// A coercer for one text, with the steps of a budget.
    pub fn new(schema: &Schema, options: CoerceOptions, budget: StepBudget) -> Self {
        let state = CoercerState {
            options,
            budget,
            error: schema.within_limits().err(),
            wants_object: false,
            open: Vec::new(),
            path: Vec::new(),
            now: TextFate::Between,
            nested: 0,
            lead: MemberLead::default(),
            held: String::new(),
            kind: ValueKind::Object,
            ids: Vec::new(),
            is_late: false,
            is_shared: false,
            undecided: UndecidedObject::default(),
            again: 0,
            is_unreadable: false,
            taken: 0,
            recent: String::new(),
            recent_from: 0,
            has_diverged: false,
            changes: Vec::new(),
            problems: None,
        };
        Self { graph: Arc::clone(&schema.graph), scanner: JsonScanner::new(), state }
    }

    /// Makes it change nothing where the outcome is no object: arguments are one.
    pub(crate) fn of_arguments(mut self) -> Self {
        self.state.wants_object = true;
        self
    }

    /// Coerces a value, which is the same as its text in one piece, with the problems that remain.
    pub(super) fn fit(mut self, value: &Value) -> Result<(CoercedValue, StepBudget), Error> {
        self.state.problems = Some(Vec::new());
        let mut out = String::new();
        self.push(&value.to_string(), &mut out);
        self.finish(&mut out);
        let CoercerState { error, has_diverged, changes, problems, budget, .. } = self.state;
        if let Some(error) = error {
            return Err(error);
        }
        let value = match has_diverged {
            true => Tape::new().parse(&out)?.to_value_within(2 * Value::MAX_DEPTH),
            false => value.clone(),
        };
        Ok((CoercedValue { value, changes, problems: problems.unwrap_or_default() }, budget))
    }

    /// Takes the next piece of the text, and appends the part that is certain by now to `out`.
    pub fn push(&mut self, text: &str, out: &mut String) {
        if self.state.now == TextFate::Over {
            return out.push_str(text);
        }
        let Self { graph, scanner, state } = self;
        let mut walk = CoercerWalk { graph, base: state.taken, state, text, from: 0, out };
        let taken = scanner.push_to(text, &mut walk);
        walk.flush(taken);
        if matches!(scanner.status(), ScanStatus::Complete | ScanStatus::Broken) {
            walk.give_up();
            return out.push_str(&text[taken..]);
        }
        state.remember(text);
    }

    /// Ends the text: held text is appended as it was written, but for members that wait for the end of an object that
    /// has none.
    pub fn finish(&mut self, out: &mut String) {
        let Self { graph, scanner, state } = self;
        let mut walk = CoercerWalk { graph, base: state.taken, state, text: "", from: 0, out };
        scanner.finish_to(&mut walk);
        walk.give_up();
    }

    /// The changes made so far.
    pub fn changes(&self) -> &[CoercionChange] {
        &self.state.changes
    }

    /// The reason why the rest is passed on as it is, if it is: see [`StepBudget`].
    pub fn error(&self) -> Option<&Error> {
        self.state.error.as_ref()
    }

    /// Whether the text passed on is not the beginning of the text that came.
    pub(crate) fn has_diverged(&self) -> bool {
        self.state.has_diverged
    }

    /// The remaining budget.
    pub(crate) fn budget(&self) -> &StepBudget {
        &self.state.budget
    }
}

impl CoercerState {
    /// Reports the changes and problems of a part.
    fn report(&mut self, CoercionTrial { changes, problems, .. }: CoercionTrial) {
        self.changes.extend(changes);
        if let Some(all) = &mut self.problems {
            all.extend(problems);
        }
    }
}

/// Walks through one piece of the text, or again through one that waited.
struct CoercerWalk<'a> {
    graph: &'a SchemaGraph,
    state: &'a mut CoercerState,
    /// The offset of the piece in all text.
    base: usize,
    text: &'a str,
    /// The position up to which the piece was dealt with.
    from: usize,
    out: &'a mut String,
}

impl CoercerWalk<'_> {
    /// Deals with the text up to `to` by its current treatment.
    fn flush(&mut self, to: usize) {
        let run = &self.text[self.from..to];
        self.from = to;
        let CoercerState { now, open, lead, held, .. } = &mut *self.state;
        match now {
            TextFate::Between
                if matches!(
                    open.last(),
                    Some(FlowingContainer { parts: ContainerParts::Members(_), .. })
                ) =>
            {
                lead.text.push_str(run);
            }
            TextFate::Key => lead.text.push_str(run),
            TextFate::Hold => held.push_str(run),
            TextFate::Wait => {}
            TextFate::Between | TextFate::Pass | TextFate::Over => self.out.push_str(run),
        }
    }

    /// Passes on the held text, and looks at nothing any more.
    fn give_up(&mut self) {
        if self.state.now == TextFate::Over {
            return;
        }
        let is_late = self.state.now == TextFate::Hold && self.state.is_late;
        if is_late {
            self.state.has_diverged = true;
        } else if self.state.now == TextFate::Wait {
            let text = self.written(self.state.undecided.from, self.from).into_owned();
            self.out.push_str(&text);
        } else {
            self.out.push_str(&self.state.lead.text);
            self.out.push_str(&self.state.held);
        }
        let has_later = |open: &FlowingContainer| matches!(&open.parts, ContainerParts::Members(it) if !it.later.is_empty());
        self.state.has_diverged |= self.state.open.iter().any(has_later);
        self.state.lead.text.clear();
        self.state.held.clear();
        self.state.now = TextFate::Over;
    }

    /// Handles the start of a value at `at`.
    fn begin_value(&mut self, kind: ValueKind, at: usize) {
        self.flush(at);
        self.state.kind = kind;
        self.state.is_late = false;
        self.state.is_shared = false;
        let passes = self.state.error.is_some() || self.state.is_unreadable;
        let decision = if passes { Ok(ValueDecision::Pass) } else { self.decide() };
        let decision = decision.unwrap_or_else(|spent| {
            self.state.error = Some(spent.into());
            ValueDecision::Pass
        });
        let is_container = matches!(kind, ValueKind::Object | ValueKind::Array);
        match decision {
            ValueDecision::Pass => {
                self.put_lead(None);
                self.state.now = TextFate::Pass;
                self.state.nested = 0;
            }
            ValueDecision::Hold => {
                self.state.now = TextFate::Hold;
                self.state.nested = 0;
            }
            ValueDecision::Wait => self.wait(self.base + at, at),
            ValueDecision::EnterObject(alternatives) => {
                let start = self.base + at;
                let parts = ContainerParts::Members(FlowingMembers {
                    alternatives,
                    start,
                    ..FlowingMembers::default()
                });
                return self.enter(at, 1, parts);
            }
            ValueDecision::EnterArray(id, depth) => {
                return self.enter(at, depth, ContainerParts::Elements(id, 0));
            }
        }
        self.state.nested = usize::from(is_container);
    }

    /// Enters a container to stream, which begins at `at`, with that number of schemas around its parts.
    fn enter(&mut self, at: usize, depth: usize, parts: ContainerParts) {
        self.put_lead(None);
        self.out.push_str(&self.text[at..=at]);
        self.from = at + 1;
        let CoercerState { open, path, .. } = &mut *self.state;
        path.extend(open.last().map(FlowingContainer::segment));
        let depth = depth + open.last().map_or(0, |open| open.depth);
        open.push(FlowingContainer { depth, parts });
    }

    /// Decides on the value that begins.
    fn decide(&mut self) -> Result<ValueDecision, BudgetSpent> {
        let graph = self.graph;
        let CoercerState { open, ids, .. } = &mut *self.state;
        ids.clear();
        match open.last() {
            None => ids.push(SchemaGraph::ROOT),
            Some(FlowingContainer { parts: ContainerParts::Elements(id, index), .. }) => {
                ids.extend(graph.element(*id, *index))
            }
            Some(FlowingContainer { parts: ContainerParts::Members(_), .. }) => {
                if let Some(decision) = self.by_key()? {
                    return Ok(decision);
                }
            }
        }
        let decision = self.by_schemas()?;
        let is_kept = matches!(
            decision,
            ValueDecision::Pass | ValueDecision::EnterObject(_) | ValueDecision::EnterArray(..)
        );
        if let (true, Some(members)) = (is_kept, self.members()) {
            let key = members.key.clone();
            members.names.push(key);
        }
        Ok(decision)
    }

    /// Decides on the value by its schemas.
    fn by_schemas(&mut self) -> Result<ValueDecision, BudgetSpent> {
        let CoercerState { ids, budget, open, kind, options, problems, again, .. } = &mut *self.state;
        let graph = self.graph;
        let kind = match kind {
            _ if ids.is_empty() => return Ok(ValueDecision::Pass),
            ValueKind::Number | ValueKind::Literal(_) => return Ok(ValueDecision::Hold),
            ValueKind::String => TypeSet::STRING,
            ValueKind::Array => TypeSet::ARRAY,
            ValueKind::Object => TypeSet::OBJECT,
        };
        budget.spend_on(ids.iter().map(|&id| graph.node(id).together.len()).sum())?;
        if ids.iter().all(|&id| graph.node(id).takes.contains(kind)) {
            return Ok(ValueDecision::Pass);
        }
        if kind == TypeSet::STRING || open.len() >= MAX_OPEN {
            return Ok(ValueDecision::Hold);
        }
        if kind == TypeSet::OBJECT {
            if !graph.describes_objects(ids) {
                return Ok(ValueDecision::Hold);
            }
            let alternatives = graph.alternatives(ids, options.missing != MissingMembers::Keep, budget)?;
            let checks = |it: &Arc<ObjectAlternative>| {
                !it.choices.is_empty() || (problems.is_some() && !it.checks.is_empty())
            };
            let is_deep = *again >= MAX_AGAIN && alternatives.len() > 1;
            if is_deep || alternatives.iter().any(checks) {
                return Ok(ValueDecision::Hold);
            }
            if !alternatives.iter().any(|alternative| alternative.is_about_members(graph)) {
                return Ok(ValueDecision::Pass);
            }
            return Ok(ValueDecision::EnterObject(alternatives));
        }
        let mut found = Vec::new();
        for &id in &*ids {
            if !graph.node(id).takes.contains(kind) && graph.of_elements(id, 1, &mut found, budget)?.is_none()
            {
                return Ok(ValueDecision::Hold);
            }
        }
        Ok(match found[..] {
            [] => ValueDecision::Pass,
            [(id, depth)] => ValueDecision::EnterArray(id, depth),
            _ => ValueDecision::Hold,
        })
    }

    /// Handles the end, before `at`, of the value that was passed or held.
    fn end_value(&mut self, at: usize) {
        self.flush(at);
        let is_held = self.state.now == TextFate::Hold;
        if is_held && self.state.is_shared && !self.is_taken(&self.state.held) {
            self.wait(self.base + at - self.state.held.len(), at);
            return self.end_waiting(at);
        }
        self.state.now = TextFate::Between;
        if is_held {
            let held = take(&mut self.state.held);
            if let Err(spent) = self.end_held(&held) {
                self.state.error = Some(spent.into());
                self.put_lead(None);
                self.out.push_str(&held);
            }
            self.state.held = held;
            self.state.held.clear();
        }
        self.count();
    }

    /// Counts an element that is over.
    fn count(&mut self) {
        if let Some(FlowingContainer { parts: ContainerParts::Elements(_, index), .. }) =
            self.state.open.last_mut()
        {
            *index += 1;
        }
    }

    fn end_held(&mut self, held: &str) -> Result<(), BudgetSpent> {
        if self.state.is_late {
            let lead = take(&mut self.state.lead);
            self.state.has_diverged = true;
            if let Some(members) = self.members() {
                let (key, text) = (members.key.clone(), held.to_owned());
                members.later.push(DelayedMember { lead, key, text });
            }
            return Ok(());
        }
        let fitted = match self.is_taken(held) {
            true => None,
            false => held.parse::<Value>().ok(),
        };
        let key = self.members().map(|members| members.key.clone());
        let Some(value) = fitted else {
            if let (Some(key), Some(members)) = (key, self.members()) {
                members.names.push(key);
            }
            self.put_lead(None);
            self.out.push_str(held);
            return Ok(());
        };
        match key {
            Some(key) => self.end_member(&key, &key, &value, held, None),
            None => self.end_part(&value, held),
        }
    }

    /// Whether the held value is a scalar that all of its schemas take.
    fn is_taken(&self, held: &str) -> bool {
        let kind = match self.state.kind {
            ValueKind::Number if is_integer(held) => TypeSet::INTEGER,
            ValueKind::Number => TypeSet::NUMBER,
            ValueKind::Literal(JsonLiteral::Null) => TypeSet::NULL,
            ValueKind::Literal(_) => TypeSet::BOOLEAN,
            ValueKind::Object | ValueKind::Array | ValueKind::String => return false,
        };
        !self.state.ids.is_empty()
            && self.state.ids.iter().all(|&id| self.graph.node(id).takes.contains(kind))
    }

    /// Ends an element, or the whole value.
    fn end_part(&mut self, value: &Value, held: &str) -> Result<(), BudgetSpent> {
        let graph = self.graph;
        let CoercerState { open, budget, options, path, .. } = &mut *self.state;
        let depth = open.last().map_or(0, |open| open.depth);
        let mut coercer =
            ValueCoercer::new(graph, *options, SearchReach::Value, budget).at(take(path), depth);
        let trial = match open.last() {
            Some(FlowingContainer { parts: ContainerParts::Elements(id, index), .. }) => {
                let schemas: Vec<SchemaNodeId> = graph.element(*id, *index).collect();
                coercer.fit_element(&schemas, *index, value)?
            }
            _ => coercer.fit(SchemaGraph::ROOT, value)?,
        };
        *path = coercer.into_path();
        let is_root = self.state.open.is_empty();
        if is_root && self.state.wants_object && !trial.value.as_ref().unwrap_or(value).is_object() {
            self.out.push_str(held);
            return Ok(());
        }
        self.put_value(trial.value.as_ref(), held);
        self.state.report(trial);
        Ok(())
    }

    /// Ends the member `key`, which is `name` to the schema; its own lead is written before one that is `late`.
    fn end_member(
        &mut self,
        key: &str,
        name: &str,
        value: &Value,
        held: &str,
        late: Option<MemberLead>,
    ) -> Result<(), BudgetSpent> {
        let graph = self.graph;
        let CoercerState { open, budget, options, path, .. } = &mut *self.state;
        let Some((depth, alternative)) = open.last().and_then(FlowingContainer::alternative) else {
            return Ok(());
        };
        let shape = ObjectShape::new(graph, alternative);
        let rules = shape.rules(name, budget)?;
        let mut coercer =
            ValueCoercer::new(graph, *options, SearchReach::Value, budget).at(take(path), depth);
        let mut trial = CoercionTrial::default();
        let kept = coercer.fit_member(&shape, key, (name, &rules), value, &mut trial)?;
        *path = coercer.into_path();
        self.state.report(trial);
        if let Some(late) = late {
            self.state.lead = late;
        }
        match &kept {
            Some(new) => {
                self.put_lead((name != key).then_some(name));
                self.put_value(new.as_ref(), held);
            }
            None => {
                self.state.lead.text.clear();
                self.state.has_diverged = true;
            }
        }
        if let Some(members) = self.members() {
            let names = if kept.is_some() { &mut members.names } else { &mut members.dropped };
            names.push(name.to_owned());
        }
        Ok(())
    }

    /// Handles the end, before `at`, of the innermost streamed object.
    fn end_object(&mut self, at: usize) {
        let trail = take(&mut self.state.lead.text);
        let later = self.members().map(|members| take(&mut members.later));
        for later in later.into_iter().flatten() {
            self.put_later(later);
        }
        if self.state.error.is_none()
            && let Err(spent) = self.fill_in()
        {
            self.state.error = Some(spent.into());
        }
        self.out.push_str(&trail);
        self.out.push_str(&self.text[self.from..at]);
        self.from = at;
        self.state.lead.text = trail;
        self.state.lead.text.clear();
    }

    fn put_later(&mut self, DelayedMember { lead, key, text }: DelayedMember) {
        let names = self.members().map_or(0, |members| members.names.len() + members.dropped.len());
        // The name that it may mean is searched for among these.
        if self.state.error.is_none()
            && let Err(spent) = self.state.budget.spend_on(names / 16)
        {
            self.state.error = Some(spent.into());
        }
        let value = text.parse::<Value>().ok().filter(|_| self.state.error.is_none());
        let name = self.state.open.last().filter(|_| value.is_some()).and_then(|open| {
            let ContainerParts::Members(members) = &open.parts else { return None };
            let has = |names: &[String], name: &str| names.iter().any(|other| other == name);
            let is_there = |name: &str| has(&members.names, name) || has(&members.dropped, name);
            ObjectShape::new(self.graph, open.alternative()?.1).name_of(&key, is_there)
        });
        if let Some(value) = value {
            let name = name.unwrap_or(&key).to_owned();
            match self.end_member(&key, &name, &value, &text, Some(lead.clone())) {
                Ok(()) => return,
                Err(spent) => self.state.error = Some(spent.into()),
            }
        }
        self.state.lead = lead;
        self.put_lead(None);
        self.out.push_str(&text);
        if let Some(members) = self.members() {
            members.names.push(key);
        }
    }

    /// Fills in the missing members of the innermost object.
    fn fill_in(&mut self) -> Result<(), BudgetSpent> {
        let graph = self.graph;
        let CoercerState { open, budget, options, path, problems, .. } = &mut *self.state;
        let Some(open @ FlowingContainer { parts: ContainerParts::Members(members), .. }) = open.last()
        else {
            return Ok(());
        };
        // Missing members are a problem, if they are not filled in.
        let is_wanted = options.missing != MissingMembers::Keep || problems.is_some();
        let Some((depth, alternative)) = open.alternative().filter(|_| is_wanted) else { return Ok(()) };
        let names: HashSet<&str> = members.names.iter().map(String::as_str).collect();
        let mut trial = CoercionTrial::default();
        let mut coercer =
            ValueCoercer::new(graph, *options, SearchReach::Value, budget).at(take(path), depth);
        let added = coercer.add_missing(&ObjectShape::new(graph, alternative), &names, &mut trial)?;
        *path = coercer.into_path();
        self.state.report(trial);
        for (name, value) in added {
            self.state.lead = MemberLead::default();
            self.put_lead(Some(&name));
            self.out.push_str(&value.to_string());
            self.state.has_diverged = true;
        }
        Ok(())
    }

    /// Passes on the text before the value of a member, under another name if there is one.
    fn put_lead(&mut self, name: Option<&str>) {
        let CoercerState { lead, open, has_diverged, .. } = &mut *self.state;
        let Some(FlowingContainer { parts: ContainerParts::Members(members), .. }) = open.last_mut() else {
            return;
        };
        let before = &lead.text[..lead.key.start];
        let comma = before.find(',');
        match (comma, members.is_told) {
            (Some(_), true) | (None, false) => self.out.push_str(before),
            (None, true) => self.out.extend([",", before]),
            (Some(comma), false) => self.out.extend([&before[..comma], &before[comma + 1..]]),
        }
        match name {
            Some(name) => {
                self.out.push_str(&Value::from(name).to_string());
                let after = &lead.text[lead.key.end..];
                self.out.push_str(if after.is_empty() { ":" } else { after });
                *has_diverged = true;
            }
            None => self.out.push_str(&lead.text[lead.key.start..]),
        }
        members.is_told = true;
        lead.text.clear();
    }

    /// Passes on a new value, or the held text.
    fn put_value(&mut self, new: Option<&Value>, held: &str) {
        match new {
            Some(new) => {
                self.out.push_str(&new.to_string());
                self.state.has_diverged = true;
            }
            None => self.out.push_str(held),
        }
    }

    /// The innermost streamed container, if it is an object.
    fn members(&mut self) -> Option<&mut FlowingMembers> {
        match self.state.open.last_mut() {
            Some(FlowingContainer { parts: ContainerParts::Members(members), .. }) => Some(members),
            _ => None,
        }
    }
}

impl FlowingContainer {
    /// The step to the part that has begun.
    fn segment(&self) -> ValuePathSegment {
        match &self.parts {
            ContainerParts::Members(members) => ValuePathSegment::Key(members.key.clone()),
            ContainerParts::Elements(_, index) => ValuePathSegment::Index(*index),
        }
    }

    /// For an object: the number of schemas tried around its members, and the alternative that applies to them.
    fn alternative(&self) -> Option<(usize, &ObjectAlternative)> {
        match &self.parts {
            ContainerParts::Members(members) => members.alternatives.first().map(|it| (self.depth, &**it)),
            ContainerParts::Elements(..) => None,
        }
    }
}

impl ScanVisitor for CoercerWalk<'_> {
    fn open(&mut self, container: JsonContainer, at: usize) {
        if self.is_waiting() {
            self.begin_waiting(false, at);
        }
        if self.state.now != TextFate::Between {
            self.state.nested += 1;
            return;
        }
        let kind = match container {
            JsonContainer::Object => ValueKind::Object,
            JsonContainer::Array => ValueKind::Array,
        };
        self.begin_value(kind, at);
    }

    fn close(&mut self, _: JsonContainer, at: usize) {
        self.end_undecided(at - 1);
        if self.state.now != TextFate::Between {
            self.state.nested -= 1;
            if self.state.nested == 0 && self.state.now != TextFate::Wait {
                self.end_value(at);
            }
            return;
        }
        match self.members() {
            Some(_) => {
                // The blanks before the brace.
                self.flush(at - 1);
                self.end_object(at);
            }
            None => self.flush(at),
        }
        self.state.open.pop();
        self.state.path.pop();
        self.count();
    }

    fn begin(&mut self, token: ScanToken, at: usize) {
        if self.is_waiting() {
            match token {
                ScanToken::Key => self.state.undecided.key_from = self.base + at,
                _ => self.begin_waiting(token == ScanToken::Literal(JsonLiteral::Null), at),
            }
        }
        if self.state.now != TextFate::Between {
            return;
        }
        match token {
            ScanToken::Key => {
                self.flush(at);
                self.state.lead.key.start = self.state.lead.text.len();
                self.state.now = TextFate::Key;
            }
            ScanToken::String => self.begin_value(ValueKind::String, at),
            ScanToken::Number => self.begin_value(ValueKind::Number, at),
            ScanToken::Literal(literal) => self.begin_value(ValueKind::Literal(literal), at),
        }
    }

    fn end(&mut self, token: ScanToken, at: usize) {
        match self.state.now {
            TextFate::Wait if self.state.nested > 0 => {}
            TextFate::Wait if token == ScanToken::Key => self.end_waiting_key(at),
            TextFate::Wait => self.end_waiting(at),
            TextFate::Key => {
                self.flush(at);
                self.state.now = TextFate::Between;
                let lead = &mut self.state.lead;
                lead.key.end = lead.text.len();
                let key = read_key(&lead.text[lead.key.clone()]);
                if let Some(members) = self.members() {
                    members.key = key;
                }
            }
            TextFate::Pass | TextFate::Hold if self.state.nested == 0 => self.end_value(at),
            _ => {}
        }
    }
}

/// Returns the decoded key of its written form.
fn read_key(written: &str) -> String {
    let plain = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
    if !plain.contains('\\') {
        return plain.to_owned();
    }
    match written.parse::<Value>() {
        Ok(Value::String(key)) => key,
        _ => plain.to_owned(),
    }
}
