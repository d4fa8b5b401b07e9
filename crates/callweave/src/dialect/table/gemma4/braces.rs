//! Calls as a name and an object with bare keys: `call:name{key:value}`.

use crate::dialect::markers::MarkerMatch;
use serde::Deserialize;

use crate::dialect::spec::{CallBody, one_or_many};
use crate::dialect::bodies::literal::{LOOK_AHEAD, LiteralReader, LiteralProgress, LiteralSyntax};
use crate::dialect::bodies::{BodyContext, BodyToken, head, leading_space};
use crate::event::BlockCompletion;

/// See [`CallBody::Braces`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BracesBody {
    /// The markers that may stand before the name.
    #[serde(deserialize_with = "one_or_many")]
    pub before: Vec<String>,
    /// The token on both sides of a string.
    pub quote: String,
}

const LONGEST_NAME: usize = 256;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct BracesReader {
    at: BracesState,
    literal: Option<LiteralReader>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BracesState {
    #[default]
    Before,
    Name,
    Open,
    Members,
    Done,
}

impl BracesReader {
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == BracesState::Members && self.literal.as_ref().is_some_and(LiteralReader::is_in_string)
    }

    pub(in crate::dialect) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let CallBody::Braces(body) = &context.form.form.body else { return BodyToken::Fail };
        match self.at {
            BracesState::Members => self.members(text, body, context),
            BracesState::Before => self.before(text, context),
            BracesState::Name => self.name(text, context),
            BracesState::Open => self.open(text, context),
            BracesState::Done => BodyToken::Done,
        }
    }

    fn before(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        match context.form.before.starting(text, context.is_last) {
            MarkerMatch::Marker { len, .. } => {
                self.at = BracesState::Name;
                BodyToken::Markup(len)
            }
            MarkerMatch::Perhaps(_) => BodyToken::More,
            MarkerMatch::Nothing => {
                self.at = BracesState::Name;
                self.name(text, context)
            }
        }
    }

    fn name(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let window = head(text, LONGEST_NAME);
        let len = match context.form.ends.find(window, context.is_last && window.len() == text.len()) {
            MarkerMatch::Marker { at, .. } => at,
            MarkerMatch::Perhaps(at) if at <= LONGEST_NAME => return BodyToken::More,
            MarkerMatch::Nothing if text.len() <= LONGEST_NAME && !context.is_last => return BodyToken::More,
            _ => return BodyToken::Fail,
        };
        let name = text[..len].trim();
        if len > LONGEST_NAME || !context.may_name(name) {
            return BodyToken::Fail;
        }
        self.at = BracesState::Open;
        context.named(len, name)
    }

    fn open(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        if text.starts_with(['{', '(']) {
            let is_python = text.starts_with('(');
            self.literal = Some(if is_python { LiteralReader::arguments() } else { LiteralReader::members() });
            self.at = BracesState::Members;
            return context.made(1, "{");
        }
        self.at = BracesState::Done;
        context.ended = Some(BlockCompletion::Complete);
        BodyToken::NoArguments(0)
    }

    #[inline]
    fn members(&mut self, text: &str, body: &BracesBody, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(literal) = &mut self.literal else { return BodyToken::Fail };
        let schema = context.tools.schema(context.name);
        let syntax = LiteralSyntax { quote: &body.quote, schema, form: Some(context.form), ..LiteralSyntax::default() };
        let (token, ended) = literal.token(text, syntax, context);
        if ended.is_some() {
            self.at = BracesState::Done;
            context.ended = ended;
        }
        if token == BodyToken::Fail {
            // The closer ends an unreadable body.
            literal.close(context.scratch);
            self.at = BracesState::Done;
            context.ended = Some(BlockCompletion::Truncated);
            return BodyToken::Converted(0);
        }
        token
    }
}

/// Reads on in a string between tokens of the dialect's own: this much of `text` is data, or a token of that length
/// ends it.
pub(in crate::dialect) fn string_piece(text: &str, syntax: LiteralSyntax<'_>) -> LiteralProgress {
    let bytes = text.as_bytes();
    // A brace may be the call's, and the token forgotten.
    match memchr::memchr2(syntax.quote.as_bytes()[0], b'}', bytes).unwrap_or(bytes.len()) {
        0 if bytes.is_empty() => LiteralProgress::More,
        0 if bytes[0] == b'}' => {
            match syntax.form.map_or(Some(false), |form| form.is_closed_by(text, syntax.is_last)) {
                None => LiteralProgress::More,
                Some(false) => LiteralProgress::Took(1),
                Some(true) => LiteralProgress::Done(0),
            }
        }
        0 if text.starts_with(syntax.quote) => LiteralProgress::Done(syntax.quote.len()),
        0 if !syntax.is_last && syntax.quote.starts_with(text) => LiteralProgress::More,
        0 => LiteralProgress::Took(text.chars().next().map_or(0, char::len_utf8)),
        run => LiteralProgress::Took(run),
    }
}

/// Whether `text` begins with a bare key and its colon. `None`: more text is needed.
pub(in crate::dialect) fn begins_key(text: &str) -> Option<bool> {
    let bytes = text.as_bytes();
    let rest = bytes[..bytes.len().min(LOOK_AHEAD)].trim_ascii_start();
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | 0x80..);
    let name = rest.iter().take_while(is_name).count();
    match rest[name..].trim_ascii_start().first() {
        Some(behind) => Some(name > 0 && *behind == b':'),
        None if bytes.len() > LOOK_AHEAD => Some(false),
        None => None,
    }
}
