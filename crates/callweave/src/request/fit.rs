//! Normalizes a request to a provider's rules: the passes over a [`Request`], driven by a row of [`ProviderLimits`].

mod pairing;
mod parts;
mod tools;

use std::collections::VecDeque;

use super::limits::{NameRule, ResultRole, SystemPlacement, USUAL};
use super::{
    ContentForm, ContentPart, LossList, MessageContent, OutputFormat, PartKind, ProviderLimits,
    ReasoningSettings, Request, RequestCall, RequestMessage, Role, ToolChoice, ToolKind, schema, thinking,
};
use crate::json::Number;
use pairing::pair_results;
pub(crate) use parts::emit_value;
use parts::normalize_parts;

/// The user's message where the model speaks first, and may not.
const FIRST_WORD: &str = "(the conversation begins)";

/// The changes that are to be undone in the response: see [`WrittenRequest`](super::WrittenRequest).
#[derive(Default)]
pub(crate) struct ReverseMapping {
    pub(crate) names: Vec<(String, String)>,
    pub(crate) namespaces: Vec<(String, String)>,
    pub(crate) wrapped: Vec<String>,
}

/// Normalizes the request.
pub(crate) fn fit(
    request: &mut Request,
    protocol: &str,
    limits: &ProviderLimits,
    losses: &mut LossList,
    changes: &mut ReverseMapping,
) {
    if !limits.takes_groups {
        tools::hoist_tools(request);
    }
    tools::flatten_groups(request, limits, changes);
    tools::narrow_tools(request, limits);
    tools::force_calls(request, limits, losses);
    tools::drop_doubles(request, losses);
    tools::rename_tools(request, limits, changes);
    if !limits.takes_free_text {
        tools::wrap_free_text(request, &mut changes.wrapped);
    }
    place_system(request, protocol, limits, losses);
    pair_results(request, protocol, limits, losses);
    normalize_parts(request, protocol, limits, losses);
    let begins = request.messages.first().is_some_and(|first| first.role == Role::Assistant);
    if is_silent(request, protocol, limits) || limits.user_first && begins {
        losses.at(format_args!(""));
        match begins {
            true => losses.put("conversation that the model begins"),
            // A request without any message or instruction gets no response.
            false if request.instructions.is_empty() => losses.refuse("conversation without a message"),
            false => losses.put("conversation without a message"),
        }
        request.messages.insert(0, RequestMessage::new(Role::User, MessageContent::text(FIRST_WORD)));
    }
    if limits.alternates {
        alternate(request, protocol, limits, losses);
    }
    if limits.bridges_results {
        bridge_results(request);
    }
    tools::declare_tools(request, protocol, limits);
    for (number, tool) in request.tools.iter_mut().enumerate() {
        losses.at(format_args!("tools[{number}]"));
        if let ToolKind::Function { schema } = &mut tool.kind {
            schema::fit_arguments(schema, limits.schemas, losses);
            let is_refused = schema.as_ref().is_some_and(|schema| schema::is_refused(schema, limits.schemas));
            if (is_refused || !limits.takes_strict) && tool.strict.take() == Some(true) {
                losses.put("strict tool");
            }
        }
    }
    losses.at(format_args!(""));
    if let Some(OutputFormat::Schema { schema, strict, .. }) = &mut request.format {
        schema::fit_response(schema, limits.schemas, losses);
        if *strict == Some(true) && schema::is_refused(schema, limits.schemas) {
            *strict = Some(false);
            losses.put("strict format");
        }
    }
    settle(request, limits, losses);
    count_in_integers(request);
    if request.max_tokens.is_none() && limits.max_tokens.is_some() {
        let own = request.model.as_deref().and_then(thinking::max_output);
        request.max_tokens = own.or(limits.max_tokens).map(Into::into);
    }
    if request.max_tokens.as_ref().and_then(Number::as_u64).is_some_and(|own| own < limits.least_tokens) {
        losses.put(format!("max tokens below {}", limits.least_tokens));
        request.max_tokens = Some(limits.least_tokens.into());
    }
    if request.tools.is_empty() {
        request.parallel_calls = None;
        if matches!(request.tool_choice, Some(ToolChoice::Auto | ToolChoice::None)) {
            request.tool_choice = None;
        }
    }
}

