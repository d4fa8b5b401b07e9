//! A finished reply → its tool calls, wherever the model put them.
//!
//! In goes a reply as a JSON object with `text` (or `content`) and `tool_calls`, and what is known about
//! the provider; out comes a list of calls, possibly empty. Four parsers are tried in this order, and the
//! first that has something to say wins:
//!
//! 1. [`native::parse`]: structured calls. Where there are any, the text is not looked at.
//! 2. [`text_tagged::parse`]: `~~~tool_call` fences; where the text has one, or where the provider is known to
//!    have no native calls.
//! 3. [`markup::parse`]: `<tool_call>…</tool_call>`, which some servers forget to take out of the text.
//! 4. [`raw_json::parse`]: bare or fenced JSON; where the text has both words `"name"` and `"arguments"`. With
//!    [declared tools](ProviderCapabilities::tools) an object in the middle of prose must name one of them.
//!
//! ```
//! use callweave::compat::ex_athena::{ProviderCapabilities, extract};
//! use serde_json::json;
//!
//! let reply = json!({"text": "Let me look.\n~~~tool_call\n{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}\n~~~"});
//! let found = extract(&reply, &ProviderCapabilities::default())?;
//! assert_eq!(found[0].call.name, "look");
//! assert_eq!(found[0].call.arguments(), r#"{"at": "sky"}"#);
//!
//! assert!(extract(&json!({"text": "Done.", "tool_calls": null}), &ProviderCapabilities::default())?.is_empty());
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! It follows the document it comes from: the position in the text does not matter, and an example in a code block is a
//! call, too. The [extractor](crate::dialect::Extractor) weighs that.
//!
//! Invariants of all parsers:
//!
//! - A damaged call is an error of that call ([`ToolCall::invalid`], [`ToolCall::error_result`]); its text is kept, and
//!   the good calls beside it stay. Only [`raw_json::parse`] passes over text that is no complete call, because there nothing
//!   says that a call was meant.
//! - Arguments that are the same data in another notation (a trailing comma, single quotes) are repaired,
//!   and [`ParsedCall::repaired_from`] says so. Null and missing arguments are `{}`.
//! - Of calls with the same name and the same arguments the first is kept, unless each has an id of its own. A second
//!   call with the id of another one gets an id of its own.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::dialect::{CallBody, CallForm, Dialect, ExtractOptions, Extraction, JsonBody, Tools};
use crate::event::{BlockCompletion, CallKind};
use crate::finalize::Finalizer;
use crate::json::repair::{self, ChangeClass, RepairVerdict};
use crate::json::{AsValue, Str, Tape, TapeNode, Value};
use crate::message::ToolCall;
use crate::protocol::{CallObject, CallWords};
pub use crate::teach::{PromptOptions, augment_system_prompt};
use crate::{Error, ErrorKind, Result};

/// The known facts about a provider and the request it answered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProviderCapabilities {
    /// Whether the provider has native tool calls; none where that is unknown.
    pub native_tool_calls: Option<bool>,
    /// Whether the provider is an agent that runs its tools itself: there is never a call to be run.
    pub self_contained_tools: bool,
    /// The only parser to be tried.
    pub forced: Option<TextParser>,
    /// The tools that the model was given. Their names distinguish calls from prose, their schemas give types to values
    /// that were written without.
    #[serde(skip)]
    pub tools: Tools,
}

/// The parsers, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextParser {
    /// [`native::parse`]
    Native,
    /// [`text_tagged::parse`]
    TextTagged,
    /// [`markup::parse`]
    Markup,
    /// [`raw_json::parse`]
    RawJson,
}

/// A call that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ParsedCall {
    /// The call. Its name is empty and its arguments are all that is known where it was too damaged.
    #[serde(flatten)]
    pub call: ToolCall,
    /// The parser that found it.
    pub parser: TextParser,
    /// The arguments as the model wrote them, where they had to be repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired_from: Option<String>,
}

/// Extracts the calls of a reply. See the [module](self).
///
/// Only a reply of an impossible shape is an error: one that is no object, or whose text or calls are present and of a
/// wrong type.
pub fn extract(reply: &impl AsValue, capabilities: &ProviderCapabilities) -> Result<Vec<ParsedCall>> {
    let reply = reply.as_value();
    let reply = ReplyMessage::read(&reply)?;
    if capabilities.self_contained_tools {
        return Ok(Vec::new());
    }
    let tools = &capabilities.tools;
    let found = match capabilities.forced {
        Some(parser) => reply.parse(parser, tools),
        None => reply.cascade(capabilities.native_tool_calls, tools),
    };
    Ok(settle(found))
}

