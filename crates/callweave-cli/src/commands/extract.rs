//! `callweave extract`: a model's text → the thoughts and tool calls written in it.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use callweave::dialect::{Extraction, Extractor, Options, Registry, Start};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use crate::declared::{Dialects, read_tools, tools_of};
use crate::input::Input;
use crate::render::{Form, Printer};
use crate::rows::{self, Failure, Request};

/// Find the tool calls and thoughts that a model wrote into its text
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave extract reply.txt                               whatever dialect it is in
  callweave extract --dialect hermes --tools tools.json -   with the tools that the model knew
  callweave extract --model Qwen/Qwen3-Coder-30B reply.txt  in the dialect of a model
  callweave extract --as events reply.txt                   every event, with its place in the text
  callweave extract --jsonl replies.jsonl                   many texts: {\"text\": …, \"dialect\": …} per line")]
pub(crate) struct Extract {
    #[command(flatten)]
    reading: Reading,
    /// What the text begins with: reasoning if the prompt has opened a thought
    #[arg(long, value_name = "WHERE", conflicts_with = "jsonl")]
    starting_in: Option<Beginning>,
    /// What to print
    #[arg(long = "as", value_name = "FORM", conflicts_with = "jsonl")]
    form: Option<Form>,
    /// Read one JSON request per line ({"text", "dialect"?, "tools"?, "chunks"?, "starting_in"?}), print one result per line
    #[arg(long)]
    jsonl: bool,
    /// The file to read, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// What a text begins with; without it, what the dialect says.
#[derive(Clone, Copy, ValueEnum)]
enum Beginning {
    Text,
    Reasoning,
}

/// How text is to be read: the dialect and the tools.
#[derive(Args)]
pub(crate) struct Reading {
    /// The dialect of the text, or auto to let the text decide; see callweave dialects
    #[arg(long, value_name = "NAME", value_parser = dialect_names(), hide_possible_values = true)]
    dialect: Option<String>,
    /// Use the dialect that this model speaks
    #[arg(long, value_name = "MODEL", conflicts_with = "dialect")]
    model: Option<String>,
    /// Read the text in a dialect of your own, described in a TOML file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dialect", "model"])]
    dialect_file: Option<PathBuf>,
    /// The tools that the model was told of: a JSON list, in the shape of OpenAI or of Anthropic
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
}

fn dialect_names() -> PossibleValuesParser {
    let auto = PossibleValue::new("auto").help("let the text decide");
    let rows = Registry::builtin()
        .dialects()
        .iter()
        .map(|row| PossibleValue::new(row.name.as_str()).aliases(row.aliases.iter().map(String::as_str)));
    PossibleValuesParser::new([auto].into_iter().chain(rows))
}

impl Reading {
    /// The dialects that can be asked for.
    pub(crate) fn dialects(&self) -> Result<Dialects> {
        Dialects::with_file(self.dialect_file.as_deref())
    }

    /// How the text is to be read; nothing if no dialect was named in any way.
    pub(crate) fn options(&self, dialects: &Dialects) -> Result<Option<Options>> {
        let options = match (&self.dialect, &self.model, dialects.own()) {
            (Some(name), ..) => dialects.named(name)?,
            (_, Some(model), _) => {
                let dialect = dialects.registry().for_model(model);
                let unknown =
                    || anyhow!("no dialect is known for the model {model}; name one with --dialect");
                Options::with_dialects(vec![dialect.with_context(unknown)?.clone()])
            }
            (.., Some(own)) => Options::with_dialects(vec![own.clone()]),
            (None, None, None) => return Ok(None),
        };
        self.with_tools(options).map(Some)
    }

    fn with_tools(&self, options: Options) -> Result<Options> {
        match &self.tools {
            Some(path) => Ok(options.tools(read_tools(path)?)),
            None => Ok(options),
        }
    }
}

impl Extract {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = self.reading.dialects()?;
        let options = match self.reading.options(&dialects)? {
            Some(options) => options,
            None => self.reading.with_tools(dialects.named("auto")?)?,
        };
        if self.jsonl {
            return rows::run(&self.file, |row: Row| row.extract(&dialects, &options));
        }
        let options = match self.starting_in {
            None => options,
            Some(Beginning::Text) => options.starting_in(Start::Text),
            Some(Beginning::Reasoning) => options.starting_in(Start::Reasoning),
        };
        let mut input = Input::open(&self.file)?;
        let mut printer = Printer::new::<Extraction>(self.form.unwrap_or_else(Form::suited));
        let (mut extractor, mut sink) = (Extractor::new(&options), printer.sink());
        let read = input.for_each_text(|text| {
            extractor.push(text, &mut sink);
            printer.flush()
        });
        extractor.finish(&mut sink);
        printer.finish()?;
        read
    }
}

/// A request to read one text. Members it does not know are the caller's own.
#[derive(Deserialize)]
struct Row {
    text: Option<String>,
    dialect: Option<String>,
    tools: Option<Value>,
    /// The text in the pieces in which it came.
    chunks: Option<Vec<String>>,
    starting_in: Option<Start>,
}

impl Request for Row {
    const SHAPE: &'static str = "an object with \"text\" and \"dialect\"";
}

impl Row {
    fn extract(self, dialects: &Dialects, options: &Options) -> Result<Extraction, Failure> {
        let mut options = match &self.dialect {
            Some(name) => dialects.named(name)?,
            None => options.clone(),
        };
        if let Some(tools) = &self.tools {
            options = options.tools(tools_of(tools, "the member tools")?);
        }
        if let Some(start) = self.starting_in {
            options = options.starting_in(start);
        }
        match (&self.chunks, &self.text) {
            (Some(chunks), Some(text)) if chunks.concat() != *text => {
                Err(anyhow!("chunks and text differ; a request needs one of them").into())
            }
            (Some(chunks), _) => Ok(Extraction::of_deltas(chunks.iter().map(String::as_str), &options)),
            (None, Some(text)) => Ok(Extraction::of(text, &options)),
            (None, None) => Err(anyhow!("a request needs text or chunks").into()),
        }
    }
}
