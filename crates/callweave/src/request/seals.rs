//! Provider seals on their way through a client that has no place for them: they are kept in a store between requests
//! ([`SealKeeper`]), stand in a place of the client's own under a mark, or ride in the ids of calls.

mod harvest;
mod keeper;
mod mark;
mod restore;
mod store;
mod turn;

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use memchr::memmem::Finder;

pub use harvest::SealHarvest;
pub use keeper::{SealKeeper, SealScope};
pub(crate) use mark::is_marked;
pub(super) use mark::{issuer_name, unmarked};
pub use store::{TurnCache, TurnKey, TurnStore};

use super::limits::ReplayedReasoning;
use super::{
    ContentPart, LossList, PartKind, ProviderLimits, ProviderSeal, Request, RequestCall, RequestReasoning,
    RetainedFields, Role,
};
use crate::json::{Object, Value};

/// The separator between an id and the seals that it carries.
const MARK: &str = "__sealed_";

/// Whether a JSON text may carry a seal, in an id or under a mark. Nobody writes either with escapes.
pub(super) fn may_ride_in(text: &str) -> bool {
    static MARKS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| [MARK, mark::ENCODED_MARK].map(Finder::new));
    MARKS.iter().any(|mark| mark.find(text.as_bytes()).is_some())
}

/// The seals that an id carries.
#[derive(Debug)]
pub(super) struct SealsInId(pub(super) Vec<CarriedSeal>);

#[derive(Debug)]
pub(super) struct CarriedSeal {
    pub(super) issuer: String,
    pub(super) what: SealedKind,
    pub(super) data: String,
}

/// The thing that is sealed.
#[derive(Debug, PartialEq)]
pub(super) enum SealedKind {
    /// The call itself.
    Call,
    /// Reasoning before it, of which the client has the text.
    Reasoning(SealFingerprint),
    /// Reasoning that is the seal itself, with the id of its item.
    Encrypted(String),
}

/// A hash that distinguishes texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SealFingerprint(u64);

impl Default for SealFingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl SealFingerprint {
    pub(super) fn of(text: &str) -> Self {
        let mut fingerprint = Self::default();
        fingerprint.push(text);
        fingerprint
    }

