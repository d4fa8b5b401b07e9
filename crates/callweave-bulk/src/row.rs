//! The bytes of one response, or a text, → its values.

use std::borrow::Cow;

use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::{CallKind, Event, EventKind, FinishReason, NoticeCode, Sink};
use callweave::framing::StreamLimits;
use callweave::message::{BlockContent, Message, ToolCall};
use callweave::outcome::{CallOutcome, CallOutcomes, CallResolution};
use callweave::pipeline::DecoderBuilder;
use callweave::protocol::Protocol;
use callweave::{Error, ErrorKind};

/// Reads rows, all with the same options.
#[derive(Clone, Debug)]
pub struct RowReader {
    builder: DecoderBuilder,
}

/// The values of one row.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ReadRow {
    /// The response, as far as it could be read.
    pub message: Message,
    /// The protocol of the response, if one was found.
    pub protocol: Option<&'static Protocol>,
    /// The dialect in which calls or reasoning were found in the text.
    pub dialect: Option<String>,
    /// The reason why the response failed or is not complete.
    pub problem: Option<RowProblem>,
    outcomes: Vec<CallOutcome>,
}

/// The reason why a row is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProblem {
    /// Its class: that of an error of the upstream ([`ErrorClass`](callweave::upstream::ErrorClass)), or `unknown` (no
    /// known protocol), `framing`, `json`, `limit`, `truncated`, `damaged`, `empty`, `several`.
    pub class: &'static str,
    /// Its description.
    pub text: String,
}

/// A call of a row.
#[derive(Debug)]
pub struct RowCall<'r> {
    /// The call.
    pub call: &'r ToolCall,
    /// What became of it: the name of a [`CallResolution`], or `builtin` if the provider runs it itself.
    pub outcome: &'static str,
    /// The reason why it cannot be run.
    pub invalid: Option<String>,
}

/// The outcome of calls that the provider runs itself.
pub const BUILTIN: &str = "builtin";

impl RowReader {
    /// A reader with these options. Rows are in memory already, so their length is not limited.
    pub fn new(builder: DecoderBuilder) -> Self {
        let limits = StreamLimits { line: usize::MAX, frame: usize::MAX, total: u64::MAX };
        Self { builder: builder.limits(limits) }
    }

    /// Reads a response. Of several responses in a row it is the first.
    pub fn decode(&self, bytes: &[u8]) -> ReadRow {
        let mut decoder = self.builder.clone().build();
        let mut ledger = RowLedger::default();
        let read = decoder.push(bytes, &mut ledger).and_then(|()| decoder.finish(&mut ledger));
        let dialect = decoder.dialect().map(str::to_owned);
        ledger.row(decoder.protocol(), dialect, read.err())
    }

    /// Reads a text that a model wrote.
    pub fn extract(&self, text: &str) -> ReadRow {
        let mut ledger = RowLedger::default();
        let read = self.builder.clone().extract_to(text, &mut ledger);
        let (dialect, failure) = match read {
            Ok(dialect) => (dialect, None),
            Err(error) => (None, Some(error)),
        };
        ledger.row(None, dialect, failure)
    }

    /// Reads a response, and writes it as a body of another protocol. Without any content there is no body.
    ///
    /// # Panics
    ///
    /// If the protocol is only read.
    pub fn convert(&self, bytes: &[u8], to: &Protocol) -> (Option<Vec<u8>>, ReadRow) {
        let row = self.decode(bytes);
        let has_content = row.message.choices.iter().any(|choice| !choice.blocks.is_empty());
        let body = has_content.then(|| {
            let mut body = Vec::new();
            let options = EncodeOptions::normalized().reporting_truncation();
            assert!(
                to.encode_body(&row.message, &options, &mut body),
                "the protocol {} is only read",
                to.name
            );
            body
        });
        (body, row)
    }
}

/// Keeps the events of a row.
#[derive(Default)]
struct RowLedger {
    accumulator: Accumulator,
    outcomes: CallOutcomes,
    /// Whether the first response is over.
    is_over: bool,
}

impl<'e> Sink<Event<'e>> for RowLedger {
    fn put(&mut self, event: Event<'e>) {
        if !self.is_over {
            self.outcomes.see(&event);
            self.is_over = matches!(event.body, EventKind::End);
        }
        self.accumulator.put(event);
    }
}

