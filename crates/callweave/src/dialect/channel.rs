//! Grammars of channels: every piece of the text stands in a message whose header says what it is.

use serde::Deserialize;

use super::markers::{MarkerMatch, MarkerSet};
use super::table;
use super::tools::Tools;
use crate::event::CallKind;

/// The built-in grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChannelGrammar {
    /// gpt-oss: `<|start|>assistant<|channel|>analysis to=… <|message|>…<|end|>`.
    Harmony,
    /// Muse: `<|start|>assistant to=…<|message|>…<|eom|>`.
    Muse,
    /// Functionary 3.2: `>>>recipient\n…`.
    Functionary,
}

/// The rules of a grammar of channels.
#[derive(Debug)]
pub(super) struct ChannelRules {
    /// The tokens that begin a header.
    pub(super) starts: &'static [&'static str],
    /// The token that ends a header.
    pub(super) header_end: &'static str,
    /// The tokens that end a message.
    pub(super) ends: &'static [&'static str],
    /// The beginning of the text where the prompt has already begun the header.
    pub(super) begins_with: Option<&'static str>,
    /// Whether a message goes on until it is ended, regardless of its content.
    pub(super) is_quoting: bool,
    /// Whether its headers cannot be mistaken for anything else.
    pub(super) is_distinct: bool,
    /// Returns the route that a header names.
    pub(super) route: fn(&str, &Tools) -> MessageRoute,
    /// How messages are written.
    pub(super) notation: MessageNotation,
}

/// How messages of the model are written: the markers on either side of their content.
#[derive(Debug)]
pub(crate) struct MessageNotation {
    /// The beginning of every message but the first, which the prompt has begun.
    pub(crate) begin: &'static str,
    /// Around visible text.
    pub(crate) text: (&'static str, &'static str),
    /// Around the arguments of the tool `{name}`, or the calls in the dialect's form.
    pub(crate) call: (&'static str, &'static str),
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageRoute {
    Text,
    Thought,
    /// Arguments of the tool whose name stands at these bytes of the header.
    Call {
        start: usize,
        end: usize,
        kind: CallKind,
    },
    /// Calls in the dialect's forms.
    Calls,
    /// A payload for nobody.
    Nothing,
}

/// The maximum length of a header.
pub(super) const LONGEST_HEADER: usize = 512;

impl ChannelGrammar {
    /// The grammars stand beside the dialects that have them.
    pub(super) fn grammar(self) -> &'static ChannelRules {
        match self {
            Self::Harmony => &table::harmony::GRAMMAR,
            Self::Muse => &table::muse_glimmer::GRAMMAR,
            Self::Functionary => &table::functionary_v32::GRAMMAR,
        }
    }

    /// Returns how messages are written.
    pub(crate) fn notation(self) -> &'static MessageNotation {
        &self.grammar().notation
    }
}

impl ChannelRules {
    /// Whether a text that begins like this may begin inside a header. `None`: more text is needed.
    pub(super) fn may_begin_in_header(&self, text: &str, tools: &Tools, is_last: bool) -> Option<bool> {
        let Some(begin) = self.begins_with else { return Some(false) };
        let rest = text.trim_start_matches(' ');
        if text.len() - rest.len() > LONGEST_HEADER {
            return Some(false);
        }
        if rest.len() < begin.len() {
            return if begin.starts_with(rest) && !is_last { None } else { Some(false) };
        }
        let Some(recipient) = rest.strip_prefix(begin) else { return Some(false) };
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        let len = recipient.bytes().take_while(is_name).count();
        let after = recipient[len..].trim_start_matches(' ');
        if len == 0 && !after.is_empty() || len > LONGEST_HEADER {
            return Some(false);
        }
        // The end of the header, or another of its tokens, may follow.
        let tokens = [self.header_end].into_iter().chain(self.starts.iter().copied());
        match MarkerSet::new().with(tokens, ()).starting(after, is_last) {
            // A word alone on the first line calls what was declared, or else stands before an object.
            MarkerMatch::Marker { len: end, .. } => match after[end..].bytes().next() {
                _ if !begin.is_empty()
                    || (self.route)(recipient[..len].trim(), tools) == MessageRoute::Text =>
                {
                    Some(true)
                }
                _ if !tools.is_empty() => Some(tools.contains(&recipient[..len])),
                None if !is_last => None,
                next => Some(next == Some(b'{')),
            },
            MarkerMatch::Perhaps(_) => None,
            MarkerMatch::Nothing if after.is_empty() && !is_last => None,
            // The end of the header is lost; the tool that it calls was declared.
            MarkerMatch::Nothing if after.starts_with('{') && !begin.is_empty() => {
                Some(tools.find(&recipient[..len]).is_some())
            }
            MarkerMatch::Nothing => Some(false),
        }
    }
}
