//! The dialects that can be asked for by name or by model.

use std::sync::LazyLock;

use super::extractor::ExtractOptions;
use super::spec::Dialect;
use super::table;
use crate::error::{Error, ErrorKind, Result};

/// A set of dialects: the built-in ones, and those that a user adds.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    dialects: Vec<Dialect>,
}

impl Registry {
    /// The built-in dialects.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Registry> = LazyLock::new(|| Registry { dialects: table::all() });
        &BUILTIN
    }

    /// Adds a dialect. One of the same name is replaced; a new one is found before older ones. One that
    /// lacks something is refused, see [`Dialect::check`].
    pub fn add(&mut self, dialect: Dialect) -> Result<&mut Self> {
        dialect.check()?;
        self.dialects.retain(|other| other.name != dialect.name);
        self.dialects.insert(0, dialect);
        Ok(self)
    }

    /// All dialects.
    pub fn dialects(&self) -> &[Dialect] {
        &self.dialects
    }

    /// The dialect of that name or alias.
    pub fn find(&self, name: &str) -> Option<&Dialect> {
        let by_name = self.dialects.iter().find(|dialect| dialect.name == name);
        by_name.or_else(|| {
            self.dialects.iter().find(|dialect| dialect.aliases.iter().any(|alias| alias == name))
        })
    }

    /// ExtractOptions for reading the dialect of that name; `auto` lets the text decide among all of them.
    pub fn options(&self, name: &str) -> Result<ExtractOptions> {
        if name == "auto" {
            return Ok(ExtractOptions::with_dialects(self.dialects.clone()));
        }
        match self.find(name) {
            Some(dialect) => Ok(ExtractOptions::with_dialects(vec![dialect.clone()])),
            None => Err(Error::new(ErrorKind::Unknown, format!("no dialect is called {name:?}"))),
        }
    }
}
