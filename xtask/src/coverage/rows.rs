//! The list of paths: `protocol ⇥ what ⇥ …` where *what* is `root.path:kind`, `root.path=word`, `EV:name` or
//! `STR:text`. The root is the name of the frame or `$`, and a list's elements are `[]`.

use std::fmt;

use callweave::json::Value;
use callweave::protocol::Protocol;

/// One line of the list.
pub(crate) struct Row {
    pub(crate) protocol: String,
    text: String,
    pub(crate) what: What,
    /// The recording in which it was seen.
    pub(crate) example: String,
}

/// The thing that was seen.
pub(crate) enum What {
    /// A value of some kind at a path that begins with a frame's name.
    Value { path: String, kind: String },
    /// A certain word at a path.
    Word { path: String, word: String },
    /// A frame of that name.
    Frame(String),
    /// A frame that is this text instead of JSON.
    Text(String),
    /// A null, an empty text, list or object.
    Nothing,
}

impl Row {
    pub(crate) fn read(line: &str) -> Result<Self, String> {
        let mut fields = line.split('\t');
        let (Some(protocol), Some(text)) = (fields.next(), fields.next()) else {
            return Err(format!("not a row of the list: {line}"));
        };
        let example = fields.next_back().unwrap_or_default();
        Ok(Self::new(protocol, text, example))
    }

    pub(crate) fn new(protocol: &str, text: &str, example: &str) -> Self {
        let what = What::read(text);
        Self { protocol: protocol.into(), text: text.into(), what, example: example.into() }
    }

    /// The protocol that decodes it.
    pub(crate) fn decoder(&self) -> Option<&'static Protocol> {
        Protocol::named(&self.protocol)
    }

    /// Whether its protocol says that it says nothing about the response.
    pub(crate) fn is_volatile(&self) -> bool {
        let (What::Value { path, .. } | What::Word { path, .. }) = &self.what else { return false };
        let name = path.rsplit('.').next().unwrap_or(path);
        self.decoder().is_some_and(|protocol| protocol.volatile.contains(&name))
    }
}

impl What {
    fn read(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("EV:") {
            return Self::Frame(name.into());
        }
        if let Some(text) = text.strip_prefix("STR:") {
            return Self::Text(text.into());
        }
        if text.ends_with(":empty") || text.ends_with(":null") {
            return Self::Nothing;
        }
        if let Some((path, word)) = text.split_once('=') {
            return Self::Word { path: path.into(), word: word.into() };
        }
        match text.rsplit_once(':') {
            Some((path, kind)) => Self::Value { path: path.into(), kind: kind.into() },
            None => Self::Nothing,
        }
    }

    /// The path, without the frame's name `root`, if it begins with that.
    pub(crate) fn path_below<'w>(&'w self, root: &str) -> Option<&'w str> {
        let (Self::Value { path, .. } | Self::Word { path, .. }) = self else { return None };
        let rest = path.strip_prefix(root)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
    }

    /// Whether `value` is what was seen.
    pub(crate) fn is(&self, value: &Value) -> bool {
        match self {
            Self::Value { kind, .. } => kind_of(value) == kind || kind == "dict" && value.is_object(),
            Self::Word { word, .. } => match value {
                Value::String(text) => text == word,
                Value::Number(number) => number.as_str() == word,
                Value::Bool(is) => word == if *is { "true" } else { "false" },
                Value::Null | Value::Array(_) | Value::Object(_) => false,
            },
            Self::Frame(_) | Self::Text(_) | Self::Nothing => false,
        }
    }

    /// A value as it was seen, for a made frame.
    pub(crate) fn sample(&self) -> Value {
        match self {
            Self::Word { word, .. } => word.as_str().into(),
            Self::Value { kind, .. } => match kind.as_str() {
                "str" => "sample".into(),
                "num" => 7.into(),
                "bool" => true.into(),
                "list" => vec!["sample"].into(),
                _ => Value::object([("sample", "sample".into())]),
            },
            Self::Frame(_) | Self::Text(_) | Self::Nothing => Value::Null,
        }
    }
}

/// The list's word for the kind of a value.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "num",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "obj",
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.protocol, self.text)
    }
}
