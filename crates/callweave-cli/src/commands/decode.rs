//! `callweave decode`: the bytes of an answer → events, text or a message.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callweave::accumulator::Accumulator;
use callweave::dialect::{Options, Stage};
use callweave::event::{Body, Event, EventSink, Sink};
use callweave::framing::{Framer, Limits};
use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::commands::extract::Reading;
use crate::declared::{Dialects, tools_of};
use crate::input::Input;
use crate::render::{Form, Printer};
use crate::rows::{self, Failure, Request};

/// Decode an answer, streamed or whole, of any protocol
#[derive(Args)]
#[command(after_help = "\
Examples:
  curl -sN https://… | callweave decode            watch an answer as it streams
  callweave decode answer.sse > message.json       the finished message
  callweave decode --as events answer.sse          every event as it happens
  callweave decode --as text - < answer.json       the text alone
  callweave decode --dialect auto answer.sse       with the calls that the model wrote into its text
  callweave decode --jsonl requests.jsonl          many answers: {\"data\": …} or {\"file\": …} per line

What a damaged input still gave is printed before the error is reported.")]
pub(crate) struct Decode {
    /// The protocol of the answer, or auto to find it out; see callweave protocols
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = protocol_parser())]
    #[arg(hide_possible_values = true, ignore_case = true)]
    protocol: Chosen,
    #[command(flatten)]
    reading: Reading,
    /// What to print
    #[arg(long = "as", value_name = "FORM", conflicts_with = "jsonl")]
    form: Option<Form>,
    /// Read one JSON request per line ({"data" | "data_base64" | "file", "protocol"?, "dialect"?, "tools"?}), print one message per line
    #[arg(long)]
    jsonl: bool,
    /// The longest line or frame that is read
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().frame)]
    max_frame: usize,
    /// The file to read, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// A protocol, or none: it is to be found out.
#[derive(Clone, Copy)]
struct Chosen(Option<&'static Protocol>);

fn protocol_parser() -> impl TypedValueParser<Value = Chosen> {
    let names = TABLE
        .iter()
        .map(|row| PossibleValue::new(row.name).help(row.title).aliases(row.aliases.iter().copied()));
    let auto = PossibleValue::new("auto").help("find it out from the first frames");
    PossibleValuesParser::new([auto].into_iter().chain(names)).map(|name| Chosen(Protocol::named(&name)))
}

impl Decode {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = self.reading.dialects()?;
        let options = self.reading.options(&dialects)?;
        if self.jsonl {
            return rows::run(&self.file, |row: Row| row.decode(self, &dialects, options.as_ref()));
        }
        let mut input = Input::open(&self.file)?;
        let mut printer = Printer::new::<Accumulator>(self.form.unwrap_or_else(Form::suited));
        let mut output = printer.sink();
        let mut watch = Watch { next: &mut output, upstream: None };
        let decoder = self.decoder(self.protocol);
        let read = match &options {
            None => pump(&mut input, decoder, &mut watch, &mut printer),
            Some(options) => {
                let mut stage = Stage::new(options, &mut watch);
                let read = pump(&mut input, decoder, &mut stage, &mut printer);
                stage.finish();
                read
            }
        };
        printer.finish()?;
        read?;
        match watch.upstream {
            None => Ok(()),
            Some(message) => bail!("the upstream answered with an error: {message}"),
        }
    }

    fn decoder(&self, Chosen(protocol): Chosen) -> Decoder {
        let limits = Limits { line: self.max_frame, frame: self.max_frame, ..Limits::default() };
        Decoder::with(protocol, Framer::detect(limits))
    }
}

/// Decodes the input to its end and prints as it goes. What was recovered before an error is in the sink.
fn pump(
    input: &mut Input,
    mut decoder: Decoder,
    sink: &mut EventSink<'_>,
    printer: &mut Printer,
) -> Result<()> {
    let read = input.for_each(|bytes| {
        let pushed = decoder.push(bytes, sink);
        printer.flush()?;
        pushed.map_err(explain)
    });
    let finished = decoder.finish(sink).map_err(explain);
    read.and(finished)
}

