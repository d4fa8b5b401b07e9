//! Blocks that are written complete, for wires that cannot write them in pieces.

use std::collections::HashMap;

use crate::event::{BlockId, Event, EventKind};
use crate::message::Block;

/// Blocks as they grow. Each is released when it has ended.
#[derive(Default)]
pub(crate) struct BufferedBlocks(HashMap<BlockId, Block>);

impl BufferedBlocks {
    /// Takes an event if it starts a block or is about a held block.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        if let EventKind::BlockStart { block, .. } = event.body {
            self.0.extend(Block::started_by(&mut event.clone()).map(|started| (block, started)));
        } else if let Some(held) = event.body.block().and_then(|block| self.0.get_mut(&block)) {
            held.take(event);
        }
    }

    /// Removes and returns the block with that id, if it has ended.
    pub(crate) fn remove(&mut self, block: BlockId) -> Option<Block> {
        self.0.get(&block).filter(|held| held.is_ended)?;
        self.0.remove(&block)
    }

    /// The held block with that id.
    pub(crate) fn get_mut(&mut self, block: BlockId) -> Option<&mut Block> {
        self.0.get_mut(&block)
    }
}
