//! The settings of a response: tools, sampling, reasoning and form.

use serde::{Deserialize, Serialize};

use super::{CacheMark, CallKind, RequestMembers, RetainedFields};
use crate::json::{Number, Object, Value};

/// The sampling of tokens, and the number of responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SamplingSettings {
    /// The temperature of sampling.
    pub temperature: Option<Number>,
    /// Sampling from the likeliest tokens that make up this probability.
    pub top_p: Option<Number>,
    /// Sampling from this number of the likeliest tokens.
    pub top_k: Option<Number>,
    /// Sampling from tokens with at least this probability, relative to the likeliest.
    pub min_p: Option<Number>,
    /// A penalty for tokens by their frequency so far.
    pub frequency_penalty: Option<Number>,
    /// A penalty for tokens that occurred at all.
    pub presence_penalty: Option<Number>,
    /// A penalty for tokens that occurred, as a factor.
    pub repetition_penalty: Option<Number>,
    /// The seed: the same seed gives the same response.
    pub seed: Option<Number>,
    /// The number of responses.
    pub choices: Option<Number>,
    /// Tokens that are made likelier or less so.
    pub logit_bias: Option<Object>,
    /// Whether the response has the log probabilities of its tokens.
    pub logprobs: Option<bool>,
    /// The number of alternative tokens with log probabilities.
    pub top_logprobs: Option<Number>,
}

/// The settings of the model's reasoning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReasoningSettings {
    /// Whether the model reasons.
    pub mode: Option<ReasoningMode>,
    /// The effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    pub effort: Option<String>,
    /// The maximum length of the reasoning, in tokens.
    pub budget: Option<Number>,
    /// Whether and how the reasoning is summarized: `auto`, `concise`, `detailed`; `none`.
    pub summary: Option<String>,
    /// Whether the reasoning is to come encrypted, too, so that it can be sent back. Set for providers that want to be
    /// asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wants_encrypted: bool,
}

/// Whether a model reasons.
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

/// The settings of summing up a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CompactionSettings {
    /// The number of tokens at which the conversation is summed up; as the provider likes, if none.
    pub threshold: Option<Number>,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestTool {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// Its kind.
    pub kind: ToolKind,
    /// Whether the arguments must fit the schema.
    pub strict: Option<bool>,
    /// The mark that everything up to here is worth caching.
    pub cache: Option<Box<CacheMark>>,
    /// Extra fields of the protocol.
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
    /// The provider runs it; the wire's own type of it. All about it is in [`RequestTool::retained`].
    Builtin(String),
    /// A group of tools under one name.
    Group(Vec<RequestTool>),
}

/// The grammar of a free text.
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
        /// The kind of the tool.
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

/// The form that a response must have.
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
        /// The name of the schema.
        name: Option<String>,
        /// Its purpose.
        description: Option<String>,
        /// The schema.
        schema: Value,
        /// Whether the response must fit.
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
    /// Takes the mode by the name that several wires share.
    pub(crate) fn read(members: &mut RequestMembers, path: &str) -> Option<Self> {
        let all = [Self::On, Self::Off, Self::Adaptive];
        all.into_iter().find(|mode| members.constant(path, mode.word()))
    }

    /// The name of the mode that several wires share.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::On => "enabled",
            Self::Off => "disabled",
            Self::Adaptive => "adaptive",
        }
    }
}