/// Structured calls.
pub mod native {
    use super::{ParsedCall, settle, structured};
    use crate::json::AsValue;

    /// Structured calls, as the APIs write them: `{"type": "function", "id", "function": {"name", "arguments"}}`,
    /// `{"type": "tool_use", "id", "name", "input"}`, flat `{"id", "name", "arguments"}`, the items, parts and
    /// chunks of other APIs; with or without type and id.
    ///
    /// ```
    /// use callweave::compat::ex_athena::native;
    /// use serde_json::json;
    ///
    /// let calls = [
    ///     json!({"type": "function", "id": "a", "function": {"name": "look", "arguments": "{\"at\":\"sky\"}"}}),
    ///     json!({"type": "tool_use", "id": "b", "name": "read", "input": {"path": "x"}}),
    ///     json!({"name": "ping", "arguments": "{oops"}),
    /// ];
    /// let found = native::parse(&calls);
    /// assert_eq!(found.iter().map(|found| found.call.invalid().is_none()).collect::<Vec<_>>(), [true, true, false]);
    /// assert_eq!(found[2].call.id, "tool_0_2");
    /// ```
    pub fn parse<'v, V: AsValue + 'v>(calls: impl IntoIterator<Item = &'v V>) -> Vec<ParsedCall> {
        settle(calls.into_iter().map(|call| structured(&call.as_value())).collect())
    }
}

/// Calls in `~~~tool_call` fences.
pub mod text_tagged {
    use super::{ParsedCall, fenced, settle};

    /// Calls in `~~~tool_call` fences.
    ///
    /// The opener is followed by the end of its line, and the closing tildes are the first on theirs. A fence
    /// without an end is no call.
    ///
    /// ```
    /// let found = callweave::compat::ex_athena::text_tagged::parse("~~~tool_call\n{\"name\": \"look\"}\n~~~\n~~~tool_call\n{oops\n~~~");
    /// assert_eq!(found[0].call.arguments(), "{}");
    /// assert!(found[1].call.error_result().is_some());
    /// ```
    pub fn parse(text: &str) -> Vec<ParsedCall> {
        settle(fenced(text))
    }
}

/// Leaked `<tool_call>` markup.
pub mod markup {
    use super::{ParsedCall, marked, settle};
    use crate::dialect::Tools;

    /// Calls between `<tool_call>` and `</tool_call>`, as JSON or with tagged parameters.
    pub fn parse(text: &str, tools: &Tools) -> Vec<ParsedCall> {
        settle(marked(text, tools))
    }
}

/// Bare JSON.
pub mod raw_json {
    use super::{ParsedCall, bare, settle};
    use crate::dialect::Tools;

    /// Calls as JSON objects with `name` and `arguments`, bare or in a Markdown fence, alone, in lists or in other objects.
    /// An object without arguments, or an incomplete one, is no call, nor is one in reasoning. Without declared tools,
    /// prose around an object does not matter.
    ///
    /// ```
    /// use callweave::dialect::Tools;
    /// use callweave::compat::ex_athena::raw_json;
    ///
    /// let text = "Sure: {\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}";
    /// assert_eq!(raw_json::parse(text, &Tools::default()).len(), 1);
    ///
    /// let mut tools = Tools::default();
    /// tools.declare("read", None);
    /// assert_eq!(raw_json::parse(text, &tools).len(), 0);
    /// ```
    pub fn parse(text: &str, tools: &Tools) -> Vec<ParsedCall> {
        settle(bare(text, tools))
    }
}

/// A reply whose shape is right.
struct ReplyMessage<'v> {
    text: Cow<'v, str>,
    calls: Vec<&'v Value>,
}

impl<'v> ReplyMessage<'v> {
    fn read(reply: &'v Value) -> Result<Self> {
        let invalid = |detail| Error::new(ErrorKind::Invalid, detail);
        let Some(reply) = reply.as_object() else {
            return Err(invalid("a reply is an object with text and tool_calls"));
        };
        let given = |key| reply.get(key).filter(|value: &&Value| !value.is_null());
        let mut calls = Vec::new();
        let text = match given("text").or_else(|| given("content")) {
            None => Cow::Borrowed(""),
            Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
            Some(Value::Array(blocks)) => {
                calls.extend(blocks.iter().filter(|block| block["type"] == "tool_use"));
                Cow::Owned(blocks.iter().filter_map(|block| block["text"].as_str()).collect())
            }
            Some(_) => return Err(invalid("the text of a reply is neither a string nor a list of blocks")),
        };
        match given("tool_calls") {
            None => {}
            Some(Value::Array(list)) => calls.extend(list),
            Some(_) => return Err(invalid("the tool_calls of a reply are not a list")),
        }
        Ok(Self { text, calls })
    }

