//! Sentences about unknown names.

pub use callweave::names::nearest;

/// A sentence about an unknown name: the probable intention, and the known names.
pub(crate) fn unknown<'n>(what: &str, word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = format!("there is no {what} {word:?}");
    if let Some(name) = nearest(word, names.iter().copied()) {
        text += &format!("; did you mean {name:?}?");
    }
    match names.is_empty() {
        true => text += "; there is none at all",
        false => text += &format!(" (known: {})", names.join(", ")),
    }
    text
}
