//! What the client gets: bytes while the answer comes, or a message when it is over.

use std::borrow::Cow;

use bytes::Bytes;
use callweave::encode::EncodeOptions;
use callweave::event::{BlockKind, Body, Counters, Event, Json, Notice, NoticeCode, Scope, Sink};
use callweave::protocol::Protocol;
use callweave::upstream::UpstreamError;
use callweave::{Accumulator, Encoder, Message};

use super::watch::Watch;

/// How much of an answer is held until it is known to be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing.
    Nothing,
    /// What comes from the first call on.
    Calls,
    /// All of it.
    All,
}

/// Events → what the client gets.
pub(crate) struct Output {
    protocol: &'static Protocol,
    options: EncodeOptions,
    /// Writes a stream.
    encoder: Option<Encoder>,
    buffer: Vec<u8>,
    /// Collects the answer, for a whole body or for the store.
    message: Option<Box<Accumulator>>,
    hold: Hold,
    held: Vec<Event<'static>>,
    is_holding: bool,
    /// Whether the beginning of the answer was written.
    has_begun: bool,
    /// Whether the answer keeps the id that the upstream gave it.
    keeps_id: bool,
    /// Whether the client wants to know the usage.
    tells_usage: bool,
    is_raw: bool,
    /// Whether the last bytes of the upstream's ended in the middle of something.
    is_amid: bool,
    /// Whether clients take comments for nothing.
    has_comments: bool,
    /// How many calls were marked that cannot be run.
    marked: usize,
    /// Tokens of answers that the client does not get to see.
    spent: Counters,
    /// Whether the message is needed when the answer is over.
    pub(crate) is_kept: bool,
    /// What was seen of the answer.
    pub(crate) watch: Watch,
}

/// What an output is to do.
pub(crate) struct Wanted {
    pub(crate) protocol: &'static Protocol,
    pub(crate) options: EncodeOptions,
    pub(crate) is_streamed: bool,
    /// Whether the message is needed, too.
    pub(crate) is_kept: bool,
    pub(crate) hold: Hold,
    pub(crate) keeps_id: bool,
    pub(crate) tells_usage: bool,
    /// Whether the client gets the bytes of the upstream as they are.
    pub(crate) is_raw: bool,
    /// Whether the client takes comments for nothing.
    pub(crate) has_comments: bool,
}

impl Output {
    pub(crate) fn new(wanted: Wanted) -> Self {
        let Wanted {
            protocol,
            options,
            is_streamed,
            is_kept,
            hold,
            keeps_id,
            tells_usage,
            is_raw,
            has_comments,
        } = wanted;
        let encoder = if is_streamed && !is_raw { protocol.encoder(&options) } else { None };
        Self {
            protocol,
            encoder,
            options,
            buffer: Vec::new(),
            message: ((is_kept || !is_streamed) && !is_raw).then(|| Box::new(Accumulator::new())),
            hold,
            held: Vec::new(),
            is_holding: hold == Hold::All,
            has_begun: false,
            keeps_id,
            tells_usage,
            is_raw,
            is_amid: false,
            has_comments,
            marked: 0,
            spent: Counters::default(),
            is_kept,
            watch: Watch::default(),
        }
    }

    /// Takes bytes of the upstream's, where the client gets them as they are.
    pub(crate) fn take_raw(&mut self, bytes: &[u8]) {
        if self.is_raw {
            self.buffer.extend_from_slice(bytes);
            self.is_amid = !bytes.ends_with(b"\n\n") && !bytes.ends_with(b"\r\n\r\n");
        }
    }

    /// Marks calls that cannot be run, in a comment that clients of server-sent events take for nothing.
    pub(crate) fn mark(&mut self) {
        if !self.has_comments || self.is_holding || self.is_raw {
            return;
        }
        for (id, what) in self.watch.complaints.get(self.marked..).unwrap_or_default() {
            let line = format!(": callweave: the call {id} cannot be run: {what}").replace(['\n', '\r'], " ");
            self.buffer.extend_from_slice(line.as_bytes());
            self.buffer.extend_from_slice(b"\n\n");
        }
        self.marked = self.watch.complaints.len();
    }

    /// Whether something may stand between what was sent and what will be.
    pub(crate) fn may_ping(&self) -> bool {
        !self.is_amid
    }

    /// Tells a failure that the bytes of the upstream do not tell.
    pub(crate) fn end_raw(&mut self) {
        if let Some(error) = self.watch.error.as_ref().filter(|_| self.is_raw)
            && let Some(mut encoder) = self.protocol.encoder(&self.options)
        {
            let start = Body::Start { id: None, model: None, word: Cow::Borrowed(""), members: None };
            encoder.encode(&Event::new(0, start), &mut Vec::new());
            encoder.encode(&Event::new(0, Body::Error((**error).clone())), &mut self.buffer);
        }
    }

