//! Values put together piece by piece, without recursion.

use super::{Object, Value};

/// A value under construction: each container that is begun must be ended.
#[derive(Default)]
pub(in crate::json) struct ValueBuilder {
    open: Vec<Value>,
    /// The keys of the open members, outermost first.
    keys: Vec<String>,
    whole: Value,
}

impl ValueBuilder {
    pub(in crate::json) fn begin_array(&mut self) {
        self.begin_array_of(0);
    }

    pub(in crate::json) fn begin_object(&mut self) {
        self.open.push(Value::Object(Object::new()));
    }

    /// Begins a list of that number of elements: it takes no more memory than they need.
    pub(in crate::json) fn begin_array_of(&mut self, count: usize) {
        self.open.push(Value::Array(Vec::with_capacity(count).into()));
    }

    /// Begins an object of that number of members, likewise.
    pub(in crate::json) fn begin_object_of(&mut self, count: usize) {
        self.open.push(Value::Object(Object::with_capacity(count)));
    }

    /// Sets the key of the next member.
    pub(in crate::json) fn key(&mut self, key: String) {
        self.keys.push(key);
    }

    pub(in crate::json) fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Value::Array(elements)) => elements.push(value),
            Some(Value::Object(members)) => {
                members.insert(self.keys.pop().expect("a member has a key"), value);
            }
            _ => self.whole = value,
        }
    }

    /// Ends the container that was begun last.
    pub(in crate::json) fn end(&mut self) {
        let ended = self.open.pop().expect("only what is begun ends");
        self.put(ended);
    }

    /// The value.
    pub(in crate::json) fn finish(self) -> Value {
        self.whole
    }
}
