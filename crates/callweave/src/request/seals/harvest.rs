//! A stage that watches a response pass, and keeps its provider seals.

use std::collections::HashMap;
use std::sync::Arc;

use super::mark;
use super::store::{TurnKey, TurnStore};
use super::turn::{
    KeyedHashes, RunningHash, SealedCall, SealedReasoning, SealedText, SealedTurn, TurnPosition,
};
use crate::event::{
    AttachmentKind, BlockId, BlockKind, CallKind, Event, EventKind, EventScope, EventSink, ItemId, JsonText,
    ReasoningForm,
};

/// The longest turn that is kept, in bytes of reasoning, arguments and seals.
const MAX_TURN: usize = 4 << 20;

/// A stage that keeps the provider seals of a response: see [`SealKeeper`](super::SealKeeper).
///
/// It stands last before the encoder, where calls have the names and ids that the client gets.
#[derive(Debug)]
pub struct SealHarvest {
    active: Option<ActiveTurn>,
}

struct ActiveTurn {
    store: Arc<dyn TurnStore>,
    hashes: KeyedHashes,
    /// The issuer and its tag, where the client needs marks.
    mark: Option<(&'static str, u64)>,
    choices: HashMap<u32, GrowingTurn>,
}

impl std::fmt::Debug for ActiveTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Active").field("mark", &self.mark).finish_non_exhaustive()
    }
}

/// A turn while it comes.
struct GrowingTurn {
    reasoning_parts: Vec<GrowingReasoning>,
    calls: Vec<GrowingCall>,
    texts: Vec<GrowingText>,
    items: HashMap<ItemId, TurnItem>,
    blocks: HashMap<BlockId, BlockRole>,
    has_text: bool,
    /// All text of the turn.
    text: RunningHash,
    /// Whether a text was corrected, so that its hash is not known.
    is_text_lost: bool,
    bytes: usize,
}

struct TurnItem {
    id: Option<String>,
    place: TurnPosition,
    reasoning_part: Option<usize>,
    /// Whether it holds something else than reasoning.
    is_other: bool,
}

#[derive(Default)]
struct GrowingReasoning {
    /// Parts of it, in order.
    texts: Vec<(ReasoningForm, String)>,
    sealed: SealedReasoning,
}

struct GrowingCall {
    id: String,
    name: String,
    arguments: String,
    signature: Option<String>,
}

/// The text between two calls.
struct GrowingText {
    calls: usize,
    hash: RunningHash,
    signature: Option<String>,
}

/// The role of a block in the turn.
#[derive(Clone, Copy)]
enum BlockRole {
    /// A part of reasoning.
    Reasoning(usize, usize),
    Call(usize),
    Text(usize),
}

impl SealHarvest {
    /// A stage that passes everything on and keeps nothing.
    pub fn none() -> Self {
        Self { active: None }
    }

    pub(super) fn new(
        store: Arc<dyn TurnStore>,
        hashes: KeyedHashes,
        mark: Option<(&'static str, u64)>,
    ) -> Self {
        Self { active: Some(ActiveTurn { store, hashes, mark, choices: HashMap::new() }) }
    }

    /// Whether it keeps anything.
    pub fn is_on(&self) -> bool {
        self.active.is_some()
    }

    /// Takes the next event.
    pub fn push(&mut self, mut event: Event<'_>, sink: &mut EventSink<'_>) {
        if let Some(active) = &mut self.active {
            active.look(&event);
            if let (Some((issuer, tag)), EventKind::Attachment { kind, value, .. }) =
                (active.mark, &mut event.body)
                && let AttachmentKind::Signature | AttachmentKind::Encrypted = kind
                && let Some(data) = value.to_text()
            {
                let text = mark::marked(issuer, tag, *kind, &data);
                *value = JsonText::from_text(&text);
            }
        }
        sink.put(event);
    }

    /// Keeps the seals so far, where the end of the response never came. A client may have the calls already.
    pub fn finish(&mut self) {
        if let Some(active) = &mut self.active {
            active.keep();
        }
    }
}

impl ActiveTurn {
    fn look(&mut self, event: &Event<'_>) {
        if let EventKind::End = event.body {
            return self.keep();
        }
        let is_told = matches!(
            event.body,
            EventKind::ItemStart { .. }
                | EventKind::BlockStart { .. }
                | EventKind::Delta { .. }
                | EventKind::Correction { .. }
                | EventKind::Attachment { .. }
                | EventKind::Identity { scope: EventScope::Block(_), .. }
        );
        if !is_told {
            return;
        }
        let hashes = &self.hashes;
        let growing = self.choices.entry(event.choice).or_insert_with(|| GrowingTurn::new(hashes));
        // A turn that is too long is followed no further, and not kept.
        if growing.bytes <= MAX_TURN {
            growing.look(&event.body, hashes);
        }
    }

