//! What has been told already, so that fields which every chunk repeats are told once and then only
//! when they change.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::Scope;

/// Where a told value stood.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spot<'a> {
    pub(super) choice: u32,
    pub(super) scope: Scope,
    pub(super) path: &'static str,
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
    scope: Scope,
    path: &'static str,
    key: String,
    value: Trace,
}

impl Entry {
    fn is_at(&self, spot: Spot<'_>) -> bool {
        self.choice == spot.choice
            && self.key == spot.key
            && self.scope == spot.scope
            && self.path == spot.path
    }
}

/// Enough of a value to know it again: all of a short one, the length and two hashes of a long one.
#[derive(Clone)]
struct Trace {
    length: usize,
    hashes: [u64; 2],
    short: String,
}

/// Values up to this length are kept as they are: comparing them costs less than a hash. Token counts, which some
/// wires tell anew with every chunk, are not longer.
const SHORT: usize = 512;

impl Trace {
    fn of(value: &str) -> Self {
        let mut trace = Self { length: 0, hashes: [0; 2], short: String::new() };
        trace.set(value);
        trace
    }

    fn set(&mut self, value: &str) {
        self.length = value.len();
        self.short.clear();
        if value.len() <= SHORT {
            self.short.push_str(value);
        } else {
            self.hashes = hashes(value);
        }
    }

    fn is(&self, value: &str) -> bool {
        self.length == value.len()
            && if value.len() <= SHORT { self.short == value } else { self.hashes == hashes(value) }
    }
}

fn hashes(value: &str) -> [u64; 2] {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        hasher.finish()
    })
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
                if entry.value.is(value) {
                    return false;
                }
                entry.value.set(value);
            }
            None => {
                self.by_hash.insert(hash(spot), self.entries.len());
                let Spot { choice, scope, path, key } = spot;
                self.entries.push(Entry { choice, scope, path, key: key.into(), value: Trace::of(value) });
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
