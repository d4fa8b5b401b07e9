//! Responses: bytes → events → messages, with everything that the options ask for on the way.

use std::collections::HashSet;

use anyhow::{Context, Result, anyhow};
use callweave::accumulator::Accumulator;
use callweave::arguments::ArgumentStage;
use callweave::dialect::ExtractOptions;
use callweave::event::{BlockId, BlockKind, Event, EventKind, EventSink, FinishReason, Sink};
use callweave::framing::{Framing, StreamLimits};
use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, read_error};

use crate::brief::NoticeBudget;
use crate::commands::extract::found_dialect;
use crate::input::InputFile;
use crate::rows::{RowFailure, RowOutcome};
use crate::verdict::{self, ADVICE};

/// The options for reading a response.
#[derive(Clone, Copy)]
pub(crate) struct ReadOptions<'o> {
    /// The protocol, if it is known.
    pub(crate) protocol: Option<&'static Protocol>,
    pub(crate) limits: StreamLimits,
    /// The dialect of its text, if that is to be read.
    pub(crate) dialect: Option<&'o ExtractOptions>,
    /// The argument stage for its calls.
    pub(crate) arguments: &'o ArgumentStage,
}

/// The decoded input: a response, or several, one after the other.
pub(crate) struct DecodedResponses {
    /// The messages that were not taken as they ended, and the last.
    messages: Vec<Message>,
    pub(crate) protocol: Option<&'static Protocol>,
    /// Whether it came in pieces.
    pub(crate) is_streamed: bool,
    /// The reason why it could not be read to its end.
    failure: Option<anyhow::Error>,
    /// A description of the detected input.
    pub(crate) nature: String,
}

impl ReadOptions<'_> {
    /// Reads the input to its end. Events go to `live` as they happen; the content of a response is kept in its message
    /// if that `is_kept`. After each piece of input `pause` is called and may take the messages of responses that are
    /// over, so that a long recording need not be kept.
    pub(crate) fn read(
        &self,
        input: &mut InputFile,
        live: Option<&mut EventSink<'_>>,
        is_kept: bool,
        mut pause: impl FnMut(&Decoder, &mut Vec<Message>) -> Result<()>,
    ) -> DecodedResponses {
        let mut decoder = self.decoder();
        let mut messages = Vec::new();
        let ledger = EventLedger { accumulator: Accumulator::new(), is_kept, calls: HashSet::new(), live };
        let mut brief = NoticeBudget::new(ledger);
        let read = pump(input, &mut decoder, &mut brief, |decoder, brief| {
            messages.extend(brief.next.accumulator.take_earlier());
            pause(decoder, &mut messages)
        });
        brief.finish();
        messages.extend(brief.next.accumulator.take_all());
        let dialect = self.dialect.map(|options| found_dialect(decoder.dialect(), options));
        let nature = nature(&decoder, dialect.as_deref(), input);
        let protocol = decoder.protocol();
        DecodedResponses {
            messages,
            protocol,
            is_streamed: is_streamed(&decoder),
            failure: read.err(),
            nature,
        }
    }

    fn decoder(&self) -> Decoder {
        let mut builder = Decoder::builder().limits(self.limits).arguments(self.arguments.clone());
        if let Some(protocol) = self.protocol {
            builder = builder.protocol(protocol);
        }
        if let Some(dialect) = self.dialect {
            builder = builder.dialect(dialect.clone());
        }
        builder.build()
    }
}

impl DecodedResponses {
    /// Returns the reason why the first faulty one of these messages cannot be relied on. Where the input could not be
    /// read to its end, that is the last one's failure.
    pub(crate) fn problem(self, messages: &[Message]) -> Result<Option<String>> {
        let (last, before) = messages.split_last().context("there is always one")?;
        let problem = |message| verdict::of_message(message, self.protocol);
        match (before.iter().find_map(problem), self.failure) {
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(problem(last)),
            (problem, _) => Ok(problem),
        }
    }

    /// Returns the outcome of each. Where the input could not be read to its end, that is the last one's failure.
    pub(crate) fn outcomes(mut self) -> Vec<Result<RowOutcome, RowFailure>> {
        let mut failure = self.failure.take();
        let last = self.messages.len().saturating_sub(1);
        let outcome = |(at, message)| match failure.take_if(|_| at == last) {
            None => Ok(outcome(message, self.protocol)?),
            Some(error) if *message == Message::default() => Err(error.into()),
            Some(error) => {
                let json = serde_json::to_string(message).map_err(anyhow::Error::from)?;
                Err(RowFailure { error, recovered: Some(json) })
            }
        };
        self.messages.iter().enumerate().map(outcome).collect()
    }

    /// Returns the outcome of the only one. A row has no room for more than one.
    pub(crate) fn only(self) -> Result<RowOutcome, RowFailure> {
        let mut outcomes = self.outcomes();
        let more = outcomes.len().saturating_sub(1);
        let first = outcomes.drain(..).next().context("there is always one")?;
        match first {
            Ok(RowOutcome { json, .. }) if more > 0 => {
                let problem = format!("more responses follow in the same input: {more}");
                Ok(RowOutcome { json, problem: Some(problem) })
            }
            first => first,
        }
    }
}

