//! `callweave demo`: the main job on a sample that is part of the program.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

use anstyle::Style;
#[cfg(feature = "parquet")]
use anyhow::Context;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callweave::event::{Event, Sink};
use callweave::live::{LiveItem, LiveView};
use callweave::pipeline::Decoder;
use callweave_bulk::sample::{self, SampleRow};
use clap::Args;
use serde::Serialize;

use crate::render::{EventPrinter, OutputForm};

/// A streamed response: reasoning, text and two parallel calls, the second of them messy.
const SAMPLE: &[u8] = include_bytes!("../../samples/demo.sse");

/// The pause after each frame, so that one sees the response grow.
const PAUSE: Duration = Duration::from_millis(25);

/// Show what a model writes and what its client gets; needs no key and no network
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave demo                           before and after
  callweave demo --raw                     the bytes that the sample is made of
  callweave demo --raw | callweave decode --repair --as events
  callweave demo --rows 1000 | callweave decode --jsonl
                                           many answers of ten protocols")]
pub(crate) struct DemoArgs {
    /// Print the bytes of the sample as a provider would send them
    #[arg(long)]
    raw: bool,
    /// Do not wait between the pieces
    #[arg(long)]
    fast: bool,
    /// Print that many generated answers of ten protocols, one JSON object per line: the same for every run
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    rows: Option<u64>,
    /// Write the generated answers into a Parquet file instead
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "FILE", requires = "rows")]
    parquet: Option<std::path::PathBuf>,
}

impl DemoArgs {
    pub(crate) fn run(&self) -> Result<()> {
        if self.raw {
            return Ok(io::stdout().write_all(SAMPLE)?);
        }
        if let Some(rows) = self.rows {
            #[cfg(feature = "parquet")]
            if let Some(path) = &self.parquet {
                return callweave_bulk::files::write_sample(rows, path)
                    .with_context(|| format!("cannot write {}", path.display()));
            }
            return print_rows(rows);
        }
        let is_live = io::stdout().is_terminal() && !self.fast;
        let mut out = anstream::stdout();
        let (title, dim) = (Style::new().bold(), Style::new().dimmed());
        writeln!(out, "{title}the model writes{title:#}\n")?;
        let mut written = WrittenText::default();
        let mut decoder = Decoder::detect();
        for frame in SAMPLE.split_inclusive(|byte| *byte == b'\n') {
            decoder.push(frame, &mut written)?;
            write!(out, "{}", std::mem::take(&mut written.text))?;
            out.flush()?;
            if is_live && frame.len() > 1 {
                sleep(PAUSE);
            }
        }
        decoder.finish(&mut written)?;
        writeln!(out, "{}\n\n{title}the client gets{title:#}\n", written.text)?;

        let mut printer = EventPrinter::new(OutputForm::View, None);
        let (mut decoder, mut sink) = (Decoder::builder().repair().build(), printer.sink());
        decoder.push(SAMPLE, &mut sink)?;
        decoder.finish(&mut sink)?;
        printer.finish()?;
        if io::stdout().is_terminal() {
            let hint = "the same as JSON: callweave demo --raw | callweave decode --repair --as message";
            writeln!(out, "\n{dim}{hint}{dim:#}")?;
        }
        Ok(())
    }
}

/// Prints generated rows as `callweave decode --jsonl` reads them.
fn print_rows(rows: u64) -> Result<()> {
    #[derive(Serialize)]
    struct PrintedRow<'r> {
        id: u64,
        time: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'r str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data_base64: Option<String>,
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for SampleRow { id, time, data, .. } in (0..rows).map(sample::row) {
        let text = str::from_utf8(&data).ok();
        let data_base64 = text.is_none().then(|| STANDARD.encode(&data));
        serde_json::to_writer(&mut out, &PrintedRow { id, time, data: text, data_base64 })?;
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

/// The model's output as it is: text and reasoning while they come, calls once they are complete, because they grow
/// side by side.
#[derive(Default)]
struct WrittenText {
    live: LiveView,
    text: String,
    /// The kind of the last item.
    last: Option<&'static str>,
}

impl<'e> Sink<Event<'e>> for WrittenText {
    fn put(&mut self, event: Event<'e>) {
        let (kind, written) = match self.live.put(event) {
            Some(LiveItem::Reasoning(text)) => ("reasoning", text.into_owned()),
            Some(LiveItem::Text(text)) => ("text", text.into_owned()),
            Some(LiveItem::CallDone(call)) => ("call", format!("{}({})", call.name, call.raw_arguments)),
            _ => return,
        };
        self.text += match self.last.replace(kind) {
            Some(last) if last != kind => "\n\n",
            Some("call") => "\n",
            _ => "",
        };
        self.text += &written;
    }
}
