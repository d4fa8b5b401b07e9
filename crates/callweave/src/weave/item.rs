//! The items of a choice, by which the wire groups blocks.
//!
//! An item is found by its block key, which is canonical by then. Another id at the block key of an item of the same
//! wire type is another name of that item: some servers rename items in every event.

use std::borrow::Cow;

use smol_str::SmolStr;

use super::WeaveContext;
use crate::event::{EventKind, EventScope, EventSink, ItemId};
use crate::fragment::BlockAddress;
use crate::json::Str;
use crate::table::OrderedTable;

#[derive(Clone, Default)]
pub(super) struct ItemTable {
    list: Vec<ItemState>,
    by_place: OrderedTable<BlockAddress, usize>,
}

#[derive(Clone)]
struct ItemState {
    number: ItemId,
    id: Option<SmolStr>,
    wire_type: SmolStr,
    is_ended: bool,
}

impl ItemTable {
    /// Takes the fields of the item at the block key.
    pub(super) fn tell(
        &mut self,
        place: BlockAddress,
        id: Option<Str<'_>>,
        wire_type: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let id = id.map(Str::to_cow).filter(|id| !id.is_empty());
        let known =
            self.by_place.get(&place.owner()).copied().filter(|&at| self.list[at].wire_type == wire_type);
        let Some(at) = known else { return self.start(place, id, wire_type, context, sink) };
        let item = &mut self.list[at];
        let scope = EventScope::Item(item.number);
        if let Some(id) = id.filter(|id| item.id.as_deref() != Some(&**id)) {
            context
                .emit(EventKind::Identity { scope, id: Some(Cow::Borrowed(id.as_ref())), model: None }, sink);
            item.id = Some(id.into());
        }
        context.emit_next(scope, sink);
    }

    fn start(
        &mut self,
        place: BlockAddress,
        id: Option<Cow<'_, str>>,
        wire_type: &str,
        context: &mut WeaveContext,
        sink: &mut EventSink<'_>,
    ) {
        let number = context.next_item();
        let members = context.take_next(EventScope::Item(number));
        let at = self.list.len();
        self.by_place.insert(place.owner(), at);
        let told = id.as_deref().map(Cow::Borrowed);
        context.emit(
            EventKind::ItemStart {
                item: number,
                id: told,
                wire_type: Cow::Borrowed(wire_type),
                extra: members,
            },
            sink,
        );
        self.list.push(ItemState {
            number,
            id: id.map(SmolStr::from),
            wire_type: wire_type.into(),
            is_ended: false,
        });
    }

    /// The item at the block key.
    pub(super) fn at(&self, place: BlockAddress) -> Option<ItemId> {
        if self.list.is_empty() {
            return None;
        }
        self.by_place.get(&place.owner()).map(|&at| self.list[at].number)
    }

    /// The item at the block key, if it is open.
    pub(super) fn open_at(&self, place: BlockAddress) -> Option<ItemId> {
        if self.list.is_empty() {
            return None;
        }
        let item = &self.list[*self.by_place.get(&place.owner())?];
        (!item.is_ended).then_some(item.number)
    }

    /// Whether the item at the block key has that id.
    pub(super) fn has_id(&self, place: BlockAddress, id: &str) -> bool {
        let item = self.by_place.get(&place.owner()).map(|&at| &self.list[at]);
        item.is_some_and(|item| item.id.as_deref() == Some(id))
    }

    /// Ends the item, if it is open.
    pub(super) fn end(&mut self, item: ItemId, context: &WeaveContext, sink: &mut EventSink<'_>) {
        if let Some(item) = self.list.iter_mut().find(|own| own.number == item && !own.is_ended) {
            item.is_ended = true;
            context.emit(EventKind::ItemEnd { item: item.number }, sink);
        }
    }

    /// Ends every item that is open.
    pub(super) fn end_all(&mut self, context: &WeaveContext, sink: &mut EventSink<'_>) {
        for item in self.list.iter_mut().filter(|item| !item.is_ended) {
            item.is_ended = true;
            context.emit(EventKind::ItemEnd { item: item.number }, sink);
        }
    }
}
