//! Writing InvokeModel: the output of the vendor's protocol, one chunk for each of its frames; the complete response is
//! the vendor's own body.
//!
//! The inner protocol is that of the response, or for clients that of the model, from the table of vendors. The
//! plain-text models are written here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{JURASSIC, METRICS, OWN, PLAIN, PlainTextModel};
use crate::encode::{EncodeContext, EncodeOptions, ProtocolEncoding, StreamEncoder, WireCapabilities, count};
use crate::event::{BlockKind, Event, EventKind, EventScope, JsonText, Notice, NoticeCode, TokenCounts};
use crate::framing::{Frame, FrameKind, Framer, StreamLimits, write_event, write_exception};
use crate::json::{JsonWriter, MemberPaths, each_member, write_members};
use crate::message::{BlockContent, Choice, Message, Usage};
use crate::protocol::error::{IN_AMAZON_STREAMS, error_beside, write_message};
use crate::protocol::{Protocol, error_word, vendor};

pub(super) const ENCODING: ProtocolEncoding =
    ProtocolEncoding { stream, complete, capabilities, id_prefix: "" };

/// The capabilities of the inner protocol; errors are Bedrock's own.
fn capabilities(wire_type: &str, model: Option<&str>, options: &EncodeOptions) -> WireCapabilities {
    let inside = inside(wire_type, model, options).and_then(|protocol| protocol.encode);
    inside.map_or(WireCapabilities::BASE, |inside| WireCapabilities {
        errors: IN_AMAZON_STREAMS,
        ..(inside.capabilities)(wire_type, model, options)
    })
}

fn stream(options: &EncodeOptions) -> Box<dyn StreamEncoder> {
    Box::new(InvokeStream { options: options.clone(), ..InvokeStream::default() })
}

/// The protocol that the response is written in; none if it is that of a plain-text model.
fn inside(wire_type: &str, model: Option<&str>, options: &EncodeOptions) -> Option<&'static Protocol> {
    match options.is_normalized() {
        true => vendor(wire_type, options.model.as_deref().or(model)),
        false => vendor(wire_type, None).filter(|_| !wire_type.is_empty()),
    }
}

#[derive(Default)]
struct InvokeStream {
    options: EncodeOptions,
    vendor: Option<(Box<dyn StreamEncoder>, Option<Framer>)>,
    plain: PlainTextEncoder,
    /// The output of the vendor's encoder.
    written: Vec<u8>,
    /// Bedrock's additions to the next chunk, and to the last.
    next: MemberPaths,
    last: MemberPaths,
    counts: Option<Usage>,
    /// Whether the response has finished: its last chunks wait until they are known to be the last.
    is_ending: bool,
    last_chunks: Vec<String>,
    has_failed: bool,
    is_truncated: bool,
    chunk: String,
    payload: String,
}

impl StreamEncoder for InvokeStream {
    fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let is_normalized = self.options.is_normalized();
        match &event.body {
            EventKind::Start { wire_type, model, extra: members, .. } => {
                *self = Self {
                    options: std::mem::take(&mut self.options),
                    // Notices from before the start belong to this response.
                    is_truncated: self.is_truncated,
                    ..Self::default()
                };
                let inside = inside(wire_type, model.as_deref(), &self.options);
                let encoding = inside.and_then(|protocol| protocol.encode);
                self.vendor = encoding.map(|encoding| ((encoding.stream)(&self.options), None));
                // Fields from before a plain text; vendors' encoders write the fields of the start themselves.
                if self.vendor.is_none() && !is_normalized {
                    each_member(members.as_ref(), |path, value| self.next.set(path, value));
                }
                if let (Some((vendor, _)), true) = (&mut self.vendor, self.is_truncated) {
                    let notice = Notice::new(NoticeCode::Truncated, 0, "");
                    vendor.encode(&Event::new(0, EventKind::Notice(notice)), &mut self.written);
                }
            }
            _ if self.has_failed && is_normalized => return,
            EventKind::Usage { wire_type, counters, raw } => {
                count(&mut self.counts, counters, raw);
                if wire_type == METRICS && !is_normalized {
                    return self.last.set(METRICS, raw.as_str());
                }
            }
            EventKind::Extra { scope: EventScope::Response, path, value } if path.starts_with(OWN) => {
                if !is_normalized {
                    self.next.set(path, value.as_str());
                }
                return;
            }
            // Bedrock's own exception, if it is one.
            EventKind::Error(error) => {
                self.has_failed = true;
                let said = error.code.as_deref().filter(|code| code.ends_with("Exception"));
                let name = if is_normalized { error_word(error, IN_AMAZON_STREAMS) } else { said };
                if let Some(name) = name {
                    self.flush(out);
                    self.payload.clear();
                    match is_normalized {
                        true => {
                            let class = error_beside(error, IN_AMAZON_STREAMS);
                            write_message(error, class, &mut JsonWriter(&mut self.payload));
                        }
                        false => JsonWriter(&mut self.payload).raw(error.raw.as_str()),
                    }
                    return write_exception(name, &self.payload, out);
                }
            }
            EventKind::Finish { .. } => self.is_ending = true,
            EventKind::Notice(notice) => self.is_truncated |= notice.code == NoticeCode::Truncated,
            _ => {}
        }
        match &mut self.vendor {
            Some((vendor, _)) => {
                vendor.encode(event, &mut self.written);
                self.wrap(out);
            }
            None => {
                if self.plain.write(&event.body, &mut self.chunk) {
                    self.put(out);
                }
            }
        }
        if let EventKind::End = event.body {
            let is_complete = !std::mem::take(&mut self.is_truncated) && !self.has_failed;
            if is_normalized && is_complete {
                let counters = self.counts.as_ref().map(|counts| counts.counters).unwrap_or_default();
                self.last.set(METRICS, &metrics(&counters));
            }
            self.flush(out);
        }
    }
}

