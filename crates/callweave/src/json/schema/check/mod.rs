//! Validation of a value by all of JSON Schema, step by step.
//!
//! A value is walked together with the schemas that describe it. Each schema that is looked at, each comparison and
//! each piece of text is taken from a [`StepBudget`], so that no schema makes more work than it holds, and recursion
//! has a limit of its own. Problems are reported only where a value is not valid, and only the first of them.

mod number;
mod pattern;
mod uri;
mod words;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::budget::{BudgetSpent, StepBudget};
use super::coerce::ValuePathSegment;
use super::{EXCERPT, SchemaProblem, TypeSet, excerpt};
use crate::json::{Object, Value};
use words::{CheckNodeId, CompiledSchema, CountKeyword, Keyword, MemberKeywords, NOWHERE, NumberBound};

/// The maximum number of schemas looked at, one because of the other: anything deeper is not checked.
const MAX_DEPTH: usize = 512;
/// The maximum number of problems reported.
const MAX_PROBLEMS: usize = 64;

/// The reason why there is no verdict.
#[derive(Clone, Debug)]
pub(super) enum CheckStop {
    /// It would take too much work.
    Spent,
    /// The schema is not valid.
    Invalid(String),
}

impl From<BudgetSpent> for CheckStop {
    fn from(_: BudgetSpent) -> Self {
        Self::Spent
    }
}

/// A schema, ready to check values.
#[derive(Debug)]
pub(super) struct SchemaCheck(CompiledSchema);

impl SchemaCheck {
    /// Reads a schema in the keywords of the standard.
    pub(super) fn new(schema: &Value) -> Result<Self, CheckStop> {
        CompiledSchema::new(schema).map(Self)
    }

    /// Returns the problems of a value that is no deeper than [`Value::MAX_DEPTH`].
    pub(super) fn problems(
        &self,
        value: &Value,
        budget: &mut StepBudget,
    ) -> Result<Vec<SchemaProblem>, CheckStop> {
        let mut walk = CheckWalk {
            compiled: &self.0,
            budget,
            path: Vec::new(),
            trail: Vec::new(),
            scope: Vec::new(),
            depth: 0,
            problems: Vec::new(),
        };
        // Most values are valid, and to know that takes less work than to report problems.
        if !walk.is_valid(CompiledSchema::ROOT, value)? {
            walk.visit(CompiledSchema::ROOT, value, ProblemReporting::Problems)?;
        }
        Ok(walk.problems)
    }
}

/// Whether problems are reported where they are found, or the first one ends the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProblemReporting {
    Nothing,
    Problems,
}

struct CheckWalk<'c> {
    compiled: &'c CompiledSchema,
    budget: &'c mut StepBudget,
    /// The path of the value; kept only while problems are reported.
    path: Vec<ValuePathSegment>,
    /// The schemas that are being looked at for the same value.
    trail: Vec<CheckNodeId>,
    /// The documents that led here.
    scope: Vec<usize>,
    depth: usize,
    problems: Vec<SchemaProblem>,
}

type CheckResult = Result<bool, CheckStop>;

impl<'c> CheckWalk<'c> {
    fn is_valid(&mut self, id: CheckNodeId, value: &Value) -> CheckResult {
        self.visit(id, value, ProblemReporting::Nothing)
    }

    /// Whether a value is valid by a schema of its own place.
    fn visit(&mut self, id: CheckNodeId, value: &Value, telling: ProblemReporting) -> CheckResult {
        self.inside(id, |walk| {
            let mut is_valid = true;
            for word in &walk.compiled.node(id).words {
                if !walk.check(id, word, value, telling)? {
                    is_valid = false;
                    if telling == ProblemReporting::Nothing || walk.problems.len() >= MAX_PROBLEMS {
                        break;
                    }
                }
            }
            Ok(is_valid)
        })
    }

