//! Blocks that are written complete, for wires that cannot write them in pieces.

use std::collections::HashMap;

use crate::event::{BlockId, Event};
use crate::message::Block;

/// Blocks as they grow. Each is released when it has ended.
#[derive(Default)]
pub(crate) struct BufferedBlocks(HashMap<BlockId, Block>);

impl BufferedBlocks {
    /// Takes a block that an event starts.
    pub(crate) fn begin(&mut self, event: &Event<'_>) {
        let started = Block::started_by(&mut event.clone());
        self.0.extend(started.map(|started| (started.id, started)));
    }

    /// Takes an event if it is about one of the blocks.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        let block = event.body.block().filter(|_| !self.0.is_empty());
        if let Some(buffered) = block.and_then(|block| self.0.get_mut(&block)) {
            buffered.take(event);
        }
    }

    /// Removes and returns the block with that id, if it has ended.
    pub(crate) fn remove(&mut self, block: BlockId) -> Option<Block> {
        self.0.get(&block).filter(|block| block.is_ended)?;
        self.0.remove(&block)
    }

    /// The block with that id.
    pub(crate) fn get_mut(&mut self, block: BlockId) -> Option<&mut Block> {
        self.0.get_mut(&block)
    }
}
