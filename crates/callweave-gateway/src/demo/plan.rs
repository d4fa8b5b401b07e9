//! The plan of the model's next response.

use callweave::Value;
use callweave::event::CallKind;
use callweave::json::schema::match_name;
use callweave::request::{
    MessageContent, OutputFormat, PartKind, Request, RequestMessage, RequestTool, Role, ToolChoice, ToolKind,
};

use super::fill::{FillExtent, SchemaFilling};
use super::table::{ArgumentHabit, WritingHabits};

/// The plan of the model's next response, before it misbehaves.
pub(super) struct DemoPlan {
    pub(super) reasoning: String,
    pub(super) text: String,
    pub(super) calls: Vec<PlannedCall>,
    /// The declared tools, as `Tools::from_json` reads them.
    pub(super) tools: Value,
    /// Whether what the model lacks was asked for again.
    pub(super) is_reasked: bool,
    /// Whether token counts are emitted at the end of a stream.
    pub(super) emits_usage: bool,
    /// About how many tokens it was given.
    pub(super) prompt_tokens: usize,
    /// The number of messages before.
    pub(super) turn: usize,
}

/// A call as the model means it.
#[derive(Clone)]
pub(super) struct PlannedCall {
    /// No other call of the conversation has it.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: CallKind,
    /// An object; of a custom tool a text.
    pub(super) arguments: Value,
    /// The names of what must be there.
    pub(super) required: Vec<String>,
}

impl DemoPlan {
    pub(super) fn of(request: &Request, habits: &WritingHabits) -> Self {
        let tools = usable(request);
        let told = request.messages.iter().flat_map(|message| calls_of(&message.content)).count();
        let user = last_text(&request.messages);
        let is_open = request.tool_choice != Some(ToolChoice::None);
        let results = results(&request.messages);
        let (directed, done) = directions(&request.messages, &tools);
        let is_reasked = habits.arguments == ArgumentHabit::LackingOnce && lacked(&request.messages, &tools);
        let extent = if habits.arguments == ArgumentHabit::Texts {
            FillExtent::Everything
        } else {
            FillExtent::Required
        };
        let mut calls: Vec<(&RequestTool, Value)> = match is_open {
            false => Vec::new(),
            true if !directed.is_empty() => directed.into_iter().skip(done).take(habits.calls).collect(),
            true if habits.is_silent_on_tools || (!results.is_empty() && !is_reasked) => Vec::new(),
            true => choose(request, &tools, &user)
                .map(|tool| (tool, arguments(tool, &user, extent)))
                .into_iter()
                .collect(),
        };
        if let ([(tool, first)], 0, 2..) = (&calls[..], done, habits.calls) {
            // The second of two is another call of the same tool, with other texts.
            let second = another(first);
            let tool = *tool;
            calls.push((tool, second));
        }
        let calls: Vec<PlannedCall> = calls
            .into_iter()
            .enumerate()
            .map(|(at, (tool, arguments))| PlannedCall {
                id: format!("call_demo_{}", told + at),
                name: tool.name.clone(),
                kind: kind(tool),
                required: required(tool),
                arguments,
            })
            .collect();
        let text = match (&calls[..], &results[..]) {
            ([_, ..], _) => String::new(),
            ([], [_, ..]) => results.join("\n"),
            ([], []) => spoken(request, &user),
        };
        Self {
            reasoning: match &calls[..] {
                [] => "I need no tool for that.".to_owned(),
                [call, ..] => format!("I should call {}.", call.name),
            },
            text,
            calls,
            tools: declared(&tools),
            is_reasked,
            emits_usage: request.stream_usage == Some(true),
            prompt_tokens: 1 + texts(&request.messages).map(str::len).sum::<usize>() / 4,
            turn: request.messages.len(),
        }
    }
}

