//! `callweave report`: recorded responses → counts, as a table, a plot and a page.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use callweave::Decoder;
use callweave::protocol::read_error;
use callweave_bulk::report::{CountedRow, TrafficReport};
use callweave_bulk::row::RowReader;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::{JobCount, LineBatch, each_batch};
use crate::commands::extract::TextReading;
use crate::input::InputFile;
use crate::report::print;
use crate::rows::MAX_LINE;
use crate::wrapping::ExpectedWrapping;

/// Count what became of recorded answers, by model, dialect, outcome and class of error
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave report recorded/                    every answer in a folder, with the times of its files
  callweave report --html report.html recorded/ the same as one page, with a plot
  callweave demo --rows 10000 > rows.jsonl && callweave report rows.jsonl
                                                {\"data\": …, \"time\"?: …} per line
  callweave report --as jsonl rows.jsonl | jq . the groups, one per line

A call counts for its own outcome, an answer for that of its worst call. Calls are repaired before
they are judged, so that repaired and invalid ones differ. Requests that a gateway recorded beside
their answers are left out.")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    wording: TextReading,
    /// The form of the output
    #[arg(long = "as", value_name = "FORM", default_value = "table")]
    form: ReportForm,
    /// Write the report into one HTML file, too, that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the plot into an SVG file, too
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The column of a Parquet file that holds the answers; not needed if they are decoded
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "NAME", default_value = "data")]
    column: String,
    /// The column of a Parquet file that holds the time of each answer
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "NAME", default_value = "time")]
    time: String,
    /// Folders of recorded answers, files with one JSON object per line (.jsonl), or Parquet files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ReportForm {
    /// A table of text
    Table,
    /// One JSON object per group
    Jsonl,
}

impl ReportArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = self.wording.dialects()?;
        let mut builder = Decoder::builder().repair().coerce().validate();
        if let Some(dialect) = self.wording.options(&dialects, "auto")? {
            builder = builder.dialect(dialect);
        }
        if let Some(tools) = self.wording.tools()? {
            builder = builder.tools(tools);
        }
        let mut counting =
            Counting { reader: RowReader::new(builder), report: TrafficReport::default(), skipped: 0 };
        for path in &self.paths {
            self.count(path, &mut counting)?;
        }
        let Counting { report, skipped, .. } = counting;
        if skipped > 0 {
            print(&format!("{skipped} lines are no rows, and were left out"));
        }
        if report.responses() == 0 {
            bail!("there is no answer to report about");
        }
        if let Some(path) = &self.html {
            write(path, &report.to_html())?;
        }
        if let Some(path) = &self.svg {
            write(path, &report.to_svg())?;
        }
        let shown = match self.form {
            ReportForm::Table => report.to_table(),
            ReportForm::Jsonl => report.to_jsonl(),
        };
        Ok(io::stdout().write_all(shown.as_bytes())?)
    }

    fn count(&self, path: &Path, counting: &mut Counting) -> Result<()> {
        let has_ending = |ending: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending));
        if path.is_dir() {
            return counting.folder(path);
        }
        if has_ending("parquet") {
            return self.count_parquet(path, counting);
        }
        match has_ending("jsonl") || has_ending("ndjson") || path == Path::new("-") {
            true => counting.lines(path),
            false => counting.file(path),
        }
    }

    #[cfg(feature = "parquet")]
    fn count_parquet(&self, path: &Path, counting: &mut Counting) -> Result<()> {
        let reader = &counting.reader;
        callweave_bulk::files::count(path, &self.column, &self.time, reader, &mut counting.report)
            .with_context(|| format!("cannot read {}", path.display()))
    }

    #[cfg(not(feature = "parquet"))]
    fn count_parquet(&self, path: &Path, _: &mut Counting) -> Result<()> {
        bail!("cannot read {}: this program was built without the feature parquet", path.display())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

struct Counting {
    reader: RowReader,
    report: TrafficReport,
    /// How many lines were no rows.
    skipped: u64,
}

/// A row of JSON lines: a response, and its time.
#[derive(Deserialize)]
struct TimedRow {
    data: Option<Box<RawValue>>,
    data_base64: Option<String>,
    time: Option<i64>,
}

impl Counting {
    /// Counts the files of a folder, and of the folders in it.
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let cannot = || format!("cannot read {}", folder.display());
        let mut paths: Vec<_> = fs::read_dir(folder)
            .with_context(cannot)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()
            .with_context(cannot)?;
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name.ends_with(".request.json") {
                continue;
            }
            // A link may lead back here.
            let kind = fs::symlink_metadata(&path).with_context(cannot)?.file_type();
            if kind.is_dir() {
                self.folder(&path)?;
            } else if kind.is_file()
                && (name.ends_with(".jsonl") || name.ends_with(".ndjson"))
                && self.holds_rows(&path)?
            {
                self.lines(&path)?;
            } else if kind.is_file() {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    /// Whether the first line is a row. Responses may come in lines of JSON, too.
    fn holds_rows(&self, path: &Path) -> Result<bool> {
        let mut first = Vec::new();
        InputFile::open(path, ExpectedWrapping::Text)?.take(MAX_LINE as u64).read_until(b'\n', &mut first)?;
        Ok(serde_json::from_slice::<TimedRow>(&first)
            .is_ok_and(|row| row.data.is_some() || row.data_base64.is_some()))
    }

    /// Counts the response in a file. The time is that of the file.
    fn file(&mut self, path: &Path) -> Result<()> {
        let changed = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let since = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let time = since.and_then(|since| i64::try_from(since.as_secs()).ok());
        let mut input = InputFile::open(path, ExpectedWrapping::Answer)?;
        let mut bytes = Vec::new();
        input.look().with_context(|| format!("cannot read {}", path.display()))?;
        input.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
        match input.head().filter(|head| head.status >= 400) {
            Some(head) => {
                let error = read_error(Some(head.status), head.headers.clone(), &bytes);
                self.report.add(&CountedRow {
                    error_class: Some(error.class.name()),
                    time,
                    ..CountedRow::default()
                });
            }
            None => self.report.add_read(&self.reader.decode(&bytes), time),
        }
        Ok(())
    }

    /// Counts the rows of a file of JSON lines.
    fn lines(&mut self, path: &Path) -> Result<()> {
        let input = InputFile::open(path, ExpectedWrapping::Text)?;
        let (reader, report, skipped) = (&self.reader, &mut self.report, &mut self.skipped);
        let work = |batch: &LineBatch| {
            let (mut part, mut skipped) = (TrafficReport::default(), 0);
            for (_, line) in batch.lines().filter(|(_, line)| !line.trim_ascii().is_empty()) {
                match read_row(line) {
                    Some((bytes, time)) => part.add_read(&reader.decode(&bytes), time),
                    None => skipped += 1,
                }
            }
            (part, skipped)
        };
        each_batch(input, MAX_LINE, JobCount::default(), work, |(part, more)| {
            report.merge(part);
            *skipped += more;
            Ok(())
        })
    }
}

/// The response in a row, and its time.
fn read_row(line: &[u8]) -> Option<(Vec<u8>, Option<i64>)> {
    let TimedRow { data, data_base64, time } = serde_json::from_slice(line).ok()?;
    let mut bytes = Vec::new();
    InputFile::given(data, data_base64, None).ok()?.read_to_end(&mut bytes).ok()?;
    Some((bytes, time))
}
