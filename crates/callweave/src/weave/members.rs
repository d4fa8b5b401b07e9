//! Members that wait for what they belong to.

use std::borrow::Cow;

use crate::event::Json;
use crate::json::{Str, escape_into};

/// A member: the path to its object, its key and its value, as they were written.
pub(super) type Member<'a> = (&'static str, &'a str, &'a str);

/// Members that are yet to be told. A later value of the same path replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// Entries beyond `count` are kept for their memory.
    entries: Vec<(&'static str, String, String)>,
    count: usize,
}

impl Members {
    pub(super) fn set(&mut self, (path, key, value): Member<'_>) {
        let known = self.entries[..self.count].iter().position(|(own, name, _)| *own == path && name == key);
        let at = known.unwrap_or(self.count);
        if at == self.entries.len() {
            self.entries.push((path, String::new(), String::new()));
        }
        self.count = self.count.max(at + 1);
        let (own, name, text) = &mut self.entries[at];
        *own = path;
        replace(name, key);
        replace(text, value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        self.entries[..self.count].iter().map(|(path, key, value)| (*path, key.as_str(), value.as_str()))
    }

    /// One object of all of them, by path; none if there are none.
    pub(super) fn to_json(&self) -> Option<Json<'static>> {
        if self.is_empty() {
            return None;
        }
        let mut text = String::from("{");
        for (at, (path, key, value)) in self.iter().enumerate() {
            text.push_str(if at == 0 { "\"" } else { ",\"" });
            escape_into(&path_of(path, key), &mut text);
            text.push_str("\":");
            text.push_str(value);
        }
        text.push('}');
        Some(Json::trusted(text))
    }
}

fn replace(own: &mut String, text: &str) {
    own.clear();
    own.push_str(text);
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
    }
}