    fn keep(&mut self) {
        for (_, growing) in self.choices.drain() {
            if growing.bytes <= MAX_TURN
                && let Some((keys, turn)) = growing.finish(&self.hashes)
                && let Ok(value) = serde_json::to_vec(&turn)
            {
                self.store.put(&keys, &value);
            }
        }
    }
}

impl GrowingTurn {
    fn new(hashes: &KeyedHashes) -> Self {
        Self {
            reasoning_parts: Vec::new(),
            calls: Vec::new(),
            texts: Vec::new(),
            items: HashMap::new(),
            blocks: HashMap::new(),
            has_text: false,
            text: hashes.start("text"),
            is_text_lost: false,
            bytes: 0,
        }
    }

    fn place(&self) -> TurnPosition {
        let calls = self.calls.len();
        let is_after_text = self.texts.last().is_some_and(|text| text.calls == calls);
        TurnPosition { calls, is_after_text }
    }

    fn look(&mut self, body: &EventKind<'_>, hashes: &KeyedHashes) {
        match body {
            EventKind::ItemStart { item, id, .. } => {
                let id = id.as_ref().map(|id| id.to_string());
                self.bytes += 64 + id.as_ref().map_or(0, String::len);
                let place = self.place();
                self.items.insert(*item, TurnItem { id, place, reasoning_part: None, is_other: false });
            }
            EventKind::BlockStart { block, item, kind, .. } => {
                self.bytes += 64;
                let piece = match kind {
                    BlockKind::Reasoning(form) => {
                        let reasoning_part = self.reasoning_part(*item);
                        let texts = &mut self.reasoning_parts[reasoning_part].texts;
                        texts.push((*form, String::new()));
                        Some(BlockRole::Reasoning(reasoning_part, texts.len() - 1))
                    }
                    BlockKind::ToolCall { id, name, call, .. } if *call != CallKind::Builtin => {
                        let id = id.as_deref().unwrap_or_default().to_owned();
                        self.bytes += id.len() + name.len();
                        let name = name.to_string();
                        self.calls.push(GrowingCall { id, name, arguments: String::new(), signature: None });
                        Some(BlockRole::Call(self.calls.len() - 1))
                    }
                    BlockKind::Text => Some(BlockRole::Text(self.text_between(hashes))),
                    _ => None,
                };
                if let Some(own) = item.as_ref().and_then(|item| self.items.get_mut(item)) {
                    own.is_other |= !matches!(piece, Some(BlockRole::Reasoning(..)));
                }
                if let Some(piece) = piece {
                    self.blocks.insert(*block, piece);
                }
            }
            EventKind::Delta { block, text, .. } => match self.blocks.get(block) {
                Some(BlockRole::Reasoning(reasoning_part, part)) => {
                    self.bytes += text.len();
                    self.reasoning_parts[*reasoning_part].texts[*part].1.push_str(text);
                }
                Some(BlockRole::Call(call)) => {
                    self.bytes += text.len();
                    self.calls[*call].arguments.push_str(text);
                }
                Some(BlockRole::Text(at)) => {
                    self.has_text |= !text.trim_ascii().is_empty();
                    self.text.visible(text);
                    self.texts[*at].hash.visible(text);
                }
                None => {}
            },
            EventKind::Correction { block, text } => match self.blocks.get(block) {
                Some(BlockRole::Reasoning(reasoning_part, part)) => {
                    self.bytes += text.len();
                    text.as_ref().clone_into(&mut self.reasoning_parts[*reasoning_part].texts[*part].1);
                }
                Some(BlockRole::Call(call)) => {
                    self.bytes += text.len();
                    text.as_ref().clone_into(&mut self.calls[*call].arguments);
                }
                Some(BlockRole::Text(_)) => self.is_text_lost = true,
                None => {}
            },
            EventKind::Identity { scope: EventScope::Block(block), id: Some(id), .. } => {
                if let Some(BlockRole::Call(call)) = self.blocks.get(block) {
                    self.bytes += id.len();
                    self.calls[*call].id = id.to_string();
                }
            }
            EventKind::Attachment { scope, kind, value, .. } => {
                if let Some(data) = value.to_text() {
                    self.bytes += data.len();
                    self.hang(*scope, *kind, data.into_owned());
                }
            }
            _ => {}
        }
    }