    /// Works inside a schema. A schema that leads back to itself for the same value is invalid.
    fn inside<T>(
        &mut self,
        id: CheckNodeId,
        work: impl FnOnce(&mut Self) -> Result<T, CheckStop>,
    ) -> Result<T, CheckStop> {
        let node = self.compiled.node(id);
        self.budget.spend_on(1 + node.words.len())?;
        if self.trail.contains(&id) {
            return Err(CheckStop::Invalid("the schema leads back to itself".to_owned()));
        }
        if self.depth == MAX_DEPTH {
            return Err(CheckStop::Spent);
        }
        let is_entering = self.scope.last() != Some(&node.resource);
        if is_entering {
            self.scope.push(node.resource);
        }
        self.depth += 1;
        self.trail.push(id);
        let done = work(self);
        self.trail.pop();
        self.depth -= 1;
        if is_entering {
            self.scope.pop();
        }
        done
    }

    /// Visits a part of the value.
    fn part(
        &mut self,
        id: CheckNodeId,
        step: impl FnOnce() -> ValuePathSegment,
        value: &Value,
        telling: ProblemReporting,
    ) -> CheckResult {
        let trail = std::mem::take(&mut self.trail);
        if telling == ProblemReporting::Problems {
            self.path.push(step());
        }
        let verdict = self.visit(id, value, telling);
        if telling == ProblemReporting::Problems {
            self.path.pop();
        }
        self.trail = trail;
        verdict
    }

    fn check(
        &mut self,
        id: CheckNodeId,
        word: &'c Keyword,
        value: &Value,
        telling: ProblemReporting,
    ) -> CheckResult {
        match word {
            Keyword::Members(members) => match value {
                Value::Object(object) => self.members(members, object, telling),
                _ => Ok(true),
            },
            Keyword::Elements { first, rest } => {
                let Value::Array(elements) = value else { return Ok(true) };
                let mut verdict = true;
                for (index, element) in elements.iter().enumerate() {
                    if let Some(schema) = first.get(index).copied().or(*rest) {
                        verdict &= self.part(schema, || ValuePathSegment::Index(index), element, telling)?;
                    }
                    if !verdict && telling == ProblemReporting::Nothing {
                        break;
                    }
                }
                Ok(verdict)
            }
            Keyword::All(schemas) => {
                let mut verdict = true;
                for &schema in schemas {
                    verdict &= self.visit(schema, value, telling)?;
                    if !verdict && telling == ProblemReporting::Nothing {
                        break;
                    }
                }
                Ok(verdict)
            }
            Keyword::DependentSchemas(schemas) => {
                let Value::Object(object) = value else { return Ok(true) };
                let mut verdict = true;
                for (name, schema) in schemas {
                    self.budget.spend(1)?;
                    if object.contains_key(name) {
                        verdict &= self.visit(*schema, value, telling)?;
                    }
                }
                Ok(verdict)
            }
            Keyword::If { then: None, otherwise: None, .. } => Ok(true),
            Keyword::If { condition, then, otherwise } => {
                let branch = if self.is_valid(*condition, value)? { then } else { otherwise };
                branch.map_or(Ok(true), |schema| self.visit(schema, value, telling))
            }
            Keyword::Reference(NOWHERE) | Keyword::Dynamic { nearest: NOWHERE, .. } => {
                Err(CheckStop::Invalid("a reference leads nowhere".to_owned()))
            }
            Keyword::Reference(schema) => self.visit(*schema, value, telling),
            Keyword::Dynamic { nearest, name } => {
                let schema = self.dynamic(*nearest, name)?;
                self.visit(schema, value, telling)
            }
            Keyword::Names(schema) => self.names(*schema, value, telling),
            Keyword::UnseenMembers(schema) | Keyword::UnseenElements(schema) => {
                self.unseen(id, *schema, word, value, telling)
            }
            _ => {
                let problem = self.problem(word, value, telling)?;
                Ok(self.tell(problem, telling))
            }
        }
    }

