//! Teaching a model to call tools by its prompt, for models and servers without native tool calls.
//!
//! In go a system prompt and a list of tools; out comes a prompt that also explains how calls are written in a
//! [`Dialect`], so that the [extractor](crate::dialect::Extractor) of the same dialect reads the model's response. For
//! the turns that follow, a [`CallWriter`] writes past calls and their results the same way, and [`teach`] does all of
//! that to a complete [`Request`](crate::request::Request).
//!
//! ```
//! use callweave::teach::{PromptOptions, augment_system_prompt};
//! use serde_json::json;
//!
//! let tools = json!([{"name": "look", "description": "Look at something.", "parameters": {
//!     "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"],
//! }}]);
//! let prompt = augment_system_prompt(Some("Be brief."), &tools, &PromptOptions::default());
//! assert!(prompt.starts_with("Be brief.\n\n"));
//! assert!(prompt.contains("~~~tool_call"));
//!
//! let prompt = augment_system_prompt(None, &tools, &PromptOptions::new("hermes")?.compact());
//! assert!(prompt.contains("<tool_call>"));
//! assert!(prompt.ends_with("- look(at: string) — Look at something."));
//! # Ok::<(), callweave::Error>(())
//! ```

mod conversation;
mod layout;
mod namespace;
mod signature;
mod taught;
mod values;
mod writer;

use std::fmt::Write as _;

use crate::dialect::{CallBody, Dialect, DialectRegistry};
use crate::error::Result;
use crate::json::AsValue;
use signature::ToolSignature;
pub use taught::{TaughtRequest, teach};
pub use writer::CallWriter;

/// How tools are explained.
#[derive(Clone, Debug)]
pub struct PromptOptions {
    writer: CallWriter,
    detail: ToolDetail,
}

/// How much the prompt says about each tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolDetail {
    /// The description and the complete JSON Schema.
    #[default]
    Full,
    /// One line: the parameters with their types, and the first sentence of the description. For small
    /// models, which suffer from long prompts.
    Compact,
}

impl Default for PromptOptions {
    /// `~~~tool_call` fences and full schemas.
    fn default() -> Self {
        Self::new("fence").expect("the table has this dialect")
    }
}

impl PromptOptions {
    /// Teaches the built-in dialect of that name. A dialect whose calls a prompt cannot explain is
    /// refused, see [`CallWriter::new`]. For the dialect of a model see [`DialectRegistry::for_model`].
    pub fn new(name: &str) -> Result<Self> {
        let dialects = DialectRegistry::builtin();
        Self::of(dialects.find(name).ok_or_else(|| dialects.unknown(name))?)
    }

    /// Teaches this dialect.
    pub fn of(dialect: &Dialect) -> Result<Self> {
        Ok(Self { writer: CallWriter::new(dialect)?, detail: ToolDetail::Full })
    }

    /// Says one line about each tool.
    #[must_use]
    pub fn compact(self) -> Self {
        self.detail(ToolDetail::Compact)
    }

    /// Sets how much the prompt says about each tool.
    #[must_use]
    pub fn detail(self, detail: ToolDetail) -> Self {
        Self { detail, ..self }
    }
}

/// Appends to a system prompt how calls are written and which tools there are; without tools the prompt stays as it is.
///
/// `tools` is a list in the shape of OpenAI (`function.parameters`), of Anthropic (`input_schema`) or bare
/// (`name`, `description`, `parameters` or `schema`).
pub fn augment_system_prompt(
    existing: Option<&str>,
    tools: &impl AsValue,
    options: &PromptOptions,
) -> String {
    let tools = tools.as_value();
    let tools: Vec<_> = tools.as_array().into_iter().flatten().map(ToolSignature::read).collect();
    let mut prompt = existing.unwrap_or_default().to_owned();
    if tools.is_empty() {
        return prompt;
    }
    if prompt.trim().is_empty() {
        prompt.clear();
    } else {
        prompt.push_str("\n\n");
    }
    explain(options, &tools, CallsPerTurn::Several, &mut prompt);
    prompt
}

/// How many calls a turn may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallsPerTurn {
    One,
    Several,
}

/// Explains how a call is written, how several are, how results come back, and which tools there are.
fn explain(options: &PromptOptions, tools: &[ToolSignature<'_>], calls: CallsPerTurn, prompt: &mut String) {
    instruct(&options.writer, calls, prompt);
    prompt.push_str("\n\n## Tools\n");
    let declaration = options.writer.declaration();
    match options.detail {
        ToolDetail::Full if !declaration.is_empty() => {
            prompt.push('\n');
            declare(declaration, tools, prompt);
        }
        ToolDetail::Full => tools.iter().for_each(|tool| {
            let _ = write!(prompt, "\n{}\n", tool.full());
        }),
        ToolDetail::Compact => tools.iter().for_each(|tool| {
            let _ = write!(prompt, "\n{}", tool.compact());
        }),
    }
    prompt.truncate(prompt.trim_end_matches('\n').len());
}

/// Declares tools as the dialect's models are used to.
fn declare(template: &str, tools: &[ToolSignature<'_>], prompt: &mut String) {
    let all = || tools.iter().map(|tool| tool.json().to_string()).collect::<Vec<_>>();
    for (place, text) in [
        ("{tools}", &(|| all().join("\n")) as &dyn Fn() -> String),
        ("{list}", &|| format!("[{}]", all().join(", "))),
        ("{namespace}", &|| namespace::write(tools)),
    ] {
        if let Some((before, after)) = template.split_once(place) {
            [before, &text(), after].iter().for_each(|part| prompt.push_str(part));
            return;
        }
    }
    prompt.push_str(template);
}

/// Explains how a call is written, how several are, and how results come back.
fn instruct(writer: &CallWriter, calls: CallsPerTurn, prompt: &mut String) {
    let (one, two) = writer.samples();
    prompt.push_str("## Calling tools\n\nTo call a tool, write exactly this into your answer:\n\n");
    indent(&one, prompt);
    prompt.push_str(match &writer.form().body {
        CallBody::Json(_) | CallBody::Header(_) | CallBody::Fields(_) => {
            "\n\nThe arguments are one valid JSON object that fits the tool's schema. "
        }
        CallBody::Tagged(_) | CallBody::Elements(_) | CallBody::Children(_) => {
            "\n\nGive every parameter by its name: text as it is, everything else as JSON. "
        }
        CallBody::Braces(_) => {
            "\n\nGive every parameter by its name; text stands between its own quote marks. "
        }
        CallBody::Python {} | CallBody::Matched(_) => {
            "\n\nGive every parameter by its name, with a Python literal as its value. "
        }
    });
    match (calls, two) {
        (CallsPerTurn::One, _) => prompt.push_str("Make no more than one call in an answer. "),
        (CallsPerTurn::Several, Some(two)) => {
            prompt.push_str("Several calls are written together:\n\n");
            indent(&two, prompt);
            prompt.push_str("\n\n");
        }
        (CallsPerTurn::Several, None) => {
            prompt.push_str("For several calls, write one block after the other. ")
        }
    }
    prompt.push_str("Stop after your calls; the result of each will be given to you like this:\n\n");
    indent(&writer.sample_result(), prompt);
    prompt.push_str("\n\nWhen you need no tool, answer in plain text: that ends the task.");
}

/// An example is indented, so that it is not taken for a call itself.
fn indent(example: &str, prompt: &mut String) {
    let lines: Vec<String> = example.trim_end().lines().map(|line| format!("    {line}")).collect();
    prompt.push_str(&lines.join("\n"));
}
