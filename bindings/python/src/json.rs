//! JSON values between Rust and Python: Python's own `json` reads and writes them, so numbers and texts are what Python
//! programs expect.

use callweave::json::Value;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Reads a JSON text.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

/// The value of a JSON text.
pub(crate) fn parse(py: Python<'_>, text: &str) -> PyResult<Value> {
    text.parse().map_err(|error| crate::error::raise(py, &error))
}
