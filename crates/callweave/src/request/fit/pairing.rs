//! Calls and their results: every result right behind its calls, every call answered, every id once.

use std::collections::{HashMap, HashSet, VecDeque};

use super::calls_mut;
use crate::request::limits::Teller;
use crate::request::{
    Body, Call, CallKind, CallResult, Content, Form, Limits, Losses, Message, Part, Request, Role,
};

/// What is said of a call that nobody answered.
const NO_RESULT: &str = "no result was recorded";

/// Whose result it is that has no call.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// What somebody said, and what came of the calls in it.
struct Turn {
    message: Message,
    results: Vec<Option<Part>>,
    is_answered: bool,
}

impl Turn {
    fn of(message: Message) -> Self {
        Self { message, results: Vec::new(), is_answered: false }
    }
}

/// Puts every result right behind its calls, leaves out what nobody asked for, answers what nobody answered, and gives
/// every call an id of its own.
pub(super) fn pair_results(request: &mut Request, limits: &Limits, losses: &mut Losses) {
    let has_calls = calls_mut(request).next().is_some();
    let mut turns: Vec<Turn> = Vec::with_capacity(request.messages.len());
    let mut open = Open::default();
    for (number, mut message) in std::mem::take(&mut request.messages).into_iter().enumerate() {
        losses.at(format_args!("messages[{number}]"));
        let parts = std::mem::take(&mut message.content.parts);
        let had_parts = !parts.is_empty();
        if message.role == Role::Assistant {
            // Of a tool that the provider ran, the result stands with the call, and the model goes on.
            let (role, form) = (message.role, message.content.form);
            let mut said = Vec::new();
            let mut has_results = false;
            for part in parts {
                if !matches!(part.body, Body::Result(_)) {
                    said.push(part);
                    continue;
                }
                if !said.is_empty() {
                    message.content.parts = std::mem::take(&mut said);
                    let next = Message::new(role, Content { parts: Vec::new(), form });
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
        let mut is_answer = false;
        if !parts.iter().any(|part| matches!(part.body, Body::Result(_))) {
            message.content.parts = parts;
            if !(message.content.is_empty() && had_parts) {
                turns.push(Turn::of(message));
            }
            continue;
        }
        for part in parts {
            if !matches!(part.body, Body::Result(_)) {
                message.content.parts.push(part);
                continue;
            }
            is_answer = true;
            match answer(part, &mut turns, &mut open) {
                // Its call is with the provider, or wherever the client left the rest of the conversation.
                Some(orphan) if request.previous.is_some() || !has_calls => {
                    if limits.results == Teller::Tool && !message.content.is_empty() {
                        let content = message.content.take();
                        turns.push(Turn::of(Message {
                            name: message.name.clone(),
                            ..Message::new(message.role, content)
                        }));
                    }
                    match turns.last_mut().filter(|turn| turn.message.role == Role::Tool) {
                        Some(turn) => turn.message.content.parts.push(orphan),
                        None => turns.push(Turn::of(Message::of(Role::Tool, orphan))),
                    }
                }
                Some(_) => losses.put("result without a call"),
                None => {}
            }
        }
        if !(message.content.is_empty() && (is_answer || had_parts)) {
            turns.push(Turn::of(message));
        }
    }
    let mut ids = Ids::default();
    let count = turns.len();
    request.messages.reserve_exact(count + turns.iter().filter(|turn| !turn.results.is_empty()).count());
    for (number, mut turn) in turns.into_iter().enumerate() {
        let is_last = number + 1 == count;
        let Turn { message, results, is_answered } = &mut turn;
        let calls = message.content.parts.iter_mut().filter_map(|part| match &mut part.body {
            Body::Call(call) => Some(call),
            _ => None,
        });
        let mut told = Vec::new();
        for (call, result) in calls.zip(results) {
            call.id = ids.next(call, limits);
            let Some(mut part) = result.take().or_else(|| (*is_answered || !is_last).then(no_result)) else {
                continue;
            };
            if let Body::Result(result) = &mut part.body {
                result.id.clone_from(&call.id);
                result.name = Some(call.name.clone());
                result.kind = call.kind;
            }
            told.push(part);
        }
        if turn.message.role == Role::Tool {
            for part in &mut turn.message.content.parts {
                let Body::Result(result) = &mut part.body else { continue };
                if limits.names_results {
                    result.name.get_or_insert_with(|| UNKNOWN_TOOL.to_owned());
                }
                let name = result.name.as_deref().unwrap_or("tool");
                let id = result.id.take().or_else(|| limits.demands_ids.then(|| format!("call_{name}")));
                result.id = id.map(|id| limits.call_ids.fitted(&id, |_| false));
            }
        }
        request.messages.push(turn.message);
        if !told.is_empty() {
            request.messages.push(Message::new(Role::Tool, Content { parts: told, form: Form::Any }));
        }
    }
}

/// Calls that wait for a result: the turn, and the places among its calls.
#[derive(Default)]
struct Open {
    by_id: HashMap<String, Vec<(usize, VecDeque<usize>)>>,
    by_name: HashMap<String, Vec<(usize, VecDeque<usize>)>>,
    all: Vec<(usize, VecDeque<usize>)>,
}

impl Open {
    fn put(&mut self, call: &Call, turn: usize, place: usize) {
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

    /// The call that a result answers: of several that of the latest turn, and in it the first.
    fn take(&mut self, result: &CallResult, turns: &[Turn]) -> Option<(usize, usize)> {
        let list = match (&result.id, &result.name) {
            (Some(id), _) => self.by_id.get_mut(id)?,
            (None, Some(name)) => self.by_name.get_mut(name)?,
            (None, None) => &mut self.all,
        };
        while let Some((turn, places)) = list.last_mut() {
            let turn = *turn;
            while let Some(place) = places.pop_front() {
                // It may have been answered by another way of saying.
                if turns.get(turn).and_then(|turn| turn.results.get(place)).is_some_and(Option::is_none) {
                    return Some((turn, place));
                }
            }
            list.pop();
        }
        None
    }
}

/// Adds what the model said to its turn, as long as nobody else spoke.
fn speak(mut message: Message, is_answered: bool, turns: &mut Vec<Turn>, open: &mut Open, limits: &Limits) {
    let is_same = turns.last().is_some_and(|turn| {
        limits.joins_turns
            && turn.message.role == Role::Assistant
            && turn.message.name == message.name
            && !turn.is_answered
    });
    if !is_same {
        if message.content.is_empty() && is_answered {
            return;
        }
        let content = Content { form: message.content.form, ..Content::default() };
        let parts = std::mem::replace(&mut message.content, content).parts;
        turns.push(Turn { message, results: Vec::new(), is_answered: false });
        return hear(parts, turns, open);
    }
    hear(message.content.parts, turns, open);
}

fn hear(parts: Vec<Part>, turns: &mut [Turn], open: &mut Open) {
    let Some(number) = turns.len().checked_sub(1) else { return };
    let turn = &mut turns[number];
    if !turn.message.content.is_empty() {
        turn.message.content.form = Form::Any;
    }
    for part in &parts {
        if let Body::Call(call) = &part.body {
            open.put(call, number, turn.results.len());
            turn.results.push(None);
        }
    }
    match turn.message.content.is_empty() {
        true => turn.message.content.parts = parts,
        false => turn.message.content.parts.extend(parts),
    }
}

/// Puts a result to the call it answers; gives back one that answers none.
fn answer(part: Part, turns: &mut [Turn], open: &mut Open) -> Option<Part> {
    let Body::Result(result) = &part.body else { return Some(part) };
    let Some((turn, place)) = open.take(result, turns) else { return Some(part) };
    if let Some(turn) = turns.get_mut(turn) {
        turn.is_answered = true;
        turn.results[place] = Some(part);
    }
    None
}

fn no_result() -> Part {
    Part::new(Body::from(CallResult {
        id: None,
        name: None,
        content: Content::text(NO_RESULT),
        value: None,
        is_error: Some(true),
        kind: CallKind::Function,
    }))
}

/// Ids of calls, each once.
#[derive(Default)]
struct Ids {
    taken: HashSet<String>,
    /// How often an id was given another form, so that the next form is not looked for from the start.
    again: HashMap<String, u64>,
    made: usize,
}

impl Ids {
    fn next(&mut self, call: &Call, limits: &Limits) -> Option<String> {
        let id = match &call.id {
            Some(id) if !id.is_empty() => id.clone(),
            _ if !limits.demands_ids => return None,
            _ => {
                self.made += 1;
                format!("call_{}_{}", call.name, self.made)
            }
        };
        let before = self.again.get(&id).copied().unwrap_or(0);
        let mut salt = before;
        let fitted = limits.call_ids.fitted_from(&id, &mut salt, |id| self.taken.contains(id));
        if salt > before {
            self.again.insert(id, salt);
        }
        self.taken.insert(fitted.clone());
        Some(fitted)
    }
}