/// Leaves a request as it is except for fields that only some servers of its protocol take.
pub(crate) fn fit_compatible(
    request: &mut Request,
    protocol: &str,
    limits: &ProviderLimits,
    losses: &mut LossList,
    changes: &mut ReverseMapping,
) {
    if limits.system != SystemPlacement::Merged {
        return;
    }
    if !limits.takes_groups {
        tools::hoist_tools(request);
    }
    tools::flatten_groups(request, limits, changes);
    tools::narrow_tools(request, limits);
    tools::force_calls(request, limits, losses);
    if !limits.takes_free_text {
        tools::wrap_free_text(request, &mut changes.wrapped);
    }
    place_system(request, protocol, limits, losses);
}

/// Whether there is no message, although there must be one. In its own protocol an empty request stays as it is: the
/// provider's own error is the one that its client knows.
fn is_silent(request: &Request, protocol: &str, limits: &ProviderLimits) -> bool {
    if !request.messages.is_empty() || limits.may_keep(request, protocol) {
        return false;
    }
    match request.instructions.is_empty() {
        true => limits.demands_messages && request.protocol != Some(protocol),
        // Instructions above the conversation are no message to the model.
        false => limits.system == SystemPlacement::Above || limits.keeps_conversations,
    }
}

/// Makes a plain function of every tool that the client runs.
pub(crate) fn plain_tools(request: &mut Request, changes: &mut ReverseMapping) {
    tools::hoist_tools(request);
    tools::flatten_groups(request, &USUAL, changes);
    tools::wrap_free_text(request, &mut changes.wrapped);
    for tool in &mut request.tools {
        if let ToolKind::Function { schema: Some(schema) } = &mut tool.kind {
            schema::fit(schema, USUAL.schemas, &mut LossList::default());
        }
    }
}

/// Puts settings into the provider's ranges.
fn settle(request: &mut Request, limits: &ProviderLimits, losses: &mut LossList) {
    let mut cap = |number: &mut Option<Number>, most: f64, what: &str| {
        if number.as_ref().and_then(Number::as_f64).is_some_and(|own| own > most) {
            *number = Number::from_f64(most);
            losses.put(format!("{what} above {most}"));
        }
        // Some clients write a negative number for none.
        if number.as_ref().and_then(Number::as_f64).is_some_and(|own| own < 0.0) {
            *number = None;
            losses.put(format!("{what} below 0"));
        }
    };
    cap(&mut request.sampling.temperature, limits.max_temperature, "temperature");
    cap(&mut request.sampling.top_p, limits.max_top_p, "top_p");
    if request.user.as_ref().is_some_and(|user| user.len() > limits.longest_user) {
        let names = NameRule { others: "_-.:@", length: (1, limits.longest_user), is_lettered: false };
        request.user = request.user.take().map(|user| names.fitted(&user, |_| false));
        losses.put(format!("user longer than {}", limits.longest_user));
    }
    let tier = request.service_tier.as_deref();
    if tier.zip(limits.tiers).is_some_and(|(tier, known)| !known.contains(&tier)) {
        request.service_tier = None;
        losses.put("service tier");
    }
    if !limits.takes_effort {
        refuse_effort(request, losses);
    }
    narrow_modalities(request, limits, losses);
    let count = request.stop.len();
    request.stop.retain(|text| limits.takes_blank_stops || !text.trim().is_empty());
    if request.stop.len() < count {
        losses.put("blank stop");
    }
    if request.stop.len() > limits.max_stops {
        request.stop.truncate(limits.max_stops);
        losses.put(format!("stop beyond {}", limits.max_stops));
    }
    // The beginning of a response that the model is to continue may not end in a blank.
    if let Some(RequestMessage { role: Role::Assistant, content, .. }) = request.messages.last_mut()
        && !limits.takes_blank_text
        && let Some(ContentPart { body: PartKind::Text(text), .. }) = content.parts.last_mut()
    {
        text.truncate(text.trim_end().len());
    }
}