/// Passes events on and keeps the first error that the upstream reports.
struct Watch<'a> {
    next: &'a mut EventSink<'a>,
    upstream: Option<String>,
}

impl<'e> Sink<Event<'e>> for Watch<'_> {
    fn put(&mut self, event: Event<'e>) {
        if let Body::Error(error) = &event.body {
            self.upstream.get_or_insert_with(|| error.message.to_string());
        }
        self.next.put(event);
    }
}

/// Says what to do about an error of the library.
fn explain(error: callweave::Error) -> anyhow::Error {
    match error.kind() {
        callweave::ErrorKind::Unknown if error.detail().contains("protocol") => {
            anyhow!("{}; name it with --protocol (see callweave protocols)", error.detail())
        }
        callweave::ErrorKind::Limit => anyhow!("{error}; allow more with --max-frame"),
        _ => error.into(),
    }
}

/// A request to decode one answer. Members it does not know are the caller's own.
#[derive(Deserialize)]
struct Row {
    protocol: Option<String>,
    /// The answer as text, or a JSON body as it is.
    data: Option<Box<RawValue>>,
    data_base64: Option<String>,
    file: Option<PathBuf>,
    dialect: Option<String>,
    tools: Option<Value>,
}

impl Request for Row {
    const SHAPE: &'static str = "an object with one of \"data\", \"data_base64\" and \"file\"";
}

impl Row {
    fn decode(
        self,
        command: &Decode,
        dialects: &Dialects,
        options: Option<&Options>,
    ) -> Result<Message, Failure> {
        let decoder = command.decoder(self.protocol(command.protocol)?);
        let mut options = match &self.dialect {
            Some(name) => Some(dialects.named(name)?),
            None => options.cloned(),
        };
        if let Some(tools) = &self.tools {
            let tools = tools_of(tools, "the member tools")?;
            options = options.map(|options| options.tools(tools));
        }
        let mut accumulator = Accumulator::new();
        let read = match &options {
            None => self.pump(decoder, &mut accumulator),
            Some(options) => {
                let mut stage = Stage::new(options, &mut accumulator);
                let read = self.pump(decoder, &mut stage);
                stage.finish();
                read
            }
        };
        let message = accumulator.take();
        match read {
            Ok(()) => Ok(message),
            Err(error) if message == Message::default() => Err(error.into()),
            Err(error) => Err(Failure::with(error, &message)),
        }
    }

    fn protocol(&self, default: Chosen) -> Result<Chosen> {
        match self.protocol.as_deref() {
            None => Ok(default),
            Some("auto") => Ok(Chosen(None)),
            Some(name) => match Protocol::named(name) {
                Some(protocol) => Ok(Chosen(Some(protocol))),
                None => bail!("unknown protocol {name:?}; see callweave protocols"),
            },
        }
    }

    fn pump(self, mut decoder: Decoder, sink: &mut EventSink<'_>) -> Result<()> {
        let pushed = self.push(&mut decoder, sink);
        pushed.and(decoder.finish(sink).map_err(explain))
    }

    fn push(self, decoder: &mut Decoder, sink: &mut EventSink<'_>) -> Result<()> {
        match (self.data, self.data_base64, self.file) {
            (Some(data), None, None) if data.get().starts_with('"') => {
                let text: String = serde_json::from_str(data.get()).context("data is not a text")?;
                decoder.push(text.as_bytes(), sink)?;
            }
            (Some(body), None, None) => decoder.push(body.get().as_bytes(), sink)?,
            (None, Some(data), None) => {
                decoder.push(&STANDARD.decode(data).context("data_base64 is not base64")?, sink)?;
            }
            (None, None, Some(path)) => {
                Input::file(&path)?.for_each(|bytes| decoder.push(bytes, sink).map_err(explain))?;
            }
            _ => bail!("a request needs exactly one of data, data_base64 and file"),
        }
        Ok(())
    }
}
