//! Loose JSON fragments → events: for programs that already took a provider's stream apart.
//!
//! In go decoded JSON values, one per fragment, of four shapes that are told apart by themselves:
//!
//! | shape | looks like |
//! |---|---|
//! | [`Shape::Partials`] | `[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"day"}}]` |
//! | [`Shape::Phase`] | `{"_phase": "start", "_index": 0, "id": "a", "name": "f"}`, then `partial` with `partial_json`, then `stop` |
//! | [`Shape::Complete`] | `{"name": "f", "arguments": {…}}` or `{"id": "a", "name": "f", "input": {…}}` |
//! | [`Shape::Chunk`] | `{"type": "content" \| "thinking" \| "tool_call" \| "meta", …}` |
//!
//! Anything else is ignored. Out come the same [events](crate::event) as from a protocol, by the same
//! [`Weave`]; fragments of different shapes never share a call.
//!
//! ```
//! use callweave::accumulator::Accumulator;
//! use callweave::loose::Loose;
//! use serde_json::json;
//!
//! let (mut loose, mut answer) = (Loose::new(), Accumulator::new());
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
//! [`nous`] and [`reqllm`] are accumulators over this decoder with the functions and results that two
//! Elixir libraries are known for.

mod chunk;
pub mod nous;
pub mod reqllm;

use crate::close::Close;
use crate::event::{CallKind, Event, EventSink};
use crate::fragment::{Arguments, Fragment, FragmentSink, Level, Part, Place};
use crate::json::{AsValue, Object, Str, Value};
use crate::weave::Weave;

/// Fragments of one answer → events. See the [module](self).
#[derive(Clone, Default)]
pub struct Loose {
    weave: Weave,
    close: Close,
    fragments: u64,
}

/// The shapes of loose fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A list of partial calls as OpenAI streams them.
    Partials,
    /// A call that starts, grows and stops, as Anthropic streams it.
    Phase,
    /// A whole call.
    Complete,
    /// A piece of text, of thoughts, a call, or something about the answer.
    Chunk,
}

/// Each numbered shape counts for itself.
const PARTIALS: u8 = 0;
const PHASES: u8 = 1;
const CHUNKS: u8 = 2;

impl Shape {
    /// The shape of a fragment; none if it is of no known shape.
    ///
    /// ```
    /// use callweave::loose::Shape;
    /// use serde_json::json;
    ///
    /// assert_eq!(Shape::of(&json!({"name": "f", "arguments": {}})), Some(Shape::Complete));
    /// assert_eq!(Shape::of(&json!("anything else")), None);
    /// ```
    pub fn of(fragment: &impl AsValue) -> Option<Self> {
        Self::of_value(&fragment.as_value())
    }

    fn of_value(fragment: &Value) -> Option<Self> {
        let object = match fragment {
            Value::Array(_) => return Some(Self::Partials),
            Value::Object(object) => object,
            _ => return None,
        };
        if object.contains_key("_phase") {
            let is_known = matches!(text(object, "_phase"), Some("start" | "partial" | "stop"));
            return (is_known && number(object, "_index").is_some()).then_some(Self::Phase);
        }
        if text(object, "type").is_some_and(chunk::is_kind) {
            return Some(Self::Chunk);
        }
        let is_object = |key| object.get(key).is_some_and(Value::is_object);
        let is_complete = is_object("arguments") || is_object("input") && text(object, "id").is_some();
        (is_complete && text(object, "name").is_some()).then_some(Self::Complete)
    }
}

impl Loose {
    /// A decoder before the first fragment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next fragment and says of what shape it was; one of no known shape is ignored.
    /// Notices count fragments where they would count bytes.
    ///
    /// ```
    /// use callweave::event::{Body, Event};
    /// use callweave::loose::{Loose, Shape};
    /// use serde_json::json;
    ///
    /// let mut events: Vec<Event<'static>> = Vec::new();
    /// let mut loose = Loose::new();
    /// let start = json!({"_phase": "start", "_index": 1, "id": "tu", "name": "find"});
    /// assert_eq!(loose.push(&start, &mut events), Some(Shape::Phase));
    /// assert_eq!(loose.push(&json!({"weather": "fair"}), &mut events), None);
    /// assert!(matches!(events.last().map(|event| &event.body), Some(Body::BlockStart { .. })));
    /// ```
    pub fn push(&mut self, fragment: &impl AsValue, sink: &mut EventSink<'_>) -> Option<Shape> {
        let fragment = &*fragment.as_value();
        let offset = self.fragments;
        self.fragments += 1;
        let shape = Shape::of(fragment)?;
        let Self { weave, close, .. } = self;
        let mut sink = |event: Event<'_>| close.push(event, sink);
        weave.push(offset, |fragments| read(shape, fragment, fragments), &mut sink);
        Some(shape)
    }

