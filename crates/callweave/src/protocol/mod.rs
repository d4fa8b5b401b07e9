//! The wire protocols: one frame (or a complete body) → fragments, and events → bytes.
//!
//! Each protocol is one file with one [`Protocol`] row, listed in [`TABLE`]. It knows only its own wire names. Decoding
//! is pure: it reads one JSON value and states its contents, streamed chunk and complete body alike, keeping no state;
//! everything stateful is [`Weave`](crate::weave::Weave)'s.
//!
//! A protocol must handle every member it meets: read it, pass it on as [`FragmentKind::Extra`], or list it as volatile
//! (padding, sequence numbers). Nothing is dropped silently.

use crate::encode::ProtocolEncoding;
use crate::event::FinishReason;
use crate::fragment::{BlockKey, ExtraScope, Fragment, FragmentKind, FragmentSink, ReadUsage, UsageReport};
use crate::json::{JsonKind, Opaque, Str, TapeNode as Value};
use crate::request::RequestCoding;
use crate::upstream::{ErrorClass, UpstreamError};

mod anthropic_messages;
mod bedrock_converse;
mod bedrock_invoke;
mod call;
mod codex_app_server;
mod cohere_v2;
mod error;
mod gemini_generate_content;
mod gemini_interactions;
mod ollama;
mod openai_chat;
mod openai_responses;

pub use anthropic_messages::PROTOCOL as ANTHROPIC_MESSAGES;
pub use bedrock_converse::PROTOCOL as BEDROCK_CONVERSE;
pub use bedrock_invoke::PROTOCOL as BEDROCK_INVOKE;
#[doc(hidden)]
pub use call::{CallObject, CallPortion, CallWords};
pub use codex_app_server::PROTOCOL as CODEX_APP_SERVER;
#[cfg(feature = "exchange")]
pub use codex_app_server::{AppServerConnection, AppServerLine};
#[cfg(feature = "exchange")]
pub(crate) use codex_app_server::{CodexSession, ServerMessage, SessionSettings};
pub use cohere_v2::PROTOCOL as COHERE_V2;
use error::ErrorClassNames;
pub(crate) use error::{ErrorCoding, ErrorContext, report, report_body, report_text};
pub use error::{NO_HEADERS, WrittenError, read_error};
pub use gemini_generate_content::PROTOCOL as GEMINI_GENERATE_CONTENT;
pub use gemini_interactions::PROTOCOL as GEMINI_INTERACTIONS;
pub use ollama::PROTOCOL as OLLAMA;
#[cfg(feature = "exchange")]
pub(crate) use ollama::chat_of_prompt;
#[doc(hidden)]
pub use openai_chat::CALL as CHAT_CALL;
pub use openai_chat::PROTOCOL as OPENAI_CHAT;
pub use openai_responses::PROTOCOL as OPENAI_RESPONSES;

/// Every protocol, in the order of detection.
pub static TABLE: &[&Protocol] = &[
    &CODEX_APP_SERVER,
    &OPENAI_RESPONSES,
    &ANTHROPIC_MESSAGES,
    &BEDROCK_CONVERSE,
    &BEDROCK_INVOKE,
    &GEMINI_INTERACTIONS,
    &GEMINI_GENERATE_CONTENT,
    &OLLAMA,
    &COHERE_V2,
    &OPENAI_CHAT,
];

/// The vendors with models that respond in a protocol of the table behind an envelope: the vendor's part of their model
/// ids, that protocol's wire types of a response, and the protocol.
static VENDORS: &[(&str, &[&str], &Protocol)] = &[
    ("anthropic", &["message"], &anthropic_messages::PROTOCOL),
    ("openai", &["chat.completion", "text_completion"], &openai_chat::PROTOCOL),
    ("amazon", &["output"], &bedrock_converse::PROTOCOL),
];

/// The protocol of the model's vendor (`us.anthropic.claude-…`), or else the one with that wire type of a response; for
/// an unknown model and wire type, the first of the vendors.
fn vendor(wire_type: &str, model: Option<&str>) -> Option<&'static Protocol> {
    let of_model =
        model.and_then(|model| VENDORS.iter().find(|(id, ..)| model.split('.').any(|part| part == *id)));
    let of_word = || VENDORS.iter().find(|(_, words, _)| words.contains(&wire_type));
    of_model.or_else(of_word).or(VENDORS.first()).map(|(.., protocol)| *protocol)
}

