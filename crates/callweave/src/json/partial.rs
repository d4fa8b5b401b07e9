//! The best value so far of a growing JSON text.
//!
//! Argument text is pushed as it comes, in pieces of any size; at any moment [`PartialValue::value`] is the value of
//! the text so far, built in place: the cost of a delta depends on its own length, however much text came before. A
//! member is shown once its value has begun; [`UnfinishedValues`] says which other unfinished parts are shown.
//!
//! ```
//! use callweave::json::partial::{UnfinishedValues, PartialValue};
//!
//! let mut partial = PartialValue::new(UnfinishedValues::Strings);
//! partial.push(r#"{"city": "Os"#);
//! assert_eq!(partial.value().map(|value| &value["city"]), Some(&"Os".into()));
//! partial.push(r#"lo", "days": 1"#);
//! assert_eq!(partial.value().map(ToString::to_string).as_deref(), Some(r#"{"city":"Oslo"}"#));
//! partial.push("4}");
//! assert_eq!(partial.value().map(ToString::to_string).as_deref(), Some(r#"{"city":"Oslo","days":14}"#));
//! ```
//!
//! [`PartialValue::push_to`] also emits each change with its path to a sink, so that a user interface can show
//! arguments while they are being written:
//!
//! ```
//! use callweave::json::partial::{ValueChangeKind, UnfinishedValues, PartialValue, ValueChange};
//!
//! let mut shown = Vec::new();
//! let mut partial = PartialValue::new(UnfinishedValues::Hidden);
//! partial.push_to(r#"{"items": [{"name": "a"#, &mut |progress: ValueChange<'_>| {
//!     if let ValueChangeKind::Grew(text) = progress.change {
//!         shown.push(format!("{} + {text}", progress.path));
//!     }
//! });
//! assert_eq!(shown, ["$.items[0].name + a"]);
//! ```
//!
//! Raw control characters in strings are taken as they are, a lone surrogate becomes U+FFFD, and of two members with
//! the same key the later one wins. Where the text breaks, the value stays as it was; [`repair`](super::repair) repairs
//! such text.

use std::fmt;

use super::str::{PendingSurrogate, push_unit};
use super::{
    Array, JsonContainer, JsonKind, JsonLiteral, JsonScanner, Number, Object, ScanStatus, ScanToken,
    ScanVisitor, Value,
};
use crate::event::Sink;

/// A value that grows with its text. See the [module](self).
#[derive(Clone, Debug)]
pub struct PartialValue {
    scanner: JsonScanner,
    tree: GrowingTree,
}

/// The unfinished values that are part of [`PartialValue::value`]. Containers always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnfinishedValues {
    /// None: strings, numbers and literals are shown once they are complete.
    Hidden,
    /// A growing string, as far as it has come.
    #[default]
    Strings,
    /// A growing string and a growing number, as far as that is a number. A number longer than 64 bytes is not updated
    /// until it is complete.
    StringsAndNumbers,
}

/// A change of the value at a path.
#[derive(Clone, Copy, Debug)]
pub struct ValueChange<'p> {
    /// The path of the changed value.
    pub path: ValuePath<'p>,
    /// The change itself.
    pub change: ValueChangeKind<'p>,
}

/// A change of a value. Each value is started once, may grow if it is a string or a number, and is completed once
/// unless the text ends before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueChangeKind<'p> {
    /// It began.
    Started(JsonKind),
    /// It grew by this text: text of a string, decoded, or of a number, as written.
    Grew(&'p str),
    /// It is complete and will not change.
    Completed(&'p Value),
}

/// The path of a value; displayed as `$.items[2].name`.
#[derive(Clone, Copy)]
pub struct ValuePath<'p>(&'p [OpenContainer]);

/// A step of a [`ValuePath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathStep<'p> {
    /// Into a member of an object.
    Key(&'p str),
    /// Into an element of an array.
    Index(usize),
}

/// Anything that takes [`ValueChange`].
pub type ProgressSink<'s> = dyn for<'p> Sink<ValueChange<'p>> + 's;

impl PartialValue {
    /// The maximum depth of containers in a value; a deeper value is kept as a string of its JSON text, which grows as
    /// a string does.
    pub const MAX_DEPTH: usize = Value::MAX_DEPTH;

