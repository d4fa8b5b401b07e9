//! `callweave decode`: the bytes of a response → events, text or a message.

use std::path::PathBuf;

use anyhow::{Result, bail};
use callweave::event::EventSink;
use callweave::framing::StreamLimits;
use callweave::json::Value;
use callweave::protocol::{Protocol, TABLE};
use callweave_gateway::config::nearest;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::arguments::RepairFlags;
use crate::batches::JobCount;
use crate::commands::extract::{NO_DIALECT, TextReading};
use crate::declared::{KnownDialects, tools_of};
use crate::input::InputFile;
use crate::render::{EventPrinter, OutputForm, print_complete};
use crate::response::{ReadOptions, outcome};
use crate::rows::{self, FileTurn, RowFailure, RowOutcome, RowRequest};
use crate::size;
use crate::wrapping::ExpectedWrapping;

/// Decode a response, streamed or complete, of any protocol
#[derive(Args)]
#[command(after_help = "\
Examples:
  curl -sN https://… | callweave decode            watch a response as it streams
  callweave decode response.sse > message.json     the finished message
  callweave decode --as events response.sse        every event as it happens
  callweave decode --as text - < response.json     the text alone
  callweave decode --dialect none response.sse     calls in the text stay text
  callweave decode --repair response.sse           with the arguments of its calls repaired
  callweave decode recorded/*.sse.gz               many files: one message per line, with its file
  callweave decode --jsonl requests.jsonl          many responses: {\"data\": …} or {\"file\": …} per line

Input may be gzipped, and may begin with the headers that curl -i prints. The readable part of a
damaged response is printed before the error; the exit code is then 1, as it is if a call cannot
be used.")]
pub(crate) struct DecodeArgs {
    /// The protocol of the response, or auto to detect it; see callweave protocols
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = protocol_parser())]
    #[arg(hide_possible_values = true, ignore_case = true)]
    protocol: ChosenProtocol,
    #[command(flatten)]
    wording: TextReading,
    #[command(flatten)]
    repair: RepairFlags,
    /// The form of the output
    #[arg(long = "as", value_name = "FORM", conflicts_with = "jsonl")]
    form: Option<OutputForm>,
    /// Read one JSON request per line ({"data" | "data_base64" | "file", "protocol"?, "dialect"?, "tools"?, "id"?}), print one message per line
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    jobs: JobCount,
    /// Say which protocol, framing and dialect were found, on standard error
    #[arg(long, short, conflicts_with = "jsonl")]
    verbose: bool,
    /// The longest line or frame that is read, as 1MB or 64KiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse)]
    max_frame: usize,
    /// The files to read, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
}

/// A protocol, or none: it is to be found out.
#[derive(Clone, Copy)]
pub(crate) struct ChosenProtocol(pub(crate) Option<&'static Protocol>);

pub(crate) fn protocol_parser() -> impl TypedValueParser<Value = ChosenProtocol> {
    let names = TABLE
        .iter()
        .map(|row| PossibleValue::new(row.name).help(row.title).aliases(row.aliases.iter().copied()));
    let auto = PossibleValue::new("auto").help("find it out from the first frames");
    PossibleValuesParser::new([auto].into_iter().chain(names))
        .map(|name| ChosenProtocol(Protocol::named(&name)))
}

impl ChosenProtocol {
    /// The protocol that a request names, if it names one.
    pub(crate) fn or_named(self, name: Option<&str>) -> Result<Self> {
        match name {
            None => Ok(self),
            Some("auto") => Ok(Self(None)),
            Some(name) => match Protocol::named(name) {
                Some(protocol) => Ok(Self(Some(protocol))),
                None => bail!("{}", unknown_protocol(name)),
            },
        }
    }
}

/// The error for a name that no protocol has, with the one that was probably meant.
pub(crate) fn unknown_protocol(name: &str) -> String {
    let names = TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name]));
    let meant = nearest(name, names).map(|name| format!("did you mean {name:?}? "));
    format!("unknown protocol {name:?}; {}see callweave protocols", meant.unwrap_or_default())
}

impl DecodeArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = self.wording.dialects()?;
        let options = self.wording.options(&dialects, "auto")?;
        let tools = self.wording.tools()?;
        let arguments = self.repair.stage(tools.as_ref());
        let ChosenProtocol(protocol) = self.protocol;
        let limits = StreamLimits { line: self.max_frame, frame: self.max_frame, ..StreamLimits::default() };
        let reading = ReadOptions { protocol, limits, dialect: options.as_ref(), arguments: &arguments };
        if self.jsonl {
            return rows::run(&self.files, self.jobs, |row: DecodeRow| row.decode(&dialects, reading));
        }
        let form = self.form.unwrap_or_else(OutputForm::suited);
        rows::each_file(&self.files, |turn| {
            let mut results = FileResults { turn, form, printed: String::new(), concluded: Ok(()) };
            if let Err(error) = self.decode(turn, form, reading, &mut results) {
                // Nothing is wrong with the responses if nobody wants to see them.
                results.concluded = Ok(());
                results.take(Err(error.into()));
            }
            results.print()?;
            results.concluded
        })
    }

    /// Decodes one file, and prints what can be printed before its end.
    fn decode(
        &self,
        turn: FileTurn<'_>,
        form: OutputForm,
        reading: ReadOptions<'_>,
        results: &mut FileResults<'_>,
    ) -> Result<()> {
        let mut input = InputFile::open(turn.path, ExpectedWrapping::Answer)?;
        let mut printer = EventPrinter::of_file(form, turn)?;
        let mut sink = printer.sink();
        let is_complete = form == OutputForm::Message;
        let live: Option<&mut EventSink<'_>> = if is_complete { None } else { Some(&mut sink) };
        let responses = reading.read(&mut input, live, is_complete, |decoder, ended| {
            for message in ended.drain(..) {
                results.take(outcome(&message, decoder.protocol()).map_err(RowFailure::from));
            }
            results.print()?;
            printer.flush()
        });
        printer.finish()?;
        if self.verbose {
            turn.remark(&responses.nature);
        }
        responses.outcomes().into_iter().for_each(|answered| results.take(answered));
        Ok(())
    }
}

/// The results of a file's responses.
struct FileResults<'t> {
    turn: FileTurn<'t>,
    form: OutputForm,
    /// The text to print.
    printed: String,
    /// The fault of the first faulty response.
    concluded: Result<()>,
}

impl FileResults<'_> {
    fn take(&mut self, result: Result<RowOutcome, RowFailure>) {
        if self.form == OutputForm::Message {
            self.turn.write(&result, &mut self.printed);
        }
        if self.concluded.is_ok() {
            self.concluded = rows::conclude(result);
        }
    }

    fn print(&mut self) -> Result<()> {
        print_complete(&self.printed)?;
        self.printed.clear();
        Ok(())
    }
}

/// A request to decode one response. Unknown members are the caller's own.
#[derive(Deserialize)]
struct DecodeRow {
    id: Option<Box<RawValue>>,
    protocol: Option<String>,
    /// The response as text, or a JSON body as it is.
    data: Option<Box<RawValue>>,
    data_base64: Option<String>,
    file: Option<PathBuf>,
    dialect: Option<String>,
    tools: Option<Value>,
}

impl RowRequest for DecodeRow {
    const SHAPE: &'static str = "an object with one of \"data\", \"data_base64\" and \"file\"";

    fn take_id(&mut self) -> Option<Box<RawValue>> {
        self.id.take()
    }
}

impl DecodeRow {
    fn decode(self, dialects: &KnownDialects, defaults: ReadOptions<'_>) -> Result<RowOutcome, RowFailure> {
        let ChosenProtocol(protocol) =
            ChosenProtocol(defaults.protocol).or_named(self.protocol.as_deref())?;
        let own = self.tools.as_ref().map(|tools| tools_of(tools, "the member tools")).transpose()?;
        let arguments = own.map(|tools| defaults.arguments.clone().tools(tools));
        let arguments = arguments.as_ref().unwrap_or(defaults.arguments);
        let own = match self.dialect.as_deref() {
            None | Some(NO_DIALECT) => None,
            Some(name) => Some(dialects.named(name)?),
        };
        let default = defaults.dialect.filter(|_| self.dialect.is_none());
        let dialect = own.as_ref().or(default);
        let reading = ReadOptions { protocol, dialect, arguments, ..defaults };
        let mut input = InputFile::given(self.data, self.data_base64, self.file)?;
        reading.read(&mut input, None, true, |_, _| Ok(())).only()
    }
}
