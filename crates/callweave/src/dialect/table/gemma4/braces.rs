//! Calls as a name and an object with bare keys: `call:name{key:value}`.

use crate::dialect::markers::Found;
use serde::Deserialize;

use crate::dialect::spec::{Body, one_or_many};
use crate::dialect::bodies::literal::{LOOK_AHEAD, Literal, Piece, Syntax};
use crate::dialect::bodies::{Context, Token, head, leading_space};
use crate::event::Completion;

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

const LONGEST_NAME: usize = 256;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct Reader {
    at: At,
    literal: Option<Literal>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Before,
    Name,
    Open,
    Members,
    Done,
}

impl Reader {
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == At::Members && self.literal.as_ref().is_some_and(Literal::is_in_string)
    }

    pub(in crate::dialect) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Body::Braces(body) = &context.form.form.body else { return Token::Fail };
        match self.at {
            At::Members => self.members(text, body, context),
            At::Before => self.before(text, context),
            At::Name => self.name(text, context),
            At::Open => self.open(text, context),
            At::Done => Token::Done,
        }
    }

    fn before(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        match context.form.before.starting(text, context.is_last) {
            Found::Marker { len, .. } => {
                self.at = At::Name;
                Token::Markup(len)
            }
            Found::Perhaps(_) => Token::More,
            Found::Nothing => {
                self.at = At::Name;
                self.name(text, context)
            }
        }
    }

    fn name(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let window = head(text, LONGEST_NAME);
        let len = match context.form.ends.find(window, context.is_last && window.len() == text.len()) {
            Found::Marker { at, .. } => at,
            Found::Perhaps(at) if at <= LONGEST_NAME => return Token::More,
            Found::Nothing if text.len() <= LONGEST_NAME && !context.is_last => return Token::More,
            _ => return Token::Fail,
        };
        let name = text[..len].trim();
        if len > LONGEST_NAME || !context.may_name(name) {
            return Token::Fail;
        }
        self.at = At::Open;
        context.named(len, name)
    }

    fn open(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        if text.starts_with(['{', '(']) {
            let is_python = text.starts_with('(');
            self.literal = Some(if is_python { Literal::arguments() } else { Literal::members() });
            self.at = At::Members;
            return context.made(1, "{");
        }
        self.at = At::Done;
        context.ended = Some(Completion::Whole);
        Token::NoArguments(0)
    }

    #[inline]
    fn members(&mut self, text: &str, body: &Braces, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        let schema = context.tools.schema(context.name);
        let syntax = Syntax { quote: &body.quote, schema, form: Some(context.form), ..Syntax::default() };
        let (token, ended) = literal.token(text, syntax, context);
        if ended.is_some() {
            self.at = At::Done;
            context.ended = ended;
        }
        if token == Token::Fail {
            // Whatever this is, the closer ends it.
            literal.close(context.scratch);
            self.at = At::Done;
            context.ended = Some(Completion::Cut);
            return Token::Converted(0);
        }
        token
    }
}

/// How a string between tokens of the dialect's own goes on: so much of `text` is data, or what is that long ends
/// it.
pub(in crate::dialect) fn string_piece(text: &str, syntax: Syntax<'_>) -> Piece {
    let bytes = text.as_bytes();
    // A brace may be the call's, and the token forgotten.
    match memchr::memchr2(syntax.quote.as_bytes()[0], b'}', bytes).unwrap_or(bytes.len()) {
        0 if bytes.is_empty() => Piece::More,
        0 if bytes[0] == b'}' => {
            match syntax.form.map_or(Some(false), |form| form.is_closed_by(text, syntax.is_last)) {
                None => Piece::More,
                Some(false) => Piece::Took(1),
                Some(true) => Piece::Done(0),
            }
        }
        0 if text.starts_with(syntax.quote) => Piece::Done(syntax.quote.len()),
        0 if !syntax.is_last && syntax.quote.starts_with(text) => Piece::More,
        0 => Piece::Took(text.chars().next().map_or(0, char::len_utf8)),
        run => Piece::Took(run),
    }
}

/// Whether `text` begins with a bare key and its colon. Nothing: more text is needed.
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
