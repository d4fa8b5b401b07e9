//! What handlers stream and answer: records, deltas, and their renderings.

use crate::json::{Object, Value};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::event::CallKind;
use crate::json::{Scanner, Status};

/// A call as it stands. Serialises to `{id, type, function: {name}, arguments}`, and `incomplete` where the
/// arguments are no whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCallRecord<'a> {
    /// Its id, stable for the turn: the provider's if it came with the call, else made.
    pub id: &'a str,
    /// The provider's id, whenever it came: what the provider expects back.
    pub provider_id: Option<&'a str>,
    /// Its position among the calls of the choice.
    pub ordinal: usize,
    /// What its arguments are.
    pub kind: CallKind,
    /// The tool's name.
    pub name: &'a str,
    /// The whole argument text so far, as the model wrote it; empty if there is none.
    pub arguments: &'a str,
}

/// A call that changed. Serialises to `{id, type, function: {name}, arguments}`, with the latest whole
/// argument text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCallDelta<'a> {
    /// The choice it belongs to.
    pub choice: u32,
    /// The call as it stands now.
    pub call: ToolCallRecord<'a>,
    /// What was added to the arguments since the last delta of this call; none if the provider replaced
    /// the text, so that increments can no longer tell it.
    pub increment: Option<&'a str>,
    pub(super) news: News,
}

/// What of a call has not been told before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) identity: bool,
    pub(super) name: bool,
    pub(super) arguments: bool,
}

/// What an ingest changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ingested<'a> {
    /// Whether there is anything to stream.
    pub updated: bool,
    /// The calls that changed, in order.
    pub deltas: Vec<ToolCallDelta<'a>>,
}

fn type_of(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Function | CallKind::Builtin => "function",
        CallKind::Custom => "custom",
    }
}

impl ToolCallRecord<'_> {
    /// Whether the arguments are no whole value, or none yet: once the answer is over, the call was cut off and
    /// is not to be run.
    ///
    /// ```
    /// # use callweave::aggregator::Aggregator;
    /// # use serde_json::json;
    /// let mut aggregator = Aggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f", "arguments": "{\"a\":"}}), None);
    /// assert!(aggregator.snapshot(None)[0].is_incomplete());
    /// aggregator.ingest_delta(&json!({"function_call": {"arguments": "1}"}}), None);
    /// assert!(!aggregator.snapshot(None)[0].is_incomplete());
    /// ```
    pub fn is_incomplete(&self) -> bool {
        let mut scanner = Scanner::new();
        scanner.push(self.arguments);
        self.kind != CallKind::Custom && scanner.finish() == Status::Open
    }

    /// An element of a message's `tool_calls`.
    ///
    /// ```
    /// use callweave::aggregator::Aggregator;
    /// use serde_json::json;
    ///
    /// let mut aggregator = Aggregator::new();
    /// aggregator.ingest_delta(&json!({"function_call": {"name": "f", "arguments": "{}"}}), None);
    /// let call = json!({"id": "tool_0_0", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    /// assert_eq!(aggregator.snapshot(None)[0].to_tool_call(), call);
    /// ```
    pub fn to_tool_call(&self) -> Value {
        match self.kind {
            CallKind::Custom => {
                let custom = [("name", self.name.into()), ("input", self.arguments.into())];
                let custom = ("custom", Value::object(custom));
                Value::object([("id", self.id.into()), ("type", "custom".into()), custom])
            }
            _ => {
                let function = ("function", self.to_function_call());
                Value::object([("id", self.id.into()), ("type", "function".into()), function])
            }
        }
    }

    /// A message's singular `function_call`.
    ///
    /// ```
    /// # use callweave::aggregator::Aggregator;
    /// # use serde_json::json;
    /// let mut aggregator = Aggregator::new();
    /// aggregator.ingest_delta(&json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}), None);
    /// assert_eq!(aggregator.snapshot(None)[0].to_function_call(), json!({"name": "f", "arguments": "{}"}));
    /// ```
    pub fn to_function_call(&self) -> Value {
        Value::object([("name", self.name.into()), ("arguments", self.arguments.into())])
    }
}