/// Drops the reasoning settings: models without effort refuse them, even `none`.
fn refuse_effort(request: &mut Request, losses: &mut LossList) {
    let ReasoningSettings { mode, effort, budget, summary, .. } = std::mem::take(&mut request.reasoning);
    for (what, is_set) in [
        ("thinking", mode.is_some()),
        ("effort", effort.is_some()),
        ("thinking budget", budget.is_some()),
        ("summary of reasoning", summary.is_some()),
    ] {
        if is_set {
            losses.put(what);
        }
    }
}

/// Leaves out the modalities in which the provider's models do not respond. Text alone is their default.
fn narrow_modalities(request: &mut Request, limits: &ProviderLimits, losses: &mut LossList) {
    request.modalities.retain(|word| {
        let is_known = word == "text" || limits.modalities.contains(&word.as_str());
        if !is_known {
            losses.put(format!("modality {word}"));
        }
        is_known
    });
    if !limits.modalities.contains(&"text") && request.modalities.iter().all(|word| word == "text") {
        request.modalities.clear();
    }
}

/// Turns counts into integers: they may come as `40.0`, which most readers refuse.
fn count_in_integers(request: &mut Request) {
    let sampling = &mut request.sampling;
    let counted = [
        &mut request.max_tokens,
        &mut request.max_tool_calls,
        &mut request.reasoning.budget,
        &mut sampling.top_k,
        &mut sampling.seed,
        &mut sampling.choices,
        &mut sampling.top_logprobs,
    ];
    for number in counted.into_iter().flatten() {
        if let Some(whole) = number.as_f64().filter(|whole| whole.fract() == 0.0 && whole.abs() < 1e15)
            && number.as_i64().is_none()
        {
            *number = (whole as i64).into();
        }
    }
}

fn calls_mut(request: &mut Request) -> impl Iterator<Item = &mut RequestCall> {
    let parts = request.messages.iter_mut().flat_map(|message| &mut message.content.parts);
    parts.filter_map(|part| if let PartKind::Call(call) = &mut part.body { Some(&mut **call) } else { None })
}

/// Puts system messages where the provider takes them. The leading run becomes the instructions, unless every message
/// may stand for itself; a later message stays in its place, where there is no other way as marked text of the user's.
/// Hoisting it would change the beginning of the prompt in every turn, and spoil caches.
fn place_system(request: &mut Request, protocol: &str, limits: &ProviderLimits, losses: &mut LossList) {
    if limits.system != SystemPlacement::Above && !limits.knows_developers {
        let developers = request.messages.iter_mut().filter(|message| message.role == Role::Developer);
        developers.for_each(|message| message.role = Role::System);
    }
    let is_operator = |message: &RequestMessage| matches!(message.role, Role::System | Role::Developer);
    let leading = request.messages.iter().take_while(|message| is_operator(message)).count();
    let is_merged = match limits.system {
        SystemPlacement::Above => true,
        // A single system message, at the beginning, needs no merging.
        SystemPlacement::Merged => {
            leading + usize::from(!request.instructions.is_empty()) > 1
                || request.messages[leading..].iter().any(is_operator)
        }
        SystemPlacement::Anywhere => false,
    };
    if !is_merged {
        return;
    }
    // Processed messages go behind unprocessed ones, in the same memory.
    let mut messages = VecDeque::from(std::mem::take(&mut request.messages));
    let count = messages.len();
    for number in 0..count {
        let Some(mut message) = messages.pop_front() else { break };
        let unseen = count - number - 1;
        if !is_operator(&message) {
            messages.push_back(message);
            continue;
        }
        losses.at(format_args!("messages[{number}]"));
        let mut others = std::mem::take(&mut message.content.parts);
        let is_text = |part: &mut ContentPart| matches!(part.body, PartKind::Text(_));
        let mut texts: Vec<ContentPart> = others.extract_if(.., is_text).collect();
        losses.message(protocol, &message);
        if number < leading {
            request.instructions.parts.append(&mut texts);
        } else {
            losses.put("role of a system message");
            for part in &mut texts {
                if let PartKind::Text(text) = &mut part.body {
                    *text = format!("<system>{text}</system>");
                }
            }
        }
        texts.append(&mut others);
        // Only texts stand above the conversation.
        match messages.iter_mut().skip(unseen).next_back() {
            _ if texts.is_empty() => {}
            Some(last) if number >= leading && last.role == Role::User => {
                last.content.parts.append(&mut texts);
                last.content.form = ContentForm::Any;
            }
            _ => messages.push_back(RequestMessage::new(
                Role::User,
                MessageContent { parts: texts, form: ContentForm::Any },
            )),
        }
    }
    request.instructions.form = ContentForm::Any;
    // Templates take one text.
    if limits.system == SystemPlacement::Merged && request.instructions.parts.len() > 1 {
        let parts = std::mem::take(&mut request.instructions.parts);
        losses.at(format_args!("instructions"));
        parts.iter().for_each(|part| losses.part(protocol, part));
        let texts: Vec<&str> = parts.iter().filter_map(ContentPart::as_text).collect();
        request.instructions.parts.push(ContentPart::text(texts.join("\n\n")));
    }
    request.messages = messages.into();
}

