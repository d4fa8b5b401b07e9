//! The values emitted so far, so that fields which every chunk repeats are emitted once and then only when they change.

use crate::event::EventScope;
use crate::fingerprint::{keyed_digest, keyed_mix};
use crate::table::OrderedTable;

/// The position of an emitted value.
#[derive(Clone, Copy)]
pub(super) struct ValueSpot {
    pub(super) choice: u32,
    pub(super) scope: EventScope,
    /// The rest of the target, as a hash.
    pub(super) of: u64,
    pub(super) path: &'static str,
    /// The hash of the key.
    pub(super) key: u64,
}

/// The values emitted last, by their positions. Only a hash of each is kept, enough to recognise it: the receiver has
/// the rest, and many responses are read at the same time.
#[derive(Clone, Default)]
pub(super) struct SeenValues {
    told: OrderedTable<u64, u64>,
    /// Chunks repeat their fields in the same order, so the next one is usually here.
    cursor: usize,
}

impl SeenValues {
    /// Makes room for that number of further values at once.
    pub(super) fn reserve(&mut self, count: usize) {
        self.told.reserve(count);
    }

    /// Remembers the value at a position at which none has been emitted.
    pub(super) fn note(&mut self, spot: ValueSpot, value: &str) {
        let spot = spot.digest();
        debug_assert!(!self.told.contains(&spot), "something has been told there");
        self.told.append(spot, keyed_digest(value));
    }

    /// Whether `value` is new at that position; it is remembered.
    pub(super) fn is_news(&mut self, spot: ValueSpot, value: &str) -> bool {
        let (spot, value) = (spot.digest(), keyed_digest(value));
        let at = match self.told.all().get(self.cursor) {
            Some((known, _)) if *known == spot => Some(self.cursor),
            _ => self.told.position(&spot),
        };
        let Some(at) = at else {
            if self.told.is_empty() {
                self.told.reserve_few();
            }
            self.told.append(spot, value);
            self.cursor = 0;
            return true;
        };
        self.cursor = if at + 1 < self.told.len() { at + 1 } else { 0 };
        std::mem::replace(self.told.at_mut(at), value) != value
    }
}

impl ValueSpot {
    fn digest(self) -> u64 {
        let (sort, number) = match self.scope {
            EventScope::Response => (0, 0),
            EventScope::Choice => (1, 0),
            EventScope::Item(item) => (2, item.0),
            EventScope::Block(block) => (3, block.0),
        };
        let path = if self.path.is_empty() { 0 } else { keyed_digest(self.path) };
        let owner = u64::from(self.choice) << 32 | u64::from(number);
        keyed_mix([self.key, owner, sort, self.of, path])
    }
}
