//! Responses that clients may refer to by id.
//!
//! Everything is stored as JSON text, which is its size in memory, and every turn of a conversation once: a response
//! points to the turn before it. The count is of the bytes that would be freed, so the store holds no more than it
//! says.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callweave::exchange::store::{ExchangeStore, StoreScope, StoredResponse, StoredTurn};
use callweave::request::{TurnCache, TurnKey, TurnStore};
use tokio::time::Instant;

use crate::config;

/// A store in memory. The oldest responses make room for new ones.
///
/// A response that is forgotten takes its turns with it, unless a later response of the same conversation is still
/// stored: that one can be followed as before. A response whose conversation alone is larger than the store is not
/// stored.
pub struct MemoryStore {
    limits: config::StoreConfig,
    state: Mutex<StoreState>,
    seals: TurnCache,
}

type StoreKey = (StoreScope, String);

#[derive(Default)]
struct StoreState {
    kept: HashMap<StoreKey, (u64, Arc<StoredResponse>)>,
    /// In the order in which they were kept: the number of each, and when that was.
    order: VecDeque<(u64, Instant, StoreKey)>,
    /// The number of stored responses and turns that hold each turn. A turn is known by its address: while it is held
    /// it stays there.
    turns: HashMap<usize, usize>,
    bytes: usize,
    next: u64,
}
impl MemoryStore {
    /// A store with these limits.
    pub fn new(limits: config::StoreConfig) -> Self {
        Self { seals: TurnCache::new(limits.seal_bytes, MAX_SEALED_TURNS), limits, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, StoreState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(self.limits.expiry);
        state
    }
}

/// The number of turns whose seals are kept.
const MAX_SEALED_TURNS: usize = 100_000;

impl TurnStore for MemoryStore {
    fn put(&self, keys: &[TurnKey], value: &[u8]) {
        self.seals.put(keys, value);
    }

    fn get(&self, key: &TurnKey) -> Option<Arc<[u8]>> {
        self.seals.get(key)
    }
}

impl ExchangeStore for MemoryStore {
    fn response(&self, client: &StoreScope, id: &str) -> Option<Arc<StoredResponse>> {
        let state = self.state();
        state.kept.get(&(*client, id.to_owned())).map(|(_, kept)| Arc::clone(kept))
    }

    fn put_response(&self, client: &StoreScope, id: &str, kept: StoredResponse) {
        let key = (*client, id.to_owned());
        if size_of_response(&key, &kept) + kept.turn.total_size() > self.limits.bytes {
            return;
        }
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.remove(&key);
        state.bytes += size_of_response(&key, &kept);
        state.hold(&kept.turn);
        state.order.push_back((number, Instant::now(), key.clone()));
        state.kept.insert(key, (number, Arc::new(kept)));
        while state.kept.len() > self.limits.responses || state.bytes > self.limits.bytes {
            state.forget_oldest();
        }
    }

    fn remove_response(&self, client: &StoreScope, id: &str) -> bool {
        self.state().remove(&(*client, id.to_owned()))
    }
}

impl StoreState {
    /// Counts a turn, and those before it, unless they are counted already.
    fn hold(&mut self, turn: &Arc<StoredTurn>) {
        let mut next = Some(turn);
        while let Some(turn) = next {
            let holders = self.turns.entry(Arc::as_ptr(turn).addr()).or_default();
            *holders += 1;
            if *holders > 1 {
                return;
            }
            self.bytes += turn.size();
            next = turn.earlier();
        }
    }

    /// Counts a turn no longer, nor those before it, unless others hold them.
    fn release(&mut self, turn: &Arc<StoredTurn>) {
        let mut next = Some(turn);
        while let Some(turn) = next {
            let Some(holders) = self.turns.get_mut(&Arc::as_ptr(turn).addr()) else { return };
            *holders -= 1;
            if *holders > 0 {
                return;
            }
            self.turns.remove(&Arc::as_ptr(turn).addr());
            self.bytes -= turn.size();
            next = turn.earlier();
        }
    }

