//! Puts the seals of earlier responses into a request, before it is written for their issuer.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::mark;
use super::store::{TurnKey, TurnStore};
use super::turn::{KeyedHashes, SealedTurn, reasoning_of};
use crate::event::AttachmentKind;
use crate::request::{
    CallKind, ContentForm, ContentPart, PartKind, ProviderSeal, Request, RequestMessage, Role,
};

/// The position of a part: the index of its message, and its index there.
type PartIndex = (usize, usize);

pub(super) struct SealRestorer<'s> {
    store: &'s dyn TurnStore,
    hashes: &'s KeyedHashes,
    issuer: &'static str,
    tag: u64,
    protocol: &'static str,
    /// Whether the provider takes reasoning back in this request.
    takes_reasoning: bool,
    turns: Vec<LoadedTurn>,
    /// The turn of each call that is known, and its number among the calls of that turn.
    calls: HashMap<TurnKey, (usize, usize)>,
    /// Turns that were looked for by their content.
    contents: HashSet<TurnKey>,
}

struct LoadedTurn {
    turn: SealedTurn,
    /// The number of its reasoning parts that are placed.
    placed: usize,
}

/// The planned changes of a run of messages.
#[derive(Default)]
struct RestorePlan {
    inserts: Vec<(PartIndex, ContentPart)>,
    signatures: Vec<(PartIndex, String)>,
}

