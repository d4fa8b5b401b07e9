//! Members that wait for what they belong to.

use std::borrow::Cow;
use std::ops::Range;

use crate::event::Json;
use crate::json::{Str, escape_into};

/// A member: the path to its object, its key and its value, as they were written.
pub(super) type Member<'a> = (&'static str, &'a str, &'a str);

/// Members that are yet to be told. A later value of the same path replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    entries: Vec<Entry>,
    /// The keys and values of all of them, in one piece of memory that is used again.
    text: String,
    /// How many bytes of it were replaced.
    wasted: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    path: &'static str,
    key: Range<usize>,
    value: Range<usize>,
}

impl Members {
    pub(super) fn set(&mut self, (path, key, value): Member<'_>) {
        let is_there = |entry: &Entry| self.text[entry.key.clone()] == *key && entry.path == path;
        match self.entries.iter().position(is_there) {
            None => {
                let (key, value) = (self.keep(key), self.keep(value));
                self.entries.push(Entry { path, key, value });
            }
            Some(at) if self.text[self.entries[at].value.clone()] == *value => {}
            Some(at) => {
                let value = self.keep(value);
                self.wasted += std::mem::replace(&mut self.entries[at].value, value).len();
                if self.wasted > self.text.len() / 2 {
                    self.compact();
                }
            }
        }
    }

    fn keep(&mut self, piece: &str) -> Range<usize> {
        // Enough for a few of them at once.
        if self.text.capacity() == 0 {
            self.text.reserve(64);
        }
        let start = self.text.len();
        self.text.push_str(piece);
        start..self.text.len()
    }

    /// Lets go what was replaced, so that what waits for long takes no more memory than it has.
    fn compact(&mut self) {
        let text = std::mem::take(&mut self.text);
        for mut entry in std::mem::take(&mut self.entries) {
            entry.key = self.keep(&text[entry.key]);
            entry.value = self.keep(&text[entry.value]);
            self.entries.push(entry);
        }
        self.wasted = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.wasted = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        let text = |range: &Range<usize>| &self.text[range.clone()];
        self.entries.iter().map(move |Entry { path, key, value }| (*path, text(key), text(value)))
    }

    /// One object of all of them, by path; none if there are none.
    pub(super) fn to_json(&self) -> Option<Json<'static>> {
        if self.is_empty() {
            return None;
        }
        // For each member quotes, a colon and a comma.
        let length: usize = self.entries.iter().map(|entry| entry.path.len() + 4).sum();
        let mut text = String::with_capacity(self.text.len() + length + 1);
        for (path, key, value) in self.iter() {
            text.push_str(if text.is_empty() { "{\"" } else { ",\"" });
            escape_into(&path_of(path, key), &mut text);
            text.push_str("\":");
            text.push_str(value);
        }
        text.push('}');
        Some(Json::trusted(text))
    }
}

/// The path of a member: keys joined by dots, dots and backslashes inside a key escaped.
pub(super) fn path_of<'a>(path: &'static str, key: &'a str) -> Cow<'a, str> {
    let is_plain = !key.contains(['.', '\\']);
    match (path, is_plain) {
        ("", true) => Cow::Borrowed(key),
        (_, true) => Cow::Owned(format!("{path}{key}")),
        (_, false) => {
            let key = Str::Escaped(key).to_cow();
            Cow::Owned(format!("{path}{}", key.replace('\\', "\\\\").replace('.', "\\.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_values_replace_and_memory_is_used_again() {
        let mut members = Members::default();
        members.set(("", "a", "1"));
        members.set(("b.", "a.c", "2"));
        members.set(("", "a", "[3]"));
        assert_eq!(members.to_json().expect("two members").as_str(), r#"{"a":[3],"b.a\\.c":2}"#);
        members.clear();
        assert!(members.is_empty() && members.to_json().is_none());
        members.set(("", "d", "4"));
        assert_eq!(members.iter().collect::<Vec<_>>(), [("", "d", "4")]);
        for number in 0..1_000 {
            members.set(("", "e", &number.to_string()));
        }
        assert_eq!(members.iter().collect::<Vec<_>>(), [("", "d", "4"), ("", "e", "999")]);
        assert!(members.text.capacity() < 100);
    }
}
