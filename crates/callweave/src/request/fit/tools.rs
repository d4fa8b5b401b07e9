//! Tools as a provider takes them: none in groups, with names that it knows, without free text, with schemas it
//! accepts.

use std::collections::{HashMap, HashSet};

use super::{ReverseMapping, calls_mut};
use crate::json::Value;
use crate::request::limits::ForcedCalls;
use crate::request::{
    CallArguments, CallKind, LossList, PartKind, ProviderLimits, Request, RequestTool, ToolChoice, ToolKind,
    WEB_SEARCH,
};

/// The one argument of a tool with free text that is sent as a function.
const FREE_TEXT: &str = "input";

/// The tool that is declared where a conversation has calls and no tools.
const NO_TOOL: &str = "no_tool_do_not_call";

/// Declares tools of mid-conversation with the others.
pub(super) fn hoist_tools(request: &mut Request) {
    for message in &mut request.messages {
        message.content.parts.retain_mut(|part| {
            let PartKind::Tools(tools) = &mut part.body else { return true };
            request.tools.append(tools);
            false
        });
    }
}

/// Takes tools out of groups, with the group's name before their own.
pub(super) fn flatten_groups(request: &mut Request, limits: &ProviderLimits, changes: &mut ReverseMapping) {
    // Most requests have no groups, and their tools stay where they are.
    if request.tools.iter().any(|tool| matches!(tool.kind, ToolKind::Group(_))) {
        request.tools = ungrouped(std::mem::take(&mut request.tools), limits, changes);
    }
    if limits.takes_groups {
        return;
    }
    let mut known: HashSet<String> = changes.names.iter().map(|(name, _)| name.clone()).collect();
    for call in calls_mut(request) {
        if let Some(group) = call.namespace.take() {
            let name = flat(&group, &call.name);
            if known.insert(name.clone()) {
                changes.names.push((name.clone(), call.name.clone()));
                changes.namespaces.push((name.clone(), group));
            }
            call.name = name;
        }
    }
}

fn ungrouped(
    declared: Vec<RequestTool>,
    limits: &ProviderLimits,
    changes: &mut ReverseMapping,
) -> Vec<RequestTool> {
    let mut tools = Vec::with_capacity(declared.len());
    for mut tool in declared {
        let is_named = !tool.name.is_empty();
        let ToolKind::Group(members) = &mut tool.kind else {
            tools.push(tool);
            continue;
        };
        if is_named && limits.takes_groups {
            tools.push(tool);
            continue;
        }
        for mut member in std::mem::take(members) {
            if is_named && !matches!(member.kind, ToolKind::Builtin(_)) {
                let name = flat(&tool.name, &member.name);
                changes.names.push((name.clone(), std::mem::take(&mut member.name)));
                changes.namespaces.push((name.clone(), tool.name.clone()));
                member.name = name;
            }
            tools.push(member);
        }
    }
    tools
}

fn flat(group: &str, name: &str) -> String {
    format!("{group}__{name}")
}

/// Drops all but the first of several tools of one name: most providers refuse them.
pub(super) fn drop_doubles(request: &mut Request, losses: &mut LossList) {
    let mut known = HashSet::new();
    let mut number = 0;
    request.tools.retain(|tool| {
        let is_new =
            matches!(tool.kind, ToolKind::Builtin(_) | ToolKind::Group(_)) || known.insert(tool.name.clone());
        if !is_new {
            losses.at(format_args!("tools[{number}]"));
            losses.put("second tool of the same name");
        }
        number += 1;
        is_new
    });
    losses.at(format_args!(""));
}

/// Leaves out the tools that may not be called, where the wire cannot forbid them.
pub(super) fn narrow_tools(request: &mut Request, limits: &ProviderLimits) {
    if limits.takes_allowed_tools {
        return;
    }
    let Some(ToolChoice::Allowed { names, is_required }) = &request.tool_choice else { return };
    let names: HashSet<&String> = names.iter().collect();
    request.tools.retain(|tool| names.contains(&tool.name));
    request.tool_choice = Some(if *is_required { ToolChoice::Required } else { ToolChoice::Auto });
}

/// Writes a forced call in the form that the provider takes.
pub(super) fn force_calls(request: &mut Request, limits: &ProviderLimits, losses: &mut LossList) {
    let is_run_here =
        |tool: &RequestTool| matches!(tool.kind, ToolKind::Function { .. } | ToolKind::Custom { .. });
    let choice = match (&request.tool_choice, limits.forced_calls) {
        (Some(ToolChoice::Tool { name, .. }), ForcedCalls::Unnamed) => {
            let is_meant = |tool: &RequestTool| is_run_here(tool) && tool.name == *name;
            if request.tools.iter().any(is_meant) {
                request.tools.retain(is_meant);
            }
            ToolChoice::Required
        }
        (Some(ToolChoice::Required), ForcedCalls::Named) => match &request.tools[..] {
            [tool @ RequestTool { kind: ToolKind::Custom { .. }, .. }] => {
                ToolChoice::Tool { name: tool.name.clone(), kind: CallKind::Custom }
            }
            [tool] if is_run_here(tool) => {
                ToolChoice::Tool { name: tool.name.clone(), kind: CallKind::Function }
            }
            _ => {
                losses.at(format_args!(""));
                return losses.put("required tool choice");
            }
        },
        _ => return,
    };
    request.tool_choice = Some(choice);
    // An odd spelling was meant for another provider.
    request.kept.forget(&["tool_choice"]);
}