    /// What is to be sent now.
    pub(crate) fn take(&mut self) -> Bytes {
        match self.buffer.is_empty() {
            true => Bytes::new(),
            false => Bytes::from(std::mem::take(&mut self.buffer)),
        }
    }

    /// Whether there is something to be sent.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Whether another answer may follow this one.
    pub(crate) fn may_ask_again(&self) -> bool {
        self.hold == Hold::All
    }

    /// Whether the answer is held until it is known to be good.
    pub(crate) fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Lets what was held go.
    pub(crate) fn release(&mut self) {
        self.is_holding = false;
        for event in std::mem::take(&mut self.held) {
            self.write(event);
        }
    }

    /// Forgets what was held, but not what it cost: another answer follows.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
        self.is_holding = self.hold == Hold::All;
        self.marked = 0;
        let seen = std::mem::take(&mut self.watch);
        self.spent = plus(&self.spent, &seen.usage);
    }

    /// Puts an error in the place of what was held.
    pub(crate) fn fail(&mut self, error: &UpstreamError<'static>) {
        self.held.clear();
        self.is_holding = false;
        self.hold = Hold::Nothing;
        if !self.has_begun {
            let start = Body::Start { id: None, model: None, word: Cow::Borrowed(""), members: None };
            self.put(Event::new(0, start));
        }
        let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
        for body in [Body::Error(error.clone()), Body::Notice(notice), Body::End] {
            self.put(Event::new(0, body));
        }
    }

    /// The tokens of all answers.
    pub(crate) fn usage(&self) -> Counters {
        plus(&self.spent, &self.watch.usage)
    }

    /// The message, as it was held or collected.
    pub(crate) fn held_message(&self) -> Message {
        let mut message = Accumulator::new();
        self.held.iter().for_each(|event| message.put(event.clone()));
        message.take()
    }

    /// The message.
    pub(crate) fn message(&mut self) -> Message {
        self.message.as_mut().map(|message| message.take()).unwrap_or_default()
    }

    /// The whole body of a message; that of the upstream, where the client gets it as it is.
    pub(crate) fn body(&mut self, message: &Message) -> Vec<u8> {
        let mut body = Vec::new();
        if self.is_raw {
            return std::mem::take(&mut self.buffer);
        }
        self.protocol.encode_whole(message, &self.options, &mut body);
        body
    }

    fn write(&mut self, event: Event<'_>) {
        self.has_begun |= matches!(event.body, Body::Start { .. });
        if matches!(event.body, Body::End) {
            // Nobody reads what follows the end.
            self.mark();
        }
        let Self { encoder, buffer, message, .. } = self;
        if let Some(encoder) = encoder {
            encoder.encode(&event, buffer);
        }
        if let Some(message) = message {
            message.put(event);
        }
    }
}

impl<'e> Sink<Event<'e>> for Output {
    fn put(&mut self, event: Event<'e>) {
        let mut event = event;
        self.watch.see(&event);
        match &mut event.body {
            // An id of another protocol's is none, and may come again with the next answer.
            Body::Start { id, .. } | Body::Identity { scope: Scope::Answer, id, .. } if !self.keeps_id => {
                *id = None;
            }
            Body::Usage { .. } if !self.tells_usage => return,
            Body::Usage { counters, raw, .. } if self.spent != Counters::default() => {
                *counters = plus(counters, &self.spent);
                *raw = Json::from_value(&callweave::Value::object([]));
            }
            Body::BlockStart { kind: BlockKind::ToolCall { .. }, .. } => {
                self.is_holding |= self.hold == Hold::Calls;
            }
            _ => {}
        }
        if self.is_holding {
            self.held.push(event.into_owned());
        } else {
            self.write(event);
        }
    }
}

/// The sums; what neither counted was not counted.
fn plus(one: &Counters, two: &Counters) -> Counters {
    let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
        (None, None) => None,
        (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
    };
    Counters {
        input_tokens: sum(one.input_tokens, two.input_tokens),
        output_tokens: sum(one.output_tokens, two.output_tokens),
        total_tokens: sum(one.total_tokens, two.total_tokens),
        cached_tokens: sum(one.cached_tokens, two.cached_tokens),
        cache_write_tokens: sum(one.cache_write_tokens, two.cache_write_tokens),
        reasoning_tokens: sum(one.reasoning_tokens, two.reasoning_tokens),
    }
}
