//! `callweave demo`: the main job on a sample that is part of the program.

use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

use anstyle::Style;
use anyhow::Result;
use callweave::event::{Event, Sink};
use callweave::live::{LiveItem, LiveView};
use callweave::pipeline::Decoder;
use clap::Args;

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
  callweave demo --raw | callweave decode --repair --as events")]
pub(crate) struct DemoArgs {
    /// Print the bytes of the sample as a provider would send them
    #[arg(long)]
    raw: bool,
    /// Do not wait between the pieces
    #[arg(long)]
    fast: bool,
}

impl DemoArgs {
    pub(crate) fn run(&self) -> Result<()> {
        if self.raw {
            return Ok(io::stdout().write_all(SAMPLE)?);
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
