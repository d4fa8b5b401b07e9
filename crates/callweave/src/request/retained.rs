//! What only one protocol knows of a thing, and how it spelled what others know, too.

use serde::{Deserialize, Serialize};

use crate::json::{Object, Value};

/// What only one protocol knows of a thing, kept under the protocol's name.
///
/// It comes back where the same protocol is written, and is lost elsewhere, by name.
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

/// How a member was spelled, where not in the usual way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MemberSpelling {
    /// It has another word.
    #[expect(clippy::box_collection, reason = "it is rare, and there may be two of these for every message")]
    Word(Box<String>),
    /// It was not written.
    Absent,
    /// It is a list, but its only element was written.
    Alone,
    /// It is kept as it was written, and yet was read.
    Known,
    /// It is not what the protocol itself demands there.
    Malformed,
}

impl RetainedFields {
    /// Members that `protocol` knows.
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

    /// A whole value that stands where a thing should; what is no object has a place, but no name.
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

    /// The name of the protocol that knows it.
    pub fn protocol(&self) -> Option<&'static str> {
        self.0.as_ref().map(|own| own.protocol)
    }

    /// The members that `protocol` knows.
    pub fn members(&self, protocol: &str) -> Option<&Object> {
        self.0.as_ref().filter(|own| own.protocol == protocol).map(|own| &own.members)
    }

    /// The members, whoever knows them.
    pub(super) fn any(&self) -> Option<&Object> {
        self.0.as_ref().map(|own| &own.members)
    }

    /// Paths of what is not what the protocol itself demands.
    pub(super) fn malformed(&self) -> impl Iterator<Item = &str> {
        let spellings = self.0.iter().flat_map(|own| &own.spellings);
        spellings.filter(|(_, spelling)| *spelling == MemberSpelling::Malformed).map(|(path, _)| &**path)
    }

    /// The members that were kept and not read: what another protocol cannot say.
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

    /// Forgets what is about these members; tells which of them were kept, and by which protocol.
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

    /// What was kept whole.
    pub(crate) fn into_complete(self, protocol: &str) -> Option<Value> {
        let mut own = self.0.filter(|own| own.protocol == protocol)?;
        match own.members.len() == 1 && own.members.contains_key("") {
            true => own.members.remove(""),
            false => Some(Value::Object(own.members)),
        }
    }

    /// Puts what `protocol` knows back where it stood. Nothing stays.
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

/// Adds members to an object, and members of members to its members. What both have is what was kept.
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
