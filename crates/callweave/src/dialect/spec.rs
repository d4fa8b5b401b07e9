//! The parts of a dialect: data, built in code or read from a file.

use serde::{Deserialize, Deserializer};

use super::channel::ChannelGrammar;
use super::matcher::CallMatcher;
use super::table::{
    gemma4::braces::BracesBody, minimax_m3::elements::ElementsBody, use_tool::fields::FieldsBody,
};

/// How one family of models writes reasoning and tool calls into its text.
///
/// Built in code with the methods below, or read with serde (from TOML, JSON, …); every field but
/// the name has a default. Markers are plain text; `{suffix}` inside one stands for an optional
/// `:word`, because some vocabularies put one into all their tags, `{word}` for an optional name, and
/// `{numbers}` for numbers with commas, colons and brackets between them.
///
/// ```
/// use callweave::dialect::{Dialect, CallForm};
///
/// let dialect = Dialect::new("tilde")
///     .reasoning("<think>", "</think>")
///     .form(CallForm::json().between("~~~call", "~~~"));
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
    /// How reasoning begins and ends.
    #[serde(alias = "thoughts")]
    pub reasoning: Vec<ReasoningMarkers>,
    /// How a call inside reasoning is read.
    #[serde(alias = "calls_in_thoughts")]
    pub calls_in_reasoning: CallsInReasoning,
    /// The kind of text that a response begins with, unless the caller says otherwise.
    pub starts_in: TextStart,
    /// How calls are written.
    pub forms: Vec<CallForm>,
    /// Special tokens that are never text: they are taken out wherever they stand outside a call.
    pub markup: Vec<String>,
    /// The end of the prompt, where it belongs to the visible text: the text is shown behind it.
    pub continues: String,
    /// A grammar of channels, for the few dialects that are more than markers.
    pub channels: Option<ChannelGrammar>,
    /// A short text in this dialect. Calls that are written back into a prompt follow its layout.
    pub example: String,
    /// How the result of a call is given back in a prompt, with `{name}`, `{id}` and `{content}` in it.
    pub result: String,
    /// How tools are declared in a prompt, with one of these in it: `{tools}` for a line of JSON for each, `{list}` for
    /// a JSON list, `{namespace}` for types as TypeScript has them. Empty: in words.
    pub declaration: String,
}

/// The markers around reasoning.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReasoningMarkers {
    /// The markers that open it.
    #[serde(deserialize_with = "one_or_many")]
    pub open: Vec<String>,
    /// The markers that end it.
    #[serde(deserialize_with = "one_or_many")]
    pub close: Vec<String>,
}

/// How a call inside reasoning is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsInReasoning {
    /// A call; it ends the reasoning.
    #[default]
    End,
    /// Something the model quotes: part of the reasoning.
    Quoted,
}

/// The kind of text that a response begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextStart {
    /// Visible text.
    #[default]
    Text,
    /// Reasoning that the prompt has already opened.
    Reasoning,
}

/// One way to write calls: markers around a body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallForm {
    /// The markers before the body. None: the body itself is the only sign, and counts only where it cannot be prose.
    #[serde(deserialize_with = "one_or_many")]
    pub open: Vec<String>,
    /// The markers that may stand after the body.
    #[serde(deserialize_with = "one_or_many")]
    pub close: Vec<String>,
    /// Whether several calls are written under one opener. They are read that way in any case.
    pub is_shared: bool,
    /// How the calls themselves are written.
    pub body: CallBody,
}

/// How calls are written between a form's markers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallBody {
    /// A JSON object per call, or a list of them: `{"name": …, "arguments": …}`.
    Json(JsonBody),
    /// The name, a separator, and the arguments as JSON: `name<sep>{…}`.
    Header(HeaderBody),
    /// The name in a tag, each parameter in a tag of its own.
    Tagged(TaggedBody),
    /// Python calls: `[name(key=value), …]`, or between markers one per line.
    Python {},
    /// The name and an object with bare keys: `call:name{key:value}`.
    Braces(BracesBody),
    /// The name in a tag, the arguments as nested elements.
    Elements(ElementsBody),
    /// One element whose children are the name and the arguments, or fields that become arguments.
    Fields(FieldsBody),
    /// The name in a tag, each parameter in an element of its own name: `<write_file><path>a</path></write_file>`. Only
    /// where all of them are declared.
    Children(ChildrenBody),
    /// The calls that a registered function finds. Without markers the function is given the complete text, and nothing
    /// is shown before its end.
    #[serde(skip)]
    Matched(CallMatcher),
}

impl Default for CallBody {
    fn default() -> Self {
        Self::Json(JsonBody::default())
    }
}

/// See [`CallBody::Json`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JsonBody {
    /// Keys that hold the name. None: it is itself the key, `{"NAME": {arguments}}`.
    pub name: Vec<String>,
    /// Keys that hold the arguments.
    pub arguments: Vec<String>,
    /// Keys that hold the call's id.
    pub id: Vec<String>,
    /// Whether a name alone is a call.
    pub arguments_optional: bool,
}