    /// Says that no fragment will come any more.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        // These shapes have no end marker: whoever calls this says that nothing is missing.
        let Self { weave, close, fragments } = self;
        let mut sink = |event: Event<'_>| close.push(event, sink);
        weave.push(*fragments, |fragments| fragments.put(Fragment::new(Part::Done)), &mut sink);
        weave.finish(&mut sink);
    }
}

fn read(shape: Shape, fragment: &Value, sink: &mut FragmentSink<'_>) {
    match (shape, fragment) {
        (Shape::Partials, Value::Array(partials)) => {
            partials.iter().filter_map(Value::as_object).for_each(|partial| read_partial(partial, sink));
        }
        (Shape::Phase, Value::Object(phase)) => read_phase(phase, sink),
        (Shape::Complete, Value::Object(call)) => read_complete(call, sink),
        (Shape::Chunk, Value::Object(chunk)) => chunk::read(chunk, sink),
        _ => {}
    }
}

/// A piece of a call. Without an index it opens a call if it has a name, and continues the last one if
/// it has none: it never merges two calls.
fn read_partial(partial: &Object, sink: &mut FragmentSink<'_>) {
    let function = partial.get("function").and_then(Value::as_object);
    let place = number(partial, "index").map(|index| Place::at(index).in_space(PARTIALS));
    let value = function.and_then(|function| function.get("arguments"));
    let json;
    let arguments = match value {
        None | Some(Value::Null) => None,
        // The name beside an empty piece may still grow.
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => Some(Arguments::Text(Str::Plain(text))),
        Some(value) => {
            json = value.to_string();
            Some(Arguments::Value(&json))
        }
    };
    let part = Part::Call {
        id: text(partial, "id").map(Str::Plain),
        name: function.and_then(|function| text(function, "name")).map(Str::Plain),
        kind: CallKind::Function,
        word: "",
        arguments,
    };
    foreign("", partial, |key| !matches!(key, "index" | "id" | "type" | "function"), sink);
    sink.put(Fragment { choice: 0, place, part });
}

fn read_phase(phase: &Object, sink: &mut FragmentSink<'_>) {
    let Some(index) = number(phase, "_index") else { return };
    let place = Place::at(index).in_space(PHASES);
    let mut put = |part| sink.put(Fragment::new(part).at(place));
    match text(phase, "_phase") {
        Some("start") => {
            let input = phase.get("input").and_then(Value::as_object).filter(|input| !input.is_empty());
            let input = input.map(Object::to_string);
            put(Part::Call {
                id: text(phase, "id").map(Str::Plain),
                name: text(phase, "name").map(Str::Plain),
                kind: CallKind::Function,
                word: "",
                arguments: Some(Arguments::Opening {
                    fallback: input.as_deref().map(Str::Plain),
                    expects_text: false,
                }),
            });
        }
        Some("partial") => {
            if let Some(Value::String(piece)) = phase.get("partial_json") {
                let arguments = Some(Arguments::Text(Str::Plain(piece)));
                put(Part::Call { id: None, name: None, kind: CallKind::Function, word: "", arguments });
            }
        }
        _ => put(Part::End),
    }
}

fn read_complete(call: &Object, sink: &mut FragmentSink<'_>) {
    let given =
        ["arguments", "input"].iter().find_map(|&key| call.get(key).filter(|value| value.is_object()));
    let json = given.map(Value::to_string);
    foreign("", call, |key| !matches!(key, "id" | "name" | "type" | "arguments" | "input"), sink);
    sink.put(Fragment::new(Part::Call {
        id: text(call, "id").map(Str::Plain),
        name: text(call, "name").map(Str::Plain),
        kind: CallKind::Function,
        word: "",
        arguments: Some(Arguments::Opening {
            fallback: json.as_deref().map(Str::Plain),
            expects_text: false,
        }),
    }));
    sink.put(Fragment::new(Part::End).at(Place::LAST));
}

/// Passes on members of `object` as what only the sender knows of the block that comes next. A null says nothing.
fn foreign(
    path: &'static str,
    object: &Object,
    is_wanted: impl Fn(&str) -> bool,
    sink: &mut FragmentSink<'_>,
) {
    for (key, value) in object {
        if is_wanted(key) && !value.is_null() {
            let part = Part::Foreign { level: Level::Next, path, key, value: &value.to_string() };
            sink.put(Fragment::new(part));
        }
    }
}

/// The text of a member; `""` is none.
fn text<'v>(object: &'v Object, key: &str) -> Option<&'v str> {
    object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn number(object: &Object, key: &str) -> Option<i64> {
    object.get(key).and_then(Value::as_i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::accumulator::Accumulator;
    use crate::grammar::Validator;
    use crate::message::Message;

    fn collect(fragments: &[serde_json::Value]) -> Message {
        let (mut loose, mut answer) = (Loose::new(), Accumulator::new());
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
            let mut validator = Validator::new();
            let mut loose = Loose::new();
            for fragment in &fragments[..end] {
                loose.push(fragment, &mut validator);
            }
            loose.finish(&mut validator);
            assert_eq!(validator.finish(), Vec::<String>::new(), "after {end} fragments");
        }
    }
}