/// Merges consecutive messages of the same role.
fn alternate(request: &mut Request, protocol: &str, limits: &ProviderLimits, losses: &mut LossList) {
    let is_result = |part: &&ContentPart| matches!(part.body, PartKind::Result(_));
    // Processed messages go behind unprocessed ones, in the same memory.
    let mut messages = VecDeque::from(std::mem::take(&mut request.messages));
    let count = messages.len();
    // The number of results at the beginning of the last message, and the results that are to be put behind them.
    let (mut results, mut waiting) = (0, Vec::new());
    for number in 0..count {
        let Some(mut message) = messages.pop_front() else { break };
        let unseen = count - number - 1;
        let is_response = message.role == Role::Tool;
        if is_response && limits.results == ResultRole::User {
            message.role = Role::User;
        }
        let is_same = |last: &RequestMessage| last.role == message.role && last.role != Role::Tool;
        match messages.iter_mut().skip(unseen).next_back().filter(|last| is_same(last)) {
            Some(last) => {
                losses.at(format_args!("messages[{number}]"));
                let parts = std::mem::take(&mut message.content.parts);
                if is_response {
                    waiting.extend(parts);
                } else {
                    if last.content.parts.len() == results {
                        results += waiting.len() + parts.iter().take_while(is_result).count();
                        last.content.parts.append(&mut waiting);
                    }
                    last.content.parts.extend(parts);
                }
                last.content.form = ContentForm::Any;
                losses.message(protocol, &message);
            }
            None => {
                put_first(&mut waiting, results, messages.iter_mut().skip(unseen).next_back());
                results = message.content.parts.iter().take_while(is_result).count();
                messages.push_back(message);
            }
        }
    }
    put_first(&mut waiting, results, messages.back_mut());
    request.messages = messages.into();
}

/// Puts results behind the ones at the beginning of the message, all at once: one by one would move the rest each time.
fn put_first(waiting: &mut Vec<ContentPart>, at: usize, message: Option<&mut RequestMessage>) {
    if let Some(message) = message {
        message.content.parts.splice(at..at, waiting.drain(..));
    }
}

/// Puts a text of the model between results and the user.
fn bridge_results(request: &mut Request) {
    let mut messages: Vec<RequestMessage> = Vec::with_capacity(request.messages.len());
    for message in std::mem::take(&mut request.messages) {
        if message.role == Role::User && messages.last().is_some_and(|last| last.role == Role::Tool) {
            messages.push(RequestMessage::new(Role::Assistant, MessageContent::text("OK.")));
        }
        messages.push(message);
    }
    request.messages = messages;
}
