//! Calls and their results: every result right behind its calls, every call answered, every id once.

use std::collections::{HashMap, HashSet, VecDeque};

use super::calls_mut;
use crate::request::limits::ResultRole;
use crate::request::{
    CallArguments, CallKind, CallResult, ContentForm, ContentPart, LossList, MessageContent, PartKind,
    ProviderLimits, Request, RequestCall, RequestMessage, Role,
};

/// The result of a call that has none.
const NO_RESULT: &str = "no result was recorded";

/// The tool of a result that has no call.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// The results of the calls of a message.
struct CallsOfMessage {
    /// The number of the message.
    turn: usize,
    results: Vec<Option<ContentPart>>,
    is_answered: bool,
}

/// The messages so far, and the results of their calls: most messages have no calls.
struct PairedTurns {
    /// Messages that are not processed yet, and behind them, in the same memory, the processed ones.
    messages: VecDeque<RequestMessage>,
    unseen: usize,
    /// The messages with calls, in order.
    asked: Vec<CallsOfMessage>,
}

impl PairedTurns {
    fn next(&mut self) -> Option<RequestMessage> {
        self.unseen = self.unseen.checked_sub(1)?;
        self.messages.pop_front()
    }

    fn push(&mut self, message: RequestMessage) {
        self.messages.push_back(message);
    }

    /// The number of the last processed message.
    fn last_turn(&self) -> Option<usize> {
        (self.messages.len() - self.unseen).checked_sub(1)
    }

    fn last_mut(&mut self) -> Option<&mut RequestMessage> {
        self.last_turn()?;
        self.messages.back_mut()
    }
}

