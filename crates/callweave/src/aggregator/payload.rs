//! Finds the calls in a payload, whatever it is wrapped in, and says them as fragments.

use std::collections::{BTreeMap, VecDeque};

use super::text::ParsedTextBlock;
use crate::event::{CallKind, EventSink, Sink};
use crate::fragment::{Arguments, Channel, Fragment, FragmentSink, Part, Place};
use crate::json::{Object, Str, Tape, Value};
use crate::protocol::{Input, Protocol};
use crate::weave::Weave;

/// The members under which the same thing is known.
const CALLS: &[&str] = &["tool_calls", "toolCalls"];
const LEGACY: &[&str] = &["function_call", "functionCall"];
const PARALLEL: &[&str] = &["parallel_tool_calls", "parallelToolCalls"];
const ID: &[&str] = &["id", "tool_call_id", "toolCallId", "call_id", "callId", "item_id"];
const INDEX: &[&str] = &["index", "tool_call_index", "toolCallIndex"];
const ARGUMENTS: &[&str] = &["arguments", "arguments_chunk", "argumentsChunk"];
/// The members in which a payload wraps another.
const CONTAINERS: &[&str] = &["msg", "message", "delta", "deltas", "items", "params"];

/// No wire wraps a payload more often; each wrapping is looked at as a whole.
const MAX_WRAPPED: u8 = 16;

/// Where the numberings of the protocols begin.
const PROTOCOL_SPACES: u8 = 8;

/// What a block in text calls that names no tool.
const UNNAMED: &str = "use_tool";

/// Whether a payload brings pieces or the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Delta,
    Message,
}

/// Reads payloads into the fold, one frame per call: so the calls of a list begin in its order, whether
/// or not their names are settled.
pub(super) struct Reader<'r, 's> {
    pub(super) weave: &'r mut Weave,
    pub(super) sink: &'r mut EventSink<'s>,
    pub(super) frames: &'r mut u64,
    pub(super) tape: &'r mut Tape,
    /// Whether the payload forbids parallel calls.
    pub(super) forbids_parallel: bool,
    /// The visible text of each choice.
    pub(super) texts: BTreeMap<u32, String>,
}

/// A part of a payload that may hold calls.
#[derive(Clone, Copy)]
struct Node<'v> {
    choice: u32,
    value: &'v Value,
    /// It was found in a chat chunk, and is of no other protocol.
    is_chat: bool,
    /// How many payloads are around it.
    wrapped: u8,
}

impl Reader<'_, '_> {
    pub(super) fn read(&mut self, payload: &Value, choice: u32, mode: Mode) {
        let mut queue = VecDeque::from([Node { choice, value: payload, is_chat: false, wrapped: 0 }]);
        while let Some(mut node) = queue.pop_front() {
            if node.wrapped == MAX_WRAPPED {
                continue;
            }
            node.wrapped += 1;
            match node.value {
                Value::Array(values) => queue.extend(values.iter().map(|value| Node { value, ..node })),
                Value::Object(members) => self.read_node(node, members, mode, &mut queue),
                _ => {}
            }
        }
    }

