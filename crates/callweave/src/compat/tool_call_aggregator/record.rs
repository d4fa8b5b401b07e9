//! The records, deltas and renderings that handlers stream and return.

use crate::json::{Object, Value};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::event::{BlockCompletion, CallKind};
use crate::json::{JsonScanner, ScanStatus};
use crate::message::ToolCall;

/// The current state of a call. Serialises to `{id, type, function: {name}, arguments}`, that of a custom tool to `{id,
/// type, custom: {name, input}}`; with `incomplete` where more of it was to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCallRecord<'a> {
    /// Its id, stable for the turn: the provider's if it came with the call, else made.
    pub id: &'a str,
    /// The provider's id, whenever it came: the one that the provider expects back.
    pub provider_id: Option<&'a str>,
    /// Its position among the calls of the choice.
    pub ordinal: usize,
    /// The kind of its arguments.
    pub kind: CallKind,
    /// The tool's name.
    pub name: &'a str,
    pub(super) arguments: &'a str,
    /// How it ended, if it has.
    pub(super) completion: Option<BlockCompletion>,
}

/// A call that changed. Serialises as its record does, with the latest complete argument text, if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCallDelta<'a> {
    /// The choice it belongs to.
    pub choice: u32,
    /// The call as it stands now.
    pub call: ToolCallRecord<'a>,
    /// The text added to the arguments since the last delta of this call; none if the provider replaced the text, which
    /// increments can no longer express.
    pub increment: Option<&'a str>,
    pub(super) news: CallNews,
}

/// The parts of a call that have not been emitted before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallNews {
    pub(super) identity: bool,
    /// The byte of the name from which on it is new.
    pub(super) name: Option<usize>,
    pub(super) arguments: bool,
}

/// The changes made by an ingest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IngestDeltaResult<'a> {
    /// Whether there is anything to stream.
    pub updated: bool,
    /// The calls that changed, in order.
    pub deltas: Vec<ToolCallDelta<'a>>,
}

/// How a kind of call is written: its type, which is also the member that holds it, and the member for its text.
struct CallShape {
    wire_type: &'static str,
    text: &'static str,
}

impl<'a> ToolCallRecord<'a> {
    /// The complete argument text so far, as the model wrote it; empty if there is none.
    pub fn arguments(&self) -> &'a str {
        self.arguments
    }

    /// The call as the rest of the library has it, with its arguments in types of your own and the reason why it cannot
    /// be run, if it cannot.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize)]
    /// struct Look { at: String }
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "look", "arguments": "{\"at\":\"sky\""}}), None);
    /// assert!(aggregator.snapshot(None)[0].to_call().invalid().is_some());
    /// aggregator.ingest_delta(&json!({"function_call": {"arguments": "}"}}), None);
    /// assert_eq!(aggregator.snapshot(None)[0].to_call().parse::<Look>()?.at, "sky");
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn to_call(&self) -> ToolCall {
        let mut call = ToolCall::new(self.id, self.name, self.arguments);
        call.has_made_id = self.provider_id != Some(self.id);
        call.kind = self.kind;
        call.completion = match self.completion {
            Some(completion) => completion,
            None if self.is_incomplete() => BlockCompletion::Truncated,
            None => BlockCompletion::Complete,
        };
        call
    }

    /// Whether more of the call was to come: its arguments are no complete value yet, or the provider said that it was
    /// truncated. Once the response is over, such a call is not to be run.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f", "arguments": "{\"a\":"}}), None);
    /// assert!(aggregator.snapshot(None)[0].is_incomplete());
    /// aggregator.ingest_delta(&json!({"function_call": {"arguments": "1}"}}), None);
    /// assert!(!aggregator.snapshot(None)[0].is_incomplete());
    /// ```
    pub fn is_incomplete(&self) -> bool {
        if let Some(completion) = self.completion {
            return completion != BlockCompletion::Complete;
        }
        let mut scanner = JsonScanner::new();
        scanner.push(self.arguments);
        self.kind != CallKind::Custom && scanner.finish() == ScanStatus::Open
    }

    /// An element of a message's `tool_calls`.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// use serde_json::json;
    ///
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f", "arguments": "{}"}}), None);
    /// let call = json!({"id": "tool_0_0", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    /// assert_eq!(aggregator.snapshot(None)[0].to_tool_call(), call);
    /// ```
    pub fn to_tool_call(&self) -> Value {
        let CallShape { wire_type, text } = self.shape();
        let told = Value::object([("name", self.name.into()), (text, self.arguments.into())]);
        Value::object([("id", self.id.into()), ("type", wire_type.into()), (wire_type, told)])
    }

    fn shape(&self) -> CallShape {
        match self.kind {
            CallKind::Function | CallKind::Builtin => CallShape { wire_type: "function", text: "arguments" },
            CallKind::Custom => CallShape { wire_type: "custom", text: "input" },
        }
    }

    /// A message's singular `function_call`.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// aggregator.ingest_delta(&json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}), None);
    /// assert_eq!(aggregator.snapshot(None)[0].to_function_call(), json!({"name": "f", "arguments": "{}"}));
    /// ```
    pub fn to_function_call(&self) -> Value {
        Value::object([("name", self.name.into()), ("arguments", self.arguments.into())])
    }
}

