//! What a dialect is made of: data, built in code or read from a file.

use serde::{Deserialize, Deserializer};

use super::channel::Channels;
use super::matcher::Matcher;

/// How one family of models writes thoughts and tool calls into its text.
///
/// Built in code with the methods below, or read with serde (from TOML, JSON, …); every field but
/// the name has a default. Markers are plain text; `{suffix}` inside one stands for an optional
/// `:word`, because some vocabularies put one into all their tags, `{word}` for an optional name, and
/// `{numbers}` for numbers with commas, colons and brackets between them.
///
/// ```
/// use callweave::dialect::{Dialect, Form};
///
/// let dialect = Dialect::new("tilde")
///     .thoughts("<think>", "</think>")
///     .form(Form::json().between("~~~call", "~~~"));
/// # assert_eq!(dialect.name, "tilde");
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dialect {
    /// The name it is asked for by.
    pub name: String,
    /// Other names for the same.
    pub aliases: Vec<String>,
    /// Parts of model names that speak it, in any case; the longest match of all dialects wins.
    pub models: Vec<String>,
    /// How thoughts begin and end.
    pub thoughts: Vec<Thought>,
    /// What a call inside a thought is.
    pub calls_in_thoughts: CallsInThoughts,
    /// What the text begins with where nobody says so.
    pub starts_in: Start,
    /// How calls are written.
    pub forms: Vec<Form>,
    /// Special tokens that are never text: they are taken out wherever they stand outside a call.
    pub markup: Vec<String>,
    /// The end of the prompt, where it belongs to the visible text: the text is shown behind it.
    pub continues: String,
    /// A grammar of channels, for the few dialects that are more than markers.
    pub channels: Option<Channels>,
    /// A short text in this dialect. Calls that are written back into a prompt follow its layout.
    pub example: String,
    /// How the result of a call is given back in a prompt, with `{name}`, `{id}` and `{content}` in it.
    pub result: String,
}

/// How a thought begins and ends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thought {
    /// What opens it.
    #[serde(deserialize_with = "one_or_many")]
    pub open: Vec<String>,
    /// What ends it.
    #[serde(deserialize_with = "one_or_many")]
    pub close: Vec<String>,
}

/// What a call inside a thought is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsInThoughts {
    /// A call; it ends the thought.
    #[default]
    End,
    /// Something the model quotes: part of the thought.
    Quoted,
}

/// What a text begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Visible text.
    #[default]
    Text,
    /// A thought that the prompt has already opened.
    Reasoning,
}

/// One way to write calls: markers around a body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Form {
    /// What stands before the body. None: the body itself is the only sign, and counts only where it
    /// cannot be prose.
    #[serde(deserialize_with = "one_or_many")]
    pub open: Vec<String>,
    /// What may stand after the body.
    #[serde(deserialize_with = "one_or_many")]
    pub close: Vec<String>,
    /// What may stand between two bodies under one opener, besides white space.
    #[serde(deserialize_with = "one_or_many")]
    pub separators: Vec<String>,
    /// Whether several calls are written under one opener. They are read that way in any case.
    pub is_shared: bool,
    /// How the calls themselves are written.
    pub body: Body,
}

/// How calls are written between a form's markers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A JSON object per call, or a list of them: `{"name": …, "arguments": …}`.
    Json(Json),
    /// The name, a separator, and the arguments as JSON: `name<sep>{…}`.
    Header(Header),
    /// The name in a tag, each parameter in a tag of its own.
    Tagged(Tagged),
    /// Python calls: `[name(key=value), …]`.
    Python(Python),
    /// The name and an object with bare keys: `call:name{key:value}`.
    Braces(Braces),
    /// The name in a tag, the arguments as nested elements.
    Elements(Elements),
    /// One element whose children are the name and the arguments, or fields that become arguments.
    Fields(Fields),
    /// Whatever a registered function finds. Without markers the function is given the whole text, and
    /// nothing is shown before its end.
    #[serde(skip)]
    Matched(Matcher),
}

impl Default for Body {
    fn default() -> Self {
        Self::Json(Json::default())
    }
}

/// See [`Body::Json`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Json {
    /// Keys that hold the name.
    pub name: Vec<String>,
    /// Keys that hold the arguments.
    pub arguments: Vec<String>,
    /// Keys that hold the call's id.
    pub id: Vec<String>,
    /// Whether the name is itself the key: `{"name": {arguments}}`.
    pub name_is_key: bool,
    /// Whether a name alone is a call.
    pub arguments_optional: bool,
}

