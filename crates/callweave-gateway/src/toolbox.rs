//! The tools of requests, made ready once: agents declare the same ones with every request, and their schemas are work.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

use callweave::Tools;
use callweave::protocol::Protocol;

/// So many sets of tools are kept.
const MOST: usize = 32;

/// Sets of tools, the last used first.
#[derive(Default)]
pub(crate) struct Toolbox {
    hasher: RandomState,
    sets: Mutex<Vec<(u64, Declared)>>,
}

/// Tools that are ready.
#[derive(Clone)]
pub(crate) struct Declared {
    /// Those that the client runs.
    pub(crate) tools: Tools,
    /// Whether nothing was declared at all, not even what others run.
    pub(crate) is_empty: bool,
}

impl Toolbox {
    /// What declarations in a protocol are known by. Nobody outside can make two that are known by the same.
    pub(crate) fn mark<'d>(&self, protocol: &Protocol, declared: impl Iterator<Item = &'d str>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        protocol.name.hash(&mut hasher);
        declared.for_each(|text| text.hash(&mut hasher));
        hasher.finish()
    }

    /// The tools of that mark, for an upstream that knows them by these names; made if they are not kept.
    pub(crate) fn get(
        &self,
        mark: u64,
        names: &[(String, String)],
        make: impl FnOnce() -> Declared,
    ) -> Declared {
        let mark = self.hasher.hash_one((mark, names));
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = sets.iter().position(|(own, _)| *own == mark) {
            sets[..=at].rotate_right(1);
            return sets[0].1.clone();
        }
        drop(sets);
        let made = make();
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.truncate(MOST - 1);
        sets.insert(0, (mark, made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT};

    fn tools(name: &str) -> Declared {
        let mut tools = Tools::default();
        tools.declare(name, None);
        Declared { tools, is_empty: false }
    }

    fn has(toolbox: &Toolbox, mark: u64, names: &[(String, String)], made: &str, name: &str) -> bool {
        toolbox.get(mark, names, || tools(made)).tools.contains(name)
    }

    #[test]
    fn a_set_is_made_once_for_each_upstreams_names() {
        let (toolbox, other) = (Toolbox::default(), [("a_".to_owned(), "a".to_owned())]);
        let mark = toolbox.mark(&OPENAI_CHAT, ["a"].into_iter());
        assert!(has(&toolbox, mark, &[], "a", "a"));
        assert!(has(&toolbox, mark, &other, "a_", "a_"));
        assert!(has(&toolbox, mark, &[], "never", "a"));
    }

    #[test]
    fn what_is_declared_otherwise_is_another_set() {
        let toolbox = Toolbox::default();
        let marks = [
            toolbox.mark(&OPENAI_CHAT, ["a"].into_iter()),
            toolbox.mark(&OPENAI_CHAT, ["b"].into_iter()),
            toolbox.mark(&OPENAI_CHAT, ["a", "b"].into_iter()),
            toolbox.mark(&OPENAI_CHAT, ["ab"].into_iter()),
            toolbox.mark(&ANTHROPIC_MESSAGES, ["a"].into_iter()),
        ];
        for (at, mark) in marks.iter().enumerate() {
            assert!(!marks[..at].contains(mark), "{at}");
        }
    }

    #[test]
    fn those_that_nobody_uses_leave() {
        let toolbox = Toolbox::default();
        for mark in 0..100 {
            toolbox.get(mark, &[], || tools("x"));
            toolbox.get(0, &[], || tools("y"));
        }
        assert!(has(&toolbox, 0, &[], "never", "x"));
        assert!(has(&toolbox, 1, &[], "new", "new"));
    }
}