/// The tools that the model may call: also the tools in groups, and only the allowed ones.
fn usable(request: &Request) -> Vec<&RequestTool> {
    let mut tools = Vec::new();
    let mut open: Vec<&RequestTool> = request.tools.iter().rev().collect();
    while let Some(tool) = open.pop() {
        match &tool.kind {
            ToolKind::Group(inner) => open.extend(inner.iter().rev()),
            ToolKind::Function { .. } | ToolKind::Custom { .. } => tools.push(tool),
            _ => {}
        }
    }
    match &request.tool_choice {
        Some(ToolChoice::Tool { name, .. }) => tools.retain(|tool| &tool.name == name),
        Some(ToolChoice::Allowed { names, .. }) => tools.retain(|tool| names.contains(&tool.name)),
        _ => {}
    }
    tools
}

/// The tool that is called without a direction: one that looks at the weather, and never one that might do something.
/// Of several it is the one whose name has the most words in the text.
fn choose<'t>(request: &Request, tools: &[&'t RequestTool], text: &str) -> Option<&'t RequestTool> {
    // A response was given already, and the user asks nothing new of the tools.
    if request.messages.last().is_some_and(|message| message.role == Role::Assistant) {
        return None;
    }
    let text = text.to_lowercase();
    let score = |tool: &RequestTool| {
        let words = tool.name.split(|char: char| !char.is_alphanumeric()).filter(|word| word.len() > 2);
        words.filter(|word| text.contains(&word.to_lowercase())).count()
    };
    let harmless = || tools.iter().copied().filter(|tool| tells_weather(&tool.name));
    let best = harmless().map(score).max()?;
    harmless().find(|tool| score(tool) == best)
}

/// The words that the name of a tool may have that is called without a direction.
const HARMLESS: [&str; 20] = [
    "get", "fetch", "check", "look", "up", "lookup", "current", "the", "local", "today", "now", "weather",
    "forecast", "report", "info", "in", "at", "for", "city", "location",
];

/// Whether a tool looks at the weather: its name says so, and says nothing else.
fn tells_weather(name: &str) -> bool {
    let mut words: Vec<String> = vec![String::new()];
    for char in name.chars() {
        let begins = char.is_uppercase() || !char.is_alphanumeric();
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| char.is_alphanumeric()) {
            word.extend(char.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words.iter().any(|word| word == "weather") && words.iter().all(|word| HARMLESS.contains(&word.as_str()))
}

fn arguments(tool: &RequestTool, text: &str, extent: FillExtent) -> Value {
    match &tool.kind {
        ToolKind::Function { schema: Some(schema) } => SchemaFilling::new(schema, text, extent).object(),
        ToolKind::Custom { .. } => text.into(),
        _ => Value::object([]),
    }
}

/// The same arguments with other texts, or other numbers.
fn another(arguments: &Value) -> Value {
    match arguments {
        Value::String(text) => Value::from(format!("{text} 2")),
        Value::Object(members) => {
            let mut members = members.clone();
            if let Some(text) = members.values_mut().find(|value| value.is_string()) {
                *text = another(text);
            }
            Value::Object(members)
        }
        other => other.clone(),
    }
}

/// Returns the calls that the user's last text with such lines requests, and how many of these calls were made.
fn directions<'t>(
    messages: &[RequestMessage],
    tools: &[&'t RequestTool],
) -> (Vec<(&'t RequestTool, Value)>, usize) {
    let lines = |message: &RequestMessage| -> Vec<(&'t RequestTool, Value)> {
        let texts = message.content.parts.iter().filter_map(|part| part.as_text());
        texts.flat_map(str::lines).filter_map(|line| direction(line, tools)).collect()
    };
    let from_user = messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::User);
    for (at, message) in from_user {
        let directed = lines(message);
        if !directed.is_empty() {
            let done = messages[at..].iter().flat_map(|message| calls_of(&message.content)).count();
            return (directed, done);
        }
    }
    (Vec::new(), 0)
}

fn direction<'t>(line: &str, tools: &[&'t RequestTool]) -> Option<(&'t RequestTool, Value)> {
    let (name, arguments) = line.trim().strip_prefix("call ")?.trim_start().split_once(' ')?;
    let tool = tools.iter().find(|tool| tool.name == name)?;
    let arguments: Value = arguments.trim().parse().ok()?;
    let fits = match &tool.kind {
        ToolKind::Custom { .. } => arguments.is_string(),
        _ => arguments.is_object(),
    };
    fits.then_some((*tool, arguments))
}

