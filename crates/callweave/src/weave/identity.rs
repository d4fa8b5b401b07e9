//! The call that a fragment continues: the rules of identity, as one table for all protocols.
//!
//! A fragment is described by [`IdentityEvidence`]; the first of [`RULES`] that applies decides. Ids and block keys are
//! aliases of each other once they were seen together. Each rule has a case under `tests/data/protocol` whose response
//! comes out wrong without it; the tests of this module remove the rules one by one to check that.

use super::block_state::BlockState;
use super::choice::CallPiece;
use crate::fragment::{BlockAddress, FragmentArguments};
use crate::json::compact_into;

/// A fragment of a call, with the state of the calls that it may belong to.
pub(super) struct IdentityEvidence<'e> {
    pub(super) states: &'e [BlockState],
    pub(super) piece: &'e CallPiece<'e>,
    pub(super) id: Option<&'e str>,
    pub(super) name: Option<&'e str>,
    pub(super) frame: u64,
    /// The call of that id; of several, the one at the block key.
    pub(super) by_id: Option<usize>,
    /// The call at the block key.
    pub(super) by_place: Option<usize>,
    /// The call of the latest fragment, if it is open.
    pub(super) last_open: Option<usize>,
    /// Whether the call at the block key belongs to the item there, which is still open.
    pub(super) is_in_item: bool,
}

/// The call that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdentityVerdict {
    /// The call that has the id.
    ById,
    /// The call at the block key.
    ByPlace,
    /// The call of the latest fragment.
    Last,
    /// A call of its own.
    New,
}