    fn hang(&mut self, scope: EventScope, kind: AttachmentKind, data: String) {
        match (scope, kind) {
            (EventScope::Block(block), AttachmentKind::Signature) => match self.blocks.get(&block) {
                Some(BlockRole::Reasoning(reasoning_part, _)) => {
                    self.reasoning_parts[*reasoning_part].sealed.signature = Some(data)
                }
                Some(BlockRole::Call(call)) => self.calls[*call].signature = Some(data),
                Some(BlockRole::Text(at)) => self.texts[*at].signature = Some(data),
                None => {}
            },
            (EventScope::Block(block), AttachmentKind::Encrypted) => {
                if let Some(BlockRole::Reasoning(reasoning_part, _)) = self.blocks.get(&block) {
                    self.reasoning_parts[*reasoning_part].sealed.encrypted = Some(data);
                }
            }
            // Reasoning of which nothing is shown has no block.
            (EventScope::Item(item), AttachmentKind::Encrypted)
                if self.items.get(&item).is_some_and(|item| !item.is_other) =>
            {
                let reasoning_part = self.reasoning_part(Some(item));
                self.reasoning_parts[reasoning_part].sealed.encrypted = Some(data);
            }
            _ => {}
        }
    }

    /// The reasoning of an item, or a new one.
    fn reasoning_part(&mut self, item: Option<ItemId>) -> usize {
        let here = self.place();
        let count = self.reasoning_parts.len();
        let own = item.and_then(|item| self.items.get_mut(&item));
        let mut sealed = SealedReasoning { place: here, ..SealedReasoning::default() };
        if let Some(item) = own {
            if let Some(reasoning_part) = item.reasoning_part {
                return reasoning_part;
            }
            item.reasoning_part = Some(count);
            (sealed.place, sealed.item) = (item.place, item.id.clone());
        }
        self.reasoning_parts.push(GrowingReasoning { texts: Vec::new(), sealed });
        count
    }

    /// The text since the last call.
    fn text_between(&mut self, hashes: &KeyedHashes) -> usize {
        let calls = self.calls.len();
        if self.texts.last().is_none_or(|text| text.calls != calls) {
            self.texts.push(GrowingText { calls, hash: hashes.start("text"), signature: None });
        }
        self.texts.len() - 1
    }

    /// The turn to keep, if it has seals, and the keys to find it by.
    fn finish(self, hashes: &KeyedHashes) -> Option<(Vec<TurnKey>, SealedTurn)> {
        let told = self
            .reasoning_parts
            .iter()
            .flat_map(|reasoning_part| &reasoning_part.texts)
            .map(|(_, text)| text.as_str());
        let mut turn = SealedTurn { reasoning: hashes.reasoning(told), ..SealedTurn::default() };
        let has_reasoning =
            self.reasoning_parts.iter().any(|reasoning_part| !reasoning_part.texts.is_empty());
        for GrowingReasoning { texts, mut sealed } in self.reasoning_parts {
            if !sealed.is_sealed() {
                continue;
            }
            let mut raw = Vec::new();
            for (form, text) in texts {
                match form {
                    ReasoningForm::Summary if sealed.item.is_some() => sealed.summary.push(text),
                    ReasoningForm::Redacted => {}
                    _ => raw.push(text),
                }
            }
            sealed.text = (!raw.is_empty()).then(|| raw.concat());
            turn.reasoning_parts.push(sealed);
        }
        let (mut keys, mut named) = (Vec::new(), Vec::new());
        for GrowingCall { id, name, arguments, signature } in self.calls {
            let arguments = hashes.arguments(&arguments);
            let key = hashes.call(&id, &name, arguments);
            named.push(hashes.named_call(&name, arguments));
            keys.push(key);
            turn.calls.push(SealedCall { key: key.0, signature });
        }
        if !self.is_text_lost {
            if self.has_text || !named.is_empty() {
                keys.push(hashes.content(self.text.end(), &named));
            } else if has_reasoning {
                keys.push(hashes.reasoning_part(turn.reasoning));
            }
            for GrowingText { calls, hash, signature } in self.texts {
                let hash = hash.end();
                turn.texts.extend(signature.map(|signature| SealedText { calls, hash, signature }));
            }
        }
        let is_sealed = !turn.reasoning_parts.is_empty()
            || !turn.texts.is_empty()
            || turn.calls.iter().any(|call| call.signature.is_some());
        (is_sealed && !keys.is_empty()).then_some((keys, turn))
    }
}
