//! A complete request, for a model without native tools.

use std::collections::{BTreeSet, HashMap};

use super::conversation::TaughtConversation;
use super::signature;
use super::{CallWriter, CallsPerTurn, PromptOptions, explain};
use crate::dialect::{ExtractOptions, Tools};
use crate::event::{BlockCompletion, CallKind};
use crate::message::ToolCall;
use crate::request::{
    CacheMark, ContentForm, ContentPart, Loss, LossList, PartKind, Request, RequestTool, ReverseMapping,
    ReverseMappingStage, Role, ToolChoice, ToolKind, plain_tools,
};

/// Members of requests that are about tools, in any protocol.
const ABOUT_TOOLS: [&str; 10] = [
    "tools",
    "tool_choice",
    "toolConfig",
    "tool_config",
    "toolChoice",
    "functions",
    "function_call",
    "parallel_tool_calls",
    "strict_tools",
    "max_tool_calls",
];

/// The maximum number of stop sequences that OpenAI takes.
const MAX_STOPS: usize = 4;

/// A request that teaches its tools in words. See [`teach`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaughtRequest {
    /// The request, without tools of its own.
    pub request: Request,
    /// The parts of the request that the dialect could not say.
    pub losses: Vec<Loss>,
    /// Names that the dialect cannot say: as the model is given them, and as the client knows them.
    pub names: Vec<(String, String)>,
    /// Tools of groups: as the model is given them, and the group.
    pub namespaces: Vec<(String, String)>,
    /// Tools with free text, which are taught as functions with one string.
    pub wrapped: Vec<String>,
    reading: ExtractOptions,
}

impl TaughtRequest {
    /// How the response is to be read: in the same dialect, with the same tools.
    pub fn reading(&self) -> &ExtractOptions {
        &self.reading
    }

    /// Returns the stage that gives the calls of the response the names that the client knows, and free text to tools
    /// that take it. It stands behind the extractor.
    pub fn undo(&self) -> ReverseMappingStage {
        ReverseMappingStage::of_tools(&self.names, &self.namespaces, &self.wrapped)
    }
}

/// Rewrites a request for a model that has no tools of its own, but knows a dialect.
///
/// The tools, and whether they must be called, are described at the end of the system text. Past calls are written into
/// the text of the model's turns, their results into turns of the user's, in the order of the calls; images in results
/// follow them. Where results begin, the model stops.
///
/// The extractor of the dialect reads the written past calls as the same calls: it is tried here. A call that the
/// dialect cannot say is written in plain words, and reported as a [`Loss`].
///
/// ```
/// use callweave::Value;
/// use callweave::dialect::{Extraction, DialectRegistry};
/// use callweave::teach::{PromptOptions, teach};
/// use callweave::protocol::Protocol;
/// use callweave::request::RequestOptions;
///
/// let body: Value = r#"{"model": "qwen2.5:7b", "tool_choice": "required", "tools": [{"type": "function", "function":
///     {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}],
///     "messages": [{"role": "user", "content": "The sky?"},
///     {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function":
///         {"name": "look", "arguments": "{\"at\": \"sky\"}"}}]},
///     {"role": "tool", "tool_call_id": "a", "content": "blue"}]}"#.parse()?;
/// let chat = Protocol::named("openai-chat").expect("a protocol of that name");
/// let request = chat.read_request(body)?;
///
/// let dialect = DialectRegistry::builtin().for_model("qwen2.5:7b").expect("a model that is known");
/// let taught = teach(request, &PromptOptions::of(dialect)?);
/// assert!(taught.losses.is_empty());
/// let written = chat.write_request(&taught.request, &RequestOptions::default())?;
/// assert_eq!(written.body.get("tools"), None);
/// let said = written.body["messages"][2]["content"].as_str().expect("a text");
/// assert_eq!(said, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}\n</tool_call>");
/// assert_eq!(written.body["messages"][3]["content"], "<tool_response>\nblue\n</tool_response>");
///
/// // The model answers likewise.
/// assert_eq!(Extraction::of(said, taught.reading()).calls[0].name, "look");
/// # Ok::<(), callweave::Error>(())
/// ```
pub fn teach(request: Request, options: &PromptOptions) -> TaughtRequest {
    let mut request = request;
    let mut changes = ReverseMapping::default();
    plain_tools(&mut request, &mut changes);
    let mut losses = LossList::default();
    rename(&mut request, &options.writer, &mut changes);
    let ReverseMapping { names, namespaces, wrapped } = changes;
    for (protocol, key) in request.kept.forget(&ABOUT_TOOLS) {
        losses.put(format!("{key} of {protocol}"));
    }
    let mut cache = None;
    let tools = declared(&mut request, &mut cache, &mut losses);
    let parts = request.messages.iter().flat_map(|message| &message.content.parts);
    let has_calls =
        parts.into_iter().any(|part| matches!(part.body, PartKind::Call(_) | PartKind::Result(_)));
    let known = known(&tools);
    let writer = options.writer.clone().tools(known.clone());
    let mut conversation = TaughtConversation::new(&writer, losses);
    if has_calls || !tools.is_empty() {
        for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
            conversation.add(number, message);
        }
        request.messages = conversation.finish();
    }
    let losses = conversation.losses.into_all();
    let (choice, parallel) = (request.tool_choice.take(), request.parallel_calls.take());
    if !tools.is_empty() {
        let calls = if parallel == Some(false) { CallsPerTurn::One } else { CallsPerTurn::Several };
        let options = PromptOptions { writer: writer.clone(), detail: options.detail };
        let mut prompt = String::new();
        explain(&options, &signatures(&tools), calls, &mut prompt);
        if let Some(wish) = choice.as_ref().and_then(wish) {
            prompt.push_str("\n\n");
            prompt.push_str(&wish);
        }
        instruct(&mut request, prompt, cache);
    }
    if let Some(stop) = writer.stop().filter(|_| has_calls || !tools.is_empty())
        && request.stop.len() < MAX_STOPS
        && !request.stop.iter().any(|other| other == stop)
    {
        request.stop.push(stop.to_owned());
    }
    let reading = ExtractOptions::with_dialects(writer.reading().dialects().to_vec()).tools(known);
    TaughtRequest { request, losses, names, namespaces, wrapped, reading }
}

