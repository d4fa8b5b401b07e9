//! The program `callweave`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the program with the words of a command line, of which the first is the name of the program; returns its exit
/// code.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| callweave_cli::run(words))
}
