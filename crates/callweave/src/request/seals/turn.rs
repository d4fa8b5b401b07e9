//! The stored form of a turn with seals, and the keyed hashes that find it again.

use std::hash::Hasher;

use serde::{Deserialize, Serialize};

use super::store::TurnKey;
use crate::json::{Object, Value};
use crate::request::{
    CallArguments, ContentPart, PartKind, ProviderSeal, RequestCall, RequestReasoning, RetainedFields,
};

/// A turn in which the provider sealed something.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SealedTurn {
    /// The hash of all reasoning that the client was shown.
    pub(super) reasoning: u64,
    /// The reasoning that is sealed, in order.
    pub(super) reasoning_parts: Vec<SealedReasoning>,
    /// All calls that the client runs, in order.
    pub(super) calls: Vec<SealedCall>,
    /// Signatures of texts.
    pub(super) texts: Vec<SealedText>,
}

/// A position in a turn: the number of calls before it, and whether a text stands between the last of them and it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TurnPosition {
    pub(super) calls: usize,
    pub(super) is_after_text: bool,
}

/// Reasoning with its seal.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SealedReasoning {
    pub(super) place: TurnPosition,
    pub(super) text: Option<String>,
    pub(super) summary: Vec<String>,
    pub(super) signature: Option<String>,
    pub(super) encrypted: Option<String>,
    /// The provider's id of its item.
    pub(super) item: Option<String>,
}

/// A call, and its signature if it has one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SealedCall {
    pub(super) key: [u8; 16],
    pub(super) signature: Option<String>,
}

/// The signature of a text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SealedText {
    /// The number of calls before it.
    pub(super) calls: usize,
    /// The hash of all text between the calls around it.
    pub(super) hash: u64,
    pub(super) signature: String,
}

impl SealedReasoning {
    pub(super) fn is_sealed(&self) -> bool {
        self.signature.is_some() || self.encrypted.is_some()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.summary.iter().map(String::as_str).chain(self.text.as_deref())
    }

    pub(super) fn into_part(self, issuer: &'static str, protocol: &'static str) -> ContentPart {
        let Self { text, summary, signature, encrypted, item, .. } = self;
        let summary = (!summary.is_empty() || item.is_some()).then_some(summary);
        let encrypted = encrypted.map(|data| ProviderSeal::new(issuer, data));
        let mut part = ContentPart::new(RequestReasoning { text, summary, encrypted });
        part.signature = signature.map(|data| ProviderSeal::new(issuer, data));
        if let Some(id) = item {
            part.retained = RetainedFields::new(protocol, [("id", id)].into_iter().collect());
        }
        part
    }
}

/// Makes keyed hashes: without the key nobody can make one, and nobody can look one up.
#[derive(Clone)]
pub(super) struct KeyedHashes {
    key: [u64; 2],
    /// The client of the turns, and the issuer of their seals.
    scope: Vec<u8>,
}

/// A hash under way.
#[expect(deprecated, reason = "the only hash of the standard library that takes a key")]
#[derive(Clone)]
pub(super) struct RunningHash(std::hash::SipHasher);

impl KeyedHashes {
    pub(super) fn new(key: [u8; 16], client: &[u8], issuer: &[u8], family: &str) -> Self {
        let number = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        let (low, high) = key.split_at(8);
        let mut scope = Vec::new();
        for part in [client, issuer, family.as_bytes()] {
            scope.extend_from_slice(&(part.len() as u64).to_le_bytes());
            scope.extend_from_slice(part);
        }
        Self { key: [number(low), number(high)], scope }
    }

    /// A hash of this scope and this use.
    pub(super) fn start(&self, purpose: &str) -> RunningHash {
        #[expect(deprecated, reason = "the only hash of the standard library that takes a key")]
        let mut hashing = RunningHash(std::hash::SipHasher::new_with_keys(self.key[0], self.key[1]));
        hashing.part(&self.scope);
        hashing.part(purpose.as_bytes());
        hashing
    }

    fn key(&self, purpose: &str, parts: &[&[u8]]) -> TurnKey {
        let mut bytes = [0; 16];
        for (at, half) in bytes.chunks_exact_mut(8).enumerate() {
            let mut hashing = self.start(purpose);
            hashing.part(&[at as u8]);
            parts.iter().for_each(|part| hashing.part(part));
            half.copy_from_slice(&hashing.end().to_le_bytes());
        }
        TurnKey(bytes)
    }

