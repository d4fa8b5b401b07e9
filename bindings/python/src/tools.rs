//! Declared tools. `callweave/_tools.py` turns whatever people declare tools with into a list of JSON Schemas.

use callweave::dialect;
#[cfg(feature = "stubs")]
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
#[cfg(feature = "stubs")]
use pyo3::type_hint_identifier;

use crate::json;

/// Tools that were declared to a model, made ready once: pydantic models, dataclasses, typed dictionaries, functions, or
/// JSON Schemas in the shape of any provider.
///
/// >>> tools = Tools([{"name": "look", "parameters": {"type": "object"}}])
/// >>> "look" in tools
/// True
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Tools {
    inner: dialect::Tools,
    json: String,
}

#[pymethods]
impl Tools {
    #[new]
    fn new(tools: ToolsLike) -> Self {
        Self { inner: tools.inner, json: tools.json }
    }

    /// The tools as a list of dictionaries.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loads(py, &self.json)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.inner.contains(name)
    }

    fn __bool__(&self) -> bool {
        !self.inner.is_empty()
    }
}

/// Tools as an argument: ready ones, or anything that they are made of.
pub(crate) struct ToolsLike {
    inner: dialect::Tools,
    pub(crate) json: String,
}

impl ToolsLike {
    /// The tools of an argument.
    pub(crate) fn ready(tools: Option<Self>) -> dialect::Tools {
        tools.map(|tools| tools.inner).unwrap_or_default()
    }
}

impl FromPyObject<'_, '_> for ToolsLike {
    type Error = PyErr;
    #[cfg(feature = "stubs")]
    const INPUT_TYPE: PyStaticExpr = type_hint_identifier!("callweave._types", "ToolsLike");

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(tools) = object.cast::<Tools>() {
            let Tools { inner, json } = tools.get();
            return Ok(Self { inner: inner.clone(), json: json.clone() });
        }
        static DECLARE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let declare = DECLARE.import(object.py(), "callweave._tools", "declare")?;
        let json: String = declare.call1((object,))?.extract()?;
        let inner = dialect::Tools::from_json(&json::parse(object.py(), &json)?);
        Ok(Self { inner, json })
    }
}