impl RowLedger {
    fn row(
        mut self,
        protocol: Option<&'static Protocol>,
        dialect: Option<String>,
        failure: Option<Error>,
    ) -> ReadRow {
        let mut messages = self.accumulator.take_all();
        let more = messages.iter().skip(1).filter(|message| **message != Message::default()).count();
        let message = messages.swap_remove(0);
        let problem = RowProblem::of(&message, protocol, failure, more);
        ReadRow { message, protocol, dialect, problem, outcomes: self.outcomes.take() }
    }
}

impl ReadRow {
    /// A row that was not read, because it has more bytes than can be handed on.
    #[cfg(feature = "arrow")]
    pub(crate) fn too_long(length: usize, most: usize) -> Self {
        let text = format!("the row has {length} bytes, and {most} are the most that are read");
        Self { problem: Some(RowProblem { class: "limit", text }), ..Self::default() }
    }

    /// The calls of the first choice.
    pub fn calls(&self) -> impl Iterator<Item = RowCall<'_>> {
        let blocks = self.message.first().into_iter().flat_map(|choice| &choice.blocks);
        blocks.filter_map(|block| match &block.content {
            BlockContent::ToolCall(call) if call.kind == CallKind::Builtin => {
                Some(RowCall { call, outcome: BUILTIN, invalid: None })
            }
            BlockContent::ToolCall(call) => {
                let reported = self.outcomes.iter().find(|outcome| outcome.block == block.id);
                let mut outcome = reported.map_or(CallResolution::Native, |reported| reported.outcome);
                let reason = reported.and_then(|reported| reported.reason.clone());
                let invalid = call.invalid().map(|invalid| invalid.detail).or(reason);
                if invalid.is_some() {
                    outcome = outcome.max(CallResolution::Invalid);
                }
                Some(RowCall { call, outcome: outcome.name(), invalid })
            }
            _ => None,
        })
    }

    /// The reason why the response finished.
    pub fn finish(&self) -> Option<&'static str> {
        self.message.finish_reason().map(finish_name)
    }
}

/// A reason as the JSON output spells it.
fn finish_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Error => "error",
        _ => "other",
    }
}

impl RowProblem {
    /// The problem of a response, the gravest if there are several.
    fn of(
        message: &Message,
        protocol: Option<&Protocol>,
        failure: Option<Error>,
        more: usize,
    ) -> Option<Self> {
        let problem = |class, text: Cow<'_, str>| Some(Self { class, text: text.into_owned() });
        if let Some(error) = message.error() {
            // Text in the place of a response may be anything, unless a status says what it is.
            let is_text = protocol.is_none() && error.status.is_none() && error.raw.as_str().starts_with('"');
            return problem(
                if is_text { "unknown" } else { error.class.name() },
                Cow::Borrowed(&error.message),
            );
        }
        if let Some(failure) = failure {
            return problem(kind_name(failure.kind()), failure.to_string().into());
        }
        if message.finish_reason() == Some(FinishReason::Error) {
            return problem("other", "the response finished with an error".into());
        }
        if more > 0 {
            return problem("several", format!("more responses follow in the same row: {more}").into());
        }
        let has_calls = message.tool_calls().next().is_some();
        let classes = message.notices.iter().filter_map(|notice| {
            let class = match notice.code {
                NoticeCode::Truncated => "truncated",
                NoticeCode::MalformedFrame | NoticeCode::InvalidUtf8 | NoticeCode::LateFragment => "damaged",
                // A damaged call that is there says so itself.
                NoticeCode::MalformedCall if !has_calls => "damaged",
                NoticeCode::Empty if message.finish_reason() == Some(FinishReason::Other) => "empty",
                _ => return None,
            };
            Some((class, notice))
        });
        let (class, notice) = classes.min_by_key(|(class, _)| *class != "truncated")?;
        problem(class, Cow::Borrowed(&notice.detail))
    }
}

fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Limit => "limit",
        ErrorKind::Framing => "framing",
        ErrorKind::Json => "json",
        ErrorKind::Invalid => "invalid",
        _ => "unknown",
    }
}
