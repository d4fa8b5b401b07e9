//! Signatures and encrypted thoughts of an answer, put into the ids of the calls that they lead to.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::event::{AttachmentKind, BlockId, BlockKind, Body, CallKind, Event, ItemId, Json, Scope};
use crate::request::seals::{Carried, Fingerprint, Sealed, Seals};

/// What an answer has sealed since its last call, choice by choice.
#[derive(Debug)]
pub(super) struct Carry {
    issuer: &'static str,
    /// Whether calls are signed themselves, anywhere before their end.
    signs_calls: bool,
    choices: HashMap<u32, Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    seals: Vec<(Option<Scope>, Carried)>,
    /// Thoughts that are being told.
    thoughts: HashMap<BlockId, (Fingerprint, Option<String>)>,
    /// Ids of items with thoughts.
    items: HashMap<ItemId, String>,
    /// The start of a call that may still be signed, and what came after it.
    held: Vec<Event<'static>>,
}

impl Carry {
    pub(super) fn new(issuer: &'static str, signs_calls: bool) -> Self {
        Self { issuer, signs_calls, choices: HashMap::new() }
    }

    pub(super) fn push(&mut self, event: Event<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        let pending = self.choices.entry(event.choice).or_default();
        if let Some(call) = pending.held.first().and_then(|start| start.body.block()) {
            let is_signed = match &event.body {
                Body::Attachment {
                    scope: Scope::Block(own), kind: AttachmentKind::Signature, value, ..
                } => {
                    if *own == call {
                        pending.put(None, self.issuer, Sealed::Call, text(value));
                    }
                    *own == call
                }
                _ => false,
            };
            let is_over = matches!(&event.body, Body::BlockEnd { block, .. } if *block == call)
                || matches!(event.body, Body::Finish { .. } | Body::End);
            if !is_signed && !is_over {
                pending.held.push(event.into_owned());
                return;
            }
            pending.load();
            pending.held.drain(..).for_each(&mut *sink);
        }
        match &event.body {
            Body::ItemStart { item, id: Some(id), .. } => {
                pending.items.insert(*item, id.to_string());
            }
            Body::BlockStart { block, kind: BlockKind::Reasoning(_), .. } => {
                pending.thoughts.insert(*block, Default::default());
            }
            Body::BlockStart { kind: BlockKind::ToolCall { id: Some(_), call, .. }, .. }
                if *call != CallKind::Builtin =>
            {
                pending.held.push(event.into_owned());
                if !self.signs_calls {
                    pending.load();
                    pending.held.drain(..).for_each(sink);
                }
                return;
            }
            Body::Delta { block, text, .. } => {
                if let Some((fingerprint, _)) = pending.thoughts.get_mut(block) {
                    fingerprint.push(text);
                }
            }
            Body::Correction { block, text } => {
                if let Some((fingerprint, _)) = pending.thoughts.get_mut(block) {
                    *fingerprint = Fingerprint::of(text);
                }
            }
            Body::Attachment { scope, kind, value, .. } => {
                pending.hang(*scope, *kind, text(value), self.issuer)
            }
            Body::BlockEnd { block, .. } => {
                if let Some((fingerprint, Some(signature))) = pending.thoughts.remove(block) {
                    pending.put(None, self.issuer, Sealed::Thought(fingerprint), signature);
                }
            }
            Body::End => *pending = Pending::default(),
            _ => {}
        }
        sink(event);
    }
}

impl Pending {
    fn hang(&mut self, scope: Scope, kind: AttachmentKind, data: String, issuer: &str) {
        match (scope, kind) {
            (Scope::Block(block), AttachmentKind::Signature) => {
                if let Some((_, signature)) = self.thoughts.get_mut(&block) {
                    *signature = Some(data);
                }
            }
            (Scope::Block(block), AttachmentKind::Encrypted) if self.thoughts.contains_key(&block) => {
                self.put(Some(scope), issuer, Sealed::Encrypted(String::new()), data);
            }
            (Scope::Item(item), AttachmentKind::Encrypted) => {
                let id = self.items.get(&item).cloned().unwrap_or_default();
                self.put(Some(scope), issuer, Sealed::Encrypted(id), data);
            }
            _ => {}
        }
    }

    /// Adds what is sealed; a later seal of the same thing replaces an earlier one.
    fn put(&mut self, of: Option<Scope>, issuer: &str, what: Sealed, data: String) {
        let seal = Carried { issuer: issuer.to_owned(), what, data };
        match self.seals.iter_mut().find(|(own, _)| of.is_some() && *own == of) {
            Some((_, own)) => *own = seal,
            None => self.seals.push((of, seal)),
        }
    }

    /// Lets the call that is held carry what was sealed before it.
    fn load(&mut self) {
        if let Some(start) = self.held.first_mut()
            && let Body::BlockStart { kind: BlockKind::ToolCall { id: Some(id), .. }, .. } = &mut start.body
            && !self.seals.is_empty()
        {
            let seals = Seals(self.seals.drain(..).map(|(_, seal)| seal).collect());
            *id = Cow::Owned(seals.into_id(id));
        }
    }
}

fn text(value: &Json<'_>) -> String {
    value.to_value().as_str().map_or_else(|| value.as_str().to_owned(), str::to_owned)
}