    /// A value of which no text has come.
    pub fn new(growing: UnfinishedValues) -> Self {
        Self { scanner: JsonScanner::new(), tree: GrowingTree::new(growing) }
    }

    /// Reads on and returns how many bytes of `text` belong to the value, as [`JsonScanner::push`] does.
    pub fn push(&mut self, text: &str) -> usize {
        self.push_to(text, &mut |_: ValueChange<'_>| {})
    }

    /// Reads on as [`push`](PartialValue::push) does, and emits the changes to `sink`.
    pub fn push_to(&mut self, text: &str, sink: &mut ProgressSink<'_>) -> usize {
        let mut builder = TreeBuilder { tree: &mut self.tree, sink, pushed: text, deep_from: 0 };
        let taken = self.scanner.push_to(text, &mut builder);
        builder.grow_deep(taken);
        self.tree.show_number();
        taken
    }

    /// Ends the text, which completes a number at top level.
    pub fn finish(&mut self) -> ScanStatus {
        self.finish_to(&mut |_: ValueChange<'_>| {})
    }

    /// Ends the text as [`finish`](PartialValue::finish) does, and emits the changes to `sink`.
    pub fn finish_to(&mut self, sink: &mut ProgressSink<'_>) -> ScanStatus {
        self.scanner.finish_to(&mut TreeBuilder { tree: &mut self.tree, sink, pushed: "", deep_from: 0 })
    }

    /// The value so far; none before there is something to show.
    pub fn value(&self) -> Option<&Value> {
        self.tree.root.as_ref()
    }

    /// The value so far.
    pub fn into_value(self) -> Option<Value> {
        self.tree.root
    }

    /// The state of the value.
    pub fn status(&self) -> ScanStatus {
        self.scanner.status()
    }

    /// The current path: the members and elements that are open.
    pub fn path(&self) -> ValuePath<'_> {
        ValuePath(&self.tree.open)
    }
}

impl Default for PartialValue {
    fn default() -> Self {
        Self::new(UnfinishedValues::default())
    }
}

impl<'p> ValuePath<'p> {
    /// The steps from the outermost value inwards.
    pub fn steps(self) -> impl Iterator<Item = PathStep<'p>> {
        self.0.iter().filter_map(|level| match level.container {
            JsonContainer::Object => level.has_key.then_some(PathStep::Key(&level.key)),
            JsonContainer::Array => level.begun.checked_sub(1).map(PathStep::Index),
        })
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for step in self.steps() {
            match step {
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Key(key) if is_name(key) => write!(f, ".{key}")?,
                PathStep::Key(key) => write!(f, "[{}]", Value::from(key))?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether a key can be displayed without quotes.
pub(super) fn is_name(key: &str) -> bool {
    let mut letters = key.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// The value and its open parts.
#[derive(Clone, Debug)]
struct GrowingTree {
    growing: UnfinishedValues,
    root: Option<Value>,
    open: Vec<OpenContainer>,
    /// The number of open containers that are nested too deep to be kept as such.
    skipped: u32,
    /// The open token.
    token: Option<ScanToken>,
    /// The text of the open token, unless it is a string that is shown, or a key.
    text: String,
    /// Whether the open token's value is in the tree.
    is_shown: bool,
    surrogate: PendingSurrogate,
}

/// An open container.
#[derive(Clone, Debug)]
struct OpenContainer {
    container: JsonContainer,
    /// The number of elements that have begun.
    begun: usize,
    /// The key of the newest member.
    key: String,
    has_key: bool,
    /// Whether the newest member repeats a key and therefore is not the last one.
    is_repeated: bool,
}

impl GrowingTree {
    fn new(growing: UnfinishedValues) -> Self {
        Self {
            growing,
            root: None,
            open: Vec::new(),
            skipped: 0,
            token: None,
            text: String::new(),
            is_shown: false,
            surrogate: PendingSurrogate::default(),
        }
    }

    /// The value that the newest member or element of every one of `levels` leads to. This takes a step
    /// per open container, of which there are few and never more than [`PartialValue::MAX_DEPTH`]; a cursor
    /// kept from token to token would need a tree of our own.
    fn descend<'t>(root: &'t mut Option<Value>, levels: &[OpenContainer]) -> &'t mut Value {
        let mut value = root.as_mut().expect("a container is open, so there is a value");
        for level in levels {
            let newest = match value {
                Value::Array(elements) => elements.last_mut(),
                Value::Object(members) => {
                    if level.is_repeated {
                        members.get_mut(&level.key)
                    } else {
                        members.values_mut().next_back()
                    }
                }
                _ => None,
            };
            value = newest.expect("an open value stands newest in its container");
        }
        value
    }

    /// Puts a value at the open path.
    fn insert(&mut self, value: Value) {
        let Some((innermost, outer)) = self.open.split_last_mut() else {
            self.root = Some(value);
            return;
        };
        match Self::descend(&mut self.root, outer) {
            Value::Array(elements) => elements.push(value),
            Value::Object(members) => {
                innermost.is_repeated = members.insert(innermost.key.clone(), value).is_some();
            }
            _ => unreachable!("only containers are open"),
        }
    }

    /// Puts the value of the open token at the open path, in place of its unfinished value.
    fn settle(&mut self, value: Value) {
        if self.is_shown {
            *Self::descend(&mut self.root, &self.open) = value;
        } else {
            self.insert(value);
            self.is_shown = true;
        }
    }

    fn begin_value(&mut self) {
        if let Some(level) = self.open.last_mut() {
            level.begun += 1;
        }
    }

    /// Updates the shown value of a growing number.
    fn show_number(&mut self) {
        const FOLLOWED: usize = 64;
        if self.growing != UnfinishedValues::StringsAndNumbers
            || self.token != Some(ScanToken::Number)
            || self.text.len() > FOLLOWED
        {
            return;
        }
        let complete = self.text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        if let Ok(number) = complete.parse() {
            self.settle(Value::Number(number));
        }
    }
}

struct TreeBuilder<'b, 's> {
    tree: &'b mut GrowingTree,
    sink: &'b mut ProgressSink<'s>,
    pushed: &'b str,
    /// The position in the pushed text of the part that is nested too deep, if one is open.
    deep_from: usize,
}

impl TreeBuilder<'_, '_> {
    fn tell(&mut self, change: ValueChangeKind<'_>) {
        self.sink.put(ValueChange { path: ValuePath(&self.tree.open), change });
    }

    /// Emits that the value at the open path is complete.
    fn emit_completed(&mut self) {
        let tree = &mut *self.tree;
        let value = GrowingTree::descend(&mut tree.root, &tree.open);
        self.sink.put(ValueChange { path: ValuePath(&tree.open), change: ValueChangeKind::Completed(value) });
    }

    /// Appends the pushed text before `end` to the string that holds the part nested too deep.
    fn grow_deep(&mut self, end: usize) {
        if self.tree.skipped == 0 {
            return;
        }
        let run = self.pushed.get(self.deep_from..end).unwrap_or_default();
        if !run.is_empty() {
            let GrowingTree { root, open, .. } = &mut *self.tree;
            if let Value::String(text) = GrowingTree::descend(root, open) {
                text.push_str(run);
            }
            self.tell(ValueChangeKind::Grew(run));
        }
    }

    /// Appends to the open key or string by `append`, and emits the text that a string got.
    fn grow(&mut self, append: impl FnOnce(&mut String, &mut PendingSurrogate)) {
        let GrowingTree { root, open, token, text, is_shown, surrogate, .. } = &mut *self.tree;
        if *token == Some(ScanToken::Key) {
            let level = open.last_mut().expect("a key stands in an object");
            append(&mut level.key, surrogate);
            return;
        }
        let text = match is_shown.then(|| GrowingTree::descend(root, open)) {
            Some(Value::String(text)) => text,
            _ => text,
        };
        let before = text.len();
        append(text, surrogate);
        if text.len() > before {
            self.sink
                .put(ValueChange { path: ValuePath(open), change: ValueChangeKind::Grew(&text[before..]) });
        }
    }
}

impl ScanVisitor for TreeBuilder<'_, '_> {
    fn open(&mut self, container: JsonContainer, at: usize) {
        if self.tree.skipped > 0 {
            self.tree.skipped += 1;
            return;
        }
        self.tree.begin_value();
        if self.tree.open.len() == PartialValue::MAX_DEPTH {
            self.tree.skipped = 1;
            self.deep_from = at;
            self.tell(ValueChangeKind::Started(JsonKind::String));
            self.tree.insert(Value::String(String::new()));
            return;
        }
        let (kind, value) = match container {
            JsonContainer::Object => (JsonKind::Object, Value::Object(Object::new())),
            JsonContainer::Array => (JsonKind::Array, Value::Array(Array::new())),
        };
        self.tree.insert(value);
        self.tell(ValueChangeKind::Started(kind));
        self.tree.open.push(OpenContainer {
            container,
            begun: 0,
            key: String::new(),
            has_key: false,
            is_repeated: false,
        });
    }

    fn close(&mut self, _: JsonContainer, at: usize) {
        if self.tree.skipped > 1 {
            self.tree.skipped -= 1;
            return;
        }
        if self.tree.skipped == 1 {
            self.grow_deep(at);
            self.tree.skipped = 0;
            self.emit_completed();
            return;
        }
        self.tree.open.pop();
        self.emit_completed();
    }

    fn begin(&mut self, token: ScanToken, _: usize) {
        if self.tree.skipped > 0 {
            return;
        }
        self.tree.token = Some(token);
        self.tree.is_shown = false;
        self.tree.text.clear();
        let kind = match token {
            ScanToken::Key => {
                let level = self.tree.open.last_mut().expect("a key stands in an object");
                level.key.clear();
                level.has_key = false;
                return;
            }
            ScanToken::String => JsonKind::String,
            ScanToken::Number => JsonKind::Number,
            ScanToken::Literal(JsonLiteral::Null) => JsonKind::Null,
            ScanToken::Literal(JsonLiteral::True | JsonLiteral::False) => JsonKind::Bool,
        };
        self.tree.begin_value();
        self.tell(ValueChangeKind::Started(kind));
        if token == ScanToken::String && self.tree.growing != UnfinishedValues::Hidden {
            self.tree.settle(Value::String(String::new()));
        }
    }

    fn text(&mut self, run: &str) {
        if self.tree.skipped > 0 {
            return;
        }
        if self.tree.token == Some(ScanToken::Number) {
            self.tree.text.push_str(run);
            self.tell(ValueChangeKind::Grew(run));
        } else {
            self.grow(|text, surrogate| {
                surrogate.flush_into(text);
                text.push_str(run);
            });
        }
    }

    fn escape(&mut self, unit: u16, _: usize) {
        if self.tree.skipped == 0 {
            self.grow(|text, surrogate| push_unit(unit, text, surrogate));
        }
    }

    fn end(&mut self, token: ScanToken, _: usize) {
        if self.tree.skipped > 0 {
            return;
        }
        let value = match token {
            ScanToken::Key | ScanToken::String => {
                self.grow(|text, surrogate| surrogate.flush_into(text));
                if token == ScanToken::Key {
                    let level = self.tree.open.last_mut().expect("a key stands in an object");
                    level.has_key = true;
                    self.tree.token = None;
                    return;
                }
                (!self.tree.is_shown).then(|| Value::String(std::mem::take(&mut self.tree.text)))
            }
            // The scanner lets only numbers end.
            ScanToken::Number => Some(Value::Number(Number::trusted(&self.tree.text))),
            ScanToken::Literal(JsonLiteral::Null) => Some(Value::Null),
            ScanToken::Literal(literal) => Some(Value::Bool(literal == JsonLiteral::True)),
        };
        if let Some(value) = value {
            self.tree.settle(value);
        }
        self.tree.token = None;
        self.emit_completed();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#" {"a": [1, -2.5e+3, true, null, "x\u00e9\ud83d\ude00\"]}"], "b": {"c": {}}, "big": 12345678901234567890123, "a": "again", "": false} "#;

    /// The events of a push for each piece, adjacent growth merged.
    fn events(pieces: &[&str]) -> Vec<String> {
        let mut events: Vec<String> = Vec::new();
        let mut partial = PartialValue::new(UnfinishedValues::Strings);
        let mut take = |progress: ValueChange<'_>| {
            let path = progress.path.to_string();
            match progress.change {
                ValueChangeKind::Started(kind) => events.push(format!("{path} started {kind:?}")),
                ValueChangeKind::Completed(value) => events.push(format!("{path} completed {value}")),
                ValueChangeKind::Grew(text) => match events.last_mut() {
                    Some(last) if last.starts_with(&format!("{path} grew ")) => last.push_str(text),
                    _ => events.push(format!("{path} grew {text}")),
                },
            }
        };
        for piece in pieces {
            partial.push_to(piece, &mut take);
        }
        partial.finish_to(&mut take);
        events
    }

    #[test]
    fn the_whole_value_is_serde_jsons_at_any_cut() {
        let expected: Value = TEXT.parse().expect("the text is JSON");
        for growing in
            [UnfinishedValues::Hidden, UnfinishedValues::Strings, UnfinishedValues::StringsAndNumbers]
        {
            for cut in 0..=TEXT.len() {
                let mut partial = PartialValue::new(growing);
                partial.push(&TEXT[..cut]);
                partial.push(&TEXT[cut..]);
                assert_eq!(partial.value().map(Value::to_string), Some(expected.to_string()), "cut at {cut}");
            }
        }
    }

    #[test]
    fn events_are_the_same_at_any_cut() {
        let whole = events(&[TEXT]);
        for cut in 0..=TEXT.len() {
            assert_eq!(events(&[&TEXT[..cut], &TEXT[cut..]]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn paths_say_where() {
        let list = events(&[r#"{"items": [{"name": "ab"}, 7], "a b": 1}"#]);
        let expected = [
            "$ started Object",
            "$.items started Array",
            "$.items[0] started Object",
            "$.items[0].name started String",
            "$.items[0].name grew ab",
            r#"$.items[0].name completed "ab""#,
            r#"$.items[0] completed {"name":"ab"}"#,
            "$.items[1] started Number",
            "$.items[1] grew 7",
            "$.items[1] completed 7",
            r#"$.items completed [{"name":"ab"},7]"#,
            r#"$["a b"] started Number"#,
            r#"$["a b"] grew 1"#,
            r#"$["a b"] completed 1"#,
            r#"$ completed {"items":[{"name":"ab"},7],"a b":1}"#,
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn policies_differ_in_the_unfinished_only() {
        let shown = |text: &str| {
            [UnfinishedValues::Hidden, UnfinishedValues::Strings, UnfinishedValues::StringsAndNumbers].map(
                |growing| {
                    let mut partial = PartialValue::new(growing);
                    partial.push(text);
                    partial.into_value().unwrap_or("nothing".into())
                },
            )
        };
        assert_eq!(shown(r#"["a", "b"#), [json!(["a"]), json!(["a", "b"]), json!(["a", "b"])]);
        assert_eq!(shown("[1, 2"), [json!([1]), json!([1]), json!([1, 2])]);
        assert_eq!(shown("[1, -"), [json!([1]), json!([1]), json!([1])]);
        assert_eq!(shown("[2.5e"), [json!([]), json!([]), json!([2.5])]);
        assert_eq!(shown("[tru"), [json!([]), json!([]), json!([])]);
        assert_eq!(shown(r#"{"a": 1, "b"#), [json!({"a": 1}), json!({"a": 1}), json!({"a": 1})]);
        assert_eq!(shown(r#"{"a": 1, "b":"#), [json!({"a": 1}), json!({"a": 1}), json!({"a": 1})]);
        assert_eq!(shown("12"), [json!("nothing"), json!("nothing"), json!(12)]);
    }

    #[test]
    fn what_is_nested_too_deep_is_left_out() {
        let text = format!("[{}1{}, 2]", "[".repeat(1000), "]".repeat(1000));
        let mut partial = PartialValue::default();
        assert_eq!(partial.push(&text), text.len());
        assert_eq!(partial.status(), ScanStatus::Complete);
        assert_eq!(partial.value().and_then(|value| value.get(1)), Some(&2.into()));
    }

    #[test]
    fn a_lone_half_becomes_a_replacement_character() {
        let mut partial = PartialValue::default();
        partial.push(r#"["\ud83d x", "\ude00", "\ud83d"]"#);
        assert_eq!(partial.into_value(), Some(json!(["\u{fffd} x", "\u{fffd}", "\u{fffd}"]).into()));
    }

    #[test]
    fn the_path_names_the_open_key() {
        let mut partial = PartialValue::default();
        partial.push(r#"{"a": [0, {"b": "#);
        assert_eq!(partial.path().to_string(), "$.a[1].b");
    }
}