impl ToolCallDelta<'_> {
    /// An element of `delta.tool_calls`, with the parts of it that are to be emitted.
    fn element(&self, name: Option<&str>, text: Option<&str>) -> Value {
        let CallShape { wire_type, text: key } = self.call.shape();
        let mut element = Object::new();
        element.insert("index", self.call.ordinal);
        if self.news.identity {
            element.insert("id", self.call.id);
            element.insert("type", wire_type);
        }
        element.insert(wire_type, function(name, key, text));
        Value::Object(element)
    }

    fn added_name(&self) -> Option<&str> {
        self.news.name.and_then(|from| self.call.name.get(from..))
    }

    fn added_text(&self) -> Option<&str> {
        self.increment.filter(|text| !text.is_empty())
    }

    /// An element of a streamed `delta.tool_calls`, to be appended by the client: id and type once, then the additions
    /// to the name and the arguments.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// let first = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]});
    /// aggregator.ingest_delta(&first, None);
    /// let second = json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]});
    /// let ingested = aggregator.ingest_delta(&second, None);
    /// assert_eq!(ingested.deltas[0].to_increment(), json!({"index": 0, "function": {"arguments": "}"}}));
    /// ```
    pub fn to_increment(&self) -> Value {
        self.element(self.added_name(), self.added_text())
    }

    /// The same with the complete name and argument text so far, to be replaced by the client.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// # let mut aggregator = ToolCallAggregator::new();
    /// # let first = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]});
    /// # aggregator.ingest_delta(&first, None);
    /// # let second = json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]});
    /// let ingested = aggregator.ingest_delta(&second, None);
    /// assert_eq!(ingested.deltas[0].to_cumulative(), json!({"index": 0, "function": {"arguments": "{}"}}));
    /// ```
    pub fn to_cumulative(&self) -> Value {
        let name = self.news.name.map(|_| self.call.name);
        self.element(name, Some(self.call.arguments).filter(|_| self.news.arguments))
    }
}

impl IngestDeltaResult<'_> {
    /// The choices that changed.
    pub fn choices(&self) -> impl Iterator<Item = u32> {
        // Deltas come choice by choice.
        let is_first = |at: usize| at == 0 || self.deltas[at - 1].choice != self.deltas[at].choice;
        (0..self.deltas.len()).filter(move |&at| is_first(at)).map(|at| self.deltas[at].choice)
    }

    fn of(&self, choice: Option<u32>) -> impl Iterator<Item = &ToolCallDelta<'_>> {
        self.deltas.iter().filter(move |delta| delta.choice == choice.unwrap_or(0))
    }

    /// `delta.tool_calls` of a streamed chunk of that choice, to be appended by the client.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// let payload = json!({"tool_calls": [{"index": 7, "id": "c", "function": {"name": "f"}}]});
    /// let tool_calls = json!([{"index": 0, "id": "c", "type": "function", "function": {"name": "f"}}]);
    /// assert_eq!(aggregator.ingest_delta(&payload, None).to_tool_calls(None), tool_calls);
    /// ```
    pub fn to_tool_calls(&self, choice: impl Into<Option<u32>>) -> Value {
        self.of(choice.into()).map(ToolCallDelta::to_increment).collect()
    }

    /// `delta.function_call` of a streamed chunk of that choice, to be appended by the client: the first call only,
    /// because this form can hold no more. None if it did not change.
    ///
    /// ```
    /// # use callweave::compat::tool_call_aggregator::ToolCallAggregator;
    /// # use serde_json::json;
    /// let mut aggregator = ToolCallAggregator::new();
    /// let payload = json!({"function_call": {"name": "f", "arguments": "{"}});
    /// let delta = aggregator.ingest_delta(&payload, None).to_function_call(None);
    /// assert_eq!(delta, Some(json!({"name": "f", "arguments": "{"}).into()));
    /// ```
    pub fn to_function_call(&self, choice: impl Into<Option<u32>>) -> Option<Value> {
        let first = self.of(choice.into()).find(|delta| delta.call.ordinal == 0)?;
        Some(Value::Object(function(first.added_name(), "arguments", first.added_text())))
    }
}

/// A name and a text under that key, as far as they are to be emitted.
fn function(name: Option<&str>, key: &str, text: Option<&str>) -> Object {
    let members = [("name", name), (key, text)];
    members.into_iter().filter_map(|(key, value)| Some((key, Value::from(value?)))).collect()
}

impl ToolCallRecord<'_> {
    fn serialize_members<M: SerializeMap>(&self, text: Option<&str>, map: &mut M) -> Result<(), M::Error> {
        let CallShape { wire_type, text: key } = self.shape();
        // This form has the arguments beside the function; for custom tools it defines nothing.
        let (inner, beside) = if self.kind == CallKind::Custom { (text, None) } else { (None, text) };
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("type", wire_type)?;
        map.serialize_entry(wire_type, &function(Some(self.name), key, inner))?;
        beside.map_or(Ok(()), |text| map.serialize_entry(key, text))
    }
}

impl Serialize for ToolCallRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_members(Some(self.arguments), &mut map)?;
        if self.is_incomplete() {
            map.serialize_entry("incomplete", &true)?;
        }
        map.end()
    }
}

impl Serialize for ToolCallDelta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let text = Some(self.call.arguments).filter(|text| !text.is_empty());
        self.call.serialize_members(text, &mut map)?;
        map.end()
    }
}