    fn read_node<'v>(
        &mut self,
        node: Node<'v>,
        members: &'v Object,
        mode: Mode,
        queue: &mut VecDeque<Node<'v>>,
    ) {
        self.forbids_parallel |= PARALLEL.iter().any(|&key| members.get(key) == Some(&Value::Bool(false)));
        let kind = node_text(members, "type").unwrap_or("");
        if is_call_event(kind) {
            self.read_protocol(Protocol::named("openai-responses"), node, mode);
            return;
        }
        let is_read = self.read_calls(node.choice, kind, members, mode);
        if let Some(Value::Array(choices)) = members.get("choices") {
            queue.extend(choices.iter().filter_map(|choice| chat_content(choice, node)));
        } else if !is_read && !node.is_chat && self.read_protocol(None, node, mode) {
            return;
        }
        self.read_text(node.choice, members);
        queue.extend(CONTAINERS.iter().filter_map(|&key| Some(Node { value: members.get(key)?, ..node })));
    }

    /// Reads the calls that an object lists by itself. Whether it lists any.
    fn read_calls(&mut self, choice: u32, kind: &str, members: &Object, mode: Mode) -> bool {
        let mut is_read = false;
        if kind == "function_call" && members.contains_key("name") {
            self.read_call(choice, None, members, Mode::Message);
            is_read = true;
        }
        for calls in CALLS.iter().filter_map(|&key| members.get(key)?.as_array()) {
            is_read = true;
            for (position, call) in calls.iter().enumerate() {
                if let Value::Object(call) = call {
                    // In a whole message the position is the number. In a delta it says nothing.
                    let position = i64::try_from(position).ok().filter(|_| mode == Mode::Message);
                    let index = INDEX.iter().find_map(|&key| number(node_value(call, key)?)).or(position);
                    self.read_call(choice, index.map(Place::at), call, mode);
                }
            }
        }
        for call in LEGACY.iter().filter_map(|&key| members.get(key)?.as_object()) {
            is_read = true;
            self.read_call(choice, Some(Place::at(0).in_space(Place::MIRROR)), call, mode);
        }
        is_read
    }

    fn read_call(&mut self, choice: u32, place: Option<Place>, call: &Object, mode: Mode) {
        // Some write both, and one of them empty.
        let inner = |key: &str| call.get(key).and_then(Value::as_object);
        let is_told = |inner: &&Object| inner.keys().any(|key| node_value(inner, key).is_some());
        let custom = inner("custom").filter(|custom| is_told(custom) || inner("function").is_none());
        let is_custom = custom.is_some() || node_text(call, "type") == Some("custom");
        let inner = custom.or(inner("function"));
        let name = inner.and_then(|inner| node_text(inner, "name")).or_else(|| node_text(call, "name"));
        let given = [Some(call), inner].into_iter().flatten().find_map(|object| {
            let keys = ARGUMENTS.iter().chain(if is_custom { &["input"][..] } else { &[] });
            keys.into_iter().find_map(|&key| node_value(object, key))
        });
        let json;
        let arguments = match given {
            Some(Value::String(text)) if mode == Mode::Message => Some(Arguments::Whole(Str::Plain(text))),
            Some(Value::String(text)) => Some(Arguments::Text(Str::Plain(text))),
            Some(value) => {
                json = value.to_string();
                Some(Arguments::Value(&json))
            }
            // A message tells whole names.
            None => (mode == Mode::Message).then_some(Arguments::Text(Str::Plain(""))),
        };
        let part = Part::Call {
            id: ID.iter().find_map(|&key| node_text(call, key)).map(Str::Plain),
            name: name.map(Str::Plain),
            kind: if is_custom { CallKind::Custom } else { CallKind::Function },
            word: "",
            arguments,
        };
        self.push(|fragments| fragments.put(Fragment { choice, place, part }));
    }

    /// Takes a call that was found in text.
    pub(super) fn put_text_call(&mut self, choice: u32, block: &ParsedTextBlock) {
        let name = if block.name.is_empty() { UNNAMED } else { &block.name };
        let part = Part::Call {
            id: None,
            name: Some(Str::Plain(name)),
            kind: CallKind::Function,
            word: "",
            arguments: Some(Arguments::Whole(Str::Plain(block.arguments.trim()))),
        };
        self.push(|fragments| fragments.put(Fragment::new(part).in_choice(choice)));
    }

    fn push(&mut self, frame: impl FnOnce(&mut FragmentSink<'_>)) {
        self.weave.push(*self.frames, frame, self.sink);
        *self.frames += 1;
    }

    /// Reads a frame or body of that protocol, or of one that tells itself apart. Whether it held calls.
    fn read_protocol(&mut self, named: Option<&Protocol>, node: Node<'_>, mode: Mode) -> bool {
        let text = node.value.to_string();
        let Self { weave, sink, frames, tape, texts, .. } = self;
        let Ok(value) = tape.parse(&text) else { return false };
        let input = Input { event: None, value };
        // Chat's own wrapping is read by the walk, with every spelling.
        let found = || Protocol::detect(&input).filter(|protocol| protocol.name != "openai-chat");
        let Some(protocol) = named.or_else(found) else { return false };
        let mut has_calls = false;
        let frame = |fragments: &mut FragmentSink<'_>| {
            let choice = node.choice;
            let mut calls = Calls { fragments, choice, mode, texts, has_calls: &mut has_calls };
            protocol.decode(&input, &mut calls);
        };
        weave.push(**frames, frame, *sink);
        **frames += 1;
        has_calls
    }

    fn read_text(&mut self, choice: u32, node: &Object) {
        let mut add = |text: &str| self.texts.entry(choice).or_default().push_str(text);
        match node.get("content") {
            Some(Value::String(text)) => add(text),
            Some(Value::Array(parts)) => {
                for part in parts {
                    if let Some(text) = part.as_str().or_else(|| part.get("text")?.as_str()) {
                        add(text);
                    }
                }
            }
            _ => {
                if let Some(text) = node_text(node, "text") {
                    add(text);
                }
            }
        }
    }
}