    pub(super) fn push(&mut self, text: &str) {
        // FNV-1a: the same on every machine and in every release.
        self.0 =
            text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

impl SealsInId {
    pub(super) fn into_id(self, id: &str) -> String {
        let all: Value = self
            .0
            .into_iter()
            .map(|CarriedSeal { issuer, what, data }| {
                let (word, about) = match what {
                    SealedKind::Call => ("call", String::new()),
                    SealedKind::Reasoning(SealFingerprint(hash)) => ("thought", format!("{hash:x}")),
                    SealedKind::Encrypted(id) => ("encrypted", id),
                };
                Value::from_iter([word.to_owned(), issuer, about, data])
            })
            .collect();
        format!("{id}{MARK}{}", URL_SAFE_NO_PAD.encode(all.to_string()))
    }

    /// Takes the seals out of an id, if it carries any.
    fn take(id: &mut String) -> Option<Self> {
        let at = id.rfind(MARK)?;
        let bytes = URL_SAFE_NO_PAD.decode(id.get(at + MARK.len()..)?).ok()?;
        let all: Value = std::str::from_utf8(&bytes).ok()?.parse().ok()?;
        let seals = all.as_array()?.iter().map(|seal| {
            let member = |at: usize| seal.as_array()?.get(at)?.as_str().map(str::to_owned);
            let (about, issuer, data) = (member(2)?, member(1)?, member(3)?);
            let what = match member(0)?.as_str() {
                "call" => SealedKind::Call,
                "thought" => SealedKind::Reasoning(SealFingerprint(u64::from_str_radix(&about, 16).ok()?)),
                "encrypted" => SealedKind::Encrypted(about),
                _ => return None,
            };
            Some(CarriedSeal { issuer, what, data })
        });
        let seals = seals.collect::<Option<_>>()?;
        id.truncate(at);
        Some(Self(seals))
    }
}

/// The issuer of a seal, as far as its first bytes identify it: Anthropic's are a message whose second field is
/// followed by others, Google's one with a single field, OpenAI's a token with a version. None is as short as names
/// that tests make up.
pub(super) fn issuer_of(data: &str) -> &'static str {
    const SHORTEST: usize = 64;
    if data.starts_with("gAAAA") {
        return "openai";
    }
    let is_letter = |letter: &u8| letter.is_ascii_alphanumeric() || b"+/-_".contains(letter);
    let count = data.bytes().take_while(is_letter).count();
    let first: String = data[..count.min(8)].replace('-', "+").replace('_', "/");
    let bytes = STANDARD_NO_PAD.decode(&first[..first.len() / 4 * 4]).unwrap_or_default();
    match bytes.first() {
        // Field 1, alone or not, or field 2 alone: bytes, and how many.
        Some(0x0a) => "google",
        Some(0x12) => {
            let mut length = 0;
            let mut rest = bytes.iter().skip(1);
            let mut header = 1;
            for byte in rest.by_ref() {
                length |= usize::from(byte & 0x7f) << (7 * (header - 1));
                header += 1;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            if header + length == count * 3 / 4 { "google" } else { "anthropic" }
        }
        _ if data.len() < SHORTEST => "",
        _ => "unknown",
    }
}

/// Takes all seals out of the ids of a request, and puts them where they belong if `issuer` is to get them back.
pub(super) fn unload(
    request: &mut Request,
    protocol: &'static str,
    limits: &ProviderLimits,
    losses: &mut LossList,
) {
    let issuer = limits.issuer();
    drop_unresolved(request, limits, losses);
    for at in 0..request.messages.len() {
        let (before, rest) = request.messages.split_at_mut(at);
        let Some(message) = rest.first_mut() else { return };
        losses.at(format_args!("messages[{at}]"));
        if message
            .content
            .parts
            .iter()
            .any(|part| matches!(&part.body, PartKind::Call(call) if is_loaded(call)))
        {
            join_reasoning(&mut message.content.parts);
        }
        let mut number = 0;
        while let Some(part) = message.content.parts.get_mut(number) {
            let seals = match &mut part.body {
                PartKind::Call(call) => call.id.as_mut().and_then(SealsInId::take),
                PartKind::Result(result) => {
                    result.id.as_mut().and_then(SealsInId::take);
                    None
                }
                _ => None,
            };
            for CarriedSeal { issuer: own, what, data } in seals.into_iter().flat_map(|seals| seals.0) {
                let Some(issuer) = issuer.filter(|issuer| **issuer == own) else {
                    losses.put(format!("signature of {own}"));
                    continue;
                };
                let seal = ProviderSeal::new(issuer, data);
                match what {
                    SealedKind::Call => message.content.parts[number].signature = Some(seal),
                    SealedKind::Encrypted(id) => {
                        message.content.parts.insert(number, encrypted(seal, id, protocol));
                        number += 1;
                    }
                    SealedKind::Reasoning(fingerprint) => {
                        let turn = before.iter_mut().rev().take_while(|other| other.role == Role::Assistant);
                        let earlier = turn.flat_map(|message| message.content.parts.iter_mut().rev());
                        let mut parts = message.content.parts.iter_mut().rev().chain(earlier);
                        match parts.find(|part| is_reasoning(part, fingerprint)) {
                            Some(reasoning) => reasoning.signature = Some(seal),
                            // With another text, or none, the signature is worth nothing.
                            None => losses.put(format!("signature of {own}")),
                        }
                    }
                }
            }
            number += 1;
        }
    }
}

/// Drops seals that came back under a mark and are not this provider's, and reasoning that it would refuse without.
fn drop_unresolved(request: &mut Request, limits: &ProviderLimits, losses: &mut LossList) {
    let wants_seals =
        matches!(limits.replayed_reasoning, ReplayedReasoning::Signed(_) | ReplayedReasoning::Encrypted(_));
    let is_due = |part: &ContentPart| {
        let encrypted = match &part.body {
            PartKind::Reasoning(reasoning) => reasoning.encrypted.as_deref(),
            _ => None,
        };
        [part.signature.as_deref(), encrypted].into_iter().flatten().any(mark::is_unresolved)
    };
    if !request.messages.iter().flat_map(|message| &message.content.parts).any(is_due) {
        return;
    }
    let mut number = 0;
    request.messages.retain_mut(|message| {
        losses.at(format_args!("messages[{number}]"));
        number += 1;
        let count = message.content.parts.len();
        message.content.parts.retain_mut(|part| {
            let mut lost = part.signature.take_if(|seal| mark::is_unresolved(seal));
            if let PartKind::Reasoning(reasoning) = &mut part.body {
                lost = lost.or(reasoning.encrypted.take_if(|seal| mark::is_unresolved(seal)));
            }
            let Some(seal) = lost else { return true };
            losses.put(format!("signature of {}", issuer_name(&seal.issuer)));
            let PartKind::Reasoning(reasoning) = &part.body else { return true };
            let is_empty = reasoning.text.is_none() && reasoning.summary.as_ref().is_none_or(Vec::is_empty);
            !wants_seals && !is_empty
        });
        count == 0 || !message.content.parts.is_empty()
    });
}

fn is_loaded(call: &RequestCall) -> bool {
    call.id.as_ref().is_some_and(|id| id.contains(MARK))
}

/// Joins the pieces of reasoning that a client keeps as they came.
fn join_reasoning(parts: &mut Vec<ContentPart>) {
    let mut joined: Vec<ContentPart> = Vec::with_capacity(parts.len());
    for part in parts.drain(..) {
        if let PartKind::Reasoning(reasoning) = &part.body
            && let RequestReasoning { text: Some(text), summary: None, encrypted: None } = &**reasoning
            && part.is_plain()
            && let Some(last) = joined.last_mut().filter(|last| last.is_plain())
            && let PartKind::Reasoning(reasoning) = &mut last.body
            && let RequestReasoning { text: Some(before), summary: None, encrypted: None } = &mut **reasoning
        {
            before.push_str(text);
        } else {
            joined.push(part);
        }
    }
    *parts = joined;
}

/// Reasoning that only its issuer can read.
fn encrypted(seal: Box<ProviderSeal>, id: String, protocol: &'static str) -> ContentPart {
    let mut part = ContentPart::new(PartKind::from(RequestReasoning {
        encrypted: Some(seal),
        summary: Some(Vec::new()),
        ..RequestReasoning::default()
    }));
    if !id.is_empty() {
        part.retained = RetainedFields::new(protocol, Object::from_iter([("id", id)]));
    }
    part
}

fn is_reasoning(part: &ContentPart, fingerprint: SealFingerprint) -> bool {
    let PartKind::Reasoning(reasoning) = &part.body else { return false };
    let summary = reasoning.summary.as_ref().map(|texts| texts.join("\n\n"));
    [reasoning.text.as_deref(), summary.as_deref()]
        .into_iter()
        .flatten()
        .any(|text| SealFingerprint::of(text) == fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seals in the form of real ones, but short.
    #[test]
    fn whose_a_seal_is_shows_in_its_first_bytes() {
        let made = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
        let anthropic = [&[0x12, 0x04, 0x0a, 0x02, 8, 7][..], &[0x18, 2]].concat();
        let google = [0x12, 0x04, 0x0a, 0x02, 1, 7];
        assert_eq!(issuer_of(&made(&anthropic)), "anthropic");
        assert_eq!(issuer_of("EqQB.."), "anthropic");
        assert_eq!(issuer_of(&made(&google)), "google");
        assert_eq!(issuer_of(&made(&[0x0a, 0x02, 1, 7])), "google");
        let long = [&[0x12, 0xac, 0x02][..], &[1; 300]].concat();
        assert_eq!(issuer_of(&made(&long)), "google");
        assert_eq!(issuer_of(&made(&[&long[..], &[0x18, 2]].concat())), "anthropic");
        assert_eq!(issuer_of("gAAAAABo"), "openai");
        assert_eq!((issuer_of("c2ln"), issuer_of("signature-1"), issuer_of("")), ("", "", ""));
        assert_eq!(issuer_of(&"-G708YF".repeat(10)), "unknown");
    }

    #[test]
    fn what_rides_in_an_id_comes_out_again() {
        let seal = |what, data: &str| CarriedSeal { issuer: "google".into(), what, data: data.into() };
        let seals = SealsInId(vec![
            seal(SealedKind::Call, "a+/="),
            seal(SealedKind::Reasoning(SealFingerprint::of("é")), "b"),
            seal(SealedKind::Encrypted("rs_1".into()), "\"c\""),
        ]);
        let mut id = seals.into_id("call__sealed_1");
        assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{id}");
        let back = SealsInId::take(&mut id).expect("what was carried");
        assert_eq!(id, "call__sealed_1");
        assert_eq!(back.0.len(), 3);
        assert_eq!(back.0[0].data, "a+/=");
        assert_eq!(back.0[1].what, SealedKind::Reasoning(SealFingerprint::of("é")));
        assert!(SealsInId::take(&mut id).is_none(), "a client's own id stays");
        assert_eq!(id, "call__sealed_1");
    }
}
