//! `callweave convert`: a response in any protocol → the same response in another, or the same one normalized. With
//! `--request` a request, see [`requests`](super::requests).

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callweave::accumulator::Accumulator;
use callweave::arguments::ArgumentStage;
use callweave::encode::{self, EncodeMode, Encoder};
use callweave::event::{Event, Sink};
use callweave::framing::{Framing, StreamLimits};
use callweave::json::Value;
use callweave::message::Message;
use callweave::protocol::{Protocol, TABLE};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::arguments::RepairFlags;
use crate::batches::JobCount;
use crate::commands::decode::{ChosenProtocol, protocol_parser, unknown_protocol};
use crate::commands::extract::{NO_DIALECT, TextReading};
use crate::commands::requests::RequestTranslation;
use crate::input::InputFile;
use crate::response::{ReadOptions, is_streamed};
use crate::rows::{self, RowFailure, RowOutcome, RowRequest};
use crate::size;
use crate::verdict;
use crate::wrapping::ExpectedWrapping;

/// Write a response in another protocol, streamed or complete; or a request
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave convert --to openai-chat response.sse             a stream stays a stream, a body a body
  callweave convert --to openai-responses --complete response.sse
                                                              the body that a stream amounts to
  callweave convert --to openai-chat --normalize response.sse the same protocol, as clients expect it
  callweave convert --to gemini --array response.sse          as Google streams without alt=sse
  callweave convert --to openai-chat --dialect auto response.sse
                                                              calls in the text become real ones
  callweave convert --jsonl rows.jsonl                        one {\"to\": …, \"data\": …} per line
  callweave convert --request --from openai-chat --to anthropic-messages request.json
                                                              a request for another provider
  callweave convert --request --from openai-chat --to openai-chat --dialect hermes request.json
                                                              for a model that has no tools of its own

In its own protocol a response is written losslessly, unless --normalize is given. In another protocol
it is always normalized: written as clients of that protocol expect it, with the arguments of its calls
repaired. The exit code is 1 if the output has a problem. The losses of a request are printed on standard
error; the exit code is 1 only if no server would have taken the request as it came.")]
pub(crate) struct ConvertArgs {
    /// The protocol of the response, or auto to detect it (of a request it must be named); see callweave protocols
    #[arg(long, visible_alias = "protocol", value_name = "NAME", default_value = "auto")]
    #[arg(value_parser = protocol_parser(), hide_possible_values = true, ignore_case = true)]
    from: ChosenProtocol,
    /// The protocol to write
    #[arg(long, value_name = "NAME", value_parser = written_parser(), ignore_case = true)]
    #[arg(required_unless_present = "jsonl")]
    to: Option<&'static Protocol>,
    #[command(flatten)]
    wording: TextReading,
    #[command(flatten)]
    repair: RepairFlags,
    /// Convert requests, not responses; with --dialect, the tools are taught in words (auto: by the model's name)
    #[arg(long, conflicts_with_all = ["stream", "complete"])]
    request: bool,
    /// The provider whose rules a request must keep, where many speak the protocol, such as mistral
    #[arg(long, value_name = "NAME", requires = "request")]
    provider: Option<String>,
    /// Write a stream
    #[arg(long, conflicts_with = "complete")]
    stream: bool,
    /// Write a complete body
    #[arg(long, alias = "whole")]
    complete: bool,
    /// Write a stream as the elements of one JSON array, where the protocol has that (gemini-generatecontent)
    #[arg(long, conflicts_with = "complete")]
    array: bool,
    /// Write it as clients expect it, in its own protocol, too
    #[arg(long, alias = "mend")]
    normalize: bool,
    /// Read one JSON request per line ({"from"?, "to", "data" | "data_base64" | "file", "stream"?, "normalize"?, "id"?}), print one {"data"} per line
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    jobs: JobCount,
    /// The longest line or frame that is read, as 1MB or 64KiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse)]
    max_frame: usize,
    /// The file to read, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

fn written_parser() -> impl TypedValueParser<Value = &'static Protocol> {
    let names = written()
        .map(|row| PossibleValue::new(row.name).help(row.title).aliases(row.aliases.iter().copied()));
    PossibleValuesParser::new(names).map(|name| Protocol::named(&name).expect("a protocol of the table"))
}

/// The protocols that responses are written in.
fn written() -> impl Iterator<Item = &'static Protocol> {
    TABLE.iter().copied().filter(|row| row.is_written())
}

/// The output that is asked for.
#[derive(Clone, Copy)]
struct ConvertPlan {
    to: &'static Protocol,
    /// Whether it is a stream; else what the input was.
    is_stream: Option<bool>,
    /// Whether a stream is one array.
    is_array: bool,
    is_normalized: bool,
}

