//! `callweave protocols`: the table of wire languages.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use callweave::json::Value;
use callweave::protocol::TABLE;
use clap::Args;

/// List the protocols that responses are read in
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave protocols                  a table to read
  callweave protocols | jq -r .name    one JSON object per line when piped, or with --jsonl")]
pub(crate) struct ProtocolsArgs {
    /// Print one JSON object per line, on a terminal, too
    #[arg(long)]
    jsonl: bool,
}

impl ProtocolsArgs {
    pub(crate) fn run(&self) -> Result<()> {
        if self.jsonl || !io::stdout().is_terminal() {
            let rows: String = TABLE
                .iter()
                .map(|row| {
                    let aliases = row.aliases.iter().copied().collect();
                    let row = [("name", row.name.into()), ("aliases", aliases), ("title", row.title.into())];
                    format!("{}\n", Value::object(row))
                })
                .collect();
            return Ok(io::stdout().write_all(rows.as_bytes())?);
        }
        let (name, dim) = (AnsiColor::Cyan.on_default().bold(), Style::new().dimmed());
        let width = TABLE.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let mut table = String::new();
        for row in TABLE {
            write!(table, "{name}{:width$}{name:#}  {}", row.name, row.title)?;
            if !row.aliases.is_empty() {
                write!(table, "  {dim}also {}{dim:#}", row.aliases.join(", "))?;
            }
            table.push('\n');
        }
        Ok(anstream::stdout().write_all(table.as_bytes())?)
    }
}