/// A wire protocol. A row of the [`TABLE`].
pub struct Protocol {
    /// Its name, such as `openai-chat`.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// Its title, for people.
    pub title: &'static str,
    /// Members that say nothing about the response (padding, sequence numbers) and are left out.
    pub volatile: &'static [&'static str],
    /// Whether a member after a text may mark it as reasoning.
    pub(crate) kind_follows_text: bool,
    /// Its own names for the classes of errors; of several names for a class the canonical one is first.
    pub errors: &'static [(&'static str, ErrorClass)],
    /// Writes the error responses of this protocol; none while it is only read.
    pub(crate) failure: Option<ErrorCoding>,
    /// Whether this frame or body is of this protocol, and how strong the evidence is. May look at the shape and at the
    /// names of events, not at content.
    pub(crate) recognise: fn(&ProtocolFrame<'_>) -> Option<DetectionEvidence>,
    /// Reads the contents of the frame or body.
    pub(crate) decode: fn(&ProtocolFrame<'_>, &mut FragmentSink<'_>),
    /// Writes responses in this protocol; none while it is only read.
    pub(crate) encode: Option<ProtocolEncoding>,
    /// Reads and writes requests of this protocol; none while only its responses are known.
    pub(crate) request: Option<RequestCoding>,
}

/// The strength of the evidence that a frame is of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DetectionEvidence {
    /// Other protocols have such frames, too: keep-alives, errors, replies. They may come before anything.
    Weak,
    /// No other protocol has such frames.
    Strong,
}

impl DetectionEvidence {
    /// Returns strong or weak evidence if the one or the other is there.
    fn of(is_strong: bool, is_weak: impl FnOnce() -> bool) -> Option<Self> {
        match is_strong {
            true => Some(Self::Strong),
            false => is_weak().then_some(Self::Weak),
        }
    }
}

/// One frame as a protocol gets it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ProtocolFrame<'a> {
    /// The name that the framing gave the frame (SSE `event:`, AWS `:event-type`), if any.
    pub event: Option<&'a str>,
    /// The frame's JSON.
    pub value: Value<'a>,
}

impl Protocol {
    /// The protocol of that name or alias, in any case.
    pub fn named(name: &str) -> Option<&'static Protocol> {
        TABLE.iter().copied().find(|protocol| {
            protocol.name.eq_ignore_ascii_case(name)
                || protocol.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        })
    }

    /// The protocol of a frame or complete body, if this one determines it.
    #[doc(hidden)]
    pub fn detect(input: &ProtocolFrame<'_>) -> Option<&'static Protocol> {
        Self::detect_among(TABLE, input)
    }

    /// The one of `candidates` that the frame or body is of, if this one determines it.
    #[doc(hidden)]
    pub fn detect_among(
        candidates: &[&'static Protocol],
        input: &ProtocolFrame<'_>,
    ) -> Option<&'static Protocol> {
        Self::weigh(candidates, input).map(|(_, protocol)| protocol)
    }

    /// The one of `candidates` with the best evidence; of several, the first.
    pub(crate) fn weigh(
        candidates: &[&'static Protocol],
        input: &ProtocolFrame<'_>,
    ) -> Option<(DetectionEvidence, &'static Protocol)> {
        let mut best = None;
        for &protocol in candidates {
            match (protocol.recognise)(input) {
                Some(DetectionEvidence::Strong) => return Some((DetectionEvidence::Strong, protocol)),
                Some(DetectionEvidence::Weak) => best = best.or(Some((DetectionEvidence::Weak, protocol))),
                None => {}
            }
        }
        best
    }

    /// Reads the contents of the frame or body.
    #[doc(hidden)]
    pub fn decode(&self, input: &ProtocolFrame<'_>, sink: &mut FragmentSink<'_>) {
        (self.decode)(input, sink);
    }
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Eq for Protocol {}

impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The subject of an extra field.
#[derive(Clone, Copy)]
struct ExtraSubject {
    choice: u32,
    place: Option<BlockKey>,
    level: ExtraScope,
}

impl ExtraSubject {
    const ANSWER: Self = Self { choice: 0, place: None, level: ExtraScope::Response };

    fn choice(choice: u32) -> Self {
        Self { choice, place: None, level: ExtraScope::Choice }
    }

    /// The subject of the next fragment.
    fn next(choice: u32) -> Self {
        Self { choice, place: None, level: ExtraScope::Next }
    }

    fn item(place: BlockKey) -> Self {
        Self { choice: 0, place: Some(place), level: ExtraScope::Item }
    }

    fn block(choice: u32, place: BlockKey) -> Self {
        Self { choice, place: Some(place), level: ExtraScope::Block }
    }
}

/// Passes on an extra field. A null says nothing.
#[inline(always)]
fn extra<'a>(
    subject: ExtraSubject,
    path: &'static str,
    key: &'a str,
    value: Value<'a>,
    sink: &mut FragmentSink<'_>,
) {
    if !value.is_null() {
        put_extra(subject, path, key, value.opaque_json(), sink);
    }
}

/// Takes the value as written: a node would have to be stored for it in every loop over members.
#[inline(never)]
fn put_extra<'a>(
    subject: ExtraSubject,
    path: &'static str,
    key: &'a str,
    value: Opaque<'a>,
    sink: &mut FragmentSink<'_>,
) {
    let ExtraSubject { choice, place, level } = subject;
    sink.put(Fragment { choice, key: place, part: FragmentKind::Extra { level, path, key, value } });
}

