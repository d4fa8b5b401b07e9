//! Past calls and results, written into the texts of a conversation.

use std::collections::HashMap;

use super::CallWriter;
use super::taught::tool_call;
use crate::event::CallKind;
use crate::message::ToolCall;
use crate::request::{
    CacheMark, CallResult, ContentForm, ContentPart, LossList, MessageContent, PartKind, RequestCall,
    RequestMessage, Role, emit_value,
};

/// The conversation as it is written anew.
pub(super) struct TaughtConversation<'w> {
    writer: &'w CallWriter,
    pub(super) losses: LossList,
    messages: Vec<RequestMessage>,
    /// The number of calls so far.
    count: usize,
    /// Their numbers and names, by their ids.
    calls: HashMap<String, (usize, String)>,
    /// The model's turn, while it may go on.
    turn: Option<ModelTurn>,
    /// Results that wait for those of the same turn.
    results: Vec<(usize, Vec<ContentPart>)>,
}

/// A turn of the model, from this message on.
struct ModelTurn {
    number: usize,
    message: RequestMessage,
    calls: Vec<ToolCall>,
    /// The number of calls before the turn.
    before: usize,
}

impl<'w> TaughtConversation<'w> {
    pub(super) fn new(writer: &'w CallWriter, losses: LossList) -> Self {
        let (messages, count, calls, turn, results) = Default::default();
        Self { writer, losses, messages, count, calls, turn, results }
    }

    /// The conversation, after its last message.
    pub(super) fn finish(&mut self) -> Vec<RequestMessage> {
        self.end_turn();
        self.emit_results();
        std::mem::take(&mut self.messages)
    }

    /// Takes the next message.
    pub(super) fn add(&mut self, number: usize, mut message: RequestMessage) {
        self.losses.at(format_args!("messages[{number}]"));
        if !self.drop_native(&mut message) {
            return;
        }
        let holds = |kind: fn(&PartKind) -> bool| message.content.parts.iter().any(|part| kind(&part.body));
        let has_results = holds(|body| matches!(body, PartKind::Result(_)));
        let has_calls = holds(|body| matches!(body, PartKind::Call(_)));
        if message.role != Role::Assistant {
            self.end_turn();
        }
        if !has_results || message.role == Role::Assistant {
            self.emit_results();
        }
        if !has_calls && !has_results {
            match message.role {
                Role::Assistant => {
                    self.begin_turn(ModelTurn { number, message, calls: Vec::new(), before: self.count })
                }
                _ => self.messages.push(message),
            }
            return;
        }
        // Extra fields of a message with calls or results are not true of a text.
        self.losses.kept("", &std::mem::take(&mut message.retained));
        let (mut calls, before) = (Vec::new(), self.count);
        for (at, part) in std::mem::take(&mut message.content.parts).into_iter().enumerate() {
            self.losses.at(format_args!("messages[{number}].parts[{at}]"));
            match part {
                ContentPart { body: PartKind::Call(call), .. } if call.kind == CallKind::Builtin => {
                    self.losses.put("builtin call");
                }
                ContentPart { body: PartKind::Result(result), .. } if result.kind == CallKind::Builtin => {
                    self.losses.put("builtin result");
                }
                ContentPart { body: PartKind::Call(call), cache, signature, retained: kept } => {
                    let rest =
                        ContentPart { body: PartKind::Text(String::new()), cache, signature, retained: kept };
                    self.losses.part("", &rest);
                    calls.push(self.call(*call));
                }
                ContentPart { body: PartKind::Result(result), cache, signature, retained: kept } => {
                    let rest = ContentPart {
                        body: PartKind::Text(String::new()),
                        cache: None,
                        signature,
                        retained: kept,
                    };
                    self.losses.part("", &rest);
                    self.result(*result, cache);
                }
                part => message.content.parts.push(part),
            }
        }
        if message.role == Role::Assistant {
            return self.begin_turn(ModelTurn { number, message, calls, before });
        }
        if !message.content.is_empty() {
            self.emit_results();
            message.role = if message.role == Role::Tool { Role::User } else { message.role };
            match self.messages.last_mut().filter(|last| last.role == message.role && has_results) {
                Some(last) => {
                    message.content.parts.into_iter().for_each(|part| append(&mut last.content, part))
                }
                None => self.messages.push(message),
            }
        }
    }