/// Puts every result right behind its calls, leaves out results that nobody asked for, adds results to calls that have
/// none, and gives every call an id of its own.
pub(super) fn pair_results(
    request: &mut Request,
    protocol: &str,
    limits: &ProviderLimits,
    losses: &mut LossList,
) {
    let has_calls = calls_mut(request).next().is_some();
    let may_be_elsewhere = request.previous.is_some() || !has_calls;
    let is_kept = may_be_elsewhere && (limits.may_keep(request, protocol) || !limits.demands_calls);
    if may_be_elsewhere && !is_kept {
        make_calls(request, losses);
    }
    let mut turns = PairedTurns {
        unseen: request.messages.len(),
        messages: std::mem::take(&mut request.messages).into(),
        asked: Vec::new(),
    };
    let mut numbers = 0..;
    let mut open = OpenCalls::default();
    while let (Some(mut message), Some(number)) = (turns.next(), numbers.next()) {
        losses.at(format_args!("messages[{number}]"));
        let parts = std::mem::take(&mut message.content.parts);
        let had_parts = !parts.is_empty();
        if message.role == Role::Assistant {
            // The result of a provider-run tool stands with the call, and the model goes on.
            let (role, form) = (message.role, message.content.form);
            if !parts.iter().any(|part| matches!(part.body, PartKind::Result(_))) {
                message.content.parts = parts;
                speak(message, false, &mut turns, &mut open, limits);
                continue;
            }
            let mut said = Vec::new();
            let mut has_results = false;
            for part in parts {
                if !matches!(part.body, PartKind::Result(_)) {
                    said.push(part);
                    continue;
                }
                if !said.is_empty() {
                    message.content.parts = std::mem::take(&mut said);
                    let next = RequestMessage::new(role, MessageContent { parts: Vec::new(), form });
                    speak(std::mem::replace(&mut message, next), false, &mut turns, &mut open, limits);
                }
                has_results = true;
                if answer(part, &mut turns, &mut open).is_some() {
                    losses.put("result without a call");
                }
            }
            message.content.parts = said;
            if !message.content.is_empty() || !has_results {
                speak(message, had_parts && has_results, &mut turns, &mut open, limits);
            }
            continue;
        }
        if message.role == Role::Tool {
            message.role = Role::User;
        }
        let mut is_response = false;
        if !parts.iter().any(|part| matches!(part.body, PartKind::Result(_))) {
            message.content.parts = parts;
            if !(message.content.is_empty() && had_parts) {
                turns.push(message);
            }
            continue;
        }
        for part in parts {
            if !matches!(part.body, PartKind::Result(_)) {
                message.content.parts.push(part);
                continue;
            }
            is_response = true;
            match answer(part, &mut turns, &mut open) {
                // Its call is with the provider, or no call asks for it.
                Some(orphan) if is_kept => {
                    if limits.results == ResultRole::Tool && !message.content.is_empty() {
                        let content = message.content.take();
                        let name = message.name.clone();
                        turns.push(RequestMessage { name, ..RequestMessage::new(message.role, content) });
                    }
                    match turns.last_mut().filter(|last| last.role == Role::Tool) {
                        Some(last) => last.content.parts.push(orphan),
                        None => turns.push(RequestMessage::of(Role::Tool, orphan)),
                    }
                }
                Some(_) => losses.put("result without a call"),
                None => {}
            }
        }
        if !(message.content.is_empty() && (is_response || had_parts)) {
            turns.push(message);
        }
    }
    let mut ids = PairedIds::default();
    let (mut messages, asked) = (Vec::from(turns.messages), turns.asked);
    let last = messages.len().saturating_sub(1);
    // The results behind each message that has some.
    let mut answers = Vec::with_capacity(asked.len());
    for CallsOfMessage { turn, results, is_answered } in asked {
        let Some(message) = messages.get_mut(turn) else { continue };
        let calls = message.content.parts.iter_mut().filter_map(|part| match &mut part.body {
            PartKind::Call(call) => Some(call),
            _ => None,
        });
        let mut told = Vec::new();
        for (call, result) in calls.zip(results) {
            call.id = ids.next(call, limits);
            let Some(mut part) = result.or_else(|| (is_answered || turn != last).then(no_result)) else {
                continue;
            };
            if let PartKind::Result(result) = &mut part.body {
                result.id.clone_from(&call.id);
                result.name = Some(call.name.clone());
                result.kind = call.kind;
            }
            told.push(part);
        }
        if !told.is_empty() {
            answers.push((
                turn,
                RequestMessage::new(Role::Tool, MessageContent { parts: told, form: ContentForm::Any }),
            ));
        }
    }
    for message in messages.iter_mut().filter(|message| message.role == Role::Tool) {
        for part in &mut message.content.parts {
            let PartKind::Result(result) = &mut part.body else { continue };
            if limits.names_results {
                result.name.get_or_insert_with(|| UNKNOWN_TOOL.to_owned());
            }
            let name = result.name.as_deref().unwrap_or("tool");
            let id = result.id.take().or_else(|| limits.demands_ids.then(|| format!("call_{name}")));
            result.id = id.map(|id| limits.call_ids.fitted(&id, |_| false));
        }
    }
    request.messages = answered(messages, answers);
}

/// Makes calls for results whose own calls are wherever the client left the rest of the conversation: no provider takes
/// a result without one. The arguments are not known.
fn make_calls(request: &mut Request, losses: &mut LossList) {
    let known: HashSet<String> = calls_mut(request).filter_map(|call| call.id.clone()).collect();
    // A part without an id, a name and content is no result.
    let is_orphan = |part: &ContentPart| match &part.body {
        PartKind::Result(result) => match &result.id {
            Some(id) => !known.contains(id),
            None => result.name.is_some() || !result.content.is_empty() || result.value.is_some(),
        },
        _ => false,
    };
    let has_orphans = |message: &RequestMessage| {
        message.role != Role::Assistant && message.content.parts.iter().any(is_orphan)
    };
    if !request.messages.iter().any(has_orphans) {
        return;
    }
    let mut messages: Vec<RequestMessage> = Vec::with_capacity(request.messages.len() + 1);
    // The position of the calls of consecutive results.
    let mut asked = None;
    for (number, message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        if !has_orphans(&message) {
            asked = None;
            messages.push(message);
            continue;
        }
        losses.at(format_args!("messages[{number}]"));
        losses.put("call of a result");
        let at = *asked.get_or_insert_with(|| {
            messages.push(RequestMessage::new(
                Role::Assistant,
                MessageContent { parts: Vec::new(), form: ContentForm::Any },
            ));
            messages.len() - 1
        });
        let orphans = message.content.parts.iter().filter(|part| is_orphan(part));
        messages[at].content.parts.extend(orphans.filter_map(made_call));
        messages.push(message);
    }
    request.messages = messages;
}

