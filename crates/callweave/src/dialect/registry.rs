//! The dialects that can be asked for by name or by model.

use std::sync::{Arc, LazyLock, OnceLock};

use super::extractor::ExtractOptions;
use super::spec::Dialect;
use super::table;
use crate::error::{Error, Result};
use crate::names;

/// A set of dialects: the built-in ones, and those that a user adds.
#[derive(Clone, Debug, Default)]
pub struct DialectRegistry {
    dialects: Vec<Dialect>,
    /// How each of them alone is read. Making a dialect ready takes far longer than reading a response in it, and
    /// options share the result with all their clones.
    each: Vec<OnceLock<ExtractOptions>>,
    /// How all of them are read.
    auto: OnceLock<ExtractOptions>,
    /// All of them, for those that are read with one of them.
    all: Arc<[Dialect]>,
}

impl DialectRegistry {
    /// The built-in dialects.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<DialectRegistry> = LazyLock::new(|| DialectRegistry::of(table::all()));
        &BUILTIN
    }

    fn of(dialects: Vec<Dialect>) -> Self {
        let each = vec![OnceLock::new(); dialects.len()];
        let all = dialects.as_slice().into();
        Self { dialects, each, auto: OnceLock::new(), all }
    }

    /// Adds a dialect. One of the same name is replaced; a new one is found before older ones. One that
    /// lacks something is refused, see [`Dialect::check`].
    pub fn add(&mut self, dialect: Dialect) -> Result<&mut Self> {
        dialect.check()?;
        let others = std::mem::take(&mut self.dialects).into_iter();
        let others: Vec<_> = others.filter(|other| other.name != dialect.name).collect();
        *self = Self::of([dialect].into_iter().chain(others).collect());
        Ok(self)
    }

    /// All dialects.
    pub fn dialects(&self) -> &[Dialect] {
        &self.dialects
    }

    /// The dialect of that name or alias.
    pub fn find(&self, name: &str) -> Option<&Dialect> {
        self.position(name).map(|at| &self.dialects[at])
    }

    fn position(&self, name: &str) -> Option<usize> {
        let by_name = self.dialects.iter().position(|dialect| dialect.name == name);
        by_name.or_else(|| {
            self.dialects.iter().position(|dialect| dialect.aliases.iter().any(|alias| alias == name))
        })
    }

    /// The error for a name that no dialect has.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        let known = self.dialects.iter().flat_map(|dialect| dialect.aliases.iter().chain([&dialect.name]));
        names::unknown("dialect", name, known.map(String::as_str).chain(["auto"]))
    }

    /// Options for reading the dialect of that name; `auto` lets the text decide among all of them. Naming one only
    /// adds: calls that other dialects mark beyond doubt are found as well.
    pub fn options(&self, name: &str) -> Result<ExtractOptions> {
        let (ready, dialects) = match self.position(name) {
            _ if name == "auto" => (&self.auto, &self.dialects[..]),
            Some(at) => (&self.each[at], &self.dialects[at..=at]),
            None => return Err(self.unknown(name)),
        };
        let all = if name == "auto" { Arc::default() } else { Arc::clone(&self.all) };
        Ok(ready.get_or_init(|| ExtractOptions::with_dialects(dialects.to_vec()).among(all)).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_made_ready_once() {
        for name in ["auto", "hermes"] {
            let [one, other] = [0, 1].map(|_| ExtractOptions::new(name).expect("it is built in"));
            assert!(one.shares_plan(&other), "{name}");
        }
    }

    #[test]
    fn what_is_added_is_read() {
        let mut registry = DialectRegistry::builtin().clone();
        assert_eq!(registry.options("auto").expect("all").dialects().len(), registry.dialects().len());
        let mut own = registry.find("hermes").expect("it is built in").clone();
        own.markup.push("<own>".to_owned());
        registry.add(own.clone()).expect("it lacks nothing");
        for name in ["auto", "hermes"] {
            let options = registry.options(name).expect("it is there");
            assert_eq!(options.dialects()[0].markup, own.markup, "{name}");
        }
    }
}