    /// Leaves out the calls and results that the provider ran; false if nothing else was there.
    fn drop_native(&mut self, message: &mut RequestMessage) -> bool {
        let had_parts = !message.content.is_empty();
        message.content.parts.retain(|part| {
            let is_native = is_native(part);
            if is_native {
                self.losses.opaque(part);
            }
            !is_native
        });
        !(had_parts && message.content.is_empty())
    }

    /// Takes the next message of the model. Some protocols split a turn into several messages: a text, and each of the
    /// calls after it.
    fn begin_turn(&mut self, turn: ModelTurn) {
        let goes_on = |open: &&mut ModelTurn| {
            let has_more = !turn.message.content.is_empty();
            !turn.calls.is_empty()
                && open.message.name == turn.message.name
                && (open.calls.is_empty() || !has_more)
        };
        match self.turn.as_mut().filter(goes_on) {
            Some(open) => {
                open.message.content.parts.extend(turn.message.content.parts);
                open.before = if open.calls.is_empty() { turn.before } else { open.before };
                open.calls.extend(turn.calls);
            }
            None => {
                self.end_turn();
                self.turn = Some(turn);
            }
        }
    }

    /// Writes the model's turn: its text and its calls as one text, behind everything else.
    fn end_turn(&mut self) {
        let Some(ModelTurn { number, mut message, calls, before }) = self.turn.take() else { return };
        self.losses.at(format_args!("messages[{number}]"));
        if calls.is_empty() {
            for (protocol, key) in message.retained.forget(&["tool_calls", "function_call"]) {
                self.losses.put(format!("{key} of {protocol}"));
            }
            self.check(&mut message);
            self.messages.push(message);
            return;
        }
        self.losses.kept("", &std::mem::take(&mut message.retained));
        let (texts, mut parts): (Vec<ContentPart>, Vec<ContentPart>) =
            std::mem::take(&mut message.content.parts)
                .into_iter()
                .partition(|part| matches!(part.body, PartKind::Text(_)));
        let mut said = MessageContent::default();
        for part in texts {
            self.losses.kept("", &part.retained);
            append(&mut said, ContentPart { retained: Default::default(), ..part });
        }
        let cache = said.parts.iter_mut().find_map(|part| part.cache.take());
        let text = self.say(said.joined("\n"), &calls, before);
        parts.push(ContentPart { cache, ..ContentPart::text(text) });
        message.content = MessageContent { parts, form: ContentForm::Any };
        self.messages.push(message);
    }

    /// Makes sure that a text calls nothing.
    fn check(&mut self, message: &mut RequestMessage) {
        let text = message.content.joined("\n");
        match self.writer.render_text(&text) {
            Some(same) if same == text => {}
            Some(other) if message.content.parts.iter().all(|part| part.as_text().is_some()) => {
                message.content =
                    MessageContent { parts: vec![ContentPart::text(other)], form: message.content.form };
            }
            _ => self.losses.put(READS_AS_CALL),
        }
    }

    fn call(&mut self, call: RequestCall) -> ToolCall {
        let RequestCall { id, name, arguments, .. } = call;
        let id = id.unwrap_or_default();
        self.calls.insert(id.clone(), (self.count, name.clone()));
        let id = self.writer.own_id(&name, self.count).unwrap_or(id);
        self.count += 1;
        tool_call(id, name, arguments.into_text())
    }

