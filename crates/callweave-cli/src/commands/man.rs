//! `callweave man`: the manual page.

use std::io;

use anyhow::{Context, Result};
use clap::Args;

/// Print the manual page
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave man > callweave.1          the page of the program
  callweave man decode | man -l -      read the page of a command")]
pub(crate) struct ManArgs {
    /// The command to describe; without it, the program as a whole
    command: Option<String>,
}

impl ManArgs {
    pub(crate) fn run(&self, program: &clap::Command) -> Result<()> {
        let mut program = program.clone();
        program.build();
        let command = match &self.command {
            None => program,
            Some(name) => program
                .find_subcommand(name)
                .with_context(|| format!("there is no command {name}; see callweave --help"))?
                .clone(),
        };
        Ok(clap_mangen::Man::new(command).render(&mut io::stdout())?)
    }
}
