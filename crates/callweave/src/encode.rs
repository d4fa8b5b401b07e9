//! Encoders: events → bytes.
//!
//! An [`Encoder`] takes the events of a response, one by one, and appends their form in its protocol to a buffer of the
//! caller's. It keeps only the state its wire needs: indices, sequence numbers, open blocks. Complete bodies are
//! written from a [`Message`] through the same tables.
//!
//! There are two [`EncodeMode`]s. *Lossless* writes back the values of the same protocol: its own finish reasons,
//! indices, ids and extra fields. *Normalized* writes the form clients expect, from any source protocol: derived finish
//! reasons, calls numbered from 0, valid arguments. Time and ids that must be made come from the caller: nothing here
//! has a clock.
//!
//! Wires have no way to mark a truncated response: the output then ends without a reason, or with that of a limit.
//! [`EncodeOptions::reporting_truncation`] lets it end with an error, in the form of the wire.
//!
//! Where a wire wants arguments as an object, normalized mode writes arguments that can be read as one, repaired if
//! need be. A custom tool's text is then under `input`; arguments that are no object, or were truncated, are under
//! `INVALID_JSON` as the model wrote them, to be neither lost nor taken for a call without arguments.
//!
//! ```
//! use callweave::encode::EncodeOptions;
//! use callweave::event::Event;
//! use callweave::pipeline::Decoder;
//! use callweave::protocol::Protocol;
//!
//! let input = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
//! let chat = Protocol::named("openai-chat").expect("a protocol of that name");
//! let mut encoder = chat.encoder(&EncodeOptions::normalized()).expect("chat is written");
//! let mut output = Vec::new();
//! let mut decoder = Decoder::detect();
//! decoder.push(input.as_bytes(), &mut |event: Event<'_>| encoder.encode(&event, &mut output))?;
//! decoder.finish(&mut |event: Event<'_>| encoder.encode(&event, &mut output))?;
//! assert!(String::from_utf8_lossy(&output).ends_with("data: [DONE]\n\n"));
//! # Ok::<(), callweave::Error>(())
//! ```

mod break_off;
mod context;
mod core;
mod delta_templates;
mod ids;
mod loss;
pub(crate) mod objects;
mod open_blocks;
mod pieces;
mod turns;

pub(crate) use self::core::{AttachmentEvent, BlockStart, EncoderCore, Wire, WireEncoder};
use crate::event::{Event, EventKind, FinishReason, JsonText, TokenCounts};
use crate::framing::Framing;
use crate::json::{JsonWriter, MemberPaths};
use crate::message::{Message, Usage};
use crate::protocol::Protocol;
use crate::request::Loss;
use break_off::TruncationWatcher;
pub(crate) use context::EncodeContext;
pub(crate) use delta_templates::{DeltaTemplates, WrittenDelta};
pub(crate) use ids::UniqueCallIds;
use loss::LossLedger;
pub(crate) use loss::{WireCapabilities, WireFeature, block_kind};
pub(crate) use open_blocks::OpenBlocks;
pub(crate) use pieces::{ArgumentPieces, write_arguments};
pub(crate) use turns::{ClientReading, is_of_choice};

/// The mode in which a response is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EncodeMode {
    /// As in the same protocol: nothing is lost, nothing is improved.
    #[default]
    Lossless,
    /// As clients expect it, from any source protocol.
    Normalized,
}

/// The caller's options of an encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The mode in which the response is written.
    pub mode: EncodeMode,
    /// The id of a response that has none.
    pub id: Option<String>,
    /// The model of a response that names none.
    pub model: Option<String>,
    /// The time of the response, in seconds since 1970, where the wire has it and the response does not.
    pub created: Option<u64>,
    /// The framing of a stream, where the protocol has several; else its usual one.
    pub framing: Option<Framing>,
    /// Whether a stream for clients is without token counts, where clients must ask for them (chat's
    /// `stream_options.include_usage`).
    pub leaves_out_usage: bool,
    /// Whether a response that was truncated, and reports no error itself, ends with one.
    pub reports_truncation: bool,
    /// Whether clients get the older form of a protocol that has two: in Chat the first call as `function_call`, in
    /// Ollama the lines of `/api/generate`.
    pub older_form: bool,
    /// The id of the response that the client continues, where the wire names it and the upstream did not get it.
    pub previous: Option<String>,
}

