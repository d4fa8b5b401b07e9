//! Members in their order.

use std::ops::Index;

use super::Value;
use crate::table::OrderedTable;

/// The members of an object, in the order in which they came; each key once.
///
/// ```
/// use callweave::json::Object;
///
/// let mut object = Object::from_iter([("b", 1), ("a", 2)]);
/// object.insert("c", 3);
/// object.insert("b", 4);
/// assert_eq!(object.to_string(), r#"{"b":4,"a":2,"c":3}"#);
/// assert_eq!(object["a"], 2);
/// ```
#[derive(Default)]
pub struct Object {
    members: OrderedTable<String, Value>,
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// An object without members, with memory for that number of them.
    pub(in crate::json) fn with_capacity(count: usize) -> Self {
        let mut object = Self::new();
        object.members.reserve_exact(count);
        object
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.all().len()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.all().is_empty()
    }

    /// The member of that key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.members.get(key)
    }

    /// The member of that key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.members.get_mut(key)
    }

    /// Whether it has a member of that key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.members.get(key).is_some()
    }

    /// Puts a member: in the place of the one that has the key, whose value is returned, or else last.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        if self.members.is_empty() {
            // Objects seldom have only one member, and most have two.
            self.members.reserve_pair();
        }
        self.members.insert(key.into(), value.into())
    }

    /// The member of that key, made if it is missing.
    pub fn get_or_insert_with(&mut self, key: &str, make: impl FnOnce() -> Value) -> &mut Value {
        let known = self.members.position(key);
        let at = known.unwrap_or_else(|| self.members.append(key.to_owned(), make()));
        self.members.at_mut(at)
    }

    /// Removes the member of that key; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.members.remove(key)
    }

    /// Keeps only the members for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.members.retain(|key, value| keep(key, value));
    }

    /// The members, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value)> + ExactSizeIterator + Clone {
        self.members.all().iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The members, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Value)> + ExactSizeIterator {
        self.members.all_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values, in order, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> + ExactSizeIterator {
        self.iter_mut().map(|(_, value)| value)
    }

    pub(super) fn members(&self) -> &[(String, Value)] {
        self.members.all()
    }
}

impl<K: Into<String>, V: Into<Value>> Extend<(K, V)> for Object {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, members: I) {
        for (key, value) in members {
            self.insert(key, value);
        }
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let members = members.into_iter();
        // Most are short and of a known length, and stay as they are.
        let mut object = Self::with_capacity(members.size_hint().0);
        object.extend(members);
        object
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(mut self) -> Self::IntoIter {
        self.members.take_all().into_iter()
    }
}

impl<'v> IntoIterator for &'v Object {
    type Item = (&'v str, &'v Value);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'v, (String, Value)>,
        fn(&'v (String, Value)) -> (&'v str, &'v Value),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.members.all().iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// A missing member is null.
impl Index<&str> for Object {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::SEARCHED;

    #[test]
    fn large_objects_are_searched_by_hash_and_keep_their_order() {
        let mut object = Object::new();
        for number in 0..200_000 {
            assert_eq!(object.insert(number.to_string(), number), None);
        }
        for number in (0..200_000).rev() {
            assert_eq!(object.insert(number.to_string(), -number), Some(number.into()));
        }
        assert_eq!(object["77777"], -77_777);
        assert!(!object.contains_key("200000"));
        assert!(object.keys().map(str::parse).eq((0..200_000).map(Ok)));
    }

    #[test]
    fn what_is_taken_out_is_gone() {
        for count in [3, SEARCHED + 3] {
            let mut object: Object = (0..count).map(|number| (number.to_string(), number)).collect();
            assert_eq!(object.remove("1"), Some(1.into()));
            assert_eq!(object.remove("1"), None);
            assert_eq!(object["2"], 2);
            object.retain(|key, _| key != "2");
            assert!(!object.contains_key("2"));
            object.insert("1", "again");
            assert_eq!(object.keys().next_back(), Some("1"));
            assert_eq!(object.len(), count - 1);
        }
    }
}