/// The delta or message of one of chat's choices. A cumulative message beside a delta tells it twice.
fn chat_content<'v>(choice: &'v Value, node: Node<'v>) -> Option<Node<'v>> {
    let number = choice.get("index").and_then(Value::as_u64).and_then(|index| u32::try_from(index).ok());
    let is_filled = |content: &&Value| content.as_object().is_some_and(|content| !content.is_empty());
    let value = ["delta", "message"].iter().find_map(|&key| choice.get(key).filter(is_filled))?;
    Some(Node { choice: number.unwrap_or(node.choice), value, is_chat: true, ..node })
}

/// Whether a `type` names an event that tells of a call's item or arguments, with or without its family.
fn is_call_event(kind: &str) -> bool {
    matches!(
        kind.strip_prefix("response.").unwrap_or(kind),
        "output_item.added"
            | "output_item.done"
            | "function_call_arguments.delta"
            | "function_call_arguments.done"
            | "custom_tool_call_input.delta"
            | "custom_tool_call_input.done"
    )
}

/// Lets through what a protocol says of the client's calls. Calls that the provider runs itself are not
/// for a handler to pass on.
struct Calls<'c, 's> {
    fragments: &'c mut FragmentSink<'s>,
    choice: u32,
    mode: Mode,
    texts: &'c mut BTreeMap<u32, String>,
    has_calls: &'c mut bool,
}

impl<'f> Sink<Fragment<'f>> for Calls<'_, '_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        let choice = if fragment.choice == 0 { self.choice } else { fragment.choice };
        let shift = |place: Place| match place.is_own() {
            true => place.in_space(place.space.saturating_add(PROTOCOL_SPACES)),
            false => place,
        };
        let place = fragment.place.map(shift);
        match fragment.part {
            Part::Same { name, or } => {
                let part = Part::Same { name, or: or.map(shift) };
                self.fragments.put(Fragment { choice, place, part });
            }
            Part::Call { kind: CallKind::Builtin, .. } => {}
            Part::Call { .. } => {
                *self.has_calls = true;
                self.fragments.put(Fragment { choice, place, part: fragment.part });
            }
            Part::End => self.fragments.put(Fragment { choice, place, part: Part::End }),
            Part::Text { channel: Channel::Text, text, .. }
            | Part::Restate { channel: Channel::Text, text, .. }
                if self.mode == Mode::Message =>
            {
                self.texts.entry(choice).or_default().push_str(&text.to_cow());
            }
            _ => {}
        }
    }
}

/// A member that says something: not null and not `""`.
fn node_value<'v>(object: &'v Object, key: &str) -> Option<&'v Value> {
    object.get(key).filter(|value| !value.is_null() && value.as_str() != Some(""))
}

fn node_text<'v>(object: &'v Object, key: &str) -> Option<&'v str> {
    node_value(object, key)?.as_str()
}

/// A number from 0, or a text of one.
fn number(value: &Value) -> Option<i64> {
    let number = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|&number| number >= 0)
}