/// See [`CallBody::Header`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderBody {
    /// The markers that may stand before the name. Where the form's opener is missing, a word of these is enough.
    #[serde(deserialize_with = "one_or_many")]
    pub before: Vec<String>,
    /// The markers that end the name, besides the `{` of the arguments.
    #[serde(deserialize_with = "one_or_many")]
    pub after: Vec<String>,
    /// The marker between the name and the call's id, where one may follow.
    pub id: Option<String>,
}

/// See [`CallBody::Tagged`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaggedBody {
    /// The tag that holds the name. Its `open` empty: the name stands bare, up to the first parameter.
    pub call: NamedTag,
    /// The markers that end the call.
    #[serde(deserialize_with = "one_or_many")]
    pub call_close: Vec<String>,
    /// The tag that holds a parameter's name.
    pub parameter: NamedTag,
    /// Other spellings of the parameter's tag, which a call may mix. They count where the tool has the parameter; if
    /// [`parameter`](Self::parameter) is one of them, for any parameter.
    pub spellings: Vec<NamedTag>,
    /// A tag that stands between the parameter's name and its value, where the name has a tag of its own.
    pub value_open: String,
    /// The marker that ends a value: a special token wherever it stands, any other text where the frame goes on after
    /// it.
    pub value_close: String,
    /// The attribute that gives the type of a value: by its name, or where the attribute is called `string`, whether it
    /// is one. None: the schema gives it.
    pub type_attribute: Option<String>,
    /// Whether values stand on lines of their own: a line break on either side belongs to the frame.
    pub is_on_lines: bool,
    /// Whether values may hold character entities and CDATA sections.
    pub entities: bool,
}

/// See [`CallBody::Children`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChildrenBody {
    /// The tag that holds the name. Its `open` empty: the tag is the name itself, `<NAME>`.
    pub call: NamedTag,
    /// The marker that ends the call. Empty: `</NAME>`.
    pub call_close: String,
}

/// A tag with a name in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamedTag {
    /// How it begins.
    pub open: String,
    /// The attribute that holds the name; none: the name stands right after the beginning.
    pub attribute: Option<String>,
    /// How it ends.
    pub end: String,
}

pub(super) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
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
    /// A dialect without reasoning or calls.
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

    /// Adds all parts of another dialect, besides its names.
    #[must_use]
    pub fn extending(mut self, base: Self) -> Self {
        self.reasoning.extend(base.reasoning);
        self.forms.extend(base.forms);
        self.markup.extend(base.markup);
        self.calls_in_reasoning = base.calls_in_reasoning;
        self.channels = self.channels.or(base.channels);
        if self.example.is_empty() {
            self.example = base.example;
        }
        if self.result.is_empty() {
            self.result = base.result;
        }
        if self.declaration.is_empty() {
            self.declaration = base.declaration;
        }
        self
    }

    /// Adds a pair of markers around reasoning.
    #[must_use]
    pub fn reasoning(mut self, open: &str, close: &str) -> Self {
        self.reasoning.push(ReasoningMarkers { open: vec![open.to_owned()], close: vec![close.to_owned()] });
        self
    }

    /// Says that calls written inside reasoning are quoted there.
    #[must_use]
    pub fn quotes_calls_in_reasoning(mut self) -> Self {
        self.calls_in_reasoning = CallsInReasoning::Quoted;
        self
    }

    /// Says that the text begins inside reasoning.
    #[must_use]
    pub fn starts_in_reasoning(mut self) -> Self {
        self.starts_in = TextStart::Reasoning;
        self
    }

    /// Adds a way to write calls.
    #[must_use]
    pub fn form(mut self, form: CallForm) -> Self {
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
    pub fn channels(mut self, channels: ChannelGrammar) -> Self {
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

    /// Sets how tools are declared.
    #[must_use]
    pub fn declaration(mut self, template: &str) -> Self {
        self.declaration = template.to_owned();
        self
    }
}

impl CallForm {
    /// Calls written in this body.
    pub fn new(body: CallBody) -> Self {
        Self { body, ..Self::default() }
    }

    /// Calls written as JSON objects with the usual keys.
    pub fn json() -> Self {
        Self::new(CallBody::Json(JsonBody::default()))
    }

    /// Calls that a registered function finds.
    pub fn matched(matcher: CallMatcher) -> Self {
        Self::new(CallBody::Matched(matcher))
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
}

impl HeaderBody {
    /// A name ended by any of these.
    pub fn until<const N: usize>(after: [&str; N]) -> Self {
        Self { after: own(after), ..Self::default() }
    }
}

impl NamedTag {
    /// A tag with the name right after its beginning: `<function=NAME>`.
    pub fn direct(open: &str, end: &str) -> Self {
        Self { open: open.to_owned(), attribute: None, end: end.to_owned() }
    }

    /// A tag with the name in an attribute: `<invoke name="NAME">`.
    pub fn with_attribute(open: &str, attribute: &str, end: &str) -> Self {
        Self { open: open.to_owned(), attribute: Some(attribute.to_owned()), end: end.to_owned() }
    }
}