impl ToolCallDelta<'_> {
    /// The name and the text so far, each only if it is news.
    fn function(&self, arguments: Option<&str>) -> Object {
        let mut function = Object::new();
        if self.news.name {
            function.insert("name", self.call.name);
        }
        if let Some(text) = arguments {
            function.insert("arguments", text);
        }
        function
    }

    fn element(&self, function: Object) -> Value {
        let mut element = Object::new();
        element.insert("index", self.call.ordinal);
        if self.news.identity {
            element.insert("id", self.call.id);
            element.insert("type", type_of(self.call.kind));
        }
        element.insert("function", function);
        Value::Object(element)
    }

    /// An element of a streamed `delta.tool_calls`, to be appended by the client: id, type and name once,
    /// then what was added to the arguments.
    ///
    /// ```
    /// # use callweave::aggregator::Aggregator;
    /// # use serde_json::json;
    /// let mut aggregator = Aggregator::new();
    /// let first = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]});
    /// aggregator.ingest_delta(&first, None);
    /// let second = json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]});
    /// let ingested = aggregator.ingest_delta(&second, None);
    /// assert_eq!(ingested.deltas[0].to_increment(), json!({"index": 0, "function": {"arguments": "}"}}));
    /// ```
    pub fn to_increment(&self) -> Value {
        self.element(self.function(self.increment.filter(|text| !text.is_empty())))
    }

    /// The same with the whole argument text so far, to be replaced by the client.
    ///
    /// ```
    /// # use callweave::aggregator::Aggregator;
    /// # use serde_json::json;
    /// # let mut aggregator = Aggregator::new();
    /// # let first = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]});
    /// # aggregator.ingest_delta(&first, None);
    /// # let second = json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]});
    /// let ingested = aggregator.ingest_delta(&second, None);
    /// assert_eq!(ingested.deltas[0].to_cumulative(), json!({"index": 0, "function": {"arguments": "{}"}}));
    /// ```
    pub fn to_cumulative(&self) -> Value {
        self.element(self.function(Some(self.call.arguments).filter(|_| self.news.arguments)))
    }
}

impl Ingested<'_> {
    /// `delta.tool_calls` of a streamed chunk, to be appended by the client.
    ///
    /// ```
    /// # use callweave::aggregator::Aggregator;
    /// # use serde_json::json;
    /// let mut aggregator = Aggregator::new();
    /// let payload = json!({"tool_calls": [{"index": 7, "id": "c", "function": {"name": "f"}}]});
    /// let tool_calls = json!([{"index": 0, "id": "c", "type": "function", "function": {"name": "f"}}]);
    /// assert_eq!(aggregator.ingest_delta(&payload, None).to_tool_calls(), tool_calls);
    /// ```
    pub fn to_tool_calls(&self) -> Value {
        self.deltas.iter().map(ToolCallDelta::to_increment).collect()
    }

    /// `delta.function_call` of a streamed chunk, to be appended by the client: the first call only, for
    /// that is all that this form can tell. None if it did not change.
    ///
    /// ```
    /// # use callweave::aggregator::Aggregator;
    /// # use serde_json::json;
    /// let mut aggregator = Aggregator::new();
    /// let payload = json!({"function_call": {"name": "f", "arguments": "{"}});
    /// let delta = aggregator.ingest_delta(&payload, None).to_function_call();
    /// assert_eq!(delta, Some(json!({"name": "f", "arguments": "{"}).into()));
    /// ```
    pub fn to_function_call(&self) -> Option<Value> {
        let first = self.deltas.iter().find(|delta| delta.call.ordinal == 0)?;
        Some(Value::Object(first.function(first.increment.filter(|text| !text.is_empty()))))
    }
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
}

impl ToolCallRecord<'_> {
    fn serialize_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("type", type_of(self.kind))?;
        map.serialize_entry("function", &Function { name: self.name })
    }
}

impl Serialize for ToolCallRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_members(&mut map)?;
        map.serialize_entry("arguments", self.arguments)?;
        if self.is_incomplete() {
            map.serialize_entry("incomplete", &true)?;
        }
        map.end()
    }
}

impl Serialize for ToolCallDelta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.call.serialize_members(&mut map)?;
        if !self.call.arguments.is_empty() {
            map.serialize_entry("arguments", self.call.arguments)?;
        }
        map.end()
    }
}