fn made_call(part: &ContentPart) -> Option<ContentPart> {
    let PartKind::Result(result) = &part.body else { return None };
    Some(ContentPart::new(PartKind::from(RequestCall {
        id: result.id.clone(),
        name: result.name.clone().unwrap_or_else(|| UNKNOWN_TOOL.to_owned()),
        namespace: None,
        arguments: CallArguments::Text(if result.kind == CallKind::Custom { "" } else { "{}" }.to_owned()),
        kind: result.kind,
    })))
}

/// The messages, each followed by its results.
fn answered(messages: Vec<RequestMessage>, answers: Vec<(usize, RequestMessage)>) -> Vec<RequestMessage> {
    if answers.is_empty() {
        return messages;
    }
    let mut all = Vec::with_capacity(messages.len() + answers.len());
    let mut answers = answers.into_iter().peekable();
    for (number, message) in messages.into_iter().enumerate() {
        all.push(message);
        all.extend(answers.next_if(|(turn, _)| *turn == number).map(|(_, answer)| answer));
    }
    all
}

/// Calls that wait for a result: the index of their message in [`PairedTurns::asked`], and their positions in it.
#[derive(Default)]
struct OpenCalls {
    by_id: HashMap<String, Vec<(usize, VecDeque<usize>)>>,
    by_name: HashMap<String, Vec<(usize, VecDeque<usize>)>>,
    all: Vec<(usize, VecDeque<usize>)>,
}

impl OpenCalls {
    fn put(&mut self, call: &RequestCall, turn: usize, place: usize) {
        let lists = [
            call.id.as_ref().map(|id| self.by_id.entry(id.clone()).or_default()),
            Some(self.by_name.entry(call.name.clone()).or_default()),
            Some(&mut self.all),
        ];
        for list in lists.into_iter().flatten() {
            match list.last_mut().filter(|last| last.0 == turn) {
                Some((_, places)) => places.push_back(place),
                None => list.push((turn, VecDeque::from([place]))),
            }
        }
    }

    /// The call that a result belongs to: of several the one in the latest turn, and in it the first.
    fn take(&mut self, result: &CallResult, asked: &[CallsOfMessage]) -> Option<(usize, usize)> {
        let list = match (&result.id, &result.name) {
            (Some(id), _) => self.by_id.get_mut(id)?,
            (None, Some(name)) => self.by_name.get_mut(name)?,
            (None, None) => &mut self.all,
        };
        while let Some((turn, places)) = list.last_mut() {
            let turn = *turn;
            while let Some(place) = places.pop_front() {
                // Its result may have been found in another list: by id, by name or by order.
                if asked.get(turn).and_then(|asked| asked.results.get(place)).is_some_and(Option::is_none) {
                    return Some((turn, place));
                }
            }
            list.pop();
        }
        None
    }
}

