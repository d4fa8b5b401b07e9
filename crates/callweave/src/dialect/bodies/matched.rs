//! Calls that a registered function finds between two markers.

use super::super::markers::Found;
use super::super::matcher::Matched;
use super::super::spec::Body;
use super::{Context, Token};
use crate::event::Completion;

/// Reads the calls between one pair of markers.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Reader {
    /// How much of the text holds no closer.
    seen: usize,
    /// What is still to be told: tokens, with the names and arguments.
    tokens: Option<std::vec::IntoIter<(Token, String)>>,
}

impl Reader {
    /// The function is given whole texts, so that nothing comes as it is written.
    pub(super) fn is_in_string(&self) -> bool {
        false
    }

    pub(super) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Some(tokens) = &mut self.tokens else { return self.find(text, context) };
        match tokens.next() {
            Some((Token::Name(len), name)) => context.named(len, &name),
            Some((Token::Converted(len), arguments)) => {
                context.ended = Some(Completion::Whole);
                context.made(len, &arguments)
            }
            Some((token, _)) => token,
            None => Token::Done,
        }
    }

    fn find(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Body::Matched(matcher) = &context.form.form.body else { return Token::Fail };
        let len = match context.form.closers.find(&text[self.seen..], context.is_last) {
            Found::Marker { at, .. } => self.seen + at,
            Found::Nothing if context.is_last => text.len(),
            Found::Nothing => {
                self.seen = text.len();
                return Token::More;
            }
            Found::Perhaps(at) => {
                self.seen += at;
                return Token::More;
            }
        };
        let calls = match matcher.find(&text[..len]) {
            Ok(calls) if !calls.is_empty() => calls,
            Ok(_) => return Token::Fail,
            Err(detail) => {
                *context.complaint = Some(detail);
                return Token::Fail;
            }
        };
        let (mut tokens, mut told) = (Vec::new(), 0);
        for Matched { start, end, name, arguments } in calls {
            let arguments = if arguments.is_empty() { "{}".to_owned() } else { arguments };
            tokens.push((Token::Markup(start - told), String::new()));
            tokens.push((Token::Name(0), name));
            tokens.push((Token::Converted(end - start), arguments));
            told = end;
        }
        tokens.push((Token::Markup(len - told), String::new()));
        self.tokens = Some(tokens.into_iter());
        Token::Markup(0)
    }
}