impl InvokeStream {
    /// Makes chunks of the output of the vendor's encoder.
    fn wrap(&mut self, out: &mut Vec<u8>) {
        let written = std::mem::take(&mut self.written);
        if let (Some((_, framer)), false) = (&mut self.vendor, written.is_empty()) {
            let mut framer = framer.take().unwrap_or_else(|| Framer::detect(StreamLimits::default()));
            let is_named = !is_text(&written);
            let _ = framer.push(&written, &mut |frame: Frame<'_>| match frame.kind {
                FrameKind::Error => write_exception(frame.event.unwrap_or_default(), frame.data, out),
                FrameKind::Stray => {}
                FrameKind::Data if !frame.data.starts_with('{') => {}
                FrameKind::Data => {
                    self.chunk.clear();
                    // A name that only the framing knows becomes a member.
                    match frame.event.filter(|_| is_named) {
                        Some(name) => {
                            let mut writer = JsonWriter(&mut self.chunk);
                            writer.object();
                            writer.key(name);
                            self.chunk.push_str(frame.data);
                            self.chunk.push('}');
                        }
                        None => self.chunk.push_str(frame.data),
                    }
                    add(&self.next, &mut self.chunk);
                    self.next.clear();
                    match self.is_ending {
                        true => self.last_chunks.push(self.chunk.clone()),
                        false => put_chunk(&self.chunk, &mut self.payload, out),
                    }
                }
            });
            if let Some((_, kept)) = &mut self.vendor {
                *kept = Some(framer);
            }
        }
        self.written = written;
        self.written.clear();
    }

    fn put(&mut self, out: &mut Vec<u8>) {
        add(&self.next, &mut self.chunk);
        self.next.clear();
        match self.is_ending {
            true => self.last_chunks.push(std::mem::take(&mut self.chunk)),
            false => put_chunk(&self.chunk, &mut self.payload, out),
        }
    }

    /// Writes the last chunks, and Bedrock's additions to the last of them.
    fn flush(&mut self, out: &mut Vec<u8>) {
        let last = std::mem::take(&mut self.last);
        if !last.is_empty() && self.last_chunks.is_empty() {
            self.last_chunks.push("{}".to_owned());
        }
        if let Some(chunk) = self.last_chunks.last_mut().filter(|chunk| !chunk.contains(METRICS)) {
            add(&last, chunk);
        }
        for chunk in std::mem::take(&mut self.last_chunks) {
            put_chunk(&chunk, &mut self.payload, out);
        }
    }
}

/// Whether the frames are text, with their names in the data.
fn is_text(written: &[u8]) -> bool {
    written.starts_with(b"event:") || written.starts_with(b"data:")
}

/// Adds Bedrock's members to the vendor's object.
fn add(members: &MemberPaths, chunk: &mut String) {
    if !members.is_empty() && chunk.ends_with('}') {
        chunk.pop();
        members.write(&mut JsonWriter(chunk));
        chunk.push('}');
    }
}

fn put_chunk(chunk: &str, payload: &mut String, out: &mut Vec<u8>) {
    payload.clear();
    payload.push_str("{\"bytes\":\"");
    STANDARD.encode_string(chunk, payload);
    payload.push_str("\"}");
    write_event("chunk", payload, out);
}

/// Returns token counts in the form that Bedrock has for every vendor.
fn metrics(counters: &TokenCounts) -> String {
    let mut text = String::new();
    let counters = counters.with_cache_beside();
    JsonWriter(&mut text).in_object(|writer| {
        writer.number_members([
            ("inputTokenCount", Some(counters.input_tokens.unwrap_or(0))),
            ("outputTokenCount", Some(counters.output_tokens.unwrap_or(0))),
            ("cacheReadInputTokenCount", counters.cached_tokens),
            ("cacheWriteInputTokenCount", counters.cache_write_tokens),
            ("invocationLatency", Some(0)),
            ("firstByteLatency", Some(0)),
        ]);
    });
    text
}

/// The encoder of a plain-text model's response.
#[derive(Default)]
struct PlainTextEncoder {
    words: Option<&'static PlainTextModel>,
    pending: MemberPaths,
}

