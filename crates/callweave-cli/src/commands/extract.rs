//! `callweave extract`: a model's text → the thoughts and tool calls written in it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use callweave::dialect::{Dialect, Extraction, Extractor, Options, Registry, Start, Tools};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use crate::input::Input;
use crate::render::{Form, Printer};
use crate::rows::{self, Failure};

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
    /// How the text is to be read; nothing if no dialect was named in any way.
    pub(crate) fn options(&self) -> Result<Option<Options>> {
        let options = match (&self.dialect, &self.model, &self.dialect_file) {
            (Some(name), ..) => named(name)?,
            (_, Some(model), _) => {
                let dialect = Registry::builtin().for_model(model);
                let unknown =
                    || anyhow!("no dialect is known for the model {model}; name one with --dialect");
                Options::with_dialects(vec![dialect.with_context(unknown)?.clone()])
            }
            (.., Some(path)) => Options::with_dialects(vec![read_dialect(path)?]),
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

/// The dialect of that name, or all of them for `auto`.
pub(crate) fn named(name: &str) -> Result<Options> {
    Options::new(name).map_err(|_| anyhow!("unknown dialect {name:?}; see callweave dialects"))
}

fn read_dialect(path: &Path) -> Result<Dialect> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} does not describe a dialect", path.display()))
}

/// Reads a list of tools, or a request that has one.
fn read_tools(path: &Path) -> Result<Tools> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let tools = Tools::from_json(value.get("tools").unwrap_or(&value));
    match tools.is_empty() && value.as_array().is_none_or(|list| !list.is_empty()) {
        true => Err(anyhow!("{} has no tools; it should be a list of objects with a name", path.display())),
        false => Ok(tools),
    }
}

impl Extract {
    pub(crate) fn run(&self) -> Result<()> {
        let options = match self.reading.options()? {
            Some(options) => options,
            None => self.reading.with_tools(named("auto")?)?,
        };
        if self.jsonl {
            return rows::run(&self.file, |row: Row| row.extract(&options));
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

impl Row {
    fn extract(self, options: &Options) -> Result<Extraction, Failure> {
        let mut options = match &self.dialect {
            Some(name) => named(name)?,
            None => options.clone(),
        };
        if let Some(tools) = &self.tools {
            options = options.tools(Tools::from_json(tools));
        }
        if let Some(start) = self.starting_in {
            options = options.starting_in(start);
        }
        match (&self.chunks, &self.text) {
            (Some(chunks), _) => Ok(Extraction::of_deltas(chunks.iter().map(String::as_str), &options)),
            (None, Some(text)) => Ok(Extraction::of(text, &options)),
            (None, None) => Err(anyhow!("a request needs text or chunks").into()),
        }
    }
}
