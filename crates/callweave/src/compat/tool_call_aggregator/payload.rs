//! Finds the calls in a payload of any wrapping, and emits them as fragments.

use std::collections::{BTreeMap, VecDeque};

use super::TurnState;
use super::text::ParsedTextBlock;
use crate::event::{CallKind, Sink};
use crate::fragment::{BlockKey, Fragment, FragmentArguments, FragmentKind, FragmentSink, TextChannel};
use crate::json::{JsonKind, Str, TapeNode as Value};
use crate::protocol::{CallObject, CallPortion, CallWords, Protocol, ProtocolFrame};

/// The members under which the same thing is known.
const CALLS: &[&str] = &["tool_calls", "toolCalls"];
const LEGACY: &[&str] = &["function_call", "functionCall"];
const PARALLEL: &[&str] = &["parallel_tool_calls", "parallelToolCalls"];
const CALL: CallWords = CallWords {
    id: &["id", "tool_call_id", "toolCallId", "call_id", "callId", "item_id"],
    index: &["index", "tool_call_index", "toolCallIndex"],
    wrappers: &["function", "custom"],
    arguments: ARGUMENTS,
    wrapped: ARGUMENTS,
};
const ARGUMENTS: &[&str] = &["arguments", "arguments_chunk", "argumentsChunk", "input"];
/// The members in which a payload wraps another.
const CONTAINERS: &[&str] = &["msg", "message", "delta", "deltas", "items", "params"];

/// The maximum number of wrappings, which no wire exceeds; each wrapping is looked at as a whole.
const MAX_WRAPPED: u8 = 16;

/// The numbering of fragments that name no call, and where the numberings of the protocols begin.
const ANONYMOUS_SPACE: u8 = 7;
const PROTOCOL_SPACES: u8 = 8;

/// The name of the tool that a block in text calls if it names none.
const UNNAMED: &str = "use_tool";

/// Reads payloads into the fold, one frame per call, so that the calls of a list begin in its order, whether or not
/// their names are settled.
pub(super) struct PayloadReader<'r> {
    pub(super) turn: &'r mut TurnState,
    /// Whether a payload brings pieces or complete calls.
    pub(super) portion: CallPortion,
    /// The visible text of each choice.
    pub(super) texts: BTreeMap<u32, String>,
}

/// A part of a payload that may hold calls.
#[derive(Clone, Copy)]
struct PayloadNode<'v> {
    choice: u32,
    value: Value<'v>,
    /// It was found in a chat chunk, and is of no other protocol.
    is_chat: bool,
    /// How many payloads are around it.
    wrapped: u8,
}

/// Whether the payload forbids parallel calls, be it in some options of the request that it repeats. Text that a model
/// wrote forbids nothing.
pub(super) fn forbids_parallel(payload: Value<'_>) -> bool {
    let mut open = vec![payload];
    while let Some(value) = open.pop() {
        for (key, member) in value.members() {
            if PARALLEL.contains(&key) && member.bool() == Some(false) {
                return true;
            }
            if !ARGUMENTS.contains(&key) && matches!(member.kind(), JsonKind::Object | JsonKind::Array) {
                open.push(member);
            }
        }
        open.extend(value.elements());
    }
    false
}