impl Default for Json {
    fn default() -> Self {
        let own = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
        Self {
            name: own(&["name", "tool_name", "tool", "function_name"]),
            arguments: own(&["arguments", "parameters", "args", "input", "params", "tool_input"]),
            id: own(&["id", "tool_call_id", "call_id"]),
            name_is_key: false,
            arguments_optional: true,
        }
    }
}

/// See [`Body::Header`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Header {
    /// What may stand before the name.
    #[serde(deserialize_with = "one_or_many")]
    pub before: Vec<String>,
    /// What ends the name. None, or none found: the `{` of the arguments does.
    #[serde(deserialize_with = "one_or_many")]
    pub after: Vec<String>,
    /// What stands between the name and the call's id, where one may follow.
    pub id: Option<String>,
    /// How the name is written.
    pub name: HeaderName,
    /// Whether the brace of the arguments ends the name as well.
    pub brace_ends_name: bool,
}

/// How a header spells the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderName {
    /// As it is.
    #[default]
    Plain,
    /// `functions.NAME:COUNTER`, which is also the call's id.
    Numbered,
}

/// See [`Body::Tagged`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tagged {
    /// The tag that holds the name. Its `open` empty: the name stands bare, up to the first parameter.
    pub call: Tag,
    /// The attribute of that tag which counts the calls, from 1; written, and not needed for reading.
    pub counter: Option<String>,
    /// What ends the call.
    #[serde(deserialize_with = "one_or_many")]
    pub call_close: Vec<String>,
    /// The tag that holds a parameter's name.
    pub parameter: Tag,
    /// A tag that stands between the parameter's name and its value, where the name has a tag of its own.
    pub value_open: String,
    /// What ends a value.
    pub value_close: String,
    /// How the type of a value is told.
    pub types: ValueTypes,
    /// What white space belongs to the frame and not to the value.
    pub trim: Trim,
    /// Whether values may hold character entities and CDATA sections.
    pub entities: bool,
    /// Whether a closer ends a value wherever it stands, or only where the frame goes on after it.
    pub closer: Closer,
}

/// A tag with a name in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tag {
    /// How it begins.
    pub open: String,
    /// The attribute that holds the name; none: the name stands right after the beginning.
    pub attribute: Option<String>,
    /// How it ends.
    pub end: String,
}

/// How the type of a tagged value is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueTypes {
    /// By the declared tool's schema.
    #[default]
    Schema,
    /// By an attribute that is `true` for strings.
    IsString(String),
    /// By an attribute that names the type.
    Named(String),
}

/// What white space around a tagged value belongs to the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trim {
    /// None.
    #[default]
    None,
    /// One line break on either side.
    LineBreak,
}

/// When a closer ends a tagged value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closer {
    /// Always: it is a special token, or part of one.
    #[default]
    Always,
    /// Where another tag of the frame, or the end of the text, follows; else it is data.
    Confirmed,
}

/// See [`Body::Python`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Python {
    /// Whether calls may stand without a list around them, one per line.
    pub bare: bool,
}

/// See [`Body::Braces`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Braces {
    /// What may stand before the name.
    #[serde(deserialize_with = "one_or_many")]
    pub before: Vec<String>,
    /// What stands on both sides of a string.
    pub quote: String,
}

/// See [`Body::Elements`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Elements {
    /// What stands before every tag of the frame.
    pub prefix: String,
    /// The tag that holds the name, without the prefix.
    pub call: Tag,
    /// What ends a call, without the prefix.
    pub call_close: String,
    /// The name of the elements of a list.
    pub item: String,
}

/// See [`Body::Fields`]. The form's opener is the beginning of the tag (`<use_tool`), because the tag may
/// hold the name in an attribute.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fields {
    /// The child that holds the name.
    pub name: String,
    /// The children that hold all arguments as JSON.
    #[serde(deserialize_with = "one_or_many")]
    pub arguments: Vec<String>,
    /// The closing tag.
    pub close: String,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    })
}

fn own<'s>(texts: impl IntoIterator<Item = &'s str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

