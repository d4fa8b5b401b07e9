//! `callweave repair`: JSON as models write it → JSON.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use callweave::json::repair::{self, HopelessReason, RepairVerdict, RepairedJson as Repaired};
use callweave::json::schema::{self, MissingMembers, Schema, TextCompleteness};
use callweave::json::{Value, compact_into, repair::RepairOptions};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::batches::JobCount;
use crate::explain::explain;
use crate::input::InputFile;
use crate::render::{print_complete, print_heading, show};
use crate::rows::{self, FileTurn, RowFailure, RowOutcome, RowRequest};
use crate::wrapping::ExpectedWrapping;

/// Repair JSON that a model wrote, and fit it to a schema
#[derive(Args)]
#[command(after_help = "\
Examples:
  echo \"{city: 'Oslo', days: 3,}\" | callweave repair      {\"city\": \"Oslo\", \"days\": 3}
  callweave repair --explain arguments.txt                see every change
  callweave repair --schema tool.json arguments.txt       \"5\" becomes 5 where a number is wanted
  callweave repair --partial growing.txt                  close what is still growing
  callweave repair --jsonl requests.jsonl                 many texts: {\"input\": …} per line

Valid JSON comes back untouched. A text that was cut off is an error unless --partial is given.")]
pub(crate) struct RepairArgs {
    /// Fit the value to this JSON Schema
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The text is the beginning of a longer one: close what is open
    #[arg(long)]
    partial: bool,
    /// The treatment of members that the schema wants and the text lacks
    #[arg(long, value_name = "HOW", requires = "schema")]
    missing: Option<MissingFilling>,
    /// Show the text with every change marked
    #[arg(long, conflicts_with_all = ["report", "jsonl"])]
    explain: bool,
    /// Print the verdict, the value, the text and the changes as one JSON object
    #[arg(long, conflicts_with = "jsonl")]
    report: bool,
    /// Read one JSON request per line ({"input", "schema"?, "partial"?, "missing"?, "id"?}), print one report per line
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    jobs: JobCount,
    /// The files to read, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
}

/// The treatment of missing members.
#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingFilling {
    /// They stay away; a required one is a problem
    Keep,
    /// They become null where that is allowed; a required array becomes empty
    Empty,
    /// They become null, or empty where only an array or a map is allowed
    Blank,
    /// Required ones become what the schema offers: its default, its first choice, an empty container
    Infer,
}

impl From<MissingFilling> for MissingMembers {
    fn from(filling: MissingFilling) -> Self {
        match filling {
            MissingFilling::Keep => Self::Keep,
            MissingFilling::Empty => Self::Empty,
            MissingFilling::Blank => Self::Blank,
            MissingFilling::Infer => Self::Infer,
        }
    }
}

impl RepairArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let schema = self.schema.as_deref().map(read_schema).transpose()?;
        let defaults =
            RepairPlan { schema: schema.as_ref(), is_partial: self.partial, missing: self.missing };
        if self.jsonl {
            return rows::run(&self.files, self.jobs, |row: RepairRow| row.repair(&defaults));
        }
        rows::each_file(&self.files, |turn| self.repair(turn, &defaults))
    }

    fn repair(&self, turn: FileTurn<'_>, wish: &RepairPlan<'_>) -> Result<()> {
        let repaired = read(turn.path).and_then(|input| Ok((wish.repair(&input)?, input)));
        let is_row = self.report || (turn.name.is_some() && !self.explain && !io::stdout().is_terminal());
        if is_row {
            let result = match repaired {
                Ok((report, _)) => report.outcome(),
                Err(error) => Err(error.into()),
            };
            turn.print(&result)?;
            return rows::conclude(result);
        }
        let (report, input) = repaired?;
        print_heading(turn)?;
        if self.explain {
            anstream::stdout().write_all(explain(&input, &report).as_bytes())?;
        } else {
            report.print()?;
        }
        match report.problem() {
            None => Ok(()),
            Some(problem) => Err(anyhow!(problem)),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    InputFile::open(path, ExpectedWrapping::Text)?
        .read_to_end(&mut bytes)
        .context("cannot read the input to its end")?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn read_schema(path: &Path) -> Result<Schema> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let schema: Value = text.parse().with_context(|| format!("{} is not JSON", path.display()))?;
    Ok(Schema::new(&schema))
}

/// The options for repairing a text.
pub(crate) struct RepairPlan<'s> {
    pub(crate) schema: Option<&'s Schema>,
    pub(crate) is_partial: bool,
    pub(crate) missing: Option<MissingFilling>,
}

