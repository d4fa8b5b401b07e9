//! JSON that models wrote: repaired, coerced to a schema, read while it grows.

use callweave::json::partial::{PartialValue, UnfinishedValues};
use callweave::json::repair as repairing;
use callweave::json::repair::{ChangeClass, RepairOptions, RepairVerdict};
use callweave::json::schema::{self, Schema};
use callweave::json::{ScanStatus, Value};
use callweave::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::error::raise;
use crate::json::{self, JsonLike};
use crate::typed;

/// The outcome of repairing a text.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct RepairedJson {
    verdict: RepairVerdict,
    text: String,
    closed: Option<String>,
    changes: Vec<repairing::RepairChange>,
    input: String,
}

impl RepairedJson {
    fn hopeless(&self) -> Option<(repairing::HopelessReason, usize)> {
        match self.verdict {
            RepairVerdict::Hopeless { why, at } => Some((why, at)),
            RepairVerdict::Valid | RepairVerdict::Repaired | RepairVerdict::Incomplete => None,
        }
    }
}

#[pymethods]
impl RepairedJson {
    /// ``valid``, ``repaired``, ``incomplete`` (it was truncated) or ``hopeless``.
    #[getter]
    fn verdict(&self) -> typed::RepairVerdict {
        let verdict = match self.verdict {
            RepairVerdict::Valid => "valid",
            RepairVerdict::Repaired => "repaired",
            RepairVerdict::Incomplete => "incomplete",
            RepairVerdict::Hopeless { .. } => "hopeless",
        };
        typed::RepairVerdict(verdict.to_owned())
    }

    /// Valid JSON; empty if the text is hopeless, or truncated and not to be closed.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The JSON text, with a truncated document closed where it ends; ``None`` if the text is hopeless.
    #[getter]
    fn closed(&self) -> Option<&str> {
        self.closed.as_deref()
    }

    /// The reason why the text is hopeless, if it is.
    #[getter]
    fn problem(&self) -> Option<String> {
        self.hopeless().map(|(why, _)| why.to_string())
    }

    /// The byte of the input at which that was noticed.
    #[getter]
    fn offset(&self) -> Option<usize> {
        self.hopeless().map(|(_, at)| at)
    }

    /// The changes, in the order of the input.
    #[getter]
    fn changes(&self) -> Vec<RepairChange> {
        let replaced =
            |change: &repairing::RepairChange| self.input.get(change.at..change.end).unwrap_or_default();
        let changes = self.changes.iter();
        changes
            .map(|change| RepairChange { change: *change, replaced: replaced(change).to_owned() })
            .collect()
    }

    /// The value. Raises ``JSONError`` if the text is hopeless, or truncated and not to be closed.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let problem = match self.hopeless() {
            Some((why, at)) => Error::new(ErrorKind::Json, why.to_string()).at(at as u64),
            _ if self.text.is_empty() => Error::new(ErrorKind::Json, "the text is truncated"),
            _ => return json::loads(py, &self.text),
        };
        Err(raise(py, &problem))
    }

    fn __repr__(&self) -> String {
        format!("RepairedJson({}, {:?}, changes={})", self.verdict().0, self.text, self.changes.len())
    }
}

/// One difference of a repaired text from the input.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct RepairChange {
    change: repairing::RepairChange,
    replaced: String,
}

#[pymethods]
impl RepairChange {
    /// The byte of the input at which it begins.
    #[getter]
    fn at(&self) -> usize {
        self.change.at
    }

    /// The byte of the input before which it ends.
    #[getter]
    fn end(&self) -> usize {
        self.change.end
    }

    /// The text that was replaced.
    #[getter]
    fn replaced(&self) -> &str {
        &self.replaced
    }

