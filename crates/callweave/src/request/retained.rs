//! Extra fields of one protocol, and its unusual spellings of common fields.

use serde::{Deserialize, Serialize};

use crate::json::{Object, Value};

/// Extra fields of one protocol, kept under the protocol's name.
///
/// They come back where the same protocol is written, and are losses elsewhere, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetainedFields(Option<Box<ProtocolFields>>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ProtocolFields {
    #[serde(deserialize_with = "super::known_name")]
    protocol: super::ProtocolName,
    /// Members, in the shape of the wire: members of members stand in objects.
    members: Object,
    /// Usual paths of members that were spelled in another way.
    spellings: Box<[(Box<str>, MemberSpelling)]>,
}

/// The unusual spelling of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MemberSpelling {
    /// It has another name.
    #[expect(clippy::box_collection, reason = "it is rare, and there may be two of these for every message")]
    Word(Box<String>),
    /// It was not written.
    Absent,
    /// It is a list, but its only element was written.
    Alone,
    /// It is kept as it was written, although it was read.
    Known,
    /// It violates the protocol itself.
    Malformed,
}

impl RetainedFields {
    /// Members of `protocol`.
    pub fn new(protocol: &'static str, members: Object) -> Self {
        Self::spelled(protocol, members, Vec::new())
    }

    pub(super) fn spelled(
        protocol: &'static str,
        members: Object,
        spellings: Vec<(Box<str>, MemberSpelling)>,
    ) -> Self {
        let is_empty = members.is_empty() && spellings.is_empty();
        let spellings = spellings.into();
        Self((!is_empty).then(|| Box::new(ProtocolFields { protocol, members, spellings })))
    }

    /// A complete value in place of a thing; a value that is no object has a place, but no name.
    pub(crate) fn whole(protocol: &'static str, value: Value) -> Self {
        match value {
            Value::Object(members) => {
                Self(Some(Box::new(ProtocolFields { protocol, members, spellings: Box::default() })))
            }
            value => Self::new(protocol, Object::from_iter([("", value)])),
        }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The name of the protocol that has them.
    pub fn protocol(&self) -> Option<&'static str> {
        self.0.as_ref().map(|own| own.protocol)
    }

    /// The members of `protocol`.
    pub fn members(&self, protocol: &str) -> Option<&Object> {
        self.0.as_ref().filter(|own| own.protocol == protocol).map(|own| &own.members)
    }

    /// The members, of any protocol.
    pub(super) fn any(&self) -> Option<&Object> {
        self.0.as_ref().map(|own| &own.members)
    }

    /// Paths of members that violate the protocol itself.
    pub(super) fn malformed(&self) -> impl Iterator<Item = &str> {
        let spellings = self.0.iter().flat_map(|own| &own.spellings);
        spellings.filter(|(_, spelling)| *spelling == MemberSpelling::Malformed).map(|(path, _)| &**path)
    }

    /// The members that were kept and not read: another protocol cannot express them.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().flat_map(|own| {
            own.members.iter().filter(|(key, value)| {
                let is_known = |(path, spelling): &(Box<str>, MemberSpelling)| {
                    matches!(spelling, MemberSpelling::Known | MemberSpelling::Malformed) && &**path == *key
                };
                !value.is_null() && !own.spellings.iter().any(is_known)
            })
        })
    }

    /// Forgets these members; returns the ones that were kept, and their protocol.
    pub(crate) fn forget(&mut self, keys: &[&str]) -> Vec<(&'static str, String)> {
        let Some(own) = &mut self.0 else { return Vec::new() };
        let is_about = |path: &str| keys.contains(&path.split('.').next().unwrap_or_default());
        if own.spellings.iter().any(|(path, _)| is_about(path)) {
            let spellings = std::mem::take(&mut own.spellings).into_iter();
            own.spellings = spellings.filter(|(path, _)| !is_about(path)).collect();
        }
        let says = |it: Value| !it.is_null() && it.as_array().is_none_or(|list| !list.is_empty());
        let forgotten = keys.iter().filter(|key| own.members.remove(key).is_some_and(says));
        let forgotten = forgotten.map(|key| (own.protocol, (*key).to_owned())).collect();
        if own.members.is_empty() && own.spellings.is_empty() {
            self.0 = None;
        }
        forgotten
    }

    /// The value that was kept completely.
    pub(crate) fn into_complete(self, protocol: &str) -> Option<Value> {
        let mut own = self.0.filter(|own| own.protocol == protocol)?;
        match own.members.len() == 1 && own.members.contains_key("") {
            true => own.members.remove(""),
            false => Some(Value::Object(own.members)),
        }
    }

    /// Puts the members of `protocol` back at their paths. Nothing stays.
    pub(crate) fn restore(&mut self, protocol: &str, object: &mut Object) {
        let Some(own) = self.0.take_if(|own| own.protocol == protocol) else { return };
        merge(object, own.members);
        for (path, spelling) in own.spellings.into_iter().rev() {
            let (parent, last) = path.rsplit_once('.').map_or((None, &*path), |(up, last)| (Some(up), last));
            let Some(place) = descend(object, parent) else { continue };
            let Some(value) = place.remove(last) else { continue };
            match (spelling, value) {
                (MemberSpelling::Word(word), value) => place.insert(*word, value),
                (MemberSpelling::Alone, Value::Array(mut list)) if list.len() == 1 => {
                    place.insert(last, list.pop())
                }
                (MemberSpelling::Alone, value) => place.insert(last, value),
                (MemberSpelling::Known | MemberSpelling::Malformed, value) => place.insert(last, value),
                (MemberSpelling::Absent, _) => None,
            };
        }
    }
}

fn descend<'o>(object: &'o mut Object, path: Option<&str>) -> Option<&'o mut Object> {
    let Some(path) = path else { return Some(object) };
    path.split('.').try_fold(object, |object, key| object.get_mut(key)?.as_object_mut())
}

/// Adds members to an object, and members of members to its members. The kept value wins over an existing one.
fn merge(object: &mut Object, kept: Object) {
    let mut open = vec![(object, kept)];
    while let Some((object, kept)) = open.pop() {
        let mut inner = Vec::new();
        for (key, value) in kept {
            match (object.get(&key), value) {
                (Some(Value::Object(_)), Value::Object(members)) => inner.push((key, members)),
                (_, value) => {
                    object.insert(key, value);
                }
            }
        }
        for (key, value) in object.iter_mut() {
            if let Some(at) = inner.iter().position(|(own, _)| own == key)
                && let Some(object) = value.as_object_mut()
            {
                open.push((object, inner.swap_remove(at).1));
            }
        }
    }
}
