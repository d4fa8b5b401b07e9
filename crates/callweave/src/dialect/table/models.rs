//! The dialect that a model speaks: the parts of names that the dialects list, found in the name of a model.

use super::super::registry::DialectRegistry;
use super::super::spec::Dialect;

impl DialectRegistry {
    /// The dialect that a model of that name speaks, by the parts of names in [`Dialect::models`].
    ///
    /// The longest part that is found decides; of equally long ones that which begins a word, then that of the first
    /// dialect. Case does not count, nor do `-`, `_` and blanks: `llama3.1:8b` and `meta-llama/Llama-3.1-8B` are one.
    /// A number is found only if it is complete: `granite-3` is not in `granite-34b`.
    ///
    /// ```
    /// use callweave::dialect::DialectRegistry;
    ///
    /// let dialect = |model| DialectRegistry::builtin().for_model(model).map(|dialect| dialect.name.as_str());
    /// assert_eq!(dialect("moonshotai/Kimi-K2-Instruct"), Some("kimi_k2"));
    /// assert_eq!(dialect("phi4-mini:3.8b"), Some("phi4_mini"));
    /// assert_eq!(dialect("nobody's"), None);
    /// ```
    pub fn for_model(&self, model: &str) -> Option<&Dialect> {
        let model = model.to_ascii_lowercase();
        let mut best: Option<((usize, bool), &Dialect)> = None;
        for dialect in self.dialects() {
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
}

/// Characters that do not count in a name.
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