/// Whether the value is of that kind, or null. A value of another kind is passed on.
#[inline]
fn is_kind(value: Value<'_>, kind: JsonKind) -> bool {
    value.is_null() || value.kind() == kind
}

/// The number of a choice; without a number it is the position.
#[inline]
fn choice_number(index: Option<Value<'_>>, position: usize) -> u32 {
    let index = index.and_then(Value::index).filter(|&index| index >= 0);
    // All numbers out of range are one choice, but never another's.
    index.map_or(position as u64, i64::cast_unsigned).try_into().unwrap_or(u32::MAX)
}

/// Whether the value is one of the usual strings of this member (or no string at all) and says nothing; any other
/// string is worth passing on.
#[inline(always)]
fn is_usual<const COUNT: usize>(value: Value<'_>, words: &[&str; COUNT]) -> bool {
    match value.str() {
        Some(Str::Plain(own)) => own.is_empty() || words.contains(&own),
        Some(own) => own.is_empty() || words.iter().any(|wire_type| own.is(wire_type)),
        None => false,
    }
}

/// Reports token counts, if there are any: `read` finds them in that object, and nothing else of the frame depends on it.
fn report_usage<'a>(wire_type: &'a str, usage: Value<'a>, read: ReadUsage, sink: &mut FragmentSink<'_>) {
    if usage.members().next().is_some() {
        let usage = UsageReport::of(usage, read);
        sink.put(Fragment::new(FragmentKind::Usage { wire_type, usage }));
    }
}

/// Reads the members of these names as counts; of several of one name, the last.
fn counts<const COUNT: usize>(object: Value<'_>, names: [&str; COUNT]) -> [Option<u64>; COUNT] {
    let mut counts = [None; COUNT];
    for (key, value) in object.members() {
        if let Some(at) = names.iter().position(|name| *name == key) {
            counts[at] = value.count();
        }
    }
    counts
}

/// Reports an error of the upstream, in a protocol with these names for errors. Null, `""`, `false` and `{}` are no
/// error.
fn error(error: Value<'_>, words: &'static ErrorClassNames, sink: &mut FragmentSink<'_>) -> bool {
    report(error, ErrorContext { words, ..ErrorContext::default() }, sink)
}

/// Looks up a provider's finish reason in a table of `(name, reason)`; an unknown one is [`FinishReason::Other`].
fn finish_reason(wire_type: Str<'_>, words: &[(&str, FinishReason)]) -> FinishReason {
    words.iter().find(|(known, _)| wire_type.is(known)).map_or(FinishReason::Other, |&(_, reason)| reason)
}

/// The wire's name for a finish reason, for clients: the provider's own if it means the same, else the canonical one.
fn finish_word<'w>(
    reason: FinishReason,
    said: Option<&'w str>,
    words: &[(&'static str, FinishReason)],
) -> Option<&'w str> {
    let said = said.filter(|said| words.contains(&(said, reason)));
    let canonical = || words.iter().find(|(_, known)| *known == reason).map(|(wire_type, _)| *wire_type);
    // A name for an unspecific reason is only right if the provider itself gave it.
    said.or_else(|| canonical().filter(|_| reason != FinishReason::Other))
}

/// The wire's name for an error, for clients: likewise. An error that cannot be classified is a server error.
pub(crate) fn error_word<'e>(
    error: &'e UpstreamError<'_>,
    words: &'static [(&'static str, ErrorClass)],
) -> Option<&'e str> {
    let said = error.code.as_deref().filter(|code| words.contains(&(code, error.class)));
    let of = |class| words.iter().find(|(_, known)| *known == class).map(|(wire_type, _)| *wire_type);
    let lost = error::LOST_CONNECTION;
    let own = match error::is_lost_connection(error) {
        // Most names for transport errors mean timeouts.
        true => words.contains(&(lost, error.class)).then_some(lost),
        false => of(error.class),
    };
    said.or(own).or_else(|| of(ErrorClass::Server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> =
            TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name])).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
