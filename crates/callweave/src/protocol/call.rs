//! A call in one object: `{"index", "id", "type", "function": {"name", "arguments"}}`, in any spelling.

use super::{is_kind, is_usual};
use crate::event::CallKind;
use crate::fragment::FragmentArguments;
use crate::json::{JsonKind, Str, TapeNode};

/// The member names of such objects; of several for one thing, the first that is there counts.
#[derive(Clone, Copy, Debug)]
pub struct CallWords {
    /// Members that hold the id.
    pub id: &'static [&'static str],
    /// Members that hold the number.
    pub index: &'static [&'static str],
    /// Objects that hold name and arguments; the object of a custom tool is always `custom`.
    pub wrappers: &'static [&'static str],
    /// Members that hold the arguments, beside a wrapper or without any.
    pub arguments: &'static [&'static str],
    /// Members that hold the arguments inside a wrapper.
    pub wrapped: &'static [&'static str],
}

/// The contents of such an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallObject<'t> {
    /// The id; `""` is none.
    pub id: Option<Str<'t>>,
    /// The number, as written.
    pub index: Option<TapeNode<'t>>,
    /// The name, or a piece of it; `""` is none.
    pub name: Option<Str<'t>>,
    /// The kind of call: function or custom.
    pub kind: CallKind,
    /// The arguments, a value of any kind.
    pub arguments: Option<TapeNode<'t>>,
}

/// Whether arguments come in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPortion {
    /// The arguments are a new piece.
    Piece,
    /// The arguments are complete, whether or not their pieces came before.
    Complete,
}

impl<'t> CallObject<'t> {
    /// Reads such an object. Every member that is not read is handed to `rest`, with the path down to it.
    ///
    /// ```
    /// use callweave::json::Tape;
    /// use callweave::protocol::{CHAT_CALL, CallObject};
    ///
    /// let mut tape = Tape::new();
    /// let call = tape.parse(r#"{"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}, "x": 1}"#)?;
    /// let mut rest = Vec::new();
    /// let call = CallObject::read(call, &CHAT_CALL, |_, key, _| rest.push(key.to_owned()));
    /// assert!(call.name.is_some_and(|name| name.is("look")));
    /// assert_eq!(rest, ["x"]);
    /// # Ok::<(), callweave::Error>(())
    /// ```
    #[inline(always)]
    pub fn read(
        call: TapeNode<'t>,
        words: &CallWords,
        mut rest: impl FnMut(&'static str, &'t str, TapeNode<'t>),
    ) -> Self {
        let mut read = Self::default();
        // The ranks of the member names found so far.
        let (mut id_rank, mut index_rank) = (usize::MAX, usize::MAX);
        for (key, value) in call.members() {
            let rank = |words: &[&str]| words.iter().position(|wire_type| *wire_type == key);
            if let Some(rank) = rank(words.index) {
                if rank < index_rank && !value.is_null() {
                    (read.index, index_rank) = (Some(value), rank);
                }
            } else if let Some(rank) = rank(words.id).filter(|_| is_kind(value, JsonKind::String)) {
                if let Some(id) = value.filled().filter(|_| rank < id_rank) {
                    (read.id, id_rank) = (Some(id), rank);
                }
            } else if words.wrappers.contains(&key) && is_kind(value, JsonKind::Object) {
                // Snowflake writes two wrappers, and one of them empty.
                let is_told = value.members().any(|(_, member)| !is_blank(member));
                let is_other = |wire_type: &&&str| **wire_type != key && call.get(wire_type).is_some();
                if is_told || !words.wrappers.iter().any(|wire_type| is_other(&wire_type)) {
                    read.enter(key, value, words, &mut rest);
                }
            } else if key == "type" && (is_usual(value, &["function", "custom"]) || value.is_null()) {
                if value.str().is_some_and(|wire_type| wire_type.is("custom")) {
                    read.kind = CallKind::Custom;
                }
            } else if key == "name" && is_kind(value, JsonKind::String) {
                read.name = read.name.or(value.filled());
            } else if words.arguments.contains(&key) {
                if read.arguments.is_none_or(is_blank) {
                    read.arguments = Some(value);
                }
            } else {
                rest("", key, value);
            }
        }
        read
    }

    #[inline(always)]
    fn enter(
        &mut self,
        key: &str,
        wrapper: TapeNode<'t>,
        words: &CallWords,
        rest: &mut impl FnMut(&'static str, &'t str, TapeNode<'t>),
    ) {
        if key == "custom" && !wrapper.is_null() {
            self.kind = CallKind::Custom;
        }
        for (key, value) in wrapper.members() {
            if key == "name" && is_kind(value, JsonKind::String) {
                self.name = value.filled().or(self.name);
            } else if words.wrapped.contains(&key) {
                if self.arguments.is_none() || !is_blank(value) {
                    self.arguments = Some(value);
                }
            } else {
                rest("function.", key, value);
            }
        }
    }

    /// Returns the arguments in the form of a fragment: a text, or (some servers) an object. An empty piece says
    /// nothing, since the name beside it may still grow.
    pub fn told(&self, portion: CallPortion) -> Option<FragmentArguments<'t>> {
        self.arguments.and_then(|value| arguments(value, portion))
    }
}

/// Returns argument text, or the arguments as another value, in the form of a fragment.
pub(super) fn arguments(value: TapeNode<'_>, portion: CallPortion) -> Option<FragmentArguments<'_>> {
    match value.kind() {
        JsonKind::Null => None,
        JsonKind::String if portion == CallPortion::Complete => {
            value.opaque().map(FragmentArguments::Complete)
        }
        JsonKind::String => value.opaque_filled().map(FragmentArguments::Text),
        _ => Some(FragmentArguments::Value(value.opaque_json())),
    }
}

/// Whether it is null or an empty text, list or object.
pub(super) fn is_blank(value: TapeNode<'_>) -> bool {
    match value.kind() {
        JsonKind::Null => true,
        JsonKind::String => !value.is_filled(),
        JsonKind::Array => value.elements().next().is_none(),
        JsonKind::Object => value.members().next().is_none(),
        JsonKind::Bool | JsonKind::Number => false,
    }
}