/// Adds the model's message to its turn, as long as no other role spoke.
fn speak(
    mut message: RequestMessage,
    is_answered: bool,
    turns: &mut PairedTurns,
    open: &mut OpenCalls,
    limits: &ProviderLimits,
) {
    let last = turns.last_turn();
    let is_answered_yet =
        turns.asked.last().is_some_and(|asked| Some(asked.turn) == last && asked.is_answered);
    let is_same = turns.last_mut().is_some_and(|last| {
        limits.joins_turns && last.role == Role::Assistant && last.name == message.name && !is_answered_yet
    });
    if !is_same {
        if message.content.is_empty() && is_answered {
            return;
        }
        let content = MessageContent { form: message.content.form, ..MessageContent::default() };
        let parts = std::mem::replace(&mut message.content, content).parts;
        turns.push(message);
        return hear(parts, turns, open);
    }
    hear(message.content.parts, turns, open);
}

fn hear(parts: Vec<ContentPart>, turns: &mut PairedTurns, open: &mut OpenCalls) {
    let Some(turn) = turns.last_turn() else { return };
    let Some(RequestMessage { content, .. }) = turns.messages.back_mut() else { return };
    if !content.is_empty() {
        content.form = ContentForm::Any;
    }
    let calls = parts.iter().filter_map(|part| match &part.body {
        PartKind::Call(call) => Some(call),
        _ => None,
    });
    for call in calls {
        if turns.asked.last().is_none_or(|last| last.turn != turn) {
            turns.asked.push(CallsOfMessage { turn, results: Vec::new(), is_answered: false });
        }
        let number = turns.asked.len() - 1;
        let results = &mut turns.asked[number].results;
        open.put(call, number, results.len());
        results.push(None);
    }
    match content.is_empty() {
        true => content.parts = parts,
        false => content.parts.extend(parts),
    }
}

/// Puts a result to its call; returns one that has none.
fn answer(part: ContentPart, turns: &mut PairedTurns, open: &mut OpenCalls) -> Option<ContentPart> {
    let PartKind::Result(result) = &part.body else { return Some(part) };
    let Some((turn, place)) = open.take(result, &turns.asked) else { return Some(part) };
    if let Some(asked) = turns.asked.get_mut(turn) {
        asked.is_answered = true;
        asked.results[place] = Some(part);
    }
    None
}

fn no_result() -> ContentPart {
    ContentPart::new(PartKind::from(CallResult {
        id: None,
        name: None,
        content: MessageContent::text(NO_RESULT),
        value: None,
        is_error: Some(true),
        kind: CallKind::Function,
    }))
}

/// Ids of calls, each once.
#[derive(Default)]
struct PairedIds {
    taken: HashSet<String>,
    /// The number of other forms of an id so far, so that the next form is not looked for from the start.
    again: HashMap<String, u64>,
    made: usize,
    /// The next number of a call, where calls are numbered.
    numbers: usize,
}

impl PairedIds {
    fn next(&mut self, call: &RequestCall, limits: &ProviderLimits) -> Option<String> {
        let id = match &call.id {
            Some(id) if !id.is_empty() => id.clone(),
            _ if !limits.demands_ids => return None,
            _ => {
                self.made += 1;
                format!("call_{}_{}", call.name, self.made)
            }
        };
        if limits.numbers_calls {
            return Some(self.numbered(&id, &call.name));
        }
        let before = self.again.get(&id).copied().unwrap_or(0);
        let mut salt = before;
        let fitted = limits.call_ids.fitted_from(&id, &mut salt, |id| self.taken.contains(id));
        if salt > before {
            self.again.insert(id, salt);
        }
        self.taken.insert(fitted.clone());
        Some(fitted)
    }

    /// An id of the form `functions.NAME:NUMBER`. One that a model of the provider gave stays.
    fn numbered(&mut self, id: &str, name: &str) -> String {
        let number = id.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':')?.1.parse().ok());
        let mut next = self.numbers;
        let mut own = number.map_or_else(|| format!("functions.{name}:{next}"), |_: usize| id.to_owned());
        while self.taken.contains(&own) {
            next += 1;
            own = format!("functions.{name}:{next}");
        }
        self.numbers = number.unwrap_or(next).max(next) + 1;
        self.taken.insert(own.clone());
        own
    }
}
