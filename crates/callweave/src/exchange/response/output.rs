//! The client's side of a response: bytes while it comes, or a message when it is over.

use std::sync::Arc;

use super::super::SharedState;
use super::super::incoming::{IncomingRequest, start};
use super::complete_calls::CompleteCalls;
use super::rewrite::{FrameEnds, FrameRewriter, ReplacedIds};
use super::stats::ResponseStats;
use crate::accumulator::Accumulator;
use crate::encode::{Encoder, escape_line_separators};
use crate::event::{Event, EventKind, EventScope, JsonText, Notice, NoticeCode, Sink, TokenCounts};
use crate::json::Value;
use crate::message::Message;
use crate::upstream::UpstreamError;

/// The part of a response that is held until it is known to be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exchange) enum HeldPart {
    /// Nothing.
    Nothing,
    /// The end: it says that all went well.
    End,
    /// Everything.
    All,
}

/// Events → bytes and message of the client.
pub(in crate::exchange) struct ClientOutput {
    incoming: Arc<IncomingRequest>,
    shared: Arc<SharedState>,
    /// Writes a stream.
    encoder: Option<Encoder>,
    /// Completes calls, where the client takes no pieces of them.
    complete_calls: Option<Box<CompleteCalls>>,
    buffer: Vec<u8>,
    /// Collects the response, for a non-streaming body or for the store.
    message: Option<Box<Accumulator>>,
    hold: HeldPart,
    held: Vec<Event<'static>>,
    is_holding: bool,
    /// Whether the start of the response was written.
    has_begun: bool,
    /// Whether the response keeps the id that the upstream gave it.
    keeps_id: bool,
    /// Whether the client gets the usage.
    emits_usage: bool,
    is_raw: bool,
    /// Rewrites frames of the upstream that need it.
    rewrite: Option<Box<FrameRewriter>>,
    /// The last bytes of the upstream, where the client gets them; zeros before any came.
    tail: [u8; 4],
    /// Whether clients skip comments.
    has_comments: bool,
    /// Whether frames are lines, not events.
    has_lines: bool,
    /// Whether the upstream has another name for the model than the client.
    renames_model: bool,
    /// Bytes of the upstream that may be the beginning of a line separator.
    unsent: Vec<u8>,
    /// The number of invalid calls that were marked.
    marked: usize,
    /// Tokens of responses that the client does not get.
    spent: TokenCounts,
    /// Whether the message is kept when the response is over.
    pub(in crate::exchange) is_kept: bool,
    /// Statistics.
    pub(in crate::exchange) stats: ResponseStats,
}

/// The configuration for writing a response.
pub(in crate::exchange) struct OutputConfig {
    /// The client's request.
    pub(in crate::exchange) incoming: Arc<IncomingRequest>,
    /// The store of responses, among other shared state.
    pub(in crate::exchange) shared: Arc<SharedState>,
    /// Whether the message is kept, too.
    pub(in crate::exchange) is_kept: bool,
    pub(in crate::exchange) hold: HeldPart,
    pub(in crate::exchange) keeps_id: bool,
    pub(in crate::exchange) emits_usage: bool,
    /// Whether the client gets the bytes of the upstream.
    pub(in crate::exchange) is_raw: bool,
    /// Whether the client skips comments.
    pub(in crate::exchange) has_comments: bool,
    /// Whether frames are lines, not events.
    pub(in crate::exchange) has_lines: bool,
    /// Whether the upstream has another name for the model than the client.
    pub(in crate::exchange) renames_model: bool,
}

impl ClientOutput {
    pub(in crate::exchange) fn new(config: OutputConfig) -> Self {
        let OutputConfig {
            incoming,
            shared,
            is_kept,
            hold,
            keeps_id,
            emits_usage,
            is_raw,
            has_comments,
            has_lines,
            renames_model,
        } = config;
        let is_streamed = incoming.is_streamed;
        let frames = match (is_streamed, has_lines) {
            (false, _) => FrameEnds::Body,
            (true, true) => FrameEnds::Lines,
            (true, false) => FrameEnds::Events,
        };
        let rewrite = is_raw && (renames_model || incoming.call_ids().next().is_some());
        let rewrite = rewrite.then(|| {
            let model = renames_model.then(|| incoming.model.clone());
            Box::new(FrameRewriter::new(frames, model))
        });
        let encoder = if is_streamed && !is_raw { encoder(&incoming) } else { None };
        let complete_calls = incoming.wants_complete_calls.then(Box::default);
        Self {
            incoming,
            shared,
            encoder,
            complete_calls,
            buffer: Vec::new(),
            message: (is_kept || !is_streamed && !is_raw).then(|| Box::new(Accumulator::new())),
            hold,
            held: Vec::new(),
            is_holding: hold == HeldPart::All,
            has_begun: false,
            keeps_id,
            emits_usage,
            is_raw,
            rewrite,
            tail: [0; 4],
            has_comments,
            has_lines,
            renames_model,
            unsent: Vec::new(),
            marked: 0,
            spent: TokenCounts::default(),
            is_kept,
            stats: ResponseStats::default(),
        }
    }

