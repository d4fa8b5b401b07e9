//! Values in memory.

mod build;
mod format;
mod number;
mod object;
mod outside;
mod walk;

use std::borrow::Cow;
use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) use self::build::ValueBuilder;
pub use self::number::Number;
pub use self::object::Object;
pub use self::outside::AsValue;
pub(super) use self::walk::{ValueWalk, WalkStep};
use super::{Tape, TapeNode};
use crate::error::{Error, ErrorKind, Result};

/// A JSON value in memory that keeps its written form.
///
/// It looks and feels like `serde_json::Value`, with two differences that need no feature of that
/// crate, since a feature would change the types of everybody else in the same build: members keep their
/// order, and a [`Number`] is its text, so `1.50`, `1e5` and `12345678901234567890123` stay what they are.
///
/// ```
/// use callweave::json::Value;
///
/// let value: Value = r#"{"zip": 1.50, "at": [12345678901234567890123, null]}"#.parse()?;
/// assert_eq!(value["zip"].as_f64(), Some(1.5));
/// assert_eq!(value["at"][1], Value::Null);
/// assert_eq!(value.to_string(), r#"{"zip":1.50,"at":[12345678901234567890123,null]}"#);
///
/// // `serde_json::Value` goes in, can be compared, and comes out, as far as it can hold the value.
/// let built = Value::from(serde_json::json!({"zip": 1.5}));
/// assert_eq!(built, serde_json::json!({"zip": 1.5}));
/// assert_eq!(serde_json::Value::from(built)["zip"], 1.5);
///
/// // A value becomes a type of your own.
/// let numbers: Vec<f64> = Value::from_iter([1, 2]).parse()?;
/// assert_eq!(numbers, [1.0, 2.0]);
/// # Ok::<(), callweave::Error>(())
/// ```
///
/// - Equality is that of the written form: members in any order, numbers by their text. `1.0` is not `1`; compare
///   [`Number::as_f64`] where the amount counts. (`serde_json` distinguishes these two as well.)
/// - Of two members with the same key the later one counts, in the place of the earlier.
/// - Code that walks a value recurses, so text that nests more than [`Value::MAX_DEPTH`] containers is refused. Where
///   nothing can be refused (a provider's value, [`Serialize`], the conversion to `serde_json::Value`), a value nested
///   too deeply is a string of its JSON text.
/// - A value that was put together by hand may be of any depth: copying, comparing, displaying and dropping
///   it takes no stack.
#[derive(Default)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(Number),
    /// A string.
    String(String),
    /// A list of values.
    Array(Array),
    /// Members in their order.
    Object(Object),
}

/// The elements of an array: a `Vec` in all but name, and dropped without recursion.
#[derive(Default)]
pub struct Array(Vec<Value>);

/// A key or an index, which finds a value inside another. Not to be named elsewhere.
pub trait ValueIndex: private::SealedIndex {
    /// The value there.
    fn of(self, value: &Value) -> Option<&Value>;
    /// The value there, to be changed.
    fn of_mut(self, value: &mut Value) -> Option<&mut Value>;
}

mod private {
    pub trait SealedIndex {}
    impl SealedIndex for &str {}
    impl SealedIndex for &String {}
    impl SealedIndex for usize {}
}

impl ValueIndex for &str {
    fn of(self, value: &Value) -> Option<&Value> {
        value.as_object()?.get(self)
    }

    fn of_mut(self, value: &mut Value) -> Option<&mut Value> {
        value.as_object_mut()?.get_mut(self)
    }
}

impl ValueIndex for &String {
    fn of(self, value: &Value) -> Option<&Value> {
        self.as_str().of(value)
    }

    fn of_mut(self, value: &mut Value) -> Option<&mut Value> {
        self.as_str().of_mut(value)
    }
}

impl ValueIndex for usize {
    fn of(self, value: &Value) -> Option<&Value> {
        value.as_array()?.get(self)
    }

    fn of_mut(self, value: &mut Value) -> Option<&mut Value> {
        value.as_array_mut()?.get_mut(self)
    }
}