impl PlainTextEncoder {
    /// Writes the chunk of the event; returns false if there is none.
    fn write(&mut self, body: &EventKind<'_>, chunk: &mut String) -> bool {
        let (text, reason) = match body {
            EventKind::BlockStart { kind: BlockKind::Opaque { value }, .. } => {
                chunk.clear();
                JsonWriter(chunk).raw(value.as_str());
                return true;
            }
            EventKind::BlockStart { wire_type, .. } => {
                self.words = PLAIN.iter().find(|words| words.wire_type == wire_type).or(self.words);
                return false;
            }
            EventKind::Usage { raw, .. } => {
                each_member(Some(raw), |key, value| self.pending.set(key, value));
                return false;
            }
            EventKind::Extra { scope: EventScope::Choice | EventScope::Response, path, value } => {
                self.pending.set(path, value.as_str());
                return false;
            }
            EventKind::Delta { text, .. } => (text.as_ref(), None),
            EventKind::Finish { raw: Some(raw), .. } => ("", Some(raw.as_ref())),
            EventKind::End if !self.pending.is_empty() => ("", None),
            _ => return false,
        };
        chunk.clear();
        let pending = std::mem::take(&mut self.pending);
        let words = self.words.unwrap_or(&PLAIN[0]);
        let list = words.list.filter(|_| words.is_always_list);
        JsonWriter(chunk).in_object(|writer| {
            let answer = |writer: &mut JsonWriter<'_>| {
                words.write(list.is_some(), text, reason, pending.iter(), writer);
            };
            match list {
                Some(list) => writer.list_member(list, |writer| writer.in_object(answer)),
                None => answer(writer),
            }
        });
        true
    }
}

impl PlainTextModel {
    /// Writes the members of a response.
    fn write<'p>(
        &self,
        is_listed: bool,
        text: &str,
        reason: Option<&str>,
        members: impl Iterator<Item = (&'p str, &'p str)>,
        writer: &mut JsonWriter<'_>,
    ) {
        for (key, value) in self.usual.iter().filter(|_| !is_listed) {
            writer.raw_member(key, value);
        }
        writer.text_member(self.text, text);
        match reason {
            Some(reason) => writer.text_member(self.reason, reason),
            None => writer.raw_member(self.reason, "null"),
        }
        write_members(&members.collect::<Vec<_>>(), writer);
    }
}

fn complete(message: &Message, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let options = &context.options;
    let inside = inside(&message.wire_type, message.model.as_deref(), options);
    if let Some(encoding) = inside.and_then(|protocol| protocol.encode) {
        return (encoding.complete)(message, context, writer);
    }
    match (message.choices.first(), message.errors.first()) {
        (_, Some(error)) => writer.raw(error.raw.as_str()),
        (Some(choice), None) => complete_plain(choice, message, options, writer),
        (None, None) => writer.raw("{}"),
    }
}

fn complete_plain(first: &Choice, message: &Message, options: &EncodeOptions, writer: &mut JsonWriter<'_>) {
    if let Some(BlockContent::Opaque(value)) = first.blocks.first().map(|block| &block.content) {
        return writer.raw(value.as_str());
    }
    let wire_type = first.blocks.first().map_or("", |block| &block.wire_type);
    let words = PLAIN.iter().find(|words| words.wire_type == wire_type).unwrap_or(&PLAIN[0]);
    let counters = message.usage.as_ref().map(|usage| usage.counters).unwrap_or_default();
    let [input, output] = words.counts;
    let is_jurassic = wire_type == JURASSIC;
    let list = if is_jurassic { Some("completions") } else { words.list };
    let answer = |choice: &Choice, writer: &mut JsonWriter<'_>| {
        let mut members = MemberPaths::default();
        members.set_all(choice.extra.paths());
        let count = counters.output_tokens.filter(|_| choice.number == 0);
        if let (false, Some(count)) = (output.is_empty(), count) {
            members.set_number(output, count);
        }
        let reason = choice.finish.as_ref().and_then(|finish| finish.raw.as_deref());
        match is_jurassic {
            true => write_jurassic(&choice.text(), reason, members, writer),
            false => words.write(list.is_some(), &choice.text(), reason, members.iter(), writer),
        }
    };
    writer.in_object(|writer| {
        if !input.is_empty() {
            writer.number_members([(input, counters.input_tokens)]);
        }
        match list {
            Some(list) => writer.list_member(list, |writer| {
                message.choices.iter().for_each(|choice| writer.in_object(|writer| answer(choice, writer)));
            }),
            // Only a list can hold several.
            None => message.choices.iter().take(1).for_each(|choice| answer(choice, writer)),
        }
        // Other protocols' fields of the response are not written here.
        let is_own = |path: &str| !options.is_normalized() || path.starts_with(OWN);
        for (path, value) in message.extra.paths().filter(|(path, _)| is_own(path)) {
            writer.raw_member(path, value);
        }
    });
}

/// Writes `"data": {"text", …}, "finishReason": {"reason", …}` and the members beside them.
fn write_jurassic(text: &str, reason: Option<&str>, others: MemberPaths, writer: &mut JsonWriter<'_>) {
    let mut members = MemberPaths::default();
    members.set("data.text", JsonText::from_text(text).as_str());
    members.set_all(others.iter());
    if let Some(reason) = reason {
        members.set("finishReason.reason", JsonText::from_text(reason).as_str());
    }
    members.write(writer);
}