    /// Whether a response of that id is kept for the client.
    fn is_taken(&self, id: &str) -> bool {
        self.is_kept
            && self.shared.store().is_some_and(|store| store.response(&self.incoming.scope, id).is_some())
    }

    /// Takes bytes of the upstream, where the client gets them.
    pub(in crate::exchange) fn take_raw(&mut self, bytes: &[u8]) {
        match &mut self.rewrite {
            Some(rewrite) => rewrite.push(bytes),
            None => self.put_raw(bytes),
        }
    }

    /// Takes frames that were held until their calls were known.
    pub(in crate::exchange) fn release_frames(&mut self, ids: ReplacedIds<'_>, is_over: bool) {
        if let Some(rewrite) = &mut self.rewrite {
            let frames = if is_over { rewrite.finish(ids) } else { rewrite.take(ids) };
            self.put_raw(&frames);
        }
    }

    fn put_raw(&mut self, bytes: &[u8]) {
        if self.is_raw {
            let start = self.buffer.len();
            self.buffer.append(&mut self.unsent);
            self.buffer.extend_from_slice(bytes);
            // Two of three bytes at most.
            let tail = &self.buffer[self.buffer.len().saturating_sub(2).max(start)..];
            let open =
                tail.iter().position(|byte| matches!(byte, 0xc2 | 0xe2)).map_or(0, |at| tail.len() - at);
            self.unsent = self.buffer.split_off(self.buffer.len() - open);
            escape_line_separators(&mut self.buffer, start);
            for &byte in &bytes[bytes.len().saturating_sub(self.tail.len())..] {
                self.tail.rotate_left(1);
                self.tail[3] = byte;
            }
        }
    }

    /// Whether the last bytes of the upstream ended inside a frame: an event, or a line.
    fn is_amid(&self) -> bool {
        match self.has_lines {
            _ if self.tail == [0; 4] => false,
            true => !self.tail.ends_with(b"\n"),
            false => !self.tail.ends_with(b"\n\n") && self.tail != *b"\r\n\r\n",
        }
    }

    /// Marks calls that cannot be run, in comments that clients of server-sent events skip.
    pub(in crate::exchange) fn mark(&mut self) {
        if !self.has_comments || self.is_holding || self.is_raw {
            return;
        }
        for (id, what) in self.stats.complaints.get(self.marked..).unwrap_or_default() {
            let line = format!(": callweave: the call {id} cannot be run: {what}").replace(['\n', '\r'], " ");
            self.buffer.extend_from_slice(line.as_bytes());
            self.buffer.extend_from_slice(b"\n\n");
        }
        self.marked = self.stats.complaints.len();
    }

    /// Whether a keep-alive may follow the bytes that were sent.
    pub(in crate::exchange) fn may_ping(&self) -> bool {
        !self.is_amid()
    }

    /// Writes a failure that the bytes of the upstream do not contain.
    pub(in crate::exchange) fn end_raw(&mut self) {
        self.buffer.append(&mut self.unsent);
        if let Some(error) = self.stats.error.as_ref().filter(|_| self.is_raw)
            && let Some(mut encoder) = encoder(&self.incoming)
        {
            // The client may have the beginning already, and perhaps a part of a frame.
            let mut begun = Vec::new();
            for body in [start(), EventKind::ChoiceStart] {
                encoder.encode(&Event::new(0, body), &mut begun);
            }
            if self.tail == [0; 4] {
                self.buffer.append(&mut begun);
            } else if self.is_amid() {
                self.buffer.extend_from_slice(if self.has_lines { &b"\n"[..] } else { b"\n\n" });
            }
            for body in failed(error) {
                encoder.encode(&Event::new(0, body), &mut self.buffer);
            }
        }
    }

