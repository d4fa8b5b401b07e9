//! The accumulator of Nous: fragments of tool calls in, a list of calls with decoded arguments out.
//!
//! ```
//! use callweave::compat::nous::ToolCallAccumulator;
//! use serde_json::json;
//!
//! let mut accumulator = ToolCallAccumulator::new();
//! accumulator.feed(&json!([{"index": 0, "id": "t1", "function": {"name": "tide", "arguments": "{\"harbour\":\"Aa"}}]));
//! accumulator.feed(&json!([{"index": 0, "function": {"arguments": "lesund\"}"}}]));
//! assert_eq!(
//!     json!(accumulator.finalize()),
//!     json!([{"id": "t1", "name": "tide", "arguments": {"harbour": "Aalesund"}}]),
//! );
//! ```

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::loose::{LooseDecoder, wire_type};
use crate::accumulator::Accumulator;
use crate::event::{BlockCompletion, JsonText};
use crate::json::{AsValue, Object, Value};
use crate::message::{Block, BlockContent, Message, ToolCall};

/// Fragments of any [`FragmentShape`](super::loose::FragmentShape) → the calls of a response.
#[derive(Clone, Default)]
pub struct ToolCallAccumulator {
    loose: LooseDecoder,
    answer: Accumulator,
}

/// A call of a response. Serialises as Nous has it: `id` and `name` (null where none came), the decoded `arguments`
/// (empty if there were none, or none that can be used), `_invalid_arguments` and `metadata`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DecodedCall {
    /// The call. Its id is a made one where the provider gave none.
    pub call: ToolCall,
    /// Further data of the fragment of a complete call (a thought signature).
    pub metadata: Option<Value>,
}

impl ToolCallAccumulator {
    /// An empty accumulator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a fragment of any known shape; others are ignored.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator
    ///     .feed(&json!({"_phase": "start", "_index": 0, "id": "t1", "name": "tide"}))
    ///     .feed(&json!({"_phase": "partial", "_index": 0, "partial_json": "{\"day\":1}"}))
    ///     .feed(&json!("of no shape"));
    /// assert_eq!(accumulator.finalize()[0].arguments()["day"], 1);
    /// ```
    pub fn feed(&mut self, fragment: &impl AsValue) -> &mut Self {
        self.loose.push(fragment, &mut self.answer);
        self
    }

    /// The calls: OpenAI's partials by index, then Anthropic's phases by index, then complete calls as they came. The
    /// accumulator is left as it is, so more may be fed and finalised again.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a\": "}}]));
    /// let call = &accumulator.finalize()[0];
    /// assert!(call.arguments().is_empty());
    /// assert_eq!(call.invalid_arguments(), Some("{\"a\": "));
    /// ```
    pub fn finalize(&self) -> Vec<DecodedCall> {
        let message = self.message();
        let mut blocks: Vec<_> = message.first().into_iter().flat_map(|choice| &choice.blocks).collect();
        // Stable: complete calls stay as they came.
        blocks.sort_by_key(|block| match block.wire_type.as_str() {
            wire_type::PARTIAL => (0, block.index.unwrap_or(0)),
            wire_type::PHASE => (1, block.index.unwrap_or(0)),
            _ => (2, 0),
        });
        blocks.into_iter().filter_map(project).collect()
    }

    /// Everything, as the library's own [`Message`]. The accumulator is left as it is.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!({"name": "tide", "arguments": {"day": 1}}));
    /// let message = accumulator.message();
    /// assert!(message.tool_calls().all(|call| call.id == "tool_0_0" && call.has_made_id));
    /// ```
    pub fn message(&self) -> Message {
        let Self { mut loose, mut answer } = self.clone();
        loose.finish(&mut answer);
        answer.take()
    }
}

impl DecodedCall {
    /// The decoded arguments; empty if there were none, or none that can be used. [`ToolCall::parse`] gives them in a
    /// type of your own.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize)]
    /// struct Tide { day: u8 }
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!({"name": "tide", "arguments": {"day": 1}}));
    /// let calls = accumulator.finalize();
    /// assert_eq!(calls[0].arguments()["day"], 1);
    /// assert_eq!(calls[0].call.parse::<Tide>()?.day, 1);
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn arguments(&self) -> Object {
        self.decoded().unwrap_or_default()
    }

    /// The argument text, where it is not a JSON object or more was to come: do not run the call.
    /// [`ToolCall::error_result`] is the result to give to the model.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!([{"index": 0, "function": {"name": "tide", "arguments": "{day"}}]));
    /// let calls = accumulator.finalize();
    /// assert_eq!(calls[0].invalid_arguments(), Some("{day"));
    /// assert!(calls[0].call.error_result().is_some());
    /// ```
    pub fn invalid_arguments(&self) -> Option<&str> {
        let is_truncated = self.call.completion != BlockCompletion::Complete;
        (is_truncated || self.decoded().is_none()).then_some(&self.call.raw_arguments)
    }

    fn decoded(&self) -> Option<Object> {
        match self.call.raw_arguments.as_str() {
            "" => Some(Object::new()),
            text => text.parse().ok(),
        }
    }
}

impl Serialize for DecodedCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ToolCall { id, has_made_id, name, .. } = &self.call;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &(!has_made_id).then_some(id))?;
        map.serialize_entry("name", &(!name.is_empty()).then_some(name))?;
        map.serialize_entry("arguments", &self.arguments())?;
        if let Some(text) = self.invalid_arguments() {
            map.serialize_entry("_invalid_arguments", text)?;
        }
        if let Some(metadata) = &self.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

fn project(block: &Block) -> Option<DecodedCall> {
    let BlockContent::ToolCall(call) = &block.content else { return None };
    // Chunks emit each member by itself.
    let single = || {
        let members = block.extra.iter();
        let members =
            members.filter_map(|(path, value)| Some((path.strip_prefix("metadata.")?, value.to_value())));
        Some(members.collect::<Object>()).filter(|members| !members.is_empty()).map(Value::Object)
    };
    let metadata = block.extra.get("metadata").map(JsonText::to_value).or_else(single);
    Some(DecodedCall { call: call.clone(), metadata })
}
