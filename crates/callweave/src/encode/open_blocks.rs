//! Blocks that have begun and not ended.

use crate::event::{BlockId, Event};
use crate::message::Block;

/// The open blocks of a response, with a reader's or writer's own state of each. There are few at a time, and most
/// events are about the newest.
pub(crate) struct OpenBlocks<B>(Vec<(BlockId, B)>);

impl<B> Default for OpenBlocks<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<B> OpenBlocks<B> {
    pub(crate) fn insert(&mut self, block: BlockId, state: B) {
        self.0.push((block, state));
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, block: BlockId) -> Option<&mut B> {
        self.0.iter_mut().rev().find(|(open, _)| *open == block).map(|(_, state)| state)
    }

    /// Removes the block when it has ended.
    pub(crate) fn remove(&mut self, block: BlockId) -> Option<B> {
        let at = self.0.iter().rposition(|(open, _)| *open == block)?;
        Some(self.0.remove(at).1)
    }

    /// The first of the open blocks with that property.
    pub(crate) fn find(&self, is_meant: impl Fn(BlockId, &B) -> bool) -> Option<BlockId> {
        self.0.iter().find(|(block, state)| is_meant(*block, state)).map(|(block, _)| *block)
    }
}

/// Blocks that grow until they are written complete, on wires that cannot write them in pieces.
impl OpenBlocks<Block> {
    /// Takes the block that an event starts.
    pub(crate) fn begin(&mut self, event: &Event<'_>) {
        let started = Block::started_by(&mut event.clone());
        self.0.extend(started.map(|started| (started.id, started)));
    }

    /// Takes an event if it is about one of the blocks.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        if let Some(block) = event.body.block().and_then(|block| self.get_mut(block)) {
            block.take(event);
        }
    }
}