    fn expire(&mut self, expiry: Duration) {
        let now = Instant::now();
        while self.order.front().is_some_and(|(_, since, _)| now.duration_since(*since) >= expiry) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((number, _, key)) = self.order.pop_front() else { return };
        // It may have been removed, or kept anew.
        if self.kept.get(&key).is_some_and(|(own, _)| *own == number) {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &(StoreScope, String)) -> bool {
        let removed = self.kept.remove(key);
        if let Some((_, kept)) = &removed {
            self.bytes -= size_of_response(key, kept);
            self.release(&kept.turn);
        }
        // Entries of what was removed are few, or leave with time.
        if self.order.len() > 2 * self.kept.len() + 16 {
            let Self { kept, order, .. } = self;
            order.retain(|(number, _, key)| kept.get(key).is_some_and(|(own, _)| own == number));
        }
        removed.is_some()
    }
}

/// The memory that a response takes, without its conversation.
fn size_of_response((_, id): &StoreKey, kept: &StoredResponse) -> usize {
    // Its key stands in two tables.
    kept.body.len()
        + 2 * (size_of::<StoreKey>() + id.len() + StoredTurn::OVERHEAD)
        + size_of::<StoredResponse>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of an empty response.
    fn empty() -> usize {
        let kept = kept(0);
        size_of_response(&(StoreScope::default(), "a".to_owned()), &kept) + kept.turn.size()
    }

    fn kept(size: usize) -> StoredResponse {
        following(None, size)
    }

    fn following(earlier: Option<&StoredResponse>, size: usize) -> StoredResponse {
        let turn = StoredTurn::new(
            earlier.map(|earlier| Arc::clone(&earlier.turn)),
            "x".repeat(size),
            String::new(),
        );
        StoredResponse { turn: Arc::new(turn), body: Arc::default() }
    }

    fn memory(responses: usize, bytes: usize) -> MemoryStore {
        MemoryStore::new(config::StoreConfig {
            responses,
            bytes,
            expiry: Duration::from_secs(60),
            ..config::StoreConfig::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_their_clients_alone_and_leave_with_time() {
        let (store, one, two) = (memory(9, 9999), StoreScope([1; 32]), StoreScope([2; 32]));
        store.put_response(&one, "a", kept(1));
        assert!(store.response(&one, "a").is_some() && store.response(&two, "a").is_none());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(store.response(&one, "a").is_none());
    }

    #[tokio::test]
    async fn the_oldest_make_room() {
        let (store, client) = (memory(2, 2 * empty() + 10), StoreScope([1; 32]));
        for (id, size) in [("a", 1), ("b", 1), ("c", 1)] {
            store.put_response(&client, id, kept(size));
        }
        assert!(store.response(&client, "a").is_none() && store.response(&client, "b").is_some());
        store.put_response(&client, "d", kept(empty() + 10));
        assert!(store.response(&client, "c").is_none() && store.response(&client, "d").is_some());
        store.put_response(&client, "e", kept(empty() + 11));
        assert!(store.response(&client, "e").is_none() && store.response(&client, "d").is_some());
        assert!(store.remove_response(&client, "d") && !store.remove_response(&client, "d"));
        assert_eq!(store.state().bytes, 0);
    }

    #[tokio::test]
    async fn keeping_the_same_again_does_not_grow() {
        let (store, client) = (memory(100, 1 << 20), StoreScope([1; 32]));
        for _ in 0..500 {
            store.put_response(&client, "a", kept(10));
        }
        let state = store.state();
        assert!(
            state.order.len() < 50 && state.bytes == empty() + 10,
            "{} {}",
            state.order.len(),
            state.bytes
        );
    }

    /// The first response leaves, and the turns that its successors need stay and are counted, once.
    #[tokio::test]
    async fn a_conversation_is_held_and_counted_as_long_as_one_of_its_answers_is_kept() {
        let (store, client) = (memory(2, 1 << 20), StoreScope([1; 32]));
        let first = kept(1000);
        let (second, other) = (following(Some(&first), 500), following(Some(&first), 300));
        for (id, kept) in [("a", first), ("b", second), ("c", other)] {
            store.put_response(&client, id, kept);
        }
        assert!(store.response(&client, "a").is_none());
        let of_first = kept(1000).turn.size();
        assert_eq!(store.state().bytes, 2 * empty() + of_first + 800);
        assert!(store.remove_response(&client, "b"));
        assert_eq!(store.state().bytes, empty() + of_first + 300);
        assert!(store.remove_response(&client, "c"));
        let state = store.state();
        assert_eq!((state.bytes, state.turns.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_conversation_that_is_larger_than_the_store_is_not_kept() {
        let (store, client) = (memory(100, 50_000), StoreScope([1; 32]));
        let mut last = kept(10_000);
        for number in 0..100 {
            store.put_response(&client, &number.to_string(), last.clone());
            assert!(store.state().bytes <= 50_000);
            last = following(Some(&last), 10_000);
        }
        assert!(store.response(&client, "3").is_some() && store.response(&client, "99").is_none());
    }

    #[test]
    fn a_long_conversation_needs_no_stack() {
        let mut last = kept(0);
        for _ in 0..200_000 {
            last = following(Some(&last), 0);
        }
        drop(last);
    }
}
