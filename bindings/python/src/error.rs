//! The library's errors as exceptions. Their classes are written in Python (`callweave/_errors.py`): the stable interface
//! lets no class of ours extend `Exception`.

use callweave::upstream::UpstreamError;
use callweave::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::json;
use crate::typed::UpstreamException;

/// The exception for an error of the library.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    match error.upstream() {
        Some(reported) => match upstream(py, reported) {
            Ok(UpstreamException(exception)) => PyErr::from_value(exception),
            Err(problem) => problem,
        },
        None => PyErr::from_type(class(py, error.kind()), (error.to_string(), error.offset())),
    }
}

/// The error of an upstream, which can be raised.
pub(crate) fn upstream<'py>(
    py: Python<'py>,
    reported: &UpstreamError<'_>,
) -> PyResult<UpstreamException<'py>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let error = CLASS.import(py, "callweave._errors", "UpstreamError")?.call1((
        &*reported.message,
        reported.class.name(),
        reported.status,
        reported.code.as_deref(),
        reported.retry_after.map(|wait| wait.as_secs_f64()),
        reported.request_id.as_deref(),
        json::loads(py, reported.raw.as_str())?,
        reported.is_retryable(),
    ))?;
    Ok(UpstreamException(error))
}

fn class(py: Python<'_>, kind: ErrorKind) -> Bound<'_, PyType> {
    static CLASSES: [PyOnceLock<Py<PyType>>; 6] = [const { PyOnceLock::new() }; 6];
    let (at, name) = match kind {
        ErrorKind::Limit => (0, "LimitError"),
        ErrorKind::Framing => (1, "FramingError"),
        ErrorKind::Json => (2, "JSONError"),
        ErrorKind::Unknown => (3, "UnknownError"),
        ErrorKind::Invalid => (4, "InvalidError"),
        _ => (5, "CallweaveError"),
    };
    let class = CLASSES[at].import(py, "callweave._errors", name);
    class.expect("the package has its own module").clone()
}
