//! Grammars of channels: every piece of the text stands in a message whose header says what it is.

use serde::Deserialize;

/// The built-in grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channels {
    /// gpt-oss: `<|start|>assistant<|channel|>analysis to=… <|message|>…<|end|>`.
    Harmony,
    /// Muse: `<|start|>assistant to=…<|message|>…<|eom|>`.
    Muse,
    /// Inkling: `<|message_model|>name<|content_…|>…<|end_message|>`.
    Inkling,
    /// Functionary 3.2: `>>>recipient\n…`.
    Functionary,
}
