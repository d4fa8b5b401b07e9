//! Ids of calls that are unique in the conversation.
//!
//! Models that number their calls begin anew with every response, and clients drop a call whose id they have seen. Such
//! a call gets another id. Where the client sends the whole conversation, the upstream knows the call by that one from
//! then on, in the call and in its result; where the upstream keeps the conversation, it gets its own id back
//! ([`KeptCalls`]).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::incoming::IncomingRequest;
use super::super::kept_calls::KeptCalls;
use crate::event::{BlockId, BlockKind, CallKind, Event, EventKind, EventScope};
use crate::made_id::{MadeIds, beginning};

/// Replaces ids that the conversation has already.
pub(in crate::exchange) struct UniqueIds {
    incoming: Arc<IncomingRequest>,
    /// The ids of the conversation and of this response, from its first call on.
    known: Option<KnownIds>,
    /// The number of calls.
    calls: usize,
    /// Blocks whose id was replaced, with the new one and the old one.
    replaced: Vec<(BlockId, String, String)>,
    /// The ids that were replaced, and the last new one of each.
    ids: HashMap<String, String>,
    /// The number of times that the model was asked again.
    reasks: u32,
    /// Makes ids, from the first that is needed on.
    made: Option<MadeIds>,
    /// The id of the response.
    response_id: Option<String>,
}

impl UniqueIds {
    pub(in crate::exchange) fn new(incoming: Arc<IncomingRequest>, reasks: u32) -> Self {
        Self {
            incoming,
            known: None,
            calls: 0,
            replaced: Vec::new(),
            ids: HashMap::new(),
            reasks,
            made: None,
            response_id: None,
        }
    }

    /// Gives the call of an event another id, if its own is taken.
    pub(in crate::exchange) fn look(&mut self, event: &mut Event<'_>) {
        match &mut event.body {
            EventKind::BlockStart {
                block,
                kind: BlockKind::ToolCall { id: Some(id), call, is_made, .. },
                ..
            } if *call != CallKind::Builtin => {
                self.give(*block, id, *is_made);
            }
            EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
                match self.replaced.iter().find(|(own, ..)| own == block) {
                    Some((_, new, _)) => *id = Cow::Owned(new.clone()),
                    None => self.give(*block, id, false),
                }
            }
            EventKind::Start { id: Some(id), .. }
            | EventKind::Identity { scope: EventScope::Response, id: Some(id), .. }
                if self.incoming.may_be_followed() =>
            {
                self.response_id = Some(id.to_string());
            }
            _ => {}
        }
    }

    /// The id of the response, where a request may follow it, and the calls of the conversation up to its end.
    pub(in crate::exchange) fn conversation(&self) -> Option<(&str, KeptCalls)> {
        let mut calls = self.incoming.kept_calls.clone();
        match &self.known {
            Some(known) => known.ids.iter().for_each(|id| calls.put(id)),
            None => self.incoming.call_ids().for_each(|id| calls.put(id)),
        }
        self.replaced.iter().for_each(|(_, new, old)| calls.replace(new, old));
        Some((self.response_id.as_deref()?, calls))
    }

    /// The ids that were replaced, and the new ones.
    pub(in crate::exchange) fn replaced(&self) -> &HashMap<String, String> {
        &self.ids
    }

    fn give(&mut self, block: BlockId, id: &mut Cow<'_, str>, is_made: bool) {
        let known = self.known.get_or_insert_with(|| {
            let mut known = KnownIds::default();
            self.incoming.call_ids().for_each(|id| known.put(id));
            known
        });
        if known.ids.contains(&**id) || is_made && known.has_alike(id) {
            let seed = || format!("{}n", self.incoming.call_id_seed(self.reasks));
            let made = self.made.get_or_insert_with(|| MadeIds::new(&seed()));
            let made = |number: usize| made.id(0, number);
            let new = (self.calls..).map(made).find(|new| !known.has_alike(new)).unwrap_or_default();
            self.replaced.push((block, new.clone(), id.to_string()));
            self.ids.insert(id.to_string(), new.clone());
            *id = Cow::Owned(new);
        }
        self.calls += 1;
        known.put(id);
    }
}

/// Ids, and their first letters: clients that shorten ids must not confuse two of them.
#[derive(Default)]
struct KnownIds {
    ids: HashSet<String>,
    beginnings: HashSet<String>,
}

impl KnownIds {
    fn put(&mut self, id: &str) {
        self.ids.insert(id.to_owned());
        self.beginnings.insert(beginning(id).collect());
    }

    fn has_alike(&self, id: &str) -> bool {
        self.beginnings.contains(&beginning(id).collect::<String>())
    }
}
