//! `callweave prompt`: a system prompt that teaches a model to call tools in a dialect.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use callweave::prompt::{Options, augment_system_prompt};
use clap::Args;
use serde_json::Value;

use crate::declared::{Dialects, has_name, list_of_tools};

/// Write a system prompt that teaches a model to call tools in a dialect
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave prompt --tools tools.json                              ~~~tool_call fences, full schemas
  callweave prompt --dialect hermes --tools tools.json --compact   one line per tool
  callweave prompt --tools tools.json --system system.txt          behind your own prompt

What the model answers, callweave extract --dialect reads.")]
pub(crate) struct Prompt {
    /// The dialect to teach; see callweave dialects
    #[arg(long, value_name = "NAME", default_value = "fence")]
    dialect: String,
    /// Teach a dialect of your own, described in a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "dialect")]
    dialect_file: Option<PathBuf>,
    /// The tools: a JSON list in the shape of OpenAI, of Anthropic, or bare; or a request that has one (- for standard input)
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,
    /// Say one line about each tool, for small models
    #[arg(long)]
    compact: bool,
    /// Your own system prompt, which goes before
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
}

impl Prompt {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = Dialects::with_file(self.dialect_file.as_deref())?;
        let unknown = || anyhow!("no dialect is called {:?}; see callweave dialects", self.dialect);
        let dialect =
            dialects.own().or_else(|| dialects.registry().find(&self.dialect)).with_context(unknown)?;
        let options =
            Options::of(dialect).map_err(|error| anyhow!("{}; see callweave dialects", error.detail()))?;
        let options = if self.compact { options.compact() } else { options };
        let source = self.tools.display();
        let request: Value =
            serde_json::from_str(&read(&self.tools)?).with_context(|| format!("{source} is not JSON"))?;
        let tools = list_of_tools(&request, &source.to_string())?;
        if let Some(index) = tools.iter().position(|tool| !has_name(tool)) {
            bail!("tool {} of {source} has no name", index + 1);
        }
        let tools = Value::from(tools);
        let system = self.system.as_deref().map(read).transpose()?;
        let prompt = augment_system_prompt(system.as_deref(), &tools, &options);
        Ok(writeln!(io::stdout(), "{prompt}")?)
    }
}

/// Reads a file, or standard input for `-`.
fn read(path: &Path) -> Result<String> {
    let text = match path.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => fs::read_to_string(path),
    };
    text.with_context(|| format!("cannot read {}", path.display()))
}