impl PayloadReader<'_> {
    pub(super) fn read(&mut self, payload: Value<'_>, choice: u32) {
        let mut queue = VecDeque::from([PayloadNode { choice, value: payload, is_chat: false, wrapped: 0 }]);
        while let Some(mut node) = queue.pop_front() {
            if node.wrapped < MAX_WRAPPED {
                node.wrapped += 1;
                queue.extend(node.value.elements().map(|value| PayloadNode { value, ..node }));
                if node.value.kind() == JsonKind::Object {
                    self.read_node(node, &mut queue);
                }
            }
        }
    }

    fn read_node<'v>(&mut self, node: PayloadNode<'v>, queue: &mut VecDeque<PayloadNode<'v>>) {
        let kind = node.value.get("type").and_then(Value::str).map_or("", Str::written);
        if is_call_event(kind) {
            self.read_protocol(Protocol::named("openai-responses"), node);
            return;
        }
        let is_read = self.read_calls(node.choice, kind, node.value);
        if let Some(choices) = node.value.get("choices").filter(|choices| choices.kind() == JsonKind::Array) {
            queue.extend(choices.elements().filter_map(|choice| chat_content(choice, node)));
        } else if !is_read && !node.is_chat && self.read_protocol(None, node) {
            return;
        }
        self.read_text(node.choice, node.value);
        let contained = CONTAINERS.iter().filter_map(|key| node.value.get(key));
        queue.extend(contained.map(|value| PayloadNode { value, ..node }));
    }

    /// Reads the calls that an object lists by itself. Whether it lists any.
    fn read_calls(&mut self, choice: u32, kind: &str, value: Value<'_>) -> bool {
        let mut is_read = false;
        if kind == "function_call" && value.get("name").is_some() {
            self.read_call(choice, None, value, CallPortion::Complete);
            is_read = true;
        }
        let is_list = |list: &Value<'_>| list.kind() == JsonKind::Array;
        for calls in CALLS.iter().filter_map(|key| value.get(key).filter(is_list)) {
            is_read = true;
            for (position, call) in
                (0..).zip(calls.elements()).filter(|(_, call)| call.kind() == JsonKind::Object)
            {
                // In a complete message the position is the number. In a delta it says nothing.
                let position = (self.portion == CallPortion::Complete).then(|| BlockKey::at(position));
                self.read_call(choice, position, call, self.portion);
            }
        }
        let is_object = |call: &Value<'_>| call.kind() == JsonKind::Object;
        for call in LEGACY.iter().filter_map(|key| value.get(key).filter(is_object)) {
            is_read = true;
            self.read_call(choice, Some(BlockKey::at(0).in_space(BlockKey::MIRROR)), call, self.portion);
        }
        is_read
    }

    /// Reads one call, which has that block key unless it has a number.
    fn read_call(&mut self, choice: u32, place: Option<BlockKey>, call: Value<'_>, portion: CallPortion) {
        let call = CallObject::read(call, &CALL, |_, _, _| {});
        let number = call.index.and_then(Value::index).filter(|&number| number >= 0);
        let place = number.map(BlockKey::at).or(place);
        // A message has complete names.
        let is_settled = portion == CallPortion::Complete;
        let arguments = call.told(portion).or(is_settled.then_some(FragmentArguments::Text("".into())));
        let CallObject { id, name, kind, .. } = call;
        if place.is_none() && id.is_none() && name.is_none() {
            return self.read_anonymous(choice, kind, arguments);
        }
        let part = FragmentKind::Call {
            id: id.map(Into::into),
            name: name.map(Into::into),
            kind,
            wire_type: "",
            arguments,
        };
        self.turn.push(|fragments| fragments.put(Fragment { choice, key: place, part }));
    }

    /// A piece that names no call is of the only one that is open, and else of one of its own.
    fn read_anonymous(&mut self, choice: u32, kind: CallKind, arguments: Option<FragmentArguments<'_>>) {
        let Some(arguments) = arguments else { return };
        let mut part =
            FragmentKind::Call { id: None, name: None, kind, wire_type: "", arguments: Some(arguments) };
        if let Some((known, place)) = self.turn.only_open(choice) {
            if let FragmentKind::Call { id, .. } = &mut part {
                *id = known.as_deref().map(Into::into);
            }
            return self.turn.push(|fragments| fragments.put(Fragment { choice, key: place, part }));
        }
        let fallback = match arguments {
            FragmentArguments::Text(text) | FragmentArguments::Complete(text) => Some(text),
            FragmentArguments::Value(json) => Some(json),
            FragmentArguments::Leaf { .. } | FragmentArguments::Opening { .. } => None,
        };
        if let FragmentKind::Call { arguments, .. } = &mut part {
            *arguments = Some(FragmentArguments::Opening { fallback, expects_text: false });
        }
        let place = Some(BlockKey::at(self.turn.frames.cast_signed()).in_space(ANONYMOUS_SPACE));
        self.turn.push(|fragments| {
            fragments.put(Fragment { choice, key: place, part });
            fragments.put(Fragment { choice, key: place, part: FragmentKind::End });
        });
    }

    /// Takes a call that was found in text.
    pub(super) fn put_text_call(&mut self, choice: u32, block: &ParsedTextBlock) {
        let name = if block.name.is_empty() { UNNAMED } else { &block.name };
        let part = FragmentKind::Call {
            id: None,
            name: Some(Str::Plain(name).into()),
            kind: CallKind::Function,
            wire_type: "",
            arguments: Some(FragmentArguments::Complete(Str::Plain(block.args_text.trim()).into())),
        };
        self.turn.push(|fragments| fragments.put(Fragment::new(part).in_choice(choice)));
    }

    /// Reads a frame or body of that protocol, or of one that is recognized by itself. Returns whether it held calls.
    fn read_protocol(&mut self, named: Option<&Protocol>, node: PayloadNode<'_>) -> bool {
        let input = ProtocolFrame { event: None, value: node.value };
        // Chat's own wrapping is read by the walk, with every spelling.
        let found = || Protocol::detect(&input).filter(|protocol| protocol.name != "openai-chat");
        let Some(protocol) = named.or_else(found) else { return false };
        let (mut has_calls, Self { turn, portion, texts }) = (false, self);
        turn.push(|fragments| {
            let (choice, portion) = (node.choice, *portion);
            let mut calls = ClientCalls { fragments, choice, portion, texts, has_calls: &mut has_calls };
            protocol.decode(&input, &mut calls);
        });
        has_calls
    }

    fn read_text(&mut self, choice: u32, value: Value<'_>) {
        let mut add = |text: Str<'_>| self.texts.entry(choice).or_default().push_str(&text.to_cow());
        match value
            .get("content")
            .filter(|content| matches!(content.kind(), JsonKind::String | JsonKind::Array))
        {
            Some(content) => {
                content.str().into_iter().for_each(&mut add);
                let parts = content.elements();
                parts.filter_map(|part| part.str().or_else(|| part.get("text")?.str())).for_each(add);
            }
            None => value.get("text").and_then(Value::filled).into_iter().for_each(add),
        }
    }
}

