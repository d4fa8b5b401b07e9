//! `callweave extract`: a model's text → the reasoning and tool calls written in it.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use callweave::arguments::ArgumentStage;
use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Extractor, TextStart, Tools};
use callweave::event::{Event, EventSink, Sink};
use callweave::json::Value;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::arguments::RepairFlags;
use crate::batches::JobCount;
use crate::declared::{KnownDialects, read_tools, tools_of};
use crate::input::InputFile;
use crate::render::{EventPrinter, OutputForm};
use crate::rows::{self, FileTurn, RowFailure, RowOutcome, RowRequest};
use crate::verdict;
use crate::wrapping::ExpectedWrapping;

/// Find the tool calls and reasoning that a model wrote into its text
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave extract reply.txt                               whatever dialect it is in
  callweave extract --dialect hermes --tools tools.json -   with the tools that the model knew
  callweave extract --model Qwen/Qwen3-Coder-30B reply.txt  in the dialect of a model
  callweave extract --as events reply.txt                   every event, with its place in the text
  callweave extract --jsonl replies.jsonl                   many texts: {\"text\": …, \"dialect\": …} per line

The exit code is 1 if a call was cut off, is damaged, or does not suit the tools.")]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    wording: TextReading,
    #[command(flatten)]
    repair: RepairFlags,
    /// Let calls count that stand behind a damaged call; without this they are marked and invalid, because they may be a
    /// part of what the damaged one was to write
    #[arg(long)]
    calls_after_damage: bool,
    /// The beginning of the text: reasoning if the prompt has opened it
    #[arg(long, value_name = "WHERE", conflicts_with = "jsonl")]
    starting_in: Option<TextBeginning>,
    /// The form of the output
    #[arg(long = "as", value_name = "FORM", conflicts_with = "jsonl")]
    form: Option<OutputForm>,
    /// Read one JSON request per line ({"text", "dialect"?, "tools"?, "chunks"?, "starting_in"?, "id"?}), print one result per line
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    jobs: JobCount,
    /// Say which dialect was found, on standard error
    #[arg(long, short, conflicts_with = "jsonl")]
    verbose: bool,
    /// The files to read, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
}

/// The beginning of a text; without it, the dialect's default.
#[derive(Clone, Copy, ValueEnum)]
enum TextBeginning {
    Text,
    Reasoning,
}

/// How text is to be read: the dialect and the tools.
#[derive(Args)]
pub(crate) struct TextReading {
    /// The dialect of the text; auto lets the text decide, none leaves it as it is; see callweave dialects
    #[arg(long, value_name = "NAME", value_parser = dialect_names(), hide_possible_values = true)]
    dialect: Option<String>,
    /// Use the dialect that this model speaks
    #[arg(long, value_name = "MODEL", conflicts_with = "dialect")]
    model: Option<String>,
    /// Read the text in a dialect of your own, described in a TOML file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dialect", "model"])]
    dialect_file: Option<PathBuf>,
    /// The tools that the model was given: a JSON list, in the shape of OpenAI or of Anthropic; calls that do not fit them are marked
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
}

/// The name of no dialect: text is not searched.
pub(crate) const NO_DIALECT: &str = "none";

fn dialect_names() -> PossibleValuesParser {
    let auto = PossibleValue::new("auto").help("let the text decide");
    let none = PossibleValue::new(NO_DIALECT).help("leave the text as it is");
    let rows = DialectRegistry::builtin()
        .dialects()
        .iter()
        .map(|row| PossibleValue::new(row.name.as_str()).aliases(row.aliases.iter().map(String::as_str)));
    PossibleValuesParser::new([auto, none].into_iter().chain(rows))
}

impl TextReading {
    /// The dialects that can be asked for.
    pub(crate) fn dialects(&self) -> Result<KnownDialects> {
        KnownDialects::with_file(self.dialect_file.as_deref())
    }

    /// How text is searched for calls and reasoning: by the dialect that was named in any way, else by `default`. None if
    /// it is not searched.
    pub(crate) fn options(&self, dialects: &KnownDialects, default: &str) -> Result<Option<ExtractOptions>> {
        let options = match (&self.dialect, &self.model, dialects.own()) {
            (None, Some(model), _) => {
                let dialect = dialects.registry().for_model(model);
                dialects.named(&dialect.with_context(|| unknown_model(model))?.name)?
            }
            (None, None, Some(own)) => ExtractOptions::with_dialects(vec![own.clone()]),
            (name, ..) => match name.as_deref().unwrap_or(default) {
                NO_DIALECT => return Ok(None),
                name => dialects.named(name)?,
            },
        };
        Ok(Some(match self.tools()? {
            Some(tools) => options.tools(tools),
            None => options,
        }))
    }

    /// The name of the dialect that was asked for; nothing if none was named in any way.
    pub(crate) fn name<'d>(&'d self, dialects: &'d KnownDialects) -> Result<Option<&'d str>> {
        let Some(model) = &self.model else {
            return Ok(self.dialect.as_deref().filter(|name| *name != NO_DIALECT));
        };
        let dialect = dialects.registry().for_model(model).with_context(|| unknown_model(model))?;
        Ok(Some(&dialect.name))
    }

    /// The declared tools.
    pub(crate) fn tools(&self) -> Result<Option<Tools>> {
        self.tools.as_deref().map(read_tools).transpose()
    }
}

fn unknown_model(model: &str) -> String {
    format!("no dialect is known for the model {model}; name one with --dialect")
}

