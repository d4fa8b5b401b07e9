//! One upstream: who answers, and what is done to its answers.

use std::time::Duration;

use callweave::protocol::{self, Protocol};
use serde::Deserialize;

/// One upstream. A provider is a row of this.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Upstream {
    /// Its base URL: `http://127.0.0.1:8000/v1`; `demo:` for scripted models. What it has behind a `?` is sent with
    /// every request.
    #[serde(alias = "base_url")]
    pub url: String,
    /// The protocol it speaks.
    pub protocol: String,
    /// The environment variable that holds its key. Where none is named, the client's own key is sent on.
    #[serde(alias = "api_key_env")]
    pub key_env: Option<String>,
    /// Whose rules requests must keep, where the protocol is spoken by many.
    pub provider: Option<String>,
    /// The models it has, for lists; it is asked for them if none are named.
    pub models: Vec<String>,
    /// How calls are read from its text: `auto`, a dialect's name, `model` for the dialect of the model, `none`.
    pub dialect: String,
    /// Whether thoughts are taken out of its text; they are if its text is read at all.
    pub reasoning: Option<bool>,
    /// How it is told of tools.
    pub tools: Teaching,
    /// Whether arguments that are not quite JSON are repaired.
    pub repair: bool,
    /// What is done with the schemas of tools.
    pub schema: Check,
    /// What is done with a call that stays invalid.
    pub invalid: OnInvalid,
    /// How often the model is asked again, at most.
    pub ask_again: u32,
    /// How often a request is sent again that failed before the first byte of its answer.
    pub retries: u32,
    /// How many requests may be sent again for each that is sent; ten are always saved up at first.
    pub retry_share: f64,
    /// Whether a request is sent again whose answer came, but broke off or cannot be read: it may be paid twice.
    pub retry_broken: bool,
    /// Whether it is stopped after calls; it is not if nobody says.
    pub stop_after_tools: Option<bool>,
    /// After which call.
    pub stop_after_tools_mode: Option<StopMode>,
    /// How long the next call is waited for, in mode `all`.
    pub stop_after_tools_grace_ms: Option<u64>,
    /// Whether what is said after calls is left out.
    pub suppress_tail_after_tools: Option<bool>,
    /// Whether the model may call several tools at once; without a word, as the client wants.
    pub parallel_tool_calls: Option<bool>,
}

/// How a model is told of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Teaching {
    /// As its protocol has it.
    #[default]
    Native,
    /// In words, in the prompt: it calls in its text.
    Prompt,
}

/// What is done with the schemas of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Nothing.
    Off,
    /// Arguments that do not fit are invalid.
    Validate,
    /// Arguments are fitted; those that still do not fit are invalid.
    #[default]
    Coerce,
}

/// What is done with a call that stays invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInvalid {
    /// It is passed on, and marked.
    #[default]
    Pass,
    /// The client gets an error in place of the answer.
    Error,
    /// The model is told what is wrong, and asked again; a call that is still invalid then is passed on.
    AskAgain,
}

/// When an upstream is stopped after calls. What is not said of it is asked of the environment, under the names that
/// [`Environment::stop`](super::Environment::stop) lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stop {
    /// Whether it is stopped.
    pub is_on: Option<bool>,
    /// After which call.
    pub mode: Option<StopMode>,
    /// How long the next call is waited for, in mode `all`; in milliseconds.
    pub grace_ms: Option<u64>,
    /// Whether what is said after calls is left out.
    pub suppress_tail: Option<bool>,
    /// Whether the model may call several tools at once.
    pub parallel: Option<bool>,
}

/// After which call an upstream is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// At the end of the first.
    #[default]
    First,
    /// When no other has begun for a while.
    All,
}

impl Stop {
    /// How long the next call is waited for.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms.unwrap_or(300))
    }

    /// What is said here, or else there.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            is_on: self.is_on.or(other.is_on),
            mode: self.mode.or(other.mode),
            grace_ms: self.grace_ms.or(other.grace_ms),
            suppress_tail: self.suppress_tail.or(other.suppress_tail),
            parallel: self.parallel.or(other.parallel),
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            url: String::new(),
            protocol: protocol::OPENAI_CHAT.name.to_owned(),
            key_env: None,
            provider: None,
            models: Vec::new(),
            dialect: "auto".to_owned(),
            reasoning: None,
            tools: Teaching::Native,
            repair: true,
            schema: Check::default(),
            invalid: OnInvalid::default(),
            ask_again: 2,
            retries: 2,
            retry_share: 0.2,
            retry_broken: false,
            stop_after_tools: None,
            stop_after_tools_mode: None,
            stop_after_tools_grace_ms: None,
            suppress_tail_after_tools: None,
            parallel_tool_calls: None,
        }
    }
}

/// What the URL of scripted models begins with.
const SCRIPTED: &str = "demo:";

impl Upstream {
    /// An upstream that speaks a protocol at a base URL, with everything on that makes calls better.
    pub fn at(url: impl Into<String>, protocol: &Protocol) -> Self {
        Self { url: url.into(), protocol: protocol.name.to_owned(), ..Self::default() }
    }

    /// The scripted models.
    pub fn demo() -> Self {
        Self { url: SCRIPTED.to_owned(), ..Self::default() }
    }

    /// Whether it plays scripts.
    pub fn is_demo(&self) -> bool {
        self.url.starts_with(SCRIPTED)
    }

    /// The protocol it speaks; that of a scripted model is its own.
    pub fn protocol(&self) -> Option<&'static Protocol> {
        Protocol::named(&self.protocol)
    }

    /// Whether thoughts are taken out of its text.
    pub fn splits_reasoning(&self) -> bool {
        self.reasoning.unwrap_or(self.dialect != "none")
    }

    /// When it is stopped after calls.
    pub fn stop(&self) -> Stop {
        Stop {
            is_on: self.stop_after_tools,
            mode: self.stop_after_tools_mode,
            grace_ms: self.stop_after_tools_grace_ms,
            suppress_tail: self.suppress_tail_after_tools,
            parallel: self.parallel_tool_calls,
        }
    }
}
