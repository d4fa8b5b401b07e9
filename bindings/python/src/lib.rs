//! The package `callweave` for Python, over the library: classes and functions here, what is easier said in Python
//! (exceptions, tools, clients) in `python/callweave`.

mod bytes_like;
mod decoder;
mod error;
mod exchange;
mod json;
mod message;
mod program;
mod protocols;
mod tools;

#[pyo3::pymodule]
mod _callweave {
    #[pymodule_export]
    use crate::decoder::{decode, extract};
    #[pymodule_export]
    use crate::exchange::{CallOutcome, Exchange, ExchangeEngine, HttpRequest, Loss, ResponseHead};
    #[pymodule_export]
    use crate::message::{Attachment, Block, Choice, InvalidCall, Message, Notice, ToolCall, Usage};
    #[pymodule_export]
    use crate::program::run_program;
    #[pymodule_export]
    use crate::tools::Tools;

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name of it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
