//! The accumulator of Nous: fragments of tool calls in, a list of calls with decoded arguments out.
//!
//! ```
//! use callweave::loose::nous::ToolCallAccumulator;
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

use super::{Loose, Shape};
use crate::accumulator::Accumulator;
use crate::event::Json;
use crate::json::{AsValue, Object, Value};
use crate::message::{Block, Content, Message, ToolCall};

/// Fragments of any [`Shape`] → the calls of an answer.
#[derive(Clone, Default)]
pub struct ToolCallAccumulator {
    partials: Lane,
    phases: Lane,
    whole: Lane,
}

/// The fragments of one shape. Results are listed by shape, so each has its own fold.
#[derive(Clone, Default)]
struct Lane {
    loose: Loose,
    answer: Accumulator,
}

/// A call with decoded arguments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The provider's id; none where it gave none.
    pub id: Option<String>,
    /// The tool's name; none where it never came.
    pub name: Option<String>,
    /// The decoded arguments; empty if there were none, or none that can be used.
    pub arguments: Object,
    /// The argument text, where it is not a JSON object: do not run the call.
    #[serde(rename = "_invalid_arguments", skip_serializing_if = "Option::is_none")]
    pub invalid_arguments: Option<String>,
    /// What the fragment of a whole call carried besides (a thought signature).
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// # use callweave::loose::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator
    ///     .feed(&json!({"_phase": "start", "_index": 0, "id": "t1", "name": "tide"}))
    ///     .feed(&json!({"_phase": "partial", "_index": 0, "partial_json": "{\"day\":1}"}))
    ///     .feed(&json!("of no shape"));
    /// assert_eq!(accumulator.finalize()[0].arguments["day"], 1);
    /// ```
    pub fn feed(&mut self, fragment: &impl AsValue) -> &mut Self {
        let fragment = &*fragment.as_value();
        let lane = match Shape::of(fragment) {
            Some(Shape::Partials) => &mut self.partials,
            Some(Shape::Phase) => &mut self.phases,
            Some(Shape::Complete | Shape::Chunk) => &mut self.whole,
            None => return self,
        };
        lane.loose.push(fragment, &mut lane.answer);
        self
    }

    /// The calls: OpenAI's partials by index, then Anthropic's phases by index, then whole calls as they
    /// came. The accumulator is left as it is, so more may be fed and finalised again.
    ///
    /// ```
    /// # use callweave::loose::nous::ToolCallAccumulator;
    /// # use serde_json::json;
    /// let mut accumulator = ToolCallAccumulator::new();
    /// accumulator.feed(&json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a\": "}}]));
    /// let call = &accumulator.finalize()[0];
    /// assert!(call.arguments.is_empty());
    /// assert_eq!(call.invalid_arguments.as_deref(), Some("{\"a\": "));
    /// ```
    pub fn finalize(&self) -> Vec<Call> {
        let mut calls = self.partials.calls(Order::ByIndex);
        calls.extend(self.phases.calls(Order::ByIndex));
        calls.extend(self.whole.calls(Order::AsTheyCame));
        calls
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    ByIndex,
    AsTheyCame,
}

impl Lane {
    fn calls(&self, order: Order) -> Vec<Call> {
        let message = self.finished();
        let mut blocks: Vec<_> = message.first().into_iter().flat_map(|choice| &choice.blocks).collect();
        if order == Order::ByIndex {
            blocks.sort_by_key(|block| block.index.unwrap_or(0));
        }
        blocks.into_iter().filter_map(project).collect()
    }

    fn finished(&self) -> Message {
        let Self { mut loose, mut answer } = self.clone();
        loose.finish(&mut answer);
        answer.take()
    }
}

fn project(block: &Block) -> Option<Call> {
    let Content::ToolCall(call) = &block.content else { return None };
    let ToolCall { id, has_made_id, name, raw_arguments, .. } = call;
    let decoded = match raw_arguments.as_str() {
        "" => Some(Object::new()),
        text => text.parse().ok(),
    };
    Some(Call {
        id: (!has_made_id).then(|| id.clone()),
        name: (!name.is_empty()).then(|| name.clone()),
        invalid_arguments: decoded.is_none().then(|| raw_arguments.clone()),
        arguments: decoded.unwrap_or_default(),
        metadata: block.foreign.get("metadata").map(Json::to_value),
    })
}