/// The tools that can be taught; the others are lost.
fn declared(
    request: &mut Request,
    cache: &mut Option<Box<CacheMark>>,
    losses: &mut LossList,
) -> Vec<RequestTool> {
    let mut tools = std::mem::take(&mut request.tools);
    for (number, tool) in tools.iter_mut().enumerate() {
        losses.at(format_args!("tools[{number}]"));
        *cache = tool.cache.take().or(cache.take());
        if let ToolKind::Builtin(wire_type) = &tool.kind
            && tool.retained.is_empty()
        {
            losses.put(format!("tool {wire_type}"));
        }
        losses.tool("", tool);
    }
    tools.retain(|tool| matches!(tool.kind, ToolKind::Function { .. }));
    tools
}

fn signatures(tools: &[RequestTool]) -> Vec<signature::ToolSignature<'_>> {
    tools.iter().map(signature).collect()
}

fn signature(tool: &RequestTool) -> signature::ToolSignature<'_> {
    let RequestTool { name, description, kind, .. } = tool;
    let schema = if let ToolKind::Function { schema } = kind { schema.as_ref() } else { None };
    signature::ToolSignature { name, description: description.as_deref().unwrap_or_default(), schema }
}

fn known(tools: &[RequestTool]) -> Tools {
    let mut known = Tools::default();
    for tool in signatures(tools) {
        known.declare(tool.name, tool.schema.map(|schema| schema as _));
    }
    known
}

/// Returns the client's instruction for the next response.
fn wish(choice: &ToolChoice) -> Option<String> {
    Some(match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => "Do not call any tool in your next answer.".to_owned(),
        ToolChoice::Required => "You must call a tool in your next answer.".to_owned(),
        ToolChoice::Tool { name, .. } => {
            format!("You must call the tool `{name}` in your next answer, and no other.")
        }
        ToolChoice::Allowed { names, is_required } => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let (names, must) = (names.join(", "), if *is_required { "must" } else { "may" });
            format!("In your next answer you {must} call one of these tools, and no other: {names}.")
        }
    })
}

/// Puts a text behind the operator's instructions.
fn instruct(request: &mut Request, text: String, cache: Option<Box<CacheMark>>) {
    let leading = request.messages.first_mut();
    let leading = leading.filter(|message| matches!(message.role, Role::System | Role::Developer));
    let content = match leading {
        Some(message) if request.instructions.is_empty() => &mut message.content,
        _ => &mut request.instructions,
    };
    match content.parts.last_mut() {
        Some(ContentPart { body: PartKind::Text(own), cache: None, signature: None, .. })
            if cache.is_none() =>
        {
            own.push_str(if own.trim().is_empty() { "" } else { "\n\n" });
            own.push_str(&text);
        }
        _ => {
            content.parts.push(ContentPart { cache, ..ContentPart::text(text) });
            content.form = if content.parts.len() > 1 { ContentForm::List } else { ContentForm::Any };
        }
    }
}

/// Gives tools that the dialect cannot name another name.
fn rename(request: &mut Request, writer: &CallWriter, changes: &mut ReverseMapping) {
    let mut all: BTreeSet<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
    let parts = request.messages.iter().flat_map(|message| &message.content.parts);
    all.extend(parts.filter_map(|part| match &part.body {
        PartKind::Call(call) => Some(call.name.clone()),
        _ => None,
    }));
    let mut others: HashMap<String, String> = HashMap::new();
    for name in &all {
        if can_name(writer, name) {
            continue;
        }
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        let mut other: String = name.chars().map(letter).collect();
        let is_taken = |other: &String| all.contains(other) || others.values().any(|taken| taken == other);
        while is_taken(&other) {
            other.push('_');
        }
        if can_name(writer, &other) {
            others.insert(name.clone(), other);
        }
    }
    if others.is_empty() {
        return;
    }
    let rename = |name: &mut String| {
        if let Some(other) = others.get(name) {
            name.clone_from(other);
        }
    };
    let ReverseMapping { names, namespaces, wrapped } = changes;
    namespaces.iter_mut().for_each(|(sent, _)| rename(sent));
    // A tool that had another name before keeps the client's.
    names.iter_mut().for_each(|(sent, _)| rename(sent));
    wrapped.iter_mut().for_each(rename);
    let known: Vec<String> = names.iter().map(|(sent, _)| sent.clone()).collect();
    let new = others.iter().filter(|(_, other)| !known.contains(other));
    names.extend(new.map(|(name, other)| (other.clone(), name.clone())));
    request.tools.iter_mut().for_each(|tool| rename(&mut tool.name));
    request.rename_mentions(rename);
}

fn can_name(writer: &CallWriter, name: &str) -> bool {
    writer.render_call(&tool_call(String::new(), name.to_owned(), "{}".to_owned())).is_ok()
}

pub(super) fn tool_call(id: String, name: String, raw_arguments: String) -> ToolCall {
    let (kind, completion) = (CallKind::Function, BlockCompletion::Complete);
    ToolCall { id, name, raw_arguments, kind, completion, ..ToolCall::default() }
}