impl Value {
    /// The maximum depth of containers in a text: as many as `serde_json` reads by default.
    pub const MAX_DEPTH: usize = 127;
    /// The maximum depth of containers in an emitted value of a provider: the text that contains it must be readable,
    /// too.
    pub const TOLD_DEPTH: usize = 100;

    /// Whether a text nests too deeply for a value.
    pub(crate) fn is_too_deep(node: TapeNode<'_>) -> bool {
        node.is_too_deep()
    }

    /// The value of a text, unless it nests too deeply.
    pub(crate) fn of_node(node: TapeNode<'_>) -> Result<Self> {
        if node.is_too_deep() {
            let detail = format!("the JSON text nests more than {} containers", Self::MAX_DEPTH);
            return Err(Error::new(ErrorKind::Limit, detail));
        }
        Ok(node.to_value_within(Self::MAX_DEPTH))
    }

    /// An object of these members.
    ///
    /// ```
    /// # use callweave::json::Value;
    /// let call = Value::object([("name", "look".into()), ("arguments", Value::object([("times", 2.into())]))]);
    /// assert_eq!(call.to_string(), r#"{"name":"look","arguments":{"times":2}}"#);
    /// ```
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().collect())
    }

    /// The value of a JSON text, whatever is in it: see [`TapeNode::to_value`](super::TapeNode::to_value).
    pub(crate) fn of_text(text: &str) -> Self {
        Tape::new().parse(text).map_or_else(|_| text.into(), |node| node.to_value())
    }

    /// The member of that key, or the element at that index.
    pub fn get(&self, place: impl ValueIndex) -> Option<&Self> {
        place.of(self)
    }

    /// The member of that key, or the element at that index, to be changed.
    pub fn get_mut(&mut self, place: impl ValueIndex) -> Option<&mut Self> {
        place.of_mut(self)
    }

    /// The value at a JSON pointer such as `/items/0/name`.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |at, step| match at {
            Self::Object(members) => members.get(&step.replace("~1", "/").replace("~0", "~")),
            Self::Array(elements) => {
                let is_index = step == "0" || !step.starts_with(['0', '+']);
                is_index.then(|| step.parse().ok()).flatten().and_then(|index: usize| elements.get(index))
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => None,
        })
    }

    /// Converts a value of another type to JSON.
    ///
    /// ```
    /// # use callweave::json::Value;
    /// assert_eq!(Value::of(&Some([1.5]))?.to_string(), "[1.5]");
    /// # Ok::<(), callweave::Error>(())
    /// ```
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self> {
        serde_json::to_string(value)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?
            .parse()
    }

    /// The value as a type of your own.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.to_string())
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()).at(error.column() as u64))
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether it is a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Whether it is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// The number, if it is one that is written as an integer and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The number, if it is one that is written as an integer and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number, if it is one: the nearest float.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The elements, if it is an array.
    pub fn as_array(&self) -> Option<&Array> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The elements, if it is an array, to be changed.
    pub fn as_array_mut(&mut self) -> Option<&mut Array> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// The members, if it is an object, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// Takes the value out; null stays in its place.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// A value that may be walked by recursion: a value nested too deeply becomes a string of its JSON text.
pub(crate) fn bounded(whole: &Value) -> Cow<'_, Value> {
    let mut open = vec![(whole, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > Value::MAX_DEPTH {
            let text = whole.to_string();
            let mut tape = Tape::new();
            let told = tape.parse(&text).map(|node| node.to_value_within(Value::TOLD_DEPTH));
            return Cow::Owned(told.unwrap_or(Value::String(text.clone())));
        }
        match value {
            Value::Array(elements) => open.extend(elements.iter().map(|element| (element, depth + 1))),
            Value::Object(members) => open.extend(members.iter().map(|(_, value)| (value, depth + 1))),
            _ => {}
        }
    }
    Cow::Borrowed(whole)
}

/// Nested no more deeply than [`Value::MAX_DEPTH`].
impl TryFrom<TapeNode<'_>> for Value {
    type Error = Error;

    fn try_from(node: TapeNode<'_>) -> Result<Self> {
        Self::of_node(node)
    }
}

