//! Answers that clients may refer to by id.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use callweave::request::Message;
use tokio::time::Instant;

use crate::config;
use crate::keys::Digest;

/// What is kept of an answer.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The conversation up to and with the answer, turn by turn. Turns are shared by the answers that follow them.
    pub turns: Vec<Arc<Vec<Message>>>,
    /// The answer, as the client got it.
    pub body: Bytes,
    /// How much room it takes, about.
    pub size: usize,
}

/// Keeps answers. What is kept for one client no other one gets.
pub trait Store: Send + Sync {
    /// The answer of that id, if it was kept for this client and still is.
    fn get(&self, client: &Digest, id: &str) -> Option<Arc<Kept>>;
    /// Keeps an answer.
    fn put(&self, client: &Digest, id: &str, kept: Kept);
    /// Forgets an answer; whether there was one.
    fn remove(&self, client: &Digest, id: &str) -> bool;
}

/// A store in memory. The oldest answers make room for new ones.
pub struct Memory {
    limits: config::Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: HashMap<(Digest, String), (u64, Arc<Kept>)>,
    /// In the order in which they were kept: the number of each, and when that was.
    order: VecDeque<(u64, Instant, (Digest, String))>,
    bytes: usize,
    next: u64,
}

impl Memory {
    /// A store that keeps so much at most.
    pub fn new(limits: config::Store) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(self.limits.expiry);
        state
    }
}

impl Store for Memory {
    fn get(&self, client: &Digest, id: &str) -> Option<Arc<Kept>> {
        let state = self.state();
        state.kept.get(&(*client, id.to_owned())).map(|(_, kept)| Arc::clone(kept))
    }

    fn put(&self, client: &Digest, id: &str, kept: Kept) {
        if kept.size > self.limits.bytes {
            return;
        }
        let mut state = self.state();
        let (number, size, key) = (state.next, kept.size, (*client, id.to_owned()));
        state.next += 1;
        state.remove(&key);
        state.bytes += size;
        state.order.push_back((number, Instant::now(), key.clone()));
        state.kept.insert(key, (number, Arc::new(kept)));
        while state.kept.len() > self.limits.answers || state.bytes > self.limits.bytes {
            state.forget_oldest();
        }
    }

    fn remove(&self, client: &Digest, id: &str) -> bool {
        self.state().remove(&(*client, id.to_owned()))
    }
}

impl State {
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

    fn remove(&mut self, key: &(Digest, String)) -> bool {
        let removed = self.kept.remove(key);
        self.bytes -= removed.as_ref().map_or(0, |(_, kept)| kept.size);
        // Entries of what was removed are few, or leave with time.
        if self.order.len() > 2 * self.kept.len() + 16 {
            let Self { kept, order, .. } = self;
            order.retain(|(number, _, key)| kept.get(key).is_some_and(|(own, _)| own == number));
        }
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(size: usize) -> Kept {
        Kept { turns: Vec::new(), body: Bytes::new(), size }
    }

    fn memory(answers: usize, bytes: usize) -> Memory {
        Memory::new(config::Store { answers, bytes, expiry: Duration::from_secs(60) })
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_their_clients_alone_and_leave_with_time() {
        let (store, one, two) = (memory(9, 99), Digest::of("one"), Digest::of("two"));
        store.put(&one, "a", kept(1));
        assert!(store.get(&one, "a").is_some() && store.get(&two, "a").is_none());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(store.get(&one, "a").is_none());
    }

    #[tokio::test]
    async fn the_oldest_make_room() {
        let (store, client) = (memory(2, 10), Digest::of("one"));
        for (id, size) in [("a", 1), ("b", 1), ("c", 1)] {
            store.put(&client, id, kept(size));
        }
        assert!(store.get(&client, "a").is_none() && store.get(&client, "b").is_some());
        store.put(&client, "d", kept(10));
        assert!(store.get(&client, "c").is_none() && store.get(&client, "d").is_some());
        store.put(&client, "e", kept(11));
        assert!(store.get(&client, "e").is_none() && store.get(&client, "d").is_some());
        assert!(store.remove(&client, "d") && !store.remove(&client, "d"));
    }

    #[tokio::test]
    async fn keeping_the_same_again_does_not_grow() {
        let (store, client) = (memory(100, 1000), Digest::of("one"));
        for _ in 0..500 {
            store.put(&client, "a", kept(10));
        }
        let state = store.state();
        assert!(state.order.len() < 50 && state.bytes == 10, "{} {}", state.order.len(), state.bytes);
    }
}