impl ConvertArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = self.wording.dialects()?;
        if self.request {
            let ChosenProtocol(from) = self.from;
            let translation = RequestTranslation {
                from,
                to: self.to,
                provider: self.provider.as_deref(),
                is_normalized: self.normalize,
                dialect: self.wording.name(&dialects)?,
                dialects: &dialects,
            };
            return match self.jsonl {
                true => translation.run_rows(&self.file, self.jobs),
                false => translation.run(&self.file),
            };
        }
        let dialect = self.wording.options(&dialects, NO_DIALECT)?;
        let arguments = self.repair.stage(self.wording.tools()?.as_ref());
        let ChosenProtocol(protocol) = self.from;
        let limits = StreamLimits { line: self.max_frame, frame: self.max_frame, ..StreamLimits::default() };
        let reading = ReadOptions { protocol, limits, dialect: dialect.as_ref(), arguments: &arguments };
        let is_stream = (self.stream || self.complete || self.array).then_some(!self.complete);
        if self.jsonl {
            let defaults =
                |to| ConvertPlan { to, is_stream, is_array: self.array, is_normalized: self.normalize };
            return rows::run(std::slice::from_ref(&self.file), self.jobs, |row: ConvertRow| {
                let to = row.to.as_deref().map(named).transpose()?.or(self.to);
                let wish = defaults(to.context("a request needs \"to\"")?);
                row.convert(wish, reading)
            });
        }
        let to = self.to.context("--to is missing")?;
        let wish = ConvertPlan { to, is_stream, is_array: self.array, is_normalized: self.normalize };
        let mut input = InputFile::open(&self.file, ExpectedWrapping::Answer)?;
        rows::conclude(wish.convert(&mut input, reading, &mut io::stdout().lock()))
    }
}

pub(super) fn named(name: &str) -> Result<&'static Protocol> {
    match Protocol::named(name) {
        Some(protocol) if protocol.is_written() => Ok(protocol),
        Some(protocol) => bail!("the protocol {} is only read", protocol.name),
        None => bail!("{}", unknown_protocol(name)),
    }
}

impl ConvertPlan {
    /// Writes what the input amounts to; a stream is written while it is read.
    fn convert(
        self,
        input: &mut InputFile,
        reading: ReadOptions<'_>,
        out: &mut dyn Write,
    ) -> Result<RowOutcome, RowFailure> {
        let events = RefCell::new(Vec::new());
        let mut live = |event: Event<'_>| events.borrow_mut().push(event.into_owned());
        // Whether calls are repaired depends on the protocol, so that is done behind the decoder.
        let mut writing = ConvertOutput::new(self, reading.arguments, out);
        let reading = ReadOptions { arguments: &ArgumentStage::new(), ..reading };
        let mut problem = None;
        let responses = reading.read(input, Some(&mut live), false, |decoder, ended| {
            ended.clear();
            let protocol = decoder.protocol();
            if protocol.is_none() || !self.is_stream.unwrap_or_else(|| is_streamed(decoder)) {
                return Ok(());
            }
            writing.stream(events.take(), protocol)?;
            for message in writing.message.take_earlier() {
                problem = problem.take().or_else(|| verdict::of_message(&message, protocol));
            }
            Ok(())
        });
        let is_stream = self.is_stream.unwrap_or(responses.is_streamed);
        let messages = writing.finish(events.take(), responses.protocol, is_stream)?;
        let problem = match problem {
            None => responses.problem(&messages)?,
            problem => problem,
        };
        Ok(RowOutcome { json: String::new(), problem })
    }

    /// Whether calls and everything else are written as clients of the protocol expect them.
    fn is_normalized(self, from: Option<&'static Protocol>) -> bool {
        self.is_normalized || from != Some(self.to)
    }

    fn options(self, from: Option<&'static Protocol>) -> encode::EncodeOptions {
        let options = match self.is_normalized(from) {
            true => encode::EncodeOptions::normalized(),
            false => encode::EncodeOptions::lossless(),
        };
        let options = match options.mode {
            EncodeMode::Lossless => options,
            EncodeMode::Normalized => options.reporting_truncation().id(made_id(self.to)).created(now()),
        };
        if self.is_array { options.framing(Framing::JsonValues) } else { options }
    }
}

/// An id for a response that has none: no other response has it.
fn made_id(protocol: &Protocol) -> String {
    let [one, two] = [0, 1].map(|half| RandomState::new().hash_one(half));
    format!("{}{one:016x}{two:016x}", protocol.response_id_prefix())
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The output, and its destination.
struct ConvertOutput<'w> {
    wish: ConvertPlan,
    /// The argument stage, whatever the protocol.
    arguments: &'w ArgumentStage,
    /// The stage that does it, and the encoder, once the protocol is known.
    stages: Option<(ArgumentStage, Encoder)>,
    message: Accumulator,
    buffer: Vec<u8>,
    out: &'w mut dyn Write,
}

