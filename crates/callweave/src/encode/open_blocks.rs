//! Blocks that have begun and not ended.

use crate::event::BlockId;

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
