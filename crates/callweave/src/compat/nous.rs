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

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::loose::{LooseDecoder, wire_type};
use crate::Result;
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

/// A call with decoded arguments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecodedCall {
    /// The provider's id; none where it gave none.
    pub id: Option<String>,
    /// The tool's name; none where it never came.
    pub name: Option<String>,
    /// The decoded arguments; empty if there were none, or none that can be used.
    pub arguments: Object,
    /// The argument text, where it is not a JSON object or more was to come: do not run the call.
    #[serde(rename = "_invalid_arguments", skip_serializing_if = "Option::is_none")]
    pub invalid_arguments: Option<String>,
    /// Further data of the fragment of a complete call (a thought signature).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip)]
    call: ToolCall,
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
    /// assert_eq!(accumulator.finalize()[0].arguments["day"], 1);
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
    /// assert!(call.arguments.is_empty());
    /// assert_eq!(call.invalid_arguments.as_deref(), Some("{\"a\": "));
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
    /// The arguments as a value of your own type.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize)]
    /// struct Tide { day: u8 }
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!({"name": "tide", "arguments": {"day": 1}}));
    /// assert_eq!(accumulator.finalize()[0].parse::<Tide>()?.day, 1);
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        self.call.parse()
    }

    /// A ready-made tool result for the model that made an invalid call; none for a valid one.
    ///
    /// ```
    /// # use callweave::compat::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!([{"index": 0, "function": {"name": "tide", "arguments": "{day"}}]));
    /// assert!(accumulator.finalize()[0].error_result().is_some());
    /// ```
    pub fn error_result(&self) -> Option<String> {
        self.call.error_result()
    }
}

fn project(block: &Block) -> Option<DecodedCall> {
    let BlockContent::ToolCall(call) = &block.content else { return None };
    let ToolCall { id, has_made_id, name, raw_arguments, .. } = call;
    let decoded = match raw_arguments.as_str() {
        "" => Some(Object::new()),
        text => text.parse().ok(),
    };
    let is_truncated = call.completion != BlockCompletion::Complete;
    // Chunks emit each member by itself.
    let single = || {
        let members = block.extra.iter();
        let members =
            members.filter_map(|(path, value)| Some((path.strip_prefix("metadata.")?, value.to_value())));
        Some(members.collect::<Object>()).filter(|members| !members.is_empty()).map(Value::Object)
    };
    Some(DecodedCall {
        id: (!has_made_id).then(|| id.clone()),
        name: (!name.is_empty()).then(|| name.clone()),
        invalid_arguments: (decoded.is_none() || is_truncated).then(|| raw_arguments.clone()),
        arguments: decoded.unwrap_or_default(),
        metadata: block.extra.get("metadata").map(JsonText::to_value).or_else(single),
        call: call.clone(),
    })
}