    /// The key of a call. An id alone is not enough: some providers use the same ones in every conversation.
    pub(super) fn call(&self, id: &str, name: &str, arguments: u64) -> TurnKey {
        self.key("call", &[id.as_bytes(), name.as_bytes(), &arguments.to_le_bytes()])
    }

    /// The key of the calls of a conversation that the upstream keeps under this id.
    #[cfg(feature = "exchange")]
    pub(super) fn conversation(&self, id: &str) -> TurnKey {
        self.key("conversation", &[id.as_bytes()])
    }

    /// The key of a turn that no id leads to: its text and its calls.
    pub(super) fn content(&self, text: u64, calls: &[u64]) -> TurnKey {
        let calls: Vec<u8> = calls.iter().flat_map(|call| call.to_le_bytes()).collect();
        self.key("content", &[&text.to_le_bytes(), &calls])
    }

    /// The key of a turn of nothing but reasoning.
    pub(super) fn reasoning_part(&self, reasoning: u64) -> TurnKey {
        self.key("reasoning", &[&reasoning.to_le_bytes()])
    }

    /// The hash of a call without its id.
    pub(super) fn named_call(&self, name: &str, arguments: u64) -> u64 {
        let mut hashing = self.start("named");
        hashing.part(name.as_bytes());
        hashing.part(&arguments.to_le_bytes());
        hashing.end()
    }

    /// The hash of reasoning. Clients join and trim it, so blanks do not count; the original text is sent.
    pub(super) fn reasoning<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> u64 {
        let mut hashing = self.start("text");
        texts.into_iter().for_each(|text| hashing.visible(text));
        hashing.end()
    }

    /// The hash of arguments, however they are spelled.
    pub(super) fn arguments(&self, text: &str) -> u64 {
        if text.trim().is_empty() {
            return self.value(&Value::Object(Object::new()));
        }
        match text.parse::<Value>() {
            Ok(value) => self.value(&value),
            Err(_) => self.reasoning([text]),
        }
    }

    pub(super) fn arguments_of(&self, call: &RequestCall) -> u64 {
        match &call.arguments {
            CallArguments::Text(text) => self.arguments(text),
            CallArguments::Json(value) => self.value(value),
        }
    }

    /// The hash of a value: the sum of those of its leaves with their paths, so that the order of members does not
    /// count.
    fn value(&self, value: &Value) -> u64 {
        let (mut sum, mut open) = (0_u64, vec![(self.start("value"), value)]);
        while let Some((path, value)) = open.pop() {
            let mut leaf = path.clone();
            match value {
                Value::Object(members) => {
                    leaf.part(b"object");
                    for (key, value) in members {
                        let mut path = path.clone();
                        path.part(key.as_bytes());
                        open.push((path, value));
                    }
                }
                Value::Array(list) => {
                    leaf.part(b"array");
                    for (at, value) in list.iter().enumerate() {
                        let mut path = path.clone();
                        path.part(&(at as u64).to_le_bytes());
                        open.push((path, value));
                    }
                }
                Value::String(text) => {
                    leaf.part(b"string");
                    leaf.part(text.as_bytes());
                }
                // 1.0 comes back as 1.
                Value::Number(number) => match number.as_f64() {
                    Some(own) => leaf.part(&own.to_bits().to_le_bytes()),
                    None => leaf.part(number.as_str().as_bytes()),
                },
                other => leaf.part(other.to_string().as_bytes()),
            }
            sum = sum.wrapping_add(leaf.end());
        }
        sum
    }
}

impl RunningHash {
    fn part(&mut self, bytes: &[u8]) {
        self.0.write(&(bytes.len() as u64).to_le_bytes());
        self.0.write(bytes);
    }

    /// Adds text without its blanks.
    pub(super) fn visible(&mut self, text: &str) {
        text.split_ascii_whitespace().for_each(|word| self.0.write(word.as_bytes()));
    }

    pub(super) fn end(&self) -> u64 {
        self.0.finish()
    }
}

/// The reasoning of a part, as a client sends it.
pub(super) fn reasoning_of(part: &ContentPart) -> Vec<&str> {
    let PartKind::Reasoning(reasoning_part) = &part.body else { return Vec::new() };
    match &reasoning_part.text {
        Some(text) => vec![text.as_str()],
        None => reasoning_part.summary.iter().flatten().map(String::as_str).collect(),
    }
}
