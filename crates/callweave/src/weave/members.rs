//! Extra fields that wait for the block, item or response that they belong to.

use std::borrow::Cow;
use std::ops::Range;

use crate::event::JsonText;
use crate::fingerprint::keyed_digest;
use crate::json::{Str, escape_into, has_either};

/// An extra field: the path to its object, its key and its value, as they were written.
pub(super) type ExtraMember<'a> = (&'static str, &'a str, &'a str);

/// Extra fields that are yet to be emitted. A later value of the same path replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingExtra {
    entries: Vec<ExtraEntry>,
    /// An object of all of them by path, which is not closed yet: mostly they are emitted in this form.
    text: String,
    /// The number of replaced bytes in it.
    wasted: usize,
}

#[derive(Clone, Debug)]
struct ExtraEntry {
    /// The offset in the text at which it begins.
    start: usize,
    path: &'static str,
    key: ExtraKey,
    /// The hash of the key.
    digest: u64,
    value: Range<usize>,
}

/// A key as it was written.
#[derive(Clone, Debug)]
enum ExtraKey {
    /// The range of the text that is the key.
    Plain(Range<usize>),
    /// The key itself: in the text it is escaped.
    Odd(Box<str>),
}

impl PendingExtra {
    pub(super) fn set(&mut self, member: ExtraMember<'_>) {
        let (path, key, value) = member;
        let digest = keyed_digest(key);
        let known = self.entries.iter().position(|entry| entry.digest == digest && entry.path == path);
        let Some(at) = known else {
            let entry = self.append(member, digest);
            return self.entries.push(entry);
        };
        if self.text[self.entries[at].value.clone()] == *value {
            return;
        }
        let entry = self.append(member, digest);
        let old = std::mem::replace(&mut self.entries[at], entry);
        self.wasted += old.value.end - old.start;
        if self.wasted > self.text.len() / 2 {
            self.compact();
        }
    }

    fn append(&mut self, (path, key, value): ExtraMember<'_>, digest: u64) -> ExtraEntry {
        // The key's quotes, a colon and a comma; and enough for a few of them at once.
        let length = path.len() + key.len() + value.len() + 4;
        if self.text.capacity() - self.text.len() < length {
            self.text.reserve(length.max(64).max(2 * self.text.len()));
        }
        let begin = self.text.len();
        self.text.push_str(if self.text.is_empty() { "{\"" } else { ",\"" });
        let key = if is_plain(key) {
            if !path.is_empty() {
                self.text.push_str(path);
            }
            let start = self.text.len();
            self.text.push_str(key);
            ExtraKey::Plain(start..self.text.len())
        } else {
            escape_into(&path_of(path, key), &mut self.text);
            ExtraKey::Odd(key.into())
        };
        self.text.push_str("\":");
        let start = self.text.len();
        self.text.push_str(value);
        ExtraEntry { start: begin, path, key, digest, value: start..self.text.len() }
    }

    /// Frees the replaced text, so that fields that wait for long take no more memory than they need.
    fn compact(&mut self) {
        let old = std::mem::take(self);
        for (member, entry) in old.iter().zip(&old.entries) {
            let entry = self.append(member, entry.digest);
            self.entries.push(entry);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.wasted = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ExtraMember<'_>> {
        self.entries.iter().map(|ExtraEntry { path, key, value, .. }| {
            let key = match key {
                ExtraKey::Plain(range) => &self.text[range.clone()],
                ExtraKey::Odd(key) => key,
            };
            (*path, key, &self.text[value.clone()])
        })
    }

    /// The path of each, the hash of its key, and its value.
    pub(super) fn digests(&self) -> impl ExactSizeIterator<Item = (&'static str, u64, &str)> {
        self.entries.iter().map(|entry| (entry.path, entry.digest, &self.text[entry.value.clone()]))
    }

    /// Takes one object of all of them, by path; none if there are none.
    pub(super) fn take(&mut self) -> Option<JsonText<'static>> {
        if self.is_empty() {
            return None;
        }
        if self.wasted > 0 {
            self.compact();
        }
        self.entries.clear();
        self.text.push('}');
        self.text.shrink_to_fit();
        Some(JsonText::trusted(std::mem::take(&mut self.text)))
    }
}

/// Whether a key stands in a path as it was written.
fn is_plain(key: &str) -> bool {
    !has_either(key.as_bytes(), b'.', b'\\')
}

/// The path of a member: keys joined by dots, dots and backslashes inside a key escaped.
pub(super) fn path_of<'a>(path: &'static str, key: &'a str) -> Cow<'a, str> {
    match (path, is_plain(key)) {
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
        let mut members = PendingExtra::default();
        members.set(("", "a", "1"));
        members.set(("b.", "a.c", "2"));
        members.set(("", "a", "[3]"));
        members.set(("", "q\\\"", "{}"));
        let all = [("", "a", "[3]"), ("b.", "a.c", "2"), ("", "q\\\"", "{}")];
        assert_eq!(members.iter().collect::<Vec<_>>(), all);
        assert_eq!(members.take().expect("members").as_str(), r#"{"a":[3],"b.a\\.c":2,"q\"":{}}"#);
        assert!(members.is_empty() && members.take().is_none());
        members.set(("", "d", "4"));
        assert_eq!(members.iter().collect::<Vec<_>>(), [("", "d", "4")]);
        for number in 0..1_000 {
            members.set(("", "e", &number.to_string()));
        }
        assert_eq!(members.iter().collect::<Vec<_>>(), [("", "d", "4"), ("", "e", "999")]);
        assert!(members.text.capacity() < 200, "{}", members.text.capacity());
        assert_eq!(members.take().expect("members").as_str(), r#"{"d":4,"e":999}"#);
        // For any length of path and key beside the value.
        for (path, key) in
            [("", "a"), ("a.rather.long.path.", "x"), ("", "\\\\\\\\\\\\\\\\"), ("p.", "a.b.c.d.e.f")]
        {
            for number in 0..1_000 {
                members.set((path, key, if number % 2 == 0 { "0" } else { "1" }));
            }
            assert!(members.text.len() < 200, "{path}{key}: {}", members.text.len());
            assert_eq!(members.iter().collect::<Vec<_>>(), [(path, key, "1")]);
            members.clear();
        }
        members.set(("", "f", "5"));
        members.clear();
        assert!(members.is_empty() && members.take().is_none());
    }
}
