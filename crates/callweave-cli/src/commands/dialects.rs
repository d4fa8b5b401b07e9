//! `callweave dialects`: how models write tool calls into text.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use callweave::json::Value;
use clap::Args;

use crate::declared;

/// List the dialects in which models write tool calls and reasoning as text
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave dialects                                each with its models and an example
  callweave dialects hermes                         one of them
  callweave dialects | jq -r '.name + \" \" + .models[]'")]
pub(crate) struct DialectsArgs {
    /// Only the dialect of this name or alias, or of a model of this name
    name: Option<String>,
    /// Also list a dialect of your own, described in a TOML file
    #[arg(long, value_name = "FILE")]
    dialect_file: Option<PathBuf>,
    /// Print one JSON object per line, on a terminal, too
    #[arg(long)]
    jsonl: bool,
}

impl DialectsArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = declared::KnownDialects::with_file(self.dialect_file.as_deref())?;
        let registry = dialects.registry();
        let rows = match &self.name {
            None => registry.dialects().iter().collect(),
            Some(name) => match registry.find(name).or_else(|| registry.for_model(name)) {
                Some(row) => vec![row],
                None => anyhow::bail!(
                    "no dialect and no model is called {name}; {}see callweave dialects",
                    dialects.meant(name)
                ),
            },
        };
        let mut out = String::new();
        if self.jsonl || !io::stdout().is_terminal() {
            for row in rows {
                let row = Value::object([
                    ("name", row.name.as_str().into()),
                    ("aliases", row.aliases.clone().into()),
                    ("models", row.models.clone().into()),
                    ("example", row.example.as_str().into()),
                ]);
                writeln!(out, "{row}")?;
            }
            return Ok(io::stdout().write_all(out.as_bytes())?);
        }
        let (name, dim) = (AnsiColor::Cyan.on_default().bold(), Style::new().dimmed());
        for row in rows {
            write!(out, "{name}{}{name:#}", row.name)?;
            if !row.models.is_empty() {
                write!(out, "  {}", row.models.join(", "))?;
            }
            if !row.aliases.is_empty() {
                write!(out, "  {dim}also {}{dim:#}", row.aliases.join(", "))?;
            }
            out.push('\n');
            for line in row.example.lines() {
                writeln!(out, "  {dim}{line}{dim:#}")?;
            }
            out.push('\n');
        }
        Ok(anstream::stdout().write_all(out.as_bytes())?)
    }
}
