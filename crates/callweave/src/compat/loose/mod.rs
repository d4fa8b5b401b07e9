//! Loose JSON fragments → events: for programs that already took a provider's stream apart.
//!
//! In go decoded JSON values, one per fragment, of four shapes that are recognized by themselves:
//!
//! | shape | looks like |
//! |---|---|
//! | [`FragmentShape::Partials`] | `[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"day"}}]` |
//! | [`FragmentShape::Phase`] | `{"_phase": "start", "_index": 0, "id": "a", "name": "f"}`, then `partial` with `partial_json`, then `stop` |
//! | [`FragmentShape::Complete`] | `{"name": "f", "arguments": {…}}` or `{"id": "a", "name": "f", "input": {…}}` |
//! | [`FragmentShape::Chunk`] | `{"type": "content" \| "thinking" \| "tool_call" \| "meta", …}` |
//!
//! Anything else is ignored. Out come the same [events](crate::event) as from a protocol, by the same
//! [`Weave`]; fragments of different shapes never share a call.
//!
//! ```
//! use callweave::accumulator::Accumulator;
//! use callweave::compat::loose::LooseDecoder;
//! use serde_json::json;
//!
//! let (mut loose, mut answer) = (LooseDecoder::new(), Accumulator::new());
//! loose.push(&json!({"type": "content", "text": "Let me look."}), &mut answer);
//! loose.push(&json!([{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{\"at\":"}}]), &mut answer);
//! loose.push(&json!([{"index": 0, "function": {"arguments": "\"sky\"}"}}]), &mut answer);
//! loose.finish(&mut answer);
//! let message = answer.take();
//! assert_eq!(message.text(), "Let me look.");
//! let call = message.tool_calls().next().expect("one call");
//! assert_eq!((call.name.as_str(), call.arguments()), ("look", r#"{"at":"sky"}"#));
//! ```
//!
//! [`nous`](super::nous) and [`req_llm`](super::req_llm) are accumulators over this decoder with the functions and results that two
//! Elixir libraries are known for.

pub(super) mod chunk;

use crate::event::{CallKind, Event, EventSink};
use crate::finalize::Finalizer;
use crate::fragment::{BlockKey, ExtraScope, Fragment, FragmentArguments, FragmentKind, FragmentSink};
use crate::json::{AsValue, JsonKind, Str, Tape, TapeNode};
use crate::protocol::{CHAT_CALL, CallObject, CallPortion, CallWords};
use crate::weave::Weave;

/// Fragments of one response → events. See the [module](self).
#[derive(Clone, Default)]
pub struct LooseDecoder {
    weave: Weave,
    close: Finalizer,
    tape: Tape,
    fragments: u64,
}

/// The shapes of loose fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentShape {
    /// A list of partial calls as OpenAI streams them.
    Partials,
    /// A call that starts, grows and stops, as Anthropic streams it.
    Phase,
    /// A complete call.
    Complete,
    /// A piece of text, of reasoning, a call, or metadata about the response.
    Chunk,
}

/// Each numbered shape counts for itself.
const PARTIALS: u8 = 0;
const PHASES: u8 = 1;
const CHUNKS: u8 = 2;

const PHASE_WORDS: [&str; 3] = ["start", "partial", "stop"];

/// A complete call.
const COMPLETE: CallWords =
    CallWords { index: &[], wrappers: &[], arguments: &["arguments", "input"], ..CHAT_CALL };

impl FragmentShape {
    /// The shape of a fragment; none if it is of no known shape.
    ///
    /// ```
    /// use callweave::compat::loose::FragmentShape;
    /// use serde_json::json;
    ///
    /// assert_eq!(FragmentShape::of(&json!({"name": "f", "arguments": {}})), Some(FragmentShape::Complete));
    /// assert_eq!(FragmentShape::of(&json!("anything else")), None);
    /// ```
    pub fn of(fragment: &impl AsValue) -> Option<Self> {
        Self::of_node(Tape::new().lay_out(&fragment.as_value()).ok()?)
    }

