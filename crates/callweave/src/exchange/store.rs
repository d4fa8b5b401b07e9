//! Responses that clients may refer to by id, and provider seals.
//!
//! Turns are kept as JSON text, and every turn of a conversation once: a response points to the turn before it.

use std::sync::Arc;

use super::amount::RequestAmount;
use super::http::unescaped;
use crate::json::{Array, Tape, Value};
use crate::protocol::OPENAI_RESPONSES;
use crate::request::{RequestMessage, TurnStore, call_ids_of};

/// The owner of stored data: a digest of the client's key, for example. A scope sees only its own data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StoreScope(pub [u8; 32]);

/// A digest says nothing, but need not be shown either.
impl std::fmt::Debug for StoreScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}

/// A response that is kept.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    /// The conversation up to and with the response.
    pub turn: Arc<StoredTurn>,
    /// The response, as the client got it.
    pub body: Arc<[u8]>,
}

/// One turn of a conversation: the client's input and the response's output, as JSON of the Responses protocol.
#[derive(Debug)]
pub struct StoredTurn {
    earlier: Option<Arc<StoredTurn>>,
    input: Box<str>,
    output: Box<str>,
    amount: RequestAmount,
    /// The memory that it takes, with the turns before.
    total_size: usize,
}

impl StoredTurn {
    /// A turn that follows another, or begins a conversation.
    pub fn new(earlier: Option<Arc<Self>>, input: String, output: String) -> Self {
        let mut amount = earlier.as_ref().map(|earlier| earlier.amount).unwrap_or_default();
        let mut tape = Tape::new();
        for text in [&input, &output] {
            amount = amount + tape.parse(text).map(RequestAmount::of_items).unwrap_or_default();
        }
        let before = earlier.as_ref().map_or(0, |earlier| earlier.total_size);
        let mut turn = Self { earlier, input: input.into(), output: output.into(), amount, total_size: 0 };
        turn.total_size = before + turn.size();
        turn
    }

    /// The turn before.
    pub fn earlier(&self) -> Option<&Arc<Self>> {
        self.earlier.as_ref()
    }

    /// The client's input: a JSON text or list of items.
    pub fn input(&self) -> &str {
        &self.input
    }

    /// The response's output: a JSON list of items.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// The memory that it takes, without the turns before.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.input.len() + self.output.len() + Self::OVERHEAD
    }

    /// The memory that it takes, with the turns before.
    pub fn total_size(&self) -> usize {
        self.total_size
    }

    /// The memory that tables and allocations take for each thing that is kept, about.
    pub const OVERHEAD: usize = 112;

    /// The size of the complete conversation.
    pub(super) fn amount(&self) -> RequestAmount {
        self.amount
    }

    /// The ids of the calls in the complete conversation.
    pub(super) fn call_ids(&self, ids: &mut Vec<Box<str>>) {
        let mut tape = Tape::new();
        for turn in std::iter::successors(Some(self), |turn| turn.earlier.as_deref()) {
            for text in [turn.input(), turn.output()] {
                if let Ok(items) = tape.parse(text) {
                    items.elements().for_each(|item| call_ids_of(item, &mut |id| ids.push(id.into())));
                }
            }
        }
    }

    /// The items of the conversation that the response was made from, each with an id: earlier turns, and the input.
    pub fn input_items(&self) -> Vec<Value> {
        let mut turns: Vec<_> = std::iter::successors(Some(self), |turn| turn.earlier.as_deref()).collect();
        turns.reverse();
        let texts = turns.iter().flat_map(|turn| [turn.input(), turn.output()]);
        // The last output is the response itself.
        let texts = texts.take(2 * turns.len() - 1);
        let mut items = Vec::new();
        for text in texts {
            match text.parse() {
                Ok(Value::Array(own)) => items.extend(own),
                Ok(Value::String(text)) => items.push(message(text)),
                _ => {}
            }
        }
        for (at, item) in items.iter_mut().enumerate() {
            if let Some(item) = item.as_object_mut() {
                item.get_or_insert_with("id", || format!("item_{at}").into());
                item.get_or_insert_with("type", || "message".into());
            }
        }
        items
    }

    /// The page of [`input_items`](Self::input_items) that a query asks for, as the Responses API lists it:
    /// `order` (`desc` by default), `limit` (20), `after`.
    pub fn list_input_items(&self, query: Option<&str>) -> Value {
        let parameter = |name: &str| {
            let pairs = query.into_iter().flat_map(|query| query.split('&'));
            pairs
                .filter_map(|pair| pair.split_once('='))
                .find(|(own, _)| *own == name)
                .map(|(_, value)| value)
        };
        let mut items = self.input_items();
        if parameter("order") != Some("asc") {
            items.reverse();
        }
        let id = |item: &Value| item["id"].as_str().unwrap_or_default().to_owned();
        if let Some(after) = parameter("after").map(unescaped) {
            let at = items.iter().position(|item| id(item) == after);
            items.drain(..at.map_or(items.len(), |at| at + 1));
        }
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(20).clamp(1, 100);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let end = |item: Option<&Value>| item.map_or(Value::Null, |item| id(item).into());
        Value::object([
            ("object", "list".into()),
            ("first_id", end(items.first())),
            ("last_id", end(items.last())),
            ("has_more", has_more.into()),
            ("data", items.into()),
        ])
    }

    /// The complete conversation.
    pub(super) fn messages(&self) -> Vec<RequestMessage> {
        let mut turns: Vec<_> = std::iter::successors(Some(self), |turn| turn.earlier.as_deref()).collect();
        turns.reverse();
        let mut messages = Vec::with_capacity(self.amount.messages);
        for text in turns.into_iter().flat_map(|turn| [turn.input(), turn.output()]) {
            let input: Value = text.parse().unwrap_or_else(|_| Array::new().into());
            let request = OPENAI_RESPONSES.read_request(Value::object([("input", input)]));
            messages.extend(request.map(|request| request.messages).unwrap_or_default());
        }
        messages
    }
}

/// An input that is a text, as an item.
fn message(text: String) -> Value {
    let part = Value::object([("type", "input_text".into()), ("text", text.into())]);
    Value::object([
        ("type", "message".into()),
        ("role", "user".into()),
        ("content", Value::from_iter([part])),
    ])
}

/// Drops turns one after the other, without recursion: a conversation may be long.
impl Drop for StoredTurn {
    fn drop(&mut self) {
        let mut next = self.earlier.take();
        while let Some(mut turn) = next.and_then(Arc::into_inner) {
            next = turn.earlier.take();
        }
    }
}

/// Keeps the data that one request leaves for the next: responses, and as a [`TurnStore`] provider seals. A scope gets
/// only its own.
pub trait ExchangeStore: TurnStore {
    /// The response of that id, if it was kept for this scope and still is.
    fn response(&self, scope: &StoreScope, id: &str) -> Option<Arc<StoredResponse>>;
    /// Keeps a response.
    fn put_response(&self, scope: &StoreScope, id: &str, response: StoredResponse);
    /// Forgets a response; whether there was one.
    fn remove_response(&self, scope: &StoreScope, id: &str) -> bool;
}
