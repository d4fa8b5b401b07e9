//! JSON values between Rust and Python: Python's own `json` reads and writes them, so numbers and texts are what Python
//! programs expect.

use callweave::json::Value;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bytes_like::BytesOrText;

/// Reads a JSON text.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

/// The value of a JSON text.
pub(crate) fn parse(py: Python<'_>, text: &str) -> PyResult<Value> {
    text.parse().map_err(|error| crate::error::raise(py, &error))
}

/// An argument that is a JSON value: dictionaries and lists, objects that can be turned into those, or a JSON text.
pub(crate) struct JsonLike(pub(crate) Value);

impl FromPyObject<'_, '_> for JsonLike {
    type Error = PyErr;
    #[cfg(feature = "stubs")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("typing", "Any");

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.extract::<BytesOrText<'_>>() {
            let text = std::str::from_utf8(text.as_slice());
            let text = text.map_err(|error| PyValueError::new_err(error.to_string()))?;
            return parse(object.py(), text).map(Self);
        }
        static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let dumps = DUMPS.import(object.py(), "callweave._json", "dumps")?;
        let text: String = dumps.call1((object,))?.extract()?;
        parse(object.py(), &text).map(Self)
    }
}

/// A value for Python.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    loads(py, &value.to_string())
}