    fn of_node(fragment: TapeNode<'_>) -> Option<Self> {
        if fragment.kind() == JsonKind::Array {
            return Some(Self::Partials);
        }
        if let Some(phase) = fragment.get("_phase") {
            let is_known = phase.str().is_some_and(|phase| PHASE_WORDS.contains(&phase.written()));
            return (is_known && number(fragment, "_index").is_some()).then_some(Self::Phase);
        }
        if text(fragment, "type").is_some_and(|kind| chunk::is_kind(kind.written())) {
            return Some(Self::Chunk);
        }
        let is_object = |key| fragment.get(key).is_some_and(|value| value.kind() == JsonKind::Object);
        let is_complete = is_object("arguments") || is_object("input") && text(fragment, "id").is_some();
        (is_complete && text(fragment, "name").is_some()).then_some(Self::Complete)
    }
}

impl LooseDecoder {
    /// A decoder before the first fragment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next fragment and returns its shape; one of no known shape is ignored. Notices count fragments where
    /// they would count bytes.
    ///
    /// ```
    /// use callweave::compat::loose::{LooseDecoder, FragmentShape};
    /// use callweave::event::{EventKind, Event};
    /// use serde_json::json;
    ///
    /// let mut events: Vec<Event<'static>> = Vec::new();
    /// let mut loose = LooseDecoder::new();
    /// let start = json!({"_phase": "start", "_index": 1, "id": "tu", "name": "find"});
    /// assert_eq!(loose.push(&start, &mut events), Some(FragmentShape::Phase));
    /// assert_eq!(loose.push(&json!({"weather": "fair"}), &mut events), None);
    /// assert!(matches!(events.last().map(|event| &event.body), Some(EventKind::BlockStart { .. })));
    /// ```
    pub fn push(&mut self, fragment: &impl AsValue, sink: &mut EventSink<'_>) -> Option<FragmentShape> {
        let offset = self.fragments;
        self.fragments += 1;
        let Self { weave, close, tape, .. } = self;
        let fragment = tape.lay_out(&fragment.as_value()).ok()?;
        let shape = FragmentShape::of_node(fragment)?;
        let mut sink = |event: Event<'_>| close.push(event, sink);
        weave.push(offset, |fragments| read(shape, fragment, fragments), &mut sink);
        Some(shape)
    }

    /// The last reason to finish that came, as it came.
    pub(super) fn raw_finish_reason(&self) -> Option<&str> {
        self.weave.raw_finish_reason(0)
    }

    /// Says that no fragment will come any more.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        // These shapes have no end marker: the caller says with this that nothing is missing.
        let Self { weave, close, fragments, .. } = self;
        let mut sink = |event: Event<'_>| close.push(event, sink);
        weave.push(*fragments, |fragments| fragments.put(Fragment::new(FragmentKind::Done)), &mut sink);
        weave.finish(&mut sink);
    }
}

fn read(shape: FragmentShape, fragment: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    match shape {
        FragmentShape::Partials => fragment
            .elements()
            .filter(|partial| partial.kind() == JsonKind::Object)
            .for_each(|partial| read_partial(partial, sink)),
        FragmentShape::Phase => read_phase(fragment, sink),
        FragmentShape::Complete => read_complete(fragment, sink),
        FragmentShape::Chunk => chunk::read(fragment, sink),
    }
}

/// A piece of a call. Without an index it opens a call if it has a name, and continues the last one if
/// it has none: it never merges two calls.
fn read_partial(partial: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    let call = CallObject::read(partial, &CHAT_CALL, |path, key, value| extra(path, key, value, sink));
    let arguments = call.told(CallPortion::Piece);
    let CallObject { id, name, kind, index, .. } = call;
    // An index of null is the first, unless it is known by its id which call is meant.
    let is_null = partial.get("index").is_some_and(TapeNode::is_null) && id.is_none() && name.is_some();
    let number = index.and_then(TapeNode::index).or(is_null.then_some(0));
    let place = number.map(|index| BlockKey::at(index).in_space(PARTIALS));
    sink.put(Fragment {
        choice: 0,
        key: place,
        part: FragmentKind::Call {
            id: id.map(Into::into),
            name: name.map(Into::into),
            kind,
            wire_type: wire_type::PARTIAL,
            arguments,
        },
    });
}

