//! The tools of requests, made ready once: agents declare the same ones with every request, and their schemas are work.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::dialect::Tools;
use crate::protocol::Protocol;

/// The number of sets that are kept.
const MAX_SETS: usize = 32;

/// Sets of tools, the last used first.
#[derive(Default)]
pub(super) struct ToolCache {
    hasher: RandomState,
    sets: Mutex<Vec<(u64, DeclaredTools)>>,
}

/// Prepared tools.
#[derive(Clone)]
pub(super) struct DeclaredTools {
    /// The tools that the client runs.
    pub(super) tools: Tools,
    /// Whether nothing was declared at all, not even tools that the provider runs.
    pub(super) is_empty: bool,
}

impl ToolCache {
    /// The key of declarations in a protocol. It is a keyed hash: no client can make two declarations with one key.
    pub(super) fn key<'d>(&self, protocol: &Protocol, declared: impl Iterator<Item = &'d str>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        protocol.name.hash(&mut hasher);
        declared.for_each(|text| text.hash(&mut hasher));
        hasher.finish()
    }

    /// The tools with that key, for an upstream that knows them by these names; prepared now if they are not kept.
    pub(super) fn get(
        &self,
        key: u64,
        names: &[(String, String)],
        make: impl FnOnce() -> DeclaredTools,
    ) -> DeclaredTools {
        let key = self.hasher.hash_one((key, names));
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = sets.iter().position(|(own, _)| *own == key) {
            sets[..=at].rotate_right(1);
            return sets[0].1.clone();
        }
        drop(sets);
        let made = make();
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.truncate(MAX_SETS - 1);
        sets.insert(0, (key, made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT};

    fn tools(name: &str) -> DeclaredTools {
        let mut tools = Tools::default();
        tools.declare(name, None);
        DeclaredTools { tools, is_empty: false }
    }

    fn has(cache: &ToolCache, key: u64, names: &[(String, String)], made: &str, name: &str) -> bool {
        cache.get(key, names, || tools(made)).tools.contains(name)
    }

    #[test]
    fn a_set_is_made_once_for_each_upstreams_names() {
        let (cache, other) = (ToolCache::default(), [("a_".to_owned(), "a".to_owned())]);
        let key = cache.key(&OPENAI_CHAT, ["a"].into_iter());
        assert!(has(&cache, key, &[], "a", "a"));
        assert!(has(&cache, key, &other, "a_", "a_"));
        assert!(has(&cache, key, &[], "never", "a"));
    }

    #[test]
    fn what_is_declared_otherwise_is_another_set() {
        let cache = ToolCache::default();
        let keys = [
            cache.key(&OPENAI_CHAT, ["a"].into_iter()),
            cache.key(&OPENAI_CHAT, ["b"].into_iter()),
            cache.key(&OPENAI_CHAT, ["a", "b"].into_iter()),
            cache.key(&OPENAI_CHAT, ["ab"].into_iter()),
            cache.key(&ANTHROPIC_MESSAGES, ["a"].into_iter()),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }

    #[test]
    fn those_that_nobody_uses_leave() {
        let cache = ToolCache::default();
        for key in 0..100 {
            cache.get(key, &[], || tools("x"));
            cache.get(0, &[], || tools("y"));
        }
        assert!(has(&cache, 0, &[], "never", "x"));
        assert!(has(&cache, 1, &[], "new", "new"));
    }
}