/// One JSON value with nothing but white space around it, nested no more deeply than [`Value::MAX_DEPTH`].
/// A lone half of a surrogate pair becomes U+FFFD.
impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::of_node(Tape::new().parse(text)?)
    }
}

/// Reads a [`Value`] that must be an object.
impl FromStr for Object {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse()? {
            Value::Object(members) => Ok(members),
            _ => Err(Error::new(ErrorKind::Invalid, "the JSON text is not an object")),
        }
    }
}

/// A missing member or element is null.
impl<P: ValueIndex> Index<P> for Value {
    type Output = Self;

    fn index(&self, place: P) -> &Self {
        self.get(place).unwrap_or(&Self::Null)
    }
}

/// A missing member is made, and null becomes an object for it.
///
/// # Panics
///
/// If the value is neither an object nor null.
impl IndexMut<&str> for Value {
    fn index_mut(&mut self, key: &str) -> &mut Self {
        if self.is_null() {
            *self = Self::Object(Object::new());
        }
        let members = self.as_object_mut().expect("only an object has members");
        members.get_or_insert_with(key, || Self::Null)
    }
}

/// # Panics
///
/// If the value is no array that has such an element.
impl IndexMut<usize> for Value {
    fn index_mut(&mut self, index: usize) -> &mut Self {
        self.get_mut(index).expect("only what an array has can be changed")
    }
}

impl Array {
    /// An array without elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// The elements as a vector.
    pub fn into_vec(mut self) -> Vec<Value> {
        std::mem::take(&mut self.0)
    }
}

impl Deref for Array {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        &self.0
    }
}

impl DerefMut for Array {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        &mut self.0
    }
}

impl IntoIterator for Array {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'v> IntoIterator for &'v Array {
    type Item = &'v Value;
    type IntoIter = std::slice::Iter<'v, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'v> IntoIterator for &'v mut Array {
    type Item = &'v mut Value;
    type IntoIter = std::slice::IterMut<'v, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

impl<V: Into<Value>> FromIterator<V> for Array {
    fn from_iter<I: IntoIterator<Item = V>>(elements: I) -> Self {
        Self(elements.into_iter().map(Into::into).collect())
    }
}

impl<V: Into<Value>> FromIterator<V> for Value {
    fn from_iter<I: IntoIterator<Item = V>>(elements: I) -> Self {
        Self::Array(elements.into_iter().collect())
    }
}

impl From<Vec<Value>> for Array {
    fn from(elements: Vec<Value>) -> Self {
        Self(elements)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::Null
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<std::borrow::Cow<'_, str>> for Value {
    fn from(text: std::borrow::Cow<'_, str>) -> Self {
        Self::String(text.into_owned())
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

/// NaN and the infinities become null.
impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).into()
    }
}

impl From<Array> for Value {
    fn from(elements: Array) -> Self {
        Self::Array(elements)
    }
}

impl From<Object> for Value {
    fn from(members: Object) -> Self {
        Self::Object(members)
    }
}

impl<V: Into<Self>> From<Vec<V>> for Value {
    fn from(elements: Vec<V>) -> Self {
        let mut elements: Array = elements.into_iter().collect();
        // They may be in the memory of the collection they were made of, which is larger.
        elements.shrink_to_fit();
        Self::Array(elements)
    }
}

impl From<&[Self]> for Value {
    fn from(elements: &[Self]) -> Self {
        elements.iter().cloned().collect()
    }
}

/// `None` becomes null.
impl<V: Into<Self>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(number.into())
            }
        }

        impl PartialEq<$integer> for Value {
            fn eq(&self, number: &$integer) -> bool {
                self.as_number().is_some_and(|own| *own == Number::from(*number))
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

impl PartialEq<f64> for Value {
    fn eq(&self, number: &f64) -> bool {
        self.as_f64() == Some(*number)
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, truth: &bool) -> bool {
        self.as_bool() == Some(*truth)
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == Some(*text)
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, text: &String) -> bool {
        self.as_str() == Some(text)
    }
}