fn read_phase(phase: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    let Some(index) = number(phase, "_index") else { return };
    let place = BlockKey::at(index).in_space(PHASES);
    let call = |id, name, arguments| FragmentKind::Call {
        id,
        name,
        kind: CallKind::Function,
        wire_type: wire_type::PHASE,
        arguments: Some(arguments),
    };
    let part = match (text(phase, "_phase").map(Str::written), phase.get("partial_json")) {
        (Some("start"), _) => {
            let input = phase.get("input").filter(|input| input.members().next().is_some());
            call(text(phase, "id").map(Into::into), text(phase, "name").map(Into::into), opening(input))
        }
        (Some("partial"), piece) => match piece.and_then(TapeNode::str) {
            Some(piece) => call(None, None, FragmentArguments::Text(piece.into())),
            None => return,
        },
        _ => FragmentKind::End,
    };
    sink.put(Fragment::new(part).at(place));
}

fn read_complete(call: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    let call = CallObject::read(call, &COMPLETE, |path, key, value| {
        if key != "type" {
            extra(path, key, value, sink);
        }
    });
    let CallObject { id, name, kind, arguments, .. } = call;
    let arguments = Some(opening(arguments));
    sink.put(Fragment::new(FragmentKind::Call {
        id: id.map(Into::into),
        name: name.map(Into::into),
        kind,
        wire_type: wire_type::COMPLETE,
        arguments,
    }));
    sink.put(Fragment::new(FragmentKind::End).at(BlockKey::LAST));
}

/// Arguments that stand unless others follow.
fn opening(value: Option<TapeNode<'_>>) -> FragmentArguments<'_> {
    FragmentArguments::Opening {
        fallback: (value.map(|value| Str::Plain(value.raw()))).map(Into::into),
        expects_text: false,
    }
}

/// The wire types of the blocks of each shape.
pub(super) mod wire_type {
    pub(in crate::compat) const PARTIAL: &str = "partial";
    pub(in crate::compat) const PHASE: &str = "phase";
    pub(in crate::compat) const COMPLETE: &str = "complete";
    pub(in crate::compat) const CHUNK: &str = "tool_call";
}

/// Passes on an extra field of the block that comes next. A null says nothing.
fn extra(path: &'static str, key: &str, value: TapeNode<'_>, sink: &mut FragmentSink<'_>) {
    if !value.is_null() {
        let part = FragmentKind::Extra { level: ExtraScope::Next, path, key, value: value.raw().into() };
        sink.put(Fragment::new(part));
    }
}

/// The text of a member; `""` is none.
fn text<'v>(object: TapeNode<'v>, key: &str) -> Option<Str<'v>> {
    object.get(key).and_then(TapeNode::filled)
}