    fn parse(&self, parser: TextParser, tools: &Tools) -> Vec<ParsedCall> {
        match parser {
            TextParser::Native => self.calls.iter().copied().map(structured).collect(),
            TextParser::TextTagged => fenced(&self.text),
            TextParser::Markup => marked(&self.text, tools),
            TextParser::RawJson => bare(&self.text, tools),
        }
    }

    fn cascade(&self, has_native: Option<bool>, tools: &Tools) -> Vec<ParsedCall> {
        if !self.calls.is_empty() {
            return self.parse(TextParser::Native, tools);
        }
        if self.text.contains(FENCE) {
            let found = fenced(&self.text);
            // Only a model without native calls may have meant something else by half a fence.
            if !found.is_empty() || has_native != Some(false) {
                return found;
            }
        }
        if self.text.contains("<tool_call>") {
            let found = marked(&self.text, tools);
            if !found.is_empty() {
                return found;
            }
        }
        let has_words = self.text.contains("\"name\"") && self.text.contains("\"arguments\"");
        if has_words { bare(&self.text, tools) } else { Vec::new() }
    }
}

/// A structured call of any API. Where there are two ids, the one that a tool result must name goes first.
const STRUCTURED: CallWords = CallWords {
    id: &["call_id", "tool_call_id", "toolUseId", "id"],
    index: &[],
    wrappers: &["function", "custom", "functionCall", "function_call", "toolUse"],
    arguments: ARGUMENTS,
    wrapped: ARGUMENTS,
};
const ARGUMENTS: &[&str] = &["arguments", "input", "args"];

/// One structured call.
fn structured(call: &Value) -> ParsedCall {
    let mut tape = Tape::new();
    let Ok(node) = tape.lay_out(call) else {
        return ParsedCall::new(TextParser::Native, ToolCall::default());
    };
    // Some have their id in the wrapper or in extra fields.
    let (mut inner_id, mut kind) = (None, None);
    let read = CallObject::read(node, &STRUCTURED, |path, key, value| match (path, key) {
        ("", "type") => {
            let is_builtin = value
                .str()
                .is_some_and(|wire_type| wire_type.is("server_tool_use") || wire_type.is("mcp_tool_use"));
            kind = is_builtin.then_some(CallKind::Builtin);
        }
        ("", "metadata") => inner_id = inner_id.or(value.get("id").and_then(TapeNode::filled)),
        ("", _) => {}
        (_, key) if STRUCTURED.id.contains(&key) => inner_id = value.filled().or(inner_id),
        _ => {}
    });
    let arguments = match read.arguments {
        Some(value) => value.str().map_or_else(|| value.raw().into(), Str::to_cow),
        None if call.is_object() => Cow::Borrowed(""),
        None => node.raw().into(),
    };
    let [id, name] = [read.id.or(inner_id), read.name].map(|text| text.map(Str::to_cow).unwrap_or_default());
    let call = ToolCall { kind: kind.unwrap_or(read.kind), ..ToolCall::new(id, name, arguments) };
    ParsedCall::new(TextParser::Native, call)
}

const FENCE: &str = "~~~tool_call";
const FENCE_END: &str = "\n~~~";

fn fenced(text: &str) -> Vec<ParsedCall> {
    let options = ExtractOptions::new("fence").expect("the table has this dialect");
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(FENCE) {
        let block = &rest[start..];
        let Some((body, end)) = fence_body(block) else {
            rest = &block[FENCE.len()..];
            continue;
        };
        let calls = Extraction::of(&block[..end], &options).calls;
        if calls.is_empty() {
            found.push(ParsedCall::new(TextParser::TextTagged, ToolCall::new("", "", body.trim())));
        }
        found.extend(calls.into_iter().map(|call| ParsedCall::new(TextParser::TextTagged, call)));
        // The closer of one fence may be the opener of the next.
        let closer = end - FENCE_END.len() + 1;
        rest = &block[if block[closer..].starts_with(FENCE) { closer } else { end }..];
    }
    found
}

