//! `callweave teach`: a system prompt that teaches a model to call tools in a dialect.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use callweave::dialect::Dialect;
use callweave::json::Value;
use callweave::teach::{PromptOptions, augment_system_prompt};
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::JobCount;
use crate::declared::{KnownDialects, has_name, list_of_tools};
use crate::rows::{self, RowFailure, RowOutcome, RowRequest};

/// Write a system prompt that teaches a model to call tools in a dialect
#[derive(Args)]
#[command(after_help = "\
Examples:
  callweave teach tools.json                                       ~~~tool_call fences, full schemas
  callweave teach --dialect hermes --tools tools.json --compact    one line per tool
  callweave teach --tools tools.json --system system.txt           behind your own prompt
  callweave teach --jsonl requests.jsonl                           many prompts: {\"tools\": …} per line

callweave extract --dialect reads the replies of the model.")]
pub(crate) struct TeachArgs {
    /// The dialect to teach; see callweave dialects
    #[arg(long, value_name = "NAME", default_value = "fence")]
    dialect: String,
    /// Teach a dialect of your own, described in a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "dialect")]
    dialect_file: Option<PathBuf>,
    /// The tools: a JSON list in the shape of OpenAI, of Anthropic, or bare; or a request that has one (- for standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jsonl", "files"])]
    tools: Option<PathBuf>,
    /// Say one line about each tool, for small models
    #[arg(long)]
    compact: bool,
    /// Your own system prompt, which goes before
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// Read one JSON request per line ({"tools", "dialect"?, "system"?, "compact"?, "id"?}), print {"prompt"} for each
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    jobs: JobCount,
    /// The file with the tools, as with --tools; with --jsonl the files with the requests, or standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["tools", "jsonl"])]
    files: Vec<PathBuf>,
}

impl TeachArgs {
    pub(crate) fn run(&self) -> Result<()> {
        let dialects = KnownDialects::with_file(self.dialect_file.as_deref())?;
        let system = self.system.as_deref().map(read).transpose()?;
        if self.jsonl {
            let stdin = vec![PathBuf::from("-")];
            let files = if self.files.is_empty() { &stdin } else { &self.files };
            return rows::run(files, self.jobs, |row: TeachRow| {
                row.prompt(self, &dialects, system.as_deref())
            });
        }
        let path = match (&self.tools, &*self.files) {
            (Some(path), _) | (None, [path]) => path,
            (None, _) => bail!("there is one prompt for one file of tools; for many, see --jsonl"),
        };
        let source = path.display();
        let request: Value = read(path)?.parse().with_context(|| format!("{source} is not JSON"))?;
        let options = options(dialects.own(), &dialects, &self.dialect, self.compact)?;
        let prompt = prompt(&request, &source.to_string(), system.as_deref(), &options)?;
        Ok(writeln!(io::stdout(), "{prompt}")?)
    }
}

/// The options for teaching the tools: in the dialect of the user's own, or in that of the name.
fn options(
    own: Option<&Dialect>,
    dialects: &KnownDialects,
    name: &str,
    is_compact: bool,
) -> Result<PromptOptions> {
    let unknown = || anyhow!("no dialect is called {name:?}; {}see callweave dialects", dialects.meant(name));
    let dialect = own.or_else(|| dialects.registry().find(name)).with_context(unknown)?;
    let options =
        PromptOptions::of(dialect).map_err(|error| anyhow!("{}; see callweave dialects", error.detail()))?;
    Ok(if is_compact { options.compact() } else { options })
}

/// The prompt for the tools of a request. `source` names it in errors.
fn prompt(request: &Value, source: &str, system: Option<&str>, options: &PromptOptions) -> Result<String> {
    let tools = list_of_tools(request, source)?;
    if let Some(index) = tools.iter().position(|tool| !has_name(tool)) {
        bail!("tool {} of {source} has no name", index + 1);
    }
    Ok(augment_system_prompt(system, &Value::from(tools), options))
}

/// A request to write one prompt. Members it does not know are the caller's own.
#[derive(Deserialize)]
struct TeachRow {
    id: Option<Box<RawValue>>,
    tools: Value,
    dialect: Option<String>,
    system: Option<String>,
    compact: Option<bool>,
}

impl RowRequest for TeachRow {
    const SHAPE: &'static str = "an object with \"tools\"";

    fn take_id(&mut self) -> Option<Box<RawValue>> {
        self.id.take()
    }
}

impl TeachRow {
    fn prompt(
        self,
        command: &TeachArgs,
        dialects: &KnownDialects,
        system: Option<&str>,
    ) -> Result<RowOutcome, RowFailure> {
        let own = dialects.own().filter(|_| self.dialect.is_none());
        let name = self.dialect.as_deref().unwrap_or(&command.dialect);
        let options = options(own, dialects, name, self.compact.unwrap_or(command.compact))?;
        let system = self.system.as_deref().or(system);
        let prompt = prompt(&self.tools, "the member tools", system, &options)?;
        Ok(RowOutcome { json: Value::object([("prompt", prompt.into())]).to_string(), problem: None })
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