impl Dialect {
    /// A dialect without thoughts or calls.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Adds other names for it.
    #[must_use]
    pub fn aliases<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.aliases.extend(own(names));
        self
    }

    /// Adds parts of model names that speak it.
    #[must_use]
    pub fn models<const N: usize>(mut self, parts: [&str; N]) -> Self {
        self.models.extend(own(parts));
        self
    }

    /// Adds everything that another dialect is made of, besides its names.
    #[must_use]
    pub fn extending(mut self, base: Self) -> Self {
        self.thoughts.extend(base.thoughts);
        self.forms.extend(base.forms);
        self.markup.extend(base.markup);
        self.calls_in_thoughts = base.calls_in_thoughts;
        self.channels = self.channels.or(base.channels);
        if self.example.is_empty() {
            self.example = base.example;
        }
        if self.result.is_empty() {
            self.result = base.result;
        }
        self
    }

    /// Adds a pair of markers around thoughts.
    #[must_use]
    pub fn thoughts(mut self, open: &str, close: &str) -> Self {
        self.thoughts.push(Thought { open: vec![open.to_owned()], close: vec![close.to_owned()] });
        self
    }

    /// Says that calls written inside thoughts are quoted there.
    #[must_use]
    pub fn quotes_calls_in_thoughts(mut self) -> Self {
        self.calls_in_thoughts = CallsInThoughts::Quoted;
        self
    }

    /// Says that the text begins inside a thought.
    #[must_use]
    pub fn starts_in_reasoning(mut self) -> Self {
        self.starts_in = Start::Reasoning;
        self
    }

    /// Adds a way to write calls.
    #[must_use]
    pub fn form(mut self, form: Form) -> Self {
        self.forms.push(form);
        self
    }

    /// Adds special tokens that are never text.
    #[must_use]
    pub fn markup<const N: usize>(mut self, tokens: [&str; N]) -> Self {
        self.markup.extend(own(tokens));
        self
    }

    /// Sets the end of the prompt that the visible text is shown behind.
    #[must_use]
    pub fn continuing(mut self, text: &str) -> Self {
        self.continues = text.to_owned();
        self
    }

    /// Sets the grammar of channels.
    #[must_use]
    pub fn channels(mut self, channels: Channels) -> Self {
        self.channels = Some(channels);
        self
    }

    /// Sets the short text that shows it.
    #[must_use]
    pub fn example(mut self, text: &str) -> Self {
        self.example = text.to_owned();
        self
    }

    /// Sets how the result of a call is given back.
    #[must_use]
    pub fn result(mut self, template: &str) -> Self {
        self.result = template.to_owned();
        self
    }
}

impl Form {
    /// Calls written in this body.
    pub fn new(body: Body) -> Self {
        Self { body, ..Self::default() }
    }

    /// Calls written as JSON objects with the usual keys.
    pub fn json() -> Self {
        Self::new(Body::Json(Json::default()))
    }

    /// Calls that a registered function finds.
    pub fn matched(matcher: Matcher) -> Self {
        Self::new(Body::Matched(matcher))
    }

    /// Puts markers around the body.
    #[must_use]
    pub fn between(mut self, open: &str, close: &str) -> Self {
        self.open.push(open.to_owned());
        self.close.push(close.to_owned());
        self
    }

    /// Adds an opener.
    #[must_use]
    pub fn open(mut self, open: &str) -> Self {
        self.open.push(open.to_owned());
        self
    }

    /// Adds a closer.
    #[must_use]
    pub fn close(mut self, close: &str) -> Self {
        self.close.push(close.to_owned());
        self
    }

    /// Says that several calls are written under one opener.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Adds what may stand between two bodies.
    #[must_use]
    pub fn separators<const N: usize>(mut self, separators: [&str; N]) -> Self {
        self.separators.extend(own(separators));
        self
    }
}

impl Header {
    /// A name ended by any of these.
    pub fn until<const N: usize>(after: [&str; N]) -> Self {
        Self { after: own(after), ..Self::default() }
    }
}

impl Tagged {
    /// `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`, every tag with this prefix.
    pub fn invoke(prefix: &str) -> Self {
        Self {
            call: Tag::with_attribute(&format!("<{prefix}invoke"), "name", ">"),
            call_close: vec![format!("</{prefix}invoke>")],
            parameter: Tag::with_attribute(&format!("<{prefix}parameter"), "name", ">"),
            value_close: format!("</{prefix}parameter>"),
            closer: Closer::Confirmed,
            ..Self::default()
        }
    }

    /// `<function=NAME><parameter=KEY>VALUE</parameter></function>`, each on its own line.
    pub fn function() -> Self {
        Self {
            call: Tag::direct("<function=", ">"),
            call_close: vec!["</function>".to_owned()],
            parameter: Tag::direct("<parameter=", ">"),
            value_close: "</parameter>".to_owned(),
            trim: Trim::LineBreak,
            closer: Closer::Confirmed,
            ..Self::default()
        }
    }
}

impl Tag {
    /// A tag with the name right after its beginning: `<function=NAME>`.
    pub fn direct(open: &str, end: &str) -> Self {
        Self { open: open.to_owned(), attribute: None, end: end.to_owned() }
    }

    /// A tag with the name in an attribute: `<invoke name="NAME">`.
    pub fn with_attribute(open: &str, attribute: &str, end: &str) -> Self {
        Self { open: open.to_owned(), attribute: Some(attribute.to_owned()), end: end.to_owned() }
    }
}