/// Returns the outcome of a response that was read to its end.
pub(crate) fn outcome(message: &Message, protocol: Option<&'static Protocol>) -> Result<RowOutcome> {
    Ok(RowOutcome { json: serde_json::to_string(message)?, problem: verdict::of_message(message, protocol) })
}

/// Whether the response comes in pieces, as far as is known.
pub(crate) fn is_streamed(decoder: &Decoder) -> bool {
    match decoder.framing() {
        Some(Framing::Sse | Framing::AwsEventStream) => true,
        // A body may stand in one line.
        Some(Framing::JsonLines) => decoder.frames() > 1,
        Some(_) | None => false,
    }
}

/// Reads the input to its end, with a `pause` after each piece.
fn pump<S: for<'e> Sink<Event<'e>>>(
    input: &mut InputFile,
    decoder: &mut Decoder,
    sink: &mut S,
    mut pause: impl FnMut(&Decoder, &mut S) -> Result<()>,
) -> Result<()> {
    input.look().context("cannot read the input")?;
    if let Some(status) = input.head().map(|head| head.status).filter(|status| *status >= 400) {
        return refuse(status, input, sink);
    }
    let read = input.for_each(|bytes| {
        let pushed = decoder.push(bytes, sink);
        pause(decoder, sink)?;
        pushed.map_err(explain)
    });
    let finished = decoder.finish(sink).map_err(explain);
    read.and(finished)
}

/// Passes events on and keeps what they amount to.
struct EventLedger<'a, 's> {
    accumulator: Accumulator,
    /// Whether the content is kept, too, and not only calls and the facts about the response.
    is_kept: bool,
    /// The calls of the response, where only those are kept.
    calls: HashSet<BlockId>,
    live: Option<&'a mut EventSink<'s>>,
}

impl EventLedger<'_, '_> {
    fn keeps(&mut self, body: &EventKind<'_>) -> bool {
        match body {
            _ if self.is_kept => true,
            EventKind::BlockStart { block, kind: BlockKind::ToolCall { .. }, .. } => {
                self.calls.insert(*block)
            }
            EventKind::BlockStart {
                kind: BlockKind::ToolResult { .. } | BlockKind::Opaque { .. }, ..
            } => false,
            EventKind::Delta { block, .. } | EventKind::Correction { block, .. } => {
                self.calls.contains(block)
            }
            EventKind::Attachment { .. } | EventKind::Extra { .. } => false,
            EventKind::End => {
                self.calls.clear();
                true
            }
            _ => true,
        }
    }
}

impl<'e> Sink<Event<'e>> for EventLedger<'_, '_> {
    fn put(&mut self, event: Event<'e>) {
        let is_kept = self.keeps(&event.body);
        let Some(live) = &mut self.live else {
            if is_kept {
                self.accumulator.put(event);
            }
            return;
        };
        if is_kept {
            self.accumulator.put(event.clone());
        }
        live.put(event);
    }
}

/// Reads the body of a request that was refused with a status.
fn refuse(status: u16, input: &mut InputFile, sink: &mut EventSink<'_>) -> Result<()> {
    let mut body = Vec::new();
    let read = input.for_each(|bytes| {
        body.extend_from_slice(&bytes[..bytes.len().min(MAX_REFUSAL - body.len())]);
        Ok(())
    });
    let headers = input.head().map(|head| head.headers.clone()).unwrap_or_default();
    let start = EventKind::Start { id: None, model: None, wire_type: "".into(), extra: None };
    sink.put(Event::new(0, start));
    sink.put(Event::new(0, EventKind::ChoiceStart));
    sink.put(Event::new(0, EventKind::Error(read_error(Some(status), headers, &body))));
    sink.put(Event::new(0, EventKind::Finish { reason: FinishReason::Error, raw: None }));
    sink.put(Event::new(0, EventKind::End));
    read
}

/// Bytes of the body of a refusal that are looked at; it has something to say in far fewer.
const MAX_REFUSAL: usize = 1 << 20;

/// Describes the detected input.
fn nature(decoder: &Decoder, dialect: Option<&str>, input: &InputFile) -> String {
    let protocol =
        decoder.protocol().map_or("unknown".to_owned(), |it| format!("{} ({})", it.name, it.title));
    let framing = decoder.framing().map_or("unknown", |framing| framing.name());
    let mut words =
        format!("protocol {protocol}, framing {framing}, dialect {}", dialect.unwrap_or("not looked for"));
    if !input.layers().is_empty() {
        words += &format!(", read through {}", input.layers().join(", "));
    }
    if let Some(head) = input.head() {
        words += &format!(", status {}", head.status);
    }
    words
}

/// Says what to do about an error of the library.
fn explain(error: callweave::Error) -> anyhow::Error {
    match error.kind() {
        callweave::ErrorKind::Unknown if error.detail().contains("protocol") => {
            anyhow!("{}; {ADVICE} (see callweave protocols)", error.detail())
        }
        callweave::ErrorKind::Unknown => anyhow!("{}", error.detail()),
        callweave::ErrorKind::Limit => anyhow!("{error}; allow more with --max-frame"),
        _ => error.into(),
    }
}
