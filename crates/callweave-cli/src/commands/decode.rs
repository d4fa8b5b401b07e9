//! `callweave decode`: the bytes of an answer → events, text or a message.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callweave::dialect::{Options, Tools};
use callweave::event::Event;
use callweave::framing::Limits;
use callweave::json::Value;
use callweave::protocol::{Protocol, TABLE};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answer::Reading;
use crate::calls::Treatment;
use crate::commands::extract::Wording;
use crate::declared::{Dialects, tools_of};
use crate::input::Input;
use crate::render::{Form, Printer};
use crate::rows::{self, Failure, Outcome, Request, Turn};
use crate::size;
use crate::wrapping::Expected;

/// Decode an answer, streamed or whole, of any protocol
#[derive(Args)]
#[command(after_help = "\
Examples:
  curl -sN https://… | callweave decode            watch an answer as it streams
  callweave decode answer.sse > message.json       the finished message
  callweave decode --as events answer.sse          every event as it happens
  callweave decode --as text - < answer.json       the text alone
  callweave decode --dialect auto answer.sse       with the calls that the model wrote into its text
  callweave decode --repair answer.sse             with the arguments of its calls repaired
  callweave decode recorded/*.sse.gz               many files: one message per line, with its file
  callweave decode --jsonl requests.jsonl          many answers: {\"data\": …} or {\"file\": …} per line

Input may be gzipped, and may begin with the headers that curl -i prints. What a damaged answer
still gave is printed before the error is told; the exit code is then 1, as it is if a call cannot
be used.")]
pub(crate) struct Decode {
    /// The protocol of the answer, or auto to find it out; see callweave protocols
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = protocol_parser())]
    #[arg(hide_possible_values = true, ignore_case = true)]
    protocol: Chosen,
    #[command(flatten)]
    wording: Wording,
    /// Repair the arguments of calls; each change is told in a notice
    #[arg(long)]
    repair: bool,
    /// What to print
    #[arg(long = "as", value_name = "FORM", conflicts_with = "jsonl")]
    form: Option<Form>,
    /// Read one JSON request per line ({"data" | "data_base64" | "file", "protocol"?, "dialect"?, "tools"?, "id"?}), print one message per line
    #[arg(long)]
    jsonl: bool,
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
        let dialects = self.wording.dialects()?;
        let options = self.wording.options(&dialects)?;
        let tools = self.wording.tools()?;
        let reading = self.reading(self.protocol, options.as_ref(), tools.as_ref());
        if self.jsonl {
            return rows::run(&self.files, |row: Row| row.decode(&dialects, reading));
        }
        let form = self.form.unwrap_or_else(Form::suited);
        rows::each_file(&self.files, |turn| {
            let mut concluded = Ok(());
            let answers = self.decode(turn, form, reading).unwrap_or_else(|error| vec![Err(error.into())]);
            for answered in answers {
                if form == Form::Message {
                    turn.print(&answered)?;
                }
                concluded = concluded.and(rows::conclude(answered));
            }
            concluded
        })
    }

    fn reading<'o>(
        &self,
        Chosen(protocol): Chosen,
        dialect: Option<&'o Options>,
        tools: Option<&'o Tools>,
    ) -> Reading<'o> {
        let limits = Limits { line: self.max_frame, frame: self.max_frame, ..Limits::default() };
        let calls = Treatment { tools, is_repairing: self.repair };
        Reading { protocol, limits, dialect, calls }
    }

    /// Decodes one file, and prints what can be printed before its end.
    fn decode(
        &self,
        turn: Turn<'_>,
        form: Form,
        reading: Reading<'_>,
    ) -> Result<Vec<Result<Outcome, Failure>>> {
        let mut input = Input::open(turn.path, Expected::Answer)?;
        let mut printer = Printer::of_file(form, turn)?;
        let mut sink = printer.sink();
        let answers = reading.read(&mut input, &mut sink, form == Form::Message, || printer.flush());
        printer.finish()?;
        if self.verbose {
            turn.tell(&answers.nature);
        }
        Ok(answers.outcomes())
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
    fn decode(self, dialects: &Dialects, defaults: Reading<'_>) -> Result<Outcome, Failure> {
        let Chosen(protocol) = self.protocol(Chosen(defaults.protocol))?;
        let own = self.tools.as_ref().map(|tools| tools_of(tools, "the member tools")).transpose()?;
        let tools = own.as_ref().or(defaults.calls.tools);
        let mut options = match &self.dialect {
            Some(name) => Some(dialects.named(name)?),
            None => defaults.dialect.cloned(),
        };
        if let Some(tools) = tools {
            options = options.map(|options| options.tools(tools.clone()));
        }
        let calls = Treatment { tools, ..defaults.calls };
        let reading = Reading { protocol, dialect: options.as_ref(), calls, ..defaults };
        let mut nowhere = |_: Event<'_>| {};
        reading.read(&mut self.input()?, &mut nowhere, true, || Ok(())).only()
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

    fn input(self) -> Result<Input> {
        let bytes = match (self.data, self.data_base64, self.file) {
            (Some(data), None, None) if data.get().starts_with('"') => {
                serde_json::from_str::<String>(data.get()).context("data is not a text")?.into_bytes()
            }
            (Some(body), None, None) => body.get().as_bytes().to_vec(),
            (None, Some(data), None) => STANDARD.decode(data).context("data_base64 is not base64")?,
            (None, None, Some(path)) => return Input::file(&path, Expected::Answer),
            _ => bail!("a request needs exactly one of data, data_base64 and file"),
        };
        Ok(Input::bytes(bytes, Expected::Answer))
    }
}
