//! A table of values that are found by key and kept in their order.
//!
//! Most responses have a handful of blocks, calls and members: looking through a short list costs less than one hash of
//! the standard library, and an empty table no memory. Long ones are searched by a keyed hash, so that no input makes
//! the search slow.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::fingerprint::keyed_hash;

/// Values by key, in the order in which they came; each key once.
#[derive(Clone)]
pub(crate) struct OrderedTable<K, V> {
    all: Vec<(K, V)>,
    places: Option<Box<HashedPlaces>>,
}

/// The number of entries above which they are searched by hash.
pub(crate) const SEARCHED: usize = 24;

/// The positions of many entries, by the hash of their keys. A key whose hash is taken by another one has the next free
/// number.
#[derive(Clone)]
struct HashedPlaces(HashMap<u64, usize, BuildHasherDefault<IdentityHasher>>);

/// A hasher for values that are hashes already.
#[derive(Clone, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        unreachable!("{bytes:?} are no hash")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl HashedPlaces {
    fn of<K: Eq + Hash, V>(all: &[(K, V)]) -> Self {
        let mut places =
            Self(HashMap::with_capacity_and_hasher(2 * all.len(), BuildHasherDefault::default()));
        for (at, (key, _)) in all.iter().enumerate() {
            if let Err(free) = places.find(all, key) {
                places.0.insert(free, at);
            }
        }
        places
    }

    /// The position of the key, or else the number under which it would be noted.
    fn find<K: Borrow<Q>, V, Q: Eq + Hash + ?Sized>(&self, all: &[(K, V)], key: &Q) -> Result<usize, u64> {
        let mut hash = keyed_hash(key);
        while let Some(&at) = self.0.get(&hash) {
            if all[at].0.borrow() == key {
                return Ok(at);
            }
            hash = hash.wrapping_add(1);
        }
        Err(hash)
    }
}

impl<K: Eq + Hash, V> OrderedTable<K, V> {
    pub(crate) fn all(&self) -> &[(K, V)] {
        &self.all
    }

    pub(crate) fn all_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> + ExactSizeIterator {
        self.all.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub(crate) fn take_all(&mut self) -> Vec<(K, V)> {
        self.places = None;
        std::mem::take(&mut self.all)
    }

    pub(crate) fn clear(&mut self) {
        self.places = None;
        self.all.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn contains<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.position(key).is_some()
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.position(key).map(|at| &self.all[at].1)
    }

    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.position(key).map(|at| &mut self.all[at].1)
    }

    /// The value at that position in the order. See [`OrderedTable::position`].
    pub(crate) fn at_mut(&mut self, at: usize) -> &mut V {
        &mut self.all[at].1
    }

    pub(crate) fn entry_mut(&mut self, at: usize) -> (&K, &mut V) {
        let (key, value) = &mut self.all[at];
        (key, value)
    }

    /// Takes memory for a few entries at once, where one is rarely all.
    pub(crate) fn reserve_few(&mut self) {
        self.reserve(4);
    }

    /// Takes memory for two entries at once, where one is rarely all, and there are very many tables.
    pub(crate) fn reserve_pair(&mut self) {
        if self.all.capacity() == 0 {
            self.all.reserve_exact(2);
        }
    }

    /// Takes memory for that number of further entries at once, and for no others.
    pub(crate) fn reserve_exact(&mut self, count: usize) {
        self.all.reserve_exact(count);
    }

    /// Takes memory for that number of further entries at once.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.all.reserve(count);
    }

    /// Puts a value: in place of the one that has the key, which is returned, or else last.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.all[at].1, value)),
            Err(free) => {
                self.put(key, value, free);
                None
            }
        }
    }

    /// The value of a key that is put there if it is new.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.find(&key).unwrap_or_else(|free| self.put(key, make(), free));
        &mut self.all[at].1
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.position(key)?;
        let (_, value) = self.all.remove(at);
        self.place();
        Some(value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.all.retain_mut(|(key, value)| keep(key, value));
        self.place();
    }

    /// The position of the key in the order.
    #[inline]
    pub(crate) fn position<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok()
    }

    /// The position of the key, or else the number under which it would be noted: none where nothing is.
    #[inline]
    fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Result<usize, Option<u64>>
    where
        K: Borrow<Q>,
    {
        let is_it = |(own, _): &(K, V)| own.borrow() == key;
        match &self.places {
            // The last entry is asked for most.
            Some(_) if self.all.last().is_some_and(is_it) => Ok(self.all.len() - 1),
            Some(places) => places.find(&self.all, key).map_err(Some),
            None => self.all.iter().rposition(is_it).ok_or(None),
        }
    }

    /// Puts a value with a new key last, and returns its position.
    pub(crate) fn append(&mut self, key: K, value: V) -> usize {
        let free = self.places.as_ref().and_then(|places| places.find(&self.all, &key).err());
        self.put(key, value, free)
    }

    /// The same for a key that would be noted under that number.
    fn put(&mut self, key: K, value: V, free: Option<u64>) -> usize {
        let at = self.all.len();
        if let Some((places, free)) = self.places.as_mut().zip(free) {
            places.0.insert(free, at);
        }
        // Most responses have one of each, and many are read at the same time.
        if at <= 1 && self.all.capacity() == at {
            self.all.reserve_exact(1);
        }
        self.all.push((key, value));
        if at == SEARCHED {
            self.place();
        }
        at
    }

    /// Notes the positions of the entries anew.
    fn place(&mut self) {
        self.places = (self.all.len() > SEARCHED).then(|| HashedPlaces::of(&self.all).into());
    }
}

impl<K, V> Default for OrderedTable<K, V> {
    fn default() -> Self {
        Self { all: Vec::new(), places: None }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for OrderedTable<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<K: std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for OrderedTable<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.all.iter().map(|(key, value)| (key, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found_and_keep_their_order() {
        for count in [3, SEARCHED, SEARCHED + 1, 1_000] {
            let mut table: OrderedTable<String, usize> = OrderedTable::default();
            for number in 0..count {
                assert_eq!(table.insert(format!("key {number}"), number), None);
            }
            assert_eq!(table.insert("key 1".into(), 77), Some(1));
            assert_eq!(table.remove("key 0"), Some(0));
            *table.get_or_insert_with("last".into(), || 8) += 1;
            assert_eq!(
                (table.get("last"), table.get("key 1"), table.get("key 0")),
                (Some(&9), Some(&77), None)
            );
            assert_eq!(table.len(), count);
            let numbers: Vec<_> = table.all().iter().map(|(_, number)| *number).collect();
            assert_eq!(numbers[..2], [77, 2]);
            assert!((2..count).all(|number| table.position(&*format!("key {number}")) == Some(number - 1)));
        }
    }
}