    /// The text that replaces it.
    #[getter]
    fn replacement(&self) -> &'static str {
        self.change.replacement
    }

    /// The kind of change, such as ``quote``.
    #[getter]
    fn kind(&self) -> &'static str {
        self.change.kind.label()
    }

    /// The risk of the change: ``lossless``, ``structural`` or a ``guess``.
    #[getter]
    fn change_class(&self) -> typed::ChangeClass {
        let class = match self.change.kind.class() {
            ChangeClass::Lossless => "lossless",
            ChangeClass::Structural => "structural",
            ChangeClass::Guess => "guess",
        };
        typed::ChangeClass(class.to_owned())
    }

    fn __repr__(&self) -> String {
        format!(
            "RepairChange({} at {}: {:?} -> {:?})",
            self.kind(),
            self.at(),
            self.replaced,
            self.replacement()
        )
    }
}

/// Repairs JSON that is not quite JSON. The result has the text, the value, and every change.
///
/// >>> repair("{'at': 'sky', n: 7,}").value
/// {'at': 'sky', 'n': 7}
/// >>> repair('{"at": "sk').verdict
/// 'incomplete'
/// >>> repair('{"at": "sk', close_truncated=True).value
/// {'at': 'sk'}
#[pyfunction]
#[pyo3(signature = (text, *, close_truncated=false, prefix=false, drop_unfinished_strings=false, allow_prose=true, allow=None))]
pub(crate) fn repair(
    py: Python<'_>,
    text: &str,
    close_truncated: bool,
    prefix: bool,
    drop_unfinished_strings: bool,
    allow_prose: bool,
    allow: Option<&str>,
) -> PyResult<RepairedJson> {
    let mut options = RepairOptions::new();
    options = if close_truncated { options.close_truncated() } else { options };
    options = if prefix { options.prefix() } else { options };
    options = if drop_unfinished_strings { options.drop_unfinished_strings() } else { options };
    options = if allow_prose { options } else { options.without_prose() };
    if let Some(class) = allow {
        options = options.allow(match class {
            "lossless" => ChangeClass::Lossless,
            "structural" => ChangeClass::Structural,
            "guess" => ChangeClass::Guess,
            other => {
                let what = format!("allow cannot be {other:?}: it is one of lossless, structural, guess");
                return Err(raise(py, &Error::new(ErrorKind::Invalid, what)));
            }
        });
    }
    let repaired = options.repair(text);
    let (verdict, input) = (repaired.verdict, text.to_owned());
    let closed = repaired.closed().map(str::to_owned);
    Ok(RepairedJson { verdict, closed, text: repaired.text.into_owned(), changes: repaired.changes, input })
}

/// The outcome of coercing a value to a schema.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct CoercedValue(schema::CoercedValue);

#[pymethods]
impl CoercedValue {
    /// The value, coerced as far as possible.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.0.value)
    }

    /// Every change that was made.
    #[getter]
    fn changes(&self) -> Vec<CoercionChange> {
        self.0.changes.iter().cloned().map(CoercionChange).collect()
    }

    /// The problems that could not be coerced away, each with its path; the values stay as they were.
    #[getter]
    fn problems(&self) -> Vec<(&str, &str)> {
        self.0.problems.iter().map(|problem| (problem.path.as_str(), problem.detail.as_str())).collect()
    }

    fn __repr__(&self) -> String {
        let schema::CoercedValue { value, changes, problems, .. } = &self.0;
        format!("CoercedValue({value}, changes={}, problems={})", changes.len(), problems.len())
    }
}

/// One change of a coerced value.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct CoercionChange(schema::CoercionChange);

#[pymethods]
impl CoercionChange {
    /// The path in the value as it was, like ``$.items[2].name``.
    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }

    /// The kind of change, such as ``number`` or ``renamed``.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.label()
    }

    /// The value before the change.
    #[getter]
    fn before<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.0.from)
    }

    /// The value after the change.
    #[getter]
    fn after<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.0.to)
    }

    fn __repr__(&self) -> String {
        format!("CoercionChange({} at {})", self.0.kind.label(), self.0.path)
    }
}