/// Turns a tool with free text into a function with one string.
pub(super) fn wrap_free_text(request: &mut Request, wrapped: &mut Vec<String>) {
    for tool in &mut request.tools {
        let ToolKind::Custom { grammar } = &mut tool.kind else { continue };
        if let Some(grammar) = grammar.take().filter(|grammar| grammar.syntax != "text") {
            let description = tool.description.get_or_insert_default();
            if !description.is_empty() {
                description.push_str("\n\n");
            }
            let (syntax, definition) = (&grammar.syntax, grammar.definition.trim_end());
            description.push_str(&format!(
                "`{FREE_TEXT}` must follow this grammar:\n```{syntax}\n{definition}\n```"
            ));
        }
        let text = Value::object([("type", "string".into())]);
        let schema = Value::object([
            ("type", "object".into()),
            ("properties", Value::object([(FREE_TEXT, text)])),
            ("required", Value::from_iter([FREE_TEXT])),
        ]);
        tool.kind = ToolKind::Function { schema: Some(schema) };
        wrapped.push(tool.name.clone());
    }
    for part in request.messages.iter_mut().flat_map(|message| &mut message.content.parts) {
        match &mut part.body {
            PartKind::Call(call) if call.kind == CallKind::Custom => {
                let text =
                    std::mem::replace(&mut call.arguments, CallArguments::Text(String::new())).into_text();
                call.arguments = CallArguments::Json(Value::object([(FREE_TEXT, text.into())]));
                call.kind = CallKind::Function;
            }
            PartKind::Result(result) if result.kind == CallKind::Custom => result.kind = CallKind::Function,
            _ => {}
        }
    }
    if let Some(ToolChoice::Tool { kind: kind @ CallKind::Custom, .. }) = &mut request.tool_choice {
        *kind = CallKind::Function;
    }
}

/// Renames tools whose names the provider would refuse.
pub(super) fn rename_tools(request: &mut Request, limits: &ProviderLimits, changes: &mut ReverseMapping) {
    let mut taken: HashSet<String> = HashSet::new();
    let mut sent: HashMap<String, String> = HashMap::new();
    // Names of tools in groups, which were changed before.
    let ReverseMapping { names, namespaces, .. } = changes;
    let flat: HashMap<String, usize> =
        names.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
    let declared = request.tools.iter().filter(|tool| !matches!(tool.kind, ToolKind::Builtin(_)));
    let declared: Vec<String> = declared.map(|tool| tool.name.clone()).collect();
    taken.extend(declared.iter().filter(|name| limits.tool_names.fits(name)).cloned());
    // The tool that the provider runs goes by that name.
    let searches = |tool: &RequestTool| matches!(&tool.kind, ToolKind::Builtin(word) if word == WEB_SEARCH);
    let is_reserved = limits.names_builtins && request.tools.iter().any(searches);
    let mut rename = |name: &mut String| {
        if limits.tool_names.fits(name) && !(is_reserved && name == WEB_SEARCH) {
            return;
        }
        let fitted = sent.entry(name.clone()).or_insert_with(|| {
            let fitted = limits.tool_names.fitted(name, |other| taken.contains(other));
            taken.insert(fitted.clone());
            match flat.get(name) {
                Some(at) => {
                    names[*at].0.clone_from(&fitted);
                    // Both lists have the same tools in the same order.
                    namespaces[*at].0.clone_from(&fitted);
                }
                None => names.push((fitted.clone(), name.clone())),
            }
            fitted
        });
        name.clone_from(fitted);
    };
    for tool in &mut request.tools {
        if !matches!(tool.kind, ToolKind::Builtin(_)) {
            rename(&mut tool.name);
        }
    }
    request.rename_mentions(rename);
}

impl Request {
    /// Gives tools other names wherever calls, results and the choice of tools mention them.
    pub(crate) fn rename_mentions(&mut self, mut rename: impl FnMut(&mut String)) {
        for part in self.messages.iter_mut().flat_map(|message| &mut message.content.parts) {
            match &mut part.body {
                PartKind::Call(call) => rename(&mut call.name),
                PartKind::Result(result) => result.name.iter_mut().for_each(&mut rename),
                _ => {}
            }
        }
        match &mut self.tool_choice {
            Some(ToolChoice::Tool { name, .. }) => rename(name),
            Some(ToolChoice::Allowed { names, .. }) => names.iter_mut().for_each(rename),
            _ => {}
        }
    }
}

/// Declares a tool where a conversation has calls: some providers demand it.
pub(super) fn declare_tools(request: &mut Request, protocol: &str, limits: &ProviderLimits) {
    let has_calls = || {
        let mut parts = request.messages.iter().flat_map(|message| &message.content.parts);
        parts.any(|part| matches!(part.body, PartKind::Call(_) | PartKind::Result(_)))
    };
    let is_own = |tool: &RequestTool| {
        !matches!(tool.kind, ToolKind::Builtin(_)) || tool.retained.protocol() == Some(protocol)
    };
    if limits.demands_tools && !request.tools.iter().any(is_own) && has_calls() {
        let schema = Value::object([("type", "object".into())]);
        request.tools.push(RequestTool::new(NO_TOOL, ToolKind::Function { schema: Some(schema) }));
        request.tool_choice = None;
    }
}