/// A member that is a number.
fn number(object: TapeNode<'_>, key: &str) -> Option<i64> {
    object.get(key).filter(|value| value.kind() == JsonKind::Number).and_then(TapeNode::index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::accumulator::Accumulator;
    use crate::grammar::EventValidator;
    use crate::message::Message;

    fn collect(fragments: &[serde_json::Value]) -> Message {
        let (mut loose, mut answer) = (LooseDecoder::new(), Accumulator::new());
        for fragment in fragments {
            loose.push(fragment, &mut answer);
        }
        loose.finish(&mut answer);
        answer.take()
    }

    fn calls(fragments: &[serde_json::Value]) -> Vec<(String, String)> {
        let message = collect(fragments);
        message.tool_calls().map(|call| (call.name.clone(), call.arguments().to_owned())).collect()
    }

    #[test]
    fn the_same_number_in_different_shapes_is_different_calls() {
        let fragments = [
            json!([{"index": 0, "function": {"name": "a", "arguments": "{\"a\":"}}]),
            json!({"_phase": "start", "_index": 0, "name": "b"}),
            json!({"type": "tool_call", "name": "c", "metadata": {"index": 0}}),
            json!({"type": "meta", "metadata": {"tool_call_args": {"index": 0, "fragment": "{\"c\":3}"}}}),
            json!({"_phase": "partial", "_index": 0, "partial_json": "{\"b\":2}"}),
            json!([{"index": 0, "function": {"arguments": "1}"}}]),
        ];
        let expected = [("a", r#"{"a":1}"#), ("b", r#"{"b":2}"#), ("c", r#"{"c":3}"#)];
        assert_eq!(calls(&fragments), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn calls_at_one_number_with_equal_arguments_stay_apart() {
        let call = |name: &str| json!([{"index": 0, "function": {"name": name, "arguments": "{}"}}]);
        assert_eq!(calls(&[call("list"), call("status")]).len(), 2);
    }

    #[test]
    fn a_name_in_pieces_beside_empty_arguments_is_whole() {
        let piece = |name: &str| json!([{"index": 0, "function": {"name": name, "arguments": ""}}]);
        let arguments = json!([{"index": 0, "function": {"arguments": "{}"}}]);
        let calls = calls(&[piece("get_"), piece("weather"), arguments]);
        assert_eq!(calls, [("get_weather".to_owned(), "{}".to_owned())]);
    }

    #[test]
    fn calls_without_a_number_stay_apart() {
        let fragments = [json!([
            {"id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"id": "b", "function": {"name": "f", "arguments": "{\"x\":2}"}},
        ])];
        assert_eq!(calls(&fragments).len(), 2);
    }

    #[test]
    fn whole_calls_of_one_id_are_one_only_if_they_are_the_same() {
        let call = |k: u8| json!({"id": "x", "name": "f", "input": {"k": k}});
        assert_eq!(calls(&[call(1), call(1)]).len(), 1);
        assert_eq!(calls(&[call(1), call(2)]).len(), 2);
    }

    #[test]
    fn text_under_another_number_is_not_for_the_call_that_was_announced() {
        let fragments = [
            json!({"type": "tool_call", "name": "f", "arguments": {"k": 1}, "metadata": {"id": "a"}}),
            json!({"type": "meta", "metadata": {"tool_call_args": {"index": 7, "fragment": "{\"lost\":1}"}}}),
        ];
        let message = collect(&fragments);
        let call = message.tool_calls().next().expect("the announced call");
        assert_eq!((call.name.as_str(), call.arguments()), ("f", r#"{"k":1}"#));
    }

    #[test]
    fn text_that_was_expected_and_never_came_is_no_empty_object() {
        let opening = json!({"type": "tool_call", "name": "f", "metadata": {"id": "a", "start": true}});
        let message = collect(std::slice::from_ref(&opening));
        assert!(message.tool_calls().next().expect("one call").invalid().is_some());
        // A tool without parameters has one empty piece.
        let empty = json!({"type": "meta", "metadata": {"tool_call_args": {"fragment": ""}}});
        let message = collect(&[opening, empty]);
        assert_eq!(message.tool_calls().next().expect("one call").arguments(), "{}");
    }

    #[test]
    fn the_events_are_well_formed() {
        let fragments = [
            json!({"type": "thinking", "text": "hm", "metadata": {"signature": "s"}}),
            json!({"type": "content", "text": "well"}),
            json!({"name": "f", "arguments": {"k": [1, 2]}, "metadata": {"thought_signature": "t"}}),
            json!({"_phase": "partial", "_index": 3, "partial_json": "{"}),
            json!({"_phase": "start", "_index": 3, "id": "i"}),
            json!({"_phase": "stop", "_index": 3}),
            json!({"_phase": "stop", "_index": 9}),
            json!([null, {"function": null}, {"index": -1, "function": {"arguments": [1]}}]),
        ];
        for end in 0..=fragments.len() {
            let mut validator = EventValidator::new();
            let mut loose = LooseDecoder::new();
            for fragment in &fragments[..end] {
                loose.push(fragment, &mut validator);
            }
            loose.finish(&mut validator);
            assert_eq!(validator.finish(), Vec::<String>::new(), "after {end} fragments");
        }
    }
}
