//! JSON written member by member, with commas added automatically.

use super::{Str, compact_into, escape_into, with_spare_tape};
use crate::event::JsonText;

/// Appends JSON to a text. The last byte written shows whether a comma is due.
pub(crate) struct JsonWriter<'o>(pub(crate) &'o mut String);

impl JsonWriter<'_> {
    /// Begins an object as the next value.
    pub(crate) fn object(&mut self) {
        self.comma();
        self.0.push('{');
    }

    /// Ends the object.
    pub(crate) fn end_object(&mut self) {
        self.0.push('}');
    }

    /// Begins a list as the next value.
    pub(crate) fn list(&mut self) {
        self.comma();
        self.0.push('[');
    }

    /// Ends the list.
    pub(crate) fn end_list(&mut self) {
        self.0.push(']');
    }

    /// Writes an object as the next value.
    pub(crate) fn in_object(&mut self, members: impl FnOnce(&mut Self)) {
        self.object();
        members(self);
        self.end_object();
    }

    /// Writes a list as the next value.
    pub(crate) fn in_list(&mut self, elements: impl FnOnce(&mut Self)) {
        self.list();
        elements(self);
        self.end_list();
    }

    /// Writes the key of the next value.
    pub(crate) fn key(&mut self, key: &str) {
        self.string(key);
        self.0.push(':');
    }

    /// Writes a string as the next value.
    pub(crate) fn string(&mut self, text: &str) {
        self.comma();
        self.0.push('"');
        escape_into(text, self.0);
        self.0.push('"');
    }

    /// Writes a JSON text as the next value, on one line.
    pub(crate) fn raw(&mut self, json: &str) {
        self.comma();
        compact_into(json, self.0);
    }

    /// Writes a number as the next value.
    pub(crate) fn number(&mut self, number: impl std::fmt::Display) {
        use std::fmt::Write;
        self.comma();
        let _ = write!(self.0, "{number}");
    }

    /// Writes a member that is a string.
    pub(crate) fn text_member(&mut self, key: &str, text: &str) {
        self.key(key);
        self.string(text);
    }

    /// Writes a member that is a JSON text.
    pub(crate) fn raw_member(&mut self, key: &str, json: &str) {
        self.key(key);
        self.raw(json);
    }

    /// Writes a member that is a string, if there is one.
    pub(crate) fn optional_text_member(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text_member(key, text);
        }
    }

    /// Writes a member that is a number.
    pub(crate) fn number_member(&mut self, key: &str, number: impl std::fmt::Display) {
        self.key(key);
        self.number(number);
    }

    /// Writes the members that are numbers, without those that are missing.
    pub(crate) fn number_members<'k>(&mut self, numbers: impl IntoIterator<Item = (&'k str, Option<u64>)>) {
        for (key, number) in numbers {
            if let Some(number) = number {
                self.number_member(key, number);
            }
        }
    }

    /// Writes a member that is an object.
    pub(crate) fn object_member(&mut self, key: &str, members: impl FnOnce(&mut Self)) {
        self.key(key);
        self.in_object(members);
    }

    /// Writes a member that is a list.
    pub(crate) fn list_member(&mut self, key: &str, elements: impl FnOnce(&mut Self)) {
        self.key(key);
        self.in_list(elements);
    }

    /// Writes a comma if one is due: values end in these bytes, and nothing that awaits a value does.
    fn comma(&mut self) {
        if let Some(b'"' | b'}' | b']' | b'0'..=b'9' | b'e' | b'l') = self.0.as_bytes().last() {
            self.0.push(',');
        }
    }
}

/// Values by path, to be written as members of one object: keys joined by dots, a dot inside a key escaped, as in
/// [`EventKind::Extra`](crate::event::EventKind::Extra).
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberPaths {
    /// Cleared entries stand last and keep their memory: some are filled and cleared with every delta.
    entries: Vec<(String, String)>,
    count: usize,
}

impl MemberPaths {
    /// The members of a start, which are kept by path in one object.
    pub(crate) fn of(members: Option<&JsonText<'_>>) -> Self {
        let mut paths = Self::default();
        each_member(members, |path, value| paths.set(path, value));
        paths
    }