impl<'w> ConvertOutput<'w> {
    fn new(wish: ConvertPlan, arguments: &'w ArgumentStage, out: &'w mut dyn Write) -> Self {
        Self { wish, arguments, stages: None, message: Accumulator::new(), buffer: Vec::new(), out }
    }

    /// The stages for a response of that protocol. Clients of another one get calls that can be run.
    fn stages(&mut self, from: Option<&'static Protocol>) -> &mut (ArgumentStage, Encoder) {
        let (wish, arguments) = (self.wish, self.arguments);
        self.stages.get_or_insert_with(|| {
            let arguments =
                if wish.is_normalized(from) { arguments.clone().repair() } else { arguments.clone() };
            (arguments, wish.to.encoder(&wish.options(from)).expect("the protocol is written"))
        })
    }

    /// Writes a stream as far as it has come.
    fn stream(&mut self, events: Vec<Event<'static>>, from: Option<&'static Protocol>) -> Result<()> {
        let mut finished = Vec::new();
        let (arguments, _) = self.stages(from);
        events.into_iter().for_each(|event| arguments.push(event, &mut finished));
        self.encode(finished, from)
    }

    fn encode(&mut self, finished: Vec<Event<'static>>, from: Option<&'static Protocol>) -> Result<()> {
        let mut written = std::mem::take(&mut self.buffer);
        let (_, encoder) = self.stages(from);
        finished.iter().for_each(|event| encoder.encode(event, &mut written));
        self.buffer = written;
        finished.into_iter().for_each(|event| self.message.put(event));
        self.flush()
    }

    /// Writes the rest of a stream, or all of it as bodies that are no stream. Gives what that amounts to.
    fn finish(
        mut self,
        events: Vec<Event<'static>>,
        from: Option<&'static Protocol>,
        is_stream: bool,
    ) -> Result<Vec<Message>> {
        let mut finished: Vec<Event<'static>> = Vec::new();
        let (arguments, _) = self.stages(from);
        events.into_iter().for_each(|event| arguments.push(event, &mut finished));
        arguments.finish(&mut finished);
        if is_stream {
            self.encode(finished, from)?;
            return Ok(self.message.take_all());
        }
        finished.into_iter().for_each(|event| self.message.put(event));
        let messages = self.message.take_all();
        for message in messages.iter().filter(|message| **message != Message::default()) {
            let options = self.wish.options(from);
            self.wish.to.encode_body(message, &options, &mut self.buffer);
            self.buffer.push(b'\n');
        }
        self.flush()?;
        Ok(messages)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        self.buffer.clear();
        Ok(())
    }
}

/// A request to convert one response. Unknown fields are the caller's own.
#[derive(Deserialize)]
struct ConvertRow {
    id: Option<Box<RawValue>>,
    from: Option<String>,
    to: Option<String>,
    /// The response as text, or a JSON body as it is.
    data: Option<Box<RawValue>>,
    data_base64: Option<String>,
    file: Option<PathBuf>,
    stream: Option<bool>,
    #[serde(alias = "mend")]
    normalize: Option<bool>,
}

impl RowRequest for ConvertRow {
    const SHAPE: &'static str = "an object with \"to\" and one of \"data\", \"data_base64\" and \"file\"";

    fn take_id(&mut self) -> Option<Box<RawValue>> {
        self.id.take()
    }
}

impl ConvertRow {
    fn convert(self, wish: ConvertPlan, reading: ReadOptions<'_>) -> Result<RowOutcome, RowFailure> {
        let is_stream = self.stream.or(wish.is_stream);
        let wish =
            ConvertPlan { is_stream, is_normalized: self.normalize.unwrap_or(wish.is_normalized), ..wish };
        let ChosenProtocol(protocol) = ChosenProtocol(reading.protocol).or_named(self.from.as_deref())?;
        let mut input = InputFile::given(self.data, self.data_base64, self.file)?;
        let mut out = Vec::new();
        let converted = wish.convert(&mut input, ReadOptions { protocol, ..reading }, &mut out);
        let data = match String::from_utf8(out) {
            Ok(text) => ("data", Value::from(text)),
            Err(error) => ("data_base64", STANDARD.encode(error.as_bytes()).into()),
        };
        let json = Value::object([data]).to_string();
        match converted {
            Ok(RowOutcome { problem, .. }) => Ok(RowOutcome { json, problem }),
            Err(RowFailure { error, .. }) => Err(RowFailure { error, recovered: Some(json) }),
        }
    }
}