impl EncodeOptions {
    /// Options to write back the same protocol's own values.
    pub fn lossless() -> Self {
        Self::default()
    }

    /// Options to write the form clients expect.
    pub fn normalized() -> Self {
        Self { mode: EncodeMode::Normalized, ..Self::default() }
    }

    /// Sets the id of a response that has none.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Sets the model of a response that names none.
    pub fn model(self, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Sets the time of the response, in seconds since 1970.
    pub fn created(self, seconds: u64) -> Self {
        Self { created: Some(seconds), ..self }
    }

    /// Sets the framing of a stream, where the protocol has several.
    pub fn framing(self, framing: Framing) -> Self {
        Self { framing: Some(framing), ..self }
    }

    /// Leaves token counts out of streams where clients must ask for them.
    pub fn without_usage(self) -> Self {
        Self { leaves_out_usage: true, ..self }
    }

    /// Ends a truncated response with an error, as a failure of the connection to the provider, unless it reports an
    /// error itself.
    ///
    /// ```
    /// use callweave::encode::EncodeOptions;
    /// use callweave::pipeline::decode;
    /// use callweave::protocol::ANTHROPIC_MESSAGES;
    ///
    /// let cut = decode(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hal\"}}]}\n\n")?;
    /// let (mut plain, mut failed) = (Vec::new(), Vec::new());
    /// ANTHROPIC_MESSAGES.encode_body(&cut, &EncodeOptions::normalized(), &mut plain);
    /// ANTHROPIC_MESSAGES.encode_body(&cut, &EncodeOptions::normalized().reporting_truncation(), &mut failed);
    /// assert!(decode(&plain)?.error().is_none());
    /// assert!(decode(&failed)?.error().is_some());
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn reporting_truncation(self) -> Self {
        Self { reports_truncation: true, ..self }
    }

    /// Writes the older form of a protocol that has two, for clients that know no other.
    pub fn older_form(self) -> Self {
        Self { older_form: true, ..self }
    }

    /// Sets the id of the response that the client continues.
    pub fn previous(self, id: impl Into<String>) -> Self {
        Self { previous: Some(id.into()), ..self }
    }

    pub(crate) fn is_normalized(&self) -> bool {
        self.mode == EncodeMode::Normalized
    }
}

/// An encoder of response events into bytes of one protocol. See the [module](self).
pub struct Encoder {
    wire: Box<dyn StreamEncoder>,
    ledger: LossLedger,
    /// Present if the caller wants truncation reported.
    break_off: Option<TruncationWatcher>,
    /// Whether text has come that may contain line separators.
    may_have_separators: bool,
}

impl Encoder {
    /// Appends the wire's form of the event; for many events that is nothing, or it waits for the next.
    pub fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        self.write(event, out);
        // Nearly all events are deltas without separators, and a delta may release text that waited.
        let is_plain = match &event.body {
            EventKind::Delta { text, .. } => {
                self.may_have_separators |=
                    !text.is_ascii() && text.bytes().any(|byte| matches!(byte, 0xc2 | 0xe2));
                !self.may_have_separators
            }
            _ => false,
        };
        if !is_plain {
            self.may_have_separators |= escape_line_separators(out, start);
        }
    }

    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        // Nearly all events are deltas, and nothing is lost of them.
        if !matches!(event.body, EventKind::Delta { .. }) {
            self.ledger.take(event);
            if let Some(error) = self.break_off.as_mut().and_then(|watch| watch.take(event)) {
                self.wire.encode(&Event::new(event.choice, EventKind::Error(error)), out);
                let body = EventKind::Finish { reason: FinishReason::Error, raw: None };
                return self.wire.encode(&Event::new(event.choice, body), out);
            }
        }
        self.wire.encode(event, out);
    }

    /// Returns the parts of the response written so far that its clients will not get: none in lossless mode, or where
    /// the response came in this protocol.
    ///
    /// ```
    /// use callweave::encode::EncodeOptions;
    /// use callweave::event::Event;
    /// use callweave::pipeline::Decoder;
    /// use callweave::protocol::Protocol;
    ///
    /// let input = br#"{"id":"m1","type":"message","role":"assistant","model":"m","content":[
    ///     {"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}"#;
    /// let chat = Protocol::named("openai-chat").expect("a protocol of that name");
    /// let mut encoder = chat.encoder(&EncodeOptions::normalized()).expect("chat is written");
    /// let (mut decoder, mut output) = (Decoder::detect(), Vec::new());
    /// decoder.push(input, &mut |event: Event<'_>| encoder.encode(&event, &mut output))?;
    /// decoder.finish(&mut |event: Event<'_>| encoder.encode(&event, &mut output))?;
    /// let losses: Vec<_> = encoder.losses().iter().map(ToString::to_string).collect();
    /// assert_eq!(losses, ["choices[0].blocks[0]: signature of reasoning"]);
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn losses(&self) -> &[Loss] {
        self.ledger.losses()
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

/// A protocol's stream encoder.
pub(crate) trait StreamEncoder: Send + Sync {
    /// Appends the wire's form of the event.
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>);
}

