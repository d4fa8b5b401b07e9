//! Ids of calls that are unique in the conversation.
//!
//! Models that number their calls begin anew with every response, and clients drop a call whose id they have seen. Such a
//! call gets another id; client and upstream know it by that one from then on, in the call and in its result.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::incoming::IncomingRequest;
use crate::event::{BlockId, BlockKind, Body, CallKind, Event, Scope};

/// Replaces ids that the conversation has already.
pub(in crate::exchange) struct UniqueIds {
    incoming: Arc<IncomingRequest>,
    /// The ids of this response.
    given: Vec<String>,
    /// Blocks whose id was replaced, with the new one.
    replaced: Vec<(BlockId, String)>,
    /// How often the model was asked again.
    reasks: u32,
}

impl UniqueIds {
    pub(in crate::exchange) fn new(incoming: Arc<IncomingRequest>, reasks: u32) -> Self {
        Self { incoming, given: Vec::new(), replaced: Vec::new(), reasks }
    }

    /// Gives the call of an event another id, if its own is taken.
    pub(in crate::exchange) fn look(&mut self, event: &mut Event<'_>) {
        match &mut event.body {
            Body::BlockStart { block, kind: BlockKind::ToolCall { id: Some(id), call, .. }, .. }
                if *call != CallKind::Builtin =>
            {
                self.give(*block, id);
            }
            Body::Identity { scope: Scope::Block(block), id: Some(id), .. } => {
                match self.replaced.iter().find(|(own, _)| own == block) {
                    Some((_, new)) => *id = Cow::Owned(new.clone()),
                    None => self.give(*block, id),
                }
            }
            _ => {}
        }
    }

    fn give(&mut self, block: BlockId, id: &mut Cow<'_, str>) {
        let is_taken = |id: &str| self.given.iter().any(|own| own == id) || self.incoming.has_call(id);
        if is_taken(id) {
            let prefix = self.incoming.call_id_prefix(self.reasks);
            let made = |number: usize| format!("{prefix}n_{number}");
            let new = (self.given.len()..).map(made).find(|new| !is_taken(new)).unwrap_or_default();
            self.replaced.push((block, new.clone()));
            *id = Cow::Owned(new);
        }
        self.given.push(id.to_string());
    }
}
