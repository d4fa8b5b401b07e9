//! Calls as a name and an object with bare keys: `call:name{key:value}`.

use crate::dialect::markers::Found;
use crate::dialect::spec::Braces;
use crate::dialect::bodies::literal::{Literal, Syntax};
use crate::dialect::bodies::{Context, Token, head, leading_space};
use crate::event::Completion;

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
    Over(Completion),
    Done,
}

impl Reader {
    /// Whether what comes is more of an argument.
    pub(in crate::dialect) fn is_in_argument(&self) -> bool {
        self.at == At::Members
    }

    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.is_in_argument() && self.literal.as_ref().is_some_and(Literal::is_in_string)
    }

    pub(in crate::dialect) fn next(&mut self, text: &str, body: &Braces, context: &mut Context<'_>) -> Token {
        match self.at {
            At::Members => self.members(text, body, context),
            At::Before => self.before(text, context),
            At::Name => self.name(text, context),
            At::Open => self.open(text, context),
            At::Over(completion) => {
                self.at = At::Done;
                Token::End(completion)
            }
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
        if text.starts_with(['{', '(']) {
            context.scratch.push('{');
            let is_python = text.starts_with('(');
            self.literal = Some(if is_python { Literal::arguments() } else { Literal::members() });
            self.at = At::Members;
            return Token::Converted(1);
        }
        self.at = At::Over(Completion::Whole);
        Token::NoArguments(0)
    }

    #[inline]
    fn members(&mut self, text: &str, body: &Braces, context: &mut Context<'_>) -> Token {
        let Some(literal) = &mut self.literal else { return Token::Fail };
        let schema = context.tools.schema(context.name);
        let syntax = Syntax { quote: &body.quote, schema, form: Some(context.form), ..Syntax::default() };
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