struct IdentityRule {
    verdict: IdentityVerdict,
    /// The rule's name, for the tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "documents the rule, and names it in the tests"))]
    reason: &'static str,
    applies: fn(&IdentityEvidence<'_>) -> bool,
}

impl IdentityRule {
    /// Whether a test leaves the rule out.
    #[cfg(test)]
    fn is_left_out(&self) -> bool {
        tests::REMOVED.get() == Some(self.reason)
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn is_left_out(&self) -> bool {
        false
    }
}

const fn rule(
    verdict: IdentityVerdict,
    reason: &'static str,
    applies: fn(&IdentityEvidence<'_>) -> bool,
) -> IdentityRule {
    IdentityRule { verdict, reason, applies }
}

use IdentityVerdict::{ById, ByPlace, Last, New};

const RULES: &[IdentityRule] = &[
    rule(New, "an announcement with a known id, of another call", |it| {
        it.is_announcement()
            && it.known().is_some_and(|call| !call.is_announced_by(it.name, it.piece.arguments))
    }),
    rule(New, "a known id at another number, and another name", |it| {
        it.is_elsewhere() && it.known().is_some_and(|call| it.renames(call))
    }),
    rule(New, "a known id and a name at another number, and the arguments begin", |it| {
        it.is_elsewhere() && it.name.is_some() && it.known().is_some_and(|call| it.begins(call))
    }),
    rule(New, "a known id and a name, and another value after a complete one", |it| {
        it.names_complete_call()
            && it.is_piece()
            && it.known().is_some_and(|call| !it.is_placeholder(call) && !it.extends(call))
    }),
    // `[{"id": "call", "name": "f", "arguments": {…}}, {"id": "call", "name": "g", "arguments": {…}}]`
    rule(New, "a known id in the list that told it first, with another name or value", |it| {
        it.names_complete_call()
            && it.known().is_some_and(|call| {
                call.frame == it.frame
                    && (!it.is_piece() || it.is_placeholder(call))
                    && (it.renames(call) || !it.extends(call))
            })
    }),
    rule(ById, "a known id", |it| it.by_id.is_some()),
    rule(ByPlace, "the announcement of arguments that came before it", |it| {
        it.is_announcement() && it.there().is_some_and(|call| !call.is_named_call())
    }),
    rule(New, "an announcement", |it| it.is_announcement() && it.piece.place.is_some()),
    // Responses gives a tool search one id when it begins and another when it ends.
    rule(ByPlace, "the end of an item, which gives its call another id", |it| {
        it.is_in_item
            && !it.is_empty_piece()
            && it.there().is_some_and(|call| {
                call.is_open() && !it.renames(call) && (!call.is_complete_call() || it.extends(call))
            })
    }),
    rule(New, "another id, and a name", |it| {
        it.id.is_some() && it.name.is_some() && it.there().is_some_and(BlockState::has_any_id)
    }),
    rule(New, "an id and a name after the call there has ended", |it| {
        it.id.is_some() && it.name.is_some() && it.there().is_some_and(|call| !call.is_open())
    }),
    rule(New, "another name after a complete value", |it| {
        it.id.is_none()
            && it
                .there()
                .is_some_and(|call| call.is_complete_call() && call.is_named_call() && it.renames(call))
    }),
    rule(New, "a name and another value after a complete one", |it| {
        it.id.is_none()
            && it.name.is_some()
            && it.there().is_some_and(|call| call.is_complete_call() && !it.extends(call))
    }),
    rule(New, "a name in the list that told a complete value first", |it| {
        it.id.is_none()
            && it.name.is_some()
            && it
                .there()
                .is_some_and(|call| call.frame == it.frame && call.is_complete_call() && call.is_named_call())
    }),
    rule(ByPlace, "the call there", |it| it.by_place.is_some()),
    rule(Last, "arguments at a number that nobody announced, after a call without any", |it| {
        it.is_unannounced() && it.last().is_some_and(|call| !call.has_opening() && !call.has_text())
    }),
    rule(Last, "arguments at a number that nobody announced, after a call without a number", |it| {
        it.is_unannounced()
            && it
                .last()
                .is_some_and(|call| !call.has_opening() && !call.has_index() && !call.is_complete_call())
    }),
    rule(Last, "no number and no name", |it| {
        it.piece.place.is_none() && it.name.is_none() && it.last_open.is_some()
    }),
    rule(Last, "the name of arguments that came before it, without a number", |it| {
        it.piece.place.is_none()
            && it.last().is_some_and(|call| {
                !call.is_named_call()
                    && call.has_text()
                    && it.extends(call)
                    && !(it.id.is_some() && call.has_any_id())
            })
    }),
    rule(New, "nothing else is known of it", |_| true),
];

impl IdentityEvidence<'_> {
    /// The call that the fragment belongs to; none if it is a new one.
    pub(super) fn locate(&self) -> Option<usize> {
        let rule = RULES.iter().find(|rule| !rule.is_left_out() && (rule.applies)(self));
        match rule.map_or(New, |rule| rule.verdict) {
            ById => self.by_id,
            ByPlace => self.by_place,
            Last => self.last_open,
            New => None,
        }
    }

    fn state(&self, at: Option<usize>) -> Option<&BlockState> {
        at.and_then(|at| self.states.get(at))
    }

    fn known(&self) -> Option<&BlockState> {
        self.state(self.by_id)
    }

    fn there(&self) -> Option<&BlockState> {
        self.state(self.by_place)
    }

    fn last(&self) -> Option<&BlockState> {
        self.state(self.last_open)
    }

    fn is_announcement(&self) -> bool {
        matches!(self.piece.arguments, Some(FragmentArguments::Opening { .. }))
    }

    /// Whether the arguments come in pieces.
    fn is_piece(&self) -> bool {
        matches!(self.piece.arguments, Some(FragmentArguments::Text(_)))
    }

    /// Whether the arguments are stated to be empty so far.
    fn is_empty_piece(&self) -> bool {
        matches!(self.piece.arguments, Some(FragmentArguments::Text(text)) if text.is_empty())
    }

    /// Whether the arguments so far are only a placeholder for the ones that come in pieces.
    fn is_placeholder(&self, call: &BlockState) -> bool {
        call.is_placeholder()
    }

    /// Whether the block key has another number than the call of the id, and no call is there.
    fn is_elsewhere(&self) -> bool {
        let is_at = |place: BlockAddress| {
            self.known()
                .and_then(BlockState::as_call)
                .is_none_or(|call| call.index.is_none_or(|index| place.number() == Some(index)))
        };
        self.by_place.is_none() && self.piece.place.is_some_and(|place| !is_at(place))
    }

    fn renames(&self, call: &BlockState) -> bool {
        self.name.is_some_and(|name| call.as_call().is_some_and(|call| call.name.as_str() != name))
    }

    /// Whether the arguments begin here, and do not continue the arguments of the call.
    fn begins(&self, call: &BlockState) -> bool {
        match self.piece.arguments {
            None => true,
            Some(FragmentArguments::Text(text)) => {
                !call.has_text()
                    || text.reveal_json().starts_with('{')
                    || text.is_empty() && call.is_complete_call()
            }
            Some(_) => false,
        }
    }

    /// Whether a complete call of the id is named again, and not at its own block key.
    fn names_complete_call(&self) -> bool {
        self.name.is_some()
            && self.by_place != self.by_id
            && self.known().is_some_and(BlockState::is_complete_call)
    }

    /// Whether it is arguments alone, at a block key without a call.
    fn is_unannounced(&self) -> bool {
        self.piece.place.is_some() && self.id.is_none() && self.name.is_none()
    }

    /// Whether the arguments continue the arguments of the call, or restate them.
    fn extends(&self, call: &BlockState) -> bool {
        match self.piece.arguments {
            None | Some(FragmentArguments::Leaf { .. } | FragmentArguments::Opening { .. }) => true,
            Some(FragmentArguments::Text(text)) if text.reveal_json().trim_ascii().is_empty() => true,
            Some(FragmentArguments::Text(text) | FragmentArguments::Complete(text)) => {
                text.is_empty() || call.is_extended_by(&text.reveal().to_cow())
            }
            Some(FragmentArguments::Value(json)) => {
                let mut compact = String::new();
                compact_into(json.reveal_json(), &mut compact);
                call.is_extended_by(&compact)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{New, RULES};
    use crate::compat::loose::LooseDecoder;
    use crate::{Accumulator, Decoder, Message, Protocol};

    thread_local! {
        /// The removed rule.
        pub(super) static REMOVED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    fn children(folder: &Path) -> Vec<PathBuf> {
        let mut paths: Vec<_> = fs::read_dir(folder)
            .expect("a readable folder")
            .map(|entry| entry.expect("a readable entry").path())
            .collect();
        paths.sort();
        paths
    }

    fn decode(protocol: &'static Protocol, input: &[u8]) -> Vec<Message> {
        let (mut messages, mut decoder) = (Accumulator::new(), Decoder::new(protocol));
        // Some cases are damaged on purpose.
        let _ = decoder.push(input, &mut messages);
        let _ = decoder.finish(&mut messages);
        messages.take_all()
    }

    fn collect(input: &[u8]) -> Vec<Message> {
        let (mut loose, mut messages) = (LooseDecoder::new(), Accumulator::new());
        for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let fragment: serde_json::Value = serde_json::from_slice(line).expect("a fragment");
            loose.push(&fragment, &mut messages);
        }
        loose.finish(&mut messages);
        messages.take_all()
    }

    /// A case, and the protocol that reads it; without a protocol it is loose fragments.
    struct IdentityCase {
        folder: PathBuf,
        protocol: Option<&'static Protocol>,
        input: Vec<u8>,
    }

    impl IdentityCase {
        fn read(&self) -> Vec<Message> {
            self.protocol.map_or_else(|| collect(&self.input), |protocol| decode(protocol, &self.input))
        }
    }

    fn cases_in(folder: &Path, protocol: Option<&'static Protocol>) -> impl Iterator<Item = IdentityCase> {
        children(folder).into_iter().map(move |folder| {
            let is_input = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "input");
            let input = children(&folder).into_iter().find(is_input).expect("an input");
            IdentityCase { folder, protocol, input: fs::read(input).expect("a readable input") }
        })
    }

    fn data() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
    }

    #[test]
    fn loose_cases_give_the_expected_calls() {
        for case in cases_in(&data().join("loose"), None) {
            let messages = case.read();
            let calls = messages.iter().flat_map(Message::tool_calls);
            let told: Vec<_> =
                calls.map(|call| [&call.id, &call.name, call.arguments()].map(str::to_owned)).collect();
            let expected = fs::read(case.folder.join("expected.json")).expect("what is expected");
            let expected: Vec<[String; 3]> = serde_json::from_slice(&expected).expect("a list of calls");
            assert_eq!(told, expected, "{}", case.folder.display());
        }
    }

    #[test]
    fn every_rule_has_a_case_that_comes_out_wrong_without_it() {
        let mut cases: Vec<_> = cases_in(&data().join("loose"), None).collect();
        for folder in children(&data().join("protocol")) {
            let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
            cases.extend(cases_in(&folder, Some(Protocol::named(name).expect("a protocol of that name"))));
        }
        let expected: Vec<_> = cases.iter().map(IdentityCase::read).collect();
        let (last, rules) = RULES.split_last().expect("rules");
        assert_eq!(last.verdict, New, "what no rule knows is a call of its own");
        let mut spare = Vec::new();
        for rule in rules {
            REMOVED.set(Some(rule.reason));
            let is_wrong = cases.iter().zip(&expected).any(|(case, expected)| case.read() != *expected);
            REMOVED.set(None);
            spare.extend((!is_wrong).then_some(rule.reason));
        }
        assert!(spare.is_empty(), "no case needs these rules: {spare:#?}");
    }
}