    fn say(&mut self, text: String, calls: &[ToolCall], before: usize) -> String {
        let writer = self.writer;
        if let Ok(turn) = writer.render(&text, calls, before) {
            return turn;
        }
        // Calls are written in the dialect where it can say them, else in words.
        let (mut sayable, mut words) = (Vec::new(), Vec::new());
        for call in calls {
            match writer.render_call(call) {
                Ok(_) => sayable.push(call.clone()),
                Err(_) => words.push(self.tell(call)),
            }
        }
        let mut prose = text.clone();
        for wire_type in &words {
            prose.push_str(if prose.is_empty() { "" } else { "\n" });
            prose.push_str(wire_type);
        }
        if let Ok(turn) = writer.render(&prose, &sayable, before) {
            return turn;
        }
        // The text is the model's own, and stays as it is.
        self.losses.put(READS_AS_CALL);
        let calls = writer.render(&words.join("\n"), &sayable, before).unwrap_or_else(|_| {
            self.losses.put(CANNOT_SAY);
            words.join("\n")
        });
        if text.is_empty() { calls } else { format!("{text}\n{calls}") }
    }

    /// A call that the dialect cannot say, in words that call nothing.
    fn tell(&mut self, call: &ToolCall) -> String {
        let is_object = call.object().is_ok();
        self.losses.put(if is_object { CANNOT_SAY } else { "arguments that are not an object" });
        let (name, arguments) = (&call.name, &call.raw_arguments);
        let told = format!("(I called the tool {name} with {arguments})");
        if self.writer.is_prose(&told) { told } else { format!("(I called the tool {name})") }
    }

    fn result(&mut self, mut result: CallResult, cache: Option<Box<CacheMark>>) {
        emit_value(&mut result);
        let CallResult { id, name, content, is_error, .. } = result;
        let call = id.as_ref().and_then(|id| self.calls.get(id));
        let ordinal = call.map_or(self.count, |(ordinal, _)| *ordinal);
        let name = name.or_else(|| call.map(|(_, name)| name.clone())).unwrap_or_default();
        let id = call.and_then(|_| self.writer.own_id(&name, ordinal)).or(id).unwrap_or_default();
        let mut said = MessageContent::default();
        let mut others = Vec::new();
        for part in content.parts {
            match part.body {
                PartKind::Text(_) | PartKind::Refusal(_) => {
                    self.losses.part("", &part);
                    append(&mut said, ContentPart::text(part.as_text().unwrap_or_default()));
                }
                PartKind::Opaque(_) => self.losses.opaque(&part),
                _ => others.push(part),
            }
        }
        let mut text = said.joined("\n");
        if is_error == Some(true) && !text.trim_start().to_ascii_lowercase().starts_with("error") {
            text.insert_str(0, "Error: ");
        }
        let text = self.writer.render_result(&tool_call(id, name, String::new()), &text);
        let mut parts = vec![ContentPart { cache, ..ContentPart::text(text) }];
        parts.append(&mut others);
        self.results.push((ordinal, parts));
    }

    /// Gives the results of a turn back, in the order of its calls: not every dialect names them.
    fn emit_results(&mut self) {
        let mut results = std::mem::take(&mut self.results);
        if results.is_empty() {
            return;
        }
        results.sort_by_key(|(ordinal, _)| *ordinal);
        let mut content = MessageContent::default();
        results.into_iter().flat_map(|(_, parts)| parts).for_each(|part| append(&mut content, part));
        self.messages.push(RequestMessage::new(Role::User, content));
    }
}

/// Whether it is a call, a result or tools in a form that only one protocol knows: the provider ran it.
fn is_native(part: &ContentPart) -> bool {
    let PartKind::Opaque(wire_type) = &part.body else { return false };
    ["tool", "call", "function"].iter().any(|native| wire_type.contains(native))
}

const READS_AS_CALL: &str = "text that reads as a call";

const CANNOT_SAY: &str = "call that the dialect cannot say";

/// Adds a part; texts that follow each other are one.
fn append(content: &mut MessageContent, part: ContentPart) {
    match (content.parts.last_mut(), &part) {
        (
            Some(ContentPart { body: PartKind::Text(own), cache: None, signature: None, retained: kept }),
            ContentPart { body: PartKind::Text(text), cache: None, signature: None, .. },
        ) if kept.is_empty() && part.retained.is_empty() => {
            own.push('\n');
            own.push_str(text);
        }
        _ => content.parts.push(part),
    }
}
