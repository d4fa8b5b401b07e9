//! How the model is to answer: what it may call, how it chooses tokens, how much it thinks, in what form it speaks.

use serde::{Deserialize, Serialize};

use super::{CacheMark, CallKind, RequestMembers, RetainedFields};
use crate::json::{Number, Object, Value};

/// How tokens are chosen, and how many answers there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SamplingSettings {
    /// How freely.
    pub temperature: Option<Number>,
    /// From the likeliest that make up this much.
    pub top_p: Option<Number>,
    /// From this many.
    pub top_k: Option<Number>,
    /// From those at least this likely, next to the likeliest.
    pub min_p: Option<Number>,
    /// Against what was said often.
    pub frequency_penalty: Option<Number>,
    /// Against what was said at all.
    pub presence_penalty: Option<Number>,
    /// Against what was said, by a factor.
    pub repetition_penalty: Option<Number>,
    /// The same again for the same seed.
    pub seed: Option<Number>,
    /// How many answers.
    pub choices: Option<Number>,
    /// Tokens that are made likelier or less so.
    pub logit_bias: Option<Object>,
    /// Whether the answer tells how likely its tokens were.
    pub logprobs: Option<bool>,
    /// And how many others.
    pub top_logprobs: Option<Number>,
}

/// How much the model is to think before it speaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReasoningSettings {
    /// Whether it thinks.
    pub mode: Option<ReasoningMode>,
    /// How hard: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    pub effort: Option<String>,
    /// How long, in tokens.
    pub budget: Option<Number>,
    /// Whether and how its thoughts are told: `auto`, `concise`, `detailed`; `none`.
    pub summary: Option<String>,
    /// Whether it is to come encrypted, too, so that it can be given back. Set for providers that want to be asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wants_encrypted: bool,
}

/// Whether a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningMode {
    /// It does not.
    Off,
    /// It does.
    On,
    /// It decides by itself.
    Adaptive,
}

/// When a conversation is summed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CompactionSettings {
    /// From how many tokens on; when the provider likes, if none.
    pub threshold: Option<Number>,
}

/// What the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// What kind it is.
    pub kind: ToolKind,
    /// Whether the arguments must fit the schema.
    pub strict: Option<bool>,
    /// That everything up to here is worth caching.
    pub cache: Option<Box<CacheMark>>,
    /// What only the protocol knows.
    #[serde(default)]
    pub retained: RetainedFields,
}

/// Kinds of [`RequestTool`]s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolKind {
    /// The client runs it; its arguments are JSON, described by a schema.
    Function {
        /// The schema of the arguments.
        schema: Option<Value>,
    },
    /// The client runs it; its argument is free text.
    Custom {
        /// The grammar of the text.
        grammar: Option<TextGrammar>,
    },
    /// The provider runs it; the wire's word for it. All about it is in [`RequestTool::retained`].
    Builtin(String),
    /// A group of tools under one name.
    Group(Vec<RequestTool>),
}

/// What a free text must look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextGrammar {
    /// Its language: `lark`, `regex`; `text` for any text.
    pub syntax: String,
    /// The grammar.
    pub definition: String,
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// It may.
    Auto,
    /// It must not.
    None,
    /// It must.
    Required,
    /// It must call this one.
    Tool {
        /// The tool's name.
        name: String,
        /// What kind of tool it is.
        kind: CallKind,
    },
    /// It may call only these.
    Allowed {
        /// The tools' names.
        names: Vec<String>,
        /// Whether it must call one of them.
        is_required: bool,
    },
}

/// What form an answer must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputFormat {
    /// Text.
    Text,
    /// Some JSON object.
    Json,
    /// JSON that fits a schema.
    Schema {
        /// What it is called.
        name: Option<String>,
        /// What it is for.
        description: Option<String>,
        /// The schema.
        schema: Value,
        /// Whether the answer must fit.
        strict: Option<bool>,
    },
}

impl RequestTool {
    /// A tool.
    pub fn new(name: impl Into<String>, kind: ToolKind) -> Self {
        Self {
            name: name.into(),
            description: None,
            kind,
            strict: None,
            cache: None,
            retained: RetainedFields::default(),
        }
    }
}

impl ReasoningMode {
    /// Takes the word for it that several wires share.
    pub(crate) fn read(members: &mut RequestMembers, path: &str) -> Option<Self> {
        let all = [Self::On, Self::Off, Self::Adaptive];
        all.into_iter().find(|mode| members.constant(path, mode.word()))
    }

    /// The word for it that several wires share.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::On => "enabled",
            Self::Off => "disabled",
            Self::Adaptive => "adaptive",
        }
    }
}
