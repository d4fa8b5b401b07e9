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

    /// The dialect that a model of that name speaks, by the parts of names in [`Dialect::models`].
    ///
    /// The longest part that is found decides; of equally long ones that which begins a word, then that of the first
    /// dialect. Case does not count, nor do `-`, `_` and blanks: `llama3.1:8b` and `meta-llama/Llama-3.1-8B` are one.
    /// A number is found only whole: `granite-3` is not in `granite-34b`.
    ///
    /// ```
    /// use callweave::dialect::Registry;
    ///
    /// let dialect = |model| Registry::builtin().for_model(model).map(|dialect| dialect.name.as_str());
    /// assert_eq!(dialect("moonshotai/Kimi-K2-Instruct"), Some("kimi_k2"));
    /// assert_eq!(dialect("phi4-mini:3.8b"), Some("phi4_mini"));
    /// assert_eq!(dialect("nobody's"), None);
    /// ```
    pub fn for_model(&self, model: &str) -> Option<&Dialect> {
        let model = model.to_ascii_lowercase();
        let mut best: Option<((usize, bool), &Dialect)> = None;
        for dialect in &self.dialects {
            for part in &dialect.models {
                let part = part.to_ascii_lowercase();
                let Some(begins_word) = find(&model, &part) else { continue };
                let rank = (letters(&part).count(), begins_word);
                if best.is_none_or(|(other, _)| rank > other) {
                    best = Some((rank, dialect));
                }
            }
        }
        best.map(|(_, dialect)| dialect)
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

/// What does not count in a name.
const SEPARATORS: [char; 3] = ['-', '_', ' '];

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|letter| !SEPARATORS.contains(letter))
}

/// Whether a part is found in the name of a model, and then whether it begins a word there.
fn find(model: &str, part: &str) -> Option<bool> {
    let ends_in = |text: &str| text.ends_with(|last: char| last.is_ascii_digit());
    let goes_on = |text: &str| text.starts_with(|next: char| next.is_ascii_digit());
    let mut found = None;
    for (at, _) in model.char_indices() {
        let (before, mut rest) = model.split_at(at);
        let is_here = letters(part).all(|letter| {
            rest.trim_start_matches(SEPARATORS).strip_prefix(letter).map(|after| rest = after).is_some()
        });
        if is_here && !(ends_in(part) && goes_on(rest)) {
            let begins_word = !before.ends_with(char::is_alphanumeric);
            found = Some(begins_word || found == Some(true));
        }
    }
    found
}
