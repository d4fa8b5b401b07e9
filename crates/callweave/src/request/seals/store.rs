//! A store of turns, and the bounded cache that keeps them in memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A key of a stored turn: a keyed hash, which does not reveal its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnKey(pub [u8; 16]);

/// A store of turns between requests. Losing one costs only reasoning.
pub trait TurnStore: Send + Sync {
    /// Keeps a value that can be found by each of the keys; the newest value of a key counts.
    fn put(&self, keys: &[TurnKey], value: &[u8]);

    /// The value of a key, if it is still there.
    fn get(&self, key: &TurnKey) -> Option<Arc<[u8]>>;
}

/// A [`TurnStore`] in memory, bounded by bytes and by turns: the oldest go first.
///
/// The bytes of values are counted as they are, and each turn and key with a fixed price that covers the tables.
///
/// ```
/// use callweave::request::{TurnCache, TurnKey, TurnStore};
///
/// let cache = TurnCache::new(1_000, 10);
/// cache.put(&[TurnKey([1; 16])], b"old");
/// assert_eq!(cache.get(&TurnKey([1; 16])).as_deref(), Some(&b"old"[..]));
/// cache.put(&[TurnKey([2; 16])], &[0; 700]);
/// assert_eq!(cache.get(&TurnKey([1; 16])), None);
/// assert!(cache.bytes() <= 1_000);
/// ```
pub struct TurnCache {
    max_bytes: usize,
    max_turns: usize,
    held: Mutex<CachedTurn>,
}

#[derive(Default)]
struct CachedTurn {
    /// The turns by age.
    turns: BTreeMap<u64, TurnEntry>,
    ages: HashMap<TurnKey, u64>,
    next: u64,
    bytes: usize,
}

struct TurnEntry {
    keys: Box<[TurnKey]>,
    value: Arc<[u8]>,
}

/// The memory of a turn beside its value and its keys, in bytes.
const TURN_PRICE: usize = 128;

/// The memory of a key, in bytes: it stands in the turn and in the table, which may be less than half full.
const KEY_PRICE: usize = 96;

impl TurnEntry {
    fn price(keys: usize, value: usize) -> usize {
        keys.saturating_mul(KEY_PRICE).saturating_add(value).saturating_add(TURN_PRICE)
    }
}

impl TurnCache {
    /// An empty cache that holds at most that number of bytes and of turns.
    pub fn new(max_bytes: usize, max_turns: usize) -> Self {
        Self { max_bytes, max_turns, held: Mutex::default() }
    }

    /// The bytes that are held.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The number of turns that are held.
    pub fn len(&self) -> usize {
        self.lock().turns.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.lock() = CachedTurn::default();
    }

    fn lock(&self) -> MutexGuard<'_, CachedTurn> {
        // No other code runs while it is locked.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedTurn {
    fn remove(&mut self, age: u64) {
        let Some(turn) = self.turns.remove(&age) else { return };
        self.bytes -= TurnEntry::price(turn.keys.len(), turn.value.len());
        for key in &turn.keys {
            if self.ages.get(key) == Some(&age) {
                self.ages.remove(key);
            }
        }
    }

    /// Whether none of its keys leads to a turn any more.
    fn is_hidden(&self, age: u64) -> bool {
        let keys = self.turns.get(&age).map(|turn| &*turn.keys).unwrap_or_default();
        keys.iter().all(|key| self.ages.get(key) != Some(&age))
    }
}

impl TurnStore for TurnCache {
    fn put(&self, keys: &[TurnKey], value: &[u8]) {
        let price = TurnEntry::price(keys.len(), value.len());
        if keys.is_empty() || price > self.max_bytes || self.max_turns == 0 {
            return;
        }
        let mut held = self.lock();
        let age = held.next;
        held.next += 1;
        for key in keys {
            if let Some(older) = held.ages.insert(*key, age)
                && older != age
                && held.is_hidden(older)
            {
                held.remove(older);
            }
        }
        while held.bytes + price > self.max_bytes || held.turns.len() >= self.max_turns {
            let Some((&oldest, _)) = held.turns.first_key_value() else { break };
            held.remove(oldest);
        }
        held.bytes += price;
        held.turns.insert(age, TurnEntry { keys: keys.into(), value: value.into() });
        // After a burst of turns with many keys the table would stay as large as it ever was.
        if held.ages.capacity() > 64 && held.ages.len() < held.ages.capacity() / 4 {
            held.ages.shrink_to_fit();
        }
    }

    fn get(&self, key: &TurnKey) -> Option<Arc<[u8]>> {
        let held = self.lock();
        let age = held.ages.get(key)?;
        Some(held.turns.get(age)?.value.clone())
    }
}

impl fmt::Debug for TurnCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.lock();
        f.debug_struct("TurnCache").field("turns", &held.turns.len()).field("bytes", &held.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u16) -> TurnKey {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        TurnKey(bytes)
    }

    #[test]
    fn the_oldest_go_first_and_bounds_hold() {
        let cache = TurnCache::new(10_000, 20);
        for number in 0..1000_u16 {
            cache.put(&[key(number), key(number + 5000)], &vec![0; usize::from(number) * 3]);
            assert!(cache.bytes() <= 10_000 && cache.len() <= 20);
        }
        assert!(!cache.is_empty() && cache.get(&key(999)).is_some() && cache.get(&key(5999)).is_some());
        assert!(cache.get(&key(0)).is_none());
        let turns =
            cache.lock().turns.values().map(|turn| TurnEntry::price(2, turn.value.len())).sum::<usize>();
        assert_eq!(cache.bytes(), turns);
        cache.put(&[key(1)], &vec![0; 10_000]);
        assert!(cache.get(&key(1)).is_none(), "what is too large is not kept, and pushes nobody out");
        assert!(cache.get(&key(999)).is_some());
    }

    #[test]
    fn a_turn_without_keys_is_gone() {
        let cache = TurnCache::new(10_000, 20);
        cache.put(&[key(1), key(2)], b"old");
        cache.put(&[key(1)], b"new");
        assert_eq!(cache.get(&key(2)).as_deref(), Some(&b"old"[..]));
        cache.put(&[key(2)], b"newer");
        assert_eq!(cache.len(), 2);
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"new"[..]));
    }
}
