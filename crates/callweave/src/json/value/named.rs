//! What is found by name and kept in its order.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Named values in the order in which they came; each name once.
#[derive(Clone)]
pub(crate) struct Named<V> {
    all: Vec<(String, V)>,
    places: Option<Box<Places>>,
}

/// Where there are more members than this, they are searched by hash.
pub(super) const SEARCHED: usize = 24;

/// Where many members stand, by the hash of their names. A name whose hash is taken by another one has the next
/// free number.
#[derive(Clone)]
struct Places {
    hasher: RandomState,
    by_hash: HashMap<u64, usize>,
}

impl Places {
    fn of<V>(members: &[(String, V)]) -> Self {
        let mut places =
            Self { hasher: RandomState::new(), by_hash: HashMap::with_capacity(2 * members.len()) };
        for (at, (name, _)) in members.iter().enumerate() {
            let (Ok(hash) | Err(hash)) = places.find(members, name);
            places.by_hash.insert(hash, at);
        }
        places
    }

    /// The number under which the name stands, or else would.
    fn find<V>(&self, members: &[(String, V)], name: &str) -> Result<u64, u64> {
        let mut hash = self.hasher.hash_one(name);
        while let Some(&at) = self.by_hash.get(&hash) {
            if members[at].0 == name {
                return Ok(hash);
            }
            hash = hash.wrapping_add(1);
        }
        Err(hash)
    }
}

impl<V> Named<V> {
    pub(crate) fn all(&self) -> &[(String, V)] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut V)> + ExactSizeIterator {
        self.all.iter_mut().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn take_all(&mut self) -> Vec<(String, V)> {
        self.places = None;
        std::mem::take(&mut self.all)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.position(name).map(|at| &self.all[at].1)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.position(name).map(|at| &mut self.all[at].1)
    }

    /// Puts a member: in the place of the one that has the name, which is given back, or else last.
    pub(crate) fn insert(&mut self, name: String, value: V) -> Option<V> {
        match self.position(&name) {
            Some(at) => Some(std::mem::replace(&mut self.all[at].1, value)),
            None => {
                self.append(name, value);
                None
            }
        }
    }

    pub(super) fn get_or_insert_with(&mut self, name: &str, make: impl FnOnce() -> V) -> &mut V {
        let at = self.position(name).unwrap_or_else(|| self.append(name.to_owned(), make()));
        &mut self.all[at].1
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<V> {
        let at = self.position(name)?;
        let (_, value) = self.all.remove(at);
        self.place();
        Some(value)
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str, &mut V) -> bool) {
        self.all.retain_mut(|(name, value)| keep(name, value));
        self.place();
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.places {
            Some(places) => places.find(&self.all, name).ok().map(|hash| places.by_hash[&hash]),
            None => self.all.iter().position(|(own, _)| own == name),
        }
    }

    /// Puts a member whose name is new last, and tells where that is.
    fn append(&mut self, name: String, value: V) -> usize {
        let at = self.all.len();
        if let Some(places) = &mut self.places {
            let (Ok(hash) | Err(hash)) = places.find(&self.all, &name);
            places.by_hash.insert(hash, at);
        }
        self.all.push((name, value));
        if at == SEARCHED {
            self.place();
        }
        at
    }

    /// Notes anew where the members stand.
    fn place(&mut self) {
        self.places = (self.all.len() > SEARCHED).then(|| Places::of(&self.all).into());
    }
}

impl<V> Default for Named<V> {
    fn default() -> Self {
        Self { all: Vec::new(), places: None }
    }
}

impl<V: PartialEq> PartialEq for Named<V> {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<V: std::fmt::Debug> std::fmt::Debug for Named<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.all.iter().map(|(name, value)| (name, value))).finish()
    }
}
