//! Signatures and encrypted reasoning of a response, put into the ids of the calls that they lead to.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::event::{
    AttachmentKind, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, ItemId, JsonText,
};
use crate::request::seals::{CarriedSeal, SealFingerprint, SealedKind, SealsInId};

/// The seals of a response since its last call, choice by choice.
#[derive(Debug)]
pub(super) struct SealCarrier {
    issuer: &'static str,
    /// Whether calls are signed themselves, anywhere before their end.
    signs_calls: bool,
    choices: HashMap<u32, PendingSeals>,
}

#[derive(Debug, Default)]
struct PendingSeals {
    seals: Vec<(Option<EventScope>, CarriedSeal)>,
    /// Reasoning blocks that are open.
    reasoning_blocks: HashMap<BlockId, (SealFingerprint, Option<String>)>,
    /// Ids of items with reasoning.
    items: HashMap<ItemId, String>,
    /// The start of a call that may still be signed, and the events after it.
    held: Vec<Event<'static>>,
}

impl SealCarrier {
    pub(super) fn new(issuer: &'static str, signs_calls: bool) -> Self {
        Self { issuer, signs_calls, choices: HashMap::new() }
    }

    pub(super) fn push(&mut self, event: Event<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        let pending = self.choices.entry(event.choice).or_default();
        if let Some(call) = pending.held.first().and_then(|start| start.body.block()) {
            let is_signed = match &event.body {
                EventKind::Attachment {
                    scope: EventScope::Block(own),
                    kind: AttachmentKind::Signature,
                    value,
                    ..
                } => {
                    if *own == call {
                        pending.put(None, self.issuer, SealedKind::Call, text(value));
                    }
                    *own == call
                }
                _ => false,
            };
            let is_over = matches!(&event.body, EventKind::BlockEnd { block, .. } if *block == call)
                || matches!(event.body, EventKind::Finish { .. } | EventKind::End);
            if !is_signed && !is_over {
                pending.held.push(event.into_owned());
                return;
            }
            pending.load();
            pending.held.drain(..).for_each(&mut *sink);
        }
        match &event.body {
            EventKind::ItemStart { item, id: Some(id), .. } => {
                pending.items.insert(*item, id.to_string());
            }
            EventKind::BlockStart { block, kind: BlockKind::Reasoning(_), .. } => {
                pending.reasoning_blocks.insert(*block, Default::default());
            }
            EventKind::BlockStart { kind: BlockKind::ToolCall { id: Some(_), call, .. }, .. }
                if *call != CallKind::Builtin =>
            {
                pending.held.push(event.into_owned());
                if !self.signs_calls {
                    pending.load();
                    pending.held.drain(..).for_each(sink);
                }
                return;
            }
            EventKind::Delta { block, text, .. } => {
                if let Some((fingerprint, _)) = pending.reasoning_blocks.get_mut(block) {
                    fingerprint.push(text);
                }
            }
            EventKind::Correction { block, text } => {
                if let Some((fingerprint, _)) = pending.reasoning_blocks.get_mut(block) {
                    *fingerprint = SealFingerprint::of(text);
                }
            }
            EventKind::Attachment { scope, kind, value, .. } => {
                pending.hang(*scope, *kind, text(value), self.issuer)
            }
            EventKind::BlockEnd { block, .. } => {
                if let Some((fingerprint, Some(signature))) = pending.reasoning_blocks.remove(block) {
                    pending.put(None, self.issuer, SealedKind::Reasoning(fingerprint), signature);
                }
            }
            EventKind::End => *pending = PendingSeals::default(),
            _ => {}
        }
        sink(event);
    }
}

impl PendingSeals {
    fn hang(&mut self, scope: EventScope, kind: AttachmentKind, data: String, issuer: &str) {
        match (scope, kind) {
            (EventScope::Block(block), AttachmentKind::Signature) => {
                if let Some((_, signature)) = self.reasoning_blocks.get_mut(&block) {
                    *signature = Some(data);
                }
            }
            (EventScope::Block(block), AttachmentKind::Encrypted)
                if self.reasoning_blocks.contains_key(&block) =>
            {
                self.put(Some(scope), issuer, SealedKind::Encrypted(String::new()), data);
            }
            (EventScope::Item(item), AttachmentKind::Encrypted) => {
                let id = self.items.get(&item).cloned().unwrap_or_default();
                self.put(Some(scope), issuer, SealedKind::Encrypted(id), data);
            }
            _ => {}
        }
    }

    /// Adds a seal; a later seal of the same thing replaces an earlier one.
    fn put(&mut self, of: Option<EventScope>, issuer: &str, what: SealedKind, data: String) {
        let seal = CarriedSeal { issuer: issuer.to_owned(), what, data };
        match self.seals.iter_mut().find(|(own, _)| of.is_some() && *own == of) {
            Some((_, own)) => *own = seal,
            None => self.seals.push((of, seal)),
        }
    }

    /// Puts the seals before the held call into its id.
    fn load(&mut self) {
        if let Some(start) = self.held.first_mut()
            && let EventKind::BlockStart { kind: BlockKind::ToolCall { id: Some(id), .. }, .. } =
                &mut start.body
            && !self.seals.is_empty()
        {
            let seals = SealsInId(self.seals.drain(..).map(|(_, seal)| seal).collect());
            *id = Cow::Owned(seals.into_id(id));
        }
    }
}

fn text(value: &JsonText<'_>) -> String {
    value.to_value().as_str().map_or_else(|| value.as_str().to_owned(), str::to_owned)
}