/// The result for a text.
#[derive(Serialize)]
pub(crate) struct RepairReport {
    /// `valid`, `repaired`, `incomplete` or `hopeless`.
    pub(crate) verdict: &'static str,
    /// The value; of a truncated text the part there is, of a hopeless one nothing.
    value: Option<Box<RawValue>>,
    /// The JSON text; empty if the text is hopeless, or was truncated and is not to be closed.
    pub(crate) text: String,
    pub(crate) changes: Vec<ReportedChange>,
    /// The problems with the schema.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<ReportedProblem>,
    /// The reason why the text is hopeless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ReportedChange {
    /// A change of the text: bytes of the input and what stands there instead.
    Text { kind: &'static str, at: usize, end: usize, replacement: String },
    /// A change of the value, to fit the schema.
    Value { kind: &'static str, path: String, from: Value, to: Value },
}

#[derive(Serialize)]
pub(crate) struct ReportedProblem {
    path: String,
    detail: String,
}

impl RepairPlan<'_> {
    /// Repairs a text.
    pub(crate) fn repair(&self, input: &str) -> Result<RepairReport> {
        let options = if self.is_partial {
            RepairOptions::new().prefix().close_truncated()
        } else {
            RepairOptions::new()
        };
        let repaired = options.repair(input);
        let mut report = RepairReport::of(&repaired)?;
        if let Some(schema) = self.schema {
            self.fit(schema, input, &mut report)?;
        }
        Ok(report)
    }

    fn fit(&self, schema: &Schema, input: &str, report: &mut RepairReport) -> Result<()> {
        let (extent, missing) = match self.is_partial {
            true => (TextCompleteness::Prefix, MissingMembers::Blank),
            false => (TextCompleteness::Complete, MissingMembers::Keep),
        };
        let missing = self.missing.map_or(missing, MissingMembers::from);
        let fit = schema.read_with(input, schema::CoerceOptions { missing, extent });
        let problem =
            |problem: schema::SchemaProblem| ReportedProblem { path: problem.path, detail: problem.detail };
        report.problems = fit.problems.into_iter().map(problem).collect();
        if report.problems.is_empty() && !self.is_partial {
            report.problems = schema.validate(&fit.value)?.into_iter().map(problem).collect();
        }
        if report.verdict == "hopeless" && !report.problems.is_empty() {
            return Ok(());
        }
        let value = fit.value.to_string();
        if report.value.as_ref().is_some_and(|known| known.get() == value) {
            return Ok(());
        }
        if report.verdict != "incomplete" {
            report.verdict = "repaired";
            report.why = None;
        }
        if report.verdict != "incomplete" || self.is_partial {
            report.text.clone_from(&value);
        }
        report.value = Some(RawValue::from_string(value)?);
        report.changes.extend(fit.changes.into_iter().map(|change| ReportedChange::Value {
            kind: change.kind.label(),
            path: change.path,
            from: change.from,
            to: change.to,
        }));
        Ok(())
    }
}

impl RepairReport {
    fn of(repaired: &Repaired<'_>) -> Result<Self> {
        let (verdict, why) = match repaired.verdict {
            RepairVerdict::Valid => ("valid", None),
            RepairVerdict::Repaired => ("repaired", None),
            RepairVerdict::Incomplete => ("incomplete", None),
            // No byte is given for the text as a whole.
            RepairVerdict::Hopeless {
                why: why @ (HopelessReason::Empty | HopelessReason::NoJson), ..
            } => ("hopeless", Some(why.to_string())),
            RepairVerdict::Hopeless { why, at } => ("hopeless", Some(format!("{why} (at byte {at})"))),
        };
        let change = |change: &repair::RepairChange| ReportedChange::Text {
            kind: change.kind.label(),
            at: change.at,
            end: change.end,
            replacement: change.replacement.to_string(),
        };
        Ok(Self {
            verdict,
            value: repaired.closed().map(one_line).transpose()?,
            text: repaired.text.to_string(),
            changes: repaired.changes.iter().map(change).collect(),
            problems: Vec::new(),
            why,
        })
    }

    /// Prints the text alone: as it is, or indented and coloured on a terminal.
    fn print(&self) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        if io::stdout().is_terminal() {
            let mut shown = String::new();
            show(&self.text, &mut shown);
            return print_complete(&shown);
        }
        let end = if self.text.ends_with('\n') { "" } else { "\n" };
        Ok(write!(io::stdout(), "{}{end}", self.text)?)
    }

    /// The reason why the text is not complete and as it should be, if it is not.
    fn problem(&self) -> Option<String> {
        if let Some(why) = &self.why {
            return Some(format!("cannot be repaired: {why}"));
        }
        if self.verdict == "incomplete" && self.text.is_empty() {
            return Some("the text was cut off; --partial closes what is there".to_owned());
        }
        let ReportedProblem { path, detail } = self.problems.first()?;
        Some(format!("the value does not fit the schema: {path}: {detail}"))
    }

    fn outcome(&self) -> Result<RowOutcome, RowFailure> {
        let json = serde_json::to_string(self).map_err(anyhow::Error::from)?;
        Ok(RowOutcome { json, problem: self.problem() })
    }
}

/// JSON text in one line, otherwise as it is: numbers and doubled keys stay.
fn one_line(text: &str) -> Result<Box<RawValue>> {
    let mut compact = String::with_capacity(text.len());
    compact_into(text, &mut compact);
    Ok(RawValue::from_string(compact)?)
}

/// A request to repair one text. Members it does not know are the caller's own.
#[derive(Deserialize)]
struct RepairRow {
    id: Option<Box<RawValue>>,
    input: String,
    schema: Option<Value>,
    partial: Option<bool>,
    missing: Option<MissingFilling>,
}

impl RowRequest for RepairRow {
    const SHAPE: &'static str = "an object with \"input\"";

    fn take_id(&mut self) -> Option<Box<RawValue>> {
        self.id.take()
    }
}

impl RepairRow {
    fn repair(self, defaults: &RepairPlan<'_>) -> Result<RowOutcome, RowFailure> {
        let schema = self.schema.as_ref().map(Schema::new);
        let wish = RepairPlan {
            schema: schema.as_ref().or(defaults.schema),
            is_partial: self.partial.unwrap_or(defaults.is_partial),
            missing: self.missing.or(defaults.missing),
        };
        wish.repair(&self.input)?.outcome()
    }
}