impl ExtractArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = self.wording.dialects()?;
        let options = self.wording.options(&dialects, "auto")?;
        let options = options.context("extract searches text, which --dialect none forbids")?;
        let arguments = self.repair.stage(self.wording.tools()?.as_ref());
        if self.jsonl {
            return rows::run(&self.files, self.jobs, |row: ExtractRow| {
                row.extract(&dialects, &options, &arguments, |options| self.accepting(options))
            });
        }
        let options = self.accepting(options);
        let options = match self.starting_in {
            None => options,
            Some(TextBeginning::Text) => options.starting_in(TextStart::Text),
            Some(TextBeginning::Reasoning) => options.starting_in(TextStart::Reasoning),
        };
        let form = self.form.unwrap_or_else(OutputForm::suited);
        rows::each_file(&self.files, |turn| {
            let extracted = self.extract(turn, form, &options, &arguments);
            if form == OutputForm::Message {
                turn.print(&extracted)?;
            }
            rows::conclude(extracted)
        })
    }

    /// The options with what the caller takes upon himself.
    fn accepting(&self, options: ExtractOptions) -> ExtractOptions {
        if self.calls_after_damage { options.accepting_calls_after_damage() } else { options }
    }

    fn extract(
        &self,
        turn: FileTurn<'_>,
        form: OutputForm,
        options: &ExtractOptions,
        arguments: &ArgumentStage,
    ) -> Result<RowOutcome, RowFailure> {
        let mut input = InputFile::open(turn.path, ExpectedWrapping::Text)?;
        let mut printer = EventPrinter::of_file(form, turn)?;
        let mut sink = printer.sink();
        let (found, dialect, read) = read(options, arguments.clone(), &mut sink, |push| {
            input.for_each_text(|piece| {
                push(piece);
                printer.flush()
            })
        });
        printer.finish()?;
        if self.verbose {
            turn.remark(&format!("dialect {}", found_dialect(dialect.as_deref(), options)));
        }
        match read {
            Ok(()) => outcome(&found),
            Err(error) => Err(RowFailure { error, recovered: Some(outcome(&found)?.json) }),
        }
    }
}

/// Reads the text that `text` gives, in any pieces. Says what was found in it, in which dialect, and whether
/// the text could be had to its end.
fn read(
    options: &ExtractOptions,
    mut arguments: ArgumentStage,
    live: &mut EventSink<'_>,
    text: impl FnOnce(&mut dyn FnMut(&str)) -> Result<()>,
) -> (Extraction, Option<String>, Result<()>) {
    let mut extractor = Extractor::new(options);
    let mut found = Extraction::default();
    let mut both = |event: Event<'_>| {
        found.put(event.clone());
        live.put(event);
    };
    let read =
        text(&mut |piece| extractor.push(piece, &mut |event: Event<'_>| arguments.push(event, &mut both)));
    extractor.finish(&mut |event: Event<'_>| arguments.push(event, &mut both));
    arguments.finish(&mut both);
    (found, extractor.dialect().map(str::to_owned), read)
}

/// Describes the dialect that a text was found to be in.
pub(crate) fn found_dialect(dialect: Option<&str>, options: &ExtractOptions) -> String {
    match dialect {
        None => "found nowhere".to_owned(),
        // Several dialects write calls in the same way, and the text does not decide between them.
        Some(name) if options.dialects().len() > 1 => format!("{name} or one alike"),
        Some(name) => name.to_owned(),
    }
}

fn outcome(found: &Extraction) -> Result<RowOutcome, RowFailure> {
    let json = serde_json::to_string(found).map_err(anyhow::Error::from)?;
    Ok(RowOutcome { json, problem: verdict::of_extraction(found) })
}

/// A request to read one text. Members it does not know are the caller's own.
#[derive(Deserialize)]
struct ExtractRow {
    id: Option<Box<RawValue>>,
    text: Option<String>,
    dialect: Option<String>,
    tools: Option<Value>,
    /// The text in the pieces in which it came.
    chunks: Option<Vec<String>>,
    starting_in: Option<TextStart>,
}

impl RowRequest for ExtractRow {
    const SHAPE: &'static str = "an object with \"text\" and \"dialect\"";

    fn take_id(&mut self) -> Option<Box<RawValue>> {
        self.id.take()
    }
}

impl ExtractRow {
    fn extract(
        self,
        dialects: &KnownDialects,
        options: &ExtractOptions,
        arguments: &ArgumentStage,
        accepting: impl Fn(ExtractOptions) -> ExtractOptions,
    ) -> Result<RowOutcome, RowFailure> {
        let mut options = accepting(match &self.dialect {
            Some(name) => dialects.named(name)?,
            None => options.clone(),
        });
        let own = self.tools.as_ref().map(|tools| tools_of(tools, "the member tools")).transpose()?;
        let tools = own.unwrap_or_else(|| arguments.declared().clone());
        let arguments = arguments.clone().tools(tools.clone());
        if !tools.is_empty() {
            options = options.tools(tools);
        }
        if let Some(start) = self.starting_in {
            options = options.starting_in(start);
        }
        let pieces = match (self.chunks, self.text) {
            (Some(chunks), Some(text)) if chunks.concat() != text => {
                return Err(anyhow!("chunks and text differ; a request needs one of them").into());
            }
            (Some(chunks), _) => chunks,
            (None, Some(text)) => vec![text],
            (None, None) => return Err(anyhow!("a request needs text or chunks").into()),
        };
        let mut nowhere = |_: Event<'_>| {};
        let (found, ..) = read(&options, arguments, &mut nowhere, |push| {
            pieces.iter().for_each(|piece| push(piece));
            Ok(())
        });
        outcome(&found)
    }
}