/// Coerces a value to a JSON Schema, a pydantic model, a dataclass or a typed dictionary: ``"5"`` becomes 5 where a number
/// is wanted. A ``str`` is taken as text of a model: JSON, broken JSON, JSON in prose, or a sentence that names the value.
///
/// >>> coerce({"times": "5"}, {"properties": {"times": {"type": "integer"}}}).value
/// {'times': 5}
/// >>> coerce("The answer is **True**.", {"type": "boolean"}).value
/// True
#[pyfunction]
pub(crate) fn coerce(value: &Bound<'_, PyAny>, schema: SchemaLike) -> PyResult<CoercedValue> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(CoercedValue(schema.0.read(&text)));
    }
    let JsonLike(value) = value.extract()?;
    Ok(CoercedValue(schema.0.coerce(&value)))
}

/// A schema as an argument.
pub(crate) struct SchemaLike(Schema);

impl FromPyObject<'_, '_> for SchemaLike {
    type Error = PyErr;
    #[cfg(feature = "stubs")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
        pyo3::type_hint_identifier!("callweave._types", "SchemaLike");

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        static SCHEMA: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
        let schema = SCHEMA.import(object.py(), "callweave._tools", "schema_of")?.call1((object,))?;
        let JsonLike(schema) = schema.extract()?;
        Ok(Self(Schema::new(&schema)))
    }
}

/// A JSON value that grows with its text: the best value so far at any moment.
///
/// >>> value = PartialJson()
/// >>> value.push('{"city": "Os')
/// {'city': 'Os'}
/// >>> value.push('lo", "days": 1')
/// {'city': 'Oslo'}
/// >>> value.push('4}')
/// {'city': 'Oslo', 'days': 14}
#[pyclass(module = "callweave")]
pub(crate) struct PartialJson(PartialValue);

#[pymethods]
impl PartialJson {
    #[new]
    #[pyo3(signature = (*, unfinished="strings"))]
    fn new(py: Python<'_>, unfinished: &str) -> PyResult<Self> {
        Ok(Self(PartialValue::new(unfinished_values(py, unfinished)?)))
    }

    /// Takes the next text, and returns the value so far; ``None`` before there is something to show.
    fn push<'py>(&mut self, py: Python<'py>, text: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.push(text);
        self.value(py)
    }

    /// Ends the text, which completes a number that stands alone; returns the value.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.finish();
        self.value(py)
    }

    /// The value so far; ``None`` before there is something to show.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.value().map(|value| json::to_python(py, value)).transpose()
    }

    /// Whether the value is complete.
    #[getter]
    fn is_complete(&self) -> bool {
        self.0.status() == ScanStatus::Complete
    }
}

fn unfinished_values(py: Python<'_>, name: &str) -> PyResult<UnfinishedValues> {
    match name {
        "hidden" => Ok(UnfinishedValues::Hidden),
        "strings" => Ok(UnfinishedValues::Strings),
        "strings_and_numbers" => Ok(UnfinishedValues::StringsAndNumbers),
        other => {
            let what =
                format!("unfinished cannot be {other:?}: it is one of hidden, strings, strings_and_numbers");
            Err(raise(py, &Error::new(ErrorKind::Invalid, what)))
        }
    }
}

/// The value of a JSON text that has not come to its end; ``None`` before there is something to show.
///
/// >>> partial('{"city": "Oslo", "days": [1, 2')
/// {'city': 'Oslo', 'days': [1]}
#[pyfunction]
#[pyo3(signature = (text, *, unfinished="strings"))]
pub(crate) fn partial<'py>(
    py: Python<'py>,
    text: &str,
    unfinished: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut value = PartialValue::new(unfinished_values(py, unfinished)?);
    value.push(text);
    value.into_value().map(|value: Value| json::to_python(py, &value)).transpose()
}
