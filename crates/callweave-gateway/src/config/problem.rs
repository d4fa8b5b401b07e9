//! What is wrong with a configuration.

use std::fmt;
use std::path::Path;

/// What is wrong with a configuration, and on which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    file: Option<String>,
    line: Option<usize>,
    what: String,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { file: None, line: None, what: what.into() }
    }

    pub(super) fn of_text(text: &str, error: &toml::de::Error) -> Self {
        let line =
            error.span().map(|span| text.as_bytes()[..span.start].split(|byte| *byte == b'\n').count());
        Self { line, ..Self::new(error.message().trim()) }
    }

    pub(super) fn in_file(self, path: &Path) -> Self {
        Self { file: Some(path.display().to_string()), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}
