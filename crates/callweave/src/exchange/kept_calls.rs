//! Ids of calls in conversations that upstreams keep.
//!
//! A client of the Responses API that refers to an earlier response, or to a conversation, sends only the new messages.
//! The client must not see an id twice, and the upstream knows its calls by its own ids: the ids of such a conversation
//! are therefore kept beside the provider seals, and results go up under the id that the upstream gave.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::request::{PartKind, Request, SealKeeper, SealScope};

/// The ids of calls by which the client knows them, and the upstream's where that is another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptCalls(BTreeMap<Box<str>, Option<Box<str>>>);

/// The number of calls of one conversation whose ids are kept; of a longer one, none are.
const MAX_CALLS: usize = 10_000;

impl KeptCalls {
    /// The calls of the conversation that an upstream keeps under an id.
    pub(super) fn find(seals: &SealKeeper, scope: SealScope<'_>, id: &str) -> Self {
        let kept = seals.conversation(scope, id);
        kept.and_then(|kept| serde_json::from_slice(&kept).ok()).unwrap_or_default()
    }

    /// Keeps them for a request that follows the conversation by one of these ids.
    pub(super) fn keep(&self, seals: &SealKeeper, scope: SealScope<'_>, ids: &[&str]) {
        if !(1..=MAX_CALLS).contains(&self.0.len()) {
            return;
        }
        if let Ok(value) = serde_json::to_vec(self) {
            seals.put_conversation(scope, ids, &value);
        }
    }

    /// The client's ids.
    pub(super) fn client_ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|id| &**id)
    }

    /// Adds a call that both sides know by the same id, unless it is there.
    pub(super) fn put(&mut self, id: &str) {
        if !self.0.contains_key(id) {
            self.0.insert(id.into(), None);
        }
    }

    /// Adds a call whose id was replaced.
    pub(super) fn replace(&mut self, client: &str, upstream: &str) {
        self.0.insert(client.into(), Some(upstream.into()));
    }

    /// The upstream's id of a call, where the client knows it by another.
    pub(super) fn upstream_id(&self, id: &str) -> Option<&str> {
        self.0.get(id)?.as_deref()
    }

    /// Gives calls and results of a request the upstream's ids.
    pub(super) fn map_back(&self, request: &mut Request) {
        let parts = request.messages.iter_mut().flat_map(|message| &mut message.content.parts);
        for part in parts {
            let id = match &mut part.body {
                PartKind::Call(call) => &mut call.id,
                PartKind::Result(result) => &mut result.id,
                _ => continue,
            };
            if let Some(own) = id.as_deref().and_then(|id| self.upstream_id(id)) {
                *id = Some(own.to_owned());
            }
        }
    }
}