/// The body of the fence that `block` begins with, and the byte after its closing tildes.
fn fence_body(block: &str) -> Option<(&str, usize)> {
    let line_end = block.find('\n')?;
    if !block[FENCE.len()..line_end].trim().is_empty() {
        return None;
    }
    let len = block[line_end..].find(FENCE_END)?;
    let body = block.get(line_end + 1..line_end + len).unwrap_or_default();
    Some((body, line_end + len + FENCE_END.len()))
}

fn marked(text: &str, tools: &Tools) -> Vec<ParsedCall> {
    // Its markers are those of Hermes, and it reads both kinds of body.
    let options = ExtractOptions::new("qwen3_coder")
        .expect("the table has this dialect")
        .tools(tools.clone())
        .trusting();
    let calls = Extraction::of(text, &options).calls;
    calls.into_iter().map(|call| ParsedCall::new(TextParser::Markup, call)).collect()
}

fn bare(text: &str, tools: &Tools) -> Vec<ParsedCall> {
    let only = |key: &str| vec![key.to_owned()];
    let body = JsonBody {
        name: only("name"),
        arguments: only("arguments"),
        id: only("id"),
        arguments_optional: false,
    };
    let dialect = Dialect::new("raw_json")
        .reasoning("<think>", "</think>")
        .quotes_calls_in_reasoning()
        .form(CallForm::new(CallBody::Json(body)));
    let options = ExtractOptions::with_dialects(vec![dialect]).tools(tools.clone()).trusting();
    // Something follows the text, so that its end does not complete an object that has none.
    let calls = Extraction::of_deltas([text, "\n."], &options).calls.into_iter();
    calls
        .filter(|call| call.completion != BlockCompletion::Truncated)
        .map(|call| ParsedCall::new(TextParser::RawJson, call))
        .filter(|found| found.call.invalid().is_none())
        .collect()
}

impl ParsedCall {
    fn new(parser: TextParser, mut call: ToolCall) -> Self {
        let is_truncated = call.completion == BlockCompletion::Truncated;
        if !is_truncated {
            call.completion = BlockCompletion::Complete;
        }
        // A truncated call is not repaired, nor is the free text of a custom one.
        if call.kind == CallKind::Custom || is_truncated {
            return Self { call, parser, repaired_from: None };
        }
        if call.raw_arguments.trim() == "null" {
            call.raw_arguments.clear();
        }
        let mended = mend(call.arguments());
        let repaired_from = mended.map(|mended| std::mem::replace(&mut call.raw_arguments, mended));
        Self { call, parser, repaired_from }
    }
}

/// The object that `arguments` are in another notation, if they are not JSON.
fn mend(arguments: &str) -> Option<String> {
    if !arguments.trim_start().starts_with('{') {
        return None;
    }
    let repaired =
        repair::RepairOptions::new().without_prose().allow(ChangeClass::Lossless).repair(arguments);
    let is_object =
        repaired.verdict == RepairVerdict::Repaired && repaired.text.trim_start().starts_with('{');
    is_object.then(|| repaired.text.into_owned())
}

/// Drops repeated calls, and gives every call an id of its own.
fn settle(mut found: Vec<ParsedCall>) -> Vec<ParsedCall> {
    let mut seen: HashMap<_, HashSet<String>> = HashMap::new();
    found.retain(|ParsedCall { call, .. }| {
        let Ok(arguments) = call.object() else { return true };
        let id = Some(call.id.clone()).filter(|id| !id.is_empty());
        match seen.entry((call.name.clone(), Value::Object(arguments))) {
            Entry::Vacant(first) => {
                first.insert(id.into_iter().collect());
                true
            }
            // Ids that differ say that the call was made twice.
            Entry::Occupied(mut told) => {
                !told.get().is_empty() && id.is_some_and(|id| told.get_mut().insert(id))
            }
        }
    });
    let (close, mut taken) = (Finalizer::new(), HashSet::new());
    for ParsedCall { call, .. } in &mut found {
        call.has_made_id = call.id.is_empty() || !taken.insert(call.id.clone());
    }
    for (ordinal, ParsedCall { call, .. }) in
        found.iter_mut().enumerate().filter(|(_, one)| one.call.has_made_id)
    {
        let ids = (ordinal..).map(|number| close.made_id(0, number));
        call.id = ids.into_iter().find(|id| !taken.contains(id)).expect("there are more numbers than calls");
        taken.insert(call.id.clone());
    }
    found
}
