//! Objects with bytes in them.

#[cfg(feature = "stubs")]
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
#[cfg(feature = "stubs")]
use pyo3::{type_hint_identifier, type_hint_union};

/// Pushes of at least this many bytes let other threads run meanwhile; releasing the lock costs more than a shorter push.
pub(crate) const LARGE: usize = 16 << 10;

/// The bytes of a `bytes`, `bytearray`, `memoryview` or any other object with a buffer.
pub(crate) enum BytesLike<'py> {
    /// They cannot change, so they are not copied.
    Bytes(Bound<'py, PyBytes>),
    /// A copy: their owner may change them.
    Copy(Vec<u8>),
}

impl BytesLike<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Copy(bytes) => bytes,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for BytesLike<'py> {
    type Error = PyErr;
    #[cfg(feature = "stubs")]
    const INPUT_TYPE: PyStaticExpr = type_hint_identifier!("callweave._types", "BytesLike");

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.to_owned()));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Self::Copy(bytes.to_vec()));
        }
        // The stable interface of Python 3.10 has no buffers.
        let py = object.py();
        let view = py.import(intern!(py, "builtins"))?.call_method1(intern!(py, "memoryview"), (object,))?;
        let bytes = view.call_method0(intern!(py, "tobytes"))?;
        Ok(Self::Bytes(bytes.cast_into::<PyBytes>()?))
    }
}

/// Text, or bytes in UTF-8.
pub(crate) enum BytesOrText<'py> {
    Bytes(BytesLike<'py>),
    Text(Bound<'py, PyBytes>),
}

impl BytesOrText<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_slice(),
            Self::Text(bytes) => bytes.as_bytes(),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for BytesOrText<'py> {
    type Error = PyErr;
    #[cfg(feature = "stubs")]
    const INPUT_TYPE: PyStaticExpr = type_hint_union!(
        type_hint_identifier!("callweave._types", "BytesLike"),
        type_hint_identifier!("builtins", "str")
    );

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyString>() {
            Ok(text) => Ok(Self::Text(text.encode_utf8()?)),
            Err(_) => object.extract().map(Self::Bytes),
        }
    }
}
