//! Full validation, and its consequences.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::budget::BudgetSpent;
use super::check::{CheckStop, SchemaCheck};
use super::{CoerceOptions, CoercionChange, Schema, SchemaProblem, StepBudget};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{AsValue, Value, bounded};

/// The treatment of arguments that come with a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchemaPolicy {
    /// None: they pass unchecked.
    Off,
    /// Report the problems and let them pass.
    Validate,
    /// Coerce them, and report the problems of the result.
    #[default]
    Coerce,
    /// Refuse them if they have any problem as written.
    Reject,
}

/// The outcome of applying a [`SchemaPolicy`] to arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidationOutcome {
    /// The arguments: as they were written, unless there are changes.
    pub value: Value,
    /// Every change that was made.
    pub changes: Vec<CoercionChange>,
    /// The problems of the value.
    pub problems: Vec<SchemaProblem>,
    /// Whether the check took too much work: nothing is known of the value, and it is as it was written.
    pub is_unchecked: bool,
}

/// The schema compiled for validation, read when it is first needed.
#[derive(Clone)]
pub(super) struct LazyCheck {
    schema: Arc<Value>,
    check: Arc<OnceLock<std::result::Result<SchemaCheck, CheckStop>>>,
}

impl LazyCheck {
    pub(super) fn new(schema: &Value) -> Self {
        Self { schema: Arc::new(schema.clone()), check: Arc::default() }
    }

    fn get(&self) -> std::result::Result<&SchemaCheck, CheckStop> {
        self.check
            .get_or_init(|| SchemaCheck::new(&standard(&self.schema)))
            .as_ref()
            .map_err(CheckStop::clone)
    }
}

/// The schema in the keywords of JSON Schema: `nullable` of OpenAPI becomes a type, and types in capitals become lower case.
fn standard(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let mut open = vec![&mut schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(elements) => open.extend(elements.iter_mut()),
            Value::Object(words) => {
                let is_nullable = words.get("nullable") == Some(&Value::Bool(true));
                if let Some(Value::String(name)) = words.get_mut("type") {
                    name.make_ascii_lowercase();
                    if is_nullable {
                        let name = std::mem::take(name);
                        words.insert("type", Value::Array(vec![name.into(), "null".into()].into()));
                    }
                }
                if let Some(Value::Array(choices)) = words.get_mut("enum")
                    && is_nullable
                    && !choices.contains(&Value::Null)
                {
                    choices.push(Value::Null);
                }
                // The values of these keywords are data.
                let is_data =
                    |word: &str| matches!(word, "enum" | "const" | "default" | "examples" | "example");
                open.extend(words.iter_mut().filter(|(word, _)| !is_data(word)).map(|(_, value)| value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    schema
}

impl std::fmt::Debug for LazyCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.schema.fmt(f)
    }
}

impl Schema {
    /// Returns the problems of a value by all of JSON Schema; none if it is valid. At most 64 problems are reported.
    ///
    /// Fails with [`ErrorKind::Invalid`] where the schema itself is not valid, and with [`ErrorKind::Limit`] where it
    /// is [too large](Schema::MAX_VALUES), or more work than a [`StepBudget`] allows: then nothing is known of the value.
    /// Fractions, and numbers compared with them, are judged by the nearest float.
    pub fn validate(&self, value: &(impl AsValue + ?Sized)) -> Result<Vec<SchemaProblem>> {
        self.validate_within(value, &mut StepBudget::default())
    }

    /// The same with the steps of a budget.
    pub fn validate_within(
        &self,
        value: &(impl AsValue + ?Sized),
        budget: &mut StepBudget,
    ) -> Result<Vec<SchemaProblem>> {
        self.within_limits()?;
        let value = value.as_value();
        let value = bounded(&value);
        let found = self.validator.get().and_then(|check| check.problems(&value, budget));
        let found = found.map_err(|stop| match stop {
            CheckStop::Spent => Error::from(BudgetSpent),
            CheckStop::Invalid(what) => {
                Error::new(ErrorKind::Invalid, format!("the schema is not valid: {what}"))
            }
        })?;
        let too_deep = matches!(value, Cow::Owned(_)).then(SchemaProblem::too_deep);
        Ok(too_deep.into_iter().chain(found).collect())
    }

    /// Applies a policy to arguments. Fails where they are refused, or where the schema is not valid. Arguments that
    /// are more work than a [`StepBudget`] allows pass as they are, unchecked; [`SchemaPolicy::Reject`] fails on them with
    /// [`ErrorKind::Limit`].
    ///
    /// ```
    /// use callweave::json::schema::{SchemaPolicy, Schema};
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(&json!({"properties": {"n": {"type": "integer", "minimum": 1}}}));
    /// let written = json!({"n": "5"});
    /// assert_eq!(schema.apply(SchemaPolicy::Coerce, &written)?.value, json!({"n": 5}));
    /// assert_eq!(schema.apply(SchemaPolicy::Validate, &written)?.problems[0].path, "$.n");
    /// assert!(schema.apply(SchemaPolicy::Reject, &written).is_err());
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn apply(&self, policy: SchemaPolicy, value: &(impl AsValue + ?Sized)) -> Result<ValidationOutcome> {
        let value = &*value.as_value();
        let as_written = |problems, is_unchecked| {
            let value = bounded(value).into_owned();
            ValidationOutcome { value, changes: Vec::new(), problems, is_unchecked }
        };
        let budget = &mut StepBudget::default();
        let applied = match policy {
            SchemaPolicy::Off => Ok(as_written(Vec::new(), false)),
            SchemaPolicy::Validate => {
                self.validate_within(value, budget).map(|problems| as_written(problems, false))
            }
            SchemaPolicy::Coerce => {
                self.coerce_within(value, CoerceOptions::default(), budget).and_then(|fit| {
                    let problems = self.validate_within(&fit.value, budget)?;
                    Ok(ValidationOutcome {
                        value: fit.value,
                        changes: fit.changes,
                        problems,
                        is_unchecked: false,
                    })
                })
            }
            SchemaPolicy::Reject => match self.validate_within(value, budget)?.first() {
                None => Ok(as_written(Vec::new(), false)),
                Some(problem) => {
                    let detail =
                        format!("arguments do not fit the schema: {}: {}", problem.path, problem.detail);
                    Err(Error::new(ErrorKind::Invalid, detail))
                }
            },
        };
        match applied {
            Err(error) if error.kind() == ErrorKind::Limit => Ok(as_written(Vec::new(), true)),
            applied => applied,
        }
    }
}