    /// Sets the values at their paths.
    pub(crate) fn set_all<'p>(&mut self, values: impl IntoIterator<Item = (&'p str, &'p str)>) {
        values.into_iter().for_each(|(path, value)| self.set(path, value));
    }

    /// Sets the value at a path.
    pub(crate) fn set(&mut self, path: &str, json: &str) {
        let value = self.value_mut(path);
        value.clear();
        value.push_str(json);
    }

    /// Sets the number at a path.
    pub(crate) fn set_number(&mut self, path: &str, number: u64) {
        let value = self.value_mut(path);
        value.clear();
        JsonWriter(value).number(number);
    }

    /// Appends the value, or the elements of a list, to the list at a path.
    pub(crate) fn extend(&mut self, path: &str, json: &str) {
        let json = json.trim_ascii();
        let elements = json.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(json);
        let list = self.value_mut(path);
        match list.pop() {
            Some(_) => list.push_str(if list.len() > 1 { "," } else { "" }),
            None => list.push('['),
        }
        list.push_str(elements);
        list.push(']');
    }

    /// The value at a path, which is empty if it is new.
    fn value_mut(&mut self, path: &str) -> &mut String {
        let known = self.entries[..self.count].iter().position(|(own, _)| own == path);
        let at = known.unwrap_or_else(|| {
            if self.count == self.entries.len() {
                self.entries.push(Default::default());
            }
            let (own, value) = &mut self.entries[self.count];
            path.clone_into(own);
            value.clear();
            self.count += 1;
            self.count - 1
        });
        &mut self.entries[at].1
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.iter().find(|(own, _)| *own == path).map(|(_, value)| value)
    }

    /// Removes the value at a path.
    pub(crate) fn remove(&mut self, path: &str) -> Option<String> {
        let at = self.iter().position(|(own, _)| own == path)?;
        self.count -= 1;
        Some(self.entries.remove(at).1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries[..self.count].iter().map(|(path, value)| (path.as_str(), value.as_str()))
    }

    /// Writes them as members of the object that is open, and removes them.
    pub(crate) fn write_out(&mut self, writer: &mut JsonWriter<'_>) {
        self.write(writer);
        self.clear();
    }

    /// Writes them as members of the object that is open.
    pub(crate) fn write(&self, writer: &mut JsonWriter<'_>) {
        // Most are plain keys, none of which is a prefix of another's path.
        if self.iter().any(|(path, _)| path.contains(['.', '\\'])) {
            return write_members(&self.iter().collect::<Vec<_>>(), writer);
        }
        for (path, value) in self.iter() {
            writer.raw_member(path, value);
        }
    }
}

/// Writes values by path as members, paths with a common beginning in one object. It recurses as deep as the paths are
/// long, and paths come from a table.
pub(crate) fn write_members(entries: &[(&str, &str)], writer: &mut JsonWriter<'_>) {
    for (at, (path, value)) in entries.iter().enumerate() {
        let (first, rest) = split(path);
        if entries[..at].iter().any(|(before, _)| split(before).0 == first) {
            continue;
        }
        writer.key(&unescape(first));
        let Some(_) = rest else {
            writer.raw(value);
            continue;
        };
        let inner: Vec<_> = entries[at..]
            .iter()
            .filter_map(|(path, value)| match split(path) {
                (own, Some(rest)) if own == first => Some((rest, *value)),
                _ => None,
            })
            .collect();
        writer.object();
        write_members(&inner, writer);
        writer.end_object();
    }
}

/// Values by path.
type PathValues<'p> = Vec<(&'p str, &'p str)>;

/// Splits values by path into those below the prefix, without it, and the others.
pub(crate) fn split_below<'p>(
    entries: impl IntoIterator<Item = (&'p str, &'p str)>,
    prefix: &str,
) -> (PathValues<'p>, PathValues<'p>) {
    let (mut below, mut others) = (Vec::new(), Vec::new());
    for (path, value) in entries {
        match path.strip_prefix(prefix) {
            Some(inner) => below.push((inner, value)),
            None => others.push((path, value)),
        }
    }
    (below, others)
}

/// Visits the members of a start, which are kept by path in one object.
pub(crate) fn each_member(members: Option<&JsonText<'_>>, mut take: impl FnMut(&str, &str)) {
    let Some(members) = members else { return };
    with_spare_tape(|tape| {
        if let Ok(object) = tape.parse(members.as_str()) {
            for (key, value) in object.members() {
                let key = if key.contains('\\') { Str::Escaped(key) } else { Str::Plain(key) };
                take(&key.to_cow(), value.raw());
            }
        }
    });
}

/// The first key of a path, as it is escaped, and the rest of the path.
fn split(path: &str) -> (&str, Option<&str>) {
    let mut is_escaped = false;
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'.' => return (&path[..at], Some(&path[at + 1..])),
            _ => {}
        }
    }
    (path, None)
}

fn unescape(key: &str) -> std::borrow::Cow<'_, str> {
    if !key.contains('\\') {
        return key.into();
    }
    let mut plain = String::with_capacity(key.len());
    let mut chars = key.chars();
    while let Some(char) = chars.next() {
        plain.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_values_only() {
        let mut out = String::from("data: ");
        let mut writer = JsonWriter(&mut out);
        writer.object();
        writer.text_member("a", "x\"\n");
        writer.key("b");
        writer.list();
        writer.number(-1);
        writer.raw("[ 1, true ]");
        writer.raw("null");
        writer.object();
        writer.end_object();
        writer.end_list();
        writer.raw_member("c", "0");
        writer.end_object();
        assert_eq!(out, r#"data: {"a":"x\"\n","b":[-1,[1,true],null,{}],"c":0}"#);
    }

    #[test]
    fn paths_with_a_common_beginning_share_an_object() {
        let mut paths = MemberPaths::default();
        for (path, value) in [("a.b", "1"), ("c", "2"), ("a.d.e", "3"), ("a.d.f\\.g", "4"), ("c", "5")] {
            paths.set(path, value);
        }
        paths.extend("l", "[1]");
        paths.extend("l", "2");
        let mut out = String::new();
        let mut writer = JsonWriter(&mut out);
        writer.object();
        paths.write(&mut writer);
        writer.end_object();
        assert_eq!(out, r#"{"a":{"b":1,"d":{"e":3,"f.g":4}},"c":5,"l":[1,2]}"#);
    }
}
