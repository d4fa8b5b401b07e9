//! Calls as a name and an object with bare keys: `call:name{key:value}`.

use super::super::markers::{Found, Markers};
use super::super::spec::Braces;
use super::literal::{Literal, Syntax};
use super::{Context, Token, head, leading_space};
use crate::event::Completion;

const LONGEST_NAME: usize = 256;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
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
    Over(Completion),
    Done,
}

impl Reader {
    /// See [`super::Reader::is_in_argument`].
    pub(super) fn is_in_argument(&self) -> bool {
        self.at == At::Members
    }

    #[inline]
    pub(super) fn is_in_string(&self) -> bool {
        self.is_in_argument() && self.literal.as_ref().is_some_and(Literal::is_in_string)
    }

    pub(super) fn next(&mut self, text: &str, body: &Braces, context: &mut Context<'_>) -> Token {
        match self.at {
            At::Members => self.members(text, body, context),
            At::Before => self.before(text, body, context),
            At::Name => self.name(text, context),
            At::Open => self.open(text, context),
            At::Over(completion) => {
                self.at = At::Done;
                Token::End(completion)
            }
            At::Done => Token::Done,
        }
    }

    fn before(&mut self, text: &str, body: &Braces, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        let before = Markers::from_texts(body.before.iter().map(String::as_str), ());
        match before.starting(text, context.is_last) {
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
        let mut ends = Markers::from_texts(context.form.form.close.iter().map(String::as_str), ());
        ends.add("{", ());
        let window = head(text, LONGEST_NAME);
        let len = match ends.find(window, context.is_last && window.len() == text.len()) {
            Found::Marker { at, .. } => at,
            Found::Perhaps(at) if at <= LONGEST_NAME => return Token::More,
            Found::Nothing if text.len() <= LONGEST_NAME && !context.is_last => return Token::More,
            _ => return Token::Fail,
        };
        let name = text[..len].trim();
        if name.is_empty() || len > LONGEST_NAME || name.contains(['\n', '<', '>', '"', ' ']) {
            return Token::Fail;
        }
        context.name.clear();
        context.name.push_str(name);
        self.at = At::Open;
        Token::Name(len)
    }

    fn open(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        if text.starts_with('{') {
            context.scratch.push('{');
            self.literal = Some(Literal::members());
            self.at = At::Members;
            return Token::Converted(1);
        }
        context.scratch.push_str("{}");
        self.at = At::Over(Completion::Whole);
        Token::Converted(0)
    }

    #[inline]
    fn members(&mut self, text: &str, body: &Braces, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        let schema = context.tools.schema(context.name);
        let syntax = Syntax { quote: &body.quote, schema, ..Syntax::default() };
        let (token, ended) = literal.token(text, syntax, context);
        if let Some(completion) = ended {
            self.at = At::Over(completion);
        }
        if token == Token::Fail {
            // Whatever this is, the closer ends it.
            literal.close(context.scratch);
            self.at = At::Over(Completion::Cut);
            return Token::Converted(0);
        }
        token
    }
}
