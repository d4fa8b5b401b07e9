//! Declared tools. `callweave/_tools.py` turns whatever people declare tools with into a list of JSON Schemas.

use callweave::dialect;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::json;

/// Tools that were declared to a model, made ready once.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Tools {
    pub(crate) inner: dialect::Tools,
    json: String,
}

#[pymethods]
impl Tools {
    #[new]
    #[pyo3(signature = (tools=None))]
    fn new(tools: Option<&Bound<'_, PyAny>>, py: Python<'_>) -> PyResult<Self> {
        let Some(tools) = tools else {
            return Ok(Self { inner: dialect::Tools::default(), json: "[]".into() });
        };
        static DECLARE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let json: String = DECLARE.import(py, "callweave._tools", "declare")?.call1((tools,))?.extract()?;
        let inner = dialect::Tools::from_json(&json::parse(py, &json)?);
        Ok(Self { inner, json })
    }

    /// The tools as a list of dictionaries, in the shape of OpenAI's API.
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

/// The tools of an argument.
pub(crate) fn tools(tools: Option<&Bound<'_, PyAny>>) -> PyResult<dialect::Tools> {
    let Some(object) = tools.filter(|tools| !tools.is_none()) else { return Ok(dialect::Tools::default()) };
    match object.cast::<Tools>() {
        Ok(tools) => Ok(tools.get().inner.clone()),
        Err(_) => Ok(Tools::new(Some(object), object.py())?.inner),
    }
}
