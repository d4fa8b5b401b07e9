//! Blocks that are told whole, for wires that cannot tell them in pieces.

use std::collections::HashMap;

use crate::event::{BlockId, Event, EventKind};
use crate::message::Block;

/// Blocks as they grow. Each comes out when it is over.
#[derive(Default)]
pub(crate) struct BufferedBlocks(HashMap<BlockId, Block>);

impl BufferedBlocks {
    /// Takes an event if it starts a block or is about one that is held.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        if let EventKind::BlockStart { block, .. } = event.body {
            self.0.extend(Block::started_by(&mut event.clone()).map(|started| (block, started)));
        } else if let Some(held) = event.body.block().and_then(|block| self.0.get_mut(&block)) {
            held.take(event);
        }
    }

    /// The block of that number, if it is over.
    pub(crate) fn remove(&mut self, block: BlockId) -> Option<Block> {
        self.0.get(&block).filter(|held| held.is_ended)?;
        self.0.remove(&block)
    }

    /// The block of that number.
    pub(crate) fn get_mut(&mut self, block: BlockId) -> Option<&mut Block> {
        self.0.get_mut(&block)
    }
}
