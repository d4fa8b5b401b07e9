//! What has been told already, so that fields which every chunk repeats are told once and then only
//! when they change.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::BlockId;
use crate::fragment::Place;

/// Where a told value stood.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spot<'a> {
    pub(super) choice: u32,
    pub(super) place: Option<Place>,
    /// The block at the place: a place may be used again.
    pub(super) block: Option<BlockId>,
    pub(super) scope: &'static str,
    pub(super) key: &'a str,
}

#[derive(Clone, Default)]
pub(super) struct Seen {
    entries: Vec<Entry>,
    by_hash: HashMap<u64, usize>,
    /// Chunks repeat their fields in the same order, so the next one is usually here.
    cursor: usize,
}

#[derive(Clone)]
struct Entry {
    choice: u32,
    place: Option<Place>,
    block: Option<BlockId>,
    scope: &'static str,
    key: String,
    value: String,
}

impl Entry {
    fn is_at(&self, spot: Spot<'_>) -> bool {
        self.choice == spot.choice
            && self.key == spot.key
            && self.place == spot.place
            && self.block == spot.block
            && self.scope == spot.scope
    }
}

impl Seen {
    /// Whether `value` is news at that spot; it is remembered.
    pub(super) fn is_news(&mut self, spot: Spot<'_>, value: &str) -> bool {
        let at = match self.entries.get(self.cursor) {
            Some(entry) if entry.is_at(spot) => Some(self.cursor),
            _ => self.find(spot),
        };
        match at {
            Some(at) => {
                self.cursor = if at + 1 < self.entries.len() { at + 1 } else { 0 };
                let entry = &mut self.entries[at];
                if entry.value == value {
                    return false;
                }
                entry.value.clear();
                entry.value.push_str(value);
            }
            None => {
                self.by_hash.insert(hash(spot), self.entries.len());
                let Spot { choice, place, block, scope, key } = spot;
                self.entries.push(Entry {
                    choice,
                    place,
                    block,
                    scope,
                    key: key.into(),
                    value: value.into(),
                });
                self.cursor = 0;
            }
        }
        true
    }

    fn find(&self, spot: Spot<'_>) -> Option<usize> {
        let at = *self.by_hash.get(&hash(spot))?;
        self.entries[at].is_at(spot).then_some(at)
    }
}

fn hash(spot: Spot<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    spot.hash(&mut hasher);
    hasher.finish()
}