    /// Reports a problem, if there is one, and returns whether there is none.
    fn tell(&mut self, problem: Option<Cow<'static, str>>, telling: ProblemReporting) -> bool {
        let Some(detail) = problem else { return true };
        if telling == ProblemReporting::Problems && self.problems.len() < MAX_PROBLEMS {
            self.problems.push(SchemaProblem {
                path: super::coerce::path_of(&self.path),
                detail: detail.into_owned(),
            });
        }
        false
    }

    /// Returns the problem of a value itself by one keyword; its description only if problems are reported.
    fn problem(
        &mut self,
        word: &Keyword,
        value: &Value,
        telling: ProblemReporting,
    ) -> Result<Option<Cow<'static, str>>, CheckStop> {
        let said = |is_wrong: bool, detail: &dyn Fn() -> String| {
            is_wrong.then(|| if telling == ProblemReporting::Problems { detail().into() } else { "".into() })
        };
        Ok(match word {
            Keyword::Never => said(true, &|| "False schema does not allow value".to_owned()),
            Keyword::Type { types, is_strict, names } => {
                let is_fraction = |text: &str| text.contains(['.', 'e', 'E']);
                let is_fraction = *is_strict
                    && !types.allows_number()
                    && value.as_number().is_some_and(|number| is_fraction(number.as_str()));
                let is_wrong = !types.contains(TypeSet::of(value)) || is_fraction;
                said(is_wrong, &|| format!("value is not of {names}"))
            }
            Keyword::Const(expected) => {
                let is_same = self.is_same(expected, value)?;
                said(!is_same, &|| format!("{} was expected", shown(expected)))
            }
            Keyword::Enum(choices) => {
                for choice in choices {
                    if self.is_same(choice, value)? {
                        return Ok(None);
                    }
                }
                said(true, &|| format!("value is not one of {}", listed(choices)))
            }
            Keyword::Bound(bound, limit) => {
                let Value::Number(number) = value else { return Ok(None) };
                self.budget.spend_on_text(number.as_str().len())?;
                let order = number::compare(number, limit);
                let (is_wrong, relation) = match bound {
                    NumberBound::Minimum => (order.is_lt(), "less than the minimum"),
                    NumberBound::Maximum => (order.is_gt(), "greater than the maximum"),
                    NumberBound::AboveMinimum => (order.is_le(), "less than or equal to the minimum"),
                    NumberBound::BelowMaximum => (order.is_ge(), "greater than or equal to the maximum"),
                };
                said(is_wrong, &|| format!("value is {relation} of {}", excerpt(limit.as_str())))
            }
            Keyword::MultipleOf(of) => {
                let Value::Number(number) = value else { return Ok(None) };
                self.budget.spend_on_text(number.as_str().len())?;
                let is_wrong = !number::is_multiple(number, of);
                said(is_wrong, &|| format!("value is not a multiple of {}", excerpt(of.as_str())))
            }
            Keyword::Count(count, limit) => {
                let Some(found) = self.counted(*count, value)? else { return Ok(None) };
                let (is_wrong, words, one, many) = match count {
                    CountKeyword::MinLength => (found < *limit, "is shorter than", "character", "characters"),
                    CountKeyword::MaxLength => (found > *limit, "is longer than", "character", "characters"),
                    CountKeyword::MinItems => (found < *limit, "has less than", "item", "items"),
                    CountKeyword::MaxItems => (found > *limit, "has more than", "item", "items"),
                    CountKeyword::MinProperties => {
                        (found < *limit, "has less than", "property", "properties")
                    }
                    CountKeyword::MaxProperties => {
                        (found > *limit, "has more than", "property", "properties")
                    }
                };
                said(is_wrong, &|| format!("value {words} {limit} {}", if *limit == 1 { one } else { many }))
            }
            Keyword::Required(names) => self.missing(names, value, telling)?,
            Keyword::DependentRequired(lists) => {
                let Value::Object(object) = value else { return Ok(None) };
                for (name, names) in lists {
                    self.budget.spend(1)?;
                    if object.contains_key(name)
                        && let Some(problem) = self.missing(names, value, telling)?
                    {
                        return Ok(Some(problem));
                    }
                }
                None
            }
            Keyword::Pattern(pattern) => {
                let Value::String(text) = value else { return Ok(None) };
                let is_found = pattern.matches(text, self.budget)?;
                said(!is_found, &|| format!("value does not match \"{}\"", excerpt(&pattern.text)))
            }
            Keyword::Form(form) => {
                let Value::String(text) = value else { return Ok(None) };
                form.problem(text, self.budget)?.map(|problem| excerpt(&problem).into_owned().into())
            }
            Keyword::UniqueItems => {
                let Value::Array(elements) = value else { return Ok(None) };
                let is_wrong = self.has_twins(elements)?;
                said(is_wrong, &|| "value has non-unique elements".to_owned())
            }
            Keyword::Contains { schema, least, most, .. } => {
                let Value::Array(elements) = value else { return Ok(None) };
                let found =
                    self.count_valid(*schema, elements)?.into_iter().filter(|is_valid| *is_valid).count()
                        as u64;
                let is_wrong = found < *least || most.is_some_and(|most| found > most);
                said(is_wrong, &|| "None of value are valid under the given schema".to_owned())
            }
            Keyword::Any(schemas) => {
                for &schema in schemas {
                    if self.is_valid(schema, value)? {
                        return Ok(None);
                    }
                }
                said(true, &|| {
                    "value is not valid under any of the schemas listed in the 'anyOf' keyword".to_owned()
                })
            }
            Keyword::One(schemas) => {
                let mut found = 0;
                for &schema in schemas {
                    found += u8::from(self.is_valid(schema, value)?);
                    if found > 1 {
                        break;
                    }
                }
                let how = if found == 0 { "not valid under any" } else { "valid under more than one" };
                said(found != 1, &|| format!("value is {how} of the schemas listed in the 'oneOf' keyword"))
            }
            Keyword::Not(schema) => {
                let is_wrong = self.is_valid(*schema, value)?;
                said(is_wrong, &|| "value is valid under the schema of the 'not' keyword".to_owned())
            }
            Keyword::Members(_)
            | Keyword::Names(_)
            | Keyword::Elements { .. }
            | Keyword::DependentSchemas(_)
            | Keyword::All(_)
            | Keyword::If { .. }
            | Keyword::UnseenMembers(_)
            | Keyword::UnseenElements(_)
            | Keyword::Reference(_)
            | Keyword::Dynamic { .. } => None,
        })
    }

    fn counted(&mut self, count: CountKeyword, value: &Value) -> Result<Option<u64>, CheckStop> {
        let found = match (count, value) {
            (CountKeyword::MinLength | CountKeyword::MaxLength, Value::String(text)) => {
                self.budget.spend_on_text(text.len())?;
                text.chars().count()
            }
            (CountKeyword::MinItems | CountKeyword::MaxItems, Value::Array(elements)) => elements.len(),
            (CountKeyword::MinProperties | CountKeyword::MaxProperties, Value::Object(members)) => {
                members.len()
            }
            _ => return Ok(None),
        };
        Ok(Some(found as u64))
    }

    /// The first of the names that is missing in an object.
    fn missing(
        &mut self,
        names: &[String],
        value: &Value,
        telling: ProblemReporting,
    ) -> Result<Option<Cow<'static, str>>, CheckStop> {
        let Value::Object(object) = value else { return Ok(None) };
        self.budget.spend_on(names.len())?;
        let mut missing = names.iter().filter(|name| !object.contains_key(name));
        if telling == ProblemReporting::Nothing {
            return Ok(missing.next().map(|_| "".into()));
        }
        let problem =
            |name: &String| Cow::Owned(format!("{} is a required property", shown(&name.as_str().into())));
        let mut problems = missing.map(problem);
        let last = problems.next();
        for more in problems.take(MAX_PROBLEMS) {
            self.tell(Some(more), telling);
        }
        Ok(last)
    }

    fn members(
        &mut self,
        members: &'c MemberKeywords,
        object: &Object,
        telling: ProblemReporting,
    ) -> CheckResult {
        let mut verdict = true;
        let mut unexpected: Vec<&str> = Vec::new();
        for (key, value) in object {
            self.budget.spend(1)?;
            let step = || ValuePathSegment::Key(key.to_owned());
            let named = members.named.get(key).copied();
            if let Some(schema) = named {
                verdict &= self.part(schema, step, value, telling)?;
            }
            let mut is_known = named.is_some();
            for (pattern, schema) in &members.patterns {
                if pattern.matches(key, self.budget)? {
                    is_known = true;
                    verdict &= self.part(*schema, step, value, telling)?;
                }
            }
            if let Some(schema) = members.others.filter(|_| !is_known) {
                if self.compiled.is_never(schema) {
                    verdict = false;
                    unexpected.push(key);
                } else {
                    verdict &= self.part(schema, step, value, telling)?;
                }
            }
            if !verdict && telling == ProblemReporting::Nothing {
                return Ok(false);
            }
        }
        if !unexpected.is_empty() {
            self.tell(
                Some(format!("Additional properties are not allowed ({}", quoted(&unexpected)).into()),
                telling,
            );
        }
        Ok(verdict)
    }

    /// Checks the names of an object's members.
    fn names(&mut self, schema: CheckNodeId, value: &Value, telling: ProblemReporting) -> CheckResult {
        let Value::Object(object) = value else { return Ok(true) };
        let mut verdict = true;
        for key in object.keys() {
            self.budget.spend_on_text(key.len())?;
            let trail = std::mem::take(&mut self.trail);
            verdict &= self.visit(schema, &key.into(), telling)?;
            self.trail = trail;
            if !verdict && telling == ProblemReporting::Nothing {
                break;
            }
        }
        Ok(verdict)
    }

    /// The elements that are valid by a schema.
    fn count_valid(&mut self, schema: CheckNodeId, elements: &[Value]) -> Result<Vec<bool>, CheckStop> {
        self.budget.spend_on(elements.len())?;
        let index = || ValuePathSegment::Index(0);
        elements.iter().map(|element| self.part(schema, index, element, ProblemReporting::Nothing)).collect()
    }

    /// The target of a reference that depends on the documents through which it was reached: the outermost that has the
    /// name, if the nearest has.
    fn dynamic(&mut self, nearest: CheckNodeId, name: &str) -> Result<CheckNodeId, CheckStop> {
        let home = self.compiled.node(nearest).resource;
        if self.compiled.dynamic(home, name) != Some(nearest) {
            return Ok(nearest);
        }
        self.budget.spend_on(self.scope.len())?;
        Ok(self.scope.iter().find_map(|&resource| self.compiled.dynamic(resource, name)).unwrap_or(nearest))
    }

    /// `unevaluatedProperties` and `unevaluatedItems`: the parts that no other keyword of the schema has looked at.
    fn unseen(
        &mut self,
        id: CheckNodeId,
        schema: CheckNodeId,
        word: &Keyword,
        value: &Value,
        telling: ProblemReporting,
    ) -> CheckResult {
        let parts: Vec<(Option<&str>, &Value)> = match (word, value) {
            (Keyword::UnseenMembers(_), Value::Object(members)) => {
                self.budget.spend_on(members.len())?;
                members.iter().map(|(key, part)| (Some(key), part)).collect()
            }
            (Keyword::UnseenElements(_), Value::Array(elements)) => {
                self.budget.spend_on(elements.len())?;
                elements.iter().map(|part| (None, part)).collect()
            }
            _ => return Ok(true),
        };
        let mut seen = vec![false; parts.len()];
        for other in &self.compiled.node(id).words {
            if !matches!(other, Keyword::UnseenMembers(_) | Keyword::UnseenElements(_)) {
                self.see_by(other, value, &mut seen)?;
            }
        }
        let mut verdict = true;
        let mut unexpected: Vec<&str> = Vec::new();
        let mut left_over = 0;
        for ((key, part), is_seen) in parts.into_iter().zip(seen) {
            if !is_seen
                && !self.part(schema, || ValuePathSegment::Index(0), part, ProblemReporting::Nothing)?
            {
                verdict = false;
                left_over += 1;
                unexpected.extend(key);
            }
        }
        if !verdict {
            let problem = if value.is_object() {
                format!("Unevaluated properties are not allowed ({}", quoted(&unexpected))
            } else {
                let plural = if left_over == 1 { "" } else { "s" };
                format!("Unevaluated items are not allowed ({left_over} item{plural})")
            };
            self.tell(Some(problem.into()), telling);
        }
        Ok(verdict)
    }

    /// Marks the parts of a value that a schema which holds has looked at.
    fn see(&mut self, id: CheckNodeId, value: &Value, seen: &mut [bool]) -> Result<(), CheckStop> {
        self.inside(id, |walk| {
            walk.compiled.node(id).words.iter().try_for_each(|word| walk.see_by(word, value, seen))
        })
    }

    fn see_by(&mut self, word: &'c Keyword, value: &Value, seen: &mut [bool]) -> Result<(), CheckStop> {
        match (word, value) {
            (Keyword::Members(members), Value::Object(object)) => {
                for ((key, _), seen) in object.iter().zip(seen) {
                    self.budget.spend(1)?;
                    *seen |= members.named.contains_key(key) || members.others.is_some();
                    for (pattern, _) in &members.patterns {
                        *seen = *seen || pattern.matches(key, self.budget)?;
                    }
                }
            }
            (Keyword::Elements { first, rest }, Value::Array(_)) => {
                self.budget.spend_on(seen.len())?;
                let first = if rest.is_some() { seen.len() } else { first.len() };
                seen.iter_mut().take(first).for_each(|seen| *seen = true);
            }
            (Keyword::Contains { schema, is_looking: true, .. }, Value::Array(elements)) => {
                for (seen, is_valid) in seen.iter_mut().zip(self.count_valid(*schema, elements)?) {
                    *seen |= is_valid;
                }
            }
            (Keyword::UnseenMembers(_), Value::Object(_)) | (Keyword::UnseenElements(_), Value::Array(_)) => {
                self.budget.spend_on(seen.len())?;
                seen.fill(true);
            }
            (Keyword::All(schemas) | Keyword::Any(schemas) | Keyword::One(schemas), _) => {
                for &schema in schemas {
                    self.see_valid(schema, value, seen)?;
                }
            }
            (Keyword::DependentSchemas(schemas), Value::Object(object)) => {
                for (name, schema) in schemas {
                    self.budget.spend(1)?;
                    if object.contains_key(name) {
                        self.see_valid(*schema, value, seen)?;
                    }
                }
            }
            (Keyword::If { condition, then, otherwise }, _) => {
                let branch = if self.is_valid(*condition, value)? {
                    self.see(*condition, value, seen)?;
                    then
                } else {
                    otherwise
                };
                if let Some(schema) = branch {
                    self.see_valid(*schema, value, seen)?;
                }
            }
            (Keyword::Reference(NOWHERE) | Keyword::Dynamic { nearest: NOWHERE, .. }, _) => {}
            (Keyword::Reference(schema), _) => self.see_valid(*schema, value, seen)?,
            (Keyword::Dynamic { nearest, name }, _) => {
                let schema = self.dynamic(*nearest, name)?;
                self.see_valid(schema, value, seen)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn see_valid(&mut self, id: CheckNodeId, value: &Value, seen: &mut [bool]) -> Result<(), CheckStop> {
        if self.is_valid(id, value)? { self.see(id, value, seen) } else { Ok(()) }
    }

    /// Whether two values are equal in JSON Schema, where `1` and `1.0` are.
    fn is_same(&mut self, one: &Value, other: &Value) -> CheckResult {
        self.budget.spend(1)?;
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                self.budget.spend_on_text(one.as_str().len().max(other.as_str().len()))?;
                Ok(number::compare(one, other).is_eq())
            }
            (Value::String(one), Value::String(other)) => {
                self.budget.spend_on_text(one.len().min(other.len()))?;
                Ok(one == other)
            }
            (Value::Array(one), Value::Array(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (one, other) in one.iter().zip(other) {
                    if !self.is_same(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(one), Value::Object(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (key, one) in one {
                    self.budget.spend_on_text(key.len())?;
                    let Some(other) = other.get(key) else { return Ok(false) };
                    if !self.is_same(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(one == other),
        }
    }

    /// Whether two elements are equal.
    fn has_twins(&mut self, elements: &[Value]) -> CheckResult {
        let hasher = RandomState::new();
        let mut known: HashMap<u64, Vec<&Value>> = HashMap::new();
        for element in elements {
            // The set of known elements takes memory.
            self.budget.spend(4)?;
            let hash = self.hash(&hasher, element)?;
            let alike = known.entry(hash).or_default();
            for other in alike.iter() {
                if self.is_same(element, other)? {
                    return Ok(true);
                }
            }
            alike.push(element);
        }
        Ok(false)
    }

    /// A hash that is the same for equal values, whatever the order of their members.
    fn hash(&mut self, hasher: &RandomState, value: &Value) -> Result<u64, CheckStop> {
        self.budget.spend(1)?;
        Ok(match value {
            Value::Null => hasher.hash_one(0),
            Value::Bool(truth) => hasher.hash_one(truth),
            Value::Number(number) => {
                self.budget.spend_on_text(number.as_str().len())?;
                hasher.hash_one(number::float(number.as_str()).to_bits())
            }
            Value::String(text) => {
                self.budget.spend_on_text(text.len())?;
                hasher.hash_one(text.as_str())
            }
            Value::Array(elements) => {
                let mut sum = hasher.hash_one(elements.len());
                for element in elements {
                    sum = hasher.hash_one((sum, self.hash(hasher, element)?));
                }
                sum
            }
            Value::Object(members) => {
                let mut sum = hasher.hash_one((members.len(), 0));
                for (key, member) in members {
                    self.budget.spend_on_text(key.len())?;
                    sum = sum.wrapping_add(hasher.hash_one((key, self.hash(hasher, member)?)));
                }
                sum
            }
        })
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(&*excerpt(text)).to_string(),
        Value::Array(elements) if elements.len() > EXCERPT => "a long array".to_owned(),
        Value::Object(members) if members.len() > EXCERPT => "a large object".to_owned(),
        _ => excerpt(&value.to_string()).into_owned(),
    }
}

/// Names as a problem lists them, with the end of the sentence.
fn quoted(names: &[&str]) -> String {
    const MAX: usize = 8;
    let mut told: Vec<String> = names.iter().take(MAX).map(|name| format!("'{}'", excerpt(name))).collect();
    if names.len() > MAX {
        told.push(format!("and {} more", names.len() - MAX));
    }
    format!("{} {} unexpected)", told.join(", "), if names.len() == 1 { "was" } else { "were" })
}

/// Choices as a problem lists them: the first few of them.
fn listed(choices: &[Value]) -> String {
    let all: Vec<String> = choices.iter().take(3).map(shown).collect();
    match (all.as_slice(), choices.len()) {
        ([one, two, ..], count @ 4..) => format!("{one}, {two} or {} other candidates", count - 2),
        ([one, two, three], _) => format!("{one}, {two} or {three}"),
        _ => all.join(" or "),
    }
}
