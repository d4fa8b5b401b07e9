//! What has been told already, so that fields which every chunk repeats are told once and then only
//! when they change.

use super::fingerprint::Fingerprint;
use crate::event::Scope;
use crate::table::Table;

/// Where a told value stood.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    pub(super) key: Fingerprint,
    pub(super) choice: u32,
    pub(super) scope: Scope,
    pub(super) path: &'static str,
}

/// The values that were told last, by where they stood. Of both only enough to know it again: who listens has the rest.
#[derive(Clone, Default)]
pub(super) struct Seen {
    told: Table<Spot, Fingerprint>,
    /// Chunks repeat their fields in the same order, so the next one is usually here.
    cursor: usize,
}

impl Seen {
    /// Whether `value` is news at that spot; it is remembered.
    pub(super) fn is_news(&mut self, spot: Spot, value: &str) -> bool {
        let value = Fingerprint::of(value);
        let at = match self.told.all().get(self.cursor) {
            Some((known, _)) if *known == spot => Some(self.cursor),
            _ => self.told.position(&spot),
        };
        let Some(at) = at else {
            self.told.append(spot, value);
            self.cursor = 0;
            return true;
        };
        self.cursor = if at + 1 < self.told.len() { at + 1 } else { 0 };
        std::mem::replace(self.told.at_mut(at), value) != value
    }
}
