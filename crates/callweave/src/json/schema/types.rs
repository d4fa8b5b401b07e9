//! The JSON types that a schema allows for a value.

use std::fmt;
use std::ops::{BitAnd, BitOr};

use crate::json::Value;

/// A set of JSON types.
///
/// `integer` and `number` are distinguished as JSON Schema does: where a `number` is allowed an integer is too, where
/// only an `integer` is allowed a fraction is not.
///
/// ```
/// use callweave::json::schema::Schema;
///
/// let schema = Schema::new(&serde_json::json!({
///     "properties": {"zip": {"type": "string"}, "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
/// }));
/// assert!(schema.property("zip").is_only_string());
/// let count = schema.property("count");
/// assert!(count.allows_integer() && count.allows_null() && !count.allows_string());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeSet(u8);

const NAMES: [(TypeSet, &str); 7] = [
    (TypeSet::NULL, "null"),
    (TypeSet::BOOLEAN, "boolean"),
    (TypeSet::INTEGER, "integer"),
    (TypeSet::FRACTION, "fraction"),
    (TypeSet::STRING, "string"),
    (TypeSet::ARRAY, "array"),
    (TypeSet::OBJECT, "object"),
];

impl TypeSet {
    /// No type: nothing is allowed.
    pub const NONE: Self = Self(0);
    /// `null`
    pub const NULL: Self = Self(1);
    /// `true` and `false`
    pub const BOOLEAN: Self = Self(2);
    /// Numbers without a fraction.
    pub const INTEGER: Self = Self(4);
    /// Numbers with a fraction.
    const FRACTION: Self = Self(8);
    /// All numbers.
    pub const NUMBER: Self = Self(4 | 8);
    /// Strings.
    pub const STRING: Self = Self(16);
    /// Arrays.
    pub const ARRAY: Self = Self(32);
    /// Objects.
    pub const OBJECT: Self = Self(64);
    /// Every type: the schema says nothing.
    pub const ANY: Self = Self(127);

    /// The types that a schema's `type` keyword names. Besides the standard's names these are the ones that tool
    /// authors carry over from their languages, in any case (`STRING`, `int`, `dict`); an unknown name restricts
    /// nothing.
    pub(crate) fn named(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "null" | "none" => Self::NULL,
            "boolean" | "bool" => Self::BOOLEAN,
            "integer" | "int" | "int32" | "int64" | "long" => Self::INTEGER,
            "number" | "float" | "double" | "decimal" => Self::NUMBER,
            "string" | "str" | "text" => Self::STRING,
            "array" | "list" | "tuple" | "set" => Self::ARRAY,
            "object" | "dict" | "map" => Self::OBJECT,
            _ => Self::ANY,
        }
    }

    /// The narrowest set that holds `value`.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if is_integer(number.as_str()) => Self::INTEGER,
            Value::Number(_) => Self::FRACTION,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Whether every type of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the sets have a type in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing is allowed.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Whether every type is allowed: the schema says nothing.
    pub fn is_any(self) -> bool {
        self == Self::ANY
    }

    /// Whether a string is allowed.
    pub fn allows_string(self) -> bool {
        self.contains(Self::STRING)
    }

    /// Whether every number is allowed.
    pub fn allows_number(self) -> bool {
        self.contains(Self::NUMBER)
    }

    /// Whether an integer is allowed (it is wherever a number is).
    pub fn allows_integer(self) -> bool {
        self.contains(Self::INTEGER)
    }

    /// Whether a boolean is allowed.
    pub fn allows_boolean(self) -> bool {
        self.contains(Self::BOOLEAN)
    }

    /// Whether `null` is allowed.
    pub fn allows_null(self) -> bool {
        self.contains(Self::NULL)
    }

    /// Whether an array is allowed.
    pub fn allows_array(self) -> bool {
        self.contains(Self::ARRAY)
    }

    /// Whether an object is allowed.
    pub fn allows_object(self) -> bool {
        self.contains(Self::OBJECT)
    }

    /// Whether a string is allowed and nothing else.
    pub fn is_only_string(self) -> bool {
        self == Self::STRING
    }

    /// The set without the types of `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Whether a number as JSON writes it has no fraction: `1.0` and `1e3` are integers to JSON Schema.
pub(super) fn is_integer(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return true;
    }
    number.parse::<f64>().is_ok_and(|number| number.is_finite() && number.fract() == 0.0)
}

impl BitOr for TypeSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for TypeSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<Self> for TypeSet {
    fn from_iter<I: IntoIterator<Item = Self>>(sets: I) -> Self {
        sets.into_iter().fold(Self::NONE, |all, set| all | set)
    }
}

impl fmt::Display for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        let mut separator = "";
        for (types, name) in NAMES {
            let name = match types {
                Self::INTEGER if self.allows_number() => "number",
                Self::FRACTION if self.allows_number() => continue,
                _ => name,
            };
            if self.contains(types) {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        if separator.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

impl fmt::Debug for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Types({self})")
    }
}
