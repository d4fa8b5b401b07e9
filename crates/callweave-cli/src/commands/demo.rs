//! `callweave demo`: the main job on a sample that is part of the program.

use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

use anstyle::Style;
use anyhow::Result;
use callweave::pipeline::Decoder;
use clap::Args;

use crate::render::{Form, Printer};

/// A streamed answer: thoughts, text and two parallel calls, the second of them messy.
const SAMPLE: &[u8] = include_bytes!("../../samples/demo.sse");

/// The pause after each frame, so that one sees the answer grow.
const PAUSE: Duration = Duration::from_millis(25);

/// Show a sample answer as it streams in; needs no key and no network
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave demo                           watch the sample stream in
  callweave demo --raw                     the bytes that the sample is made of
  callweave demo --raw | callweave decode --as events")]
pub(crate) struct Demo {
    /// Print the bytes of the sample as a provider would send them
    #[arg(long)]
    raw: bool,
    /// Do not wait between the pieces
    #[arg(long)]
    fast: bool,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        if self.raw {
            return Ok(io::stdout().write_all(SAMPLE)?);
        }
        let is_live = io::stdout().is_terminal() && !self.fast;
        let mut printer = Printer::new(Form::View, None);
        let (mut decoder, mut sink) = (Decoder::detect(), printer.sink());
        for frame in SAMPLE.split_inclusive(|byte| *byte == b'\n') {
            decoder.push(frame, &mut sink)?;
            printer.flush()?;
            if is_live && frame.len() > 1 {
                sleep(PAUSE);
            }
        }
        decoder.finish(&mut sink)?;
        printer.finish()?;
        if io::stdout().is_terminal() {
            let dim = Style::new().dimmed();
            let hint = "the same as JSON: callweave demo --raw | callweave decode --as message";
            anstream::println!("\n{dim}{hint}{dim:#}");
        }
        Ok(())
    }
}