impl<'s> SealRestorer<'s> {
    pub(super) fn new(
        store: &'s dyn TurnStore,
        hashes: &'s KeyedHashes,
        (issuer, tag): (&'static str, u64),
        protocol: &'static str,
        takes_reasoning: bool,
    ) -> Self {
        Self {
            store,
            hashes,
            issuer,
            tag,
            protocol,
            takes_reasoning,
            turns: Vec::new(),
            calls: HashMap::new(),
            contents: HashSet::new(),
        }
    }

    /// Returns the number of turns that got their seals back.
    pub(super) fn restore(mut self, request: &mut Request) -> usize {
        self.resolve(request);
        let mut runs = Vec::new();
        let mut at = 0;
        while at < request.messages.len() {
            let run = request.messages[at..].iter().take_while(|message| message.role == Role::Assistant);
            let length = run.count();
            if length > 0 {
                runs.push(at..at + length);
            }
            at += length.max(1);
        }
        let mut restored = 0;
        let mut unknown = Vec::new();
        for run in runs {
            let messages = &mut request.messages[run.clone()];
            match self.known_calls(messages) {
                known if known.is_empty() => unknown.push(run),
                known => restored += usize::from(self.restore_run(messages, &known, None)),
            }
        }
        // Of equal turns the last one counts: it is the one that was kept last.
        for run in unknown.into_iter().rev() {
            let messages = &mut request.messages[run];
            if let Some(turn) = self.turn_of_content(messages) {
                restored += usize::from(self.restore_content(messages, turn));
                continue;
            }
            // Some clients keep several turns in a row.
            for message in messages.iter_mut().rev() {
                let message = std::slice::from_mut(message);
                if let Some(turn) = self.turn_of_content(message) {
                    restored += usize::from(self.restore_content(message, turn));
                }
            }
        }
        restored
    }

    /// Resolves seals that the client kept in a place of its own.
    fn resolve(&self, request: &mut Request) {
        let own = |kind| mark::issuer_with_tag(self.issuer, self.tag, kind);
        let (signature, encrypted) = (own(AttachmentKind::Signature), own(AttachmentKind::Encrypted));
        let resolved = |seal: Box<ProviderSeal>| ProviderSeal::new(self.issuer, seal.data);
        for message in &mut request.messages {
            for part in &mut message.content.parts {
                let PartKind::Reasoning(reasoning_part) = &mut part.body else {
                    if let Some(seal) = part.signature.take_if(|seal| seal.issuer == signature) {
                        part.signature = Some(resolved(seal));
                    }
                    continue;
                };
                if !self.takes_reasoning {
                    continue;
                }
                // A place for the one may hold the other.
                let places = [&mut part.signature, &mut reasoning_part.encrypted];
                let found = places.into_iter().find_map(|place| {
                    place.take_if(|seal| seal.issuer == signature || seal.issuer == encrypted)
                });
                match found {
                    Some(seal) if seal.issuer == signature => part.signature = Some(resolved(seal)),
                    Some(seal) => {
                        reasoning_part.text.take_if(|text| text.is_empty());
                        reasoning_part.encrypted = Some(resolved(seal));
                    }
                    None => {}
                }
            }
            join_signed(&mut message.content.parts);
        }
    }

    /// The calls of a run whose turns are kept.
    fn known_calls(&mut self, messages: &[RequestMessage]) -> HashMap<PartIndex, (usize, usize)> {
        let mut known = HashMap::new();
        for (at, part) in parts_of(messages) {
            if let PartKind::Call(call) = &part.body
                && call.kind != CallKind::Builtin
                && let Some(id) = &call.id
            {
                let key = self.hashes.call(id, &call.name, self.hashes.arguments_of(call));
                if !self.calls.contains_key(&key) {
                    self.load(&key);
                }
                if let Some(found) = self.calls.get(&key) {
                    known.insert(at, *found);
                }
            }
        }
        known
    }

    /// Loads the turn of a key, and remembers its calls.
    fn load(&mut self, key: &TurnKey) -> Option<usize> {
        let turn: SealedTurn = serde_json::from_slice(&self.store.get(key)?).ok()?;
        let number = self.turns.len();
        for (at, call) in turn.calls.iter().enumerate() {
            self.calls.entry(TurnKey(call.key)).or_insert((number, at));
        }
        self.turns.push(LoadedTurn { turn, placed: 0 });
        Some(number)
    }

    /// The turn with that text and those calls, where no id leads to it. Each comes back once, so that no request can
    /// multiply it.
    fn turn_of_content(&mut self, messages: &[RequestMessage]) -> Option<usize> {
        let (mut text, mut has_text, mut calls) = (self.hashes.start("text"), false, Vec::new());
        for (_, part) in parts_of(messages) {
            match &part.body {
                PartKind::Text(own) => {
                    has_text |= !own.trim_ascii().is_empty();
                    text.visible(own);
                }
                PartKind::Call(call) if call.kind != CallKind::Builtin => {
                    calls.push(self.hashes.named_call(&call.name, self.hashes.arguments_of(call)));
                }
                _ => {}
            }
        }
        let key = if has_text || !calls.is_empty() {
            self.hashes.content(text.end(), &calls)
        } else {
            self.hashes.reasoning_part(
                self.hashes.reasoning(parts_of(messages).flat_map(|(_, part)| reasoning_of(part))),
            )
        };
        if !self.contents.insert(key) {
            return None;
        }
        let number = self.load(&key)?;
        let first = self.turns[number].turn.calls.first();
        let known = first.and_then(|call| self.calls.get(&TurnKey(call.key)));
        known.is_none_or(|(turn, _)| *turn == number).then_some(number)
    }

    /// Restores the seals of one turn in a run of messages, its calls being known by their order.
    fn restore_content(&mut self, messages: &mut [RequestMessage], turn: usize) -> bool {
        let calls = parts_of(messages).filter(|(_, part)| is_own_call(part));
        let known = calls.enumerate().map(|(number, (at, _))| (at, (turn, number))).collect();
        self.restore_run(messages, &known, Some(turn))
    }

    /// Restores the seals in a run of messages by its calls. Returns false, and restores nothing, if the client has
    /// changed the reasoning.
    fn restore_run(
        &mut self,
        messages: &mut [RequestMessage],
        known: &HashMap<PartIndex, (usize, usize)>,
        whole: Option<usize>,
    ) -> bool {
        let turns: BTreeSet<usize> = known.values().map(|(turn, _)| *turn).chain(whole).collect();
        if !self.is_unchanged(messages, &turns) {
            return false;
        }
        let replaces = self.takes_reasoning
            && turns.iter().any(|turn| !self.turns[*turn].turn.reasoning_parts.is_empty());
        let mut plan = RestorePlan::default();
        // The beginning of the text since the last call, its last part, and its hash.
        let (mut start, mut last, mut text) = ((0, 0), None, self.hashes.start("text"));
        let mut open = whole;
        for (at, part) in parts_of(messages) {
            if let PartKind::Text(own) = &part.body {
                last = Some(at);
                text.visible(own);
            }
            if !is_own_call(part) {
                continue;
            }
            open = None;
            if let Some(&(turn, call)) = known.get(&at) {
                self.place(turn, call, (start, at), last.map(|last| (last, text.end())), &mut plan);
                let calls = &mut self.turns[turn].turn.calls;
                open = (call + 1 == calls.len()).then_some(turn);
                plan.signatures.extend(calls[call].signature.take().map(|data| (at, data)));
            }
            (start, last, text) = ((at.0, at.1 + 1), None, self.hashes.start("text"));
        }
        if let Some(turn) = open {
            let end = messages.last().map_or(0, |message| message.content.parts.len());
            let end = (messages.len().saturating_sub(1), end);
            let calls = self.turns[turn].turn.calls.len();
            self.place(turn, calls, (start, end), last.map(|last| (last, text.end())), &mut plan);
        }
        plan.apply(messages, replaces, self.issuer);
        true
    }

    /// Plans the seals before a call, or behind the last one: reasoning, and the signature of the text.
    fn place(
        &mut self,
        turn: usize,
        call: usize,
        (start, end): (PartIndex, PartIndex),
        text: Option<(PartIndex, u64)>,
        plan: &mut RestorePlan,
    ) {
        let LoadedTurn { turn, placed } = &mut self.turns[turn];
        if self.takes_reasoning {
            while let Some(reasoning_part) =
                turn.reasoning_parts.get_mut(*placed).filter(|own| own.place.calls <= call)
            {
                *placed += 1;
                let reasoning_part = std::mem::take(reasoning_part);
                let is_after = reasoning_part.place.is_after_text && reasoning_part.place.calls == call;
                let part = reasoning_part.into_part(self.issuer, self.protocol);
                plan.inserts.push((if is_after { end } else { start }, part));
            }
        }
        if let Some((at, hash)) = text
            && let Some(found) = turn.texts.iter().position(|own| own.calls == call && own.hash == hash)
        {
            plan.signatures.push((at, turn.texts.swap_remove(found).signature));
        }
    }

    /// Whether all reasoning that the client sends is what it was given.
    fn is_unchanged(&self, messages: &[RequestMessage], turns: &BTreeSet<usize>) -> bool {
        let told: Vec<Vec<&str>> = parts_of(messages).map(|(_, part)| reasoning_of(part)).collect();
        let turns = || turns.iter().map(|turn| &self.turns[*turn].turn);
        let all = self.hashes.reasoning(told.iter().flatten().copied());
        let nothing = self.hashes.reasoning([]);
        if all == nothing || turns().any(|turn| turn.reasoning == all) {
            return true;
        }
        // Some clients send it twice, as text and with its seals.
        let mut given: HashSet<u64> = turns().map(|turn| turn.reasoning).collect();
        given.insert(nothing);
        given.extend(
            turns().flat_map(|turn| &turn.reasoning_parts).map(|own| self.hashes.reasoning(own.texts())),
        );
        told.into_iter().all(|texts| given.contains(&self.hashes.reasoning(texts)))
    }
}

impl RestorePlan {
    fn apply(self, messages: &mut [RequestMessage], replaces: bool, issuer: &'static str) {
        for ((message, part), data) in self.signatures {
            messages[message].content.parts[part].signature = Some(ProviderSeal::new(issuer, data));
        }
        let mut inserts = self.inserts;
        inserts.sort_by_key(|(at, _)| *at);
        let mut inserts = inserts.into_iter().peekable();
        for (number, message) in messages.iter_mut().enumerate() {
            let is_due = inserts.peek().is_some_and(|((message, _), _)| *message == number);
            let is_told = |part: &ContentPart| replaces && matches!(part.body, PartKind::Reasoning(_));
            if !is_due && !message.content.parts.iter().any(is_told) {
                continue;
            }
            let old = std::mem::take(&mut message.content.parts);
            let parts = &mut message.content.parts;
            let count = old.len();
            for (at, part) in old.into_iter().map(Some).chain([None]).enumerate() {
                let here = (number, at.min(count));
                while let Some((_, part)) = inserts.next_if(|(own, _)| *own <= here) {
                    parts.push(part);
                }
                parts.extend(part.filter(|part| !is_told(part)));
            }
            message.content.form = ContentForm::Any;
        }
    }
}

fn parts_of(messages: &[RequestMessage]) -> impl Iterator<Item = (PartIndex, &ContentPart)> {
    messages.iter().enumerate().flat_map(|(message, own)| {
        own.content.parts.iter().enumerate().map(move |(part, own)| ((message, part), own))
    })
}

/// Joins the pieces of a text with its signature, where that came in a part of its own behind them.
fn join_signed(parts: &mut Vec<ContentPart>) {
    let is_bare = |part: &ContentPart| match &part.body {
        PartKind::Reasoning(reasoning_part) => {
            part.signature.is_some() && reasoning_part.text.as_deref() == Some("")
        }
        _ => false,
    };
    if !parts.iter().any(is_bare) {
        return;
    }
    let mut joined: Vec<ContentPart> = Vec::with_capacity(parts.len());
    for mut part in parts.drain(..) {
        if is_bare(&part) {
            let is_piece = |part: &ContentPart| match &part.body {
                PartKind::Reasoning(reasoning_part) => {
                    part.is_plain() && reasoning_part.text.is_some() && reasoning_part.encrypted.is_none()
                }
                _ => false,
            };
            let count = joined.iter().rev().take_while(|part| is_piece(part)).count();
            let words = joined.drain(joined.len() - count..).map(|part| match part.body {
                PartKind::Reasoning(reasoning_part) => reasoning_part.text.unwrap_or_default(),
                _ => String::new(),
            });
            let words = words.collect();
            if let PartKind::Reasoning(reasoning_part) = &mut part.body {
                reasoning_part.text = Some(words);
            }
        }
        joined.push(part);
    }
    *parts = joined;
}

fn is_own_call(part: &ContentPart) -> bool {
    matches!(&part.body, PartKind::Call(call) if call.kind != CallKind::Builtin)
}