/// The delta or message of one of chat's choices. A cumulative message beside a delta repeats it.
fn chat_content<'v>(choice: Value<'v>, node: PayloadNode<'v>) -> Option<PayloadNode<'v>> {
    let number = choice.get("index").and_then(Value::count).and_then(|index| u32::try_from(index).ok());
    let is_filled = |content: &Value<'_>| content.members().next().is_some();
    let value = ["delta", "message"].iter().find_map(|key| choice.get(key).filter(is_filled))?;
    Some(PayloadNode { choice: number.unwrap_or(node.choice), value, is_chat: true, ..node })
}

/// Whether a `type` names an event about a call's item or arguments, with or without its family.
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

/// Lets through the fragments of the client's calls. Calls that the provider runs itself are not for a handler to pass
/// on.
struct ClientCalls<'c, 's> {
    fragments: &'c mut FragmentSink<'s>,
    choice: u32,
    portion: CallPortion,
    texts: &'c mut BTreeMap<u32, String>,
    has_calls: &'c mut bool,
}

impl<'f> Sink<Fragment<'f>> for ClientCalls<'_, '_> {
    fn put(&mut self, fragment: Fragment<'f>) {
        let choice = if fragment.choice == 0 { self.choice } else { fragment.choice };
        let shift = |place: BlockKey| place.shifted(PROTOCOL_SPACES);
        let place = fragment.key.map(shift);
        match fragment.part {
            FragmentKind::Same { name, or } => {
                let part = FragmentKind::Same { name, or: or.map(shift) };
                self.fragments.put(Fragment { choice, key: place, part });
            }
            FragmentKind::Call { kind: CallKind::Builtin, .. } => {}
            FragmentKind::Call { .. } => {
                *self.has_calls = true;
                self.fragments.put(Fragment { choice, key: place, part: fragment.part });
            }
            FragmentKind::End | FragmentKind::Truncated => {
                self.fragments.put(Fragment { choice, key: place, part: fragment.part })
            }
            FragmentKind::Text { channel: TextChannel::Text, text, .. }
            | FragmentKind::Restate { channel: TextChannel::Text, text, .. }
                if self.portion == CallPortion::Complete =>
            {
                self.texts.entry(choice).or_default().push_str(&text.reveal().to_cow());
            }
            _ => {}
        }
    }
}
