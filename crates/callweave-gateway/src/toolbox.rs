//! The tools of requests, made ready once: agents declare the same ones with every request, and their schemas are work.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use callweave::{Tools, Value};

/// So many sets of tools are kept.
const MOST: usize = 32;

/// Sets of tools, the last used first.
#[derive(Default)]
pub(crate) struct Toolbox {
    hasher: RandomState,
    sets: Mutex<Vec<(u64, Tools)>>,
}

impl Toolbox {
    /// What a declaration is known by. Nobody outside can make two that are known by the same.
    pub(crate) fn mark(&self, declared: Option<&Value>) -> u64 {
        self.hasher.hash_one(declared)
    }

    /// The tools of that mark, for an upstream that knows them by these names; made if they are not kept.
    pub(crate) fn get(&self, mark: u64, names: &[(String, String)], make: impl FnOnce() -> Tools) -> Tools {
        let mark = self.hasher.hash_one((mark, names));
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = sets.iter().position(|(own, _)| *own == mark) {
            sets[..=at].rotate_right(1);
            return sets[0].1.clone();
        }
        drop(sets);
        let tools = make();
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.truncate(MOST - 1);
        sets.insert(0, (mark, tools.clone()));
        tools
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(name: &str) -> Tools {
        let mut tools = Tools::default();
        tools.declare(name, None);
        tools
    }

    #[test]
    fn a_set_is_made_once_for_each_upstreams_names() {
        let (toolbox, other) = (Toolbox::default(), [("a_".to_owned(), "a".to_owned())]);
        let mark = toolbox.mark(Some(&Value::from("a")));
        assert!(toolbox.get(mark, &[], || tools("a")).contains("a"));
        assert!(toolbox.get(mark, &other, || tools("a_")).contains("a_"));
        assert!(toolbox.get(mark, &[], || tools("never")).contains("a"));
        assert_ne!(mark, toolbox.mark(Some(&Value::from("b"))));
    }

    #[test]
    fn those_that_nobody_uses_leave() {
        let toolbox = Toolbox::default();
        for mark in 0..100 {
            toolbox.get(mark, &[], || tools("x"));
            toolbox.get(0, &[], || tools("y"));
        }
        assert!(toolbox.get(0, &[], || tools("never")).contains("x"));
        assert!(toolbox.get(1, &[], || tools("new")).contains("new"));
    }
}
