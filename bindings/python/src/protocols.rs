//! Protocols, dialects and providers by name.

use callweave::dialect::DialectRegistry;
use callweave::protocol::{Protocol, TABLE};
use callweave::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::error::raise;

/// The protocol of that name.
pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<&'static Protocol> {
    Protocol::named(name).ok_or_else(|| {
        let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        let what = format!("no protocol is called {name:?}; there are {}", names.join(", "));
        raise(py, &Error::new(ErrorKind::Unknown, what))
    })
}

/// The protocol of that name, which responses are written in.
pub(crate) fn written(py: Python<'_>, name: &str) -> PyResult<&'static Protocol> {
    let protocol = named(py, name)?;
    if protocol.is_written() {
        return Ok(protocol);
    }
    let what = format!("the protocol {} is only read", protocol.name);
    Err(raise(py, &Error::new(ErrorKind::Unknown, what)))
}

/// The names of the protocols.
///
/// >>> "openai-chat" in protocols()
/// True
#[pyfunction]
pub(crate) fn protocols() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.name).collect()
}

/// The names of the dialects in which models write calls into their text.
///
/// >>> "hermes" in dialects()
/// True
#[pyfunction]
pub(crate) fn dialects() -> Vec<&'static str> {
    DialectRegistry::builtin().dialects().iter().map(|dialect| dialect.name.as_str()).collect()
}
