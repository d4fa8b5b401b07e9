//! Members of an object that are taken out one by one; the rest is kept.

use crate::json::{Array, Number, Object, Value};

use super::retained::MemberSpelling;
use super::{RetainedFields, Role};

/// The members of an object while they are taken. A path such as `reasoning.effort` names a member of a member. A value
/// that is not of the requested kind stays, as null does.
pub(crate) struct RequestMembers {
    object: Object,
    spellings: Vec<(Box<str>, MemberSpelling)>,
    is_any_case: bool,
}

impl RequestMembers {
    pub(crate) fn new(object: Object) -> Self {
        Self { object, spellings: Vec::new(), is_any_case: false }
    }

    /// Members that may be spelled `likeThis` or `like_this`.
    pub(crate) fn any_case(object: Object) -> Self {
        Self { is_any_case: true, ..Self::new(object) }
    }

    /// The value at that path.
    pub(crate) fn peek(&self, path: &str) -> Option<&Value> {
        let (parent, last) = split_last(path);
        let mut object = &self.object;
        for key in parent.into_iter().flat_map(|path| path.split('.')) {
            object = self.in_case(object, key)?.as_object()?;
        }
        self.in_case(object, last)
    }

    fn in_case<'o>(&self, object: &'o Object, key: &str) -> Option<&'o Value> {
        object.get(key).or_else(|| self.is_any_case.then(|| object.get(&snake(key))).flatten())
    }

    /// The text at that path.
    pub(crate) fn peek_str(&self, path: &str) -> Option<&str> {
        self.peek(path).and_then(Value::as_str)
    }

    /// Takes a member with another name as the usual one, unless that is there.
    pub(crate) fn rename(&mut self, usual: &str, word: &str) {
        let (parent, last) = split_last(usual);
        let object = match parent {
            None => Some(&mut self.object),
            Some(path) => {
                path.split('.').try_fold(&mut self.object, |object, key| object.get_mut(key)?.as_object_mut())
            }
        };
        let Some(object) = object else { return };
        if !object.contains_key(last)
            && let Some(value) = object.remove(word)
        {
            object.insert(last, value);
            self.spellings.push((usual.into(), MemberSpelling::Word(Box::new(word.to_owned()))));
        }
    }

    /// Notes that a member that is usually there is absent.
    pub(crate) fn note_absence(&mut self, path: &str) {
        if self.peek(path).is_none() {
            self.spellings.push((path.into(), MemberSpelling::Absent));
        }
    }

    /// Notes that a member is the only element of a usual list.
    pub(crate) fn note_alone(&mut self, path: &str) {
        self.spellings.push((path.into(), MemberSpelling::Alone));
    }

    /// Notes that a member stays as it is although it was read.
    pub(crate) fn note_read(&mut self, path: &str) {
        if self.peek(path).is_some() {
            self.spellings.push((path.into(), MemberSpelling::Known));
        }
    }

    /// Notes that a member violates the protocol itself, be it by being missing. It stays as it is.
    pub(crate) fn note_malformed(&mut self, path: &str) {
        self.spellings.push((path.into(), MemberSpelling::Malformed));
    }

    /// The keys of the members that were not taken.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.object.keys()
    }

    /// Takes the value at that path if it fits.
    pub(crate) fn take_if(&mut self, path: &str, is_fit: impl FnOnce(&Value) -> bool) -> Option<Value> {
        if self.is_any_case {
            self.usual_case(path);
        }
        match split_last(path) {
            (None, _) => {
                if self.object.get(path).is_some_and(is_fit) {
                    self.object.remove(path)
                } else {
                    None
                }
            }
            (Some(parent), last) => {
                let object = parent
                    .split('.')
                    .try_fold(&mut self.object, |object, key| object.get_mut(key)?.as_object_mut())?;
                if !object.get(last).is_some_and(is_fit) {
                    return None;
                }
                let taken = object.remove(last);
                self.prune(parent);
                taken
            }
        }
    }

    /// Removes objects of which everything was taken.
    fn prune(&mut self, mut path: &str) {
        loop {
            let (parent, last) = split_last(path);
            let object = match parent {
                None => Some(&mut self.object),
                Some(path) => path
                    .split('.')
                    .try_fold(&mut self.object, |object, key| object.get_mut(key)?.as_object_mut()),
            };
            let Some(object) = object else { return };
            if !object.get(last).and_then(Value::as_object).is_some_and(Object::is_empty) {
                return;
            }
            object.remove(last);
            match parent {
                Some(parent) => path = parent,
                None => return,
            }
        }
    }

    fn usual_case(&mut self, path: &str) {
        let mut object = &mut self.object;
        let mut start = 0;
        for key in path.split('.') {
            let end = start + key.len();
            if !object.contains_key(key) {
                let word = snake(key);
                if word == key {
                    return;
                }
                let Some(value) = object.remove(&word) else { return };
                object.insert(key, value);
                self.spellings
                    .push((path.get(..end).unwrap_or(path).into(), MemberSpelling::Word(Box::new(word))));
            }
            start = end + 1;
            let Some(inner) = object.get_mut(key).and_then(Value::as_object_mut) else { return };
            object = inner;
        }
    }

    pub(crate) fn string(&mut self, path: &str) -> Option<String> {
        match self.take_if(path, Value::is_string) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self, path: &str) -> Option<Number> {
        match self.take_if(path, Value::is_number) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn truth(&mut self, path: &str) -> Option<bool> {
        self.take_if(path, Value::is_boolean).and_then(|value| value.as_bool())
    }

    pub(crate) fn array(&mut self, path: &str) -> Option<Array> {
        match self.take_if(path, Value::is_array) {
            Some(Value::Array(elements)) => Some(elements),
            _ => None,
        }
    }

    pub(crate) fn object(&mut self, path: &str) -> Option<Object> {
        match self.take_if(path, Value::is_object) {
            Some(Value::Object(members)) => Some(members),
            _ => None,
        }
    }

    /// A list of texts; an empty one stays.
    pub(crate) fn strings(&mut self, path: &str) -> Option<Vec<String>> {
        let is_texts = |value: &Value| {
            value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string))
        };
        let Some(Value::Array(texts)) = self.take_if(path, is_texts) else { return None };
        Some(
            texts
                .into_iter()
                .filter_map(|text| if let Value::String(text) = text { Some(text) } else { None })
                .collect(),
        )
    }

    /// A list of texts, or one text without the list.
    pub(crate) fn string_or_strings(&mut self, path: &str) -> Option<Vec<String>> {
        if let Some(text) = self.string(path) {
            self.note_alone(path);
            return Some(vec![text]);
        }
        self.strings(path)
    }

    /// Takes a text that always stands there, which is not worth keeping.
    pub(crate) fn constant(&mut self, path: &str, text: &str) -> bool {
        self.take_if(path, |value| value == text).is_some()
    }

    /// Takes a name of a table, as the neutral request has it; any other stays.
    pub(crate) fn word(&mut self, path: &str, table: &[(&str, &str)]) -> Option<String> {
        let found = table.iter().find(|(word, _)| self.peek_str(path) == Some(word))?;
        self.constant(path, found.0).then(|| found.1.to_owned())
    }

    /// Takes the role, by the names of a table; any other stays.
    pub(crate) fn role(&mut self, roles: &[(&str, Role)]) -> Option<Role> {
        self.note_absence("role");
        let &(word, role) = roles.iter().find(|(word, _)| self.peek_str("role") == Some(word))?;
        self.constant("role", word).then_some(role)
    }

    /// A list of objects, and nothing else; an empty one stays.
    pub(crate) fn objects(&mut self, path: &str) -> Option<Vec<Object>> {
        let is_objects = |value: &Value| {
            value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_object))
        };
        let Some(Value::Array(objects)) = self.take_if(path, is_objects) else { return None };
        Some(
            objects
                .into_iter()
                .filter_map(|one| if let Value::Object(one) = one { Some(one) } else { None })
                .collect(),
        )
    }

    /// Puts back a value that was taken too early.
    pub(crate) fn put<V: Into<Value>>(&mut self, path: &str, value: Option<V>) {
        put(&mut self.object, path, value);
    }

    /// The members that were not taken.
    pub(crate) fn rest(self, protocol: &'static str) -> RetainedFields {
        RetainedFields::spelled(protocol, self.object, self.spellings)
    }

    /// All current members, as an object, in their original spelling.
    pub(crate) fn into_object(self) -> Object {
        let mut object = Object::new();
        self.rest("").restore("", &mut object);
        object
    }
}

