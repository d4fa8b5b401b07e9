//! The losses of translating a response are the losses that the encoders name, and no others.
//!
//! Every own case and, where it is at hand, every recording is written in every other protocol (normalized), streamed
//! and complete, and read again; and from there back in its own. The content is the same, feature by feature, but for
//! the losses that were named. And each loss that is named shows somewhere, so that none is named in vain.

use std::collections::{BTreeMap, BTreeSet};

use callweave::event::Event;
use callweave::message::Message;
use callweave::request::Loss;
use serde_json::Value;

use super::{WIRES, Wire};
use crate::features::{Features, features};
use crate::laws::decode_truncated;
use crate::samples::samples;

/// A response written in another protocol.
pub(crate) struct Written {
    pub(crate) form: &'static str,
    bytes: Vec<u8>,
    pub(crate) losses: Vec<Loss>,
}

/// Both forms of a response.
pub(crate) fn written(wire: &Wire, events: &[Event<'static>], message: &Message) -> [Written; 2] {
    let (target, options) = (wire.protocol(), wire.options());
    let mut encoder = target.encoder(&options).expect("a protocol that is written");
    let mut stream = Vec::new();
    events.iter().for_each(|event| encoder.encode(event, &mut stream));
    let mut whole = Vec::new();
    assert!(target.encode_body(message, &options, &mut whole), "a protocol that is written");
    let losses = encoder.losses().to_vec();
    [
        Written { form: "stream", bytes: stream, losses },
        Written { form: "whole", bytes: whole, losses: target.losses(message, &options) },
    ]
}

const COUNTS: &[&str] = &[
    "input tokens",
    "output tokens",
    "total tokens",
    "cached tokens",
    "cache write tokens",
    "reasoning tokens",
];

/// The features that a loss excuses, where they are not of its own name.
fn excused(loss: &str) -> &'static [&'static str] {
    match loss {
        "correction of what a stream has told" => {
            &["text", "reasoning", "refusal", "calls", "cut of a call", "finish reason"]
        }
        "id that comes late" => &["id", "model", "calls"],
        "id or model of a failed answer" => &["id", "model"],
        "token counts of an answer without end" => COUNTS,
        // A truncated response has failed, or was truncated by a limit.
        "cut of the answer" => &["error", "class of an error", "finish reason"],
        // One that is reported to be no object was truncated before.
        "cut of a call" => &["finish reason"],
        _ => &[],
    }
}

/// Returns the features that differ in the second response, except for the losses.
pub(crate) fn differing(one: &Features, other: &Features, losses: &BTreeSet<String>) -> Vec<String> {
    // Nothing can be said of a call without a name.
    if one.get("calls").is_some_and(is_nameless) {
        return Vec::new();
    }
    let is_lost =
        |name: &str| losses.contains(name) || losses.iter().any(|loss| excused(loss).contains(&name));
    let names: BTreeSet<_> = one.keys().chain(other.keys()).copied().collect();
    let pairs =
        names.into_iter().filter(|name| !is_lost(name)).map(|name| (name, one.get(name), other.get(name)));
    // A failure that only the finish reason reports may be reported in words.
    let has_failed = one.get("finish reason").is_some_and(|reason| reason == "Error");
    let is_made = |name: &str, one: Option<&Value>| has_failed && one.is_none() && name.contains("error");
    let differing = pairs.filter(|(name, one, other)| !is_same(name, *one, *other) && !is_made(name, *one));
    differing.map(|(name, one, other)| format!("{name}: {one:?} became {other:?}")).collect()
}

fn is_same(name: &str, one: Option<&Value>, other: Option<&Value>) -> bool {
    match (name, one, other) {
        // Made where there was none.
        ("id" | "model" | "input tokens" | "total tokens", None, _) => true,
        ("calls", Some(one), Some(other)) => is_same_calls(one, other),
        _ => one == other,
    }
}

fn is_nameless(calls: &Value) -> bool {
    calls.as_array().into_iter().flatten().any(|call| call[1] == "")
}

/// Ids that several calls share are made anew.
fn is_same_calls(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_array(), other.as_array()) else { return false };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            (one[0] == "" || one[0] == other[0])
                && one[1] == other[1]
                && ([one, other].iter().any(|call| call[2].is_null()) || one[2] == other[2])
        })
}

/// The cases with content that no translation can be asked for, and why.
const ASIDE: &[(&str, &str)] = &[
    ("anthropic-messages/things-not-known-yet", "what nobody knows is content of an envelope"),
    ("bedrock-invoke/envelope-inside-an-envelope", "no vendor speaks in envelopes"),
];

pub(crate) fn names(losses: &[Loss]) -> BTreeSet<String> {
    losses.iter().map(|loss| loss.what.clone()).collect()
}

#[test]
fn what_is_not_lost_is_the_same_there_and_back() {
    let mut complaints = Vec::new();
    // The named losses, and whether each showed.
    let mut named: BTreeMap<(&str, String), bool> = BTreeMap::new();
    let mut count = 0;
    for sample in samples() {
        let decoded = decode_truncated(Some(sample.protocol), &sample.bytes, &[]);
        // Several responses are several messages.
        let is_aside = ASIDE.iter().any(|(title, _)| *title == sample.title);
        if is_aside || decoded.error.is_some() || decoded.messages.len() != 1 {
            continue;
        }
        let original = features(&decoded.message, false);
        let own = WIRES.iter().find(|wire| wire.name == sample.protocol.name);
        for wire in WIRES.iter().filter(|wire| wire.name != sample.protocol.name) {
            for Written { form, bytes, losses } in written(wire, &decoded.events, &decoded.message) {
                count += 1;
                let title = format!("{} in {} ({form})", sample.title, wire.name);
                let there = decode_truncated(Some(wire.protocol()), &bytes, &[]);
                let (read, mut lost) = (features(&there.message, false), names(&losses));
                let faults = differing(&original, &read, &lost);
                for loss in lost.iter().filter(|loss| !loss.starts_with("member ")) {
                    let own = [loss.as_str()];
                    let all = excused(loss).iter().chain(&own);
                    let shows = all.into_iter().any(|name| original.get(name) != read.get(name));
                    *named.entry((wire.name, loss.clone())).or_default() |= shows;
                }
                complaints.extend(faults.iter().map(|fault| format!("{title}: {fault}")));
                let Some(own) = own.filter(|_| faults.is_empty()) else { continue };
                for Written { form, bytes, losses } in written(own, &there.events, &there.message) {
                    let back = features(&decode_truncated(Some(sample.protocol), &bytes, &[]).message, false);
                    lost.extend(names(&losses));
                    let faults = differing(&original, &back, &lost);
                    complaints
                        .extend(faults.iter().map(|fault| format!("{title} and back ({form}): {fault}")));
                }
            }
        }
    }
    assert!(count > 0, "nothing to translate");
    let vain: Vec<_> = named.iter().filter(|(_, shows)| !**shows).map(|(loss, _)| loss).collect();
    let is_all = std::env::var_os("ONLY").is_none();
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
    assert!(!is_all || vain.is_empty(), "named, but not lost: {vain:#?}");
}