/// Whether the last call that was made lacks something that its tool requires.
fn lacked(messages: &[RequestMessage], tools: &[&RequestTool]) -> bool {
    let Some(call) = messages.iter().rev().find_map(|message| calls_of(&message.content).last()) else {
        return false;
    };
    let tool = match_name(&call.name, tools.iter().map(|tool| tool.name.as_str()));
    let tool = tools.iter().find(|declared| Some(declared.name.as_str()) == tool);
    let arguments = call.arguments.clone().into_object().unwrap_or_default();
    tool.is_some_and(|tool| required(tool).iter().any(|key| !arguments.contains_key(key)))
}

fn required(tool: &RequestTool) -> Vec<String> {
    let ToolKind::Function { schema: Some(schema) } = &tool.kind else { return Vec::new() };
    let keys = schema.get("required").and_then(Value::as_array);
    keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn kind(tool: &RequestTool) -> CallKind {
    if matches!(tool.kind, ToolKind::Custom { .. }) { CallKind::Custom } else { CallKind::Function }
}

fn declared(tools: &[&RequestTool]) -> Value {
    let declare = |tool: &&RequestTool| {
        let schema = match &tool.kind {
            ToolKind::Function { schema: Some(schema) } => schema.clone(),
            _ => Value::object([]),
        };
        Value::object([("name", tool.name.as_str().into()), ("parameters", schema)])
    };
    tools.iter().map(declare).collect()
}

/// Returns the latest tool results, one text for each; nothing if a message followed them.
fn results(messages: &[RequestMessage]) -> Vec<String> {
    let mut results = Vec::new();
    for message in messages.iter().rev() {
        let before = results.len();
        for part in message.content.parts.iter().rev() {
            if let PartKind::Result(result) = &part.body {
                let name = result.name.clone().or_else(|| called(messages, result.id.as_deref()?));
                let text = match &result.value {
                    Some(value) if result.content.is_empty() => value.to_string(),
                    _ => result.content.joined("\n"),
                };
                results.push(format!("{} answered: {text}", name.as_deref().unwrap_or("The tool")));
            }
        }
        if results.len() == before {
            break;
        }
    }
    results.reverse();
    results
}

/// The name of the call with that id.
fn called(messages: &[RequestMessage], id: &str) -> Option<String> {
    let mut calls = messages.iter().rev().flat_map(|message| calls_of(&message.content));
    calls.find(|call| call.id.as_deref() == Some(id)).map(|call| call.name.clone())
}

/// Returns the text for a request with nothing to call and no results.
fn spoken(request: &Request, user: &str) -> String {
    match &request.format {
        Some(OutputFormat::Schema { schema, .. }) => {
            SchemaFilling::new(schema, user, FillExtent::Required).object().to_string()
        }
        Some(OutputFormat::Json) => Value::object([("text", user.into())]).to_string(),
        _ if user.is_empty() => "Hello. Give me tools, and I call them.".to_owned(),
        _ => format!("You said: {user}"),
    }
}

fn calls_of(content: &MessageContent) -> impl Iterator<Item = &callweave::request::RequestCall> {
    content.parts.iter().filter_map(|part| match &part.body {
        PartKind::Call(call) => Some(&**call),
        _ => None,
    })
}

/// The user's last words.
fn last_text(messages: &[RequestMessage]) -> String {
    let from_user = messages.iter().rev().filter(|message| message.role == Role::User);
    let texts =
        from_user.filter_map(|message| message.content.parts.iter().rev().find_map(|part| part.as_text()));
    texts.map(str::trim).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

fn texts(messages: &[RequestMessage]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| &message.content.parts).filter_map(|part| part.as_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_at_the_weather_is_harmless() {
        for name in ["get_weather", "getCurrentWeather", "weather", "Weather-Forecast", "get_weather_in_city"]
        {
            assert!(tells_weather(name), "{name}");
        }
        for name in
            ["bash", "delete_weather", "get_file", "weatherize", "set_weather_alert", "", "forecast", "exec"]
        {
            assert!(!tells_weather(name), "{name}");
        }
    }
}