/// The path of the object, and the key in it. Paths are short, and there are many: a loop finds the dot sooner than a
/// search.
fn split_last(path: &str) -> (Option<&str>, &str) {
    match path.bytes().rposition(|byte| byte == b'.') {
        Some(at) => (path.get(..at), path.get(at + 1..).unwrap_or_default()),
        None => (None, path),
    }
}

/// Puts a value at a path such as `reasoning.effort`, if there is one.
pub(crate) fn put<V: Into<Value>>(object: &mut Object, path: &str, value: Option<V>) {
    let Some(value) = value else { return };
    let (parents, last) = split_last(path);
    let mut place = object;
    for key in parents.into_iter().flat_map(|path| path.split('.')) {
        let inner = place.get_or_insert_with(key, || Object::new().into());
        let Some(inner) = inner.as_object_mut() else { return };
        place = inner;
    }
    place.insert(last, value);
}

/// Takes a value of the neutral request, by the name that a table has for it; a value that it has none for stays.
pub(crate) fn take_word(said: &mut Option<String>, table: &[(&'static str, &str)]) -> Option<&'static str> {
    let word = table.iter().find(|(_, neutral)| said.as_deref() == Some(neutral))?.0;
    *said = None;
    Some(word)
}

/// `likeThis` → `like_this`
fn snake(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> RequestMembers {
        RequestMembers::new(text.parse().expect("an object"))
    }

    #[test]
    fn what_is_not_taken_comes_back() {
        let whole: Object =
            r#"{"a": {"b": 1, "c": {"d": "x"}}, "e": null, "n": {}}"#.parse().expect("an object");
        let mut members = RequestMembers::new(whole.clone());
        assert_eq!(members.string("a.c.d").as_deref(), Some("x"));
        assert_eq!(members.number("e"), None);
        let mut written: Object = r#"{"a": {"c": {"d": "x"}}}"#.parse().expect("an object");
        members.rest("own").restore("own", &mut written);
        assert_eq!(written, whole);
    }

    #[test]
    fn other_spellings_come_back() {
        let whole: Object =
            r#"{"inline_data": {"mime_type": "x", "other_thing": 1}}"#.parse().expect("an object");
        let mut members = RequestMembers::any_case(whole.clone());
        assert_eq!(members.string("inlineData.mimeType").as_deref(), Some("x"));
        let mut written: Object = r#"{"inlineData": {"mimeType": "x"}}"#.parse().expect("an object");
        members.rest("own").restore("own", &mut written);
        assert_eq!(written, whole);
    }

    #[test]
    fn another_protocol_restores_nothing() {
        let mut kept = members(r#"{"a": 1}"#).rest("own");
        let mut written = Object::new();
        kept.restore("other", &mut written);
        assert!(written.is_empty());
        assert!(!kept.is_empty());
    }
}
