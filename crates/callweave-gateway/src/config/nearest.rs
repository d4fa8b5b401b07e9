//! Suggestions for misspelt names.

/// The name that a misspelt one was probably meant to be, in any case and with `-` for `_`.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let word = plain(word);
    // A third of the letters may be wrong, and a prefix is as good as the complete word.
    let most = (word.chars().count() / 3).max(1);
    let begins = |name: &str| word.len() > 2 && (name.starts_with(&word) || word.starts_with(name));
    let distance = |name: &str| {
        let name = plain(name);
        let distance = strsim::damerau_levenshtein(&word, &name);
        if begins(&name) { distance.min(most) } else { distance }
    };
    let near = names.into_iter().filter(|name| !name.is_empty()).map(|name| (distance(name), name));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_near_and_another_word_is_not() {
        let names = ["openai-chat", "anthropic-messages", "ollama", "hermes", "qwen3_coder"];
        for (word, name) in [
            ("opena", Some("openai-chat")),
            ("hermess", Some("hermes")),
            ("Hermes", Some("hermes")),
            ("qwen3-codr", Some("qwen3_coder")),
            ("olama", Some("ollama")),
            ("smtp", None),
            ("llamacpp", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), name, "{word}");
        }
    }
}
