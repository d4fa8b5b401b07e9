//! `callweave completions`: a completion script for a shell.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave completions bash > ~/.local/share/bash-completion/completions/callweave
  callweave completions fish > ~/.config/fish/completions/callweave.fish
  callweave completions zsh > ~/.zfunc/_callweave")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(&self, program: &mut clap::Command) -> Result<()> {
        // The generator panics where it cannot write, so it writes to memory.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, program, "callweave", &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}
