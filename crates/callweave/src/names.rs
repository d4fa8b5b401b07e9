//! Suggestions for misspelt names of dialects, protocols, providers and options.

use crate::{Error, ErrorKind};

/// The name that a misspelt one was probably meant to be, in any case and with `-` for `_`.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let word = plain(word);
    // A third of the letters may be wrong, and a prefix is as good as the complete word.
    let most = (word.chars().count() / 3).max(1);
    let begins = |name: &str| word.len() > 2 && (name.starts_with(&word) || word.starts_with(name));
    let distance = |name: &str| {
        let name = plain(name);
        let distance = edits(&word, &name);
        if begins(&name) { distance.min(most) } else { distance }
    };
    let near = names.into_iter().filter(|name| !name.is_empty()).map(|name| (distance(name), name));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The error for a name that no `kind` of thing has, with the name that was probably meant.
pub(crate) fn unknown<'n>(kind: &str, name: &str, names: impl IntoIterator<Item = &'n str>) -> Error {
    let meant = nearest(name, names).map(|meant| format!("; did you mean {meant:?}?"));
    Error::new(ErrorKind::Unknown, format!("no {kind} is called {name:?}{}", meant.unwrap_or_default()))
}

/// The number of letters to insert, delete, replace or swap with their neighbour that make one word of the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=other.len()).collect());
    let mut previous = None;
    for (at, letter) in one.chars().enumerate() {
        let mut row = vec![at + 1];
        for (to, &known) in other.iter().enumerate() {
            let replaced = last[to] + usize::from(letter != known);
            let mut least = replaced.min(last[to + 1] + 1).min(row[to] + 1);
            if to > 0 && previous == Some(known) && other[to - 1] == letter {
                least = least.min(before[to - 1] + 1);
            }
            row.push(least);
        }
        (before, last) = (last, row);
        previous = Some(letter);
    }
    last[other.len()]
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
            ("hemres", Some("hermes")),
            ("qwen3-codr", Some("qwen3_coder")),
            ("olama", Some("ollama")),
            ("smtp", None),
            ("llamacpp", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), name, "{word}");
        }
    }

    #[test]
    fn edits_are_counted() {
        for (one, other, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "acb", 1),
            ("abcd", "xbc", 2),
            ("é", "e", 1),
        ] {
            assert_eq!((edits(one, other), edits(other, one)), (count, count), "{one} {other}");
        }
    }
}