/// Appends one named server-sent event, whose object begins with its type; `members` adds to the object. The frame is
/// left in `frame`.
pub(crate) fn put_named_event(
    frame: &mut String,
    name: &str,
    out: &mut Vec<u8>,
    members: impl FnOnce(&mut JsonWriter<'_>),
) {
    frame.clear();
    for piece in ["event: ", name, "\ndata: "] {
        frame.push_str(piece);
    }
    JsonWriter(frame).in_object(|writer| {
        writer.text_member("type", name);
        members(writer);
    });
    frame.push_str("\n\n");
    out.extend_from_slice(frame.as_bytes());
}

/// Appends one server-sent event.
pub(crate) fn put_event(name: Option<&str>, data: &str, out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data.as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// Escapes the line separators of Unicode that are not escaped in JSON text from `start` on: many clients split streams
/// there. They can only be inside strings, since JSON allows them nowhere else. Binary frames are left as they are.
/// Returns whether there were any.
pub(crate) fn escape_line_separators(out: &mut Vec<u8>, start: usize) -> bool {
    let is_binary = out.get(start) == Some(&0);
    let Some(first) = next_separator(&out[start..]).filter(|_| !is_binary) else { return false };
    let rest = out.split_off(start + first.0);
    let mut rest = rest.as_slice();
    while let Some((at, length, escape)) = next_separator(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(escape);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
    true
}

/// The next of U+0085, U+2028 and U+2029: its position, its length, and its escape.
fn next_separator(bytes: &[u8]) -> Option<(usize, usize, &'static [u8])> {
    memchr::memchr2_iter(0xc2, 0xe2, bytes).find_map(|at| match bytes[at..] {
        [0xc2, 0x85, ..] => Some((at, 2, br"\u0085".as_slice())),
        [0xe2, 0x80, 0xa8, ..] => Some((at, 3, br"\u2028".as_slice())),
        [0xe2, 0x80, 0xa9, ..] => Some((at, 3, br"\u2029".as_slice())),
        _ => None,
    })
}

/// Merges token counts into the total, as a message does.
pub(crate) fn count(total: &mut Option<Usage>, counters: &TokenCounts, raw: &JsonText<'_>) {
    match total {
        Some(total) => total.merge(counters, raw),
        None => *total = Some(Usage { counters: *counters, raw: raw.clone().into_owned() }),
    }
}

/// Writes counts, and the provider's other members, which it returns: without those whose counts are written, and none
/// if the provider's names are an envelope's. A count that is in another member already is left out.
pub(crate) fn write_counts(
    counts: &[(&str, Option<u64>)],
    raw: Option<&JsonText<'_>>,
    is_elsewhere: impl Fn(&str, &MemberPaths) -> bool,
    writer: &mut JsonWriter<'_>,
) -> MemberPaths {
    let mut others = MemberPaths::of(raw);
    if !counts.iter().any(|(key, _)| others.get(key).is_some()) {
        others.clear();
    }
    for (key, count) in counts {
        // The last object may lack a count of an earlier one.
        if let Some(count) = count.filter(|_| !is_elsewhere(key, &others)) {
            others.remove(key);
            writer.number_member(key, count);
        }
    }
    others.write(writer);
    others
}

/// The encoding functions of a protocol.
#[derive(Clone, Copy)]
pub(crate) struct ProtocolEncoding {
    pub(crate) stream: fn(&EncodeOptions) -> Box<dyn StreamEncoder>,
    /// Writes a complete body.
    pub(crate) complete: fn(&Message, &EncodeContext, &mut JsonWriter<'_>),
    /// The capabilities of the wire for responses of other protocols, by the response's wire type and model.
    pub(crate) capabilities: loss::CapabilityRow,
    /// The prefix of its response ids.
    pub(crate) id_prefix: &'static str,
}

impl Protocol {
    /// Whether responses can be written in this protocol.
    pub fn is_written(&self) -> bool {
        self.encode.is_some()
    }

    /// The prefix of response ids in this protocol, for callers that make one ([`EncodeOptions::id`]); empty where ids
    /// have no prefix, or responses have none.
    ///
    /// ```
    /// use callweave::protocol::Protocol;
    ///
    /// let prefix = |name| Protocol::named(name).map(|protocol| protocol.response_id_prefix());
    /// assert_eq!((prefix("openai-chat"), prefix("ollama")), (Some("chatcmpl-"), Some("")));
    /// ```
    pub fn response_id_prefix(&self) -> &'static str {
        self.encode.map_or("", |encoding| encoding.id_prefix)
    }

    /// Returns an encoder of streams; none if the protocol is only read.
    pub fn encoder(&self, options: &EncodeOptions) -> Option<Encoder> {
        self.encode.map(|encoding| Encoder {
            wire: (encoding.stream)(options),
            ledger: LossLedger::new(encoding.capabilities, options),
            break_off: options.reports_truncation.then(TruncationWatcher::default),
            may_have_separators: false,
        })
    }

    /// Appends the complete body of a response; returns false if the protocol is only read.
    pub fn encode_body(&self, message: &Message, options: &EncodeOptions, out: &mut Vec<u8>) -> bool {
        let Some(encoding) = self.encode else { return false };
        let failed = if options.reports_truncation { break_off::failed(message) } else { None };
        let (message, start) = (failed.as_ref().unwrap_or(message), out.len());
        let capabilities = (encoding.capabilities)(&message.wire_type, message.model.as_deref(), options);
        let mut text = String::new();
        (encoding.complete)(
            message,
            &EncodeContext::of(message, options, &capabilities),
            &mut JsonWriter(&mut text),
        );
        out.extend_from_slice(text.as_bytes());
        escape_line_separators(out, start);
        true
    }

    /// Returns the losses of the response's complete body in this protocol, as [`Encoder::losses`] does of a stream.
    pub fn losses(&self, message: &Message, options: &EncodeOptions) -> Vec<Loss> {
        self.encode
            .map(|encoding| LossLedger::of(encoding.capabilities, message, options))
            .unwrap_or_default()
    }
}
