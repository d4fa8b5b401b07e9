//! Full validation, and what follows from it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::{Change, FitOptions, Problem, Schema};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{AsValue, Number, Value, bounded};
use jsonschema::Validator;

/// What to do with arguments that come with a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nothing: they pass unseen.
    Off,
    /// Say what is wrong with them and let them pass.
    Validate,
    /// Fit them, and say what is wrong with the result.
    #[default]
    Coerce,
    /// Refuse them if anything is wrong with them as written.
    Reject,
}

/// What became of arguments under a [`Policy`].
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The arguments: as they were written, unless there are changes.
    pub value: Value,
    /// Every change that was made.
    pub changes: Vec<Change>,
    /// What is wrong with the value.
    pub problems: Vec<Problem>,
}

/// The validator, made when it is first needed.
#[derive(Clone)]
pub(super) struct Lazy {
    schema: Arc<Value>,
    validator: Arc<OnceLock<std::result::Result<Validator, String>>>,
}

impl Lazy {
    pub(super) fn new(schema: &Value) -> Self {
        Self { schema: Arc::new(schema.clone()), validator: Arc::default() }
    }

    fn get(&self) -> Result<&Validator> {
        let make = || jsonschema::validator_for(&standard(&self.schema)).map_err(|error| error.to_string());
        let validator = self.validator.get_or_init(make).as_ref();
        validator.map_err(|error| Error::new(ErrorKind::Invalid, format!("the schema is not valid: {error}")))
    }
}

/// The schema in the words of JSON Schema: `nullable` of OpenAPI becomes a type, and types that are
/// written in capitals are not.
fn standard(schema: &Value) -> serde_json::Value {
    use serde_json::Value;

    let mut schema = plain(schema);
    let mut open = vec![&mut schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(elements) => open.extend(elements),
            Value::Object(words) => {
                let is_nullable = words.get("nullable") == Some(&Value::Bool(true));
                if let Some(Value::String(name)) = words.get_mut("type") {
                    name.make_ascii_lowercase();
                    if is_nullable {
                        let name = std::mem::take(name);
                        words.insert("type".to_owned(), serde_json::json!([name, "null"]));
                    }
                }
                if let Some(Value::Array(choices)) = words.get_mut("enum")
                    && is_nullable
                    && !choices.contains(&Value::Null)
                {
                    choices.push(Value::Null);
                }
                // What stands under these words is data.
                let is_data =
                    |word: &str| matches!(word, "enum" | "const" | "default" | "examples" | "example");
                open.extend(words.iter_mut().filter(|(word, _)| !is_data(word)).map(|(_, value)| value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    schema
}

/// The value as the validator takes it. Its numbers are those of `serde_json`: an integer beyond 64 bits is
/// the nearest float, so that two which differ only behind its digits are the same to `const`, `enum` and
/// `uniqueItems`, and what is beyond all floats is the last of them.
fn plain(value: &Value) -> serde_json::Value {
    let last = |number: &Number| match number.as_str().starts_with('-') {
        true => f64::MIN.into(),
        false => f64::MAX.into(),
    };
    value.to_serde_json(&last)
}

impl std::fmt::Debug for Lazy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.schema.fmt(f)
    }
}

impl Schema {
    /// What is wrong with a value by the whole of JSON Schema; nothing if it is valid. Fails where the
    /// schema itself is not valid. Integers beyond 64 bits are judged by the float that is nearest.
    pub fn validate(&self, value: &(impl AsValue + ?Sized)) -> Result<Vec<Problem>> {
        let value = value.as_value();
        let value = bounded(&value);
        if self.graph.longest_chain.saturating_mul(depth(&value)) > MAX_CHAIN {
            let detail = "the references of the schema are too long a chain to be followed".to_owned();
            return Ok(vec![Problem { path: "$".to_owned(), detail }]);
        }
        let problem = |error: jsonschema::ValidationError<'_>| {
            let path = path_of(&error.instance_path().to_string(), &value);
            Problem { path, detail: error.masked().to_string() }
        };
        let (plain, validator) = (plain(&value), self.validator.get()?);
        // Most are valid, and to know that takes less than to collect nothing.
        if matches!(value, Cow::Borrowed(_)) && validator.is_valid(&plain) {
            return Ok(Vec::new());
        }
        let found = validator.iter_errors(&plain).map(problem);
        let too_deep = matches!(value, Cow::Owned(_)).then(Problem::too_deep);
        Ok(too_deep.into_iter().chain(found).collect())
    }

    /// Applies a policy to arguments. Fails where they are refused, or where the schema is not valid.
    ///
    /// ```
    /// use callweave::json::schema::{Policy, Schema};
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(&json!({"properties": {"n": {"type": "integer", "minimum": 1}}}));
    /// let written = json!({"n": "5"});
    /// assert_eq!(schema.apply(Policy::Coerce, &written)?.value, json!({"n": 5}));
    /// assert_eq!(schema.apply(Policy::Validate, &written)?.problems[0].path, "$.n");
    /// assert!(schema.apply(Policy::Reject, &written).is_err());
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn apply(&self, policy: Policy, value: &(impl AsValue + ?Sized)) -> Result<Outcome> {
        let value = &*value.as_value();
        let as_written =
            |problems| Outcome { value: bounded(value).into_owned(), changes: Vec::new(), problems };
        match policy {
            Policy::Off => Ok(as_written(Vec::new())),
            Policy::Validate => Ok(as_written(self.validate(value)?)),
            Policy::Coerce => {
                let fit = self.coerce_with(value, FitOptions::default());
                let problems = self.validate(&fit.value)?;
                Ok(Outcome { value: fit.value, changes: fit.changes, problems })
            }
            Policy::Reject => match self.validate(value)?.first() {
                None => Ok(as_written(Vec::new())),
                Some(problem) => {
                    let detail =
                        format!("arguments do not fit the schema: {}: {}", problem.path, problem.detail);
                    Err(Error::new(ErrorKind::Invalid, detail))
                }
            },
        }
    }
}

/// How many schemas the validator may be looking at, one because of the other: it recurses over them.
const MAX_CHAIN: usize = 1_500;

/// How many levels a value has.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => open.extend(members.values().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    deepest
}

/// A JSON pointer into `value` as a path like `$.items[2].name`.
fn path_of(pointer: &str, value: &Value) -> String {
    let mut path = String::from("$");
    let mut at = Some(value);
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Array(_)) = at {
            path.push_str(&format!("[{step}]"));
            at = step.parse().ok().and_then(|index: usize| at?.get(index));
        } else {
            super::push_key(&mut path, &step);
            at = at.and_then(|value| value.get(&step));
        }
    }
    path
}