    /// The bytes to send now.
    pub(in crate::exchange) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Whether there are bytes to send.
    pub(in crate::exchange) fn has_bytes(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Whether the model may be asked again.
    pub(in crate::exchange) fn may_reask(&self) -> bool {
        self.hold == HeldPart::All
    }

    /// Whether the response is held until it is known to be good.
    pub(in crate::exchange) fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Writes the held events.
    pub(in crate::exchange) fn release(&mut self) {
        self.is_holding = false;
        for event in std::mem::take(&mut self.held) {
            self.write(event);
        }
    }

    /// Drops the held events, but not their tokens: another response follows.
    pub(in crate::exchange) fn forget(&mut self) {
        self.held.clear();
        self.is_holding = self.hold == HeldPart::All;
        self.marked = 0;
        let seen = std::mem::take(&mut self.stats);
        self.spent = self.spent.plus(&seen.usage);
    }

    /// Writes an error in place of the held events.
    pub(in crate::exchange) fn fail(&mut self, error: &UpstreamError<'static>) {
        self.held.clear();
        self.is_holding = false;
        self.hold = HeldPart::Nothing;
        if !self.has_begun {
            self.put(Event::new(0, start()));
        }
        for body in failed(error) {
            self.put(Event::new(0, body));
        }
        self.end_raw();
    }

    /// The tokens of all responses.
    pub(in crate::exchange) fn usage(&self) -> TokenCounts {
        self.spent.plus(&self.stats.usage)
    }

    /// The message of the held events.
    pub(in crate::exchange) fn held_message(&self) -> Message {
        let mut message = Accumulator::new();
        self.held.iter().for_each(|event| message.put(event.clone()));
        message.take()
    }

    /// The message.
    pub(in crate::exchange) fn message(&mut self) -> Message {
        self.message.as_mut().map(|message| message.take()).unwrap_or_default()
    }

    /// Writes the non-streaming body of a message; that of the upstream is there, where the client gets its bytes.
    pub(in crate::exchange) fn put_body(&mut self, message: &Message) {
        if !self.is_raw {
            let IncomingRequest { wire, options, .. } = &*self.incoming;
            wire.protocol.encode_body(message, options, &mut self.buffer);
        }
    }

    /// Puts bytes in place of those that were not sent.
    pub(in crate::exchange) fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.buffer = bytes;
    }

    fn write(&mut self, event: Event<'_>) {
        self.has_begun |= matches!(event.body, EventKind::Start { .. });
        if matches!(event.body, EventKind::End) {
            // Clients stop reading at the end.
            self.mark();
        }
        let Self { encoder, complete_calls, buffer, message, .. } = self;
        match (encoder, complete_calls) {
            (Some(encoder), Some(calls)) => calls.encode(encoder, &event, buffer),
            (Some(encoder), None) => encoder.encode(&event, buffer),
            (None, _) => {}
        }
        if let Some(message) = message {
            message.put(event);
        }
    }
}

/// Writes a stream for the client.
fn encoder(incoming: &IncomingRequest) -> Option<Encoder> {
    incoming.wire.protocol.encoder(&incoming.options)
}

/// The end of a response that failed. A truncated response gets no end marker that stands for success.
fn failed(error: &UpstreamError<'static>) -> [EventKind<'static>; 3] {
    let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
    [EventKind::Error(error.clone()), EventKind::Notice(notice), EventKind::End]
}

impl<'e> Sink<Event<'e>> for ClientOutput {
    fn put(&mut self, mut event: Event<'e>) {
        self.stats.see(&event);
        if self.renames_model
            && let EventKind::Start { model: Some(model), .. }
            | EventKind::Identity { model: Some(model), .. } = &mut event.body
        {
            *model = self.incoming.model.clone().into();
        }
        match &mut event.body {
            // An id of another protocol is none here, and may repeat in the next response. One under which a response
            // is kept already would hide that.
            EventKind::Start { id, .. } | EventKind::Identity { scope: EventScope::Response, id, .. }
                if !self.keeps_id || id.as_deref().is_some_and(|id| self.is_taken(id)) =>
            {
                *id = None;
            }
            EventKind::Usage { .. } if !self.emits_usage => return,
            EventKind::Usage { counters, raw, .. } if self.spent != TokenCounts::default() => {
                *counters = counters.plus(&self.spent);
                *raw = JsonText::from_value(&Value::object([]));
            }
            EventKind::Finish { .. } | EventKind::End => self.is_holding |= self.hold == HeldPart::End,
            _ => {}
        }
        if self.is_holding {
            self.held.push(event.into_owned());
        } else {
            self.write(event);
        }
    }
}
